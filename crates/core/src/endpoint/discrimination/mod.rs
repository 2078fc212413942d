//! Axis 3: does a loss mean congestion?

/// How a loss is judged. The verdict is a probability of congestion: CETEN scales its decrease
/// by one, while others say yes or no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discrimination {
    /// Every loss is congestion.
    AlwaysCongestion,
    /// No loss is: congestion is signalled explicitly.
    Never,
}
