//! Counters of a forwarder or of a server, and the same as metrics for Prometheus over HTTP.

use std::net::SocketAddr;
use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tokio::sync::watch;
use windward_http::{Content, Listener, Site};

use super::reply::Reply;
use crate::error::{Error, Result};

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

/// Counts a forwarded connection or a flow while it exists.
pub(super) struct Open<'a> {
    count: &'a watch::Sender<usize>,
    gauge: &'a Gauge,
}

impl<'a> Open<'a> {
    pub(super) fn new(count: &'a watch::Sender<usize>, gauge: &'a Gauge) -> Self {
        count.send_modify(|open| *open += 1);
        gauge.inc();
        Open { count, gauge }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.count.send_modify(|open| *open -= 1);
        self.gauge.dec();
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

/// Answers `GET /metrics` at an address until the server is dropped.
///
/// # Errors
///
/// If the address is not of this machine, or its port is taken.
pub(super) fn serve(bind: SocketAddr, meter: Arc<Meter>) -> Result<windward_http::Server> {
    let metrics = Content::Metrics(Box::new(move || meter.text()));
    Listener::bind(bind)
        .and_then(|listener| listener.serve(Site::new([("/metrics", metrics)])))
        .map_err(|error| Error::Socket { what: format!("cannot serve metrics at {bind}"), error })
}
