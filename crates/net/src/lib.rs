//! The endpoints of [`windward_core`] over real sockets.
//!
//! [`perf`] measures a path as iperf3 does for TCP, with the protocols of the table: the same senders and receivers that the
//! simulator drives, driven by the monotonic clock and by UDP datagrams. Linux only.

#![cfg(target_os = "linux")]

mod clock;
pub mod perf;

pub use clock::Clock;
