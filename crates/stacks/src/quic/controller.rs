//! Congestion controllers behind the trait of a stack: one that watches another, and one that
//! drives a congestion controller of Windward.

/// Implements the controllers of `$proto`. Features of only one of the stacks are optional: an
/// attribute of the watching controller, the argument `$pn` of `on_ack`, `$is_ecn` and
/// `$largest_lost` of `on_congestion_event`, the field `$pacing_rate` of the metrics, and the
/// methods of `watched` and `ours`. `is_mark` distinguishes an ECN mark from a loss.
macro_rules! congestion_controllers {
    (
        $proto:ident,
        watch($(#[$attribute:meta])?),
        on_ack($($pn:ident: $pn_type:ty)?),
        on_congestion_event($($is_ecn:ident: $ecn_type:ty, $largest_lost:ident: $lost_type:ty)?),
        is_mark |$lost:ident| $is_mark:expr,
        metrics($($pacing_rate:ident)?),
        watched { $($watch:tt)* },
        ours { $($ours:tt)* },
    ) => {
        use std::any::Any;
        use std::sync::Arc;
        use std::time::Instant;

        use $proto::RttEstimator;
        use $proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
        use windward_core::endpoint::window::ControllerConfig;
        use windward_core::units::{Duration, Time};

        use crate::clock;
        use crate::law::{Congestion, Driven, Frame};
        use crate::watched::{Samples, Watched};

        /// Makes controllers that pass all events on to others, and record those of [`Watched`].
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

        $(#[$attribute])?
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

            fn on_ack(
                &mut self,
                now: Instant,
                sent: Instant,
                bytes: u64,
                $($pn: $pn_type,)?
                app_limited: bool,
                rtt: &RttEstimator,
            ) {
                self.samples.packet(sent);
                self.inner.on_ack(now, sent, bytes, $($pn,)? app_limited, rtt);
            }

            fn on_end_acks(
                &mut self,
                now: Instant,
                in_flight: u64,
                app_limited: bool,
                largest: Option<u64>,
            ) {
                self.samples.frame(now, in_flight, &self.watched);
                self.inner.on_end_acks(now, in_flight, app_limited, largest);
            }

            fn on_congestion_event(
                &mut self,
                now: Instant,
                sent: Instant,
                persistent: bool,
                $($is_ecn: $ecn_type,)?
                $lost: u64,
                $($largest_lost: $lost_type,)?
            ) {
                self.watched.lost($lost);
                self.inner.on_congestion_event(
                    now,
                    sent,
                    persistent,
                    $($is_ecn,)?
                    $lost,
                    $($largest_lost,)?
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

            $($watch)*
        }

        /// Makes controllers that drive a congestion controller of Windward.
        #[derive(Debug)]
        pub(super) struct MakeDriving {
            pub(super) law: ControllerConfig,
            pub(super) seed: u64,
            pub(super) watched: Arc<Watched>,
        }

        impl ControllerFactory for MakeDriving {
            fn build(self: Arc<Self>, _now: Instant, mtu: u16) -> Box<dyn Controller> {
                let law = Driven::new(&self.law, mtu, self.seed);
                Box::new(Driving { law, made: self, mtu, in_flight: 0, srtt: Duration::ZERO })
            }
        }

        #[derive(Debug)]
        struct Driving {
            law: Driven,
            made: Arc<MakeDriving>,
            mtu: u16,
            in_flight: u64,
            /// As of the last ACK: the stack gives no newer value.
            srtt: Duration,
        }

        impl Controller for Driving {
            fn on_sent(&mut self, _now: Instant, bytes: u64, largest_pn: u64) {
                self.in_flight += bytes;
                self.law.on_sent(largest_pn);
            }

            fn on_ack(
                &mut self,
                _now: Instant,
                sent: Instant,
                bytes: u64,
                $(_: $pn_type,)?
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
                largest: Option<u64>,
            ) {
                self.in_flight = in_flight;
                let (now, srtt) = (clock::time(now), self.srtt);
                self.law.on_frame(&Frame { now, in_flight, app_limited, largest, srtt });
                self.made.watched.refused(self.law.refused_windows());
            }

            fn on_congestion_event(
                &mut self,
                now: Instant,
                sent: Instant,
                persistent: bool,
                $($is_ecn: $ecn_type,)?
                $lost: u64,
                $(_: $lost_type,)?
            ) {
                self.law.on_congestion(&Congestion {
                    now: clock::time(now),
                    sent: clock::time(sent),
                    in_flight: self.in_flight,
                    persistent,
                    marked: $is_mark,
                    srtt: self.srtt,
                });
                self.in_flight = self.in_flight.saturating_sub($lost);
                self.made.watched.refused(self.law.refused_windows());
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
                $(metrics.$pacing_rate = self.law.pacing_rate();)?
                metrics
            }

            /// A controller for another path. The simulator's connections have only one.
            fn clone_box(&self) -> Box<dyn Controller> {
                Arc::clone(&self.made).build(clock::instant(Time::ZERO), self.mtu)
            }

            fn initial_window(&self) -> u64 {
                Driven::new(&self.made.law, self.mtu, self.made.seed).window()
            }

            fn into_any(self: Box<Self>) -> Box<dyn Any> {
                self
            }

            $($ours)*
        }
    };
}
