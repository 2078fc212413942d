//! Windward on a real clock: the engine of the simulator, and packets of outside programs in it.
//!
//! [`port`] is where a scenario's flows end and the outside begins; [`emulate`] runs a simulation
//! by a [`clock`], and brings packets in and out; [`headers`] are what the network sees of them. On
//! Linux [`testbed`] has network namespaces at the ends of ports, for programs to run in.
//! [`record`] keeps the packets that came in, and replays them in virtual time.
//!
//! On Linux, `perf` measures a path as iperf3 does for TCP, with the protocols of the table: the
//! same senders and receivers that the simulator drives, driven by the clock and by UDP datagrams.
//! [`router`] is a queue of a gateway: forwarded packets go through a link of the engine.

pub mod clock;
pub mod emulate;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod headers;
#[cfg(target_os = "linux")]
pub mod perf;
pub mod port;
#[cfg(target_os = "linux")]
pub mod programs;
pub mod record;
#[cfg(target_os = "linux")]
pub mod router;
#[cfg(target_os = "linux")]
pub mod testbed;
#[cfg(target_os = "linux")]
pub mod trial;
#[cfg(target_os = "linux")]
pub mod waits;
