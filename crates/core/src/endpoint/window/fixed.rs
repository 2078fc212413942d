//! A constant window: the sender that RFC 9743 section 7.6 and RFC 2914 section 3.2 warn of, as a
//! competitor for other controllers.
//!
//! Losses, marks and timeouts do not change the window. Recovery retransmits missing packets, so
//! that the connection is reliable. ECN may be negotiated, but marks have no effect.

use super::{Controller, ControllerPart, ControllerSetup};
use crate::endpoint::event::{AckEvent, CongestionEvent, ResetEvent};
use crate::part::{Form, Part, ValueKind, Words};

crate::parameters! {
    /// Parameters of the constant window.
    pub struct FixedConfig in "fixed_window", "parameters of fixed-window";
    /// Twenty packets.
    pub const DEFAULT;
    window: f64 = 20.0, ValueKind::Number { least: 1.0, most: 1e6 }, "packets", "constant cwnd";
}

/// The state of the constant window.
#[derive(Debug)]
pub struct Fixed(f64);

impl Part for Fixed {
    type Config = FixedConfig;
    const FORMS: &'static [Form<FixedConfig>] = &[Form {
        words: Words {
            name: "fixed-window",
            what: "a constant window",
            source: "RFC 2914 section 3.2",
        },
        config: FixedConfig::DEFAULT,
    }];
}

impl ControllerPart for Fixed {
    fn new(config: &FixedConfig, _: ControllerSetup<'_>) -> Self {
        Fixed(config.window)
    }
}

impl Controller for Fixed {
    fn cwnd(&self) -> f64 {
        self.0
    }
    fn on_ack(&mut self, _: &AckEvent) {}
    fn on_congestion(&mut self, _: &CongestionEvent) {}
    fn on_reset(&mut self, _: &ResetEvent) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::event::Path;

    #[test]
    fn nothing_moves_it() {
        let mut controller = Fixed(20.0);
        controller.on_congestion(&CongestionEvent::certain(Path::default()));
        controller.on_reset(&ResetEvent::timeout(Path::default()));
        controller.on_ack(&AckEvent {
            newly_acked: 1,
            growth: 1.0,
            cwnd_limited: true,
            ..AckEvent::default()
        });
        assert_eq!((controller.cwnd(), controller.ssthresh()), (20.0, f64::INFINITY));
    }
}
