//! A queue, a wire and a channel as arithmetic over logical time.
//!
//! [`FifoLink`] knows at arrival when a packet will leave, since no later event can change it: one
//! call per packet, no event. [`QueuedLink`] holds packets until they leave, for routers whose
//! feedback depends on the moment of departure and for classes. Both give the same times if both
//! apply; [`Link`] is the cheaper of the two that is exact.
//!
//! The caller has the clock, virtual or real, and keeps the packets: the link knows them by handles
//! of any type `T`, so that a simulator may keep them in a slab and an emulator with their bytes.
//! There are three calls.
//!
//! 1. [`Link::offer`] when a packet reaches the queue.
//! 2. [`Link::next_event`] returns the time at which [`Link::advance`] has something to do, if no
//!    packet is offered before.
//! 3. [`Link::advance`], until it returns nothing more. It may be called late: everything that it
//!    does happens at the instant at which it was due. It must be called before an offer, and by
//!    [`Link::latest_advance`], so that no packet reaches the far end before its fate is returned.
//!
//! `offer` and `advance` return the [`Fate`] of a packet: dropped, or sent, with the instant at
//! which its last bit reaches the far end. That instant lies ahead; the caller waits for it.
//!
//! ```
//! use windward_core::network::{ChannelConfig, Fate, Link, QueueConfig};
//! use windward_core::packet::{Label, Packet};
//! use windward_core::units::{Duration, Rate, Time};
//!
//! // 8 Mbit/s, a byte a microsecond; 20 ms; the packets in a list, their places as handles.
//! let rate = Rate::from_bps(8_000_000).unwrap();
//! let (delay, queue) = (Duration::from_millis(20), QueueConfig::default());
//! let mut link = Link::new(&rate.into(), delay, &queue, &ChannelConfig::Clean, 1, "out");
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

mod clock;
mod fifo;
mod frames;
mod queued;
mod shared;
mod wire;

pub use fifo::FifoLink;
pub use queued::{ClassConfig, QueuedLink};

use super::aqm::QueueAction;
use super::notifier::Notifier;
use super::rate_trace::LinkRate;
use super::{ChannelConfig, Impairments, QueueConfig, QueueLimit};
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

/// The fate of a packet on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate<T> {
    /// The queue has dropped it, on arrival or later.
    Dropped {
        /// The packet.
        handle: T,
        /// The time of its arrival.
        arrived: Time,
        /// The time of the drop.
        at: Time,
    },
    /// It leaves.
    Sent {
        /// The packet.
        handle: T,
        /// The time of its arrival.
        arrived: Time,
        /// Its way across the wire.
        departure: Departure,
    },
}

/// The packets of a link by their handles.
pub trait Packets<T> {
    /// The packet with that handle.
    fn packet(&mut self, handle: &T) -> &mut Packet;
}

/// Packets in a list, with their indices as handles.
///
/// # Panics
/// If the index is out of range.
impl Packets<usize> for [Packet] {
    fn packet(&mut self, handle: &usize) -> &mut Packet {
        &mut self[*handle]
    }
}

/// A link in the cheaper form that is exact. See the [module](self) for its use.
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
        queue: &QueueConfig,
        channel: &ChannelConfig,
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
    /// up to which the link must have been [advanced](Link::advance). Returns its fate if that is
    /// known at once; else it waits, and [`Link::next_event`] has changed.
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

    /// The time at which [`Link::advance`] has something to do; never, if only an offer can change
    /// anything. A time in the past, just after an offer, means at once.
    #[inline]
    pub fn next_event(&self) -> Time {
        match self {
            Link::Fifo(_) => Time::NEVER,
            Link::Queued(link) => link.next_event(),
        }
    }

    /// The time until which [`Link::advance`] may be put off, if no packet is offered before:
    /// later, the fate of a packet would be returned after it had reached the far end.
    #[inline]
    pub fn latest_advance(&self) -> Time {
        match self {
            Link::Fifo(_) => Time::NEVER,
            Link::Queued(link) => link.latest_advance(),
        }
    }

    /// Does everything that was due by `now`, each at its own instant, until the fate of a packet
    /// is decided, and returns that. Call it until it returns `None`.
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

    /// Bytes of packets whose departure is known that are not on the wire yet at `now`. If the rate
    /// is that of a trace, a packet in transmission counts as sent.
    pub fn unsent_bytes(&mut self, now: Time) -> u64 {
        match self {
            Link::Fifo(link) => link.unsent_bytes(now),
            Link::Queued(link) if link.shared.is_some() => 0,
            Link::Queued(link) => link.wire.unsent_bytes(now).unwrap_or(0),
        }
    }

    /// The arrival times of the packets that were offered and whose [`Fate`] is not known yet.
    pub fn arrival_times(&self) -> impl Iterator<Item = Time> {
        let queued = match self {
            Link::Fifo(_) => None,
            Link::Queued(link) => Some(link.arrival_times()),
        };
        queued.into_iter().flatten()
    }

    /// Gives it these impairments, before the first packet. `seed` and `name` are those of
    /// [`Link::new`]. If the rate is that of a trace, which has its own silences, outages that hold
    /// packets have no effect.
    pub fn impair(&mut self, impairments: &Impairments, seed: u64, name: &str) {
        match self {
            Link::Fifo(link) => link.impair(impairments, seed, name),
            Link::Queued(link) => link.wire.impair(impairments, seed, name),
        }
    }

    /// True if packets reach the far end in the order in which they leave the wire. If not, the
    /// arrival of a [`Departure`] may lie before one that was returned earlier.
    pub fn keeps_order(&self) -> bool {
        self.wire().keeps_order()
    }

    /// Puts a notifier at the far end.
    pub fn set_notifier(&mut self, notifier: Option<Notifier>) {
        match self {
            Link::Fifo(link) => link.set_notifier(notifier),
            Link::Queued(link) => link.wire.set_notifier(notifier),
        }
    }

    /// The notifier at the far end, after the latest packet that departed has arrived there.
    pub fn notifier(&mut self) -> Option<&mut Notifier> {
        self.wire_mut().notifier()
    }

    /// True if there is a notifier at the far end.
    #[inline]
    pub fn has_notifier(&self) -> bool {
        self.wire().has_notifier()
    }

    /// Packets marked by the AQM or flagged by a router so far.
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

    /// Makes [`Link::changing_utilization`] cover the time after `from` and up to `until`, which is
    /// the end of the run: later changes of a schedule are ignored.
    pub fn count_between(&mut self, from: Time, until: Time) {
        self.wire_mut().count_between(from, until);
    }

    /// Bytes carried over the bytes that could have been carried; `None` if the rate is constant,
    /// or on a shared medium.
    pub fn changing_utilization(&self) -> Option<f64> {
        match self {
            Link::Queued(link) if link.shared.is_some() => None,
            link => link.wire().utilization(),
        }
    }

    /// The time that the wire takes for packets of that many bytes in all that have
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

/// Carries out an action of an AQM: marks and counts the packet if it says so. Returns whether the
/// packet passes.
#[inline]
fn passes(verdict: QueueAction, packet: &mut Packet, marked: &mut u64) -> bool {
    match verdict {
        QueueAction::Pass => true,
        QueueAction::Mark if packet.flags.contains(Flags::ECN_CAPABLE) => {
            packet.flags.insert(Flags::CONGESTION_EXPERIENCED);
            *marked += 1;
            true
        }
        // RFC 3168 section 5: a packet that would be marked and cannot be is dropped.
        QueueAction::Mark | QueueAction::Drop => false,
    }
}

fn fits(limit: QueueLimit, packets: usize, bytes: u64, size: u32) -> bool {
    match limit {
        QueueLimit::Packets(limit) => packets < limit as usize,
        QueueLimit::Bytes(limit) => bytes + u64::from(size) <= limit,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::network::{
        AqmConfig, ArqConfig, ChangingDelay, During, JitterConfig, Lateness, OutageConfig, Outages,
        RedConfig, ReorderConfig, Steps,
    };
    use crate::units::{Probability, Rate};

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn impairments() -> impl Strategy<Value = Impairments> {
        let delay = (0_u64..40, 0_u64..40, 1_u64..90, 1_u64..90, any::<bool>()).prop_map(
            |(a, b, at, more, in_order)| {
                let steps = vec![(ms(0), ms(a)), (ms(at), ms(b))];
                let steps = Steps::new(steps, Some(ms(at + more))).unwrap();
                ChangingDelay { steps: steps.into(), in_order }
            },
        );
        let jitter = (0_u64..20, any::<bool>()).prop_map(|(most, in_order)| JitterConfig {
            in_order,
            ..JitterConfig::uniform(ms(most))
        });
        let reorder = (0.0..1.0, 1_u32..5).prop_map(|(share, packets)| ReorderConfig {
            share: Probability::new(share).unwrap(),
            by: Lateness::Packets(packets),
        });
        let outages = (0_u64..50, 1_u64..30, 1_u64..90, any::<bool>()).prop_map(
            |(at, length, more, hold)| {
                let when = Outages::new(&[(ms(at), ms(length))], Some(ms(at + length + more)));
                let during = if hold { During::Hold } else { During::Drop };
                OutageConfig { when: when.unwrap().into(), during }
            },
        );
        let arq = (1_u32..6, 0_u64..20, any::<bool>(), any::<bool>()).prop_map(
            |(attempts, delay, in_order, air_time)| ArqConfig {
                attempts,
                delay: ms(delay),
                in_order,
                air_time,
            },
        );
        (
            prop::option::of(delay),
            prop::option::of(jitter),
            prop::option::of(reorder),
            prop::option::of(outages),
            prop::option::of(arq),
        )
            .prop_map(|(delay, jitter, reorder, outages, arq)| Impairments {
                delay,
                jitter,
                reorder,
                outages,
                arq,
            })
    }

    fn rates() -> impl Strategy<Value = LinkRate> {
        let bps = || (1_u64..20).prop_map(|n| Rate::from_bps(n * 700_001).unwrap());
        prop_oneof![
            bps().prop_map(LinkRate::from),
            (bps(), bps(), 1_u64..50, 1_u64..50).prop_map(|(a, b, at, more)| {
                Steps::new(vec![(ms(0), a), (ms(at), b)], Some(ms(at + more))).unwrap().into()
            }),
        ]
    }

    /// The fates of packets of these sizes, each that many microseconds after the one before.
    fn fates(
        mut link: Link<usize>,
        impairments: &Impairments,
        offers: &[(u64, u32)],
    ) -> (Vec<Option<Departure>>, u64) {
        link.impair(impairments, 1, "test");
        let mut packets: Vec<Packet> =
            offers.iter().map(|(_, size)| Packet { size: *size, ..Packet::default() }).collect();
        let mut fates = vec![None; offers.len()];
        let mut note = |fate| match fate {
            Fate::Sent { handle, departure, .. } => fates[handle] = Some(departure),
            Fate::Dropped { .. } => {}
        };
        let mut now = Time::ZERO;
        for (handle, (gap, _)) in offers.iter().enumerate() {
            now += Duration::from_micros(*gap);
            while let Some(fate) = link.advance(now, &mut packets[..]) {
                note(fate);
            }
            if let Some(fate) = link.offer(now, Label::default(), &mut packets[handle], handle) {
                note(fate);
            }
        }
        let longest = link.longest_queue() as u64;
        while let Some(fate) = link.advance(Time::NEVER, &mut packets[..]) {
            note(fate);
        }
        (fates, longest)
    }

    proptest! {
        /// Arithmetic and a link that holds its packets agree for any impairments; the wire sends
        /// one packet at a time, no packet arrives too early, and order is kept if promised.
        #[test]
        fn both_kinds_of_link_agree(
            rate in rates(),
            impairments in impairments(),
            red in any::<bool>(),
            loss in 0.0..1.0_f64,
            offers in prop::collection::vec((0_u64..8000, 40_u32..1500), 1..120),
        ) {
            let aqm = if red {
                AqmConfig::Red(RedConfig { min_threshold: 1.0, weight: 0.2, ..RedConfig::NS2 })
            } else {
                AqmConfig::default()
            };
            let limit = QueueLimit::Packets(8);
            let queue = QueueConfig { limit, aqm, ..QueueConfig::default() };
            let channel = ChannelConfig::PacketLoss(Probability::new(loss).unwrap());
            let fifo = FifoLink::new(&rate, ms(10), &queue, &channel, 1, "test");
            let queued = QueuedLink::new(&rate, ms(10), &queue, &channel, 1, "test");
            let (fifo, queued) = (Link::Fifo(fifo), Link::Queued(Box::new(queued)));
            let (sent, longest) = fates(fifo, &impairments, &offers);
            prop_assert_eq!(&(sent.clone(), longest), &fates(queued, &impairments, &offers));
            let sent: Vec<Departure> = sent.into_iter().flatten().collect();
            let least = impairments.delay.as_ref().map_or(ms(10), |delay| delay.steps.least());
            for departure in &sent {
                prop_assert!(departure.start < departure.end);
                prop_assert!(departure.arrival >= departure.end + least);
            }
            for pair in sent.windows(2) {
                prop_assert!(pair[1].start >= pair[0].end);
                prop_assert!(!impairments.keep_order() || pair[1].arrival >= pair[0].arrival);
            }
        }
    }
}
