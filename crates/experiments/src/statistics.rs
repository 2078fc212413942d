//! Means, their confidence intervals, and repeated looks at them.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Default confidence of an interval: 95 %.
pub const CONFIDENCE: f64 = 0.95;

/// A mean with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Mean of the samples.
    pub mean: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Estimate {
    /// True for a single observation, without an interval.
    pub fn is_single(&self) -> bool {
        self.high.is_infinite()
    }

    /// `0.951 ± 0.012` of the estimate times `factor`; `0.951*` of a single observation, which has
    /// no interval.
    pub fn shown(&self, factor: f64, digits: usize) -> String {
        let mean = self.mean * factor;
        let half = (self.high - self.mean) * factor;
        match self.is_single() {
            true => format!("{mean:.digits$}*"),
            false => format!("{mean:.digits$} \u{b1} {half:.digits$}"),
        }
    }
}

/// Explanation of the asterisk of [`Estimate::shown`].
pub const SINGLE: &str = "* 1 run: a single observation, without an interval.";

/// Mean and 95 % Student-t interval of samples that are assumed independent and about normal. The
/// interval of one sample is unbounded. `None` without samples, or if one is not finite.
pub fn estimate(samples: &[f64]) -> Option<Estimate> {
    estimate_with(samples, CONFIDENCE)
}

/// The same with another confidence, above 0 and below 1.
pub fn estimate_with(samples: &[f64], confidence: f64) -> Option<Estimate> {
    if samples.is_empty() || samples.iter().any(|x| !x.is_finite()) {
        return None;
    }
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    let half = if samples.len() == 1 {
        f64::INFINITY
    } else {
        let squares: f64 = samples.iter().map(|x| (x - mean) * (x - mean)).sum();
        t_quantile(n - 1.0, confidence) * (squares / (n - 1.0) / n).sqrt()
    };
    Some(Estimate { mean, low: mean - half, high: mean + half })
}

/// The t quantile of a two-sided interval.
fn t_quantile(degrees_of_freedom: f64, confidence: f64) -> f64 {
    let t = StudentsT::new(0.0, 1.0, degrees_of_freedom);
    t.map_or(f64::INFINITY, |t| t.inverse_cdf(0.5 + confidence / 2.0))
}

/// Schedule of looks at a sequential measurement, and the confidence of the interval of each look
/// with which all looks together err in at most 5 % of all cases.
///
/// The first look is at `first` runs, each further one at twice as many, the last one at `at_most`.
/// Look k may err in 5 % / 2^k of all cases and the last in the rest, so that their sum is 5 %: the
/// Bonferroni bound with unequal shares, which holds for any dependence of the looks. A single look
/// has all of the 5 %: the usual interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Looks {
    first: u32,
    at_most: u32,
}

/// A look at a sequential measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Look {
    /// Number of runs.
    pub runs: u32,
    /// Confidence of the interval.
    pub confidence: f64,
    /// True for the last one.
    pub last: bool,
}

impl Look {
    /// The same look at one of several alternatives. Each has its part of the error, so that all
    /// together err no more often than a single one.
    pub fn of_one_among(self, count: usize) -> Self {
        let error = (1.0 - self.confidence) / count.max(1) as f64;
        Look { confidence: 1.0 - error, ..self }
    }

    /// The same look where all looks together may err in this share of all cases instead of 5 %.
    pub fn of_error(self, error: f64) -> Self {
        let share = (1.0 - self.confidence) / (1.0 - CONFIDENCE);
        Look { confidence: 1.0 - error * share, ..self }
    }
}

impl Looks {
    /// Looks from `first` runs on until `at_most`, which is raised to `first` if it is less.
    pub fn new(first: u32, at_most: u32) -> Self {
        let first = first.max(1);
        Looks { first, at_most: at_most.max(first) }
    }

    /// The same; `at_most` must not be less than `first`.
    pub(crate) const fn between(first: u32, at_most: u32) -> Self {
        Looks { first, at_most }
    }

    /// Number of runs of the first look.
    pub fn first(&self) -> u32 {
        self.first
    }

    /// The look number `index`, from zero; the last one if there are fewer.
    pub fn look(&self, index: u32) -> Look {
        let mut runs = self.first;
        let mut share = 1.0;
        for _ in 0..index {
            if runs >= self.at_most {
                break;
            }
            runs = runs.saturating_mul(2).min(self.at_most);
            share /= 2.0;
        }
        let last = runs == self.at_most;
        // The last look has the share of the one before it: 1/2 + 1/4 + ... + 1/2^k + 1/2^k = 1.
        let share = if last { share } else { share / 2.0 };
        Look { runs, confidence: 1.0 - (1.0 - CONFIDENCE) * share, last }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_by_hand() {
        // 1..5: mean 3, variance (4 + 1 + 0 + 1 + 4) / 4 = 2.5, standard error
        // sqrt(2.5 / 5) = 0.70711; t(0.975, 4) = 2.77645 by the tables: half 1.96324.
        let e = estimate(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!(e.mean, 3.0);
        assert!((e.low - 1.03676).abs() < 1e-4, "{e:?}");
        assert!((e.high - 4.96324).abs() < 1e-4, "{e:?}");
        // Two samples: t(0.975, 1) = 12.7062, standard error 1: 0..2 gives 1 -+ 12.7062.
        let e = estimate(&[0.0, 2.0]).unwrap();
        assert!((e.high - 13.7062).abs() < 1e-3, "{e:?}");
        assert_eq!(e.shown(1.0, 2), "1.00 \u{b1} 12.71");
        assert_eq!(estimate(&[7e6]).unwrap().shown(1e-6, 1), "7.0*");
    }

    #[test]
    fn all_looks_together_err_in_one_case_of_twenty() {
        for (first, at_most, runs) in
            [(5, 20, &[5, 10, 20][..]), (4, 30, &[4, 8, 16, 30]), (10, 10, &[10]), (8, 3, &[8])]
        {
            let looks = Looks::new(first, at_most);
            let seen: Vec<Look> = (0..runs.len() as u32).map(|i| looks.look(i)).collect();
            assert_eq!(seen.iter().map(|l| l.runs).collect::<Vec<_>>(), runs);
            let errors: f64 = seen.iter().map(|l| 1.0 - l.confidence).sum();
            assert!((errors - 0.05).abs() < 1e-12, "{errors}");
            assert!(seen.iter().rev().skip(1).all(|l| !l.last) && seen[runs.len() - 1].last);
            assert_eq!(looks.look(99), seen[runs.len() - 1]);
        }
    }

    #[test]
    fn several_things_share_the_error_of_a_look() {
        let look = Looks::new(5, 20).look(0);
        // 2.5 % for the first of three looks, a fifth of it for each.
        let each = look.of_one_among(5);
        assert!((each.confidence - 0.995).abs() < 1e-12, "{each:?}");
        assert_eq!((each.runs, each.last), (look.runs, look.last));
        assert!((look.of_one_among(1).confidence - look.confidence).abs() < 1e-15);
    }

    #[test]
    fn looks_of_another_error_have_their_share_of_it() {
        // Half and a quarter of 1 %.
        let looks = Looks::new(8, 32);
        for (index, expected) in [(0, 0.995), (1, 0.9975), (2, 0.9975)] {
            let look = looks.look(index).of_error(0.01);
            assert!((look.confidence - expected).abs() < 1e-12, "{look:?}");
        }
    }

    #[test]
    fn an_interval_of_another_confidence() {
        // As below with t(0.995, 4) = 4.60409 by the tables: half 4.60409 * 0.70711 = 3.25558.
        let e = estimate_with(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.99).unwrap();
        assert!((e.high - 6.25558).abs() < 1e-4, "{e:?}");
    }

    #[test]
    fn equal_samples_have_no_spread_and_one_sample_no_interval() {
        let e = estimate(&[0.5; 4]).unwrap();
        assert_eq!((e.mean, e.low, e.high), (0.5, 0.5, 0.5));
        let e = estimate(&[7.0]).unwrap();
        assert_eq!(e.mean, 7.0);
        assert_eq!((e.low, e.high), (f64::NEG_INFINITY, f64::INFINITY));
        assert_eq!(estimate(&[]), None);
        assert_eq!(estimate(&[1.0, f64::NAN]), None);
    }
}
