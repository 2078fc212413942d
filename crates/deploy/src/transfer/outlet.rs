//! Contents of files as frames. Nothing here waits for the network.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::buffer::spare_capacity;
use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::descent::Descent;
use crate::transfer::blocks::{Blocks, Hash};
use crate::transfer::walk::Source;
use crate::transfer::wire::{Frame, MAX_FRAME, Part};

/// Reason why a file is not sent as it was offered.
#[derive(Debug)]
pub(crate) enum Unsent {
    /// It changed since it was offered.
    Changed,
    /// It cannot be read.
    Failed(io::Error),
}

impl From<io::Error> for Unsent {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // Shorter than offered.
            io::ErrorKind::UnexpectedEof => Unsent::Changed,
            _ => Unsent::Failed(error),
        }
    }
}

/// Opens the file of an entry, if it is still the one that was offered.
pub(crate) fn open(source: &Source, system: &Descent) -> Result<File, Unsent> {
    let file = system.open(source.place())?;
    check(source, &file)?;
    // Without this, it would arrive empty.
    if source.size() == 0 && file.read_at(&mut [0], 0)? > 0 {
        return Err(unsized_file());
    }
    Ok(file)
}

/// As in `/proc` and `/sys`.
fn unsized_file() -> Unsent {
    Unsent::Failed(io::Error::other("it does not have the size that the system says: send a copy"))
}

/// Checks that a file is still as it was offered.
pub(crate) fn check(source: &Source, file: &File) -> Result<(), Unsent> {
    if source.is(file)? { Ok(()) } else { Err(Unsent::Changed) }
}

/// Appends a file of one block to a buffer, with its hash. An error leaves the buffer as it was.
pub(crate) fn whole(
    id: u64,
    source: &Source,
    size: u64,
    system: &Descent,
    buffer: &mut Vec<u8>,
) -> Result<Hash, Unsent> {
    let from = buffer.len();
    let read = || -> Result<Hash, Unsent> {
        let file = open(source, system)?;
        Frame { id, part: Part::Whole(size) }.put(buffer);
        let at = buffer.len();
        let read = append(&file, 0, size as usize, buffer);
        check(source, &file)?;
        read.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => unsized_file(),
            _ => error.into(),
        })?;
        let hash = *blake3::hash(&buffer[at..]).as_bytes();
        buffer.extend_from_slice(&hash);
        Ok(hash)
    };
    let mut read = read;
    let outcome = read();
    if outcome.is_err() {
        buffer.truncate(from);
    }
    outcome
}

/// Hash of a file of one block.
pub(crate) fn hash_whole(source: &Source, size: u64, system: &Descent) -> Result<Hash, Unsent> {
    whole(0, source, size, system, &mut Vec::new())
}

/// Reads a part of a block into a frame: its bytes, or none if they are all zero. Also the number
/// of its bytes.
pub(crate) fn part(
    id: u64,
    file: &File,
    offset: u64,
    length: u64,
    hasher: &mut blake3::Hasher,
) -> Result<(Vec<u8>, u64), Unsent> {
    debug_assert!(length <= MAX_FRAME, "a frame of {length} bytes");
    let mut buffer = Vec::with_capacity(length as usize + 64);
    Frame { id, part: Part::Data(offset, length) }.put(&mut buffer);
    let at = buffer.len();
    append(file, offset, length as usize, &mut buffer)?;
    hasher.update(&buffer[at..]);
    if buffer[at..].iter().all(|byte| *byte == 0) {
        buffer.clear();
        Frame { id, part: Part::Zeros(offset, length) }.put(&mut buffer);
        buffer.shrink_to_fit();
        return Ok((buffer, 0));
    }
    Ok((buffer, length))
}

/// Number of bytes of a block that would be sent: parts that are holes would not.
pub(crate) fn data_in(file: &File, blocks: Blocks, index: u32) -> u64 {
    let (mut at, mut left, mut data) = (blocks.start(index), blocks.len(index), 0);
    while left > 0 {
        let part = left.min(MAX_FRAME);
        let is_hole = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(next) => next >= at + part,
            Err(error) => error == Errno::NXIO,
        };
        data += if is_hole { 0 } else { part };
        at += part;
        left -= part;
    }
    data
}

/// Appends bytes of a file to a buffer, whose memory need not be set before.
fn append(file: &File, offset: u64, length: usize, buffer: &mut Vec<u8>) -> io::Result<()> {
    let begin = buffer.len();
    buffer.reserve_exact(length);
    while buffer.len() < begin + length {
        let read = buffer.len() - begin;
        let at = offset + read as u64;
        match rustix::io::pread(file, spare_capacity(buffer), at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // The allocator may have given more than was asked for.
        buffer.truncate(begin + length);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::transfer::walk::{Choice, Found, Links, Walk};

    const OWN: &[u8] = b"the sender's";
    const SECRET: &[u8] = b"of others !!";

    /// A tree of somebody else, and a file outside with the same name, size and time as one in it.
    struct Trap(tempfile::TempDir);

    impl Trap {
        fn new() -> Self {
            let trap = Trap(tempfile::tempdir().expect("a folder"));
            for (name, contents) in [("tree/d/shadow", OWN), ("out/shadow", SECRET)] {
                let path = trap.at(name);
                fs::create_dir_all(path.parent().expect("a parent")).expect("made");
                fs::write(&path, contents).expect("written");
                let file = File::options().write(true).open(&path).expect("open");
                file.set_modified(std::time::UNIX_EPOCH).expect("set");
            }
            fs::write(trap.at("out/listed"), b"1").expect("written");
            symlink("d/shadow", trap.at("tree/link")).expect("linked");
            symlink("tree", trap.at("root")).expect("linked");
            trap
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        /// Puts a link to what is outside in the place of an entry, if it is still there.
        fn spring(&self, name: &str, target: &str) {
            let (path, away) = (self.at(name), self.at("away"));
            if !path.is_symlink() && fs::rename(&path, &away).is_ok() || path.is_symlink() {
                let _ = fs::remove_file(&path);
                symlink(self.at(target), &path).expect("linked");
            }
        }
    }

    fn read(source: &Source, system: &Descent) -> Option<Vec<u8>> {
        let mut contents = Vec::new();
        open(source, system).ok()?.read_to_end(&mut contents).expect("read");
        Some(contents)
    }

    /// The attack on a sender that runs as root (CVE-2024-12747 was that of rsync): at each moment
    /// of the walk and after it, each entry on the way becomes a link to what is outside.
    #[test]
    fn what_becomes_a_link_is_neither_listed_nor_sent() {
        let swaps =
            [("tree/d", "out"), ("tree/d/shadow", "out/shadow"), ("tree", "."), ("root", "out")]
                .into_iter()
                .chain([("tree/link", "out/shadow")]);
        for (swap, links, root, moment) in swaps.flat_map(|swap| {
            [Links::Keep, Links::Follow, Links::Skip].into_iter().flat_map(move |links| {
                ["tree", "root", "tree/d/shadow", "tree/link"]
                    .into_iter()
                    .flat_map(move |root| (0..6).map(move |moment| (swap, links, root, moment)))
            })
        }) {
            let trap = Trap::new();
            let choice = Choice { links, ..Choice::default() };
            let walk = Walk::new(&[trap.at(root)], choice).expect("a walk");
            let mut seen = 0;
            let mut sources = Vec::new();
            if moment == 0 {
                trap.spring(swap.0, swap.1);
            }
            walk.run(&mut |found| {
                seen += 1;
                if seen == moment {
                    trap.spring(swap.0, swap.1);
                }
                if let Found::Entry(source) = found {
                    sources.push(source);
                }
                true
            });
            trap.spring(swap.0, swap.1);
            for source in sources {
                let at = format!("{swap:?} {links:?} {root} at {moment}: {source:?}");
                assert!(!source.name.bytes().ends_with(b"listed"), "{at}");
                let again = source.again(walk.system()).ok();
                for source in again.iter().chain([&source]) {
                    let contents = read(source, walk.system());
                    assert!(contents.is_none_or(|contents| contents == OWN), "{at}");
                }
            }
        }
    }

    /// They arrived empty, or were said to change.
    #[test]
    fn files_without_their_size_are_no_empty_files() {
        for path in ["/proc/self/status", "/sys/kernel/mm/transparent_hugepage/enabled"] {
            let path = PathBuf::from(path);
            if !path.exists() {
                continue;
            }
            let walk = Walk::new(std::slice::from_ref(&path), Choice::default()).expect("a walk");
            walk.run(&mut |found| {
                let Found::Entry(source) = found else { return true };
                let sent = whole(0, &source, source.size(), walk.system(), &mut Vec::new());
                let Err(Unsent::Failed(error)) = sent else { panic!("{path:?}: {sent:?}") };
                assert!(error.to_string().contains("size"), "{error}");
                true
            });
        }
    }

    /// Also if the size is the same and the time was set back.
    #[test]
    fn a_file_that_was_rewritten_is_noticed() {
        let trap = Trap::new();
        let walk = Walk::new(&[trap.at("tree/d/shadow")], Choice::default()).expect("a walk");
        let mut source = None;
        walk.run(&mut |found| {
            if let Found::Entry(entry) = found {
                source = Some(entry);
            }
            true
        });
        let source = source.expect("found");
        assert_eq!(read(&source, walk.system()).as_deref(), Some(OWN));
        let file = open(&source, walk.system()).expect("open");
        // A change within the same tick of the clock of the file system cannot be seen.
        std::thread::sleep(std::time::Duration::from_millis(20));
        let path: &Path = &trap.at("tree/d/shadow");
        fs::write(path, SECRET).expect("written");
        let other = File::options().write(true).open(path).expect("open");
        other.set_modified(std::time::UNIX_EPOCH).expect("set");
        assert!(matches!(check(&source, &file), Err(Unsent::Changed)));
        assert!(matches!(open(&source, walk.system()), Err(Unsent::Changed)));
    }
}
