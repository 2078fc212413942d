//! The three logs of a flow, and the state that they need.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use windward_core::endpoint::Sender;
use windward_core::endpoint::recovery::{Finding, RecoveryReport};
use windward_core::packet::{Flags, Packet, PacketKind};
use windward_core::units::{Duration, Time};

use super::data::{
    Frame, Header, LinkDropped, Metrics, NoData, PacketData, PacketLost, Parameters, Raw,
    ScenarioData, StackPacketData, StateUpdate, TimerUpdate, ecn_of,
};
use super::format::{EventKind, Format, Sink, Vantage};
use super::reception::{Answer, Reception};
use super::stack::StackPackets;
use windward_sim::output::{OutputError, StagedFile};
use windward_sim::scenario::Traffic;
use windward_sim::stack::{End, PacketFacts, StackReport};
use windward_sim::{Loss, LossCause, Name, Scenario};

/// Bytes written, or the error.
type Written = Result<u64, OutputError>;

/// An ACK that is this many behind the latest is regarded as lost.
const ACK_DISORDER: u64 = 1 << 16;

/// The logs of a flow.
#[derive(Debug)]
pub(super) struct FlowLog {
    flow: LoggedFlow,
    sender: Sink,
    receiver: Sink,
    network: Sink,
    state: SenderState,
    outstanding: Outstanding,
    reception: Reception,
    /// ACKs under way, by the transmission that each answers and its own number.
    acks: BTreeMap<(u64, u64), Answer>,
    /// Packets of a stack's connection; `None` for transports and datagrams.
    stack: Option<Box<StackPackets>>,
}

/// The properties of a flow that its logs depend on.
#[derive(Debug)]
struct LoggedFlow {
    name: Name,
    links: Arc<[Name]>,
    /// Size of a data packet on the wire.
    packet_size: u64,
    dupack_threshold: u64,
    granularity: Duration,
    /// True for a flow between hosts, of which only one end is here.
    is_measured: bool,
}

/// The state of the sender that was last written.
#[derive(Debug)]
struct SenderState {
    metrics: Option<Metrics>,
    phase: Option<&'static str>,
    /// Reason why the phase may change at this instant.
    trigger: Option<&'static str>,
    timer: Time,
    /// The highest number of a transmission that was acknowledged.
    largest_acked: u64,
    is_ecn_known: bool,
}

impl SenderState {
    const NEW: SenderState = SenderState {
        metrics: None,
        phase: None,
        trigger: None,
        timer: Time::NEVER,
        largest_acked: 0,
        is_ecn_known: false,
    };

    /// Takes new metrics, and returns those that differ from the ones before, if some do.
    fn replace_metrics(&mut self, metrics: Metrics) -> Option<Metrics> {
        let news = metrics.since(self.metrics);
        self.metrics = Some(metrics);
        (!news.is_empty()).then_some(news)
    }
}

/// Data sent and not acknowledged, with its latest transmissions.
#[derive(Debug, Default)]
struct Outstanding {
    /// The transmissions, from the data with the number `first` on.
    transmissions: VecDeque<Transmission>,
    first: u64,
    /// Data below this was sent before the last timeout, and is sent again because of it.
    timed_out: u64,
}

/// The latest transmission of some data.
#[derive(Debug, Clone, Copy, Default)]
struct Transmission {
    number: u64,
    is_lost: bool,
}

impl Outstanding {
    /// Keeps the number of a transmission by its data.
    fn note(&mut self, packet: &Packet) {
        if self.transmissions.is_empty() {
            self.first = packet.seq;
        }
        let Some(at) = packet.seq.checked_sub(self.first) else { return };
        let at = at as usize;
        if at >= self.transmissions.len() {
            self.transmissions.resize(at + 1, Transmission::default());
        }
        self.transmissions[at] = Transmission { number: packet.packet_seq, is_lost: false };
    }

    /// Gives up the latest transmission of some data, and returns its number if it was not before.
    fn give_up(&mut self, seq: u64) -> Option<u64> {
        let at = seq.checked_sub(self.first)?;
        let transmission = self.transmissions.get_mut(at as usize)?;
        let was_lost = std::mem::replace(&mut transmission.is_lost, true);
        (!was_lost).then_some(transmission.number)
    }

    /// Forgets the data before `una`.
    fn acknowledge(&mut self, una: u64) {
        let acked = una.saturating_sub(self.first);
        self.transmissions.drain(..(acked as usize).min(self.transmissions.len()));
        self.first += acked;
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
            // Windows of stacks count bytes of UDP payload.
            Traffic::Stack { config, .. } => (config.payload(), 0, Duration::ZERO),
            Traffic::Datagrams { packet_size, .. } => (*packet_size, 0, Duration::ZERO),
        };
        FlowLog {
            flow: LoggedFlow {
                name: flow.name.clone(),
                links,
                packet_size: packet_size.into(),
                dupack_threshold: dupack_threshold.into(),
                granularity,
                is_measured,
            },
            sender,
            receiver,
            network,
            state: SenderState::NEW,
            outstanding: Outstanding::default(),
            reception: Reception::default(),
            acks: BTreeMap::new(),
            stack: matches!(flow.kind.traffic, Traffic::Stack { .. }).then(Box::default),
        }
    }

    /// Begins the files: who logs, and what is simulated.
    pub(super) fn begin(&mut self, scenario: &Scenario) -> Written {
        let LoggedFlow { name, is_measured, .. } = &self.flow;
        let flow = scenario.flows.iter().find(|flow| flow.name == *name);
        let protocol = flow.map_or("datagrams", |flow| flow.kind.traffic.protocol_name());
        let mut bytes = 0;
        for (sink, vantage) in [
            (&mut self.sender, Vantage::Sender),
            (&mut self.receiver, Vantage::Receiver),
            (&mut self.network, Vantage::Network),
        ] {
            bytes += sink.header(name, vantage)?;
            if !is_measured {
                let data = ScenarioData::new(scenario, name, protocol);
                bytes += sink.event(Time::ZERO, EventKind::Scenario, data)?;
            }
        }
        Ok(bytes)
    }

    pub(super) fn into_files(self) -> impl Iterator<Item = StagedFile> {
        [self.sender, self.receiver, self.network].into_iter().filter_map(Sink::into_file)
    }

    /// Begins the log of the sender, once there is one.
    fn introduce(&mut self, now: Time, sender: &Sender) -> Written {
        if self.state.metrics.is_some() {
            return Ok(0);
        }
        let LoggedFlow { packet_size, granularity, .. } = self.flow;
        let metrics = Metrics::of(sender, packet_size);
        let data = Parameters {
            timer_granularity: Some(granularity.as_ps() / Duration::from_millis(1).as_ps()),
            max_datagram_size: packet_size,
            initial_congestion_window: metrics.congestion_window.unwrap_or_default(),
        };
        let bytes = self.sender.event(now, EventKind::ParametersSet, data)?;
        Ok(bytes + self.update(now, sender)?)
    }

    /// Writes what has changed of the sender's state.
    fn update(&mut self, now: Time, sender: &Sender) -> Written {
        let mut bytes = 0;
        if let Some(news) = self.state.replace_metrics(Metrics::of(sender, self.flow.packet_size)) {
            bytes += self.sender.event(now, EventKind::MetricsUpdated, news)?;
        }
        let phase = sender.phase();
        if self.state.phase != Some(phase) {
            let (old, trigger) = (self.state.phase.replace(phase), self.state.trigger);
            let data = StateUpdate { old, new: phase, trigger };
            bytes += self.sender.event(now, EventKind::CongestionStateUpdated, data)?;
        }
        Ok(bytes)
    }

    /// Writes that the timer of recovery expired, or is set to something else.
    fn timer(&mut self, now: Time, event_type: &'static str, until: Option<Time>) -> Written {
        let data = TimerUpdate::new(event_type, now, until, self.sender.format());
        self.sender.event(now, EventKind::TimerUpdated, data)
    }

    fn lost(&mut self, now: Time, number: u64, trigger: &'static str) -> Written {
        let data = PacketLost { header: Header::new(Some(number)), trigger };
        self.sender.event(now, EventKind::PacketLost, data)
    }

    pub(super) fn on_sent(&mut self, now: Time, packet: &Packet, sender: &Sender) -> Written {
        let mut bytes = self.introduce(now, sender)?;
        if !self.state.is_ecn_known && packet.flags.contains(Flags::ECN_CAPABLE) {
            self.state.is_ecn_known = true;
            let capable = StateUpdate { old: None, new: "capable", trigger: None };
            bytes += self.sender.event(now, EventKind::EcnStateUpdated, capable)?;
        }
        let mut trigger = None;
        if packet.flags.contains(Flags::RETRANSMISSION) {
            let after_timeout = packet.seq < self.outstanding.timed_out;
            trigger =
                Some(if after_timeout { "retransmit_timeout" } else { "retransmit_reordered" });
            let sign = if after_timeout { "pto_expired" } else { "reordering_threshold" };
            bytes += self.give_up(now, packet.seq, sender, sign)?;
        }
        if sender.report().numbers.is_none() {
            self.outstanding.note(packet);
        }
        let frame = self.stream(packet, self.sender.format());
        let data =
            PacketData { trigger, ..PacketData::new(packet, Some(packet.packet_seq), frame) };
        Ok(bytes + self.sender.event(now, EventKind::PacketSent, data)?)
    }

    fn stream(&self, packet: &Packet, format: Format) -> Frame<'static> {
        Frame::stream(packet.seq * self.flow.packet_size, packet.size.into(), format)
    }

    /// Without numbers of its own, a sender gives a transmission up when it finds a loss or sends
    /// the data again.
    fn give_up(&mut self, now: Time, seq: u64, sender: &Sender, sign: &'static str) -> Written {
        if sender.report().numbers.is_some() {
            return Ok(0);
        }
        self.outstanding.give_up(seq).map_or(Ok(0), |number| self.lost(now, number, sign))
    }

    pub(super) fn on_ack(&mut self, now: Time, ack: &Packet, sender: &Sender) -> Written {
        self.state.largest_acked = self.state.largest_acked.max(ack.packet_seq);
        let under_way = (ack.packet_seq, 0)..=(ack.packet_seq, u64::MAX);
        let key = self.acks.range(under_way).next().map(|(key, _)| *key);
        let answer = key.and_then(|key| self.acks.remove(&key));
        let number = key.map(|(_, number)| number);
        // Between hosts, an ACK reports the transmission that it answers.
        let own = [(ack.packet_seq, ack.packet_seq)];
        let frame = match &answer {
            None if self.flow.is_measured => {
                Frame::Ack { acked_ranges: &own, ect1: None, ect0: None, ce: None }
            }
            None => Frame::Ack { acked_ranges: &[], ect1: None, ect0: None, ce: None },
            Some(answer) => answer.frame(),
        };
        let data = PacketData::new(ack, number, frame);
        let mut bytes = self.sender.event(now, EventKind::PacketReceived, data)?;
        let report = sender.report();
        let cwnd_before = self.state.metrics.and_then(|metrics| metrics.congestion_window);
        self.state.trigger = trigger(report);
        if self.state.trigger.is_none()
            && ack.flags.contains(Flags::ECN_ECHO)
            && Metrics::of(sender, self.flow.packet_size).congestion_window < cwnd_before
        {
            self.state.trigger = Some("ecn");
        }
        if let Some(numbers) = &report.numbers {
            for &number in &numbers.lost {
                let is_reordered = self.state.largest_acked >= number + self.flow.dupack_threshold;
                let sign = if is_reordered { "reordering_threshold" } else { "time_threshold" };
                bytes += self.lost(now, number, sign)?;
            }
            bytes += self.spurious(now, report)?;
        } else if report.finding == Finding::Loss {
            let una = sender.sequences().una;
            bytes += self.give_up(now, una, sender, "reordering_threshold")?;
        }
        self.outstanding.acknowledge(sender.sequences().una);
        Ok(bytes + self.update(now, sender)?)
    }

    fn spurious(&mut self, now: Time, report: &RecoveryReport) -> Written {
        match &report.numbers {
            Some(numbers) if numbers.spurious => {
                self.sender.event(now, EventKind::SpuriousLoss, NoData {})
            }
            _ => Ok(0),
        }
    }

    pub(super) fn on_timer(&mut self, now: Time, sender: &Sender) -> Written {
        let mut bytes = self.introduce(now, sender)?;
        bytes += self.timer(now, "expired", None)?;
        self.state.timer = Time::NEVER;
        let report = sender.report();
        self.state.trigger = trigger(report);
        if let Some(numbers) = &report.numbers {
            let sign = if report.timed_out { "pto_expired" } else { "time_threshold" };
            for &number in &numbers.lost {
                bytes += self.lost(now, number, sign)?;
            }
            bytes += self.spurious(now, report)?;
        }
        match report.finding {
            Finding::Reset { .. } => {
                self.outstanding.timed_out = sender.sequences().high;
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
        self.state.trigger = None;
        let timer = sender.recovery_timer();
        if timer != self.state.timer {
            self.state.timer = timer;
            bytes += match timer {
                Time::NEVER => self.timer(now, "cancelled", None)?,
                until => self.timer(now, "set", Some(until))?,
            };
        }
        Ok(bytes)
    }

    pub(super) fn on_arrival(&mut self, now: Time, packet: &Packet) -> Written {
        // The end of a stack has logged it already.
        if self.stack.is_some() {
            return Ok(0);
        }
        let format = self.receiver.format();
        let (number, frame) = if packet.kind == PacketKind::Data {
            self.reception.add(packet);
            (packet.packet_seq, self.stream(packet, format))
        } else {
            (packet.seq, Frame::datagram(packet.size.into(), format))
        };
        let data = PacketData::new(packet, Some(number), frame);
        self.receiver.event(now, EventKind::PacketReceived, data)
    }

    pub(super) fn on_answer(&mut self, now: Time, ack: &Packet) -> Written {
        let (answer, number) = self.reception.answer();
        let data = PacketData::new(ack, Some(number), answer.frame());
        let bytes = self.receiver.event(now, EventKind::PacketSent, data)?;
        if self.flow.is_measured {
            return Ok(bytes);
        }
        self.acks.insert((ack.packet_seq, number), answer);
        if number.is_multiple_of(ACK_DISORDER) {
            self.acks.retain(|(_, other), _| other + ACK_DISORDER > number);
        }
        Ok(bytes)
    }

    /// Writes the packets of a stack's datagram into the log of an end. A datagram that is not
    /// described is a packet of unknown type.
    fn stack_packets(
        &mut self,
        now: Time,
        end: End,
        kind: EventKind,
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
        // The headers of UDP and IP count with the first packet.
        let behind: u64 = facts[1..].iter().map(|fact| u64::from(fact.length)).sum();
        let mut bytes = 0;
        for (n, fact) in facts.iter().enumerate() {
            let length = if n == 0 { size.saturating_sub(behind) } else { fact.length.into() };
            let format = sink.format();
            let data = StackPacketData {
                header: Header::of_stack(fact.kind, fact.number),
                raw: Raw { length },
                frames: fact.frames.iter().map(|frame| Frame::of_stack(frame, format)).collect(),
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
        self.stack_packets(now, from, EventKind::PacketSent, packet, facts)
    }

    pub(super) fn on_stack_received(&mut self, now: Time, end: End, packet: &Packet) -> Written {
        let Some(stack) = &mut self.stack else { return Ok(0) };
        let facts = stack.gone(end.other(), packet.seq);
        if end == End::Sender {
            stack.received(&facts);
        }
        self.stack_packets(now, end, EventKind::PacketReceived, packet, &facts)
    }

    pub(super) fn on_stack_report(&mut self, now: Time, report: &StackReport) -> Written {
        let Some(stack) = &mut self.stack else { return Ok(0) };
        let mut bytes = 0;
        if self.state.metrics.is_none() {
            let data = Parameters {
                timer_granularity: None,
                max_datagram_size: self.flow.packet_size,
                initial_congestion_window: report.cwnd,
            };
            bytes += self.sender.event(now, EventKind::ParametersSet, data)?;
        }
        for lost in stack.newly_lost(report.lost) {
            let header = Header::of_stack(lost.kind, lost.number);
            let data = PacketLost { header, trigger: lost.trigger };
            bytes += self.sender.event(now, EventKind::PacketLost, data)?;
        }
        if let Some(news) = self.state.replace_metrics(Metrics::of_stack(report)) {
            bytes += self.sender.event(now, EventKind::MetricsUpdated, news)?;
        }
        Ok(bytes)
    }

    pub(super) fn on_datagram(&mut self, now: Time, packet: &Packet) -> Written {
        let frame = Frame::datagram(packet.size.into(), self.sender.format());
        let data = PacketData::new(packet, Some(packet.seq), frame);
        self.sender.event(now, EventKind::PacketSent, data)
    }

    pub(super) fn on_loss(&mut self, now: Time, packet: &Packet, loss: Loss) -> Written {
        let (kind, header) = match (&mut self.stack, packet.kind) {
            (Some(stack), kind) => {
                let (name, from) = match kind {
                    PacketKind::Ack => ("ack", End::Receiver),
                    PacketKind::Data | PacketKind::Datagram => ("data", End::Sender),
                };
                let unknown = Header { packet_type: "unknown", packet_number: None };
                let facts = stack.gone(from, packet.seq);
                // Of several packets in a datagram, the first is named.
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
        let data = LinkDropped {
            kind,
            header,
            raw: Raw { length: packet.size.into() },
            link: &self.flow.links[loss.link],
            trigger: match loss.cause {
                LossCause::Queue => "queue",
                LossCause::Channel => "channel",
            },
        };
        self.network.event(now, EventKind::LinkDropped, data)
    }
}

/// Reason why the window may have been reduced.
fn trigger(report: &RecoveryReport) -> Option<&'static str> {
    if report.numbers.as_ref().is_some_and(|numbers| numbers.persistent_congestion) {
        return Some("persistent_congestion");
    }
    match report.finding {
        Finding::Loss => Some("loss"),
        Finding::Reset { .. } | Finding::ErrorTimeout => Some("timeout"),
        Finding::Nothing | Finding::PartialRepair => None,
    }
}
