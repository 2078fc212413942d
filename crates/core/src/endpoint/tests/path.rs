//! A path by itself: one sender, one bottleneck with its queue, one receiver that acknowledges
//! at once, and an observer after every event.

use std::collections::{BTreeMap, VecDeque};

use super::super::window::Window;
use super::*;
use crate::network::EcnThreshold;
use crate::packet::PacketKind;
use crate::rng::Stream;
use crate::units::Probability;

pub(crate) struct TestPath {
    pub(crate) sender: Sender,
    receiver: Receiver,
    /// Time of one data packet of 1000 bytes, the usual size, on the wire.
    pub(crate) service: Duration,
    /// One way.
    pub(crate) delay: Duration,
    /// Packets that may wait, without the one in transmission.
    pub(crate) queue: usize,
    pub(crate) threshold: Option<EcnThreshold>,
    /// Loss probability of data after the bottleneck.
    pub(crate) loss: Probability,
    /// How much too late each timer fires, as those of a real clock do.
    pub(crate) lateness: Duration,
    /// How much the sender's clock is ahead of that of the path. It steps where this changes.
    pub(crate) ahead: Duration,
    /// Does a router mark all that can carry a mark, whatever waits?
    pub(crate) marks_all: bool,
    /// Does the path clear the ECN field?
    pub(crate) bleaches: bool,
    stream: Stream,
    busy_until: Time,
    /// When each of the waiting packets starts.
    waiting: VecDeque<Time>,
    channel: BTreeMap<(Time, u64), Packet>,
    entered: u64,
    pub(crate) now: Time,
    pub(crate) dropped: u64,
}

impl TestPath {
    /// A path of `rate` packets per second and a round trip of `rtt` besides transmission.
    pub(crate) fn new(protocol: &str, initial_window: f64, rate: u64, rtt: Duration) -> Self {
        let protocol = protocols::find(protocol).expect("a row of the table");
        TestPath::of(protocol, initial_window, rate, rtt)
    }

    /// The same for any composition.
    pub(crate) fn of(protocol: &Protocol, initial_window: f64, rate: u64, rtt: Duration) -> Self {
        let config = EndpointConfig { initial_window, ..EndpointConfig::default() };
        TestPath::with(protocol, config, rate, rtt)
    }

    /// The same for endpoints of this kind, but for their clocks, which are exact.
    pub(crate) fn with(
        protocol: &Protocol,
        config: EndpointConfig,
        rate: u64,
        rtt: Duration,
    ) -> Self {
        let config = EndpointConfig { clock_granularity: Duration::ZERO, ..config };
        TestPath {
            sender: Sender::new(protocol, &config, 1, "test"),
            receiver: Receiver::new(&protocol.feedback, &config),
            service: Duration::from_ps(1_000_000_000_000 / rate),
            delay: rtt.mul_f64(0.5),
            queue: 1 << 20,
            threshold: None,
            loss: Probability::ZERO,
            lateness: Duration::ZERO,
            ahead: Duration::ZERO,
            marks_all: false,
            bleaches: false,
            stream: Stream::new(1, "test", "path"),
            busy_until: Time::ZERO,
            waiting: VecDeque::new(),
            channel: BTreeMap::new(),
            entered: 0,
            now: Time::ZERO,
            dropped: 0,
        }
    }

    /// The application offers data up to `limit`.
    pub(crate) fn offer_until(&mut self, limit: u64) {
        self.sender.offer_until(limit);
        self.transmit();
    }

    /// Packets that have arrived for the first time.
    pub(crate) fn delivered(&self) -> u64 {
        self.receiver.stats().unique
    }

    /// Packets waiting at the bottleneck.
    pub(crate) fn waiting(&mut self) -> usize {
        while self.waiting.front().is_some_and(|start| *start <= self.now) {
            self.waiting.pop_front();
        }
        self.waiting.len()
    }

    /// Lets `passed` go by.
    pub(crate) fn run(&mut self, passed: Duration, mut observe: impl FnMut(Time, &Window)) {
        let until = self.now + passed;
        loop {
            let arrival = self.channel.first_key_value().map_or(Time::NEVER, |(key, _)| key.0);
            // Never earlier than now: an arrival may have come between.
            let timer = (Time::ZERO
                + self.sender.next_timer().since(Time::ZERO + self.ahead)
                + self.lateness)
                .max(self.now);
            let next = arrival.min(timer);
            if next > until {
                self.now = until;
                return;
            }
            self.now = next;
            if arrival > next {
                self.sender.on_timer(next + self.ahead);
            } else if let Some((_, mut packet)) = self.channel.pop_first() {
                if packet.kind == PacketKind::Ack {
                    self.sender.on_ack(next + self.ahead, &packet);
                } else if self.receiver.on_data(next, &mut packet) {
                    self.enter(next + self.delay, packet);
                }
            }
            self.transmit();
            observe(self.now, self.sender.window());
        }
    }

    fn transmit(&mut self) {
        let mut packet = Packet::default();
        while self.sender.poll_transmit(self.now + self.ahead, &mut packet) {
            let waiting = self.waiting();
            let start = self.busy_until.max(self.now);
            if waiting >= self.queue && start > self.now {
                self.dropped += 1;
                continue;
            }
            if let Some(threshold) = self.threshold {
                threshold.on_arrival(waiting, &mut packet);
            }
            if self.bleaches {
                packet.flags.remove(Flags::ECN_CAPABLE);
            }
            if self.marks_all && packet.flags.contains(Flags::ECN_CAPABLE) {
                packet.flags.insert(Flags::CONGESTION_EXPERIENCED);
            }
            if start > self.now {
                self.waiting.push_back(start);
            }
            self.busy_until = start + self.service.mul_f64(f64::from(packet.size) / 1000.0);
            if self.stream.chance(self.loss) {
                self.dropped += 1;
            } else {
                self.enter(self.busy_until + self.delay, packet.clone());
            }
        }
    }

    fn enter(&mut self, arrival: Time, packet: Packet) {
        self.entered += 1;
        self.channel.insert((arrival, self.entered), packet);
    }
}
