//! Contents of files as frames. Nothing here waits for the network.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use rustix::buffer::spare_capacity;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::transfer::blocks::{Blocks, Hash};
use crate::transfer::walk::{Links, Source, properties};
use crate::transfer::wire::{Frame, Kind, MAX_FRAME, Part};

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
pub(crate) fn open(source: &Source, links: Links) -> Result<File, Unsent> {
    let mut flags = OFlags::NONBLOCK;
    if links != Links::Follow {
        flags |= OFlags::NOFOLLOW;
    }
    // The bits of the kernel, as the standard library takes them.
    let file =
        OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(&source.path)?;
    check(source, &file)?;
    Ok(file)
}

/// Checks that a file still has the size and time that were offered.
pub(crate) fn check(source: &Source, file: &File) -> Result<(), Unsent> {
    let metadata = file.metadata()?;
    if is_as_offered(source, &metadata) { Ok(()) } else { Err(Unsent::Changed) }
}

fn is_as_offered(source: &Source, metadata: &Metadata) -> bool {
    let size = match source.kind {
        Kind::File { size, .. } => size,
        _ => return false,
    };
    metadata.is_file() && metadata.len() == size && properties(metadata).1 == source.changed
}

/// Appends a file of one block to a buffer, with its hash. An error leaves the buffer as it was.
pub(crate) fn whole(
    id: u64,
    source: &Source,
    size: u64,
    links: Links,
    buffer: &mut Vec<u8>,
) -> Result<Hash, Unsent> {
    let from = buffer.len();
    let read = || -> Result<Hash, Unsent> {
        let file = open(source, links)?;
        Frame { id, part: Part::Whole(size) }.put(buffer);
        let at = buffer.len();
        append(&file, 0, size as usize, buffer)?;
        check(source, &file)?;
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
pub(crate) fn hash_whole(source: &Source, size: u64, links: Links) -> Result<Hash, Unsent> {
    whole(0, source, size, links, &mut Vec::new())
}

/// Reads a part of a block into frames: its bytes, or none if they are all zero.
pub(crate) fn part(
    id: u64,
    file: &File,
    offset: u64,
    length: u64,
    hasher: &mut blake3::Hasher,
) -> Result<Vec<u8>, Unsent> {
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
    }
    Ok(buffer)
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

/// Hash of one block of a file with several.
pub(crate) fn hash_block(file: &File, blocks: Blocks, index: u32) -> Result<Hash, Unsent> {
    let mut hasher = blocks.hasher(index);
    let mut buffer = vec![0; MAX_FRAME.min(blocks.len(index)) as usize];
    let (mut at, mut left) = (blocks.start(index), blocks.len(index));
    while left > 0 {
        let bytes = &mut buffer[..left.min(MAX_FRAME) as usize];
        file.read_exact_at(bytes, at)?;
        hasher.update(bytes);
        at += bytes.len() as u64;
        left -= bytes.len() as u64;
    }
    Ok(Blocks::finish(&hasher))
}
