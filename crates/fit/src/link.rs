//! The link of a fit, its parameters, and the scenario of a row on it.

use serde::Serialize;

/// A bottleneck with a drop-tail queue, and a path without other limits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Link {
    /// Rate of the bottleneck, bits per second.
    pub rate_bps: f64,
    /// Round trip of a packet that never waits, with its transmission, seconds.
    pub base_rtt_s: f64,
    /// Packets that may wait.
    pub queue_packets: f64,
    /// Probability that a packet is lost regardless of the queue.
    pub random_loss: f64,
}

/// A parameter of a [`Link`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Parameter {
    /// [`Link::rate_bps`].
    Rate,
    /// [`Link::base_rtt_s`].
    BaseRtt,
    /// [`Link::queue_packets`].
    Queue,
    /// [`Link::random_loss`].
    RandomLoss,
}

impl Parameter {
    /// All parameters.
    pub const ALL: [Parameter; 4] =
        [Parameter::Rate, Parameter::BaseRtt, Parameter::Queue, Parameter::RandomLoss];

    /// Name in text.
    pub fn name(self) -> &'static str {
        match self {
            Parameter::Rate => "rate",
            Parameter::BaseRtt => "base RTT",
            Parameter::Queue => "queue",
            Parameter::RandomLoss => "random loss",
        }
    }

    /// Value of a link.
    pub fn of(self, link: &Link) -> f64 {
        match self {
            Parameter::Rate => link.rate_bps,
            Parameter::BaseRtt => link.base_rtt_s,
            Parameter::Queue => link.queue_packets,
            Parameter::RandomLoss => link.random_loss,
        }
    }

    /// The link with another value.
    pub(crate) fn with(self, link: &Link, value: f64) -> Link {
        let mut link = *link;
        match self {
            Parameter::Rate => link.rate_bps = value,
            Parameter::BaseRtt => link.base_rtt_s = value,
            Parameter::Queue => link.queue_packets = value,
            Parameter::RandomLoss => link.random_loss = value,
        }
        link
    }
}

/// Size of an ACK of the model, bytes.
const ACK_BYTES: f64 = 40.0;
/// Rate of the way back, bits per second: ACKs do not wait there.
const ACK_RATE_BPS: f64 = 100e9;
/// Limits of the search. Those of scenarios are wider.
const RATE_BPS: (f64, f64) = (1e3, 1e11);
const RTT_S: (f64, f64) = (1e-5, 100.0);
const QUEUE_PACKETS: (f64, f64) = (1.0, 1e6);
const MOST_LOSS: f64 = 0.9;

impl Link {
    /// The nearest link that a scenario can express, with values of few digits, so that links of
    /// one scenario are equal. Loss below `least_loss` becomes zero.
    pub(crate) fn rounded(self, least_loss: f64) -> Link {
        let loss = if self.random_loss < least_loss { 0.0 } else { self.random_loss };
        Link {
            rate_bps: digits(self.rate_bps.clamp(RATE_BPS.0, RATE_BPS.1)),
            base_rtt_s: digits(self.base_rtt_s.clamp(RTT_S.0, RTT_S.1)),
            queue_packets: self.queue_packets.clamp(QUEUE_PACKETS.0, QUEUE_PACKETS.1).round(),
            random_loss: digits(loss.min(MOST_LOSS)),
        }
    }
}

/// The value with four significant digits.
fn digits(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

/// Settings of the model that come from the log, and the row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Setting {
    pub(crate) protocol: &'static str,
    /// Bytes.
    pub(crate) packet_size: u32,
    /// Packets.
    pub(crate) initial_window: Option<f64>,
    pub(crate) has_delayed_acks: bool,
    pub(crate) duration_s: f64,
}

impl Setting {
    /// The scenario of the row alone on a link, as TOML.
    pub(crate) fn scenario(&self, link: &Link, seed: u64) -> String {
        let Setting { protocol, packet_size, initial_window, has_delayed_acks, duration_s } = self;
        let bits = |bytes: f64| bytes * 8.0;
        let transmission_s = bits(f64::from(*packet_size)) / link.rate_bps;
        // All of the delay is on the way there, so that data that have arrived are acknowledged.
        let delay_s = link.base_rtt_s - transmission_s - bits(ACK_BYTES) / ACK_RATE_BPS;
        let delay_ns = (delay_s.max(0.0) * 1e9).round();
        let Link { rate_bps, queue_packets, random_loss, .. } = link;
        let mut text = format!(
            "duration = \"{duration_ns:.0}ns\"\n\
             seed = {seed}\n\
             nodes = [\"sender\", \"receiver\"]\n\
             \n\
             [[links]]\n\
             name = \"bottleneck\"\n\
             from = \"sender\"\n\
             to = \"receiver\"\n\
             rate = \"{rate_bps:.0}bit\"\n\
             delay = \"{delay_ns:.0}ns\"\n\
             queue = \"{queue_packets:.0}p\"\n",
            duration_ns = duration_s * 1e9,
        );
        if *random_loss > 0.0 {
            text += &format!("loss = {random_loss}\n");
        }
        text += &format!(
            "reverse = {{ rate = \"{:.0}Gbit\", delay = \"0s\", queue = \"1000000p\" }}\n\
             \n\
             [[flows]]\n\
             group = \"model\"\n\
             protocol = \"{protocol}\"\n\
             from = \"sender\"\n\
             to = \"receiver\"\n\
             packet_size = {packet_size}\n",
            ACK_RATE_BPS / 1e9
        );
        if let Some(window) = initial_window {
            text += &format!("initial_window = {window}\n");
        }
        if *has_delayed_acks {
            // The default of QUIC (RFC 9000 section 18.2).
            text += "delayed_acks = \"25ms\"\n";
        }
        text
    }
}
