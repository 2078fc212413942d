//! Errors of deployment: what is wrong, where, and what to do.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of an endpoint, of a transfer or of a forwarder.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An argument, a ticket or a file of the user is invalid.
    #[error("{0}")]
    Input(String),
    /// The system refuses an operation on a file.
    #[error("{}: {verb}: {error}", shown(path))]
    File {
        /// File or folder.
        path: PathBuf,
        /// Failed operation, such as `cannot open`.
        verb: &'static str,
        /// Answer of the system.
        error: io::Error,
    },
    /// The system refuses an operation on a socket.
    #[error("{what}: {error}")]
    Socket {
        /// Failed operation, with the address.
        what: String,
        /// Answer of the system.
        error: io::Error,
    },
    /// The peer cannot be reached, or the connection is lost. A new attempt may succeed.
    #[error("{0}")]
    Unreachable(String),
    /// The peer refuses for now, with its reason. A later attempt may succeed.
    #[error("{0}")]
    Busy(String),
    /// The peer refuses, with its reason. A new attempt will not succeed.
    #[error("{0}")]
    Refused(String),
    /// The peer is not the expected one, or violates the protocol.
    #[error("{0}")]
    Peer(String),
    /// Something of a transfer could not be stored: so many entries.
    #[error(
        "{0} {were} not stored; run the same two commands again for what is missing",
        were = if *.0 == 1 { "entry was" } else { "entries were" }
    )]
    Incomplete(u64),
    /// The user ended the work.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// Returns a function that adds a path and a verb to an error of the system.
    pub(crate) fn file(
        path: impl AsRef<Path>,
        verb: &'static str,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |error| Error::File { path, verb, error }
    }

    /// True if a new connection may succeed where this one failed.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Error::Unreachable(_) | Error::Busy(_))
    }

    /// The application error code with which a peer is told of this error.
    pub(crate) fn code(&self) -> u64 {
        if self.is_temporary() { BUSY } else { REFUSED }
    }
}

/// A path in a message, on one line: names may have control characters, newlines, and bytes that
/// are not UTF-8, which are escaped.
pub fn shown(path: &Path) -> String {
    let mut line = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        line.push_str(&one_line(chunk.valid()));
        line.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    line
}

/// Some text with its control characters escaped, newlines among them.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { line.extend(c.escape_default()) } else { line.push(c) }
    }
    line
}

impl From<quinn::ConnectionError> for Error {
    fn from(error: quinn::ConnectionError) -> Self {
        use quinn::ConnectionError as E;
        /// Codes of QUIC for alerts of TLS are 0x100 + alert (RFC 9001 section 4.8).
        const NO_APPLICATION_PROTOCOL: u64 = 0x100 + 120;
        match error {
            E::ApplicationClosed(close) => {
                let reason = one_line(&String::from_utf8_lossy(&close.reason));
                match close.error_code.into_inner() {
                    REFUSED => Error::Refused(reason),
                    BUSY => Error::Busy(reason),
                    _ => Error::Unreachable(format!("the peer closed the connection: {reason}")),
                }
            }
            E::ConnectionClosed(close)
                if u64::from(close.error_code) == NO_APPLICATION_PROTOCOL =>
            {
                Error::Refused(
                    "the peer does not offer this service, or another version of it: a ticket of \
                     `windward receive` is for `windward send`, one of `windward serve` for `windward \
                     forward`, and both sides need the same version"
                        .to_owned(),
                )
            }
            E::TransportError(error) if u64::from(error.code) & !0xff == 0x100 => {
                // rustls puts this before the words of our own check.
                let own = error.reason.strip_prefix("unexpected error: ");
                Error::Peer(one_line(own.unwrap_or(&error.reason)))
            }
            E::VersionMismatch => {
                Error::Refused("the peer has no common version of QUIC".to_owned())
            }
            E::TimedOut => Error::Unreachable("the peer does not answer".to_owned()),
            other => Error::Unreachable(other.to_string()),
        }
    }
}

/// Application error code of a peer that refuses, with its reason.
pub const REFUSED: u64 = 1;
/// Application error code of a peer that refuses for now, with its reason.
pub const BUSY: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_says_is_one_line() {
        // An escape sequence that would clear a terminal, and a line that looks like one of ours.
        let said = "bad\u{1b}[2J\r\nerror: none\u{7f} \u{fc}";
        assert_eq!(one_line(said), "bad\\u{1b}[2J\\r\\nerror: none\\u{7f} \u{fc}");
        assert_eq!(shown(Path::new("a\nb")), "a\\nb");
        let bytes = std::ffi::OsStr::from_bytes(b"\xc3\xbc\xff\xfe");
        assert_eq!(shown(Path::new(bytes)), "\u{fc}\\xff\\xfe");
        let error = Error::file(Path::new("a\nb"), "cannot open")(io::ErrorKind::NotFound.into());
        assert_eq!(error.to_string(), "a\\nb: cannot open: entity not found");
    }
}
