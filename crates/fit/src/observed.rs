//! The log of a sender on a grid of round trips, and first estimates of its link.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use windward_logs::{LogError, LogEvent, LogReader, Metrics, What};

use crate::link::Link;
use crate::profile::Series;

/// Largest number of cells, a power of two. Their length doubles whenever there are more, since the
/// length of a log is not known in advance.
const MOST_CELLS: usize = 4096;
const FIRST_CELL_MS: f64 = 0.01;
/// Maximum number of packets in flight that are stored.
const MAX_OUTSTANDING: usize = 1 << 20;
/// Maximum number of different packet sizes that are counted.
const MAX_SIZES: usize = 4096;
/// Least length of a log, round trips.
const LEAST_BINS: usize = 10;
/// Least number of acknowledged packets.
const LEAST_ACKED: u64 = 50;
/// Packets smaller than this carry acknowledgments alone.
const LEAST_DATA_BYTES: f64 = 200.0;
/// Headers of UDP, IPv6, QUIC and its tag, by which the size of a packet in a log may exceed the
/// datagram size of congestion control.
const HEADERS_BYTES: f64 = 96.0;

/// Share by which acknowledgments that come together, or late, make a measured rate too large or an
/// RTT too long.
const UNEVEN: f64 = 0.02;

/// How a log is read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ObserveOptions {
    /// Number of the trace in the file, from 1; `None` for the first with events.
    pub trace: Option<usize>,
    /// Milliseconds in the unit of the log's RTTs.
    pub rtt_unit_ms: f64,
}

impl Default for ObserveOptions {
    fn default() -> Self {
        ObserveOptions { trace: None, rtt_unit_ms: 1.0 }
    }
}

/// Properties of a log and its sender.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LogFacts {
    /// Time from the first to the last packet of data sent, seconds.
    pub length_s: f64,
    /// Length of the bins in which it is compared, at least a round trip, seconds.
    pub bin_s: f64,
    /// Bytes of most packets, as in the log.
    pub packet_bytes: f64,
    /// Bytes of a packet in windows.
    pub window_unit_bytes: f64,
    /// Window at the start, packets.
    pub initial_window_packets: Option<f64>,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets acknowledged.
    pub packets_acked: u64,
    /// Packets declared lost.
    pub packets_lost: u64,
    /// Packets that arrived with congestion experienced.
    pub marks: u64,
    /// Mean number of packets that an acknowledgment names for the first time.
    pub packets_per_ack: f64,
    /// Share of the time in which less than half of the window was in flight.
    pub unused_window_share: Option<f64>,
    /// Milliseconds in the unit of the log's RTTs.
    pub rtt_unit_ms: f64,
    /// The smallest RTT from a packet to its acknowledgment, seconds.
    pub min_rtt_s: f64,
    /// The RTT that 2 % of the round trips exceed, seconds.
    pub high_rtt_s: f64,
}

/// A log, ready to be compared with runs.
#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) facts: LogFacts,
    pub(crate) series: Series,
    /// Limits of the link.
    pub(crate) measured: Measured,
    /// Links with which the search begins.
    pub(crate) starts: Vec<Link>,
    /// Remarks.
    pub(crate) notes: Vec<String>,
}

/// Limits of the link that the log shows: no measured rate is above that of the link, and no RTT
/// below its own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Measured {
    pub(crate) rate_bps: f64,
    pub(crate) base_rtt_s: f64,
}

/// Why a log cannot be used.
#[derive(Debug)]
pub(crate) enum Unusable {
    Log(LogError),
    Cancelled,
}

impl From<LogError> for Unusable {
    fn from(error: LogError) -> Self {
        Unusable::Log(error)
    }
}

impl Observed {
    pub(crate) fn read(
        path: &Path,
        options: &ObserveOptions,
        cancel: &AtomicBool,
    ) -> Result<Self, Unusable> {
        let mut reader = LogReader::open(path, options.trace)?;
        let mut record = Record::new(options.rtt_unit_ms);
        while let Some(event) = reader.next_event()? {
            record.take(&event);
            if reader.events().is_multiple_of(4096) && cancel.load(Ordering::Relaxed) {
                return Err(Unusable::Cancelled);
            }
        }
        let unusable = |message| LogError { path: path.to_owned(), message };
        Ok(record.finish(reader.events()).map_err(unusable)?)
    }
}

/// The state at the end of a short time.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    cwnd: Option<f64>,
    in_flight: Option<f64>,
    /// As logged.
    srtt: Option<f64>,
    /// From packets and their acknowledgments.
    own_srtt: Option<f64>,
    /// RTT of the latest packet.
    rtt: Option<f64>,
    /// The largest RTT in this time.
    high_rtt: Option<f64>,
    acked: f64,
    lost: f64,
}

/// The log so far.
#[derive(Debug)]
struct Record {
    rtt_unit_ms: f64,
    zero_ms: Option<f64>,
    now_ms: f64,
    /// Time of the last packet of data.
    end_ms: f64,
    grid: Grid,
    /// Size and time of packets in flight.
    outstanding: BTreeMap<u64, (f64, f64)>,
    has_numbers: bool,
    sizes: BTreeMap<u64, u64>,
    min_rtt_ms: f64,
    windows: Windows,
    count: Counts,
}

/// The state of the connection, time by time.
#[derive(Debug)]
struct Grid {
    /// Length of a cell.
    step_ms: f64,
    cells: Vec<Cell>,
    state: Cell,
}

/// Windows that a log states at its beginning, and their unit.
#[derive(Debug, Default)]
struct Windows {
    unit: Option<f64>,
    initial: Option<f64>,
    first: Option<f64>,
}

/// Numbers of packets.
#[derive(Debug, Default)]
struct Counts {
    sent: u64,
    received: u64,
    acked: u64,
    acks: u64,
    lost: u64,
    ce: u64,
}

impl Record {
    fn new(rtt_unit_ms: f64) -> Self {
        Record {
            rtt_unit_ms,
            zero_ms: None,
            now_ms: f64::NEG_INFINITY,
            end_ms: 0.0,
            grid: Grid { step_ms: FIRST_CELL_MS, cells: Vec::new(), state: Cell::default() },
            outstanding: BTreeMap::new(),
            has_numbers: false,
            sizes: BTreeMap::new(),
            min_rtt_ms: f64::INFINITY,
            windows: Windows::default(),
            count: Counts::default(),
        }
    }

    fn take(&mut self, event: &LogEvent) {
        if let What::Sent { is_data: true, .. } = event.what {
            self.zero_ms.get_or_insert(event.time_ms);
        }
        if let Some(zero_ms) = self.zero_ms {
            self.now_ms = self.now_ms.max(event.time_ms - zero_ms);
            self.grid.fill(self.now_ms);
        }
        match &event.what {
            What::Sent { number, is_data: true, size } => self.on_sent(*number, *size),
            What::Received { acked, ce, is_data: true } => self.on_ack(acked, *ce),
            What::Lost { .. } => {
                self.count.lost += 1;
                self.grid.state.lost += 1.0;
            }
            What::Metrics(metrics) => self.on_metrics(metrics),
            What::Parameters { max_datagram_size, initial_cwnd } => {
                self.windows.unit =
                    max_datagram_size.filter(|size| *size > 0.0).or(self.windows.unit);
                self.windows.initial = self.windows.initial.or(*initial_cwnd);
            }
            _ => {}
        }
    }

    fn on_sent(&mut self, number: Option<u64>, size: Option<f64>) {
        self.count.sent += 1;
        let Some(size) = size else { return };
        if size >= LEAST_DATA_BYTES {
            self.end_ms = self.now_ms;
        }
        // The sizes of a hostile log are not limited.
        if self.sizes.len() < MAX_SIZES {
            *self.sizes.entry(size as u64).or_default() += 1;
        }
        let Some(number) = number else { return };
        self.has_numbers = true;
        self.outstanding.insert(number, (size, self.now_ms));
        if self.outstanding.len() > MAX_OUTSTANDING {
            self.outstanding.pop_first();
        }
    }

    fn on_ack(&mut self, acked: &[(u64, u64)], ce: Option<u64>) {
        self.count.received += 1;
        let mut newest: Option<(u64, f64)> = None;
        let mut count = 0;
        for &(first, last) in acked {
            // A range may exceed all packets ever sent.
            while let Some((&number, &(size, sent_ms))) =
                self.outstanding.range(first..=last).next()
            {
                self.outstanding.remove(&number);
                self.grid.state.acked += size;
                count += 1;
                newest = newest.filter(|(best, _)| *best > number).or(Some((number, sent_ms)));
            }
        }
        self.count.ce = self.count.ce.max(ce.unwrap_or(0));
        let Some((_, sent_ms)) = newest else { return };
        self.count.acked += count;
        self.count.acks += 1;
        let rtt = self.now_ms - sent_ms;
        if rtt > 0.0 {
            self.min_rtt_ms = self.min_rtt_ms.min(rtt);
            let state = &mut self.grid.state;
            state.rtt = Some(rtt);
            state.high_rtt = Some(state.high_rtt.map_or(rtt, |high| high.max(rtt)));
            // RFC 9002 section 5.3.
            state.own_srtt = Some(state.own_srtt.map_or(rtt, |srtt| srtt + (rtt - srtt) / 8.0));
        }
    }

    fn on_metrics(&mut self, metrics: &Metrics) {
        let Metrics { cwnd, in_flight, smoothed_rtt, .. } = *metrics;
        self.windows.first = self.windows.first.or(cwnd);
        let state = &mut self.grid.state;
        state.cwnd = cwnd.or(state.cwnd);
        state.in_flight = in_flight.or(state.in_flight);
        let srtt = smoothed_rtt.filter(|rtt| *rtt > 0.0).map(|rtt| rtt * self.rtt_unit_ms);
        state.srtt = srtt.or(state.srtt);
    }

    /// The whole log, or what it lacks.
    fn finish(mut self, events: u64) -> Result<Observed, String> {
        let packet_bytes = self.check(events)?;
        let mut notes = Vec::new();
        self.grid.cells.truncate((self.end_ms / self.grid.step_ms) as usize);
        let cells_in_bin = (self.min_rtt_ms / self.grid.step_ms).round().max(1.0) as usize;
        let bins: Vec<Cell> = self
            .grid
            .cells
            .chunks_exact(cells_in_bin)
            .map(|cells| {
                let high = cells.iter().filter_map(|cell| cell.high_rtt).reduce(f64::max);
                Cell { high_rtt: high, ..cells[cells.len() - 1] }
            })
            .collect();
        if bins.len() < LEAST_BINS {
            return Err(format!(
                "is too short for a fit: data were sent for {:.1} ms, less than {LEAST_BINS} round \
                 trips of {:.1} ms",
                self.end_ms, self.min_rtt_ms
            ));
        }
        let unit = self
            .windows
            .unit
            .filter(|unit| (*unit..=*unit + HEADERS_BYTES).contains(&packet_bytes));
        let unit = unit.unwrap_or(packet_bytes);
        let initial = self.windows.initial.or(self.windows.first).filter(|window| *window > 0.0);
        let initial_window_packets = initial.map(|window| (window / unit).clamp(1.0, 1e6));
        let high_rtts = bins.iter().filter_map(|bin| bin.high_rtt);
        let high_rtt_ms = share_below(high_rtts.collect(), 0.98).unwrap_or(self.min_rtt_ms);
        let mut series = series(&bins, unit);
        if is_in_seconds(&series.srtt, &bins) {
            notes.push(
                "the smoothed RTTs of the log are a thousand times smaller than those of its \
                 packets, and read as seconds, as quinn 0.11 writes them"
                    .to_owned(),
            );
            series.srtt.iter_mut().for_each(|rtt| *rtt *= 1000.0);
            self.rtt_unit_ms *= 1000.0;
        }
        let unused =
            bins.iter().filter_map(|bin| Some(bin.in_flight? + 2.0 * unit < 0.5 * bin.cwnd?));
        let unused: Vec<bool> = unused.collect();
        let facts = LogFacts {
            length_s: bins.len() as f64 * cells_in_bin as f64 * self.grid.step_ms / 1000.0,
            bin_s: cells_in_bin as f64 * self.grid.step_ms / 1000.0,
            packet_bytes,
            window_unit_bytes: unit,
            initial_window_packets,
            packets_sent: self.count.sent,
            packets_acked: self.count.acked,
            packets_lost: self.count.lost,
            marks: self.count.ce,
            packets_per_ack: self.count.acked as f64 / self.count.acks.max(1) as f64,
            unused_window_share: (!unused.is_empty()).then(|| {
                unused.iter().filter(|unused| **unused).count() as f64 / unused.len() as f64
            }),
            rtt_unit_ms: self.rtt_unit_ms,
            min_rtt_s: self.min_rtt_ms / 1000.0,
            high_rtt_s: high_rtt_ms / 1000.0,
        };
        notes.extend(remarks(&facts));
        let rates = rates(&facts, &bins);
        let most_bps = rates.iter().copied().reduce(f64::max).unwrap_or(0.0);
        let measured = Measured {
            rate_bps: most_bps * (1.0 - UNEVEN),
            base_rtt_s: facts.min_rtt_s * (1.0 + UNEVEN),
        };
        let high_bps = share_below(rates, 0.9).unwrap_or(0.0);
        let starts = starts(&facts, &bins, high_bps, most_bps);
        Ok(Observed { facts, series, measured, starts, notes })
    }

    /// The size of most packets with data.
    fn packet_bytes(&self) -> Option<f64> {
        let of_data = self.sizes.iter().filter(|(size, _)| **size as f64 >= LEAST_DATA_BYTES);
        // Of sizes that are equally frequent, the largest.
        of_data.max_by_key(|(size, count)| (**count, **size)).map(|(size, _)| *size as f64)
    }

    /// The size of most packets with data, if nothing is missing.
    fn check(&self, events: u64) -> Result<f64, String> {
        const SENDER: &str = "a fit needs the log of the sender of the data";
        if events == 0 {
            return Err("has no events".to_owned());
        }
        if self.count.sent == 0 {
            return Err(format!("has no packet_sent events of application data; {SENDER}"));
        }
        let packet_bytes = self.packet_bytes();
        if self.count.received > 0 && packet_bytes.is_none() && !self.sizes.is_empty() {
            return Err(format!(
                "is the log of a receiver: its {} packets are smaller than {LEAST_DATA_BYTES} bytes, \
                 as acknowledgments are; {SENDER}",
                self.count.sent
            ));
        }
        let Some(packet_bytes) = packet_bytes else {
            return Err("its packet_sent events have no sizes (raw.length)".to_owned());
        };
        if !self.has_numbers {
            return Err("its packet_sent events have no packet numbers".to_owned());
        }
        if self.count.acked < LEAST_ACKED {
            return Err(format!(
                "has acknowledgments of {} of its {} packets; a fit needs at least {LEAST_ACKED} \
                 (packet_received with ack frames, or packets_acked), and the log of the sender",
                self.count.acked, self.count.sent
            ));
        }
        if self.grid.state.cwnd.is_none() && self.grid.state.in_flight.is_none() {
            return Err("has neither congestion_window nor bytes_in_flight \
                        (recovery_metrics_updated)"
                .to_owned());
        }
        if !self.min_rtt_ms.is_finite() {
            return Err("has no time between packets and their acknowledgments".to_owned());
        }
        Ok(packet_bytes)
    }
}

impl Grid {
    /// Ends the cells before `now`.
    fn fill(&mut self, now_ms: f64) {
        while (self.cells.len() + 1) as f64 * self.step_ms <= now_ms {
            self.cells.push(self.state);
            self.state.high_rtt = None;
            if self.cells.len() == MOST_CELLS {
                let merged = self.cells.chunks_exact(2).map(|pair| Cell {
                    high_rtt: [pair[0].high_rtt, pair[1].high_rtt]
                        .into_iter()
                        .flatten()
                        .reduce(f64::max),
                    ..pair[1]
                });
                self.cells = merged.collect();
                self.step_ms *= 2.0;
            }
        }
    }
}

/// The bins in the units of the comparison.
fn series(bins: &[Cell], unit: f64) -> Series {
    let all = |of: fn(&Cell) -> Option<f64>| bins.iter().filter_map(of).collect::<Vec<f64>>();
    let packets = |of| all(of).into_iter().map(|bytes| bytes / unit).collect();
    let logged = all(|bin| bin.srtt);
    Series {
        cwnd: packets(|bin| bin.cwnd),
        in_flight: packets(|bin| bin.in_flight),
        rtt: all(|bin| bin.rtt),
        srtt: if logged.is_empty() { all(|bin| bin.own_srtt) } else { logged },
        acked: bins.iter().map(|bin| bin.acked).collect(),
        lost: bins.iter().map(|bin| bin.lost).collect(),
    }
}

/// Whether smoothed RTTs, in milliseconds as declared, are seconds by the times of the packets.
fn is_in_seconds(srtt: &[f64], bins: &[Cell]) -> bool {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let own: Vec<f64> = bins.iter().filter_map(|bin| bin.own_srtt).collect();
    (500.0..2000.0).contains(&(mean(&own) / mean(srtt)))
}

/// Properties of the log that no link of the model explains.
fn remarks(facts: &LogFacts) -> Vec<String> {
    let mut notes = Vec::new();
    if facts.marks > 0 {
        notes.push(format!(
            "{} packets of the log were marked (ECN); the queue of the model does not mark",
            facts.marks
        ));
    }
    let unused = facts.unused_window_share.unwrap_or(0.0);
    if unused > 0.1 {
        notes.push(format!(
            "less than half of the window was in flight for {:.0} % of the time: the application or \
             the pacer limits the sender; the model always has data",
            unused * 100.0
        ));
    }
    if facts.packets_per_ack > 4.0 {
        notes.push(format!(
            "an acknowledgment names {:.1} packets on average; the receiver of the model \
             acknowledges every second",
            facts.packets_per_ack
        ));
    }
    notes
}

/// The value that this share of the values does not exceed.
fn share_below(mut values: Vec<f64>, share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some(values[(last as f64 * share).round() as usize])
}

/// Acknowledged rates over some bins each, bits per second.
fn rates(facts: &LogFacts, bins: &[Cell]) -> Vec<f64> {
    /// Losses and recoveries make single bins uneven.
    const AVERAGED: usize = 4;
    let rates = bins
        .windows(AVERAGED + 1)
        .map(|bins| (bins[AVERAGED].acked - bins[0].acked) * 8.0 / (AVERAGED as f64 * facts.bin_s));
    rates.collect()
}

/// Links that the log suggests, by a rate that a tenth of the rates exceeds, and the largest one.
fn starts(facts: &LogFacts, bins: &[Cell], high: f64, most: f64) -> Vec<Link> {
    let LogFacts { min_rtt_s, high_rtt_s, packet_bytes, .. } = *facts;
    // Losses while no queue stands are random.
    let standing_s = high_rtt_s - min_rtt_s;
    let is_queue = standing_s * high > 16.0 * packet_bytes;
    let low_ms = (min_rtt_s + 0.5 * standing_s) * 1000.0;
    let random = bins.windows(3).map(|bins| {
        let lost = bins[2].lost - bins[1].lost;
        let rtt = bins.iter().filter_map(|bin| bin.high_rtt).fold(0.0, f64::max);
        if is_queue && rtt > low_ms { 0.0 } else { lost }
    });
    let sent = facts.packets_sent.max(1) as f64;
    let losses = [0.0, random.sum::<f64>() / sent, facts.packets_lost as f64 / sent];
    let mut starts = Vec::new();
    for rate_bps in [high, most, 1.5 * most] {
        let standing = (standing_s * rate_bps / 8.0 / packet_bytes).max(1.0);
        for queue_packets in [standing, 2.0 * standing + 10.0] {
            for random_loss in losses {
                starts.push(Link { rate_bps, base_rtt_s: min_rtt_s, queue_packets, random_loss });
            }
        }
    }
    starts
}
