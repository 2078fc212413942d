//! The interface of a controller: a few methods over integers and [`Duration`].

use std::time::Duration;

/// A congestion controller of one connection.
///
/// The two methods without a default are enough for a controller that uses ACKs and losses. Windows
/// and volumes are bytes on the wire, rates are bytes per second, and times count from the start of
/// the run. There is no other clock; a controller that reads one is detected (see
/// [`Trouble::NotDeterministic`](crate::Trouble::NotDeterministic)).
///
/// Calls and their order follow QUIC (RFC 9002): one ACK may first cause a [`Congestion`] and then
/// the [`Ack`] itself. The simulator does loss detection, pacing, timers and retransmissions.
pub trait Controller: Send {
    /// The congestion window, bytes. Called after each of the methods below.
    fn window(&self) -> u64;

    /// An acknowledgment of new data arrived.
    fn on_ack(&mut self, ack: &Ack);

    /// Congestion was detected: at most once per round trip for losses and marks.
    fn on_congestion(&mut self, _event: &Congestion) {}

    /// The pacing rate, bytes per second; `None` sends as far as the window allows. Called after
    /// each method, for controllers that [pace](crate::Builder::paced).
    fn pacing_rate(&self) -> Option<u64> {
        None
    }

    /// A packet leaves.
    fn on_sent(&mut self, _sent: &Sent) {}

    /// All losses since the last [`Congestion`] were spurious: the packets were late.
    fn on_spurious_congestion(&mut self, _now: Duration) {}
}

impl<T: Controller + ?Sized> Controller for Box<T> {
    fn window(&self) -> u64 {
        (**self).window()
    }
    fn on_ack(&mut self, ack: &Ack) {
        (**self).on_ack(ack);
    }
    fn on_congestion(&mut self, event: &Congestion) {
        (**self).on_congestion(event);
    }
    fn pacing_rate(&self) -> Option<u64> {
        (**self).pacing_rate()
    }
    fn on_sent(&mut self, sent: &Sent) {
        (**self).on_sent(sent);
    }
    fn on_spurious_congestion(&mut self, now: Duration) {
        (**self).on_spurious_congestion(now);
    }
}

/// A packet that leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sent {
    /// Time.
    pub now: Duration,
    /// Its size, bytes.
    pub bytes: u64,
    /// True for a retransmission.
    pub again: bool,
}

/// An acknowledgment of new data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ack {
    /// Time of arrival.
    pub now: Duration,
    /// Send time of the acknowledged packet.
    pub sent: Duration,
    /// Bytes that it acknowledges.
    pub bytes: u64,
    /// Bytes that it shows to be lost.
    pub lost: u64,
    /// The round-trip time that it measured.
    pub rtt: Duration,
    /// The smallest round-trip time so far.
    pub min_rtt: Duration,
    /// The round-trip time, smoothed as in RFC 9002 section 5.3.
    pub srtt: Duration,
    /// Bytes in flight before it.
    pub in_flight: u64,
    /// True if the application, and not the window, limited the sender. RFC 9002 section 7.8: the
    /// window SHOULD NOT be increased then.
    pub app_limited: bool,
    /// True if it belongs to the round trip for which [`Controller::on_congestion`] was called. RFC
    /// 9002 section 7.3.2: no growth then.
    pub in_recovery: bool,
    /// True if it reports a congestion mark (ECN).
    pub ce: bool,
    /// The delivery rate that it measured (draft-cheng-iccrg-delivery-rate-estimation), bytes per
    /// second; `None` if no time passed or the application limited it.
    pub delivery_rate: Option<u64>,
    /// Bytes delivered since the start.
    pub delivered: u64,
}

/// Congestion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Congestion {
    /// Time of detection.
    pub now: Duration,
    /// Cause.
    pub cause: Cause,
    /// Send time of the packet whose acknowledgment reported it; for a timeout, `now`.
    pub sent: Duration,
    /// Bytes in flight before.
    pub in_flight: u64,
}

/// Cause of a congestion event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// A packet was lost, according to later acknowledgments (RFC 9002 section 6.1).
    Loss,
    /// A router marked a packet (ECN, RFC 9002 section 7.1).
    Mark,
    /// Everything was lost for three probe timeouts (RFC 9002 section 7.6): the window starts again
    /// from two packets.
    PersistentCongestion,
}
