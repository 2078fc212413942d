//! A row or composition of the protocol table behind the congestion controller of a QUIC stack.
//!
//! The stack detects losses, retransmits, acknowledges and sends. The [`Driver`] hears what a stack
//! tells its congestion controller: packets sent, acknowledged, lost and marked. It keeps the
//! estimators, asks the discriminator, moves the window, and answers with a window and a pacing
//! rate. It does no I/O and reads no clock, so that the same code runs in virtual time and in
//! deployment. `windward-quic` connects it to quinn.
//!
//! The order of the events of one ACK frame is that of quinn and noq: [`Driver::on_acked`] for each
//! packet, [`Driver::on_frame`], and then losses, persistent congestion and marks.
//!
//! - An ACK frame is one event for the controller. Losses are judged as in Windward's own sender:
//!   the first of a round trip, and then those that the discriminator still wants to judge.
//! - A certain reduction, by a loss or a mark, begins a recovery period. Losses and marks of
//!   packets sent before do not reduce the window again (RFC 9002 section 7.3.2).
//! - RTTs are taken from the newest packet of a frame, if that is newer than all before (RFC 9002
//!   section 5.1). They contain neither the wait of a packet behind its own batch (`batch.rs`) nor
//!   the ACK delay. For a controller or discriminator that measures delays, a frame that may have
//!   been delayed, since it has one packet or a longer RTT than the latest, is handled when the
//!   next one begins: the stack's smoothed RTT shows its delay only then. Others hear of it at
//!   once. Rate samples have RTTs of full packets only: a smaller one takes less time at the
//!   bottleneck, as if a queue had been empty.
//! - A window that sets a pacing rate also runs in a stack with a pacer of its own
//!   ([`Pacer::Window`]), whose rate is proportional to the window: the window is then at most what
//!   the rate carries in a smoothed RTT. Fewer than two packets per round trip are not possible
//!   there. Such a pacer may send bursts; a socket that asks [`Driver::depart`] spreads them. RTTs
//!   then begin when the packet leaves the socket.
//! - Memory is bounded whatever the stack tells: at most 131,072 packets are remembered, at most
//!   64 packets more than the window or the stack's own flight, and the window is never larger than
//!   that list.

mod batch;
mod flight;
mod spacing;
mod support;

pub use spacing::Spacing;
pub use support::{Host, Support, obstacle, support};

use batch::Batches;
use flight::{Acknowledged, Flight};

use super::EndpointConfig;
use super::discrimination::{Discriminator, DiscriminatorSetup, DiscriminatorState};
use super::estimator::{Asked, Estimators, LossRate};
use super::event::{
    AckEvent, AfterTimeout, CongestionEvent, LossEvent, LossSign, Path, ResetCause, ResetEvent,
};
use super::feedback::FeedbackConfig;
use super::window::{Controller, ControllerSetup, Window};
use crate::part::Plain;
use crate::protocols::Protocol;
use crate::rng::Stream;
use crate::units::{Duration, Probability, Time};

/// Packets of the initial window (RFC 9002 section 7.2).
const INITIAL_WINDOW: f64 = 10.0;
/// Smallest window, packets (RFC 9002 section 7.2: kMinimumWindow).
const LEAST_WINDOW: f64 = 2.0;
/// Packets by which the list may exceed the window and the stack's flight: probes, and packets that
/// are not in flight because they carry only acknowledgments.
const SLACK: u64 = 64;

/// An RTT that exceeds the latest by more than this may contain an ACK delay (RFC 9002 section
/// 6.1.2: kGranularity).
const GRANULARITY: Duration = Duration::from_millis(1);

/// The pacer of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pacer {
    /// Its rate follows the window, and it ignores [`Driver::pacing_rate`]. quinn sends 1.25
    /// windows per round trip.
    Window,
    /// It obeys [`Driver::pacing_rate`], if there is one.
    Rate,
}

/// Arguments for the construction of a [`Driver`].
#[derive(Debug, Clone, Copy)]
pub struct DriverSetup {
    /// Payload of a full UDP datagram, bytes; at least 1.
    pub mtu: u16,
    /// The pacer of the stack.
    pub pacer: Pacer,
    /// Seed of the random numbers, for protocols that use some.
    pub seed: u64,
}

/// The end of an ACK frame.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    /// The instant.
    pub now: Time,
    /// Bytes that the stack has in flight after the packets of the frame are acknowledged, and
    /// before losses that it reveals.
    pub in_flight: u64,
    /// True if the application, and not the window or the pacer, limited what was sent.
    pub app_limited: bool,
    /// The largest packet number acknowledged so far, for stacks that report batches: it tells
    /// which packet of a batch arrived.
    pub largest: Option<u64>,
}

/// Figures of a connection: what it is doing now, and counters since its start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// Name of the phase: that of the controller, or in the words of RFC 9002.
    pub phase: &'static str,
    /// Payload of a full UDP datagram, bytes.
    pub mtu: u16,
    /// Window given to the stack, bytes.
    pub window: u64,
    /// Slow start threshold, bytes; `None` for a controller without one.
    pub ssthresh: Option<u64>,
    /// Pacing rate that the controller sets, bytes per second; `None` if it sets none.
    pub pacing_rate: Option<u64>,
    /// Bytes in flight, as the driver counts them.
    pub in_flight: u64,
    /// Bytes in flight, as the stack told them last, with what it sent and lost since then.
    pub stack_in_flight: u64,
    /// Latest RTT, without the ACK delay; zero before the first.
    pub latest_rtt: Duration,
    /// Smoothed RTT; zero before the first.
    pub srtt: Duration,
    /// Smallest RTT; zero before the first.
    pub min_rtt: Duration,
    /// Delivery rate of the latest round trip, bytes per second; zero before the first sample.
    pub delivery_rate: f64,
    /// True if the application limits the sender.
    pub app_limited: bool,
    /// Packets and bytes sent, as far as the stack reports them.
    pub sent: u64,
    /// See [`Figures::sent`].
    pub sent_bytes: u64,
    /// Packets acknowledged.
    pub acked: u64,
    /// Bytes acknowledged.
    pub acked_bytes: u64,
    /// Packets lost.
    pub lost: u64,
    /// Bytes lost.
    pub lost_bytes: u64,
    /// Reports of ECN marks.
    pub marks: u64,
    /// Losses judged, at most the first of a round trip and what the discriminator asks for.
    pub judged: u64,
    /// Losses that were judged not to be congestion.
    pub spared: u64,
    /// Restarts by persistent congestion.
    pub resets: u64,
    /// Reports that all losses of a recovery period were spurious.
    pub spurious: u64,
    /// Acknowledgments and losses of packets that the driver does not know.
    pub unmatched: u64,
    /// Packets that left the flight without a report.
    pub forgotten: u64,
    /// Invalid windows that a controller of another crate returned.
    pub refused_windows: u64,
}

/// News since the last ACK frame.
#[derive(Debug, Clone, Copy, Default)]
struct Pending {
    packets: u64,
    bytes: u64,
    lost: u64,
    /// The newest packet that the driver knows, and its bytes.
    newest: Option<Acknowledged>,
    size: u32,
    /// Time at which the newest packet was sent.
    sent: Time,
}

impl Pending {
    /// Time at which the newest packet left the socket.
    fn left(&self) -> Time {
        self.newest.map_or(self.sent, |newest| newest.left.max(self.sent))
    }
}

/// The latest batch.
#[derive(Debug, Clone, Copy, Default)]
struct Batch {
    mtu: u16,
    bytes: u64,
    /// Its packets, if they have all numbers since the batch before.
    count: Option<u64>,
    /// Bytes of the datagrams of which it consists, but for the last one; zero before the first
    /// has left.
    segment: u64,
}

/// Counters; see [`Figures`].
#[derive(Debug, Clone, Copy, Default)]
struct Counters {
    sent: u64,
    sent_bytes: u64,
    acked: u64,
    acked_bytes: u64,
    lost: u64,
    lost_bytes: u64,
    marks: u64,
    judged: u64,
    spared: u64,
    resets: u64,
    spurious: u64,
    unmatched: u64,
    forgotten: u64,
}

/// Measurements that the parts of the protocol ask for.
#[derive(Debug, Clone, Copy)]
struct Needs {
    /// Acknowledgments, for the discriminator.
    acks: bool,
    /// Samples of the delivery rate, for the controller.
    rate: bool,
    /// RTTs without the ACK delay.
    delay: bool,
}

/// The flight by the stack's own count.
#[derive(Debug, Clone, Copy, Default)]
struct StackFlight {
    /// Bytes in flight after the latest ACK frame, less what was lost since then.
    in_flight: u64,
    /// Bytes sent since then.
    sent_since: u64,
}

/// The ACK frame that the stack is reporting.
#[derive(Debug, Default)]
struct AckFrame {
    packets: u64,
    pending: Pending,
    /// The smoothed RTT of the stack before it.
    smoothed: Duration,
    /// The stack's own RTT of its newest packet, if the stack tells it.
    told: Option<Option<Duration>>,
    /// The latest frame, if it waits for its ACK delay, and the smoothed RTT before it.
    waiting: Option<(Frame, Duration)>,
    /// Time at which the newest packet of the latest frame was sent.
    newest_sent: Time,
}

/// The driver of one connection over one path.
#[derive(Debug)]
pub struct Driver {
    window: Window,
    discriminator: DiscriminatorState,
    needs: Needs,
    estimators: Estimators,
    batches: Batches,
    flight: Flight,
    spacing: Spacing,
    pacer: Pacer,
    mtu: u16,
    stack: StackFlight,
    frame: AckFrame,
    /// Latest RTT of a full packet; `None` before the first of this MTU.
    full_rtt: Option<Duration>,
    /// Packets with a smaller ordinal belong to the last recovery period.
    recovery_start: u64,
    /// Marks of packets with a smaller ordinal do not reduce the window again.
    certain_until: u64,
    largest_acked: u64,
    /// The next ordinal at the end of the first ACK frame, which may be that of a handshake; zero
    /// before. The smallest ordinal acknowledged since.
    first_frame: u64,
    earliest_acked: Option<u64>,
    /// Packets outstanding before the latest ACK frame or losses (RFC 5681: FlightSize), and the
    /// time of these. Those acknowledged above a loss count.
    outstanding: (Time, u64),
    /// The largest packet number of the latest batch, or that of a probe after it.
    last_number: Option<u64>,
    batch: Batch,
    /// Bytes of the probe whose acknowledgment has just raised the MTU.
    probe: Option<u32>,
    app_limited: bool,
    delivery_rate: f64,
    counters: Counters,
    lost: Vec<u64>,
}

impl Driver {
    /// The driver of a connection with this protocol, of which [`support()`] says how much runs.
    ///
    /// # Errors
    /// As [`Driver::check`].
    pub fn new(protocol: &Protocol, setup: DriverSetup) -> Result<Self, String> {
        Driver::check(protocol).map(|()| Driver::of(protocol, setup))
    }

    /// Checks that a protocol can run in a QUIC stack, with parameters in their ranges.
    ///
    /// # Errors
    /// The reason why it cannot, as a sentence without a capital or a full stop.
    pub fn check(protocol: &Protocol) -> Result<(), String> {
        protocol.validate().map_err(|((axis, part), wrong)| format!("{axis} `{part}`: {wrong}"))?;
        obstacle(protocol, Host::Quic).map_or(Ok(()), Err)
    }

    fn of(protocol: &Protocol, setup: DriverSetup) -> Self {
        let endpoint = EndpointConfig {
            packet_size: setup.mtu.into(),
            initial_window: INITIAL_WINDOW,
            // RFC 9002 counts bytes.
            byte_counting: true,
            ecn: Some(true),
            clock_granularity: Duration::ZERO,
            ..EndpointConfig::default()
        };
        let asked =
            Asked { numbered: true, bandwidth: protocol.window.bandwidth(), delivery_rate: true };
        let stream = |part| Stream::new(setup.seed, "stack", part);
        Driver {
            window: Window::new(
                &protocol.window,
                ControllerSetup {
                    feedback: &FeedbackConfig::None(Plain),
                    endpoint: &endpoint,
                    stream: stream("window"),
                },
            ),
            discriminator: protocol
                .discrimination
                .make(DiscriminatorSetup { endpoint: &endpoint, stream: stream("discrimination") }),
            needs: Needs {
                acks: protocol.discrimination.hears_acks(),
                rate: protocol.window.samples_rate(),
                delay: protocol.window.measures_delay() || protocol.discrimination.hears_acks(),
            },
            estimators: Estimators::new(&endpoint, asked),
            batches: Batches::default(),
            flight: Flight::new(),
            spacing: Spacing::default(),
            pacer: setup.pacer,
            mtu: setup.mtu.max(1),
            stack: StackFlight::default(),
            frame: AckFrame::default(),
            full_rtt: None,
            recovery_start: 1,
            certain_until: 1,
            largest_acked: 0,
            first_frame: 0,
            earliest_acked: None,
            outstanding: (Time::ZERO, 0),
            last_number: None,
            batch: Batch::default(),
            probe: None,
            app_limited: false,
            delivery_rate: 0.0,
            counters: Counters::default(),
            lost: Vec::new(),
        }
    }

    /// The window, bytes: at least two packets. Stacks stay below it, so that it is one byte more
    /// than whole packets.
    pub fn window(&self) -> u64 {
        self.bytes(self.packets().clamp(LEAST_WINDOW, Flight::MOST as f64)) + 1
    }

    /// The pacing rate that the controller sets, bytes per second; `None` if it sets none.
    pub fn pacing_rate(&self) -> Option<u64> {
        self.window.pacing_rate().map(|packets| self.bytes(packets))
    }

    /// The window in packets that the stack may use.
    fn packets(&self) -> f64 {
        let cwnd = self.window.cwnd();
        match self.window.pacing_rate() {
            Some(rate) if self.pacer == Pacer::Window => {
                // The stack's RTT is longer by the wait at the socket, and so is its flight.
                let srtt = self.estimators.rtt.srtt();
                let of_stack = srtt.max(self.frame.smoothed).as_secs_f64();
                if srtt.is_zero() { cwnd } else { cwnd.min(rate * of_stack) }
            }
            _ => cwnd,
        }
    }

    fn bytes(&self, packets: f64) -> u64 {
        (packets * f64::from(self.mtu)) as u64
    }

    /// Handles a packet that leaves, for stacks that report each packet that is in flight.
    pub fn on_sent(&mut self, now: Time, number: u64, bytes: u32) {
        self.send(now, number, true, bytes);
    }

    fn send(&mut self, now: Time, number: u64, is_exact: bool, bytes: u32) {
        if self.flight.count() == 0
            && self.estimators.delivery_rate.as_ref().is_some_and(|rate| rate.is_app_limited())
        {
            self.window.on_restart_from_idle(now);
        }
        let ordinal = self.flight.next();
        if let Some(rate) = &mut self.estimators.delivery_rate {
            rate.on_sent(now, ordinal, self.flight.count());
        }
        let forgets = self.flight.push(now, number, is_exact, bytes);
        self.counters.forgotten += u64::from(forgets);
        self.stack.sent_since += u64::from(bytes);
        self.counters.sent += 1;
        self.counters.sent_bytes += u64::from(bytes);
        let most = self.window().max(self.stack.in_flight) + SLACK * u64::from(self.mtu);
        if self.flight.bytes() > most {
            self.flight.forget_oldest();
            self.counters.forgotten += 1;
            if let Some(rate) = &mut self.estimators.delivery_rate {
                rate.forget_before(self.flight.oldest());
            }
        }
    }

    /// Handles a batch of packets that leave at once, for stacks that report only its bytes and its
    /// largest packet number.
    pub fn on_batch_sent(&mut self, now: Time, bytes: u64, last_number: u64) {
        let mtu = u64::from(self.mtu);
        let least = bytes.div_ceil(mtu).max(1);
        // Numbers since the last batch, of which some may have been skipped.
        let numbers = match self.last_number.replace(last_number) {
            Some(last) if last_number > last => last_number - last,
            _ => least,
        };
        // Full packets need no other explanation. Else the packets may be smaller than the MTU.
        let is_full = numbers <= least || is_full(bytes, least * mtu);
        let count = if is_full { least } else { numbers.min(bytes).max(1) };
        let size = if is_full { mtu } else { bytes.div_ceil(count) };
        // Packets smaller than the MTU may be fewer than their numbers, of which one was skipped.
        let is_numbered = count == numbers;
        let is_exact = count == 1 || is_full && is_numbered;
        let count_known = is_numbered.then_some(count);
        self.batch = Batch { mtu: self.mtu, bytes, count: count_known, segment: 0 };
        let mut left = bytes;
        self.flight.begin_batch();
        while left > 0 {
            let packet = left.min(size);
            left -= packet;
            let number = last_number.saturating_sub(left.div_ceil(size));
            self.send(now, number, is_exact, u32::try_from(packet).unwrap_or(u32::MAX));
        }
    }

    /// Asks whether the next datagram of the connection, of so many bytes, may leave the socket.
    /// Full ones leave at the pacing rate, if the controller sets one.
    ///
    /// Returns the instant until which it has to wait, or `None` if it leaves now.
    pub fn depart(&mut self, now: Time, bytes: usize) -> Option<Time> {
        if bytes >= Spacing::FULL
            && let Some(rate) = self.pacing_rate()
        {
            let until = self.spacing.wait(now);
            if until.is_some() {
                return until;
            }
            self.spacing.on_sent(now, bytes, rate);
        }
        if bytes > self.batch.mtu.into() {
            // A probe for a larger MTU, which stacks do not report: it leaves in the place of no
            // packet, and has the next number.
            self.last_number = self.last_number.map(|number| number + 1);
        } else {
            let batch = &mut self.batch;
            batch.segment = batch.segment.max(bytes as u64);
            let is_exact = batch.count == Some(batch.bytes.div_ceil(batch.segment.max(1)));
            self.flight.depart(now, is_exact);
        }
        None
    }

    /// Handles the acknowledgment of a packet sent at `sent`, with its number if the stack tells
    /// it. `smoothed` is the stack's smoothed RTT, before this ACK frame.
    pub fn on_acked(
        &mut self,
        now: Time,
        sent: Time,
        number: Option<u64>,
        bytes: u32,
        smoothed: Duration,
    ) {
        if self.frame.packets == 0 {
            if let Some((frame, before)) = self.frame.waiting.take() {
                self.finish(frame, self.ack_delay(&frame, before, smoothed));
            }
            self.frame.smoothed = smoothed;
            self.outstanding = (now, self.span());
        }
        let pending = &mut self.frame.pending;
        self.frame.packets += 1;
        pending.packets += 1;
        pending.bytes += u64::from(bytes);
        self.counters.acked += 1;
        self.counters.acked_bytes += u64::from(bytes);
        let is_newer = sent >= pending.sent;
        pending.sent = pending.sent.max(sent);
        if number.is_none() && self.probe.take() == Some(bytes) {
            // Nobody reported that it was sent, perhaps at the same instant as a batch.
            if let Some(rate) = &mut self.estimators.delivery_rate {
                rate.on_unattributed_delivery(now);
            }
            return;
        }
        if is_newer {
            pending.size = bytes;
        }
        let found = self.flight.acknowledge(sent, number, bytes);
        let Some(rate) = &mut self.estimators.delivery_rate else { return };
        match found {
            Some(found) => {
                if self.first_frame > 0 {
                    let earliest = self.earliest_acked.get_or_insert(found.ordinal);
                    *earliest = found.ordinal.min(*earliest);
                }
                rate.on_delivered(now, found.ordinal);
                if pending.newest.is_none_or(|newest| newest.ordinal < found.ordinal) {
                    pending.newest = Some(found);
                }
            }
            None => {
                rate.on_unattributed_delivery(now);
                self.counters.unmatched += 1;
            }
        }
    }

    /// Tells the RTT of the newest packet of the current ACK frame, for stacks that measure it
    /// themselves, as kernels do; `None` if they have no valid one. The times at which packets left
    /// then need not be exact.
    pub fn tell_rtt(&mut self, rtt: Option<Duration>) {
        self.frame.told = Some(rtt);
    }

    /// Handles the end of an ACK frame, after all of its packets.
    pub fn on_frame(&mut self, frame: Frame) {
        let Frame { in_flight, app_limited, .. } = frame;
        if let (Some(newest), Some(largest)) = (self.frame.pending.newest, frame.largest) {
            self.frame.pending.newest = self.flight.of_number(newest, largest).or(Some(newest));
        }
        self.counters.forgotten += self.flight.reconcile(in_flight, self.mtu.into());
        self.stack = StackFlight { in_flight, sent_since: 0 };
        self.app_limited = app_limited;
        self.probe = None;
        let packets = std::mem::take(&mut self.frame.packets);
        if packets > 0 && self.first_frame == 0 {
            self.first_frame = self.flight.next();
        }
        let latest = self.estimators.rtt.latest();
        let is_late =
            !latest.is_zero() && frame.now.since(self.frame.pending.left()) > latest + GRANULARITY;
        let is_told = self.frame.told.is_some();
        if self.needs.delay && !is_told && (packets == 1 || packets > 0 && is_late) {
            self.frame.waiting = Some((frame, self.frame.smoothed));
        } else if packets > 0 {
            self.finish(frame, Duration::ZERO);
        }
    }

    /// The ACK delay of a frame, by which the stack's RTT sample was less than the time since the
    /// packet was sent. The smoothed RTT before and after the frame shows that sample (RFC 9002
    /// section 5.3: smoothed = 7/8 smoothed + 1/8 adjusted).
    fn ack_delay(&self, frame: &Frame, before: Duration, after: Duration) -> Duration {
        let least = self.estimators.rtt.min_rtt();
        if before == after || least.is_zero() {
            return Duration::ZERO; // The frame gave no sample.
        }
        let adjusted = (8 * i128::from(after.as_ps()) - 7 * i128::from(before.as_ps())).max(0);
        let sample = frame.now.since(self.frame.pending.sent);
        let most = sample.as_ps().saturating_sub(least.as_ps());
        let delay = u64::try_from(i128::from(sample.as_ps()) - adjusted).unwrap_or(0);
        Duration::from_ps(if adjusted == 0 { 0 } else { delay.min(most) })
    }

    /// Handles an ACK frame that the receiver sent after this delay.
    fn finish(&mut self, frame: Frame, ack_delay: Duration) {
        let Frame { now, app_limited, .. } = frame;
        let pending = std::mem::take(&mut self.frame.pending);
        self.frame.newest_sent = pending.sent;
        let newest = pending.newest.filter(|newest| newest.ordinal > self.largest_acked);
        self.largest_acked = newest.map_or(self.largest_acked, |newest| newest.ordinal);
        let rtt = match self.frame.told.take() {
            Some(rtt) => rtt,
            None => newest.filter(|newest| newest.is_exact).map(|newest| {
                let least = self.estimators.rtt.min_rtt();
                let arrived = before(now, ack_delay);
                self.batches.rtt(newest.left, arrived, newest.place, least)
            }),
        };
        if let Some(rtt) = rtt {
            self.estimators.rtt.on_sample(before(now, rtt), now);
        }
        let count = self.flight.count();
        let cwnd = self.window.cwnd();
        let bandwidth = self.estimators.estimate_bandwidth(now, pending.packets, cwnd);
        let in_recovery = pending.newest.is_some_and(|newest| newest.ordinal < self.recovery_start);
        let event = AckEvent {
            path: self.estimators.path(now, count + pending.packets, cwnd, bandwidth),
            newly_acked: pending.packets,
            newly_acked_bytes: pending.bytes,
            delivered: pending.packets,
            lost: pending.lost,
            growth: pending.packets as f64,
            in_recovery,
            cwnd_limited: !app_limited,
            una: self.flight.oldest(),
            high: self.flight.next(),
            sent: pending.sent,
            packet_seq: pending.newest.map_or(0, |newest| newest.ordinal),
            ..AckEvent::default()
        };
        if self.needs.acks {
            self.discriminator.on_ack(&event);
        }
        if let Some(rate) = &mut self.estimators.delivery_rate {
            if app_limited && (count as f64) < cwnd {
                rate.mark_app_limited(count);
            }
            if let Some(mut sample) = rate.finish(now, self.flight.oldest(), count, in_recovery) {
                let is_full = is_full(pending.size.into(), self.mtu.into());
                if rtt.is_some() && is_full {
                    self.full_rtt = rtt;
                }
                if sample.rate > 0.0 {
                    self.delivery_rate = sample.rate;
                }
                sample.rtt = self.full_rtt;
                if self.needs.rate && self.window.on_rate_sample(&sample) {
                    rate.mark_app_limited(count);
                }
            }
        }
        self.window.on_ack(&event);
    }

    /// Handles the loss of the packet of this number.
    pub fn on_lost(&mut self, now: Time, number: u64, bytes: u32) {
        self.count_lost(now, bytes.into());
        match self.flight.lose(number) {
            Some(ordinal) => self.lose(now, ordinal),
            None => self.counters.unmatched += 1,
        }
    }

    /// Handles the loss of so many bytes of the oldest packets sent at `until` or before, for
    /// stacks that report losses in bytes.
    pub fn on_bytes_lost(&mut self, now: Time, until: Time, bytes: u64) {
        self.count_lost(now, bytes);
        let mut lost = std::mem::take(&mut self.lost);
        lost.clear();
        self.flight.lose_bytes(until, bytes, &mut lost);
        self.counters.unmatched += u64::from(lost.is_empty());
        for ordinal in &lost {
            self.lose(now, *ordinal);
        }
        self.lost = lost;
    }

    /// Packets from the oldest in flight to the newest, whatever became of those between.
    fn span(&self) -> u64 {
        self.flight.next() - self.flight.oldest()
    }

    fn count_lost(&mut self, now: Time, bytes: u64) {
        let before = self.span();
        self.outstanding = match self.outstanding {
            (at, most) if at == now => (at, most.max(before)),
            _ => (now, before),
        };
        self.stack.in_flight = self.stack.in_flight.saturating_sub(bytes);
        self.counters.lost_bytes += bytes;
    }

    fn lose(&mut self, now: Time, ordinal: u64) {
        self.counters.lost += 1;
        self.frame.pending.lost += 1;
        let packet = self.estimators.delivery_rate.as_mut().and_then(|rate| rate.on_lost(ordinal));
        // RFC 9002 section 7.4: the peer of a handshake may have had no keys for packets sent
        // before the earliest that it acknowledged, and has dropped them.
        let first = self.first_frame;
        if self.earliest_acked.is_some_and(|earliest| (first..earliest).contains(&ordinal)) {
            return;
        }
        if let Some(packet) = packet.filter(|_| self.needs.rate) {
            self.window.on_lost(&packet, now);
        }
        let path = self.path(now, self.outstanding.1);
        self.discriminator.on_lost(&path, 1);
        let rate = LossRate {
            sent: self.counters.sent,
            retransmissions: self.counters.lost - 1,
            duplicates: 0,
        };
        let loss = LossEvent { path, seq: ordinal, sign: LossSign::Acknowledgments, rate };
        let probability = if ordinal >= self.recovery_start {
            self.recovery_start = self.flight.next();
            self.discriminator.judge(&loss)
        } else if self.discriminator.unjudged_from().is_some_and(|from| ordinal >= from) {
            self.discriminator.judge_repair(&loss)
        } else {
            return;
        };
        self.counters.judged += 1;
        if probability > Probability::ZERO {
            self.reduce(path, probability, false);
        } else {
            self.counters.spared += 1;
            self.window.on_error_loss(&path);
        }
    }

    fn reduce(&mut self, path: Path, probability: Probability, marked: bool) {
        let (una, high) = (self.flight.oldest(), self.flight.next());
        if probability == Probability::ONE {
            self.certain_until = high;
        }
        let sent = self.frame.newest_sent;
        self.window.on_congestion(&CongestionEvent { path, probability, una, high, sent, marked });
    }

    /// Handles the report of an ACK frame, already ended, that more packets were marked (RFC 9002
    /// section 7.1).
    pub fn on_mark(&mut self, now: Time) {
        self.counters.marks += 1;
        let waiting = self.frame.pending.newest.map_or(0, |newest| newest.ordinal);
        if self.largest_acked.max(waiting) < self.certain_until {
            return;
        }
        self.recovery_start = self.flight.next();
        let path = self.path(now, self.outstanding.1);
        self.reduce(path, Probability::ONE, true);
    }

    /// Handles persistent congestion (RFC 9002 section 7.6), after its losses.
    pub fn on_persistent_congestion(&mut self, now: Time) {
        self.counters.resets += 1;
        // Section 7.6.2: and recovery is over.
        (self.recovery_start, self.certain_until) = (1, 1);
        self.window.on_reset(&ResetEvent {
            path: self.path(now, self.flight.count()),
            cause: ResetCause::PersistentCongestion,
            repeated: true,
            probability: Probability::ONE,
            leaves: AfterTimeout::Restart,
            una: self.flight.oldest(),
            high: self.flight.next(),
        });
    }

    /// Handles the news that all losses of the last recovery period were spurious.
    pub fn on_spurious_losses(&mut self) {
        self.counters.spurious += 1;
        self.window.on_spurious_losses();
    }

    /// Sets the payload of a full UDP datagram, bytes. The window does not change, in packets, and
    /// no RTT of full packets is known until one of the new size arrives.
    pub fn set_mtu(&mut self, mtu: u16) {
        let mtu = mtu.max(1);
        if mtu != self.mtu {
            // The stack reports the acknowledgment of its probe next.
            self.probe = (mtu > self.mtu).then_some(mtu.into());
            self.mtu = mtu;
            self.full_rtt = None;
            self.window.on_packet_size();
        }
    }

    /// Handles the change to a path of the same capacity, as after the rebinding of a NAT (RFC 9000
    /// section 9.4): packets sent before no longer count as in flight. The controller keeps its
    /// state. A path to another host has a driver of its own.
    pub fn on_new_path(&mut self) {
        self.counters.forgotten += self.flight.count();
        self.flight.clear();
        if let Some(rate) = &mut self.estimators.delivery_rate {
            rate.forget_before(self.flight.oldest());
        }
        self.stack = StackFlight::default();
        (self.frame.pending, self.frame.packets, self.frame.waiting) =
            (Pending::default(), 0, None);
    }

    /// The path now, with so many packets outstanding.
    fn path(&self, now: Time, outstanding: u64) -> Path {
        let bandwidth = self.estimators.bandwidth();
        self.estimators.path(now, outstanding, self.window.cwnd(), bandwidth)
    }

    fn phase(&self) -> &'static str {
        match self.window.phase() {
            Some(phase) => phase,
            None if self.largest_acked + 1 < self.recovery_start => "recovery",
            None if self.app_limited => "application_limited",
            None if self.window.cwnd() < self.window.ssthresh() => "slow_start",
            None => "congestion_avoidance",
        }
    }

    /// Figures of the connection.
    pub fn figures(&self) -> Figures {
        let Counters { sent, sent_bytes, acked, acked_bytes, lost, lost_bytes, .. } = self.counters;
        let Counters { marks, judged, spared, resets, spurious, .. } = self.counters;
        let Counters { unmatched, forgotten, .. } = self.counters;
        let ssthresh = self.window.ssthresh();
        let rtt = &self.estimators.rtt;
        Figures {
            phase: self.phase(),
            mtu: self.mtu,
            window: self.window(),
            ssthresh: ssthresh.is_finite().then(|| self.bytes(ssthresh)),
            pacing_rate: self.pacing_rate(),
            in_flight: self.flight.bytes(),
            stack_in_flight: self.stack.in_flight + self.stack.sent_since,
            latest_rtt: rtt.latest(),
            srtt: rtt.srtt(),
            min_rtt: rtt.min_rtt(),
            delivery_rate: self.delivery_rate * f64::from(self.mtu),
            app_limited: self.app_limited,
            sent,
            sent_bytes,
            acked,
            acked_bytes,
            lost,
            lost_bytes,
            marks,
            judged,
            spared,
            resets,
            spurious,
            unmatched,
            forgotten,
            refused_windows: self.window.refused_windows(),
        }
    }
}

/// True for packets of so many bytes that take as long as full ones, but for a sixteenth.
fn is_full(bytes: u64, full: u64) -> bool {
    bytes * 16 >= full * 15
}

/// The instant so much before `now`.
fn before(now: Time, span: Duration) -> Time {
    Time::from_ps(now.as_ps().saturating_sub(span.as_ps()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocols::PROTOCOLS;

    const fn ms(ms: u64) -> Time {
        Time::from_ps(ms * 1_000_000_000)
    }

    /// NewReno with packets of 1000 bytes.
    fn newreno() -> Driver {
        let newreno = PROTOCOLS.iter().find(|row| row.name == "newreno").expect("a row");
        let setup = DriverSetup { mtu: 1000, pacer: Pacer::Window, seed: 1 };
        Driver::new(newreno, setup).expect("it runs in QUIC")
    }

    /// Sends the packets of these numbers, each at as many milliseconds.
    fn send(driver: &mut Driver, numbers: std::ops::RangeInclusive<u64>) {
        numbers.for_each(|n| driver.on_sent(ms(n), n, 1000));
    }

    /// NewReno with ten packets in flight, sent at 1 to 10 ms.
    fn ten_in_flight() -> Driver {
        let mut driver = newreno();
        send(&mut driver, 1..=10);
        driver
    }

    fn acknowledge(driver: &mut Driver, now: Time, numbers: std::ops::RangeInclusive<u64>) {
        for n in numbers {
            driver.on_acked(now, ms(n), Some(n), 1000, Duration::from_millis(80));
        }
        let in_flight = driver.figures().in_flight;
        driver.on_frame(Frame { now, in_flight, app_limited: false, largest: None });
    }

    #[test]
    fn packets_acknowledged_above_a_loss_belong_to_the_flight() {
        // RFC 6675 section 5: half of FlightSize, which is HighData less HighACK: all ten.
        let mut driver = ten_in_flight();
        acknowledge(&mut driver, ms(90), 2..=4);
        driver.on_lost(ms(90), 1, 1000);
        assert_eq!(driver.window(), 5001);
        // A timer finds the loss later.
        let mut driver = ten_in_flight();
        acknowledge(&mut driver, ms(90), 2..=3);
        driver.on_lost(ms(110), 1, 1000);
        assert_eq!(driver.window(), 5001);
        // quinn: in bytes, the first two.
        let mut driver = ten_in_flight();
        acknowledge(&mut driver, ms(90), 3..=6);
        driver.on_bytes_lost(ms(90), ms(2), 2000);
        assert_eq!(driver.window(), 5001);
    }

    #[test]
    fn losses_before_the_first_packet_for_which_the_peer_had_keys_reduce_nothing() {
        // A hello is answered. The end of the handshake and nine packets follow. The first is lost,
        // and the peer drops the others.
        let mut driver = newreno();
        send(&mut driver, 1..=1);
        acknowledge(&mut driver, ms(81), 1..=1);
        send(&mut driver, 82..=91);
        // They are repeated.
        send(&mut driver, 300..=302);
        acknowledge(&mut driver, ms(380), 300..=300);
        let before = driver.window();
        (82..=91).for_each(|n| driver.on_lost(ms(380), n, 1000));
        assert_eq!((driver.window(), driver.figures().lost), (before, 10));
        // Packets sent after the earliest acknowledged one count.
        acknowledge(&mut driver, ms(382), 302..=302);
        driver.on_lost(ms(382), 301, 1000);
        assert!(driver.window() < before, "{}", driver.window());
    }

    #[test]
    fn the_packets_of_the_marked_frame_belong_to_the_flight() {
        let mut driver = ten_in_flight();
        acknowledge(&mut driver, ms(90), 1..=2);
        driver.on_mark(ms(90));
        assert_eq!(driver.window(), 5001);
    }

    /// A batch of so many full packets of `upwind`, sent at 0 ms with `last` as its largest number.
    /// They leave the socket at these times.
    fn batch(packets: u64, last: u64, leave: &[u64]) -> Driver {
        let upwind = PROTOCOLS.iter().find(|row| row.name == "upwind").expect("a row");
        let setup = DriverSetup { mtu: 1200, pacer: Pacer::Window, seed: 1 };
        let mut driver = Driver::new(upwind, setup).expect("it runs in QUIC");
        driver.on_batch_sent(ms(0), 1200 * packets, last);
        for at in leave {
            assert_eq!(driver.depart(ms(*at), 1200), None);
        }
        driver
    }

    /// The RTT that a frame gives which acknowledges one packet of so many bytes.
    fn rtt_of(driver: &mut Driver, at: u64, sent: u64, bytes: u32, largest: u64) -> Duration {
        driver.on_acked(ms(at), ms(sent), None, bytes, Duration::from_millis(90));
        driver.on_frame(Frame {
            now: ms(at),
            in_flight: driver.figures().in_flight,
            app_limited: false,
            largest: Some(largest),
        });
        // The next frame tells that this one was not delayed.
        driver.on_acked(ms(at), ms(sent), None, 1, Duration::from_millis(90));
        driver.full_rtt.unwrap_or_default()
    }

    #[test]
    fn rtts_begin_when_the_packet_leaves_that_arrived() {
        // 80 ms. Of four packets, the first three are lost.
        let mut driver = batch(4, 3, &[0, 5, 10, 15]);
        assert_eq!(rtt_of(&mut driver, 95, 0, 1200, 3), Duration::from_millis(80));
        // The second one.
        let mut driver = batch(4, 3, &[0, 5, 10, 15]);
        assert_eq!(rtt_of(&mut driver, 85, 0, 1200, 1), Duration::from_millis(80));
    }

    #[test]
    fn a_packet_that_may_be_another_gives_no_rtt() {
        // Four packets with the numbers 1 to 5: one was skipped, nobody knows which.
        let mut driver = batch(1, 0, &[0]);
        assert_eq!(rtt_of(&mut driver, 80, 0, 1200, 0), Duration::from_millis(80));
        driver.on_batch_sent(ms(100), 4800, 5);
        for at in [100, 106, 112, 118] {
            assert_eq!(driver.depart(ms(at), 1200), None);
        }
        assert_eq!(rtt_of(&mut driver, 185, 100, 1200, 3), Duration::from_millis(80));
        assert_eq!(driver.figures().acked, 4, "all the same");
    }

    #[test]
    fn a_probe_of_the_mtu_leaves_in_the_place_of_no_packet() {
        let mut driver = batch(1, 0, &[0]);
        assert_eq!(rtt_of(&mut driver, 80, 0, 1200, 0), Duration::from_millis(80));
        // A small packet, which the socket lets through without a question, and a probe 40 ms
        // later. It takes a number of the next batch.
        driver.on_batch_sent(ms(100), 60, 1);
        assert_eq!(driver.depart(ms(140), 1300), None);
        rtt_of(&mut driver, 180, 100, 60, 1);
        let figures = driver.figures();
        assert_eq!((figures.min_rtt, figures.sent), (Duration::from_millis(80), 2));
        driver.on_batch_sent(ms(200), 60, 3);
        assert_eq!(driver.figures().sent, 3);
        // Packets of a batch that waits leave in their places after the MTU fell.
        driver.set_mtu(1400);
        driver.on_batch_sent(ms(300), 1400, 4);
        driver.set_mtu(1200);
        assert_eq!(driver.depart(ms(320), 1400), None);
        assert_eq!(rtt_of(&mut driver, 401, 300, 1400, 4), Duration::from_millis(81));
    }

    #[test]
    fn no_rtt_is_none_of_zero() {
        let bbr1 = PROTOCOLS.iter().find(|row| row.name == "bbr1").expect("a row");
        let setup = DriverSetup { mtu: 1200, pacer: Pacer::Window, seed: 1 };
        let mut driver = Driver::new(bbr1, setup).expect("it runs in QUIC");
        let acknowledge = |driver: &mut Driver, at, sent, packets, largest| {
            for _ in 0..packets {
                driver.on_acked(ms(at), ms(sent), None, 1200, Duration::from_millis(80));
            }
            let in_flight = driver.figures().in_flight;
            let largest = Some(largest);
            driver.on_frame(Frame { now: ms(at), in_flight, app_limited: false, largest });
            driver.window()
        };
        driver.on_batch_sent(ms(10), 12_000, 9);
        let before = acknowledge(&mut driver, 90, 10, 10, 9) / 1200;
        driver.set_mtu(1250);
        // Ten packets and eleven numbers, so that nobody knows which packet arrived.
        driver.on_batch_sent(ms(100), 12_500, 20);
        assert_eq!(acknowledge(&mut driver, 180, 100, 2, 12) / 1250, before + 2);
    }

    #[test]
    fn small_packets_do_not_shorten_the_rtt_of_full_ones() {
        let mut driver = batch(1, 0, &[0]);
        assert_eq!(rtt_of(&mut driver, 80, 0, 1200, 0), Duration::from_millis(80));
        driver.on_batch_sent(ms(100), 60, 1);
        assert_eq!(rtt_of(&mut driver, 172, 100, 60, 1), Duration::from_millis(80));
        assert_eq!(driver.figures().latest_rtt, Duration::from_millis(72));
        // Larger full packets take longer than those before. A probe of that size, sent at the same
        // instant as the small packet, is not that packet.
        driver.set_mtu(1400);
        assert_eq!(rtt_of(&mut driver, 190, 100, 1400, 2), Duration::ZERO);
        driver.on_batch_sent(ms(200), 1400, 2);
        assert_eq!(rtt_of(&mut driver, 282, 200, 1400, 2), Duration::from_millis(82));
    }
}
