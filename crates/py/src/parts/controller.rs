//! A congestion controller in Python.

use pyo3::prelude::*;
use windward_core::endpoint::event::{AckEvent, CongestionEvent, Path, ResetEvent};
use windward_core::endpoint::window::{Controller, ControllerSetup, MakeController};

use super::{Ack, Congestion, Maker, Method, Reset, events};

/// Valid answers of each method.
const NEEDED: &str = "expected a window in packets, at least 1";

#[derive(Debug)]
struct PythonController {
    cwnd: f64,
    object: Option<Py<PyAny>>,
    on_ack: Option<Method>,
    on_congestion: Option<Method>,
    on_reset: Option<Method>,
    on_error_loss: Option<Method>,
}

impl MakeController for Maker {
    fn make(&self, mut setup: ControllerSetup<'_>) -> Box<dyn Controller> {
        let initial_window = setup.endpoint.initial_window;
        let setup = events::ControllerSetup {
            initial_window,
            rwnd: setup.endpoint.rwnd,
            // A uniform number has 53 bits.
            seed: (setup.stream.uniform() * (1_u64 << 53) as f64) as u64,
        };
        let object = self.object(setup);
        let method = |name| {
            let object = object.as_ref()?;
            Python::attach(|py| Method::of(object.bind(py), self.name, name))
        };
        Box::new(PythonController {
            cwnd: initial_window,
            on_ack: method("on_ack"),
            on_congestion: method("on_congestion"),
            on_reset: method("on_reset"),
            on_error_loss: method("on_error_loss"),
            object,
        })
    }
}

/// Calls a method with an event, if it exists; its answer is the window.
macro_rules! tell {
    ($controller:ident . $method:ident, $now:expr, $event:ident as $class:ty) => {
        if let Some(method) = &$controller.$method {
            let event = <$class>::from($event);
            let read = |answer: &Bound<'_, PyAny>| method.number(answer, f64::INFINITY, NEEDED);
            let answer = method.call($now, |py| Ok((Bound::new(py, event)?.unbind(),)), read);
            $controller.cwnd = answer.unwrap_or($controller.cwnd);
            true
        } else {
            false
        }
    };
}

impl Controller for PythonController {
    fn cwnd(&self) -> f64 {
        self.cwnd
    }
    fn ssthresh(&self) -> f64 {
        let read = |object: &Py<PyAny>| {
            Python::attach(|py| object.bind(py).getattr("ssthresh")?.extract::<f64>())
        };
        self.object.as_ref().and_then(|object| read(object).ok()).unwrap_or(f64::INFINITY)
    }
    fn on_ack(&mut self, ack: &AckEvent) {
        tell!(self.on_ack, ack.path.now, ack as Ack);
    }
    fn on_congestion(&mut self, event: &CongestionEvent) {
        let told = tell!(self.on_congestion, event.path.now, event as Congestion);
        if !told {
            // As Reno does.
            self.cwnd = (event.path.in_flight * event.kept(0.5)).max(2.0);
        }
    }
    fn on_error_loss(&mut self, path: &Path) {
        tell!(self.on_error_loss, path.now, path as events::Path);
    }
    fn on_reset(&mut self, event: &ResetEvent) {
        let told = tell!(self.on_reset, event.path.now, event as Reset);
        if !told {
            self.cwnd = event.window_after(self.cwnd);
        }
    }
}
