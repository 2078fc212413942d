//! What commands that run a scenario on a real clock share: how it is set up, moved on, and what is
//! told of it.

use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windward_core::units::{Duration, Time};
use windward_logs::pcap::PcapFile;
use windward_net::clock::{Clock, Monotonic};
use windward_net::emulate::{self, Lateness};
use windward_net::port::{NAME, Port, Ports};
use windward_net::record::{Header, Recorder};
use windward_net::testbed::{self, Testbed};
use windward_net::waits::Watch;
use windward_netns::prefer_this_thread;
use windward_sim::output::{OutputDir, stream};
use windward_sim::record::{PortRecord, RunRecord};
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::stack::End;
use windward_sim::{Outcome, Scenario, Simulation};

use crate::clock::CpuStopwatch;
use crate::drive::Driver;
use crate::failure::Failure;
use crate::live::{Live, Style};
use crate::output::{self, Table, rate, seconds};
use crate::pcap::PcapArgs;
use crate::progress::Progress;
use crate::run::{Plot, parse_plot, summary};
use crate::scenario_args::warn;
use crate::signals;

/// What is told and kept of an emulation.
#[derive(Debug, clap::Args)]
pub(crate) struct Telling {
    /// JSON lines on standard output: where everything stands, each second, and at the end what
    /// `windward run --json` says
    #[arg(long)]
    pub(crate) json: bool,

    /// Time between two looks at links and flows
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_every)]
    every: Duration,

    /// Let the scenario run for this long in virtual time first, so that its flows are under way
    #[arg(long, value_name = "TIME")]
    lead: Option<Duration>,

    /// Write what was measured into this folder: run.json, and run-flows.csv, run-groups.csv and
    /// run-links.csv
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Draw windows, rates and queues over time, of the first half hour
    #[arg(long, value_name = "FILE.svg", value_parser = parse_plot)]
    plot: Option<PathBuf>,

    /// Keep what comes in from outside in this file, for `windward replay`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// Keep whole packets there, not only their first bytes
    #[arg(long, requires = "record")]
    payload: bool,

    #[command(flatten)]
    pcap: PcapArgs,

    /// The largest packet that programs send, bytes, if not the `packet_size` of the port
    ///
    /// What is larger than that is answered by ICMP, as by a router before a smaller MTU.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(576..))]
    mtu: Option<u16>,

    /// Let the kernel hand over many packets at once (GSO, GRO): faster, but they come in bursts
    #[arg(long)]
    offload: bool,
}

fn parse_every(text: &str) -> Result<Duration, String> {
    match text.parse::<Duration>() {
        Ok(every) if every < Duration::from_millis(10) => Err("10ms at least".to_owned()),
        Ok(every) => Ok(every),
        Err(error) => Err(error.to_string()),
    }
}

/// Of each packet so many bytes are kept: all headers of TCP over IPv6.
pub(crate) const KEPT: u32 = 120;
/// A chart covers no more: longer times cannot be seen in one picture.
const CHARTED: Duration = Duration::from_secs(1800);
/// Between two points of its lines.
const CHART_INTERVAL: Duration = Duration::from_millis(200);

/// A scenario file and what is changed of it, in order.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) changes: Vec<(String, String)>,
    /// Does it go on for as long as somebody wants?
    pub(crate) is_open: bool,
}

/// A scenario that packets of outside programs cross.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) scenario: Scenario,
    ports: Arc<Ports>,
    /// Stands for what the trace files held.
    pub(crate) traces: u64,
}

impl Source {
    /// The file with its changes.
    pub(crate) fn file(&self) -> Result<ScenarioFile, Failure> {
        let mut file = ScenarioFile::parse(&self.name, &self.text)?;
        for (key, value) in &self.changes {
            file.set(key, value)?;
        }
        Ok(file)
    }

    /// A dumbbell or a parking lot without a port gets one.
    pub(crate) fn add_port(&mut self) -> Result<(), Failure> {
        let file = self.file()?;
        if !file.has_protocol(NAME) && (file.has("dumbbell") || file.has("parking_lot")) {
            let port = format!("{{ group = \"outside\", protocol = \"{NAME}\" }}");
            self.changes.push(("flows.+".to_owned(), port));
        }
        Ok(())
    }

    /// Checks the scenario and makes it ready for a clock.
    pub(crate) fn load(&self) -> Result<Loaded, Failure> {
        let ports = Ports::new();
        let stacks = crate::stacks().with(Arc::clone(&ports) as _);
        let file = self.file()?.with_stacks(&stacks);
        let mut scenario = file.build()?;
        if !scenario.flows.iter().any(|flow| flow.kind.traffic.protocol_name() == NAME) {
            return Err(Failure::Input(format!(
                "{}: no flow is a port for outside programs; add one with protocol = \"{NAME}\"",
                self.name,
            )));
        }
        emulate::prepare(&mut scenario, self.is_open);
        let mut traces = DefaultHasher::new();
        file.hash_traces(&mut traces);
        Ok(Loaded { scenario, ports, traces: traces.finish() })
    }

    /// The beginning of a record of it, that keeps so many bytes of each packet.
    pub(crate) fn header(&self, loaded: &Loaded, kept: u32) -> Header {
        Header {
            name: self.name.clone(),
            scenario: self.text.clone(),
            changes: self.changes.clone(),
            is_open: self.is_open,
            traces: loaded.traces,
            kept,
        }
    }
}

impl Loaded {
    /// Says what is likely to be a mistake in it.
    pub(crate) fn warn(&self) {
        warn(self.scenario.warnings.iter().map(String::as_str));
    }

    /// The simulation, and its ports in the order of their flows.
    pub(crate) fn begin(&self, pcap: Option<&PcapFile>) -> (Simulation, Vec<Port>) {
        let simulation = match pcap {
            Some(pcap) => Simulation::observed(&self.scenario, pcap.observer()),
            None => Simulation::changeable(&self.scenario),
        };
        (simulation, self.ports.take())
    }
}

/// An emulation that goes on.
#[derive(Debug)]
pub(crate) struct Emulation<'a> {
    telling: &'a Telling,
    title: String,
    scenario: Scenario,
    pub(crate) testbed: Testbed,
    simulation: Simulation,
    clock: Monotonic,
    lateness: Lateness,
    real_time: bool,
    /// Watches whether programs wait for a CPU.
    watch: Option<Watch>,
    live: Live,
    /// When programs outside could begin, by the clock of the simulation.
    began: Time,
    plot: Option<Plot>,
    out: Option<OutputDir>,
    recorder: Option<Recorder<BufWriter<File>>>,
    pcap: Option<PcapFile>,
    cpu: CpuStopwatch,
}

impl<'a> Emulation<'a> {
    /// Makes namespaces and devices, and all files that are asked for.
    pub(crate) fn new(
        source: &Source,
        telling: &'a Telling,
        style: Style,
        options: &testbed::Options,
        quiet: bool,
    ) -> Result<Self, Failure> {
        let loaded = source.load()?;
        loaded.warn();
        let scenario = &loaded.scenario;
        // Folders that cannot be had shall not cost minutes first.
        let plot = telling.plot.as_ref().map(|path| {
            let mut charted = scenario.clone();
            charted.duration = charted.duration.min(CHARTED);
            charted.sample = Some(charted.sample.unwrap_or(CHART_INTERVAL));
            Plot::create(path, &charted)
        });
        let plot = plot.transpose()?;
        let out = telling.out.as_ref().map(|dir| OutputDir::create(dir)).transpose()?;
        let kept = if telling.payload { u32::from(u16::MAX) } else { KEPT };
        let begin = |path: &PathBuf| record("--record", path, source.header(&loaded, kept));
        let recorder = telling.record.as_ref().map(begin).transpose()?;
        let pcap = telling.pcap.create(scenario)?;
        let (mut simulation, ports) = loaded.begin(pcap.as_ref());
        if let Some(lead) = telling.lead {
            if lead >= scenario.duration {
                let length = scenario.duration;
                return Err(Failure::Input(format!("--lead {lead}: the scenario lasts {length}")));
            }
            let until = Time::ZERO + lead;
            Driver::new(lead, quiet).advance(&mut simulation, until, None, pcap.as_ref())?;
        }
        let options =
            testbed::Options { mtu: telling.mtu, offload: telling.offload, ..options.clone() };
        let progress = Progress::new(quiet);
        let go_on = |share| {
            progress.set(share, "namespaces are made");
            signals::check().is_ok()
        };
        let testbed = Testbed::new(scenario, ports, &options, go_on)?;
        let testbed = testbed.ok_or(Failure::Interrupted)?;
        drop(progress);
        let live = Live::new(scenario, style, telling.every);
        Ok(Emulation {
            telling,
            title: source.name.clone(),
            scenario: loaded.scenario,
            testbed,
            simulation,
            clock: Monotonic::start(),
            lateness: Lateness::new(),
            real_time: false,
            watch: None,
            live,
            began: Time::ZERO,
            plot,
            out,
            recorder,
            pcap,
            cpu: CpuStopwatch::start(),
        })
    }

    /// Time begins. What this thread makes from now on would be as urgent as itself: children are made
    /// before.
    pub(crate) fn begin(&mut self, quiet: bool) {
        self.watch = self.testbed.watch_waits().ok();
        match prefer_this_thread() {
            Ok(()) => self.real_time = true,
            Err(error) if !quiet => {
                output::note(&format!("packets may be late while others work: {error}"));
            }
            Err(_) => {}
        }
        self.began = self.simulation.now();
        self.live.begin(&mut self.simulation);
        self.clock = Monotonic::start_at(self.began);
        self.cpu = CpuStopwatch::start();
    }

    /// The time since it began.
    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Goes on until the testbed says stop, the scenario ends or `until`; says which was first.
    pub(crate) fn run(&mut self, until: Time) -> Result<Until, Failure> {
        let until = until.min(Time::ZERO + self.scenario.duration);
        loop {
            let of_chart = self.plot.as_ref().and_then(|plot| plot.chart.next_sample());
            let of_chart = of_chart.unwrap_or(Time::NEVER);
            let of_live = self.live.next();
            let next = of_chart.min(of_live).min(until);
            let ports = self.testbed.ports().to_vec();
            let late = emulate::run_recorded(
                &mut self.simulation,
                &ports,
                &mut self.testbed,
                &self.clock,
                next,
                self.recorder.as_mut(),
            );
            let late = late.map_err(|error| Failure::Failed(format!("the emulation: {error}")))?;
            self.lateness.add(&late);
            let now = self.simulation.now();
            if now < next {
                return Ok(Until::Stopped);
            }
            if let Some(plot) = self.plot.as_mut().filter(|_| now >= of_chart) {
                plot.chart.sample(&mut self.simulation);
            }
            if now >= of_live {
                self.live.look(&mut self.simulation, self.testbed.ports())?;
            }
            if now >= until {
                return Ok(Until::Over);
            }
        }
    }

    /// Ends it, and tells of it: to people on standard error, where `to_error`, else on standard
    /// output.
    pub(crate) fn finish(mut self, quiet: bool, to_error: bool) -> Result<(), Failure> {
        let waited = self.watch.take().and_then(Watch::finish);
        let strays = self.testbed.strays();
        let killed = self.testbed.kill_all()?;
        let cpu_s = self.cpu.seconds();
        let until = self.simulation.now();
        // First what cannot be had again.
        let recorded = self.recorder.map(|recorder| recorder.finish(until));
        let mut outcome = self.simulation.stop();
        let ports = ports(&self.testbed, &self.scenario, until.since(self.began));
        over_their_time(&mut outcome, &self.testbed, self.began);
        let record = RunRecord::new(&outcome)
            .with_ports(ports)
            .with_cpu_time(cpu_s)
            .with_emulation(strays.record(&self.lateness, self.real_time, waited));
        if let Some(mut out) = self.out {
            record.write_files(&mut out)?;
            out.commit()?;
        }
        let captured = self.pcap.map(PcapFile::commit);
        if let Some(plot) = self.plot {
            plot.commit(&self.title, &outcome)?;
        }
        if self.telling.json {
            output::print(&record.to_json_line())?;
        } else if !quiet || !to_error {
            let text = tell(&self.scenario, &outcome, cpu_s, &record);
            match to_error {
                true => output::note(text.trim_end()),
                false => output::print(&text)?,
            }
        }
        if killed > 0 && !quiet {
            output::note(&match killed {
                1 => "1 process was still there and was ended".to_owned(),
                many => format!("{many} processes were still there and were ended"),
            });
        }
        let progress = Progress::new(quiet);
        self.testbed.close(|share| progress.set(share, "namespaces are removed"));
        // What could not be written is said after all that there is to say.
        captured.transpose()?;
        match recorded {
            Some(Err(error)) => Err(Failure::Failed(format!(
                "the record is not whole, it could not be written: {error}"
            ))),
            _ => Ok(()),
        }
    }
}

/// What an emulation has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// Its end.
    Over,
    /// The testbed's word to stop.
    Stopped,
}

/// Begins a record in a file, that this option asks for.
pub(crate) fn record(
    option: &'static str,
    path: &Path,
    header: Header,
) -> Result<Recorder<BufWriter<File>>, Failure> {
    let failed = |error| Failure::Input(format!("{option} {}: {error}", path.display()));
    output::claim(option, path)?;
    let file = stream(path).map_err(failed)?;
    Recorder::begin(BufWriter::new(file), header).map_err(failed)
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

/// Divides what went through ports by the time since they `began`. The engine has divided it by all of
/// the time that its figures are about, in which there may have been no programs at first.
fn over_their_time(outcome: &mut Outcome, testbed: &Testbed, began: Time) {
    let end = Time::ZERO + outcome.duration;
    let figures = Time::ZERO + outcome.warmup;
    let theirs = end.since(began.max(figures).min(end)).as_secs_f64();
    if theirs <= 0.0 {
        return;
    }
    let stretch = end.since(figures.min(end)).as_secs_f64() / theirs;
    for (flow, _) in testbed.ports() {
        let row = &mut outcome.flows[*flow];
        let group = &mut outcome.groups[row.group];
        for (of_row, of_group) in [
            (&mut row.goodput_bps, &mut group.goodput_bps),
            (&mut row.throughput_bps, &mut group.throughput_bps),
        ] {
            let more = *of_row * stretch - *of_row;
            *of_row += more;
            *of_group += more;
        }
    }
}

/// The directions of ports as a table.
fn port_table(ports: &[PortRecord]) -> Table {
    let mut table =
        Table::new(["port", "from", "to", ">throughput", ">packets sent", ">delivered"]);
    for port in ports {
        table.row([
            port.flow.clone(),
            port.from.clone(),
            port.to.clone(),
            rate(port.throughput_bps),
            port.packets_sent.to_string(),
            port.packets_delivered.to_string(),
        ]);
    }
    table
}

/// The outcome for people.
fn tell(scenario: &Scenario, outcome: &Outcome, cpu_s: f64, record: &RunRecord<'_>) -> String {
    let mut text = summary(scenario, outcome, cpu_s, "emulated");
    let Some(clock) = &record.emulation else { return text };
    if let Some(port) = record.ports.first() {
        let time = seconds(port.duration_s);
        text += &format!("\nin the {time} in which programs could send\n");
        text += &port_table(&record.ports).text();
        text += "\n";
    }
    text += &match clock.packets {
        0 => "no packet went out\n".to_owned(),
        packets => format!(
            "{packets} packets went out, half of them no later than {}, 99 % than {}, all than {}; \
             {:.2} % later than 1 ms\n",
            seconds(clock.late_p50_s),
            seconds(clock.late_p99_s),
            seconds(clock.late_max_s),
            clock.late_share * 100.0,
        ),
    };
    for (count, what) in [
        (clock.too_big, "packets were too big for their port"),
        (clock.malformed, "packets were none of IP"),
        (clock.refused, "packets were not taken by the kernel"),
        (clock.overflow, "packets were dropped by the kernel before they were read"),
    ] {
        if count > 0 {
            text += &format!("{count} {what}\n");
        }
    }
    if !clock.usable {
        text += &format!(
            "UNUSABLE as a measurement: {}; this machine was too slow: lower the rate, or stop \
             other work\n",
            clock.faults().join(", ")
        );
    }
    text
}
