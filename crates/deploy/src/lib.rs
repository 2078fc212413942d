//! Windward deployed: files and TCP services over QUIC, encrypted, with the controllers of the
//! simulator. Linux only.
//!
//! The modules, in the order of reading:
//!
//! - `error`: what is wrong, where, and what to do. `clock`: the clocks of the machine.
//! - `identity`: the key and certificate of this machine. `known`: fingerprints of peers, as ssh
//!   keeps them. `tls`: how both sides prove who they are.
//! - `endpoint`: sockets, connections and services.
//! - `ticket`: everything that a peer needs for the first meeting, in one word.
//! - `forward`: TCP and UDP services.
//! - `book`: tickets that are open. `transfer`: files and folders.

#[cfg(target_os = "linux")]
pub mod book;
#[cfg(target_os = "linux")]
pub mod clock;
#[cfg(target_os = "linux")]
pub mod endpoint;
#[cfg(target_os = "linux")]
pub mod error;
#[cfg(target_os = "linux")]
pub mod forward;
#[cfg(target_os = "linux")]
pub mod identity;
#[cfg(target_os = "linux")]
pub mod known;
#[cfg(target_os = "linux")]
pub mod ticket;
#[cfg(target_os = "linux")]
pub mod tls;
#[cfg(target_os = "linux")]
pub mod transfer;

#[cfg(target_os = "linux")]
pub use endpoint::{Connection, Endpoint, Listener, Options, Service};
#[cfg(target_os = "linux")]
pub use error::{Error, Result};
#[cfg(target_os = "linux")]
pub use identity::{Fingerprint, Identity};
#[cfg(target_os = "linux")]
pub use known::{KnownPeers, Standing};
#[cfg(target_os = "linux")]
pub use tls::Trust;
