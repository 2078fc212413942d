//! The level of the queue: the probability of congestion follows from how much the loss rate at
//! this queue level exceeds that at lower levels.
//!
//! A queue that overflows drops packets only while it is full; a link corrupts packets at any queue
//! level. So the loss rate at shorter queues estimates corruption, and the excess at longer queues
//! is congestion. These are e and p of CETEN (eten2004, section 5), learned by the sender alone.
//! Veno (Fu and Liew 2003), Spike (Cen et al. 2003) and h2o/quicly#687 compare the queue with a
//! threshold.
//!
//! ```text
//! d    = RTT - RTTmin    of the packet after the loss, the first of the three that reveal it
//! bins : d up to RTTmin / 100, and each further bin a tenth longer than the one below;
//!        each bin counts packets n and losses
//! e    = losses / n of all bins below, except the next lower one; or the rate that links report
//!        (CETEN), if that is larger, up to losses / n of all bins
//! p    = (losses + 50 e) / (n + 50) - doubt sqrt(e / n)
//!        of the bin, the one below and the one above
//! P(congestion) = max(0, 1 - e / p) for one loss;  1 - product of (1 - P) for those of a window
//! ```
//!
//! - In the two lowest bins P is 0, since there is nothing to compare with.
//! - Below the largest RTT the queue is not full. There P is 0 unless n >= 200 and losses / n - e
//!   is more than four standard deviations of chance.
//! - Counts fade by 1/e every 500 packets, or every cwnd^2, if that is more: the number of packets
//!   that Reno sends from one cut to the next has this order. If e rests on fewer than 100 packets,
//!   they count as 100: a loss in a full queue is congestion as long as nothing else is known,
//!   and if the queue is never shorter.
//! - Bins are delays, not shares of the longest delay: if the rate has risen tenfold, a queue that
//!   is full now was hardly a queue before.
//! - RTTmin is that of the last 60 s, RTTmax that of the last 30 s, both of at least 100 round
//!   trips.
//! - Each acknowledgment counts as one packet. If one covers several packets, e and p are too large
//!   by the same factor, which cancels in their quotient.
//! - The losses of a window are judged one by one, the first when it is found and the others when
//!   they are retransmitted. Each verdict adds what is missing, so that the cuts of all verdicts
//!   together (half of the probability each) equal the cut for the probability of the window.
//! - A timeout is congestion.

use core::ops::Range;

use super::{Discriminator, DiscriminatorPart, DiscriminatorSetup};
use crate::endpoint::estimator::{Greatest, Least};
use crate::endpoint::event::{AckEvent, LossEvent, Path};
use crate::packet::CongestionHeader;
use crate::part::{Form, Part, ValueKind, Words};
use crate::units::{Duration, Probability};

/// The lowest bin holds delays up to this share of RTTmin; each further bin begins at this multiple
/// of the one below; and the highest also holds delays of more than a hundred times RTTmin.
const LOWEST: f64 = 0.01;
const STEP: f64 = 1.1;
const BINS: usize = 98;
/// The largest difference, in bins, of delays that count as equal.
const ALIKE: usize = 1;
/// The least number of packets in the bins below; fewer packets count as this many.
const PRIOR: f64 = 100.0;
/// The weight from which all counts are scaled down.
const HEAVY: f64 = 1e100;
/// Additional packets in p that are assumed to be lost at the rate of shorter queues.
const DOUBTED: f64 = 50.0;
/// The fewest packets from which a bin below the highest gives a verdict.
const FEWEST: f64 = 200.0;
/// Standard deviations above which a difference is significant.
const DEVIATIONS: f64 = 4.0;
/// The time for which RTTmin and RTTmax are remembered, at least [`ROUNDS`] round trips.
const LEAST_SPAN: Duration = Duration::from_secs(60);
const GREATEST_SPAN: Duration = Duration::from_secs(30);
/// The probability above which a window is congested, and its further losses do not matter.
const CERTAIN: f64 = 0.99;
/// The fewest round trips over which RTTmin and RTTmax are taken.
const ROUNDS: u64 = 100;

/// Parameters of the level of the queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueueLevelConfig {
    /// Packets after which a count has faded to 1/e, if cwnd^2 is not more; 100 to 10^9, 500.
    pub memory: f64,
    /// Standard deviations of chance that are subtracted from p; 0 to 10, 0. A larger value takes
    /// more bandwidth from other flows if the path corrupts a little, and makes fewer errors if
    /// there are no other flows.
    pub doubt: f64,
}

impl QueueLevelConfig {
    /// The default parameters.
    pub const DEFAULT: QueueLevelConfig = QueueLevelConfig { memory: 500.0, doubt: 0.0 };
}

crate::parameters! {
    QueueLevelConfig in "queue_level", "parameters of queue-level";
    memory: ValueKind::Number { least: 100.0, most: 1e9 }, "packets",
        "packets after which a count has faded to 1/e; cwnd^2 if that is more";
    doubt: ValueKind::Number { least: 0.0, most: 10.0 }, "standard deviations",
        "part of a loss rate that counts as chance";
}

/// The packets counted at one delay.
#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    packets: f64,
    lost: f64,
}

/// Losses counted by the level of the queue.
#[derive(Debug, Clone)]
pub struct QueueLevel {
    config: QueueLevelConfig,
    bins: Box<[Bin; BINS]>,
    least: Least<Duration>,
    greatest: Greatest<Duration>,
    /// RTTmin of the bins, seconds; zero before the first RTT.
    base: f64,
    /// The present weight of a packet, which grows so that earlier packets count less.
    weight: f64,
    /// The RTTs of the last three packets, the latest first.
    rtts: [Duration; 3],
    /// The share of corrupted packets that links report.
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
            what: "the more the loss rate exceeds that of shorter queues, the likelier congestion",
            source: "Windward; eten2004 section 5 for e and p",
        },
        config: QueueLevelConfig::DEFAULT,
    }];
}

impl DiscriminatorPart for QueueLevel {
    fn new(config: &QueueLevelConfig, _: DiscriminatorSetup<'_>) -> Self {
        QueueLevel::of(*config)
    }
}

impl QueueLevel {
    fn of(config: QueueLevelConfig) -> Self {
        QueueLevel {
            config,
            bins: Box::new([Bin::default(); BINS]),
            least: Least::default(),
            greatest: Greatest::default(),
            base: 0.0,
            weight: 1.0,
            rtts: [Duration::ZERO; 3],
            told: 0.0,
            spared: 1.0,
            unjudged_from: None,
        }
    }

    /// The bin of an RTT.
    fn bin(&self, rtt: Duration) -> usize {
        self.bin_of(rtt.as_secs_f64())
    }

    fn bin_of(&self, rtt: f64) -> usize {
        let waited = (rtt - self.base) / (LOWEST * self.base);
        if waited < 1.0 || waited.is_nan() {
            return 0;
        }
        (1 + (libm::log(waited) / libm::log(STEP)) as usize).min(BINS - 1)
    }

    /// Moves the counts to the bins of a new RTTmin; each keeps its RTT.
    fn rebase(&mut self) {
        let base = self.least.get().map_or(0.0, Duration::as_secs_f64);
        if (base - self.base).abs() <= LOWEST * self.base {
            return;
        }
        let before = core::mem::replace(&mut self.base, base);
        let bins = core::mem::replace(&mut *self.bins, [Bin::default(); BINS]);
        for (bin, counted) in bins.into_iter().enumerate() {
            // The middle of the bin.
            let waited = if bin == 0 { 0.0 } else { libm::pow(STEP, bin as f64 - 0.5) };
            let to = &mut self.bins[self.bin_of(before * (1.0 + LOWEST * waited))];
            to.packets += counted.packets;
            to.lost += counted.lost;
        }
    }

    /// The bin of a loss: that of the first of the three packets that reveal it, which followed it.
    fn bin_of_loss(&self, path: &Path) -> usize {
        let [.., first] = self.rtts;
        self.bin(if first.is_zero() { path.rtt } else { first })
    }

    /// Counts packets that arrived or were lost. Earlier counts fade.
    fn count(&mut self, bin: usize, packets: f64, lost: f64, cwnd: f64) {
        self.weight *= libm::exp(packets / self.config.memory.max(cwnd * cwnd));
        if self.weight > HEAVY {
            for bin in self.bins.iter_mut() {
                bin.packets /= self.weight;
                bin.lost /= self.weight;
            }
            self.weight = 1.0;
        }
        let bin = &mut self.bins[bin];
        bin.packets += packets * self.weight;
        bin.lost += lost * self.weight;
    }

    /// The sum of the counts of several bins.
    fn counts(&self, bins: Range<usize>) -> Bin {
        let bins = &self.bins[bins];
        let sum = |count: fn(&Bin) -> f64| bins.iter().map(count).sum::<f64>() / self.weight;
        Bin { packets: sum(|bin| bin.packets), lost: sum(|bin| bin.lost) }
    }

    /// The probability that a loss in that bin is congestion.
    fn congestion(&self, bin: usize) -> f64 {
        let lowest = bin.saturating_sub(ALIKE);
        let (shorter, here) =
            (self.counts(0..lowest), self.counts(lowest..(bin + ALIKE + 1).min(BINS)));
        if lowest == 0 || here.lost <= 0.0 {
            return 0.0;
        }
        let all = self.counts(0..BINS);
        let known = shorter.packets.max(PRIOR);
        let e = (shorter.lost / known).max(self.told.min(all.lost / all.packets.max(1.0)));
        let is_full = self.greatest.get().is_none_or(|rtt| self.bin(rtt) <= bin + ALIKE);
        if !is_full {
            let deviation = libm::sqrt(e.max(1.0 / known) / here.packets);
            let more = here.lost / here.packets - e;
            if here.packets < FEWEST || more <= DEVIATIONS * deviation {
                return 0.0;
            }
        }
        let p = (here.lost + DOUBTED * e) / (here.packets + DOUBTED);
        let p = p - self.config.doubt * libm::sqrt(e / here.packets);
        if p > e { 1.0 - e / p } else { 0.0 }
    }

    /// The part that a loss adds to the verdicts on its window.
    fn verdict(&mut self, loss: &LossEvent) -> Probability {
        let congestion = self.congestion(self.bin_of_loss(&loss.path));
        let kept = |spared: f64| 1.0 - (1.0 - spared) / 2.0;
        let before = kept(self.spared);
        self.spared *= 1.0 - congestion;
        self.unjudged_from = (self.spared > 1.0 - CERTAIN).then_some(loss.seq + 1);
        Probability::new(2.0 * (1.0 - kept(self.spared) / before)).unwrap_or(Probability::ONE)
    }
}

impl Discriminator for QueueLevel {
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
        self.rebase();
        for _ in 0..ack.newly_acked.clamp(1, 3) {
            self.rtts = [rtt, self.rtts[0], self.rtts[1]];
        }
        self.count(self.bin(rtt), 1.0, 0.0, ack.path.cwnd);
    }

    fn on_lost(&mut self, path: &Path, lost: u64) {
        self.count(self.bin_of_loss(path), lost as f64, lost as f64, path.cwnd);
    }

    fn judge(&mut self, loss: &LossEvent) -> Probability {
        self.spared = 1.0;
        self.verdict(loss)
    }

    fn opinion(&self, loss: &LossEvent) -> Probability {
        Probability::new(self.congestion(self.bin_of_loss(&loss.path))).unwrap_or(Probability::ONE)
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

    /// Counts packets at this RTT, one in `period` of them lost.
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
        let mut judge =
            QueueLevel::of(QueueLevelConfig { memory: 1e9, ..QueueLevelConfig::DEFAULT });
        seen(&mut judge, 100, 1, u64::MAX);
        seen(&mut judge, 200, 1, u64::MAX);
        judge
    }

    /// P at a long queue with `lost` of `n`, and e.
    fn expected((lost, n): (f64, f64), e: f64) -> f64 {
        1.0 - e / ((lost + 50.0 * e) / (n + 50.0))
    }

    #[test]
    fn losses_above_the_rate_of_shorter_queues_are_congestion() {
        let mut judge = judge();
        // 1 % at short queues, 4 % at full ones, with the two of the range.
        seen(&mut judge, 110, 1000, 100);
        seen(&mut judge, 200, 1000, 25);
        // p = (40 + 50 x 0.00999) / 1051 = 0.0385: P = 0.741.
        let verdict = judge.judge(&loss(200)).get();
        assert!((verdict - 0.7407).abs() < 1e-4, "{verdict}");
        assert!((verdict - expected((40.0, 1001.0), 10.0 / 1001.0)).abs() < 1e-5);
        // 1 - P/2 of the window is left; after a second loss 1 - (1 - (1 - P)^2) / 2.
        let second = judge.judge_repair(&loss(200)).get();
        let kept = (1.0 - verdict / 2.0) * (1.0 - second / 2.0);
        assert!((kept - (1.0 + (1.0 - verdict) * (1.0 - verdict)) / 2.0).abs() < 1e-9, "{second}");
        assert_eq!(judge.unjudged_from(), Some(8));
        // With 2 deviations of doubt p is 0.0385 - 2 x 0.00316 = 0.0322: P = 0.690.
        judge.config.doubt = 2.0;
        let doubted = judge.judge(&loss(200)).get();
        assert!((doubted - 0.6899).abs() < 1e-4, "{doubted}");
        judge.config.doubt = 0.0;
        judge.judge(&loss(200));
        judge.judge_repair(&loss(200));
        // After four losses 0.26^4 = 0.005 is left, and further losses do not matter.
        judge.judge_repair(&loss(200));
        judge.judge_repair(&loss(200));
        assert_eq!(judge.unjudged_from(), None);
    }

    #[test]
    fn losses_at_any_length_of_the_queue_are_corruption() {
        let mut judge = judge();
        let rtts = [100, 105, 140, 170, 185, 195, 200];
        for rtt in rtts {
            seen(&mut judge, rtt, 1000, 20);
        }
        for rtt in rtts {
            seen(&mut judge, rtt, 3, u64::MAX);
            judge.on_lost(&path(rtt), 1);
            assert_eq!(judge.judge(&loss(rtt)), Probability::ZERO, "{rtt}");
            assert_eq!(judge.unjudged_from(), Some(8));
        }
    }

    #[test]
    fn without_knowledge_a_loss_in_a_full_queue_is_congestion() {
        let mut judge = judge();
        judge.on_lost(&path(200), 1);
        assert_eq!(judge.judge(&loss(200)), Probability::ONE);
        // Never congestion in a short queue: 0.9 ms are less than 1.1 % of 100 ms.
        let mut judge = self::judge();
        judge.rtts = [Duration::from_micros(100_900); 3];
        judge.on_lost(&path(100), 1);
        assert_eq!(judge.judge(&loss(100)), Probability::ZERO);
        assert_eq!(judge.judge_repair(&loss(100)), Probability::ZERO);
        assert_eq!(judge.unjudged_from(), Some(8));
    }

    #[test]
    fn below_the_longest_queue_only_what_is_no_chance_counts() {
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
        assert!((verdict(13) - expected((13.0, 400.0), 10.0 / 1001.0)).abs() < 1e-5);
    }

    #[test]
    fn a_longer_queue_of_before_hides_none_of_now() {
        // The link was ten times slower, with a queue of 1000 ms and no losses.
        let mut judge = judge();
        seen(&mut judge, 1100, 1000, u64::MAX);
        seen(&mut judge, 110, 1000, u64::MAX);
        // Now it overflows at 100 ms: 20 of 400 are lost. After 0 of 1001, up to 4 sqrt(0.001 /
        // 400) = 0.006 would be chance.
        seen(&mut judge, 200, 400, 20);
        assert_eq!(judge.judge(&loss(200)), Probability::ONE);
    }

    #[test]
    fn counts_of_a_full_queue_move_with_a_new_least_rtt() {
        // A connection that begins with RTTs of 150 to 200 ms; the full queue drops half.
        let mut judge =
            QueueLevel::of(QueueLevelConfig { memory: 1e9, ..QueueLevelConfig::DEFAULT });
        seen(&mut judge, 150, 1, u64::MAX);
        seen(&mut judge, 200, 200, 2);
        // That is a third above the smallest RTT, as 133 ms are now. All but the first still count
        // at 200 ms, which was seen when only the packet at 150 ms had arrived: e is 1/100.
        seen(&mut judge, 100, 1, u64::MAX);
        let full = judge.bin(Duration::from_millis(200));
        let lost = judge.counts(full - ALIKE..full + ALIKE + 1).lost;
        assert!((98.9..99.1).contains(&lost), "{lost}");
        assert!(judge.judge(&loss(200)).get() > 0.97);
        // A smallest RTT that hardly changes moves no counts.
        let path = Path { rtt: Duration::from_micros(99_500), ..path(0) };
        judge.on_ack(&AckEvent { path, ..AckEvent::default() });
        assert_eq!(judge.base, 0.1);
    }

    #[test]
    fn losses_of_shorter_queues_are_forgotten_without_them() {
        let verdict = |packets: u64| {
            let mut judge = QueueLevel::of(QueueLevelConfig::DEFAULT);
            seen(&mut judge, 100, 1, u64::MAX);
            seen(&mut judge, 110, 1000, 5);
            seen(&mut judge, 200, packets, 5);
            judge.judge(&loss(200)).get()
        };
        // A fifth is lost at any level: corruption until the queue was full for 5000 packets.
        assert!(verdict(500) < 0.001);
        assert!(verdict(5000) > 0.99);
    }

    #[test]
    fn a_loss_is_of_the_delay_of_the_packet_behind_it() {
        let mut judge = judge();
        seen(&mut judge, 110, 1000, u64::MAX);
        for rtt in [200, 110, 110] {
            seen(&mut judge, rtt, 1, u64::MAX);
        }
        judge.on_lost(&path(110), 1);
        assert_eq!(judge.judge(&loss(110)), Probability::ONE);
    }

    #[test]
    fn reports_of_links_count_up_to_the_total_loss_rate() {
        // 1 % at short queues and 5 % at full ones, of 2000 packets: 3 % in total.
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
        let (least, most) = (10.0 / 1001.0, 60.0 / 2002.0);
        for (survival, e) in [(1.0, least), (0.995, least), (0.98, 0.02), (0.5, most), (0.0, most)]
        {
            let (verdict, expected) = (verdict(survival), expected((50.0, 1001.0), e));
            assert!((verdict - expected).abs() < 1e-5, "{survival}: {verdict} for {expected}");
        }
        // An invalid probability is ignored.
        for survival in [f64::NAN, -7.0, 1.5] {
            assert_eq!(verdict(survival), verdict(1.0), "{survival}");
        }
    }

    #[test]
    fn counts_fade() {
        let mut judge =
            QueueLevel::of(QueueLevelConfig { memory: 100.0, ..QueueLevelConfig::DEFAULT });
        judge.count(2, 50.0, 50.0, 0.0);
        judge.count(7, 100.0, 0.0, 10.0);
        let faded = 50.0 / core::f64::consts::E;
        let Bin { packets, lost } = judge.counts(2..3);
        assert!((lost - faded).abs() < 1e-9 && (packets - faded).abs() < 1e-9);
        assert!((judge.counts(7..8).packets - 100.0).abs() < 1e-9);
        // By cwnd^2 = 400 packets, where those are more.
        judge.count(7, 400.0, 0.0, 20.0);
        assert!((judge.counts(2..3).lost - faded / core::f64::consts::E).abs() < 1e-9);
        // However many.
        judge.count(7, 1e9, 0.0, 1.0);
        judge.count(7, 1.0, 1.0, 1.0);
        let Bin { packets, lost } = judge.counts(0..BINS);
        assert!(packets > 1e8 && lost == 1.0, "{packets} {lost}");
    }
}
