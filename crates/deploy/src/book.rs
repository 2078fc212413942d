//! Tickets that a receiver has given out, kept across restarts: one for each folder.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::identity::{Fingerprint, make_private_directory};
use crate::peers::replace;
use crate::ticket::{Token, draw_token};

/// Longest record, bytes.
const MAX_LENGTH: u64 = 64 << 10;

/// A ticket that is open, with the sender that uses it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// Folder, for those who look at the file.
    pub folder: String,
    /// Token.
    pub token: Token,
    /// Second since 1970 in UTC at which it expires.
    pub expires: u64,
    /// UDP port of the receiver, so that the same ticket leads to it after a restart.
    pub port: u16,
    /// Fingerprint of the first sender that used it.
    pub sender: Option<Fingerprint>,
}

/// The open ticket of a folder.
#[derive(Debug)]
pub struct Book {
    path: PathBuf,
    /// The record as the file has it.
    pub record: Record,
}

impl Book {
    /// Reads the ticket of a folder. Draws a new one if the folder has no ticket, or one that no
    /// sender has used and that is not valid at `now` (seconds since 1970).
    pub fn open(
        directory: &Path,
        folder: &Path,
        now: u64,
        expires: u64,
        anew: bool,
    ) -> Result<Self> {
        let directory = directory.join("tickets");
        make_private_directory(&directory)?;
        let name = blake3::hash(folder.as_os_str().as_bytes()).to_hex();
        let path = directory.join(format!("{}.json", &name[..32]));
        let is_open = |record: &Record| record.expires > now || record.sender.is_some();
        let kept = read(&path)?.filter(|record| !anew && is_open(record));
        let record = match kept {
            Some(record) => record,
            None => Record {
                folder: folder.display().to_string(),
                token: draw_token()?,
                expires,
                port: 0,
                sender: None,
            },
        };
        Ok(Book { path, record })
    }

    /// Writes the record, so that it survives a crash.
    pub fn save(&self) -> Result<()> {
        let write = || replace(&self.path, &serde_json::to_vec_pretty(&self.record)?);
        write().map_err(Error::file(&self.path, "cannot write"))
    }

    /// Removes the record, if it is that of this sender: the ticket is used up.
    pub fn close(&self, sender: Fingerprint) {
        if self.record.sender == Some(sender) {
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Admits a sender by its token. The first one binds the ticket to its key, and may resume
    /// after the ticket has expired.
    ///
    /// # Errors
    ///
    /// The reason of a refusal, in the words that the sender reads; or that the file cannot be
    /// written.
    pub fn admit(&mut self, token: Option<Token>, sender: Fingerprint, now: u64) -> Result<()> {
        let refuse = |why: &str| Err(Error::Refused(why.to_owned()));
        // Comparing hashes tells nothing by its duration.
        let fits =
            token.is_some_and(|token| blake3::hash(&token) == blake3::hash(&self.record.token));
        if !fits {
            return refuse("the ticket is not valid here, or was used up: ask for a new one");
        }
        match self.record.sender {
            Some(first) if first == sender => Ok(()),
            Some(_) => refuse("another sender uses this ticket already: ask for a new one"),
            None if now >= self.record.expires => {
                refuse("the ticket has expired: ask for a new one")
            }
            None => {
                self.record.sender = Some(sender);
                self.save()
            }
        }
    }
}

fn read(path: &Path) -> Result<Option<Record>> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.len() > MAX_LENGTH => return Ok(None),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::file(path, "cannot open")(error)),
    }
    let bytes = fs::read(path).map_err(Error::file(path, "cannot read"))?;
    // A damaged record is replaced by a new ticket.
    Ok(serde_json::from_slice(&bytes).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sender_binds_the_ticket_and_restarts_keep_it() {
        let home = tempfile::tempdir().expect("a folder");
        let (first, other) = (Fingerprint([1; 32]), Fingerprint([2; 32]));
        let folder = Path::new("/srv/in");
        let mut book = Book::open(home.path(), folder, 100, 200, false).expect("new");
        let token = Some(book.record.token);
        assert!(book.admit(None, first, 100).is_err());
        assert!(book.admit(Some([0; 16]), first, 100).is_err());
        assert!(book.admit(token, first, 200).is_err(), "expired");
        assert_eq!(book.record.sender, None, "refusals bind nothing");
        book.admit(token, first, 100).expect("first");
        book.admit(token, first, 100).expect("again");
        assert!(book.admit(token, other, 100).is_err());

        let mut again = Book::open(home.path(), folder, 150, 300, false).expect("kept");
        assert_eq!(Some(again.record.token), token);
        assert!(again.admit(token, other, 150).is_err());
        again.admit(token, first, 150).expect("resumes");
        let mut late = Book::open(home.path(), folder, 200, 300, false).expect("kept");
        late.admit(token, first, 200).expect("resumes after it has expired");
        assert!(late.admit(token, other, 200).is_err());
        let anew = Book::open(home.path(), folder, 150, 300, true).expect("new");
        assert_ne!(Some(anew.record.token), token, "asked for");
        let other_folder =
            |now| Book::open(home.path(), Path::new("/srv/other"), now, 300, false).expect("new");
        let elsewhere = other_folder(150);
        elsewhere.save().expect("saved");
        assert_ne!(Some(elsewhere.record.token), token);
        assert_eq!(other_folder(299).record.token, elsewhere.record.token);
        assert_ne!(other_folder(300).record.token, elsewhere.record.token, "expired and unused");
    }
}
