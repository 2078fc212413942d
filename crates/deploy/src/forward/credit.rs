//! Bounds for the buffers of a connection, on both sides, and the order in which streams may send.
//!
//! Sender: the bytes of all streams that QUIC holds (unsent, or not acknowledged) are taken from a
//! [`Budget`], which follows the congestion window. Streams that wait for it are served in turn. A
//! stream that sent little lately ([`Age`]) is young: it goes before the others, and has a budget
//! of its own, so that an echo does not wait behind uploads.
//!
//! Receiver: quinn has one flow-control window for all streams of a connection, and one limit that
//! is the same for each stream. If it were the only bound, a few readers that do not read would
//! stop all others. So a receiver grants each stream an offset of its own ([`Grant`]), which grows
//! with what its reader takes per round trip, and stays small for a reader that takes little.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::budget;
use crate::sync::lock;

/// Largest piece that a stream hands over to QUIC at once, bytes.
pub(super) const PIECE: usize = 16 << 10;
/// The same for a young stream.
const YOUNG_PIECE: usize = 4 << 10;
/// Smallest budget of the streams that are not young, bytes.
const LEAST_BUDGET: usize = budget::LEAST;
/// Budget of young streams, bytes.
const YOUNG_BUDGET: usize = 256 << 10;

/// Bytes of each stream that may be sent before the receiver has granted anything.
pub(super) const FIRST_CREDIT: u64 = 32 << 10;
/// Largest window of one stream, bytes.
pub(super) const LARGEST_WINDOW: u64 = 12 << 20;

/// Bytes that the streams of a connection may have in the send buffer of QUIC.
#[derive(Debug)]
pub(super) struct Budget {
    old: Arc<Semaphore>,
    young: Arc<Semaphore>,
    size: AtomicUsize,
    most: usize,
}

impl Budget {
    /// A budget that never exceeds `most` bytes.
    pub(super) fn new(most: usize) -> Self {
        let size = LEAST_BUDGET.min(most).max(PIECE);
        Budget {
            old: Arc::new(Semaphore::new(size)),
            young: Arc::new(Semaphore::new(YOUNG_BUDGET)),
            size: AtomicUsize::new(size),
            most: most.max(size),
        }
    }

    /// Sets the size, within its bounds. If it shrinks, bytes that are free go at once and the
    /// others with the next calls. One task calls it.
    pub(super) fn resize(&self, wanted: usize) {
        let wanted = wanted.clamp(LEAST_BUDGET.min(self.most), self.most);
        let size = self.size.load(Ordering::Relaxed);
        let next = if wanted >= size {
            self.old.add_permits(wanted - size);
            wanted
        } else {
            size - self.old.forget_permits(size - wanted)
        };
        self.size.store(next, Ordering::Relaxed);
    }

    /// Waits for its turn, and takes up to `most` bytes, but at most a piece.
    pub(super) async fn take(&self, most: usize, is_young: bool) -> OwnedSemaphorePermit {
        let (pool, piece) = if is_young { (&self.young, YOUNG_PIECE) } else { (&self.old, PIECE) };
        let bytes = u32::try_from(most.clamp(1, piece)).unwrap_or(1);
        // Neither pool is ever closed.
        loop {
            if let Ok(permit) = Arc::clone(pool).acquire_many_owned(bytes).await {
                return permit;
            }
        }
    }
}

/// A piece of a stream with its share of the budget, which returns when QUIC drops the piece: when
/// it was acknowledged, or the stream was reset.
struct Piece {
    data: Vec<u8>,
    _share: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

/// Bytes for QUIC that hold their share of the budget as long as they exist. What the share has too
/// much returns at once.
pub(super) fn piece(data: Vec<u8>, mut share: OwnedSemaphorePermit) -> Bytes {
    drop(share.split(share.num_permits().saturating_sub(data.len())));
    Bytes::from_owner(Piece { data, _share: share })
}

/// Recent activity of a stream: a bucket of [`Age::BURST`] bytes that fills with [`Age::RATE`].
#[derive(Debug)]
pub(super) struct Age {
    left: f64,
    last: Instant,
}

impl Age {
    /// Bytes after which a stream that sends steadily is old.
    const BURST: f64 = 16384.0;
    /// Bytes per second that a young stream may send.
    const RATE: f64 = 16384.0;

    pub(super) fn new(now: Instant) -> Self {
        Age { left: Age::BURST, last: now }
    }

    pub(super) fn is_young(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.last).as_secs_f64();
        self.last = now;
        self.left = (self.left + passed * Age::RATE).min(Age::BURST);
        self.left >= YOUNG_PIECE as f64 / 4.0
    }

    pub(super) fn on_sent(&mut self, bytes: usize) {
        // A long upload is young again a second after its end.
        self.left = (self.left - bytes as f64).max(-Age::RATE);
    }
}

/// The offset up to which the receiver takes bytes of a stream, at the sender.
#[derive(Debug)]
pub(super) struct Credit {
    limit: AtomicU64,
    more: Notify,
}

impl Credit {
    pub(super) fn new() -> Self {
        Credit { limit: AtomicU64::new(FIRST_CREDIT), more: Notify::new() }
    }

    /// The receiver takes bytes up to this offset. It never goes back.
    pub(super) fn raise(&self, limit: u64) {
        if self.limit.fetch_max(limit, Ordering::AcqRel) < limit {
            self.more.notify_one();
        }
    }

    /// Number of bytes that may be sent after `sent`; waits until there is one.
    pub(super) async fn after(&self, sent: u64) -> u64 {
        loop {
            let left = self.limit.load(Ordering::Acquire).saturating_sub(sent);
            if left > 0 {
                return left;
            }
            self.more.notified().await;
        }
    }
}

/// Bytes of a connection that may be granted to streams beyond their first credit.
#[derive(Debug)]
pub(super) struct Pool {
    free: Mutex<u64>,
}

impl Pool {
    pub(super) fn new(bytes: u64) -> Self {
        Pool { free: Mutex::new(bytes) }
    }

    /// Takes up to `wanted` bytes, at most an eighth of the free ones, so that some are left for
    /// others.
    fn take(&self, wanted: u64) -> u64 {
        let mut free = lock(&self.free);
        let taken = wanted.min(*free / 8);
        *free -= taken;
        taken
    }

    fn give_back(&self, bytes: u64) {
        *lock(&self.free) += bytes;
    }

    /// Bytes that are free.
    #[cfg(test)]
    fn free(&self) -> u64 {
        *lock(&self.free)
    }
}

/// Grants of the receiver of a stream. The window is four times what the reader took in the
/// last round trip: TCP takes twice for the doubling of slow start, and lost bytes need about a
/// round trip more.
#[derive(Debug)]
pub(super) struct Grant {
    pool: Arc<Pool>,
    /// Bytes that the reader took.
    taken: u64,
    /// Offset that the sender knows.
    granted: u64,
    window: u64,
    /// Bytes of the pool that this stream has.
    extra: u64,
    round: Instant,
    taken_before: u64,
}

impl Grant {
    pub(super) fn new(pool: Arc<Pool>, now: Instant) -> Self {
        Grant {
            pool,
            taken: 0,
            granted: FIRST_CREDIT,
            window: FIRST_CREDIT,
            extra: 0,
            round: now,
            taken_before: 0,
        }
    }

    /// Grants a larger window at the beginning, if there is plenty; returns the offset.
    pub(super) fn begin(&mut self) -> Option<u64> {
        self.widen(8 * FIRST_CREDIT);
        self.offset()
    }

    /// The reader took bytes. Returns the offset to grant, if it is time.
    pub(super) fn on_taken(&mut self, bytes: u64, now: Instant, rtt: Duration) -> Option<u64> {
        self.taken += bytes;
        let passed = now.saturating_duration_since(self.round);
        if passed >= rtt {
            let recent = self.taken - self.taken_before;
            // Several round trips may have passed.
            let rounds = (passed.as_secs_f64() / rtt.as_secs_f64().max(1e-6)).max(1.0);
            let wanted = (4.0 * recent as f64 / rounds) as u64;
            if wanted > self.window {
                self.widen(wanted);
            } else {
                self.narrow(wanted.max(self.window / 2));
            }
            (self.round, self.taken_before) = (now, self.taken);
        }
        self.offset()
    }

    fn widen(&mut self, wanted: u64) {
        let wanted = wanted.min(LARGEST_WINDOW);
        let more = self.pool.take(wanted.saturating_sub(self.window));
        self.extra += more;
        self.window += more;
    }

    fn narrow(&mut self, wanted: u64) {
        // Granted bytes stay with this stream until the reader took it.
        let outstanding = self.granted - self.taken;
        let least = wanted.max(FIRST_CREDIT).max(outstanding);
        let less = self.window.saturating_sub(least).min(self.extra);
        self.extra -= less;
        self.window -= less;
        self.pool.give_back(less);
    }

    /// The offset, if it is a quarter of the window beyond what the sender knows.
    fn offset(&mut self) -> Option<u64> {
        let offset = self.taken + self.window;
        if offset < self.granted + self.window / 4 {
            return None;
        }
        self.granted = offset;
        Some(offset)
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.pool.give_back(self.extra);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[tokio::test]
    async fn pieces_hold_their_share_until_they_are_dropped() {
        let budget = Budget::new(1 << 20);
        let share = budget.take(usize::MAX, false).await;
        assert_eq!(share.num_permits(), PIECE);
        let bytes = piece(vec![7; 1000], share);
        assert_eq!(budget.old.available_permits(), LEAST_BUDGET - 1000);
        let half = bytes.slice(500..);
        drop(bytes);
        assert_eq!(budget.old.available_permits(), LEAST_BUDGET - 1000);
        drop(half);
        assert_eq!(budget.old.available_permits(), LEAST_BUDGET);
        // Young streams are served whatever the others hold.
        let all = Arc::clone(&budget.old).acquire_many_owned(LEAST_BUDGET as u32).await;
        assert_eq!(budget.take(usize::MAX, true).await.num_permits(), YOUNG_PIECE);
        drop(all);
    }

    #[tokio::test]
    async fn the_budget_follows_and_shrinks_as_bytes_return() {
        let budget = Budget::new(1 << 20);
        budget.resize(300_000);
        assert_eq!(budget.old.available_permits(), 300_000);
        budget.resize(usize::MAX);
        assert_eq!(budget.old.available_permits(), 1 << 20);
        let held = Arc::clone(&budget.old).acquire_many_owned((1 << 20) - 1000).await;
        budget.resize(280_000);
        assert_eq!(budget.old.available_permits(), 0);
        drop(held);
        budget.resize(280_000);
        assert_eq!(budget.old.available_permits(), 280_000);
    }

    #[test]
    fn a_stream_is_old_after_a_burst_and_young_after_a_pause() {
        let start = clock::now();
        let mut age = Age::new(start);
        assert!(age.is_young(start));
        age.on_sent(16_000);
        assert!(!age.is_young(start));
        age.on_sent(1 << 20);
        // From -16384 to 1024 bytes takes 17408 / 16384 = 1.0625 s.
        assert!(!age.is_young(start + Duration::from_millis(1062)));
        assert!(age.is_young(start + Duration::from_millis(1063)));
    }

    #[test]
    fn a_window_follows_its_reader() {
        let pool = Arc::new(Pool::new(8 << 20));
        let (start, rtt) = (clock::now(), Duration::from_millis(100));
        let mut grant = Grant::new(Arc::clone(&pool), start);
        assert_eq!(grant.begin(), Some(8 * FIRST_CREDIT));
        // 256 KiB per round trip: a window of 1 MiB, of which the pool gives 7/8 x 1/8 at once.
        let mut now = start;
        for _ in 0..20 {
            now += rtt;
            grant.on_taken(256 << 10, now, rtt);
        }
        assert!(grant.window > 1_000_000 && grant.window <= 1 << 20, "{}", grant.window);
        assert_eq!(pool.free() + grant.extra, 8 << 20);
        // A slow reader gets less, but never less than was granted and not taken.
        for _ in 0..40 {
            now += rtt;
            grant.on_taken(4 << 10, now, rtt);
            assert!(grant.window >= grant.granted - grant.taken);
        }
        drop(grant);
        assert_eq!(pool.free(), 8 << 20);
    }

    #[test]
    fn readers_that_read_nothing_leave_room_for_others() {
        let pool = Arc::new(Pool::new(8 << 20));
        let now = clock::now();
        let stalled: Vec<Grant> = (0..1000)
            .map(|_| {
                let mut grant = Grant::new(Arc::clone(&pool), now);
                grant.begin();
                grant
            })
            .collect();
        let held: u64 = stalled.iter().map(|grant| grant.window).sum();
        assert!(held <= 1000 * FIRST_CREDIT + (8 << 20));
        let mut last = Grant::new(Arc::clone(&pool), now);
        assert!(last.begin().is_some() || last.window == FIRST_CREDIT);
    }
}
