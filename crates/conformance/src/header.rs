//! The options of a script whose receiver and path are simulated.

use std::str::FromStr;

use windward_core::endpoint::EndpointConfig;
use windward_core::part::Parameters as _;
use windward_core::units::{Duration, Rate, Time};
use windward_sim::suggest::hint as nearest;

use super::parser::Setting;
use super::{Fault, Place, Subject};

/// The longest script.
const LONGEST: Duration = Duration::from_secs(86_400);

/// The options of a script.
#[derive(Debug, Clone)]
pub(super) struct Header {
    pub(super) title: String,
    /// The document that it follows: `RFC 5681`.
    pub(super) source: String,
    /// Protocols to which it applies, as scenario files name them; never empty.
    pub(super) protocols: Vec<String>,
    /// Stacks to which it applies too, if the program includes them.
    pub(super) stacks: Vec<String>,
    pub(super) duration: Duration,
    pub(super) route: Route,
    pub(super) rules: Vec<Rule>,
    /// Parameters of the endpoints.
    pub(super) endpoint: Vec<Setting>,
}

/// The path of packets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Route {
    /// Round-trip time without queues; half of it each way.
    pub(super) rtt: Duration,
    /// Rate of data packets; `None` sends any number of them at once.
    pub(super) rate: Option<Rate>,
    /// Queue limit: packets behind the one in transmission.
    pub(super) queue: Option<u64>,
}

/// Fate of some packets.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) fate: Fate,
    /// True for acknowledgments, false for data packets.
    pub(super) of_acks: bool,
    /// Numbers in the order of sending, from one.
    pub(super) packet: Numbers,
    /// The data that they carry, from one, and the number of its transmission, from one.
    pub(super) data: Numbers,
    pub(super) transmission: Numbers,
    /// Sent from the first instant on and before the second.
    pub(super) from: Time,
    pub(super) until: Time,
    /// Every n-th of those, from one, and the maximum number of these.
    pub(super) every: u64,
    pub(super) first: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Lost,
    /// Congestion experienced, if the packet is ECN-capable.
    Marked,
    /// An additional delay, with which later packets may overtake it.
    Delayed(Duration),
}

/// Numbers from one, as single numbers and inclusive ranges; none of them stands for all.
#[derive(Debug, Clone, Default)]
pub(super) struct Numbers(Vec<(u64, u64)>);

impl Numbers {
    pub(super) fn has(&self, number: u64) -> bool {
        self.0.is_empty() || self.0.iter().any(|(first, last)| (*first..=*last).contains(&number))
    }
}

impl Header {
    /// Reads the options, if they have a path.
    pub(super) fn read(settings: &[Setting]) -> Result<Option<Header>, Fault> {
        if !settings.iter().any(|setting| setting.name == "rtt") {
            return Ok(None);
        }
        let mut header = Header {
            title: String::new(),
            source: String::new(),
            protocols: Vec::new(),
            stacks: Vec::new(),
            duration: Duration::ZERO,
            route: Route { rtt: Duration::ZERO, rate: None, queue: None },
            rules: Vec::new(),
            endpoint: Vec::new(),
        };
        for setting in settings {
            let Setting { name, value, place } = setting;
            let set = match name.as_str() {
                "title" => parsed(value).map(|title| header.title = title),
                "source" => parsed(value).map(|source| header.source = source),
                "protocol" => parsed(value).map(|row| header.protocols.push(row)),
                "stack" => parsed(value).map(|stack| header.stacks.push(stack)),
                "rtt" => time(value).map(|rtt| header.route.rtt = rtt),
                "duration" => time(value).map(|duration| header.duration = duration),
                "rate" => parsed(value).map(|rate| header.route.rate = Some(rate)),
                "queue" => parsed(value).map(|queue| header.route.queue = Some(queue)),
                "lose" => rule(Fate::Lost, value).map(|rule| header.rules.push(rule)),
                "mark" => rule(Fate::Marked, value).map(|rule| header.rules.push(rule)),
                "delay" => delay(value).map(|rule| header.rules.push(rule)),
                name => known(name).map(|()| header.endpoint.push(setting.clone())),
            };
            set.map_err(|why| wrong(*place, name, value, &why))?;
        }
        header.check().map_err(|why| Fault::new(Place::START, Subject::Syntax, why))?;
        Ok(Some(header))
    }

    fn check(&self) -> Result<(), String> {
        let missing = |name: &str, example: &str| {
            Err(format!("the option --{name} is missing, as in --{name}={example}"))
        };
        match self {
            _ if self.title.is_empty() => missing("title", "Slow start"),
            _ if self.source.is_empty() => missing("source", "RFC 5681"),
            _ if self.protocols.is_empty() => missing("protocol", "newreno"),
            _ if self.duration.is_zero() => missing("duration", "1s"),
            _ if self.route.queue.is_some() && self.route.rate.is_none() => {
                Err("--queue needs --rate, without which no packet waits".to_owned())
            }
            _ => Ok(()),
        }
    }
}

fn wrong(place: Place, name: &str, value: &str, why: &str) -> Fault {
    Fault::new(place, Subject::Syntax, format!("--{name}={value}: {why}"))
}

fn parsed<T: FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, String> {
    text.trim().parse().map_err(|error: T::Err| error.to_string())
}

fn time(text: &str) -> Result<Duration, String> {
    let time: Duration = parsed(text)?;
    match !time.is_zero() && time <= LONGEST {
        true => Ok(time),
        false => Err("must be more than zero, and at most 24h".to_owned()),
    }
}

/// Checks the name of a parameter of endpoints.
fn known(name: &str) -> Result<(), String> {
    let own = EndpointConfig::DEFAULT.settings();
    let keys = own.iter().filter(|setting| setting.table.is_empty());
    let keys: Vec<&str> = keys.map(|setting| setting.doc.key).chain(["preset"]).collect();
    match keys.contains(&name) {
        true => Ok(()),
        false => Err(format!("unknown option{}", nearest(name, keys))),
    }
}

/// `20ms, packets 11..30, from 80ms`.
fn delay(text: &str) -> Result<Rule, String> {
    let (delay, rest) = text.split_once(',').unwrap_or((text, ""));
    rule(Fate::Delayed(parsed(delay)?), rest)
}

/// `packets 3 11..15, from 100ms, until 1s, every 20, first 1`, `data 2, transmission 1`, `acks 4`.
fn rule(fate: Fate, text: &str) -> Result<Rule, String> {
    let mut rule = Rule {
        fate,
        of_acks: false,
        packet: Numbers::default(),
        data: Numbers::default(),
        transmission: Numbers::default(),
        from: Time::ZERO,
        until: Time::NEVER,
        every: 1,
        first: u64::MAX,
    };
    let instant = |text: &str| parsed(text).map(|at: Duration| Time::ZERO + at);
    let mut subject = false;
    for part in text.split(',') {
        let (word, value) = part.trim().split_once(' ').unwrap_or((part.trim(), ""));
        match word {
            "packets" => rule.packet = numbers(value)?,
            "data" => rule.data = numbers(value)?,
            "acks" => (rule.of_acks, rule.packet) = (true, numbers(value)?),
            "transmission" => rule.transmission = numbers(value)?,
            "from" => rule.from = instant(value)?,
            "until" => rule.until = instant(value)?,
            "every" => rule.every = parsed(value)?,
            "first" => rule.first = parsed(value)?,
            _ => {
                let words =
                    ["packets", "data", "acks", "transmission", "from", "until", "every", "first"];
                return Err(format!("unknown word `{word}`{}", nearest(word, words)));
            }
        }
        subject |= ["packets", "data", "acks"].contains(&word);
    }
    match &rule {
        _ if !subject => Err("names no `packets`, `data` or `acks`".to_owned()),
        Rule { from, until, .. } if from >= until => {
            Err("`from` must come before `until`".to_owned())
        }
        Rule { every: 0, .. } | Rule { first: 0, .. } => Err("numbers count from one".to_owned()),
        Rule { transmission, data, .. } if !transmission.0.is_empty() && data.0.is_empty() => {
            Err("`transmission` needs `data`, whose transmission it is".to_owned())
        }
        Rule { of_acks: true, fate: Fate::Marked, .. } => Err("acks have no marks".to_owned()),
        _ => Ok(rule),
    }
}

/// `3 11..15`.
fn numbers(text: &str) -> Result<Numbers, String> {
    let one = |word: &str| {
        let (first, last) = word.split_once("..").unwrap_or((word, word));
        let both = (first.parse().ok()?, last.parse().ok()?);
        (0 < both.0 && both.0 <= both.1).then_some(both)
    };
    let all: Option<_> = text.split_whitespace().map(one).collect();
    all.map(Numbers).ok_or_else(|| {
        format!("`{text}` is not a list of numbers from one and ranges, as in `3 11..15`")
    })
}
