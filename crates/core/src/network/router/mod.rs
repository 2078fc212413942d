//! Router halves of explicit feedback: what a router counts and writes into packets.

mod congestion_warning;
mod ecn_threshold;
pub mod estcp;
mod xcp;
mod xtcp;

pub use congestion_warning::{CongestionWarning, WarningSpec};
pub use ecn_threshold::EcnThreshold;
pub use estcp::{EstcpSpec, Gamma, Phase, TrafficController};
pub use xcp::{XcpRouter, XcpSpec};
pub use xtcp::CongestionCounter;

use super::QueueLimit;
use crate::rng::Stream;
use crate::units::Rate;

/// What a protocol asks of the routers on its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouterKind {
    /// Nothing: any queue will do.
    Any,
    /// XCP (Katabi et al. 2002; draft-falk-xcp-spec-03).
    Xcp,
    /// XCP that keeps a small queue on purpose (lr2008 section 7.2).
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
    pub fn spec(self) -> RouterSpec {
        match self {
            RouterKind::Any => RouterSpec::None,
            RouterKind::Xcp => RouterSpec::Xcp(XcpSpec::default()),
            RouterKind::XcpPersistent => RouterSpec::Xcp(XcpSpec::persistent()),
            RouterKind::Xtcp => RouterSpec::Xtcp,
            RouterKind::EcnThreshold => RouterSpec::EcnThreshold(EcnThreshold::default()),
            RouterKind::Estcp => RouterSpec::Estcp(EstcpSpec::default()),
            RouterKind::CongestionWarning => RouterSpec::Warning(WarningSpec::default()),
        }
    }
}

/// A router with its parameters.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum RouterSpec {
    /// Writes nothing.
    #[default]
    None,
    /// XCP, with or without a persistent queue.
    Xcp(XcpSpec),
    /// XTCP's congestion counter.
    Xtcp,
    /// Marks above a threshold.
    EcnThreshold(EcnThreshold),
    /// ESTCP's traffic controller.
    Estcp(EstcpSpec),
    /// New Jersey's congestion warning.
    Warning(WarningSpec),
}

impl RouterSpec {
    /// Must packets be held until they leave, because what it writes depends on that moment? If
    /// not, a [`super::FifoLink`] will do. (New Jersey's average is kept by a
    /// [`super::QueuedLink`] too, although its marks are made on arrival.)
    pub fn acts_on_departure(&self) -> bool {
        match self {
            RouterSpec::None | RouterSpec::EcnThreshold(_) => false,
            RouterSpec::Xcp(_)
            | RouterSpec::Xtcp
            | RouterSpec::Estcp(_)
            | RouterSpec::Warning(_) => true,
        }
    }
}

/// The state of a router that writes feedback.
#[derive(Debug, Clone)]
pub enum Router {
    /// See [`XcpRouter`].
    Xcp(Box<XcpRouter>),
    /// See [`CongestionCounter`].
    Xtcp(CongestionCounter),
    /// See [`EcnThreshold`].
    EcnThreshold(EcnThreshold),
    /// See [`TrafficController`].
    Estcp(Box<TrafficController>),
    /// See [`CongestionWarning`].
    Warning(CongestionWarning),
}

impl Router {
    /// The router described by `spec` in front of a wire of the given rate, behind a queue of that
    /// limit, if it writes feedback at all. `seed` and `name` choose its random numbers, for those
    /// that use some.
    pub fn new(
        spec: &RouterSpec,
        rate: Rate,
        limit: QueueLimit,
        seed: u64,
        name: &str,
    ) -> Option<Router> {
        match spec {
            RouterSpec::None => None,
            RouterSpec::Xcp(xcp) => Some(Router::Xcp(Box::new(XcpRouter::new(*xcp, rate)))),
            RouterSpec::Xtcp => Some(Router::Xtcp(CongestionCounter::default())),
            RouterSpec::EcnThreshold(threshold) => Some(Router::EcnThreshold(*threshold)),
            RouterSpec::Estcp(estcp) => {
                let marks = Stream::new(seed, "estcp", name);
                Some(Router::Estcp(Box::new(TrafficController::new(*estcp, limit, marks))))
            }
            RouterSpec::Warning(spec) => Some(Router::Warning(CongestionWarning::new(*spec))),
        }
    }
}
