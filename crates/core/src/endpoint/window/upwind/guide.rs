//! Help from routers: while they help, the controller of their feedback sets the window.
//!
//! | feedback | controller | end |
//! | --- | --- | --- |
//! | XCP's header with less than was demanded | XCP (Katabi 2002); losses do not count as congestion | no feedback for four round trips |
//! | a phase of ESTCP | ESTCP (estcp2010); losses do not count as congestion, because overflows are reported | the same |
//! | XTCP's congestion flag | XTCP (lr2008 section 3.2); losses do not count as congestion | no flag for 20 s, and a queue that was at most 0.7 as long with the last one |
//! | an echo of each mark, where feedback is `l4s` (RFC 9332) | Prague | the same |
//!
//! A mark of classic ECN (RFC 3168) selects no controller. It is certain congestion, at most once
//! in a round trip, and halves the window, the shadow and the ceiling in any mode:
//!
//! ```text
//! C = min(C, cwnd) / 2;  cwnd = min(cwnd, C);  S = S / 2
//! ```
//!
//! A cut for losses of the same round trip counts as a part of it. Start-up ends, and spurious
//! losses undo nothing of it. C then grows by a packet in a round trip, as NewReno does; its growth
//! by 5 % without a standing queue pauses for ten. So marks bound the window as those of a NewReno
//! with ECN. A window that keeps a short queue without marks stays as it is.
//!
//! A flag or a mark reports congestion now, from any router, and ends the grants of XCP or ESTCP.
//! Grants do not help if the bottleneck is another queue. XCP and ESTCP are therefore ignored, for
//! 20 s at first and twice as long each time, if a round trip loses 20 points more than the least
//! lossy one and congestion is likely, or if more than half of the window waits in queues for 20
//! round trips. This limits the effect of a forged header, as does the upper
//! bound of every window, twice the packets delivered.

use super::compete::BETA;
use super::delay::SHRUNK;
use super::queue::{CYCLE, CYCLE_ROUNDS, FLOOR_SPAN, SWING_ROUNDS};
use super::{LEAST, Upwind, UpwindMode};
use crate::endpoint::EndpointConfig;
use crate::endpoint::event::{AckEvent, CongestionEvent};
use crate::endpoint::feedback::{ESTCP_UNWRITTEN, FeedbackConfig, stamp_xcp};
use crate::endpoint::window::{Controller, estcp::Estcp, prague::Prague, xcp::Xcp, xtcp::Xtcp};
use crate::packet::{CongestionHeader, Flags, Packet};
use crate::units::{Duration, Time};

/// The kind of feedback received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Help {
    Xcp,
    Phase,
    Flag,
    EachMark,
}

/// The controller of the feedback received.
#[derive(Debug, Clone)]
enum HelpedController {
    Xcp(Xcp),
    Phase(Box<Estcp>),
    Flag(Xtcp),
    EachMark(Prague),
}

/// Evaluates an expression with the controller, of any kind.
macro_rules! each {
    ($of:expr, $controller:ident => $does:expr) => {
        match $of {
            HelpedController::Xcp($controller) => $does,
            HelpedController::Phase($controller) => $does,
            HelpedController::Flag($controller) => $does,
            HelpedController::EachMark($controller) => $does,
        }
    };
}

impl HelpedController {
    fn new(help: Help, cwnd: f64, is_opening: bool, packet_size: u32) -> Self {
        match help {
            Help::Xcp => HelpedController::Xcp(Xcp::at(cwnd, packet_size)),
            Help::Phase => HelpedController::Phase(Box::new(Estcp::at(cwnd, is_opening))),
            Help::Flag => HelpedController::Flag(Xtcp::at(cwnd)),
            Help::EachMark => HelpedController::EachMark(Prague::at(cwnd)),
        }
    }
    fn help(&self) -> Help {
        match self {
            HelpedController::Xcp(_) => Help::Xcp,
            HelpedController::Phase(_) => Help::Phase,
            HelpedController::Flag(_) => Help::Flag,
            HelpedController::EachMark(_) => Help::EachMark,
        }
    }
}

/// The help of routers, and the controller that uses it.
#[derive(Debug, Clone)]
pub(super) struct Guide {
    packet_size: u32,
    /// True if marks are echoed one by one, as in L4S.
    each_mark: bool,
    /// True if packets may carry headers for routers.
    asks: bool,
    controller: Option<HelpedController>,
    /// The time and the round trip of the last feedback, and the queueing delay then.
    heard: (Time, u64),
    waited: f64,
    /// Round trips in which too many packets waited.
    waiting: u32,
    /// The time until which grants are ignored, and the length of the next such time.
    aside_until: Time,
    aside: Duration,
}

impl Guide {
    pub(super) fn new(endpoint: &EndpointConfig, feedback: &FeedbackConfig) -> Self {
        Guide {
            packet_size: endpoint.packet_size,
            each_mark: matches!(feedback, FeedbackConfig::L4s(_) | FeedbackConfig::ExactEcn(_)),
            asks: matches!(feedback, FeedbackConfig::Help(_)),
            controller: None,
            heard: (Time::ZERO, 0),
            waited: 0.0,
            waiting: 0,
            aside_until: Time::ZERO,
            aside: CYCLE,
        }
    }

    /// The help that an acknowledgment reports.
    fn heard_in(&self, ack: &AckEvent) -> Option<Help> {
        if ack.flags.contains(Flags::CONGESTION) {
            return Some(Help::Flag);
        }
        if self.each_mark && ack.flags.contains(Flags::ECN_ECHO) {
            return Some(Help::EachMark);
        }
        match ack.header {
            // A demand that no router reduced comes back unchanged.
            CongestionHeader::XcpReverse { feedback } if feedback < f64::MAX / 2.0 => {
                Some(Help::Xcp)
            }
            CongestionHeader::Estcp { phase, .. } if phase > 0 => Some(Help::Phase),
            _ => None,
        }
    }

    /// Ignores grants for a while.
    fn put_aside(&mut self, now: Time) {
        self.aside_until = now + self.aside;
        self.aside = self.aside.saturating_mul(2).min(FLOOR_SPAN);
    }

    /// Begins anew, since the connection starts again.
    pub(super) fn reset(&mut self) {
        self.controller = None;
    }
}

impl Help {
    /// True if every packet carries this feedback.
    fn is_steady(self) -> bool {
        matches!(self, Help::Xcp | Help::Phase)
    }
}

impl Upwind {
    /// Applies the feedback of an acknowledgment.
    pub(super) fn follow(&mut self, ack: &AckEvent) {
        if let Some(help) = self.guide.heard_in(ack) {
            self.hear(help, ack.path.now);
        }
        if self.guide.controller.is_none() {
            return;
        }
        let most = self.most();
        if let Some(controller) = &mut self.guide.controller {
            each!(controller, controller => {
                controller.on_ack(ack);
                // The upper bound of every window applies to it too.
                controller.cwnd = controller.cwnd.min(most);
                self.cwnd = controller.cwnd.max(LEAST);
            });
        }
    }

    /// Selects the controller for this feedback.
    fn hear(&mut self, help: Help, now: Time) {
        if self.queue.srtt() == 0.0 {
            return;
        }
        let current = self.guide.controller.as_ref().map(HelpedController::help);
        if current != Some(help) {
            // Grants do not describe the queue that flags or marks.
            let tells_less = help.is_steady() && current.is_some_and(|help| !help.is_steady());
            let is_aside = help.is_steady() && now < self.guide.aside_until;
            if tells_less || is_aside {
                return;
            }
            let is_opening = self.mode == UpwindMode::StartUp;
            if is_opening {
                self.queue.settle();
            }
            let controller =
                HelpedController::new(help, self.cwnd, is_opening, self.guide.packet_size);
            self.guide.controller = Some(controller);
            self.guide.waiting = 0;
            self.mode = UpwindMode::Guided;
        }
        self.guide.heard = (now, self.rounds.count);
        self.guide.waited = self.queue.delay();
    }

    /// Ends the help of routers that are gone or do not help, at the end of a round trip.
    pub(super) fn judge_guide(&mut self, now: Time) {
        let Some(help) = self.guide.controller.as_ref().map(HelpedController::help) else { return };
        let (heard_at, heard_in) = self.guide.heard;
        let is_over = if help.is_steady() {
            // More than half of the window waits: the grants are not what limits the sender.
            let waits = self.queue.delay() > self.queue.floor();
            self.guide.waiting = if waits { self.guide.waiting + 1 } else { 0 };
            let limits_nothing = self.guide.waiting >= CYCLE_ROUNDS;
            if limits_nothing {
                self.guide.put_aside(now);
            }
            limits_nothing || self.rounds.count > heard_in + SWING_ROUNDS
        } else {
            // A queue that signals at some length would signal at a greater one, if it still
            // signals at all.
            let waits_longer = SHRUNK * self.queue.delay() >= self.guide.waited;
            waits_longer && now.since(heard_at) >= CYCLE
        };
        if is_over {
            self.take_back();
        }
    }

    /// Returns to Upwind's own window.
    fn take_back(&mut self) {
        self.guide.controller = None;
        self.leave();
    }

    /// Reacts to a loss while routers help.
    pub(super) fn on_guided_congestion(&mut self, event: &CongestionEvent) {
        let is_flood = self.is_flood(event);
        match &mut self.guide.controller {
            Some(HelpedController::Xcp(_) | HelpedController::Phase(_)) if is_flood => {
                self.guide.put_aside(event.path.now);
                self.take_back();
                self.cwnd = (BETA * self.cwnd).max(LEAST);
            }
            // Routers report congestion by smaller grants, a shift of phase or the flag.
            Some(
                HelpedController::Xcp(_) | HelpedController::Phase(_) | HelpedController::Flag(_),
            )
            | None => {}
            Some(HelpedController::EachMark(prague)) => {
                prague.on_congestion(event);
                self.cwnd = prague.cwnd.max(LEAST);
            }
        }
    }

    /// Reacts to a mark of classic ECN, which the sender reports at most once in a round trip.
    pub(super) fn on_mark(&mut self, event: &CongestionEvent) {
        let now = event.path.now;
        match self.guide.controller.as_ref().map(HelpedController::help) {
            Some(help) => {
                if help.is_steady() {
                    self.guide.put_aside(now);
                }
                self.take_back();
            }
            None if self.mode == UpwindMode::StartUp => {
                self.queue.settle();
                self.leave();
            }
            None => {}
        }
        let half = BETA * self.cwnd;
        self.bound.on_mark(self.cwnd);
        let most = if self.config.bound { self.bound.ceiling() } else { half };
        self.cwnd = self.cwnd.min(most).max(LEAST);
        self.halve_shadow(now);
    }

    /// Writes the request of a packet to routers.
    pub(super) fn ask(&self, packet: &mut Packet, limited: bool) {
        if !self.guide.asks {
            return;
        }
        match &self.guide.controller {
            Some(HelpedController::Xcp(_)) => {
                let srtt = Duration::from_secs_f64(self.queue.srtt());
                stamp_xcp(packet, srtt, self.cwnd);
                if let CongestionHeader::Xcp { delta, .. } = &mut packet.header
                    && !limited
                {
                    *delta = 0.0;
                }
            }
            Some(HelpedController::Phase(_)) => packet.header = ESTCP_UNWRITTEN,
            _ => {}
        }
    }
}
