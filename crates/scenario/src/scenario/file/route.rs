//! Keys of `[[flows]]` by which the flows of a group choose their route.

use windward_core::units::Duration;

use super::bounds::DELAYS;
use super::link::LinkKeys;
use crate::keys;
use crate::strict_toml::{Field, KeySource, Section, TomlType, readers};

keys! {
    /// Keys of a route.
    pub(super) struct RouteKeys<'a> in "route" {
        first_hop: Option<Section<'a>> = readers::table(HOP), absent "access",
            "the link of the sender";
        last_hop: Option<Section<'a>> = readers::table(HOP), absent "access",
            "the link of the receiver";
        first_hop_reverse: Option<Section<'a>> = readers::table(&[LinkKeys::KEYS]),
            absent "mirror without loss", "acknowledgments to the sender";
        last_hop_reverse: Option<Section<'a>> = readers::table(&[LinkKeys::KEYS]),
            absent "mirror without loss", "acknowledgments from the receiver";
        from: Option<Field<'a>> = readers::any(|| TomlType::Any),
            absent "0 in a parking lot", "graph: node; parking lot: first bottleneck";
        to: Option<Field<'a>> = readers::any(|| TomlType::Any),
            absent "the last in a parking lot", "graph: node; parking lot: last bottleneck";
        upload: bool = readers::flag(), or false,
            "dumbbell, parking lot: data takes the reverse bottlenecks";
        hops: Option<Field<'a>> = readers::any(|| TomlType::List(Box::new(TomlType::Any))),
            absent "all", "parking lot: bottlenecks crossed, consecutive, from 0";
        path: Option<Field<'a>> = readers::any(|| TomlType::List(Box::new(TomlType::Text))),
            absent "shortest", "graph: nodes that data passes, from and to included";
        ack_path: Option<Field<'a>> = readers::any(|| TomlType::List(Box::new(TomlType::Text))),
            absent "path backwards", "graph: nodes that acknowledgments pass";
    }
}

/// The keys of a first or last hop.
const HOP: &[KeySource] = &[HopKeys::KEYS, LinkKeys::KEYS];

keys! {
    /// Keys of a hop, in addition to those of its link.
    pub(super) struct HopKeys in "hop" {
        shared: bool = readers::flag(), or false,
            "whether all flows of the group cross one common link here";
        delay_to: Option<Duration> = readers::time(DELAYS), absent "delay",
            "spread the delays of the flows evenly from `delay` to this";
    }
}
