//! Evaluation of a congestion controller of any project in that project's own tests.
//!
//! Implement [`Controller`], a few methods over integers and [`Duration`](std::time::Duration), and
//! write:
//!
//! ```
//! use std::time::Duration;
//! use windward_evaluate::{Ack, Congestion, Controller, evaluate};
//!
//! struct Halving { window: u64, threshold: u64 }
//!
//! impl Controller for Halving {
//!     fn window(&self) -> u64 { self.window }
//!     fn on_ack(&mut self, ack: &Ack) {
//!         if ack.app_limited || ack.in_recovery { return }
//!         self.window += match self.window < self.threshold {
//!             true => ack.bytes,
//!             false => 1500 * ack.bytes / self.window,
//!         };
//!     }
//!     fn on_congestion(&mut self, _: &Congestion) {
//!         self.threshold = (self.window / 2).max(3000);
//!         self.window = self.threshold;
//!     }
//! }
//!
//! evaluate(|| Halving { window: 15_000, threshold: u64::MAX }).only(["high-loss"]).assert();
//! ```
//!
//! Each [`Criterion`] comes from RFC 9743 (BCP 133). The criteria are data in
//! experiments/suites/rfc9743, in the experiments that the suite names as `smoke`. Where the RFC
//! gives no number, the bound is relative to NewReno and CUBIC in the same scenario (harm in the
//! sense of Ware et al., HotNets 2019), so that it is not arbitrary. A packet simulator executes
//! the runs in virtual time: the same controller gives the same numbers, to the bit, on any
//! machine. The runs are small, some ten seconds of slow links, and detect serious faults.
//! `windward evaluate` and [`Builder::report`] evaluate all criteria of the RFC in minutes and
//! write a page to attach to a draft.
//!
//! Faults of a controller reach the test only as a verdict. A panic is caught (if panics unwind)
//! and reported with its message. Windows of zero or beyond a million packets are refused and
//! reported. The run of a controller that floods the path is cut short. State kept from one
//! connection to another, and the use of a clock, are detected by a second, identical run. Two
//! faults cannot be limited from here: unlimited memory, and a call that never returns.

mod controller;
mod guard;
mod smoke;
#[cfg(feature = "stacks")]
mod stacks;
mod suite;
mod verdict;

use std::fmt;
use std::sync::Arc;

use windward_core::endpoint::recovery::RecoveryConfig;
use windward_core::endpoint::window::ControllerConfig;
use windward_core::part::{Custom, Plain};
use windward_core::protocols::{self, Protocol};
use windward_evaluation::Suite;
use windward_experiments::ExperimentError;
use windward_experiments::experiment::{Experiment, Subject};
use windward_sim::stack::{Stack, Stacks};

pub use controller::{Ack, Cause, Congestion, Controller, Sent};
pub use guard::Trouble;
#[cfg(feature = "stacks")]
pub use stacks::{noq, noq_proto, quinn, quinn_proto, s2n, s2n_quic_core};
pub use suite::{Answer, Report};
pub use verdict::{Criterion, CriterionResult, Error, Evaluation};

use guard::{Maker, Watch};
use smoke::Smoke;

/// The suite that criteria come from.
const SUITE: &str = "rfc9743";

/// Begins the evaluation of a controller: `make` returns one for each connection, at its start.
///
/// A few hundred bytes per evaluation stay in memory until the program ends.
pub fn evaluate<C: Controller + 'static>(make: impl Fn() -> C + Send + Sync + 'static) -> Builder {
    Builder::of(Source::Own(Box::new(move || Box::new(make()))))
}

/// The controller to evaluate.
enum Source {
    /// Makes one for each connection.
    Own(Box<dyn Fn() -> Box<dyn Controller> + Send + Sync>),
    /// Makes the stack with it, by the controller's name.
    #[cfg_attr(not(feature = "stacks"), expect(dead_code, reason = "made with that feature"))]
    Stack(MakeStack),
}

/// Makes a stack with a controller of this name.
type MakeStack = Box<dyn Fn(&str) -> Result<Arc<dyn Stack>, String> + Send + Sync>;

/// An evaluation to run: the controller and the options.
#[must_use = "it runs by `run` or `assert`"]
pub struct Builder {
    name: String,
    source: Source,
    paced: bool,
    against: Vec<String>,
    only: Vec<String>,
    effort: Effort,
}

/// Number of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effort {
    Smoke,
    Quick,
    Full,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Builder { name, paced, against, only, effort, .. } = self;
        f.debug_struct("Builder")
            .field("name", name)
            .field("paced", paced)
            .field("against", against)
            .field("only", only)
            .field("effort", effort)
            .finish_non_exhaustive()
    }
}

impl Builder {
    fn of(source: Source) -> Self {
        Builder {
            name: "controller".to_owned(),
            source,
            paced: false,
            against: Builder::standards(),
            only: Vec::new(),
            effort: Effort::Smoke,
        }
    }

    /// Default standards for bounds.
    fn standards() -> Vec<String> {
        ["newreno", "cubic"].map(String::from).to_vec()
    }

    /// Sets the name of the controller in reports; the default is `controller`.
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Paces packets at [`Controller::pacing_rate`]. By default only the window limits the sender.
    pub fn paced(mut self) -> Self {
        self.paced = true;
        self
    }

    /// Runs every scenario once: the default, for tests at each change. Well below five seconds in
    /// a debug build.
    pub fn smoke(mut self) -> Self {
        self.effort = Effort::Smoke;
        self
    }

    /// Runs every scenario with five seeds, with bounds on the means.
    pub fn quick(mut self) -> Self {
        self.effort = Effort::Quick;
        self
    }

    /// Runs every scenario with thirty seeds, with bounds on the means.
    pub fn full(mut self) -> Self {
        self.effort = Effort::Full;
        self
    }

    /// Sets the standards that bounds are relative to and that must not be harmed: names of
    /// `windward list`, by default `newreno` and `cubic`.
    pub fn against<S: Into<String>>(mut self, standards: impl IntoIterator<Item = S>) -> Self {
        self.against = standards.into_iter().map(Into::into).collect();
        self
    }

    /// Restricts the evaluation to these criteria, by [`Criterion::id`].
    pub fn only<S: Into<String>>(mut self, criteria: impl IntoIterator<Item = S>) -> Self {
        self.only = criteria.into_iter().map(Into::into).collect();
        self
    }

    /// Runs the evaluation.
    ///
    /// # Errors
    /// If there is no such criterion or standard.
    pub fn run(self) -> Result<Evaluation, Error> {
        let Builder { name, source, paced, against, only, effort } = self;
        let watch = Arc::new(Watch::default());
        if against.is_empty() {
            return Err(Error("name at least one standard for the bounds".to_owned()));
        }
        let Placed { subject, stacks } = placed(source, "controller", paced, &watch)?;
        for name in &against {
            if protocols::find(name).is_none() && stacks.find(name).is_none() {
                let rows = protocols::PROTOCOLS.iter().map(|p| p.name);
                let known: Vec<&str> = rows.chain(stacks.iter().map(|s| s.facts().name)).collect();
                let known = known.join(", ");
                return Err(Error(format!("there is no protocol `{name}`; valid: {known}")));
            }
        }
        let mut suite = Suite::find(SUITE).map_err(failed)?;
        suite.standards = against.iter().map(|name| Subject::row(name)).collect();
        let smoke = Smoke::new(&suite, &subject, &stacks, &watch).map_err(failed)?;
        let known: Vec<String> = smoke.criteria().into_iter().map(|c| c.id).collect();
        if let Some(unknown) = only.iter().find(|id| !known.contains(id)) {
            return Err(Error(format!(
                "there is no criterion `{unknown}`; valid: {}",
                known.join(", ")
            )));
        }
        let runs = |experiment: &Experiment| match effort {
            Effort::Smoke => 1,
            Effort::Quick => experiment.quick.repetitions,
            Effort::Full => experiment.full.repetitions,
        };
        let (verdicts, troubles) = smoke.verdicts(&only, runs).map_err(failed)?;
        Ok(Evaluation { name, troubles, verdicts })
    }

    /// Restricts the evaluation to these criteria, by [`Criterion::id`], and runs it as
    /// [`Builder::assert`].
    ///
    /// # Panics
    /// As [`Builder::assert`].
    #[track_caller]
    pub fn assert_meets<S: Into<String>>(self, criteria: impl IntoIterator<Item = S>) {
        self.only(criteria).assert();
    }

    /// Runs the evaluation, and panics with a table of all verdicts unless every criterion is met
    /// and there are no troubles.
    ///
    /// # Panics
    /// In that case, and if [`Builder::run`] returns an error.
    #[track_caller]
    pub fn assert(self) {
        match self.run() {
            Ok(evaluation) => assert!(evaluation.passes(), "\n{evaluation}"),
            Err(error) => panic!("{error}"),
        }
    }
}

/// A subject, and the stacks that scenarios with it need.
struct Placed {
    subject: Subject,
    stacks: Stacks,
}

/// The controller as a subject of that name.
fn placed(
    source: Source,
    name: &'static str,
    paced: bool,
    watch: &Arc<Watch>,
) -> Result<Placed, Error> {
    match source {
        Source::Own(make) => {
            let maker: &'static Maker =
                Box::leak(Box::new(Maker::new(make, paced, Arc::clone(watch))));
            let subject = Subject::own(protocol(name, maker)).map_err(Error)?;
            Ok(Placed { subject, stacks: Stacks::none() })
        }
        Source::Stack(make) => {
            let stack = make(name).map_err(Error)?;
            let subject = Subject::row(stack.facts().name);
            Ok(Placed { subject, stacks: all_stacks().with(stack) })
        }
    }
}

#[cfg(feature = "stacks")]
fn all_stacks() -> Stacks {
    windward_stacks::all()
}

#[cfg(not(feature = "stacks"))]
fn all_stacks() -> Stacks {
    Stacks::none()
}

/// The protocol with that controller and the loss detection of RFC 9002.
fn protocol(name: &'static str, maker: &'static Maker) -> Protocol {
    Protocol {
        name,
        window: ControllerConfig::Custom(Custom(maker)),
        recovery: RecoveryConfig::PacketNumber(Plain),
        ..*protocols::plain()
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn failed(error: ExperimentError) -> Error {
    Error(error.to_string())
}

impl Criterion {
    /// All criteria, in the order of the RFC.
    pub fn all() -> Vec<Criterion> {
        let (watch, standard) = (Watch::default(), Subject::row("newreno"));
        let suite = Suite::find(SUITE).unwrap_or_else(|why| unreachable!("it comes along: {why}"));
        let smoke = Smoke::new(&suite, &standard, &Stacks::none(), &watch);
        smoke.unwrap_or_else(|why| unreachable!("it is tested: {why}")).criteria()
    }
}

#[cfg(test)]
mod tests;
