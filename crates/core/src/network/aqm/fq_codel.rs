//! Flow queues with CoDel (Hoeiland-Joergensen, McKenney, Taht, Gettys and Dumazet, RFC 8290).
//!
//! Flows are hashed into queues, each with its own CoDel, which take turns by bytes. A flow that
//! does not build a queue is always new and is served before the others, so that it has hardly any
//! queueing delay. When the limit is reached, packets of the longest queue are dropped.
//!
//! ```text
//! queue      = hash(flow) mod flows                                                section 4.1
//! full:        drop half of the longest queue, up to 64 packets, from its head     section 4.1
//! next queue = first of the new, else of the old; credits <= 0: a quantum more,
//!              and to the end of the old                                           section 4.2
//! ```
//!
//! Deviations: flows are hashed by their number instead of their addresses, by a mix of 64 bits
//! instead of Jenkins' hash. CoDel uses the waiting bytes of the flow's queue (Linux: of all
//! queues). The limit in packets is the queue of the link, whose default is less than the RFC's
//! 10,240. A queue whose last packet was dropped because of the limit stays in its list until its
//! turn, as in Linux.

use std::collections::BTreeMap;

use super::codel::{Codel, CodelConfig};
use super::{Aqm, AqmPart, Backlog, Eviction, Leaving, QueueAction, QueueLimit, QueueSetup};
use crate::network::scheduler::RoundRobin;
use crate::packet::{Label, Packet};
use crate::parameters;
use crate::part::{Form, Part, ValueKind, Words};
use crate::units::Time;

/// Section 4.1: the most packets dropped at once.
const DROP_BATCH: usize = 64;

parameters! {
    /// Parameters of FQ-CoDel.
    pub struct FqCodelConfig in "", "parameters of fq-codel";
    /// RFC 8290 section 5.2 and, for memory and ECN, Linux: `ecn` is on in tc-fq_codel(8).
    pub const RFC8290;
    /// The CoDel of each queue.
    codel: CodelConfig = CodelConfig { ecn: true, ..CodelConfig::RFC8289 } => included;
    flows: u32 = 1024, ValueKind::Integer { least: 1, most: 65_536 }, "",
        "number of queues into which flows are hashed";
    quantum: u32 = 1514, ValueKind::Integer { least: 1, most: 1 << 20 }, "bytes",
        "bytes that a queue may send per turn";
    memory_limit: f64 = 32e6, ValueKind::Bytes { most: 1e15 }, "",
        "limit of all queues together, in addition to that of the link";
}

/// The state of FQ-CoDel.
#[derive(Debug, Clone)]
pub struct FqCodel {
    config: FqCodelConfig,
    /// Salt by which the hash differs between links.
    salt: u64,
    /// The lane of each hash seen so far: few on most links, so that a million links stay small.
    lane_of: BTreeMap<u32, u32>,
    /// The CoDel of each lane.
    codels: Vec<Codel>,
    turns: RoundRobin,
}

impl FqCodel {
    /// Section 4.1: the queue that a flow is hashed into.
    fn hash(&self, flow: u32) -> u32 {
        let mixed = (self.salt ^ u64::from(flow)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ mixed >> 32) % u64::from(self.config.flows)) as u32
    }
}

impl Part for FqCodel {
    type Config = FqCodelConfig;
    const FORMS: &'static [Form<FqCodelConfig>] = &[Form {
        words: Words {
            name: "fq-codel",
            what: "gives flows queues of their own in turn, those that build none first, each with \
                   a codel",
            source: "RFC 8290",
        },
        config: FqCodelConfig::RFC8290,
    }];
}

impl Aqm for FqCodel {
    fn on_dequeue(
        &mut self,
        now: Time,
        Leaving { arrived, lane }: Leaving,
        queue: &Backlog<'_>,
        packet: &Packet,
    ) -> QueueAction {
        let verdict = self.codels[lane].judge(now, arrived, queue.lanes[lane].bytes, packet);
        if verdict != QueueAction::Drop {
            self.turns.charge(lane, packet.size);
        }
        verdict
    }

    fn lane(&mut self, label: Label, _: &Packet) -> usize {
        let next = self.codels.len();
        let lane = *self.lane_of.entry(self.hash(label.flow)).or_insert(next as u32) as usize;
        if lane == next {
            self.codels.push(Codel::with(self.config.codel));
        }
        self.turns.join(lane, self.config.quantum);
        lane
    }

    fn next_lane(&mut self, _: Time, queue: &Backlog<'_>) -> usize {
        self.turns.next(|lane| queue.lanes[lane].head.map(|(_, size)| size))
    }

    fn makes_room(&self) -> bool {
        true
    }

    fn evict(&mut self, queue: &Backlog<'_>) -> Eviction {
        // The first of the longest.
        let longest = (0..queue.lanes.len()).rev().max_by_key(|lane| queue.lanes[*lane].bytes);
        let lane = longest.unwrap_or(0);
        let half = queue.lanes.get(lane).map_or(1, |lane| lane.packets / 2);
        Eviction { lane, packets: half.clamp(1, DROP_BATCH) }
    }

    fn memory_limit(&self) -> u64 {
        self.config.memory_limit as u64
    }
}

impl AqmPart for FqCodel {
    fn new(config: &FqCodelConfig, setup: &QueueSetup<'_>) -> Self {
        let salt = (setup.stream("fq-codel").uniform() * (1_u64 << 53) as f64) as u64;
        let (lane_of, codels) = (BTreeMap::new(), Vec::new());
        FqCodel { config: *config, salt, lane_of, codels, turns: RoundRobin::lists() }
    }
    fn marks(config: &FqCodelConfig) -> bool {
        config.codel.ecn
    }
    const ACTS_ON_DEPARTURE: bool = true;
    // As in Linux, and RFC 8290 section 5.2.
    const DEFAULT_LIMIT: Option<QueueLimit> = Some(QueueLimit::Packets(10240));
    const KEEPS_QUEUE_SHORT: bool = true;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::aqm::AqmConfig;
    use crate::network::{ChannelConfig, Fate, QueueConfig, QueueLimit, QueuedLink};
    use crate::units::{Duration, Rate};

    /// A link of 8 Mbit/s, a byte a microsecond.
    fn link(config: FqCodelConfig, limit: u32) -> QueuedLink<usize> {
        let (limit, aqm) = (QueueLimit::Packets(limit), AqmConfig::FqCodel(config));
        let queue = QueueConfig { limit, aqm, ..QueueConfig::default() };
        let rate = Rate::from_bps(8_000_000).unwrap();
        QueuedLink::new(&rate.into(), Duration::ZERO, &queue, &ChannelConfig::Clean, 1, "test")
    }

    /// Puts packets of these flows and sizes into an idle link at once. Returns the dropped
    /// packets, and the flows of the packets sent, in order.
    fn pass(config: FqCodelConfig, limit: u32, offered: &[(u32, u32)]) -> (Vec<usize>, Vec<u32>) {
        let mut link = link(config, limit);
        let packet = |&(_, size): &(u32, u32)| Packet { size, ..Packet::default() };
        let mut packets: Vec<Packet> = offered.iter().map(packet).collect();
        for (handle, &(flow, _)) in offered.iter().enumerate() {
            let label = Label { flow, class: 0 };
            assert!(link.offer(Time::ZERO, label, &mut packets[handle], handle).is_none());
        }
        let (mut dropped, mut sent) = (Vec::new(), Vec::new());
        while let Some(fate) = link.advance(link.next_event(), &mut packets[..]) {
            match fate {
                Fate::Dropped { handle, .. } => dropped.push(handle),
                Fate::Sent { handle, .. } => sent.push(offered[handle].0),
            }
        }
        (dropped, sent)
    }

    #[test]
    fn flows_take_turns_by_bytes_and_the_sparse_go_first() {
        // A quantum of 1500 and packets of 1000 bytes: two packets for it, for credits above zero
        // suffice, then -500. The second flow is new too and sends its one packet. Then the first
        // is old, with 1500 - 2000 + 1500 = 1000: one packet leaves 0, to the end with 1500.
        let config = FqCodelConfig { quantum: 1500, ..FqCodelConfig::RFC8290 };
        let mut offered = vec![(1, 1000); 6];
        offered.push((2, 1000));
        assert_eq!(pass(config, 100, &offered).1, [1, 1, 2, 1, 1, 1, 1]);
        // Flows of small and large packets get the same bytes: 15 of 100 for each 1500.
        let mut offered = vec![(1, 1500); 20];
        offered.extend([(2, 100); 300]);
        let sent = pass(config, 1000, &offered).1;
        let bytes = |flow, size| sent[..160].iter().filter(|f| **f == flow).count() * size;
        let (large, small) = (bytes(1, 1500), bytes(2, 100));
        assert!(large.abs_diff(small) <= 3000, "{large} {small}");
    }

    #[test]
    fn a_full_queue_drops_half_of_the_longest_one_from_its_head() {
        // Ten packets of a flow and one of another fill 11; one more of the other is one too many:
        // half of the first ten go.
        let mut offered = vec![(1, 1000); 10];
        offered.extend([(2, 1000); 2]);
        let (dropped, sent) = pass(FqCodelConfig::RFC8290, 11, &offered);
        assert_eq!(dropped, [0, 1, 2, 3, 4]);
        assert_eq!(sent.len(), 7);
        // Memory does the same: 5500 bytes are too little for six packets, so half of them go.
        let config = FqCodelConfig { memory_limit: 5500.0, ..FqCodelConfig::RFC8290 };
        assert_eq!(pass(config, 100, &[(1, 1000); 6]).0, [0, 1, 2]);
        // Never more than 64.
        let (dropped, _) = pass(FqCodelConfig::RFC8290, 200, &[(1, 100); 201]);
        assert_eq!(dropped.len(), 64);
    }

    #[test]
    fn one_queue_is_first_come_first_served() {
        let config = FqCodelConfig { flows: 1, ..FqCodelConfig::RFC8290 };
        let offered: Vec<(u32, u32)> = (0..9).map(|i| (i % 3, 1000)).collect();
        let expected: Vec<u32> = (0..9).map(|i| i % 3).collect();
        assert_eq!(pass(config, 100, &offered).1, expected);
    }
}
