//! Comparison of the figures that a controller of Windward gets with what happened to the packets:
//! over the handshake, a search for the MTU with probes that are lost, small packets, packets that
//! carry only acknowledgments, losses in both directions, and changes of the path.

use std::collections::BTreeMap;
use std::sync::Mutex;

use windward_core::endpoint::estimator::{LostPacket, RateSample};
use windward_core::endpoint::event::{AckEvent, CongestionEvent, Path, ResetEvent};
use windward_core::endpoint::window::{
    Controller, ControllerConfig, ControllerSetup, MakeController, Window,
};
use windward_core::part::{AnyPart, Custom, CustomPart, Words};
use windward_core::protocols::{self, Protocol};
use windward_sim::stack::FrameFacts;

use super::super::Tested;
use super::*;
use crate::family::Family;

/// An event of a controller.
#[derive(Debug, Clone, Copy)]
enum Told {
    Sample(RateSample),
    Ack(AckEvent),
}

/// A controller of Windward whose events are kept.
#[derive(Debug)]
struct Kept {
    controller: Window,
    told: Arc<Mutex<Vec<Told>>>,
}

impl Controller for Kept {
    fn cwnd(&self) -> f64 {
        self.controller.cwnd()
    }
    fn pacing_rate(&self) -> Option<f64> {
        self.controller.pacing_rate()
    }
    fn on_ack(&mut self, ack: &AckEvent) {
        self.told.lock().unwrap().push(Told::Ack(*ack));
        self.controller.on_ack(ack);
    }
    fn on_congestion(&mut self, event: &CongestionEvent) {
        self.controller.on_congestion(event);
    }
    fn on_error_loss(&mut self, path: &Path) {
        self.controller.on_error_loss(path);
    }
    fn on_reset(&mut self, event: &ResetEvent) {
        self.controller.on_reset(event);
    }
    fn on_lost(&mut self, packet: &LostPacket, now: Time) {
        self.controller.on_lost(packet, now);
    }
    fn on_spurious_losses(&mut self) {
        self.controller.on_spurious_losses();
    }
    fn on_rate_sample(&mut self, sample: &RateSample) -> bool {
        self.told.lock().unwrap().push(Told::Sample(*sample));
        self.controller.on_rate_sample(sample)
    }
    fn on_restart_from_idle(&mut self, now: Time) {
        self.controller.on_restart_from_idle(now);
    }
    fn on_packet_size(&mut self) {
        self.controller.on_packet_size();
    }
}

/// Makes such controllers; each has its own record.
struct Keeping {
    config: ControllerConfig,
    records: Mutex<Vec<Arc<Mutex<Vec<Told>>>>>,
}

impl CustomPart for Keeping {
    fn words(&self) -> Words {
        self.config.words()
    }
}

impl MakeController for Keeping {
    fn make(&self, setup: ControllerSetup<'_>) -> Box<dyn Controller> {
        let told = Arc::default();
        self.records.lock().unwrap().push(Arc::clone(&told));
        Box::new(Kept { controller: Window::new(&self.config, setup), told })
    }
    fn paces(&self) -> bool {
        self.config.paces()
    }
    fn samples_rate(&self) -> bool {
        true
    }
    fn measures_delay(&self) -> bool {
        self.config.measures_delay()
    }
}

/// The path and the application of a case.
#[derive(Debug, Clone, Copy)]
struct Case {
    row: &'static str,
    /// Bits per second.
    rate: u64,
    /// Propagation delay of each direction, at first and after half of the time, milliseconds.
    delays: [u64; 2],
    /// Packets that wait at most, in time.
    queue: u64,
    loss: f64,
    /// Size of packets that the path carries, bytes.
    packet_size: u32,
    mtu_discovery: bool,
    /// The path carries no packet above 1228 bytes after half of the time.
    shrinks: bool,
    /// The application writes small messages with pauses.
    talks: bool,
    seed: u64,
}

/// A packet of the sender, and what became of it.
#[derive(Debug, Clone, Copy)]
struct Packet {
    left: Time,
    bytes: u64,
    is_eliciting: bool,
    is_probe: bool,
    /// Time at which it arrived, and how long it waited behind others.
    arrived: Option<(Time, Duration)>,
    is_acked: bool,
}

/// An ACK frame that is news to the sender.
#[derive(Debug, Clone, Copy)]
struct Frame {
    at: Time,
    packets: u64,
    bytes: u64,
    /// Time since its newest packet left, whatever that waited for; `None` if it acknowledges no
    /// packet newer than those before.
    rtt: Option<Duration>,
    /// Bytes of that packet.
    size: u64,
}

/// Space and number of a packet.
type Key = (usize, u64);

/// A datagram on its way.
struct Datagram {
    at: Time,
    left: Time,
    /// How long it waits behind others.
    wait: Duration,
    payload: Vec<u8>,
    ecn: Codepoint,
    /// The packets of the sender in it.
    packets: Vec<Key>,
}

/// Datagrams on their way to one end, and the time until which the link is busy.
#[derive(Default)]
struct Link {
    on_the_way: VecDeque<Datagram>,
    busy: Time,
}

/// A connection over a path, and what happened to each packet of its sender.
struct Run {
    case: Case,
    pair: Pair,
    watched: Arc<Watched>,
    told: Arc<Mutex<Vec<Told>>>,
    links: [Link; 2],
    dice: Stream,
    now: Time,
    packets: BTreeMap<Key, Packet>,
    /// Bytes of datagrams without probes, and of packets that elicit an acknowledgment.
    datagram_bytes: u64,
    eliciting_bytes: u64,
    eliciting: u64,
    acked: (u64, u64),
    largest_acked: [Option<u64>; 3],
    frames: VecDeque<Frame>,
    /// The smallest RTT without any queue so far.
    least: Duration,
    /// The MTU before and after the latest event.
    mtus: [u16; 2],
    /// The RTTs that the controller was told last, and the sum of its packets.
    rtt: Duration,
    full_rtt: Option<Duration>,
    delivered: u64,
    /// RTTs that it was told.
    fresh: u64,
    /// Bytes of datagrams of the sender that did not arrive, without probes.
    dropped: u64,
    most_apart: u64,
    /// Bytes in flight of packets of the handshake's end, without probes, and of lost ones.
    unacked: u64,
}

/// Receivers count the delay of an acknowledgment in units of 8 us, stacks in nanoseconds.
const TOLERANCE: Duration = Duration::from_micros(9);
const LENGTH: Duration = Duration::from_secs(4);

impl Run {
    fn new(case: Case) -> Self {
        let config = StackConfig {
            packet_size: case.packet_size,
            mtu_discovery: case.mtu_discovery,
            ..StackConfig::default()
        };
        let bytes = case.talks.then_some(0);
        let setup = StackSetup { seed: case.seed, bytes, config };
        let config = protocols::find(case.row).unwrap().window;
        let keeping: &'static Keeping =
            Box::leak(Box::new(Keeping { config, records: Mutex::default() }));
        let window = ControllerConfig::Custom(Custom(keeping));
        let controllers = Tested::drive(&Protocol { window, ..*protocols::plain() }, 1);
        let watched = Arc::new(Watched::default());
        let mut pair = Pair::new(&setup, controllers, Arc::clone(&watched));
        // The path loses what is too large, below.
        pair.ends[End::Sender as usize].largest = usize::MAX;
        // Of an application that talks, the streams do not end.
        pair.ended = case.talks;
        keeping.records.lock().unwrap().clear();
        pair.start(Time::ZERO);
        let told = Arc::clone(&keeping.records.lock().unwrap()[0]);
        Run {
            case,
            pair,
            watched,
            told,
            links: [Link::default(), Link::default()],
            dice: Stream::new(case.seed, "test", "truth"),
            now: Time::ZERO,
            packets: BTreeMap::new(),
            datagram_bytes: 0,
            eliciting_bytes: 0,
            eliciting: 0,
            acked: (0, 0),
            largest_acked: [None; 3],
            frames: VecDeque::new(),
            least: Duration::MAX,
            mtus: [0; 2],
            rtt: Duration::ZERO,
            full_rtt: None,
            delivered: 0,
            fresh: 0,
            dropped: 0,
            most_apart: 0,
            unacked: 0,
        }
    }

    fn is_late(&self) -> bool {
        self.now > Time::ZERO + LENGTH.mul_f64(0.5)
    }

    /// Sends what an end has, over the link of its direction.
    fn transmit(&mut self, end: End) {
        let mut payload = Vec::new();
        while let Some(ecn) = self.pair.poll_transmit(self.now, end, &mut payload) {
            let (is_probe, packets) = self.note(end, &payload);
            let delay = Duration::from_millis(self.case.delays[usize::from(self.is_late())]);
            let largest =
                if self.case.shrinks && self.is_late() { 1228 } else { self.case.packet_size };
            let link = &mut self.links[end as usize];
            let wait = link.busy.since(self.now);
            let size = payload.len() as u64 + 28;
            let is_large = size > u64::from(largest);
            let full = 8 * u64::from(self.case.packet_size) * 1_000_000_000 / self.case.rate;
            let is_dropped = self.dice.uniform() < self.case.loss && self.pair.connected;
            if is_large || is_dropped || wait > Duration::from_nanos(full * self.case.queue) {
                self.dropped += if is_probe { 0 } else { payload.len() as u64 };
                continue;
            }
            let bits = 8 * size;
            link.busy =
                self.now + wait + Duration::from_nanos(bits * 1_000_000_000 / self.case.rate);
            let last = link.on_the_way.back().map_or(Time::ZERO, |last| last.at);
            let at = (link.busy + delay).max(last);
            let wait = wait + at.since(link.busy + delay);
            let (left, payload) = (self.now, payload.clone());
            link.on_the_way.push_back(Datagram { at, left, wait, payload, ecn, packets });
        }
    }

    /// Notes the packets of a datagram of the sender, and returns them, and true for a probe.
    fn note(&mut self, end: End, payload: &[u8]) -> (bool, Vec<Key>) {
        let mut keys = Vec::new();
        if end == End::Receiver {
            return (false, keys);
        }
        let packets = self.pair.describe(End::Sender, payload);
        let is_other = |frame: &FrameFacts, names: &[&str]| matches!(frame, FrameFacts::Other(name) if names.contains(name));
        let mut frames = packets.iter().flat_map(|packet| &packet.frames);
        let is_probe = payload.len() > 1200
            && frames.all(|frame| is_other(frame, &["ping", "immediate_ack", "padding"]));
        self.datagram_bytes += if is_probe { 0 } else { payload.len() as u64 };
        for packet in packets {
            let is_passive = |frame: &FrameFacts| {
                matches!(frame, FrameFacts::Ack { .. }) || is_other(frame, &["padding"])
            };
            let is_eliciting = !packet.frames.iter().all(is_passive);
            let bytes = u64::from(packet.length);
            self.eliciting += u64::from(is_eliciting);
            self.eliciting_bytes += if is_eliciting { bytes } else { 0 };
            let key = (packet.kind.space(), packet.number);
            keys.push(key);
            self.unacked += if is_eliciting && key.0 == 2 && !is_probe { bytes } else { 0 };
            let (left, arrived, is_acked) = (self.now, None, false);
            let packet = Packet { left, bytes, is_eliciting, is_probe, arrived, is_acked };
            self.packets.insert(key, packet);
        }
        (is_probe, keys)
    }

    /// Notes what arrives at the receiver.
    fn arrive(&mut self, datagram: &Datagram) {
        for key in &datagram.packets {
            if let Some(packet) = self.packets.get_mut(key) {
                packet.arrived = Some((self.now, datagram.wait));
            }
        }
    }

    /// Notes what the acknowledgments in a datagram tell the sender.
    fn acknowledge(&mut self, datagram: &Datagram) {
        let (back, wait) = (self.now.since(datagram.left), datagram.wait);
        for packet in self.pair.describe(End::Receiver, &datagram.payload) {
            let space = packet.kind.space();
            for frame in packet.frames {
                let FrameFacts::Ack { ranges, .. } = frame else { continue };
                let (mut packets, mut bytes, mut newest) = (0, 0, None);
                for (first, last) in ranges.into_iter().rev() {
                    for (key, packet) in self.packets.range_mut((space, first)..=(space, last)) {
                        if std::mem::replace(&mut packet.is_acked, true) || !packet.is_eliciting {
                            continue;
                        }
                        packets += 1;
                        bytes += packet.bytes;
                        if key.0 == 2 && !packet.is_probe {
                            self.unacked -= packet.bytes;
                        }
                        // quinn's controllers do not know of probes.
                        if !packet.is_probe || newest.is_none() || !differences::IS_SPACED {
                            newest = Some((key.1, *packet));
                        }
                    }
                }
                let Some((number, newest)) = newest else { continue };
                self.acked = (self.acked.0 + packets, self.acked.1 + bytes);
                let (arrived, queued) = newest.arrived.expect("it arrived");
                let network = arrived.since(newest.left) + back;
                let least = Duration::from_ps(network.as_ps() - queued.as_ps() - wait.as_ps());
                self.least = self.least.min(least);
                let is_newer = Some(number) > self.largest_acked[space];
                self.largest_acked[space] = self.largest_acked[space].max(Some(number));
                let rtt = is_newer.then(|| self.now.since(newest.left));
                let size = newest.bytes;
                self.frames.push_back(Frame { at: self.now, packets, bytes, rtt, size });
            }
        }
    }
}

impl Run {
    /// Compares what the controller was told since the last time.
    fn compare(&mut self) {
        let figures = self.watched.driver().expect("one of ours").figures();
        let mtus = [self.mtus[1], figures.mtu];
        self.mtus = mtus;
        let mut sample = None;
        let told = std::mem::take(&mut *self.told.lock().unwrap());
        for told in told {
            match told {
                Told::Sample(told) => sample = Some(told),
                Told::Ack(ack) => self.compare_frame(&ack, sample.take()),
            }
        }
        let case = self.case;
        assert_eq!((figures.acked, figures.acked_bytes), self.acked, "{case:?}");
        let in_flight = self.unacked.saturating_sub(figures.lost_bytes);
        self.most_apart = self.most_apart.max(figures.in_flight.abs_diff(in_flight));
    }

    fn compare_frame(&mut self, ack: &AckEvent, sample: Option<RateSample>) {
        let case = self.case;
        let frame = self.frames.pop_front().expect("a frame");
        let path = &ack.path;
        assert_eq!(
            (path.now, ack.newly_acked, ack.newly_acked_bytes),
            (frame.at, frame.packets, frame.bytes),
            "{case:?}"
        );
        let within = |rtt: Duration| {
            // The wait of a packet behind its own batch is taken off, at most to the smallest RTT.
            frame.rtt.is_some_and(|most| rtt + TOLERANCE >= self.least && rtt <= most)
        };
        if path.rtt != self.rtt {
            self.fresh += 1;
            assert!(within(path.rtt), "{case:?}: {path:?} of {frame:?}");
        }
        self.rtt = path.rtt;
        assert!(
            path.min_rtt + TOLERANCE >= self.least && path.min_rtt <= path.rtt,
            "{case:?}: {path:?} of {:?}",
            self.least
        );
        self.delivered += ack.newly_acked;
        let Some(sample) = sample else { return };
        assert_eq!(sample.newly_acked, frame.packets, "{case:?}");
        assert_eq!(sample.total_delivered, self.delivered, "{case:?}");
        let full = u64::from(self.mtus[0].min(self.mtus[1]));
        if sample.rtt != self.full_rtt {
            assert!(
                sample.rtt.is_none_or(|rtt| within(rtt) && 16 * frame.size >= 15 * full),
                "{case:?}: {sample:?} of {frame:?}"
            );
        }
        self.full_rtt = sample.rtt;
    }

    /// Writes a message of the application.
    fn talk(&mut self) {
        if !self.case.talks || !self.pair.connected {
            return;
        }
        let bytes = [20, 90, 700, 1100, 5000, 60_000][(self.dice.uniform() * 6.0) as usize];
        let stream = self.pair.streams[0];
        let end = &mut self.pair.ends[End::Sender as usize];
        if let Some((_, connection)) = &mut end.connection {
            differences::write(connection.send_stream(stream), vec![0; bytes].into());
        }
    }

    fn run(mut self) -> Self {
        let mut next_talk = Time::ZERO;
        while self.now < Time::ZERO + LENGTH {
            for end in End::BOTH {
                self.transmit(end);
            }
            let arrival = |link: &Link| link.on_the_way.front().map_or(Time::NEVER, |next| next.at);
            let timers = End::BOTH.map(|end| self.pair.next_timer(end));
            let arrivals = [0, 1].map(|link| arrival(&self.links[link]));
            self.now = timers.into_iter().chain(arrivals).min().unwrap();
            if self.case.talks && next_talk <= self.now {
                self.now = next_talk;
                next_talk = self.now + Duration::from_micros((self.dice.uniform() * 9e4) as u64);
                self.talk();
                continue;
            }
            for (end, link) in [(End::Sender, 1), (End::Receiver, 0)] {
                if arrival(&self.links[link]) <= self.now
                    && let Some(datagram) = self.links[link].on_the_way.pop_front()
                {
                    match end {
                        End::Sender => self.acknowledge(&datagram),
                        End::Receiver => self.arrive(&datagram),
                    }
                    self.pair.receive(self.now, end, &datagram.payload, datagram.ecn);
                }
                if self.pair.next_timer(end) <= self.now {
                    self.pair.on_timer(self.now, end);
                }
            }
            if self.watched.driver().is_some() {
                self.compare();
            }
        }
        assert_eq!(self.pair.report().failure, None);
        self
    }
}

impl Run {
    /// Compares the counters at the end.
    fn check(&self) {
        let case = self.case;
        let figures = self.watched.driver().expect("one of ours").figures();
        let largest = u64::from(case.packet_size);
        if differences::IS_SPACED {
            // quinn reports datagrams without probes, and those that carry only acknowledgments.
            // A batch of ten may wait at the socket.
            let waiting = figures.sent_bytes - self.datagram_bytes;
            assert!(waiting <= 10 * largest, "{case:?}: {waiting}");
            assert!(figures.sent.abs_diff(self.eliciting) <= 16, "{case:?}: {figures:?}");
        } else {
            let eliciting = (self.eliciting, self.eliciting_bytes);
            assert_eq!((figures.sent, figures.sent_bytes), eliciting, "{case:?}");
        }
        // Packets are found lost some time after they were dropped.
        let missed = self.dropped.checked_sub(figures.lost_bytes);
        assert!(
            missed.is_some_and(|missed| missed <= figures.in_flight + 3 * largest),
            "{case:?}: {} of {figures:?}",
            self.dropped
        );
        // A batch of ten may wait at the socket, and two probes be in flight.
        assert!(self.most_apart <= 12 * largest, "{case:?}: {}", self.most_apart);
        assert!(figures.unmatched <= 4 && self.fresh > 20, "{case:?}: {figures:?}");
    }
}

#[test]
fn controllers_are_told_the_truth() {
    let clean = Case {
        row: "upwind",
        rate: 40_000_000,
        delays: [20, 20],
        queue: 200,
        loss: 0.0,
        packet_size: 1480,
        mtu_discovery: true,
        shrinks: false,
        talks: false,
        seed: 1,
    };
    let paths = [
        clean,
        Case { mtu_discovery: false, ..clean },
        Case { rate: 10_000_000, delays: [40, 40], loss: 0.05, packet_size: 1380, ..clean },
        Case { rate: 10_000_000, delays: [40, 60], loss: 0.01, ..clean },
        Case { rate: 100_000_000, delays: [20, 5], packet_size: 6500, ..clean },
        Case { shrinks: true, queue: 20, ..clean },
    ];
    for row in ["upwind", "bbr1", "cubic"] {
        for path in paths {
            for (talks, seed) in [(false, 1), (true, 2), (true, 3)] {
                let case = Case { row, talks, seed, ..path };
                Run::new(case).run().check();
            }
        }
    }
}
