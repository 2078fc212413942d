//! Both programs as a whole: settings, signals, and what is told to the user and the service
//! manager.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;
use tracing::{debug, warn};

use super::access::Access;
use super::forwarder::{Forwarder, ForwarderSettings, Ports};
use super::link::Remote;
use super::server::{Invitation, Server, ServerSettings};
use crate::address;
use crate::clock;
use crate::descent;
use crate::endpoint::{Endpoint, Options, Service};
use crate::error::{Error, Result};
use crate::identity::{Fingerprint, Identity};
use crate::peers::{self, PeerList, Role};
use crate::qlog::Qlog;
use crate::run;
use crate::ticket::{MAX_ADDRESSES, Ticket, draw_token};
use crate::tls::Trust;

/// News of a program.
#[derive(Debug)]
pub enum News<'a> {
    /// The server serves at this address, with this key.
    Serves(SocketAddr, Fingerprint),
    /// A ticket for one new peer.
    Ticket(&'a Ticket),
    /// The forwarder listens at these addresses.
    Forwards(&'a [SocketAddr]),
    /// Metrics are served at this address.
    Metrics(SocketAddr),
    /// Advice for the user.
    Hint(&'a str),
    /// The program ends as soon as open connections have ended, or the grace is over.
    Ending,
}

/// A server as a program.
#[derive(Debug)]
pub struct ServerProgram {
    /// Directory of the identity, and of the list of peers.
    pub directory: PathBuf,
    /// Settings.
    pub settings: ServerSettings,
    /// Words of `--allow`.
    pub allow: Vec<String>,
    /// A further list of peers, which the program does not write.
    pub authorized: Option<PathBuf>,
    /// Time for which a ticket is valid, if there is to be one.
    pub ticket: Option<Duration>,
    /// Addresses for the ticket. If the user names no address, those of this machine.
    pub advertise: Vec<SocketAddr>,
    /// Time for open connections at the end.
    pub grace: Duration,
}

impl ServerProgram {
    /// Serves until SIGTERM or SIGINT.
    pub fn run(&self, mut tell: impl FnMut(News<'_>)) -> Result<()> {
        self.check()?;
        let access = self.access()?;
        let identity = Arc::new(Identity::open(&self.directory)?);
        let advice = PeerList::open(&self.directory).advice();
        self.check_access(&access, advice.as_deref())?;
        if access.has_invited() && self.ticket.is_none() {
            tell(News::Hint(
                "--allow without a key is for the peer of a ticket: without --ticket, it opens nothing",
            ));
        }
        if let Some(advice) = advice {
            tell(News::Hint(&advice));
        }
        match access.listed() {
            0 => {}
            listed => tell(News::Hint(&format!(
                "clients that lists accept: {listed}, each to the targets of its lines (`windward peers \
                 list`)"
            ))),
        }
        run::to_end(self.serve(identity, access, tell))
    }

    /// Checks the arguments by themselves.
    fn check(&self) -> Result<()> {
        if self.advertise.len() > MAX_ADDRESSES {
            return Err(Error::Input(format!(
                "--advertise: a ticket has at most {MAX_ADDRESSES} addresses"
            )));
        }
        let nowhere = |to: &&SocketAddr| to.ip().is_unspecified() || to.port() == 0;
        if let Some(to) = self.advertise.iter().find(nowhere) {
            return Err(Error::Input(format!(
                "--advertise: {to} leads nowhere from another machine"
            )));
        }
        if self.ticket.is_some_and(|valid| valid.is_zero()) {
            return Err(Error::Input("--expires: a ticket must be valid for some time".to_owned()));
        }
        Ok(())
    }

    /// Checks that some peer may reach something.
    fn check_access(&self, access: &Access, advice: Option<&str>) -> Result<()> {
        let advice = advice.map_or_else(String::new, |advice| format!(". {advice}"));
        match (access.is_empty(), access.has_invited(), self.ticket) {
            (true, false, _) => Err(Error::Input(format!(
                "no peer may reach anything: write --allow 127.0.0.1:22 --ticket for the peer that \
                 uses the ticket, or --allow KEY=127.0.0.1:22 for the one with this key{advice}"
            ))),
            (false, false, Some(_)) => Err(Error::Input(
                "the peer of the ticket may reach nothing: write --allow 127.0.0.1:22".to_owned(),
            )),
            (true, true, None) => Err(Error::Input(format!(
                "no peer is accepted: write --ticket for a first one, or name keys with --allow \
                 KEY=... or --authorized FILE (`windward forward --print-key` prints a key){advice}"
            ))),
            _ => Ok(()),
        }
    }

    async fn serve(
        &self,
        identity: Arc<Identity>,
        access: Access,
        mut tell: impl FnMut(News<'_>),
    ) -> Result<()> {
        let mut signals = Signals::new()?;
        // The end of a terminal is not that of the server.
        let _hang_up = listen_to(SignalKind::hangup())?;
        let invitation = match self.ticket {
            Some(valid) => {
                Some(Invitation { token: draw_token()?, until: clock::time_of_day() + valid })
            }
            None => None,
        };
        let fingerprint = identity.fingerprint();
        let server = Server::start(identity, &self.settings, access, invitation).await?;
        let address = server.endpoint().local_address()?;
        tell(News::Serves(address, fingerprint));
        if let Some(metrics) = server.metrics() {
            tell(News::Metrics(metrics));
        }
        if let Some(hint) = server.endpoint().hint() {
            tell(News::Hint(hint));
        }
        if let Some(Invitation { token, until }) = invitation {
            let (addresses, expires) = (self.addresses(address), until.as_secs());
            tell(News::Ticket(&Ticket { addresses, fingerprint, token, expires }));
        }
        signals.end().await;
        tell(News::Ending);
        signals.hurry(server.shut_down(self.grace)).await;
        Ok(())
    }

    /// Keys and rules of the arguments and lists.
    fn access(&self) -> Result<Access> {
        let mut access = Access::default();
        for word in &self.allow {
            access.allow(word)?;
        }
        access.follow(PeerList::open(&self.directory))?;
        if let Some(path) = &self.authorized {
            let failed = || Error::file(path, "cannot read");
            let file = descent::open_named(path).map_err(failed())?;
            let owner = file.metadata().map_err(failed())?.uid();
            if owner != 0 && owner != rustix::process::geteuid().as_raw() {
                return Err(Error::Input(format!(
                    "{}: belongs to another user (uid {owner}), who could admit anybody: chown it",
                    crate::error::shown(path)
                )));
            }
            access.follow(PeerList::at(path))?;
        }
        Ok(access)
    }

    fn addresses(&self, bound: SocketAddr) -> Vec<SocketAddr> {
        let all = if self.advertise.is_empty() {
            address::of_machine(bound)
        } else {
            self.advertise.clone()
        };
        all.into_iter().take(MAX_ADDRESSES).collect()
    }
}

/// A forwarder as a program.
#[derive(Debug)]
pub struct ForwarderProgram {
    /// Directory of the identity, and of the known peers.
    pub directory: PathBuf,
    /// A ticket of the server, or its `HOST:PORT`.
    pub server: String,
    /// Key of the server, if the user names it.
    pub key: Option<Fingerprint>,
    /// Congestion controller, by name.
    pub protocol: Option<String>,
    /// Logs of connections.
    pub qlog: Option<Arc<Qlog>>,
    /// Settings.
    pub settings: ForwarderSettings,
    /// Time for open connections at the end.
    pub grace: Duration,
}

impl ForwarderProgram {
    /// Forwards until SIGTERM or SIGINT. `confirm` is asked whether the key of a server that is not
    /// known is that of the one that is meant.
    ///
    /// # Errors
    ///
    /// If a setting is invalid, an address cannot be bound, or the server is another or refuses.
    pub fn run(
        &self,
        confirm: impl Fn(&str, Fingerprint) -> bool,
        mut tell: impl FnMut(News<'_>),
    ) -> Result<()> {
        let identity = Arc::new(Identity::open(&self.directory)?);
        run::to_end(async {
            let mut signals = Signals::new()?;
            let begin = async {
                // First all that needs no server.
                let ticket = self.ticket()?;
                let ports = Ports::bind(&self.settings).await?;
                let remote = self.remote(ticket.as_ref(), &identity, confirm).await?;
                let key = remote.key;
                let forwarder = Forwarder::start(Arc::clone(&identity), remote, ports).await?;
                Ok::<_, Error>((forwarder, key, ticket))
            };
            let (forwarder, key, ticket) = tokio::select! {
                begun = begin => begun?,
                () = signals.end() => return Err(Error::Interrupted),
            };
            {
                let mut noting = std::pin::pin!(self.remember(&forwarder, key, ticket));
                // If it is connected already, before programs know where to connect.
                let _ = timeout(Duration::ZERO, &mut noting).await;
                tell(News::Forwards(forwarder.addresses()));
                if let Some(metrics) = forwarder.metrics() {
                    tell(News::Metrics(metrics));
                }
                tokio::select! {
                    () = signals.end() => {}
                    never = &mut noting => match never {},
                }
            }
            tell(News::Ending);
            signals.hurry(forwarder.shut_down(self.grace)).await;
            Ok(())
        })
    }

    /// The ticket, unless the server is named by HOST:PORT.
    fn ticket(&self) -> Result<Option<Ticket>> {
        let is_ticket = !self.server.contains(':');
        is_ticket.then(|| Ticket::read(&self.server, "windward serve --ticket")).transpose()
    }

    /// The server with its key, as ssh finds it: by the ticket, by the user's word, or known.
    async fn remote(
        &self,
        ticket: Option<&Ticket>,
        identity: &Arc<Identity>,
        confirm: impl Fn(&str, Fingerprint) -> bool,
    ) -> Result<Remote> {
        let remote = |addresses, key, token| Remote {
            addresses,
            key,
            token,
            protocol: self.protocol.clone(),
            qlog: self.qlog.clone(),
        };
        let name = self.server.as_str();
        if let Some(ticket) = ticket {
            if self.key.is_some_and(|key| key != ticket.fingerprint) {
                let key = ticket.fingerprint;
                return Err(Error::Input(format!("--server-key: the ticket is of the key {key}")));
            }
            // An expired ticket still names its server, which may know this key.
            let addresses = ticket.addresses.iter().map(SocketAddr::to_string).collect();
            return Ok(remote(addresses, ticket.fingerprint, ticket.token));
        }
        let list = PeerList::open(&self.directory);
        let resolved = address::look_up(name).await.unwrap_or_default();
        let key = match (self.key, list.find(Role::Server, name, &resolved)?) {
            (Some(key), None) => key,
            (Some(key), Some(before)) if key == before => key,
            (Some(_), Some(before)) => {
                return Err(Error::Input(format!(
                    "{name} had the key {before} before. If it has another one now: windward peers \
                     revoke {name} --role server"
                )));
            }
            (None, Some(before)) => before,
            (None, None) => {
                let shown = ask_key(identity, name).await?;
                if !confirm(name, shown) {
                    let advice = list.advice().map_or_else(String::new, |text| format!(". {text}"));
                    return Err(Error::Input(format!(
                        "{name} is not known. It shows the key {shown}: if that is what `windward \
                         serve` printed there, write --server-key {shown}{advice}"
                    )));
                }
                shown
            }
        };
        Ok(remote(vec![name.to_owned()], key, [0; 16]))
    }

    /// Remembers the server by its names once it is connected, and never ends.
    async fn remember(
        &self,
        forwarder: &Forwarder,
        key: Fingerprint,
        ticket: Option<Ticket>,
    ) -> Infallible {
        let reached = forwarder.connected().await;
        let written = ticket.is_none().then_some(self.server.as_str());
        let addresses = ticket.map_or_else(Vec::new, |ticket| ticket.addresses);
        let names = peers::names(written, &addresses, reached);
        if let Err(error) = PeerList::open(&self.directory).remember(Role::Server, &names, key) {
            warn!(%error, "the server cannot be remembered");
        }
        std::future::pending().await
    }
}

/// The key that a server shows.
async fn ask_key(identity: &Arc<Identity>, name: &str) -> Result<Fingerprint> {
    let found = address::look_up(name).await;
    let addresses = found.map_err(|error| Error::Unreachable(format!("{name}: {error}")))?;
    let endpoint = Endpoint::anywhere(identity, &Options::default())?;
    let connection = endpoint.connect_first(&addresses, Service::Forward, Trust::Unchecked).await?;
    let key = connection.peer;
    endpoint.close("only the key was asked for").await;
    Ok(key)
}

fn listen_to(kind: SignalKind) -> Result<Signal> {
    signal(kind)
        .map_err(|error| Error::Socket { what: "cannot listen to signals".to_owned(), error })
}

/// The signals that end a program.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> Result<Self> {
        let terminate = listen_to(SignalKind::terminate())?;
        Ok(Signals { terminate, interrupt: listen_to(SignalKind::interrupt())? })
    }

    /// Waits for an end, unless another signal says that the user does not want to.
    async fn hurry(&mut self, end: impl Future<Output = ()>) {
        tokio::select! {
            () = end => {}
            () = self.end() => debug!("ended at once"),
        }
    }

    async fn end(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => debug!("SIGTERM"),
            _ = self.interrupt.recv() => debug!("SIGINT"),
        }
    }
}
