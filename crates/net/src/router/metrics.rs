//! Metrics of queues for Prometheus: the OpenMetrics text format, over HTTP.

use std::fmt;
use std::io;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use windward_core::units::Duration;
use windward_http::{Content, Listener, Server, Site};

use super::{Router, Shared, Stats, lock};

/// Upper bounds of the classes of the histogram of waiting times, seconds.
const BOUNDS: [f64; 16] = [
    100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
    10.0,
];

/// A number of a queue, with its name and meaning.
type Number = (&'static str, &'static str, fn(&Stats) -> u64);

const COUNTERS: [Number; 12] = [
    ("arrived_packets", "Packets handed over to the queue", |s| s.arrived.packets),
    ("arrived_bytes", "Bytes of packets handed over to the queue", |s| s.arrived.bytes),
    ("sent_packets", "Packets sent on", |s| s.sent.packets),
    ("sent_bytes", "Bytes of packets sent on", |s| s.sent.bytes),
    ("dropped_packets", "Packets dropped by the queue", |s| s.dropped.packets),
    ("dropped_bytes", "Bytes of packets dropped by the queue", |s| s.dropped.bytes),
    ("marked_packets", "Packets marked with CE", |s| s.marked),
    ("feedback_packets", "Datagrams sent on with a congestion header", |s| s.ours),
    ("overflow_packets", "Packets dropped by the kernel since they were read too late", |s| {
        s.overflow
    }),
    ("unserved_packets", "Datagrams sent on that asked for another router", |s| {
        s.unserved.iter().sum()
    }),
    ("reloads", "Changes of settings", |s| s.reloads),
    ("late_packets", "Packets sent on more than a millisecond late", |s| {
        let late = s.lateness.share_above(Duration::from_millis(1));
        (late * s.lateness.packets() as f64).round() as u64
    }),
];

const GAUGES: [Number; 2] = [
    ("waiting_packets", "Packets that wait", |s| s.waiting),
    ("rate_bits_per_second", "Rate of the queue", |s| s.rate.as_bps()),
];

/// Collector that reads the numbers of all queues on request.
struct Queues(Vec<Arc<Shared>>);

impl fmt::Debug for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queues({})", self.0.len())
    }
}

impl Collector for Queues {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let stats: Vec<Stats> = self.0.iter().map(|shared| lock(&shared.stats).clone()).collect();
        let label = |stats: &Stats| [("interface", stats.device.clone())];
        for (name, help, number) in COUNTERS {
            let kind = MetricType::Counter;
            let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
            for stats in &stats {
                let counter = ConstCounter::new(number(stats));
                counter.encode(metric.encode_family(&label(stats))?)?;
            }
        }
        for (name, help, number) in GAUGES {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for stats in &stats {
                let gauge = ConstGauge::new(number(stats) as f64);
                gauge.encode(metric.encode_family(&label(stats))?)?;
            }
        }
        let help = "Time from the reading of a packet until it was sent on";
        let (unit, kind) = (Some(&Unit::Seconds), MetricType::Histogram);
        let mut metric = encoder.encode_descriptor("sojourn", help, unit, kind)?;
        for stats in &stats {
            histogram(metric.encode_family(&label(stats))?, stats)?;
        }
        let help = "Lateness of packets that were sent on, by percentile";
        let kind = MetricType::Gauge;
        let mut metric = encoder.encode_descriptor("lateness", help, Some(&Unit::Seconds), kind)?;
        for stats in &stats {
            for (quantile, percent) in [("0.5", 50.0), ("0.99", 99.0), ("1", 100.0)] {
                let [(_, interface)] = label(stats);
                let labels = [("interface", interface), ("quantile", quantile.to_owned())];
                let late = stats.lateness.percentile(percent).as_secs_f64();
                ConstGauge::new(late).encode(metric.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

fn histogram(mut encoder: MetricEncoder<'_>, stats: &Stats) -> Result<(), fmt::Error> {
    // Counts between the bound before and this one.
    let mut before = 0;
    let mut classes: Vec<(f64, u64)> = Vec::new();
    for bound in BOUNDS {
        let up_to = stats.sojourn.count_up_to(Duration::from_secs_f64(bound));
        classes.push((bound, up_to.saturating_sub(before)));
        before = before.max(up_to);
    }
    let all = stats.sojourn.count();
    classes.push((f64::INFINITY, all.saturating_sub(before)));
    let sum = stats.sojourn.sum().as_secs_f64();
    encoder.encode_histogram::<NoLabelSet>(sum, all, &classes, None)
}

fn registry(queues: Vec<Arc<Shared>>) -> Registry {
    let mut registry = Registry::with_prefix("windward_router");
    registry.register_collector(Box::new(Queues(queues)));
    registry
}

/// Numbers of queues in the text format of OpenMetrics.
pub fn text(routers: &[Router]) -> String {
    write(&registry(routers.iter().map(|router| Arc::clone(&router.shared)).collect()))
}

fn write(registry: &Registry) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, registry);
    text
}

/// Answers `GET /metrics` until it is dropped. The queues never wait for a client.
pub fn serve(listener: Listener, routers: &[Router]) -> io::Result<Server> {
    let queues = routers.iter().map(|router| Arc::clone(&router.shared)).collect();
    let registry = registry(queues);
    let metrics = Content::Metrics(Box::new(move || write(&registry)));
    listener.serve(Site::new([("/metrics", metrics)]))
}
