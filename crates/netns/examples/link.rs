//! Runs a program behind a link of the core, in real time:
//!
//! ```text
//! link [--rate 10mbit] [--delay 20ms] [--queue 100kB] [--loss 0.01] [--ecn 20] [--seed 1]
//!      [--mtu 1500] [--offload] [--apart] [--masquerade] -- ping -c 3 GATEWAY
//! ```
//!
//! The address outside stands for the argument `GATEWAY` of the program, and is in the environment
//! variable of that name. `--ecn` is the queue, in packets, from which on packets are marked. With
//! `--apart`, and without root, the outside is a namespace of its own too, in which a shell command
//! may be run by `--outside 'iperf3 -s -1'`. `--masquerade` lets the program reach beyond it.

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("links between network namespaces need Linux");
}

#[cfg(target_os = "linux")]
fn main() {
    match linux::main() {
        Ok(code) => std::process::exit(code),
        Err(error) => {
            eprintln!("link: {error}");
            std::process::exit(1);
        }
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::VecDeque;
    use std::error::Error;
    use std::os::fd::AsFd;
    use std::str::FromStr;

    use hdrhistogram::Histogram;
    use rustix::time::{ClockId, clock_gettime};
    use windward_core::network::{
        ChannelSpec, EcnThreshold, FifoLink, QueueLimit, QueueSpec, RouterSpec,
    };
    use windward_core::packet::{Flags, Label, Packet};
    use windward_core::units::{Duration, Probability, Rate, Time, parse_bytes};
    use windward_netns::packet::{Ecn, Header, mark};
    use windward_netns::{
        Clock, Inside, Namespace, Pair, PairOptions, Received, Rights, ToSend, Tun, become_root,
        prefer_this_thread, start_up, wait,
    };

    type Result<T> = std::result::Result<T, Box<dyn Error>>;

    struct Options {
        /// `None`: as fast as this machine can.
        rate: Option<Rate>,
        delay: Duration,
        queue: QueueSpec,
        channel: ChannelSpec,
        seed: u64,
        pair: PairOptions,
        apart: bool,
        masquerade: bool,
        outside: Option<String>,
        command: Vec<String>,
    }

    impl Options {
        fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
            let mut options = Options {
                rate: None,
                delay: Duration::ZERO,
                queue: QueueSpec { limit: QueueLimit::Bytes(u64::MAX), ..QueueSpec::default() },
                channel: ChannelSpec::Clean,
                seed: 1,
                pair: PairOptions::default(),
                apart: false,
                masquerade: false,
                outside: None,
                command: Vec::new(),
            };
            while let Some(option) = arguments.next() {
                fn value<T: FromStr<Err: Error + 'static>>(text: Option<String>) -> Result<T> {
                    Ok(text.ok_or("a value is missing")?.parse()?)
                }
                match option.as_str() {
                    "--rate" => options.rate = Some(value(arguments.next())?),
                    "--delay" => options.delay = value(arguments.next())?,
                    "--queue" => {
                        let text: String = value(arguments.next())?;
                        options.queue.limit = QueueLimit::Bytes(parse_bytes(&text)?);
                    }
                    "--loss" => {
                        let loss = Probability::new(value(arguments.next())?);
                        let loss = loss.ok_or("a probability is between 0 and 1")?;
                        options.channel = ChannelSpec::PacketLoss(loss);
                    }
                    "--ecn" => {
                        let threshold = value(arguments.next())?;
                        options.queue.router = RouterSpec::EcnThreshold(EcnThreshold { threshold });
                    }
                    "--seed" => options.seed = value(arguments.next())?,
                    "--mtu" => options.pair.mtu = value(arguments.next())?,
                    "--offload" => options.pair.offload = true,
                    "--apart" => options.apart = true,
                    "--masquerade" => options.masquerade = true,
                    "--outside" => options.outside = Some(value(arguments.next())?),
                    "--" => break,
                    other => return Err(format!("unknown option '{other}'").into()),
                }
            }
            options.command = arguments.collect();
            match options.command.is_empty() {
                true => Err("what to run is missing: -- PROGRAM ARGUMENTS".into()),
                false => Ok(options),
            }
        }
    }

    pub(super) fn main() -> Result<i32> {
        start_up();
        let options = Options::read(std::env::args().skip(1))?;
        let rights = become_root()?;
        let apart = options.apart || rights == Rights::InUserNamespace;
        let outside = if apart { Some(Namespace::new()?) } else { None };
        let mut inside = Namespace::new()?;
        let mut pair = Pair::new(outside.as_ref(), &inside, &options.pair)?;
        inside.use_resolver(pair.outside.ipv4.into())?;
        let gateway = pair.outside.ipv4.to_string();
        // Ctrl-C reaches the child too, whose end ends this.
        ctrlc::set_handler(|| ())?;
        let _masquerade =
            options.masquerade.then(|| pair.masquerade(outside.as_ref())).transpose()?;
        let _server = match (&outside, &options.outside) {
            (Some(outside), Some(line)) => Some(outside.spawn("sh", |sh| sh.args(["-c", line]))?),
            _ => None,
        };
        let arguments = options.command[1..]
            .iter()
            .map(|word| if word == "GATEWAY" { gateway.clone() } else { word.clone() });
        let mut child = inside.spawn(&options.command[0], |command| {
            command.args(arguments).env("GATEWAY", &gateway)
        })?;
        // Not before, since children inherit it.
        if let Err(error) = prefer_this_thread() {
            eprintln!("link: {error}; packets will be late under load");
        }
        let mut engine = Engine::new(&options, &pair)?;
        engine.run(&child)?;
        let status = child.wait()?;
        engine.report();
        let [up, down] = [pair.inside.overflow()?, pair.outside.overflow()?];
        if up + down > 0 {
            eprintln!("read too late and dropped by the kernel: {up} up, {down} down");
        }
        Ok(Inside::exit_code(status))
    }

    /// One direction.
    struct Direction<'a> {
        name: &'static str,
        link: FifoLink,
        from: &'a Tun,
        to: &'a Tun,
        received: Received,
        /// On the wire, in order of arrival.
        wire: VecDeque<(Time, Vec<u8>)>,
        /// Buffers to be used again.
        pool: Vec<Vec<u8>>,
        to_send: ToSend,
        /// Reads that gave packets.
        reads: u64,
        arrived: u64,
        malformed: u64,
        dropped: u64,
        destroyed: u64,
        refused: u64,
        marked: u64,
        /// From the time of the link's arithmetic until the kernel has a packet, ns.
        lateness: Histogram<u64>,
    }

    struct Engine<'a> {
        clock: Clock,
        directions: [Direction<'a>; 2],
        began: Time,
        reading: Duration,
        writing: Duration,
        waiting: Duration,
    }

    /// A rate that takes no time: a packet of 1500 bytes lasts 12 ns.
    const UNLIMITED: u64 = 1_000_000_000_000;
    /// Reads of one direction before the other has its turn.
    const TURN: usize = 32;

    fn sum(a: Duration, b: Duration) -> Duration {
        Duration::from_ps(a.as_ps() + b.as_ps())
    }

    impl<'a> Engine<'a> {
        fn new(options: &Options, pair: &'a Pair) -> Result<Self> {
            let rate = options.rate.or(Rate::from_bps(UNLIMITED)).ok_or("no rate")?;
            let lateness = Histogram::new_with_bounds(1, 60_000_000_000, 3)?;
            let direction = |name, from, to| Direction {
                name,
                link: FifoLink::new(
                    &rate.into(),
                    options.delay,
                    &options.queue,
                    &options.channel,
                    options.seed,
                    name,
                ),
                from,
                to,
                received: Received::new(from),
                wire: VecDeque::new(),
                pool: Vec::new(),
                to_send: ToSend::default(),
                reads: 0,
                arrived: 0,
                malformed: 0,
                dropped: 0,
                destroyed: 0,
                refused: 0,
                marked: 0,
                lateness: lateness.clone(),
            };
            let (inside, outside) = (&pair.inside.tun, &pair.outside.tun);
            let clock = Clock::new();
            Ok(Engine {
                clock,
                directions: [direction("up", inside, outside), direction("down", outside, inside)],
                began: clock.now(),
                reading: Duration::ZERO,
                writing: Duration::ZERO,
                waiting: Duration::ZERO,
            })
        }

        /// Carries packets until `child` has ended.
        fn run(&mut self, child: &Inside) -> Result<()> {
            loop {
                let mut more = false;
                for direction in &mut self.directions {
                    let (reads, spent) = direction.read(&self.clock)?;
                    more |= reads;
                    self.reading = sum(self.reading, spent);
                }
                let mut next = Time::NEVER;
                for direction in &mut self.directions {
                    let (first, spent) = direction.write(&self.clock);
                    next = next.min(first);
                    self.writing = sum(self.writing, spent);
                }
                if more {
                    continue;
                }
                let before = self.clock.now();
                let timeout = (next != Time::NEVER).then(|| next.since(before));
                let [up, down] = &self.directions;
                let files = [up.from.as_fd(), down.from.as_fd(), child.as_fd()];
                let [_, _, ended] = wait(files, timeout)?;
                self.waiting = sum(self.waiting, self.clock.now().since(before));
                if ended {
                    return Ok(());
                }
            }
        }

        fn report(&self) {
            let total = self.clock.now().since(self.began).as_secs_f64();
            let cpu = clock_gettime(ClockId::ThreadCPUTime);
            let cpu = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9;
            let [reading, writing, waiting] =
                [self.reading, self.writing, self.waiting].map(Duration::as_secs_f64);
            let engine = total - reading - writing - waiting;
            eprintln!(
                "time {total:.2} s: reading {reading:.3}, writing {writing:.3}, \
                 engine {engine:.3}, waiting {waiting:.3}; CPU {cpu:.3}, of which waiting {:.3}",
                cpu - reading - writing - engine
            );
            for direction in &self.directions {
                direction.report(total);
            }
        }
    }

    impl Direction<'_> {
        /// Offers to the link what has come. Was that as much as may be read at a time, and how
        /// long did reading take?
        fn read(&mut self, clock: &Clock) -> Result<(bool, Duration)> {
            let mut spent = Duration::ZERO;
            for _ in 0..TURN {
                let before = clock.now();
                let read = self.from.recv_many(&mut self.received);
                let now = clock.now();
                spent = sum(spent, now.since(before));
                match read {
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                        return Ok((false, spent));
                    }
                    other => other?,
                }
                self.reads += 1;
                for bytes in self.received.packets() {
                    self.arrived += 1;
                    let Ok(header) = Header::parse(bytes) else {
                        self.malformed += 1;
                        continue;
                    };
                    let mut packet = Packet { size: header.total_len as u32, ..Packet::default() };
                    if header.ecn != Ecn::NotEct {
                        packet.flags.insert(Flags::ECN_CAPABLE);
                    }
                    match self.link.offer(now, Label::default(), &mut packet) {
                        None => self.dropped += 1,
                        Some(departure) if departure.destroyed => self.destroyed += 1,
                        Some(departure) => {
                            let mut buffer = self.pool.pop().unwrap_or_default();
                            buffer.clear();
                            buffer.extend_from_slice(bytes);
                            if packet.flags.contains(Flags::CONGESTION_EXPERIENCED) {
                                self.marked += u64::from(mark(&mut buffer));
                            }
                            self.wire.push_back((departure.arrival, buffer));
                        }
                    }
                }
            }
            Ok((true, spent))
        }

        /// Writes what is due. When is the next, and how long did writing take?
        fn write(&mut self, clock: &Clock) -> (Time, Duration) {
            let mut spent = Duration::ZERO;
            loop {
                let before = clock.now();
                let due = self.wire.iter().take_while(|(at, _)| *at <= before).count();
                if due == 0 {
                    return (self.wire.front().map_or(Time::NEVER, |(at, _)| *at), spent);
                }
                // The kernel drops what it has no room for, as a host would.
                if self.to.has_offload() {
                    self.wire.iter().take(due).for_each(|(_, bytes)| self.to_send.push(bytes));
                    self.refused += u64::from(self.to.send_many(&mut self.to_send).is_err());
                    let after = clock.now();
                    spent = sum(spent, after.since(before));
                    for (at, buffer) in self.wire.drain(..due) {
                        self.lateness.saturating_record(after.since(at).as_nanos());
                        self.pool.push(buffer);
                    }
                    continue;
                }
                let mut last = before;
                for (at, buffer) in self.wire.drain(..due) {
                    self.refused += u64::from(self.to.send(&buffer).is_err());
                    let after = clock.now();
                    spent = sum(spent, after.since(last));
                    last = after;
                    self.lateness.saturating_record(after.since(at).as_nanos());
                    self.pool.push(buffer);
                }
            }
        }

        fn report(&self, seconds: f64) {
            let at = |q| self.lateness.value_at_quantile(q) as f64 / 1e3;
            eprintln!(
                "{}: {} packets ({:.0}/s) in {} reads, {} dropped, {} destroyed, {} marked, {} malformed, \
                 {} refused; late by us: p50 {:.1}, p90 {:.1}, p99 {:.1}, p99.9 {:.1}, max {:.1}",
                self.name,
                self.arrived,
                self.arrived as f64 / seconds,
                self.reads,
                self.dropped,
                self.destroyed,
                self.marked,
                self.malformed,
                self.refused,
                at(0.5),
                at(0.9),
                at(0.99),
                at(0.999),
                self.lateness.max() as f64 / 1e3,
            );
        }
    }
}
