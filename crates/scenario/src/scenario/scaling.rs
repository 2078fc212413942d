//! Scenarios whose links differ by factors from those of their file.

use std::sync::Arc;

use windward_core::endpoint::EndpointConfig;
use windward_core::network::{QueueConfig, QueueLimit};

use super::{Scenario, Traffic};

/// Factors on the links of a scenario. Rates of traces and delays that change stay as they are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scaling {
    /// Factor on the rates, those of schedules included.
    pub rate: f64,
    /// Factor on the propagation delays.
    pub delay: f64,
    /// Factor on the limits of queues. A queue still holds a packet of each size.
    pub queue: f64,
}

impl Scaling {
    /// No change.
    pub const NONE: Scaling = Scaling { rate: 1.0, delay: 1.0, queue: 1.0 };

    /// Applies the factors to every link.
    pub fn apply(&self, scenario: &mut Scenario) {
        if *self == Self::NONE {
            return;
        }
        let sizes = scenario.flows.iter().map(|flow| match &flow.kind.traffic {
            Traffic::Transport { config, .. } => config.packet_size.max(config.ack_size),
            Traffic::Stack { config, .. } => config.packet_size,
            Traffic::Datagrams { packet_size, .. } => *packet_size,
        });
        let largest = sizes.max().unwrap_or(EndpointConfig::MAX_PACKET_SIZE);
        for link in &mut scenario.links {
            if link.kind.impairments.delay.is_none() {
                link.delay = link.delay.mul_f64(self.delay);
            }
            let kind = Arc::make_mut(&mut link.kind);
            kind.rate = kind.rate.scaled(self.rate);
            self.scale_queue(&mut kind.queue, u64::from(largest));
        }
    }

    fn scale_queue(&self, queue: &mut QueueConfig, largest: u64) {
        queue.limit = match queue.limit {
            QueueLimit::Packets(packets) => {
                QueueLimit::Packets(((f64::from(packets) * self.queue).round() as u32).max(1))
            }
            QueueLimit::Bytes(bytes) => {
                let scaled = (bytes as f64 * self.queue).round() as u64;
                QueueLimit::Bytes(scaled.max(largest.min(bytes)))
            }
        };
        for class in &mut queue.classes {
            self.scale_queue(&mut class.queue, largest);
        }
    }
}

#[cfg(test)]
mod tests {
    use windward_core::network::QueueLimit;
    use windward_core::units::{Duration, Time};

    use super::Scaling;
    use crate::scenario::file::ScenarioFile;

    #[test]
    fn links_are_scaled_and_queues_hold_a_packet() {
        let text = r#"
            duration = "1s"
            links = [
                { from = "a", to = "b", rate = "10Mbit", delay = "20ms", queue = "10p" },
                { from = "b", to = "c", delay = "5ms", queue = "1600B", rate = { schedule = [
                    { at = "0s", rate = "1Mbit" }, { at = "1s", rate = "4Mbit" }] } },
            ]
            flows = [{ group = "x", protocol = "cubic", from = "a", to = "c", packet_size = 1500 }]"#;
        let mut scenario = ScenarioFile::parse("test.toml", text).unwrap().build().unwrap();
        Scaling { rate: 1.2, delay: 0.8, queue: 0.8 }.apply(&mut scenario);
        let link = |name: &str| scenario.links.iter().find(|link| &*link.name == name).unwrap();
        let (first, second) = (link("a->b"), link("b->c"));
        assert_eq!(first.kind.rate.mean().as_bps(), 12_000_000);
        assert_eq!(first.delay, Duration::from_millis(16));
        assert_eq!(first.kind.queue.limit, QueueLimit::Packets(8));
        // 1280 bytes would hold no packet.
        assert_eq!(second.kind.queue.limit, QueueLimit::Bytes(1500));
        let at = |s| second.kind.rate.bytes_until(Duration::from_secs(s));
        // 1.2 Mbit/s for a second, then 4.8.
        assert!((at(1) - 150_000.0).abs() < 1.0 && (at(2) - 750_000.0).abs() < 1.0);
        assert_eq!(Time::ZERO + second.delay, Time::ZERO + Duration::from_millis(4));
    }
}
