//! Units as people write them: `5Mbit`, `20 Mbps`, `50ms`, `1e-6`, `5%`, `64kB`.

use std::fmt;
use std::str::FromStr;

use super::{Duration, Probability, Rate};

/// Why a text is not a quantity: what was wrong and what would be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseUnitError(String);

impl fmt::Display for ParseUnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for ParseUnitError {}

/// A number of bytes: `1000`, `1000B`, `64kB`, `10M`, `1GiB`.
///
/// # Errors
/// Anything else, and anything beyond 2^63.
pub fn parse_bytes(text: &str) -> Result<u64, ParseUnitError> {
    Err(ParseUnitError(text.to_owned()))
}

impl FromStr for Rate {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        Err(ParseUnitError(text.to_owned()))
    }
}
impl FromStr for Duration {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        Err(ParseUnitError(text.to_owned()))
    }
}
impl FromStr for Probability {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        Err(ParseUnitError(text.to_owned()))
    }
}
