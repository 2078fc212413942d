//! Observation of all packets of a run.

use std::fmt::Debug;

use windward_core::endpoint::Sender;
use windward_core::packet::Packet;
use windward_core::units::Time;

use crate::stack::{End, PacketFacts, StackReport};

/// Observer of all packets of a [`Simulation::observed`](crate::Simulation::observed), called for
/// each event at its instant. It cannot change anything. Flows and links are given by their index
/// in the scenario; connections that open at random follow the last flow.
///
/// An ACK is followed by the packets that it releases and by [`Observer::on_settled`]; so is a
/// timer.
pub trait Observer: Debug + Send {
    /// A sender sends a data packet.
    fn on_sent(&mut self, _now: Time, _flow: usize, _packet: &Packet, _sender: &Sender) {}
    /// An ACK has reached its sender and has been processed: [`Sender::report`] tells what the
    /// sender learned, if anything.
    fn on_ack(&mut self, _now: Time, _flow: usize, _ack: &Packet, _sender: &Sender) {}
    /// A timer of a sender has expired: that of recovery, or that of pacing.
    fn on_timer(&mut self, _now: Time, _flow: usize, _of_recovery: bool, _sender: &Sender) {}
    /// A sender has sent all it may, after an ACK, a timer or new data.
    fn on_settled(&mut self, _now: Time, _flow: usize, _sender: &Sender) {}
    /// A data packet or a datagram reaches the far end.
    fn on_arrival(&mut self, _now: Time, _flow: usize, _packet: &Packet) {}
    /// A receiver sends an ACK.
    fn on_answer(&mut self, _now: Time, _flow: usize, _ack: &Packet) {}
    /// A source sends a datagram.
    fn on_datagram(&mut self, _now: Time, _flow: usize, _packet: &Packet) {}
    /// An end of a connection of a [stack](crate::stack) sends a datagram; `facts` are the packets
    /// in it, if the connection [describes](crate::stack::Connection::describe) them.
    fn on_stack_sent(
        &mut self,
        _now: Time,
        _flow: usize,
        _from: End,
        _packet: &Packet,
        _facts: &[PacketFacts],
    ) {
    }
    /// A datagram of a stack's connection reaches an end, which has not processed it yet.
    fn on_stack_received(&mut self, _now: Time, _flow: usize, _end: End, _packet: &Packet) {}
    /// The sender of a stack's connection has processed a datagram, a timer or new data; called
    /// again once it has sent all it may.
    fn on_stack_report(&mut self, _now: Time, _flow: usize, _report: &StackReport) {}
    /// A link drops or destroys a packet of any kind.
    fn on_loss(&mut self, _now: Time, _flow: usize, _packet: &Packet, _loss: Loss) {}
    /// A packet of any kind has left the queue of a link.
    fn on_wire(&mut self, _what: &OnWire<'_>) {}
}

/// A packet whose last bit is put on the wire of a link.
#[derive(Debug, Clone, Copy)]
pub struct OnWire<'a> {
    /// Time at which its last bit is put on the wire.
    pub at: Time,
    /// The link.
    pub link: usize,
    /// The flow.
    pub flow: usize,
    /// True if it travels from the receiver of the flow to its sender.
    pub is_back: bool,
    /// The packet.
    pub packet: &'a Packet,
    /// Payload of a packet of a [stack](crate::stack); other packets have none.
    pub payload: Option<&'a [u8]>,
    /// True if the channel destroys it.
    pub is_destroyed: bool,
}

/// Two observers, called one after the other.
macro_rules! both {
    ($($call:ident($($name:ident: $type:ty),+);)+) => {
        impl<A: Observer + ?Sized, B: Observer + ?Sized> Observer for (Box<A>, Box<B>) {
            $(fn $call(&mut self, $($name: $type),+) {
                self.0.$call($($name),+);
                self.1.$call($($name),+);
            })+
        }
    };
}
both! {
    on_sent(now: Time, flow: usize, packet: &Packet, sender: &Sender);
    on_ack(now: Time, flow: usize, ack: &Packet, sender: &Sender);
    on_timer(now: Time, flow: usize, of_recovery: bool, sender: &Sender);
    on_settled(now: Time, flow: usize, sender: &Sender);
    on_arrival(now: Time, flow: usize, packet: &Packet);
    on_answer(now: Time, flow: usize, ack: &Packet);
    on_datagram(now: Time, flow: usize, packet: &Packet);
    on_stack_sent(now: Time, flow: usize, from: End, packet: &Packet, facts: &[PacketFacts]);
    on_stack_received(now: Time, flow: usize, end: End, packet: &Packet);
    on_stack_report(now: Time, flow: usize, report: &StackReport);
    on_loss(now: Time, flow: usize, packet: &Packet, loss: Loss);
    on_wire(what: &OnWire<'_>);
}

/// Loss of a packet at a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// The link.
    pub link: usize,
    /// The cause.
    pub cause: LossCause,
}

/// Cause of a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossCause {
    /// Its queue dropped it: it was full, or its AQM signals congestion.
    Queue,
    /// Its channel destroyed it; reported when the packet is put on the wire.
    Channel,
}
