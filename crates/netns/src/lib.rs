//! Parts of Linux for a link in real time: network namespaces of this process, TUN devices between
//! them, and IP packets as bytes.
//!
//! The modules, in the order of reading:
//!
//! - [`packet`]: IP packets as bytes. `error`: errors of the kernel, with what to do.
//! - `namespace`: network namespaces. `process` and `child`: processes in them. `resolver`: their
//!   name resolution. `user`: the rights for them.
//! - `netlink`: devices, addresses and routes. `tun` and `pair`: TUN devices. `addresses`: free
//!   addresses for a pair.
//! - `nftables`: rules of the kernel. `nat` and `forwarding`: the way beyond this machine.
//!   `divert`: forwarded packets that are handed over to this process.
//! - `names`, `guard` and `sweep`: names of namespaces, and removal of the remains of processes.
//! - `real_time`: waiting for files, and real-time scheduling.
//!
//! A [`Namespace`] is a network of its own for some threads and children. A [`Pair`] is two TUN
//! devices with addresses and routes, one outside and one inside a namespace: packets that programs
//! inside send come out of one [`Tun`] here, and packets written into the other reach the programs
//! outside. Queues, rates and delays in between are the task of the caller; a [`Poller`] waits for
//! packets.
//!
//! [`Diverted`] gives access to the packets that this machine forwards to a device: the kernel
//! holds each until this process decides how it continues.
//!
//! Nothing has to be cleaned up: devices and namespaces vanish with their file descriptors, even
//! when this process is killed, and children of [`Namespace::spawn`] die with it. Only names
//! ([`Namespace::publish`]) can remain; [`sweep()`] removes those of processes that have ended, and
//! every `publish` does so first.
//!
//! A program calls [`start_up`] before anything else in `main`, and without root also
//! [`become_root`], before its first thread:
//!
//! ```no_run
//! use windward_netns::{Namespace, Pair, PairOptions, become_root, start_up};
//!
//! # fn main() -> windward_netns::Result<()> {
//! start_up();
//! become_root()?;
//! let inside = Namespace::new()?;
//! let pair = Pair::new(None, &inside, &PairOptions::default())?;
//! let gateway = pair.outside.ipv4.to_string();
//! let mut ping = inside.spawn("ping", |ping| ping.args(["-c", "3", &gateway]))?;
//! // Until the child ends: read packets of pair.inside.tun, write them to pair.outside.tun ...
//! let status = ping.wait()?;
//! # Ok(())
//! # }
//! ```
//!
//! Addresses of pairs come from 198.18.0.0/15, which RFC 2544 sets aside for measurements between
//! networks, or else from 100.64.0.0/10, and from a fixed unique local prefix of IPv6. They are
//! chosen such that no address and no route of either side is in use, as nested namespaces require.

pub mod packet;

#[cfg(target_os = "linux")]
mod addresses;
#[cfg(target_os = "linux")]
mod child;
#[cfg(target_os = "linux")]
mod divert;
#[cfg(target_os = "linux")]
mod error;
#[cfg(target_os = "linux")]
mod forwarding;
#[cfg(target_os = "linux")]
mod guard;
#[cfg(target_os = "linux")]
mod names;
#[cfg(target_os = "linux")]
mod namespace;
#[cfg(target_os = "linux")]
mod nat;
#[cfg(target_os = "linux")]
mod netlink;
#[cfg(target_os = "linux")]
mod nftables;
#[cfg(target_os = "linux")]
mod pair;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod real_time;
#[cfg(target_os = "linux")]
mod resolver;
#[cfg(target_os = "linux")]
mod sweep;
#[cfg(target_os = "linux")]
mod tun;
#[cfg(target_os = "linux")]
mod user;

#[cfg(target_os = "linux")]
pub use {
    child::{Inside, become_child, start_again_by, start_up},
    divert::Diverted,
    error::{Error, Result},
    names::{Published, published},
    namespace::Namespace,
    nat::Masquerade,
    pair::{End, Pair, PairOptions},
    real_time::{Poller, prefer_this_thread, wait},
    sweep::sweep,
    tun::{Received, ToSend, Tun},
    user::{Rights, become_root},
};
