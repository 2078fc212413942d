//! Files that appear whole or not at all.
//!
//! An [`OutputDir`] is a folder for results. Each [`StagedFile`] in it is written under a hidden
//! name beside its own; [`OutputDir::commit`] renames those that were completed. What is dropped
//! before that, by an error or an interruption, is removed, and so are the folders made for it.

use std::error::Error;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file or folder could not be written.
#[derive(Debug)]
pub struct OutputError {
    /// Which one, under the name it should have in the end.
    pub path: PathBuf,
    /// What was attempted.
    pub attempt: Attempt,
    /// What the system says.
    pub error: io::Error,
}

/// What was attempted with a file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// To make the folder.
    MakeFolder,
    /// To write the file or to give it its name.
    Write,
}

impl OutputError {
    /// An attempt to write the file at `path` failed with `error`.
    pub fn write(path: &Path, error: io::Error) -> Self {
        OutputError { path: path.to_owned(), attempt: Attempt::Write, error }
    }
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attempt = match self.attempt {
            Attempt::MakeFolder => "make the folder",
            Attempt::Write => "write",
        };
        write!(f, "cannot {attempt} {}: {}", self.path.display(), self.error)
    }
}

impl Error for OutputError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}

/// A folder for results, and the files that were completed for it.
///
/// ```
/// use std::io::Write;
/// use windward_sim::output::OutputDir;
///
/// let parent = tempfile::tempdir().unwrap();
/// let mut dir = OutputDir::create(&parent.path().join("results"))?;
/// dir.write("answer.txt", |file| writeln!(file, "42"))?;
/// assert!(!parent.path().join("results/answer.txt").exists());
/// dir.commit()?;
/// assert!(parent.path().join("results/answer.txt").exists());
/// # Ok::<(), windward_sim::output::OutputError>(())
/// ```
#[derive(Debug)]
pub struct OutputDir {
    complete: Vec<StagedFile>,
    folder: Arc<Folder>,
}

impl OutputDir {
    /// Makes the folder and those above it where they are missing.
    ///
    /// # Errors
    /// If the system does not let it.
    pub fn create(path: &Path) -> Result<Self, OutputError> {
        let missing = path.ancestors().take_while(|p| !p.as_os_str().is_empty() && !p.exists());
        let made = missing.map(Path::to_owned).collect();
        let folder = Folder { path: path.to_owned(), made };
        match fs::create_dir_all(path) {
            Ok(()) => Ok(OutputDir { complete: Vec::new(), folder: Arc::new(folder) }),
            Err(error) => {
                Err(OutputError { path: path.to_owned(), attempt: Attempt::MakeFolder, error })
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.folder.path
    }

    /// Begins a file of that name, to be handed to [`OutputDir::complete`] once it is written.
    ///
    /// # Errors
    /// If the folder does not take it.
    pub fn file(&self, name: &str) -> Result<StagedFile, OutputError> {
        let path = self.path().join(name);
        let hidden = self.path().join(format!(".{name}.{}.part", std::process::id()));
        match File::create(&hidden) {
            Ok(file) => Ok(StagedFile {
                writer: BufWriter::new(file),
                hidden,
                path,
                _folder: Arc::clone(&self.folder),
            }),
            Err(error) => Err(OutputError::write(&path, error)),
        }
    }

    /// Everything is in the file: [`OutputDir::commit`] gives it its name.
    ///
    /// # Errors
    /// If what was buffered cannot be written; then the file is removed.
    pub fn complete(&mut self, mut file: StagedFile) -> Result<(), OutputError> {
        file.flush().map_err(|error| OutputError::write(&file.path, error))?;
        self.complete.push(file);
        Ok(())
    }

    /// Writes and completes a file in one go.
    ///
    /// # Errors
    /// If the folder does not take it, or `content` fails.
    pub fn write(
        &mut self,
        name: &str,
        content: impl FnOnce(&mut StagedFile) -> io::Result<()>,
    ) -> Result<(), OutputError> {
        let mut file = self.file(name)?;
        content(&mut file).map_err(|error| OutputError::write(&file.path, error))?;
        self.complete(file)
    }

    /// Gives every file that is complete its name, in the order in which they were completed.
    ///
    /// # Errors
    /// If the system does not let it; the files before that one have their names by then.
    pub fn commit(self) -> Result<(), OutputError> {
        for file in self.complete {
            fs::rename(&file.hidden, &file.path)
                .map_err(|error| OutputError::write(&file.path, error))?;
        }
        Ok(())
    }
}

/// A file being written.
#[derive(Debug)]
pub struct StagedFile {
    writer: BufWriter<File>,
    hidden: PathBuf,
    path: PathBuf,
    /// Dropped last: the file must be gone when the folder is looked at.
    _folder: Arc<Folder>,
}

impl StagedFile {
    /// Where it will be.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Write for StagedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        // Gone already if it has its name.
        let _ = fs::remove_file(&self.hidden);
    }
}

/// The folder itself, while someone may still write into it.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// The folders that did not exist before, the innermost first.
    made: Vec<PathBuf>,
}

impl Drop for Folder {
    fn drop(&mut self) {
        for folder in &self.made {
            // Refused, as it should be, for a folder with files in it.
            let _ = fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<String> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn committed_files_appear_together_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("a/b");
        let mut output = OutputDir::create(&dir).unwrap();
        output.write("x", |w| w.write_all(b"1")).unwrap();
        let mut file = output.file("y").unwrap();
        file.write_all(b"2").unwrap();
        output.complete(file).unwrap();
        let unfinished = output.file("z").unwrap();
        assert!(!dir.join("x").exists());
        output.commit().unwrap();
        drop(unfinished);
        assert_eq!(entries(&dir), ["x", "y"]);
        assert_eq!(fs::read(dir.join("x")).unwrap(), b"1");
        assert_eq!(fs::read(dir.join("y")).unwrap(), b"2");
    }

    #[test]
    fn a_failure_leaves_what_was_there_before() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("x"), "old").unwrap();
        let mut output = OutputDir::create(root.path()).unwrap();
        output.write("x", |w| w.write_all(b"new")).unwrap();
        let full = |_: &mut StagedFile| Err(io::Error::other("disk full"));
        let error = output.write("y", full).unwrap_err();
        let expected = format!("cannot write {}: disk full", root.path().join("y").display());
        assert_eq!(error.to_string(), expected);
        drop(output);
        assert_eq!(entries(root.path()), ["x"]);
        assert_eq!(fs::read(root.path().join("x")).unwrap(), b"old");

        let fresh = root.path().join("fresh/deep");
        // The file outlives what made its folder, which goes with it all the same.
        let file = OutputDir::create(&fresh).unwrap().file("z").unwrap();
        assert!(fresh.exists());
        drop(file);
        assert_eq!(entries(root.path()), ["x"]);
    }

    #[test]
    fn a_file_in_the_place_of_the_folder_is_an_error_with_its_path() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        fs::write(&path, "").unwrap();
        let error = OutputDir::create(&path.join("sub")).unwrap_err();
        assert_eq!(error.attempt, Attempt::MakeFolder);
        assert!(error.to_string().contains("cannot make the folder"), "{error}");
        assert!(error.to_string().contains("file/sub"), "{error}");
    }
}
