//! Help from routers (rule 20): while they help, the controller of their feedback sets the window.
//!
//! | feedback | controller | ends |
//! | --- | --- | --- |
//! | XCP's header with less than was demanded | XCP (Katabi 2002); losses do not count as congestion | without feedback for four round trips |
//! | a phase of ESTCP | ESTCP (estcp2010); losses do not count as congestion, because overflows are reported | the same |
//! | XTCP's congestion flag | XTCP (lr2008 section 3.2); losses do not count as congestion | without a flag for 20 s, if the queue was at most 0.7 as long with the last one |
//! | an echo of each mark, where feedback is `l4s` (RFC 9332) | Prague | the same |
//!
//! A flag or a mark reports congestion now, from any router, and ends the grants of XCP or ESTCP.
//! Grants do not help if the bottleneck is another queue, and a forged header must not flood one:
//! see [`Upwind::judge_guide`].

use super::delay::SHRUNK;
use super::path::{CYCLE, CYCLE_TRIPS, MEMORY};
use super::start_up::is_flood;
use super::{LEAST, Upwind, UpwindMode};
use crate::endpoint::EndpointConfig;
use crate::endpoint::event::{AckEvent, CongestionEvent};
use crate::endpoint::feedback::{ESTCP_UNWRITTEN, FeedbackConfig, stamp_xcp};
use crate::endpoint::window::{Controller, estcp::Estcp, prague::Prague, xcp::Xcp, xtcp::Xtcp};
use crate::packet::{CongestionHeader, Flags, Packet};
use crate::units::Duration;

/// Round trips in which every router that writes into every packet has had its turn.
const TURNS: u64 = 4;

/// The kind of feedback received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Help {
    Xcp,
    Phase,
    Flag,
    EachMark,
}

impl Help {
    /// True if every packet carries this feedback.
    fn is_steady(self) -> bool {
        matches!(self, Help::Xcp | Help::Phase)
    }
}

/// The help of routers, and the controller that uses it.
#[derive(Debug)]
pub(super) struct Guide {
    packet_size: u32,
    /// True if marks are echoed one by one, as in L4S.
    each_mark: bool,
    /// True if packets may carry headers for routers.
    asks: bool,
    helper: Option<(Help, Box<dyn Controller>)>,
    /// The time and the round trip of the last feedback, and the queueing delay then.
    heard: (f64, u64),
    waited: f64,
    /// Round trips in which too many packets waited.
    waiting: u32,
    /// The time until which grants are ignored, and the length of the next such time.
    aside_until: f64,
    aside: f64,
}

impl Guide {
    pub(super) fn new(endpoint: &EndpointConfig, feedback: &FeedbackConfig) -> Self {
        Guide {
            packet_size: endpoint.packet_size,
            each_mark: matches!(feedback, FeedbackConfig::L4s(_) | FeedbackConfig::ExactEcn(_)),
            asks: matches!(feedback, FeedbackConfig::Help(_)),
            helper: None,
            heard: (0.0, 0),
            waited: 0.0,
            waiting: 0,
            aside_until: 0.0,
            aside: CYCLE,
        }
    }

    /// The help in use.
    fn help(&self) -> Option<Help> {
        self.helper.as_ref().map(|(help, _)| *help)
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

    /// The controller of this feedback, with the window `cwnd`.
    fn controller(&self, help: Help, cwnd: f64, is_opening: bool) -> Box<dyn Controller> {
        match help {
            Help::Xcp => Box::new(Xcp::at(cwnd, self.packet_size)),
            Help::Phase => Box::new(Estcp::at(cwnd, is_opening)),
            Help::Flag => Box::new(Xtcp::at(cwnd)),
            Help::EachMark => Box::new(Prague::at(cwnd)),
        }
    }

    /// Ignores grants for a while.
    fn put_aside(&mut self, now: f64) {
        self.aside_until = now + self.aside;
        self.aside = (2.0 * self.aside).min(MEMORY);
    }

    /// Begins anew, since the connection starts again.
    pub(super) fn reset(&mut self) {
        self.helper = None;
    }
}

impl Upwind {
    /// Applies the feedback of an acknowledgment.
    pub(super) fn follow(&mut self, ack: &AckEvent) {
        if let Some(help) = self.guide.heard_in(ack) {
            self.hear(help, ack.path.now.as_secs_f64());
        }
        let most = self.most();
        let Some((help, controller)) = &mut self.guide.helper else { return };
        controller.on_ack(ack);
        self.cwnd = controller.cwnd().max(LEAST);
        if self.cwnd > most {
            // The upper bound of every window applies to it too.
            let help = *help;
            self.guide.helper = Some((help, self.guide.controller(help, most, false)));
            self.cwnd = most;
        }
    }

    /// Selects the controller for this feedback.
    fn hear(&mut self, help: Help, now: f64) {
        if self.path.srtt() == 0.0 {
            return;
        }
        let current = self.guide.help();
        if current != Some(help) {
            // Grants do not describe the queue that flags or marks.
            let tells_less = help.is_steady() && current.is_some_and(|help| !help.is_steady());
            if tells_less || help.is_steady() && now < self.guide.aside_until {
                return;
            }
            let is_opening = self.mode == UpwindMode::StartUp;
            if is_opening {
                self.path.settle();
            }
            self.guide.helper = Some((help, self.guide.controller(help, self.cwnd, is_opening)));
            self.guide.waiting = 0;
            self.mode = UpwindMode::Guided;
        }
        self.guide.heard = (now, self.path.trips);
        self.guide.waited = self.path.delay();
    }

    /// Ends the help of routers that are gone, at the end of a round trip, and that of grants which
    /// are not what limits the sender: more than half of the window waits in queues for
    /// [`CYCLE_TRIPS`] round trips. Such grants are ignored for 20 s, and twice as long each time.
    pub(super) fn judge_guide(&mut self, now: f64) {
        let Some(help) = self.guide.help() else { return };
        let (heard_at, heard_in) = self.guide.heard;
        let is_over = if help.is_steady() {
            let waits = self.path.delay() > self.path.floor();
            self.guide.waiting = if waits { self.guide.waiting + 1 } else { 0 };
            let limits_nothing = self.guide.waiting >= CYCLE_TRIPS;
            if limits_nothing {
                self.guide.put_aside(now);
            }
            limits_nothing || self.path.trips > heard_in + TURNS
        } else {
            // A queue that signals at some length would signal at a greater one, if it still
            // signals at all.
            SHRUNK * self.path.delay() >= self.guide.waited && now - heard_at >= CYCLE
        };
        if is_over {
            self.take_back();
        }
    }

    /// Returns to Upwind's own window.
    fn take_back(&mut self) {
        self.guide.helper = None;
        self.leave();
    }

    /// Reacts to a loss while routers help. They report congestion by smaller grants, a shift of
    /// phase or the flag; a flood shows that they do not.
    pub(super) fn on_guided_loss(&mut self, event: &CongestionEvent) {
        match &mut self.guide.helper {
            Some((Help::EachMark, prague)) => {
                prague.on_congestion(event);
                self.cwnd = prague.cwnd().max(LEAST);
            }
            Some((Help::Xcp | Help::Phase, _)) if is_flood(self.path.trip) => {
                self.guide.put_aside(event.path.now.as_secs_f64());
                self.take_back();
                self.cwnd = (0.5 * self.cwnd).max(LEAST);
            }
            _ => {}
        }
    }

    /// Reacts to a mark of classic ECN (RFC 3168), which the sender reports at most once in a round
    /// trip: it is certain congestion, and nothing undoes the response.
    pub(super) fn on_mark(&mut self, event: &CongestionEvent) {
        let now = event.path.now.as_secs_f64();
        if let Some(help) = self.guide.help() {
            if help.is_steady() {
                self.guide.put_aside(now);
            }
            self.take_back();
        } else if self.mode == UpwindMode::StartUp {
            self.path.settle();
            self.leave();
        }
        let half = 0.5 * self.cwnd;
        self.ceiling.on_mark(self.cwnd);
        let most = if self.config.ceiling { self.ceiling.window() } else { half };
        self.cwnd = self.cwnd.min(most).max(LEAST);
        self.competition.cut(1.0, 0.0);
        self.competition.on_overflow(now);
        self.begin_flight(self.flight.until);
    }

    /// Writes the request of a packet to routers.
    pub(super) fn ask(&self, packet: &mut Packet, limited: bool) {
        if !self.guide.asks {
            return;
        }
        match self.guide.help() {
            Some(Help::Xcp) => {
                let srtt = Duration::from_secs_f64(self.path.srtt());
                stamp_xcp(packet, srtt, self.cwnd);
                if let CongestionHeader::Xcp { delta, .. } = &mut packet.header
                    && !limited
                {
                    *delta = 0.0;
                }
            }
            Some(Help::Phase) => packet.header = ESTCP_UNWRITTEN,
            _ => {}
        }
    }
}
