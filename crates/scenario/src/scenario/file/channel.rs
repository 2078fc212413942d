//! Losses on a link: the channel, and the notifier that reports corruption.

use windward_core::network::{ChainClock, ChannelConfig, NotifierConfig};
use windward_core::units::{Duration, Probability};

use crate::keys;
use crate::scenario::MAX_DURATION;
use crate::strict_toml::{Field, Result, Section, Shorthand, TomlType, readers};

/// The notifier at the far end of a wire.
#[derive(Debug, Clone, Copy)]
pub(super) enum NotifierChoice {
    /// A notifier with the channel's loss rate, on links that lose packets of flows that ask for
    /// it.
    Auto,
    /// This notifier.
    Fixed(NotifierConfig),
}

keys! {
    /// Keys of `burst`.
    pub(super) struct BurstKeys in "burst" {
        event: Option<Probability> = readers::probability(), absent,
            "probability that a packet begins a burst";
        rate: Option<Probability> = readers::probability(), absent,
            "loss rate: event times length";
        length: u32 = readers::small(1..=1_000_000), needed "length = 4",
            "packets lost by one event, 1 to 1000000";
        per_flow: bool = readers::flag(), or true,
            "packets of one flow (true) or of the link (false)";
    }

    /// Keys of `gilbert_elliott`.
    pub(super) struct GilbertElliottKeys in "gilbert_elliott" {
        p: Option<Probability> = readers::probability(), absent,
            "by packet: probability of good to bad";
        r: Option<Probability> = readers::probability(), absent "1 - p",
            "by packet: probability of bad to good";
        mean_good: Option<Duration> = readers::positive(MAX_DURATION), absent,
            "by time: mean time in the good state";
        mean_bad: Option<Duration> = readers::positive(MAX_DURATION), absent,
            "by time: mean time in the bad state";
        loss_good: Option<Probability> = readers::probability(), absent "0",
            "loss probability in the good state (netem's 1-k)";
        loss_bad: Option<Probability> = readers::probability(), absent "1",
            "loss probability in the bad state (netem's 1-h)";
    }
}

/// The kinds of notifiers by their words.
const NOTIFIERS: &[(&str, NotifierChoice)] = &[
    ("auto", NotifierChoice::Auto),
    ("off", NotifierChoice::Fixed(NotifierConfig::Off)),
    ("configured", NotifierChoice::Fixed(NotifierConfig::Configured)),
    ("measured", NotifierChoice::Fixed(NotifierConfig::MEASURED)),
];

keys! {
    /// Keys of `notifier` as a table.
    struct NotifierKeys in "notifier" {
        kind: NotifierChoice = readers::one_of(NOTIFIERS), needed "kind = \"measured\"",
            "auto, off, configured or measured";
        window: Option<u32> = readers::small(1..=1_000_000_000), absent "10000",
            "measured: packets it averages over, 1 to 10^9";
        prior: Option<f64> = readers::number_in(0.0..=1e9), absent "100",
            "measured: packets taken as uncorrupted in advance, 0 to 10^9";
    }
}

/// A kind of notifier, or a table with its parameters.
pub(super) fn notifier_kind() -> TomlType {
    TomlType::Table {
        keys: &[NotifierKeys::KEYS],
        shorthand: Shorthand::Key("kind"),
        values: vec![(readers::one_of(NOTIFIERS).kind)()],
    }
}

/// A notifier with its parameters.
pub(super) fn notifier(field: &Field<'_>) -> Result<NotifierChoice> {
    if !field.is_table() {
        return field.one_of(NOTIFIERS);
    }
    let section = field.section()?;
    let keys = NotifierKeys::read(&section)?;
    let NotifierChoice::Fixed(NotifierConfig::Measured { window, prior }) = keys.kind else {
        section.forbid(&["window", "prior"], "only the kind measured has parameters")?;
        return Ok(keys.kind);
    };
    Ok(NotifierChoice::Fixed(NotifierConfig::Measured {
        window: keys.window.unwrap_or(window),
        prior: keys.prior.unwrap_or(prior),
    }))
}

/// The channel of a link table, if the table gives one of the keys of `channels`.
pub(super) fn channel<'a, const N: usize>(
    channels: [(&str, Option<Field<'a>>); N],
) -> Result<Option<ChannelConfig>> {
    let mut given = channels.into_iter().filter_map(|(key, field)| Some((key, field?)));
    let Some((first, field)) = given.next() else {
        return Ok(None);
    };
    if let Some((second, field)) = given.next() {
        return Err(field
            .error(format!("the link already has a channel, `{first}`"))
            .with_help(format!("give one of `{first}` and `{second}`")));
    }
    let spec = match first {
        "loss" => ChannelConfig::PacketLoss(field.probability()?),
        "ber" => ChannelConfig::BitErrors(field.probability()?),
        "burst" => burst(&field.section()?)?,
        _ => gilbert_elliott(&field.section()?)?,
    };
    Ok(Some(match spec {
        // A channel without losses draws no random numbers.
        ChannelConfig::PacketLoss(p) | ChannelConfig::BitErrors(p) if p == Probability::ZERO => {
            ChannelConfig::Clean
        }
        spec => spec,
    }))
}

fn burst(section: &Section<'_>) -> Result<ChannelConfig> {
    let BurstKeys { event, rate, length, per_flow } = BurstKeys::read(section)?;
    let event = match (event, rate) {
        (Some(event), None) => event,
        (None, Some(rate)) => Probability::new(rate.get() / f64::from(length)).unwrap_or(rate),
        (Some(_), Some(_)) => {
            return Err(section.error("`event` and `rate` exclude each other: give one of them"));
        }
        (None, None) => return Err(section.missing("event", "event = 0.01")),
    };
    Ok(ChannelConfig::Bursts { event, length, per_flow })
}

fn gilbert_elliott(section: &Section<'_>) -> Result<ChannelConfig> {
    let keys = GilbertElliottKeys::read(section)?;
    let clock = match (keys.p, keys.r, keys.mean_good, keys.mean_bad) {
        (Some(p), r, None, None) => ChainClock::Packets {
            to_bad: p,
            to_good: r.or(Probability::new(1.0 - p.get())).unwrap_or(p),
        },
        (None, None, Some(mean_good), Some(mean_bad)) => ChainClock::Time { mean_good, mean_bad },
        _ => {
            return Err(section
                .error("the chain needs transitions by packet or by time")
                .with_help(
                    "give `p` and `r` (by packet) or `mean_good` and `mean_bad` (by time)",
                ));
        }
    };
    Ok(ChannelConfig::GilbertElliott {
        clock,
        loss_good: keys.loss_good.unwrap_or(Probability::ZERO),
        loss_bad: keys.loss_bad.unwrap_or(Probability::ONE),
    })
}
