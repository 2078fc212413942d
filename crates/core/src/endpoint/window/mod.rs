//! Axis 1: how the congestion window grows and shrinks.
//!
//! A law owns `cwnd` and what it needs to move it. It hears of everything that recovery,
//! discrimination and feedback learn, each time as one event; what is lost and what to send next is
//! the business of recovery. A law is a [`CongestionControl`] and, if it is one of this crate's, a
//! [`Law`] in the list below; one of another crate comes in by a [`CustomLaw`].

mod abba;
mod bbr;
mod bbr1;
mod copa;
mod cuback;
mod cubic;
mod dctcp;
mod estcp;
mod fixed;
mod highspeed;
mod hybla;
mod new_jersey;
mod prague;
mod reno;
mod start_up;
mod upwind;
mod vegas;
mod veno;
mod westwood;
mod xcp;
mod xcp_r;
mod xtcp;

pub use abba::{AbbaBase, AbbaConfig};
pub use copa::CopaConfig;
pub use cubic::CubicConfig;
pub use estcp::PhaseCut;
pub use fixed::FixedConfig;
pub use highspeed::HighspeedConfig;
pub use hybla::HyblaConfig;
pub use new_jersey::{JerseyRtt, NewJerseyConfig};
pub use prague::PragueConfig;
pub use reno::RenoConfig;
pub use start_up::{StartUpConfig, StartUpKind};
pub use upwind::UpwindConfig;
pub use vegas::VegasConfig;
pub use westwood::WestwoodConfig;
pub use xcp::XcpConfig;
pub use xtcp::XtcpConfig;

use std::fmt::Debug;

use super::EndpointConfig;
use super::estimator::{BandwidthKind, Counting, LostPacket, RateSample};
use super::event::{AckEvent, CongestionEvent, Path, ResetEvent};
use super::feedback::Feedback;
use crate::packet::Packet;
use crate::part::{CustomPart, Part, axis};
use crate::rng::Stream;
use crate::units::Time;

/// A window law at work. All but three of its methods do nothing unless a law says otherwise.
pub trait CongestionControl: Debug + Send + Sync {
    /// The congestion window, packets; at least 1.
    fn cwnd(&self) -> f64;
    /// The slow start threshold, packets; infinite where the law has none.
    fn ssthresh(&self) -> f64 {
        f64::INFINITY
    }
    /// The pace, packets per second, of a law that sets it itself.
    fn pacing_rate(&self) -> Option<f64> {
        None
    }
    /// What the law is doing, for logs: a word of its own text, in lower case. `None` where cwnd
    /// beside ssthresh says it: slow start below, congestion avoidance from there on.
    fn phase(&self) -> Option<&'static str> {
        None
    }
    /// An acknowledgment arrived.
    fn on_ack(&mut self, ack: &AckEvent);
    /// Congestion was noticed through a loss or an ECN mark, with some probability; before
    /// [`CongestionControl::on_ack`] for the same acknowledgment.
    fn on_congestion(&mut self, event: &CongestionEvent);
    /// A loss was noticed, by acknowledgments or a timeout, that is certainly no congestion.
    fn on_error_loss(&mut self, _path: &Path) {}
    /// The connection starts again. By default as after congestion, from the restart window.
    fn on_reset(&mut self, event: &ResetEvent);
    /// A transmission was found lost. Told where recovery counts by packet number, whatever
    /// discrimination says of the loss.
    fn on_lost(&mut self, _packet: &LostPacket, _now: Time) {}
    /// All losses since the last reduction were none: what they changed may be undone.
    fn on_spurious_losses(&mut self) {}
    /// An acknowledgment gave a delivery-rate sample, before [`CongestionControl::on_ack`]. Told
    /// where recovery counts by packet number and [`Law::SAMPLES_RATE`]. Returns whether what is
    /// sent from now on is to count as limited by the application, because the law itself holds it
    /// back.
    fn on_rate_sample(&mut self, _sample: &RateSample) -> bool {
        false
    }
    /// A packet is about to leave after the application let the connection run empty. Told where
    /// delivery rates are sampled.
    fn on_restart_from_idle(&mut self, _now: Time) {}
    /// A data packet is about to leave, its congestion header stamped: what the law itself has to
    /// tell the receiver. `limited` says whether cwnd is what keeps the sender from sending more.
    /// Told where [`Law::ANNOUNCES`], and to every law of another crate.
    fn announce(&mut self, _packet: &mut Packet, _limited: bool) {}
    /// The shifts of phase that the law heard of, in order; none but with ESTCP.
    fn phase_cuts(&self) -> &[PhaseCut] {
        &[]
    }
}

/// What is boxed is large: a copy of it in every dispatch would slow down all the others.
impl<T: CongestionControl + ?Sized> CongestionControl for Box<T> {
    fn cwnd(&self) -> f64 {
        (**self).cwnd()
    }
    fn ssthresh(&self) -> f64 {
        (**self).ssthresh()
    }
    fn pacing_rate(&self) -> Option<f64> {
        (**self).pacing_rate()
    }
    fn phase(&self) -> Option<&'static str> {
        (**self).phase()
    }
    #[inline(never)]
    fn on_ack(&mut self, ack: &AckEvent) {
        (**self).on_ack(ack);
    }
    fn on_congestion(&mut self, event: &CongestionEvent) {
        (**self).on_congestion(event);
    }
    fn on_error_loss(&mut self, path: &Path) {
        (**self).on_error_loss(path);
    }
    fn on_reset(&mut self, event: &ResetEvent) {
        (**self).on_reset(event);
    }
    fn on_lost(&mut self, packet: &LostPacket, now: Time) {
        (**self).on_lost(packet, now);
    }
    fn on_spurious_losses(&mut self) {
        (**self).on_spurious_losses();
    }
    #[inline(never)]
    fn on_rate_sample(&mut self, sample: &RateSample) -> bool {
        (**self).on_rate_sample(sample)
    }
    fn on_restart_from_idle(&mut self, now: Time) {
        (**self).on_restart_from_idle(now);
    }
    fn announce(&mut self, packet: &mut Packet, limited: bool) {
        (**self).announce(packet, limited);
    }
    fn phase_cuts(&self) -> &[PhaseCut] {
        (**self).phase_cuts()
    }
}

/// What a law is made from.
#[derive(Debug)]
pub struct Setup<'a> {
    /// What packets carry and acknowledgments echo beside it.
    pub feedback: &'a Feedback,
    /// What the two ends are told.
    pub endpoint: &'a EndpointConfig,
    /// For laws that flip coins.
    pub stream: Stream,
}

/// A window law of this crate: what must be known of it before there is a connection.
pub trait Law: Part + CongestionControl + Sized {
    /// Does it set the pace itself?
    const PACES: bool = false;
    /// Does it go by delivery-rate samples? Then it also [needs](Part::NEEDS) transmission numbers.
    const SAMPLES_RATE: bool = false;
    /// Does it answer ECN marks as losses (RFC 3168), where ECN is negotiated?
    const ANSWERS_ECN: bool = true;
    /// Does it scale its decrease by the probability that a loss was congestion? If not, only
    /// discrimination that never doubts goes with it.
    const HEEDS_VERDICTS: bool = true;
    /// Does it have something to tell the receiver ([`CongestionControl::announce`])?
    const ANNOUNCES: bool = false;

    /// The bandwidth estimate that it, or the discrimination beside it, goes by.
    fn bandwidth(_config: &Self::Config) -> Option<(BandwidthKind, Counting)> {
        None
    }
    /// The state at the start of a connection.
    fn new(config: &Self::Config, setup: Setup<'_>) -> Self;
}

impl<L: Law> Law for Box<L> {
    const PACES: bool = L::PACES;
    const SAMPLES_RATE: bool = L::SAMPLES_RATE;
    const ANSWERS_ECN: bool = L::ANSWERS_ECN;
    const HEEDS_VERDICTS: bool = L::HEEDS_VERDICTS;
    const ANNOUNCES: bool = L::ANNOUNCES;
    fn bandwidth(config: &L::Config) -> Option<(BandwidthKind, Counting)> {
        L::bandwidth(config)
    }
    fn new(config: &L::Config, setup: Setup<'_>) -> Self {
        Box::new(L::new(config, setup))
    }
}

/// Makes the states of a window law that another crate gives.
pub trait CustomLaw: CustomPart {
    /// The state at the start of a connection.
    fn make(&self, setup: Setup<'_>) -> Box<dyn CongestionControl>;
    /// See [`Law::PACES`].
    fn paces(&self) -> bool {
        false
    }
    /// See [`Law::SAMPLES_RATE`].
    fn samples_rate(&self) -> bool {
        false
    }
    /// See [`Law::ANSWERS_ECN`].
    fn answers_ecn(&self) -> bool {
        true
    }
}

/// The largest window that is taken from a law of another crate, packets.
const LARGEST_WINDOW: f64 = (1_u64 << 32) as f64;

/// A window law of another crate, its answers kept within what a sender can use: a window that is
/// no number, below one packet or beyond 2^32 counts as one packet or 2^32, and is counted.
#[derive(Debug)]
pub struct Outsider {
    law: Box<dyn CongestionControl>,
    cwnd: f64,
    refused: u64,
}

impl Outsider {
    fn new(law: Box<dyn CongestionControl>) -> Self {
        let mut outsider = Outsider { law, cwnd: 1.0, refused: 0 };
        outsider.look();
        outsider
    }

    /// Reads the window after the law has heard something.
    fn look(&mut self) {
        let cwnd = self.law.cwnd();
        let good = (1.0..=LARGEST_WINDOW).contains(&cwnd);
        self.refused += u64::from(!good);
        // NaN fails every comparison and becomes one packet.
        self.cwnd = if good {
            cwnd
        } else if cwnd > LARGEST_WINDOW {
            LARGEST_WINDOW
        } else {
            1.0
        };
    }
}

impl CongestionControl for Outsider {
    fn cwnd(&self) -> f64 {
        self.cwnd
    }
    fn ssthresh(&self) -> f64 {
        let ssthresh = self.law.ssthresh();
        if ssthresh.is_nan() { f64::INFINITY } else { ssthresh }
    }
    fn pacing_rate(&self) -> Option<f64> {
        // A rate that is none is no limit, as with laws that set no pace.
        self.law.pacing_rate().filter(|rate| rate.is_finite() && *rate > 0.0)
    }
    fn phase(&self) -> Option<&'static str> {
        self.law.phase()
    }
    fn on_ack(&mut self, ack: &AckEvent) {
        self.law.on_ack(ack);
        self.look();
    }
    fn on_congestion(&mut self, event: &CongestionEvent) {
        self.law.on_congestion(event);
        self.look();
    }
    fn on_error_loss(&mut self, path: &Path) {
        self.law.on_error_loss(path);
        self.look();
    }
    fn on_reset(&mut self, event: &ResetEvent) {
        self.law.on_reset(event);
        self.look();
    }
    fn on_lost(&mut self, packet: &LostPacket, now: Time) {
        self.law.on_lost(packet, now);
        self.look();
    }
    fn on_spurious_losses(&mut self) {
        self.law.on_spurious_losses();
        self.look();
    }
    fn on_rate_sample(&mut self, sample: &RateSample) -> bool {
        let limited = self.law.on_rate_sample(sample);
        self.look();
        limited
    }
    fn on_restart_from_idle(&mut self, now: Time) {
        self.law.on_restart_from_idle(now);
        self.look();
    }
    fn announce(&mut self, packet: &mut Packet, limited: bool) {
        self.law.announce(packet, limited);
    }
    fn phase_cuts(&self) -> &[PhaseCut] {
        self.law.phase_cuts()
    }
}

axis! {
    $ each each_law;
    /// The window laws by name, with their parameters.
    config WindowLaw;
    /// The state of a window law.
    state LawState;
    @make Law(Setup<'_>);
    @custom dyn CustomLaw => Box<Outsider> =
        |maker: &dyn CustomLaw, setup: Setup<'_>| Box::new(Outsider::new(maker.make(setup)));
    Reno: reno::Reno,
    Cubic: Box<cubic::Cubic>,
    Dctcp: Box<dctcp::Dctcp>,
    Bbr: Box<bbr::Bbr>,
    Westwood: westwood::Westwood,
    Veno: Box<veno::Veno>,
    Estcp: Box<estcp::Estcp>,
    NewJersey: Box<new_jersey::NewJersey>,
    Xcp: xcp::Xcp,
    XcpR: xcp_r::XcpR,
    Xtcp: Box<xtcp::Xtcp>,
    Hybla: Box<hybla::Hybla>,
    Vegas: Box<vegas::Vegas>,
    Copa: Box<copa::Copa>,
    Prague: Box<prague::Prague>,
    Bbr1: Box<bbr1::Bbr1>,
    Highspeed: Box<highspeed::Highspeed>,
    Cuback: Box<cuback::Cuback>,
    Abba: Box<abba::Abba>,
    Upwind: Box<upwind::Upwind>,
    Fixed: fixed::Fixed,
}

impl WindowLaw {
    /// Does it set the pace itself?
    pub fn paces(&self) -> bool {
        each_law!(self, L(_) => <L as Law>::PACES, custom(law) => law.paces())
    }
    /// Does it go by delivery-rate samples?
    pub fn samples_rate(&self) -> bool {
        each_law!(self, L(_) => <L as Law>::SAMPLES_RATE, custom(law) => law.samples_rate())
    }
    /// Does it answer ECN marks as losses, where ECN is negotiated?
    pub fn answers_ecn(&self) -> bool {
        each_law!(self, L(_) => <L as Law>::ANSWERS_ECN, custom(law) => law.answers_ecn())
    }
    /// Does it scale its decrease by the probability that a loss was congestion?
    pub fn heeds_verdicts(&self) -> bool {
        each_law!(self, L(_) => <L as Law>::HEEDS_VERDICTS, custom(_law) => true)
    }
    /// Does it have something to tell the receiver?
    pub fn announces(&self) -> bool {
        each_law!(self, L(_) => <L as Law>::ANNOUNCES, custom(_law) => true)
    }
    /// The bandwidth estimate that it, or the discrimination beside it, goes by.
    pub fn bandwidth(&self) -> Option<(BandwidthKind, Counting)> {
        each_law!(self, L(config) => <L as Law>::bandwidth(config), custom(_law) => None)
    }
}

/// A window law at work, and its window at hand: who asks for cwnd, several times for each packet, does
/// not ask the law.
#[derive(Debug)]
pub struct Window {
    cwnd: f64,
    law: LawState,
}

impl Window {
    /// The state at the start of a connection.
    pub fn new(law: &WindowLaw, setup: Setup<'_>) -> Self {
        let law = law.make(setup);
        Window { cwnd: each!(&law, law => law.cwnd()), law }
    }

    /// The law.
    pub fn law(&self) -> &LawState {
        &self.law
    }

    /// How often a law of another crate gave a window that is none.
    pub fn refused_windows(&self) -> u64 {
        match &self.law {
            LawState::Custom(outsider) => outsider.refused,
            _ => 0,
        }
    }
}

/// Tells the law something, and then looks at its window.
macro_rules! tell {
    ($window:expr, $law:ident => $call:expr) => {{
        let (answer, cwnd) = each!(&mut $window.law, $law => ($call, $law.cwnd()));
        $window.cwnd = cwnd;
        answer
    }};
}

impl CongestionControl for Window {
    #[inline]
    fn cwnd(&self) -> f64 {
        self.cwnd
    }
    fn ssthresh(&self) -> f64 {
        each!(&self.law, law => law.ssthresh())
    }
    #[inline]
    fn pacing_rate(&self) -> Option<f64> {
        each!(&self.law, law => law.pacing_rate())
    }
    fn phase(&self) -> Option<&'static str> {
        each!(&self.law, law => law.phase())
    }
    #[inline]
    fn on_ack(&mut self, ack: &AckEvent) {
        tell!(self, law => law.on_ack(ack));
    }
    fn on_congestion(&mut self, event: &CongestionEvent) {
        tell!(self, law => law.on_congestion(event));
    }
    fn on_error_loss(&mut self, path: &Path) {
        tell!(self, law => law.on_error_loss(path));
    }
    fn on_reset(&mut self, event: &ResetEvent) {
        tell!(self, law => law.on_reset(event));
    }
    fn on_lost(&mut self, packet: &LostPacket, now: Time) {
        tell!(self, law => law.on_lost(packet, now));
    }
    fn on_spurious_losses(&mut self) {
        tell!(self, law => law.on_spurious_losses());
    }
    fn on_rate_sample(&mut self, sample: &RateSample) -> bool {
        tell!(self, law => law.on_rate_sample(sample))
    }
    fn on_restart_from_idle(&mut self, now: Time) {
        tell!(self, law => law.on_restart_from_idle(now));
    }
    /// It moves no window.
    fn announce(&mut self, packet: &mut Packet, limited: bool) {
        each!(&mut self.law, law => law.announce(packet, limited));
    }
    fn phase_cuts(&self) -> &[PhaseCut] {
        each!(&self.law, law => law.phase_cuts())
    }
}
