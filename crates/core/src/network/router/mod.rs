//! The routers' half of explicit feedback: a router counts packets and writes into them.
//!
//! A router is one file here: a state machine that implements [`Router`], its parameters, and its
//! description ([`Part`]). A line in the list below makes it available in scenario files.

mod congestion_warning;
mod ecn_threshold;
pub mod estcp;
mod forged;
mod none;
mod xcp;
mod xtcp;

pub use congestion_warning::{CongestionWarning, CongestionWarningConfig};
pub use ecn_threshold::EcnThreshold;
pub use estcp::{EstcpPhase, EstcpRouterConfig, Gamma, TrafficController};
pub use forged::{ForgedMarks, ForgedMarksConfig, ForgingRouter};
pub use none::NoRouter;
pub use xcp::{XcpRouter, XcpRouterConfig};
pub use xtcp::CongestionCounter;

use std::fmt::Debug;

use super::aqm::{Backlog, QueueSetup};
use crate::packet::Packet;
use crate::part::{CustomPart, Part, Plain, axis, behaviour};
use crate::units::{Rate, Time};

axis! {
    $ each each_kind;
    /// A router with its parameters.
    config RouterConfig;
    /// The state of a router.
    state RouterState;
    @make RouterPart(&QueueSetup<'_>);
    @custom dyn MakeRouter => Box<dyn Router + Send + Sync> =
        |maker: &dyn MakeRouter, setup: &QueueSetup<'_>| maker.make(setup);
    None: NoRouter,
    Xcp: XcpRouter => Box,
    Xtcp: CongestionCounter,
    EcnThreshold: EcnThreshold,
    Estcp: TrafficController => Box,
    Warning: CongestionWarning => Box,
    Forged: ForgingRouter,
}

impl RouterConfig {
    /// True if it marks packets by ECN (RFC 3168), as any transport with ECN understands.
    pub fn marks(&self) -> bool {
        each_kind!(self, P(_) => <P as RouterPart>::MARKS, custom(router) => router.marks())
    }
    /// True if packets must be held until they leave. Otherwise a [`super::FifoLink`] is enough.
    pub fn acts_on_departure(&self) -> bool {
        each_kind!(
            self,
            P(_) => <P as RouterPart>::ACTS_ON_DEPARTURE,
            custom(router) => router.acts_on_departure()
        )
    }
    /// True if it gives the feedback of protocols that require `kind`.
    pub fn serves(&self, kind: RouterKind) -> bool {
        each_kind!(
            self,
            P(_) => <P as RouterPart>::serves(kind),
            custom(router) => router.serves(kind)
        )
    }
}

impl Default for RouterConfig {
    /// A router that writes nothing.
    fn default() -> Self {
        RouterConfig::None(Plain)
    }
}

/// The feedback that a protocol requires of the routers on its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouterKind {
    /// No feedback, from any queue.
    Any,
    /// XCP (Katabi et al. 2002; draft-falk-xcp-spec-03).
    Xcp,
    /// XCP with a small standing queue (lr2008 section 7.2).
    XcpPersistent,
    /// The congestion counter of XTCP (lr2008 section 3.2).
    Xtcp,
    /// Marks above a threshold of the queue (RFC 8257 section 3.1).
    EcnThreshold,
    /// The traffic controller of ESTCP (estcp2010).
    Estcp,
    /// The congestion warning of TCP New Jersey (Xu et al. 2005).
    CongestionWarning,
}

impl RouterKind {
    /// The name in scenario files.
    pub const fn name(self) -> &'static str {
        match self {
            RouterKind::Any => "none",
            RouterKind::Xcp => "xcp",
            RouterKind::XcpPersistent => "xcp-persistent",
            RouterKind::Xtcp => "xtcp",
            RouterKind::EcnThreshold => "ecn-threshold",
            RouterKind::Estcp => "estcp",
            RouterKind::CongestionWarning => "cw",
        }
    }
    /// Every kind, in the order of the documentation.
    pub const ALL: [RouterKind; 7] = [
        RouterKind::Any,
        RouterKind::Xcp,
        RouterKind::XcpPersistent,
        RouterKind::Xtcp,
        RouterKind::EcnThreshold,
        RouterKind::Estcp,
        RouterKind::CongestionWarning,
    ];

    /// The router with its published parameters.
    pub fn spec(self) -> RouterConfig {
        RouterConfig::named(self.name()).unwrap_or_default()
    }
}

behaviour! {
    /// The router of one queue. The default methods do nothing. The link counts marks: a method
    /// that may mark returns true if it has.
    pub trait Router: Debug {
        /// Handles a packet that arrives at `queue`, which may drop it. Returns true if it was
        /// marked.
        @forward(inline)
        fn on_arrival(&mut self, now: Time, queue: &Backlog<'_>, packet: &mut Packet) -> bool =
            false;
        /// Handles a packet that joins `queue`, given without it. Returns true if it was marked.
        @forward(inline)
        fn on_enqueue(&mut self, now: Time, queue: &Backlog<'_>, packet: &mut Packet) -> bool =
            false;
        /// Handles a drop, on arrival or from `queue`, given without the packet.
        fn on_drop(&mut self, now: Time, queue: &Backlog<'_>, packet: &Packet) = ();
        /// Handles a packet that leaves `queue`, given without it. Returns true if it was marked.
        @forward(inline)
        fn on_departure(&mut self, now: Time, queue: &Backlog<'_>, packet: &mut Packet) -> bool =
            false;
        /// The time at which [`Router::on_timer`] must be called next.
        @forward(inline)
        fn next_timer(&self) -> Time = Time::NEVER;
        /// Handles the end of an interval.
        fn on_timer(&mut self, now: Time, queue: &Backlog<'_>) = ();
        /// Handles a new rate: the queue may expect `share` of the wire. Everything due by `now`
        /// has been done.
        fn on_rate(&mut self, now: Time, share: Rate) = ();
        /// The value that it signals now, if it is a single number.
        fn signal(&self) -> Option<f64> = None;
        /// The traffic controller, if this is the router of ESTCP.
        fn traffic_controller(&self) -> Option<&TrafficController> = None;
    }
    impl for RouterState, by each;
}

/// A router of this crate, with its properties that do not depend on a queue.
pub trait RouterPart: Part + Router + Sized {
    /// The router before it has seen any traffic.
    fn new(config: &Self::Config, setup: &QueueSetup<'_>) -> Self;
    /// True if it marks packets by ECN (RFC 3168), as any transport with ECN understands.
    const MARKS: bool = false;
    /// True if it acts when packets leave, or on drops or timers. Only if this is false may a
    /// [`super::FifoLink`] use it, which only calls [`Router::on_enqueue`], and not for a packet
    /// that finds the wire free.
    const ACTS_ON_DEPARTURE: bool;
    /// True if it gives the feedback of protocols that require `kind`. Protocols that require marks
    /// or nothing work with any router.
    fn serves(kind: RouterKind) -> bool {
        matches!(kind, RouterKind::Any | RouterKind::EcnThreshold)
    }
}

/// Constructor of a router from another crate: [`RouterConfig::Custom`].
pub trait MakeRouter: CustomPart {
    /// The router before it has seen any traffic.
    fn make(&self, setup: &QueueSetup<'_>) -> Box<dyn Router + Send + Sync>;
    /// See [`RouterPart::MARKS`].
    fn marks(&self) -> bool {
        false
    }
    /// See [`RouterPart::ACTS_ON_DEPARTURE`].
    fn acts_on_departure(&self) -> bool {
        true
    }
    /// See [`RouterPart::serves`].
    fn serves(&self, kind: RouterKind) -> bool {
        let _ = kind;
        true
    }
}
