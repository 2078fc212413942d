//! What quinn and noq, its fork, share. Their interfaces are alike, but their types are not the
//! same: `connection.rs` is compiled with each of them, and the macros here implement their traits
//! for both. What differs is in `quinn/differences.rs` and `noq/differences.rs`.

#[macro_use]
mod controller;
#[macro_use]
mod crypto;
