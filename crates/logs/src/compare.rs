//! Comparison of two logs on one clock.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Serialize, Serializer};

use crate::event::{LogEvent, What};
use crate::quantity::Quantity;
use crate::reader::{LogError, LogInfo, LogReader};
use crate::side::{Counts, Notable, Side};

/// Common origin of the two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Align {
    /// The first sent packet of the application's packet number space; without one, that of any
    /// space, or the first event.
    #[default]
    Data,
    /// The first sent packet, or else the first event.
    Packet,
    /// The first event.
    Event,
    /// The zero of each log, without a shift.
    Nothing,
}

/// Options of a comparison of two logs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompareOptions {
    /// Tolerance, as a share of the larger value: 0 to 1.
    pub tolerance: f64,
    /// Minimum duration of a difference, milliseconds. `None` for the larger smoothed RTT at the
    /// time, or 100 before there is one.
    pub hold_ms: Option<f64>,
    /// Window over which rates are computed, milliseconds; more than zero.
    pub rate_window_ms: f64,
    /// Origin of the clocks.
    pub align: Align,
    /// Number of the trace in each file, from 1; `None` for the first with events.
    pub traces: [Option<usize>; 2],
    /// Milliseconds in the unit of each log's RTTs: 1, unless its writer deviates from qlog.
    pub rtt_unit_ms: [f64; 2],
}

impl Default for CompareOptions {
    fn default() -> Self {
        CompareOptions {
            tolerance: 0.1,
            hold_ms: None,
            rate_window_ms: 500.0,
            align: Align::Data,
            traces: [None; 2],
            rtt_unit_ms: [1.0; 2],
        }
    }
}

/// A comparison of two logs of the same workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The two.
    pub logs: [LogSummary; 2],
    /// Tolerance, as a share of the larger value.
    pub tolerance: f64,
    /// End of the comparison, milliseconds of the common clock: the end of the shorter log.
    pub until_ms: f64,
    /// First departure of each quantity, the earliest first. Quantities that agree to the end have
    /// none.
    pub departures: Vec<Departure>,
    /// Remarks on quantities that could not be compared, and on limits of the comparison.
    pub notes: Vec<String>,
    /// Both over time.
    pub samples: Vec<Sample>,
}

/// The first departure of a quantity.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Departure {
    /// The quantity.
    pub quantity: Quantity,
    /// Begin of the difference, milliseconds of the common clock.
    pub time_ms: f64,
    /// Value on each side at that time.
    pub values: [f64; 2],
    /// The difference as a share of the larger.
    pub difference: f64,
    /// The event of each log at that instant, if there is one; of several, the last that updates
    /// metrics.
    pub events: [Option<EventPlace>; 2],
    /// Notable events on each side until then, the latest last.
    pub before: [Vec<Notable>; 2],
}

/// An event in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct EventPlace {
    /// Offset in the file, bytes.
    pub at: u64,
    /// Description.
    pub kind: &'static str,
}

impl EventPlace {
    /// Rank by which the most informative of several events at one instant is selected.
    fn rank(self) -> usize {
        let kinds = ["another event", "packet sent", "packet received", "metrics updated"];
        kinds.iter().position(|kind| *kind == self.kind).unwrap_or(1)
    }
}

fn shown<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// One log as a whole.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LogSummary {
    /// The file. JSON has U+FFFD for bytes that are not UTF-8.
    #[serde(serialize_with = "shown")]
    pub path: PathBuf,
    /// Header of the log.
    pub info: LogInfo,
    /// Events read.
    pub events: u64,
    /// Time from zero of the common clock to its last event, milliseconds.
    pub length_ms: f64,
    /// Counts over the log.
    #[serde(flatten)]
    pub counts: Counts,
    /// Mean over the compared time, bytes.
    pub mean_cwnd: Option<f64>,
    /// Mean over the compared time, milliseconds.
    pub mean_smoothed_rtt_ms: Option<f64>,
    /// Acknowledged rate over the whole length, bits per second.
    pub mean_rate_bps: Option<f64>,
    /// Remarks of the reader.
    pub warnings: Vec<String>,
}

/// Values of both logs at one instant; `None` before a value is known.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Sample {
    /// Milliseconds of the common clock.
    pub time_ms: f64,
    /// Bytes.
    pub cwnd: [Option<f64>; 2],
    /// Bytes.
    pub bytes_in_flight: [Option<f64>; 2],
    /// Milliseconds.
    pub smoothed_rtt: [Option<f64>; 2],
    /// Rate over the preceding window, bits per second.
    pub rate: [Option<f64>; 2],
}

impl Sample {
    /// The two values of a quantity.
    pub fn values(&self, quantity: Quantity) -> [Option<f64>; 2] {
        match quantity {
            Quantity::Cwnd => self.cwnd,
            Quantity::BytesInFlight => self.bytes_in_flight,
            Quantity::SmoothedRtt => self.smoothed_rtt,
            Quantity::Rate => self.rate,
        }
    }
}

/// Reason why two logs could not be compared.
#[derive(Debug)]
pub enum CompareError {
    /// One of them cannot be read.
    Log(LogError),
    /// The comparison was cancelled.
    Cancelled,
}

impl From<LogError> for CompareError {
    fn from(error: LogError) -> Self {
        CompareError::Log(error)
    }
}

impl std::fmt::Display for CompareError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CompareError::Log(error) => error.fmt(f),
            CompareError::Cancelled => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for CompareError {}

/// Compares two logs of the same workload. Memory is limited to one event of each and the packets
/// in flight. A departure is a lasting difference beyond the tolerance: an acknowledgment that is
/// slightly later in one log is not a departure.
///
/// # Errors
/// If one of them cannot be read as qlog, or `cancel` becomes true.
pub fn compare(
    paths: [&Path; 2],
    options: &CompareOptions,
    cancel: &AtomicBool,
) -> Result<Comparison, CompareError> {
    let mut logs = Vec::new();
    for (i, path) in paths.into_iter().enumerate() {
        logs.push(Log::open(path, i, options, cancel)?);
    }
    let mut logs: [Log; 2] =
        logs.try_into().unwrap_or_else(|_| unreachable!("as many logs as paths"));
    let mut watch = Watch::new(*options);
    let mut grid = Grid::new();
    let mut until_ms = f64::NEG_INFINITY;
    let mut before_ms = f64::NEG_INFINITY;
    let mut events = 0_u64;
    loop {
        let due = [0, 1].map(|i| logs[i].due());
        let (now_ms, is_shared) = match due {
            [None, None] => break,
            [Some(a), Some(b)] => (a.min(b), true),
            [Some(one), None] | [None, Some(one)] => (one, false),
        };
        if is_shared {
            grid.fill(now_ms, &mut logs);
            let passed = (now_ms - before_ms.max(0.0)).max(0.0);
            logs.iter_mut().for_each(|log| log.means.pass(&log.side, passed));
        }
        let mut places = [None, None];
        for (log, place) in logs.iter_mut().zip(&mut places) {
            while let Some(event) = log.take(now_ms)? {
                let found = EventPlace { at: event.at, kind: kind_of(&event.what) };
                if place.is_none_or(|place: EventPlace| place.rank() <= found.rank()) {
                    *place = Some(found);
                }
                events += 1;
                if events.is_multiple_of(4096) && cancel.load(Ordering::Relaxed) {
                    return Err(CompareError::Cancelled);
                }
            }
        }
        if is_shared {
            watch.look(now_ms, &mut logs, places);
            until_ms = now_ms;
            before_ms = now_ms;
        }
    }
    let until_ms = if until_ms.is_finite() { until_ms } else { 0.0 };
    grid.fill(until_ms, &mut logs);
    let departures = watch.finish(until_ms);
    let notes = notes(&logs, &watch.known, until_ms);
    Ok(Comparison {
        tolerance: options.tolerance,
        until_ms,
        departures,
        notes,
        samples: grid.samples,
        logs: logs.map(Log::summary),
    })
}

/// Name of an event.
fn kind_of(what: &What) -> &'static str {
    match what {
        What::Sent { .. } => "packet sent",
        What::Received { .. } => "packet received",
        What::Lost { .. } => "packet lost",
        What::Metrics(_) => "metrics updated",
        What::Parameters { .. } => "parameters set",
        What::State { .. } => "congestion state updated",
        What::Expired => "timer expired",
        What::Spurious => "spurious loss",
        What::Other => "another event",
    }
}

/// One log during the comparison.
#[derive(Debug)]
struct Log {
    reader: LogReader,
    next: Option<LogEvent>,
    side: Side,
    means: Means,
}

impl Log {
    fn open(
        path: &Path,
        i: usize,
        options: &CompareOptions,
        cancel: &AtomicBool,
    ) -> Result<Self, CompareError> {
        let trace = options.traces[i];
        let zero_ms = zero(path, trace, options.align, cancel)?;
        let mut reader = LogReader::open(path, trace)?;
        let next = reader.next_event()?;
        let side = Side::new(zero_ms, options.rate_window_ms, options.rtt_unit_ms[i]);
        Ok(Log { reader, next, side, means: Means::default() })
    }

    /// Time of the next event.
    fn due(&self) -> Option<f64> {
        self.next.as_ref().map(|event| self.side.time_of(event))
    }

    /// Processes the next event, if it is at `now` or before.
    fn take(&mut self, now_ms: f64) -> Result<Option<LogEvent>, LogError> {
        if self.due().is_none_or(|due| due > now_ms) {
            return Ok(None);
        }
        let next = self.reader.next_event()?;
        let event = std::mem::replace(&mut self.next, next);
        if let Some(event) = &event {
            self.side.apply(event);
        }
        Ok(event)
    }

    fn summary(self) -> LogSummary {
        let Log { reader, side, means, .. } = self;
        let length_ms = if side.now_ms.is_finite() { side.now_ms.max(0.0) } else { 0.0 };
        let counts = side.counts;
        LogSummary {
            path: reader.path().to_owned(),
            info: reader.info().clone(),
            events: reader.events(),
            length_ms,
            counts,
            mean_cwnd: means.cwnd.mean(),
            mean_smoothed_rtt_ms: means.smoothed_rtt.mean(),
            mean_rate_bps: (counts.bytes_acked > 0.0 && length_ms > 0.0)
                .then(|| counts.bytes_acked * 8.0 / length_ms * 1000.0),
            warnings: reader.warnings(),
        }
    }
}

/// The time of a log that is zero on the common clock.
fn zero(
    path: &Path,
    trace: Option<usize>,
    align: Align,
    cancel: &AtomicBool,
) -> Result<f64, CompareError> {
    if align == Align::Nothing {
        return Ok(0.0);
    }
    let mut reader = LogReader::open(path, trace)?;
    let (mut first, mut packet) = (None, None);
    while let Some(event) = reader.next_event()? {
        let time = event.time_ms;
        first.get_or_insert(time);
        if let What::Sent { is_data, .. } = event.what {
            packet.get_or_insert(time);
            if is_data && align == Align::Data {
                return Ok(time);
            }
        }
        let is_found = match align {
            Align::Data => false,
            Align::Packet => packet.is_some(),
            Align::Event | Align::Nothing => true,
        };
        if is_found {
            break;
        }
        if reader.events().is_multiple_of(4096) && cancel.load(Ordering::Relaxed) {
            return Err(CompareError::Cancelled);
        }
    }
    Ok(packet.or(first).unwrap_or(0.0))
}

/// Means over time.
#[derive(Debug, Default)]
struct Means {
    cwnd: Mean,
    smoothed_rtt: Mean,
}

#[derive(Debug, Default)]
struct Mean {
    sum: f64,
    time: f64,
}

impl Means {
    fn pass(&mut self, side: &Side, passed_ms: f64) {
        self.cwnd.add(side.cwnd(), passed_ms);
        self.smoothed_rtt.add(side.smoothed_rtt(), passed_ms);
    }
}

impl Mean {
    fn add(&mut self, value: Option<f64>, passed_ms: f64) {
        if let Some(value) = value {
            self.sum += value * passed_ms;
            self.time += passed_ms;
        }
    }

    fn mean(&self) -> Option<f64> {
        (self.time > 0.0).then(|| self.sum / self.time).filter(|mean| mean.is_finite())
    }
}

/// Detector of departures.
#[derive(Debug)]
struct Watch {
    options: CompareOptions,
    /// For each quantity, the begin of the current difference, and its required duration.
    pending: [Option<(Departure, f64)>; 4],
    found: [Option<Departure>; 4],
    /// Sides that have ever had each quantity.
    known: [[bool; 2]; 4],
}

impl Watch {
    fn new(options: CompareOptions) -> Self {
        let known = [[false; 2]; 4];
        Watch { options, pending: [const { None }; 4], found: [const { None }; 4], known }
    }

    /// Compares at an instant, after all that happens at it.
    fn look(&mut self, now_ms: f64, logs: &mut [Log; 2], places: [Option<EventPlace>; 2]) {
        let packet = logs[0].side.counts.largest_packet.max(logs[1].side.counts.largest_packet);
        for (i, quantity) in Quantity::ALL.into_iter().enumerate() {
            // The difference has lasted until now, whatever the current values.
            if let Some((departure, hold_ms)) = &self.pending[i]
                && now_ms - departure.time_ms >= *hold_ms
            {
                self.found[i] = self.pending[i].take().map(|(departure, _)| departure);
            }
            let [a, b] = logs;
            let values = [a.side.value(quantity, now_ms), b.side.value(quantity, now_ms)];
            for (known, value) in self.known[i].iter_mut().zip(values) {
                *known |= value.is_some();
            }
            // Handshakes are before zero.
            let [Some(a), Some(b)] = values else { continue };
            if self.found[i].is_some() || now_ms < 0.0 {
                continue;
            }
            let larger = a.max(b);
            let gap = (a - b).abs();
            let floor = quantity.floor(packet, self.options.rate_window_ms);
            if gap <= floor || gap <= self.options.tolerance * larger {
                self.pending[i] = None;
                continue;
            }
            self.pending[i].get_or_insert_with(|| {
                let rtts = logs.iter().filter_map(|log| log.side.smoothed_rtt());
                let rtt = rtts.fold(0.0, f64::max);
                let hold_ms = if rtt > 0.0 { rtt } else { 100.0 };
                let before = logs.each_ref().map(|log| log.side.notable.iter().cloned().collect());
                let departure = Departure {
                    quantity,
                    time_ms: now_ms,
                    values: [a, b],
                    difference: gap / larger,
                    events: places,
                    before,
                };
                (departure, self.options.hold_ms.unwrap_or(hold_ms))
            });
        }
    }

    /// Adds differences at the end that have lasted long enough.
    fn finish(&mut self, until_ms: f64) -> Vec<Departure> {
        for (found, pending) in self.found.iter_mut().zip(&mut self.pending) {
            if found.is_none() {
                let lasting =
                    |(departure, hold): &(Departure, f64)| until_ms - departure.time_ms >= *hold;
                *found = pending.take().filter(lasting).map(|(departure, _)| departure);
            }
        }
        let mut departures: Vec<Departure> = self.found.iter().flatten().cloned().collect();
        departures.sort_by(|a, b| a.time_ms.total_cmp(&b.time_ms));
        departures
    }
}

/// Remarks on the comparison.
fn notes(logs: &[Log; 2], known: &[[bool; 2]; 4], until_ms: f64) -> Vec<String> {
    const NAMES: [&str; 2] = ["A", "B"];
    let mut notes = Vec::new();
    for (quantity, known) in Quantity::ALL.into_iter().zip(known) {
        let name = quantity.name();
        match known {
            [true, true] => {}
            [false, false] => notes.push(format!("{name} is in neither log, and not compared")),
            [a, _] => {
                let side = NAMES[usize::from(*a)];
                notes.push(format!("{name} is not in {side}, and not compared"));
            }
        }
    }
    if let [Some(a), Some(b)] = [0, 1].map(|i: usize| logs[i].side.counts.min_rtt_ms) {
        let (smaller, times) = if a < b { ("A", b / a) } else { ("B", a / b) };
        // No two paths of the same workload are that far apart.
        if (200.0..5000.0).contains(&times) {
            notes.push(format!(
                "the RTTs of {smaller} are {times:.0} times smaller: they may be in seconds, as \
                 quinn 0.11 writes them, and not in milliseconds (--rtt-unit)"
            ));
        }
    }
    let sizes = [0, 1].map(|i: usize| logs[i].side.counts.largest_packet);
    if sizes[0] > 0.0 && sizes[1] > 0.0 && sizes[0] != sizes[1] {
        notes.push(format!(
            "packets are of up to {} bytes in A and {} in B, and windows are compared in bytes",
            sizes[0], sizes[1]
        ));
    }
    for (i, log) in logs.iter().enumerate() {
        let longer = log.side.now_ms - until_ms;
        // By more than a round trip, which the last acknowledgment may take.
        if longer > log.side.smoothed_rtt().unwrap_or(100.0) {
            let (this, other) = (NAMES[i], NAMES[1 - i]);
            notes.push(format!(
                "{other} ends at {:.3} s and {this} goes on for {:.3} s, which are not compared",
                until_ms / 1000.0,
                longer / 1000.0
            ));
        }
    }
    notes
}

/// Samples at equal distances, which double whenever there are too many, since the length of a log
/// is not known in advance.
#[derive(Debug)]
struct Grid {
    step_ms: f64,
    samples: Vec<Sample>,
}

impl Grid {
    const MOST: usize = 1000;

    fn new() -> Self {
        Grid { step_ms: 0.01, samples: Vec::new() }
    }

    /// Adds the samples before `until`, with the values since the latest event.
    fn fill(&mut self, until_ms: f64, logs: &mut [Log; 2]) {
        loop {
            let time_ms = self.samples.len() as f64 * self.step_ms;
            if time_ms >= until_ms {
                return;
            }
            let mut of = |quantity| logs.each_mut().map(|log| log.side.value(quantity, time_ms));
            self.samples.push(Sample {
                time_ms,
                cwnd: of(Quantity::Cwnd),
                bytes_in_flight: of(Quantity::BytesInFlight),
                smoothed_rtt: of(Quantity::SmoothedRtt),
                rate: of(Quantity::Rate),
            });
            if self.samples.len() > Self::MOST {
                let mut index = 0;
                self.samples.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
                self.step_ms *= 2.0;
            }
        }
    }
}
