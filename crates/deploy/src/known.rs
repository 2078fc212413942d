//! Known peers, as ssh keeps them: a text file with a name and a fingerprint on each line.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::identity::{self, Fingerprint};

/// Name of the file in the directory of the configuration.
const FILE: &str = "known_peers";
/// Limit of the length of the file, bytes.
const MAX_LENGTH: u64 = 16 << 20;

/// The file of known peers. Each question reads it anew, so that edits count at once.
#[derive(Debug, Clone)]
pub struct KnownPeers {
    path: PathBuf,
}

/// Relation of a fingerprint to the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The name has this fingerprint.
    Known,
    /// The name is not in the file.
    New,
    /// The name has another fingerprint: another machine, or an attack.
    Changed(Fingerprint),
}

impl KnownPeers {
    /// The file in this directory, which need not exist yet.
    pub fn open(directory: &Path) -> Self {
        KnownPeers { path: directory.join(FILE) }
    }

    /// Path of the file, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Standing of a fingerprint for a name. A name may have several lines; one that fits is
    /// enough.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or a line is invalid.
    pub fn check(&self, name: &str, fingerprint: Fingerprint) -> Result<Standing> {
        let mut standing = Standing::New;
        self.each_line(|known, print| {
            if known == name {
                if print == fingerprint {
                    standing = Standing::Known;
                } else if standing == Standing::New {
                    standing = Standing::Changed(print);
                }
            }
        })?;
        Ok(standing)
    }

    /// Fingerprint of a name: that of its first line.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or a line is invalid.
    pub fn find(&self, name: &str) -> Result<Option<Fingerprint>> {
        let mut found = None;
        self.each_line(|known, print| {
            if known == name && found.is_none() {
                found = Some(print);
            }
        })?;
        Ok(found)
    }

    /// Names that have this fingerprint; empty for a stranger.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or a line is invalid.
    pub fn names_of(&self, fingerprint: Fingerprint) -> Result<Vec<String>> {
        let mut names = Vec::new();
        self.each_line(|name, print| {
            if print == fingerprint {
                names.push(name.to_owned());
            }
        })?;
        Ok(names)
    }

    /// Adds a line, unless it is there already.
    ///
    /// # Errors
    ///
    /// If the name is empty, has white space or begins with `#`, or the file cannot be written.
    pub fn remember(&self, name: &str, fingerprint: Fingerprint) -> Result<()> {
        if name.is_empty()
            || name.starts_with('#')
            || name.contains(|c: char| c.is_whitespace() || c.is_control())
        {
            return Err(Error::Input(format!("`{}` is not a name of a peer", name.escape_debug())));
        }
        if self.check(name, fingerprint)? == Standing::Known {
            return Ok(());
        }
        if let Some(directory) = self.path.parent() {
            identity::make_private_directory(directory)?;
        }
        let append = || -> io::Result<()> {
            let mut file =
                OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?;
            file.lock()?;
            // One call, so that the line stays whole if another process writes too.
            file.write_all(format!("{name} {fingerprint}\n").as_bytes())?;
            file.sync_all()
        };
        append().map_err(Error::file(&self.path, "cannot write"))
    }

    fn each_line(&self, mut visit: impl FnMut(&str, Fingerprint)) -> Result<()> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Error::file(&self.path, "cannot open")(error)),
        };
        for (index, line) in BufReader::new(file.take(MAX_LENGTH)).lines().enumerate() {
            let line = line.map_err(Error::file(&self.path, "cannot read"))?;
            let mut words = line.split_whitespace();
            let Some(name) = words.next().filter(|name| !name.starts_with('#')) else { continue };
            let print = words.next().unwrap_or_default().parse().map_err(|error| {
                Error::Input(format!("{}:{}: {error}", self.path.display(), index + 1))
            })?;
            visit(name, print);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_remembered_by_name() {
        let home = tempfile::tempdir().expect("a folder");
        let peers = KnownPeers::open(&home.path().join("new"));
        let (one, two) = (Fingerprint([1; 32]), Fingerprint([2; 32]));
        assert_eq!(peers.check("ship:4460", one).expect("read"), Standing::New);
        peers.remember("ship:4460", one).expect("written");
        peers.remember("ship:4460", one).expect("once");
        peers.remember("shore", one).expect("written");
        assert_eq!(peers.check("ship:4460", one).expect("read"), Standing::Known);
        assert_eq!(peers.check("ship:4460", two).expect("read"), Standing::Changed(one));
        assert_eq!(peers.names_of(one).expect("read"), ["ship:4460", "shore"]);
        assert!(peers.names_of(two).expect("read").is_empty());
        assert!(peers.remember("two words", one).is_err());
        assert!(peers.remember("", one).is_err());
    }

    #[test]
    fn an_invalid_line_is_an_error_with_its_number() {
        let home = tempfile::tempdir().expect("a folder");
        std::fs::write(home.path().join(FILE), "# peers\n\nship SHA256:abc\n").expect("written");
        let peers = KnownPeers::open(home.path());
        let error = peers.check("ship", Fingerprint([0; 32])).expect_err("invalid").to_string();
        assert!(error.contains("known_peers:3: `SHA256:abc` is not a fingerprint"), "{error}");
    }
}
