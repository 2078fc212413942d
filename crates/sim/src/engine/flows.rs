//! All flows of a run: their state, their groups and their sums.

use std::ops::Range;

use windward_core::network::Departure;
use windward_core::packet::{Packet, PacketKind};
use windward_core::units::{Duration, Time};

use super::flow::{Ends, Flow};
use super::group::Group;
use super::hop::Span;
use crate::outcome::{FlowOutcome, GroupOutcome, TransferOutcome, jain};
use crate::scenario::Transfer;
use windward_scenario::name::{Name, Names};

/// The flows of a run.
#[derive(Debug)]
pub(super) struct Flows {
    /// The flows of the scenario, then the connections that open at random.
    pub(super) all: Vec<Flow>,
    pub(super) transfers: Transfers,
    pub(super) groups: Vec<Group>,
    pub(super) names: Names,
}

/// The outcome of all flows.
#[derive(Debug)]
pub(super) struct FlowOutcomes {
    pub(super) flows: Vec<FlowOutcome>,
    pub(super) transfers: Vec<TransferOutcome>,
    pub(super) groups: Vec<GroupOutcome>,
    pub(super) jain: f64,
}

impl Flows {
    /// Counts a packet that crosses the bottleneck of its flow.
    #[inline(always)]
    pub(super) fn count(
        &mut self,
        flow: u32,
        window: Span,
        arrived: Time,
        departure: &Departure,
        size: u32,
    ) {
        self.all[flow as usize].count(&mut self.groups, window, arrived, departure, size);
    }

    /// Takes a datagram at its far end, or a report on datagrams at their sender.
    pub(super) fn receive_datagram(&mut self, flow: u32, now: Time, packet: &Packet, window: Span) {
        let flow = &mut self.all[flow as usize];
        let Ends::Datagrams(datagrams) = &mut flow.ends else { return };
        if packet.kind == PacketKind::Ack {
            if let Some(adaptive) = &mut datagrams.adaptive {
                adaptive.on_report(now, packet);
            }
        } else if let Some(delay) = datagrams.receive(now, packet, window) {
            self.groups[flow.group as usize].delays.get_or_insert_default().add(delay);
        }
    }

    /// Bytes that the flow, with the connections that open between its hosts, had put through its
    /// bottleneck by `now`.
    pub(super) fn bottleneck_bytes(&self, flow: usize, now: Time) -> u64 {
        let bytes = |flow: &Flow| flow.bottleneck.sent_bytes(now);
        let transfers = &self.all[self.transfers.of(flow)];
        bytes(&self.all[flow]) + transfers.iter().map(bytes).sum::<u64>()
    }

    /// Outcomes at the end of the run.
    pub(super) fn close(self, window: Span) -> FlowOutcomes {
        let Flows { all, transfers, groups, names } = self;
        let mut is_connection = Vec::with_capacity(transfers.first);
        let mut all = all.into_iter();
        let mut flows: Vec<FlowOutcome> = all
            .by_ref()
            .take(transfers.first)
            .enumerate()
            .map(|(index, mut flow)| {
                is_connection.push(flow.is_connection());
                flow.outcome(names.get(index), window)
            })
            .collect();
        let transfers = transfers.close(all, &mut flows, window);
        let goodputs = flows.iter().zip(is_connection).filter(|(_, connection)| *connection);
        let jain = jain(goodputs.map(|(flow, _)| flow.goodput_bps));
        let groups = Group::close(groups, &flows, window);
        FlowOutcomes { flows, transfers, groups, jain }
    }
}

/// The connections that open at random, in the order of the pairs of hosts between which they
/// open.
#[derive(Debug)]
pub(super) struct Transfers {
    /// Index of the first among all flows.
    pub(super) first: usize,
    /// The pair and the transfer of each.
    pub(super) drawn: Vec<(usize, Transfer)>,
}

impl Transfers {
    /// Indices, among all flows, of the connections between a pair of hosts.
    fn of(&self, pair: usize) -> Range<usize> {
        let from = self.drawn.partition_point(|(other, _)| *other < pair);
        let count = self.drawn[from..].partition_point(|(other, _)| *other == pair);
        self.first + from..self.first + from + count
    }

    /// Outcomes of the transfers; adds them to the outcomes of their pairs.
    fn close(
        self,
        mut connections: impl Iterator<Item = Flow>,
        pairs: &mut [FlowOutcome],
        window: Span,
    ) -> Vec<TransferOutcome> {
        let mut rows = Vec::with_capacity(self.drawn.len());
        for of_pair in self.drawn.chunk_by(|a, b| a.0 == b.0) {
            let sum = &mut pairs[of_pair[0].0];
            let (mut rtts, mut samples, mut lost, mut estimate, mut sent) = (0.0, 0, 0, 0.0, 0);
            for (&(pair, transfer), mut flow) in of_pair.iter().zip(&mut connections) {
                lost += flow.lost;
                let Some(own) = flow.transfer_outcome(pair, transfer, window) else { continue };
                let (rtt, count) = flow.rtts(window);
                let row = flow.outcome(Name::from(""), window);
                rtts += rtt.as_secs_f64();
                samples += count;
                sent += own.packets_sent;
                estimate += row.loss_estimate.unwrap_or(0.0) * own.packets_sent as f64;
                rows.push(own);
                sum.add_transfer(&row.metrics);
                sum.failure = sum.failure.take().or(row.failure);
            }
            let rtt = Duration::from_secs_f64(rtts / samples.max(1) as f64);
            sum.mean_rtt_s = Some(rtt.as_secs_f64());
            sum.true_loss = lost as f64 / sent.max(1) as f64;
            sum.loss_estimate = Some(estimate / sent.max(1) as f64);
        }
        rows
    }
}
