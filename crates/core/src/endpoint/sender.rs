//! The sending endpoint: a connection's state machine over the four axes.
//!
//! What happens is one event, and it takes one way: estimators, recovery, discrimination, window.
//! Nothing here knows which law, which scheme or which discriminator it has.

use super::EndpointConfig;
use super::discrimination::{self, Discriminator, LossDiscrimination};
use super::estimator::{Asked, Estimators, LossRate, RttEstimator};
use super::event::{AckEvent, CongestionEvent, LossEvent, LossSign, Path, ResetCause, ResetEvent};
use super::feedback::{Feedback, Notice, Notification};
use super::pacer::{Pacer, WINDOW_GAIN};
use super::recovery::{Acked, Expired, Finding, LossRecovery, Recovery, Report, Sent, Sequences};
use super::window::{self, CongestionControl, PhaseCut, Window};
use crate::packet::{Flags, Packet, PacketKind, SackBlock};
use crate::part::Ability;
use crate::protocols::Protocol;
use crate::rng::Stream;
use crate::units::{Duration, Probability, Time};

/// The sender of one connection. It sends whole packets and knows no clock: drive it with
/// [`Sender::on_ack`] and [`Sender::on_timer`], and after each, and after
/// [`Sender::offer_until`], call [`Sender::poll_transmit`] until it has nothing more to send.
#[derive(Debug)]
pub struct Sender {
    window: Window,
    recovery: Recovery,
    discriminator: Discriminator,
    feedback: Feedback,
    estimators: Estimators,
    seqs: Sequences,
    next_packet_seq: u64,
    cwnd_limited: bool,
    byte_counting: bool,
    /// Only where packets are paced.
    pacer: Option<Pacer>,
    /// Only where classic ECN is negotiated.
    ecn: Option<EcnState>,
    sizes: Sizes,
    /// Packets that were given out and could not be sent, in order.
    returned: Vec<Packet>,
    report: Report,
    stats: SenderStats,
}

/// RFC 3168 section 6.1.2: one reduction a window.
#[derive(Debug, Clone, Copy, Default)]
struct EcnState {
    /// No further reduction before this packet, the first sent after the last one, is
    /// acknowledged.
    reduced_until: u64,
    announce: bool,
}

/// How large packets are. Sequence numbers count packets, so that a packet keeps its size for good;
/// only what was never sent can change it.
#[derive(Debug, Clone)]
struct Sizes {
    /// Size on the wire, bytes, of packets from now on.
    usual: u32,
    /// The last packet of the transfer, if it is a smaller one.
    last: Option<(u64, u32)>,
    /// Sizes before: packets below the first number had the second.
    before: Vec<(u64, u32)>,
}

impl Sizes {
    #[inline]
    fn of(&self, seq: u64) -> u32 {
        match self.last {
            Some((last, size)) if seq == last => size,
            _ if self.before.is_empty() => self.usual,
            _ => {
                let at = self.before.partition_point(|(below, _)| *below <= seq);
                self.before.get(at).map_or(self.usual, |(_, size)| *size)
            }
        }
    }

    /// Bytes of the packets `from..to`.
    #[inline]
    fn bytes(&self, from: u64, to: u64) -> u64 {
        if self.before.is_empty() && self.last.is_none() {
            return (to - from) * u64::from(self.usual);
        }
        (from..to).map(|seq| u64::from(self.of(seq))).sum()
    }
}

/// What a sender has counted.
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
    /// Until when the integral reaches.
    integrated_to: Time,
}

impl Sender {
    /// A connection of this protocol with nothing to send yet. `seed` and `name` choose its
    /// random numbers, for protocols that use some.
    pub fn new(protocol: &Protocol, config: &EndpointConfig, seed: u64, name: &str) -> Self {
        let law = protocol.window;
        let numbered = protocol.recovery.gives().contains(&Ability::TransmissionNumbers);
        let asked = Asked {
            numbered,
            bandwidth: law.bandwidth(),
            delivery_rate: numbered && law.samples_rate(),
        };
        let uses_ecn =
            config.ecn && law.answers_ecn() && protocol.feedback.reads().contains(&"ecn");
        Sender {
            window: law.make(window::Setup {
                feedback: &protocol.feedback,
                endpoint: config,
                stream: Stream::new(seed, "window", name),
            }),
            recovery: protocol.recovery.make(config),
            discriminator: protocol.discrimination.make(discrimination::Setup {
                endpoint: config,
                stream: Stream::new(seed, "discrimination", name),
            }),
            feedback: protocol.feedback,
            estimators: Estimators::new(config, asked),
            seqs: Sequences { rwnd: config.rwnd, ..Sequences::default() },
            next_packet_seq: 1, // W[j] = X with X > 0 (lr2008 section 5.2).
            cwnd_limited: true,
            byte_counting: config.byte_counting,
            pacer: (law.paces() || config.pacing).then(Pacer::default),
            ecn: uses_ecn.then(EcnState::default),
            sizes: Sizes { usual: config.packet_size, last: None, before: Vec::new() },
            returned: Vec::new(),
            report: Report::default(),
            stats: SenderStats::default(),
        }
    }

    /// The application has packets up to `limit`, exclusive, to send; `u64::MAX` for bulk. A
    /// limit below what was sent already ends the transfer there.
    pub fn offer_until(&mut self, limit: u64) {
        self.seqs.limit = limit.max(self.seqs.high);
        self.sizes.last = None;
    }

    /// The application has `bytes` more to send, on the wire and in packets of the present size;
    /// what does not fill the last of them goes in a smaller one. Ends what was offered before.
    pub fn offer_bytes(&mut self, bytes: u64) {
        let size = u64::from(self.sizes.usual);
        self.offer_until(self.seqs.high.saturating_add(bytes.div_ceil(size)));
        let rest = bytes % size;
        if rest > 0 {
            // Less than a packet's size, which is a u32.
            self.sizes.last = Some((self.seqs.limit - 1, rest as u32));
        }
    }

    /// Packets that were never sent have this size on the wire from now on, bytes, at least 1: the
    /// path's MTU has changed. cwnd stays as it is in packets.
    pub fn set_packet_size(&mut self, size: u32) {
        let size = size.max(1);
        if size != self.sizes.usual {
            self.sizes.before.push((self.seqs.high, self.sizes.usual));
            self.sizes.usual = size;
        }
    }

    /// An acknowledgment arrived.
    pub fn on_ack(&mut self, now: Time, ack: &Packet) {
        debug_assert_eq!(ack.kind, PacketKind::Ack);
        self.stats.duplicates += u64::from(reports_duplicate(ack));
        if ack.seq < self.seqs.una || ack.seq > self.seqs.high {
            return; // Overtaken by a later one, or for what was never sent.
        }
        self.integrate(now);
        let before = self.seqs.una;
        let newly = ack.seq - before;
        let outstanding = self.seqs.outstanding();
        if newly > 0 {
            let sent = self.estimators.timed(ack.seq, ack.timestamp);
            self.sample_rtt(now, ack.timestamp, sent);
            self.seqs.una = ack.seq;
            self.seqs.next = self.seqs.next.max(ack.seq);
        } else if before == self.seqs.high {
            return; // Nothing is missing: an echo of what was sent twice.
        } else if self.recovery.samples_rtt(ack.packet_seq) {
            self.sample_rtt(now, ack.timestamp, Some(ack.timestamp));
        }
        self.estimators.estimate_bandwidth(now, newly, self.window.cwnd());

        let path = self.path(now, outstanding);
        let mut event = AckEvent {
            path,
            newly_acked: newly,
            newly_acked_bytes: self.sizes.bytes(before, ack.seq),
            delivered: newly,
            lost: 0,
            growth: if self.byte_counting { newly as f64 } else { 1.0 },
            in_recovery: self.recovery.in_recovery(),
            cwnd_limited: self.cwnd_limited,
            una: self.seqs.una,
            high: self.seqs.high,
            sent: ack.timestamp,
            packet_seq: ack.packet_seq,
            flags: ack.flags,
            header: ack.header,
        };
        self.discriminator.on_ack(&event);
        self.recover(&event, ack);
        let finding = self.report.finding;
        if finding == Finding::Loss {
            self.on_loss(path, ack.timestamp);
        } else if ack.flags.contains(Flags::ECN_ECHO) {
            self.on_ecn_echo(path, ack.timestamp);
        }
        self.tell_of_transmissions(now);
        event.delivered = self.report.delivered;
        event.lost = self.report.lost;
        event.in_recovery |= self.recovery.in_recovery();
        self.window.on_ack(&event);
    }

    /// Counts the RTT of what was sent at `sent`, and tells the estimator what the sender
    /// `measured` of it.
    fn sample_rtt(&mut self, now: Time, sent: Time, measured: Option<Time>) {
        self.stats.rtt_samples += 1;
        self.stats.rtt_sum += now.since(sent);
        if let Some(sent) = measured {
            self.estimators.rtt.on_sample(sent, now);
        }
    }

    /// The path now, of whose packets `outstanding` were not acknowledged before.
    #[inline]
    fn path(&self, now: Time, outstanding: u64) -> Path {
        self.estimators.path(now, outstanding, self.window.cwnd())
    }

    /// Recovery takes an acknowledgment in and writes its report.
    #[inline]
    fn recover(&mut self, event: &AckEvent, ack: &Packet) {
        let asks = self.recovery.asks_for_cause(event.newly_acked);
        let error = asks && self.takes_losses_for_errors(event.path, LossSign::Acknowledgments);
        let acked = Acked {
            now: event.path.now,
            rtt: &self.estimators.rtt,
            newly: event.newly_acked,
            trigger_seq: ack.trigger_seq,
            packet_seq: ack.packet_seq,
            sack: ack.sack_blocks(),
            error,
            cwnd: event.path.cwnd,
        };
        self.report.clear();
        self.recovery.on_ack(&self.seqs, &acked, &mut self.report);
    }

    /// The loss of the first packet that is missing.
    fn first_loss(&self, path: Path, sign: LossSign) -> LossEvent {
        LossEvent { path, seq: self.seqs.una, sign, rate: self.loss_rate() }
    }

    /// Does discrimination, at this moment, take losses for errors?
    fn takes_losses_for_errors(&self, path: Path, sign: LossSign) -> bool {
        self.discriminator.opinion(&self.first_loss(path, sign)) == Probability::ZERO
    }

    /// Recovery has found a loss in a window in which none was before; what told of it was sent at
    /// `sent`.
    fn on_loss(&mut self, path: Path, sent: Time) {
        let loss = self.first_loss(path, LossSign::Acknowledgments);
        let probability = self.discriminator.judge(&loss);
        self.reduce(path, probability, sent);
    }

    fn reduce(&mut self, path: Path, probability: Probability, sent: Time) {
        if probability > Probability::ZERO {
            let Sequences { una, high, .. } = self.seqs;
            self.window.on_congestion(&CongestionEvent { path, probability, una, high, sent });
            if let Some(ecn) = &mut self.ecn {
                *ecn = EcnState { reduced_until: high, announce: true };
            }
        } else {
            self.window.on_error_loss(&path);
        }
    }

    fn on_ecn_echo(&mut self, path: Path, sent: Time) {
        let due = self.ecn.is_some_and(|ecn| self.seqs.una > ecn.reduced_until);
        if due && !self.recovery.in_recovery() {
            self.reduce(path, Probability::ONE, sent);
        }
    }

    /// Tells the window what recovery learned of single transmissions: the losses one by one, that
    /// they were none, that they add up to a restart, and the delivery-rate sample.
    #[inline]
    fn tell_of_transmissions(&mut self, now: Time) {
        let Report { spurious, persistent_congestion, .. } = self.report;
        if self.estimators.delivery_rate.is_some() || spurious || persistent_congestion {
            self.tell_of_news(now);
        }
    }

    fn tell_of_news(&mut self, now: Time) {
        let Report { spurious, persistent_congestion, .. } = self.report;
        if let Some(rate) = &mut self.estimators.delivery_rate {
            for _ in 0..self.report.unattributed {
                rate.on_unattributed_delivery(now);
            }
            for number in &self.report.delivered_numbers {
                rate.on_delivered(now, *number);
            }
            for number in &self.report.lost_numbers {
                if let Some(packet) = rate.on_lost(*number) {
                    self.window.on_lost(&packet, now);
                }
            }
        }
        if spurious {
            self.window.on_spurious_losses();
        }
        let in_flight = self.recovery.in_flight(&self.seqs);
        if persistent_congestion {
            let mut path = self.path(now, self.seqs.outstanding());
            path.in_flight = in_flight as f64;
            // The losses that add up to it have been answered one window at a time.
            self.restart(path, ResetCause::PersistentCongestion, true, Probability::ONE, false);
        }
        let Some(rate) = &mut self.estimators.delivery_rate else { return };
        let in_recovery = self.recovery.in_recovery();
        let sample = rate.finish(now, self.recovery.oldest(), in_flight, in_recovery);
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
        keeps_window: bool,
    ) {
        let Sequences { una, high, .. } = self.seqs;
        self.window.on_reset(&ResetEvent {
            path,
            cause,
            repeated,
            probability,
            keeps_window,
            una,
            high,
        });
    }

    /// When [`Sender::on_timer`] must be called next.
    #[inline]
    pub fn next_timer(&self) -> Time {
        let timer = self.recovery.next_timer(&self.estimators.rtt);
        match &self.pacer {
            None => timer,
            Some(pacer) => timer.min(pacer.wake()),
        }
    }

    /// Lets the timers that are due expire.
    pub fn on_timer(&mut self, now: Time) {
        self.integrate(now);
        if let Some(pacer) = &mut self.pacer {
            pacer.on_timer(now);
        }
        if self.recovery.next_timer(&self.estimators.rtt) <= now {
            self.on_recovery_timer(now);
        }
    }

    fn on_recovery_timer(&mut self, now: Time) {
        if self.recovery.means_silence(now) {
            self.estimators.on_silence(now);
        }
        let path = self.path(now, self.seqs.outstanding());
        let error = self.recovery.asks_for_cause_of_timeout()
            && self.takes_losses_for_errors(path, LossSign::Timeout);
        self.report.clear();
        let expired = Expired { now, rtt: &mut self.estimators.rtt, error };
        self.recovery.on_timer(&mut self.seqs, expired, &mut self.report);
        self.stats.timeouts += u64::from(self.report.timed_out);
        match self.report.finding {
            Finding::Loss => self.on_loss(path, now),
            Finding::Reset { repeated } => self.on_timeout(path, repeated),
            Finding::ErrorTimeout => self.window.on_error_loss(&path),
            Finding::Nothing | Finding::PartialRepair => {}
        }
        self.tell_of_transmissions(now);
    }

    /// The connection starts again after silence.
    fn on_timeout(&mut self, path: Path, repeated: bool) {
        let loss = self.first_loss(path, LossSign::Timeout);
        let probability = self.discriminator.judge_timeout(&loss);
        let keeps_window = self.discriminator.keeps_window_on_timeout();
        self.restart(path, ResetCause::Timeout, repeated, probability, keeps_window);
        self.estimators.on_reset();
    }

    /// Writes the next data packet into `packet` and returns true, or returns false if nothing
    /// may be sent now.
    #[inline]
    pub fn poll_transmit(&mut self, now: Time, packet: &mut Packet) -> bool {
        if !self.returned.is_empty() {
            *packet = self.returned.remove(0);
            packet.timestamp = now;
            return true;
        }
        if self.pacer.is_some() && self.is_held_back(now) {
            return false;
        }
        let cwnd = self.window.cwnd();
        let Some(seq) = self.recovery.next_to_send(&mut self.seqs, cwnd) else {
            let seqs = &self.seqs;
            self.cwnd_limited = seqs.next < seqs.limit && seqs.outstanding() < seqs.rwnd;
            self.check_application_limit();
            if let Some(pacer) = &mut self.pacer {
                pacer.clear(); // Not pacing held it back.
            }
            return false;
        };
        let again = seq < self.seqs.high;
        if again
            && self.discriminator.unjudged_from().is_some_and(|from| seq >= from)
            && self.recovery.deems_lost(seq)
        {
            self.judge_repair(now, seq);
        }
        let packet_seq = self.next_packet_seq;
        self.next_packet_seq += 1;
        self.note_state_at(now, packet_seq);
        let sent = Sent { seq, packet_seq, now, again, rtt: &self.estimators.rtt };
        self.recovery.on_sent(&self.seqs, &sent);
        self.estimators.on_sent(now, seq, again);
        if seq == self.seqs.next {
            self.seqs.next += 1;
            self.seqs.high = self.seqs.high.max(self.seqs.next);
        }
        self.stats.sent += 1;
        self.stats.retransmissions += u64::from(again);

        packet.kind = PacketKind::Data;
        packet.flags = if again { Flags::RETRANSMISSION } else { Flags::NONE };
        packet.sack_len = 0;
        packet.seq = seq;
        packet.packet_seq = packet_seq;
        packet.timestamp = now;
        packet.size = self.sizes.of(seq);
        if let Some(ecn) = &mut self.ecn
            && !again
        {
            packet.flags.insert(Flags::ECN_CAPABLE); // RFC 3168 section 6.1.5: new data only.
            if std::mem::take(&mut ecn.announce) {
                packet.flags.insert(Flags::WINDOW_REDUCED);
            }
        }
        if self.pacer.is_some() {
            self.pace(now);
        }
        let window = cwnd.min(self.seqs.rwnd as f64);
        self.feedback.stamp(packet, self.estimators.rtt.srtt(), window);
        self.window.announce(packet, self.cwnd_limited);
        true
    }

    /// Takes back a packet of [`Sender::poll_transmit`] that could not be sent, because a socket was
    /// full: the next one polled is this. It counts as sent and as in flight meanwhile.
    pub fn unsent(&mut self, packet: &Packet) {
        let at = self.returned.partition_point(|other| other.packet_seq < packet.packet_seq);
        self.returned.insert(at, packet.clone());
    }

    /// A further lost segment of a window that has not been reduced is sent again.
    fn judge_repair(&mut self, now: Time, seq: u64) {
        let path = self.path(now, self.seqs.outstanding());
        let loss = LossEvent { seq, ..self.first_loss(path, LossSign::Acknowledgments) };
        let probability = self.discriminator.judge_repair(&loss);
        self.reduce(path, probability, now);
    }

    /// Must a packet that could be sent now wait for its time?
    fn is_held_back(&mut self, now: Time) -> bool {
        let Some(pacer) = &mut self.pacer else { return false };
        let has_work = self.seqs.next < self.seqs.limit || self.seqs.outstanding() > 0;
        if !has_work || self.recovery.is_probing() {
            pacer.clear();
            return false;
        }
        pacer.holds_back(now)
    }

    /// A packet leaves: when may the next?
    fn pace(&mut self, now: Time) {
        let srtt = self.estimators.rtt.srtt().as_secs_f64();
        let rate = self.window.pacing_rate().or_else(|| {
            // Nothing is known of the path before the first sample.
            (srtt > 0.0).then(|| WINDOW_GAIN * self.window.cwnd() / srtt)
        });
        if let Some(pacer) = &mut self.pacer {
            pacer.on_sent(now, rate);
        }
    }

    /// Transmission `number` is about to leave.
    #[inline]
    fn note_state_at(&mut self, now: Time, number: u64) {
        let Some(rate) = &mut self.estimators.delivery_rate else { return };
        let in_flight = self.recovery.in_flight(&self.seqs);
        if in_flight == 0 && rate.is_app_limited() {
            self.window.on_restart_from_idle(now);
        }
        rate.on_sent(now, number, in_flight);
    }

    /// Nothing can be sent: is it because the application has nothing more, although the window
    /// has room (the draft's CheckIfApplicationLimited)?
    #[inline]
    fn check_application_limit(&mut self) {
        let Some(rate) = &mut self.estimators.delivery_rate else { return };
        let in_flight = self.recovery.in_flight(&self.seqs);
        let has_room = in_flight < self.window.cwnd() as u64;
        if self.seqs.next >= self.seqs.limit && has_room && self.recovery.has_repaired_all() {
            rate.mark_app_limited(in_flight);
        }
    }

    fn integrate(&mut self, now: Time) {
        let passed = now.since(self.stats.integrated_to).as_secs_f64();
        self.stats.cwnd_seconds += self.window.cwnd() * passed;
        self.stats.integrated_to = now;
    }

    /// Counters up to `now`.
    pub fn stats(&mut self, now: Time) -> SenderStats {
        self.integrate(now);
        self.stats
    }

    /// A notifier tells of corruption out of band.
    pub fn on_notice(&mut self, now: Time, notice: &Notice) {
        self.discriminator.on_notice(now, notice);
    }

    /// What notifiers on the path are asked to tell, and which way.
    pub fn notification(&self) -> Option<Notification> {
        self.feedback.notification()
    }

    /// What LEAST makes of the connection so far.
    pub fn loss_rate(&self) -> LossRate {
        let SenderStats { sent, retransmissions, duplicates, .. } = self.stats;
        LossRate { sent, retransmissions, duplicates }
    }

    /// The congestion window, packets.
    pub fn cwnd(&self) -> f64 {
        self.window.cwnd()
    }
    /// The slow start threshold, packets; infinite where there is none.
    pub fn ssthresh(&self) -> f64 {
        self.window.ssthresh()
    }
    /// How often a window law of another crate gave a window that is none: not a number, below one
    /// packet, beyond 2^32.
    pub fn refused_windows(&self) -> u64 {
        self.window.refused_windows()
    }
    /// The shifts of phase it heard of, in order; none but with ESTCP.
    pub fn phase_cuts(&self) -> &[PhaseCut] {
        self.window.phase_cuts()
    }
    /// The RTT estimator.
    pub fn rtt(&self) -> &RttEstimator {
        &self.estimators.rtt
    }
    /// Where the sender stands in the sequence space.
    pub fn sequences(&self) -> &Sequences {
        &self.seqs
    }
    /// Packets taken to be in the network.
    pub fn in_flight(&self) -> u64 {
        self.recovery.in_flight(&self.seqs)
    }
    /// Has everything offered been acknowledged?
    pub fn is_done(&self) -> bool {
        self.seqs.una >= self.seqs.limit
    }

    /// For tests that look inside a window law.
    #[cfg(test)]
    pub(crate) fn window(&self) -> &Window {
        &self.window
    }
}

/// Does the first block of an acknowledgment report a duplicate? RFC 2883 section 4: then it lies
/// below the cumulative acknowledgment or inside the second block.
#[inline]
fn reports_duplicate(ack: &Packet) -> bool {
    match ack.sack_blocks() {
        [] => false,
        [first, rest @ ..] => {
            let inside = |outer: &SackBlock| outer.start <= first.start && first.end <= outer.end;
            first.end <= ack.seq || rest.first().is_some_and(inside)
        }
    }
}
