//! The Oracle (eten2004 section 2.1): the sender is told which of its packets were corrupted.
//!
//! Notices go into a table. At a fast retransmit the sender looks up the segment: if it was
//! corrupted, cwnd is kept and a flag is set, which means that this window of data has had no
//! reduction yet. While the flag is set, each further lost segment of the window is looked up when
//! it is retransmitted: the first without a notice is congestion, reduces cwnd and clears the flag,
//! so that each window has at most one reduction. A retransmission timeout is not affected. It
//! empties the table, since everything outstanding is sent again and the notices apply only to the
//! first transmissions.
//!
//! The table is the same whether notices come directly from the link (the paper's Oracle) or in
//! acknowledgments from the receiver (forward PETEN, section 3.3.5). A notice takes effect at its
//! time of arrival.

use std::collections::VecDeque;

use super::{Discriminator, DiscriminatorPart, DiscriminatorSetup};
use crate::endpoint::event::{AckEvent, LossEvent};
use crate::endpoint::feedback::{News, Notice};
use crate::packet::{CongestionHeader, NO_SEQ};
use crate::part::{Ability, Form, Need, Part, Plain, Words};
use crate::units::{Probability, Time};

/// The table of notices and the flag.
#[derive(Debug, Clone, Default)]
pub struct Oracle {
    /// Corrupted segments not yet acknowledged: the time at which this is known, and the segment.
    notices: VecDeque<(Time, u64)>,
    /// The flag: a loss of this window was corruption and nothing has reduced cwnd since. Lost
    /// segments from this one on have not been looked up.
    unreduced_from: Option<u64>,
}

impl Part for Oracle {
    type Config = Plain;
    const FORMS: &'static [Form<Plain>] = &[Form {
        words: Words {
            name: "oracle",
            what: "deterministic: a loss is congestion unless a notice names the packet; one \
                reduction a window",
            source: "eten2004 section 2.1",
        },
        config: Plain,
    }];
    const NEEDS: &'static [Need] = &[Need {
        any_of: &[Ability::CorruptedPackets],
        why: "nothing reports corruption, and every loss counts as congestion",
    }];
}

impl DiscriminatorPart for Oracle {
    fn new(_: &Plain, _: DiscriminatorSetup<'_>) -> Self {
        Oracle::default()
    }
}

impl Oracle {
    fn knows(&self, seq: u64, now: Time) -> bool {
        self.notices.iter().any(|notice| notice.1 == seq && notice.0 <= now)
    }
}

impl Discriminator for Oracle {
    fn on_ack(&mut self, ack: &AckEvent) {
        if !self.notices.is_empty() {
            self.notices.retain(|(_, seq)| *seq >= ack.una);
        }
        if let CongestionHeader::Corrupted { recent } = ack.header {
            let now = ack.path.now;
            for seq in recent {
                if seq != NO_SEQ && seq >= ack.una && !self.knows(seq, now) {
                    self.notices.push_back((now, seq));
                }
            }
        }
    }

    fn on_notice(&mut self, _: Time, notice: &Notice) {
        if let News::Corrupted(seq) = notice.what {
            self.notices.push_back((notice.at, seq));
        }
    }

    fn judge(&mut self, loss: &LossEvent) -> Probability {
        let verdict = self.opinion(loss);
        self.unreduced_from = (verdict == Probability::ZERO).then_some(loss.seq + 1);
        verdict
    }

    fn opinion(&self, loss: &LossEvent) -> Probability {
        if self.knows(loss.seq, loss.path.now) { Probability::ZERO } else { Probability::ONE }
    }

    fn unjudged_from(&self) -> Option<u64> {
        self.unreduced_from
    }

    fn judge_repair(&mut self, loss: &LossEvent) -> Probability {
        if self.knows(loss.seq, loss.path.now) {
            return Probability::ZERO;
        }
        self.unreduced_from = None;
        Probability::ONE
    }

    fn judge_timeout(&mut self, loss: &LossEvent) -> Probability {
        self.unreduced_from = None;
        self.notices.retain(|(at, _)| *at > loss.path.now);
        Probability::ONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::estimator::LossRate;
    use crate::endpoint::event::{LossSign, Path};
    use crate::testing::ms;

    fn loss(at: u64, seq: u64, sign: LossSign) -> LossEvent {
        let path = Path { now: ms(at), ..Path::default() };
        LossEvent { path, seq, sign, rate: LossRate::default() }
    }

    fn notice(oracle: &mut Oracle, at: u64, seq: u64) {
        oracle.on_notice(Time::ZERO, &Notice { at: ms(at), what: News::Corrupted(seq) });
    }

    const ACKS: LossSign = LossSign::Acknowledgments;

    #[test]
    fn the_first_loss_without_a_notice_reduces_once() {
        let mut oracle = Oracle::default();
        notice(&mut oracle, 10, 5);
        notice(&mut oracle, 11, 7);
        assert_eq!(oracle.judge(&loss(20, 5, ACKS)), Probability::ZERO);
        assert_eq!(oracle.unjudged_from(), Some(6));
        assert_eq!(oracle.judge_repair(&loss(20, 7, ACKS)), Probability::ZERO);
        assert_eq!(oracle.unjudged_from(), Some(6), "the flag stays");
        assert_eq!(oracle.judge_repair(&loss(20, 8, ACKS)), Probability::ONE);
        assert_eq!(oracle.unjudged_from(), None, "and is cleared by the reduction");
    }

    #[test]
    fn congestion_at_the_fast_retransmit_reduces_and_ends_it() {
        let mut oracle = Oracle::default();
        notice(&mut oracle, 10, 7);
        assert_eq!(oracle.judge(&loss(20, 5, ACKS)), Probability::ONE);
        assert_eq!(oracle.unjudged_from(), None);
    }

    #[test]
    fn a_notice_does_not_exist_before_its_time() {
        let mut oracle = Oracle::default();
        notice(&mut oracle, 30, 5);
        assert_eq!(oracle.judge(&loss(20, 5, ACKS)), Probability::ONE);
        assert_eq!(oracle.judge(&loss(30, 5, ACKS)), Probability::ZERO);
    }

    #[test]
    fn a_timeout_is_not_affected_and_empties_the_table() {
        let mut oracle = Oracle::default();
        notice(&mut oracle, 10, 5);
        notice(&mut oracle, 40, 9); // Still on its way.
        assert_eq!(oracle.judge_timeout(&loss(20, 5, LossSign::Timeout)), Probability::ONE);
        assert_eq!(oracle.judge(&loss(50, 5, ACKS)), Probability::ONE, "forgotten");
        assert_eq!(oracle.judge(&loss(50, 9, ACKS)), Probability::ZERO);
    }

    #[test]
    fn acknowledged_segments_leave_the_table_and_reported_ones_enter() {
        let mut oracle = Oracle::default();
        notice(&mut oracle, 10, 5);
        let header = CongestionHeader::Corrupted { recent: [8, 4, NO_SEQ] };
        let path = Path { now: ms(20), ..Path::default() };
        for _ in 0..2 {
            oracle.on_ack(&AckEvent { path, una: 6, header, ..AckEvent::default() });
        }
        assert_eq!(oracle.notices, [(ms(20), 8)]);
    }
}
