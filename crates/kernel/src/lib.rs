//! Windward's congestion controllers in the TCP of a Linux kernel.
//!
//! The kernel sends, detects losses and retransmits. A BPF program (`bpf/windward.bpf.c`) reports
//! what it tells of each connection, and applies windows and pacing rates. A daemon outside of the
//! kernel computes these with the controllers of `windward-core`. Only this end needs Windward, and
//! no program changes.
//!
//! - `event`: the reports.
//! - `connection`: a connection, and the answer to each report.
//! - `object`: the program in the kernel: what the running one lacks, load, pins, counters.
//! - `daemon`: reads reports and writes answers.
//! - `law`: window laws that the kernel computes itself, without a daemon (`bpf/law.bpf.c`).
//! - `group`: which connections have the controller, by control groups.
//! - `existing`: another controller for connections in progress.

mod connection;
#[cfg(target_os = "linux")]
mod daemon;
mod event;
#[cfg(target_os = "linux")]
mod existing;
#[cfg(target_os = "linux")]
mod group;
mod law;
#[cfg(target_os = "linux")]
mod object;

pub use connection::{Answer, Connection};
#[cfg(target_os = "linux")]
pub use daemon::{Daemon, Row};
pub use event::{Event, Kind};
#[cfg(target_os = "linux")]
pub use existing::Existing;
#[cfg(target_os = "linux")]
pub use group::{Group, Groups, Selection, mount_bpf, unmount_bpf};
pub use law::Law;
#[cfg(target_os = "linux")]
pub use law::{LawController, LawCounters};
#[cfg(target_os = "linux")]
pub use object::{CONTROLLER, Counters, KernelError, Object, Settings, check_rights};
