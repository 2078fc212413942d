//! `arrivals` of a `[[flows]]` table: transfers that arrive at random.

use std::sync::Arc;

use windward_core::units::{Duration, Rate, Time};

use super::bounds::{INSTANTS, MAX_SIZE};
use crate::keys;
use crate::scenario::{Arrivals, MAX_TRANSFERS, Sizes, arrivals};
use crate::strict_toml::{
    Amount, Field, FileError, Result, Section, Shorthand, Spot, TomlType, readers,
};

keys! {
    /// Keys of `arrivals`.
    pub(super) struct ArrivalKeys<'a> in "arrivals" {
        rate: Option<f64> = readers::above_zero(1e9), absent,
            "transfers per second of the whole group, on average; above 0, up to 10^9";
        load: Option<f64> = readers::above_zero(2.0), absent,
            "instead of rate: offered load as a share of the bottleneck's rate; above 0, up to 2";
        from: Duration = readers::time(INSTANTS), or Duration::ZERO,
            "earliest start of a transfer";
        until: Option<Duration> = readers::time(INSTANTS), absent "end of the run",
            "no transfer starts at or after this instant; after from";
        sizes: Field<'a> = readers::any(sizes_kind), needed "sizes = \"50kB\"",
            "a size, a list of sizes, or a distribution";
    }
}

fn sizes_kind() -> TomlType {
    let values = vec![TomlType::Text, TomlType::List(Box::new(TomlType::Text))];
    TomlType::Table { keys: &[SizeKeys::KEYS], shorthand: Shorthand::All, values }
}

keys! {
    /// Keys of `sizes` as a table.
    struct SizeKeys<'a> in "sizes" {
        distribution: Distribution = readers::one_of(DISTRIBUTIONS),
            needed "distribution = \"pareto\"",
            "fixed, list, exponential, lognormal, pareto or cdf";
        mean: Option<Field<'a>> = readers::any(|| TomlType::Text), absent,
            "fixed, exponential, lognormal, pareto: the mean, bytes or packets";
        sigma: Option<f64> = readers::number_in(0.0..=10.0), absent,
            "lognormal: standard deviation of the logarithm, 0 to 10";
        shape: Option<f64> = readers::above_zero(100.0), absent,
            "pareto: exponent of the tail, above 0, up to 100; above 1 without most";
        least: Option<Field<'a>> = readers::any(|| TomlType::Text), absent "follows from mean",
            "pareto: instead of mean, the minimum size";
        most: Option<Field<'a>> = readers::any(|| TomlType::Text), absent "no bound",
            "pareto: the maximum size";
        values: Option<Field<'a>> =
            readers::any(|| TomlType::List(Box::new(TomlType::Text))), absent,
            "list: sizes with equal probability";
        points: Option<Field<'a>> = readers::any(points_kind), absent,
            "cdf: sizes, each with the share of transfers up to it: [[\"1kB\", 0.5], [\"1MB\", 1]]";
    }
}

fn points_kind() -> TomlType {
    TomlType::List(Box::new(TomlType::List(Box::new(TomlType::Any))))
}

/// The distributions of sizes.
const DISTRIBUTIONS: &[(&str, Distribution)] = &[
    ("fixed", Distribution::Fixed),
    ("list", Distribution::List),
    ("exponential", Distribution::Exponential),
    ("lognormal", Distribution::Lognormal),
    ("pareto", Distribution::Pareto),
    ("cdf", Distribution::Cdf),
];

#[derive(Debug, Clone, Copy)]
enum Distribution {
    Fixed,
    List,
    Exponential,
    Lognormal,
    Pareto,
    Cdf,
}

/// The arrivals of a group, before its bottleneck is known.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    spot: Spot,
    intensity: Intensity,
    from: Duration,
    until: Option<Duration>,
    sizes: Sizes,
}

#[derive(Debug, Clone, Copy)]
enum Intensity {
    /// Transfers per second.
    Rate(f64),
    /// A share of the rate of the bottleneck.
    Load(f64),
}

impl Plan {
    pub(super) fn read(field: &Field<'_>, packet_size: u32) -> Result<Self> {
        let section = field.section()?;
        let keys = ArrivalKeys::read(&section)?;
        let intensity = match (keys.rate, keys.load) {
            (Some(rate), None) => Intensity::Rate(rate),
            (None, Some(load)) => Intensity::Load(load),
            (None, None) => {
                return Err(section.error("`rate` or `load` is missing").with_help(
                    "write for instance `rate = 20`, per second, or `load = 0.5`, of the \
                     bottleneck",
                ));
            }
            (Some(_), Some(_)) => {
                return Err(section.error_at("load", "the arrivals already have `rate`"));
            }
        };
        let (from, until) = (keys.from, keys.until);
        if until.is_some_and(|until| until <= from) {
            let message = format!("must be later than `from`, {from}");
            return Err(section.error_at("until", message));
        }
        let sizes = sizes(&keys.sizes, packet_size)?;
        Ok(Plan { spot: field.spot(), intensity, from, until, sizes })
    }

    /// The process between each of `pairs` pairs of hosts, and the expected number of transfers of
    /// all pairs.
    pub(super) fn resolve(
        &self,
        pairs: usize,
        bottleneck: Rate,
        packet_size: u32,
        end: Duration,
    ) -> Result<(Arc<Arrivals>, f64)> {
        let all = match self.intensity {
            Intensity::Rate(rate) => rate,
            Intensity::Load(load) => {
                let bytes = self.sizes.mean_packets(packet_size) * f64::from(packet_size);
                load * bottleneck.bytes_per_s() / bytes
            }
        };
        let arrivals = Arrivals {
            rate: all / pairs as f64,
            from: Time::ZERO + self.from,
            until: Time::ZERO + self.until.unwrap_or(end),
            sizes: self.sizes.clone(),
        };
        if self.from >= end {
            return Err(self
                .spot
                .error(format!("no transfer begins before the run ends, at {end}")));
        }
        let expected = arrivals.expected(Time::ZERO + end) * pairs as f64;
        if expected > MAX_TRANSFERS {
            return Err(self
                .spot
                .error(format!(
                    "about {expected:.0} transfers are expected, more than {MAX_TRANSFERS}"
                ))
                .with_help("lower `rate` or `load`, set an earlier `until`, or raise `sizes`"));
        }
        Ok((Arc::new(arrivals), expected))
    }

    /// True if transfers start until the end of the run, so that the last cannot complete.
    pub(super) fn go_on_until(&self, end: Duration) -> bool {
        self.until.is_none_or(|until| until >= end)
    }

    pub(super) fn error(&self, message: impl std::fmt::Display) -> FileError {
        self.spot.error(message)
    }
}

/// An amount in bytes; packets count as `packet_size` each.
fn bytes(field: &Field<'_>, packet_size: u32) -> Result<u64> {
    let bytes = match field.amount()? {
        Amount::Bytes(bytes) => bytes,
        Amount::Packets(packets) => packets.saturating_mul(u64::from(packet_size)),
    };
    if bytes > MAX_SIZE {
        return Err(field.error(format!("must be at most {MAX_SIZE} bytes")));
    }
    Ok(bytes)
}

fn sizes(field: &Field<'_>, packet_size: u32) -> Result<Sizes> {
    if field.is_text() {
        return Ok(Sizes::Fixed(bytes(field, packet_size)?));
    }
    if field.is_array() {
        return list(field, packet_size);
    }
    let section = field.section()?;
    let keys = SizeKeys::read(&section)?;
    let only = |keys: &[&str]| -> Result<()> {
        let other = section.keys().find(|key| *key != "distribution" && !keys.contains(key));
        match other.and_then(|key| section.get(key)) {
            None => Ok(()),
            Some(field) => Err(field.error(format!(
                "does not apply to this distribution, which takes {}",
                keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
            ))),
        }
    };
    let mean = || match &keys.mean {
        Some(mean) => bytes(mean, packet_size),
        None => Err(section.missing("mean", "mean = \"50kB\"")),
    };
    match keys.distribution {
        Distribution::Fixed => {
            only(&["mean"])?;
            mean().map(Sizes::Fixed)
        }
        Distribution::List => {
            only(&["values"])?;
            let missing = || section.missing("values", "values = [\"10kB\", \"1MB\"]");
            list(&keys.values.ok_or_else(missing)?, packet_size)
        }
        Distribution::Exponential => {
            only(&["mean"])?;
            Ok(Sizes::Exponential { mean: mean()? as f64 })
        }
        Distribution::Lognormal => {
            only(&["mean", "sigma"])?;
            let sigma = keys.sigma.ok_or_else(|| section.missing("sigma", "sigma = 1.5"))?;
            Ok(Sizes::Lognormal { mean: mean()? as f64, sigma })
        }
        Distribution::Pareto => {
            only(&["shape", "mean", "least", "most"])?;
            pareto(&section, &keys, packet_size)
        }
        Distribution::Cdf => {
            only(&["points"])?;
            let example = "points = [[\"1kB\", 0.5], [\"1MB\", 1]]";
            cdf(&keys.points.ok_or_else(|| section.missing("points", example))?, packet_size)
        }
    }
}

fn list(field: &Field<'_>, packet_size: u32) -> Result<Sizes> {
    let items = field.items()?;
    if items.is_empty() {
        return Err(field.error("must have at least one size"));
    }
    let list: Vec<u64> = items.iter().map(|f| bytes(f, packet_size)).collect::<Result<_>>()?;
    Ok(Sizes::List(list.into()))
}

fn pareto(section: &Section<'_>, keys: &SizeKeys<'_>, packet_size: u32) -> Result<Sizes> {
    let size = |field: &Option<Field<'_>>| {
        let bytes = field.as_ref().map(|field| bytes(field, packet_size)).transpose()?;
        Ok::<_, FileError>(bytes.map(|bytes| bytes as f64))
    };
    let shape = keys.shape.ok_or_else(|| section.missing("shape", "shape = 1.2"))?;
    let (mean, least) = (size(&keys.mean)?, size(&keys.least)?);
    let most = size(&keys.most)?.unwrap_or(f64::INFINITY);
    if most.is_infinite() && shape <= 1.0 {
        return Err(section
            .error(format!("sizes of shape {shape} without a bound have no mean"))
            .with_help("bound them, as in `most = \"10MB\"`, or give a shape above 1"));
    }
    let beyond = |what: &str, size: f64| {
        section.error(format!("`{what}`, {size} bytes, must be less than `most`, {most} bytes"))
    };
    let least = match (mean, least) {
        (Some(mean), None) if mean >= most => return Err(beyond("mean", mean)),
        (Some(mean), None) => arrivals::pareto_least(shape, mean, most).ok_or_else(|| {
            section
                .error("sizes with this mean would begin below one byte")
                .with_help("raise `shape` or `mean`, or lower `most`")
        })?,
        (None, Some(least)) if least >= most => return Err(beyond("least", least)),
        (None, Some(least)) => least,
        (None, None) => return Err(section.missing("mean", "mean = \"50kB\"")),
        (Some(_), Some(_)) => {
            return Err(section.error("`mean` and `least` exclude each other: give one of them"));
        }
    };
    Ok(Sizes::Pareto { shape, least, most })
}

fn cdf(field: &Field<'_>, packet_size: u32) -> Result<Sizes> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for item in field.items()? {
        let [size, share] = &item.items()?[..] else {
            return Err(item.error("expected a size and a share, as in [\"10kB\", 0.5]"));
        };
        let size = bytes(size, packet_size)? as f64;
        let share = share.float(0.0..=1.0)?;
        if points.last().is_some_and(|last| size < last.0 || share < last.1) {
            return Err(item.error("sizes and shares must not decrease from point to point"));
        }
        points.push((size, share));
    }
    match points.last() {
        Some((_, 1.0)) => Ok(Sizes::Empirical(points.into())),
        _ => Err(field.error("the last point of a distribution has the share 1")),
    }
}
