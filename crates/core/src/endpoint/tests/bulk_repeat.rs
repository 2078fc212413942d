//! Bulk Repeat against tcpwbr2003 section III, and Karn's algorithm.
//!
//! Spike begins in error mode, and RTTs of 100 ms throughout leave it there; one of 200 ms means
//! congestion: it is above 100 + 0.4 (200 - 100) ms.

use super::*;
use crate::endpoint::recovery::{BulkRepeatConfig, RecoveryConfig, Repeat, TimeoutWindow};

fn tcpw_br(config: BulkRepeatConfig) -> Protocol {
    let row = *protocols::find("tcpw-br").expect("a row of the table");
    Protocol { recovery: RecoveryConfig::BulkRepeat(config), ..row }
}

/// The earliest transmission of this packet in flight is lost.
fn lose(line: &mut Timeline, seq: u64) {
    let index = line.wire.iter().position(|packet| packet.seq == seq).unwrap();
    line.wire.remove(index);
}

/// 0, 4 and 6 of a window of eight are lost. Up to the first partial acknowledgment, of 0 to 3.
fn three_losses(config: BulkRepeatConfig) -> Timeline {
    let mut line = Timeline::of(&tcpw_br(config), &window(8.0));
    line.at(0, Start, EIGHT);
    for seq in [0, 4, 6] {
        lose(&mut line, seq);
    }
    // Limited transmit, then 0 again. Algorithm C: an error, cwnd stays. swnd 8 + 3 beside 0 to
    // 9, so that one new packet leaves too; one more for each further duplicate.
    line.all_at(100, &[(1, &[8]), (2, &[9]), (3, &[0, 10]), (5, &[11]), (7, &[12])]);
    line.cwnd(8.0);
    line.all_at(200, &[(8, &[13]), (9, &[14])]);
    // Algorithm A: everything outstanding within cwnd, 8 packets from 4 on.
    line.at(200, Arrives(0), &[4, 5, 6, 7, 8, 9, 10, 11]);
    // Packets in flight cause duplicates, which send nothing.
    line.at(200, ArrivesLate(10), &[]);
    line.at(200, ArrivesLate(11), &[]);
    line.all_at(200, &[(12, &[])]);
    line.all_at(300, &[(13, &[]), (14, &[])]);
    line
}

#[test]
fn a_partial_acknowledgment_repeats_the_window() {
    let mut line = three_losses(BulkRepeatConfig::DEFAULT);
    // 4 of the bulk is answered by 6: the next bulk, of 6 to 13.
    line.at(300, Arrives(4), &[6, 7, 8, 9, 10, 11, 12, 13]);
    line.at(300, Arrives(5), &[]);
    // 6 of the first bulk completes the initial window. Only now is new data sent.
    line.at(300, ArrivesLate(6), &[15, 16, 17, 18, 19, 20, 21, 22]);
    line.cwnd(8.0);
    assert_eq!((line.timeouts(), line.received()), (0, (15, 1)));
}

#[test]
fn a_bulk_is_answered_once() {
    let every = BulkRepeatConfig { repeat: Repeat::Ack, ..BulkRepeatConfig::DEFAULT };
    for (config, third) in [(BulkRepeatConfig::DEFAULT, false), (every, true)] {
        let mut line = Timeline::of(&tcpw_br(config), &window(8.0));
        line.at(0, Start, EIGHT);
        for seq in [0, 3, 5, 7] {
            lose(&mut line, seq);
        }
        line.all_at(100, &[(1, &[8]), (2, &[9]), (4, &[0, 10]), (6, &[11])]);
        line.at(200, Arrives(0), &[3, 4, 5, 6, 7, 8, 9, 10]);
        line.at(300, Arrives(3), &[5, 6, 7, 8, 9, 10, 11]);
        // 5 of the first bulk arrives after 3, so that 7 is the next missing packet: the second
        // bulk, still in flight, has not been acknowledged yet.
        let sent: &[u64] = if third { &[7, 8, 9, 10, 11] } else { &[] };
        line.at(300, ArrivesLate(5), sent);
    }
}

#[test]
fn after_the_largest_number_of_bulks_holes_are_repaired_one_by_one() {
    let config = BulkRepeatConfig { maximum: Some(1), ..BulkRepeatConfig::DEFAULT };
    let mut line = three_losses(config);
    line.at(300, Arrives(4), &[6]);
}

#[test]
fn a_timeout_by_an_error_repeats_the_window_and_does_not_back_off() {
    let mut line = Timeline::new("tcpw-br", &window(2.0));
    line.at(0, Start, &[0, 1]);
    // Algorithm B: the RTO stays at 1 s. Algorithm C: cwnd stays.
    for second in 1..=8 {
        line.at(1000 * second, TimerExpires, &[0, 1]);
        line.cwnd(2.0);
    }
    // ssthresh is 2, half of the packets in flight, as there is no estimate: 1/cwnd more.
    line.at(8100, Arrives(0), &[1]);
    line.cwnd(2.5);
    line.next_timer(9100);
    line.at(8200, Arrives(1), &[2, 3]);
    line.cwnd(2.9);
}

#[test]
fn the_other_readings_of_a_timeout_send_one_packet() {
    for (timeout_window, cwnd) in [(TimeoutWindow::Kept, 2.0), (TimeoutWindow::One, 1.0)] {
        let bulk_repeat = BulkRepeatConfig { timeout_window, ..BulkRepeatConfig::DEFAULT };
        let mut line = Timeline::of(&tcpw_br(bulk_repeat), &window(2.0));
        line.at(0, Start, &[0, 1]);
        line.at(1000, TimerExpires, &[0]);
        line.at(2000, TimerExpires, &[0]);
        line.cwnd(cwnd);
        line.at(2100, Arrives(0), if cwnd == 2.0 { &[1] } else { &[1, 2] });
    }
}

#[test]
fn the_fixed_timeout_may_be_given() {
    let fixed_timeout = Some(Duration::from_millis(300));
    let bulk_repeat = BulkRepeatConfig { fixed_timeout, ..BulkRepeatConfig::DEFAULT };
    let mut line = Timeline::of(&tcpw_br(bulk_repeat), &window(1.0));
    line.at(0, Start, &[0]);
    line.at(300, TimerExpires, &[0]);
    line.at(600, TimerExpires, &[0]);
}

/// Packet 1 took 200 ms: losses are congestion. 2 to 5 are outstanding, cwnd is 4.
fn congested(config: &EndpointConfig) -> Timeline {
    let mut line = Timeline::new("tcpw-br", config);
    line.at(0, Start, &[0, 1]);
    line.at(100, Arrives(0), &[2, 3]);
    line.at(200, Arrives(1), &[4, 5]);
    line.cwnd(4.0);
    line
}

#[test]
fn a_timeout_in_congestion_backs_off_to_64_times_until_an_error_mode_acknowledgment() {
    let config = EndpointConfig { rto_ceiling: Duration::from_secs(1000), ..window(2.0) };
    let mut line = congested(&config);
    // Algorithm B: 1 s, then 2, 4, 8, 16, 32, 64 and 64 again. cwnd is 1, so that only 2 leaves.
    let mut at = 1200;
    for factor in [2, 4, 8, 16, 32, 64, 64] {
        line.at(at, TimerExpires, &[2]);
        line.cwnd(1.0);
        at += 1000 * factor;
        line.next_timer(at);
    }
    // An RTT of 200 ms: still congestion, and the factor stays.
    let sent = at - 64_000;
    line.at(sent + 200, Arrives(2), &[3, 4]);
    line.next_timer(sent + 200 + 64_000);
    // One of 100 ms is below 105: errors.
    line.at(sent + 300, Arrives(3), &[5]); // cwnd 2.5.
    line.next_timer(sent + 1300);
}

#[test]
fn in_congestion_it_is_newreno() {
    let mut line = congested(&window(2.0));
    // 2 and 4 are lost. The rate of 1 packet in 100 ms is still very low: ssthresh is 2.
    line.all_at(400, &[(3, &[6]), (5, &[7])]);
    line.at(600, Arrives(6), &[2]);
    line.cwnd(2.0);
    line.at(600, Arrives(7), &[]);
    // RFC 6582 step 3: swnd 2 + 4 - 2 + 1 beside 4 to 7.
    line.at(800, Arrives(2), &[4, 8]);
}

#[test]
fn without_timestamps_the_back_off_lasts_until_a_packet_sent_once_is_acknowledged() {
    let config = EndpointConfig { timestamps: false, ..window(2.0) };
    let mut line = Timeline::new("newreno", &config);
    line.at(0, Start, &[0, 1]);
    line.at(1000, TimerExpires, &[0]);
    // 0 was sent twice (Karn): the timeout stays at 2 s. After it, 1 was sent twice too.
    line.at(1100, Arrives(0), &[1, 2]);
    line.next_timer(3100);
    line.at(1200, Arrives(1), &[3]);
    line.next_timer(3200);
    // 2 was sent once. 100 ms: back to the floor.
    line.at(1200, Arrives(2), &[4]);
    line.next_timer(2200);
}
