//! Congestion controllers of noq: one that watches another, and a congestion controller of ours.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use noq_proto::RttEstimator;
use noq_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use windward_core::endpoint::window::ControllerConfig;
use windward_core::units::Duration;

use crate::clock;
use crate::law::{Congestion, Driven, Frame};
use crate::watched::{Samples, Watched};

/// Makes controllers that hand everything on to others, and keep what `watched` keeps.
pub(super) struct Watching {
    pub(super) of: Arc<dyn ControllerFactory + Send + Sync>,
    pub(super) watched: Arc<Watched>,
}

impl ControllerFactory for Watching {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let watched = Arc::clone(&self.watched);
        let inner = Arc::clone(&self.of).build(now, current_mtu);
        Box::new(Watch { inner, watched, samples: Samples::default() })
    }
}

#[derive(Debug)]
struct Watch {
    inner: Box<dyn Controller>,
    watched: Arc<Watched>,
    samples: Samples,
}

impl Controller for Watch {
    fn on_sent(&mut self, now: Instant, bytes: u64, largest_pn: u64) {
        self.watched.sent(bytes);
        self.inner.on_sent(now, bytes, largest_pn);
    }

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

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        pn: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.samples.packet(sent);
        self.inner.on_ack(now, sent, bytes, pn, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        self.samples.frame(now, in_flight, &self.watched);
        self.inner.on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        is_ecn: bool,
        lost_bytes: u64,
        largest_lost_pn: u64,
    ) {
        self.watched.lost(lost_bytes);
        self.inner.on_congestion_event(
            now,
            sent,
            is_persistent_congestion,
            is_ecn,
            lost_bytes,
            largest_lost_pn,
        );
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        let (inner, watched) = (self.inner.clone_box(), Arc::clone(&self.watched));
        Box::new(Watch { inner, watched, samples: self.samples })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self.inner.into_any()
    }
}

/// Makes controllers of a congestion controller of ours.
#[derive(Debug)]
pub(super) struct Ours {
    pub(super) law: ControllerConfig,
    pub(super) seed: u64,
    pub(super) watched: Arc<Watched>,
}

impl ControllerFactory for Ours {
    fn build(self: Arc<Self>, _now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let law = Driven::new(&self.law, current_mtu, self.seed);
        Box::new(Law { law, made: self, mtu: current_mtu, in_flight: 0, srtt: Duration::ZERO })
    }
}

#[derive(Debug)]
struct Law {
    law: Driven,
    made: Arc<Ours>,
    mtu: u16,
    in_flight: u64,
    /// As of the acknowledgment before: noq tells no later one.
    srtt: Duration,
}

impl Controller for Law {
    fn on_sent(&mut self, _now: Instant, bytes: u64, last_packet_number: u64) {
        self.in_flight += bytes;
        self.law.on_sent(last_packet_number);
    }

    fn on_ack(
        &mut self,
        _now: Instant,
        sent: Instant,
        bytes: u64,
        _pn: u64,
        _app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.srtt = clock::span(rtt.get());
        self.law.on_packet_acked(clock::time(sent), bytes);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        self.in_flight = in_flight;
        let (now, largest, srtt) = (clock::time(now), largest_packet_num_acked, self.srtt);
        self.law.on_frame(&Frame { now, in_flight, app_limited, largest, srtt });
        self.made.watched.refused(self.law.refused_windows());
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        is_ecn: bool,
        lost_bytes: u64,
        _largest_lost_pn: u64,
    ) {
        self.law.on_congestion(&Congestion {
            now: clock::time(now),
            sent: clock::time(sent),
            in_flight: self.in_flight,
            persistent: is_persistent_congestion,
            marked: is_ecn,
            srtt: self.srtt,
        });
        self.in_flight = self.in_flight.saturating_sub(lost_bytes);
        self.made.watched.refused(self.law.refused_windows());
    }

    fn on_spurious_congestion_event(&mut self) {
        self.law.on_spurious();
    }

    /// The MTU is fixed.
    fn on_mtu_update(&mut self, _new_mtu: u16) {}

    fn window(&self) -> u64 {
        self.law.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        metrics.ssthresh = self.law.ssthresh();
        metrics.pacing_rate = self.law.pacing_rate();
        metrics
    }

    /// For another path: there is none, and it would begin anew.
    fn clone_box(&self) -> Box<dyn Controller> {
        Arc::clone(&self.made).build(clock::instant(windward_core::units::Time::ZERO), self.mtu)
    }

    fn initial_window(&self) -> u64 {
        Driven::new(&self.made.law, self.mtu, self.made.seed).window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
