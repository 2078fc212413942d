//! What a packet meets on its way: queues, routers that give feedback, channels that lose.
//!
//! A directed link is a [`QueueConfig`] before a wire with a [`ChannelConfig`]. The types ending
//! in `Spec` are plain descriptions; each builds the state machine that does the work.

use crate::part::Custom;
use crate::units::{Duration, Probability};

pub mod aqm;
pub mod channel;
pub mod impairment;
pub mod link;
mod notifier;
mod rate_trace;
pub mod router;
mod scheduler;
mod trace_error;

pub use aqm::{AqmConfig, RedConfig};
pub use channel::{Channel, MakeChannel};
pub use impairment::{
    ArqConfig, ChangingDelay, DelaySteps, Distribution, During, Impairments, JitterConfig,
    Lateness, OutageConfig, Outages, ReorderConfig, Steps,
};
pub use link::{ClassConfig, Departure, Fate, FifoLink, Link, Packets, QueuedLink};
pub use notifier::{ErrorMeter, Notifier, NotifierConfig};
pub use rate_trace::{LinkRate, RateSteps, RateTrace};
pub use router::{
    CongestionWarningConfig, EcnThreshold, EstcpRouterConfig, Gamma, RouterConfig, RouterKind,
    XcpRouterConfig,
};
pub use trace_error::TraceError;

/// The queue before a wire; by default DropTail with room for 50 packets.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QueueConfig {
    /// How much may wait, the packet in transmission not counted.
    pub limit: QueueLimit,
    /// Which packets are dropped or marked.
    pub aqm: AqmConfig,
    /// The feedback the router writes into packets.
    pub router: RouterConfig,
    /// A queue a class of protocols, served in turn; empty for one queue for all. With classes the
    /// fields above describe nothing but the defaults of theirs.
    pub classes: Vec<ClassConfig>,
}

/// Capacity of a queue; the packet in transmission is not part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueLimit {
    /// Whole packets of any size, at least one.
    Packets(u32),
    /// Bytes on the wire, at least one packet's worth.
    Bytes(u64),
}

impl Default for QueueLimit {
    /// 50 packets, as in ns-2.
    fn default() -> Self {
        QueueLimit::Packets(50)
    }
}

/// What a wire does to the packets it carries.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum ChannelConfig {
    /// Nothing.
    #[default]
    Clean,
    /// Each packet is lost with this probability, independently.
    PacketLoss(Probability),
    /// Each bit is inverted with this probability, independently: a packet of n bits is lost
    /// with probability 1 - (1 - ber)^n.
    BitErrors(Probability),
    /// Loss events that destroy several consecutive packets each (lr2008 section 7.4).
    Bursts {
        /// Probability that a packet outside a burst begins one. The loss rate the paper plots
        /// is `event` times `length`.
        event: Probability,
        /// Packets destroyed by one event, at least 1.
        length: u32,
        /// Are the consecutive packets those of one flow, or any packets of the link?
        per_flow: bool,
    },
    /// From another crate.
    Custom(Custom<dyn MakeChannel>),
    /// The Gilbert-Elliott chain of a good and a bad state.
    GilbertElliott {
        /// What makes the chain move.
        clock: ChainClock,
        /// Loss probability of a packet in the good state.
        loss_good: Probability,
        /// Loss probability of a packet in the bad state.
        loss_bad: Probability,
    },
}

/// What drives the two-state chain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ChainClock {
    /// One step a packet, as netem's `gemodel p r`.
    Packets {
        /// Probability of good to bad at each packet.
        to_bad: Probability,
        /// Probability of bad to good at each packet.
        to_good: Probability,
    },
    /// Exponential sojourns in virtual time.
    Time {
        /// Mean time in the good state, positive.
        mean_good: Duration,
        /// Mean time in the bad state, positive.
        mean_bad: Duration,
    },
}
