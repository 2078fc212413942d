//! Blocks of a file and their BLAKE3 hashes.
//!
//! A block is a subtree of BLAKE3's hash tree, so that the hashes of the blocks (chaining values)
//! give the hash of the file: the one that `b3sum` prints. A file of one block has that hash alone.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use blake3::hazmat::{
    ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root,
};

/// Smallest size of a block, bytes. Files up to it are sent whole.
pub const LEAST_BLOCK: u64 = 256 << 10;
/// Largest number of blocks of a file: their hashes need 1 MB.
pub const MAX_BLOCKS: u64 = 1 << 15;
/// Largest size of a file, bytes: what Linux can address.
pub const MAX_SIZE: u64 = i64::MAX as u64;

/// Hash of a block or a file.
pub type Hash = [u8; 32];

/// In place of the hash of a block that the receiver does not have. No block has this hash.
pub const ABSENT: Hash = [0; 32];

/// Division of a file into blocks. It depends on the size alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocks {
    /// Size of the file, bytes.
    pub size: u64,
    /// Size of each block but the last, bytes: a power of two.
    pub block: u64,
}

impl Blocks {
    /// Division of a file of this size.
    pub fn of(size: u64) -> Self {
        let mut block = LEAST_BLOCK;
        while size.div_ceil(block) > MAX_BLOCKS {
            block *= 2;
        }
        Blocks { size, block }
    }

    /// Number of blocks; one for an empty file.
    pub fn count(&self) -> u32 {
        // At most MAX_BLOCKS.
        self.size.div_ceil(self.block).max(1) as u32
    }

    /// Bytes that all its frames have at most, with their headers and hashes, if each is sent once
    /// and the parts of blocks are as long as possible.
    pub fn most_frames(&self) -> u64 {
        const OVERHEAD: u64 = 64;
        let frames = self.size / LEAST_BLOCK + 2 * (u64::from(self.count()) + 1);
        self.size.saturating_add(frames * OVERHEAD)
    }

    /// True if the file is one block.
    pub fn is_single(&self) -> bool {
        self.count() == 1
    }

    /// First byte of a block.
    pub fn start(&self, index: u32) -> u64 {
        u64::from(index) * self.block
    }

    /// Length of a block, bytes.
    pub fn len(&self, index: u32) -> u64 {
        self.size.saturating_sub(self.start(index)).min(self.block)
    }

    /// A hasher for the bytes of a block of a file with several.
    pub fn hasher(&self, index: u32) -> blake3::Hasher {
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset(self.start(index));
        hasher
    }

    /// Hash of a block that is read from a file, or of the whole file if it is one block. `go_on`
    /// is asked before each read.
    pub fn read(
        &self,
        file: &File,
        index: u32,
        mut go_on: impl FnMut() -> io::Result<()>,
    ) -> io::Result<Hash> {
        let is_single = self.is_single();
        let mut hasher = if is_single { blake3::Hasher::new() } else { self.hasher(index) };
        let (mut at, mut left) = (self.start(index), self.len(index));
        let mut buffer = vec![0; left.min(LEAST_BLOCK) as usize];
        while left > 0 {
            go_on()?;
            let bytes = &mut buffer[..left.min(LEAST_BLOCK) as usize];
            file.read_exact_at(bytes, at)?;
            hasher.update(bytes);
            at += bytes.len() as u64;
            left -= bytes.len() as u64;
        }
        Ok(if is_single { *hasher.finalize().as_bytes() } else { Blocks::finish(&hasher) })
    }

    /// Hash of a block from its hasher, of a file with several.
    pub fn finish(hasher: &blake3::Hasher) -> Hash {
        hasher.finalize_non_root()
    }

    /// Hash of a file with several blocks from their hashes.
    pub fn root(hashes: &[Hash]) -> Hash {
        let (left, right) = hashes.split_at(left_half(hashes.len()));
        *merge_subtrees_root(&merge(left), &merge(right), Mode::Hash).as_bytes()
    }
}

/// The largest power of two below a number of blocks: the left subtree is complete.
fn left_half(count: usize) -> usize {
    debug_assert!(count > 1, "a tree of one block has no halves");
    count.next_power_of_two() / 2
}

fn merge(hashes: &[Hash]) -> ChainingValue {
    if let [hash] = hashes {
        return *hash;
    }
    let (left, right) = hashes.split_at(left_half(hashes.len()));
    merge_subtrees_non_root(&merge(left), &merge(right), Mode::Hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected value is `blake3::hash`, which knows nothing of blocks.
    #[test]
    fn block_hashes_give_the_hash_of_the_file() {
        for size in [2, 3, 4, 5, 7, 8, 9, 16].map(|blocks| blocks * LEAST_BLOCK - 1) {
            for size in [size - 1024, size, size + 1] {
                let data: Vec<u8> = (0..size).map(|i| ((i * i) >> 7) as u8).collect();
                let blocks = Blocks::of(size);
                let hashes: Vec<Hash> = (0..blocks.count())
                    .map(|index| {
                        let start = blocks.start(index) as usize;
                        let end = start + blocks.len(index) as usize;
                        let mut hasher = blocks.hasher(index);
                        hasher.update(&data[start..end]);
                        Blocks::finish(&hasher)
                    })
                    .collect();
                assert_eq!(Blocks::root(&hashes), *blake3::hash(&data).as_bytes(), "{size}");
            }
        }
    }

    #[test]
    fn any_size_has_few_blocks() {
        for size in [0, 1, LEAST_BLOCK, LEAST_BLOCK + 1, 1 << 33, (1 << 33) + 1, 1 << 60, MAX_SIZE]
        {
            let blocks = Blocks::of(size);
            assert!(
                blocks.block.is_power_of_two() && u64::from(blocks.count()) <= MAX_BLOCKS,
                "{size}"
            );
            let last = blocks.count() - 1;
            assert_eq!(blocks.start(last) + blocks.len(last), size);
        }
        assert!(Blocks::of(0).is_single() && Blocks::of(LEAST_BLOCK).is_single());
        assert_eq!(Blocks::of(LEAST_BLOCK + 1).count(), 2);
    }
}
