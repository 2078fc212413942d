//! The criteria for short tests: the experiments that the suite of RFC 9743 names as `smoke`,
//! judged by the means of few runs.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use windward_core::endpoint::recovery::RecoveryConfig;
use windward_core::endpoint::window::fault;
use windward_core::part::Plain;
use windward_core::protocols::Protocol;
use windward_evaluation::Suite;
use windward_experiments::ExperimentError;
use windward_experiments::experiment::{CARRIED, Claim, Deviation, Effort, Experiment, Subject};
use windward_experiments::expression::{Cell, Comparison, Expression};
use windward_sim::scenario::{FlowKind, Traffic};
use windward_sim::stack::Stacks;
use windward_sim::{Outcome, Scenario};

use crate::guard::{Trouble, Watch};
use crate::verdict::{Criterion, CriterionResult};

/// Claims of the smoke experiments about one subject.
pub(crate) struct Smoke<'a> {
    suite: &'a Suite,
    experiments: Vec<Experiment>,
    subject: String,
    watch: &'a Watch,
}

impl<'a> Smoke<'a> {
    /// Reads the experiments and inserts the subject.
    pub(crate) fn new(
        suite: &'a Suite,
        subject: &Subject,
        stacks: &Stacks,
        watch: &'a Watch,
    ) -> Result<Self, ExperimentError> {
        let experiments = suite.smoke(subject, stacks)?;
        Ok(Smoke { suite, experiments, subject: subject.name.clone(), watch })
    }

    /// Every claim about the subject with its experiment, in the order of the suite's criteria.
    fn claims(&self) -> Vec<(&Experiment, &Claim)> {
        let all =
            self.experiments.iter().flat_map(|e| e.claims.iter().map(move |claim| (e, claim)));
        let of_subject = |(_, claim): &(&Experiment, &Claim)| {
            claim.asked.as_ref().is_some_and(|asked| asked.subject == self.subject)
        };
        let is_own = |(_, claim): &(&Experiment, &Claim)| !is_carrying(claim);
        let mut claims: Vec<_> = all.filter(of_subject).filter(is_own).collect();
        claims.sort_by_key(|(_, claim)| {
            let id = claim.asked.as_ref().map(|asked| &asked.criterion);
            self.suite.criteria.iter().position(|criterion| Some(&criterion.id) == id)
        });
        claims
    }

    /// Criteria, in the order of the suite.
    pub(crate) fn criteria(&self) -> Vec<Criterion> {
        self.claims().into_iter().filter_map(|(_, claim)| self.criterion(claim)).collect()
    }

    fn criterion(&self, claim: &Claim) -> Option<Criterion> {
        let asked = claim.asked.as_ref()?;
        let of_suite = self.suite.criteria.iter().find(|c| c.id == asked.criterion)?;
        Some(Criterion {
            id: asked.of_all.clone(),
            section: of_suite.section.clone(),
            asks: claim.claim.clone(),
            expected: claim.expected.clone(),
            at_least: comparison(claim)?.relation.is_lower(),
        })
    }

    /// The verdicts on the criteria named in `only`, or on all, by the means of `runs` runs.
    pub(crate) fn verdicts(
        &self,
        only: &[String],
        runs: impl Fn(&Experiment) -> u32,
    ) -> Result<(Vec<CriterionResult>, Vec<Trouble>), ExperimentError> {
        let mut verdicts = Vec::new();
        let mut troubles: Vec<Trouble> = Vec::new();
        let mut means = HashMap::new();
        for (experiment, claim) in self.claims() {
            let (Some(criterion), Some(comparison)) = (self.criterion(claim), comparison(claim))
            else {
                continue;
            };
            if !only.is_empty() && !only.contains(&criterion.id) {
                continue;
            }
            let mut value = |expression: &Expression<Cell>| -> Result<f64, ExperimentError> {
                for cell in expression.leaves() {
                    let (_, index) = place(experiment, cell)?;
                    if let Entry::Vacant(unknown) = means.entry((&experiment.id, index)) {
                        unknown.insert(self.means(experiment, index, runs(experiment))?);
                    }
                }
                let mean = |cell: &Cell| {
                    let (metric, index) = experiment.find(cell).ok()?;
                    Some(means.get(&(&experiment.id, index))?[metric])
                };
                Ok(expression.evaluate(&|cell| mean(cell).unwrap_or(f64::NAN)))
            };
            if verdicts.is_empty()
                && let Some(cell) = comparison.left.leaves().first()
            {
                // First, since state kept between runs may settle.
                troubles.extend(self.repeat(experiment, cell, &criterion.id)?);
            }
            let left = value(&comparison.left)?;
            let bound = value(&comparison.right)?;
            let mut standards = Vec::new();
            for other in &experiment.claims {
                if let (Some(asked), Some(theirs)) = (&other.asked, self::comparison(other))
                    && asked.of_all == criterion.id
                    && asked.subject != self.subject
                {
                    standards.push((asked.subject.clone(), value(&theirs.left)?));
                }
            }
            // NaN meets no bound, and without goodput no criterion is met.
            let mut met = comparison.relation.holds(left, bound);
            let measured = comparison.left.leaves();
            let of_subject = |claim: &&Claim| {
                let asked = claim.asked.as_ref();
                is_carrying(claim) && asked.is_some_and(|asked| asked.subject == self.subject)
            };
            let carrying = experiment.claims.iter().filter(of_subject).flat_map(|c| &c.checks);
            for (_, carried) in carrying.flat_map(|check| &check.any) {
                let here = |cell: &&Cell| measured.iter().any(|m| m.labels == cell.labels);
                if carried.left.leaves().iter().any(here) {
                    let (left, least) = (value(&carried.left)?, value(&carried.right)?);
                    met &= carried.relation.holds(left, least);
                }
            }
            verdicts.push(CriterionResult { criterion, met, value: left, bound, standards });
        }
        for trouble in self.watch.take() {
            if !troubles.iter().any(|known| known.is_like(&trouble)) {
                troubles.push(trouble);
            }
        }
        Ok((verdicts, troubles))
    }

    /// The mean of each metric in a cell.
    fn means(
        &self,
        experiment: &Experiment,
        cell: usize,
        runs: u32,
    ) -> Result<Vec<f64>, ExperimentError> {
        let scenario = scenario(experiment, cell)?;
        let mut sums = vec![0.0; experiment.metrics.len()];
        for run in 0..runs {
            let simulate = |scenario: &Scenario, _: &AtomicBool| Ok(self.simulate(scenario));
            let never = AtomicBool::new(false);
            let (metrics, _) = experiment.perform(&scenario, run, &never, &simulate)?;
            sums.iter_mut().zip(metrics).for_each(|(sum, metric)| *sum += metric);
        }
        Ok(sums.into_iter().map(|sum| sum / f64::from(runs)).collect())
    }

    /// Runs a scenario with the loss detection of QUIC for all of its flows.
    fn simulate(&self, scenario: &Scenario) -> Outcome {
        let mut scenario = scenario.clone();
        for flow in &mut scenario.flows {
            let mut kind = FlowKind::clone(&flow.kind);
            if let Traffic::Transport { protocol, .. } = &mut kind.traffic {
                *protocol = Arc::new(with_numbers(protocol));
            }
            flow.kind = Arc::new(kind);
        }
        let outcome = windward_sim::run(&scenario);
        if let Some(fault) = fault() {
            self.watch.note_fault(&fault);
        }
        for flow in outcome.flows.iter().filter(|flow| *flow.protocol == *self.subject) {
            if let Some(reason) = &flow.failure {
                self.watch.note(Trouble::ConnectionLost { reason: reason.clone() });
            }
        }
        outcome
    }

    /// Runs a scenario twice and compares the fingerprints.
    fn repeat(
        &self,
        experiment: &Experiment,
        cell: &Cell,
        criterion: &str,
    ) -> Result<Option<Trouble>, ExperimentError> {
        let scenario = scenario(experiment, place(experiment, cell)?.1)?;
        let run = || self.simulate(&scenario).fingerprint;
        let place = criterion.to_owned();
        Ok((run() != run()).then_some(Trouble::NotDeterministic { place }))
    }
}

/// True for the claim that the subject carries data.
fn is_carrying(claim: &Claim) -> bool {
    claim.asked.as_ref().is_some_and(|asked| asked.of_all.starts_with(CARRIED))
}

/// The single comparison of a claim.
fn comparison(claim: &Claim) -> Option<&Comparison> {
    claim.checks.first()?.any.first().map(|(_, comparison)| comparison)
}

/// Indices of metric and cell.
fn place(experiment: &Experiment, cell: &Cell) -> Result<(usize, usize), ExperimentError> {
    let file = experiment.file.clone();
    experiment.find(cell).map_err(|message| ExperimentError::Experiment { file, line: 0, message })
}

fn scenario(experiment: &Experiment, cell: usize) -> Result<Scenario, ExperimentError> {
    experiment.scenario(cell, &experiment.run_length(&Effort::Quick), &Deviation::PLAIN)
}

/// The protocol with the recovery of QUIC, unless it needs its own.
fn with_numbers(protocol: &Protocol) -> Protocol {
    let numbered = Protocol { recovery: RecoveryConfig::PacketNumber(Plain), ..*protocol };
    if numbered.check().is_ok() { numbered } else { *protocol }
}
