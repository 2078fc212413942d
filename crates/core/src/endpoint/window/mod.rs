//! Axis 1: how the congestion window grows and shrinks.
//!
//! A controller owns `cwnd` and its own state. It receives the results of recovery, discrimination
//! and feedback as events. Recovery decides which packets are lost and what to send next. Every
//! controller implements [`Controller`]. One of this crate is also a [`ControllerPart`] in the list
//! below; other crates provide a [`MakeController`].

mod abba;
mod bbr;
mod bbr1;
mod copa;
mod cuback;
mod cubic;
mod cubic_linux;
mod dctcp;
mod estcp;
mod expressions;
mod fixed;
mod highspeed;
mod hybla;
mod judge;
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
pub use expressions::{ExpressionController, Expressions, VARIABLES, WrongExpression};
pub use fixed::FixedConfig;
pub use highspeed::HighspeedConfig;
pub use hybla::HyblaConfig;
pub use judge::{
    Fault, Judge, LARGEST_WINDOW, LEAST_RATE, LEAST_WINDOW, Wrong, fault, is_rate, is_window,
    record,
};
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
use super::event::{AckEvent, CongestionEvent, Idle, Path, ResetEvent};
use super::feedback::FeedbackConfig;
use crate::packet::Packet;
use crate::part::{CustomPart, Part, axis, behaviour};
use crate::rng::Stream;
use crate::units::Time;

behaviour! {
    /// The congestion controller of one connection. Only three methods have no default.
    pub trait Controller: Debug + Send + Sync {
        /// The congestion window, in packets; at least 1.
        @forward(inline)
        fn cwnd(&self) -> f64;
        /// The slow start threshold, in packets; infinite if the controller has none.
        fn ssthresh(&self) -> f64 = f64::INFINITY;
        /// The pacing rate, in packets per second, of a controller that sets it itself.
        @forward(inline)
        fn pacing_rate(&self) -> Option<f64> = None;
        /// The name of the controller's phase in lower case, for logs. `None` if cwnd and ssthresh
        /// determine it: slow start below ssthresh, congestion avoidance from there on.
        fn phase(&self) -> Option<&'static str> = None;
        /// Handles an acknowledgment.
        @forward(inline(always)) @boxed(inline(never))
        fn on_ack(&mut self, ack: &AckEvent);
        /// Handles a loss or an ECN mark that means congestion, with some probability. Called
        /// before [`Controller::on_ack`] for the same acknowledgment.
        fn on_congestion(&mut self, event: &CongestionEvent);
        /// Handles a loss, found by acknowledgments or a timeout, that is certainly not congestion.
        fn on_error_loss(&mut self, path: &Path) = ();
        /// Handles a restart of the connection, normally as congestion, with the restart window.
        fn on_reset(&mut self, event: &ResetEvent);
        /// Handles a lost transmission. Called if recovery counts by packet number, for every loss,
        /// independently of discrimination.
        fn on_lost(&mut self, packet: &LostPacket, now: Time) = ();
        /// Handles the news that all losses since the last reduction were spurious, so that the
        /// reduction may be undone.
        fn on_spurious_losses(&mut self) = ();
        /// Handles the delivery-rate sample of an acknowledgment, before [`Controller::on_ack`].
        /// Called if recovery counts by packet number and [`ControllerPart::SAMPLES_RATE`] is set.
        /// Returns true if packets sent from now on count as limited by the application, because
        /// the controller itself limits them.
        @boxed(inline(never))
        fn on_rate_sample(&mut self, sample: &RateSample) -> bool = false;
        /// Handles the first packet after an idle time of the application, before it is sent.
        /// Called if delivery rates are sampled.
        fn on_restart_from_idle(&mut self, now: Time) = ();
        /// Handles the first packet after a time without packets in flight, before it is sent.
        /// Called if [`super::EndpointConfig::cwnd_validation`] is set.
        fn on_idle(&mut self, idle: &Idle) = ();
        /// Handles a change of the size of full packets, which take another time at the bottleneck:
        /// RTTs before and after it do not compare.
        fn on_packet_size(&mut self) = ();
        /// Writes the controller's message to the receiver into a data packet that is about to be
        /// sent, after its congestion header was stamped. `limited` is true if cwnd keeps the
        /// sender from sending more. Called if [`ControllerPart::ANNOUNCES`] is set, and for every
        /// controller of another crate.
        fn announce(&mut self, packet: &mut Packet, limited: bool) = ();
        /// The shifts of phase received so far, in order; empty without ESTCP.
        fn phase_cuts(&self) -> &[PhaseCut] = &[];
    }
    impl for CheckedController, by checked;
    impl for Window, by cached;
}

/// Arguments for the construction of a controller.
#[derive(Debug)]
pub struct ControllerSetup<'a> {
    /// The feedback that packets carry and acknowledgments echo.
    pub feedback: &'a FeedbackConfig,
    /// The parameters of the two ends.
    pub endpoint: &'a EndpointConfig,
    /// Random numbers.
    pub stream: Stream,
}

/// A congestion controller of this crate, with its properties that do not depend on a connection.
pub trait ControllerPart: Part + Controller + Sized {
    /// True if it sets the pacing rate itself.
    const PACES: bool = false;
    /// True if it uses delivery-rate samples. Then it also [needs](Part::NEEDS) transmission
    /// numbers.
    const SAMPLES_RATE: bool = false;
    /// True if it responds to ECN marks as to losses (RFC 3168), if ECN is negotiated.
    const ANSWERS_ECN: bool = true;
    /// True if its connections negotiate ECN unless they are told not to.
    const NEGOTIATES_ECN: bool = false;
    /// True if it scales its decrease by the probability that a loss was congestion. Otherwise it
    /// needs a discriminator whose verdicts are always certain congestion.
    const HEEDS_VERDICTS: bool = true;
    /// True if it sends messages to the receiver ([`Controller::announce`]).
    const ANNOUNCES: bool = false;

    /// The bandwidth estimate that it, or its discriminator, uses.
    fn bandwidth(_config: &Self::Config) -> Option<(BandwidthKind, Counting)> {
        None
    }
    /// True if it measures delays. In a QUIC stack its ACK events are then free of the receiver's
    /// ACK delay, and one that may contain it comes with the next ACK frame.
    fn measures_delay(_config: &Self::Config) -> bool {
        true
    }
    /// The state at the start of a connection.
    fn new(config: &Self::Config, setup: ControllerSetup<'_>) -> Self;
}

/// Constructor of a congestion controller that another crate provides.
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
    /// See [`ControllerPart::measures_delay`].
    fn measures_delay(&self) -> bool {
        true
    }
    /// See [`ControllerPart::ANSWERS_ECN`].
    fn answers_ecn(&self) -> bool {
        true
    }
    /// See [`ControllerPart::NEGOTIATES_ECN`].
    fn negotiates_ecn(&self) -> bool {
        false
    }
    /// The expressions, if it is a controller of expressions.
    fn as_expressions(&self) -> Option<&ExpressionController> {
        None
    }
}

/// A congestion controller of another crate whose answers a [`Judge`] makes such that a sender can
/// use them: an invalid window becomes the smallest or the largest valid one, and an invalid pacing
/// rate none. Both void the run ([`fault`]).
#[derive(Debug)]
pub struct CheckedController {
    controller: Box<dyn Controller>,
    cwnd: f64,
    judge: Judge,
}

impl CheckedController {
    fn new(controller: Box<dyn Controller>, name: &'static str) -> Self {
        let mut checked = CheckedController { controller, cwnd: 1.0, judge: Judge::new(name) };
        checked.look();
        checked
    }

    /// Reads the answers after an event.
    fn look(&mut self) {
        self.cwnd = self.judge.window(self.controller.cwnd());
        self.judge.pacing_rate(self.controller.pacing_rate());
    }
}

/// Forwards a call to a controller of another crate, and reads its answers after each call that may
/// change them.
macro_rules! checked {
    (&$self:ident.cwnd()) => {
        $self.cwnd
    };
    (&$self:ident.ssthresh()) => {{
        let ssthresh = $self.controller.ssthresh();
        if ssthresh.is_nan() { f64::INFINITY } else { ssthresh }
    }};
    // An invalid rate means no limit, as for controllers that do not pace.
    (&$self:ident.pacing_rate()) => {
        $self.controller.pacing_rate().filter(|rate| is_rate(*rate))
    };
    (&$self:ident.$method:ident()) => {
        $self.controller.$method()
    };
    (&mut $self:ident.announce($packet:ident, $limited:ident)) => {{
        $self.judge.sent(1, $packet.timestamp);
        $self.controller.announce($packet, $limited)
    }};
    (&mut $self:ident.on_ack($ack:ident)) => {{
        $self.judge.delivered($ack.delivered);
        checked!($self, "an acknowledgment", $ack.path.now, on_ack($ack))
    }};
    (&mut $self:ident.on_congestion($event:ident)) => {
        checked!($self, "a loss or a mark", $event.path.now, on_congestion($event))
    };
    (&mut $self:ident.on_reset($event:ident)) => {
        checked!($self, "a timeout", $event.path.now, on_reset($event))
    };
    (&mut $self:ident.$method:ident($($argument:ident),*)) => {{
        let answer = $self.controller.$method($($argument),*);
        $self.look();
        answer
    }};
    ($self:ident, $after:literal, $now:expr, $method:ident($argument:ident)) => {{
        $self.judge.after($after, $now);
        $self.controller.$method($argument);
        $self.look();
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
            Box::new(CheckedController::new(maker.make(setup), maker.words().name))
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
    /// True if it measures delays; see [`ControllerPart::measures_delay`].
    pub fn measures_delay(&self) -> bool {
        each_config!(
            self,
            C(config) => <C as ControllerPart>::measures_delay(config),
            custom(maker) => maker.measures_delay()
        )
    }
    /// True if it responds to ECN marks as to losses, if ECN is negotiated.
    pub fn answers_ecn(&self) -> bool {
        each_config!(
            self,
            C(_) => <C as ControllerPart>::ANSWERS_ECN,
            custom(maker) => maker.answers_ecn()
        )
    }
    /// True if its connections negotiate ECN unless they are told not to.
    pub fn negotiates_ecn(&self) -> bool {
        each_config!(
            self,
            C(_) => <C as ControllerPart>::NEGOTIATES_ECN,
            custom(maker) => maker.negotiates_ecn()
        )
    }
    /// True if it scales its decrease by the probability that a loss was congestion.
    pub fn heeds_verdicts(&self) -> bool {
        each_config!(self, C(_) => <C as ControllerPart>::HEEDS_VERDICTS, custom(_maker) => true)
    }
    /// True if it sends messages to the receiver.
    pub fn announces(&self) -> bool {
        each_config!(self, C(_) => <C as ControllerPart>::ANNOUNCES, custom(_maker) => true)
    }
    /// The bandwidth estimate that it, or its discriminator, uses.
    pub fn bandwidth(&self) -> Option<(BandwidthKind, Counting)> {
        each_config!(
            self,
            C(config) => <C as ControllerPart>::bandwidth(config),
            custom(_maker) => None
        )
    }
}

/// The congestion controller of a connection with its window cached, since cwnd is read several
/// times for each packet.
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
            ControllerState::Custom(checked) => checked.judge.refused(),
            _ => 0,
        }
    }
}

/// Forwards a call to the controller, and reads its window after each call that may change it.
macro_rules! cached {
    (&$self:ident.cwnd()) => {
        $self.cwnd
    };
    (&$self:ident.$method:ident()) => {
        each!(&$self.controller, controller => controller.$method())
    };
    // `announce` does not change the window.
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
