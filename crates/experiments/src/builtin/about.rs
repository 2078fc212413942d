//! `paper.toml`: the summary of a paper.

use windward_sim::keys;
use windward_sim::strict_toml::{Document, KeySource, readers};

use crate::ExperimentError;

keys! {
    /// Keys of the file.
    struct AboutKeys in "paper" {
        proposes: String = readers::string(), needed "proposes = \"A new timer.\"",
            "what the paper proposes, in three sentences";
    }
}

const KEYS: &[KeySource] = &[AboutKeys::KEYS];

/// Reads the proposal of a paper; `name` is the file's name in errors.
pub(super) fn proposes(name: &str, text: &str) -> Result<String, ExperimentError> {
    Ok(AboutKeys::read(&Document::parse(name, text)?.root(KEYS)?)?.proposes)
}
