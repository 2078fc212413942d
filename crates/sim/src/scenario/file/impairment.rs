//! What changes about a link and what happens to packets on it: schedules, traces, jitter,
//! reordering, outages, link-layer retransmission.

use std::sync::Arc;

use windward_core::network::{
    ArqConfig, ChangingDelay, DelaySteps, Distribution, During, JitterConfig, Lateness, LinkRate,
    OutageConfig, Outages, ReorderConfig, Steps, TraceError,
};
use windward_core::units::{Duration, Probability};

use super::link::trace_error;
use super::section::{Amount, DAY, Field, Result, Section};
use crate::scenario::MAX_DURATION;

/// The delay of a link.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Delay {
    Constant(Duration),
    Changing(ChangingDelay),
}

impl Delay {
    /// What it is in the long run.
    pub(super) fn mean(&self) -> Duration {
        match self {
            Delay::Constant(delay) => *delay,
            Delay::Changing(delay) => delay.mean(),
        }
    }
}

/// A delay, or a table with a schedule or a trace.
pub(super) fn delay(field: Field<'_>) -> Result<Delay> {
    if !field.is_table() {
        return field.duration(Duration::ZERO..=DAY).map(Delay::Constant);
    }
    let section = field.section()?;
    let steps = match (section.get("trace"), section.get("schedule")) {
        (Some(field), None) => {
            section.forbid(&["repeat"], "a trace starts over at its last line")?;
            delay_trace(&field)?
        }
        (None, Some(field)) => {
            let value = |section: &Section<'_>| {
                let read = |field: Field<'_>| field.duration(Duration::ZERO..=DAY);
                section.require("delay", "delay = \"20ms\"", read)
            };
            Arc::new(steps(&section, &field, value)?)
        }
        (Some(_), Some(_)) => return Err(section.error("give one of `trace` and `schedule`")),
        (None, None) => {
            let example = "delay = { schedule = [{ at = \"0s\", delay = \"20ms\" }, { at = \"15s\", delay = \
                 \"35ms\" }], repeat = \"30s\" }";
            return Err(section.missing("schedule", example));
        }
    };
    let in_order = section.read("in_order", Field::bool)?.unwrap_or(false);
    Ok(Delay::Changing(ChangingDelay { steps, in_order }))
}

/// A rate by schedule.
pub(super) fn scheduled_rate(section: &Section<'_>, field: &Field<'_>) -> Result<LinkRate> {
    let value = |section: &Section<'_>| section.require("rate", "rate = \"5Mbit\"", Field::rate);
    Ok(steps(section, field, value)?.into())
}

/// The steps of a schedule, whose values `value` reads.
fn steps<T: Copy>(
    section: &Section<'_>,
    field: &Field<'_>,
    value: impl Fn(&Section<'_>) -> Result<T>,
) -> Result<Steps<T>> {
    let items = field.clone().items()?;
    let step = |item: &Field<'_>| {
        let section = item.clone().section()?;
        Ok((section.require("at", "at = \"15s\"", Field::instant)?, value(&section)?))
    };
    let list = items.iter().map(step).collect::<Result<_>>()?;
    let repeat = section.read("repeat", |field| field.positive(MAX_DURATION))?;
    Steps::new(list, repeat).map_err(|error| wrong(section, field, &items, &error))
}

/// An error in a list, at the item where it is, or at `repeat`.
fn wrong(
    section: &Section<'_>,
    field: &Field<'_>,
    items: &[Field<'_>],
    error: &TraceError,
) -> super::error::ScenarioError {
    let item = error.index.and_then(|index| items.get(index));
    match (item, section.get("repeat")) {
        (Some(item), _) => item.error(&error.reason),
        (None, Some(repeat)) if !items.is_empty() => repeat.error(&error.reason),
        _ => field.error(&error.reason),
    }
}

/// A trace of delays in the file that `field` names.
fn delay_trace(field: &Field<'_>) -> Result<Arc<DelaySteps>> {
    const HELP: &str = "a trace of delays has a time and a delay a line, both in milliseconds, the times in order \
         from 0 on; it starts over at the time of the last line";
    field.traces().delay(field, |text, file| {
        DelaySteps::parse(text).map(Arc::new).map_err(|error| trace_error(file, error, HELP))
    })
}

/// How jitter is distributed, and which keys say more about that.
const DISTRIBUTIONS: [(&str, &[&str]); 4] = [
    ("uniform", &["amount"]),
    ("normal", &["mean", "deviation"]),
    ("exponential", &["mean"]),
    ("pareto", &["mean", "shape"]),
];

/// Jitter, or none of it.
pub(super) fn jitter(field: Field<'_>) -> Result<Option<JitterConfig>> {
    if !field.is_table() {
        let amount = field.duration(Duration::ZERO..=DAY)?;
        return Ok((!amount.is_zero()).then(|| JitterConfig::uniform(amount)));
    }
    let section = field.section()?;
    let names = DISTRIBUTIONS.map(|(name, _)| name);
    let word = section.read("distribution", |field| field.word(&names))?.unwrap_or("uniform");
    for (_, keys) in DISTRIBUTIONS {
        let known = DISTRIBUTIONS.iter().find(|(name, _)| *name == word).map_or(&[][..], |d| d.1);
        let foreign: Vec<&str> = keys.iter().copied().filter(|key| !known.contains(key)).collect();
        let why = format!("jitter that is {word} has {}", known.join(" and "));
        section.forbid(&foreign, &why)?;
    }
    let time = |field: Field<'_>| field.duration(Duration::ZERO..=DAY);
    let mean = || section.require("mean", "mean = \"5ms\"", |field| field.positive(DAY));
    let distribution = match word {
        "normal" => {
            let mean = mean()?;
            let deviation = section.read("deviation", time)?;
            Distribution::Normal { mean, deviation: deviation.unwrap_or(mean.mul_f64(0.25)) }
        }
        "exponential" => Distribution::Exponential { mean: mean()? },
        "pareto" => {
            let shape =
                section.read("shape", |field| match field.clone().float(1.0..=100.0)? {
                    shape if shape > 1.0 => Ok(shape),
                    _ => Err(field.error("must be more than 1, or there is no mean")),
                })?;
            Distribution::Pareto { mean: mean()?, shape: shape.unwrap_or(3.0) }
        }
        _ => Distribution::Uniform {
            most: section.require("amount", "amount = \"5ms\"", |field| field.positive(DAY))?,
        },
    };
    let correlation =
        section.read("correlation", |field| match field.clone().float(0.0..=1.0)? {
            correlation if correlation < 1.0 => Ok(correlation),
            _ => Err(field.error("must be less than 1")),
        })?;
    Ok(Some(JitterConfig {
        distribution,
        correlation: correlation.unwrap_or(0.0),
        interval: section.read("interval", time)?.unwrap_or(Duration::ZERO),
        in_order: section.read("in_order", Field::bool)?.unwrap_or(true),
    }))
}

/// Reordering, or none of it.
pub(super) fn reorder(field: Field<'_>) -> Result<Option<ReorderConfig>> {
    let section = field.section()?;
    let share = section.require("share", "share = 0.01", Field::probability)?;
    let by = section.require("by", "by = \"10ms\"", |field| {
        let text = field.clone().text()?;
        if text.trim_end().ends_with(['p', 't']) || text.contains("packet") {
            return match field.clone().amount()? {
                Amount::Packets(packets @ 1..=1_000_000) => Ok(Lateness::Packets(packets as u32)),
                _ => Err(field.error("must lie between 1 and 1000000 packets")),
            };
        }
        field.positive(DAY).map(Lateness::Time)
    })?;
    Ok((share != Probability::ZERO).then_some(ReorderConfig { share, by }))
}

/// Link-layer retransmission, or none of it.
pub(super) fn arq(field: Field<'_>) -> Result<Option<ArqConfig>> {
    let section = field.section()?;
    let attempts = |field: Field<'_>| field.small(1..=ArqConfig::MOST_ATTEMPTS);
    let delay = |field: Field<'_>| field.duration(Duration::ZERO..=ArqConfig::LONGEST_DELAY);
    let spec = ArqConfig {
        attempts: section.require("attempts", "attempts = 4", attempts)?,
        delay: section.require("delay", "delay = \"5ms\"", delay)?,
        in_order: section.read("in_order", Field::bool)?.unwrap_or(true),
        air_time: section.read("air_time", Field::bool)?.unwrap_or(true),
    };
    Ok((spec.attempts > 1).then_some(spec))
}

/// Outages: a list, or a table with one.
pub(super) fn outages(field: &Field<'_>) -> Result<Option<OutageConfig>> {
    let section = if field.is_table() { Some(field.clone().section()?) } else { None };
    let list = match &section {
        None => field.clone(),
        Some(section) => {
            let example = "schedule = [{ at = \"20s\", length = \"1s\" }]";
            section.require("schedule", example, Ok)?
        }
    };
    let items = list.clone().items()?;
    if items.is_empty() {
        return Ok(None);
    }
    let outage = |item: &Field<'_>| {
        let section = item.clone().section()?;
        let at = section.require("at", "at = \"20s\"", Field::instant)?;
        let length =
            section.require("length", "length = \"1s\"", |field| field.positive(MAX_DURATION))?;
        Ok((at, length))
    };
    let times = items.iter().map(outage).collect::<Result<Vec<_>>>()?;
    let Some(section) = section else {
        let when = Outages::new(&times, None).map_err(|error| {
            let item = error.index.and_then(|index| items.get(index));
            item.unwrap_or(&list).error(&error.reason)
        })?;
        return Ok(Some(OutageConfig { when: when.into(), during: During::Hold }));
    };
    let repeat = section.read("repeat", |field| field.positive(MAX_DURATION))?;
    let when =
        Outages::new(&times, repeat).map_err(|error| wrong(&section, &list, &items, &error))?;
    let meanings = [("hold", During::Hold), ("drop", During::Drop)];
    let during = section.read("during", |field| field.one_of(&meanings))?;
    Ok(Some(OutageConfig { when: when.into(), during: during.unwrap_or_default() }))
}
