//! Entries to send: files, folders and links below the paths of the user.
//!
//! Everything is found in open folders, so that nothing outside is listed if a folder is replaced
//! by a link meanwhile. An entry is recognized by its [`Mark`] when it is opened.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{self, AtFlags, FileType, OFlags, RawDir, SeekFrom, Stat};

use crate::descent::{Descent, absolute, join, open_folder, open_named, split};
use crate::error::{Error, Result, shown};
use crate::transfer::path::{RelPath, check_link, is_temporary};
use crate::transfer::wire::{Kind, Stamp};

/// Folders that are open at once while others below them are visited.
const OPEN: usize = 32;
/// Bytes of a folder that are read together.
const READ: usize = 8 << 10;
/// Longest file with patterns, bytes.
const MAX_PATTERNS: u64 = 4 << 20;

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
    pub exclude: Vec<OsString>,
    /// Files with such patterns, one a line, which come before those of `exclude`.
    pub exclude_from: Vec<PathBuf>,
}

/// The entry that was found, as opposed to another one that has its name later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    device: u64,
    inode: u64,
    /// Time of the last change of contents or properties, which no user can set.
    touched: Stamp,
}

/// An entry to send.
#[derive(Debug, Clone)]
pub struct Source {
    /// Path from `/`, without links.
    place: Box<[u8]>,
    /// Path below the folder of the receiver.
    pub name: RelPath,
    /// Kind.
    pub kind: Kind,
    /// Permissions: the lowest twelve bits of the mode.
    pub mode: u16,
    /// Time of the last change.
    pub changed: Stamp,
    /// Identity of the entry that was found.
    pub mark: Mark,
    /// Number of attempts so far.
    pub attempts: u8,
}

impl Mark {
    /// That of an entry with these properties.
    pub(crate) fn of(stat: &Stat) -> Self {
        Mark {
            device: stat.st_dev,
            inode: stat.st_ino,
            touched: stamp(stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

fn stamp(seconds: i64, nanos: u64) -> Stamp {
    // Nanoseconds are below 10^9.
    Stamp { seconds, nanos: nanos as u32 }
}

impl Source {
    fn new(place: &[u8], name: RelPath, kind: Kind, stat: &Stat) -> Self {
        Source {
            place: place.into(),
            name,
            kind,
            // Twelve bits.
            mode: (stat.st_mode & 0o7777) as u16,
            changed: stamp(stat.st_mtime, stat.st_mtime_nsec),
            mark: Mark::of(stat),
            attempts: 0,
        }
    }

    /// Path, for messages.
    pub fn path(&self) -> PathBuf {
        absolute(&self.place)
    }

    /// Path from `/`, without links.
    pub(crate) fn place(&self) -> &[u8] {
        &self.place
    }

    /// True if an open file is the one that was found, and is as it was.
    pub(crate) fn is(&self, file: &File) -> io::Result<bool> {
        let stat = fs::fstat(file)?;
        let now = file_kind(&stat).map(|kind| Source::new(&[], self.name.clone(), kind, &stat));
        Ok(now.is_some_and(|now| {
            (now.mark, now.changed, now.size()) == (self.mark, self.changed, self.size())
        }))
    }

    /// The file that has this place now.
    pub(crate) fn again(&self, system: &Descent) -> io::Result<Self> {
        system.forget();
        let stat = system.look(&self.place)?;
        let kind = file_kind(&stat).ok_or_else(|| io::Error::other("it is no file any more"))?;
        let now = Source::new(&self.place, self.name.clone(), kind, &stat);
        Ok(Source { attempts: self.attempts + 1, ..now })
    }

    /// Size of a file, bytes; 0 for others.
    pub(crate) fn size(&self) -> u64 {
        if let Kind::File { size, .. } = self.kind { size } else { 0 }
    }
}

/// Entry, or a remark about something that is not sent.
#[derive(Debug)]
pub enum Found {
    /// An entry to send.
    Entry(Source),
    /// A link that is left out on purpose, with the reason.
    SkippedLink(PathBuf, &'static str),
    /// Something else that is left out on purpose, with the reason.
    Skipped(PathBuf, &'static str),
    /// Something that cannot be read, with the reason.
    Failed(PathBuf, String),
}

/// A path of the user, with the name that it gets at the receiver.
#[derive(Debug, Clone)]
struct Root {
    /// Path from `/`, without links.
    place: Vec<u8>,
    /// Empty if the contents of a folder go into the folder of the receiver.
    name: Vec<u8>,
}

/// Paths of the user, checked.
#[derive(Debug, Clone)]
pub struct Walk {
    system: Arc<Descent>,
    roots: Vec<Root>,
    links: Links,
    excluded: Gitignore,
}

/// An entry that is looked at.
#[derive(Debug)]
struct Seen {
    /// Path from `/`, without links.
    place: Vec<u8>,
    /// Path below the root, in which a link that is followed is a name like others.
    below: Vec<u8>,
    stat: Stat,
    /// Target of a link that is kept.
    target: Vec<u8>,
}

impl Seen {
    fn is_folder(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::Directory
    }
}

/// A folder whose entries are visited.
#[derive(Debug)]
struct Level {
    folder: Seen,
    /// The open folder; `None` before it is read, and while many others below it are open.
    open: Option<OwnedFd>,
    /// Position of the next entry that is read.
    next: u64,
    /// Names that were read and not visited.
    names: Vec<Vec<u8>>,
}

impl Level {
    /// The next name, with the folder and the open folder; `None` at the end.
    fn next(
        &mut self,
        system: &Descent,
        buffer: &mut [MaybeUninit<u8>],
    ) -> io::Result<Option<(Vec<u8>, &Seen, &OwnedFd)>> {
        let open = match self.open.take() {
            Some(open) => open,
            None => self.open_again(system)?,
        };
        let open = self.open.insert(open);
        if self.names.is_empty() {
            let mut entries = RawDir::new(&*open, buffer);
            while let Some(entry) = entries.next() {
                let entry = entry?;
                self.next = entry.next_entry_cookie();
                let name = entry.file_name().to_bytes();
                if name != b"." && name != b".." {
                    self.names.push(name.to_vec());
                }
                if entries.is_buffer_empty() && !self.names.is_empty() {
                    break;
                }
            }
        }
        Ok(self.names.pop().map(|name| (name, &self.folder, &*open)))
    }

    /// Opens the folder where its names go on.
    fn open_again(&self, system: &Descent) -> io::Result<OwnedFd> {
        let folder = open_folder(&*system.folder(&self.folder.place)?, b".", OFlags::RDONLY)?;
        if !is_same(&fs::fstat(&folder)?, &self.folder.stat) {
            return Err(io::Error::other("the folder was replaced by another one"));
        }
        if self.next > 0 {
            fs::seek(&folder, SeekFrom::Start(self.next))?;
        }
        Ok(folder)
    }
}

impl Walk {
    /// Checks the paths and the patterns.
    ///
    /// A path keeps its last name. `.`, `..` and `/` stand for their contents.
    ///
    /// # Errors
    ///
    /// If a path does not exist, leads through a link of another user, two have the same last name,
    /// or a pattern is invalid.
    pub fn new(paths: &[PathBuf], choice: Choice) -> Result<Self> {
        let system = Descent::system().map_err(Error::file("/", "cannot open"))?;
        let mut names = HashSet::new();
        let mut roots = Vec::new();
        for path in paths {
            // A link that the user names stands for where it leads.
            let found =
                system.named(path, None).and_then(|place| Ok((system.look(&place)?, place)));
            let (stat, place) = found.map_err(Error::file(path, "cannot send"))?;
            if let Some(special) = special(&stat) {
                return Err(Error::Input(format!(
                    "{}: is {special}, and only files, folders and links can be sent",
                    shown(path),
                )));
            }
            let name = path.file_name().map(|name| name.as_bytes().to_vec()).unwrap_or_default();
            if !name.is_empty() && !names.insert(name.clone()) {
                return Err(Error::Input(format!(
                    "{}: two paths have this last name, and would meet at the receiver: send them one \
                     after the other",
                    shown(path)
                )));
            }
            roots.push(Root { place, name });
        }
        Ok(Walk {
            system: Arc::new(system),
            roots,
            links: choice.links,
            excluded: excluded(choice)?,
        })
    }

    /// The system in which the entries are found.
    pub(crate) fn system(&self) -> &Arc<Descent> {
        &self.system
    }

    /// Visits the entries, each folder before its contents, until `visit` returns false. It keeps
    /// none of them, so that any number of entries needs the same memory.
    pub fn run(&self, visit: &mut dyn FnMut(Found) -> bool) {
        // An earlier walk may be long ago.
        self.system.forget();
        for root in &self.roots {
            if !self.walk(root, visit) {
                return;
            }
        }
    }

    fn walk(&self, root: &Root, visit: &mut dyn FnMut(Found) -> bool) -> bool {
        let mut levels: Vec<Level> = Vec::new();
        let mut buffer = vec![MaybeUninit::uninit(); READ];
        let mut seen = Some(match self.system.look(&root.place) {
            Ok(stat) => {
                Ok(Seen { place: root.place.clone(), below: Vec::new(), stat, target: Vec::new() })
            }
            Err(error) => Err(Found::Failed(absolute(&root.place), error.to_string())),
        });
        loop {
            let goes_on = match seen.take() {
                Some(Ok(seen)) => self.enter(root, seen, &mut levels, visit),
                Some(Err(remark)) => visit(remark),
                None => true,
            };
            let Some(level) = levels.last_mut().filter(|_| goes_on) else { return goes_on };
            match level.next(&self.system, &mut buffer) {
                Ok(Some((name, folder, open))) => {
                    let next = self.see(root, folder, open, &name);
                    let is_folder = next.as_ref().is_ok_and(Seen::is_folder);
                    let below = join(&folder.below, &name);
                    if !self.excluded.matched(&*text(&below), is_folder).is_ignore() {
                        seen = Some(next);
                    }
                }
                Ok(None) => drop(levels.pop()),
                Err(error) => {
                    let place = absolute(&level.folder.place);
                    seen = Some(Err(Found::Failed(place, error.to_string())));
                    levels.pop();
                }
            }
        }
    }

    /// Looks at an entry of an open folder, or at what a link that is followed leads to.
    fn see(&self, root: &Root, level: &Seen, folder: &OwnedFd, name: &[u8]) -> Result<Seen, Found> {
        let (place, below) = (join(&level.place, name), join(&level.below, name));
        let failed = |error: io::Error| Found::Failed(absolute(&place), error.to_string());
        let look = |name| Ok(fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?);
        let stat = look(name).map_err(failed)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink || self.links == Links::Skip {
            return Ok(Seen { place, below, stat, target: Vec::new() });
        }
        if self.links == Links::Keep {
            let target = fs::readlinkat(folder, name, Vec::new());
            let target = target.map_err(|error| failed(error.into()))?.into_bytes();
            return Ok(Seen { place, below, stat, target });
        }
        let end = self.system.resolve(&root.place, &level.place, name, None, |_| true);
        let Some(end) = end.map_err(failed)? else {
            return Err(Found::SkippedLink(absolute(&place), "the link leads out of the folder"));
        };
        let stat = self.system.look(&end).map_err(failed)?;
        Ok(Seen { place: end, below, stat, target: Vec::new() })
    }

    /// Tells of an entry, and goes into it if it is a folder.
    fn enter(
        &self,
        root: &Root,
        seen: Seen,
        levels: &mut Vec<Level>,
        visit: &mut dyn FnMut(Found) -> bool,
    ) -> bool {
        let (is_folder, is_contents) =
            (seen.is_folder(), seen.below.is_empty() && root.name.is_empty());
        if is_folder && levels.iter().any(|level| is_same(&level.folder.stat, &seen.stat)) {
            let why = "the link leads to a folder in which it is".to_owned();
            return visit(Found::Failed(absolute(&seen.place), why));
        }
        if !is_contents {
            let found = self.found(root, &seen);
            let is_sent = matches!(found, Found::Entry(_));
            if !visit(found) {
                return false;
            }
            if !is_sent {
                return true;
            }
        }
        if is_folder {
            levels.push(Level { folder: seen, open: None, next: 0, names: Vec::new() });
            if let Some(far) = levels.len().checked_sub(OPEN) {
                levels[far].open = None;
            }
        }
        true
    }

    fn found(&self, root: &Root, seen: &Seen) -> Found {
        let Seen { place, below, stat, target } = seen;
        let skipped = |why| Found::Skipped(absolute(place), why);
        let name = if below.is_empty() { root.name.clone() } else { join(&root.name, below) };
        let name = match RelPath::parse(&name) {
            Ok(name) => name,
            Err(why) if is_temporary(split(&name).1) => return skipped(why),
            Err(why) => return Found::Failed(absolute(place), why.to_owned()),
        };
        let skipped_link = |why| Found::SkippedLink(absolute(place), why);
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Kind::Folder,
            FileType::Symlink if self.links == Links::Skip => return skipped_link("it is a link"),
            FileType::Symlink => {
                // The folder that is sent has to contain the link, not only the receiver's.
                match RelPath::parse(below).and_then(|place| check_link(&place, target)) {
                    Ok(()) => Kind::Link { target: target.clone() },
                    Err(why) => return skipped_link(why),
                }
            }
            _ => match (file_kind(stat), special(stat)) {
                (Some(kind), _) => kind,
                (None, special) => return skipped(special.unwrap_or("a device")),
            },
        };
        Found::Entry(Source::new(place, name, kind, stat))
    }
}

fn is_same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

/// Kind of a regular file; `None` for others.
fn file_kind(stat: &Stat) -> Option<Kind> {
    // Neither is negative.
    let (size, space) = (stat.st_size as u64, (stat.st_blocks as u64).saturating_mul(512));
    (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
        .then_some(Kind::File { size, space })
}

/// Words for what cannot be sent.
fn special(stat: &Stat) -> Option<&'static str> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile | FileType::Directory | FileType::Symlink => None,
        FileType::Fifo => Some("a FIFO"),
        FileType::Socket => Some("a socket"),
        _ => Some("a device"),
    }
}

/// Patterns of entries to leave out below each root: those of files first. The last one that
/// matches decides.
fn excluded(choice: Choice) -> Result<Gitignore> {
    // Paths below the root are matched.
    let mut patterns = GitignoreBuilder::new(".");
    patterns.allow_unclosed_class(false);
    for path in choice.exclude_from {
        let file = open_named(&path).map_err(Error::file(&path, "cannot open"))?;
        let mut bytes = Vec::new();
        file.take(MAX_PATTERNS + 1)
            .read_to_end(&mut bytes)
            .map_err(Error::file(&path, "cannot read"))?;
        if bytes.len() as u64 > MAX_PATTERNS {
            return Err(Error::Input(format!(
                "--exclude-from: {}: has more than {} MiB of patterns",
                shown(&path),
                MAX_PATTERNS >> 20
            )));
        }
        let lines = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        for (index, line) in lines.split(|byte| *byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            patterns.add_line(None, &text(line)).map_err(|error| {
                Error::Input(format!("--exclude-from: {}:{}: {error}", shown(&path), index + 1))
            })?;
        }
    }
    for pattern in choice.exclude {
        let pattern = text(pattern.as_bytes());
        patterns.add_line(None, &pattern).map_err(|error| {
            Error::Input(format!("--exclude `{}`: {error}", pattern.escape_debug()))
        })?;
    }
    patterns.build().map_err(|error| Error::Input(format!("--exclude: {error}")))
}

/// Names and patterns as the text that the matcher wants: a byte that is not UTF-8 is a character
/// for private use.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        let private = |byte: &u8| char::from_u32(0x10_fe00 + u32::from(*byte));
        text.extend(chunk.invalid().iter().filter_map(private));
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(walk: &Walk) -> Vec<String> {
        let mut names = Vec::new();
        walk.run(&mut |found| {
            names.push(match found {
                Found::Entry(source) => String::from_utf8_lossy(source.name.bytes()).into_owned(),
                Found::SkippedLink(path, why) | Found::Skipped(path, why) => {
                    format!("skipped {} {why}", path.display())
                }
                Found::Failed(path, why) => format!("failed {} {why}", path.display()),
            });
            true
        });
        names.sort();
        names
    }

    /// Each folder has more names than are read at once.
    #[test]
    fn a_deep_tree_is_visited_whole_with_few_open_folders() {
        let home = tempfile::tempdir().expect("a folder");
        let mut expected = vec!["t".to_owned()];
        let mut at = "t".to_owned();
        std::fs::create_dir(home.path().join(&at)).expect("made");
        for _ in 0..2 * OPEN {
            for index in 0..60 {
                let name = format!("{at}/{index:0>200}");
                std::fs::write(home.path().join(&name), b"").expect("written");
                expected.push(name);
            }
            at.push_str("/d");
            std::fs::create_dir(home.path().join(&at)).expect("made");
            expected.push(at.clone());
        }
        expected.sort();
        let walk = Walk::new(&[home.path().join("t")], Choice::default()).expect("a walk");
        let open = || std::fs::read_dir("/proc/self/fd").expect("a list").count();
        let (before, mut most) = (open(), 0);
        walk.run(&mut |found| {
            if matches!(found, Found::Entry(Source { kind: Kind::Folder, .. })) {
                most = most.max(open());
            }
            true
        });
        // Other tests open files too.
        assert!(most < before + 128 + OPEN + 100, "{most} open, {before} before");
        assert!(names(&walk) == expected);
    }

    #[test]
    fn links_are_followed_in_the_folder_only() {
        let home = tempfile::tempdir().expect("a folder");
        let at = |name: &str| home.path().join(name);
        for folder in ["t/a/b", "t-near"] {
            std::fs::create_dir_all(at(folder)).expect("made");
        }
        std::fs::write(at("t/a/b/file"), b"").expect("written");
        std::fs::write(at("t-near/file"), b"").expect("written");
        let real = home.path().canonicalize().expect("there");
        let inside = real.join("t/a/b/file").display().to_string();
        let near = real.join("t-near/file").display().to_string();
        for (name, target) in [
            ("l1", "a/b/file"),
            ("l2", &inside),
            ("a/l3", "../a/./b//file"),
            ("l4", "a/l3"),
            ("l5", "a/b/../b/file"),
            ("out1", "/etc/passwd"),
            ("out2", &near),
            ("out3", "../t-near/file"),
            ("a/out4", "../../t/a/b/file"),
            ("bad1", "nowhere"),
            ("bad2", "bad2"),
            ("a/b/loop", "../../a"),
        ] {
            symlink(target, at("t").join(name)).expect("linked");
        }
        let choice = Choice { links: Links::Follow, ..Choice::default() };
        let walk = Walk::new(&[at("t")], choice).expect("a walk");
        let top = real.join("t").display().to_string();
        let found: Vec<String> = names(&walk).iter().map(|name| name.replace(&top, "T")).collect();
        let expected = [
            "failed T/a the link leads to a folder in which it is",
            "failed T/bad1 No such file or directory (os error 2)",
            "failed T/bad2 Too many levels of symbolic links (os error 40)",
            "skipped T/a/out4 the link leads out of the folder",
            "skipped T/out1 the link leads out of the folder",
            "skipped T/out2 the link leads out of the folder",
            "skipped T/out3 the link leads out of the folder",
        ];
        let files = ["t", "t/a", "t/a/b", "t/a/b/file", "t/a/l3", "t/l1", "t/l2", "t/l4", "t/l5"];
        assert_eq!(found, [&expected[..], &files[..]].concat());
    }

    /// Names and patterns need not be UTF-8.
    #[test]
    fn patterns_match_any_bytes() {
        let home = tempfile::tempdir().expect("a folder");
        let at = |name: &[u8]| home.path().join(std::ffi::OsStr::from_bytes(name));
        std::fs::create_dir(at(b"t\xff")).expect("made");
        for name in [&b"t\xff/a\xfe.tmp"[..], b"t\xff/b\xfe", b"t\xff/b\xfd", b"t\xff/\xc3\xbc"] {
            std::fs::write(at(name), b"").expect("written");
        }
        std::fs::write(at(b"list\xff"), b"\xef\xbb\xbf\xc3\xbc\r\n# a comment \xff\n")
            .expect("written");
        let excludes: [&[u8]; 2] = [b"a\xfe*", b"/b\xfe"];
        let choice = Choice {
            exclude: excludes
                .iter()
                .map(|bytes| std::ffi::OsStr::from_bytes(bytes).into())
                .collect(),
            exclude_from: vec![at(b"list\xff")],
            ..Choice::default()
        };
        let walk = Walk::new(&[at(b"t\xff")], choice).expect("a walk");
        let mut names = Vec::new();
        walk.run(&mut |found| {
            if let Found::Entry(source) = found {
                names.push(source.name.bytes().to_vec());
            }
            true
        });
        names.sort();
        assert_eq!(names, [&b"t\xff"[..], b"t\xff/b\xfd"]);
    }

    /// Somebody else's link may be changed at any time, also before it is looked at.
    #[test]
    fn a_path_of_the_user_leads_through_no_link_of_others() {
        let home = tempfile::tempdir().expect("a folder");
        let at = |name: &str| home.path().join(name);
        std::fs::create_dir(at("d")).expect("made");
        std::fs::write(at("d/file"), b"x").expect("written");
        symlink("d", at("link")).expect("linked");
        let open = |name: &str| Walk::new(&[at(name)], Choice::default()).map(|_| ());
        open("link").expect("the user's own link");
        open("link/file").expect("the user's own link");
        if std::os::unix::fs::lchown(at("link"), Some(65534), None).is_err() {
            eprintln!("not tested: only root can give a link away");
            return;
        }
        for path in ["link", "link/file"] {
            let error = open(path).expect_err("another's link").to_string();
            assert!(error.contains("`link` is a link of another user (uid 65534)"), "{error}");
        }
        let patterns = Choice { exclude_from: vec![at("link/file")], ..Choice::default() };
        assert!(Walk::new(&[at("d")], patterns).is_err());
        assert!(crate::transfer::folder::Folder::open(&at("link/new"), false).is_err());
        assert!(!at("d/new").exists());
        assert!(crate::identity::make_private_directory(&at("link/new")).is_err());
        assert!(crate::Identity::from_files(&at("link/file"), &at("link/file")).is_err());
    }
}
