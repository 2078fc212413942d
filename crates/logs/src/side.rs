//! One log of a comparison: its state at an instant, and its counts.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;

use crate::event::{LogEvent, Metrics, What};
use crate::quantity::Quantity;

/// Maximum number of packets in flight whose sizes are stored.
const MAX_OUTSTANDING: usize = 1 << 20;
/// Maximum number of stored notable events.
const MAX_NOTABLE: usize = 6;
/// Losses within this time count as one event, milliseconds.
const TOGETHER_MS: f64 = 10.0;

/// A possible cause of a departure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Notable {
    /// Time of the first, milliseconds of the common clock.
    pub time_ms: f64,
    /// Kind: `loss`, `mark`, `timeout`, `state`, `spurious loss`.
    pub kind: &'static str,
    /// Description.
    pub text: String,
    /// Number of packets.
    #[serde(skip)]
    count: u64,
    #[serde(skip)]
    latest_ms: f64,
}

/// State of one log at the instant up to which it was read.
#[derive(Debug)]
pub(super) struct Side {
    /// Offset that is subtracted from every time.
    zero_ms: f64,
    rtt_unit_ms: f64,
    pub(super) now_ms: f64,
    state: Metrics,
    /// Sizes of packets in flight.
    outstanding: BTreeMap<u64, f64>,
    /// Recently acknowledged bytes with their times, and their sum.
    recent: VecDeque<(f64, f64)>,
    recent_bytes: f64,
    window_ms: f64,
    /// Time of the first data.
    first_sent_ms: Option<f64>,
    pub(super) notable: VecDeque<Notable>,
    pub(super) counts: Counts,
    ce: u64,
}

/// Counts over a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Counts {
    /// Packets of the application's number space sent.
    pub packets_sent: u64,
    /// Bytes of sent packets, as far as sizes are known.
    pub bytes_sent: f64,
    /// Packets acknowledged.
    pub packets_acked: u64,
    /// Bytes of acknowledged packets.
    pub bytes_acked: f64,
    /// Packets declared lost.
    pub packets_lost: u64,
    /// Packets that the peer received with congestion experienced.
    pub marks: u64,
    /// Expiries of the loss recovery timer.
    pub timeouts: u64,
    /// The largest packet.
    pub largest_packet: f64,
    /// The largest window, bytes.
    pub max_cwnd: Option<f64>,
    /// The smallest RTT, milliseconds.
    pub min_rtt_ms: Option<f64>,
}

impl Side {
    pub(super) fn new(zero_ms: f64, window_ms: f64, rtt_unit_ms: f64) -> Self {
        Side {
            zero_ms,
            rtt_unit_ms,
            now_ms: f64::NEG_INFINITY,
            state: Metrics::default(),
            outstanding: BTreeMap::new(),
            recent: VecDeque::new(),
            recent_bytes: 0.0,
            window_ms,
            first_sent_ms: None,
            notable: VecDeque::new(),
            counts: Counts::default(),
            ce: 0,
        }
    }

    /// Time of an event on the common clock. Events out of order count as simultaneous with the
    /// latest before them.
    pub(super) fn time_of(&self, event: &LogEvent) -> f64 {
        (event.time_ms - self.zero_ms).max(self.now_ms)
    }

    /// Processes an event.
    pub(super) fn apply(&mut self, event: &LogEvent) {
        let now = self.time_of(event);
        self.now_ms = now;
        match &event.what {
            What::Sent { number, is_data: true, size } => self.on_sent(*number, *size),
            What::Received { acked, ce, is_data: true } => self.on_ack(acked, *ce),
            What::Lost { number, trigger } => self.on_lost(*number, trigger.as_deref()),
            What::Metrics(metrics) => self.on_metrics(metrics),
            What::State { old, new, trigger } => {
                let old = old.as_ref().map_or_else(String::new, |old| format!("{old} to "));
                let why = trigger.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
                self.note("state", format!("{old}{new}{why}"), 0);
            }
            What::Expired => {
                self.counts.timeouts += 1;
                self.note("timeout", "the loss recovery timer expired".to_owned(), 0);
            }
            What::Spurious => {
                self.note("spurious loss", "packets declared lost had arrived".to_owned(), 0);
            }
            What::Sent { .. } | What::Received { .. } | What::Parameters { .. } | What::Other => {}
        }
    }

    fn on_sent(&mut self, number: Option<u64>, size: Option<f64>) {
        self.first_sent_ms.get_or_insert(self.now_ms);
        self.counts.packets_sent += 1;
        let Some(size) = size else { return };
        self.counts.bytes_sent += size;
        self.counts.largest_packet = self.counts.largest_packet.max(size);
        let Some(number) = number else { return };
        self.outstanding.insert(number, size);
        if self.outstanding.len() > MAX_OUTSTANDING {
            self.outstanding.pop_first();
        }
    }

    fn on_ack(&mut self, acked: &[(u64, u64)], ce: Option<u64>) {
        let mut bytes = 0.0;
        for &(first, last) in acked {
            // A range may exceed all packets ever sent.
            while let Some((&number, _)) = self.outstanding.range(first..=last).next() {
                bytes += self.outstanding.remove(&number).unwrap_or_default();
                self.counts.packets_acked += 1;
            }
        }
        if bytes > 0.0 {
            self.counts.bytes_acked += bytes;
            self.recent.push_back((self.now_ms, bytes));
            self.recent_bytes += bytes;
        }
        if let Some(ce) = ce
            && ce > self.ce
        {
            let new = ce - self.ce;
            self.ce = ce;
            self.counts.marks = ce;
            let packets = if new == 1 { "packet" } else { "packets" };
            self.note("mark", format!("{new} {packets} marked"), 0);
        }
    }

    fn on_lost(&mut self, number: Option<u64>, trigger: Option<&str>) {
        self.counts.packets_lost += 1;
        let now = self.now_ms;
        let why = trigger.map_or_else(String::new, |trigger| format!(" ({trigger})"));
        // Merge losses in a row, which would fill the list.
        if let Some(last) = self.notable.back_mut()
            && last.kind == "loss"
            && now - last.latest_ms <= TOGETHER_MS
        {
            last.count += 1;
            last.latest_ms = now;
            last.text = format!("{} packets lost{why}", last.count);
            return;
        }
        let text = match number {
            Some(number) => format!("packet {number} lost{why}"),
            None => format!("a packet lost{why}"),
        };
        self.note("loss", text, 1);
    }

    fn on_metrics(&mut self, metrics: &Metrics) {
        let Metrics { cwnd, in_flight, smoothed_rtt, latest_rtt, min_rtt, ssthresh } = *metrics;
        let in_ms = |rtt: Option<f64>| rtt.map(|rtt| rtt * self.rtt_unit_ms);
        let [smoothed_rtt, latest_rtt, min_rtt] = [smoothed_rtt, latest_rtt, min_rtt].map(in_ms);
        let state = &mut self.state;
        state.cwnd = cwnd.or(state.cwnd);
        state.in_flight = in_flight.or(state.in_flight);
        state.smoothed_rtt = smoothed_rtt.or(state.smoothed_rtt);
        state.latest_rtt = latest_rtt.or(state.latest_rtt);
        state.min_rtt = min_rtt.or(state.min_rtt);
        state.ssthresh = ssthresh.or(state.ssthresh);
        let counts = &mut self.counts;
        if let Some(cwnd) = cwnd {
            counts.max_cwnd = Some(counts.max_cwnd.map_or(cwnd, |most| most.max(cwnd)));
        }
        for rtt in [min_rtt, latest_rtt].into_iter().flatten().filter(|rtt| *rtt > 0.0) {
            counts.min_rtt_ms = Some(counts.min_rtt_ms.map_or(rtt, |least| least.min(rtt)));
        }
    }

    fn note(&mut self, kind: &'static str, text: String, count: u64) {
        if self.notable.len() == MAX_NOTABLE {
            self.notable.pop_front();
        }
        let now = self.now_ms;
        self.notable.push_back(Notable { time_ms: now, kind, text, count, latest_ms: now });
    }

    /// The congestion window, bytes.
    pub(super) fn cwnd(&self) -> Option<f64> {
        self.state.cwnd
    }

    /// Bytes in flight.
    pub(super) fn bytes_in_flight(&self) -> Option<f64> {
        self.state.in_flight
    }

    /// The smoothed RTT, milliseconds.
    pub(super) fn smoothed_rtt(&self) -> Option<f64> {
        self.state.smoothed_rtt.filter(|rtt| *rtt > 0.0)
    }

    /// Value of a quantity at `now`, which is not before the latest event.
    pub(super) fn value(&mut self, quantity: Quantity, now_ms: f64) -> Option<f64> {
        match quantity {
            Quantity::Cwnd => self.cwnd(),
            Quantity::BytesInFlight => self.bytes_in_flight(),
            Quantity::SmoothedRtt => self.smoothed_rtt(),
            Quantity::Rate => self.rate(now_ms),
        }
    }

    /// Acknowledged rate over the window before `now`, bits per second; `None` before a full window
    /// and the first acknowledgment.
    fn rate(&mut self, now_ms: f64) -> Option<f64> {
        let begin = now_ms - self.window_ms;
        while let Some(&(time, bytes)) = self.recent.front()
            && time <= begin
        {
            self.recent.pop_front();
            self.recent_bytes -= bytes;
        }
        if self.recent.is_empty() {
            self.recent_bytes = 0.0; // Removes a rounding error.
        }
        let is_known = self.first_sent_ms.is_some_and(|first| first <= begin);
        // Bits per millisecond are kilobits per second.
        (is_known && self.counts.bytes_acked > 0.0)
            .then(|| self.recent_bytes * 8.0 / self.window_ms * 1000.0)
    }
}
