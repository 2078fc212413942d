//! The nearest world of a claim: the smallest set of changed choices that changes its verdict.

mod file;

pub use file::{Effect, End, FILE, FoundWorld, JointWorld, SearchFacts, Worlds};
