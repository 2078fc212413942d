//! Removal of what processes have left that are gone.

use std::fs::{self, File};
use std::os::fd::AsFd;

use crate::error::Result;
use crate::forwarding::{FORWARDING, sweep_forwarding};
use crate::names::{BESIDE, Published, forget, names, names_in};
use crate::process::kill_inside;

/// Removes the names under /run/netns of processes that ended without doing so themselves, kills
/// what still runs in those namespaces, and switches off the [forwarding](crate::Pair::masquerade) that
/// they needed.
///
/// # Errors
/// If that directory is there and cannot be read.
pub fn sweep() -> Result<()> {
    for stale in names()?.into_iter().filter(|published| !published.is_alive()) {
        // Only a namespace can be opened here whose name is still bound.
        if let Ok(network) = File::open(stale.path()) {
            let _ = kill_inside(network.as_fd());
        }
        forget(stale.path());
    }
    sweep_forwarding()?;
    // A process may have ended between making this and the name.
    // What another network needs restored, only a process in that can restore.
    let is_stale = |name: &Published| !name.is_alive() && !name.label.starts_with(FORWARDING);
    for stale in names_in(BESIDE)?.into_iter().filter(is_stale) {
        let _ = fs::remove_file(stale.path());
    }
    Ok(())
}
