//! `windward send`: offers entries, and sends what the receiver lacks.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quinn::{RecvStream, SendStream, VarInt};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;

use crate::address;
use crate::clock;
use crate::descent::Descent;
use crate::endpoint::{Connection, Endpoint, Options, Service};
use crate::error::{Error, Result, one_line, shown};
use crate::identity::{Fingerprint, Identity};
use crate::peers::{self, PeerList, Role};
use crate::run::{self, blocking, joined, raised};
use crate::sync::lock;
use crate::ticket::{Ticket, Token};
use crate::tls::Trust;
use crate::transfer::blocks::{ABSENT, Blocks, Hash, LEAST_BLOCK};
use crate::transfer::figures::{Figures, PathFigures};
use crate::transfer::outlet::{self, Unsent};
use crate::transfer::reception::FAREWELL;
use crate::transfer::walk::{Found, Source, Walk};
use crate::transfer::wire::{
    self, Entry, Frame, Kind, MAX_FRAME, Part, STREAMS, ToReceiver, ToSender,
};

/// Offers without an outcome: enough for 80 MB/s of files of 1 KB at 100 ms.
const OPEN: usize = 8192;
/// Limit of the sum of their paths, bytes.
const OPEN_PATHS: usize = 2 << 20;
/// Entries in one message.
const OFFERED: usize = 512;
/// Bytes of paths in one message.
const OFFERED_BYTES: usize = 24 << 10;
/// Files of several blocks at once.
const LARGE: usize = 32;
/// Small files that are read together.
const TOGETHER: usize = 128;
/// Attempts for a file that changes while it is sent.
const ATTEMPTS: u8 = 3;
/// Time in which the peer says why it ended the connection.
const REASON: Duration = Duration::from_millis(500);
/// Time without an answer after which the user is told.
const SILENCE: Duration = Duration::from_secs(2);
/// Interval at which a sender that only compares says so.
const COMPARING: Duration = Duration::from_secs(5);
/// Bytes that are written to a stream at once, each a sign of progress.
const WRITTEN: usize = 64 << 10;
/// First pause between attempts to connect; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Longest pause between attempts to connect.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Receiver of a transfer.
#[derive(Debug, Clone)]
pub struct Target {
    /// Its addresses, tried in turn.
    pub addresses: Vec<SocketAddr>,
    /// Its fingerprint.
    pub fingerprint: Fingerprint,
    /// Token of a ticket; `None` for a receiver that admits known peers.
    pub token: Option<Token>,
    /// HOST:PORT as the user wrote it, without a ticket.
    pub name: Option<String>,
}

impl Target {
    /// The receiver that a word names: a ticket, or `HOST:PORT` of a known peer.
    ///
    /// # Errors
    ///
    /// If the word is neither.
    pub fn parse(word: &str, home: &Path) -> Result<Self> {
        if !word.contains(':') {
            let Ticket { addresses, fingerprint, token, .. } =
                Ticket::read(word, "windward receive")?;
            return Ok(Target { addresses, fingerprint, token: Some(token), name: None });
        }
        let list = PeerList::open(home);
        let resolved = address::resolve(word);
        let addresses = resolved.as_deref().unwrap_or_default();
        let Some(fingerprint) = list.find(Role::Receiver, word, addresses)? else {
            return Err(Error::Input(format!(
                "{}: no receiver of this name is known; give its ticket the first time{}",
                one_line(word),
                list.advice().map_or_else(String::new, |advice| format!(". {advice}"))
            )));
        };
        let addresses = resolved.map_err(|error| Error::Unreachable(format!("{word}: {error}")))?;
        Ok(Target { addresses, fingerprint, token: None, name: Some(word.to_owned()) })
    }
}

/// A sender's choices.
#[derive(Debug, Clone)]
pub struct SendOptions {
    /// True to find out only what would be sent.
    pub dry_run: bool,
    /// True to compare contents also where size and time agree.
    pub checksum: bool,
    /// Limit of the rate, bytes per second.
    pub limit: Option<f64>,
    /// Time without progress after which the sender gives up.
    pub patience: Duration,
    /// The same before the first answer of the receiver.
    pub first_patience: Duration,
    /// Directory of the configuration, which remembers the receiver.
    pub home: PathBuf,
    /// Properties of connections.
    pub endpoint: Options,
}

/// Runs [`send`] on the calling thread until its end.
///
/// # Errors
///
/// As for [`send`], and if the system gives no threads.
pub fn run(
    identity: Identity,
    target: &Target,
    walk: &Walk,
    options: &SendOptions,
    figures: &Arc<Figures>,
    stop: &AtomicBool,
) -> Result<()> {
    run::to_end(send(Arc::new(identity), target, walk, options, figures, stop))
}

/// Sends everything, over as many connections as it takes, until the receiver has it on its disk.
///
/// # Errors
///
/// If the receiver refuses, cannot be reached for longer than the patience, or `stop` is raised.
/// Entries that alone cannot be sent are remarks in `figures`.
pub async fn send(
    identity: Arc<Identity>,
    target: &Target,
    walk: &Walk,
    options: &SendOptions,
    figures: &Arc<Figures>,
    stop: &AtomicBool,
) -> Result<()> {
    let endpoint = Endpoint::anywhere(&identity, &options.endpoint)?;
    let trust = Trust::Pinned(target.fingerprint);
    count(walk.clone(), Arc::clone(figures));
    let mut pause = FIRST_PAUSE;
    let mut progress = Progress::new(options);
    let result = loop {
        let attempt = async {
            let connection = tokio::select! {
                connected =
                    endpoint.connect_first(&target.addresses, Service::Transfer, trust) => connected?,
                never = silence(target, figures) => match never {},
            };
            figures.steps.add(1);
            remember(&options.home, target, &connection);
            figures.begin();
            let result = session(&connection, target, walk, options, figures).await;
            figures.set_path(path_of(&connection.quic));
            if result.is_ok() {
                connection.quic.close(VarInt::from_u32(0), b"complete");
                return Ok(());
            }
            // A peer that refuses ends its streams first, and says why a moment later.
            let reason = tokio::time::timeout(REASON, connection.quic.closed()).await;
            connection.quic.close(VarInt::from_u32(0), b"the sender ended the transfer");
            result.map_err(|error| reason.map_or(error, Error::from))
        };
        let before = progress.extent;
        let error = tokio::select! {
            result = attempt => match result {
                Ok(()) => break Ok(()),
                Err(error) => error,
            },
            error = progress.wait(figures) => break Err(error),
            () = raised(stop) => break Err(Error::Interrupted),
        };
        progress.look(figures);
        if !error.is_temporary() {
            break Err(error);
        }
        progress.is_answered |= matches!(error, Error::Busy(_));
        if let Some(last) = progress.end(progress.advanced, &error) {
            break Err(last);
        }
        figures.reconnects.add(1);
        figures.say(format!("{error}; trying again"));
        if progress.extent != before {
            pause = FIRST_PAUSE;
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            error = progress.wait(figures) => break Err(error),
            () = raised(stop) => break Err(Error::Interrupted),
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    };
    endpoint.close("the sender has ended").await;
    result
}

/// Tells the user after a while who does not answer, and what to look at.
async fn silence(target: &Target, figures: &Figures) -> std::convert::Infallible {
    tokio::time::sleep(SILENCE).await;
    let addresses: Vec<_> = target.addresses.iter().map(ToString::to_string).collect();
    figures.say(format!(
        "no answer from {}: does `windward receive` run there, does an address lead there, and do \
         firewalls let UDP pass in both directions, in packets of 1228 bytes?",
        addresses.join(", ")
    ));
    std::future::pending().await
}

/// The progress of a transfer.
#[derive(Debug)]
struct Progress {
    patience: Duration,
    first_patience: Duration,
    /// True after the receiver has answered.
    is_answered: bool,
    /// Steps, and when the last one was.
    steps: u64,
    stepped: Instant,
    /// How far a connection was at most, and since when. A receiver that asks for the same again
    /// and again makes steps, and no progress.
    extent: u64,
    advanced: Instant,
}

impl Progress {
    fn new(options: &SendOptions) -> Self {
        let now = clock::now();
        Progress {
            patience: options.patience,
            first_patience: options.first_patience.min(options.patience),
            is_answered: false,
            steps: 0,
            stepped: now,
            extent: 0,
            advanced: now,
        }
    }

    fn look(&mut self, figures: &Figures) {
        let (now, steps, extent) = (clock::now(), figures.steps.get(), figures.extent());
        if steps != self.steps {
            self.is_answered = true;
            (self.steps, self.stepped) = (steps, now);
        }
        if extent > self.extent {
            (self.extent, self.advanced) = (extent, now);
        }
    }

    /// The last error, if there was no progress since then for too long.
    fn end(&self, since: Instant, error: &Error) -> Option<Error> {
        let patience = if self.is_answered { self.patience } else { self.first_patience };
        (clock::now().duration_since(since) >= patience).then(|| {
            Error::Unreachable(format!(
                "{error}; gave up after {} s without progress{}",
                patience.as_secs(),
                if self.extent == 0 { "" } else { ": run the same command again to resume" }
            ))
        })
    }

    /// Waits until there was no step for too long, whatever packets come.
    async fn wait(&mut self, figures: &Figures) -> Error {
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            self.look(figures);
            let silent = Error::Unreachable("the receiver does not answer".to_owned());
            if let Some(error) = self.end(self.stepped, &silent) {
                return error;
            }
        }
    }
}

/// Remembers a receiver by its names. A ticket has proved its fingerprint.
fn remember(home: &Path, target: &Target, connection: &Connection) {
    let ticket = if target.token.is_some() { &*target.addresses } else { &[] };
    let names = peers::names(target.name.as_deref(), ticket, connection.quic.remote_address());
    // A transfer does not depend on this note.
    let _ = PeerList::open(home).remember(Role::Receiver, &names, connection.peer);
}

/// Counts files and bytes on a thread, for the time that is left.
fn count(walk: Walk, figures: Arc<Figures>) {
    let counting = move || {
        walk.run(&mut |found| {
            if let Found::Entry(Source { kind: Kind::File { size, .. }, .. }) = found {
                figures.files.add(1);
                figures.size.add(size);
            }
            true
        });
        figures.is_counted.store(true, Ordering::Relaxed);
    };
    // Without the thread there is no such time.
    let _ = std::thread::Builder::new().name("count".to_owned()).spawn(counting);
}

/// An offer without an outcome.
#[derive(Debug)]
struct Pending {
    source: Arc<Source>,
    size: u64,
    hashes: Vec<Hash>,
    /// True after the receiver has asked for it, or has sent all hashes of its blocks.
    is_asked: bool,
    large: Option<Arc<Large>>,
    _places: (OwnedSemaphorePermit, OwnedSemaphorePermit),
}

impl Pending {
    /// The file to send, once: the receiver cannot fill the queue with it.
    fn job(&mut self, id: u64) -> Result<Job> {
        if !matches!(self.source.kind, Kind::File { .. }) {
            return Err(Error::Peer(
                "the receiver asks for contents of a folder or link".to_owned(),
            ));
        }
        if std::mem::replace(&mut self.is_asked, true) {
            return Err(Error::Peer("the receiver asks for a file twice".to_owned()));
        }
        Ok(Job {
            id,
            source: Arc::clone(&self.source),
            size: self.size,
            base: std::mem::take(&mut self.hashes),
        })
    }
}

/// A file to send.
#[derive(Debug)]
struct Job {
    id: u64,
    source: Arc<Source>,
    size: u64,
    /// Hashes of the blocks that the receiver has.
    base: Vec<Hash>,
}

/// A file of several blocks whose blocks are sent.
#[derive(Debug)]
struct Large {
    job: Job,
    file: File,
    blocks: Blocks,
    next: AtomicU32,
    is_given_up: AtomicBool,
    progress: Mutex<LargeProgress>,
}

#[derive(Debug)]
struct LargeProgress {
    hashes: Vec<Hash>,
    left: u32,
    sent: u32,
}

/// Files to send.
#[derive(Debug, Default)]
struct Queue {
    small: VecDeque<Job>,
    waiting: VecDeque<Job>,
    large: VecDeque<Arc<Large>>,
    /// Number of large files whose sending has begun and that have no outcome.
    begun: usize,
}

/// Work for a stream.
#[derive(Debug)]
enum Work {
    Small(Vec<Job>),
    Begin(Job),
    Block(Arc<Large>, u32),
}

/// Offers to the receiver, and the answers that it may still give.
#[derive(Debug)]
struct Offers {
    /// Offers without an outcome.
    table: Mutex<HashMap<u64, Pending>>,
    /// Number of entries that were offered, which have the numbers below it.
    count: AtomicU64,
    /// Answers that the receiver may still give beyond those that ask for contents.
    answers: AtomicU64,
    /// Wakes the task that offers.
    settled: Notify,
    /// True while entries are found that may be offered.
    is_walking: AtomicBool,
    /// True from just before the last message on, whose answer may be fast.
    is_ended: AtomicBool,
}

/// Streams, and the files that they send.
#[derive(Debug)]
struct Lanes {
    queue: Mutex<Queue>,
    /// Wakes streams that wait for work.
    work: Notify,
    /// Number of streams in use: few on a slow path, so that an interruption loses little.
    count: AtomicU32,
}

/// One connection of a transfer.
#[derive(Debug)]
struct Session {
    quic: quinn::Connection,
    figures: Arc<Figures>,
    system: Arc<Descent>,
    dry_run: bool,
    limiter: Option<Limiter>,
    offers: Offers,
    lanes: Lanes,
    messages: mpsc::Sender<ToReceiver>,
    again: mpsc::UnboundedSender<Source>,
    /// When this side last said that it compares.
    compared: Mutex<Instant>,
}

/// The path of a connection now.
fn path_of(quic: &quinn::Connection) -> PathFigures {
    let path = quic.stats().path;
    PathFigures {
        rtt: path.rtt.as_secs_f64(),
        min_rtt: quic.min_rtt().as_secs_f64(),
        window: path.cwnd,
        mtu: path.current_mtu,
        packets: path.sent_packets,
        lost: path.lost_packets,
    }
}

/// Sends over one connection.
async fn session(
    connection: &Connection,
    target: &Target,
    walk: &Walk,
    options: &SendOptions,
    figures: &Arc<Figures>,
) -> Result<()> {
    let quic = &connection.quic;
    let (mut control, mut answers) = quic.open_bi().await?;
    let hello = ToReceiver::Hello {
        token: target.token,
        dry_run: options.dry_run,
        checksum: options.checksum,
    };
    wire::write(&mut control, &hello).await?;
    match wire::read::<ToSender>(&mut answers).await? {
        Some(ToSender::Welcome) => {}
        _ => return Err(Error::Peer("the receiver does not begin with a greeting".to_owned())),
    }

    let (messages, queue) = mpsc::channel(64);
    let (again, repeated) = mpsc::unbounded_channel();
    let session = Arc::new(Session {
        quic: quic.clone(),
        figures: Arc::clone(figures),
        system: Arc::clone(walk.system()),
        dry_run: options.dry_run,
        limiter: options.limit.map(Limiter::new),
        offers: Offers {
            table: Mutex::default(),
            count: AtomicU64::new(0),
            answers: AtomicU64::new(0),
            settled: Notify::new(),
            is_walking: AtomicBool::new(true),
            is_ended: AtomicBool::new(false),
        },
        lanes: Lanes { queue: Mutex::default(), work: Notify::new(), count: AtomicU32::new(2) },
        messages,
        again,
        compared: Mutex::new(clock::now()),
    });
    let mut tasks: JoinSet<Result<()>> = JoinSet::new();
    tasks.spawn(Arc::clone(&session).watch());
    for index in 0..STREAMS {
        tasks.spawn(Arc::clone(&session).stream(index));
    }
    let (complete, mut at_complete) = mpsc::channel(1);
    tasks.spawn(Arc::clone(&session).listen(answers, complete));
    {
        let (session, walk) = (Arc::clone(&session), walk.clone());
        tasks.spawn(async move { session.offer(&walk, repeated).await });
    }
    let (finish, finished) = oneshot::channel();
    let speaking = speak(control, queue, finished);
    tokio::pin!(speaking);
    loop {
        tokio::select! {
            Err(error) = &mut speaking => return Err(error),
            Some(()) = at_complete.recv() => {
                if !session.offers.is_ended.load(Ordering::Acquire) {
                    return Err(Error::Peer("the receiver ends the transfer early".to_owned()));
                }
                // A lost close would leave the receiver waiting; the end of a stream is repeated.
                let _ = finish.send(());
                // All is there, whatever follows: no patience ends before this.
                figures.steps.add(1);
                let most = FAREWELL.min(options.patience / 2);
                let _ = tokio::time::timeout(most, speaking).await;
                return Ok(());
            }
            Some(task) = tasks.join_next() => joined(task)??,
            reason = quic.closed() => return Err(reason.into()),
        }
    }
}

/// Writes the messages of a session until it is `finished`, and waits until the receiver has the
/// end.
async fn speak(
    mut control: SendStream,
    mut queue: mpsc::Receiver<ToReceiver>,
    mut finished: oneshot::Receiver<()>,
) -> Result<()> {
    loop {
        let message = tokio::select! {
            Some(message) = queue.recv() => message,
            _ = &mut finished => break,
        };
        wire::write(&mut control, &message).await?;
    }
    let _ = control.finish();
    let _ = control.stopped().await;
    Ok(())
}

/// An entry of a walk, or the end of it.
fn walk_into(walk: Walk) -> mpsc::Receiver<Found> {
    let (sink, items) = mpsc::channel(256);
    let walking = move || walk.run(&mut |found| sink.blocking_send(found).is_ok());
    // Without the thread, the walk is empty, and the transfer of nothing is complete: so panic.
    std::thread::Builder::new().name("walk".to_owned()).spawn(walking).expect("a thread");
    items
}

impl Session {
    async fn tell(&self, message: ToReceiver) -> Result<()> {
        let closed = || match self.quic.close_reason() {
            Some(reason) => reason.into(),
            None => Error::Unreachable("the connection is lost".to_owned()),
        };
        self.messages.send(message).await.map_err(|_| closed())
    }

    /// Keeps the figures of the path and the number of streams up to date.
    async fn watch(self: Arc<Self>) -> Result<()> {
        loop {
            let path = path_of(&self.quic);
            self.figures.set_path(path);
            let lanes = (2 * path.window / LEAST_BLOCK).clamp(2, u64::from(STREAMS));
            if self.lanes.count.swap(lanes as u32, Ordering::Relaxed) < lanes as u32 {
                self.lanes.work.notify_waiters();
            }
            if self.offers.is_walking.load(Ordering::Relaxed) && lock(&self.offers.table).is_empty()
            {
                // Nothing waits for the receiver.
                self.figures.steps.add(1);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Offers all entries, then permissions and times of the folders, and ends.
    async fn offer(
        &self,
        walk: &Walk,
        mut repeated: mpsc::UnboundedReceiver<Source>,
    ) -> Result<()> {
        let places = Arc::new(Semaphore::new(OPEN));
        let bytes = Arc::new(Semaphore::new(OPEN_PATHS));
        let mut found = walk_into(walk.clone());
        let mut is_walked = false;
        let mut batch = Vec::new();
        let mut batched = 0;
        loop {
            let item = match (found.try_recv(), repeated.try_recv()) {
                (Ok(item), repeated) => {
                    if let Ok(source) = repeated {
                        // Its turn comes.
                        let _ = self.again.send(source);
                    }
                    Some(item)
                }
                (Err(_), Ok(source)) => Some(Found::Entry(source)),
                (Err(mpsc::error::TryRecvError::Disconnected), Err(_)) => {
                    is_walked = true;
                    None
                }
                (Err(mpsc::error::TryRecvError::Empty), Err(_)) => None,
            };
            let Some(item) = item else {
                self.flush(&mut batch, &mut batched).await?;
                let settled = self.offers.settled.notified();
                if is_walked && lock(&self.offers.table).is_empty() {
                    // A file is sent again before its first offer is forgotten.
                    match repeated.try_recv() {
                        Ok(source) => {
                            let _ = self.again.send(source);
                            continue;
                        }
                        Err(_) => break,
                    }
                }
                tokio::select! {
                    item = found.recv(), if !is_walked => match item {
                        Some(item) => self.take(item, &mut batch, &mut batched, &places, &bytes).await?,
                        None => is_walked = true,
                    },
                    Some(source) = repeated.recv() => {
                        self.take(Found::Entry(source), &mut batch, &mut batched, &places, &bytes).await?;
                    }
                    () = settled => {}
                }
                continue;
            };
            self.take(item, &mut batch, &mut batched, &places, &bytes).await?;
        }

        self.offers.is_walking.store(false, Ordering::Relaxed);
        let mut id = self.offers.count.load(Ordering::Relaxed);
        let mut found = walk_into(walk.clone());
        while let Some(item) = found.recv().await {
            if let Found::Entry(source) = item
                && source.kind == Kind::Folder
            {
                batched += source.name.bytes().len();
                batch.push(entry(id, &source));
                id += 1;
                self.offers.answers.fetch_add(1, Ordering::Relaxed);
                if batch.len() >= OFFERED || batched >= OFFERED_BYTES {
                    batched = 0;
                    self.tell(ToReceiver::Folders(std::mem::take(&mut batch))).await?;
                    self.figures.steps.add(1);
                }
            }
        }
        if !batch.is_empty() {
            self.tell(ToReceiver::Folders(batch)).await?;
        }
        self.offers.is_ended.store(true, Ordering::Release);
        self.tell(ToReceiver::End).await
    }

    /// Adds an entry to the offers.
    async fn take(
        &self,
        item: Found,
        batch: &mut Vec<Entry>,
        batched: &mut usize,
        places: &Arc<Semaphore>,
        bytes: &Arc<Semaphore>,
    ) -> Result<()> {
        let source = match item {
            Found::Entry(source) => source,
            Found::SkippedLink(path, why) => {
                self.figures.now.skipped_links.add(1);
                self.figures.remark(format!("{}: skipped: {why}", shown(&path)), false);
                return Ok(());
            }
            Found::Skipped(path, why) => {
                self.figures.remark(format!("{}: skipped: {why}", shown(&path)), false);
                return Ok(());
            }
            Found::Failed(path, why) => {
                self.figures.remark(format!("{}: {why}", shown(&path)), true);
                return Ok(());
            }
        };
        let length = source.name.bytes().len();
        let permits = (
            Arc::clone(places).try_acquire_owned(),
            Arc::clone(bytes).try_acquire_many_owned(length as u32),
        );
        let permits = match permits {
            (Ok(place), Ok(space)) => (place, space),
            (place, space) => {
                drop((place, space));
                // Offers in the batch occupy places until they are made.
                self.flush(batch, batched).await?;
                let closed = || Error::Unreachable("the connection is lost".to_owned());
                let place = Arc::clone(places).acquire_owned().await.map_err(|_| closed())?;
                let space = Arc::clone(bytes)
                    .acquire_many_owned(length as u32)
                    .await
                    .map_err(|_| closed())?;
                (place, space)
            }
        };
        let size = source.size();
        let id = self.offers.count.load(Ordering::Relaxed);
        let offer = entry(id, &source);
        let link = if let Kind::Link { target } = &source.kind { target.len() } else { 0 };
        let pending = Pending {
            source: Arc::new(source),
            size,
            hashes: Vec::new(),
            is_asked: false,
            large: None,
            _places: permits,
        };
        lock(&self.offers.table).insert(id, pending);
        self.offers.count.store(id + 1, Ordering::Relaxed);
        // Two streams may fail at the same file at once.
        self.offers.answers.fetch_add(2, Ordering::Relaxed);
        self.figures.steps.add(1);
        batch.push(offer);
        *batched += length + link;
        if batch.len() >= OFFERED || *batched >= OFFERED_BYTES {
            self.flush(batch, batched).await?;
        }
        Ok(())
    }

    async fn flush(&self, batch: &mut Vec<Entry>, batched: &mut usize) -> Result<()> {
        *batched = 0;
        if batch.is_empty() {
            return Ok(());
        }
        self.tell(ToReceiver::Offer(std::mem::take(batch))).await
    }

    /// Follows the answers of the receiver until the last.
    async fn listen(
        self: Arc<Self>,
        mut answers: RecvStream,
        complete: mpsc::Sender<()>,
    ) -> Result<()> {
        loop {
            let Some(message) = wire::read::<ToSender>(&mut answers).await? else {
                return Err(Error::Peer("the receiver ended the transfer early".to_owned()));
            };
            self.expect(&message)?;
            match message {
                ToSender::Welcome => {
                    return Err(Error::Peer("the receiver greets twice".to_owned()));
                }
                ToSender::Want(ids) => {
                    for id in ids {
                        self.enqueue(self.wanted(id)?);
                    }
                }
                ToSender::Compare { id, hashes } => {
                    if let Some(job) = self.compared(id, hashes)? {
                        self.enqueue(job);
                    }
                }
                ToSender::Same(ids) => {
                    for id in ids {
                        if let Some(pending) = self.settle(id) {
                            if !pending.is_asked {
                                self.figures.now.done.add(pending.size);
                            }
                            self.figures.now.same.add(1);
                        }
                    }
                }
                ToSender::Stored(ids) => {
                    for id in ids {
                        if let Some(pending) = self.settle(id) {
                            self.count(&pending);
                        }
                    }
                }
                ToSender::Failed { id, reason } => {
                    let reason = one_line(&reason.chars().take(1000).collect::<String>());
                    match self.settle(id) {
                        Some(pending) => {
                            let path = shown(&pending.source.path());
                            self.figures.remark(format!("{path}: not stored: {reason}"), true);
                        }
                        None => self.figures.remark(reason, true),
                    }
                }
                ToSender::Complete => {
                    let _ = complete.send(()).await;
                    return Ok(());
                }
            }
        }
    }

    /// Counts the outcomes that a message has: each entry has one. Messages that ask for contents
    /// are bounded by the contents.
    fn expect(&self, message: &ToSender) -> Result<()> {
        let outcomes = match message {
            ToSender::Same(ids) | ToSender::Stored(ids) => ids.len().max(1),
            ToSender::Failed { .. } => 1,
            ToSender::Want(ids) if ids.is_empty() => 1,
            _ => 0,
        };
        let take = |left: u64| left.checked_sub(outcomes as u64);
        match self.offers.answers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::Peer(
                "the receiver answers for entries that were not offered".to_owned(),
            )),
        }
    }

    /// The file that the receiver wants.
    fn wanted(&self, id: u64) -> Result<Job> {
        let mut table = lock(&self.offers.table);
        table.get_mut(&id).ok_or_else(not_open)?.job(id)
    }

    /// Adds hashes of the receiver's blocks; the file to compare when they are complete.
    fn compared(&self, id: u64, hashes: Vec<Hash>) -> Result<Option<Job>> {
        let mut table = lock(&self.offers.table);
        let pending = table.get_mut(&id).ok_or_else(not_open)?;
        let count = Blocks::of(pending.size).count() as usize;
        if hashes.is_empty() || pending.hashes.len() + hashes.len() > count {
            return Err(Error::Peer("the receiver has more blocks than the file".to_owned()));
        }
        self.figures.steps.add(1);
        pending.hashes.extend(hashes);
        if pending.hashes.len() < count {
            return Ok(None);
        }
        pending.job(id).map(Some)
    }

    fn enqueue(&self, job: Job) {
        let mut queue = lock(&self.lanes.queue);
        if Blocks::of(job.size).is_single() {
            queue.small.push_back(job);
        } else {
            queue.waiting.push_back(job);
        }
        drop(queue);
        self.lanes.work.notify_one();
    }

    /// Forgets an offer that has an outcome.
    fn settle(&self, id: u64) -> Option<Pending> {
        let pending = lock(&self.offers.table).remove(&id)?;
        if let Some(large) = &pending.large {
            large.is_given_up.store(true, Ordering::Relaxed);
            lock(&self.lanes.queue).begun -= 1;
            self.lanes.work.notify_waiters();
        }
        self.figures.now.settled.add(1);
        self.figures.steps.add(1);
        self.offers.settled.notify_one();
        Some(pending)
    }

    /// Withdraws an offer, and offers the file again if it changed.
    async fn withdraw(&self, id: u64, source: &Source, why: Unsent) -> Result<()> {
        if !lock(&self.offers.table).contains_key(&id) {
            return Ok(());
        }
        self.tell(ToReceiver::Withdraw { id }).await?;
        let path = shown(&source.path());
        match why {
            Unsent::Changed if source.attempts + 1 < ATTEMPTS => {
                let (system, old) = (Arc::clone(&self.system), source.clone());
                match blocking(move || Ok(old.again(&system))).await? {
                    Ok(now) => drop(self.again.send(now)),
                    Err(error) => self.figures.remark(format!("{path}: {error}"), true),
                }
            }
            Unsent::Changed => {
                let text = format!(
                    "{path}: not sent: it changes while it is read; send it again when nothing writes to it"
                );
                self.figures.remark(text, true);
            }
            Unsent::Failed(error) => {
                self.figures.remark(format!("{path}: not sent: {error}"), true);
            }
        }
        self.settle(id);
        Ok(())
    }

    /// The next work for a stream.
    fn next(&self) -> Option<Work> {
        let mut queue = lock(&self.lanes.queue);
        if !queue.small.is_empty() {
            let mut jobs: Vec<Job> = Vec::new();
            let mut bytes = 0;
            while jobs.len() < TOGETHER
                && let Some(job) = queue.small.front()
                && (jobs.is_empty() || bytes + job.size <= MAX_FRAME)
            {
                bytes += job.size;
                jobs.extend(queue.small.pop_front());
            }
            return Some(Work::Small(jobs));
        }
        while let Some(large) = queue.large.front() {
            let index = large.next.fetch_add(1, Ordering::Relaxed);
            let is_last = index + 1 >= large.blocks.count();
            let work = (index < large.blocks.count() && !large.is_given_up.load(Ordering::Relaxed))
                .then(|| Work::Block(Arc::clone(large), index));
            if is_last || work.is_none() {
                queue.large.pop_front();
            }
            if work.is_some() {
                return work;
            }
        }
        if queue.begun < LARGE
            && let Some(job) = queue.waiting.pop_front()
        {
            queue.begun += 1;
            return Some(Work::Begin(job));
        }
        None
    }

    /// Sends over one stream until the connection ends.
    async fn stream(self: Arc<Self>, index: u32) -> Result<()> {
        let mut stream: Option<SendStream> = None;
        loop {
            let work = loop {
                let woken = self.lanes.work.notified();
                if index < self.lanes.count.load(Ordering::Relaxed)
                    && let Some(work) = self.next()
                {
                    break work;
                }
                // The pause makes up for a wake-up that went to a stream that is not in use.
                tokio::select! {
                    () = woken => {}
                    () = tokio::time::sleep(Duration::from_millis(20)) => {}
                }
            };
            let stream = match &mut stream {
                Some(stream) => stream,
                None => stream.insert(self.quic.open_uni().await?),
            };
            match work {
                Work::Small(jobs) => self.small(stream, jobs).await?,
                Work::Begin(job) => self.begin(job).await?,
                Work::Block(large, index) => self.block(stream, &large, index).await?,
            }
        }
    }

    async fn write(&self, stream: &mut SendStream, bytes: Vec<u8>) -> Result<()> {
        let mut bytes = Bytes::from(bytes);
        while !bytes.is_empty() {
            let part = match &self.limiter {
                Some(limiter) => limiter.wait(bytes.len()).await,
                None => bytes.len().min(WRITTEN),
            };
            stream.write_chunk(bytes.split_to(part)).await.map_err(wire::write_error)?;
            self.figures.steps.add(1);
        }
        Ok(())
    }

    /// Sends files of one block.
    async fn small(self: &Arc<Self>, stream: &mut SendStream, jobs: Vec<Job>) -> Result<()> {
        let own = Arc::clone(self);
        let (buffer, outcomes) = blocking(move || {
            let mut buffer = Vec::new();
            let mut outcomes = Vec::new();
            for job in jobs {
                let base = job.base.first().filter(|hash| **hash != ABSENT);
                let outcome = match base {
                    Some(base) => {
                        outlet::hash_whole(&job.source, job.size, &own.system).and_then(|hash| {
                            if hash == *base || own.dry_run {
                                return Ok((hash, hash != *base));
                            }
                            outlet::whole(job.id, &job.source, job.size, &own.system, &mut buffer)
                                .map(|hash| (hash, true))
                        })
                    }
                    None if own.dry_run => {
                        outlet::open(&job.source, &own.system).map(|_| (Hash::default(), true))
                    }
                    None => outlet::whole(job.id, &job.source, job.size, &own.system, &mut buffer)
                        .map(|hash| (hash, true)),
                };
                outcomes.push((job, outcome));
            }
            Ok((buffer, outcomes))
        })
        .await?;
        self.write(stream, buffer).await?;
        for (job, outcome) in outcomes {
            match outcome {
                Err(why) => self.withdraw(job.id, &job.source, why).await?,
                Ok((hash, differs)) => {
                    self.figures.now.done.add(job.size);
                    if differs {
                        self.figures.sent.add(job.size);
                    }
                    if self.dry_run {
                        self.conclude(job.id, differs).await?;
                    } else if !differs {
                        self.tell(ToReceiver::Finish { id: job.id, hash, sent: 0 }).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Ends an offer of a dry run.
    async fn conclude(&self, id: u64, differs: bool) -> Result<()> {
        self.tell(ToReceiver::Withdraw { id }).await?;
        match self.settle(id) {
            Some(pending) if differs => self.count(&pending),
            Some(_) => self.figures.now.same.add(1),
            None => {}
        }
        Ok(())
    }

    /// Counts an entry that is stored, or would be.
    fn count(&self, pending: &Pending) {
        if self.dry_run {
            self.figures.would_send(pending.source.name.clone());
        } else {
            self.figures.now.stored.add(1);
        }
    }

    /// Begins a file of several blocks.
    async fn begin(self: &Arc<Self>, job: Job) -> Result<()> {
        let (system, source) = (Arc::clone(&self.system), Arc::clone(&job.source));
        let opened = blocking(move || Ok(outlet::open(&source, &system))).await?;
        let file = match opened {
            Ok(file) => file,
            Err(why) => {
                lock(&self.lanes.queue).begun -= 1;
                return self.withdraw(job.id, &job.source, why).await;
            }
        };
        let blocks = Blocks::of(job.size);
        let count = blocks.count();
        let progress =
            LargeProgress { hashes: vec![[0; 32]; count as usize], left: count, sent: 0 };
        let id = job.id;
        let large = Arc::new(Large {
            job,
            file,
            blocks,
            next: AtomicU32::new(0),
            is_given_up: AtomicBool::new(false),
            progress: Mutex::new(progress),
        });
        match lock(&self.offers.table).get_mut(&id) {
            Some(pending) => pending.large = Some(Arc::clone(&large)),
            None => {
                lock(&self.lanes.queue).begun -= 1;
                return Ok(());
            }
        }
        lock(&self.lanes.queue).large.push_back(large);
        self.lanes.work.notify_waiters();
        Ok(())
    }

    /// Sends a block, if the receiver lacks it.
    async fn block(
        self: &Arc<Self>,
        stream: &mut SendStream,
        large: &Arc<Large>,
        index: u32,
    ) -> Result<()> {
        match self.pass_block(stream, large, index).await? {
            Ok(()) => {}
            Err(why) => {
                if !large.is_given_up.swap(true, Ordering::Relaxed) {
                    self.withdraw(large.job.id, &large.job.source, why).await?;
                }
            }
        }
        Ok(())
    }

    /// Tells the receiver now and then that this side is at work.
    async fn say_comparing(&self) -> Result<()> {
        self.figures.steps.add(1);
        let now = clock::now();
        let is_due = {
            let mut last = lock(&self.compared);
            let is_due = now.duration_since(*last) >= COMPARING;
            if is_due {
                *last = now;
            }
            is_due
        };
        if is_due { self.tell(ToReceiver::Comparing).await } else { Ok(()) }
    }

    async fn pass_block(
        self: &Arc<Self>,
        stream: &mut SendStream,
        large: &Arc<Large>,
        index: u32,
    ) -> Result<Result<(), Unsent>> {
        let (id, blocks) = (large.job.id, large.blocks);
        let length = blocks.len(index);
        let mut known = None;
        let base = large.job.base.get(index as usize).copied().filter(|hash| *hash != ABSENT);
        if base.is_some() {
            let own = Arc::clone(large);
            match blocking(move || Ok(blocks.read(&own.file, index, || Ok(())))).await? {
                Ok(hash) => known = Some(hash),
                Err(why) => return Ok(Err(why.into())),
            }
        }
        let differs = known.is_none() || known != base;
        let mut hash = known.unwrap_or_default();
        if differs && !self.dry_run {
            let mut hasher = blocks.hasher(index);
            let (mut at, end) = (blocks.start(index), blocks.start(index) + length);
            while at < end {
                if large.is_given_up.load(Ordering::Relaxed) {
                    return Ok(Ok(()));
                }
                let part = (end - at).min(MAX_FRAME);
                let own = Arc::clone(large);
                let read;
                (read, hasher) = blocking(move || {
                    let read = outlet::part(id, &own.file, at, part, &mut hasher);
                    Ok((read, hasher))
                })
                .await?;
                match read {
                    Ok((frame, data)) => {
                        self.write(stream, frame).await?;
                        self.figures.sent.add(data);
                    }
                    Err(why) => return Ok(Err(why)),
                }
                self.figures.now.done.add(part);
                at += part;
            }
            hash = Blocks::finish(&hasher);
            let mut end = Vec::with_capacity(64);
            Frame { id, part: Part::End(index) }.put(&mut end);
            end.extend_from_slice(&hash);
            self.write(stream, end).await?;
        } else {
            self.figures.now.done.add(length);
            if differs {
                let own = Arc::clone(large);
                let data = blocking(move || Ok(outlet::data_in(&own.file, blocks, index))).await?;
                self.figures.sent.add(data);
            }
            self.say_comparing().await?;
        }
        let (is_last, sent) = {
            let mut progress = lock(&large.progress);
            progress.hashes[index as usize] = hash;
            progress.left -= 1;
            progress.sent += u32::from(differs);
            (progress.left == 0, progress.sent)
        };
        if is_last {
            if self.dry_run {
                self.conclude(id, sent > 0).await?;
            } else {
                if let Err(why) = outlet::check(&large.job.source, &large.file) {
                    return Ok(Err(why));
                }
                let hash = Blocks::root(&lock(&large.progress).hashes);
                self.tell(ToReceiver::Finish { id, hash, sent }).await?;
            }
        }
        Ok(Ok(()))
    }
}

fn not_open() -> Error {
    Error::Peer(
        "the receiver asks for a file that was not offered, or that has an outcome".to_owned(),
    )
}

/// An entry as the receiver sees it.
fn entry(id: u64, source: &Source) -> Entry {
    Entry {
        id,
        path: source.name.bytes().to_vec(),
        mode: source.mode,
        changed: source.changed,
        kind: source.kind.clone(),
    }
}

/// A limit of the rate.
#[derive(Debug)]
struct Limiter {
    /// Bytes per second.
    rate: f64,
    /// Time from which on the next bytes may leave.
    next: Mutex<Instant>,
}

impl Limiter {
    fn new(rate: f64) -> Self {
        Limiter { rate, next: Mutex::new(clock::now()) }
    }

    /// Waits until some of these bytes may leave, and returns how many.
    async fn wait(&self, wanted: usize) -> usize {
        // 20 ms of the rate, at least a packet.
        let part = wanted.min(((self.rate / 50.0) as usize).max(1200));
        let at = {
            let mut next = lock(&self.next);
            let at = (*next).max(clock::now());
            *next = at + Duration::from_secs_f64(part as f64 / self.rate);
            at
        };
        tokio::time::sleep_until(at.into()).await;
        part
    }
}
