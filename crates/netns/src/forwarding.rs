//! Forwarding of IPv4, switched on for as long as it is needed.
//!
//! Each need is a file in [`BESIDE`] with the interfaces that were switched on and their previous
//! values. Forwarding of an interface is restored with the last need of it, by the process that has
//! it or, after that has been killed, by its guard or the next [sweep](fn@crate::sweep).

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Context, Result};
use crate::names::{BESIDE, Published, names_in, own_name};

/// Settings of IPv4 for each interface in the namespace of the calling thread.
const INTERFACES: &str = "/proc/sys/net/ipv4/conf";

/// Previous value of `forwarding` for each interface where it was switched on.
type Before = BTreeMap<String, String>;

fn switch(interface: &str) -> PathBuf {
    Path::new(INTERFACES).join(interface).join("forwarding")
}

/// Prefix of the names of [`needs`], after the process.
pub(crate) const FORWARDING: &str = ".forward-";

/// Name of the network of the calling thread in the names of [`needs`].
fn here() -> String {
    let number = fs::metadata("/proc/thread-self/ns/net").map_or(0, |network| network.ino());
    format!("{FORWARDING}{number}-")
}

/// Needs of forwarding in the network of the calling thread: files with the values [before](Before)
/// all of them.
fn needs() -> Result<Vec<Published>> {
    let mut all = names_in(BESIDE)?;
    let here = here();
    all.retain(|name| name.label.starts_with(&here));
    Ok(all)
}

fn before(need: &Published) -> Before {
    let text = fs::read_to_string(need.path()).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Locks forwarding: while the returned file is open, no other process of Windward changes it.
pub(crate) fn alone() -> Result<File> {
    let path = format!("{BESIDE}/lock");
    let what = || format!("cannot lock {path}");
    fs::create_dir_all(BESIDE).context(what)?;
    let file = lock_file(Path::new(&path)).context(what)?;
    file.lock().context(what)?;
    Ok(file)
}

/// Opens a file that other users cannot open, since they could hold its lock for ever.
fn lock_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)
}

/// Ends needs that are over: restores forwarding of their interfaces, unless other needs remain.
pub(crate) fn restore(is_over: impl Fn(&Published) -> bool) -> Result<()> {
    let (over, others): (Vec<_>, Vec<_>) = needs()?.into_iter().partition(is_over);
    let needed: Before = others.iter().flat_map(before).collect();
    let mut result = Ok(());
    for need in over {
        for (interface, was) in before(&need) {
            let switch = switch(&interface);
            // Devices of pairs vanish with their process.
            if needed.contains_key(&interface) || !switch.exists() {
                continue;
            }
            if let Err(error) = fs::write(&switch, was) {
                result = Err(error).context(|| format!("cannot restore {}", switch.display()));
            }
        }
        let _ = fs::remove_file(need.path());
    }
    result
}

/// Restores forwarding that ended processes have left on.
pub(crate) fn sweep_forwarding() -> Result<()> {
    if needs()?.iter().all(Published::is_alive) {
        return Ok(());
    }
    let _alone = alone()?;
    restore(|need| !need.is_alive())
}

/// Interfaces to be switched on, with their values: those that do not forward, and those that only
/// forward because of another need.
pub(crate) fn to_change() -> Result<Before> {
    let what = || format!("cannot read {INTERFACES}");
    let mut changed: Before = needs()?.iter().flat_map(before).collect();
    changed.retain(|interface, _| switch(interface).exists());
    for entry in fs::read_dir(INTERFACES).context(what)? {
        let name = entry.context(what)?.file_name().to_string_lossy().into_owned();
        if ["all", "default", "lo"].contains(&&*name) {
            continue;
        }
        let value = fs::read_to_string(switch(&name)).unwrap_or_default();
        if value.trim() == "0" {
            changed.insert(name, "0".to_owned());
        }
    }
    Ok(changed)
}

/// Switches forwarding on for these interfaces. Returns the file of the need.
pub(crate) fn forward(changed: &Before) -> Result<PathBuf> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let need = Path::new(BESIDE).join(own_name(&format!("{}{number}", here())));
    let what = || "cannot note which interfaces forward";
    let text = serde_json::to_string(changed).map_err(io::Error::from).context(what)?;
    fs::write(&need, text).context(what)?;
    let switch_on = |interface: &String| {
        let switch = switch(interface);
        // An interface may disappear meanwhile.
        match switch.exists() {
            true => fs::write(&switch, "1")
                .context(|| format!("cannot switch on forwarding by {}", switch.display())),
            false => Ok(()),
        }
    };
    if let Err(error) = changed.keys().try_for_each(switch_on) {
        let _ = restore(|other| other.path() == need);
        return Err(error);
    }
    Ok(need)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_is_of_its_owner_alone() {
        let path = std::env::temp_dir().join(format!("windward-lock-{}", std::process::id()));
        let file = lock_file(&path).unwrap();
        let mode = file.metadata().unwrap().mode();
        fs::remove_file(&path).unwrap();
        // A process that can open a file, even for reading, can lock it (flock(2)).
        assert_eq!(mode & 0o077, 0);
    }
}
