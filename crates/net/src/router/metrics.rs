//! What queues do, for Prometheus: the OpenMetrics text format, over HTTP.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use tiny_http::{Header, Response, Server};

use super::{Router, Shared, Stats, lock};

/// Upper bounds of the classes of the histogram of waiting times, seconds.
const BOUNDS: [f64; 16] = [
    100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
    10.0,
];

/// A number of one queue, by its name and what it is.
type Number = (&'static str, &'static str, fn(&Stats) -> u64);

const COUNTERS: [Number; 11] = [
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
    ("reloads", "Changes of settings", |s| s.reloads),
    ("late_packets", "Packets sent on more than a millisecond late", |s| {
        let late = s.lateness.share_above(windward_core::units::Duration::from_millis(1));
        (late * s.lateness.packets() as f64).round() as u64
    }),
];

const GAUGES: [Number; 2] = [
    ("waiting_packets", "Packets that wait", |s| s.waiting),
    ("rate_bits_per_second", "Rate of the queue", |s| s.rate.as_bps()),
];

/// Reads the numbers of all queues when somebody asks.
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
        let help = "From when a packet was read until it was sent on";
        let (unit, kind) = (Some(&Unit::Seconds), MetricType::Histogram);
        let mut metric = encoder.encode_descriptor("sojourn", help, unit, kind)?;
        for stats in &stats {
            histogram(metric.encode_family(&label(stats))?, stats)?;
        }
        let help = "How late packets were sent on, by percentile";
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
    // Those up to each bound, the bounds before it not included.
    let mut before = 0;
    let mut classes: Vec<(f64, u64)> = Vec::new();
    for bound in BOUNDS {
        let up_to = stats.sojourn.count_between(0, (bound * 1e9) as u64);
        classes.push((bound, up_to.saturating_sub(before)));
        before = before.max(up_to);
    }
    let all = stats.sojourn.len();
    classes.push((f64::INFINITY, all.saturating_sub(before)));
    let sum = stats.sojourn_sum.as_secs_f64();
    encoder.encode_histogram::<NoLabelSet>(sum, all, &classes, None)
}

fn registry(queues: Vec<Arc<Shared>>) -> Registry {
    let mut registry = Registry::with_prefix("windward_router");
    registry.register_collector(Box::new(Queues(queues)));
    registry
}

/// The numbers of these queues in the text format of OpenMetrics.
pub fn text(routers: &[Router]) -> String {
    write(&registry(routers.iter().map(|router| Arc::clone(&router.shared)).collect()))
}

fn write(registry: &Registry) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, registry);
    text
}

/// Answers `GET /metrics` until it is dropped.
pub struct Metrics {
    server: Arc<Server>,
    thread: Option<JoinHandle<()>>,
    address: SocketAddr,
}

impl Metrics {
    /// Listens at this address, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// If the address is none, is not of this machine, or its port is taken.
    pub fn serve(address: impl ToSocketAddrs, routers: &[Router]) -> io::Result<Self> {
        let server =
            Server::http(address).map_err(|error| match error.downcast::<io::Error>() {
                Ok(error) => *error,
                Err(other) => io::Error::other(other.to_string()),
            })?;
        let address = server.server_addr().to_ip().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let server = Arc::new(server);
        let queues = routers.iter().map(|router| Arc::clone(&router.shared)).collect();
        let (registry, of_thread) = (registry(queues), Arc::clone(&server));
        let answer = move || {
            for request in of_thread.incoming_requests() {
                // Whoever asked may have gone.
                let _ = match request.url() {
                    "/metrics" => request.respond(page(&write(&registry))),
                    _ => request
                        .respond(Response::from_string("see /metrics\n").with_status_code(404)),
                };
            }
        };
        let thread = thread::Builder::new().name("metrics".into()).spawn(answer)?;
        Ok(Metrics { server, thread: Some(thread), address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

fn page(text: &str) -> Response<io::Cursor<Vec<u8>>> {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let response = Response::from_string(text);
    match Header::from_bytes("Content-Type", kind) {
        Ok(header) => response.with_header(header),
        Err(()) => response,
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.server.unblock();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Metrics({})", self.address)
    }
}
