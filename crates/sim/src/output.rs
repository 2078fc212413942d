//! Output files at paths that users choose.
//!
//! A regular file appears whole or not at all: it is written under a hidden name in the same folder
//! and then renamed, with the mode and the owner of the file that it replaces. A symbolic link
//! stays, and what it names is written. A device, a pipe and standard output (`-`, where a command
//! takes one file) are written to directly, as `cat >` would.
//!
//! An [`OutputDir`] is a folder for several such files, which appear together; an [`OutputFile`] is
//! one. Files that are dropped before they are committed, by an error or an interruption, are
//! removed, and so are the folders made for them. Files of a process that was killed are removed by
//! the next one that writes into the folder.

use std::error::Error;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A file or folder could not be written.
#[derive(Debug)]
pub struct OutputError {
    /// Its final path.
    pub path: PathBuf,
    /// The operation that failed.
    pub attempt: Attempt,
    /// The error of the system.
    pub error: io::Error,
}

/// An operation on a file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// Creation of the folder.
    MakeFolder,
    /// Writing or renaming of the file.
    Write,
}

impl OutputError {
    /// The error that the file at `path` could not be written.
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
    /// Creates the folder and its missing parents.
    ///
    /// # Errors
    /// If the system does not let it.
    pub fn create(path: &Path) -> Result<Self, OutputError> {
        let missing = path.ancestors().take_while(|p| !p.as_os_str().is_empty() && !p.exists());
        let made = missing.map(Path::to_owned).collect();
        let folder = Folder { path: path.to_owned(), made };
        let result = match is_standard_output(path) {
            true => Err(io::Error::new(
                io::ErrorKind::NotADirectory,
                "`-` is standard output, not a folder (write ./- for a folder of this name)",
            )),
            false => fs::create_dir_all(path),
        };
        match result {
            Ok(()) => {
                remove_abandoned(path);
                Ok(OutputDir { complete: Vec::new(), folder: Arc::new(folder) })
            }
            Err(error) => {
                Err(OutputError { path: path.to_owned(), attempt: Attempt::MakeFolder, error })
            }
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.folder.path
    }

    /// Begins a file of this name, to be passed to [`OutputDir::complete`] once it is written.
    ///
    /// # Errors
    /// If the file cannot be created, or a folder has this name.
    pub fn file(&self, name: impl AsRef<Path>) -> Result<StagedFile, OutputError> {
        let path = self.path().join(name);
        match begin(&path) {
            Ok((file, place)) => Ok(StagedFile {
                writer: BufWriter::new(file),
                place,
                path,
                _folder: Arc::clone(&self.folder),
            }),
            Err(error) => Err(OutputError::write(&path, error)),
        }
    }

    /// Marks a file as complete: [`OutputDir::commit`] gives it its name.
    ///
    /// # Errors
    /// If buffered data cannot be written; then the file is removed.
    pub fn complete(&mut self, mut file: StagedFile) -> Result<(), OutputError> {
        file.flush().map_err(|error| OutputError::write(&file.path, error))?;
        self.complete.push(file);
        Ok(())
    }

    /// Writes and completes a file.
    ///
    /// # Errors
    /// If the file cannot be written, or `content` fails.
    pub fn write(
        &mut self,
        name: &str,
        content: impl FnOnce(&mut StagedFile) -> io::Result<()>,
    ) -> Result<(), OutputError> {
        let mut file = self.file(name)?;
        content(&mut file).map_err(|error| OutputError::write(&file.path, error))?;
        self.complete(file)
    }

    /// Gives each complete file its name, in the order of completion.
    ///
    /// # Errors
    /// If a file cannot be renamed; the files before it keep their names.
    pub fn commit(self) -> Result<(), OutputError> {
        for file in self.complete {
            file.place.publish().map_err(|error| OutputError::write(&file.path, error))?;
        }
        Ok(())
    }
}

/// One output file, with its missing parent folders.
///
/// ```
/// use std::io::Write;
/// use windward_sim::output::OutputFile;
///
/// let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("answers/first.txt");
/// let mut file = OutputFile::create(&path)?;
/// writeln!(file, "42").unwrap();
/// assert!(!path.exists());
/// assert_eq!(file.commit()?, path);
/// assert!(path.exists());
/// # Ok::<(), windward_sim::output::OutputError>(())
/// ```
#[derive(Debug)]
pub struct OutputFile(StagedFile);

impl OutputFile {
    /// Begins the file at `path`; `-` is standard output.
    ///
    /// # Errors
    /// If the file cannot be created, or a folder has this name.
    pub fn create(path: &Path) -> Result<Self, OutputError> {
        let failed = |error| OutputError::write(path, error);
        if is_standard_output(path) {
            let file = standard_output().map_err(failed)?;
            let folder = Folder { path: PathBuf::new(), made: Vec::new() };
            return Ok(OutputFile(StagedFile {
                writer: BufWriter::new(file),
                place: Destination::Stream,
                path: path.to_owned(),
                _folder: Arc::new(folder),
            }));
        }
        let Some(name) = path.file_name() else {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut file = OutputDir::create(folder.unwrap_or(Path::new(".")))?.file(name)?;
        file.path = path.to_owned();
        Ok(OutputFile(file))
    }

    /// Gives the file its name, and returns the path.
    ///
    /// # Errors
    /// If some data could not be written; then the file is removed.
    pub fn commit(self) -> Result<PathBuf, OutputError> {
        let mut file = self.0;
        let mut publish = || {
            file.writer.flush()?;
            file.place.publish()
        };
        publish().map_err(|error| OutputError::write(&file.path, error))?;
        Ok(file.path.clone())
    }

    /// True if data goes directly to a device, a pipe or standard output.
    pub fn is_stream(&self) -> bool {
        matches!(self.0.place, Destination::Stream)
    }

    /// Writes the rest and commits.
    ///
    /// # Errors
    /// As [`OutputFile::commit`].
    pub fn finish(mut self, content: &[u8]) -> Result<PathBuf, OutputError> {
        self.write_all(content).map_err(|error| OutputError::write(&self.0.path, error))?;
        self.commit()
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Opens `path` for output that is useful when incomplete, such as the log of a run that was
/// killed. Data is visible at once. `-` is standard output.
///
/// # Errors
/// If the system does not let it.
pub fn stream(path: &Path) -> io::Result<File> {
    if is_standard_output(path) { standard_output() } else { File::create(path) }
}

/// True if `path` is `-` or another name of standard output.
pub fn is_standard_output(path: &Path) -> bool {
    ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].iter().any(|name| path == Path::new(name))
}

fn standard_output() -> io::Result<File> {
    #[cfg(unix)]
    let copy = std::os::fd::AsFd::as_fd(&io::stdout()).try_clone_to_owned();
    #[cfg(windows)]
    let copy = std::os::windows::io::AsHandle::as_handle(&io::stdout()).try_clone_to_owned();
    // WebAssembly has no files.
    #[cfg(not(any(unix, windows)))]
    let copy = Err::<File, _>(io::ErrorKind::Unsupported.into());
    copy.map(File::from)
}

/// Destination of the bytes of a file.
#[derive(Debug)]
enum Destination {
    /// A hidden file, which replaces `target` at the commit.
    Hidden { hidden: PathBuf, target: PathBuf },
    /// A device or a pipe.
    Stream,
}

impl Destination {
    fn publish(&self) -> io::Result<()> {
        let Destination::Hidden { hidden, target } = self else { return Ok(()) };
        match fs::rename(hidden, target) {
            // A file that is a mount point, as in containers, cannot be replaced.
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                fs::copy(hidden, target).map(drop)
            }
            other => other,
        }
    }
}

/// Opens the file that `path` names for writing.
fn begin(path: &Path) -> io::Result<(File, Destination)> {
    let target = follow(path)?;
    if is_standard_output(&target) {
        return Ok((standard_output()?, Destination::Stream));
    }
    let present = fs::metadata(&target).ok();
    match &present {
        Some(there) if there.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Some(there) if !there.is_file() || is_descriptor(&target) => {
            return Ok((OpenOptions::new().write(true).open(&target)?, Destination::Stream));
        }
        _ => {}
    }
    if present.is_some() {
        // A file without write permission is not replaced.
        OpenOptions::new().write(true).open(&target)?;
    }
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    // Names have at most 255 bytes, and the hidden one is longer.
    let name: String = name.chars().take(50).collect();
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let hidden = target.with_file_name(format!(".{name}-{number}.{}{PART}", std::process::id()));
    let file = match File::create_new(&hidden) {
        // Left by a process with the same number, or planted: a link is not
        // followed.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(&hidden)?;
            File::create_new(&hidden)?
        }
        other => other?,
    };
    // Marks the file as being written until this process ends.
    // Without locks, other processes use the process number alone.
    let _ = file.try_lock();
    if let Some(there) = present {
        take_after(&file, &there);
    }
    Ok((file, Destination::Hidden { hidden, target }))
}

/// Gives `file` the owner and the mode of the file that it replaces, as far as possible.
fn take_after(file: &File, there: &fs::Metadata) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt as _, fchown};
        let _ = fchown(file, Some(there.uid()), Some(there.gid()));
    }
    #[cfg(not(unix))]
    let _ = (file, there);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // Without the set-user-ID and set-group-ID bits.
        let mode = there.permissions().mode() & 0o777;
        let _ = file.set_permissions(fs::Permissions::from_mode(mode));
    }
}

/// Maximum number of symbolic links that are followed, as in Linux.
const MOST_LINKS: usize = 40;

/// The path behind symbolic links, which need not exist.
fn follow(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        if is_descriptor(&path) {
            return Ok(path);
        }
        match fs::symlink_metadata(&path) {
            Ok(there) if there.is_symlink() => {
                let link = fs::read_link(&path)?;
                path = path.parent().unwrap_or(Path::new("")).join(link);
            }
            // It does not exist or is not accessible: opening it gives the error.
            _ => return Ok(path),
        }
    }
    Err(io::Error::other("too many levels of symbolic links"))
}

/// True for the names of open descriptors of this process, which look like links.
fn is_descriptor(path: &Path) -> bool {
    let names: Vec<_> = path.components().filter(|part| *part != Component::CurDir).collect();
    let is = |part: &Component<'_>, name: &str| part.as_os_str() == name;
    match &names[..] {
        [Component::RootDir, dev, fd, _] => is(dev, "dev") && is(fd, "fd"),
        [Component::RootDir, proc, _, fd, _] => is(proc, "proc") && is(fd, "fd"),
        _ => false,
    }
}

/// Suffix of the names of hidden files, after the process number.
const PART: &str = ".part";

/// Removes the hidden files of processes that have ended. Doubtful files stay.
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

/// The process that made a hidden file, `.NAME.PROCESS.part`.
fn writer(name: &str) -> Option<u32> {
    let (name, process) = name.strip_prefix('.')?.strip_suffix(PART)?.rsplit_once('.')?;
    let digits = process.bytes().all(|b| b.is_ascii_digit());
    if name.is_empty() || !digits { None } else { process.parse().ok() }
}

/// True if a process of this number exists, as far as the system tells. The lock is more reliable:
/// a number means another process in another container.
fn lives(process: u32) -> bool {
    if process == std::process::id() {
        return true;
    }
    let known = Path::new("/proc").join(process.to_string());
    if !known.exists() {
        return false;
    }
    // A zombie is still listed: `7 (name) Z ..`.
    let status = fs::read_to_string(known.join("stat")).unwrap_or_default();
    let state = status.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    !matches!(state, Some('Z' | 'X'))
}

/// True if a process holds the lock of the file, or if this is unknown.
fn is_locked(path: &Path) -> bool {
    File::open(path).and_then(|file| Ok(file.try_lock()?)).is_err()
}

/// A file that is being written.
#[derive(Debug)]
pub struct StagedFile {
    writer: BufWriter<File>,
    place: Destination,
    path: PathBuf,
    /// Dropped last: the file must be removed before the folder.
    _folder: Arc<Folder>,
}

impl StagedFile {
    /// Its final path.
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
        // Fails if the file has its final name.
        if let Destination::Hidden { hidden, .. } = &self.place {
            let _ = fs::remove_file(hidden);
        }
    }
}

/// The folder, kept while files may still be written into it.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// The folders that did not exist before, the innermost first.
    made: Vec<PathBuf>,
}

impl Drop for Folder {
    fn drop(&mut self) {
        for folder in &self.made {
            // Fails, as intended, for a folder that is not empty.
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
        // The file outlives the `OutputDir`; its folder is removed with it.
        let file = OutputDir::create(&fresh).unwrap().file("z").unwrap();
        assert!(fresh.exists());
        drop(file);
        assert_eq!(entries(root.path()), ["x"]);
    }

    #[test]
    fn files_of_killed_processes_are_removed_and_no_others() {
        // Linux numbers processes up to 2^22.
        const NOBODY: u32 = (1 << 22) + 1;
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str| fs::write(root.path().join(name), "").unwrap();
        write(&format!(".flows.csv.{NOBODY}.part"));
        // In another container the number may be in use: the lock shows it.
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
        // The lock also shows that it has ended.
        drop(held);
        drop(OutputDir::create(root.path()).unwrap());
        assert!(!root.path().join(format!(".held.csv.{NOBODY}.part")).exists());
    }

    /// Writes a file and returns its final path.
    #[cfg(unix)]
    fn write(path: &Path, text: &str) -> Result<PathBuf, OutputError> {
        OutputFile::create(path)?.finish(text.as_bytes())
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_and_the_file_behind_it_is_replaced_whole() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir(at("elsewhere")).unwrap();
        fs::write(at("elsewhere/real"), "old").unwrap();
        fs::set_permissions(at("elsewhere/real"), fs::Permissions::from_mode(0o640)).unwrap();
        symlink("elsewhere/real", at("second")).unwrap();
        symlink("second", at("first")).unwrap();
        let mut file = OutputFile::create(&at("first")).unwrap();
        file.write_all(b"new").unwrap();
        file.flush().unwrap();
        assert_eq!(fs::read(at("elsewhere/real")).unwrap(), b"old");
        assert_eq!(file.commit().unwrap(), at("first"));
        assert_eq!(fs::read(at("elsewhere/real")).unwrap(), b"new");
        assert_eq!(fs::metadata(at("elsewhere/real")).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(at("first")).unwrap().is_symlink());
        assert_eq!(entries(&at("elsewhere")), ["real"]);
        // A dangling link: the file that it names is created.
        symlink("elsewhere/fresh", at("dangling")).unwrap();
        write(&at("dangling"), "made").unwrap();
        assert_eq!(fs::read(at("elsewhere/fresh")).unwrap(), b"made");
        symlink("loop", at("loop")).unwrap();
        assert!(write(&at("loop"), "x").is_err());
        // The same for files of a folder.
        let mut dir = OutputDir::create(root.path()).unwrap();
        dir.write("first", |file| file.write_all(b"third")).unwrap();
        dir.commit().unwrap();
        assert_eq!(fs::read(at("elsewhere/real")).unwrap(), b"third");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn devices_and_pipes_are_written_to_and_stay() {
        use std::os::unix::fs::{FileTypeExt as _, symlink};
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        // A link to a device, since only root makes devices. ENOSPC is 28 (errno(3)).
        symlink("/dev/full", at("full")).unwrap();
        assert_eq!(write(&at("full"), "x").unwrap_err().error.raw_os_error(), Some(28));
        symlink("/dev/null", at("null")).unwrap();
        write(&at("null"), "x").unwrap();
        let is_device = |path: &str| fs::metadata(path).unwrap().file_type().is_char_device();
        assert!(is_device("/dev/full") && is_device("/dev/null"));

        let fifo = at("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let reader = std::thread::spawn({
            let fifo = fifo.clone();
            move || fs::read_to_string(fifo).unwrap()
        });
        write(&fifo, "through the pipe").unwrap();
        assert_eq!(reader.join().unwrap(), "through the pipe");
        assert!(fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo());
        assert_eq!(entries(root.path()), ["full", "null", "pipe"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_the_place_of_the_hidden_file_is_not_followed() {
        use std::os::unix::fs::symlink;
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("victim"), "precious").unwrap();
        for number in 0..1000 {
            let hidden = format!(".x-{number}.{}.part", std::process::id());
            symlink("victim", root.path().join(hidden)).unwrap();
        }
        write(&root.path().join("x"), "mine").unwrap();
        assert_eq!(fs::read(root.path().join("victim")).unwrap(), b"precious");
        assert_eq!(fs::read(root.path().join("x")).unwrap(), b"mine");
    }

    #[test]
    fn long_names_that_begin_alike_are_different_files() {
        let root = tempfile::tempdir().unwrap();
        let mut dir = OutputDir::create(root.path()).unwrap();
        let names = ["a", "b"].map(|end| "x".repeat(200) + end);
        let mut files = names.each_ref().map(|name| dir.file(name).unwrap());
        for (file, name) in files.iter_mut().zip(&names) {
            file.write_all(name.as_bytes()).unwrap();
        }
        files.into_iter().for_each(|file| dir.complete(file).unwrap());
        dir.commit().unwrap();
        assert_eq!(entries(root.path()), names);
        for name in &names {
            assert_eq!(fs::read(root.path().join(name)).unwrap(), name.as_bytes());
        }
    }

    #[test]
    fn names_of_standard_output_are_known_and_refused_as_folders() {
        for name in ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
            assert!(is_standard_output(Path::new(name)), "{name}");
            let error = OutputDir::create(Path::new(name)).unwrap_err().to_string();
            assert!(error.contains("standard output, not a folder"), "{error}");
        }
        assert!(!is_standard_output(Path::new("./-")));
        assert!(is_descriptor(Path::new("/dev/fd/7")) && is_descriptor(Path::new("/proc/9/fd/7")));
        assert!(!is_descriptor(Path::new("/dev/full")) && !is_descriptor(Path::new("a/fd/7")));
    }

    #[test]
    fn a_folder_in_the_place_of_the_file_is_an_error_before_anything_is_written() {
        let root = tempfile::tempdir().unwrap();
        let error = OutputFile::create(root.path()).unwrap_err();
        assert_eq!(error.error.kind(), io::ErrorKind::IsADirectory);
        assert!(OutputFile::create(Path::new("..")).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_zombie_does_not_count_as_a_process() {
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
        let Destination::Hidden { hidden, .. } = &file.place else { panic!("a regular file") };
        assert!(is_locked(hidden));
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
