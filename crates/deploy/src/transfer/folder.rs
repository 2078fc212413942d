//! The folder that receives: every name is resolved below it, and no symbolic link is followed.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{
    self, Access, AtFlags, FallocateFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags,
    Stat, Timespec, Timestamps,
};
use rustix::io::Errno;

use crate::descent::{Descent, absolute, open_folder};
use crate::error::{Error, Result, shown};
use crate::transfer::path::{RelPath, temporary_name};
use crate::transfer::wire::Stamp;

/// The folder that receives.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    descent: Descent,
    device: u64,
    /// True after an entry lay on another file system than the folder.
    elsewhere: AtomicBool,
}

impl Folder {
    /// Opens a folder, makes it where it is missing, and locks it against other receivers.
    ///
    /// # Errors
    ///
    /// If it is not a folder, cannot be made or written, has another receiver, or if a link of
    /// another user leads to it.
    pub fn open(path: &Path) -> Result<Self> {
        let opened = (|| {
            let system = Descent::system()?;
            let place = system.named(path, Some(Mode::from_raw_mode(0o777)))?;
            let root = open_folder(&*system.folder(&place)?, b".", OFlags::RDONLY)?;
            Ok((absolute(&place), root))
        })();
        let (path, root) = opened.map_err(Error::file(path, "cannot make the folder"))?;
        let failed = |error: Errno| Error::file(&path, "cannot open the folder")(error.into());
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
        let descent = Descent::below(root);
        Ok(Folder { path, descent, device, elsewhere: AtomicBool::new(false) })
    }

    /// Absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Path of an entry, for messages.
    pub fn at(&self, path: &RelPath) -> PathBuf {
        self.path.join(path.as_path())
    }

    /// The open folder that has an entry.
    pub fn parent(&self, path: &RelPath) -> io::Result<Arc<OwnedFd>> {
        let folder = self.descent.folder(path.parent().unwrap_or_default())?;
        if fs::fstat(&*folder)?.st_dev != self.device {
            self.elsewhere.store(true, Ordering::Relaxed);
        }
        Ok(folder)
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
            let folder = open_folder(&*self.parent(path)?, path.name(), OFlags::RDONLY)?;
            let _ = fs::fchmod(&folder, mode);
        }
        Ok(())
    }

    /// Sets permissions and times of a folder.
    pub fn dress(&self, path: &RelPath, mode: u16, changed: Stamp) -> io::Result<()> {
        let folder = open_folder(&*self.parent(path)?, path.name(), OFlags::RDONLY)?;
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
        fs::fstatvfs(self.descent.root())
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
        Ok(fs::syncfs(self.descent.root())?)
    }
}

fn name_of(path: &RelPath, temporary: bool) -> Vec<u8> {
    if temporary { temporary_name(path.name()) } else { path.name().to_vec() }
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
