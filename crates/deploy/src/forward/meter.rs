//! Counters of a forwarder or of a server, and the same as metrics for Prometheus over HTTP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use super::reply::Reply;
use crate::error::{Error, Result};

/// Maximum number of clients at one time. Further ones are closed at once.
const MOST_CLIENTS: usize = 16;
/// Longest time of a client.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest request, bytes.
const LONGEST_REQUEST: usize = 8192;

/// Label of a reply.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ByReply {
    reply: &'static str,
}

/// Counters of a forwarder or of a server.
#[derive(Debug, Default)]
pub struct Meter {
    /// QUIC connections that are open.
    pub peers: Gauge,
    /// QUIC connections since the start.
    pub peer_connections: Counter,
    /// QUIC connections that were refused.
    pub refused_peers: Counter,
    /// Forwarded connections that are open.
    pub open: Gauge,
    /// UDP flows that are open.
    pub flows: Gauge,
    /// Forwarded connections that ended with a reset.
    pub resets: Counter,
    /// Bytes of forwarded connections sent to peers.
    pub sent_bytes: Counter,
    /// Bytes of forwarded connections received from peers.
    pub received_bytes: Counter,
    /// Datagrams received from peers.
    pub datagrams: Counter,
    /// Datagrams that were dropped here.
    pub dropped_datagrams: Counter,
    /// Changes of settings.
    pub reloads: Counter,
    replies: Family<ByReply, Counter>,
}

/// Counts a forwarded connection while it exists.
pub(super) struct Open<'a> {
    count: &'a watch::Sender<usize>,
    meter: &'a Meter,
}

impl<'a> Open<'a> {
    pub(super) fn new(count: &'a watch::Sender<usize>, meter: &'a Meter) -> Self {
        count.send_modify(|open| *open += 1);
        meter.open.inc();
        Open { count, meter }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.count.send_modify(|open| *open -= 1);
        self.meter.open.dec();
    }
}

impl Meter {
    /// Counts the reply to a request.
    pub(super) fn on_reply(&self, reply: Reply) {
        let reply = match reply {
            Reply::Connected => "connected",
            Reply::Failed => "failed",
            Reply::NotAllowed => "not_allowed",
            Reply::NetworkUnreachable => "network_unreachable",
            Reply::HostUnreachable => "host_unreachable",
            Reply::Refused => "refused",
            Reply::TimedOut => "timed_out",
            Reply::Unsupported => "unsupported",
            Reply::TooMany => "too_many",
            Reply::ShuttingDown => "shutting_down",
        };
        self.replies.get_or_create(&ByReply { reply }).inc();
    }

    fn registry(&self) -> Registry {
        let mut registry = Registry::with_prefix("windward_forward");
        for (name, help, gauge) in [
            ("peers", "QUIC connections", &self.peers),
            ("connections", "Forwarded connections", &self.open),
            ("flows", "UDP flows", &self.flows),
        ] {
            registry.register(name, help, gauge.clone());
        }
        for (name, help, counter) in [
            ("peer_connections", "QUIC connections since the start", &self.peer_connections),
            ("refused_peers", "QUIC connections that were refused", &self.refused_peers),
            ("resets", "Forwarded connections that ended with a reset", &self.resets),
            ("datagrams", "Datagrams received from peers", &self.datagrams),
            ("dropped_datagrams", "Datagrams dropped here", &self.dropped_datagrams),
            ("reloads", "Changes of settings", &self.reloads),
        ] {
            registry.register(name, help, counter.clone());
        }
        for (name, help, counter) in [
            ("sent", "Bytes of forwarded connections sent to peers", &self.sent_bytes),
            (
                "received",
                "Bytes of forwarded connections received from peers",
                &self.received_bytes,
            ),
        ] {
            registry.register_with_unit(name, help, Unit::Bytes, counter.clone());
        }
        registry.register("requests", "Requests by their reply", self.replies.clone());
        registry
    }

    /// The metrics in the text format of OpenMetrics.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry());
        text
    }
}

/// Answers `GET /metrics` at an address, until the task is dropped. Returns the address.
///
/// # Errors
///
/// If the address is not of this machine, or its port is taken.
pub(super) async fn serve(bind: SocketAddr, meter: Arc<Meter>) -> Result<SocketAddr> {
    let failed = |error| Error::Socket { what: format!("cannot serve metrics at {bind}"), error };
    let listener = TcpListener::bind(bind).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    tokio::spawn(async move {
        let places = Arc::new(Semaphore::new(MOST_CLIENTS));
        loop {
            let Ok((client, _)) = listener.accept().await else {
                // No more descriptors, or the client has gone already.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
            let meter = Arc::clone(&meter);
            tokio::spawn(async move {
                // The client may have gone.
                let _ = tokio::time::timeout(PATIENCE, answer(client, &meter)).await;
                drop(place);
            });
        }
    });
    Ok(address)
}

/// Reads one request and answers it (RFC 9112).
async fn answer(mut client: TcpStream, meter: &Meter) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if client.read_buf(&mut request).await? == 0 || request.len() > LONGEST_REQUEST {
            return Ok(());
        }
    }
    let text = String::from_utf8_lossy(&request);
    let mut words = text.split([' ', '\r']);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let plain = "text/plain; charset=utf-8";
    let (status, kind, body) = match (method, path.split('?').next().unwrap_or_default()) {
        ("GET" | "HEAD", "/metrics") => {
            ("200 OK", "application/openmetrics-text; version=1.0.0; charset=utf-8", meter.text())
        }
        ("GET" | "HEAD", _) => ("404 Not Found", plain, "see /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", plain, "GET /metrics\n".to_owned()),
    };
    let length = body.len();
    let body = if method == "HEAD" { "" } else { &body };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    );
    client.write_all(answer.as_bytes()).await?;
    client.shutdown().await
}
