//! Windward on a real clock: the engine of the simulator, and packets of outside programs in it.
//!
//! [`port`] is where a scenario's flows end and the outside begins; [`emulate`] moves a simulation on as a [`clock`] goes, and
//! brings packets in and out; [`headers`] are what the network sees of them. [`record`] keeps what came in, and takes it
//! through the engine again in virtual time.
//! [`router`] is a queue of a gateway: what it forwards goes through a link of the engine.

pub mod clock;
pub mod emulate;
pub mod headers;
pub mod port;
pub mod record;
#[cfg(target_os = "linux")]
pub mod router;
