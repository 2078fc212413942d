//! The folder that receives: every name is resolved below it, and no symbolic link is followed.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rustix::fs::{
    self, Access, AtFlags, FallocateFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags,
    Stat, Timespec, Timestamps,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::descent::{Descent, make_folder, open_folder};
use crate::error::{Error, Result, shown};
use crate::sync::lock;
use crate::transfer::path::{RelPath, temporary_name};
use crate::transfer::wire::Stamp;

/// Limit of the sum of the paths of folders whose permissions are restored, bytes.
const MAX_RAISED: usize = 16 << 20;

/// The folder that receives.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    descent: Descent,
    device: u64,
    /// True after an entry lay on another file system than the folder.
    elsewhere: AtomicBool,
    /// True if what is there gets the permissions of the sender, too.
    perms: bool,
    /// Permissions that new entries do not get otherwise.
    umask: u16,
    raised: Mutex<Raised>,
}

/// Folders into which the owner can write for as long as a transfer lasts.
#[derive(Debug, Default)]
struct Raised {
    /// Their permissions before and after it.
    modes: HashMap<RelPath, u32>,
    /// Sum of the lengths of their paths.
    paths: usize,
}

impl Raised {
    /// Remembers a folder, unless it is there already, or there are too many.
    fn add(&mut self, path: &RelPath, mode: u32) {
        if self.paths < MAX_RAISED && !self.modes.contains_key(path) {
            self.paths += path.bytes().len();
            self.modes.insert(path.clone(), mode);
        }
    }

    fn take(&mut self, path: &RelPath) -> Option<u32> {
        let mode = self.modes.remove(path)?;
        self.paths -= path.bytes().len();
        Some(mode)
    }
}

impl Folder {
    /// Opens a folder, makes it where it is missing, and locks it against other receivers.
    /// With `perms`, what is there gets the permissions of the sender.
    ///
    /// # Errors
    ///
    /// If it is not a folder, cannot be made or written, has another receiver, or if a link of
    /// another user leads to it.
    pub fn open(path: &Path, perms: bool) -> Result<Self> {
        let (path, root) =
            make_folder(path).map_err(Error::file(path, "cannot make the folder"))?;
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
        Ok(Folder {
            path,
            descent,
            device,
            elsewhere: AtomicBool::new(false),
            perms,
            umask: umask(),
            raised: Mutex::default(),
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

    /// Closes the folders that are open, since they may have been removed or replaced.
    pub fn forget(&self) {
        self.descent.forget();
    }

    /// Permissions of a file: as `rsync -rt`, those of the file that is there, or those of the
    /// sender without the umask, or within the default access control list of its folder; as
    /// `rsync -p`, those of the sender. Never set-user-ID.
    pub fn mode(&self, path: &RelPath, sent: u16, there: Option<&Stat>) -> u16 {
        match there {
            _ if self.perms => sent & 0o777,
            // Nine bits.
            Some(stat) => (stat.st_mode & 0o777) as u16,
            None => {
                sent & self
                    .parent(path)
                    .ok()
                    .and_then(|at| listed(&at))
                    .unwrap_or(0o777 & !self.umask)
            }
        }
    }

    /// Makes a folder, with the set-group-ID bit of the one that has it. Its owner can write into
    /// it until [`Folder::dress`].
    pub fn make(&self, path: &RelPath, sent: u16) -> io::Result<()> {
        let parent = self.parent(path)?;
        let sent = u32::from(sent & 0o777);
        // An earlier folder with this path may be open.
        self.forget();
        // The system applies the umask.
        let made = fs::mkdirat(&*parent, path.name(), Mode::from_raw_mode(sent | 0o700));
        if made == Err(Errno::EXIST)
            && self.look(path)?.is_some_and(|stat| file_type(&stat) == FileType::Directory)
        {
            // Another sender has made it meanwhile.
            return Ok(());
        }
        made?;
        if sent & 0o700 != 0o700 {
            let made = fs::statat(&*parent, path.name(), AtFlags::SYMLINK_NOFOLLOW)?;
            let mode = made.st_mode & 0o7777 & (sent | !0o700);
            lock(&self.raised).add(path, mode);
        }
        Ok(())
    }

    /// Lets the owner write into a folder that is there, until [`Folder::dress`]. Where that is not
    /// allowed, the files in it say so.
    pub fn open_up(&self, path: &RelPath, stat: &Stat) -> io::Result<()> {
        let mode = Mode::from_raw_mode(stat.st_mode) | Mode::WUSR | Mode::XUSR;
        if mode != Mode::from_raw_mode(stat.st_mode) {
            let folder = open_folder(&*self.parent(path)?, path.name(), OFlags::RDONLY)?;
            if fs::fchmod(&folder, mode).is_ok() {
                lock(&self.raised).add(path, stat.st_mode & 0o7777);
            }
        }
        Ok(())
    }

    /// Sets permissions and times of a folder. As `rsync -rt`, one that was there keeps its
    /// permissions; as `rsync -p`, it gets those of the sender.
    pub fn dress(&self, path: &RelPath, sent: u16, changed: Stamp) -> io::Result<()> {
        let folder = open_folder(&*self.parent(path)?, path.name(), OFlags::RDONLY)?;
        let raised = lock(&self.raised).take(path);
        let mode = if self.perms { Some(u32::from(sent & 0o3777)) } else { raised };
        if let Some(mode) = mode {
            fs::fchmod(&folder, Mode::from_raw_mode(mode))?;
        }
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
        remove(&parent, &temporary)?;
        fs::symlinkat(target, &*parent, &temporary[..])?;
        fs::utimensat(&*parent, &temporary[..], &times(changed), AtFlags::SYMLINK_NOFOLLOW)?;
        self.rename(path, false)
    }

    /// Opens a regular file to read it. `None` if no regular file has this name.
    pub fn open_file(&self, path: &RelPath) -> io::Result<Option<File>> {
        self.open_existing(path, path.name(), OFlags::RDONLY)
    }

    /// Opens the temporary file of an earlier transfer. `None` if it does not exist, or is one that
    /// somebody else may have made: its owner could read and change what is written into it.
    pub fn open_earlier(&self, path: &RelPath) -> io::Result<Option<File>> {
        let name = temporary_name(path.name());
        let Some(file) = self.open_existing(path, &name, OFlags::RDWR)? else { return Ok(None) };
        let stat = fs::fstat(&file)?;
        let is_own =
            stat.st_uid == geteuid().as_raw() && stat.st_nlink == 1 && stat.st_mode & 0o022 == 0;
        Ok(is_own.then_some(file))
    }

    fn open_existing(
        &self,
        path: &RelPath,
        name: &[u8],
        access: OFlags,
    ) -> io::Result<Option<File>> {
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match fs::openat(&*self.parent(path)?, name, flags, Mode::empty()) {
            Ok(file) => {
                let file = File::from(file);
                Ok(file.metadata()?.is_file().then_some(file))
            }
            Err(Errno::NOENT | Errno::LOOP) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes the temporary file of a file, in the place of an earlier one.
    pub fn make_temporary(&self, path: &RelPath) -> io::Result<File> {
        let parent = self.parent(path)?;
        let name = temporary_name(path.name());
        remove(&parent, &name)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
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
            let _ = remove(&parent, &temporary_name(path.name()));
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

/// Removes an entry of an open folder, if it is there.
fn remove(parent: &OwnedFd, name: &[u8]) -> io::Result<()> {
    match fs::unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Permissions that new files of this program do not get. Only changing it tells it otherwise, and
/// it is that of all threads.
fn umask() -> u16 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    mask.and_then(|mask| u16::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o022)
}

/// Permissions that a new file in a folder has at most by the folder's default access control list;
/// `None` without one. The system heeds it only where it makes the file with these permissions.
fn listed(folder: &OwnedFd) -> Option<u16> {
    let mut list = [0; 8 << 10];
    // The folder is open to find entries in it alone, which allows nothing else.
    let path = format!("/proc/self/fd/{}", folder.as_raw_fd());
    let length = fs::getxattr(path, "system.posix_acl_default", &mut list).ok()?;
    // A version; then a tag, permissions and a user or group for each entry: acl(5) and
    // posix_acl_xattr.h of Linux.
    let mut most = [7; 3];
    for entry in list[..length].get(4..)?.chunks_exact(8) {
        let place = match u16::from_ne_bytes([entry[0], entry[1]]) {
            0x01 => 0,
            // The group, and the mask, which bounds it and comes later if it is there.
            0x04 | 0x10 => 1,
            0x20 => 2,
            _ => continue,
        };
        most[place] = u16::from(entry[2] & 7);
    }
    Some(most[0] << 6 | most[1] << 3 | most[2])
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};

    use super::*;

    /// Names, permissions, times and contents in a folder.
    fn state(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| {
            let path = entry.expect("an entry").path();
            let metadata = std::fs::symlink_metadata(&path).expect("there");
            let contents = std::fs::read(&path).unwrap_or_default();
            let times = (metadata.mtime(), metadata.mtime_nsec());
            format!("{path:?} {:o} {times:?} {contents:?}", metadata.mode())
        });
        let mut entries: Vec<String> = entries.collect();
        entries.sort();
        entries
    }

    /// Senders that are served side by side make the same folder.
    #[test]
    fn a_folder_that_has_appeared_meanwhile_is_no_error() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = Folder::open(home.path(), false).expect("a folder");
        std::fs::write(home.path().join("file"), b"").expect("written");
        let make = |name| folder.make(&RelPath::parse(name).expect("a path"), 0o755);
        assert!(make(b"d").is_ok() && make(b"d").is_ok() && make(b"file").is_err());
    }

    /// A folder whose list gives others nothing gets no file that others can read.
    #[test]
    fn new_files_stay_within_the_default_list_of_their_folder() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = Folder::open(home.path(), false).expect("a folder");
        let path = RelPath::parse(b"file").expect("a path");
        assert_eq!(folder.mode(&path, 0o777, None), 0o777 & !folder.umask);
        let entry = |tag: u16, bits: u16| {
            let words = [tag.to_ne_bytes(), bits.to_ne_bytes(), [0xff; 2], [0xff; 2]];
            words.concat()
        };
        let list = [
            2u32.to_ne_bytes().to_vec(),
            entry(0x01, 7),
            entry(0x04, 7),
            entry(0x10, 5),
            entry(0x20, 0),
        ];
        let set = fs::setxattr(
            home.path(),
            "system.posix_acl_default",
            &list.concat(),
            rustix::fs::XattrFlags::empty(),
        );
        if set.is_err() {
            eprintln!("not tested: no access control lists on this file system");
            return;
        }
        assert_eq!(folder.mode(&path, 0o664, None), 0o640);
        let direct = std::fs::OpenOptions::new()
            .create_new(true)
            .write(true)
            .mode(0o664)
            .open(home.path().join("direct"))
            .expect("made");
        assert_eq!(direct.metadata().expect("there").mode() & 0o777, 0o640, "as the system does");
    }

    /// A local user replaces a folder by a link before and after it was opened.
    #[test]
    fn nothing_changes_outside_if_a_folder_becomes_a_link() {
        let path = |text: &[u8]| RelPath::parse(text).expect("a path");
        let (file, below) = (path(b"d/f"), path(b"d/g"));
        let stamp = Stamp { seconds: 7, nanos: 7 };
        type Act<'a> = &'a dyn Fn(&Folder);
        let acts: [(&str, Act<'_>); 9] = [
            ("make", &|folder| drop(folder.make(&path(b"d/new"), 0o700))),
            ("open_up", &|folder| {
                if let Ok(Some(stat)) = folder.look(&below) {
                    drop(folder.open_up(&below, &stat));
                }
            }),
            ("dress", &|folder| drop(folder.dress(&below, 0o777, stamp))),
            ("link", &|folder| drop(folder.link(&file, b"target", stamp))),
            ("make_temporary", &|folder| drop(folder.make_temporary(&file))),
            ("open_earlier", &|folder| {
                if let Ok(Some(earlier)) = folder.open_earlier(&file) {
                    earlier.set_len(1).expect("shorter");
                }
            }),
            ("open_file", &|folder| {
                if let Ok(Some(open)) = folder.open_file(&file) {
                    dress(&open, 0o777, stamp).expect("dressed");
                }
            }),
            ("rename", &|folder| drop(folder.rename(&file, false))),
            ("discard", &|folder| folder.discard(&file)),
        ];
        for (name, act) in acts {
            for is_open in [false, true] {
                let home = tempfile::tempdir().expect("a folder");
                let at = |name: &str| home.path().join(name);
                for top in ["in/d", "out"] {
                    std::fs::create_dir_all(at(top).join("g")).expect("made");
                    std::fs::write(at(top).join("f"), b"old").expect("written");
                    let temporary = String::from_utf8(temporary_name(b"f")).expect("ASCII");
                    std::fs::write(at(top).join(&temporary), b"part").expect("written");
                    for private in ["g", &temporary] {
                        let mode = std::fs::Permissions::from_mode(0o500);
                        std::fs::set_permissions(at(top).join(private), mode).expect("set");
                    }
                }
                let folder = Folder::open(&at("in"), false).expect("a folder");
                if is_open {
                    folder.parent(&file).expect("open");
                }
                std::fs::rename(at("in/d"), at("in/away")).expect("renamed");
                symlink(at("out"), at("in/d")).expect("linked");
                let before = state(&at("out"));
                act(&folder);
                assert_eq!(state(&at("out")), before, "{name}");
            }
        }
    }
}
