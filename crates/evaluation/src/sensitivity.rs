//! The same claims with other buffers, RTTs and rates.
//!
//! A verdict that turns into its opposite when the links of a scenario differ by a fifth is
//! fragile: it depends more on the numbers of the scenario than on the controller.

use windward_experiments::ExperimentError;
use windward_experiments::campaign::{self, ClaimId, Event, Observer};
use windward_experiments::claims::ClaimResult;
use windward_experiments::experiment::{Effort, Experiment};
use windward_experiments::sweep::{Progress, RunOptions, simulate};
use windward_sim::scenario::Scaling;

use crate::inquiry::{Answer, Inquiry, VariedAnswer};

/// Links that differ from those of the scenarios.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Variation {
    /// The difference in words.
    pub name: &'static str,
    /// The factors.
    pub scaling: Scaling,
}

/// Share by which one property of all links differs.
pub const VARIED_BY: f64 = 0.2;

const LESS: f64 = 1.0 - VARIED_BY;
const MORE: f64 = 1.0 + VARIED_BY;

/// The variations of each scenario: one property of all links at a time.
pub const VARIATIONS: [Variation; 6] = [
    Variation { name: "buffers -20 %", scaling: Scaling { queue: LESS, ..Scaling::NONE } },
    Variation { name: "buffers +20 %", scaling: Scaling { queue: MORE, ..Scaling::NONE } },
    Variation { name: "RTTs -20 %", scaling: Scaling { delay: LESS, ..Scaling::NONE } },
    Variation { name: "RTTs +20 %", scaling: Scaling { delay: MORE, ..Scaling::NONE } },
    Variation { name: "rates -20 %", scaling: Scaling { rate: LESS, ..Scaling::NONE } },
    Variation { name: "rates +20 %", scaling: Scaling { rate: MORE, ..Scaling::NONE } },
];

/// The verdicts of one variation, without runs, tables or pages.
#[derive(Debug, Default)]
struct Verdicts(Vec<(ClaimId, ClaimResult)>);

impl Observer for Verdicts {
    fn event(&mut self, event: Event) -> Result<(), ExperimentError> {
        if let Event::Judged(claim, result) = event {
            self.0.retain(|(known, _)| *known != claim);
            self.0.push((claim, *result));
        }
        Ok(())
    }
}

impl Inquiry {
    /// Judges every claim under each of the [`VARIATIONS`]. The answers of the inquiry then say
    /// which verdicts flip. Its runs are not kept: an interrupted attempt starts again.
    ///
    /// # Errors
    /// If a scenario is impossible, or it was cancelled.
    pub fn vary(
        &mut self,
        effort: &Effort,
        options: &RunOptions<'_>,
    ) -> Result<(), ExperimentError> {
        // The inquiry itself follows.
        let parts = (VARIATIONS.len() + 1) as f64;
        for (before, Variation { name, scaling }) in (0_u32..).zip(VARIATIONS) {
            let progress = |progress: Progress| {
                let work = (f64::from(before) + progress.work) / parts;
                (options.progress)(Progress { work, ..progress });
            };
            let options = RunOptions { progress: &progress, ..*options };
            let varied =
                |experiment: &Experiment| Experiment { scaling, ..experiment.clone() }.plan(effort);
            let plans = self.experiments.iter().map(varied).collect::<Result<Vec<_>, _>>()?;
            let mut verdicts = Verdicts::default();
            campaign::run(&plans, &options, Vec::new(), &mut verdicts, &simulate)?;
            self.varied.extend(verdicts.0.into_iter().map(|(_, result)| (name, result)));
        }
        Ok(())
    }

    /// The answers of a subject to a claim under the variations, as far as they were judged.
    pub(crate) fn varied_answers(&self, claim: &str, subject: &str) -> Vec<VariedAnswer> {
        let of = |result: &ClaimResult| {
            let asked = result.asked.as_ref();
            asked.is_some_and(|asked| asked.of_all == claim && asked.subject == subject)
        };
        let varied = self.varied.iter().filter(|(_, result)| of(result));
        varied
            .map(|(variation, result)| VariedAnswer { variation, answer: Answer::of(result) })
            .collect()
    }
}
