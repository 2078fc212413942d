//! AQM in Python.

use pyo3::prelude::*;
use windward_core::network::QueueLimit;
use windward_core::network::aqm::{self, Aqm, Backlog, Leaving, MakeAqm, QueueAction};
use windward_core::packet;
use windward_core::units::{Rate, Time};

use super::{Maker, Method, Packet};

/// Place and size of a queue.
#[pyclass(frozen, get_all, module = "windward")]
#[derive(Debug, Clone)]
pub(crate) struct QueueSetup {
    /// Name of the link.
    name: String,
    /// Rate of the link, or its mean, bits per second.
    rate_bps: u64,
    /// Share of the rate that the queue may use, given other classes, bits per second.
    share_bps: u64,
    /// Size of the queue, packets; None where bytes are counted.
    limit_packets: Option<u32>,
    /// Size of the queue, bytes; None where packets are counted.
    limit_bytes: Option<u64>,
    /// The seed of the run.
    seed: u64,
}

/// State of a queue, for its AQM.
#[pyclass(frozen, get_all, module = "windward")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queue {
    /// The instant, seconds.
    now: f64,
    /// Number of packets waiting, without the one in transmission.
    packets: usize,
    /// Their bytes on the wire.
    bytes: u64,
    /// The queue as a share of its limit.
    filled: f64,
}

#[derive(Debug)]
struct Manager {
    on_enqueue: Option<Method>,
    on_dequeue: Option<Method>,
    on_rate: Option<Method>,
}

impl MakeAqm for Maker {
    fn make(&self, place: &aqm::QueueSetup<'_>) -> Box<dyn Aqm + Send + Sync> {
        let (limit_packets, limit_bytes) = match place.limit {
            QueueLimit::Packets(limit) => (Some(limit), None),
            QueueLimit::Bytes(limit) => (None, Some(limit)),
        };
        let setup = QueueSetup {
            name: place.name.to_owned(),
            rate_bps: place.wire.as_bps(),
            share_bps: place.share.as_bps(),
            limit_packets,
            limit_bytes,
            seed: place.seed,
        };
        let object = self.object((setup,));
        let method = |name| self.method(object.as_ref(), name);
        Box::new(Manager {
            on_enqueue: method("on_enqueue"),
            on_dequeue: method("on_dequeue"),
            on_rate: method("on_rate"),
        })
    }
    fn marks(&self) -> bool {
        true
    }
    fn acts_on_departure(&self) -> bool {
        self.asked_at_departure
    }
}

impl Queue {
    fn new(now: Time, queue: &Backlog<'_>) -> Self {
        let Backlog { packets, bytes, .. } = *queue;
        Queue { now: now.as_secs_f64(), packets, bytes, filled: queue.filled() }
    }
}

/// Reads a verdict; `None` lets the packet pass.
fn verdict(method: &Method, answer: &Bound<'_, PyAny>) -> PyResult<QueueAction> {
    if answer.is_none() {
        return Ok(QueueAction::Pass);
    }
    match answer.extract::<&str>() {
        Ok("pass") => Ok(QueueAction::Pass),
        Ok("mark") => Ok(QueueAction::Mark),
        Ok("drop") => Ok(QueueAction::Drop),
        _ => Err(method.wrong(answer, "expected \"pass\", \"mark\" or \"drop\"")),
    }
}

impl Aqm for Manager {
    fn on_enqueue(
        &mut self,
        now: Time,
        queue: &Backlog<'_>,
        packet: &packet::Packet,
    ) -> QueueAction {
        let Some(method) = &self.on_enqueue else { return QueueAction::Pass };
        let (queue, packet) = (Queue::new(now, queue), Packet::from(packet));
        method
            .call(now, (queue, packet), |answer| verdict(method, answer))
            .unwrap_or(QueueAction::Pass)
    }

    fn on_dequeue(
        &mut self,
        now: Time,
        leaving: Leaving,
        queue: &Backlog<'_>,
        packet: &packet::Packet,
    ) -> QueueAction {
        let Some(method) = &self.on_dequeue else { return QueueAction::Pass };
        let waited = now.since(leaving.arrived).as_secs_f64();
        let (queue, packet) = (Queue::new(now, queue), Packet::from(packet));
        method
            .call(now, (queue, packet, waited), |answer| verdict(method, answer))
            .unwrap_or(QueueAction::Pass)
    }
    fn on_rate(&mut self, now: Time, wire: Rate, share: Rate) {
        let Some(method) = &self.on_rate else { return };
        method.call(now, (wire.as_bps(), share.as_bps()), |_| Ok(()));
    }
}
