//! The congestion controller that watches another, behind the trait of a stack.

/// Implements the watching controller of `$proto`. Features of only one of the stacks are optional:
/// an attribute of the controller, the argument `$pn` of `on_ack`, `$is_ecn` and `$largest_lost` of
/// `on_congestion_event`, and the methods of `watched`. `shown` makes a reader of a controller of
/// Windward.
macro_rules! watching_controller {
    (
        $proto:ident,
        watch($(#[$attribute:meta])?),
        on_ack($($pn:ident: $pn_type:ty)?),
        on_congestion_event($($is_ecn:ident: $ecn_type:ty, $largest_lost:ident: $lost_type:ty)?),
        shown |$shown:ident| $figures:expr,
        watched { $($watch:tt)* },
    ) => {
        use std::any::Any;
        use std::sync::Arc;
        use std::time::Instant;

        use $proto::RttEstimator;
        use $proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

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
                let $shown = inner.clone_box();
                watched.show($figures);
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
                self.watched.sent(bytes, now);
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
                self.watched.tell(|judge| {
                    judge.delivered(1);
                    judge.after("an acknowledgment", clock::time(now));
                });
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
                lost: u64,
                $($largest_lost: $lost_type,)?
            ) {
                self.watched.lost(lost);
                self.watched.tell(|judge| judge.after("a loss or a mark", clock::time(now)));
                self.inner.on_congestion_event(
                    now,
                    sent,
                    persistent,
                    $($is_ecn,)?
                    lost,
                    $($largest_lost,)?
                );
            }

            fn on_mtu_update(&mut self, new_mtu: u16) {
                self.inner.on_mtu_update(new_mtu);
            }

            fn window(&self) -> u64 {
                self.watched.window(self.inner.window())
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
    };
}
