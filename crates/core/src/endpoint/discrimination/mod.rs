//! Axis 3: does a loss mean congestion?
//!
//! The verdict is a probability of congestion and not a yes or no: CETEN scales its decrease by
//! it, where others answer 0 or 1.

use crate::units::Probability;

/// How a loss is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discrimination {
    /// Every loss is congestion (RFC 5681).
    AlwaysCongestion,
    /// No loss is: congestion is signalled explicitly (lr2008 section 2.3).
    Never,
}

impl Discrimination {
    /// The probability that a detected loss was due to congestion.
    pub fn congestion_probability(self) -> Probability {
        match self {
            Discrimination::AlwaysCongestion => Probability::ONE,
            Discrimination::Never => Probability::ZERO,
        }
    }
}
