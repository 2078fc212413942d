//! `windward receive`: gives out a ticket, and takes in what its sender sends.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use quinn::{RecvStream, VarInt};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};

use crate::book::Book;
use crate::clock;
use crate::crowd::Crowd;
use crate::endpoint::{Connection, Endpoint, Listener, Options, Service};
use crate::error::{Error, Result};
use crate::identity::{Fingerprint, Identity};
use crate::peers::{self, Peer, PeerList, Role};
use crate::run;
use crate::sync::lock;
use crate::ticket::{MAX_ADDRESSES, Ticket};
use crate::transfer::claims::{Claimant, Claims};
use crate::transfer::commit;
use crate::transfer::folder::Folder;
use crate::transfer::intake::{Inlet, Intake};
use crate::transfer::wire::{self, Frame, MAX_FRAME, MAX_HEADER, STREAMS, ToReceiver, ToSender};

/// Time in which a sender must say what it wants after the handshake.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval at which progress is looked at.
const TICK: Duration = Duration::from_millis(250);
/// Connections at once that have not said yet what they want.
const VISITORS: usize = 64;
/// Transfers at once.
const SESSIONS: usize = 8;
/// Longest time for transfers to end after a signal.
const ENDING: Duration = Duration::from_millis(400);
/// Time for which an end that is done waits for the other to know.
pub(super) const FAREWELL: Duration = Duration::from_secs(10);
/// Bytes of a data stream that are handled together: at least the longest frame with its header and
/// a hash.
const GATHER: usize = (MAX_FRAME as usize) + MAX_HEADER + 32;
/// Complete files that wait for their names.
const READY: usize = 128;
/// Streams whose data is hashed and written at once. More would wait for each other, since a file
/// has one writer at a time, and each thread has memory of its own.
const WRITERS: usize = 2;
/// Entries that one message reports.
const REPORTED: usize = 2048;

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

/// A complete transfer.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Received {
    /// Fingerprint of the sender.
    pub sender: String,
    /// Entries stored.
    pub stored: u64,
    /// Entries that were there already.
    pub same: u64,
    /// Entries that could not be stored.
    pub failed: u64,
    /// Bytes of contents that arrived.
    pub bytes: u64,
    /// True if nothing was written.
    pub dry_run: bool,
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
    pub async fn serve(mut self, stop: &AtomicBool, mut tell: impl FnMut(Event)) -> Result<()> {
        // Only the latest connection of each sender writes into the folder.
        let mut latest: HashMap<Fingerprint, Latest> = HashMap::new();
        let mut sessions = JoinSet::new();
        let claims = Arc::new(Claims::default());
        let mut visitors = JoinSet::new();
        let crowd = Arc::new(Crowd::default());
        // The end, once a transfer is complete: others that run may end too.
        let mut end = None;
        let result = loop {
            if sessions.is_empty()
                && let Some(end) = end.take()
            {
                break end;
            }
            tokio::select! {
                arrival = self.listener.accept(), if visitors.len() < VISITORS => {
                    let Some(connection) = arrival else { break Ok(()) };
                    let Some(guest) = crowd.enter(connection.quic.remote_address().ip()) else {
                        connection.refuse(&busy("too many connections of this address at once"));
                        continue;
                    };
                    let door = Arc::clone(&self.door);
                    visitors.spawn(async move {
                        let admission = door.admit(&connection).await;
                        drop(guest);
                        (admission, connection)
                    });
                }
                Some(visit) = visitors.join_next() => {
                    let (admission, connection) = match visit {
                        Ok(visit) => visit,
                        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                        Err(_) => continue,
                    };
                    let peer = connection.peer;
                    // One that comes again takes its own place, once its earlier session has ended.
                    let is_full = latest.len() >= SESSIONS && !latest.contains_key(&peer)
                        || sessions.len() >= 2 * SESSIONS;
                    let admission = admission.and_then(|admitted| match is_full {
                        _ if end.is_some() => Err(busy("the receiver ends")),
                        true => Err(busy("too many transfers at once")),
                        false => Ok(admitted),
                    });
                    let admitted = match admission {
                        Ok(admitted) => admitted,
                        Err(error) => {
                            connection.refuse(&error);
                            tell(Event::Refused(peer, error.to_string()));
                            continue;
                        }
                    };
                    let (ending, ended) = oneshot::channel();
                    let own = Latest { connection: connection.clone(), ended };
                    let earlier = latest.insert(peer, own).map(|earlier| {
                        earlier.connection.refuse(&Error::Refused(REPLACED.to_owned()));
                        earlier.ended
                    });
                    tell(Event::Began(peer));
                    let (folder, claimant) = (Arc::clone(&self.folder), claims.session());
                    let patience = self.options.patience;
                    sessions.spawn(async move {
                        let _ending = ending;
                        let received = attend(&connection, earlier, admitted, folder, claimant, patience);
                        let received = received.await;
                        (connection, received)
                    });
                }
                Some(joined) = sessions.join_next() => {
                    let (connection, received) = match joined {
                        Ok(joined) => joined,
                        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                        Err(_) => continue,
                    };
                    let (peer, id) = (connection.peer, connection.quic.stable_id());
                    if latest.get(&peer).is_some_and(|own| own.connection.quic.stable_id() == id) {
                        latest.remove(&peer);
                    }
                    match received {
                        Ok(received) => {
                            let is_last = !self.options.keep && !received.dry_run;
                            let failed = received.failed;
                            if is_last && failed == 0 {
                                lock(&self.door.book).close(peer);
                            }
                            tell(Event::Complete(received));
                            if is_last && end.is_none() {
                                end = Some(if failed == 0 { Ok(()) } else { Err(Error::Incomplete(failed)) });
                            }
                        }
                        Err(error) => tell(Event::Broken(peer, error)),
                    }
                }
                () = raised(stop) => break Err(Error::Interrupted),
            }
        };
        for own in latest.values() {
            own.connection.quic.close(VarInt::from_u32(0), b"the receiver was stopped");
        }
        // Their work ends by itself; only a disk may take longer.
        let _ = timeout(ENDING, async { while sessions.join_next().await.is_some() {} }).await;
        self.endpoint.close("the receiver has ended").await;
        result
    }
}

/// The latest connection of a sender.
struct Latest {
    connection: Connection,
    /// Ends with its session.
    ended: oneshot::Receiver<()>,
}

/// Waits for the end of an earlier session of a sender, and then receives from it. An error is told
/// to the sender.
async fn attend(
    connection: &Connection,
    earlier: Option<oneshot::Receiver<()>>,
    admitted: Admitted,
    folder: Arc<Folder>,
    claimant: Claimant,
    patience: Duration,
) -> Result<Received> {
    if let Some(earlier) = earlier {
        // It ends with an error, as nothing is ever sent.
        let _ = earlier.await;
    }
    let received = session(connection, admitted, folder, claimant, patience).await;
    explain(connection, received.as_ref().err());
    received
}

/// Closes a connection with an error, once.
fn explain(connection: &Connection, error: Option<&Error>) {
    match error {
        // The sender would take the path for one of its own.
        Some(error @ Error::File { .. }) => {
            connection.refuse(&Error::Refused(format!("at the receiver: {error}")));
        }
        Some(error) => connection.refuse(error),
        None => {}
    }
}

/// Not temporary: two processes would take the place of each other for ever.
const REPLACED: &str = "another `windward send` with the same key took its place";

/// A refusal that passes.
fn busy(why: &str) -> Error {
    Error::Busy(why.to_owned())
}

/// Admission of senders.
#[derive(Debug)]
struct Door {
    book: Mutex<Book>,
    list: PeerList,
    /// The folder in the list.
    scope: String,
    /// True to admit listed senders without a ticket.
    opens_to_known: bool,
}

/// An admitted sender: its connection, its control stream and its wishes.
#[derive(Debug)]
struct Admitted {
    control: (quinn::SendStream, RecvStream),
    dry_run: bool,
    checksum: bool,
    /// Where it was admitted.
    door: Arc<Door>,
}

impl Door {
    /// Reads the first message of a peer, and admits it or not.
    async fn admit(self: &Arc<Self>, connection: &Connection) -> Result<Admitted> {
        let hello = async {
            let (send, mut receive) = connection.quic.accept_bi().await?;
            let message = wire::read::<ToReceiver>(&mut receive).await?;
            Ok::<_, Error>((message, send, receive))
        };
        let hello = timeout(PATIENCE, hello).await;
        let (message, mut send, receive) = hello.map_err(|_| busy("the sender says nothing"))??;
        let Some(ToReceiver::Hello { token, dry_run, checksum }) = message else {
            return Err(Error::Peer("the sender does not begin with a greeting".to_owned()));
        };
        let peer = connection.peer;
        let is_listed = self.list.admits(Role::Sender, peer, &self.scope)?;
        if !(self.opens_to_known && token.is_none() && is_listed) {
            let mut book = lock(&self.book);
            // The line comes after the first use, so that a line that is gone was revoked.
            let is_first = book.record.sender.is_none();
            book.admit(token, peer, clock::time_of_day().as_secs())?;
            if is_first {
                self.list.admit(Peer::admitted(Role::Sender, peer, &self.scope))?;
            } else if !is_listed {
                return Err(Error::Refused(REVOKED.to_owned()));
            }
        }
        let welcome = timeout(PATIENCE, wire::write(&mut send, &ToSender::Welcome)).await;
        welcome.map_err(|_| busy("the sender hears nothing"))??;
        Ok(Admitted { control: (send, receive), dry_run, checksum, door: Arc::clone(self) })
    }

    /// Ends with an error as soon as the list does not have a sender any more.
    async fn await_revocation(&self, peer: Fingerprint) -> Error {
        let mut seen = None;
        loop {
            let stamp = self.list.stamp();
            if stamp != seen || stamp.is_none() {
                seen = stamp;
                // A file that cannot be read revokes nobody.
                if let Ok(false) = self.list.admits(Role::Sender, peer, &self.scope) {
                    return Error::Refused(REVOKED.to_owned());
                }
            }
            sleep(peers::LOOK).await;
        }
    }
}

const REVOKED: &str = "the receiver has revoked this key: ask for a new ticket";

/// Waits until a flag is raised.
pub(crate) async fn raised(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        sleep(Duration::from_millis(50)).await;
    }
}

/// The addresses of a ticket: those of the user, then those of the machine, loopback last.
fn addresses(first: &[SocketAddr], own: SocketAddr) -> Vec<SocketAddr> {
    let with_port = |mut address: SocketAddr| {
        if address.port() == 0 {
            address.set_port(own.port());
        }
        address
    };
    let mut found: Vec<SocketAddr> = first.iter().copied().map(with_port).collect();
    if own.ip().is_unspecified() {
        let mut interfaces: Vec<_> = if_addrs::get_if_addrs().unwrap_or_default();
        interfaces.retain(|interface| !interface.is_link_local());
        interfaces.sort_by_key(|interface| (interface.is_loopback(), interface.ip().is_ipv6()));
        let ips = interfaces
            .iter()
            .map(if_addrs::Interface::ip)
            .filter(|ip| own.is_ipv6() || ip.is_ipv4());
        found.extend(ips.map(|ip| SocketAddr::new(ip, own.port())));
    } else {
        found.push(own);
    }
    let mut seen = std::collections::HashSet::new();
    found.retain(|address| seen.insert(*address));
    found.truncate(MAX_ADDRESSES);
    found
}

/// One connection of an admitted sender.
async fn session(
    connection: &Connection,
    admitted: Admitted,
    folder: Arc<Folder>,
    claimant: Claimant,
    patience: Duration,
) -> Result<Received> {
    let Admitted { control: (mut send, mut receive), dry_run, checksum, door } = admitted;
    let (ready, complete) = std::sync::mpsc::sync_channel(READY);
    let intake = Arc::new(Intake::new(Arc::clone(&folder), claimant, dry_run, checksum, ready));
    let (answers, mut queue) = mpsc::channel::<ToSender>(64);

    // Files get their names on a thread of their own, which ends with the last `Intake`.
    let committer = {
        // The thread must not keep the sender side of its own queue.
        let (intake, answers, folder) =
            (Arc::downgrade(&intake), answers.clone(), Arc::clone(&folder));
        std::thread::Builder::new()
            .name("commit".to_owned())
            .spawn(move || {
                commit::run(&folder, &complete, |batch| {
                    let Some(intake) = intake.upgrade() else { return };
                    intake.committed(&batch);
                    let failed = batch
                        .failed
                        .into_iter()
                        .map(|(id, reason)| ToSender::Failed { id, reason });
                    let told = [ToSender::Stored(batch.stored), ToSender::Same(batch.same)];
                    let told = told.into_iter().filter(|message| match message {
                        ToSender::Stored(ids) | ToSender::Same(ids) => !ids.is_empty(),
                        _ => true,
                    });
                    drop(intake);
                    for message in told.chain(failed) {
                        if answers.blocking_send(message).is_err() {
                            // The session is over.
                            break;
                        }
                    }
                });
            })
            .map_err(|error| Error::Socket { what: "cannot start a thread".to_owned(), error })?
    };

    let mut tasks: JoinSet<Result<()>> = JoinSet::new();
    tasks.spawn(await_silence(Arc::clone(&intake), patience));
    let peer = connection.peer;
    tasks.spawn(async move { Err(door.await_revocation(peer).await) });
    {
        let (quic, intake, answers) =
            (connection.quic.clone(), Arc::clone(&intake), answers.clone());
        tasks.spawn(async move {
            let writers = Arc::new(Semaphore::new(WRITERS));
            let mut streams: JoinSet<Result<()>> = JoinSet::new();
            loop {
                tokio::select! {
                    stream = quic.accept_uni() => {
                        let writers = Arc::clone(&writers);
                        streams.spawn(inlet(stream?, Arc::clone(&intake), answers.clone(), writers));
                    }
                    Some(ended) = streams.join_next() => ended.unwrap_or_else(|error| {
                        if error.is_panic() { std::panic::resume_unwind(error.into_panic()) } else { Ok(()) }
                    })?,
                }
            }
        });
    }
    let (ended, mut at_end) = mpsc::channel::<()>(1);
    {
        let (intake, answers) = (Arc::clone(&intake), answers.clone());
        tasks.spawn(async move {
            hear(&mut receive, &intake, &answers).await?;
            let _ = ended.send(()).await;
            if receive.read_to_end(0).await.is_ok() {
                let _ = ended.send(()).await;
            }
            std::future::pending().await
        });
    }
    drop(answers);

    let talk = async {
        loop {
            tokio::select! {
                Some(message) = queue.recv() => wire::write(&mut send, &message).await?,
                Some(()) = at_end.recv() => break,
            }
        }
        let own = Arc::clone(&intake);
        let sync = blocking(move || own.sync());
        tokio::pin!(sync);
        // The disk takes its time, which is not the sender's.
        loop {
            match timeout(TICK, &mut sync).await {
                Ok(synced) => break synced?,
                Err(_) => intake.step(),
            }
        }
        // Answers to the last offers come before the end.
        while let Ok(message) = queue.try_recv() {
            wire::write(&mut send, &message).await?;
        }
        wire::write(&mut send, &ToSender::Complete).await
    };
    // Also while the sender reads no answers.
    let broken = async {
        loop {
            match tasks.join_next().await {
                Some(Ok(Err(error))) => break error,
                Some(Err(error)) if error.is_panic() => {
                    std::panic::resume_unwind(error.into_panic())
                }
                Some(_) => {}
                None => std::future::pending().await,
            }
        }
    };
    let mut result = tokio::select! {
        result = talk => result,
        error = broken => Err(error),
    };
    if result.is_ok() {
        let _ = send.finish();
        // The sender ends its stream, or closes, when it knows. Without that it comes back and asks
        // again.
        let known = async {
            tokio::select! {
                Some(()) = at_end.recv() => true,
                reason = connection.quic.closed() => {
                    matches!(reason, quinn::ConnectionError::ApplicationClosed(_))
                }
            }
        };
        if !timeout(FAREWELL, known).await.unwrap_or(false) {
            result = Err(Error::Unreachable("the sender did not confirm the end".to_owned()));
        }
    }
    let counts = &intake.counts;
    let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let received = Received {
        sender: connection.peer.to_string(),
        stored: load(&counts.stored),
        same: load(&counts.same),
        failed: load(&counts.failed),
        bytes: load(&counts.bytes),
        dry_run,
    };
    // Before its streams end, and the disk takes its time.
    explain(connection, result.as_ref().err());
    intake.end();
    tasks.shutdown().await;
    drop(queue);
    drop(intake);
    // Nothing writes into the folder after the session.
    blocking(move || {
        let _ = committer.join();
        Ok(())
    })
    .await?;
    result.map(|()| received)
}

/// Ends with an error when a sender has made no progress for so long.
async fn await_silence(intake: Arc<Intake>, patience: Duration) -> Result<()> {
    let (mut steps, mut since) = (intake.steps(), clock::now());
    loop {
        sleep(TICK).await;
        if intake.steps() != steps {
            (steps, since) = (intake.steps(), clock::now());
        }
        if clock::now().duration_since(since) >= patience {
            return Err(Error::Busy(format!(
                "the sender made no progress for {} s",
                patience.as_secs()
            )));
        }
    }
}

/// Runs work that blocks, and passes its panics on.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(Error::Interrupted),
    }
}

async fn tell(answers: &mpsc::Sender<ToSender>, message: ToSender) -> Result<()> {
    answers.send(message).await.map_err(|_| Error::Interrupted)
}

/// Follows the messages of the sender until the last.
async fn hear(
    receive: &mut RecvStream,
    intake: &Arc<Intake>,
    answers: &mpsc::Sender<ToSender>,
) -> Result<()> {
    let mut compares: JoinSet<()> = JoinSet::new();
    let hashers = Arc::new(Semaphore::new(2));
    loop {
        let Some(message) = wire::read::<ToReceiver>(receive).await? else {
            return Err(Error::Peer("the sender ended the transfer early".to_owned()));
        };
        while compares.try_join_next().is_some() {}
        intake.hear(if let ToReceiver::Folders(entries) = &message { entries.len() } else { 0 })?;
        let own = Arc::clone(intake);
        match message {
            ToReceiver::Hello { .. } => {
                return Err(Error::Peer("the sender greets twice".to_owned()));
            }
            ToReceiver::Offer(entries) => {
                let outcome = blocking(move || own.offer(entries)).await?;
                for (id, reason) in outcome.failed {
                    tell(answers, ToSender::Failed { id, reason }).await?;
                }
                for ids in outcome.want.chunks(REPORTED) {
                    tell(answers, ToSender::Want(ids.to_vec())).await?;
                }
                for ids in outcome.same.chunks(REPORTED) {
                    tell(answers, ToSender::Same(ids.to_vec())).await?;
                }
                for ids in outcome.stored.chunks(REPORTED) {
                    tell(answers, ToSender::Stored(ids.to_vec())).await?;
                }
                for id in outcome.compare {
                    compares.spawn(compare(
                        id,
                        Arc::clone(intake),
                        answers.clone(),
                        Arc::clone(&hashers),
                    ));
                }
            }
            ToReceiver::Finish { id, hash, sent } => {
                if let Err((id, reason)) = blocking(move || own.finish(id, hash, sent)).await? {
                    tell(answers, ToSender::Failed { id, reason }).await?;
                }
            }
            ToReceiver::Withdraw { id } => drop(intake.forget(id)),
            ToReceiver::Comparing => {}
            ToReceiver::Folders(entries) => {
                for (id, reason) in blocking(move || Ok(own.dress(entries))).await? {
                    tell(answers, ToSender::Failed { id, reason }).await?;
                }
            }
            ToReceiver::End if intake.open() == 0 => return Ok(()),
            ToReceiver::End => {
                return Err(Error::Peer(
                    "the sender ends before its offers have an outcome".to_owned(),
                ));
            }
        }
    }
}

/// Tells the sender the hashes of the file from which one begins.
async fn compare(
    id: u64,
    intake: Arc<Intake>,
    answers: mpsc::Sender<ToSender>,
    places: Arc<Semaphore>,
) {
    let Ok(place) = places.acquire().await else { return };
    let sink = answers.clone();
    let done = spawn_blocking(move || {
        intake.compare(id, |hashes| sink.blocking_send(ToSender::Compare { id, hashes }).is_ok())
    });
    if let Ok(Err((id, reason))) = done.await {
        let _ = answers.send(ToSender::Failed { id, reason }).await;
    }
    drop(place);
}

/// Bytes of a data stream that wait for the rest of their frame.
#[derive(Debug)]
struct Gathered {
    bytes: Vec<u8>,
    filled: usize,
}

/// Takes the frames of one data stream.
async fn inlet(
    mut stream: RecvStream,
    intake: Arc<Intake>,
    answers: mpsc::Sender<ToSender>,
    writers: Arc<Semaphore>,
) -> Result<()> {
    let mut inlet = Inlet::default();
    let mut gathered = Gathered { bytes: vec![0; GATHER], filled: 0 };
    loop {
        let is_end = gather(&mut stream, &mut gathered).await?;
        intake.step();
        if !is_end && Frame::is_partial(&gathered.bytes[..gathered.filled])? {
            continue;
        }
        // The semaphore is never closed.
        let Ok(place) = writers.acquire().await else { return Err(Error::Interrupted) };
        let own = Arc::clone(&intake);
        let failed;
        (inlet, gathered, failed) = blocking(move || {
            let (used, failed) = inlet.feed(&own, &gathered.bytes[..gathered.filled])?;
            gathered.bytes.copy_within(used..gathered.filled, 0);
            gathered.filled -= used;
            Ok((inlet, gathered, failed))
        })
        .await?;
        drop(place);
        for (id, reason) in failed {
            tell(&answers, ToSender::Failed { id, reason }).await?;
        }
        if is_end {
            return match gathered.filled {
                0 => Ok(()),
                _ => Err(Error::Peer("the sender ended a stream in a frame".to_owned())),
            };
        }
    }
}

/// Reads what is there, at least one byte; true at the end of the stream.
async fn gather(stream: &mut RecvStream, gathered: &mut Gathered) -> Result<bool> {
    let Gathered { bytes, filled } = gathered;
    let before = *filled;
    let is_end = std::future::poll_fn(|cx| {
        while *filled < bytes.len() {
            let mut part = ReadBuf::new(&mut bytes[*filled..]);
            match std::pin::Pin::new(&mut *stream).poll_read(cx, &mut part) {
                Poll::Ready(Ok(())) if part.filled().is_empty() => return Poll::Ready(Ok(true)),
                Poll::Ready(Ok(())) => *filled += part.filled().len(),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending if *filled > before => break,
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(false))
    });
    is_end.await.map_err(|error| Error::Unreachable(error.to_string()))
}
