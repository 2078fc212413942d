//! Controllers in shared libraries: loaded in a child process, whose end is a verdict.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use windward_core::endpoint::window::ControllerConfig;
use windward_core::part::{Custom, CustomPart, checksum};
use windward_core::protocols::{self, Protocol};
use windward_evaluation::{FaultyController, Suite};
use windward_experiments::experiment::Subject;
use windward_native::{NativeController, end_with_parent, watch};

use crate::effort;
use crate::failure::Failure;
use crate::output;
use crate::python::Python;
use crate::signals;

/// The variable that names the file for the verdict, in the environment of the child.
const CHILD: &str = "WINDWARD_NATIVE_VERDICT";
/// Seconds after which a call that has not returned counts as endless.
const ENDLESS: u32 = 10;
/// First line of the file once the child has ended its work by itself.
const ENDED: &str = "ended";
/// Interval between two looks at the child.
const PERIOD: Duration = Duration::from_millis(20);
/// Looks at the child after Ctrl-C before it is ended: ten seconds.
const PATIENCE: u32 = 500;

/// A controller in a library: `FILE.so`, or `NAME=FILE.so`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Library {
    /// Name in reports, if it is given.
    name: Option<String>,
    file: PathBuf,
}

impl Library {
    /// Reads one; `None` if no library is meant.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (name, file) = match text.split_once('=') {
            Some((name, file)) if !name.contains(['/', '{']) => {
                (Some(name.trim().to_owned()), file.trim())
            }
            _ => (None, text),
        };
        let file = Path::new(file);
        let extension = file.extension()?.to_str()?;
        let is_library = ["so", "dylib", "dll"].contains(&extension);
        is_library.then(|| Library { name, file: file.to_owned() })
    }

    /// Its name where it cannot be loaded.
    fn label(&self) -> String {
        let stem = || self.file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        self.name.clone().or_else(stem).unwrap_or_default()
    }

    /// The subject with that controller: like `cubic` in all but the window. Call it in a child.
    pub(crate) fn subject(&self, given: &str) -> Result<Subject, Failure> {
        let wrong = |problem: String| Failure::Input(format!("{given}: {problem}"));
        let library = fs::read(&self.file).map_err(|error| wrong(error.to_string()))?;
        let controller = NativeController::load(&self.file).map_err(wrong)?;
        let name = match (&self.name, controller.name()) {
            (Some(name), _) => name.clone(),
            (None, "") => self.label(),
            (None, name) => name.to_owned(),
        };
        let needs_numbers = !controller.needs().is_empty();
        let others = if needs_numbers { "bbr" } else { "cubic" };
        let others =
            protocols::find(others).ok_or_else(|| wrong(format!("there is no {others}")))?;
        let crc = checksum(&library);
        let protocol = Protocol {
            name: name.leak(),
            source: format!("{}, CRC-32 {crc:08x}", self.file.display()).leak(),
            summary: controller.words().what,
            window: ControllerConfig::Custom(Custom(controller)),
            ..*others
        };
        let subject = Subject::own(protocol).map_err(wrong)?;
        Ok(Subject { given: given.trim().to_owned(), ..subject })
    }
}

/// True in the child.
pub(crate) fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Prepares the child: a call that never returns ends it with a verdict.
pub(crate) fn begin_child() {
    end_with_parent();
    watch(ENDLESS, |stuck| {
        tell(&stuck.to_string());
        std::process::exit(1);
    });
}

/// Tells the parent, in the child.
fn tell(text: &str) {
    let Some(path) = std::env::var_os(CHILD) else { return };
    // Without the file the parent sees that the child ended, and says so.
    let file = OpenOptions::new().append(true).open(path);
    let _ = file.and_then(|mut file| file.write_all(text.as_bytes()));
}

/// Tells the parent of the result of the work, in the child. A fault of a library is told and not
/// printed.
pub(crate) fn end_child(done: Result<(), Failure>) -> Result<(), Failure> {
    match done {
        Err(Failure::Part(fault)) => {
            tell(&fault);
            Err(Failure::Command(1))
        }
        done => {
            tell(ENDED);
            done
        }
    }
}

/// Does the same work in a child that loads the libraries, and reports how they fail.
pub(crate) fn in_child(
    libraries: &[Library],
    suite: &Suite,
    only: &[String],
    out: &Path,
    python: &Python<'_>,
) -> Result<(), Failure> {
    for Library { file, .. } in libraries {
        if !file.is_file() {
            return Err(Failure::Input(format!("there is no file {}", file.display())));
        }
    }
    let verdict = VerdictFile::create()?;
    let mut command = Command::new(python.itself()?);
    command.args(python.module()).args(&python.arguments).env(CHILD, &verdict.0);
    let mut child = command.spawn().map_err(|error| {
        Failure::Failed(format!("a process for the library cannot be started: {error}"))
    })?;
    let mut patience = PATIENCE;
    let status = loop {
        let ended = child.try_wait().map_err(|error| Failure::Failed(error.to_string()))?;
        if let Some(status) = ended {
            break status;
        }
        // The child has got the signal of a terminal too; that of `kill` only this process.
        if signals::flag().load(Ordering::Relaxed) {
            patience = patience.saturating_sub(1);
            if patience == 0 {
                let _ = child.kill();
            }
        }
        std::thread::sleep(PERIOD);
    };
    let told = fs::read_to_string(&verdict.0).unwrap_or_default();
    drop(verdict);
    signals::check()?;
    let fault = match (&*told, status.code()) {
        (ENDED, Some(0)) => return Ok(()),
        (ENDED, code) => return Err(Failure::Command(code.unwrap_or(1).try_into().unwrap_or(1))),
        ("", _) => died(status)?,
        (fault, _) => fault.to_owned(),
    };
    let names: Vec<String> = libraries.iter().map(Library::label).collect();
    let subject = names.join(" or ");
    let fault = fault.strip_prefix(&format!("{subject}: ")).unwrap_or(&fault).to_owned();
    let faulty = FaultyController { subject, fault };
    let index = faulty.write(suite, only, &effort::about(), out)?;
    output::print(&format!("{}\n\nThe report is {}\n", faulty.sentence(), index.display()))?;
    Err(Failure::Command(1))
}

/// How a child ended that had told nothing: the fault of a library, or an error.
fn died(status: ExitStatus) -> Result<String, Failure> {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        // The numbers of Linux and macOS that differ are left out.
        let name = match signal {
            4 => "SIGILL, an illegal instruction",
            5 => "SIGTRAP, a trap",
            6 => "SIGABRT, an abort",
            8 => "SIGFPE, an invalid arithmetic operation",
            11 => "SIGSEGV, an invalid memory access",
            7 => "SIGBUS, an invalid memory access",
            _ => {
                let text = format!("the process with the library was ended by signal {signal}");
                return Err(Failure::Failed(text));
            }
        };
        return Ok(format!("it crashed with {name}"));
    }
    Ok(format!("it ended the process ({status})"))
}

/// The file through which the child tells of faults, removed at the end.
#[derive(Debug)]
struct VerdictFile(PathBuf);

impl VerdictFile {
    fn create() -> Result<Self, Failure> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("windward-verdict-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(OsString::from(name));
        // One that is left from a process of the same number.
        let _ = fs::remove_file(&path);
        let made = OpenOptions::new().write(true).create_new(true).open(&path);
        made.map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
        Ok(VerdictFile(path))
    }
}

impl Drop for VerdictFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_told_from_other_subjects() {
        let read = |text: &str| Library::parse(text).map(|l| (l.label(), l.file));
        let so = |name: &str, file: &str| Some((name.to_owned(), PathBuf::from(file)));
        assert_eq!(read("./libmine.so"), so("libmine", "./libmine.so"));
        assert_eq!(read("mine=a/b.dylib"), so("mine", "a/b.dylib"));
        for text in ["cubic", "quinn:cubic", "mine={ window = { on_ack = \"a.so\" } }", "a.py:B"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
