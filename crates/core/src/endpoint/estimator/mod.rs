//! Estimators: what the sender learns of its path from acknowledgments.
//!
//! They stand apart from the axes. Each is updated once an acknowledgment, before anything is
//! decided, and the axes read the result as a [`Path`] and never write it. What only one axis
//! of one protocol wants to know (a jitter ratio, a loss rate) is kept by that part itself.

mod bandwidth;
mod delivery_rate;
mod karn;
mod loss_rate;
mod rtt;

pub use bandwidth::{Bandwidth, BandwidthKind};
pub use delivery_rate::{DeliveryRate, LostPacket, RateSample};
pub use karn::Karn;
pub use loss_rate::LossRate;
pub use rtt::RttEstimator;

use crate::units::{Duration, Time};

/// The path as the sender sees it at one instant.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Path {
    /// The instant.
    pub now: Time,
    /// The congestion window, packets.
    pub cwnd: f64,
    /// Packets outstanding before this instant, no more than cwnd (RFC 5681: FlightSize without
    /// what limited transmit let out beyond cwnd).
    pub in_flight: f64,
    /// The latest RTT sample, exact; zero before the first.
    pub rtt: Duration,
    /// The smoothed RTT, in ticks of the sender's clock; zero before the first sample.
    pub srtt: Duration,
    /// The smallest RTT sample, exact; zero before the first.
    pub min_rtt: Duration,
    /// The bandwidth estimate of protocols that keep one, packets per second; else zero.
    pub bandwidth: f64,
}

impl Path {
    /// The packets that fill the pipe at the estimated bandwidth without a queue:
    /// bandwidth times the smallest RTT.
    pub fn pipe(&self) -> f64 {
        self.bandwidth * self.min_rtt.as_secs_f64()
    }
}

/// What bandwidth estimators see of an acknowledgment.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// When it arrived.
    pub now: Time,
    /// Packets that the acknowledgment shows to have arrived: those it acknowledges cumulatively
    /// and did not announce by duplicates before, or 1 for a duplicate.
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

/// Counts what each acknowledgment shows to have arrived (Casetti et al. 2001, AckedCount): a
/// duplicate stands for one packet, and a cumulative acknowledgment for what it covers less what
/// duplicates stood for. Retransmissions and lost duplicates make it an estimate.
#[derive(Debug, Clone, Default)]
pub struct ArrivalCounter {
    announced: u64,
}

impl ArrivalCounter {
    /// Packets that an acknowledgment of `newly` packets shows to have arrived; 0 for a
    /// duplicate.
    pub fn on_ack(&mut self, newly: u64) -> u64 {
        if newly == 0 {
            self.announced += 1;
            return 1;
        }
        if newly == 1 {
            // Nothing was jumped over: in order, or the hole that keeps others back.
            return 1;
        }
        // The first of them triggered this acknowledgment or a lost one; the rest came before.
        let known = self.announced.min(newly - 1);
        self.announced -= known;
        newly - known
    }

    /// The count of announced packets begins anew: what is outstanding is sent again.
    pub fn on_reset(&mut self) {
        self.announced = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_packet_is_counted_once() {
        let mut counter = ArrivalCounter::default();
        // 0 arrives; 1 is lost; 2, 3 and 4 cause duplicates; 1 again acknowledges 1 to 4.
        let counts: Vec<u64> =
            [1, 0, 0, 0, 4, 1].into_iter().map(|newly| counter.on_ack(newly)).collect();
        assert_eq!(counts, [1, 1, 1, 1, 1, 1]);
        // A delayed acknowledgment covers two.
        assert_eq!(counter.on_ack(2), 2);
    }

    #[test]
    fn the_pipe_is_what_bandwidth_and_propagation_hold() {
        // 200 packets a second for 80 ms.
        let min_rtt = Duration::from_millis(80);
        let path = Path { min_rtt, bandwidth: 200.0, ..Path::default() };
        assert!((path.pipe() - 16.0).abs() < 1e-9);
    }
}
