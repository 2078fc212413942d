//! Logs of connections in qlog, for a user who asks for them.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use quinn::{QlogConfig, TransportConfig};
use rustix::fs::{Mode, OFlags, openat};
use tracing::warn;

use crate::clock;
use crate::descent::make_folder;
use crate::error::{Error, Result};

/// Most logs of one folder and process, so that strangers who connect again and again do not fill
/// the disk.
const MOST: u32 = 1000;

/// A folder with a log for each connection.
#[derive(Debug)]
pub struct Qlog {
    path: PathBuf,
    folder: OwnedFd,
    count: AtomicU32,
}

impl Qlog {
    /// Opens the folder, or makes it.
    pub fn open(folder: &Path) -> Result<Self> {
        let (path, folder) =
            make_folder(folder).map_err(Error::file(folder, "cannot make the folder"))?;
        Ok(Qlog { path, folder, count: AtomicU32::new(0) })
    }

    /// Lets a connection of this side (`client` or `server`) write a log:
    /// `SIDE-MILLISECONDS-NUMBER.sqlog`, with the milliseconds since 1970. A connection goes on if
    /// its log cannot be written.
    pub(crate) fn attach(&self, transport: &mut TransportConfig, side: &str) {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        if number >= MOST {
            if number == MOST {
                warn!("{MOST} logs are in {}: no more are written", self.path.display());
            }
            // The counter does not come round.
            self.count.store(MOST + 1, Ordering::Relaxed);
            return;
        }
        let milliseconds = clock::time_of_day().as_millis();
        let name = format!("{side}-{milliseconds}-{number}.sqlog");
        let path = self.path.join(&name);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let sink = match openat(&self.folder, name, flags, Mode::from_raw_mode(0o644)) {
            Ok(file) => Sink { file: Some(BufWriter::new(file.into())), path },
            Err(error) => return warn!("{}: cannot write: {error}", path.display()),
        };
        let mut config = QlogConfig::default();
        config.writer(Box::new(sink)).title(Some(format!("windward {side}")));
        config.start_time(clock::now());
        transport.qlog_stream(config.into_stream());
    }
}

/// A file that is given up at the first error, with one warning and not one for each event.
struct Sink {
    file: Option<BufWriter<File>>,
    path: PathBuf,
}

impl Sink {
    fn attempt<T>(
        &mut self,
        otherwise: T,
        what: impl FnOnce(&mut BufWriter<File>) -> io::Result<T>,
    ) -> T {
        let Some(file) = &mut self.file else { return otherwise };
        what(file).unwrap_or_else(|error| {
            warn!("{}: cannot write: {error}; the log ends here", self.path.display());
            // The buffer is lost.
            drop(self.file.take().map(BufWriter::into_parts));
            otherwise
        })
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(self.attempt(bytes.len(), |file| file.write(bytes)))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.attempt((), BufWriter::flush);
        Ok(())
    }
}
