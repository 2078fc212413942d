//! noq's congestion controllers.

congestion_controllers! {
    noq_proto,
    watch(#[derive(Debug)]),
    on_ack(pn: u64),
    on_congestion_event(is_ecn: bool, largest_lost: u64),
    is_mark |lost| is_ecn,
    metrics(pacing_rate),
    watched {
        fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
            self.inner.on_packet_sent(now, bytes, pn);
        }

        fn on_cwnd_limited(&mut self) {
            self.inner.on_cwnd_limited();
        }

        fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, now: Instant) {
            self.inner.on_packet_lost(lost_bytes, pn, now);
        }

        fn on_spurious_congestion_event(&mut self) {
            self.inner.on_spurious_congestion_event();
        }

        fn on_ack_frequency_update(
            &mut self,
            ack_eliciting_threshold: u64,
            requested_max_ack_delay: std::time::Duration,
        ) {
            self.inner.on_ack_frequency_update(ack_eliciting_threshold, requested_max_ack_delay);
        }
    },
    ours {
        fn on_spurious_congestion_event(&mut self) {
            self.law.on_spurious();
        }
    },
}
