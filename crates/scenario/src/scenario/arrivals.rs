//! Short transfers that arrive at random: a Poisson process of connections with sizes from a
//! distribution, as RFC 9743 section 5.1.5 asks for (short flows) and draft-irtf-iccrg-tcpeval-01
//! section 2 specifies them.
//!
//! Each flow of such a group is a pair of hosts with a process of its own; each of its transfers
//! is a separate connection. The processes of n pairs together are one process of n times
//! the rate, so a group is one process whose transfers choose a pair at random.

use std::sync::Arc;

use windward_core::rng::Stream;
use windward_core::units::{Duration, Time};

use super::{FlowConfig, FlowKind, Traffic};
use crate::name::NamesInMaking;

/// Maximum expected number of transfers of a scenario.
pub const MAX_TRANSFERS: f64 = 200_000.0;

/// The process by which transfers between one pair of hosts begin, and their sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrivals {
    /// Mean number of transfers per second; more than 0. The times between them are exponential.
    pub rate: f64,
    /// Start of the process.
    pub from: Time,
    /// End of the process: no transfer begins at or after this instant.
    pub until: Time,
    /// Sizes of the transfers.
    pub sizes: Sizes,
}

/// Sizes of transfers in bytes. A transfer is rounded up to whole packets, at least one. For a
/// stack they are bytes of the application.
#[derive(Debug, Clone, PartialEq)]
pub enum Sizes {
    /// One size for all.
    Fixed(u64),
    /// Sizes with equal probability.
    List(Arc<[u64]>),
    /// Exponential.
    Exponential {
        /// The mean, bytes.
        mean: f64,
    },
    /// Lognormal: heavier than exponential where sigma is above 1.
    Lognormal {
        /// The mean, bytes.
        mean: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// Pareto, bounded above unless `most` is infinite: the heavy tail of files on the web
    /// (Crovella and Bestavros 1997 find a shape of 1.0 to 1.3).
    Pareto {
        /// Exponent of the tail: P(X > x) falls as x^-shape.
        shape: f64,
        /// Minimum size, bytes.
        least: f64,
        /// Maximum size, bytes.
        most: f64,
    },
    /// Empirical distribution, as data-centre studies publish it: sizes in bytes with the share
    /// of transfers up to this size, linear between them.
    Empirical(Arc<[(f64, f64)]>),
}

/// A transfer that was drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Start of the transfer.
    pub start: Time,
    /// Size, bytes.
    pub bytes: u64,
}

impl Arrivals {
    /// Checks the parameters.
    ///
    /// # Errors
    /// The first invalid parameter, as a sentence without a capital or a full stop.
    pub fn validate(&self) -> Result<(), String> {
        if !(self.rate.is_finite() && self.rate > 0.0) {
            return Err(format!(
                "the rate of arrivals must be finite and greater than 0, not {}",
                self.rate
            ));
        }
        if self.until <= self.from {
            return Err("its arrivals must end after they begin".to_owned());
        }
        self.sizes.validate()
    }

    /// Expected number of transfers that begin before `end`.
    pub fn expected(&self, end: Time) -> f64 {
        self.rate * self.until.min(end).since(self.from).as_secs_f64()
    }

    /// Draws the transfers of the pair of hosts `name` that begin before `end` in the run with
    /// this seed. Times and sizes have separate streams, so other sizes arrive at the same times.
    pub fn draw(&self, seed: u64, name: &str, end: Time) -> Vec<Transfer> {
        let mut times = Stream::new(seed, "arrivals", name);
        let mut sizes = Stream::new(seed, "sizes", name);
        let end = self.until.min(end);
        let mut transfers = Vec::new();
        let mut at = self.from.since(Time::ZERO).as_secs_f64();
        loop {
            at -= libm::log(1.0 - times.uniform()) / self.rate;
            let start = Time::ZERO + Duration::from_secs_f64(at);
            if start >= end {
                return transfers;
            }
            transfers.push(Transfer { start, bytes: self.sizes.draw(&mut sizes) });
        }
    }
}

impl Sizes {
    fn validate(&self) -> Result<(), String> {
        let positive = |x: f64| x > 0.0 && x.is_finite();
        let good = match self {
            Sizes::Fixed(bytes) => *bytes > 0,
            Sizes::List(list) => !list.is_empty() && list.iter().all(|bytes| *bytes > 0),
            Sizes::Exponential { mean } => positive(*mean),
            Sizes::Lognormal { mean, sigma } => positive(*mean) && (0.0..=10.0).contains(sigma),
            Sizes::Pareto { shape, least, most } => {
                positive(*shape) && positive(*least) && most > least && self.mean().is_finite()
            }
            Sizes::Empirical(points) => {
                let rises = |pair: &[(f64, f64)]| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1;
                points.iter().all(|(size, share)| positive(*size) && (0.0..=1.0).contains(share))
                    && points.windows(2).all(rises)
                    && points.last().is_some_and(|last| last.1 == 1.0)
            }
        };
        if good { Ok(()) } else { Err(format!("invalid distribution of sizes {self:?}")) }
    }

    /// The mean, bytes; infinite if there is none.
    pub fn mean(&self) -> f64 {
        match self {
            Sizes::Fixed(bytes) => *bytes as f64,
            Sizes::List(list) => {
                list.iter().map(|bytes| *bytes as f64).sum::<f64>() / list.len() as f64
            }
            Sizes::Exponential { mean } | Sizes::Lognormal { mean, .. } => *mean,
            Sizes::Pareto { shape, least, most } => pareto_mean(*shape, *least, *most),
            Sizes::Empirical(points) => {
                // The share at the first point, then the middles of the lines.
                let first = points.first().map_or(0.0, |(size, share)| size * share);
                let line = |pair: &[(f64, f64)]| {
                    (pair[1].1 - pair[0].1) * f64::midpoint(pair[0].0, pair[1].0)
                };
                first + points.windows(2).map(line).sum::<f64>()
            }
        }
    }

    /// Mean number of packets of `packet_size` bytes. Rounding adds half a packet on average
    /// to sizes that vary over many packets.
    pub fn mean_packets(&self, packet_size: u32) -> f64 {
        let packet = f64::from(packet_size);
        match self {
            Sizes::Fixed(bytes) => bytes.div_ceil(u64::from(packet_size)) as f64,
            Sizes::List(list) => {
                let packets = list.iter().map(|bytes| bytes.div_ceil(u64::from(packet_size)));
                packets.sum::<u64>() as f64 / list.len() as f64
            }
            _ => self.mean() / packet + 0.5,
        }
    }

    /// Draws one size, from 1 byte to 2^53.
    fn draw(&self, stream: &mut Stream) -> u64 {
        let size = match self {
            Sizes::Fixed(bytes) => return *bytes,
            Sizes::List(list) => {
                let at = (stream.uniform() * list.len() as f64) as usize;
                return list[at.min(list.len() - 1)];
            }
            Sizes::Exponential { mean } => -mean * libm::log(1.0 - stream.uniform()),
            Sizes::Lognormal { mean, sigma } => {
                // Box-Muller; E[X] = exp(mu + sigma^2 / 2).
                let radius = libm::sqrt(-2.0 * libm::log(1.0 - stream.uniform()));
                let normal = radius * libm::cos(std::f64::consts::TAU * stream.uniform());
                mean * libm::exp(sigma * normal - sigma * sigma / 2.0)
            }
            Sizes::Pareto { shape, least, most } => {
                let beyond = libm::pow(least / most, *shape);
                let above = 1.0 - stream.uniform() * (1.0 - beyond);
                (least * libm::pow(above, -1.0 / shape)).min(*most)
            }
            Sizes::Empirical(points) => {
                let share = stream.uniform();
                let next = points.partition_point(|point| point.1 <= share);
                let (high, until) = points[next.min(points.len() - 1)];
                match next.checked_sub(1).map(|before| points[before]) {
                    None => high,
                    Some((low, from)) => low + (high - low) * (share - from) / (until - from),
                }
            }
        };
        (libm::round(size) as u64).clamp(1, 1 << 53)
    }
}

/// The mean of a Pareto distribution between `least` and `most`, which may be infinite.
fn pareto_mean(shape: f64, least: f64, most: f64) -> f64 {
    let log_ratio = libm::log(least / most);
    let beyond = libm::exp(shape * log_ratio);
    // (1 - r^(a-1)) / (a - 1), which at a = 1 is -ln r.
    let excess = shape - 1.0;
    let tail = if excess.abs() < 1e-9 {
        -log_ratio
    } else if most.is_infinite() {
        if excess > 0.0 { 1.0 / excess } else { f64::INFINITY }
    } else {
        -libm::expm1(excess * log_ratio) / excess
    };
    shape * least * tail / (1.0 - beyond)
}

/// Minimum size of the Pareto distribution of this shape up to `most` with this mean, which must be
/// below `most`; `None` if it is less than a byte, or if every minimum gives an infinite mean.
pub(super) fn pareto_least(shape: f64, mean: f64, most: f64) -> Option<f64> {
    if most.is_infinite() {
        return (shape > 1.0).then(|| mean * (shape - 1.0) / shape).filter(|least| *least >= 1.0);
    }
    // The mean rises with the minimum size.
    let (mut low, mut high) = (0.0, libm::log(mean));
    if pareto_mean(shape, 1.0, most) > mean {
        return None;
    }
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        let is_below = pareto_mean(shape, libm::exp(middle), most) < mean;
        *(if is_below { &mut low } else { &mut high }) = middle;
    }
    Some(libm::exp(f64::midpoint(low, high)))
}

/// The connections that the flows of a scenario open in the run with this seed, grouped by pair
/// of hosts, each with the index of its pair and its transfer.
pub fn connections(
    flows: &[FlowConfig],
    seed: u64,
    end: Time,
) -> (Vec<FlowConfig>, Vec<(usize, Transfer)>) {
    let mut drawn = Vec::new();
    let mut names = NamesInMaking::default();
    for (pair, flow) in flows.iter().enumerate() {
        let Some(arrivals) = flow.kind.traffic.arrivals() else { continue };
        for (number, transfer) in arrivals.draw(seed, &flow.name, end).into_iter().enumerate() {
            // Names of flows contain no dot.
            names.push(format_args!("{}.{}", flow.name, number + 1));
            drawn.push((pair, transfer));
        }
    }
    let names = names.finish();
    let spec = |(index, (pair, transfer)): (usize, &(usize, Transfer))| {
        let FlowConfig { group, forward, reverse, bottleneck, kind, .. } = &flows[*pair];
        let mut kind = FlowKind::clone(kind);
        kind.start = (transfer.start, transfer.start);
        match &mut kind.traffic {
            Traffic::Transport { config, packets, arrivals, .. } => {
                *packets = Some(transfer.bytes.div_ceil(u64::from(config.packet_size)));
                *arrivals = None;
            }
            Traffic::Stack { bytes, arrivals, .. } => {
                *bytes = Some(transfer.bytes);
                *arrivals = None;
            }
            Traffic::Datagrams { .. } => {}
        }
        FlowConfig {
            name: names.get(index),
            group: *group,
            forward: forward.clone(),
            reverse: reverse.clone(),
            bottleneck: *bottleneck,
            kind: Arc::new(kind),
        }
    };
    let specs = drawn.iter().enumerate().map(spec).collect();
    (specs, drawn)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(sizes: Sizes) -> Arrivals {
        let from = Time::ZERO + Duration::from_secs(1);
        Arrivals { rate: 20.0, from, until: from + Duration::from_secs(1000), sizes }
    }

    fn mean_of(sizes: &Sizes) -> f64 {
        let mut stream = Stream::new(1, "test", "sizes");
        (0..200_000).map(|_| sizes.draw(&mut stream) as f64).sum::<f64>() / 200_000.0
    }

    #[test]
    fn arrivals_are_a_poisson_process() {
        let all = arrivals(Sizes::Fixed(5000));
        let drawn = all.draw(1, "web-1", Time::NEVER);
        // 20 per second for 1000 s: 20 000, give or take five times its root, 707.
        let count = drawn.len() as f64;
        assert!((count - 20_000.0).abs() < 707.0, "{count}");
        assert!(drawn.windows(2).all(|pair| pair[0].start <= pair[1].start));
        assert!(drawn.iter().all(|t| t.start >= all.from && t.start < all.until));
        // The variance of the counts in windows of a second is their mean: over 1000 windows it
        // scatters by sqrt(2 / 1000) = 4.5 % of itself.
        let mut counts = vec![0.0; 1000];
        for transfer in &drawn {
            counts[(transfer.start.as_secs_f64() - 1.0) as usize] += 1.0;
        }
        let mean = count / 1000.0;
        let variance = counts.iter().map(|n| (n - mean) * (n - mean)).sum::<f64>() / 999.0;
        assert!((variance / mean - 1.0).abs() < 0.225, "{variance} {mean}");
        // Another seed or another pair gives other draws; the same ones give the same.
        assert_ne!(drawn, all.draw(2, "web-1", Time::NEVER));
        assert_ne!(drawn, all.draw(1, "web-2", Time::NEVER));
        assert_eq!(drawn, all.draw(1, "web-1", Time::NEVER));
        // Other sizes arrive at the same times, and an earlier end removes nothing before it.
        let others = arrivals(Sizes::Exponential { mean: 1e4 });
        let end = Time::ZERO + Duration::from_secs(10);
        let early = others.draw(1, "web-1", end);
        assert!(early.iter().zip(&drawn).all(|(a, b)| a.start == b.start));
        assert_eq!(early.len(), drawn.iter().filter(|t| t.start < end).count());
    }

    #[test]
    fn means_of_sizes_follow_their_formulas() {
        // Bounded Pareto by hand: shape 2 from 1000 to 4000 has the mean
        // 2 L (1 - 1/4) / (1 - 1/16) = 1600; shape 1: L ln 4 / (1 - 1/4) = 1848.39.
        let pareto = |shape, least, most| Sizes::Pareto { shape, least, most };
        assert!((pareto(2.0, 1000.0, 4000.0).mean() - 1600.0).abs() < 1e-6);
        assert!((pareto(1.0, 1000.0, 4000.0).mean() - 1848.3925).abs() < 1e-3);
        assert!((pareto(3.0, 1000.0, f64::INFINITY).mean() - 1500.0).abs() < 1e-6);
        assert_eq!(pareto(1.0, 1000.0, f64::INFINITY).mean(), f64::INFINITY);
        // A tenth at 1000, the rest evenly from there to 3000: 100 + 0.9 x 2000.
        let points = [(1000.0, 0.1), (3000.0, 1.0)];
        let empirical = Sizes::Empirical(points.into());
        assert!((empirical.mean() - 1900.0).abs() < 1e-9);
        let list = Sizes::List([500, 1500, 4000].into());
        assert_eq!((list.mean(), list.mean_packets(1000)), (2000.0, (1.0 + 2.0 + 4.0) / 3.0));
        for sizes in [
            pareto(2.0, 1000.0, 4000.0),
            pareto(1.2, 5000.0, 1e7),
            empirical,
            list,
            Sizes::Exponential { mean: 20_000.0 },
            Sizes::Lognormal { mean: 20_000.0, sigma: 1.0 },
        ] {
            // The heaviest distribution, of shape 1.2 up to 2000 times the minimum, has a standard
            // deviation of some ten times the mean: 2.2 % over 200 000.
            let (drawn, mean) = (mean_of(&sizes), sizes.mean());
            assert!((drawn / mean - 1.0).abs() < 0.1, "{sizes:?}: {drawn} {mean}");
        }
    }

    #[test]
    fn a_tail_has_its_shape() {
        // P(X > x) = ((L/x)^a - r^a) / (1 - r^a), r = L/H: for a = 1.2, L = 1000, H = 10^7 and
        // x = 10^5 it is (100^-1.2 - 10^-4.8) / (1 - 10^-4.8) = 0.003965: 793 of 200 000, with a
        // standard error of 28.
        let sizes = Sizes::Pareto { shape: 1.2, least: 1000.0, most: 1e7 };
        let mut stream = Stream::new(1, "test", "tail");
        let beyond = (0..200_000).filter(|_| sizes.draw(&mut stream) > 100_000).count() as f64;
        assert!((beyond - 793.0).abs() < 5.0 * 28.0, "{beyond}");
    }

    #[test]
    fn the_minimum_size_follows_from_the_mean() {
        for (shape, mean, most) in [(1.2, 50e3, 10e6), (0.9, 50e3, 10e6), (1.0, 3e3, 1e5)] {
            let least = pareto_least(shape, mean, most).unwrap();
            assert!((pareto_mean(shape, least, most) / mean - 1.0).abs() < 1e-9);
        }
        // Unbounded: mean (a - 1) / a.
        assert!((pareto_least(1.25, 50e3, f64::INFINITY).unwrap() - 10e3).abs() < 1e-6);
        assert_eq!(pareto_least(1.0, 50e3, f64::INFINITY), None);
        // With a shape of 0.1 up to 10^12 bytes no minimum gives so small a mean.
        assert_eq!(pareto_least(0.1, 50e3, 1e12), None);
    }
}
