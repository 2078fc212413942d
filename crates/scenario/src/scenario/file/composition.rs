//! `protocol`: the name of a row of the protocol table, or a table of the names of parts.

use std::collections::BTreeSet;
use std::sync::Mutex;

use windward_core::endpoint::discrimination::DiscriminatorConfig;
use windward_core::endpoint::feedback::FeedbackConfig;
use windward_core::endpoint::recovery::RecoveryConfig;
use windward_core::endpoint::window::{ControllerConfig, Expressions};
use windward_core::network::RouterKind;
use windward_core::part::{AnyPart, Custom, Words};
use windward_core::protocols::{self, PROTOCOLS, Protocol};

use super::endpoint::Preset;
use crate::keys;
use crate::strict_toml::{Field, Result, Shorthand, TomlType, readers};

keys! {
    /// Keys of `protocol` as a table.
    struct CompositionKeys<'a> in "protocol" {
        base: Option<Field<'a>> = readers::any(|| TomlType::Words(rows())), absent,
            "a row of the protocol table, from which the parts come that are not named here";
        window: Option<Field<'a>> = readers::any(window_kind),
            absent "that of base",
            "congestion controller, by its name in `windward list --parts`, or a table of expressions";
        recovery: Option<Field<'a>> = readers::any(|| names(RecoveryConfig::forms())),
            absent "that of base, sack", "recovery scheme";
        discrimination: Option<Field<'a>> = readers::any(|| names(DiscriminatorConfig::forms())),
            absent "that of base, always", "discriminator, which judges losses";
        feedback: Option<Field<'a>> = readers::any(|| names(FeedbackConfig::forms())),
            absent "that of base, none", "feedback that packets carry and ACKs echo";
        router: Option<RouterKind> = readers::one_of(ROUTERS),
            absent "that of the feedback", "kind of the routers on the path";
        name: Option<&'a str> = readers::label(), absent "base and the parts that differ",
            "the name in results";
    }
}

keys! {
    /// Keys of `window` as a table: a controller of expressions.
    struct ExpressionKeys<'a> in "protocol.window" {
        on_ack: Option<Field<'a>> = readers::any(|| TomlType::Text), absent "cwnd + growth / cwnd",
            "window after an ACK of new data, outside loss recovery and slow start, packets";
        on_loss: Option<Field<'a>> = readers::any(|| TomlType::Text), absent "in_flight / 2",
            "window and ssthresh after congestion, packets; at least 2";
        on_mark: Option<Field<'a>> = readers::any(|| TomlType::Text), absent "as on_loss",
            "window and ssthresh after an ECN mark, packets; at least 2";
        pacing_rate: Option<Field<'a>> = readers::any(|| TomlType::Text), absent "no pacing",
            "pacing rate after each event, packets per second; 0 for no limit";
        slow_start: bool = readers::flag(), or true,
            "below ssthresh, grow by one packet per ACK (RFC 5681)";
    }
}

/// The kind of values of `window`.
fn window_kind() -> TomlType {
    TomlType::Table {
        keys: &[ExpressionKeys::KEYS],
        shorthand: Shorthand::None,
        values: vec![names(ControllerConfig::forms())],
    }
}

/// The congestion controller that a table of expressions defines.
fn of_expressions(field: &Field<'_>) -> Result<ControllerConfig> {
    let section = field.section()?;
    let ExpressionKeys { on_ack, on_loss, on_mark, pacing_rate, slow_start } =
        ExpressionKeys::read(&section)?;
    let given = [&on_ack, &on_loss, &on_mark, &pacing_rate];
    if given.iter().all(|given| given.is_none()) {
        return Err(section.missing("on_ack", "on_ack = \"cwnd + growth / cwnd\""));
    }
    let text = |field: &Option<Field<'_>>| -> Result<Option<String>> {
        field.as_ref().map(|field| field.text().map(str::to_owned)).transpose()
    };
    let usual = Expressions::default();
    let expressions = Expressions {
        on_ack: text(&on_ack)?.unwrap_or(usual.on_ack),
        on_loss: text(&on_loss)?.unwrap_or(usual.on_loss),
        on_mark: text(&on_mark)?,
        pacing_rate: text(&pacing_rate)?,
        slow_start,
    };
    match expressions.compile() {
        Ok(compiled) => Ok(ControllerConfig::Custom(Custom(compiled))),
        Err(wrong) => Err(match section.get(wrong.key) {
            Some(field) => field.error_within(wrong.misread.at, wrong.misread.message),
            None => section.error(wrong),
        }),
    }
}

/// The kind of values: the name of a protocol or a stack, or a table of the names of parts.
pub(super) fn kind() -> TomlType {
    TomlType::Table {
        keys: &[CompositionKeys::KEYS],
        shorthand: Shorthand::Key("base"),
        // The program determines which stacks exist.
        values: vec![TomlType::Words(rows()), TomlType::Pattern("^[a-z0-9-]+:[a-z0-9+-]+$")],
    }
}

fn rows() -> Vec<&'static str> {
    PROTOCOLS.iter().map(|protocol| protocol.name).collect()
}

fn names<T>(forms: Vec<(Words, T)>) -> TomlType {
    TomlType::Words(forms.into_iter().map(|(words, _)| words.name).collect())
}

/// The kinds of routers by their names.
const ROUTERS: &[(&str, RouterKind)] = &{
    let mut routers = [("", RouterKind::Any); RouterKind::ALL.len()];
    let mut index = 0;
    while index < routers.len() {
        let kind = RouterKind::ALL[index];
        routers[index] = (kind.name(), kind);
        index += 1;
    }
    routers
};

/// The protocol that a value names or composes from parts. Whether the parts fit together is
/// checked once their parameters are known. `own` are protocols that the file may name in addition
/// to the rows of the table, also for their `window` alone.
///
/// A `preset` changes it, except for a recovery that the value names.
pub(super) fn read(
    field: &Field<'_>,
    preset: Option<Preset>,
    own: &[Protocol],
) -> Result<Protocol> {
    let named = compose(field, own)?;
    let Some(Preset::Linux) = preset else { return Ok(named) };
    let keeps = field.is_table() && field.section()?.get("recovery").is_some();
    let recovery = if keeps { named.recovery } else { named.linux().recovery };
    Ok(Protocol { recovery, ..named.linux() })
}

fn compose(field: &Field<'_>, own: &[Protocol]) -> Result<Protocol> {
    if !field.is_table() {
        return row(field, own);
    }
    let section = field.section()?;
    let keys = CompositionKeys::read(&section)?;
    let base = keys.base.map(|field| row(&field, own)).transpose()?;
    let mut protocol = match base {
        Some(base) => base,
        None if keys.window.is_some() => *protocols::plain(),
        None => return Err(section.missing("window", "window = \"cubic\"")),
    };
    let has_feedback = keys.feedback.is_some();
    let mut differs = Vec::new();
    let parts = &mut protocol;
    let own_window = keys.window.as_ref().and_then(|field| named(field, own));
    match (keys.window, own_window) {
        (Some(table), _) if table.is_table() => {
            parts.window = of_expressions(&table)?;
            differs.push(parts.window.words().name);
        }
        (_, Some(own)) => {
            parts.window = own.window;
            differs.push(own.name);
        }
        (name, None) => {
            take(name, "window", &ControllerConfig::forms(), &mut parts.window, &mut differs)?;
        }
    }
    take(keys.recovery, "recovery", &RecoveryConfig::forms(), &mut parts.recovery, &mut differs)?;
    take(
        keys.discrimination,
        "discrimination",
        &DiscriminatorConfig::forms(),
        &mut parts.discrimination,
        &mut differs,
    )?;
    take(keys.feedback, "feedback", &FeedbackConfig::forms(), &mut parts.feedback, &mut differs)?;
    if has_feedback {
        protocol.router = protocol.feedback.router();
    }
    protocol.router = keys.router.unwrap_or(protocol.router);
    let given = keys.name;
    if let (Some(base), None) = (base, given)
        && base == protocol
    {
        return Ok(base);
    }
    let name = match (given, base) {
        (Some(name), _) => name.to_owned(),
        (None, Some(base)) if differs.is_empty() => {
            format!("{}+{}", base.name, protocol.router.name())
        }
        (None, Some(base)) => format!("{}+{}", base.name, differs.join("+")),
        (None, None) => protocol.parts().map(|(_, words)| words.name).join("+"),
    };
    if protocols::find(&name).is_some() {
        return Err(section
            .error(format!("the name `{name}` belongs to a row of the protocol table"))
            .with_help("give the composition another `name`"));
    }
    protocol.name = keep(name);
    protocol.source = "a composition";
    protocol.summary = "A composition of a scenario file.";
    Ok(protocol)
}

/// The protocol of the caller that a text names.
fn named<'a>(field: &Field<'_>, own: &'a [Protocol]) -> Option<&'a Protocol> {
    let name = field.text().ok()?;
    own.iter().find(|protocol| protocol.name == name)
}

fn row(field: &Field<'_>, own: &[Protocol]) -> Result<Protocol> {
    let name = field.text()?;
    let found = named(field, own).or_else(|| protocols::find(name));
    let all = || own.iter().chain(PROTOCOLS).map(|p| p.name);
    found.copied().ok_or_else(|| field.unknown("protocol", name, all()))
}

/// Replaces the part of an axis with the one that `field` names.
fn take<T: Copy + PartialEq>(
    field: Option<Field<'_>>,
    axis: &str,
    forms: &[(Words, T)],
    part: &mut T,
    differs: &mut Vec<&'static str>,
) -> Result<()> {
    let Some(field) = field else { return Ok(()) };
    let name = field.text()?;
    let Some((words, named)) = forms.iter().find(|(words, _)| words.name == name) else {
        return Err(field.unknown(axis, name, forms.iter().map(|(words, _)| words.name)));
    };
    if *part != *named {
        differs.push(words.name);
        *part = *named;
    }
    Ok(())
}

/// The name with a static lifetime, for results. Each name is kept once.
fn keep(name: String) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(known) = names.get(name.as_str()) {
        return known;
    }
    let name: &'static str = name.leak();
    names.insert(name);
    name
}
