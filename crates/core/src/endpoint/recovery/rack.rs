//! RACK-TLP (RFC 8985) with proportional rate reduction (RFC 9937), as in Linux.
//!
//! A packet is lost once a later one has arrived, if it was sent earlier than the round trip of
//! that one plus a reordering window ago; a lost retransmission is found like any other loss. Until
//! reordering was seen, the reordering window is zero in recovery, or once dupackthreshold packets
//! have arrived out of order. If acknowledgments stop in the open state, a probe is sent after two
//! round trips; the retransmission timeout follows it.
//!
//! In recovery, arriving packets limit the packets sent, so that the flight is reduced to ssthresh
//! (here: cwnd, which the controller has reduced already) in proportion:
//!
//! ```text
//! flight > ssthresh:  sndcnt = ceil(prr_delivered ssthresh / RecoverFS) - prr_out
//! else:               sndcnt = min(ssthresh - flight,
//!                                  max(prr_delivered - prr_out, delivered) + SafeACK)
//! ```
//!
//! From Linux and not the RFCs: the retransmission timeout is SRTT + max(4 RTTVAR, `rto_floor`), so
//! that it always exceeds the round trip by at least the floor. A timeout marks as lost the packets
//! sent more than a round trip ago. After a first timeout new data is sent before old, to detect a
//! spurious one (F-RTO, RFC 5682 section 3.1, without the return to the old window). The state
//! after a timeout ends in recovery if a retransmission is lost. An ECN mark reduces the flight in
//! the same proportion (RFC 9937 section 5; Linux: CWR). SACK blocks of acknowledgments that were
//! overtaken count. The reordering that is reported is that of Linux: the greatest distance, in
//! packets, between data that arrived late and the highest data that arrived before it.
//!
//! Without SACK (`rack.sack = false`) duplicate ACKs stand for arrivals, and losses are found as in
//! RFC 6582: the first missing packet at dupackthreshold duplicates, and at each partial ACK of
//! recovery. RFC 8985 section 3.1 requires SACK, so that there is neither detection by time nor a
//! tail probe then.
//!
//! Not implemented: every undo (Eifel, DSACK, F-RTO). The minimum RTT is that of the connection and
//! not of five minutes.

use std::collections::{BTreeSet, VecDeque};

use super::{
    Acked, Expired, Finding, Recovery, RecoveryPart, RecoveryReport, RepairState, Scoreboard, Sent,
    Sequences,
};
use crate::endpoint::EndpointConfig;
use crate::endpoint::estimator::RttEstimator;
use crate::endpoint::range_set::RangeSet;
use crate::packet::SackBlock;
use crate::part::{Ability, Form, Part, ValueKind, Words};
use crate::units::{Duration, Time};

/// The reordering that Linux reports at most (net.ipv4.tcp_max_reordering).
const MOST_REORDERING: u64 = 300;

crate::parameters! {
    /// Parameters of RACK-TLP.
    #[derive(Eq)]
    pub struct RackConfig in "rack", "parameters of rack";
    /// The values of RFC 8985.
    pub const DEFAULT;
    /// RFC 2018.
    sack: bool = true,
        ValueKind::Bool, "", "losses are found by SACK blocks; else by duplicate ACKs (RFC 6582)";
    /// Section 7.
    tail_probes: bool = true,
        ValueKind::Bool, "", "probe after two round trips without an ACK (RFC 8985)";
}

/// TCP_TIMEOUT_MIN: the time that Linux adds to timers because of its clock ticks.
const TICKS: Duration = Duration::from_millis(2);
/// Recoveries for which a widened reordering window lasts (RFC 8985 section 6.2, step 4).
const PERSISTENCE: u32 = 16;

/// Value in place of a transmission's number for data that has arrived. Numbers start at 1.
const ARRIVED: u64 = 0;

#[derive(Debug, Clone, Copy)]
struct Transmission {
    seq: u64,
    sent: Time,
    /// True if it is the latest one of data that has neither arrived nor been lost.
    in_flight: bool,
}

#[derive(Debug, Clone, Copy)]
struct Datum {
    /// Its latest transmission, or [`ARRIVED`].
    number: u64,
    /// The time of that transmission.
    sent: Time,
    resent: bool,
    /// True if it was ever found lost.
    lost: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RackPhase {
    Open,
    /// Reduction of the window until this packet is acknowledged.
    Recovery {
        until: u64,
    },
    /// Reduction after an ECN mark until this packet is acknowledged.
    Reduced {
        until: u64,
    },
    /// Repair after a timeout until this packet is acknowledged; the window grows meanwhile.
    AfterTimeout {
        until: u64,
        /// True if the timeout may still have been spurious.
        doubtful: bool,
    },
}

/// Proportional rate reduction (RFC 9937 section 6).
#[derive(Debug, Clone, Copy, Default)]
struct Reduction {
    /// The window before (RFC 9937: RecoverFS).
    prior: u64,
    delivered: u64,
    sent: u64,
    /// The acknowledgment not yet included in the bound: packets delivered, and whether una
    /// advanced without a new loss (SafeACK).
    news: Option<(u64, bool)>,
    /// The maximum number of packets in flight.
    window: u64,
}

impl Reduction {
    fn of(prior: f64) -> Self {
        Reduction { prior: (prior as u64).max(1), ..Reduction::default() }
    }

    fn hear(&mut self, delivered: u64, safe: bool) {
        let (before, _) = self.news.unwrap_or_default();
        self.news = Some((before + delivered, safe));
    }

    /// The packets that may be in flight, with `flight` now.
    fn window(&mut self, flight: u64, ssthresh: u64) -> u64 {
        if let Some((delivered, safe)) = self.news.take()
            && delivered > 0
        {
            self.delivered += delivered;
            let more = if flight > ssthresh {
                (self.delivered * ssthresh).div_ceil(self.prior).saturating_sub(self.sent)
            } else {
                let bound = self.delivered.saturating_sub(self.sent).max(delivered);
                (bound + u64::from(safe)).min(ssthresh - flight)
            };
            // The first retransmission is sent regardless of the bound.
            self.window = flight + more.max(u64::from(self.sent == 0));
        }
        self.window
    }
}

/// The state of RACK-TLP.
#[derive(Debug)]
pub struct Rack {
    config: RackConfig,
    threshold: u64,
    rto_floor: Duration,
    /// Transmissions by number from `base` on; the first is in flight.
    sent: VecDeque<Transmission>,
    base: u64,
    in_flight: u64,
    /// Data not cumulatively acknowledged, from `data_base` on.
    data: VecDeque<Datum>,
    data_base: u64,
    arrived: RangeSet,
    /// Without SACK: the duplicates that stand for arrivals.
    duplicates: u64,
    /// Packets to retransmit, lowest first.
    lost: BTreeSet<u64>,
    phase: RackPhase,
    reduction: Reduction,
    /// The congestion window at the latest acknowledgment.
    cwnd: f64,
    /// The transmission sent last of those delivered (RFC 8985: RACK.xmit_ts), and the round trip
    /// of the data that was found delivered last (RACK.rtt).
    newest: u64,
    newest_rtt: Duration,
    reordering: Reordering,
    tail: TailProbe,
    /// True if the first lost packet is to be sent regardless of the window.
    force: bool,
    /// True if new data is sent before old.
    prefers_new: bool,
    timers: Timers,
}

/// The reordering of the path, and the window that allows for it.
#[derive(Debug)]
struct Reordering {
    /// The number of packets that arrived late, by ACK; RFC 8985: RACK.reordering_seen.
    count: u64,
    /// The greatest distance of reordering, packets; dupackthreshold before.
    distance: u64,
    /// The lowest data of the present ACK that was overtaken.
    lowest_late: Option<u64>,
    /// RFC 8985: RACK.reo_wnd_mult, and the number of recoveries for which it lasts.
    steps: u32,
    persists: u32,
    /// The next packet when the window was last widened.
    widened_at: u64,
}

/// The probe of a tail.
#[derive(Debug, Default)]
struct TailProbe {
    /// The end of the single probe, and whether it repeats data.
    probe: Option<(u64, bool)>,
    is_probing: bool,
}

/// The instants at which the timers are due.
#[derive(Debug)]
struct Timers {
    reordering: Time,
    probe: Time,
    timeout: Time,
    timeouts_in_a_row: u32,
}

/// Facts about the deliveries of an acknowledgment that the report does not have.
#[derive(Debug, Default)]
struct Delivery {
    /// True if it reported data that arrived out of order.
    selective: bool,
    /// The earliest sending time of delivered data that was sent only once.
    earliest: Option<Time>,
}

impl Part for Rack {
    type Config = RackConfig;
    const FORMS: &'static [Form<RackConfig>] = &[Form {
        words: Words {
            name: "rack",
            what: "lost once overtaken, a round trip and a reordering window after transmission; \
                tail probes; proportional rate reduction",
            source: "RFC 8985, RFC 9937",
        },
        config: RackConfig::DEFAULT,
    }];
    const READS: &'static [&'static str] = &["rto_floor"];
    fn gives(_: &RackConfig) -> &'static [Ability] {
        &[Ability::TransmissionNumbers]
    }
}

impl RecoveryPart for Rack {
    fn new(config: &RackConfig, endpoint: &EndpointConfig) -> Self {
        Rack {
            config: *config,
            threshold: u64::from(endpoint.dupack_threshold),
            rto_floor: endpoint.rto_floor,
            sent: VecDeque::new(),
            base: 1,
            in_flight: 0,
            data: VecDeque::new(),
            data_base: 0,
            arrived: RangeSet::default(),
            duplicates: 0,
            lost: BTreeSet::new(),
            phase: RackPhase::Open,
            reduction: Reduction::default(),
            cwnd: endpoint.initial_window,
            newest: 0,
            newest_rtt: Duration::ZERO,
            reordering: Reordering {
                count: 0,
                distance: u64::from(endpoint.dupack_threshold),
                lowest_late: None,
                steps: 1,
                persists: 0,
                widened_at: 0,
            },
            tail: TailProbe::default(),
            force: false,
            prefers_new: false,
            timers: Timers {
                reordering: Time::NEVER,
                probe: Time::NEVER,
                timeout: Time::NEVER,
                timeouts_in_a_row: 0,
            },
        }
    }
}

impl Recovery for Rack {
    fn on_ack(&mut self, seqs: &Sequences, acked: &Acked<'_>, report: &mut RecoveryReport) {
        report.clear_numbers();
        let advances = acked.newly() > 0;
        if advances {
            self.timers.timeouts_in_a_row = 0;
        }
        self.cwnd = acked.event.path.cwnd;
        self.widen(seqs, acked.sack());
        let delivery = self.deliver(seqs, acked, report);
        if !self.config.sack {
            report.delivered = self.count_duplicates(seqs, acked.newly());
        }
        self.end_phase(seqs);
        let tail_lost = self.end_probe(seqs, advances, &delivery);
        let delay = match self.config.sack {
            true => self.detect(acked.now(), acked.rtt, report),
            false => self.lose_first(seqs, advances, report),
        };
        let resent_lost = self.take_lost(report);
        self.doubt(seqs, advances, &delivery);

        let starts = match self.phase {
            RackPhase::Open | RackPhase::Reduced { .. } => !self.lost.is_empty(),
            RackPhase::Recovery { .. } => false,
            RackPhase::AfterTimeout { .. } => resent_lost,
        };
        if starts && self.enter_recovery(seqs) || tail_lost {
            report.finding = Finding::Loss;
        }
        report.numbers().raises =
            !self.is_reducing() && (advances || self.reordering.distance > self.threshold);
        if self.is_reducing() {
            self.reduction.hear(report.delivered, advances && report.lost == 0);
        }
        self.set_timers(seqs, acked, &delivery, delay);
        report.numbers().count(self.flight(), self.base);
    }

    fn on_timer(
        &mut self,
        seqs: &mut Sequences,
        expired: Expired<'_>,
        report: &mut RecoveryReport,
    ) {
        report.clear_numbers();
        let Expired { now, rtt, .. } = expired;
        if self.timers.reordering <= now {
            self.timers.reordering = Time::NEVER;
            self.detect(now, rtt, report);
            self.take_lost(report);
            if report.lost > 0 {
                if !matches!(self.phase, RackPhase::Recovery { .. }) && self.enter_recovery(seqs) {
                    report.finding = Finding::Loss;
                }
                self.reduction.hear(1, false);
            }
            let since = self.oldest_sent(seqs).unwrap_or(now);
            self.timers.timeout = (since + self.timeout(rtt)).max(now + TICKS);
        } else if self.timers.probe <= now {
            self.tail.is_probing = true;
            self.timers.probe = Time::NEVER;
            self.timers.timeout = now + self.timeout(rtt).max(TICKS);
        } else if self.timers.timeout <= now {
            self.time_out(seqs, now, rtt, report);
        }
        report.numbers().count(self.flight(), self.base);
    }

    #[inline]
    fn next_timer(&self, _: &RttEstimator) -> Time {
        self.timers.timeout.min(self.timers.probe).min(self.timers.reordering)
    }

    fn means_silence(&self, now: Time) -> bool {
        self.timers.timeout <= now && self.timers.probe > now && self.timers.reordering > now
    }

    fn next_to_send(&mut self, seqs: &mut Sequences, cwnd: f64) -> Option<u64> {
        let new = seqs.allows_next().then_some(seqs.next);
        if std::mem::take(&mut self.force)
            && let Some(seq) = self.lost.first()
        {
            return Some(*seq);
        }
        if std::mem::take(&mut self.tail.is_probing) {
            // RFC 8985 section 7.3: new data, or else the last of the old.
            let seq = new.or_else(|| self.last_missing(seqs));
            self.tail.probe = seq.map(|seq| (seqs.next.max(seq + 1), seq < seqs.next));
            return seq;
        }
        let flight = self.flight();
        let window = match self.is_reducing() {
            true => self.reduction.window(flight, cwnd as u64),
            false => cwnd as u64,
        };
        if flight >= window {
            return None;
        }
        let old = self.lost.first().copied();
        if self.prefers_new { new.or(old) } else { old.or(new) }
    }

    fn on_sent(&mut self, seqs: &Sequences, sent: &Sent<'_>) {
        let Sent { seq, packet_seq, now, rtt, .. } = *sent;
        debug_assert_eq!(self.base + self.sent.len() as u64, packet_seq);
        let slot = (seq - self.data_base) as usize;
        match self.data.get_mut(slot) {
            Some(datum) => {
                let earlier = std::mem::replace(&mut datum.number, packet_seq);
                datum.sent = now;
                datum.resent = true;
                self.withdraw(earlier);
                self.lost.remove(&seq);
            }
            None => {
                debug_assert_eq!(slot, self.data.len(), "new data is sent in order");
                self.data.push_back(Datum {
                    number: packet_seq,
                    sent: now,
                    resent: false,
                    lost: false,
                });
            }
        }
        self.sent.push_back(Transmission { seq, sent: now, in_flight: true });
        self.in_flight += 1;
        if self.is_reducing() {
            self.reduction.sent += 1;
        }
        if self.timers.timeout == Time::NEVER {
            self.timers.timeout = now + self.timeout(rtt).max(TICKS);
        } else if seq == seqs.una && sent.again && self.timers.reordering == Time::NEVER {
            self.timers.timeout = now + self.timeout(rtt).max(TICKS);
            self.timers.probe = Time::NEVER;
        }
        if !sent.again {
            self.set_probe(seqs.next + 1 - seqs.una, now, rtt);
        }
    }

    fn in_flight(&self, _: &Sequences) -> u64 {
        self.flight()
    }
    fn in_recovery(&self) -> bool {
        self.is_reducing()
    }
    fn on_mark(&mut self, delivered: u64, advances: bool) {
        if self.phase == RackPhase::Open {
            self.phase = RackPhase::Reduced { until: self.data_base + self.data.len() as u64 };
            self.reduction = Reduction::of(self.cwnd);
            self.reduction.hear(delivered, advances);
        }
    }
    fn reads_overtaken(&self) -> bool {
        self.config.sack
    }
    fn scoreboard(&self, cwnd: f64) -> Option<Scoreboard> {
        let missing = self.data.iter().filter(|datum| datum.number != ARRIVED);
        // A probe is no retransmission (Linux: tcp_send_loss_probe).
        let is_repair = |datum: &Datum| datum.resent && datum.lost;
        let again = self.sent.iter().filter(|t| {
            t.in_flight && self.data.get((t.seq - self.data_base) as usize).is_some_and(is_repair)
        });
        let arrived = self.arrived.count_from(self.data_base) + self.duplicates;
        let lost = missing.filter(|datum| datum.lost).count() as u64;
        let state = match self.phase {
            RackPhase::Open if arrived + lost > 0 => RepairState::Disorder,
            RackPhase::Open => RepairState::Open,
            RackPhase::Reduced { .. } => RepairState::Reduced,
            RackPhase::Recovery { .. } => RepairState::Recovery,
            RackPhase::AfterTimeout { .. } => RepairState::Loss,
        };
        Some(Scoreboard {
            state,
            arrived,
            lost,
            resent: again.count() as u64,
            reordering: self.reordering.distance,
            reorderings: self.reordering.count,
            window: self.window(cwnd),
        })
    }
    fn window(&self, cwnd: f64) -> u64 {
        let mut reduction = self.reduction;
        match self.is_reducing() {
            true => reduction.window(self.flight(), cwnd as u64),
            false => cwnd as u64,
        }
    }
    fn deems_lost(&self, seq: u64) -> bool {
        let at = seq.checked_sub(self.data_base);
        at.and_then(|at| self.data.get(at as usize)).is_some_and(|datum| datum.lost)
    }
    /// Linux takes a sample from data that arrives out of order and was sent later than all earlier
    /// deliveries.
    fn samples_rtt(&self, number: u64) -> bool {
        number > self.newest
    }
    fn is_probing(&self) -> bool {
        self.tail.is_probing
    }
    fn has_repaired_all(&self) -> bool {
        self.lost.is_empty()
    }
}

impl Rack {
    /// Packets in the network.
    fn flight(&self) -> u64 {
        self.in_flight.saturating_sub(self.duplicates)
    }

    /// True while the flight is reduced in proportion.
    fn is_reducing(&self) -> bool {
        matches!(self.phase, RackPhase::Recovery { .. } | RackPhase::Reduced { .. })
    }

    /// Without SACK: counts a duplicate ACK as an arrival, and what an ACK of `newly` packets
    /// leaves of earlier ones. One of these packets filled the gap; the others were counted by
    /// their duplicates (Linux: tcp_remove_reno_sacks). Returns the packets delivered.
    fn count_duplicates(&mut self, seqs: &Sequences, newly: u64) -> u64 {
        if newly == 0 {
            let gaps = (self.lost.len() as u64).max(1);
            let more = self.duplicates + gaps < seqs.outstanding();
            self.duplicates += u64::from(more);
            return u64::from(more);
        }
        let delivered = newly.saturating_sub(self.duplicates).max(1);
        self.duplicates = self.duplicates.saturating_sub(newly - 1);
        if seqs.outstanding() == 0 || self.phase == RackPhase::Open {
            self.duplicates = 0;
        }
        delivered
    }

    /// Without SACK: the first missing packet is lost at dupackthreshold duplicates (RFC 5681), and
    /// at each partial ACK of recovery (RFC 6582 section 3.2, step 3).
    fn lose_first(
        &mut self,
        seqs: &Sequences,
        advances: bool,
        report: &mut RecoveryReport,
    ) -> Option<Duration> {
        let lost = match self.phase {
            RackPhase::Open | RackPhase::Reduced { .. } => self.duplicates >= self.threshold,
            RackPhase::Recovery { .. } => advances,
            RackPhase::AfterTimeout { .. } => false,
        };
        if lost && let Some(number) = self.data.front().map(|datum| datum.number) {
            if self.data[0].lost {
                return None; // Retransmitted already.
            }
            self.withdraw(number);
            report.numbers().lose(number, seqs.una);
            // It is sent on the partial ACK, whatever the window.
            self.force = self.is_reducing();
        }
        None
    }

    /// RFC 6298 with Linux's variance, which is never below the floor.
    fn timeout(&self, rtt: &RttEstimator) -> Duration {
        let srtt = rtt.srtt();
        let least = if srtt.is_zero() { Duration::ZERO } else { srtt + self.rto_floor };
        rtt.backed_off(rtt.base_rto().max(least))
    }

    fn transmission(&mut self, number: u64) -> Option<&mut Transmission> {
        let at = number.checked_sub(self.base)?;
        self.sent.get_mut(at as usize)
    }

    /// Takes a transmission out of the network, if it is there.
    fn withdraw(&mut self, number: u64) -> Option<Transmission> {
        let transmission = self.transmission(number).filter(|t| t.in_flight)?;
        transmission.in_flight = false;
        let withdrawn = *transmission;
        self.in_flight -= 1;
        Some(withdrawn)
    }

    /// The time of the latest transmission of the first missing packet, if it is in flight.
    fn oldest_sent(&self, seqs: &Sequences) -> Option<Time> {
        let at = seqs.una.checked_sub(self.data_base)?;
        let number = self.data.get(at as usize)?.number;
        let at = number.checked_sub(self.base)?;
        self.sent.get(at as usize).map(|t| t.sent)
    }

    /// Widens the reordering window for a reported duplicate, at most once per round trip, and
    /// resets it after some recoveries without one (RFC 8985 section 6.2, step 4).
    fn widen(&mut self, seqs: &Sequences, sack: &[SackBlock]) {
        let [first, rest @ ..] = sack else { return };
        let inside = |outer: &SackBlock| outer.start <= first.start && first.end <= outer.end;
        let duplicate = first.end <= seqs.una || rest.first().is_some_and(inside);
        if duplicate && seqs.una >= self.reordering.widened_at {
            self.reordering.widened_at = seqs.next;
            self.reordering.steps = (self.reordering.steps + 1).min(255);
            self.reordering.persists = PERSISTENCE;
        }
    }

    /// Handles the data that an acknowledgment reports as arrived.
    fn deliver(
        &mut self,
        seqs: &Sequences,
        acked: &Acked<'_>,
        report: &mut RecoveryReport,
    ) -> Delivery {
        let mut delivery = Delivery::default();
        // Data below this that arrives now and was sent only once was reordered.
        let highest = self.arrived.end().unwrap_or(self.data_base);
        let late = self.reordering.count;
        self.reordering.lowest_late = None;
        while self.data_base < seqs.una {
            let Some(datum) = self.data.pop_front() else { break };
            let seq = self.data_base;
            self.data_base += 1;
            self.on_arrival(seq, datum, highest, acked, report);
        }
        self.data_base = self.data_base.max(seqs.una);
        self.arrived.remove_below(seqs.una);
        for block in acked.sack() {
            if block.start >= block.end || block.end > seqs.high || block.start < seqs.una {
                continue;
            }
            let mut seq = self.arrived.next_missing(block.start);
            while seq < block.end {
                let slot = (seq - self.data_base) as usize;
                let datum = self.data[slot];
                self.data[slot].number = ARRIVED;
                let sent = self.on_arrival(seq, datum, highest, acked, report);
                delivery.selective = true;
                if let Some(sent) = sent.filter(|_| !datum.resent) {
                    delivery.earliest = Some(delivery.earliest.map_or(sent, |t: Time| t.min(sent)));
                }
                seq = self.arrived.next_missing(seq + 1);
            }
            self.arrived.insert(*block, 0);
        }
        if let Some(seq) = self.reordering.lowest_late {
            self.reordering.count = late + 1; // Once an ACK.
            self.reordering.distance =
                self.reordering.distance.max((highest - seq).min(MOST_REORDERING));
        }
        report.delivered = report.numbers().delivered();
        delivery
    }

    /// Handles the arrival of data. Returns the time of its latest transmission, if it was in
    /// flight.
    fn on_arrival(
        &mut self,
        seq: u64,
        datum: Datum,
        highest: u64,
        acked: &Acked<'_>,
        report: &mut RecoveryReport,
    ) -> Option<Time> {
        if datum.number == ARRIVED {
            return None;
        }
        if !datum.resent && seq < highest {
            self.reordering.lowest_late =
                Some(self.reordering.lowest_late.map_or(seq, |lowest: u64| lowest.min(seq)));
        }
        self.lost.remove(&seq);
        // RFC 8985 section 6.2, step 2: an RTT shorter than any is that of an earlier transmission.
        let rtt = acked.now().since(datum.sent);
        if !datum.resent || rtt >= acked.rtt.min_rtt() {
            self.newest_rtt = rtt;
            self.newest = self.newest.max(datum.number);
        }
        let Some(transmission) = self.withdraw(datum.number) else {
            report.numbers().unattributed += 1;
            return None;
        };
        report.numbers().delivered.push(datum.number);
        Some(transmission.sent)
    }

    fn end_phase(&mut self, seqs: &Sequences) {
        match self.phase {
            RackPhase::Recovery { until } if seqs.una >= until => {
                if self.reordering.persists > 0 {
                    self.reordering.persists -= 1;
                } else {
                    self.reordering.steps = 1;
                }
            }
            RackPhase::AfterTimeout { until, .. } if seqs.una >= until => {}
            // CWR, on the first packet after it, has arrived (Linux).
            RackPhase::Reduced { until } if seqs.una > until => {}
            _ => return,
        }
        self.phase = RackPhase::Open;
        self.prefers_new = false;
    }

    /// RFC 8985 section 7.4. Returns true if a probe has repaired a loss.
    fn end_probe(&mut self, seqs: &Sequences, advances: bool, delivery: &Delivery) -> bool {
        let Some((until, repeats)) = self.tail.probe else { return false };
        if seqs.una < until {
            return false;
        }
        let lost = repeats && seqs.una > until;
        if lost || !repeats || !(advances || delivery.selective) {
            self.tail.probe = None;
        }
        lost && self.phase == RackPhase::Open
    }

    /// RFC 8985 section 6.2, step 4.
    fn reordering_window(&self, rtt: &RttEstimator, arrived: u64) -> Duration {
        let is_open = matches!(self.phase, RackPhase::Open | RackPhase::Reduced { .. });
        if self.reordering.count == 0 && (!is_open || arrived >= self.threshold) {
            return Duration::ZERO;
        }
        let window = Duration::from_ps(rtt.min_rtt().as_ps() / 4);
        window.saturating_mul(u64::from(self.reordering.steps)).min(rtt.srtt())
    }

    /// RFC 8985 section 6.2, step 5. Writes the lost packets into the report. Returns the time
    /// after which the remaining overtaken packets are lost, if there are any.
    fn detect(
        &mut self,
        now: Time,
        rtt: &RttEstimator,
        report: &mut RecoveryReport,
    ) -> Option<Duration> {
        let window = self.reordering_window(rtt, self.arrived.count_from(self.data_base));
        let mut delay = None;
        let mut at = 0;
        while let Some(&transmission) = self.sent.get(at) {
            let number = self.base + at as u64;
            at += 1;
            if number >= self.newest {
                break;
            }
            if !transmission.in_flight {
                continue;
            }
            let due = transmission.sent + self.newest_rtt + window;
            if due > now {
                delay = delay.max(Some(due.since(now)));
                continue;
            }
            self.withdraw(number);
            report.numbers().lose(number, transmission.seq);
        }
        delay
    }

    /// Schedules the lost packets for retransmission. Returns true if one of them was a
    /// retransmission.
    fn take_lost(&mut self, report: &mut RecoveryReport) -> bool {
        let mut resent = false;
        for number in &report.numbers().lost {
            // A peer may report the first missing packet, and say later that it is missing.
            let Some(seq) = self.transmission(*number).map(|sent| sent.seq) else { continue };
            let datum = &mut self.data[(seq - self.data_base) as usize];
            resent |= datum.resent;
            datum.lost = true;
            self.lost.insert(seq);
        }
        report.lost = report.numbers().lost.len() as u64;
        while self.sent.front().is_some_and(|t| !t.in_flight) {
            self.sent.pop_front();
            self.base += 1;
        }
        resent
    }

    /// F-RTO (RFC 5682 section 3.1): after the first acknowledgment that follows a timeout new data
    /// is sent, if there is any; if data then arrives out of order, the loss was real.
    fn doubt(&mut self, seqs: &Sequences, advances: bool, delivery: &Delivery) {
        self.prefers_new = false;
        let RackPhase::AfterTimeout { until, doubtful: true } = self.phase else { return };
        let mut phase = self.phase;
        if seqs.next > until {
            if delivery.selective || !advances {
                phase = RackPhase::AfterTimeout { until, doubtful: false };
            }
        } else if advances {
            let new = seqs.allows_next();
            phase = RackPhase::AfterTimeout { until: seqs.next, doubtful: new };
            self.prefers_new = new;
        }
        self.phase = phase;
    }

    /// Returns true if the window is to be reduced: a mark has not done so for these packets.
    fn enter_recovery(&mut self, seqs: &Sequences) -> bool {
        let reduces = !self.is_reducing();
        if reduces {
            self.reduction = Reduction::of(self.cwnd);
        }
        self.phase = RackPhase::Recovery { until: seqs.next };
        self.tail.probe = None;
        self.prefers_new = false;
        reduces
    }

    /// RFC 6298 section 5, with Linux's rule for the packets lost at a timeout.
    fn time_out(
        &mut self,
        seqs: &Sequences,
        now: Time,
        rtt: &mut RttEstimator,
        report: &mut RecoveryReport,
    ) {
        let repeated = match self.phase {
            RackPhase::Open => false,
            RackPhase::Recovery { .. } | RackPhase::Reduced { .. } => true,
            RackPhase::AfterTimeout { .. } => self.timers.timeouts_in_a_row > 0,
        };
        let doubtful = self.phase == RackPhase::Open || self.timers.timeouts_in_a_row > 0;
        self.timers.timeouts_in_a_row += 1;
        for at in 0..self.sent.len() {
            let Transmission { seq, sent, in_flight } = self.sent[at];
            if in_flight && (seq == seqs.una || sent + self.newest_rtt <= now) {
                let number = self.base + at as u64;
                self.withdraw(number);
                report.numbers().lose(number, seq);
            }
        }
        self.take_lost(report);
        self.duplicates = 0;
        self.phase = RackPhase::AfterTimeout { until: seqs.next, doubtful };
        self.tail.probe = None;
        self.prefers_new = false;
        self.force = true;
        report.timed_out = true;
        report.finding = Finding::Reset { repeated };
        rtt.back_off();
        self.timers.timeout = now + self.timeout(rtt).max(TICKS);
    }

    /// The highest packet that has not arrived.
    fn last_missing(&self, seqs: &Sequences) -> Option<u64> {
        (seqs.una..seqs.next).rev().find(|seq| self.arrived.range_of(*seq).is_none())
    }

    /// RFC 8985 section 7.2: sets the probe timer to two round trips, or to the timeout if that is
    /// earlier. `outstanding` packets are not acknowledged.
    fn set_probe(&mut self, outstanding: u64, now: Time, rtt: &RttEstimator) {
        let waits =
            self.phase == RackPhase::Open && self.arrived.is_empty() && self.lost.is_empty();
        let probes = self.config.sack && self.config.tail_probes;
        if !waits || !probes || self.tail.probe.is_some() || rtt.srtt().is_zero() {
            return;
        }
        // A single packet may wait for the receiver's delayed acknowledgment.
        let more = if outstanding == 1 { self.rto_floor } else { TICKS };
        let due = now + rtt.srtt().saturating_mul(2) + more;
        self.timers.probe = due.min(self.timers.timeout);
    }

    fn set_timers(
        &mut self,
        seqs: &Sequences,
        acked: &Acked<'_>,
        delivery: &Delivery,
        delay: Option<Duration>,
    ) {
        let now = acked.now();
        self.timers.reordering = Time::NEVER;
        if seqs.outstanding() == 0 {
            self.timers.timeout = Time::NEVER;
            self.timers.probe = Time::NEVER;
            return;
        }
        // The arrival of a packet sent before the first missing one postpones the timeout too.
        let earlier = delivery.earliest.zip(self.oldest_sent(seqs));
        if acked.newly() > 0 || earlier.is_some_and(|(sent, oldest)| sent < oldest) {
            self.timers.timeout = now + self.timeout(acked.rtt).max(TICKS);
            self.timers.probe = Time::NEVER;
            self.set_probe(seqs.outstanding(), now, acked.rtt);
        }
        if let Some(delay) = delay {
            self.timers.reordering = now + delay + TICKS;
            self.timers.probe = Time::NEVER;
        }
    }
}
