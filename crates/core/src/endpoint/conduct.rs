//! Receivers that misbehave (RFC 9743 section 7.6; Savage, Cardwell, Wetherall and
//! Anderson, "TCP congestion control with a misbehaving receiver", CCR 29(5), 1999).
//!
//! A sender trusts its receiver. These receivers send false acknowledgments to get data faster, or
//! suppress feedback. [`super::ReceiverStats`] still counts the data that has actually arrived.
//!
//! - **Optimistic** (Savage et al., section 2.3): acknowledges everything up to the highest packet
//!   that it has seen, holes and all, so that losses are never noticed; and `ahead` packets more,
//!   as if they had arrived, which shortens the round trip of the sender's window. It runs ahead by
//!   at most half of the packets that have arrived, since a sender ignores an acknowledgment of
//!   packets that it never sent (RFC 9293 section 3.10.7.4). It sends no SACK blocks. It gives up a
//!   hole that lies more than a receiver window back.
//! - **Division** (section 2.1): each data packet that arrives in order is acknowledged in `pieces`
//!   pieces. Sequence numbers here count packets: all pieces but the last acknowledge a part of one
//!   ([`Flags::PART`]). A sender whose growth counts acknowledgments (RFC 2581) takes each piece
//!   for one; if growth counts the packets acknowledged (RFC 3465 and RFC 5681 section 3.1,
//!   `byte_counting`; and controllers that always go by deliveries), pieces gain nothing.
//! - **Duplicates** (section 2.2): each acknowledgment is followed by `copies` of it without
//!   blocks, each of which a sender that goes by duplicates takes for a packet that has left the
//!   network.
//! - **Hidden marks**: CE, and XTCP's congestion flag, are not echoed.

use crate::packet::{Flags, Packet};

/// The conduct of a receiver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Conduct {
    /// Follows the specifications.
    #[default]
    Honest,
    /// Acknowledges packets that have not arrived.
    Optimistic {
        /// The number of packets acknowledged beyond the highest seen, 0 to 2^20.
        ahead: u32,
    },
    /// Acknowledges each packet in pieces.
    Divides {
        /// Acknowledgments of one packet, 2 to 1000.
        pieces: u32,
    },
    /// Sends duplicates of its acknowledgments.
    Duplicates {
        /// Copies of each, 1 to 1000.
        copies: u32,
    },
    /// Does not echo marks.
    HidesMarks,
}

impl Conduct {
    /// The number of acknowledgments that it sends for one of an honest receiver.
    pub fn acknowledgments(self) -> u32 {
        match self {
            Conduct::Divides { pieces } => pieces,
            Conduct::Duplicates { copies } => copies + 1,
            Conduct::Honest | Conduct::Optimistic { .. } | Conduct::HidesMarks => 1,
        }
    }

    /// Checks that the numbers are in their ranges.
    ///
    /// # Errors
    /// The number out of range, as a sentence without a capital or a full stop.
    pub fn validate(self) -> Result<(), String> {
        match self {
            Conduct::Optimistic { ahead } if ahead > 1 << 20 => {
                Err(format!("a receiver {ahead} packets ahead: must be 0 to {}", 1 << 20))
            }
            Conduct::Divides { pieces } if !(2..=1000).contains(&pieces) => {
                Err(format!("a receiver that sends {pieces} pieces: must be 2 to 1000"))
            }
            Conduct::Duplicates { copies } if !(1..=1000).contains(&copies) => {
                Err(format!("a receiver that sends {copies} copies: must be 1 to 1000"))
            }
            _ => Ok(()),
        }
    }
}

/// The state of a receiver that misbehaves.
#[derive(Debug)]
pub(super) struct Misconduct {
    pub(super) conduct: Conduct,
    pub(super) rwnd: u64,
    /// One past the highest packet seen.
    highest: u64,
    /// The highest acknowledgment sent.
    told: u64,
    /// Acknowledgments still to be sent: pieces that end in `last`, or copies of `last`.
    to_come: u32,
    last: Packet,
}

impl Misconduct {
    pub(super) fn new(conduct: Conduct, rwnd: u64) -> Self {
        Misconduct { conduct, rwnd, highest: 0, told: 0, to_come: 0, last: Packet::default() }
    }

    /// Handles a data packet.
    pub(super) fn on_data(&mut self, packet: &mut Packet) {
        self.highest = self.highest.max(packet.seq + 1);
        if self.conduct == Conduct::HidesMarks {
            packet.flags.remove(Flags::CONGESTION_EXPERIENCED.with(Flags::CONGESTION));
        }
    }

    /// The first packet that is still expected: everything below is given up, since the sender will
    /// not retransmit it.
    pub(super) fn given_up(&self) -> u64 {
        match self.conduct {
            Conduct::Optimistic { .. } => self.highest.saturating_sub(self.rwnd),
            _ => 0,
        }
    }

    /// Turns the acknowledgment of an honest receiver, at which `unique` packets have arrived, into
    /// the first of those that this one sends.
    pub(super) fn distort(&mut self, ack: &mut Packet, unique: u64) {
        let advances = ack.seq > self.told;
        match self.conduct {
            Conduct::Honest | Conduct::HidesMarks => {}
            Conduct::Optimistic { ahead } => {
                let lead = u64::from(ahead).min(unique / 2);
                ack.seq = self.told.max(self.highest + lead);
                ack.sack_len = 0;
            }
            Conduct::Divides { pieces } if advances => {
                self.last.clone_from(ack);
                self.to_come = pieces - 1;
                ack.seq = self.told;
                ack.flags.insert(Flags::PART);
                ack.sack_len = 0;
            }
            Conduct::Divides { .. } => {}
            Conduct::Duplicates { copies } => {
                self.last.clone_from(ack);
                self.last.sack_len = 0;
                self.to_come = copies;
            }
        }
        self.told = self.told.max(ack.seq);
    }

    /// Writes the next further acknowledgment, if there is one.
    pub(super) fn further(&mut self, ack: &mut Packet) -> bool {
        let Some(left) = self.to_come.checked_sub(1) else { return false };
        self.to_come = left;
        ack.clone_from(&self.last);
        if matches!(self.conduct, Conduct::Divides { .. }) {
            if left > 0 {
                ack.seq = self.told;
                ack.flags.insert(Flags::PART);
                ack.sack_len = 0;
            } else {
                self.told = self.told.max(ack.seq);
            }
        }
        true
    }
}
