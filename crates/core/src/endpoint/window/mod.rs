//! Axis 1: how the congestion window grows and shrinks.
//!
//! A law owns `cwnd` and what it needs to move it. It hears of acknowledgments, of congestion, of
//! losses that are none and of connection resets: what is lost and what to send next is the
//! business of recovery. A law that sets the pace itself also hears of delivery-rate samples and
//! of each transmission found lost.

mod bbr;
mod cubic;
mod dctcp;
mod estcp;
mod new_jersey;
mod reno;
mod veno;
mod westwood;
mod xcp;
mod xcp_r;
mod xtcp;

pub use estcp::{EstcpConfig, PhaseCut};
pub use new_jersey::NewJerseyConfig;
pub use westwood::WestwoodConfig;

use super::EndpointConfig;
use super::estimator::{BandwidthKind, LostPacket, Path, RateSample};
use crate::packet::{CongestionHeader, Flags, Packet};
use crate::rng::Stream;
use crate::units::{Probability, Time};

use bbr::Bbr;
use cubic::Cubic;
use dctcp::Dctcp;
use estcp::Estcp;
use new_jersey::NewJersey;
use reno::Reno;
use veno::Veno;
use westwood::Westwood;
use xcp::Xcp;
use xcp_r::XcpR;
use xtcp::Xtcp;

/// The window laws by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowLaw {
    /// AIMD(1, 1/2) with slow start (RFC 5681).
    Reno,
    /// CUBIC (RFC 9438).
    Cubic,
    /// Reno's growth; after congestion the bandwidth estimate times RTTmin.
    Westwood {
        /// Which estimate, unless a scenario says otherwise.
        bandwidth: BandwidthKind,
    },
    /// Reno with its growth halved while packets wait at the bottleneck (Fu and Liew 2003).
    Veno,
    /// Dynamic AIMD, paced and synchronised by a traffic controller (estcp2010).
    Estcp,
    /// Reno's growth; after congestion the bandwidth estimated from arrival times at the receiver.
    NewJersey,
    /// The window follows the feedback of XCP routers.
    Xcp {
        /// Does the feedback on duplicate acknowledgments count?
        heeds_duplicates: bool,
    },
    /// The window is the one that the receiver computes (xcpr2005 section IV).
    XcpR,
    /// AIMD on a congestion flag (lr2008 section 3.2).
    Xtcp {
        /// Artificial back-off where TCP would time out (lr2008 section 8.1).
        tcp_friendly: bool,
    },
    /// A decrease in proportion to the share of marked packets (RFC 8257).
    Dctcp,
    /// A rate and a window from a model of the path (draft-ietf-ccwg-bbr).
    Bbr,
}

impl WindowLaw {
    /// The bandwidth estimate that the law, or the discrimination beside it, goes by.
    pub fn bandwidth(self, config: &EndpointConfig) -> Option<BandwidthKind> {
        match self {
            WindowLaw::Westwood { bandwidth } => {
                Some(config.westwood.estimator.unwrap_or(bandwidth))
            }
            WindowLaw::Reno
            | WindowLaw::Cubic
            | WindowLaw::Veno
            | WindowLaw::Estcp
            | WindowLaw::NewJersey
            | WindowLaw::Xcp { .. }
            | WindowLaw::XcpR
            | WindowLaw::Xtcp { .. }
            | WindowLaw::Dctcp
            | WindowLaw::Bbr => None,
        }
    }

    /// Does it go by delivery-rate samples and set the pace itself?
    pub fn is_rate_based(self) -> bool {
        self == WindowLaw::Bbr
    }
}

/// An acknowledgment, as a window law sees it. Sequence numbers and windows in packets.
#[derive(Debug, Clone, Copy, Default)]
pub struct AckEvent {
    /// The path, this acknowledgment included.
    pub path: Path,
    /// Packets it acknowledged for the first time; 0 for a duplicate.
    pub newly_acked: u64,
    /// Is loss recovery repairing a window for which the law was already told of congestion?
    pub in_recovery: bool,
    /// Was the congestion window what kept the sender from sending more?
    pub cwnd_limited: bool,
    /// The first packet not acknowledged (lack + 1).
    pub una: u64,
    /// One past the highest packet ever sent.
    pub high: u64,
    /// When the packet that triggered it was sent.
    pub sent: Time,
    /// The number of that transmission.
    pub packet_seq: u64,
    /// The bits it echoes.
    pub flags: Flags,
    /// What routers wrote, as it is echoed.
    pub header: CongestionHeader,
}

impl AckEvent {
    /// May a window grow on it as TCP's does: on new data, outside loss recovery, and only where
    /// cwnd is what limits the sender (RFC 5681 section 4.1 in spirit; RFC 7661)?
    #[inline]
    pub fn allows_growth(&self) -> bool {
        self.newly_acked > 0 && !self.in_recovery && self.cwnd_limited
    }
}

/// Congestion, as a window law hears of it; at most once per window.
#[derive(Debug, Clone, Copy)]
pub struct CongestionEvent {
    /// The path when it was noticed.
    pub path: Path,
    /// How likely the cause was congestion.
    pub probability: Probability,
}

/// The recovery timer expired: the connection starts again.
#[derive(Debug, Clone, Copy)]
pub struct ResetEvent {
    /// The path before the reset.
    pub path: Path,
    /// Had the timer expired before without a new acknowledgment in between?
    pub repeated: bool,
    /// How likely the cause was congestion.
    pub probability: Probability,
    /// Does the probability decide over cwnd too? Else it becomes one packet.
    pub keeps_window: bool,
}

/// The state of a window law.
#[derive(Debug, Clone)]
pub enum Window {
    /// See [`WindowLaw::Reno`].
    Reno(Reno),
    /// See [`WindowLaw::Cubic`].
    Cubic(Cubic),
    /// See [`WindowLaw::Westwood`].
    Westwood(Westwood),
    /// See [`WindowLaw::Veno`].
    Veno(Veno),
    /// See [`WindowLaw::Estcp`].
    Estcp(Estcp),
    /// See [`WindowLaw::NewJersey`].
    NewJersey(NewJersey),
    /// See [`WindowLaw::Xcp`].
    Xcp(Xcp),
    /// See [`WindowLaw::XcpR`].
    XcpR(XcpR),
    /// See [`WindowLaw::Xtcp`].
    Xtcp(Xtcp),
    /// See [`WindowLaw::Dctcp`].
    Dctcp(Dctcp),
    /// See [`WindowLaw::Bbr`].
    Bbr(Box<Bbr>),
}

/// Calls the same method on whichever law it is.
macro_rules! each {
    ($self:expr, $law:pat => $call:expr) => {
        match $self {
            Window::Reno($law) => $call,
            Window::Cubic($law) => $call,
            Window::Westwood($law) => $call,
            Window::Veno($law) => $call,
            Window::Estcp($law) => $call,
            Window::NewJersey($law) => $call,
            Window::Xcp($law) => $call,
            Window::XcpR($law) => $call,
            Window::Xtcp($law) => $call,
            Window::Dctcp($law) => $call,
            Window::Bbr($law) => $call,
        }
    };
}

impl Window {
    /// The law's state at the start of a connection. `stream` is for those that flip coins.
    pub fn new(law: WindowLaw, config: &EndpointConfig, stream: Stream) -> Self {
        match law {
            WindowLaw::Reno => Window::Reno(Reno::new(config)),
            WindowLaw::Cubic => Window::Cubic(Cubic::new(config)),
            WindowLaw::Westwood { .. } => Window::Westwood(Westwood::new(config)),
            WindowLaw::Veno => Window::Veno(Veno::new(config)),
            WindowLaw::Estcp => Window::Estcp(Estcp::new(config)),
            WindowLaw::NewJersey => Window::NewJersey(NewJersey::new(config)),
            WindowLaw::Xcp { heeds_duplicates } => Window::Xcp(Xcp::new(config, heeds_duplicates)),
            WindowLaw::XcpR => Window::XcpR(XcpR::new(config)),
            WindowLaw::Xtcp { tcp_friendly } => Window::Xtcp(Xtcp::new(config, tcp_friendly)),
            WindowLaw::Dctcp => Window::Dctcp(Dctcp::new(config)),
            WindowLaw::Bbr => Window::Bbr(Box::new(Bbr::new(config, stream))),
        }
    }

    /// The congestion window, packets; at least 1.
    pub fn cwnd(&self) -> f64 {
        each!(self, law => law.cwnd())
    }
    /// The slow start threshold, packets; infinite where the law has none.
    pub fn ssthresh(&self) -> f64 {
        match self {
            Window::Reno(law) => law.ssthresh(),
            Window::Cubic(law) => law.ssthresh(),
            Window::Westwood(law) => law.ssthresh(),
            Window::Veno(law) => law.ssthresh(),
            Window::Estcp(law) => law.ssthresh(),
            Window::NewJersey(law) => law.ssthresh(),
            Window::Xtcp(law) => law.ssthresh(),
            Window::Dctcp(law) => law.ssthresh(),
            Window::Xcp(_) | Window::XcpR(_) | Window::Bbr(_) => f64::INFINITY,
        }
    }
    /// The shifts of phase that the law heard of, in order; none but with [`WindowLaw::Estcp`].
    pub fn phase_cuts(&self) -> &[PhaseCut] {
        match self {
            Window::Estcp(law) => law.cuts(),
            _ => &[],
        }
    }
    /// An acknowledgment arrived.
    pub fn on_ack(&mut self, ack: &AckEvent) {
        each!(self, law => law.on_ack(ack));
    }
    /// Congestion was noticed through a loss or an ECN mark.
    pub fn on_congestion(&mut self, event: &CongestionEvent) {
        each!(self, law => law.on_congestion(event));
    }
    /// A loss was noticed, by acknowledgments or a timeout, that is certainly no congestion.
    pub fn on_error_loss(&mut self, path: &Path) {
        if let Window::Westwood(law) = self {
            law.on_error_loss(path);
        }
    }
    /// A data packet is about to leave, its congestion header stamped: what the law itself has to
    /// tell the receiver. `limited` says whether cwnd is what keeps the sender from sending more.
    #[inline]
    pub fn announce(&mut self, packet: &mut Packet, limited: bool) {
        if let Window::XcpR(law) = self {
            law.announce(packet, limited);
        }
    }
    /// The recovery timer expired.
    pub fn on_reset(&mut self, event: &ResetEvent) {
        each!(self, law => law.on_reset(event));
    }

    /// The pace, packets per second, of a law that sets it itself.
    pub fn pacing_rate(&self) -> Option<f64> {
        match self {
            Window::Bbr(law) => Some(law.pacing_rate()),
            _ => None,
        }
    }
    /// A transmission was found lost, for laws that go by delivery-rate samples.
    pub fn on_lost(&mut self, packet: &LostPacket, now: Time) {
        if let Window::Bbr(law) = self {
            law.on_lost(packet, now);
        }
    }
    /// All losses since the last reduction were none: what they changed is undone.
    pub fn on_spurious_losses(&mut self) {
        if let Window::Bbr(law) = self {
            law.on_spurious_losses();
        }
    }
    /// An acknowledgment gave a delivery-rate sample. Returns whether what is sent from now on is
    /// to count as limited by the application, because the law itself holds it back.
    pub fn on_rate_sample(&mut self, sample: &RateSample) -> bool {
        match self {
            Window::Bbr(law) => law.on_rate_sample(sample),
            _ => false,
        }
    }
    /// A packet is about to leave after the application let the connection run empty.
    pub fn on_restart_from_idle(&mut self, now: Time) {
        if let Window::Bbr(law) = self {
            law.on_restart_from_idle(now);
        }
    }
}
