//! Wireless LANs: media that links share.

use std::ops::RangeInclusive;

use windward_core::network::MediumConfig;
use windward_core::units::{Duration, Rate};

use crate::keys;
use crate::strict_toml::{Result, Section, readers};

keys! {
    /// Keys of a wireless LAN.
    pub(super) struct WlanKeys<'a> in "wlan" {
        name: &'a str = readers::name(), needed "name = \"wifi\"",
            "name, for the key `wlan` of links";
        slot: Option<Duration> = readers::positive(MediumConfig::LONGEST), absent "9us",
            "time of a slot; above 0, up to 100ms";
        sifs: Option<Duration> = readers::time(TIMES), absent "16us",
            "short interframe space; 0 to 100ms";
        aifsn: Option<u32> = readers::small(1..=MediumConfig::MOST_AIFSN), absent "3",
            "slots of the arbitration interframe space after a SIFS; 1 to 255";
        cw_min: Option<u32> = readers::small(0..=MediumConfig::MOST_CW), absent "15",
            "contention window after a success, slots; 0 to 65535";
        cw_max: Option<u32> = readers::small(0..=MediumConfig::MOST_CW), absent "1023",
            "largest contention window, slots; cw_min to 65535";
        attempts: Option<u32> = readers::small(1..=MediumConfig::MOST_ATTEMPTS), absent "7",
            "maximum number of transmissions of a frame, including the first; 1 to 255";
        preamble: Option<Duration> = readers::time(TIMES), absent "36us",
            "preamble and header of a transmission of data; 0 to 100ms";
        control_preamble: Option<Duration> = readers::time(TIMES), absent "20us",
            "preamble and header of an ACK; 0 to 100ms";
        control_rate: Option<Rate> = readers::rate(), absent "24Mbit", "rate of ACKs";
        symbol: Option<Duration> = readers::time(TIMES), absent "4us",
            "time of an OFDM symbol, or 0 for a PHY without symbols; 0 to 100ms";
        overhead: Option<u32> = readers::small(0..=MediumConfig::MOST_OVERHEAD), absent "38",
            "bytes around a packet in a frame; 0 to 1000";
        frames: Option<u32> = readers::small(1..=MediumConfig::MOST_FRAMES), absent "64",
            "maximum number of frames of a transmission, 1 without aggregation; 1 to 256";
        aggregate: Option<u32> = readers::small(1..=MediumConfig::MOST_AGGREGATE),
            absent "65535", "maximum size of an aggregate, bytes; 1 to 16777215";
        longest: Option<Duration> = readers::positive(MediumConfig::LONGEST), absent "5484us",
            "maximum time of an aggregate; above 0, up to 100ms";
    }
}

/// Range of the times that may be zero.
const TIMES: RangeInclusive<Duration> = Duration::ZERO..=MediumConfig::LONGEST;

/// The wireless LANs of a file, with their names.
pub(super) fn read<'a>(sections: &[Section<'a>]) -> Result<Vec<(&'a str, MediumConfig)>> {
    let mut wlans: Vec<(&str, MediumConfig)> = Vec::new();
    for section in sections {
        let (name, medium) = one(section)?;
        if wlans.iter().any(|(other, _)| *other == name) {
            return Err(section.error(format!("two wireless LANs are called `{name}`")));
        }
        wlans.push((name, medium));
    }
    Ok(wlans)
}

fn one<'a>(section: &Section<'a>) -> Result<(&'a str, MediumConfig)> {
    let keys = WlanKeys::read(section)?;
    let usual = MediumConfig::default();
    let medium = MediumConfig {
        slot: keys.slot.unwrap_or(usual.slot),
        sifs: keys.sifs.unwrap_or(usual.sifs),
        aifsn: keys.aifsn.unwrap_or(usual.aifsn),
        cw_min: keys.cw_min.unwrap_or(usual.cw_min),
        cw_max: keys.cw_max.unwrap_or(usual.cw_max),
        attempts: keys.attempts.unwrap_or(usual.attempts),
        preamble: keys.preamble.unwrap_or(usual.preamble),
        control_preamble: keys.control_preamble.unwrap_or(usual.control_preamble),
        control_rate: keys.control_rate.unwrap_or(usual.control_rate),
        symbol: keys.symbol.unwrap_or(usual.symbol),
        overhead: keys.overhead.unwrap_or(usual.overhead),
        frames: keys.frames.unwrap_or(usual.frames),
        aggregate: keys.aggregate.unwrap_or(usual.aggregate),
        longest: keys.longest.unwrap_or(usual.longest),
    };
    medium.validate().map_err(|wrong| section.error(wrong))?;
    Ok((keys.name, medium))
}
