//! The three logs of one flow, and what is kept to write them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Serialize, Serializer};
use windward_core::endpoint::Sender;
use windward_core::endpoint::recovery::{Finding, Report};
use windward_core::packet::{Flags, Packet, PacketKind};
use windward_core::units::{Duration, Time};
use windward_sim::output::{OutputError, StagedFile};
use windward_sim::scenario::Traffic;
use windward_sim::stack::{End, FrameFacts, PacketFacts, PacketType, Report as StackReport};
use windward_sim::{Loss, LossCause, Name, Scenario};

use super::format::{Format, Kind, Sink, Vantage, ms};
use super::stack::StackPackets;

/// Bytes written, or why not.
type Written = Result<u64, OutputError>;

/// The ranges that an acknowledgment tells of: the newest, as QUIC's receivers do (RFC 9000 section
/// 13.2.3).
const MAX_RANGES: usize = 16;
/// An acknowledgment that is behind the latest by this many is taken for lost.
const ACK_DISORDER: u64 = 1 << 16;

/// One flow.
#[derive(Debug)]
pub(super) struct FlowLog {
    name: Name,
    links: Arc<[Name]>,
    /// Size of a data packet on the wire.
    packet_size: u64,
    dupack_threshold: u64,
    granularity: Duration,
    sender: Sink,
    receiver: Sink,
    network: Sink,
    metrics: Option<Metrics>,
    phase: Option<&'static str>,
    /// Why the phase may change with what happens at this instant.
    trigger: Option<&'static str>,
    timer: Time,
    /// Data sent and not acknowledged; from `first` on, one by one.
    outstanding: VecDeque<Transmission>,
    first: u64,
    /// What was sent before the last timeout, below this, is sent again because of it.
    timed_out: u64,
    /// The highest number of a transmission that was acknowledged.
    largest_acked: u64,
    is_ecn_known: bool,
    reception: Reception,
    /// Acknowledgments under way, by the transmission that each answers and its own number.
    acks: BTreeMap<(u64, u64), Answer>,
    /// Packets of a stack's connection; `None` for our own transports and datagrams.
    stack: Option<Box<StackPackets>>,
    /// Is only one end of it here, and nobody knows what the other does?
    is_measured: bool,
}

/// The latest transmission of some data.
#[derive(Debug, Clone, Copy, Default)]
struct Transmission {
    number: u64,
    is_lost: bool,
}

/// Packets that reached the receiver.
#[derive(Debug, Default)]
struct Reception {
    /// First and last of each run of transmissions, the newest first.
    ranges: VecDeque<(u64, u64)>,
    ecn: EcnCounts,
    /// Acknowledgments sent.
    answers: u64,
}

/// Packets that came with each mark.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct EcnCounts {
    ect0: u64,
    ect1: u64,
    ce: u64,
}

/// Content of an acknowledgment.
#[derive(Debug)]
struct Answer {
    ranges: Box<[(u64, u64)]>,
    ecn: EcnCounts,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Metrics {
    #[serde(skip_serializing_if = "Option::is_none")]
    min_rtt: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    smoothed_rtt: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latest_rtt: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rtt_variance: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    congestion_window: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_in_flight: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ssthresh: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    packets_in_flight: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pacing_rate: Option<u64>,
}

impl Metrics {
    fn of(sender: &Sender, packet_size: u64) -> Self {
        let size = packet_size as f64;
        let rtt = sender.rtt();
        let sampled = !rtt.latest().is_zero();
        let known = |time: Duration| sampled.then(|| ms(time));
        let in_flight = sender.in_flight();
        // What is more than a u64 holds becomes its largest: no controller has such a window, but
        // for those that have no threshold.
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

    /// The same for a stack, which counts bytes.
    fn of_stack(report: &StackReport) -> Self {
        Metrics {
            min_rtt: None,
            smoothed_rtt: (!report.srtt.is_zero()).then(|| ms(report.srtt)),
            latest_rtt: None,
            rtt_variance: None,
            congestion_window: Some(report.cwnd),
            bytes_in_flight: Some(report.in_flight),
            ssthresh: report.ssthresh,
            packets_in_flight: None,
            pacing_rate: None,
        }
    }

    /// Newly acknowledged packets.
    fn since(self, before: Option<Metrics>) -> Metrics {
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

    fn is_empty(&self) -> bool {
        let nothing = Metrics {
            min_rtt: None,
            smoothed_rtt: None,
            latest_rtt: None,
            rtt_variance: None,
            congestion_window: None,
            bytes_in_flight: None,
            ssthresh: None,
            packets_in_flight: None,
            pacing_rate: None,
        };
        *self == nothing
    }
}

#[derive(Serialize)]
struct Header {
    packet_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    packet_number: Option<u64>,
}

impl Header {
    fn new(packet_number: Option<u64>) -> Self {
        Header { packet_type: "1RTT", packet_number }
    }

    /// Header of a stack's packet.
    fn of_stack(kind: PacketType, number: u64) -> Self {
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
struct Raw {
    length: u64,
}

#[derive(Serialize)]
struct PacketData<'a> {
    header: Header,
    raw: Raw,
    frames: [Frame<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    trigger: Option<&'static str>,
    /// Windward's own: the ECN bits, where they are set.
    #[serde(skip_serializing_if = "Option::is_none")]
    ecn: Option<&'static str>,
}

/// A packet of a stack.
#[derive(Serialize)]
struct StackPacketData<'a> {
    header: Header,
    raw: Raw,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    frames: Vec<Frame<'a>>,
    /// The datagram that it is in, counted from 0.
    datagram_id: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ecn: Option<&'static str>,
}

impl<'a> PacketData<'a> {
    fn new(packet: &Packet, number: Option<u64>, frame: Frame<'a>) -> Self {
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
enum Frame<'a> {
    Stream {
        stream_id: u64,
        offset: u64,
        /// As qlog 0.3 has it.
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

/// A range of one packet is one number.
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

/// The codepoint of ECN (RFC 3168, RFC 9331); none where the transport does not speak it.
fn ecn_of(flags: Flags) -> Option<&'static str> {
    if flags.contains(Flags::CONGESTION_EXPERIENCED) {
        Some("CE")
    } else if flags.contains(Flags::ECN_CAPABLE.with(Flags::L4S)) {
        Some("ECT(1)")
    } else {
        flags.contains(Flags::ECN_CAPABLE).then_some("ECT(0)")
    }
}

impl FlowLog {
    pub(super) fn new(
        scenario: &Scenario,
        index: usize,
        [sender, receiver, network]: [Sink; 3],
        links: Arc<[Name]>,
        is_measured: bool,
    ) -> Self {
        let flow = &scenario.flows[index];
        let (packet_size, dupack_threshold, granularity) = match &flow.kind.traffic {
            Traffic::Transport { config, .. } => {
                (config.packet_size, config.dupack_threshold, config.clock_granularity)
            }
            // Its windows are in bytes of UDP payload.
            Traffic::Stack { config, .. } => (config.payload(), 0, Duration::ZERO),
            Traffic::Datagrams { packet_size, .. } => (*packet_size, 0, Duration::ZERO),
        };
        FlowLog {
            name: flow.name.clone(),
            links,
            packet_size: packet_size.into(),
            dupack_threshold: dupack_threshold.into(),
            granularity,
            sender,
            receiver,
            network,
            metrics: None,
            phase: None,
            trigger: None,
            timer: Time::NEVER,
            outstanding: VecDeque::new(),
            first: 0,
            timed_out: 0,
            largest_acked: 0,
            is_ecn_known: false,
            reception: Reception::default(),
            acks: BTreeMap::new(),
            stack: matches!(flow.kind.traffic, Traffic::Stack { .. }).then(Box::default),
            is_measured,
        }
    }

    /// First record of each file: vantage point, and description of the simulation.
    pub(super) fn begin(&mut self, scenario: &Scenario) -> Written {
        #[derive(Serialize)]
        struct Details<'a> {
            flow: &'a str,
            protocol: &'a str,
            seed: u64,
            /// Milliseconds, as all times.
            duration: f64,
        }
        #[derive(Serialize)]
        struct Data<'a> {
            name: &'static str,
            details: Details<'a>,
        }
        let flow = scenario.flows.iter().find(|flow| flow.name == self.name);
        let protocol = flow.map_or("datagrams", |flow| flow.kind.traffic.protocol_name());
        let mut bytes = 0;
        for (sink, vantage) in [
            (&mut self.sender, Vantage::Sender),
            (&mut self.receiver, Vantage::Receiver),
            (&mut self.network, Vantage::Network),
        ] {
            bytes += sink.header(&self.name, vantage)?;
            if self.is_measured {
                continue;
            }
            let duration = ms(scenario.duration);
            let details = Details { flow: &self.name, protocol, seed: scenario.seed, duration };
            let data = Data { name: "windward", details };
            bytes += sink.event(Time::ZERO, Kind::Scenario, data)?;
        }
        Ok(bytes)
    }

    pub(super) fn into_files(self) -> impl Iterator<Item = StagedFile> {
        [self.sender, self.receiver, self.network].into_iter().filter_map(Sink::into_file)
    }

    /// First events of the sender's log, once there is a sender.
    fn introduce(&mut self, now: Time, sender: &Sender) -> Written {
        #[derive(Serialize)]
        struct Data {
            timer_granularity: u64,
            max_datagram_size: u64,
            initial_congestion_window: u64,
        }
        if self.metrics.is_some() {
            return Ok(0);
        }
        let metrics = Metrics::of(sender, self.packet_size);
        // Whole milliseconds; 0 is an ideal clock.
        let timer_granularity = self.granularity.as_ps() / Duration::from_millis(1).as_ps();
        let data = Data {
            timer_granularity,
            max_datagram_size: self.packet_size,
            initial_congestion_window: metrics.congestion_window.unwrap_or_default(),
        };
        let bytes = self.sender.event(now, Kind::ParametersSet, data)?;
        Ok(bytes + self.update(now, sender)?)
    }

    /// Writes what has changed of the sender's state.
    fn update(&mut self, now: Time, sender: &Sender) -> Written {
        #[derive(Serialize)]
        struct Phase {
            #[serde(skip_serializing_if = "Option::is_none")]
            old: Option<&'static str>,
            new: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            trigger: Option<&'static str>,
        }
        let mut bytes = 0;
        let metrics = Metrics::of(sender, self.packet_size);
        let news = metrics.since(self.metrics);
        self.metrics = Some(metrics);
        if !news.is_empty() {
            bytes += self.sender.event(now, Kind::MetricsUpdated, news)?;
        }
        let phase = sender.phase();
        if self.phase != Some(phase) {
            let (old, trigger) = (self.phase.replace(phase), self.trigger);
            let data = Phase { old, new: phase, trigger };
            bytes += self.sender.event(now, Kind::CongestionStateUpdated, data)?;
        }
        Ok(bytes)
    }

    /// Writes that the timer of recovery expired, or is set to something else.
    fn timer(&mut self, now: Time, event_type: &'static str, until: Option<Time>) -> Written {
        #[derive(Serialize)]
        struct Data {
            #[serde(skip_serializing_if = "Option::is_none")]
            timer_type: Option<&'static str>,
            event_type: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            delta: Option<f64>,
        }
        let timer_type = (self.sender.format() == Format::Current).then_some("loss_timeout");
        let delta = until.map(|until| ms(until.since(now)));
        self.sender.event(now, Kind::TimerUpdated, Data { timer_type, event_type, delta })
    }

    fn lost(&mut self, now: Time, number: u64, trigger: &'static str) -> Written {
        #[derive(Serialize)]
        struct Data {
            header: Header,
            trigger: &'static str,
        }
        let data = Data { header: Header::new(Some(number)), trigger };
        self.sender.event(now, Kind::PacketLost, data)
    }

    pub(super) fn on_sent(&mut self, now: Time, packet: &Packet, sender: &Sender) -> Written {
        #[derive(Serialize)]
        struct Ecn {
            new: &'static str,
        }
        let mut bytes = self.introduce(now, sender)?;
        if !self.is_ecn_known && packet.flags.contains(Flags::ECN_CAPABLE) {
            self.is_ecn_known = true;
            let capable = Ecn { new: "capable" };
            bytes += self.sender.event(now, Kind::EcnStateUpdated, capable)?;
        }
        let mut trigger = None;
        if packet.flags.contains(Flags::RETRANSMISSION) {
            let after_timeout = packet.seq < self.timed_out;
            trigger =
                Some(if after_timeout { "retransmit_timeout" } else { "retransmit_reordered" });
            let sign = if after_timeout { "pto_expired" } else { "reordering_threshold" };
            bytes += self.give_up(now, packet.seq, sender, sign)?;
        }
        self.note(packet, sender);
        let frame = self.stream(packet, self.sender.format());
        let data =
            PacketData { trigger, ..PacketData::new(packet, Some(packet.packet_seq), frame) };
        Ok(bytes + self.sender.event(now, Kind::PacketSent, data)?)
    }

    fn stream(&self, packet: &Packet, format: Format) -> Frame<'static> {
        let length = u64::from(packet.size);
        let current = format == Format::Current;
        Frame::Stream {
            stream_id: 0,
            offset: packet.seq * self.packet_size,
            length: (!current).then_some(length),
            raw: current.then_some(Raw { length }),
        }
    }

    /// Without numbers of its own, a sender gives a transmission up when it finds a loss or sends
    /// the data again.
    fn give_up(&mut self, now: Time, seq: u64, sender: &Sender, sign: &'static str) -> Written {
        if sender.report().numbers.is_some() {
            return Ok(0);
        }
        let Some(at) = seq.checked_sub(self.first) else { return Ok(0) };
        match self.outstanding.get_mut(at as usize) {
            Some(transmission) if !transmission.is_lost => {
                transmission.is_lost = true;
                let number = transmission.number;
                self.lost(now, number, sign)
            }
            _ => Ok(0),
        }
    }

    /// Keeps the number of a transmission by its data.
    fn note(&mut self, packet: &Packet, sender: &Sender) {
        if sender.report().numbers.is_some() {
            return;
        }
        if self.outstanding.is_empty() {
            self.first = packet.seq;
        }
        let Some(at) = packet.seq.checked_sub(self.first) else { return };
        let at = at as usize;
        if at >= self.outstanding.len() {
            self.outstanding.resize(at + 1, Transmission::default());
        }
        self.outstanding[at] = Transmission { number: packet.packet_seq, is_lost: false };
    }

    pub(super) fn on_ack(&mut self, now: Time, ack: &Packet, sender: &Sender) -> Written {
        self.largest_acked = self.largest_acked.max(ack.packet_seq);
        let under_way = (ack.packet_seq, 0)..=(ack.packet_seq, u64::MAX);
        let key = self.acks.range(under_way).next().map(|(key, _)| *key);
        let answer = key.and_then(|key| self.acks.remove(&key));
        let number = key.map(|(_, number)| number);
        // Between hosts what it says of single transmissions is the one that it answers.
        let own = [(ack.packet_seq, ack.packet_seq)];
        let frame = match &answer {
            None if self.is_measured => {
                Frame::Ack { acked_ranges: &own, ect1: None, ect0: None, ce: None }
            }
            answer => ack_frame(answer.as_ref()),
        };
        let data = PacketData::new(ack, number, frame);
        let mut bytes = self.sender.event(now, Kind::PacketReceived, data)?;
        let report = sender.report();
        let cwnd_before = self.metrics.and_then(|metrics| metrics.congestion_window);
        self.trigger = trigger(report);
        if self.trigger.is_none()
            && ack.flags.contains(Flags::ECN_ECHO)
            && Metrics::of(sender, self.packet_size).congestion_window < cwnd_before
        {
            self.trigger = Some("ecn");
        }
        if let Some(numbers) = &report.numbers {
            for &number in &numbers.lost {
                let is_reordered = self.largest_acked >= number + self.dupack_threshold;
                let sign = if is_reordered { "reordering_threshold" } else { "time_threshold" };
                bytes += self.lost(now, number, sign)?;
            }
            bytes += self.spurious(now, report)?;
        } else if report.finding == Finding::Loss {
            let una = sender.sequences().una;
            bytes += self.give_up(now, una, sender, "reordering_threshold")?;
        }
        let acked = sender.sequences().una.saturating_sub(self.first);
        self.outstanding.drain(..(acked as usize).min(self.outstanding.len()));
        self.first += acked;
        Ok(bytes + self.update(now, sender)?)
    }

    fn spurious(&mut self, now: Time, report: &Report) -> Written {
        #[derive(Serialize)]
        struct Data {}
        match &report.numbers {
            Some(numbers) if numbers.spurious => {
                self.sender.event(now, Kind::SpuriousLoss, Data {})
            }
            _ => Ok(0),
        }
    }

    pub(super) fn on_timer(&mut self, now: Time, sender: &Sender) -> Written {
        let mut bytes = self.introduce(now, sender)?;
        bytes += self.timer(now, "expired", None)?;
        self.timer = Time::NEVER;
        let report = sender.report();
        self.trigger = trigger(report);
        if let Some(numbers) = &report.numbers {
            let sign = if report.timed_out { "pto_expired" } else { "time_threshold" };
            for &number in &numbers.lost {
                bytes += self.lost(now, number, sign)?;
            }
            bytes += self.spurious(now, report)?;
        }
        match report.finding {
            Finding::Reset { .. } => {
                self.timed_out = sender.sequences().high;
                let una = sender.sequences().una;
                bytes += self.give_up(now, una, sender, "pto_expired")?;
            }
            Finding::Loss | Finding::ErrorTimeout => {
                let una = sender.sequences().una;
                bytes += self.give_up(now, una, sender, "pto_expired")?;
            }
            Finding::Nothing | Finding::PartialRepair => {}
        }
        Ok(bytes + self.update(now, sender)?)
    }

    pub(super) fn on_settled(&mut self, now: Time, sender: &Sender) -> Written {
        let mut bytes = self.introduce(now, sender)?;
        bytes += self.update(now, sender)?;
        self.trigger = None;
        let timer = sender.recovery_timer();
        if timer != self.timer {
            self.timer = timer;
            bytes += match timer {
                Time::NEVER => self.timer(now, "cancelled", None)?,
                until => self.timer(now, "set", Some(until))?,
            };
        }
        Ok(bytes)
    }

    pub(super) fn on_arrival(&mut self, now: Time, packet: &Packet) -> Written {
        // A stack's end has logged it when it came.
        if self.stack.is_some() {
            return Ok(0);
        }
        let format = self.receiver.format();
        let (number, frame) = if packet.kind == PacketKind::Data {
            self.reception.add(packet);
            (packet.packet_seq, self.stream(packet, format))
        } else {
            (packet.seq, datagram(packet, format))
        };
        let data = PacketData::new(packet, Some(number), frame);
        self.receiver.event(now, Kind::PacketReceived, data)
    }

    pub(super) fn on_answer(&mut self, now: Time, ack: &Packet) -> Written {
        let number = self.reception.answers;
        self.reception.answers += 1;
        let ranges = self.reception.ranges.iter().copied().collect();
        let answer = Answer { ranges, ecn: self.reception.ecn };
        let frame = ack_frame(Some(&answer));
        let data = PacketData::new(ack, Some(number), frame);
        let bytes = self.receiver.event(now, Kind::PacketSent, data)?;
        if self.is_measured {
            return Ok(bytes);
        }
        self.acks.insert((ack.packet_seq, number), answer);
        if number.is_multiple_of(ACK_DISORDER) {
            self.acks.retain(|(_, other), _| other + ACK_DISORDER > number);
        }
        Ok(bytes)
    }

    /// Writes the packets of a stack's datagram into the log of an end. One that tells nothing of
    /// itself is a packet of unknown type.
    fn stack_packets(
        &mut self,
        now: Time,
        end: End,
        kind: Kind,
        packet: &Packet,
        facts: &[PacketFacts],
    ) -> Written {
        let sink = match end {
            End::Sender => &mut self.sender,
            End::Receiver => &mut self.receiver,
        };
        let (datagram_id, ecn) = (packet.seq, ecn_of(packet.flags));
        let size = u64::from(packet.size);
        if facts.is_empty() {
            let header = Header { packet_type: "unknown", packet_number: None };
            let (raw, frames) = (Raw { length: size }, Vec::new());
            return sink.event(
                now,
                kind,
                StackPacketData { header, raw, frames, datagram_id, ecn },
            );
        }
        // What is no packet's own, the headers of UDP and IP, is the first one's.
        let behind: u64 = facts[1..].iter().map(|fact| u64::from(fact.length)).sum();
        let mut bytes = 0;
        for (n, fact) in facts.iter().enumerate() {
            let length = if n == 0 { size.saturating_sub(behind) } else { fact.length.into() };
            let format = sink.format();
            let data = StackPacketData {
                header: Header::of_stack(fact.kind, fact.number),
                raw: Raw { length },
                frames: fact.frames.iter().map(|frame| stack_frame(frame, format)).collect(),
                datagram_id,
                ecn,
            };
            bytes += sink.event(now, kind, data)?;
        }
        Ok(bytes)
    }

    pub(super) fn on_stack_sent(
        &mut self,
        now: Time,
        from: End,
        packet: &Packet,
        facts: &[PacketFacts],
    ) -> Written {
        if let Some(stack) = &mut self.stack {
            stack.sent(from, packet.seq, facts);
        }
        self.stack_packets(now, from, Kind::PacketSent, packet, facts)
    }

    pub(super) fn on_stack_received(&mut self, now: Time, end: End, packet: &Packet) -> Written {
        let Some(stack) = &mut self.stack else { return Ok(0) };
        let facts = stack.gone(end.other(), packet.seq);
        if end == End::Sender {
            stack.received(&facts);
        }
        self.stack_packets(now, end, Kind::PacketReceived, packet, &facts)
    }

    pub(super) fn on_stack_report(&mut self, now: Time, report: &StackReport) -> Written {
        #[derive(Serialize)]
        struct Parameters {
            max_datagram_size: u64,
            initial_congestion_window: u64,
        }
        #[derive(Serialize)]
        struct Lost {
            header: Header,
            trigger: &'static str,
        }
        let Some(stack) = &mut self.stack else { return Ok(0) };
        let mut bytes = 0;
        if self.metrics.is_none() {
            let data = Parameters {
                max_datagram_size: self.packet_size,
                initial_congestion_window: report.cwnd,
            };
            bytes += self.sender.event(now, Kind::ParametersSet, data)?;
        }
        for lost in stack.newly_lost(report.lost) {
            let header = Header::of_stack(lost.kind, lost.number);
            let data = Lost { header, trigger: lost.trigger };
            bytes += self.sender.event(now, Kind::PacketLost, data)?;
        }
        let metrics = Metrics::of_stack(report);
        let news = metrics.since(self.metrics);
        self.metrics = Some(metrics);
        if !news.is_empty() {
            bytes += self.sender.event(now, Kind::MetricsUpdated, news)?;
        }
        Ok(bytes)
    }

    pub(super) fn on_datagram(&mut self, now: Time, packet: &Packet) -> Written {
        let frame = datagram(packet, self.sender.format());
        let data = PacketData::new(packet, Some(packet.seq), frame);
        self.sender.event(now, Kind::PacketSent, data)
    }

    pub(super) fn on_loss(&mut self, now: Time, packet: &Packet, loss: Loss) -> Written {
        #[derive(Serialize)]
        struct Data<'a> {
            kind: &'static str,
            header: Header,
            raw: Raw,
            link: &'a str,
            trigger: &'static str,
        }
        let (kind, header) = match (&mut self.stack, packet.kind) {
            (Some(stack), kind) => {
                let (name, from) = match kind {
                    PacketKind::Ack => ("ack", End::Receiver),
                    PacketKind::Data | PacketKind::Datagram => ("data", End::Sender),
                };
                let unknown = Header { packet_type: "unknown", packet_number: None };
                let facts = stack.gone(from, packet.seq);
                // Of several packets in a datagram it is the first that is named.
                (name, facts.first().map_or(unknown, |f| Header::of_stack(f.kind, f.number)))
            }
            (None, PacketKind::Data) => ("data", Header::new(Some(packet.packet_seq))),
            (None, PacketKind::Datagram) => ("datagram", Header::new(Some(packet.seq))),
            (None, PacketKind::Ack) => {
                let under_way = (packet.packet_seq, 0)..=(packet.packet_seq, u64::MAX);
                let key = self.acks.range(under_way).next().map(|(key, _)| *key);
                key.and_then(|key| self.acks.remove(&key));
                ("ack", Header::new(key.map(|(_, number)| number)))
            }
        };
        let data = Data {
            kind,
            header,
            raw: Raw { length: packet.size.into() },
            link: &self.links[loss.link],
            trigger: match loss.cause {
                LossCause::Queue => "queue",
                LossCause::Channel => "channel",
            },
        };
        self.network.event(now, Kind::LinkDropped, data)
    }
}

/// Why a window may be smaller now.
fn trigger(report: &Report) -> Option<&'static str> {
    if report.numbers.as_ref().is_some_and(|numbers| numbers.persistent_congestion) {
        return Some("persistent_congestion");
    }
    match report.finding {
        Finding::Loss => Some("loss"),
        Finding::Reset { .. } | Finding::ErrorTimeout => Some("timeout"),
        Finding::Nothing | Finding::PartialRepair => None,
    }
}

fn ack_frame(answer: Option<&Answer>) -> Frame<'_> {
    let ecn = answer.map(|answer| answer.ecn).filter(|ecn| *ecn != EcnCounts::default());
    Frame::Ack {
        acked_ranges: answer.map_or(&[], |answer| &answer.ranges),
        ect1: ecn.map(|ecn| ecn.ect1),
        ect0: ecn.map(|ecn| ecn.ect0),
        ce: ecn.map(|ecn| ecn.ce),
    }
}

fn stack_frame(frame: &FrameFacts, format: Format) -> Frame<'_> {
    let current = format == Format::Current;
    let sized = |length: u64| ((!current).then_some(length), current.then_some(Raw { length }));
    match frame {
        FrameFacts::Stream { id, offset, length } => {
            let (length, raw) = sized(*length);
            Frame::Stream { stream_id: *id, offset: *offset, length, raw }
        }
        FrameFacts::Crypto { offset, length } => {
            let (length, raw) = sized(*length);
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

fn datagram(packet: &Packet, format: Format) -> Frame<'static> {
    let length = u64::from(packet.size);
    let current = format == Format::Current;
    Frame::Datagram { length: (!current).then_some(length), raw: current.then_some(Raw { length }) }
}

impl Reception {
    /// A data packet comes. One that is damaged and comes only to tell of it has not.
    fn add(&mut self, packet: &Packet) {
        if packet.flags.contains(Flags::CORRUPTED) {
            return;
        }
        match ecn_of(packet.flags) {
            Some("CE") => self.ecn.ce += 1,
            Some("ECT(1)") => self.ecn.ect1 += 1,
            Some(_) => self.ecn.ect0 += 1,
            None => {}
        }
        self.add_number(packet.packet_seq);
    }

    fn add_number(&mut self, number: u64) {
        // Behind the ranges that are newer than it.
        let at = self.ranges.partition_point(|(_, last)| *last > number);
        // The newest that it could follow on, and the one before which it could come.
        let follows = self.ranges.get(at).is_some_and(|(_, last)| last + 1 == number);
        let precedes = at.checked_sub(1).is_some_and(|newer| {
            let first = self.ranges[newer].0;
            first == number + 1
        });
        let is_known = self.ranges.get(at).is_some_and(|(_, last)| *last == number)
            || at.checked_sub(1).is_some_and(|newer| self.ranges[newer].0 <= number);
        match (is_known, follows, precedes) {
            (true, ..) => {}
            (_, true, true) => {
                self.ranges[at - 1].0 = self.ranges[at].0;
                self.ranges.remove(at);
            }
            (_, true, false) => self.ranges[at].1 = number,
            (_, false, true) => self.ranges[at - 1].0 = number,
            (_, false, false) => {
                self.ranges.insert(at, (number, number));
                self.ranges.truncate(MAX_RANGES);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_join_and_the_oldest_are_forgotten() {
        let mut reception = Reception::default();
        let mut add = |numbers: &[u64]| {
            numbers.iter().for_each(|number| reception.add_number(*number));
            reception.ranges.iter().copied().collect::<Vec<_>>()
        };
        assert_eq!(add(&[1, 2, 3]), [(1, 3)]);
        assert_eq!(add(&[6, 5]), [(5, 6), (1, 3)], "6 opens a range, 5 comes before it");
        assert_eq!(add(&[2, 5, 3, 6]), [(5, 6), (1, 3)], "known");
        assert_eq!(add(&[4]), [(1, 6)], "the gap closes");
        assert_eq!(add(&[9]), [(9, 9), (1, 6)]);
        let gaps: Vec<u64> = (0..MAX_RANGES as u64).map(|i| 20 + 2 * i).collect();
        let ranges = add(&gaps);
        assert_eq!(ranges.len(), MAX_RANGES);
        assert_eq!(ranges.last(), Some(&(20, 20)), "9 and 1 to 6 gave way");
        assert_eq!(add(&[3]).last(), Some(&(20, 20)), "what is older than all finds no place");
    }

    #[test]
    fn marks_are_told_apart() {
        assert_eq!(ecn_of(Flags::NONE), None);
        assert_eq!(ecn_of(Flags::ECN_CAPABLE), Some("ECT(0)"));
        assert_eq!(ecn_of(Flags::ECN_CAPABLE.with(Flags::L4S)), Some("ECT(1)"));
        let marked = Flags::ECN_CAPABLE.with(Flags::CONGESTION_EXPERIENCED);
        assert_eq!(ecn_of(marked), Some("CE"));
    }
}
