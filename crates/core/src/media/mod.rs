//! Rate control of live media: the sender, the receiver, and the controllers between them.
//!
//! An encoder asks for its target rate ([`MediaSender::target`]) and hands over packets
//! ([`MediaSender::push`]), which wait until pacing and window let them go
//! ([`MediaSender::poll_transmit`]). The receiver reports the arrival time and the ECN mark of each
//! packet ([`MediaReceiver`], RFC 8888), and the [`MediaController`] at the sender computes rates
//! from the reports. Nothing is sent again.
//!
//! A controller is one file here: a state machine that implements [`MediaController`], its
//! parameters, and its description ([`Part`]). A line in the list below makes it available in
//! scenario files.

mod competition;
mod gcc;
mod nada;
mod receiver;
mod scream;
mod scream2;
mod sender;

pub use gcc::{Gcc, GccConfig};
pub use nada::{Nada, NadaConfig};
pub use receiver::{MediaReceiver, Report};
pub use scream::{Scream, ScreamConfig};
pub use scream2::{Scream2, Scream2Config};
pub use sender::MediaSender;

use std::fmt::Debug;

use crate::part::{Part, axis, behaviour};
use crate::units::{Duration, Rate, Time};

axis! {
    $ each each_kind;
    /// A controller of media with its parameters.
    config MediaControllerConfig;
    /// The state of a controller of media.
    state MediaControllerState;
    @make MediaControllerPart(&MediaSetup);
    Nada: Nada => Box,
    Scream: Scream => Box,
    Scream2: Scream2 => Box,
    Gcc: Gcc => Box,
}

impl MediaControllerConfig {
    /// Time between the reports of the receiver, for media that arrives at `rate` bits per second.
    pub fn report_interval(&self, rate: f64) -> Duration {
        each_kind!(self, P(config) => <P as MediaControllerPart>::report_interval(config, rate))
    }

    /// True if its packets are L4S traffic, where they are ECN-capable (RFC 9331: ECT(1)).
    pub fn is_l4s(&self) -> bool {
        each_kind!(self, P(config) => <P as MediaControllerPart>::is_l4s(config))
    }
}

/// Facts about a stream that its controller knows from the start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MediaSetup {
    /// Target rate at the start.
    pub start: Rate,
    /// Range of rates of the encoder.
    pub least: Rate,
    /// End of that range.
    pub most: Rate,
    /// Frames per second.
    pub fps: f64,
    /// Size of a full packet on the wire, bytes.
    pub packet_size: u32,
}

impl MediaSetup {
    /// The nearest rate within the range of the encoder, bits per second.
    pub(crate) fn clamp(&self, rate: f64) -> f64 {
        rate.clamp(self.least.as_bps() as f64, self.most.as_bps() as f64)
    }
}

/// A packet that a report tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reported {
    /// Time at which it left the sender.
    pub sent: Time,
    /// Time at which it arrived, by the clock of the receiver; `None` if it was lost.
    pub arrived: Option<Time>,
    /// Size on the wire, bytes.
    pub size: u32,
    /// True if it arrived with a congestion mark.
    pub marked: bool,
}

/// A report, as the controller sees it.
#[derive(Debug, Clone, Copy)]
pub struct Heard<'a> {
    /// RTT of the last packet that arrived, without its wait at the receiver; `None` if none did.
    pub rtt: Option<Duration>,
    /// The packets since the report before, in the order in which they were sent.
    pub packets: &'a [Reported],
    /// Bytes that have left the sender and have not been reported.
    pub in_flight: u64,
    /// Bytes that wait in the sender.
    pub waiting: u64,
}

impl Heard<'_> {
    /// The smoothed RTT after this report (RFC 6298 section 2), where it was `srtt` before.
    fn smoothed_rtt(&self, srtt: Option<Duration>) -> Option<Duration> {
        let Some(rtt) = self.rtt else { return srtt };
        let before = srtt.unwrap_or(rtt);
        Some(before.mul_f64(7.0 / 8.0) + rtt.mul_f64(1.0 / 8.0))
    }

    /// One-way delay of the last packet that arrived, up to the difference of the clocks.
    fn delay(&self) -> Option<Duration> {
        self.packets.iter().rev().find_map(|packet| Some(packet.arrived?.since(packet.sent)))
    }

    /// True if a packet did not arrive.
    fn is_lossy(&self) -> bool {
        self.packets.iter().any(|packet| packet.arrived.is_none())
    }
}

behaviour! {
    /// Rate control of one stream of media. Rates are in bits per second on the wire.
    pub trait MediaController: Debug {
        /// Handles a report.
        fn on_report(&mut self, now: Time, heard: &Heard<'_>);
        /// Handles the departure of a packet, which `in_flight` contains.
        fn on_sent(&mut self, now: Time, size: u32, in_flight: u64) = ();
        /// Rate that the encoder is to produce from now on, with this many bytes waiting.
        fn target(&mut self, now: Time, waiting: u64) -> f64;
        /// Rate at which packets leave, with this many bytes waiting.
        fn pacing(&self, waiting: u64) -> f64;
        /// Maximum number of bytes in flight; `None` without a limit.
        fn window(&self) -> Option<u64> = None;
    }
    impl for MediaControllerState, by each;
}

/// Properties of a controller of media that are known before it runs.
pub trait MediaControllerPart: Part + MediaController + Sized {
    /// The state before the first packet.
    fn new(config: &Self::Config, setup: &MediaSetup) -> Self;
    /// Time between the reports that it needs, for media that arrives at `rate` bits per second.
    fn report_interval(config: &Self::Config, rate: f64) -> Duration;
    /// True if its packets are L4S traffic, where they are ECN-capable.
    fn is_l4s(_config: &Self::Config) -> bool {
        false
    }
}

/// Bits per second of `bytes` in a length of time.
pub(crate) fn rate_over(bytes: u64, time: Duration) -> f64 {
    bytes as f64 * 8.0 / time.as_secs_f64()
}
