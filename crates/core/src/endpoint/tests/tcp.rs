//! Reno, NewReno and SACK against RFC 5681, 6582, 6675 and 6298.

use super::*;
use crate::endpoint::recovery::{RecoveryConfig, SackConfig};
use crate::network::RouterKind;
use crate::protocols::Protocol;

#[test]
fn a_threshold_of_one_takes_the_first_duplicate_for_a_loss() {
    for name in ["reno", "newreno"] {
        let config = EndpointConfig { dupack_threshold: 1, ..window(8.0) };
        let mut line = Timeline::new(name, &config);
        line.at(0, Start, EIGHT);
        // ssthresh 4; swnd 4 + 1 duplicate, beside 8 outstanding.
        line.at(100, Arrives(1), &[0]);
        line.cwnd(4.0);
        // 6, 7, 8, 9: the fifth duplicate lets the first packet out.
        line.all_at(100, &[(2, &[]), (3, &[]), (4, &[]), (5, &[8]), (6, &[9])]);
    }
}

#[test]
fn two_duplicates_are_no_loss_at_a_threshold_of_three() {
    for name in ["reno", "newreno", "sack", "cubic", "lr-xcp", "lr-lmxcp", "lr-xtcp", "xcp"] {
        let mut line = Timeline::new(name, &window(8.0));
        line.offer(8);
        line.all_at(100, &[(1, &[]), (2, &[])]);
        line.at(100, Arrives(3), &[0]);
    }
}

#[test]
fn a_second_loss_in_a_window_ends_reno_in_a_timeout() {
    let mut line = Timeline::new("reno", &window(8.0));
    line.at(0, Start, EIGHT);
    // 0 and 4 are lost. cwnd 4 + 3 = 7 after the third duplicate, and so on to 10.
    line.all_at(100, &[(1, &[8]), (2, &[9]), (3, &[0])]);
    line.all_at(100, &[(5, &[]), (6, &[]), (7, &[])]);
    line.all_at(200, &[(8, &[10]), (9, &[11])]);
    // Reno leaves recovery with the first new data: cwnd 4 beside 4 to 11.
    line.at(200, Arrives(0), &[]);
    line.cwnd(4.0);
    // Only two packets are left to cause duplicates for 4.
    line.all_at(300, &[(10, &[]), (11, &[])]);
    // RFC 6298 (5.3): the RTO after the last acknowledgment of new data.
    line.at(1200, TimerExpires, &[4]);
    line.cwnd(1.0);
    // Everything else had arrived: slow start continues after it.
    line.at(1300, Arrives(4), &[12, 13]);
    line.cwnd(2.0);
    assert_eq!((line.timeouts(), line.received()), (1, (12, 0)));
}

#[test]
fn only_the_first_partial_acknowledgment_postpones_newrenos_timeout() {
    let mut line = Timeline::new("newreno", &window(8.0));
    line.at(0, Start, EIGHT);
    // 0, 2 and 4 are lost.
    line.all_at(100, &[(1, &[8]), (3, &[9]), (5, &[0]), (6, &[]), (7, &[])]);
    // swnd 4 + 6 = 10, then 11 beside 0 to 9.
    line.all_at(200, &[(8, &[]), (9, &[10])]);
    // 11 - 2 + 1 = 10 beside 2 to 10.
    line.at(200, Arrives(0), &[2, 11]);
    line.next_timer(1200);
    line.at(300, Arrives(10), &[12]);
    // 11 - 2 + 1 = 10 beside 4 to 12. RFC 6582: "only after the first partial ACK".
    line.at(300, Arrives(2), &[4, 13]);
    line.next_timer(1200);
    // Duplicates for a retransmission that is lost as well do not help it either.
    line.all_at(400, &[(11, &[14]), (12, &[15]), (13, &[16])]);
    line.at(1200, TimerExpires, &[4]);
    line.cwnd(1.0);
}

#[test]
fn duplicates_of_an_old_window_start_no_second_recovery() {
    // RFC 6582 section 3.2 step 2: below recover no fast retransmit.
    let mut line = Timeline::new("newreno", &window(4.0));
    line.at(0, Start, &[0, 1, 2, 3]);
    line.at(1000, TimerExpires, &[0]);
    // 0 had been late: acknowledgments of the old packets open the window; go-back-N.
    line.at(1001, ArrivesLate(0), &[1, 2]);
    // Packets that arrive now were sent twice: two of three duplicates release a new packet (RFC
    // 3042), and the third is not evidence of a loss.
    line.at(1002, Arrives(0), &[3]);
    line.at(1003, ArrivesLate(3), &[4]);
    line.at(1004, Arrives(3), &[]);
    assert_eq!(line.received(), (2, 2));
    assert_eq!(line.timeouts(), 1);
}

#[test]
fn sack_with_a_threshold_of_one() {
    let config = EndpointConfig { dupack_threshold: 1, ..window(8.0) };
    let mut line = Timeline::new("sack", &config);
    line.at(0, Start, EIGHT);
    // 0 and 1 are lost. One packet above is enough for both; pipe after the retransmission is
    // 0' and 3 to 7, beyond cwnd = 4.
    line.at(100, Arrives(2), &[0]);
    line.cwnd(4.0);
    // 0', 4 to 7: 5; 0', 5 to 7: 4; then 3.
    line.all_at(100, &[(3, &[]), (4, &[]), (5, &[1]), (6, &[8]), (7, &[9])]);
}

#[test]
fn sack_waits_for_the_timer_when_a_retransmission_is_lost_but_forgets_nothing() {
    let mut line = Timeline::new("sack", &window(4.0));
    line.at(0, Start, &[0, 1, 2, 3]);
    // 0 is lost, and lost again. cwnd 2; pipe 0', 4, 5.
    line.all_at(100, &[(1, &[4]), (2, &[5]), (3, &[0])]);
    line.all_at(200, &[(4, &[]), (5, &[6])]);
    line.at(300, Arrives(6), &[7]);
    // One second after the retransmission at 100 ms.
    line.at(1100, TimerExpires, &[0]);
    line.cwnd(1.0);
    // 0 to 6 are there. 7 counts as lost after a timeout (RFC 6675 section 5.1).
    line.at(1200, Arrives(0), &[7, 8]);
    assert_eq!((line.timeouts(), line.received()), (1, (7, 0)));
}

#[test]
fn a_forgotten_scoreboard_is_filled_again_by_the_blocks_of_acknowledgments() {
    // RFC 2018 section 5 against RFC 6675 section 5.1.
    for keep_scoreboard in [true, false] {
        let sack = *protocols::find("sack").unwrap();
        let recovery = RecoveryConfig::Sack(SackConfig { keep_scoreboard });
        let mut line = Timeline::of(&Protocol { recovery, ..sack }, &window(10.0));
        line.at(0, Start, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        // 0, 2, 4, 6 and 8 are lost, 0 twice, and so are 10 and 11. cwnd = 5; the pipe is
        // 0', 6 to 11 without 7, and in the end 0', 6, 8, 10, 11: no room.
        line.all_at(100, &[(1, &[10]), (3, &[11]), (5, &[0]), (7, &[]), (9, &[])]);
        line.at(1100, TimerExpires, &[0]);
        // An acknowledgment has room for three blocks, the latest first: 9, 7 and 5. So 3 is sent
        // again by a sender that has forgotten it. 5 is not, although it had forgotten that too.
        line.at(1200, Arrives(0), if keep_scoreboard { &[2, 4] } else { &[2, 3] });
        line.at(1300, Arrives(2), if keep_scoreboard { &[6, 8] } else { &[4, 6, 8] });
    }
}

#[test]
fn sack_survives_the_loss_of_acknowledgments() {
    let mut line = Timeline::new("sack", &window(8.0));
    line.at(0, Start, EIGHT);
    // 0 is lost, and so are the acknowledgments of 1 and 2: the blocks of the third tell.
    line.at(100, AckLost(1), &[]);
    line.at(100, AckLost(2), &[]);
    // Three have arrived above 0 (IsLost); cwnd 4, pipe 0', 4 to 7: 5.
    line.at(100, Arrives(3), &[0]);
    line.cwnd(4.0);
    line.all_at(100, &[(4, &[]), (5, &[8]), (6, &[9]), (7, &[10])]);
}

#[test]
fn the_rescue_retransmission_of_sack_leaves_the_pipe_alone() {
    let config = EndpointConfig { dupack_threshold: 2, ..window(8.0) };
    let mut line = Timeline::new("sack", &config);
    line.offer(8);
    // 0 is lost; RecoveryPoint is 7, cwnd 4, pipe 0' and 3 to 7.
    line.all_at(100, &[(1, &[]), (2, &[0])]);
    line.sender.offer_until(9);
    line.all_at(100, &[(3, &[]), (4, &[]), (5, &[8])]);
    line.at(100, AckLost(6), &[]);
    // Pipe is 0' and 8, and there is nothing new: NextSeg rule 4 sends the last packet again.
    line.at(100, Arrives(7), &[8]);
    line.at(200, Arrives(0), &[]);
    // Out of recovery with 8 outstanding, sent twice and lost twice; cwnd 4.
    line.at(200, Start, &[9, 10, 11]);
    // Pipe is 8, 10, 11.
    line.at(300, Arrives(9), &[12]);
}

#[test]
fn a_lost_retransmission_ends_reno_and_newreno_in_a_timeout() {
    for name in ["reno", "newreno"] {
        let mut line = Timeline::new(name, &window(4.0));
        line.at(0, Start, &[0, 1, 2, 3]);
        // cwnd 2 + 3 = 5 beside 0 to 5, then 6 and 7.
        line.all_at(100, &[(1, &[4]), (2, &[5]), (3, &[0])]);
        line.all_at(200, &[(4, &[]), (5, &[6])]);
        line.at(300, Arrives(6), &[7]);
        // One second after the duplicate that caused the retransmission (lr2008 section 4.2).
        line.at(1100, TimerExpires, &[0]);
        line.cwnd(1.0);
        line.at(1200, Arrives(0), &[7, 8]);
        assert_eq!((line.timeouts(), line.received()), (1, (7, 0)));
    }
}

#[test]
fn a_reset_goes_back_to_the_first_missing_packet() {
    let mut line = Timeline::new("reno", &window(4.0));
    line.at(0, Start, &[0, 1, 2, 3]);
    // 0, 1, 4 and 5 are lost: too few duplicates.
    line.all_at(100, &[(2, &[4]), (3, &[5])]);
    line.at(1000, TimerExpires, &[0]);
    line.cwnd(1.0);
    // RFC 5681 equation (4): half of the 4 that were in flight.
    assert_eq!(line.sender.ssthresh(), 2.0);
    line.at(1100, Arrives(0), &[1, 2]);
    line.cwnd(2.0);
    // 1 closes the gap up to 3: 2 is now sent twice, 3 is not sent again. 2 + 1/2 packets.
    line.at(1200, Arrives(1), &[4, 5]);
    line.cwnd(2.5);
    line.at(1200, Arrives(2), &[6]); // A duplicate: limited transmit.
    assert_eq!(line.received(), (4, 1), "what came twice counts once");
}

#[test]
fn the_timeout_doubles_until_something_arrives() {
    // Recovery by packet number sends probes instead, and bulk repeat does not double the timeout
    // where losses are errors: see their own timelines. A controller that paces sends the second
    // packet later.
    let doubles = |p: &&Protocol| {
        !p.window.paces()
            && !matches!(
                p.recovery,
                RecoveryConfig::PacketNumber(_) | RecoveryConfig::BulkRepeat(_)
            )
    };
    for protocol in protocols::PROTOCOLS.iter().filter(doubles) {
        let mut line = Timeline::new(protocol.name, &window(2.0));
        line.at(0, Start, &[0, 1]);
        line.at(1000, TimerExpires, &[0]); // RFC 6298 (2.1): 1 s before the first sample.
        line.at(3000, TimerExpires, &[0]);
        line.at(7000, TimerExpires, &[0]);
        line.cwnd(1.0);
        line.next_timer(15_000);
        // A sample of 100 ms: back to the floor. Timestamps tell transmissions apart.
        let sent: &[u64] = match protocol.router {
            RouterKind::Xcp | RouterKind::XcpPersistent => &[1],
            _ => &[1, 2], // Slow start.
        };
        line.at(7100, Arrives(0), sent);
        line.next_timer(8100);
    }
}

#[test]
fn a_mark_reduces_the_window_once() {
    for name in ["newreno", "sack"] {
        let mut line = Timeline::new(name, &EndpointConfig { ecn: Some(true), ..window(8.0) });
        line.at(0, Start, EIGHT);
        line.at(100, ArrivesMarked(0), &[]);
        assert_eq!(line.sender.ssthresh(), 4.0, "{name}");
        // The receiver echoes the mark until packet 8, the first sent after the reduction, tells
        // it of that (RFC 3168 section 6.1.3): the echoes of 1 to 7 are of the same window.
        // Each adds 1/cwnd: 4.25, 4.49, 4.71, 4.92, 5.12, 5.32, 5.51, 5.69.
        line.all_at(100, &[(1, &[]), (2, &[]), (3, &[]), (4, &[8, 9]), (5, &[10]), (6, &[11])]);
        line.at(100, Arrives(7), &[12]);
        assert_eq!(line.sender.ssthresh(), 4.0, "{name}");
        // A mark of the next window: half of 8 to 12.
        line.at(200, ArrivesMarked(8), &[]);
        assert_eq!(line.sender.ssthresh(), 2.5, "{name}");
    }
}

/// A path that drops ECN-capable packets: nothing comes back until the timer expires, and what is
/// sent from then on is not ECN-capable (RFC 9000 section 13.4.2). After an answer, a timeout
/// changes nothing. In the end all is acknowledged, and new data follows.
#[test]
fn a_first_window_without_an_answer_ends_ecn() {
    for name in ["newreno", "upwind"] {
        for answered in [false, true] {
            let protocol = protocols::find(name).unwrap();
            let config = EndpointConfig { ecn: Some(true), ..window(2.0) };
            let mut sender = Sender::new(protocol, &config, 1, "ecn");
            sender.offer_until(100);
            let mut packet = Packet::default();
            let mut now = Time::ZERO;
            let mut sent = Vec::new();
            let mut poll = |sender: &mut Sender, now| {
                let before = sent.len();
                while sender.poll_transmit(now, &mut packet) {
                    sent.push(packet.clone());
                }
                sent[before..].to_vec()
            };
            let acknowledge = |sender: &mut Sender, now, of: &Packet| {
                sender.on_ack(
                    now,
                    &Packet {
                        kind: PacketKind::Ack,
                        seq: of.seq + 1,
                        trigger_seq: of.seq,
                        packet_seq: of.packet_seq,
                        timestamp: of.timestamp,
                        ..Packet::default()
                    },
                );
            };
            let first = poll(&mut sender, now);
            assert!(first.iter().all(|p| p.flags.contains(Flags::ECN_CAPABLE)), "{name}");
            let mut last = first[1].clone();
            if answered {
                now += Duration::from_millis(100);
                acknowledge(&mut sender, now, &first[0]);
                last = poll(&mut sender, now).last().unwrap().clone();
            }
            for _ in 0..4 {
                now = sender.next_timer().max(now);
                sender.on_timer(now);
                for packet in poll(&mut sender, now) {
                    last = if packet.seq >= last.seq { packet } else { last };
                }
            }
            now += Duration::from_millis(100);
            acknowledge(&mut sender, now, &last);
            let mut new = Vec::new();
            for _ in 0..10 {
                new.extend(poll(&mut sender, now));
                now = sender.next_timer().max(now).min(now + Duration::from_millis(20));
                sender.on_timer(now);
            }
            new.retain(|p| !p.flags.contains(Flags::RETRANSMISSION));
            assert!(!new.is_empty(), "{name} {answered}");
            let is_capable = |p: &Packet| p.flags.contains(Flags::ECN_CAPABLE);
            assert!(new.iter().all(|p| is_capable(p) == answered), "{name} {answered}");
        }
    }
}
