//! Rapid Start (draft-kazuho-ccwg-rapid-start, the editor's copy of September 2026; the 02 of
//! March 2026 differs only in ECN and CUBIC; h2o/quicly#622): the window triples per round trip
//! while no queue builds, and the first recovery ends with the window that the path holds.
//!
//! ```text
//! rtt_floor <= min(min_rtt + 4 ms, 1.1 min_rtt):   cwnd += 2 acked       else  cwnd += acked
//! first loss or mark:   cwnd = silence cwnd        silence = loss = beta + 2/3 (1 - beta)
//! in recovery:          cwnd -= ack acked + loss lost                ack = 2/3 (1 - beta)
//!   not below max(beta pre_recovery_cwnd / 3, beta initial_window)
//! at its end:           cwnd = beta full_bdp, for any share of losses; W_max = 2 full_bdp
//! ```
//!
//! Every packet in flight is either acknowledged (A packets, the full BDP) or lost (L), so that the
//! final window is (A + L) silence - A ack - L loss = beta A.
//!
//! Readings and deviations:
//! - rtt_floor is the smallest sample in the last min_rtt, the draft's first proposal.
//! - Recovery lasts until a packet sent after its begin is acknowledged (RFC 9002 section 7.3.2),
//!   even if TCP's own recovery lasts longer. Recovery reports the numbers of acknowledged and lost
//!   packets: exactly with selective acknowledgments or packet numbers; otherwise a duplicate
//!   counts for one.
//! - Packets are paced over a full round trip (section 3.1) if the endpoints pace at all. The
//!   initial window cannot be paced, since no RTT is known before the first acknowledgment.
//! - An acknowledgment counts as in slow start: for 1, or with `byte_counting` for the packets that
//!   it acknowledges.
//! - An earlier text (of 2025) has K = 11/18 in place of 2/3.

use super::{Opening, Step};
use crate::endpoint::estimator::RttFloor;
use crate::endpoint::event::{AckEvent, CongestionEvent};
use crate::units::{Duration, Time};

/// The draft's K.
const K: f64 = 2.0 / 3.0;
/// queue_buildup_thresh: the rise above min_rtt, or a tenth of it if that is less.
const RISE: Duration = Duration::from_millis(4);

#[derive(Debug, Clone)]
pub(super) struct RapidStart {
    initial_window: f64,
    phase: RapidStartPhase,
}

#[derive(Debug, Clone)]
enum RapidStartPhase {
    Probing { floor: RttFloor, srtt: Duration },
    Recovery { since: Time, beta: f64, least: f64 },
}

impl RapidStart {
    pub(super) fn new(initial_window: f64) -> Self {
        let phase = RapidStartPhase::Probing { floor: RttFloor::default(), srtt: Duration::ZERO };
        RapidStart { initial_window, phase }
    }

    /// Handles an acknowledgment; returns the step, and whether the start-up is over.
    pub(super) fn on_ack(&mut self, ack: &AckEvent, window: &mut Opening<'_>) -> (Step, bool) {
        match &mut self.phase {
            RapidStartPhase::Probing { floor, srtt } => {
                *srtt = ack.path.srtt;
                let min_rtt = ack.path.min_rtt;
                if ack.newly_acked > 0 && !ack.path.rtt.is_zero() {
                    floor.add(ack.path.now, ack.path.rtt, min_rtt);
                }
                if ack.allows_growth() {
                    let thresh = (min_rtt + RISE).min(min_rtt.mul_f64(1.1));
                    let builds_queue = floor.get() > thresh;
                    *window.cwnd += if builds_queue { ack.growth } else { 2.0 * ack.growth };
                }
                (Step::Done, false)
            }
            RapidStartPhase::Recovery { since, beta, .. } if ack.sent > *since => {
                (Step::Found { full_bdp: *window.cwnd / *beta }, true)
            }
            RapidStartPhase::Recovery { beta, least, .. } => {
                let ack_factor = K * (1.0 - *beta);
                let gone =
                    ack_factor * ack.delivered as f64 + (*beta + ack_factor) * ack.lost as f64;
                *window.cwnd = (*window.cwnd - gone).max(*least);
                *window.ssthresh = *window.cwnd;
                (Step::Done, false)
            }
        }
    }

    /// The window at the beginning of the first recovery; `None` for a second congestion in it.
    pub(super) fn on_congestion(
        &mut self,
        event: &CongestionEvent,
        beta: f64,
        cwnd: f64,
    ) -> Option<f64> {
        if let RapidStartPhase::Recovery { .. } = self.phase {
            return None;
        }
        let beta = event.kept(beta);
        let silenced = (cwnd * (beta + K * (1.0 - beta))).max(2.0);
        let least = (beta * cwnd / 3.0).max(beta * self.initial_window).max(2.0);
        self.phase =
            RapidStartPhase::Recovery { since: event.path.now, beta, least: least.min(silenced) };
        Some(silenced)
    }

    pub(super) fn pacing_rate(&self, cwnd: f64) -> Option<f64> {
        match self.phase {
            RapidStartPhase::Probing { srtt, .. } if !srtt.is_zero() => {
                Some(cwnd / srtt.as_secs_f64())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::event::Path;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    struct Bench {
        rapid: RapidStart,
        cwnd: f64,
        ssthresh: f64,
    }

    impl Bench {
        fn new(cwnd: f64) -> Self {
            Bench { rapid: RapidStart::new(10.0), cwnd, ssthresh: f64::INFINITY }
        }

        fn hear(&mut self, ack: &AckEvent) -> (Step, bool) {
            let mut opening = Opening { cwnd: &mut self.cwnd, ssthresh: &mut self.ssthresh };
            self.rapid.on_ack(ack, &mut opening)
        }

        /// An acknowledgment at `now` ms with these RTTs in ms.
        fn ack(&mut self, now: u64, rtt: u64, min_rtt: u64) {
            let (now, rtt, min_rtt) = (Time::ZERO + MS(now), MS(rtt), MS(min_rtt));
            let path = Path { now, rtt, min_rtt, srtt: rtt, ..Path::default() };
            let (newly_acked, growth, cwnd_limited) = (1, 1.0, true);
            self.hear(&AckEvent { path, newly_acked, growth, cwnd_limited, ..AckEvent::default() });
        }

        /// Congestion at 1 s, then acknowledgments of everything in flight, except `lost` of each
        /// thousand.
        fn recover(&mut self, beta: f64, lost: u64) -> (Step, bool) {
            let in_flight = self.cwnd as u64;
            let now = Time::ZERO + MS(1000);
            let event = CongestionEvent::certain(Path { now, ..Path::default() });
            self.cwnd = self.rapid.on_congestion(&event, beta, self.cwnd).unwrap();
            for packet in 0..in_flight {
                let is_lost = (packet * lost) % 1000 + lost >= 1000;
                let ack = AckEvent {
                    sent: Time::ZERO + MS(900),
                    delivered: u64::from(!is_lost),
                    lost: u64::from(is_lost),
                    in_recovery: true,
                    ..AckEvent::default()
                };
                assert_eq!(self.hear(&ack), (Step::Done, false));
                assert_eq!(self.cwnd, self.ssthresh);
            }
            self.hear(&AckEvent { sent: now + MS(1), ..AckEvent::default() })
        }
    }

    /// min(min_rtt + 4 ms, 1.1 min_rtt): 44 ms of 40, 104 of 100, 22 of 20.
    #[test]
    fn the_window_triples_unless_a_queue_builds() {
        for (min_rtt, thresh) in [(40, 44), (100, 104), (20, 22)] {
            for (rtt, growth) in [(min_rtt, 2.0), (thresh, 2.0), (thresh + 1, 1.0)] {
                let mut bench = Bench::new(10.0);
                bench.ack(1000, rtt, min_rtt);
                assert_eq!(bench.cwnd, 10.0 + growth, "{rtt} ms above {min_rtt}");
            }
        }
    }

    #[test]
    fn the_least_rtt_of_the_last_round_trip_counts() {
        let mut bench = Bench::new(10.0);
        bench.ack(1000, 40, 40);
        bench.ack(1040, 80, 40);
        assert_eq!(bench.cwnd, 14.0, "40 ms ago there was no queue");
        bench.ack(1041, 80, 40);
        assert_eq!(bench.cwnd, 15.0, "41 ms ago");
    }

    /// The draft: silence 5/6, 9/10, 14/15; ack 1/3, 1/5, 2/15 for beta = 0.5, 0.7, 0.8.
    #[test]
    fn the_factors_are_the_drafts() {
        for (beta, silence, ack) in
            [(0.5, 5.0 / 6.0, 1.0 / 3.0), (0.7, 0.9, 0.2), (0.8, 14.0 / 15.0, 2.0 / 15.0)]
        {
            let mut bench = Bench::new(300.0);
            let event = CongestionEvent::certain(Path::default());
            bench.cwnd = bench.rapid.on_congestion(&event, beta, bench.cwnd).unwrap();
            assert!((bench.cwnd - 300.0 * silence).abs() < 1e-9);
            bench.hear(&AckEvent { delivered: 1, ..AckEvent::default() });
            assert!((bench.cwnd - 300.0 * silence + ack).abs() < 1e-9);
            bench.hear(&AckEvent { lost: 1, ..AckEvent::default() });
            assert!((bench.cwnd - 300.0 * silence + ack + silence).abs() < 1e-9);
        }
    }

    /// beta times the packets that arrived, for any losses: 0.7 x 300 x (1 - 0, 1/4, 1/2).
    #[test]
    fn the_first_recovery_ends_at_beta_times_what_the_path_delivered() {
        for (lost, expected) in [(0, 210.0), (250, 157.5), (500, 105.0)] {
            let mut bench = Bench::new(300.0);
            let (step, over) = bench.recover(0.7, lost);
            assert!((bench.cwnd - expected).abs() < 1e-6, "{lost}: {}", bench.cwnd);
            let Step::Found { full_bdp } = step else { panic!("{step:?}") };
            assert!(over && (full_bdp - expected / 0.7).abs() < 1e-6);
        }
    }

    #[test]
    fn losses_beyond_two_thirds_are_no_overflow() {
        // 90 % lost would be 0.7 x 30; the bound is 0.7 x 300 / 3.
        let mut bench = Bench::new(300.0);
        bench.recover(0.7, 900);
        assert!((bench.cwnd - 70.0).abs() < 1e-9);
        // And 0.7 x 10, the initial window, for one of 12 packets.
        let mut bench = Bench::new(12.0);
        bench.recover(0.7, 900);
        assert!((bench.cwnd - 7.0).abs() < 1e-9);
    }

    #[test]
    fn a_second_congestion_is_the_controllers() {
        let mut rapid = RapidStart::new(10.0);
        let event = CongestionEvent::certain(Path::default());
        assert!(rapid.on_congestion(&event, 0.7, 100.0).is_some());
        assert_eq!(rapid.on_congestion(&event, 0.7, 90.0), None);
    }

    #[test]
    fn it_is_paced_over_a_whole_round_trip_until_the_first_congestion() {
        let mut bench = Bench::new(10.0);
        assert_eq!(bench.rapid.pacing_rate(10.0), None, "no RTT known");
        bench.ack(1000, 40, 40);
        // 12 packets in 40 ms.
        assert!((bench.rapid.pacing_rate(bench.cwnd).unwrap() - 300.0).abs() < 1e-9);
        bench.rapid.on_congestion(&CongestionEvent::certain(Path::default()), 0.7, 12.0);
        assert_eq!(bench.rapid.pacing_rate(10.8), None);
    }
}
