//! Common parts of the commands that run a scenario on a real clock: options, live view and report
//! of an emulation.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use windward_core::network::RouterConfig;
use windward_core::part::AnyPart;
use windward_core::units::{Duration, Time};
use windward_http::Listener;
use windward_logs::pcap::PcapFile;
use windward_net::emulation::{self, Finished, Until};
use windward_net::record::Recorder;
use windward_net::source::{KEPT, Loaded, Source};
use windward_net::testbed;
use windward_sim::output::OutputDir;
use windward_sim::record::{PortRecord, RunRecord};
use windward_sim::scenario::{FlowConfig, LinkConfig};
use windward_sim::stack::End;
use windward_sim::{Outcome, Scenario};

use crate::clock::CpuStopwatch;
use crate::drive::Driver;
use crate::failure::Failure;
use crate::live::{Live, Style};
use crate::output::{self, TextTable, rate, seconds};
use crate::pcap::PcapArgs;
use crate::progress::Progress;
use crate::run::{Plot, plot_parser, summary};
use crate::scenario_args::warn;
use crate::signals;
use crate::web::{self, About, Web};

/// Output of an emulation.
#[derive(Debug, clap::Args)]
pub(crate) struct Telling {
    /// Print JSON lines: the state of links and flows at each interval, and at the end the object
    /// of `windward run --json`
    #[arg(long)]
    pub(crate) json: bool,

    /// Interval at which links and flows are shown
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_every)]
    every: Duration,

    /// Length of the scenario that runs in virtual time first, so that its flows are under way
    #[arg(long, value_name = "TIME")]
    lead: Option<Duration>,

    /// Write the results into this folder: run.json, run-flows.csv, run-groups.csv and
    /// run-links.csv
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Draw windows, rates and queues over time; at most the first half hour
    #[arg(long, value_name = "FILE.svg", value_parser = plot_parser())]
    plot: Option<PathBuf>,

    /// Record the packets that programs send in this file, for `windward replay`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// Record whole packets, not only their first bytes
    #[arg(long, requires = "record")]
    payload: bool,

    #[command(flatten)]
    pcap: PcapArgs,

    #[command(flatten)]
    pub(crate) web: web::WebArgs,

    /// Largest packet that programs may send, bytes [default: the `packet_size` of the port]
    ///
    /// Larger packets are answered by ICMP, as by a router before a smaller MTU.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(576..))]
    mtu: Option<u16>,

    /// Exchange many packets with the kernel at once (GSO, GRO): faster, but in bursts
    #[arg(long)]
    offload: bool,
}

fn parse_every(text: &str) -> Result<Duration, String> {
    match text.parse::<Duration>() {
        Ok(every) if every < Duration::from_millis(10) => Err("must be at least 10ms".to_owned()),
        Ok(every) => Ok(every),
        Err(error) => Err(error.to_string()),
    }
}

/// A chart covers at most this time: longer runs cannot be seen in one picture.
const CHARTED: Duration = Duration::from_secs(1800);
/// Time between two points of its lines.
const CHART_INTERVAL: Duration = Duration::from_millis(200);

/// Prints the warnings of a scenario.
pub(crate) fn warn_of(loaded: &Loaded) {
    warn(loaded.scenario.warnings.iter().map(String::as_str));
}

/// Live views of an emulation.
#[derive(Debug)]
pub(crate) struct Views {
    /// The command.
    pub(crate) command: &'static str,
    pub(crate) style: Style,
    /// The socket of `--web`.
    pub(crate) listener: Option<Listener>,
    /// The program whose packets cross the links, if one is known, as in a shell.
    pub(crate) program: Option<String>,
}

impl Views {
    fn create(
        self,
        scenario: &Scenario,
        (title, every): (&str, Duration),
        quiet: bool,
    ) -> Result<Vec<Live>, Failure> {
        let mut views = vec![Live::new(scenario, self.style, every)];
        if let Some(listener) = self.listener {
            // A program in a shell is at the receiving end of its port: it uploads on the way back.
            let (ways, solid) = match self.program {
                Some(_) => (["download", "upload"], End::Receiver),
                None => (About::THROUGHPUT.ways, End::Sender),
            };
            let program = self.program.map_or_else(String::new, |program| format!(": {program}"));
            let about = About {
                command: self.command,
                subject: &format!("{title}, {}{program}", bottlenecks(scenario)),
                capacity_bps: capacity(scenario, solid),
                ways,
                ..About::THROUGHPUT
            };
            let web = Web::start(listener, &about, quiet)?;
            views.push(Live::new(scenario, Style::Web(web), web::INTERVAL));
        }
        Ok(views)
    }
}

/// Rate of links that have no limit, bits per second.
const UNLIMITED: f64 = 1e12;

/// Rate C (1 - p) of the slowest bottleneck on the way from this end of flows, bits per second.
/// `None` if no rate is limited.
fn capacity(scenario: &Scenario, from: End) -> Option<f64> {
    let of_flow = |flow: &FlowConfig| bottleneck(scenario, flow, from).map(capacity_of);
    let rates = scenario.flows.iter().filter_map(of_flow);
    rates.min_by(f64::total_cmp).filter(|bps| *bps < UNLIMITED)
}

fn capacity_of(link: &LinkConfig) -> f64 {
    link.kind.rate.mean().as_bps() as f64 * (1.0 - link.kind.loss_rate(1500))
}

/// The slowest link of those that an end of a flow sends over.
fn bottleneck<'a>(scenario: &'a Scenario, flow: &FlowConfig, from: End) -> Option<&'a LinkConfig> {
    let route = if from == End::Sender { &flow.forward } else { &flow.reverse };
    let links = route.iter().map(|link| &scenario.links[*link]);
    links.min_by(|a, b| capacity_of(a).total_cmp(&capacity_of(b)))
}

/// Largest number of links in a title.
const MOST_NAMED: usize = 2;

/// The bottlenecks of flows in words: rate, delay, loss and queue of each.
fn bottlenecks(scenario: &Scenario) -> String {
    let mut links: Vec<&LinkConfig> = Vec::new();
    for flow in &scenario.flows {
        for link in End::BOTH.into_iter().filter_map(|from| bottleneck(scenario, flow, from)) {
            if !links.iter().any(|other| other.name == link.name) {
                links.push(link);
            }
        }
    }
    let words: Vec<String> = links.iter().take(MOST_NAMED).map(|link| link_words(link)).collect();
    match links.len().saturating_sub(MOST_NAMED) {
        0 => words.join("; "),
        more => format!("{}; and {more} more", words.join("; ")),
    }
}

/// `up: 8 Mbit/s, 20 ms, loss 2 %, drop-tail`.
fn link_words(link: &LinkConfig) -> String {
    let kind = &link.kind;
    let bps = kind.rate.mean().as_bps() as f64;
    let rate = if bps < UNLIMITED { rate(bps) } else { "no limit".to_owned() };
    let loss = match kind.loss_rate(1500) * 100.0 {
        0.0 => "no loss".to_owned(),
        percent => format!("loss {} %", output::si(percent).trim_end()),
    };
    let (aqm, router) = (kind.queue.aqm.words().name, kind.queue.router.words().name);
    let has_router = kind.queue.router != RouterConfig::default();
    let qdisc = if has_router { format!("{aqm}, {router}") } else { aqm.to_owned() };
    format!("{}: {rate}, {}, {loss}, {qdisc}", link.name, seconds(link.delay.as_secs_f64()))
}

/// An emulation under way, with everything that shows and keeps it.
#[derive(Debug)]
pub(crate) struct Emulation<'a> {
    pub(crate) inner: emulation::Emulation,
    telling: &'a Telling,
    title: String,
    views: Vec<Live>,
    plot: Option<Plot>,
    out: Option<OutputDir>,
    pcap: Option<PcapFile>,
    cpu: CpuStopwatch,
}

impl<'a> Emulation<'a> {
    /// Creates namespaces, devices and all requested files.
    pub(crate) fn new(
        source: &Source,
        telling: &'a Telling,
        views: Views,
        options: &testbed::Options,
        quiet: bool,
    ) -> Result<Self, Failure> {
        let loaded = source.load()?;
        warn_of(&loaded);
        let scenario = &loaded.scenario;
        // A path that cannot be written fails before the run.
        let plot = telling.plot.as_ref().map(|path| {
            let mut charted = scenario.clone();
            charted.duration = charted.duration.min(CHARTED);
            charted.sample = Some(charted.sample.unwrap_or(CHART_INTERVAL));
            Plot::create(path, &charted, None)
        });
        let plot = plot.transpose()?;
        let out = telling.out.as_ref().map(|dir| OutputDir::create(dir)).transpose()?;
        let kept = if telling.payload { u32::from(u16::MAX) } else { KEPT };
        let begin = |path: &PathBuf| record(source, &loaded, kept, path);
        let recorder = telling.record.as_ref().map(begin).transpose()?;
        let pcap = telling.pcap.create(scenario)?;
        let mut begun = loaded.begin(pcap.as_ref().map(PcapFile::observer));
        if let Some(lead) = telling.lead {
            if lead >= scenario.duration {
                let length = scenario.duration;
                return Err(Failure::Input(format!("--lead {lead}: the scenario lasts {length}")));
            }
            let until = Time::ZERO + lead;
            Driver::new(scenario, lead, quiet).advance(&mut begun.0, until, None, pcap.as_ref())?;
        }
        let options =
            testbed::Options { mtu: telling.mtu, offload: telling.offload, ..options.clone() };
        let progress = Progress::new(quiet);
        let go_on = |share| {
            progress.set(share, "creating namespaces");
            signals::check().is_ok()
        };
        let views = views.create(scenario, (&source.name, telling.every), quiet)?;
        let inner = emulation::Emulation::new(loaded.scenario, begun, recorder, &options, go_on)?;
        let inner = inner.ok_or(Failure::Interrupted)?;
        Ok(Emulation {
            inner,
            telling,
            title: source.name.clone(),
            views,
            plot,
            out,
            pcap,
            cpu: CpuStopwatch::start(),
        })
    }

    /// Starts the clock. Child processes are started before.
    pub(crate) fn begin(&mut self, quiet: bool) {
        if let Err(error) = self.inner.begin()
            && !quiet
        {
            output::note(&format!("packets may be late while other processes run: {error}"));
        }
        for view in &mut self.views {
            view.begin(&mut self.inner.simulation);
        }
        self.cpu = CpuStopwatch::start();
    }

    /// Runs until the testbed requests a stop, the scenario ends or `until`, whichever is first.
    pub(crate) fn run(&mut self, until: Time) -> Result<Until, Failure> {
        let until = until.min(self.inner.end());
        loop {
            let of_chart = self.plot.as_ref().and_then(|plot| plot.chart.next_sample());
            let of_chart = of_chart.unwrap_or(Time::NEVER);
            let of_views = self.views.iter().map(Live::next).min().unwrap_or(Time::NEVER);
            if self.inner.run(of_chart.min(of_views).min(until))? == Until::Stopped {
                return Ok(Until::Stopped);
            }
            let now = self.inner.simulation.now();
            if let Some(plot) = self.plot.as_mut().filter(|_| now >= of_chart) {
                plot.chart.sample(&mut self.inner.simulation);
            }
            for view in self.views.iter_mut().filter(|view| now >= view.next()) {
                view.look(&mut self.inner.simulation, self.inner.testbed.ports())?;
            }
            if now >= until {
                return Ok(Until::Over);
            }
        }
    }

    /// Ends the emulation and reports it: as text on standard error if `to_error`, else on standard
    /// output.
    pub(crate) fn finish(mut self, quiet: bool, to_error: bool) -> Result<(), Failure> {
        for view in &mut self.views {
            view.end(&mut self.inner.simulation, self.inner.testbed.ports())?;
        }
        let finished = self.inner.finish()?;
        let cpu_s = self.cpu.seconds();
        let Finished { scenario, outcome, ports, clock, killed, recorded, testbed } = finished;
        let record =
            RunRecord::new(&outcome).with_ports(ports).with_cpu_time(cpu_s).with_emulation(clock);
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
            let text = tell(&scenario, &outcome, cpu_s, &record);
            match to_error {
                true => output::note(text.trim_end()),
                false => output::print(&text)?,
            }
        }
        if killed > 0 && !quiet {
            output::note(&match killed {
                1 => "1 process was still running and was killed".to_owned(),
                many => format!("{many} processes were still running and were killed"),
            });
        }
        let progress = Progress::new(quiet);
        testbed.close(|share| progress.set(share, "removing namespaces"));
        // Failed writes are reported after the results.
        captured.transpose()?;
        recorded.map_err(|error| {
            Failure::Failed(format!("the record is incomplete: cannot write it: {error}"))
        })
    }
}

/// Begins the record of `--record`.
fn record(
    source: &Source,
    loaded: &Loaded,
    kept: u32,
    path: &Path,
) -> Result<Recorder<BufWriter<File>>, Failure> {
    const OPTION: &str = "--record";
    output::claim(OPTION, path)?;
    let recorder = source.record(loaded, kept, path);
    recorder.map_err(|error| Failure::Input(format!("{OPTION} {}: {error}", path.display())))
}

/// Both directions of each port as a table.
fn port_table(ports: &[PortRecord]) -> TextTable {
    let mut table =
        TextTable::new(["port", "from", "to", ">throughput", ">packets sent", ">delivered"]);
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

/// The outcome as text for people.
fn tell(scenario: &Scenario, outcome: &Outcome, cpu_s: f64, record: &RunRecord<'_>) -> String {
    let mut text = summary(scenario, outcome, cpu_s, "emulated");
    let Some(clock) = &record.emulation else { return text };
    if let Some(port) = record.ports.first() {
        let time = seconds(port.duration_s);
        text += &format!("\nduring the {time} in which programs could send\n");
        text += &port_table(&record.ports).text();
        text += "\n";
    }
    text += &match clock.packets {
        0 => "no packet was forwarded\n".to_owned(),
        packets => format!(
            "{packets} packets forwarded; delay beyond the scheduled time: median {}, 99th percentile {}, maximum {}; \
             {:.2} % later than 1 ms\n",
            seconds(clock.late_p50_s),
            seconds(clock.late_p99_s),
            seconds(clock.late_max_s),
            clock.late_share * 100.0,
        ),
    };
    for (count, what) in [
        (clock.too_big, "packets were larger than the MTU of their port"),
        (clock.malformed, "packets were not IP"),
        (clock.refused, "packets were refused by the kernel"),
        (clock.overflow, "packets were dropped by the kernel before they were read"),
    ] {
        if count > 0 {
            text += &format!("{count} {what}\n");
        }
    }
    if !clock.usable {
        text += &format!(
            "UNUSABLE as a measurement: {}; this machine was too slow: reduce the rate, or stop \
             other work\n",
            clock.faults().join(", ")
        );
    }
    text
}
