//! Means and their confidence intervals.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// A mean with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Mean of the samples.
    pub mean: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// Mean and Student-t interval of samples taken as independent and about normal. One sample
/// says nothing about its spread: its interval is everything. `None` without samples, or if
/// one is not finite.
pub fn estimate(samples: &[f64]) -> Option<Estimate> {
    if samples.is_empty() || samples.iter().any(|x| !x.is_finite()) {
        return None;
    }
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    let half = if samples.len() == 1 {
        f64::INFINITY
    } else {
        let squares: f64 = samples.iter().map(|x| (x - mean) * (x - mean)).sum();
        t_quantile(n - 1.0) * (squares / (n - 1.0) / n).sqrt()
    };
    Some(Estimate {
        mean,
        low: mean - half,
        high: mean + half,
    })
}

/// The t of a two-sided 95 % interval.
fn t_quantile(degrees_of_freedom: f64) -> f64 {
    let t = StudentsT::new(0.0, 1.0, degrees_of_freedom);
    t.map_or(f64::INFINITY, |t| t.inverse_cdf(0.975))
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
