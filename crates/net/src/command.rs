//! Shell commands in network namespaces, with their output in memory.

use std::fs::File;
use std::io::{Read, Seek};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::fs::{MemfdFlags, memfd_create};
use windward_netns::{Inside, Namespace};

use crate::error::Error;
use crate::testbed::listens;

/// Maximum length of the standard error of a program that is shown, bytes.
pub(crate) const SAID: usize = 600;
/// Number of checks, 20 ms apart, for a command that listens.
const LOOKS: u32 = 100;

/// Output of a command, in memory.
fn paper() -> Result<File, Error> {
    let file = memfd_create("windward", MemfdFlags::CLOEXEC);
    let failed = Error::doing("make a file in memory");
    file.map(File::from).map_err(|error| failed(error.into()))
}

fn read(file: &mut File) -> String {
    let mut bytes = Vec::new();
    // Reading from memory does not fail.
    let _ = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A command under way.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) child: Inside,
    stdout: File,
    stderr: File,
}

impl Started {
    pub(crate) fn new(namespace: &Namespace, command: &str) -> Result<Self, Error> {
        let (stdout, stderr) = (paper()?, paper()?);
        let copies = stdout.try_clone().and_then(|out| Ok((out, stderr.try_clone()?)));
        let (out, err) = copies.map_err(Error::doing("share a file in memory"))?;
        let child = namespace.spawn("/bin/sh", |sh| {
            sh.arg("-c").arg(command).stdin(Stdio::null()).stdout(out).stderr(err)
        })?;
        Ok(Started { child, stdout, stderr })
    }

    /// Waits a moment until it listens.
    pub(crate) fn wait_until_it_listens(&self, stop: &AtomicBool) {
        for _ in 0..LOOKS {
            if listens(self.child.id()) || stop.load(Ordering::Relaxed) {
                return;
            }
            thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// Everything that it wrote to standard output and standard error.
    pub(crate) fn wrote(&mut self) -> [String; 2] {
        [read(&mut self.stdout), read(&mut self.stderr)]
    }

    /// End of its standard error.
    pub(crate) fn said(&mut self) -> String {
        let said = read(&mut self.stderr);
        let mut from = said.len().saturating_sub(SAID);
        while !said.is_char_boundary(from) {
            from += 1;
        }
        said[from..].trim().to_owned()
    }
}
