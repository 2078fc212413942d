//! A scenario, which the engine runs. [`mod@file`] reads one from a file.
//!
//! Everything here is resolved: names have become indices, routes are lists of links and
//! every default is filled in.

use std::sync::Arc;

use windward_core::endpoint::EndpointConfig;
use windward_core::network::{
    ChannelConfig, Impairments, LinkRate, NotifierConfig, QueueConfig, RouterKind,
};
use windward_core::protocols::Protocol;
use windward_core::units::{Duration, Rate, Time};

use crate::name::Name;
use crate::stack::{Stack, StackConfig};

pub(crate) mod arrivals;
mod cost;
pub mod file;
mod validate;

pub use arrivals::{Arrivals, MAX_TRANSFERS, Sizes, Transfer};
pub use validate::InvalidScenario;

/// Index of a directed link in [`Scenario::links`].
pub type LinkId = usize;

/// A complete, checked description of one run.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// How long the run lasts; at most [`MAX_DURATION`].
    pub duration: Duration,
    /// Figures of flows, and utilization and mean queues, count only what happens after this.
    pub warmup: Duration,
    /// The seed all random streams are derived from.
    pub seed: u64,
    /// Width of the bins in which the throughput of a group is kept.
    pub bin: Duration,
    /// Is the throughput of every flow kept in such bins too?
    pub flow_bins: bool,
    /// Windows and queues are recorded at every multiple of this; `None` records none.
    pub sample: Option<Duration>,
    /// A connection that puts nothing on its bottleneck for longer than this is idle.
    pub idle_after: Duration,
    /// Directed links.
    pub links: Vec<LinkConfig>,
    /// Flows of every kind.
    pub flows: Vec<FlowConfig>,
    /// Names of the groups that [`FlowConfig::group`] points to.
    pub groups: Vec<String>,
    /// Settings that are allowed and rarely meant, a sentence each.
    pub warnings: Vec<String>,
}

/// The longest run, 100 days: it leaves room in the 213 days that [`Time`] can count.
pub const MAX_DURATION: Duration = Duration::from_secs(100 * 86_400);

/// How often rate, delay and outages of a link may change by schedule in a run.
pub const MAX_CHANGES: u64 = 10_000_000;

/// One direction of one link: a queue, a wire, a channel.
#[derive(Debug, Clone)]
pub struct LinkConfig {
    /// As results name it, `from->to`.
    pub name: Name,
    /// Propagation delay; where it changes, in the long run ([`ChangingDelay::mean`]).
    ///
    /// [`ChangingDelay::mean`]: windward_core::network::ChangingDelay::mean
    pub delay: Duration,
    /// All other settings, which equal links share.
    pub kind: Arc<LinkKind>,
}

/// The settings that many links share.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkKind {
    /// Bits per second of the wire: constant, a trace or a schedule.
    pub rate: LinkRate,
    /// The queue before the wire and the feedback its router gives.
    pub queue: QueueConfig,
    /// Losses of packets on the wire.
    pub channel: ChannelConfig,
    /// The notifier at the far end, which tells of corruption.
    pub notifier: NotifierConfig,
    /// Changes of delay, jitter, reordering, outages and retransmission on the link.
    pub impairments: Impairments,
}

impl LinkKind {
    /// The fraction of packets of `size` bytes that the wire loses in the long run, retransmission
    /// included as far as its attempts fail independently.
    pub fn loss_rate(&self, size: u32) -> f64 {
        self.impairments.residual_loss(self.channel.loss_rate(size))
    }
}

/// One flow: a transport connection or a stream of datagrams.
#[derive(Debug, Clone)]
pub struct FlowConfig {
    /// As results name it: the group and a number.
    pub name: Name,
    /// Index in [`Scenario::groups`].
    pub group: usize,
    /// The links data packets cross, in order; never empty.
    pub forward: Vec<LinkId>,
    /// The links acknowledgments cross; empty for datagrams.
    pub reverse: Vec<LinkId>,
    /// Where the flow's throughput is measured: the slowest link of `forward` unless the
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
    /// It starts at an instant drawn uniformly from this range, ends included.
    pub start: (Time, Time),
    /// The application stops offering data at this instant.
    pub stop: Option<Time>,
    /// The nodes of a general graph between which its data goes; other topologies have no names.
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
        /// If there are any, the flow is no connection but a pair of hosts, between which one
        /// opens for each transfer; `packets`, and when the flow starts and stops, mean nothing.
        arrivals: Option<Arc<Arrivals>>,
    },
    /// A connection of code that is not ours.
    Stack {
        /// The maker of its endpoints.
        stack: Arc<dyn Stack>,
        /// Its parameters, which the flows of a group share.
        config: Arc<StackConfig>,
        /// Bytes that the application transfers, or `None` for bulk: data never runs out.
        bytes: Option<u64>,
        /// As those of a transport; `bytes` means nothing beside them.
        arrivals: Option<Arc<Arrivals>>,
    },
    /// Datagrams at a constant rate while on.
    Datagrams {
        /// Size of a datagram on the wire, bytes.
        packet_size: u32,
        /// When it sends.
        pattern: Pattern,
    },
}

impl Traffic {
    /// Is it one connection, neither datagrams nor many that come and go?
    pub fn is_connection(&self) -> bool {
        !matches!(self, Traffic::Datagrams { .. }) && self.arrivals().is_none()
    }

    /// The process by which connections come, if it is one.
    pub fn arrivals(&self) -> Option<&Arrivals> {
        match self {
            Traffic::Transport { arrivals, .. } | Traffic::Stack { arrivals, .. } => {
                arrivals.as_deref()
            }
            Traffic::Datagrams { .. } => None,
        }
    }

    /// The router that it asks for, which is its class where links have queues by class.
    pub fn router(&self) -> RouterKind {
        match self {
            Traffic::Transport { protocol, .. } => protocol.router,
            Traffic::Stack { .. } | Traffic::Datagrams { .. } => RouterKind::Any,
        }
    }

    /// The name of its protocol in results; `datagrams` for datagrams.
    pub fn protocol_name(&self) -> &'static str {
        match self {
            Traffic::Transport { protocol, .. } => protocol.name,
            Traffic::Stack { stack, .. } => stack.facts().name,
            Traffic::Datagrams { .. } => "datagrams",
        }
    }
}

/// Live video at a constant target rate (RFC 8593 section 5, in its steady state). A frame leaves
/// in packets of the source's size, back to back, and one with the rest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Media {
    /// The target rate, bits on the wire.
    pub rate: Rate,
    /// Frames per second, on average; more than 0. A frame has at most [`Media::MAX_PACKETS`]
    /// packets on average.
    pub fps: f64,
    /// Scale of the Laplacian shares by which sizes of frames and times between them differ from
    /// their means, 0 to 1 (SCALE_B and SCALE_t, 0.15).
    pub variation: f64,
    /// How much longer than on idle links a frame may take and be in time.
    pub deadline: Duration,
    /// Time between two reports of the receiver (RTCP), for the circuit breaker of RFC 8083; more
    /// than 0.
    pub report_interval: Duration,
}

impl Media {
    /// The most packets of a mean frame.
    pub const MAX_PACKETS: f64 = 10_000.0;

    /// Are the values in their ranges, for packets of that size?
    ///
    /// # Errors
    /// The first value out of its range, as a sentence without a capital or a full stop.
    pub fn validate(&self, packet_size: u32) -> Result<(), String> {
        if !(self.fps.is_finite() && self.fps > 0.0) {
            return Err(format!("{} frames per second", self.fps));
        }
        if !(0.0..=1.0).contains(&self.variation) {
            return Err(format!("a variation of {} is not from 0 to 1", self.variation));
        }
        if self.report_interval.is_zero() {
            return Err("reports without an interval".to_owned());
        }
        let packets = self.rate.bytes_per_s() / self.fps / f64::from(packet_size);
        if packets > Self::MAX_PACKETS {
            let most = Self::MAX_PACKETS;
            return Err(format!("a frame has {packets:.0} packets, more than {most}"));
        }
        Ok(())
    }
}

/// When a datagram source sends.
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
    Media(Media),
    /// At given rates during given intervals, in order and without overlap.
    Schedule {
        /// `(from, until, rate)`.
        intervals: Vec<(Time, Time, Rate)>,
    },
}
