//! Congestion controllers from shared libraries: `include/windward_controller.h` is the interface.
//!
//! The modules, in the order of reading:
//!
//! - `library`: the tables of the header, and calls into a library. The only unsafe code.
//! - `watch`: the call of foreign code that each thread is in, to find one that never returns.
//! - `controller`: a controller of a library as one of Windward.
//!
//! Foreign code can write anywhere, end the process or never return. A program that loads a library
//! therefore does so in a child process, and takes the end of that process for a verdict:
//! `windward evaluate` does.

mod controller;
mod library;
mod watch;

pub use controller::NativeController;
pub use watch::{Call, Inside, Stuck, Watch, enter};
