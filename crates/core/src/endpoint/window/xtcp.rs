//! XTCP: TCP's AIMD driven by an explicit congestion flag (lr2008 sections 3.2 and 8.1).
//!
//! Losses mean nothing. An acknowledgment without the flag, duplicates included, increases cwnd
//! as TCP would; one with it halves cwnd, unless the latest congestion event is less than one
//! smoothed RTT old.
//!
//! The TCP-friendly variant emulates TCP's timeouts: on a flag that finds cwnd below
//! dupackthreshold, or that comes less than one RTT after another, cwnd becomes 1 and does not
//! grow before everything sent so far is acknowledged. `nextseq` is left alone.

use super::{AckEvent, CongestionEvent, ResetEvent, reno};
use crate::endpoint::EndpointConfig;
use crate::packet::Flags;
use crate::units::Time;

/// The state of an XTCP window.
#[derive(Debug, Clone)]
pub struct Xtcp {
    cwnd: f64,
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

impl Xtcp {
    pub(super) fn new(config: &EndpointConfig, tcp_friendly: bool) -> Self {
        let dupack_threshold = f64::from(config.dupack_threshold);
        let friend = ArtificialBackoff { dupack_threshold, latest_flag: None, recphase: 0 };
        Xtcp {
            cwnd: config.initial_window,
            ssthresh: f64::INFINITY,
            latest_congestion: None,
            friend: tcp_friendly.then_some(friend),
        }
    }
    pub(super) fn cwnd(&self) -> f64 {
        self.cwnd
    }
    pub(super) fn ssthresh(&self) -> f64 {
        self.ssthresh
    }

    pub(super) fn on_ack(&mut self, ack: &AckEvent) {
        if ack.flags.contains(Flags::CONGESTION) {
            self.on_flag(ack);
        } else if ack.cwnd_limited && !self.in_recovery_phase(ack) {
            self.cwnd += reno::increase(self.cwnd, self.ssthresh);
        }
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

    pub(super) fn on_congestion(&mut self, event: &CongestionEvent) {
        self.cwnd = (self.cwnd * (1.0 - event.probability.get() / 2.0)).max(1.0);
        self.ssthresh = self.cwnd.max(2.0);
    }

    pub(super) fn on_reset(&mut self, event: &ResetEvent) {
        // As TCP, which XTCP mimics (section 3.2): slow start up to half of the window.
        if !event.repeated {
            self.ssthresh = (self.cwnd / 2.0).max(2.0);
        }
        self.cwnd = 1.0;
    }
}
