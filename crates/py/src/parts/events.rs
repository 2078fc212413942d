//! Events that parts in Python are told of. Times are in seconds, windows in packets.

use pyo3::prelude::*;
use windward_core::endpoint::event::{
    self, AckEvent, CongestionEvent, LossEvent, LossSign, ResetCause, ResetEvent,
};
use windward_core::packet::Flags;
use windward_core::units::Probability;

/// Values that a congestion controller is made from.
#[pyclass(frozen, get_all, module = "windward")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct ControllerSetup {
    /// The window to begin with, packets.
    pub(crate) initial_window: f64,
    /// The receiver's window, packets.
    pub(crate) rwnd: u64,
    /// For controllers that flip coins: another one for each connection and seed.
    pub(crate) seed: u64,
}

/// The path as the sender sees it at one instant.
#[pyclass(frozen, get_all, module = "windward")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Path {
    /// The instant, seconds.
    now: f64,
    /// The congestion window, packets.
    cwnd: f64,
    /// Packets outstanding before this instant, no more than cwnd.
    in_flight: f64,
    /// The latest RTT sample, seconds; zero before the first.
    rtt: f64,
    /// The smoothed RTT, seconds; zero before the first sample.
    srtt: f64,
    /// The smallest RTT sample, seconds; zero before the first.
    min_rtt: f64,
}

impl From<&event::Path> for Path {
    fn from(path: &event::Path) -> Self {
        Path {
            now: path.now.as_secs_f64(),
            cwnd: path.cwnd,
            in_flight: path.in_flight,
            rtt: path.rtt.as_secs_f64(),
            srtt: path.srtt.as_secs_f64(),
            min_rtt: path.min_rtt.as_secs_f64(),
        }
    }
}

/// An acknowledgment.
#[pyclass(frozen, get_all, module = "windward")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ack {
    /// The instant, seconds.
    now: f64,
    /// The congestion window, packets.
    cwnd: f64,
    /// Packets outstanding before it, no more than cwnd.
    in_flight: f64,
    /// The latest RTT sample, seconds; zero before the first.
    rtt: f64,
    /// The smoothed RTT, seconds; zero before the first sample.
    srtt: f64,
    /// The smallest RTT sample, seconds; zero before the first.
    min_rtt: f64,
    /// Packets acknowledged for the first time; 0 for a duplicate.
    newly_acked: u64,
    /// Packets it showed to have arrived, in order or not.
    delivered: u64,
    /// Packets that recovery found lost by it.
    lost: u64,
    /// The packets that growth counts it for.
    growth: f64,
    /// Is a window being repaired for which congestion was told?
    in_recovery: bool,
    /// Was the window what kept the sender from sending more?
    cwnd_limited: bool,
    /// May a window grow on it as TCP's does?
    allows_growth: bool,
    /// True if it echoes an ECN mark.
    marked: bool,
}

impl From<&AckEvent> for Ack {
    fn from(ack: &AckEvent) -> Self {
        let Path { now, cwnd, in_flight, rtt, srtt, min_rtt } = Path::from(&ack.path);
        Ack {
            now,
            cwnd,
            in_flight,
            rtt,
            srtt,
            min_rtt,
            newly_acked: ack.newly_acked,
            delivered: ack.delivered,
            lost: ack.lost,
            growth: ack.growth,
            in_recovery: ack.in_recovery,
            cwnd_limited: ack.cwnd_limited,
            allows_growth: ack.allows_growth(),
            marked: ack.flags.contains(Flags::ECN_ECHO),
        }
    }
}

/// Congestion, through a loss or a mark; at most once per window.
#[pyclass(frozen, module = "windward")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Congestion {
    event: CongestionEvent,
}

impl From<&CongestionEvent> for Congestion {
    fn from(event: &CongestionEvent) -> Self {
        Congestion { event: *event }
    }
}

#[pymethods]
impl Congestion {
    /// The path when it was noticed.
    #[getter]
    fn path(&self) -> Path {
        Path::from(&self.event.path)
    }

    /// Probability that congestion was the cause; above zero.
    #[getter]
    fn probability(&self) -> f64 {
        self.event.probability.get()
    }

    /// The share of the window that a decrease to ``beta`` of it leaves: all of the decrease for a
    /// certain congestion, as much of it as congestion is likely for another.
    fn kept(&self, beta: f64) -> f64 {
        self.event.kept(beta)
    }
}

/// The connection starts again.
#[pyclass(frozen, module = "windward")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reset {
    event: ResetEvent,
}

impl From<&ResetEvent> for Reset {
    fn from(event: &ResetEvent) -> Self {
        Reset { event: *event }
    }
}

#[pymethods]
impl Reset {
    /// The path before it.
    #[getter]
    fn path(&self) -> Path {
        Path::from(&self.event.path)
    }

    /// ``timeout`` or ``persistent congestion``.
    #[getter]
    fn cause(&self) -> &'static str {
        match self.event.cause {
            ResetCause::Timeout => "timeout",
            ResetCause::PersistentCongestion => "persistent congestion",
        }
    }

    /// Has ssthresh been set for this silence already?
    #[getter]
    fn repeated(&self) -> bool {
        self.event.repeated
    }

    /// Probability that congestion was the cause.
    #[getter]
    fn probability(&self) -> f64 {
        self.event.probability.get()
    }

    /// As ``Congestion.kept``.
    fn kept(&self, beta: f64) -> f64 {
        self.event.kept(beta)
    }

    /// The window after it, packets, given that before: one after a timeout, two after persistent
    /// congestion, more where discrimination spares some.
    fn window_after(&self, cwnd: f64) -> f64 {
        self.event.window_after(cwnd)
    }
}

/// A loss, as discrimination sees it.
#[pyclass(frozen, get_all, module = "windward")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Loss {
    /// The path when it was noticed.
    path: Path,
    /// The data that is missing, the first of it.
    seq: u64,
    /// Did the timer tell of it, and not acknowledgments?
    by_timeout: bool,
}

impl From<&LossEvent> for Loss {
    fn from(loss: &LossEvent) -> Self {
        let by_timeout = loss.sign == LossSign::Timeout;
        Loss { path: Path::from(&loss.path), seq: loss.seq, by_timeout }
    }
}

/// A packet at a queue or on a wire.
#[pyclass(frozen, get_all, module = "windward")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packet {
    /// Bytes on the wire.
    size: u32,
    /// Its sequence number.
    seq: u64,
    /// True for data, false for an ACK.
    is_data: bool,
    /// True if its transport supports ECN.
    ecn_capable: bool,
}

impl From<&windward_core::packet::Packet> for Packet {
    fn from(packet: &windward_core::packet::Packet) -> Self {
        Packet {
            size: packet.size,
            seq: packet.seq,
            is_data: packet.kind != windward_core::packet::PacketKind::Ack,
            ecn_capable: packet.flags.contains(Flags::ECN_CAPABLE),
        }
    }
}

/// A probability that a part gave.
pub(super) fn probability(number: f64) -> Option<Probability> {
    Probability::new(number)
}
