//! Which packets a queue drops or marks: DropTail or RED.

mod red;
pub use red::{Red, RedSpec, RedVerdict};

/// The queue management of a link.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum AqmSpec {
    /// Drop what does not fit.
    #[default]
    DropTail,
    /// Random Early Detection.
    Red(RedSpec),
}
