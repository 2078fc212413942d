//! Windward on a real clock: the engine of the simulator, and packets of outside programs in it.
//!
//! [`port`] is where a scenario's flows end and the outside begins; [`emulate`] moves a simulation
//! on as a [`clock`] goes, and brings packets in and out; [`headers`] are what the network sees of
//! them. [`record`] keeps what came in, and takes it through the engine again in virtual time.
//!
//! On Linux, `testbed` has network namespaces at the ends of ports, for programs to run in.
//! `source` and `link` make a scenario ready for it; `emulation` runs it; `trial` measures programs
//! at its ports, and `campaign` compares many of them.
//!
//! `perf` measures a path as iperf3 does for TCP, with the protocols of the table: the same senders
//! and receivers that the simulator drives, driven by the clock and by UDP datagrams. `router` is
//! the queue of a gateway: what it forwards goes through a link of the engine.

#[cfg(target_os = "linux")]
pub mod campaign;
pub mod clock;
pub mod emulate;
#[cfg(target_os = "linux")]
pub mod emulation;
#[cfg(target_os = "linux")]
pub mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod headers;
pub mod histogram;
#[cfg(target_os = "linux")]
pub mod link;
#[cfg(target_os = "linux")]
pub mod perf;
pub mod port;
#[cfg(target_os = "linux")]
pub mod programs;
pub mod record;
#[cfg(target_os = "linux")]
pub mod router;
#[cfg(target_os = "linux")]
pub mod source;
#[cfg(target_os = "linux")]
pub mod testbed;
#[cfg(target_os = "linux")]
pub mod trial;
#[cfg(target_os = "linux")]
pub mod waits;
