//! Random numbers for stacks, from the seed of the connection.

use windward_core::rng::Stream;

/// Bytes of a stream of randomness.
pub(crate) fn fill(stream: &mut Stream, bytes: &mut [u8]) {
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&stream.bits().to_le_bytes()[..chunk.len()]);
    }
}

/// Bytes for one purpose, by a name.
pub(crate) fn bytes<const N: usize>(seed: u64, purpose: &str) -> [u8; N] {
    let mut bytes = [0; N];
    fill(&mut Stream::new(seed, "stack", purpose), &mut bytes);
    bytes
}

/// A keyed hash that is not secure.
pub(crate) fn signature(key: u64, data: &[u8], out: &mut [u8]) {
    let hash = data.iter().fold(key ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    fill(&mut Stream::new(hash, "stack", "signature"), out);
}
