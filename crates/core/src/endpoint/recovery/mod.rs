//! Axis 2: what is lost, and what to send next.

/// The recovery schemes by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoveryKind {
    /// Fast retransmit and fast recovery (RFC 5681).
    Reno,
    /// With partial acknowledgments (RFC 6582).
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
}
