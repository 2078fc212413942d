//! Files and folders from one machine to another.
//!
//! The modules, in the order of reading:
//!
//! - `path`: names from a peer. `blocks`: hashes. `wire`: messages.
//! - `folder`: the folder that receives. `claims`: who writes what in it. `commit`: complete files
//!   get their names. `intake`: the receiver without a network. `door`: who may send. `reception`:
//!   one connection of a sender. `receive`: the receiver.
//! - `walk`: entries to send. `figures`: counts of a transfer while it runs. `outlet`: contents of
//!   files as frames. `send`: the sender.

pub mod blocks;
pub mod claims;
pub mod commit;
mod door;
pub mod figures;
pub mod folder;
pub mod intake;
mod outlet;
pub mod path;
pub mod receive;
mod reception;
pub mod send;
pub mod walk;
pub mod wire;
