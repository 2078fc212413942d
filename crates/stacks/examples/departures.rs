//! Departures of quinn's CUBIC from RFC 9438, each with the responsible part of quinn: the
//! scenarios of the suites with one change at a time.
//!
//! `cargo run --release -p windward-stacks --example departures`
//!
//! The controller is a copy of quinn's that runs in quinn in place of the original, so that single
//! steps can be replaced by those of the RFC. Pacing is quinn's, with bursts spread over time.

use std::error::Error;
use std::sync::Arc;

use windward_core::endpoint::event::{AckEvent, CongestionEvent, ResetEvent};
use windward_core::endpoint::window::{self, Controller, ControllerConfig, MakeController};
use windward_core::part::{Custom, CustomPart, Words};
use windward_core::units::{Duration, Time};
use windward_sim::Outcome;
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::stack::{
    Codepoint, Connection, End, Facts, Stack, StackReport, StackSetup, Stacks,
};
use windward_stacks::{Host, with_controller};

/// RFC 9438 sections 4.6 and 5.1.
const BETA: f64 = 0.7;
const C: f64 = 0.4;

/// Departures of quinn's CUBIC that are replaced by the rule of RFC 9438.
#[derive(Debug, Clone, Copy, Default)]
struct AsRfc {
    /// The target is at most one and a half windows (section 4.2).
    bounded_target: bool,
    /// Growth beyond a packet is kept.
    keeps_remainder: bool,
    /// K is the time from the reduced window back to W_max (section 4.2); quinn's begins at 0.7
    /// W_max, below that window after fast convergence.
    k_from_window: bool,
    /// W_est grows with acknowledged data, from the reduced window (section 4.3); quinn's with
    /// time, from 0.7 W_max.
    est_by_acks: bool,
    /// The Reno-friendly region has alpha = 1 beyond the window before the decrease (section 4.3).
    reno_alpha: bool,
}

impl AsRfc {
    const ALL: AsRfc = AsRfc {
        bounded_target: true,
        keeps_remainder: true,
        k_from_window: true,
        est_by_acks: true,
        reno_alpha: true,
    };
}

struct QuinnCubic {
    name: &'static str,
    as_rfc: AsRfc,
}

impl CustomPart for QuinnCubic {
    fn words(&self) -> Words {
        Words { name: self.name, what: "CUBIC as quinn has it", source: "quinn-proto 0.11.19" }
    }
}

impl MakeController for QuinnCubic {
    fn measures_delay(&self) -> bool {
        false
    }
    fn make(&self, _: window::ControllerSetup<'_>) -> Box<dyn Controller> {
        Box::new(State {
            as_rfc: self.as_rfc,
            // 12 000 bytes, whatever the size of packets.
            cwnd: 12_000.0 / 1472.0,
            ssthresh: f64::INFINITY,
            w_max: 0.0,
            prior: 0.0,
            k: 0.0,
            est: 0.0,
            increment: 0.0,
            epoch: None,
        })
    }
}

#[derive(Debug, Clone)]
struct State {
    as_rfc: AsRfc,
    cwnd: f64,
    ssthresh: f64,
    w_max: f64,
    prior: f64,
    k: f64,
    est: f64,
    increment: f64,
    epoch: Option<Time>,
}

impl State {
    fn acknowledge_one(&mut self, now: Time, srtt: f64) {
        if self.cwnd < self.ssthresh {
            self.cwnd += 1.0;
            return;
        }
        let epoch = *self.epoch.get_or_insert_with(|| {
            (self.w_max, self.k, self.est) = (self.cwnd, 0.0, self.cwnd);
            now
        });
        let t = now.since(epoch).as_secs_f64();
        let at = t + srtt - self.k;
        let mut cubic = C * at * at * at + self.w_max;
        let alpha = 3.0 * (1.0 - BETA) / (1.0 + BETA);
        let est = if self.as_rfc.est_by_acks {
            let alpha = if self.as_rfc.reno_alpha && self.est >= self.prior { 1.0 } else { alpha };
            self.est += alpha / self.cwnd;
            self.est
        } else {
            self.w_max * BETA + alpha * t / srtt
        };
        let mut goal = self.cwnd;
        if cubic < est {
            goal = goal.max(est);
        } else if goal < cubic {
            if self.as_rfc.bounded_target {
                cubic = cubic.min(1.5 * goal);
            }
            goal += (cubic - goal) / goal;
        }
        self.increment += goal - self.cwnd;
        if self.as_rfc.keeps_remainder {
            self.cwnd += self.increment;
            self.increment = 0.0;
        } else if self.increment >= 1.0 {
            self.cwnd += 1.0;
            self.increment = 0.0;
        }
    }
}

impl Controller for State {
    fn cwnd(&self) -> f64 {
        self.cwnd
    }
    fn ssthresh(&self) -> f64 {
        self.ssthresh
    }
    fn on_ack(&mut self, ack: &AckEvent) {
        if ack.allows_growth() {
            for _ in 0..ack.newly_acked {
                self.acknowledge_one(ack.path.now, ack.path.srtt.as_secs_f64());
            }
        }
    }
    fn on_congestion(&mut self, event: &CongestionEvent) {
        self.prior = self.cwnd;
        let falls_short = self.cwnd < self.w_max;
        self.w_max = if falls_short { self.cwnd * (1.0 + BETA) / 2.0 } else { self.cwnd };
        self.cwnd = (self.cwnd * BETA).max(2.0);
        self.ssthresh = self.cwnd;
        let rise = match self.as_rfc.k_from_window {
            true => (self.w_max - self.cwnd).max(0.0),
            false => self.w_max * (1.0 - BETA),
        };
        self.k = (rise / C).cbrt();
        self.est = self.cwnd;
        self.increment *= BETA;
        self.epoch = Some(event.path.now);
    }
    fn on_reset(&mut self, _: &ResetEvent) {
        self.w_max = self.cwnd;
        self.ssthresh = (self.cwnd * BETA).max(2.0);
        (self.cwnd, self.increment, self.epoch) = (2.0, 0.0, None);
    }
}

/// A stack whose sender sends no bursts: the next packet leaves at a pace of 1.25 windows per round
/// trip.
#[derive(Debug)]
struct Spread {
    of: Arc<dyn Stack>,
    facts: Facts,
}

impl Stack for Spread {
    fn facts(&self) -> &Facts {
        &self.facts
    }
    fn connect(&self, setup: &StackSetup) -> Box<dyn Connection> {
        Box::new(SpreadPair { of: self.of.connect(setup), next: Time::ZERO, waits: false })
    }
}

#[derive(Debug)]
struct SpreadPair {
    of: Box<dyn Connection>,
    next: Time,
    waits: bool,
}

impl Connection for SpreadPair {
    fn start(&mut self, now: Time) {
        self.of.start(now);
    }
    fn stop(&mut self, now: Time) {
        self.of.stop(now);
    }
    fn receive(&mut self, now: Time, end: End, payload: &[u8], ecn: Codepoint) {
        self.of.receive(now, end, payload, ecn);
    }
    fn poll_transmit(&mut self, now: Time, end: End, payload: &mut Vec<u8>) -> Option<Codepoint> {
        if end == End::Receiver {
            return self.of.poll_transmit(now, end, payload);
        }
        self.waits = now < self.next;
        if self.waits {
            return None;
        }
        let ecn = self.of.poll_transmit(now, end, payload)?;
        let report = self.of.report();
        let seconds = report.srtt.as_secs_f64() * payload.len() as f64 / report.cwnd.max(1) as f64;
        self.next = now + Duration::from_secs_f64(seconds / 1.25);
        Some(ecn)
    }
    fn next_timer(&mut self, end: End) -> Time {
        let due = self.of.next_timer(end);
        if end == End::Sender && self.waits { due.min(self.next) } else { due }
    }
    fn on_timer(&mut self, now: Time, end: End) {
        if self.of.next_timer(end) <= now {
            self.of.on_timer(now, end);
        }
    }
    fn report(&self) -> StackReport {
        self.of.report()
    }
}

const FRIENDLY: &str = r#"
duration = "120s"
warmup = "40s"
links = [{ name = "link", from = "a", to = "b", rate = "20Mbit", delay = "20ms", queue = "67p" }]
endpoint = { packet_size = 1500, initial_window = 10, delayed_acks = "40ms", byte_counting = true, rto_floor = "200ms", clock_granularity = "1ms" }
flows = [
    { group = "flow", protocol = "cubic", from = "a", to = "b", start = ["0s", "1s"], overhead = "600us" },
    { group = "victim", protocol = "newreno", from = "a", to = "b", start = ["0s", "1s"], overhead = "600us" },
]
"#;

const SLOW: &str = r#"
duration = "300s"
warmup = "60s"
links = [{ name = "link", from = "a", to = "b", rate = "32kbit", delay = "50ms", queue = "10p" }]
endpoint = { packet_size = 1500, initial_window = 10, delayed_acks = "40ms", byte_counting = true, rto_floor = "200ms", clock_granularity = "1ms" }
flows = [{ group = "flow", protocol = "cubic", from = "a", to = "b", start = ["0s", "1s"], overhead = "100ms" }]
"#;

const INCAST: &str = r#"
duration = "2s"
links = [{ name = "link", from = "a", to = "b", rate = "1Gbit", delay = "50us", queue = "128p" }]
endpoint = { packet_size = 1500, initial_window = 10, delayed_acks = "40ms", byte_counting = true, rto_floor = "200ms", clock_granularity = "1ms" }
flows = [{ group = "flow", count = 40, protocol = "cubic", from = "a", to = "b", size = "64kB", overhead = "12us" }]
"#;

/// The mean over ten seeds, and the standard deviation.
fn measure(
    text: &str,
    stacks: &Stacks,
    changes: &[(&str, &str)],
    number: impl Fn(&Outcome) -> f64,
) -> Result<String, Box<dyn Error>> {
    let mut file = ScenarioFile::parse("departures.toml", text)?.with_stacks(stacks);
    for (key, value) in changes {
        file.set(key, value)?;
    }
    let mut numbers = Vec::new();
    for seed in 1..=10 {
        file.set("seed", &seed.to_string())?;
        numbers.push(number(&windward_sim::run(&file.build()?)));
    }
    let mean = numbers.iter().sum::<f64>() / 10.0;
    let spread = numbers.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 9.0;
    Ok(format!("{mean:.3} +- {:.3}", spread.sqrt()))
}

fn share_of_reno(outcome: &Outcome) -> f64 {
    outcome.groups[1].throughput_bps / 20e6
}

fn drop_rate(outcome: &Outcome) -> f64 {
    let link = &outcome.links[0];
    link.dropped as f64 / link.arrived as f64
}

fn sent_over_needed(outcome: &Outcome) -> f64 {
    outcome.groups[0].packets_sent as f64 / (outcome.groups[0].flows as f64 * 43.0)
}

fn main() -> Result<(), Box<dyn Error>> {
    let own = windward_stacks::all();
    let variants = [
        ("port", AsRfc::default()),
        ("port-bounded-target", AsRfc { bounded_target: true, ..AsRfc::default() }),
        ("port-keeps-remainder", AsRfc { keeps_remainder: true, ..AsRfc::default() }),
        ("port-k-from-window", AsRfc { k_from_window: true, ..AsRfc::default() }),
        ("port-est-by-acks", AsRfc { est_by_acks: true, ..AsRfc::default() }),
        ("port-est-reno-alpha", AsRfc { est_by_acks: true, reno_alpha: true, ..AsRfc::default() }),
        ("port-as-rfc", AsRfc::ALL),
    ];
    let mut stacks: Vec<Arc<dyn Stack>> = own.iter().cloned().collect();
    for (name, as_rfc) in variants {
        let controller: &'static QuinnCubic = Box::leak(Box::new(QuinnCubic { name, as_rfc }));
        stacks.push(with_controller(
            Host::Quinn,
            name,
            ControllerConfig::Custom(Custom(controller)),
        )?);
    }
    for (name, of) in [
        ("quinn:cubic-spread", "quinn:cubic"),
        ("quinn:windward-cubic-spread", "quinn:windward-cubic"),
        ("quinn:port-as-rfc-spread", "quinn:port-as-rfc"),
        ("quinn:newreno-spread", "quinn:newreno"),
    ] {
        let of = stacks.iter().find(|stack| stack.facts().name == of).ok_or("no such stack")?;
        let facts = Facts { name, ..of.facts().clone() };
        stacks.push(Arc::new(Spread { of: Arc::clone(of), facts }));
    }
    let foreign: Vec<String> = stacks
        .iter()
        .map(|stack| stack.facts().name.to_owned())
        .filter(|name| {
            name.contains("port")
                || name.contains("spread")
                || [
                    "quinn:cubic",
                    "quinn:newreno",
                    "quinn:windward-cubic",
                    "quinn:reno",
                    "noq:cubic",
                    "noq:s2n-cubic",
                ]
                .contains(&&name[..])
        })
        .collect();
    let stacks = Stacks::from_iter(stacks);
    let names = ["cubic", "newreno"].map(str::to_owned).into_iter().chain(foreign);
    println!(
        "| | newreno's share beside it | dropped at 32 kbit/s | sent over needed, 40 at once | alone |"
    );
    println!("|---|---|---|---|---|");
    for name in names {
        let flow = ("flows.flow.protocol", name.as_str());
        let share = measure(FRIENDLY, &stacks, &[flow], share_of_reno)?;
        let slow = measure(SLOW, &stacks, &[flow], drop_rate)?;
        let many = measure(INCAST, &stacks, &[flow], sent_over_needed)?;
        let one = measure(INCAST, &stacks, &[flow, ("flows.flow.count", "1")], sent_over_needed)?;
        println!("| `{name}` | {share} | {slow} | {many} | {one} |");
    }
    Ok(())
}
