//! CETEN: the share e/p of the losses that corruption causes (eten2004 section 4.3).
//!
//! The network reports e, the fraction of packets it corrupts: one minus the survival probability
//! of the path. LEAST estimates p, the fraction lost for any reason. CETEN_P takes each loss for
//! corruption with probability e/p: corruption does not change the congestion state, and any other
//! loss gets the standard response. CETEN_A applies a multiplicative decrease factor to each loss:
//!
//! ```text
//! MDF  =  (1 + (e / (n p))^k) / 2       n >= 1, k > 0, p > 0                            (1)
//! ```
//!
//! The verdict here is 1 - (e/(np))^k, the probability of congestion; the congestion controller
//! keeps 1 - verdict/2 of its window, which is (1).
//!
//! Choices where the paper is silent:
//! - e and p are estimates: e/p above 1 counts as 1.
//! - The loss being judged counts as lost already, so that p > 0.
//! - Without any notice e is 0, and both variants are plain SACK, which restarts after a timeout.
//! - CETEN_P draws for every lost segment of a window until one reduces it ("a particular loss",
//!   "the lost segment"); this is the only reduction of the window, as in SACK. Without
//!   `per_segment` it draws once for all losses of a window; CETEN_P is then closer to CETEN_A than
//!   in any figure of the paper.
//! - CETEN_A reduces once per window.
//!
//! A timeout is one of the losses to decide on ("duplicate acknowledgments, SACKs and/or
//! retransmission timeouts", section 4.3.1). The possible responses are the same: nothing or
//! "reducing the congestion window by half", or equation (1), which "reacts to each loss"; a
//! timeout after a fast retransmit is "a second cwnd reduction" (section 4.4). The paper never
//! restarts from one packet, so this reading is the literal one. The other readings of
//! [`TimeoutResponse`] are TCP's own restart, which uses the verdict to a different degree. Those
//! that begin with one packet after any timeout do not reproduce the paper's Fig. 8 at 20 %:
//! retransmissions are lost there in every window, so the sender stays in slow start from one
//! packet.

use super::{Discriminator, DiscriminatorPart, DiscriminatorSetup};
use crate::endpoint::event::{AckEvent, AfterTimeout, LossEvent};
use crate::endpoint::feedback::{News, Notice};
use crate::packet::CongestionHeader;
use crate::part::{Ability, Form, Need, Part, ValueKind, Words};
use crate::rng::Stream;
use crate::units::{Probability, Time};

crate::parameters! {
    /// Parameters of CETEN.
    pub struct ErrorShareConfig in "ceten", "the response of ceten-p and ceten-a";
    /// n = k = 1, and a timeout is a loss like any other.
    pub const DEFAULT;
    /// True to scale the decrease by the share (CETEN_A), false to draw with its probability
    /// (CETEN_P).
    adaptive: bool = false;
    /// n of equation (1):
    n: f64 = 1.0, ValueKind::Number { least: 1.0, most: 1e9 }, "",
        "ceten-a: divides the share of corruption", when = |config| config.adaptive;
    /// k of equation (1):
    k: f64 = 1.0, ValueKind::Positive { most: 1000.0 }, "",
        "ceten-a: exponent of the share of corruption", when = |config| config.adaptive;
    timeouts: TimeoutResponse = TimeoutResponse::Decrease,
        ValueKind::Word(TimeoutResponse::WORDS), "", "after a timeout";
    per_segment: bool = true, ValueKind::Bool, "",
        "ceten-p: one draw for each lost segment, not for each \
         window", when = |config| !config.adaptive;
}

crate::words!(TimeoutResponse {
    Standard = "standard",
    Threshold = "threshold",
    Window = "window",
    Decrease = "decrease",
});
/// Readings of CETEN's response to a retransmission timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeoutResponse {
    /// TCP's response (RFC 5681): ssthresh is half of the packets in flight, cwnd is one packet.
    Standard,
    /// cwnd is one packet; ssthresh depends on the verdict, so that slow start leads back to the
    /// old cwnd.
    Threshold,
    /// cwnd and ssthresh depend on the verdict: corruption does not change the congestion state,
    /// congestion gets the standard response, and in between cwnd rises above one packet in
    /// proportion to the probability of corruption. All outstanding packets may be sent again in
    /// one burst.
    Window,
    /// The decrease of any other loss: equation (1) of cwnd and of the packets in flight, or, for
    /// CETEN_P, one half or nothing (sections 4.3.1 and 4.3.2, literally).
    Decrease,
}

/// The state of both variants.
#[derive(Debug, Clone)]
pub struct ErrorShare {
    config: ErrorShareConfig,
    stream: Stream,
    /// The survival probability echoed by the last acknowledgment.
    survival: f64,
    /// The reports that links sent out of band.
    links: Vec<Link>,
    unjudged_from: Option<u64>,
    /// True if any corruption was known at the latest timeout.
    told: bool,
}

/// A link's present survival probability, and the reports still under way, in order.
#[derive(Debug, Clone)]
struct Link {
    link: u32,
    survival: f64,
    coming: Vec<(Time, f64)>,
}

impl Link {
    /// Applies the latest report that has arrived.
    fn settle(&mut self, now: Time) {
        let arrived = self.coming.partition_point(|(at, _)| *at <= now);
        if let Some((_, latest)) = self.coming.drain(..arrived).next_back() {
            self.survival = latest;
        }
    }
}

impl Part for ErrorShare {
    type Config = ErrorShareConfig;
    const FORMS: &'static [Form<ErrorShareConfig>] = &[
        Form {
            words: Words {
                name: "error-share-coin",
                what: "probabilistic: corruption with probability e/p, e told by the network, p by \
                    LEAST",
                source: "eten2004 sections 4.2, 4.3.1",
            },
            config: ErrorShareConfig::DEFAULT,
        },
        Form {
            words: Words {
                name: "error-share-mdf",
                what: "deterministic: the window shrinks to (1 + (e/np)^k) / 2, e told by the \
                    network, p by LEAST",
                source: "eten2004 sections 4.2, 4.3.2",
            },
            config: ErrorShareConfig { adaptive: true, ..ErrorShareConfig::DEFAULT },
        },
    ];
    const NEEDS: &'static [Need] = &[Need {
        any_of: &[Ability::Survival],
        why: "nothing reports corruption, and every loss counts as congestion",
    }];
    fn form(config: &ErrorShareConfig) -> &'static Form<ErrorShareConfig> {
        &Self::FORMS[usize::from(config.adaptive)]
    }
}

impl DiscriminatorPart for ErrorShare {
    fn new(config: &ErrorShareConfig, setup: DiscriminatorSetup<'_>) -> Self {
        ErrorShare {
            config: *config,
            stream: setup.stream,
            survival: 1.0,
            links: Vec::new(),
            unjudged_from: None,
            told: false,
        }
    }
}

impl ErrorShare {
    /// e, the fraction of packets that the path corrupts, as far as the sender knows at `now`.
    fn corruption_rate(&self, now: Time) -> f64 {
        let survival = |link: &Link| {
            let arrived = link.coming.partition_point(|(at, _)| *at <= now);
            link.coming[..arrived].last().map_or(link.survival, |(_, latest)| *latest)
        };
        1.0 - self.links.iter().fold(self.survival, |all, link| all * survival(link))
    }

    /// e/p, the share of losses that corruption causes; 0 where nothing is known.
    fn share(&self, loss: &LossEvent) -> f64 {
        let (e, p) = (self.corruption_rate(loss.path.now), loss.rate.with_one_more());
        if e <= 0.0 || p <= 0.0 { 0.0 } else { (e / p).min(1.0) }
    }

    /// The probability that a loss is congestion.
    fn verdict(&mut self, loss: &LossEvent) -> Probability {
        let ErrorShareConfig { adaptive, .. } = self.config;
        if adaptive {
            return self.opinion(loss);
        }
        let corruption = Probability::new(self.share(loss)).unwrap_or(Probability::ZERO);
        let spared = self.stream.chance(corruption);
        if spared { Probability::ZERO } else { Probability::ONE }
    }
}

impl Discriminator for ErrorShare {
    fn on_ack(&mut self, ack: &AckEvent) {
        if let CongestionHeader::Survival { probability } = ack.header {
            self.survival = probability;
        }
    }

    fn on_notice(&mut self, now: Time, notice: &Notice) {
        let News::Survival { link, probability } = notice.what else { return };
        let known = self.links.iter().position(|known| known.link == link);
        let index = known.unwrap_or_else(|| {
            self.links.push(Link { link, survival: 1.0, coming: Vec::new() });
            self.links.len() - 1
        });
        self.links[index].settle(now);
        self.links[index].coming.push((notice.at, probability.get()));
    }

    fn judge(&mut self, loss: &LossEvent) -> Probability {
        let verdict = self.verdict(loss);
        let ErrorShareConfig { adaptive, per_segment, .. } = self.config;
        let goes_on = per_segment && !adaptive && verdict == Probability::ZERO;
        self.unjudged_from = goes_on.then_some(loss.seq + 1);
        verdict
    }

    /// The probability of a draw, which is the average verdict.
    fn opinion(&self, loss: &LossEvent) -> Probability {
        let ErrorShareConfig { adaptive, n, k, .. } = self.config;
        let share = self.share(loss);
        let spared = if adaptive && share > 0.0 { libm::pow(share / n, k) } else { share };
        Probability::new(1.0 - spared).unwrap_or(Probability::ONE)
    }

    fn unjudged_from(&self) -> Option<u64> {
        self.unjudged_from
    }

    fn judge_repair(&mut self, loss: &LossEvent) -> Probability {
        let verdict = self.verdict(loss);
        let reduces = verdict > Probability::ZERO;
        self.unjudged_from = (!reduces).then_some(loss.seq + 1);
        verdict
    }

    fn judge_timeout(&mut self, loss: &LossEvent) -> Probability {
        self.told = self.corruption_rate(loss.path.now) > 0.0;
        if self.config.timeouts == TimeoutResponse::Standard {
            self.unjudged_from = None;
            return Probability::ONE;
        }
        self.judge(loss)
    }

    fn after_timeout(&self) -> AfterTimeout {
        match self.config.timeouts {
            TimeoutResponse::Standard | TimeoutResponse::Threshold => AfterTimeout::Restart,
            TimeoutResponse::Window => AfterTimeout::Share,
            TimeoutResponse::Decrease if self.told => AfterTimeout::Decrease,
            TimeoutResponse::Decrease => AfterTimeout::Restart,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::estimator::LossRate;
    use crate::endpoint::event::{LossSign, Path};
    use crate::testing::new_discriminator;
    use crate::units::Duration;

    /// A connection that has lost `lost` of 10 000 packets, the one being judged included, on a
    /// path of this survival probability.
    fn share(adaptive: bool, config: ErrorShareConfig, survival: f64) -> ErrorShare {
        let mut share = new_discriminator::<ErrorShare>(ErrorShareConfig { adaptive, ..config });
        let header = CongestionHeader::Survival { probability: survival };
        share.on_ack(&AckEvent { header, ..AckEvent::default() });
        share
    }

    fn loss(lost: u64, sign: LossSign) -> LossEvent {
        let rate = LossRate { sent: 10_000, retransmissions: lost - 1, duplicates: 0 };
        LossEvent { path: Path::default(), seq: 5, sign, rate }
    }

    /// The MDF that follows from a verdict: RFC 5681 halves the window for certain congestion.
    fn mdf(share: &mut ErrorShare, lost: u64) -> f64 {
        1.0 - share.judge(&loss(lost, LossSign::Acknowledgments)).get() / 2.0
    }

    #[test]
    fn equation_1_by_hand() {
        let standard = ErrorShareConfig::DEFAULT;
        // e = 1 %, p = 4 %: (1 + 1/4) / 2 = 0.625.
        assert!((mdf(&mut share(true, standard, 0.99), 400) - 0.625).abs() < 1e-12);
        // All losses by congestion: one half. All by corruption, or e > p: no reduction.
        assert_eq!(mdf(&mut share(true, standard, 1.0), 400), 0.5);
        assert!((mdf(&mut share(true, standard, 0.96), 400) - 1.0).abs() < 1e-12);
        assert_eq!(mdf(&mut share(true, standard, 0.90), 400), 1.0);
        // n = 2, k = 2: (1 + (1/8)^2) / 2 = 0.5078125.
        let shaped = ErrorShareConfig { n: 2.0, k: 2.0, ..standard };
        assert!((mdf(&mut share(true, shaped, 0.99), 400) - 0.507_812_5).abs() < 1e-12);
        // k = 1/2: (1 + 1/2) / 2 = 0.75.
        let eager = ErrorShareConfig { k: 0.5, ..standard };
        assert!((mdf(&mut share(true, eager, 0.99), 400) - 0.75).abs() < 1e-12);
    }

    #[test]
    fn the_coin_has_weight_e_over_p() {
        // e/p = 1/4. Five standard errors over 20 000 flips: 5 sqrt(0.25 x 0.75 / 20 000) = 0.015.
        let mut share = share(false, ErrorShareConfig::DEFAULT, 0.99);
        let flips = 20_000;
        let spared = (0..flips).filter(|_| mdf(&mut share, 400) == 1.0).count();
        assert!((spared as f64 / f64::from(flips) - 0.25).abs() < 0.015, "{spared}");
    }

    #[test]
    fn timeouts_are_judged_only_where_asked_for() {
        let judge = |timeouts| {
            let config = ErrorShareConfig { timeouts, ..ErrorShareConfig::DEFAULT };
            share(true, config, 0.99).judge_timeout(&loss(100, LossSign::Timeout)).get()
        };
        assert_eq!(judge(TimeoutResponse::Standard), 1.0);
        assert!(judge(TimeoutResponse::Threshold).abs() < 1e-12); // e = p.
        assert!(judge(TimeoutResponse::Window).abs() < 1e-12);
        assert!(judge(TimeoutResponse::Decrease).abs() < 1e-12);
    }

    #[test]
    fn where_nothing_is_known_of_corruption_a_timeout_restarts_as_sack_does() {
        // e = 0, and 1 % of p = 4 %.
        for (survival, expected) in [(1.0, AfterTimeout::Restart), (0.99, AfterTimeout::Decrease)] {
            let mut share = share(true, ErrorShareConfig::DEFAULT, survival);
            share.judge_timeout(&loss(400, LossSign::Timeout));
            assert_eq!(share.after_timeout(), expected, "{survival}");
        }
    }

    #[test]
    fn reports_of_links_multiply_and_wait_for_their_time() {
        let ms = |time| Time::ZERO + Duration::from_millis(time);
        let mut share = new_discriminator::<ErrorShare>(ErrorShareConfig::DEFAULT);
        let mut report = |at, link, p| {
            let probability = Probability::new(p).unwrap();
            share.on_notice(
                Time::ZERO,
                &Notice { at: ms(at), what: News::Survival { link, probability } },
            );
        };
        report(10, 3, 0.9);
        report(20, 8, 0.8);
        report(30, 3, 0.5);
        assert!((share.corruption_rate(ms(15)) - 0.1).abs() < 1e-12);
        assert!((share.corruption_rate(ms(20)) - 0.28).abs() < 1e-12); // 1 - 0.9 x 0.8.
        assert!((share.corruption_rate(ms(40)) - 0.6).abs() < 1e-12); // 1 - 0.5 x 0.8.
    }

    #[test]
    fn flips_per_segment_go_on_until_one_reduces() {
        let config = ErrorShareConfig { per_segment: true, ..ErrorShareConfig::DEFAULT };
        let mut certain = share(false, config, 0.5); // e/p is clamped to 1.
        assert_eq!(certain.judge(&loss(400, LossSign::Acknowledgments)), Probability::ZERO);
        assert_eq!(certain.unjudged_from(), Some(6));
        let repair = LossEvent { seq: 9, ..loss(400, LossSign::Acknowledgments) };
        assert_eq!(certain.judge_repair(&repair), Probability::ZERO);
        assert_eq!(certain.unjudged_from(), Some(10));
        certain.on_ack(&AckEvent {
            header: CongestionHeader::Survival { probability: 1.0 },
            ..AckEvent::default()
        });
        assert_eq!(certain.judge_repair(&repair), Probability::ONE);
        assert_eq!(certain.unjudged_from(), None);
    }
}
