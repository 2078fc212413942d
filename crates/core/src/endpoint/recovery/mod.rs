//! Axis 2: loss detection and retransmission.
//!
//! A scheme owns its timers. It receives every acknowledgment and every expired timer, writes its
//! findings into one [`RecoveryReport`], and selects the packet to send next. It does not deal with
//! rates: given cwnd, it decides how many packets may be outstanding. SACK and recovery by packet
//! number count the packets in the network. The others use the send-out window of the papers:
//! packets sent from `una` on may not exceed cwnd plus the packets known to have left the network.
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
pub use rack::{Rack, RackConfig};
pub use sack::SackConfig;
pub use send_out_window::{OldDuplicates, SendOutWindowConfig};
pub use timed::Timed;

use std::fmt::Debug;

use super::EndpointConfig;
use super::estimator::RttEstimator;
use super::event::AckEvent;
use crate::packet::{Packet, SackBlock};
use crate::part::{Part, axis, behaviour};
use crate::units::Time;

/// The sender's place in the sequence space, in packets.
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
    /// Packets sent and not cumulatively acknowledged.
    #[inline]
    pub fn outstanding(&self) -> u64 {
        self.next - self.una
    }
    /// The next packet in order, if a window of `cwnd`, the receiver and the application allow it
    /// while nothing outstanding has left the network.
    #[inline]
    pub fn next_within(&self, cwnd: f64) -> Option<u64> {
        (fits(self.outstanding(), cwnd) && self.allows_next()).then_some(self.next)
    }
    /// True if application and receiver allow `next` to be sent.
    #[inline]
    fn allows_next(&self) -> bool {
        self.next < self.limit && self.outstanding() < self.rwnd
    }
}

/// True if a window of `cwnd`, rounded down to whole packets, has room for one packet more than
/// `count`. `count` may be below zero.
#[inline]
fn fits(count: u64, cwnd: f64) -> bool {
    // The next whole number is no larger than a window if and only if it is no larger than the
    // whole packets of it. Signed numbers become floating-point ones in one instruction.
    (count.wrapping_add(1) as i64) as f64 <= cwnd
}

/// An acknowledgment, as recovery sees it after `una` has moved.
#[derive(Debug, Clone, Copy)]
pub struct Acked<'a> {
    /// The event for the other axes, without the values that recovery reports.
    pub event: &'a AckEvent,
    /// The RTT estimator, this acknowledgment included.
    pub rtt: &'a RttEstimator,
    /// The packet itself: the data that triggered it, the data that arrived out of order.
    pub packet: &'a Packet,
    /// True if losses are taken for errors now. Only set if [`Recovery::asks_for_cause`] returned
    /// true.
    pub error: bool,
}

impl Acked<'_> {
    /// The time of its arrival.
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
    /// True if it reports nothing that arrived out of order.
    #[inline]
    fn is_cumulative(&self) -> bool {
        self.packet.sack_len == 0
    }
    /// Data that arrived out of order.
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
    /// True if the timeout is taken for an error. Only set if
    /// [`Recovery::asks_for_cause_of_timeout`] returned true.
    pub error: bool,
}

/// A data packet that leaves.
#[derive(Debug, Clone, Copy)]
pub struct Sent<'a> {
    /// Its data.
    pub seq: u64,
    /// The number of the transmission.
    pub packet_seq: u64,
    /// The time at which it leaves.
    pub now: Time,
    /// True if the data was sent before.
    pub again: bool,
    /// The RTT estimator.
    pub rtt: &'a RttEstimator,
}

/// A finding of recovery from an acknowledgment or an expired timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Finding {
    /// Nothing that concerns the window.
    #[default]
    Nothing,
    /// The first loss of a window was detected.
    Loss,
    /// More losses of the same window were repaired: the recovery timer does not restart (RFC
    /// 6582).
    PartialRepair,
    /// The recovery timer expired and the connection is reset (lr2008 section 2.2.3).
    Reset {
        /// True if it had expired before without a new acknowledgment in between.
        repeated: bool,
    },
    /// The recovery timer expired because of an error, which the scheme repairs without a reset.
    ErrorTimeout,
}

/// The report of recovery on one acknowledgment or one timer.
#[derive(Debug, Default)]
pub struct RecoveryReport {
    /// The finding for the window.
    pub finding: Finding,
    /// [`Recovery::in_recovery`] from now on: only reported events change it.
    pub in_recovery: bool,
    /// [`Recovery::is_at_rest`] from now on.
    pub at_rest: bool,
    /// True if a recovery timer expired: a retransmission timeout, or a probe timeout.
    pub timed_out: bool,
    /// Packets now known to have arrived: cumulatively or, for schemes that read SACK blocks, out
    /// of order. Other schemes count a duplicate as one.
    pub delivered: u64,
    /// Packets found lost.
    pub lost: u64,
    /// The transmissions concerned, if they have
    /// [numbers](crate::part::Ability::TransmissionNumbers).
    pub numbers: Option<Box<Numbers>>,
}

/// The transmissions of a [`RecoveryReport`].
#[derive(Debug, Default)]
pub struct Numbers {
    /// The number in flight from now on.
    pub in_flight: u64,
    /// The oldest transmission in flight, or the next one.
    pub oldest: u64,
    /// The transmissions delivered, in no order.
    pub delivered: Vec<u64>,
    /// Packets delivered by an unknown transmission.
    pub unattributed: u64,
    /// The transmissions lost, in the order in which they were sent.
    pub lost: Vec<u64>,
    /// One past the highest data ever found lost. The first transmissions of data are found lost
    /// in the order of data: as long as data below it is missing, the first of it was found lost.
    pub lost_until: u64,
    /// True if everything taken for lost since the last reduction turned out to have arrived.
    pub spurious: bool,
    /// True if the acknowledgment may make the window grow by what it delivered: no reduction goes
    /// on, and it acknowledged new data, or the path reorders by more than dupackthreshold packets
    /// (Linux: tcp_may_raise_cwnd). Set by RACK.
    pub raises: bool,
    /// True if the losses amount to persistent congestion (RFC 9002 section 7.6), after which the
    /// connection starts again.
    pub persistent_congestion: bool,
}

impl RecoveryReport {
    /// An empty report; `numbered` if the scheme numbers transmissions.
    pub fn new(numbered: bool) -> Self {
        RecoveryReport { numbers: numbered.then(Box::default), ..RecoveryReport::default() }
    }

    /// Empties the report except the transmissions, which schemes that number them empty.
    #[inline]
    pub fn clear(&mut self) {
        self.finding = Finding::Nothing;
        self.timed_out = false;
        self.delivered = 0;
        self.lost = 0;
    }

    /// Empties the list of transmissions, for schemes that number them.
    #[inline]
    pub fn clear_numbers(&mut self) {
        self.numbers().clear();
    }

    /// The transmissions, for schemes that number them.
    #[inline]
    pub fn numbers(&mut self) -> &mut Numbers {
        self.numbers.get_or_insert_default()
    }
}

impl Numbers {
    /// Sets how many transmissions are in flight from now on, and which is the oldest.
    #[inline]
    fn count(&mut self, in_flight: u64, oldest: u64) {
        self.in_flight = in_flight;
        self.oldest = oldest;
    }

    /// Records the loss of transmission `number` of the data `seq`.
    #[inline]
    fn lose(&mut self, number: u64, seq: u64) {
        self.lost.push(number);
        self.lost_until = self.lost_until.max(seq + 1);
    }

    #[inline]
    fn clear(&mut self) {
        self.delivered.clear();
        self.unattributed = 0;
        self.lost.clear();
        self.spurious = false;
        self.persistent_congestion = false;
    }

    /// The number of transmissions delivered.
    #[inline]
    fn delivered(&self) -> u64 {
        self.delivered.len() as u64 + self.unattributed
    }
}

/// State of the repair of losses, as Linux divides it (`tcpi_ca_state`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepairState {
    /// Nothing is missing.
    Open,
    /// Data arrived out of order, and none is taken for lost.
    Disorder,
    /// The flight is reduced because of an ECN mark (`TCP_CA_CWR`).
    Reduced,
    /// Losses are repaired, and the flight is reduced.
    Recovery,
    /// The repair after a retransmission timeout.
    Loss,
}

/// The packets that are not cumulatively acknowledged, for observers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scoreboard {
    /// State of the repair.
    pub state: RepairState,
    /// Packets that arrived out of order.
    pub arrived: u64,
    /// Packets found lost that have not arrived, also those sent again.
    pub lost: u64,
    /// Packets whose latest transmission is a repetition that may be in the network.
    pub resent: u64,
    /// The greatest distance of reordering seen, in packets; at least dupackthreshold.
    pub reordering: u64,
    /// The number of acknowledgments that reported reordering.
    pub reorderings: u64,
    /// The packets that may be in the network now: less than cwnd while the flight is reduced.
    pub window: u64,
}

behaviour! {
    /// Loss recovery of one connection.
    pub trait Recovery: Debug + Send + Sync {
        /// Handles an acknowledgment. The report is empty before.
        @forward(inline(always)) @boxed(inline(never))
        fn on_ack(&mut self, seqs: &Sequences, acked: &Acked<'_>, report: &mut RecoveryReport);
        /// Handles a timer that is due. The report is empty before. May move `next` back.
        fn on_timer(&mut self, seqs: &mut Sequences, expired: Expired<'_>, report: &mut RecoveryReport);
        /// The time at which [`Recovery::on_timer`] must be called next.
        @forward(inline)
        fn next_timer(&self, rtt: &RttEstimator) -> Time;
        /// True if the timer due at `now` means that no acknowledgment arrived for a timeout.
        fn means_silence(&self, now: Time) -> bool = false;

        /// The packet to send now with a window of `cwnd` packets, if any may be sent.
        @forward(inline) @boxed(inline(never))
        fn next_to_send(&mut self, seqs: &mut Sequences, cwnd: f64) -> Option<u64>;
        /// Handles the transmission of the packet that [`Recovery::next_to_send`] returned.
        @forward(inline) @boxed(inline(never))
        fn on_sent(&mut self, seqs: &Sequences, sent: &Sent<'_>);

        /// Packets taken to be in the network: sent, not acknowledged, not known to have left it.
        @forward(inline)
        fn in_flight(&self, seqs: &Sequences) -> u64;
        /// True while a window is repaired for which [`Finding::Loss`] was reported.
        @forward(inline)
        fn in_recovery(&self) -> bool = false;
        /// True if nothing is missing and the timers are set. Then the next packet is
        /// [`Sequences::next_within`] the window, without calls of [`Recovery::next_to_send`] and
        /// [`Recovery::on_sent`].
        fn is_at_rest(&self) -> bool = false;
        /// True if `seq`, which is sent again, is deemed lost. SACK also sends packets again that
        /// are merely not acknowledged, if nothing else may be sent (RFC 6675, NextSeg rules 3 and
        /// 4).
        fn deems_lost(&self, seq: u64) -> bool = true;
        /// True if [`Acked::error`] of an acknowledgment of `newly` packets must be known. Called
        /// if [`RecoveryPart::ASKS_FOR_CAUSE`].
        @forward(inline)
        fn asks_for_cause(&self, newly: u64) -> bool = false;
        /// True if [`Expired::error`] must be known. Called if [`RecoveryPart::ASKS_FOR_CAUSE`].
        fn asks_for_cause_of_timeout(&self) -> bool = false;
        /// True if an acknowledgment of that packet gives an RTT sample even if it is a duplicate.
        @forward(inline) @boxed(inline(never))
        fn samples_rtt(&self, packet_seq: u64) -> bool = false;
        /// True if probes are to be sent regardless of window and pacing.
        @forward(inline)
        fn is_probing(&self) -> bool = false;
        /// True if everything that is known to be lost has been sent again.
        fn has_repaired_all(&self) -> bool = true;
        /// Handles the reduction of the window by an ECN mark. The acknowledgment reported
        /// `delivered` packets, and new data if `advances`.
        fn on_mark(&mut self, delivered: u64, advances: bool) = ();
        /// True if SACK blocks of an acknowledgment count that a later one has overtaken.
        fn reads_overtaken(&self) -> bool = false;
        /// The packets that may be in the network with a window of `cwnd` packets.
        fn window(&self, cwnd: f64) -> u64 = cwnd as u64;
        /// The packets that are not acknowledged, with a window of `cwnd` packets; `None` if the
        /// scheme does not follow single packets.
        fn scoreboard(&self, cwnd: f64) -> Option<Scoreboard> = None;
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
    /// True if it ever asks whether losses are errors.
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
    /// True if it ever asks whether losses are errors.
    pub fn asks_for_cause(&self) -> bool {
        each_kind!(self, R(_) => <R as RecoveryPart>::ASKS_FOR_CAUSE)
    }
}
