//! Estimates of expressions over cells. Repetition r of every cell has the same seed, so that the
//! repetitions of different cells are paired.
//!
//! | expression | estimate | interval |
//! |---|---|---|
//! | linear: `a`, `a - 2 * b`, `mean(a, b)` | mean over the repetitions | Student's t |
//! | a quotient of two linear ones: `a / b`, `1 - a / b` | ratio of the means | Fieller's |
//! | `abs(..)` of one of these | its absolute value | image of its interval |
//! | with `at_least(..)`, `min(..)` or `max(..)`, an event or a peak of a repetition | mean over the repetitions | Student's t |
//! | other: `a / b - c / d`, `a * b` | value at the means | jackknife |
//!
//! No interval has impossible values, as a rate below zero.
//!
//! A metric that is a quotient within one run, as a share, is a value of that run: its estimate is
//! the mean over the repetitions.

use crate::experiment::Experiment;
use crate::expression::{Cell, Expression, Measure};
use crate::statistics::{Estimate, estimate_with, jackknife, ratio_of_means};

/// The samples of a cell, one per repetition, and what is known of its metric.
pub struct CellSamples {
    /// One value per repetition.
    pub samples: Vec<f64>,
    /// True if the metric has a unit.
    pub has_unit: bool,
    /// Its unit, as far as charts name it; else empty.
    pub unit: &'static str,
    /// Least and largest possible value.
    pub bounds: (f64, f64),
}

impl CellSamples {
    /// Samples of a metric, by its index.
    pub fn of(experiment: &Experiment, metric: usize, samples: Vec<f64>) -> Self {
        let unit = experiment.unit_of(metric).of_metrics();
        let metric = &experiment.metrics[metric];
        let bounds = metric.expression.bounds(&Measure::bounds);
        CellSamples { samples, has_unit: metric.has_unit(), unit, bounds }
    }
}

/// The columns of the cells of an expression.
#[derive(Default)]
pub struct SampledCells<'a>(pub Vec<(&'a Cell, CellSamples)>);

impl SampledCells<'_> {
    /// Number of repetitions that all of them have.
    pub fn rows(&self) -> usize {
        self.0.iter().map(|(_, column)| column.samples.len()).min().unwrap_or(0)
    }

    /// Number of the first `rows` repetitions in which a cell has no number.
    pub fn rows_without_numbers(&self, rows: usize) -> usize {
        let missing = |row: &usize| self.0.iter().any(|(_, c)| !c.samples[*row].is_finite());
        (0..rows).filter(missing).count()
    }

    /// Estimate of an expression from the first `rows` repetitions. `None` without repetitions, if
    /// a cell has no number in one of them, or if the expression has none at the means.
    pub fn estimate(
        &self,
        expression: &Expression<Cell>,
        rows: usize,
        confidence: f64,
    ) -> Option<Estimate> {
        if rows == 0 || self.rows_without_numbers(rows) > 0 {
            return None;
        }
        let each = |expression: &Expression<Cell>| {
            (0..rows).map(|row| self.value(expression, |c| c[row])).collect::<Vec<f64>>()
        };
        let bounds = |cell: &Cell| self.of(cell).map_or(EVERYTHING, |column| column.bounds);
        let possible = expression.bounds(&bounds);
        let of_each = || {
            let estimate = estimate_with(&each(expression), confidence)?;
            Some(if rows == 1 { estimate } else { estimate.within(possible) })
        };
        if expression.has_event() {
            return of_each();
        }
        if let Some((dividend, divisor)) = expression.as_quotient() {
            if divisor.constant().is_some() {
                return of_each();
            }
            let pairs: Vec<(f64, f64)> = each(&dividend).into_iter().zip(each(&divisor)).collect();
            return ratio_of_means(&pairs, confidence, possible);
        }
        if let Some(inside) = expression.inside_abs() {
            return self.estimate(&inside, rows, confidence).map(Estimate::absolute);
        }
        jackknife(rows, confidence, possible, |left_out| {
            self.value(expression, |samples| mean_without(&samples[..rows], left_out))
        })
    }

    /// Estimate of the difference of two expressions.
    pub fn difference(
        &self,
        left: &Expression<Cell>,
        right: &Expression<Cell>,
        rows: usize,
        confidence: f64,
    ) -> Option<Estimate> {
        match (left.constant(), right.constant()) {
            (_, Some(bound)) => Some(self.estimate(left, rows, confidence)?.shifted(-bound)),
            (Some(bound), _) => {
                Some(self.estimate(right, rows, confidence)?.negated().shifted(bound))
            }
            _ => self.estimate(&left.minus(right), rows, confidence),
        }
    }

    /// The unit of an expression: that of its cells, if they have the same; empty for a quotient of
    /// two of them.
    pub fn unit_of(&self, expression: &Expression<Cell>) -> &'static str {
        let mut units = expression.leaves().into_iter().map(|c| self.of(c).map_or("", |c| c.unit));
        match units.next() {
            Some(unit) if expression.has_unit(&|_| true) && units.all(|other| other == unit) => {
                unit
            }
            _ => "",
        }
    }

    /// The columns of a cell.
    pub fn of(&self, cell: &Cell) -> Option<&CellSamples> {
        self.0.iter().find(|(c, _)| *c == cell).map(|(_, column)| column)
    }

    fn value(&self, expression: &Expression<Cell>, read: impl Fn(&[f64]) -> f64) -> f64 {
        expression.evaluate(&|cell| self.of(cell).map_or(f64::NAN, |column| read(&column.samples)))
    }
}

const EVERYTHING: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);

/// Mean of all samples but one.
fn mean_without(samples: &[f64], left_out: Option<usize>) -> f64 {
    let kept = samples.iter().enumerate().filter(|(row, _)| Some(*row) != left_out);
    let count = samples.len() - usize::from(left_out.is_some());
    kept.map(|(_, x)| x).sum::<f64>() / count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::CONFIDENCE;

    const RATES: (f64, f64) = (0.0, f64::INFINITY);

    /// Estimate from three repetitions of the cells a, b and c.
    fn of(text: &str, a: [f64; 3], b: [f64; 3], c: [f64; 3]) -> Option<Estimate> {
        let expression = Expression::<Cell>::parse(text).unwrap();
        let column = |cell| {
            let cell: &Cell = cell;
            let samples = match cell.labels[0].as_str() {
                "a" => a,
                "b" => b,
                _ => c,
            };
            (
                cell,
                CellSamples { samples: samples.to_vec(), has_unit: true, unit: "", bounds: RATES },
            )
        };
        let cells = SampledCells(expression.leaves().into_iter().map(column).collect());
        cells.estimate(&expression, 3, CONFIDENCE)
    }

    #[track_caller]
    fn assert_near(e: Option<Estimate>, expected: [f64; 3]) {
        let e = e.unwrap();
        for (x, expected) in [e.mean, e.low, e.high].into_iter().zip(expected) {
            assert!((x - expected).abs() < 1e-5 || x == expected, "{e:?} against {expected}");
        }
    }

    const TEN: [f64; 3] = [10.0; 3];
    const NEAR_TEN: [f64; 3] = [9.0, 10.0, 11.0];

    #[test]
    fn a_ratio_is_that_of_the_means() {
        // One small divisor: the quotients of single repetitions are 1, 1 and 100, 34 on average;
        // 233 over 134 is 1.74.
        let (a, b) = ([100.0, 33.0, 100.0], [100.0, 33.0, 1.0]);
        assert!((of("x[a] / x[b]", a, b, b).unwrap().mean - 233.0 / 134.0).abs() < 1e-12);
        // A repetition without anything in the divisor is no division by zero.
        let b = [100.0, 33.0, 0.0];
        assert!((of("x[a] / x[b]", a, b, b).unwrap().mean - 233.0 / 133.0).abs() < 1e-12);
        assert_eq!(of("x[a] / x[b]", a, [0.0; 3], b), None);
        assert_eq!(of("x[a] / x[b]", [f64::NAN, 1.0, 1.0], b, b), None);
    }

    #[test]
    fn what_can_be_written_as_one_quotient_has_its_interval() {
        // The interval of a / b is 1 [0.751586, 1.248414]: see the tests of the statistics.
        let at = |text| of(text, NEAR_TEN, TEN, TEN);
        assert_near(at("x[a] / x[b]"), [1.0, 0.751586, 1.248414]);
        assert_near(at("2 * (x[a] / x[b]) + 1"), [3.0, 2.503172, 3.496828]);
        assert_near(at("1 - x[a] / x[b]"), [0.0, -0.248414, 0.248414]);
        assert_near(at("-x[a] / (x[b] / 2)"), [-2.0, -2.496828, -1.503172]);
        assert_near(at("x[a] / x[b] - x[c] / x[b]"), [0.0, -0.248414, 0.248414]);
        assert_near(at("mean(x[a], x[c]) / x[b]"), [1.0, 0.875793, 1.124207]);
        // Linear: Student's t as ever, 4.302653 / sqrt(3) = 2.484138.
        assert_near(at("x[a] - x[b]"), [0.0, -2.484138, 2.484138]);
        assert_near(at("x[a] / 2"), [5.0, 3.757931, 6.242069]);
        // No rate is below zero: 1 -+ 2.484138 for the mean of 0, 1 and 2.
        assert_near(of("x[a]", [0.0, 1.0, 2.0], TEN, TEN), [1.0, 0.0, 3.484138]);
        // The image of the interval.
        assert_near(at("abs(x[a] / x[b] - 1)"), [0.0, 0.0, 0.248414]);
        assert_near(at("abs(x[a] / x[b] - 2)"), [1.0, 0.751586, 1.248414]);
    }

    #[test]
    fn an_event_is_one_of_a_repetition() {
        // In one of three repetitions.
        let share = of("at_least(x[a] / x[b], 1.05)", NEAR_TEN, TEN, TEN).unwrap();
        assert!((share.mean - 1.0 / 3.0).abs() < 1e-12);
        // The larger of both is 9, 10.5 and 11: mean 10.166667, s = 1.040833, and half of the
        // interval 2.484138 times that, 2.585573.
        let b = [9.0, 10.5, 9.0];
        assert_near(of("max(x[a], x[b])", NEAR_TEN, b, b), [10.166667, 7.581094, 12.752240]);
    }

    #[test]
    fn other_expressions_have_their_value_at_the_means() {
        // The means are 10 and 9.5; without one repetition the product of the means is 10.5 * 9.75,
        // 10 * 9 and 9.5 * 9.75. The center is 95, 2/3 of the squared deviations 54.390625, 25 and
        // 5.640625 is 56.6875, and 4.302653 times its root 32.395148.
        let b = [9.0, 10.5, 9.0];
        assert_near(of("x[a] * x[b]", NEAR_TEN, b, b), [95.0, 62.604852, 127.395148]);
        // Two equal quotients do not differ.
        assert_near(of("x[a] / x[b] - x[a] / x[c]", NEAR_TEN, b, b), [0.0; 3]);
    }

    #[test]
    fn a_difference_from_a_bound_is_the_estimate_moved() {
        let expressions = ["x[a] / x[b]", "x[c] / x[b]", "0.8"];
        let [left, right, bound] = expressions.map(|t| Expression::<Cell>::parse(t).unwrap());
        let column = |cell| {
            let cell: &Cell = cell;
            let samples = if cell.labels[0] == "a" { NEAR_TEN } else { TEN };
            (
                cell,
                CellSamples { samples: samples.to_vec(), has_unit: true, unit: "", bounds: RATES },
            )
        };
        let cells = left.leaves().into_iter().chain(right.leaves()).map(column).collect();
        let cells = SampledCells(cells);
        let difference = |a, b| cells.difference(a, b, 3, CONFIDENCE);
        assert_near(difference(&left, &bound), [0.2, -0.048414, 0.448414]);
        assert_near(difference(&bound, &left), [-0.2, -0.448414, 0.048414]);
        assert_near(difference(&left, &right), [0.0, -0.248414, 0.248414]);
    }
}
