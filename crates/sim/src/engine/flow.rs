//! The flows: what both ends of one keep, and what it adds up to.

use std::collections::VecDeque;
use std::ops::Range;

use windward_core::endpoint::feedback::{Notification, REPORT_INTERVAL};
use windward_core::endpoint::{Receiver, Sender, SenderStats};
use windward_core::network::Departure;
use windward_core::packet::{Flags, Packet};
use windward_core::rng::Stream;
use windward_core::units::{Duration, Time};

use super::foreign::Foreign;
use super::group::{Bins, Group};
use super::hop::Span;
use super::media::Encoder;
use super::route::Route;
use super::schedule::Alarm;
use super::slab::PacketId;
use super::source::Source;
use crate::name::Name;
use crate::outcome::{DatagramOutcome, FlowOutcome, TransferOutcome};
use crate::scenario::{FlowConfig, FlowKind, Pattern, Scenario, Traffic, Transfer};

/// What every flow has.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) route: Route,
    pub(super) group: u32,
    /// The class its packets belong to.
    pub(super) class: u8,
    /// Is it of a stack, whose packets may show other labels?
    pub(super) is_foreign: bool,
    /// The protocol of the connections that come between a pair of hosts, if it is one.
    protocol: Option<&'static str>,
    pub(super) start: Time,
    pub(super) stop: Time,
    pub(super) source: Option<Box<Source>>,
    /// Bytes put through the bottleneck in all, and inside the window.
    pub(super) bottleneck_bytes: u64,
    pub(super) measured_bytes: u64,
    /// More about it, if asked for.
    watched: Option<Box<Watched>>,
    idle: Idle,
    /// Datagrams delivered, and how many of these before the window.
    pub(super) datagrams: u64,
    pub(super) datagrams_at_warmup: u64,
    pub(super) sent_at_warmup: u64,
    /// Data packets or datagrams lost, in the whole run.
    pub(super) lost: u64,
}

/// What only some runs ask of the way through the bottleneck.
#[derive(Debug, Default)]
struct Watched {
    bins: Option<Bins>,
    /// The latest packets, each with the end of its transmission, where snapshots are asked for.
    latest: Option<VecDeque<(Time, u64)>>,
}

impl Watched {
    fn count(&mut self, arrived: Time, end: Time, bytes: u64) {
        if let Some(bins) = &mut self.bins {
            bins.add(end, bytes);
        }
        if let Some(latest) = &mut self.latest {
            // Nobody asks about what was before a packet that comes now.
            while latest.front().is_some_and(|(end, _)| *end <= arrived) {
                latest.pop_front();
            }
            latest.push_back((end, bytes));
        }
    }
}

impl Flow {
    pub(super) fn new(
        spec: &FlowConfig,
        route: Route,
        scenario: &Scenario,
        snapshots: bool,
    ) -> Self {
        let seed = scenario.seed;
        let FlowConfig { name, group, kind, .. } = spec;
        let FlowKind { traffic, start, stop, .. } = &**kind;
        let mut stream = Stream::new(seed, "start", name);
        let start = {
            let (low, high) = (start.0.since(Time::ZERO), start.1.since(Time::ZERO));
            Time::ZERO + stream.between(low, high)
        };
        let stop = stop.unwrap_or(Time::NEVER);
        // Datagrams pause as their pattern says; that is no idleness.
        let idle_after = match traffic {
            Traffic::Transport { .. } | Traffic::Stack { .. } => scenario.idle_after,
            Traffic::Datagrams { .. } => Duration::MAX,
        };
        let source = match traffic {
            Traffic::Transport { .. } | Traffic::Stack { .. } => None,
            Traffic::Datagrams { packet_size, pattern } => {
                let stream = Stream::new(seed, "source", name);
                let mut source = Source::new(pattern, *packet_size, start, stop, stream);
                if let Pattern::Media(media) = pattern {
                    let (least, further) = idle_path(spec, scenario, *packet_size);
                    source.media = Some(Box::new(Encoder::new(*media, start, least, further)));
                }
                Some(Box::new(source))
            }
        };
        Flow {
            route,
            group: *group as u32,
            class: traffic.router() as u8,
            is_foreign: matches!(traffic, Traffic::Stack { .. }),
            protocol: traffic.arrivals().map(|_| traffic.protocol_name()),
            start,
            stop,
            source,
            bottleneck_bytes: 0,
            measured_bytes: 0,
            watched: (scenario.flow_bins || snapshots).then(|| {
                let bins = scenario.flow_bins.then(|| Bins::new(scenario.bin));
                Box::new(Watched { bins, latest: snapshots.then(VecDeque::new) })
            }),
            idle: Idle::new(idle_after, start),
            datagrams: 0,
            datagrams_at_warmup: 0,
            sent_at_warmup: 0,
            lost: 0,
        }
    }

    /// A packet of this flow that came at `arrived` crosses its bottleneck; it may still lie ahead that
    /// it does.
    #[inline]
    pub(super) fn count(
        &mut self,
        groups: &mut [Group],
        window: Span,
        arrived: Time,
        departure: &Departure,
        size: u32,
    ) {
        if departure.start.since(self.idle.quiet_since) > self.idle.threshold {
            self.idle.end(window, departure.start.min(self.stop));
        }
        self.idle.quiet_since = departure.end;
        if departure.end > window.until {
            return;
        }
        let bytes = u64::from(size);
        self.bottleneck_bytes += bytes;
        if departure.end > window.from {
            self.measured_bytes += bytes;
        }
        groups[self.group as usize].bins.add(departure.end, bytes);
        if let Some(watched) = &mut self.watched {
            watched.count(arrived, departure.end, bytes);
        }
    }

    /// Bytes that had crossed the bottleneck by `now`.
    pub(super) fn sent_bytes(&self, now: Time) -> u64 {
        let latest = self.watched.iter().flat_map(|watched| &watched.latest).flatten();
        let to_come = latest.rev().take_while(|(end, _)| *end > now).map(|(_, bytes)| bytes);
        self.bottleneck_bytes - to_come.sum::<u64>()
    }

    pub(super) fn throughput_bins(&mut self, window: Span) -> Vec<f64> {
        let bins = self.watched.as_mut().and_then(|watched| watched.bins.as_mut());
        bins.map_or_else(Vec::new, |bins| bins.rates(window.until))
    }

    /// A datagram has reached its receiver.
    pub(super) fn deliver(
        &mut self,
        groups: &mut [Group],
        window: Span,
        now: Time,
        packet: &Packet,
    ) {
        self.datagrams += 1;
        if let Some(media) = self.source.as_mut().and_then(|source| source.media.as_mut()) {
            media.on_arrival(now, packet, window);
        }
        if let Some(source) = &mut self.source
            && window.counts(now)
        {
            let delay = now.since(packet.timestamp);
            source.delays += u128::from(delay.as_ps());
            source.bytes += u64::from(packet.size);
            groups[self.group as usize].delays.get_or_insert_default().add(delay);
        }
    }

    /// A packet of this flow was dropped or corrupted; was it on the way back?
    pub(super) fn lose(&mut self, packet: &Packet, is_back: bool, window: Span) {
        // What was damaged before and went on to tell of it is lost already.
        let counts = !is_back && !packet.flags.contains(Flags::CORRUPTED);
        self.lost += u64::from(counts);
        if let Some(source) = &mut self.source {
            source.lost += u64::from(window.counts(packet.timestamp));
            if let Some(media) = &mut source.media {
                media.on_loss(packet);
            }
        }
    }

    /// The pauses up to the completion or the stop of the flow.
    pub(super) fn end_idle(&self, window: Span, completed: Option<Time>) -> Idle {
        let mut idle = self.idle;
        idle.end(window, self.stop.min(completed.unwrap_or(Time::NEVER)));
        idle
    }

    pub(super) fn transport_outcome(
        mut self,
        name: Name,
        transport: &mut Transport,
        window: Span,
    ) -> FlowOutcome {
        let length = window.until.since(window.from).as_secs_f64();
        let after = transport.sender.stats(window.until);
        let before = transport.at_warmup.as_deref().copied().unwrap_or_default();
        let unique = transport.receiver.stats().unique - transport.unique_before;
        let samples = after.rtt_samples - before.rtt_samples;
        let rtts = after.rtt_sum - before.rtt_sum;
        let idle = self.end_idle(window, transport.completed);
        FlowOutcome {
            name,
            group: self.group as usize,
            protocol: transport.protocol.into(),
            goodput_bps: (unique * u64::from(transport.packet_size) * 8) as f64 / length,
            throughput_bps: self.measured_bytes as f64 * 8.0 / length,
            packets_sent: after.sent - before.sent,
            retransmissions: after.retransmissions - before.retransmissions,
            timeouts: after.timeouts - before.timeouts,
            refused_windows: transport.sender.refused_windows(),
            loss_estimate: transport.sender.loss_rate().estimate(),
            true_loss: self.lost as f64 / after.sent.max(1) as f64,
            mean_rtt: Duration::from_ps(rtts.as_ps() / samples.max(1)),
            datagrams: None,
            mean_cwnd: (after.cwnd_seconds - before.cwnd_seconds) / length,
            start: self.start,
            completed: transport.completed,
            handshake: Duration::ZERO,
            idle: idle.sum,
            longest_idle: idle.longest,
            idle_periods: idle.periods,
            throughput_bins: self.throughput_bins(window),
            failure: None,
        }
    }

    pub(super) fn datagram_outcome(mut self, name: Name, window: Span) -> FlowOutcome {
        let length = window.until.since(window.from).as_secs_f64();
        let sent = self.source.as_ref().map_or(0, |s| s.sent);
        let arrived = self.datagrams - self.datagrams_at_warmup;
        let source = self.source.as_ref();
        let (lost, delays, bytes) = source.map_or((0, 0, 0), |s| (s.lost, s.delays, s.bytes));
        let media = source.and_then(|source| source.media.as_ref());
        let datagrams = DatagramOutcome {
            mean_delay: Duration::from_ps((delays / u128::from(arrived.max(1))) as u64),
            lost,
            media: media.map(|media| media.outcome()),
        };
        FlowOutcome {
            name,
            group: self.group as usize,
            protocol: self.protocol.unwrap_or("datagrams").into(),
            goodput_bps: bytes as f64 * 8.0 / length,
            throughput_bps: self.measured_bytes as f64 * 8.0 / length,
            packets_sent: sent - self.sent_at_warmup,
            retransmissions: 0,
            timeouts: 0,
            refused_windows: 0,
            loss_estimate: 0.0,
            true_loss: self.lost as f64 / sent.max(1) as f64,
            mean_rtt: Duration::ZERO,
            datagrams: self.source.is_some().then_some(datagrams),
            mean_cwnd: 0.0,
            start: self.start,
            completed: None,
            handshake: Duration::ZERO,
            idle: Duration::ZERO,
            longest_idle: Duration::ZERO,
            idle_periods: 0,
            throughput_bins: self.throughput_bins(window),
            failure: None,
        }
    }
}

/// The least one-way delay of a packet on the way of a flow, and what each further packet that leaves
/// with it adds.
fn idle_path(spec: &FlowConfig, scenario: &Scenario, size: u32) -> (Duration, Duration) {
    let links = spec.forward.iter().map(|link| &scenario.links[*link]);
    links.fold((Duration::ZERO, Duration::ZERO), |(sum, slowest), link| {
        let time = link.kind.rate.mean().transmission_time(size);
        (sum + link.delay + time, slowest.max(time))
    })
}

/// The connections that come by themselves, in the order of the pairs of hosts between which they
/// open.
#[derive(Debug)]
pub(super) struct Transfers {
    /// Index of the first among all flows.
    pub(super) first: usize,
    /// The pair of each, and what it transfers.
    pub(super) drawn: Vec<(usize, Transfer)>,
}

impl Transfers {
    /// The indices of those of a pair of hosts among all flows.
    pub(super) fn of(&self, pair: usize) -> Range<usize> {
        let from = self.drawn.partition_point(|(other, _)| *other < pair);
        let count = self.drawn[from..].partition_point(|(other, _)| *other == pair);
        self.first + from..self.first + from + count
    }

    /// Their rows of the outcome, which are added to the rows of their pairs.
    pub(super) fn close(
        self,
        mut connections: impl Iterator<Item = (Option<Transport>, Option<Box<Foreign>>, Flow)>,
        pairs: &mut [FlowOutcome],
        window: Span,
    ) -> Vec<TransferOutcome> {
        let mut rows = Vec::with_capacity(self.drawn.len());
        for of_pair in self.drawn.chunk_by(|a, b| a.0 == b.0) {
            let sum = &mut pairs[of_pair[0].0];
            let (mut rtts, mut samples, mut lost, mut estimate, mut sent) = (0.0, 0, 0, 0.0, 0);
            let connections = of_pair.iter().zip(&mut connections);
            for (&(pair, transfer), (transport, foreign, flow)) in connections {
                lost += flow.lost;
                let name = Name::from("");
                let (own, (rtt, count), row) = match (transport, foreign) {
                    (Some(mut transport), _) => (
                        transport.transfer_outcome(pair, transfer, window),
                        transport.rtts(window),
                        flow.transport_outcome(name, &mut transport, window),
                    ),
                    (None, Some(foreign)) => (
                        foreign.transfer_outcome(pair, transfer),
                        foreign.rtts(),
                        foreign.outcome(flow, name, window),
                    ),
                    (None, None) => continue,
                };
                rtts += rtt.as_secs_f64();
                samples += count;
                sent += own.packets_sent;
                estimate += row.loss_estimate * own.packets_sent as f64;
                rows.push(own);
                sum.goodput_bps += row.goodput_bps;
                sum.throughput_bps += row.throughput_bps;
                sum.packets_sent += row.packets_sent;
                sum.retransmissions += row.retransmissions;
                sum.timeouts += row.timeouts;
                sum.refused_windows += row.refused_windows;
                sum.failure = sum.failure.take().or(row.failure);
            }
            sum.mean_rtt = Duration::from_secs_f64(rtts / samples.max(1) as f64);
            sum.true_loss = lost as f64 / sent.max(1) as f64;
            sum.loss_estimate = estimate / sent.max(1) as f64;
        }
        rows
    }
}

/// The pauses of a connection at its bottleneck.
#[derive(Debug, Clone, Copy)]
pub(super) struct Idle {
    threshold: Duration,
    /// End of the latest packet, or start of the flow.
    quiet_since: Time,
    pub(super) sum: Duration,
    pub(super) longest: Duration,
    pub(super) periods: u64,
}

impl Idle {
    fn new(threshold: Duration, start: Time) -> Self {
        let (sum, longest) = (Duration::ZERO, Duration::ZERO);
        Idle { threshold, quiet_since: start, sum, longest, periods: 0 }
    }

    /// A pause ends; what of it lies inside the window counts.
    #[cold]
    fn end(&mut self, window: Span, at: Time) {
        let pause = window.overlap(self.quiet_since, at);
        if pause > self.threshold {
            self.sum += pause;
            self.longest = self.longest.max(pause);
            self.periods += 1;
        }
    }
}

/// A connection's two ends.
#[derive(Debug)]
pub(super) struct Transport {
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    pub(super) route: Route,
    pub(super) protocol: &'static str,
    pub(super) packet_size: u32,
    pub(super) packets: Option<u64>,
    pub(super) completed: Option<Time>,
    pub(super) delays_acks: bool,
    /// Does the receiver send more than one acknowledgment at once?
    pub(super) multiplies_acks: bool,
    /// Packets in processing, if that takes time.
    pub(super) outbox: Option<Box<Outbox>>,
    pub(super) sender_timer: Alarm,
    pub(super) receiver_timer: Alarm,
    pub(super) notices: Option<Box<Notices>>,
    /// What the sender had counted before the figures begin, if that is later than the start.
    pub(super) at_warmup: Option<Box<SenderStats>>,
    /// Unique packets delivered before the figures begin.
    pub(super) unique_before: u64,
}

impl Transport {
    /// The receiver takes a data packet, at a time that may lie ahead. Returns whether `packet`
    /// has become an acknowledgment to be sent.
    #[inline]
    pub(super) fn receive(&mut self, at: Time, packet: &mut Packet, window: Span) -> bool {
        let acknowledges = self.receiver.on_data(at, packet);
        if at <= window.from {
            self.unique_before = self.receiver.stats().unique;
        }
        acknowledges
    }

    /// Its RTT samples after the warm-up: their sum, and how many they are.
    fn rtts(&mut self, window: Span) -> (Duration, u64) {
        let before = self.at_warmup.as_deref().copied().unwrap_or_default();
        let after = self.sender.stats(window.until);
        (after.rtt_sum - before.rtt_sum, after.rtt_samples - before.rtt_samples)
    }

    /// Its row as one of the transfers between a pair of hosts.
    fn transfer_outcome(
        &mut self,
        pair: usize,
        transfer: Transfer,
        window: Span,
    ) -> TransferOutcome {
        let after = self.sender.stats(window.until);
        TransferOutcome {
            flow: pair,
            start: transfer.start,
            bytes: transfer.bytes,
            packets: self.packets.unwrap_or(0),
            handshake: Duration::ZERO,
            completed: self.completed,
            packets_sent: after.sent,
            retransmissions: after.retransmissions,
            timeouts: after.timeouts,
        }
    }

    pub(super) fn new(spec: &FlowConfig, route: Route, seed: u64) -> Option<Self> {
        let Traffic::Transport { protocol, config, packets, arrivals: None } = &spec.kind.traffic
        else {
            return None;
        };
        let sender = Sender::new(protocol, config, seed, &spec.name);
        Some(Transport {
            notices: sender.notification().map(|notification| {
                Box::new(Notices { notification, reported: vec![None; spec.forward.len()] })
            }),
            sender,
            receiver: Receiver::new(&protocol.feedback, config),
            route,
            protocol: protocol.name,
            packet_size: config.packet_size,
            packets: *packets,
            completed: None,
            delays_acks: config.delayed_acks.is_some(),
            multiplies_acks: config.receiver.acknowledgments() > 1,
            outbox: (!config.overhead.is_zero()).then(|| {
                Box::new(Outbox {
                    overhead: config.overhead,
                    stream: Stream::new(seed, "overhead", &spec.name),
                    packets: VecDeque::new(),
                })
            }),
            sender_timer: Alarm::OFF,
            receiver_timer: Alarm::OFF,
            at_warmup: None,
            unique_before: 0,
        })
    }
}

/// What notifiers owe a flow.
#[derive(Debug)]
pub(super) struct Notices {
    pub(super) notification: Notification,
    /// When each link of the way there last reported its rate out of band.
    reported: Vec<Option<Time>>,
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
