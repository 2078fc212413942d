//! A queue of a gateway: packets forwarded to a device go through one link of the engine.
//!
//! The kernel hands packets over once it has decided that they leave by the device ([`Diverted`]).
//! A scenario with one link of the given rate and queue, without delay, determines when each
//! leaves, with which marks and congestion header, or that it is dropped. So AQMs, routers and
//! classes are those of scenarios, with the same names.
//!
//! Settings may change while packets wait. A new rate changes the link. All other settings need a
//! new link: packets in the old one leave it first, at the new rate, and packets that come
//! meanwhile are kept for the new one, so that a change loses none.

mod claims;
mod metrics;
mod settings;

use std::collections::VecDeque;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use windward_core::network::RouterKind;
use windward_core::units::{Duration, Rate, Time};
use windward_netns::{Diverted, prefer_this_thread, wait};
use windward_sim::stack::{Codepoint, End};
use windward_sim::{LinkChange, Simulation};

use self::claims::Claims;
use self::settings::Served;
use crate::clock::{Clock, Monotonic};
use crate::emulate::{self, Lateness, Outside, Take};
use crate::headers::{asked_of, codepoint};
use crate::histogram::Durations;
use crate::port::Port;

pub use metrics::{serve as serve_metrics, text};
pub use settings::{Choice, Config, Settings, SettingsError, qdiscs};

/// Packets and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Number of packets.
    pub packets: u64,
    /// Bytes of IP packets, headers included.
    pub bytes: u64,
}

impl Count {
    fn add(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }
}

/// Counts of a queue so far. `arrived` is the sum of the packets that were sent, were dropped, and
/// wait.
#[derive(Debug, Clone)]
pub struct Stats {
    /// The device whose queue it is.
    pub device: String,
    /// Time of these counts, since the queue was started.
    pub at: Time,
    /// Names of the AQM and of the router.
    pub qdisc: String,
    /// The current rate.
    pub rate: Rate,
    /// Packets handed over by the kernel.
    pub arrived: Count,
    /// Packets sent on.
    pub sent: Count,
    /// Packets dropped by the queue.
    pub dropped: Count,
    /// Packets that came with ECT and were sent on with CE.
    pub marked: u64,
    /// Datagrams of Windward among those sent, which a router may write into.
    pub ours: u64,
    /// Datagrams of Windward that asked for a router whose feedback the queue does not give, by the
    /// number of its kind.
    pub unserved: [u64; RouterKind::ALL.len()],
    /// Packets that wait, and those that wait for new settings.
    pub waiting: u64,
    /// Changes of settings.
    pub reloads: u64,
    /// Packets that the kernel dropped, because they were not read in time.
    pub overflow: u64,
    /// Times from the reading of packets to their release.
    pub sojourn: Durations,
    /// Lateness of the release of packets, compared with the link.
    pub lateness: Lateness,
    /// True if the thread has a real-time priority.
    pub is_real_time: bool,
}

impl Stats {
    fn new(settings: &Settings) -> Self {
        Stats {
            device: settings.device().to_owned(),
            at: Time::ZERO,
            qdisc: settings.qdisc(),
            rate: settings.rate(),
            arrived: Count::default(),
            sent: Count::default(),
            dropped: Count::default(),
            marked: 0,
            ours: 0,
            unserved: [0; RouterKind::ALL.len()],
            waiting: 0,
            reloads: 0,
            overflow: 0,
            sojourn: Durations::default(),
            lateness: Lateness::new(),
            is_real_time: false,
        }
    }

    /// The kind of router that most of the `unserved` datagrams asked for.
    pub fn most_wanted(&self) -> Option<RouterKind> {
        let all = RouterKind::ALL.into_iter().filter(|kind| self.unserved[*kind as usize] > 0);
        all.max_by_key(|kind| self.unserved[*kind as usize])
    }
}

/// State that the thread of a queue shares with others.
#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    /// True if `next` has something.
    changes: AtomicBool,
    next: Mutex<Option<Settings>>,
    stats: Mutex<Stats>,
    /// Number of rounds of the thread.
    rounds: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running queue, on a thread of its own. After it is dropped, packets are forwarded as without
/// it.
#[derive(Debug)]
pub struct Router {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<(io::Result<()>, Diverted)>>,
    /// The socket of a queue that has ended, without rules and packets.
    diverted: Option<Diverted>,
}

impl Router {
    /// Starts a queue before a device in the network namespace of the calling thread.
    pub fn start(settings: &Settings) -> windward_netns::Result<Self> {
        let diverted = Diverted::begin(settings.device(), settings.own())?;
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            changes: AtomicBool::new(false),
            next: Mutex::new(None),
            stats: Mutex::new(Stats::new(settings)),
            rounds: AtomicU64::new(0),
        });
        let (settings, of_thread) = (settings.clone(), Arc::clone(&shared));
        let work = move || {
            let is_real_time = prefer_this_thread().is_ok();
            lock(&of_thread.stats).is_real_time = is_real_time;
            Worker::new(diverted, settings, &of_thread).run()
        };
        let thread = thread::Builder::new().name("router".into()).spawn(work);
        let thread = thread.map_err(|error| {
            windward_netns::Error::new("cannot make a thread for a queue", error)
        })?;
        Ok(Router { shared, thread: Some(thread), diverted: None })
    }

    /// Changes the settings, for the same device. Whether packets of this machine itself are
    /// diverted stays as it was.
    pub fn change(&self, settings: &Settings) {
        *lock(&self.shared.next) = Some(settings.clone());
        self.shared.changes.store(true, Ordering::Release);
    }

    /// Time of the present counts, since the queue was started.
    pub fn published(&self) -> Time {
        lock(&self.shared.stats).at
    }

    /// Counts up to a quarter of a second ago.
    pub fn stats(&self) -> Stats {
        lock(&self.shared.stats).clone()
    }

    /// The kind of router that datagrams asked for and the queue does not have; of several, the one
    /// that most datagrams asked for.
    pub fn unserved(&self) -> Option<RouterKind> {
        lock(&self.shared.stats).most_wanted()
    }

    /// Number of rounds of its thread: more than one a second, unless it hangs.
    pub fn rounds(&self) -> u64 {
        self.shared.rounds.load(Ordering::Acquire)
    }

    /// True if it has ended because of an error.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends the queue. Packets that wait go on at once. If there are several in a namespace, all
    /// should be stopped before one is dropped, since the kernel then drops the packets that it
    /// holds for the others.
    ///
    /// # Errors
    /// The error because of which it had ended.
    pub fn stop(&mut self) -> io::Result<Stats> {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let gone = |_| io::Error::other("the thread of the queue panicked");
            let (ended, diverted) = thread.join().map_err(gone)?;
            self.diverted = Some(diverted);
            ended?;
        }
        Ok(self.stats())
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        // `stop` returns the error.
        let _ = self.stop();
    }
}

/// Whether the kernel forwards IPv4 and IPv6 in the network namespace of the calling thread.
pub fn forwarding() -> [bool; 2] {
    let switches = ["ipv4/ip_forward", "ipv6/conf/all/forwarding"];
    switches.map(|switch| {
        let text = fs::read_to_string(format!("/proc/sys/net/{switch}"));
        text.is_ok_and(|text| text.trim() != "0")
    })
}

/// Time between two updates of the counts that others see.
const PUBLISH: Duration = Duration::from_millis(250);
/// Time after which the engine begins anew, before its clock and its counts overflow.
const RENEW: Duration = Duration::from_secs(86_400);
/// Number of packets that are read before others are released.
const BATCH: usize = 256;

/// The thread of a queue.
struct Worker<'a> {
    settings: Settings,
    shared: &'a Shared,
    gate: Gate<'a>,
    lateness: Lateness,
    reloads: u64,
    /// Unlike that of a link, it never begins anew.
    clock: Monotonic,
}

impl<'a> Worker<'a> {
    fn new(diverted: Diverted, settings: Settings, shared: &'a Shared) -> Self {
        let stats = lock(&shared.stats).clone();
        let gate = Gate {
            diverted,
            shared,
            link: CurrentLink::new(Port::default(), Served::default()),
            scratch: Vec::new(),
            held: VecDeque::new(),
            outstanding: Outstanding::default(),
            inside: 0,
            stats,
            published: Time::ZERO,
        };
        let clock = Monotonic::start();
        Worker { settings, shared, gate, lateness: Lateness::new(), reloads: 0, clock }
    }

    fn run(mut self) -> (io::Result<()>, Diverted) {
        let ended = self.carry();
        // Also after an error: from here on packets pass as without a queue.
        let let_go = self.gate.let_all_go();
        self.publish(0);
        (ended.and(let_go), self.gate.diverted)
    }

    /// Carries packets until it is told to stop.
    fn carry(&mut self) -> io::Result<()> {
        loop {
            let (mut simulation, port, until, served) =
                self.settings.simulation().map_err(io::Error::other)?;
            self.gate.begin(&port, served);
            if !self.carry_over(&mut simulation, port, until)? {
                return Ok(());
            }
        }
    }

    /// Carries packets over this link. Returns true if there is to be another.
    fn carry_over(
        &mut self,
        simulation: &mut Simulation,
        port: Port,
        until: Time,
    ) -> io::Result<bool> {
        let ports = [(0, port)];
        loop {
            let clock = self.gate.link.clock;
            let late = emulate::run(simulation, &ports, &mut self.gate, &clock, until)?;
            self.lateness.add(&late);
            if self.shared.stop.load(Ordering::Acquire) {
                return Ok(false);
            }
            self.publish(simulation.link(0).queue_packets);
            self.shared.rounds.fetch_add(1, Ordering::Release);
            if self.shared.changes.swap(false, Ordering::AcqRel)
                && let Some(next) = lock(&self.shared.next).take()
            {
                self.reloads += 1;
                let rate = Some(next.rate());
                let change = LinkChange { rate, ..LinkChange::default() };
                // The link was made changeable, and its rate is not a schedule.
                simulation.change_link(0, &change).map_err(io::Error::other)?;
                self.gate.link.is_draining |= !next.differs_in_rate_only(&self.settings);
                self.settings = next;
            }
            self.gate.link.is_draining |= clock.now() >= Time::ZERO + RENEW;
            if self.gate.is_drained() {
                return Ok(true);
            }
        }
    }

    fn publish(&mut self, waiting: u64) {
        let gate = &mut self.gate;
        gate.published = gate.link.clock.now();
        gate.stats.at = self.clock.now();
        gate.stats.waiting = waiting + gate.held.len() as u64;
        gate.stats.rate = self.settings.rate();
        gate.stats.qdisc = self.settings.qdisc();
        gate.stats.reloads = self.reloads;
        gate.stats.lateness = self.lateness.clone();
        if let Ok(overflow) = gate.diverted.overflow() {
            gate.stats.overflow = overflow;
        }
        let is_real_time = lock(&self.shared.stats).is_real_time;
        *lock(&self.shared.stats) = Stats { is_real_time, ..gate.stats.clone() };
    }
}

/// Between the kernel and the engine.
struct Gate<'a> {
    diverted: Diverted,
    shared: &'a Shared,
    link: CurrentLink,
    scratch: Vec<u8>,
    /// Packets, with their notes, that came while the old link was emptied.
    held: VecDeque<Vec<u8>>,
    outstanding: Outstanding,
    /// Packets that are in the engine.
    inside: u64,
    stats: Stats,
    published: Time,
}

/// State that begins anew with each link.
struct CurrentLink {
    clock: Monotonic,
    port: Port,
    claims: Claims,
    served: Served,
    /// True if packets that come wait for the next link.
    is_draining: bool,
}

impl CurrentLink {
    fn new(port: Port, served: Served) -> Self {
        let claims = Claims::new(RandomState::new().build_hasher().finish());
        CurrentLink { clock: Monotonic::start(), port, claims, served, is_draining: false }
    }
}

/// Note behind the end of a packet while it is in the engine.
struct Note {
    /// Number by which the kernel knows the packet.
    id: u32,
    ecn: Codepoint,
    is_ours: bool,
    /// Time at which it was read, by the clock of the link, nanoseconds; negative for a packet that
    /// was held before.
    at: i64,
}

impl Note {
    const LENGTH: usize = 14;

    fn bytes(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..4].copy_from_slice(&self.id.to_be_bytes());
        bytes[4] = self.ecn as u8;
        bytes[5] = u8::from(self.is_ours);
        bytes[6..].copy_from_slice(&self.at.to_be_bytes());
        bytes
    }

    /// Splits what the engine carries into the packet and its note.
    fn split(bytes: &[u8]) -> (&[u8], Note) {
        let whole = bytes.split_last_chunk::<{ Self::LENGTH }>();
        let (packet, note) = whole.expect("each packet enters with its note");
        let [a, b, c, d, ecn, is_ours, at @ ..] = *note;
        let all = [Codepoint::NotEct, Codepoint::Ect0, Codepoint::Ect1, Codepoint::Ce];
        let ecn = all.into_iter().find(|codepoint| *codepoint as u8 == ecn);
        let (id, at) = (u32::from_be_bytes([a, b, c, d]), i64::from_be_bytes(at));
        (packet, Note { id, ecn: ecn.expect("one of these"), is_ours: is_ours != 0, at })
    }
}

impl Gate<'_> {
    /// Begins a new link with this port.
    fn begin(&mut self, port: &Port, served: Served) {
        let before = nanoseconds(self.link.clock.now());
        self.link = CurrentLink::new(port.clone(), served);
        self.link.port.watch_losses();
        self.published = Time::ZERO;
        for bytes in &mut self.held {
            let (packet, note) = Note::split(bytes);
            let length = packet.len();
            bytes.truncate(length);
            bytes.extend(Note { at: note.at - before, ..note }.bytes());
        }
    }

    fn is_drained(&self) -> bool {
        self.link.is_draining && self.inside == 0
    }

    /// Tells the kernel which packets the queue has dropped.
    fn drop_lost(&mut self) -> io::Result<()> {
        while let Some(lost) = self.link.port.pop_lost() {
            let (packet, note) = Note::split(&lost.bytes);
            self.stats.dropped.add(packet.len());
            self.inside -= 1;
            self.outstanding.remove(note.id);
            self.diverted.discard(note.id)?;
            self.link.port.recycle(lost);
        }
        Ok(())
    }

    /// Ends the diversion, and releases the packets that were diverted.
    fn let_all_go(&mut self) -> io::Result<()> {
        self.drop_lost()?;
        self.diverted.end()?;
        let Gate { diverted, outstanding, stats, .. } = self;
        while diverted.read(BATCH, |id, packet| {
            stats.arrived.add(packet.len());
            outstanding.add(id, packet.len());
        })? {}
        for (id, length) in outstanding.take() {
            stats.sent.add(length);
            diverted.pass(id, None)?;
        }
        diverted.flush()
    }
}

fn nanoseconds(time: Time) -> i64 {
    (time.as_ps() / 1000) as i64
}

impl Outside for Gate<'_> {
    fn read(&mut self, take: &mut Take<'_>) -> io::Result<()> {
        if !self.link.is_draining {
            // Not all at one instant, which the engine would regard as an endless loop.
            for bytes in self.held.drain(..self.held.len().min(BATCH)) {
                self.inside += 1;
                take(0, End::Sender, &bytes, Note::split(&bytes).1.ecn);
            }
        }
        let now = self.link.clock.now();
        let at = nanoseconds(now);
        let must_wait = self.link.is_draining || !self.held.is_empty();
        let Gate { diverted, scratch, held, outstanding, stats, inside, link, .. } = self;
        diverted.read(BATCH, |id, packet| {
            stats.arrived.add(packet.len());
            outstanding.add(id, packet.len());
            let ecn = codepoint(packet);
            let (is_ours, asked) = asked_of(packet);
            stats.unserved[asked as usize] += u64::from(!link.served[asked as usize]);
            scratch.clear();
            scratch.extend_from_slice(packet);
            if is_ours {
                link.claims.check(now, scratch);
            }
            scratch.extend(Note { id, ecn, is_ours, at }.bytes());
            if must_wait {
                held.push_back(scratch.clone());
            } else {
                *inside += 1;
                take(0, End::Sender, scratch, ecn);
            }
        })?;
        Ok(())
    }

    fn write(&mut self, _: usize, _: End, bytes: &[u8], ecn: Codepoint) -> io::Result<()> {
        let (packet, note) = Note::split(bytes);
        let sojourn = (nanoseconds(self.link.clock.now()) - note.at).max(0) as u64;
        self.stats.sojourn.record(Duration::from_nanos(sojourn));
        self.stats.sent.add(packet.len());
        self.stats.marked += u64::from(ecn == Codepoint::Ce && note.ecn != Codepoint::Ce);
        self.stats.ours += u64::from(note.is_ours);
        self.inside -= 1;
        self.outstanding.remove(note.id);
        let is_changed = note.is_ours || ecn != note.ecn;
        self.diverted.pass(note.id, is_changed.then_some(packet))
    }

    fn wait(&mut self, most: Duration) -> io::Result<bool> {
        self.drop_lost()?;
        self.diverted.flush()?;
        let asked = self.shared.stop.load(Ordering::Acquire)
            || self.shared.changes.load(Ordering::Acquire)
            || self.is_drained()
            || self.link.clock.now() >= self.published + PUBLISH;
        if asked {
            return Ok(false);
        }
        if self.link.is_draining || self.held.is_empty() {
            wait(self.diverted.as_fd(), most)?;
        }
        Ok(true)
    }
}

/// Packets that await a verdict, each with its length. Their numbers are consecutive.
#[derive(Debug, Default)]
struct Outstanding {
    first: u32,
    /// Lengths; zero after the verdict.
    lengths: VecDeque<u32>,
}

impl Outstanding {
    fn add(&mut self, id: u32, length: usize) {
        if self.lengths.is_empty() {
            self.first = id;
        }
        // Packets in between were dropped before they could be read.
        let place = id.wrapping_sub(self.first) as usize;
        if place >= self.lengths.len() {
            self.lengths.resize(place, 0);
            self.lengths.push_back(length as u32);
        }
    }

    fn remove(&mut self, id: u32) {
        let place = id.wrapping_sub(self.first) as usize;
        if let Some(length) = self.lengths.get_mut(place) {
            *length = 0;
        }
        while self.lengths.front() == Some(&0) {
            self.lengths.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }

    /// All packets that are left, in order.
    fn take(&mut self) -> impl Iterator<Item = (u32, usize)> {
        let first = self.first;
        let lengths = std::mem::take(&mut self.lengths);
        let all = (0..).zip(lengths).filter(|(_, length)| *length > 0);
        all.map(move |(place, length)| (first.wrapping_add(place), length as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outstanding_numbers_run_on_beyond_the_last() {
        let mut outstanding = Outstanding::default();
        for id in [u32::MAX - 1, u32::MAX, 0, 3] {
            outstanding.add(id, 100);
        }
        outstanding.remove(u32::MAX);
        outstanding.remove(u32::MAX - 1);
        assert_eq!(outstanding.first, 0);
        outstanding.remove(0);
        // 1 and 2 never came.
        assert_eq!((outstanding.first, outstanding.lengths.len()), (3, 1));
        outstanding.add(4, 50);
        assert_eq!(outstanding.take().collect::<Vec<_>>(), [(3, 100), (4, 50)]);
        assert_eq!(outstanding.take().count(), 0);
    }

    #[test]
    fn what_is_noted_behind_a_packet_is_read_again() {
        let note = Note { id: 77, ecn: Codepoint::Ect1, is_ours: true, at: -5 };
        let bytes = [&[1, 2, 3][..], &note.bytes()].concat();
        let (packet, read) = Note::split(&bytes);
        assert_eq!((packet, read.id, read.ecn), (&[1, 2, 3][..], 77, Codepoint::Ect1));
        assert_eq!((read.is_ours, read.at), (true, -5));
    }
}
