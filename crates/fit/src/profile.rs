//! Compared quantities of a log and of runs, and the distance between the two.

use serde::Serialize;

/// Number of quantiles of a distribution.
const QUANTILES: usize = 100;
/// Least total of losses that differences are related to: one loss more than in a log with a single
/// one is not a residual of 1.
const FEW_LOSSES: f64 = 5.0;

/// A sender over time, at the ends of bins of equal length.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Series {
    /// Packets; empty if unknown, as the next two.
    pub(crate) cwnd: Vec<f64>,
    /// Packets.
    pub(crate) in_flight: Vec<f64>,
    /// Milliseconds, of one packet.
    pub(crate) rtt: Vec<f64>,
    /// Milliseconds.
    pub(crate) srtt: Vec<f64>,
    /// Bytes acknowledged so far.
    pub(crate) acked: Vec<f64>,
    /// Packets lost so far.
    pub(crate) lost: Vec<f64>,
}

/// A log, or the mean of some runs, in the form that is compared.
///
/// Windows, bytes in flight and RTTs are distributions: a sawtooth that is shifted in time is the
/// same behaviour. Counts are curves over time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Profile {
    cwnd: Vec<f64>,
    in_flight: Vec<f64>,
    rtt: Vec<f64>,
    srtt: Vec<f64>,
    /// Bytes acknowledged in a bin.
    rate: Vec<f64>,
    acked: Vec<f64>,
    /// Sum of the roots of the packets lost in each bin so far. The numbers themselves would weigh
    /// one overshoot more than all other losses.
    losses: Vec<f64>,
}

impl Profile {
    pub(crate) fn of(series: &Series) -> Self {
        let (mut before, mut sum) = (0.0, 0.0);
        let losses = series.lost.iter().map(|lost| {
            sum += (lost - before).sqrt();
            before = *lost;
            sum
        });
        Profile {
            cwnd: quantiles(&series.cwnd),
            in_flight: quantiles(&series.in_flight),
            rtt: quantiles(&series.rtt),
            srtt: quantiles(&series.srtt),
            rate: quantiles(
                &series.acked.windows(2).map(|acked| acked[1] - acked[0]).collect::<Vec<_>>(),
            ),
            acked: series.acked.clone(),
            losses: losses.collect(),
        }
    }

    /// The mean of some profiles, at least one.
    pub(crate) fn mean(profiles: &[Profile]) -> Self {
        // A run may lack a quantity, such as RTTs if no packet arrived.
        let mean = |of: fn(&Profile) -> &Vec<f64>| {
            let length = profiles.iter().map(|profile| of(profile).len()).max().unwrap_or(0);
            let value = |profile, i| of(profile).get(i).copied().unwrap_or(0.0);
            let sum = |i| profiles.iter().map(|profile| value(profile, i)).sum::<f64>();
            (0..length).map(|i| sum(i) / profiles.len() as f64).collect()
        };
        Profile {
            cwnd: mean(|profile| &profile.cwnd),
            in_flight: mean(|profile| &profile.in_flight),
            rtt: mean(|profile| &profile.rtt),
            srtt: mean(|profile| &profile.srtt),
            rate: mean(|profile| &profile.rate),
            acked: mean(|profile| &profile.acked),
            losses: mean(|profile| &profile.losses),
        }
    }

    /// How far a model is from this log.
    pub(crate) fn residual(&self, model: &Profile) -> Residual {
        let last = |curve: &[f64]| curve.last().copied().unwrap_or(0.0);
        let average = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let distribution = |a: &[f64], b: &[f64]| apart(a, b, average(a));
        let mut residual = Residual {
            cwnd: distribution(&self.cwnd, &model.cwnd),
            bytes_in_flight: distribution(&self.in_flight, &model.in_flight),
            rtt: distribution(&self.rtt, &model.rtt),
            smoothed_rtt: distribution(&self.srtt, &model.srtt),
            rate: distribution(&self.rate, &model.rate),
            acked: apart(&self.acked, &model.acked, last(&self.acked)),
            losses: apart(&self.losses, &model.losses, last(&self.losses).max(FEW_LOSSES)),
            total: 0.0,
        };
        residual.total = root_mean_square(residual.parts().iter().filter_map(|(_, part)| *part));
        residual
    }
}

/// The root of the mean of the squares; zero of no values.
fn root_mean_square(values: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0);
    for value in values {
        sum += value * value;
        count += 1;
    }
    (sum / f64::from(count.max(1))).sqrt()
}

/// The root of the mean square of the differences, as a share of `scale`; `None` if one of the two
/// lacks the quantity.
fn apart(log: &[f64], model: &[f64], scale: f64) -> Option<f64> {
    if log.is_empty() || model.is_empty() || scale <= 0.0 {
        return None;
    }
    Some(root_mean_square(log.iter().zip(model).map(|(log, model)| log - model)) / scale)
}

/// Quantiles at the middles of equal shares; none of no values.
fn quantiles(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return Vec::new() };
    let at = |i: usize| {
        let place = (i as f64 + 0.5) / QUANTILES as f64 * sorted.len() as f64 - 0.5;
        let place = place.clamp(0.0, last as f64);
        let (low, part) = (place.floor() as usize, place.fract());
        sorted[low] + part * (sorted[(low + 1).min(last)] - sorted[low])
    };
    (0..QUANTILES).map(at).collect()
}

/// Units of the parts of a residual in a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Weights([f64; PARTS]);

/// Number of parts of a residual.
const PARTS: usize = 7;
/// Difference that does not matter, as a part of a residual.
const RESOLUTION: f64 = 0.01;

impl Weights {
    /// All parts alike.
    pub(crate) const EQUAL: Weights = Weights([RESOLUTION; PARTS]);

    /// Weights by the residuals of runs that differ by their random numbers alone: what varies by
    /// chance tells little.
    pub(crate) fn by_chance(residuals: &[Residual]) -> Self {
        let mut squares = [RESOLUTION * RESOLUTION; PARTS];
        for residual in residuals {
            for (square, (_, part)) in squares.iter_mut().zip(residual.parts()) {
                let part = part.unwrap_or(0.0);
                *square += part * part / residuals.len() as f64;
            }
        }
        Weights(squares.map(f64::sqrt))
    }

    /// The residual in units of chance: about one for a log of the model itself.
    pub(crate) fn of(&self, residual: &Residual) -> f64 {
        let parts = residual.parts();
        let scaled = parts.iter().zip(self.0);
        root_mean_square(scaled.filter_map(|((_, part), weight)| Some((*part)? / weight)))
    }
}

/// Distance of the model from a log. Each part is a root mean square of differences as a share of
/// the log's own mean or total: 0.1 is a tenth. `None` for what the log lacks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Residual {
    /// Root mean square of the parts.
    pub total: f64,
    /// Differences of the quantiles of the window, of its mean.
    pub cwnd: Option<f64>,
    /// The same of bytes in flight.
    pub bytes_in_flight: Option<f64>,
    /// The same of the RTTs of packets.
    pub rtt: Option<f64>,
    /// The same of the smoothed RTT.
    pub smoothed_rtt: Option<f64>,
    /// The same of the bytes acknowledged in a round trip.
    pub rate: Option<f64>,
    /// Differences of the bytes acknowledged so far, over time, of their total.
    pub acked: Option<f64>,
    /// The same of the losses so far: the sum over round trips of the root of the packets lost in
    /// each; of five if the log has fewer.
    pub losses: Option<f64>,
}

impl Residual {
    /// The parts with their names.
    pub fn parts(&self) -> [(&'static str, Option<f64>); PARTS] {
        [
            ("cwnd", self.cwnd),
            ("bytes in flight", self.bytes_in_flight),
            ("RTT", self.rtt),
            ("smoothed RTT", self.smoothed_rtt),
            ("rate", self.rate),
            ("acknowledged", self.acked),
            ("losses", self.losses),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(cwnd: &[f64], acked: &[f64], lost: &[f64]) -> Series {
        Series {
            cwnd: cwnd.to_vec(),
            acked: acked.to_vec(),
            lost: lost.to_vec(),
            ..Series::default()
        }
    }

    #[test]
    fn a_shifted_sawtooth_is_the_same_and_a_scaled_one_is_not() {
        let teeth: Vec<f64> = (0..400).map(|i| f64::from(50 + i % 50)).collect();
        let shifted: Vec<f64> = (0..400).map(|i| f64::from(50 + (i + 20) % 50)).collect();
        let scaled: Vec<f64> = teeth.iter().map(|packets| 1.2 * packets).collect();
        let acked: Vec<f64> = (1..=400).map(f64::from).collect();
        let [a, b, c] = [&teeth, &shifted, &scaled]
            .map(|cwnd| Profile::of(&series(cwnd, &acked, &vec![0.0; 400])));
        assert_eq!(a.residual(&b).total, 0.0);
        // Every quantile is a fifth larger: 0.2 times the root mean square over the mean, which for
        // 50 to 99 is sqrt(74.5^2 + (50^2 - 1) / 12) / 74.5 = 1.0186.
        let cwnd = a.residual(&c).cwnd.unwrap();
        assert!((cwnd - 0.2 * 1.0186).abs() < 1e-3, "{cwnd}");
    }

    #[test]
    fn counts_are_compared_over_time_and_few_losses_as_five() {
        // Half of the rate: differences of 0.5 (i + 1) / 100 of the total have a root mean square
        // of 0.5 sqrt((101 * 201) / (6 * 100^2)) = 0.2909.
        let acked: Vec<f64> = (1..=100).map(f64::from).collect();
        let half: Vec<f64> = acked.iter().map(|bytes| bytes / 2.0).collect();
        let none = vec![0.0; 100];
        // Four losses at once count as two, and one more as three.
        let mut lost = vec![0.0; 100];
        lost[50] = 4.0;
        lost[51..].fill(5.0);
        let log = Profile::of(&series(&[], &acked, &none));
        let model = Profile::of(&series(&[], &half, &lost));
        let residual = log.residual(&model);
        assert!((residual.acked.unwrap() - 0.2909).abs() < 1e-4, "{residual:?}");
        // One bin with 2 and 49 with 3, of five: sqrt((4 + 49 * 9) / 100) / 5.
        assert!((residual.losses.unwrap() - 4.45_f64.sqrt() / 5.0).abs() < 1e-9, "{residual:?}");
        assert_eq!((residual.cwnd, residual.smoothed_rtt), (None, None));
        // The total is over the parts that there are.
        let parts: Vec<f64> = residual.parts().iter().filter_map(|(_, part)| *part).collect();
        let mean = parts.iter().map(|part| part * part).sum::<f64>() / 3.0;
        assert!(parts.len() == 3 && (residual.total - mean.sqrt()).abs() < 1e-12);
    }
}
