//! The dual-queue coupled AQM for L4S (De Schepper, Briscoe and White, RFC 9332), with the PI2
//! controller and the ramp of its appendix A.
//!
//! Two lanes share the wire: L for scalable congestion controls, identified by ECT(1) or CE, whose
//! packets are marked early and often and whose queue is very short, and C for all others. A
//! coupling derives marks of L from the drops of C, so that flows of both kinds get about the same
//! rate.
//!
//! ```text
//! p'   += alpha (curq - target) + beta (curq - prevq)        every Tupdate       A.1
//! p_C   = p'^2      p_CL = k p'                                                  A.1
//! p'_L  = ramp from 0 at min_threshold to 1 at min_threshold + range             A.1
//! p_L   = max(p'_L, p_CL)
//! recur: count += p; over 1: count -= 1 and yes                                  A.1
//! overload (p_CL >= 1): L drops with p_C too; p_C >= p_Cmax: C drops all         A.2
//! ```
//!
//! with alpha = 0.1 Tupdate / RTT_max^2, beta = 0.3 / RTT_max, Tupdate = min(target, RTT_max / 3)
//! and p_Cmax = min(1/k^2, 1). The scheduler is one of section 4.2.2: weighted round robin by
//! bytes, 1/16 for C, or a FIFO in which L packets count as having arrived 50 ms earlier.
//!
//! Deviations: the buffer of both is the queue of the link (the RFC: 250 ms). curq is the waiting
//! time of the first packet of C and zero without one, as in A.1; Linux takes the larger of both.
//! Updates that would change nothing, while nothing waits and p' is zero, are skipped.

use super::codel::TIMES;
use super::{Aqm, AqmPart, Backlog, Leaving, QueueAction, QueueLimit, QueueSetup};
use crate::network::scheduler::RoundRobin;
use crate::packet::{Flags, Label, Packet};
use crate::part::{Form, Part, ValueKind, Words};
use crate::units::{Duration, Time};
use crate::{parameters, words};

/// The lane of classic traffic.
const C: usize = 0;
/// The lane of L4S.
const L: usize = 1;
/// A.1: p_Lmax.
const P_L_MAX: f64 = 1.0;
/// The length of a turn of C, which section 4.2.2 leaves open: a packet of usual size.
const C_QUANTUM: u64 = 1500;

/// The rule for the lane that sends next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DualScheduler {
    /// Turns by bytes, `classic_weight` to one.
    Wrr,
    /// The packet that has waited longest, those of L `shift` longer than they have.
    TsFifo,
}
words!(DualScheduler { Wrr = "wrr", TsFifo = "ts-fifo" });

parameters! {
    /// Parameters of DualPI2.
    pub struct DualPi2Config in "", "parameters of dualpi2";
    /// RFC 9332 appendix A.1 and section 4.2.2.
    pub const RFC9332;
    target: Duration = Duration::from_millis(15),
        TIMES, "", "target of the waiting time of classic traffic";
    rtt_max: Duration = Duration::from_millis(100), TIMES, "", "the largest RTT expected";
    coupling: f64 = 2.0, ValueKind::Number { least: 0.01, most: 100.0 }, "",
        "k, marks of L4S over those of the square root";
    /// minTh:
    min_threshold: Duration = Duration::from_micros(800),
        ValueKind::Time { least: Duration::ZERO, most: Duration::from_secs(100) }, "",
        "waiting time of L4S at which marks begin";
    range: Duration = Duration::from_micros(400),
        ValueKind::Time { least: Duration::ZERO, most: Duration::from_secs(100) }, "",
        "additional waiting time at which everything is marked; 0 for a step";
    /// Th_len:
    threshold_packets: u32 = 1, ValueKind::Integer { least: 0, most: 1_000_000 }, "packets",
        "L4S left behind that are too few to mark";
    scheduler: DualScheduler = DualScheduler::Wrr,
        ValueKind::Word(DualScheduler::WORDS), "", "which lane sends next";
    classic_weight: u32 = 15, ValueKind::Integer { least: 1, most: 1000 }, "",
        "bytes of L4S for each byte of classic \
         traffic", when = |dual| dual.scheduler == DualScheduler::Wrr;
    shift: Duration = Duration::from_millis(50),
        ValueKind::Time { least: Duration::ZERO, most: Duration::from_secs(100) }, "",
        "how much longer L4S counts as \
         waiting", when = |dual| dual.scheduler == DualScheduler::TsFifo;
}

/// The state of DualPI2.
#[derive(Debug, Clone)]
pub struct DualPi2 {
    config: DualPi2Config,
    /// p'.
    base: f64,
    /// prevq.
    previous: Duration,
    /// The sums of [`DualPi2::recurs`], for each lane.
    counts: [f64; 2],
    turns: RoundRobin,
    update_due: Time,
    asleep: bool,
}

impl DualPi2 {
    /// DualPI2 of an empty queue.
    pub fn with(config: DualPi2Config) -> Self {
        let quanta = [C_QUANTUM, C_QUANTUM * u64::from(config.classic_weight)];
        let mut dual = DualPi2 {
            config,
            base: 0.0,
            previous: Duration::ZERO,
            counts: [0.0; 2],
            turns: RoundRobin::ring(quanta.into_iter()),
            update_due: Time::ZERO,
            asleep: true,
        };
        dual.update_due += dual.interval();
        dual
    }

    /// Tupdate.
    fn interval(&self) -> Duration {
        self.config.target.min(self.config.rtt_max.mul_f64(1.0 / 3.0))
    }

    /// A.1: p_C, the probability of classic traffic.
    pub fn classic_probability(&self) -> f64 {
        self.base * self.base
    }

    /// A.1: p_CL, the coupled probability of L4S, which may be above 1.
    pub fn coupled_probability(&self) -> f64 {
        self.config.coupling * self.base
    }

    /// A.1: p'_L, the ramp.
    fn ramp(&self, waited: Duration) -> f64 {
        let DualPi2Config { min_threshold, range, .. } = self.config;
        if waited >= min_threshold + range {
            1.0
        } else if waited > min_threshold {
            (waited - min_threshold).as_secs_f64() / range.as_secs_f64()
        } else {
            0.0
        }
    }

    /// A.1: as often as `likelihood` says, evenly.
    fn recurs(&mut self, lane: usize, likelihood: f64) -> bool {
        let count = &mut self.counts[lane];
        *count += likelihood;
        let yes = *count > 1.0;
        if yes {
            *count -= 1.0;
        }
        yes
    }

    /// A.1: moves p' by the waiting time of classic traffic.
    fn update(&mut self, current: Duration) {
        let DualPi2Config { target, rtt_max, .. } = self.config;
        let rtt_max = rtt_max.as_secs_f64();
        let alpha = 0.1 * self.interval().as_secs_f64() / (rtt_max * rtt_max);
        let beta = 0.3 / rtt_max;
        let seconds = |time: Duration| time.as_secs_f64();
        let (current_s, previous_s) = (seconds(current), seconds(self.previous));
        let step = alpha * (current_s - seconds(target)) + beta * (current_s - previous_s);
        self.base = (self.base + step).clamp(0.0, 1.0);
        self.previous = current;
    }

    fn judge_l4s(&mut self, waited: Duration, packets_left: usize) -> QueueAction {
        let (classic, coupled) = (self.classic_probability(), self.coupled_probability());
        if coupled < P_L_MAX {
            let long = packets_left > self.config.threshold_packets as usize;
            let native = if long { self.ramp(waited) } else { 0.0 };
            return if self.recurs(L, native.max(coupled)) {
                QueueAction::Mark
            } else {
                QueueAction::Pass
            };
        }
        // A.2: overload is kept down by drops, as in C.
        if self.recurs(L, classic) {
            QueueAction::Drop
        } else if self.recurs(L, coupled) {
            QueueAction::Mark
        } else {
            QueueAction::Pass
        }
    }

    fn judge_classic(&mut self, packet: &Packet) -> QueueAction {
        let classic = self.classic_probability();
        if !self.recurs(C, classic) {
            return QueueAction::Pass;
        }
        let p_c_max = (1.0 / (self.config.coupling * self.config.coupling)).min(1.0);
        let marks = packet.flags.contains(Flags::ECN_CAPABLE) && classic < p_c_max;
        if marks { QueueAction::Mark } else { QueueAction::Drop }
    }
}

impl Part for DualPi2 {
    type Config = DualPi2Config;
    const FORMS: &'static [Form<DualPi2Config>] = &[Form {
        words: Words {
            name: "dualpi2",
            what: "keeps L4S and classic traffic in queues of their own whose marks and drops are \
                   coupled",
            source: "RFC 9332, appendix A",
        },
        config: DualPi2Config::RFC9332,
    }];
}

impl Aqm for DualPi2 {
    fn on_enqueue(&mut self, now: Time, _: &Backlog<'_>, _: &Packet) -> QueueAction {
        if self.asleep {
            self.asleep = false;
            let interval = self.interval();
            let missed = now.since(self.update_due).as_ps() / interval.as_ps();
            if self.update_due <= now {
                self.update_due += interval.saturating_mul(missed + 1);
            }
        }
        QueueAction::Pass
    }

    fn on_dequeue(
        &mut self,
        now: Time,
        Leaving { arrived, lane }: Leaving,
        queue: &Backlog<'_>,
        packet: &Packet,
    ) -> QueueAction {
        let verdict = if lane == L {
            self.judge_l4s(now.since(arrived), queue.lanes[L].packets)
        } else {
            self.judge_classic(packet)
        };
        if verdict != QueueAction::Drop {
            self.turns.charge(lane, packet.size);
        }
        verdict
    }

    fn next_timer(&self) -> Time {
        if self.asleep { Time::NEVER } else { self.update_due }
    }

    fn on_timer(&mut self, now: Time, queue: &Backlog<'_>) {
        let head = queue.lanes[C].head;
        self.update(head.map_or(Duration::ZERO, |(arrived, _)| now.since(arrived)));
        self.update_due = now + self.interval();
        self.asleep = queue.packets == 0 && self.base == 0.0 && self.previous.is_zero();
    }

    fn lane(&mut self, _: Label, packet: &Packet) -> usize {
        // RFC 9332 section 2.3: by ECT(1), or CE, which may have been either.
        let l4s = packet.flags.contains(Flags::L4S)
            || packet.flags.contains(Flags::CONGESTION_EXPERIENCED);
        if l4s { L } else { C }
    }

    fn next_lane(&mut self, now: Time, queue: &Backlog<'_>) -> usize {
        let head = |lane: usize| queue.lanes.get(lane).and_then(|lane| lane.head);
        match self.config.scheduler {
            DualScheduler::Wrr => self.turns.next(|lane| head(lane).map(|(_, size)| size)),
            DualScheduler::TsFifo => match (head(C), head(L)) {
                (Some((classic, _)), Some((l4s, _))) => {
                    let shifted = now.since(l4s) + self.config.shift;
                    if shifted >= now.since(classic) { L } else { C }
                }
                (None, Some(_)) => L,
                _ => C,
            },
        }
    }
}

impl AqmPart for DualPi2 {
    fn new(config: &DualPi2Config, _: &QueueSetup<'_>) -> Self {
        DualPi2::with(*config)
    }
    fn marks(_: &DualPi2Config) -> bool {
        true
    }
    const ACTS_ON_DEPARTURE: bool = true;
    // As in Linux.
    const DEFAULT_LIMIT: Option<QueueLimit> = Some(QueueLimit::Packets(1000));
    const KEEPS_QUEUE_SHORT: bool = true;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::aqm::AqmConfig;
    use crate::network::{ChannelConfig, Fate, QueueConfig, QueueLimit, QueuedLink};
    use crate::units::Rate;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn near(measured: f64, expected: f64) {
        assert!((measured - expected).abs() < 1e-12, "{measured} for {expected}");
    }

    #[test]
    fn the_controller_follows_its_equation() {
        let mut dual = DualPi2::with(DualPi2Config::RFC9332);
        // alpha = 0.1 x 0.015 / 0.01 = 0.15, beta = 3: 0.15 (0.035 - 0.015) + 3 x 0.035 = 0.108.
        dual.update(ms(35));
        near(dual.base, 0.108);
        near(dual.classic_probability(), 0.011_664);
        near(dual.coupled_probability(), 0.216);
        // 0.15 x 0.02.
        dual.update(ms(35));
        near(dual.base, 0.111);
        // 0.15 (0.005 - 0.015) + 3 (0.005 - 0.035) = -0.0915.
        dual.update(ms(5));
        near(dual.base, 0.0195);
        dual.update(Duration::ZERO);
        near(dual.base, 0.002_25); // - 0.15 x 0.015 - 3 x 0.005 = -0.01725.
    }

    #[test]
    fn the_ramp_by_hand() {
        let dual = DualPi2::with(DualPi2Config::RFC9332);
        let us = Duration::from_micros;
        for (waited, expected) in [(800, 0.0), (900, 0.25), (1000, 0.5), (1200, 1.0), (9000, 1.0)] {
            near(dual.ramp(us(waited)), expected);
        }
        let step = DualPi2Config { range: Duration::ZERO, ..DualPi2Config::RFC9332 };
        let step = DualPi2::with(step);
        near(step.ramp(us(799)), 0.0);
        near(step.ramp(us(800)), 1.0);
    }

    #[test]
    fn likelihoods_recur_evenly() {
        let mut dual = DualPi2::with(DualPi2Config::RFC9332);
        // 0.25 adds up to more than 1 with the fifth, and then with every fourth.
        let yes: Vec<usize> = (1..=13).filter(|_| true).filter(|_| dual.recurs(C, 0.25)).collect();
        assert_eq!(yes, [5, 9, 13]);
    }

    #[test]
    fn the_coupling_marks_l4s_by_twice_the_root_of_what_classic_drops() {
        let mut dual = DualPi2::with(DualPi2Config::RFC9332);
        dual.base = 0.1;
        let plain = Packet { size: 1000, ..Packet::default() };
        let capable = Packet { flags: Flags::ECN_CAPABLE, ..plain.clone() };
        let count = |verdicts: Vec<QueueAction>, of| verdicts.iter().filter(|v| **v == of).count();
        // A queue of L4S that does not wait: 0.2 of 1000; classic: 0.01 of them.
        let l4s = (0..1000).map(|_| dual.judge_l4s(Duration::ZERO, 5)).collect();
        assert!(count(l4s, QueueAction::Mark).abs_diff(200) <= 1);
        let classic = (0..1000).map(|_| dual.judge_classic(&plain)).collect();
        assert!(count(classic, QueueAction::Drop).abs_diff(10) <= 1);
        let classic = (0..1000).map(|_| dual.judge_classic(&capable)).collect();
        assert!(count(classic, QueueAction::Mark).abs_diff(10) <= 1);
        // The ramp where it is more; not for the last packet but one.
        assert_eq!(dual.judge_l4s(ms(2), 2), QueueAction::Mark);
        dual.counts[L] = 0.0;
        assert_eq!(dual.judge_l4s(ms(2), 1), QueueAction::Pass);
    }

    #[test]
    fn overload_drops_both() {
        // p' = 0.6: p_CL = 1.2 >= 1 and p_C = 0.36 >= 1/4.
        let mut dual = DualPi2::with(DualPi2Config::RFC9332);
        dual.base = 0.6;
        let l4s: Vec<_> = (0..1000).map(|_| dual.judge_l4s(Duration::ZERO, 5)).collect();
        assert!(l4s.contains(&QueueAction::Drop));
        let capable = Packet { size: 1000, flags: Flags::ECN_CAPABLE, ..Packet::default() };
        let classic: Vec<_> = (0..1000).map(|_| dual.judge_classic(&capable)).collect();
        assert!(!classic.contains(&QueueAction::Mark));
        let dropped = classic.iter().filter(|v| **v == QueueAction::Drop).count();
        assert!(dropped.abs_diff(360) <= 1, "{dropped}");
    }

    /// The order in which 40 packets, alternately classic and L4S, leave a link of a byte a
    /// microsecond to which they come at once.
    fn order(scheduler: DualScheduler) -> Vec<usize> {
        let config = DualPi2Config { scheduler, ..DualPi2Config::RFC9332 };
        let (limit, aqm) = (QueueLimit::Packets(100), AqmConfig::DualPi2(config));
        let queue = QueueConfig { limit, aqm, ..QueueConfig::default() };
        let rate = Rate::from_bps(8_000_000).unwrap().into();
        let mut link: QueuedLink<usize> =
            QueuedLink::new(&rate, Duration::ZERO, &queue, &ChannelConfig::Clean, 1, "test");
        let flags = [Flags::NONE, Flags::ECN_CAPABLE.with(Flags::L4S)];
        let packet = |i: usize| Packet { size: 1500, flags: flags[i % 2], ..Packet::default() };
        let mut packets: Vec<Packet> = (0..40).map(packet).collect();
        for (handle, packet) in packets.iter_mut().enumerate() {
            assert!(link.offer(Time::ZERO, Label::default(), packet, handle).is_none());
        }
        let mut sent = Vec::new();
        while link.waiting() > 0 {
            if let Some(Fate::Sent { handle, .. }) =
                link.advance(link.next_event(), &mut packets[..])
            {
                sent.push(handle % 2);
            }
        }
        sent
    }

    #[test]
    fn l4s_goes_first_and_classic_does_not_starve() {
        // One of C, then 15 of L, one of C, the other 5 of L, the rest.
        let expected = [vec![0], vec![1; 15], vec![0], vec![1; 5], vec![0; 18]].concat();
        assert_eq!(order(DualScheduler::Wrr), expected);
        // All came at once: L has the better of 50 ms until it is empty.
        assert_eq!(order(DualScheduler::TsFifo), [vec![1; 20], vec![0; 20]].concat());
    }
}
