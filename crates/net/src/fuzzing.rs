//! Entries for fuzz targets into parsers that are nobody else's business. Compiled with `--cfg fuzzing` alone.

use crate::headers::{look, write_back};

#[cfg(target_os = "linux")]
pub use crate::perf::fuzzing::frames;

/// An IP packet: what is read of it is written back to the same bytes.
///
/// # Panics
/// If it is not.
pub fn headers(bytes: &[u8]) {
    let Some(view) = look(bytes, 7) else { return };
    assert!(view.looked_at <= bytes.len() && view.length as usize <= bytes.len());
    if let Some((packet, _)) = view.ours {
        let mut copy = bytes.to_vec();
        write_back(&mut copy, &packet, crate::headers::codepoint(bytes));
        assert_eq!(copy, bytes);
    }
}
