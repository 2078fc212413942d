//! The windows of xcp-katabi and xcp-r, step by step. RTT 100 ms, packets of 1000 bytes.

use super::*;
use crate::endpoint::feedback::{CongestionFlag, FeedbackConfig, XcpRConfig};

impl Timeline {
    /// The routers grant the latest transmission of `seq` that many packets more a round trip:
    /// Delta_Throughput is packets x 1000 bytes / 0.1 s.
    #[track_caller]
    fn grant(&mut self, seq: u64, packets: f64) {
        let packet = self.wire.iter_mut().rev().find(|p| p.seq == seq).expect("on its way");
        let CongestionHeader::Xcp { delta, rtt, .. } = &mut packet.header else {
            panic!("not an XCP packet")
        };
        assert!(*rtt > 0.0, "granted without an RTT");
        *delta = packets * 10_000.0;
    }

    /// The congestion flags of the packets in flight.
    fn flags(&self) -> Vec<u16> {
        let flag = |p: &Packet| match p.header {
            CongestionHeader::Xcp { congestion_flag, .. } => congestion_flag,
            _ => panic!("not an XCP packet"),
        };
        self.wire.iter().map(flag).collect()
    }

    /// The packet with that number arrives, and its acknowledgment is put aside.
    fn arrive(&mut self, seq: u64) -> Packet {
        let index = self.wire.iter().position(|p| p.seq == seq).expect("on its way");
        let mut packet = self.wire.remove(index);
        if let CongestionHeader::Xcp { delta, .. } = &mut packet.header {
            *delta = 0.0;
        }
        assert!(self.receiver.on_data(self.now, &mut packet));
        packet
    }
}

/// A connection that has its first RTT sample: 0 to 7 were sent at 0, and 8 at 100 ms.
fn begun(protocol: &str, xcp_r: XcpRConfig) -> Timeline {
    let mut protocol = *protocols::find(protocol).expect("a row of the table");
    if let FeedbackConfig::XcpR(config) = &mut protocol.feedback {
        *config = xcp_r;
    }
    let mut line = Timeline::of(&protocol, &window(8.0));
    line.at(0, Start, EIGHT);
    line.at(100, Arrives(0), &[8]);
    line
}

#[test]
fn katabi_s_sender_heeds_new_data_alone() {
    let mut line = begun("xcp-katabi", XcpRConfig::DEFAULT);
    // 1 is lost. 8 went out with an RTT, so that it can be granted something.
    line.at(100, Arrives(2), &[9]); // Limited transmit: RFC 3042.
    line.at(100, Arrives(3), &[10]);
    line.grant(8, 4.0);
    line.at(200, Arrives(8), &[1]); // The third duplicate halves, and its grant is lost.
    line.cwnd(4.0);
    line.grant(1, 4.0);
    // 1 fills the gap up to 4: una 4, 7 outstanding (4 .. 10). 4 + 4 = 8: room for 11.
    line.at(300, Arrives(1), &[11]);
    line.cwnd(8.0);
    // Recovery timer: 1 s after the last new acknowledgment.
    line.at(1300, TimerExpires, &[4]);
    line.cwnd(1.0);
}

#[test]
fn xcp_dumb_heeds_duplicates_too() {
    let mut line = begun("xcp-dumb", XcpRConfig::DEFAULT);
    line.at(100, Arrives(2), &[9]);
    line.at(100, Arrives(3), &[10]);
    line.grant(8, 4.0);
    line.at(200, Arrives(8), &[1, 11]); // Halved to 4, and 4 added.
    line.cwnd(8.0);
}

#[test]
fn any_later_acknowledgment_makes_up_for_lost_ones() {
    let mut line = begun("xcp-r", XcpRConfig::DEFAULT);
    line.at(100, Arrives(1), &[9]);
    line.grant(8, 4.0);
    line.at(200, AckLost(2), &[]);
    line.at(200, AckLost(3), &[]);
    line.at(200, AckLost(4), &[]);
    line.at(200, AckLost(5), &[]);
    line.at(200, AckLost(6), &[]);
    line.at(200, AckLost(7), &[]);
    line.at(200, AckLost(8), &[]);
    line.cwnd(8.0);
    // 9 was granted nothing, but carries the 12 that were granted to 8.
    line.at(200, Arrives(9), &[10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21]);
    line.cwnd(12.0);
}

#[test]
fn a_duplicate_brings_the_window_too() {
    let mut line = begun("xcp-r", XcpRConfig::DEFAULT);
    line.grant(8, 3.0);
    // 1 to 7 are lost: a duplicate. Limited transmit lets one more out beside the window of 11,
    // of which 1 to 8 are outstanding.
    line.at(200, Arrives(8), &[9, 10, 11, 12]);
    line.cwnd(11.0);
}

/// Timeout with everything but the acknowledgment of 8 lost, which is late: it left the receiver
/// before that knew of the timeout.
fn timeout_with_an_ack_on_its_way(flag: CongestionFlag) -> (Timeline, Packet) {
    let mut line = begun("xcp-r", XcpRConfig { congestion_flag: flag, ..XcpRConfig::DEFAULT });
    let late = line.arrive(8);
    assert_eq!(late.seq, 1, "a duplicate");
    line.at(1100, TimerExpires, &[1]);
    line.cwnd(1.0);
    (line, late)
}

#[test]
fn an_acknowledgment_from_before_the_reset_does_not_undo_it() {
    let (mut line, late) = timeout_with_an_ack_on_its_way(CongestionFlag::Count);
    line.sender.on_ack(line.now, &late);
    line.cwnd(1.0);
    // The retransmission brings the flag, H_cwnd = 1, and a grant of 30.
    assert_eq!(line.flags().last(), Some(&1));
    line.grant(1, 30.0);
    line.at(1200, AckLost(1), &[2]); // Limited transmit, for the duplicate.
    // The second timeout changes no window, and the receiver keeps its 31.
    line.at(3100, TimerExpires, &[1]);
    assert_eq!(line.flags().last(), Some(&1));
    let next: Vec<u64> = (2..33).collect();
    line.at(3200, Arrives(1), &next);
    line.cwnd(31.0);
}

#[test]
fn taken_at_its_word_the_acknowledgment_undoes_the_reset() {
    let (mut line, late) = timeout_with_an_ack_on_its_way(CongestionFlag::Once);
    line.sender.on_ack(line.now, &late);
    line.cwnd(8.0);
    // The second timeout changes no window, sets no bit, and the receiver keeps its 31.
    let (mut line, _) = timeout_with_an_ack_on_its_way(CongestionFlag::Once);
    assert_eq!(line.flags().last(), Some(&1));
    line.grant(1, 30.0);
    line.at(1200, AckLost(1), &[]);
    line.at(3100, TimerExpires, &[1]);
    assert_eq!(line.flags().last(), Some(&0));
    let next: Vec<u64> = (2..33).collect();
    line.at(3200, Arrives(1), &next);
    line.cwnd(31.0);
}
