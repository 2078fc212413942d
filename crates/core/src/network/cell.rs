//! The rate of a user in a cell of a mobile network, drawn at random: fading, and other users who
//! come and go.
//!
//! The signal-to-noise ratio (interference included) is a mean, times lognormal shadowing with an
//! exponential autocorrelation (Gudmundson 1991), times Rayleigh fading with the Doppler spectrum
//! of Clarke and Jakes, as a sum of sinusoids (Zheng and Xiao 2003). The spectral efficiency is
//! Shannon's times a factor, up to a largest one, and zero below -10 dB (3GPP TR 36.942 section
//! A.2). Other users arrive as a Poisson process, and each stays for the same time. All users have
//! equal shares of the cell while they are there: the shares of a proportional fair scheduler for
//! users with data at all times and fading alike (Holtzman 2001).
//!
//! It omits what a simulator of 3GPP has beyond that: the scheduler's choice of users at their
//! peaks (multi-user diversity) and the time between two grants, HARQ, interference that changes
//! with the load, handover, and power control. Delays of scheduling and HARQ are the jitter and the
//! retransmission of a link.

use std::f64::consts::{PI, TAU};
use std::hash::{Hash, Hasher};

use super::impairment::Steps;
use crate::rng::Stream;
use crate::units::{Duration, Rate};

/// The parameters of a user in a cell.
#[derive(Debug, Clone, PartialEq)]
pub struct CellConfig {
    /// Bandwidth of the cell, Hz; above 0, up to [`CellConfig::MOST_BANDWIDTH`].
    pub bandwidth: f64,
    /// Mean signal-to-noise ratio, dB; -50 to 100.
    pub snr: f64,
    /// Maximum Doppler shift, Hz: the speed times the carrier frequency over the speed of light;
    /// above 0, up to [`CellConfig::MOST_DOPPLER`]. 5.6 is 3 km/h at 2 GHz.
    pub doppler: f64,
    /// Branches of fading whose power is averaged, 1 to [`CellConfig::MOST_BRANCHES`]: antennas,
    /// or parts of the band.
    pub branches: u32,
    /// Standard deviation of the shadowing, dB; 0 to 30.
    pub shadowing: f64,
    /// Time in which the autocorrelation of the shadowing falls to 1/e: the correlation distance
    /// over the speed; [`CellConfig::SHORTEST`] to [`CellConfig::LONGEST`].
    pub shadowing_time: Duration,
    /// Factor of Shannon's efficiency, above 0, up to 1: 0.6 downlink, 0.4 uplink (3GPP TR 36.942
    /// table A.2).
    pub efficiency: f64,
    /// Largest efficiency, bit/s/Hz, above 0, up to 100: 4.4 downlink, 2.0 uplink (table A.2).
    pub most: f64,
    /// Mean number of other users, 0 to [`CellConfig::MOST_USERS`].
    pub users: f64,
    /// Time for which a user stays; [`CellConfig::SHORTEST`] to [`CellConfig::LONGEST`].
    pub stay: Duration,
}

impl Default for CellConfig {
    fn default() -> Self {
        CellConfig {
            bandwidth: 10e6,
            snr: 10.0,
            doppler: 5.6,
            branches: 2,
            shadowing: 0.0,
            shadowing_time: Duration::from_secs(60),
            efficiency: 0.6,
            most: 4.4,
            users: 0.0,
            stay: Duration::from_secs(30),
        }
    }
}

/// Ratio below which nothing can be sent: -10 dB (3GPP TR 36.942 table A.2).
const LEAST_SNR: f64 = 0.1;
/// Sinusoids of a branch; 8 suffice (Zheng and Xiao 2003, section IV).
const SINUSOIDS: usize = 8;
/// Steps of the rate in a period of the maximum Doppler shift.
const STEPS_PER_PERIOD: f64 = 16.0;

/// Longest step, for the users.
const LONGEST_STEP: Duration = Duration::from_millis(100);

/// A validated configuration has no NaN.
impl Eq for CellConfig {}

impl Hash for CellConfig {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.numbers().map(f64::to_bits).hash(state);
        (self.branches, self.shadowing_time, self.stay).hash(state);
    }
}

impl CellConfig {
    /// Largest bandwidth, Hz.
    pub const MOST_BANDWIDTH: f64 = 1e10;
    /// Largest Doppler shift, Hz.
    pub const MOST_DOPPLER: f64 = 60.0;
    /// Largest number of branches.
    pub const MOST_BRANCHES: u32 = 64;
    /// Largest mean number of other users.
    pub const MOST_USERS: f64 = 1000.0;
    /// Shortest of the times, which bounds the number of arrivals.
    pub const SHORTEST: Duration = Duration::from_millis(100);
    /// Longest of the times.
    pub const LONGEST: Duration = Duration::from_secs(86_400);
    /// Time after which the rates repeat.
    pub const REPEAT: Duration = Duration::from_secs(200);

    fn numbers(&self) -> [f64; 7] {
        let CellConfig { bandwidth, snr, doppler, shadowing, efficiency, most, users, .. } = *self;
        [bandwidth, snr, doppler, shadowing, efficiency, most, users]
    }

    /// Checks the ranges of the values.
    ///
    /// # Errors
    /// The first value out of range, as a sentence without a capital or a full stop.
    pub fn validate(&self) -> Result<(), String> {
        let [bandwidth, snr, doppler, shadowing, efficiency, most, users] = self.numbers();
        let positive = [
            ("bandwidth", bandwidth, Self::MOST_BANDWIDTH),
            ("Doppler shift", doppler, Self::MOST_DOPPLER),
            ("efficiency", efficiency, 1.0),
            ("largest efficiency", most, 100.0),
        ];
        for (name, value, most) in positive {
            if !(value > 0.0 && value <= most) {
                return Err(format!("its {name} must be above 0, up to {most}, not {value}"));
            }
        }
        let ranges = [
            ("signal-to-noise ratio", snr, -50.0, 100.0),
            ("shadowing", shadowing, 0.0, 30.0),
            ("number of users", users, 0.0, Self::MOST_USERS),
            ("number of branches", self.branches.into(), 1.0, Self::MOST_BRANCHES.into()),
        ];
        for (name, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                return Err(format!("its {name} must be {least} to {most}, not {value}"));
            }
        }
        for (name, time) in [("shadowing time", self.shadowing_time), ("stay", self.stay)] {
            if !(Self::SHORTEST..=Self::LONGEST).contains(&time) {
                let range = format!("{} to {}", Self::SHORTEST, Self::LONGEST);
                return Err(format!("its {name} must be {range}, not {time}"));
            }
        }
        Ok(())
    }

    /// Time for which a rate holds.
    pub fn step(&self) -> Duration {
        Duration::from_secs_f64(1.0 / (STEPS_PER_PERIOD * self.doppler)).min(LONGEST_STEP)
    }

    /// Rate of the whole cell at a signal-to-noise ratio, bits per second.
    fn rate_at(&self, snr: f64) -> f64 {
        if snr < LEAST_SNR {
            return 0.0;
        }
        self.bandwidth * (self.efficiency * libm::log2(1.0 + snr)).min(self.most)
    }

    /// The long-term mean of the rate of the user.
    pub fn mean(&self) -> Rate {
        // Numerical integrals over the power of the fading, whose density is that of a gamma
        // distribution of mean 1, and over the shadowing.
        let branches = f64::from(self.branches);
        let power = |step: i32| f64::from(step) * 0.01 + 0.005;
        let density = |g: f64| libm::exp((branches - 1.0) * libm::log(g) - branches * (g - 1.0));
        let mut sums = (0.0, 0.0);
        for shadow in -16..=16 {
            let z = f64::from(shadow) / 4.0;
            let (weight, gain) = (libm::exp(-z * z / 2.0), self.gain(z * self.shadowing));
            for g in (0..1000).map(power) {
                let weight = weight * density(g);
                sums.0 += weight * self.rate_at(gain * g);
                sums.1 += weight;
            }
        }
        // The mean of 1 / (1 + n) over a Poisson number n.
        let share = match self.users {
            0.0 => 1.0,
            users => -libm::expm1(-users) / users,
        };
        rate(sums.0 / sums.1 * share)
    }

    /// The mean ratio with shadowing in dB.
    fn gain(&self, shadowing: f64) -> f64 {
        libm::pow(10.0, (self.snr + shadowing) / 10.0)
    }

    /// Rates drawn from a stream, which repeat after [`CellConfig::REPEAT`].
    pub(super) fn draw(&self, stream: &mut Stream) -> Steps<Rate> {
        let step = self.step();
        let branches: Vec<_> = (0..self.branches).map(|_| Fading::new(stream)).collect();
        let mut others = self.others(stream);
        let keeps = libm::exp(-step.as_secs_f64() / self.shadowing_time.as_secs_f64());
        let renews = libm::sqrt(1.0 - keeps * keeps);
        let mut shadow = stream.gaussian();
        let mut steps = Vec::new();
        let mut at = Duration::ZERO;
        while at < Self::REPEAT {
            let phase = TAU * self.doppler * at.as_secs_f64();
            let power: f64 = branches.iter().map(|branch| branch.power(phase)).sum();
            let snr = self.gain(shadow * self.shadowing) * power / f64::from(self.branches);
            let users = 1.0 + others.at(at.as_secs_f64()) as f64;
            steps.push((at, rate(self.rate_at(snr) / users)));
            shadow = keeps * shadow + renews * stream.gaussian();
            at += step;
        }
        let first = steps[0].1;
        Steps::new(steps, Some(Self::REPEAT)).unwrap_or_else(|_| Steps::constant(first))
    }

    /// The other users over time.
    fn others(&self, stream: &mut Stream) -> Others {
        let stay = self.stay.as_secs_f64();
        let mut arrivals = Vec::new();
        if self.users > 0.0 {
            // From one stay before the start on, so that their number is stationary.
            let mut at = -stay;
            while at < Self::REPEAT.as_secs_f64() {
                arrivals.push(at);
                at += -libm::log(1.0 - stream.uniform()) * stay / self.users;
            }
            // The first instant is no arrival.
            arrivals.remove(0);
        }
        Others { arrivals, stay, arrived: 0, left: 0 }
    }
}

/// A rate of at least 1 bit/s.
fn rate(bps: f64) -> Rate {
    const LEAST: Rate = match Rate::from_bps(1) {
        Some(rate) => rate,
        None => panic!("a rate is not zero"),
    };
    Rate::from_bps(bps as u64).unwrap_or(LEAST)
}

/// A branch of Rayleigh fading (Zheng and Xiao 2003, equation 7). Each sinusoid has a phase of its
/// own, unlike there: with one phase for all, the power at the start is not exponential.
#[derive(Debug)]
struct Fading {
    sinusoids: [Sinusoid; SINUSOIDS],
}

#[derive(Debug, Clone, Copy, Default)]
struct Sinusoid {
    /// Cosine of the angle of arrival.
    speed: f64,
    phase: f64,
    /// Amplitudes of both parts.
    in_phase: f64,
    quadrature: f64,
}

impl Fading {
    fn new(stream: &mut Stream) -> Self {
        let mut angle = || (2.0 * stream.uniform() - 1.0) * PI;
        let theta = angle();
        let mut sinusoids = [Sinusoid::default(); SINUSOIDS];
        for (n, sinusoid) in (1..).zip(&mut sinusoids) {
            let (phase, psi) = (angle(), angle());
            let alpha = (TAU * f64::from(n) - PI + theta) / (4.0 * SINUSOIDS as f64);
            let (in_phase, quadrature) = (libm::cos(psi), libm::sin(psi));
            *sinusoid = Sinusoid { speed: libm::cos(alpha), phase, in_phase, quadrature };
        }
        Fading { sinusoids }
    }

    /// Power at a phase of the maximum Doppler shift; its mean is 1.
    fn power(&self, phase: f64) -> f64 {
        let (mut real, mut imaginary) = (0.0, 0.0);
        for sinusoid in self.sinusoids {
            let wave = libm::cos(phase * sinusoid.speed + sinusoid.phase);
            real += sinusoid.in_phase * wave;
            imaginary += sinusoid.quadrature * wave;
        }
        // The parts of a sinusoid have a mean square of 1/4.
        2.0 * (real * real + imaginary * imaginary) / SINUSOIDS as f64
    }
}

/// The number of other users.
#[derive(Debug)]
struct Others {
    /// Instants of their arrivals, seconds, in order.
    arrivals: Vec<f64>,
    stay: f64,
    arrived: usize,
    left: usize,
}

impl Others {
    /// Their number at an instant, not before that of the call before.
    fn at(&mut self, time: f64) -> usize {
        let Others { arrivals, stay, arrived, left } = self;
        while arrivals.get(*arrived).is_some_and(|at| *at <= time) {
            *arrived += 1;
        }
        while arrivals.get(*left).is_some_and(|at| *at + *stay <= time) {
            *left += 1;
        }
        *arrived - *left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(config: &CellConfig, seed: u64) -> Vec<f64> {
        let steps = config.draw(&mut Stream::new(seed, "cell", "test"));
        steps.entries().map(|(_, rate)| rate.as_bps() as f64).collect()
    }

    fn mean(of: impl IntoIterator<Item = f64>) -> f64 {
        let of: Vec<f64> = of.into_iter().collect();
        of.iter().sum::<f64>() / of.len() as f64
    }

    #[test]
    fn the_mean_is_that_of_long_runs() {
        for config in [
            CellConfig::default(),
            CellConfig { branches: 1, snr: 0.0, ..CellConfig::default() },
            CellConfig { users: 4.0, doppler: 20.0, ..CellConfig::default() },
            CellConfig {
                shadowing: 8.0,
                shadowing_time: Duration::from_secs(2),
                ..CellConfig::default()
            },
        ] {
            let measured = mean((0..20).map(|seed| mean(rates(&config, seed))));
            let expected = config.mean().as_bps() as f64;
            assert!((measured / expected - 1.0).abs() < 0.06, "{config:?}: {measured} {expected}");
        }
    }

    #[test]
    fn ergodic_capacity_by_hand() {
        // One branch, 10 dB, no limit: E[log2(1 + 10 g)] over an exponential g is e^0.1 E1(0.1) /
        // ln 2, with E1(0.1) = 1.8229 (Abramowitz and Stegun, table 5.1): 2.9065 bit/s/Hz. Below
        // -10 dB, thus g < 0.01, the loss is less than 0.001.
        let config = CellConfig {
            branches: 1,
            efficiency: 1.0,
            most: 100.0,
            bandwidth: 1e6,
            ..CellConfig::default()
        };
        let mean = config.mean().as_bps() as f64;
        assert!((mean / 2.9065e6 - 1.0).abs() < 0.005, "{mean}");
        // Three others on average: E[1 / (1 + n)] = (1 - e^-3) / 3.
        let shared = CellConfig { users: 3.0, ..config }.mean().as_bps() as f64;
        assert!((shared / mean - 0.316_738).abs() < 1e-5);
    }

    #[test]
    fn fading_has_its_mean_and_its_correlation() {
        // Mean power 1. The power is exponential: below 0.1 for 1 - e^-0.1 = 9.5 % of the time.
        // Its correlation after tau is J0(2 pi f tau)^2: at 2 pi f tau = 2.405 it is zero.
        let mut stream = Stream::new(5, "test", "fading");
        let (mut powers, mut products) = (Vec::new(), Vec::new());
        for _ in 0..4000 {
            let fading = Fading::new(&mut stream);
            let (now, then) = (fading.power(0.0), fading.power(2.405));
            powers.push(now);
            products.push((now - 1.0) * (then - 1.0));
        }
        assert!((mean(powers.iter().copied()) - 1.0).abs() < 0.08);
        let deep = powers.iter().filter(|power| **power < 0.1).count() as f64 / 4000.0;
        assert!((deep - 0.095).abs() < 0.025, "{deep}");
        assert!(mean(products).abs() < 0.12);
    }

    #[test]
    fn users_come_and_go() {
        let config = CellConfig { users: 5.0, ..CellConfig::default() };
        let counts = (0..200).flat_map(|seed| {
            let mut others = config.others(&mut Stream::new(seed, "test", "users"));
            [0.0, 50.0, 199.0].map(|at| others.at(at) as f64)
        });
        let counts: Vec<f64> = counts.collect();
        // Mean and variance of a Poisson number are 5; standard error sqrt(5 / 600) = 0.09.
        let average = mean(counts.iter().copied());
        let variance = mean(counts.iter().map(|n| (n - average) * (n - average)));
        assert!(
            (average - 5.0).abs() < 0.45 && (variance - 5.0).abs() < 1.5,
            "{average} {variance}"
        );
        let mut others = Others { arrivals: vec![1.0, 2.0], stay: 3.0, arrived: 0, left: 0 };
        assert_eq!([0.0, 1.0, 2.5, 4.0, 9.0].map(|at| others.at(at)), [0, 1, 2, 1, 0]);
    }

    #[test]
    fn draws_depend_on_the_stream_only() {
        let config = CellConfig { users: 2.0, shadowing: 8.0, ..CellConfig::default() };
        assert_eq!(rates(&config, 1), rates(&config, 1));
        assert_ne!(rates(&config, 1), rates(&config, 2));
        assert!(rates(&config, 1).iter().all(|rate| *rate >= 1.0 && *rate <= 44e6));
    }
}
