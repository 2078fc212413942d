//! The outcome of a run: measurements of flows, transfers, groups and links, and of the run as a
//! whole.
//!
//! Each measured quantity is one line of a `measured!` list here, and [`Metric`] says what follows
//! from it.

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Serialize};
use windward_core::units::{Duration, Time};

use crate::Name;
use crate::delays::Delays;
use crate::metric::{
    Counts, Has, Kinds, Measured, Metric, Rule, bytes, count, kept, measured, number, packets,
    rate, ratio, seconds, share, text,
};
use crate::table::Cell;

mod instants {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use windward_core::units::Time;

    pub(super) fn serialize<S: Serializer>(times: &[Time], to: S) -> Result<S::Ok, S::Error> {
        let ps: Vec<u64> = times.iter().map(|t| t.as_ps()).collect();
        ps.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Time>, D::Error> {
        let ps = Vec::<u64>::deserialize(from)?;
        Ok(ps.into_iter().map(Time::from_ps).collect())
    }
}

/// The measurements of one run. Metrics of flows, utilization and mean queues cover the time
/// after the warm-up; the packet counts of links cover the whole run, so that they balance.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// The seed of the run.
    pub seed: u64,
    /// Length of the run.
    #[serde(with = "kept")]
    pub duration: Duration,
    /// Length of its first part, which the metrics leave out.
    #[serde(with = "kept")]
    pub warmup: Duration,
    /// One row per flow, in the order of the scenario.
    pub flows: Vec<FlowOutcome>,
    /// One row per transfer that [`crate::scenario::Arrivals`] started. Transfers between one pair
    /// of hosts follow those between another, each in the order in which they began.
    pub transfers: Vec<TransferOutcome>,
    /// One row per group.
    pub groups: Vec<GroupOutcome>,
    /// One row per directed link.
    pub links: Vec<LinkOutcome>,
    /// Windows and queues over time, if [`crate::Scenario::sample`] asks for them.
    pub samples: Option<Samples>,
    /// Jain's fairness index over the goodput of all connections; 1 if there are none.
    pub jain: f64,
    /// Packets, data or acknowledgments, times the links that they crossed.
    pub packet_hops: u64,
    /// Events taken from the event queue.
    pub events: u64,
    /// Hash over every delivery at every endpoint with its time: two runs with the same
    /// fingerprint behaved identically.
    pub fingerprint: u64,
}

/// A row of an outcome: its metrics, in the order of JSON keys and columns.
pub trait Row: Sized + 'static {
    /// The type of the whole of which it is a row.
    type Of: 'static;

    /// Its metrics. Names with a dot belong to an object within the row, as `phases.count`.
    fn all() -> &'static [Metric<Self, Self::Of>];

    /// The metrics that files contain.
    fn shown() -> impl Iterator<Item = &'static Metric<Self, Self::Of>> + Clone {
        Self::all().iter().filter(|metric| !metric.internal)
    }
}

macro_rules! rows {
    ($row:ty, $of:ty, $all:expr) => {
        impl $crate::outcome::Row for $row {
            type Of = $of;

            fn all() -> &'static [$crate::metric::Metric<Self, $of>] {
                use $crate::metric::Metric;
                static ALL: std::sync::LazyLock<Vec<Metric<$row, $of>>> =
                    std::sync::LazyLock::new(|| $all);
                &ALL
            }
        }
    };
}
pub(crate) use rows;

measured! {
    /// The metrics of a flow, and those of a group of flows as far as the rules of the metrics sum
    /// them up. What a kind of flow does not have is `None`.
    #[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
    pub summed struct FlowMetrics {
        /// Rate of unique packets delivered, at their size on the wire; for a port on a real clock,
        /// over the time in which programs could send; for a QUIC stack, of application bytes.
        goodput_bps: f64 = rate("goodput_bps").of(Kinds::ALL).groups(Rule::Sum)
            .quantity("goodput", Rule::Sum).in_flow_rows().in_run_rows(2);
        /// Throughput at the bottleneck link of the flow.
        throughput_bps: f64 = rate("throughput_bps").groups(Rule::Sum)
            .quantity("throughput", Rule::Sum).in_flow_rows().in_run_rows(1);
        /// Data packets sent, retransmissions included.
        packets_sent: u64 = count("packets_sent").of(Kinds::ALL).groups(Rule::Sum)
            .quantity("packets_sent", Rule::Sum).in_flow_rows().in_run_rows(5);
        /// Data packets sent again; of a QUIC stack, packets that it declared lost.
        retransmissions: Option<u64> = count("retransmissions").of(Kinds::CONNECTIONS).groups(Rule::Sum)
            .quantity("retransmissions", Rule::Sum).in_flow_rows().in_run_rows(6);
        /// Expiries of the retransmission timer.
        timeouts: Option<u64> = count("timeouts").of(Kinds::TRANSPORT.and(Kinds::REMOTE)).groups(Rule::Sum)
            .quantity("timeouts", Rule::Sum).in_flow_rows().in_run_rows(7);
        /// Number of invalid windows (not a number, below one packet, beyond 2^32) returned by an
        /// external controller in the whole run; each was replaced by the nearest valid one.
        refused_windows: Option<u64> = count("refused_windows").of(Kinds::CONNECTIONS).groups(Rule::Sum).internal();
        /// Mean of the RTT samples; 0 without samples.
        mean_rtt_s: Option<f64> = seconds("mean_rtt_s").of(Kinds::CONNECTIONS).groups(Rule::MeanOfMeasured)
            .quantity("mean_rtt", Rule::Mean).in_flow_rows();
        /// Mean one-way delay of the datagrams that arrived after the warm-up.
        mean_delay_s: Option<f64> = seconds("mean_delay_s").of(Kinds::ANY_DATAGRAMS).groups(Rule::Mean);
        /// Datagrams sent after the warm-up that queues dropped or channels destroyed.
        datagrams_lost: Option<u64> = count("datagrams_lost").of(Kinds::ANY_DATAGRAMS).groups(Rule::Sum);
        /// Frames made after the warm-up with a deadline before the end of the run.
        frames: Option<u64> = count("frames").of(Kinds::MEDIA);
        /// Those of these frames that were not complete at the receiver within the deadline of the
        /// scenario, late or with a packet lost.
        late_frames: Option<u64> = count("late_frames").of(Kinds::MEDIA);
        /// Mean of the target rates of the frames made after the warm-up.
        target_rate_bps: Option<f64> = rate("target_rate_bps").of(Kinds::MEDIA).groups(Rule::Sum)
            .quantity("target_rate", Rule::Sum);
        /// Mean time for which packets waited in the sender, for pacing or for a window, after the
        /// warm-up.
        sender_delay_s: Option<f64> = seconds("sender_delay_s").of(Kinds::MEDIA)
            .quantity("sender_delay", Rule::Mean);
        /// Rate of the receiver's reports after the warm-up, on the wire.
        report_rate_bps: Option<f64> = rate("report_rate_bps").of(Kinds::MEDIA)
            .quantity("report_rate", Rule::Sum);
        /// Number of times that the congestion circuit breaker of RFC 8083 section 4.3 would have
        /// tripped in the whole run, with a restart after each trip.
        circuit_breaker_trips: Option<u64> = count("circuit_breaker_trips").of(Kinds::MEDIA)
            .quantity("circuit_breaker", Rule::Sum);
        /// Time of the first trip.
        circuit_breaker_first: Option<Time> = seconds("circuit_breaker_first_s").of(Kinds::MEDIA);
        /// Time average of the congestion window.
        mean_cwnd_packets: Option<f64> = packets("mean_cwnd_packets").of(Kinds::CONNECTIONS).groups(Rule::Mean)
            .quantity("cwnd", Rule::Mean).in_flow_rows().in_run_rows(4);
        /// Start of the flow; the first instant at which transfers may arrive.
        start: Time = seconds("start_s").of(Kinds::ALL).in_flow_rows();
        /// Time at which a transfer of fixed size was fully acknowledged.
        completed: Option<Time> = seconds("completed_s").of(Kinds::CONNECTIONS).in_flow_rows();
        /// Estimate by the sender of the share of its data packets that was lost: by LEAST
        /// (eten2004 section 4.2), or by what a QUIC stack declared lost; whole run.
        loss_estimate: Option<f64> = ratio("loss_estimate").of(Kinds::CONNECTIONS)
            .quantity("loss_estimate", Rule::Mean);
        /// Share of the data packets sent that queues dropped or channels destroyed; whole run.
        true_loss: f64 = share("true_loss").of(Kinds::ALL).quantity("true_loss", Rule::Mean);
        /// Sum of the idle periods: pauses at the bottleneck longer than `idle_after`, between
        /// start (or the end of the warm-up) and completion or stop.
        idle_s: Option<f64> = seconds("idle_s").of(Kinds::TRANSPORT.and(Kinds::STACK)).quantity("idle", Rule::Mean);
        /// Longest idle period.
        longest_idle_s: Option<f64> = seconds("longest_idle_s").of(Kinds::TRANSPORT.and(Kinds::STACK))
            .quantity("longest_idle", Rule::Greatest);
        /// Number of idle periods.
        idle_periods: Option<u64> = count("idle_periods").of(Kinds::TRANSPORT.and(Kinds::STACK))
            .quantity("idle_periods", Rule::Sum);
    }
}

impl FlowMetrics {
    /// Adds the metrics of a transfer to those of its pair of hosts.
    pub(crate) fn add_transfer(&mut self, transfer: &FlowMetrics) {
        self.add(transfer, &mut Counts::new(), Rule::adds_up);
    }
}

/// The outcome of one flow after the warm-up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowOutcome {
    /// Name of the flow.
    pub name: Name,
    /// Index of its group.
    pub group: usize,
    /// Name of its protocol, or `datagrams`. The row of a pair of hosts between which transfers
    /// arrive is the sum over its transfers, without what no sum has.
    pub protocol: Cow<'static, str>,
    /// Its metrics.
    pub metrics: FlowMetrics,
    /// Time from the start to the end of the handshake; zero without one, and before it ends. Only
    /// connections of [stacks](crate::stack) have one.
    #[serde(with = "kept")]
    pub handshake: Duration,
    /// As [`GroupOutcome::throughput_bins`], if [`crate::Scenario::flow_bins`] asks for it;
    /// else empty.
    pub throughput_bins: Vec<f64>,
    /// Reason why the connection failed. Only those of [stacks](crate::stack) do; a panic of theirs
    /// ends the connection, not the run.
    pub failure: Option<String>,
}

impl FlowOutcome {
    /// A flow without metrics.
    pub fn new(name: Name, group: usize, protocol: impl Into<Cow<'static, str>>) -> Self {
        FlowOutcome {
            name,
            group,
            protocol: protocol.into(),
            metrics: FlowMetrics::default(),
            handshake: Duration::ZERO,
            throughput_bins: Vec::new(),
            failure: None,
        }
    }
}

rows!(FlowOutcome, Outcome, {
    let mut all = vec![
        text("name")
            .means("Name of the flow.")
            .words(|flow: &FlowOutcome, _| Cell::text(&flow.name)),
        text("group").means("Name of its group.").words(|flow, outcome: &Outcome| {
            Cell::text(outcome.groups.get(flow.group).map_or("", |group| &group.name))
        }),
        text("protocol")
            .means("Name of its protocol, or `datagrams`.")
            .words(|flow: &FlowOutcome, _| Cell::text(&flow.protocol)),
    ];
    all = all.into_iter().map(|metric| metric.of(Kinds::ALL).in_flow_rows()).collect();
    all.extend(FlowMetrics::metrics());
    all.push(
        text("failure")
            .means("Reason why the connection failed.")
            .words(|flow: &FlowOutcome, _| flow.failure.as_deref().map_or(Cell::Empty, Cell::text))
            .of(Kinds::STACK)
            .sometimes(),
    );
    all
});

measured! {
    /// One transfer that arrived at random, over its whole life.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct TransferOutcome {
        /// Start of the transfer.
        start: Time = seconds("start_s");
        /// Size drawn for it.
        bytes: u64 = bytes("bytes");
        /// Size in packets, rounded up.
        packets: u64 = packets("packets");
        /// Length of the handshake; zero except for QUIC stacks.
        handshake: Duration = seconds("handshake_s");
        /// Time at which it was fully acknowledged, if that was before the end of the run.
        completed: Option<Time> = seconds("completed_s").internal();
        /// Data packets sent, retransmissions included.
        packets_sent: u64 = count("packets_sent");
        /// Data packets sent again; of a QUIC stack, packets that it declared lost.
        retransmissions: u64 = count("retransmissions");
        /// Expiries of the retransmission timer.
        timeouts: Option<u64> = count("timeouts").of(Kinds::TRANSPORT);
        beside
        /// Index of the flow, the pair of hosts between which it ran.
        flow: usize,
    }
}

rows!(TransferOutcome, Outcome, {
    let mut all = vec![
        text("flow").means("Pair of hosts between which it ran, as `web-3`.").words(
            |transfer: &TransferOutcome, outcome: &Outcome| {
                let flow = outcome.flows.get(transfer.flow);
                Cell::text(flow.map_or("", |flow| &flow.name))
            },
        ),
        text("group").means("Name of its group.").words(|transfer, outcome| {
            let flow = outcome.flows.get(transfer.flow);
            let group = flow.and_then(|flow| outcome.groups.get(flow.group));
            Cell::text(group.map_or("", |group| &group.name))
        }),
    ];
    all.extend(TransferOutcome::metrics());
    let time = seconds("completion_time_s")
        .means("Time from the end of the handshake to the acknowledgment of the last packet.")
        .real(|transfer: &TransferOutcome, _| transfer.completion_time().cell());
    insert_after(&mut all, "handshake_s", vec![time]);
    all
});

/// Inserts `more` after the metric of this name.
pub(crate) fn insert_after<T, C>(all: &mut Vec<Metric<T, C>>, name: &str, more: Vec<Metric<T, C>>) {
    let at = all.iter().position(|metric| metric.name == name).map_or(all.len(), |at| at + 1);
    all.splice(at..at, more);
}

impl TransferOutcome {
    /// Time from the instant at which it could send to the acknowledgment of its last
    /// packet; `None` if the run ended before. Handshakes are left out, since Windward's own
    /// connections have none, so that stacks are comparable with them.
    pub fn completion_time(&self) -> Option<Duration> {
        self.completed.map(|completed| completed.since(self.start + self.handshake))
    }
}

/// Sums and means over a group of flows.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct GroupOutcome {
    /// Name of the group.
    pub name: String,
    /// Number of its flows.
    pub flows: usize,
    /// The metrics of its flows, summed up by their [rules](Metric::groups).
    pub metrics: FlowMetrics,
    /// The one-way delays of its datagrams that arrived after the warm-up, if there are any.
    pub delays: Option<Box<Delays>>,
    /// Throughput at the bottleneck in each bin of [`crate::Scenario::bin`] from the start of
    /// the run, warm-up included, bits per second.
    pub throughput_bins: Vec<f64>,
    /// Index of the first bin that lies wholly after the warm-up.
    pub first_bin: usize,
}

rows!(GroupOutcome, Outcome, {
    let mut all = vec![
        text("name")
            .means("Name of the group.")
            .words(|group: &GroupOutcome, _| Cell::text(&group.name))
            .of(Kinds::ALL),
        count("flows")
            .means("Number of its flows.")
            .whole(|group: &GroupOutcome, _| Cell::Count(group.flows as u64))
            .of(Kinds::ALL),
    ];
    all.extend(FlowMetrics::metrics().into_iter().filter(|metric| metric.groups.is_some()));
    let quantiles = vec![
        seconds("delay_p50_s")
            .means("One-way delay that half of the datagrams do not exceed, within 0.8 %.")
            .real(|group: &GroupOutcome, _| group.delay(0.5)),
        seconds("delay_p95_s")
            .means("One-way delay that 95 % of the datagrams do not exceed, within 0.8 %.")
            .real(|group, _| group.delay(0.95)),
        seconds("delay_p99_s")
            .means("One-way delay that 99 % of the datagrams do not exceed, within 0.8 %.")
            .real(|group, _| group.delay(0.99)),
    ];
    let quantiles = quantiles.into_iter().map(|metric| metric.of(Kinds::ANY_DATAGRAMS));
    insert_after(&mut all, "mean_delay_s", quantiles.collect());
    all.push(
        number("throughput_cv")
            .means("Coefficient of variation of the throughput in bins.")
            .real(|group: &GroupOutcome, _| Cell::Real(group.throughput_cv()))
            .in_run_rows(3),
    );
    all
});

impl GroupOutcome {
    /// The group `name` of these flows, without delays and bins.
    pub fn of<'a>(name: String, flows: impl IntoIterator<Item = &'a FlowOutcome>) -> Self {
        let mut group = GroupOutcome { name, ..GroupOutcome::default() };
        let mut counts = Vec::new();
        for flow in flows {
            group.flows += 1;
            group.metrics.add(&flow.metrics, &mut counts, |_| true);
        }
        group.metrics.finish(&counts);
        group
    }

    fn delay(&self, share: f64) -> Cell<'static> {
        self.delays.as_deref().and_then(|delays| delays.quantile(share)).cell()
    }

    /// Throughput in each bin that lies wholly after the warm-up.
    pub fn measured_bins(&self) -> &[f64] {
        self.throughput_bins.get(self.first_bin..).unwrap_or_default()
    }

    /// Coefficient of variation of the throughput in bins after the warm-up: the sample
    /// standard deviation over the mean. Zero with fewer than two bins or no throughput.
    pub fn throughput_cv(&self) -> f64 {
        let bins = self.measured_bins();
        let n = bins.len() as f64;
        let mean = bins.iter().sum::<f64>() / n;
        if bins.len() < 2 || mean == 0.0 {
            return 0.0;
        }
        let var = bins.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (n - 1.0);
        var.sqrt() / mean
    }
}

macro_rules! has_flow_metrics {
    ($($row:ty),+) => {$(
        impl Has<FlowMetrics> for $row {
            fn part(&self) -> Option<&FlowMetrics> {
                Some(&self.metrics)
            }
        }

        /// The metrics are read and written as if they were fields of the row.
        impl Deref for $row {
            type Target = FlowMetrics;

            fn deref(&self) -> &FlowMetrics {
                &self.metrics
            }
        }

        impl DerefMut for $row {
            fn deref_mut(&mut self) -> &mut FlowMetrics {
                &mut self.metrics
            }
        }
    )+};
}

has_flow_metrics!(FlowOutcome, GroupOutcome);

measured! {
    /// The outcome of one directed link. `arrived = delivered + dropped + corrupted + in_flight`.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct LinkOutcome {
        /// Share of the time in which the wire was busy; with a changing rate or outages, bytes
        /// carried over the bytes that could have been carried.
        utilization: f64 = share("utilization").called("utilization").in_run_rows(1);
        /// Packets offered to the queue, whole run.
        arrived: u64 = count("arrived").called("arrivals");
        /// Packets dropped by the queue, whole run.
        dropped: u64 = count("dropped").called("drops").in_run_rows(3);
        /// Packets destroyed by the channel, whole run.
        corrupted: u64 = count("corrupted").called("corrupted").in_run_rows(4);
        /// Packets that reached the far end, whole run.
        delivered: u64 = count("delivered");
        /// Packets still queued or on the wire when the run ended.
        in_flight: u64 = count("in_flight");
        /// Packets delivered after one that was put on the wire later (RFC 4737), whole run.
        reordered: u64 = count("reordered");
        /// Packets marked by the queue (ECN) or its router (congestion flag), whole run.
        marked: u64 = count("marked").called("marks");
        /// Time average of the packets that wait behind the one in transmission.
        mean_queue_packets: f64 = packets("mean_queue_packets").called("mean_queue").in_run_rows(2);
        /// Longest queue that an arriving packet met, whole run.
        max_queue_packets: u64 = packets("max_queue_packets").called("max_queue");
        beside
        /// Name of the link.
        name: Name,
        /// The phases of its traffic controller (estcp2010), if there were any.
        phases: Option<Box<PhaseOutcome>>,
    }
}

measured! {
    /// The phases of a traffic controller that lie wholly after the warm-up.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct PhaseOutcome {
        /// Number of phases of an ESTCP controller that lie wholly after the warm-up, at least one.
        count: u64 = count("phases.count").called("phases");
        /// Mean length of a phase.
        mean_length: f64 = seconds("phases.mean_length_s").called("phase_length");
        /// Mean of g at the router, seconds per packet.
        mean_g: f64 = seconds("phases.mean_g_s").called("phase_g");
        /// Upper bound of the shortest queue in every phase, as a share of the limit.
        queue_low: f64 = share("phases.queue_low").called("phase_queue_low");
        /// Lower bound of the longest queue in every phase, as a share of the limit.
        queue_high: f64 = share("phases.queue_high").called("phase_queue_high");
        /// Longest time between the first and the last flow's cut for one shift.
        cut_spread: f64 = seconds("phases.cut_spread_s").called("phase_cut_spread");
        /// Number of shifts that flows did not learn of before the next one, over all flows.
        missed: u64 = count("phases.missed").called("phase_missed");
        /// Mean of g as the flows knew it at the end of each phase; absent if no flow learned of a
        /// phase.
        heard_g: Option<f64> = seconds("phases.heard_g_s").called("phase_heard_g");
        /// Mean of abs(g at the flow / g at the router - 1) over flows and phases; absent if no
        /// flow learned of a phase.
        g_error: Option<f64> = ratio("phases.g_error").called("phase_g_error");
        /// Number of phases before the run converges. From there to its end all phases, at least
        /// three, last within 10 % of the target length. Absent if the run does not converge.
        until_converged: Option<u64> = count("phases.until_converged");
    }
}

impl Has<PhaseOutcome> for LinkOutcome {
    fn part(&self) -> Option<&PhaseOutcome> {
        self.phases.as_deref()
    }
}

rows!(LinkOutcome, Outcome, {
    let name = text("name").means("Name of the link, one direction.");
    let mut all = vec![name.words(|link: &LinkOutcome, _| Cell::text(&link.name))];
    all.extend(LinkOutcome::metrics::<LinkOutcome, _>());
    all.extend(PhaseOutcome::metrics().into_iter().map(|metric| metric.sometimes().nested()));
    all
});

rows!(
    Outcome,
    Outcome,
    vec![
        count("seed").means("Seed of the run.").whole(|run: &Outcome, _| Cell::Count(run.seed)),
        seconds("duration_s").means("Length of the run.").real(|run, _| run.duration.cell()),
        seconds("warmup_s")
            .means("Length of its first part, which the metrics leave out.")
            .real(|run, _| run.warmup.cell()),
        share("jain")
            .means("Jain's fairness index over the goodput of all connections; 1 without traffic.")
            .real(|run: &Outcome, _| Cell::Real(run.jain))
            .called("jain")
            .in_run_rows(1),
        count("packet_hops")
            .means("Packets, data or acknowledgments, times the links they crossed.")
            .whole(|run, _| Cell::Count(run.packet_hops)),
        count("events")
            .means("Events taken from the event queue.")
            .whole(|run, _| Cell::Count(run.events)),
        text("fingerprint")
            .means("Hash over every delivery with its time, 16 hexadecimal digits.")
            .words(|run: &Outcome, _| Cell::Text(run.fingerprint().into()))
            .in_run_rows(2),
    ]
);

impl Outcome {
    /// The fingerprint as 16 hexadecimal digits.
    pub fn fingerprint(&self) -> String {
        format!("{:016x}", self.fingerprint)
    }
}

/// Samples at regular instants, warm-up included.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Samples {
    /// The instants: the multiples of [`crate::Scenario::sample`] from zero to the end of the
    /// run. A sample includes the events of its instant.
    #[serde(with = "instants")]
    pub times: Vec<Time>,
    /// Congestion window of each flow of the scenario at each instant, in packets, also
    /// before its start; empty for datagrams.
    pub cwnd: Vec<Vec<f64>>,
    /// One row per directed link.
    pub links: Vec<LinkSamples>,
}

/// Samples of one directed link.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LinkSamples {
    /// Packets waiting behind the one in transmission at each instant.
    pub queue: Vec<u32>,
    /// Packets that had arrived at it by each instant.
    #[serde(default)]
    pub arrived: Vec<u64>,
    /// Packets that its queue had dropped or its channel destroyed by each instant.
    #[serde(default)]
    pub lost: Vec<u64>,
    /// The value that its router sends to the flows at each instant; empty if it never
    /// sends one.
    pub signal: Vec<Option<f64>>,
}

/// Jain's fairness index (sum x)^2 / (n sum x^2) of the shares x of n flows; 1 for no flows or
/// no traffic.
pub fn jain(shares: impl Iterator<Item = f64>) -> f64 {
    let (n, sum, squares) =
        shares.fold((0.0, 0.0, 0.0), |(n, s, q), x| (n + 1.0, s + x, q + x * x));
    if squares > 0.0 { sum * sum / (n * squares) } else { 1.0 }
}
