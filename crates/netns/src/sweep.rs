//! Removal of the remains of processes that have ended.

use std::fs::{self, File};
use std::os::fd::AsFd;

use crate::error::Result;
use crate::forwarding::{FORWARDING, sweep_forwarding};
use crate::names::{BESIDE, Published, forget, names, names_in};
use crate::process::kill_inside;

/// Removes names under /run/netns of processes that have ended, kills remaining processes in those
/// namespaces, and switches off the [forwarding](crate::Pair::masquerade) that they needed.
pub fn sweep() -> Result<()> {
    for stale in names()?.into_iter().filter(|published| !published.is_alive()) {
        // A name that is no longer bound cannot be opened as a namespace.
        if let Ok(network) = File::open(stale.path()) {
            let _ = kill_inside(network.as_fd());
        }
        forget(stale.path());
    }
    sweep_forwarding()?;
    // A process may have ended before it created the name.
    // Forwarding of another network can only be restored by a process in it.
    let is_stale = |name: &Published| !name.is_alive() && !name.label.starts_with(FORWARDING);
    for stale in names_in(BESIDE)?.into_iter().filter(is_stale) {
        let _ = fs::remove_file(stale.path());
    }
    Ok(())
}
