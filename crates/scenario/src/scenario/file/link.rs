//! Links: the keys of a link table, their precedence, and the resulting link.

use std::rc::Rc;

use windward_core::network::{
    AqmConfig, ArqConfig, ChannelConfig, During, Impairments, JitterConfig, LinkRate,
    NotifierConfig, OutageConfig, QueueLimit, RateTrace, ReorderConfig,
};
use windward_core::part;
use windward_core::units::Duration;

use super::bounds::delay_kind;
use super::cell::{self, CellKeys};
use super::channel::{self, BurstKeys, GilbertElliottKeys, NotifierChoice};
use super::impairment::{
    self, ArqKeys, ChangingDelayKeys, Delay, JitterKeys, OutagesKeys, RateStepKeys, ReorderKeys,
};
use super::queue::{self, Classes, RouterChoice};
use super::traces::Traces;
use crate::keys;
use crate::scenario::MAX_DURATION;
use crate::strict_toml::{Field, Result, Section, Shorthand, Spot, TomlType, readers, unnamed};

keys! {
    /// Keys of a link.
    pub(super) struct LinkKeys<'a> in "link" {
        rate: Option<Field<'a>> = readers::any(rate_kind), absent,
            "1bit to 100Tbit, or a trace, a schedule or a cell";
        delay: Option<Field<'a>> = readers::any(changing_delay_kind), absent,
            "propagation delay, 0 to 24h, or a schedule or a trace";
        queue: Option<QueueLimit> = readers::custom(|| TomlType::Text, queue::limit),
            absent "50p", "limit of the queue, in packets (50p) or bytes (64kB)";
        aqm: Option<AqmConfig> = readers::custom(queue::aqm_kind, queue::aqm),
            absent "droptail", "AQM: a kind, or a table";
        router: Option<RouterChoice> = readers::custom(queue::router_kind, queue::router),
            absent "auto", "auto (the kind that the protocols ask for), a kind, or a table";
        classes: Option<Classes> = readers::custom(queue::classes_kind, queue::classes),
            absent "false",
            "true or a table: a queue for each class of protocols, defined by the router that they ask for";
        loss: Option<Field<'a>> = readers::any(|| TomlType::Probability), absent "0",
            "probability that a packet is lost";
        ber: Option<Field<'a>> = readers::any(|| TomlType::Probability), absent "0",
            "probability that a bit is inverted";
        burst: Option<Field<'a>> = readers::any(|| TomlType::table(&[BurstKeys::KEYS])), absent,
            "losses of consecutive packets";
        gilbert_elliott: Option<Field<'a>> =
            readers::any(|| TomlType::table(&[GilbertElliottKeys::KEYS])), absent,
            "a good and a bad state, by packet (p, r) or by time (mean_good, mean_bad)";
        notifier: Option<NotifierChoice> =
            readers::custom(channel::notifier_kind, channel::notifier), absent "auto",
            "notifier of corruption: auto (where flows ask for it), off, configured or measured";
        jitter: Option<Option<JitterConfig>> = readers::custom(jitter_kind, impairment::jitter),
            absent "0s",
            "random delay in addition to `delay`: its maximum, or a distribution";
        reorder: Option<Option<ReorderConfig>> =
            readers::custom(|| TomlType::table(&[ReorderKeys::KEYS]), impairment::reorder),
            absent, "reordering: a share of the packets is late";
        outages: Option<Option<OutageConfig>> = readers::custom(outages_kind, impairment::outages),
            absent "[]", "times without a signal: a list, or a table with one";
        arq: Option<Option<ArqConfig>> =
            readers::custom(|| TomlType::table(&[ArqKeys::KEYS]), impairment::arq), absent,
            "link-layer retransmission of corrupted packets";
        wlan: Option<Field<'a>> = readers::any(|| TomlType::Text), absent,
            "name of the wireless LAN whose medium the link shares";
    }

    /// Keys of `rate` as a table.
    struct RateKeys<'a> in "rate" {
        trace: Option<Field<'a>> = readers::any(|| TomlType::Text), absent,
            "file with a millisecond per line, each an opportunity for 1500 bytes (mahimahi)";
        opportunities: Option<Field<'a>> = readers::any(milliseconds), absent,
            "the same milliseconds as an array";
        schedule: Option<Field<'a>> = readers::any(rate_steps), absent,
            "rates, each from an instant";
        repeat: Option<Duration> = readers::positive(MAX_DURATION), absent "never",
            "schedule: time after which it repeats, later than the last entry";
        cell: Option<Section<'a>> = readers::table(&[CellKeys::KEYS]), absent,
            "random rate of a user in a cell of a mobile network";
    }
}

fn rate_kind() -> TomlType {
    let values = vec![TomlType::Text];
    TomlType::Table { keys: &[RateKeys::KEYS], shorthand: Shorthand::All, values }
}

fn milliseconds() -> TomlType {
    let stamp = part::ValueKind::Integer { least: 0, most: RateTrace::LONGEST_MS };
    TomlType::List(Box::new(TomlType::Parameter(stamp)))
}

fn rate_steps() -> TomlType {
    TomlType::Tables { keys: &[RateStepKeys::KEYS], name_of: unnamed }
}

fn changing_delay_kind() -> TomlType {
    let values = vec![delay_kind()];
    TomlType::Table { keys: &[ChangingDelayKeys::KEYS], shorthand: Shorthand::All, values }
}

fn jitter_kind() -> TomlType {
    let values = vec![delay_kind()];
    TomlType::Table { keys: &[JitterKeys::KEYS], shorthand: Shorthand::All, values }
}

fn outages_kind() -> TomlType {
    let values = vec![impairment::outage_list()];
    TomlType::Table { keys: &[OutagesKeys::KEYS], shorthand: Shorthand::Key("schedule"), values }
}

/// The settings of a link in one or several tables; a later table overrides an earlier one.
#[derive(Debug, Clone)]
pub(super) struct LinkFields {
    rate: Option<LinkRate>,
    delay: Option<Delay>,
    queue: Option<QueueLimit>,
    aqm: Option<AqmConfig>,
    router: Option<RouterChoice>,
    classes: Option<Classes>,
    channel: Option<ChannelConfig>,
    notifier: Option<NotifierChoice>,
    /// The inner `None` is jitter that a table turns off.
    jitter: Option<Option<JitterConfig>>,
    reorder: Option<Option<ReorderConfig>>,
    outages: Option<Option<OutageConfig>>,
    arq: Option<Option<ArqConfig>>,
    wlan: Option<(String, Spot)>,
    spot: Spot,
}

/// A link with all settings except for the routers that flows ask for.
#[derive(Debug, Clone)]
pub(super) struct LinkPlan {
    pub(super) rate: LinkRate,
    /// Its long-run mean, if it changes.
    pub(super) delay: Duration,
    pub(super) limit: QueueLimit,
    pub(super) aqm: AqmConfig,
    pub(super) router: RouterChoice,
    pub(super) classes: Classes,
    pub(super) channel: ChannelConfig,
    /// True if the file gives the losses of this link, even if they are zero.
    pub(super) speaks_of_losses: bool,
    pub(super) notifier: NotifierChoice,
    pub(super) impairments: Impairments,
    /// The name of the wireless LAN whose medium it shares, and where the file has it.
    pub(super) wlan: Option<(String, Spot)>,
    pub(super) spot: Spot,
}

impl LinkFields {
    /// A link without settings, for errors at `spot`.
    pub(super) fn empty(spot: Spot) -> Self {
        LinkFields {
            rate: None,
            delay: None,
            queue: None,
            aqm: None,
            router: None,
            classes: None,
            channel: None,
            notifier: None,
            jitter: None,
            reorder: None,
            outages: None,
            arq: None,
            wlan: None,
            spot,
        }
    }

    pub(super) fn read(section: &Section<'_>, traces: &Traces) -> Result<Self> {
        let keys = LinkKeys::read(section)?;
        Ok(LinkFields {
            rate: keys.rate.map(|field| rate(&field, traces)).transpose()?,
            delay: keys.delay.map(|field| impairment::delay(&field, traces)).transpose()?,
            queue: keys.queue,
            aqm: keys.aqm,
            router: keys.router,
            classes: keys.classes,
            channel: channel::channel([
                ("loss", keys.loss),
                ("ber", keys.ber),
                ("burst", keys.burst),
                ("gilbert_elliott", keys.gilbert_elliott),
            ])?,
            notifier: keys.notifier,
            jitter: keys.jitter,
            reorder: keys.reorder,
            arq: keys.arq,
            outages: keys.outages,
            wlan: match keys.wlan {
                Some(field) => Some((field.name()?.to_owned(), field.spot())),
                None => None,
            },
            spot: section.spot(),
        })
    }

    /// The fields of `self`, overridden by those of `over`.
    pub(super) fn with(&self, over: Option<&Self>) -> Self {
        let Some(over) = over.cloned() else {
            return self.clone();
        };
        let base = self.clone();
        LinkFields {
            rate: over.rate.or(base.rate),
            delay: over.delay.or(base.delay),
            queue: over.queue.or(base.queue),
            aqm: over.aqm.or(base.aqm),
            router: over.router.or(base.router),
            classes: over.classes.or(base.classes),
            channel: over.channel.or(base.channel),
            notifier: over.notifier.or(base.notifier),
            jitter: over.jitter.or(base.jitter),
            reorder: over.reorder.or(base.reorder),
            outages: over.outages.or(base.outages),
            arq: over.arq.or(base.arq),
            wlan: over.wlan.or(base.wlan),
            spot: over.spot,
        }
    }

    /// The reverse link: the same wire, queue and schedules, without losses, jitter, reordering
    /// and classes, and with the router that its flows need.
    pub(super) fn mirrored(&self) -> Self {
        LinkFields {
            router: None,
            classes: None,
            channel: None,
            notifier: None,
            jitter: None,
            reorder: None,
            arq: None,
            ..self.clone()
        }
    }

    /// True if the delay changes by itself.
    pub(super) fn delay_changes(&self) -> bool {
        matches!(self.delay, Some(Delay::Changing(_)))
    }

    /// Checks that nothing else moves packets of a link that shares a medium.
    fn check_wlan(&self) -> Result<()> {
        let Some((_, spot)) = &self.wlan else { return Ok(()) };
        let others = [
            ("rate` of a trace", matches!(self.rate, Some(LinkRate::Trace(_)))),
            ("rate` of a cell", matches!(self.rate, Some(LinkRate::Cell(_)))),
            ("delay` that changes", self.delay_changes()),
            ("jitter`", matches!(self.jitter, Some(Some(_)))),
            ("reorder`", matches!(self.reorder, Some(Some(_)))),
            ("outages`", matches!(self.outages, Some(Some(_)))),
            ("arq`", matches!(self.arq, Some(Some(_)))),
            (
                "notifier`",
                matches!(self.notifier, Some(NotifierChoice::Fixed(spec)) if spec != NotifierConfig::Off),
            ),
        ];
        match others.into_iter().find(|(_, is_there)| *is_there) {
            Some((key, _)) => {
                Err(spot.error(format!("a link of a wireless LAN cannot have a `{key}")).with_help(
                    "the medium decides when packets leave and are retransmitted: remove one of \
                     both keys",
                ))
            }
            None => Ok(()),
        }
    }

    pub(super) fn finish(self) -> Result<Rc<LinkPlan>> {
        self.check_wlan()?;
        let missing = |key: &str, example: &str| {
            self.spot
                .error(format!("`{key}` is missing"))
                .with_help(format!("write for instance `{example}`"))
        };
        let rate = self.rate.ok_or_else(|| missing("rate", "rate = \"5Mbit\""))?;
        let delay = self.delay.ok_or_else(|| missing("delay", "delay = \"20ms\""))?;
        let outages = self.outages.flatten();
        if let (LinkRate::Trace(_), Some(OutageConfig { during: During::Hold, .. })) =
            (&rate, &outages)
        {
            let message = "a rate trace cannot be combined with `outages` that hold packets";
            return Err(self.spot.error(message).with_help(
                "remove the opportunities from the trace, or destroy the packets sent: \
                 `outages.during = \"drop\"`",
            ));
        }
        let arq = self.arq.flatten();
        if let (LinkRate::Trace(_), Some(ArqConfig { air_time: true, .. })) = (&rate, &arq) {
            let message =
                "a rate trace cannot be combined with retransmissions that take time on the wire";
            return Err(self.spot.error(message).with_help("write `arq.air_time = false`"));
        }
        Ok(Rc::new(LinkPlan {
            rate,
            delay: delay.mean(),
            impairments: Impairments {
                delay: match delay {
                    Delay::Constant(_) => None,
                    Delay::Changing(delay) => Some(delay),
                },
                jitter: self.jitter.flatten(),
                reorder: self.reorder.flatten(),
                outages,
                arq,
            },
            limit: self.queue.unwrap_or_default(),
            aqm: self.aqm.unwrap_or_default(),
            router: self.router.unwrap_or(RouterChoice::Auto),
            classes: self.classes.unwrap_or_default(),
            speaks_of_losses: self.channel.is_some(),
            channel: self.channel.unwrap_or_default(),
            notifier: self.notifier.unwrap_or(NotifierChoice::Auto),
            wlan: self.wlan,
            spot: self.spot,
        }))
    }
}

/// A rate, or a table with a trace or a schedule.
fn rate(field: &Field<'_>, traces: &Traces) -> Result<LinkRate> {
    if !field.is_table() {
        return Ok(field.rate()?.into());
    }
    let section = field.section()?;
    let keys = RateKeys::read(&section)?;
    if let Some(cell) = keys.cell {
        let others = ["trace", "opportunities", "schedule", "repeat"];
        section.forbid(&others, "the rate is already that of a `cell`")?;
        return cell::read(&cell).map(LinkRate::from);
    }
    if let Some(field) = keys.schedule {
        section.forbid(&["trace", "opportunities"], "the rate already has a `schedule`")?;
        return impairment::scheduled_rate(&section, &field, keys.repeat);
    }
    section.forbid(
        &["repeat"],
        "does not apply to a trace, which repeats after its last opportunity",
    )?;
    match (keys.trace, keys.opportunities) {
        (Some(field), None) => traces.rate(&field),
        (None, Some(field)) => Ok(opportunities(&field)?.into()),
        (Some(_), Some(_)) => {
            Err(section.error("`trace` and `opportunities` exclude each other: give one of them"))
        }
        (None, None) => Err(section.missing("trace", "rate = { trace = \"cellular.trace\" }")),
    }
}

/// A rate trace given in the scenario file.
fn opportunities(field: &Field<'_>) -> Result<RateTrace> {
    let items = field.items()?;
    let stamps: Result<_> =
        items.iter().map(|item| item.integer(0..=RateTrace::LONGEST_MS)).collect();
    RateTrace::new(stamps?).map_err(|error| {
        let item = error.index.and_then(|index| items.get(index));
        item.unwrap_or(field).error(error.reason)
    })
}
