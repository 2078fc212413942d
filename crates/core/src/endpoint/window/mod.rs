//! Axis 1: how the congestion window grows and shrinks.
//!
//! A controller owns `cwnd` and the state that it needs to move it. It receives everything that
//! recovery, discrimination and feedback learn, each as one event. Recovery decides what is lost
//! and what to send next. A controller is a [`Controller`] and, if it is one of this crate's, a
//! [`ControllerPart`] in the list below; one of another crate comes in by a [`MakeController`].

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
use super::feedback::FeedbackConfig;
use crate::packet::Packet;
use crate::part::{CustomPart, Part, axis, behaviour};
use crate::rng::Stream;
use crate::units::Time;

behaviour! {
    /// A congestion controller at work. All but three of its methods do nothing by default.
    pub trait Controller: Debug + Send + Sync {
        /// The congestion window, packets; at least 1.
        @forward(inline)
        fn cwnd(&self) -> f64;
        /// The slow start threshold, packets; infinite if the controller has none.
        fn ssthresh(&self) -> f64 = f64::INFINITY;
        /// The pacing rate, packets per second, of a controller that sets it itself.
        @forward(inline)
        fn pacing_rate(&self) -> Option<f64> = None;
        /// The controller's phase in a word of its own text, in lower case, for logs. `None` where
        /// cwnd compared with ssthresh says it: slow start below, congestion avoidance from there
        /// on.
        fn phase(&self) -> Option<&'static str> = None;
        /// An acknowledgment arrived.
        @forward(inline) @boxed(inline(never))
        fn on_ack(&mut self, ack: &AckEvent);
        /// A loss or an ECN mark means congestion, with some probability. Called before
        /// [`Controller::on_ack`] for the same acknowledgment.
        fn on_congestion(&mut self, event: &CongestionEvent);
        /// A loss, found by acknowledgments or a timeout, certainly does not mean congestion.
        fn on_error_loss(&mut self, path: &Path) = ();
        /// The connection starts again. By default as after congestion, from the restart window.
        fn on_reset(&mut self, event: &ResetEvent);
        /// A transmission was found lost. Called where recovery counts by packet number, whatever
        /// discrimination says of the loss.
        fn on_lost(&mut self, packet: &LostPacket, now: Time) = ();
        /// All losses since the last reduction turned out to be spurious: what they changed may be
        /// undone.
        fn on_spurious_losses(&mut self) = ();
        /// An acknowledgment gave a delivery-rate sample, before [`Controller::on_ack`]. Called
        /// where recovery counts by packet number and [`ControllerPart::SAMPLES_RATE`]. Returns
        /// whether packets sent from now on count as limited by the application, because the
        /// controller itself holds them back.
        @boxed(inline(never))
        fn on_rate_sample(&mut self, sample: &RateSample) -> bool = false;
        /// A packet is about to leave after the application let the connection run empty. Called
        /// where delivery rates are sampled.
        fn on_restart_from_idle(&mut self, now: Time) = ();
        /// A data packet is about to leave, its congestion header stamped: the controller writes
        /// what it has to tell the receiver. `limited` says whether cwnd is what keeps the sender
        /// from sending more. Called where [`ControllerPart::ANNOUNCES`], and for every controller
        /// of another crate.
        fn announce(&mut self, packet: &mut Packet, limited: bool) = ();
        /// The shifts of phase that the controller heard of, in order; empty without ESTCP.
        fn phase_cuts(&self) -> &[PhaseCut] = &[];
    }
    impl for CheckedController, by checked;
    impl for Window, by cached;
}

/// The arguments from which a controller is made.
#[derive(Debug)]
pub struct ControllerSetup<'a> {
    /// The feedback that packets carry and acknowledgments echo.
    pub feedback: &'a FeedbackConfig,
    /// The parameters of the two ends.
    pub endpoint: &'a EndpointConfig,
    /// Random numbers for controllers that draw.
    pub stream: Stream,
}

/// A congestion controller of this crate, with the facts about it that hold before there is a
/// connection.
pub trait ControllerPart: Part + Controller + Sized {
    /// True if it sets the pacing rate itself.
    const PACES: bool = false;
    /// True if it uses delivery-rate samples. Then it also [needs](Part::NEEDS) transmission
    /// numbers.
    const SAMPLES_RATE: bool = false;
    /// True if it answers ECN marks as losses (RFC 3168), where ECN is negotiated.
    const ANSWERS_ECN: bool = true;
    /// True if it scales its decrease by the probability that a loss was congestion. If not, only a
    /// discriminator that never doubts goes with it.
    const HEEDS_VERDICTS: bool = true;
    /// True if it has something to tell the receiver ([`Controller::announce`]).
    const ANNOUNCES: bool = false;

    /// The bandwidth estimate that it, or the discriminator beside it, uses.
    fn bandwidth(_config: &Self::Config) -> Option<(BandwidthKind, Counting)> {
        None
    }
    /// The state at the start of a connection.
    fn new(config: &Self::Config, setup: ControllerSetup<'_>) -> Self;
}

/// Makes the states of a congestion controller that another crate gives.
pub trait MakeController: CustomPart {
    /// The state at the start of a connection.
    fn make(&self, setup: ControllerSetup<'_>) -> Box<dyn Controller>;
    /// See [`ControllerPart::PACES`].
    fn paces(&self) -> bool {
        false
    }
    /// See [`ControllerPart::SAMPLES_RATE`].
    fn samples_rate(&self) -> bool {
        false
    }
    /// See [`ControllerPart::ANSWERS_ECN`].
    fn answers_ecn(&self) -> bool {
        true
    }
}

/// The largest window that a controller of another crate may return, packets.
const LARGEST_WINDOW: f64 = (1_u64 << 32) as f64;

/// A congestion controller of another crate, with its answers kept in the range that a sender can
/// use. An invalid window (not a number, below one packet or beyond 2^32) becomes one packet or
/// 2^32, and is counted.
#[derive(Debug)]
pub struct CheckedController {
    controller: Box<dyn Controller>,
    cwnd: f64,
    refused: u64,
}

impl CheckedController {
    fn new(controller: Box<dyn Controller>) -> Self {
        let mut checked = CheckedController { controller, cwnd: 1.0, refused: 0 };
        checked.look();
        checked
    }

    /// Reads the window after an event.
    fn look(&mut self) {
        let cwnd = self.controller.cwnd();
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

/// Forwards a call to a controller of another crate, and reads its window after each call that may
/// move it.
macro_rules! checked {
    (&$self:ident.cwnd()) => {
        $self.cwnd
    };
    (&$self:ident.ssthresh()) => {{
        let ssthresh = $self.controller.ssthresh();
        if ssthresh.is_nan() { f64::INFINITY } else { ssthresh }
    }};
    // An invalid rate is no limit, as with controllers that set no pace.
    (&$self:ident.pacing_rate()) => {
        $self.controller.pacing_rate().filter(|rate| rate.is_finite() && *rate > 0.0)
    };
    (&$self:ident.$method:ident()) => {
        $self.controller.$method()
    };
    (&mut $self:ident.announce($($argument:ident),*)) => {
        $self.controller.announce($($argument),*)
    };
    (&mut $self:ident.$method:ident($($argument:ident),*)) => {{
        let answer = $self.controller.$method($($argument),*);
        $self.look();
        answer
    }};
}
use checked;

axis! {
    $ each each_config;
    /// The congestion controllers by name, with their parameters.
    config ControllerConfig;
    /// The state of a congestion controller.
    state ControllerState;
    @make ControllerPart(ControllerSetup<'_>);
    @custom dyn MakeController => Box<CheckedController> =
        |maker: &dyn MakeController, setup: ControllerSetup<'_>| {
            Box::new(CheckedController::new(maker.make(setup)))
        };
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

impl ControllerConfig {
    /// True if it sets the pacing rate itself.
    pub fn paces(&self) -> bool {
        each_config!(self, C(_) => <C as ControllerPart>::PACES, custom(maker) => maker.paces())
    }
    /// True if it uses delivery-rate samples.
    pub fn samples_rate(&self) -> bool {
        each_config!(
            self,
            C(_) => <C as ControllerPart>::SAMPLES_RATE,
            custom(maker) => maker.samples_rate()
        )
    }
    /// True if it answers ECN marks as losses, where ECN is negotiated.
    pub fn answers_ecn(&self) -> bool {
        each_config!(
            self,
            C(_) => <C as ControllerPart>::ANSWERS_ECN,
            custom(maker) => maker.answers_ecn()
        )
    }
    /// True if it scales its decrease by the probability that a loss was congestion.
    pub fn heeds_verdicts(&self) -> bool {
        each_config!(self, C(_) => <C as ControllerPart>::HEEDS_VERDICTS, custom(_maker) => true)
    }
    /// True if it has something to tell the receiver.
    pub fn announces(&self) -> bool {
        each_config!(self, C(_) => <C as ControllerPart>::ANNOUNCES, custom(_maker) => true)
    }
    /// The bandwidth estimate that it, or the discriminator beside it, uses.
    pub fn bandwidth(&self) -> Option<(BandwidthKind, Counting)> {
        each_config!(
            self,
            C(config) => <C as ControllerPart>::bandwidth(config),
            custom(_maker) => None
        )
    }
}

/// A congestion controller at work with its window cached: cwnd is read several times for each
/// packet.
#[derive(Debug)]
pub struct Window {
    cwnd: f64,
    controller: ControllerState,
}

impl Window {
    /// The state at the start of a connection.
    pub fn new(controller: &ControllerConfig, setup: ControllerSetup<'_>) -> Self {
        let controller = controller.make(setup);
        Window { cwnd: each!(&controller, controller => controller.cwnd()), controller }
    }

    /// The controller.
    pub fn controller(&self) -> &ControllerState {
        &self.controller
    }

    /// The number of invalid windows that a controller of another crate returned.
    pub fn refused_windows(&self) -> u64 {
        match &self.controller {
            ControllerState::Custom(checked) => checked.refused,
            _ => 0,
        }
    }
}

/// Forwards a call to the controller, and reads its window after each call that may move it.
macro_rules! cached {
    (&$self:ident.cwnd()) => {
        $self.cwnd
    };
    (&$self:ident.$method:ident()) => {
        each!(&$self.controller, controller => controller.$method())
    };
    // It moves no window.
    (&mut $self:ident.announce($($argument:ident),*)) => {
        each!(&mut $self.controller, controller => controller.announce($($argument),*))
    };
    (&mut $self:ident.$method:ident($($argument:ident),*)) => {{
        let (answer, cwnd) = each!(&mut $self.controller, controller => {
            (controller.$method($($argument),*), controller.cwnd())
        });
        $self.cwnd = cwnd;
        answer
    }};
}
use cached;
