//! Compares the expectations of a script with the record of a run.

use std::fmt;

use serde::Serialize;
use windward_core::units::{Duration, Time};

use super::path::{PathRecord, PathState};
use super::{Anchor, Compared, Expectation, Moment, Quantity, Script, Want, label};

/// Result of an expectation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compliance {
    /// As the text requires.
    Met,
    /// Not as the text requires.
    NotMet,
    /// Not as the text requires, which the script notes for this protocol.
    Departs,
    /// As the text requires, although the script notes a departure of this protocol: the script is
    /// wrong.
    DepartsNoMore,
    /// The endpoint has no such quantity, or does not report it.
    NotTold,
}

impl Compliance {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Compliance::Met => "met",
            Compliance::NotMet => "not met",
            Compliance::Departs => "departs, as noted",
            Compliance::DepartsNoMore => "met, contrary to the note",
            Compliance::NotTold => "not reported",
        }
    }

    /// True if it fails the script.
    pub fn is_failure(self) -> bool {
        matches!(self, Compliance::NotMet | Compliance::DepartsNoMore)
    }
}

impl fmt::Display for Compliance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.words())
    }
}

/// One expectation with the observed value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The line of the script.
    pub line: usize,
    /// Its section of the text.
    pub source: String,
    /// Sentence of the text.
    pub says: String,
    /// The moment, as written in the script.
    pub at: String,
    /// Quantity, as written in the script.
    pub quantity: &'static str,
    /// Expected value, in words.
    pub expected: String,
    /// Observed value, in words.
    pub seen: String,
    /// Time of the moment, seconds; `None` if it never came.
    pub seen_at_s: Option<f64>,
    /// Whether the observed value is as expected.
    pub verdict: Compliance,
    /// Reason for a departure, if the script gives one.
    pub reason: Option<String>,
}

/// Results of a script for one protocol.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScriptReport {
    /// The script.
    pub script: String,
    /// Its title.
    pub title: String,
    /// The protocol, as requested.
    pub protocol: String,
    /// One per quantity of each expectation, in the order of the file.
    pub findings: Vec<Finding>,
}

impl ScriptReport {
    /// True if no expectation fails the script.
    pub fn holds(&self) -> bool {
        !self.findings.iter().any(|finding| finding.verdict.is_failure())
    }

    /// Number of findings with that result.
    pub fn count(&self, verdict: Compliance) -> usize {
        self.findings.iter().filter(|finding| finding.verdict == verdict).count()
    }
}

pub(super) fn judge(script: &Script, protocol: &str, record: &PathRecord) -> ScriptReport {
    let mut findings = Vec::new();
    for expectation in &script.expectations {
        for (quantity, want) in &expectation.wants {
            findings.push(finding(script, protocol, record, expectation, *quantity, want));
        }
    }
    ScriptReport {
        script: script.name.clone(),
        title: script.title.clone(),
        protocol: protocol.to_owned(),
        findings,
    }
}

fn finding(
    script: &Script,
    protocol: &str,
    record: &PathRecord,
    expectation: &Expectation,
    quantity: Quantity,
    want: &Want,
) -> Finding {
    let reason = expectation.departs.iter().find(|(name, _)| name == label(protocol));
    let reason = reason.map(|(_, why)| why.clone());
    let end = script.duration;
    let found = at(record, &expectation.at, end);
    let seen_at_s = found.as_ref().ok().map(|found| found.when.as_secs_f64());
    let looked = found.and_then(|found| look(record, quantity, want, &found, end));
    let (met, seen) = match looked {
        Ok(None) => (None, "not reported".to_owned()),
        Ok(Some(seen)) => {
            let met = (want.least..=want.most).contains(&seen);
            (Some(met), want.compared(quantity, seen))
        }
        Err(why) => (Some(false), why),
    };
    let verdict = match (met, &reason) {
        (None, _) => Compliance::NotTold,
        (Some(true), None) => Compliance::Met,
        (Some(true), Some(_)) => Compliance::DepartsNoMore,
        (Some(false), None) => Compliance::NotMet,
        (Some(false), Some(_)) => Compliance::Departs,
    };
    Finding {
        line: expectation.line,
        source: expectation.source.clone(),
        says: expectation.says.clone(),
        at: expectation.at.text.clone(),
        quantity: quantity.word(),
        expected: want.expected(quantity),
        seen,
        seen_at_s,
        verdict,
        reason,
    }
}

/// A moment that came during the run.
struct Found<'a> {
    when: Time,
    state: &'a PathState,
    data: u64,
}

/// The state at a moment, or a message if it never came.
fn at<'a>(record: &'a PathRecord, moment: &Moment, end: Duration) -> Result<Found<'a>, String> {
    let (instant, index, data) = match moment.anchor {
        Anchor::Instant(at) => (at + moment.plus, None, 0),
        Anchor::Event(event, number) => {
            let events = &record.events[event as usize];
            let happened = usize::try_from(number - 1).ok().and_then(|at| events.get(at));
            let Some(happened) = happened else {
                let word = event.word();
                let seen = events.len();
                return Err(format!("only {seen} of the event {word} in {end}, not {number}"));
            };
            let exact = moment.plus.is_zero().then_some(happened.state);
            (happened.at + moment.plus, exact, happened.data)
        }
    };
    if instant > Time::ZERO + end {
        return Err(format!("{} is after the end, {end}", moment.text));
    }
    let states = &record.states;
    let after = match index {
        Some(index) => index + 1,
        None => states.partition_point(|state| state.at <= instant),
    };
    let count = match (moment.before, index) {
        (false, _) => after,
        (true, Some(index)) => index,
        (true, None) => states.partition_point(|state| state.at < instant),
    };
    // The first state is that before all events.
    let state = states[..count.min(states.len())].last().or(states.first());
    let state = state.ok_or_else(|| "nothing happened".to_owned())?;
    Ok(Found { when: instant, state, data })
}

/// Value that is compared with the bounds; `None` where the endpoint has no such quantity.
fn look(
    record: &PathRecord,
    quantity: Quantity,
    want: &Want,
    found: &Found<'_>,
    end: Duration,
) -> Result<Option<f64>, String> {
    let Some(seen) = value(quantity, found) else { return Ok(None) };
    let other = match &want.of {
        Compared::Itself => return Ok(Some(seen)),
        Compared::Beyond(moment) | Compared::Over(moment) => (quantity, moment),
        Compared::OverOther(other, moment) => (*other, moment),
    };
    let Some(before) = value(other.0, &at(record, other.1, end)?) else { return Ok(None) };
    Ok(Some(match want.of {
        Compared::Beyond(_) => seen - before,
        _ => seen / before,
    }))
}

fn value(quantity: Quantity, found: &Found<'_>) -> Option<f64> {
    let PathState { cwnd, ssthresh, in_flight, pacing_rate, srtt, .. } = *found.state;
    let PathState { packets, reductions, ours, .. } = *found.state;
    Some(match quantity {
        Quantity::Cwnd => cwnd,
        Quantity::Ssthresh => ssthresh,
        Quantity::InFlight => in_flight,
        Quantity::PacingRate => pacing_rate?,
        Quantity::Srtt => srtt.as_secs_f64(),
        Quantity::Time => found.when.as_secs_f64(),
        // The data in a stack's packet is not reported.
        Quantity::Data => Some(found.data as f64).filter(|data| *data > 0.0)?,
        Quantity::Packets => packets as f64,
        Quantity::Reductions => reductions as f64,
        Quantity::Retransmissions => ours?.retransmissions as f64,
        Quantity::Timeouts => ours?.timeouts as f64,
        Quantity::Acked => ours?.acked as f64,
    })
}

impl Want {
    fn expected(&self, quantity: Quantity) -> String {
        let Want { least, most, .. } = *self;
        let bounds = if least == f64::NEG_INFINITY {
            format!("at most {}", self.number(quantity, most))
        } else if most == f64::INFINITY && least < most {
            format!("at least {}", self.number(quantity, least))
        } else {
            // An interval that is due to rounding shows as one number.
            let (low, high) = (self.number(quantity, least), self.number(quantity, most));
            if low == high { low } else { format!("{low} to {high}") }
        };
        match &self.of {
            Compared::Itself => bounds,
            Compared::Beyond(moment) => format!("{bounds} more than at {}", moment.text),
            Compared::Over(moment) => format!("{bounds} times that at {}", moment.text),
            Compared::OverOther(other, moment) => {
                format!("{bounds} times {} at {}", other.word(), moment.text)
            }
        }
    }

    fn compared(&self, quantity: Quantity, seen: f64) -> String {
        match self.of {
            Compared::Itself => self.number(quantity, seen),
            Compared::Beyond(_) => format!("{} more", self.number(quantity, seen)),
            Compared::Over(_) | Compared::OverOther(..) => {
                format!("{} times", self.number(quantity, seen))
            }
        }
    }

    fn number(&self, quantity: Quantity, value: f64) -> String {
        let is_ratio = matches!(self.of, Compared::Over(_) | Compared::OverOther(..));
        let text = match quantity.is_time() && !is_ratio {
            true => format!("{:.4}", value * 1e3),
            false => format!("{value:.4}"),
        };
        let text = match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text,
        };
        if quantity.is_time() && !is_ratio { format!("{text} ms") } else { text }
    }
}
