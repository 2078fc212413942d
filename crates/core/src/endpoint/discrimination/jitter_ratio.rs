//! The jitter ratio as the sign of congestion: JTCP (Wu and Chen, IEEE JSAC 22(4), 2004; estcp2010,
//! "JTCP").
//!
//! A growing queue delays each packet more than the one before it. Acknowledgments carry the
//! arrival time R at the receiver, the sender knows the sending time S, and the interarrival
//! jitter of RTP (RFC 3550 section 6.4.1) follows without synchronised clocks:
//!
//! ```text
//! D(i-1, i) = (R_i - R_{i-1}) - (S_i - S_{i-1})
//! Jr = sum |D| / (R_n - R_0)            over the packets of the last round trips
//! Jr < k / cwnd, k = 1:  corruption, cwnd is kept;  else congestion, as TCP
//! ```
//!
//! TCP adds a packet to its window each RTT, which makes one |D| of one packet time in a window of
//! packets: 1/cwnd. So the threshold is a tie by its nature. The packet that the queue drops makes
//! a second |D| where its neighbours leave the queue closer than they were sent; where it is the
//! very packet that was added, there is none at all, and an overflow is taken for corruption.
//! A packet lost after the queue makes none.
//!
//! estcp2010 gives the threshold and RTP's definition and not the sum. Two readings: the sum of
//! absolute values, as RFC 3550 averages them (default), and the sum with signs, which is the
//! growth of the queueing delay alone (`jtcp.jitter = "signed"`). They err alike on a DropTail
//! queue at k = 1; at k = 1/2 neither does.
//!
//! The sum covers the last one to two RTTs, kept by two reference points and no list of packets
//! (default), or the last cwnd packets (`jtcp.span = "window"`). With signs and such a window Jr is
//! the growth of the delay over a window in the time that it took to arrive.
//!
//! Timeouts are TCP's (default), or a low jitter ratio makes a timeout halve cwnd, as congestion
//! without one does (`jtcp.timeouts = "judged"`).
//!
//! The signed sum over a window and the judged timeouts are what is said of Wu and Chen's paper. It
//! was not at hand, and estcp2010, which was, says neither.

use std::collections::VecDeque;

use super::{Discriminator, DiscriminatorPart, DiscriminatorSetup};
use crate::endpoint::event::{AckEvent, AfterTimeout, LossEvent};
use crate::packet::CongestionHeader;
use crate::part::{Ability, Form, Need, Part, ValueKind, Words};
use crate::units::{Probability, Time};

/// How jitter adds up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jitter {
    /// The sum of |D| (RFC 3550).
    Absolute,
    /// The sum of D: how much the delay has grown.
    Signed,
}

/// The span over which the jitter ratio is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JitterSpan {
    /// One to two RTTs.
    Rtt,
    /// The latest packets, as many as cwnd has.
    Window,
}

/// The response of JTCP to a timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JitterTimeouts {
    /// That of TCP.
    Standard,
    /// With a low jitter ratio it halves cwnd; else what TCP does.
    Judged,
}

/// The parameters of JTCP.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JitterRatioConfig {
    /// k: jitter ratios below k / cwnd mean corruption; 1 in estcp2010, any number from 0.
    pub threshold: f64,
    /// How jitter adds up.
    pub jitter: Jitter,
    /// Over what.
    pub span: JitterSpan,
    /// Are timeouts judged?
    pub timeouts: JitterTimeouts,
}

crate::words!(Jitter { Absolute = "absolute", Signed = "signed" });
crate::words!(JitterSpan { Rtt = "rtt", Window = "window" });
crate::words!(JitterTimeouts { Standard = "standard", Judged = "judged" });

impl JitterRatioConfig {
    /// As estcp2010 and RFC 3550 have it.
    pub const DEFAULT: JitterRatioConfig = JitterRatioConfig {
        threshold: 1.0,
        jitter: Jitter::Absolute,
        span: JitterSpan::Rtt,
        timeouts: JitterTimeouts::Standard,
    };
}
crate::parameters! {
    JitterRatioConfig in "jtcp", "parameters of jtcp";
    threshold: ValueKind::Number { least: 0.0, most: 1000.0 }, "",
        "jitter ratio times cwnd from which a loss is congestion";
    jitter: ValueKind::Word(Jitter::WORDS), "", "what is added up: |D| or D";
    span: ValueKind::Word(JitterSpan::WORDS), "", "over one to two RTTs, or the last cwnd packets";
    timeouts: ValueKind::Word(JitterTimeouts::WORDS), "",
        "a timeout is TCP's, or halves cwnd where the jitter ratio is low";
}

/// A point that the sum begins at.
#[derive(Debug, Clone, Copy)]
struct Reference {
    /// When its acknowledgment came.
    at: Time,
    /// When its packet reached the receiver.
    received: Time,
    /// The sum of jitter up to it, seconds.
    sum: f64,
}

/// JTCP's judgement of losses.
#[derive(Debug, Clone)]
pub struct JitterRatio {
    config: JitterRatioConfig,
    /// Sending and arrival time of the latest packet.
    latest: Option<(Time, Time)>,
    sum: f64,
    /// Between one and two RTTs ago, and less than one.
    older: Option<Reference>,
    newer: Option<Reference>,
    /// With [`JitterSpan::Window`]: the packets before the latest, in order, no more than cwnd.
    window: VecDeque<Reference>,
    /// Did the latest timeout come with a low jitter ratio?
    spared: bool,
}

impl Part for JitterRatio {
    type Config = JitterRatioConfig;
    const FORMS: &'static [Form<JitterRatioConfig>] = &[Form {
        words: Words {
            name: "jitter-ratio",
            what: "a loss with a jitter ratio below 1/cwnd is corruption",
            source: "Wu and Chen 2004",
        },
        config: JitterRatioConfig::DEFAULT,
    }];
    const NEEDS: &'static [Need] = &[Need {
        any_of: &[Ability::ArrivalTimes],
        why: "there is no jitter to see and every loss is taken for corruption",
    }];
}

impl DiscriminatorPart for JitterRatio {
    fn new(config: &JitterRatioConfig, _: DiscriminatorSetup<'_>) -> Self {
        JitterRatio::of(*config)
    }
}

impl JitterRatio {
    fn of(config: JitterRatioConfig) -> Self {
        JitterRatio {
            config,
            latest: None,
            sum: 0.0,
            older: None,
            newer: None,
            window: VecDeque::new(),
            spared: false,
        }
    }

    /// The jitter ratio now; zero before there is one.
    fn ratio(&self) -> f64 {
        let from = match self.config.span {
            JitterSpan::Rtt => self.older.or(self.newer),
            JitterSpan::Window => self.window.front().copied(),
        };
        let (Some(from), Some((_, received))) = (from, self.latest) else { return 0.0 };
        let elapsed = received.since(from.received).as_secs_f64();
        if elapsed > 0.0 { (self.sum - from.sum) / elapsed } else { 0.0 }
    }
}

impl Discriminator for JitterRatio {
    fn on_ack(&mut self, ack: &AckEvent) {
        let CongestionHeader::Timestamps { received } = ack.header else { return };
        if let Some((sent, before)) = self.latest {
            if received < before {
                return; // An acknowledgment that another has overtaken.
            }
            // Signed: a retransmission may be acknowledged after what was sent later.
            let between = |later: Time, earlier: Time| {
                later.since(earlier).as_secs_f64() - earlier.since(later).as_secs_f64()
            };
            let jitter = between(received, before) - between(ack.sent, sent);
            self.sum += match self.config.jitter {
                Jitter::Absolute => jitter.abs(),
                Jitter::Signed => jitter,
            };
        }
        self.latest = Some((ack.sent, received));
        let now = ack.path.now;
        if self.config.span == JitterSpan::Window {
            // The oldest is where the sum begins: cwnd packets after it.
            self.window.push_back(Reference { at: now, received, sum: self.sum });
            let most = ack.path.cwnd as usize + 1;
            self.window.drain(..self.window.len().saturating_sub(most));
            return;
        }
        if self.newer.is_none_or(|newer| now.since(newer.at) >= ack.path.rtt) {
            self.older = self.newer;
            self.newer = Some(Reference { at: now, received, sum: self.sum });
        }
    }

    fn judge(&mut self, loss: &LossEvent) -> Probability {
        self.opinion(loss)
    }

    fn judge_timeout(&mut self, loss: &LossEvent) -> Probability {
        let judged = self.config.timeouts == JitterTimeouts::Judged;
        self.spared = judged && self.opinion(loss) == Probability::ZERO;
        Probability::ONE
    }

    fn after_timeout(&self) -> AfterTimeout {
        if self.spared { AfterTimeout::Decrease } else { AfterTimeout::Restart }
    }

    fn opinion(&self, loss: &LossEvent) -> Probability {
        if self.ratio() < self.config.threshold / loss.path.cwnd {
            Probability::ZERO
        } else {
            Probability::ONE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::estimator::LossRate;
    use crate::endpoint::event::{LossSign, Path};
    use crate::units::Duration;

    const CWND: f64 = 10.0;

    fn ms(time: u64) -> Time {
        Time::ZERO + Duration::from_millis(time)
    }

    /// The verdict on a loss after packets sent and received at these milliseconds; RTT 100 ms.
    fn verdict(jitter: Jitter, packets: impl IntoIterator<Item = (u64, u64)>) -> Probability {
        judged(JitterRatioConfig { jitter, ..JitterRatioConfig::DEFAULT }, packets)
    }

    fn judged(
        config: JitterRatioConfig,
        packets: impl IntoIterator<Item = (u64, u64)>,
    ) -> Probability {
        let (mut ratio, loss) = heard(config, packets);
        ratio.judge(&loss)
    }

    fn heard(
        config: JitterRatioConfig,
        packets: impl IntoIterator<Item = (u64, u64)>,
    ) -> (JitterRatio, LossEvent) {
        let mut ratio = JitterRatio::of(config);
        let rtt = Duration::from_millis(100);
        let path = Path { cwnd: CWND, rtt, min_rtt: rtt, ..Path::default() };
        for (sent, received) in packets {
            let header = CongestionHeader::Timestamps { received: ms(received) };
            let path = Path { now: ms(received + 50), ..path };
            ratio.on_ack(&AckEvent { path, sent: ms(sent), header, ..AckEvent::default() });
        }
        let sign = LossSign::Acknowledgments;
        (ratio, LossEvent { path, seq: 0, sign, rate: LossRate::default() })
    }

    /// Ten milliseconds a packet; number `lost` is missing behind the queue.
    fn steady(lost: u64) -> impl Iterator<Item = (u64, u64)> {
        (0..30).filter(move |i| *i != lost).map(|i| (10 * i, 10 * i + 50))
    }

    #[test]
    fn a_loss_behind_the_queue_leaves_no_jitter() {
        assert_eq!(verdict(Jitter::Absolute, steady(26)), Probability::ZERO);
        assert_eq!(verdict(Jitter::Signed, steady(26)), Probability::ZERO);
    }

    #[test]
    fn a_drop_by_the_queue_closes_the_gap_of_its_neighbours() {
        // Two packets at once (20 and 21 at 200 ms), the second delayed by 10 ms; then the queue
        // drops 25, and 26 follows 24 after 10 ms where 20 were between them at the sender. Two
        // |D| of 10 ms in the 10 to 20 packets of 10 ms since the reference: between 1/10 and
        // 2/10.
        let packets = (0..30).filter(|i| *i != 25).map(|i| {
            let sent = if i <= 20 { 10 * i } else { 10 * (i - 1) };
            let leaves = if i < 25 { 10 * i } else { 10 * (i - 1) };
            (sent, leaves + 50)
        });
        let packets: Vec<_> = packets.collect();
        assert_eq!(verdict(Jitter::Absolute, packets.clone()), Probability::ONE);
        // With signs they cancel: the delay has not grown.
        assert_eq!(verdict(Jitter::Signed, packets), Probability::ZERO);
    }

    #[test]
    fn a_queue_that_grows_fast_is_congestion_in_both_readings() {
        // Sent every 10 ms, received every 12: a sixth of the time is added delay.
        let packets = || (0..30).map(|i| (10 * i, 12 * i + 50));
        assert_eq!(verdict(Jitter::Absolute, packets()), Probability::ONE);
        assert_eq!(verdict(Jitter::Signed, packets()), Probability::ONE);
    }

    #[test]
    fn over_a_window_the_sum_covers_cwnd_packets() {
        // Every 10 ms, but packet 19 waits 10 ms longer and all after it too. Ten packets up to the
        // 29th begin at the 19th's arrival, where the sum has that step already; up to the 28th at
        // the 18th's, 110 ms before, of which 10 are jitter: 1/11 < 1/10. With a step of 20 ms:
        // 20/120 = 1/6.
        for (packets, step, expected) in [(30, 20, 0.0), (29, 10, 0.0), (29, 20, 1.0)] {
            for jitter in [Jitter::Absolute, Jitter::Signed] {
                let config = JitterRatioConfig {
                    jitter,
                    span: JitterSpan::Window,
                    ..JitterRatioConfig::DEFAULT
                };
                let times = (0..packets).map(|i| (10 * i, 10 * i + 50 + step * u64::from(i >= 19)));
                assert_eq!(judged(config, times).get(), expected, "{packets} {step} {jitter:?}");
            }
        }
    }

    #[test]
    fn a_timeout_without_jitter_may_halve_the_window() {
        for (timeouts, growth, expected) in [
            (JitterTimeouts::Standard, 0, AfterTimeout::Restart),
            (JitterTimeouts::Judged, 0, AfterTimeout::Decrease),
            (JitterTimeouts::Judged, 2, AfterTimeout::Restart), // A queue that grows fast.
        ] {
            let config = JitterRatioConfig { timeouts, ..JitterRatioConfig::DEFAULT };
            let (mut ratio, loss) =
                heard(config, (0..30).map(|i| (10 * i, (10 + growth) * i + 50)));
            assert_eq!(ratio.judge_timeout(&loss), Probability::ONE);
            assert_eq!(ratio.after_timeout(), expected);
        }
    }

    #[test]
    fn without_timestamps_nothing_speaks_for_congestion() {
        assert_eq!(verdict(Jitter::Absolute, []), Probability::ZERO);
    }
}
