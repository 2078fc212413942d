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
use crate::part::{CustomPart, Part, axis, behaviour};
use crate::rng::Stream;
use crate::units::Time;

behaviour! {
    /// A window law at work. All but three of its methods do nothing unless a law says otherwise.
    pub trait CongestionControl: Debug + Send + Sync {
        /// The congestion window, packets; at least 1.
        @forward(inline)
        fn cwnd(&self) -> f64;
        /// The slow start threshold, packets; infinite where the law has none.
        fn ssthresh(&self) -> f64 = f64::INFINITY;
        /// The pace, packets per second, of a law that sets it itself.
        @forward(inline)
        fn pacing_rate(&self) -> Option<f64> = None;
        /// The law's phase in a word of its own text, in lower case, for logs. `None` where cwnd
        /// beside ssthresh says it: slow start below, congestion avoidance from there on.
        fn phase(&self) -> Option<&'static str> = None;
        /// An acknowledgment arrived.
        @forward(inline) @boxed(inline(never))
        fn on_ack(&mut self, ack: &AckEvent);
        /// Congestion was noticed through a loss or an ECN mark, with some probability; before
        /// [`CongestionControl::on_ack`] for the same acknowledgment.
        fn on_congestion(&mut self, event: &CongestionEvent);
        /// A loss was noticed, by acknowledgments or a timeout, that is certainly no congestion.
        fn on_error_loss(&mut self, path: &Path) = ();
        /// The connection starts again. By default as after congestion, from the restart window.
        fn on_reset(&mut self, event: &ResetEvent);
        /// A transmission was found lost. Called where recovery counts by packet number, whatever
        /// discrimination says of the loss.
        fn on_lost(&mut self, packet: &LostPacket, now: Time) = ();
        /// All losses since the last reduction turned out to be spurious: what they changed may be
        /// undone.
        fn on_spurious_losses(&mut self) = ();
        /// An acknowledgment gave a delivery-rate sample, before [`CongestionControl::on_ack`].
        /// Called where recovery counts by packet number and [`Law::SAMPLES_RATE`]. Returns whether
        /// packets sent from now on count as limited by the application, because the law itself
        /// holds them back.
        @boxed(inline(never))
        fn on_rate_sample(&mut self, sample: &RateSample) -> bool = false;
        /// A packet is about to leave after the application let the connection run empty. Called
        /// where delivery rates are sampled.
        fn on_restart_from_idle(&mut self, now: Time) = ();
        /// A data packet is about to leave, its congestion header stamped: the law writes what it
        /// has to tell the receiver. `limited` says whether cwnd is what keeps the sender from
        /// sending more. Called where [`Law::ANNOUNCES`], and for every law of another crate.
        fn announce(&mut self, packet: &mut Packet, limited: bool) = ();
        /// The shifts of phase that the law heard of, in order; empty without ESTCP.
        fn phase_cuts(&self) -> &[PhaseCut] = &[];
    }
    impl for Outsider, by checked;
    impl for Window, by cached;
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

/// Forwards a call to a law of another crate, and looks at its window after whatever may move it.
macro_rules! checked {
    (&$self:ident.cwnd()) => {
        $self.cwnd
    };
    (&$self:ident.ssthresh()) => {{
        let ssthresh = $self.law.ssthresh();
        if ssthresh.is_nan() { f64::INFINITY } else { ssthresh }
    }};
    // An invalid rate is no limit, as with laws that set no pace.
    (&$self:ident.pacing_rate()) => {
        $self.law.pacing_rate().filter(|rate| rate.is_finite() && *rate > 0.0)
    };
    (&$self:ident.$method:ident()) => {
        $self.law.$method()
    };
    (&mut $self:ident.announce($($argument:ident),*)) => {
        $self.law.announce($($argument),*)
    };
    (&mut $self:ident.$method:ident($($argument:ident),*)) => {{
        let answer = $self.law.$method($($argument),*);
        $self.look();
        answer
    }};
}
use checked;

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
    Cubic: cubic::Cubic => Box,
    Dctcp: dctcp::Dctcp => Box,
    Bbr: bbr::Bbr => Box,
    Westwood: westwood::Westwood,
    Veno: veno::Veno => Box,
    Estcp: estcp::Estcp => Box,
    NewJersey: new_jersey::NewJersey => Box,
    Xcp: xcp::Xcp,
    XcpR: xcp_r::XcpR,
    Xtcp: xtcp::Xtcp => Box,
    Hybla: hybla::Hybla => Box,
    Vegas: vegas::Vegas => Box,
    Copa: copa::Copa => Box,
    Prague: prague::Prague => Box,
    Bbr1: bbr1::Bbr1 => Box,
    Highspeed: highspeed::Highspeed => Box,
    Cuback: cuback::Cuback => Box,
    Abba: abba::Abba => Box,
    Upwind: upwind::Upwind => Box,
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

/// Forwards a call to the law, and reads its window after whatever may move it.
macro_rules! cached {
    (&$self:ident.cwnd()) => {
        $self.cwnd
    };
    (&$self:ident.$method:ident()) => {
        each!(&$self.law, law => law.$method())
    };
    // It moves no window.
    (&mut $self:ident.announce($($argument:ident),*)) => {
        each!(&mut $self.law, law => law.announce($($argument),*))
    };
    (&mut $self:ident.$method:ident($($argument:ident),*)) => {{
        let (answer, cwnd) =
            each!(&mut $self.law, law => (law.$method($($argument),*), law.cwnd()));
        $self.cwnd = cwnd;
        answer
    }};
}
use cached;
