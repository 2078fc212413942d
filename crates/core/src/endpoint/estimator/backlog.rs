//! The backlog at the bottleneck (Fu and Liew, IEEE JSAC 21(2), 2003, section II):
//!
//! ```text
//! Expected = cwnd / BaseRTT     Actual = cwnd / RTT
//! N = (Expected - Actual) BaseRTT = cwnd (RTT - BaseRTT) / RTT
//! ```
//!
//! Fu and Liew use the smoothed RTT; Linux (tcp_veno.c) uses the smallest one since the last
//! acknowledgment, which is the latest sample. `veno.rtt` selects; the default is the smoothed RTT
//! (gain 1/8, RFC 6298, from exact samples).
//!
//! BaseRTT is the smallest RTT of the connection, as in Linux, or since the last loss:
//! `veno.base_rtt` selects. According to others Fu and Liew reset it at every loss; their paper was
//! not available.

use crate::endpoint::event::{AckEvent, Path};
use crate::part::ValueKind;

/// The RTT from which the backlog is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VenoRtt {
    /// The smoothed one (Fu and Liew 2003).
    Smoothed,
    /// The latest sample (Linux).
    Latest,
}

/// The event since which BaseRTT is the smallest RTT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BaseRtt {
    /// The start of the connection (Linux).
    Connection,
    /// The last loss, by duplicates or timeout.
    Loss,
}

crate::parameters! {
    /// The parameters of TCP Veno.
    pub struct BacklogConfig in "veno", "parameters of veno";
    /// The values of the paper, with BaseRTT as in Linux.
    pub const DEFAULT;
    /// theta (beta in Fu and Liew):
    threshold: f64 = 3.0, ValueKind::Number { least: 0.0, most: 1e6 }, "packets",
        "backlog from which a loss is congestion, and growth is halved";
    rtt: VenoRtt = VenoRtt::Smoothed,
        ValueKind::Word(VenoRtt::WORDS), "", "RTT of the backlog: Fu and Liew 2003, or Linux";
    base_rtt: BaseRtt = BaseRtt::Connection, ValueKind::Word(BaseRtt::WORDS), "",
        "BaseRTT: smallest RTT of the connection (Linux), or since the last loss";
}

crate::words!(VenoRtt { Smoothed = "smoothed", Latest = "latest" });
crate::words!(BaseRtt { Connection = "connection", Loss = "loss" });

/// Veno's estimate of the backlog, for its decrease and its increase.
#[derive(Debug, Clone)]
pub struct BacklogMeter {
    config: BacklogConfig,
    /// Seconds; zero before the first sample.
    rtt: f64,
    /// The smallest sample since the last loss, seconds.
    since_loss: f64,
    /// True if the next sample is the first since a loss.
    lost: bool,
}

impl BacklogMeter {
    /// A meter without samples.
    pub fn new(config: BacklogConfig) -> Self {
        BacklogMeter { config, rtt: 0.0, since_loss: f64::INFINITY, lost: false }
    }

    /// Handles an acknowledgment.
    pub fn on_ack(&mut self, ack: &AckEvent) {
        if ack.newly_acked == 0 {
            return; // No sample.
        }
        let sample = ack.path.rtt.as_secs_f64();
        let first = self.rtt == 0.0 || self.config.rtt == VenoRtt::Latest;
        self.rtt = if first { sample } else { self.rtt + (sample - self.rtt) / 8.0 };
        self.since_loss = if self.lost { sample } else { self.since_loss.min(sample) };
        self.lost = false;
    }

    /// Handles a loss, after it was judged.
    pub fn on_loss(&mut self) {
        self.lost = true;
    }

    /// True if N is at or above the threshold.
    pub fn congested(&self, path: &Path) -> bool {
        let base = match self.config.base_rtt {
            BaseRtt::Connection => path.min_rtt.as_secs_f64(),
            BaseRtt::Loss => self.since_loss,
        };
        let backlog = if self.rtt > 0.0 { path.cwnd * (self.rtt - base) / self.rtt } else { 0.0 };
        backlog >= self.config.threshold
    }
}
