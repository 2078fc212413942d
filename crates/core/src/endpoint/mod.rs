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

crate::parameters! {
    /// Parameters of the two endpoints of a connection that every protocol has; those of its parts
    /// are in the [protocol](crate::protocols::Protocol). Windows are counted in packets.
    pub struct EndpointConfig in "", "";
    /// The defaults of scenario files.
    pub const DEFAULT;
    packet_size: u32 = 1000, SIZE, "bytes", "a data packet on the wire";
    ack_size: u32 = 40, SIZE, "bytes", "an acknowledgment on the wire";
    initial_window: f64 = 2.0,
        ValueKind::Number { least: 1.0, most: 1e6 }, "packets", "cwnd at the start";
    /// Upper bound of the send-out window and of the data that the receiver stores out of order.
    rwnd: u64 = 1 << 20,
        ValueKind::Integer { least: 1, most: 1 << 30 }, "packets", "receiver window";
    /// `dupackthreshold` in lr2008.
    dupack_threshold: u32 = 3, ValueKind::Integer { least: 1, most: 1_000_000 }, "",
        "duplicate ACKs that mean a loss";
    /// RFC 6298 says 1 s; ns-2 and Linux use 200 ms.
    rto_floor: Duration = Duration::from_millis(200), TIME, "", "least retransmission timeout";
    /// RFC 6298: 1 s.
    rto_initial: Duration = Duration::from_secs(1),
        ValueKind::Time { least: Duration::from_ps(1), most: DAY }, "",
        "timeout before the first RTT sample";
    /// RFC 6298: at least 60 s.
    rto_ceiling: Duration = Duration::from_secs(60),
        ValueKind::Time { least: Duration::from_ps(1), most: DAY.saturating_mul(100) }, "",
        "greatest timeout, not below rto_floor";
    /// RFC 7323. They also end the back-off. Recovery by packet number does not need them.
    timestamps: bool = true, ValueKind::Bool, "",
        "an RTT sample per ACK; else one packet at a time, by Karn's rule";
    clock_granularity: Duration = Duration::from_millis(10),
        TIME, "", "tick of the RTT clock; 0 is ideal";
    delayed_acks: Option<Duration> = None,
        ValueKind::Switch { on: Duration::from_millis(200), most: DAY }, "",
        "acknowledge every second packet, or after this", absent = "false";
    /// Linux: TCP_MAX_QUICKACKS. A silence is one longer than `rto_floor`.
    quick_acks: u32 = 0, ValueKind::Integer { least: 0, most: 1_000_000 }, "packets",
        "acknowledged one by one before delayed_acks: at the start, after duplicates and silence";
    /// Drawn uniformly from zero; packets are never reordered. It breaks the phase effects of
    /// deterministic DropTail queues (Floyd and Jacobson 1992, section 4, who use the bottleneck's
    /// time for one packet); `overhead_` in ns-2.
    overhead: Duration = Duration::ZERO, TIME, "", "longest processing time before a packet is sent";
    /// RFC 3168, for protocols without their own feedback whose controller responds to marks; BBR's
    /// does not. `None` leaves it to the controller
    /// ([`NEGOTIATES_ECN`](window::ControllerPart::NEGOTIATES_ECN)).
    ecn: Option<bool> = None, ValueKind::Bool, "", "negotiate ECN", absent = "by protocol";
    /// RFC 9002 section 7.7.
    pacing: bool = false, ValueKind::Bool, "",
        "pace at 1.25 cwnd per RTT; protocols with a rate of their own do so";
    /// Without a limit in slow start, as in Linux.
    byte_counting: bool = false,
        ValueKind::Bool, "", "growth counts what ACKs acknowledge (RFC 3465), not ACKs";
    /// The rule of Linux (tcp_cwnd_validate; RFC 7661 in spirit). False for the state of the window
    /// at the latest packet.
    cwnd_validation: bool = false, ValueKind::Bool, "",
        "growth needs a full window, or in slow start half of it, since the last round trip";
    /// RFC 5681 section 4.1, RFC 2861.
    slow_start_after_idle: bool = false, ValueKind::Bool, "",
        "halve cwnd for each timeout without packets, down to initial_window; with cwnd_validation",
        when = |config| config.cwnd_validation;
    /// The conduct of the receiver.
    receiver: Conduct = Conduct::Honest;
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

/// A day: longer than any delay between two hosts.
const DAY: Duration = Duration::from_secs(86_400);
const TIME: ValueKind = ValueKind::Time { least: Duration::ZERO, most: DAY };
const SIZE: ValueKind =
    ValueKind::Integer { least: 1, most: EndpointConfig::MAX_PACKET_SIZE as u64 };

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
