//! The level of the queue: a loss is congestion as far as more is lost at such a level of the queue
//! than at lower ones.
//!
//! A queue that overflows drops while it is full, a link that corrupts does so at any length of the
//! queue. So the loss rate of shorter queues is an estimate of what corruption takes, and what is
//! lost beyond it at longer ones is congestion: the e and p of CETEN (eten2004, section 5), learned by the sender
//! alone. Tests of the queue by a threshold are Veno's (Fu and Liew 2003), Spike's (Cen et al. 2003)
//! and h2o/quicly#687's.
//!
//! ```text
//! level l  = (RTT - RTTmin) / (RTTmax - RTTmin)     of the acknowledgment that tells of it
//! bins     : l from 0, 0.3, 0.6, 0.8, 0.9 and 0.98 on; each counts packets n and losses
//! e        = losses / n of the bins below together; what links tell, if that is more (CETEN), up to
//!            losses / n of all bins
//! p        = losses / n of the bin
//! P(congestion) = max(0, 1 - e / p) for each loss;  1 - product of (1 - P) for those of a window
//! ```
//!
//! - In the lowest bin P is 0: there is nothing to compare with.
//! - Between the lowest and the highest a full queue is no explanation. There P is 0 unless
//!   n >= 200 and p - e is more than four standard deviations of chance.
//! - Counts of a bin fade with the packets that it counts, by 1/e every 4000 of them. The fewest
//!   packets that e is taken of count as 100: without knowledge a loss in a full queue is congestion.
//! - RTTmin is that of 60 s, RTTmax that of 30 s, both of 100 round trips at least.
//! - What counts as a packet is an acknowledgment. Where one covers several, e and p are too
//!   large by the same factor, which their quotient does not notice.
//! - The losses of a window are judged one by one, the first as it is found and the others as they are sent
//!   again. Each verdict is the part that is missing so that all cuts together, by half of the probability
//!   each, are what the window asks for.
//! - A timeout is congestion.

use super::{Judge, LossDiscrimination, Setup};
use crate::endpoint::estimator::{Greatest, Least};
use crate::endpoint::event::{AckEvent, LossEvent, Path};
use crate::packet::CongestionHeader;
use crate::part::{Form, Kind, Part, Words};
use crate::units::{Duration, Probability};

/// Where bins but the lowest begin.
const EDGES: [f64; BINS - 1] = [0.3, 0.6, 0.8, 0.9, 0.98];
const BINS: usize = 6;
/// Fewer packets than that in the bins below count as so many.
const PRIOR: f64 = 100.0;
/// The fewest packets by which a bin below the highest says something.
const FEWEST: f64 = 200.0;
/// Standard deviations that are no chance.
const DEVIATIONS: f64 = 4.0;
/// How long RTTmin and RTTmax are remembered, and no less than [`ROUNDS`].
const LEAST_SPAN: Duration = Duration::from_secs(60);
const GREATEST_SPAN: Duration = Duration::from_secs(30);
/// Above this a window is congested, and no further loss of it matters.
const CERTAIN: f64 = 0.99;
/// Round trips that RTTmin and RTTmax are taken over at least.
const ROUNDS: u64 = 100;

/// Parameters of the level of the queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueueLevelConfig {
    /// Packets of a bin after which what it counted has faded to 1/e; 100 to 10^9, 4000.
    pub memory: f64,
}

impl QueueLevelConfig {
    /// As it is usually.
    pub const DEFAULT: QueueLevelConfig = QueueLevelConfig { memory: 4000.0 };
}

crate::parameters! {
    QueueLevelConfig in "queue_level", "parameters of queue-level";
    memory: Kind::Number { least: 100.0, most: 1e9 }, "packets", "after so many a count has faded to 1/e";
}

/// What was seen at one level.
#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    packets: f64,
    lost: f64,
}

/// What is known of losses by the level of the queue.
#[derive(Debug, Clone)]
pub struct QueueLevel {
    memory: f64,
    bins: [Bin; BINS],
    least: Least<Duration>,
    greatest: Greatest<Duration>,
    /// The share of packets that links say they corrupt.
    told: f64,
    /// The probability that the losses of this window judged so far were all corruption.
    spared: f64,
    unjudged_from: Option<u64>,
}

impl Part for QueueLevel {
    type Config = QueueLevelConfig;
    const FORMS: &'static [Form<QueueLevelConfig>] = &[Form {
        words: Words {
            name: "queue-level",
            what: "congestion as far as the loss rate is above that of shorter queues",
            source: "Windward; eten2004 section 5 for e and p",
        },
        config: QueueLevelConfig::DEFAULT,
    }];
}

impl Judge for QueueLevel {
    fn new(config: &QueueLevelConfig, _: Setup<'_>) -> Self {
        QueueLevel::of(*config)
    }
}

impl QueueLevel {
    fn of(config: QueueLevelConfig) -> Self {
        QueueLevel {
            memory: config.memory,
            bins: [Bin::default(); BINS],
            least: Least::default(),
            greatest: Greatest::default(),
            told: 0.0,
            spared: 1.0,
            unjudged_from: None,
        }
    }

    /// The bin of the latest RTT.
    fn bin(&self, path: &Path) -> usize {
        let (Some(least), Some(greatest)) = (self.least.get(), self.greatest.get()) else {
            return 0;
        };
        let range = (greatest - least).as_secs_f64();
        let level = if range > 0.0 { (path.rtt - least).as_secs_f64() / range } else { 0.0 };
        EDGES.iter().filter(|edge| level >= **edge).count()
    }

    fn count(&mut self, bin: usize, packets: f64, lost: f64) {
        let bin = &mut self.bins[bin];
        let kept = libm::exp(-packets / self.memory);
        bin.packets = bin.packets * kept + packets;
        bin.lost = bin.lost * kept + lost;
    }

    /// The probability that a loss in that bin is congestion.
    fn congestion(&self, bin: usize) -> f64 {
        let (Bin { packets, lost }, below) = (self.bins[bin], &self.bins[..bin]);
        if bin == 0 || lost <= 0.0 {
            return 0.0;
        }
        let shorter = below.iter().map(|bin| bin.packets).sum::<f64>().max(PRIOR);
        let e = below.iter().map(|bin| bin.lost).sum::<f64>() / shorter;
        let e = e.max(self.told.min(self.loss_rate()));
        let p = lost / packets.max(1.0);
        if bin < BINS - 1 {
            let deviation = libm::sqrt(e.max(1.0 / shorter) / packets.max(1.0));
            if packets < FEWEST || p - e <= DEVIATIONS * deviation {
                return 0.0;
            }
        }
        (1.0 - e / p).max(0.0)
    }

    /// The loss rate at all levels.
    fn loss_rate(&self) -> f64 {
        let all = |count: fn(&Bin) -> f64| self.bins.iter().map(count).sum::<f64>();
        all(|bin| bin.lost) / all(|bin| bin.packets).max(1.0)
    }

    /// What a loss adds to those of its window.
    fn verdict(&mut self, loss: &LossEvent) -> Probability {
        let congestion = self.congestion(self.bin(&loss.path));
        let kept = |spared: f64| 1.0 - (1.0 - spared) / 2.0;
        let before = kept(self.spared);
        self.spared *= 1.0 - congestion;
        self.unjudged_from = (self.spared > 1.0 - CERTAIN).then_some(loss.seq + 1);
        Probability::new(2.0 * (1.0 - kept(self.spared) / before)).unwrap_or(Probability::ONE)
    }
}

impl LossDiscrimination for QueueLevel {
    fn on_ack(&mut self, ack: &AckEvent) {
        if let CongestionHeader::Survival { probability } = ack.header
            && (0.0..=1.0).contains(&probability)
        {
            self.told = 1.0 - probability;
        }
        let Path { now, rtt, srtt, .. } = ack.path;
        if rtt.is_zero() {
            return;
        }
        let rounds = srtt.saturating_mul(ROUNDS);
        self.least.update(now, rtt, LEAST_SPAN.max(rounds));
        self.greatest.update(now, rtt, GREATEST_SPAN.max(rounds));
        self.count(self.bin(&ack.path), 1.0, 0.0);
    }

    fn on_lost(&mut self, path: &Path, lost: u64) {
        self.count(self.bin(path), lost as f64, lost as f64);
    }

    fn judge(&mut self, loss: &LossEvent) -> Probability {
        self.spared = 1.0;
        self.verdict(loss)
    }

    fn opinion(&self, loss: &LossEvent) -> Probability {
        Probability::new(self.congestion(self.bin(&loss.path))).unwrap_or(Probability::ONE)
    }

    fn unjudged_from(&self) -> Option<u64> {
        self.unjudged_from
    }

    fn judge_repair(&mut self, loss: &LossEvent) -> Probability {
        self.verdict(loss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::estimator::LossRate;
    use crate::endpoint::event::LossSign;
    use crate::units::Time;

    fn path(rtt: u64) -> Path {
        let now = Time::ZERO + Duration::from_secs(1);
        Path { now, rtt: Duration::from_millis(rtt), ..Path::default() }
    }

    fn loss(rtt: u64) -> LossEvent {
        let (sign, rate) = (LossSign::Acknowledgments, LossRate::default());
        LossEvent { path: path(rtt), seq: 7, sign, rate }
    }

    /// Of each `period` packets at that RTT one is lost.
    fn seen(judge: &mut QueueLevel, rtt: u64, packets: u64, period: u64) {
        for n in 0..packets {
            if n % period == period - 1 {
                judge.on_lost(&path(rtt), 1);
            } else {
                judge.on_ack(&AckEvent { path: path(rtt), ..AckEvent::default() });
            }
        }
    }

    /// RTTs from 100 to 200 ms, and hardly any fading.
    fn judge() -> QueueLevel {
        let mut judge = QueueLevel::of(QueueLevelConfig { memory: 1e9 });
        seen(&mut judge, 100, 1, u64::MAX);
        seen(&mut judge, 200, 1, u64::MAX);
        judge
    }

    #[test]
    fn what_is_lost_beyond_the_rate_of_shorter_queues_is_congestion() {
        let mut judge = judge();
        // 1 % at short queues, 4 % at full ones: P = 1 - 1/4.
        seen(&mut judge, 110, 1000, 100);
        seen(&mut judge, 200, 1000, 25);
        // e = 10/1001, p = 40/1001.
        let verdict = judge.judge(&loss(200)).get();
        assert!((verdict - 0.75).abs() < 1e-6, "{verdict}");
        // What is left of the window is 1 - 3/8; a second loss makes 1 - (1 - 1/16) / 2 of it.
        let second = judge.judge_repair(&loss(200)).get();
        let kept = (1.0 - verdict / 2.0) * (1.0 - second / 2.0);
        assert!((kept - (1.0 - 15.0 / 32.0)).abs() < 1e-6, "{second}");
        assert_eq!(judge.unjudged_from(), Some(8));
        // After four 1/256 is left, and no other matters.
        judge.judge_repair(&loss(200));
        judge.judge_repair(&loss(200));
        assert_eq!(judge.unjudged_from(), None);
    }

    #[test]
    fn losses_at_any_length_of_the_queue_are_corruption() {
        let mut judge = judge();
        for rtt in [105, 140, 170, 185, 195, 200] {
            seen(&mut judge, rtt, 1000, 20);
        }
        for rtt in [105, 140, 170, 185, 195] {
            judge.on_lost(&path(rtt), 1);
            assert_eq!(judge.judge(&loss(rtt)), Probability::ZERO, "{rtt}");
            assert_eq!(judge.unjudged_from(), Some(8));
        }
        // In the highest bin there is no threshold: 5.1 % against 5.0 %.
        judge.on_lost(&path(200), 1);
        assert!(judge.judge(&loss(200)).get() < 0.04);
    }

    #[test]
    fn without_knowledge_a_loss_in_a_full_queue_is_congestion() {
        let mut judge = judge();
        judge.on_lost(&path(200), 1);
        assert_eq!(judge.judge(&loss(200)), Probability::ONE);
        // And in the lowest bin never.
        judge.on_lost(&path(110), 1);
        assert_eq!(judge.judge(&loss(110)), Probability::ZERO);
        assert_eq!(judge.judge_repair(&loss(110)), Probability::ZERO);
        assert_eq!(judge.unjudged_from(), Some(8));
    }

    #[test]
    fn below_the_highest_level_only_what_is_no_chance_counts() {
        // e = 1/100 of 1000, so that a deviation of a bin of 400 is sqrt(0.01 / 400) = 0.005.
        let verdict = |lost: u64| {
            let mut judge = judge();
            seen(&mut judge, 110, 1000, 100);
            seen(&mut judge, 170, 400 - lost, u64::MAX);
            (0..lost).for_each(|_| judge.on_lost(&path(170), 1));
            judge.opinion(&loss(170)).get()
        };
        // 11 of 400 are 0.0275: 3.5 deviations above; 13 are 0.0325, 4.5 above.
        assert_eq!(verdict(11), 0.0);
        assert!((verdict(13) - (1.0 - 0.01 / 0.0325)).abs() < 1e-2);
    }

    #[test]
    fn what_links_tell_is_taken_up_to_what_is_lost_in_all() {
        // 1 % at short queues and 5 % at full ones, of 2000: 3 % in all.
        let verdict = |survival: f64| {
            let mut judge = judge();
            seen(&mut judge, 110, 990, u64::MAX);
            (0..10).for_each(|_| judge.on_lost(&path(110), 1));
            seen(&mut judge, 200, 950, u64::MAX);
            (0..50).for_each(|_| judge.on_lost(&path(200), 1));
            let header = CongestionHeader::Survival { probability: survival };
            judge.on_ack(&AckEvent { path: path(0), header, ..AckEvent::default() });
            judge.opinion(&loss(200)).get()
        };
        for (survival, e) in [(1.0, 0.01), (0.995, 0.01), (0.98, 0.02), (0.5, 0.03), (0.0, 0.03)] {
            let verdict = verdict(survival);
            assert!((verdict - (1.0 - e / 0.05)).abs() < 2e-2, "{survival}: {verdict}");
        }
        // What is no probability says nothing.
        for survival in [f64::NAN, -7.0, 1.5] {
            assert!((verdict(survival) - 0.8).abs() < 2e-2, "{survival}");
        }
    }

    #[test]
    fn counts_fade() {
        let mut judge = QueueLevel::of(QueueLevelConfig { memory: 100.0 });
        judge.count(2, 50.0, 50.0);
        judge.count(2, 100.0, 0.0);
        let Bin { packets, lost } = judge.bins[2];
        assert!((lost - 50.0 / core::f64::consts::E).abs() < 1e-9);
        assert!((packets - lost - 100.0).abs() < 1e-9);
    }
}
