//! Tests of the public interface. One program, so that it is linked once.

mod common;
mod emulate;
mod headers;
