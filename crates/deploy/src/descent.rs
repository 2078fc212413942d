//! Entries below a folder, reached one name at a time, so that no link is followed on the way.
//!
//! A path may lead elsewhere a moment after it was checked: the owner of any folder in it can put a
//! link in its place. So neither side of a transfer opens a path of several names, and links
//! that are followed are followed here.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::sync::lock;

/// Number of open folders that are kept for the next entry.
const KEPT: usize = 128;
/// Most links on the way to an entry, as in Linux.
const LINKS: usize = 40;

/// A folder, and open folders below it. Paths are names joined by `/`, none of them `.` or `..`;
/// the empty path is the folder itself.
#[derive(Debug)]
pub(crate) struct Descent {
    root: Arc<OwnedFd>,
    kept: Mutex<HashMap<Box<[u8]>, Arc<OwnedFd>>>,
}

impl Descent {
    /// Entries below an open folder.
    pub(crate) fn below(root: OwnedFd) -> Self {
        Descent { root: Arc::new(root), kept: Mutex::default() }
    }

    /// All entries of the system.
    pub(crate) fn system() -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self::below(fs::open("/", flags, Mode::empty())?))
    }

    /// The folder from which it descends.
    pub(crate) fn root(&self) -> &OwnedFd {
        &self.root
    }

    /// Closes the folders that are kept, so that those that have replaced them are found.
    pub(crate) fn forget(&self) {
        lock(&self.kept).clear();
    }

    /// The folder at a path, to find entries in it.
    pub(crate) fn folder(&self, path: &[u8]) -> io::Result<Arc<OwnedFd>> {
        let (mut at, mut done) = self.nearest(path);
        while done < path.len() {
            let begin = if done == 0 { 0 } else { done + 1 };
            let slash = path[begin..].iter().position(|byte| *byte == b'/');
            done = slash.map_or(path.len(), |slash| begin + slash);
            at = Arc::new(open_folder(&*at, &path[begin..done], OFlags::PATH)?);
            let mut kept = lock(&self.kept);
            if kept.len() >= KEPT {
                kept.clear();
            }
            kept.insert(path[..done].into(), Arc::clone(&at));
        }
        Ok(at)
    }

    /// The lowest open folder on the way, and the length of its path.
    fn nearest(&self, path: &[u8]) -> (Arc<OwnedFd>, usize) {
        let kept = lock(&self.kept);
        let mut length = path.len();
        while length > 0 {
            if let Some(open) = kept.get(&path[..length]) {
                return (Arc::clone(open), length);
            }
            length = split(&path[..length]).0.len();
        }
        (Arc::clone(&self.root), 0)
    }

    /// Properties of an entry, or of a link itself.
    pub(crate) fn look(&self, path: &[u8]) -> io::Result<Stat> {
        if path.is_empty() {
            return Ok(fs::fstat(&*self.root)?);
        }
        let (parent, name) = split(path);
        Ok(fs::statat(&*self.folder(parent)?, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Opens a file to read it; not a link.
    pub(crate) fn open(&self, path: &[u8]) -> io::Result<File> {
        let (parent, name) = split(path);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(fs::openat(&*self.folder(parent)?, name, flags, Mode::empty())?.into())
    }

    /// The path without links to which another one leads from a folder, if it never leaves the
    /// folder `base`. Missing folders are made with
    /// the permissions in `make`.
    ///
    /// # Errors
    ///
    /// Those of the system, and if `may_follow` is false for a link.
    pub(crate) fn resolve(
        &self,
        base: &[u8],
        from: &[u8],
        path: &[u8],
        make: Option<Mode>,
        may_follow: fn(&Stat) -> bool,
    ) -> io::Result<Option<Vec<u8>>> {
        let names = |path: &[u8]| -> Vec<Vec<u8>> {
            path.split(|byte| *byte == b'/').rev().map(<[u8]>::to_vec).collect()
        };
        let (mut at, mut left, mut links) = (from.to_vec(), names(path), 0);
        while let Some(name) = left.pop() {
            match &name[..] {
                b"" | b"." => continue,
                // Above `/` is `/`.
                b".." if at.is_empty() => continue,
                b".." if at.len() == base.len() => return Ok(None),
                b".." => {
                    at.truncate(split(&at).0.len());
                    continue;
                }
                _ => {}
            }
            let folder = self.folder(&at)?;
            let stat = match fs::statat(&*folder, &name[..], AtFlags::SYMLINK_NOFOLLOW) {
                Err(error @ Errno::NOENT) => {
                    let made = fs::mkdirat(&*folder, &name[..], make.ok_or(error)?);
                    match made {
                        // Somebody may have been faster: it is looked at again.
                        Ok(()) | Err(Errno::EXIST) => left.push(name),
                        Err(error) => return Err(error.into()),
                    }
                    continue;
                }
                stat => stat?,
            };
            if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
                at = join(&at, &name);
                continue;
            }
            if !may_follow(&stat) {
                return Err(io::Error::other(format!(
                    "`{}` is a link of another user (uid {}), which may lead anywhere: name the \
                     place itself",
                    String::from_utf8_lossy(&name).escape_debug(),
                    stat.st_uid
                )));
            }
            links += 1;
            if links > LINKS {
                return Err(Errno::LOOP.into());
            }
            let target = fs::readlinkat(&*folder, &name[..], Vec::new())?.into_bytes();
            if target.first() == Some(&b'/') {
                let Some(below) = strip(&target[1..], base) else { return Ok(None) };
                at = base.to_vec();
                left.extend(names(below));
            } else {
                left.extend(names(&target));
            }
        }
        Ok(Some(at))
    }

    /// The path without links of an entry of the system that the user names. Links on the way must
    /// be those of root or of the user who runs this program.
    pub(crate) fn named(&self, path: &Path, make: Option<Mode>) -> io::Result<Vec<u8>> {
        let whole = std::path::absolute(path)?;
        let found = self.resolve(b"", b"", whole.as_os_str().as_bytes(), make, is_trusted)?;
        Ok(found.unwrap_or_default())
    }
}

/// True for an entry of root, or of the user who runs this program.
pub(crate) fn is_trusted(stat: &Stat) -> bool {
    stat.st_uid == 0 || stat.st_uid == geteuid().as_raw()
}

/// Opens a file that the user names, as [`Descent::named`] finds it. What the shell has opened
/// has a name that leads nowhere, or elsewhere.
pub(crate) fn open_named(path: &Path) -> io::Result<File> {
    if ["/dev/stdin", "/dev/fd", "/proc/self/fd"].iter().any(|open| path.starts_with(open)) {
        return File::open(path);
    }
    let system = Descent::system()?;
    let place = system.named(path, None)?;
    let (parent, name) = split(&place);
    // A FIFO waits for its writer.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(fs::openat(&*system.folder(parent)?, name, flags, Mode::empty())?.into())
}

/// Opens a folder that the user names, as [`Descent::named`] finds it, and makes it where it is
/// missing. Also its path without links.
pub(crate) fn make_folder(path: &Path) -> io::Result<(PathBuf, OwnedFd)> {
    let system = Descent::system()?;
    let place = system.named(path, Some(Mode::from_raw_mode(0o777)))?;
    let folder = open_folder(&*system.folder(&place)?, b".", OFlags::RDONLY)?;
    Ok((absolute(&place), folder))
}

/// Opens a folder by its name in another one; not a link to one.
pub(crate) fn open_folder(parent: impl AsFd, name: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
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

/// The path of the folder that has an entry, and its name.
pub(crate) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&[], path),
    }
}

/// The path of an entry in a folder.
pub(crate) fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() { name.to_vec() } else { [folder, b"/", name].concat() }
}

/// The part of a path below a folder, if it leads there.
fn strip<'a>(path: &'a [u8], base: &[u8]) -> Option<&'a [u8]> {
    let rest = path.strip_prefix(base)?;
    (base.is_empty() || rest.is_empty() || rest[0] == b'/').then_some(rest)
}

/// A path from `/`, for messages.
pub(crate) fn absolute(path: &[u8]) -> PathBuf {
    Path::new("/").join(OsStr::from_bytes(path))
}
