//! Valid answers of controllers of other projects: one definition for crates, QUIC stacks, shared
//! libraries, classes in Python and expressions.
//!
//! An invalid answer is a [`Fault`], which voids the run. The sender continues with a valid window
//! until the program that drives it calls [`fault`].

use std::cell::RefCell;
use std::fmt;

use crate::units::Time;

/// The smallest valid window, packets.
pub const LEAST_WINDOW: f64 = 1.0;
/// The largest valid window, packets: 1.5 GB in packets of 1500 bytes, more than any receiver of
/// TCP can announce (RFC 7323 section 2.3).
pub const LARGEST_WINDOW: f64 = (1_u32 << 20) as f64;
/// The smallest valid pacing rate, packets per second: a packet in ten seconds.
pub const LEAST_RATE: f64 = 0.1;

/// Packets that may be sent for each that arrives ...
const SENT_PER_DELIVERED: u64 = 50;
/// ... and before the first, for paths that lose all for a while.
const SENT_AHEAD: u64 = 1 << 17;

/// An error of a controller.
#[derive(Debug, Clone, PartialEq)]
pub enum Wrong {
    /// A window, packets, that is not a number from [`LEAST_WINDOW`] to [`LARGEST_WINDOW`].
    Window(f64),
    /// A pacing rate, packets per second, that is not finite or less than [`LEAST_RATE`].
    PacingRate(f64),
    /// It sent far more packets than arrived, so that the run has no end.
    Flood {
        /// Packets sent.
        sent: u64,
        /// Packets that arrived.
        delivered: u64,
    },
    /// Another answer, as a clause: `create returned NULL`.
    Answer(String),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Window(packets) => write!(
                f,
                "it gave a window of {} packets (valid: {LEAST_WINDOW} to {LARGEST_WINDOW})",
                Short(*packets)
            ),
            Wrong::PacingRate(rate) => write!(
                f,
                "it gave a pacing rate of {} packets per second (valid: finite, at least \
                 {LEAST_RATE})",
                Short(*rate)
            ),
            Wrong::Flood { sent, delivered } => write!(
                f,
                "it sent {sent} packets of which {delivered} arrived, far more than the path \
                 carries"
            ),
            Wrong::Answer(what) => f.write_str(what),
        }
    }
}

/// A number without a row of zeros: `1e300`.
struct Short(f64);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.0.abs();
        match size == 0.0 || (1e-4..1e10).contains(&size) || !size.is_finite() {
            true => write!(f, "{}", self.0),
            false => write!(f, "{:e}", self.0),
        }
    }
}

/// A fault of a controller, which voids the run.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// Name of the controller.
    pub part: String,
    /// The error.
    pub wrong: Wrong,
    /// The simulated time.
    pub at: Time,
    /// The event after which it came, with an article: `an acknowledgment`.
    pub after: &'static str,
}

impl Fault {
    /// The fault as a clause without the controller: value, event and time.
    pub fn clause(&self) -> String {
        let Fault { wrong, at, after, .. } = self;
        format!("{wrong}, after {after} at {} s of simulated time", at.as_secs_f64())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.part, self.clause())
    }
}

thread_local! {
    /// The first fault on this thread since it was last asked for. A run stays on one thread.
    static FAULT: RefCell<Option<Fault>> = const { RefCell::new(None) };
}

/// Takes the first fault in the runs of this thread since the last call.
pub fn fault() -> Option<Fault> {
    FAULT.with(|fault| fault.borrow_mut().take())
}

/// Records a fault, unless there is one.
pub fn record(fault: Fault) {
    FAULT.with(|first| {
        first.borrow_mut().get_or_insert(fault);
    });
}

/// True for a valid window, packets.
pub fn is_window(packets: f64) -> bool {
    (LEAST_WINDOW..=LARGEST_WINDOW).contains(&packets)
}

/// True for a valid pacing rate, packets per second.
pub fn is_rate(rate: f64) -> bool {
    rate.is_finite() && rate >= LEAST_RATE
}

/// Judges the answers of one controller, and makes of each what a sender can use.
#[derive(Debug, Clone)]
pub struct Judge {
    part: &'static str,
    now: Time,
    after: &'static str,
    sent: u64,
    delivered: u64,
    refused: u64,
}

impl Judge {
    /// A judge of the controller of this name, at the start of its connection.
    pub fn new(part: &'static str) -> Self {
        Judge { part, now: Time::ZERO, after: "the start", sent: 0, delivered: 0, refused: 0 }
    }

    /// Notes the event that the next answers follow.
    #[inline]
    pub fn after(&mut self, event: &'static str, now: Time) {
        (self.after, self.now) = (event, now);
    }

    /// Notes packets that left.
    #[inline]
    pub fn sent(&mut self, packets: u64, now: Time) {
        self.sent += packets;
        if self.floods() {
            self.now = now;
            let (sent, delivered) = (self.sent, self.delivered);
            self.record(Wrong::Flood { sent, delivered });
        }
    }

    /// Notes packets that arrived.
    #[inline]
    pub fn delivered(&mut self, packets: u64) {
        self.delivered += packets;
    }

    /// True once it sent far more than arrived: then its window is one packet.
    #[inline]
    pub fn floods(&self) -> bool {
        self.sent > SENT_AHEAD + SENT_PER_DELIVERED * self.delivered
    }

    /// The window to use for this one, packets.
    pub fn window(&mut self, packets: f64) -> f64 {
        if self.floods() {
            return LEAST_WINDOW;
        }
        if is_window(packets) {
            return packets;
        }
        self.refused += 1;
        self.record(Wrong::Window(packets));
        // NaN fails every comparison and becomes one packet.
        if packets > LARGEST_WINDOW { LARGEST_WINDOW } else { LEAST_WINDOW }
    }

    /// Checks a pacing rate, packets per second; `None` for no limit but the window.
    pub fn pacing_rate(&mut self, rate: Option<f64>) {
        if let Some(rate) = rate.filter(|rate| !is_rate(*rate)) {
            self.record(Wrong::PacingRate(rate));
        }
    }

    /// The number of invalid windows.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    #[cold]
    fn record(&self, wrong: Wrong) {
        record(Fault { part: self.part.to_owned(), wrong, at: self.now, after: self.after });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_valid_and_what_is_used_instead() {
        let used = |packets| {
            let mut judge = Judge::new("mine");
            judge.after("a loss", Time::from_ps(2_500_000_000_000));
            (judge.window(packets), fault().map(|fault| fault.to_string()))
        };
        for good in [1.0, 1.5, LARGEST_WINDOW] {
            assert_eq!(used(good), (good, None));
        }
        for (bad, instead, said) in [
            (0.0, 1.0, "0"),
            (0.99, 1.0, "0.99"),
            (-3.0, 1.0, "-3"),
            (f64::NAN, 1.0, "NaN"),
            (f64::INFINITY, LARGEST_WINDOW, "inf"),
            (1e300, LARGEST_WINDOW, "1e300"),
            (f64::NEG_INFINITY, 1.0, "-inf"),
        ] {
            let said = format!(
                "mine: it gave a window of {said} packets (valid: 1 to 1048576), after a loss at \
                 2.5 s of simulated time"
            );
            assert_eq!(used(bad), (instead, Some(said)));
        }
        for bad in [0.0, -1.0, 1e-300, 0.099, f64::NAN, f64::INFINITY] {
            let mut judge = Judge::new("mine");
            judge.pacing_rate(Some(bad));
            assert!(matches!(fault().unwrap().wrong, Wrong::PacingRate(_)), "{bad}");
        }
        let mut judge = Judge::new("mine");
        [None, Some(0.1), Some(1e9)].into_iter().for_each(|rate| judge.pacing_rate(rate));
        assert_eq!(fault(), None);
    }

    #[test]
    fn a_flood_has_an_end() {
        let mut judge = Judge::new("mine");
        judge.delivered(1000);
        // 131072 + 50 x 1000.
        judge.sent(181_072, Time::ZERO);
        assert_eq!((judge.window(1e6), fault()), (1e6, None));
        judge.sent(1, Time::ZERO);
        assert_eq!(judge.window(1e6), 1.0);
        assert_eq!(fault().unwrap().wrong, Wrong::Flood { sent: 181_073, delivered: 1000 });
    }
}
