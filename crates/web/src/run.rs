//! A run in slices.

use std::sync::PoisonError;

use wasm_bindgen::prelude::wasm_bindgen;
use windward_core::network::{ChannelConfig, DelaySteps};
use windward_core::units::{Duration, Probability, Rate, Time};
use windward_sim::record::RunRecord;
use windward_sim::scenario::Parts;
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::suggest::near;
use windward_sim::{LinkChange, Scenario, Simulation};

use crate::chart::{Chart, FLOWS, GROUPS, LINKS};
use crate::describe::Facts;
use crate::error::Wrong;
use crate::wire::{MAX_PACKETS, Packets, Watch};

/// A scenario, and its run as far as it has come.
#[derive(Debug)]
#[wasm_bindgen]
pub struct Run {
    scenario: Scenario,
    parts: Parts,
    /// `None` before [`Run::begin`] and once it is finished.
    sim: Option<Simulation>,
    chart: Option<Chart>,
    packets: Packets,
}

#[wasm_bindgen]
impl Run {
    /// Reads a scenario and makes the changes: keys and values in turn, as `--set` takes them.
    /// `name` stands for the path of the file in errors.
    ///
    /// # Errors
    /// The JSON of `Wrong`.
    #[wasm_bindgen(constructor)]
    #[expect(clippy::needless_pass_by_value, reason = "wasm-bindgen gives it so")]
    pub fn new(name: &str, text: &str, changes: Vec<String>) -> Result<Run, Wrong> {
        let mut file = ScenarioFile::parse(name, text)?;
        for change in changes.chunks_exact(2) {
            file.set(&change[0], &change[1])?;
        }
        let scenario = file.build()?;
        Ok(Run {
            parts: scenario.parts(),
            scenario,
            sim: None,
            chart: None,
            packets: Packets::default(),
        })
    }

    /// Facts of the scenario as JSON: length, links, groups, warnings, estimated cost.
    pub fn facts(&self) -> String {
        crate::json(&Facts::new(&self.scenario))
    }

    /// Creates the simulation. With a finite `interval`, in seconds, groups and bottlenecks are
    /// sampled, and each flow if `of_flows`. Links can change if `is_changeable`. The packets of
    /// the link with the index `watched` are kept.
    ///
    /// # Errors
    /// If the interval is not greater than zero, or there is no such link.
    pub fn begin(
        &mut self,
        interval: f64,
        of_flows: bool,
        is_changeable: bool,
        watched: Option<usize>,
    ) -> Result<(), Wrong> {
        if interval <= 0.0 {
            return Err(Wrong::new("the interval of samples must be greater than zero"));
        }
        if watched.is_some_and(|link| link >= self.scenario.links.len()) {
            return Err(Wrong::new(format!("there are {} links", self.scenario.links.len())));
        }
        let interval = interval.is_finite().then(|| Duration::from_secs_f64(interval));
        self.chart = interval.map(|interval| {
            Chart::new(&self.scenario, interval.max(Duration::from_ps(1)), of_flows)
        });
        self.packets = Packets::default();
        self.sim = Some(match watched {
            Some(link) => {
                let packets = Packets::clone(&self.packets);
                Simulation::observed(&self.scenario, Box::new(Watch { link, packets }))
            }
            None if is_changeable => Simulation::changeable(&self.scenario),
            None if self.chart.is_some() => Simulation::traced(&self.scenario),
            None => Simulation::new(&self.scenario),
        });
        Ok(())
    }

    /// Handles every event up to `until`, in seconds. Returns the time reached, which is the end of
    /// the run at most.
    ///
    /// # Errors
    /// If the run has not begun, or is finished, or an expression of a controller gives no number.
    pub fn advance(&mut self, until: f64) -> Result<f64, Wrong> {
        let sim = self.sim.as_mut().ok_or_else(not_running)?;
        let until = (Time::ZERO + Duration::from_secs_f64(until.max(0.0)))
            .min(Time::ZERO + self.scenario.duration);
        if let Some(chart) = &mut self.chart {
            while let Some(instant) = chart.next_sample().filter(|instant| *instant <= until) {
                sim.advance(instant);
                chart.sample(sim);
            }
        }
        sim.advance(until);
        // Of the events above: each call takes what it finds.
        let now = sim.now().as_secs_f64();
        self.parts.failure().map_or(Ok(now), |failure| Err(Wrong::new(failure)))
    }

    /// Runs to the end, and returns the outcome as `windward run --json` prints it. Samples and
    /// packets stay.
    ///
    /// # Errors
    /// If the run has not begun, or is finished.
    pub fn finish(&mut self) -> Result<String, Wrong> {
        self.advance(self.scenario.duration.as_secs_f64())?;
        let sim = self.sim.take().ok_or_else(not_running)?;
        Ok(RunRecord::new(&sim.finish()).to_json())
    }

    /// Changes a link from now on, after all events of this instant; `None` keeps a property.
    ///
    /// # Errors
    /// If there is no such link, a value is out of range, or the link cannot change.
    #[wasm_bindgen(js_name = changeLink)]
    #[expect(clippy::needless_pass_by_value, reason = "wasm-bindgen gives it so")]
    pub fn change_link(
        &mut self,
        name: &str,
        rate: Option<String>,
        delay: Option<String>,
        loss: Option<String>,
    ) -> Result<(), Wrong> {
        let names = || self.scenario.links.iter().map(|link| link.name.as_str());
        let index = names().position(|other| other == name).ok_or_else(|| {
            let near = near(name, names()).map(|near| format!(" (did you mean `{near}`?)"));
            Wrong::new(format!("no link `{name}`{}", near.unwrap_or_default()))
        })?;
        let delay: Option<Duration> = parsed("delay", delay.as_deref())?;
        if delay.is_some_and(|delay| delay > DelaySteps::LONGEST_DELAY) {
            return Err(Wrong::new("delay: longer than a day"));
        }
        let channel = parsed("loss", loss.as_deref())?.map(|loss| match loss {
            Probability::ZERO => ChannelConfig::Clean,
            other => ChannelConfig::PacketLoss(other),
        });
        let rate: Option<Rate> = parsed("rate", rate.as_deref())?;
        let sim = self.sim.as_mut().ok_or_else(not_running)?;
        sim.change_link(index, &LinkChange { rate, delay, channel })
            .map_err(|error| Wrong::new(error.to_string()))
    }

    /// Instants of the samples so far, seconds.
    pub fn times(&self) -> Vec<f64> {
        self.chart.as_ref().map_or_else(Vec::new, |chart| chart.times.clone())
    }

    /// A quantity of a flow at each sample: `goodput_bps`, `cwnd_packets` or `srtt_s`.
    ///
    /// # Errors
    /// If there is no such flow or quantity, or flows were not sampled.
    pub fn flow(&self, index: usize, quantity: &str) -> Result<Vec<f64>, Wrong> {
        let series = self.chart.as_ref().and_then(|chart| chart.flow(index, quantity));
        series.map(<[f64]>::to_vec).ok_or_else(|| no_series("flow", index, quantity, &FLOWS))
    }

    /// A quantity of a group at each sample: `goodput_bps` and `throughput_bps` are sums over its
    /// flows, `cwnd_packets` and `srtt_s` are means over its connections.
    ///
    /// # Errors
    /// If there is no such group or quantity, or no sample was taken.
    pub fn group(&self, index: usize, quantity: &str) -> Result<Vec<f64>, Wrong> {
        let series = self.chart.as_ref().and_then(|chart| chart.group(index, quantity));
        series.map(<[f64]>::to_vec).ok_or_else(|| no_series("group", index, quantity, &GROUPS))
    }

    /// A quantity of a bottleneck at each sample: `queue_packets`, and `dropped` and `corrupted`
    /// since the start.
    ///
    /// # Errors
    /// If there is no such bottleneck or quantity, or no sample was taken.
    pub fn link(&self, index: usize, quantity: &str) -> Result<Vec<f64>, Wrong> {
        let series = self.chart.as_ref().and_then(|chart| chart.link(index, quantity));
        series.map(<[f64]>::to_vec).ok_or_else(|| no_series("bottleneck", index, quantity, &LINKS))
    }

    /// Packets of the watched link in the order in which they left it, three numbers each: the
    /// instant in seconds, the index of the flow, and 0 if it passed, 1 if the channel destroyed
    /// it, 2 if the queue dropped it.
    ///
    /// # Errors
    /// If there were more than are kept.
    pub fn packets(&self) -> Result<Vec<f64>, Wrong> {
        let packets = self.packets.lock().unwrap_or_else(PoisonError::into_inner);
        if packets.len() > 3 * MAX_PACKETS {
            let words = format!("more than {MAX_PACKETS} packets left the watched link");
            return Err(Wrong::new(words));
        }
        Ok(packets.clone())
    }
}

fn not_running() -> Wrong {
    Wrong::new("the run has not begun, or is finished")
}

fn no_series(what: &str, index: usize, quantity: &str, known: &[&str]) -> Wrong {
    Wrong::new(format!(
        "no samples of `{quantity}` of {what} {index}; quantities are {}",
        known.join(", ")
    ))
}

/// A value of `change_link`.
fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(
    key: &str,
    text: Option<&str>,
) -> Result<Option<T>, Wrong> {
    text.map(|text| text.parse().map_err(|error| Wrong::new(format!("{key} = {text}: {error}"))))
        .transpose()
}
