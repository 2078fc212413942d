//! A program behind a scenario.
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use windward_core::units::{Duration, Time};
use windward_net::clock::Monotonic;
use windward_net::emulate::{self, Outside, Take};
use windward_net::port::Ports;
use windward_netns::{
    Inside, Namespace, Pair, PairOptions, packet, prefer_this_thread, start_up, wait,
};
use windward_sim::Simulation;
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::stack::{Codepoint, End, Stack, Stacks};

struct Tuns {
    pair: Pair,
    child: Inside,
    buffer: Vec<u8>,
    first: bool,
    ended: bool,
}

impl Outside for Tuns {
    fn read(&mut self, take: &mut Take<'_>) -> io::Result<()> {
        for (end, tun) in
            [(End::Sender, &self.pair.outside.tun), (End::Receiver, &self.pair.inside.tun)]
        {
            for _ in 0..64 {
                match tun.recv(&mut self.buffer) {
                    Ok(n) => {
                        let bytes = &self.buffer[..n];
                        let tos = if bytes[0] >> 4 == 4 { bytes[1] } else { bytes[1] >> 4 };
                        let ecn = match tos & 3 {
                            0 => Codepoint::NotEct,
                            1 => Codepoint::Ect1,
                            2 => Codepoint::Ect0,
                            _ => Codepoint::Ce,
                        };
                        take(0, end, bytes, ecn);
                    }
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                    Err(e) => return Err(e),
                }
            }
        }
        Ok(())
    }
    fn write(&mut self, _: usize, end: End, bytes: &[u8], ecn: Codepoint) -> io::Result<()> {
        let tun = match end {
            End::Receiver => &self.pair.inside.tun,
            End::Sender => &self.pair.outside.tun,
        };
        if ecn == Codepoint::Ce {
            let mut marked = bytes.to_vec();
            packet::mark(&mut marked);
            return tun.send(&marked);
        }
        let _ = tun.send(bytes);
        Ok(())
    }
    fn wait(&mut self, most: Duration) -> io::Result<bool> {
        let [_, _, ended] = wait(
            [self.pair.outside.tun.as_fd(), self.pair.inside.tun.as_fd(), self.child.as_fd()],
            Some(most),
        )?;
        self.ended |= ended;
        self.first = false;
        Ok(!self.ended)
    }
}

fn main() {
    start_up();
    let mut args = std::env::args().skip(1);
    let file = args.next().expect("a scenario");
    let program = args.next().expect("a program");
    let rest: Vec<String> = args.collect();
    let ports = Ports::new();
    let stack: Arc<dyn Stack> = Arc::clone(&ports) as _;
    let stacks: Stacks = std::iter::once(stack).collect();
    let text = std::fs::read_to_string(&file).unwrap();
    let scenario = ScenarioFile::parse(&file, &text)
        .unwrap()
        .with_stacks(&stacks)
        .build()
        .unwrap_or_else(|e| panic!("{e}"));
    let flow = scenario
        .flows
        .iter()
        .position(|f| f.kind.traffic.protocol_name() == windward_net::port::NAME)
        .expect("a port");
    let mut simulation = Simulation::new(&scenario);
    let port = ports.take().remove(0);
    let inside = Namespace::new().unwrap();
    let pair = Pair::new(None, &inside, &PairOptions::default()).unwrap();
    let gateway = pair.outside.ipv4.to_string();
    eprintln!("gateway {gateway} inside {}", pair.inside.ipv4);
    let child = inside
        .spawn(&program, |c| c.args(rest.iter().map(|a| a.replace("GATEWAY", &gateway))))
        .unwrap();
    if let Err(e) = prefer_this_thread() {
        eprintln!("{e}");
    }
    let mut outside = Tuns { pair, child, buffer: vec![0; 65536], first: true, ended: false };
    let clock = Monotonic::start();
    let late = emulate::run(
        &mut simulation,
        &[(flow, port)],
        &mut outside,
        &clock,
        Time::ZERO + scenario.duration,
    )
    .unwrap();
    eprintln!(
        "{} packets, p50 {} p99 {} max {} above 1 ms {:.4}",
        late.packets(),
        late.percentile(50.0),
        late.percentile(99.0),
        late.percentile(100.0),
        late.share_above(Duration::from_millis(1))
    );
    let l = simulation.link(0);
    eprintln!("{l:?}");
}
