//! Who looks over the shoulders of the flows of a run.

use std::fmt::Debug;

use windward_core::endpoint::Sender;
use windward_core::packet::Packet;
use windward_core::units::Time;

/// Hears, at its instant, of all that happens to the packets of the flows of a
/// [`Simulation::observed`](crate::Simulation::observed). It can look and change nothing. Flows and
/// links are their places in the scenario; transfers that come by themselves are behind the last flow.
///
/// An acknowledgment is followed by the packets that it lets go and by [`Observer::on_settled`]; so
/// is a timer.
pub trait Observer: Debug + Send {
    /// A sender gives out a data packet.
    fn on_sent(&mut self, _now: Time, _flow: usize, _packet: &Packet, _sender: &Sender) {}
    /// An acknowledgment has reached its sender, which has dealt with it: [`Sender::report`] says
    /// what it learned, which may be nothing.
    fn on_ack(&mut self, _now: Time, _flow: usize, _ack: &Packet, _sender: &Sender) {}
    /// A timer of a sender has expired: that of recovery, or only one that paces.
    fn on_timer(&mut self, _now: Time, _flow: usize, _of_recovery: bool, _sender: &Sender) {}
    /// A sender has sent all it may, after an acknowledgment, a timer or new data.
    fn on_settled(&mut self, _now: Time, _flow: usize, _sender: &Sender) {}
    /// A data packet or a datagram reaches the far end.
    fn on_arrival(&mut self, _now: Time, _flow: usize, _packet: &Packet) {}
    /// A receiver gives out an acknowledgment.
    fn on_answer(&mut self, _now: Time, _flow: usize, _ack: &Packet) {}
    /// A source gives out a datagram.
    fn on_datagram(&mut self, _now: Time, _flow: usize, _packet: &Packet) {}
    /// A link loses a packet of any kind.
    fn on_loss(&mut self, _now: Time, _flow: usize, _packet: &Packet, _loss: Loss) {}
}

/// Where and how a link lost a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// The link.
    pub link: usize,
    /// How.
    pub cause: LossCause,
}

/// How a link lost a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossCause {
    /// Its queue, which was full or wanted to say so, dropped it.
    Queue,
    /// Its channel destroyed it; heard of when the packet is put on the wire.
    Channel,
}
