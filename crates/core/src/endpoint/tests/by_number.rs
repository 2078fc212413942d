//! Recovery by packet number against RFC 9002, and pacing.

use super::super::recovery::{
    Acked, Expired, Finding, Recovery, RecoveryConfig, RecoveryReport, RecoveryState, Sent,
    Sequences,
};
use super::path::TestPath;
use super::*;
use crate::endpoint::estimator::RttEstimator;
use crate::endpoint::event::{AckEvent, Path};
use crate::packet::{Packet, SackBlock};
use crate::part::Plain;

/// A scheme by itself, with a path whose round trips all take 100 ms.
pub(super) struct Scheme {
    recovery: RecoveryState,
    /// The window that acknowledgments tell of, packets.
    pub(super) cwnd: f64,
    seqs: Sequences,
    rtt: RttEstimator,
    numbers: u64,
    report: RecoveryReport,
}

impl Scheme {
    fn new(limit: u64) -> Self {
        Scheme::of(RecoveryConfig::PacketNumber(Plain), limit)
    }

    pub(super) fn of(kind: RecoveryConfig, limit: u64) -> Self {
        let second = Duration::from_secs(1);
        let mut rtt = RttEstimator::new(Duration::ZERO, second, Duration::from_secs(60), second);
        // RTTVAR falls by a quarter per sample: 50 ms x 0.75^40 is half a microsecond.
        for _ in 0..41 {
            rtt.on_sample(ms(0), ms(100));
        }
        Scheme {
            recovery: kind.make(&EndpointConfig::default()),
            cwnd: 0.0,
            seqs: Sequences { limit, rwnd: 1000, ..Sequences::default() },
            rtt,
            numbers: 0,
            report: RecoveryReport::default(),
        }
    }

    /// Sends the packets that `cwnd` allows, and returns their data.
    pub(super) fn send(&mut self, at: u64, cwnd: f64) -> Vec<u64> {
        let mut sent = Vec::new();
        while let Some(seq) = self.recovery.next_to_send(&mut self.seqs, cwnd) {
            self.numbers += 1;
            let (packet_seq, again) = (self.numbers, seq < self.seqs.high);
            let leaves = Sent { seq, packet_seq, now: ms(at), again, rtt: &self.rtt };
            self.recovery.on_sent(&self.seqs, &leaves);
            if seq == self.seqs.next {
                self.seqs.next += 1;
                self.seqs.high += 1;
            }
            sent.push(seq);
        }
        sent
    }

    /// The acknowledgment of transmission `number`; everything below `una` has arrived, and
    /// `sack` above it.
    pub(super) fn ack(&mut self, at: u64, number: u64, una: u64, sack: &[(u64, u64)]) -> Finding {
        let newly = una - self.seqs.una;
        self.seqs.una = una;
        let mut packet = Packet { sack_len: sack.len() as u8, ..Packet::default() };
        for (block, &(start, end)) in packet.sack.iter_mut().zip(sack) {
            *block = SackBlock { start, end };
        }
        let path = Path { now: ms(at), cwnd: self.cwnd, ..Path::default() };
        let event =
            AckEvent { path, newly_acked: newly, packet_seq: number, ..AckEvent::default() };
        let acked = Acked { event: &event, rtt: &self.rtt, packet: &packet, error: false };
        self.report.clear();
        self.recovery.on_ack(&self.seqs, &acked, &mut self.report);
        self.report.finding
    }

    pub(super) fn timer(&mut self, at: u64) -> Finding {
        self.report.clear();
        let expired = Expired { now: ms(at), rtt: &mut self.rtt, error: false };
        self.recovery.on_timer(&mut self.seqs, expired, &mut self.report);
        self.report.finding
    }

    pub(super) fn lost(&self) -> Vec<u64> {
        self.report.numbers.as_ref().map_or(Vec::new(), |numbers| numbers.lost.clone())
    }

    pub(super) fn deadline(&self) -> Time {
        self.recovery.next_timer(&self.rtt)
    }

    fn in_flight(&self) -> u64 {
        self.recovery.in_flight(&self.seqs)
    }
}

#[test]
fn a_packet_is_lost_once_one_sent_three_later_is_acknowledged() {
    let mut s = Scheme::new(100);
    // Data 0 to 9 as packets 1 to 10. Packet 1 is lost.
    assert_eq!(s.send(0, 10.0), (0..10).collect::<Vec<_>>());
    assert_eq!(s.ack(100, 2, 0, &[(1, 2)]), Finding::Nothing);
    assert_eq!(s.ack(100, 3, 0, &[(1, 3)]), Finding::Nothing);
    // RFC 9002 section 6.1.1: 4 - 1 >= kPacketThreshold.
    assert_eq!(s.ack(100, 4, 0, &[(1, 4)]), Finding::Loss);
    assert_eq!((s.lost(), s.in_flight()), (vec![1], 6));
    assert!(s.recovery.in_recovery());
    // It goes again first, as packet 11.
    assert_eq!(s.send(100, 10.0), [0, 10, 11, 12]);
    // The retransmission is lost too: packet 14 is three later. A TCP would time out.
    for number in 5..=10 {
        assert_eq!(s.ack(110, number, 0, &[(1, number)]), Finding::Nothing);
    }
    assert_eq!(s.send(110, 10.0).len(), 6);
    assert_eq!(s.ack(200, 12, 0, &[(1, 11)]), Finding::Nothing);
    assert!(!s.recovery.in_recovery(), "a packet sent after the reduction has arrived");
    assert_eq!(s.ack(200, 13, 0, &[(1, 12)]), Finding::Nothing);
    assert_eq!(s.ack(200, 14, 0, &[(1, 13)]), Finding::Loss, "sent after the last reduction");
    assert_eq!(s.lost(), [11]);
}

#[test]
fn lost_acknowledgments_are_made_up_for_by_later_ones() {
    let mut s = Scheme::new(100);
    s.send(0, 8.0);
    // Of the acknowledgments of 1 to 6 only the last arrives; 7 is a hole; 8 is seen by SACK.
    assert_eq!(s.ack(100, 6, 6, &[]), Finding::Nothing);
    assert_eq!((s.lost(), s.in_flight()), (vec![], 2));
    assert_eq!(s.ack(101, 8, 6, &[(7, 8)]), Finding::Nothing);
    assert_eq!(s.in_flight(), 1);
    assert_eq!((s.report.numbers().oldest, &s.report.numbers().delivered[..]), (7, &[8][..]));
}

#[test]
fn an_original_that_arrives_late_does_not_credit_its_retransmission() {
    let mut s = Scheme::new(100);
    s.send(0, 8.0);
    for number in [2, 3, 4] {
        s.ack(100, number, 0, &[(1, number)]);
    }
    assert_eq!(s.lost(), [1]);
    assert_eq!(s.send(100, 6.0), [0, 8]); // As packets 9 and 10.
    // Packet 1 arrives late. Packet 9 is in flight and gives no sample; it is not expected.
    s.ack(105, 1, 4, &[]);
    assert_eq!((s.report.numbers().unattributed, s.report.numbers().delivered.len()), (1, 0));
    assert!(s.report.numbers().spurious, "it was the only one taken for lost");
    assert_eq!(s.in_flight(), 5, "5 to 8 and 10");
}

#[test]
fn losses_are_spurious_when_all_of_them_arrive() {
    let mut s = Scheme::new(100);
    s.send(0, 8.0);
    // 1 and 2 are late: they are taken for lost when 4 and 5 are acknowledged.
    for number in [3, 4, 5] {
        s.ack(100, number, 0, &[(2, number)]);
    }
    let spurious = |s: &Scheme| s.report.numbers.as_ref().is_some_and(|n| n.spurious);
    assert_eq!(s.lost(), [2]);
    s.ack(100, 1, 1, &[(2, 5)]); // One of two.
    assert!(!spurious(&s));
    s.ack(100, 2, 5, &[]);
    assert!(spurious(&s));
    s.ack(100, 6, 6, &[]);
    assert!(!spurious(&s), "told once");
}

#[test]
fn silence_sends_probes_and_takes_nothing_for_lost() {
    let mut s = Scheme::new(4);
    assert_eq!(s.send(0, 4.0), [0, 1, 2, 3]);
    // RFC 9002 section 6.2.1: 100 ms + max(4 RTTVAR, 1 ms), with RTTVAR next to nothing.
    assert_eq!(s.deadline(), Time::ZERO + Duration::from_millis(101));
    assert_eq!(s.timer(101), Finding::Nothing);
    assert!(s.report.timed_out);
    // No new data: the two oldest, although the window is full. Nothing is lost.
    assert_eq!(s.send(101, 4.0), [0, 1]);
    assert_eq!((s.in_flight(), s.lost()), (6, vec![]));
    assert_eq!(s.deadline(), Time::ZERO + Duration::from_millis(101 + 202));
    // The probe of 0 arrives as packet 5. Packets sent at 0 are older than 9/8 round trips. Data 0
    // has arrived, so that packet 1 is neither expected nor lost, and data 1 is probed.
    assert_eq!(s.ack(201, 5, 1, &[]), Finding::Loss);
    assert_eq!((s.lost(), s.in_flight()), (vec![2, 3, 4], 1));
    assert_eq!(s.send(201, 4.0), [2, 3]);
}

#[test]
fn losses_over_three_probe_timeouts_are_persistent_congestion() {
    // RFC 9002 section 7.6.1: 3 x (100 + 1) ms = 303 ms between the first and the last lost.
    for (last, persistent) in [(303, false), (305, true)] {
        let mut s = Scheme::new(100);
        s.send(0, 1.0);
        s.ack(100, 1, 1, &[]); // The first sample: only packets sent later count.
        assert_eq!(s.send(101, 2.0), [1, 2]);
        assert_eq!(s.send(101 + last, 3.0), [3]);
        assert_eq!(s.send(500, 4.0), [4]);
        assert_eq!(s.ack(600, 5, 1, &[(4, 5)]), Finding::Loss);
        assert_eq!(s.lost(), [2, 3, 4]);
        assert_eq!(s.report.numbers().persistent_congestion, persistent, "{last} ms");
    }
}

#[test]
fn without_timestamps_numbers_still_tell_transmissions_apart() {
    let config = EndpointConfig { timestamps: false, ..window(2.0) };
    let mut line = Timeline::new("bbr", &config);
    line.sender.offer_until(1);
    let mut packet = Packet::default();
    assert!(line.sender.poll_transmit(Time::ZERO, &mut packet));
    let probe = line.sender.next_timer();
    line.sender.on_timer(probe);
    assert!(line.sender.poll_transmit(probe, &mut packet));
    assert!(packet.flags.contains(Flags::RETRANSMISSION));
    // The probe repeats the packet, and its acknowledgment is a sample (RFC 9002 section 4.2).
    let back = probe + Duration::from_millis(100);
    assert!(line.receiver.on_data(back, &mut packet));
    line.sender.on_ack(back, &packet);
    assert_eq!(line.sender.rtt().latest(), Duration::from_millis(100));
}

#[test]
fn late_timers_cost_a_paced_sender_no_rate() {
    // 10 Mbit/s of 1500-byte packets over 80 ms, for 20 s after a start-up of 10 s. A packet leaves
    // each 1.2 ms, and timers are up to 4 ms late: without credit the pacer would send a packet per
    // gap and lateness, less than half of the rate.
    let delivered = |late_us| {
        let mut path = TestPath::new("bbr", 10.0, 833, Duration::from_millis(80));
        path.queue = 66;
        path.lateness = Duration::from_micros(late_us);
        path.offer_until(u64::MAX);
        path.run(Duration::from_secs(10), |_, _| {});
        let before = path.delivered();
        path.run(Duration::from_secs(20), |_, _| {});
        (path.delivered() - before) as f64
    };
    let in_time = delivered(0);
    assert!(in_time > 0.9 * 833.0 * 20.0, "{in_time}");
    for late in [500, 1500, 4000] {
        let share = delivered(late) / in_time;
        assert!(share > 0.97, "{late} us late: {share}");
    }
}

#[test]
fn a_paced_sender_spreads_its_window_over_a_round_trip() {
    let config = EndpointConfig { pacing: true, ..window(8.0) };
    let mut line = Timeline::new("sack", &config);
    // Nothing is known of the path: no pacing.
    line.at(0, Start, &[0, 1, 2, 3, 4, 5, 6, 7]);
    // Slow start: cwnd 9; 1.25 x 9 / 100 ms is a packet each 8.89 ms (RFC 9002 section 7.7).
    line.at(100, Arrives(0), &[8]);
    let first = Time::ZERO + Duration::from_secs_f64(0.1 + 0.1 / (1.25 * 9.0));
    assert_eq!(line.sender.next_timer(), first);
    // More room in the meantime lets nothing out early.
    line.at(101, Arrives(1), &[]);
    line.at(108, Arrives(2), &[]);
    assert_eq!(line.sender.next_timer(), first);
    line.at(109, Arrives(3), &[9]);
}
