//! Links: the keys of a link table, what overrides what, and what they come to.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use windward_core::network::{
    AqmConfig, ArqConfig, ChainClock, ChannelConfig, DelaySteps, During, Impairments, JitterConfig,
    LinkRate, NotifierConfig, OutageConfig, QueueLimit, RateTrace, ReorderConfig, RouterConfig,
    RouterKind, TraceError,
};
use windward_core::part::{self, AnyPart, Setting, Value};
use windward_core::units::{Duration, Probability};

use super::error::{Place, ScenarioError};
use super::impairment::{self, Delay};
use super::parameter;
use super::section::{Amount, Field, Result, Section, Spot};
use crate::input::read_text;
use crate::scenario::MAX_DURATION;

/// What one or several tables say about a link; a later table goes over an earlier one.
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
    /// That there is none may be said too.
    jitter: Option<Option<JitterConfig>>,
    reorder: Option<Option<ReorderConfig>>,
    outages: Option<Option<OutageConfig>>,
    arq: Option<Option<ArqConfig>>,
    spot: Spot,
}

/// A link with everything known but the routers that flows ask for.
#[derive(Debug, Clone)]
pub(super) struct LinkPlan {
    pub(super) rate: LinkRate,
    /// In the long run, if it changes.
    pub(super) delay: Duration,
    pub(super) limit: QueueLimit,
    pub(super) aqm: AqmConfig,
    pub(super) router: RouterChoice,
    pub(super) classes: Classes,
    pub(super) channel: ChannelConfig,
    /// Does the file speak of losses here, if only to say that there are none?
    pub(super) speaks_of_losses: bool,
    pub(super) notifier: NotifierChoice,
    pub(super) impairments: Impairments,
    pub(super) spot: Spot,
}

/// The router before a wire.
#[derive(Debug, Clone)]
pub(super) enum RouterChoice {
    /// What the protocols of the flows that cross ask for.
    Auto,
    /// This one.
    Fixed(RouterConfig, Spot),
}

/// Queues by class of protocols.
#[derive(Debug, Clone, Default)]
pub(super) enum Classes {
    /// One queue for all.
    #[default]
    None,
    /// A queue for every class that crosses, with what the file says of some.
    Each(Vec<(RouterKind, Class)>),
}

/// What a link says about one of its classes.
#[derive(Debug, Clone)]
pub(super) struct Class {
    pub(super) weight: f64,
    pub(super) limit: Option<QueueLimit>,
    pub(super) aqm: Option<AqmConfig>,
    pub(super) router: Option<RouterChoice>,
}

impl Default for Class {
    fn default() -> Self {
        Class { weight: 1.0, limit: None, aqm: None, router: None }
    }
}

/// The notifier at the far end of a wire.
#[derive(Debug, Clone, Copy)]
pub(super) enum NotifierChoice {
    /// One that knows the channel's rate, where the link loses packets of flows that ask for it.
    Auto,
    /// This one.
    Fixed(NotifierConfig),
}

impl LinkFields {
    /// A link about which nothing is said, for errors at `spot`.
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
            spot,
        }
    }

    pub(super) fn read(section: &Section<'_>) -> Result<Self> {
        Ok(LinkFields {
            rate: section.read("rate", rate)?,
            delay: section.read("delay", impairment::delay)?,
            queue: section.read("queue", |field| queue(&field))?,
            aqm: section.read("aqm", |field| aqm(&field))?,
            router: section.read("router", |field| router(&field))?,
            classes: section.read("classes", classes)?,
            channel: channel(section)?,
            notifier: section.read("notifier", notifier)?,
            jitter: section.read("jitter", impairment::jitter)?,
            reorder: section.read("reorder", impairment::reorder)?,
            arq: section.read("arq", impairment::arq)?,
            outages: section.read("outages", |field| impairment::outages(&field))?,
            spot: section.spot(),
        })
    }

    /// The table under `key` of `section`, if there is one.
    pub(super) fn under(section: &Section<'_>, key: &str) -> Result<Option<Self>> {
        section.read(key, |field| Self::read(&field.section()?))
    }

    /// These fields with those that `over` has put in their place.
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
            spot: over.spot,
        }
    }

    /// The way back: the same wire and queue, at the same times, without losses, jitter, reordering
    /// and classes and with the router it needs.
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

    /// Does the delay change by itself?
    pub(super) fn delay_changes(&self) -> bool {
        matches!(self.delay, Some(Delay::Changing(_)))
    }

    pub(super) fn finish(self) -> Result<Rc<LinkPlan>> {
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
            let message = "a rate that is a trace says by itself when nothing is sent";
            return Err(self.spot.error(message).with_help(
                "leave the opportunities out of the trace, or destroy what is sent: \
                 `outages.during = \"drop\"`",
            ));
        }
        let arq = self.arq.flatten();
        if let (LinkRate::Trace(_), Some(ArqConfig { air_time: true, .. })) = (&rate, &arq) {
            let message = "the opportunities of a trace cannot be set aside for retransmissions";
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
            spot: self.spot,
        }))
    }
}

/// A rate, or a table with a trace.
fn rate(field: Field<'_>) -> Result<LinkRate> {
    if !field.is_table() {
        return Ok(field.rate()?.into());
    }
    let section = field.section()?;
    if let Some(field) = section.get("schedule") {
        section.forbid(&["trace", "opportunities"], "the rate already has a `schedule`")?;
        return impairment::scheduled_rate(&section, &field);
    }
    section.forbid(&["repeat"], "a trace starts over after its last opportunity")?;
    match (section.get("trace"), section.get("opportunities")) {
        (Some(field), None) => trace_file(&field),
        (None, Some(field)) => Ok(opportunities(&field)?.into()),
        (Some(_), Some(_)) => {
            Err(section.error("`trace` and `opportunities` say the same: give one of them"))
        }
        (None, None) => Err(section.missing("trace", "rate = { trace = \"cellular.trace\" }")),
    }
}

/// The trace files read so far, by path.
#[derive(Debug, Default)]
pub(super) struct Traces {
    rates: Mutex<BTreeMap<PathBuf, LinkRate>>,
    delays: Mutex<BTreeMap<PathBuf, Arc<DelaySteps>>>,
}

impl Traces {
    /// Paths and contents, in the order of the paths.
    pub(super) fn hash(&self, state: &mut impl Hasher) {
        self.rates.lock().unwrap_or_else(PoisonError::into_inner).hash(state);
        self.delays.lock().unwrap_or_else(PoisonError::into_inner).hash(state);
    }

    /// The trace of delays in the file that `field` names, whose text `parse` reads.
    pub(super) fn delay(
        &self,
        field: &Field<'_>,
        parse: impl Fn(&str, String) -> Result<Arc<DelaySteps>>,
    ) -> Result<Arc<DelaySteps>> {
        once(&self.delays, field, parse)
    }
}

/// What is in the file that `field` names, as seen from the scenario's folder: read once.
fn once<T: Clone>(
    known: &Mutex<BTreeMap<PathBuf, T>>,
    field: &Field<'_>,
    parse: impl Fn(&str, String) -> Result<T>,
) -> Result<T> {
    let name = field.clone().text()?;
    let path = field.folder().join(name);
    // What a thread that panicked left is complete: it is only added to.
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(trace) = known.get(&path) {
        return Ok(trace.clone());
    }
    let trace = parse(&read_trace(field, &path)?, path.display().to_string())?;
    known.insert(path, trace.clone());
    Ok(trace)
}

/// A trace of opportunities in the file that `field` names.
fn trace_file(field: &Field<'_>) -> Result<LinkRate> {
    const HELP: &str = "a trace has one time stamp in whole milliseconds a line, in order, each \
                        good for 1500 bytes";
    once(&field.traces().rates, field, |text, file| {
        RateTrace::parse(text).map(LinkRate::from).map_err(|error| trace_error(file, error, HELP))
    })
}

/// What is wrong in the text of a trace.
pub(super) fn trace_error(file: String, error: TraceError, help: &str) -> ScenarioError {
    let place = match error.index {
        Some(index) => Place::Line { file, line: index + 1 },
        None => Place::File { file },
    };
    ScenarioError::new(place, error.reason).with_help(help)
}

fn read_trace(field: &Field<'_>, path: &Path) -> Result<String> {
    const LARGEST: u64 = 64 << 20;
    let shown = path.display().to_string();
    read_text(path, LARGEST).map_err(|error| match error.kind() {
        ErrorKind::NotFound => field
            .error(format!("no such file: {shown}"))
            .with_help("the path is relative to the folder of the scenario file"),
        ErrorKind::IsADirectory => field.error(format!("{shown} is a directory")),
        ErrorKind::FileTooLarge => {
            field.error(format!("{shown} is larger than {} MiB", LARGEST >> 20))
        }
        ErrorKind::InvalidData => field.error(format!("{shown} is not a text")),
        _ => field.error(format!("{shown} cannot be read: {error}")),
    })
}

/// A trace in the scenario itself.
fn opportunities(field: &Field<'_>) -> Result<RateTrace> {
    let items = field.clone().items()?;
    let stamps: Result<_> =
        items.iter().map(|item| item.clone().integer(0..=RateTrace::LONGEST_MS)).collect();
    RateTrace::new(stamps?).map_err(|error| {
        let item = error.index.and_then(|index| items.get(index));
        item.unwrap_or(field).error(error.reason)
    })
}

fn queue(field: &Field<'_>) -> Result<QueueLimit> {
    match field.clone().amount()? {
        Amount::Packets(packets) => u32::try_from(packets)
            .map(QueueLimit::Packets)
            .map_err(|_| field.error("at most 4294967295 packets")),
        Amount::Bytes(bytes) => Ok(QueueLimit::Bytes(bytes)),
    }
}

fn aqm(field: &Field<'_>) -> Result<AqmConfig> {
    let forms = AqmConfig::forms();
    let names: Vec<&str> = forms.iter().map(|(words, _)| words.name).collect();
    let (kind, section) = kind(field, &names, "kind = \"codel\"")?;
    let mut spec = AqmConfig::named(kind).unwrap_or_default();
    if let Some(section) = &section {
        let set = |spec: &mut AqmConfig, key, value| spec.set("", key, value);
        parameters("AQM", kind, section, &mut spec, AqmConfig::settings, set)?;
        spec.validate().map_err(|wrong| section.error(wrong))?;
    }
    Ok(spec)
}

/// The kind of a part, given as a word or as a table, which may have parameters.
fn kind<'a>(
    field: &Field<'a>,
    kinds: &[&str],
    example: &str,
) -> Result<(&'a str, Option<Section<'a>>)> {
    if !field.is_table() {
        return Ok((field.clone().word(kinds)?, None));
    }
    let section = field.clone().section()?;
    Ok((section.require("kind", example, |field| field.word(kinds))?, Some(section)))
}

/// Reads the parameters of a part of that kind from a table that may have those of others.
/// `settings` are those of the part as it is, and `set` changes one.
fn parameters<S>(
    what: &str,
    kind: &str,
    section: &Section<'_>,
    spec: &mut S,
    settings: fn(&S) -> Vec<Setting>,
    set: fn(&mut S, &'static str, Value) -> bool,
) -> Result<()> {
    for Setting { doc, .. } in settings(spec) {
        let Some(field) = section.get(doc.key) else { continue };
        let value = parameter::value(field.clone(), doc.kind)?;
        if !set(spec, doc.key, value) {
            return Err(field.error(format!("must be {}", doc.kind)));
        }
    }
    // With the values that they have now.
    let mut settings = settings(spec);
    settings.retain(|setting| setting.applies);
    let foreign =
        |key: &&str| *key != "kind" && settings.iter().all(|setting| setting.doc.key != *key);
    let Some(field) = section.keys().find(foreign).and_then(|key| section.get(key)) else {
        return Ok(());
    };
    let keys: Vec<&str> = settings.iter().map(|setting| setting.doc.key).collect();
    let help = if keys.is_empty() {
        "it has none".to_owned()
    } else {
        format!("with the other values it has {}", part::alternatives(&keys))
    };
    Err(field.error(format!("the {what} `{kind}` has no such parameter")).with_help(help))
}

/// `true`, or a table of classes, each with what it has of its own.
fn classes(field: Field<'_>) -> Result<Classes> {
    if field.is_bool() {
        let each = field.bool()?;
        return Ok(if each { Classes::Each(Vec::new()) } else { Classes::None });
    }
    let section = field.section()?;
    let mut classes = Vec::new();
    for kind in RouterKind::ALL {
        let Some(field) = section.get(kind.name()) else { continue };
        let section = field.section()?;
        let weight = section.read("weight", |field| field.float(1e-3..=1e3))?;
        let class = Class {
            weight: weight.unwrap_or(1.0),
            limit: section.read("queue", |field| queue(&field))?,
            aqm: section.read("aqm", |field| aqm(&field))?,
            router: section.read("router", |field| router(&field))?,
        };
        classes.push((kind, class));
    }
    Ok(Classes::Each(classes))
}

fn router(field: &Field<'_>) -> Result<RouterChoice> {
    let forms = RouterConfig::forms();
    let mut names = vec!["auto"];
    names.extend(forms.iter().map(|(words, _)| words.name));
    let (kind, section) = kind(field, &names, "kind = \"xcp\"")?;
    let mut spec = RouterConfig::named(kind);
    if let Some(section) = &section {
        let settings =
            |spec: &Option<RouterConfig>| spec.map_or_else(Vec::new, |spec| spec.settings());
        let set = |spec: &mut Option<RouterConfig>, key, value| {
            spec.as_mut().is_some_and(|spec| spec.set("", key, value))
        };
        parameters("router", kind, section, &mut spec, settings, set)?;
        if let Some(spec) = &spec {
            spec.validate().map_err(|wrong| section.error(wrong))?;
        }
    }
    Ok(spec.map_or(RouterChoice::Auto, |spec| RouterChoice::Fixed(spec, field.spot())))
}

/// The kinds of notifiers by their words.
pub(super) const NOTIFIERS: [(&str, NotifierChoice); 4] = [
    ("auto", NotifierChoice::Auto),
    ("off", NotifierChoice::Fixed(NotifierConfig::Off)),
    ("configured", NotifierChoice::Fixed(NotifierConfig::Configured)),
    ("measured", NotifierChoice::Fixed(NotifierConfig::MEASURED)),
];

fn notifier(field: Field<'_>) -> Result<NotifierChoice> {
    let section = if field.is_table() { Some(field.clone().section()?) } else { None };
    let choice = match &section {
        Some(section) => {
            section.require("kind", "kind = \"measured\"", |field| field.one_of(&NOTIFIERS))?
        }
        None => field.one_of(&NOTIFIERS)?,
    };
    let Some(section) = section else { return Ok(choice) };
    let NotifierChoice::Fixed(NotifierConfig::Measured { window, prior }) = choice else {
        section.forbid(&["window", "prior"], "only the kind measured has parameters")?;
        return Ok(choice);
    };
    let packets = |field: Field<'_>| field.small(1..=1_000_000_000);
    Ok(NotifierChoice::Fixed(NotifierConfig::Measured {
        window: section.read("window", packets)?.unwrap_or(window),
        prior: section.read("prior", |field| field.float(0.0..=1e9))?.unwrap_or(prior),
    }))
}

/// The channel of a link table, if it says anything about losses.
fn channel(section: &Section<'_>) -> Result<Option<ChannelConfig>> {
    const KINDS: [&str; 4] = ["loss", "ber", "burst", "gilbert_elliott"];
    let mut given = KINDS.iter().filter_map(|key| section.get(key).map(|field| (key, field)));
    let Some((first, field)) = given.next() else {
        return Ok(None);
    };
    if let Some((second, field)) = given.next() {
        return Err(field
            .error(format!("the link already has a channel, `{first}`"))
            .with_help(format!("give one of `{first}` and `{second}`")));
    }
    let spec = match *first {
        "loss" => ChannelConfig::PacketLoss(field.probability()?),
        "ber" => ChannelConfig::BitErrors(field.probability()?),
        "burst" => burst(&field.section()?)?,
        _ => gilbert_elliott(&field.section()?)?,
    };
    Ok(Some(match spec {
        // No losses need no random numbers.
        ChannelConfig::PacketLoss(p) | ChannelConfig::BitErrors(p) if p == Probability::ZERO => {
            ChannelConfig::Clean
        }
        spec => spec,
    }))
}

fn burst(section: &Section<'_>) -> Result<ChannelConfig> {
    let length = section.require("length", "length = 4", |field| field.small(1..=1_000_000))?;
    let event = section.read("event", Field::probability)?;
    let rate = section.read("rate", Field::probability)?;
    let event = match (event, rate) {
        (Some(event), None) => event,
        (None, Some(rate)) => Probability::new(rate.get() / f64::from(length)).unwrap_or(rate),
        (Some(_), Some(_)) => {
            return Err(section.error("`event` and `rate` say the same: give one of them"));
        }
        (None, None) => return Err(section.missing("event", "event = 0.01")),
    };
    Ok(ChannelConfig::Bursts {
        event,
        length,
        per_flow: section.read("per_flow", Field::bool)?.unwrap_or(true),
    })
}

fn gilbert_elliott(section: &Section<'_>) -> Result<ChannelConfig> {
    let mean = |key| section.read(key, |field| field.positive(MAX_DURATION));
    let p = section.read("p", Field::probability)?;
    let r = section.read("r", Field::probability)?;
    let clock = match (p, r, mean("mean_good")?, mean("mean_bad")?) {
        (Some(p), r, None, None) => ChainClock::Packets {
            to_bad: p,
            to_good: r.or(Probability::new(1.0 - p.get())).unwrap_or(p),
        },
        (None, None, Some(mean_good), Some(mean_bad)) => ChainClock::Time { mean_good, mean_bad },
        _ => {
            return Err(section.error("what moves the chain?").with_help(
                "give `p` and `r` (by packet) or `mean_good` and `mean_bad` (by time)",
            ));
        }
    };
    let loss = |key, default| -> Result<Probability> {
        Ok(section.read(key, Field::probability)?.unwrap_or(default))
    };
    Ok(ChannelConfig::GilbertElliott {
        clock,
        loss_good: loss("loss_good", Probability::ZERO)?,
        loss_bad: loss("loss_bad", Probability::ONE)?,
    })
}
