//! Trace files that a scenario names: rates by opportunities, and delays.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use windward_core::network::{DelaySteps, LinkRate, RateTrace, TraceError};

use crate::input::read_text;
use crate::strict_toml::{Field, FileError, Location, Result};

/// The trace files that were read so far, by path.
#[derive(Debug, Default)]
pub(super) struct Traces {
    rates: Mutex<BTreeMap<PathBuf, LinkRate>>,
    delays: Mutex<BTreeMap<PathBuf, Arc<DelaySteps>>>,
}

impl Traces {
    /// True if no trace was read.
    pub(super) fn is_empty(&self) -> bool {
        self.rates.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
            && self.delays.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Hashes paths and contents, in the order of the paths.
    pub(super) fn hash(&self, state: &mut impl Hasher) {
        self.rates.lock().unwrap_or_else(PoisonError::into_inner).hash(state);
        self.delays.lock().unwrap_or_else(PoisonError::into_inner).hash(state);
    }

    /// The trace of opportunities in the file that `field` names.
    pub(super) fn rate(&self, field: &Field<'_>) -> Result<LinkRate> {
        const HELP: &str = "a trace has one time stamp in whole milliseconds a line, in order, \
                            each an opportunity for 1500 bytes";
        once(&self.rates, field, HELP, |text| RateTrace::parse(text).map(LinkRate::from))
    }

    /// The trace of delays in the file that `field` names.
    pub(super) fn delay(&self, field: &Field<'_>) -> Result<Arc<DelaySteps>> {
        const HELP: &str = "a trace of delays has a time and a delay per line, both in milliseconds, \
                            with times in order from 0; it repeats at the time of the last \
                            line";
        once(&self.delays, field, HELP, |text| DelaySteps::parse(text).map(Arc::new))
    }
}

/// The contents of the file that `field` names, relative to the scenario's folder. A file is read
/// once.
fn once<T: Clone>(
    known: &Mutex<BTreeMap<PathBuf, T>>,
    field: &Field<'_>,
    help: &str,
    parse: impl Fn(&str) -> std::result::Result<T, TraceError>,
) -> Result<T> {
    let path = field.folder().join(field.text()?);
    // The map is only added to, so that a thread that panicked left complete entries.
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(trace) = known.get(&path) {
        return Ok(trace.clone());
    }
    let trace = parse(&read(field, &path)?).map_err(|error| {
        let file = path.display().to_string();
        let location = match error.index {
            Some(index) => Location::Line { file, line: index + 1, column: 1 },
            None => Location::File { file },
        };
        FileError::new(location, error.reason).with_help(help)
    })?;
    known.insert(path, trace.clone());
    Ok(trace)
}

fn read(field: &Field<'_>, path: &Path) -> Result<String> {
    const LARGEST: u64 = 64 << 20;
    let shown = path.display().to_string();
    read_text(path, LARGEST).map_err(|error| match error.kind() {
        ErrorKind::NotFound => field
            .error(format!("no such file: {shown}"))
            .with_help("the path is relative to the folder of the scenario file"),
        ErrorKind::IsADirectory => field.error(format!("{shown} is a directory")),
        ErrorKind::FileTooLarge => {
            field.error(format!("{shown} is larger than {} MiB", LARGEST >> 20))
        }
        _ => field.error(format!("{shown} cannot be read: {error}")),
    })
}
