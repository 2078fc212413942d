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
//! - `law`: a controller of Windward in a stack. `s2n`: controllers of s2n-quic in noq. `watched`:
//!   a record of the values that a stack reports only to its controller.
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

mod application;
mod clock;
mod family;
mod handshake;
mod law;
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
    let good = |c: char| c.is_ascii_alphanumeric() || "-_+.".contains(c);
    if name.is_empty() || !name.chars().all(good) {
        return Err(format!("a controller cannot be named `{}`", name.escape_debug()));
    }
    match host {
        Host::Quinn => family::with_controller::<Quinn>(name, controller),
        Host::Noq => family::with_controller::<Noq>(name, controller),
    }
}
