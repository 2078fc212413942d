//! Paths and targets of links from a peer, checked before anything uses them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Longest path below the folder, bytes: PATH_MAX of Linux without its zero byte.
pub const MAX_PATH: usize = 4095;
/// Longest name, bytes: NAME_MAX of Linux.
pub const MAX_NAME: usize = 255;

/// A path below the folder: names joined by `/`, none of them empty, `.` or `..`, nor one of the
/// temporary names of a transfer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelPath(Box<[u8]>);

impl RelPath {
    /// Checks the bytes of a path.
    ///
    /// # Errors
    ///
    /// The reason, as a clause.
    pub fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        if bytes.len() > MAX_PATH {
            return Err("the path is longer than 4095 bytes");
        }
        for name in bytes.split(|byte| *byte == b'/') {
            check_name(name)?;
        }
        Ok(RelPath(bytes.into()))
    }

    /// The path of the folder that has this one; `None` at the top.
    pub fn parent(&self) -> Option<&[u8]> {
        let at = self.0.iter().rposition(|byte| *byte == b'/')?;
        Some(&self.0[..at])
    }

    /// Last name.
    pub fn name(&self) -> &[u8] {
        self.0.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
    }

    /// Number of names.
    pub fn depth(&self) -> usize {
        self.0.split(|byte| *byte == b'/').count()
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// For messages.
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }
}

fn check_name(name: &[u8]) -> Result<(), &'static str> {
    match name {
        b"" => Err("the path is absolute or has an empty name"),
        b"." | b".." => Err("the path has the name `.` or `..`"),
        _ if name.len() > MAX_NAME => Err("a name is longer than 255 bytes"),
        _ if name.contains(&0) => Err("a name has a zero byte"),
        _ if is_temporary(name) => Err("the name is that of an unfinished transfer"),
        _ => Ok(()),
    }
}

const PREFIX: &[u8] = b".windward-";
const SUFFIX: &[u8] = b".part";

/// Name beside a file under which it is received. It depends on the name alone, so that a later
/// transfer finds it.
pub fn temporary_name(name: &[u8]) -> Vec<u8> {
    let digest = blake3::hash(name).to_hex();
    [PREFIX, &digest.as_bytes()[..16], SUFFIX].concat()
}

/// True for the temporary names of transfers.
pub fn is_temporary(name: &[u8]) -> bool {
    name.strip_prefix(PREFIX)
        .and_then(|rest| rest.strip_suffix(SUFFIX))
        .is_some_and(|middle| middle.len() == 16 && middle.iter().all(u8::is_ascii_hexdigit))
}

/// Checks that a symbolic link at `path` leads to a place in the folder.
///
/// The target must be relative, and `..` may stand only at its beginning. There it leaves real
/// folders, since no path of a transfer goes through a link; the rest of the target goes through
/// links for which the same holds.
///
/// # Errors
///
/// The reason, as a clause.
pub fn check_link(path: &RelPath, target: &[u8]) -> Result<(), &'static str> {
    if target.is_empty() || target.len() > MAX_PATH || target.contains(&0) {
        return Err("the target of the link is not a path");
    }
    if target[0] == b'/' {
        return Err("the link leads out of the folder: its target is absolute");
    }
    let names = target.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
    let (mut up, mut down) = (0, false);
    for name in names {
        if name != b".." {
            down = true;
        } else if down {
            return Err("the link may lead out of the folder: its target has `..` after a name");
        } else {
            up += 1;
        }
    }
    if up >= path.depth() { Err("the link leads out of the folder") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_the_folder() {
        for good in ["a", "a/b", "...", "a/..b", "new\nline", "-rf", "a b/\u{fc}"] {
            assert!(RelPath::parse(good.as_bytes()).is_ok(), "{good:?}");
        }
        assert!(RelPath::parse(b"\xff\xfe").is_ok(), "names need not be UTF-8");
        let long = [b'x'; 256];
        for bad in [
            &b""[..],
            b"/",
            b"/etc/passwd",
            b"..",
            b"a/..",
            b"../a",
            b"a/../../b",
            b".",
            b"a/./b",
            b"a//b",
            b"a/",
            b"a\0b",
            &long,
            &[b'/'; 5000],
            &b"a/".repeat(3000),
            b".windward-0123456789abcdef.part",
            b"a/.windward-0123456789abcdef.part/b",
        ] {
            assert!(RelPath::parse(bad).is_err(), "{:?}", String::from_utf8_lossy(bad));
        }
        assert!(RelPath::parse(&long[..255]).is_ok());
        assert!(is_temporary(&temporary_name(&long)) && temporary_name(&long).len() < MAX_NAME);
    }

    #[test]
    fn paths_have_parts() {
        let path = RelPath::parse(b"a/b/c").expect("a path");
        assert_eq!((path.parent(), path.name(), path.depth()), (Some(&b"a/b"[..]), &b"c"[..], 3));
        let top = RelPath::parse(b"a").expect("a path");
        assert_eq!((top.parent(), top.name(), top.depth()), (None, &b"a"[..], 1));
    }

    #[test]
    fn links_stay_in_the_folder() {
        let path = |text: &str| RelPath::parse(text.as_bytes()).expect("a path");
        for (at, target) in
            [("l", "a"), ("l", "a/b"), ("d/l", "../a"), ("d/e/l", "../../x"), ("l", ".")]
        {
            assert!(check_link(&path(at), target.as_bytes()).is_ok(), "{at} -> {target}");
        }
        for (at, target) in [
            ("l", "/etc/passwd"),
            ("l", ".."),
            ("l", "../a"),
            ("d/l", "../../a"),
            ("d/l", "x/../../a"),
            // Where x is a link to a deeper place this would lead elsewhere than it seems.
            ("d/l", "x/../a"),
            ("l", ""),
            ("l", "a\0"),
            ("d/l", ".././../a"),
        ] {
            assert!(check_link(&path(at), target.as_bytes()).is_err(), "{at} -> {target:?}");
        }
    }
}
