//! A congestion controller in Python.

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::call::PyCallArgs;
use pyo3::exceptions::{PyTypeError, PyUserWarning};
use pyo3::prelude::*;
use windward_core::endpoint::estimator;
use windward_core::endpoint::event::{AckEvent, CongestionEvent, Path, ResetEvent};
use windward_core::endpoint::window::{
    Controller, ControllerSetup, LEAST_RATE, MakeController, is_rate, is_window,
};
use windward_core::packet;
use windward_core::units::Time;
use windward_native::{Call, enter};

use super::header::{self, request};
use super::{
    Ack, Congestion, Instant, LostPacket, Maker, Method, Packet, RateSample, Reset, Trouble,
    events, nanoseconds, report,
};
use crate::error;

/// Valid answers of each method.
const NEEDED: &str = "expected a window in packets, from 1 to 1048576";
const NEEDED_OR_NONE: &str = "expected None or a window in packets, from 1 to 1048576";

#[derive(Debug)]
struct PythonController {
    cwnd: f64,
    /// The window that a default decrease allows, until the class returns no larger one.
    held: Option<Held>,
    pacing_rate: Option<f64>,
    object: Option<Py<PyAny>>,
    methods: Methods,
    paces: bool,
    limits_itself: bool,
    /// The instant of the latest event, for events without one.
    now: Time,
    whose: &'static str,
    /// True once the user was told that the class misses a method.
    told: &'static AtomicBool,
}

/// The methods that the class has.
#[derive(Debug)]
struct Methods {
    on_ack: Option<Method>,
    on_congestion: Option<Method>,
    on_reset: Option<Method>,
    on_error_loss: Option<Method>,
    on_rate_sample: Option<Method>,
    on_lost: Option<Method>,
    on_spurious_losses: Option<Method>,
    on_restart_from_idle: Option<Method>,
    on_packet_size: Option<Method>,
    announce: Option<Method>,
}

/// A decrease of a default method, which a class that keeps a window of its own does not know of.
#[derive(Debug, Clone, Copy)]
struct Held {
    /// The window, packets.
    most: f64,
    /// True after a restart: it opens by slow start (RFC 5681), else by a packet per round trip.
    restart: bool,
}

impl MakeController for Maker {
    fn make(&self, setup: ControllerSetup<'_>) -> Box<dyn Controller> {
        let initial_window = setup.endpoint.initial_window;
        let setup = events::ControllerSetup::of(setup.endpoint, Some(setup.feedback), setup.stream);
        let object = self.object((setup,));
        let method = |name| self.method(object.as_ref(), name);
        Box::new(PythonController {
            cwnd: initial_window,
            held: None,
            pacing_rate: None,
            methods: Methods {
                on_ack: method("on_ack"),
                on_congestion: method("on_congestion"),
                on_reset: method("on_reset"),
                on_error_loss: method("on_error_loss"),
                on_rate_sample: method("on_rate_sample"),
                on_lost: method("on_lost"),
                on_spurious_losses: method("on_spurious_losses"),
                on_restart_from_idle: method("on_restart_from_idle"),
                on_packet_size: method("on_packet_size"),
                announce: method("announce"),
            },
            paces: self.paces,
            limits_itself: self.limits_itself,
            now: Time::ZERO,
            whose: self.name,
            told: self.told,
            object,
        })
    }
    fn paces(&self) -> bool {
        self.paces
    }
    fn samples_rate(&self) -> bool {
        self.samples_rate
    }
    fn negotiates_ecn(&self) -> bool {
        self.negotiates_ecn
    }
    fn answers_ecn(&self) -> bool {
        self.answers_ecn
    }
}

impl PythonController {
    /// Calls a method with an event, and returns its answer, a window. `None` if there is no such
    /// method.
    fn ask<E>(&self, method: Option<&Method>, now: Time, event: E) -> Option<f64>
    where
        (E,): for<'py> PyCallArgs<'py>,
    {
        let method = method?;
        let read = |answer: &Bound<'_, PyAny>| method.number(answer, is_window, NEEDED);
        Some(method.call(now, (event,), read).unwrap_or(self.cwnd))
    }

    /// Reads the attribute or method `pacing_rate` after an event.
    fn pace(&mut self, now: Time) {
        self.now = now;
        let (true, Some(object)) = (self.paces, &self.object) else { return };
        let read = |py: Python<'_>| -> PyResult<Option<f64>> {
            let _inside = enter(Call::PacingRate, nanoseconds(now));
            let rate = object.bind(py).getattr("pacing_rate")?;
            let rate = if rate.is_callable() { rate.call0()? } else { rate };
            let number: Option<f64> = rate.extract().map_err(|_| wrong_rate(self.whose, &rate))?;
            match number {
                Some(number) if !is_rate(number) => Err(wrong_rate(self.whose, &rate)),
                number => Ok(number),
            }
        };
        match Python::attach(read) {
            Ok(rate) => self.pacing_rate = rate,
            Err(error) => report(Trouble { error, now, whose: self.whose }),
        }
    }

    /// Passes news to a method that returns a window, or `None` for no change. Such news has no
    /// default.
    fn tell<A>(&mut self, method: fn(&Methods) -> Option<&Method>, now: Time, arguments: A)
    where
        A: for<'py> PyCallArgs<'py>,
    {
        self.now = now;
        let Some(method) = method(&self.methods) else { return };
        let read = |answer: &Bound<'_, PyAny>| match answer.is_none() {
            true => Ok(None),
            false => method.number(answer, is_window, NEEDED_OR_NONE).map(Some),
        };
        if let Some(window) = method.call(now, arguments, read).flatten() {
            self.adopt(window, now);
        }
        self.pace(now);
    }

    /// Takes a window that the class returned after an acknowledgment. While a default decrease
    /// holds, it is bounded by that.
    fn take(&mut self, window: f64, ack: &AckEvent) {
        if let Some(held) = &mut self.held
            && ack.allows_growth()
        {
            held.most += if held.restart { ack.growth } else { ack.growth / held.most };
        }
        self.adopt(window, ack.path.now);
    }

    /// Takes a window that the class returned, as far as a default decrease allows it.
    fn adopt(&mut self, window: f64, now: Time) {
        let Some(held) = self.held else {
            self.cwnd = window;
            return;
        };
        if window <= held.most {
            self.held = None;
            self.cwnd = window;
            return;
        }
        self.cwnd = held.most;
        let missing = if held.restart { "on_reset" } else { "on_congestion" };
        self.warn(missing, window, now);
    }

    /// True if the class limits itself, so that packets sent now say little of the path.
    fn limits_itself(&self, now: Time) -> bool {
        let (true, Some(object)) = (self.limits_itself, &self.object) else { return false };
        let read = |py: Python<'_>| -> PyResult<bool> {
            let _inside = enter(Call::Other, nanoseconds(now));
            let limits = object.bind(py).getattr("limits_itself")?;
            limits.extract().map_err(|_| {
                let whose = self.whose;
                PyTypeError::new_err(format!("{whose}.limits_itself must be True or False"))
            })
        };
        Python::attach(read).unwrap_or_else(|error| {
            report(Trouble { error, now, whose: self.whose });
            false
        })
    }

    /// Tells the user once what a class lacks.
    fn warn(&self, missing: &str, window: f64, now: Time) {
        if self.told.swap(true, Ordering::Relaxed) {
            return;
        }
        let event = if missing == "on_reset" { "a timeout" } else { "congestion" };
        let (whose, cwnd) = (self.whose, self.cwnd);
        let at = now.as_secs_f64();
        let text = format!(
            "{whose} keeps a window of its own and has no {missing}: at {at:.3} s it returned \
             {window:.1} packets, and after {event} {cwnd:.1} are allowed, which grow as TCP's do. \
             Define {missing} and set the window there"
        );
        let warned = Python::attach(|py| {
            let text = CString::new(text).map_err(error::failed)?;
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1)
        });
        // A filter may make errors of warnings.
        if let Err(error) = warned {
            report(Trouble { error, now, whose });
        }
    }
}

fn wrong_rate(whose: &str, rate: &Bound<'_, PyAny>) -> PyErr {
    let rate = rate.repr().map_or_else(|_| "something".to_owned(), |text| text.to_string());
    PyTypeError::new_err(format!(
        "{whose}.pacing_rate is {rate}: expected packets per second, at least {LEAST_RATE}, or None for no \
         limit"
    ))
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
    fn pacing_rate(&self) -> Option<f64> {
        self.pacing_rate
    }
    fn on_ack(&mut self, ack: &AckEvent) {
        if let Some(window) = self.ask(self.methods.on_ack.as_ref(), ack.path.now, Ack::from(ack)) {
            self.take(window, ack);
        }
        self.pace(ack.path.now);
    }
    fn on_congestion(&mut self, event: &CongestionEvent) {
        let now = event.path.now;
        match self.ask(self.methods.on_congestion.as_ref(), now, Congestion::from(event)) {
            Some(window) => {
                self.cwnd = window;
                // A restart that the class does not know of stays in force.
                if let Some(held) = &mut self.held {
                    held.most = held.most.min(window);
                    self.cwnd = held.most;
                }
            }
            None => {
                // As Reno does.
                self.cwnd = (event.path.in_flight * event.kept(0.5)).max(2.0);
                self.held = Some(Held { most: self.cwnd, restart: false });
            }
        }
        self.pace(now);
    }
    fn on_error_loss(&mut self, path: &Path) {
        let answer =
            self.ask(self.methods.on_error_loss.as_ref(), path.now, events::Path::from(path));
        self.cwnd = answer.unwrap_or(self.cwnd);
        self.pace(path.now);
    }
    fn on_reset(&mut self, event: &ResetEvent) {
        let now = event.path.now;
        match self.ask(self.methods.on_reset.as_ref(), now, Reset::from(event)) {
            Some(window) => self.cwnd = window,
            None => {
                // The class hears of it as of congestion, so that its window and threshold fall.
                if !event.repeated {
                    self.ask(self.methods.on_congestion.as_ref(), now, Congestion::of_reset(event));
                }
                self.cwnd = event.window_after(self.cwnd);
                self.held = Some(Held { most: self.cwnd, restart: true });
            }
        }
        self.pace(now);
    }
    fn on_lost(&mut self, packet: &estimator::LostPacket, now: Time) {
        let packet = LostPacket::new(packet, now);
        self.tell(|methods| methods.on_lost.as_ref(), now, (packet,));
    }
    fn on_spurious_losses(&mut self) {
        self.tell(|methods| methods.on_spurious_losses.as_ref(), self.now, ());
    }
    fn on_rate_sample(&mut self, sample: &estimator::RateSample) -> bool {
        let now = sample.now;
        self.tell(|methods| methods.on_rate_sample.as_ref(), now, (RateSample::from(sample),));
        self.limits_itself(now)
    }
    fn on_restart_from_idle(&mut self, now: Time) {
        self.tell(|methods| methods.on_restart_from_idle.as_ref(), now, (Instant::from(now),));
    }
    fn on_packet_size(&mut self) {
        self.tell(|methods| methods.on_packet_size.as_ref(), self.now, ());
    }
    fn announce(&mut self, packet: &mut packet::Packet, limited: bool) {
        let Some(method) = &self.methods.announce else { return };
        let read = |answer: &Bound<'_, PyAny>| {
            request(answer).map_err(|_| method.wrong(answer, header::NEEDED))
        };
        let arguments = (Packet::from(&*packet), limited);
        let header = method.call(packet.timestamp, arguments, read);
        packet.header = header.flatten().unwrap_or(packet.header);
    }
}
