//! Start-up, the growth of the window before anything is known of the path (`start_up.kind`), for
//! controllers that begin with slow start.
//!
//! A start-up ends with the first congestion, with the first timeout or by itself. Then the
//! controller continues alone, and a later slow start is that of RFC 5681. Slow start itself has no
//! state here; the controller implements it.

mod hystart;
mod rapid_start;

use super::super::EndpointConfig;
use crate::endpoint::event::{AckEvent, CongestionEvent};
use crate::part::ValueKind;
use crate::units::Duration;
use hystart::Hystart;
use rapid_start::RapidStart;

/// The kind of start-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartUpKind {
    /// Slow start (RFC 5681 section 3.1): the window doubles per round trip until a loss.
    SlowStart,
    /// HyStart++ (RFC 9406): slow start that ends when the RTT rises.
    Hystart,
    /// Rapid Start (draft-kazuho-ccwg-rapid-start): the window triples while no queue builds, and
    /// the first recovery finds the window that the path holds.
    RapidStart,
}

crate::words!(StartUpKind {
    SlowStart = "slow-start",
    Hystart = "hystart++",
    RapidStart = "rapid-start",
});

crate::parameters! {
    /// Parameters of start-ups.
    pub struct StartUpConfig in "start_up", "of reno, cubic, cuback and abba: growth at the start of a connection";
    /// Slow start, with the constants of RFC 9406 section 4.3 for HyStart++.
    pub const SLOW_START;
    kind: StartUpKind = StartUpKind::SlowStart, ValueKind::Word(StartUpKind::WORDS), "",
        "growth until the first congestion";
    min_rtt_thresh: Duration = Duration::from_millis(4), THRESH, "",
        "hystart++: smallest rise of the RTT that ends slow start", when = StartUpConfig::is_hystart;
    max_rtt_thresh: Duration = Duration::from_millis(16), THRESH, "",
        "hystart++: largest rise of the RTT that it requires", when = StartUpConfig::is_hystart;
    css_growth_divisor: f64 = 4.0, ValueKind::Number { least: 1.0, most: 1000.0 }, "",
        "hystart++: divisor of growth in conservative slow start", when = StartUpConfig::is_hystart;
    css_rounds: u32 = 5, ValueKind::Integer { least: 1, most: 1000 }, "round trips",
        "hystart++: length of conservative slow start", when = StartUpConfig::is_hystart;
    @check(config) {
        if config.min_rtt_thresh > config.max_rtt_thresh {
            return Err(format!(
                "start_up.min_rtt_thresh ({}) is longer than start_up.max_rtt_thresh ({})",
                config.min_rtt_thresh, config.max_rtt_thresh
            ));
        }
        Ok(())
    }
}

impl StartUpConfig {
    /// HyStart++ as RFC 9406 recommends it.
    pub const HYSTART: StartUpConfig =
        StartUpConfig { kind: StartUpKind::Hystart, ..StartUpConfig::SLOW_START };
    /// Rapid Start.
    pub const RAPID_START: StartUpConfig =
        StartUpConfig { kind: StartUpKind::RapidStart, ..StartUpConfig::SLOW_START };

    /// True for start-ups that end with a rise of the RTT.
    pub(super) fn measures_delay(&self) -> bool {
        self.kind != StartUpKind::SlowStart
    }

    fn is_hystart(&self) -> bool {
        self.kind == StartUpKind::Hystart
    }
}

/// The range of the thresholds of RTTs.
const THRESH: ValueKind =
    ValueKind::Time { least: Duration::from_ps(1), most: Duration::from_secs(1000) };

/// The start-up of one connection; empty after its end, and for slow start.
#[derive(Debug, Clone, Default)]
pub(super) struct StartUp(Option<Box<StartUpState>>);

#[derive(Debug, Clone)]
enum StartUpState {
    Hystart(Hystart),
    RapidStart(RapidStart),
}

/// The step of a start-up on an acknowledgment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Step {
    /// No step: the controller continues as usual.
    Continue,
    /// The whole response: the controller does nothing.
    Done,
    /// The end of start-up, with the window that the path and its queue hold, in packets.
    Found { full_bdp: f64 },
}

/// The window that a start-up opens.
pub(super) struct Opening<'a> {
    pub(super) cwnd: &'a mut f64,
    pub(super) ssthresh: &'a mut f64,
}

impl StartUp {
    pub(super) fn new(config: &StartUpConfig, endpoint: &EndpointConfig) -> Self {
        StartUp(match config.kind {
            StartUpKind::SlowStart => None,
            StartUpKind::Hystart => {
                Some(Box::new(StartUpState::Hystart(Hystart::new(config, endpoint.pacing))))
            }
            StartUpKind::RapidStart => {
                Some(Box::new(StartUpState::RapidStart(RapidStart::new(endpoint.initial_window))))
            }
        })
    }

    /// Handles an acknowledgment, before the controller itself grows.
    #[inline]
    pub(super) fn on_ack(&mut self, ack: &AckEvent, window: Opening<'_>) -> Step {
        if self.0.is_none() { Step::Continue } else { self.open(ack, window) }
    }

    #[inline(never)]
    fn open(&mut self, ack: &AckEvent, mut window: Opening<'_>) -> Step {
        let Some(state) = &mut self.0 else { return Step::Continue };
        let (step, over) = match &mut **state {
            StartUpState::Hystart(hystart) => hystart.on_ack(ack, &mut window),
            StartUpState::RapidStart(rapid) => rapid.on_ack(ack, &mut window),
        };
        if over {
            self.0 = None;
        }
        step
    }

    /// Handles congestion after which the controller keeps `beta` of the window. Returns the new
    /// window if the start-up responds in place of the controller.
    pub(super) fn on_congestion(
        &mut self,
        event: &CongestionEvent,
        beta: f64,
        cwnd: f64,
    ) -> Option<f64> {
        if let Some(StartUpState::RapidStart(rapid)) = self.0.as_deref_mut()
            && let Some(cwnd) = rapid.on_congestion(event, beta, cwnd)
        {
            return Some(cwnd);
        }
        self.0 = None;
        None
    }

    /// Ends the start-up, since the connection starts again in slow start.
    pub(super) fn on_reset(&mut self) {
        self.0 = None;
    }

    /// The pacing rate of the start-up if packets are paced, in packets per second.
    #[inline]
    pub(super) fn pacing_rate(&self, cwnd: f64) -> Option<f64> {
        match self.0.as_deref()? {
            StartUpState::Hystart(_) => None,
            StartUpState::RapidStart(rapid) => rapid.pacing_rate(cwnd),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::window::{AbbaConfig, CubicConfig};
    use crate::part::Parameters;

    #[test]
    fn thresholds_in_the_wrong_order_are_refused_wherever_they_stand() {
        let start_up =
            StartUpConfig { min_rtt_thresh: Duration::from_millis(20), ..StartUpConfig::HYSTART };
        let cubic = CubicConfig::starting(start_up);
        let abba = AbbaConfig { cubic, ..AbbaConfig::DEFAULT };
        let wrong = "start_up.min_rtt_thresh (20ms) is longer than start_up.max_rtt_thresh (16ms)";
        assert_eq!(cubic.validate(), Err(wrong.to_owned()));
        assert_eq!(abba.validate(), Err(wrong.to_owned()));
        assert_eq!(AbbaConfig::DEFAULT.validate(), Ok(()));
    }
}
