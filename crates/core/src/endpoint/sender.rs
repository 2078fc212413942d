//! The sending endpoint: a connection's state machine over the four axes.

use super::EndpointConfig;
use super::discrimination::{Discriminator, LossEvent, LossSign};
use super::estimator::{
    ArrivalCounter, Bandwidth, DeliveryRate, Karn, LossRate, Path, RttEstimator, Sample,
};
use super::feedback::{Feedback, Notice, Notification};
use super::pacer::Pacer;
use super::recovery::{Acked, Finding, Recovery, RecoveryConfig, RecoveryKind, Sequences};
use super::window::{AckEvent, CongestionEvent, PhaseCut, ResetEvent, Window};
use crate::packet::{Flags, Packet, PacketKind, SackBlock};
use crate::protocols::Protocol;
use crate::rng::Stream;
use crate::units::{Duration, Probability, Time};

mod by_number;

/// The sender of one connection. It sends whole packets and knows no clock: drive it with
/// [`Sender::on_ack`] and [`Sender::on_timer`], and after each, and after
/// [`Sender::offer_until`], call [`Sender::poll_transmit`] until it has nothing more to send.
#[derive(Debug, Clone)]
pub struct Sender {
    window: Window,
    recovery: Recovery,
    discriminator: Discriminator,
    feedback: Feedback,
    rtt: RttEstimator,
    /// Only without timestamps, and with recovery that cannot tell transmissions apart.
    karn: Option<Karn>,
    bandwidth: Option<BandwidthState>,
    /// Only for laws that ask for samples.
    delivery_rate: Option<Box<DeliveryRate>>,
    /// Only where packets are paced.
    pacer: Option<Pacer>,
    seqs: Sequences,
    next_packet_seq: u64,
    cwnd_limited: bool,

    recovery_timer: Time,
    /// Only with the LR timers.
    retransmission_timer: Option<Time>,
    retransmission_timeout_factor: f64,
    /// Expiries of the recovery timer since new data was acknowledged.
    resets_in_a_row: u32,
    partial_repairs: u32,

    ecn: Option<EcnState>,
    packet_size: u32,
    stats: SenderStats,
}

/// A bandwidth estimate and what it counts.
#[derive(Debug, Clone)]
struct BandwidthState {
    estimate: Bandwidth,
    arrivals: ArrivalCounter,
}

/// RFC 3168 section 6.1.2: one reduction a window.
#[derive(Debug, Clone, Copy, Default)]
struct EcnState {
    /// No further reduction before this packet, the first sent after the last one, is
    /// acknowledged.
    reduced_until: u64,
    announce: bool,
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
        let recovery = RecoveryConfig {
            dupack_threshold: config.dupack_threshold,
            partial_deflation: config.partial_deflation,
            loss_monitor_guard: config.loss_monitor_guard,
            max_ack_delay: config.delayed_acks.unwrap_or(Duration::ZERO),
            bulk_repeat: config.bulk_repeat,
        };
        let rtt = RttEstimator::new(
            config.clock_granularity,
            config.rto_floor,
            config.rto_ceiling,
            config.rto_initial,
        );
        let rate_based = protocol.window.is_rate_based();
        // BBR does not specify what it makes of a mark (its draft, section "ECN").
        let uses_ecn = config.ecn && protocol.feedback == Feedback::None && !rate_based;
        Sender {
            window: Window::new(protocol.window, config, Stream::new(seed, "window", name)),
            recovery: Recovery::new(protocol.recovery, recovery),
            discriminator: Discriminator::new(
                protocol.discrimination,
                config,
                Stream::new(seed, "discrimination", name),
            ),
            feedback: protocol.feedback.toward(config.notification),
            rtt,
            // RFC 9002 section 4.2: with a number for each transmission no sample is ambiguous.
            karn: (!config.timestamps && protocol.recovery != RecoveryKind::PacketNumber)
                .then(Karn::default),
            bandwidth: protocol.window.bandwidth(config).map(|kind| BandwidthState {
                estimate: Bandwidth::new(kind),
                arrivals: ArrivalCounter::new(config.westwood.counting),
            }),
            delivery_rate: rate_based.then(Box::default),
            pacer: (rate_based || config.pacing).then(Pacer::default),
            seqs: Sequences { rwnd: config.rwnd, ..Sequences::default() },
            next_packet_seq: 1, // W[j] = X with X > 0 (lr2008 section 5.2).
            cwnd_limited: true,
            recovery_timer: Time::NEVER,
            retransmission_timer: protocol
                .recovery
                .has_retransmission_timer()
                .then_some(Time::NEVER),
            retransmission_timeout_factor: config.retransmission_timeout_factor,
            resets_in_a_row: 0,
            partial_repairs: 0,
            ecn: uses_ecn.then(EcnState::default),
            packet_size: config.packet_size,
            stats: SenderStats::default(),
        }
    }

    /// The application has packets up to `limit`, exclusive, to send; `u64::MAX` for bulk. A
    /// limit below what was sent already ends the transfer there.
    pub fn offer_until(&mut self, limit: u64) {
        self.seqs.limit = limit.max(self.seqs.high);
    }

    /// An acknowledgment arrived.
    pub fn on_ack(&mut self, now: Time, ack: &Packet) {
        debug_assert_eq!(ack.kind, PacketKind::Ack);
        self.stats.duplicates += u64::from(reports_duplicate(ack));
        if ack.seq < self.seqs.una || ack.seq > self.seqs.high {
            return; // Overtaken by a later one, or for what was never sent.
        }
        self.integrate(now);
        let newly = ack.seq - self.seqs.una;
        let outstanding = self.seqs.outstanding();
        if newly > 0 {
            let sent = match &mut self.karn {
                None => Some(ack.timestamp),
                Some(karn) => karn.on_ack(ack.seq),
            };
            self.sample_rtt(now, ack.timestamp, sent);
            self.seqs.una = ack.seq;
            self.seqs.next = self.seqs.next.max(ack.seq);
            self.resets_in_a_row = 0;
        } else if self.seqs.una == self.seqs.high {
            return; // Nothing is missing: an echo of what was sent twice.
        } else if self.recovery.samples_rtt(ack.packet_seq) {
            self.sample_rtt(now, ack.timestamp, Some(ack.timestamp));
        }

        self.estimate_bandwidth(now, newly);
        let path = self.path(now, outstanding);
        let mut event = AckEvent {
            path,
            newly_acked: newly,
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
        let error =
            self.recovery.asks_for_cause(newly) && self.is_error(path, LossSign::Acknowledgments);
        let acked = Acked {
            now,
            rtt: &self.rtt,
            newly,
            trigger_seq: ack.trigger_seq,
            packet_seq: ack.packet_seq,
            sack: ack.sack_blocks(),
            error,
        };
        let finding = self.recovery.on_ack(&self.seqs, &acked, path.cwnd);
        if finding == Finding::Loss {
            self.on_loss(path);
        } else if ack.flags.contains(Flags::ECN_ECHO) {
            self.on_ecn_echo(path);
        }
        if self.delivery_rate.is_some() {
            self.on_delivery_news(now);
        }
        event.in_recovery |= self.recovery.in_recovery();
        self.window.on_ack(&event);
        self.restart_timers(now, newly > 0, finding);
    }

    /// Counts the RTT of what was sent at `sent`, and tells the estimator what the sender
    /// `measured` of it.
    fn sample_rtt(&mut self, now: Time, sent: Time, measured: Option<Time>) {
        self.stats.rtt_samples += 1;
        self.stats.rtt_sum += now.since(sent);
        if let Some(sent) = measured {
            self.rtt.on_sample(sent, now);
        }
    }

    /// Tells the bandwidth estimate, if the protocol keeps one, of an acknowledgment.
    #[inline]
    fn estimate_bandwidth(&mut self, now: Time, newly: u64) {
        let Some(bandwidth) = &mut self.bandwidth else { return };
        bandwidth.estimate.on_ack(&Sample {
            now,
            arrived: bandwidth.arrivals.on_ack(newly),
            rtt: self.rtt.latest(),
            min_rtt: self.rtt.min_rtt(),
            srtt: self.rtt.srtt(),
            cwnd: self.window.cwnd(),
        });
    }

    /// The path now, of whose packets `outstanding` were not acknowledged before.
    #[inline]
    fn path(&self, now: Time, outstanding: u64) -> Path {
        let cwnd = self.window.cwnd();
        Path {
            now,
            cwnd,
            in_flight: (outstanding as f64).min(cwnd),
            rtt: self.rtt.latest(),
            srtt: self.rtt.srtt(),
            min_rtt: self.rtt.min_rtt(),
            bandwidth: self.bandwidth.as_ref().map_or(0.0, |b| b.estimate.rate()),
        }
    }

    /// The loss of the first packet that is missing.
    fn first_loss(&self, path: Path, sign: LossSign) -> LossEvent {
        LossEvent { path, seq: self.seqs.una, sign, rate: self.loss_rate() }
    }

    /// Recovery has found a loss in a window in which none was before.
    fn on_loss(&mut self, path: Path) {
        let loss = self.first_loss(path, LossSign::Acknowledgments);
        let probability = self.discriminator.judge(&loss);
        self.reduce(path, probability);
    }

    fn reduce(&mut self, path: Path, probability: Probability) {
        if probability > Probability::ZERO {
            self.window.on_congestion(&CongestionEvent { path, probability });
            if let Some(ecn) = &mut self.ecn {
                *ecn = EcnState { reduced_until: self.seqs.high, announce: true };
            }
        } else {
            self.window.on_error_loss(&path);
        }
    }

    fn is_error(&mut self, path: Path, sign: LossSign) -> bool {
        let loss = self.first_loss(path, sign);
        self.discriminator.judge(&loss) == Probability::ZERO
    }

    fn on_ecn_echo(&mut self, path: Path) {
        let due = self.ecn.is_some_and(|ecn| self.seqs.una > ecn.reduced_until);
        if due && !self.recovery.in_recovery() {
            self.reduce(path, Probability::ONE);
        }
    }

    fn restart_timers(&mut self, now: Time, new_data: bool, finding: Finding) {
        if let Recovery::PacketNumber(scheme) = &self.recovery {
            self.recovery_timer = scheme.deadline(&self.rtt);
            return;
        }
        if self.seqs.outstanding() == 0 {
            self.recovery_timer = Time::NEVER;
            if let Some(timer) = &mut self.retransmission_timer {
                *timer = Time::NEVER;
            }
            return;
        }
        // RFC 6582 section 3.2: of the partial acknowledgments of one recovery only the first
        // restarts the timer, so that many losses in a window end in a timeout.
        // Duplicates between them neither count nor end the recovery.
        if finding == Finding::PartialRepair {
            self.partial_repairs += 1;
        } else if new_data || finding == Finding::Loss {
            self.partial_repairs = 0;
        }
        if self.retransmission_timer.is_some() {
            // lr2008 section 4.2: any acknowledgment postpones the recovery timer.
            self.recovery_timer = now + self.timeout();
            if new_data {
                self.restart_retransmission_timer(now);
            }
        } else if (new_data && self.partial_repairs <= 1) || finding == Finding::Loss {
            // A duplicate postpones TCP's only where it causes a retransmission.
            self.recovery_timer = now + self.timeout();
        }
    }

    /// When [`Sender::on_timer`] must be called next.
    #[inline]
    pub fn next_timer(&self) -> Time {
        let timer = self.retransmission_timer;
        let timer = timer.map_or(self.recovery_timer, |t| t.min(self.recovery_timer));
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
        if self.recovery_timer <= now {
            if matches!(self.recovery, Recovery::PacketNumber(_)) {
                self.on_loss_detection_timer(now);
            } else {
                self.reset(now);
            }
        } else if self.retransmission_timer.is_some_and(|timer| timer <= now) {
            self.recovery.on_retransmission_timer(&self.seqs);
            self.restart_retransmission_timer(now);
        }
    }

    /// Connection reset (lr2008 section 2.2.3; RFC 5681 and RFC 6298 section 5).
    fn reset(&mut self, now: Time) {
        self.stats.timeouts += 1;
        if let Some(bandwidth) = &mut self.bandwidth {
            bandwidth.estimate.on_silence(now);
        }
        let path = self.path(now, self.seqs.outstanding());
        let error =
            self.recovery.asks_for_cause_of_timeout() && self.is_error(path, LossSign::Timeout);
        let repeated = self.resets_in_a_row > 0;
        self.resets_in_a_row += 1;
        self.partial_repairs = 0;
        if self.recovery.on_reset(&mut self.seqs, error) {
            self.window.on_error_loss(&path);
        } else {
            let loss = self.first_loss(path, LossSign::Timeout);
            let probability = self.discriminator.judge_reset(&loss);
            let keeps_window = self.discriminator.keeps_window_on_timeout();
            self.window.on_reset(&ResetEvent { path, repeated, probability, keeps_window });
            if let Some(bandwidth) = &mut self.bandwidth {
                bandwidth.arrivals.on_reset();
            }
        }
        self.rtt.back_off();
        self.recovery_timer = now + self.timeout();
        self.restart_retransmission_timer(now);
    }

    /// The recovery timeout in force.
    fn timeout(&self) -> Duration {
        self.recovery.timeout(&self.rtt)
    }

    fn restart_retransmission_timer(&mut self, now: Time) {
        if let Some(timer) = &mut self.retransmission_timer {
            // Larger than the recovery timeout in force, so that silence ends in a reset and not
            // in retransmissions (lr2008 section 4.3).
            *timer = now + self.rtt.rto().mul_f64(self.retransmission_timeout_factor);
        }
    }

    /// Writes the next data packet into `packet` and returns true, or returns false if nothing
    /// may be sent now.
    #[inline]
    pub fn poll_transmit(&mut self, now: Time, packet: &mut Packet) -> bool {
        if self.pacer.is_some() && self.is_held_back(now) {
            return false;
        }
        let cwnd = self.window.cwnd();
        let Some(seq) = self.recovery.next_to_send(&mut self.seqs, cwnd) else {
            let seqs = &self.seqs;
            self.cwnd_limited = seqs.next < seqs.limit && seqs.outstanding() < seqs.rwnd;
            if self.delivery_rate.is_some() {
                self.check_application_limit();
            }
            return false;
        };
        let is_retransmission = seq < self.seqs.high;
        if is_retransmission
            && self.discriminator.unjudged_from().is_some_and(|from| seq >= from)
            && self.recovery.deems_lost(seq)
        {
            let path = self.path(now, self.seqs.outstanding());
            let loss = LossEvent { seq, ..self.first_loss(path, LossSign::Acknowledgments) };
            let probability = self.discriminator.judge_repair(&loss);
            self.reduce(path, probability);
        }
        let packet_seq = self.next_packet_seq;
        self.next_packet_seq += 1;
        if self.delivery_rate.is_some() {
            self.note_state_at(now, packet_seq);
        }
        self.recovery.on_sent(&self.seqs, seq, packet_seq, now);
        if let Some(karn) = &mut self.karn {
            karn.on_sent(now, seq, is_retransmission);
        }
        if let Recovery::PacketNumber(scheme) = &self.recovery {
            self.recovery_timer = scheme.deadline(&self.rtt);
        } else if self.recovery_timer == Time::NEVER {
            self.recovery_timer = now + self.timeout();
        }
        if seq == self.seqs.next {
            self.seqs.next += 1;
            self.seqs.high = self.seqs.high.max(self.seqs.next);
        }
        self.stats.sent += 1;

        packet.kind = PacketKind::Data;
        packet.flags = Flags::NONE;
        packet.sack_len = 0;
        packet.seq = seq;
        packet.packet_seq = packet_seq;
        packet.timestamp = now;
        packet.size = self.packet_size;
        if is_retransmission {
            self.stats.retransmissions += 1;
            packet.flags.insert(Flags::RETRANSMISSION);
            self.restart_retransmission_timer(now);
        } else if self.retransmission_timer == Some(Time::NEVER) {
            self.restart_retransmission_timer(now);
        }
        if let Some(ecn) = &mut self.ecn
            && !is_retransmission
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
        self.feedback.stamp(packet, self.rtt.srtt(), window);
        self.window.announce(packet, self.cwnd_limited);
        true
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
    /// The shifts of phase it heard of, in order; none but with ESTCP.
    pub fn phase_cuts(&self) -> &[PhaseCut] {
        self.window.phase_cuts()
    }
    /// The RTT estimator.
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
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
