//! The data of events, as qlog names and nests them.

use serde::{Serialize, Serializer};
use windward_core::endpoint::Sender;
use windward_core::packet::{Flags, Packet};
use windward_core::units::{Duration, Time};

use super::format::{Format, ms};
use windward_sim::Scenario;
use windward_sim::stack::{FrameFacts, PacketType, StackReport};

/// Description of a simulated flow, with which its files begin.
#[derive(Serialize)]
pub(super) struct ScenarioData<'a> {
    name: &'static str,
    details: ScenarioDetails<'a>,
}

#[derive(Serialize)]
struct ScenarioDetails<'a> {
    flow: &'a str,
    protocol: &'a str,
    seed: u64,
    /// Milliseconds, as all times.
    duration: f64,
}

impl<'a> ScenarioData<'a> {
    pub(super) fn new(scenario: &Scenario, flow: &'a str, protocol: &'a str) -> Self {
        let (seed, duration) = (scenario.seed, ms(scenario.duration));
        ScenarioData {
            name: "windward",
            details: ScenarioDetails { flow, protocol, seed, duration },
        }
    }
}

#[derive(Serialize)]
pub(super) struct Parameters {
    /// Whole milliseconds; 0 is an ideal clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timer_granularity: Option<u64>,
    pub(super) max_datagram_size: u64,
    pub(super) initial_congestion_window: u64,
}

#[derive(Serialize)]
pub(super) struct StateUpdate {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) old: Option<&'static str>,
    pub(super) new: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trigger: Option<&'static str>,
}

#[derive(Serialize)]
pub(super) struct TimerUpdate {
    #[serde(skip_serializing_if = "Option::is_none")]
    timer_type: Option<&'static str>,
    event_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<f64>,
}

impl TimerUpdate {
    pub(super) fn new(
        event_type: &'static str,
        now: Time,
        until: Option<Time>,
        format: Format,
    ) -> Self {
        let timer_type = (format == Format::Current).then_some("loss_timeout");
        TimerUpdate { timer_type, event_type, delta: until.map(|until| ms(until.since(now))) }
    }
}

#[derive(Serialize)]
pub(super) struct PacketLost {
    pub(super) header: Header,
    pub(super) trigger: &'static str,
}

#[derive(Serialize)]
pub(super) struct LinkDropped<'a> {
    pub(super) kind: &'static str,
    pub(super) header: Header,
    pub(super) raw: Raw,
    pub(super) link: &'a str,
    pub(super) trigger: &'static str,
}

/// Data of an event without any.
#[derive(Serialize)]
pub(super) struct NoData {}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct Metrics {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) min_rtt: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) smoothed_rtt: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) latest_rtt: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rtt_variance: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) congestion_window: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bytes_in_flight: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ssthresh: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) packets_in_flight: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pacing_rate: Option<u64>,
}

impl Metrics {
    pub(super) fn of(sender: &Sender, packet_size: u64) -> Self {
        let size = packet_size as f64;
        let rtt = sender.rtt();
        let sampled = !rtt.latest().is_zero();
        let known = |time: Duration| sampled.then(|| ms(time));
        let in_flight = sender.in_flight();
        // Larger values become the largest u64. No controller has such a window; a threshold may be
        // infinite.
        let bytes = |packets: f64| (packets * size).round() as u64;
        Metrics {
            min_rtt: known(rtt.min_rtt()),
            smoothed_rtt: known(rtt.srtt()),
            latest_rtt: known(rtt.latest()),
            rtt_variance: known(rtt.rttvar()),
            congestion_window: Some(bytes(sender.cwnd())),
            bytes_in_flight: Some(in_flight * packet_size),
            ssthresh: Some(sender.ssthresh()).filter(|packets| packets.is_finite()).map(bytes),
            packets_in_flight: Some(in_flight),
            pacing_rate: sender.pacing_rate().map(|rate| bytes(rate * 8.0)),
        }
    }

    /// Metrics of a stack, which counts bytes.
    pub(super) fn of_stack(report: &StackReport) -> Self {
        Metrics {
            smoothed_rtt: (!report.srtt.is_zero()).then(|| ms(report.srtt)),
            congestion_window: Some(report.cwnd),
            bytes_in_flight: Some(report.in_flight),
            ssthresh: report.ssthresh,
            ..Metrics::default()
        }
    }

    /// The metrics that differ from those before.
    pub(super) fn since(self, before: Option<Metrics>) -> Metrics {
        let Some(before) = before else { return self };
        fn new<T: PartialEq + Copy>(now: Option<T>, before: Option<T>) -> Option<T> {
            if now == before { None } else { now }
        }
        Metrics {
            min_rtt: new(self.min_rtt, before.min_rtt),
            smoothed_rtt: new(self.smoothed_rtt, before.smoothed_rtt),
            latest_rtt: new(self.latest_rtt, before.latest_rtt),
            rtt_variance: new(self.rtt_variance, before.rtt_variance),
            congestion_window: new(self.congestion_window, before.congestion_window),
            bytes_in_flight: new(self.bytes_in_flight, before.bytes_in_flight),
            ssthresh: new(self.ssthresh, before.ssthresh),
            packets_in_flight: new(self.packets_in_flight, before.packets_in_flight),
            pacing_rate: new(self.pacing_rate, before.pacing_rate),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Metrics::default()
    }
}

#[derive(Serialize)]
pub(super) struct Header {
    pub(super) packet_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) packet_number: Option<u64>,
}

impl Header {
    pub(super) fn new(packet_number: Option<u64>) -> Self {
        Header { packet_type: "1RTT", packet_number }
    }

    /// Header of a stack's packet.
    pub(super) fn of_stack(kind: PacketType, number: u64) -> Self {
        let packet_type = match kind {
            PacketType::Initial => "initial",
            PacketType::ZeroRtt => "0RTT",
            PacketType::Handshake => "handshake",
            PacketType::OneRtt => "1RTT",
        };
        Header { packet_type, packet_number: Some(number) }
    }
}

#[derive(Serialize)]
pub(super) struct Raw {
    pub(super) length: u64,
}

#[derive(Serialize)]
pub(super) struct PacketData<'a> {
    pub(super) header: Header,
    pub(super) raw: Raw,
    pub(super) frames: [Frame<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trigger: Option<&'static str>,
    /// Extension of Windward: the ECN codepoint, if the packet has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ecn: Option<&'static str>,
}

/// A packet of a stack.
#[derive(Serialize)]
pub(super) struct StackPacketData<'a> {
    pub(super) header: Header,
    pub(super) raw: Raw,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) frames: Vec<Frame<'a>>,
    /// Index of its datagram, from 0.
    pub(super) datagram_id: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ecn: Option<&'static str>,
}

impl<'a> PacketData<'a> {
    pub(super) fn new(packet: &Packet, number: Option<u64>, frame: Frame<'a>) -> Self {
        PacketData {
            header: Header::new(number),
            raw: Raw { length: packet.size.into() },
            frames: [frame],
            trigger: None,
            ecn: ecn_of(packet.flags),
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "frame_type", rename_all = "snake_case")]
pub(super) enum Frame<'a> {
    Stream {
        stream_id: u64,
        offset: u64,
        /// In qlog 0.3.
        #[serde(skip_serializing_if = "Option::is_none")]
        length: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        raw: Option<Raw>,
    },
    Ack {
        #[serde(skip_serializing_if = "<[_]>::is_empty", serialize_with = "ranges")]
        acked_ranges: &'a [(u64, u64)],
        #[serde(skip_serializing_if = "Option::is_none")]
        ect1: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        ect0: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        ce: Option<u64>,
    },
    Crypto {
        offset: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        length: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        raw: Option<Raw>,
    },
    Datagram {
        #[serde(skip_serializing_if = "Option::is_none")]
        length: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        raw: Option<Raw>,
    },
    #[serde(untagged)]
    Other { frame_type: &'static str },
}

/// The length of data, where each version of qlog has it.
fn sized(length: u64, format: Format) -> (Option<u64>, Option<Raw>) {
    match format {
        Format::Current => (None, Some(Raw { length })),
        Format::Version03 => (Some(length), None),
    }
}

impl<'a> Frame<'a> {
    /// Data of a transport, in its only stream.
    pub(super) fn stream(offset: u64, length: u64, format: Format) -> Self {
        let (length, raw) = sized(length, format);
        Frame::Stream { stream_id: 0, offset, length, raw }
    }

    pub(super) fn datagram(length: u64, format: Format) -> Self {
        let (length, raw) = sized(length, format);
        Frame::Datagram { length, raw }
    }

    /// A frame of a stack.
    pub(super) fn of_stack(frame: &'a FrameFacts, format: Format) -> Self {
        match frame {
            FrameFacts::Stream { id, offset, length } => {
                let (length, raw) = sized(*length, format);
                Frame::Stream { stream_id: *id, offset: *offset, length, raw }
            }
            FrameFacts::Crypto { offset, length } => {
                let (length, raw) = sized(*length, format);
                Frame::Crypto { offset: *offset, length, raw }
            }
            FrameFacts::Ack { ranges, ecn } => Frame::Ack {
                acked_ranges: ranges,
                ect0: ecn.map(|[ect0, ..]| ect0),
                ect1: ecn.map(|[_, ect1, _]| ect1),
                ce: ecn.map(|[.., ce]| ce),
            },
            FrameFacts::Other(frame_type) => Frame::Other { frame_type },
        }
    }
}

/// Writes ranges; one of a single packet is one number.
fn ranges<S: Serializer>(ranges: &&[(u64, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    #[serde(untagged)]
    enum Ends {
        One([u64; 1]),
        Two([u64; 2]),
    }
    let ends = |&(first, last): &(u64, u64)| match first == last {
        true => Ends::One([first]),
        false => Ends::Two([first, last]),
    };
    serializer.collect_seq(ranges.iter().map(ends))
}

/// ECN codepoint (RFC 3168, RFC 9331); `None` if the transport does not use ECN.
pub(super) fn ecn_of(flags: Flags) -> Option<&'static str> {
    if flags.contains(Flags::CONGESTION_EXPERIENCED) {
        Some("CE")
    } else if flags.contains(Flags::ECN_CAPABLE.with(Flags::L4S)) {
        Some("ECT(1)")
    } else {
        flags.contains(Flags::ECN_CAPABLE).then_some("ECT(0)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_told_apart() {
        assert_eq!(ecn_of(Flags::NONE), None);
        assert_eq!(ecn_of(Flags::ECN_CAPABLE), Some("ECT(0)"));
        assert_eq!(ecn_of(Flags::ECN_CAPABLE.with(Flags::L4S)), Some("ECT(1)"));
        let marked = Flags::ECN_CAPABLE.with(Flags::CONGESTION_EXPERIENCED);
        assert_eq!(ecn_of(marked), Some("CE"));
    }
}
