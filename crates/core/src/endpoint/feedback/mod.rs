//! Axis 4, the end-host half: the feedback that packets carry and acknowledgments echo.
//!
//! The sender stamps a header onto data packets ([`FeedbackPart::stamp`]), routers rewrite it, and
//! the receiver's [`Echo`] carries it back on the next acknowledgment.

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
pub use estcp::UNWRITTEN as ESTCP_UNWRITTEN;
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
    /// The receiver's half of a kind of feedback, for one connection; the sender's half has no
    /// state.
    pub trait Feedback: Debug {
        /// Handles a data packet.
        @forward(inline)
        fn on_data(&mut self, now: Time, packet: &Packet) = ();
        /// True if a delayed acknowledgment must be sent before `packet` is handled, because its
        /// mark differs (RFC 8257 section 3.2).
        @forward(inline)
        fn turns(&self, packet: &Packet) -> bool = false;
        /// Handles a data packet of which only the header is intact.
        fn on_corrupted(&mut self, packet: &Packet) = ();
        /// Writes the echo into an acknowledgment without a congestion header.
        fn write(&mut self, ack: &mut Packet) = ();
    }
    impl for FeedbackState, by each;
}

/// A kind of feedback of this crate: the sender's half, and its properties that do not depend on a
/// connection.
pub trait FeedbackPart: Part + Feedback + Sized {
    /// True if it handles ECN marks itself. Otherwise the receiver echoes each mark until the
    /// sender reports a reduced window (RFC 3168 section 6.1.3).
    const ECHOES_MARKS: bool = false;
    /// True if data packets carry its header ([`FeedbackPart::stamp`]).
    const STAMPS: bool = true;

    /// The feedback that it requires of the routers on its path.
    fn router(_config: &Self::Config) -> RouterKind {
        RouterKind::Any
    }
    /// The notices of corruption that it requires of notifiers, if any.
    fn notification(_config: &Self::Config) -> Option<Notification> {
        None
    }
    /// Writes the header of a data packet without a congestion header, sent with a window of
    /// `window` packets.
    #[inline]
    fn stamp(_config: &Self::Config, _packet: &mut Packet, _srtt: Duration, _window: f64) {}
    /// The receiver's half at the start of a connection.
    fn new(config: &Self::Config, endpoint: &EndpointConfig) -> Self;
}

axis! {
    $ each each_kind;
    /// The kinds of feedback by name, with their parameters.
    config FeedbackConfig;
    /// The state of the receiver's half.
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
    /// True if it handles ECN marks itself.
    pub fn echoes_marks(&self) -> bool {
        each_kind!(self, S(_) => <S as FeedbackPart>::ECHOES_MARKS)
    }
    /// True if data packets carry its header.
    pub fn stamps(&self) -> bool {
        each_kind!(self, S(_) => <S as FeedbackPart>::STAMPS)
    }
    /// The feedback that it requires of the routers on its path.
    pub fn router(&self) -> RouterKind {
        each_kind!(self, S(config) => <S as FeedbackPart>::router(config))
    }
    /// The notices of corruption that it requires of notifiers, if any.
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

/// The echo that a receiver sends with its next acknowledgment.
#[derive(Debug)]
pub struct Echo {
    half: FeedbackState,
    /// True if every mark is echoed until the sender reports a reduced window.
    classic: bool,
    marked: bool,
}

impl Echo {
    /// The receiver's half of a protocol with this feedback.
    pub fn new(feedback: &FeedbackConfig, endpoint: &EndpointConfig) -> Self {
        let half = feedback.make(endpoint);
        Echo { half, classic: !feedback.echoes_marks(), marked: false }
    }

    /// Handles a data packet.
    pub fn on_data(&mut self, now: Time, packet: &Packet) {
        self.half.on_data(now, packet);
        self.note_mark(packet.flags);
    }

    /// Handles a data packet that becomes its own acknowledgment: [`Echo::on_data`] and
    /// [`Echo::write`] in one call.
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

    /// Handles the flags of a data packet (RFC 3168 section 6.1.3).
    #[inline]
    fn note_mark(&mut self, flags: Flags) {
        const NEWS: Flags = Flags::CONGESTION_EXPERIENCED.with(Flags::WINDOW_REDUCED);
        if flags.bits() & NEWS.bits() != 0 && self.classic {
            let stays = self.marked && !flags.contains(Flags::WINDOW_REDUCED);
            self.marked = stays || flags.contains(Flags::CONGESTION_EXPERIENCED);
        }
    }

    /// See [`Feedback::turns`].
    #[inline]
    pub fn turns(&self, packet: &Packet) -> bool {
        self.half.turns(packet)
    }

    /// Handles a data packet of which only the header is intact.
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
