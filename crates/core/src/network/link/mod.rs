//! A queue, a wire and a channel as arithmetic over logical time.
//!
//! [`FifoLink`] knows at arrival when a packet will leave, since nothing that happens later can
//! change it: one call a packet, no event. [`QueuedLink`] holds packets until they leave, for
//! routers whose feedback depends on the moment of departure and for classes. Both agree on every
//! time where both apply; [`Link`] is either, the cheaper one where it will do.
//!
//! Whoever drives a link needs a clock, virtual or real, and keeps the packets: the link knows them
//! by handles of any type `T`, so that a simulator may keep them in a slab and an emulator beside
//! the bytes that they stand for. There are three calls.
//!
//! 1. [`Link::offer`] when a packet reaches the queue.
//! 2. [`Link::next_event`] says when [`Link::advance`] has something to do, if nothing is offered
//!    before.
//! 3. [`Link::advance`], until it returns nothing more. It may be called late: what it does happens
//!    at the instant at which it was due. It must be called before an offer, and by
//!    [`Link::latest_advance`], so that no packet is at the far end before it is told of.
//!
//! Both tell by a [`Fate`] what has become of a packet: dropped, or sent, with the instant at which
//! its last bit reaches the far end. That instant lies ahead; to wait for it is the caller's part.
//!
//! ```
//! use windward_core::network::{ChannelSpec, Fate, Link, QueueSpec};
//! use windward_core::packet::{Label, Packet};
//! use windward_core::units::{Duration, Rate, Time};
//!
//! // 8 Mbit/s, a byte a microsecond; 20 ms; the packets in a list, their places as handles.
//! let rate = Rate::from_bps(8_000_000).unwrap();
//! let (delay, queue) = (Duration::from_millis(20), QueueSpec::default());
//! let mut link = Link::new(&rate.into(), delay, &queue, &ChannelSpec::Clean, 1, "out");
//! let mut packets = vec![Packet { size: 1000, ..Packet::default() }; 2];
//! let mut fates = Vec::new();
//! for handle in 0..2 {
//!     fates.extend(link.offer(Time::ZERO, Label::default(), &mut packets[handle], handle));
//! }
//! while link.next_event() != Time::NEVER {
//!     let now = link.next_event();
//!     while let Some(fate) = link.advance(now, &mut packets[..]) {
//!         fates.push(fate);
//!     }
//! }
//! let Fate::Sent { handle: 1, departure, .. } = fates[1] else { panic!("it fits") };
//! // It waits 1 ms for the first, is on the wire for 1 ms and travels for 20.
//! assert_eq!(departure.arrival, Time::ZERO + Duration::from_millis(22));
//! ```

mod fifo;
mod queued;
mod wire;

pub use fifo::FifoLink;
pub use queued::{ClassSpec, QueuedLink};

use super::aqm::Verdict;
use super::notifier::Notifier;
use super::rate_trace::LinkRate;
use super::{ChannelSpec, QueueLimit, QueueSpec};
use crate::packet::{Flags, Label, Packet};
use crate::units::{Duration, Time};
use wire::Wire;

/// A packet's way across a wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// Its first bit is put on the wire.
    pub start: Time,
    /// Its last bit is.
    pub end: Time,
    /// Its last bit reaches the far end.
    pub arrival: Time,
    /// The channel destroys it on the way.
    pub destroyed: bool,
}

/// What has become of a packet on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate<T> {
    /// The queue has dropped it, on arrival or later.
    Dropped {
        /// The packet.
        handle: T,
        /// When it came.
        arrived: Time,
        /// When it was dropped.
        at: Time,
    },
    /// It leaves.
    Sent {
        /// The packet.
        handle: T,
        /// When it came.
        arrived: Time,
        /// Its way across the wire.
        departure: Departure,
    },
}

/// Where the packets are that the handles of a link stand for.
pub trait Packets<T> {
    /// The packet that `handle` stands for.
    fn packet(&mut self, handle: &T) -> &mut Packet;
}

/// Packets in a list, their places as handles.
///
/// # Panics
/// As a list does, if there is no such place.
impl Packets<usize> for [Packet] {
    fn packet(&mut self, handle: &usize) -> &mut Packet {
        &mut self[*handle]
    }
}

/// A link in the cheaper form that is exact. See the [module](self) for how it is driven.
#[derive(Debug)]
pub enum Link<T> {
    /// Arithmetic: every packet's fate is known when it is offered.
    Fifo(FifoLink),
    /// Packets wait in it.
    Queued(Box<QueuedLink<T>>),
}

impl<T> Link<T> {
    /// An idle link; `name` names its random streams.
    pub fn new(
        rate: &LinkRate,
        delay: Duration,
        queue: &QueueSpec,
        channel: &ChannelSpec,
        seed: u64,
        name: &str,
    ) -> Self {
        if FifoLink::will_do(queue) {
            Link::Fifo(FifoLink::new(rate, delay, queue, channel, seed, name))
        } else {
            Link::Queued(Box::new(QueuedLink::new(rate, delay, queue, channel, seed, name)))
        }
    }

    /// A packet reaches the queue at `now`, which must not be earlier than at any call before, and
    /// up to which the link must have been [advanced](Link::advance). Returns what becomes of it if that is known at once; else it waits, and
    /// [`Link::next_event`] has changed.
    #[inline]
    pub fn offer(
        &mut self,
        now: Time,
        label: Label,
        packet: &mut Packet,
        handle: T,
    ) -> Option<Fate<T>> {
        match self {
            Link::Fifo(link) => Some(match link.offer(now, label, packet) {
                Some(departure) => Fate::Sent { handle, arrived: now, departure },
                None => Fate::Dropped { handle, arrived: now, at: now },
            }),
            Link::Queued(link) => link.offer(now, label, packet, handle),
        }
    }

    /// When [`Link::advance`] has something to do; never, if only an offer can change anything. May
    /// lie in the past just after an offer, which means at once.
    #[inline]
    pub fn next_event(&self) -> Time {
        match self {
            Link::Fifo(_) => Time::NEVER,
            Link::Queued(link) => link.next_event(),
        }
    }

    /// Until when [`Link::advance`] may be put off, if nothing is offered before: later, a packet
    /// would be told of after it had reached the far end.
    #[inline]
    pub fn latest_advance(&self) -> Time {
        match self {
            Link::Fifo(_) => Time::NEVER,
            Link::Queued(link) => link.latest_advance(),
        }
    }

    /// Does what was due by `now`, each thing at its own instant, up to and including the first
    /// that decides what becomes of a packet, and tells that; to be called until it returns `None`.
    #[inline]
    pub fn advance(
        &mut self,
        now: Time,
        packets: &mut (impl Packets<T> + ?Sized),
    ) -> Option<Fate<T>> {
        match self {
            Link::Fifo(_) => None,
            Link::Queued(link) => link.advance(now, packets),
        }
    }

    /// Packets waiting at `now`, the one in transmission not counted.
    pub fn waiting(&mut self, now: Time) -> usize {
        match self {
            Link::Fifo(link) => link.waiting(now),
            Link::Queued(link) => link.waiting(),
        }
    }

    /// Bytes of packets whose departure is known that are not on the wire yet at `now`. Where the
    /// rate is that of a trace, a packet in transmission counts as sent.
    pub fn unsent_bytes(&mut self, now: Time) -> u64 {
        match self {
            Link::Fifo(link) => link.unsent_bytes(now),
            Link::Queued(link) => link.wire.unsent_bytes(now).unwrap_or(0),
        }
    }

    /// When each of the packets came that were offered and whose [`Fate`] is not known yet.
    pub fn arrival_times(&self) -> impl Iterator<Item = Time> {
        let queued = match self {
            Link::Fifo(_) => None,
            Link::Queued(link) => Some(link.arrival_times()),
        };
        queued.into_iter().flatten()
    }

    /// Puts a notifier at the far end.
    pub fn set_notifier(&mut self, notifier: Option<Notifier>) {
        match self {
            Link::Fifo(link) => link.set_notifier(notifier),
            Link::Queued(link) => link.wire.set_notifier(notifier),
        }
    }

    /// The notifier at the far end, once the latest packet that departed has got there.
    pub fn notifier(&mut self) -> Option<&mut Notifier> {
        self.wire_mut().notifier()
    }

    /// Is there a notifier at the far end?
    #[inline]
    pub fn has_notifier(&self) -> bool {
        self.wire().has_notifier()
    }

    /// Packets marked by the queue management or flagged by a router so far.
    pub fn marked(&self) -> u64 {
        match self {
            Link::Fifo(link) => link.marked(),
            Link::Queued(link) => link.marked,
        }
    }

    /// The longest queue so far, packets; with classes the longest sum.
    pub fn longest_queue(&self) -> usize {
        match self {
            Link::Fifo(link) => link.longest_queue(),
            Link::Queued(link) => link.longest_queue,
        }
    }

    /// Makes [`Link::trace_utilization`] cover the time after `from` and up to `until`.
    pub fn count_between(&mut self, from: Time, until: Time) {
        self.wire_mut().count_between(from, until);
    }

    /// Bytes carried over the bytes that the rate trace offered; `None` if the rate is constant.
    pub fn trace_utilization(&self) -> Option<f64> {
        self.wire().trace_utilization()
    }

    /// How long the wire takes for packets of so many bytes in all that have
    /// [passed](FifoLink::pass).
    pub fn passing_time(&self, bytes: u64) -> Duration {
        match self {
            Link::Fifo(link) => link.passing_time(bytes),
            Link::Queued(_) => Duration::ZERO,
        }
    }

    fn wire(&self) -> &Wire {
        match self {
            Link::Fifo(link) => &link.wire,
            Link::Queued(link) => &link.wire,
        }
    }

    fn wire_mut(&mut self) -> &mut Wire {
        match self {
            Link::Fifo(link) => &mut link.wire,
            Link::Queued(link) => &mut link.wire,
        }
    }
}

/// Does a packet pass with this verdict? Marks and counts it where the verdict says so.
#[inline]
fn passes(verdict: Verdict, packet: &mut Packet, marked: &mut u64) -> bool {
    match verdict {
        Verdict::Pass => true,
        Verdict::Mark if packet.flags.contains(Flags::ECN_CAPABLE) => {
            packet.flags.insert(Flags::CONGESTION_EXPERIENCED);
            *marked += 1;
            true
        }
        // RFC 3168 section 5: what would be marked and cannot be is dropped.
        Verdict::Mark | Verdict::Drop => false,
    }
}

fn fits(limit: QueueLimit, packets: usize, bytes: u64, size: u32) -> bool {
    match limit {
        QueueLimit::Packets(limit) => packets < limit as usize,
        QueueLimit::Bytes(limit) => bytes + u64::from(size) <= limit,
    }
}
