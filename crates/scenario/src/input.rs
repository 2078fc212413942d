//! Text files of users, read with a size limit, so that a device without end is an error and not a
//! hang.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Maximum size of settings, tables and experiments, bytes. Files written by hand are far smaller.
pub const LARGEST_SETTINGS: u64 = 4 << 20;

/// Reads a file of [`text`], of at most `largest` bytes.
///
/// # Errors
/// If the system does not let it, the file is larger ([`ErrorKind::FileTooLarge`]) or it is not
/// text ([`ErrorKind::InvalidData`]).
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

/// The format of a file with these first bytes that is not UTF-8 text, and the remedy; `None` if
/// they belong to no known format.
pub fn foreign(start: &[u8]) -> Option<&'static str> {
    Some(match *start {
        [0x1f, 0x8b, ..] => "compressed (gzip): unpack it first",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "compressed (zstd): unpack it first",
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => "compressed (xz): unpack it first",
        // The first block begins with the digits of pi.
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, ..] => {
            "compressed (bzip2): unpack it first"
        }
        [b'P', b'K', 3, 4, ..] => "compressed (zip): unpack it first",
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => "UTF-32 text: save it as UTF-8",
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "UTF-16 text: save it as UTF-8",
        // Two characters of ASCII without a mark before them.
        [1..=0x7f, 0, 1..=0x7f, 0, ..] | [0, 1..=0x7f, 0, 1..=0x7f, ..] => {
            "UTF-16 text: save it as UTF-8"
        }
        _ => return None,
    })
}

/// The text of a file: UTF-8, without the byte order mark that some editors put before it.
///
/// # Errors
/// [`ErrorKind::InvalidData`] if it is something else, with its name.
pub fn text(mut bytes: Vec<u8>) -> io::Result<String> {
    let wrong = |what: String| Err(io::Error::new(ErrorKind::InvalidData, what));
    if let Some(format) = foreign(&bytes) {
        return wrong(format!("it is {format}"));
    }
    if bytes.starts_with(&[0xef, 0xbb, 0xbf]) {
        bytes.drain(..3);
    }
    if let Some(at) = bytes.iter().position(|byte| *byte == 0) {
        return wrong(format!("it is a binary file: byte {at} is zero"));
    }
    String::from_utf8(bytes).or_else(|error| {
        wrong(format!("it is not UTF-8 text: see byte {}", error.utf8_error().valid_up_to()))
    })
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
    fn text_is_utf_8_with_or_without_its_mark() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("x");
        for (bytes, expected) in [
            (&b"\xc3\xa9\r\n"[..], Ok("é\r\n")),
            (b"\xef\xbb\xbf1", Ok("1")),
            (b"\xff\xfe1\0", Err("it is UTF-16 text: save it as UTF-8")),
            (b"\xfe\xff\x001", Err("it is UTF-16 text: save it as UTF-8")),
            (b"\x1f\x8b\x08", Err("it is compressed (gzip): unpack it first")),
            (b"\x28\xb5\x2f\xfd", Err("it is compressed (zstd): unpack it first")),
            (b"\xfd7zXZ\0\0\x04", Err("it is compressed (xz): unpack it first")),
            (b"BZh91AY&S", Err("it is compressed (bzip2): unpack it first")),
            (b"BZh = 1", Ok("BZh = 1")),
            (b"PK\x03\x04\x14\0", Err("it is compressed (zip): unpack it first")),
            (b"\xff\xfe\0\0d\0\0\0", Err("it is UTF-32 text: save it as UTF-8")),
            (b"\0\0\xfe\xff\0\0\0d", Err("it is UTF-32 text: save it as UTF-8")),
            (b"d\0u\0", Err("it is UTF-16 text: save it as UTF-8")),
            (b"\0d\0u", Err("it is UTF-16 text: save it as UTF-8")),
            (b"\x7fELF\0", Err("it is a binary file: byte 4 is zero")),
            (b"12\xff", Err("it is not UTF-8 text: see byte 2")),
        ] {
            std::fs::write(&path, bytes).unwrap();
            let read = read_text(&path, 9).map_err(|error| error.to_string());
            assert_eq!(read.as_deref().map_err(|text| &**text), expected);
        }
    }
}
