//! Means, ratios of means, their confidence intervals, and repeated looks at them.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Default confidence of an interval: 95 %.
pub const CONFIDENCE: f64 = 0.95;

/// A mean, or a function of means, with its confidence interval. An end of the interval may be
/// infinite: a divisor that may be zero bounds no ratio.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Mean of the samples, or the value of the function at the means.
    pub mean: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Estimate {
    /// True for a single observation, without an interval.
    pub fn is_single(&self) -> bool {
        self.low.is_infinite() && self.high.is_infinite()
    }

    /// `0.951 ± 0.012` of the estimate times `factor`; `1.87 [1.36, 2.69]` if its interval is not
    /// symmetric; `0.951*` of a single observation, which has no interval.
    pub fn shown(&self, factor: f64, digits: usize) -> String {
        let [mean, low, high] = [self.mean, self.low, self.high].map(|x| x * factor);
        if self.is_single() {
            return format!("{mean:.digits$}*");
        }
        let half = (mean - low).max(high - mean);
        match (high - mean).min(mean - low) >= 0.9 * half {
            true => format!("{mean:.digits$} \u{b1} {half:.digits$}"),
            false => {
                let end = |x| end(x, |x| format!("{x:.digits$}"));
                format!("{mean:.digits$} [{}, {}]", end(low), end(high))
            }
        }
    }

    /// The same interval moved by a constant.
    pub(crate) fn shifted(self, by: f64) -> Self {
        Estimate { mean: self.mean + by, low: self.low + by, high: self.high + by }
    }

    /// The estimate of the negative.
    pub(crate) fn negated(self) -> Self {
        Estimate { mean: -self.mean, low: -self.high, high: -self.low }
    }

    /// The estimate of the absolute value: the image of the interval.
    pub(crate) fn absolute(self) -> Self {
        let around_zero = self.low <= 0.0 && self.high >= 0.0;
        let (a, b) = (self.low.abs(), self.high.abs());
        let low = if around_zero { 0.0 } else { a.min(b) };
        Estimate { mean: self.mean.abs(), low, high: a.max(b) }
    }

    /// The interval without impossible values. The mean is possible but for its rounding.
    pub(crate) fn within(self, (least, most): (f64, f64)) -> Self {
        let Estimate { mean, low, high } = self;
        Estimate { mean, low: low.max(least.min(mean)), high: high.min(most.max(mean)) }
    }
}

/// An end of an interval in words: `∞` if it is infinite.
pub fn end(x: f64, finite: impl Fn(f64) -> String) -> String {
    match x {
        f64::INFINITY => "\u{221e}".to_owned(),
        f64::NEG_INFINITY => "-\u{221e}".to_owned(),
        x => finite(x),
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

/// Ratio of the means of paired samples, and its interval by Fieller's theorem (1954): all ratios ρ
/// for which a t test of the mean of `dividend - ρ * divisor` does not reject zero. `possible` has
/// the least and the largest possible ratio.
///
/// The mean of the quotients of single pairs has no expectation if the divisor may come near zero;
/// the ratio of means does not suffer from one small divisor. If the mean of the divisors is not
/// significantly different from zero, the ratios form two rays, or everything: then the interval is
/// the ray within the possible ratios, or all that are possible. `None` without samples, if one is
/// not finite, or if the mean of the divisors is zero.
pub fn ratio_of_means(
    pairs: &[(f64, f64)],
    confidence: f64,
    possible: (f64, f64),
) -> Option<Estimate> {
    let n = pairs.len() as f64;
    let dividend = pairs.iter().map(|(y, _)| y).sum::<f64>() / n;
    let divisor = pairs.iter().map(|(_, x)| x).sum::<f64>() / n;
    let mean = dividend / divisor;
    if !mean.is_finite() {
        return None;
    }
    let everything = Estimate { mean, low: f64::NEG_INFINITY, high: f64::INFINITY };
    if pairs.len() == 1 {
        return Some(everything);
    }
    // Variances and covariance of the means of the divisors x and of the residuals e = y - r x.
    let (mut xx, mut xe, mut ee) = (0.0, 0.0, 0.0);
    for (y, x) in pairs {
        let (x, e) = (x - divisor, y - mean * x);
        (xx, xe, ee) = (xx + x * x, xe + x * e, ee + e * e);
    }
    let scale = t_quantile(n - 1.0, confidence).powi(2) / divisor.powi(2) / (n - 1.0) / n;
    let (xx, xe, ee) = (xx * scale, xe * scale, ee * scale);
    // A distance d from the ratio is in the set if (1 - xx) d^2 + 2 xe d <= ee.
    let (leading, root) = (1.0 - xx, ((1.0 - xx) * ee + xe * xe).sqrt());
    let (a, b) = (mean + (-xe - root) / leading, mean + (-xe + root) / leading);
    let (low, high) = match leading {
        // The roots of a parabola that opens upwards.
        _ if leading > 0.0 => (a, b),
        // Two rays, outside of the roots; a square root of a negative number leaves no root.
        _ if leading < 0.0 && b < possible.0 => (a, f64::INFINITY),
        _ if leading < 0.0 && a > possible.1 => (f64::NEG_INFINITY, b),
        _ => (f64::NEG_INFINITY, f64::INFINITY),
    };
    Some(Estimate { low, high, ..everything }.within(possible))
}

/// A function of the means of `rows` paired samples, and its interval by the jackknife (Tukey 1958)
/// with Student's t. `value` computes it without one row, or of all rows. `possible` has its least
/// and its largest possible value.
///
/// Unlike the bootstrap it draws no random numbers, and its intervals are not too narrow with four
/// to eight rows, where those of bootstrap percentiles are (Efron and Tibshirani 1993, chapters 11
/// and 12). The function should be smooth near the means: near a change of sign of `abs` the
/// interval is approximate.
pub(crate) fn jackknife(
    rows: usize,
    confidence: f64,
    possible: (f64, f64),
    value: impl Fn(Option<usize>) -> f64,
) -> Option<Estimate> {
    let mean = value(None);
    if rows == 0 || !mean.is_finite() {
        return None;
    }
    let everything = Estimate { mean, low: f64::NEG_INFINITY, high: f64::INFINITY };
    if rows == 1 {
        return Some(everything);
    }
    let n = rows as f64;
    let without: Vec<f64> = (0..rows).map(|row| value(Some(row))).collect();
    let center = without.iter().sum::<f64>() / n;
    let squares: f64 = without.iter().map(|x| (x - center) * (x - center)).sum();
    let half = t_quantile(n - 1.0, confidence) * (squares * (n - 1.0) / n).sqrt();
    let interval = Estimate { low: mean - half, high: mean + half, ..everything };
    Some(if half.is_finite() { interval } else { everything }.within(possible))
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

    const POSITIVE: (f64, f64) = (0.0, f64::INFINITY);

    #[track_caller]
    fn assert_near(e: Option<Estimate>, expected: [f64; 3]) {
        let e = e.unwrap();
        for (x, expected) in [e.mean, e.low, e.high].into_iter().zip(expected) {
            assert!((x - expected).abs() < 1e-5 || x == expected, "{e:?} against {expected}");
        }
    }

    #[test]
    fn ratios_of_means_by_hand() {
        let ratio = |pairs: &[(f64, f64)]| ratio_of_means(pairs, CONFIDENCE, POSITIVE);
        // A constant divisor leaves the t interval: s = 1, t(0.975, 2) = 4.302653 by the tables,
        // half 4.302653 / sqrt(3) / 10 = 0.248414.
        let one = [(9.0, 10.0), (10.0, 10.0), (11.0, 10.0)];
        assert_near(ratio(&one), [1.0, 0.751586, 1.248414]);
        // The reciprocal has the reciprocal interval: 1 / 1.248414 and 1 / 0.751586.
        let other = one.map(|(y, x)| (x, y));
        assert_near(ratio(&other), [1.0, 0.801016, 1.330520]);
        // 10 over a mean of 4 with s^2 = (9 + 4 + 25) / 2 = 19: the divisor lies between
        // 4 - 4.302653 * sqrt(19 / 3) = -6.828079 and 14.828079, so that the ratio is at least
        // 10 / 14.828079 or negative, which it cannot be.
        let wide = [(10.0, 1.0), (10.0, 2.0), (10.0, 9.0)];
        assert_near(ratio(&wide), [2.5, 0.674396, f64::INFINITY]);
        // Where it can be, nothing bounds it.
        let everything = (f64::NEG_INFINITY, f64::INFINITY);
        let unbounded = ratio_of_means(&wide, CONFIDENCE, everything);
        assert_near(unbounded, [2.5, f64::NEG_INFINITY, f64::INFINITY]);
        // The negative ratio has the same interval below zero.
        let negative = wide.map(|(y, x)| (-y, x));
        let negative = ratio_of_means(&negative, CONFIDENCE, (f64::NEG_INFINITY, 0.0));
        assert_near(negative, [-2.5, f64::NEG_INFINITY, -0.674396]);
        // Proportional pairs have no spread, unless their divisor may be zero.
        assert_near(ratio(&[(20.0, 10.0), (22.0, 11.0), (24.0, 12.0)]), [2.0; 3]);
        let unbounded = ratio(&[(2.0, 1.0), (4.0, 2.0), (6.0, 3.0)]);
        assert_near(unbounded, [2.0, 0.0, f64::INFINITY]);
        // One pair has no interval.
        assert!(ratio(&[(2.0, 1.0)]).unwrap().is_single());
        assert_eq!(ratio(&[(1.0, 1.0), (1.0, -1.0)]), None);
        assert_eq!(ratio(&[(f64::NAN, 1.0), (1.0, 1.0)]), None);
        assert_eq!(ratio(&[]), None);
    }

    /// SciPy 1.17.1: the ratios at which the p value of `ttest_1samp(y - ratio * x, 0)` is 0.05
    /// (0.01), found by `brentq`.
    #[test]
    fn ratios_of_means_by_another_program() {
        let pairs = [(9.0, 4.0), (11.0, 6.0), (14.0, 7.0), (8.0, 5.0), (13.0, 6.0)];
        let at = |confidence| ratio_of_means(&pairs, confidence, POSITIVE);
        assert_near(at(0.95), [1.9642857, 1.6687674, 2.2654310]);
        assert_near(at(0.99), [1.9642857, 1.4458134, 2.5003309]);
        // The p value of a mean divisor of zero is 0.31.
        let pairs = [(5.0, 0.1), (6.0, 0.2), (7.0, 2.5), (6.0, 0.1)];
        let unbounded = ratio_of_means(&pairs, 0.95, POSITIVE);
        assert_near(unbounded, [8.2758621, 2.6858844, f64::INFINITY]);
    }

    #[test]
    fn a_jackknife_by_hand() {
        // The square of the mean of 1, 2 and 3. Without one of them the means are 2.5, 2 and 1.5,
        // the squares 6.25, 4 and 2.25, around 4.166667: 2/3 of the sum of the squared deviations
        // 4.340278, 0.027778 and 3.673611 is 5.361111, and 4.302653 times its root 9.962394.
        let square = |samples: &[f64], left_out: Option<usize>| {
            let kept = samples.iter().enumerate().filter(|(i, _)| Some(*i) != left_out);
            let kept: Vec<f64> = kept.map(|(_, x)| *x).collect();
            (kept.iter().sum::<f64>() / kept.len() as f64).powi(2)
        };
        let samples = [1.0, 2.0, 3.0];
        let everything = (f64::NEG_INFINITY, f64::INFINITY);
        let e = jackknife(3, CONFIDENCE, everything, |left_out| square(&samples, left_out));
        assert_near(e, [4.0, -5.962394, 13.962394]);
        let e = jackknife(3, CONFIDENCE, POSITIVE, |left_out| square(&samples, left_out));
        assert_near(e, [4.0, 0.0, 13.962394]);
        assert!(jackknife(1, CONFIDENCE, POSITIVE, |_| 7.0).unwrap().is_single());
        assert_eq!(jackknife(0, CONFIDENCE, POSITIVE, |_| f64::NAN), None);
    }

    /// Share of 2000 trials whose interval has the true value, for eight pairs of measurements with
    /// a common part, as the seed of a repetition has.
    fn coverage(interval: impl Fn(&[[f64; 4]]) -> Estimate, truth: f64) -> f64 {
        let mut draw = windward_core::rng::Stream::new(1, "test", "coverage");
        let mut trial = |_: &u32| {
            let row = |_| {
                let common = draw.gaussian();
                let mut around =
                    |mean: f64, spread: f64| mean + spread * (0.6 * common + 0.8 * draw.gaussian());
                [around(6.0, 1.5), around(2.0, 0.5), around(5.0, 1.0), around(4.0, 1.0)]
            };
            let rows: Vec<[f64; 4]> = (0..8).map(row).collect();
            let Estimate { low, high, .. } = interval(&rows);
            low <= truth && truth <= high
        };
        (0..2000).filter(|n| trial(n)).count() as f64 / 2000.0
    }

    #[test]
    fn intervals_have_the_truth_in_nineteen_of_twenty_trials() {
        // The share of 2000 trials has a standard deviation of 0.5 points; three are permitted.
        let fieller = coverage(
            |rows| {
                let pairs: Vec<(f64, f64)> = rows.iter().map(|row| (row[0], row[1])).collect();
                ratio_of_means(&pairs, CONFIDENCE, POSITIVE).unwrap()
            },
            3.0,
        );
        assert!((fieller - 0.95).abs() < 0.015, "{fieller}");
        // The jackknife is approximate: 6 / 2 - 5 / 4 = 1.75.
        let everything = (f64::NEG_INFINITY, f64::INFINITY);
        let jackknife = coverage(
            |rows| {
                let value = |left_out| {
                    let kept = rows.iter().enumerate().filter(|(i, _)| Some(*i) != left_out);
                    let sums = kept
                        .fold([0.0; 4], |sums, (_, row)| std::array::from_fn(|i| sums[i] + row[i]));
                    sums[0] / sums[1] - sums[2] / sums[3]
                };
                jackknife(rows.len(), CONFIDENCE, everything, value).unwrap()
            },
            1.75,
        );
        assert!((jackknife - 0.95).abs() < 0.02, "{jackknife}");
    }

    #[test]
    fn intervals_that_are_not_symmetric_show_both_ends() {
        let of = |low, high| Estimate { mean: 2.0, low, high };
        assert_eq!(of(1.9, 2.106).shown(1.0, 2), "2.00 \u{b1} 0.11");
        assert_eq!(of(1.5, 3.0).shown(1e3, 0), "2000 [1500, 3000]");
        assert_eq!(of(1.5, f64::INFINITY).shown(1.0, 1), "2.0 [1.5, \u{221e}]");
        assert_eq!(of(f64::NEG_INFINITY, f64::INFINITY).shown(1.0, 1), "2.0*");
    }
}
