//! The course of a claim in a report: its questions, and the step after each answer.

use super::cells::CellId;
use super::design::{ClaimId, Design, Groups, REPORTED};
use super::question::{Answer, Ask, QuestionId, Rule, is_decided};
use super::runner::Amount;
use crate::ExperimentError;
use crate::claims::{
    self, ClaimResult, JointResult, ReadingResult, SearchResult, Verdict, WorldResult,
};
use crate::experiment::{Deviation, Reading};
use crate::expression::Cell;
use crate::sweep::Plan;

/// Largest work of a claim in a joint world, in budgets for its other readings. The few that cost
/// more would be a fifth of a quick run.
const JOINT_BUDGETS: f64 = 10.0;

/// The questions of the campaign about a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Its verdict under the plain reading.
    Plain,
    /// Its verdict under another reading.
    Reading,
    /// Its verdict in a world that a search found: the nearest one, or one in which many claims
    /// hold together.
    World,
}

/// A question that follows an answer.
pub(super) enum Follow {
    /// A new one about these groups of checks.
    Ask(Ask<Purpose>, Groups),
    /// An undecided one again, with all permitted runs.
    Again(QuestionId),
}

/// A reading, and the cells that it changes.
type Changing = (Deviation, Vec<CellId>);

/// A reading that was left undecided before the last permitted look.
struct Undecided {
    question: QuestionId,
    world: Deviation,
    /// Predicted work of the looks that are left.
    work: f64,
}

/// A claim: results so far, and remaining readings.
pub(super) struct Case {
    pub(super) id: ClaimId,
    pub(super) result: ClaimResult,
    /// First looks under other readings, as far as they are predicted and not requested.
    pub(super) expected: Amount,
    /// The other readings with one changed choice.
    singles: Vec<Changing>,
    /// The worlds that a search found, until they are asked for.
    found: Vec<Deviation>,
    /// Number of open questions.
    open: usize,
    undecided: Vec<Undecided>,
    /// Predicted work of the readings that were asked for.
    spent: f64,
}

impl Case {
    /// Finds the readings and worlds of a claim, and checks that all of them are possible.
    pub(super) fn open(id: ClaimId, design: &mut Design<'_>) -> Result<Self, ExperimentError> {
        let mut result = ClaimResult::open(design.claim(id), &design.experiment_of(id).id);
        let mut singles = Vec::new();
        for single in design.singles(id)? {
            let Reading { choice, formerly, .. } = single.choice;
            if single.choice.is_calibrated() {
                is_new(choice.clone(), &mut result.calibrated);
            }
            if let Some(formerly) = formerly {
                is_new((choice.clone(), formerly.clone()), &mut result.formerly);
            }
            singles.push((single.world, single.cells.iter().map(|(cell, _)| *cell).collect()));
        }
        let mut expected = Amount::default();
        let first = design.looks(id.experiment, false).first() as usize;
        for (_, cells) in &singles {
            let cells: &Vec<CellId> = cells;
            let hops = design.work_of(id.experiment, cells.iter().copied());
            expected += Amount { runs: cells.len() * first, hops };
        }
        let budget = design.readings_budget(id.experiment).unwrap_or(f64::MAX);
        expected.hops = expected.hops.min(budget);
        let mut case = Case {
            id,
            result,
            expected,
            singles,
            found: Vec::new(),
            // The plain one.
            open: 1,
            undecided: Vec::new(),
            spent: 0.0,
        };
        case.find_worlds(design);
        Ok(case)
    }

    /// Notes the worlds that a search found, as far as they fit the claim and the budget.
    fn find_worlds(&mut self, design: &mut Design<'_>) {
        let id = self.id;
        let experiment = design.experiment_of(id);
        let readings = design.readings_of(id);
        let is_there = |(name, label): &(String, String)| {
            let reading = readings.iter().find(|r| r.name == *name);
            reading.is_some_and(|r| r.others().any(|value| value.label == *label))
        };
        let fits = |design: &mut Design<'_>, world: &Deviation| {
            design.is_possible(id, world) && !design.cells_in(id, world).is_empty()
        };
        if let Some(found) = experiment.worlds.of(&design.claim(id).id) {
            let mut search = SearchResult::of(found);
            if let Some(world) = &found.readings {
                // Not if a value is gone or changes nothing any more, or an experiment is not run.
                search.stale = !(world.choices().iter().all(is_there) && fits(design, world));
                if !search.stale {
                    let reading = design.open_reading(id, world);
                    let open = WorldResult { reading, reported: Vec::new() };
                    self.result.worlds.nearest = Some(open);
                    self.found.push(world.clone());
                }
            }
            self.result.worlds.search = Some(search);
        }
        for joint in &experiment.worlds.joint {
            let own = joint.readings.choices().iter().filter(|choice| is_there(choice));
            let own = Deviation::of_choices(own.cloned().collect());
            let own = fits(design, &own).then(|| design.open_reading(id, &own));
            let mut joint = JointResult::open(joint, own);
            if let Some(own) = joint.own.as_ref().map(|own| &own.reading.deviation) {
                let cells = design.cells_in(id, own);
                let known = self.found.iter().any(|world| design.cells_in(id, world) == cells);
                let work = design.work_of(id.experiment, cells.into_iter().map(|(cell, _)| cell));
                let budget = design.readings_budget(id.experiment);
                joint.left_out = !known && budget.is_some_and(|b| work > b * JOINT_BUDGETS);
                if !joint.left_out {
                    self.found.push(own.clone());
                }
            }
            self.result.worlds.joint.push(joint);
        }
        // One world has one verdict, whatever the reason to look at it.
        let mut known = Vec::new();
        self.found.retain(|world| is_new(design.cells_in(id, world), &mut known));
    }

    /// The question about the plain reading, which comes first.
    pub(super) fn plainly(&self, design: &Design<'_>) -> (Ask<Purpose>, Groups) {
        let all = design.all_checks(self.id);
        (self.ask(design, Purpose::Plain, Deviation::PLAIN), vec![all])
    }

    fn ask(&self, design: &Design<'_>, asker: Purpose, world: Deviation) -> Ask<Purpose> {
        let own = self.id.experiment;
        let at_most = design.plans[own].length.at_most;
        let until = match asker {
            // Other readings get half as much at first.
            Purpose::Reading => (at_most / 2).max(design.looks(own, false).first()),
            _ => at_most,
        };
        let (claim, rule, stage) = (self.id, Rule::Verdict, (true, own));
        Ask { asker, claim, world, rule, from: 0, until, stage, bill: None }
    }

    /// Takes an answer, and gives the questions that follow. They are open from now on.
    pub(super) fn take(&mut self, answer: Answer<Purpose>, design: &Design<'_>) -> Vec<Follow> {
        self.open -= 1;
        let mut worlds = Vec::new();
        let mut readings = Vec::new();
        match answer.ask.asker {
            Purpose::Plain => {
                (self.result.verdict, self.result.checks) = (answer.verdict, answer.checks);
                self.expected = Amount::default();
                worlds = std::mem::take(&mut self.found);
                let mut known: Vec<_> =
                    worlds.iter().map(|world| design.cells_in(self.id, world)).collect();
                let mut singles = self.singles.clone();
                singles.retain(|(single, _)| is_new(design.cells_in(self.id, single), &mut known));
                readings = self.affordable(singles, design);
            }
            Purpose::Reading => {
                self.result.to_come -= 1;
                if answer.verdict == Verdict::Inconclusive && answer.open {
                    self.undecided.push(self.undecided(&answer, design));
                }
                self.settle(&answer, design);
            }
            Purpose::World => self.settle(&answer, design),
        }
        let mut again = Vec::new();
        if self.open == 0 && worlds.is_empty() && readings.is_empty() {
            again = self.again(design);
        }
        self.open += worlds.len() + readings.len() + again.len();
        self.result.to_come += readings.len() + again.len();
        let order = design.order(self.id, &self.result.checks);
        let all = vec![design.all_checks(self.id)];
        let worlds = worlds
            .into_iter()
            .map(|world| Follow::Ask(self.ask(design, Purpose::World, world), all.clone()));
        let readings = readings
            .into_iter()
            .map(|world| Follow::Ask(self.ask(design, Purpose::Reading, world), order.clone()));
        worlds.chain(readings).chain(again.into_iter().map(Follow::Again)).collect()
    }

    /// Stores the verdict in a world wherever the result has this world.
    fn settle(&mut self, answer: &Answer<Purpose>, design: &Design<'_>) {
        let id = self.id;
        let cells = design.cells_in(id, &answer.ask.world);
        let judged = |world: &Deviation| {
            let (verdict, checks) = (answer.verdict, answer.checks.clone());
            (design.cells_in(id, world) == cells).then(|| ReadingResult {
                verdict,
                checks,
                ..design.open_reading(id, world)
            })
        };
        let worlds = &mut self.result.worlds;
        if let Some(nearest) = &mut worlds.nearest
            && let Some(reading) = judged(&nearest.reading.deviation)
        {
            let reported = design.reported(id, &reading.deviation);
            *nearest = WorldResult { reading, reported };
        }
        for joint in &mut worlds.joint {
            if let Some(own) = &mut joint.own
                && let Some(reading) = judged(&own.reading.deviation)
            {
                own.reading = reading;
                joint.left_out = false;
            }
        }
        // In the order of the file, not in order of completion.
        let singles = self.singles.iter().map(|(single, _)| single);
        let readings = &mut self.result.readings;
        readings.retain(|known| judged(&known.deviation).is_none());
        readings.extend(singles.clone().filter_map(judged));
        readings.sort_by_key(|r| singles.clone().position(|single| *single == r.deviation));
    }

    /// The remaining work for a reading that this answer leaves undecided.
    fn undecided(&self, answer: &Answer<Purpose>, design: &Design<'_>) -> Undecided {
        let open = answer.checks.iter().filter(|result| !is_decided(result));
        let open: Vec<usize> = open.map(|result| result.check).collect();
        let own = self.id.experiment;
        let more = f64::from(design.plans[own].length.at_most - answer.ask.until);
        let first = f64::from(design.looks(own, false).first());
        Undecided {
            question: answer.question,
            world: answer.ask.world.clone(),
            work: design.work_of(own, design.cells_of(self.id, &open)) / first * more,
        }
    }

    /// The undecided readings that more runs may decide within the budget, the cheapest first.
    /// They have no verdict until then.
    fn again(&mut self, design: &Design<'_>) -> Vec<QuestionId> {
        let mut open = std::mem::take(&mut self.undecided);
        // Readings close in any order; what is asked again depends only on the numbers.
        open.sort_by(|a, b| a.work.total_cmp(&b.work).then_with(|| a.world.cmp(&b.world)));
        let budget = design.readings_budget(self.id.experiment);
        open.retain(|undecided| {
            self.spent += undecided.work;
            budget.is_none_or(|budget| self.spent <= budget)
        });
        self.result.readings.retain(|r| open.iter().all(|open| open.world != r.deviation));
        open.into_iter().map(|undecided| undecided.question).collect()
    }

    /// Those of these readings that fit into the budget. The result counts the others.
    fn affordable(&mut self, readings: Vec<Changing>, design: &Design<'_>) -> Vec<Deviation> {
        let order = design.order(self.id, &self.result.checks);
        let first = design.cells_of(self.id, order.first().map_or(&[], |group| group));
        let own = self.id.experiment;
        let work = readings.iter().map(|(_, changed)| {
            design.work_of(own, changed.iter().copied().filter(|cell| first.contains(cell)))
        });
        let work = work.collect::<Vec<f64>>();
        let kept = within_budget(&work, design.readings_budget(own));
        let spent = work.iter().zip(&kept).filter(|(_, kept)| **kept).map(|(work, _)| work);
        self.spent += spent.sum::<f64>();
        self.result.left_out += kept.iter().filter(|kept| !**kept).count();
        let kept = readings.into_iter().zip(kept).filter(|(_, kept)| *kept);
        kept.map(|((reading, _), _)| reading).collect()
    }

    /// Writes the numbers of the runs so far into the explanation.
    pub(super) fn explain(&mut self, design: &Design<'_>) {
        let nearest = self.result.nearest().map(|reading| &reading.deviation);
        self.result.explanation = design.explanation(self.id, nearest);
    }

    /// Adds the controls of all checks, which take the plain runs that are there. True if there are
    /// any.
    pub(super) fn add_controls<'a>(&mut self, design: &Design<'a>) -> bool {
        let own = design.experiment_of(self.id);
        let plans: &'a [Plan] = design.plans;
        let find = |id: &str| plans.iter().map(|p| &p.experiment).find(|e| e.id == id);
        let column = |cell: &Cell| {
            let samples = design.samples(self.id.experiment, cell, &Deviation::PLAIN, REPORTED);
            samples.ok().map(|samples| samples.samples)
        };
        let checks = &design.claim(self.id).checks;
        for result in &mut self.result.checks {
            result.control = claims::control(&checks[result.check], own, &find, &column);
        }
        self.result.checks.iter().any(|result| result.control.is_some())
    }
}

/// Adds an element, and tells whether it was not known.
fn is_new<T: PartialEq>(element: T, known: &mut Vec<T>) -> bool {
    let new = !known.contains(&element);
    if new {
        known.push(element);
    }
    new
}

/// The works that fit into the budget: the cheapest, and at least one.
fn within_budget(work: &[f64], budget: Option<f64>) -> Vec<bool> {
    let mut cheapest: Vec<usize> = (0..work.len()).collect();
    cheapest.sort_by(|a, b| work[*a].total_cmp(&work[*b]));
    let mut kept = vec![false; work.len()];
    let mut spent = 0.0;
    for (n, index) in cheapest.into_iter().enumerate() {
        spent += work[index];
        kept[index] = n == 0 || budget.is_none_or(|budget| spent <= budget);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_leaves_out_the_most_expensive() {
        let work = [30.0, 10.0, 20.0];
        assert_eq!(within_budget(&work, None), [true; 3]);
        assert_eq!(within_budget(&work, Some(60.0)), [true; 3]);
        assert_eq!(within_budget(&work, Some(59.0)), [false, true, true]);
        assert_eq!(within_budget(&work, Some(5.0)), [false, true, false]);
    }
}
