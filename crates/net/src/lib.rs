//! Windward on a real clock: the engine of the simulator, and packets of outside programs in it.
//!
//! The modules, in the order of reading; those in the second and third list are for Linux alone:
//!
//! - [`clock`]: the monotonic clock. [`port`]: flows through which packets of outside programs
//!   enter a simulation and leave it. [`headers`]: the headers of these packets, as the network
//!   sees them.
//! - [`emulate`]: a simulation that runs by the clock. [`record`]: records of the incoming packets,
//!   and their replay in virtual time. [`histogram`]: durations, such as the lateness of packets.
//! - [`error`]: errors of emulations and comparisons.
//!
//! Emulations of outside programs:
//!
//! - `link` and `source`: a scenario from the options of a link, or from a file, ready for a clock.
//! - `testbed`: network namespaces at the ends of ports. `command`: programs in them. `waits`: the
//!   time for which these programs wait for a CPU.
//! - `emulation`: a scenario with programs at its ports. `programs`: a table of programs to
//!   measure. `trial`: a measurement of programs. `campaign`: a comparison of many of them.
//!
//! Between hosts:
//!
//! - `perf`: measurements of a path, as with iperf3, with the senders and receivers of the
//!   simulator over UDP.
//! - `router`: the queue of a gateway, whose packets go through a link of the engine.

#[cfg(target_os = "linux")]
pub mod campaign;
pub mod clock;
#[cfg(target_os = "linux")]
mod command;
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
