//! The flows: the ends of each, and its traffic through its bottleneck.

use std::collections::VecDeque;

use windward_core::network::Departure;
use windward_core::packet::{Flags, Packet};
use windward_core::rng::Stream;
use windward_core::units::{Duration, Time};

use super::adaptive::Adaptive;
use super::component::Component;
use super::datagrams::Datagrams;
use super::group::{Bins, Group};
use super::hop::Span;
use super::route::{Answers, Route};
use super::schedule::Schedule;
use super::snapshot::FlowSnapshot;
use super::source::Source;
use super::stack_connection::StackConnection;
use super::transport::Transport;
use crate::Name;
use crate::metric::Kinds;
use crate::outcome::{FlowMetrics, FlowOutcome, TransferOutcome};
use crate::scenario::{FlowConfig, FlowKind, Pattern, Scenario, Traffic, Transfer};

/// A flow of the scenario, or a connection that opens between a pair of its hosts.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) ends: Ends,
    pub(super) route: Route,
    pub(super) group: u32,
    /// The class of its packets.
    pub(super) class: u8,
    pub(super) start: Time,
    pub(super) stop: Time,
    pub(super) bottleneck: Bottleneck,
    /// Data packets or datagrams lost in the whole run.
    pub(super) lost: u64,
}

/// The two ends of a flow, by kind.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "most flows are transports, and each packet asks them"
)]
#[repr(u8)]
pub(super) enum Ends {
    /// A sender and a receiver of a protocol of this project.
    Transport(Transport),
    /// A source of datagrams, media among them, and a far end that counts them.
    Datagrams(Box<Datagrams>),
    /// A connection of a [stack](crate::stack): of other code, or a port for outside programs.
    Stack(Box<StackConnection>),
    /// A pair of hosts between which connections of this protocol open at random. These are
    /// separate flows.
    Pair(&'static str, Kinds),
    /// A connection of which other threads have both ends.
    Elsewhere,
}

impl Ends {
    /// The ends of a flow; `passes` for a transfer that arrives at random and is freed on
    /// completion.
    ///
    /// Without an end here, only datagrams are watched on their way.
    fn new(
        spec: &FlowConfig,
        scenario: &Scenario,
        times: [Time; 2],
        passes: bool,
        has_end: bool,
    ) -> Self {
        let (seed, name) = (scenario.seed, &spec.name);
        match &spec.kind.traffic {
            traffic if traffic.is_connection() && !has_end => Ends::Elsewhere,
            traffic if traffic.arrivals().is_some() => {
                Ends::Pair(traffic.protocol_name(), Kinds::of(traffic))
            }
            Traffic::Transport { protocol, config, packets, .. } => {
                Ends::Transport(Transport::new(protocol, config, *packets, spec, seed))
            }
            Traffic::Stack { stack, config, bytes, .. } => {
                let seed = Stream::new(seed, "stack", name).bits();
                Ends::Stack(Box::new(StackConnection::new(stack, **config, *bytes, seed, passes)))
            }
            Traffic::Datagrams { packet_size, pattern } => {
                let stream = Stream::new(seed, "source", name);
                let path = idle_path(spec, scenario, *packet_size);
                let source = Source::new(pattern, *packet_size, times, stream, path);
                let adaptive = match pattern {
                    Pattern::Media(media) => media
                        .adaptation
                        .map(|adaptation| Box::new(Adaptive::new(media, adaptation, *packet_size))),
                    _ => None,
                };
                let name = spec.kind.traffic.protocol_name();
                Ends::Datagrams(Box::new(Datagrams::new(name, source, adaptive)))
            }
        }
    }

    /// Takes what another thread's copy of the flow knows as its receiver.
    pub(super) fn take_receiver(&mut self, other: &mut Ends) {
        match (self, other) {
            (Ends::Transport(own), Ends::Transport(other)) => own.take_receiver(other),
            (Ends::Datagrams(own), Ends::Datagrams(other)) => own.take_receiver(other),
            _ => {}
        }
    }

    /// Datagrams that count as lost, of those sent after the warm-up.
    pub(super) fn datagrams_lost(&self) -> u64 {
        match self {
            Ends::Datagrams(datagrams) => datagrams.lost,
            _ => 0,
        }
    }
}

/// One-way delay of a packet over the idle forward route of a flow, and the additional delay of
/// each further packet that leaves with it.
fn idle_path(spec: &FlowConfig, scenario: &Scenario, size: u32) -> (Duration, Duration) {
    let links = spec.forward.iter().map(|link| &scenario.links[*link]);
    links.fold((Duration::ZERO, Duration::ZERO), |(sum, slowest), link| {
        let time = link.kind.rate.mean().transmission_time(size);
        (sum + link.delay + time, slowest.max(time))
    })
}

impl Flow {
    pub(super) fn new(
        spec: &FlowConfig,
        route: Route,
        scenario: &Scenario,
        snapshots: bool,
        passes: bool,
        has_end: bool,
    ) -> Self {
        let FlowKind { traffic, start, stop, .. } = &*spec.kind;
        let mut stream = Stream::new(scenario.seed, "start", &spec.name);
        let start = {
            let (low, high) = (start.0.since(Time::ZERO), start.1.since(Time::ZERO));
            Time::ZERO + stream.between(low, high)
        };
        let stop = stop.unwrap_or(Time::NEVER);
        // Datagrams pause according to their pattern, which does not count as idle.
        let idle_after = match traffic {
            Traffic::Transport { .. } | Traffic::Stack { .. } => scenario.idle_after,
            Traffic::Datagrams { .. } => Duration::MAX,
        };
        Flow {
            ends: Ends::new(spec, scenario, [start, stop], passes, has_end),
            route,
            group: spec.group as u32,
            class: traffic.router() as u8,
            start,
            stop,
            bottleneck: Bottleneck {
                bytes: 0,
                measured_bytes: 0,
                watched: (scenario.flow_bins || snapshots).then(|| {
                    let bins = scenario.flow_bins.then(|| Bins::new(scenario.bin));
                    Box::new(Watched { bins, latest: snapshots.then(VecDeque::new) })
                }),
                idle: Idle::new(idle_after, start),
            },
            lost: 0,
        }
    }

    /// Schedules its first event, as the flow with this index; a pair of hosts has none.
    pub(super) fn begin(&mut self, index: u32, schedule: &mut Schedule) {
        let application = Component::Application(index).id();
        match &mut self.ends {
            Ends::Transport(_) | Ends::Stack(_) => schedule.push(application, self.start),
            Ends::Datagrams(datagrams) => {
                let first = datagrams.next(Time::ZERO);
                match &mut datagrams.adaptive {
                    None => schedule.push(application, first),
                    Some(adaptive) => adaptive.alarm.bring_forward(schedule, application, first),
                }
            }
            Ends::Pair(..) | Ends::Elsewhere => {}
        }
    }

    pub(super) fn answers(&self) -> Answers {
        match &self.ends {
            Ends::Transport(transport) => {
                match transport.delays_acks || transport.multiplies_acks {
                    true => Answers::Later,
                    false => Answers::AtOnce,
                }
            }
            Ends::Stack(_) | Ends::Elsewhere => Answers::Later,
            Ends::Datagrams(datagrams) if datagrams.adaptive.is_some() => Answers::Later,
            Ends::Datagrams(_) | Ends::Pair(..) => Answers::Never,
        }
    }

    /// True for a connection of a stack, whose packets carry a payload and may show other labels.
    #[inline]
    pub(super) fn is_stack(&self) -> bool {
        matches!(self.ends, Ends::Stack(_))
    }

    /// True for a connection, of a transport or of a stack.
    pub(super) fn is_connection(&self) -> bool {
        matches!(self.ends, Ends::Transport(_) | Ends::Stack(_))
    }

    /// Counts a packet that arrived at `arrived` and crosses the bottleneck, possibly in the
    /// future.
    #[inline]
    pub(super) fn count(
        &mut self,
        groups: &mut [Group],
        window: Span,
        arrived: Time,
        departure: &Departure,
        size: u32,
    ) {
        let Bottleneck { idle, bytes: all_bytes, measured_bytes, watched } = &mut self.bottleneck;
        if departure.start.since(idle.quiet_since) > idle.threshold {
            idle.end(window, departure.start.min(self.stop));
        }
        idle.quiet_since = departure.end;
        if departure.end > window.until {
            return;
        }
        let bytes = u64::from(size);
        *all_bytes += bytes;
        if departure.end > window.from {
            *measured_bytes += bytes;
        }
        groups[self.group as usize].bins.add(departure.end, bytes);
        if let Some(watched) = watched {
            watched.count(arrived, departure.end, bytes);
        }
    }

    /// Counts a packet that was dropped or destroyed; `is_back` on the reverse route.
    pub(super) fn lose(&mut self, packet: &Packet, is_back: bool, window: Span) {
        // A packet that was damaged before and continued to report it counts as lost already.
        let counts = !is_back && !packet.flags.contains(Flags::CORRUPTED);
        self.lost += u64::from(counts);
        if let Ends::Datagrams(datagrams) = &mut self.ends {
            match &mut datagrams.adaptive {
                Some(adaptive) if is_back => adaptive.lose_report(packet),
                _ => datagrams.lose(packet, window),
            }
        }
    }

    /// Notes the counts at the end of the warm-up.
    pub(super) fn end_warmup(&mut self, now: Time) {
        match &mut self.ends {
            Ends::Transport(transport) => transport.end_warmup(now),
            Ends::Datagrams(datagrams) => datagrams.end_warmup(),
            Ends::Stack(connection) => connection.end_warmup(now),
            Ends::Pair(..) | Ends::Elsewhere => {}
        }
    }

    /// The connection at this instant; `None` for datagrams and pairs of hosts.
    pub(super) fn snapshot(&self, bottleneck_bytes: u64) -> Option<FlowSnapshot> {
        match &self.ends {
            Ends::Transport(transport) => Some(transport.snapshot(bottleneck_bytes)),
            Ends::Stack(connection) => Some(connection.snapshot(bottleneck_bytes)),
            Ends::Datagrams(_) | Ends::Pair(..) | Ends::Elsewhere => None,
        }
    }

    /// Outcome at the end of the run.
    pub(super) fn outcome(&mut self, name: Name, window: Span) -> FlowOutcome {
        let mut outcome = FlowOutcome::new(name, self.group as usize, "");
        outcome.start = self.start;
        outcome.throughput_bps = self.bottleneck.measured_bytes as f64 * 8.0 / window.seconds();
        outcome.throughput_bins = self.bottleneck.throughput_bins(window);
        let lost = self.lost;
        match &mut self.ends {
            Ends::Transport(transport) => transport.enter(&mut outcome, lost, window),
            Ends::Datagrams(datagrams) => datagrams.enter(&mut outcome, lost, window),
            Ends::Stack(connection) => connection.enter(&mut outcome, lost, window),
            Ends::Elsewhere => {}
            // The transfers are added to it later.
            Ends::Pair(protocol, kind) => {
                outcome.protocol = (*protocol).into();
                outcome.metrics = FlowMetrics {
                    start: self.start,
                    mean_rtt_s: Some(0.0),
                    loss_estimate: Some(0.0),
                    ..FlowMetrics::nothing_yet(*kind)
                };
            }
        }
        if self.is_connection() {
            let mut idle = self.bottleneck.idle;
            idle.end(window, self.stop.min(outcome.completed.unwrap_or(Time::NEVER)));
            outcome.idle_s = Some(idle.sum.as_secs_f64());
            outcome.longest_idle_s = Some(idle.longest.as_secs_f64());
            outcome.idle_periods = Some(idle.periods);
        }
        outcome
    }

    /// Outcome of a connection as one of the transfers between a pair of hosts.
    pub(super) fn transfer_outcome(
        &mut self,
        pair: usize,
        transfer: Transfer,
        window: Span,
    ) -> Option<TransferOutcome> {
        match &mut self.ends {
            Ends::Transport(transport) => Some(transport.transfer_outcome(pair, transfer, window)),
            Ends::Stack(connection) => Some(connection.transfer_outcome(pair, transfer)),
            Ends::Datagrams(_) | Ends::Pair(..) | Ends::Elsewhere => None,
        }
    }

    /// Sum and number of the RTT samples after the warm-up.
    pub(super) fn rtts(&mut self, window: Span) -> (Duration, u64) {
        match &mut self.ends {
            Ends::Transport(transport) => transport.rtts(window),
            Ends::Stack(connection) => connection.rtts(),
            Ends::Datagrams(_) | Ends::Pair(..) | Ends::Elsewhere => (Duration::ZERO, 0),
        }
    }
}

/// Counts of a flow at its bottleneck.
#[derive(Debug)]
pub(super) struct Bottleneck {
    /// Bytes that have crossed it.
    pub(super) bytes: u64,
    /// Bytes of these after the warm-up.
    measured_bytes: u64,
    /// Details, for the runs that ask for them.
    watched: Option<Box<Watched>>,
    idle: Idle,
}

impl Bottleneck {
    /// Bytes that had crossed it by `now`.
    pub(super) fn sent_bytes(&self, now: Time) -> u64 {
        let latest = self.watched.iter().flat_map(|watched| &watched.latest).flatten();
        let to_come = latest.rev().take_while(|(end, _)| *end > now).map(|(_, bytes)| bytes);
        self.bytes - to_come.sum::<u64>()
    }

    fn throughput_bins(&mut self, window: Span) -> Vec<f64> {
        let bins = self.watched.as_mut().and_then(|watched| watched.bins.as_mut());
        bins.map_or_else(Vec::new, |bins| bins.rates(window.until))
    }
}

/// Details of the traffic through the bottleneck, for the runs that ask for them.
#[derive(Debug, Default)]
struct Watched {
    bins: Option<Bins>,
    /// The latest packets, each with the end of its transmission, for snapshots.
    latest: Option<VecDeque<(Time, u64)>>,
}

impl Watched {
    fn count(&mut self, arrived: Time, end: Time, bytes: u64) {
        if let Some(bins) = &mut self.bins {
            bins.add(end, bytes);
        }
        if let Some(latest) = &mut self.latest {
            // Snapshots are never taken before the arrival of the current packet.
            while latest.front().is_some_and(|(end, _)| *end <= arrived) {
                latest.pop_front();
            }
            latest.push_back((end, bytes));
        }
    }
}

/// The pauses of a connection at its bottleneck.
#[derive(Debug, Clone, Copy)]
struct Idle {
    threshold: Duration,
    /// End of the latest packet, or start of the flow.
    quiet_since: Time,
    sum: Duration,
    longest: Duration,
    periods: u64,
}

impl Idle {
    fn new(threshold: Duration, start: Time) -> Self {
        let (sum, longest) = (Duration::ZERO, Duration::ZERO);
        Idle { threshold, quiet_since: start, sum, longest, periods: 0 }
    }

    /// Ends a pause, of which the part inside the window counts.
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
