//! A window that the calling program sets, for environments of learning agents.
//!
//! No Python is called at an acknowledgment, so that simulations run in parallel threads.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use windward_core::endpoint::event::{AckEvent, CongestionEvent, Path, ResetEvent};
use windward_core::endpoint::window::{Controller, ControllerSetup, MakeController};
use windward_core::part::{CustomPart, Words};

/// Congestion controller for ``Scenario.with_parts``: ``Simulation.steer`` sets the window, and the
/// pacing rate of a connection with ``pacing = true``; losses and timeouts do not change them.
#[pyclass(frozen, module = "windward")]
#[derive(Debug)]
pub(crate) struct Steered;

/// Events of a connection since the last call.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Heard {
    /// Packets reported as arrived; with SACK blocks also those out of order.
    pub(crate) delivered: u64,
    /// Packets that recovery declared lost.
    pub(crate) lost: u64,
    /// Losses and marks that mean congestion, at most one per window.
    pub(crate) congestions: u64,
    /// Restarts of the connection: timeouts.
    pub(crate) resets: u64,
    /// Number of RTT samples, one per acknowledgment, and their sum in seconds.
    pub(crate) samples: u64,
    pub(crate) rtt_sum: f64,
    /// The smallest RTT of the connection, seconds; zero before the first.
    pub(crate) min_rtt: f64,
}

#[derive(Debug)]
struct State {
    cwnd: f64,
    /// Packets per second.
    pacing_rate: Option<f64>,
    heard: Heard,
}

/// The two ends of a steered window.
#[derive(Debug, Clone)]
pub(crate) struct Helm(Arc<Mutex<State>>);

impl Helm {
    fn state(&self) -> MutexGuard<'_, State> {
        // Atomic, so that a number is never read half written.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the window, packets, and the pacing rate, packets per second: without one the sender
    /// paces by the window.
    pub(crate) fn set(&self, cwnd: f64, pacing_rate: Option<f64>) {
        let mut state = self.state();
        (state.cwnd, state.pacing_rate) = (cwnd, pacing_rate);
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
    /// Helms of the simulation under construction, in the order of its flows.
    static MADE: RefCell<Vec<Helm>> = const { RefCell::new(Vec::new()) };
}

/// A simulation made by `make`, and its helms.
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
            what: "the window is set by the calling program",
            source: "Python",
        }
    }
}

impl MakeController for SteeredController {
    fn make(&self, setup: ControllerSetup<'_>) -> Box<dyn Controller> {
        let cwnd = setup.endpoint.initial_window;
        let helm =
            Helm(Arc::new(Mutex::new(State { cwnd, pacing_rate: None, heard: Heard::default() })));
        MADE.with(|made| made.borrow_mut().push(helm.clone()));
        Box::new(helm)
    }
}

impl Controller for Helm {
    fn cwnd(&self) -> f64 {
        self.state().cwnd
    }
    fn pacing_rate(&self) -> Option<f64> {
        self.state().pacing_rate
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
