//! Recovery by packet number: the loss detection of today's transports (RFC 9002, section 6;
//! for TCP, RACK-TLP of RFC 8985 is much the same).
//!
//! Every transmission has a number of its own, which its acknowledgment echoes, so that a lost
//! retransmission is found like any other loss. A transmission is lost once one sent
//! dupackthreshold numbers later is acknowledged (kPacketThreshold = 3, section 6.1.1), or once a
//! later one is acknowledged and it was sent at least 9/8 of a round trip ago (kTimeThreshold,
//! section 6.1.2). If acknowledgments stop, probes are sent beyond the window after the probe
//! timeout (section 6.2), and no packet counts as lost before an acknowledgment arrives.
//!
//! The window is reduced at most once per round trip: only for the loss of a packet sent after the
//! last reduction (section 7.3.2). Losses over more than three probe timeouts without an
//! acknowledgment in between are persistent congestion (section 7.6): the connection starts again.
//!
//! Deviations, because acknowledgments here are TCP's and echo one number each. Other data that
//! they cover is credited to its latest transmission, unless that is younger than the echoed one. A
//! transmission of data that is known to have arrived is no longer in flight. A probe repeats the
//! oldest outstanding data if no new data may be sent.

use std::collections::VecDeque;

use super::{
    Acked, Expired, Finding, Recovery, RecoveryPart, RecoveryReport, Sent, Sequences, fits,
};
use crate::endpoint::EndpointConfig;
use crate::endpoint::estimator::RttEstimator;
use crate::endpoint::range_set::RangeSet;
use crate::part::{Ability, Form, Part, Plain, Words};
use crate::units::{Duration, Time};

/// RFC 9002 section 6.1.2: kTimeThreshold.
const TIME_THRESHOLD: f64 = 9.0 / 8.0;
/// RFC 9002 section 6.1.2: kGranularity.
const GRANULARITY: Duration = Duration::from_millis(1);
/// RFC 9002 section 7.6.1: kPersistentCongestionThreshold.
const PERSISTENT_CONGESTION_THRESHOLD: u64 = 3;
/// Probes sent when the probe timeout expires (RFC 9002 section 6.2.4: one or two).
const PROBES: u32 = 2;

/// Value in place of a packet number for data that has arrived. Numbers start at 1.
const ARRIVED: u64 = 0;

#[derive(Debug, Clone, Copy)]
struct Transmission {
    seq: u64,
    sent: Time,
    in_flight: bool,
    /// The previous transmission of the same data, if it is in flight; else 0.
    earlier: u64,
}

/// The state of recovery by packet number.
#[derive(Debug)]
pub struct PacketNumber {
    threshold: u64,
    /// The longest time by which the receiver may delay an acknowledgment (RFC 9002:
    /// max_ack_delay).
    max_ack_delay: Duration,
    /// Transmissions by number from `base` on; the first is in flight.
    sent: VecDeque<Transmission>,
    base: u64,
    in_flight: u64,
    largest_acked: u64,
    /// The latest transmission of the data from `data_base` on, or [`ARRIVED`].
    data: VecDeque<u64>,
    data_base: u64,
    /// Data that has arrived out of order.
    arrived: RangeSet,
    /// Data to retransmit, in the order in which it was found lost.
    lost: VecDeque<u64>,
    /// The first number sent after the last reduction (RFC 9002: congestion_recovery_start_time).
    recovery_start: u64,
    /// Data found lost since then and not known to have arrived.
    suspects: Vec<u64>,
    loss_time: Time,
    last_sent: Time,
    /// The present probe timeout, as of the latest acknowledgment or expiry; zero before the first
    /// packet. Cached because it is read more often than it changes.
    timeout: Duration,
    /// The time of the first RTT sample: only packets sent later can show persistent congestion
    /// (RFC 9002 section 7.6.2).
    first_sample: Time,
    probes: u32,
}

impl Part for PacketNumber {
    type Config = Plain;
    const FORMS: &'static [Form<Plain>] = &[Form {
        words: Words {
            name: "packet-number",
            what: "each transmission has a number: lost once one sent three later, or 9/8 RTT, is \
                acknowledged; probes",
            source: "RFC 9002 section 6",
        },
        config: Plain,
    }];
    fn gives(_: &Plain) -> &'static [Ability] {
        &[Ability::TransmissionNumbers]
    }
}

impl RecoveryPart for PacketNumber {
    fn new(_: &Plain, endpoint: &EndpointConfig) -> Self {
        PacketNumber {
            threshold: u64::from(endpoint.dupack_threshold),
            max_ack_delay: endpoint.delayed_acks.unwrap_or(Duration::ZERO),
            sent: VecDeque::new(),
            base: 1,
            in_flight: 0,
            largest_acked: 0,
            data: VecDeque::new(),
            data_base: 0,
            arrived: RangeSet::default(),
            lost: VecDeque::new(),
            recovery_start: 1,
            suspects: Vec::new(),
            loss_time: Time::NEVER,
            last_sent: Time::ZERO,
            timeout: Duration::ZERO,
            first_sample: Time::NEVER,
            probes: 0,
        }
    }
}

impl Recovery for PacketNumber {
    fn on_ack(&mut self, seqs: &Sequences, acked: &Acked<'_>, report: &mut RecoveryReport) {
        report.clear_numbers();
        if self.is_as_expected(seqs, acked) {
            self.on_expected(acked, report);
        } else {
            self.on_other(seqs, acked, report);
        }
        self.timeout = acked.rtt.backed_off(self.probe_timeout(acked.rtt));
    }
    /// Handles the timer of RFC 9002 (appendix A.9): losses become certain, or probes are due.
    fn on_timer(&mut self, _: &mut Sequences, expired: Expired<'_>, report: &mut RecoveryReport) {
        let Expired { now, rtt, .. } = expired;
        report.clear_numbers();
        self.last_sent = now; // Retransmissions of lost packets, and probes, are sent at once.
        if self.loss_time <= now {
            self.detect(now, rtt, report);
        } else {
            // The probe timeout expired (section 6.2.4).
            self.probes = PROBES;
            report.timed_out = true;
            rtt.back_off();
            self.timeout = rtt.backed_off(self.probe_timeout(rtt));
        }
        report.numbers().count(self.in_flight, self.base);
    }

    /// RFC 9002 appendix A.8.
    #[inline]
    fn next_timer(&self, _: &RttEstimator) -> Time {
        if self.loss_time != Time::NEVER {
            self.loss_time
        } else if self.in_flight > 0 {
            self.last_sent + self.timeout
        } else {
            Time::NEVER
        }
    }

    fn next_to_send(&mut self, seqs: &mut Sequences, cwnd: f64) -> Option<u64> {
        if self.probes > 0 {
            self.probes -= 1;
            let probe = self.probe(seqs);
            if probe.is_none() {
                self.probes = 0;
            }
            return probe;
        }
        if !fits(self.in_flight, cwnd) {
            return None;
        }
        self.next_lost().or_else(|| seqs.allows_next().then_some(seqs.next))
    }

    fn on_sent(&mut self, _: &Sequences, sent: &Sent<'_>) {
        let Sent { seq, packet_seq, now, rtt, .. } = *sent;
        debug_assert_eq!(self.base + self.sent.len() as u64, packet_seq);
        let slot = (seq - self.data_base) as usize;
        let earlier = match self.data.get_mut(slot) {
            Some(latest) => std::mem::replace(latest, packet_seq),
            None => {
                debug_assert_eq!(slot, self.data.len(), "new data is sent in order");
                self.data.push_back(packet_seq);
                0
            }
        };
        let earlier =
            if self.transmission(earlier).is_some_and(|t| t.in_flight) { earlier } else { 0 };
        self.sent.push_back(Transmission { seq, sent: now, in_flight: true, earlier });
        self.in_flight += 1;
        self.last_sent = now;
        if self.timeout.is_zero() {
            self.timeout = rtt.backed_off(self.probe_timeout(rtt));
        }
    }

    fn in_flight(&self, _: &Sequences) -> u64 {
        self.in_flight
    }
    fn in_recovery(&self) -> bool {
        self.largest_acked < self.recovery_start && self.recovery_start > 1
    }
    /// RFC 9002 section 5.1.
    fn samples_rtt(&self, number: u64) -> bool {
        number > self.largest_acked
    }
    fn is_probing(&self) -> bool {
        self.probes > 0
    }
    fn has_repaired_all(&self) -> bool {
        self.lost.is_empty()
    }
}

impl PacketNumber {
    /// True if an acknowledgment covers the oldest transmission in flight and its data, the only
    /// data missing before the next packet, and nothing else. Most acknowledgments do.
    #[inline]
    fn is_as_expected(&self, seqs: &Sequences, acked: &Acked<'_>) -> bool {
        acked.packet_seq() == self.base
            && self.largest_acked < self.base
            && acked.newly() == 1
            && acked.is_cumulative()
            && self.data_base + 1 == seqs.una
            && self.data.front() == Some(&self.base)
            && self.sent.front().is_some_and(|oldest| oldest.earlier == 0)
            && self.arrived.is_empty()
    }

    /// [`Recovery::on_ack`] without losses to detect and transmissions to withdraw.
    #[inline]
    fn on_expected(&mut self, acked: &Acked<'_>, report: &mut RecoveryReport) {
        let number = self.base;
        self.largest_acked = number;
        if self.first_sample == Time::NEVER {
            self.first_sample = acked.now();
        }
        self.data.pop_front();
        self.data_base += 1;
        self.in_flight -= 1;
        self.sent.pop_front();
        self.base += 1;
        self.forget_resolved();
        self.loss_time = Time::NEVER;
        let numbers = report.numbers();
        numbers.delivered.push(number);
        numbers.count(self.in_flight, self.base);
        report.delivered = 1;
    }

    /// Handles any other acknowledgment.
    #[inline(never)]
    fn on_other(&mut self, seqs: &Sequences, acked: &Acked<'_>, report: &mut RecoveryReport) {
        self.largest_acked = self.largest_acked.max(acked.packet_seq());
        if self.first_sample == Time::NEVER {
            self.first_sample = acked.now();
        }
        self.deliver_echoed(acked.packet_seq(), report);
        while self.data_base < seqs.una {
            let latest = self.data.pop_front().unwrap_or(ARRIVED);
            self.data_base += 1;
            self.on_arrival(latest, acked.packet_seq(), report);
        }
        self.arrived.remove_below(seqs.una);
        for block in acked.sack() {
            if block.start >= block.end || block.end > seqs.high || block.start < seqs.una {
                continue;
            }
            let mut seq = self.arrived.next_missing(block.start);
            while seq < block.end {
                let slot = (seq - self.data_base) as usize;
                let latest = std::mem::replace(&mut self.data[slot], ARRIVED);
                self.on_arrival(latest, acked.packet_seq(), report);
                seq = self.arrived.next_missing(seq + 1);
            }
            self.arrived.insert(*block, 0);
        }
        report.delivered = report.numbers().delivered();
        self.detect(acked.now(), acked.rtt, report);
        report.numbers().count(self.in_flight, self.base);
    }

    /// Removes transmissions from the front until the first is in flight.
    #[inline]
    fn forget_resolved(&mut self) {
        while self.sent.front().is_some_and(|t| !t.in_flight) {
            self.sent.pop_front();
            self.base += 1;
        }
    }

    /// RFC 9002 section 6.2.1, without back-off.
    fn probe_timeout(&self, rtt: &RttEstimator) -> Duration {
        rtt.probe_timeout().max(rtt.srtt() + GRANULARITY) + self.max_ack_delay
    }

    fn transmission(&mut self, number: u64) -> Option<&mut Transmission> {
        let at = number.checked_sub(self.base)?;
        self.sent.get_mut(at as usize)
    }

    /// The latest transmission of data that is not cumulatively acknowledged, or [`ARRIVED`].
    fn latest(&self, seq: u64) -> Option<u64> {
        let at = seq.checked_sub(self.data_base)?;
        self.data.get(at as usize).copied()
    }

    /// Takes a transmission out of the network and returns it, if it was in flight.
    fn resolve(&mut self, number: u64) -> Option<Transmission> {
        let transmission = self.transmission(number).filter(|t| t.in_flight)?;
        transmission.in_flight = false;
        let resolved = *transmission;
        self.in_flight -= 1;
        Some(resolved)
    }

    /// Marks the transmission that triggered the acknowledgment as delivered.
    fn deliver_echoed(&mut self, number: u64, report: &mut RecoveryReport) {
        let Some(transmission) = self.resolve(number) else {
            if let Some(at) = self.suspects.iter().position(|suspect| *suspect == number) {
                self.suspects.swap_remove(at);
                report.numbers().spurious = self.suspects.is_empty();
            }
            return;
        };
        report.numbers().delivered.push(number);
        let Some(slot) = transmission.seq.checked_sub(self.data_base) else { return };
        let latest = std::mem::replace(&mut self.data[slot as usize], ARRIVED);
        // The echoed packet has left the network already.
        self.withdraw(if latest == number { transmission.earlier } else { latest });
    }

    /// Handles the arrival of data whose latest transmission is `latest`.
    fn on_arrival(&mut self, latest: u64, echoed: u64, report: &mut RecoveryReport) {
        if latest == ARRIVED {
            return;
        }
        if latest <= echoed && self.transmission(latest).is_some_and(|t| t.in_flight) {
            report.numbers().delivered.push(latest);
        } else {
            report.numbers().unattributed += 1;
        }
        self.withdraw(latest);
    }

    /// Withdraws all transmissions of the data last sent as `latest`.
    fn withdraw(&mut self, latest: u64) {
        let mut number = latest;
        while number != 0 {
            self.resolve(number);
            number = self.transmission(number).map_or(0, |t| t.earlier);
        }
    }

    /// RFC 9002 section 6.1 and appendix A.10.
    fn detect(&mut self, now: Time, rtt: &RttEstimator, report: &mut RecoveryReport) {
        let delay = || rtt.srtt().max(rtt.latest()).mul_f64(TIME_THRESHOLD).max(GRANULARITY);
        self.loss_time = Time::NEVER;
        let mut run: Option<Time> = None;
        let mut at = 0;
        while let Some(&transmission) = self.sent.get(at) {
            let number = self.base + at as u64;
            at += 1;
            if number >= self.largest_acked {
                break;
            }
            if !transmission.in_flight {
                run = None;
                continue;
            }
            let due = transmission.sent + delay();
            if self.largest_acked < number + self.threshold && due > now {
                self.loss_time = due; // Those after it are due later.
                break;
            }
            self.resolve(number);
            report.numbers().lose(number, transmission.seq);
            if transmission.sent > self.first_sample {
                let since = *run.get_or_insert(transmission.sent);
                let spread = transmission.sent.since(since);
                let timeout = self.probe_timeout(rtt);
                let persistent = timeout.saturating_mul(PERSISTENT_CONGESTION_THRESHOLD);
                report.numbers().persistent_congestion |= spread > persistent;
            }
            if self.latest(transmission.seq) == Some(number) {
                self.lost.push_back(transmission.seq);
            }
        }
        self.forget_resolved();
        let last = report.numbers().lost.last().copied();
        let reduces = last.is_some_and(|last| last >= self.recovery_start);
        if reduces {
            self.recovery_start = self.base + self.sent.len() as u64;
            self.suspects.clear();
        }
        self.suspects.extend_from_slice(&report.numbers().lost);
        report.lost = report.numbers().lost.len() as u64;
        if reduces {
            report.finding = Finding::Loss;
        }
    }

    /// The data of a probe: data known to be lost, new data, or the oldest in flight.
    fn probe(&mut self, seqs: &Sequences) -> Option<u64> {
        if let Some(seq) = self.next_lost() {
            return Some(seq);
        }
        if seqs.allows_next() {
            return Some(seqs.next);
        }
        let mut numbers = (self.base..).zip(&self.sent);
        let oldest = numbers.find(|(number, t)| t.in_flight && self.latest(t.seq) == Some(*number));
        oldest.map(|(_, t)| t.seq)
    }

    fn next_lost(&mut self) -> Option<u64> {
        while let Some(seq) = self.lost.pop_front() {
            if self.latest(seq).is_some_and(|number| number != ARRIVED) {
                return Some(seq);
            }
        }
        None
    }
}
