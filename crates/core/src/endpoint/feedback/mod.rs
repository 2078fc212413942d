//! Axis 4, the end-host half: what packets carry and acknowledgments echo.
//!
//! The sender stamps a header onto data packets ([`FeedbackPart::stamp`]), routers rewrite it, and the
//! receiver's [`Echo`] carries it back on the next acknowledgment.

mod corruption;
mod estcp;
mod exact_ecn;
mod flag;
mod help;
mod l4s;
mod none;
mod notification;
mod timestamps;
mod xcp;
mod xcp_r;

pub use estcp::EstcpConfig;
pub(crate) use estcp::UNWRITTEN as ESTCP_UNWRITTEN;
pub use notification::{Direction, Granularity, News, Notice, Notification, REPORT_INTERVAL};
pub(crate) use xcp::stamp as stamp_xcp;
pub use xcp_r::{CongestionFlag, Formula, XcpRConfig};

use std::fmt::Debug;

use super::EndpointConfig;
use crate::network::RouterKind;
use crate::packet::{CongestionHeader, Flags, Packet};
use crate::part::{Part, axis, behaviour};
use crate::units::{Duration, Time};

behaviour! {
    /// The receiver's half of a kind of feedback at work; the sender's has no state.
    pub trait Feedback: Debug {
        /// A data packet arrived.
        @forward(inline)
        fn on_data(&mut self, now: Time, packet: &Packet) = ();
        /// Must delayed acknowledgments be sent before `packet` is taken in, because its mark
        /// differs (RFC 8257 section 3.2)?
        @forward(inline)
        fn turns(&self, packet: &Packet) -> bool = false;
        /// A data packet arrived of which only the header is intact.
        fn on_corrupted(&mut self, packet: &Packet) = ();
        /// Writes the echo into an acknowledgment, which has no congestion header before.
        fn write(&mut self, ack: &mut Packet) = ();
    }
    impl for FeedbackState, by each;
}

/// A kind of feedback of this crate: the sender's half, and what must be known of it before there
/// is a connection.
pub trait FeedbackPart: Part + Feedback + Sized {
    /// Does it deal with ECN marks itself? If not, the receiver echoes each until the sender says
    /// that it has reduced its window (RFC 3168 section 6.1.3).
    const ECHOES_MARKS: bool = false;
    /// Do data packets carry something of it ([`FeedbackPart::stamp`])?
    const STAMPS: bool = true;

    /// The feedback that it asks of the routers on its path.
    fn router(_config: &Self::Config) -> RouterKind {
        RouterKind::Any
    }
    /// The news of corruption that it asks of notifiers, if any.
    fn notification(_config: &Self::Config) -> Option<Notification> {
        None
    }
    /// Completes the header of a data packet sent with a window of `window` packets, which has no
    /// congestion header before.
    #[inline]
    fn stamp(_config: &Self::Config, _packet: &mut Packet, _srtt: Duration, _window: f64) {}
    /// The receiver's half at the start of a connection.
    fn new(config: &Self::Config, endpoint: &EndpointConfig) -> Self;
}

axis! {
    $ each each_kind;
    /// What packets carry and acknowledgments echo, by name, with its parameters.
    config FeedbackConfig;
    /// The receiver's half of it.
    state FeedbackState;
    @make FeedbackPart(&EndpointConfig);
    None: none::NoFeedback,
    Xcp: xcp::Xcp,
    XcpR: xcp_r::ReceiverWindow => Box,
    CongestionFlag: flag::Flag,
    ExactEcn: exact_ecn::ExactEcn,
    L4s: l4s::L4s,
    Estcp: estcp::Field => Box,
    EstcpBits: estcp::Bits => Box,
    Timestamps: timestamps::Timestamps,
    CongestionWarning: timestamps::CongestionWarning => Box,
    Corruption: corruption::Corruption => Box,
    Help: help::Help => Box,
}

impl FeedbackConfig {
    /// Does it deal with ECN marks itself, or is there none to deal with?
    pub fn echoes_marks(&self) -> bool {
        each_kind!(self, S(_) => <S as FeedbackPart>::ECHOES_MARKS)
    }
    /// Do data packets carry something of it?
    pub fn stamps(&self) -> bool {
        each_kind!(self, S(_) => <S as FeedbackPart>::STAMPS)
    }
    /// What it asks of the routers on its path.
    pub fn router(&self) -> RouterKind {
        each_kind!(self, S(config) => <S as FeedbackPart>::router(config))
    }
    /// What notifiers tell of corruption, if they tell this protocol anything.
    pub fn notification(&self) -> Option<Notification> {
        each_kind!(self, S(config) => <S as FeedbackPart>::notification(config))
    }
    /// Writes the header of a data packet sent with a window of `window` packets.
    #[inline]
    pub fn stamp(&self, packet: &mut Packet, srtt: Duration, window: f64) {
        packet.header = CongestionHeader::None;
        each_kind!(self, S(config) => <S as FeedbackPart>::stamp(config, packet, srtt, window));
    }
}

/// What a receiver owes the sender until its next acknowledgment.
#[derive(Debug)]
pub struct Echo {
    half: FeedbackState,
    /// Is every mark echoed until the sender says it has reduced its window?
    classic: bool,
    marked: bool,
}

impl Echo {
    /// The receiver's half of a protocol with that feedback.
    pub fn new(feedback: &FeedbackConfig, endpoint: &EndpointConfig) -> Self {
        let half = feedback.make(endpoint);
        Echo { half, classic: !feedback.echoes_marks(), marked: false }
    }

    /// A data packet arrived.
    pub fn on_data(&mut self, now: Time, packet: &Packet) {
        self.half.on_data(now, packet);
        self.note_mark(packet.flags);
    }

    /// A data packet arrived, and becomes its own acknowledgment: [`Echo::on_data`] and
    /// [`Echo::write`] in one.
    #[inline]
    pub fn answer(&mut self, now: Time, packet: &mut Packet) {
        let flags = packet.flags;
        each!(&mut self.half, half => {
            half.on_data(now, packet);
            packet.flags = Flags::NONE;
            packet.header = CongestionHeader::None;
            half.write(packet);
        });
        self.note_mark(flags);
        if self.marked {
            packet.flags.insert(Flags::ECN_ECHO);
        }
    }

    /// RFC 3168 section 6.1.3, where a data packet came with these flags.
    #[inline]
    fn note_mark(&mut self, flags: Flags) {
        const NEWS: Flags = Flags::CONGESTION_EXPERIENCED.with(Flags::WINDOW_REDUCED);
        if flags.bits() & NEWS.bits() != 0 && self.classic {
            let stays = self.marked && !flags.contains(Flags::WINDOW_REDUCED);
            self.marked = stays || flags.contains(Flags::CONGESTION_EXPERIENCED);
        }
    }

    /// Must what is held back be acknowledged before `packet` is taken in?
    #[inline]
    pub fn turns(&self, packet: &Packet) -> bool {
        self.half.turns(packet)
    }

    /// A data packet arrived of which only the header is intact.
    pub fn on_corrupted(&mut self, packet: &Packet) {
        self.half.on_corrupted(packet);
    }

    /// Writes the echo into an acknowledgment.
    pub fn write(&mut self, ack: &mut Packet) {
        ack.header = CongestionHeader::None;
        self.half.write(ack);
        if self.marked {
            ack.flags.insert(Flags::ECN_ECHO);
        }
    }
}
