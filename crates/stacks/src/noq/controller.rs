//! noq's congestion controllers: one that watches another, and those of Windward.

use std::sync::{Mutex, MutexGuard, PoisonError};

use windward_core::endpoint::driver::{Driver, DriverSetup, Figures, Frame, Pacer};
use windward_core::protocols::Protocol;
use windward_core::units::Time;

use crate::clock;
use crate::watched::Driven;

watching_controller! {
    noq_proto,
    watch(#[derive(Debug)]),
    on_ack(pn: u64),
    on_congestion_event(is_ecn: bool, largest_lost: u64),
    shown |controller| shown(controller),
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
}

/// Makes controllers that drive a protocol of Windward.
#[derive(Debug)]
pub(super) struct MakeDriving {
    pub(super) protocol: Protocol,
    pub(super) seed: u64,
}

impl ControllerFactory for MakeDriving {
    fn build(self: Arc<Self>, _now: Instant, mtu: u16) -> Box<dyn Controller> {
        let setup = DriverSetup { mtu, pacer: Pacer::Rate, seed: self.seed };
        let driver = Driver::new(&self.protocol, setup)
            .unwrap_or_else(|why| unreachable!("it was checked before: {why}"));
        Box::new(Driving { initial: driver.window(), driver: Arc::new(Mutex::new(driver)) })
    }
}

/// A driver behind noq, which reports each packet by its number and obeys pacing rates. Copies
/// share it: the simulator's connections have one path only.
#[derive(Debug, Clone)]
struct Driving {
    driver: Arc<Mutex<Driver>>,
    initial: u64,
}

impl Driving {
    fn driver(&self) -> MutexGuard<'_, Driver> {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Driven for Driving {
    fn figures(&self) -> Figures {
        self.driver().figures()
    }

    fn depart(&self, now: Time, bytes: usize) -> Option<Time> {
        self.driver().depart(now, bytes)
    }
}

/// A controller, if it is one of Windward.
fn shown(controller: Box<dyn Controller>) -> Option<Box<dyn Driven>> {
    let driving = controller.into_any().downcast::<Driving>().ok()?;
    Some(driving)
}

/// Bytes of a packet, which noq counts in 64 bits.
fn size(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

impl Controller for Driving {
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        self.driver().on_sent(clock::time(now), pn, bytes.into());
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        pn: u64,
        _app_limited: bool,
        rtt: &RttEstimator,
    ) {
        let (now, sent, smoothed) = (clock::time(now), clock::time(sent), clock::span(rtt.get()));
        self.driver().on_acked(now, sent, Some(pn), size(bytes), smoothed);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest: Option<u64>,
    ) {
        let now = clock::time(now);
        self.driver().on_frame(Frame { now, in_flight, app_limited, largest });
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, now: Instant) {
        self.driver().on_lost(clock::time(now), pn, lost_bytes.into());
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        _sent: Instant,
        persistent: bool,
        is_ecn: bool,
        _lost_bytes: u64,
        _largest_lost: u64,
    ) {
        let (now, mut driver) = (clock::time(now), self.driver());
        if is_ecn {
            driver.on_mark(now);
        }
        if persistent {
            driver.on_persistent_congestion(now);
        }
    }

    fn on_spurious_congestion_event(&mut self) {
        self.driver().on_spurious_losses();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.driver().set_mtu(new_mtu);
    }

    fn window(&self) -> u64 {
        self.driver().window()
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        metrics.ssthresh = self.driver().figures().ssthresh;
        metrics.pacing_rate = self.driver().pacing_rate();
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.initial
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
