//! Bounds and kinds of values that several tables share.

use std::ops::RangeInclusive;

use windward_core::endpoint::EndpointConfig;
use windward_core::part;
use windward_core::units::Duration;

use crate::scenario::MAX_DURATION;
use crate::strict_toml::TomlType;

/// A day: longer than any delay between two hosts.
pub(super) const DAY: Duration = Duration::from_secs(86_400);

/// Delays of links.
pub(super) const DELAYS: RangeInclusive<Duration> = Duration::ZERO..=DAY;

/// Range of instants, which may be after the end of a run.
pub(super) const INSTANTS: RangeInclusive<Duration> = Duration::ZERO..=MAX_DURATION;

/// The largest packet: an IPv6 jumbogram of 1 MiB.
pub(super) const MAX_PACKET_SIZE: u32 = EndpointConfig::MAX_PACKET_SIZE;

/// Maximum number of packets or bytes of a transfer.
pub(super) const MAX_SIZE: u64 = 1 << 53;

/// A delay.
pub(super) fn delay_kind() -> TomlType {
    TomlType::Parameter(part::ValueKind::Time { least: Duration::ZERO, most: DAY })
}
