//! Limits of a server: what one peer, and all together, may make it hold. None depends on what a
//! peer says.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::activity::Activity;
use crate::identity::Fingerprint;
use crate::sync::lock;

/// Silence after which a connection whose program may have gone makes room for another one.
const ABANDONED: Duration = Duration::from_secs(10);

/// Limits of a server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// QUIC connections of one peer.
    pub connections: usize,
    /// Forwarded connections of one peer, over all its QUIC connections.
    pub streams: usize,
    /// Datagrams per second from one peer; further ones are dropped.
    pub datagrams: u32,
    /// Bytes of one QUIC connection that wait for targets that do not read, beyond 32 KiB for each
    /// forwarded connection.
    pub buffer: u64,
    /// Time for a target to accept a connection.
    pub connect: Duration,
    /// A forwarded connection ends after this time without a byte in either direction.
    pub idle: Duration,
    /// The same after one direction has ended.
    pub half_closed: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 8,
            streams: 1024,
            datagrams: 20_000,
            buffer: 16 << 20,
            connect: Duration::from_secs(10),
            // A session that nobody uses over night stays.
            idle: Duration::from_secs(24 * 3600),
            // RFC 5382 (REQ-5) asks NATs for four minutes.
            half_closed: Duration::from_secs(240),
        }
    }
}

/// One of a limited number of places. It is free again when this is dropped.
pub(super) type Place = OwnedSemaphorePermit;

fn places(most: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)))
}

/// Places and rates of a peer.
#[derive(Debug)]
pub(super) struct Peer {
    limits: Limits,
    open: Mutex<Vec<Weak<Activity>>>,
    connections: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    datagrams: Mutex<Rate>,
}

impl Peer {
    fn new(limits: Limits, now: Instant) -> Self {
        Peer {
            limits,
            open: Mutex::default(),
            connections: places(limits.connections),
            streams: places(limits.streams),
            datagrams: Mutex::new(Rate::new(limits.datagrams, now)),
        }
    }

    pub(super) fn connect(&self) -> Option<Place> {
        Arc::clone(&self.connections).try_acquire_owned().ok()
    }

    pub(super) async fn connect_within(&self, patience: Duration) -> Option<Place> {
        timeout(patience, Arc::clone(&self.connections).acquire_owned()).await.ok()?.ok()
    }

    /// A place for a forwarded connection. That of one which the forwarder has just closed may be
    /// taken for a round trip more.
    pub(super) async fn open_within(&self, patience: Duration) -> Option<Place> {
        timeout(patience, Arc::clone(&self.streams).acquire_owned()).await.ok()?.ok()
    }

    /// Watches a forwarded connection for silence.
    pub(super) fn watch(&self) -> Arc<Activity> {
        let activity = Arc::new(Activity::new(Some((self.limits.idle, self.limits.half_closed))));
        let mut open = lock(&self.open);
        open.retain(|one| one.strong_count() > 0);
        open.push(Arc::downgrade(&activity));
        activity
    }

    /// Ends the connection that was silent the longest, of those whose program may have gone.
    /// Returns whether there is one.
    pub(super) fn make_room(&self, now: Instant) -> bool {
        let open = lock(&self.open);
        let silent = open.iter().filter_map(Weak::upgrade).filter_map(|one| {
            one.abandoned(now).filter(|silent| *silent >= ABANDONED).map(|silent| (silent, one))
        });
        let longest = silent.max_by_key(|(silent, _)| *silent);
        longest.map(|(_, one)| one.expel()).is_some()
    }

    /// True if a datagram is within the limit.
    pub(super) fn pass(&self, now: Instant) -> bool {
        lock(&self.datagrams).pass(now)
    }
}

/// A rate of events. Up to a tenth of a second of them may come at once.
#[derive(Debug)]
pub(super) struct Rate {
    interval: Duration,
    burst: Duration,
    /// When the next event would come at exactly the rate.
    due: Instant,
}

impl Rate {
    fn new(per_second: u32, now: Instant) -> Self {
        let interval = Duration::from_secs(1) / per_second.max(1);
        Rate { interval, burst: Duration::from_millis(100).saturating_sub(interval), due: now }
    }

    fn pass(&mut self, now: Instant) -> bool {
        let due = self.due.max(now);
        let enough = due <= now + self.burst;
        if enough {
            self.due = due + self.interval;
        }
        enough
    }
}

/// The peers that have connections.
#[derive(Debug)]
pub(super) struct Peers {
    limits: Limits,
    known: Mutex<HashMap<Fingerprint, Arc<Peer>>>,
}

impl Peers {
    pub(super) fn new(limits: Limits) -> Self {
        Peers { limits, known: Mutex::default() }
    }

    /// The state of a peer. It is forgotten when nothing holds it, so that the table has no more
    /// entries than there are connections.
    pub(super) fn of(&self, print: Fingerprint, now: Instant) -> Arc<Peer> {
        let mut known = lock(&self.known);
        known.retain(|_, peer| Arc::strong_count(peer) > 1);
        Arc::clone(known.entry(print).or_insert_with(|| Arc::new(Peer::new(self.limits, now))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[tokio::test]
    async fn places_return() {
        let limits = Limits { connections: 2, streams: 1, ..Limits::default() };
        let peers = Peers::new(limits);
        let now = clock::now();
        let peer = peers.of(Fingerprint([1; 32]), now);
        let held = (peer.connect().expect("one"), peer.connect().expect("two"));
        assert!(peers.of(Fingerprint([1; 32]), now).connect().is_none());
        assert!(peers.of(Fingerprint([2; 32]), now).connect().is_some());
        drop(held);
        assert!(peer.connect().is_some());
        let open = peer.open_within(Duration::ZERO).await;
        assert!(open.is_some() && peer.open_within(Duration::ZERO).await.is_none());
    }

    #[test]
    fn only_what_may_be_abandoned_makes_room() {
        let peer = Peer::new(Limits::default(), clock::now());
        let (idle, ended, stuck) = (peer.watch(), peer.watch(), peer.watch());
        let later = clock::now() + ABANDONED;
        assert!(!peer.make_room(later), "both directions are open, and nothing waits");
        stuck.set_stuck(true);
        ended.end_direction();
        assert!(!peer.make_room(clock::now()), "too early");
        let later = clock::now() + ABANDONED;
        assert!(peer.make_room(later) && peer.make_room(later));
        assert!(!peer.make_room(later), "each once");
        drop((idle, ended, stuck));
    }

    #[test]
    fn datagrams_have_a_rate() {
        let start = clock::now();
        let mut rate = Rate::new(100, start);
        // Ten at once, then one each 10 ms.
        assert_eq!((0..20).filter(|_| rate.pass(start)).count(), 10);
        let passed = (1..=100).filter(|ms| rate.pass(start + Duration::from_millis(*ms))).count();
        assert_eq!(passed, 10);
    }
}
