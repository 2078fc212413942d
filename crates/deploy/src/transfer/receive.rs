//! `windward receive`: gives out a ticket, and takes in what its sender sends.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quinn::VarInt;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::address;
use crate::book::Book;
use crate::clock;
use crate::crowd::Crowd;
use crate::endpoint::{Connection, Endpoint, Listener, Options, Service};
use crate::error::{Error, Result};
use crate::identity::{Fingerprint, Identity};
use crate::peers::{self, PeerList, Role};
use crate::run::{self, joined, raised};
use crate::sync::lock;
use crate::ticket::{MAX_ADDRESSES, Ticket};
use crate::transfer::claims::Claims;
use crate::transfer::door::{Admitted, Door, busy};
use crate::transfer::folder::Folder;
use crate::transfer::reception;
use crate::transfer::wire::STREAMS;

pub use crate::transfer::reception::Received;

/// Connections at once that have not said yet what they want.
const VISITORS: usize = 64;
/// Transfers at once.
const SESSIONS: usize = 8;
/// Longest time for transfers to end after a signal.
const ENDING: Duration = Duration::from_millis(400);

/// A receiver's choices.
#[derive(Debug)]
pub struct ReceiveOptions {
    /// Folder that receives.
    pub folder: PathBuf,
    /// Directory of the configuration.
    pub home: PathBuf,
    /// Address and port to listen at; port 0 takes that of the previous time, or a free one.
    pub listen: SocketAddr,
    /// Addresses in the ticket, before those of this machine; port 0 stands for the own port.
    pub addresses: Vec<SocketAddr>,
    /// Lifetime of a new ticket.
    pub expires: Duration,
    /// True to give out a new ticket even if there is an open one.
    pub new_ticket: bool,
    /// True to give the permissions of the sender also to what is there.
    pub perms: bool,
    /// True to stay after a complete transfer.
    pub keep: bool,
    /// True to admit the senders that the list of peers has for this folder, without a ticket.
    pub known: bool,
    /// Time without progress after which the connection of a sender is ended.
    pub patience: Duration,
    /// Properties of connections.
    pub endpoint: Options,
}

/// Opens a receiver, shows it to `opened`, and serves on the calling thread: see
/// [`Receiver::serve`].
///
/// # Errors
///
/// As for [`Receiver::open`] and [`Receiver::serve`], and those of `opened`.
pub fn run<E: From<Error>>(
    identity: Identity,
    options: ReceiveOptions,
    stop: &AtomicBool,
    opened: impl FnOnce(&Receiver) -> Result<(), E>,
    tell: impl FnMut(Event),
) -> Result<(), E> {
    run::to_end(async {
        let receiver = Receiver::open(identity, options)?;
        opened(&receiver)?;
        Ok(receiver.serve(stop, tell).await?)
    })
}

/// Something that a receiver tells its user.
#[derive(Debug)]
pub enum Event {
    /// A sender was admitted.
    Began(Fingerprint),
    /// A transfer is complete.
    Complete(Received),
    /// A transfer ended early, and may be resumed.
    Broken(Fingerprint, Error),
    /// A peer was refused.
    Refused(Fingerprint, String),
}

/// A receiver that listens.
#[derive(Debug)]
pub struct Receiver {
    options: ReceiveOptions,
    endpoint: Endpoint,
    listener: Listener,
    folder: Arc<Folder>,
    door: Arc<Door>,
    ticket: Ticket,
}

impl Receiver {
    /// Opens the folder and the socket.
    ///
    /// # Errors
    ///
    /// If the folder, the socket or the directory of the configuration cannot be used.
    pub fn open(identity: Identity, options: ReceiveOptions) -> Result<Self> {
        let folder = Arc::new(Folder::open(&options.folder, options.perms)?);
        let now = clock::time_of_day().as_secs();
        let expires = now.saturating_add(options.expires.as_secs());
        let list = PeerList::open(&options.home);
        let scope = peers::folder_scope(folder.path());
        let mut book = Book::open(&options.home, folder.path(), now, expires, options.new_ticket)?;
        // The ticket of a sender that was revoked is of no use to anybody.
        if let Some(sender) = book.record.sender
            && !list.admits(Role::Sender, sender, &scope)?
        {
            book = Book::open(&options.home, folder.path(), now, expires, true)?;
        }
        let identity = Arc::new(identity);
        let services = &[Service::Transfer];
        let serve = |port| {
            let mut listen = options.listen;
            listen.set_port(port);
            let properties =
                Options { uni_streams: 2 * STREAMS, bidi_streams: 1, ..options.endpoint.clone() };
            Endpoint::server(listen, Arc::clone(&identity), services, properties)
        };
        let (endpoint, listener) = match options.listen.port() {
            0 => serve(book.record.port).or_else(|_| serve(0))?,
            port => serve(port)?,
        };
        let own = endpoint.local_address()?;
        book.record.port = own.port();
        book.save()?;
        let ticket = Ticket {
            addresses: addresses(&options.addresses, own),
            fingerprint: identity.fingerprint(),
            token: book.record.token,
            expires: book.record.expires,
        };
        let door = Door { book: Mutex::new(book), list, scope, opens_to_known: options.known };
        Ok(Receiver { options, endpoint, listener, folder, door: Arc::new(door), ticket })
    }

    /// The ticket for the sender.
    pub fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    /// Absolute path of the folder.
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Change that the operator should make, if the kernel gave too small buffers.
    pub fn hint(&self) -> Option<&str> {
        self.endpoint.hint()
    }

    /// Serves until a transfer is complete (or for good, with `keep`), or until `stop` is raised.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`] after `stop`; [`Error::Incomplete`] after a transfer of which
    /// something could not be stored: its ticket stays valid.
    pub async fn serve(self, stop: &AtomicBool, tell: impl FnMut(Event)) -> Result<()> {
        let Receiver { options, endpoint, mut listener, folder, door, .. } = self;
        let mut house = House {
            options,
            folder,
            door,
            tell,
            crowd: Arc::default(),
            visitors: JoinSet::new(),
            claims: Arc::default(),
            latest: HashMap::new(),
            sessions: JoinSet::new(),
            end: None,
        };
        let result = loop {
            // After a complete transfer, others that run may end too.
            if house.sessions.is_empty()
                && let Some(end) = house.end.take()
            {
                break end;
            }
            tokio::select! {
                arrival = listener.accept(), if house.visitors.len() < VISITORS => match arrival {
                    Some(connection) => house.welcome(connection),
                    None => break Ok(()),
                },
                Some(visit) = house.visitors.join_next() => {
                    let (admission, connection) = joined(visit)?;
                    house.begin(admission, connection);
                }
                Some(ended) = house.sessions.join_next() => {
                    let (connection, received) = joined(ended)?;
                    house.end(&connection, received);
                }
                () = raised(stop) => break Err(Error::Interrupted),
            }
        };
        for own in house.latest.values() {
            own.connection.quic.close(VarInt::from_u32(0), b"the receiver was stopped");
        }
        // Their work ends by itself; only a disk may take longer.
        let sessions = &mut house.sessions;
        let _ = timeout(ENDING, async { while sessions.join_next().await.is_some() {} }).await;
        endpoint.close("the receiver has ended").await;
        result
    }
}

/// A receiver at work: those at the door, and the sessions of those that were admitted.
struct House<T> {
    options: ReceiveOptions,
    folder: Arc<Folder>,
    door: Arc<Door>,
    tell: T,
    crowd: Arc<Crowd>,
    visitors: JoinSet<(Result<Admitted>, Connection)>,
    claims: Arc<Claims>,
    /// Only the latest connection of each sender writes into the folder.
    latest: HashMap<Fingerprint, Latest>,
    sessions: JoinSet<(Connection, Result<Received>)>,
    /// The end, once a transfer is complete.
    end: Option<Result<()>>,
}

/// The latest connection of a sender.
struct Latest {
    connection: Connection,
    /// Ends with its session.
    ended: oneshot::Receiver<()>,
}

impl<T: FnMut(Event)> House<T> {
    /// Asks a stranger what it wants.
    fn welcome(&mut self, connection: Connection) {
        let Some(guest) = self.crowd.enter(connection.quic.remote_address().ip()) else {
            return connection.refuse(&busy("too many connections of this address at once"));
        };
        let door = Arc::clone(&self.door);
        self.visitors.spawn(async move {
            let admission = door.admit(&connection).await;
            drop(guest);
            (admission, connection)
        });
    }

    /// Begins the session of a sender that was admitted and has a place, and refuses others.
    fn begin(&mut self, admission: Result<Admitted>, connection: Connection) {
        let peer = connection.peer;
        let admitted = match admission.and_then(|admitted| self.place(peer).map(|()| admitted)) {
            Ok(admitted) => admitted,
            Err(error) => {
                connection.refuse(&error);
                return (self.tell)(Event::Refused(peer, error.to_string()));
            }
        };
        let (ending, ended) = oneshot::channel();
        let own = Latest { connection: connection.clone(), ended };
        let earlier = self.latest.insert(peer, own).map(|earlier| {
            earlier.connection.refuse(&Error::Refused(REPLACED.to_owned()));
            earlier.ended
        });
        (self.tell)(Event::Began(peer));
        let (folder, claimant) = (Arc::clone(&self.folder), self.claims.session());
        let patience = self.options.patience;
        self.sessions.spawn(async move {
            let _ending = ending;
            if let Some(earlier) = earlier {
                // It ends with an error, as nothing is ever sent.
                let _ = earlier.await;
            }
            let received =
                reception::receive(&connection, admitted, folder, claimant, patience).await;
            (connection, received)
        });
    }

    /// Checks that there is a place for a sender. One that comes again takes its own, once its
    /// earlier session has ended.
    fn place(&self, peer: Fingerprint) -> Result<()> {
        let is_full = self.latest.len() >= SESSIONS && !self.latest.contains_key(&peer)
            || self.sessions.len() >= 2 * SESSIONS;
        match (&self.end, is_full) {
            (Some(_), _) => Err(busy("the receiver ends")),
            (None, true) => Err(busy("too many transfers at once")),
            (None, false) => Ok(()),
        }
    }

    /// Notes the end of a session.
    fn end(&mut self, connection: &Connection, received: Result<Received>) {
        let (peer, id) = (connection.peer, connection.quic.stable_id());
        if self.latest.get(&peer).is_some_and(|own| own.connection.quic.stable_id() == id) {
            self.latest.remove(&peer);
        }
        let received = match received {
            Ok(received) => received,
            Err(error) => return (self.tell)(Event::Broken(peer, error)),
        };
        let is_last = !self.options.keep && !received.dry_run;
        let failed = received.failed;
        if is_last && failed == 0 {
            lock(&self.door.book).close(peer);
        }
        (self.tell)(Event::Complete(received));
        if is_last {
            self.end.get_or_insert(match failed {
                0 => Ok(()),
                _ => Err(Error::Incomplete(failed)),
            });
        }
    }
}

/// Not temporary: two processes would take the place of each other for ever.
const REPLACED: &str = "another `windward send` with the same key took its place";

/// The addresses of a ticket: those of the user, then those of the machine.
fn addresses(first: &[SocketAddr], own: SocketAddr) -> Vec<SocketAddr> {
    let with_port = |mut address: SocketAddr| {
        if address.port() == 0 {
            address.set_port(own.port());
        }
        address
    };
    let mut found: Vec<SocketAddr> = first.iter().copied().map(with_port).collect();
    found.extend(address::of_machine(own));
    let mut seen = HashSet::new();
    found.retain(|address| seen.insert(*address));
    found.truncate(MAX_ADDRESSES);
    found
}
