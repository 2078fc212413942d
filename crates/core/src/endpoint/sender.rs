//! The sending endpoint: a connection's state machine over the four axes.
//!
//! Each event passes estimators, recovery, discriminator and controller in this order. Nothing here
//! depends on the kind of controller, recovery scheme or discriminator.

use super::EndpointConfig;
use super::discrimination::{self, Discriminator, DiscriminatorState};
use super::estimator::{Asked, Estimators, LossRate, RttEstimator};
use super::event::{
    AckEvent, AfterTimeout, CongestionEvent, Idle, LossEvent, LossSign, Path, ResetCause,
    ResetEvent,
};
use super::feedback::{FeedbackConfig, Notice, Notification};
use super::pacer::{Pacer, WINDOW_GAIN};
use super::recovery::{
    Acked, Expired, Finding, Numbers, Recovery, RecoveryReport, RecoveryState, Scoreboard, Sent,
    Sequences,
};
use super::seconds;
use super::window::{self, Controller, PhaseCut, Window};
use crate::packet::{CongestionHeader, Flags, Packet, PacketKind, SackBlock};
use crate::part::{Ability, AnyPart};
use crate::protocols::Protocol;
use crate::rng::Stream;
use crate::units::{Duration, Probability, Time};

/// The sender of one connection. It sends whole packets and does not read a clock: call
/// [`Sender::on_ack`] and [`Sender::on_timer`]; after each of them, and after
/// [`Sender::offer_until`], call [`Sender::poll_transmit`] until it has nothing more to send.
///
/// The fields that every packet and every acknowledgment need come first.
#[derive(Debug)]
#[repr(C)]
pub struct Sender {
    seqs: Sequences,
    next_packet_seq: u64,
    /// Size on the wire, bytes, of packets from now on.
    packet_size: u32,
    cwnd_limited: bool,
    byte_counting: bool,
    /// True if the discriminator is told of acknowledgments, or recovery asks it whether losses are
    /// errors.
    discriminates: bool,
    leaving: Leaving,
    extras: Option<Box<Extras>>,
    window: Window,
    recovery: RecoveryState,
    report: RecoveryReport,
    estimators: Estimators,
    counters: Counters,
    discriminator: DiscriminatorState,
    feedback: FeedbackConfig,
}

/// The work for a packet that leaves, besides its number and recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaving {
    /// None.
    Plain,
    /// A size, a pacing time or an RTT measurement of its own.
    Attended,
    /// A header of the feedback or of the controller, possibly in addition.
    Stamped,
}

/// State that most connections do not need.
#[derive(Debug, Default)]
struct Extras {
    /// Only if packets are paced.
    pacer: Option<Pacer>,
    /// Only if classic ECN is negotiated.
    ecn: Option<EcnState>,
    sizes: Sizes,
    /// Only with [`EndpointConfig::cwnd_validation`].
    validation: Option<Validation>,
    /// Packets that were polled and could not be sent, in order.
    returned: Vec<Packet>,
}

/// RFC 3168 section 6.1.2: one reduction a window.
#[derive(Debug, Clone, Copy, Default)]
struct EcnState {
    /// No further reduction before this packet, the first sent after the last one, is
    /// acknowledged.
    reduced_until: u64,
    announce: bool,
    /// True if the losses that are being repaired may be corruption. A mark is certain congestion,
    /// and counts beside them.
    doubted: bool,
}

/// The use of the window (Linux: tcp_cwnd_validate).
#[derive(Debug, Clone)]
struct Validation {
    /// Until this packet is acknowledged, a full window counts.
    until: u64,
    was_full: bool,
    /// The largest flight since then, packets.
    most: u64,
    /// The number of the next packet at the latest look.
    number: u64,
    /// The time of the latest packet.
    sent: Time,
    /// The initial window, if the window decays without packets.
    decays_to: Option<f64>,
}

impl Validation {
    fn new(config: &EndpointConfig) -> Self {
        Validation {
            until: 0,
            was_full: false,
            most: 0,
            number: 1,
            sent: Time::NEVER,
            decays_to: config.slow_start_after_idle.then_some(config.initial_window),
        }
    }
}

/// Packets of another size than the usual one. Sequence numbers count packets, so that a packet
/// keeps its size for good; only packets that were never sent can change it.
#[derive(Debug, Clone, Default)]
struct Sizes {
    /// The last packet of the transfer, if it is a smaller one.
    last: Option<(u64, u32)>,
    /// Earlier sizes: packets below the first number have the second.
    before: Vec<(u64, u32)>,
}

impl Sizes {
    /// The size of a packet; `usual` is the present size.
    fn of(&self, seq: u64, usual: u32) -> u32 {
        match self.last {
            Some((last, size)) if seq == last => size,
            _ if self.before.is_empty() => usual,
            _ => {
                let at = self.before.partition_point(|(below, _)| *below <= seq);
                self.before.get(at).map_or(usual, |(_, size)| *size)
            }
        }
    }

    /// Bytes of the packets `from..to`.
    fn bytes(&self, from: u64, to: u64, usual: u32) -> u64 {
        if self.before.is_empty() && self.last.is_none() {
            return (to - from) * u64::from(usual);
        }
        (from..to).map(|seq| u64::from(self.of(seq, usual))).sum()
    }
}

/// Counters of a sender as it runs.
#[derive(Debug, Default)]
struct Counters {
    /// See [`SenderStats`]; the integral reaches until `integrated_to`.
    cwnd_seconds: f64,
    integrated_to: Time,
    rtt_samples: u64,
    rtt_sum: Duration,
    retransmissions: u64,
    duplicates: u64,
    timeouts: u64,
}

/// Counters of a sender.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SenderStats {
    /// Data packets sent, retransmissions included.
    pub sent: u64,
    /// Data packets sent again.
    pub retransmissions: u64,
    /// Duplicates that DSACK reported (RFC 2883): retransmissions that were not needed.
    pub duplicates: u64,
    /// Expiries of the recovery timer: retransmission timeouts, or probe timeouts of recovery by
    /// packet number.
    pub timeouts: u64,
    /// RTT samples, and their sum.
    pub rtt_samples: u64,
    /// Sum of the RTT samples, exact times and not clock ticks.
    pub rtt_sum: Duration,
    /// Integral of cwnd over time, packets times seconds.
    pub cwnd_seconds: f64,
}

impl Sender {
    /// A connection of this protocol with nothing to send yet. `seed` and `name` choose its
    /// random numbers, for protocols that use some.
    pub fn new(protocol: &Protocol, config: &EndpointConfig, seed: u64, name: &str) -> Self {
        let window = protocol.window;
        let numbered = protocol.recovery.gives().contains(&Ability::TransmissionNumbers);
        let asked = Asked {
            numbered,
            bandwidth: window.bandwidth(),
            delivery_rate: numbered && window.samples_rate(),
        };
        let pacer = (window.paces() || config.pacing).then(Pacer::default);
        let ecn = protocol.negotiates_ecn(config).then(EcnState::default);
        let validation = config.cwnd_validation.then(|| Validation::new(config));
        let has_extras = pacer.is_some() || ecn.is_some() || validation.is_some();
        let stamps = protocol.feedback.stamps() || window.announces();
        let estimators = Estimators::new(config, asked);
        let leaving = if stamps {
            Leaving::Stamped
        } else if has_extras || !estimators.times_by_timestamp() {
            Leaving::Attended
        } else {
            Leaving::Plain
        };
        Sender {
            seqs: Sequences { rwnd: config.rwnd, ..Sequences::default() },
            next_packet_seq: 1, // W[j] = X with X > 0 (lr2008 section 5.2).
            packet_size: config.packet_size,
            cwnd_limited: !config.cwnd_validation,
            byte_counting: config.byte_counting,
            discriminates: protocol.discrimination.hears_acks()
                || protocol.recovery.asks_for_cause(),
            leaving,
            extras: has_extras
                .then(|| Box::new(Extras { pacer, ecn, validation, ..Extras::default() })),
            window: Window::new(
                &window,
                window::ControllerSetup {
                    feedback: &protocol.feedback,
                    endpoint: config,
                    stream: Stream::new(seed, "window", name),
                },
            ),
            recovery: protocol.recovery.make(config),
            report: RecoveryReport::new(numbered),
            estimators,
            counters: Counters::default(),
            discriminator: protocol.discrimination.make(discrimination::DiscriminatorSetup {
                endpoint: config,
                stream: Stream::new(seed, "discrimination", name),
            }),
            feedback: protocol.feedback,
        }
    }

    /// Sets the end of the application's data: packets up to `limit`, exclusive; `u64::MAX` for a
    /// bulk transfer. A limit below the highest packet sent ends the transfer after that packet.
    pub fn offer_until(&mut self, limit: u64) {
        self.seqs.limit = limit.max(self.seqs.high);
        if let Some(extras) = &mut self.extras {
            extras.sizes.last = None;
        }
    }

    /// Adds `bytes` to send, counted on the wire in packets of the present size; the last packet is
    /// smaller if they do not fill it. Replaces earlier offers.
    pub fn offer_bytes(&mut self, bytes: u64) {
        let size = u64::from(self.packet_size);
        self.offer_until(self.seqs.high.saturating_add(bytes.div_ceil(size)));
        let rest = bytes % size;
        if rest > 0 {
            // Less than a packet's size, which is a u32.
            self.extras().sizes.last = Some((self.seqs.limit - 1, rest as u32));
        }
    }

    /// Sets the size on the wire of packets not sent before, in bytes, at least 1, after a change
    /// of the path's MTU. cwnd does not change, in packets.
    pub fn set_packet_size(&mut self, size: u32) {
        let size = size.max(1);
        if size != self.packet_size {
            let before = (self.seqs.high, self.packet_size);
            self.extras().sizes.before.push(before);
            self.packet_size = size;
        }
    }

    fn extras(&mut self) -> &mut Extras {
        if self.leaving == Leaving::Plain {
            self.leaving = Leaving::Attended;
        }
        self.extras.get_or_insert_default()
    }

    /// Sets the receiver window, packets from the first that is not acknowledged.
    pub fn set_rwnd(&mut self, packets: u64) {
        self.seqs.rwnd = packets;
    }

    /// Takes the RTT of a handshake, whose packet left at `sent`, before any data.
    pub fn on_handshake(&mut self, now: Time, sent: Time) {
        self.sample_rtt(now, sent);
    }

    /// Handles an acknowledgment.
    #[inline(never)]
    pub fn on_ack(&mut self, now: Time, ack: &Packet) {
        self.take_ack::<true>(now, ack);
    }

    /// Handles an acknowledgment that gives no RTT sample, since it may acknowledge an earlier
    /// transmission and has no timestamp (RFC 6298 section 3: Karn's rule). Its `timestamp` must be
    /// `now`.
    pub fn on_ambiguous_ack(&mut self, now: Time, ack: &Packet) {
        self.take_ack::<false>(now, ack);
    }

    #[inline(always)]
    fn take_ack<const SAMPLES: bool>(&mut self, now: Time, ack: &Packet) {
        debug_assert_eq!(ack.kind, PacketKind::Ack);
        if ack.sack_len > 0 {
            self.counters.duplicates += u64::from(reports_duplicate(ack));
        }
        let before = self.seqs.una;
        // A number below wraps, and then also exceeds all that is outstanding.
        let newly = ack.seq.wrapping_sub(before);
        if newly > self.seqs.high - before {
            return self.on_overtaken(now, ack);
        }
        self.integrate(now);
        let outstanding = self.seqs.outstanding();
        if newly > 0 {
            if SAMPLES && self.estimators.times_by_timestamp() {
                self.sample_rtt(now, ack.timestamp);
            } else if SAMPLES {
                self.sample_rtt_by_karn(now, ack);
            }
            self.seqs.una = ack.seq;
            self.seqs.next = self.seqs.next.max(ack.seq);
        } else if before == self.seqs.high {
            return; // Nothing is missing: the acknowledgment of a packet that was sent twice.
        } else if ack.flags.contains(Flags::PART) {
            return self.on_part(now, ack, outstanding);
        } else if SAMPLES && self.recovery.samples_rtt(ack.packet_seq) {
            self.sample_rtt(now, ack.timestamp);
        }
        let cwnd = self.window.cwnd();
        let bandwidth = self.estimators.estimate_bandwidth(now, newly, cwnd);
        let counted = if self.byte_counting { newly } else { 1 };

        // All decisions are made: the event is written at once.
        let mut event = AckEvent {
            path: self.estimators.path(now, outstanding, cwnd, bandwidth),
            newly_acked: newly,
            newly_acked_bytes: match &self.extras {
                None => newly * u64::from(self.packet_size),
                Some(extras) => extras.sizes.bytes(before, ack.seq, self.packet_size),
            },
            delivered: newly,
            lost: 0,
            growth: counted as i64 as f64,
            is_part: false,
            raises: false,
            in_recovery: self.report.in_recovery,
            cwnd_limited: self.cwnd_limited,
            una: self.seqs.una,
            high: self.seqs.high,
            lost_until: 0,
            sent: ack.timestamp,
            packet_seq: ack.packet_seq,
            flags: ack.flags,
            header: ack.header,
        };
        let error = self.discriminates && self.discriminate(&event);
        let acked = Acked { event: &event, rtt: &self.estimators.rtt, packet: ack, error };
        self.report.clear();
        self.recovery.on_ack(&self.seqs, &acked, &mut self.report);
        if self.report.lost > 0 {
            self.discriminator.on_lost(&event.path, self.report.lost);
        }
        if self.report.finding == Finding::Loss {
            self.on_loss(event.path, ack.timestamp);
        } else if ack.flags.contains(Flags::ECN_ECHO) {
            self.on_ecn_echo(event.path, ack.timestamp, newly > 0);
        }
        self.tell_of_transmissions(now);
        if let Some(numbers) = &self.report.numbers {
            event.lost_until = numbers.lost_until;
            event.raises = numbers.raises;
        }
        event.delivered = self.report.delivered;
        event.lost = self.report.lost;
        event.in_recovery |= self.report.in_recovery;
        self.window.on_ack(&event);
    }

    /// An acknowledgment that a later one has overtaken, or one for packets that were never sent.
    /// The former may report data that arrived out of order.
    #[inline(never)]
    fn on_overtaken(&mut self, now: Time, ack: &Packet) {
        let is_old = ack.seq < self.seqs.una && self.seqs.una < self.seqs.high;
        if !is_old || ack.sack_len == 0 || !self.recovery.reads_overtaken() {
            return;
        }
        self.integrate(now);
        let path = self.path(now, self.seqs.outstanding());
        let (una, high) = (self.seqs.una, self.seqs.high);
        let event = AckEvent { path, una, high, packet_seq: ack.packet_seq, ..AckEvent::default() };
        let acked = Acked { event: &event, rtt: &self.estimators.rtt, packet: ack, error: false };
        self.report.clear();
        self.recovery.on_ack(&self.seqs, &acked, &mut self.report);
        if self.report.lost > 0 {
            self.discriminator.on_lost(&path, self.report.lost);
        }
        if self.report.finding == Finding::Loss {
            self.on_loss(path, ack.timestamp);
        }
        self.tell_of_transmissions(now);
    }

    /// An acknowledgment of a part of the first packet that is missing: not a duplicate, and
    /// nothing for recovery. It counts if growth counts acknowledgments.
    #[inline(never)]
    fn on_part(&mut self, now: Time, ack: &Packet, outstanding: u64) {
        if self.byte_counting {
            return; // The one that acknowledges the rest counts for all of it.
        }
        self.window.on_ack(&AckEvent {
            path: self.path(now, outstanding),
            growth: 1.0,
            is_part: true,
            in_recovery: self.report.in_recovery,
            cwnd_limited: self.cwnd_limited,
            una: self.seqs.una,
            high: self.seqs.high,
            sent: ack.timestamp,
            packet_seq: ack.packet_seq,
            flags: ack.flags,
            header: ack.header,
            ..AckEvent::default()
        });
    }

    /// Takes the RTT of a packet sent at `sent`.
    #[inline]
    fn sample_rtt(&mut self, now: Time, sent: Time) {
        self.counters.rtt_samples += 1;
        self.counters.rtt_sum += now.since(sent);
        self.estimators.rtt.on_sample(sent, now);
    }

    /// Counts the RTT, and takes it as a sample if this is the packet that the sender timed.
    #[inline(never)]
    fn sample_rtt_by_karn(&mut self, now: Time, ack: &Packet) {
        self.counters.rtt_samples += 1;
        self.counters.rtt_sum += now.since(ack.timestamp);
        if let Some(sent) = self.estimators.timed(ack.seq, ack.timestamp) {
            self.estimators.rtt.on_sample(sent, now);
        }
    }

    /// The path now, with `outstanding` packets before this instant.
    fn path(&self, now: Time, outstanding: u64) -> Path {
        let bandwidth = self.estimators.bandwidth();
        self.estimators.path(now, outstanding, self.window.cwnd(), bandwidth)
    }

    /// Passes an acknowledgment to the discriminator. Returns true if it takes losses for errors
    /// now, if recovery must know.
    #[inline(never)]
    fn discriminate(&mut self, event: &AckEvent) -> bool {
        self.discriminator.on_ack(event);
        self.recovery.asks_for_cause(event.newly_acked)
            && self.takes_losses_for_errors(event.path, LossSign::Acknowledgments)
    }

    /// The loss of the first packet that is missing.
    fn first_loss(&self, path: Path, sign: LossSign) -> LossEvent {
        LossEvent { path, seq: self.seqs.una, sign, rate: self.loss_rate() }
    }

    /// True if the discriminator takes losses for errors at this moment.
    #[inline(never)]
    fn takes_losses_for_errors(&self, path: Path, sign: LossSign) -> bool {
        self.discriminator.opinion(&self.first_loss(path, sign)) == Probability::ZERO
    }

    /// Handles the first loss of a window, found by recovery. The packet whose acknowledgment
    /// reported it was sent at `sent`.
    #[inline(never)]
    fn on_loss(&mut self, path: Path, sent: Time) {
        let loss = self.first_loss(path, LossSign::Acknowledgments);
        let probability = self.discriminator.judge(&loss);
        self.reduce(path, probability, sent, false);
    }

    fn reduce(&mut self, path: Path, probability: Probability, sent: Time, marked: bool) {
        let is_certain = probability == Probability::ONE;
        if let Some(extras) = &mut self.extras
            && let Some(ecn) = &mut extras.ecn
        {
            *ecn = if is_certain {
                EcnState { reduced_until: self.seqs.high, announce: true, doubted: false }
            } else {
                EcnState { doubted: true, ..*ecn }
            };
        }
        if probability > Probability::ZERO {
            let Sequences { una, high, .. } = self.seqs;
            let event = CongestionEvent { path, probability, una, high, sent, marked };
            self.window.on_congestion(&event);
        } else {
            self.window.on_error_loss(&path);
        }
    }

    #[inline(never)]
    fn on_ecn_echo(&mut self, path: Path, sent: Time, advances: bool) {
        let Some(ecn) = self.extras.as_ref().and_then(|extras| extras.ecn) else { return };
        let is_repairing = self.report.in_recovery && !ecn.doubted;
        if self.seqs.una > ecn.reduced_until && !is_repairing {
            self.reduce(path, Probability::ONE, sent, true);
            self.recovery.on_mark(self.report.delivered, advances && self.report.lost == 0);
            self.report.in_recovery = self.recovery.in_recovery();
            if let Some(numbers) = &mut self.report.numbers {
                numbers.raises &= !self.report.in_recovery;
            }
        }
    }

    /// Stops marking packets as ECN-capable: nothing of the first window was answered, and some
    /// paths drop such packets (RFC 9000 section 13.4.2).
    #[inline(never)]
    fn stop_ecn(&mut self) {
        if let Some(extras) = &mut self.extras {
            extras.ecn = None;
        }
    }

    /// Informs the controller of single transmissions: each loss, spurious losses, persistent
    /// congestion, and the delivery-rate sample.
    #[inline]
    fn tell_of_transmissions(&mut self, now: Time) {
        if self.report.numbers.is_some() {
            self.tell_of_news(now);
        }
    }

    #[inline(never)]
    fn tell_of_news(&mut self, now: Time) {
        let Some(numbers) = &self.report.numbers else { return };
        let Numbers { spurious, persistent_congestion, in_flight, oldest, .. } = **numbers;
        if let Some(rate) = &mut self.estimators.delivery_rate {
            for _ in 0..numbers.unattributed {
                rate.on_unattributed_delivery(now);
            }
            for number in &numbers.delivered {
                rate.on_delivered(now, *number);
            }
            for number in &numbers.lost {
                if let Some(packet) = rate.on_lost(*number) {
                    self.window.on_lost(&packet, now);
                }
            }
        }
        if spurious {
            self.window.on_spurious_losses();
        }
        if persistent_congestion {
            let mut path = self.path(now, self.seqs.outstanding());
            path.in_flight = in_flight as f64;
            // The controller has already responded to these losses, one window at a time.
            self.restart(
                path,
                ResetCause::PersistentCongestion,
                true,
                Probability::ONE,
                AfterTimeout::Restart,
            );
        }
        let Some(rate) = &mut self.estimators.delivery_rate else { return };
        let in_recovery = self.report.in_recovery;
        let sample = rate.finish(now, oldest, in_flight, in_recovery);
        if let Some(sample) = sample
            && self.window.on_rate_sample(&sample)
        {
            rate.mark_app_limited(in_flight);
        }
    }

    fn restart(
        &mut self,
        path: Path,
        cause: ResetCause,
        repeated: bool,
        probability: Probability,
        leaves: AfterTimeout,
    ) {
        let Sequences { una, high, .. } = self.seqs;
        self.window.on_reset(&ResetEvent { path, cause, repeated, probability, leaves, una, high });
    }

    /// The time at which [`Sender::on_timer`] must be called next.
    #[inline]
    pub fn next_timer(&self) -> Time {
        let timer = self.recovery.next_timer(&self.estimators.rtt);
        match &self.extras {
            None => timer,
            Some(extras) => extras.pacer.map_or(timer, |pacer| timer.min(pacer.wake())),
        }
    }

    /// Handles the timers that are due.
    #[inline]
    pub fn on_timer(&mut self, now: Time) {
        self.integrate(now);
        if let Some(pacer) = self.pacer() {
            pacer.on_timer(now);
        }
        if self.recovery.next_timer(&self.estimators.rtt) <= now {
            self.on_recovery_timer(now);
        }
    }

    #[inline(never)]
    fn on_recovery_timer(&mut self, now: Time) {
        if self.recovery.means_silence(now) {
            self.estimators.on_silence(now);
        }
        let path = self.path(now, self.seqs.outstanding());
        let error = self.discriminates
            && self.recovery.asks_for_cause_of_timeout()
            && self.takes_losses_for_errors(path, LossSign::Timeout);
        self.report.clear();
        let expired = Expired { now, rtt: &mut self.estimators.rtt, error };
        self.recovery.on_timer(&mut self.seqs, expired, &mut self.report);
        self.counters.timeouts += u64::from(self.report.timed_out);
        if self.report.timed_out && self.counters.rtt_samples == 0 {
            self.stop_ecn();
        }
        if self.report.lost > 0 {
            self.discriminator.on_lost(&path, self.report.lost);
        }
        match self.report.finding {
            Finding::Loss => self.on_loss(path, now),
            Finding::Reset { repeated } => self.on_timeout(path, repeated),
            Finding::ErrorTimeout => self.window.on_error_loss(&path),
            Finding::Nothing | Finding::PartialRepair => {}
        }
        self.tell_of_transmissions(now);
    }

    /// Restarts the connection after a timeout.
    fn on_timeout(&mut self, path: Path, repeated: bool) {
        let loss = self.first_loss(path, LossSign::Timeout);
        let probability = self.discriminator.judge_timeout(&loss);
        let leaves = self.discriminator.after_timeout();
        self.restart(path, ResetCause::Timeout, repeated, probability, leaves);
        self.estimators.on_reset();
    }

    /// Writes the next data packet into `packet` and returns true, or returns false if nothing
    /// may be sent now.
    #[inline(always)]
    pub fn poll_transmit(&mut self, now: Time, packet: &mut Packet) -> bool {
        if let Some(extras) = &self.extras {
            if !extras.returned.is_empty() {
                return self.resend(now, packet);
            }
            let validates = extras.validation.is_some();
            if extras.pacer.is_some() && self.is_held_back(now) {
                return false;
            }
            if validates && self.seqs.outstanding() == 0 {
                self.end_idleness(now);
            }
        }
        let cwnd = self.window.cwnd();
        let at_rest = self.report.at_rest;
        let seq = if at_rest {
            self.seqs.next_within(cwnd)
        } else {
            self.recovery.next_to_send(&mut self.seqs, cwnd)
        };
        let Some(seq) = seq else {
            self.pause();
            return false;
        };
        let again = seq < self.seqs.high;
        if again {
            self.repair(now, seq);
        }
        let packet_seq = self.next_packet_seq;
        self.next_packet_seq += 1;
        if !at_rest {
            self.tell_recovery(now, seq, packet_seq, again);
        }
        if seq == self.seqs.next {
            self.seqs.next += 1;
            self.seqs.high = self.seqs.high.max(self.seqs.next);
        }

        packet.kind = PacketKind::Data;
        packet.flags = if again { Flags::RETRANSMISSION } else { Flags::NONE };
        packet.sack_len = 0;
        packet.seq = seq;
        packet.packet_seq = packet_seq;
        packet.timestamp = now;
        packet.size = self.packet_size;
        packet.header = CongestionHeader::None;
        if self.leaving != Leaving::Plain {
            self.attend(now, packet);
        }
        true
    }

    /// Passes a packet that leaves to recovery, after the previous state is recorded. If rates are
    /// sampled, recovery is never at rest.
    #[inline(never)]
    fn tell_recovery(&mut self, now: Time, seq: u64, packet_seq: u64, again: bool) {
        self.note_state_at(now, packet_seq);
        let sent = Sent { seq, packet_seq, now, again, rtt: &self.estimators.rtt };
        self.recovery.on_sent(&self.seqs, &sent);
    }

    /// Records whether the window is the reason why nothing may be sent now.
    #[inline(always)]
    fn pause(&mut self) {
        let seqs = &self.seqs;
        self.cwnd_limited = seqs.next < seqs.limit && seqs.outstanding() < seqs.rwnd;
        self.check_application_limit();
        if let Some(extras) = &mut self.extras {
            if let Some(pacer) = &mut extras.pacer {
                pacer.clear(); // Pacing is not the reason.
            }
            if extras.validation.is_some() {
                self.validate();
            }
        }
    }

    /// Finds whether the window is used, when nothing more may be sent.
    #[inline(never)]
    fn validate(&mut self) {
        let (cwnd, ssthresh) = (self.window.cwnd(), self.window.ssthresh());
        let in_flight = self.recovery.in_flight(&self.seqs);
        let window = self.recovery.window(cwnd);
        let (seqs, number) = (&self.seqs, self.next_packet_seq);
        let Some(validation) = self.extras.as_mut().and_then(|extras| extras.validation.as_mut())
        else {
            return;
        };
        let (full, out) = (in_flight >= window, seqs.outstanding());
        let renews =
            full || seqs.una >= validation.until || !validation.was_full && out > validation.most;
        if (full || number > validation.number) && renews {
            validation.was_full = full;
            validation.most = out;
            validation.until = seqs.next;
        }
        validation.number = number;
        let opens = cwnd < ssthresh && cwnd < 2.0 * validation.most as f64;
        self.cwnd_limited = validation.was_full || opens;
    }

    /// Tells the controller of a time without packets, if one is over now.
    #[inline(never)]
    fn end_idleness(&mut self, now: Time) {
        if self.seqs.next >= self.seqs.limit || self.seqs.rwnd == 0 {
            return;
        }
        let timeout = self.estimators.rtt.rto();
        let Some(validation) = self.extras.as_mut().and_then(|extras| extras.validation.as_mut())
        else {
            return;
        };
        // Until the first packet it is infinite.
        if validation.sent < now {
            let (time, initial) = (now.since(validation.sent), validation.decays_to);
            validation.sent = now;
            self.window.on_idle(&Idle {
                now,
                time,
                timeout: initial.map(|_| timeout),
                initial: initial.unwrap_or_default(),
            });
        }
    }

    /// Handles the retransmission of data `seq`.
    #[inline(never)]
    fn repair(&mut self, now: Time, seq: u64) {
        if self.discriminator.unjudged_from().is_some_and(|from| seq >= from)
            && self.recovery.deems_lost(seq)
        {
            self.judge_repair(now, seq);
        }
        self.counters.retransmissions += 1; // After the verdict, which does not count this packet.
    }

    /// Does the work for a packet that leaves, if there is more than its number and recovery.
    #[inline(never)]
    fn attend(&mut self, now: Time, packet: &mut Packet) {
        let again = packet.flags.contains(Flags::RETRANSMISSION);
        self.estimators.on_sent(now, packet.seq, again);
        self.complete(now, packet);
        if self.leaving == Leaving::Stamped {
            self.stamp(packet);
        }
    }

    /// Writes the ECN flags and the size of a packet, and paces it.
    #[inline]
    fn complete(&mut self, now: Time, packet: &mut Packet) {
        let Some(extras) = &mut self.extras else { return };
        packet.size = extras.sizes.of(packet.seq, self.packet_size);
        if let Some(validation) = &mut extras.validation {
            validation.sent = now;
        }
        if let Some(ecn) = &mut extras.ecn
            && !packet.flags.contains(Flags::RETRANSMISSION)
        {
            packet.flags.insert(Flags::ECN_CAPABLE); // RFC 3168 section 6.1.5: new data only.
            if std::mem::take(&mut ecn.announce) {
                packet.flags.insert(Flags::WINDOW_REDUCED);
            }
        }
        self.pace(now);
    }

    /// Writes the headers of the feedback and of the controller.
    #[inline]
    fn stamp(&mut self, packet: &mut Packet) {
        let window = self.window.cwnd().min(self.seqs.rwnd as f64);
        self.feedback.stamp(packet, self.estimators.rtt.srtt(), window);
        self.window.announce(packet, self.cwnd_limited);
    }

    /// Writes into `packet` the first packet that could not be sent, if there is one.
    #[inline(never)]
    fn resend(&mut self, now: Time, packet: &mut Packet) -> bool {
        let returned = &mut self.extras().returned;
        if returned.is_empty() {
            return false;
        }
        *packet = returned.remove(0);
        packet.timestamp = now;
        true
    }

    /// Takes back a packet of [`Sender::poll_transmit`] that could not be sent because a socket was
    /// full: the next poll returns it. Meanwhile it counts as sent and as in flight.
    pub fn unsent(&mut self, packet: &Packet) {
        let returned = &mut self.extras().returned;
        let at = returned.partition_point(|other| other.packet_seq < packet.packet_seq);
        returned.insert(at, packet.clone());
    }

    /// Judges a further lost segment of a window that has not been reduced, on its retransmission.
    fn judge_repair(&mut self, now: Time, seq: u64) {
        let path = self.path(now, self.seqs.outstanding());
        let loss = LossEvent { seq, ..self.first_loss(path, LossSign::Acknowledgments) };
        let probability = self.discriminator.judge_repair(&loss);
        self.reduce(path, probability, now, false);
    }

    #[inline]
    fn pacer(&mut self) -> Option<&mut Pacer> {
        self.extras.as_mut()?.pacer.as_mut()
    }

    /// True if a packet that could be sent now must wait for its pacing time.
    #[inline(never)]
    fn is_held_back(&mut self, now: Time) -> bool {
        let Some(pacer) = self.extras.as_mut().and_then(|extras| extras.pacer.as_mut()) else {
            return false;
        };
        let has_work = self.seqs.next < self.seqs.limit || self.seqs.outstanding() > 0;
        if !has_work || self.recovery.is_probing() {
            pacer.clear();
            return false;
        }
        pacer.holds_back(now)
    }

    /// Sets the time at which the next packet may leave, after one has left.
    fn pace(&mut self, now: Time) {
        let Some(pacer) = self.extras.as_mut().and_then(|extras| extras.pacer.as_mut()) else {
            return;
        };
        let rate = self.window.pacing_rate().or_else(|| {
            let srtt = self.estimators.rtt.srtt().as_secs_f64();
            // No rate before the first RTT sample.
            (srtt > 0.0).then(|| WINDOW_GAIN * self.window.cwnd() / srtt)
        });
        pacer.on_sent(now, rate);
    }

    /// Records the state before transmission `number` leaves.
    #[inline]
    fn note_state_at(&mut self, now: Time, number: u64) {
        let Some(rate) = &mut self.estimators.delivery_rate else { return };
        let in_flight = self.recovery.in_flight(&self.seqs);
        if in_flight == 0 && rate.is_app_limited() {
            self.window.on_restart_from_idle(now);
        }
        rate.on_sent(now, number, in_flight);
    }

    /// Records whether the application is the limit although the window has room, when nothing can
    /// be sent (the draft's CheckIfApplicationLimited).
    #[inline(always)]
    fn check_application_limit(&mut self) {
        if self.estimators.delivery_rate.is_some() {
            self.check_rate_limit();
        }
    }

    #[inline(never)]
    fn check_rate_limit(&mut self) {
        let Some(rate) = &mut self.estimators.delivery_rate else { return };
        let in_flight = self.recovery.in_flight(&self.seqs);
        let has_room = in_flight < self.window.cwnd() as u64;
        if self.seqs.next >= self.seqs.limit && has_room && self.recovery.has_repaired_all() {
            rate.mark_app_limited(in_flight);
        }
    }

    #[inline]
    fn integrate(&mut self, now: Time) {
        let passed = seconds(now.since(self.counters.integrated_to));
        self.counters.cwnd_seconds += self.window.cwnd() * passed;
        self.counters.integrated_to = now;
    }

    /// Data packets sent again.
    pub fn retransmissions(&self) -> u64 {
        self.counters.retransmissions
    }

    /// Counters up to `now`.
    pub fn stats(&mut self, now: Time) -> SenderStats {
        self.integrate(now);
        let counters = &self.counters;
        SenderStats {
            sent: self.next_packet_seq - 1,
            retransmissions: counters.retransmissions,
            duplicates: counters.duplicates,
            timeouts: counters.timeouts,
            rtt_samples: counters.rtt_samples,
            rtt_sum: counters.rtt_sum,
            cwnd_seconds: counters.cwnd_seconds,
        }
    }

    /// Handles a notice of corruption that a notifier sent out of band.
    pub fn on_notice(&mut self, now: Time, notice: &Notice) {
        self.discriminator.on_notice(now, notice);
    }

    /// The notices that it requires of notifiers on the path, if any.
    pub fn notification(&self) -> Option<Notification> {
        self.feedback.notification()
    }

    /// The loss rate of the connection so far, by LEAST.
    pub fn loss_rate(&self) -> LossRate {
        let Counters { retransmissions, duplicates, .. } = self.counters;
        LossRate { sent: self.next_packet_seq - 1, retransmissions, duplicates }
    }

    /// The congestion window, packets.
    pub fn cwnd(&self) -> f64 {
        self.window.cwnd()
    }
    /// The slow start threshold, packets; infinite for a controller without one.
    pub fn ssthresh(&self) -> f64 {
        self.window.ssthresh()
    }
    /// The packets that are not acknowledged, if recovery follows single packets.
    pub fn scoreboard(&self) -> Option<Scoreboard> {
        self.recovery.scoreboard(self.window.cwnd())
    }
    /// The number of invalid windows that a controller of another crate returned: not a number,
    /// below one packet, or beyond 2^32.
    pub fn refused_windows(&self) -> u64 {
        self.window.refused_windows()
    }
    /// The shifts of phase received so far, in order; empty without ESTCP.
    pub fn phase_cuts(&self) -> &[PhaseCut] {
        self.window.phase_cuts()
    }
    /// The pacing rate that the controller sets, packets per second; `None` if it sets none.
    pub fn pacing_rate(&self) -> Option<f64> {
        self.window.pacing_rate()
    }
    /// The phase of the connection in the words of RFC 9002 or of the controller, for logs. A mark
    /// begins a recovery period as a loss does (RFC 9002 section 7.3.2).
    pub fn phase(&self) -> &'static str {
        let ecn = self.extras.as_ref().and_then(|extras| extras.ecn).unwrap_or_default();
        let reduced = ecn.reduced_until; // 0 as long as there was no reduction.
        let in_recovery = self.report.in_recovery || reduced > 0 && self.seqs.una <= reduced;
        let is_idle = self.seqs.next >= self.seqs.limit && self.in_flight() < self.cwnd() as u64;
        match self.window.phase() {
            Some(phase) => phase,
            None if in_recovery => "recovery",
            None if is_idle => "application_limited",
            None if self.cwnd() < self.ssthresh() => "slow_start",
            None => "congestion_avoidance",
        }
    }
    /// The report of recovery on the latest acknowledgment or timer. An ignored acknowledgment does
    /// not replace the earlier report: call [`Sender::forget_report`] first if that matters.
    pub fn report(&self) -> &RecoveryReport {
        &self.report
    }
    /// Empties [`Sender::report`], for observers, as the next acknowledgment or timer would. The
    /// sender's behaviour does not change.
    pub fn forget_report(&mut self) {
        self.report.clear();
        if self.report.numbers.is_some() {
            self.report.clear_numbers();
        }
    }
    /// The time at which the timer of recovery expires: [`Sender::next_timer`] without pacing.
    pub fn recovery_timer(&self) -> Time {
        self.recovery.next_timer(&self.estimators.rtt)
    }
    /// The RTT estimator.
    pub fn rtt(&self) -> &RttEstimator {
        &self.estimators.rtt
    }
    /// Its position in the sequence space.
    pub fn sequences(&self) -> &Sequences {
        &self.seqs
    }
    /// Packets taken to be in the network.
    pub fn in_flight(&self) -> u64 {
        self.recovery.in_flight(&self.seqs)
    }
    /// True if everything offered has been acknowledged.
    pub fn is_done(&self) -> bool {
        self.seqs.una >= self.seqs.limit
    }

    /// The controller, for unit tests.
    #[cfg(test)]
    pub(crate) fn window(&self) -> &Window {
        &self.window
    }
}

/// True if the first block of an acknowledgment reports a duplicate: then it lies below the
/// cumulative acknowledgment or inside the second block (RFC 2883 section 4).
#[inline(never)]
fn reports_duplicate(ack: &Packet) -> bool {
    match ack.sack_blocks() {
        [] => false,
        [first, rest @ ..] => {
            let inside = |outer: &SackBlock| outer.start <= first.start && first.end <= outer.end;
            first.end <= ack.seq || rest.first().is_some_and(inside)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_sender_stays_small() {
        // Seven cache lines; a run may have a hundred thousand of them.
        assert!(size_of::<Sender>() <= 448, "{}", size_of::<Sender>());
    }
}
