//! A window that the program outside sets: what environments for learning agents are made of.
//!
//! No Python is called at an acknowledgment, so that simulations go side by side in threads.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use windward_core::endpoint::event::{AckEvent, CongestionEvent, Path, ResetEvent};
use windward_core::endpoint::window::{Controller, ControllerSetup, MakeController};
use windward_core::part::{CustomPart, Words};

/// As a congestion controller of ``Scenario.with_parts``: the window is what ``Simulation.steer`` says, and
/// neither losses nor timeouts change it.
#[pyclass(frozen, module = "windward")]
#[derive(Debug)]
pub(crate) struct Steered;

/// Events of a connection since the last look.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Heard {
    /// Packets shown to have arrived, in order or not where ACKs have SACK blocks.
    pub(crate) delivered: u64,
    /// Packets that recovery found lost.
    pub(crate) lost: u64,
    /// Losses and marks that mean congestion, once a window at most.
    pub(crate) congestions: u64,
    /// Restarts of the connection: timeouts.
    pub(crate) resets: u64,
    /// RTT samples, one an acknowledgment, and their sum in seconds.
    pub(crate) samples: u64,
    pub(crate) rtt_sum: f64,
    /// The smallest RTT of the connection, seconds; zero before the first.
    pub(crate) min_rtt: f64,
}

#[derive(Debug)]
struct State {
    cwnd: f64,
    heard: Heard,
}

/// The two ends of a steered window.
#[derive(Debug, Clone)]
pub(crate) struct Helm(Arc<Mutex<State>>);

impl Helm {
    fn state(&self) -> MutexGuard<'_, State> {
        // A number is never half written.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, cwnd: f64) {
        self.state().cwnd = cwnd;
    }

    /// Takes the events since the last call.
    pub(crate) fn heard(&self) -> Heard {
        let mut state = self.state();
        let heard = state.heard;
        state.heard = Heard { min_rtt: heard.min_rtt, ..Heard::default() };
        heard
    }
}

thread_local! {
    /// Those of the simulation that is being made, in the order of its flows.
    static MADE: RefCell<Vec<Helm>> = const { RefCell::new(Vec::new()) };
}

/// The helms of a simulation that `make` makes.
pub(crate) fn helms<T>(make: impl FnOnce() -> T) -> (T, Vec<Helm>) {
    MADE.with(|made| made.borrow_mut().clear());
    let simulation = make();
    (simulation, MADE.with(RefCell::take))
}

/// The maker of all steered windows.
#[derive(Debug)]
pub(crate) struct SteeredController;

pub(crate) static STEERED: SteeredController = SteeredController;

impl SteeredController {
    pub(crate) const NAME: &'static str = "steered";
}

impl CustomPart for SteeredController {
    fn words(&self) -> Words {
        Words {
            name: SteeredController::NAME,
            what: "the window is set from outside",
            source: "Python",
        }
    }
}

impl MakeController for SteeredController {
    fn make(&self, setup: ControllerSetup<'_>) -> Box<dyn Controller> {
        let cwnd = setup.endpoint.initial_window;
        let helm = Helm(Arc::new(Mutex::new(State { cwnd, heard: Heard::default() })));
        MADE.with(|made| made.borrow_mut().push(helm.clone()));
        Box::new(helm)
    }
}

impl Controller for Helm {
    fn cwnd(&self) -> f64 {
        self.state().cwnd
    }
    fn on_ack(&mut self, ack: &AckEvent) {
        let heard = &mut self.state().heard;
        heard.delivered += ack.delivered;
        heard.lost += ack.lost;
        if !ack.path.rtt.is_zero() {
            heard.samples += 1;
            heard.rtt_sum += ack.path.rtt.as_secs_f64();
            heard.min_rtt = ack.path.min_rtt.as_secs_f64();
        }
    }
    fn on_congestion(&mut self, _: &CongestionEvent) {
        self.state().heard.congestions += 1;
    }
    fn on_error_loss(&mut self, _: &Path) {}
    fn on_reset(&mut self, _: &ResetEvent) {
        self.state().heard.resets += 1;
    }
}
