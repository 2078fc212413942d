//! Whole runs, as users of the crate make them. One program, so that it is linked once.

mod cells;
mod corruption;
mod impairments;
mod media;
mod misbehaviour;
mod prague;
mod queues;
mod stacks;
mod traffic;
mod upwind;
mod wlan;
