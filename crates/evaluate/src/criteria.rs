//! The criteria: small scenarios, what is measured in them, and the bounds that standards set.

use std::sync::{Arc, Mutex, PoisonError};

use windward_core::endpoint::recovery::RecoveryConfig;
use windward_core::part::Plain;

use windward_core::protocols::Protocol;
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::scenario::{FlowKind, Traffic};
use windward_sim::{Outcome, Scenario};

use crate::Verdict;
use crate::guard::{Trouble, Watch};

/// One thing that RFC 9743 asks, and how it is measured here.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Criterion {
    /// Its name for [`Builder::only`](crate::Builder::only).
    pub id: &'static str,
    /// The section of RFC 9743.
    pub section: &'static str,
    /// What it asks, a sentence.
    pub asks: &'static str,
    /// What is measured, with its unit.
    pub measures: &'static str,
    /// Must it be at least the bound, and not at most?
    pub at_least: bool,
    /// Beyond the worst of the standards this much is allowed, for what one short run is off from the
    /// next: what differs by less is the same.
    pub margin: f64,
    place: Place,
}

/// Where it is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Place {
    /// Flows of the controller, and of each standard beside them.
    flows: u32,
    beside: u32,
    /// Packets that the bottleneck's queue holds.
    queue: u32,
    /// Share of packets destroyed on the way.
    loss: f64,
    measure: Measure,
}

/// The bottleneck: 10 Mbit/s and packets of 1500 bytes over an RTT of 40 ms hold 33 packets.
const BOTTLENECK: &str = "link";
const RATE: f64 = 10e6;
/// Four times as many packets.
const DEEP: u32 = 133;
/// What an honest sender may ask for, in calls per packet that the bottleneck carries: a few for each
/// packet and each ACK, and again where most are lost.
const CALLS: f64 = 40.0;

impl Criterion {
    /// All of them, in the order of the RFC.
    pub fn all() -> Vec<Criterion> {
        let alone =
            Place { flows: 1, beside: 0, queue: 33, loss: 0.0, measure: Measure::Utilization };
        vec![
            Criterion {
                id: "collapse",
                section: "5.1.1",
                asks: "Backs off where most packets are dropped.",
                measures: "packets sent per second at 60 % loss:",
                at_least: false,
                margin: 2.0,
                place: Place { loss: 0.6, measure: Measure::SendingRate, ..alone },
            },
            Criterion {
                id: "bufferbloat",
                section: "5.1.2",
                asks: "Avoids maintaining excessive queues.",
                measures: "mean queue, share of a buffer of 4 BDP:",
                at_least: false,
                margin: 0.05,
                place: Place { queue: DEEP, measure: Measure::Queue, ..alone },
            },
            Criterion {
                id: "high-loss",
                section: "5.1.3",
                asks: "Avoids causing excessively high rates of packet loss.",
                measures: "packets dropped by a buffer of 0.25 BDP, %:",
                at_least: false,
                margin: 0.5,
                place: Place { flows: 2, queue: 8, measure: Measure::Drops, ..alone },
            },
            Criterion {
                id: "fairness",
                section: "5.1.4",
                asks: "Shares a link fairly with itself.",
                measures: "Jain's index of four flows:",
                at_least: true,
                margin: 0.1,
                place: Place { flows: 4, measure: Measure::Jain, ..alone },
            },
            Criterion {
                id: "harm",
                section: "5.2.1",
                asks: "Harms standard controllers no more than they harm each other.",
                measures: "share left to the standard beside it that gets least:",
                at_least: true,
                margin: 0.3,
                place: Place { beside: 1, measure: Measure::LeftToOthers, ..alone },
            },
            Criterion {
                id: "wired",
                section: "6.3",
                asks: "Works on wired paths: hardly a loss but in queues, steady capacity.",
                measures: "share of the link that it uses:",
                at_least: true,
                margin: 0.1,
                place: alone,
            },
        ]
    }

    /// The scenario, with NewReno in every part: 12 s, of which the first two do not count.
    fn text(&self) -> String {
        let Place { flows, beside, queue, loss, .. } = self.place;
        let mut text = format!(
            r#"
duration = "12s"
warmup = "2s"
[[links]]
name = "{BOTTLENECK}"
from = "sender"
to = "receiver"
rate = "10Mbit"
delay = "20ms"
queue = "{queue}p"
loss = {loss}
[endpoint]
packet_size = 1500
initial_window = 10
clock_granularity = "1ms"
overhead = "1200us"
[[flows]]
group = "subject"
protocol = "newreno"
from = "sender"
to = "receiver"
start = ["0s", "500ms"]
count = {flows}
"#
        );
        if beside > 0 {
            text += &format!(
                "[[flows]]\ngroup = \"beside\"\nprotocol = \"newreno\"\nfrom = \"sender\"\n\
                 to = \"receiver\"\nstart = [\"0s\", \"500ms\"]\ncount = {beside}\n"
            );
        }
        text
    }
}

impl Criterion {
    fn scenario(&self) -> Result<Scenario, String> {
        let file = ScenarioFile::parse(self.id, &self.text());
        file.and_then(|file| file.build()).map_err(|error| error.to_string())
    }
}

/// What is measured. The bottleneck is the first link.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Measure {
    /// Packets per second.
    SendingRate,
    /// The mean, a share of the deep buffer.
    Queue,
    /// Percent of the packets that arrive at the queue.
    Drops,
    Jain,
    /// What the group beside has, of the half of the link that is its own.
    LeftToOthers,
    Utilization,
}

impl Measure {
    fn of(self, outcome: &Outcome) -> f64 {
        let link = &outcome.links[0];
        match self {
            Measure::SendingRate => {
                let sent: u64 = outcome.flows.iter().map(|flow| flow.packets_sent).sum();
                let counted = outcome.duration.as_secs_f64() - outcome.warmup.as_secs_f64();
                sent as f64 / counted
            }
            Measure::Queue => link.mean_queue_packets / f64::from(DEEP),
            Measure::Drops => 100.0 * link.dropped as f64 / link.arrived.max(1) as f64,
            Measure::Jain => outcome.jain,
            Measure::LeftToOthers => {
                let others = outcome.flows.iter().filter(|flow| flow.group == 1);
                others.map(|flow| flow.goodput_bps).sum::<f64>() / (RATE / 2.0)
            }
            Measure::Utilization => link.utilization,
        }
    }
}

/// Who is judged, by what, how often.
pub(crate) struct Bench<'a> {
    pub(crate) subject: Protocol,
    pub(crate) standards: Vec<Protocol>,
    pub(crate) seeds: u64,
    pub(crate) watch: &'a Watch,
    pub(crate) found: Mutex<Vec<Trouble>>,
}

impl Bench<'_> {
    /// What was found wrong beside the criteria, in all runs so far.
    pub(crate) fn troubles(&self) -> Vec<Trouble> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *found)
    }

    /// Notes what the runs since the last look had, once of each kind.
    fn collect(&self, other: Option<Trouble>) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        for trouble in self.watch.take().into_iter().chain(other) {
            if !found.iter().any(|known| known.is_like(&trouble)) {
                found.push(trouble);
            }
        }
    }

    /// The verdicts.
    ///
    /// # Errors
    /// If a standard cannot run on these paths.
    pub(crate) fn run(&self, criteria: Vec<Criterion>) -> Result<Vec<Verdict>, String> {
        let mut verdicts = Vec::new();
        for (index, criterion) in criteria.into_iter().enumerate() {
            let scenario = criterion.scenario()?;
            if index == 0 {
                // First of all: what is kept from one run to the next may settle.
                self.repeat(&criterion, &scenario);
            }
            let value = self.measure(&criterion, &scenario, &self.subject);
            self.collect(None);
            let standards: Vec<(String, f64)> = self
                .standards
                .iter()
                .map(|standard| {
                    (standard.name.to_owned(), self.measure(&criterion, &scenario, standard))
                })
                .collect();
            let of_standards = standards.iter().map(|(_, value)| *value);
            let bound = match criterion.at_least {
                true => of_standards.fold(f64::INFINITY, f64::min) - criterion.margin,
                false => of_standards.fold(f64::NEG_INFINITY, f64::max) + criterion.margin,
            };
            // What is no number meets nothing.
            let met = if criterion.at_least { value >= bound } else { value <= bound };
            verdicts.push(Verdict { criterion, met, value, bound, standards });
        }
        Ok(verdicts)
    }

    /// The mean over the seeds, and where others are beside it the least over these.
    fn measure(&self, criterion: &Criterion, scenario: &Scenario, protocol: &Protocol) -> f64 {
        let beside: &[Protocol] = match criterion.place.beside {
            0 => std::slice::from_ref(protocol),
            _ => &self.standards,
        };
        let mean = |beside: &Protocol| {
            let values = (1..=self.seeds).map(|seed| {
                let outcome = self.simulate(scenario, protocol, beside, seed);
                criterion.place.measure.of(&outcome)
            });
            values.sum::<f64>() / self.seeds as f64
        };
        beside.iter().map(mean).fold(f64::INFINITY, f64::min)
    }

    fn simulate(
        &self,
        scenario: &Scenario,
        protocol: &Protocol,
        beside: &Protocol,
        seed: u64,
    ) -> Outcome {
        let mut scenario = scenario.clone();
        scenario.seed = seed;
        for flow in &mut scenario.flows {
            let mut kind = FlowKind::clone(&flow.kind);
            if let Traffic::Transport { protocol: own, .. } = &mut kind.traffic {
                *own = Arc::new(with_numbers(if flow.group == 0 { protocol } else { beside }));
            }
            flow.kind = Arc::new(kind);
        }
        let packets = RATE / (1500.0 * 8.0) * scenario.duration.as_secs_f64();
        self.watch.begin((packets * CALLS) as u64);
        windward_sim::run(&scenario)
    }

    /// The same twice: does it come out the same?
    fn repeat(&self, criterion: &Criterion, scenario: &Scenario) {
        let run = || self.simulate(scenario, &self.subject, &self.subject, 1).fingerprint;
        let differs = run() != run();
        let place = criterion.id.to_owned();
        self.collect(differs.then_some(Trouble::NotDeterministic { place }));
    }
}

/// The protocol with the recovery of QUIC, which controllers are judged with, so that standards have the
/// same; its own where it needs that.
fn with_numbers(protocol: &Protocol) -> Protocol {
    let numbered = Protocol { recovery: RecoveryConfig::PacketNumber(Plain), ..*protocol };
    if numbered.check().is_ok() { numbered } else { *protocol }
}
