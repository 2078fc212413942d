//! Text files of users, read with a size limit, so that a device without end is an error and not a
//! hang.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Maximum size of settings, tables and experiments, bytes. Files written by hand are far smaller.
pub const LARGEST_SETTINGS: u64 = 4 << 20;

/// Reads a file of UTF-8 text, of at most `largest` bytes.
///
/// # Errors
/// If the system does not let it, the file is larger ([`ErrorKind::FileTooLarge`]) or it is not
/// UTF-8 ([`ErrorKind::InvalidData`]).
pub fn read_text(path: &Path, largest: u64) -> io::Result<String> {
    text(read(File::open(path)?, largest)?)
}

/// Reads all of `source`, of at most `largest` bytes.
///
/// # Errors
/// Errors of `source`, and [`ErrorKind::FileTooLarge`].
pub fn read(source: impl Read, largest: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(largest.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > largest {
        let message = match largest >> 20 {
            0 => format!("it is larger than {} KiB", largest >> 10),
            mebibytes => format!("it is larger than {mebibytes} MiB"),
        };
        return Err(io::Error::new(ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_larger_than_the_limit_is_refused_and_what_is_as_large_is_read() {
        assert_eq!(read(&b"12345"[..], 5).unwrap(), b"12345");
        let error = read(&b"123456"[..], 5).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        // A source without end.
        let error = read(io::repeat(b'x'), 2 << 20).unwrap_err();
        assert_eq!(error.to_string(), "it is larger than 2 MiB");
    }

    #[test]
    fn text_is_utf_8() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("x");
        std::fs::write(&path, b"\xff").unwrap();
        assert_eq!(read_text(&path, 9).unwrap_err().kind(), ErrorKind::InvalidData);
        std::fs::write(&path, "é").unwrap();
        assert_eq!(read_text(&path, 9).unwrap(), "é");
    }
}
