//! Reads scripts, strictly.

use std::str::FromStr;

use toml_edit::{Document, Value};
use windward_core::endpoint::EndpointConfig;
use windward_core::part::Parameters;
use windward_core::protocols;
use windward_core::units::{Duration, Rate, Time};
use windward_experiments::LabError;
use windward_experiments::error::nearest;
use windward_experiments::strict_toml::{At, Section, Source};

use super::{
    Anchor, Compared, Event, Expectation, Fate, Moment, Numbers, Offer, Quantity, Route, Rule,
    Script, Want, Which,
};

/// What a script is called in errors about its outermost table.
const FILE: &str = "the script";
/// The longest script, by its own clock.
const LONGEST: Duration = Duration::from_secs(86_400);
/// How far from a number without a tolerance what is seen may lie, of it: rounding.
const ROUNDING: f64 = 1e-6;
/// Repetitions of one offer of the application.
const MOST_OFFERS: u32 = 10_000;

pub(super) fn parse(name: &str, text: &str) -> Result<Script, LabError> {
    let source = Source { name, text };
    if text.trim().is_empty() {
        return Err(source.error(0, "is empty: a script is described in docs/scripts.md"));
    }
    let document =
        Document::parse(text).map_err(|e| source.error(source.line(e.span()), e.message()))?;
    source.check_texts(document.as_table())?;
    let file = Section::new(source, FILE, document.as_item())?;
    let script = read(source, &file)?;
    file.finish()?;
    Ok(script)
}

fn read(source: Source<'_>, file: &Section<'_>) -> Result<Script, LabError> {
    let duration = needed(file, "duration", duration(file, "duration")?)?;
    if duration.value.is_zero() || duration.value > LONGEST {
        let message = format!("`duration` must be above zero and no longer than {LONGEST}");
        return Err(source.error(duration.line, message));
    }
    let script = Script {
        name: source.name.to_owned(),
        title: file.needed_text("title")?.value,
        source: file.needed_text("source")?.value,
        about: file.text("about")?.map(|text| text.value).unwrap_or_default(),
        protocols: protocols(source, file)?,
        foreign: file.texts("foreign")?.into_iter().map(|text| text.value).collect(),
        duration: duration.value,
        route: route(file)?,
        endpoint: endpoint(source, file)?,
        offers: offers(file)?,
        data: rules(file, "data")?,
        acks: rules(file, "acks")?,
        expectations: file
            .sections("expect")?
            .into_iter()
            .map(|section| expectation(source, section))
            .collect::<Result<_, _>>()?,
    };
    if script.expectations.is_empty() {
        return Err(source.error(0, "expects nothing: write [[expect]]"));
    }
    let end = Time::ZERO + script.duration;
    let late = script.expectations.iter().find(|expectation| match expectation.at.anchor {
        Anchor::Instant(at) => at + expectation.at.plus > end,
        Anchor::Event(..) => false,
    });
    if let Some(late) = late {
        let message = format!("`{}` lies beyond the `duration`", late.at.text);
        return Err(source.error(late.line, message));
    }
    Ok(script)
}

fn needed<T>(section: &Section<'_>, key: &str, found: Option<T>) -> Result<T, LabError> {
    found.ok_or_else(|| section.missing(key))
}

/// Names of protocols, or tables of their parts, as texts that `--protocol` could have.
fn protocols(source: Source<'_>, file: &Section<'_>) -> Result<Vec<String>, LabError> {
    let mut names = Vec::new();
    for value in file.values("protocols")? {
        names.push(match value {
            Value::String(text) => text.value().clone(),
            Value::InlineTable(table) => table.to_string().trim().to_owned(),
            _ => {
                let message = "`protocols` lists names and tables of parts";
                return Err(source.error(source.line(value.span()), message));
            }
        });
    }
    match names.is_empty() {
        true => Err(file.missing("protocols")),
        false => Ok(names),
    }
}

fn route(file: &Section<'_>) -> Result<Route, LabError> {
    let path = needed(file, "path", file.section("path")?)?;
    let rtt = needed(&path, "rtt", duration(&path, "rtt")?)?;
    if rtt.value.is_zero() {
        return Err(path.error("`rtt` must be above zero"));
    }
    let rate = of_text::<Rate>(&path, "rate", "a rate, as \"10Mbit\"")?;
    let queue = path.count("queue", 0)?;
    if queue.is_some() && rate.is_none() {
        return Err(path.error("a `queue` needs a `rate`: without one nothing waits"));
    }
    path.finish()?;
    let rate = rate.map(|at| at.value);
    Ok(Route { rtt: rtt.value, rate, queue: queue.map(|at| u64::from(at.value)) })
}

/// The keys are those of scenario files, which know what values they take.
fn endpoint(source: Source<'_>, file: &Section<'_>) -> Result<Vec<(At<String>, String)>, LabError> {
    let Some(section) = file.section("endpoint")? else { return Ok(Vec::new()) };
    let of_parts = protocols::tables().into_iter().filter(|table| table.name.is_empty());
    let known: Vec<&str> = EndpointConfig::KEYS
        .iter()
        .map(|parameter| parameter.doc.key)
        .chain(of_parts.flat_map(|table| table.settings).map(|setting| setting.doc.key))
        .chain(["preset"])
        .collect();
    let mut keys = Vec::new();
    for (key, item) in section.free_keys() {
        if !known.contains(&key.value.as_str()) {
            let hint = nearest(&key.value, known.iter().copied());
            let message = format!("`endpoint` has no key `{}`{hint}", key.value);
            return Err(source.error(key.line, message));
        }
        let value = item.to_string().trim().to_owned();
        keys.push((key, value));
    }
    Ok(keys)
}

fn offers(file: &Section<'_>) -> Result<Vec<Offer>, LabError> {
    let mut offers = Vec::new();
    for section in file.sections("offer")? {
        let at = instant(&section, "at")?.unwrap_or(Time::ZERO);
        let packets = section.count("packets", 1)?;
        let bulk = section.flag("bulk")?.is_some_and(|at| at.value);
        let every = duration(&section, "every")?;
        let times = section.count("times", 2)?;
        let packets = match (packets, bulk) {
            (Some(n), false) => u64::from(n.value),
            (None, true) => u64::MAX,
            _ => return Err(section.error("an offer is either of `packets` or `bulk = true`")),
        };
        let repeats = match (every, times) {
            (None, None) => (Duration::ZERO, 1),
            (Some(every), Some(times)) if times.value <= MOST_OFFERS && !bulk => {
                (every.value, times.value)
            }
            (Some(_), Some(times)) if !bulk => {
                let message = format!("`times` is {} and may be {MOST_OFFERS}", times.value);
                return Err(section.error(message));
            }
            _ => {
                let message = "`every` and `times` go together, and not with `bulk`";
                return Err(section.error(message));
            }
        };
        let instants = (0..repeats.1).map(|i| at + repeats.0.saturating_mul(u64::from(i)));
        offers.extend(instants.map(|at| Offer { at, packets }));
        section.finish()?;
    }
    if offers.is_empty() {
        offers.push(Offer { at: Time::ZERO, packets: u64::MAX });
    }
    offers.sort_by_key(|offer| offer.at);
    Ok(offers)
}

fn rules(file: &Section<'_>, key: &'static str) -> Result<Vec<Rule>, LabError> {
    let is_data = key == "data";
    let rule = |section: Section<'_>| {
        let which = Which {
            packet: numbers(&section, if is_data { "packet" } else { "ack" })?,
            data: if is_data { numbers(&section, "data")? } else { None },
            transmission: if is_data { numbers(&section, "transmission")? } else { None },
            from: instant(&section, "from")?.unwrap_or(Time::ZERO),
            until: instant(&section, "until")?.unwrap_or(Time::NEVER),
            every: section.count("every", 1)?.map_or(1, |at| u64::from(at.value)),
            first: section.count("first", 1)?.map_or(u64::MAX, |at| u64::from(at.value)),
        };
        if which.from >= which.until {
            return Err(section.error("`from` must come before `until`"));
        }
        if which.transmission.is_some() && which.data.is_none() {
            return Err(section.error("`transmission` needs `data`: of which is it meant?"));
        }
        let lost = section.flag("lost")?.is_some_and(|at| at.value);
        let marked = is_data && section.flag("marked")?.is_some_and(|at| at.value);
        let delay = duration(&section, "delay")?;
        let fate = match (lost, marked, delay) {
            (true, false, None) => Fate::Lost,
            (false, true, None) => Fate::Marked,
            (false, false, Some(delay)) => Fate::Delayed(delay.value),
            _ => {
                let fates =
                    if is_data { "`lost`, `marked` or `delay`" } else { "`lost` or `delay`" };
                let message = format!("says what becomes of packets by one of {fates}");
                return Err(section.error(message));
            }
        };
        section.finish()?;
        Ok(Rule { which, fate })
    };
    file.sections(key)?.into_iter().map(rule).collect()
}

fn expectation(source: Source<'_>, section: Section<'_>) -> Result<Expectation, LabError> {
    let text = section.needed_text("at")?;
    let at = moment(source, &text)?;
    let mut wants = Vec::new();
    for (quantity, key) in Quantity::ALL {
        if let Some(want) = want(source, &section, quantity, key)? {
            wants.push((quantity, want));
        }
    }
    let is_event = matches!(at.anchor, Anchor::Event(..)) && at.plus.is_zero() && !at.before;
    let of_packet =
        matches!(at.anchor, Anchor::Event(Event::Packet | Event::Retransmission | Event::Loss, _));
    for (quantity, _) in &wants {
        let message = match quantity {
            Quantity::Time if !is_event => "`time` is expected of events, as `at = \"timeout 1\"`",
            Quantity::Data if !is_event || !of_packet => {
                "`data` is expected of packets, as `at = \"retransmission 1\"`"
            }
            _ => continue,
        };
        return Err(section.error(message));
    }
    let mut departs = Vec::new();
    if let Some(table) = section.section("departs")? {
        for (protocol, item) in table.free_keys() {
            let Some(why) = item.as_str().filter(|why| !why.trim().is_empty()) else {
                let message = "`departs` gives the reason for each protocol, as a text";
                return Err(source.error(protocol.line, message));
            };
            departs.push((protocol.value, why.to_owned()));
        }
    }
    let expectation = Expectation {
        line: section.line,
        source: section.needed_text("source")?.value,
        says: section.needed_text("says")?.value,
        at,
        wants,
        departs,
    };
    section.finish()?;
    if expectation.wants.is_empty() {
        let quantities = Quantity::ALL.map(|(_, word)| word).join(", ");
        let message = format!("expects nothing at that moment: one of {quantities}");
        return Err(source.error(expectation.line, message));
    }
    Ok(expectation)
}

/// `300ms`, `ack 5`, `before retransmission 1`, `timeout 1 + 500ms`.
fn moment(source: Source<'_>, text: &At<String>) -> Result<Moment, LabError> {
    let wrong = |why: String| {
        let events = Event::ALL.map(|(_, word)| word).join(", ");
        let message = format!(
            "`{}` is no moment: {why}. Write a time, as \"300ms\", or the number of an event \
             ({events}), as \"ack 5\", with \"before \" in front or \" + 1s\" behind it",
            text.value
        );
        source.error(text.line, message)
    };
    let rest = text.value.trim();
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
    Ok(Moment { text: text.value.trim().to_owned(), before, anchor, plus })
}

/// `10`, `[9, 11]`, `{ is = 10, within = 0.5 }`, `{ least = 9 }`, `{ times = 0.7, of = "ack 4" }`,
/// `{ plus = 1, from = "300ms" }`.
fn want(
    source: Source<'_>,
    section: &Section<'_>,
    quantity: Quantity,
    key: &'static str,
) -> Result<Option<Want>, LabError> {
    // A table of another kind is none of these, and the next line says so.
    let inline = section.typed(key, "a value", |value| Some(value.is_inline_table()));
    let is_table = inline.as_ref().is_ok_and(|found| found.as_ref().is_some_and(|at| at.value));
    if !is_table {
        let Some(span) = span(section, key, quantity.is_time())? else { return Ok(None) };
        let (least, most) = widened(span, ROUNDING);
        return Ok(Some(Want { least, most, of: Compared::Itself }));
    }
    let Some(table) = section.section(key)? else { return Ok(None) };
    let is = span(&table, "is", quantity.is_time())?;
    let least = span(&table, "least", quantity.is_time())?;
    let most = span(&table, "most", quantity.is_time())?;
    let times = span(&table, "times", false)?;
    let plus = span(&table, "plus", quantity.is_time())?;
    let within = within(&table, quantity.is_time())?;
    let of = table.text("of")?;
    let from = table.text("from")?;
    let other = table.text("quantity")?;
    let (span, compared) = match (is, times, plus) {
        (Some(span), None, None) => (Some(span), Compared::Itself),
        (None, Some(span), None) => {
            let moment = moment(source, &needed(&table, "of", of.clone())?)?;
            let compared = match &other {
                None => Compared::Over(moment),
                Some(word) => {
                    let found = Quantity::ALL.into_iter().find(|(_, known)| *known == word.value);
                    let Some((other, _)) = found else {
                        let hint = nearest(&word.value, Quantity::ALL.map(|(_, word)| word));
                        let message = format!("there is no quantity `{}`{hint}", word.value);
                        return Err(source.error(word.line, message));
                    };
                    if matches!(other, Quantity::Time | Quantity::Data) {
                        let message = format!("`{}` is no state to compare with", word.value);
                        return Err(source.error(word.line, message));
                    }
                    Compared::OverOther(other, moment)
                }
            };
            (Some(span), compared)
        }
        (None, None, Some(span)) => {
            let moment = moment(source, &needed(&table, "from", from.clone())?)?;
            (Some(span), Compared::Beyond(moment))
        }
        (None, None, None) if least.is_some() || most.is_some() => (None, Compared::Itself),
        _ => return Err(table.error("is one of `is`, `times`, `plus`, or `least` and `most`")),
    };
    if of.is_some() != times.is_some() || from.is_some() != plus.is_some() {
        return Err(table.error("`times` goes with `of`, and `plus` with `from`"));
    }
    if other.is_some() && times.is_none() {
        return Err(table.error("`quantity` goes with `times`"));
    }
    let (least, most) = match span {
        Some(_) if least.is_some() || most.is_some() => {
            return Err(table.error("bounds are `least` and `most`, or a value alone"));
        }
        Some(span) => match within {
            None => widened(span, ROUNDING),
            Some(Tolerance::Share(share)) => widened(span, share),
            Some(Tolerance::Wide(by)) => (span.0 - by, span.1 + by),
        },
        None if within.is_some() => return Err(table.error("`within` goes with a value")),
        None => {
            let low = least.map_or(f64::NEG_INFINITY, |span| span.0);
            let high = most.map_or(f64::INFINITY, |span| span.1);
            if low > high {
                return Err(table.error("`least` is more than `most`: nothing can meet both"));
            }
            // A bound is met by what rounding alone keeps from it.
            (widened((low, low), ROUNDING).0, widened((high, high), ROUNDING).1)
        }
    };
    table.finish()?;
    Ok(Some(Want { least, most, of: compared }))
}

fn widened((low, high): (f64, f64), share: f64) -> (f64, f64) {
    // Infinite bounds stay as they are.
    (low - low.abs().min(f64::MAX) * share, high + high.abs().min(f64::MAX) * share)
}

enum Tolerance {
    Share(f64),
    Wide(f64),
}

fn within(section: &Section<'_>, is_time: bool) -> Result<Option<Tolerance>, LabError> {
    let parse = |value: &Value| {
        if let Some(percent) = value.as_str().and_then(|text| text.trim().strip_suffix('%')) {
            let share = percent.trim().parse::<f64>().ok()? / 100.0;
            return (0.0..=1.0).contains(&share).then_some(Tolerance::Share(share));
        }
        amount(value, is_time).filter(|by| *by >= 0.0).map(Tolerance::Wide)
    };
    let wanted =
        if is_time { "a time or a share, as \"5%\"" } else { "a number or a share, as \"5%\"" };
    Ok(section.typed("within", wanted, parse)?.map(|at| at.value))
}

/// A number, or a time in seconds.
fn amount(value: &Value, is_time: bool) -> Option<f64> {
    if is_time {
        let time = Duration::from_str(value.as_str()?).ok()?;
        return Some(time.as_secs_f64());
    }
    if value.as_str() == Some("inf") {
        return Some(f64::INFINITY);
    }
    let number = value.as_integer().map(|n| n as f64).or_else(|| value.as_float());
    number.filter(|number| !number.is_nan())
}

/// A value alone, or two of them, the lower first.
fn span(
    section: &Section<'_>,
    key: &'static str,
    is_time: bool,
) -> Result<Option<(f64, f64)>, LabError> {
    let parse = |value: &Value| match value.as_array() {
        Some(array) => match array.iter().map(|v| amount(v, is_time)).collect::<Vec<_>>()[..] {
            [Some(low), Some(high)] if low <= high => Some((low, high)),
            _ => None,
        },
        None => amount(value, is_time).map(|x| (x, x)),
    };
    let wanted = match is_time {
        true => "a time, as \"300ms\", or two, the earlier first",
        false => "a number, or two, the lower first",
    };
    Ok(section.typed(key, wanted, parse)?.map(|at| at.value))
}

fn numbers(section: &Section<'_>, key: &'static str) -> Result<Option<Numbers>, LabError> {
    fn one(value: &Value) -> Option<(u64, u64)> {
        let (first, last) = match value.as_str() {
            Some(text) => {
                let (first, last) = text.split_once("..")?;
                (first.trim().parse().ok()?, last.trim().parse().ok()?)
            }
            None => {
                let number = u64::try_from(value.as_integer()?).ok()?;
                (number, number)
            }
        };
        (first > 0 && first <= last).then_some((first, last))
    }
    let parse = |value: &Value| match value.as_array() {
        Some(array) if !array.is_empty() => {
            Some(Numbers(array.iter().map(one).collect::<Option<Vec<_>>>()?))
        }
        Some(_) => None,
        None => Some(Numbers(vec![one(value)?])),
    };
    let wanted = "a number from 1, a range with both ends, as \"3..5\", or a list of these";
    Ok(section.typed(key, wanted, parse)?.map(|at| at.value))
}

/// A text that is read with its unit.
fn of_text<T: FromStr>(
    section: &Section<'_>,
    key: &'static str,
    wanted: &str,
) -> Result<Option<At<T>>, LabError> {
    section.typed(key, wanted, |value| value.as_str().and_then(|text| text.parse().ok()))
}

fn duration(section: &Section<'_>, key: &'static str) -> Result<Option<At<Duration>>, LabError> {
    of_text(section, key, "a time with its unit, as \"100ms\"")
}

fn instant(section: &Section<'_>, key: &'static str) -> Result<Option<Time>, LabError> {
    Ok(duration(section, key)?.map(|at| Time::ZERO + at.value))
}
