//! Prague (draft-briscoe-iccrg-prague-congestion-control-04; the Prague requirements of RFC 9331
//! section 4.3).
//!
//! DCTCP for the Internet: queues of L4S mark early and often, and the window shrinks in proportion
//! to the share of marked packets. Unlike DCTCP it continues to grow after a reduction, is paced,
//! and depends less on the round-trip time:
//!
//! ```text
//! RTT_virt = max(srtt, 25 ms)
//! M        = marked / delivered                            over one RTT_virt
//! alpha    = alpha (1 - g) + g M                           g = 1/16
//! mark:      cwnd = cwnd (1 - alpha / 2)                   once per RTT_virt
//! every ACK without a mark:  cwnd += (srtt / RTT_virt)^2 / cwnd
//! loss:      cwnd = cwnd / 2                               once per round trip
//! pace     = cwnd / srtt;  twice that while cwnd < ssthresh / 2
//! ```
//!
//! So a flow with an RTT below 25 ms has the rate of a flow with 25 ms: with an RTT of R, cwnd
//! grows by (R / 25 ms)^2 every R.
//!
//! Readings and deviations:
//! - The first mark ends slow start with alpha = 1, a halving, as in DCTCP and Linux.
//! - Independence of the RTT holds from the start; Linux (tcp_prague.c) waits for 500 round trips.
//! - The window is counted in packets and is at least two; Linux uses smaller packets below that.
//! - There is no fall-back if a classic queue marks (the draft leaves it open), and the cut for a
//!   loss ignores a cut for marks in the same round trip.
//! - Growth stops while the application and not cwnd limits the sender, as in other controllers.

use super::{Controller, ControllerPart, ControllerSetup, reno};
use crate::endpoint::EndpointConfig;
use crate::endpoint::event::{AckEvent, CongestionEvent, ResetEvent};
use crate::packet::Flags;
use crate::part::{Ability, Form, Need, Part, ValueKind, Words};
use crate::units::{Duration, Time};

/// g, the weight of a new sample (section 2.3.2 of the draft; RFC 8257 section 4.2).
const G: f64 = 1.0 / 16.0;
/// The least window, packets.
const LEAST: f64 = 2.0;

crate::parameters! {
    /// Parameters of Prague.
    #[derive(Eq)]
    pub struct PragueConfig in "prague", "parameters of prague";
    /// The value of the draft.
    pub const DEFAULT;
    /// RTT_virt; zero for the RTT dependence of DCTCP.
    rtt_virt: Duration = Duration::from_millis(25),
        ValueKind::Time { least: Duration::ZERO, most: Duration::from_secs(10) }, "",
        "round trip that shorter ones count as";
}

/// The state of Prague.
#[derive(Debug, Clone)]
pub struct Prague {
    config: PragueConfig,
    pub(super) cwnd: f64,
    ssthresh: f64,
    /// The average share of marked packets.
    alpha: f64,
    delivered: u64,
    marked: u64,
    /// The begin of the interval whose share is being counted.
    began: Time,
    /// The earliest time of the next cut for marks.
    may_reduce: Time,
    /// Smoothed RTT of exact samples, gain 1/8, seconds; zero before the first.
    srtt: f64,
}

impl Part for Prague {
    type Config = PragueConfig;
    const FORMS: &'static [Form<PragueConfig>] = &[Form {
        words: Words {
            name: "prague",
            what: "down by half of the average share of marks, up on every ACK without one; paced; \
                for L4S",
            source: "draft-briscoe-iccrg-prague-congestion-control-04 section 2",
        },
        config: PragueConfig::DEFAULT,
    }];
    const NEEDS: &'static [Need] = &[Need {
        any_of: &[Ability::EachMark],
        why: "the share of marked packets cannot be counted",
    }];
}

impl ControllerPart for Prague {
    const PACES: bool = true;
    /// Prague responds to marks itself.
    const ANSWERS_ECN: bool = false;
    fn new(config: &PragueConfig, setup: ControllerSetup<'_>) -> Self {
        Prague::of(*config, setup.endpoint)
    }
}

impl Prague {
    /// The state with this window, for a controller that uses the help of L4S queues.
    pub(super) fn at(cwnd: f64) -> Self {
        let endpoint = EndpointConfig { initial_window: cwnd, ..EndpointConfig::default() };
        Prague { ssthresh: cwnd, ..Prague::of(PragueConfig::DEFAULT, &endpoint) }
    }

    fn of(config: PragueConfig, endpoint: &EndpointConfig) -> Self {
        Prague {
            config,
            cwnd: endpoint.initial_window,
            ssthresh: f64::INFINITY,
            alpha: 1.0,
            delivered: 0,
            marked: 0,
            began: Time::ZERO,
            may_reduce: Time::ZERO,
            srtt: 0.0,
        }
    }

    fn measure(&mut self, ack: &AckEvent) {
        let rtt = ack.path.rtt.as_secs_f64();
        if rtt > 0.0 && ack.newly_acked > 0 {
            self.srtt = if self.srtt > 0.0 { self.srtt + (rtt - self.srtt) / 8.0 } else { rtt };
        }
    }

    /// RTT_virt, seconds.
    fn rtt_virt(&self) -> f64 {
        self.srtt.max(self.config.rtt_virt.as_secs_f64())
    }

    /// Counts marks, and updates alpha with their share once per RTT_virt.
    fn observe(&mut self, ack: &AckEvent, is_marked: bool) {
        self.delivered += ack.delivered;
        self.marked += if is_marked { ack.delivered } else { 0 };
        let passed = ack.path.now.since(self.began).as_secs_f64();
        if passed >= self.rtt_virt() && self.delivered > 0 {
            let share = self.marked as f64 / self.delivered as f64;
            self.alpha += G * (share - self.alpha);
            (self.delivered, self.marked) = (0, 0);
            self.began = ack.path.now;
        }
    }

    fn reduce_to(&mut self, cwnd: f64) {
        self.ssthresh = cwnd.max(LEAST);
        self.cwnd = self.ssthresh;
    }
}

impl Controller for Prague {
    #[inline]
    fn cwnd(&self) -> f64 {
        self.cwnd
    }
    fn ssthresh(&self) -> f64 {
        self.ssthresh
    }
    fn pacing_rate(&self) -> Option<f64> {
        let factor = if self.cwnd < self.ssthresh / 2.0 { 2.0 } else { 1.0 };
        (self.srtt > 0.0).then(|| factor * self.cwnd / self.srtt)
    }

    fn on_ack(&mut self, ack: &AckEvent) {
        let is_marked = ack.flags.contains(Flags::ECN_ECHO);
        self.measure(ack);
        self.observe(ack, is_marked);
        if is_marked {
            if !ack.in_recovery && ack.path.now >= self.may_reduce {
                self.reduce_to(self.cwnd * (1.0 - self.alpha / 2.0));
                self.may_reduce = ack.path.now + Duration::from_secs_f64(self.rtt_virt());
            }
        } else if ack.allows_growth() && self.cwnd < self.ssthresh {
            self.cwnd = reno::grown(self.cwnd, self.ssthresh, ack.growth);
        } else if ack.allows_growth() {
            let ratio = if self.srtt > 0.0 { self.srtt / self.rtt_virt() } else { 1.0 };
            self.cwnd += ack.growth * ratio * ratio / self.cwnd;
        }
    }

    fn on_congestion(&mut self, event: &CongestionEvent) {
        self.reduce_to(event.path.in_flight * event.kept(0.5));
    }

    fn on_reset(&mut self, event: &ResetEvent) {
        if !event.repeated {
            self.ssthresh = (event.path.in_flight * event.kept(0.5)).max(LEAST);
        }
        self.cwnd = event.window_after(self.cwnd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::event::Path;

    fn prague(cwnd: f64) -> Prague {
        let config = EndpointConfig { initial_window: cwnd, ..EndpointConfig::default() };
        let controller = Prague::of(PragueConfig::DEFAULT, &config);
        Prague { ssthresh: cwnd, ..controller }
    }

    /// An acknowledgment of a packet at `at` milliseconds, of a path of `rtt`.
    fn ack(at: u64, rtt: u64, is_marked: bool) -> AckEvent {
        let rtt = Duration::from_millis(rtt);
        AckEvent {
            path: Path {
                now: Time::ZERO + Duration::from_millis(at),
                rtt,
                min_rtt: rtt,
                ..Path::default()
            },
            newly_acked: 1,
            delivered: 1,
            growth: 1.0,
            cwnd_limited: true,
            flags: if is_marked { Flags::ECN_ECHO } else { Flags::NONE },
            ..AckEvent::default()
        }
    }

    #[test]
    fn alpha_is_an_average_over_virtual_round_trips() {
        let mut controller = prague(20.0);
        // RTT 10 ms, RTT_virt 25 ms: four acknowledgments up to 25 ms, one of them marked:
        // alpha = 15/16 + 1/16 x 1/4.
        for (at, is_marked) in [(10, false), (15, true), (20, false), (25, false)] {
            controller.on_ack(&ack(at, 10, is_marked));
        }
        assert!((controller.alpha - 0.953_125).abs() < 1e-12);
        // The next share is from 25 to 50 ms: no marks, alpha = 0.953125 x 15/16.
        controller.on_ack(&ack(49, 10, false));
        assert!((controller.alpha - 0.953_125).abs() < 1e-12);
        controller.on_ack(&ack(50, 10, false));
        assert!((controller.alpha - 0.893_554_687_5).abs() < 1e-12);
    }

    #[test]
    fn one_cut_by_half_of_alpha_and_growth_goes_on() {
        let mut controller = prague(20.0);
        (controller.alpha, controller.began) = (0.25, Time::NEVER); // Keeps alpha as it is.
        controller.on_ack(&ack(1000, 50, true));
        // 20 (1 - 0.125); RTT_virt is 50 ms: the next may come at 1050 ms.
        assert!((controller.cwnd() - 17.5).abs() < 1e-12);
        controller.on_ack(&ack(1040, 50, true));
        assert!((controller.cwnd() - 17.5).abs() < 1e-12);
        controller.on_ack(&ack(1041, 50, false));
        assert!((controller.cwnd() - (17.5 + 1.0 / 17.5)).abs() < 1e-12);
        let before = controller.cwnd();
        controller.on_ack(&ack(1050, 50, true));
        assert!((controller.cwnd() - 0.875 * before).abs() < 1e-12);
    }

    #[test]
    fn growth_on_a_short_path_is_that_of_the_virtual_one() {
        // 5 ms: (5/25)^2 = 0.04 of a packet per window.
        let mut controller = prague(20.0);
        controller.on_ack(&ack(5, 5, false));
        assert!((controller.cwnd() - (20.0 + 0.04 / 20.0)).abs() < 1e-12);
        // 20 packets in 5 ms are 4000 a second.
        let mut controller = prague(20.0);
        controller.measure(&ack(5, 5, false));
        assert!((controller.pacing_rate().unwrap() - 4000.0).abs() < 1e-9);
        // Far below ssthresh twice as many.
        controller.ssthresh = 50.0;
        assert!((controller.pacing_rate().unwrap() - 8000.0).abs() < 1e-9);
    }

    #[test]
    fn a_loss_halves() {
        let mut controller = prague(20.0);
        let path = Path { in_flight: 20.0, ..Path::default() };
        controller.on_congestion(&CongestionEvent::certain(path));
        assert_eq!((controller.cwnd(), controller.ssthresh()), (10.0, 10.0));
        controller.on_reset(&ResetEvent::timeout(path));
        assert_eq!((controller.cwnd(), controller.ssthresh()), (1.0, 10.0));
    }
}
