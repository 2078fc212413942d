//! Delivery-rate samples (draft-ietf-ccwg-bbr-06, section "Delivery Rate Samples"; before it
//! draft-cheng-iccrg-delivery-rate-estimation).
//!
//! Each transmission stores the number of packets delivered before it was sent, and the time. When
//! it is acknowledged, the packets delivered since divided by the elapsed time are a sample of the
//! rate of the path. The elapsed time is the longer of the interval in which the data was sent and
//! that in which it was acknowledged, so that neither bursts of data nor compressed acknowledgments
//! raise the rate beyond that of the path:
//!
//! ```text
//! send_elapsed = P.send_time - P.first_send_time
//! ack_elapsed  = C.delivered_time - P.delivered_time
//! rate         = (C.delivered - P.delivered) / max(send_elapsed, ack_elapsed)
//! ```
//!
//! A sample counts as limited by the application if the sender had run out of data, with room in
//! its window, when the packet was sent, or earlier and that gap is not acknowledged yet.
//!
//! The draft discards samples over less than the smallest round-trip time, which a spurious
//! retransmission could cause. Here the acknowledged transmission is known, so that ack_elapsed is
//! never less than its round-trip time.
//!
//! Deviation: if the data of a transmission turns out to have arrived by an earlier one, it counts
//! as delivered once and gives no sample; the draft would count it again.

use std::collections::VecDeque;

use crate::endpoint::{real, seconds};
use crate::units::{Duration, Time};

/// The state of the connection when a packet was sent (the draft's P).
#[derive(Debug, Clone, Copy)]
struct Sent {
    at: Time,
    first_sent: Time,
    delivered: u64,
    delivered_time: Time,
    lost: u64,
    tx_in_flight: u64,
    is_app_limited: bool,
}

/// The draft's per-connection state, and the state of each transmission under way.
#[derive(Debug, Clone, Default)]
pub struct DeliveryRate {
    /// C.delivered and C.lost, packets.
    delivered: u64,
    lost: u64,
    delivered_time: Time,
    /// C.first_send_time: the time at which the packet delivered last was sent.
    first_sent: Time,
    /// C.app_limited: the value of `delivered` that ends the phase; 0 outside such a phase.
    app_limited: u64,
    /// Transmissions by number, beginning with `base`.
    sent: VecDeque<Sent>,
    base: u64,
    /// The newest packet delivered by the present acknowledgment, which gives the sample.
    newest: Option<u64>,
    newly_acked: u64,
    newly_lost: u64,
}

/// A delivery-rate sample from one acknowledgment (the draft's RS). Volumes in packets.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RateSample {
    /// The time of its arrival.
    pub now: Time,
    /// Packets that it reports as delivered; at least 1.
    pub newly_acked: u64,
    /// Packets found lost by it.
    pub newly_lost: u64,
    /// C.delivered: packets delivered since the start.
    pub total_delivered: u64,
    /// P.delivered of the newest packet delivered.
    pub prior_delivered: u64,
    /// Packets delivered since that packet was sent.
    pub delivered: u64,
    /// The delivery rate, packets per second; 0 if no time passed.
    pub rate: f64,
    /// True if the application limited the rate.
    pub is_app_limited: bool,
    /// Packets in flight after the newest packet was sent, including itself.
    pub tx_in_flight: u64,
    /// Packets found lost since the newest packet was sent.
    pub lost: u64,
    /// Round-trip time of the newest packet, greater than zero; `None` if it is not known.
    pub rtt: Option<Duration>,
    /// Packets in flight now.
    pub in_flight: u64,
    /// Packets that were in flight before the acknowledgment.
    pub prior_in_flight: u64,
    /// True while a loss of the last round trip is being repaired.
    pub in_recovery: bool,
}

/// A transmission found lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LostPacket {
    /// Its number.
    pub number: u64,
    /// The time at which it was sent.
    pub sent: Time,
    /// Total packets delivered when it was found lost.
    pub total_delivered: u64,
    /// Packets in flight after it was sent, including itself.
    pub tx_in_flight: u64,
    /// Packets found lost since it was sent, including itself.
    pub lost: u64,
    /// True if the application had run out of data when it was sent.
    pub is_app_limited: bool,
}

impl DeliveryRate {
    /// True if the application limits the connection (C.app_limited).
    pub fn is_app_limited(&self) -> bool {
        self.app_limited > 0
    }

    /// Begins a phase in which the application has no more data although the window has room.
    pub fn mark_app_limited(&mut self, in_flight: u64) {
        self.app_limited = (self.delivered + in_flight).max(1);
    }

    /// Records transmission `number`, sent with `in_flight` packets in flight.
    pub fn on_sent(&mut self, now: Time, number: u64, in_flight: u64) {
        if in_flight == 0 {
            self.first_sent = now;
            self.delivered_time = now;
        }
        if self.sent.is_empty() {
            self.base = number;
        }
        debug_assert_eq!(self.base + self.sent.len() as u64, number, "numbers are consecutive");
        self.sent.push_back(Sent {
            at: now,
            first_sent: self.first_sent,
            delivered: self.delivered,
            delivered_time: self.delivered_time,
            lost: self.lost,
            tx_in_flight: in_flight + 1,
            is_app_limited: self.is_app_limited(),
        });
    }

    #[inline]
    fn packet(&self, number: u64) -> Option<&Sent> {
        let at = number.checked_sub(self.base)?;
        self.sent.get(at as usize)
    }

    /// Records the delivery of transmission `number`.
    pub fn on_delivered(&mut self, now: Time, number: u64) {
        self.on_unattributed_delivery(now);
        let Some(at) = self.packet(number).map(|packet| packet.at) else { return };
        if self.newest.is_none_or(|newest| number > newest) {
            self.newest = Some(number);
            self.first_sent = at;
        }
    }

    /// Records the delivery of a packet by an unknown transmission.
    pub fn on_unattributed_delivery(&mut self, now: Time) {
        self.delivered += 1;
        self.delivered_time = now;
        self.newly_acked += 1;
    }

    /// Records the loss of transmission `number`.
    pub fn on_lost(&mut self, number: u64) -> Option<LostPacket> {
        self.lost += 1;
        self.newly_lost += 1;
        let packet = self.packet(number)?;
        Some(LostPacket {
            number,
            sent: packet.at,
            total_delivered: self.delivered,
            tx_in_flight: packet.tx_in_flight,
            lost: self.lost - packet.lost,
            is_app_limited: packet.is_app_limited,
        })
    }

    /// Forgets transmissions before `oldest`, which are no longer in flight.
    pub fn forget_before(&mut self, oldest: u64) {
        while self.base < oldest && self.sent.pop_front().is_some() {
            self.base += 1;
        }
    }

    /// Ends the handling of an acknowledgment or a timer. Returns the sample, if there is one.
    /// `oldest` is the first transmission in flight, and `in_flight` their number.
    #[inline(always)]
    pub fn finish(
        &mut self,
        now: Time,
        oldest: u64,
        in_flight: u64,
        in_recovery: bool,
    ) -> Option<RateSample> {
        let packet = self.newest.take().and_then(|number| self.packet(number).copied());
        self.forget_before(oldest);
        if self.app_limited > 0 && self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        let newly_acked = std::mem::take(&mut self.newly_acked);
        let newly_lost = std::mem::take(&mut self.newly_lost);
        let packet = packet?;
        let send_elapsed = packet.at.since(packet.first_sent);
        let ack_elapsed = self.delivered_time.since(packet.delivered_time);
        let interval = send_elapsed.max(ack_elapsed);
        let delivered = self.delivered - packet.delivered;
        Some(RateSample {
            now,
            newly_acked,
            newly_lost,
            total_delivered: self.delivered,
            prior_delivered: packet.delivered,
            delivered,
            rate: if interval.is_zero() { 0.0 } else { real(delivered) / seconds(interval) },
            is_app_limited: packet.is_app_limited,
            tx_in_flight: packet.tx_in_flight,
            lost: self.lost - packet.lost,
            rtt: Some(now.since(packet.at)).filter(|rtt| !rtt.is_zero()),
            in_flight,
            prior_in_flight: in_flight + newly_acked + newly_lost,
            in_recovery,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ms;

    fn acknowledged(
        rate: &mut DeliveryRate,
        at: u64,
        numbers: &[u64],
        in_flight: u64,
    ) -> RateSample {
        for number in numbers {
            rate.on_delivered(ms(at), *number);
        }
        rate.finish(ms(at), numbers[numbers.len() - 1] + 1, in_flight, false).expect("a sample")
    }

    #[test]
    fn a_sample_spans_a_round_trip() {
        let mut rate = DeliveryRate::default();
        for (i, at) in [0, 10, 20, 30].into_iter().enumerate() {
            rate.on_sent(ms(at), 1 + i as u64, i as u64);
        }
        // The first: 1 packet since 0 ms, acknowledged at 100 ms: 10 a second.
        let first = acknowledged(&mut rate, 100, &[1], 3);
        assert_eq!(
            (first.delivered, first.prior_delivered, first.rtt),
            (1, 0, Some(Duration::from_millis(100)))
        );
        assert!((first.rate - 10.0).abs() < 1e-9);
        rate.on_sent(ms(100), 5, 3);
        // The last of the first flight: 4 packets in 130 ms.
        acknowledged(&mut rate, 110, &[2], 3);
        let last = acknowledged(&mut rate, 130, &[3, 4], 1);
        assert!((last.rate - 4.0 / 0.13).abs() < 1e-9);
        assert_eq!((last.newly_acked, last.prior_in_flight), (2, 3));
        // Packet 5 went when 1 had been delivered, at 100 ms: 4 more by 200 ms.
        let next = acknowledged(&mut rate, 200, &[5], 0);
        assert_eq!((next.prior_delivered, next.delivered), (1, 4));
        assert!((next.rate - 40.0).abs() < 1e-9);
    }

    #[test]
    fn compressed_acknowledgments_do_not_raise_the_rate() {
        // Ten packets, 10 ms apart: 100 a second. The first acknowledgment arrives at 100 ms, all
        // others at 200 ms. Packets 2 to 10 were sent over 90 ms and acknowledged over 200 ms since
        // 0: at most 10 / 0.2 = 50 a second, and never 9 in zero time.
        let mut rate = DeliveryRate::default();
        for i in 0..10 {
            rate.on_sent(ms(10 * i), 1 + i, i);
        }
        acknowledged(&mut rate, 100, &[1], 9);
        // Packet 11 leaves on the first acknowledgment; it spans 100 to 210 ms.
        rate.on_sent(ms(100), 11, 9);
        let bunch = acknowledged(&mut rate, 200, &[2, 3, 4, 5, 6, 7, 8, 9, 10], 1);
        assert!((bunch.rate - 50.0).abs() < 1e-9, "{}", bunch.rate);
        let after = acknowledged(&mut rate, 210, &[11], 0);
        // 10 packets since packet 1, sent over 100 ms (0 to 100), acknowledged over 110 ms.
        assert!((after.rate - 10.0 / 0.11).abs() < 1e-9, "{}", after.rate);
    }

    #[test]
    fn an_application_limited_phase_ends_when_its_gap_is_acknowledged() {
        let mut rate = DeliveryRate::default();
        rate.on_sent(ms(0), 1, 0);
        rate.mark_app_limited(1);
        rate.on_sent(ms(10), 2, 1);
        // delivered 1 is not beyond 0 + 1: still in the phase.
        assert!(!acknowledged(&mut rate, 100, &[1], 1).is_app_limited);
        assert!(rate.is_app_limited());
        assert!(acknowledged(&mut rate, 110, &[2], 0).is_app_limited);
        assert!(!rate.is_app_limited());
    }

    #[test]
    fn losses_are_counted_from_the_transmission_on() {
        let mut rate = DeliveryRate::default();
        for number in 1..=6 {
            rate.on_sent(ms(number), number, number - 1);
        }
        rate.on_delivered(ms(100), 4);
        let one = rate.on_lost(1).expect("known");
        assert_eq!((one.tx_in_flight, one.lost, one.number, one.sent), (1, 1, 1, ms(1)));
        assert_eq!(rate.on_lost(2).map(|p| (p.tx_in_flight, p.lost)), Some((2, 2)));
        let sample = rate.finish(ms(100), 3, 3, true).expect("a sample");
        assert_eq!((sample.lost, sample.newly_lost, sample.prior_in_flight), (2, 2, 6));
        // Sent after those were found lost: no losses since.
        rate.on_sent(ms(100), 7, 3);
        rate.on_delivered(ms(200), 7);
        assert_eq!(rate.finish(ms(200), 8, 2, true).expect("a sample").lost, 0);
    }
}
