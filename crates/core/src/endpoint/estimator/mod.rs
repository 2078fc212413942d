//! Estimators of the path, from acknowledgments.
//!
//! Estimators are separate from the axes. Each is updated once per acknowledgment, before any
//! decision. The axes read the results as a [`super::event::Path`] and never write them. A quantity
//! that only one part needs (such as a jitter ratio) is kept by that part.

mod backlog;
mod bandwidth;
mod delivery_rate;
mod estimators;
mod extreme;
mod karn;
mod loss_rate;
mod rtt;
mod rtt_floor;

pub use backlog::{BacklogConfig, BacklogMeter, BaseRtt, VenoRtt};
pub use bandwidth::{Bandwidth, BandwidthKind};
pub use delivery_rate::{DeliveryRate, LostPacket, RateSample};
pub use estimators::{Asked, Estimators};
pub(super) use extreme::{Greatest, Least};
pub use karn::Karn;
pub use loss_rate::LossRate;
pub use rtt::RttEstimator;
pub use rtt_floor::RttFloor;

use crate::units::{Duration, Time};

/// The input of a bandwidth estimator for one acknowledgment.
#[derive(Debug, Clone, Copy)]
pub struct BandwidthSample {
    /// The time of its arrival.
    pub now: Time,
    /// Packets that it reports as arrived: those it acknowledges cumulatively and that duplicates
    /// did not announce before, or 1 for a duplicate.
    pub arrived: u64,
    /// The latest RTT sample; zero before the first.
    pub rtt: Duration,
    /// The smallest RTT sample; zero before the first.
    pub min_rtt: Duration,
    /// The smoothed RTT; zero before the first sample.
    pub srtt: Duration,
    /// The congestion window, packets.
    pub cwnd: f64,
}

/// The part of a cumulative acknowledgment that duplicates are taken to have announced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Counting {
    /// All except the hole: each packet counts once, "properly", as in tcpwbr2003 section II.
    #[default]
    Exact,
    /// All of it if there were enough duplicates, as in the procedure AckedCount (Casetti et al.
    /// 2001, section 2.3; Linux, westwood_acked_count), although the first of the packets, the
    /// hole, caused no duplicate. Each hole beyond the first in a window counts one packet twice.
    AckedCount,
}
crate::words!(Counting { Exact = "exact", AckedCount = "acked-count" });

/// Counter of the packets that each acknowledgment reports as arrived (Casetti et al. 2001, section
/// 2.3): a duplicate stands for one packet, and a cumulative acknowledgment for the packets it
/// covers minus those that duplicates stood for. With retransmissions and lost duplicates the count
/// is an estimate.
#[derive(Debug, Clone)]
pub struct ArrivalCounter {
    counting: Counting,
    announced: u64,
}

impl ArrivalCounter {
    /// A counter without acknowledgments.
    pub fn new(counting: Counting) -> Self {
        ArrivalCounter { counting, announced: 0 }
    }

    /// Handles an acknowledgment of `newly` packets, 0 for a duplicate. Returns the packets that it
    /// reports as arrived.
    pub fn on_ack(&mut self, newly: u64) -> u64 {
        if newly == 0 {
            self.announced += 1;
            return 1;
        }
        if newly == 1 {
            // No packet was skipped: data in order, or the hole before announced packets.
            return 1;
        }
        let most = match self.counting {
            Counting::AckedCount => newly,
            Counting::Exact => newly - 1,
        };
        let known = self.announced.min(most);
        self.announced -= known;
        (newly - known).max(1)
    }

    /// Resets the count of announced packets, since all outstanding packets are retransmitted.
    pub fn on_reset(&mut self) {
        self.announced = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(counting: Counting, acks: &[u64]) -> Vec<u64> {
        let mut counter = ArrivalCounter::new(counting);
        acks.iter().map(|newly| counter.on_ack(*newly)).collect()
    }

    #[test]
    fn each_packet_is_counted_once() {
        for counting in [Counting::AckedCount, Counting::Exact] {
            // 0 arrives; 1 is lost; 2, 3 and 4 cause duplicates; 1 again acknowledges 1 to 4. Then
            // a delayed acknowledgment covers two.
            assert_eq!(counts(counting, &[1, 0, 0, 0, 4, 1, 2]), [1, 1, 1, 1, 1, 1, 2]);
        }
    }

    #[test]
    fn acked_count_counts_one_twice_for_each_further_hole() {
        // 1 and 4 are lost; 2, 3, 5, 6 and 7 cause duplicates; 1 again acknowledges 1 to 3, 4
        // again 4 to 7. Seven packets arrive.
        let acks = [0, 0, 0, 0, 0, 3, 4];
        assert_eq!(counts(Counting::Exact, &acks), [1, 1, 1, 1, 1, 1, 1]);
        // AckedCount: 5 >= 3 announced, so 1, and 2 of the 5 are left; 4 - 2 = 2. Eight.
        assert_eq!(counts(Counting::AckedCount, &acks), [1, 1, 1, 1, 1, 1, 2]);
    }
}
