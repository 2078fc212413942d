//! Tests with namespaces and devices of the running kernel. Each test creates its own, and removes
//! them even if it fails. They have a time limit and are skipped without root.

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeSet;
    use std::fs;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
    use std::os::fd::{AsFd, BorrowedFd};
    use std::os::unix::process::CommandExt;
    use std::panic::catch_unwind;
    use std::path::Path;
    use std::process::{Child, Command, Stdio, exit};
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    use rustix::process::{Pid, Signal, kill_process, kill_process_group};
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use windward_core::units::Duration as Span;
    use windward_netns::packet::{Ecn, Header, set_ecn, too_big};
    use windward_netns::{
        Inside, Namespace, Pair, PairOptions, Poller, Published, Received, Rights, ToSend, Tun,
        become_root, published, start_up, sweep,
    };

    const TESTS: &[(&str, fn())] = &[
        ("a_namespace_has_its_own_loopback", a_namespace_has_its_own_loopback),
        ("children_are_inside", children_are_inside),
        ("packets_cross_a_pair", packets_cross_a_pair),
        ("nothing_is_sent_unasked", nothing_is_sent_unasked),
        ("both_ends_may_be_own_namespaces", both_ends_may_be_own_namespaces),
        ("pairs_and_nested_pairs_do_not_collide", pairs_and_nested_pairs_do_not_collide),
        ("marked_packets_are_accepted", marked_packets_are_accepted),
        ("too_big_is_heard", too_big_is_heard),
        ("offload_keeps_the_bytes", offload_keeps_the_bytes),
        ("without_ipv6_there_is_ipv4", without_ipv6_there_is_ipv4),
        ("nested_pairs_reach_out_by_masquerading", nested_pairs_reach_out_by_masquerading),
        ("packets_that_are_not_read_are_counted", packets_that_are_not_read_are_counted),
        ("resolv_conf_is_replaced_inside_only", resolv_conf_is_replaced_inside_only),
        ("names_and_files_are_for_others_too", names_and_files_are_for_others_too),
        ("all_inside_is_killed", all_inside_is_killed),
        ("dropped_things_are_gone", dropped_things_are_gone),
        ("a_killed_child_leaves_nothing", a_killed_child_leaves_nothing),
        ("ctrl_c_ends_the_child_and_cleans_up", ctrl_c_ends_the_child_and_cleans_up),
        ("a_killed_parent_leaves_nothing", a_killed_parent_leaves_nothing),
        ("a_stopped_guard_cleans_up_once_it_goes_on", a_stopped_guard_cleans_up_once_it_goes_on),
        ("without_root_in_a_user_namespace", without_root_in_a_user_namespace),
    ];

    /// All together must not take longer.
    const LIMIT: Duration = Duration::from_secs(120);

    pub(super) fn main() {
        start_up();
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        match arguments.first().map(String::as_str) {
            Some("role-parent") => return parent(),
            Some("role-user") => return user(),
            _ => {}
        }
        if !rustix::process::geteuid().is_root() || !Path::new("/dev/net/tun").exists() {
            println!("skipped: namespaces and TUN devices need root and /dev/net/tun");
            return;
        }
        thread::spawn(|| {
            thread::sleep(LIMIT);
            println!("took longer than {LIMIT:?}");
            exit(1);
        });
        let wanted: Vec<&String> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
        let (mut passed, mut failed) = (0, 0);
        for (name, test) in TESTS {
            if wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str())) {
                let is_ok = catch_unwind(test).is_ok();
                *(if is_ok { &mut passed } else { &mut failed }) += 1;
                println!("test {name} ... {}", if is_ok { "ok" } else { "FAILED" });
            }
        }
        // The format of other test runners.
        let verdict = if failed == 0 { "ok" } else { "FAILED" };
        println!("test result: {verdict}. {passed} passed; {failed} failed;");
        exit(i32::from(failed > 0));
    }

    fn make(options: &PairOptions) -> (Namespace, Pair) {
        let inside = Namespace::new().unwrap();
        let pair = Pair::new(None, &inside, options).unwrap();
        (inside, pair)
    }

    /// Devices in the namespace of the calling thread.
    fn devices() -> BTreeSet<String> {
        let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().into())).collect()
    }

    fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
        for _ in 0..500 {
            if holds() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("not after 5 s: {what}");
    }

    /// Waits until some of these files can be read, for at most `timeout`. Returns which can.
    fn wait<const N: usize>(files: [BorrowedFd<'_>; N], timeout: Option<Span>) -> [bool; N] {
        let mut poller = Poller::new().unwrap();
        for (number, file) in (0..).zip(files) {
            poller.add(file, number).unwrap();
        }
        let mut which = [false; N];
        for number in poller.wait(timeout.unwrap_or(Span::from_secs(100))).unwrap() {
            which[number as usize] = true;
        }
        which
    }

    /// Carries packets both ways, after `change`, while `task` runs.
    fn carrying<T>(
        pair: &Pair,
        change: impl Fn(&mut Vec<u8>) + Sync,
        task: impl FnOnce() -> T,
    ) -> T {
        let (end, told) = std::io::pipe().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                let ends = [&pair.inside.tun, &pair.outside.tun];
                let mut buffers = ends.map(Received::new);
                let mut to_send = ToSend::default();
                loop {
                    let files = [ends[0].as_fd(), ends[1].as_fd(), end.as_fd()];
                    let ready = wait(files, None);
                    for (from, to) in [(0, 1), (1, 0)] {
                        while ends[from].recv_many(&mut buffers[from]).is_ok() {
                            for packet in buffers[from].packets() {
                                let mut packet = packet.to_vec();
                                change(&mut packet);
                                to_send.push(&packet);
                            }
                            let _ = ends[to].send_many(&mut to_send);
                        }
                    }
                    if ready[2] {
                        return;
                    }
                }
            });
            // Dropped also when the task panics, which ends the thread above.
            let _told = told;
            task()
        })
    }

    fn read_one(tun: &Tun) -> Option<Vec<u8>> {
        let mut received = Received::new(tun);
        let [ready] = wait([tun.as_fd()], Some(Span::from_millis(2000)));
        ready.then(|| {
            tun.recv_many(&mut received).unwrap();
            received.packets().next().unwrap().to_vec()
        })
    }

    fn output(namespace: &Namespace, program: &str, arguments: &[&str]) -> (String, i32) {
        let (mut read, write) = std::io::pipe().unwrap();
        let mut child =
            namespace.spawn(program, |command| command.args(arguments).stdout(write)).unwrap();
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        (text, Inside::exit_code(child.wait().unwrap()))
    }

    fn a_namespace_has_its_own_loopback() {
        let inside = Namespace::new().unwrap();
        let listener = inside.run(|| TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        assert!(TcpStream::connect(address).is_err(), "not reachable from outside");
        inside.run(|| TcpStream::connect(address).unwrap()).unwrap();
        assert_eq!(inside.run(devices).unwrap(), BTreeSet::from(["lo".into()]));
    }

    fn children_are_inside() {
        let inside = Namespace::new().unwrap();
        let here = fs::read_link("/proc/self/ns/net").unwrap();
        let there = inside.run(|| fs::read_link("/proc/thread-self/ns/net").unwrap()).unwrap();
        let (text, code) = output(&inside, "readlink", &["/proc/self/ns/net"]);
        assert_eq!((text.trim(), code), (there.to_str().unwrap(), 0));
        assert_ne!(here, there);
        assert_eq!(output(&inside, "sh", &["-c", "exit 7"]).1, 7);
        // Descriptors of devices and namespaces must not be kept open by children.
        let usual = Command::new("ls").arg("/proc/self/fd").output().unwrap().stdout;
        let _pair = Pair::new(None, &inside, &PairOptions::default()).unwrap();
        let (text, _) = output(&inside, "ls", &["/proc/self/fd"]);
        assert_eq!(text, String::from_utf8_lossy(&usual));
        let mut none = inside.spawn("no-such-program", |c| c.stderr(Stdio::null())).unwrap();
        assert_eq!(none.wait().unwrap().code(), Some(127));
    }

    fn echo_through(pair: &Pair, inside: &Namespace, outside: impl FnOnce(IpAddr) -> UdpSocket) {
        let gateway: IpAddr = pair.outside.ipv4.into();
        let server = outside(gateway);
        let client = inside.run(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
        exchange(pair, &server, &client);
    }

    fn exchange(pair: &Pair, server: &UdpSocket, client: &UdpSocket) {
        let timeout = Some(Duration::from_secs(2));
        server.set_read_timeout(timeout).unwrap();
        client.set_read_timeout(timeout).unwrap();
        carrying(
            pair,
            |_| (),
            || {
                client.send_to(b"there", server.local_addr().unwrap()).unwrap();
                let mut buffer = [0; 100];
                let (length, from) = server.recv_from(&mut buffer).unwrap();
                assert_eq!(&buffer[..length], b"there");
                server.send_to(b"and back", from).unwrap();
                assert_eq!(client.recv(&mut buffer).unwrap(), 8);
            },
        );
    }

    fn packets_cross_a_pair() {
        let (inside, pair) = make(&PairOptions { mtu: 1400, ..PairOptions::default() });
        assert!(devices().contains(pair.outside.tun.name()));
        echo_through(&pair, &inside, |gateway| UdpSocket::bind((gateway, 0)).unwrap());
        let Some(gateway) = pair.outside.ipv6 else { return println!("no IPv6 here") };
        let server = UdpSocket::bind((gateway, 0)).unwrap();
        let client = inside.run(|| UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).unwrap()).unwrap();
        exchange(&pair, &server, &client);
        // The default route: packets to unknown addresses leave too.
        client.send_to(b"x", "[2001:db8::1]:9".parse::<SocketAddr>().unwrap()).unwrap();
        let packet = read_one(&pair.inside.tun).unwrap();
        assert_eq!(packet[8..24], pair.inside.ipv6.unwrap().octets());
    }

    fn nothing_is_sent_unasked() {
        // In the present namespace, connections that were just closed may still send.
        let (outside, inside) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        let pair = Pair::new(Some(&outside), &inside, &PairOptions::default()).unwrap();
        let files = [pair.inside.tun.as_fd(), pair.outside.tun.as_fd()];
        // Longer than a first router solicitation or multicast report takes.
        let ready = wait(files, Some(Span::from_millis(2500)));
        let first = |tun: &Tun| read_one(tun);
        let sent = if ready[0] { first(&pair.inside.tun) } else { None };
        let sent = sent.or_else(|| ready[1].then(|| first(&pair.outside.tun)).flatten());
        assert_eq!(sent, None, "something was sent");
    }

    fn both_ends_may_be_own_namespaces() {
        let before = devices();
        let (outside, inside) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        let pair = Pair::new(Some(&outside), &inside, &PairOptions::default()).unwrap();
        assert_eq!(devices(), before, "nothing in the present namespace");
        echo_through(&pair, &inside, |gateway| {
            outside.run(|| UdpSocket::bind((gateway, 0)).unwrap()).unwrap()
        });
    }

    fn pairs_and_nested_pairs_do_not_collide() {
        let (first, pair) = make(&PairOptions::default());
        let (_, beside) = make(&PairOptions::default());
        let second = Namespace::new().unwrap();
        let nested = Pair::new(Some(&first), &second, &PairOptions::default()).unwrap();
        let third = Namespace::new().unwrap();
        let deeper = Pair::new(Some(&second), &third, &PairOptions::default()).unwrap();
        let gateways = [&pair, &beside, &nested, &deeper].map(|pair| pair.outside.ipv4);
        assert!(nested.outside.ipv4 != pair.outside.ipv4);
        assert!(deeper.outside.ipv4 != nested.outside.ipv4);
        assert_eq!(
            gateways.iter().collect::<BTreeSet<_>>().len(),
            3 + usize::from(gateways[1] != gateways[2])
        );
        assert!(deeper.outside.ipv4 > pair.outside.ipv4);
        // Many at the same time, none with the address of another.
        let pairs: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|_| scope.spawn(|| make(&PairOptions::default()))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let all: BTreeSet<_> = pairs.iter().map(|(_, pair)| pair.outside.ipv4).collect();
        assert_eq!(all.len(), 8);
    }

    fn marked_packets_are_accepted() {
        let (inside, pair) = make(&PairOptions::default());
        let server = UdpSocket::bind((pair.outside.ipv4, 0)).unwrap();
        server.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let client = inside.run(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
        rustix::net::sockopt::set_ip_tos(&client, 0b1011_1010).unwrap();
        let marking = |packet: &mut Vec<u8>| {
            assert_eq!(Header::parse(packet).unwrap().ecn, Ecn::Ect0);
            assert!(set_ecn(packet, Ecn::Ce));
        };
        carrying(&pair, marking, || {
            client.send_to(b"x", server.local_addr().unwrap()).unwrap();
            // With a wrong header checksum it would not arrive.
            assert_eq!(server.recv(&mut [0; 9]).unwrap(), 1);
        });
    }

    fn too_big_is_heard() {
        let (inside, pair) = make(&PairOptions::default());
        let tun = &pair.inside.tun;
        let gateway6 = pair.outside.ipv6.unwrap_or(Ipv6Addr::UNSPECIFIED);
        let mut targets = vec![IpAddr::from(pair.outside.ipv4)];
        targets.extend(pair.outside.ipv6.map(IpAddr::from));
        for target in targets {
            let any = if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            let client = inside.run(|| UdpSocket::bind(any).unwrap()).unwrap();
            let mut answers = 0;
            // The kernel learns of it soon, and may report it to the socket first. As by a router,
            // each packet that does not fit is answered.
            eventually("packets fit", || {
                if client.send_to(&[7; 1400], (target, 9)).is_err() {
                    return false;
                }
                let packet = read_one(tun).unwrap();
                let answer = too_big(&packet, 1280, pair.outside.ipv4, gateway6);
                answers += answer.iter().count();
                answer.iter().for_each(|answer| tun.send(answer).unwrap());
                packet.len() <= 1280
            });
            assert!(answers > 0, "the first did not fit");
            // The other fragment.
            assert!(read_one(tun).unwrap().len() <= 1280);
        }
    }

    fn offload_keeps_the_bytes() {
        const BYTES: usize = 20_000_000;
        for offload in [false, true] {
            let (inside, pair) = make(&PairOptions { offload, ..PairOptions::default() });
            let listener = TcpListener::bind((pair.outside.ipv4, 0)).unwrap();
            let address = listener.local_addr().unwrap();
            let text: Vec<u8> = (0..BYTES).map(|i| (i * i / 1000) as u8).collect();
            let largest = std::sync::atomic::AtomicUsize::new(0);
            let watch = |packet: &mut Vec<u8>| {
                let length = Header::parse(packet).unwrap().total_len;
                assert_eq!(length, packet.len());
                largest.fetch_max(length, std::sync::atomic::Ordering::Relaxed);
            };
            carrying(&pair, watch, || {
                thread::scope(|scope| {
                    scope.spawn(|| {
                        let mut stream =
                            inside.run(|| TcpStream::connect(address).unwrap()).unwrap();
                        stream.write_all(&text).unwrap();
                    });
                    let (mut stream, _) = listener.accept().unwrap();
                    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
                    let mut got = Vec::new();
                    stream.read_to_end(&mut got).unwrap();
                    assert!(got == text, "offload {offload}: {} of {BYTES} bytes", got.len());
                });
            });
            assert_eq!(largest.into_inner(), 1500, "packets stay packets");
        }
    }

    fn without_ipv6_there_is_ipv4() {
        let inside = Namespace::new().unwrap();
        let switch = "/proc/sys/net/ipv6/conf/default/disable_ipv6";
        if inside.run(|| fs::write(switch, "1")).unwrap().is_err() {
            return println!("no IPv6 here");
        }
        let pair = Pair::new(None, &inside, &PairOptions::default()).unwrap();
        assert_eq!((pair.inside.ipv6, pair.outside.ipv6), (None, None));
        echo_through(&pair, &inside, |gateway| UdpSocket::bind((gateway, 0)).unwrap());
    }

    /// A namespace in a namespace reaches what lies beyond both.
    fn nested_pairs_reach_out_by_masquerading() {
        let far = Namespace::new().unwrap();
        let middle = Namespace::new().unwrap();
        let near = Namespace::new().unwrap();
        let options = PairOptions::default();
        let outer = Pair::new(Some(&far), &middle, &options).unwrap();
        let inner = Pair::new(Some(&middle), &near, &options).unwrap();
        let server = far.run(|| UdpSocket::bind((outer.outside.ipv4, 0)).unwrap()).unwrap();
        let client = near.run(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
        server.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let mut buffer = [0; 9];
        let mut ask = || {
            carrying(
                &outer,
                |_| (),
                || {
                    carrying(
                        &inner,
                        |_| (),
                        || {
                            client.send_to(b"x", server.local_addr().unwrap()).unwrap();
                            let (_, from) = server.recv_from(&mut buffer).ok()?;
                            client.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
                            server.send_to(b"back", from).unwrap();
                            assert_eq!(client.recv(&mut buffer).unwrap(), 4);
                            Some(from.ip())
                        },
                    )
                },
            )
        };
        // New namespaces take this from the machine.
        middle.run(|| fs::write("/proc/sys/net/ipv4/ip_forward", "0").unwrap()).unwrap();
        assert_eq!(ask(), None, "nothing is forwarded unasked");
        let masquerade = inner.masquerade(Some(&middle)).unwrap();
        assert_eq!(ask(), Some(IpAddr::from(outer.inside.ipv4)));
        // The rule can be made again when it is gone, and not before.
        assert!(inner.masquerade(Some(&middle)).is_err());
        drop(masquerade);
        eventually("the rule is gone", || inner.masquerade(Some(&middle)).is_ok());
    }

    fn packets_that_are_not_read_are_counted() {
        let options = PairOptions { tx_queue_len: 10, ..PairOptions::default() };
        let (inside, mut pair) = make(&options);
        assert_eq!(pair.inside.overflow().unwrap(), 0);
        let client = inside.run(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
        for _ in 0..50 {
            // The sender may get an error.
            let _ = client.send_to(b"x", (pair.outside.ipv4, 9));
        }
        assert_eq!(pair.inside.overflow().unwrap(), 40);
        assert_eq!(pair.outside.overflow().unwrap(), 0);
    }

    fn resolv_conf_is_replaced_inside_only() {
        let mut inside = Namespace::new().unwrap();
        let before = fs::read_to_string("/etc/resolv.conf").unwrap();
        assert_eq!(output(&inside, "cat", &["/etc/resolv.conf"]).0, before);
        inside.set_resolv_conf("nameserver 198.18.0.1\n");
        let (text, _) = output(&inside, "cat", &["/etc/resolv.conf"]);
        assert_eq!(text, "nameserver 198.18.0.1\n");
        // Nothing else is hidden.
        assert_eq!(output(&inside, "ls", &["/sys/class/net"]).1, 0);
        assert_eq!(fs::read_to_string("/etc/resolv.conf").unwrap(), before);
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        assert!(!mounts.lines().any(|line| line.starts_with("windward ")), "{mounts}");
    }

    fn names_and_files_are_for_others_too() {
        let mut inside = Namespace::new().unwrap();
        inside.set_hosts([(IpAddr::from([198, 18, 7, 9]), "far")]);
        inside.publish("by-name_1").unwrap();
        let mine = |all: Vec<Published>| {
            let of_mine = |p: &Published| p.process == std::process::id() && p.label == "by-name_1";
            all.into_iter().find(of_mine)
        };
        let found = mine(published().unwrap()).unwrap();
        assert!(found.is_alive());
        // As in another process, which has only the name.
        let entered = found.clone();
        let there = thread::spawn(move || {
            entered.enter().unwrap();
            let hosts = fs::read_to_string("/etc/hosts").unwrap();
            (devices(), hosts.lines().next().unwrap().to_owned())
        });
        assert_eq!(there.join().unwrap(), (["lo".into()].into(), "198.18.7.9 far".into()));
        let outside = fs::read_to_string("/etc/hosts").unwrap();
        assert!(!outside.contains("198.18.7.9"));
        drop(inside);
        assert_eq!(mine(published().unwrap()), None);
        let gone = thread::spawn(move || found.enter().unwrap_err().to_string());
        assert!(gone.join().unwrap().contains("cannot enter the network namespace by-name_1"));
    }

    fn all_inside_is_killed() {
        let inside = Namespace::new().unwrap();
        // Started by the child and left behind by it.
        let script = "sleep 1000 & sleep 1000 & exit 3";
        let mut child = inside.spawn("sh", |sh| sh.args(["-c", script])).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(3));
        assert_eq!(inside.kill_all().unwrap(), 2);
        assert_eq!(inside.kill_all().unwrap(), 0);
    }

    fn dropped_things_are_gone() {
        let before = devices();
        let (mut inside, pair) = make(&PairOptions::default());
        let child = inside.spawn("sleep", |sleep| sleep.arg("1000")).unwrap();
        let id = child.id();
        let name = inside.publish("test").unwrap().to_path_buf();
        let listed = Command::new("ip").args(["netns", "list"]).output().unwrap();
        let label = name.file_name().unwrap().to_str().unwrap();
        assert!(String::from_utf8_lossy(&listed.stdout).contains(label));
        assert!(inside.publish("twice").is_err());
        sweep().unwrap();
        assert!(name.exists(), "its process is alive");
        let identity = fs::read_link(format!("/proc/{id}/ns/net")).unwrap();
        drop((child, pair, inside));
        assert!(!Path::new(&format!("/proc/{id}")).exists(), "the child is gone");
        assert!(!name.exists());
        eventually("devices are gone", || devices() == before);
        assert!(!somebody_in(identity.to_str().unwrap()));
    }

    /// True if a thread of any process is in the namespace or holds it open.
    fn somebody_in(identity: &str) -> bool {
        let paths = |directory: &str| {
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            entries.map(|entry| entry.path().to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        paths("/proc").iter().any(|process| {
            let mut links = paths(&format!("{process}/fd"));
            links.extend(paths(&format!("{process}/task")).iter().map(|t| format!("{t}/ns/net")));
            links.iter().any(|link| {
                fs::read_link(link).is_ok_and(|target| target.to_str() == Some(identity))
            })
        })
    }

    fn a_killed_child_leaves_nothing() {
        let before = devices();
        let (inside, pair) = make(&PairOptions::default());
        let mut child = inside.spawn("sleep", |sleep| sleep.arg("1000")).unwrap();
        let [ended] = wait([child.as_fd()], Some(Span::from_millis(50)));
        assert!(!ended);
        let status = Command::new("kill").args(["-9", &child.id().to_string()]).status().unwrap();
        assert!(status.success());
        let [ended] = wait([child.as_fd()], Some(Span::from_millis(5000)));
        assert!(ended, "its end is told to who polls");
        assert_eq!(Inside::exit_code(child.wait().unwrap()), 128 + 9);
        child.kill().unwrap();
        drop((pair, inside));
        eventually("devices are gone", || devices() == before);
    }

    /// A process with a namespace, a pair and a child, which prints them and waits for the child.
    fn parent() {
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::default()).unwrap();
        }
        let (mut inside, pair) = make(&PairOptions::default());
        let name = inside.publish("parent").unwrap().display().to_string();
        let mut child = inside.spawn("sleep", |sleep| sleep.arg("1000")).unwrap();
        println!("{} {} {name}", child.id(), pair.outside.tun.name());
        let status = child.wait().unwrap();
        drop((pair, inside));
        exit(Inside::exit_code(status));
    }

    struct Parent {
        process: Child,
        child: String,
        device: String,
        name: String,
        identity: String,
    }

    impl Parent {
        fn start() -> Self {
            let mut process = Command::new(std::env::current_exe().unwrap())
                .arg("role-parent")
                .stdout(Stdio::piped())
                .process_group(0)
                .spawn()
                .unwrap();
            let mut line = String::new();
            BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let [child, device, name] = words.try_into().unwrap();
            let identity = fs::read_link(format!("/proc/{child}/ns/net")).unwrap();
            let identity = identity.to_str().unwrap().to_owned();
            assert!(devices().contains(&device) && Path::new(&name).exists());
            eventually("the child has become sleep", || {
                fs::read_to_string(format!("/proc/{child}/comm"))
                    .is_ok_and(|name| name == "sleep\n")
            });
            Parent { process, child, device, name, identity }
        }

        fn check_that_all_is_gone(&self) {
            eventually("the child is gone", || !Path::new("/proc").join(&self.child).exists());
            eventually("the device is gone", || !devices().contains(&self.device));
            eventually("the namespace is gone", || !somebody_in(&self.identity));
        }
    }

    impl Drop for Parent {
        fn drop(&mut self) {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }

    fn ctrl_c_ends_the_child_and_cleans_up() {
        let mut parent = Parent::start();
        // As by a terminal: to all processes in the foreground.
        kill_process_group(Pid::from_child(&parent.process), Signal::INT).unwrap();
        assert_eq!(parent.process.wait().unwrap().code(), Some(128 + 2));
        parent.check_that_all_is_gone();
        assert!(!Path::new(&parent.name).exists());
    }

    fn a_killed_parent_leaves_nothing() {
        let mut parent = Parent::start();
        parent.process.kill().unwrap();
        parent.process.wait().unwrap();
        parent.check_that_all_is_gone();
        eventually("its name is gone", || !Path::new(&parent.name).exists());
    }

    /// The guard of a process.
    fn guard_of(parent: u32) -> Option<Pid> {
        let is_guard = |line: &[u8]| {
            let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
            words.get(1).is_some_and(|word| *word == b"--windward-netns-guard")
                && words.get(2).is_some_and(|word| *word == parent.to_string().as_bytes())
        };
        let all = fs::read_dir("/proc").unwrap().flatten();
        let mut guards = all.filter_map(|entry| {
            let number: i32 = entry.file_name().to_str()?.parse().ok()?;
            let line = fs::read(entry.path().join("cmdline")).ok()?;
            Pid::from_raw(number).filter(|_| is_guard(&line))
        });
        guards.next()
    }

    fn a_stopped_guard_cleans_up_once_it_goes_on() {
        let mut parent = Parent::start();
        let guard = guard_of(parent.process.id()).unwrap();
        kill_process(guard, Signal::STOP).unwrap();
        parent.process.kill().unwrap();
        parent.process.wait().unwrap();
        // The kernel sends it SIGHUP, since its parent has ended, but it must not end.
        let _ = kill_process(guard, Signal::HUP);
        let _ = kill_process(guard, Signal::CONT);
        parent.check_that_all_is_gone();
        eventually("its name is gone", || !Path::new(&parent.name).exists());
    }

    /// A user without rights.
    fn user() {
        let rights = match become_root() {
            Ok(rights) => rights,
            Err(error) => {
                println!("{error}");
                exit(3);
            }
        };
        assert_eq!(rights, Rights::InUserNamespace);
        let (mut inside, pair) = make(&PairOptions::default());
        echo_through(&pair, &inside, |gateway| UdpSocket::bind((gateway, 0)).unwrap());
        inside.set_resolv_conf("nameserver 198.18.0.1\n");
        assert_eq!(output(&inside, "cat", &["/etc/resolv.conf"]).0, "nameserver 198.18.0.1\n");
        println!("crossed");
    }

    fn without_root_in_a_user_namespace() {
        // If the device file is for root alone, as on servers, other users get no devices: here
        // user nobody has another file, in a mount namespace that ends with this test.
        let script = "mount -t tmpfs none /mnt && mknod /mnt/tun c 10 200 && \
                      chmod 666 /mnt/tun && mount --bind /mnt/tun /dev/net/tun && \
                      cp \"$1\" /mnt/test && chmod 755 /mnt/test && \
                      exec setpriv --reuid 65534 --regid 65534 --clear-groups /mnt/test role-user";
        let this = std::env::current_exe().unwrap();
        let output = Command::new("unshare")
            .args(["--mount", "sh", "-c", script, "sh"])
            .arg(this)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.code() == Some(3) {
            assert!(text.contains("run as root, or allow user namespaces"), "{text}");
            return println!("skipped: {text}");
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("crossed"), "{text}{errors}");
    }
}
