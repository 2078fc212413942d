//! The context in which a scenario file is read.

use windward_core::protocols::Protocol;

use super::traces::Traces;
use crate::stack::Stacks;

/// The context of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Given<'a> {
    /// The trace files read so far.
    pub(super) traces: &'a Traces,
    /// The stacks that the file may name.
    pub(super) stacks: &'a Stacks,
    /// Protocols that the file may name in addition to the rows of the table.
    pub(super) protocols: &'a [Protocol],
    /// Asks for the memory that a run can have, bytes, if it is known.
    pub(super) memory: fn() -> Option<u64>,
}
