//! Files that appear whole or not at all.
//!
//! A [`StagedFile`] is written under a hidden name beside its own and renamed at the end;
//! dropped before that, by an error or by Ctrl-C, it is removed. [`OutputDir`] does the same
//! for the folders made to hold such files.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::signals;

/// A file being written.
#[derive(Debug)]
pub(crate) struct StagedFile {
    /// `None` once closed.
    writer: Option<BufWriter<File>>,
    hidden: PathBuf,
    path: PathBuf,
}

impl StagedFile {
    /// Begins the file `name` in `dir`.
    pub(crate) fn create(dir: &Path, name: &str) -> Result<Self, Failure> {
        // From here on Ctrl-C must leave room to remove what is made.
        signals::check()?;
        let path = dir.join(name);
        let hidden = dir.join(format!(".{name}.{}.part", std::process::id()));
        let file = File::create(&hidden).map_err(|e| Failure::file("write", &path, e))?;
        Ok(StagedFile { writer: Some(BufWriter::new(file)), hidden, path })
    }

    /// The name it will have.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes out what is buffered and gives the file its name.
    pub(crate) fn publish(mut self) -> Result<(), Failure> {
        self.finish().map_err(|e| Failure::file("write", &self.path, e))
    }

    fn finish(&mut self) -> io::Result<()> {
        if let Some(mut writer) = self.writer.take() {
            writer.flush()?;
        }
        fs::rename(&self.hidden, &self.path)
    }
}

impl Write for StagedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.writer {
            Some(writer) => writer.write(bytes),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        // Gone already if it was published.
        let _ = fs::remove_file(&self.hidden);
    }
}

/// A folder for results. If it had to be made and stays empty, it is removed again.
#[derive(Debug)]
pub(crate) struct OutputDir {
    path: PathBuf,
    /// The folders that did not exist before, innermost first.
    made: Vec<PathBuf>,
}

impl OutputDir {
    /// Makes the folder and those above it where they are missing.
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        signals::check()?;
        let made = path
            .ancestors()
            .take_while(|p| !p.as_os_str().is_empty() && !p.exists())
            .map(Path::to_owned)
            .collect();
        fs::create_dir_all(path).map_err(|e| Failure::file("make the folder", path, e))?;
        Ok(OutputDir { path: path.to_owned(), made })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for OutputDir {
    fn drop(&mut self) {
        for folder in &self.made {
            // Refused, as it should be, for a folder with files in it.
            if fs::remove_dir(folder).is_err() {
                break;
            }
        }
    }
}
