//! Queues of links: limits, AQMs, routers, classes.

use std::sync::OnceLock;

use windward_core::network::{AqmConfig, QueueLimit, RouterConfig, RouterKind};
use windward_core::part::{self, AnyPart};

use super::parameter;
use crate::keys;
use crate::strict_toml::{
    Amount, Field, KeyList, KeySource, Result, Shorthand, Spot, TomlType, readers,
};

/// The router before a wire.
#[derive(Debug, Clone)]
pub(super) enum RouterChoice {
    /// The router that the protocols of the crossing flows ask for.
    Auto,
    /// This router.
    Fixed(RouterConfig, Spot),
}

/// Queues by class of protocols.
#[derive(Debug, Clone, Default)]
pub(super) enum Classes {
    /// One queue for all packets.
    #[default]
    None,
    /// A queue for each class that crosses, with the settings that the file gives for some.
    Each(Vec<(RouterKind, Class)>),
}

/// The settings of one class of a link.
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

keys! {
    /// Keys of a class of a link.
    struct ClassKeys in "class" {
        weight: f64 = readers::number_in(1e-3..=1e3), or 1.0,
            "share of the wire, relative to other classes, 0.001 to 1000";
        queue: Option<QueueLimit> = readers::custom(|| TomlType::Text, limit),
            absent "that of the link", "limit of the queue of this class";
        aqm: Option<AqmConfig> = readers::custom(aqm_kind, aqm), absent "that of the link",
            "its AQM";
        router: Option<RouterChoice> = readers::custom(router_kind, router),
            absent "that of the class", "its router";
    }
}

/// The keys of `classes`, which are the kinds of routers.
fn class_keys() -> &'static KeyList {
    static KEYS: OnceLock<KeyList> = OnceLock::new();
    KEYS.get_or_init(|| {
        let key = |kind: RouterKind| crate::strict_toml::Key {
            name: kind.name(),
            kind: TomlType::table(&[ClassKeys::KEYS]),
            default: "".into(),
            meaning: match kind {
                RouterKind::Any => "plain TCP and datagrams".into(),
                _ => format!("protocols that ask for {}", kind.name()).into(),
            },
        };
        KeyList { name: "classes", keys: RouterKind::ALL.map(key).into() }
    })
}

/// True, false, or a table of classes.
pub(super) fn classes_kind() -> TomlType {
    TomlType::Table {
        keys: &[KeySource::Declared(class_keys)],
        shorthand: Shorthand::All,
        values: vec![TomlType::Parameter(part::ValueKind::Bool)],
    }
}

/// The name of an AQM, or a table with its parameters.
pub(super) fn aqm_kind() -> TomlType {
    fn keys() -> &'static KeyList {
        static KEYS: OnceLock<KeyList> = OnceLock::new();
        KEYS.get_or_init(|| {
            let forms = AqmConfig::forms().into_iter();
            let parts: Vec<_> = forms.map(|(words, spec)| (words, spec.settings())).collect();
            KeyList { name: "aqm", keys: parameter::keys_of_kinds(None, &parts) }
        })
    }
    parameter::named_kind(&[KeySource::Declared(keys)], aqm_names())
}

/// The name of a router, or a table with its parameters.
pub(super) fn router_kind() -> TomlType {
    fn keys() -> &'static KeyList {
        static KEYS: OnceLock<KeyList> = OnceLock::new();
        KEYS.get_or_init(|| {
            let forms = RouterConfig::forms().into_iter();
            let parts: Vec<_> = forms.map(|(words, spec)| (words, spec.settings())).collect();
            KeyList { name: "router", keys: parameter::keys_of_kinds(Some("auto"), &parts) }
        })
    }
    parameter::named_kind(&[KeySource::Declared(keys)], router_names())
}

fn aqm_names() -> Vec<&'static str> {
    AqmConfig::forms().into_iter().map(|(words, _)| words.name).collect()
}

fn router_names() -> Vec<&'static str> {
    let kinds = RouterConfig::forms().into_iter().map(|(words, _)| words.name);
    std::iter::once("auto").chain(kinds).collect()
}

/// The limit of a queue.
pub(super) fn limit(field: &Field<'_>) -> Result<QueueLimit> {
    match field.amount()? {
        Amount::Packets(packets) => u32::try_from(packets)
            .map(QueueLimit::Packets)
            .map_err(|_| field.error("must be at most 4294967295 packets")),
        Amount::Bytes(bytes) => Ok(QueueLimit::Bytes(bytes)),
    }
}

/// An AQM with its parameters.
pub(super) fn aqm(field: &Field<'_>) -> Result<AqmConfig> {
    let (kind, section) = parameter::kind(field, &aqm_names(), "kind = \"codel\"")?;
    let mut spec = AqmConfig::named(kind).unwrap_or_default();
    if let Some(section) = &section {
        let set = |spec: &mut AqmConfig, key, value| spec.set("", key, value);
        parameter::of_kind("AQM", kind, section, &mut spec, AqmConfig::settings, set)?;
        spec.validate().map_err(|wrong| section.error(wrong))?;
    }
    Ok(spec)
}

/// A router with its parameters.
pub(super) fn router(field: &Field<'_>) -> Result<RouterChoice> {
    let (kind, section) = parameter::kind(field, &router_names(), "kind = \"xcp\"")?;
    let mut spec = RouterConfig::named(kind);
    if let Some(section) = &section {
        let settings =
            |spec: &Option<RouterConfig>| spec.map_or_else(Vec::new, |spec| spec.settings());
        let set = |spec: &mut Option<RouterConfig>, key, value| {
            spec.as_mut().is_some_and(|spec| spec.set("", key, value))
        };
        parameter::of_kind("router", kind, section, &mut spec, settings, set)?;
        if let Some(spec) = &spec {
            spec.validate().map_err(|wrong| section.error(wrong))?;
        }
    }
    Ok(spec.map_or(RouterChoice::Auto, |spec| RouterChoice::Fixed(spec, field.spot())))
}

/// Reads `true`, `false`, or a table of classes, each with its settings.
pub(super) fn classes(field: &Field<'_>) -> Result<Classes> {
    if field.is_bool() {
        return Ok(if field.bool()? { Classes::Each(Vec::new()) } else { Classes::None });
    }
    let section = field.section()?;
    let given = |kind: RouterKind| section.get(kind.name()).map(|field| (kind, field));
    let class = |(kind, field): (RouterKind, Field<'_>)| {
        let ClassKeys { weight, queue, aqm, router } = ClassKeys::read(&field.section()?)?;
        Ok((kind, Class { weight, limit: queue, aqm, router }))
    };
    RouterKind::ALL
        .into_iter()
        .filter_map(given)
        .map(class)
        .collect::<Result<_>>()
        .map(Classes::Each)
}
