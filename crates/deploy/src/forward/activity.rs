//! Silence of forwarded connections, and when it ends them.

use std::future;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::sleep;

use crate::clock;
use crate::sync::lock;

/// State of a connection, as far as it says whether somebody uses it.
#[derive(Debug)]
pub(super) struct Activity {
    /// Longest silence in general, and after one direction has ended; none without a limit.
    longest: Option<(Duration, Duration)>,
    last: Mutex<Instant>,
    is_half_closed: AtomicBool,
    /// True while bytes wait for a reader that does not read.
    is_stuck: AtomicBool,
    must_end: AtomicBool,
    look: Notify,
}

impl Activity {
    pub(super) fn new(longest: Option<(Duration, Duration)>) -> Self {
        Activity {
            longest,
            last: Mutex::new(clock::now()),
            is_half_closed: AtomicBool::new(false),
            is_stuck: AtomicBool::new(false),
            must_end: AtomicBool::new(false),
            look: Notify::new(),
        }
    }

    /// Bytes have passed.
    pub(super) fn touch(&self) {
        *lock(&self.last) = clock::now();
    }

    /// One direction has ended.
    pub(super) fn end_direction(&self) {
        self.touch();
        self.is_half_closed.store(true, Ordering::Relaxed);
        self.look.notify_one();
    }

    pub(super) fn set_stuck(&self, is_stuck: bool) {
        self.is_stuck.store(is_stuck, Ordering::Relaxed);
    }

    /// Time of silence of a connection whose program may have gone: one direction has ended, or is
    /// stuck so that its end would not be seen.
    pub(super) fn abandoned(&self, now: Instant) -> Option<Duration> {
        let is = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        let may = (is(&self.is_half_closed) || is(&self.is_stuck)) && !is(&self.must_end);
        may.then(|| now.duration_since(*lock(&self.last)))
    }

    /// Ends the connection, since another one needs its place.
    pub(super) fn expel(&self) {
        self.must_end.store(true, Ordering::Relaxed);
        self.look.notify_one();
    }

    /// Completes when the connection must end, with the time of its silence.
    pub(super) async fn silence(&self) -> Duration {
        loop {
            let silent = clock::now().duration_since(*lock(&self.last));
            let longest = self.longest.map(|(idle, half_closed)| {
                if self.is_half_closed.load(Ordering::Relaxed) { half_closed } else { idle }
            });
            if self.must_end.load(Ordering::Relaxed) || longest.is_some_and(|most| silent >= most) {
                return silent;
            }
            let over = async {
                match longest {
                    Some(longest) => sleep(longest - silent).await,
                    None => future::pending().await,
                }
            };
            tokio::select! {
                () = over => {}
                () = self.look.notified() => {}
            }
        }
    }
}
