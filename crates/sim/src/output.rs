//! Files that appear whole or not at all.
//!
//! An [`OutputDir`] is a folder for results. Each [`StagedFile`] in it is written under a hidden
//! name beside its own; [`OutputDir::commit`] renames those that were completed. What is dropped
//! before that, by an error or an interruption, is removed, and so are the folders made for it. What
//! a process left that was killed, the next one that writes into the folder removes.

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
            Ok(()) => {
                remove_abandoned(path);
                Ok(OutputDir { complete: Vec::new(), folder: Arc::new(folder) })
            }
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
        let hidden = self.path().join(format!(".{name}.{}{PART}", std::process::id()));
        match File::create(&hidden) {
            Ok(file) => {
                // Tells others that it is being written, until this process ends in whatever way.
                // Where there are no locks they go by its number alone.
                let _ = file.try_lock();
                Ok(StagedFile {
                    writer: BufWriter::new(file),
                    hidden,
                    path,
                    _folder: Arc::clone(&self.folder),
                })
            }
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

/// What the names of hidden files end in, after the number of the process.
const PART: &str = ".part";

/// Removes the hidden files of processes that are no more. What cannot be told or removed stays.
fn remove_abandoned(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let Some(process) = name.to_str().and_then(writer) else { continue };
        let file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if file && !lives(process) && !is_locked(&entry.path()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The process that a hidden file is of, `.NAME.PROCESS.part`.
fn writer(name: &str) -> Option<u32> {
    let (name, process) = name.strip_prefix('.')?.strip_suffix(PART)?.rsplit_once('.')?;
    let digits = process.bytes().all(|b| b.is_ascii_digit());
    if name.is_empty() || !digits { None } else { process.parse().ok() }
}

/// Is there a process of that number, as far as the system tells? The lock says more: a number
/// means another process in another container.
fn lives(process: u32) -> bool {
    if process == std::process::id() {
        return true;
    }
    let known = Path::new("/proc").join(process.to_string());
    if !known.exists() {
        return false;
    }
    // One that has ended and that nobody has asked for its status is still listed: `7 (name) Z ..`.
    let status = fs::read_to_string(known.join("stat")).unwrap_or_default();
    let state = status.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    !matches!(state, Some('Z' | 'X'))
}

/// Does somebody hold the lock of the file? If that cannot be told, somebody may.
fn is_locked(path: &Path) -> bool {
    File::open(path).and_then(|file| Ok(file.try_lock()?)).is_err()
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
    fn what_killed_processes_left_is_removed_and_nothing_else() {
        // Linux numbers processes up to 2^22.
        const NOBODY: u32 = (1 << 22) + 1;
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str| fs::write(root.path().join(name), "").unwrap();
        write(&format!(".flows.csv.{NOBODY}.part"));
        // Elsewhere the same number may be somebody's: the lock tells.
        let held = File::create(root.path().join(format!(".held.csv.{NOBODY}.part"))).unwrap();
        held.lock().unwrap();
        let own = format!(".links.csv.{}.part", std::process::id());
        let kept = [
            own.as_str(),
            ".part",
            ".x.part",
            "..7.part",
            ".x.7a.part",
            "x.4194305.part",
            ".x.4194305.part.csv",
        ];
        for name in kept {
            write(name);
        }
        fs::create_dir(root.path().join(format!(".folder.{NOBODY}.part"))).unwrap();
        drop(OutputDir::create(root.path()).unwrap());
        let mut expected: Vec<String> = kept.map(str::to_owned).into();
        expected.push(format!(".held.csv.{NOBODY}.part"));
        expected.push(format!(".folder.{NOBODY}.part"));
        expected.sort();
        assert_eq!(entries(root.path()), expected);
        // Its end is told by the lock too.
        drop(held);
        drop(OutputDir::create(root.path()).unwrap());
        assert!(!root.path().join(format!(".held.csv.{NOBODY}.part")).exists());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_that_has_ended_is_none_even_if_nobody_asked() {
        assert!(lives(std::process::id()) && lives(1));
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        assert!(lives(child.id()));
        child.kill().unwrap();
        // It is listed until its parent, this process, waits for it.
        for _ in 0..1000 {
            if !lives(child.id()) {
                break;
            }
            std::thread::yield_now();
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(Path::new("/proc").join(child.id().to_string()).exists());
        assert!(!lives(child.id()));
        child.wait().unwrap();
        assert!(!lives(child.id()));
    }

    #[test]
    fn a_file_that_is_being_written_is_locked() {
        let root = tempfile::tempdir().unwrap();
        let output = OutputDir::create(root.path()).unwrap();
        let file = output.file("x").unwrap();
        assert!(is_locked(&file.hidden));
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
