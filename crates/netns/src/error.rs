//! Errors of calls to the kernel.

use std::{error, fmt, io};

use rustix::io::Errno;

/// Error of a call to the kernel: the attempted action, the kernel's answer, and advice.
///
/// Its text is one line with what to do. [`Error::kind`] is the kind of the kernel's answer, for
/// programs.
#[derive(Debug)]
pub struct Error {
    what: String,
    answer: io::Error,
    advice: Option<&'static str>,
}

/// A result with the [`Error`] of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Advice for a missing capability.
const NEEDS_ROOT: &str = "run as root";

impl Error {
    /// An error from the attempted action and the kernel's answer.
    pub fn new(what: impl Into<String>, answer: impl Into<io::Error>) -> Self {
        let answer = answer.into();
        let advice = (answer.kind() == io::ErrorKind::PermissionDenied).then_some(NEEDS_ROOT);
        Error { what: what.into(), answer, advice }
    }

    pub(crate) fn advise(mut self, advice: &'static str) -> Self {
        self.advice = Some(advice);
        self
    }

    /// The kind of the kernel's answer; [`io::ErrorKind::PermissionDenied`] without the rights.
    pub fn kind(&self) -> io::ErrorKind {
        self.answer.kind()
    }

    /// True if there is no device of that name.
    pub fn is_no_device(&self) -> bool {
        self.os_code() == Some(Errno::NODEV.raw_os_error())
    }

    pub(crate) fn os_code(&self) -> Option<i32> {
        self.answer.raw_os_error()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.answer)?;
        self.advice.map_or(Ok(()), |advice| write!(f, "; {advice}"))
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(&self.answer)
    }
}

/// Adds the attempted action to the error of a failed call.
pub(crate) trait Context<T> {
    /// The same result with `what` before the kernel's answer.
    fn context<W: Into<String>>(self, what: impl FnOnce() -> W) -> Result<T>;
}

impl<T, E: Into<io::Error>> Context<T> for std::result::Result<T, E> {
    fn context<W: Into<String>>(self, what: impl FnOnce() -> W) -> Result<T> {
        self.map_err(|answer| Error::new(what(), answer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_why_and_what_to_do() {
        let denied = Error::new("cannot make a namespace", io::ErrorKind::PermissionDenied);
        let text = denied.to_string();
        assert!(text.starts_with("cannot make a namespace: permission denied; run as root"));
        let other = Error::new("cannot do it", io::ErrorKind::NotFound);
        assert_eq!(other.to_string(), "cannot do it: entity not found");
        assert_eq!(other.advise("do that").to_string(), "cannot do it: entity not found; do that");
    }
}
