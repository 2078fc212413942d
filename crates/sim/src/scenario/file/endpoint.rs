//! Parameters of endpoints: `[endpoint]`, and the same keys in `[[flows]]`.

use windward_core::endpoint::EndpointConfig;
use windward_core::endpoint::feedback::{CongestionFlag, Formula, XcpRConfig};
use windward_core::units::Duration;

use super::section::{DAY, Field, Result, Section};
use crate::scenario::MAX_DURATION;

/// The largest packet: an IPv6 jumbogram of 1 MiB.
pub(super) const MAX_PACKET_SIZE: u32 = 1 << 20;

/// What `delayed_acks = true` means: as long as BSD waits (RFC 5681 allows 500 ms).
const DELAYED_ACKS: Duration = Duration::from_millis(200);

/// `config` with the values that `section` gives.
pub(super) fn read(config: EndpointConfig, section: &Section<'_>) -> Result<EndpointConfig> {
    let size = |field: Field<'_>| field.small(1..=MAX_PACKET_SIZE);
    let time = |field: Field<'_>| field.duration(Duration::ZERO..=DAY);
    let mut config = config;
    macro_rules! take {
        ($key:ident, $read:expr) => {
            if let Some(value) = section.read(stringify!($key), $read)? {
                config.$key = value;
            }
        };
    }
    take!(packet_size, size);
    take!(ack_size, size);
    take!(initial_window, |field| field.float(1.0..=1e6));
    take!(rwnd, |field| field.integer(1..=1 << 30));
    take!(dupack_threshold, |field| field.small(1..=1_000_000));
    take!(rto_floor, time);
    take!(rto_initial, |field| field.positive(DAY));
    take!(rto_ceiling, |field| field.positive(MAX_DURATION));
    take!(clock_granularity, time);
    take!(retransmission_timeout_factor, |field| field.float(1.0..=1000.0));
    take!(delayed_acks, delayed_acks);
    take!(overhead, time);
    take!(ecn, Field::bool);
    take!(partial_deflation, Field::bool);
    take!(loss_monitor_guard, Field::bool);
    take!(xcp_r, |field| xcp_r(config.xcp_r, &field.section()?));
    if config.rto_ceiling < config.rto_floor {
        return Err(section.error(format!(
            "rto_ceiling ({}) is less than rto_floor ({})",
            config.rto_ceiling, config.rto_floor
        )));
    }
    Ok(config)
}

fn xcp_r(mut config: XcpRConfig, section: &Section<'_>) -> Result<XcpRConfig> {
    const FORMULAS: [&str; 2] = ["incremental", "per-window"];
    const FLAGS: [&str; 2] = ["count", "once"];
    if let Some(word) = section.read("formula", |field| field.word(&FORMULAS))? {
        let incremental = word == FORMULAS[0];
        config.formula = if incremental { Formula::Incremental } else { Formula::PerWindow };
    }
    if let Some(word) = section.read("congestion_flag", |field| field.word(&FLAGS))? {
        let count = word == FLAGS[0];
        config.congestion_flag = if count { CongestionFlag::Count } else { CongestionFlag::Once };
    }
    Ok(config)
}

fn delayed_acks(field: Field<'_>) -> Result<Option<Duration>> {
    if field.is_bool() {
        return Ok(field.bool()?.then_some(DELAYED_ACKS));
    }
    field.positive(DAY).map(Some)
}
