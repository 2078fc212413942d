//! The events between the axes: an acknowledgment, a loss, congestion, a reset.
//!
//! Each event is a value that each part receives once. A part keeps nothing from one call to the
//! next that the next event repeats. Sequence numbers and windows are counted in packets.

use super::estimator::LossRate;
use crate::packet::{CongestionHeader, Flags};
use crate::units::{Duration, Probability, Time};

/// The path as the sender sees it at one instant.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Path {
    /// The instant.
    pub now: Time,
    /// The congestion window, packets.
    pub cwnd: f64,
    /// Packets outstanding before this instant, no more than cwnd (RFC 5681: FlightSize without
    /// what limited transmit let out beyond cwnd).
    pub in_flight: f64,
    /// The latest RTT sample, exact; zero before the first.
    pub rtt: Duration,
    /// The smoothed RTT, in ticks of the sender's clock; zero before the first sample.
    pub srtt: Duration,
    /// The smallest RTT sample, exact; zero before the first.
    pub min_rtt: Duration,
    /// The bandwidth estimate of protocols that keep one, packets per second; else zero.
    pub bandwidth: f64,
}

impl Path {
    /// The packets that fill the pipe at the estimated bandwidth without a queue:
    /// bandwidth times the smallest RTT.
    pub fn pipe(&self) -> f64 {
        self.bandwidth * self.min_rtt.as_secs_f64()
    }
}

/// An acknowledgment.
#[derive(Debug, Clone, Copy, Default)]
pub struct AckEvent {
    /// The path, this acknowledgment included.
    pub path: Path,
    /// Packets it acknowledged for the first time; 0 for a duplicate.
    pub newly_acked: u64,
    /// The same in bytes on the wire.
    pub newly_acked_bytes: u64,
    /// Packets that it acknowledged cumulatively or showed to have arrived out of order, where
    /// recovery reads SACK blocks; else [`AckEvent::newly_acked`], or 1 for a duplicate.
    pub delivered: u64,
    /// Packets that recovery found lost by it.
    pub lost: u64,
    /// The packets that growth counts it for: 1, or the packets acknowledged if growth goes by
    /// bytes (RFC 3465); see [`super::EndpointConfig::byte_counting`].
    pub growth: f64,
    /// True if it acknowledges a part of a packet, as only a receiver that divides acknowledgments
    /// does. Then [`AckEvent::newly_acked`] and `delivered` are 0, and growth counts it for 1. Sent
    /// only if growth counts acknowledgments.
    pub is_part: bool,
    /// True if recovery allows growth by the data delivered, whatever [`AckEvent::in_recovery`]
    /// says: see [`Numbers::raises`](super::recovery::Numbers::raises).
    pub raises: bool,
    /// True while loss recovery repairs a window whose congestion the controller knows.
    pub in_recovery: bool,
    /// True if the congestion window kept the sender from sending more.
    pub cwnd_limited: bool,
    /// The first packet not acknowledged (lack + 1).
    pub una: u64,
    /// One past the highest packet ever sent.
    pub high: u64,
    /// One past the highest packet ever found lost, where recovery numbers transmissions; else 0.
    /// Losses are not repaired as long as [`AckEvent::una`] is below it.
    pub lost_until: u64,
    /// The time at which the packet that triggered it was sent.
    pub sent: Time,
    /// The number of that transmission.
    pub packet_seq: u64,
    /// The bits it echoes.
    pub flags: Flags,
    /// The echoed congestion header.
    pub header: CongestionHeader,
}

impl AckEvent {
    /// True if a window may grow on it as TCP's does: on new data, outside loss recovery, and only
    /// while cwnd limits the sender (RFC 5681 section 4.1 in spirit; RFC 7661).
    #[inline]
    pub fn allows_growth(&self) -> bool {
        (self.newly_acked > 0 || self.is_part) && !self.in_recovery && self.cwnd_limited
    }
}

/// A loss, as discrimination sees it.
#[derive(Debug, Clone, Copy)]
pub struct LossEvent {
    /// The path when the loss was noticed.
    pub path: Path,
    /// The first packet that is missing.
    pub seq: u64,
    /// The sign of the loss.
    pub sign: LossSign,
    /// The losses of the connection so far.
    pub rate: LossRate,
}

/// The sign by which a sender notices a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossSign {
    /// Acknowledgments of later packets.
    Acknowledgments,
    /// Silence: the recovery timer expired.
    Timeout,
}

/// Congestion noticed by a loss or an ECN mark; at most once per window.
#[derive(Debug, Clone, Copy)]
pub struct CongestionEvent {
    /// The path when it was noticed.
    pub path: Path,
    /// The probability that the cause was congestion; above zero.
    pub probability: Probability,
    /// The first packet not acknowledged.
    pub una: u64,
    /// One past the highest packet ever sent: all packets sent before belong to the window that
    /// this congestion concerns.
    pub high: u64,
    /// The time at which the packet was sent whose acknowledgment reported it.
    pub sent: Time,
    /// True if an ECN mark reported it, and not a loss.
    pub marked: bool,
}

impl CongestionEvent {
    /// The share of the window that a decrease to `beta` leaves: the whole decrease for certain
    /// congestion, else a decrease in proportion to the probability (eten2004, equation (1), for
    /// beta = 1/2).
    #[inline]
    pub fn kept(&self, beta: f64) -> f64 {
        self.probability.toward(1.0, beta)
    }
}

/// A time without packets in flight, after which the application sends again.
#[derive(Debug, Clone, Copy)]
pub struct Idle {
    /// The instant of the next packet.
    pub now: Time,
    /// The time since the latest packet.
    pub time: Duration,
    /// The retransmission timeout, if the window decays; `None` if it stays.
    pub timeout: Option<Duration>,
    /// The initial window, packets.
    pub initial: f64,
}

impl Idle {
    /// The window after it, packets. Half is left for each timeout that it lasted, and at least the
    /// restart window, min(IW, cwnd) (RFC 5681 section 4.1, and RFC 2861 for the decay; Linux:
    /// tcp_cwnd_restart).
    pub fn window(&self, cwnd: f64) -> f64 {
        let Some(timeout) = self.timeout.filter(|timeout| !timeout.is_zero()) else { return cwnd };
        let restart = cwnd.min(self.initial);
        let mut window = cwnd;
        // Linux halves for each whole timeout but not for the rest.
        for _ in 0..(self.time.as_ps().saturating_sub(1) / timeout.as_ps()).min(64) {
            window = if window > restart { (window / 2.0).trunc() } else { window };
        }
        window.max(restart)
    }
}

/// The cause of a reset, after which the connection starts again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetCause {
    /// The retransmission timer expired (RFC 5681 section 3.1; lr2008 section 2.2.3).
    Timeout,
    /// All packets sent over more than three probe timeouts were lost (RFC 9002 section 7.6).
    PersistentCongestion,
}

/// The window that a timeout leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterTimeout {
    /// The restart window, whatever the verdict.
    Restart,
    /// The restart window and a share of cwnd above it, in proportion to the probability of
    /// corruption.
    Share,
    /// The window that any other loss leaves with Reno, [`ResetEvent::kept`] of one half: no
    /// restart.
    Decrease,
}

/// The connection starts again.
#[derive(Debug, Clone, Copy)]
pub struct ResetEvent {
    /// The path before the reset.
    pub path: Path,
    /// The cause.
    pub cause: ResetCause,
    /// True if ssthresh was already set for this silence: the timer had expired before without a
    /// new acknowledgment in between, or the losses that amount to persistent congestion were
    /// reported before.
    pub repeated: bool,
    /// The probability that the cause was congestion.
    pub probability: Probability,
    /// The window that it leaves.
    pub leaves: AfterTimeout,
    /// The first packet not acknowledged.
    pub una: u64,
    /// One past the highest packet ever sent.
    pub high: u64,
}

impl ResetEvent {
    /// The share of the window for ssthresh: as [`CongestionEvent::kept`].
    #[inline]
    pub fn kept(&self, beta: f64) -> f64 {
        self.probability.toward(1.0, beta)
    }

    /// cwnd after the reset, packets: one after a timeout (RFC 5681 equation (4): the loss
    /// window), two after persistent congestion (RFC 9002 section 7.2: kMinimumWindow), and more
    /// if [`ResetEvent::leaves`] says so.
    #[inline]
    pub fn window_after(&self, cwnd: f64) -> f64 {
        let restart = match self.cause {
            ResetCause::Timeout => 1.0,
            ResetCause::PersistentCongestion => 2.0,
        };
        match self.leaves {
            AfterTimeout::Restart => restart,
            AfterTimeout::Share => {
                restart + (cwnd - restart).max(0.0) * (1.0 - self.probability.get())
            }
            AfterTimeout::Decrease => (cwnd * self.kept(0.5)).max(restart),
        }
    }
}

#[cfg(test)]
impl CongestionEvent {
    /// Certain congestion on this path, for unit tests of controllers.
    pub(crate) fn certain(path: Path) -> Self {
        let (una, high, sent) = (0, 0, Time::ZERO);
        CongestionEvent { path, probability: Probability::ONE, una, high, sent, marked: false }
    }
}

#[cfg(test)]
impl ResetEvent {
    /// A first timeout by certain congestion on this path, for unit tests of controllers.
    pub(crate) fn timeout(path: Path) -> Self {
        ResetEvent {
            path,
            cause: ResetCause::Timeout,
            repeated: false,
            probability: Probability::ONE,
            leaves: AfterTimeout::Restart,
            una: 0,
            high: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_leaves_the_restart_window_and_what_is_spared_above_it() {
        let reset = ResetEvent::timeout(Path::default());
        assert_eq!(reset.window_after(300.0), 1.0);
        let quarter = Probability::new(0.25).unwrap();
        // 1 + 40 x 3/4.
        let leaves = AfterTimeout::Share;
        let spared = ResetEvent { probability: quarter, leaves, ..reset };
        assert_eq!(spared.window_after(41.0), 31.0);
        // 40 x (1 - 1/8), and a half for certain congestion; one packet at least.
        let leaves = AfterTimeout::Decrease;
        assert_eq!(ResetEvent { leaves, ..spared }.window_after(40.0), 35.0);
        assert_eq!(ResetEvent { leaves, ..reset }.window_after(40.0), 20.0);
        assert_eq!(ResetEvent { leaves, ..reset }.window_after(1.5), 1.0);
        let cause = ResetCause::PersistentCongestion;
        assert_eq!(ResetEvent { cause, ..reset }.window_after(300.0), 2.0);
        assert_eq!(ResetEvent { cause, ..spared }.window_after(1.0), 2.0, "never a larger part");
    }

    #[test]
    fn idleness_halves_the_window_down_to_the_initial_one() {
        let idle = |ms| Idle {
            now: Time::ZERO,
            time: Duration::from_millis(ms),
            timeout: Some(Duration::from_millis(300)),
            initial: 10.0,
        };
        assert_eq!(idle(300).window(36.0), 36.0);
        assert_eq!(idle(301).window(36.0), 18.0);
        // 36, 18, and 9 is below the initial window.
        assert_eq!(idle(2000).window(36.0), 10.0);
        assert_eq!(idle(2000).window(4.0), 4.0, "never larger");
        assert_eq!(Idle { timeout: None, ..idle(2000) }.window(36.0), 36.0);
    }

    #[test]
    fn the_pipe_is_what_bandwidth_and_propagation_hold() {
        // 200 packets a second for 80 ms.
        let min_rtt = Duration::from_millis(80);
        let path = Path { min_rtt, bandwidth: 200.0, ..Path::default() };
        assert!((path.pipe() - 16.0).abs() < 1e-9);
    }

    #[test]
    fn a_decrease_is_scaled_by_its_probability() {
        let event = CongestionEvent::certain(Path::default());
        assert_eq!(event.kept(0.7), 0.7, "to the bit");
        let half = CongestionEvent { probability: Probability::new(0.5).unwrap(), ..event };
        assert_eq!(half.kept(0.5), 0.75);
    }
}
