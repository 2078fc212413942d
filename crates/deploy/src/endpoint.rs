//! QUIC endpoints on tokio: windows, socket buffers, services, and limits on those who knock.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use quinn::congestion::ControllerFactory;
use quinn::crypto::rustls::HandshakeData;
use quinn::{
    AsyncUdpSocket, EndpointConfig, IdleTimeout, Incoming, MtuDiscoveryConfig, Runtime,
    ServerConfig, TokioRuntime, TransportConfig, VarInt,
};
use quinn_proto::HashedConnectionIdGenerator;
use ring::hmac;
use rustls::pki_types::CertificateDer;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use crate::address;
use crate::budget;
use crate::crowd::Crowd;
use crate::error::{Error, Result};
use crate::identity::{Fingerprint, Identity, SERVER_NAME};
use crate::mtu;
use crate::pace::PacedSocket;
use crate::qlog::Qlog;
use crate::run::joined;
use crate::tls::{self, Trust};

/// Purpose of a connection. Each service has its own name in TLS (ALPN, RFC 7301), which ends in
/// the version of its protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Service {
    /// Files and folders.
    Transfer,
    /// TCP and UDP services.
    Forward,
}

impl Service {
    const ALL: [Service; 2] = [Service::Transfer, Service::Forward];

    /// Name in TLS.
    pub fn alpn(self) -> &'static [u8] {
        match self {
            Service::Transfer => b"windward-transfer/1",
            Service::Forward => b"windward-forward/1",
        }
    }
}

/// Properties of connections and sockets.
#[derive(Debug, Clone)]
pub struct Options {
    /// Congestion controller: a protocol of the table that QUIC can run.
    pub protocol: String,
    /// Limits of the bytes that a connection may hold.
    pub windows: Windows,
    /// Bidirectional streams that the peer may have open at once.
    pub bidi_streams: u32,
    /// Unidirectional streams that the peer may have open at once.
    pub uni_streams: u32,
    /// Bytes of received datagrams that wait for the application; zero for a service without
    /// datagrams.
    pub datagrams: usize,
    /// A connection is lost after this long without a packet of the peer.
    pub idle_timeout: Duration,
    /// Interval of packets that keep an idle connection, and the state of NATs on its path.
    pub keep_alive: Duration,
    /// Buffers of the socket, bytes.
    pub socket_buffer: usize,
    /// Handshakes at once. Above half of it, a client must show that it receives at its address.
    pub handshakes: usize,
    /// Longest time of a handshake.
    pub handshake_timeout: Duration,
    /// Logs of connections, if there are to be any.
    pub qlog: Option<Arc<Qlog>>,
}

/// Limits of the bytes that a connection may hold: they bound its memory, and its rate at window /
/// RTT.
#[derive(Debug, Clone, Copy)]
pub struct Windows {
    /// Bytes that a peer may have sent and the application not read, over all streams. Within it,
    /// the receive window grows with what arrives in a round trip.
    pub receive: u32,
    /// The same for one stream.
    pub stream: u32,
    /// Bytes that the application has written and the peer has not acknowledged. Within it, the
    /// send window follows the congestion window.
    pub send: u32,
    /// The application bounds by itself what it writes, and its peer by credits: neither window
    /// follows.
    pub are_fixed: bool,
}

impl Default for Windows {
    /// 400 Mbit/s at 100 ms are 5 MB. A packet that is lost twice delays the rest of its stream by
    /// some round trips.
    fn default() -> Self {
        Windows { receive: 24 << 20, stream: 8 << 20, send: 24 << 20, are_fixed: false }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            protocol: DEFAULT_PROTOCOL.to_owned(),
            windows: Windows::default(),
            bidi_streams: 1024,
            uni_streams: 64,
            datagrams: 0,
            idle_timeout: Duration::from_secs(30),
            keep_alive: Duration::from_secs(5),
            socket_buffer: 4 << 20,
            handshakes: 64,
            handshake_timeout: Duration::from_secs(10),
            qlog: None,
        }
    }
}

/// Congestion controller of connections that name none.
pub const DEFAULT_PROTOCOL: &str = "upwind";

/// The factory of a congestion controller by name.
fn controller(name: &str) -> Result<Arc<dyn ControllerFactory + Send + Sync>> {
    match windward_quic::controller(name) {
        Ok(factory) => Ok(factory),
        Err(unsuitable) => Err(Error::Input(unsuitable.to_string())),
    }
}

impl Windows {
    /// The receive window of a new connection. Credits of streams need the whole of it.
    fn first_receive(&self) -> u32 {
        if self.are_fixed { self.receive } else { self.receive.min(FIRST_RECEIVE_WINDOW) }
    }
}

impl Options {
    fn transport(&self) -> Result<TransportConfig> {
        let mut transport = TransportConfig::default();
        let idle = IdleTimeout::try_from(self.idle_timeout)
            .map_err(|_| Error::Input("the idle timeout is too long".to_owned()))?;
        transport
            .receive_window(VarInt::from_u32(self.windows.first_receive()))
            .stream_receive_window(VarInt::from_u32(self.windows.stream))
            .send_window(u64::from(self.windows.send.min(FIRST_SEND_WINDOW)))
            .max_concurrent_bidi_streams(VarInt::from_u32(self.bidi_streams))
            .max_concurrent_uni_streams(VarInt::from_u32(self.uni_streams))
            .datagram_receive_buffer_size((self.datagrams > 0).then_some(self.datagrams))
            .datagram_send_buffer_size(self.datagrams.max(1))
            .max_idle_timeout(Some(idle))
            .keep_alive_interval(Some(self.keep_alive))
            .congestion_controller_factory(controller(&self.protocol)?);
        Ok(transport)
    }

    /// The same for one connection of this side to a peer, with its log.
    fn for_peer(&self, side: &str, peer: SocketAddr) -> Result<Arc<TransportConfig>> {
        let mut transport = self.transport()?;
        let mut search = MtuDiscoveryConfig::default();
        search.upper_bound(mtu::largest_payload(peer));
        transport.mtu_discovery_config(Some(search));
        if let Some(qlog) = &self.qlog {
            qlog.attach(&mut transport, side);
        }
        Ok(Arc::new(transport))
    }
}

/// Delay between attempts at the addresses of a peer.
const STAGGER: Duration = Duration::from_millis(300);
/// Longest time of the end of an endpoint: a signal ends a program within a second.
const CLOSING: Duration = Duration::from_millis(400);
/// Send window of a new connection, bytes.
const FIRST_SEND_WINDOW: u32 = 1 << 20;
/// The receive window at first: a reader that is slower than a path of low delay holds no more.
const FIRST_RECEIVE_WINDOW: u32 = 6 << 20;
/// Round trips of arrivals that the receive window holds. Of 4,000 packets in flight of which one
/// in five is lost, the one that is lost most often needs ln(4000) / ln(5) = 5 round trips more
/// than the first two.
const ROUNDS_HELD: f64 = 8.0;
/// The least time over which arrivals are counted.
const SHORTEST_ROUND: Duration = Duration::from_millis(10);

/// A connection whose peer has proved that it has the key of its certificate.
#[derive(Debug, Clone)]
pub struct Connection {
    /// Streams and datagrams.
    pub quic: quinn::Connection,
    /// Service that the client asked for.
    pub service: Service,
    /// Fingerprint of the peer.
    pub peer: Fingerprint,
    /// The tasks that follow the window and the path end with the last copy: their handles of
    /// QUIC's keep open a connection that nobody uses.
    _following: Arc<JoinSet<()>>,
}

impl Connection {
    fn new(quic: quinn::Connection, options: &Options, socket: &Arc<PacedSocket>) -> Result<Self> {
        let service = quic
            .handshake_data()
            .and_then(|data| data.downcast::<HandshakeData>().ok())
            .and_then(|data| data.protocol)
            .and_then(|name| Service::ALL.into_iter().find(|service| service.alpn() == name))
            .ok_or_else(|| Error::Peer("the peer names no service".to_owned()))?;
        let peer = quic
            .peer_identity()
            .and_then(|identity| identity.downcast::<Vec<CertificateDer<'static>>>().ok())
            .and_then(|chain| chain.first().map(Fingerprint::of))
            .ok_or_else(|| Error::Peer("the peer shows no certificate".to_owned()))?;
        let mut following = JoinSet::new();
        following.spawn(Arc::clone(socket).follow(quic.clone()));
        let windows = options.windows;
        following.spawn(follow_arrivals(quic.clone(), windows.first_receive(), windows.receive));
        match u64::from(windows.send) {
            most if windows.are_fixed => quic.set_send_window(most),
            // The send window follows the budget of the congestion window.
            most => {
                let quic = quic.clone();
                following.spawn(async move {
                    budget::follow(&quic, |wanted| quic.set_send_window((wanted as u64).min(most)))
                        .await;
                });
            }
        }
        Ok(Connection { quic, service, peer, _following: Arc::new(following) })
    }

    /// Closes the connection and tells the peer why, and whether it may come again.
    pub fn refuse(&self, why: &Error) {
        self.quic.close(VarInt::from_u32(why.code() as u32), why.to_string().as_bytes());
    }
}

/// Lets the receive window grow to [`ROUNDS_HELD`] times what arrives in a round trip, up to a
/// limit. It never shrinks, since the peer may have used it already.
async fn follow_arrivals(quic: quinn::Connection, first: u32, most: u32) {
    let (mut window, mut seen) = (first, 0);
    while window < most {
        let rtt = quic.rtt();
        let round = rtt.max(SHORTEST_ROUND);
        tokio::select! {
            () = tokio::time::sleep(round) => {}
            _ = quic.closed() => return,
        }
        let bytes = quic.stats().udp_rx.bytes;
        let arrived = (bytes - seen) as f64 * (rtt.as_secs_f64() / round.as_secs_f64());
        seen = bytes;
        let wanted = ((ROUNDS_HELD * arrived) as u32).min(most);
        if wanted > window {
            window = wanted;
            quic.set_receive_window(VarInt::from_u32(window));
        }
    }
}

/// A socket with connections, in both directions.
#[derive(Debug, Clone)]
pub struct Endpoint {
    quic: quinn::Endpoint,
    socket: Arc<PacedSocket>,
    identity: Arc<Identity>,
    options: Arc<Options>,
    hint: Option<String>,
}

impl Endpoint {
    /// Binds a socket for outgoing connections. Must be called in a tokio runtime.
    pub fn client(bind: SocketAddr, identity: Arc<Identity>, options: Options) -> Result<Self> {
        options.transport()?;
        let (quic, socket, hint) = open(bind, None, &identity, &options)?;
        Ok(Endpoint { quic, socket, identity, options: Arc::new(options), hint })
    }

    /// Binds a socket for connections to IPv6 and IPv4, or to IPv4 alone where the machine has no
    /// IPv6.
    pub fn anywhere(identity: &Arc<Identity>, options: &Options) -> Result<Self> {
        let open =
            |ip| Endpoint::client(SocketAddr::new(ip, 0), Arc::clone(identity), options.clone());
        match open(Ipv6Addr::UNSPECIFIED.into()) {
            Err(Error::Socket { .. }) => open(Ipv4Addr::UNSPECIFIED.into()),
            endpoint => endpoint,
        }
    }

    /// Binds a socket for outgoing connections, and for incoming ones that ask for one of the
    /// services. [`Listener::accept`] gives those that completed the handshake.
    pub fn server(
        bind: SocketAddr,
        identity: Arc<Identity>,
        services: &[Service],
        options: Options,
    ) -> Result<(Self, Listener)> {
        let names: Vec<&[u8]> = services.iter().map(|service| service.alpn()).collect();
        let tls = tls::server(&identity, &names)?;
        let mut config = ServerConfig::with_crypto(Arc::new(tls));
        config.transport_config(Arc::new(options.transport()?));
        // Bounds on the memory that strangers can occupy.
        config.max_incoming(4 * options.handshakes);
        config.incoming_buffer_size(16 << 10);
        config.incoming_buffer_size_total(1 << 20);
        let (quic, socket, hint) = open(bind, Some(config.clone()), &identity, &options)?;
        let options = Arc::new(options);
        let (sender, arrivals) = mpsc::channel(1);
        let taking =
            take_in(quic.clone(), Arc::clone(&socket), config, Arc::clone(&options), sender);
        tokio::spawn(taking);
        Ok((Endpoint { quic, socket, identity, options, hint }, Listener { arrivals }))
    }

    /// Connects to a peer for a service.
    ///
    /// # Errors
    ///
    /// If the peer does not answer within the time of a handshake, is not trusted, or has no
    /// such service.
    pub async fn connect(
        &self,
        to: SocketAddr,
        service: Service,
        trust: Trust,
    ) -> Result<Connection> {
        let tls = tls::client(&self.identity, trust, service.alpn())?;
        let mut config = quinn::ClientConfig::new(Arc::new(tls));
        config.transport_config(self.options.for_peer("client", to)?);
        let connecting = self
            .quic
            .connect_with(config, self.mapped(to), SERVER_NAME)
            .map_err(|error| Error::Unreachable(format!("{to}: {error}")))?;
        let limit = self.options.handshake_timeout;
        match tokio::time::timeout(limit, connecting).await {
            Ok(connected) => Connection::new(connected?, &self.options, &self.socket),
            Err(_) => Err(Error::Unreachable(format!("{to} does not answer"))),
        }
    }

    /// Connects to the first address that answers. Attempts begin one after the other, a moment
    /// apart.
    ///
    /// # Errors
    ///
    /// The first refusal, else the first other error.
    pub async fn connect_first(
        &self,
        addresses: &[SocketAddr],
        service: Service,
        trust: Trust,
    ) -> Result<Connection> {
        let mut attempts = JoinSet::new();
        for (index, address) in address::with_links(addresses).into_iter().enumerate() {
            let endpoint = self.clone();
            attempts.spawn(async move {
                tokio::time::sleep(STAGGER * index as u32).await;
                endpoint.connect(address, service, trust).await
            });
        }
        let mut first = None;
        while let Some(attempt) = attempts.join_next().await {
            match (joined(attempt)?, &first) {
                (Ok(connection), _) => return Ok(connection),
                // A refusal says more than silence at another address.
                (Err(error), Some(Error::Unreachable(_)) | None) => first = Some(error),
                (Err(_), Some(_)) => {}
            }
        }
        Err(first.unwrap_or_else(|| Error::Unreachable("the peer has no address".to_owned())))
    }

    /// An IPv4 address as a socket of IPv6 names it.
    fn mapped(&self, to: SocketAddr) -> SocketAddr {
        match (self.quic.local_addr(), to) {
            (Ok(SocketAddr::V6(_)), SocketAddr::V4(v4)) => {
                SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port())
            }
            _ => to,
        }
    }

    /// Address of the socket.
    pub fn local_address(&self) -> Result<SocketAddr> {
        self.quic
            .local_addr()
            .map_err(|error| Error::Socket { what: "own address".to_owned(), error })
    }

    /// Change that the operator should make, if the kernel gave less than the socket needs.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Fingerprint of this side.
    pub fn fingerprint(&self) -> Fingerprint {
        self.identity.fingerprint()
    }

    /// Closes all connections, and waits for a moment, in which peers that did not hear it are told
    /// again.
    pub async fn close(&self, reason: &str) {
        self.quic.close(VarInt::from_u32(0), reason.as_bytes());
        let _ = tokio::time::timeout(CLOSING, self.quic.wait_idle()).await;
    }
}

/// Incoming connections of an [`Endpoint`] after their handshakes.
#[derive(Debug)]
pub struct Listener {
    arrivals: mpsc::Receiver<Connection>,
}

impl Listener {
    /// The next connection; none after the endpoint is closed.
    pub async fn accept(&mut self) -> Option<Connection> {
        self.arrivals.recv().await
    }
}

/// Takes in connections until the endpoint closes. Handshakes run side by side, in bounded number.
async fn take_in(
    quic: quinn::Endpoint,
    socket: Arc<PacedSocket>,
    config: ServerConfig,
    options: Arc<Options>,
    arrivals: mpsc::Sender<Connection>,
) {
    let places = Arc::new(Semaphore::new(options.handshakes));
    let crowd = Arc::new(Crowd::default());
    while let Some(incoming) = quic.accept().await {
        let busy = places.available_permits() <= options.handshakes / 2;
        if busy && !incoming.remote_address_validated() {
            // RFC 9000 section 8.1.2: costs this side no state.
            let _ = incoming.retry();
            continue;
        }
        // An address that was not shown to be the sender's own may be anybody's.
        let guest = if incoming.remote_address_validated() {
            let Some(guest) = crowd.enter(incoming.remote_address().ip()) else {
                incoming.refuse();
                continue;
            };
            Some(guest)
        } else {
            None
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            incoming.refuse();
            continue;
        };
        let (config, options, arrivals) = (config.clone(), Arc::clone(&options), arrivals.clone());
        let socket = Arc::clone(&socket);
        tokio::spawn(async move {
            let greeting = greet(incoming, config, &options, &socket);
            let shaken = tokio::time::timeout(options.handshake_timeout, greeting).await;
            if let Ok(Ok(connection)) = shaken {
                // The place is kept until the application takes the connection.
                let _ = arrivals.send(connection).await;
            }
            drop((place, guest));
        });
    }
}

async fn greet(
    incoming: Incoming,
    mut config: ServerConfig,
    options: &Options,
    socket: &Arc<PacedSocket>,
) -> Result<Connection> {
    // A controller and a log of its own for each connection.
    config.transport_config(options.for_peer("server", incoming.remote_address())?);
    let connecting = incoming.accept_with(Arc::new(config))?;
    Connection::new(connecting.await?, options, socket)
}

fn open(
    bind: SocketAddr,
    server: Option<ServerConfig>,
    identity: &Identity,
    options: &Options,
) -> Result<(quinn::Endpoint, Arc<PacedSocket>, Option<String>)> {
    let failed = |error: io::Error| {
        let help = match error.kind() {
            io::ErrorKind::AddrInUse => " (another program has this port: choose another)",
            io::ErrorKind::AddrNotAvailable => " (this machine has no such address)",
            io::ErrorKind::PermissionDenied => " (ports below 1024 need rights: choose another)",
            _ => "",
        };
        Error::Socket { what: format!("cannot open UDP {bind}{help}"), error }
    };
    let socket = bound(bind, options.socket_buffer).map_err(failed)?;
    let hint = buffer_hint(&socket, options.socket_buffer);
    // The keys follow from the identity, so that the same port tells peers after a crash at once
    // that their connections are gone (stateless reset, RFC 9000 section 10.3).
    let secret = identity.secret("stateless reset");
    let mut config = EndpointConfig::new(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &secret)));
    let cid = identity.secret("connection ids");
    let cid = u64::from_le_bytes([cid[0], cid[1], cid[2], cid[3], cid[4], cid[5], cid[6], cid[7]]);
    config.cid_generator(move || Box::new(HashedConnectionIdGenerator::from_key(cid)));
    config.grease_quic_bit(false);
    let largest = config.max_udp_payload_size(mtu::LARGEST);
    largest.map_err(|error| Error::Input(format!("size of datagrams: {error}")))?;
    let runtime = Arc::new(TokioRuntime);
    let socket = runtime.wrap_udp_socket(socket.into()).map_err(failed)?;
    let socket = Arc::new(PacedSocket::new(socket));
    let shared: Arc<dyn AsyncUdpSocket> = Arc::clone(&socket) as _;
    let quic = quinn::Endpoint::new_with_abstract_socket(config, server, shared, runtime)
        .map_err(failed)?;
    Ok((quic, socket, hint))
}

fn bound(bind: SocketAddr, buffer: usize) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(bind), Type::DGRAM, Some(Protocol::UDP))?;
    if bind.is_ipv6() && bind.ip().is_unspecified() {
        socket.set_only_v6(false)?;
    }
    // The kernel gives less without an error; `buffer_hint` tells.
    let _ = socket.set_recv_buffer_size(buffer);
    let _ = socket.set_send_buffer_size(buffer);
    socket.bind(&bind.into())?;
    Ok(socket)
}

/// Linux doubles the request for its own use, and reports the double.
fn buffer_hint(socket: &Socket, wanted: usize) -> Option<String> {
    let (receive, send) = (socket.recv_buffer_size().ok()?, socket.send_buffer_size().ok()?);
    (receive < wanted || send < wanted).then(|| {
        format!(
            "the kernel limits socket buffers to {} kB, which costs packets at high rates; as root: \
             sysctl -w net.core.rmem_max={wanted} net.core.wmem_max={wanted}",
            receive.min(send) / 1024
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
    }

    fn identity() -> Arc<Identity> {
        Arc::new(Identity::generate().expect("an identity"))
    }

    /// A client, the server that it is connected to with its key, and both ends of the connection.
    async fn met() -> (Endpoint, Endpoint, Trust, [Connection; 2]) {
        let far = identity();
        let trust = Trust::Pinned(far.fingerprint());
        let (server, mut listener) =
            Endpoint::server(HOME, far, &[Service::Forward], Options::default()).expect("a server");
        let to = server.local_address().expect("an address");
        let client = Endpoint::client(HOME, identity(), Options::default()).expect("a client");
        let (out, back) =
            tokio::join!(client.connect(to, Service::Forward, trust), listener.accept());
        (client, server, trust, [out.expect("connected"), back.expect("accepted")])
    }

    #[test]
    fn both_sides_know_each_other_by_fingerprint() {
        runtime().block_on(async {
            let (client, server, trust, [out, back]) = met().await;
            let keys = (server.fingerprint(), client.fingerprint());
            assert_eq!((out.peer, back.peer), keys);
            assert_eq!(back.service, Service::Forward);

            let to = server.local_address().expect("an address");
            let other = Trust::Pinned(client.fingerprint());
            let error =
                client.connect(to, Service::Forward, other).await.expect_err("another peer");
            assert!(
                matches!(&error, Error::Peer(text) if text.starts_with("the peer has the fingerprint")),
                "{error:?}"
            );
            let error =
                client.connect(to, Service::Transfer, trust).await.expect_err("another service");
            assert!(
                matches!(&error, Error::Refused(text) if text.contains("version")),
                "{error:?}"
            );

            back.refuse(&Error::Busy("no room".to_owned()));
            let error = Error::from(out.quic.closed().await);
            assert!(matches!(&error, Error::Busy(text) if text == "no room"), "{error:?}");
            assert!(error.is_temporary() && !Error::Refused(String::new()).is_temporary());
        });
    }

    #[test]
    fn a_connection_that_nobody_holds_is_closed() {
        runtime().block_on(async {
            let (_client, _server, _, [out, back]) = met().await;
            drop(out);
            let reason = tokio::time::timeout(Duration::from_secs(5), back.quic.closed()).await;
            let reason = reason.expect("within five seconds");
            assert!(matches!(reason, quinn::ConnectionError::ApplicationClosed(_)), "{reason:?}");
        });
    }

    #[test]
    fn a_port_in_use_is_told() {
        runtime().block_on(async {
            let (first, _listener) =
                Endpoint::server(HOME, identity(), &[Service::Forward], Options::default())
                    .expect("a server");
            let taken = first.local_address().expect("an address");
            let error =
                Endpoint::server(taken, identity(), &[Service::Forward], Options::default())
                    .expect_err("the port is taken");
            assert!(error.to_string().contains("another program has this port"), "{error}");
        });
    }

    #[test]
    fn an_unknown_controller_is_an_input_error() {
        runtime().block_on(async {
            let options = Options { protocol: "fast".to_owned(), ..Options::default() };
            assert!(matches!(Endpoint::client(HOME, identity(), options), Err(Error::Input(_))));
        });
    }
}
