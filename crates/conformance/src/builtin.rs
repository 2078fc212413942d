//! The scripts that come with the program, compiled in.

use windward_sim::strict_toml::FileError;
use windward_sim::suggest::hint as nearest;

use super::Script;

/// Name and text of each script, in the order of the documentation.
macro_rules! scripts {
    ($($name:literal),* $(,)?) => {
        &[$((
            $name,
            include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../experiments/scripts/",
                $name,
                ".toml"
            )),
        )),*]
    };
}

pub(super) const FILES: &[(&str, &str)] = scripts![
    "rfc5681/slow-start",
    "rfc5681/slow-start-delayed-acks",
    "rfc5681/congestion-avoidance",
    "rfc5681/fast-retransmit",
    "rfc5681/idle-restart",
    "rfc6298/first-timeout",
    "rfc6298/backoff",
    "rfc6298/karn",
    "rfc6582/partial-ack",
    "rfc6675/pipe",
    "rfc3168/once-per-window",
    "rfc7661/application-limited",
    "rfc9438/w-cubic",
    "rfc9438/fast-convergence",
    "rfc9438/reno-friendly",
    "rfc9438/reno-alpha",
    "rfc9438/beta",
    "rfc9438/back-at-w-max",
    "rfc9406/rtt-rise",
    "rfc9406/small-rise",
    "rfc9406/least-threshold",
    "rfc9406/greatest-threshold",
    "rfc9406/few-samples",
    "rfc9406/rtt-falls",
    "rfc9406/limit",
    "rfc9002/slow-start",
    "rfc9002/packet-threshold",
    "rfc9002/time-threshold",
    "rfc9002/probe-timeout",
    "rfc9002/recovery-period",
    "rfc9002/mark-once",
    "rfc9002/halving",
    "rfc9002/persistent-congestion",
    "rfc9002/dead-path",
    "rfc8985/reordering-window",
    "rfc8985/time-based-loss",
    "rfc8985/tail-loss-probe",
    "bbr/startup",
    "bbr/drain",
    "bbr/probe-rtt",
    "bbr/startup-loss",
    "bbr/startup-little-loss",
    "bbr/bbr1",
];

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
