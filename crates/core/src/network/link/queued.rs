//! The link that holds packets until they leave.

use std::collections::VecDeque;

use super::wire::Wire;
use super::{Fate, Packets, fits, red_admits, red_of};
use crate::network::aqm::Red;
use crate::network::rate_trace::LinkRate;
use crate::network::router::{Router, RouterKind, TrafficController};
use crate::network::{ChannelSpec, QueueLimit, QueueSpec};
use crate::packet::{Label, Packet};
use crate::units::{Duration, Rate, Time};

/// A link that holds packets until they leave, for routers that write at that moment, and for
/// classes. `T` stands for a packet outside.
#[derive(Debug, Clone)]
pub struct QueuedLink<T> {
    pub(super) wire: Wire,
    /// One queue, or one a class.
    queues: Vec<Queue<T>>,
    /// The queue of each [`RouterKind`].
    queue_of: [u8; RouterKind::ALL.len()],
    /// Packets in all queues.
    waiting: usize,
    /// Deficit round robin: whose turn it is, and whether it has had its quantum.
    turn: usize,
    credited: bool,
}

/// The queue of a class of protocols on a link, and its share of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassSpec {
    /// The protocols that ask for this router; datagrams and plain TCP ask for none. What no class
    /// is made for joins the first.
    pub kind: RouterKind,
    /// Its share of the wire while all classes have something to send, beside those of the others;
    /// positive.
    pub weight: f64,
    /// Its limit, queue management and router; without classes of its own.
    pub queue: QueueSpec,
}

/// Deficit round robin: bytes that the class of least weight may send a turn. One packet of usual
/// size suffices for constant work a packet (Shreedhar and Varghese 1995, section 3).
const LEAST_QUANTUM: f64 = 1500.0;

/// A packet in a queue.
#[derive(Debug, Clone)]
struct Waiting<T> {
    handle: T,
    label: Label,
    arrived: Time,
    size: u32,
}

/// One queue of a link.
#[derive(Debug, Clone)]
struct Queue<T> {
    limit: QueueLimit,
    red: Option<Red>,
    router: Option<Router>,
    waiting: VecDeque<Waiting<T>>,
    waiting_bytes: u64,
    /// Deficit round robin: bytes a turn, and bytes left.
    quantum: u64,
    deficit: u64,
}

impl<T> Queue<T> {
    fn new(spec: &QueueSpec, rate: Rate, quantum: u64, seed: u64, name: &str) -> Self {
        Queue {
            limit: spec.limit,
            red: red_of(&spec.aqm, seed, name),
            router: Router::new(&spec.router, rate, spec.limit, seed, name),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            quantum,
            deficit: 0,
        }
    }

    /// The queue as a share of its limit.
    fn filled(&self) -> f64 {
        match self.limit {
            QueueLimit::Packets(limit) => self.waiting.len() as f64 / f64::from(limit),
            QueueLimit::Bytes(limit) => self.waiting_bytes as f64 / limit as f64,
        }
    }
}

impl<T> QueuedLink<T> {
    /// An idle link; `name` names its random streams.
    pub fn new(
        rate: &LinkRate,
        delay: Duration,
        queue: &QueueSpec,
        channel: &ChannelSpec,
        seed: u64,
        name: &str,
    ) -> Self {
        let mut queue_of = [0; RouterKind::ALL.len()];
        let queues = if queue.classes.is_empty() {
            vec![Queue::new(queue, rate.mean(), 0, seed, name)]
        } else {
            let weights = || queue.classes.iter().map(|class| class.weight);
            let (sum, least) = (weights().sum::<f64>(), weights().fold(f64::INFINITY, f64::min));
            let class = |(index, class): (u8, &ClassSpec)| {
                queue_of[class.kind as usize] = index;
                // What a router with a capacity may count on.
                let share = rate.mean().as_bps() as f64 * class.weight / sum;
                let share = Rate::from_bps(share as u64).unwrap_or(rate.mean());
                let quantum = (LEAST_QUANTUM * class.weight / least) as u64;
                let name = format!("{name}/{}", class.kind.name());
                Queue::new(&class.queue, share, quantum, seed, &name)
            };
            (0..).zip(&queue.classes).map(class).collect()
        };
        QueuedLink {
            wire: Wire::new(rate, delay, channel, seed, name),
            queues,
            queue_of,
            waiting: 0,
            turn: 0,
            credited: false,
        }
    }

    fn queue_of(&self, label: Label) -> usize {
        // A class that is no router kind cannot be.
        usize::from(self.queue_of.get(usize::from(label.class)).copied().unwrap_or(0))
    }

    /// A packet reaches the queue. Returns it if the queue refuses it.
    ///
    /// # Errors
    /// The packet that was dropped.
    pub fn offer(
        &mut self,
        now: Time,
        label: Label,
        packet: &mut Packet,
        handle: T,
    ) -> Result<(), T> {
        let idle = self.waiting == 0 && self.wire.busy_until <= now;
        let index = self.queue_of(label);
        let queue = &mut self.queues[index];
        match &mut queue.router {
            Some(Router::Xcp(xcp)) => xcp.on_arrival(now, packet),
            Some(Router::Warning(_)) => {
                let filled = queue.filled();
                if let Some(Router::Warning(warning)) = &mut queue.router {
                    self.wire.marked += u64::from(warning.on_arrival(packet, filled));
                }
            }
            Some(Router::Xtcp(_) | Router::Estcp(_) | Router::EcnThreshold(_)) | None => {}
        }
        let waiting = queue.waiting.len();
        let red_admits = queue
            .red
            .as_mut()
            .is_none_or(|red| red_admits(red, waiting, &mut self.wire, now, packet));
        if !red_admits || !(idle || fits(queue.limit, waiting, queue.waiting_bytes, packet.size)) {
            match &mut queue.router {
                Some(Router::Xtcp(counter)) => counter.on_drop(packet, waiting),
                Some(Router::Estcp(estcp)) => estcp.on_drop(now, waiting, queue.waiting_bytes),
                Some(Router::Xcp(_) | Router::Warning(_) | Router::EcnThreshold(_)) | None => {}
            }
            return Err(handle);
        }
        if let Some(Router::EcnThreshold(threshold)) = &queue.router {
            self.wire.marked += u64::from(threshold.on_arrival(waiting, packet));
        }
        queue.waiting.push_back(Waiting { handle, label, arrived: now, size: packet.size });
        queue.waiting_bytes += u64::from(packet.size);
        self.waiting += 1;
        if !idle {
            if let Some(Router::Estcp(estcp)) = &mut queue.router {
                estcp.on_arrival(queue.waiting.len(), queue.waiting_bytes);
            }
            self.wire.longest_queue = self.wire.longest_queue.max(self.waiting);
        }
        Ok(())
    }

    /// When [`QueuedLink::serve`] has something to do: the wire can take the next waiting packet.
    pub fn next_service(&self) -> Time {
        if self.waiting > 0 { self.wire.busy_until } else { Time::NEVER }
    }

    /// Puts the next waiting packet on the wire, if one waits and the wire is free.
    pub fn serve(
        &mut self,
        now: Time,
        packets: &mut (impl Packets<T> + ?Sized),
    ) -> Option<Fate<T>> {
        if self.waiting == 0 || self.wire.busy_until > now {
            return None;
        }
        self.waiting -= 1;
        if self.queues.len() > 1 {
            self.choose();
        }
        let queue = &mut self.queues[self.turn];
        let Waiting { handle, label, arrived, size } = queue.waiting.pop_front()?;
        let packet = packets.packet(&handle);
        let left = queue.waiting_bytes - u64::from(size);
        match &mut queue.router {
            Some(Router::Xcp(xcp)) => xcp.on_departure(now, packet, queue.waiting_bytes),
            Some(Router::Xtcp(counter)) => {
                self.wire.marked += u64::from(counter.on_departure(packet));
            }
            Some(Router::Estcp(estcp)) => {
                estcp.on_departure(now, packet, queue.waiting.len(), left);
            }
            Some(Router::Warning(_) | Router::EcnThreshold(_)) | None => {}
        }
        queue.waiting_bytes = left;
        let departure = self.wire.send(now, arrived, label, packet);
        Some(Fate::Sent { handle, arrived, departure })
    }

    /// Deficit round robin: moves the turn to the queue that sends next; one has a packet.
    fn choose(&mut self) {
        loop {
            let queue = &mut self.queues[self.turn];
            match queue.waiting.front() {
                None => queue.deficit = 0,
                Some(&Waiting { size, .. }) => {
                    if !self.credited {
                        self.credited = true;
                        queue.deficit += queue.quantum;
                    }
                    if let Some(rest) = queue.deficit.checked_sub(u64::from(size)) {
                        queue.deficit = rest;
                        return;
                    }
                }
            }
            self.turn = (self.turn + 1) % self.queues.len();
            self.credited = false;
        }
    }

    /// When [`QueuedLink::on_timer`] must be called next.
    pub fn next_timer(&self) -> Time {
        let timers = self.queues.iter().map(|queue| match &queue.router {
            Some(Router::Xcp(xcp)) => xcp.next_timer(),
            _ => Time::NEVER,
        });
        timers.min().unwrap_or(Time::NEVER)
    }

    /// Lets the routers' intervals that are due end.
    pub fn on_timer(&mut self, now: Time) {
        for queue in &mut self.queues {
            // One that sleeps keeps the rhythm of its intervals.
            if let Some(Router::Xcp(xcp)) = &mut queue.router
                && xcp.next_timer() <= now
            {
                xcp.on_timer(now, queue.waiting_bytes);
            }
        }
    }

    /// Packets waiting, the one in transmission not counted.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// When each of the waiting packets came.
    pub fn arrival_times(&self) -> impl Iterator<Item = Time> {
        self.queues.iter().flat_map(|queue| queue.waiting.iter().map(|waiting| waiting.arrived))
    }

    /// The value that the router sends out now, if it is one number: ESTCP's g, seconds.
    pub fn signal(&self) -> Option<f64> {
        self.traffic_controller().map(TrafficController::g)
    }

    /// The traffic controller of ESTCP, if there is one.
    pub fn traffic_controller(&self) -> Option<&TrafficController> {
        self.queues.iter().find_map(|queue| match &queue.router {
            Some(Router::Estcp(estcp)) => Some(&**estcp),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{RouterSpec, XcpSpec};
    use crate::packet::CongestionHeader;

    fn queue(limit: u32, router: RouterSpec) -> QueueSpec {
        QueueSpec { limit: QueueLimit::Packets(limit), router, ..QueueSpec::default() }
    }

    /// A link of 8 Mbit/s, a byte a microsecond, with classes of these weights.
    fn link(weights: [f64; 2]) -> QueuedLink<usize> {
        let class =
            |kind: RouterKind, weight| ClassSpec { kind, weight, queue: queue(100, kind.spec()) };
        let classes =
            vec![class(RouterKind::Any, weights[0]), class(RouterKind::Estcp, weights[1])];
        let spec = QueueSpec { classes, ..queue(100, RouterSpec::None) };
        let rate = Rate::from_bps(8_000_000).unwrap();
        QueuedLink::new(&rate.into(), Duration::ZERO, &spec, &ChannelSpec::Clean, 1, "test")
    }

    fn label(kind: RouterKind) -> Label {
        Label { flow: 0, class: kind as u8 }
    }

    fn packet(size: u32) -> Packet {
        Packet { size, ..Packet::default() }
    }

    /// The packet sent next, and when the wire is free again.
    fn serve(
        link: &mut QueuedLink<usize>,
        now: Time,
        packets: &mut [Packet],
    ) -> Option<(usize, Time)> {
        match link.serve(now, packets)? {
            Fate::Sent { handle, departure, .. } => Some((handle, departure.end)),
            Fate::Dropped { .. } => panic!("nothing is dropped from a queue"),
        }
    }

    /// Serves `count` packets of full queues and counts the bytes of both classes.
    fn bytes_served(weights: [f64; 2], sizes: [u32; 2], count: usize) -> [u64; 2] {
        let mut link = link(weights);
        let kinds = [RouterKind::Any, RouterKind::Estcp];
        let mut bytes = [0, 0];
        let mut now = Time::ZERO;
        let mut packets = sizes.map(packet);
        for _ in 0..count {
            for (class, kind) in kinds.into_iter().enumerate() {
                while link.offer(now, label(kind), &mut packets[class], class).is_ok() {}
            }
            let (class, end) = serve(&mut link, now, &mut packets).unwrap();
            bytes[class] += u64::from(sizes[class]);
            now = end;
        }
        bytes
    }

    #[test]
    fn classes_share_the_bytes_by_their_weights_whatever_their_packets() {
        // Equal weights, packets of 1500 and 100 bytes: Shreedhar and Varghese's bound on the
        // difference is a quantum and the largest packets, 1500 + 1500 + 100.
        let [a, b] = bytes_served([1.0, 1.0], [1500, 100], 10_000);
        assert!(a.abs_diff(b) <= 3100, "{a} {b}");
        // 3 : 1.
        let [a, b] = bytes_served([3.0, 1.0], [1000, 1000], 10_000);
        assert!((a as f64 / b as f64 - 3.0).abs() < 0.01, "{a} {b}");
    }

    #[test]
    fn a_class_alone_has_the_whole_wire() {
        let mut link = link([1.0, 1.0]);
        let mut packets = vec![packet(1000); 10];
        for (handle, packet) in packets.iter_mut().enumerate() {
            link.offer(Time::ZERO, label(RouterKind::Estcp), packet, handle).unwrap();
        }
        let mut now = Time::ZERO;
        let mut served = Vec::new();
        while let Some((handle, end)) = serve(&mut link, now, &mut packets) {
            now = end;
            served.push(handle);
        }
        assert_eq!(served, (0..10).collect::<Vec<_>>());
        assert_eq!(now, Time::ZERO + Duration::from_millis(10));
    }

    #[test]
    fn a_class_that_is_full_drops_its_own_packets_only() {
        let mut link = link([1.0, 1.0]);
        let now = Time::ZERO;
        let fill = |link: &mut QueuedLink<usize>, kind| {
            let offer = |i| link.offer(now, label(kind), &mut packet(1000), i);
            (0..200).map(offer).filter(Result::is_ok).count()
        };
        // The first of all finds an idle wire and still waits to be taken.
        assert_eq!(fill(&mut link, RouterKind::Any), 100);
        assert_eq!(fill(&mut link, RouterKind::Estcp), 100);
        assert_eq!(link.traffic_controller().unwrap().phases().len(), 0);
        // What has no class of its own joins the first.
        assert_eq!(fill(&mut link, RouterKind::Xtcp), 0);
    }

    #[test]
    fn a_router_with_a_capacity_gets_the_share_of_its_class() {
        let xcp = |weight| ClassSpec {
            kind: RouterKind::Xcp,
            weight,
            queue: queue(100, RouterSpec::Xcp(XcpSpec::default())),
        };
        let any =
            ClassSpec { kind: RouterKind::Any, weight: 3.0, queue: queue(100, RouterSpec::None) };
        let spec = QueueSpec { classes: vec![any, xcp(1.0)], ..queue(100, RouterSpec::None) };
        let rate = Rate::from_bps(8_000_000).unwrap();
        let link: QueuedLink<usize> =
            QueuedLink::new(&rate.into(), Duration::ZERO, &spec, &ChannelSpec::Clean, 1, "test");
        let Some(Router::Xcp(router)) = &link.queues[1].router else { panic!("an XCP router") };
        // A quarter of a million bytes a second.
        assert_eq!(router.capacity(), 250_000.0);
    }

    #[test]
    fn a_router_that_sleeps_is_left_alone_by_the_timers_of_another_class() {
        let xcp = |kind| ClassSpec {
            kind,
            weight: 1.0,
            queue: queue(100, RouterSpec::Xcp(XcpSpec::default())),
        };
        let classes = vec![xcp(RouterKind::Xcp), xcp(RouterKind::XcpPersistent)];
        let spec = QueueSpec { classes, ..queue(100, RouterSpec::None) };
        let rate = Rate::from_bps(8_000_000).unwrap();
        let mut link: QueuedLink<usize> =
            QueuedLink::new(&rate.into(), Duration::ZERO, &spec, &ChannelSpec::Clean, 1, "test");
        let ms = |time| Time::ZERO + Duration::from_millis(time);
        let send = |link: &mut QueuedLink<usize>, kind, now| {
            let header = CongestionHeader::Xcp {
                rtt: 0.03,
                inter_packet: 0.003,
                delta: 0.0,
                congestion_flag: 0,
            };
            let mut packets = [Packet { header, ..packet(1000) }];
            link.offer(now, label(kind), &mut packets[0], 0).unwrap();
            serve(link, now, &mut packets).unwrap();
        };
        // Without traffic an interval is 50 ms, and half of that for the queue. After an empty one
        // both routers sleep.
        link.on_timer(ms(50));
        assert_eq!(link.next_timer(), Time::NEVER);
        // The first wakes. From 150 ms on its intervals are an RTT and half of it long, so that
        // they end at 175 and 190, and at 180 ms.
        send(&mut link, RouterKind::Xcp, ms(110));
        for time in [125, 150] {
            assert_eq!(link.next_timer(), ms(time));
            link.on_timer(ms(time));
        }
        send(&mut link, RouterKind::Xcp, ms(170));
        for time in [175, 180, 190] {
            assert_eq!(link.next_timer(), ms(time));
            link.on_timer(ms(time));
        }
        assert_eq!(link.next_timer(), ms(205));
        // The second wakes with both of its intervals to end at 200 ms.
        send(&mut link, RouterKind::XcpPersistent, ms(195));
        assert_eq!(link.next_timer(), ms(200));
    }
}
