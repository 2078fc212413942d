//! Cost of an emulation on this machine:
//! `cargo run --release -p windward-net --example throughput`, as root.
//!
//! All in one run, so that the ratios are valid on a machine whose speed changes: the engine alone,
//! a bare loop between two TUN devices, and the same with the engine in between, each with a TCP of
//! the kernel whose endpoints share the cores; and a link with forty simulated flows beside it.

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() -> linux::Result {
    linux::main()
}

#[cfg(target_os = "linux")]
mod linux {
    use std::error::Error;
    use std::io::{self, Read, Write};
    use std::net::{IpAddr, TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use cpu_time::ThreadTime;
    use windward_core::units::{Duration, Time};
    use windward_net::clock::{Clock, Monotonic};
    use windward_net::emulate::{self, Lateness, Outside, Take};
    use windward_net::port::Ports;
    use windward_net::testbed::{self, Options, Testbed};
    use windward_netns::{
        Namespace, Pair, PairOptions, Poller, Received, ToSend, become_root, prefer_this_thread,
        start_up,
    };
    use windward_sim::scenario::file::ScenarioFile;
    use windward_sim::stack::{Codepoint, End, Stacks};
    use windward_sim::{Scenario, Simulation};

    pub(super) type Result = std::result::Result<(), Box<dyn Error>>;

    /// Length of each measurement.
    const LENGTH: Duration = Duration::from_secs(5);

    const UNLIMITED: &str = "duration = '1h'\n\
        links = [{ from = 'a', to = 'b', rate = '1Tbit', delay = '0s', queue = '10000p' }]\n\
        flows = [{ group = 'tcp', protocol = 'outside:port', from = 'a', to = 'b' }]";

    const CROSS: &str = "duration = '1h'\n\
        [endpoint]\npacket_size = 1500\n\
        [dumbbell]\nbottleneck = { rate = '300Mbit', delay = '38ms', queue = '3MB' }\n\
        access = { rate = '1Gbit', delay = '1ms', queue = '10000p' }\n\
        [[flows]]\ngroup = 'tcp'\nprotocol = 'outside:port'\n\
        [[flows]]\ngroup = 'cross'\nprotocol = 'cubic'\ncount = 40";

    pub(super) fn main() -> Result {
        start_up();
        become_root()?;
        let engine = engine_alone()?;
        println!("engine alone            {engine:6.0} ns of CPU per packet, with both copies");
        if std::env::args().nth(1).as_deref() == Some("engine") {
            return Ok(()); // For a profiler.
        }
        let (bare, bare_cpu) = bare_loop()?;
        println!("bare TUN loop           {bare_cpu:6.0} ns of CPU per packet  {bare}");
        println!("engine / TUN            {:6.3}", engine / bare_cpu);
        let (emulated, cpu, late) = emulated(UNLIMITED)?;
        println!("through an open link    {cpu:6.0} ns of CPU per packet  {emulated}");
        println!("                        {}", words(&late));
        let (cross, _, late) = self::emulated(CROSS)?;
        println!("300 Mbit/s, 80 ms, beside 40 simulated flows  {cross}");
        println!("                        {}", words(&late));
        Ok(())
    }

    fn words(late: &Lateness) -> String {
        let percentile = |percent| late.percentile(percent).to_string();
        let share = late.share_above(Duration::from_millis(1)) * 100.0;
        format!(
            "late: p50 {}, p99 {}, max {}; {share:.2} % above 1 ms",
            percentile(50.0),
            percentile(99.0),
            percentile(100.0)
        )
    }

    fn build(text: &str) -> std::result::Result<(Scenario, Arc<Ports>), Box<dyn Error>> {
        let ports = Ports::new();
        let stacks = Stacks::none().with(Arc::clone(&ports) as _);
        let mut scenario = ScenarioFile::parse("throughput", text)?.with_stacks(&stacks).build()?;
        emulate::prepare(&mut scenario, true);
        Ok((scenario, ports))
    }

    /// Millions of packets of 1500 bytes, in batches as from a device.
    struct Flood {
        left: u32,
        packet: Vec<u8>,
    }

    impl Outside for Flood {
        fn read(&mut self, take: &mut Take<'_>) -> io::Result<()> {
            for _ in 0..self.left.min(32) {
                take(0, End::Sender, &self.packet, Codepoint::NotEct);
                self.left -= 1;
            }
            Ok(())
        }

        fn write(&mut self, _: usize, _: End, bytes: &[u8], _: Codepoint) -> io::Result<()> {
            std::hint::black_box(bytes);
            Ok(())
        }

        fn wait(&mut self, _: Duration) -> io::Result<bool> {
            Ok(self.left > 0)
        }
    }

    /// CPU time per packet of the engine and its ports, nanoseconds.
    fn engine_alone() -> std::result::Result<f64, Box<dyn Error>> {
        const PACKETS: u32 = 1_000_000;
        let (scenario, ports) = build(UNLIMITED)?;
        let mut simulation = Simulation::changeable(&scenario);
        let ports: Vec<_> = (0..).zip(ports.take()).collect();
        // TCP over IPv4, 1500 bytes.
        let mut packet = vec![0; 1500];
        packet[..10].copy_from_slice(&[0x45, 0, 5, 220, 0, 0, 0x40, 0, 64, 6]);
        let mut flood = Flood { left: PACKETS, packet };
        let clock = Monotonic::start();
        let cpu = ThreadTime::now();
        emulate::run(&mut simulation, &ports, &mut flood, &clock, Time::NEVER)?;
        Ok(cpu.elapsed().as_secs_f64() / f64::from(PACKETS) * 1e9)
    }

    /// One TCP from the server's namespace to the client's, while `carry` moves packets on this
    /// thread until it is told to stop. Returns bytes per second.
    fn with_tcp<T>(
        server: (&Namespace, IpAddr),
        client: &Namespace,
        carry: impl FnOnce(&'static AtomicBool) -> T,
    ) -> std::result::Result<(f64, T), Box<dyn Error>> {
        let stop: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
        let listener = server.0.run(|| TcpListener::bind((server.1, 0)))??;
        let address = listener.local_addr()?;
        thread::scope(|scope| {
            scope.spawn(move || -> io::Result<()> {
                let (mut stream, _) = listener.accept()?;
                // At the end, nothing carries the packets that would end the connection.
                stream.set_write_timeout(Some(std::time::Duration::from_millis(500)))?;
                let block = vec![0; 1 << 17];
                while !stop.load(Ordering::Relaxed) {
                    stream.write_all(&block)?;
                }
                Ok(())
            });
            let received = scope.spawn(move || {
                client.run(|| -> io::Result<f64> {
                    let mut stream = TcpStream::connect(address)?;
                    let mut block = vec![0; 1 << 17];
                    let clock = Monotonic::start();
                    let mut bytes = 0;
                    while clock.now() < Time::ZERO + LENGTH {
                        bytes += stream.read(&mut block)?;
                    }
                    let rate = bytes as f64 / clock.now().as_secs_f64();
                    stop.store(true, Ordering::Relaxed);
                    Ok(rate)
                })
            });
            // Threads that this thread starts from now on would have the same priority.
            if let Err(error) = prefer_this_thread() {
                eprintln!("{error}");
            }
            let result = carry(stop);
            let rate = received.join().map_err(|_| "the client panicked")???;
            Ok((rate, result))
        })
    }

    /// Only carries packets from each device to the other. Returns the throughput, and the CPU time
    /// per packet, nanoseconds.
    fn bare_loop() -> std::result::Result<(String, f64), Box<dyn Error>> {
        let (a, b) = (Namespace::new()?, Namespace::new()?);
        let pair = Pair::new(Some(&a), &b, &PairOptions::default())?;
        let address = pair.outside.ipv4.into();
        let (rate, (packets, cpu, seconds)) = with_tcp((&a, address), &b, |stop| {
            let mut poller = Poller::new()?;
            let ends = [&pair.outside.tun, &pair.inside.tun];
            for (number, end) in (0..).zip(ends) {
                poller.add(end.as_fd(), number)?;
            }
            let mut received = ends.map(Received::new);
            let mut to_send = ToSend::default();
            let (clock, cpu, mut packets) = (Monotonic::start(), ThreadTime::now(), 0_u64);
            while !stop.load(Ordering::Relaxed) {
                let ready: Vec<u64> = poller.wait(Duration::from_millis(100))?.collect();
                for from in ready {
                    let from = from as usize;
                    for _ in 0..64 {
                        if ends[from].recv_many(&mut received[from]).is_err() {
                            break;
                        }
                        for packet in received[from].packets() {
                            packets += 1;
                            to_send.push(packet);
                        }
                        let _ = ends[1 - from].send_many(&mut to_send);
                    }
                }
            }
            let seconds = clock.now().as_secs_f64();
            Ok::<_, Box<dyn Error>>((packets, cpu.elapsed().as_secs_f64(), seconds))
        })
        .and_then(|(rate, result)| Ok((rate, result?)))?;
        Ok((carried(rate, packets, seconds), cpu / packets as f64 * 1e9))
    }

    /// The same with a scenario in between.
    fn emulated(text: &str) -> std::result::Result<(String, f64, Lateness), Box<dyn Error>> {
        let (scenario, ports) = build(text)?;
        let mut simulation = Simulation::changeable(&scenario);
        let made = Testbed::new(&scenario, ports.take(), &Options::default(), |_| true)?;
        let mut testbed = made.ok_or("nobody has stopped it")?;
        let [from, to] = testbed.ends()[0].clone();
        let address = testbed.pair(0).ok_or("there is a port")?.outside.ipv4.into();
        let (server, client) = (testbed.namespace(&from), testbed::ports(&scenario).count());
        debug_assert_eq!(client, 1);
        let server = server.ok_or("there is a node")?.again()?;
        let client = testbed.namespace(&to).ok_or("there is a node")?.again()?;
        let (rate, (late, cpu, seconds)) = with_tcp((&server, address), &client, |stop| {
            testbed.stop_on(Some(stop));
            let ports = testbed.ports().to_vec();
            let (clock, cpu) = (Monotonic::start(), ThreadTime::now());
            let late = emulate::run(&mut simulation, &ports, &mut testbed, &clock, Time::NEVER)?;
            let seconds = clock.now().as_secs_f64();
            Ok::<_, Box<dyn Error>>((late, cpu.elapsed().as_secs_f64(), seconds))
        })
        .and_then(|(rate, result)| Ok((rate, result?)))?;
        let packets = late.packets();
        Ok((carried(rate, packets, seconds), cpu / packets as f64 * 1e9, late))
    }

    fn carried(rate: f64, packets: u64, seconds: f64) -> String {
        let (gbps, pps) = (rate * 8.0 / 1e9, packets as f64 / seconds);
        format!("{gbps:.3} Gbit/s of TCP, {pps:.0} packets/s, acknowledgments among them")
    }
}
