//! Entries to send: files, folders and links below the paths of the user.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ignore::WalkBuilder;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::error::{Error, Result, shown};
use crate::sync::lock;
use crate::transfer::path::{RelPath, check_link};
use crate::transfer::wire::{Kind, Stamp};

/// Treatment of symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Links {
    /// Links are sent as links.
    #[default]
    Keep,
    /// Links are replaced by the files and folders to which they lead.
    Follow,
    /// Links are left out.
    Skip,
}

/// Choice of entries.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// Treatment of symbolic links. None that leads out of its folder is sent.
    pub links: Links,
    /// Patterns of entries to leave out, as in a `.gitignore` in each folder of the user.
    pub exclude: Vec<String>,
    /// Files with such patterns, one a line, which come before those of `exclude`.
    pub exclude_from: Vec<PathBuf>,
}

/// An entry to send.
#[derive(Debug, Clone)]
pub struct Source {
    /// Where it is.
    pub path: PathBuf,
    /// Path below the folder of the receiver.
    pub name: RelPath,
    /// Kind.
    pub kind: Kind,
    /// Permissions.
    pub mode: u16,
    /// Time of the last change.
    pub changed: Stamp,
    /// Number of attempts so far.
    pub attempts: u8,
}

/// Entry, or a remark about something that is not sent.
#[derive(Debug)]
pub enum Found {
    /// An entry to send.
    Entry(Source),
    /// Something that is left out on purpose, with the reason.
    Skipped(PathBuf, &'static str),
    /// Something that cannot be read, with the reason.
    Failed(PathBuf, String),
}

/// A path of the user, with the name that it gets at the receiver.
#[derive(Debug, Clone)]
struct Root {
    path: PathBuf,
    /// Empty if the contents of a folder go into the folder of the receiver.
    name: Vec<u8>,
    excluded: Gitignore,
}

/// Paths of the user, checked.
#[derive(Debug, Clone)]
pub struct Walk {
    roots: Vec<Root>,
    choice: Choice,
}

impl Walk {
    /// Checks the paths and the patterns.
    ///
    /// A path keeps its last name. `.`, `..` and `/` stand for their contents.
    ///
    /// # Errors
    ///
    /// If a path does not exist, two have the same last name, or a pattern is invalid.
    pub fn new(paths: &[PathBuf], choice: Choice) -> Result<Self> {
        let mut names = HashSet::new();
        let mut roots = Vec::new();
        for path in paths {
            let metadata = fs::symlink_metadata(path).map_err(Error::file(path, "cannot send"))?;
            let kind = metadata.file_type();
            if !(kind.is_file() || kind.is_dir() || kind.is_symlink()) {
                return Err(Error::Input(format!(
                    "{}: is {}, and only files, folders and links can be sent",
                    shown(path),
                    special(&metadata)
                )));
            }
            // A link that the user names stands for where it leads.
            let real = path.canonicalize().map_err(Error::file(path, "cannot send"))?;
            let name = path.file_name().map(|name| name.as_bytes().to_vec()).unwrap_or_default();
            if !name.is_empty() && !names.insert(name.clone()) {
                return Err(Error::Input(format!(
                    "{}: two paths have this last name, and would meet at the receiver: send them one \
                     after the other",
                    shown(path)
                )));
            }
            let excluded = excluded(&real, &choice)?;
            roots.push(Root { path: real, name, excluded });
        }
        Ok(Walk { roots, choice })
    }

    /// Visits the entries, each folder before its contents, until `visit` returns false. It keeps
    /// none of them, so that any number of entries needs the same memory.
    pub fn run(&self, visit: &mut dyn FnMut(Found) -> bool) {
        for root in &self.roots {
            if !self.walk(root, visit) {
                return;
            }
        }
    }

    fn walk(&self, root: &Root, visit: &mut dyn FnMut(Found) -> bool) -> bool {
        let follow = self.choice.links == Links::Follow;
        let mut builder = WalkBuilder::new(&root.path);
        builder.standard_filters(false).follow_links(follow);
        let leaving: Arc<Mutex<Vec<PathBuf>>> = Arc::default();
        {
            let (root, leaving) = (root.clone(), Arc::clone(&leaving));
            builder.filter_entry(move |entry| {
                if entry.depth() == 0 {
                    return true;
                }
                let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
                if root.excluded.matched(entry.path(), is_folder).is_ignore() {
                    return false;
                }
                let stays = !follow
                    || !entry.path_is_symlink()
                    || entry.path().canonicalize().is_ok_and(|real| real.starts_with(&root.path));
                if !stays {
                    lock(&leaving).push(entry.path().to_owned());
                }
                stays
            });
        }
        for entry in builder.build() {
            let left = std::mem::take(&mut *lock(&leaving));
            for path in left {
                if !visit(Found::Skipped(path, "the link leads out of the folder")) {
                    return false;
                }
            }
            let found = match entry {
                Ok(entry) if entry.depth() == 0 && root.name.is_empty() => continue,
                Ok(entry) => match entry.metadata() {
                    Ok(metadata) => self.found(root, entry.path(), &metadata),
                    Err(error) => Found::Failed(entry.path().to_owned(), reason(&error)),
                },
                Err(error) => Found::Failed(
                    path_of(&error).unwrap_or_else(|| root.path.clone()),
                    reason(&error),
                ),
            };
            if !visit(found) {
                return false;
            }
        }
        true
    }

    fn found(&self, root: &Root, path: &Path, metadata: &Metadata) -> Found {
        let below = path.strip_prefix(&root.path).unwrap_or(path).as_os_str().as_bytes();
        let name = match (root.name.is_empty(), below.is_empty()) {
            (true, _) => below.to_vec(),
            (false, true) => root.name.clone(),
            (false, false) => [&root.name[..], b"/", below].concat(),
        };
        let name = match RelPath::parse(&name) {
            Ok(name) => name,
            Err(why) => return Found::Skipped(path.to_owned(), why),
        };
        let kind = metadata.file_type();
        let kind = if kind.is_dir() {
            Kind::Folder
        } else if kind.is_file() {
            Kind::File { size: metadata.len(), space: metadata.blocks().saturating_mul(512) }
        } else if kind.is_symlink() {
            if self.choice.links == Links::Skip {
                return Found::Skipped(path.to_owned(), "it is a link");
            }
            match fs::read_link(path) {
                Ok(target) => {
                    let target = target.into_os_string().into_encoded_bytes();
                    // The folder that is sent has to contain the link, not only the receiver's.
                    let place = RelPath::parse(below).and_then(|place| check_link(&place, &target));
                    if let Err(why) = place {
                        return Found::Skipped(path.to_owned(), why);
                    }
                    Kind::Link { target }
                }
                Err(error) => return Found::Failed(path.to_owned(), error.to_string()),
            }
        } else {
            return Found::Skipped(path.to_owned(), special(metadata));
        };
        let (mode, changed) = properties(metadata);
        Found::Entry(Source { path: path.to_owned(), name, kind, mode, changed, attempts: 0 })
    }
}

/// Patterns of entries to leave out below a folder: those of files first. The last one that matches
/// decides.
fn excluded(folder: &Path, choice: &Choice) -> Result<Gitignore> {
    let mut patterns = GitignoreBuilder::new(folder);
    patterns.allow_unclosed_class(false);
    for file in &choice.exclude_from {
        fs::File::open(file).map_err(Error::file(file, "cannot open"))?;
        if let Some(error) = patterns.add(file) {
            return Err(Error::Input(format!("--exclude-from: {error}")));
        }
    }
    for pattern in &choice.exclude {
        patterns.add_line(None, pattern).map_err(|error| {
            Error::Input(format!("--exclude `{}`: {error}", pattern.escape_debug()))
        })?;
    }
    patterns.build().map_err(|error| Error::Input(format!("--exclude: {error}")))
}

/// Permissions and time of the last change.
pub(crate) fn properties(metadata: &Metadata) -> (u16, Stamp) {
    // Nine bits, and nanoseconds below 10^9.
    let mode = (metadata.mode() & 0o777) as u16;
    (mode, Stamp { seconds: metadata.mtime(), nanos: metadata.mtime_nsec() as u32 })
}

fn special(metadata: &Metadata) -> &'static str {
    let kind = metadata.file_type();
    if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

fn reason(error: &ignore::Error) -> String {
    // The innermost error does not repeat the path.
    let mut inner: &dyn std::error::Error = match error.io_error() {
        Some(io) => io,
        None => error,
    };
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

fn path_of(error: &ignore::Error) -> Option<PathBuf> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path.clone()),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => {
            path_of(err)
        }
        ignore::Error::Loop { child, .. } => Some(child.clone()),
        _ => None,
    }
}
