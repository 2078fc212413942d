//! A `[[flows]]` table: flows that differ only in their links and start times.

use std::sync::Arc;

use windward_core::endpoint::{Conduct, EndpointConfig};
use windward_core::network::RouterKind;
use windward_core::units::{Duration, Rate, Time};

use super::arrivals::{ArrivalKeys, Plan};
use super::bounds::{INSTANTS, MAX_PACKET_SIZE, MAX_SIZE};
use super::composition;
use super::endpoint::{self, Preset};
use super::given::Given;
use super::media;
use super::stack;
use crate::keys;
use crate::scenario::{MAX_DURATION, Pattern, Traffic};
use crate::strict_toml::{Amount, Field, Result, Section, Shorthand, TomlType, readers, unnamed};

/// Maximum number of flows of all groups together. With four links each, they reach the limit on
/// links.
pub(super) const MAX_FLOWS: usize = 2_000_000;

/// Behaviours of receivers.
const RECEIVERS: &[&str] = &["honest", "optimistic", "divides", "duplicates", "hides-marks"];

/// The keys of groups of datagrams.
pub(super) const DATAGRAMS: [&str; 4] = ["cbr", "on_off", "media", "schedule"];

keys! {
    /// Keys of `[[flows]]`, except for those of routes and endpoints.
    pub(super) struct GroupKeys<'a> in "group" {
        group: &'a str = readers::name(), needed "group = \"bulk\"", "unique name of the group";
        count: u64 = readers::integer(1..=MAX_FLOWS as u64), or 1,
            "number of flows, 1 to 500000 in all groups";
        protocol: Option<Field<'a>> = readers::any(composition::kind), absent,
            "a name of the protocol table, or parts by name; or cbr, on_off, media, schedule";
        cbr: Option<Field<'a>> = readers::any(|| TomlType::table(&[ConstantKeys::KEYS])), absent,
            "datagrams at a constant rate";
        on_off: Option<Field<'a>> = readers::any(|| TomlType::table(&[OnOffKeys::KEYS])), absent,
            "datagrams, exponential on and off times";
        media: Option<Field<'a>> = readers::any(|| TomlType::table(media::KEYS)), absent,
            "frames of live video (RFC 8593)";
        schedule: Option<Field<'a>> = readers::any(intervals), absent,
            "datagrams during given intervals";
        size: Option<Field<'a>> = readers::any(|| TomlType::Text), absent "no end of data",
            "amount to transfer, in bytes (10MB) or packets (1000p)";
        arrivals: Option<Field<'a>> =
            readers::any(|| TomlType::table(&[ArrivalKeys::KEYS])), absent,
            "transfers that arrive at random between `count` pairs of hosts, each a connection";
        receiver: Option<Conduct> = readers::custom(receiver_kind, receiver), absent "honest",
            "behaviour of the receivers: a kind, or a table";
        start: Option<(Time, Time)> = readers::custom(start_kind, start), absent "0s",
            "an instant, or a range [\"0s\", \"1s\"] from which each flow draws one";
        stop: Option<Duration> = readers::time(INSTANTS), absent "never",
            "end of the data; after start";
        bottleneck: Option<Field<'a>> = readers::any(|| TomlType::Text), absent "slowest link",
            "link at which throughput is measured";
    }
}

fn start_kind() -> TomlType {
    let instant = (readers::time(INSTANTS).kind)();
    TomlType::OneOf(vec![instant.clone(), TomlType::List(Box::new(instant))])
}

fn receiver_kind() -> TomlType {
    TomlType::Table {
        keys: &[ReceiverKeys::KEYS],
        shorthand: Shorthand::Key("kind"),
        values: vec![TomlType::Words(RECEIVERS.to_vec())],
    }
}

keys! {
    /// Keys of `receiver` as a table.
    struct ReceiverKeys<'a> in "receiver" {
        kind: &'a str = readers::word(RECEIVERS), needed "kind = \"optimistic\"",
            "honest, optimistic, divides, duplicates or hides-marks";
        ahead: u32 = readers::small(0..=1 << 20), or 0,
            "optimistic: packets acknowledged beyond the highest seen, 0 to 2^20";
        pieces: u32 = readers::small(2..=1000), or 4,
            "divides: acknowledgments of one packet, 2 to 1000";
        copies: u32 = readers::small(1..=1000), or 3,
            "duplicates: copies of each acknowledgment, 1 to 1000";
    }

    /// Keys of `cbr`.
    struct ConstantKeys in "cbr" {
        rate: Rate = readers::rate(), needed "rate = \"1Mbit\"", "sending rate on the wire";
        packet_size: Option<u32> = readers::small(1..=MAX_PACKET_SIZE),
            absent "that of the flow", "bytes on the wire";
    }

    /// Keys of `on_off`.
    struct OnOffKeys in "on_off" {
        rate: Rate = readers::rate(), needed "rate = \"1Mbit\"", "sending rate while on";
        mean_on: Duration = readers::positive(MAX_DURATION), needed "mean_on = \"1s\"",
            "mean on time, up to 2400h";
        mean_off: Duration = readers::positive(MAX_DURATION), needed "mean_off = \"1s\"",
            "mean off time, up to 2400h";
        packet_size: Option<u32> = readers::small(1..=MAX_PACKET_SIZE),
            absent "that of the flow", "bytes on the wire";
    }
}

fn intervals() -> TomlType {
    TomlType::Tables { keys: &[IntervalKeys::KEYS], name_of: unnamed }
}

keys! {
    /// Keys of an interval of `schedule`.
    struct IntervalKeys in "interval" {
        from: Duration = readers::time(INSTANTS), needed "from = \"5s\"",
            "start of the interval";
        until: Duration = readers::time(INSTANTS), needed "until = \"30s\"",
            "end of the interval";
        rate: Rate = readers::rate(), needed "rate = \"1Mbit\"",
            "sending rate during the interval";
    }
}

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
    /// The process of its arrivals, if its connections arrive at random.
    pub(super) arrivals: Option<Plan>,
    /// The link at which throughput is measured, if the file names one.
    pub(super) bottleneck: Option<Field<'a>>,
}

impl<'a> Group<'a> {
    /// Reads a group. `defaults` are those of `[endpoint]`, and `common` is that table, if there is
    /// one.
    pub(super) fn read(
        section: &Section<'a>,
        defaults: &EndpointConfig,
        common: Option<&Section<'a>>,
        given: Given<'_>,
    ) -> Result<Self> {
        let name = section.require("group", "group = \"bulk\"", &readers::name())?;
        let section = section.clone().named(format!("flows.{name}"));
        let keys = GroupKeys::read(&section)?;
        let mut config = endpoint::read(*defaults, &section)?;
        config.receiver = keys.receiver.unwrap_or(config.receiver);
        let start = keys.start.unwrap_or_default();
        let stop = keys.stop.map(|stop| Time::ZERO + stop);
        if stop.is_some_and(|stop| stop <= start.1) {
            let message = "the flows stop before the last of them starts";
            return Err(section.error_at("stop", message));
        }
        let count = keys.count as usize;
        let traffic = traffic(&section, &keys, config, common, given)?;
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
        let arrivals = keys.arrivals.map(|field| {
            if !traffic.is_connection() {
                return Err(field.error("does not apply to datagrams: give the flows a `protocol`"));
            }
            let why =
                "cannot be combined with `arrivals`, which has the sizes and times of transfers";
            section.forbid(&["size", "start", "stop"], why)?;
            Plan::read(&field, packet_size(&traffic))
        });
        let arrivals = arrivals.transpose()?;
        let (name, bottleneck) = (keys.group, keys.bottleneck);
        Ok(Group { traffic, count, section, name, start, stop, arrivals, bottleneck })
    }

    /// The router that the flows ask for.
    pub(super) fn router(&self) -> RouterKind {
        self.traffic.router()
    }

    /// True if the flows ask for notices of corruption.
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

    /// True if its packets may be of several classes.
    pub(super) fn has_classes(&self) -> bool {
        matches!(&self.traffic, Traffic::Stack { stack, .. } if stack.has_classes())
    }

    /// Size of the largest packets on the reverse route, bytes; `None` without any.
    pub(super) fn ack_size(&self) -> Option<u32> {
        match &self.traffic {
            Traffic::Transport { config, .. } => Some(config.ack_size),
            // A handshake has large packets in both directions.
            Traffic::Stack { config, .. } => Some(config.packet_size),
            Traffic::Datagrams { packet_size, pattern } => {
                pattern.adaptation().map(|adaptation| adaptation.report_size(*packet_size))
            }
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

/// An instant, or the range from which it is drawn.
fn start(field: &Field<'_>) -> Result<(Time, Time)> {
    if !field.is_array() {
        let start = Time::ZERO + field.duration(INSTANTS)?;
        return Ok((start, start));
    }
    let bounds = field.items()?;
    let [from, to] = bounds.as_slice() else {
        return Err(field
            .error("expected a range of two instants")
            .with_help("write for instance [\"0s\", \"1s\"]"));
    };
    let (from, to) = (from.duration(INSTANTS)?, to.duration(INSTANTS)?);
    if from > to {
        return Err(field.error(format!("the range ends ({to}) before it begins ({from})")));
    }
    Ok((Time::ZERO + from, Time::ZERO + to))
}

fn traffic(
    section: &Section<'_>,
    keys: &GroupKeys<'_>,
    config: EndpointConfig,
    common: Option<&Section<'_>>,
    given: Given<'_>,
) -> Result<Traffic> {
    let kinds = [
        ("protocol", &keys.protocol),
        ("cbr", &keys.cbr),
        ("on_off", &keys.on_off),
        ("media", &keys.media),
        ("schedule", &keys.schedule),
    ];
    let mut present = kinds.into_iter().filter_map(|(key, field)| Some((key, field.as_ref()?)));
    let Some((kind, field)) = present.next() else {
        return Err(section.error("`protocol` is missing").with_help(
            "write for instance `protocol = \"newreno\"`, or give `cbr`, `on_off`, \
             `media` or `schedule` for datagrams",
        ));
    };
    if let Some((_, second)) = present.next() {
        return Err(second.error(format!("the flows already have `{kind}`")));
    }
    if kind == "protocol" {
        if let Some(stack) = stack::named(field, given.stacks)? {
            return stack::read(stack, section, common, field);
        }
        let preset = match (endpoint::preset(section)?, common) {
            (None, Some(common)) => endpoint::preset(common)?,
            (Some(Preset::None), Some(common))
                if endpoint::preset(common)? == Some(Preset::Linux) =>
            {
                return Err(section.error("the preset of `[endpoint]` is in force").with_help(
                    "give `preset` in the groups that shall have it, not in `[endpoint]`",
                ));
            }
            (own, _) => own,
        };
        let mut protocol = composition::read(field, preset, given.protocols)?;
        for table in common.into_iter().chain([section]) {
            endpoint::configure(&mut protocol, table)?;
        }
        protocol.check().map_err(|wrong| {
            let (axis, part) = wrong.part;
            field.error(format!("{axis} `{part}` {}", wrong.why)).with_help(wrong.remedy)
        })?;
        let packets = keys.size.as_ref().map(|field| size(field, config.packet_size));
        let packets = packets.transpose()?;
        let (protocol, config) = (Arc::new(protocol), Arc::new(config));
        return Ok(Traffic::Transport { protocol, config, packets, arrivals: None });
    }
    section.forbid(&["size"], "does not apply to datagrams: give `stop`")?;
    datagrams(kind, field, config.packet_size)
}

/// The behaviour of the receivers.
fn receiver(field: &Field<'_>) -> Result<Conduct> {
    let section = if field.is_table() { Some(field.section()?) } else { None };
    let keys = match &section {
        Some(section) => ReceiverKeys::read(section)?,
        None => ReceiverKeys { kind: field.word(RECEIVERS)?, ahead: 0, pieces: 4, copies: 3 },
    };
    let ReceiverKeys { kind, ahead, pieces, copies } = keys;
    let (conduct, own) = match kind {
        "optimistic" => (Conduct::Optimistic { ahead }, "ahead"),
        "divides" => (Conduct::Divides { pieces }, "pieces"),
        "duplicates" => (Conduct::Duplicates { copies }, "copies"),
        "hides-marks" => (Conduct::HidesMarks, ""),
        _ => (Conduct::Honest, ""),
    };
    if let Some(section) = section {
        let others: Vec<&str> =
            ["ahead", "pieces", "copies"].into_iter().filter(|key| *key != own).collect();
        section.forbid(&others, &format!("does not apply to a receiver of kind `{kind}`"))?;
    }
    Ok(conduct)
}

/// A size, rounded up to packets.
fn size(field: &Field<'_>, packet_size: u32) -> Result<u64> {
    let packets = match field.amount()? {
        Amount::Packets(packets) => packets,
        Amount::Bytes(bytes) => bytes.div_ceil(u64::from(packet_size)),
    };
    if packets > MAX_SIZE {
        return Err(field.error(format!("must be at most {MAX_SIZE} packets")));
    }
    Ok(packets)
}

fn datagrams(kind: &str, field: &Field<'_>, default_size: u32) -> Result<Traffic> {
    let (packet_size, pattern) = match kind {
        "schedule" => (None, Pattern::Schedule { intervals: schedule(field)? }),
        "media" => media::read(field, default_size)?,
        "cbr" => {
            let ConstantKeys { rate, packet_size } = ConstantKeys::read(&field.section()?)?;
            (packet_size, Pattern::Constant { rate })
        }
        _ => {
            let OnOffKeys { rate, mean_on, mean_off, packet_size } =
                OnOffKeys::read(&field.section()?)?;
            (packet_size, Pattern::Exponential { rate, mean_on, mean_off })
        }
    };
    Ok(Traffic::Datagrams { packet_size: packet_size.unwrap_or(default_size), pattern })
}

fn schedule(field: &Field<'_>) -> Result<Vec<(Time, Time, Rate)>> {
    let items = field.items()?;
    if items.is_empty() {
        return Err(field.error("a schedule must have at least one interval"));
    }
    let mut intervals = Vec::new();
    let mut end = Time::ZERO;
    for item in items {
        let section = item.section()?;
        let IntervalKeys { from, until, rate } = IntervalKeys::read(&section)?;
        let (from, until) = (Time::ZERO + from, Time::ZERO + until);
        if until <= from {
            return Err(section.error("the interval must end after it starts"));
        }
        if from < end {
            return Err(section.error("the interval starts before the previous one ends"));
        }
        end = until;
        intervals.push((from, until, rate));
    }
    Ok(intervals)
}
