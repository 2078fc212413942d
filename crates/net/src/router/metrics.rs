//! Metrics of queues for Prometheus: the OpenMetrics text format, over HTTP.
//!
//! Clients must not disturb the queues or their end. So there are at most [`MOST_CLIENTS`]
//! connections, each carries one request, and each ends after [`PATIENCE`], whether or not the
//! client has written its request and read the answer. The queues never wait for a connection.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration as WallTime, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use windward_core::units::Duration;
use windward_netns::wait;

use super::{Router, Shared, Stats, lock};

/// Maximum number of connections at one time. Further ones are closed at once.
const MOST_CLIENTS: usize = 16;
/// Maximum duration of a connection.
const PATIENCE: WallTime = WallTime::from_secs(5);
/// Maximum length of a request, of which the first line counts, bytes.
const LONGEST_REQUEST: usize = 8192;
/// Time between two checks of the listener whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

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

/// Server that answers `GET /metrics` until it is dropped.
pub struct Metrics {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    address: SocketAddr,
}

impl Metrics {
    /// Listens at this address, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// If the address is invalid or not of this machine, or its port is taken.
    pub fn serve(address: impl ToSocketAddrs, routers: &[Router]) -> io::Result<Self> {
        let queues = routers.iter().map(|router| Arc::clone(&router.shared)).collect();
        Metrics::listen(address, registry(queues), PATIENCE)
    }

    fn listen(
        address: impl ToSocketAddrs,
        registry: Registry,
        patience: WallTime,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let of_thread = Arc::clone(&stop);
        let answer = move || accept(&listener, &Arc::new(registry), patience, &of_thread);
        let thread = thread::Builder::new().name("metrics".into()).spawn(answer)?;
        Ok(Metrics { stop, thread: Some(thread), address })
    }

    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Gives each client a thread, up to the limit.
fn accept(listener: &TcpListener, registry: &Arc<Registry>, patience: WallTime, stop: &AtomicBool) {
    // Each thread holds another reference.
    let clients = Arc::new(());
    while !stop.load(Ordering::Acquire) {
        let Ok((stream, _)) = listener.accept() else {
            // No client, one that has gone already, or no more descriptors; in the last case,
            // polling would not wait.
            if wait(listener.as_fd(), LOOK).is_err() {
                thread::sleep(WallTime::from_millis(100));
            }
            continue;
        };
        if Arc::strong_count(&clients) > MOST_CLIENTS {
            continue;
        }
        let (client, registry) = (Arc::clone(&clients), Arc::clone(registry));
        let answer = move || {
            // The client may have gone.
            let _ = exchange(stream, &registry, now() + patience);
            drop(client);
        };
        // If no thread can be made, the connection is closed.
        let _ = thread::Builder::new().name("metrics client".into()).spawn(answer);
    }
}

/// The current time, for the deadlines of clients.
#[expect(clippy::disallowed_methods, reason = "clients of metrics go by the real clock")]
fn now() -> Instant {
    Instant::now()
}

/// Time left until a deadline; an error if none is left.
fn left(until: Instant) -> io::Result<Option<WallTime>> {
    let left = until.saturating_duration_since(now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
}

/// Reads one request and answers it, before the deadline.
fn exchange(mut stream: TcpStream, registry: &Registry, until: Instant) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    let mut request = Vec::new();
    let mut buffer = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        stream.set_read_timeout(left(until)?)?;
        let length = stream.read(&mut buffer)?;
        if length == 0 || request.len() + length > LONGEST_REQUEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        request.extend_from_slice(&buffer[..length]);
    }
    let answer = answer(&String::from_utf8_lossy(&request), registry);
    let mut rest = answer.as_bytes();
    while !rest.is_empty() {
        stream.set_write_timeout(left(until)?)?;
        let length = stream.write(rest)?;
        rest = &rest[length..];
    }
    Ok(())
}

/// The answer to a request (RFC 9112), after which the connection is closed.
fn answer(request: &str, registry: &Registry) -> String {
    let mut words = request.split([' ', '\r']);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default();
    let plain = "text/plain; charset=utf-8";
    let (status, kind, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics") => (
            "200 OK",
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            write(registry),
        ),
        ("GET" | "HEAD", _) => ("404 Not Found", plain, "see /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", plain, "GET /metrics\n".to_owned()),
    };
    let length = body.len();
    let body = if method == "HEAD" { "" } else { &body };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// Longest time of a test.
    const LIMIT: WallTime = WallTime::from_secs(60);

    fn listen(patience: WallTime) -> Metrics {
        Metrics::listen("127.0.0.1:0", registry(Vec::new()), patience).unwrap()
    }

    fn connect(metrics: &Metrics) -> TcpStream {
        let stream = TcpStream::connect(metrics.address()).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream
    }

    /// The response, until the connection is closed.
    fn ask(metrics: &Metrics, request: &str) -> String {
        let mut stream = connect(metrics);
        let mut text = Vec::new();
        // A connection that is closed at once may be reset.
        let _ = stream.write_all(request.as_bytes());
        let _ = stream.read_to_end(&mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn requests_are_answered_one_a_connection() {
        let metrics = listen(LIMIT);
        let answer = ask(&metrics, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && body.ends_with("# EOF\n"), "{answer}");
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
        let head = ask(&metrics, "HEAD /metrics?x=1 HTTP/1.1\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
        assert!(ask(&metrics, "GET / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(ask(&metrics, "POST /metrics HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 405 "));
        assert_eq!(ask(&metrics, &"a".repeat(3 * LONGEST_REQUEST)), "");
    }

    #[test]
    fn clients_that_are_silent_do_not_keep_it_from_others_for_long() {
        let metrics = listen(WallTime::from_millis(300));
        let silent: Vec<TcpStream> = (0..3 * MOST_CLIENTS).map(|_| connect(&metrics)).collect();
        // All connections are closed in the end, surplus ones at once.
        for mut stream in silent {
            assert!(!matches!(stream.read(&mut [0; 10]), Ok(1..)));
        }
        // Their threads may need a moment more.
        let request = "GET /metrics HTTP/1.0\r\n\r\n";
        assert!((0..1000).any(|_| {
            thread::sleep(WallTime::from_millis(10));
            ask(&metrics, request).ends_with("# EOF\n")
        }));
    }

    #[test]
    fn there_are_never_more_than_some_clients() {
        let metrics = listen(10 * LIMIT);
        let _silent: Vec<TcpStream> = (0..MOST_CLIENTS).map(|_| connect(&metrics)).collect();
        // Connections are accepted in order, so that this one is too many.
        assert_eq!(ask(&metrics, "GET /metrics HTTP/1.0\r\n\r\n"), "");
    }

    #[test]
    fn clients_that_do_not_write_or_read_do_not_keep_it_from_its_end() {
        let metrics = listen(10 * LIMIT);
        let mut clients: Vec<TcpStream> = (0..MOST_CLIENTS).map(|_| connect(&metrics)).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            if number % 2 == 0 {
                client.write_all(b"GET /metrics HTTP/1.1\r\n").unwrap();
            }
        }
        let (ended, end) = channel();
        thread::spawn(move || {
            drop(metrics);
            ended.send(()).unwrap();
        });
        end.recv_timeout(LIMIT).expect("it ends with clients there");
    }
}
