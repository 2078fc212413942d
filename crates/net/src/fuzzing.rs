//! Entry points for fuzz targets into private parsers. Compiled with `--cfg fuzzing` only.

use crate::headers::{look, write_back};

#[cfg(target_os = "linux")]
pub use crate::perf::fuzzing::frames;

/// Reads an IP packet, and checks that it is written back unchanged.
///
/// # Panics
/// If the bytes change.
pub fn headers(bytes: &[u8]) {
    let Some(view) = look(bytes, 7) else { return };
    assert!(view.looked_at <= bytes.len() && view.length as usize <= bytes.len());
    if let Some((packet, _)) = view.ours {
        let mut copy = bytes.to_vec();
        write_back(&mut copy, &packet, crate::headers::codepoint(bytes));
        assert_eq!(copy, bytes);
    }
}
