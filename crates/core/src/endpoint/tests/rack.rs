//! RACK-TLP against RFC 8985, proportional rate reduction against RFC 9937, and what is Linux's.

use super::super::recovery::{Finding, RackConfig, RecoveryConfig};
use super::by_number::Scheme;
use super::*;

fn rack() -> Scheme {
    Scheme::of(RecoveryConfig::Rack(RackConfig::DEFAULT), 100)
}

/// Ten packets leave at once, and the first is lost: it is found at 102 ms.
fn with_a_loss() -> Scheme {
    let mut s = rack();
    s.cwnd = 10.0;
    assert_eq!(s.send(0, 10.0).len(), 10);
    assert_eq!(s.ack(100, 2, 0, &[(1, 2)]), Finding::Nothing);
    // Sent with the one that arrived, 100 ms ago; the reordering window is min_rtt / 4 = 25 ms.
    assert_eq!(s.deadline(), ms(100 + 25 + 2));
    assert_eq!(s.ack(101, 3, 0, &[(1, 3)]), Finding::Nothing);
    // Three have arrived out of order: no window (RFC 8985 section 6.2, step 4).
    assert_eq!(s.ack(102, 4, 0, &[(1, 4)]), Finding::Loss);
    assert_eq!(s.lost(), [1]);
    s
}

#[test]
fn a_peer_may_report_the_first_missing_packet() {
    let config = RackConfig { sack: false, ..RackConfig::DEFAULT };
    let mut s = Scheme::of(RecoveryConfig::Rack(config), 100);
    s.cwnd = 10.0;
    assert_eq!(s.send(0, 10.0).len(), 10);
    for number in 1..5 {
        s.ack(100 + number, number, 0, &[(0, 1)]);
    }
    assert_eq!(s.send(105, 20.0).first(), Some(&10), "the connection goes on");
}

#[test]
fn packets_sent_in_recovery_follow_arrivals() {
    let mut s = with_a_loss();
    // ssthresh 5 of 10. In flight 6: ceil(1 x 5 / 10) = 1 leaves.
    assert_eq!(s.send(102, 5.0), [0]);
    // In flight 6 again: ceil(2 x 5 / 10) - 1 = 0.
    s.ack(103, 5, 0, &[(1, 5)]);
    assert_eq!(s.send(103, 5.0), []);
    // In flight 5 = ssthresh: no room.
    s.ack(104, 6, 0, &[(1, 6)]);
    assert_eq!(s.send(104, 5.0), []);
    // In flight 4, below ssthresh: min(5 - 4, max(4 - 1, 1)) = 1.
    s.ack(105, 7, 0, &[(1, 7)]);
    assert_eq!(s.send(105, 5.0), [10]);
}

#[test]
fn a_lost_retransmission_is_found_by_what_left_after_it() {
    let mut s = with_a_loss();
    assert_eq!(s.send(102, 5.0), [0]);
    s.ack(105, 7, 0, &[(1, 7)]);
    assert_eq!(s.send(105, 5.0), [10]);
    // Packet 12 left at 105 ms with data 10; packet 11, the retransmission, 103 ms ago.
    assert_eq!(s.ack(205, 12, 0, &[(10, 11), (1, 7)]), Finding::Nothing, "the same recovery");
    assert_eq!(s.lost(), [8, 9, 10, 11]);
}

#[test]
fn a_tail_is_probed_and_a_timeout_doubted_once() {
    let mut s = rack();
    assert_eq!(s.send(0, 3.0), [0, 1, 2]);
    // RFC 8985 section 7.2: two round trips, and two ticks of Linux's clock.
    assert_eq!(s.deadline(), ms(202));
    assert_eq!(s.timer(202), Finding::Nothing);
    assert_eq!(s.send(202, 3.0), [3], "new data beyond the window");
    // The floor of the timeout is a second here.
    assert_eq!(s.deadline(), ms(1202));
    assert_eq!(s.timer(1202), Finding::Reset { repeated: false });
    assert_eq!(s.lost(), [1, 2, 3, 4]);
    assert_eq!(s.send(1202, 1.0), [0]);
    assert_eq!(s.deadline(), ms(3202));
    // RFC 5682 section 3.1, step 2b: new data first.
    assert_eq!(s.ack(1302, 5, 1, &[]), Finding::Nothing);
    assert_eq!(s.send(1302, 2.0), [4, 5]);
    // Step 3a: it arrives out of order, so the timeout was true.
    assert_eq!(s.ack(1402, 6, 1, &[(4, 5)]), Finding::Nothing);
    assert_eq!(s.send(1402, 2.0), [1]);
}
