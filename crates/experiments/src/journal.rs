//! Journals: files to which records are appended, each with a checksum.
//!
//! All records before the first torn one survive the process.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::ExperimentError;

/// Version of the program with a fingerprint of the stored types, the engine and the metrics,
/// computed by the build: `0.1.0+` and 16 hexadecimal digits. Data of another build are not read.
pub const BUILD: &str = env!("WINDWARD_BUILD");

/// Checksum of records, against flipped bits.
pub(crate) const CHECKSUM: crc::Crc<u32> = crc::Crc::<u32>::new(&crc::CRC_32_ISCSI);

/// First record of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Opening {
    build: String,
    /// Key that identifies the work.
    key: u64,
}

impl Opening {
    fn of(key: u64) -> Self {
        Opening { build: BUILD.to_owned(), key }
    }
}

/// Completed parts of some work.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    key: u64,
    /// Length of the whole records, bytes.
    whole: u64,
    /// Open once there is something to write.
    file: Option<File>,
}

impl Journal {
    /// The journal in a file, which need not exist, and its records of the work with that key.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn open<T: DeserializeOwned>(
        path: PathBuf,
        key: u64,
    ) -> Result<(Self, Vec<T>), ExperimentError> {
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(e) => return Err(ExperimentError::io("read", &path, e)),
        };
        let mut rest = &bytes[..];
        let ours = read_frame(&mut rest) == Some(Opening::of(key));
        let mut records = Vec::new();
        while let Some(record) = read_frame(&mut rest).filter(|_| ours) {
            records.push(record);
        }
        // The last record may be incomplete.
        let whole = if ours { (bytes.len() - rest.len()) as u64 } else { 0 };
        Ok((Journal { path, key, whole, file: None }, records))
    }

    /// Appends a record. A record that could not be written completely does not count.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn write(&mut self, record: &impl Serialize) -> Result<(), ExperimentError> {
        self.append(record).map_err(|e| ExperimentError::io("write", &self.path, e))
    }

    fn append(&mut self, record: &impl Serialize) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let mut options = OpenOptions::new();
                let mut file = options.create(true).write(true).truncate(false).open(&self.path)?;
                file.set_len(self.whole)?;
                file.seek(SeekFrom::End(0))?;
                if self.whole == 0 {
                    self.whole += write_frame(&mut file, &Opening::of(self.key))?;
                }
                none.insert(file)
            }
        };
        match write_frame(file, record) {
            Ok(length) => {
                self.whole += length;
                Ok(())
            }
            Err(error) => {
                // The next record opens the file anew, without the torn one.
                self.file = None;
                Err(error)
            }
        }
    }

    /// Removes the file, which is no longer needed.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub(crate) fn remove(&mut self) -> Result<(), ExperimentError> {
        self.file = None;
        self.whole = 0;
        match fs::remove_file(&self.path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(ExperimentError::io("remove", &self.path, e))
            }
            _ => Ok(()),
        }
    }

    /// Gives the file another name. A journal without records has no file.
    ///
    /// # Errors
    /// If the file cannot be renamed.
    pub(crate) fn rename(self, to: &Path) -> Result<(), ExperimentError> {
        match fs::rename(&self.path, to) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(ExperimentError::io("rename", &self.path, e))
            }
            _ => Ok(()),
        }
    }
}

/// Writes length, content and checksum; returns the total length.
fn write_frame(file: &mut File, content: &impl Serialize) -> io::Result<u64> {
    let body = postcard::to_stdvec_crc32(content, CHECKSUM.digest()).map_err(io::Error::other)?;
    let length = u32::try_from(body.len()).map_err(io::Error::other)?;
    let mut frame = length.to_le_bytes().to_vec();
    frame.extend(body);
    // A single call, so that a killed process rarely leaves a torn record.
    file.write_all(&frame)?;
    Ok(frame.len() as u64)
}

/// The next frame, if it is complete.
fn read_frame<T: DeserializeOwned>(rest: &mut &[u8]) -> Option<T> {
    let (length, after) = rest.split_first_chunk::<4>()?;
    let body = after.get(..u32::from_le_bytes(*length) as usize)?;
    let content = postcard::from_bytes_crc32(body, CHECKSUM.digest()).ok()?;
    *rest = &after[body.len()..];
    Some(content)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn journal(path: &Path, key: u64) -> (Journal, Vec<String>) {
        Journal::open(path.to_owned(), key).unwrap()
    }

    #[test]
    fn all_up_to_the_first_torn_record_is_found_again_and_writing_goes_on_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let (mut first, records) = journal(&path, 7);
        assert!(records.is_empty());
        for word in ["one", "two", "three"] {
            first.write(&word).unwrap();
        }
        drop(first);
        let whole = fs::metadata(&path).unwrap().len();
        // Cut within the last record, and at its end.
        for (length, left) in [(whole - 1, 2), (whole - 9, 2), (whole, 3)] {
            let copy = dir.path().join("copy");
            fs::copy(&path, &copy).unwrap();
            OpenOptions::new().write(true).open(&copy).unwrap().set_len(length).unwrap();
            let (mut again, records) = journal(&copy, 7);
            assert_eq!(records.len(), left);
            again.write(&"more").unwrap();
            assert_eq!(journal(&copy, 7).1[left..], ["more"]);
        }
        assert!(journal(&path, 8).1.is_empty(), "of other work");
    }

    #[test]
    fn a_removed_dataset_begins_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let (mut first, _) = journal(&path, 7);
        first.write(&"one").unwrap();
        first.remove().unwrap();
        assert!(!path.exists());
        first.write(&"two").unwrap();
        drop(first);
        assert_eq!(journal(&path, 7).1, ["two"]);
    }
}
