//! A scenario: what the engine runs. [`mod@file`] turns what people write into one.
//!
//! Everything here is resolved: names have become indices, routes are lists of links and
//! every default is filled in.

use std::sync::Arc;

use windward_core::endpoint::EndpointConfig;
use windward_core::network::{ChannelSpec, LinkRate, NotifierSpec, QueueSpec, RouterKind};
use windward_core::protocols::Protocol;
use windward_core::units::{Duration, Rate, Time};

use crate::name::Name;

mod cost;
pub mod file;
mod validate;

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
    pub links: Vec<LinkSpec>,
    /// Flows of every kind.
    pub flows: Vec<FlowSpec>,
    /// Names of the groups that [`FlowSpec::group`] points to.
    pub groups: Vec<String>,
    /// What is allowed and yet hardly meant, a sentence each, for people to read.
    pub warnings: Vec<String>,
}

/// The longest run, 100 days: it leaves room in the 213 days that [`Time`] can count.
pub const MAX_DURATION: Duration = Duration::from_secs(100 * 86_400);

/// One direction of one link: a queue, a wire, a channel.
#[derive(Debug, Clone)]
pub struct LinkSpec {
    /// As results name it, `from->to`.
    pub name: Name,
    /// Propagation delay.
    pub delay: Duration,
    /// All else, which links that are alike share.
    pub kind: Arc<LinkKind>,
}

/// What many links have in common.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkKind {
    /// Bits per second of the wire, constant or as a trace says.
    pub rate: LinkRate,
    /// The queue before the wire and the feedback its router gives.
    pub queue: QueueSpec,
    /// What the wire does to packets.
    pub channel: ChannelSpec,
    /// What at the far end knows of that.
    pub notifier: NotifierSpec,
}

/// One flow: a transport connection or a stream of datagrams.
#[derive(Debug, Clone)]
pub struct FlowSpec {
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
    /// All else, which the flows of a group share.
    pub kind: Arc<FlowKind>,
}

/// What many flows have in common.
#[derive(Debug, Clone)]
pub struct FlowKind {
    /// What a flow sends.
    pub traffic: Traffic,
    /// It starts at an instant drawn uniformly from this range, ends included.
    pub start: (Time, Time),
    /// The application stops offering data at this instant.
    pub stop: Option<Time>,
}

/// What a flow sends.
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
    /// What it asks of routers, which is its class where queues are kept by class.
    pub fn router(&self) -> RouterKind {
        match self {
            Traffic::Transport { protocol, .. } => protocol.router,
            Traffic::Datagrams { .. } => RouterKind::Any,
        }
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
    /// At given rates during given intervals, in order and without overlap.
    Schedule {
        /// `(from, until, rate)`.
        intervals: Vec<(Time, Time, Rate)>,
    },
}
