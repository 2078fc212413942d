//! A simulation that goes as a clock goes.
//!
//! All times are the simulation's: a packet leaves a link at the instant that the arithmetic of the link says, whenever the
//! machine got to it, so that what is late now makes nothing after it later. A packet comes in at the instant at which it
//! and all that was read with it were there, never before. How late packets were written is in a histogram.

use std::io;

use hdrhistogram::Histogram;

use windward_core::units::{Duration, Time};
use windward_sim::record::EmulationRecord;
use windward_sim::scenario::MAX_DURATION;
use windward_sim::stack::{Codepoint, End};
use windward_sim::{Scenario, Simulation};

use crate::clock::Clock;
use crate::port::{Port, wake};
use crate::record::Recorder;

/// Takes a packet in: the number of the port, the end, all bytes of an IP packet, and its codepoint.
pub type Take<'a> = dyn FnMut(usize, End, &[u8], Codepoint) + 'a;

/// The outside: where packets come from and go to.
pub trait Outside {
    /// Brings in what has come since.
    ///
    /// # Errors
    /// What ends the emulation.
    fn read(&mut self, take: &mut Take<'_>) -> io::Result<()>;

    /// Takes out a packet of a port.
    ///
    /// # Errors
    /// What ends the emulation. That there is no room is no error: a packet is lost then, as it would be outside.
    fn write(&mut self, port: usize, end: End, bytes: &[u8], ecn: Codepoint) -> io::Result<()>;

    /// What was written and kept back goes out now.
    ///
    /// # Errors
    /// As of [`Outside::write`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Sleeps until something comes, but for `most` at most; returns whether to go on.
    ///
    /// # Errors
    /// What ends the emulation.
    fn wait(&mut self, most: Duration) -> io::Result<bool>;
}

/// How late packets went out, and how early they were taken in.
#[derive(Debug, Clone)]
pub struct Lateness {
    late: Histogram<u64>,
    /// Packets that the engine took in.
    taken: u64,
    /// Those of them that it took for more than [`BOUND`] earlier than they had been read.
    early: u64,
    most_early: Duration,
}

/// What is later or earlier than this counts against an emulation.
const BOUND: Duration = Duration::from_millis(1);

impl Default for Lateness {
    fn default() -> Self {
        Self::new()
    }
}

impl Lateness {
    /// Of no packets.
    pub fn new() -> Self {
        // 1 ns to a minute, three digits: 200 kB. These bounds are in order.
        let late = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds are in order");
        Lateness { late, taken: 0, early: 0, most_early: Duration::ZERO }
    }

    /// Counts the packets of another run too.
    pub fn add(&mut self, other: &Lateness) {
        // Both have the same bounds.
        let _ = self.late.add(&other.late);
        self.taken += other.taken;
        self.early += other.early;
        self.most_early = self.most_early.max(other.most_early);
    }

    fn note(&mut self, late: Duration) {
        self.late.saturating_record(late.as_ps() / 1000);
    }

    /// Packets that were read at `read` are taken in as of `stamp`.
    fn note_taken(&mut self, packets: u64, read: Time, stamp: Time) {
        let early = read.since(stamp);
        self.taken += packets;
        self.early += if early > BOUND { packets } else { 0 };
        self.most_early = self.most_early.max(early);
    }

    /// Packets counted.
    pub fn packets(&self) -> u64 {
        self.late.len()
    }

    /// So many of a hundred were no later than this.
    pub fn percentile(&self, percent: f64) -> Duration {
        Duration::from_ps(self.late.value_at_percentile(percent).saturating_mul(1000))
    }

    /// The share of packets that were later than that.
    pub fn share_above(&self, late: Duration) -> f64 {
        let within = self.late.count_between(0, late.as_ps() / 1000);
        let all = self.late.len();
        if all == 0 { 0.0 } else { (all - within.min(all)) as f64 / all as f64 }
    }

    /// The share of packets that went out more than a millisecond late.
    pub fn late_share(&self) -> f64 {
        self.share_above(BOUND)
    }

    /// The share of packets that the engine took for more than a millisecond earlier than they had been read: they leave the links too
    /// early by as much.
    pub fn early_share(&self) -> f64 {
        if self.taken == 0 { 0.0 } else { self.early as f64 / self.taken as f64 }
    }

    /// The most by which a packet was taken for earlier than it had been read.
    pub fn most_early(&self) -> Duration {
        self.most_early
    }

    /// Was more than one packet in a hundred late or early by more than a millisecond? Then the emulation says little.
    pub fn is_too_much(&self) -> bool {
        self.late_share() > EmulationRecord::DISTURBED
            || self.early_share() > EmulationRecord::DISTURBED
    }
}

/// Makes of a scenario what is emulated: all of it counts, there is no warm-up. One that `is_open` goes on for as long as somebody wants, unless transfers come by themselves in it, which
/// are drawn before it begins.
///
/// Whoever runs it begins with [`Simulation::changeable`] and ends with [`Simulation::stop`], so that nothing counts that is still to come.
pub fn prepare(scenario: &mut Scenario, is_open: bool) {
    scenario.warmup = Duration::ZERO;
    let arrivals = scenario.flows.iter().any(|flow| flow.kind.traffic.arrivals().is_some());
    if is_open && !arrivals {
        scenario.duration = MAX_DURATION;
    }
}

/// The longest sleep: whoever asks to stop is heard within it.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);
/// The most that a simulation which is behind the clock catches up with at once, for the same reason.
const LONGEST_STEP: Duration = Duration::from_millis(10);

/// Runs `simulation` as `clock` goes, until the outside says stop or `until`; one that is too slow for the clock stays behind it. Each of `ports` has the number of its flow.
///
/// # Errors
/// Those of the outside.
pub fn run(
    simulation: &mut Simulation,
    ports: &[(usize, Port)],
    outside: &mut impl Outside,
    clock: &impl Clock,
    until: Time,
) -> io::Result<Lateness> {
    run_recorded(simulation, ports, outside, clock, until, None::<&mut Recorder<io::Sink>>)
}

/// As [`run`], and what comes in is recorded.
///
/// # Errors
/// Those of the outside. Those of the record do not end the emulation: [`Recorder::finish`] has them.
pub fn run_recorded<W: io::Write>(
    simulation: &mut Simulation,
    ports: &[(usize, Port)],
    outside: &mut impl Outside,
    clock: &impl Clock,
    until: Time,
    mut recorder: Option<&mut Recorder<W>>,
) -> io::Result<Lateness> {
    let mut lateness = Lateness::new();
    // When what is being handed over was due.
    let mut due = Vec::new();
    loop {
        let arrived = || ports.iter().filter_map(|(_, port)| port.arrived_at()).max();
        // What was read too late for the last call is still to be taken in.
        if arrived().is_none() {
            outside.read(&mut |port, end, bytes, ecn| {
                ports[port].1.arrive(clock.now(), end, bytes, ecn);
                if let Some(recorder) = &mut recorder {
                    recorder.arrive(port, end, bytes, ecn);
                }
            })?;
        }
        // All that was read at once comes in when the last of it was there: none crosses the links from before it came.
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
        // Only now has the last of them gone: the others have no more than this.
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
