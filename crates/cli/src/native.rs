//! Controllers in shared libraries.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

use windward_core::endpoint::window::ControllerConfig;
use windward_core::part::{Custom, CustomPart, checksum};
use windward_core::protocols::{self, Protocol};
use windward_experiments::experiment::Subject;
use windward_native::NativeController;

use crate::failure::Failure;

/// A controller in a library: `FILE.so`, or `NAME=FILE.so`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Library {
    /// Name in reports, if it is given.
    name: Option<String>,
    /// The file.
    pub(crate) file: PathBuf,
}

impl Library {
    /// Reads one; `None` if no library is meant.
    pub(crate) fn parse(text: &OsStr) -> Option<Self> {
        let text = text.as_encoded_bytes().trim_ascii();
        let (name, file) = match text.iter().position(|byte| *byte == b'=') {
            Some(end) if !text[..end].iter().any(|byte| b"/{".contains(byte)) => {
                let name = std::str::from_utf8(&text[..end]).ok()?;
                (Some(name.trim().to_owned()), text[end + 1..].trim_ascii())
            }
            _ => (None, text),
        };
        let file = path(file)?;
        let extension = file.extension()?.to_str()?;
        let is_library = ["so", "dylib", "dll"].contains(&extension);
        is_library.then_some(Library { name, file })
    }

    /// Its name before it is loaded.
    pub(crate) fn label(&self) -> String {
        let stem = || self.file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        self.name.clone().or_else(stem).unwrap_or_default()
    }

    /// The subject with that controller: like `cubic` in all but the window. Call it in a worker.
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

/// The path of these bytes, which may be no UTF-8 where paths are bytes.
fn path(bytes: &[u8]) -> Option<PathBuf> {
    #[cfg(unix)]
    return Some(<OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes).into());
    #[cfg(not(unix))]
    std::str::from_utf8(bytes).ok().map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_told_from_other_subjects() {
        let read = |text: &str| Library::parse(text.as_ref()).map(|l| (l.label(), l.file));
        let so = |name: &str, file: &str| Some((name.to_owned(), PathBuf::from(file)));
        assert_eq!(read("./libmine.so"), so("libmine", "./libmine.so"));
        assert_eq!(read("mine=a/b.dylib"), so("mine", "a/b.dylib"));
        for text in ["cubic", "quinn:cubic", "mine={ window = { on_ack = \"a.so\" } }", "a.py:B"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
