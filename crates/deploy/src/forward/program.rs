//! Both programs as a whole: settings, signals, and what is told to the user and the service
//! manager.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

use super::access::Access;
use super::forwarder::{Forwarder, ForwarderSettings};
use super::link::Remote;
use super::server::{Invitation, Server, ServerSettings};
use crate::clock;
use crate::endpoint::{Endpoint, Options, Service};
use crate::error::{Error, Result};
use crate::identity::{Fingerprint, Identity, make_private_directory};
use crate::known::KnownPeers;
use crate::qlog::Qlog;
use crate::ticket::{MAX_ADDRESSES, Ticket, draw_token};
use crate::tls::Trust;

/// File in the directory of the configuration with the keys that tickets have admitted.
const ADMITTED: &str = "forward_peers";
/// Longest file of keys, bytes.
const LONGEST_FILE: u64 = 4 << 20;

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
    /// Settings are read again.
    Reloading,
    /// Settings were read again.
    Reloaded,
    /// Settings could not be read; the old ones stay.
    NotReloaded(&'a Error),
    /// The program ends as soon as open connections have ended, or the grace is over.
    Ending,
}

/// A server as a program.
#[derive(Debug)]
pub struct ServerProgram {
    /// Directory of the identity, and of the keys that tickets have admitted.
    pub directory: PathBuf,
    /// Settings.
    pub settings: ServerSettings,
    /// Words of `--allow`.
    pub allow: Vec<String>,
    /// File of keys with their rules, which is read again on SIGHUP.
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
    ///
    /// # Errors
    ///
    /// If a setting is invalid, or an address cannot be bound.
    pub fn run(&self, mut tell: impl FnMut(News<'_>)) -> Result<()> {
        let access = self.access()?;
        let identity = Arc::new(Identity::open(&self.directory)?);
        let admitted = self.directory.join(ADMITTED);
        let ticket = self.ticket.map(|valid| Ok::<_, Error>((draw_token()?, valid))).transpose()?;
        if access.is_useless() {
            return Err(Error::Input(
                "no peer may reach anything: write --allow 127.0.0.1:22 for every peer that is \
                 accepted, or --allow KEY=127.0.0.1:22 for one"
                    .to_owned(),
            ));
        }
        if access.is_empty() && ticket.is_none() {
            return Err(Error::Input(
                "no peer is accepted: write --ticket for a first one, or name keys with --allow \
                 KEY=... or --authorized FILE (`windward forward --print-key` prints a key)"
                    .to_owned(),
            ));
        }
        runtime()?.block_on(async {
            let mut signals = Signals::new()?;
            let mut hang_up = listen_to(SignalKind::hangup())?;
            let invitation = ticket.map(|(token, valid)| {
                (Invitation { token, until: clock::time_of_day() + valid }, valid)
            });
            let remember =
                Box::new(move |key| append(&admitted, &format!("{key} # by a ticket\n")));
            let fingerprint = identity.fingerprint();
            let server = Server::start(
                identity,
                &self.settings,
                access,
                invitation.map(|(invitation, _)| invitation),
                remember,
            )
            .await?;
            let address = server.endpoint().local_address()?;
            tell(News::Serves(address, fingerprint));
            if let Some(metrics) = server.metrics() {
                tell(News::Metrics(metrics));
            }
            if let Some(hint) = server.endpoint().hint() {
                tell(News::Hint(hint));
            }
            if let Some((invitation, _)) = invitation {
                tell(News::Ticket(&Ticket {
                    addresses: self.addresses(address),
                    fingerprint,
                    token: invitation.token,
                    expires: invitation.until.as_secs(),
                }));
            }
            loop {
                tokio::select! {
                    () = signals.end() => break,
                    _ = hang_up.recv() => {
                        tell(News::Reloading);
                        match self.access() {
                            Ok(access) => {
                                server.reload(access);
                                tell(News::Reloaded);
                            }
                            Err(error) => tell(News::NotReloaded(&error)),
                        }
                    }
                }
            }
            tell(News::Ending);
            tokio::select! {
                () = server.shut_down(self.grace) => {}
                // The user does not want to wait.
                () = signals.end() => warn!("ended at once"),
            }
            Ok(())
        })
    }

    /// Keys and rules as the arguments and files have them now.
    fn access(&self) -> Result<Access> {
        let mut access = Access::default();
        for word in &self.allow {
            access.allow(word)?;
        }
        let admitted = self.directory.join(ADMITTED);
        for path in self.authorized.iter().chain(admitted.exists().then_some(&admitted)) {
            access.read(&path.display().to_string(), &read(path)?)?;
        }
        Ok(access)
    }

    fn addresses(&self, bound: SocketAddr) -> Vec<SocketAddr> {
        if !self.advertise.is_empty() {
            return self.advertise.iter().copied().take(MAX_ADDRESSES).collect();
        }
        if !bound.ip().is_unspecified() {
            return vec![bound];
        }
        let mut own: Vec<IpAddr> = if_addrs::get_if_addrs()
            .unwrap_or_default()
            .iter()
            .filter(|interface| bound.is_ipv6() || interface.ip().is_ipv4())
            .filter(|interface| !interface.is_link_local())
            .map(if_addrs::Interface::ip)
            .collect();
        // Loopback last: it leads nowhere from another machine.
        own.sort_by_key(|address| (address.is_loopback(), address.is_ipv6()));
        own.dedup();
        own.into_iter().take(MAX_ADDRESSES).map(|ip| SocketAddr::new(ip, bound.port())).collect()
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
        runtime()?.block_on(async {
            let mut signals = Signals::new()?;
            let begin = async {
                let remote = self.remote(&identity, confirm).await?;
                let known = (!remote.token.iter().all(|byte| *byte == 0))
                    .then(|| (remote.addresses.clone(), remote.key));
                let forwarder =
                    Forwarder::start(Arc::clone(&identity), remote, &self.settings).await?;
                // The server of a ticket is known from now on by its addresses.
                for (name, key) in known.iter().flat_map(|(names, key)| names.iter().zip([key])) {
                    KnownPeers::open(&self.directory).remember(name, *key)?;
                }
                Ok::<_, Error>(forwarder)
            };
            let forwarder = tokio::select! {
                begun = begin => begun?,
                () = signals.end() => return Err(Error::Interrupted),
            };
            tell(News::Forwards(forwarder.addresses()));
            if let Some(metrics) = forwarder.metrics() {
                tell(News::Metrics(metrics));
            }
            signals.end().await;
            tell(News::Ending);
            tokio::select! {
                () = forwarder.shut_down(self.grace) => {}
                () = signals.end() => warn!("ended at once"),
            }
            Ok(())
        })
    }

    /// The server with its key, as ssh finds it: by the ticket, by the user's word, or known.
    async fn remote(
        &self,
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
        if !name.contains(':') {
            let ticket: Ticket = name.parse().map_err(|error| {
                Error::Input(format!(
                    "{error}, or write HOST:PORT of a server that is known already"
                ))
            })?;
            // An expired ticket still names its server, which may know this key.
            let addresses = ticket.addresses.iter().map(SocketAddr::to_string).collect();
            return Ok(remote(addresses, ticket.fingerprint, ticket.token));
        }
        let known = KnownPeers::open(&self.directory);
        let addresses = vec![name.to_owned()];
        let key = match (self.key, known.find(name)?) {
            (Some(key), None) => key,
            (Some(key), Some(before)) if key == before => key,
            (Some(_), Some(before)) => {
                return Err(Error::Input(format!(
                    "{name} had the key {before} before. If it has another one now, remove its line \
                     from {}",
                    known.path().display()
                )));
            }
            (None, Some(before)) => before,
            (None, None) => {
                let shown = ask_key(identity, name).await?;
                if !confirm(name, shown) {
                    return Err(Error::Input(format!(
                        "{name} is not known. It shows the key {shown}: if that is what `windward \
                         serve` printed there, write --server-key {shown}"
                    )));
                }
                shown
            }
        };
        known.remember(name, key)?;
        Ok(remote(addresses, key, [0; 16]))
    }
}

/// The key that a server shows.
async fn ask_key(identity: &Arc<Identity>, name: &str) -> Result<Fingerprint> {
    let unreachable = |error: io::Error| Error::Unreachable(format!("{name}: {error}"));
    let mut last = Error::Unreachable(format!("{name} has no address"));
    for address in tokio::net::lookup_host(name).await.map_err(unreachable)? {
        let any = match address {
            SocketAddr::V4(_) => SocketAddr::from(([0; 4], 0)),
            SocketAddr::V6(_) => SocketAddr::from(([0; 16], 0)),
        };
        let endpoint = Endpoint::client(any, Arc::clone(identity), Options::default())?;
        match endpoint.connect(address, Service::Forward, Trust::Unchecked).await {
            Ok(connection) => {
                let key = connection.peer;
                endpoint.close("only the key was asked for").await;
                return Ok(key);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn runtime() -> Result<Runtime> {
    Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::Socket { what: "cannot start threads".to_owned(), error })
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

    async fn end(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => info!("SIGTERM"),
            _ = self.interrupt.recv() => info!("SIGINT"),
        }
    }
}

fn read(path: &Path) -> Result<String> {
    let open = || {
        let mut text = String::new();
        File::open(path)?.take(LONGEST_FILE).read_to_string(&mut text)?;
        Ok(text)
    };
    open().map_err(Error::file(path, "cannot read"))
}

/// Appends a line, so that it survives a crash.
fn append(path: &Path, line: &str) -> Result<()> {
    if let Some(directory) = path.parent() {
        make_private_directory(directory)?;
    }
    let write = || {
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        file.write_all(line.as_bytes())?;
        file.sync_all()
    };
    write().map_err(Error::file(path, "cannot write"))
}
