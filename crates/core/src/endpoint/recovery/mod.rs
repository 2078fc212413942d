//! Axis 2: what is lost, and what to send next.
//!
//! A scheme hears of every acknowledgment and of its two timers, detects losses, and answers
//! "which packet next?" It knows nothing of rates: it is given cwnd and decides how much may be
//! outstanding beside it. SACK and recovery by packet number count what is in the network; the
//! others do so with the send-out window of the papers: what has been sent from `una` on may not
//! exceed cwnd plus the packets known to have left the network.

mod bulk_repeat;
mod fast_recovery;
mod loss_monitor;
mod packet_number;
mod sack;
mod send_out_window;

pub use bulk_repeat::{BulkRepeatConfig, Repeat, TimeoutWindow};
pub use packet_number::{News, PacketNumber};

use super::estimator::RttEstimator;
use crate::packet::SackBlock;
use crate::units::{Duration, Time};

use bulk_repeat::BulkRepeat;
use fast_recovery::FastRecovery;
use loss_monitor::LossMonitor;
use sack::Sack;
use send_out_window::SendOutWindow;

/// The recovery schemes by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoveryKind {
    /// Fast retransmit and fast recovery (RFC 5681).
    Reno,
    /// The same with partial acknowledgments (RFC 6582).
    NewReno,
    /// Selective acknowledgments (RFC 2018, RFC 6675).
    Sack,
    /// Cumulative acknowledgments with the send-out window of lr2008 section 4.
    SendOutWindow {
        /// Retransmit on partial acknowledgments (section 2.2.2).
        partial_acks: bool,
        /// LR: retransmission timer and aggressive reset of the recovery timer (4.2, 4.3).
        retransmission_timer: bool,
    },
    /// Loss-monitoring window over packet sequence numbers, with LR timers (section 5).
    LossMonitor,
    /// Loss detection by packet number, with probes (RFC 9002).
    PacketNumber,
    /// Bulk retransmission and a fixed timeout while losses are errors (tcpwbr2003 section III).
    BulkRepeat,
}

impl RecoveryKind {
    /// Does it use the two timers of LR: a retransmission timer, and a recovery timer that any
    /// acknowledgment resets (lr2008 sections 4.2 and 4.3)?
    pub fn has_retransmission_timer(self) -> bool {
        match self {
            RecoveryKind::SendOutWindow { retransmission_timer, .. } => retransmission_timer,
            RecoveryKind::LossMonitor => true,
            RecoveryKind::Reno
            | RecoveryKind::NewReno
            | RecoveryKind::Sack
            | RecoveryKind::PacketNumber
            | RecoveryKind::BulkRepeat => false,
        }
    }
}

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
    pub fn outstanding(&self) -> u64 {
        self.next - self.una
    }
    /// May `next` be sent when `window` packets may be outstanding?
    fn allows_next(&self, window: u64) -> bool {
        self.next < self.limit && self.outstanding() < window.min(self.rwnd)
    }
}

/// An acknowledgment, as recovery sees it; `una` has already moved.
#[derive(Debug, Clone, Copy)]
pub struct Acked<'a> {
    /// When it arrived.
    pub now: Time,
    /// The RTT estimator, this acknowledgment included.
    pub rtt: &'a RttEstimator,
    /// Packets acknowledged cumulatively for the first time; 0 for a duplicate.
    pub newly: u64,
    /// The data whose arrival triggered it.
    pub trigger_seq: u64,
    /// The packet that carried that data.
    pub packet_seq: u64,
    /// What arrived out of order.
    pub sack: &'a [SackBlock],
    /// Are losses taken for errors now? Known where [`Recovery::asks_for_cause`] asks, else false.
    pub error: bool,
}

/// What recovery learned from an acknowledgment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// Nothing that the window should know.
    Nothing,
    /// A loss was detected in a window in which none was before.
    Loss,
    /// More of the same window was repaired: restart the recovery timer no more (RFC 6582).
    PartialRepair,
}

/// The parameters of recovery.
#[derive(Debug, Clone, Copy)]
pub struct RecoveryConfig {
    /// Duplicate acknowledgments that mean a loss.
    pub dupack_threshold: u32,
    /// See [`crate::endpoint::EndpointConfig::partial_deflation`].
    pub partial_deflation: bool,
    /// See [`crate::endpoint::EndpointConfig::loss_monitor_guard`].
    pub loss_monitor_guard: bool,
    /// How long the receiver may hold an acknowledgment back; zero if it does not.
    pub max_ack_delay: Duration,
    /// See [`BulkRepeatConfig`].
    pub bulk_repeat: BulkRepeatConfig,
}

/// The state of a recovery scheme.
#[derive(Debug, Clone)]
pub enum Recovery {
    /// See [`RecoveryKind::Reno`] and [`RecoveryKind::NewReno`].
    FastRecovery(FastRecovery),
    /// See [`RecoveryKind::Sack`].
    Sack(Sack),
    /// See [`RecoveryKind::SendOutWindow`].
    SendOutWindow(SendOutWindow),
    /// See [`RecoveryKind::LossMonitor`].
    LossMonitor(LossMonitor),
    /// See [`RecoveryKind::PacketNumber`].
    PacketNumber(PacketNumber),
    /// See [`RecoveryKind::BulkRepeat`].
    BulkRepeat(BulkRepeat),
}

/// Calls the same method on whichever scheme it is.
macro_rules! each {
    ($self:expr, $scheme:pat => $call:expr) => {
        match $self {
            Recovery::FastRecovery($scheme) => $call,
            Recovery::Sack($scheme) => $call,
            Recovery::SendOutWindow($scheme) => $call,
            Recovery::LossMonitor($scheme) => $call,
            Recovery::PacketNumber($scheme) => $call,
            Recovery::BulkRepeat($scheme) => $call,
        }
    };
}

impl Recovery {
    /// The scheme's state at the start of a connection.
    pub fn new(kind: RecoveryKind, config: RecoveryConfig) -> Self {
        match kind {
            RecoveryKind::Reno => Recovery::FastRecovery(FastRecovery::new(false, config)),
            RecoveryKind::NewReno => Recovery::FastRecovery(FastRecovery::new(true, config)),
            RecoveryKind::Sack => Recovery::Sack(Sack::new(config)),
            RecoveryKind::SendOutWindow { partial_acks, .. } => {
                Recovery::SendOutWindow(SendOutWindow::new(partial_acks, config))
            }
            RecoveryKind::LossMonitor => Recovery::LossMonitor(LossMonitor::new(config)),
            RecoveryKind::PacketNumber => Recovery::PacketNumber(PacketNumber::new(config)),
            RecoveryKind::BulkRepeat => Recovery::BulkRepeat(BulkRepeat::new(config)),
        }
    }

    /// Must [`Acked::error`] of an acknowledgment of `newly` packets be known?
    #[inline]
    pub fn asks_for_cause(&self, newly: u64) -> bool {
        match self {
            Recovery::BulkRepeat(scheme) => scheme.asks_for_cause(newly),
            _ => false,
        }
    }

    /// An acknowledgment arrived; `cwnd` is the window before the law hears of it.
    #[inline]
    pub fn on_ack(&mut self, seqs: &Sequences, acked: &Acked<'_>, cwnd: f64) -> Finding {
        match self {
            Recovery::FastRecovery(scheme) => scheme.on_ack(seqs, acked),
            Recovery::Sack(scheme) => scheme.on_ack(seqs, acked),
            Recovery::SendOutWindow(scheme) => scheme.on_ack(seqs, acked),
            Recovery::LossMonitor(scheme) => scheme.on_ack(seqs, acked, cwnd),
            Recovery::PacketNumber(scheme) => scheme.on_ack(seqs, acked),
            Recovery::BulkRepeat(scheme) => scheme.on_ack(seqs, acked),
        }
    }

    /// The packet to send now with a window of `cwnd` packets, if any may be sent.
    #[inline]
    pub fn next_to_send(&mut self, seqs: &mut Sequences, cwnd: f64) -> Option<u64> {
        each!(self, scheme => scheme.next_to_send(seqs, cwnd))
    }

    /// `seq`, which [`Recovery::next_to_send`] named, was sent at `now` as packet `packet_seq`.
    #[inline]
    pub fn on_sent(&mut self, seqs: &Sequences, seq: u64, packet_seq: u64, now: Time) {
        match self {
            Recovery::FastRecovery(_) => {}
            Recovery::Sack(scheme) => scheme.on_sent(seqs, seq),
            Recovery::SendOutWindow(scheme) => scheme.on_sent(seqs, seq),
            Recovery::LossMonitor(scheme) => scheme.on_sent(seqs, seq, packet_seq),
            Recovery::PacketNumber(scheme) => scheme.on_sent(seq, packet_seq, now),
            Recovery::BulkRepeat(scheme) => scheme.on_sent(packet_seq),
        }
    }

    /// The retransmission timer of LR expired: `una` is to be sent again.
    pub fn on_retransmission_timer(&mut self, seqs: &Sequences) {
        match self {
            Recovery::SendOutWindow(scheme) => scheme.on_retransmission_timer(seqs),
            Recovery::LossMonitor(scheme) => scheme.on_retransmission_timer(seqs),
            Recovery::FastRecovery(_)
            | Recovery::Sack(_)
            | Recovery::PacketNumber(_)
            | Recovery::BulkRepeat(_) => {}
        }
    }

    /// Does the cause of a timeout matter?
    pub fn asks_for_cause_of_timeout(&self) -> bool {
        matches!(self, Recovery::BulkRepeat(_))
    }

    /// The recovery timer expired: the connection is reset (lr2008 section 2.2.3), except where
    /// an `error` caused it and this returns that cwnd stays. May move `next` back. Recovery by
    /// packet number sends probes instead.
    pub fn on_reset(&mut self, seqs: &mut Sequences, error: bool) -> bool {
        match self {
            Recovery::FastRecovery(scheme) => scheme.on_reset(seqs),
            Recovery::Sack(scheme) => scheme.on_reset(seqs),
            Recovery::SendOutWindow(scheme) => scheme.on_reset(seqs),
            Recovery::LossMonitor(scheme) => scheme.on_reset(seqs),
            Recovery::PacketNumber(_) => {}
            Recovery::BulkRepeat(scheme) => return scheme.on_reset(seqs, error),
        }
        false
    }

    /// Does an acknowledgment of that packet give an RTT sample even if it is a duplicate?
    #[inline]
    pub fn samples_rtt(&self, packet_seq: u64) -> bool {
        match self {
            Recovery::PacketNumber(scheme) => scheme.is_largest(packet_seq),
            _ => false,
        }
    }

    /// The recovery timeout in force.
    #[inline]
    pub fn timeout(&self, rtt: &RttEstimator) -> Duration {
        match self {
            Recovery::BulkRepeat(scheme) => scheme.timeout(rtt),
            _ => rtt.rto(),
        }
    }

    /// Packets taken to be in the network: sent, not acknowledged, not known to have left it.
    #[inline]
    pub fn in_flight(&self, seqs: &Sequences) -> u64 {
        match self {
            Recovery::FastRecovery(scheme) => seqs.outstanding().saturating_sub(scheme.inflation()),
            Recovery::Sack(scheme) => scheme.pipe(seqs),
            Recovery::SendOutWindow(scheme) => {
                seqs.outstanding().saturating_sub(scheme.inflation())
            }
            Recovery::LossMonitor(scheme) => seqs.outstanding().saturating_sub(scheme.inflation()),
            Recovery::PacketNumber(scheme) => scheme.in_flight(),
            Recovery::BulkRepeat(scheme) => seqs.outstanding().saturating_sub(scheme.inflation()),
        }
    }

    /// Is `seq`, which is being sent again, deemed lost? SACK also sends again what it merely has
    /// not heard of, where nothing else may be sent (RFC 6675, NextSeg rules 3 and 4).
    pub fn deems_lost(&self, seq: u64) -> bool {
        match self {
            Recovery::Sack(scheme) => scheme.deems_lost(seq),
            _ => true,
        }
    }

    /// Is a window being repaired for which [`Finding::Loss`] was reported?
    #[inline]
    pub fn in_recovery(&self) -> bool {
        match self {
            Recovery::FastRecovery(scheme) => scheme.in_recovery(),
            Recovery::Sack(scheme) => scheme.in_recovery(),
            Recovery::PacketNumber(scheme) => scheme.in_recovery(),
            Recovery::BulkRepeat(scheme) => scheme.in_recovery(),
            Recovery::SendOutWindow(_) | Recovery::LossMonitor(_) => false,
        }
    }
}
