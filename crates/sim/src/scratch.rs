//! Temporary folders, which a process that was killed leaves to the next one.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Begin of the names of temporary folders.
const PREFIX: &str = "windward-tmp-";

/// A temporary folder, which only this user can enter. It is removed when this is dropped, and
/// otherwise by the next process of this user that makes one.
///
/// ```
/// let scratch = windward_sim::scratch::Scratch::new()?;
/// std::fs::write(scratch.path().join("note"), "42")?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// The folder itself, locked: the lock ends with the process. `None` where a folder cannot be
    /// opened; it then stays if the process is killed.
    _lock: Option<File>,
}

impl Scratch {
    /// Makes a folder in the system's folder for temporary files.
    ///
    /// # Errors
    /// If it cannot be made there.
    pub fn new() -> io::Result<Self> {
        Self::within(&std::env::temp_dir())
    }

    /// Makes a folder in that one.
    fn within(parent: &Path) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        remove_abandoned(parent);
        #[cfg_attr(not(unix), expect(unused_mut, reason = "it has a mode there"))]
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
            let problem = match builder.create(&path) {
                Ok(()) => match lock(&path) {
                    Ok(lock) => return Ok(Scratch { path, _lock: lock }),
                    // Another process takes it for an abandoned one.
                    Err(error) => error,
                },
                Err(error) => error,
            };
            use io::ErrorKind::{AlreadyExists, NotFound, WouldBlock};
            let is_taken = [AlreadyExists, WouldBlock].contains(&problem.kind());
            if !is_taken && (problem.kind() != NotFound || !parent.exists()) {
                let place = parent.display();
                return Err(io::Error::new(problem.kind(), format!("{place}: {problem}")));
            }
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Locks a folder, which must still have its name.
#[cfg(unix)]
fn lock(path: &Path) -> io::Result<Option<File>> {
    use std::fs::TryLockError;
    use std::os::unix::fs::MetadataExt;
    // The dot: a pipe of that name, which others may have made, is not opened.
    let folder = File::open(path.join("."))?;
    match folder.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let (locked, named) = (folder.metadata()?, fs::symlink_metadata(path)?);
    match (locked.dev(), locked.ino()) == (named.dev(), named.ino()) {
        true => Ok(Some(folder)),
        false => Err(io::ErrorKind::NotFound.into()),
    }
}

#[cfg(not(unix))]
fn lock(_: &Path) -> io::Result<Option<File>> {
    Ok(None)
}

/// Removes the folders of processes that have ended. Those of other users stay.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_ours && matches!(lock(&entry.path()), Ok(Some(_))) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn folders_of_processes_that_have_ended_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let names = || {
            let entries = fs::read_dir(parent.path()).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap())
        };
        let alive = Scratch::within(parent.path()).unwrap();
        // Left by a process that was killed: nobody holds its lock.
        let left = parent.path().join(format!("{PREFIX}1-0"));
        fs::create_dir_all(left.join("data")).unwrap();
        fs::write(left.join("data/file"), "x").unwrap();
        // Others that have such a name are not touched.
        std::os::unix::fs::symlink("/etc", parent.path().join(format!("{PREFIX}link"))).unwrap();
        fs::write(parent.path().join(format!("{PREFIX}file")), "x").unwrap();
        let next = Scratch::within(parent.path()).unwrap();
        assert!(!left.exists());
        assert!(alive.path().is_dir() && next.path().is_dir());
        drop((alive, next));
        let mut left: Vec<String> = names().collect();
        left.sort();
        assert_eq!(left, [format!("{PREFIX}file"), format!("{PREFIX}link")]);
    }
}
