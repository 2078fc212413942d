//! Events for any number of browsers, in bounded memory (server-sent events, HTML section 9.2).
//!
//! The writer never waits: it hands events to a thread, which keeps the latest ones. Each client
//! reads them at its own pace. A client that is so slow that events go before it has read them
//! misses those events and costs nothing else.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

/// Maximum number of bytes of the events that are kept.
const MAX_KEPT: usize = 4 << 20;
/// Maximum number of events that wait for the thread that keeps them.
const MAX_WAITING: usize = 64;
/// Maximum number of bytes that are copied for a client at a time, unless one event is larger.
const PIECE: usize = 64 << 10;
/// Interval of comments while there are no events, by which a client that has left is noticed.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

/// The writing end. When it is dropped, clients are told that no event follows.
#[derive(Debug)]
pub struct Feed {
    events: Option<SyncSender<String>>,
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
}

/// The end for clients.
#[derive(Debug, Clone)]
pub struct Reader(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    kept: Mutex<Kept>,
    changed: watch::Sender<()>,
}

/// The latest events.
#[derive(Debug)]
struct Kept {
    /// Event that every client gets first, and again when it has changed.
    about: String,
    /// Number of its changes.
    changes: u64,
    events: VecDeque<String>,
    bytes: usize,
    /// Number of the first event that is kept.
    first: u64,
    has_ended: bool,
}

impl Feed {
    /// A feed whose clients first get the event `about`, one line of JSON.
    pub fn new(about: String) -> io::Result<Self> {
        let kept = Kept {
            about,
            changes: 0,
            events: VecDeque::new(),
            bytes: 0,
            first: 0,
            has_ended: false,
        };
        let shared = Arc::new(Shared { kept: Mutex::new(kept), changed: watch::Sender::new(()) });
        let (events, received) = sync_channel(MAX_WAITING);
        let of_thread = Arc::clone(&shared);
        let keep = move || keep(&received, &of_thread);
        let thread = std::thread::Builder::new().name("feed".into()).spawn(keep)?;
        Ok(Feed { events: Some(events), thread: Some(thread), shared })
    }

    /// The end for clients.
    pub fn reader(&self) -> Reader {
        Reader(Arc::clone(&self.shared))
    }

    /// Changes the event that clients get first, one line of JSON. Those that have it get it again.
    pub fn describe(&self, about: String) {
        let mut kept = self.shared.lock();
        kept.about = about;
        kept.changes += 1;
    }

    /// Adds an event, one line of JSON. It is discarded if the thread that keeps events does not
    /// run, so that a busy machine delays nobody.
    pub fn push(&self, event: String) {
        if let Some(events) = &self.events {
            let _ = events.try_send(event);
        }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        drop(self.events.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Keeps the events that arrive, until the writer is dropped.
fn keep(received: &Receiver<String>, shared: &Shared) {
    while let Ok(event) = received.recv() {
        shared.lock().push(event);
        shared.changed.send_replace(());
    }
    shared.lock().has_ended = true;
    shared.changed.send_replace(());
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn push(&mut self, event: String) {
        self.bytes += event.len();
        self.events.push_back(event);
        while self.bytes > MAX_KEPT {
            let oldest = self.events.pop_front().expect("the bytes are of events");
            self.bytes -= oldest.len();
            self.first += 1;
        }
    }

    /// The event that clients get first, in the format of server-sent events.
    fn about(&self) -> String {
        format!("event: about\ndata: {}\n\n", self.about)
    }

    /// Number of the next event.
    fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    /// Events from `next` on, or from the oldest on if that one has gone, in the format of
    /// server-sent events. `next` becomes the number after the last of them.
    fn piece(&self, next: &mut u64) -> String {
        *next = (*next).clamp(self.first, self.end());
        let mut text = String::new();
        while let Some(event) = self.events.get((*next - self.first) as usize) {
            if !text.is_empty() && text.len() + event.len() > PIECE {
                break;
            }
            // Writing to a String cannot fail.
            let _ = write!(text, "id: {next}\ndata: {event}\n\n");
            *next += 1;
        }
        text
    }
}

impl Reader {
    /// Hands events over for a client until there are no more or it has left. `last` is the number
    /// of the last event that it has from an earlier connection.
    pub(crate) async fn stream(self, last: Option<u64>, client: mpsc::Sender<Bytes>) {
        let mut changed = self.0.changed.subscribe();
        let (mut piece, mut next, mut changes) = {
            let kept = self.0.lock();
            // A number beyond the end is one of an earlier run at this address.
            let next = last.and_then(|last| last.checked_add(1));
            let next = next.filter(|next| *next <= kept.end()).unwrap_or(0);
            (format!("retry: 500\n{}", kept.about()), next, kept.changes)
        };
        loop {
            // Fails if the client has left.
            if !piece.is_empty() && client.send(Bytes::from(piece)).await.is_err() {
                return;
            }
            changed.mark_unchanged();
            let is_over;
            (piece, is_over) = {
                let kept = self.0.lock();
                let about = if kept.changes == changes { String::new() } else { kept.about() };
                changes = kept.changes;
                (about + &kept.piece(&mut next), kept.has_ended && next >= kept.end())
            };
            if is_over {
                let end = piece + "event: end\ndata: {}\n\n";
                let _ = client.send(Bytes::from(end)).await;
                return;
            }
            if piece.is_empty() {
                tokio::select! {
                    () = client.closed() => return,
                    waited = timeout(SIGN_OF_LIFE, changed.changed()) => {
                        if waited.is_err() {
                            ":\n\n".clone_into(&mut piece);
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(last: Option<u64>, feed: Feed) -> String {
        let reader = feed.reader();
        drop(feed);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let written = runtime.block_on(async {
            let (client, mut pieces) = mpsc::channel(1);
            tokio::spawn(reader.stream(last, client));
            let mut written = Vec::new();
            while let Some(piece) = pieces.recv().await {
                written.extend_from_slice(&piece);
            }
            written
        });
        String::from_utf8(written).unwrap()
    }

    fn numbers(text: &str) -> Vec<u64> {
        text.lines().filter_map(|line| line.strip_prefix("id: ")?.parse().ok()).collect()
    }

    fn feed() -> Feed {
        Feed::new("{\"title\":\"test\"}".to_owned()).unwrap()
    }

    #[test]
    fn a_client_gets_what_the_feed_is_about_then_all_events_then_the_end() {
        let feed = feed();
        feed.push("{\"n\":0}".to_owned());
        feed.push("{\"n\":1}".to_owned());
        assert_eq!(
            text(None, feed),
            "retry: 500\nevent: about\ndata: {\"title\":\"test\"}\n\n\
             id: 0\ndata: {\"n\":0}\n\nid: 1\ndata: {\"n\":1}\n\n\
             event: end\ndata: {}\n\n"
        );
    }

    #[test]
    fn a_client_learns_of_a_change_of_what_the_feed_is_about() {
        let feed = feed();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let written = runtime.block_on(async {
            let (client, mut pieces) = mpsc::channel(1);
            tokio::spawn(feed.reader().stream(None, client));
            let mut written = String::from_utf8(pieces.recv().await.unwrap().to_vec()).unwrap();
            feed.describe("{\"title\":\"new\"}".to_owned());
            drop(feed);
            while let Some(piece) = pieces.recv().await {
                written += std::str::from_utf8(&piece).unwrap();
            }
            written
        });
        assert_eq!(
            written,
            "retry: 500\nevent: about\ndata: {\"title\":\"test\"}\n\n\
             event: about\ndata: {\"title\":\"new\"}\n\nevent: end\ndata: {}\n\n"
        );
    }

    #[test]
    fn a_client_that_comes_back_gets_what_it_lacks() {
        let events = || {
            let feed = feed();
            (0..5).for_each(|n| feed.push(n.to_string()));
            feed
        };
        assert_eq!(numbers(&text(Some(2), events())), [3, 4]);
        assert!(numbers(&text(Some(4), events())).is_empty());
        for of_another_run in [5, u64::MAX] {
            assert_eq!(numbers(&text(Some(of_another_run), events())), [0, 1, 2, 3, 4]);
        }
    }

    #[test]
    fn events_beyond_the_limit_go_and_a_slow_client_goes_on_with_the_oldest_left() {
        let shared = Arc::clone(&feed().shared);
        let mut kept = shared.lock();
        // 5 MiB in events of a KiB: the 4 MiB that are kept are the last 4096 of 5120.
        (0..5120).for_each(|_| kept.push("x".repeat(1024)));
        assert_eq!((kept.first, kept.events.len(), kept.bytes), (1024, 4096, MAX_KEPT));
        let mut next = 7;
        let piece = kept.piece(&mut next);
        assert_eq!(numbers(&piece)[0], 1024);
        assert!(piece.len() <= PIECE + 64, "{}", piece.len());
        assert_eq!(next, 1024 + numbers(&piece).len() as u64);
    }
}
