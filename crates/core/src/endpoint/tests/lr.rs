//! The schemes of the loss-resilience paper (lr2008 sections 3.2, 4, 5 and 8.1).

use super::*;
use crate::part::Value;

fn threshold(packets: f64, dupack_threshold: u32) -> EndpointConfig {
    EndpointConfig { dupack_threshold, ..window(packets) }
}

/// A row of the table with a parameter of its recovery.
fn with(name: &str, key: &str, value: Value) -> Protocol {
    let mut protocol = *protocols::find(name).expect("a row of the table");
    assert!(protocol.set("", key, value), "{name} has {key}");
    protocol
}

#[test]
fn every_duplicate_inflates_and_a_new_ack_deflates_by_what_it_oversteps() {
    for name in ["xcp", "xcp-pa", "lr-xcp", "lr-xcp-pa"] {
        let mut line = Timeline::new(name, &window(8.0));
        line.at(0, Start, EIGHT);
        // 0 is lost. swnd 9, 10, 11: cwnd stays.
        line.all_at(100, &[(1, &[8]), (2, &[9]), (3, &[0, 10])]);
        line.all_at(100, &[(4, &[11]), (5, &[12]), (6, &[13]), (7, &[14])]);
        line.all_at(200, &[(8, &[15]), (9, &[16])]);
        // olack = -1, nlack = 9: swnd is 8 + 9 - (9 - 0) = 8, of which 10 to 16 are 7.
        line.at(200, Arrives(0), &[17]);
        line.cwnd(8.0);
        line.at(200, Arrives(10), &[18]);
        assert_eq!((line.timeouts(), line.received()), (0, (11, 0)), "{name}");
    }
}

#[test]
fn a_partial_acknowledgment_keeps_the_inflation_by_what_is_still_stored() {
    for (name, retransmits) in [("lr-xcp", false), ("lr-xcp-pa", true), ("xcp-pa", true)] {
        let mut line = Timeline::new(name, &window(8.0));
        line.at(0, Start, EIGHT);
        // 0 and 4 are lost.
        line.all_at(100, &[(1, &[8]), (2, &[9]), (3, &[0, 10])]);
        line.all_at(100, &[(5, &[11]), (6, &[12]), (7, &[13])]);
        line.all_at(200, &[(8, &[14]), (9, &[15])]);
        // nlack = 3: swnd is 8 + 8 - (3 - 0) = 13, of which 4 to 15 are 12. 4 was sent before
        // the retransmission of 0, so the acknowledgment is partial (section 2.2.2).
        line.at(200, Arrives(0), if retransmits { &[4, 16] } else { &[16] });
        // Without partial acknowledgments the third duplicate does it. swnd 14, 15, 16.
        line.all_at(300, &[(10, &[17]), (11, &[18])]);
        line.at(300, Arrives(12), if retransmits { &[19] } else { &[4, 19] });
        line.cwnd(8.0);
    }
}

#[test]
fn without_partial_deflation_a_new_ack_resets_the_send_out_window() {
    let protocol = with("lr-xcp", "partial_deflation", Value::Bool(false));
    let mut line = Timeline::of(&protocol, &window(8.0));
    line.at(0, Start, EIGHT);
    line.all_at(100, &[(1, &[8]), (2, &[9]), (3, &[0, 10])]);
    line.all_at(100, &[(5, &[11]), (6, &[12]), (7, &[13])]);
    // swnd = cwnd = 8, of which 4 to 13 are 10.
    line.at(200, Arrives(0), &[]);
    line.all_at(200, &[(8, &[]), (9, &[]), (10, &[4, 14])]);
}

#[test]
fn an_acknowledgment_of_all_that_was_sent_before_the_retransmission_is_complete() {
    let mut line = Timeline::new("lr-xcp-pa", &threshold(4.0, 1));
    line.at(0, Start, &[0, 1, 2, 3]);
    line.at(100, Arrives(1), &[0, 4]);
    line.all_at(100, &[(2, &[5]), (3, &[6])]);
    // 4 is lost, but it was sent after 0 was retransmitted: not detected yet. swnd is 4 + 3 - 3,
    // with 4, 5, 6 outstanding.
    line.at(200, Arrives(0), &[7]);
}

#[test]
fn xcp_dumb_recovers_as_reno_does() {
    let mut line = Timeline::new("xcp-dumb", &window(8.0));
    line.at(0, Start, EIGHT);
    line.all_at(100, &[(1, &[8]), (2, &[9]), (3, &[0])]);
    line.cwnd(4.0);
    line.all_at(100, &[(4, &[]), (5, &[]), (6, &[]), (7, &[10])]);
    // swnd is reset to cwnd: 8, 9 and 10 are outstanding.
    line.at(200, Arrives(0), &[11]);
    line.cwnd(4.0);
}

#[test]
fn duplicates_retransmit_the_first_missing_packet_once() {
    let mut line = Timeline::new("lr-xcp", &threshold(8.0, 1));
    line.at(0, Start, EIGHT);
    line.at(100, Arrives(1), &[0, 8]);
    for seq in 2..8 {
        line.at(100, Arrives(seq), &[seq + 7]);
    }
}

#[test]
fn any_acknowledgment_postpones_the_recovery_timer_of_lr_and_none_that_of_xcp() {
    let mut line = Timeline::new("lr-xcp", &window(4.0));
    line.at(0, Start, &[0, 1, 2, 3]);
    line.next_timer(1000);
    line.at(900, Arrives(1), &[4]);
    line.next_timer(1900);

    let mut line = Timeline::new("xcp", &window(4.0));
    line.at(0, Start, &[0, 1, 2, 3]);
    line.at(900, Arrives(1), &[4]);
    line.next_timer(1000);
}

#[test]
fn the_retransmission_timer_repairs_a_lost_retransmission() {
    for (factor, due) in [(1.5, 1600), (2.0, 2100), (3.0, 3100)] {
        for name in ["lr-xcp", "lr-xcp-pa", "lr-xtcp", "lr-xtcp-pa"] {
            let protocol = with(name, "retransmission_timeout_factor", Value::Number(factor));
            let config = EndpointConfig { rwnd: 16, ..window(4.0) };
            let mut line = Timeline::of(&protocol, &config);
            // XTCP grows on duplicates and is therefore held at the receiver window.
            line.at(0, Start, &[0, 1, 2, 3]);
            for (time, seq) in [(100, 1), (100, 2), (100, 3)] {
                line.now = ms(time);
                line.acknowledge(seq, true, Flags::NONE, true);
                line.transmit();
            }
            // 0 was retransmitted at 100 ms, and that is lost too: factor x RTO from there,
            // while duplicates keep the recovery timer from expiring.
            let mut seq = 4;
            for time in (900..due).step_by(900) {
                line.now = ms(time);
                line.acknowledge(seq, true, Flags::NONE, true);
                seq += 1;
                line.transmit();
            }
            let cwnd = line.sender.cwnd();
            line.at(due, TimerExpires, &[0]);
            line.cwnd(cwnd);
            assert_eq!(line.timeouts(), 0, "{name}: no connection reset");
            // The transmission that arrives closes the gap.
            line.now = ms(due + 100);
            line.acknowledge(0, true, Flags::NONE, true);
            assert_eq!(line.sender.sequences().una, seq);
        }
    }
}

#[test]
fn silence_resets_the_connection_before_the_retransmission_timer_is_due() {
    let mut line = Timeline::new("lr-xcp", &window(4.0));
    line.at(0, Start, &[0, 1, 2, 3]);
    line.all_at(100, &[(1, &[4]), (2, &[5]), (3, &[0, 6])]);
    // 0 is lost again, and 6. The last duplicates come at 200 ms: reset at 1200, although the
    // retransmission timer would wait until 2100.
    line.all_at(200, &[(4, &[7]), (5, &[8])]);
    line.at(1200, TimerExpires, &[0]);
    line.cwnd(1.0);
    assert_eq!(line.timeouts(), 1);
    // Duplicates of packets sent before the reset open no window: 7 was late.
    line.at(1250, Arrives(7), &[]);
    // 0 to 5 are there; cwnd is 1 until a router grants more. 6 is sent again, and 7, which
    // is there, is not counted twice.
    line.at(1300, Arrives(0), &[6]);
    line.at(1400, Arrives(6), &[8]);
    assert_eq!(line.received(), (8, 0));
}

#[test]
fn an_echo_of_what_was_sent_twice_leaves_no_inflation_behind() {
    let mut line = Timeline::new("lr-xcp", &window(4.0));
    line.at(0, Start, &[0, 1, 2, 3]);
    // 0 is only late: its retransmission was in vain.
    line.all_at(100, &[(1, &[4]), (2, &[5]), (3, &[0, 6])]);
    line.at(110, ArrivesLate(0), &[7]);
    // 4 to 7 outstanding. The echo of the second 0 says that it arrived twice: nothing more is
    // stored, swnd stays cwnd = 4.
    line.at(200, Arrives(0), &[]);
    line.all_at(200, &[(4, &[8]), (5, &[9]), (6, &[10])]);
    line.at(200, Arrives(7), &[11]);
    line.at(300, Arrives(8), &[12]);
}

#[test]
fn a_sender_that_sees_no_echo_keeps_the_inflation_of_what_was_sent_twice() {
    let protocol = with("lr-xcp", "old_duplicates", Value::Word("count"));
    let mut line = Timeline::of(&protocol, &window(4.0));
    line.at(0, Start, &[0, 1, 2, 3]);
    line.all_at(100, &[(1, &[4]), (2, &[5]), (3, &[0, 6])]);
    line.at(110, ArrivesLate(0), &[7]);
    // 4 to 7 outstanding, and a duplicate as any other: swnd 5. New acknowledgments of one packet
    // each deflate by nothing, so that five packets stay outstanding with a cwnd of four.
    line.at(200, Arrives(0), &[8]);
    line.all_at(200, &[(4, &[9]), (5, &[10]), (6, &[11])]);
    line.at(200, Arrives(7), &[12]);
    line.cwnd(4.0);
}

#[test]
fn loss_monitoring_repairs_several_losses_in_one_round_trip() {
    let mut line = Timeline::new("lr-lmxcp", &threshold(8.0, 1));
    line.at(0, Start, EIGHT);
    // 0, 2 and 4 are lost. Each acknowledgment tells on the least recent missing one, before
    // it lets a new one out: packet numbers 9 (0), 10 (8), 11 (2), 12 (9), 13 (4), 14 (10).
    line.all_at(100, &[(1, &[0, 8]), (3, &[2, 9]), (5, &[4, 10])]);
    // Nothing missing was sent before 6 and 7.
    line.all_at(100, &[(6, &[11]), (7, &[12])]);
    // In the order of transmission. 1 was stored: swnd 8 + 5 - 1 = 12; 2 to 12 are 11.
    line.all_at(200, &[(0, &[13]), (8, &[14])]);
    // 3 was: 8 + 5 - 1 = 12; 4 to 14 are 11.
    line.all_at(200, &[(2, &[15]), (9, &[16])]);
    // 5 to 9 were: 8 + 5 - 5 = 8; 10 to 16 are 7.
    line.at(200, Arrives(4), &[17]);
    line.cwnd(8.0);
    assert_eq!((line.timeouts(), line.received()), (0, (10, 0)));
}

#[test]
fn loss_monitoring_retransmits_one_segment_per_threshold_acknowledgments_in_rseqn_order() {
    let mut line = Timeline::new("lr-lmxtcp", &threshold(8.0, 3));
    line.offer(8);
    // 0 and 1 are lost: three acknowledgments each, from packets sent later.
    line.all_at(100, &[(2, &[]), (3, &[]), (4, &[0])]);
    line.all_at(100, &[(5, &[]), (6, &[]), (7, &[1])]);
    line.at(200, Arrives(0), &[]);
    line.at(200, Arrives(1), &[]);
    assert!(line.sender.is_done());
    assert_eq!((line.timeouts(), line.received()), (0, (8, 0)));
}

#[test]
fn loss_monitoring_sees_the_loss_of_a_retransmission() {
    let mut line = Timeline::new("lr-lmxcp", &threshold(8.0, 3));
    line.at(0, Start, EIGHT);
    // 0 and 1 are lost. Packets 9 (8), 10 (9), 11 (0), 12 (10), 13 (11), 14 (12), 15 (1),
    // 16 (13).
    line.all_at(100, &[(2, &[8]), (3, &[9]), (4, &[0, 10])]);
    line.all_at(100, &[(5, &[11]), (6, &[12]), (7, &[1, 13])]);
    // 0 is lost again. 8 and 9 left before its second transmission and are not evidence.
    line.all_at(200, &[(8, &[14]), (9, &[15])]);
    // 10, 11 and 12 left after it.
    line.all_at(200, &[(10, &[16]), (11, &[17]), (12, &[0, 18])]);
    line.at(200, Arrives(1), &[19]);
    // swnd 8 + 12 stored; 0 to 12 are there and 12 of them deflate: 13 to 19 are 7 of 8.
    line.at(300, Arrives(0), &[20]);
    line.cwnd(8.0);
    assert_eq!((line.timeouts(), line.received()), (0, (13, 0)));
}

#[test]
fn loss_monitoring_deflates_by_what_is_stored_when_acknowledgments_are_lost() {
    let mut line = Timeline::new("lr-lmxcp", &threshold(4.0, 1));
    line.at(0, Start, &[0, 1, 2, 3]);
    // 0 is lost, and the acknowledgment of 2: it is taken for lost as well.
    line.at(100, Arrives(1), &[0, 4]);
    line.at(100, AckLost(2), &[]);
    line.at(100, Arrives(3), &[2, 5]);
    // swnd was inflated by 1 and 3 only and is 4 again: 4, 5 and two more.
    line.at(200, Arrives(0), &[6, 7]);
    // The second 2 was unnecessary, and does not inflate swnd.
    line.all_at(200, &[(4, &[8]), (2, &[]), (5, &[9])]);
    assert_eq!(line.received(), (6, 1));
}

#[test]
fn loss_monitoring_loses_no_knowledge_in_a_reset() {
    let mut line = Timeline::new("lr-lmxcp", &threshold(8.0, 3));
    line.at(0, Start, EIGHT);
    // 0, 1, 4 and 6 are lost, and all that is sent at 100 ms.
    line.all_at(100, &[(2, &[8]), (3, &[9]), (5, &[0, 10]), (7, &[11])]);
    line.at(1100, TimerExpires, &[0]);
    line.cwnd(1.0);
    // nextseq is lack + 1 and skips the segments that W shows as received: 2, 3, 5 and 7.
    line.at(1200, Arrives(0), &[1]);
    line.at(1300, Arrives(1), &[4]);
    line.at(1400, Arrives(4), &[6]);
    line.at(1500, Arrives(6), &[8]);
    assert_eq!(line.received(), (8, 0));
}

#[test]
fn the_loss_monitoring_window_follows_a_long_window_around() {
    // 600 packets in the window, ten windows, every 97th transmission lost: more segments than
    // any first size of a ring, and sequence numbers that pass it many times.
    let mut line = Timeline::new("lr-lmxcp", &window(600.0));
    line.sender.offer_until(u64::MAX);
    let mut packet = Packet::default();
    let (mut lost, mut retransmitted) = (Vec::new(), Vec::new());
    for round in 0..10 {
        line.now = ms(100 * round);
        for sent in std::mem::take(&mut line.wire) {
            let mut ack = sent;
            if let CongestionHeader::Xcp { delta, .. } = &mut ack.header {
                *delta = 0.0;
            }
            line.receiver.on_data(line.now, &mut ack);
            line.sender.on_ack(line.now, &ack);
        }
        while line.sender.poll_transmit(line.now, &mut packet) {
            if packet.flags.contains(Flags::RETRANSMISSION) {
                retransmitted.push(packet.seq);
            }
            if packet.packet_seq % 97 == 0 {
                lost.push(packet.seq);
            } else {
                line.wire.push(packet.clone());
            }
        }
    }
    assert!(lost.len() > 50, "{}", lost.len());
    assert!(!retransmitted.is_empty());
    assert!(retransmitted.iter().all(|seq| lost.contains(seq)), "only what was lost");
    assert_eq!((line.timeouts(), line.received().1), (0, 0));
}

#[test]
fn the_literal_guard_allows_one_retransmission_of_a_window() {
    let protocol = with("lr-lmxcp", "loss_monitor_guard", Value::Bool(true));
    let mut line = Timeline::of(&protocol, &threshold(8.0, 1));
    line.at(0, Start, EIGHT);
    // 0 and 2 are lost. After the retransmission of 0, whose W was 1, packets up to number 1 + 8 do
    // not count. The second 0 is packet 9, and 8 is packet 10.
    line.all_at(100, &[(1, &[0, 8]), (3, &[9]), (4, &[10]), (5, &[11])]);
    line.all_at(100, &[(6, &[12]), (7, &[13])]);
    line.at(200, Arrives(0), &[14]);
    line.at(200, Arrives(8), &[2, 15]);
}

#[test]
fn xtcp_grows_on_duplicates_and_ignores_losses() {
    let mut line = Timeline::new("lr-xtcp", &window(4.0));
    line.at(0, Start, &[0, 1, 2, 3]);
    // 0 is lost. Slow start: cwnd 5, 6, 7 while swnd is 1, 2, 3 beyond it.
    line.at(100, Arrives(1), &[4, 5]);
    line.cwnd(5.0);
    line.at(100, Arrives(2), &[6, 7]);
    line.at(100, Arrives(3), &[0, 8, 9]);
    line.cwnd(7.0);
}

#[test]
fn xtcp_halves_at_most_once_a_round_trip() {
    for name in ["lr-xtcp", "lr-xtcp-pa", "lr-lmxtcp"] {
        let mut line = Timeline::new(name, &window(8.0));
        line.offer(8);
        // SRTT is 100 ms from here on: duplicates give no sample. 1 is lost.
        line.now = ms(100);
        line.acknowledge(0, true, Flags::CONGESTION, true);
        line.cwnd(4.0);
        for (time, seq, flag, cwnd) in [
            (110, 2, Flags::CONGESTION, 4.0),
            (199, 3, Flags::CONGESTION, 4.0),
            // The latest event is older than one RTT.
            (201, 4, Flags::CONGESTION, 2.0),
            (202, 5, Flags::CONGESTION, 2.0),
            (302, 6, Flags::CONGESTION, 1.0),
            (403, 7, Flags::CONGESTION, 1.0),
        ] {
            line.now = ms(time);
            line.acknowledge(seq, true, flag, true);
            line.cwnd(cwnd);
        }
    }
}

#[test]
fn xtcp_is_additive_after_a_congestion_event() {
    let mut line = Timeline::new("lr-xtcp", &window(8.0));
    line.at(0, Start, EIGHT);
    line.at(100, ArrivesFlagged(0), &[]);
    line.cwnd(4.0);
    // One over cwnd per acknowledgment, as in TCP above ssthresh, duplicates (1 is lost)
    // included: 4 + 1/4.
    line.at(100, Arrives(2), &[]);
    line.cwnd(4.25);
    line.at(100, Arrives(3), &[]);
    line.cwnd(4.25 + 1.0 / 4.25);
}

#[test]
fn tcpfriend_backs_off_on_two_flags_in_one_round_trip() {
    let mut line = Timeline::new("lr-lmxtcp-tcpfriend", &window(8.0));
    line.at(0, Start, EIGHT);
    line.at(100, ArrivesFlagged(0), &[]);
    line.cwnd(4.0);
    line.at(150, ArrivesFlagged(1), &[]);
    line.cwnd(1.0);
    // recphase = 7, the largest number sent. No growth before it is acknowledged; nextseq
    // stays at 8, so nothing is sent again.
    for seq in 2..7 {
        line.at(160, Arrives(seq), &[]);
        line.cwnd(1.0);
    }
    line.at(160, Arrives(7), &[8, 9]);
    line.cwnd(2.0); // Slow start.
    assert_eq!((line.timeouts(), line.received()), (0, (8, 0)));

    // Its unfriendly sister only halves.
    let mut line = Timeline::new("lr-lmxtcp", &window(8.0));
    line.at(0, Start, EIGHT);
    line.at(100, ArrivesFlagged(0), &[]);
    line.at(150, ArrivesFlagged(1), &[]);
    line.cwnd(4.0);
}

#[test]
fn tcpfriend_backs_off_on_a_flag_with_a_window_below_the_threshold() {
    let mut line = Timeline::new("lr-lmxtcp-tcpfriend", &threshold(2.9, 3));
    line.at(0, Start, &[0, 1]);
    line.at(100, ArrivesFlagged(0), &[]);
    line.cwnd(1.0); // Not 1.45.
    line.at(100, Arrives(1), &[2, 3]);
    line.cwnd(2.0);

    // At the threshold a single flag halves.
    let mut line = Timeline::new("lr-lmxtcp-tcpfriend", &threshold(3.0, 3));
    line.at(0, Start, &[0, 1, 2]);
    line.at(100, ArrivesFlagged(0), &[]);
    line.cwnd(1.5);
}

#[test]
fn tcpfriend_halves_on_flags_further_apart_than_a_round_trip() {
    let mut line = Timeline::new("lr-lmxtcp-tcpfriend", &threshold(16.0, 3));
    line.offer(16);
    line.at(100, ArrivesFlagged(0), &[]);
    line.cwnd(8.0);
    // 1 is lost, so SRTT stays 100 ms.
    line.at(201, ArrivesFlagged(2), &[]);
    line.cwnd(4.0);
    line.at(250, ArrivesFlagged(3), &[]);
    line.cwnd(1.0);
}

#[test]
fn xcp_follows_the_routers_feedback() {
    let mut line = Timeline::new("lr-xcp", &window(8.0));
    line.at(0, Start, EIGHT);
    line.at(100, Arrives(0), &[8]);
    // + 20 000 bytes/s x 0.1 s / 1000 bytes = 2 packets, on a duplicate as well (1 is lost).
    let feedback = |line: &mut Timeline, seq: u64, feedback: f64| {
        let index = line.wire.iter().position(|p| p.seq == seq).unwrap();
        let mut packet = line.wire.remove(index);
        line.receiver.on_data(line.now, &mut packet);
        packet.header = CongestionHeader::XcpReverse { feedback };
        line.sender.on_ack(line.now, &packet);
    };
    feedback(&mut line, 2, 20_000.0);
    line.cwnd(10.0);
    feedback(&mut line, 3, -35_000.0);
    line.cwnd(6.5);
    feedback(&mut line, 4, -1e9);
    line.cwnd(1.0);
}
