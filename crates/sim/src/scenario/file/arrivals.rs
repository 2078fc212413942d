//! `arrivals` of a `[[flows]]` table: transfers that come at random.

use std::sync::Arc;

use windward_core::units::{Duration, Rate, Time};

use super::section::{Amount, Field, Result, Section, Spot};
use crate::scenario::{Arrivals, MAX_TRANSFERS, Sizes, arrivals};

/// The distributions of sizes.
const DISTRIBUTIONS: [(&str, Distribution); 6] = [
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

/// What a file says of arrivals.
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
        let section = field.clone().section()?;
        let intensity = match (section.get("rate"), section.get("load")) {
            (Some(rate), None) => Intensity::Rate(rate.above_zero(1e9)?),
            (None, Some(load)) => Intensity::Load(load.above_zero(2.0)?),
            (None, None) => {
                return Err(section
                    .error("neither `rate` nor `load` says how many there are")
                    .with_help(
                        "write for instance `rate = 20`, per second, or `load = 0.5`, of the \
                         bottleneck",
                    ));
            }
            (Some(_), Some(load)) => return Err(load.error("the arrivals already have `rate`")),
        };
        let from = section.read("from", Field::instant)?.unwrap_or_default();
        let until = section.read("until", |field| {
            let until = field.clone().instant()?;
            if until > from {
                Ok(until)
            } else {
                Err(field.error(format!("the arrivals end before they begin, at {from}")))
            }
        })?;
        let sizes =
            section.require("sizes", "sizes = \"50kB\"", |field| sizes(&field, packet_size))?;
        Ok(Plan { spot: field.spot(), intensity, from, until, sizes })
    }

    /// The process between each of `pairs` pairs of hosts, and how many transfers of all of them
    /// are to be expected.
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
                    "about {expected:.0} transfers are to be expected, more than {MAX_TRANSFERS}"
                ))
                .with_help("lower `rate` or `load`, end them earlier, or make them larger"));
        }
        Ok((Arc::new(arrivals), expected))
    }

    /// Do they go on to the end of the run, so that the last of them cannot end in time?
    pub(super) fn go_on_until(&self, end: Duration) -> bool {
        self.until.is_none_or(|until| until >= end)
    }

    pub(super) fn error(&self, message: impl std::fmt::Display) -> super::ScenarioError {
        self.spot.error(message)
    }
}

/// Bytes; packets have that size.
fn bytes(field: &Field<'_>, packet_size: u32) -> Result<u64> {
    const MOST: u64 = 1 << 53;
    let bytes = match field.clone().amount()? {
        Amount::Bytes(bytes) => bytes,
        Amount::Packets(packets) => packets.saturating_mul(u64::from(packet_size)),
    };
    if bytes > MOST {
        return Err(field.error(format!("at most {MOST} bytes")));
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
    let section = field.clone().section()?;
    let distribution = section
        .require("distribution", "distribution = \"pareto\"", |f| f.one_of(&DISTRIBUTIONS))?;
    let amount = |key, example| -> Result<f64> {
        section.require(key, example, |f| bytes(&f, packet_size)).map(|bytes| bytes as f64)
    };
    let only = |keys: &[&str]| -> Result<()> {
        let other = section.keys().find(|key| *key != "distribution" && !keys.contains(key));
        match other.and_then(|key| section.get(key)) {
            None => Ok(()),
            Some(field) => Err(field.error(format!(
                "means nothing for these sizes: they take {}",
                keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
            ))),
        }
    };
    match distribution {
        Distribution::Fixed => {
            only(&["mean"])?;
            section.require("mean", "mean = \"50kB\"", |f| bytes(&f, packet_size)).map(Sizes::Fixed)
        }
        Distribution::List => {
            only(&["values"])?;
            section.require("values", "values = [\"10kB\", \"1MB\"]", |f| list(&f, packet_size))
        }
        Distribution::Exponential => {
            only(&["mean"])?;
            Ok(Sizes::Exponential { mean: amount("mean", "mean = \"50kB\"")? })
        }
        Distribution::Lognormal => {
            only(&["mean", "sigma"])?;
            let sigma = section.require("sigma", "sigma = 1.5", |f| f.float(0.0..=10.0))?;
            Ok(Sizes::Lognormal { mean: amount("mean", "mean = \"50kB\"")?, sigma })
        }
        Distribution::Pareto => {
            only(&["shape", "mean", "least", "most"])?;
            pareto(&section, packet_size)
        }
        Distribution::Cdf => {
            only(&["points"])?;
            let example = "points = [[\"1kB\", 0.5], [\"1MB\", 1]]";
            section.require("points", example, |f| cdf(&f, packet_size))
        }
    }
}

fn list(field: &Field<'_>, packet_size: u32) -> Result<Sizes> {
    let items = field.clone().items()?;
    if items.is_empty() {
        return Err(field.error("there is no size"));
    }
    let list: Vec<u64> = items.iter().map(|f| bytes(f, packet_size)).collect::<Result<_>>()?;
    Ok(Sizes::List(list.into()))
}

fn pareto(section: &Section<'_>, packet_size: u32) -> Result<Sizes> {
    let size = |key| section.read(key, |f| bytes(&f, packet_size).map(|bytes| bytes as f64));
    let shape = section.require("shape", "shape = 1.2", |f| f.above_zero(100.0))?;
    let (mean, least) = (size("mean")?, size("least")?);
    let most = size("most")?.unwrap_or(f64::INFINITY);
    if most.is_infinite() && shape <= 1.0 {
        return Err(section
            .error(format!("sizes of shape {shape} without a bound have no mean"))
            .with_help("bound them, as in `most = \"10MB\"`, or give a shape above 1"));
    }
    let beyond = |what: &str, size: f64| {
        section.error(format!("{what} of {size} bytes is not below `most`, {most} bytes"))
    };
    let least = match (mean, least) {
        (Some(mean), None) if mean >= most => return Err(beyond("a mean", mean)),
        (Some(mean), None) => arrivals::pareto_least(shape, mean, most).ok_or_else(|| {
            section
                .error("sizes with this mean would begin below one byte")
                .with_help("raise `shape` or `mean`, or lower `most`")
        })?,
        (None, Some(least)) if least >= most => return Err(beyond("a least size", least)),
        (None, Some(least)) => least,
        (None, None) => return Err(section.missing("mean", "mean = \"50kB\"")),
        (Some(_), Some(_)) => {
            return Err(section.error("`mean` and `least` say the same: give one of them"));
        }
    };
    Ok(Sizes::Pareto { shape, least, most })
}

fn cdf(field: &Field<'_>, packet_size: u32) -> Result<Sizes> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for item in field.clone().items()? {
        let [size, share] = &item.clone().items()?[..] else {
            return Err(item.error("a point is a size and a share, as [\"10kB\", 0.5]"));
        };
        let size = bytes(size, packet_size)? as f64;
        let share = share.clone().float(0.0..=1.0)?;
        if points.last().is_some_and(|last| size < last.0 || share < last.1) {
            return Err(item.error("sizes and shares of a distribution rise from point to point"));
        }
        points.push((size, share));
    }
    match points.last() {
        Some((_, 1.0)) => Ok(Sizes::Empirical(points.into())),
        _ => Err(field.error("the last point of a distribution has the share 1")),
    }
}
