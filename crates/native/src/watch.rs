//! The call of foreign code that each thread is in, so that one that never returns is found.

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// A call of foreign code: a function of a library, or a method of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Call {
    /// The code is loaded.
    Load = 1,
    /// A connection begins.
    Create,
    /// An acknowledgment.
    OnAck,
    /// Congestion, in a library.
    OnLoss,
    /// A timeout, in a library.
    OnTimeout,
    /// The window is read.
    Cwnd,
    /// The pacing rate is read.
    PacingRate,
    /// A connection ends.
    Destroy,
    /// Congestion, in a class.
    OnCongestion,
    /// A timeout, in a class.
    OnReset,
    /// A method that no other variant names.
    Other,
}

/// Names of the calls, in the order of [`Call`].
const NAMES: [&str; 11] = [
    "loading",
    "create",
    "on_ack",
    "on_loss",
    "on_timeout",
    "cwnd",
    "pacing_rate",
    "destroy",
    "on_congestion",
    "on_reset",
    "a method",
];

impl Call {
    /// The call of a method.
    pub fn of(method: &str) -> Self {
        match method {
            "on_ack" => Call::OnAck,
            "on_congestion" => Call::OnCongestion,
            "on_reset" => Call::OnReset,
            _ => Call::Other,
        }
    }
}

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

/// The slots of all threads that have called foreign code.
static SLOTS: Mutex<Vec<Arc<Slot>>> = Mutex::new(Vec::new());

thread_local! {
    static MINE: Arc<Slot> = {
        let slot = Arc::new(Slot::default());
        SLOTS.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&slot));
        slot
    };
}

/// Notes that this thread is in a call at this simulated time, nanoseconds, until the value is
/// dropped.
#[must_use]
pub fn enter(call: Call, now_ns: u64) -> Inside {
    MINE.with(|slot| {
        // Only this thread writes.
        slot.calls.store(slot.calls.load(Relaxed) + 1, Relaxed);
        slot.now_ns.store(now_ns, Relaxed);
        slot.call.store(call as u8, Relaxed);
    });
    Inside(())
}

/// A call in progress.
#[derive(Debug)]
pub struct Inside(());

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

/// Finds calls that never return.
#[derive(Debug, Default)]
pub struct Watch {
    /// For each thread: its calls at the last look, and the looks since then in the same call.
    before: Vec<(u64, u32)>,
}

impl Watch {
    /// The call, if there is one, in which a thread has been in this look and the `looks` before
    /// it. The caller's pace of looking makes a time of it, which does not pass while the process
    /// is stopped.
    pub fn look(&mut self, looks: u32) -> Option<Stuck> {
        let slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
        self.before.resize(slots.len(), (0, 0));
        for (slot, (calls, waited)) in slots.iter().zip(&mut self.before) {
            let now = slot.calls.load(Relaxed);
            let call = slot.call.load(Relaxed);
            *waited = if call != 0 && now == *calls { *waited + 1 } else { 0 };
            *calls = now;
            if *waited >= looks {
                let function = NAMES.get(usize::from(call) - 1).copied().unwrap_or("a call");
                return Some(Stuck { function, at_s: slot.now_ns.load(Relaxed) as f64 / 1e9 });
            }
        }
        None
    }
}
