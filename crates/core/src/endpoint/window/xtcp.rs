//! XTCP: TCP's AIMD driven by an explicit congestion flag (lr2008 sections 3.2 and 8.1).
//!
//! Losses have no effect. An acknowledgment without the flag, even a duplicate, increases cwnd as
//! in TCP. One with the flag halves cwnd, unless the latest congestion event is less than one
//! smoothed RTT old.
//!
//! The TCP-friendly variant emulates TCP's timeouts: on a flag that finds cwnd below
//! dupackthreshold, or that comes less than one RTT after another, cwnd becomes 1 and does not
//! grow before everything sent so far is acknowledged. `nextseq` does not change.

use super::{Controller, ControllerPart, ControllerSetup, reno};
use crate::endpoint::event::{AckEvent, CongestionEvent, ResetEvent};
use crate::packet::Flags;
use crate::part::{Ability, Form, Need, Parameters, Part, Words};
use crate::units::Time;

/// Parameters of the XTCP window, by which its two variants differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XtcpConfig {
    /// True for an artificial back-off when TCP would time out (lr2008 section 8.1).
    pub tcp_friendly: bool,
}

/// No keys: the names of the two variants determine the values.
impl Parameters for XtcpConfig {}

/// The state of an XTCP window.
#[derive(Debug, Clone)]
pub struct Xtcp {
    pub(super) cwnd: f64,
    ssthresh: f64,
    latest_congestion: Option<Time>,
    friend: Option<ArtificialBackoff>,
}

#[derive(Debug, Clone)]
struct ArtificialBackoff {
    dupack_threshold: f64,
    latest_flag: Option<Time>,
    /// Recovery phase: cwnd does not grow while `una` is below this (the paper's recphase).
    recphase: u64,
}

impl Part for Xtcp {
    type Config = XtcpConfig;
    const FORMS: &'static [Form<XtcpConfig>] = &[
        Form {
            words: Words {
                name: "xtcp",
                what: "as reno, but half on a congestion flag, once per round trip",
                source: "lr2008 section 3.2",
            },
            config: XtcpConfig { tcp_friendly: false },
        },
        Form {
            words: Words {
                name: "xtcp+friend",
                what: "xtcp, but down to one packet where TCP would time out, until that window is \
                    through",
                source: "lr2008 section 8.1",
            },
            config: XtcpConfig { tcp_friendly: true },
        },
    ];
    const NEEDS: &'static [Need] = &[Need {
        any_of: &[Ability::CongestionFlag],
        why: "it never receives a congestion signal",
    }];
    fn form(config: &XtcpConfig) -> &'static Form<XtcpConfig> {
        &Self::FORMS[usize::from(config.tcp_friendly)]
    }
}

impl ControllerPart for Xtcp {
    /// XTCP responds to its flag instead.
    const ANSWERS_ECN: bool = false;
    fn new(config: &XtcpConfig, setup: ControllerSetup<'_>) -> Self {
        let dupack_threshold = f64::from(setup.endpoint.dupack_threshold);
        let friend = ArtificialBackoff { dupack_threshold, latest_flag: None, recphase: 0 };
        Xtcp {
            cwnd: setup.endpoint.initial_window,
            ssthresh: f64::INFINITY,
            latest_congestion: None,
            friend: config.tcp_friendly.then_some(friend),
        }
    }
}

impl Xtcp {
    /// The state with this window, for a controller that uses the help of XTCP routers.
    pub(super) fn at(cwnd: f64) -> Self {
        Xtcp { cwnd, ssthresh: cwnd, latest_congestion: None, friend: None }
    }

    fn in_recovery_phase(&self, ack: &AckEvent) -> bool {
        self.friend.as_ref().is_some_and(|friend| ack.una < friend.recphase)
    }

    fn on_flag(&mut self, ack: &AckEvent) {
        let within_rtt =
            |earlier: Option<Time>| earlier.is_some_and(|t| ack.path.now.since(t) < ack.path.srtt);
        let mut backs_off = false;
        if let Some(friend) = &mut self.friend {
            backs_off = self.cwnd < friend.dupack_threshold || within_rtt(friend.latest_flag);
            friend.latest_flag = Some(ack.path.now);
            if backs_off {
                friend.recphase = ack.high;
            }
        }
        if !within_rtt(self.latest_congestion) {
            self.latest_congestion = Some(ack.path.now);
            self.cwnd = (self.cwnd / 2.0).max(1.0);
            self.ssthresh = self.cwnd.max(2.0);
        }
        if backs_off {
            self.cwnd = 1.0;
        }
    }
}

impl Controller for Xtcp {
    #[inline]
    fn cwnd(&self) -> f64 {
        self.cwnd
    }
    fn ssthresh(&self) -> f64 {
        self.ssthresh
    }

    fn on_ack(&mut self, ack: &AckEvent) {
        if ack.flags.contains(Flags::CONGESTION) {
            self.on_flag(ack);
        } else if ack.cwnd_limited && !self.in_recovery_phase(ack) {
            // Every acknowledgment counts for one packet, since duplicates count too.
            self.cwnd = reno::grown(self.cwnd, self.ssthresh, 1.0);
        }
    }

    fn on_congestion(&mut self, event: &CongestionEvent) {
        self.cwnd = (self.cwnd * event.kept(0.5)).max(1.0);
        self.ssthresh = self.cwnd.max(2.0);
    }

    fn on_reset(&mut self, event: &ResetEvent) {
        // As TCP, which XTCP mimics (section 3.2): slow start up to half of the window.
        if !event.repeated {
            self.ssthresh = (self.cwnd * event.kept(0.5)).max(2.0);
        }
        self.cwnd = event.window_after(self.cwnd);
    }
}
