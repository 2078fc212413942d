//! A test as JSON and as tables: fields have the names, units and places of `windward run --json` where they mean the same.

use std::io::Write;
use std::net::SocketAddr;

use serde::Serialize;
use windward_net::perf::{FlowOutcome, GROUPS, Interval, Outcome};
use windward_sim::jain;
use windward_sim::output::{OutputDir, OutputError};
use windward_sim::table::{Cell, Column, Format, Kind, TableWriter};

use super::mean;

#[derive(Debug, Serialize)]
pub(super) struct Record {
    windward: &'static str,
    duration_s: f64,
    /// All of a test counts.
    warmup_s: f64,
    flows: Vec<FlowRecord>,
    groups: Vec<GroupRecord>,
    /// Nobody knows the links of a path at its ends.
    links: [(); 0],
    jain: f64,
    intervals: Vec<IntervalRecord>,
    server: String,
    authenticated: bool,
    interrupted: bool,
    packet_bytes: u32,
    /// Deprecated: `packet_bytes` without its unit.
    packet_size: u32,
    datagram_bytes: usize,
}

#[derive(Debug, Serialize)]
struct FlowRecord {
    name: String,
    group: &'static str,
    protocol: &'static str,
    goodput_bps: f64,
    packets_sent: u64,
    retransmissions: u64,
    timeouts: u64,
    mean_rtt_s: f64,
    mean_cwnd_packets: f64,
    start_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_s: Option<f64>,
    loss_estimate: f64,
    true_loss: f64,
    packets_delivered: u64,
    duplicates: u64,
    packets_marked: u64,
    given_back: u64,
    datagrams_invalid: u64,
    datagrams_replayed: u64,
}

#[derive(Debug, Serialize)]
struct GroupRecord {
    name: &'static str,
    flows: usize,
    goodput_bps: f64,
    packets_sent: u64,
    retransmissions: u64,
    timeouts: u64,
    mean_rtt_s: f64,
    mean_cwnd_packets: f64,
}

#[derive(Debug, Serialize)]
struct IntervalRecord {
    start_s: f64,
    end_s: f64,
    goodput_bps: f64,
    flows: Vec<SampleRecord>,
}

#[derive(Debug, Serialize)]
struct SampleRecord {
    name: String,
    goodput_bps: f64,
    sent_bps: f64,
    cwnd_packets: f64,
    srtt_s: f64,
    mean_rtt_s: f64,
    in_flight_packets: u64,
    retransmissions: u64,
}

impl Record {
    pub(super) fn new(
        server: SocketAddr,
        authenticated: bool,
        names: &[(String, &'static str)],
        outcome: &Outcome,
        intervals: &[Interval],
    ) -> Self {
        let flows: Vec<FlowRecord> = names
            .iter()
            .zip(&outcome.flows)
            .map(|(name, flow)| FlowRecord::new(name, flow, outcome))
            .collect();
        let groups = GROUPS.into_iter().filter_map(|group| GroupRecord::new(group, &flows));
        Record {
            windward: env!("CARGO_PKG_VERSION"),
            duration_s: outcome.seconds,
            warmup_s: 0.0,
            groups: groups.collect(),
            links: [],
            jain: jain(flows.iter().map(|flow| flow.goodput_bps)),
            flows,
            intervals: intervals.iter().map(|i| IntervalRecord::new(i, names)).collect(),
            server: server.to_string(),
            authenticated,
            interrupted: outcome.interrupted,
            packet_bytes: outcome.packet_size,
            packet_size: outcome.packet_size,
            datagram_bytes: outcome.datagram,
        }
    }

    /// Writes `run.json`, and its lists as tables beside it.
    pub(super) fn write_files(&self, dir: &mut OutputDir) -> Result<(), OutputError> {
        dir.write("run.json", |out| {
            serde_json::to_writer_pretty(&mut *out, self)?;
            writeln!(out)
        })?;
        let flows = self.flows.iter().map(FlowRecord::cells);
        write_rows(dir, "run-flows", &FlowRecord::COLUMNS, flows)?;
        let groups = self.groups.iter().map(GroupRecord::cells);
        write_rows(dir, "run-groups", &GroupRecord::COLUMNS, groups)?;
        let intervals = self.intervals.iter().flat_map(IntervalRecord::rows);
        write_rows(dir, "run-intervals", &IntervalRecord::COLUMNS, intervals)
    }
}

fn write_rows<'a, const N: usize>(
    dir: &mut OutputDir,
    name: &str,
    columns: &[Column<'_>; N],
    rows: impl Iterator<Item = [Cell<'a>; N]>,
) -> Result<(), OutputError> {
    dir.write(&format!("{name}.csv"), |out| {
        let mut table = TableWriter::new(out, Format::Csv, name, columns)?;
        for row in rows {
            table.row(&row)?;
        }
        table.finish().map(drop)
    })
}

impl FlowRecord {
    fn new(name: &(String, &'static str), flow: &FlowOutcome, outcome: &Outcome) -> Self {
        let FlowOutcome { sender, receiver, completed_s, .. } = flow;
        FlowRecord {
            name: name.0.clone(),
            group: name.1,
            protocol: outcome.protocol,
            goodput_bps: flow.goodput_bps(outcome.packet_size),
            packets_sent: sender.sent,
            retransmissions: sender.retransmissions,
            timeouts: sender.timeouts,
            mean_rtt_s: mean(sender.rtt_sum_s, sender.rtt_samples as f64),
            mean_cwnd_packets: mean(sender.cwnd_seconds, sender.seconds),
            start_s: 0.0,
            completed_s: *completed_s,
            loss_estimate: sender.loss_estimate,
            true_loss: flow.loss(),
            packets_delivered: receiver.unique,
            duplicates: receiver.duplicates,
            packets_marked: receiver.marked,
            given_back: sender.given_back,
            datagrams_invalid: sender.invalid + receiver.invalid,
            datagrams_replayed: sender.replayed + receiver.replayed,
        }
    }

    const COLUMNS: [Column<'static>; 19] = [
        Column::new("name", Kind::Text),
        Column::new("group", Kind::Text),
        Column::new("protocol", Kind::Text),
        Column::new("goodput_bps", Kind::Real),
        Column::new("packets_sent", Kind::Count),
        Column::new("retransmissions", Kind::Count),
        Column::new("timeouts", Kind::Count),
        Column::new("mean_rtt_s", Kind::Real),
        Column::new("mean_cwnd_packets", Kind::Real),
        Column::new("start_s", Kind::Real),
        Column::optional("completed_s", Kind::Real),
        Column::new("loss_estimate", Kind::Real),
        Column::new("true_loss", Kind::Real),
        Column::new("packets_delivered", Kind::Count),
        Column::new("duplicates", Kind::Count),
        Column::new("packets_marked", Kind::Count),
        Column::new("given_back", Kind::Count),
        Column::new("datagrams_invalid", Kind::Count),
        Column::new("datagrams_replayed", Kind::Count),
    ];

    fn cells(&self) -> [Cell<'_>; 19] {
        [
            Cell::Text(&self.name),
            Cell::Text(self.group),
            Cell::Text(self.protocol),
            Cell::Real(self.goodput_bps),
            Cell::Count(self.packets_sent),
            Cell::Count(self.retransmissions),
            Cell::Count(self.timeouts),
            Cell::Real(self.mean_rtt_s),
            Cell::Real(self.mean_cwnd_packets),
            Cell::Real(self.start_s),
            Cell::finite(self.completed_s),
            Cell::Real(self.loss_estimate),
            Cell::Real(self.true_loss),
            Cell::Count(self.packets_delivered),
            Cell::Count(self.duplicates),
            Cell::Count(self.packets_marked),
            Cell::Count(self.given_back),
            Cell::Count(self.datagrams_invalid),
            Cell::Count(self.datagrams_replayed),
        ]
    }
}

impl GroupRecord {
    fn new(name: &'static str, flows: &[FlowRecord]) -> Option<Self> {
        let own = || flows.iter().filter(|flow| flow.group == name);
        let count = own().count();
        let timed = own().filter(|flow| flow.mean_rtt_s > 0.0).count();
        (count > 0).then(|| GroupRecord {
            name,
            flows: count,
            goodput_bps: own().map(|flow| flow.goodput_bps).sum(),
            packets_sent: own().map(|flow| flow.packets_sent).sum(),
            retransmissions: own().map(|flow| flow.retransmissions).sum(),
            timeouts: own().map(|flow| flow.timeouts).sum(),
            // Of the flows that measured one.
            mean_rtt_s: mean(own().map(|flow| flow.mean_rtt_s).sum(), timed as f64),
            mean_cwnd_packets: mean(own().map(|flow| flow.mean_cwnd_packets).sum(), count as f64),
        })
    }

    const COLUMNS: [Column<'static>; 8] = [
        Column::new("name", Kind::Text),
        Column::new("flows", Kind::Count),
        Column::new("goodput_bps", Kind::Real),
        Column::new("packets_sent", Kind::Count),
        Column::new("retransmissions", Kind::Count),
        Column::new("timeouts", Kind::Count),
        Column::new("mean_rtt_s", Kind::Real),
        Column::new("mean_cwnd_packets", Kind::Real),
    ];

    fn cells(&self) -> [Cell<'_>; 8] {
        [
            Cell::Text(self.name),
            Cell::Count(self.flows as u64),
            Cell::Real(self.goodput_bps),
            Cell::Count(self.packets_sent),
            Cell::Count(self.retransmissions),
            Cell::Count(self.timeouts),
            Cell::Real(self.mean_rtt_s),
            Cell::Real(self.mean_cwnd_packets),
        ]
    }
}

impl IntervalRecord {
    fn new(interval: &Interval, names: &[(String, &'static str)]) -> Self {
        let flows = names.iter().zip(&interval.flows).enumerate();
        IntervalRecord {
            start_s: interval.start_s,
            end_s: interval.end_s,
            goodput_bps: interval.goodput_bps.iter().sum(),
            flows: flows
                .map(|(at, ((name, _), flow))| SampleRecord {
                    name: name.clone(),
                    goodput_bps: interval.goodput_bps[at],
                    sent_bps: interval.sent_bps[at],
                    cwnd_packets: flow.cwnd,
                    srtt_s: flow.srtt_s,
                    mean_rtt_s: interval.mean_rtt_s[at],
                    in_flight_packets: flow.in_flight,
                    retransmissions: interval.retransmissions[at],
                })
                .collect(),
        }
    }

    const COLUMNS: [Column<'static>; 10] = [
        Column::new("start_s", Kind::Real),
        Column::new("end_s", Kind::Real),
        Column::new("flow", Kind::Text),
        Column::new("goodput_bps", Kind::Real),
        Column::new("sent_bps", Kind::Real),
        Column::new("cwnd_packets", Kind::Real),
        Column::new("srtt_s", Kind::Real),
        Column::new("mean_rtt_s", Kind::Real),
        Column::new("in_flight_packets", Kind::Count),
        Column::new("retransmissions", Kind::Count),
    ];

    fn rows(&self) -> impl Iterator<Item = [Cell<'_>; 10]> {
        self.flows.iter().map(|flow| {
            [
                Cell::Real(self.start_s),
                Cell::Real(self.end_s),
                Cell::Text(&flow.name),
                Cell::Real(flow.goodput_bps),
                Cell::Real(flow.sent_bps),
                Cell::Real(flow.cwnd_packets),
                Cell::Real(flow.srtt_s),
                Cell::Real(flow.mean_rtt_s),
                Cell::Count(flow.in_flight_packets),
                Cell::Count(flow.retransmissions),
            ]
        })
    }
}
