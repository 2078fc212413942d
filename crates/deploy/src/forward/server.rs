//! A server: accepts peers by their keys, and connects to targets for them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quinn::{RecvStream, SendStream};
use tokio::net::{TcpSocket, TcpStream, UdpSocket};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use super::access::Access;
use super::activity::Activity;
use super::limits::{Limits, Peer, Peers};
use super::meter::{self, Meter, Open};
use super::pump::{Broken, abort, prepare, pump};
use super::reply::Reply;
use super::session::Session;
use super::udp;
use super::wire::{self, ABORTED, Kind, Request, TOKEN};
use super::{WELCOME, options};
use crate::clock;
use crate::crowd::Crowd;
use crate::endpoint::{Connection, Endpoint, Listener, Service};
use crate::error::{BUSY, Error, REFUSED, Result};
use crate::identity::{Fingerprint, Identity};
use crate::peers::LOOK;
use crate::qlog::Qlog;
use crate::sync::lock;

/// Longest time for the greeting of a peer, and for a request on a stream.
const GREETING: Duration = Duration::from_secs(10);
/// Peers at once that have not greeted yet. Further ones are refused.
const MOST_GREETINGS: usize = 64;
/// Longest time for an answer of a forwarder that may be dead. At 20 % loss in both directions, one
/// that lives fails to answer five attempts within it in 0.6 % of the cases, 0.36^5. It is less
/// than a new forwarder waits for its greeting.
const ANSWER: Duration = Duration::from_secs(6);
/// Longest time until the places of closed connections are free.
const CLOSING: Duration = Duration::from_secs(1);
/// Receive buffer of a socket to a target, set before the connection, as TCP announces it then.
const RECEIVE_BUFFER: u32 = 128 << 10;

/// Settings of a server.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// Address of the UDP socket.
    pub listen: SocketAddr,
    /// Congestion controller, by name; the default one if none.
    pub protocol: Option<String>,
    /// Logs of connections.
    pub qlog: Option<Arc<Qlog>>,
    /// Limits.
    pub limits: Limits,
    /// Where metrics are served.
    pub metrics: Option<SocketAddr>,
}

/// An invitation: the first peer that shows the token is accepted from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Invitation {
    /// Secret that the peer must show.
    pub token: [u8; TOKEN],
    /// When it expires, on the time of day ([`clock::time_of_day`]).
    pub until: Duration,
}

struct Shared {
    access: Mutex<Access>,
    invitation: Mutex<Option<Invitation>>,
    peers: Peers,
    limits: Limits,
    meter: Arc<Meter>,
    greetings: Semaphore,
    crowd: Arc<Crowd>,
    sessions: Mutex<HashMap<usize, (Fingerprint, Arc<Session>)>>,
    /// Forwarded connections that are open.
    open: watch::Sender<usize>,
    draining: watch::Sender<bool>,
}

/// A running server.
pub struct Server {
    endpoint: Endpoint,
    shared: Arc<Shared>,
    metrics: Option<windward_http::Server>,
}

impl Server {
    /// Binds the socket, and starts to accept peers.
    ///
    /// # Errors
    ///
    /// If an address cannot be bound, or a setting is invalid. Must be called in a tokio runtime.
    pub async fn start(
        identity: Arc<Identity>,
        settings: &ServerSettings,
        access: Access,
        invitation: Option<Invitation>,
    ) -> Result<Self> {
        let limits = settings.limits;
        let options = options(
            settings.protocol.as_deref(),
            settings.qlog.clone(),
            limits.streams,
            limits.buffer,
        );
        let (endpoint, listener) =
            Endpoint::server(settings.listen, identity, &[Service::Forward], options)?;
        let meter = Arc::new(Meter::default());
        let serve = |bind| meter::serve(bind, Arc::clone(&meter));
        let metrics = settings.metrics.map(serve).transpose()?;
        let shared = Arc::new(Shared {
            access: Mutex::new(access),
            invitation: Mutex::new(invitation),
            peers: Peers::new(limits),
            limits,
            meter,
            greetings: Semaphore::new(MOST_GREETINGS),
            crowd: Arc::default(),
            sessions: Mutex::default(),
            open: watch::channel(0).0,
            draining: watch::channel(false).0,
        });
        tokio::spawn(accept(listener, Arc::clone(&shared)));
        let followed = Arc::downgrade(&shared);
        tokio::spawn(async move {
            while let Some(shared) = followed.upgrade() {
                shared.refresh();
                drop(shared);
                sleep(LOOK).await;
            }
        });
        Ok(Server { endpoint, shared, metrics })
    }

    /// The socket with its address and identity.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Where metrics are served.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(windward_http::Server::address)
    }

    /// Counters.
    pub fn meter(&self) -> &Arc<Meter> {
        &self.shared.meter
    }

    /// Ends: takes no new connections, waits until the open ones have ended, but not longer than
    /// `grace`, and closes.
    pub async fn shut_down(self, grace: Duration) {
        self.shared.draining.send_replace(true);
        for (_, session) in lock(&self.shared.sessions).values() {
            session.drain();
        }
        let mut open = self.shared.open.subscribe();
        if timeout(grace, open.wait_for(|open| *open == 0)).await.is_err() {
            let open = *self.shared.open.borrow();
            info!(open, "connections were still open at the end");
        }
        self.endpoint.close("the server shuts down").await;
    }
}

impl Shared {
    /// Takes changes of the lists of peers. Open connections go on, except those of peers that are
    /// not accepted any more; rules count for new ones.
    fn refresh(&self) {
        let mut access = lock(&self.access);
        match access.refresh() {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return warn!(%error, "the peers stay as they were"),
        }
        lock(&self.sessions).retain(|_, (peer, session)| {
            let stays = access.has(*peer);
            if !stays {
                info!(%peer, "the key is not accepted any more");
                session.close(REFUSED, NOT_ACCEPTED);
            }
            stays
        });
        self.meter.reloads.inc();
    }
}

const NOT_ACCEPTED: &str = "the server does not accept this key: a ticket admits the first key that uses it, before \
                            it expires and until the key is revoked; add the key there with --allow \
                            KEY=..., or ask for a new ticket of `windward serve --ticket`";

async fn accept(mut listener: Listener, shared: Arc<Shared>) {
    while let Some(connection) = listener.accept().await {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let (peer, from) = (connection.peer, connection.quic.remote_address());
            if *shared.draining.borrow() {
                connection.quic.close(0u32.into(), b"the server shuts down");
                return;
            }
            match serve(&connection, &shared).await {
                Ok(()) => {}
                // It has gone before it was asked for anything.
                Err(error @ Error::Unreachable(_)) => debug!(%peer, %from, %error, "gone"),
                Err(error) => {
                    shared.meter.refused_peers.inc();
                    info!(%peer, %from, %error, "refused");
                    connection.refuse(&error);
                }
            }
        });
    }
}

/// Serves a peer until its connection ends.
async fn serve(connection: &Connection, shared: &Arc<Shared>) -> Result<()> {
    let busy = |text: &str| Error::Busy(text.to_owned());
    let key = connection.peer;
    let peer = shared.peers.of(key, clock::now());
    let place = match peer.connect() {
        None if close_dead(shared, key).await => peer.connect_within(CLOSING).await,
        place => place,
    };
    let _place = place.ok_or_else(|| busy("too many connections of this key"))?;
    shared.refresh();
    if !lock(&shared.access).has(key) && lock(&shared.invitation).is_none() {
        return Err(Error::Refused(NOT_ACCEPTED.to_owned()));
    }
    let from = connection.quic.remote_address().ip();
    let guest = shared.crowd.enter(from).ok_or_else(|| busy("too many at once"))?;
    let greeting = shared.greetings.try_acquire().map_err(|_| busy("too many at once"))?;
    let greet = async {
        let (send, mut recv) = connection.quic.accept_bi().await?;
        let token = wire::take::<TOKEN>(&mut recv).await?;
        Ok::<_, Error>((send, recv, token))
    };
    let (mut send, recv, token) =
        timeout(GREETING, greet).await.map_err(|_| busy("no greeting"))??;
    drop((greeting, guest));
    admit(shared, key, token)?;
    send.write_all(&[WELCOME]).await.map_err(|error| Error::Unreachable(error.to_string()))?;

    let quic = connection.quic.clone();
    let meter = Arc::clone(&shared.meter);
    let session = Session::start(quic.clone(), (send, recv), shared.limits.buffer, meter);
    let id = quic.stable_id();
    lock(&shared.sessions).insert(id, (key, Arc::clone(&session)));
    // The key may have been revoked meanwhile.
    if !lock(&shared.access).has(key) {
        session.close(REFUSED, NOT_ACCEPTED);
    }
    if *shared.draining.borrow() {
        session.drain();
    }
    shared.meter.peer_connections.inc();
    shared.meter.peers.inc();
    info!(peer = %key, from = %quic.remote_address(), "connected");
    let end = loop {
        match quic.accept_bi().await {
            Ok((send, recv)) => {
                let lane = session.lane(send.id().into());
                let stream = Stream { send, recv, lane };
                tokio::spawn(request(stream, key, Arc::clone(&peer), Arc::clone(shared)));
            }
            Err(error) => break error,
        }
    };
    shared.meter.peers.dec();
    lock(&shared.sessions).remove(&id);
    info!(peer = %key, reason = %end, "disconnected");
    Ok(())
}

/// Closes the connections of a key that do not answer, since their forwarder was killed: the idle
/// timeout would keep their places for a minute. Returns whether there were any.
async fn close_dead(shared: &Shared, key: Fingerprint) -> bool {
    let asked: JoinSet<_> = {
        let sessions = lock(&shared.sessions);
        let own = sessions.values().filter(|(peer, _)| *peer == key);
        own.map(|(_, session)| Arc::clone(session))
            .map(async |session| (session.answers(ANSWER).await, session))
            .collect()
    };
    let mut closed = false;
    for (_, session) in asked.join_all().await.into_iter().filter(|(answers, _)| !answers) {
        info!(peer = %key, from = %session.quic.remote_address(), "does not answer");
        session.close(BUSY, "no answer");
        closed = true;
    }
    closed
}

/// Accepts a peer by the invitation, or by its key.
fn admit(shared: &Shared, key: Fingerprint, token: [u8; TOKEN]) -> Result<()> {
    shared.refresh();
    let mut invitation = lock(&shared.invitation);
    let fits = invitation.is_some_and(|invitation| {
        // In constant time, so that answers tell nothing of the token.
        let different = invitation.token.iter().zip(token).fold(0, |all, (a, b)| all | (a ^ b));
        different == 0 && clock::time_of_day() < invitation.until
    });
    let mut access = lock(&shared.access);
    if !fits {
        let is_known = access.has(key);
        return if is_known { Ok(()) } else { Err(Error::Refused(NOT_ACCEPTED.to_owned())) };
    }
    access.invite(key).map_err(|error| {
        warn!(%error, "the key of a new peer cannot be written");
        Error::Refused("the server cannot remember this key".to_owned())
    })?;
    *invitation = None;
    info!(peer = %key, "accepted by the ticket");
    Ok(())
}

/// A stream of a peer.
struct Stream {
    send: SendStream,
    recv: RecvStream,
    lane: super::session::Lane,
}

/// Answers the request of a stream.
async fn request(mut stream: Stream, key: Fingerprint, peer: Arc<Peer>, shared: Arc<Shared>) {
    let request = match timeout(GREETING, Request::read(&mut stream.recv)).await {
        Ok(Ok(request)) => request,
        Ok(Err(Error::Peer(error))) => {
            debug!(peer = %key, error, "invalid request");
            return refuse(stream, Reply::Unsupported, &shared).await;
        }
        // The program at the other end has gone.
        Ok(Err(_)) => return refuse(stream, Reply::Failed, &shared).await,
        Err(_) => return refuse(stream, Reply::TimedOut, &shared).await,
    };
    let place = match peer.open_within(CLOSING).await {
        None if peer.make_room(clock::now()) || close_dead(&shared, key).await => {
            peer.open_within(CLOSING).await
        }
        place => place,
    };
    let Some(_place) = place else {
        return refuse(stream, Reply::TooMany, &shared).await;
    };
    if *shared.draining.borrow() {
        return refuse(stream, Reply::ShuttingDown, &shared).await;
    }
    let rules = lock(&shared.access).rules(key);
    let target = request.target;
    let gauge = match request.kind {
        Kind::Tcp => &shared.meter.open,
        Kind::Udp => &shared.meter.flows,
    };
    let _open = Open::new(&shared.open, gauge);
    let connect = async {
        let addresses = rules.resolve(&target).await?;
        match request.kind {
            Kind::Tcp => connect(&addresses).await.map(Socket::Tcp),
            Kind::Udp => udp::connect(&addresses).await.map(Socket::Udp),
        }
    };
    let stopped = stream.send.stopped();
    let connected = tokio::select! {
        connected = timeout(shared.limits.connect, connect) => connected.unwrap_or(Err(Reply::TimedOut)),
        // The program at the other end did not wait.
        _ = stopped => return refuse(stream, Reply::Failed, &shared).await,
    };
    match connected {
        Ok(Socket::Tcp(tcp)) => {
            info!(peer = %key, %target, "open");
            shared.meter.on_reply(Reply::Connected);
            let ended = forward(tcp, stream, &peer.watch()).await;
            match ended {
                Ok(()) => debug!(peer = %key, %target, "closed"),
                Err(error) => {
                    shared.meter.resets.inc();
                    debug!(peer = %key, %target, %error, "reset");
                }
            }
        }
        Ok(Socket::Udp(socket)) => {
            info!(peer = %key, target = %format_args!("udp:{target}"), "open");
            shared.meter.on_reply(Reply::Connected);
            let Stream { send, recv, lane } = stream;
            udp::serve(socket, send, recv, &lane.session, &peer).await;
        }
        Err(reply) => {
            info!(peer = %key, %target, %reply, "refused");
            refuse(stream, reply, &shared).await;
        }
    }
}

enum Socket {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

/// Tells the peer that it is not connected.
async fn refuse(mut stream: Stream, reply: Reply, shared: &Shared) {
    shared.meter.on_reply(reply);
    let _ = stream.recv.stop(ABORTED);
    if stream.send.write_all(&[reply as u8]).await.is_ok() && stream.send.finish().is_ok() {
        // Whether the reply arrives is the matter of the connection, which has its own time-out.
        let _ = stream.send.stopped().await;
    }
}

/// Connects to the first address that accepts.
///
/// # Errors
///
/// The reply for the last one.
async fn connect(addresses: &[SocketAddr]) -> std::result::Result<TcpStream, Reply> {
    let mut last = Reply::HostUnreachable;
    for (index, address) in addresses.iter().enumerate() {
        let attempt = async {
            let socket = match address {
                SocketAddr::V4(_) => TcpSocket::new_v4(),
                SocketAddr::V6(_) => TcpSocket::new_v6(),
            }?;
            // The kernel takes its default if it refuses.
            let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
            socket.connect(*address).await
        };
        // The last one has all the time that the caller gives.
        let patience = match index + 1 == addresses.len() {
            true => Duration::MAX,
            false => Duration::from_secs(2),
        };
        match timeout(patience, attempt).await {
            Ok(Ok(tcp)) => return Ok(tcp),
            Ok(Err(error)) => last = Reply::from_connect(error.kind()),
            Err(_) => last = Reply::TimedOut,
        }
    }
    Err(last)
}

/// Forwards between a target and a stream.
async fn forward(
    tcp: TcpStream,
    stream: Stream,
    activity: &Activity,
) -> std::result::Result<(), Broken> {
    prepare(&tcp);
    let Stream { mut send, mut recv, lane } = stream;
    if send.write_all(&[Reply::Connected as u8]).await.is_err() {
        abort(tcp, &mut send, &mut recv);
        return Err(Broken::Reset);
    }
    lane.begin();
    pump(tcp, (send, recv), &lane, false, activity).await
}
