//! `protocol`: a row of the protocol table by its name, or parts by theirs.

use std::collections::BTreeSet;
use std::sync::Mutex;

use windward_core::endpoint::discrimination::DiscriminatorConfig;
use windward_core::endpoint::feedback::FeedbackConfig;
use windward_core::endpoint::recovery::RecoveryConfig;
use windward_core::endpoint::window::ControllerConfig;
use windward_core::network::RouterKind;
use windward_core::part::Words;
use windward_core::protocols::{self, PROTOCOLS, Protocol};

use super::endpoint::Preset;
use super::section::{Field, Result, Section};

/// The protocol that a value names or puts together. That its parts go together is checked once
/// their parameters are known.
///
/// A `preset` changes it, but for a recovery that the value names.
pub(super) fn read(field: &Field<'_>, preset: Option<Preset>) -> Result<Protocol> {
    let named = compose(field)?;
    let Some(Preset::Linux) = preset else { return Ok(named) };
    let keeps = field.is_table() && field.clone().section()?.get("recovery").is_some();
    let recovery = if keeps { named.recovery } else { named.linux().recovery };
    Ok(Protocol { recovery, ..named.linux() })
}

fn compose(field: &Field<'_>) -> Result<Protocol> {
    if !field.is_table() {
        return row(field);
    }
    let section = field.clone().section()?;
    let base = section.read("base", |field| row(&field))?;
    let mut protocol = match base {
        Some(base) => base,
        None if section.get("window").is_some() => *protocols::plain(),
        None => return Err(section.missing("window", "window = \"cubic\"")),
    };
    let mut differs = Vec::new();
    take(&section, "window", &ControllerConfig::forms(), &mut protocol.window, &mut differs)?;
    take(&section, "recovery", &RecoveryConfig::forms(), &mut protocol.recovery, &mut differs)?;
    take(
        &section,
        "discrimination",
        &DiscriminatorConfig::forms(),
        &mut protocol.discrimination,
        &mut differs,
    )?;
    let feedbacks = FeedbackConfig::forms();
    take(&section, "feedback", &feedbacks, &mut protocol.feedback, &mut differs)?;
    if section.get("feedback").is_some() {
        protocol.router = protocol.feedback.router();
    }
    if let Some(router) = section.read("router", |field| {
        let kinds = RouterKind::ALL.map(|kind| (kind.name(), kind));
        field.one_of(&kinds)
    })? {
        protocol.router = router;
    }
    let given = section.read("name", Field::label)?;
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
            .error(format!("the name `{name}` is that of a row of the protocol table"))
            .with_help("give the composition another `name`"));
    }
    protocol.name = keep(name);
    protocol.source = "a composition";
    protocol.summary = "A composition of a scenario file.";
    Ok(protocol)
}

fn row(field: &Field<'_>) -> Result<Protocol> {
    let name = field.clone().text()?;
    let own = field.protocols();
    let found = own.iter().find(|p| p.name == name).or_else(|| protocols::find(name));
    let all = || own.iter().chain(PROTOCOLS).map(|p| p.name);
    found.copied().ok_or_else(|| field.unknown("protocol", name, all()))
}

/// Puts the part that `section` names on an axis.
fn take<T: Copy + PartialEq>(
    section: &Section<'_>,
    axis: &str,
    forms: &[(Words, T)],
    part: &mut T,
    differs: &mut Vec<&'static str>,
) -> Result<()> {
    let Some(field) = section.get(axis) else { return Ok(()) };
    let name = field.clone().text()?;
    let Some((words, named)) = forms.iter().find(|(words, _)| words.name == name) else {
        return Err(field.unknown(axis, name, forms.iter().map(|(words, _)| words.name)));
    };
    if *part != *named {
        differs.push(words.name);
        *part = *named;
    }
    Ok(())
}

/// Results name protocols for as long as the program runs; each name is kept once.
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
