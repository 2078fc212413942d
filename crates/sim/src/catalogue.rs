//! Protocols and parts as rows, for `windward list --json`, Python and JavaScript.

use serde::Serialize;
use windward_core::endpoint::driver::{Host, support};
use windward_core::media::MediaControllerConfig;
use windward_core::network::{AqmConfig, RouterConfig, RouterKind};
use windward_core::part::{AnyPart, Setting, Words};
use windward_core::protocols::{self, PROTOCOLS, Protocol};

/// A row of the protocol table: its name, and the name of its part on each axis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProtocolRow {
    /// Name in scenario files.
    pub name: &'static str,
    /// Summary, one line.
    pub summary: &'static str,
    /// Its source.
    pub source: &'static str,
    /// Part that controls the window.
    pub window: &'static str,
    /// Part that detects losses and selects the next packet.
    pub recovery: &'static str,
    /// Part that distinguishes congestion from corruption.
    pub discrimination: &'static str,
    /// Feedback that packets carry and ACKs echo.
    pub feedback: &'static str,
    /// Requirement for routers.
    pub router: &'static str,
    /// How much of it runs in a QUIC stack: `whole`, `partly` (all but its recovery) or `no`.
    pub quic: &'static str,
    /// The reason, as a sentence without a capital or a full stop.
    pub quic_reason: String,
    /// How much of it runs in the TCP of a Linux kernel: `partly` (all but its recovery) or `no`.
    pub kernel: &'static str,
    /// The reason, as a sentence without a capital or a full stop.
    pub kernel_reason: String,
}

/// A part of an axis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PartRow {
    /// `window`, `recovery`, `discrimination`, `feedback`, `aqm`, `router` or `media`.
    pub axis: &'static str,
    /// Name in scenario files.
    pub name: &'static str,
    /// Description, one sentence.
    pub what: &'static str,
    /// Its source.
    pub source: &'static str,
    /// Parameters.
    pub parameters: Vec<ParameterRow>,
}

/// A parameter of a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ParameterRow {
    /// Its key, with the table.
    pub key: String,
    /// Its default.
    pub default: String,
    /// Unit; empty for pure numbers, words and times.
    pub unit: &'static str,
    /// Range, in words.
    pub range: String,
    /// Meaning, one line.
    pub meaning: &'static str,
}

/// The protocol table.
pub fn protocols() -> Vec<ProtocolRow> {
    PROTOCOLS.iter().map(ProtocolRow::new).collect()
}

/// Every part of every axis, in the order of the documentation.
pub fn parts() -> Vec<PartRow> {
    let aqms = AqmConfig::forms().into_iter();
    let aqms = aqms.map(|(words, aqm)| ("aqm", words, aqm.settings()));
    let routers = RouterConfig::forms().into_iter();
    let routers = routers.map(|(words, router)| ("router", words, router.settings()));
    let media = MediaControllerConfig::forms().into_iter();
    let media = media.map(|(words, controller)| ("media", words, controller.settings()));
    let parts = protocols::parts().into_iter().chain(aqms).chain(routers).chain(media);
    let rows = parts.map(|(axis, words, settings)| PartRow {
        axis,
        name: words.name,
        what: words.what,
        source: words.source,
        parameters: settings.iter().filter(|s| s.applies).map(ParameterRow::new).collect(),
    });
    rows.collect()
}

impl ProtocolRow {
    fn new(protocol: &Protocol) -> Self {
        let [window, recovery, discrimination, feedback, router] =
            axes(protocol).map(|(_, part)| part.name);
        let (quic, quic_reason) = support(protocol, Host::Quic);
        let (kernel, kernel_reason) = support(protocol, Host::Kernel);
        ProtocolRow {
            name: protocol.name,
            summary: protocol.summary,
            source: protocol.source,
            window,
            recovery,
            discrimination,
            feedback,
            router,
            quic: quic.word(),
            quic_reason,
            kernel: kernel.word(),
            kernel_reason,
        }
    }
}

/// The axes in the order of a packet's life, and the part on each.
pub fn axes(protocol: &Protocol) -> [(&'static str, Words); 5] {
    let [window, recovery, discrimination, feedback] = protocol.parts();
    [window, recovery, discrimination, feedback, ("router", router(protocol.router))]
}

fn router(kind: RouterKind) -> Words {
    let (what, source) = match kind {
        RouterKind::Any => ("no requirement: any queue", "RFC 5681"),
        RouterKind::Xcp => (
            "shares out spare capacity once per mean RTT: efficiency and fairness controllers",
            "Katabi 2002 section 3.5, draft-falk-xcp-spec-03 section 3",
        ),
        RouterKind::XcpPersistent => (
            "xcp with a standing queue of ten packets, which keeps the link busy",
            "lr2008 section 7.2",
        ),
        RouterKind::Estcp => (
            "one phase shift per overflow, for all flows; g += gamma (D - length of the phase)",
            "estcp2010, ESTCP algorithm",
        ),
        RouterKind::CongestionWarning => (
            "marks every packet while the average queue is above a threshold",
            "Xu, Tian and Ansari 2005",
        ),
        RouterKind::Xtcp => (
            "counts the packets that its queue drops and flags the same number of departing ones",
            "lr2008 section 3.2",
        ),
        RouterKind::EcnThreshold => {
            ("marks every packet that arrives at a queue above K packets", "RFC 8257 section 3.1")
        }
    };
    Words { name: kind.name(), what, source }
}

impl ParameterRow {
    fn new(setting: &Setting) -> Self {
        let dot = if setting.table.is_empty() { "" } else { "." };
        ParameterRow {
            key: format!("{}{dot}{}", setting.table, setting.doc.key),
            default: setting.default_text(),
            unit: setting.doc.unit,
            range: setting.doc.kind.to_string(),
            meaning: setting.doc.meaning,
        }
    }
}
