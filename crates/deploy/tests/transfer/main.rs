//! Transfers over loopback: whole trees, resumption, refusals, hostile peers, and bad paths.
#![cfg(target_os = "linux")]

mod child;
mod disks;
mod hostile;
mod killed;
mod paths;
mod place;
mod relay;
mod strangers;
mod trees;
