//! `windward.Simulation`: a run in steps.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use pyo3::exceptions::{PyKeyError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use windward_core::endpoint::window::{ControllerConfig, LARGEST_WINDOW, LEAST_WINDOW, is_window};
use windward_core::network::DelaySteps;
use windward_core::part::Custom;
use windward_core::units::Time;
use windward_sim::scenario::Traffic;
use windward_sim::table::{Cell, Column, Kind, Table as Rows};
use windward_sim::{ChangeError, LinkChange};

use crate::parts::steered::{self, Helm};
use crate::parts::{self, Aside};
use crate::run::{Chart, Run};
use crate::scenario::Scenario;
use crate::slices::Slices;
use crate::table::Table;
use crate::{amount, duration, error};

/// A run in steps, which can be inspected in between::
///
///     simulation = Simulation(scenario)
///     simulation.advance("1s")
///     simulation.flow("bulk-1")["cwnd_packets"]
///     run = simulation.finish()
///
/// The outcome is that of ``scenario.run()``, for any steps.
///
/// Args:
///     scenario: Scenario to simulate.
///     seed: Seed in place of the scenario's.
///     changes: Allow ``change_link``. Without a change the outcome is the same, except for
///         ``Run.events``, but the run takes longer, because such links must keep their
///         packets until they leave.
#[pyclass(frozen, module = "windward")]
#[derive(Debug)]
pub(crate) struct Simulation {
    scenario: Arc<windward_sim::Scenario>,
    slices: Slices,
    /// The helms of connections whose window is steered, by the index of the flow.
    helms: HashMap<usize, Helm>,
    /// `None` once it is finished.
    state: Mutex<Option<windward_sim::Simulation>>,
}

const FLOWS: [Column<'static>; 8] = [
    Column::new("flow", Kind::Text),
    Column::new("cwnd_packets", Kind::Real),
    Column::new("ssthresh_packets", Kind::Real),
    Column::new("srtt_s", Kind::Real),
    Column::new("in_flight_packets", Kind::Count),
    Column::new("delivered_bytes", Kind::Count),
    Column::new("bottleneck_bytes", Kind::Count),
    Column::new("protocol", Kind::Text),
];

const LINKS: [Column<'static>; 6] = [
    Column::new("link", Kind::Text),
    Column::new("queue_packets", Kind::Count),
    Column::new("dropped", Kind::Count),
    Column::new("corrupted", Kind::Count),
    Column::new("sent_bytes", Kind::Count),
    Column::optional("signal", Kind::Real),
];

impl Simulation {
    /// The state; fails if another thread uses it.
    fn lock(&self) -> PyResult<MutexGuard<'_, Option<windward_sim::Simulation>>> {
        self.state.try_lock().map_err(|_| {
            PyRuntimeError::new_err(
                "the simulation is running, in another thread or because one of its parts calls it",
            )
        })
    }

    fn with<T>(&self, look: impl FnOnce(&mut windward_sim::Simulation) -> T) -> PyResult<T> {
        let mut state = self.lock()?;
        state.as_mut().map(look).ok_or_else(finished)
    }

    /// The helm of a steered connection, and its index.
    fn helm(&self, name: &str) -> PyResult<(usize, &Helm)> {
        let names = self.helms.keys().map(|index| self.scenario.flows[*index].name.as_str());
        // Only names of steered connections, so that suggestions are among them.
        index("steered connection", name, names)?;
        let flows = &self.scenario.flows;
        let found = self.helms.iter().find(|(index, _)| flows[**index].name.as_str() == name);
        found.map(|(index, helm)| (*index, helm)).ok_or_else(finished)
    }

    /// A pacing rate of a steered connection, packets per second.
    fn packets_per_second(&self, index: usize, bps: f64) -> PyResult<f64> {
        let flow = &self.scenario.flows[index];
        let Traffic::Transport { config, .. } = &flow.kind.traffic else {
            return Err(finished());
        };
        if !config.pacing {
            let group = &self.scenario.groups[flow.group];
            return Err(error::value(format!(
                "pacing_bps: {} does not pace: set flows.{group}.pacing = true",
                flow.name
            )));
        }
        if !(bps.is_finite() && bps > 0.0) {
            return Err(error::value(format!("pacing_bps = {bps}: must be greater than 0")));
        }
        Ok(bps / (8.0 * f64::from(config.packet_size)))
    }

    fn flow_rows(&self, only: Option<usize>) -> PyResult<Table> {
        let indices = match only {
            Some(index) => index..index + 1,
            None => 0..self.scenario.flows.len(),
        };
        self.with(|sim| {
            let rows = indices.filter_map(|index| {
                let flow = sim.flow(index)?;
                let spec = &self.scenario.flows[index];
                Some([
                    Cell::text(&spec.name),
                    Cell::Real(flow.cwnd),
                    Cell::Real(flow.ssthresh),
                    Cell::Real(flow.srtt.as_secs_f64()),
                    Cell::Count(flow.in_flight),
                    Cell::Count(flow.delivered_bytes),
                    Cell::Count(flow.bottleneck_bytes),
                    Cell::text(spec.kind.traffic.protocol_name()),
                ])
            });
            Table::of(&Rows::of_rows(FLOWS, rows))
        })?
    }

    fn link_rows(&self, only: Option<usize>) -> PyResult<Table> {
        let indices = match only {
            Some(index) => index..index + 1,
            None => 0..self.scenario.links.len(),
        };
        self.with(|sim| {
            let rows = indices.map(|index| {
                let link = sim.link(index);
                [
                    Cell::text(&self.scenario.links[index].name),
                    Cell::Count(link.queue_packets),
                    Cell::Count(link.dropped),
                    Cell::Count(link.corrupted),
                    Cell::Count(link.sent_bytes),
                    Cell::finite(link.signal),
                ]
            });
            Table::of(&Rows::of_rows(LINKS, rows))
        })?
    }
}

fn finished() -> PyErr {
    PyRuntimeError::new_err("the simulation is finished: create another one")
}

/// The place of a name among others.
fn index<'a>(
    what: &str,
    name: &str,
    names: impl Iterator<Item = &'a str> + Clone,
) -> PyResult<usize> {
    names.clone().position(|other| other == name).ok_or_else(|| {
        let near = windward_sim::suggest::near(name, names);
        let near = near.map(|near| format!(" (did you mean {near:?}?)"));
        PyKeyError::new_err(format!("no {what} {name:?}{}", near.unwrap_or_default()))
    })
}

#[pymethods]
impl Simulation {
    #[new]
    #[pyo3(signature = (scenario, seed=None, *, changes=false))]
    fn py_new(
        py: Python<'_>,
        scenario: &Bound<'_, Scenario>,
        #[pyo3(from_py_with = amount::seed)] seed: Option<u64>,
        changes: bool,
    ) -> PyResult<Self> {
        let make = match changes {
            true => windward_sim::Simulation::changeable,
            false => windward_sim::Simulation::traced,
        };
        let of = scenario.get();
        let scenario = of.seeded(seed);
        let (sim, helms) = steered::helms(|| of.begin(py, &scenario, make));
        let sim = sim?;
        let steered = ControllerConfig::Custom(Custom(&steered::STEERED));
        let flows =
            scenario.flows.iter().enumerate().filter(|(_, flow)| match &flow.kind.traffic {
                // Connections that arrive at random are created later, and are not steered.
                Traffic::Transport { protocol, arrivals: None, .. } => protocol.window == steered,
                _ => false,
            });
        let helms = flows.map(|(index, _)| index).zip(helms).collect();
        Ok(Simulation { scenario, slices: of.slices(py), helms, state: Mutex::new(Some(sim)) })
    }

    /// Advances to that instant, or to the end of the scenario if it is earlier: seconds,
    /// ``"20ms"`` or a timedelta. Events at the instant are included.
    ///
    /// Raises:
    ///     ValueError: If the instant has passed.
    fn advance(&self, py: Python<'_>, until: &Bound<'_, PyAny>) -> PyResult<()> {
        let until = Time::ZERO + duration::read(until, "until")?;
        let mut state = self.lock()?;
        let sim = state.as_mut().ok_or_else(finished)?;
        if until < sim.now() {
            let (until, now) = (until.as_secs_f64(), sim.now().as_secs_f64());
            return Err(error::value(format!(
                "until = {until} s is in the past: the time is {now} s"
            )));
        }
        self.slices.advance(py, sim, until, |_| Ok(()))
    }

    /// Runs to the end of the scenario and returns the results. The simulation cannot be used
    /// afterwards.
    fn finish(&self, py: Python<'_>) -> PyResult<Run> {
        let mut state = self.lock()?;
        let sim = state.as_mut().ok_or_else(finished)?;
        self.slices.advance(py, sim, Time::ZERO + self.scenario.duration, |_| Ok(()))?;
        let sim = state.take().ok_or_else(finished)?;
        let chart = Chart::Rates(Arc::clone(&self.scenario));
        Ok(Run::new(py.detach(|| sim.finish()), None, chart))
    }

    /// Virtual time reached, seconds.
    #[getter]
    fn now(&self) -> PyResult<f64> {
        self.with(|sim| sim.now().as_secs_f64())
    }

    /// Current state of all connections, one row each.
    #[getter]
    fn flows(&self) -> PyResult<Table> {
        self.flow_rows(None)
    }

    /// Current state of all directed links, one row each.
    #[getter]
    fn links(&self) -> PyResult<Table> {
        self.link_rows(None)
    }

    /// Current state of one connection, as a dictionary.
    ///
    /// Raises:
    ///     KeyError: If the name is unknown.
    fn flow<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let names = self.scenario.flows.iter().map(|flow| flow.name.as_str());
        let index = index("flow", name, names)?;
        let rows = self.flow_rows(Some(index))?.to_pylist(py)?;
        rows.get_item(0).map_err(|_| {
            PyKeyError::new_err(format!("{name:?} is not a single connection and has no window"))
        })
    }

    /// Current state of one directed link, as a dictionary.
    ///
    /// Raises:
    ///     KeyError: If the name is unknown.
    fn link<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let names = self.scenario.links.iter().map(|link| link.name.as_str());
        let index = index("link", name, names)?;
        self.link_rows(Some(index))?.to_pylist(py)?.get_item(0)
    }

    /// Changes a directed link now, after all events of this instant. A packet in transmission
    /// finishes at the old rate; packets in the queue and later ones use the changed link. AQMs and
    /// routers learn of a new rate at once, senders only by its effects. Needs a simulation that
    /// was created with ``changes=True``.
    ///
    /// Args:
    ///     name: The link, as in ``links``.
    ///     rate: New rate, ``"5Mbit"`` or ``5 * ww.Mbit``. None keeps it.
    ///     delay: New delay, ``"20ms"`` or seconds. With a shorter one, new packets overtake those
    ///         in flight. None keeps it.
    ///     loss: Probability that a packet is lost on the wire, ``0.02`` or ``"2%"``,
    ///         independently, in place of the loss model of the link. None keeps that.
    ///
    /// Raises:
    ///     KeyError: If there is no link of that name.
    ///     ValueError: If a value is out of range (rates: 1 bit/s to 100 Tbit/s; delays: up to a
    ///         day), the rate of the link is that of a trace or a schedule, or the simulation was
    ///         created without ``changes=True``.
    #[pyo3(signature = (name, *, rate=None, delay=None, loss=None))]
    fn change_link(
        &self,
        py: Python<'_>,
        name: &str,
        rate: Option<&Bound<'_, PyAny>>,
        delay: Option<&Bound<'_, PyAny>>,
        loss: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let names = self.scenario.links.iter().map(|link| link.name.as_str());
        let index = index("link", name, names)?;
        if rate.is_none() && delay.is_none() && loss.is_none() {
            return Err(PyTypeError::new_err("nothing to change: give a rate, a delay or a loss"));
        }
        let delay = delay.map(|delay| duration::read(delay, "delay")).transpose()?;
        if delay.is_some_and(|delay| delay > DelaySteps::LONGEST_DELAY) {
            return Err(error::value("delay: longer than a day"));
        }
        let change = LinkChange {
            rate: rate.map(amount::rate).transpose()?,
            delay,
            channel: loss.map(amount::loss).transpose()?,
        };
        self.with(|sim| {
            // The change calls an AQM in Python, which may raise.
            let _aside = Aside::put();
            sim.change_link(index, &change).map_err(|wrong| match wrong {
                ChangeError::Fixed => error::value(
                    "links of this simulation cannot change: create it with changes=True",
                ),
                ChangeError::Traced => error::value(format!(
                    "link {name:?} has the rate of a trace or a schedule, which cannot be changed"
                )),
            })?;
            parts::raise(py)
        })?
    }

    /// Sets the window of a connection whose controller is ``Steered``, packets, from its next
    /// acknowledgment on, and the pacing rate of its next packets.
    ///
    /// Args:
    ///     name: The connection.
    ///     cwnd: Window, packets.
    ///     pacing_bps: Pacing rate, bits per second on the wire, of a connection with
    ///         ``pacing = true``. None: two windows in each smoothed RTT.
    ///
    /// Raises:
    ///     KeyError: If there is no steered connection of that name.
    ///     ValueError: If the window is below one packet, the rate is not above zero, or either is
    ///         not a number; or if a connection that does not pace gets a rate.
    #[pyo3(signature = (name, cwnd, *, pacing_bps=None))]
    fn steer(&self, name: &str, cwnd: f64, pacing_bps: Option<f64>) -> PyResult<()> {
        if !is_window(cwnd) {
            let message =
                format!("cwnd = {cwnd}: must be from {LEAST_WINDOW} to {LARGEST_WINDOW} packets");
            return Err(error::value(message));
        }
        let (index, helm) = self.helm(name)?;
        let rate = pacing_bps.map(|bps| self.packets_per_second(index, bps)).transpose()?;
        helm.set(cwnd, rate);
        Ok(())
    }

    /// Events of a steered connection since the last call: packets ``delivered`` and ``lost``,
    /// ``congestions`` and ``resets``, ``mean_rtt_s`` over its acknowledgments (None without any)
    /// and the connection's ``min_rtt_s`` (None before the first).
    ///
    /// Raises:
    ///     KeyError: If there is no steered connection of that name.
    fn heard<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyDict>> {
        let heard = self.helm(name)?.1.heard();
        let dict = PyDict::new(py);
        dict.set_item("delivered", heard.delivered)?;
        dict.set_item("lost", heard.lost)?;
        dict.set_item("congestions", heard.congestions)?;
        dict.set_item("resets", heard.resets)?;
        let mean = (heard.samples > 0).then(|| heard.rtt_sum / heard.samples as f64);
        dict.set_item("mean_rtt_s", mean)?;
        dict.set_item("min_rtt_s", (heard.min_rtt > 0.0).then_some(heard.min_rtt))?;
        Ok(dict)
    }

    /// The steered connections of a group: index and name of each.
    fn _steered(&self, group: &str) -> PyResult<Vec<(usize, &str)>> {
        let groups = self.scenario.groups.iter().map(String::as_str);
        let wanted = index("group", group, groups)?;
        let flows = self.scenario.flows.iter().enumerate();
        let mine =
            flows.filter(|(index, flow)| flow.group == wanted && self.helms.contains_key(index));
        Ok(mine.map(|(index, flow)| (index, flow.name.as_str())).collect())
    }

    /// Events of these steered connections since the last call, as numbers for NumPy, column by
    /// column: windows, packets in flight, delivered and lost, congestions, resets, mean RTTs (NaN
    /// without a sample) and smallest RTTs.
    fn _heard_of<'py>(
        &self,
        py: Python<'py>,
        indices: Vec<usize>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let count = indices.len();
        let mut numbers = vec![0.0_f64; 8 * count];
        self.with(|sim| {
            for (row, index) in indices.into_iter().enumerate() {
                let (Some(helm), Some(flow)) = (self.helms.get(&index), sim.flow(index)) else {
                    continue;
                };
                let heard = helm.heard();
                let known = |rtt: f64, is_known: bool| if is_known { rtt } else { f64::NAN };
                let mean = heard.rtt_sum / heard.samples as f64;
                let columns = [
                    flow.cwnd,
                    flow.in_flight as f64,
                    heard.delivered as f64,
                    heard.lost as f64,
                    heard.congestions as f64,
                    heard.resets as f64,
                    known(mean, heard.samples > 0),
                    known(heard.min_rtt, heard.min_rtt > 0.0),
                ];
                for (column, number) in columns.into_iter().enumerate() {
                    numbers[column * count + row] = number;
                }
            }
        })?;
        PyBytes::new_with(py, 8 * numbers.len(), |bytes| {
            for (into, number) in bytes.chunks_exact_mut(8).zip(&numbers) {
                into.copy_from_slice(&number.to_ne_bytes());
            }
            Ok(())
        })
    }

    #[expect(clippy::needless_pass_by_value, reason = "PyO3 gives it so")]
    /// Sets the windows of these connections, one double for each, as bytes.
    fn _steer_all(&self, indices: Vec<usize>, cwnds: &[u8]) {
        for (index, bytes) in indices.iter().zip(cwnds.chunks_exact(8)) {
            if let (Some(helm), Ok(bytes)) = (self.helms.get(index), bytes.try_into()) {
                helm.set(f64::from_ne_bytes(bytes).clamp(LEAST_WINDOW, LARGEST_WINDOW), None);
            }
        }
    }

    fn __repr__(&self) -> PyResult<String> {
        let end = self.scenario.duration;
        Ok(match self.now() {
            Ok(now) => format!("<windward.Simulation at {now} s of {end}>"),
            Err(_) => format!("<windward.Simulation of {end}, running or finished>"),
        })
    }
}
