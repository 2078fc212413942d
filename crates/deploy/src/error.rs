//! Errors of deployment: what is wrong, where, and what to do.

use std::io;
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
    #[error("{}: {verb}: {error}", path.display())]
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
    /// The peer refuses, with its reason. A new attempt will not succeed.
    #[error("{0}")]
    Refused(String),
    /// The peer is not the expected one, or violates the protocol.
    #[error("{0}")]
    Peer(String),
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
        matches!(self, Error::Unreachable(_))
    }
}

impl From<quinn::ConnectionError> for Error {
    fn from(error: quinn::ConnectionError) -> Self {
        use quinn::ConnectionError as E;
        /// Codes of QUIC for alerts of TLS are 0x100 + alert (RFC 9001 section 4.8).
        const NO_APPLICATION_PROTOCOL: u64 = 0x100 + 120;
        match error {
            E::ApplicationClosed(close) => {
                let reason = String::from_utf8_lossy(&close.reason).into_owned();
                if close.error_code.into_inner() == REFUSED {
                    Error::Refused(reason)
                } else {
                    Error::Unreachable(format!("the peer closed the connection: {reason}"))
                }
            }
            E::ConnectionClosed(close)
                if u64::from(close.error_code) == NO_APPLICATION_PROTOCOL =>
            {
                Error::Refused(
                    "the peer does not offer this service, or another version of it: use the same \
                     version of windward on both sides"
                        .to_owned(),
                )
            }
            E::TransportError(error) if u64::from(error.code) & !0xff == 0x100 => {
                Error::Peer(error.reason)
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
