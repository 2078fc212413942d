//! Emulation: a simulation that runs by a clock.
//!
//! All times are those of the simulation: a packet leaves a link at the instant that the link
//! computes, even if the machine handles it later, so that lateness does not add up. A packet
//! enters once it and all packets that were read with it have arrived, never before. A histogram
//! counts the lateness of written packets.

use std::io;

use windward_core::units::{Duration, Time};
use windward_sim::record::EmulationRecord;
use windward_sim::scenario::MAX_DURATION;
use windward_sim::stack::{Codepoint, End};
use windward_sim::{Scenario, Simulation};

use crate::clock::Clock;
use crate::histogram::Durations;
use crate::port::{Port, wake};
use crate::record::Recorder;

/// Callback for a packet that comes in: the number of the port, the end, all bytes of an IP packet,
/// and its ECN codepoint.
pub type Take<'a> = dyn FnMut(usize, End, &[u8], Codepoint) + 'a;

/// The outside, where packets come from and go to.
pub trait Outside {
    /// Reads the packets that have come since the last call.
    ///
    /// # Errors
    /// An error that ends the emulation.
    fn read(&mut self, take: &mut Take<'_>) -> io::Result<()>;

    /// Writes a packet that leaves a port.
    ///
    /// # Errors
    /// An error that ends the emulation. A lack of buffer space is not an error: the packet is
    /// lost, as it would be outside.
    fn write(&mut self, port: usize, end: End, bytes: &[u8], ecn: Codepoint) -> io::Result<()>;

    /// Sends packets that were written and kept back.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Sleeps until a packet comes, at most for `most`. Returns whether to go on.
    ///
    /// # Errors
    /// An error that ends the emulation.
    fn wait(&mut self, most: Duration) -> io::Result<bool>;
}

/// Statistics of how late packets went out, and how early they were taken in.
#[derive(Debug, Clone, Default)]
pub struct Lateness {
    late: Durations,
    /// Number of packets that the engine took in.
    taken: u64,
    /// Number of these that entered more than [`BOUND`] before they had been read.
    early: u64,
    most_early: Duration,
}

/// Packets that are later or earlier than this count against an emulation.
const BOUND: Duration = Duration::from_millis(1);

impl Lateness {
    /// Statistics without packets.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the packets of another run.
    pub fn add(&mut self, other: &Lateness) {
        self.late.add(&other.late);
        self.taken += other.taken;
        self.early += other.early;
        self.most_early = self.most_early.max(other.most_early);
    }

    fn note(&mut self, late: Duration) {
        self.late.record(late);
    }

    /// Notes packets that were read at `read` and taken in as of `stamp`.
    fn note_taken(&mut self, packets: u64, read: Time, stamp: Time) {
        let early = read.since(stamp);
        self.taken += packets;
        self.early += if early > BOUND { packets } else { 0 };
        self.most_early = self.most_early.max(early);
    }

    /// Number of packets.
    pub fn packets(&self) -> u64 {
        self.late.count()
    }

    /// Percentile of the lateness.
    pub fn percentile(&self, percent: f64) -> Duration {
        self.late.percentile(percent)
    }

    /// Share of packets that were later than `late`.
    pub fn share_above(&self, late: Duration) -> f64 {
        let all = self.packets();
        if all == 0 { 0.0 } else { (all - self.late.count_up_to(late)) as f64 / all as f64 }
    }

    /// Share of packets that went out more than a millisecond late.
    pub fn late_share(&self) -> f64 {
        self.share_above(BOUND)
    }

    /// Share of packets that entered more than a millisecond before they had been read: they leave
    /// the links too early by as much.
    pub fn early_share(&self) -> f64 {
        if self.taken == 0 { 0.0 } else { self.early as f64 / self.taken as f64 }
    }

    /// Longest time by which a packet entered before it had been read.
    pub fn most_early(&self) -> Duration {
        self.most_early
    }

    /// True if more than one packet in a hundred was late or early by more than a millisecond. Then
    /// the results of the emulation mean little.
    pub fn is_too_much(&self) -> bool {
        self.late_share() > EmulationRecord::DISTURBED
            || self.early_share() > EmulationRecord::DISTURBED
    }
}

/// Prepares a scenario for emulation: it has no warm-up. If it `is_open`, it has no end either,
/// unless it has arrivals, which are drawn before it begins.
///
/// The caller begins with [`Simulation::changeable`] and ends with [`Simulation::stop`], so that
/// packets that are still to come do not count.
pub fn prepare(scenario: &mut Scenario, is_open: bool) {
    scenario.warmup = Duration::ZERO;
    let arrivals = scenario.flows.iter().any(|flow| flow.kind.traffic.arrivals().is_some());
    if is_open && !arrivals {
        scenario.duration = MAX_DURATION;
    }
}

/// Longest sleep, after which a request to stop is noticed.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);
/// Longest step of a simulation that is behind the clock, for the same reason.
const LONGEST_STEP: Duration = Duration::from_millis(10);

/// Runs `simulation` by `clock`, until `until` or until the outside asks to stop; a simulation that
/// is too slow for the clock stays behind it. Each of `ports` has the index of its flow.
pub fn run(
    simulation: &mut Simulation,
    ports: &[(usize, Port)],
    outside: &mut impl Outside,
    clock: &impl Clock,
    until: Time,
) -> io::Result<Lateness> {
    run_recorded(simulation, ports, outside, clock, until, None::<&mut Recorder<io::Sink>>)
}

/// [`run`] that also records the packets that come in.
///
/// # Errors
/// Those of the outside. Errors of the record do not end the emulation: [`Recorder::finish`]
/// returns them.
pub fn run_recorded<W: io::Write>(
    simulation: &mut Simulation,
    ports: &[(usize, Port)],
    outside: &mut impl Outside,
    clock: &impl Clock,
    until: Time,
    mut recorder: Option<&mut Recorder<W>>,
) -> io::Result<Lateness> {
    let mut lateness = Lateness::new();
    // Times at which the packets that are being written were due.
    let mut due = Vec::new();
    loop {
        let arrived = || ports.iter().filter_map(|(_, port)| port.arrived_at()).max();
        // Packets that were read too late for the last call are still to be taken in.
        if arrived().is_none() {
            outside.read(&mut |port, end, bytes, ecn| {
                ports[port].1.arrive(clock.now(), end, bytes, ecn);
                if let Some(recorder) = &mut recorder {
                    recorder.arrive(port, end, bytes, ecn);
                }
            })?;
        }
        // Packets that were read together enter when the last of them had arrived, so that none
        // enters before it came.
        let stamp = arrived();
        let now = stamp.unwrap_or_else(|| clock.now()).min(until);
        while simulation.now() + LONGEST_STEP < now {
            simulation.advance(simulation.now() + LONGEST_STEP);
            if !outside.wait(Duration::ZERO)? {
                return Ok(lateness);
            }
        }
        simulation.advance(now);
        if stamp.is_some_and(|stamp| stamp <= until) {
            for (flow, port) in ports {
                if let Some(arrived) = port.take_in() {
                    lateness.note_taken(arrived.packets, arrived.last, simulation.now());
                    wake(simulation, *flow, arrived.ends);
                }
            }
            if let Some(recorder) = &mut recorder {
                recorder.take_in(now);
            }
        }
        for (number, (_, port)) in ports.iter().enumerate() {
            while let Some(packet) = port.pop() {
                outside.write(number, packet.end, &packet.bytes, packet.ecn)?;
                due.push(packet.at);
                port.recycle(packet);
            }
        }
        outside.flush()?;
        // The last of them is written only now; the others are at most this late.
        if !due.is_empty() {
            let gone = clock.now();
            due.drain(..).for_each(|at| lateness.note(gone.since(at)));
        }
        if now >= until {
            return Ok(lateness);
        }
        let next = simulation.next_event().min(until);
        let wait = next.since(clock.now()).min(LONGEST_SLEEP);
        if !outside.wait(wait)? {
            return Ok(lateness);
        }
    }
}
