//! Forwarders and servers on loopback: what arrives, how connections end, and who is refused.

#![cfg(target_os = "linux")]

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quinn::SendStream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;
use tokio::time::timeout;
use windward_deploy::forward::{
    Access, Forwarder, ForwarderSettings, Invitation, Limits, Mapping, Ports, Remote, Server,
    ServerSettings,
};
use windward_deploy::peers::{Choice, Peer, PeerList, Role};
use windward_deploy::{
    Connection, Endpoint, Error, Fingerprint, Identity, Options, Service, Trust, clock,
};

/// Longest time of anything here; nothing comes near it unless it hangs.
const LIMIT: Duration = Duration::from_secs(60);
const NO_TOKEN: [u8; 16] = [0; 16];

fn home() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

async fn bounded<T>(what: impl Future<Output = T>) -> T {
    timeout(LIMIT, what).await.expect("in time")
}

fn identity() -> Arc<Identity> {
    Arc::new(Identity::generate().expect("an identity"))
}

/// A server that accepts one key, and the key.
struct Bed {
    server: Server,
    near: Arc<Identity>,
    far: Arc<Identity>,
}

async fn serve(rules: &str, limits: Limits) -> Bed {
    let (near, far) = (identity(), identity());
    let mut access = Access::default();
    access.allow(&format!("{}={rules}", near.fingerprint())).expect("rules");
    let server = start(&far, access, limits, None).await;
    Bed { server, near, far }
}

async fn start(
    far: &Arc<Identity>,
    access: Access,
    limits: Limits,
    invitation: Option<Invitation>,
) -> Server {
    let settings =
        ServerSettings { listen: home(), protocol: None, qlog: None, limits, metrics: None };
    Server::start(Arc::clone(far), &settings, access, invitation).await.expect("a server")
}

impl Bed {
    fn remote(&self) -> Remote {
        let address = self.server.endpoint().local_address().expect("an address");
        Remote {
            addresses: vec![address.to_string()],
            key: self.far.fingerprint(),
            token: NO_TOKEN,
            protocol: None,
            qlog: None,
        }
    }

    /// A forwarder to these targets, and one port for SOCKS.
    async fn forward(&self, mappings: &[String]) -> Forwarder {
        let mappings = mappings.iter().map(|text| text.parse::<Mapping>().expect(text)).collect();
        let settings = ForwarderSettings { mappings, socks: vec![home()], metrics: Some(home()) };
        let ports = Ports::bind(&settings).await.expect("ports");
        Forwarder::start(Arc::clone(&self.near), self.remote(), ports).await.expect("started")
    }

    /// A connection without a forwarder, which has greeted, with its control stream.
    async fn greet(&self) -> (Connection, SendStream) {
        let to = self.server.endpoint().local_address().expect("an address");
        let client = Endpoint::client(home(), Arc::clone(&self.near), Options::default());
        let trust = Trust::Pinned(self.far.fingerprint());
        let client = client.expect("a client");
        let connecting = client.connect(to, Service::Forward, trust);
        let connection = bounded(connecting).await.expect("connected");
        let (mut send, mut recv) = connection.quic.open_bi().await.expect("a stream");
        send.write_all(&NO_TOKEN).await.expect("written");
        bounded(recv.read_exact(&mut [0])).await.expect("welcome");
        (connection, send)
    }

    /// A forwarder to one target.
    async fn to(&self, target: SocketAddr) -> Forwarder {
        self.forward(&[format!("0:{target}")]).await
    }
}

/// A forwarder that listens nowhere.
async fn none() -> Ports {
    let settings = ForwarderSettings { mappings: vec![], socks: vec![], metrics: None };
    Ports::bind(&settings).await.expect("no ports")
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind(home()).await.expect("a listener");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

/// A target that returns what it reads, until the end of it.
async fn echo() -> SocketAddr {
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
    address
}

/// An echo.
async fn say(program: &mut TcpStream) {
    program.write_all(b"abc").await.expect("written");
    let mut back = [0; 3];
    bounded(program.read_exact(&mut back)).await.expect("read");
}

/// Sends bytes to an echo and then the end, and waits for both.
async fn echoed(program: &mut TcpStream, bytes: &[u8]) {
    program.write_all(bytes).await.expect("written");
    program.shutdown().await.expect("half closed");
    assert_eq!(ending(program).await, (bytes.len(), None));
}

/// The same for more than buffers hold.
async fn all_echoed(program: &mut TcpStream, sent: &[u8]) {
    let (mut read, mut write) = program.split();
    let mut got = Vec::new();
    let both = async {
        tokio::join!(
            async {
                write.write_all(sent).await.expect("written");
                // The echo ends after the end, and no earlier.
                write.shutdown().await.expect("half closed");
            },
            async { read.read_to_end(&mut got).await.expect("read") }
        )
    };
    bounded(both).await;
    assert!(got == sent, "{} bytes of {}", got.len(), sent.len());
}

async fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.expect("connected")
}

/// How a read ends: the number of bytes before, and the error, if any.
async fn ending(stream: &mut TcpStream) -> (usize, Option<ErrorKind>) {
    let mut bytes = Vec::new();
    let end = bounded(stream.read_to_end(&mut bytes)).await;
    (bytes.len(), end.err().map(|error| error.kind()))
}

const RESET: Option<ErrorKind> = Some(ErrorKind::ConnectionReset);

fn bytes(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 31 + index / 251 + seed) as u8).collect()
}

#[tokio::test]
async fn bytes_and_their_end_arrive_in_both_directions() {
    let bed = serve("127.0.0.1:*", Limits::default()).await;
    let forwarder = bed.to(echo().await).await;
    let mut stream = connect(forwarder.addresses()[0]).await;
    all_echoed(&mut stream, &bytes(5_000_000, 1)).await;
}

#[tokio::test]
async fn a_half_closed_connection_still_receives() {
    let bed = serve("127.0.0.1:*", Limits::default()).await;
    let (listener, target) = listen().await;
    let forwarder = bed.to(target).await;
    // The target ends its direction first, then the program; each before the other has sent
    // anything.
    let mut program = connect(forwarder.addresses()[0]).await;
    let (mut far, _) = bounded(listener.accept()).await.expect("accepted");
    far.shutdown().await.expect("half closed");
    assert_eq!(ending(&mut program).await, (0, None));
    program.write_all(b"still here").await.expect("written");
    program.shutdown().await.expect("half closed");
    assert_eq!(ending(&mut far).await, (10, None));
}

#[tokio::test]
async fn a_reset_arrives_as_a_reset() {
    let bed = serve("127.0.0.1:*", Limits::default()).await;
    let (listener, target) = listen().await;
    let forwarder = bed.to(target).await;
    for half_closed in [false, true] {
        for from_target in [false, true] {
            let mut program = connect(forwarder.addresses()[0]).await;
            let (mut far, _) = bounded(listener.accept()).await.expect("accepted");
            let (one, other) =
                if from_target { (&mut far, &mut program) } else { (&mut program, &mut far) };
            one.write_all(b"before").await.expect("written");
            let mut before = [0; 6];
            bounded(other.read_exact(&mut before)).await.expect("read");
            if half_closed {
                one.shutdown().await.expect("half closed");
                assert_eq!(ending(other).await, (0, None));
            }
            // Closes with a reset.
            socket2::SockRef::from(&*one).set_linger(Some(Duration::ZERO)).expect("set");
            if from_target {
                drop(far);
                resets(&mut program, half_closed).await;
            } else {
                drop(program);
                resets(&mut far, half_closed).await;
            }
        }
    }
}

/// Waits until the stream is reset.
async fn resets(stream: &mut TcpStream, half_closed: bool) {
    if half_closed {
        // The end was read already; the reset shows in what is written.
        let all = async {
            loop {
                if let Err(error) = stream.write_all(b"more").await {
                    break error.kind();
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let kind = bounded(all).await;
        assert!(matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{kind:?}");
    } else {
        assert_eq!(ending(stream).await, (0, RESET));
    }
}

#[tokio::test]
async fn targets_that_refuse_or_are_not_allowed_end_with_a_reset() {
    let (listener, closed) = listen().await;
    drop(listener);
    let open = echo().await;
    let bed = serve(&format!("127.0.0.1:{}", closed.port()), Limits::default()).await;
    let forwarder = bed.forward(&[format!("0:{closed}"), format!("0:{open}")]).await;
    for address in &forwarder.addresses()[..2] {
        let mut program = connect(*address).await;
        assert_eq!(ending(&mut program).await, (0, RESET));
    }
    let text = bed.server.meter().text();
    for reply in ["refused", "not_allowed"] {
        let line = format!("windward_forward_requests_total{{reply=\"{reply}\"}} 1");
        assert!(text.contains(&line), "{text}");
    }
}

#[tokio::test]
async fn many_connections_at_once_keep_their_bytes_apart() {
    let bed = serve("127.0.0.1:*", Limits::default()).await;
    let forwarder = bed.to(echo().await).await;
    let to = forwarder.addresses()[0];
    let mut all = JoinSet::new();
    for number in 0..200 {
        all.spawn(async move {
            all_echoed(&mut connect(to).await, &bytes(20_000, number)).await;
        });
    }
    bounded(all.join_all()).await;
}

#[tokio::test]
async fn readers_that_do_not_read_stop_their_writers_and_nobody_else() {
    let bed = serve("127.0.0.1:*", Limits { buffer: 1 << 20, ..Limits::default() }).await;
    let (listener, stalled) = listen().await;
    let forwarder = bed.forward(&[format!("0:{stalled}"), format!("0:{}", echo().await)]).await;
    let mut writers = JoinSet::new();
    let mut targets = Vec::new();
    let accepted = Arc::new(Mutex::new(0_u64));
    for _ in 0..50 {
        let mut program = connect(forwarder.addresses()[0]).await;
        targets.push(bounded(listener.accept()).await.expect("accepted").0);
        let accepted = Arc::clone(&accepted);
        writers.spawn(async move {
            let block = vec![0; 64 << 10];
            while let Ok(length) = program.write(&block).await {
                *accepted.lock().expect("unpoisoned") += length as u64;
            }
        });
    }
    // Until nobody can write any more.
    let mut before = u64::MAX;
    bounded(async {
        loop {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let now = *accepted.lock().expect("unpoisoned");
            if now == before {
                break;
            }
            before = now;
        }
    })
    .await;
    // Between both sides there are at most the first credits of 32 KiB, and the limit for all.
    let received = bed.server.meter().received_bytes.get();
    let unread = forwarder.meter().sent_bytes.get() - received;
    assert!(unread <= 50 * (32 << 10) + (1 << 20), "{unread} bytes in buffers");
    // Others go on.
    let mut program = connect(forwarder.addresses()[1]).await;
    all_echoed(&mut program, &bytes(2_000_000, 3)).await;
    writers.shutdown().await;
    drop(targets);
}

#[tokio::test]
async fn strangers_and_other_servers_are_refused() {
    let bed = serve("127.0.0.1:*", Limits::default()).await;
    let stranger = Forwarder::start(identity(), bed.remote(), none().await).await;
    let error = stranger.err().expect("refused").to_string();
    assert!(error.contains("does not accept this key"), "{error}");
    let other = Remote { key: Fingerprint([7; 32]), ..bed.remote() };
    let other = Forwarder::start(Arc::clone(&bed.near), other, none().await).await;
    let error = other.err().expect("refused").to_string();
    assert!(error.contains("not the machine that was meant"), "{error}");
}

#[tokio::test]
async fn an_invitation_admits_one_key_once() {
    let (far, one, two) = (identity(), identity(), identity());
    let mut access = Access::default();
    access.allow("127.0.0.1:*").expect("rules");
    let token = [9; 16];
    let until = clock::time_of_day() + LIMIT;
    let invitation = Some(Invitation { token, until });
    let server = start(&far, access, Limits::default(), invitation).await;
    let bed = Bed { server, near: Arc::clone(&one), far };
    let with = |token| Remote { token, ..bed.remote() };
    let begin = async |key: &Arc<Identity>, token| {
        Forwarder::start(Arc::clone(key), with(token), none().await).await
    };
    assert!(begin(&two, [8; 16]).await.is_err(), "a wrong token");
    assert!(begin(&one, token).await.is_ok(), "the first with the token");
    assert!(begin(&two, token).await.is_err(), "the token was used");
    assert!(begin(&one, NO_TOKEN).await.is_ok(), "the key is known now");
}

#[tokio::test]
async fn peers_that_speak_garbage_do_no_harm() {
    let bed = serve("127.0.0.1:*", Limits::default()).await;
    let to = bed.server.endpoint().local_address().expect("an address");
    // Not even QUIC.
    let raw = UdpSocket::bind(home()).await.expect("a socket");
    for length in [0, 1, 20, 1200] {
        raw.send_to(&bytes(length, 5), to).await.expect("sent");
    }
    for round in 0..4 {
        let (connection, mut send) = bed.greet().await;
        // Records that nobody knows, for streams that do not exist, then requests alike.
        send.write_all(&bytes(17 * 50, round)).await.expect("written");
        let (mut stream, mut answer) = connection.quic.open_bi().await.expect("a stream");
        let _ = stream.write_all(&bytes(300, round)).await;
        let mut reply = Vec::new();
        if let Ok(length) = bounded(answer.read(&mut [0; 8])).await {
            reply.push(length);
        }
        let _ = connection.quic.send_datagram(bytes(3, round).into());
        let _ = connection.quic.send_datagram(bytes(30, round).into());
        if let Ok(mut uni) = connection.quic.open_uni().await {
            let _ = uni.write_all(&bytes(70_000, round)).await;
        }
        connection.quic.close(0u32.into(), b"");
    }
    // It serves others as before.
    let forwarder = bed.to(echo().await).await;
    let mut program = connect(forwarder.addresses()[0]).await;
    say(&mut program).await;
}

#[tokio::test]
async fn a_server_that_ends_lets_open_connections_finish() {
    let bed = serve("127.0.0.1:*", Limits::default()).await;
    let forwarder = bed.to(echo().await).await;
    let mut program = connect(forwarder.addresses()[0]).await;
    say(&mut program).await;
    let finish = async {
        // While the server ends.
        tokio::time::sleep(Duration::from_millis(300)).await;
        echoed(&mut program, b"two").await;
    };
    bounded(async { tokio::join!(finish, bed.server.shut_down(LIMIT)) }).await;
    // There is no server any more: programs wait, and are refused.
    let mut late = connect(forwarder.addresses()[0]).await;
    assert_eq!(ending(&mut late).await, (0, RESET));
}

#[tokio::test]
async fn connections_that_do_not_end_are_reset_after_the_grace() {
    let bed = serve("127.0.0.1:*", Limits::default()).await;
    let (listener, target) = listen().await;
    let forwarder = bed.to(target).await;
    let mut program = connect(forwarder.addresses()[0]).await;
    let (mut far, _) = bounded(listener.accept()).await.expect("accepted");
    bounded(bed.server.shut_down(Duration::from_millis(200))).await;
    assert_eq!(ending(&mut program).await, (0, RESET));
    assert_eq!(ending(&mut far).await, (0, RESET));
}

#[tokio::test]
async fn new_rules_leave_open_connections_alone() {
    let (near, far) = (identity(), identity());
    let folder = tempfile::tempdir().expect("a folder");
    let list = PeerList::open(folder.path());
    let write = |rules: &str| {
        let text = format!("client ship {} {rules}\n", near.fingerprint());
        std::fs::write(list.path(), text).expect("written");
    };
    write("127.0.0.1:*");
    let mut access = Access::default();
    access.follow(list.clone()).expect("read");
    let server = start(&far, access, Limits::default(), None).await;
    let bed = Bed { server, near: Arc::clone(&near), far };
    let looked = async |count| {
        bounded(async {
            while bed.server.meter().reloads.get() < count {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
    };
    let forwarder = bed.to(echo().await).await;
    let mut program = connect(forwarder.addresses()[0]).await;
    say(&mut program).await;
    write("10.0.0.1:1");
    looked(1).await;
    say(&mut program).await;
    let mut late = connect(forwarder.addresses()[0]).await;
    assert_eq!(ending(&mut late).await, (0, RESET));
    // A key that is not there any more loses its connection.
    std::fs::write(list.path(), "").expect("written");
    assert_eq!(ending(&mut program).await, (0, RESET));
    // Attempts follow each other in at most 5 s, so this program finds it back.
    tokio::time::sleep(Duration::from_millis(500)).await;
    write("127.0.0.1:*");
    looked(3).await;
    say(&mut connect(forwarder.addresses()[0]).await).await;
}

/// Its server would count a connection that nobody uses.
#[tokio::test]
async fn a_forwarder_that_ends_does_not_connect_again() {
    let bed = serve("127.0.0.1:*", Limits { connections: 1, ..Limits::default() }).await;
    let target = echo().await;
    for _ in 0..3 {
        let forwarder = bed.to(target).await;
        let mut program = connect(forwarder.addresses()[0]).await;
        say(&mut program).await;
        drop(program);
        forwarder.shut_down(Duration::ZERO).await;
        // Longer than the first pause between attempts.
        tokio::time::sleep(Duration::from_millis(400)).await;
    }
}

#[tokio::test]
async fn a_forwarder_finds_its_server_again() {
    let bed = serve("127.0.0.1:*", Limits::default()).await;
    let target = echo().await;
    let forwarder = bed.to(target).await;
    let address = bed.server.endpoint().local_address().expect("an address");
    bed.server.shut_down(Duration::ZERO).await;
    let rule = format!("{}=127.0.0.1:*", bed.near.fingerprint());
    let settings = ServerSettings {
        listen: address,
        protocol: None,
        qlog: None,
        limits: Limits::default(),
        metrics: None,
    };
    // The old socket closes when its last task has ended.
    let again = bounded(async {
        loop {
            let mut access = Access::default();
            access.allow(&rule).expect("rules");
            match Server::start(Arc::clone(&bed.far), &settings, access, None).await {
                Ok(server) => break server,
                Err(Error::Socket { .. }) => tokio::time::sleep(Duration::from_millis(50)).await,
                Err(error) => panic!("{error}"),
            }
        }
    })
    .await;
    // This program waits for the connection.
    let mut program = connect(forwarder.addresses()[0]).await;
    echoed(&mut program, b"again").await;
    drop(again);
}

#[tokio::test]
async fn datagrams_of_any_size_return() {
    let bed = serve("127.0.0.1:*", Limits::default()).await;
    let target = UdpSocket::bind(home()).await.expect("a socket");
    let to = target.local_addr().expect("an address");
    tokio::spawn(async move {
        let mut buffer = vec![0; 65_535];
        while let Ok((length, from)) = target.recv_from(&mut buffer).await {
            let _ = target.send_to(&buffer[..length], from).await;
        }
    });
    let forwarder = bed.forward(&[format!("udp:0:{to}")]).await;
    let program = UdpSocket::bind(home()).await.expect("a socket");
    program.connect(forwarder.addresses()[0]).await.expect("connected");
    // The last do not fit into a packet.
    for length in [0, 1, 1000, 1400, 9000, 60_000] {
        let sent = bytes(length, 2);
        let mut buffer = vec![0; 65_535];
        // Datagrams may be lost.
        bounded(async {
            loop {
                program.send(&sent).await.expect("sent");
                let back = timeout(Duration::from_secs(1), program.recv(&mut buffer)).await;
                if back.is_ok_and(|back| back.is_ok_and(|got| buffer[..got] == sent)) {
                    break;
                }
            }
        })
        .await;
    }
}

#[tokio::test]
async fn socks_connects_by_name_and_relays_datagrams() {
    let bed = serve("localhost:*,127.0.0.1:*", Limits::default()).await;
    let target = echo().await;
    let forwarder = bed.forward(&[]).await;
    let socks = forwarder.addresses()[0];
    let [high, low] = target.port().to_be_bytes();
    let mut program = connect(socks).await;
    let mut request = b"\x05\x01\x00\x05\x01\x00\x03\x09localhost".to_vec();
    request.extend([high, low]);
    program.write_all(&request).await.expect("written");
    let mut answer = [0; 12];
    bounded(program.read_exact(&mut answer)).await.expect("read");
    assert_eq!(answer, [5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    echoed(&mut program, b"by name").await;

    // A target that is not allowed: code 2.
    let mut program = connect(socks).await;
    program.write_all(b"\x05\x01\x00\x05\x01\x00\x01\x0a\0\0\x01\x00\x50").await.expect("written");
    bounded(program.read_exact(&mut answer)).await.expect("read");
    assert_eq!(answer[3], 2);

    let far = UdpSocket::bind(home()).await.expect("a socket");
    let [high, low] = far.local_addr().expect("an address").port().to_be_bytes();
    let mut control = connect(socks).await;
    control.write_all(b"\x05\x01\x00\x05\x03\x00\x01\0\0\0\0\0\0").await.expect("written");
    bounded(control.read_exact(&mut answer)).await.expect("read");
    assert_eq!(answer[..6], [5, 0, 5, 0, 0, 1]);
    let relay = SocketAddr::from(([127, 0, 0, 1], u16::from_be_bytes([answer[10], answer[11]])));
    let program = UdpSocket::bind(home()).await.expect("a socket");
    let head = [0, 0, 0, 1, 127, 0, 0, 1, high, low];
    program.send_to(&[&head[..], b"ping"].concat(), relay).await.expect("sent");
    let mut buffer = [0; 100];
    let (length, from) = bounded(far.recv_from(&mut buffer)).await.expect("received");
    assert_eq!(&buffer[..length], b"ping");
    far.send_to(b"pong", from).await.expect("sent");
    let length = bounded(program.recv(&mut buffer)).await.expect("received");
    assert_eq!(buffer[..length], [&head[..], b"pong"].concat());
}

#[tokio::test]
async fn metrics_count_what_was_done() {
    let bed = serve("127.0.0.1:*", Limits::default()).await;
    let forwarder = bed.to(echo().await).await;
    let mut program = connect(forwarder.addresses()[0]).await;
    echoed(&mut program, b"12345").await;
    let metrics = forwarder.metrics().expect("metrics");
    let mut client = connect(metrics).await;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {metrics}\r\n\r\n");
    client.write_all(request.as_bytes()).await.expect("written");
    let mut text = String::new();
    bounded(client.read_to_string(&mut text)).await.expect("read");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("# EOF\n"), "{text}");
    for line in ["windward_forward_sent_bytes_total 5", "windward_forward_received_bytes_total 5"] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

#[tokio::test]
async fn a_request_that_is_given_up_has_not_timed_out() {
    let bed = serve("127.0.0.1:*", Limits::default()).await;
    let (connection, _send) = bed.greet().await;
    let (mut stream, mut answer) = connection.quic.open_bi().await.expect("a stream");
    stream.write_all(&[1]).await.expect("written");
    stream.reset(1u32.into()).expect("open");
    let mut reply = [0];
    bounded(answer.read_exact(&mut reply)).await.expect("a reply");
    assert_eq!(reply, [1], "failed, not timed out");
}

#[tokio::test]
async fn a_peer_has_no_more_connections_than_its_limit() {
    let limits = Limits { streams: 3, connections: 2, ..Limits::default() };
    let bed = serve("127.0.0.1:*", limits).await;
    let forwarder = bed.to(echo().await).await;
    let other = bed.to(echo().await).await;
    let third = bed.to(echo().await).await;
    assert_eq!(third.meter().peer_connections.get(), 0, "refused for now");
    let mut held = Vec::new();
    for number in 0..3 {
        let to = if number == 0 { &other } else { &forwarder };
        let mut program = connect(to.addresses()[0]).await;
        say(&mut program).await;
        held.push(program);
    }
    let mut late = connect(forwarder.addresses()[0]).await;
    assert_eq!(ending(&mut late).await, (0, RESET));
    // The third has its turn.
    drop(held);
    other.shut_down(Duration::ZERO).await;
    let mut program = connect(third.addresses()[0]).await;
    say(&mut program).await;
}

/// QUIC gives streams back in steps of an eighth of their limit, so places are counted apart.
#[tokio::test]
async fn every_place_is_there_again_after_a_thousand_connections() {
    let streams = 40;
    let bed = serve("127.0.0.1:*", Limits { streams, ..Limits::default() }).await;
    let forwarder = bed.to(echo().await).await;
    let to = forwarder.addresses()[0];
    for _ in 0..50 {
        let mut some = JoinSet::new();
        for _ in 0..20 {
            some.spawn(async move {
                let mut program = connect(to).await;
                echoed(&mut program, b"abc").await;
            });
        }
        bounded(some.join_all()).await;
    }
    let mut held = Vec::new();
    for number in 0..streams {
        let mut program = connect(to).await;
        program.write_all(b"a").await.expect("written");
        let back = bounded(program.read_exact(&mut [0])).await;
        assert!(back.is_ok(), "place {number}: {back:?}");
        held.push(program);
    }
    assert_eq!(bed.server.meter().open.get(), streams as i64);
    // The next one is told, and a place that is free is taken.
    assert_eq!(ending(&mut connect(to).await).await, (0, RESET));
    held.pop();
    let mut last = connect(to).await;
    say(&mut last).await;
    drop((held, last));
    bounded(none_is_open(&bed.server)).await;
}

async fn none_is_open(server: &Server) {
    while server.meter().open.get() > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A program that has gone says no more than one that has ended its direction, and a target that
/// does not read hides even that. Their places come back.
#[tokio::test]
async fn silent_connections_give_their_places_back() {
    let second = Duration::from_secs(1);
    let limits = Limits { idle: 3 * second, half_closed: second, ..Limits::default() };
    let bed = serve("127.0.0.1:*", limits).await;
    let (listener, target) = listen().await;
    let forwarder = bed.to(target).await;
    let mut far = Vec::new();
    let mut begin = async || {
        let program = connect(forwarder.addresses()[0]).await;
        far.push(bounded(listener.accept()).await.expect("accepted").0);
        program
    };
    let (gone, mut unread, mut silent) = (begin().await, begin().await, begin().await);
    drop(gone);
    // Until the target takes no more.
    let block = vec![0; 64 << 10];
    while timeout(second, unread.write_all(&block)).await.is_ok() {}
    drop(unread);
    let mut alive = begin().await;
    for _ in 0..8 {
        tokio::time::sleep(second / 2).await;
        alive.write_all(b"a").await.expect("written");
    }
    assert_eq!(bed.server.meter().open.get(), 1, "only the one that says something");
    assert_eq!(ending(&mut silent).await, (0, RESET));
    drop((alive, far));
    bounded(none_is_open(&bed.server)).await;
}

#[tokio::test]
async fn a_revoked_peer_loses_its_connection_at_once() {
    let (near, far) = (identity(), identity());
    let folder = tempfile::tempdir().expect("a folder");
    let list = PeerList::open(folder.path());
    list.admit(Peer::admitted(Role::Client, near.fingerprint(), "127.0.0.1:*")).expect("written");
    let mut access = Access::default();
    access.follow(list.clone()).expect("read");
    let server = start(&far, access, Limits::default(), None).await;
    let bed = Bed { server, near, far };
    let forwarder = bed.to(echo().await).await;
    let mut program = connect(forwarder.addresses()[0]).await;
    say(&mut program).await;
    let word = bed.near.fingerprint().to_string();
    list.revoke(&Choice { word, role: None }).expect("revoked");
    let late = Forwarder::start(Arc::clone(&bed.near), bed.remote(), none().await).await;
    assert!(late.is_err(), "refused before anybody looks at the list again");
    assert_eq!(ending(&mut program).await, (0, RESET));
}

#[tokio::test]
async fn ports_are_looked_at_before_the_server() {
    let (_taken, taken) = listen().await;
    let port = taken.port();
    for (mappings, socks, expected) in [
        (vec![format!("{port}:a:1")], None, "another program or another option has this port"),
        (vec![format!("192.0.2.1:{port}:a:1")], None, "this machine has no such address"),
        (vec!["9:a:1".to_owned(), "9:b:1".to_owned()], None, "127.0.0.1:9 is named twice"),
        (vec!["9:a:1".to_owned()], Some("127.0.0.1:9"), "127.0.0.1:9 is named twice"),
    ] {
        let settings = ForwarderSettings {
            mappings: mappings.iter().map(|text| text.parse().expect(text)).collect(),
            socks: socks.iter().map(|text| text.parse().expect(text)).collect(),
            metrics: None,
        };
        let error = Ports::bind(&settings).await.err().expect(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// Programs that have gone are no reason to refuse others, before their time is over too.
#[tokio::test]
async fn abandoned_connections_make_room_for_others() {
    let bed = serve("127.0.0.1:*", Limits { streams: 2, ..Limits::default() }).await;
    let (listener, target) = listen().await;
    let forwarder = bed.forward(&[format!("0:{target}"), format!("0:{}", echo().await)]).await;
    let mut far = Vec::new();
    let block = vec![0; 64 << 10];
    for is_stuck in [false, true] {
        let mut program = connect(forwarder.addresses()[0]).await;
        far.push(bounded(listener.accept()).await.expect("accepted").0);
        while is_stuck && timeout(Duration::from_secs(1), program.write_all(&block)).await.is_ok() {
        }
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    let (mut one, mut two) =
        (connect(forwarder.addresses()[1]).await, connect(forwarder.addresses()[1]).await);
    say(&mut one).await;
    say(&mut two).await;
    assert_eq!(ending(&mut connect(forwarder.addresses()[1]).await).await, (0, RESET));
    drop(far);
}

/// A forwarder that was killed says nothing. Its places serve the next one.
#[tokio::test]
async fn forwarders_that_were_killed_keep_no_place() {
    // Those of the QUIC connections, and those of the forwarded ones.
    for (connections, streams) in [(2, 1024), (3, 2)] {
        let limits = Limits { connections, streams, ..Limits::default() };
        let bed = serve("127.0.0.1:*", limits).await;
        let (near, remote, target) = (Arc::clone(&bed.near), bed.remote(), echo().await);
        let lives = bed.to(target).await;
        let killed = tokio::task::spawn_blocking(move || {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(async {
                let mappings = vec![format!("0:{target}").parse().expect("a mapping")];
                let settings = ForwarderSettings { mappings, socks: vec![], metrics: None };
                let ports = Ports::bind(&settings).await.expect("ports");
                let forwarder = Forwarder::start(near, remote, ports).await.expect("started");
                say(&mut connect(forwarder.addresses()[0]).await).await;
                std::mem::forget(forwarder);
            });
            // The sockets close before anybody says so.
            runtime.shutdown_background();
        });
        killed.await.expect("no panic");
        let next = bounded(bed.to(target)).await;
        let (mut one, mut two) =
            (connect(lives.addresses()[0]).await, connect(next.addresses()[0]).await);
        say(&mut one).await;
        say(&mut two).await;
    }
}
