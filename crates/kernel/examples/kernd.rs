//! Loads, drives, unloads.
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use windward_kernel::*;
static STOP: AtomicBool = AtomicBool::new(false);
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let row = windward_core::protocols::find(&args[1]).unwrap();
    let secs: u64 = args[2].parse().unwrap();
    let pins = Path::new("/sys/fs/bpf/windward");
    let object = if Object::is_loaded(pins) {
        Object::adopt(pins)
    } else {
        Object::load(pins, &Settings { for_everybody: true, ..Settings::default() })
    };
    let object = object.unwrap_or_else(|e| panic!("{e}"));
    let daemon = Daemon::new(&object, Row::of(row).unwrap());
    let t = Instant::now();
    let mut last = 0;
    daemon.run(&STOP, |d| {
        let s = t.elapsed().as_secs();
        if s > last { last = s; for c in d.connections().filter(|c| c.last().acks > 0) { let f = c.figures(); eprintln!("{s} {} {} w {} cwnd {} rate {:?} srtt {:?} min {:?} del {:.0} lost {} t/o {}", c.last().connection, f.phase, f.window/u64::from(f.mtu), c.last().cwnd, f.pacing_rate, f.srtt, f.min_rtt, f.delivery_rate*8.0, f.lost, c.timeouts()); } }
        if t.elapsed() > Duration::from_secs(secs) { STOP.store(true, Ordering::Relaxed); }
    }).unwrap();
    println!("{:?}", object.counters().unwrap());
    if args.get(3).is_none() {
        Object::unload(pins).unwrap();
    }
}
