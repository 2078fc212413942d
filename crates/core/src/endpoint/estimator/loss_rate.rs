//! LEAST: the loss rate of a connection (Allman, Eddy, Ostermann: "Estimating loss rates with
//! TCP", ACM Performance Evaluation Review 31(3), 2003; used by eten2004 section 4.2).
//!
//! Retransmissions over-estimate losses, because a timeout sends again what has arrived. Each of
//! those needless copies reaches the receiver as a duplicate, and DSACK (RFC 2883) tells the
//! sender of it. What is left was lost:
//!
//! ```text
//! p  =  (retransmissions - duplicates reported by DSACK) / packets sent
//! ```
//!
//! The estimate is cumulative over the connection, as in the paper: a rate over the life of a
//! connection is what it defines, and CETEN compares it with a rate that the network knows over
//! a long time. A lost acknowledgment loses its DSACK and leaves p too high by one loss; the last
//! retransmissions before an estimate may still prove needless.

/// The counters of LEAST.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LossRate {
    /// Data packets sent, retransmissions included.
    pub sent: u64,
    /// Data packets sent again.
    pub retransmissions: u64,
    /// Duplicates reported by DSACK.
    pub duplicates: u64,
}

impl LossRate {
    /// p, 0 to 1; 0 before anything was sent.
    pub fn estimate(&self) -> f64 {
        self.rate(self.lost())
    }

    /// p when a loss has just been noticed whose retransmission is not counted yet: never 0.
    pub fn with_one_more(&self) -> f64 {
        self.rate(self.lost() + 1)
    }

    /// Packets lost, as far as is known. Packets that the network doubles could make it negative.
    fn lost(&self) -> u64 {
        self.retransmissions.saturating_sub(self.duplicates)
    }

    fn rate(&self, lost: u64) -> f64 {
        if self.sent == 0 { 0.0 } else { (lost as f64 / self.sent as f64).min(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needless_retransmissions_do_not_count() {
        // 1000 sent, 40 of them again, 15 of these for nothing: 25 lost.
        let rate = LossRate { sent: 1000, retransmissions: 40, duplicates: 15 };
        assert!((rate.estimate() - 0.025).abs() < 1e-12);
        assert!((rate.with_one_more() - 0.026).abs() < 1e-12);
        // More duplicates than retransmissions: the network doubled packets.
        let rate = LossRate { sent: 10, retransmissions: 1, duplicates: 3 };
        assert_eq!(rate.estimate(), 0.0);
        assert_eq!(LossRate::default().estimate(), 0.0);
    }
}
