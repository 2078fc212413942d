//! An emulation: a scenario on a real clock, with network namespaces at the ends of its ports.
//!
//! The caller advances an [`Emulation`], and may inspect the simulation in between. [`emulate()`]
//! runs commands in the namespaces and returns the results.

use std::fs::File;
use std::io::{self, BufWriter};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use windward_core::units::{Duration, Time};
use windward_netns::{Inside, prefer_this_thread, sweep};
use windward_sim::record::{EmulationRecord, PortRecord};
use windward_sim::stack::End;
use windward_sim::{Outcome, Scenario, Simulation};

use crate::clock::{Clock, Monotonic};
use crate::command::Started;
use crate::emulate::{self, Lateness};
use crate::error::Error;
use crate::port::Port;
use crate::record::Recorder;
use crate::source::{KEPT, Source};
use crate::testbed::{self, Testbed};
use crate::waits::Watch;

/// An emulation under way.
#[derive(Debug)]
pub struct Emulation {
    scenario: Scenario,
    /// Namespaces and devices.
    pub testbed: Testbed,
    /// The simulation, at the time to which [`Emulation::run`] has brought it.
    pub simulation: Simulation,
    clock: Monotonic,
    lateness: Lateness,
    real_time: bool,
    /// Measures for how long programs wait for a CPU.
    watch: Option<Watch>,
    /// Time of the simulation at which programs could begin.
    began: Time,
    recorder: Option<Recorder<BufWriter<File>>>,
}

/// The reason why [`Emulation::run`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// The time was reached, or the end of the scenario.
    Over,
    /// The testbed requested a stop.
    Stopped,
}

/// Results of an emulation.
#[derive(Debug)]
pub struct Finished {
    /// The scenario that ran.
    pub scenario: Scenario,
    /// Outcome of the run. Rates of ports are over the time in which programs could send.
    pub outcome: Outcome,
    /// Both directions of each port.
    pub ports: Vec<PortRecord>,
    /// How well the clock was kept.
    pub clock: EmulationRecord,
    /// Number of processes that were still running in the namespaces, and were killed.
    pub killed: usize,
    /// Result of writing the record, if there is one.
    pub recorded: io::Result<()>,
    /// Namespaces and devices, to be [closed](Testbed::close).
    pub testbed: Testbed,
}

impl Emulation {
    /// Makes the namespaces and devices for a simulation of `scenario` and its ports. `go_on` gets
    /// the share that exists, and returns whether to continue; if not, the result is `None`.
    pub fn new(
        scenario: Scenario,
        (simulation, ports): (Simulation, Vec<Port>),
        recorder: Option<Recorder<BufWriter<File>>>,
        options: &testbed::Options,
        go_on: impl FnMut(f64) -> bool,
    ) -> Result<Option<Self>, Error> {
        let testbed = Testbed::new(&scenario, ports, options, go_on)?;
        Ok(testbed.map(|testbed| Emulation {
            scenario,
            testbed,
            simulation,
            clock: Monotonic::start(),
            lateness: Lateness::new(),
            real_time: false,
            watch: None,
            began: Time::ZERO,
            recorder,
        }))
    }

    /// Begins to count waits for a CPU. [`Emulation::begin`] does so too, and goes on if it cannot.
    ///
    /// # Errors
    /// If the thread that counts cannot be started.
    pub(crate) fn watch_waits(&mut self) -> io::Result<()> {
        self.watch = Some(self.testbed.watch_waits()?);
        Ok(())
    }

    /// Starts the clock. From now on this thread, and every thread and process that it starts, has
    /// real-time priority: programs are started before.
    ///
    /// # Errors
    /// If the thread gets no such priority. The emulation goes on, and packets may be late.
    pub fn begin(&mut self) -> windward_netns::Result<()> {
        if self.watch.is_none() {
            let _ = self.watch_waits();
        }
        let preferred = prefer_this_thread();
        self.real_time = preferred.is_ok();
        self.began = self.simulation.now();
        self.clock = Monotonic::start_at(self.began);
        preferred
    }

    /// Time by the clock.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// End of the scenario.
    pub fn end(&self) -> Time {
        Time::ZERO + self.scenario.duration
    }

    /// Runs until the testbed requests a stop, the scenario ends or `until`, whichever is first.
    pub fn run(&mut self, until: Time) -> Result<Until, Error> {
        let until = until.min(self.end());
        let ports = self.testbed.ports().to_vec();
        let late = emulate::run_recorded(
            &mut self.simulation,
            &ports,
            &mut self.testbed,
            &self.clock,
            until,
            self.recorder.as_mut(),
        );
        self.lateness.add(&late.map_err(|error| Error::Failed(format!("the emulation: {error}")))?);
        Ok(if self.simulation.now() < until { Until::Stopped } else { Until::Over })
    }

    /// Ends the emulation: kills remaining processes in the namespaces, and collects the results.
    pub fn finish(mut self) -> Result<Finished, Error> {
        let waited = self.watch.take().and_then(Watch::finish);
        let strays = self.testbed.strays();
        let killed = self.testbed.kill_all()?;
        let until = self.simulation.now();
        // First the values that cannot be measured later.
        let recorded = self.recorder.map_or(Ok(()), |recorder| recorder.finish(until).map(drop));
        let mut outcome = self.simulation.stop();
        let ports = ports(&self.testbed, &self.scenario, until.since(self.began));
        over_their_time(&mut outcome, &self.testbed, self.began);
        let clock = strays.record(&self.lateness, self.real_time, waited);
        let Emulation { scenario, testbed, .. } = self;
        Ok(Finished { scenario, outcome, ports, clock, killed, recorded, testbed })
    }
}

/// Both directions of each port, over the time in which programs could use it.
fn ports(testbed: &Testbed, scenario: &Scenario, time: Duration) -> Vec<PortRecord> {
    let duration_s = time.as_secs_f64();
    let mut rows = Vec::new();
    for ((flow, port), [from, to]) in testbed.ports().iter().zip(testbed.ends()) {
        for (end, from, to) in [(End::Sender, from, to), (End::Receiver, to, from)] {
            let counts = port.counts(end);
            let bits = counts.bytes_delivered as f64 * 8.0;
            rows.push(PortRecord {
                flow: scenario.flows[*flow].name.to_string(),
                from: from.clone(),
                to: to.clone(),
                duration_s,
                packets_sent: counts.packets_sent,
                packets_delivered: counts.packets_delivered,
                throughput_bps: if duration_s > 0.0 { bits / duration_s } else { 0.0 },
            });
        }
    }
    rows
}

/// Divides the traffic of ports by the time since programs `began`. The engine has divided it by
/// the whole run, at the start of which there may have been no programs.
fn over_their_time(outcome: &mut Outcome, testbed: &Testbed, began: Time) {
    let end = Time::ZERO + outcome.duration;
    let measured = Time::ZERO + outcome.warmup;
    let theirs = end.since(began.max(measured).min(end)).as_secs_f64();
    if theirs <= 0.0 {
        return;
    }
    let stretch = end.since(measured.min(end)).as_secs_f64() / theirs;
    for (flow, _) in testbed.ports() {
        let row = &mut outcome.flows[*flow];
        let group = &mut outcome.groups[row.group];
        for (of_row, of_group) in [
            (&mut row.metrics.goodput_bps, &mut group.metrics.goodput_bps),
            (&mut row.metrics.throughput_bps, &mut group.metrics.throughput_bps),
        ] {
            let more = *of_row * stretch - *of_row;
            *of_row += more;
            *of_group += more;
        }
    }
}

/// Options of [`emulate()`].
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Shell commands, each with its node, in the order in which they start. The emulation ends
    /// with the last one.
    pub commands: Vec<(String, String)>,
    /// Longest duration, in place of that of the scenario.
    pub duration: Option<Duration>,
    /// Largest packet that programs send, bytes, if not the packet size of the port.
    pub mtu: Option<u16>,
    /// File for a record of the packets that come in.
    pub record: Option<PathBuf>,
}

/// Results of [`emulate()`].
#[derive(Debug)]
pub struct Emulated {
    /// Outcome of the run.
    pub outcome: Outcome,
    /// Both directions of each port.
    pub ports: Vec<PortRecord>,
    /// How well the clock was kept.
    pub clock: EmulationRecord,
    /// The commands, in order.
    pub commands: Vec<Ended>,
}

/// A command that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Its node.
    pub node: String,
    /// Exit status, as shells have it: 137 for a command that was killed at the end.
    pub status: i32,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// Time between two reports of progress.
const BETWEEN: Duration = Duration::from_millis(200);

/// Runs a scenario on the real clock, on the calling thread, with commands at its nodes. It ends
/// with the last command, with the scenario, or after `options.duration`. Several times per second,
/// `hear` gets the share of the longest duration that is over. `None` if `stop` became true.
///
/// # Errors
/// If the scenario is invalid or has no port, a node is unknown, or namespaces cannot be made.
pub fn emulate(
    source: &Source,
    options: &Options,
    stop: &'static AtomicBool,
    mut hear: impl FnMut(f64),
) -> Result<Option<Emulated>, Error> {
    sweep()?;
    let loaded = source.load()?;
    let recorder = options.record.as_ref().map(|path| {
        let wrong = |error| Error::Input(format!("record {}: {error}", path.display()));
        source.record(&loaded, KEPT, path).map_err(wrong)
    });
    let recorder = recorder.transpose()?;
    let begun = loaded.begin(None);
    let go_on = |_| !stop.load(Ordering::Relaxed);
    let of_testbed = testbed::Options { mtu: options.mtu, ..testbed::Options::default() };
    let emulation = Emulation::new(loaded.scenario, begun, recorder, &of_testbed, go_on)?;
    let Some(mut emulation) = emulation else { return Ok(None) };
    emulation.testbed.publish_for_sweep();
    let mut running: Vec<(String, Started)> = Vec::new();
    for (node, line) in &options.commands {
        if let Some((_, before)) = running.last() {
            before.wait_until_it_listens(stop);
        }
        running.push((node.clone(), start(&mut emulation.testbed, node, line)?));
    }
    if let Some((_, last)) = running.last() {
        emulation.testbed.end_with(last.child.as_fd())?;
    }
    emulation.testbed.stop_on(Some(stop));
    // Without the priority packets may be late, which the record of the clock shows.
    let _ = emulation.begin();
    let length = options.duration.map_or(Time::NEVER, |duration| emulation.now() + duration);
    let until = length.min(emulation.end());
    while emulation.run(until.min(emulation.now() + BETWEEN))? == Until::Over
        && emulation.simulation.now() < until
    {
        hear(emulation.now().as_secs_f64() / until.as_secs_f64());
    }
    if stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let mut commands = Vec::new();
    for (node, mut command) in running {
        command.child.kill()?;
        let status = command.child.wait().map(Inside::exit_code)?;
        let [stdout, stderr] = command.wrote();
        commands.push(Ended { node, status, stdout, stderr });
    }
    let Finished { outcome, ports, clock, recorded, testbed, .. } = emulation.finish()?;
    testbed.close(|_| {});
    recorded.map_err(Error::doing("write the record"))?;
    Ok(Some(Emulated { outcome, ports, clock, commands }))
}

fn start(testbed: &mut Testbed, node: &str, line: &str) -> Result<Started, Error> {
    let nodes: Vec<String> = testbed.nodes().map(str::to_owned).collect();
    let namespace = testbed.namespace(node).ok_or_else(|| {
        let nodes = nodes.join(", ");
        Error::Input(format!("no port begins or ends at a node `{node}`; the nodes are {nodes}"))
    })?;
    Started::new(namespace, line)
}
