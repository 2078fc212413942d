//! Answers of a server to a request.

use std::fmt;
use std::io::ErrorKind;

/// Answer of a server to a request. The first nine are those of SOCKS (RFC 1928 section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Reply {
    /// Connected.
    Connected = 0,
    /// Another failure.
    Failed = 1,
    /// No rule allows the target.
    NotAllowed = 2,
    /// No route to its network.
    NetworkUnreachable = 3,
    /// No route to the host, or its name is unknown.
    HostUnreachable = 4,
    /// The host refuses.
    Refused = 5,
    /// The host does not answer.
    TimedOut = 6,
    /// The server does not know this kind of request.
    Unsupported = 7,
    /// The peer has as many connections as it may have.
    TooMany = 16,
    /// The server ends.
    ShuttingDown = 17,
}

impl Reply {
    const ALL: [Reply; 10] = [
        Reply::Connected,
        Reply::Failed,
        Reply::NotAllowed,
        Reply::NetworkUnreachable,
        Reply::HostUnreachable,
        Reply::Refused,
        Reply::TimedOut,
        Reply::Unsupported,
        Reply::TooMany,
        Reply::ShuttingDown,
    ];

    /// The reply of this code; unknown codes are failures.
    pub(super) fn of(code: u8) -> Self {
        Reply::ALL.into_iter().find(|reply| *reply as u8 == code).unwrap_or(Reply::Failed)
    }

    /// The code for a client of SOCKS, which knows the first nine.
    pub(super) fn for_socks(self) -> u8 {
        match self as u8 {
            code @ 0..=8 => code,
            _ => Reply::Failed as u8,
        }
    }

    /// The reply for an error of connect(2).
    pub(super) fn from_connect(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset => Reply::Refused,
            ErrorKind::NetworkUnreachable => Reply::NetworkUnreachable,
            ErrorKind::HostUnreachable => Reply::HostUnreachable,
            ErrorKind::TimedOut => Reply::TimedOut,
            _ => Reply::Failed,
        }
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reply::Connected => "connected",
            Reply::Failed => "the server could not connect",
            Reply::NotAllowed => "the server does not allow this target: add it there with --allow",
            Reply::NetworkUnreachable => "no route from the server to this network",
            Reply::HostUnreachable => "the server does not know this host or has no route to it",
            Reply::Refused => "the target refused",
            Reply::TimedOut => "the target does not answer",
            Reply::Unsupported => "the server does not know this kind of request",
            Reply::TooMany => "too many connections at once for the server",
            Reply::ShuttingDown => "the server shuts down",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_as_written() {
        for reply in Reply::ALL {
            assert_eq!(Reply::of(reply as u8), reply);
        }
        assert_eq!((Reply::of(200), Reply::TooMany.for_socks()), (Reply::Failed, 1));
    }
}
