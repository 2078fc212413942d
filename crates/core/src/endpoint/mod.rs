//! The two ends of a connection, along four axes.
//!
//! The path of one acknowledgment: the [`Receiver`] echoes the feedback of the packet. The
//! [`Sender`] updates its estimators, reads the feedback, gets losses from recovery and their cause
//! from the discriminator, informs the congestion controller, and returns packets from
//! [`Sender::poll_transmit`] until cwnd or the receiver window is full.

use crate::part::ValueKind;
use crate::units::Duration;

mod conduct;
pub mod discrimination;
pub mod driver;
pub mod estimator;
pub mod event;
pub mod feedback;
mod pacer;
mod range_set;
mod receiver;
pub mod recovery;
mod sender;
pub mod window;

pub use conduct::Conduct;
pub use range_set::{Added, RangeSet};
pub use receiver::{Receiver, ReceiverStats};
pub use sender::{Sender, SenderStats};

/// Parameters of the two endpoints of a connection that every protocol has; those of its parts are
/// in the [protocol](crate::protocols::Protocol). Windows are counted in packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EndpointConfig {
    /// Size of a data packet on the wire, bytes.
    pub packet_size: u32,
    /// Size of an acknowledgment on the wire, bytes.
    pub ack_size: u32,
    /// Congestion window at the start, packets, at least 1.
    pub initial_window: f64,
    /// Receiver window, packets: upper bound of the send-out window and of the data that the
    /// receiver stores out of order.
    pub rwnd: u64,
    /// Duplicate acknowledgments that mean a loss (lr2008: `dupackthreshold`), at least 1.
    pub dupack_threshold: u32,
    /// Lower bound of the retransmission timeout. RFC 6298 says 1 s; ns-2 and Linux use 200 ms.
    pub rto_floor: Duration,
    /// Retransmission timeout before the first RTT sample (RFC 6298: 1 s).
    pub rto_initial: Duration,
    /// Upper bound of the backed-off timeout (RFC 6298: at least 60 s).
    pub rto_ceiling: Duration,
    /// Timestamps (RFC 7323): every acknowledgment of new data gives an RTT sample and ends the
    /// back-off. Without them one packet at a time does, and no retransmission (Karn), except with
    /// recovery by packet number, which needs no timestamps.
    pub timestamps: bool,
    /// Tick of the clock that measures RTT samples; zero is an ideal clock.
    pub clock_granularity: Duration,
    /// Acknowledge every second packet, or after this time; `None` acknowledges each at once.
    pub delayed_acks: Option<Duration>,
    /// Packets acknowledged one by one before acknowledgments are delayed: at the start, after a
    /// duplicate, and after a silence longer than `rto_floor` (Linux: TCP_MAX_QUICKACKS and the
    /// receiver's own timeout).
    pub quick_acks: u32,
    /// Upper bound of the processing time before each data packet, which is drawn uniformly from
    /// zero; packets are never reordered. It breaks the phase effects of deterministic DropTail
    /// queues (Floyd and Jacobson 1992, section 4, who use the bottleneck's time for one packet);
    /// `overhead_` in ns-2. Zero sends at once.
    pub overhead: Duration,
    /// True to negotiate ECN (RFC 3168), for protocols without their own feedback whose controller
    /// responds to marks; BBR's does not. `None` leaves it to the controller
    /// ([`NEGOTIATES_ECN`](window::ControllerPart::NEGOTIATES_ECN)).
    pub ecn: Option<bool>,
    /// True to pace packets at 1.25 cwnd per smoothed RTT (RFC 9002 section 7.7), for protocols
    /// without their own pacing.
    pub pacing: bool,
    /// True if growth counts acknowledged packets, not acknowledgments (RFC 3465 without a limit in
    /// slow start, as in Linux), so that delayed acknowledgments do not slow it down.
    pub byte_counting: bool,
    /// True if growth requires that the window was used, by the rule of Linux: it was full at some
    /// time since the packets in flight then were sent, or it is below twice the largest flight in
    /// slow start (tcp_cwnd_validate; RFC 7661 in spirit). False for the state of the window at the
    /// latest packet.
    pub cwnd_validation: bool,
    /// True if the window decays to the initial one while nothing is sent: half for each
    /// retransmission timeout (RFC 5681 section 4.1, RFC 2861). Requires `cwnd_validation`.
    pub slow_start_after_idle: bool,
    /// The conduct of the receiver.
    pub receiver: Conduct,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        EndpointConfig {
            packet_size: 1000,
            ack_size: 40,
            initial_window: 2.0,
            rwnd: 1 << 20,
            dupack_threshold: 3,
            rto_floor: Duration::from_millis(200),
            rto_initial: Duration::from_secs(1),
            rto_ceiling: Duration::from_secs(60),
            timestamps: true,
            clock_granularity: Duration::from_millis(10),
            delayed_acks: None,
            quick_acks: 0,
            overhead: Duration::ZERO,
            ecn: None,
            pacing: false,
            byte_counting: false,
            cwnd_validation: false,
            slow_start_after_idle: false,
            receiver: Conduct::Honest,
        }
    }
}

/// A day: longer than any delay between two hosts.
const DAY: Duration = Duration::from_secs(86_400);
const TIME: ValueKind = ValueKind::Time { least: Duration::ZERO, most: DAY };
const SIZE: ValueKind =
    ValueKind::Integer { least: 1, most: EndpointConfig::MAX_PACKET_SIZE as u64 };

crate::parameters! {
    EndpointConfig in "", "";
    packet_size: SIZE, "bytes", "a data packet on the wire";
    ack_size: SIZE, "bytes", "an acknowledgment on the wire";
    initial_window: ValueKind::Number { least: 1.0, most: 1e6 }, "packets", "cwnd at the start";
    rwnd: ValueKind::Integer { least: 1, most: 1 << 30 }, "packets", "receiver window";
    dupack_threshold: ValueKind::Integer { least: 1, most: 1_000_000 }, "",
        "duplicate ACKs that mean a loss";
    rto_floor: TIME, "", "least retransmission timeout";
    rto_initial: ValueKind::Time { least: Duration::from_ps(1), most: DAY }, "",
        "timeout before the first RTT sample";
    rto_ceiling: ValueKind::Time { least: Duration::from_ps(1), most: DAY.saturating_mul(100) }, "",
        "greatest timeout, not below rto_floor";
    timestamps: ValueKind::Bool, "",
        "an RTT sample per ACK; else one packet at a time, by Karn's rule";
    clock_granularity: TIME, "", "tick of the RTT clock; 0 is ideal";
    delayed_acks: ValueKind::Switch { on: Duration::from_millis(200), most: DAY }, "",
        "acknowledge every second packet, or after this", absent = "false";
    quick_acks: ValueKind::Integer { least: 0, most: 1_000_000 }, "packets",
        "acknowledged one by one before delayed_acks: at the start, after duplicates and silence";
    overhead: TIME, "", "longest processing time before a packet is sent";
    ecn: ValueKind::Bool, "", "negotiate ECN", absent = "by protocol";
    pacing: ValueKind::Bool, "",
        "pace at 1.25 cwnd per RTT; protocols with a rate of their own do so";
    byte_counting: ValueKind::Bool, "", "growth counts what ACKs acknowledge (RFC 3465), not ACKs";
    cwnd_validation: ValueKind::Bool, "",
        "growth needs a full window, or in slow start half of it, since the last round trip";
    slow_start_after_idle: ValueKind::Bool, "",
        "halve cwnd for each timeout without packets, down to initial_window; with cwnd_validation",
        when = |config| config.cwnd_validation;
    @check(config) {
        config.receiver.validate()?;
        if config.rto_ceiling < config.rto_floor {
            return Err(format!(
                "rto_ceiling ({}) is less than rto_floor ({})",
                config.rto_ceiling, config.rto_floor
            ));
        }
        Ok(())
    }
}

impl EndpointConfig {
    /// These endpoints with the values of Linux, version 6: an initial window of ten, delayed
    /// acknowledgments after 40 ms and quick ones before (net/ipv4/tcp_input.c), growth by the
    /// packets acknowledged, a timeout of at least 200 ms, timestamps and a clock of 1 ms, and
    /// windows that only grow while they are used and decay while they are not.
    /// See also [`crate::protocols::Protocol::linux`].
    #[must_use]
    pub const fn linux(self) -> Self {
        EndpointConfig {
            initial_window: 10.0,
            rto_floor: Duration::from_millis(200),
            rto_initial: Duration::from_secs(1),
            rto_ceiling: Duration::from_secs(120),
            timestamps: true,
            clock_granularity: Duration::from_millis(1),
            delayed_acks: Some(Duration::from_millis(40)),
            quick_acks: 16,
            byte_counting: true,
            cwnd_validation: true,
            slow_start_after_idle: true,
            ..self
        }
    }

    /// The largest packet: an IPv6 jumbogram of 1 MiB.
    pub const MAX_PACKET_SIZE: u32 = 1 << 20;
}

/// A count as a floating-point number. The conversion from a signed integer takes a single
/// instruction; no count reaches 2^63.
#[inline]
fn real(count: u64) -> f64 {
    count as i64 as f64
}

/// [`Duration::as_secs_f64`] of less than a hundred days, in the same way.
#[inline]
fn seconds(time: Duration) -> f64 {
    real(time.as_ps()) / real(Duration::from_secs(1).as_ps())
}

#[cfg(test)]
pub(crate) mod tests;
