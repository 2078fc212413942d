//! Congestion controllers of another crate in stacks, faulty ones among them.

use std::sync::Arc;

use crate::common::PATH;
use windward_core::endpoint::event::{AckEvent, CongestionEvent, ResetEvent};
use windward_core::endpoint::window::{
    self, Controller, ControllerConfig, FixedConfig, MakeController,
};
use windward_core::part::{Custom, CustomPart, Words};
use windward_sim::Outcome;
use windward_sim::stack::{Stack, Stacks};
use windward_stacks::{Host, with_controller};

/// Largest goodput at 10 Mbit/s: of 1500 bytes 28 are headers of IP and UDP, 16 a tag, and at least
/// 13 those of a QUIC packet and a STREAM frame (RFC 9000 sections 17.3.1 and 19.8).
const MOST: f64 = 1e7 * (1500.0 - 28.0 - 16.0 - 13.0) / 1500.0;

/// Windows, one for each acknowledgment; `None` is a panic.
#[derive(Debug, Clone, Copy)]
struct Says {
    windows: &'static [Option<f64>],
    acks: usize,
}

impl Controller for Says {
    fn cwnd(&self) -> f64 {
        self.windows[self.acks % self.windows.len()].expect("no window at all")
    }
    fn on_ack(&mut self, _: &AckEvent) {
        self.acks += 1;
    }
    fn on_congestion(&mut self, _: &CongestionEvent) {}
    fn on_reset(&mut self, _: &ResetEvent) {}
}

struct Maker(&'static [Option<f64>]);

impl CustomPart for Maker {
    fn words(&self) -> Words {
        Words { name: "says", what: "says what it is told to", source: "this test" }
    }
}

impl MakeController for Maker {
    fn make(&self, _: window::ControllerSetup<'_>) -> Box<dyn Controller> {
        Box::new(Says { windows: self.0, acks: 0 })
    }
}

const HOSTS: [(Host, &str); 2] = [(Host::Quinn, "quinn:says"), (Host::Noq, "noq:says")];

fn run(host: Host, name: &str, controller: &'static Maker, changes: &[(&str, &str)]) -> Outcome {
    let controller = ControllerConfig::Custom(Custom(controller));
    let stack: Arc<dyn Stack> = with_controller(host, "says", controller).unwrap();
    let changes = [&[("flows.bulk.protocol", name), ("duration", "5s")], changes].concat();
    crate::common::run(PATH, &Stacks::from_iter([stack]), &changes)
}

#[test]
fn a_law_of_another_crate_runs_in_a_stack() {
    static WINDOW: Maker = Maker(&[Some(40.0)]);
    for (host, name) in HOSTS {
        let outcome = run(host, name, &WINDOW, &[("duration", "30s"), ("warmup", "5s")]);
        let flow = &outcome.flows[0];
        assert_eq!((flow.protocol.as_ref(), flow.failure.as_deref()), (name, None));
        // 40 packets a round trip of 80 ms, and 1.2 ms on the wire: 5.9 Mbit/s on the wire.
        let expected = 40.0 * 12_000.0 / 0.0812;
        assert!((flow.throughput_bps / expected - 1.0).abs() < 0.1, "{name}: {flow:?}");
        assert!((flow.mean_cwnd_packets.unwrap() - 40.0).abs() < 0.1, "{name}: {flow:?}");
        assert_eq!((flow.refused_windows, flow.retransmissions), (Some(0), Some(0)));
    }
}

#[test]
fn windows_that_are_none_are_bounded_and_counted() {
    static NAN: Maker = Maker(&[Some(f64::NAN)]);
    static ZERO: Maker = Maker(&[Some(0.0), Some(-3.0)]);
    static HUGE: Maker = Maker(&[Some(9_223_372_036_854_775_808.0), Some(f64::INFINITY)]);
    static MIXED: Maker = Maker(&[Some(10.0), Some(f64::NAN), Some(1e300), Some(0.0)]);
    for (host, name) in HOSTS {
        for controller in [&NAN, &ZERO, &MIXED] {
            // An infinite window is limited by the receiver window.
            let flow = &run(host, name, controller, &[("flows.bulk.rwnd", "200")]).flows[0];
            assert_eq!(flow.failure, None, "{name}");
            assert!(flow.refused_windows > Some(0), "{name}");
            assert!(flow.packets_sent > 50 && flow.goodput_bps < MOST, "{name}: {flow:?}");
        }
        // With at least two packets it continues: 25 kB per round trip.
        let small = &run(host, name, &ZERO, &[]).flows[0];
        assert!((0.9..2.1).contains(&small.mean_cwnd_packets.unwrap()), "{name}: {small:?}");
        let flood = run(host, name, &HUGE, &[("flows.bulk.rwnd", "200")]);
        assert!(flood.flows[0].refused_windows > Some(0), "{name}");
        assert!(flood.flows[0].goodput_bps > 0.5 * MOST, "{name}: {:?}", flood.flows[0]);
    }
}

#[test]
fn a_law_that_panics_ends_its_connection_and_not_the_run() {
    static AT_ONCE: Maker = Maker(&[None]);
    static LATER: Maker = Maker(&[Some(20.0), Some(20.0), Some(20.0), None]);
    let two =
        format!("{PATH}\n[[flows]]\ngroup = 'other'\nprotocol = 'newreno'\npacket_size = 1500\n");
    for (host, name) in HOSTS {
        for controller in [&AT_ONCE, &LATER] {
            let stack = with_controller(host, "says", ControllerConfig::Custom(Custom(controller)))
                .unwrap();
            let changes = [("flows.bulk.protocol", name), ("duration", "5s")];
            let outcome = crate::common::run(&two, &Stacks::from_iter([stack]), &changes);
            let failure = outcome.flows[0].failure.as_deref().unwrap();
            assert_eq!(failure, format!("{name} panicked: no window at all"));
            assert!(outcome.flows[1].goodput_bps > 5e6, "the other goes on");
        }
        // Each transfer that arrives at random has a connection of its own.
        let arrivals = "{ rate = 5, sizes = '100kB' }";
        let outcome = run(host, name, &LATER, &[("flows.bulk.arrivals", arrivals)]);
        assert!(outcome.transfers.len() > 5);
        assert!(outcome.transfers.iter().all(|t| t.completed.is_none() && t.packets_sent > 0));
        assert!(outcome.flows[0].failure.as_deref().unwrap().contains("panicked"));
    }
}

#[test]
fn laws_that_cannot_be_are_refused_with_the_reason() {
    let error = |name, controller| with_controller(Host::Quinn, name, controller).unwrap_err();
    let fixed = ControllerConfig::Fixed(FixedConfig { window: 20.0 });
    assert!(error("cubic", fixed).contains("already a stack quinn:cubic"));
    assert!(error("", fixed).contains("cannot be named"));
    assert!(error("a:b", fixed).contains("cannot be named"));
    let row = |name: &str| windward_core::protocols::find(name).unwrap().window;
    assert!(error("mine", row("xcp")).contains("it needs the feedback of XCP routers"));
    assert!(error("mine", row("dctcp")).contains("an echo of each ECN mark"));
    for host in [Host::Quinn, Host::Noq] {
        assert!(with_controller(host, "mine", row("copa")).is_ok());
    }
}
