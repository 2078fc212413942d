//! The pure half of Windward: protocols, routers and channels as state machines.
//!
//! Nothing here knows a clock, does I/O or draws from a global random generator: time and
//! randomness are arguments. The same code therefore runs in virtual time, between network
//! namespaces and in real endpoints.
//!
//! From the bottom up: [`units`] and [`rng`] are the vocabulary; [`packet`] is what travels;
//! [`network`] is what a packet meets on its way (queues, routers, channels); [`endpoint`] is
//! where it is sent and received, along four axes; [`protocols`] composes them by name. What a
//! part tells of itself, [`part`] says.

pub mod endpoint;
pub mod network;
pub mod packet;
pub mod part;
pub mod protocols;
pub mod rng;
pub mod units;
