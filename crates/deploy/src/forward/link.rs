//! The QUIC connection of a forwarder to its server, which is made anew whenever it is lost.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quinn::{RecvStream, SendStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use super::meter::Meter;
use super::pump::Broken;
use super::reply::Reply;
use super::session::{Lane, Session};
use super::target::Target;
use super::wire::{self, Kind, Request, TOKEN};
use super::{WELCOME, options};
use crate::address;
use crate::endpoint::{Endpoint, Service};
use crate::error::{Error, Result};
use crate::identity::{Fingerprint, Identity};
use crate::qlog::Qlog;
use crate::tls::Trust;

/// Longest time that a program waits for a connection to the server, or for a free stream, or for
/// the server to take its request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause before the second attempt to connect; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Reason with which a forwarder closes its connection.
const ENDS: &str = "the forwarder ends";
/// Longest time for the server to greet.
const GREETING: Duration = Duration::from_secs(10);
/// Bytes of one connection that wait for programs that do not read, beyond 32 KiB for each.
const BUFFER: u64 = 16 << 20;
/// Streams that a server may open; it opens none.
const STREAMS_OF_SERVER: usize = 0;

/// The server of a forwarder.
#[derive(Debug, Clone)]
pub struct Remote {
    /// Addresses as the user wrote them, `HOST:PORT`, tried in this order. Names are resolved for
    /// each attempt.
    pub addresses: Vec<String>,
    /// Fingerprint that the server must have.
    pub key: Fingerprint,
    /// Secret of a ticket; zeros without a ticket.
    pub token: [u8; TOKEN],
    /// Congestion controller, by name; the default one if none.
    pub protocol: Option<String>,
    /// Logs of connections.
    pub qlog: Option<Arc<Qlog>>,
}

#[derive(Debug, Clone)]
enum State {
    Down,
    Up(Arc<Session>),
    /// The forwarder ends: there is no further attempt.
    Ended,
}

/// The connection to a server.
#[derive(Debug)]
pub(super) struct Link {
    state: watch::Sender<State>,
}

impl Link {
    /// Connects, and keeps the connection from then on.
    ///
    /// # Errors
    ///
    /// If the server refuses, or is another. If it does not answer, new attempts follow.
    pub(super) async fn start(
        identity: Arc<Identity>,
        remote: Remote,
        meter: Arc<Meter>,
    ) -> Result<Arc<Self>> {
        let first = match dial(&identity, &remote, &meter).await {
            Ok(up) => Some(up),
            Err(error) if error.is_temporary() => {
                warn!(%error, "not connected yet");
                None
            }
            Err(error) => return Err(error),
        };
        let state =
            first.as_ref().map_or(State::Down, |(_, session)| State::Up(Arc::clone(session)));
        let link = Arc::new(Link { state: watch::channel(state).0 });
        tokio::spawn(Arc::clone(&link).keep(identity, remote, meter, first));
        Ok(link)
    }

    async fn keep(
        self: Arc<Self>,
        identity: Arc<Identity>,
        remote: Remote,
        meter: Arc<Meter>,
        mut first: Option<(Endpoint, Arc<Session>)>,
    ) {
        let mut pause = FIRST_PAUSE;
        loop {
            let dialed = match first.take() {
                Some(up) => Ok(up),
                None => dial(&identity, &remote, &meter).await,
            };
            match dialed {
                Ok((endpoint, session)) => {
                    if !self.turn(State::Up(Arc::clone(&session))) {
                        session.close(0, ENDS);
                        endpoint.close(ENDS).await;
                        return;
                    }
                    info!(server = %session.quic.remote_address(), "connected");
                    pause = FIRST_PAUSE;
                    meter.peer_connections.inc();
                    meter.peers.inc();
                    let mut drains = session.peer_drains();
                    let lost = tokio::select! {
                        error = session.quic.closed() => Some(error),
                        _ = drains.wait_for(|drains| *drains) => None,
                    };
                    let goes_on = self.turn(State::Down);
                    match lost {
                        Some(error) => {
                            if error != quinn::ConnectionError::LocallyClosed {
                                warn!(error = %Error::from(error), "the connection is lost");
                            }
                            meter.peers.dec();
                            if !goes_on {
                                return;
                            }
                        }
                        None => {
                            info!("the server takes no new connections");
                            let meter = Arc::clone(&meter);
                            // Open connections go on until they end, or the server does.
                            tokio::spawn(async move {
                                session.quic.closed().await;
                                meter.peers.dec();
                                drop(endpoint);
                            });
                        }
                    }
                }
                Err(error) => {
                    if !error.is_temporary() {
                        // A change of the server's settings may end it.
                        warn!(%error, "the server refuses");
                    } else {
                        debug!(%error, "no connection");
                    }
                    sleep(pause).await;
                    if !self.turn(State::Down) {
                        return;
                    }
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    /// Changes the state, unless the forwarder has ended. Returns whether it did.
    fn turn(&self, to: State) -> bool {
        self.state.send_if_modified(|state| {
            let goes_on = !matches!(state, State::Ended);
            if goes_on {
                *state = to;
            }
            goes_on
        })
    }

    /// Address of the server at the next connection, or that of the present one; never ends after
    /// the forwarder has.
    pub(super) async fn connected(&self) -> SocketAddr {
        let mut state = self.state.subscribe();
        if let Ok(state) = state.wait_for(|state| matches!(state, State::Up(_))).await
            && let State::Up(session) = &*state
        {
            return session.quic.remote_address();
        }
        std::future::pending().await
    }

    /// The connection, if there is one within the time that programs wait.
    async fn session(&self) -> Option<Arc<Session>> {
        let mut state = self.state.subscribe();
        let up = state.wait_for(|state| !matches!(state, State::Down));
        match timeout(PATIENCE, up).await {
            Ok(Ok(state)) => match &*state {
                State::Up(session) => Some(Arc::clone(session)),
                State::Down | State::Ended => None,
            },
            _ => None,
        }
    }

    /// Opens a stream with a request. The reply is still to be read.
    ///
    /// # Errors
    ///
    /// If there is no connection, or no free stream, for too long.
    pub(super) async fn open(
        &self,
        kind: Kind,
        target: Target,
    ) -> std::result::Result<(Arc<Session>, SendStream, RecvStream, Lane), Broken> {
        let session = self.session().await.ok_or(Broken::Lost)?;
        let (mut send, recv) = match timeout(PATIENCE, session.quic.open_bi()).await {
            Ok(opened) => opened.map_err(|_| Broken::Lost)?,
            Err(_) => return Err(Broken::Refused(Reply::TooMany)),
        };
        let lane = session.lane(send.id().into());
        // A new stream is young.
        let _ = send.set_priority(1);
        let request = Request { kind, target }.encode();
        // A server that takes no bytes of a new stream does not answer either.
        match timeout(PATIENCE, send.write_all(&request)).await {
            Ok(written) => written.map_err(|_| Broken::Lost)?,
            Err(_) => return Err(Broken::Refused(Reply::TimedOut)),
        }
        Ok((session, send, recv, lane))
    }

    /// Closes the connection, and tells the server.
    pub(super) async fn close(&self) {
        let state = self.state.send_replace(State::Ended);
        if let State::Up(session) = state {
            session.close(0, ENDS);
            // The packet that says so leaves with the next turn of the driver.
            sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Connects to the first address that answers, and greets.
async fn dial(
    identity: &Arc<Identity>,
    remote: &Remote,
    meter: &Arc<Meter>,
) -> Result<(Endpoint, Arc<Session>)> {
    let (mut addresses, mut errors) = (Vec::new(), Vec::new());
    for name in &remote.addresses {
        match address::look_up(name).await {
            Ok(found) => addresses.extend(found),
            Err(error) => errors.push(format!("{name}: {error}")),
        }
    }
    if addresses.is_empty() {
        return Err(Error::Unreachable(errors.join(", ")));
    }
    let options =
        options(remote.protocol.as_deref(), remote.qlog.clone(), STREAMS_OF_SERVER, BUFFER);
    let endpoint = Endpoint::anywhere(identity, &options)?;
    if let Some(hint) = endpoint.hint() {
        debug!(hint);
    }
    let trust = Trust::Pinned(remote.key);
    let connection = endpoint.connect_first(&addresses, Service::Forward, trust).await?;
    let quic = connection.quic;
    let greet = async {
        let (mut send, mut recv) = quic.open_bi().await?;
        let sent = send.write_all(&remote.token).await;
        sent.map_err(|error| Error::Unreachable(error.to_string()))?;
        match wire::take::<1>(&mut recv).await {
            Ok([WELCOME]) => Ok((send, recv)),
            Ok(_) => Err(Error::Peer("the server does not greet".to_owned())),
            // The reason of the server, if it closed the connection, says more.
            Err(error) => Err(quic.close_reason().map_or(error, Error::from)),
        }
    };
    let control = timeout(GREETING, greet)
        .await
        .map_err(|_| Error::Unreachable("the server does not greet".to_owned()))??;
    let session = Session::start(quic, control, BUFFER, Arc::clone(meter));
    Ok((endpoint, session))
}
