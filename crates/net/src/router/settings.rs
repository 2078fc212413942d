//! What is set of a queue: a file with a table for each device, and the command line over it.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use toml::{Table, Value};

use windward_core::network::{AqmConfig, NotifierConfig, QueueConfig, RouterConfig, RouterKind};
use windward_core::part::AnyPart;
use windward_core::units::{Probability, Rate, Time};
use windward_sim::Simulation;
use windward_sim::scenario::LinkKind;
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::stack::{Stack, Stacks};
use windward_sim::suggest::near;

use crate::port::{self, Port, Ports};

/// The queue of one device.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    device: String,
    rate: Rate,
    qdisc: String,
    own: bool,
    /// What the link beyond corrupts, for those whose protocol asks (eten2004).
    corruption: Option<Probability>,
    /// The keys of the link of a scenario, but for the rate.
    link: Table,
}

/// Why settings are none, in words for whoever wrote them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsError(String);

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SettingsError {}

/// What the command line says of all queues, over the file.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// Bits per second of IP packets.
    pub rate: Option<Rate>,
    /// One of [`QDISCS`].
    pub qdisc: Option<String>,
    /// What may wait, as scenario files have it.
    pub queue: Option<String>,
    /// The share of packets that the link beyond the device corrupts.
    pub corruption: Option<Probability>,
    /// Also what this machine itself sends.
    pub own: bool,
}

/// All queues, in the order of their devices.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// One or more, each of another device.
    pub queues: Vec<Settings>,
}

/// What may be asked for by one word: AQM, with marks where that can mark, a router, or
/// `ceten`, which tells of corruption from a queue that drops what does not fit.
pub const QDISCS: [&str; 13] = [
    "droptail",
    "red",
    "codel",
    "fq-codel",
    "pie",
    "dualpi2",
    "xcp",
    "xcp-persistent",
    "xtcp",
    "estcp",
    "ceten",
    "ecn-threshold",
    "cw",
];

/// What a table may have.
const KEYS: [&str; 8] = ["rate", "qdisc", "queue", "aqm", "router", "classes", "corruption", "own"];
/// How long a simulation lasts; it is renewed long before.
const LENGTH: &str = "48h";
/// Bytes of a full packet of Ethernet.
const FULL_PACKET: u64 = 1500;
/// The longest name of a device.
const LONGEST_NAME: usize = 15;

fn wrong(message: impl Into<String>) -> SettingsError {
    SettingsError(message.into())
}

impl Config {
    /// Reads a file, if there is one. `devices` are those of the command line; without any, those of the
    /// file. Its keys are defaults of all queues, those under `[interfaces.NAME]` are of one.
    ///
    /// # Errors
    /// If it is no TOML, if a key or a value is wrong, if a queue has no rate, or if there is none.
    pub fn read(
        file: Option<&str>,
        devices: &[String],
        choice: &Choice,
    ) -> Result<Self, SettingsError> {
        let file: Table = match file {
            None => Table::new(),
            Some(text) => text.parse().map_err(|error| wrong(format!("no TOML: {error}")))?,
        };
        let mut common = file;
        let tables = match common.remove("interfaces") {
            None => Table::new(),
            Some(Value::Table(tables)) => tables,
            Some(_) => return Err(wrong("`interfaces` is not a table: write [interfaces.eth0]")),
        };
        let named: Vec<String> =
            if devices.is_empty() { tables.keys().cloned().collect() } else { devices.to_vec() };
        if named.is_empty() {
            return Err(wrong("no device: name one, such as eth0, or write [interfaces.eth0]"));
        }
        let mut queues: Vec<Settings> = Vec::new();
        for device in named {
            if queues.iter().any(|queue| queue.device == device) {
                return Err(wrong(format!("the device {device} is named twice")));
            }
            let own = match tables.get(&device) {
                None => Table::new(),
                Some(Value::Table(table)) => table.clone(),
                Some(_) => return Err(wrong(format!("`interfaces.{device}` is not a table"))),
            };
            let error = |error: SettingsError| wrong(format!("{device}: {error}"));
            queues.push(Settings::read(&device, &common, own, choice).map_err(error)?);
        }
        Ok(Config { queues })
    }
}

impl Settings {
    fn read(
        device: &str,
        common: &Table,
        own: Table,
        choice: &Choice,
    ) -> Result<Self, SettingsError> {
        let plain = |c: char| c.is_ascii_graphic() && c != '/';
        if device.is_empty() || device.len() > LONGEST_NAME || !device.chars().all(plain) {
            return Err(wrong("no device has such a name"));
        }
        for key in common.keys().chain(own.keys()) {
            if !KEYS.contains(&key.as_str()) {
                let nearest = near(key, KEYS).map(|key| format!(": did you mean `{key}`?"));
                let all = || format!("; there are {}", KEYS.join(", "));
                return Err(wrong(format!("no key `{key}`{}", nearest.unwrap_or_else(all))));
            }
        }
        let mut table = common.clone();
        let kinds = ["qdisc", "aqm", "router"];
        if own.keys().any(|key| kinds.contains(&key.as_str())) {
            for kind in kinds {
                table.remove(kind);
            }
        }
        table.extend(own);
        if let Some(rate) = choice.rate {
            table.insert("rate".into(), rate.to_string().into());
        }
        if let Some(qdisc) = &choice.qdisc {
            for kind in kinds {
                table.remove(kind);
            }
            table.insert("qdisc".into(), qdisc.clone().into());
        }
        if let Some(queue) = &choice.queue {
            table.insert("queue".into(), queue.clone().into());
        }
        let own = match table.remove("own") {
            None => choice.own,
            Some(Value::Boolean(own)) => own | choice.own,
            Some(_) => return Err(wrong("`own` is true or false")),
        };
        if let Some(corruption) = choice.corruption {
            table.insert("corruption".into(), corruption.get().into());
        }
        let corruption = match table.remove("corruption") {
            None => None,
            Some(Value::Float(share)) => Some(Probability::new(share)),
            Some(Value::Integer(share)) => Some(Probability::new(share as f64)),
            Some(Value::String(text)) => Some(text.parse().ok()),
            Some(_) => Some(None),
        };
        let corruption = corruption.map(|share| {
            share.ok_or_else(|| wrong("`corruption` is a share of packets, such as 0.01 or \"1%\""))
        });
        let corruption = corruption.transpose()?;
        let rate = match table.remove("rate") {
            None => return Err(wrong("no rate: write --rate 50Mbit or rate = \"50Mbit\"")),
            Some(Value::String(text)) => text.parse::<Rate>(),
            Some(_) => return Err(wrong("the rate is text such as \"50Mbit\"")),
        };
        let rate = rate.map_err(|error| wrong(format!("the rate: {error}")))?;
        let (device, qdisc) = (device.to_owned(), String::new());
        let mut settings = Settings { device, rate, qdisc, own, corruption, link: table };
        settings.choose_qdisc()?;
        settings.simulation()?;
        Ok(settings)
    }

    /// Turns the one word into the keys of a link, and adds a queue where none is said.
    fn choose_qdisc(&mut self) -> Result<(), SettingsError> {
        let link = &mut self.link;
        let qdisc = match link.remove("qdisc") {
            None => None,
            Some(Value::String(_)) if link.contains_key("aqm") || link.contains_key("router") => {
                return Err(wrong("`qdisc` beside `aqm` or `router`, which say the same"));
            }
            Some(Value::String(qdisc)) => Some(qdisc),
            Some(_) => return Err(wrong("`qdisc` is a word; `aqm` and `router` may be tables")),
        };
        let has_kind = link.contains_key("aqm") || link.contains_key("router");
        let qdisc = match qdisc {
            None if has_kind || link.contains_key("classes") => None,
            // What RFC 8290 calls suitable as a default.
            None => Some("fq-codel".to_owned()),
            some => some,
        };
        if let Some(qdisc) = qdisc {
            if !QDISCS.contains(&qdisc.as_str()) {
                let nearest = near(&qdisc, QDISCS).map(|near| format!(": did you mean {near}?"));
                let all = || format!("; there are {}", QDISCS.join(", "));
                return Err(wrong(format!("no qdisc {qdisc}{}", nearest.unwrap_or_else(all))));
            }
            if qdisc == "ceten" && self.corruption.is_none() {
                return Err(wrong(
                    "ceten tells of corruption: write --corruption 1% or corruption = 0.01",
                ));
            }
            if let Some(spec) = AqmConfig::named(&qdisc) {
                let mut aqm = Table::new();
                aqm.insert("kind".into(), qdisc.clone().into());
                if spec.settings().iter().any(|setting| setting.doc.key == "ecn") {
                    aqm.insert("ecn".into(), true.into());
                }
                link.insert("aqm".into(), aqm.into());
            } else if RouterConfig::named(&qdisc).is_some() {
                link.insert("router".into(), qdisc.into());
            }
        }
        let word = |key: &str| {
            let value = link.get(key)?;
            let kind = value.as_table().map_or(Some(value), |table| table.get("kind"))?;
            kind.as_str().map(str::to_owned)
        };
        let words: Vec<String> = ["aqm", "router"].into_iter().filter_map(word).collect();
        if !link.contains_key("queue") {
            let aqm = word("aqm").unwrap_or_default();
            link.insert("queue".into(), default_queue(&aqm, self.rate).into());
        }
        self.qdisc = match link.get("classes") {
            Some(Value::Table(classes)) => {
                let names: Vec<&str> = classes.keys().map(String::as_str).collect();
                format!("classes {}", names.join(", "))
            }
            _ if words.is_empty() && self.corruption.is_some() => "ceten".to_owned(),
            _ if words.is_empty() => "droptail".to_owned(),
            _ => words.join(" + "),
        };
        Ok(())
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

    /// Also what this machine itself sends?
    pub fn own(&self) -> bool {
        self.own
    }

    /// Is all the same but the rate?
    pub(super) fn differs_in_rate_only(&self, other: &Settings) -> bool {
        *self == Settings { rate: self.rate, own: self.own, ..other.clone() }
    }

    /// The engine with this link, the port at its ends, when it ends, and the kinds of routers whose
    /// feedback the link gives.
    pub(super) fn simulation(&self) -> Result<(Simulation, Port, Time, Served), SettingsError> {
        let table = |pairs: &[(&str, Value)]| -> Table {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect()
        };
        let mut link = table(&[
            ("name", self.device.as_str().into()),
            ("from", "in".into()),
            ("to", "out".into()),
            ("rate", self.rate.to_string().into()),
            ("delay", "0s".into()),
        ]);
        link.extend(self.link.clone());
        // Nothing goes back over it, but every link has a way back.
        let back = [("rate", "1Gbit"), ("queue", "1000p"), ("aqm", "droptail"), ("router", "none")];
        link.insert("reverse".into(), table(&back.map(|(k, v)| (k, v.into()))).into());
        let flow = table(&[
            ("group", "forwarded".into()),
            ("protocol", port::NAME.into()),
            ("from", "in".into()),
            ("to", "out".into()),
        ]);
        // Another one each time, so that nobody outside can know which flows share a queue.
        let seed = RandomState::new().build_hasher().finish() >> 1;
        let root = table(&[
            ("duration", LENGTH.into()),
            ("bin", LENGTH.into()),
            ("seed", (seed as i64).into()),
            ("links", Value::Array(vec![link.into()])),
            ("flows", Value::Array(vec![flow.into()])),
        ]);
        let text = toml::to_string(&root).map_err(|error| wrong(error.to_string()))?;
        let ports = Ports::new();
        let stack: Arc<dyn Stack> = Arc::clone(&ports) as _;
        let stacks: Stacks = std::iter::once(stack).collect();
        let file = ScenarioFile::parse("settings", &text);
        let scenario = file.and_then(|file| file.with_stacks(&stacks).build());
        let mut scenario = scenario.map_err(|error| wrong(error.to_string()))?;
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

/// Of each kind of router, by its number: is its feedback given to those that ask for it?
pub(super) type Served = [bool; RouterKind::ALL.len()];

fn served(queue: Option<&QueueConfig>) -> Served {
    let mut served = [false; RouterKind::ALL.len()];
    for kind in RouterKind::ALL {
        served[kind as usize] = queue.is_some_and(|queue| {
            let class = queue.classes.iter().find(|class| class.kind == kind);
            // What no class is made for joins the first.
            let class = class.or(queue.classes.first());
            let router = class.map_or(&queue.router, |class| &class.queue.router);
            kind == RouterKind::Any || *router != RouterConfig::default() && router.serves(kind)
        });
    }
    served
}

/// What may wait where nothing is said: 100 ms at the rate, a bandwidth-delay product of most of the
/// Internet, and 16 full packets at least; with AQM that keeps waiting times short by
/// itself, as much as Linux and RFC 8290 section 5.2 let it have.
fn default_queue(aqm: &str, rate: Rate) -> String {
    match aqm {
        "fq-codel" => "10240p".to_owned(),
        "codel" | "pie" | "dualpi2" => "1000p".to_owned(),
        _ => format!("{}B", (rate.as_bps() / 80).max(16 * FULL_PACKET)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &str, devices: &[&str], choice: &Choice) -> Result<Config, String> {
        let devices: Vec<String> = devices.iter().map(|name| (*name).to_owned()).collect();
        Config::read(Some(file), &devices, choice).map_err(|error| error.to_string())
    }

    fn one(file: &str) -> Result<Settings, String> {
        read(file, &["eth0"], &Choice::default()).map(|mut config| config.queues.remove(0))
    }

    #[test]
    fn every_word_makes_a_link() {
        for qdisc in QDISCS {
            let corruption = if qdisc == "ceten" { "corruption = '1%'" } else { "" };
            let file = format!("rate = '5Mbit'\nqdisc = '{qdisc}'\n{corruption}");
            let settings = one(&file).unwrap();
            assert_eq!(settings.qdisc(), qdisc);
        }
        let names: Vec<&str> = AqmConfig::forms().iter().map(|(words, _)| words.name).collect();
        assert!(names.iter().all(|name| QDISCS.contains(name)), "{names:?}");
        assert_eq!(one("rate = '5Mbit'").unwrap().qdisc(), "fq-codel");
    }

    #[test]
    fn queues_are_as_long_as_is_said_or_100_ms() {
        let queue = |file: &str| one(file).unwrap().link["queue"].as_str().unwrap().to_owned();
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
        assert!(error("rate = '0'").starts_with("eth0: the rate"));
        assert_eq!(
            error("rate = '5Mbit'\nqdisc = 'fq_codl'"),
            "eth0: no qdisc fq_codl: did you mean fq-codel?"
        );
        assert!(error("rate = '5Mbit'\nqdisc = 'sfq2000'").contains("there are droptail, red,"));
        assert_eq!(error("rat = '5Mbit'"), "eth0: no key `rat`: did you mean `rate`?");
        assert!(error("rate = '5Mbit'\nqueue = '3x'").contains("queue"));
        assert!(
            error("rate = '5Mbit'\naqm = { kind = 'codel', traget = '5ms' }").contains("target")
        );
        assert!(error("rate = '5Mbit'\nqdisc = 'codel'\naqm = 'red'").contains("say the same"));
        assert!(error("rate = '5Mbit'\nqdisc = 'ceten'").contains("--corruption 1%"));
        assert!(error("rate = '5Mbit'\ncorruption = 1.5").contains("share of packets"));
        let none = read("rate = '5Mbit'", &[], &Choice::default()).unwrap_err();
        assert!(none.starts_with("no device"));
        let twice = read("rate = '5Mbit'", &["a", "a"], &Choice::default()).unwrap_err();
        assert_eq!(twice, "the device a is named twice");
        let long = read("rate = '5Mbit'", &["a-very-long-name"], &Choice::default()).unwrap_err();
        assert!(long.contains("no device has such a name"));
        assert!(read("rate = ", &["a"], &Choice::default()).unwrap_err().starts_with("no TOML"));
    }
}
