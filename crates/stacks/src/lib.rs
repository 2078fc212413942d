//! Deployed QUIC stacks as endpoints of Windward's simulator, in virtual time.
//!
//! What runs is the code that is deployed: its handshake, packets, streams, loss detection, pacing and
//! congestion control, as its package has them. What is around it is modelled: the clock, the socket,
//! the cryptography and the application. `docs/stacks.md` says what that leaves out.
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

use std::sync::OnceLock;

use windward_sim::stack::Stacks;

use law::Pacer;

mod application;
mod clock;
mod family;
mod handshake;
mod law;
mod noq;
mod quinn;
mod random;
mod watched;

/// Every stack there is, in the order of the documentation.
pub fn all() -> Stacks {
    static ALL: OnceLock<Stacks> = OnceLock::new();
    let make = || {
        let refused = family::refused("quinn", Pacer::Own);
        let refused = refused.chain(family::refused("noq", Pacer::Obeys));
        Stacks::from_iter(quinn::stacks().chain(noq::stacks())).refusing(refused)
    };
    ALL.get_or_init(make).clone()
}
