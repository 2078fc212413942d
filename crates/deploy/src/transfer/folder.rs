//! The folder that receives: every name is resolved below it, and no symbolic link is followed.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rustix::fs::{
    self, Access, AtFlags, FallocateFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags,
    Stat, Timespec, Timestamps,
};
use rustix::io::Errno;

use crate::error::{Error, Result, shown};
use crate::sync::lock;
use crate::transfer::path::{RelPath, temporary_name};
use crate::transfer::wire::Stamp;

/// Number of open folders that are kept for the next file.
const KEPT: usize = 128;

/// The folder that receives.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    root: Arc<OwnedFd>,
    device: u64,
    kept: Mutex<HashMap<Box<[u8]>, Arc<OwnedFd>>>,
    /// True after an entry lay on another file system than the folder.
    elsewhere: AtomicBool,
}

impl Folder {
    /// Opens a folder, makes it where it is missing, and locks it against other receivers.
    ///
    /// # Errors
    ///
    /// If it is not a folder, cannot be made or written, or has another receiver.
    pub fn open(path: &Path) -> Result<Self> {
        std::fs::create_dir_all(path).map_err(Error::file(path, "cannot make the folder"))?;
        let path = path.canonicalize().map_err(Error::file(path, "cannot open the folder"))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let failed = |error: Errno| Error::file(&path, "cannot open the folder")(error.into());
        let root = fs::open(&path, flags, Mode::empty()).map_err(failed)?;
        // Other errors are those of file systems without locks.
        if fs::flock(&root, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Err(Error::Input(format!(
                "{}: another `windward receive` is at work in this folder",
                shown(&path)
            )));
        }
        // Before a ticket is given out. By the effective user, who will write.
        fs::accessat(&root, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)
            .map_err(|error| Error::file(&path, "cannot write into the folder")(error.into()))?;
        let device = fs::fstat(&root).map_err(failed)?.st_dev;
        Ok(Folder {
            path,
            root: Arc::new(root),
            device,
            kept: Mutex::default(),
            elsewhere: AtomicBool::new(false),
        })
    }

    /// Absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Path of an entry, for messages.
    pub fn at(&self, path: &RelPath) -> PathBuf {
        self.path.join(path.as_path())
    }

    /// The open folder at some bytes of a checked path; empty for the folder itself.
    fn directory(&self, path: &[u8]) -> io::Result<Arc<OwnedFd>> {
        if path.is_empty() {
            return Ok(Arc::clone(&self.root));
        }
        let kept = || lock(&self.kept);
        if let Some(open) = kept().get(path) {
            return Ok(Arc::clone(open));
        }
        let (mut at, rest) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => match kept().get(&path[..slash]) {
                Some(parent) => (Arc::clone(parent), &path[slash + 1..]),
                None => (Arc::clone(&self.root), path),
            },
            None => (Arc::clone(&self.root), path),
        };
        for name in rest.split(|byte| *byte == b'/') {
            at = Arc::new(open_folder(&*at, name)?);
        }
        if fs::fstat(&*at)?.st_dev != self.device {
            self.elsewhere.store(true, Ordering::Relaxed);
        }
        let mut kept = kept();
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(path.into(), Arc::clone(&at));
        Ok(at)
    }

    /// The open folder that has an entry.
    pub fn parent(&self, path: &RelPath) -> io::Result<Arc<OwnedFd>> {
        self.directory(path.parent().unwrap_or_default())
    }

    /// Properties of an entry; `None` if there is no such entry, or no such folder.
    pub fn look(&self, path: &RelPath) -> io::Result<Option<Stat>> {
        let parent = match self.parent(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            parent => parent?,
        };
        match fs::statat(&*parent, path.name(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a folder. Its owner can write into it until [`Folder::dress`].
    pub fn make(&self, path: &RelPath, mode: u16) -> io::Result<()> {
        let parent = self.parent(path)?;
        fs::mkdirat(&*parent, path.name(), Mode::from_raw_mode(u32::from(mode) | 0o700))?;
        Ok(())
    }

    /// Lets the owner write into a folder that is there, until [`Folder::dress`]. Where that is not
    /// allowed, the files in it say so.
    pub fn open_up(&self, path: &RelPath, stat: &Stat) -> io::Result<()> {
        let mode = Mode::from_raw_mode(stat.st_mode) | Mode::WUSR | Mode::XUSR;
        if mode != Mode::from_raw_mode(stat.st_mode) {
            let folder = open_folder(&*self.parent(path)?, path.name())?;
            let _ = fs::fchmod(&folder, mode);
        }
        Ok(())
    }

    /// Sets permissions and times of a folder.
    pub fn dress(&self, path: &RelPath, mode: u16, changed: Stamp) -> io::Result<()> {
        let folder = open_folder(&*self.parent(path)?, path.name())?;
        fs::fchmod(&folder, Mode::from_raw_mode(u32::from(mode)))?;
        fs::futimens(&folder, &times(changed))?;
        Ok(())
    }

    /// Target of a symbolic link.
    pub fn link_target(&self, path: &RelPath) -> io::Result<Vec<u8>> {
        let parent = self.parent(path)?;
        Ok(fs::readlinkat(&*parent, path.name(), Vec::new())?.into_bytes())
    }

    /// Makes a symbolic link. It replaces a file or link with its name at once.
    pub fn link(&self, path: &RelPath, target: &[u8], changed: Stamp) -> io::Result<()> {
        let parent = self.parent(path)?;
        let temporary = temporary_name(path.name());
        match fs::unlinkat(&*parent, &temporary[..], AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        fs::symlinkat(target, &*parent, &temporary[..])?;
        fs::utimensat(&*parent, &temporary[..], &times(changed), AtFlags::SYMLINK_NOFOLLOW)?;
        self.rename(path, false)
    }

    /// Opens a regular file to read it. `None` if no regular file has this name.
    pub fn open_file(&self, path: &RelPath, temporary: bool) -> io::Result<Option<File>> {
        let name = name_of(path, temporary);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match fs::openat(&*self.parent(path)?, &name[..], flags, Mode::empty()) {
            Ok(file) => {
                let file = File::from(file);
                Ok(file.metadata()?.is_file().then_some(file))
            }
            Err(Errno::NOENT | Errno::LOOP) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens the temporary file of a file for writing. An earlier one is continued, or made anew.
    pub fn open_temporary(&self, path: &RelPath, keep: bool) -> io::Result<File> {
        let parent = self.parent(path)?;
        let name = temporary_name(path.name());
        if !keep {
            match fs::unlinkat(&*parent, &name[..], AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let made = if keep { OFlags::empty() } else { OFlags::CREATE | OFlags::EXCL };
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | made;
        Ok(fs::openat(&*parent, &name[..], flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// Gives the temporary file of a file its name. If it must be new, nothing with this name is
    /// replaced.
    ///
    /// # Errors
    ///
    /// Those of the system, and if it must be new and something with this name is there. On a file
    /// system that ignores case, that may be a file whose name differs in case only.
    pub fn rename(&self, path: &RelPath, must_be_new: bool) -> io::Result<()> {
        let parent = self.parent(path)?;
        let temporary = temporary_name(path.name());
        if must_be_new {
            let flags = RenameFlags::NOREPLACE;
            match fs::renameat_with(&*parent, &temporary[..], &*parent, path.name(), flags) {
                // The file system cannot, as some over networks.
                Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
                Err(Errno::EXIST) => {
                    self.discard(path);
                    return Err(io::Error::new(
                        io::ErrorKind::AlreadyExists,
                        "a file with this name, or one that differs in case only, has appeared \
                         meanwhile",
                    ));
                }
                other => return Ok(other?),
            }
        }
        fs::renameat(&*parent, &temporary[..], &*parent, path.name())?;
        Ok(())
    }

    /// Removes the temporary file of a file.
    pub fn discard(&self, path: &RelPath) {
        if let Ok(parent) = self.parent(path) {
            let _ = fs::unlinkat(&*parent, &temporary_name(path.name())[..], AtFlags::empty());
        }
    }

    /// Free space, bytes.
    pub fn free(&self) -> u64 {
        fs::fstatvfs(&*self.root)
            .map_or(u64::MAX, |stat| stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// True if all entries so far lie on the file system of the folder.
    pub fn is_whole(&self) -> bool {
        !self.elsewhere.load(Ordering::Relaxed)
    }

    /// Waits until everything that was written is on the disk.
    pub fn sync(&self) -> io::Result<()> {
        if !self.is_whole() {
            fs::sync();
        }
        // Linux reports here what could not be written.
        Ok(fs::syncfs(&*self.root)?)
    }
}

fn name_of(path: &RelPath, temporary: bool) -> Vec<u8> {
    if temporary { temporary_name(path.name()) } else { path.name().to_vec() }
}

fn open_folder(parent: impl AsFd, name: &[u8]) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fs::openat(parent, OsStr::from_bytes(name), flags, Mode::empty()).map_err(|error| match error {
        // The system's words are "Not a directory" and "Too many levels of symbolic links".
        Errno::NOTDIR | Errno::LOOP => io::Error::new(
            io::ErrorKind::NotADirectory,
            format!(
                "`{}` is there and is not a folder",
                String::from_utf8_lossy(name).escape_debug()
            ),
        ),
        other => other.into(),
    })
}

fn times(changed: Stamp) -> Timestamps {
    let time = Timespec { tv_sec: changed.seconds, tv_nsec: changed.nanos.min(999_999_999).into() };
    Timestamps { last_access: time, last_modification: time }
}

/// Sets permissions and times of an open file.
pub fn dress(file: &File, mode: u16, changed: Stamp) -> io::Result<()> {
    fs::fchmod(file, Mode::from_raw_mode(u32::from(mode)))?;
    fs::futimens(file, &times(changed))?;
    Ok(())
}

/// Makes a range of a file zero, as a hole where the file system has holes.
pub fn make_hole(file: &File, offset: u64, length: u64) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match fs::fallocate(file, flags, offset, length) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            use std::os::unix::fs::FileExt;
            file.write_all_at(&vec![0; length as usize], offset)
        }
        other => Ok(other?),
    }
}

/// Time of the last change in the properties of an entry.
pub fn changed(stat: &Stat) -> Stamp {
    // Nanoseconds are below 10^9.
    Stamp { seconds: stat.st_mtime, nanos: stat.st_mtime_nsec as u32 }
}

/// Kind of an entry from its properties.
pub fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}
