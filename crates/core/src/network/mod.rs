//! The network between two ends: queues, routers that give feedback, channels that lose packets.
//!
//! A directed link is a [`QueueConfig`] before a wire with a [`ChannelConfig`]. Types whose names
//! end in `Config` are plain descriptions, from which state machines are made.

pub mod aqm;
mod cell;
pub mod channel;
pub mod impairment;
pub mod link;
pub mod medium;
mod notifier;
mod rate_trace;
pub mod router;
mod scheduler;
mod trace_error;

pub use aqm::{AqmConfig, RedConfig};
pub use cell::CellConfig;
pub use channel::{ChainClock, Channel, ChannelConfig, MakeChannel};
pub use impairment::{
    ArqConfig, ChangingDelay, DelaySteps, Distribution, During, Impairments, JitterConfig,
    Lateness, OutageConfig, Outages, ReorderConfig, Steps,
};
pub use link::{ClassConfig, Departure, Fate, FifoLink, Link, Packets, QueuedLink};
pub use medium::{Medium, MediumConfig, Transmission};
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
    /// Its capacity, without the packet in transmission.
    pub limit: QueueLimit,
    /// The AQM, which decides which packets are dropped or marked.
    pub aqm: AqmConfig,
    /// The router, which writes feedback into packets.
    pub router: RouterConfig,
    /// One queue for each class of protocols, served in turn; empty for a single queue. With
    /// classes the fields above are only defaults for those of the classes.
    pub classes: Vec<ClassConfig>,
}

/// The capacity of a queue, without the packet in transmission.
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
