//! Events for parts in Python. Times are in seconds, windows in packets.

use pyo3::prelude::*;
use windward_core::endpoint::event::{
    self, AckEvent, CongestionEvent, LossEvent, LossSign, ResetCause, ResetEvent,
};
use windward_core::packet::Flags;
use windward_core::units::Probability;

/// Arguments for the constructor of a congestion controller.
#[pyclass(frozen, get_all, module = "windward")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct ControllerSetup {
    /// Initial window, packets.
    pub(crate) initial_window: f64,
    /// The receiver's window, packets.
    pub(crate) rwnd: u64,
    /// Seed for controllers that draw random numbers; different for each connection and each seed
    /// of the run.
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
    /// Packets that it reports as arrived, in order or not.
    delivered: u64,
    /// Packets that recovery declared lost because of it.
    lost: u64,
    /// Number of packets by which the growth of the window counts it.
    growth: f64,
    /// True during the recovery of a window in which congestion was reported.
    in_recovery: bool,
    /// True if the window limited the sender.
    cwnd_limited: bool,
    /// True if a window may grow on it, by the rules of TCP.
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

    /// Probability that the cause is congestion; greater than zero.
    #[getter]
    fn probability(&self) -> f64 {
        self.event.probability.get()
    }

    /// Share of the window that remains after a decrease to ``beta``: the decrease is scaled by the
    /// probability of congestion.
    fn kept(&self, beta: f64) -> f64 {
        self.event.kept(beta)
    }
}

/// A restart of the connection.
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

    /// True if ssthresh has already been set in this series of timeouts.
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

    /// Window after it, packets, from the window before: one after a timeout, two after persistent
    /// congestion, more if the discriminator attributes the loss to corruption.
    fn window_after(&self, cwnd: f64) -> f64 {
        self.event.window_after(cwnd)
    }
}

/// A loss, for the discriminator.
#[pyclass(frozen, get_all, module = "windward")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Loss {
    /// The path when it was noticed.
    path: Path,
    /// Sequence number of the first missing data.
    seq: u64,
    /// True if the timer reported it, not acknowledgments.
    by_timeout: bool,
}

impl From<&LossEvent> for Loss {
    fn from(loss: &LossEvent) -> Self {
        let by_timeout = loss.sign == LossSign::Timeout;
        Loss { path: Path::from(&loss.path), seq: loss.seq, by_timeout }
    }
}

/// A packet at a queue or on a link.
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

/// A probability returned by a part; `None` if it is invalid.
pub(super) fn probability(number: f64) -> Option<Probability> {
    Probability::new(number)
}
