//! The scripts that come with the program, compiled in.

use windward_sim::strict_toml::FileError;
use windward_sim::suggest::hint as nearest;

use super::Script;

/// Name and text of each script, in the order of the documentation.
macro_rules! scripts {
    ($($source:literal: $($name:literal),+;)+) => {
        &[$($((
            concat!($source, "/", $name),
            include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../experiments/scripts/",
                $source,
                "/",
                $name,
                ".pkt"
            )),
        )),+),+]
    };
}

const FILES: &[(&str, &str)] = scripts! {
    "rfc5681": "slow-start", "slow-start-delayed-acks", "congestion-avoidance",
        "fast-retransmit", "idle-restart";
    "rfc6298": "first-timeout", "backoff", "karn";
    "rfc6582": "partial-ack";
    "rfc6675": "pipe";
    "rfc3168": "once-per-window";
    "rfc7661": "application-limited";
    "rfc9438": "w-cubic", "fast-convergence", "reno-friendly", "reno-alpha", "beta",
        "back-at-w-max";
    "rfc9406": "rtt-rise", "small-rise", "least-threshold", "greatest-threshold", "few-samples",
        "rtt-falls", "limit";
    "rfc9002": "slow-start", "packet-threshold", "time-threshold", "probe-timeout",
        "recovery-period", "mark-once", "halving", "persistent-congestion", "dead-path";
    "rfc8985": "reordering-window", "time-based-loss", "tail-loss-probe";
    "bbr": "startup", "drain", "probe-rtt", "startup-loss", "startup-little-loss", "bbr1";
};

/// All scripts, in the order of the documentation.
///
/// # Errors
/// None, as long as the tests pass.
pub fn all() -> Result<Vec<Script>, FileError> {
    FILES.iter().map(|(name, text)| Script::parse(name, text)).collect()
}

/// The scripts with a name: one script (`rfc9438/w-cubic`), or all of a source (`rfc9438`).
///
/// # Errors
/// If there is no such script; the error suggests the nearest name.
pub fn select(name: &str) -> Result<Vec<Script>, FileError> {
    let folder = |file: &'static str| file.split('/').next().unwrap_or(file);
    let is_meant = |file: &&(&'static str, &str)| file.0 == name || folder(file.0) == name;
    let found: Vec<_> = FILES.iter().filter(is_meant).collect();
    if found.is_empty() {
        let mut folders: Vec<&str> = FILES.iter().map(|(file, _)| folder(file)).collect();
        folders.dedup();
        let hint = nearest(name, FILES.iter().map(|(file, _)| *file).chain(folders));
        let message = format!("no such file, and no script of that name comes with Windward{hint}");
        return Err(FileError::new(name, message));
    }
    found.into_iter().map(|(name, text)| Script::parse(name, text)).collect()
}
