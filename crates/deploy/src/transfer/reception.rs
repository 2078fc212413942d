//! One connection of an admitted sender: what it offers is requested, written and confirmed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use quinn::{RecvStream, SendStream};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};

use crate::clock;
use crate::endpoint::Connection;
use crate::error::{Error, Result};
use crate::run::{blocking, joined};
use crate::transfer::claims::Claimant;
use crate::transfer::commit::{self, Committed};
use crate::transfer::door::Admitted;
use crate::transfer::folder::Folder;
use crate::transfer::intake::{Inlet, Intake};
use crate::transfer::wire::{self, Frame, MAX_FRAME, MAX_HEADER, ToReceiver, ToSender};

/// Interval at which progress is looked at.
const TICK: Duration = Duration::from_millis(250);
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

/// Receives from an admitted sender until it has confirmed the end. An error is told to it.
pub(super) async fn receive(
    connection: &Connection,
    admitted: Admitted,
    folder: Arc<Folder>,
    claimant: Claimant,
    patience: Duration,
) -> Result<Received> {
    let dry_run = admitted.dry_run;
    let mut reception = match Reception::begin(connection, admitted, folder, claimant, patience) {
        Ok(reception) => reception,
        Err(error) => {
            refuse(connection, &error);
            return Err(error);
        }
    };
    let result = reception.run().await;
    // Before its streams end, and the disk takes its time.
    if let Err(error) = &result {
        refuse(connection, error);
    }
    let counts = &reception.intake.counts;
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let received = Received {
        sender: connection.peer.to_string(),
        stored: load(&counts.stored),
        same: load(&counts.same),
        failed: load(&counts.failed),
        bytes: load(&counts.bytes),
        dry_run,
    };
    reception.end().await?;
    result.map(|()| received)
}

/// Closes a connection with an error.
fn refuse(connection: &Connection, error: &Error) {
    match error {
        // The sender would take the path for one of its own.
        Error::File { .. } => {
            connection.refuse(&Error::Refused(format!("at the receiver: {error}")));
        }
        _ => connection.refuse(error),
    }
}

/// A session with a sender.
struct Reception<'a> {
    connection: &'a Connection,
    intake: Arc<Intake>,
    /// Tasks that go on until the end. The first error of one of them ends the session.
    tasks: JoinSet<Result<()>>,
    committer: JoinHandle<()>,
    send: SendStream,
    answers: mpsc::Receiver<ToSender>,
    /// Told after the last message of the sender, and again after the end of its stream.
    ended: mpsc::Receiver<()>,
}

impl<'a> Reception<'a> {
    fn begin(
        connection: &'a Connection,
        admitted: Admitted,
        folder: Arc<Folder>,
        claimant: Claimant,
        patience: Duration,
    ) -> Result<Self> {
        let Admitted { control: (send, receive), dry_run, checksum, door } = admitted;
        let (ready, complete) = std::sync::mpsc::sync_channel(READY);
        let intake = Arc::new(Intake::new(Arc::clone(&folder), claimant, dry_run, checksum, ready));
        let (answering, answers) = mpsc::channel(64);
        let (ending, ended) = mpsc::channel(1);
        // Files get their names on a thread of their own, which ends with the last `Intake`, and
        // must not keep the sender side of its own queue.
        let (reported, reporting) = (Arc::downgrade(&intake), answering.clone());
        let committing = move || {
            commit::run(&folder, &complete, |batch| {
                // Without it, the session is over.
                if let Some(intake) = reported.upgrade() {
                    intake.committed(&batch);
                    drop(intake);
                    report(batch, &reporting);
                }
            });
        };
        let committer = thread::Builder::new()
            .name("commit".to_owned())
            .spawn(committing)
            .map_err(|error| Error::Socket { what: "cannot start a thread".to_owned(), error })?;

        let mut tasks = JoinSet::new();
        tasks.spawn(await_silence(Arc::clone(&intake), patience));
        let peer = connection.peer;
        tasks.spawn(async move { Err(door.await_revocation(peer).await) });
        tasks.spawn(take_streams(connection.quic.clone(), Arc::clone(&intake), answering.clone()));
        tasks.spawn(listen(receive, Arc::clone(&intake), answering, ending));
        Ok(Reception { connection, intake, tasks, committer, send, answers, ended })
    }

    /// Goes on until the sender has confirmed that all is there.
    async fn run(&mut self) -> Result<()> {
        let Reception { connection, intake, tasks, send, answers, ended, .. } = self;
        tokio::select! {
            result = talk(intake, send, answers, ended) => result?,
            // Also while the sender reads no answers.
            error = first_error(tasks) => return Err(error),
        }
        let _ = send.finish();
        // The sender ends its stream, or closes, when it knows. Without that it comes back and asks
        // again.
        let known = async {
            tokio::select! {
                Some(()) = ended.recv() => true,
                reason = connection.quic.closed() => {
                    matches!(reason, quinn::ConnectionError::ApplicationClosed(_))
                }
            }
        };
        match timeout(FAREWELL, known).await {
            Ok(true) => Ok(()),
            _ => Err(Error::Unreachable("the sender did not confirm the end".to_owned())),
        }
    }

    /// Ends the tasks, and waits until nothing writes into the folder any more.
    async fn end(self) -> Result<()> {
        let Reception { intake, mut tasks, committer, answers, .. } = self;
        intake.end();
        tasks.shutdown().await;
        drop((answers, intake));
        blocking(move || {
            let _ = committer.join();
            Ok(())
        })
        .await
    }
}

/// Tells the sender what became of files, unless the session is over.
fn report(batch: Committed, answers: &mpsc::Sender<ToSender>) {
    let lists = [(batch.stored, ToSender::Stored as fn(_) -> _), (batch.same, ToSender::Same)];
    let lists = lists.into_iter().filter(|(ids, _)| !ids.is_empty()).map(|(ids, of)| of(ids));
    let failed = batch.failed.into_iter().map(|(id, reason)| ToSender::Failed { id, reason });
    for message in lists.chain(failed) {
        if answers.blocking_send(message).is_err() {
            return;
        }
    }
}

/// Writes answers until the sender has said its last message, and then that all is on the disk.
async fn talk(
    intake: &Arc<Intake>,
    send: &mut SendStream,
    answers: &mut mpsc::Receiver<ToSender>,
    ended: &mut mpsc::Receiver<()>,
) -> Result<()> {
    loop {
        tokio::select! {
            Some(message) = answers.recv() => wire::write(send, &message).await?,
            Some(()) = ended.recv() => break,
        }
    }
    let own = Arc::clone(intake);
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
    while let Ok(message) = answers.try_recv() {
        wire::write(send, &message).await?;
    }
    wire::write(send, &ToSender::Complete).await
}

/// The first error of tasks, of which one never ends well.
async fn first_error(tasks: &mut JoinSet<Result<()>>) -> Error {
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = joined(ended).flatten() {
            return error;
        }
    }
    std::future::pending().await
}

/// Takes the data streams of a sender until the connection ends.
async fn take_streams(
    quic: quinn::Connection,
    intake: Arc<Intake>,
    answers: mpsc::Sender<ToSender>,
) -> Result<()> {
    let writers = Arc::new(Semaphore::new(WRITERS));
    let mut streams: JoinSet<Result<()>> = JoinSet::new();
    loop {
        tokio::select! {
            stream = quic.accept_uni() => {
                let writers = Arc::clone(&writers);
                streams.spawn(inlet(stream?, Arc::clone(&intake), answers.clone(), writers));
            }
            Some(ended) = streams.join_next() => joined(ended)??,
        }
    }
}

/// Follows the messages of the sender until the end of its stream, and never ends well.
async fn listen(
    mut receive: RecvStream,
    intake: Arc<Intake>,
    answers: mpsc::Sender<ToSender>,
    ending: mpsc::Sender<()>,
) -> Result<()> {
    hear(&mut receive, &intake, &answers).await?;
    drop(answers);
    let _ = ending.send(()).await;
    if receive.read_to_end(0).await.is_ok() {
        let _ = ending.send(()).await;
    }
    std::future::pending().await
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
    let place = places.acquire().await.expect("it is never closed");
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
        let place = writers.acquire().await.expect("it is never closed");
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
