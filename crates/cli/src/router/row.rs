//! Statistics of a queue as JSON, with the names and units of docs/outputs.md.

use serde::Serialize;
use windward_net::router::Stats;

/// Statistics of one queue since its start. The name of each field ends in its unit.
#[derive(Debug, Default, Serialize)]
pub(super) struct QueueJson {
    pub(super) interface: String,
    pub(super) qdisc: String,
    pub(super) rate_bps: u64,
    #[serde(flatten)]
    pub(super) counts: Counts,
    #[serde(flatten)]
    pub(super) times: Times,
    /// True if more than one packet in a hundred was late by more than a millisecond.
    too_late: bool,
}

/// Packets by their fate.
#[derive(Debug, Default, Serialize)]
pub(super) struct Counts {
    pub(super) arrived_packets: u64,
    arrived_bytes: u64,
    pub(super) sent_packets: u64,
    sent_bytes: u64,
    pub(super) dropped_packets: u64,
    dropped_bytes: u64,
    pub(super) marked_packets: u64,
    pub(super) feedback_packets: u64,
    overflow_packets: u64,
    /// Datagrams that asked for another router than that of the queue.
    pub(super) unserved_packets: u64,
    reloads: u64,
}

/// Time in the queue, and delay beyond the scheduled departure.
#[derive(Debug, Default, Serialize)]
pub(super) struct Times {
    pub(super) sojourn_p50_s: f64,
    pub(super) sojourn_p99_s: f64,
    sojourn_max_s: f64,
    lateness_p50_s: f64,
    pub(super) lateness_p99_s: f64,
    lateness_max_s: f64,
}

impl From<&Stats> for QueueJson {
    fn from(stats: &Stats) -> Self {
        let sojourn = |percent| stats.sojourn.percentile(percent).as_secs_f64();
        let lateness = |percent| stats.lateness.percentile(percent).as_secs_f64();
        QueueJson {
            interface: stats.device.clone(),
            qdisc: stats.qdisc.clone(),
            rate_bps: stats.rate.as_bps(),
            counts: Counts {
                arrived_packets: stats.arrived.packets,
                arrived_bytes: stats.arrived.bytes,
                sent_packets: stats.sent.packets,
                sent_bytes: stats.sent.bytes,
                dropped_packets: stats.dropped.packets,
                dropped_bytes: stats.dropped.bytes,
                marked_packets: stats.marked,
                feedback_packets: stats.ours,
                overflow_packets: stats.overflow,
                unserved_packets: stats.unserved.iter().sum(),
                reloads: stats.reloads,
            },
            times: Times {
                sojourn_p50_s: sojourn(50.0),
                sojourn_p99_s: sojourn(99.0),
                sojourn_max_s: sojourn(100.0),
                lateness_p50_s: lateness(50.0),
                lateness_p99_s: lateness(99.0),
                lateness_max_s: lateness(100.0),
            },
            too_late: stats.lateness.is_too_much(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_documented_and_its_name_ends_in_its_unit() {
        let guide = include_str!("../../../../docs/outputs.md");
        let row = serde_json::to_value(QueueJson::default()).unwrap();
        let units = ["_s", "_bps", "_bytes", "_packets", "_share"];
        for name in row.as_object().unwrap().keys() {
            assert!(guide.contains(&format!("`{name}`")), "docs/outputs.md does not name `{name}`");
            let has_unit = units.iter().any(|unit| name.ends_with(unit));
            let has_none = ["interface", "qdisc", "reloads", "too_late"].contains(&name.as_str());
            assert!(has_unit || has_none, "`{name}` has no unit");
        }
    }
}
