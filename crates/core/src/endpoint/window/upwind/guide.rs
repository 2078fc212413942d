//! Routers that help: for as long as they do, the controller of their feedback is the window.
//!
//! | heard | controller | ends |
//! | --- | --- | --- |
//! | XCP's header with less than was demanded | XCP (Katabi 2002); losses are none | nothing heard for four round trips |
//! | a phase of ESTCP | ESTCP (estcp2010), but losses are none: overflows are told | the same |
//! | XTCP's congestion flag | XTCP (lr2008 section 3.2); losses are none | none for 20 s, and a queue half as long again as with the last one |
//! | an ECN mark (RFC 3168) | Reno | the same |
//! | an echo of a mark of its own, where feedback is `l4s` (RFC 9332) | Prague | the same |
//!
//! A flag or a mark is congestion now, wherever it comes from, and ends what XCP or ESTCP grant. A router
//! that grants is no use where another queue on the way is shorter of room: XCP and ESTCP are put aside if a round
//! trip loses 10 points more than the least lossy one, by congestion as likely as not to be one, or if more than half
//! of the window waits in queues for ten round trips; for 20 s at first, and twice as long each time. That bounds
//! what a forged header does, together with the bound of every window, twice what was delivered.

use super::{LEAST, Mode, Upwind};
use crate::endpoint::EndpointConfig;
use crate::endpoint::event::{AckEvent, CongestionEvent};
use crate::endpoint::feedback::{ESTCP_UNWRITTEN, FeedbackConfig, stamp_xcp};
use crate::endpoint::window::{
    Controller, estcp::Estcp, prague::Prague, reno::Reno, xcp::Xcp, xtcp::Xtcp,
};
use crate::packet::{CongestionHeader, Flags, Packet};
use crate::units::{Duration, Time};

/// Round trips without a word after which a router that writes into every packet has gone.
const SILENT: u64 = 4;
/// Packets and share of the window, and round trips: so much in queues for so long, and what is granted
/// is not what limits.
const WAITS: (f64, f64, u32) = (20.0, 0.5, 10);
/// Without a further flag or mark for so long, and with that many times the queue, it has gone.
const PATIENCE: (Duration, f64) = (Duration::from_secs(20), 1.5);
/// For how long a router's word is not taken, the first time and at most.
const ASIDE: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(600));

/// What was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Help {
    Xcp,
    Phase,
    Flag,
    Mark,
    EachMark,
}

/// The controller of what was heard.
#[derive(Debug, Clone)]
enum Law {
    Xcp(Xcp),
    Phase(Box<Estcp>),
    Flag(Xtcp),
    Mark(Reno),
    EachMark(Prague),
}

/// Does it to whichever controller it is.
macro_rules! each {
    ($of:expr, $law:ident => $does:expr) => {
        match $of {
            Law::Xcp($law) => $does,
            Law::Phase($law) => $does,
            Law::Flag($law) => $does,
            Law::Mark($law) => $does,
            Law::EachMark($law) => $does,
        }
    };
}

impl Law {
    fn new(help: Help, cwnd: f64, is_opening: bool, packet_size: u32) -> Self {
        match help {
            Help::Xcp => Law::Xcp(Xcp::at(cwnd, packet_size)),
            Help::Phase => Law::Phase(Box::new(Estcp::at(cwnd, is_opening))),
            Help::Flag => Law::Flag(Xtcp::at(cwnd)),
            Help::Mark => Law::Mark(Reno::at(cwnd)),
            Help::EachMark => Law::EachMark(Prague::at(cwnd)),
        }
    }
    fn help(&self) -> Help {
        match self {
            Law::Xcp(_) => Help::Xcp,
            Law::Phase(_) => Help::Phase,
            Law::Flag(_) => Help::Flag,
            Law::Mark(_) => Help::Mark,
            Law::EachMark(_) => Help::EachMark,
        }
    }
}

/// What routers told, and the controller that goes by it.
#[derive(Debug, Clone)]
pub(super) struct Guide {
    packet_size: u32,
    /// Are marks echoed one by one, as those of L4S are?
    each_mark: bool,
    /// May packets carry headers for routers?
    asks: bool,
    law: Option<Law>,
    /// When it was heard last, and in which round trip; how long packets waited then.
    heard: (Time, u64),
    waited: f64,
    /// Round trips in which too much waited.
    waiting: u32,
    /// What routers grant is not taken before that, and for how long the next time.
    aside_until: Time,
    aside: Duration,
}

impl Guide {
    pub(super) fn new(endpoint: &EndpointConfig, feedback: &FeedbackConfig) -> Self {
        Guide {
            packet_size: endpoint.packet_size,
            each_mark: matches!(feedback, FeedbackConfig::L4s(_) | FeedbackConfig::ExactEcn(_)),
            asks: matches!(feedback, FeedbackConfig::Help(_)),
            law: None,
            heard: (Time::ZERO, 0),
            waited: 0.0,
            waiting: 0,
            aside_until: Time::ZERO,
            aside: ASIDE.0,
        }
    }

    /// What an acknowledgment says that routers wrote.
    fn heard_in(&self, ack: &AckEvent) -> Option<Help> {
        if ack.flags.contains(Flags::CONGESTION) {
            return Some(Help::Flag);
        }
        if self.each_mark && ack.flags.contains(Flags::ECN_ECHO) {
            return Some(Help::EachMark);
        }
        match ack.header {
            // What nobody cut down comes back as it was demanded.
            CongestionHeader::XcpReverse { feedback } if feedback < f64::MAX / 2.0 => {
                Some(Help::Xcp)
            }
            CongestionHeader::Estcp { phase, .. } if phase > 0 => Some(Help::Phase),
            _ => None,
        }
    }

    /// Takes no grants for a while.
    fn put_aside(&mut self, now: Time) {
        self.aside_until = now + self.aside;
        self.aside = self.aside.saturating_mul(2).min(ASIDE.1);
    }

    /// Begins anew with the connection.
    pub(super) fn reset(&mut self) {
        self.law = None;
    }
}

impl Help {
    /// Does every packet tell?
    fn is_steady(self) -> bool {
        matches!(self, Help::Xcp | Help::Phase)
    }
}

impl Upwind {
    /// An acknowledgment: what it says of routers, and what follows from it.
    pub(super) fn follow(&mut self, ack: &AckEvent) {
        if let Some(help) = self.guide.heard_in(ack) {
            self.hear(help, ack.path.now);
        }
        if self.guide.law.is_none() {
            return;
        }
        let most = self.most();
        if let Some(law) = &mut self.guide.law {
            each!(law, law => {
                law.on_ack(ack);
                // What the bound of every window takes is given back.
                law.cwnd = law.cwnd.min(most);
                self.cwnd = law.cwnd.max(LEAST);
            });
        }
    }

    /// Routers help in that way.
    fn hear(&mut self, help: Help, now: Time) {
        if self.queue.srtt() == 0.0 {
            return;
        }
        let current = self.guide.law.as_ref().map(Law::help);
        if current != Some(help) {
            // Grants say nothing of the queue that flags or marks.
            let tells_less = help.is_steady() && current.is_some_and(|help| !help.is_steady());
            let is_aside = help.is_steady() && now < self.guide.aside_until;
            if tells_less || is_aside {
                return;
            }
            let is_opening = self.mode == Mode::StartUp;
            if is_opening {
                self.queue.settle();
            }
            let law = Law::new(help, self.cwnd, is_opening, self.guide.packet_size);
            self.guide.law = Some(law);
            self.guide.waiting = 0;
            self.mode = Mode::Guided;
        }
        self.guide.heard = (now, self.rounds.count);
        self.guide.waited = self.queue.delay();
    }

    /// At the end of a round trip: does the guide still help?
    pub(super) fn judge_guide(&mut self, now: Time) {
        let Some(help) = self.guide.law.as_ref().map(Law::help) else { return };
        let (heard_at, heard_in) = self.guide.heard;
        let is_over = if help.is_steady() {
            let waits = self.backlog() > (WAITS.1 * self.cwnd).max(WAITS.0);
            self.guide.waiting = if waits { self.guide.waiting + 1 } else { 0 };
            let limits_nothing = self.guide.waiting >= WAITS.2;
            if limits_nothing {
                self.guide.put_aside(now);
            }
            limits_nothing || self.rounds.count > heard_in + SILENT
        } else {
            // A queue that tells at some length does so at one half as long again, if it still does.
            let waits_longer = self.queue.delay() >= PATIENCE.1 * self.guide.waited;
            waits_longer && now.since(heard_at) >= PATIENCE.0
        };
        if is_over {
            self.take_back(now);
        }
    }

    /// The window is its own again.
    fn take_back(&mut self, now: Time) {
        self.guide.law = None;
        self.leave(now);
    }

    /// A loss or a mark that is congestion as likely as that, while routers help.
    pub(super) fn on_guided_congestion(&mut self, event: &CongestionEvent) {
        let is_flood = self.is_flood(event);
        match &mut self.guide.law {
            Some(Law::Xcp(_) | Law::Phase(_)) if is_flood => {
                self.guide.put_aside(event.path.now);
                self.take_back(event.path.now);
                self.on_congested_loss();
            }
            // Routers say so: by what they grant, by a shift of phase, by the flag.
            Some(Law::Xcp(_) | Law::Phase(_) | Law::Flag(_)) | None => {}
            Some(law) => each!(law, law => {
                law.on_congestion(event);
                self.cwnd = law.cwnd.max(LEAST);
            }),
        }
    }

    /// A mark of classic ECN: the queue tells.
    pub(super) fn on_mark(&mut self, event: &CongestionEvent) {
        self.hear(Help::Mark, event.path.now);
        self.on_guided_congestion(event);
    }

    /// What a packet asks of routers.
    pub(super) fn ask(&self, packet: &mut Packet, limited: bool) {
        if !self.guide.asks {
            return;
        }
        match &self.guide.law {
            Some(Law::Xcp(_)) => {
                let srtt = Duration::from_secs_f64(self.queue.srtt());
                stamp_xcp(packet, srtt, self.cwnd);
                if let CongestionHeader::Xcp { delta, .. } = &mut packet.header
                    && !limited
                {
                    *delta = 0.0;
                }
            }
            Some(Law::Phase(_)) => packet.header = ESTCP_UNWRITTEN,
            _ => {}
        }
    }
}
