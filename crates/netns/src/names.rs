//! Names of namespaces for other processes, and their files.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::fs::statfs;
use rustix::mount::{
    MountPropagationFlags, UnmountFlags, mount_bind, mount_bind_recursive, mount_change, unmount,
};

use crate::error::{Context, Result};
use crate::process::{enter, started};
use crate::resolver::{self, Files};

/// Folder of the names of `ip netns`.
const NAMES: &str = "/run/netns";
/// Prefix of the names of this crate.
const OURS: &str = "windward-";

/// A name that no other process has.
pub(crate) fn own_name(label: &str) -> String {
    let process = std::process::id();
    let began = started(process).unwrap_or(0);
    format!("{OURS}{process}-{began}-{label}")
}

/// Gives a namespace a name, with the files that programs inside read.
pub(crate) fn bind(label: &str, network: BorrowedFd<'_>, files: &Files) -> Result<PathBuf> {
    let path = Path::new(NAMES).join(own_name(label));
    let what = || format!("cannot name a network namespace {}", path.display());
    fs::create_dir_all(NAMES).context(what)?;
    make_shared().context(what)?;
    // First its files: a process that finds the name must find them too.
    if !files.is_empty() {
        let text = serde_json::to_string(files).map_err(io::Error::from).context(what)?;
        fs::create_dir_all(BESIDE).context(what)?;
        fs::write(beside(&path), text).context(what)?;
    }
    let source = format!("/proc/self/fd/{}", network.as_raw_fd());
    let bound = File::create_new(&path).and_then(|_| Ok(mount_bind(source, &path)?));
    if let Err(error) = bound {
        let _ = fs::remove_file(&path);
        let _ = fs::remove_file(beside(&path));
        return Err(error).context(what);
    }
    Ok(path)
}

/// Makes the directory of names a shared mount, as `ip netns` does. Names bound before `ip netns`
/// does so could not be removed any more.
fn make_shared() -> io::Result<()> {
    let shared = MountPropagationFlags::SHARED | MountPropagationFlags::REC;
    if mount_change(NAMES, shared) == Err(rustix::io::Errno::INVAL) {
        mount_bind_recursive(NAMES, NAMES)?;
        mount_change(NAMES, shared)?;
    }
    Ok(())
}

/// Directory with a file for each name that has [`Files`].
pub(crate) const BESIDE: &str = "/run/windward";

fn beside(path: &Path) -> PathBuf {
    Path::new(BESIDE).join(path.file_name().unwrap_or_default())
}

/// A namespace that a process has [published](crate::Namespace::publish).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The process, which may have ended.
    pub process: u32,
    /// Start of the process, in clock ticks since boot.
    began: u64,
    /// Label with which it was published.
    pub label: String,
    path: PathBuf,
}

impl Published {
    /// True if the process that has published it is still running.
    pub fn is_alive(&self) -> bool {
        // A process number may be used again; together with the start of the process it is unique.
        started(self.process) == Some(self.began)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves the calling thread into it permanently, with its files in place.
    ///
    /// # Errors
    /// Without the rights, and if it no longer exists.
    pub fn enter(&self) -> Result<()> {
        let what = || format!("cannot enter the network namespace {}", self.label);
        let network = File::open(&self.path).context(what)?;
        let files = match fs::read_to_string(beside(&self.path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Files::new(),
            other => serde_json::from_str(&other.context(what)?)
                .map_err(io::Error::from)
                .context(what)?,
        };
        enter(network.as_fd())?;
        resolver::replace(&files)
    }
}

/// All published namespaces, including those of processes that have ended.
pub fn published() -> Result<Vec<Published>> {
    let mut all = names()?;
    // The name exists shortly before the namespace is bound to it (NSFS_MAGIC, linux/magic.h).
    all.retain(|name| statfs(&name.path).is_ok_and(|of| of.f_type as u64 == 0x6e73_6673));
    Ok(all)
}

/// All names that published namespaces may have.
pub(crate) fn names() -> Result<Vec<Published>> {
    names_in(NAMES)
}

pub(crate) fn names_in(directory: &str) -> Result<Vec<Published>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.context(|| format!("cannot read {directory}"))?,
    };
    let mut all: Vec<Published> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let mut parts = name.to_str()?.strip_prefix(OURS)?.splitn(3, '-');
            Some(Published {
                process: parts.next()?.parse().ok()?,
                began: parts.next()?.parse().ok()?,
                label: parts.next()?.to_owned(),
                path: entry.path(),
            })
        })
        .collect();
    all.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(all)
}

/// Removes a name and its files.
pub(crate) fn forget(path: &Path) {
    // It may have been removed already.
    let _ = unmount(path, UnmountFlags::DETACH);
    let _ = fs::remove_file(path);
    let _ = fs::remove_file(beside(path));
}
