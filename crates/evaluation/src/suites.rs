//! Suites that come with the program.

use std::path::Path;

use windward_experiments::{LabError, experiment_file as file};

use crate::suite::Suite;

/// Name and text of a file.
type File = (&'static str, &'static str);

/// Name, the file of the suite, and the experiments beside it.
type Files = (&'static str, File, &'static [File]);

static SUITES: [Files; 4] = [
    (
        "rfc9743",
        file!("suites/rfc9743/suite"),
        &[
            file!("suites/rfc9743/dead"),
            file!("suites/rfc9743/flood"),
            file!("suites/rfc9743/crowd"),
            file!("suites/rfc9743/bufferbloat"),
            file!("suites/rfc9743/shallow"),
            file!("suites/rfc9743/itself"),
            file!("suites/rfc9743/late"),
            file!("suites/rfc9743/rtts"),
            file!("suites/rfc9743/short"),
            file!("suites/rfc9743/short-beside"),
            file!("suites/rfc9743/long-beside"),
            file!("suites/rfc9743/harm"),
            file!("suites/rfc9743/feedback-loss"),
            file!("suites/rfc9743/real-time"),
            file!("suites/rfc9743/bare"),
            file!("suites/rfc9743/tail-drop"),
            file!("suites/rfc9743/wired"),
            file!("suites/rfc9743/parking-lot"),
            file!("suites/rfc9743/corruption"),
            file!("suites/rfc9743/harm-corruption"),
            file!("suites/rfc9743/arq"),
            file!("suites/rfc9743/varying-rate"),
            file!("suites/rfc9743/cellular"),
            file!("suites/rfc9743/aqm"),
            file!("suites/rfc9743/ecn"),
            file!("suites/rfc9743/dual-queue"),
            file!("suites/rfc9743/circuit-breakers"),
            file!("suites/rfc9743/low-orbit"),
            file!("suites/rfc9743/jitter"),
            file!("suites/rfc9743/slow"),
            file!("suites/rfc9743/satellite"),
            file!("suites/rfc9743/liars"),
            file!("suites/rfc9743/forged"),
            file!("suites/rfc9743/reordering"),
            file!("suites/rfc9743/onset"),
            file!("suites/rfc9743/outage"),
            file!("suites/rfc9743/rate-change"),
            file!("suites/rfc9743/handover"),
            file!("suites/rfc9743/incast"),
            file!("suites/rfc9743/range"),
            file!("suites/rfc9743/smoke"),
            file!("suites/rfc9743/smoke-harm"),
        ],
    ),
    (
        "rfc9438",
        file!("suites/rfc9438/suite"),
        &[
            file!("suites/rfc9438/response"),
            file!("suites/rfc9438/sawtooth"),
            file!("suites/rfc9438/reno-friendly"),
            file!("suites/rfc9438/shares"),
            file!("suites/rfc9438/outage"),
        ],
    ),
    (
        "tcpeval",
        file!("suites/tcpeval/suite"),
        &[
            file!("suites/tcpeval/basic"),
            file!("suites/tcpeval/tradeoff"),
            file!("suites/tcpeval/ramp-up"),
            file!("suites/tcpeval/transients"),
            file!("suites/tcpeval/impact"),
            file!("suites/tcpeval/intra"),
            file!("suites/tcpeval/inter-rtt"),
            file!("suites/tcpeval/bottlenecks"),
            file!("suites/tcpeval/ramp-up-fast"),
        ],
    ),
    (
        "lossy",
        file!("suites/lossy/suite"),
        &[
            file!("suites/lossy/alone"),
            file!("suites/lossy/bursts"),
            file!("suites/lossy/geo"),
            file!("suites/lossy/jitter"),
            file!("suites/lossy/acks"),
            file!("suites/lossy/beside-newreno"),
            file!("suites/lossy/beside-cubic"),
            file!("suites/lossy/lossy-beside-newreno"),
            file!("suites/lossy/beside-rates"),
            file!("suites/lossy/itself"),
            file!("suites/lossy/rtts"),
            file!("suites/lossy/late"),
            file!("suites/lossy/marks"),
            file!("suites/lossy/drops"),
            file!("suites/lossy/inelastic"),
            file!("suites/lossy/small"),
            file!("suites/lossy/rates"),
            file!("suites/lossy/paths"),
            file!("suites/lossy/outage"),
            file!("suites/lossy/cellular"),
            file!("suites/lossy/range"),
        ],
    ),
];

impl Suite {
    /// The one of that name that comes with the program, or else that of a file.
    ///
    /// # Errors
    /// If there is neither, or anything in it is wrong.
    pub fn find(name: &str) -> Result<Self, LabError> {
        if let Some(suite) = suite(name) {
            return Ok(suite);
        }
        if Path::new(name).exists() {
            return Self::read(Path::new(name));
        }
        let known: Vec<String> = suites()?.into_iter().map(|s| s.id).collect();
        Err(LabError::Experiment {
            file: name.to_owned(),
            line: 0,
            message: format!(
                "no such file, nor a suite that comes with the program, which are {}",
                known.join(", ")
            ),
        })
    }
}

/// The suite of that name, if it comes with the program.
pub fn suite(id: &str) -> Option<Suite> {
    SUITES.iter().find(|(name, ..)| *name == id).map(parse)?.ok()
}

/// The suites that come with the program.
///
/// # Errors
/// None, as long as the tests pass.
pub fn suites() -> Result<Vec<Suite>, LabError> {
    SUITES.iter().map(parse).collect()
}

fn parse((id, (name, text), files): &Files) -> Result<Suite, LabError> {
    let beside = |from: &str| {
        let found = files.iter().find(|(name, _)| name.rsplit('/').next() == Some(from));
        let text = found.map(|(_, text)| (*text).to_owned());
        text.ok_or_else(|| LabError::Experiment {
            file: from.to_owned(),
            line: 0,
            message: format!("no such file comes with `{id}`"),
        })
    };
    Suite::parse(name, text, &beside)
}
