//! What a scenario file is read with beside its text.

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
    /// Protocols that the file may name beside the rows of the table.
    pub(super) protocols: &'a [Protocol],
}
