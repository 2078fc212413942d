//! A simulation that goes as a clock goes.
//!
//! All times are the simulation's: a packet leaves a link at the instant that the arithmetic of the link says, whenever the
//! machine got to it, so that what is late now makes nothing after it later. How late packets were written is in a
//! histogram.

use std::io;

use hdrhistogram::Histogram;

use windward_core::units::{Duration, Time};
use windward_sim::scenario::MAX_DURATION;
use windward_sim::stack::{Codepoint, End};
use windward_sim::{Scenario, Simulation};

use crate::clock::Clock;
use crate::port::Port;
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

/// How late packets were.
#[derive(Debug, Clone)]
pub struct Lateness(Histogram<u64>);

impl Default for Lateness {
    fn default() -> Self {
        Self::new()
    }
}

impl Lateness {
    /// Of no packets.
    pub fn new() -> Self {
        // 1 ns to a minute, three digits: 200 kB. These bounds are in order.
        Lateness(Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds are in order"))
    }

    /// Counts the packets of another run too.
    pub fn add(&mut self, other: &Lateness) {
        // Both have the same bounds.
        let _ = self.0.add(&other.0);
    }

    fn note(&mut self, late: Duration) {
        self.0.saturating_record(late.as_ps() / 1000);
    }

    /// Packets counted.
    pub fn packets(&self) -> u64 {
        self.0.len()
    }

    /// So many of a hundred were no later than this.
    pub fn percentile(&self, percent: f64) -> Duration {
        Duration::from_ps(self.0.value_at_percentile(percent).saturating_mul(1000))
    }

    /// The share of packets that were later than that.
    pub fn share_above(&self, late: Duration) -> f64 {
        let within = self.0.count_between(0, late.as_ps() / 1000);
        let all = self.0.len();
        if all == 0 { 0.0 } else { (all - within.min(all)) as f64 / all as f64 }
    }

    /// Was more than one packet in a hundred late by more than a millisecond? Then the emulation says little.
    pub fn is_too_much(&self) -> bool {
        self.share_above(Duration::from_millis(1)) > 0.01
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
    // The ends at which something came in.
    let mut woken = vec![[false; 2]; ports.len()];
    // When what is being handed over was due.
    let mut due = Vec::new();
    loop {
        let now = clock.now().min(until);
        while simulation.now() + LONGEST_STEP < now {
            simulation.advance(simulation.now() + LONGEST_STEP);
            if !outside.wait(Duration::ZERO)? {
                return Ok(lateness);
            }
        }
        simulation.advance(now);
        if let Some(recorder) = &mut recorder {
            recorder.begin_batch();
        }
        outside.read(&mut |port, end, bytes, ecn| {
            ports[port].1.push(end, bytes, ecn);
            woken[port][end as usize] = true;
            if let Some(recorder) = &mut recorder {
                recorder.take(now, port, end, bytes, ecn);
            }
        })?;
        inject(simulation, ports, &mut woken);
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

/// Wakes the ends at which something came in.
pub(crate) fn inject(
    simulation: &mut Simulation,
    ports: &[(usize, Port)],
    woken: &mut [[bool; 2]],
) {
    for ((flow, _), woken) in ports.iter().zip(woken) {
        for end in End::BOTH {
            if std::mem::take(&mut woken[end as usize]) {
                simulation.wake(*flow, end);
            }
        }
    }
}
