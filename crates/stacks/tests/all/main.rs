//! Whole runs of stacks. One program, so that it is linked once.

mod agreement;
#[path = "../common/mod.rs"]
mod common;
mod controllers;
mod every;
mod logs;
mod quinn;
