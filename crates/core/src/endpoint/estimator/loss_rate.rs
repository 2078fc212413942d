//! LEAST: the loss rate of a connection (Allman, Eddy, Ostermann: "Estimating loss rates with
//! TCP", ACM Performance Evaluation Review 31(3), 2003; used by eten2004 section 4.2).
//!
//! Retransmissions over-estimate losses, because a timeout retransmits packets that have arrived.
//! Each of these needless copies reaches the receiver as a duplicate, which DSACK (RFC 2883)
//! reports to the sender. The remaining retransmissions are losses:
//!
//! ```text
//! p  =  (retransmissions - duplicates reported by DSACK) / packets sent
//! ```
//!
//! The estimate is cumulative over the connection, as in the paper, which defines a rate over the
//! life of a connection; CETEN compares it with a long-term rate of the network. A lost
//! acknowledgment loses its DSACK and makes p too high by one loss; the last retransmissions before
//! an estimate may still turn out to be needless.

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

    /// p including a new loss whose retransmission is not counted yet; never 0.
    pub fn with_one_more(&self) -> f64 {
        self.rate(self.lost() + 1)
    }

    /// Packets lost, as far as known; at least 0, even if the network duplicates packets.
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
