//! Copa (Arun and Balakrishnan, NSDI 2018).
//!
//! If packets arrive as a Poisson process, the best rate for delay and throughput keeps 1 / delta
//! packets in the queue on average. The window moves towards this target by 1 / delta packets per
//! round trip, and faster the longer it moves in one direction, so that the queue empties every few
//! round trips and every flow can measure the path without it:
//!
//! ```text
//! dq       = RTTstanding - RTTmin           least RTT of the last srtt / 2, and of 10 s
//! target   = 1 / (delta dq)                 packets per second; delta = 1/2
//! rate     = cwnd / RTTstanding
//! every ACK:  cwnd += v / (delta cwnd)      if rate <= target, else -=
//! pace     = 2 cwnd / RTTstanding
//! v        : 1; doubled every round trip from the third on in one direction
//! slow start: cwnd doubles every round trip until rate > target
//! ```
//!
//! If the queue has not been nearly empty (dq < 10 % of RTTmax - RTTmin, RTTmax of four RTTs) for
//! five round trips, other flows fill it. In this competitive mode 1 / delta grows by one per round
//! trip without loss and is halved by a loss, as cwnd in AIMD, but not below 2. In the default mode
//! losses change nothing, and delta is 1/2.
//!
//! Readings and deviations:
//! - A step against the present direction resets the velocity at once, as in mvfst, and not only at
//!   the end of the round trip. One ACK moves cwnd by at most the packets it delivered, so that
//!   cwnd at most doubles in a round trip. cwnd is never below two packets.
//! - A round trip is over when a packet is acknowledged that was sent after it began. srtt has the
//!   gain 1/8 and exact samples, one per ACK.
//! - The window starts again in slow start after a timeout or persistent congestion, which the
//!   paper does not mention. It does not mention ECN marks either: they have no effect.
//! - A loss that may be corruption reduces 1 / delta by half of the probability of congestion.

use super::{Controller, ControllerPart, ControllerSetup};
use crate::endpoint::estimator::{Greatest, Least};
use crate::endpoint::event::{AckEvent, CongestionEvent, ResetEvent};
use crate::part::{Form, Part, ValueKind, Words};
use crate::units::{Duration, Time};

/// The time for which RTTmin is remembered (section 2.1).
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
/// Round trips over which RTTmax is taken (section 2.2).
const MAX_RTT_ROUNDS: u64 = 4;
/// Round trips without a nearly empty queue that show other flows (section 2.2).
const EMPTY_ROUNDS: u64 = 5;
/// The queue is nearly empty below this share of the largest queueing delay (section 2.2).
const NEARLY_EMPTY: f64 = 0.1;
/// Round trips in one direction from which the velocity doubles (section 2.1).
const STEADY_ROUNDS: u32 = 3;
/// The least window, packets.
const LEAST: f64 = 2.0;

crate::parameters! {
    /// Parameters of Copa.
    pub struct CopaConfig in "copa", "parameters of copa";
    /// The values of the paper.
    pub const DEFAULT;
    delta: f64 = 0.5, ValueKind::Positive { most: 10.0 }, "per packet",
        "1 / delta packets wait in the queue on average";
    competitive: bool = true, ValueKind::Bool, "", "compete with flows that fill the queue";
}

/// The state of Copa.
#[derive(Debug, Clone)]
pub struct Copa {
    config: CopaConfig,
    cwnd: f64,
    /// 1 / delta, packets.
    packets: f64,
    in_slow_start: bool,
    velocity: f64,
    /// True if the window has grown over the last round trip.
    is_up: bool,
    /// Round trips in this direction.
    steady: u32,

    srtt: Duration,
    standing: Least<Duration>,
    least: Least<Duration>,
    greatest: Greatest<Duration>,
    /// The last time at which the queue was nearly empty.
    last_empty: Time,

    /// The begin of this round trip, and the window then.
    round: (Time, f64),
    lost_in_round: bool,
}

/// An RTT in seconds; zero before the first sample.
fn seconds(rtt: Option<Duration>) -> f64 {
    rtt.map_or(0.0, Duration::as_secs_f64)
}

impl Part for Copa {
    type Config = CopaConfig;
    const FORMS: &'static [Form<CopaConfig>] = &[Form {
        words: Words {
            name: "copa",
            what: "a rate of 1 / (delta queueing delay); as aggressive as TCP where others fill \
                the queue",
            source: "Arun and Balakrishnan 2018 section 2",
        },
        config: CopaConfig::DEFAULT,
    }];
}

impl ControllerPart for Copa {
    const PACES: bool = true;
    /// Its default mode responds to delay alone.
    const ANSWERS_ECN: bool = false;
    fn new(config: &CopaConfig, setup: ControllerSetup<'_>) -> Self {
        Copa {
            config: *config,
            cwnd: setup.endpoint.initial_window.max(LEAST),
            packets: 1.0 / config.delta,
            in_slow_start: true,
            velocity: 1.0,
            is_up: true,
            steady: 0,
            srtt: Duration::ZERO,
            standing: Least::default(),
            least: Least::default(),
            greatest: Greatest::default(),
            last_empty: Time::ZERO,
            round: (Time::ZERO, setup.endpoint.initial_window),
            lost_in_round: false,
        }
    }
}

impl Copa {
    fn measure(&mut self, now: Time, rtt: Duration) {
        if self.srtt.is_zero() {
            self.srtt = rtt;
            self.last_empty = now;
        } else {
            self.srtt = self.srtt.mul_f64(7.0 / 8.0) + rtt.mul_f64(1.0 / 8.0);
        }
        self.standing.update(now, rtt, self.srtt.mul_f64(0.5));
        self.least.update(now, rtt, MIN_RTT_WINDOW);
        let rounds = self.srtt.saturating_mul(MAX_RTT_ROUNDS);
        self.greatest.update(now, rtt, rounds);
        let least = seconds(self.least.get());
        let swing = seconds(self.greatest.get()) - least;
        if self.queueing_delay() <= NEARLY_EMPTY * swing {
            self.last_empty = now;
        }
    }

    /// dq, seconds.
    fn queueing_delay(&self) -> f64 {
        seconds(self.standing.get()) - seconds(self.least.get())
    }

    /// True in competitive mode: the queue has not been nearly empty for five round trips.
    fn competes(&self, now: Time) -> bool {
        let rounds = self.srtt.saturating_mul(EMPTY_ROUNDS);
        self.config.competitive && now.since(self.last_empty) > rounds
    }

    /// Ends a round trip.
    fn end_round(&mut self, now: Time) {
        let is_up = self.cwnd > self.round.1;
        self.turn(is_up);
        self.steady += 1;
        if self.steady >= STEADY_ROUNDS {
            self.velocity *= 2.0;
        }
        if !self.competes(now) {
            self.packets = 1.0 / self.config.delta;
        } else if !self.lost_in_round {
            self.packets += 1.0;
        }
        self.round = (now, self.cwnd);
        self.lost_in_round = false;
    }

    /// Sets the direction of the window, and resets the velocity if it changes.
    fn turn(&mut self, up: bool) {
        if self.is_up != up {
            self.is_up = up;
            self.velocity = 1.0;
            self.steady = 0;
        }
    }
}

impl Controller for Copa {
    #[inline]
    fn cwnd(&self) -> f64 {
        self.cwnd
    }
    fn pacing_rate(&self) -> Option<f64> {
        let standing = seconds(self.standing.get());
        (standing > 0.0).then(|| 2.0 * self.cwnd / standing)
    }
    fn phase(&self) -> Option<&'static str> {
        Some(if self.in_slow_start { "slow_start" } else { "congestion_avoidance" })
    }

    fn on_ack(&mut self, ack: &AckEvent) {
        let now = ack.path.now;
        self.measure(now, now.since(ack.sent));
        let delivered = ack.delivered as f64;
        let (rate, queue) = (self.cwnd / seconds(self.standing.get()), self.queueing_delay());
        // rate <= packets / dq, where dq may be zero.
        let is_below = rate * queue <= self.packets;
        self.in_slow_start &= is_below;
        let step = (self.velocity * self.packets * delivered / self.cwnd).min(delivered);
        if !is_below {
            self.turn(false);
            self.cwnd = (self.cwnd - step).max(LEAST);
        } else if ack.cwnd_limited && self.in_slow_start {
            self.cwnd += delivered;
        } else if ack.cwnd_limited {
            if self.velocity > 1.0 {
                self.turn(true);
            }
            self.cwnd += step;
        }
        if ack.sent >= self.round.0 {
            self.end_round(now);
        }
    }

    fn on_congestion(&mut self, event: &CongestionEvent) {
        if self.competes(event.path.now) {
            self.lost_in_round = true;
            self.packets = (self.packets * event.kept(0.5)).max(1.0 / self.config.delta);
        }
    }

    fn on_reset(&mut self, event: &ResetEvent) {
        self.cwnd = event.window_after(self.cwnd).max(LEAST);
        self.packets = 1.0 / self.config.delta;
        (self.velocity, self.steady, self.is_up) = (1.0, 0, true);
        self.in_slow_start = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::EndpointConfig;
    use crate::endpoint::event::Path;
    use crate::endpoint::tests::path::TestPath;
    use crate::testing::{ms as at, new_controller};
    use crate::units::Probability;

    /// A Copa past slow start, with a window of 20 packets and an RTT of 80 ms.
    fn copa() -> Copa {
        let config = EndpointConfig { initial_window: 20.0, ..EndpointConfig::default() };
        let mut controller = new_controller::<Copa>(CopaConfig::DEFAULT, &config);
        controller.in_slow_start = false;
        controller.round = (Time::NEVER, 20.0); // No round trip ends.
        controller.measure(at(80), Duration::from_millis(80));
        controller
    }

    /// One packet acknowledged at `now` after `rtt`, milliseconds.
    fn ack(now: u64, rtt: u64) -> AckEvent {
        AckEvent {
            path: Path { now: at(now), ..Path::default() },
            sent: at(now - rtt),
            newly_acked: 1,
            delivered: 1,
            cwnd_limited: true,
            ..AckEvent::default()
        }
    }

    #[test]
    fn the_window_moves_towards_the_target_rate() {
        // dq = 5 ms: target 2 / 0.005 = 400 a second, rate 20 / 0.085 = 235: up by 2/20.
        let mut controller = copa();
        controller.on_ack(&ack(200, 85));
        assert!((controller.cwnd() - 20.1).abs() < 1e-12);
        // dq = 20 ms: target 100, rate 200: down by 2/20.
        let mut controller = copa();
        controller.on_ack(&ack(200, 100));
        assert!((controller.cwnd() - 19.9).abs() < 1e-12);
        // Packets leave at 2 x 19.9 / 0.1 a second.
        assert!((controller.pacing_rate().unwrap() - 398.0).abs() < 1e-9);
    }

    #[test]
    fn slow_start_doubles_until_the_target() {
        let mut controller = copa();
        controller.in_slow_start = true;
        controller.on_ack(&ack(200, 85));
        assert_eq!((controller.cwnd(), controller.in_slow_start), (21.0, true));
        controller.on_ack(&ack(300, 100));
        assert!(!controller.in_slow_start);
        assert!((controller.cwnd() - (21.0 - 2.0 / 21.0)).abs() < 1e-12);
    }

    #[test]
    fn velocity_doubles_from_the_third_round_trip_in_one_direction() {
        let mut controller = copa();
        let mut velocities = Vec::new();
        for _ in 0..4 {
            controller.cwnd += 1.0;
            controller.round.1 = controller.cwnd - 1.0;
            controller.end_round(at(200));
            velocities.push(controller.velocity);
        }
        assert_eq!(velocities, [1.0, 1.0, 2.0, 4.0]);
        // In the other direction: velocity 1.
        controller.on_ack(&ack(400, 160));
        assert_eq!((controller.velocity, controller.is_up), (1.0, false));
    }

    #[test]
    fn a_queue_that_never_empties_is_competed_for() {
        let mut controller = copa();
        // RTT 100 ms, RTTmax 160 ms: dq = 20 ms is more than a tenth of 80 ms.
        for now in (200..=1200).step_by(10) {
            controller
                .measure(at(now), Duration::from_millis(if now % 100 == 0 { 160 } else { 100 }));
        }
        assert!(controller.competes(at(1200)));
        controller.end_round(at(1200));
        controller.end_round(at(1300));
        assert_eq!(controller.packets, 4.0, "2, and one per round trip");
        // A loss that is congestion with probability 1/2 takes a quarter: 3.
        let path = Path { now: at(1300), ..Path::default() };
        let certain = CongestionEvent::certain(path);
        let doubtful = CongestionEvent { probability: Probability::new(0.5).unwrap(), ..certain };
        controller.on_congestion(&doubtful);
        assert_eq!(controller.packets, 3.0);
        controller.end_round(at(1310));
        assert_eq!(controller.packets, 3.0, "no growth in a round trip with a loss");
        controller.on_congestion(&certain);
        assert_eq!(controller.packets, 2.0, "never below 1 / delta of the default mode");
        // The queue was empty once: the default mode.
        controller.packets = 9.0;
        controller.measure(at(1320), Duration::from_millis(80));
        controller.end_round(at(1320));
        assert_eq!(controller.packets, 2.0);
    }

    #[test]
    fn losses_change_nothing_in_the_default_mode() {
        let mut controller = copa();
        let path = Path { now: at(100), ..Path::default() };
        controller.on_congestion(&CongestionEvent::certain(path));
        assert_eq!((controller.cwnd(), controller.packets), (20.0, 2.0));
    }

    /// Section 3: alone, the queue swings between 0 and 2.5 / delta packets, 5 here, with a mean
    /// of half of that, and the path is full except when the queue is empty. This holds for a fluid
    /// whose velocity is 1; a swing whose velocity has doubled goes further from time to time.
    #[test]
    fn alone_the_queue_is_short_and_the_path_full() {
        let mut path = TestPath::new("copa", 2.0, 1000, Duration::from_millis(80));
        path.offer_until(u64::MAX);
        path.run(Duration::from_secs(20), |_, _| {});
        let (before, mut waiting) = (path.delivered(), Vec::new());
        for _ in 0..1000 {
            path.run(Duration::from_millis(20), |_, _| {});
            waiting.push(path.waiting());
        }
        let delivered = path.delivered() - before;
        let mean = waiting.iter().sum::<usize>() as f64 / waiting.len() as f64;
        let most = waiting.iter().max().copied().unwrap();
        println!("delivered {delivered} of 20000, mean {mean:.2}, at most {most}");
        assert!(delivered >= 19_000, "{delivered}");
        assert!((mean - 2.5).abs() < 1.0 && most <= 15, "{mean} {most}");
    }
}
