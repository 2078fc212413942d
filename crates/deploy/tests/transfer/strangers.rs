//! Strangers at the door: wrong tickets, garbage, and handshakes that stall.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use windward_deploy::ticket::Ticket;
use windward_deploy::transfer::receive::{self, ReceiveOptions};
use windward_deploy::transfer::send::{self, SendOptions, Target};
use windward_deploy::transfer::walk::{Choice, Walk};
use windward_deploy::{Endpoint, Error, Identity, Options, Service, Trust, clock};

use crate::child::Process;
use crate::place::{LOOPBACK, Place, Receiver, noise, tree, write};

#[test]
fn a_ticket_admits_one_sender() {
    let place = Place::new();
    write(&place.from.join("a"), b"a");
    let receiver = place.keeper();
    let ticket: Ticket = receiver.ticket.parse().expect("a ticket");

    let wrong = Ticket { token: [0; 16], ..ticket.clone() };
    let error = place.send(&wrong.to_string()).0.expect_err("a wrong token");
    assert!(matches!(&error, Error::Refused(why) if why.contains("not valid here")), "{error:?}");
    let strange = Ticket { fingerprint: windward_deploy::Fingerprint([7; 32]), ..ticket };
    let error = place.send(&strange.to_string()).0.expect_err("another machine");
    assert!(matches!(&error, Error::Peer(why) if why.contains("fingerprint")), "{error:?}");

    place.send(&receiver.ticket).0.expect("the first sender");
    let other = Place { near: place.near.with_file_name("other"), ..Place::new() };
    let error = other.send(&receiver.ticket).0.expect_err("a second sender");
    assert!(matches!(&error, Error::Refused(why) if why.contains("another sender")), "{error:?}");
    place.send(&receiver.ticket).0.expect("the first sender again");

    let error = receive::run(
        Identity::open(&place.far).expect("an identity"),
        place.receive_options(),
        &AtomicBool::new(false),
        |_| Ok::<_, Error>(()),
        |_| {},
    )
    .expect_err("two receivers in one folder");
    assert!(error.to_string().contains("another `windward receive`"), "{error}");
    receiver.stop();
}

/// Otherwise two processes of one key would displace each other until the larger one is done.
#[test]
fn a_newer_send_of_the_same_key_ends_the_earlier_one() {
    let place = Place::new();
    write(&place.from.join("a"), &noise(1, 2 << 20));
    let receiver = place.keeper();
    let slow = SendOptions { limit: Some(1e5), ..place.send_options() };
    std::thread::scope(|scope| {
        let first = scope.spawn(|| place.send_by(&receiver.ticket, &slow).0);
        while !matches!(receiver.events.recv(), Ok(receive::Event::Began(_))) {}
        place.send(&receiver.ticket).0.expect("the second");
        let error = first.join().expect("no panic").expect_err("displaced");
        assert!(
            matches!(&error, Error::Refused(why) if why.contains("took its place")),
            "{error:?}"
        );
    });
    receiver.stop();
}

/// Two senders with keys of their own. What one of them sends, the other cannot disturb.
#[test]
fn known_senders_are_served_side_by_side() {
    let one = Place::new();
    let at = |name: &str| one.home().join(name);
    let (to, far) = (one.to.clone(), one.far.clone());
    let other = Place { _home: None, from: at("more"), to, near: at("other"), far };
    write(&one.from.join("a"), &noise(1, 2 << 20));
    write(&other.from.join("b"), &noise(2, 2 << 20));
    // Both have had a ticket once.
    for place in [&one, &other] {
        let receiver =
            Receiver::start(ReceiveOptions { new_ticket: true, ..place.receive_options() });
        place.send(&receiver.ticket).0.expect("sent");
        receiver.end().0.expect("received");
    }
    write(&one.from.join("a"), &noise(3, 2 << 20));
    write(&other.from.join("b"), &noise(4, 1 << 20));

    let options = ReceiveOptions { keep: true, known: true, ..one.receive_options() };
    let receiver = Receiver::start(options);
    let ticket: Ticket = receiver.ticket.parse().expect("a ticket");
    let send = |place: &Place, from: &Path, limit, stop: &AtomicBool| {
        let (addresses, fingerprint) = (ticket.addresses.clone(), ticket.fingerprint);
        let target = Target { addresses, fingerprint, token: None, name: None };
        let walk = Walk::new(&[from.to_owned()], Choice::default()).expect("a folder");
        let options = SendOptions { limit, ..place.send_options() };
        let (identity, figures) = (Identity::open(&place.near).expect("a key"), Arc::default());
        let result = send::run(identity, &target, &walk, &options, &figures, stop);
        (result, figures)
    };
    let (enough, go_on) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| send(&one, &one.from, Some(1e5), &enough).0);
        while !matches!(receiver.events.recv(), Ok(receive::Event::Began(_))) {}
        send(&other, &other.from, None, &go_on).0.expect("the other, meanwhile");
        // The other has another file of this name.
        let there = at("from/a");
        while !one
            .to
            .join("from")
            .read_dir()
            .expect("there")
            .flatten()
            .any(|entry| entry.file_name().to_string_lossy().starts_with(".windward-"))
        {
            std::thread::sleep(Duration::from_millis(10));
        }
        let (double, linked) = (at("double/from"), at("linked/from"));
        write(&double.join("a"), &noise(5, 1 << 20));
        std::fs::create_dir_all(&linked).expect("made");
        std::os::unix::fs::symlink("b", linked.join("a")).expect("linked");
        for from in [&double, &linked] {
            let figures = send(&other, from, None, &go_on).1;
            let remarks = figures.take_remarks();
            assert!(
                remarks.pending.iter().any(|(text, _)| text.contains("another sender sends it")),
                "{remarks:?}"
            );
        }
        assert!(!slow.is_finished(), "side by side");
        enough.store(true, Ordering::Relaxed);
        let interrupted = slow.join().expect("no panic");
        assert!(matches!(interrupted, Err(Error::Interrupted)), "{interrupted:?}");
        send(&one, &one.from, None, &go_on).0.expect("resumed");
        assert_eq!(std::fs::read(there).expect("there"), noise(3, 2 << 20));
    });
    assert_eq!(tree(&other.to.join("more")), tree(&other.from));
    receiver.stop();
}

/// Others behind the same address are at the door, and go.
#[test]
fn a_sender_behind_a_busy_address_waits_for_its_turn() {
    let place = Place::new();
    write(&place.from.join("a"), b"a");
    let receiver = place.receiver();
    let ticket: Ticket = receiver.ticket.parse().expect("a ticket");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let crowd: Vec<_> = runtime.block_on(async {
        let identity = Arc::new(Identity::generate().expect("an identity"));
        let endpoint = Endpoint::client(LOOPBACK, identity, Options::default()).expect("a client");
        let mut crowd = Vec::new();
        for _ in 0..16 {
            let trust = Trust::Pinned(ticket.fingerprint);
            let guest = endpoint.connect(ticket.addresses[0], Service::Transfer, trust).await;
            crowd.push(guest.expect("connected"));
        }
        // Until they are at the door.
        tokio::time::sleep(Duration::from_millis(300)).await;
        crowd
    });
    let options = SendOptions { patience: Duration::from_secs(60), ..place.send_options() };
    let (sent, figures) = place.send_by(&receiver.ticket, &options);
    sent.expect("sent in the end");
    let said = figures.take_said().concat();
    assert!(said.contains("too many connections of this address at once; trying again"), "{said}");
    drop(crowd);
    receiver.end().0.expect("received");
}

#[test]
fn a_receiver_that_is_not_there_is_named_soon() {
    let place = Place::new();
    write(&place.from.join("a"), b"a");
    let receiver = place.receiver();
    let ticket = receiver.ticket.clone();
    receiver.stop();
    let first_patience = Duration::from_secs(3);
    let options =
        SendOptions { first_patience, patience: Duration::from_secs(600), ..place.send_options() };
    let since = clock::now();
    let (sent, figures) = place.send_by(&ticket, &options);
    let error = sent.expect_err("nobody listens").to_string();
    assert!(error.contains("does not answer; gave up after 3 s"), "{error}");
    assert!(clock::now().duration_since(since) < Duration::from_secs(30));
    let said = figures.take_said().concat();
    assert!(said.contains("no answer from 127.0.0.1:") && said.contains("1228 bytes"), "{said}");
}

/// Half of the packets are noise, half are those of a real client, cut or with a wrong bit.
#[test]
fn garbage_does_not_disturb_a_transfer() {
    let place = Place::new();
    write(&place.from.join("a"), &noise(1, 2 << 20));
    let receiver = place.receiver();
    let ticket: Ticket = receiver.ticket.parse().expect("a ticket");
    let done = AtomicBool::new(false);
    let sent = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut stalling = Stalling::new(ticket.addresses[0]);
            let mut number = 0;
            while !done.load(Ordering::Relaxed) {
                number += 1;
                let random = noise(number, 1300);
                let length = 1 + random[0] as usize * 5;
                stalling.throw(&random[..length.min(1300)]);
                let mut first = stalling.first_packet();
                match number % 3 {
                    0 => first.truncate(length.min(first.len())),
                    1 => first[length % 1200] ^= 1 << (random[1] % 8),
                    // A long header with another version (RFC 9000 section 17.2.1).
                    _ => first[1..5].copy_from_slice(&[0x1a, 0x2a, 0x3a, 0x4a]),
                }
                stalling.throw(&first);
                // Some thousand packets per second.
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        let sent = place.send(&receiver.ticket).0;
        done.store(true, Ordering::Relaxed);
        sent
    });
    sent.expect("sent");
    receiver.end().0.expect("received");
    assert_eq!(place.tree(), tree(&place.from));
}

/// Clients that begin a handshake and do not go on: half of them are silent at once, half show
/// their address first. They need a place of the receiver each, and memory.
#[test]
fn stalled_handshakes_take_neither_places_nor_memory() {
    let stalled = std::env::var("WINDWARD_STALLED").ok().and_then(|text| text.parse().ok());
    let place = Place::new();
    write(&place.from.join("a"), &noise(1, 100_000));
    let mut receiver = Process::receiver(&place, &[]);
    let word = std::fs::read_to_string(place.home().join("ticket")).expect("a ticket");
    let ticket: Ticket = word.parse().expect("a ticket");
    let before = receiver.peak();
    let mut stalling = Stalling::new(ticket.addresses[0]);
    for number in 0..stalled.unwrap_or(10_000) {
        stalling.stall(number % 2 == 0);
    }
    assert!(stalling.answers > 0, "no client was asked to show its address");
    let grown = receiver.peak() - before;
    assert!(grown < 32 << 20, "{grown} bytes more");
    // The places of strangers that hold still are not all that there are.
    let patient = SendOptions { patience: Duration::from_secs(120), ..place.send_options() };
    let (sent, _) = place.send_by(&word, &patient);
    sent.expect("sent");
    assert_eq!(receiver.end(Duration::from_secs(60)), Some(true));
    assert_eq!(place.tree(), tree(&place.from));
}

/// Clients of QUIC that do not go on.
struct Stalling {
    endpoint: quinn_proto::Endpoint,
    config: quinn_proto::ClientConfig,
    sockets: Vec<UdpSocket>,
    server: SocketAddr,
    count: usize,
    /// Packets of the server that were answered.
    answers: usize,
}

impl Stalling {
    fn new(server: SocketAddr) -> Stalling {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("TLS 1.3")
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        tls.alpn_protocols = vec![Service::Transfer.alpn().to_vec()];
        let tls = quinn_proto::crypto::rustls::QuicClientConfig::try_from(tls).expect("for QUIC");
        let sockets = (0..64).map(|_| {
            let socket = UdpSocket::bind(LOOPBACK).expect("bound");
            socket.set_read_timeout(Some(Duration::from_millis(20))).expect("set");
            socket
        });
        Stalling {
            endpoint: quinn_proto::Endpoint::new(Arc::default(), None, false, None),
            config: quinn_proto::ClientConfig::new(Arc::new(tls)),
            sockets: sockets.collect(),
            server,
            count: 0,
            answers: 0,
        }
    }

    fn socket(&self) -> &UdpSocket {
        &self.sockets[self.count % self.sockets.len()]
    }

    fn throw(&self, bytes: &[u8]) {
        // A full buffer of the kernel loses packets, as any queue does.
        let _ = self.socket().send_to(bytes, self.server);
    }

    fn connect(&mut self) -> (quinn_proto::ConnectionHandle, quinn_proto::Connection) {
        self.count += 1;
        let config = self.config.clone();
        self.endpoint.connect(clock::now(), config, self.server, "windward").expect("begun")
    }

    /// The next packet of a connection; empty if it has none now.
    fn packet(connection: &mut quinn_proto::Connection) -> Vec<u8> {
        let mut bytes = Vec::new();
        let _ = connection.poll_transmit(clock::now(), 1, &mut bytes);
        bytes
    }

    fn first_packet(&mut self) -> Vec<u8> {
        let (_, mut connection) = self.connect();
        Stalling::packet(&mut connection)
    }

    /// Begins a handshake. With `answer`, answers the first packet of the server, which may ask it
    /// to show its address.
    fn stall(&mut self, answer: bool) {
        let (handle, mut connection) = self.connect();
        self.throw(&Stalling::packet(&mut connection));
        let mut buffer = [0; 2048];
        while answer && let Ok((length, _)) = self.socket().recv_from(&mut buffer) {
            let data = bytes::BytesMut::from(&buffer[..length]);
            let now = clock::now();
            let event = self.endpoint.handle(now, self.server, None, None, data, &mut Vec::new());
            // Packets for earlier clients of the same socket are left.
            if let Some(quinn_proto::DatagramEvent::ConnectionEvent(of, event)) = event
                && of == handle
            {
                connection.handle_event(event);
                self.answers += 1;
                return self.throw(&Stalling::packet(&mut connection));
            }
        }
    }
}
