//! The verdicts.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Verdict on a claim or a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// The numbers confirm the claim.
    Held,
    /// The two sides are equal, although the claim orders them.
    Tie,
    /// The numbers contradict the claim.
    NotHeld,
    /// The numbers do not decide.
    Inconclusive,
}

impl Verdict {
    /// Every verdict, in the order in which they are counted.
    pub const ALL: [Verdict; 4] =
        [Verdict::Held, Verdict::Tie, Verdict::NotHeld, Verdict::Inconclusive];
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Held => "held",
            Verdict::Tie => "tie",
            Verdict::NotHeld => "not held",
            Verdict::Inconclusive => "inconclusive",
        })
    }
}
