//! Axis 2: what is lost, and what to send next.
//!
//! A scheme owns its timers. It hears of every acknowledgment and of its timers, says in one
//! [`Report`] what it learned, and answers "which packet next?" It knows nothing of rates: it is
//! given cwnd and decides how much may be outstanding beside it. SACK and recovery by packet number
//! count what is in the network; the others do so with the send-out window of the papers: what has
//! been sent from `una` on may not exceed cwnd plus the packets known to have left the network.
//!
//! The schemes of TCP and of LR share their timers and are `Scheme`s inside [`Timed`]; recovery
//! by packet number and RACK have timers of their own and are each a [`Recovery`].

mod bulk_repeat;
mod fast_recovery;
mod loss_monitor;
mod packet_number;
mod rack;
mod sack;
mod send_out_window;
mod timed;

pub use bulk_repeat::{BulkRepeatConfig, Repeat, TimeoutWindow};
pub use fast_recovery::NewRenoConfig;
pub use loss_monitor::LossMonitorConfig;
pub use packet_number::PacketNumber;
pub use rack::Rack;
pub use send_out_window::{OldDuplicates, SendOutWindowConfig};
pub use timed::Timed;

use std::fmt::Debug;

use super::EndpointConfig;
use super::estimator::RttEstimator;
use super::event::AckEvent;
use crate::packet::{Packet, SackBlock};
use crate::part::{Part, axis, behaviour};
use crate::units::Time;

/// Where the sender stands in the sequence space, in packets.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sequences {
    /// The first packet not acknowledged: the papers' lack + 1.
    pub una: u64,
    /// The next packet to send in order: the papers' nextseq.
    pub next: u64,
    /// One past the highest packet ever sent; `next` is below it after a connection reset.
    pub high: u64,
    /// One past the last packet the application has to send.
    pub limit: u64,
    /// The receiver window.
    pub rwnd: u64,
}

impl Sequences {
    /// Sent and not cumulatively acknowledged.
    #[inline]
    pub fn outstanding(&self) -> u64 {
        self.next - self.una
    }
    /// The next packet in order, if a window of `cwnd`, the receiver and the application let it go
    /// where nothing outstanding has left the network.
    #[inline]
    pub fn next_within(&self, cwnd: f64) -> Option<u64> {
        (fits(self.outstanding(), cwnd) && self.allows_next()).then_some(self.next)
    }
    /// May `next` be sent as far as application and receiver go?
    #[inline]
    fn allows_next(&self) -> bool {
        self.next < self.limit && self.outstanding() < self.rwnd
    }
}

/// Is there room for one more beside `count` packets in a window of `cwnd`, of which only whole
/// packets count? `count` may be below zero.
#[inline]
fn fits(count: u64, cwnd: f64) -> bool {
    // The next whole number is no larger than a window if and only if it is no larger than the
    // whole packets of it. Signed numbers become floating-point ones in one instruction.
    (count.wrapping_add(1) as i64) as f64 <= cwnd
}

/// An acknowledgment, as recovery sees it; `una` has already moved.
#[derive(Debug, Clone, Copy)]
pub struct Acked<'a> {
    /// What the other axes hear of it; what recovery is to report is not known yet.
    pub event: &'a AckEvent,
    /// The RTT estimator, this acknowledgment included.
    pub rtt: &'a RttEstimator,
    /// The packet itself: what triggered it, what arrived out of order.
    pub packet: &'a Packet,
    /// Are losses taken for errors now? Known where [`Recovery::asks_for_cause`] asks, else
    /// false.
    pub error: bool,
}

impl Acked<'_> {
    /// When it arrived.
    #[inline]
    fn now(&self) -> Time {
        self.event.path.now
    }
    /// Packets acknowledged cumulatively for the first time; 0 for a duplicate.
    #[inline]
    fn newly(&self) -> u64 {
        self.event.newly_acked
    }
    /// The number of the transmission that triggered it.
    #[inline]
    fn packet_seq(&self) -> u64 {
        self.event.packet_seq
    }
    /// The data whose arrival triggered it.
    #[inline]
    fn trigger_seq(&self) -> u64 {
        self.packet.trigger_seq
    }
    /// Does it say nothing of what arrived out of order?
    #[inline]
    fn is_cumulative(&self) -> bool {
        self.packet.sack_len == 0
    }
    /// What arrived out of order.
    #[inline]
    fn sack(&self) -> &[SackBlock] {
        self.packet.sack_blocks()
    }
}

/// A timer that is due, as recovery sees it.
#[derive(Debug)]
pub struct Expired<'a> {
    /// The instant.
    pub now: Time,
    /// The RTT estimator: timeouts back it off.
    pub rtt: &'a mut RttEstimator,
    /// Is silence taken for an error? Known where [`Recovery::asks_for_cause_of_timeout`] asks,
    /// else false.
    pub error: bool,
}

/// A data packet that leaves.
#[derive(Debug, Clone, Copy)]
pub struct Sent<'a> {
    /// Its data.
    pub seq: u64,
    /// The number of the transmission.
    pub packet_seq: u64,
    /// When.
    pub now: Time,
    /// Was the data sent before?
    pub again: bool,
    /// The RTT estimator.
    pub rtt: &'a RttEstimator,
}

/// What recovery found in an acknowledgment or when a timer expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Finding {
    /// Nothing that the window should know.
    #[default]
    Nothing,
    /// A loss was detected in a window in which none was before.
    Loss,
    /// More of the same window was repaired: restart the recovery timer no more (RFC 6582).
    PartialRepair,
    /// The recovery timer expired and the connection is reset (lr2008 section 2.2.3).
    Reset {
        /// Had it expired before without a new acknowledgment in between?
        repeated: bool,
    },
    /// The recovery timer expired by an error, and the scheme repairs that without a reset.
    ErrorTimeout,
}

/// All that recovery learned from one acknowledgment or one timer.
#[derive(Debug, Default)]
pub struct Report {
    /// What the window must know.
    pub finding: Finding,
    /// [`Recovery::in_recovery`] as it is since: only what is reported changes it.
    pub in_recovery: bool,
    /// [`Recovery::is_at_rest`] as it is since.
    pub at_rest: bool,
    /// Did a recovery timer expire: a retransmission timeout, or a probe timeout?
    pub timed_out: bool,
    /// Packets now known to have arrived: cumulatively or, for schemes that read SACK blocks, out of
    /// order. Others count a duplicate as one.
    pub delivered: u64,
    /// Packets found lost.
    pub lost: u64,
    /// Which transmissions these were, where they have
    /// [numbers](crate::part::Ability::TransmissionNumbers).
    pub numbers: Option<Box<Numbers>>,
}

/// The transmissions that a [`Report`] is about.
#[derive(Debug, Default)]
pub struct Numbers {
    /// How many are in flight since.
    pub in_flight: u64,
    /// The oldest of these, or the next one.
    pub oldest: u64,
    /// Those delivered, in no order.
    pub delivered: Vec<u64>,
    /// Packets delivered by a transmission that cannot be told.
    pub unattributed: u64,
    /// Those lost, in the order in which they were sent.
    pub lost: Vec<u64>,
    /// Has all that was taken for lost since the last reduction turned out to have arrived?
    pub spurious: bool,
    /// Was so much lost for so long that the connection is to start again (RFC 9002 section 7.6)?
    pub persistent_congestion: bool,
}

impl Report {
    /// An empty one, of a scheme that numbers transmissions or not.
    pub fn new(numbered: bool) -> Self {
        Report { numbers: numbered.then(Box::default), ..Report::default() }
    }

    /// Nothing learned yet. What is said by number is up to the schemes that number.
    #[inline]
    pub fn clear(&mut self) {
        self.finding = Finding::Nothing;
        self.timed_out = false;
        self.delivered = 0;
        self.lost = 0;
    }

    /// For schemes that number transmissions: nothing learned yet of any.
    #[inline]
    pub fn clear_numbers(&mut self) {
        self.numbers().clear();
    }

    /// For schemes that number transmissions.
    #[inline]
    pub fn numbers(&mut self) -> &mut Numbers {
        self.numbers.get_or_insert_default()
    }
}

impl Numbers {
    /// Says how many transmissions are in flight since, and which is the oldest.
    #[inline]
    fn count(&mut self, in_flight: u64, oldest: u64) {
        self.in_flight = in_flight;
        self.oldest = oldest;
    }

    #[inline]
    fn clear(&mut self) {
        self.delivered.clear();
        self.unattributed = 0;
        self.lost.clear();
        self.spurious = false;
        self.persistent_congestion = false;
    }

    /// How many were delivered.
    #[inline]
    fn delivered(&self) -> u64 {
        self.delivered.len() as u64 + self.unattributed
    }
}

behaviour! {
    /// Loss recovery of one connection.
    pub trait Recovery: Debug + Send + Sync {
        /// An acknowledgment arrived. The report is clear before.
        @forward(inline) @boxed(inline(never))
        fn on_ack(&mut self, seqs: &Sequences, acked: &Acked<'_>, report: &mut Report);
        /// A timer is due. The report is clear before. May move `next` back.
        fn on_timer(&mut self, seqs: &mut Sequences, expired: Expired<'_>, report: &mut Report);
        /// When [`Recovery::on_timer`] must be called next.
        @forward(inline)
        fn next_timer(&self, rtt: &RttEstimator) -> Time;
        /// Does the timer that is due at `now` mean that nothing has been heard for a timeout?
        fn means_silence(&self, now: Time) -> bool = false;

        /// The packet to send now with a window of `cwnd` packets, if any may be sent.
        @forward(inline) @boxed(inline(never))
        fn next_to_send(&mut self, seqs: &mut Sequences, cwnd: f64) -> Option<u64>;
        /// The packet that [`Recovery::next_to_send`] named leaves.
        @forward(inline) @boxed(inline(never))
        fn on_sent(&mut self, seqs: &Sequences, sent: &Sent<'_>);

        /// Packets taken to be in the network: sent, not acknowledged, not known to have left it.
        @forward(inline)
        fn in_flight(&self, seqs: &Sequences) -> u64;
        /// Is a window being repaired for which [`Finding::Loss`] was reported?
        @forward(inline)
        fn in_recovery(&self) -> bool = false;
        /// Is nothing missing, and are the timers set? Then the next packet is
        /// [`Sequences::next_within`] the window, recovery need not be asked, nor told that it
        /// leaves.
        fn is_at_rest(&self) -> bool = false;
        /// Is `seq`, which is being sent again, deemed lost? SACK also sends again what it merely
        /// has not heard of, where nothing else may be sent (RFC 6675, NextSeg rules 3 and 4).
        fn deems_lost(&self, seq: u64) -> bool = true;
        /// Must [`Acked::error`] of an acknowledgment of `newly` packets be known? Asked where
        /// [`RecoveryPart::ASKS_FOR_CAUSE`].
        @forward(inline)
        fn asks_for_cause(&self, newly: u64) -> bool = false;
        /// Must [`Expired::error`] be known? Asked where [`RecoveryPart::ASKS_FOR_CAUSE`].
        fn asks_for_cause_of_timeout(&self) -> bool = false;
        /// Does an acknowledgment of that packet give an RTT sample even if it is a duplicate?
        @forward(inline) @boxed(inline(never))
        fn samples_rtt(&self, packet_seq: u64) -> bool = false;
        /// Are probes to be sent, whatever window and pacing say?
        @forward(inline)
        fn is_probing(&self) -> bool = false;
        /// Has everything that is known to be lost been sent again?
        fn has_repaired_all(&self) -> bool = true;
    }
    impl for RecoveryState, by reported;
}

/// Forwards a call to the scheme, and completes the report that it has written.
macro_rules! reported {
    (&mut $self:ident.$method:ident($seqs:ident, $event:ident, $report:ident)) => {
        each!($self, scheme => {
            scheme.$method($seqs, $event, $report);
            $report.in_recovery = scheme.in_recovery();
            $report.at_rest = scheme.is_at_rest();
        })
    };
    ($($call:tt)+) => {
        each!($($call)+)
    };
}
use reported;

/// A recovery scheme of this crate.
pub trait RecoveryPart: Part + Recovery + Sized {
    /// Does it ever ask whether losses are errors?
    const ASKS_FOR_CAUSE: bool = false;
    /// The state at the start of a connection.
    fn new(config: &Self::Config, endpoint: &EndpointConfig) -> Self;
}

axis! {
    $ each each_kind;
    /// The recovery schemes by name, with their parameters.
    config RecoveryConfig;
    /// The state of a recovery scheme.
    state RecoveryState;
    @make RecoveryPart(&EndpointConfig);
    Reno: Timed<fast_recovery::Reno>,
    NewReno: Timed<fast_recovery::NewReno>,
    Sack: Timed<sack::Sack>,
    SendOutWindow: Timed<send_out_window::SendOutWindow>,
    LossMonitor: Timed<loss_monitor::LossMonitor> => Box,
    PacketNumber: packet_number::PacketNumber => Box,
    BulkRepeat: Timed<bulk_repeat::BulkRepeat> => Box,
    Rack: rack::Rack => Box,
}

impl RecoveryConfig {
    /// Does it ever ask whether losses are errors?
    pub fn asks_for_cause(&self) -> bool {
        each_kind!(self, R(_) => <R as RecoveryPart>::ASKS_FOR_CAUSE)
    }
}
