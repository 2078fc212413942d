//! The call of each thread, and a thread that finds calls that never return.

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A function of a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Call {
    Create = 1,
    OnAck,
    OnLoss,
    OnTimeout,
    Cwnd,
    PacingRate,
    Destroy,
}

/// Names of the functions, in the order of [`Call`].
const NAMES: [&str; 7] =
    ["create", "on_ack", "on_loss", "on_timeout", "cwnd", "pacing_rate", "destroy"];

/// The call that a thread is in.
#[derive(Debug, Default)]
struct Slot {
    /// The function; zero outside of calls.
    call: AtomicU8,
    /// Number of calls so far.
    calls: AtomicU64,
    /// Simulated time, nanoseconds.
    now_ns: AtomicU64,
}

/// The slots of all threads that have called a library.
static SLOTS: Mutex<Vec<Arc<Slot>>> = Mutex::new(Vec::new());

thread_local! {
    static MINE: Arc<Slot> = {
        let slot = Arc::new(Slot::default());
        SLOTS.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&slot));
        slot
    };
}

/// Notes that this thread is in a call, until the value is dropped.
pub(crate) fn enter(call: Call, now_ns: u64) -> Inside {
    MINE.with(|slot| {
        // Only this thread writes.
        slot.calls.store(slot.calls.load(Relaxed) + 1, Relaxed);
        slot.now_ns.store(now_ns, Relaxed);
        slot.call.store(call as u8, Relaxed);
    });
    Inside
}

/// A call in progress.
pub(crate) struct Inside;

impl Drop for Inside {
    fn drop(&mut self) {
        MINE.with(|slot| slot.call.store(0, Relaxed));
    }
}

/// A call that has not returned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stuck {
    /// The function.
    pub function: &'static str,
    /// Simulated time, seconds.
    pub at_s: f64,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} does not return, at {} s of simulated time", self.function, self.at_s)
    }
}

/// Calls `stuck` once if a call of a library does not return in `seconds`. The seconds are those of
/// this thread: they do not pass while the process is stopped.
pub fn watch(seconds: u32, stuck: impl FnOnce(Stuck) + Send + 'static) {
    std::thread::spawn(move || {
        let mut before: Vec<(u64, u32)> = Vec::new();
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
            before.resize(slots.len(), (0, 0));
            for (slot, (calls, waited)) in slots.iter().zip(&mut before) {
                let now = slot.calls.load(Relaxed);
                let call = slot.call.load(Relaxed);
                *waited = if call != 0 && now == *calls { *waited + 1 } else { 0 };
                *calls = now;
                if *waited >= seconds {
                    let function = NAMES.get(usize::from(call) - 1).copied().unwrap_or("a call");
                    let at_s = slot.now_ns.load(Relaxed) as f64 / 1e9;
                    stuck(Stuck { function, at_s });
                    return;
                }
            }
        }
    });
}
