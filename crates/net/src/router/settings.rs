//! Settings of queues: a file with a table for each device, and the command line over it.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use windward_core::network::{
    AqmConfig, NotifierConfig, QueueConfig, QueueLimit, RouterConfig, RouterKind,
};
use windward_core::units::{Probability, Rate, Time};
use windward_sim::Simulation;
use windward_sim::keys;
use windward_sim::scenario::LinkKind;
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::stack::{Stack, Stacks};
use windward_sim::strict_toml::{
    Document, Field, FileError, KeySource, Section, TomlType, find, json_schema, readers, suggest,
};

use crate::port::{self, Port, Ports};

keys! {
    /// Keys of the file, in addition to the defaults of all queues.
    struct FileKeys<'a> in "router" {
        interfaces: Option<Section<'a>> =
            readers::free(TomlType::table(&[QueueKeys::KEYS])), absent,
            "a table for each device, over the keys of the file";
    }

    /// Keys of a queue.
    struct QueueKeys<'a> in "queue" {
        rate: Option<Rate> = readers::rate(), absent, "bits per second of IP packets";
        qdisc: Option<Field<'a>> = readers::any(|| TomlType::Words(qdiscs())),
            absent "fq-codel", "an AQM, with marks where it can mark, or a router";
        queue: Option<Field<'a>> = readers::any(|| of_link("queue")),
            absent "100 ms at the rate, or the limit of the AQM",
            "what may wait, in packets (50p) or bytes (64kB)";
        aqm: Option<Field<'a>> = readers::any(|| of_link("aqm")), absent,
            "in place of qdisc: an AQM, or a table with its parameters";
        router: Option<Field<'a>> = readers::any(|| of_link("router")), absent,
            "in place of qdisc or in addition to aqm: a router, or a table with its parameters";
        classes: Option<Field<'a>> = readers::any(|| of_link("classes")), absent "false",
            "a queue for each class of protocols, as in scenarios";
        corruption: Option<Probability> = readers::probability(), absent,
            "share of packets that the link beyond corrupts";
        own: Option<bool> = readers::flag(), absent "false",
            "true to include packets that this machine itself sends";
    }
}

/// The values of a key of links in scenarios.
fn of_link(key: &str) -> TomlType {
    find(ScenarioFile::LINK, key).map_or(TomlType::Any, |key| key.kind.clone())
}

/// The declarations of all keys.
const KEYS: &[KeySource] = &[FileKeys::KEYS, QueueKeys::KEYS];

/// The queue of one device.
#[derive(Debug, Clone)]
pub struct Settings {
    device: String,
    rate: Rate,
    qdisc: String,
    own: bool,
    /// Share of packets that the link beyond corrupts, which ceten reports to senders.
    corruption: Option<Probability>,
    /// A scenario with the queue as its only link, whose rate and seed are still to be set.
    link: ScenarioFile,
}

impl PartialEq for Settings {
    fn eq(&self, other: &Self) -> bool {
        let Settings { device, rate, qdisc, own, corruption, link } = self;
        *device == other.device
            && *rate == other.rate
            && *qdisc == other.qdisc
            && *own == other.own
            && *corruption == other.corruption
            && link.says_the_same_as(&other.link)
    }
}

/// An error in settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SettingsError(String);

impl From<FileError> for SettingsError {
    fn from(error: FileError) -> Self {
        SettingsError(error.to_string())
    }
}

/// The settings of the command line for all queues, over the file.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// Bits per second of IP packets.
    pub rate: Option<Rate>,
    /// One of [`qdiscs`].
    pub qdisc: Option<String>,
    /// The limit of the queue, as in scenario files.
    pub queue: Option<String>,
    /// The share of packets that the link beyond the device corrupts.
    pub corruption: Option<Probability>,
    /// True to include packets that this machine itself sends.
    pub own: bool,
}

/// All queues, in the order of their devices.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// One or more, each of another device.
    pub queues: Vec<Settings>,
}

/// The words for a queue: the AQMs, with marks where they can mark; the routers; and `ceten`, a
/// tail-drop queue that reports corruption.
pub fn qdiscs() -> Vec<&'static str> {
    let aqms = AqmConfig::forms().into_iter().map(|(words, _)| words.name);
    let routers = RouterConfig::forms().into_iter();
    let routers = routers.filter(|(_, spec)| *spec != RouterConfig::default());
    aqms.chain(routers.map(|(words, _)| words.name)).chain([CETEN]).collect()
}

const CETEN: &str = "ceten";
/// The default that RFC 8290 calls suitable.
const DEFAULT_QDISC: &str = "fq-codel";
/// The length of a simulation; it is renewed long before.
const LENGTH: &str = "48h";
/// Bytes of a full packet of Ethernet.
const FULL_PACKET: u64 = 1500;
/// The longest name of a device.
const LONGEST_NAME: usize = 15;

fn wrong(message: impl Into<String>) -> SettingsError {
    SettingsError(message.into())
}

impl Config {
    /// Reads the text of a file with that name, if there is one. `devices` are those of the command
    /// line; without any, those of the file. Its keys are defaults of all queues, those under
    /// `[interfaces.NAME]` are of one.
    ///
    /// # Errors
    /// If it is not TOML, if a key or a value is wrong, if a queue has no rate, or if there is no
    /// queue.
    pub fn read(
        file: Option<(&str, &str)>,
        devices: &[String],
        choice: &Choice,
    ) -> Result<Self, SettingsError> {
        let (name, text) = file.unwrap_or(("the command line", ""));
        let document = Document::parse(name, text)?;
        let root = document.root(KEYS)?;
        let common = QueueKeys::read(&root)?;
        let interfaces = FileKeys::read(&root)?.interfaces;
        let named: Vec<String> = match (&interfaces, devices) {
            (Some(tables), []) => sorted(tables).into_iter().map(str::to_owned).collect(),
            _ => devices.to_vec(),
        };
        if named.is_empty() {
            return Err(wrong("no device: name one, such as eth0, or write [interfaces.eth0]"));
        }
        let mut queues: Vec<Settings> = Vec::new();
        for device in named {
            if queues.iter().any(|queue| queue.device == device) {
                return Err(wrong(format!("the device {device} is named twice")));
            }
            let own = interfaces.as_ref().and_then(|tables| tables.get(&device));
            let own = own.map(|field| QueueKeys::read(&field.section()?)).transpose()?;
            let keys = match own {
                Some(own) => own.over(common.clone()),
                None => common.clone(),
            };
            let error = |error: SettingsError| wrong(format!("{device}: {error}"));
            queues.push(Settings::read(&device, name, &keys, choice).map_err(error)?);
        }
        Ok(Config { queues })
    }

    /// A JSON Schema of the file, for editors.
    pub fn json_schema() -> serde_json::Value {
        json_schema("Settings of windward router", KEYS)
    }
}

impl QueueKeys<'_> {
    /// These keys, and those of `common` that are not given here.
    fn over(self, common: Self) -> Self {
        let names_kind = self.qdisc.is_some() || self.aqm.is_some() || self.router.is_some();
        let (qdisc, aqm, router) = match names_kind {
            true => (self.qdisc, self.aqm, self.router),
            false => (common.qdisc, common.aqm, common.router),
        };
        QueueKeys {
            rate: self.rate.or(common.rate),
            qdisc,
            queue: self.queue.or(common.queue),
            aqm,
            router,
            classes: self.classes.or(common.classes),
            corruption: self.corruption.or(common.corruption),
            own: self.own.or(common.own),
        }
    }
}

impl Settings {
    fn read(
        device: &str,
        file: &str,
        keys: &QueueKeys<'_>,
        choice: &Choice,
    ) -> Result<Self, SettingsError> {
        let plain = |c: char| c.is_ascii_graphic() && c != '/';
        if device.is_empty() || device.len() > LONGEST_NAME || !device.chars().all(plain) {
            return Err(wrong("no device has such a name"));
        }
        let Some(rate) = choice.rate.or(keys.rate) else {
            return Err(wrong("no rate: write --rate 50Mbit or rate = \"50Mbit\""));
        };
        let own = keys.own.unwrap_or(choice.own) | choice.own;
        let corruption = choice.corruption.or(keys.corruption);
        let mut settings = Settings {
            device: device.to_owned(),
            rate,
            qdisc: String::new(),
            own,
            corruption,
            link: ScenarioFile::parse(file, &scaffold())?,
        };
        settings.choose_qdisc(keys, choice)?;
        settings.simulation()?;
        Ok(settings)
    }

    /// Puts the queue into the link.
    fn choose_qdisc(&mut self, keys: &QueueKeys<'_>, choice: &Choice) -> Result<(), SettingsError> {
        let given = match (&choice.qdisc, &keys.qdisc) {
            (Some(qdisc), _) => Some(qdisc.clone()),
            (None, Some(field)) if keys.aqm.is_some() || keys.router.is_some() => {
                return Err(field
                    .error("says the same as `aqm` or `router`: keep one of them")
                    .into());
            }
            (None, Some(field)) => Some(field.word(&qdiscs())?.to_owned()),
            (None, None) => None,
        };
        // The command line replaces the kind of the file.
        let (aqm, router) = match choice.qdisc {
            Some(_) => (None, None),
            None => (keys.aqm.as_ref(), keys.router.as_ref()),
        };
        let qdisc = match given {
            None if aqm.is_some() || router.is_some() || keys.classes.is_some() => None,
            None => Some(DEFAULT_QDISC.to_owned()),
            given => given,
        };
        for (key, field) in [("aqm", aqm), ("router", router), ("classes", keys.classes.as_ref())] {
            if let Some(field) = field {
                self.link.set_field(&format!("links.wire.{key}"), field)?;
            }
        }
        let named = aqm.and_then(kind).and_then(AqmConfig::named);
        let named = match &qdisc {
            Some(qdisc) => self.set_qdisc(qdisc)?,
            None => named,
        };
        match (&choice.queue, &keys.queue) {
            (Some(queue), _) => self.link.set("links.wire.queue", queue)?,
            (None, Some(field)) => self.link.set_field("links.wire.queue", field)?,
            (None, None) => {
                self.link.set("links.wire.queue", &default_queue(named, self.rate))?;
            }
        }
        let words: Vec<&str> = [aqm, router].into_iter().flatten().filter_map(kind).collect();
        let classes = keys.classes.as_ref().and_then(|field| field.section().ok());
        self.qdisc = match (classes, qdisc) {
            (Some(classes), _) => format!("classes {}", sorted(&classes).join(", ")),
            (None, Some(qdisc)) => qdisc,
            (None, None) if !words.is_empty() => words.join(" + "),
            (None, None) if self.corruption.is_some() => CETEN.to_owned(),
            (None, None) => "droptail".to_owned(),
        };
        Ok(())
    }

    /// Gives the link the AQM or router of that name; returns the AQM.
    fn set_qdisc(&mut self, qdisc: &str) -> Result<Option<AqmConfig>, SettingsError> {
        let aqm = AqmConfig::named(qdisc);
        if let Some(spec) = &aqm {
            let ecn = if spec.has_ecn_parameter() { ", ecn = true" } else { "" };
            self.link.set("links.wire.aqm", &format!("{{ kind = '{qdisc}'{ecn} }}"))?;
        } else if RouterConfig::named(qdisc).is_some() {
            self.link.set("links.wire.router", qdisc)?;
        } else if qdisc != CETEN {
            let error = FileError::new("the command line", format!("unknown qdisc `{qdisc}`"));
            return Err(error.with_help(suggest(qdisc, qdiscs())).into());
        } else if self.corruption.is_none() {
            return Err(wrong(
                "ceten reports corruption: write --corruption 1% or corruption = 0.01",
            ));
        }
        Ok(aqm)
    }

    /// The device that packets leave by.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Bits per second of IP packets.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// AQM and router, by their names.
    pub fn qdisc(&self) -> String {
        self.qdisc.clone()
    }

    /// True if it includes packets that this machine itself sends.
    pub fn own(&self) -> bool {
        self.own
    }

    /// True if only the rate differs.
    pub(super) fn differs_in_rate_only(&self, other: &Settings) -> bool {
        *self == Settings { rate: self.rate, own: self.own, ..other.clone() }
    }

    /// The engine with this link, the port at its ends, when it ends, and the kinds of routers
    /// whose feedback the link gives.
    pub(super) fn simulation(&self) -> Result<(Simulation, Port, Time, Served), SettingsError> {
        let ports = Ports::new();
        let stack: Arc<dyn Stack> = Arc::clone(&ports) as _;
        let stacks: Stacks = std::iter::once(stack).collect();
        let mut file = self.link.clone().with_stacks(&stacks);
        file.set("links.wire.rate", &self.rate.to_string())?;
        // A new one each time, so that outsiders cannot know which flows share a queue.
        let seed = RandomState::new().build_hasher().finish();
        file.set("seed", &seed.to_string())?;
        let mut scenario = file.build()?;
        if let (Some(rate), Some(link)) = (self.corruption, scenario.links.first_mut()) {
            let notifier = NotifierConfig::Told { rate };
            link.kind = Arc::new(LinkKind { notifier, ..(*link.kind).clone() });
        }
        let served = served(scenario.links.first().map(|link| &link.kind.queue));
        let simulation = Simulation::changeable(&scenario);
        let port = ports.take().into_iter().next().ok_or_else(|| wrong("the link has no port"))?;
        Ok((simulation, port, Time::ZERO + scenario.duration, served))
    }
}

/// A scenario with one link and one flow of a port. Nothing goes back over the link, but every link
/// has a way back.
fn scaffold() -> String {
    let port = port::NAME;
    format!(
        "duration = '{LENGTH}'
         bin = '{LENGTH}'
         [[links]]
         name = 'wire'
         from = 'in'
         to = 'out'
         delay = '0s'
         reverse = {{ rate = '1Gbit', queue = '1000p', aqm = 'droptail', router = 'none' }}
         [[flows]]
         group = 'forwarded'
         protocol = '{port}'
         from = 'in'
         to = 'out'"
    )
}

/// The keys of a table in the order of the alphabet.
fn sorted<'a>(table: &Section<'a>) -> Vec<&'a str> {
    let mut keys: Vec<&str> = table.keys().collect();
    keys.sort_unstable();
    keys
}

/// The kind of an AQM or a router, a word or a table with it.
fn kind<'a>(field: &Field<'a>) -> Option<&'a str> {
    let kind = || field.section().ok()?.get("kind")?.text().ok();
    field.text().ok().or_else(kind)
}

/// For each kind of router, by its number: true if the queue gives its feedback.
pub(super) type Served = [bool; RouterKind::ALL.len()];

fn served(queue: Option<&QueueConfig>) -> Served {
    let mut served = [false; RouterKind::ALL.len()];
    for kind in RouterKind::ALL {
        served[kind as usize] = queue.is_some_and(|queue| {
            let class = queue.classes.iter().find(|class| class.kind == kind);
            // Datagrams without a class of their own join the first class.
            let class = class.or(queue.classes.first());
            let router = class.map_or(&queue.router, |class| &class.queue.router);
            kind == RouterKind::Any || *router != RouterConfig::default() && router.serves(kind)
        });
    }
    served
}

/// The limit where none is given: that of the AQM, or 100 ms at the rate, a bandwidth-delay product
/// of most of the Internet, and at least 16 full packets.
fn default_queue(aqm: Option<AqmConfig>, rate: Rate) -> String {
    match aqm.and_then(|aqm| aqm.default_limit()) {
        Some(QueueLimit::Packets(packets)) => format!("{packets}p"),
        Some(QueueLimit::Bytes(bytes)) => format!("{bytes}B"),
        None => format!("{}B", (rate.as_bps() / 80).max(16 * FULL_PACKET)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &str, devices: &[&str], choice: &Choice) -> Result<Config, String> {
        let devices: Vec<String> = devices.iter().map(|name| (*name).to_owned()).collect();
        Config::read(Some(("r.toml", file)), &devices, choice).map_err(|error| error.to_string())
    }

    fn one(file: &str) -> Result<Settings, String> {
        read(file, &["eth0"], &Choice::default()).map(|mut config| config.queues.remove(0))
    }

    #[test]
    fn every_word_makes_a_link() {
        for qdisc in qdiscs() {
            let corruption = if qdisc == "ceten" { "corruption = '1%'" } else { "" };
            let file = format!("rate = '5Mbit'\nqdisc = '{qdisc}'\n{corruption}");
            let settings = one(&file).unwrap();
            assert_eq!(settings.qdisc(), qdisc);
        }
        assert_eq!(one("rate = '5Mbit'").unwrap().qdisc(), "fq-codel");
    }

    #[test]
    fn queues_are_as_long_as_is_said_or_100_ms() {
        let queue = |file: &str| {
            let settings = one(file).unwrap();
            let stack: Arc<dyn Stack> = Ports::new() as _;
            let mut link = settings.link.with_stacks(&std::iter::once(stack).collect());
            link.set("links.wire.rate", &settings.rate.to_string()).unwrap();
            match link.build().unwrap().links[0].kind.queue.limit {
                QueueLimit::Packets(packets) => format!("{packets}p"),
                QueueLimit::Bytes(bytes) => format!("{bytes}B"),
            }
        };
        // 100 ms of 50 Mbit/s are 625 kB; of 1 Mbit/s less than 16 packets.
        assert_eq!(queue("rate = '50Mbit'\nqdisc = 'xcp'"), "625000B");
        assert_eq!(queue("rate = '1Mbit'\nqdisc = 'droptail'"), "24000B");
        assert_eq!(queue("rate = '1Mbit'"), "10240p");
        assert_eq!(queue("rate = '1Mbit'\nqueue = '7p'"), "7p");
    }

    #[test]
    fn tables_of_devices_and_the_command_line_go_over_the_file() {
        let file = "rate = '5Mbit'\nqdisc = 'codel'\n[interfaces.a]\nrate = '7Mbit'\n\
                    [interfaces.b]\nrouter = 'xcp'\naqm = { kind = 'red', gentle = true }";
        let config = read(file, &[], &Choice::default()).unwrap();
        let all: Vec<_> =
            config.queues.iter().map(|q| (q.device(), q.rate().as_bps(), q.qdisc())).collect();
        assert_eq!(
            all,
            [("a", 7_000_000, "codel".to_owned()), ("b", 5_000_000, "red + xcp".to_owned())]
        );
        let rate = Rate::from_bps(1_000_000);
        let qdisc = Some("xtcp".into());
        let choice = Choice { rate, qdisc, queue: None, corruption: None, own: true };
        let config = read(file, &["b", "c"], &choice).unwrap();
        for queue in &config.queues {
            assert_eq!(
                (queue.rate().as_bps(), &*queue.qdisc, queue.own),
                (1_000_000, "xtcp", true)
            );
        }
        assert_eq!(config.queues[1].device(), "c");
    }

    #[test]
    fn the_settings_of_the_documentation_are_some() {
        let page = include_str!("../../../../docs/router.md");
        let (_, block) = page.split_once("```toml\n").unwrap();
        let file = block.split_once("```").unwrap().0;
        let config = read(file, &[], &Choice::default()).unwrap();
        let all: Vec<_> = config.queues.iter().map(|q| (q.device(), q.qdisc())).collect();
        let classes = "classes estcp, none, xcp".to_owned();
        assert_eq!(all, [("eth0", classes), ("eth1", "codel + xcp".to_owned())]);
        let unit = include_str!("../../../../contrib/windward-router.service");
        assert!(unit.contains("windward router --config /etc/windward/router.toml"));
    }

    #[test]
    fn what_differs_in_its_rate_only() {
        let at = |rate: &str, more: &str| one(&format!("rate = '{rate}'\n{more}")).unwrap();
        assert!(at("5Mbit", "").differs_in_rate_only(&at("6Mbit", "")));
        assert!(!at("5Mbit", "").differs_in_rate_only(&at("5Mbit", "qdisc = 'codel'")));
        assert!(!at("5Mbit", "").differs_in_rate_only(&at("5Mbit", "corruption = 0.01")));
        // A queue of 100 ms is another one.
        let fifo = "qdisc = 'droptail'";
        assert!(!at("5Mbit", fifo).differs_in_rate_only(&at("6Mbit", fifo)));
    }

    #[test]
    fn errors_say_what_would_be_right() {
        let error = |file: &str| one(file).unwrap_err();
        assert_eq!(error(""), "eth0: no rate: write --rate 50Mbit or rate = \"50Mbit\"");
        assert!(error("rate = '0'").starts_with("r.toml:1: rate = \"0\": "));
        let near = error("rate = '5Mbit'\nqdisc = 'fq_codl'");
        assert!(near.contains("r.toml:2: qdisc = \"fq_codl\": unknown word"), "{near}");
        assert!(near.contains("did you mean `fq-codel`?"), "{near}");
        let all = error("rate = '5Mbit'\nqdisc = 'sfq2000'");
        assert!(all.contains("valid: droptail, red,"), "{all}");
        let key = error("[interfaces.eth0]\nrat = '5Mbit'");
        assert!(key.starts_with("r.toml:2: interfaces.eth0.rat: unknown key"), "{key}");
        assert!(key.contains("did you mean `rate`?"), "{key}");
        assert!(error("rate = '5Mbit'\nqueue = '3x'").contains("r.toml:2: "));
        let nested = error("rate = '5Mbit'\naqm = { kind = 'codel', traget = '5ms' }");
        assert!(nested.starts_with("r.toml:2: aqm.traget: unknown key"), "{nested}");
        assert!(error("rate = '5Mbit'\nqdisc = 'codel'\naqm = 'red'").contains("says the same"));
        assert!(error("rate = '5Mbit'\nqdisc = 'ceten'").contains("--corruption 1%"));
        assert!(error("rate = '5Mbit'\ncorruption = 1.5").starts_with("r.toml:2: corruption"));
        let choice = Choice { qdisc: Some("fqcodel".to_owned()), ..Choice::default() };
        let chosen = read("rate = '5Mbit'", &["a"], &choice).unwrap_err();
        assert!(chosen.contains("unknown qdisc `fqcodel`"), "{chosen}");
        let none = read("rate = '5Mbit'", &[], &Choice::default()).unwrap_err();
        assert!(none.starts_with("no device"));
        let twice = read("rate = '5Mbit'", &["a", "a"], &Choice::default()).unwrap_err();
        assert_eq!(twice, "the device a is named twice");
        let long = read("rate = '5Mbit'", &["a-very-long-name"], &Choice::default()).unwrap_err();
        assert!(long.contains("no device has such a name"));
        let text = read("rate = ", &["a"], &Choice::default()).unwrap_err();
        assert!(text.starts_with("r.toml:1: not valid TOML"), "{text}");
    }
}
