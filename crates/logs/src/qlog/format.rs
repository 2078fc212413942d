//! The two versions of qlog, and the file of one vantage point.

use std::io::Write;

use serde::Serialize;
use windward_core::units::{Duration, Time};

use windward_sim::output::{OutputError, StagedFile};

/// Versions of qlog, both written as JSON text sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// draft-ietf-quic-qlog-main-schema-13 with draft-ietf-quic-qlog-quic-events-13.
    #[default]
    Current,
    /// qlog 0.3 (draft-ietf-quic-qlog-main-schema-01 to -03), which qvis reads.
    Version03,
}

/// Event schemas of a log: that of the QUIC draft, and those of Windward's extensions.
const EVENT_SCHEMAS: [&str; 3] = [
    "urn:ietf:params:qlog:events:quic-13",
    "urn:ietf:params:qlog:events:simulation",
    "urn:x-windward:qlog:events:windward",
];

/// Kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventKind {
    Scenario,
    ParametersSet,
    PacketSent,
    PacketReceived,
    PacketLost,
    MetricsUpdated,
    CongestionStateUpdated,
    TimerUpdated,
    EcnStateUpdated,
    /// Extension of Windward: a link lost a packet.
    LinkDropped,
    /// Extension of Windward: packets deemed lost had arrived.
    SpuriousLoss,
}

impl EventKind {
    fn name(self, format: Format) -> &'static str {
        let current = format == Format::Current;
        match self {
            EventKind::Scenario => "simulation:scenario",
            EventKind::ParametersSet if current => "quic:recovery_parameters_set",
            EventKind::ParametersSet => "recovery:parameters_set",
            EventKind::PacketSent if current => "quic:packet_sent",
            EventKind::PacketSent => "transport:packet_sent",
            EventKind::PacketReceived if current => "quic:packet_received",
            EventKind::PacketReceived => "transport:packet_received",
            EventKind::PacketLost if current => "quic:packet_lost",
            EventKind::PacketLost => "recovery:packet_lost",
            EventKind::MetricsUpdated if current => "quic:recovery_metrics_updated",
            EventKind::MetricsUpdated => "recovery:metrics_updated",
            EventKind::CongestionStateUpdated if current => "quic:congestion_state_updated",
            EventKind::CongestionStateUpdated => "recovery:congestion_state_updated",
            EventKind::TimerUpdated if current => "quic:timer_updated",
            EventKind::TimerUpdated => "recovery:loss_timer_updated",
            EventKind::EcnStateUpdated if current => "quic:ecn_state_updated",
            EventKind::EcnStateUpdated => "recovery:ecn_state_updated",
            EventKind::LinkDropped => "windward:link_dropped",
            EventKind::SpuriousLoss => "windward:spurious_loss",
        }
    }
}

/// Vantage point of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vantage {
    /// The client, which here has the data to send.
    Sender,
    Receiver,
    Network,
}

#[derive(Serialize)]
struct VantagePoint<'a> {
    name: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    flow: Option<&'static str>,
}

#[derive(Serialize)]
struct Event<D> {
    time: f64,
    name: &'static str,
    data: D,
}

/// Milliseconds, the unit of all times in qlog.
pub(super) fn ms(time: Duration) -> f64 {
    const PS_PER_MS: f64 = 1e9;
    time.as_ps() as f64 / PS_PER_MS
}

/// The file of one vantage point, if it has one.
#[derive(Debug)]
pub(super) struct Sink {
    file: Option<StagedFile>,
    format: Format,
    /// True if it was measured between hosts and not simulated.
    is_measured: bool,
    record: Vec<u8>,
}

/// Byte before each record (RFC 7464).
const RECORD_SEPARATOR: u8 = 0x1e;

impl Sink {
    /// A sink; without a file it writes nothing.
    pub(super) fn new(file: Option<StagedFile>, format: Format, is_measured: bool) -> Self {
        Sink { file, format, is_measured, record: Vec::new() }
    }

    pub(super) fn format(&self) -> Format {
        self.format
    }

    pub(super) fn into_file(self) -> Option<StagedFile> {
        self.file
    }

    /// The first record.
    pub(super) fn header(&mut self, flow: &str, vantage: Vantage) -> Result<u64, OutputError> {
        #[derive(Serialize)]
        struct ReferenceTime {
            clock_type: &'static str,
            epoch: &'static str,
        }
        #[derive(Serialize)]
        struct CommonFields<R> {
            time_format: &'static str,
            reference_time: R,
        }
        #[derive(Serialize)]
        struct Trace<'a, R> {
            common_fields: CommonFields<R>,
            vantage_point: VantagePoint<'a>,
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            event_schemas: &'static [&'static str],
        }
        #[derive(Serialize)]
        struct Current<'a> {
            file_schema: &'static str,
            serialization_format: &'static str,
            title: &'a str,
            description: &'static str,
            trace: Trace<'a, ReferenceTime>,
        }
        #[derive(Serialize)]
        struct Version03<'a> {
            qlog_version: &'static str,
            qlog_format: &'static str,
            title: &'a str,
            description: &'static str,
            trace: Trace<'a, u64>,
        }
        let description = match self.is_measured {
            true => concat!("measured by windward ", env!("CARGO_PKG_VERSION")),
            false => concat!("simulated by windward ", env!("CARGO_PKG_VERSION")),
        };
        let (what, kind, direction) = match vantage {
            Vantage::Sender => ("sender", "client", None),
            Vantage::Receiver => ("receiver", "server", None),
            Vantage::Network => ("network", "network", Some("client")),
        };
        let title = format!("{flow}, {what}");
        let vantage_point = VantagePoint { name: &title, kind, flow: direction };
        match self.format {
            Format::Current => self.record(&Current {
                file_schema: "urn:ietf:params:qlog:file:sequential",
                serialization_format: "application/qlog+json-seq",
                title: &title,
                description,
                trace: Trace {
                    common_fields: CommonFields {
                        time_format: "relative_to_epoch",
                        // Virtual time begins with the run; a monotonic clock has no known epoch.
                        reference_time: ReferenceTime { clock_type: "monotonic", epoch: "unknown" },
                    },
                    vantage_point,
                    event_schemas: &EVENT_SCHEMAS,
                },
            }),
            Format::Version03 => self.record(&Version03 {
                qlog_version: "0.3",
                qlog_format: "JSON-SEQ",
                title: &title,
                description,
                trace: Trace {
                    common_fields: CommonFields { time_format: "relative", reference_time: 0 },
                    vantage_point,
                    event_schemas: &[],
                },
            }),
        }
    }

    /// One event. Returns the bytes that it took.
    pub(super) fn event(
        &mut self,
        now: Time,
        kind: EventKind,
        data: impl Serialize,
    ) -> Result<u64, OutputError> {
        let (time, name) = (ms(now.since(Time::ZERO)), kind.name(self.format));
        self.record(&Event { time, name, data })
    }

    fn record(&mut self, value: &impl Serialize) -> Result<u64, OutputError> {
        let Some(file) = &mut self.file else { return Ok(0) };
        self.record.clear();
        self.record.push(RECORD_SEPARATOR);
        let written = serde_json::to_writer(&mut self.record, value).map_err(Into::into);
        self.record.push(b'\n');
        let written = written.and_then(|()| file.write_all(&self.record));
        written.map_err(|error| OutputError::write(file.path(), error))?;
        Ok(self.record.len() as u64)
    }
}
