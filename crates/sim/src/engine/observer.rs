//! Who looks over the shoulders of the flows of a run.

use std::fmt::Debug;

use windward_core::endpoint::Sender;
use windward_core::packet::Packet;
use windward_core::units::Time;

use crate::stack::{End, PacketFacts, StackReport};

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
    /// An end of a connection of a [stack](crate::stack) gives out a datagram: the packets in it, as far as
    /// the connection [tells](crate::stack::Connection::describe).
    fn on_stack_sent(
        &mut self,
        _now: Time,
        _flow: usize,
        _from: End,
        _packet: &Packet,
        _facts: &[PacketFacts],
    ) {
    }
    /// A datagram of a stack's connection reaches that end, which has not dealt with it yet.
    fn on_stack_received(&mut self, _now: Time, _flow: usize, _end: End, _packet: &Packet) {}
    /// The sender of a stack's connection has dealt with a datagram, a timer or new data, and again: it has
    /// sent all it may.
    fn on_stack_report(&mut self, _now: Time, _flow: usize, _report: &StackReport) {}
    /// A link loses a packet of any kind.
    fn on_loss(&mut self, _now: Time, _flow: usize, _packet: &Packet, _loss: Loss) {}
    /// A packet of any kind has left the queue of a link.
    fn on_wire(&mut self, _what: &OnWire<'_>) {}
}

/// A packet whose last bit is put on the wire of a link.
#[derive(Debug, Clone, Copy)]
pub struct OnWire<'a> {
    /// When that is.
    pub at: Time,
    /// The link.
    pub link: usize,
    /// The flow.
    pub flow: usize,
    /// Does it go back, from the receiver of the flow to its sender?
    pub is_back: bool,
    /// The packet.
    pub packet: &'a Packet,
    /// What a connection of a [stack](crate::stack) has sent; nothing of our own.
    pub payload: Option<&'a [u8]>,
    /// Does the channel destroy it on the way?
    pub is_destroyed: bool,
}

/// Two that hear the same, one after the other.
impl<A: Observer + ?Sized, B: Observer + ?Sized> Observer for (Box<A>, Box<B>) {
    fn on_sent(&mut self, now: Time, flow: usize, packet: &Packet, sender: &Sender) {
        self.0.on_sent(now, flow, packet, sender);
        self.1.on_sent(now, flow, packet, sender);
    }

    fn on_ack(&mut self, now: Time, flow: usize, ack: &Packet, sender: &Sender) {
        self.0.on_ack(now, flow, ack, sender);
        self.1.on_ack(now, flow, ack, sender);
    }

    fn on_timer(&mut self, now: Time, flow: usize, of_recovery: bool, sender: &Sender) {
        self.0.on_timer(now, flow, of_recovery, sender);
        self.1.on_timer(now, flow, of_recovery, sender);
    }

    fn on_settled(&mut self, now: Time, flow: usize, sender: &Sender) {
        self.0.on_settled(now, flow, sender);
        self.1.on_settled(now, flow, sender);
    }

    fn on_arrival(&mut self, now: Time, flow: usize, packet: &Packet) {
        self.0.on_arrival(now, flow, packet);
        self.1.on_arrival(now, flow, packet);
    }

    fn on_answer(&mut self, now: Time, flow: usize, ack: &Packet) {
        self.0.on_answer(now, flow, ack);
        self.1.on_answer(now, flow, ack);
    }

    fn on_datagram(&mut self, now: Time, flow: usize, packet: &Packet) {
        self.0.on_datagram(now, flow, packet);
        self.1.on_datagram(now, flow, packet);
    }

    fn on_stack_sent(
        &mut self,
        now: Time,
        flow: usize,
        from: End,
        packet: &Packet,
        facts: &[PacketFacts],
    ) {
        self.0.on_stack_sent(now, flow, from, packet, facts);
        self.1.on_stack_sent(now, flow, from, packet, facts);
    }

    fn on_stack_received(&mut self, now: Time, flow: usize, end: End, packet: &Packet) {
        self.0.on_stack_received(now, flow, end, packet);
        self.1.on_stack_received(now, flow, end, packet);
    }

    fn on_stack_report(&mut self, now: Time, flow: usize, report: &StackReport) {
        self.0.on_stack_report(now, flow, report);
        self.1.on_stack_report(now, flow, report);
    }

    fn on_loss(&mut self, now: Time, flow: usize, packet: &Packet, loss: Loss) {
        self.0.on_loss(now, flow, packet, loss);
        self.1.on_loss(now, flow, packet, loss);
    }

    fn on_wire(&mut self, what: &OnWire<'_>) {
        self.0.on_wire(what);
        self.1.on_wire(what);
    }
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
