//! A test as JSON and as tables. Values that simulated flows have too come from the same metrics.

use std::io::Write;
use std::net::SocketAddr;

use serde::Serialize;
use windward_core::units::{Duration, Time};
use windward_net::perf::{self, GROUPS, Interval};
use windward_sim::metric::{Kinds, Metric};
use windward_sim::output::{OutputDir, OutputError};
use windward_sim::record::{JsonObject, metrics_of, write_csv};
use windward_sim::table::{Cell, Column, Kind};
use windward_sim::{FlowMetrics, FlowOutcome, GroupOutcome, Name, Outcome, Row, jain};

use super::mean;

#[derive(Debug, Serialize)]
pub(super) struct Record {
    windward: &'static str,
    duration_s: f64,
    /// Always 0: the whole test is measured.
    warmup_s: f64,
    flows: Vec<JsonObject<'static>>,
    groups: Vec<JsonObject<'static>>,
    /// Always empty: the ends of a path do not know its links.
    links: [(); 0],
    jain: f64,
    intervals: Vec<IntervalRecord>,
    server: String,
    authenticated: bool,
    interrupted: bool,
    packet_bytes: u32,
    datagram_bytes: usize,
}

#[derive(Debug, Serialize)]
struct IntervalRecord {
    start_s: f64,
    end_s: f64,
    goodput_bps: f64,
    flows: Vec<JsonObject<'static>>,
}

/// Counts that require both ends of a path.
const OF_ENDS: [Column<'static>; 6] = [
    Column::new("packets_delivered", Kind::Count),
    Column::new("duplicates", Kind::Count),
    Column::new("packets_marked", Kind::Count),
    Column::new("given_back", Kind::Count),
    Column::new("datagrams_invalid", Kind::Count),
    Column::new("datagrams_replayed", Kind::Count),
];

/// A flow in an interval.
const OF_INTERVALS: [Column<'static>; 8] = [
    Column::new("name", Kind::Text),
    Column::new("goodput_bps", Kind::Real),
    Column::new("sent_bps", Kind::Real),
    Column::new("cwnd_packets", Kind::Real),
    Column::new("srtt_s", Kind::Real),
    Column::new("mean_rtt_s", Kind::Real),
    Column::new("in_flight_packets", Kind::Count),
    Column::new("retransmissions", Kind::Count),
];

impl Record {
    pub(super) fn new(
        server: SocketAddr,
        authenticated: bool,
        names: &[(String, &'static str)],
        test: &perf::Outcome,
        intervals: &[Interval],
    ) -> Self {
        let outcome = outcome_of(names, test);
        let flows = outcome.flows.iter().zip(&test.flows).map(|(flow, ends)| {
            let mut cells = shared(flow, &outcome);
            let perf::FlowOutcome { sender, receiver, .. } = ends;
            let counts = [
                receiver.unique,
                receiver.duplicates,
                receiver.marked,
                sender.given_back,
                sender.invalid + receiver.invalid,
                sender.replayed + receiver.replayed,
            ];
            cells.extend(OF_ENDS.iter().map(|column| column.name).zip(counts.map(Cell::Count)));
            JsonObject(cells)
        });
        Record {
            windward: env!("CARGO_PKG_VERSION"),
            duration_s: test.seconds,
            warmup_s: 0.0,
            flows: flows.collect(),
            groups: outcome
                .groups
                .iter()
                .filter(|group| group.flows > 0)
                .map(|group| JsonObject(shared(group, &outcome)))
                .collect(),
            links: [],
            jain: outcome.jain,
            intervals: intervals.iter().map(|i| IntervalRecord::new(i, names)).collect(),
            server: server.to_string(),
            authenticated,
            interrupted: test.interrupted,
            packet_bytes: test.packet_size,
            datagram_bytes: test.datagram,
        }
    }

    /// Writes `run.json`, and its lists as tables.
    pub(super) fn write_files(&self, dir: &mut OutputDir) -> Result<(), OutputError> {
        dir.write("run.json", |out| {
            serde_json::to_writer_pretty(&mut *out, self)?;
            writeln!(out)
        })?;
        let mut columns: Vec<Column<'_>> = shared_columns::<FlowOutcome>();
        columns.extend(OF_ENDS);
        write_csv(dir, "run-flows", &columns, self.flows.iter().map(cells))?;
        let columns = shared_columns::<GroupOutcome>();
        write_csv(dir, "run-groups", &columns, self.groups.iter().map(cells))?;
        let mut columns =
            vec![Column::new("start_s", Kind::Real), Column::new("end_s", Kind::Real)];
        columns.extend(OF_INTERVALS.map(|column| match column.name {
            "name" => Column { name: "flow", ..column },
            _ => column,
        }));
        let rows = self.intervals.iter().flat_map(IntervalRecord::rows);
        write_csv(dir, "run-intervals", &columns, rows)
    }
}

/// The measurements of both ends, as the outcome of a run.
fn outcome_of(names: &[(String, &'static str)], test: &perf::Outcome) -> Outcome {
    let group_of = |name: &str| GROUPS.iter().position(|group| *group == name).unwrap_or(0);
    let flows = names.iter().zip(&test.flows).map(|((name, group), flow)| {
        let sender = &flow.sender;
        let time = |seconds| Time::ZERO + Duration::from_secs_f64(seconds);
        FlowOutcome {
            metrics: FlowMetrics {
                goodput_bps: flow.goodput_bps(test.packet_size),
                packets_sent: sender.sent,
                retransmissions: Some(sender.retransmissions),
                timeouts: Some(sender.timeouts),
                mean_rtt_s: Some(mean(sender.rtt_sum_s, sender.rtt_samples as f64)),
                mean_cwnd_packets: Some(mean(sender.cwnd_seconds, sender.seconds)),
                completed: flow.completed_s.map(time),
                loss_estimate: Some(sender.loss_estimate),
                true_loss: flow.loss(),
                ..FlowMetrics::default()
            },
            ..FlowOutcome::new(Name::from(name.as_str()), group_of(group), test.protocol)
        }
    });
    let flows: Vec<FlowOutcome> = flows.collect();
    let groups = GROUPS.iter().enumerate().map(|(index, name)| {
        GroupOutcome::of((*name).to_owned(), flows.iter().filter(|flow| flow.group == index))
    });
    let groups: Vec<GroupOutcome> = groups.collect();
    let jain = jain(flows.iter().map(|flow| flow.goodput_bps));
    Outcome { flows, groups, jain, ..Outcome::default() }
}

/// The cells that a row has in simulations, too.
fn shared<T: Row<Of = Outcome>>(row: &T, outcome: &Outcome) -> Vec<(&'static str, Cell<'static>)> {
    let metrics = metrics_of::<T>(Kinds::REMOTE);
    metrics.map(|metric| (metric.name, metric.of_row(row, outcome).into_owned())).collect()
}

fn shared_columns<T: Row<Of = Outcome>>() -> Vec<Column<'static>> {
    metrics_of::<T>(Kinds::REMOTE).map(Metric::column).collect()
}

/// The cells of a row, by which a table has its columns.
fn cells<'a>(row: &'a JsonObject<'static>) -> Vec<Cell<'a>> {
    row.0.iter().map(|(_, cell)| cell.clone()).collect()
}

impl IntervalRecord {
    fn new(interval: &Interval, names: &[(String, &'static str)]) -> Self {
        let flows = names.iter().zip(&interval.flows).enumerate();
        let flows = flows.map(|(at, ((name, _), flow))| {
            let cells = [
                Cell::Text(name.clone().into()),
                Cell::Real(interval.goodput_bps[at]),
                Cell::Real(interval.sent_bps[at]),
                Cell::Real(flow.cwnd),
                Cell::Real(flow.srtt_s),
                Cell::Real(interval.mean_rtt_s[at]),
                Cell::Count(flow.in_flight),
                Cell::Count(interval.retransmissions[at]),
            ];
            JsonObject(OF_INTERVALS.iter().map(|column| column.name).zip(cells).collect())
        });
        IntervalRecord {
            start_s: interval.start_s,
            end_s: interval.end_s,
            goodput_bps: interval.goodput_bps.iter().sum(),
            flows: flows.collect(),
        }
    }

    fn rows(&self) -> impl Iterator<Item = Vec<Cell<'_>>> {
        self.flows.iter().map(|flow| {
            let mut row = vec![Cell::Real(self.start_s), Cell::Real(self.end_s)];
            row.extend(cells(flow));
            row
        })
    }
}
