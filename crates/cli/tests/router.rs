//! `windward router` on a gateway between two hosts, in three network namespaces of this machine.
//! Each test creates its own, and removes them even if it fails. They have a time limit and are
//! skipped without root.

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::{self, File};
    use std::io::{ErrorKind, Read, Write};
    use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
    use std::os::fd::{AsFd, OwnedFd};
    use std::os::unix::net::UnixDatagram;
    use std::panic::catch_unwind;
    use std::path::PathBuf;
    use std::process::{ExitStatus, Stdio, exit};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    use rustix::net::{AddressFamily, RecvFlags, SocketType, ipproto, recv, socket, sockopt};
    use rustix::process::{Pid, Signal, kill_process};
    use serde_json::Value;
    use windward_core::packet::{CongestionHeader, Packet, PacketKind};
    use windward_core::wire;
    use windward_net::clock::{Clock, Monotonic};
    use windward_netns::packet::checksum;
    use windward_netns::{Inside, Namespace, start_up};

    const TESTS: &[(&str, fn())] = &[
        ("packets_pass_at_the_rate", packets_pass_at_the_rate),
        ("codel_marks_what_is_capable_and_drops_the_rest", codel_marks),
        ("xcp_writes_into_our_datagrams", xcp_writes_into_our_datagrams),
        ("ceten_tells_of_corruption", ceten_tells_of_corruption),
        ("the_packets_of_a_queue_are_in_its_charts", the_packets_of_a_queue_are_in_its_charts),
        ("new_settings_lose_nothing", new_settings_lose_nothing),
        ("a_full_queue_goes_out_before_another", a_full_queue_goes_out_before_another),
        ("a_killed_router_leaves_nothing", a_killed_router_leaves_nothing),
        ("signals_end_it_and_all_is_as_before", signals_end_it_and_all_is_as_before),
        ("both_directions_and_what_is_sent_here", both_directions_and_what_is_sent_here),
        ("forged_xcp_headers_leave_a_flow_its_share", forged_xcp_headers_leave_a_flow_its_share),
        ("datagrams_that_ask_for_another_router_are_told_of", another_router_is_told_of),
        ("a_router_that_hangs_pings_no_watchdog", a_router_that_hangs_pings_no_watchdog),
        ("errors_say_what_to_do", errors_say_what_to_do),
        ("a_shell_makes_its_machine_no_router", a_shell_makes_its_machine_no_router),
    ];

    /// All together must not take longer.
    const LIMIT: Duration = Duration::from_secs(180);

    pub(super) fn main() {
        start_up();
        let wanted: Vec<String> =
            std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
        if std::env::args().any(|argument| argument == "--list") {
            return;
        }
        if !rustix::process::geteuid().is_root() || !has_ip() {
            println!("skipped: namespaces need root, and links between them the program ip");
            return;
        }
        thread::spawn(|| {
            thread::sleep(LIMIT);
            println!("took longer than {LIMIT:?}");
            exit(1);
        });
        let mut failed = 0;
        for (name, test) in TESTS {
            if wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str())) {
                let passed = catch_unwind(test).is_ok();
                failed += usize::from(!passed);
                println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
            }
        }
        println!("{failed} failed");
        exit(i32::from(failed > 0));
    }

    fn has_ip() -> bool {
        std::process::Command::new("ip").arg("-V").stdout(Stdio::null()).status().is_ok()
    }

    /// A client, a gateway and a server: 10.9.0.2 and 10.9.1.2, fd09::2 and fd09:1::2. `g0` and
    /// `g1` are the devices of the gateway towards them.
    struct Net {
        client: Namespace,
        gateway: Namespace,
        server: Namespace,
        files: tempfile::TempDir,
    }

    impl Net {
        fn new() -> Self {
            let [client, gateway, server] = [(); 3].map(|()| Namespace::new().unwrap());
            // Devices are moved to the namespace of a process.
            let stay = |namespace: &Namespace| namespace.spawn("sleep", |c| c.arg("100")).unwrap();
            let (in_client, in_server) = (stay(&client), stay(&server));
            let net = Net { client, gateway, server, files: tempfile::tempdir().unwrap() };
            for (device, peer, host) in [("g0", "c0", &in_client), ("g1", "s0", &in_server)] {
                let id = host.id().to_string();
                let words = ["link", "add", device, "type", "veth", "peer", "name", peer];
                ip(&net.gateway, &[&words[..], &["netns", &id]].concat());
            }
            for (namespace, device, number, host) in [
                (&net.gateway, "g0", 0, 1),
                (&net.gateway, "g1", 1, 1),
                (&net.client, "c0", 0, 2),
                (&net.server, "s0", 1, 2),
            ] {
                ip(
                    namespace,
                    &["address", "add", &format!("10.9.{number}.{host}/24"), "dev", device],
                );
                let ipv6 = format!("fd09:{number}::{host}/64");
                ip(namespace, &["address", "add", &ipv6, "dev", device, "nodad"]);
                // The route of the address of the link would appear only a second or two later.
                let no_detection = || {
                    let path = format!("/proc/sys/net/ipv6/conf/{device}/accept_dad");
                    fs::write(path, "0").unwrap();
                };
                namespace.run(no_detection).unwrap();
                ip(namespace, &["link", "set", device, "up"]);
                if host == 2 {
                    ip(namespace, &["route", "add", "default", "via", &format!("10.9.{number}.1")]);
                    ip(
                        namespace,
                        &["route", "add", "default", "via", &format!("fd09:{number}::1")],
                    );
                }
            }
            net.forward("1");
            // Neighbours are resolved now, not while packets wait for them.
            for version in [4, 6] {
                let connect = || TcpStream::connect((hosts(version)[1], 1)).unwrap_err().kind();
                eventually("the server answers", || {
                    net.client.run(connect).unwrap() == ErrorKind::ConnectionRefused
                });
            }
            net
        }

        fn forward(&self, value: &str) {
            let write = || {
                fs::write("/proc/sys/net/ipv4/ip_forward", value).unwrap();
                fs::write("/proc/sys/net/ipv6/conf/all/forwarding", value).unwrap();
            };
            self.gateway.run(write).unwrap();
        }

        fn path(&self, name: &str) -> PathBuf {
            self.files.path().join(name)
        }

        /// Starts `windward router` with these arguments on the gateway, and waits until it works.
        fn router(&self, arguments: &[&str]) -> Running {
            let running = self.start(arguments);
            eventually("the router is at work", || running.errors().contains("bit/s"));
            running
        }

        fn start(&self, arguments: &[&str]) -> Running {
            self.start_with(&[], arguments)
        }

        /// As [`Net::start`], with these environment variables.
        fn start_with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Running {
            let (out, errors) = (self.path("out"), self.path("errors"));
            let child = self.gateway.spawn(env!("CARGO_BIN_EXE_windward"), |command| {
                command
                    .arg("router")
                    .args(arguments)
                    .envs(variables.iter().copied())
                    .stdin(Stdio::null())
                    .stdout(File::create(&out).unwrap())
                    .stderr(File::create(&errors).unwrap())
            });
            Running { child: child.unwrap(), out, errors }
        }

        /// A socket of the client to that port of the server.
        fn socket(&self, version: u8, port: u16) -> UdpSocket {
            let [own, server] = hosts(version);
            let open = || {
                let socket = UdpSocket::bind((own, 0)).unwrap();
                socket.connect((server, port)).unwrap();
                socket
            };
            self.client.run(open).unwrap()
        }

        /// A raw socket of the server at that port, which gives packets without the header of IPv6.
        fn tap(&self, version: u8) -> OwnedFd {
            let family = if version == 4 { AddressFamily::INET } else { AddressFamily::INET6 };
            let open = || socket(family, SocketType::RAW, Some(ipproto::UDP)).unwrap();
            let tap = self.server.run(open).unwrap();
            sockopt::set_socket_recv_buffer_size_force(&tap, 16 << 20).unwrap();
            sockopt::set_socket_timeout(&tap, sockopt::Timeout::Recv, Some(QUIET)).unwrap();
            tap
        }

        /// A socket of the server, which is read until no packet arrives for a while.
        fn receiver(&self, version: u8, port: u16) -> UdpSocket {
            let [_, server] = hosts(version);
            let socket = self.server.run(|| UdpSocket::bind((server, port)).unwrap()).unwrap();
            sockopt::set_socket_recv_buffer_size_force(&socket, 16 << 20).unwrap();
            socket.set_read_timeout(Some(QUIET)).unwrap();
            socket
        }
    }

    /// Silence after which no more packets are expected.
    const QUIET: Duration = Duration::from_millis(1500);

    fn hosts(version: u8) -> [IpAddr; 2] {
        let hosts =
            if version == 4 { ["10.9.0.2", "10.9.1.2"] } else { ["fd09:0::2", "fd09:1::2"] };
        hosts.map(|host| host.parse().unwrap())
    }

    fn ip(namespace: &Namespace, arguments: &[&str]) -> String {
        output(namespace, "ip", arguments).unwrap_or_else(|| panic!("ip {arguments:?}"))
    }

    /// Standard output of a program in the namespace, if it exists and succeeds.
    fn output(namespace: &Namespace, program: &str, arguments: &[&str]) -> Option<String> {
        let mut file = tempfile::tempfile().unwrap();
        let out = file.try_clone().unwrap();
        let child =
            namespace.spawn(program, |c| c.args(arguments).stdout(out).stderr(Stdio::null()));
        if !child.unwrap().wait().unwrap().success() {
            return None;
        }
        let mut text = String::new();
        std::io::Seek::rewind(&mut file).unwrap();
        file.read_to_string(&mut text).unwrap();
        Some(text)
    }

    fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
        for _ in 0..1500 {
            if holds() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("not after 15 s: {what}");
    }

    /// A running router.
    struct Running {
        child: Inside,
        out: PathBuf,
        errors: PathBuf,
    }

    impl Running {
        fn errors(&self) -> String {
            fs::read_to_string(&self.errors).unwrap()
        }

        fn signal(&self, signal: Signal) {
            kill_process(Pid::from_raw(self.child.id() as i32).unwrap(), signal).unwrap();
        }

        fn wait(&mut self) -> ExitStatus {
            self.child.wait().unwrap()
        }

        /// Ends it by a signal. Returns the JSON of its queues.
        fn end(mut self, signal: Signal) -> Vec<Value> {
            self.signal(signal);
            let status = self.wait();
            assert!(status.success(), "{status}: {}", self.errors());
            let text = fs::read_to_string(&self.out).unwrap();
            serde_json::from_str::<Value>(&text).unwrap().as_array().unwrap().clone()
        }
    }

    fn number(row: &Value, key: &str) -> u64 {
        row[key].as_u64().unwrap_or_else(|| panic!("{key} of {row}"))
    }

    fn send(socket: &UdpSocket, payload: &[u8]) {
        // The client's own queue is full, or a port was not there a moment ago.
        while let Err(error) = socket.send(payload) {
            assert!(
                matches!(error.raw_os_error(), Some(105 | 111))
                    || error.kind() == ErrorKind::WouldBlock,
                "{error}"
            );
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// The packets that a tap gives until it is quiet.
    fn drain(tap: &OwnedFd) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        let mut buffer = vec![0; 70_000];
        while let Ok((length, _)) = recv(tap.as_fd(), &mut buffer[..], RecvFlags::empty()) {
            packets.push(buffer[..length].to_vec());
        }
        packets
    }

    fn received(socket: &UdpSocket) -> Vec<u32> {
        let mut numbers = Vec::new();
        let mut buffer = [0; 2000];
        while let Ok(length) = socket.recv(&mut buffer) {
            assert!(length >= 4);
            numbers.push(u32::from_be_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]));
        }
        numbers
    }

    fn packets_pass_at_the_rate() {
        let net = Net::new();
        for version in [4, 6] {
            let router = net.router(&[
                "g1", "--rate", "8Mbit", "--qdisc", "droptail", "--queue", "1000p", "--json",
            ]);
            let (receiver, sender) = (net.receiver(version, 9000), net.socket(version, 9000));
            // A byte a microsecond: 500 packets of 1000 bytes are 500 ms, but for the first.
            let payload = vec![0; 1000 - if version == 4 { 28 } else { 48 }];
            let begin = Monotonic::start();
            for _ in 0..500 {
                send(&sender, &payload);
            }
            let mut buffer = [0; 2000];
            for n in 0..500 {
                assert_eq!(receiver.recv(&mut buffer).unwrap(), payload.len(), "{n}");
            }
            // Never earlier, for any load of this machine.
            let took = begin.now().as_secs_f64();
            assert!(took >= 0.5, "{took} s");
            let rows = router.end(Signal::INT);
            let [row] = &rows[..] else { panic!("{rows:?}") };
            for (key, expected) in [
                ("arrived_packets", 500),
                ("sent_packets", 500),
                ("sent_bytes", 500_000),
                ("dropped_packets", 0),
                ("overflow_packets", 0),
                ("rate_bps", 8_000_000),
            ] {
                assert_eq!(number(row, key), expected, "{key}");
            }
            assert_eq!((&row["interface"], &row["qdisc"]), (&"g1".into(), &"droptail".into()));
            // The last waited for all others.
            assert!(row["sojourn_max_s"].as_f64().unwrap() > 0.3, "{row}");
        }
    }

    fn codel_marks() {
        let net = Net::new();
        for (tos, is_capable) in [(2, true), (1, true), (0, false)] {
            let arguments = ["g1", "--rate", "4Mbit", "--qdisc", "codel", "--json"];
            let router = net.router(&arguments);
            let (tap, sender) = (net.tap(4), net.socket(4, 9000));
            sockopt::set_ip_tos(&sender, tos).unwrap();
            // A socket listens, or the server would answer with ICMP errors.
            let _receiver = net.receiver(4, 9000);
            // 400 packets of 1000 bytes wait for up to 800 ms, far above CoDel's target.
            for _ in 0..400 {
                send(&sender, &[0; 972]);
            }
            let packets = drain(&tap);
            let rows = router.end(Signal::INT);
            let (marked, dropped) =
                (number(&rows[0], "marked_packets"), number(&rows[0], "dropped_packets"));
            let seen = packets.iter().filter(|packet| packet[1] & 3 == 3).count() as u64;
            assert_eq!((seen, packets.len() as u64 + dropped), (marked, 400));
            assert_eq!((marked > 0, dropped > 0), (is_capable, !is_capable), "ECN field {tos}");
            assert!(packets.iter().all(|packet| checksum(&packet[..20]) == 0));
            let other = packets.iter().filter(|packet| packet[1] & 3 != 3);
            assert!(other.into_iter().all(|packet| packet[1] == tos));
        }
    }

    fn xcp_writes_into_our_datagrams() {
        let net = Net::new();
        let router = net.router(&["g1", "--rate", "8Mbit", "--qdisc", "xcp", "--json"]);
        for version in [4, 6] {
            let (tap, sender) = (net.tap(version), net.socket(version, 9000));
            let _receiver = net.receiver(version, 9000);
            let header = CongestionHeader::Xcp {
                rtt: 0.1,
                inter_packet: 0.005,
                delta: 1e9,
                congestion_flag: 0,
            };
            for seq in 0..60 {
                let packet = Packet { kind: PacketKind::Data, seq, header, ..Packet::default() };
                let mut bytes = [7; 500];
                wire::encode(&packet, &mut bytes).unwrap();
                send(&sender, &bytes);
                thread::sleep(Duration::from_millis(5));
            }
            let packets = drain(&tap);
            assert_eq!(packets.len(), 60);
            for packet in packets {
                // The header of IPv6 is not given; its addresses are known.
                let at = if version == 4 { 20 } else { 0 };
                let datagram = &packet[at..];
                let addresses: Vec<u8> = hosts(version)
                    .iter()
                    .flat_map(|host| match host {
                        IpAddr::V4(host) => host.octets().to_vec(),
                        IpAddr::V6(host) => host.octets().to_vec(),
                    })
                    .collect();
                let length = (datagram.len() as u16).to_be_bytes();
                assert_eq!(checksum(&[&addresses, &[0, 17][..], &length, datagram].concat()), 0);
                let (read, _) = wire::decode(&datagram[8..]).unwrap();
                let CongestionHeader::Xcp { delta, rtt, .. } = read.header else { panic!() };
                // No more than the wire carries in a second, less than was requested.
                assert!(delta.abs() < 1e6 && rtt == 0.1, "{delta}");
                assert!(datagram[8 + 58..].iter().all(|byte| *byte == 7));
            }
        }
        assert_eq!(number(&router.end(Signal::TERM)[0], "feedback_packets"), 120);
    }

    fn ceten_tells_of_corruption() {
        let net = Net::new();
        let arguments =
            ["g1", "--rate", "8Mbit", "--qdisc", "ceten", "--corruption", "20%", "--json"];
        let router = net.router(&arguments);
        let (tap, sender) = (net.tap(4), net.socket(4, 9000));
        let _receiver = net.receiver(4, 9000);
        let header = CongestionHeader::Survival { probability: 0.5 };
        for seq in 0..20 {
            let packet = Packet { kind: PacketKind::Data, seq, header, ..Packet::default() };
            let mut bytes = [7; 500];
            wire::encode(&packet, &mut bytes).unwrap();
            send(&sender, &bytes);
        }
        // The change loses no packet.
        let packets = drain(&tap);
        assert_eq!(packets.len(), 20);
        for packet in packets {
            let read = wire::decode(&packet[28..]).unwrap().0.header;
            let CongestionHeader::Survival { probability } = read else { panic!() };
            assert!((probability - 0.4).abs() < 1e-12);
        }
        assert_eq!(router.end(Signal::INT)[0]["qdisc"], "ceten");
    }

    fn new_settings_lose_nothing() {
        let net = Net::new();
        let file = net.path("router.toml");
        let write = |text: &str| fs::write(&file, text).unwrap();
        write("rate = '20Mbit'");
        let config = ["--config", file.to_str().unwrap()];
        let router =
            net.router(&["g1", config[0], config[1], "--metrics", "127.0.0.1:0", "--json"]);
        let (receiver, sender) = (net.receiver(4, 9000), net.socket(4, 9000));
        let all = [
            "rate = '30Mbit'",
            "rate = '30Mbit'\nqdisc = 'xcp'",
            "rate = '20Mbit'\nqdisc = 'codel'",
            "rate = '40Mbit'\naqm = { kind = 'fq-codel', quantum = 300 }\nqueue = '500p'",
            "rate = '20Mbit'\nqueue = '300p'\nclasses = { none = {}, xcp = { weight = 3 } }",
        ];
        let mut sent = 0_u32;
        for (round, text) in all.iter().cycle().take(20).enumerate() {
            let mut some = |count: u32| {
                for _ in 0..count {
                    let mut payload = [0; 500];
                    payload[..4].copy_from_slice(&sent.to_be_bytes());
                    send(&sender, &payload);
                    sent += 1;
                }
            };
            // Some wait when the settings change, 60 packets at 20 Mbit/s for 12 ms.
            some(60);
            write(text);
            router.signal(Signal::HUP);
            let done = || router.errors().matches("new settings").count() > round;
            eventually("the settings are read", || {
                some(3);
                thread::sleep(Duration::from_millis(1));
                done()
            });
        }
        let numbers = received(&receiver);
        assert_eq!(numbers.len(), sent as usize);
        assert_eq!(numbers, (0..sent).collect::<Vec<_>>(), "in order");
        // Invalid settings are reported and change nothing.
        write("rate = '20Mbit'\nqdisc = 'codle'");
        router.signal(Signal::HUP);
        eventually("it is refused", || router.errors().contains("did you mean `codel`?"));
        let text = metrics(&net, &router);
        for line in [
            format!("windward_router_sent_packets_total{{interface=\"g1\"}} {sent}"),
            "windward_router_reloads_total{interface=\"g1\"} 20".to_owned(),
            "windward_router_rate_bits_per_second{interface=\"g1\"} 20000000.0".to_owned(),
            format!(
                "windward_router_sojourn_seconds_bucket{{le=\"+Inf\",interface=\"g1\"}} {sent}"
            ),
            "# EOF".to_owned(),
        ] {
            assert!(text.lines().any(|own| own == line), "{line}\n{text}");
        }
        let rows = router.end(Signal::TERM);
        assert_eq!(number(&rows[0], "dropped_packets"), 0);
        assert_eq!(number(&rows[0], "sent_packets"), u64::from(sent));
        assert_eq!(rows[0]["qdisc"], "classes none, xcp");
    }

    fn the_packets_of_a_queue_are_in_its_charts() {
        let net = Net::new();
        let router = net.router(&["g1", "--rate", "8Mbit", "--web", "0", "--json"]);
        eventually("it says where", || router.errors().contains("charts: http://"));
        let errors = router.errors();
        let (_, rest) = errors.split_once("charts: http://").unwrap();
        let address = rest.split_once("/\n").unwrap().0.to_owned();
        let request = format!("GET /events HTTP/1.1\r\nHost: {address}\r\n\r\n");
        let connect = move || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            stream
        };
        let mut stream = net.gateway.run(connect).unwrap();
        let (receiver, sender) = (net.receiver(4, 9000), net.socket(4, 9000));
        let received = thread::spawn(move || received(&receiver).len());
        // With the headers of UDP and IP, 1000 bytes: 3 s of the link, which the queue keeps full
        // over many publications of its counts.
        for _ in 0..300 {
            for _ in 0..10 {
                send(&sender, &[0; 972]);
            }
            thread::sleep(Duration::from_millis(10));
        }
        let received = received.join().unwrap();
        // The counts are a quarter of a second old, and so are the charts.
        thread::sleep(Duration::from_millis(900));
        router.end(Signal::INT);
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        // The last chunk of the answer is empty (RFC 9112 section 7.1).
        assert!(text.ends_with("event: end\ndata: {}\n\n\r\n0\r\n\r\n"), "{text}");
        let (mut last, mut bits) = (0.0, 0.0);
        for event in text.lines().filter_map(|line| line.strip_prefix("data: {\"time_s\":")) {
            let moment: Value = serde_json::from_str(&format!("{{\"time_s\":{event}")).unwrap();
            let link = &moment["links"][0];
            assert_eq!(link["name"], "g1");
            let now = moment["time_s"].as_f64().unwrap();
            let rate = link["rate_bps"].as_f64().unwrap();
            // A packet of 8000 bits may be counted with its departure or its release.
            let most = 8e6 + 3.0 * 8000.0 / (now - last);
            assert!(rate <= most, "{rate} bit/s in {} s, of a link of 8 Mbit/s", now - last);
            bits += rate * (now - last);
            last = now;
        }
        assert!((bits - received as f64 * 8000.0).abs() < 1.0, "{bits} bits of {received} packets");
    }

    /// The metrics, read over HTTP on the gateway.
    fn metrics(net: &Net, router: &Running) -> String {
        let errors = router.errors();
        let (_, rest) = errors.split_once("http://").unwrap();
        let address: SocketAddr = rest.split_once("/metrics").unwrap().0.parse().unwrap();
        // The numbers are a quarter of a second old at most.
        thread::sleep(Duration::from_millis(600));
        let get = || {
            let mut stream = TcpStream::connect(address).unwrap();
            write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text
        };
        net.gateway.run(get).unwrap()
    }

    fn a_full_queue_goes_out_before_another() {
        let net = Net::new();
        let file = net.path("router.toml");
        fs::write(&file, "rate = '2Mbit'\nqdisc = 'droptail'\nqueue = '400p'").unwrap();
        let router = net.router(&["g1", "--config", file.to_str().unwrap(), "--json"]);
        let (receiver, sender) = (net.receiver(4, 9000), net.socket(4, 9000));
        // 300 packets of 528 bytes are 600 ms.
        let some = |range: std::ops::Range<u32>| {
            for number in range {
                let mut payload = [0; 500];
                payload[..4].copy_from_slice(&number.to_be_bytes());
                send(&sender, &payload);
            }
        };
        some(0..300);
        fs::write(&file, "rate = '2Mbit'\nqdisc = 'xcp'\nqueue = '400p'").unwrap();
        router.signal(Signal::HUP);
        eventually("the settings are read", || router.errors().contains("new settings"));
        // The new queue takes packets from here on, and begins when the old one is empty.
        some(300..350);
        assert_eq!(received(&receiver), (0..350).collect::<Vec<_>>());
        let rows = router.end(Signal::INT);
        assert_eq!((&rows[0]["qdisc"], number(&rows[0], "dropped_packets")), (&"xcp".into(), 0));
    }

    /// Rules, devices and tables of nftables of the gateway.
    fn traces(net: &Net) -> Vec<Option<String>> {
        vec![
            Some(ip(&net.gateway, &["rule"])),
            Some(ip(&net.gateway, &["-6", "rule"])),
            Some(ip(&net.gateway, &["-o", "link"])),
            Some(ip(&net.gateway, &["route", "show", "table", "all"])),
            output(&net.gateway, "nft", &["list", "tables"]),
        ]
    }

    fn same(now: &[Option<String>], before: &[Option<String>]) {
        for (now, before) in now.iter().zip(before) {
            assert_eq!(now, before);
        }
    }

    fn a_killed_router_leaves_nothing() {
        let net = Net::new();
        let before = traces(&net);
        let (receiver, sender) = (net.receiver(4, 9000), net.socket(4, 9000));
        for _ in 0..2 {
            let arguments = ["g1", "--rate", "1Mbit", "--qdisc", "droptail", "--json"];
            let mut router = net.router(&arguments);
            for _ in 0..20 {
                send(&sender, &[0; 1000]);
            }
            router.signal(Signal::KILL);
            router.wait();
            // Held packets are lost, and new ones pass.
            let _ = received(&receiver);
            for number in 0..200_u32 {
                send(&sender, &number.to_be_bytes());
            }
            assert_eq!(received(&receiver).len(), 200);
            same(&traces(&net), &before);
        }
        let router = net.router(&["g1", "--rate", "1Mbit", "--qdisc", "droptail", "--json"]);
        send(&sender, &[0; 1000]);
        assert_eq!(received(&receiver).len(), 1);
        assert_eq!(number(&router.end(Signal::INT)[0], "sent_packets"), 1);
    }

    /// Settings of a gateway for forwarding, by path.
    fn settings(net: &Net) -> Vec<(String, String)> {
        let read = || {
            let root = "/proc/sys/net/ipv4";
            let mut all = vec![format!("{root}/ip_forward")];
            for name in ["all", "default", "lo", "g0", "g1"] {
                for key in ["forwarding", "accept_redirects", "send_redirects", "rp_filter"] {
                    all.push(format!("{root}/conf/{name}/{key}"));
                }
            }
            all.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
        };
        net.gateway.run(read).unwrap()
    }

    /// True if a connection from a namespace to an address is answered, also by a refusal.
    fn reaches(from: &Namespace, address: SocketAddr) -> bool {
        let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(700));
        match from.run(connect).unwrap() {
            Ok(_) => true,
            Err(error) => error.kind() == ErrorKind::ConnectionRefused,
        }
    }

    fn a_shell_makes_its_machine_no_router() {
        let net = Net::new();
        // A gateway that forwards no packets and accepts no redirects.
        net.forward("0");
        let harden = || {
            for name in ["all", "default", "g0", "g1"] {
                let path = format!("/proc/sys/net/ipv4/conf/{name}/accept_redirects");
                fs::write(path, "0").unwrap();
            }
        };
        net.gateway.run(harden).unwrap();
        let before = settings(&net);
        let [client, server] = hosts(4).map(|host| SocketAddr::from((host, 9000)));
        assert!(!reaches(&net.client, server) && !reaches(&net.server, client));
        let listener = net.server.run(|| TcpListener::bind(server).unwrap()).unwrap();
        for (number, signal) in [Signal::KILL, Signal::INT, Signal::KILL].into_iter().enumerate() {
            // The program inside reaches the outside.
            let out = net.path(&format!("shell-{number}"));
            let script = format!(
                "exec 3<>/dev/tcp/{}/9000 && echo connected && hostname -I; sleep 60",
                server.ip()
            );
            let shell = net.gateway.spawn(env!("CARGO_BIN_EXE_windward"), |command| {
                command
                    .args(["shell", "--delay", "1ms", "--", "bash", "-c", &script])
                    .stdin(Stdio::null())
                    .stdout(File::create(&out).unwrap())
                    .stderr(Stdio::null())
            });
            let mut shell = shell.unwrap();
            let (_connection, from) = listener.accept().unwrap();
            // With the address of the gateway.
            assert_eq!(from.ip().to_string(), "10.9.1.1");
            eventually("the program says so", || {
                fs::read_to_string(&out).unwrap().contains("connected\n")
            });
            // No other packets pass in either direction, and no connection from outside gets in.
            assert!(!reaches(&net.client, server), "client to server");
            assert!(!reaches(&net.server, client), "server to client");
            let inside = SocketAddr::from(([198, 18, 0, 2], 9000));
            assert!(!reaches(&net.client, inside) && !reaches(&net.server, inside), "inside");
            // Only the switches of the interfaces that answers come through have changed.
            let changed: Vec<_> =
                settings(&net).into_iter().zip(&before).filter(|(now, was)| now != *was).collect();
            let is_switch = |path: &str| {
                ["g0", "g1"].iter().any(|name| path.ends_with(&format!("{name}/forwarding")))
            };
            assert!(changed.iter().all(|((path, _), _)| is_switch(path)), "{changed:?}");
            kill_process(Pid::from_raw(shell.id() as i32).unwrap(), signal).unwrap();
            shell.wait().unwrap();
            eventually("all is as before", || settings(&net) == before);
            assert!(!reaches(&net.client, server));
        }
    }

    fn signals_end_it_and_all_is_as_before() {
        let net = Net::new();
        let before = traces(&net);
        for signal in [Signal::INT, Signal::TERM] {
            let router =
                net.router(&["g0", "g1", "--rate", "1Mbit", "--qdisc", "droptail", "--json"]);
            assert!(before[4].is_none() || traces(&net)[4] != before[4]);
            let (receiver, sender) = (net.receiver(4, 9000), net.socket(4, 9000));
            // 20 packets of 528 bytes would be 85 ms: waiting packets leave at once.
            for number in 0..20_u32 {
                let mut payload = [0; 500];
                payload[..4].copy_from_slice(&number.to_be_bytes());
                send(&sender, &payload);
            }
            let rows = router.end(signal);
            assert_eq!(received(&receiver), (0..20).collect::<Vec<_>>());
            assert_eq!(rows.len(), 2);
            assert_eq!(number(&rows[1], "arrived_packets"), number(&rows[1], "sent_packets"));
            same(&traces(&net), &before);
        }
    }

    fn both_directions_and_what_is_sent_here() {
        let net = Net::new();
        let router = net.router(&["g0", "g1", "--rate", "10Mbit", "--own", "--json"]);
        let echo = net.receiver(4, 9000);
        let client = net.socket(4, 9000);
        client.set_read_timeout(Some(QUIET)).unwrap();
        send(&client, b"there");
        let mut buffer = [0; 100];
        let (length, from) = echo.recv_from(&mut buffer).unwrap();
        echo.send_to(&buffer[..length], from).unwrap();
        assert_eq!(client.recv(&mut buffer).unwrap(), 5);
        let [_, server] = hosts(4);
        let here = || UdpSocket::bind("10.9.1.1:0").unwrap().send_to(b"from here", (server, 9000));
        net.gateway.run(here).unwrap().unwrap();
        assert_eq!(echo.recv(&mut buffer).unwrap(), 9);
        let rows = router.end(Signal::INT);
        let sent = |row: usize| number(&rows[row], "sent_bytes");
        // And packets of the kernel that resolve neighbours of IPv6.
        assert!(sent(0) >= 33 && rows[0]["interface"] == "g0", "{rows:?}");
        assert!(sent(1) >= 33 + 37 && rows[1]["interface"] == "g1", "{rows:?}");
    }

    /// A datagram with this congestion header.
    fn datagram(header: CongestionHeader) -> [u8; 500] {
        let packet = Packet { kind: PacketKind::Data, header, ..Packet::default() };
        let mut bytes = [7; 500];
        wire::encode(&packet, &mut bytes).unwrap();
        bytes
    }

    fn forged_xcp_headers_leave_a_flow_its_share() {
        let net = Net::new();
        let router = net.router(&["g1", "--rate", "10Mbit", "--qdisc", "xcp", "--json"]);
        let windward = env!("CARGO_BIN_EXE_windward");
        let log = net.path("server");
        let mut server = net
            .server
            .spawn(windward, |command| {
                let errors = File::create(&log).unwrap();
                command.args(["perf", "server"]).stdin(Stdio::null()).stderr(errors)
            })
            .unwrap();
        eventually("the server listens", || {
            fs::read_to_string(&log).unwrap().contains("listening")
        });
        let ends = Arc::new(AtomicBool::new(false));
        let (sender, of_thread) = (net.socket(4, 9000), Arc::clone(&ends));
        let header =
            CongestionHeader::Xcp { rtt: 0.02, inter_packet: 1e8, delta: 0.0, congestion_flag: 0 };
        // 100 a second.
        let forger = thread::spawn(move || {
            while !of_thread.load(Ordering::Relaxed) {
                send(&sender, &datagram(header));
                thread::sleep(Duration::from_millis(10));
            }
        });
        let arguments =
            ["perf", "client", "10.9.1.2", "--protocol", "xcp", "-t", "10s", "--json", "--quiet"];
        let text = output(&net.client, windward, &arguments);
        ends.store(true, Ordering::Relaxed);
        forger.join().unwrap();
        kill_process(Pid::from_raw(server.id() as i32).unwrap(), Signal::INT).unwrap();
        server.wait().unwrap();
        let outcome: Value = serde_json::from_str(&text.unwrap()).unwrap();
        let goodput = outcome["flows"][0]["goodput_bps"].as_f64().unwrap();
        // The forger counts as at most two flows, so that a third of 10 Mbit/s remains; without the
        // limit, 0.4 Mbit/s remained.
        assert!(goodput > 3e6, "{goodput}");
        assert!(number(&router.end(Signal::INT)[0], "feedback_packets") > 1000);
    }

    fn another_router_is_told_of() {
        let net = Net::new();
        let xcp =
            CongestionHeader::Xcp { rtt: 0.1, inter_packet: 0.005, delta: 0.0, congestion_flag: 0 };
        let estcp = CongestionHeader::EstcpBits { bits: 0 };
        for (qdisc, header, unserved) in
            [("fq-codel", xcp, 10), ("estcp", xcp, 10), ("xcp", xcp, 0), ("estcp", estcp, 0)]
        {
            let router = net.router(&["g1", "--rate", "8Mbit", "--qdisc", qdisc, "--json"]);
            let (receiver, sender) = (net.receiver(4, 9000), net.socket(4, 9000));
            for _ in 0..10 {
                send(&sender, &datagram(header));
            }
            assert_eq!(received(&receiver).len(), 10);
            if unserved > 0 {
                let asked = "datagrams ask for the router `xcp`";
                eventually("it is told", || router.errors().contains(asked));
                assert_eq!(router.errors().matches(asked).count(), 1);
            }
            assert_eq!(router.errors().contains("datagrams ask"), unserved > 0, "{qdisc}");
            assert_eq!(number(&router.end(Signal::INT)[0], "unserved_packets"), unserved);
        }
    }

    /// The next message to the service manager; `None` after a timeout.
    fn heard(manager: &UnixDatagram) -> Option<String> {
        let mut buffer = [0; 200];
        let length = manager.recv(&mut buffer).ok()?;
        Some(String::from_utf8(buffer[..length].to_vec()).unwrap())
    }

    fn a_router_that_hangs_pings_no_watchdog() {
        let net = Net::new();
        let path = net.path("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        // Four pings are due in every second; ten seconds are a generous timeout.
        manager.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let variables = [("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "1000000")];
        let arguments = ["g0", "g1", "--rate", "5Mbit", "--json"];
        let router = net.start_with(&variables, &arguments);
        let is_ping = |word: Option<String>| word.is_some_and(|word| word.trim() == "WATCHDOG=1");
        assert_eq!(heard(&manager).unwrap().trim(), "READY=1");
        assert!((0..5).all(|_| is_ping(heard(&manager))));
        router.signal(Signal::STOP);
        // Those sent before it stopped are read first.
        manager.set_read_timeout(Some(QUIET)).unwrap();
        eventually("it is silent", || heard(&manager).is_none());
        assert_eq!(heard(&manager), None);
        router.signal(Signal::CONT);
        manager.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        assert!((0..3).all(|_| is_ping(heard(&manager))));
        router.end(Signal::TERM);
    }

    fn errors_say_what_to_do() {
        let net = Net::new();
        let fails = |arguments: &[&str], status: i32, what: &str| {
            let mut router = net.start(arguments);
            let code = router.wait().code();
            assert!(router.errors().contains(what), "{what}: {}", router.errors());
            assert_eq!(code, Some(status), "{arguments:?}");
        };
        let rate = ["--rate", "5Mbit"];
        fails(&[&["g7"][..], &rate].concat(), 2, "cannot find the device g7");
        let nonsense = [&["g1", "--metrics", "nonsense"][..], &rate].concat();
        fails(&nonsense, 2, "expected a port, an IP address or both");
        fails(&["g1"], 2, "no rate: write --rate 50Mbit");
        fails(&["g1", "--rate", "0"], 2, "--rate");
        fails(
            &[&["g1", "--qdisc", "fqcodel"][..], &rate].concat(),
            2,
            "a similar value exists: 'fq-codel'",
        );
        fails(&[&["g1", "--config", "/no/such"][..], &rate].concat(), 2, "cannot read /no/such");
        let taken = net.gateway.run(|| TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
        let address = taken.local_addr().unwrap().to_string();
        let metrics = [&["g1", "--metrics", &address][..], &rate].concat();
        fails(&metrics, 2, "--metrics: another program uses port");
        let router = net.router(&["g1", "--rate", "5Mbit", "--json"]);
        let other = Net { files: tempfile::tempdir().unwrap(), ..net };
        let mut second = other.start(&["g1", "--rate", "5Mbit"]);
        assert_eq!(second.wait().code(), Some(1));
        assert!(second.errors().contains("another process diverts them already"));
        router.end(Signal::INT);
        other.forward("0");
        let mut idle = other.start(&["g1", "--rate", "5Mbit"]);
        assert_eq!(idle.wait().code(), Some(1));
        assert!(idle.errors().contains("sysctl -w net.ipv4.ip_forward=1"), "{}", idle.errors());
    }
}
