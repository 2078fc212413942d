//! The flows: what both ends of one keep, and what it adds up to.

use std::collections::VecDeque;

use windward_core::endpoint::feedback::{Notification, REPORT_INTERVAL};
use windward_core::endpoint::{Receiver, Sender, SenderStats};
use windward_core::packet::{Flags, Packet, PacketKind};
use windward_core::rng::Stream;
use windward_core::units::{Duration, Time};

use super::group::Group;
use super::hop::Window;
use super::route::{Onward, Step};
use super::schedule::ComponentId;
use super::slab::PacketId;
use super::source::Source;
use crate::outcome::FlowOutcome;
use crate::scenario::{FlowSpec, LinkId, Traffic};

/// What every flow has.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) forward: Box<[Step]>,
    pub(super) reverse: Box<[Step]>,
    pub(super) bottleneck: u32,
    pub(super) group: u32,
    pub(super) name: String,
    pub(super) start: Time,
    pub(super) stop: Time,
    pub(super) source: Option<Source>,
    pub(super) application: ComponentId,
    /// Bytes put through the bottleneck in all, and inside the window.
    pub(super) bottleneck_bytes: u64,
    pub(super) measured_bytes: u64,
    /// Datagrams delivered, and how many of these before the window.
    pub(super) datagrams: u64,
    pub(super) datagrams_at_warmup: u64,
    pub(super) sent_at_warmup: u64,
    /// Data packets or datagrams lost, in the whole run.
    pub(super) lost: u64,
}

impl Flow {
    pub(super) fn new(spec: &FlowSpec, seed: u64) -> Self {
        let FlowSpec { name, group, traffic, forward, reverse, bottleneck, start, stop } = spec;
        let mut stream = Stream::new(seed, "start", name);
        let start = {
            let (low, high) = (start.0.since(Time::ZERO), start.1.since(Time::ZERO));
            Time::ZERO + stream.between(low, high)
        };
        let stop = stop.unwrap_or(Time::NEVER);
        let source = match traffic {
            Traffic::Transport { .. } => None,
            Traffic::Datagrams { packet_size, pattern } => {
                let stream = Stream::new(seed, "source", name);
                Some(Source::new(pattern, *packet_size, start, stop, stream))
            }
        };
        let route = |links: &[LinkId]| {
            links.iter().map(|link| Step { link: *link as u32, onward: Onward::Event }).collect()
        };
        Flow {
            forward: route(forward),
            reverse: route(reverse),
            bottleneck: *bottleneck as u32,
            group: *group as u32,
            name: name.clone(),
            start,
            stop,
            source,
            application: ComponentId::MAX,
            bottleneck_bytes: 0,
            measured_bytes: 0,
            datagrams: 0,
            datagrams_at_warmup: 0,
            sent_at_warmup: 0,
            lost: 0,
        }
    }

    /// A packet of this flow has left its bottleneck.
    #[inline]
    pub(super) fn count(&mut self, groups: &mut [Group], window: Window, at: Time, size: u32) {
        let bytes = u64::from(size);
        self.bottleneck_bytes += bytes;
        if at > window.from {
            self.measured_bytes += bytes;
        }
        groups[self.group as usize].add(at, bytes);
    }

    /// A packet of this flow was dropped or corrupted.
    pub(super) fn lose(&mut self, packet: &Packet) {
        // What was damaged before and went on to tell of it is lost already.
        let counts = packet.kind != PacketKind::Ack && !packet.flags.contains(Flags::CORRUPTED);
        self.lost += u64::from(counts);
    }

    pub(super) fn transport_outcome(
        &self,
        transport: &mut Transport,
        window: Window,
    ) -> FlowOutcome {
        let length = window.until.since(window.from).as_secs_f64();
        let after = transport.sender.stats(window.until);
        let before = transport.at_warmup;
        let unique = transport.receiver.stats().unique - transport.unique_before;
        let samples = after.rtt_samples - before.rtt_samples;
        let rtts = after.rtt_sum - before.rtt_sum;
        FlowOutcome {
            name: self.name.clone(),
            group: self.group as usize,
            protocol: transport.protocol,
            goodput_bps: (unique * u64::from(transport.packet_size) * 8) as f64 / length,
            throughput_bps: self.measured_bytes as f64 * 8.0 / length,
            packets_sent: after.sent - before.sent,
            retransmissions: after.retransmissions - before.retransmissions,
            timeouts: after.timeouts - before.timeouts,
            loss_estimate: transport.sender.loss_rate().estimate(),
            true_loss: self.lost as f64 / after.sent.max(1) as f64,
            mean_rtt: Duration::from_ps(rtts.as_ps() / samples.max(1)),
            mean_cwnd: (after.cwnd_seconds - before.cwnd_seconds) / length,
            completed: transport.completed,
        }
    }

    pub(super) fn datagram_outcome(&self, window: Window) -> FlowOutcome {
        let length = window.until.since(window.from).as_secs_f64();
        let (size, sent) = self.source.as_ref().map_or((0, 0), |s| (s.packet_size, s.sent));
        let delivered = (self.datagrams - self.datagrams_at_warmup) * u64::from(size);
        FlowOutcome {
            name: self.name.clone(),
            group: self.group as usize,
            protocol: "datagrams",
            goodput_bps: delivered as f64 * 8.0 / length,
            throughput_bps: self.measured_bytes as f64 * 8.0 / length,
            packets_sent: sent - self.sent_at_warmup,
            retransmissions: 0,
            timeouts: 0,
            loss_estimate: 0.0,
            true_loss: self.lost as f64 / sent.max(1) as f64,
            mean_rtt: Duration::ZERO,
            mean_cwnd: 0.0,
            completed: None,
        }
    }
}

/// A connection's two ends.
#[derive(Debug)]
pub(super) struct Transport {
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    pub(super) protocol: &'static str,
    pub(super) packet_size: u32,
    pub(super) packets: Option<u64>,
    pub(super) completed: Option<Time>,
    pub(super) delays_acks: bool,
    /// Packets in processing, if that takes time.
    pub(super) outbox: Option<Outbox>,
    /// Timers move their deadline far more often than they expire. Their event is left where
    /// it is and looked after when its time comes, unless the deadline becomes earlier.
    pub(super) sender_timer: ComponentId,
    pub(super) receiver_timer: ComponentId,
    pub(super) notices: Option<Notices>,
    pub(super) at_warmup: SenderStats,
    /// Unique packets delivered before the figures begin.
    pub(super) unique_before: u64,
}

impl Transport {
    /// The receiver takes a data packet, at a time that may lie ahead. Returns whether `packet`
    /// has become an acknowledgment to be sent.
    #[inline]
    pub(super) fn receive(&mut self, at: Time, packet: &mut Packet, window: Window) -> bool {
        let acknowledges = self.receiver.on_data(at, packet);
        if at <= window.from {
            self.unique_before = self.receiver.stats().unique;
        }
        acknowledges
    }

    pub(super) fn new(spec: &FlowSpec, seed: u64) -> Option<Self> {
        let Traffic::Transport { protocol, config, packets } = &spec.traffic else {
            return None;
        };
        let sender = Sender::new(protocol, config, seed, &spec.name);
        Some(Transport {
            notices: sender.notification().map(|notification| Notices {
                notification,
                reported: vec![None; spec.forward.len()],
            }),
            sender,
            receiver: Receiver::new(protocol.feedback, config),
            protocol: protocol.name,
            packet_size: config.packet_size,
            packets: *packets,
            completed: None,
            delays_acks: config.delayed_acks.is_some(),
            outbox: (!config.overhead.is_zero()).then(|| Outbox {
                overhead: config.overhead,
                stream: Stream::new(seed, "overhead", &spec.name),
                packets: VecDeque::new(),
                release: ComponentId::MAX,
            }),
            sender_timer: ComponentId::MAX,
            receiver_timer: ComponentId::MAX,
            at_warmup: SenderStats::default(),
            unique_before: 0,
        })
    }
}

/// What notifiers owe a flow.
#[derive(Debug)]
pub(super) struct Notices {
    pub(super) notification: Notification,
    /// When each link of the way there last reported its rate out of band.
    pub(super) reported: Vec<Option<Time>>,
}

impl Notices {
    /// Is a report of the link with this place on the route due at `at`? Notes that it is made.
    pub(super) fn report_is_due(&mut self, place: usize, at: Time) -> bool {
        let due = self.reported[place].is_none_or(|last| at.since(last) >= REPORT_INTERVAL);
        if due {
            self.reported[place] = Some(at);
        }
        due
    }
}

/// A sender's packets in processing, in order; see `EndpointConfig::overhead`.
#[derive(Debug)]
pub(super) struct Outbox {
    pub(super) overhead: Duration,
    pub(super) stream: Stream,
    pub(super) packets: VecDeque<(Time, PacketId)>,
    pub(super) release: ComponentId,
}

impl Outbox {
    /// Takes a packet in; its time of release if it is the first to leave.
    pub(super) fn post(&mut self, now: Time, id: PacketId) -> Option<Time> {
        let processed = now + self.stream.between(Duration::ZERO, self.overhead);
        let last = self.packets.back().map_or(Time::ZERO, |last| last.0);
        let release = processed.max(last);
        self.packets.push_back((release, id));
        (self.packets.len() == 1).then_some(release)
    }
}
