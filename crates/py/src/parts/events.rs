//! Events for parts in Python. Windows are in packets. Times are in seconds, and again in whole
//! picoseconds, the unit of the engine: a law that is to repeat one in Rust to the packet must not
//! round differences of times.

use pyo3::prelude::*;
use windward_core::endpoint::EndpointConfig;
use windward_core::endpoint::estimator;
use windward_core::endpoint::event::{
    self, AckEvent, CongestionEvent, LossEvent, LossSign, ResetCause, ResetEvent,
};
use windward_core::endpoint::feedback::FeedbackConfig;
use windward_core::packet::Flags;
use windward_core::part::AnyPart;
use windward_core::rng::Stream;
use windward_core::units::{Duration, Time};

use super::header::Header;

/// Arguments for the constructor of a congestion controller.
#[pyclass(frozen, get_all, module = "windward")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct ControllerSetup {
    /// Initial window, packets.
    initial_window: f64,
    /// The receiver's window, packets.
    rwnd: u64,
    /// Full data packet on the wire, bytes.
    packet_size: u32,
    /// Name of the feedback that packets carry, as in ``windward.parts``; None for discriminators.
    feedback: Option<&'static str>,
    /// Seed for controllers that draw random numbers; different for each connection and each seed
    /// of the run.
    seed: u64,
}

impl ControllerSetup {
    pub(super) fn of(
        endpoint: &EndpointConfig,
        feedback: Option<&FeedbackConfig>,
        mut stream: Stream,
    ) -> Self {
        // A uniform number has 53 bits.
        let seed = (stream.uniform() * (1_u64 << 53) as f64) as u64;
        let EndpointConfig { initial_window, rwnd, packet_size, .. } = *endpoint;
        let feedback = feedback.map(|feedback| feedback.words().name);
        ControllerSetup { initial_window, rwnd, packet_size, feedback, seed }
    }
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
    /// ``now`` in picoseconds.
    now_ps: u64,
    /// ``rtt`` in picoseconds.
    rtt_ps: u64,
    /// ``srtt`` in picoseconds.
    srtt_ps: u64,
    /// ``min_rtt`` in picoseconds.
    min_rtt_ps: u64,
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
            now_ps: path.now.as_ps(),
            rtt_ps: path.rtt.as_ps(),
            srtt_ps: path.srtt.as_ps(),
            min_rtt_ps: path.min_rtt.as_ps(),
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
    /// ``now`` in picoseconds.
    now_ps: u64,
    /// ``rtt`` in picoseconds.
    rtt_ps: u64,
    /// ``srtt`` in picoseconds.
    srtt_ps: u64,
    /// ``min_rtt`` in picoseconds.
    min_rtt_ps: u64,
    /// Packets acknowledged for the first time; 0 for a duplicate.
    newly_acked: u64,
    /// The same in bytes on the wire.
    newly_acked_bytes: u64,
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
    /// True if it acknowledges a part of a packet, as only a receiver that divides acknowledgments
    /// does.
    is_part: bool,
    /// True if recovery allows growth by the data delivered although ``in_recovery`` is true.
    raises: bool,
    /// True if it echoes an ECN mark.
    marked: bool,
    /// True if it echoes the congestion flag of XTCP.
    flagged: bool,
    /// The congestion header that it echoes: a dictionary with its ``kind``, or None.
    header: Header,
    /// First packet not acknowledged.
    una: u64,
    /// One past the highest packet ever sent.
    high: u64,
    /// One past the highest packet ever found lost, where recovery numbers transmissions; else 0.
    lost_until: u64,
    /// Number of the transmission that triggered it.
    packet_seq: u64,
    /// The time at which that was sent, seconds.
    sent: f64,
    /// ``sent`` in picoseconds.
    sent_ps: u64,
}

impl From<&AckEvent> for Ack {
    fn from(ack: &AckEvent) -> Self {
        let path = Path::from(&ack.path);
        let Path { now, cwnd, in_flight, rtt, srtt, min_rtt, .. } = path;
        let Path { now_ps, rtt_ps, srtt_ps, min_rtt_ps, .. } = path;
        Ack {
            now,
            cwnd,
            in_flight,
            rtt,
            srtt,
            min_rtt,
            now_ps,
            rtt_ps,
            srtt_ps,
            min_rtt_ps,
            newly_acked: ack.newly_acked,
            newly_acked_bytes: ack.newly_acked_bytes,
            delivered: ack.delivered,
            lost: ack.lost,
            growth: ack.growth,
            in_recovery: ack.in_recovery,
            cwnd_limited: ack.cwnd_limited,
            allows_growth: ack.allows_growth(),
            is_part: ack.is_part,
            raises: ack.raises,
            marked: ack.flags.contains(Flags::ECN_ECHO),
            flagged: ack.flags.contains(Flags::CONGESTION),
            header: Header(ack.header),
            una: ack.una,
            high: ack.high,
            lost_until: ack.lost_until,
            packet_seq: ack.packet_seq,
            sent: ack.sent.as_secs_f64(),
            sent_ps: ack.sent.as_ps(),
        }
    }
}

/// Congestion, through a loss or a mark; at most once per window.
#[pyclass(frozen, module = "windward")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Congestion {
    event: CongestionEvent,
}

impl Congestion {
    /// The congestion that a restart means, for a class that hears of no restarts.
    pub(crate) fn of_reset(event: &ResetEvent) -> Self {
        let ResetEvent { path, probability, una, high, .. } = *event;
        let (sent, marked) = (path.now, false);
        Congestion { event: CongestionEvent { path, probability, una, high, sent, marked } }
    }
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

    /// True if an ECN mark reported it, and no loss.
    #[getter]
    fn marked(&self) -> bool {
        self.event.marked
    }

    /// First packet not acknowledged.
    #[getter]
    fn una(&self) -> u64 {
        self.event.una
    }

    /// One past the highest packet ever sent: packets before it belong to this window.
    #[getter]
    fn high(&self) -> u64 {
        self.event.high
    }

    /// The time at which the packet was sent whose ACK reported it, seconds.
    #[getter]
    fn sent(&self) -> f64 {
        self.event.sent.as_secs_f64()
    }

    /// ``sent`` in picoseconds.
    #[getter]
    fn sent_ps(&self) -> u64 {
        self.event.sent.as_ps()
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

    /// First packet not acknowledged.
    #[getter]
    fn una(&self) -> u64 {
        self.event.una
    }

    /// One past the highest packet ever sent.
    #[getter]
    fn high(&self) -> u64 {
        self.event.high
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

/// A sample of the delivery rate, from an acknowledgment
/// (draft-cheng-iccrg-delivery-rate-estimation).
#[pyclass(frozen, get_all, module = "windward")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct RateSample {
    /// The instant, seconds.
    now: f64,
    /// The delivery rate, packets per second; 0 if no time passed.
    rate: f64,
    /// Packets delivered since the newest acknowledged packet was sent.
    delivered: u64,
    /// Packets delivered since the start.
    total_delivered: u64,
    /// Packets delivered when the newest acknowledged packet was sent.
    prior_delivered: u64,
    /// Packets that the acknowledgment reports as arrived.
    newly_acked: u64,
    /// Packets found lost by it.
    newly_lost: u64,
    /// Packets found lost since the newest acknowledged packet was sent.
    lost: u64,
    /// Packets in flight after that packet was sent, including itself.
    tx_in_flight: u64,
    /// Packets in flight now.
    in_flight: u64,
    /// Packets in flight before the acknowledgment.
    prior_in_flight: u64,
    /// Round-trip time of that packet, seconds; None if it is not known.
    rtt: Option<f64>,
    /// ``now`` in picoseconds.
    now_ps: u64,
    /// ``rtt`` in picoseconds.
    rtt_ps: Option<u64>,
    /// True while a loss of the last round trip is being repaired.
    in_recovery: bool,
    /// True if the application limited the rate.
    is_app_limited: bool,
}

impl From<&estimator::RateSample> for RateSample {
    fn from(sample: &estimator::RateSample) -> Self {
        RateSample {
            now: sample.now.as_secs_f64(),
            rate: sample.rate,
            delivered: sample.delivered,
            total_delivered: sample.total_delivered,
            prior_delivered: sample.prior_delivered,
            newly_acked: sample.newly_acked,
            newly_lost: sample.newly_lost,
            lost: sample.lost,
            tx_in_flight: sample.tx_in_flight,
            in_flight: sample.in_flight,
            prior_in_flight: sample.prior_in_flight,
            rtt: sample.rtt.map(Duration::as_secs_f64),
            now_ps: sample.now.as_ps(),
            rtt_ps: sample.rtt.map(Duration::as_ps),
            in_recovery: sample.in_recovery,
            is_app_limited: sample.is_app_limited,
        }
    }
}

/// A transmission that was found lost.
#[pyclass(frozen, get_all, module = "windward")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct LostPacket {
    /// The instant, seconds.
    now: f64,
    /// ``now`` in picoseconds.
    now_ps: u64,
    /// Its number.
    number: u64,
    /// The time at which it was sent, seconds.
    sent: f64,
    /// ``sent`` in picoseconds.
    sent_ps: u64,
    /// Packets delivered in all when it was found lost.
    total_delivered: u64,
    /// Packets in flight after it was sent, including itself.
    tx_in_flight: u64,
    /// Packets found lost since it was sent, including itself.
    lost: u64,
    /// True if the application had run out of data when it was sent.
    is_app_limited: bool,
}

impl LostPacket {
    pub(crate) fn new(packet: &estimator::LostPacket, now: Time) -> Self {
        LostPacket {
            now: now.as_secs_f64(),
            now_ps: now.as_ps(),
            number: packet.number,
            sent: packet.sent.as_secs_f64(),
            sent_ps: packet.sent.as_ps(),
            total_delivered: packet.total_delivered,
            tx_in_flight: packet.tx_in_flight,
            lost: packet.lost,
            is_app_limited: packet.is_app_limited,
        }
    }
}

/// An instant at which something happened that has no other data.
#[pyclass(frozen, get_all, module = "windward")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Instant {
    /// The instant, seconds.
    now: f64,
    /// ``now`` in picoseconds.
    now_ps: u64,
}

impl From<Time> for Instant {
    fn from(now: Time) -> Self {
        Instant { now: now.as_secs_f64(), now_ps: now.as_ps() }
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
