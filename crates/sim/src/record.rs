//! The outcome of a run as JSON. Names and units are part of the interface: fields are added,
//! never renamed.

use std::io::Write;

use serde::Serialize;
use windward_core::units::{Duration, Time};

use crate::output::{OutputDir, OutputError};
use crate::table::{Cell, Column, Format, Kind, TableWriter};
use crate::{
    Delays, FlowOutcome, GroupOutcome, LinkOutcome, Outcome, PhaseOutcome, TransferOutcome,
};

/// One run, as `windward run --json` writes it.
///
/// ```
/// use windward_sim::record::RunRecord;
/// use windward_sim::scenario::file::ScenarioFile;
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
/// let outcome = windward_sim::run(&scenario);
/// let json: serde_json::Value = serde_json::from_str(&RunRecord::new(&outcome).to_json())?;
/// assert_eq!(json["flows"][0]["name"], "bulk-1");
/// assert!(json["flows"][0]["goodput_bps"].as_f64() > Some(0.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunRecord<'a> {
    /// Version of the program.
    pub windward: &'static str,
    /// The seed of the run.
    pub seed: u64,
    /// Length of the run, seconds.
    pub duration_s: f64,
    /// Its first part, left out of the figures, seconds.
    pub warmup_s: f64,
    /// One row per flow.
    pub flows: Vec<FlowRecord<'a>>,
    /// One row per transfer that came by itself; absent if there was none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub transfers: Vec<TransferRecord<'a>>,
    /// One row per group of flows.
    pub groups: Vec<GroupRecord<'a>>,
    /// One row per directed link.
    pub links: Vec<LinkRecord<'a>>,
    /// Jain's fairness index over the goodput of all transport flows.
    pub jain: f64,
    /// Packets, data or acknowledgments, times the links they crossed.
    pub packet_hops: u64,
    /// Events taken from the queue.
    pub events: u64,
    /// CPU time of the run, seconds; absent unless somebody measured it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<f64>,
    /// Two rows per port for outside programs, one for each direction; absent of what ran in virtual
    /// time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<PortRecord>,
    /// How well a clock was kept; absent of what ran in virtual time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emulation: Option<EmulationRecord>,
    /// Hexadecimal, since JSON's numbers are not that precise everywhere.
    pub fingerprint: String,
}

/// One direction of a port for outside programs, over the time in which programs could use it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PortRecord {
    /// Name of the flow that is the port.
    pub flow: String,
    /// The node at which packets came in.
    pub from: String,
    /// The node at which they went out.
    pub to: String,
    /// That time, seconds: the run without what went before in virtual time.
    pub duration_s: f64,
    /// Packets that came in.
    pub packets_sent: u64,
    /// Packets that went out.
    pub packets_delivered: u64,
    /// Those, with their IP headers, bits per second of that time.
    pub throughput_bps: f64,
}

/// How a run on a real clock kept it, over the packets that went out to programs outside.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EmulationRecord {
    /// Says little if not: more than one packet in a hundred was late or early by more than a millisecond, the kernel dropped
    /// some before they were read, or the programs waited for a CPU more than 5 % of the time.
    pub usable: bool,
    /// Packets that went out.
    pub packets: u64,
    /// Half of them were no later than this, seconds.
    pub late_p50_s: f64,
    /// 99 of a hundred were no later than this, seconds.
    pub late_p99_s: f64,
    /// The latest, seconds.
    pub late_max_s: f64,
    /// The share that was late by more than a millisecond.
    pub late_share: f64,
    /// The most by which a packet was taken for earlier than it had been read, seconds.
    pub early_max_s: f64,
    /// The share of packets that came in and were taken for more than a millisecond earlier than they had been read.
    pub early_share: f64,
    /// Did the thread that moved the packets run in real time (SCHED_FIFO)?
    pub real_time: bool,
    /// How long the programs at the most starved end were ready and had no CPU, the sum over their threads, seconds; absent where
    /// nobody watched them, or the kernel does not count it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub programs_waited_s: Option<f64>,
    /// The same over the time watched, 1 at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub programs_waited_share: Option<f64>,
    /// Packets larger than the ports let through.
    pub too_big: u64,
    /// Packets that were none of IP.
    pub malformed: u64,
    /// Packets that the kernel did not take.
    pub refused: u64,
    /// Packets that the kernel dropped because they were not read in time.
    pub overflow: u64,
}

impl EmulationRecord {
    /// The largest share of packets that may be late or early by more than a millisecond.
    pub const DISTURBED: f64 = 0.01;
    /// The largest share of the time for which programs may wait for a CPU. A sender that is kept from running is late with its bursts and
    /// its acknowledgments for that share of the time; results are held against simulations to 5 % (docs/validation.md).
    pub const STARVED: f64 = 0.05;

    /// Each thing that makes it say little, with its number: none of them if it may be used.
    pub fn faults(&self) -> Vec<String> {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let mut faults = Vec::new();
        if self.late_share > Self::DISTURBED {
            let share = percent(self.late_share);
            faults.push(format!("{share} of the packets went out more than 1 ms late"));
        }
        if self.early_share > Self::DISTURBED {
            let share = percent(self.early_share);
            faults.push(format!("{share} of the packets came in more than 1 ms early"));
        }
        if self.overflow > 0 {
            let count = self.overflow;
            faults.push(format!("packets that the kernel dropped before they were read: {count}"));
        }
        if let Some(share) = self.programs_waited_share.filter(|share| *share > Self::STARVED) {
            let share = percent(share);
            faults.push(format!("the programs waited for a CPU {share} of the time"));
        }
        faults
    }
}

/// One flow: see [`FlowOutcome`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowRecord<'a> {
    /// Name of the flow.
    pub name: &'a str,
    /// Name of its group.
    pub group: &'a str,
    /// Name of its protocol, or `datagrams`.
    pub protocol: &'a str,
    /// Unique packets delivered, at their size on the wire, bits per second.
    pub goodput_bps: f64,
    /// What it put through its bottleneck link, bits per second.
    pub throughput_bps: f64,
    /// Data packets sent, retransmissions included.
    pub packets_sent: u64,
    /// Data packets sent again.
    pub retransmissions: u64,
    /// Expiries of the recovery timer (RTO).
    pub timeouts: u64,
    /// Mean of the RTT samples, seconds, or 0 if there was none.
    pub mean_rtt_s: f64,
    /// Mean one-way delay of its datagrams, seconds; absent, as the next, for connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_delay_s: Option<f64>,
    /// How many of its datagrams were lost of those sent after the warm-up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagrams_lost: Option<u64>,
    /// Frames of its media that count; absent, as the next three, for all else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frames: Option<u64>,
    /// Those that were not whole in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_frames: Option<u64>,
    /// How often the circuit breaker of RFC 8083 section 4.3 would have tripped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub circuit_breaker_trips: Option<u64>,
    /// When it would have first, seconds; absent if never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub circuit_breaker_first_s: Option<f64>,
    /// Time average of the congestion window, packets.
    pub mean_cwnd_packets: f64,
    /// When it started, seconds.
    pub start_s: f64,
    /// When it was done, seconds; absent unless a transfer of fixed size was completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_s: Option<f64>,
    /// Share of the packets sent that was lost, as the sender estimates it.
    pub loss_estimate: f64,
    /// Share of them that queues dropped or channels destroyed.
    pub true_loss: f64,
    /// Sum of the times without a packet on the bottleneck longer than `idle_after`, seconds.
    pub idle_s: f64,
    /// The longest of them, seconds.
    pub longest_idle_s: f64,
    /// How many there were.
    pub idle_periods: u64,
    /// Why the connection is no more; absent unless it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<&'a str>,
}

/// One transfer that came by itself: see [`TransferOutcome`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TransferRecord<'a> {
    /// Name of the flow, the pair of hosts between which it ran.
    pub flow: &'a str,
    /// Name of its group.
    pub group: &'a str,
    /// When it began, seconds.
    pub start_s: f64,
    /// The size that was drawn.
    pub bytes: u64,
    /// What that is in packets, rounded up.
    pub packets: u64,
    /// How long its handshake took, seconds: only that of a [stack](crate::stack) takes any time.
    pub handshake_s: f64,
    /// From there to the acknowledgment of its last packet, seconds; absent if the run ended before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time_s: Option<f64>,
    /// Data packets sent, retransmissions included.
    pub packets_sent: u64,
    /// Data packets sent again.
    pub retransmissions: u64,
    /// Expiries of the recovery timer.
    pub timeouts: u64,
}

/// One group of flows: see [`GroupOutcome`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupRecord<'a> {
    /// Name of the group.
    pub name: &'a str,
    /// How many flows it has.
    pub flows: usize,
    /// Sum over its flows, bits per second.
    pub goodput_bps: f64,
    /// Sum over its flows, bits per second.
    pub throughput_bps: f64,
    /// Sum over its flows.
    pub packets_sent: u64,
    /// Sum over its flows.
    pub retransmissions: u64,
    /// Sum over its flows.
    pub timeouts: u64,
    /// Mean over the flows that measured one, seconds; 0 if none did.
    pub mean_rtt_s: f64,
    /// Mean one-way delay of its datagrams, seconds; absent, as the next four, without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_delay_s: Option<f64>,
    /// Their median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_p50_s: Option<f64>,
    /// What 95 % of them do not exceed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_p95_s: Option<f64>,
    /// What 99 % of them do not exceed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_p99_s: Option<f64>,
    /// How many datagrams were lost of those sent after the warm-up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagrams_lost: Option<u64>,
    /// Mean over its flows, packets.
    pub mean_cwnd_packets: f64,
    /// Coefficient of variation of its throughput in bins after the warm-up.
    pub throughput_cv: f64,
}

/// One directed link: see [`LinkOutcome`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkRecord<'a> {
    /// Name of the link.
    pub name: &'a str,
    /// Share of the time after the warm-up in which the wire was busy, 0 to 1.
    pub utilization: f64,
    /// Packets offered to the queue.
    pub arrived: u64,
    /// Packets the queue refused.
    pub dropped: u64,
    /// Packets the channel destroyed.
    pub corrupted: u64,
    /// Packets that reached the far end.
    pub delivered: u64,
    /// Packets still queued or on the wire when the run ended.
    pub in_flight: u64,
    /// Of those delivered, packets that arrived after one that had left after them.
    pub reordered: u64,
    /// Packets marked by the queue or its router.
    pub marked: u64,
    /// Time average of the packets waiting, after the warm-up.
    pub mean_queue_packets: f64,
    /// The longest queue that an arriving packet saw, packets.
    pub max_queue_packets: u64,
    /// Absent unless a traffic controller had a whole phase after the warm-up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phases: Option<PhaseRecord>,
}

/// The phases of a traffic controller (estcp2010): see [`PhaseOutcome`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhaseRecord {
    /// How many, at least one.
    pub count: u64,
    /// Their mean length, seconds.
    pub mean_length_s: f64,
    /// The mean of g, seconds.
    pub mean_g_s: f64,
    /// Of the shortest queues of all phases the longest, as a share of the limit.
    pub queue_low: f64,
    /// Of the longest queues of all phases the shortest, as a share of the limit.
    pub queue_high: f64,
    /// The longest time between the first and the last flow's cut for one shift, seconds.
    pub cut_spread_s: f64,
    /// Flows that did not hear of a shift before the next, summed over the phases.
    pub missed: u64,
    /// The mean of g as the flows knew it, seconds. Absent, as `g_error`, unless a flow heard a
    /// phase out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heard_g_s: Option<f64>,
    /// The mean of |g at the flow / g at the router - 1|.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub g_error: Option<f64>,
    /// Phases until they converge; absent if they never do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_converged: Option<u64>,
}

impl<'a> RunRecord<'a> {
    /// The record of a run.
    pub fn new(outcome: &'a Outcome) -> Self {
        let mean_rtts = group_mean_rtts(outcome);
        RunRecord {
            windward: env!("CARGO_PKG_VERSION"),
            seed: outcome.seed,
            duration_s: outcome.duration.as_secs_f64(),
            warmup_s: outcome.warmup.as_secs_f64(),
            flows: outcome
                .flows
                .iter()
                .map(|flow| FlowRecord::new(flow, &outcome.groups[flow.group].name))
                .collect(),
            transfers: outcome
                .transfers
                .iter()
                .map(|transfer| TransferRecord::new(transfer, outcome))
                .collect(),
            groups: outcome
                .groups
                .iter()
                .zip(mean_rtts)
                .map(|(group, mean_rtt_s)| GroupRecord::new(group, mean_rtt_s))
                .collect(),
            links: outcome.links.iter().map(LinkRecord::new).collect(),
            jain: outcome.jain,
            packet_hops: outcome.packet_hops,
            events: outcome.events,
            cpu_s: None,
            ports: Vec::new(),
            emulation: None,
            fingerprint: fingerprint(outcome),
        }
    }

    /// The same with the CPU time that the run took, seconds.
    #[must_use]
    pub fn with_cpu_time(self, seconds: f64) -> Self {
        RunRecord { cpu_s: Some(seconds), ..self }
    }

    /// The same, of a run on a real clock.
    #[must_use]
    pub fn with_emulation(self, emulation: EmulationRecord) -> Self {
        RunRecord { emulation: Some(emulation), ..self }
    }

    /// The same with the directions of its ports.
    #[must_use]
    pub fn with_ports(self, ports: Vec<PortRecord>) -> Self {
        RunRecord { ports, ..self }
    }

    /// As indented JSON, without a line break at the end. What is no number, as the mean of
    /// nothing, is `null`.
    pub fn to_json(&self) -> String {
        // It has neither maps nor foreign implementations that could fail.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

impl RunRecord<'_> {
    /// As [`RunRecord::to_json`], in one line.
    pub fn to_json_line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Writes `run.json`, and `run-flows.csv`, `run-groups.csv` and `run-links.csv` with a row for
    /// each of its rows, its fields as columns; an absent one is an empty cell. `run-transfers.csv` is
    /// there if transfers came by themselves.
    ///
    /// # Errors
    /// If the folder does not take them.
    pub fn write_files(&self, dir: &mut OutputDir) -> Result<(), OutputError> {
        dir.write("run.json", |out| writeln!(out, "{}", self.to_json()))?;
        let flows = self.flows.iter().map(FlowRecord::cells);
        write_rows(dir, "run-flows", &FlowRecord::COLUMNS, flows)?;
        if !self.transfers.is_empty() {
            let transfers = self.transfers.iter().map(TransferRecord::cells);
            write_rows(dir, "run-transfers", &TransferRecord::COLUMNS, transfers)?;
        }
        let groups = self.groups.iter().map(GroupRecord::cells);
        write_rows(dir, "run-groups", &GroupRecord::COLUMNS, groups)?;
        let links = self.links.iter().map(LinkRecord::cells);
        write_rows(dir, "run-links", &LinkRecord::COLUMNS, links)
    }
}

fn write_rows<'a, const N: usize>(
    dir: &mut OutputDir,
    name: &str,
    columns: &[Column<'_>; N],
    rows: impl Iterator<Item = [Cell<'a>; N]>,
) -> Result<(), OutputError> {
    let format = Format::Csv;
    dir.write(&format!("{name}.{}", format.extension()), |out| {
        let mut table = TableWriter::new(out, format, name, columns)?;
        for row in rows {
            table.row(&row)?;
        }
        table.finish().map(drop)
    })
}

impl FlowRecord<'_> {
    /// Its columns, for a [`TableWriter`].
    pub const COLUMNS: [Column<'static>; 24] = [
        Column::new("name", Kind::Text),
        Column::new("group", Kind::Text),
        Column::new("protocol", Kind::Text),
        Column::optional("goodput_bps", Kind::Real),
        Column::optional("throughput_bps", Kind::Real),
        Column::new("packets_sent", Kind::Count),
        Column::new("retransmissions", Kind::Count),
        Column::new("timeouts", Kind::Count),
        Column::optional("mean_rtt_s", Kind::Real),
        Column::optional("mean_delay_s", Kind::Real),
        Column::optional("datagrams_lost", Kind::Count),
        Column::optional("frames", Kind::Count),
        Column::optional("late_frames", Kind::Count),
        Column::optional("circuit_breaker_trips", Kind::Count),
        Column::optional("circuit_breaker_first_s", Kind::Real),
        Column::optional("mean_cwnd_packets", Kind::Real),
        Column::optional("start_s", Kind::Real),
        Column::optional("completed_s", Kind::Real),
        Column::optional("loss_estimate", Kind::Real),
        Column::optional("true_loss", Kind::Real),
        Column::optional("idle_s", Kind::Real),
        Column::optional("longest_idle_s", Kind::Real),
        Column::new("idle_periods", Kind::Count),
        Column::optional("failure", Kind::Text),
    ];

    /// The cells of [`FlowRecord::COLUMNS`].
    pub fn cells(&self) -> [Cell<'_>; 24] {
        [
            Cell::Text(self.name),
            Cell::Text(self.group),
            Cell::Text(self.protocol),
            Cell::finite(Some(self.goodput_bps)),
            Cell::finite(Some(self.throughput_bps)),
            Cell::Count(self.packets_sent),
            Cell::Count(self.retransmissions),
            Cell::Count(self.timeouts),
            Cell::finite(Some(self.mean_rtt_s)),
            Cell::finite(self.mean_delay_s),
            Cell::count(self.datagrams_lost),
            Cell::count(self.frames),
            Cell::count(self.late_frames),
            Cell::count(self.circuit_breaker_trips),
            Cell::finite(self.circuit_breaker_first_s),
            Cell::finite(Some(self.mean_cwnd_packets)),
            Cell::finite(Some(self.start_s)),
            Cell::finite(self.completed_s),
            Cell::finite(Some(self.loss_estimate)),
            Cell::finite(Some(self.true_loss)),
            Cell::finite(Some(self.idle_s)),
            Cell::finite(Some(self.longest_idle_s)),
            Cell::Count(self.idle_periods),
            self.failure.map_or(Cell::Empty, Cell::Text),
        ]
    }
}

impl TransferRecord<'_> {
    /// Its columns, for a [`TableWriter`].
    pub const COLUMNS: [Column<'static>; 10] = [
        Column::new("flow", Kind::Text),
        Column::new("group", Kind::Text),
        Column::optional("start_s", Kind::Real),
        Column::new("bytes", Kind::Count),
        Column::new("packets", Kind::Count),
        Column::optional("handshake_s", Kind::Real),
        Column::optional("completion_time_s", Kind::Real),
        Column::new("packets_sent", Kind::Count),
        Column::new("retransmissions", Kind::Count),
        Column::new("timeouts", Kind::Count),
    ];

    /// The cells of [`TransferRecord::COLUMNS`].
    pub fn cells(&self) -> [Cell<'_>; 10] {
        [
            Cell::Text(self.flow),
            Cell::Text(self.group),
            Cell::finite(Some(self.start_s)),
            Cell::Count(self.bytes),
            Cell::Count(self.packets),
            Cell::finite(Some(self.handshake_s)),
            Cell::finite(self.completion_time_s),
            Cell::Count(self.packets_sent),
            Cell::Count(self.retransmissions),
            Cell::Count(self.timeouts),
        ]
    }
}

impl GroupRecord<'_> {
    /// Its columns, for a [`TableWriter`].
    pub const COLUMNS: [Column<'static>; 15] = [
        Column::new("name", Kind::Text),
        Column::new("flows", Kind::Count),
        Column::optional("goodput_bps", Kind::Real),
        Column::optional("throughput_bps", Kind::Real),
        Column::new("packets_sent", Kind::Count),
        Column::new("retransmissions", Kind::Count),
        Column::new("timeouts", Kind::Count),
        Column::optional("mean_rtt_s", Kind::Real),
        Column::optional("mean_delay_s", Kind::Real),
        Column::optional("delay_p50_s", Kind::Real),
        Column::optional("delay_p95_s", Kind::Real),
        Column::optional("delay_p99_s", Kind::Real),
        Column::optional("datagrams_lost", Kind::Count),
        Column::optional("mean_cwnd_packets", Kind::Real),
        Column::optional("throughput_cv", Kind::Real),
    ];

    /// The cells of [`GroupRecord::COLUMNS`].
    pub fn cells(&self) -> [Cell<'_>; 15] {
        [
            Cell::Text(self.name),
            Cell::Count(self.flows as u64),
            Cell::finite(Some(self.goodput_bps)),
            Cell::finite(Some(self.throughput_bps)),
            Cell::Count(self.packets_sent),
            Cell::Count(self.retransmissions),
            Cell::Count(self.timeouts),
            Cell::finite(Some(self.mean_rtt_s)),
            Cell::finite(self.mean_delay_s),
            Cell::finite(self.delay_p50_s),
            Cell::finite(self.delay_p95_s),
            Cell::finite(self.delay_p99_s),
            Cell::count(self.datagrams_lost),
            Cell::finite(Some(self.mean_cwnd_packets)),
            Cell::finite(Some(self.throughput_cv)),
        ]
    }
}

impl LinkRecord<'_> {
    /// Its columns, for a [`TableWriter`].
    pub const COLUMNS: [Column<'static>; 21] = [
        Column::new("name", Kind::Text),
        Column::optional("utilization", Kind::Real),
        Column::new("arrived", Kind::Count),
        Column::new("dropped", Kind::Count),
        Column::new("corrupted", Kind::Count),
        Column::new("delivered", Kind::Count),
        Column::new("in_flight", Kind::Count),
        Column::new("reordered", Kind::Count),
        Column::new("marked", Kind::Count),
        Column::optional("mean_queue_packets", Kind::Real),
        Column::new("max_queue_packets", Kind::Count),
        Column::optional("phases.count", Kind::Count),
        Column::optional("phases.mean_length_s", Kind::Real),
        Column::optional("phases.mean_g_s", Kind::Real),
        Column::optional("phases.queue_low", Kind::Real),
        Column::optional("phases.queue_high", Kind::Real),
        Column::optional("phases.cut_spread_s", Kind::Real),
        Column::optional("phases.missed", Kind::Count),
        Column::optional("phases.heard_g_s", Kind::Real),
        Column::optional("phases.g_error", Kind::Real),
        Column::optional("phases.until_converged", Kind::Count),
    ];

    /// The cells of [`LinkRecord::COLUMNS`].
    pub fn cells(&self) -> [Cell<'_>; 21] {
        let phases = self.phases.as_ref();
        let real = |read: &dyn Fn(&PhaseRecord) -> Option<f64>| Cell::finite(phases.and_then(read));
        [
            Cell::Text(self.name),
            Cell::finite(Some(self.utilization)),
            Cell::Count(self.arrived),
            Cell::Count(self.dropped),
            Cell::Count(self.corrupted),
            Cell::Count(self.delivered),
            Cell::Count(self.in_flight),
            Cell::Count(self.reordered),
            Cell::Count(self.marked),
            Cell::finite(Some(self.mean_queue_packets)),
            Cell::Count(self.max_queue_packets),
            Cell::count(phases.map(|p| p.count)),
            real(&|p| Some(p.mean_length_s)),
            real(&|p| Some(p.mean_g_s)),
            real(&|p| Some(p.queue_low)),
            real(&|p| Some(p.queue_high)),
            real(&|p| Some(p.cut_spread_s)),
            Cell::count(phases.map(|p| p.missed)),
            real(&|p| p.heard_g_s),
            real(&|p| p.g_error),
            Cell::count(phases.and_then(|p| p.until_converged)),
        ]
    }
}

impl<'a> FlowRecord<'a> {
    fn new(flow: &'a FlowOutcome, group: &'a str) -> Self {
        let media = flow.datagrams.and_then(|d| d.media);
        FlowRecord {
            name: &flow.name,
            group,
            protocol: &flow.protocol,
            goodput_bps: flow.goodput_bps,
            throughput_bps: flow.throughput_bps,
            packets_sent: flow.packets_sent,
            retransmissions: flow.retransmissions,
            timeouts: flow.timeouts,
            mean_rtt_s: flow.mean_rtt.as_secs_f64(),
            mean_delay_s: flow.datagrams.map(|d| d.mean_delay.as_secs_f64()),
            datagrams_lost: flow.datagrams.map(|d| d.lost),
            frames: media.map(|m| m.frames),
            late_frames: media.map(|m| m.late),
            circuit_breaker_trips: media.map(|m| m.trips),
            circuit_breaker_first_s: media.and_then(|m| m.first).map(Time::as_secs_f64),
            mean_cwnd_packets: flow.mean_cwnd,
            start_s: flow.start.as_secs_f64(),
            completed_s: flow.completed.map(Time::as_secs_f64),
            loss_estimate: flow.loss_estimate,
            true_loss: flow.true_loss,
            idle_s: flow.idle.as_secs_f64(),
            longest_idle_s: flow.longest_idle.as_secs_f64(),
            idle_periods: flow.idle_periods,
            failure: flow.failure.as_deref(),
        }
    }
}

impl<'a> TransferRecord<'a> {
    fn new(transfer: &TransferOutcome, outcome: &'a Outcome) -> Self {
        let flow = &outcome.flows[transfer.flow];
        TransferRecord {
            flow: &flow.name,
            group: &outcome.groups[flow.group].name,
            start_s: transfer.start.as_secs_f64(),
            bytes: transfer.bytes,
            packets: transfer.packets,
            handshake_s: transfer.handshake.as_secs_f64(),
            completion_time_s: transfer.completion_time().map(Duration::as_secs_f64),
            packets_sent: transfer.packets_sent,
            retransmissions: transfer.retransmissions,
            timeouts: transfer.timeouts,
        }
    }
}

impl<'a> GroupRecord<'a> {
    fn new(group: &'a GroupOutcome, mean_rtt_s: f64) -> Self {
        let delays = group.delays.as_deref();
        let quantile = |share| delays.and_then(|d| d.quantile(share)).map(Duration::as_secs_f64);
        GroupRecord {
            name: &group.name,
            flows: group.flows,
            goodput_bps: group.goodput_bps,
            throughput_bps: group.throughput_bps,
            packets_sent: group.packets_sent,
            retransmissions: group.retransmissions,
            timeouts: group.timeouts,
            mean_rtt_s,
            mean_delay_s: delays.and_then(Delays::mean).map(Duration::as_secs_f64),
            delay_p50_s: quantile(0.5),
            delay_p95_s: quantile(0.95),
            delay_p99_s: quantile(0.99),
            datagrams_lost: delays.map(|_| group.datagrams_lost),
            mean_cwnd_packets: group.mean_cwnd,
            throughput_cv: group.throughput_cv(),
        }
    }
}

impl<'a> LinkRecord<'a> {
    fn new(link: &'a LinkOutcome) -> Self {
        LinkRecord {
            name: &link.name,
            utilization: link.utilization,
            arrived: link.arrived,
            dropped: link.dropped,
            corrupted: link.corrupted,
            delivered: link.delivered,
            in_flight: link.in_flight,
            reordered: link.reordered,
            marked: link.marked,
            mean_queue_packets: link.mean_queue_packets,
            max_queue_packets: link.max_queue_packets,
            phases: link.phases.as_deref().map(PhaseRecord::new),
        }
    }
}

impl PhaseRecord {
    fn new(phases: &PhaseOutcome) -> Self {
        PhaseRecord {
            count: phases.count,
            mean_length_s: phases.mean_length,
            mean_g_s: phases.mean_g,
            queue_low: phases.queue_low,
            queue_high: phases.queue_high,
            cut_spread_s: phases.cut_spread,
            missed: phases.missed,
            heard_g_s: phases.heard_g,
            g_error: phases.g_error,
            until_converged: phases.until_converged,
        }
    }
}

/// The fingerprint as everything prints it: 16 hexadecimal digits.
pub fn fingerprint(outcome: &Outcome) -> String {
    format!("{:016x}", outcome.fingerprint)
}

/// For each group the mean over those of its flows that measured an RTT, seconds; 0 if none did.
pub fn group_mean_rtts(outcome: &Outcome) -> Vec<f64> {
    let mut sums = vec![(0.0, 0_u32); outcome.groups.len()];
    for flow in outcome.flows.iter().filter(|flow| !flow.mean_rtt.is_zero()) {
        let (sum, count) = &mut sums[flow.group];
        *sum += flow.mean_rtt.as_secs_f64();
        *count += 1;
    }
    let mean = |(sum, count)| if count == 0 { 0.0 } else { sum / f64::from(count) };
    sums.into_iter().map(mean).collect()
}
