//! The jitter ratio as a signal of congestion: JTCP (Wu and Chen, IEEE JSAC 22(4), 2004; estcp2010,
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
//! TCP adds a packet to its window each RTT, which causes one |D| of one packet time in a window of
//! packets: a ratio of 1/cwnd, exactly the threshold. A packet that the queue drops causes a second
//! |D| if its neighbours leave the queue closer together than they were sent. If the dropped packet
//! is the added one there is no |D| at all, and the overflow counts as corruption. A packet lost
//! after the queue causes none.
//!
//! estcp2010 gives the threshold and RTP's definition, but not the sum. There are two readings: the
//! sum of absolute values, as RFC 3550 averages them (default), and the sum with signs, which is
//! the growth of the queueing delay alone (`jtcp.jitter = "signed"`). Both misjudge overflows of a
//! DropTail queue at k = 1; at k = 1/2 neither does.
//!
//! The sum covers the last one to two RTTs, between two reference points without a list of packets
//! (default), or the last cwnd packets (`jtcp.span = "window"`). With signs over a window Jr is the
//! growth of the delay over that window, divided by the time in which it arrived.
//!
//! Timeouts are TCP's (default), or a timeout at a low jitter ratio halves cwnd, as congestion
//! without a timeout does (`jtcp.timeouts = "judged"`).
//!
//! The signed sum over a window and the judged timeouts follow descriptions of Wu and Chen's paper
//! by others. The paper itself was not available, and estcp2010 has neither.

use std::collections::VecDeque;

use super::{Discriminator, DiscriminatorPart, DiscriminatorSetup};
use crate::endpoint::event::{AckEvent, AfterTimeout, LossEvent};
use crate::packet::CongestionHeader;
use crate::part::{Ability, Form, Need, Part, ValueKind, Words};
use crate::units::{Probability, Time};

/// The sum of jitter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jitter {
    /// The sum of |D| (RFC 3550).
    Absolute,
    /// The sum of D, which is the growth of the delay.
    Signed,
}

/// The span over which the jitter ratio is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JitterSpan {
    /// One to two RTTs.
    Rtt,
    /// The latest cwnd packets.
    Window,
}

/// The response of JTCP to a timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JitterTimeouts {
    /// TCP's response.
    Standard,
    /// At a low jitter ratio cwnd is halved; otherwise TCP's response.
    Judged,
}

crate::parameters! {
    /// The parameters of JTCP.
    pub struct JitterRatioConfig in "jtcp", "parameters of jtcp";
    /// The readings of estcp2010 and RFC 3550.
    pub const DEFAULT;
    /// k:
    threshold: f64 = 1.0, ValueKind::Number { least: 0.0, most: 1000.0 }, "",
        "jitter ratio times cwnd from which a loss is congestion";
    jitter: Jitter = Jitter::Absolute, ValueKind::Word(Jitter::WORDS), "", "summand: |D| or D";
    span: JitterSpan = JitterSpan::Rtt,
        ValueKind::Word(JitterSpan::WORDS), "", "over one to two RTTs, or the last cwnd packets";
    timeouts: JitterTimeouts = JitterTimeouts::Standard, ValueKind::Word(JitterTimeouts::WORDS), "",
        "TCP's response to a timeout, or half of cwnd at a low jitter ratio";
}

crate::words!(Jitter { Absolute = "absolute", Signed = "signed" });
crate::words!(JitterSpan { Rtt = "rtt", Window = "window" });
crate::words!(JitterTimeouts { Standard = "standard", Judged = "judged" });

/// A point from which the sum begins.
#[derive(Debug, Clone, Copy)]
struct Reference {
    /// The time of its acknowledgment.
    at: Time,
    /// The time at which its packet reached the receiver.
    received: Time,
    /// The sum of jitter up to it, seconds.
    sum: f64,
}

/// JTCP's discrimination of losses.
#[derive(Debug, Clone)]
pub struct JitterRatio {
    config: JitterRatioConfig,
    /// Sending and arrival time of the latest packet.
    latest: Option<(Time, Time)>,
    sum: f64,
    /// Reference points between one and two RTTs ago, and less than one RTT ago.
    older: Option<Reference>,
    newer: Option<Reference>,
    /// With [`JitterSpan::Window`]: the packets before the latest, in order, at most cwnd.
    window: VecDeque<Reference>,
    /// True if the latest timeout came at a low jitter ratio.
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
        why: "jitter cannot be measured, and every loss counts as corruption",
    }];
}

impl DiscriminatorPart for JitterRatio {
    fn new(config: &JitterRatioConfig, _: DiscriminatorSetup<'_>) -> Self {
        JitterRatio {
            config: *config,
            latest: None,
            sum: 0.0,
            older: None,
            newer: None,
            window: VecDeque::new(),
            spared: false,
        }
    }
}

impl JitterRatio {
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
                return; // An acknowledgment that a later one has overtaken.
            }
            // Signed: a retransmission may be acknowledged after packets sent later.
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
            // The sum begins at the oldest, and covers the cwnd packets after it.
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
    use crate::testing::{ms, new_discriminator};
    use crate::units::Duration;

    const CWND: f64 = 10.0;

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
        let mut ratio = new_discriminator::<JitterRatio>(config);
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

    /// Ten milliseconds a packet; packet `lost` is lost after the queue.
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
        // drops 25, and 26 follows 24 after 10 ms, but was sent 20 ms after it. Two |D| of 10 ms
        // in the 10 to 20 packets of 10 ms since the reference: between 1/10 and 2/10.
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
        // A packet every 10 ms; packet 19 and all later ones wait 10 ms longer. The ten packets up
        // to the 29th begin at the arrival of the 19th, when the sum already includes that step;
        // those up to the 28th begin at the arrival of the 18th, 110 ms before, with 10 ms of
        // jitter: 1/11 < 1/10. With a step of 20 ms: 20/120 = 1/6.
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
