//! Time series of a run: every connection and every link, sampled at a fixed interval.
//!
//! A [`Trace`] tells when the next sample is due and makes its rows; the program that drives the
//! simulation uses them. [`TraceFiles`] writes them into a folder, as
//! `windward run --trace` does. Rates are means since the previous sample.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use windward_core::units::{Duration, Time};

use crate::metric::{Metric, count, measured, packets, rate, seconds, text};
use crate::outcome::{Row, insert_after, rows};
use crate::output::{OutputDir, OutputError, StagedFile};
use crate::table::{Cell, Column, Format, TableWriter};
use crate::{FlowSnapshot, LinkSnapshot, Name, Scenario, Simulation};

/// Samples a run at the multiples of an interval and at its end.
///
/// ```
/// use windward_core::units::Duration;
/// use windward_sim::scenario::file::ScenarioFile;
/// use windward_sim::trace::Trace;
/// use windward_sim::Simulation;
///
/// let text = r#"
/// duration = "1s"
/// [dumbbell]
/// bottleneck = { rate = "5Mbit", delay = "10ms", queue = "50p" }
/// access = { rate = "10Mbit", delay = "5ms" }
/// [[flows]]
/// group = "bulk"
/// protocol = "newreno"
/// "#;
/// let scenario = ScenarioFile::parse("inline", text)?.build()?;
/// let mut trace = Trace::new(&scenario, Duration::from_millis(300))?;
/// let mut sim = Simulation::traced(&scenario);
/// let mut instants = Vec::new();
/// while let Some(instant) = trace.next_sample() {
///     sim.advance(instant);
///     let sample = trace.sample(&mut sim);
///     assert!(sample.flows[0].cwnd >= 1.0);
///     instants.push(sample.time.as_secs_f64());
/// }
/// assert_eq!(instants, [0.3, 0.6, 0.9, 1.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Trace {
    instants: Instants,
    flows: Vec<TracedFlow>,
    links: Vec<TracedLink>,
}

/// The instants at which a run is sampled: the multiples of an interval.
#[derive(Debug, Clone)]
pub struct Instants {
    interval: Duration,
    end: Time,
    next: Option<Time>,
}

impl Instants {
    /// The multiples after the start of a run that ends at `end`, and its end.
    pub fn until(end: Time, interval: Duration) -> Self {
        Instants { interval, end, next: Some((Time::ZERO + interval).min(end)) }
    }

    /// All multiples from zero on.
    pub(crate) fn from_zero(interval: Duration) -> Self {
        Instants { interval, end: Time::NEVER, next: Some(Time::ZERO) }
    }

    /// Time of the next sample; `None` after the last.
    pub fn next(&self) -> Option<Time> {
        self.next
    }

    /// Advances to the next sample. Returns the instant of the one taken, which is the end after
    /// the last.
    pub fn take(&mut self) -> Time {
        let time = self.next.unwrap_or(self.end);
        self.next = (time < self.end).then(|| (time + self.interval).min(self.end));
        time
    }

    /// The length of the interval that ends at the sample of `time`. The last may be shorter.
    fn since_last(&self, time: Time) -> Duration {
        match time.since(Time::ZERO).as_ps() % self.interval.as_ps() {
            0 => self.interval,
            rest => Duration::from_ps(rest),
        }
    }
}

/// A connection and its counts at the last sample.
#[derive(Debug, Clone)]
struct TracedFlow {
    index: usize,
    name: Name,
    delivered_bytes: u64,
    bottleneck_bytes: u64,
}

/// A link and its counts at the last sample.
#[derive(Debug, Clone)]
struct TracedLink {
    name: Name,
    sent_bytes: u64,
}

/// The state of all connections and links at one instant.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The instant. The sample includes its events.
    pub time: Time,
    /// One row per connection, in the order of the scenario; datagrams have none.
    pub flows: Vec<FlowRow>,
    /// One row per directed link, in the order of the scenario.
    pub links: Vec<LinkRow>,
}

measured! {
    /// One connection at one instant.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct FlowRow {
        /// Time of the sample.
        time: Time = seconds("time_s").always();
        /// Congestion window.
        cwnd: f64 = packets("cwnd_packets").always();
        /// Slow start threshold; infinite while the controller has none.
        ssthresh: f64 = packets("ssthresh_packets").always();
        /// Smoothed round-trip time; zero before the first RTT sample.
        srtt: Duration = seconds("srtt_s").always();
        /// Packets sent and not yet acknowledged or declared lost.
        in_flight: u64 = packets("in_flight_packets");
        /// Unique packets delivered since the sample before, at their size on the wire.
        goodput_bps: f64 = rate("goodput_bps").always();
        /// Throughput at the bottleneck link since the sample before.
        throughput_bps: f64 = rate("throughput_bps").always();
        beside
        /// Name of the flow.
        flow: Name,
    }
}

measured! {
    /// One directed link at one instant.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct LinkRow {
        /// Time of the sample.
        time: Time = seconds("time_s").always();
        /// Packets that wait behind the one in transmission.
        queue_packets: u64 = packets("queue_packets");
        /// Packets dropped by the queue since the start of the run.
        dropped: u64 = count("dropped");
        /// Packets destroyed by the channel since the start of the run.
        corrupted: u64 = count("corrupted");
        /// Throughput on the wire since the sample before.
        throughput_bps: f64 = rate("throughput_bps").always();
        beside
        /// Name of the link.
        link: Name,
    }
}

rows!(FlowRow, (), {
    let mut all = FlowRow::metrics();
    let name = text("flow").means("Name of the flow.");
    insert_after(&mut all, "time_s", vec![name.words(|row: &FlowRow, ()| Cell::text(&row.flow))]);
    all
});

rows!(LinkRow, (), {
    let mut all = LinkRow::metrics();
    let name = text("link").means("Name of the link.");
    insert_after(&mut all, "time_s", vec![name.words(|row: &LinkRow, ()| Cell::text(&row.link))]);
    all
});

impl Trace {
    /// Maximum number of samples of a run.
    pub const MAX_SAMPLES: u64 = 10_000_000;
    /// Maximum number of rows of a run, over flows and links of all samples: about 12 GB as CSV.
    pub const MAX_ROWS: u64 = 200_000_000;

    /// A sampler of a run of `scenario` with this `interval`, for a
    /// [`Simulation::traced`].
    ///
    /// # Errors
    /// If the interval is zero, or so short that the run has more than [`Trace::MAX_SAMPLES`]
    /// samples or [`Trace::MAX_ROWS`] rows.
    pub fn new(scenario: &Scenario, interval: Duration) -> Result<Self, IntervalError> {
        IntervalError::check(scenario, interval)?;
        let end = Time::ZERO + scenario.duration;
        let flows = scenario.flows.iter().enumerate();
        let flows = flows.filter(|(_, flow)| flow.kind.traffic.is_connection());
        let flows = flows.map(|(index, flow)| TracedFlow {
            index,
            name: flow.name.clone(),
            delivered_bytes: 0,
            bottleneck_bytes: 0,
        });
        let links = scenario.links.iter();
        let links = links.map(|link| TracedLink { name: link.name.clone(), sent_bytes: 0 });
        Ok(Trace {
            instants: Instants::until(end, interval),
            flows: flows.collect(),
            links: links.collect(),
        })
    }

    /// The instant to which the simulation is to be advanced before the next call of
    /// [`Trace::sample`]; `None` after the last, which is the end of the run.
    pub fn next_sample(&self) -> Option<Time> {
        self.instants.next()
    }

    /// The state of every connection and link of a simulation that was advanced to
    /// [`Trace::next_sample`]; after the last sample, of the end of the run.
    pub fn sample(&mut self, sim: &mut Simulation) -> Sample {
        let time = self.instants.take();
        let since_last = self.instants.since_last(time).as_secs_f64();
        let flows = self.flows.iter_mut().filter_map(|flow| {
            let snapshot = sim.flow(flow.index)?;
            Some(flow.row(time, since_last, &snapshot))
        });
        let flows = flows.collect();
        let links = self.links.iter_mut().enumerate();
        let links = links.map(|(index, link)| link.row(time, since_last, &sim.link(index)));
        Sample { time, flows, links: links.collect() }
    }
}

impl TracedFlow {
    fn row(&mut self, time: Time, since_last: f64, flow: &FlowSnapshot) -> FlowRow {
        FlowRow {
            time,
            cwnd: flow.cwnd,
            ssthresh: flow.ssthresh,
            srtt: flow.srtt,
            in_flight: flow.in_flight,
            goodput_bps: rate_since(&mut self.delivered_bytes, flow.delivered_bytes, since_last),
            throughput_bps: rate_since(
                &mut self.bottleneck_bytes,
                flow.bottleneck_bytes,
                since_last,
            ),
            flow: self.name.clone(),
        }
    }
}

impl TracedLink {
    fn row(&mut self, time: Time, since_last: f64, link: &LinkSnapshot) -> LinkRow {
        LinkRow {
            time,
            queue_packets: link.queue_packets,
            dropped: link.dropped,
            corrupted: link.corrupted,
            throughput_bps: rate_since(&mut self.sent_bytes, link.sent_bytes, since_last),
            link: self.name.clone(),
        }
    }
}

/// Bits per second since the last sample; stores the new count.
fn rate_since(last: &mut u64, bytes: u64, seconds: f64) -> f64 {
    let sent = bytes.saturating_sub(*last);
    *last = bytes;
    sent as f64 * 8.0 / seconds
}

/// A [`Trace`] written into a folder: `flows.csv` and `links.csv`, or `.parquet`. The files
/// appear with [`TraceFiles::commit`]; if dropped before, they are removed.
#[derive(Debug)]
pub struct TraceFiles {
    trace: Trace,
    flows: SeriesFile,
    links: SeriesFile,
    dir: OutputDir,
}

impl TraceFiles {
    /// Creates the folder, if it is missing, and begins the files.
    ///
    /// # Errors
    /// If the interval is invalid ([`Trace::new`]) or the files cannot be created.
    pub fn create(
        dir: &Path,
        format: Format,
        scenario: &Scenario,
        interval: Duration,
    ) -> Result<Self, TraceError> {
        let trace = Trace::new(scenario, interval)?;
        let dir = OutputDir::create(dir)?;
        let flows = SeriesFile::create(&dir, "flows", format, &columns::<FlowRow>())?;
        let links = SeriesFile::create(&dir, "links", format, &columns::<LinkRow>())?;
        Ok(TraceFiles { trace, flows, links, dir })
    }

    /// As [`Trace::next_sample`].
    pub fn next_sample(&self) -> Option<Time> {
        self.trace.next_sample()
    }

    /// Writes the rows of [`Trace::sample`] to the files.
    ///
    /// # Errors
    /// If the folder does not take it.
    pub fn sample(&mut self, sim: &mut Simulation) -> Result<(), OutputError> {
        let sample = self.trace.sample(sim);
        for flow in &sample.flows {
            self.flows.row(&cells(flow))?;
        }
        for link in &sample.links {
            self.links.row(&cells(link))?;
        }
        Ok(())
    }

    /// Gives the files their names and returns their paths, flows first.
    ///
    /// # Errors
    /// If the rest cannot be written.
    pub fn commit(self) -> Result<[PathBuf; 2], OutputError> {
        let TraceFiles { flows, links, mut dir, .. } = self;
        // Both are complete before either gets its name.
        let paths = [flows.complete(&mut dir)?, links.complete(&mut dir)?];
        dir.commit()?;
        Ok(paths)
    }
}

/// The columns of rows of samples.
pub fn columns<T: Row<Of = ()>>() -> Vec<Column<'static>> {
    T::shown().map(Metric::column).collect()
}

/// The cells of a row of a sample.
pub fn cells<T: Row<Of = ()>>(row: &T) -> Vec<Cell<'_>> {
    T::shown().map(|metric| metric.of_row(row, &())).collect()
}

/// A file of a time series that is being written.
#[derive(Debug)]
pub struct SeriesFile {
    path: PathBuf,
    table: TableWriter<'static, StagedFile>,
}

impl SeriesFile {
    /// Begins `NAME.csv` or `NAME.parquet` in a folder.
    ///
    /// # Errors
    /// If the folder does not take it.
    pub fn create(
        dir: &OutputDir,
        name: &str,
        format: Format,
        columns: &[Column<'static>],
    ) -> Result<Self, OutputError> {
        let file = dir.file(format!("{name}.{}", format.extension()))?;
        let path = file.path().to_owned();
        let table = TableWriter::new(file, format, name, columns);
        Ok(SeriesFile { table: table.map_err(|error| OutputError::write(&path, error))?, path })
    }

    /// Adds a row: a cell for each column.
    ///
    /// # Errors
    /// If the folder does not take it.
    pub fn row(&mut self, cells: &[Cell<'_>]) -> Result<(), OutputError> {
        self.table.row(cells).map_err(|error| OutputError::write(&self.path, error))
    }

    /// Writes the rest and returns the path. The file gets it when the folder is committed.
    ///
    /// # Errors
    /// If the folder does not take it.
    pub fn complete(self, dir: &mut OutputDir) -> Result<PathBuf, OutputError> {
        let path = self.path;
        let file = self.table.finish().map_err(|error| OutputError::write(&path, error))?;
        dir.complete(file)?;
        Ok(path)
    }
}

/// An invalid interval between samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IntervalError {
    /// The interval is zero.
    Zero,
    /// The interval is too short.
    TooShort {
        /// The given interval.
        interval: Duration,
        /// Length of the run.
        duration: Duration,
        /// Number of samples that it would give.
        samples: u64,
        /// Number of flows and links, which is the number of rows per sample.
        rows: u64,
        /// Maximum number of samples with this number of rows.
        most: u64,
        /// The shortest valid interval, rounded up.
        least: Duration,
    },
}

impl IntervalError {
    fn check(scenario: &Scenario, interval: Duration) -> Result<(), Self> {
        if interval.is_zero() {
            return Err(IntervalError::Zero);
        }
        let duration = scenario.duration;
        let samples = duration.as_ps().div_ceil(interval.as_ps());
        let rows = (scenario.flows.len() + scenario.links.len()) as u64;
        let most = Trace::MAX_SAMPLES.min(Trace::MAX_ROWS / rows.max(1)).max(1);
        if samples <= most {
            return Ok(());
        }
        let least = round_up(duration.as_ps().div_ceil(most));
        let least = Duration::from_ps(least);
        Err(IntervalError::TooShort { interval, duration, samples, rows, most, least })
    }
}

/// The next number with at most two significant digits.
fn round_up(number: u64) -> u64 {
    let digits = number.checked_ilog10().unwrap_or(0);
    let unit = 10_u64.pow(digits.saturating_sub(1));
    number.div_ceil(unit).saturating_mul(unit)
}

impl fmt::Display for IntervalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IntervalError::Zero => {
                write!(f, "the interval between samples must be greater than zero")
            }
            IntervalError::TooShort { interval, duration, samples, rows, most, least } => write!(
                f,
                "{duration} every {interval} give {samples} samples of {rows} flows and links, \
                 more than {most}; the interval must be at least {least}"
            ),
        }
    }
}

impl std::error::Error for IntervalError {}

/// The reason why a trace cannot be begun.
#[derive(Debug)]
pub enum TraceError {
    /// The interval is invalid.
    Interval(IntervalError),
    /// The files could not be written.
    Output(OutputError),
}

impl From<IntervalError> for TraceError {
    fn from(error: IntervalError) -> Self {
        TraceError::Interval(error)
    }
}

impl From<OutputError> for TraceError {
    fn from(error: OutputError) -> Self {
        TraceError::Output(error)
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceError::Interval(error) => error.fmt(f),
            TraceError::Output(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TraceError::Interval(error) => Some(error),
            TraceError::Output(error) => Some(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::file::ScenarioFile;
    use windward_core::network::AqmConfig;

    const FIRST: &str = include_str!("../../../experiments/examples/first.toml");

    fn scenario(duration: &str) -> Scenario {
        let mut file = ScenarioFile::parse("first.toml", FIRST).unwrap();
        file.set("duration", duration).unwrap();
        file.set("warmup", "0s").unwrap();
        file.build().unwrap()
    }

    #[test]
    fn too_many_samples_are_refused() {
        let scenario = scenario("100s");
        let rows = (scenario.flows.len() + scenario.links.len()) as u64;
        let error = Trace::new(&scenario, Duration::from_ps(1)).unwrap_err();
        // Ten flows; the bottleneck and two hops of each flow, both ways: 42 links, 52 rows.
        // 200e6 / 52 = 3846153.8 samples; 100 s / 3846153 = 26.00000169 us.
        let expected = IntervalError::TooShort {
            interval: Duration::from_ps(1),
            duration: Duration::from_secs(100),
            samples: 100_000_000_000_000,
            rows: 52,
            most: 3_846_153,
            least: Duration::from_micros(27),
        };
        assert_eq!(rows, 52);
        assert_eq!(error, expected);
        assert!(error.to_string().ends_with("must be at least 27us"), "{error}");
        // The interval that the error proposes is valid.
        assert!(Trace::new(&scenario, Duration::from_micros(27)).is_ok());
        assert!(Trace::new(&scenario, Duration::from_micros(26)).is_err());
        assert_eq!(Trace::new(&scenario, Duration::ZERO).unwrap_err(), IntervalError::Zero);
        assert!(Trace::new(&scenario, Duration::MAX).is_ok());
    }

    #[test]
    fn a_sample_holds_rates_since_the_last() {
        let scenario = scenario("1s");
        let mut sim = Simulation::traced(&scenario);
        let mut trace = Trace::new(&scenario, Duration::from_millis(400)).unwrap();
        let mut sent = vec![0.0; scenario.links.len()];
        let mut times = Vec::new();
        while let Some(instant) = trace.next_sample() {
            sim.advance(instant);
            let sample = trace.sample(&mut sim);
            let last = times.last().copied().unwrap_or(0.0);
            let span = sample.time.as_secs_f64() - last;
            for (sum, link) in sent.iter_mut().zip(&sample.links) {
                *sum += link.throughput_bps * span / 8.0;
            }
            times.push(sample.time.as_secs_f64());
        }
        // The run does not end at a multiple of the interval.
        assert_eq!(times, [0.4, 0.8, 1.0]);
        for (index, sum) in sent.iter().enumerate() {
            let bytes = sim.link(index).sent_bytes as f64;
            assert!((sum - bytes).abs() < 1e-6 * bytes.max(1.0), "{sum} of {bytes}");
        }
    }

    #[test]
    fn no_wire_carries_more_than_its_rate() {
        let red = "{ kind = \"red\", min_threshold = 5, max_threshold = 15, weight = 0.002, \
                   max_probability = 0.1 }";
        let names = AqmConfig::forms().into_iter().map(|(words, _)| words.name);
        for queue in names.chain([red]) {
            let mut file = ScenarioFile::parse("first.toml", FIRST).unwrap();
            // A multiple of the interval.
            file.set("duration", "4998ms").unwrap();
            file.set("warmup", "0s").unwrap();
            file.set("dumbbell.bottleneck.aqm", queue).unwrap();
            let scenario = file.build().unwrap();
            let mut sim = Simulation::traced(&scenario);
            let mut trace = Trace::new(&scenario, Duration::from_millis(7)).unwrap();
            let mut busiest: f64 = 0.0;
            while let Some(instant) = trace.next_sample() {
                sim.advance(instant);
                let sample = trace.sample(&mut sim);
                for (link, row) in scenario.links.iter().zip(&sample.links) {
                    let share = row.throughput_bps / link.kind.rate.mean().as_bps() as f64;
                    // A byte is 0.02 % of the capacity of 5 Mbit/s in 7 ms.
                    assert!(share < 1.0003, "{queue}: {} at {instant:?}: {share}", link.name);
                    busiest = busiest.max(share);
                }
                // Flows count whole packets: one of 1000 bytes is 23 % of this capacity.
                let flows: f64 = sample.flows.iter().map(|flow| flow.throughput_bps).sum();
                assert!(flows < 1.24 * 5e6, "{queue}: {flows} at {instant:?}");
            }
            assert!(busiest > 0.999, "{queue}: {busiest}");
        }
    }
}
