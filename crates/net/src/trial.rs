//! Programs on the ports of a scenario, measured by the links that they send over; and simulated
//! flows in place of the ports, measured by the same code in virtual time.
//!
//! The measurement begins [`Window::warmup`] after the [beginning](TrialOutcome::began) of the
//! first flow, and takes [`Window::time`]. Bytes and packets are those of IP, headers included, as
//! links count them.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use windward_core::units::{Duration, Time};
use windward_netns::{Inside, Namespace};
use windward_sim::record::EmulationRecord;
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::scenario::{FlowKind, MAX_DURATION, Traffic};
use windward_sim::stack::Stacks;
use windward_sim::{LinkSnapshot, Scenario, Simulation};

use crate::command::{SAID, Started};
use crate::emulate;
use crate::emulation::{Emulation, Finished, Until};
use crate::error::Error;
use crate::perf::Plan;
use crate::port::Ports;
use crate::record::Recorder;
use crate::testbed::{self, Testbed};

/// Shell commands of the programs at the ends of a port, each in a network namespace of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Sender, at the far end, where the port begins. The name of the other end is `inside`.
    pub server: String,
    /// Receiver, where the port ends. The name of the far end is `outside`. Both names have IPv4
    /// addresses; `outside6` and `inside6` have IPv6 addresses.
    pub client: String,
    /// Default congestion control of TCP at the far end, such as `cubic`.
    pub congestion_control: Option<String>,
    /// True if the client may take a while to end, since its output counts; else it is ended when
    /// the measurement is.
    pub says: bool,
}

/// Measured part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Time after the beginning that is left out.
    pub warmup: Duration,
    /// Length of the measurement.
    pub time: Duration,
}

/// Outcome of a flow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialFlow {
    /// Rate at which data arrived, bits per second of IP packets; duplicates count again.
    pub arrived_bps: f64,
    /// The same without duplicates; for a port, whose packets are opaque, equal to `arrived_bps`.
    pub unique_bps: f64,
}

/// Outcome of the measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialOutcome {
    /// When as many bytes of the first flow had arrived as a full packet has, since programs
    /// exchange greetings before they send data.
    pub began: Time,
    /// The flows to be measured, in order.
    pub flows: Vec<TrialFlow>,
    /// Packets of all flows that came to the bottleneck of the first flow.
    pub sent: u64,
    /// Packets of these that its queue did not drop and its channel did not destroy.
    pub delivered: u64,
    /// Mean number of packets waiting there, sampled every 10 ms.
    pub mean_queue_packets: f64,
    /// Size of the largest packet of the first flow that arrived, bytes of IP; for a simulated
    /// flow, the size of a full packet.
    pub packet_size: u32,
}

impl TrialOutcome {
    /// Packets sent per packet delivered; infinite if none was delivered.
    pub fn sent_per_delivered(&self) -> f64 {
        if self.delivered == 0 { f64::INFINITY } else { self.sent as f64 / self.delivered as f64 }
    }
}

/// A run on the real clock.
#[derive(Debug)]
pub struct Emulated {
    /// Outcome as the links measured it.
    pub figures: TrialOutcome,
    /// Standard output of each client.
    pub outputs: Vec<String>,
    /// Record of how well the clock was kept.
    pub clock: EmulationRecord,
    /// Fingerprint of the run: a replay of the record has the same.
    pub fingerprint: u64,
}

/// Time between two samples of the queue.
const LOOK: Duration = Duration::from_millis(10);
/// Time between two checks whether anything was delivered.
const WATCH: Duration = Duration::from_millis(2);
/// Longest time that a program may take until a full packet arrives: greetings take round trips,
/// which take seconds on some links.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest time that it may take to end after the last packet that counts.
const GRACE: Duration = Duration::from_secs(8);
/// Longest time that a program may take to end after it was asked to.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Counts at an instant.
#[derive(Debug)]
struct Standing {
    at: Time,
    /// Bytes that have arrived, and without duplicates.
    flows: Vec<[u64; 2]>,
    link: LinkSnapshot,
}

/// Measures a simulation that the caller advances.
#[derive(Debug)]
struct Ruler {
    window: Window,
    flows: Vec<usize>,
    link: usize,
    /// Size of a full packet of the first flow, bytes.
    full: u32,
    next: Time,
    began: Option<Time>,
    first: Option<Standing>,
    last: Option<Standing>,
    queue: u64,
    looks: u64,
}

impl Ruler {
    fn new(scenario: &Scenario, flows: Vec<usize>, window: Window) -> Self {
        let first = &scenario.flows[flows[0]];
        let link = first.bottleneck;
        let full = match &first.kind.traffic {
            Traffic::Transport { config, .. } => config.packet_size,
            Traffic::Stack { config, .. } => config.packet_size,
            _ => 1,
        };
        Ruler {
            window,
            flows,
            link,
            full,
            next: Time::ZERO + WATCH,
            began: None,
            first: None,
            last: None,
            queue: 0,
            looks: 0,
        }
    }

    /// When to [look](Ruler::look) next; never once all is measured.
    fn next(&self) -> Time {
        if self.last.is_some() { Time::NEVER } else { self.next }
    }

    fn standing(&self, simulation: &mut Simulation) -> Standing {
        let of_flow = |flow: &usize| {
            let flow = simulation.flow(*flow);
            flow.map_or([0; 2], |flow| [flow.arrived_bytes, flow.delivered_bytes])
        };
        let flows = self.flows.iter().map(of_flow).collect();
        Standing { at: simulation.now(), flows, link: simulation.link(self.link) }
    }

    /// Samples a simulation that has come to [`Ruler::next`].
    fn look(&mut self, simulation: &mut Simulation) {
        let now = simulation.now();
        let Some(began) = self.began else {
            let arrived = simulation.flow(self.flows[0]).map_or(0, |flow| flow.arrived_bytes);
            self.next = now + WATCH;
            if arrived >= u64::from(self.full) {
                self.began = Some(now);
                self.next = now + self.window.warmup;
                if self.next == now {
                    self.look(simulation);
                }
            }
            return;
        };
        let until = began + self.window.warmup + self.window.time;
        if self.first.is_none() {
            self.first = Some(self.standing(simulation));
        }
        if now >= until {
            self.last = Some(self.standing(simulation));
            return;
        }
        self.queue += simulation.link(self.link).queue_packets;
        self.looks += 1;
        self.next = (self.next + LOOK).max(now).min(until);
    }

    /// Notes that the program has ended. If that was in the last tenth of the measurement, the
    /// measurement ends here, since the program measures from its own beginning.
    fn end(&mut self, simulation: &mut Simulation) {
        let Some(began) = self.began.filter(|_| self.first.is_some() && self.last.is_none()) else {
            return;
        };
        let tenth = Duration::from_ps(self.window.time.as_ps() / 10);
        if simulation.now() + tenth >= began + self.window.warmup + self.window.time {
            self.last = Some(self.standing(simulation));
        }
    }

    fn figures(&self) -> Option<TrialOutcome> {
        let (first, last) = (self.first.as_ref()?, self.last.as_ref()?);
        let began = self.began?;
        let seconds = last.at.since(first.at).as_secs_f64();
        let bps = |from: u64, to: u64| (to - from) as f64 * 8.0 / seconds;
        let flows = first.flows.iter().zip(&last.flows).map(|(from, to)| TrialFlow {
            arrived_bps: bps(from[0], to[0]),
            unique_bps: bps(from[1], to[1]),
        });
        let lost = |link: &LinkSnapshot| link.dropped + link.corrupted;
        let sent = last.link.arrived - first.link.arrived;
        Some(TrialOutcome {
            began,
            flows: flows.collect(),
            sent,
            delivered: sent.saturating_sub(lost(&last.link) - lost(&first.link)),
            mean_queue_packets: self.queue as f64 / self.looks.max(1) as f64,
            packet_size: self.full,
        })
    }
}

/// The scenario with a simulated flow in place of each port, in order, and the indices of these
/// flows.
///
/// # Errors
/// If the scenario is invalid, or has another number of ports.
pub fn twin(
    file: &ScenarioFile,
    stacks: &Stacks,
    plans: &[Plan],
) -> Result<(Scenario, Vec<usize>), Error> {
    let stacks = stacks.clone().with(Ports::new());
    let mut scenario = file.clone().with_stacks(&stacks).build()?;
    let ports: Vec<usize> = testbed::ports(&scenario).map(|(flow, _)| flow).collect();
    pair_up(ports.len(), plans.len())?;
    for (flow, plan) in ports.iter().zip(plans) {
        let flow = &mut scenario.flows[*flow];
        let Plan { protocol, config } = plan.clone();
        let traffic = Traffic::Transport { protocol, config, packets: None, arrivals: None };
        flow.kind = Arc::new(FlowKind { traffic, ..(*flow.kind).clone() });
    }
    Ok((scenario, ports))
}

/// Checks that each port has a program, and that there is one.
fn pair_up(ports: usize, programs: usize) -> Result<(), Error> {
    if ports == programs && ports > 0 {
        return Ok(());
    }
    Err(Error::Failed(format!(
        "each port needs a program: ports in the scenario {ports}, programs {programs}"
    )))
}

/// Measures flows of a scenario in virtual time. If a beginning is given, such as that of a program
/// whose greetings took a while, the flows start later so that they begin then. `None` if nothing
/// was delivered, or if `stop` became true.
pub fn simulate(
    scenario: &Scenario,
    flows: &[usize],
    window: Window,
    began: Option<Time>,
    stop: &AtomicBool,
) -> Option<TrialOutcome> {
    let mut scenario = scenario.clone();
    scenario.warmup = Duration::ZERO;
    scenario.duration = PATIENCE + window.warmup + window.time;
    if let Some(began) = began {
        let mut ruler = Ruler::new(&scenario, flows.to_vec(), window);
        let mut simulation = Simulation::traced(&scenario);
        while ruler.began.is_none() && ruler.next() <= Time::ZERO + scenario.duration {
            simulation.advance(ruler.next());
            ruler.look(&mut simulation);
        }
        let later = began.since(ruler.began?);
        for flow in flows {
            let flow = &mut scenario.flows[*flow];
            let (from, until) = flow.kind.start;
            let start = (from + later, until + later);
            flow.kind = Arc::new(FlowKind { start, ..(*flow.kind).clone() });
        }
        scenario.duration += later;
    }
    let mut ruler = Ruler::new(&scenario, flows.to_vec(), window);
    let mut simulation = Simulation::traced(&scenario);
    while ruler.next() <= Time::ZERO + scenario.duration && !stop.load(Ordering::Relaxed) {
        simulation.advance(ruler.next());
        ruler.look(&mut simulation);
    }
    ruler.figures()
}

/// Runs a program at each port of a scenario, in the order of its flows, and measures it. The run
/// lasts until the first client ends, which has some time to do so by itself. Packets that come in
/// are recorded, if asked for. `None` if `stop` became true.
///
/// # Errors
/// Among others, without the rights to make namespaces, and if the record cannot be
/// written.
pub fn emulate(
    file: &ScenarioFile,
    stacks: &Stacks,
    programs: &[Program],
    window: Window,
    recorder: Option<Recorder<BufWriter<File>>>,
    stop: &'static AtomicBool,
) -> Result<Option<Emulated>, Error> {
    // The thread that moves packets gets a higher priority.
    let run = || match TrialRun::begin(file, stacks, programs, window, recorder, stop)? {
        Some(run) => run.measure(),
        None => Ok(None),
    };
    let on_a_thread = thread::scope(|scope| {
        let thread = thread::Builder::new().name("trial".into()).spawn_scoped(scope, run);
        thread.map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    on_a_thread.map_err(Error::doing("make a thread"))?
}

/// A run in progress.
#[derive(Debug)]
struct TrialRun {
    /// Dropped before the testbed, which kills all else in its namespaces.
    clients: Vec<Started>,
    servers: Vec<Started>,
    emulation: Emulation,
    ruler: Ruler,
    window: Window,
    says: bool,
    stop: &'static AtomicBool,
}

impl TrialRun {
    fn begin(
        file: &ScenarioFile,
        stacks: &Stacks,
        programs: &[Program],
        window: Window,
        recorder: Option<Recorder<BufWriter<File>>>,
        stop: &'static AtomicBool,
    ) -> Result<Option<Self>, Error> {
        let ports = Ports::new();
        let stacks = stacks.clone().with(ports.clone());
        let mut scenario = file.clone().with_stacks(&stacks).build()?;
        emulate::prepare(&mut scenario, true);
        let flows: Vec<usize> = testbed::ports(&scenario).map(|(flow, _)| flow).collect();
        pair_up(flows.len(), programs.len())?;
        let ruler = Ruler::new(&scenario, flows, window);
        let simulation = Simulation::changeable(&scenario);
        // It lasts until the client ends.
        scenario.duration = MAX_DURATION;
        let options =
            testbed::Options { apart: true, default_routes: true, ..testbed::Options::default() };
        let go_on = |_| !stop.load(Ordering::Relaxed);
        let begun = (simulation, ports.take());
        let emulation = Emulation::new(scenario, begun, recorder, &options, go_on)?;
        let Some(mut emulation) = emulation else { return Ok(None) };
        let testbed = &mut emulation.testbed;
        testbed.publish_for_sweep();
        let (mut servers, mut clients) = (Vec::new(), Vec::new());
        for (port, program) in programs.iter().enumerate() {
            servers.push(start_server(testbed, port, program, stop)?);
        }
        for (port, program) in programs.iter().enumerate() {
            let [_, inside] = testbed.ends()[port].clone();
            let namespace = testbed.namespace(&inside).expect("each end is a namespace");
            clients.push(Started::new(namespace, &program.client)?);
        }
        testbed.end_with(clients[0].child.as_fd())?;
        testbed.stop_on(Some(stop));
        let says = programs[0].says;
        Ok(Some(TrialRun { clients, servers, emulation, ruler, window, says, stop }))
    }

    /// Runs until the first client ends, or takes too long.
    fn measure(mut self) -> Result<Option<Emulated>, Error> {
        // A trial is not usable unless its waits are counted.
        self.emulation.watch_waits().map_err(Error::doing("make a thread"))?;
        // Without the priority packets may be late, which the record of the clock shows.
        let _ = self.emulation.begin();
        let mut end = Time::ZERO + PATIENCE;
        loop {
            let next = self.ruler.next().min(end);
            let until = self.emulation.run(next)?;
            if self.stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            if until == Until::Stopped {
                self.ruler.end(&mut self.emulation.simulation);
                break;
            }
            if next == self.ruler.next() {
                self.ruler.look(&mut self.emulation.simulation);
            }
            if next == end {
                break;
            }
            if let Some(began) = self.ruler.began {
                let grace = if self.says { GRACE } else { Duration::ZERO };
                end = began + self.window.warmup + self.window.time + grace;
            }
        }
        let Some(mut figures) = self.ruler.figures() else {
            return Err(self.too_early());
        };
        let testbed = &self.emulation.testbed;
        figures.packet_size = testbed.ports().first().map_or(0, |(_, port)| port.largest());
        if !testbed.has_ended() {
            self.clients[0].child.terminate()?;
            self.emulation.run(self.emulation.now() + LAST_WORDS)?;
        }
        let Finished { outcome, clock, recorded, testbed: _testbed, .. } =
            self.emulation.finish()?;
        recorded.map_err(Error::doing("write the record"))?;
        let mut outputs = Vec::new();
        for client in &mut self.clients {
            // It may have left its namespace, whose end it would outlive.
            client.child.kill()?;
            client.child.wait()?;
            let [stdout, _] = client.wrote();
            outputs.push(stdout);
        }
        Ok(Some(Emulated { figures, outputs, clock, fingerprint: outcome.fingerprint }))
    }

    fn too_early(&mut self) -> Error {
        if !self.emulation.testbed.has_ended() {
            return Error::Nothing(PATIENCE);
        }
        let client = &mut self.clients[0];
        let status = client.child.wait().map_or(-1, Inside::exit_code);
        let [stdout, _] = client.wrote();
        let said = [client.said(), stdout, self.servers[0].said()];
        let said = said.iter().map(|said| said.trim()).find(|said| !said.is_empty());
        Error::Ended { status, said: said.unwrap_or_default().chars().take(SAID).collect() }
    }
}

/// Starts the server, and waits a moment until it listens.
fn start_server(
    testbed: &mut Testbed,
    port: usize,
    program: &Program,
    stop: &AtomicBool,
) -> Result<Started, Error> {
    let [outside, inside] = testbed.ends()[port].clone();
    let pair = testbed.pair(port).expect("each port has a pair");
    let pair_inside = (pair.inside.ipv4, pair.inside.ipv6);
    let pair_outside = (pair.outside.ipv4, pair.outside.ipv6);
    // A name has one address, so that all programs use the same version of IP, since headers differ
    // in size.
    for (node, (ipv4, ipv6), name) in
        [(&inside, pair_outside, "outside"), (&outside, pair_inside, "inside")]
    {
        let six = format!("{name}6");
        let ipv6 = ipv6.map(|address| (IpAddr::from(address), six.as_str()));
        let namespace = testbed.namespace(node).expect("each end is a namespace");
        namespace.set_hosts([(IpAddr::from(ipv4), name)].into_iter().chain(ipv6));
    }
    let namespace = testbed.namespace(&outside).expect("each end is a namespace");
    if let Some(name) = &program.congestion_control {
        choose(namespace, name)?;
    }
    let server = Started::new(namespace, &program.server)?;
    server.wait_until_it_listens(stop);
    Ok(server)
}

/// Sets the default congestion control of TCP in the namespace.
fn choose(namespace: &Namespace, name: &str) -> Result<(), Error> {
    let mut tries = 0;
    loop {
        // Another process that allowed it may end at any time and undo that.
        let allowed = Allowed::all([name]);
        // /proc/sys/net is that of the namespace of the thread that opens it.
        let chosen = namespace.run(|| fs::write(CHOSEN, name))?;
        drop(allowed);
        tries += 1;
        match chosen {
            Ok(()) => return Ok(()),
            Err(_) if tries < 5 => {}
            Err(error) => {
                let doing = format!("choose the congestion control {name} of the kernel");
                return Err(Error::doing(doing)(error));
            }
        }
    }
}

const CHOSEN: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

/// The congestion controls that the kernel has loaded (ip-sysctl,
/// tcp_available_congestion_control).
pub fn kernel_controls() -> io::Result<Vec<String>> {
    Ok(fs::read_to_string(AVAILABLE)?.split_whitespace().map(str::to_owned).collect())
}

/// Lets network namespaces choose these congestion controls of the kernel, as long as this lives:
/// other namespaces can only choose those in `tcp_allowed_congestion_control` of the initial
/// namespace.
#[derive(Debug)]
pub struct Allowed {
    /// The previous value, if it is to be restored.
    before: Option<String>,
}

impl Allowed {
    /// Adds those that are missing.
    ///
    /// # Errors
    /// Without root in the initial network namespace, if any is missing; the error states what to
    /// do.
    pub fn all<'a>(names: impl IntoIterator<Item = &'a str>) -> io::Result<Self> {
        let before = fs::read_to_string(ALLOWED)?;
        let mut all: Vec<&str> = before.split_whitespace().collect();
        let known = all.len();
        for name in names {
            if !all.contains(&name) {
                all.push(name);
            }
        }
        if all.len() == known {
            return Ok(Allowed { before: None });
        }
        fs::write(ALLOWED, all.join(" ")).map_err(|error| {
            // The kernel allows writing only in the initial network namespace.
            let elsewhere = fs::metadata(ALLOWED).is_ok_and(|file| file.permissions().readonly());
            let all = all.join(" ");
            let advice = match elsewhere {
                true => format!(
                    "only the initial network namespace may allow them: start windward there, or run there: \
                     sysctl -w net.ipv4.tcp_allowed_congestion_control=\"{all}\""
                ),
                false => "be root".to_owned(),
            };
            io::Error::new(error.kind(), format!("{error}; {advice}"))
        })?;
        Ok(Allowed { before: Some(before) })
    }
}

impl Drop for Allowed {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // An error cannot be reported here.
            let _ = fs::write(ALLOWED, before.trim());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::Test;

    const LINK: &str = r#"
        duration = "1s"
        links = [{ name = "l", from = "a", to = "b", rate = "8Mbit", delay = "10ms", queue = "100p" }]
        flows = [{ group = "port", protocol = "outside:port", from = "a", to = "b" }]
    "#;

    fn simulated(set: &[(&str, &str)], loss: &str) -> TrialOutcome {
        let mut file = ScenarioFile::parse("test", LINK).unwrap();
        file.set("links.l.loss", loss).unwrap();
        let parameters = set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let plan = Test { parameters: parameters.collect(), ..Test::of("sack") }.plan().unwrap();
        let (scenario, flows) = twin(&file, &Stacks::none(), &[plan]).unwrap();
        let window = Window { warmup: Duration::from_secs(1), time: Duration::from_secs(4) };
        simulate(&scenario, &flows, window, None, &AtomicBool::new(false)).unwrap()
    }

    #[test]
    fn a_window_is_what_arrives_in_a_round_trip() {
        // Five packets of 1000 bytes in 2 * 10 ms, 1 ms for a packet and 0.1 ms for an
        // acknowledgment of 100 bytes: 40,000 bits in 21.1 ms. Four seconds may hold one packet
        // more or less.
        let figures = simulated(&[("rwnd", "5"), ("ack_size", "100")], "0");
        let expected = 40_000.0 / 0.0211;
        assert!((figures.flows[0].arrived_bps - expected).abs() < 2.0 * 8000.0, "{figures:?}");
        assert_eq!(figures.flows[0].arrived_bps, figures.flows[0].unique_bps);
        assert_eq!(figures.sent_per_delivered(), 1.0);
        assert!(figures.mean_queue_packets < 5.0, "{figures:?}");
    }

    #[test]
    fn a_twin_begins_when_the_program_did() {
        let file = ScenarioFile::parse("test", LINK).unwrap();
        let (scenario, flows) =
            twin(&file, &Stacks::none(), &[Test::of("sack").plan().unwrap()]).unwrap();
        let window = Window { warmup: Duration::ZERO, time: Duration::from_secs(1) };
        let stop = AtomicBool::new(false);
        let figures = |began| simulate(&scenario, &flows, window, began, &stop).unwrap();
        // A packet of 1000 bytes takes 1 ms and 10 ms; who looks each 2 ms sees it after 12 ms.
        let by_itself = figures(None);
        assert_eq!(by_itself.began, Time::ZERO + Duration::from_millis(12));
        let late = Time::ZERO + Duration::from_millis(2500);
        assert_eq!(figures(Some(late)), TrialOutcome { began: late, ..by_itself });
    }

    #[test]
    fn what_is_lost_is_sent_and_not_delivered() {
        let figures = simulated(&[], "0.2");
        // About 1 / (1 - 0.2), of more than 50 packets.
        assert!(figures.sent > 50, "{figures:?}");
        assert!((1.05..1.6).contains(&figures.sent_per_delivered()), "{figures:?}");
        let none = TrialOutcome { sent: 1, delivered: 0, ..figures };
        assert_eq!(none.sent_per_delivered(), f64::INFINITY);
    }

    #[test]
    fn another_namespace_is_told_who_may_allow() {
        let Ok(namespace) = Namespace::new() else {
            println!("skipped: network namespaces need root");
            return;
        };
        let allowed = fs::read_to_string(ALLOWED).unwrap();
        let known: Vec<&str> = allowed.split_whitespace().collect();
        // Controls that are already allowed need no privilege.
        let all = namespace.run(|| Allowed::all(known.iter().copied()).map(drop)).unwrap();
        all.unwrap();
        let error = namespace.run(|| Allowed::all(["no-such-control"]).map(drop)).unwrap();
        let error = error.unwrap_err().to_string();
        let said = format!("tcp_allowed_congestion_control=\"{} no-such-control\"", allowed.trim());
        assert!(error.contains("initial network namespace") && error.contains(&said), "{error}");
        assert!(!error.contains("be root"), "{error}");
    }

    #[test]
    fn ports_and_programs_must_be_as_many() {
        let file = ScenarioFile::parse("test", LINK).unwrap();
        let error = twin(&file, &Stacks::none(), &[]).unwrap_err();
        assert!(error.to_string().ends_with("ports in the scenario 1, programs 0"), "{error}");
    }
}
