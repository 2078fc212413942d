//! The key `media` of flows: live video.

use std::sync::OnceLock;

use windward_core::media::MediaControllerConfig;
use windward_core::part::{self, AnyPart};
use windward_core::units::{Duration, Rate, Time};

use super::bounds::{INSTANTS, MAX_PACKET_SIZE};
use super::parameter;
use crate::keys;
use crate::scenario::{Adaptation, Media, Pattern};
use crate::strict_toml::{Field, KeyList, KeySource, Result, Section, TomlType, readers, unnamed};

const HOUR: Duration = Duration::from_secs(3600);

keys! {
    /// Keys of `media`.
    struct MediaKeys<'a> in "media" {
        rate: Rate = readers::rate(), needed "rate = \"1Mbit\"",
            "target rate on the wire, at the start if a controller adapts it";
        controller: Option<MediaControllerConfig> = readers::custom(controller_kind, controller),
            absent "none: the rate does not change", "the controller that adapts the rate";
        min_rate: Option<Rate> = readers::rate(), absent "150kbit",
            "with a controller: minimum rate of the encoder";
        max_rate: Option<Rate> = readers::rate(), absent "1500kbit",
            "with a controller: maximum rate of the encoder";
        latency: Option<Duration> = readers::time(Duration::ZERO..=HOUR), absent "100ms",
            "with a controller: time for which the encoder keeps a rate, 0 to 1h";
        ecn: Option<bool> = readers::flag(), absent "false",
            "with a controller: whether packets are ECN-capable";
        fps: f64 = readers::above_zero(1000.0), or 30.0,
            "frames per second, above 0, up to 1000";
        variation: f64 = readers::number_in(0.0..=1.0), or 0.15,
            "scale of the Laplacian variation of frames, 0 to 1";
        packet_size: Option<u32> = readers::small(1..=MAX_PACKET_SIZE),
            absent "that of the flow", "bytes on the wire";
        deadline: Duration = readers::time(Duration::ZERO..=HOUR), or Duration::from_millis(100),
            "a frame is late if it takes longer than on idle links by more than this, 0 to 1h";
        report_interval: Duration = readers::time(Duration::from_millis(10)..=HOUR),
            or Duration::from_secs(1),
            "time between reports, for the circuit breaker; 10ms to 1h";
        pauses: Vec<Section<'a>> = readers::tables(&[PauseKeys::KEYS], unnamed), empty,
            "times without frames, in order";
    }
}

keys! {
    /// Keys of an element of `pauses`.
    struct PauseKeys in "pause" {
        from: Duration = readers::time(INSTANTS), needed "from = \"40s\"",
            "start of the pause, from the start of the run";
        until: Duration = readers::time(INSTANTS), needed "until = \"60s\"",
            "end of the pause, from the start of the run";
    }
}

/// The lists of keys of `media`.
pub(super) const KEYS: &[KeySource] = &[MediaKeys::KEYS];

/// Reads a source of media. Returns the size of its packets, if it has one, and the source.
pub(super) fn read(field: &Field<'_>, default_size: u32) -> Result<(Option<u32>, Pattern)> {
    let section = field.section()?;
    let keys = MediaKeys::read(&section)?;
    let adaptation = adaptation(&section, &keys)?;
    let MediaKeys { rate, fps, variation, packet_size, deadline, report_interval, .. } = keys;
    let pauses = keys.pauses.iter().map(pause).collect::<Result<_>>()?;
    let media = Media { rate, fps, variation, deadline, report_interval, adaptation, pauses };
    let size = packet_size.unwrap_or(default_size);
    media.validate(size).map_err(|wrong| section.error(wrong))?;
    Ok((packet_size, Pattern::Media(Box::new(media))))
}

fn pause(section: &Section<'_>) -> Result<(Time, Time)> {
    let PauseKeys { from, until } = PauseKeys::read(section)?;
    Ok((Time::ZERO + from, Time::ZERO + until))
}

/// The adaptation of media. The defaults are the source of RFC 8867 section 4.3.
fn adaptation(section: &Section<'_>, keys: &MediaKeys<'_>) -> Result<Option<Adaptation>> {
    let Some(controller) = keys.controller else {
        let why = "applies to media with a `controller`";
        section.forbid(&["min_rate", "max_rate", "latency", "ecn"], why)?;
        return Ok(None);
    };
    let least = keys.min_rate.unwrap_or(Adaptation::LEAST);
    let most = keys.max_rate.unwrap_or(Adaptation::MOST);
    let latency = keys.latency.unwrap_or(Adaptation::LATENCY);
    let ecn = keys.ecn.unwrap_or(false);
    Ok(Some(Adaptation { controller, least, most, latency, ecn }))
}

/// The name of a controller of media, or a table with its parameters.
fn controller_kind() -> TomlType {
    fn keys() -> &'static KeyList {
        static KEYS: OnceLock<KeyList> = OnceLock::new();
        KEYS.get_or_init(|| {
            let forms = MediaControllerConfig::forms().into_iter();
            let parts: Vec<_> = forms.map(|(words, spec)| (words, spec.settings())).collect();
            KeyList { name: "controller", keys: parameter::keys_of_kinds(None, &parts) }
        })
    }
    parameter::named_kind(&[KeySource::Declared(keys)], controller_names())
}

fn controller_names() -> Vec<&'static str> {
    MediaControllerConfig::forms().into_iter().map(|(words, _)| words.name).collect()
}

/// A controller of media with its parameters.
fn controller(field: &Field<'_>) -> Result<MediaControllerConfig> {
    let names = controller_names();
    let (kind, section) = parameter::kind(field, &names, "kind = \"nada\"")?;
    let Some(mut spec) = MediaControllerConfig::named(kind) else {
        return Err(field.error(format!("must be {}", part::alternatives(&names))));
    };
    if let Some(section) = &section {
        let set = |spec: &mut MediaControllerConfig, key, value| spec.set("", key, value);
        let settings = MediaControllerConfig::settings;
        parameter::of_kind("controller", kind, section, &mut spec, settings, set)?;
        spec.validate().map_err(|wrong| section.error(wrong))?;
    }
    Ok(spec)
}
