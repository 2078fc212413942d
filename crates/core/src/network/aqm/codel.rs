//! Controlled Delay (Nichols, Jacobson, McGregor and Iyengar, RFC 8289).
//!
//! CoDel limits the minimum waiting time: a queue that empties from time to time is acceptable.
//! Once no packet has waited for less than `target` during an `interval`, packets are dropped from
//! the head, at intervals that shrink with the square root of the number of drops, as the
//! throughput of TCP does, until a packet has waited for less.
//!
//! ```text
//! ok_to_drop:  sojourn >= target for an interval, and more than maxpacket waits     section 5.6
//! drop_next  = t + interval / sqrt(count)                                           section 5.6
//! ```
//!
//! There are no deviations from the pseudo-code of section 5. It is inverted, because a queue calls
//! it packet by packet: the action of the code on the next packet is stored until that packet is
//! judged. `maxpacket` is the largest packet seen, as in the reference code of Linux. Marks instead
//! of drops (section 3.1 leaves them open) are as in Linux: a mark counts as a drop, and the packet
//! passes.

use super::{Aqm, AqmPart, Backlog, Leaving, QueueAction, QueueLimit, QueueSetup};
use crate::packet::{Flags, Packet};
use crate::parameters;
use crate::part::{Advice, Form, Part, ValueKind, Words};
use crate::units::{Duration, Time};

parameters! {
    /// Parameters of CoDel.
    #[derive(Eq)]
    pub struct CodelConfig in "", "parameters of codel";
    /// RFC 8289 sections 4.3 and 4.4: 5 ms of 100 ms. No marks unless told, as in tc-codel(8).
    pub const RFC8289;
    target: Duration = Duration::from_millis(5), TIMES, "", "acceptable minimum waiting time";
    interval: Duration = Duration::from_millis(100),
        TIMES, "", "time for which it may be exceeded, about the longest usual RTT",
        advice = INTERVAL_ADVICE;
    ecn: bool = false, ValueKind::Bool, "", "mark instead of dropping if ECN is negotiated";
    @check(codel) { codel.check_times() }
}

impl CodelConfig {
    /// Checks that `target` is less than `interval`.
    pub(super) fn check_times(&self) -> Result<(), String> {
        if self.target >= self.interval {
            return Err(format!(
                "target ({}) must be less than interval ({})",
                self.target, self.interval
            ));
        }
        Ok(())
    }
}

/// The range of `interval`, for all AQMs that build on CoDel.
pub(super) const INTERVAL_ADVICE: Advice = Advice {
    least: 0.001,
    most: 10.0,
    why: "it should be about the longest usual RTT (RFC 8289 section 4.3)",
};
/// The range of times of AQM.
pub(super) const TIMES: ValueKind =
    ValueKind::Time { least: Duration::from_micros(1), most: Duration::from_secs(100) };

/// The consequence of the last drop for the next packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pending {
    Nothing,
    /// The drop that entered the dropping state: the next packet passes.
    Entered,
    /// A drop in the dropping state: the next packet decides whether it continues.
    Dropped,
}

/// The state of CoDel.
#[derive(Debug, Clone)]
pub struct Codel {
    config: CodelConfig,
    /// The time at which the waiting time will have been above target for an interval; `None` if it
    /// is below.
    first_above: Option<Time>,
    /// The time of the next drop, while dropping.
    drop_next: Time,
    count: u32,
    last_count: u32,
    dropping: bool,
    pending: Pending,
    largest: u32,
}

impl Codel {
    /// CoDel of an empty queue.
    pub fn with(config: CodelConfig) -> Self {
        Codel {
            config,
            first_above: None,
            drop_next: Time::ZERO,
            count: 0,
            last_count: 0,
            dropping: false,
            pending: Pending::Nothing,
            largest: 0,
        }
    }

    /// Section 5.6: the time of the next drop after one at `t`.
    fn control_law(&self, t: Time, count: u32) -> Time {
        t + self.config.interval.mul_f64(1.0 / f64::from(count.max(1)).sqrt())
    }

    /// Section 5.6: true if the waiting time has been above target for an interval, with `bytes`
    /// left.
    fn ok_to_drop(&mut self, now: Time, arrived: Time, bytes: u64) -> bool {
        if now.since(arrived) < self.config.target || bytes <= u64::from(self.largest) {
            self.first_above = None;
            return false;
        }
        match self.first_above {
            None => {
                self.first_above = Some(now + self.config.interval);
                false
            }
            Some(first_above) => now >= first_above,
        }
    }

    /// Judges a packet that arrived at `arrived` and leaves at `now`, with `bytes` left behind it.
    /// Section 5.5: dequeue.
    pub fn judge(&mut self, now: Time, arrived: Time, bytes: u64, packet: &Packet) -> QueueAction {
        self.largest = self.largest.max(packet.size);
        let ok_to_drop = self.ok_to_drop(now, arrived, bytes);
        match std::mem::replace(&mut self.pending, Pending::Nothing) {
            Pending::Entered => return QueueAction::Pass,
            Pending::Dropped if ok_to_drop => {
                self.drop_next = self.control_law(self.drop_next, self.count);
            }
            Pending::Dropped | Pending::Nothing => {}
        }
        let marks = self.config.ecn && packet.flags.contains(Flags::ECN_CAPABLE);
        if self.dropping {
            if !ok_to_drop {
                self.dropping = false;
            } else if now >= self.drop_next {
                self.count = self.count.saturating_add(1);
                if marks {
                    self.drop_next = self.control_law(self.drop_next, self.count);
                    return QueueAction::Mark;
                }
                self.pending = Pending::Dropped;
                return QueueAction::Drop;
            }
            return QueueAction::Pass;
        }
        if !ok_to_drop {
            return QueueAction::Pass;
        }
        self.dropping = true;
        // If it was dropping until recently, the drop rate continues near its last value: section
        // 5.5.
        let delta = self.count - self.last_count.min(self.count);
        let recently = now.since(self.drop_next) < self.config.interval.saturating_mul(16);
        self.count = if delta > 1 && recently { delta } else { 1 };
        self.drop_next = self.control_law(now, self.count);
        self.last_count = self.count;
        if marks {
            return QueueAction::Mark;
        }
        self.pending = Pending::Entered;
        QueueAction::Drop
    }
}

impl Part for Codel {
    type Config = CodelConfig;
    const FORMS: &'static [Form<CodelConfig>] = &[Form {
        words: Words {
            name: "codel",
            what: "drops from the head while the least waiting time of an interval is above a \
                target",
            source: "RFC 8289",
        },
        config: CodelConfig::RFC8289,
    }];
}

impl Aqm for Codel {
    fn on_dequeue(
        &mut self,
        now: Time,
        leaving: Leaving,
        queue: &Backlog<'_>,
        packet: &Packet,
    ) -> QueueAction {
        self.judge(now, leaving.arrived, queue.bytes, packet)
    }
}

impl AqmPart for Codel {
    fn new(config: &CodelConfig, _: &QueueSetup<'_>) -> Self {
        Codel::with(*config)
    }
    fn marks(config: &CodelConfig) -> bool {
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
    use crate::testing::ms;

    /// The verdict on a packet of 1000 bytes that leaves at `at` and has waited for `waited`, both
    /// in milliseconds, with 10 more packets behind it.
    fn leave(codel: &mut Codel, at: u64, waited: u64) -> QueueAction {
        let packet = Packet { size: 1000, ..Packet::default() };
        codel.judge(ms(at), ms(at - waited), 10_000, &packet)
    }

    #[test]
    fn drops_begin_after_an_interval_and_come_faster_and_faster() {
        let mut codel = Codel::with(CodelConfig::RFC8289);
        // A packet every millisecond, each after 20 ms, from 1000 ms on: the first sets
        // first_above to 1100 ms.
        let mut drops = Vec::new();
        let mut at = 1000;
        while at < 1500 {
            if leave(&mut codel, at, 20) == QueueAction::Drop {
                // The packet behind it leaves at the same instant.
                drops.push(at);
            } else {
                at += 1;
            }
        }
        // 1100; + 100/sqrt 1 = 1200; + 100/sqrt 2 = 1270.7; + 100/sqrt 3 = 1328.4; + 100/sqrt 4 =
        // 1378.4; + 100/sqrt 5 = 1423.2; + 100/sqrt 6 = 1464.0; + 100/sqrt 7 = 1501.8: each at the
        // next whole millisecond.
        assert_eq!(drops, [1100, 1200, 1271, 1329, 1379, 1424, 1464]);
        // One that has waited for less ends it.
        assert_eq!(leave(&mut codel, 1500, 4), QueueAction::Pass);
        assert!(!codel.dropping);
    }

    #[test]
    fn it_goes_on_where_it_was_if_it_stopped_a_short_while_ago() {
        let run = |pause: u64| {
            let mut codel = Codel::with(CodelConfig::RFC8289);
            let mut at = 1000;
            let mut drops = Vec::new();
            let mut until = |codel: &mut Codel, at: &mut u64, until: u64| {
                while *at < until {
                    match leave(codel, *at, 20) {
                        QueueAction::Drop => drops.push(*at),
                        _ => *at += 1,
                    }
                }
            };
            until(&mut codel, &mut at, 1500);
            leave(&mut codel, 1500, 0);
            // Above target again after the pause: dropping from an interval later on.
            at = 1500 + pause;
            until(&mut codel, &mut at, 1500 + pause + 160);
            drops.into_iter().filter(|drop| *drop > 1500).map(|at| at - pause).collect::<Vec<_>>()
        };
        // Seven drops, the first of which set last_count to 1: count = 7 - 1 = 6. Next ones after
        // 100/sqrt 6 = 40.8 ms: 1600, 1640.8.
        assert_eq!(run(100), [1600, 1641]);
        // 16 intervals after 1501.8 ms are over at 3102 ms: count = 1, the next one 100 ms later.
        assert_eq!(run(1600), [1600]);
    }

    #[test]
    fn a_queue_of_one_packet_is_left_alone() {
        let mut codel = Codel::with(CodelConfig::RFC8289);
        let packet = Packet { size: 1000, ..Packet::default() };
        for at in 1000..2000 {
            assert_eq!(codel.judge(ms(at), ms(at - 50), 1000, &packet), QueueAction::Pass);
        }
    }

    #[test]
    fn marks_are_spaced_as_drops_and_let_their_packet_pass() {
        let mut codel = Codel::with(CodelConfig { ecn: true, ..CodelConfig::RFC8289 });
        let packet = Packet { size: 1000, flags: Flags::ECN_CAPABLE, ..Packet::default() };
        let judge = |at: u64| codel.judge(ms(at), ms(at - 20), 10_000, &packet);
        let fates: Vec<QueueAction> = (1000..1300).map(judge).collect();
        let marked: Vec<usize> = (0..300).filter(|i| fates[*i] == QueueAction::Mark).collect();
        // As above: 1100, 1200, 1270.7 ms.
        assert_eq!(marked, [100, 200, 271]);
        assert!(!fates.contains(&QueueAction::Drop));
        // Packets without ECN are dropped.
        let mut codel = Codel::with(CodelConfig { ecn: true, ..CodelConfig::RFC8289 });
        assert!((1000..1101).any(|at| leave(&mut codel, at, 20) == QueueAction::Drop));
    }
}
