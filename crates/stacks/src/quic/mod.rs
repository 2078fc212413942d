//! Common code of quinn and its fork noq. Their interfaces are alike, but their types differ:
//! `connection.rs` is compiled with each of them, and the macros here implement their traits for
//! both. Differences are in `quinn/differences.rs` and `noq/differences.rs`.

#[macro_use]
mod controller;
#[macro_use]
mod crypto;
