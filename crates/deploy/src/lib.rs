//! Windward deployed: files and TCP services over QUIC, encrypted, with the controllers of the
//! simulator. Linux only.
//!
//! The modules, in the order of reading:
//!
//! - `error`: what is wrong, where, and what to do. `clock`: the clocks of the machine. `run`:
//!   threads of a program. `address`: addresses as users write them.
//! - `descent`: entries below a folder, without following links.
//! - `identity`: the key and certificate of this machine. `peers`: the list of peers, with what
//!   each may do. `tls`: how both sides prove who they are.
//! - `qlog`: logs of connections. `crowd`: places of strangers. `mtu`: size of datagrams.
//!   `pace`: times of datagrams. `budget`: bytes that QUIC may hold. `endpoint`: sockets,
//!   connections and services.
//! - `ticket`: everything that a peer needs for the first meeting, in one word.
//! - `forward`: TCP and UDP services.
//! - `book`: tickets that are open. `transfer`: files and folders.

#![cfg(target_os = "linux")]

pub mod address;
pub mod book;
mod budget;
pub mod clock;
mod crowd;
mod descent;
pub mod endpoint;
pub mod error;
pub mod forward;
pub mod identity;
mod mtu;
mod pace;
pub mod peers;
pub mod qlog;
mod run;
mod sync;
pub mod ticket;
pub mod tls;
pub mod transfer;

pub use endpoint::{Connection, Endpoint, Listener, Options, Service};
pub use error::{Error, Result};
pub use identity::{Fingerprint, Identity};
pub use pace::PacedSocket;
pub use peers::{Peer, PeerList, Role};
pub use qlog::Qlog;
pub use tls::Trust;
