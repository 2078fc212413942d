//! One run on several threads, with the outcome of one thread.
//!
//! Each thread has a simulation of its own and handles the events of the nodes that it
//! [owns](Partition). A packet that leaves on a cut link goes as a message to the thread of the far
//! end. All threads run through a window, exchange their messages, and go on. A window ends a
//! lookahead after the earliest event of all threads: no message sent in it has an effect in it.
//! The order of events does not depend on the order in which they are entered, so each component
//! sees what it sees on one thread.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use windward_core::packet::Packet;
use windward_core::units::{Duration, Time};

use super::flow::{Ends, Flow};
use super::group::Group;
use super::slab::{PacketId, Slab, Slot};
use super::{Detail, Simulation};
use crate::outcome::Outcome;
use crate::partition::Partition;
use crate::scenario::Scenario;

/// A packet on a cut link.
#[derive(Debug)]
struct Message {
    link: u32,
    /// Time at which it reaches the far end.
    at: Time,
    flow: u32,
    step: u32,
    packet: Packet,
}

/// The thread of a simulation, and the packets that leave it.
#[derive(Debug)]
pub(super) struct Border {
    me: u8,
    ends: Vec<[u8; 2]>,
    /// By thread.
    outboxes: Vec<Vec<Message>>,
    /// Arrival of the first packet in them.
    first: Time,
}

impl Border {
    fn new(partition: &Partition, me: u8) -> Self {
        let outboxes = (0..partition.threads()).map(|_| Vec::new()).collect();
        Border { me, ends: partition.ends.clone(), outboxes, first: Time::NEVER }
    }

    /// True if this thread has the near end of a link.
    pub(super) fn sends_on(&self, link: usize) -> bool {
        self.ends[link][0] == self.me
    }

    /// True if this thread has the far end of a link.
    pub(super) fn receives_from(&self, link: usize) -> bool {
        self.ends[link][1] == self.me
    }

    /// True if the ends of a link have different threads.
    pub(super) fn is_cut(&self, link: usize) -> bool {
        self.ends[link][0] != self.ends[link][1]
    }

    /// Takes a packet that leaves on a cut link out of the slab.
    pub(super) fn send(&mut self, slab: &mut Slab, link: u32, id: PacketId, at: Time) {
        let Slot { flow, step, packet } = &mut slab[id];
        let packet = std::mem::take(packet);
        let [_, far] = self.ends[link as usize];
        self.outboxes[usize::from(far)].push(Message {
            link,
            at,
            flow: *flow,
            step: *step,
            packet,
        });
        self.first = self.first.min(at);
        slab.give_back(id);
    }
}

/// The simulation of one thread: no cache line has parts of two.
#[derive(Debug)]
#[repr(align(128))]
struct Part(Simulation);

/// A run on several threads.
#[derive(Debug)]
pub struct ParallelSimulation {
    parts: Vec<Part>,
    lookahead: Duration,
    now: Time,
}

impl ParallelSimulation {
    /// A simulation of the scenario at time zero, with a thread for each part of the partition
    /// while it advances.
    pub fn new(scenario: &Scenario, partition: &Partition) -> Self {
        let detail = Detail::of(scenario);
        let make = |me: u8| {
            Part(Simulation::with_border(scenario, detail, Some(Border::new(partition, me))))
        };
        let parts = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (1..partition.threads() as u8).map(|me| scope.spawn(move || make(me))).collect();
            let first = make(0);
            let others = threads.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            std::iter::once(first).chain(others).collect()
        });
        ParallelSimulation { parts, lookahead: partition.lookahead, now: Time::ZERO }
    }

    /// Events handled so far: more than on one thread.
    pub fn events(&self) -> u64 {
        self.parts.iter().map(|part| part.0.events()).sum()
    }

    /// Runs to the end, and returns the outcome: that of [`Simulation::finish`], with another
    /// number of events.
    pub fn finish(mut self) -> Outcome {
        self.advance(Time::NEVER);
        let parts = self.parts.into_iter().map(|Part(mut part)| {
            part.network.slab = Slab::default();
            part
        });
        merge(parts.collect()).finish()
    }
}

/// A simulation on any number of threads.
pub trait Advance: Send {
    /// Virtual time reached so far.
    fn now(&self) -> Time;

    /// Number of threads that advance it.
    fn threads(&self) -> usize;

    /// Handles every event up to and including `until`, but none after the end of the scenario.
    fn advance(&mut self, until: Time);
}

impl Advance for Simulation {
    fn now(&self) -> Time {
        self.now
    }

    fn threads(&self) -> usize {
        1
    }

    fn advance(&mut self, until: Time) {
        Simulation::advance(self, until);
    }
}

impl Advance for ParallelSimulation {
    fn now(&self) -> Time {
        self.now
    }

    fn threads(&self) -> usize {
        self.parts.len()
    }

    fn advance(&mut self, until: Time) {
        let until = until.min(self.parts[0].0.window.until);
        let exchange = Exchange::new(self.parts.len());
        let lookahead = self.lookahead;
        std::thread::scope(|scope| {
            let mut parts = self.parts.iter_mut();
            let first = parts.next();
            for part in parts {
                scope.spawn(|| part.0.advance_with(&exchange, lookahead, until));
            }
            if let Some(first) = first {
                first.0.advance_with(&exchange, lookahead, until);
            }
        });
        self.now = self.now.max(until);
    }
}

impl Simulation {
    /// Handles every event of this thread up to and including `until`.
    fn advance_with(&mut self, exchange: &Exchange, lookahead: Duration, until: Time) {
        let Some(me) = self.network.border.as_ref().map(|border| usize::from(border.me)) else {
            return;
        };
        let _guard = Leaves(&exchange.rendezvous);
        let mut round = 0;
        loop {
            // The messages of a window are entered before the next one begins.
            let Some(start) = self.exchange(exchange, me, round) else { return };
            round += 1;
            if start > until {
                break;
            }
            let end = Time::from_ps((start + lookahead).as_ps() - 1);
            let end = end.min(until);
            self.sample_until(end);
            self.turn_to(end);
        }
        self.advance(until);
        self.exchange(exchange, me, round);
    }

    /// Sends and takes messages. Returns the time of the next event of all threads; `None` if one
    /// of them has failed.
    fn exchange(&mut self, exchange: &Exchange, me: usize, round: usize) -> Option<Time> {
        let mut next = self.schedule.next();
        let border = self.network.border.as_mut()?;
        next = next.min(std::mem::replace(&mut border.first, Time::NEVER));
        // The other threads may still read what was written in the last round.
        let Round { next: times, boxes } = &exchange.rounds[round % 2];
        for (to, outbox) in border.outboxes.iter_mut().enumerate() {
            if !outbox.is_empty() {
                std::mem::swap(outbox, &mut lock(&boxes[to][me]));
            }
        }
        times[me].store(next.as_ps(), Ordering::Relaxed);
        if !exchange.rendezvous.wait() {
            return None;
        }
        for from in &boxes[me] {
            for Message { link, at, flow, step, packet } in lock(from).drain(..) {
                let slab = &mut self.network.slab;
                let id = slab.vacant();
                slab.claim(id, flow, step);
                slab[id].packet = packet;
                self.network.put_on_wire(&mut self.schedule, link, id, at);
            }
        }
        times.iter().map(|time| Time::from_ps(time.load(Ordering::Relaxed))).min()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Messages and times on their way between threads.
#[derive(Debug)]
struct Exchange {
    rendezvous: Rendezvous,
    /// Used in turn.
    rounds: [Round; 2],
}

#[derive(Debug)]
struct Round {
    /// By thread, the time of its next event.
    next: Vec<AtomicU64>,
    /// By thread to which and from which they go.
    boxes: Vec<Vec<Mutex<Vec<Message>>>>,
}

impl Exchange {
    fn new(threads: usize) -> Self {
        let row = || (0..threads).map(|_| Mutex::default()).collect();
        let round = || Round {
            next: (0..threads).map(|_| AtomicU64::new(0)).collect(),
            boxes: (0..threads).map(|_| row()).collect(),
        };
        Exchange { rendezvous: Rendezvous::new(threads), rounds: [round(), round()] }
    }
}

/// A barrier that no thread waits at for one that has panicked.
#[derive(Debug)]
struct Rendezvous {
    threads: usize,
    /// Number of looks at the generation before a thread sleeps.
    patience: u32,
    arrived: AtomicUsize,
    generation: AtomicUsize,
    has_failed: AtomicBool,
    lock: Mutex<()>,
    turn: Condvar,
}

impl Rendezvous {
    fn new(threads: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Rendezvous {
            threads,
            // Windows are short: sleeping would take longer than most of them.
            patience: if threads <= cores { 5000 } else { 0 },
            arrived: AtomicUsize::new(0),
            generation: AtomicUsize::new(0),
            has_failed: AtomicBool::new(false),
            lock: Mutex::default(),
            turn: Condvar::new(),
        }
    }

    /// Waits for all threads. Returns false if one has failed and will not come.
    fn wait(&self) -> bool {
        let generation = self.generation.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.arrived.store(0, Ordering::Relaxed);
            let guard = lock(&self.lock);
            self.generation.store(generation + 1, Ordering::Release);
            drop(guard);
            self.turn.notify_all();
            return true;
        }
        let all_came = || self.generation.load(Ordering::Acquire) != generation;
        let goes_on = || all_came() || self.has_failed.load(Ordering::Acquire);
        for _ in 0..self.patience {
            if goes_on() {
                return all_came();
            }
            std::hint::spin_loop();
        }
        let mut guard = lock(&self.lock);
        while !goes_on() {
            guard = self.turn.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        all_came()
    }
}

/// Lets the other threads go on when this one panics.
struct Leaves<'a>(&'a Rendezvous);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let guard = lock(&self.0.lock);
            self.0.has_failed.store(true, Ordering::Release);
            drop(guard);
            self.0.turn.notify_all();
        }
    }
}

/// One simulation that has, of each flow, link and group, what the thread that owned it has seen.
fn merge(mut parts: Vec<Simulation>) -> Simulation {
    let count = parts[0].flows.all.len();
    for flow in 0..count {
        merge_flow(&mut parts, flow);
    }
    let mut parts = parts.into_iter();
    let mut whole = parts.next().expect("a partition has threads");
    for mut part in parts {
        let Some(border) = part.network.border.take() else { continue };
        whole.events += part.events;
        whole.fingerprint = whole.fingerprint.wrapping_add(part.fingerprint);
        for (link, hop) in part.network.hops.into_iter().enumerate() {
            if border.sends_on(link) {
                whole.network.hops[link] = hop;
            }
        }
        whole.network.unordered.append(&mut part.network.unordered);
        for (group, other) in whole.flows.groups.iter_mut().zip(part.flows.groups) {
            Group::merge(group, other);
        }
        if let (Some(samples), Some(other)) = (&mut whole.sampler, part.sampler) {
            let routes = &whole.network.routes;
            let flows = &whole.flows.all;
            let sends = |flow: usize| {
                border.sends_on(routes.step(flows[flow].route.forward).link() as usize)
            };
            samples.take_over(other, sends, |link| border.sends_on(link));
        }
    }
    whole
}

/// Brings what the threads know of a flow to the first of them.
fn merge_flow(parts: &mut [Simulation], flow: usize) {
    let first = &parts[0];
    let route = first.network.routes.from(first.flows.all[flow].route.forward);
    let Some(ends) = first.network.border.as_ref().map(|border| &border.ends) else { return };
    let (Some(out), Some(last)) = (route.first(), route.last()) else { return };
    let sender = usize::from(ends[out.link() as usize][0]);
    let receiver = usize::from(ends[last.link() as usize][1]);
    let bottleneck = route.iter().find(|step| step.is_measured());
    let bottleneck = bottleneck.map_or(0, |step| usize::from(ends[step.link() as usize][0]));
    let lost = parts.iter().map(|part| part.flows.all[flow].lost).sum();
    let datagrams_lost = parts.iter().map(|part| part.flows.all[flow].ends.datagrams_lost()).sum();
    if sender != receiver {
        let [a, b] = pair(parts, sender, receiver);
        a.flows.all[flow].ends.take_receiver(&mut b.flows.all[flow].ends);
    }
    if sender != 0 {
        let [a, b] = pair(parts, 0, sender);
        std::mem::swap(&mut a.flows.all[flow].ends, &mut b.flows.all[flow].ends);
    }
    if bottleneck != 0 {
        let [a, b] = pair(parts, 0, bottleneck);
        std::mem::swap(&mut a.flows.all[flow].bottleneck, &mut b.flows.all[flow].bottleneck);
    }
    let Flow { ends, lost: all_lost, .. } = &mut parts[0].flows.all[flow];
    *all_lost = lost;
    if let Ends::Datagrams(datagrams) = ends {
        datagrams.lost = datagrams_lost;
    }
}

/// Two different parts.
fn pair(parts: &mut [Simulation], a: usize, b: usize) -> [&mut Simulation; 2] {
    parts.get_disjoint_mut([a, b]).expect("two parts of the partition")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_a_thread_that_panics() {
        for patience in [0, 1_000_000] {
            let mut rendezvous = Rendezvous::new(2);
            rendezvous.patience = patience;
            let rendezvous = &rendezvous;
            std::thread::scope(|scope| {
                let other = scope.spawn(|| {
                    let _guard = Leaves(rendezvous);
                    assert!(rendezvous.wait(), "both are there");
                    std::panic::resume_unwind(Box::new("as a test"));
                });
                assert!(rendezvous.wait());
                assert!(!rendezvous.wait(), "the other one is gone");
                assert!(other.join().is_err());
            });
        }
    }
}
