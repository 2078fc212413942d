//! The crate from outside. One program, so that it is linked once.

mod common;
mod emulate;
mod headers;
