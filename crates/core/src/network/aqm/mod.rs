//! AQMs, which decide which packets a queue drops or marks, and the order of the others.
//!
//! An AQM is one file here: a state machine that implements [`Aqm`], its parameters, and its
//! description ([`Part`]). It is called when a packet arrives and again when it would leave, and
//! returns a [`QueueAction`]; it may have timers. A line in the list below makes it available in
//! scenario files.
//!
//! An AQM may split its queue into lanes, FIFO queues of their own: it names the lane of each
//! arrival, and the lane that is served next.

mod codel;
mod drop_tail;
mod dualpi2;
mod fq_codel;
mod pie;
mod red;

pub use codel::{Codel, CodelConfig};
pub use drop_tail::DropTail;
pub use dualpi2::{DualPi2, DualPi2Config, DualScheduler};
pub use fq_codel::{FqCodel, FqCodelConfig};
pub use pie::{Pie, PieConfig};
pub use red::{Red, RedConfig};

use std::fmt::Debug;

use super::QueueLimit;
use crate::packet::{Label, Packet};
use crate::part::{AnyPart, CustomPart, Part, Plain, axis, behaviour};
use crate::rng::Stream;
use crate::units::{Rate, Time};

axis! {
    $ each each_kind;
    /// The AQM of a link, with its parameters.
    config AqmConfig;
    /// The state of a queue's management.
    state AqmState;
    @make AqmPart(&QueueSetup<'_>);
    @custom dyn MakeAqm => Box<dyn Aqm + Send + Sync> =
        |maker: &dyn MakeAqm, setup: &QueueSetup<'_>| maker.make(setup);
    DropTail: DropTail,
    Red: Red => Box,
    Codel: Codel => Box,
    FqCodel: FqCodel => Box,
    Pie: Pie => Box,
    DualPi2: DualPi2 => Box,
}

impl AqmConfig {
    /// True if it can be told to mark packets, by a parameter `ecn`.
    pub fn has_ecn_parameter(&self) -> bool {
        self.settings().iter().any(|setting| setting.doc.key == "ecn")
    }
    /// The default limit of a router's queue; `None` for 100 ms at its rate.
    pub fn default_limit(&self) -> Option<QueueLimit> {
        each_kind!(self, P(_) => <P as AqmPart>::DEFAULT_LIMIT, custom(_) => None)
    }
    /// True if it aims at a standing queue far below the limit.
    pub fn keeps_queue_short(&self) -> bool {
        each_kind!(self, P(_) => <P as AqmPart>::KEEPS_QUEUE_SHORT, custom(_) => false)
    }
    /// True if it marks packets.
    pub fn marks(&self) -> bool {
        each_kind!(self, P(config) => <P as AqmPart>::marks(config), custom(aqm) => aqm.marks())
    }
    /// True if packets must be held until they leave. If not, a [`super::FifoLink`] will do.
    pub fn acts_on_departure(&self) -> bool {
        each_kind!(
            self,
            P(_) => <P as AqmPart>::ACTS_ON_DEPARTURE,
            custom(aqm) => aqm.acts_on_departure()
        )
    }
}

impl Default for AqmConfig {
    /// DropTail.
    fn default() -> Self {
        AqmConfig::DropTail(Plain)
    }
}

/// The action of an AQM on a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueAction {
    /// Let it pass.
    Pass,
    /// Let it pass with a congestion mark. If the transport does not understand ECN
    /// ([`Flags::ECN_CAPABLE`](crate::packet::Flags::ECN_CAPABLE)) it is dropped instead.
    Mark,
    /// Drop it.
    Drop,
}

/// A queue, as its AQM and its router see it.
#[derive(Debug, Clone, Copy)]
pub struct Backlog<'a> {
    /// Packets waiting, the one in transmission not counted.
    pub packets: usize,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Its capacity.
    pub limit: QueueLimit,
    /// The time since which the wire has been idle; `None` while it is busy.
    pub idle_since: Option<Time>,
    /// The time since which this queue has had no packet, waiting or on the wire; `None` while it
    /// has one. Differs from `idle_since` if classes share a wire.
    pub empty_since: Option<Time>,
    /// The lanes that have been used so far. Empty on a link that holds no packets.
    pub lanes: &'a [Lane],
}

impl Backlog<'_> {
    /// The queue as a share of its limit.
    pub fn filled(&self) -> f64 {
        match self.limit {
            QueueLimit::Packets(limit) => self.packets as f64 / f64::from(limit),
            QueueLimit::Bytes(limit) => self.bytes as f64 / limit as f64,
        }
    }
}

/// A part of a queue, served first come, first served.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lane {
    /// Packets in it.
    pub packets: usize,
    /// Their bytes.
    pub bytes: u64,
    /// The arrival time and the bytes of its first packet.
    pub head: Option<(Time, u32)>,
}

/// Packets that make room for an arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Eviction {
    /// The lane from whose head they are dropped.
    pub lane: usize,
    /// Their number, at least one.
    pub packets: usize,
}

/// A packet that would leave a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaving {
    /// The time of its arrival.
    pub arrived: Time,
    /// Its lane.
    pub lane: usize,
}

behaviour! {
    /// The AQM of one queue. The default methods are those of DropTail.
    pub trait Aqm: Debug {
        /// Judges a packet that arrives at `queue`. A packet that passes is still dropped if it
        /// does not fit.
        fn on_enqueue(&mut self, now: Time, queue: &Backlog<'_>, packet: &Packet) -> QueueAction =
            QueueAction::Pass;
        /// Judges a packet that is about to leave; `queue` is the queue without it. After a drop
        /// this is called for the next packet at once.
        fn on_dequeue(
            &mut self,
            now: Time,
            leaving: Leaving,
            queue: &Backlog<'_>,
            packet: &Packet,
        ) -> QueueAction = QueueAction::Pass;
        /// The time at which [`Aqm::on_timer`] must be called next.
        fn next_timer(&self) -> Time = Time::NEVER;
        /// Handles the end of an interval.
        fn on_timer(&mut self, now: Time, queue: &Backlog<'_>) = ();
        /// Handles a new rate of the wire, of which the queue may expect `share`. Everything due by
        /// `now` has been done.
        fn on_rate(&mut self, now: Time, wire: Rate, share: Rate) = ();
        /// The lane that an arriving packet joins if it is accepted, from 0; at most the number of
        /// lanes.
        fn lane(&mut self, label: Label, packet: &Packet) -> usize = 0;
        /// The lane whose first packet is to leave next; something waits in `queue`. Called again
        /// if that packet is dropped.
        fn next_lane(&mut self, now: Time, queue: &Backlog<'_>) -> usize = 0;
        /// The packets to drop from `queue`, which exceeds its limit since the latest arrival
        /// joined. Called only for AQMs that [make room](Aqm::makes_room).
        fn evict(&mut self, queue: &Backlog<'_>) -> Eviction = Eviction { lane: 0, packets: 1 };
        /// True if an arrival that does not fit is accepted and other packets are dropped for it.
        fn makes_room(&self) -> bool = false;
        /// The maximum number of bytes that may wait, in addition to the limit of the queue.
        fn memory_limit(&self) -> u64 = u64::MAX;
    }
    impl for AqmState, by each;
}

/// An AQM of this crate, with its properties that do not depend on a queue.
pub trait AqmPart: Part + Aqm + Sized {
    /// The state before an empty queue.
    fn new(config: &Self::Config, setup: &QueueSetup<'_>) -> Self;

    /// True if it marks packets, with these parameters.
    fn marks(_config: &Self::Config) -> bool {
        false
    }

    /// True if it acts when packets leave, or on timers, or has lanes. Only if this is false may a
    /// [`super::FifoLink`] use it, which only calls [`Aqm::on_enqueue`].
    const ACTS_ON_DEPARTURE: bool;

    /// The default limit of a router's queue; `None` for 100 ms at its rate.
    const DEFAULT_LIMIT: Option<QueueLimit> = None;

    /// True if it aims at a standing queue far below the limit.
    const KEEPS_QUEUE_SHORT: bool = false;
}

/// Constructor of an AQM from another crate: [`AqmConfig::Custom`].
pub trait MakeAqm: CustomPart {
    /// The state before an empty queue.
    fn make(&self, setup: &QueueSetup<'_>) -> Box<dyn Aqm + Send + Sync>;
    /// See [`AqmPart::marks`].
    fn marks(&self) -> bool {
        false
    }
    /// See [`AqmPart::ACTS_ON_DEPARTURE`].
    fn acts_on_departure(&self) -> bool {
        true
    }
}

/// Arguments for the construction of the AQM and the router of a queue.
#[derive(Debug, Clone, Copy)]
pub struct QueueSetup<'a> {
    /// The rate of the wire, or its mean.
    pub wire: Rate,
    /// The part of it that the queue may expect if there are other classes.
    pub share: Rate,
    /// The capacity of the queue.
    pub limit: QueueLimit,
    /// The seed of the run.
    pub seed: u64,
    /// The name of the queue, different from those of all others.
    pub name: &'a str,
}

impl QueueSetup<'_> {
    /// The random numbers of the part named `kind` of this queue.
    pub fn stream(&self, kind: &str) -> Stream {
        Stream::new(self.seed, kind, self.name)
    }
}
