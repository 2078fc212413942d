//! Limits on the claims of headers from outside to XCP's router.
//!
//! XCP shares out bandwidth by the inter-packet time that each packet claims, its RTT divided by
//! its window. A router on a gateway cannot trust that: one packet that claims a year takes all
//! bandwidth there is to grant. But it can measure time. The packets of an honest flow together
//! claim as much time as passes, so a flow may claim [`RATE`] times the time that has passed, and
//! [`SAVED`] at once for packets that come in bursts; claims beyond that are cut. An RTT counts up
//! to a bound of the router, and a router before this one cannot have taken more from a flow than
//! the flow had.

use windward_core::packet::CongestionHeader;
use windward_core::units::Time;

use crate::headers::{self, View};

/// Claims of a flow as a multiple of the time that passes: a shrinking window claims more than
/// before.
const RATE: f64 = 2.0;
/// Maximum time that a flow may claim at once, seconds: bursts of flows with RTTs up to this are
/// accepted in full.
const SAVED: f64 = 0.2;
/// Maximum RTT that counts, seconds (draft-falk-xcp-spec-03 section 4.2).
const LONGEST_RTT: f64 = 1.0;
/// Minimum RTT for which a router before this one is trusted, seconds.
const SHORTEST_RTT: f64 = 0.01;
/// Number of flows that are remembered, by their hash: 96 kB. A flow that takes the place of
/// another begins anew.
const PLACES: usize = 4096;

/// Time that each flow may still claim.
#[derive(Debug)]
pub(super) struct Claims {
    salt: u64,
    places: Vec<Credit>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Credit {
    /// The hash of the flow; no label is zero.
    flow: u32,
    at: Time,
    /// Seconds.
    left: f64,
}

impl Claims {
    /// Claims before any packet. `salt` decides which flows share a place, so that senders cannot
    /// choose whose place they share.
    pub(super) fn new(salt: u64) -> Self {
        Claims { salt, places: vec![Credit::default(); PLACES] }
    }

    /// Cuts the claims of the XCP header of a packet that exceed the limit. Other packets stay as
    /// they are.
    pub(super) fn check(&mut self, now: Time, bytes: &mut [u8]) {
        let Some(View { ours: Some((mut packet, _)), seen, length, .. }) =
            headers::look(bytes, self.salt)
        else {
            return;
        };
        let was = packet.header;
        let CongestionHeader::Xcp { rtt, inter_packet, delta, .. } = &mut packet.header else {
            return;
        };
        *rtt = rtt.min(LONGEST_RTT);
        let flow = seen.label.flow;
        let credit = &mut self.places[flow as usize % PLACES];
        if credit.flow != flow {
            // The first packet of a flow claims nothing, since a sender can forge addresses at no
            // cost.
            *credit = Credit { flow, at: now, left: 0.0 };
        }
        *inter_packet = credit.take(now, *inter_packet);
        *delta = delta.max(-RATE * f64::from(length) / rtt.max(SHORTEST_RTT));
        if packet.header != was {
            let ecn = headers::codepoint(bytes);
            headers::write_back(bytes, &packet, ecn);
        }
    }
}

impl Credit {
    /// Part of `wanted` that may be claimed, seconds.
    fn take(&mut self, now: Time, wanted: f64) -> f64 {
        let passed = now.since(self.at).as_secs_f64();
        self.at = now;
        self.left = (self.left + RATE * passed).min(SAVED);
        let taken = wanted.clamp(0.0, self.left);
        self.left -= taken;
        taken
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use windward_core::packet::{Packet, PacketKind};
    use windward_core::units::Duration;
    use windward_core::wire;

    use super::*;

    /// An IPv4 packet with a datagram of Windward, from this port.
    fn datagram(port: u16, header: CongestionHeader, payload: usize) -> Vec<u8> {
        let packet = Packet { kind: PacketKind::Data, size: 1000, header, ..Packet::default() };
        let mut data = [0; wire::MAX];
        let length = wire::encode(&packet, &mut data).unwrap().max(payload);
        let mut datagram = data[..length.min(wire::MAX)].to_vec();
        datagram.resize(length, 0);
        let udp = (8 + datagram.len()) as u16;
        let mut bytes = vec![0x45, 0];
        bytes.extend((20 + udp).to_be_bytes());
        bytes.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend([port.to_be_bytes(), 9u16.to_be_bytes(), udp.to_be_bytes(), [0, 0]].concat());
        bytes.extend(datagram);
        bytes
    }

    fn xcp(rtt: f64, inter_packet: f64, delta: f64) -> CongestionHeader {
        CongestionHeader::Xcp { rtt, inter_packet, delta, congestion_flag: 0 }
    }

    fn checked(claims: &mut Claims, now: Time, port: u16, header: CongestionHeader) -> [f64; 3] {
        let mut bytes = datagram(port, header, 1000);
        claims.check(now, &mut bytes);
        match headers::look(&bytes, 0).unwrap().ours.unwrap().0.header {
            CongestionHeader::Xcp { rtt, inter_packet, delta, .. } => [rtt, inter_packet, delta],
            other => panic!("{other:?}"),
        }
    }

    fn at(ms: f64) -> Time {
        Time::ZERO + Duration::from_secs_f64(ms / 1000.0)
    }

    proptest! {
        #[test]
        fn no_flow_claims_more_than_twice_the_time_that_passes(
            gaps in proptest::collection::vec(0.0..100.0_f64, 1..200),
            wanted in proptest::collection::vec(prop_oneof![0.0..0.1_f64, 0.0..1e8_f64], 200),
        ) {
            let mut claims = Claims::new(7);
            let (mut now, mut sum) = (1000.0, 0.0);
            for (gap, wanted) in gaps.iter().zip(&wanted) {
                now += gap;
                let [_, taken, _] = checked(&mut claims, at(now), 1, xcp(0.1, *wanted, 0.0));
                prop_assert!(taken <= *wanted && taken >= 0.0);
                sum += taken;
                prop_assert!(sum <= 2.0 * (now - 1000.0) / 1000.0 + 1e-9);
            }
        }
    }

    #[test]
    fn who_tells_the_truth_is_believed_also_in_bursts() {
        let mut claims = Claims::new(7);
        for (rtt, window) in [(0.1, 1), (0.1, 50), (0.04, 20), (0.2, 8), (0.001, 2)] {
            // The window of each RTT leaves at once; each packet claims its share of the RTT, but
            // for those of the first RTT, which do not know it.
            for round in 0..50 {
                let is_first = round == 0;
                let now = at(1000.0 + f64::from(round) * rtt * 1000.0);
                for _ in 0..window {
                    let honest = if is_first { 0.0 } else { rtt / f64::from(window) };
                    let [r, x, delta] =
                        checked(&mut claims, now, window as u16, xcp(rtt, honest, 1e6));
                    assert_eq!((r, delta), (rtt, 1e6));
                    assert!((x - honest).abs() < 1e-9, "{rtt} {window} {round}: {x} for {honest}");
                }
            }
        }
    }

    #[test]
    fn a_forged_claim_gets_what_two_flows_get() {
        // 100 packets a second that claim 1e8 s each, for 10 s, and an honest flow. It claims 10 s,
        // and the forged packets get at most 2 x 10 s.
        let mut claims = Claims::new(7);
        let mut sum = 0.0;
        for number in 0..1000 {
            let now = at(1000.0 + 10.0 * f64::from(number));
            sum += checked(&mut claims, now, 1, xcp(0.04, 1e8, 0.0))[1];
            // Nor does another port for each packet help.
            let port = 1000 + number as u16;
            assert_eq!(checked(&mut claims, now, port, xcp(0.04, 1e8, 0.0))[1], 0.0);
        }
        // The first claims nothing.
        assert!((19.9..=20.0).contains(&sum), "{sum}");
    }

    #[test]
    fn rtts_and_what_others_took_have_bounds() {
        let mut claims = Claims::new(7);
        let [rtt, _, delta] = checked(&mut claims, at(1000.0), 1, xcp(50.0, 0.01, -1e12));
        // 1028 bytes of IP over the longest RTT of a second, twice.
        assert_eq!((rtt, delta), (1.0, -2056.0));
        let [_, _, delta] = checked(&mut claims, at(1001.0), 1, xcp(1e-9, 0.01, -1e12));
        // Over 10 ms at least.
        assert_eq!(delta, -205_600.0);
        let [_, _, delta] = checked(&mut claims, at(1002.0), 1, xcp(0.1, 0.01, -500.0));
        assert_eq!(delta, -500.0);
    }

    #[test]
    fn other_packets_stay_as_they_are() {
        let mut claims = Claims::new(7);
        for bytes in [datagram(1, CongestionHeader::None, 100), vec![0x45; 40], vec![]] {
            let mut after = bytes.clone();
            claims.check(at(5.0), &mut after);
            assert_eq!(after, bytes);
        }
    }
}
