//! Changes of a link and impairments of its packets: schedules, traces, jitter,
//! reordering, outages, link-layer retransmission.

use std::sync::Arc;

use windward_core::network::{
    ArqConfig, ChangingDelay, Distribution, During, JitterConfig, Lateness, LinkRate, OutageConfig,
    Outages, ReorderConfig, Steps, TraceError,
};
use windward_core::units::{Duration, Probability, Rate};

use super::bounds::{DAY, DELAYS, INSTANTS};
use super::traces::Traces;
use crate::keys;
use crate::scenario::MAX_DURATION;
use crate::strict_toml::{Amount, Field, FileError, Result, Section, TomlType, readers, unnamed};

keys! {
    /// Keys of `reorder`.
    pub(super) struct ReorderKeys in "reorder" {
        share: Probability = readers::probability(), needed "share = 0.01",
            "probability that a packet is late";
        by: Lateness = readers::custom(|| TomlType::Text, lateness), needed "by = \"10ms\"",
            "lateness: a time, or the number of packets (3p) that overtake it on a busy wire, 1 to 1000000";
    }

    /// Keys of `arq`.
    pub(super) struct ArqKeys in "arq" {
        attempts: u32 = readers::small(1..=ArqConfig::MOST_ATTEMPTS), needed "attempts = 4",
            "maximum number of transmissions of a frame, 1 to 100";
        delay: Duration = readers::time(Duration::ZERO..=ArqConfig::LONGEST_DELAY),
            needed "delay = \"5ms\"", "time from the end of an attempt to the next, 0 to 10s";
        in_order: bool = readers::flag(), or true,
            "whether the far end holds back packets behind a missing frame";
        air_time: bool = readers::flag(), or true, "whether retransmissions take time on the wire";
    }

    /// Keys of `delay` as a table.
    pub(super) struct ChangingDelayKeys<'a> in "delay" {
        schedule: Option<Field<'a>> = readers::any(delay_steps), absent,
            "delays, each from an instant";
        repeat: Option<Duration> = readers::positive(MAX_DURATION), absent "never",
            "schedule: time after which it repeats, later than the last entry";
        trace: Option<Field<'a>> = readers::any(|| TomlType::Text), absent,
            "file with a time and a delay per line, both in ms; the last time is the period";
        in_order: bool = readers::flag(), or false,
            "whether packets on a shorter route wait for those sent before";
    }
}

fn delay_steps() -> TomlType {
    TomlType::Tables { keys: &[DelayStepKeys::KEYS], name_of: unnamed }
}

keys! {
    /// Keys of a step of a delay.
    struct DelayStepKeys in "delay_step" {
        at: Duration = readers::time(INSTANTS), needed "at = \"15s\"",
            "instant from which on it holds; the first at 0s";
        delay: Duration = readers::time(DELAYS), needed "delay = \"20ms\"",
            "propagation delay, 0 to 24h";
    }

    /// Keys of a step of a rate.
    pub(super) struct RateStepKeys in "rate_step" {
        at: Duration = readers::time(INSTANTS), needed "at = \"15s\"",
            "instant from which on it holds; the first at 0s";
        rate: Rate = readers::rate(), needed "rate = \"5Mbit\"", "1bit to 100Tbit";
    }

    /// Keys of `jitter` as a table.
    pub(super) struct JitterKeys<'a> in "jitter" {
        distribution: &'a str = readers::word(&["uniform", "normal", "exponential", "pareto"]),
            or "uniform", "uniform, normal, exponential or pareto";
        amount: Option<Duration> = readers::positive(DAY), absent,
            "uniform: the maximum; the minimum is 0";
        mean: Option<Duration> = readers::positive(DAY), absent, "all others: the mean";
        deviation: Option<Duration> = readers::time(DELAYS), absent "mean / 4",
            "normal: standard deviation; negative draws count as 0";
        shape: f64 = readers::custom(any_number, shape), or 3.0,
            "pareto: exponent of the tail, above 1, up to 100";
        correlation: f64 = readers::custom(any_number, correlation), or 0.0,
            "correlation of a draw with the one before, 0 to less than 1";
        interval: Duration = readers::time(DELAYS), or Duration::ZERO,
            "time for which a draw holds; 0s draws for each packet";
        in_order: bool = readers::flag(), or true,
            "whether a packet waits for the one before it to arrive";
    }
}

fn any_number() -> TomlType {
    (readers::number().kind)()
}

/// A shape above 1, since others have no mean.
fn shape(field: &Field<'_>) -> Result<f64> {
    match field.float(1.0..=100.0)? {
        shape if shape > 1.0 => Ok(shape),
        _ => Err(field.error("must be more than 1, or there is no mean")),
    }
}

fn correlation(field: &Field<'_>) -> Result<f64> {
    match field.float(0.0..=1.0)? {
        correlation if correlation < 1.0 => Ok(correlation),
        _ => Err(field.error("must be less than 1")),
    }
}

keys! {
    /// Keys of `outages` as a table.
    pub(super) struct OutagesKeys<'a> in "outages" {
        schedule: Field<'a> = readers::any(outage_list),
            needed "schedule = [{ at = \"20s\", length = \"1s\" }]", "outages, in order";
        repeat: Option<Duration> = readers::positive(MAX_DURATION), absent "never",
            "time after which they repeat, not before the last has ended";
        during: Option<During> = readers::one_of(DURING), absent "hold",
            "hold: nothing is sent; drop: sent packets are destroyed";
    }
}

/// The words for packets during an outage.
const DURING: &[(&str, During)] = &[("hold", During::Hold), ("drop", During::Drop)];

/// A list of outages.
pub(super) fn outage_list() -> TomlType {
    TomlType::Tables { keys: &[OutageKeys::KEYS], name_of: unnamed }
}

keys! {
    /// Keys of an outage.
    struct OutageKeys in "outage" {
        at: Duration = readers::time(INSTANTS), needed "at = \"20s\"",
            "instant at which it begins";
        length: Duration = readers::positive(MAX_DURATION), needed "length = \"1s\"",
            "its length";
    }
}

/// The delay of a link.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Delay {
    Constant(Duration),
    Changing(ChangingDelay),
}

impl Delay {
    /// The long-run mean.
    pub(super) fn mean(&self) -> Duration {
        match self {
            Delay::Constant(delay) => *delay,
            Delay::Changing(delay) => delay.mean(),
        }
    }
}

/// A delay, or a table with a schedule or a trace.
pub(super) fn delay(field: &Field<'_>, traces: &Traces) -> Result<Delay> {
    if !field.is_table() {
        return field.duration(DELAYS).map(Delay::Constant);
    }
    let section = field.section()?;
    let keys = ChangingDelayKeys::read(&section)?;
    let steps = match (keys.trace, keys.schedule) {
        (Some(field), None) => {
            section
                .forbid(&["repeat"], "does not apply to a trace, which repeats at its last line")?;
            traces.delay(&field)?
        }
        (None, Some(field)) => {
            let step = |section: &Section<'_>| {
                let step = DelayStepKeys::read(section)?;
                Ok((step.at, step.delay))
            };
            Arc::new(steps(&section, &field, keys.repeat, step)?)
        }
        (Some(_), Some(_)) => return Err(section.error("give one of `trace` and `schedule`")),
        (None, None) => {
            let example = "delay = { schedule = [{ at = \"0s\", delay = \"20ms\" }, \
                           { at = \"15s\", delay = \"35ms\" }], repeat = \"30s\" }";
            return Err(section.missing("schedule", example));
        }
    };
    Ok(Delay::Changing(ChangingDelay { steps, in_order: keys.in_order }))
}

/// A rate that follows a schedule.
pub(super) fn scheduled_rate(
    section: &Section<'_>,
    field: &Field<'_>,
    repeat: Option<Duration>,
) -> Result<LinkRate> {
    let step = |section: &Section<'_>| {
        let step = RateStepKeys::read(section)?;
        Ok((step.at, step.rate))
    };
    Ok(steps(section, field, repeat, step)?.into())
}

/// Reads the steps of a schedule; `step` reads one.
fn steps<T: Copy>(
    section: &Section<'_>,
    field: &Field<'_>,
    repeat: Option<Duration>,
    step: impl Fn(&Section<'_>) -> Result<(Duration, T)>,
) -> Result<Steps<T>> {
    let items = field.items()?;
    let list = items.iter().map(|item| step(&item.section()?)).collect::<Result<_>>()?;
    Steps::new(list, repeat).map_err(|error| wrong(Some(section), field, &items, &error))
}

/// An error in a list, at the item concerned, or at `repeat`.
fn wrong(
    section: Option<&Section<'_>>,
    field: &Field<'_>,
    items: &[Field<'_>],
    error: &TraceError,
) -> FileError {
    let item = error.index.and_then(|index| items.get(index));
    match (item, section.and_then(|section| section.get("repeat"))) {
        (Some(item), _) => item.error(&error.reason),
        (None, Some(repeat)) if !items.is_empty() => repeat.error(&error.reason),
        _ => field.error(&error.reason),
    }
}

/// The keys of each distribution of jitter.
const DISTRIBUTIONS: [(&str, &[&str]); 4] = [
    ("uniform", &["amount"]),
    ("normal", &["mean", "deviation"]),
    ("exponential", &["mean"]),
    ("pareto", &["mean", "shape"]),
];

/// Jitter; `None` if the value turns it off.
pub(super) fn jitter(field: &Field<'_>) -> Result<Option<JitterConfig>> {
    if !field.is_table() {
        let amount = field.duration(DELAYS)?;
        return Ok((!amount.is_zero()).then(|| JitterConfig::uniform(amount)));
    }
    let section = field.section()?;
    let keys = JitterKeys::read(&section)?;
    let word = keys.distribution;
    let own = DISTRIBUTIONS.iter().find(|(name, _)| *name == word).map_or(&[][..], |d| d.1);
    for (_, others) in DISTRIBUTIONS {
        let foreign: Vec<&str> = others.iter().copied().filter(|key| !own.contains(key)).collect();
        let why = format!("jitter that is {word} has {}", own.join(" and "));
        section.forbid(&foreign, &why)?;
    }
    let mean = || keys.mean.ok_or_else(|| section.missing("mean", "mean = \"5ms\""));
    let distribution = match word {
        "normal" => {
            let mean = mean()?;
            let deviation = keys.deviation.unwrap_or(mean.mul_f64(0.25));
            Distribution::Normal { mean, deviation }
        }
        "exponential" => Distribution::Exponential { mean: mean()? },
        "pareto" => Distribution::Pareto { mean: mean()?, shape: keys.shape },
        _ => {
            let missing = || section.missing("amount", "amount = \"5ms\"");
            Distribution::Uniform { most: keys.amount.ok_or_else(missing)? }
        }
    };
    Ok(Some(JitterConfig {
        distribution,
        correlation: keys.correlation,
        interval: keys.interval,
        in_order: keys.in_order,
    }))
}

/// Reordering; `None` if the value turns it off.
pub(super) fn reorder(field: &Field<'_>) -> Result<Option<ReorderConfig>> {
    let ReorderKeys { share, by } = ReorderKeys::read(&field.section()?)?;
    Ok((share != Probability::ZERO).then_some(ReorderConfig { share, by }))
}

fn lateness(field: &Field<'_>) -> Result<Lateness> {
    let text = field.text()?;
    if text.trim_end().ends_with(['p', 't']) || text.contains("packet") {
        return match field.amount()? {
            Amount::Packets(packets @ 1..=1_000_000) => Ok(Lateness::Packets(packets as u32)),
            _ => Err(field.error("must lie between 1 and 1000000 packets")),
        };
    }
    field.positive(DAY).map(Lateness::Time)
}

/// Link-layer retransmission; `None` if the value turns it off.
pub(super) fn arq(field: &Field<'_>) -> Result<Option<ArqConfig>> {
    let ArqKeys { attempts, delay, in_order, air_time } = ArqKeys::read(&field.section()?)?;
    Ok((attempts > 1).then_some(ArqConfig { attempts, delay, in_order, air_time }))
}

/// Outages: a list, or a table with one.
pub(super) fn outages(field: &Field<'_>) -> Result<Option<OutageConfig>> {
    let section = if field.is_table() { Some(field.section()?) } else { None };
    let keys = section.as_ref().map(OutagesKeys::read).transpose()?;
    let list = keys.as_ref().map_or(field, |keys| &keys.schedule);
    let items = list.items()?;
    if items.is_empty() {
        return Ok(None);
    }
    let outage = |item: &Field<'_>| {
        let outage = OutageKeys::read(&item.section()?)?;
        Ok((outage.at, outage.length))
    };
    let times = items.iter().map(outage).collect::<Result<Vec<_>>>()?;
    let repeat = keys.as_ref().and_then(|keys| keys.repeat);
    let when = Outages::new(&times, repeat)
        .map_err(|error| wrong(section.as_ref(), list, &items, &error))?;
    let during = keys.and_then(|keys| keys.during).unwrap_or_default();
    Ok(Some(OutageConfig { when: when.into(), during }))
}
