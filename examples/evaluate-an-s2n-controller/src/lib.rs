//! A congestion controller of s2n-quic, and tests that evaluate it.
//!
//! It is AIMD(1, 0.7): one packet more per round trip, and 0.7 of the window after congestion.

use s2n_quic_core::random::Generator;
use s2n_quic_core::recovery::congestion_controller::Publisher;
use s2n_quic_core::recovery::{CongestionController, RttEstimator};
use s2n_quic_core::time::Timestamp;

/// The state of a connection.
#[derive(Debug, Clone)]
pub struct Aimd {
    /// Share of the window that remains after congestion.
    beta: f64,
    mtu: u32,
    window: u32,
    threshold: u32,
    in_flight: u32,
    /// Bytes acknowledged towards the next packet.
    counted: u32,
    /// Packets sent before belong to the window of the last congestion.
    since: Option<Timestamp>,
}

impl Aimd {
    /// A controller for datagrams of this size; `beta` is above 0 and below 1.
    pub fn new(mtu: u16, beta: f64) -> Self {
        let mtu = u32::from(mtu);
        let (window, threshold) = (10 * mtu, u32::MAX);
        Aimd { beta, mtu, window, threshold, in_flight: 0, counted: 0, since: None }
    }

    fn congested(&mut self, sent: Timestamp, now: Timestamp, persistent: bool) {
        if self.since.is_some_and(|since| sent <= since) {
            return;
        }
        self.since = Some(now);
        let least = 2 * self.mtu;
        self.threshold = ((f64::from(self.window) * self.beta) as u32).max(least);
        self.window = if persistent { least } else { self.threshold };
    }
}

impl CongestionController for Aimd {
    /// The sending time.
    type PacketInfo = Timestamp;

    fn congestion_window(&self) -> u32 {
        self.window
    }

    fn bytes_in_flight(&self) -> u32 {
        self.in_flight
    }

    fn is_congestion_limited(&self) -> bool {
        self.window.saturating_sub(self.in_flight) < self.mtu
    }

    fn requires_fast_retransmission(&self) -> bool {
        false
    }

    fn on_packet_sent<Pub: Publisher>(
        &mut self,
        time_sent: Timestamp,
        sent_bytes: usize,
        _app_limited: Option<bool>,
        _rtt_estimator: &RttEstimator,
        _publisher: &mut Pub,
    ) -> Timestamp {
        self.in_flight += sent_bytes as u32;
        time_sent
    }

    fn on_rtt_update<Pub: Publisher>(
        &mut self,
        _time_sent: Timestamp,
        _now: Timestamp,
        _rtt_estimator: &RttEstimator,
        _publisher: &mut Pub,
    ) {
    }

    fn on_ack<Pub: Publisher>(
        &mut self,
        newest_acked_time_sent: Timestamp,
        bytes_acknowledged: usize,
        _newest_acked_packet_info: Timestamp,
        _rtt_estimator: &RttEstimator,
        _random_generator: &mut dyn Generator,
        _ack_receive_time: Timestamp,
        _publisher: &mut Pub,
    ) {
        let bytes = bytes_acknowledged as u32;
        let was_full = self.in_flight + 2 * self.mtu >= self.window;
        self.in_flight = self.in_flight.saturating_sub(bytes);
        if !was_full || self.since.is_some_and(|since| newest_acked_time_sent <= since) {
            return;
        }
        if self.window < self.threshold {
            self.window += bytes;
            return;
        }
        self.counted += bytes;
        if self.counted >= self.window {
            self.counted -= self.window;
            self.window += self.mtu;
        }
    }

    fn on_packet_lost<Pub: Publisher>(
        &mut self,
        lost_bytes: u32,
        packet_info: Timestamp,
        persistent_congestion: bool,
        _new_loss_burst: bool,
        _random_generator: &mut dyn Generator,
        timestamp: Timestamp,
        _publisher: &mut Pub,
    ) {
        self.in_flight = self.in_flight.saturating_sub(lost_bytes);
        self.congested(packet_info, timestamp, persistent_congestion);
    }

    fn on_explicit_congestion<Pub: Publisher>(
        &mut self,
        _ce_count: u64,
        event_time: Timestamp,
        _publisher: &mut Pub,
    ) {
        self.congested(event_time, event_time, false);
    }

    fn on_mtu_update<Pub: Publisher>(&mut self, max_data_size: u16, _publisher: &mut Pub) {
        self.mtu = u32::from(max_data_size);
    }

    fn on_packet_discarded<Pub: Publisher>(&mut self, bytes_sent: usize, _publisher: &mut Pub) {
        self.in_flight = self.in_flight.saturating_sub(bytes_sent as u32);
    }

    fn earliest_departure_time(&self) -> Option<Timestamp> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_fit_for_the_internet() {
        let mine = |mtu| Aimd::new(mtu, 0.7);
        windward_evaluate::s2n(mine).assert_meets(["collapse", "high-loss", "fairness", "wired"]);
    }

    #[test]
    fn a_window_of_zero_is_a_verdict() {
        let closed = |mtu| Aimd { window: 0, ..Aimd::new(mtu, 0.7) };
        let evaluation = windward_evaluate::s2n(closed).only(["wired"]).run().unwrap();
        assert!(!evaluation.passes(), "{evaluation}");
        assert!(evaluation.to_string().contains("a window of 0 packets"), "{evaluation}");
    }
}
