//! Strict reader of scripts.

use std::str::FromStr;
use std::sync::OnceLock;

use windward_core::endpoint::EndpointConfig;
use windward_core::part::Parameters;
use windward_core::units::{Duration, Rate, Time};
use windward_sim::keys;
use windward_sim::strict_toml::{
    At, Document, Field, FileError, Key, KeyList, KeySource, Result, Section, Shorthand, TomlType,
    json_schema, readers, unnamed,
};
use windward_sim::suggest::hint as nearest;

use super::{
    Anchor, Compared, Event, Expectation, Fate, Moment, Numbers, Offer, Quantity, Route, Rule,
    Script, Want, Which,
};

/// Maximum duration of a script.
const LONGEST: Duration = Duration::from_secs(86_400);
/// Default tolerance of a number, as a share of it, for rounding.
const ROUNDING: f64 = 1e-6;
/// Maximum number of repetitions of one offer of the application.
const MOST_OFFERS: u32 = 10_000;
/// Maximum of a count.
const MOST: u32 = 1_000_000;

/// The declarations of all keys.
const KEYS: &[KeySource] = &[ScriptKeys::KEYS];

keys! {
    /// Keys of the file.
    struct ScriptKeys<'a> in "script" {
        title: String = readers::string(), needed "title = \"Slow start\"", "what it tests";
        source: String = readers::string(), needed "source = \"RFC 5681\"",
            "the source";
        about: String = readers::string(), empty, "more words";
        protocols: Vec<Field<'a>> = readers::one_or_more(any_value()), empty,
            "the protocols that it applies to, by name or as tables of parts";
        foreign: Vec<At<String>> = readers::texts(), empty,
            "protocols that it does not apply to but runs with";
        duration: Duration = readers::positive(LONGEST), needed "duration = \"1s\"",
            "its length, up to 24h";
        path: Section<'a> = readers::table(&[PathKeys::KEYS]), needed "path = { rtt = \"100ms\" }",
            "the path of the packets";
        endpoint: Option<Section<'a>> =
            readers::table(&[KeySource::Declared(endpoint_keys)]), absent,
            "parameters of the endpoints";
        offer: Vec<Section<'a>> = readers::tables(&[OfferKeys::KEYS], unnamed), empty,
            "data of the application; without any, data that never runs out";
        data: Vec<Section<'a>> = readers::tables(&[DataKeys::KEYS, RuleKeys::KEYS], unnamed),
            empty, "rules for data packets";
        acks: Vec<Section<'a>> = readers::tables(&[AckKeys::KEYS, RuleKeys::KEYS], unnamed), empty,
            "rules for acknowledgments";
        expect: Vec<Section<'a>> = readers::tables(EXPECTATION, unnamed), empty,
            "requirements of the source";
    }
}

fn any_value() -> TomlType {
    TomlType::OneOf(vec![TomlType::Any, TomlType::Foreign])
}

/// Parameters of endpoints, but not of parts of protocols.
fn endpoint_keys() -> &'static KeyList {
    static KEYS: OnceLock<KeyList> = OnceLock::new();
    KEYS.get_or_init(|| {
        let preset = Key {
            name: "preset",
            kind: TomlType::Text,
            default: "none".into(),
            meaning: "a named set of values, as in scenarios".into(),
        };
        let own = EndpointConfig::DEFAULT.settings();
        KeyList { name: "endpoint", keys: own.iter().map(Key::of).chain([preset]).collect() }
    })
}

keys! {
    /// Keys of `path`.
    struct PathKeys<'a> in "path" {
        rtt: Duration = readers::positive(LONGEST), needed "rtt = \"100ms\"",
            "round-trip time without queues";
        rate: Option<Rate> = readers::rate(), absent "any number of packets at once",
            "of data packets";
        queue: Option<Field<'a>> =
            readers::any(|| (readers::small(0..=MOST).kind)()), absent "no limit",
            "maximum number of packets behind the one in transmission";
    }

    /// Keys of an offer.
    struct OfferKeys in "offer" {
        at: Duration = readers::time(Duration::ZERO..=Duration::MAX), or Duration::ZERO,
            "the time at which the application has the data";
        packets: Option<u32> = readers::small(1..=MOST), absent, "packets of it";
        bulk: bool = readers::flag(), or false, "instead of packets: data that never runs out";
        every: Option<Duration> = readers::time(Duration::ZERO..=Duration::MAX), absent,
            "time between repetitions";
        times: Option<u32> = readers::small(2..=MOST), absent, "repetitions, up to 10000";
    }

    /// Keys of a rule for data packets.
    struct DataKeys in "data_rule" {
        packet: Option<Numbers> = readers::custom(numbers_kind, numbers), absent,
            "numbers in the order of sending, from 1";
        data: Option<Numbers> = readers::custom(numbers_kind, numbers), absent,
            "the data that they carry, from 1";
        transmission: Option<Numbers> = readers::custom(numbers_kind, numbers), absent,
            "the number of the transmission of that data, from 1";
        marked: bool = readers::flag(), or false, "mark them";
    }

    /// Keys of a rule for acknowledgments.
    struct AckKeys in "ack_rule" {
        ack: Option<Numbers> = readers::custom(numbers_kind, numbers), absent,
            "numbers in the order of sending, from 1";
    }

    /// Keys of every rule.
    struct RuleKeys in "rule" {
        from: Option<Duration> = readers::time(Duration::ZERO..=Duration::MAX), absent "0s",
            "sent from this instant on";
        until: Option<Duration> = readers::time(Duration::ZERO..=Duration::MAX), absent "the end",
            "sent before this instant";
        every: u32 = readers::small(1..=MOST), or 1, "every n-th of those";
        first: Option<u32> = readers::small(1..=MOST), absent "all", "the maximum number of these";
        lost: bool = readers::flag(), or false, "lose them";
        delay: Option<Duration> = readers::time(Duration::ZERO..=Duration::MAX), absent,
            "an additional delay, with which later packets may overtake";
    }
}

/// The keys of an expectation: beside its own, the quantities.
const EXPECTATION: &[KeySource] = &[ExpectationKeys::KEYS, KeySource::Declared(quantity_keys)];

keys! {
    /// Keys of an expectation, but for the quantities.
    struct ExpectationKeys<'a> in "expectation" {
        at: Field<'a> = readers::any(|| TomlType::Text), needed "at = \"1s\"",
            "the moment, as 300ms, ack 5, before timeout 1 or loss 1 + 1s";
        source: String = readers::string(), needed "source = \"section 3.1\"",
            "the section of the source";
        says: String = readers::string(), needed "says = \"cwnd is halved\"",
            "the sentence of the source";
        departs: Option<Section<'a>> = readers::free(TomlType::Text), absent,
            "protocols with a known departure, each with the reason";
    }
}

fn quantity_keys() -> &'static KeyList {
    static KEYS: OnceLock<KeyList> = OnceLock::new();
    KEYS.get_or_init(|| {
        let key = |(_, name)| Key {
            name,
            kind: TomlType::Table {
                keys: &[WantKeys::KEYS],
                shorthand: Shorthand::None,
                values: vec![TomlType::Any],
            },
            default: "".into(),
            meaning: "its value at that moment".into(),
        };
        KeyList { name: "quantities", keys: Quantity::ALL.map(key).into() }
    })
}

keys! {
    /// Keys of an expected value as a table.
    struct WantKeys<'a> in "want" {
        is: Option<Field<'a>> = readers::any(|| TomlType::Any), absent, "the value, or two bounds";
        least: Option<Field<'a>> = readers::any(|| TomlType::Any), absent, "the least value";
        most: Option<Field<'a>> = readers::any(|| TomlType::Any), absent, "the greatest value";
        times: Option<Field<'a>> = readers::any(|| TomlType::Any), absent,
            "its ratio to the value at the moment `of`";
        plus: Option<Field<'a>> = readers::any(|| TomlType::Any), absent,
            "its difference to the value at the moment `from`";
        within: Option<Field<'a>> = readers::any(|| TomlType::Any), absent,
            "the tolerance of a value: a number, a time or a share, as 5%";
        of: Option<Field<'a>> = readers::any(|| TomlType::Text), absent, "times: the moment";
        from: Option<Field<'a>> = readers::any(|| TomlType::Text), absent, "plus: the moment";
        quantity: Option<Field<'a>> = readers::any(|| TomlType::Text), absent "the same",
            "times: the quantity at the moment `of`";
    }
}

pub(super) fn schema() -> serde_json::Value {
    json_schema("A conformance script of Windward", KEYS)
}

pub(super) fn parse(name: &str, text: &str) -> Result<Script> {
    if text.trim().is_empty() {
        let message = "is empty: docs/scripts.md describes scripts".to_owned();
        return Err(FileError::new(name, message));
    }
    let document = Document::parse(name, text)?;
    read(&document.root(KEYS)?)
}

fn read(file: &Section<'_>) -> Result<Script> {
    let keys = ScriptKeys::read(file)?;
    if keys.protocols.is_empty() {
        return Err(file.missing("protocols", "protocols = [\"newreno\"]"));
    }
    if keys.expect.is_empty() {
        return Err(file.error("expects nothing: add [[expect]]"));
    }
    let end = Time::ZERO + keys.duration;
    let mut expectations = Vec::new();
    for table in &keys.expect {
        let expectation = expectation(table)?;
        if let Anchor::Instant(at) = expectation.at.anchor
            && at + expectation.at.plus > end
        {
            let message = format!("`{}` is after the end of the `duration`", expectation.at.text);
            return Err(table.error_at("at", message));
        }
        expectations.push(expectation);
    }
    let mut data = Vec::new();
    for table in &keys.data {
        let DataKeys { packet, data: carried, transmission, marked } = DataKeys::read(table)?;
        data.push(rule(table, [packet, carried, transmission], Some(marked))?);
    }
    let mut acks = Vec::new();
    for table in &keys.acks {
        acks.push(rule(table, [AckKeys::read(table)?.ack, None, None], None)?);
    }
    Ok(Script {
        name: file.file().to_owned(),
        title: keys.title,
        source: keys.source,
        about: keys.about,
        protocols: keys.protocols.iter().map(protocol).collect::<Result<_>>()?,
        foreign: keys.foreign.into_iter().map(|text| text.value).collect(),
        duration: keys.duration,
        route: route(&keys.path)?,
        endpoint: keys.endpoint.as_ref().map(endpoint).unwrap_or_default(),
        offers: offers(&keys.offer)?,
        data,
        acks,
        expectations,
    })
}

/// The name of a protocol, or a table of its parts, as `--protocol` takes it.
fn protocol(field: &Field<'_>) -> Result<String> {
    match field.is_text() || field.is_table() {
        true => Ok(field.as_setting()),
        false => Err(field.error("`protocols` lists names and tables of parts")),
    }
}

fn route(path: &Section<'_>) -> Result<Route> {
    let PathKeys { rtt, rate, queue } = PathKeys::read(path)?;
    if let (Some(queue), None) = (&queue, rate) {
        return Err(queue.error("a `queue` needs a `rate`, without which no packet waits"));
    }
    let queue = queue.map(|field| field.integer(0..=u64::from(MOST))).transpose()?;
    Ok(Route { rtt, rate, queue })
}

/// The keys are those of scenario files, whose reader checks the values.
fn endpoint(section: &Section<'_>) -> Vec<(At<String>, String)> {
    let entry = |(key, field): (&str, Field<'_>)| (field.at(key.to_owned()), field.as_written());
    section.entries().map(entry).collect()
}

fn offers(tables: &[Section<'_>]) -> Result<Vec<Offer>> {
    let mut offers = Vec::new();
    for table in tables {
        let OfferKeys { at, packets, bulk, every, times } = OfferKeys::read(table)?;
        let packets = match (packets, bulk) {
            (Some(packets), false) => u64::from(packets),
            (None, true) => u64::MAX,
            _ => return Err(table.error("an offer has either `packets` or `bulk = true`")),
        };
        let (every, times) = match (every, times) {
            (None, None) => (Duration::ZERO, 1),
            (Some(_), Some(times)) if !bulk && times > MOST_OFFERS => {
                let message = format!("`times` is {times}; at most {MOST_OFFERS} are possible");
                return Err(table.error_at("times", message));
            }
            (Some(every), Some(times)) if !bulk => (every, times),
            _ => {
                let message = "`every` and `times` need each other, and exclude `bulk`";
                return Err(table.error(message));
            }
        };
        let instants = (0..times).map(|i| Time::ZERO + at + every.saturating_mul(u64::from(i)));
        offers.extend(instants.map(|at| Offer { at, packets }));
    }
    if offers.is_empty() {
        offers.push(Offer { at: Time::ZERO, packets: u64::MAX });
    }
    offers.sort_by_key(|offer| offer.at);
    Ok(offers)
}

/// The rule of a table for the packets of these places, data and transmissions; `marked` is absent
/// for acknowledgments, which have no marks.
fn rule(table: &Section<'_>, of: [Option<Numbers>; 3], marked: Option<bool>) -> Result<Rule> {
    let RuleKeys { from, until, every, first, lost, delay } = RuleKeys::read(table)?;
    let [packet, data, transmission] = of;
    let which = Which {
        packet,
        data,
        transmission,
        from: Time::ZERO + from.unwrap_or_default(),
        until: until.map_or(Time::NEVER, |until| Time::ZERO + until),
        every: every.into(),
        first: first.map_or(u64::MAX, u64::from),
    };
    if which.from >= which.until {
        return Err(table.error("`from` must come before `until`"));
    }
    if which.transmission.is_some() && which.data.is_none() {
        return Err(table.error("`transmission` needs `data`, whose transmission it is"));
    }
    let fate = match (lost, marked.unwrap_or(false), delay) {
        (true, false, None) => Fate::Lost,
        (false, true, None) => Fate::Marked,
        (false, false, Some(delay)) => Fate::Delayed(delay),
        _ => {
            let fates = match marked {
                Some(_) => "`lost`, `marked` or `delay`",
                None => "`lost` or `delay`",
            };
            let message = format!("a rule sets the fate of packets by one of {fates}");
            return Err(table.error(message));
        }
    };
    Ok(Rule { which, fate })
}

fn expectation(table: &Section<'_>) -> Result<Expectation> {
    let keys = ExpectationKeys::read(table)?;
    let at = moment(&keys.at)?;
    let mut wants = Vec::new();
    for (quantity, key) in Quantity::ALL {
        if let Some(field) = table.get(key) {
            wants.push((quantity, want(&field, quantity)?));
        }
    }
    let is_event = matches!(at.anchor, Anchor::Event(..)) && at.plus.is_zero() && !at.before;
    let of_packet =
        matches!(at.anchor, Anchor::Event(Event::Packet | Event::Retransmission | Event::Loss, _));
    for (quantity, _) in &wants {
        let message = match quantity {
            Quantity::Time if !is_event => "`time` needs an event, as `at = \"timeout 1\"`",
            Quantity::Data if !is_event || !of_packet => {
                "`data` needs a packet, as `at = \"retransmission 1\"`"
            }
            _ => continue,
        };
        return Err(table.error(message));
    }
    let mut departs = Vec::new();
    for (protocol, field) in keys.departs.iter().flat_map(Section::entries) {
        match field.text()? {
            why if why.trim().is_empty() => {
                return Err(field.error("`departs` gives the reason for each protocol"));
            }
            why => departs.push((protocol.to_owned(), why.to_owned())),
        }
    }
    if wants.is_empty() {
        let quantities = Quantity::ALL.map(|(_, word)| word).join(", ");
        let message = format!("expects nothing at that moment: add one of {quantities}");
        return Err(table.error(message));
    }
    let ExpectationKeys { source, says, .. } = keys;
    Ok(Expectation { line: table.line(), source, says, at, wants, departs })
}

/// `300ms`, `ack 5`, `before retransmission 1`, `timeout 1 + 500ms`.
fn moment(field: &Field<'_>) -> Result<Moment> {
    let text = field.text()?;
    let wrong = |why: String| {
        let events = Event::ALL.map(|(_, word)| word).join(", ");
        field.error(format!("not a moment: {why}")).with_help(format!(
            "write a time, as \"300ms\", or the number of an event ({events}), as \"ack 5\", with \
             \"before \" in front or \" + 1s\" behind it"
        ))
    };
    let rest = text.trim();
    let (before, rest) = match rest.strip_prefix("before ") {
        Some(rest) => (true, rest.trim()),
        None => (false, rest),
    };
    let (rest, plus) = match rest.split_once('+') {
        Some((rest, plus)) => {
            let plus = Duration::from_str(plus.trim()).map_err(|e| wrong(e.to_string()))?;
            (rest.trim(), plus)
        }
        None => (rest, Duration::ZERO),
    };
    let anchor = match rest.split_once(' ') {
        Some((word, number)) if word.chars().all(|c| c.is_ascii_lowercase()) => {
            let event = Event::ALL.into_iter().find(|(_, known)| *known == word);
            let event = event
                .ok_or_else(|| {
                    let hint = nearest(word, Event::ALL.map(|(_, word)| word));
                    wrong(format!("there is no event `{word}`{hint}"))
                })?
                .0;
            let number = number.trim().parse().ok().filter(|n| *n > 0);
            let number = number.ok_or_else(|| wrong("events are counted from one".to_owned()))?;
            Anchor::Event(event, number)
        }
        _ => {
            let at = Duration::from_str(rest).map_err(|e| wrong(e.to_string()))?;
            Anchor::Instant(Time::ZERO + at)
        }
    };
    Ok(Moment { text: text.trim().to_owned(), before, anchor, plus })
}

/// `10`, `[9, 11]`, `{ is = 10, within = 0.5 }`, `{ least = 9 }`, `{ times = 0.7, of = "ack 4" }`,
/// `{ plus = 1, from = "300ms" }`.
fn want(field: &Field<'_>, quantity: Quantity) -> Result<Want> {
    let is_time = quantity.is_time();
    if !field.is_table() {
        let (least, most) = widened(span(field, is_time)?, ROUNDING);
        return Ok(Want { least, most, of: Compared::Itself });
    }
    let table = field.section()?;
    let keys = WantKeys::read(&table)?;
    let read = |field: &Option<Field<'_>>, is_time| {
        field.as_ref().map(|field| span(field, is_time)).transpose()
    };
    let (is, least, most) =
        (read(&keys.is, is_time)?, read(&keys.least, is_time)?, read(&keys.most, is_time)?);
    let (times, plus) = (read(&keys.times, false)?, read(&keys.plus, is_time)?);
    let within = keys.within.as_ref().map(|field| within(field, is_time)).transpose()?;
    let (span, compared) = match (is, times, plus) {
        (Some(span), None, None) => (Some(span), Compared::Itself),
        (None, Some(span), None) => {
            let of = keys.of.as_ref().ok_or_else(|| table.missing("of", "of = \"ack 4\""))?;
            let compared = match &keys.quantity {
                None => Compared::Over(moment(of)?),
                Some(field) => Compared::OverOther(state(field)?, moment(of)?),
            };
            (Some(span), compared)
        }
        (None, None, Some(span)) => {
            let missing = || table.missing("from", "from = \"300ms\"");
            (Some(span), Compared::Beyond(moment(keys.from.as_ref().ok_or_else(missing)?)?))
        }
        (None, None, None) if least.is_some() || most.is_some() => (None, Compared::Itself),
        _ => return Err(table.error("give one of `is`, `times`, `plus`, or `least` and `most`")),
    };
    if keys.of.is_some() != times.is_some() || keys.from.is_some() != plus.is_some() {
        return Err(table.error("`times` needs `of`, and `plus` needs `from`"));
    }
    if keys.quantity.is_some() && times.is_none() {
        return Err(table.error("`quantity` needs `times`"));
    }
    let (least, most) = match span {
        Some(_) if least.is_some() || most.is_some() => {
            return Err(table.error("use the bounds `least` and `most`, or a single value"));
        }
        Some(span) => match within {
            None => widened(span, ROUNDING),
            Some(Tolerance::Share(share)) => widened(span, share),
            Some(Tolerance::Wide(by)) => (span.0 - by, span.1 + by),
        },
        None if within.is_some() => return Err(table.error("`within` needs a value")),
        None => {
            let low = least.map_or(f64::NEG_INFINITY, |span| span.0);
            let high = most.map_or(f64::INFINITY, |span| span.1);
            if low > high {
                return Err(table.error("`least` is more than `most`: no value meets both"));
            }
            // Rounding must not violate a bound.
            (widened((low, low), ROUNDING).0, widened((high, high), ROUNDING).1)
        }
    };
    Ok(Want { least, most, of: compared })
}

/// A quantity that is defined at every moment.
fn state(field: &Field<'_>) -> Result<Quantity> {
    match field.one_of(&Quantity::ALL.map(|(quantity, word)| (word, quantity)))? {
        Quantity::Time | Quantity::Data => {
            Err(field.error("is not a state, so that it cannot be compared"))
        }
        quantity => Ok(quantity),
    }
}

fn widened((low, high): (f64, f64), share: f64) -> (f64, f64) {
    // Infinite bounds stay as they are.
    (low - low.abs().min(f64::MAX) * share, high + high.abs().min(f64::MAX) * share)
}

enum Tolerance {
    Share(f64),
    Wide(f64),
}

fn within(field: &Field<'_>, is_time: bool) -> Result<Tolerance> {
    let wrong = || {
        let wanted = if is_time { "a time" } else { "a number" };
        field.error(format!("must be {wanted} or a share, as \"5%\""))
    };
    let percent = field.text().ok().and_then(|text| text.trim().strip_suffix('%'));
    if let Some(percent) = percent {
        let share = percent.trim().parse::<f64>().map_err(|_| wrong())? / 100.0;
        return match (0.0..=1.0).contains(&share) {
            true => Ok(Tolerance::Share(share)),
            false => Err(wrong()),
        };
    }
    let by = amount(field, is_time).filter(|by| *by >= 0.0);
    by.map(Tolerance::Wide).ok_or_else(wrong)
}

/// A number, or a time in seconds.
fn amount(field: &Field<'_>, is_time: bool) -> Option<f64> {
    if is_time {
        let time = Duration::from_str(field.text().ok()?).ok()?;
        return Some(time.as_secs_f64());
    }
    if field.text() == Ok("inf") {
        return Some(f64::INFINITY);
    }
    field.float(f64::NEG_INFINITY..=f64::INFINITY).ok()
}

/// A single value, or two of them, the lower first.
fn span(field: &Field<'_>, is_time: bool) -> Result<(f64, f64)> {
    let both = if field.is_array() { field.items()? } else { vec![field.clone(); 2] };
    match both.iter().map(|item| amount(item, is_time)).collect::<Vec<_>>()[..] {
        [Some(low), Some(high)] if low <= high => Ok((low, high)),
        _ => Err(field.error(match is_time {
            true => "must be a time, as \"300ms\", or two, the earlier first",
            false => "must be a number, or two, the lower first",
        })),
    }
}

fn numbers_kind() -> TomlType {
    let one = || TomlType::OneOf(vec![(readers::integer(1..=u64::MAX).kind)(), TomlType::Text]);
    TomlType::OneOf(vec![one(), TomlType::List(Box::new(one()))])
}

fn numbers(field: &Field<'_>) -> Result<Numbers> {
    fn one(field: &Field<'_>) -> Option<(u64, u64)> {
        let (first, last) = match field.text() {
            Ok(text) => {
                let (first, last) = text.split_once("..")?;
                (first.trim().parse().ok()?, last.trim().parse().ok()?)
            }
            Err(_) => {
                let number = field.integer(1..=u64::MAX).ok()?;
                (number, number)
            }
        };
        (first > 0 && first <= last).then_some((first, last))
    }
    let items = if field.is_array() { field.items()? } else { vec![field.clone()] };
    let numbers = items.iter().map(one).collect::<Option<Vec<_>>>();
    numbers.filter(|numbers| !numbers.is_empty()).map(Numbers).ok_or_else(|| {
        let wanted = "must be a number from 1, a range with both ends, as \"3..5\", or a list of \
                      these";
        field.error(wanted)
    })
}
