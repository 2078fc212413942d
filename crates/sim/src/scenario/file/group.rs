//! A `[[flows]]` table: flows that have all in common but their links and start times.

use std::sync::Arc;

use windward_core::endpoint::{Conduct, EndpointConfig};
use windward_core::network::RouterKind;
use windward_core::units::{Duration, Rate, Time};

use super::arrivals::Plan;
use super::composition;
use super::endpoint::{self, MAX_PACKET_SIZE};
use super::schema;
use super::section::{Amount, Field, Result, Section};
use super::stack;
use crate::scenario::{MAX_DURATION, Media, Pattern, Traffic};

/// The most flows of all groups together. Four links for each reach the bound on links.
pub(super) const MAX_FLOWS: usize = 500_000;

/// How receivers behave.
pub(super) const RECEIVERS: [&str; 5] =
    ["honest", "optimistic", "divides", "duplicates", "hides-marks"];

/// The most intervals of the schedules of all flows of a group together.
const MAX_INTERVALS: usize = 1_000_000;

/// A group of flows.
#[derive(Debug)]
pub(super) struct Group<'a> {
    pub(super) section: Section<'a>,
    pub(super) name: &'a str,
    pub(super) count: usize,
    pub(super) traffic: Traffic,
    pub(super) start: (Time, Time),
    pub(super) stop: Option<Time>,
    /// The process by which its connections come, if they do by themselves.
    pub(super) arrivals: Option<Plan>,
}

impl<'a> Group<'a> {
    /// `defaults` are those of `[endpoint]`, and `common` is that table, if there is one.
    pub(super) fn read(
        field: Field<'a>,
        defaults: &EndpointConfig,
        common: Option<&Section<'a>>,
    ) -> Result<Self> {
        let section = field.section()?;
        let name = section.require("group", "group = \"bulk\"", Field::name)?;
        let section = section.named(format!("flows.{name}"));
        let count = section.read("count", |field| field.integer(1..=MAX_FLOWS as u64))?;
        let mut config = endpoint::read(*defaults, &section)?;
        if let Some(conduct) = section.read("receiver", |field| receiver(&field))? {
            config.receiver = conduct;
        }
        let start = section.read("start", start)?.unwrap_or_default();
        let stop = section.read("stop", |field| {
            let stop = Time::ZERO + field.clone().instant()?;
            if stop > start.1 {
                Ok(stop)
            } else {
                Err(field.error("the flows stop before the last of them starts"))
            }
        })?;
        let count = count.unwrap_or(1) as usize;
        let traffic = traffic(&section, config, common)?;
        if let Traffic::Datagrams { pattern: Pattern::Schedule { intervals }, .. } = &traffic
            && intervals.len().saturating_mul(count) > MAX_INTERVALS
        {
            return Err(section.error(format!(
                "the schedules of all flows have more than {MAX_INTERVALS} intervals"
            )));
        }
        if !matches!(traffic, Traffic::Transport { .. }) {
            section.forbid(&["receiver"], "only protocols of the table have such receivers")?;
        }
        let arrivals = section.read("arrivals", |field| {
            if !traffic.is_connection() {
                return Err(field.error("datagrams make no transfers: give `protocol`"));
            }
            let why = "`arrivals` says how much the flows transfer, and when";
            section.forbid(&["size", "start", "stop"], why)?;
            Plan::read(&field, packet_size(&traffic))
        })?;
        Ok(Group { traffic, count, section, name, start, stop, arrivals })
    }

    /// What the flows ask of routers.
    pub(super) fn router(&self) -> RouterKind {
        self.traffic.router()
    }

    /// Do they ask for notices of corruption?
    pub(super) fn asks_for_notices(&self) -> bool {
        match &self.traffic {
            Traffic::Transport { protocol, .. } => protocol.feedback.notification().is_some(),
            Traffic::Stack { .. } | Traffic::Datagrams { .. } => false,
        }
    }

    /// Size of their data packets, bytes.
    pub(super) fn packet_size(&self) -> u32 {
        packet_size(&self.traffic)
    }

    /// May its packets be of other classes than it is?
    pub(super) fn has_classes(&self) -> bool {
        matches!(&self.traffic, Traffic::Stack { stack, .. } if stack.has_classes())
    }

    /// Size of the largest packets that go back, if there are any.
    pub(super) fn ack_size(&self) -> Option<u32> {
        match &self.traffic {
            Traffic::Transport { config, .. } => Some(config.ack_size),
            // A handshake has large ones.
            Traffic::Stack { config, .. } => Some(config.packet_size),
            Traffic::Datagrams { .. } => None,
        }
    }
}

fn packet_size(traffic: &Traffic) -> u32 {
    match traffic {
        Traffic::Transport { config, .. } => config.packet_size,
        Traffic::Stack { config, .. } => config.packet_size,
        Traffic::Datagrams { packet_size, .. } => *packet_size,
    }
}

/// An instant, or the range it is drawn from.
fn start(field: Field<'_>) -> Result<(Time, Time)> {
    if !field.is_array() {
        let start = Time::ZERO + field.instant()?;
        return Ok((start, start));
    }
    let bounds: Vec<_> = field.clone().items()?;
    let [from, to] = bounds.as_slice() else {
        return Err(field
            .error("a range has two ends")
            .with_help("write for instance [\"0s\", \"1s\"]"));
    };
    let (from, to) = (from.clone().instant()?, to.clone().instant()?);
    if from > to {
        return Err(field.error(format!("the range ends ({to}) before it begins ({from})")));
    }
    Ok((Time::ZERO + from, Time::ZERO + to))
}

fn traffic(
    section: &Section<'_>,
    config: EndpointConfig,
    common: Option<&Section<'_>>,
) -> Result<Traffic> {
    let kinds = ["protocol"].into_iter().chain(schema::DATAGRAMS);
    let mut given = kinds.filter_map(|key| section.get(key).map(|field| (key, field)));
    let Some((kind, field)) = given.next() else {
        return Err(section.error("`protocol` is missing").with_help(
            "write for instance `protocol = \"newreno\"`, or give `cbr`, `on_off`, \
                 `media` or `schedule` for datagrams",
        ));
    };
    if let Some((_, second)) = given.next() {
        return Err(second.error(format!("the flows already have `{kind}`")));
    }
    if kind == "protocol" {
        if let Some(stack) = stack::named(&field)? {
            return stack::read(stack, section, common, &field);
        }
        let preset = match (endpoint::preset(section)?, common) {
            (None, Some(common)) => endpoint::preset(common)?,
            (own, _) => own,
        };
        let mut protocol = composition::read(&field, preset)?;
        for table in common.into_iter().chain([section]) {
            endpoint::configure(&mut protocol, table)?;
        }
        protocol.check().map_err(|wrong| {
            let (axis, part) = wrong.part;
            field.error(format!("{axis} `{part}` {}", wrong.why)).with_help(wrong.remedy)
        })?;
        let packets = section.read("size", |field| size(&field, config.packet_size))?;
        let (protocol, config) = (Arc::new(protocol), Arc::new(config));
        return Ok(Traffic::Transport { protocol, config, packets, arrivals: None });
    }
    section.forbid(&["size"], "datagrams have no size: give `stop`")?;
    datagrams(kind, field, config.packet_size)
}

/// How the receivers behave.
fn receiver(field: &Field<'_>) -> Result<Conduct> {
    let (kind, section) = match field.is_table() {
        false => (field.clone(), None),
        true => {
            let section = field.clone().section()?;
            let kind = section.require("kind", "kind = \"optimistic\"", Ok)?;
            (kind, Some(section))
        }
    };
    let word = kind.word(&RECEIVERS)?;
    let number = |key: &str, range| match &section {
        Some(section) => section.read(key, |field| field.small(range)),
        None => Ok(None),
    };
    let (conduct, own) = match word {
        "optimistic" => {
            let ahead = number("ahead", 0..=1 << 20)?.unwrap_or(0);
            (Conduct::Optimistic { ahead }, "ahead")
        }
        "divides" => {
            let pieces = number("pieces", 2..=1000)?.unwrap_or(4);
            (Conduct::Divides { pieces }, "pieces")
        }
        "duplicates" => {
            let copies = number("copies", 1..=1000)?.unwrap_or(3);
            (Conduct::Duplicates { copies }, "copies")
        }
        "hides-marks" => (Conduct::HidesMarks, ""),
        _ => (Conduct::Honest, ""),
    };
    for key in ["ahead", "pieces", "copies"].into_iter().filter(|key| *key != own) {
        if let Some(field) = section.as_ref().and_then(|section| section.get(key)) {
            return Err(field.error(format!("a receiver that is `{word}` has no such number")));
        }
    }
    Ok(conduct)
}

/// A size in packets, rounded up.
fn size(field: &Field<'_>, packet_size: u32) -> Result<u64> {
    const MOST: u64 = 1 << 53;
    let packets = match field.clone().amount()? {
        Amount::Packets(packets) => packets,
        Amount::Bytes(bytes) => bytes.div_ceil(u64::from(packet_size)),
    };
    if packets > MOST {
        return Err(field.error(format!("at most {MOST} packets")));
    }
    Ok(packets)
}

fn datagrams(kind: &str, field: Field<'_>, default_size: u32) -> Result<Traffic> {
    if kind == "schedule" {
        return Ok(Traffic::Datagrams {
            packet_size: default_size,
            pattern: Pattern::Schedule { intervals: schedule(&field)? },
        });
    }
    let section = field.section()?;
    let size = section.read("packet_size", |field| field.small(1..=MAX_PACKET_SIZE))?;
    let rate = section.require("rate", "rate = \"1Mbit\"", Field::rate)?;
    let packet_size = size.unwrap_or(default_size);
    if kind == "media" {
        let media = media(&section, rate)?;
        media.validate(packet_size).map_err(|wrong| section.error(wrong))?;
        return Ok(Traffic::Datagrams { packet_size, pattern: Pattern::Media(media) });
    }
    let mean = |key, example| -> Result<Duration> {
        section.require(key, example, |field| field.positive(MAX_DURATION))
    };
    let pattern = if kind == "cbr" {
        Pattern::Constant { rate }
    } else {
        Pattern::Exponential {
            rate,
            mean_on: mean("mean_on", "mean_on = \"1s\"")?,
            mean_off: mean("mean_off", "mean_off = \"1s\"")?,
        }
    };
    Ok(Traffic::Datagrams { packet_size, pattern })
}

fn media(section: &Section<'_>, rate: Rate) -> Result<Media> {
    const HOUR: Duration = Duration::from_secs(3600);
    const SHORTEST_REPORT: Duration = Duration::from_millis(10);
    let report = section.read("report_interval", |f| f.duration(SHORTEST_REPORT..=HOUR))?;
    Ok(Media {
        rate,
        fps: section.read("fps", |field| field.above_zero(1000.0))?.unwrap_or(30.0),
        variation: section.read("variation", |field| field.float(0.0..=1.0))?.unwrap_or(0.15),
        deadline: section
            .read("deadline", |field| field.duration(Duration::ZERO..=HOUR))?
            .unwrap_or(Duration::from_millis(100)),
        report_interval: report.unwrap_or(Duration::from_secs(1)),
    })
}

fn schedule(field: &Field<'_>) -> Result<Vec<(Time, Time, Rate)>> {
    let items = field.clone().items()?;
    if items.is_empty() {
        return Err(field.error("a schedule has at least one interval"));
    }
    let mut intervals = Vec::new();
    let mut end = Time::ZERO;
    for item in items {
        let section = item.section()?;
        let from = Time::ZERO + section.require("from", "from = \"5s\"", Field::instant)?;
        let until = Time::ZERO + section.require("until", "until = \"30s\"", Field::instant)?;
        let rate = section.require("rate", "rate = \"1Mbit\"", Field::rate)?;
        if until <= from {
            return Err(section.error("the interval ends before it begins"));
        }
        if from < end {
            return Err(section.error("the interval begins before the one before it ends"));
        }
        end = until;
        intervals.push((from, until, rate));
    }
    Ok(intervals)
}
