//! The work of `windward kernel` as state, table, metrics and charts.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use serde::Serialize;
use serde_json::{Value, json};
use windward_http::{Content, Listener, Server, Site};
use windward_kernel::{Connection, Counters, Daemon, Object};

use super::failed;
use crate::clock::Stopwatch;
use crate::failure::Failure;
use crate::http;
use crate::moment::{FlowMoment, Moment};
use crate::output::{self, TextTable};
use crate::web::{self, About, Web};

/// Connections in the table of `windward kernel status`, the busiest.
const ROWS: usize = 20;

/// The counters by name, with their meanings.
fn counters(counters: &Counters) -> [(&'static str, u64, &'static str); 10] {
    let Counters { opened, closed, without_slot, acks, driven, .. } = *counters;
    let Counters { newreno, reports, dropped, timeouts, takeovers, .. } = *counters;
    [
        ("opened", opened, "Connections that got the controller"),
        ("closed", closed, "Connections that ended or got another"),
        ("without_slot", without_slot, "Connections for which there was no room, with NewReno"),
        ("acks", acks, "ACKs"),
        ("driven", driven, "ACKs at which a window of the controller applied"),
        ("newreno", newreno, "ACKs at which NewReno moved the window"),
        ("reports", reports, "Reports of the kernel"),
        ("dropped", dropped, "Reports for which there was no room"),
        ("timeouts", timeouts, "Retransmission timeouts"),
        ("takeovers", takeovers, "Connections that NewReno took over"),
    ]
}

/// The state that a process leaves for others, with the connections of its daemon.
pub(super) fn state(name: &str, undo: &impl Serialize, daemon: Option<&Daemon<'_>>) -> Value {
    let mut state = json!({ "row": name, "pid": std::process::id(), "undo": undo });
    if let Some(daemon) = daemon {
        let ages = daemon.ages();
        let age = |quantile: f64| ages.value_at_quantile(quantile);
        state["window_age_us"] =
            json!({ "median": age(0.5), "p99": age(0.99), "most": ages.max() });
        state["connections"] = daemon.connections().map(connection).collect();
    }
    state
}

fn connection(connection: &Connection) -> Value {
    let (last, figures) = (connection.last(), connection.figures());
    json!({
        "remote": last.remote.to_string(),
        "local_port": last.local_port,
        "namespace": last.namespace,
        "phase": figures.phase,
        "window": figures.window / u64::from(figures.mtu),
        "cwnd": last.cwnd,
        "pacing_rate_bps": figures.pacing_rate.map(|rate| rate.saturating_mul(8)),
        "delivery_rate_bps": figures.delivery_rate * 8.0,
        "srtt_ms": figures.srtt.as_secs_f64() * 1e3,
        "min_rtt_ms": figures.min_rtt.as_secs_f64() * 1e3,
        "sent": figures.sent,
        "lost": figures.lost,
        "marks": figures.marks,
        "timeouts": connection.timeouts(),
    })
}

/// Prints `windward kernel status`: the counters of the program, if it is loaded, and the state of
/// a daemon that lives.
pub(super) fn status(all: Option<&Counters>, daemon: &Value, as_json: bool) -> Result<(), Failure> {
    let named = |all: &Counters| -> serde_json::Map<String, Value> {
        counters(all).into_iter().map(|(name, value, _)| (name.to_owned(), value.into())).collect()
    };
    if as_json {
        return output::print_json(&json!({
            "loaded": all.is_some(),
            "counters": all.map(named),
            "daemon": daemon,
        }));
    }
    let Some(all) = all else { return output::print("not loaded\n") };
    let mut text = match daemon["row"].as_str() {
        Some(row) => format!("{row}, process {}\n", daemon["pid"]),
        None => "no daemon: connections have NewReno\n".to_owned(),
    };
    let none = Vec::new();
    let mut flows: Vec<&Value> = daemon["connections"].as_array().unwrap_or(&none).iter().collect();
    flows.sort_by_key(|flow| std::cmp::Reverse(flow["sent"].as_u64()));
    if !flows.is_empty() {
        text += &table(&flows);
    }
    let more = flows.len().saturating_sub(ROWS);
    if more > 0 {
        text += &format!("and {more} more; --json has all\n");
    }
    if let Some(age) = daemon["window_age_us"].as_object().filter(|_| !flows.is_empty()) {
        let [median, p99, most] = ["median", "p99", "most"].map(|key| &age[key]);
        text +=
            &format!("age of a window: {median} us (median), {p99} us (p99), {most} us (most)\n");
    }
    for (name, value, meaning) in counters(all) {
        text += &format!("{name:<14} {value:>12}  {meaning}\n");
    }
    output::print(&text)
}

fn table(flows: &[&Value]) -> String {
    let mut table = TextTable::new([
        "remote", ">port", "phase", ">window", ">rate", ">RTT", ">least", ">sent", ">lost", ">RTOs",
    ]);
    for flow in flows.iter().take(ROWS) {
        let text = |key: &str| flow[key].as_str().unwrap_or_default().to_owned();
        let ms = |key: &str| output::seconds(flow[key].as_f64().unwrap_or_default() / 1e3);
        table.row([
            text("remote"),
            flow["local_port"].to_string(),
            text("phase"),
            flow["window"].to_string(),
            output::rate(flow["delivery_rate_bps"].as_f64().unwrap_or_default()),
            ms("srtt_ms"),
            ms("min_rtt_ms"),
            flow["sent"].to_string(),
            flow["lost"].to_string(),
            flow["timeouts"].to_string(),
        ]);
    }
    table.text()
}

/// Numbers for Prometheus, as of the latest look.
#[derive(Debug, Default)]
struct Numbers {
    counters: Counters,
    connections: usize,
    windows: u64,
    age_us: [u64; 2],
}

#[derive(Debug)]
struct Metrics(Arc<Mutex<Numbers>>);

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let numbers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, value, help) in counters(&numbers.counters) {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(value).encode(metric)?;
        }
        let [median, p99] = numbers.age_us.map(|us| us as f64 / 1e6);
        for (name, help, value) in [
            ("connections", "Connections that the daemon drives", numbers.connections as f64),
            ("window_packets", "The sum of their windows", numbers.windows as f64),
            ("window_age_median_seconds", "Age of a window when it can be used", median),
            ("window_age_p99_seconds", "Age that one window in a hundred exceeds", p99),
        ] {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(metric)?;
        }
        Ok(())
    }
}

/// The servers of `--metrics` and `--web`, and the pings of a service.
#[derive(Default)]
pub(super) struct Show {
    metrics: Option<(Arc<Mutex<Numbers>>, Server)>,
    web: Option<Web>,
    /// Bytes acknowledged at the last moment, by connection.
    before: std::collections::HashMap<u64, u64>,
    since: Option<(Stopwatch, Stopwatch)>,
    watchdog: Option<(Duration, Stopwatch)>,
}

impl Show {
    /// Starts what is requested.
    pub(super) fn start(
        row: &str,
        metrics: Option<SocketAddr>,
        charts: Option<Listener>,
        quiet: bool,
    ) -> Result<Self, Failure> {
        let subject = format!("{row} in the TCP of this kernel");
        let about = About { command: "windward kernel", subject: &subject, ..About::THROUGHPUT };
        let web = charts.map(|listener| Web::start(listener, &about, quiet)).transpose()?;
        let metrics = metrics.map(|address| -> Result<_, Failure> {
            let listener = http::listen("--metrics", address)?;
            let numbers = Arc::<Mutex<Numbers>>::default();
            let mut registry = Registry::with_prefix("windward_kernel");
            registry.register_collector(Box::new(Metrics(Arc::clone(&numbers))));
            let text = move || {
                let mut text = String::new();
                // Writing to a String cannot fail.
                let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
                text
            };
            let site = Site::new([("/metrics", Content::Metrics(Box::new(text)))]);
            let server = listener.serve(site).map_err(failed)?;
            if !quiet {
                output::note(&format!("metrics: http://{}/metrics", server.address()));
            }
            Ok((numbers, server))
        });
        let watchdog = sd_notify::watchdog_enabled().map(|limit| (limit / 4, Stopwatch::start()));
        // Fails without a service manager, which is not an error.
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
        Ok(Show { metrics: metrics.transpose()?, web, watchdog, ..Show::default() })
    }

    /// Shows the present, at most ten times a second.
    pub(super) fn look(&mut self, object: &Object, daemon: &Daemon<'_>) {
        if let Some((every, last)) = &mut self.watchdog
            && last.elapsed() >= *every
        {
            *last = Stopwatch::start();
            let _ = sd_notify::notify(&[sd_notify::NotifyState::Watchdog]);
        }
        if self.metrics.is_none() && self.web.is_none() {
            return;
        }
        let (began, last) = self.since.get_or_insert((Stopwatch::start(), Stopwatch::start()));
        let span = last.elapsed().as_secs_f64();
        if span < web::INTERVAL.as_secs_f64() {
            return;
        }
        *last = Stopwatch::start();
        let time_s = began.elapsed().as_secs_f64();
        if let Some((numbers, _)) = &self.metrics {
            let ages = daemon.ages();
            let windows = |c: &Connection| u64::from(c.last().cwnd);
            *numbers.lock().unwrap_or_else(PoisonError::into_inner) = Numbers {
                counters: object.counters().unwrap_or_default(),
                connections: daemon.connections().count(),
                windows: daemon.connections().map(windows).sum(),
                age_us: [0.5, 0.99].map(|quantile| ages.value_at_quantile(quantile)),
            };
        }
        let Some(web) = &self.web else { return };
        let mut now = std::collections::HashMap::new();
        let names: Vec<String> =
            daemon.connections().map(|c| c.last().remote.to_string()).collect();
        let flows = daemon.connections().zip(&names).map(|(connection, name)| {
            let (number, figures) = (connection.last().connection, connection.figures());
            let before = self.before.get(&number).copied().unwrap_or(0);
            now.insert(number, figures.acked_bytes);
            let queueing = figures.latest_rtt.as_secs_f64() - figures.min_rtt.as_secs_f64();
            FlowMoment {
                name,
                rate_bps: figures.acked_bytes.saturating_sub(before) as f64 * 8.0 / span,
                back_bps: None,
                cwnd_packets: Some(f64::from(connection.last().cwnd)),
                retransmissions: Some(figures.lost),
                missing: None,
                queueing_delay_s: Some(queueing.max(0.0)),
                rtt_s: figures.srtt.as_secs_f64(),
            }
        });
        web.show(Moment { time_s, links: Vec::new(), flows: flows.collect() });
        self.before = now;
    }
}
