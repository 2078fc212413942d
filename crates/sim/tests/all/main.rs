//! Whole runs, as users of the crate make them. One program, so that it is linked once.

mod cells;
mod corruption;
mod impairments;
mod media;
mod misbehaviour;
mod parallel;
mod prague;
mod queues;
mod stacks;
mod traffic;
mod upwind;
mod wlan;

use windward_sim::scenario::file::ScenarioFile;
use windward_sim::{LinkOutcome, Outcome, Scenario, Simulation};

/// The scenario of a text, with other values of some keys.
#[track_caller]
fn changed(text: &str, changes: &[(&str, &str)]) -> Scenario {
    let mut file = ScenarioFile::parse("test.toml", text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    for (key, value) in changes {
        file.set(key, value).unwrap_or_else(|error| panic!("{error}"));
    }
    file.build().unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[track_caller]
fn build(text: &str) -> Scenario {
    changed(text, &[])
}

/// The error of a scenario with wrong values.
#[track_caller]
fn error(text: &str) -> String {
    let file = ScenarioFile::parse("test.toml", text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    file.build().map(|_| ()).expect_err(text).to_string()
}

/// The same outcome, whose links have accounted for each packet.
#[track_caller]
fn balanced(outcome: Outcome) -> Outcome {
    for link in &outcome.links {
        let LinkOutcome { arrived, delivered, dropped, corrupted, in_flight, .. } = *link;
        assert_eq!(arrived, delivered + dropped + corrupted + in_flight, "{link:?}");
    }
    outcome
}

/// The link called `wire`.
fn wire(outcome: &Outcome) -> &LinkOutcome {
    outcome.links.iter().find(|link| link.name == "wire").unwrap()
}

/// The outcome of a scenario, after a check that simulations that leave out fewer events, and are
/// advanced in steps, have the same.
#[track_caller]
fn alike_in_all_ways(what: &str, scenario: &Scenario) -> Outcome {
    let fast = windward_sim::run(scenario);
    for mut other in [Simulation::traced(scenario), Simulation::changeable(scenario)] {
        for step in 0..300 {
            let time = windward_core::units::Duration::from_micros(70_001 * step);
            other.advance(windward_core::units::Time::ZERO + time);
        }
        let other = other.finish();
        assert_eq!(other.fingerprint, fast.fingerprint, "{what}");
        assert_eq!((&other.flows, &other.transfers), (&fast.flows, &fast.transfers), "{what}");
    }
    fast
}
