//! Queue management: which packets a queue drops or marks, and in which order it sends the rest.
//!
//! An AQM is one file here: a state machine that implements [`Aqm`], its
//! parameters, and how it describes itself ([`Part`]). It is asked when a packet
//! arrives and again when it would leave, and answers with a [`Verdict`]; it may have timers. A
//! line in the list below makes it a choice of scenario files.
//!
//! The queue may be split into lanes, FIFO queues of their own, if the AQM says so: it names
//! the lane of each arrival, and which lane is served next.

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
use crate::part::{CustomPart, Part, Plain, axis, behaviour};
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
        |maker: &dyn MakeAqm, place: &QueueSetup<'_>| maker.make(place);
    DropTail: DropTail,
    Red: Red => Box,
    Codel: Codel => Box,
    FqCodel: FqCodel => Box,
    Pie: Pie => Box,
    DualPi2: DualPi2 => Box,
}

impl AqmConfig {
    /// Does it mark packets?
    pub fn marks(&self) -> bool {
        each_kind!(self, P(config) => <P as AqmPart>::marks(config), custom(aqm) => aqm.marks())
    }
    /// Must packets be held until they leave? If not, a [`super::FifoLink`] will do.
    pub fn acts_on_departure(&self) -> bool {
        each_kind!(
            self,
            P(_) => <P as AqmPart>::ACTS_ON_DEPARTURE,
            custom(aqm) => aqm.acts_on_departure()
        )
    }
}

impl Default for AqmConfig {
    /// Drop what does not fit.
    fn default() -> Self {
        AqmConfig::DropTail(Plain)
    }
}

/// What is to become of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Let it pass.
    Pass,
    /// Let it pass with a congestion mark. Where the transport does not understand ECN
    /// ([`Flags::ECN_CAPABLE`](crate::packet::Flags::ECN_CAPABLE)) it is dropped instead.
    Mark,
    /// Drop it.
    Drop,
}

/// A queue, as what manages it and what writes into its packets see it.
#[derive(Debug, Clone, Copy)]
pub struct Backlog<'a> {
    /// Packets waiting, the one in transmission not counted.
    pub packets: usize,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// How much may wait.
    pub limit: QueueLimit,
    /// Since when the wire has had nothing to do; `None` while it has.
    pub idle_since: Option<Time>,
    /// Since when this queue has had nothing to do, waiting or on the wire; `None` while it has.
    /// Other than `idle_since` where classes share a wire.
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

/// A part of a queue that is first come, first served.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lane {
    /// Packets in it.
    pub packets: usize,
    /// Their bytes.
    pub bytes: u64,
    /// When its first packet came, and that one's bytes.
    pub head: Option<(Time, u32)>,
}

/// Packets that make room for an arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Eviction {
    /// The lane from whose head they are dropped.
    pub lane: usize,
    /// How many, at least one.
    pub packets: usize,
}

/// A packet that would leave a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaving {
    /// When it came.
    pub arrived: Time,
    /// Its lane.
    pub lane: usize,
}

behaviour! {
    /// An AQM at work. By default it does nothing: DropTail.
    pub trait Aqm: Debug {
        /// A packet arrives and finds `queue`. What passes here is still dropped if it does not
        /// fit.
        fn on_enqueue(&mut self, now: Time, queue: &Backlog<'_>, packet: &Packet) -> Verdict =
            Verdict::Pass;
        /// A packet would leave; `queue` is what it leaves behind. After a drop the next packet is
        /// asked about at once.
        fn on_dequeue(
            &mut self,
            now: Time,
            leaving: Leaving,
            queue: &Backlog<'_>,
            packet: &Packet,
        ) -> Verdict = Verdict::Pass;
        /// When [`Aqm::on_timer`] must be called next.
        fn next_timer(&self) -> Time = Time::NEVER;
        /// An interval ends.
        fn on_timer(&mut self, now: Time, queue: &Backlog<'_>) = ();
        /// The wire has another rate from now on, and the queue may count on `share` of it; all that
        /// was due by `now` has been done.
        fn on_rate(&mut self, now: Time, wire: Rate, share: Rate) = ();
        /// The lane that an arriving packet joins if it is let in, from 0; at most one more than
        /// there are.
        fn lane(&mut self, label: Label, packet: &Packet) -> usize = 0;
        /// The lane whose first packet is to leave next; something waits in `queue`. Called again if
        /// that packet is dropped.
        fn next_lane(&mut self, now: Time, queue: &Backlog<'_>) -> usize = 0;
        /// `queue` holds more than it may now that the latest arrival has joined: what goes. Asked
        /// only of AQMs that [make room](Aqm::makes_room).
        fn evict(&mut self, queue: &Backlog<'_>) -> Eviction = Eviction { lane: 0, packets: 1 };
        /// Is an arrival that does not fit let in at the cost of others?
        fn makes_room(&self) -> bool = false;
        /// The most bytes that may wait, beside the limit of the queue.
        fn memory_limit(&self) -> u64 = u64::MAX;
    }
    impl for AqmState, by each;
}

/// An AQM as a part: how it is made, and what must be known of it before.
pub trait AqmPart: Part + Aqm + Sized {
    /// The AQM of an empty queue.
    fn new(config: &Self::Config, place: &QueueSetup<'_>) -> Self;

    /// Does it mark packets, with these parameters?
    fn marks(_config: &Self::Config) -> bool {
        false
    }

    /// Does it act when packets leave, or on timers, or keep lanes? If not, and only then, a
    /// [`super::FifoLink`] may ask it, which only calls [`Aqm::on_enqueue`].
    const ACTS_ON_DEPARTURE: bool;
}

/// What makes an AQM from another crate: [`AqmConfig::Custom`].
pub trait MakeAqm: CustomPart {
    /// The AQM of an empty queue.
    fn make(&self, place: &QueueSetup<'_>) -> Box<dyn Aqm + Send + Sync>;
    /// See [`AqmPart::marks`].
    fn marks(&self) -> bool {
        false
    }
    /// See [`AqmPart::ACTS_ON_DEPARTURE`].
    fn acts_on_departure(&self) -> bool {
        true
    }
}

/// Where a queue is.
#[derive(Debug, Clone, Copy)]
pub struct QueueSetup<'a> {
    /// The rate of the wire, or its mean.
    pub wire: Rate,
    /// What of it the queue may count on beside other classes.
    pub share: Rate,
    /// How much may wait.
    pub limit: QueueLimit,
    /// The seed of the run.
    pub seed: u64,
    /// The name of the queue, different from those of all others.
    pub name: &'a str,
}

impl QueueSetup<'_> {
    /// The random numbers of what is called `kind` here.
    pub fn stream(&self, kind: &str) -> Stream {
        Stream::new(self.seed, kind, self.name)
    }
}
