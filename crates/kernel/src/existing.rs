//! Another controller for connections in progress.

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use libbpf_rs::{Iter, MapCore, MapFlags};

use crate::group::Groups;
use crate::object::{KernelError, open_with, refused};

const PROGRAM: &[u8] = include_bytes!("../bpf/existing.bpf.o");

/// Bytes of a controller's name, with a zero.
const NAME: usize = 16;

/// Connections in progress.
#[derive(Debug, Clone, Copy, Default)]
pub struct Existing<'a> {
    /// Only those that have this controller.
    pub controller: Option<&'a str>,
    /// Only those with this local port.
    pub port: Option<u16>,
    /// Only those of this control group of version 2, and of the groups below it.
    pub group: Option<&'a Path>,
}

impl Existing<'_> {
    /// Gives another controller to those of the calling thread's network namespace, and to sockets
    /// that listen there. Returns their number.
    ///
    /// # Errors
    /// If the group has not version 2, or the kernel refuses the program.
    pub fn give(&self, controller: &str) -> Result<u64, KernelError> {
        let open = open_with(PROGRAM, &self.settings(controller)?)?;
        let object = open.load().map_err(refused("load the program that changes connections"))?;
        let program = object.progs_mut().next();
        let program =
            program.ok_or_else(|| KernelError::Lacks("the program `change`".to_owned()))?;
        let link = program.attach().map_err(refused("list connections"))?;
        let mut sockets = Iter::new(&link).map_err(refused("list connections"))?;
        let file = |why| KernelError::File { path: "the list of connections".into(), why };
        // The program writes nothing: reading runs it.
        sockets.read_to_end(&mut Vec::new()).map_err(file)?;
        let counts = object.maps().find(|map| map.name().to_string_lossy().ends_with(".bss"));
        let count = counts.and_then(|map| map.lookup(&[0; 4], MapFlags::ANY).ok().flatten());
        let bytes = count.and_then(|count| count.get(..8)?.try_into().ok());
        Ok(bytes.map_or(0, u64::from_ne_bytes))
    }

    /// The settings as `bpf/existing.bpf.c` lays them out.
    fn settings(&self, controller: &str) -> Result<[u8; 48], KernelError> {
        let mut settings = [0; 48];
        for (at, name) in [(0, controller), (NAME, self.controller.unwrap_or_default())] {
            let most = NAME - 1;
            let name = &name.as_bytes()[..name.len().min(most)];
            settings[at..at + name.len()].copy_from_slice(name);
        }
        let (number, level) = match self.group {
            None => (0, -1),
            Some(group) => {
                let file = |why| KernelError::File { path: group.to_owned(), why };
                let number = fs::metadata(group).map_err(file)?.ino();
                (number, Groups::level(group)?)
            }
        };
        settings[32..40].copy_from_slice(&number.to_ne_bytes());
        settings[40..44].copy_from_slice(&level.to_ne_bytes());
        settings[44..].copy_from_slice(&u32::from(self.port.unwrap_or(0)).to_ne_bytes());
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_their_places() {
        let existing = Existing { controller: Some("cubic"), port: Some(443), group: None };
        let settings = existing.settings("windward").unwrap();
        assert_eq!(&settings[..9], b"windward\0");
        assert_eq!(&settings[16..22], b"cubic\0");
        assert_eq!(settings[40..44], (-1_i32).to_ne_bytes());
        assert_eq!(settings[44..], 443_u32.to_ne_bytes());
        // A longer name than a controller can have has no effect on what follows.
        assert_eq!(existing.settings(&"x".repeat(99)).unwrap()[15..22], *b"\0cubic\0");
    }
}
