//! The least that an event of a large simulation costs on this machine: a wheel of buckets, and a
//! number of cache lines at random places that each event reads and writes, fetched ahead by the
//! processor alone. Prints nanoseconds per event.
//!
//! `rustc -O benches/floor.rs -o target/floor && target/floor`

use std::time::Instant;

/// A generator of numbers (Marsaglia 2003, xorshift64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below as u64) as usize
    }
}

const EVENTS: usize = 4_000_000;
const NOBODY: u32 = u32::MAX;

/// Time of an event with `components` pending ones, each of which has `lines` lines of its own.
fn event(components: usize, lines: usize) -> f64 {
    let mut numbers = Numbers(88_172_645_463_325_252);
    let mut memory = vec![[1_u64; 8]; components * lines];
    let mut places: Vec<u32> = (0..memory.len() as u32).collect();
    for i in (1..places.len()).rev() {
        places.swap(i, numbers.next(i + 1));
    }
    let buckets = components.next_power_of_two().max(64);
    let (mut first, mut behind) = (vec![NOBODY; buckets], vec![NOBODY; components]);
    for id in 0..components {
        let bucket = numbers.next(components);
        behind[id] = std::mem::replace(&mut first[bucket], id as u32);
    }
    let began = Instant::now();
    let (mut now, mut done) = (0, 0);
    while done < EVENTS {
        let mut id = std::mem::replace(&mut first[now % buckets], NOBODY);
        while id != NOBODY {
            for place in &places[id as usize * lines..][..lines] {
                let line = &mut memory[*place as usize];
                line[1] = line[1].wrapping_add(line[2] + now as u64);
            }
            // Half to one and a half times as long ahead as there are components.
            let bucket = (now + 1 + components / 2 + numbers.next(components)) % buckets;
            let next = behind[id as usize];
            behind[id as usize] = std::mem::replace(&mut first[bucket], id);
            id = next;
            done += 1;
        }
        now += 1;
    }
    assert!(memory[0][1] > 0);
    began.elapsed().as_secs_f64() * 1e9 / done as f64
}

fn main() {
    println!("| flows | 2 lines | 10 lines |\n|---:|---:|---:|");
    for flows in [10, 1000, 10_000, 100_000] {
        // About two pending events of a flow.
        let [two, ten] = [2, 10].map(|lines| event(2 * flows, lines));
        println!("| {flows} | {two:.1} | {ten:.1} |");
    }
}
