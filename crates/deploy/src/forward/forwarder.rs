//! A forwarder: listens where programs connect, and carries what they send to a server.

use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use super::activity::Activity;
use super::link::{Link, Remote};
use super::meter::{self, Meter, Open};
use super::pump::{Broken, abort, prepare, pump, reply, reset};
use super::reply::Reply;
use super::session::FLOW_QUEUE;
use super::target::{Mapping, Target};
use super::wire::Kind;
use super::{socks, udp};
use crate::error::{Error, Result};
use crate::identity::Identity;

/// Receive buffer of the sockets that programs connect to, set before they do.
const RECEIVE_BUFFER: usize = 128 << 10;
/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;
/// Longest time for a program to say what it wants of SOCKS.
const SOCKS_PATIENCE: Duration = Duration::from_secs(10);
/// UDP flows of one listener.
const MOST_FLOWS: usize = 1024;
/// Largest datagram of a program.
const LARGEST_DATAGRAM: usize = 65_535;

/// Settings of a forwarder.
#[derive(Debug, Clone)]
pub struct ForwarderSettings {
    /// Where it listens, and for which targets.
    pub mappings: Vec<Mapping>,
    /// Where it listens for SOCKS5.
    pub socks: Vec<SocketAddr>,
    /// Where metrics are served.
    pub metrics: Option<SocketAddr>,
}

/// A running forwarder.
pub struct Forwarder {
    link: Arc<Link>,
    meter: Arc<Meter>,
    listeners: JoinSet<()>,
    addresses: Vec<SocketAddr>,
    metrics: Option<windward_http::Server>,
    open: watch::Sender<usize>,
}

/// State that every forwarded connection needs.
#[derive(Clone)]
struct Shared {
    link: Arc<Link>,
    meter: Arc<Meter>,
    open: watch::Sender<usize>,
}

/// The sockets at which a forwarder listens, before it has a server.
pub struct Ports {
    tcp: Vec<(TcpListener, Target)>,
    datagrams: Vec<(UdpSocket, Target)>,
    socks: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    meter: Arc<Meter>,
    metrics: Option<windward_http::Server>,
}

impl Ports {
    /// Binds them. Must be called in a tokio runtime.
    ///
    /// # Errors
    ///
    /// If an address is named twice, is taken, or is not of this machine.
    pub async fn bind(settings: &ForwarderSettings) -> Result<Self> {
        let mut seen = HashSet::new();
        let mappings = settings.mappings.iter().map(|mapping| (mapping.udp, mapping.bind));
        let streams = settings.socks.iter().chain(&settings.metrics).map(|bind| (false, *bind));
        for (udp, bind) in mappings.chain(streams) {
            if bind.port() != 0 && !seen.insert((udp, bind)) {
                return Err(Error::Input(format!(
                    "{bind} is named twice: each -L, -D and --metrics needs a port of its own"
                )));
            }
        }
        let meter = Arc::new(Meter::default());
        let mut ports = Ports {
            tcp: Vec::new(),
            datagrams: Vec::new(),
            socks: Vec::new(),
            addresses: Vec::new(),
            metrics: None,
            meter: Arc::clone(&meter),
        };
        for Mapping { udp, bind, target } in &settings.mappings {
            let failed = |error| busy(*bind, error);
            if *udp {
                let socket = UdpSocket::bind(bind).await.map_err(failed)?;
                ports.addresses.push(socket.local_addr().map_err(failed)?);
                ports.datagrams.push((socket, target.clone()));
            } else {
                let listener = listen(*bind).map_err(failed)?;
                ports.addresses.push(listener.local_addr().map_err(failed)?);
                ports.tcp.push((listener, target.clone()));
            }
        }
        for bind in &settings.socks {
            let listener = listen(*bind).map_err(|error| busy(*bind, error))?;
            ports.addresses.push(listener.local_addr().map_err(|error| busy(*bind, error))?);
            ports.socks.push(listener);
        }
        if let Some(bind) = settings.metrics {
            ports.metrics = Some(meter::serve(bind, meter)?);
        }
        Ok(ports)
    }
}

impl Forwarder {
    /// Connects to the server, and starts to accept programs.
    ///
    /// # Errors
    ///
    /// If the server refuses or is another. Must be called in a tokio runtime.
    pub async fn start(identity: Arc<Identity>, remote: Remote, ports: Ports) -> Result<Self> {
        let Ports { tcp, datagrams, socks, addresses, meter, metrics } = ports;
        let link = Link::start(identity, remote, Arc::clone(&meter)).await?;
        let open = watch::channel(0).0;
        let shared =
            Shared { link: Arc::clone(&link), meter: Arc::clone(&meter), open: open.clone() };
        let mut listeners = JoinSet::new();
        for (listener, target) in tcp {
            let shared = shared.clone();
            listeners.spawn(accept(listener, move |program, _| {
                tokio::spawn(carry(program, target.clone(), shared.clone()));
            }));
        }
        for listener in socks {
            let shared = shared.clone();
            listeners.spawn(accept(listener, move |program, from| {
                tokio::spawn(serve_socks(program, from, shared.clone()));
            }));
        }
        for (socket, target) in datagrams {
            listeners.spawn(carry_datagrams(Arc::new(socket), target, shared.clone()));
        }
        Ok(Forwarder { link, meter, listeners, addresses, metrics, open })
    }

    /// Addresses at which it listens: those of the mappings in their order, then those of SOCKS.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Where metrics are served.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(windward_http::Server::address)
    }

    /// Address of the server, once it is connected for the first time.
    pub async fn connected(&self) -> SocketAddr {
        self.link.connected().await
    }

    /// Counters.
    pub fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    /// Ends: takes no new connections, waits until the open ones have ended, but not longer than
    /// `grace`, and closes.
    pub async fn shut_down(mut self, grace: Duration) {
        self.listeners.shutdown().await;
        let mut open = self.open.subscribe();
        if timeout(grace, open.wait_for(|open| *open == 0)).await.is_err() {
            let open = *self.open.borrow();
            info!(open, "connections were still open at the end");
        }
        self.link.close().await;
    }
}

fn busy(bind: SocketAddr, error: std::io::Error) -> Error {
    let why = match error.kind() {
        ErrorKind::AddrInUse => " (another program or another option has this port)",
        ErrorKind::AddrNotAvailable => " (this machine has no such address)",
        ErrorKind::PermissionDenied => " (ports below 1024 need privileges)",
        _ => "",
    };
    Error::Socket { what: format!("cannot listen at {bind}{why}"), error }
}

fn listen(bind: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(bind), Type::STREAM, Some(Protocol::TCP))?;
    // Connections of an earlier process that are closing do not block the port.
    socket.set_reuse_address(true)?;
    // The kernel takes its default if it refuses.
    let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
    socket.set_nonblocking(true)?;
    socket.bind(&bind.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Accepts programs until the task is dropped.
async fn accept(listener: TcpListener, start: impl Fn(TcpStream, SocketAddr)) {
    loop {
        match listener.accept().await {
            Ok((program, from)) => start(program, from),
            Err(error) => {
                // No more descriptors, or the program has gone already.
                warn!(%error, "a program could not be accepted");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Carries the connection of a program to a target. Its bytes go out with the request.
async fn carry(program: TcpStream, target: Target, shared: Shared) {
    let _open = Open::new(&shared.open, &shared.meter.open);
    prepare(&program);
    let opened = shared.link.open(Kind::Tcp, target.clone()).await;
    let ended = match opened {
        Ok((_, send, recv, lane)) => {
            pump(program, (send, recv), &lane, true, &Activity::new(None)).await
        }
        Err(error) => {
            reset(program);
            Err(error)
        }
    };
    finish(&shared, &target, ended);
}

fn finish(shared: &Shared, target: &Target, ended: std::result::Result<(), Broken>) {
    match ended {
        Ok(()) => debug!(%target, "closed"),
        Err(Broken::Refused(reply)) => {
            shared.meter.on_reply(reply);
            warn!(%target, %reply, "refused");
        }
        Err(error) => {
            shared.meter.resets.inc();
            debug!(%target, %error, "reset");
        }
    }
}

/// Serves a program that speaks SOCKS5.
async fn serve_socks(mut program: TcpStream, from: SocketAddr, shared: Shared) {
    let _open = Open::new(&shared.open, &shared.meter.open);
    prepare(&program);
    let target = match timeout(SOCKS_PATIENCE, socks::accept(&mut program)).await {
        Ok(Ok(socks::Command::Connect(target))) => target,
        Ok(Ok(socks::Command::Associate)) => {
            return associate(program, from, shared.clone()).await;
        }
        Ok(Err(error)) => return debug!(%from, %error, "not SOCKS5"),
        Err(_) => return debug!(%from, "silent"),
    };
    let connect = async {
        let (_, send, mut recv, lane) = shared.link.open(Kind::Tcp, target.clone()).await?;
        reply(&mut recv).await?;
        Ok::<_, Broken>((send, recv, lane))
    };
    let (code, opened) = match connect.await {
        Ok(opened) => (Reply::Connected.for_socks(), Ok(opened)),
        Err(Broken::Refused(reply)) => (reply.for_socks(), Err(Broken::Refused(reply))),
        Err(error) => (Reply::Failed.for_socks(), Err(error)),
    };
    let bound = SocketAddr::from(([0; 4], 0));
    let answered = socks::answer(&mut program, code, bound).await;
    let ended = match (opened, answered) {
        (Ok((send, recv, lane)), Ok(())) => {
            lane.begin();
            pump(program, (send, recv), &lane, false, &Activity::new(None)).await
        }
        (Ok((mut send, mut recv, _)), Err(error)) => {
            abort(program, &mut send, &mut recv);
            Err(error.into())
        }
        (Err(error), _) => Err(error),
    };
    finish(&shared, &target, ended);
}

/// Flows of one socket. Each has a channel to its task, which forgets it at its end.
struct Flows<K> {
    known: HashMap<K, mpsc::Sender<Bytes>>,
}

impl<K: Clone + Eq + std::hash::Hash> Flows<K> {
    fn new() -> Self {
        Flows { known: HashMap::new() }
    }

    /// Hands a datagram over to its flow, which `start` starts if it is new. Drops it if there are
    /// too many flows, or its flow is behind.
    fn pass(
        &mut self,
        key: &K,
        datagram: Bytes,
        start: impl FnOnce(mpsc::Receiver<Bytes>),
    ) -> bool {
        if self.known.get(key).is_none_or(mpsc::Sender::is_closed) {
            if self.known.len() >= MOST_FLOWS {
                self.known.retain(|_, flow| !flow.is_closed());
            }
            if self.known.len() >= MOST_FLOWS {
                return false;
            }
            let (sender, receiver) = mpsc::channel(FLOW_QUEUE);
            self.known.insert(key.clone(), sender);
            start(receiver);
        }
        self.known.get(key).is_some_and(|flow| flow.try_send(datagram).is_ok())
    }
}

/// Carries datagrams between programs and a target. Each address of a program is a flow.
async fn carry_datagrams(socket: Arc<UdpSocket>, target: Target, shared: Shared) {
    let mut flows = Flows::new();
    let mut buffer = vec![0; LARGEST_DATAGRAM];
    loop {
        // An error tells of a datagram that was sent earlier.
        let Ok((length, from)) = socket.recv_from(&mut buffer).await else { continue };
        let datagram = Bytes::copy_from_slice(&buffer[..length]);
        let passed = flows.pass(&from, datagram, |outgoing| {
            let (socket, target, shared) = (Arc::clone(&socket), target.clone(), shared.clone());
            let deliver = async move |datagram: Bytes| {
                // A program that has gone misses it.
                let _ = socket.send_to(&datagram, from).await;
            };
            tokio::spawn(flow(shared, target, outgoing, deliver));
        });
        if !passed {
            shared.meter.dropped_datagrams.inc();
        }
    }
}

async fn flow(
    shared: Shared,
    target: Target,
    outgoing: mpsc::Receiver<Bytes>,
    deliver: impl AsyncFnMut(Bytes) + Send,
) {
    shared.meter.flows.inc();
    let ended = udp::run(&shared.link, target.clone(), outgoing, deliver).await;
    shared.meter.flows.dec();
    if let Err(error) = ended {
        if let Broken::Refused(reply) = error {
            shared.meter.on_reply(reply);
        }
        warn!(%target, %error, "no UDP flow");
        // Its queue stays closed for a while, so that a program that goes on costs little.
        sleep(Duration::from_secs(1)).await;
    }
}

/// Serves UDP ASSOCIATE (RFC 1928 section 7), until the program closes its TCP connection. Each
/// target is a flow.
async fn associate(mut program: TcpStream, from: SocketAddr, shared: Shared) {
    let bound = async {
        let mut own = program.local_addr()?;
        own.set_port(0);
        let socket = UdpSocket::bind(own).await?;
        let address = socket.local_addr()?;
        Ok::<_, std::io::Error>((socket, address))
    };
    let (socket, address) = match bound.await {
        Ok((socket, address)) => (Arc::new(socket), address),
        Err(error) => {
            debug!(%from, %error, "no socket for datagrams");
            let code = Reply::Failed.for_socks();
            // The program may have gone.
            let _ = socks::answer(&mut program, code, SocketAddr::from(([0; 4], 0))).await;
            return;
        }
    };
    if socks::answer(&mut program, Reply::Connected.for_socks(), address).await.is_err() {
        return;
    }
    info!(%from, "UDP by SOCKS");
    let relay = async {
        let mut flows = Flows::new();
        let mut buffer = vec![0; LARGEST_DATAGRAM];
        // The first address that sends is that of the program, which has the address of its TCP
        // connection.
        let mut owner = None;
        loop {
            let Ok((length, sender)) = socket.recv_from(&mut buffer).await else { continue };
            if sender.ip() != from.ip() || *owner.get_or_insert(sender) != sender {
                continue;
            }
            let unwrapped = socks::unwrap(Bytes::copy_from_slice(&buffer[..length]));
            let Some((target, payload)) = unwrapped else {
                shared.meter.dropped_datagrams.inc();
                continue;
            };
            let passed = flows.pass(&target, payload, |outgoing| {
                let (socket, named, shared) = (Arc::clone(&socket), target.clone(), shared.clone());
                let deliver = async move |datagram: Bytes| {
                    let _ = socket.send_to(&socks::wrap(&named, &datagram), sender).await;
                };
                tokio::spawn(flow(shared, target.clone(), outgoing, deliver));
            });
            if !passed {
                shared.meter.dropped_datagrams.inc();
            }
        }
    };
    let mut byte = [0];
    tokio::select! {
        () = relay => {}
        // The program writes nothing here; it closes.
        _ = async { while matches!(program.read(&mut byte).await, Ok(1..)) {} } => {}
    }
}
