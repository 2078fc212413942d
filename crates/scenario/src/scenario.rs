//! A scenario, which the engine runs. [`mod@file`] reads one from a file.
//!
//! Everything here is resolved: names have become indices, routes are lists of links and
//! every default is filled in.

use std::sync::Arc;

use windward_core::endpoint::EndpointConfig;
use windward_core::media::{MediaControllerConfig, Report};
use windward_core::network::{
    ChannelConfig, Impairments, LinkRate, MediumConfig, NotifierConfig, QueueConfig, RouterKind,
};
use windward_core::part::AnyPart;
use windward_core::protocols::Protocol;
use windward_core::units::{Duration, Rate, Time};

use crate::name::Name;
use crate::stack::{Stack, StackConfig};

pub mod arrivals;
mod cost;
pub mod file;
mod scaling;
mod validate;

pub use arrivals::{Arrivals, MAX_TRANSFERS, Sizes, Transfer};
pub use scaling::Scaling;
pub use validate::{InvalidScenario, Parts};

/// Index of a directed link in [`Scenario::links`].
pub type LinkId = usize;

/// A complete, checked description of one run.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Length of the run; at most [`MAX_DURATION`].
    pub duration: Duration,
    /// Start of the measurement of flows, utilization and mean queues.
    pub warmup: Duration,
    /// Seed of all random streams.
    pub seed: u64,
    /// Width of the bins in which the throughput of a group is kept.
    pub bin: Duration,
    /// True if the throughput of each flow is kept in such bins too.
    pub flow_bins: bool,
    /// Interval at whose multiples windows and queues are recorded; `None` records none.
    pub sample: Option<Duration>,
    /// Maximum pause of a connection at its bottleneck; a longer one is an idle period.
    pub idle_after: Duration,
    /// Directed links.
    pub links: Vec<LinkConfig>,
    /// Media that links share.
    pub wlans: Vec<WlanConfig>,
    /// Flows of every kind.
    pub flows: Vec<FlowConfig>,
    /// Names of the groups that [`FlowConfig::group`] points to.
    pub groups: Vec<String>,
    /// Warnings of settings that are allowed but rarely intended, one sentence each.
    pub warnings: Vec<String>,
}

impl Scenario {
    /// Long-run share of packets of `size` bytes that the wires of a route lose, from 0 to 1.
    pub fn path_loss(&self, route: &[LinkId], size: u32) -> f64 {
        let survival = |link: &LinkId| 1.0 - self.links[*link].kind.loss_rate(size);
        1.0 - route.iter().map(survival).product::<f64>()
    }

    /// Time of a packet of `size` bytes over a route with empty queues: transmission at the mean
    /// rates, and propagation.
    pub fn one_way(&self, route: &[LinkId], size: u32) -> Duration {
        let links = route.iter().map(|link| &self.links[*link]);
        links.fold(Duration::ZERO, |sum, link| {
            sum + link.delay + link.kind.rate.mean().transmission_time(size)
        })
    }
}

/// Maximum length of a run, 100 days, which leaves room in the 213 days that [`Time`] can count.
pub const MAX_DURATION: Duration = Duration::from_secs(100 * 86_400);

/// Maximum number of changes of the rate, delay and outages of a link by schedule in a run.
pub const MAX_CHANGES: u64 = 10_000_000;

/// One direction of one link: a queue, a wire, a channel.
#[derive(Debug, Clone)]
pub struct LinkConfig {
    /// Its name in results, `from->to`.
    pub name: Name,
    /// Propagation delay; if it changes, the long-run mean ([`ChangingDelay::mean`]).
    ///
    /// [`ChangingDelay::mean`]: windward_core::network::ChangingDelay::mean
    pub delay: Duration,
    /// All other settings, which equal links share.
    pub kind: Arc<LinkKind>,
    /// The station that transmits on it, if it shares a medium.
    pub station: Option<Station>,
}

/// A station on a shared medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Station {
    /// Index in [`Scenario::wlans`].
    pub wlan: u32,
    /// Number of the station there, less than [`WlanConfig::stations`].
    pub station: u32,
}

/// A wireless LAN: a medium that links share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WlanConfig {
    /// Its name.
    pub name: String,
    /// Its parameters.
    pub medium: MediumConfig,
    /// Number of stations, each of which transmits on at least one link.
    pub stations: usize,
}

/// The settings that many links share.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkKind {
    /// Rate of the wire: constant, a trace or a schedule.
    pub rate: LinkRate,
    /// The queue before the wire and the feedback its router gives.
    pub queue: QueueConfig,
    /// Losses of packets on the wire.
    pub channel: ChannelConfig,
    /// The notifier at the far end, which reports corruption.
    pub notifier: NotifierConfig,
    /// Changes of delay, jitter, reordering, outages and retransmission on the link.
    pub impairments: Impairments,
    /// On a shared medium, the maximum number of transmissions of a packet; 1 elsewhere.
    pub attempts: u32,
}

impl LinkKind {
    /// Long-run share of packets of `size` bytes that the wire loses, with link-layer
    /// retransmission as if its attempts failed independently.
    pub fn loss_rate(&self, size: u32) -> f64 {
        let once = self.channel.loss_rate(size);
        self.impairments.residual_loss(libm::pow(once, f64::from(self.attempts)))
    }
}

/// One flow: a transport connection or a stream of datagrams.
#[derive(Debug, Clone)]
pub struct FlowConfig {
    /// Its name in results: the group and a number.
    pub name: Name,
    /// Index in [`Scenario::groups`].
    pub group: usize,
    /// The links that data packets cross, in order; never empty.
    pub forward: Vec<LinkId>,
    /// The links that acknowledgments cross; empty for datagrams.
    pub reverse: Vec<LinkId>,
    /// The link at which its throughput is measured: the slowest link of `forward` unless the
    /// scenario names another.
    pub bottleneck: LinkId,
    /// All other settings, which the flows of a group share.
    pub kind: Arc<FlowKind>,
}

/// The settings that the flows of a group share.
#[derive(Debug, Clone)]
pub struct FlowKind {
    /// The data that a flow sends.
    pub traffic: Traffic,
    /// Range from which the start is drawn uniformly, ends included.
    pub start: (Time, Time),
    /// Time at which the application stops offering data.
    pub stop: Option<Time>,
    /// The nodes of a general graph from which and to which its data goes; `None` in other
    /// topologies.
    pub nodes: Option<[String; 2]>,
}

/// The data that a flow sends.
#[derive(Debug, Clone)]
pub enum Traffic {
    /// A reliable connection.
    Transport {
        /// A row of the protocol table or another composition, with the parameters of its parts.
        /// It must pass [`Protocol::check`].
        protocol: Arc<Protocol>,
        /// Parameters of both endpoints, which the flows of a group share.
        config: Arc<EndpointConfig>,
        /// Packets to transfer, or `None` for bulk: data never runs out.
        packets: Option<u64>,
        /// Process of arrivals. With it, the flow is a pair of hosts between which a connection
        /// opens for each transfer; `packets` and the start and stop of the flow have no effect.
        arrivals: Option<Arc<Arrivals>>,
    },
    /// A connection of a stack, which is code of another project.
    Stack {
        /// The maker of its endpoints.
        stack: Arc<dyn Stack>,
        /// Its parameters, which the flows of a group share.
        config: Arc<StackConfig>,
        /// Bytes that the application transfers, or `None` for bulk: data never runs out.
        bytes: Option<u64>,
        /// As in [`Traffic::Transport`]; with it, `bytes` has no effect.
        arrivals: Option<Arc<Arrivals>>,
    },
    /// Datagrams at a constant rate while on.
    Datagrams {
        /// Size of a datagram on the wire, bytes.
        packet_size: u32,
        /// The times at which it sends.
        pattern: Pattern,
    },
}

impl Traffic {
    /// True for a single connection; false for datagrams and for transfers that arrive at random.
    pub fn is_connection(&self) -> bool {
        !matches!(self, Traffic::Datagrams { .. }) && self.arrivals().is_none()
    }

    /// The process of its arrivals, if it has one.
    pub fn arrivals(&self) -> Option<&Arrivals> {
        match self {
            Traffic::Transport { arrivals, .. } | Traffic::Stack { arrivals, .. } => {
                arrivals.as_deref()
            }
            Traffic::Datagrams { .. } => None,
        }
    }

    /// The router that it asks for, which is its class at links with a queue for each class.
    pub fn router(&self) -> RouterKind {
        match self {
            Traffic::Transport { protocol, .. } => protocol.router,
            Traffic::Stack { .. } | Traffic::Datagrams { .. } => RouterKind::Any,
        }
    }

    /// The name of its protocol in results; `datagrams` for datagrams without a controller.
    pub fn protocol_name(&self) -> &'static str {
        match self {
            Traffic::Transport { protocol, .. } => protocol.name,
            Traffic::Stack { stack, .. } => stack.facts().name,
            Traffic::Datagrams { pattern, .. } => {
                let controller = pattern.adaptation().map(|adaptation| adaptation.controller);
                controller.map_or("datagrams", |controller| controller.words().name)
            }
        }
    }
}

/// Live video (RFC 8593 section 5) at a target rate, which is constant or [adapts](Adaptation). A
/// frame leaves in packets of the source's size, back to back unless a controller paces them; the
/// last one has the rest.
#[derive(Debug, Clone, PartialEq)]
pub struct Media {
    /// The target rate, bits on the wire.
    pub rate: Rate,
    /// Frames per second, on average; more than 0. A frame has at most [`Media::MAX_PACKETS`]
    /// packets on average.
    pub fps: f64,
    /// Scale of the Laplacian shares by which the sizes of frames and the times between them differ
    /// from their means, 0 to 1 (SCALE_B and SCALE_t, 0.15).
    pub variation: f64,
    /// Time by which a frame may exceed its time on idle links and still be on time.
    pub deadline: Duration,
    /// Time between two reports of the receiver (RTCP), for the circuit breaker of RFC 8083; more
    /// than 0.
    pub report_interval: Duration,
    /// Adaptation of the target rate, which begins at `rate`; `None` for a constant target.
    pub adaptation: Option<Adaptation>,
    /// Times in which the encoder makes no frame: from the first instant to before the second, in
    /// order and apart (RFC 8867 section 5.8).
    pub pauses: Vec<(Time, Time)>,
}

/// Adaptation of the rate of live video to its path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Adaptation {
    /// The controller.
    pub controller: MediaControllerConfig,
    /// Range of rates of the encoder.
    pub least: Rate,
    /// End of that range.
    pub most: Rate,
    /// Time for which the encoder ignores new target rates after it has followed one (tau_v of RFC
    /// 8593 section 5.1).
    pub latency: Duration,
    /// True if packets are ECN-capable.
    pub ecn: bool,
}

impl Adaptation {
    /// Default range of rates of the encoder, from here (RFC 8867 section 4.3).
    pub const LEAST: Rate = rate_of(150_000);
    /// End of that range (RFC 8867 section 4.3).
    pub const MOST: Rate = rate_of(1_500_000);
    /// Default latency (RFC 8867 section 4.3: responsiveness to a new rate).
    pub const LATENCY: Duration = Duration::from_millis(100);

    /// Size on the wire of a report on the packets of an interval at the maximum rate, bytes.
    pub fn report_size(&self, packet_size: u32) -> u32 {
        let interval = self.controller.report_interval(self.most.as_bps() as f64);
        let packets = self.most.bytes_per_s() * interval.as_secs_f64() / f64::from(packet_size);
        Report::size_for(packets as u64 + 1)
    }
}

/// A rate of this many bits per second, more than 0.
const fn rate_of(bps: u64) -> Rate {
    match Rate::from_bps(bps) {
        Some(rate) => rate,
        None => panic!("a rate is not zero"),
    }
}

impl Media {
    /// Maximum number of packets of a mean frame.
    pub const MAX_PACKETS: f64 = 10_000.0;

    /// The largest target rate.
    pub fn most(&self) -> Rate {
        self.adaptation.map_or(self.rate, |adaptation| adaptation.most)
    }

    /// The smallest target rate.
    pub fn least(&self) -> Rate {
        self.adaptation.map_or(self.rate, |adaptation| adaptation.least)
    }

    /// Checks the ranges of the values, for packets of this size.
    ///
    /// # Errors
    /// The first value out of range, as a sentence without a capital or a full stop.
    pub fn validate(&self, packet_size: u32) -> Result<(), String> {
        if !(self.fps.is_finite() && self.fps > 0.0) {
            return Err(format!(
                "frames per second must be finite and greater than 0, not {}",
                self.fps
            ));
        }
        if !(0.0..=1.0).contains(&self.variation) {
            return Err(format!("the variation must be from 0 to 1, not {}", self.variation));
        }
        if self.report_interval.is_zero() {
            return Err("the interval between reports must be greater than 0".to_owned());
        }
        let mut end = Time::ZERO;
        for (from, until) in &self.pauses {
            if until <= from {
                return Err("a pause must end after it starts".to_owned());
            }
            if *from < end {
                return Err("a pause starts before the previous one ends".to_owned());
            }
            end = *until;
        }
        if let Some(Adaptation { controller, least, most, ecn, .. }) = &self.adaptation {
            controller.validate()?;
            if controller.is_l4s() && !ecn {
                return Err("a controller with `l4s` needs `ecn = true`".to_owned());
            }
            if !(*least..=*most).contains(&self.rate) {
                let range = format!("{least} to {most}");
                return Err(format!("the rate must be in the range of rates, {range}"));
            }
        }
        let packets = self.most().bytes_per_s() / self.fps / f64::from(packet_size);
        if packets > Self::MAX_PACKETS {
            let most = Self::MAX_PACKETS;
            return Err(format!("a mean frame has {packets:.0} packets, more than {most}"));
        }
        Ok(())
    }
}

/// The times at which a datagram source sends.
#[derive(Debug, Clone)]
pub enum Pattern {
    /// All the time.
    Constant {
        /// Sending rate, counted in bits on the wire.
        rate: Rate,
    },
    /// On and off for times drawn from exponential distributions, beginning with on.
    Exponential {
        /// Sending rate while on.
        rate: Rate,
        /// Mean on time.
        mean_on: Duration,
        /// Mean off time.
        mean_off: Duration,
    },
    /// Frames of live video.
    Media(Box<Media>),
    /// At given rates during given intervals, in order and without overlap.
    Schedule {
        /// `(from, until, rate)`.
        intervals: Vec<(Time, Time, Rate)>,
    },
}

impl Pattern {
    /// The adaptation of media that adapts.
    pub fn adaptation(&self) -> Option<&Adaptation> {
        match self {
            Pattern::Media(media) => media.adaptation.as_ref(),
            _ => None,
        }
    }
}
