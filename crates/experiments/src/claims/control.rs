//! Controls: would a check hold if there were no difference, and could it fail at all?
//!
//! A check that compares two things, mostly protocols, is evaluated again on runs that are there
//! already. *Against itself*: one of the things takes the place of all, each with runs of its own
//! (repetition r of the one meets repetition r + 1 of the other). A check that permits equality and
//! fails here has a bound that is narrower than noise: too strict. One that asks for a difference
//! and holds here is too lax. *Others in its place*: a check that permits equality and holds
//! whichever of the measured things take the places cannot fail, and is too lax as well.
//!
//! Controls use a confidence of 99 %, since each claim has many.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{CellSamples, LEAST_RUNS, SampledCells, Verdict, interval, judge};
use crate::experiment::{Check, Experiment};
use crate::expression::{Cell, Comparison};
use crate::statistics::Estimate;

/// The verdict of a control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ControlVerdict {
    /// It holds of equal things if it permits equality, and something fails it.
    Sound,
    /// A thing fails it against itself.
    TooStrict,
    /// Nothing measured fails it.
    TooLax,
    /// The runs do not show that it can fail.
    Untested,
}

impl ControlVerdict {
    /// Its words.
    pub fn words(self) -> &'static str {
        match self {
            ControlVerdict::Sound => "sound",
            ControlVerdict::TooStrict => "too strict",
            ControlVerdict::TooLax => "too lax",
            ControlVerdict::Untested => "not tested",
        }
    }
}

/// The control of a check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Control {
    /// The verdict.
    pub verdict: ControlVerdict,
    /// The reason, with numbers.
    pub reason: String,
}

impl Control {
    pub(super) fn to_json(&self) -> Value {
        json!({ "verdict": self.verdict.words(), "reason": self.reason })
    }
}

/// Confidence of the intervals of controls.
const CONFIDENCE: f64 = 0.99;

/// Largest number of things that a check compares, and of combinations of others in their places.
const MOST_THINGS: usize = 3;
const MOST_PLACES: usize = 400;

/// One of the compared things: an experiment, and a label on the axis on which they differ.
#[derive(Debug, Clone)]
struct Thing<'a> {
    experiment: &'a Experiment,
    axis: Option<usize>,
    label: &'a str,
}

impl Thing<'_> {
    fn name(&self) -> &str {
        if self.label.is_empty() { &self.experiment.id } else { self.label }
    }

    fn is(&self, other: &Thing<'_>) -> bool {
        self.experiment.id == other.experiment.id && self.label == other.label
    }

    /// The cell with this thing in place of that of its own.
    fn put(&self, cell: &Cell, axis: Option<usize>) -> Option<Cell> {
        let mut labels = cell.labels.clone();
        if let Some(axis) = axis {
            labels.remove(axis);
        }
        if let Some(axis) = self.axis {
            (axis <= labels.len()).then(|| labels.insert(axis, self.label.to_owned()))?;
        }
        let experiment = Some(self.experiment.id.clone());
        let cell = Cell { experiment, metric: cell.metric.clone(), labels };
        self.experiment.find(&cell).is_ok().then_some(cell)
    }
}

/// The control of a check of experiment `own`, if it compares things. `find` returns an experiment
/// by its id, and `column` the plain samples of a cell.
pub(crate) fn control<'a>(
    check: &'a Check,
    own: &'a Experiment,
    find: &impl Fn(&str) -> Option<&'a Experiment>,
    column: &impl Fn(&Cell) -> Option<Vec<f64>>,
) -> Option<Control> {
    let each = check.any.iter().map(|(_, c)| Setting::of(c, own, find)?.control(column));
    // One alternative suffices for the check, so the best of them counts.
    let rank = |control: &Control| match control.verdict {
        ControlVerdict::Sound => 0,
        ControlVerdict::Untested => 1,
        ControlVerdict::TooLax => 2,
        ControlVerdict::TooStrict => 3,
    };
    each.collect::<Option<Vec<Control>>>()?.into_iter().min_by_key(rank)
}

/// A comparison and the things that it compares.
struct Setting<'a> {
    comparison: &'a Comparison,
    /// Each cell with the index of its thing.
    cells: Vec<(&'a Cell, usize)>,
    things: Vec<Thing<'a>>,
}

/// True for an axis that sets protocols.
fn is_of_protocols(experiment: &Experiment, axis: usize) -> bool {
    let mut keys = experiment.axes[axis].points.iter().flat_map(|p| &p.set);
    keys.any(|(key, _)| key.split('.').any(|part| part == "protocol"))
}

impl<'a> Setting<'a> {
    fn of(
        comparison: &'a Comparison,
        own: &'a Experiment,
        find: &impl Fn(&str) -> Option<&'a Experiment>,
    ) -> Option<Self> {
        let located = comparison.cells().into_iter().map(|cell| {
            let experiment = cell.experiment.as_deref().map_or(Some(own), find)?;
            Some((cell, experiment))
        });
        let located: Vec<(&Cell, &Experiment)> = located.collect::<Option<_>>()?;
        // The protocols if the cells differ in them, else the first axis on which they differ.
        let protocols = |e: &Experiment| (0..e.axes.len()).find(|a| is_of_protocols(e, *a));
        let mut settings = vec![Self::along(comparison, &located, &protocols)];
        for axis in &own.axes {
            let named = |e: &Experiment| e.axes.iter().position(|a| a.name == axis.name);
            settings.push(Self::along(comparison, &located, &named));
        }
        settings.into_iter().find(|s| (2..=MOST_THINGS).contains(&s.things.len()))
    }

    fn along(
        comparison: &'a Comparison,
        located: &[(&'a Cell, &'a Experiment)],
        axis: &dyn Fn(&Experiment) -> Option<usize>,
    ) -> Self {
        let mut things: Vec<Thing<'a>> = Vec::new();
        let mut cells = Vec::new();
        for (cell, experiment) in located {
            let axis = axis(experiment);
            let label = axis.map_or("", |axis| cell.labels[axis].as_str());
            let thing = Thing { experiment, axis, label };
            let known = things.iter().position(|t| t.is(&thing));
            cells.push((*cell, known.unwrap_or(things.len())));
            if known.is_none() {
                things.push(thing);
            }
        }
        Setting { comparison, cells, things }
    }

    /// Left minus right, with these things in the places of its own; in place j the repetition is j
    /// times `shift` later. `None` if cells were not run there.
    fn difference(
        &self,
        places: &[Thing<'a>],
        shift: usize,
        column: &impl Fn(&Cell) -> Option<Vec<f64>>,
    ) -> Option<Option<Estimate>> {
        let mut columns = SampledCells::default();
        let mut rows = usize::MAX;
        for (cell, thing) in &self.cells {
            let other = places[*thing].put(cell, self.things[*thing].axis)?;
            let samples = column(&other)?;
            rows = rows.min(samples.len());
            // Neither units nor bounds matter here.
            let bounds = (f64::NEG_INFINITY, f64::INFINITY);
            columns.0.push((*cell, CellSamples { samples, has_unit: false, unit: "", bounds }));
        }
        if rows < LEAST_RUNS {
            return None;
        }
        for ((_, column), (_, place)) in columns.0.iter_mut().zip(&self.cells) {
            column.samples.truncate(rows);
            column.samples.rotate_left(place * shift % rows);
        }
        let Comparison { left, right, .. } = self.comparison;
        Some(columns.difference(left, right, rows, CONFIDENCE))
    }

    fn verdict(&self, difference: Estimate) -> Verdict {
        judge(self.comparison.relation, difference, None)
    }

    fn control(&self, column: &impl Fn(&Cell) -> Option<Vec<f64>>) -> Option<Control> {
        let found = |verdict, reason| Some(Control { verdict, reason });
        let mut permits = true;
        for thing in &self.things {
            let places = vec![thing.clone(); self.things.len()];
            // Without noise, equal things meet an order or do not.
            let equal = self.difference(&places, 0, column)?;
            let holds = |mean| self.comparison.relation.holds(mean, 0.0);
            let equals = equal.is_some_and(|equal| holds(equal.mean));
            permits &= equals;
            let Some(estimate) = self.difference(&places, 1, column)? else { continue };
            let verdict = self.verdict(estimate);
            let words = || {
                let name = thing.name();
                format!("{name} against itself: left minus right {}", interval(estimate))
            };
            match (equals, verdict) {
                (true, Verdict::NotHeld) => return found(ControlVerdict::TooStrict, words()),
                (false, Verdict::Held) => return found(ControlVerdict::TooLax, words()),
                _ => {}
            }
        }
        if !permits {
            let reason = "it asks for a difference, and a thing against itself has none";
            return found(ControlVerdict::Sound, reason.to_owned());
        }
        let (mut open, mut others) = (false, 0);
        for places in self.places() {
            let Some(Some(difference)) = self.difference(&places, 0, column) else { continue };
            let verdict = self.verdict(difference);
            let names = || places.iter().map(Thing::name).collect::<Vec<_>>().join(", ");
            match verdict {
                Verdict::NotHeld => {
                    return found(ControlVerdict::Sound, format!("{} would fail it", names()));
                }
                Verdict::Inconclusive => open = true,
                // The same things the other way round are equal if the check permits only equality.
                Verdict::Held | Verdict::Tie => {
                    let own = |t: &Thing<'_>| self.things.iter().any(|o| o.is(t));
                    others += usize::from(!places.iter().all(own));
                }
            }
        }
        match (open, others) {
            (false, 1..) => found(
                ControlVerdict::TooLax,
                format!("{others} other combinations hold too, and none fails"),
            ),
            _ => found(
                ControlVerdict::Untested,
                "nothing that was measured is shown to fail it".to_owned(),
            ),
        }
    }

    /// Other things in the places of its own, each at most once; none if they are too many.
    fn places(&self) -> Vec<Vec<Thing<'a>>> {
        let mut all: Vec<Vec<Thing<'a>>> = vec![Vec::new()];
        for thing in &self.things {
            let candidates: Vec<Thing<'a>> = match thing.axis {
                None => vec![thing.clone()],
                Some(axis) => {
                    let points = thing.experiment.axes[axis].points.iter();
                    points.map(|point| Thing { label: &point.label, ..thing.clone() }).collect()
                }
            };
            let longer = all.iter().flat_map(|places| {
                let fresh = candidates.iter().filter(|c| !places.iter().any(|p| p.is(c)));
                fresh.map(|c| [&places[..], std::slice::from_ref(c)].concat())
            });
            all = longer.collect();
            if all.len() > MOST_PLACES {
                return Vec::new();
            }
        }
        let own = |places: &Vec<Thing<'a>>| places.iter().zip(&self.things).all(|(a, b)| a.is(b));
        all.retain(|places| !own(places));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::ControlVerdict::{Sound, TooLax, TooStrict, Untested};

    /// The control of a check of the testing experiment, whose protocols are newreno and sack, at a
    /// rate of 1, 2 or 4 Mbit. `column` has the samples of `clean` by protocol and rate.
    fn of(text: &str, column: &dyn Fn(&str, &str) -> Vec<f64>) -> Option<ControlVerdict> {
        let own = crate::testing::experiment();
        let comparison = Comparison::parse(text).unwrap();
        let check = Check::of(vec![(text.to_owned(), comparison)], 0);
        let column = |cell: &Cell| Some(column(&cell.labels[0], &cell.labels[1]));
        control(&check, &own, &|_| None, &column).map(|control| control.verdict)
    }

    /// Noise of +-5 around 1, whose mean difference from the next run is about 7 %.
    fn noise(_: &str, _: &str) -> Vec<f64> {
        [0.95, 1.05, 0.97, 1.04, 0.96, 1.03, 0.98, 1.05, 0.95, 1.02].to_vec()
    }

    #[test]
    fn a_bound_narrower_than_noise_is_too_strict() {
        let ratio = "clean[sack, 1 Mbit] / clean[newreno, 1 Mbit]";
        // Independent runs are not within 2 % of each other.
        let every = |bound: f64| of(&format!("at_least({bound}, abs({ratio} - 1)) >= 1"), &noise);
        assert_eq!(every(0.02), Some(TooStrict));
        // Nothing but these two protocols was measured, so nothing can be shown to fail it.
        assert_eq!(every(0.2), Some(Untested));
        // Their means are.
        assert_eq!(of(&format!("abs({ratio} - 1) <= 0.02"), &noise), Some(Untested));
    }

    #[test]
    fn a_check_that_nothing_fails_is_too_lax() {
        let rates = |_: &str, rate: &str| match rate {
            "1 Mbit" => vec![1.0, 1.01, 0.99],
            "2 Mbit" => vec![2.0, 2.01, 1.99],
            _ => vec![4.0, 4.01, 3.99],
        };
        // The protocol does not differ, so that the rates are compared.
        let check = |text| of(text, &rates);
        assert_eq!(check("clean[sack, 2 Mbit] >= 0.9 * clean[sack, 1 Mbit]"), Some(Sound));
        assert_eq!(check("clean[sack, 2 Mbit] >= 0.1 * clean[sack, 1 Mbit]"), Some(TooLax));
        assert_eq!(check("clean[sack, 2 Mbit] > clean[sack, 1 Mbit]"), Some(Sound));
        // It asks for a difference that equal things have too.
        assert_eq!(check("clean[sack, 2 Mbit] + 1 > clean[sack, 1 Mbit] + 2"), Some(Sound));
    }

    #[test]
    fn a_check_with_a_constant_bound_compares_nothing() {
        assert_eq!(of("clean[sack, 1 Mbit] >= 0.5", &noise), None);
    }
}
