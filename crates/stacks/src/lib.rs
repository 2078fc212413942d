//! Deployed QUIC stacks as endpoints of Windward's simulator, in virtual time.
//!
//! The deployed code runs unchanged: its handshake, packets, streams, loss detection, pacing and
//! congestion control, as in its package. The clock, the socket, the cryptography and the
//! application around it are modelled; `docs/stacks.md` describes the differences.
//!
//! The modules, in the order of reading:
//!
//! - `family`: description and making of the stacks of quinn's family. `quinn` and `noq`: these
//!   stacks. `quic`: their common code, compiled with each of them.
//! - `clock`, `random`, `handshake` and `application`: the modelled surroundings of a stack.
//! - `s2n`: controllers of s2n-quic in noq. `watched`: a record of the values that a stack reports
//!   only to its controller. Windward's own protocols run in `windward_core::endpoint::driver`; the
//!   one that `windward-quic` puts into quinn is that of deployed programs.
//! - `wire`: a reader of QUIC packets for logs.
//!
//! ```
//! use windward_sim::scenario::file::ScenarioFile;
//!
//! let text = r#"
//! duration = "5s"
//! [dumbbell]
//! bottleneck = { rate = "5Mbit", delay = "20ms", queue = "50p" }
//! access = { rate = "10Mbit", delay = "5ms" }
//! [[flows]]
//! group = "bulk"
//! protocol = "quinn:cubic"
//! "#;
//! let file = ScenarioFile::parse("inline", text)?.with_stacks(&windward_stacks::all());
//! let outcome = windward_sim::run(&file.build()?);
//! assert_eq!(outcome.flows[0].protocol, "quinn:cubic");
//! assert!(outcome.flows[0].goodput_bps > 4e6);
//! # Ok::<(), windward_sim::scenario::file::ScenarioError>(())
//! ```

#![expect(clippy::duplicate_mod, reason = "noq comes from quinn: one source is compiled with each")]

use std::sync::{Arc, OnceLock};

use windward_core::endpoint::window::ControllerConfig;
use windward_sim::stack::{Stack, Stacks};

use noq::Noq;
use quinn::Quinn;

#[macro_use]
mod quic;

/// The version of noq-proto that [`with_noq`] takes.
pub use noq_proto;
/// The version of quinn-proto that [`with_quinn`] takes: that of quinn 0.11.
pub use quinn_proto;
/// The version of s2n-quic-core that [`with_s2n`] takes.
pub use s2n_quic_core;

mod application;
mod clock;
mod family;
mod handshake;
mod noq;
mod quinn;
mod random;
mod s2n;
mod watched;
mod wire;

/// All stacks, in the order of the documentation.
pub fn all() -> Stacks {
    static ALL: OnceLock<Stacks> = OnceLock::new();
    let make = || {
        let refused = family::refused::<Quinn>().chain(family::refused::<Noq>());
        Stacks::from_iter(family::all::<Quinn>().chain(family::all::<Noq>())).refusing(refused)
    };
    ALL.get_or_init(make).clone()
}

/// A stack in which a congestion controller can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    /// quinn-proto 0.11.
    Quinn,
    /// noq-proto 1.4.
    Noq,
}

/// The stack with a congestion controller of another crate behind its congestion controller, called
/// `quinn:NAME` or `noq:NAME`. The controller gets the same events as those of Windward there
/// (`docs/stacks.md`). An invalid window is clamped and counted, and a panic ends the connection,
/// not the run.
///
/// ```
/// use windward_core::endpoint::window::{ControllerConfig, FixedConfig};
/// use windward_sim::stack::Stacks;
/// use windward_stacks::{Host, all, with_controller};
///
/// let fixed = ControllerConfig::Fixed(FixedConfig { window: 20.0 });
/// let fixed = with_controller(Host::Quinn, "mine", fixed)?;
/// let stacks = Stacks::from_iter(all().iter().cloned().chain([fixed]));
/// assert!(stacks.find("quinn:mine").is_some());
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
/// If the name is invalid or taken, or if a stack lacks what the controller needs: the reason, as a
/// sentence without a capital or a full stop.
pub fn with_controller(
    host: Host,
    name: &str,
    controller: ControllerConfig,
) -> Result<Arc<dyn Stack>, String> {
    valid(name)?;
    match host {
        Host::Quinn => family::with_controller::<Quinn>(name, controller),
        Host::Noq => family::with_controller::<Noq>(name, controller),
    }
}

/// Checks the name of a controller.
fn valid(name: &str) -> Result<(), String> {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_+.".contains(c);
    if name.is_empty() || !name.chars().all(good) {
        return Err(format!("a controller cannot be named `{}`", name.escape_debug()));
    }
    Ok(())
}

/// quinn with a congestion controller of another crate, called `quinn:NAME`. The controller runs
/// behind quinn's own interface.
///
/// ```
/// use std::sync::Arc;
/// use windward_stacks::quinn_proto::congestion::NewRenoConfig;
///
/// let mine = windward_stacks::with_quinn("mine", Arc::new(NewRenoConfig::default()))?;
/// assert_eq!(mine.facts().name, "quinn:mine");
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
/// If the name is invalid or taken, as a sentence without a capital or a full stop.
pub fn with_quinn(
    name: &str,
    factory: Arc<dyn quinn_proto::congestion::ControllerFactory + Send + Sync>,
) -> Result<Arc<dyn Stack>, String> {
    valid(name).and_then(|()| family::with_factory::<Quinn>(name, factory))
}

/// noq with a congestion controller of another crate, called `noq:NAME`: as [`with_quinn`].
///
/// # Errors
/// As for [`with_quinn`].
pub fn with_noq(
    name: &str,
    factory: Arc<dyn noq_proto::congestion::ControllerFactory + Send + Sync>,
) -> Result<Arc<dyn Stack>, String> {
    valid(name).and_then(|()| family::with_factory::<Noq>(name, factory))
}

/// A congestion controller with the interface of s2n-quic, in noq, called `noq:NAME`. `make` gets
/// the largest datagram, bytes. s2n-quic has no core without I/O, so that noq is around it.
///
/// # Errors
/// As for [`with_quinn`].
pub fn with_s2n<C>(
    name: &str,
    make: impl Fn(u16) -> C + Send + Sync + 'static,
) -> Result<Arc<dyn Stack>, String>
where
    C: s2n_quic_core::recovery::CongestionController<PacketInfo: Sync> + Sync,
{
    valid(name).and_then(|()| family::with_factory::<Noq>(name, s2n::factory(make, 1)))
}
