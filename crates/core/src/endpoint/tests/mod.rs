//! Timelines: the packets that a sender sends in response to events, with their times.
//!
//! A row has a time in milliseconds, an event, and the data that leaves in response:
//!
//! ```text
//! line.at(100, Arrives(1), &[8]);
//! ```
//!
//! means that at 100 ms the acknowledgment of the latest transmission of packet 1 arrives, and
//! that the sender responds with packet 8. The acknowledgments are those of a real [`Receiver`],
//! so packets that have not arrived are missing. Unless a test says otherwise the clock
//! is ideal and the RTO floor one second (RFC 6298 section 2.4): with an RTT of 100 ms,
//! SRTT + 4 RTTVAR is at most 100 + 4 x 50 ms, so that the RTO is one second throughout.

mod bulk_repeat;
mod by_number;
mod bytes;
mod compositions;
mod cubic;
mod harness;
mod lr;
pub(crate) mod path;
mod rack;
mod tcp;
mod xcp;

use super::{EndpointConfig, Receiver, Sender};
use crate::packet::{CongestionHeader, Flags, Packet, PacketKind};
use crate::protocols::{self, Protocol};
use crate::testing::ms;
use crate::units::{Duration, Time};

use Event::*;

const EIGHT: &[u64] = &[0, 1, 2, 3, 4, 5, 6, 7];

/// An event at one instant.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// The application offers data without end.
    Start,
    /// The latest transmission of this packet has arrived, and its acknowledgment is back.
    Arrives(u64),
    /// The same, for the earliest transmission in flight.
    ArrivesLate(u64),
    /// The packet has arrived with the congestion flag of XTCP.
    ArrivesFlagged(u64),
    /// The packet has arrived with a mark (RFC 3168: CE).
    ArrivesMarked(u64),
    /// The packet has arrived, but the acknowledgment is lost.
    AckLost(u64),
    /// The first of the sender's timers is due exactly now.
    TimerExpires,
}

/// A connection over a path that the test controls.
struct Timeline {
    sender: Sender,
    receiver: Receiver,
    /// Every transmission that has not arrived, in order.
    wire: Vec<Packet>,
    now: Time,
}

/// A window of this many packets that only the protocol limits.
fn window(packets: f64) -> EndpointConfig {
    EndpointConfig {
        initial_window: packets,
        clock_granularity: Duration::ZERO,
        rto_floor: Duration::from_secs(1),
        ..EndpointConfig::default()
    }
}

impl Timeline {
    fn new(protocol: &str, config: &EndpointConfig) -> Self {
        Timeline::of(protocols::find(protocol).expect("a row of the table"), config)
    }

    fn of(protocol: &Protocol, config: &EndpointConfig) -> Self {
        Timeline {
            sender: Sender::new(protocol, config, 1, "test"),
            receiver: Receiver::new(&protocol.feedback, config),
            wire: Vec::new(),
            now: Time::ZERO,
        }
    }

    /// At `time`, `event` happens and the packets of `sent` leave, in this order.
    #[track_caller]
    fn at(&mut self, time: u64, event: Event, sent: &[u64]) {
        let time = ms(time);
        assert!(time >= self.now, "the rows of a timeline go forward");
        self.now = time;
        match event {
            Start => self.sender.offer_until(u64::MAX),
            Arrives(seq) => self.acknowledge(seq, true, Flags::NONE, true),
            ArrivesLate(seq) => self.acknowledge(seq, false, Flags::NONE, true),
            ArrivesFlagged(seq) => self.acknowledge(seq, true, Flags::CONGESTION, true),
            ArrivesMarked(seq) => {
                self.acknowledge(seq, true, Flags::CONGESTION_EXPERIENCED, true);
            }
            AckLost(seq) => self.acknowledge(seq, true, Flags::NONE, false),
            TimerExpires => {
                assert_eq!(self.sender.next_timer(), time, "when the next timer is due");
                self.sender.on_timer(time);
            }
        }
        assert_eq!(self.transmit(), sent, "sent after {event:?} at {time:?}");
    }

    /// All packets that may leave do. Returns their data.
    fn transmit(&mut self) -> Vec<u64> {
        let mut left = Vec::new();
        let mut packet = Packet::default();
        while self.sender.poll_transmit(self.now, &mut packet) {
            left.push(packet.seq);
            self.wire.push(packet.clone());
        }
        left
    }

    /// The application offers data up to `limit`.
    fn offer(&mut self, limit: u64) {
        self.sender.offer_until(limit);
        self.transmit();
    }

    /// Several packets arrive at once, each of which releases the packets listed with it.
    #[track_caller]
    fn all_at(&mut self, time: u64, rows: &[(u64, &[u64])]) {
        for (seq, sent) in rows {
            self.at(time, Arrives(*seq), sent);
        }
    }

    #[track_caller]
    fn acknowledge(&mut self, seq: u64, latest: bool, mark: Flags, delivered: bool) {
        let mut matching = self.wire.iter().enumerate().filter(|(_, p)| p.seq == seq);
        let found = if latest { matching.next_back() } else { matching.next() };
        let index = found.expect("a transmission on its way").0;
        let mut packet = self.wire.remove(index);
        packet.flags.insert(mark);
        // An XCP router that grants nothing and takes nothing, unless the test has granted.
        if let CongestionHeader::Xcp { delta, .. } = &mut packet.header
            && *delta == f64::MAX
        {
            *delta = 0.0;
        }
        assert!(self.receiver.on_data(self.now, &mut packet));
        if delivered {
            self.sender.on_ack(self.now, &packet);
        }
    }

    #[track_caller]
    fn cwnd(&self, packets: f64) {
        let cwnd = self.sender.cwnd();
        assert!((cwnd - packets).abs() < 1e-9, "cwnd is {cwnd}, not {packets}");
    }

    #[track_caller]
    fn next_timer(&self, time: u64) {
        assert_eq!(self.sender.next_timer(), ms(time), "when the next timer is due");
    }

    /// Packets that arrived for the first time, and again.
    fn received(&self) -> (u64, u64) {
        let stats = self.receiver.stats();
        (stats.unique, stats.duplicates)
    }

    /// Connection resets so far.
    fn timeouts(&mut self) -> u64 {
        self.sender.stats(self.now).timeouts
    }
}
