//! Proportional Integral controller Enhanced (Pan, Natarajan, Baker and White, RFC 8033).
//!
//! Arrivals are dropped with a probability that a controller updates every 15 ms, from the distance
//! of the waiting time from its target and from its change. Steps are smaller at a smaller
//! probability, so that one set of gains works for light and heavy load. Short bursts pass.
//!
//! ```text
//! p    += scale(p) (alpha (delay - target) + beta (delay - delay_old))            section 4.2
//! p    *= 0.98                    if there has been no delay for two updates      section 4.2
//! burst = max(0, burst - t_update); max_burst again once p = 0 and delays < target/2   4.4
//! pass  : delay_old < target/2 and p < 0.2, or no more than two packets wait      section 4.1
//! ```
//!
//! The waiting time is that of the packet that left last, by time stamps as section 4.3 allows, and
//! zero when the queue is empty. ECN: section 5.1, marks up to a probability of `mark_threshold`.
//! The steps are capped as in section 5.5.
//!
//! Deviations: the optional parts of sections 5.2 (departure rate), 5.3 (PIE may be inactive), 5.4
//! (derandomization) are not implemented. While nothing waits and everything is at rest, updates
//! that would change nothing are skipped; the schedule of updates does not change.

use super::codel::TIMES;
use super::{Aqm, AqmPart, Backlog, Leaving, QueueAction, QueueLimit, QueueSetup};
use crate::packet::{Flags, Packet};
use crate::parameters;
use crate::part::{Form, Part, ValueKind, Words};
use crate::rng::Stream;
use crate::units::{Duration, Probability, Time};

parameters! {
    /// Parameters of PIE.
    pub struct PieConfig in "", "parameters of pie";
    /// RFC 8033 sections 4.2, 4.4 and 5.1. No marks unless told, as in tc-pie(8).
    pub const RFC8033;
    /// QDELAY_REF:
    target: Duration = Duration::from_millis(15), TIMES, "", "target of the waiting time";
    t_update: Duration = Duration::from_millis(15),
        TIMES, "", "time between updates of the probability";
    max_burst: Duration = Duration::from_millis(150),
        ValueKind::Time { least: Duration::ZERO, most: Duration::from_secs(100) }, "",
        "longest burst without a drop";
    alpha: f64 = 0.125, ValueKind::Number { least: 0.0, most: 1000.0 }, "Hz",
        "gain of the distance from the target";
    beta: f64 = 1.25, ValueKind::Number { least: 0.0, most: 1000.0 }, "Hz",
        "gain of the change of waiting time";
    /// MEAN_PKTSIZE:
    mean_packet_size: u32 = 1000, ValueKind::Integer { least: 1, most: 1 << 20 }, "bytes",
        "size of a packet; two such packets may always wait";
    ecn: bool = false, ValueKind::Bool, "", "mark instead of dropping if ECN is negotiated";
    /// mark_ecnth:
    mark_threshold: f64 = 0.1, ValueKind::Number { least: 0.0, most: 1.0 }, "",
        "probability from which ECN-capable packets are dropped too", when = |pie| pie.ecn;
}

/// The state of PIE.
#[derive(Debug, Clone)]
pub struct Pie {
    config: PieConfig,
    stream: Stream,
    /// drop_prob_.
    probability: f64,
    /// current_qdelay and qdelay_old_.
    delay: Duration,
    delay_old: Duration,
    /// burst_allowance_.
    burst_allowance: Duration,
    update_due: Time,
    asleep: bool,
}

impl Pie {
    /// PIE of an empty queue, drawing from `stream`.
    pub fn with(config: PieConfig, stream: Stream) -> Self {
        Pie {
            config,
            stream,
            probability: 0.0,
            delay: Duration::ZERO,
            delay_old: Duration::ZERO,
            burst_allowance: config.max_burst,
            update_due: Time::ZERO + config.t_update,
            asleep: true,
        }
    }

    /// The probability of a drop.
    pub fn probability(&self) -> f64 {
        self.probability
    }

    /// Section 4.2: how much smaller steps are where the probability is small.
    fn scale(probability: f64) -> f64 {
        match probability {
            p if p < 1e-6 => 1.0 / 2048.0,
            p if p < 1e-5 => 1.0 / 512.0,
            p if p < 1e-4 => 1.0 / 128.0,
            p if p < 1e-3 => 1.0 / 32.0,
            p if p < 1e-2 => 1.0 / 8.0,
            p if p < 1e-1 => 1.0 / 2.0,
            _ => 1.0,
        }
    }

    /// Section 4.2: moves the probability.
    fn update(&mut self) {
        let PieConfig { target, t_update, alpha, beta, .. } = self.config;
        let (delay, old) = (self.delay.as_secs_f64(), self.delay_old.as_secs_f64());
        let step = alpha * (delay - target.as_secs_f64()) + beta * (delay - old);
        let mut step = step * Self::scale(self.probability);
        if self.probability >= 0.1 {
            step = step.min(0.02); // Section 5.5.
        }
        self.probability += step;
        if self.delay.is_zero() && self.delay_old.is_zero() {
            self.probability *= 0.98;
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        self.delay_old = self.delay;
        self.burst_allowance = self.burst_allowance - t_update;
    }

    /// Section 4.1: must this arrival go, `bytes` waiting?
    fn drops_early(&mut self, bytes: u64) -> bool {
        let half = self.config.target.mul_f64(0.5);
        if self.probability == 0.0 && self.delay < half && self.delay_old < half {
            self.burst_allowance = self.config.max_burst; // Section 4.4.
        }
        let light = self.delay_old < half && self.probability < 0.2;
        if !self.burst_allowance.is_zero()
            || light
            || bytes <= 2 * u64::from(self.config.mean_packet_size)
        {
            return false;
        }
        self.stream.chance(Probability::new(self.probability).unwrap_or(Probability::ONE))
    }
}

impl Part for Pie {
    type Config = PieConfig;
    const FORMS: &'static [Form<PieConfig>] = &[Form {
        words: Words {
            name: "pie",
            what: "drops arrivals with a probability that a controller of the waiting time moves",
            source: "RFC 8033",
        },
        config: PieConfig::RFC8033,
    }];
}

impl Aqm for Pie {
    fn on_enqueue(&mut self, now: Time, queue: &Backlog<'_>, packet: &Packet) -> QueueAction {
        if self.asleep {
            self.asleep = false;
            let interval = self.config.t_update;
            let missed = now.since(self.update_due).as_ps() / interval.as_ps();
            if self.update_due <= now {
                self.update_due += interval.saturating_mul(missed + 1);
            }
        }
        if !self.drops_early(queue.bytes) {
            return QueueAction::Pass;
        }
        let PieConfig { ecn, mark_threshold, .. } = self.config;
        let marks = ecn && packet.flags.contains(Flags::ECN_CAPABLE);
        // Section 5.1.
        if marks && self.probability <= mark_threshold {
            QueueAction::Mark
        } else {
            QueueAction::Drop
        }
    }

    fn on_dequeue(
        &mut self,
        now: Time,
        leaving: Leaving,
        _: &Backlog<'_>,
        _: &Packet,
    ) -> QueueAction {
        self.delay = now.since(leaving.arrived);
        QueueAction::Pass
    }

    fn next_timer(&self) -> Time {
        if self.asleep { Time::NEVER } else { self.update_due }
    }

    fn on_timer(&mut self, now: Time, queue: &Backlog<'_>) {
        if queue.packets == 0 {
            self.delay = Duration::ZERO;
        }
        self.update();
        self.update_due = now + self.config.t_update;
        // An allowance that is not full will be when the next packet comes.
        self.asleep = queue.packets == 0 && self.probability == 0.0 && self.delay_old.is_zero();
    }
}

impl AqmPart for Pie {
    fn new(config: &PieConfig, setup: &QueueSetup<'_>) -> Self {
        Pie::with(*config, setup.stream("pie"))
    }
    fn marks(config: &PieConfig) -> bool {
        config.ecn
    }
    const ACTS_ON_DEPARTURE: bool = true;
    // As in Linux.
    const DEFAULT_LIMIT: Option<QueueLimit> = Some(QueueLimit::Packets(1000));
    const KEEPS_QUEUE_SHORT: bool = true;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::QueueLimit;

    fn pie(config: PieConfig) -> Pie {
        Pie::with(config, Stream::new(1, "pie", "test"))
    }

    fn queue(packets: usize) -> Backlog<'static> {
        let (limit, bytes) = (QueueLimit::Packets(1000), 1000 * packets as u64);
        Backlog { packets, bytes, limit, idle_since: None, empty_since: None, lanes: &[] }
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn near(measured: f64, expected: f64) {
        assert!((measured - expected).abs() < 1e-9, "{measured} for {expected}");
    }

    #[test]
    fn the_probability_follows_its_equation() {
        let mut pie = pie(PieConfig::RFC8033);
        // 0.125 (0.035 - 0.015) + 1.25 (0.035 - 0) = 0.0025 + 0.04375 = 0.04625, over 2048.
        pie.delay = ms(35);
        pie.update();
        let first = 0.04625 / 2048.0;
        near(pie.probability(), first);
        // Unchanged: 0.0025, over 128 since 1e-5 < p = 2.26e-5 < 1e-4.
        pie.update();
        near(pie.probability(), first + 0.0025 / 128.0);
        // Half gone: 0.125 (0.005 - 0.015) + 1.25 (0.005 - 0.035) = -0.03875 is less than p.
        pie.probability = 0.05;
        pie.delay = ms(5);
        pie.update();
        near(pie.probability(), 0.05 - 0.03875 / 2.0);
        // Nothing: 0.125 (-0.015) + 1.25 (-0.005) = -0.008125, halved; then 0.125 (-0.015) =
        // -0.001875, halved or by 8, and 0.98 of it.
        pie.delay = Duration::ZERO;
        pie.update();
        near(pie.probability(), 0.030625 - 0.0040625);
        pie.update();
        near(pie.probability(), (0.0265625 - 0.0009375) * 0.98);
    }

    #[test]
    fn steps_are_capped_once_it_drops_a_tenth() {
        let mut pie = pie(PieConfig::RFC8033);
        pie.probability = 0.1;
        pie.delay = ms(500);
        pie.update(); // 0.125 x 0.485 + 1.25 x 0.5 = 0.69 would be the step.
        near(pie.probability(), 0.12);
    }

    #[test]
    fn a_burst_passes_for_its_allowance() {
        let mut pie = pie(PieConfig::RFC8033);
        let mut passed = 0;
        let packet = Packet { size: 1000, ..Packet::default() };
        // The worst there is, all the time: ten updates of 15 ms use 150 ms up.
        for update in 1..=20 {
            let now = Time::ZERO + ms(15 * update);
            if pie.on_enqueue(now, &queue(100), &packet) == QueueAction::Pass {
                passed += 1;
            }
            pie.delay = ms(1000);
            pie.on_timer(now, &queue(100));
            pie.probability = 1.0;
        }
        assert_eq!(passed, 10);
        // All quiet: the allowance is full again.
        pie.probability = 0.0;
        (pie.delay, pie.delay_old) = (ms(7), ms(7));
        assert!(!pie.drops_early(100_000));
        assert_eq!(pie.burst_allowance, ms(150));
    }

    #[test]
    fn light_load_and_short_queues_are_left_alone() {
        let mut pie = pie(PieConfig { max_burst: Duration::ZERO, ..PieConfig::RFC8033 });
        pie.probability = 1.0;
        pie.delay_old = ms(100);
        assert!(!pie.drops_early(2000));
        assert!(pie.drops_early(2001));
        pie.probability = 0.19;
        pie.delay_old = ms(7);
        assert!((0..100).all(|_| !pie.drops_early(100_000)));
    }

    #[test]
    fn ecn_packets_are_marked_up_to_a_tenth() {
        let config = PieConfig { ecn: true, max_burst: Duration::ZERO, ..PieConfig::RFC8033 };
        let mut pie = pie(config);
        pie.delay_old = ms(100);
        let capable = Packet { size: 1000, flags: Flags::ECN_CAPABLE, ..Packet::default() };
        let mut fates = |probability: f64, packet: &Packet| -> Vec<QueueAction> {
            pie.probability = probability;
            (0..1000).map(|_| pie.on_enqueue(Time::ZERO, &queue(100), packet)).collect()
        };
        let marked = fates(0.1, &capable);
        let share = marked.iter().filter(|fate| **fate == QueueAction::Mark).count();
        // 100 of 1000; five standard deviations of sqrt(1000 x 0.1 x 0.9) = 9.5.
        assert!(share.abs_diff(100) < 48 && !marked.contains(&QueueAction::Drop), "{share}");
        assert!(!fates(0.11, &capable).contains(&QueueAction::Mark));
        let plain = Packet { size: 1000, ..Packet::default() };
        assert!(!fates(0.1, &plain).contains(&QueueAction::Mark));
    }

    #[test]
    fn at_rest_it_sleeps_and_wakes_in_its_rhythm() {
        let mut pie = pie(PieConfig::RFC8033);
        assert_eq!(pie.next_timer(), Time::NEVER);
        let at = |time| Time::ZERO + ms(time);
        pie.on_enqueue(at(100), &queue(0), &Packet::default());
        // Multiples of 15 ms: the next is 105.
        assert_eq!(pie.next_timer(), at(105));
        pie.on_timer(at(105), &queue(0));
        assert_eq!(pie.next_timer(), Time::NEVER);
        pie.on_enqueue(at(120), &queue(0), &Packet::default());
        assert_eq!(pie.next_timer(), at(135));
    }
}
