//! A congestion controller, a loss discriminator and an AQM of a crate outside Windward, composed
//! with parts of Windward and compared with them:
//!
//! ```sh
//! cargo run --release -p windward-example-custom-parts
//! ```
//!
//! The controller is AIMD with parameters of its own. The discriminator takes a loss for congestion
//! if the RTT at that moment is far above the smallest one. The AQM drops arrivals while the queue
//! would take longer than a target to drain.

use std::error::Error;
use std::sync::Arc;

use windward_core::endpoint::discrimination::{
    self, Discriminator, DiscriminatorConfig, MakeDiscriminator,
};
use windward_core::endpoint::event::{AckEvent, CongestionEvent, LossEvent, ResetEvent};
use windward_core::endpoint::window::{self, Controller, ControllerConfig, MakeController};
use windward_core::network::AqmConfig;
use windward_core::network::aqm::{Aqm, Backlog, MakeAqm, QueueAction, QueueSetup};
use windward_core::packet::Packet;
use windward_core::part::{Custom, CustomPart, Words};
use windward_core::protocols::{self, Protocol};
use windward_core::units::{Duration, Probability, Rate, Time};
use windward_sim::scenario::Traffic;
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::{Outcome, Scenario, run};

// --- a congestion controller
// -----------------------------------------------------------------------------

/// Maker of AIMD controllers that add `increase` packets per round trip and reduce the window to
/// the share `decrease`.
struct Aimd {
    increase: f64,
    decrease: f64,
}

#[derive(Debug)]
struct AimdState {
    increase: f64,
    decrease: f64,
    cwnd: f64,
    ssthresh: f64,
}

impl CustomPart for Aimd {
    fn words(&self) -> Words {
        Words {
            name: "aimd",
            what: "adds packets per round trip and reduces its window to a share",
            source: "this example",
        }
    }
}

impl MakeController for Aimd {
    fn make(&self, setup: window::ControllerSetup<'_>) -> Box<dyn Controller> {
        let Aimd { increase, decrease } = *self;
        let cwnd = setup.endpoint.initial_window;
        Box::new(AimdState { increase, decrease, cwnd, ssthresh: f64::INFINITY })
    }
}

impl Controller for AimdState {
    fn cwnd(&self) -> f64 {
        self.cwnd
    }
    fn ssthresh(&self) -> f64 {
        self.ssthresh
    }
    fn on_ack(&mut self, ack: &AckEvent) {
        if ack.allows_growth() {
            let slow_start = self.cwnd < self.ssthresh;
            self.cwnd += if slow_start { ack.growth } else { self.increase / self.cwnd };
        }
    }
    fn on_congestion(&mut self, event: &CongestionEvent) {
        // The decrease is scaled by the probability of congestion.
        self.cwnd = (event.path.in_flight * event.kept(self.decrease)).max(2.0);
        self.ssthresh = self.cwnd;
    }
    fn on_reset(&mut self, event: &ResetEvent) {
        if !event.repeated {
            self.ssthresh = (event.path.in_flight * event.kept(self.decrease)).max(2.0);
        }
        self.cwnd = event.window_after(self.cwnd);
    }
}

// --- a discriminator --------------------------------------------------------------------------

/// A loss is congestion if the RTT is more than `factor` times the smallest.
#[derive(Debug, Clone, Copy)]
struct LongRtt {
    factor: f64,
}

impl CustomPart for LongRtt {
    fn words(&self) -> Words {
        Words {
            name: "long-rtt",
            what: "a loss is congestion if the RTT is far above the smallest",
            source: "this example",
        }
    }
}

impl MakeDiscriminator for LongRtt {
    fn make(&self, _: discrimination::DiscriminatorSetup<'_>) -> Box<dyn Discriminator> {
        Box::new(*self)
    }
}

impl Discriminator for LongRtt {
    fn judge(&mut self, loss: &LossEvent) -> Probability {
        self.opinion(loss)
    }
    fn opinion(&self, loss: &LossEvent) -> Probability {
        let bound = loss.path.min_rtt.mul_f64(self.factor);
        if loss.path.rtt > bound { Probability::ONE } else { Probability::ZERO }
    }
}

// --- an AQM -----------------------------------------------------------------------

/// Drops arrivals while the queue would take longer than this to drain.
#[derive(Debug, Clone, Copy)]
struct DrainTime {
    target: Duration,
}

#[derive(Debug)]
struct DrainTimeState {
    target: Duration,
    wire: Rate,
}

impl CustomPart for DrainTime {
    fn words(&self) -> Words {
        Words {
            name: "drain-time",
            what: "drops arrivals while the queue takes too long to drain",
            source: "this example",
        }
    }
}

impl MakeAqm for DrainTime {
    fn make(&self, place: &QueueSetup<'_>) -> Box<dyn Aqm + Send + Sync> {
        Box::new(DrainTimeState { target: self.target, wire: place.share })
    }
    fn acts_on_departure(&self) -> bool {
        false // It decides on arrivals alone, so that packets need not be held.
    }
}

impl Aqm for DrainTimeState {
    fn on_enqueue(&mut self, _: Time, queue: &Backlog<'_>, _: &Packet) -> QueueAction {
        let drain = queue.bytes as f64 / self.wire.bytes_per_s();
        if drain > self.target.as_secs_f64() { QueueAction::Drop } else { QueueAction::Pass }
    }
}

// --- all three in a scenario ------------------------------------------------------------------

/// Parts of other crates live as long as the program.
static CONTROLLER: Aimd = Aimd { increase: 1.0, decrease: 0.5 };
static DISCRIMINATOR: LongRtt = LongRtt { factor: 1.1 };
static QUEUE: DrainTime = DrainTime { target: Duration::from_millis(25) };

const SCENARIO: &str = include_str!("../../../experiments/examples/first.toml");

fn with_custom_parts(mut scenario: Scenario) -> Scenario {
    let protocol = Arc::new(Protocol {
        name: "aimd-long-rtt",
        source: "this example",
        summary: "AIMD that takes losses at a short RTT for corruption.",
        window: ControllerConfig::Custom(Custom(&CONTROLLER)),
        discrimination: DiscriminatorConfig::Custom(Custom(&DISCRIMINATOR)),
        ..*protocols::plain()
    });
    for flow in &mut scenario.flows {
        if let Traffic::Transport { protocol: of_flow, .. } =
            &mut Arc::make_mut(&mut flow.kind).traffic
        {
            *of_flow = Arc::clone(&protocol);
        }
    }
    for link in scenario.links.iter_mut().filter(|link| link.name == "bottleneck") {
        Arc::make_mut(&mut link.kind).queue.aqm = AqmConfig::Custom(Custom(&QUEUE));
    }
    scenario
}

fn report(title: &str, outcome: &Outcome) {
    println!("{title}");
    for group in &outcome.groups {
        println!("  {:<6} {:5.2} Mbit/s", group.name, group.goodput_bps / 1e6);
    }
    for link in outcome.links.iter().filter(|link| link.name == "bottleneck") {
        println!("  queue  {:5.1} packets, {} dropped", link.mean_queue_packets, link.dropped);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let scenario = ScenarioFile::parse("first.toml", SCENARIO)?.build()?;
    report("newreno over DropTail", &run(&scenario));
    let custom = with_custom_parts(scenario);
    custom.validate()?;
    report("aimd-long-rtt over drain-time", &run(&custom));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario() -> Scenario {
        let file = ScenarioFile::parse("first.toml", SCENARIO).unwrap();
        file.build().unwrap()
    }

    #[test]
    fn parts_from_outside_do_what_they_say() {
        let plain = run(&scenario());
        let custom = run(&with_custom_parts(scenario()));
        // Losses at a short RTT cost nothing: the lossy flows get more than before.
        let lossy = |outcome: &Outcome| outcome.groups[1].goodput_bps;
        assert!(lossy(&custom) > 1.3 * lossy(&plain), "{} {}", lossy(&custom), lossy(&plain));
        // 25 ms at 5 Mbit/s are 15.6 packets of 1000 bytes: no more than 16 wait.
        let queue = |outcome: &Outcome| {
            outcome.links.iter().find(|link| link.name == "bottleneck").unwrap().max_queue_packets
        };
        assert!(queue(&custom) <= 17, "{}", queue(&custom));
        assert!(queue(&plain) > 40, "{}", queue(&plain));
        assert_eq!(custom.flows[0].protocol, "aimd-long-rtt");
    }

    /// Gives these windows, one per acknowledgment.
    #[derive(Debug)]
    struct MadState {
        answers: &'static [f64],
        acks: usize,
    }
    impl Controller for MadState {
        fn cwnd(&self) -> f64 {
            self.answers[self.acks % self.answers.len()]
        }
        fn pacing_rate(&self) -> Option<f64> {
            Some(f64::NAN)
        }
        fn on_ack(&mut self, _: &AckEvent) {
            self.acks += 1;
        }
        fn on_congestion(&mut self, _: &CongestionEvent) {}
        fn on_reset(&mut self, _: &ResetEvent) {}
    }
    struct Maker(&'static [f64]);
    impl CustomPart for Maker {
        fn words(&self) -> Words {
            Words { name: "mad", what: "returns invalid windows", source: "this test" }
        }
    }
    impl MakeController for Maker {
        fn make(&self, _: window::ControllerSetup<'_>) -> Box<dyn Controller> {
            Box::new(MadState { answers: self.0, acks: 0 })
        }
        fn paces(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_law_that_answers_nonsense_is_bounded_and_counted() {
        static NAN: Maker = Maker(&[f64::NAN]);
        static ZERO: Maker = Maker(&[0.0, -3.0]);
        static HUGE: Maker = Maker(&[1e300, f64::INFINITY]);
        static MIXED: Maker = Maker(&[10.0, f64::NAN, 1e300, 0.0]);
        for maker in [&NAN, &ZERO, &HUGE, &MIXED] {
            let mut scenario = scenario();
            scenario.duration = Duration::from_secs(3);
            scenario.warmup = Duration::from_secs(1);
            let controller = ControllerConfig::Custom(Custom(maker));
            for flow in &mut scenario.flows {
                let Traffic::Transport { protocol, config, .. } =
                    &mut Arc::make_mut(&mut flow.kind).traffic
                else {
                    panic!("connections only")
                };
                *protocol = Arc::new(Protocol { window: controller, ..*protocols::plain() });
                // An infinite window is limited by the receiver window.
                let bounded = windward_core::endpoint::EndpointConfig { rwnd: 100, ..**config };
                *config = Arc::new(bounded);
            }
            scenario.validate().unwrap();
            let outcome = run(&scenario);
            assert!(outcome.flows.iter().all(|flow| flow.refused_windows > Some(0)));
            assert!(outcome.flows.iter().all(|flow| flow.mean_cwnd_packets.unwrap().is_finite()));
            assert!(outcome.flows.iter().all(|flow| flow.packets_sent > 0));
        }
    }
}
