//! A control group whose connections have the controller.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use libbpf_rs::Link;
use rustix::mount::{MountFlags, UnmountFlags};
use tempfile::TempDir;

use crate::object::{KernelError, open_with, refused};

const PROGRAM: &[u8] = include_bytes!("../bpf/select.bpf.o");

/// Gives a controller to the connections of a control group of version 2, until it is dropped, or
/// longer if it is pinned.
#[derive(Debug)]
pub struct Selection {
    link: Link,
}

impl Selection {
    /// Gives the controller of this name, of at most 15 bytes, to the connections of this group
    /// with this local port, or to all.
    ///
    /// # Errors
    /// If it is not a group of version 2, or the kernel refuses the program.
    pub fn of(name: &str, group: &Path, port: Option<u16>) -> Result<Self, KernelError> {
        let file = |why| KernelError::File { path: group.to_owned(), why };
        Groups::level(group)?;
        // As `bpf/select.bpf.c` lays them out.
        let mut settings = [0; 20];
        settings[..4].copy_from_slice(&u32::from(port.unwrap_or(0)).to_ne_bytes());
        settings[4..19].iter_mut().zip(name.bytes()).for_each(|(to, byte)| *to = byte);
        let open = open_with(PROGRAM, &settings)?;
        let object = open.load().map_err(refused("load the program that selects connections"))?;
        let directory = fs::File::open(group).map_err(file)?;
        let program = object.progs_mut().next();
        let program =
            program.ok_or_else(|| KernelError::Lacks("the program `choose`".to_owned()))?;
        let link = program
            .attach_cgroup(directory.as_raw_fd())
            .map_err(refused("select the connections of a control group"))?;
        Ok(Selection { link })
    }

    /// Pins it under this path of a file system of BPF: it stays when this is dropped.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn pin(&mut self, path: &Path) -> Result<(), KernelError> {
        self.link.pin(path).map_err(refused("pin the selection of connections"))
    }
}

/// The file system of control groups of version 2. If none is mounted, one is while this lives.
#[derive(Debug)]
pub struct Groups {
    path: PathBuf,
    mounted: Option<TempDir>,
}

impl Groups {
    /// Finds or mounts it.
    ///
    /// # Errors
    /// If none is mounted and it cannot be.
    pub fn open() -> Result<Self, KernelError> {
        if let Some(path) = mounted("cgroup2") {
            return Ok(Groups { path, mounted: None });
        }
        let place = tempfile::tempdir()
            .map_err(|why| KernelError::File { path: std::env::temp_dir(), why })?;
        let path = place.path().to_owned();
        mount("cgroup2", &path)?;
        Ok(Groups { path, mounted: Some(place) })
    }

    /// Number of groups above this one.
    ///
    /// # Errors
    /// If the path is not that of a group of version 2.
    pub(crate) fn level(group: &Path) -> Result<i32, KernelError> {
        let wrong = |why| KernelError::File { path: group.to_owned(), why };
        let group = fs::canonicalize(group).map_err(wrong)?;
        let top = mounted("cgroup2").unwrap_or_default();
        let below = group.strip_prefix(&top).ok().filter(|_| group.join("cgroup.procs").exists());
        let below = below.ok_or_else(|| {
            let why = "no control group of version 2";
            KernelError::File { path: group.clone(), why: io::Error::other(why) }
        })?;
        Ok(below.components().count() as i32)
    }

    /// The group of all programs.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        if self.mounted.is_some() {
            let _ = rustix::mount::unmount(&self.path, UnmountFlags::DETACH);
        }
    }
}

/// Where the file system of BPF belongs.
const BPF: &str = "/sys/fs/bpf";

/// Mounts the file system of BPF at /sys/fs/bpf, and returns true, if it is not there.
///
/// # Errors
/// If it cannot be mounted.
pub fn mount_bpf() -> Result<bool, KernelError> {
    let is_there = mounted("bpf").is_some();
    if !is_there {
        mount("bpf", Path::new(BPF))?;
    }
    Ok(!is_there)
}

/// Unmounts it, if nobody has pinned anything there.
pub fn unmount_bpf() {
    let pins = fs::read_dir(BPF).into_iter().flatten().flatten();
    // The kernel's own files are maps.debug and progs.debug.
    if !pins.map(|pin| pin.path()).any(|pin| pin.extension().is_none_or(|end| end != "debug")) {
        let _ = rustix::mount::unmount(BPF, UnmountFlags::empty());
    }
}

/// Where a file system of this kind is mounted.
fn mounted(kind: &str) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mut mounts = mounts.lines().map(|line| line.split(' '));
    mounts.find_map(|mut words| {
        let (place, known) = (words.nth(1)?, words.next()?);
        (known == kind).then(|| PathBuf::from(place))
    })
}

fn mount(kind: &str, place: &Path) -> Result<(), KernelError> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount("none", place, kind, flags, None)
        .map_err(|why| KernelError::File { path: place.to_owned(), why: why.into() })
}

/// A control group of its own for one program. It is removed when dropped.
#[derive(Debug)]
pub struct Group<'a> {
    groups: &'a Groups,
    path: PathBuf,
}

impl<'a> Group<'a> {
    /// Makes a group of this name.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn make(groups: &'a Groups, name: &str) -> Result<Self, KernelError> {
        let path = groups.path.join(name);
        fs::create_dir(&path).map_err(|why| KernelError::File { path: path.clone(), why })?;
        Ok(Group { groups, path })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Starts a program in the group: this process enters it for that moment.
    ///
    /// # Errors
    /// If the group cannot be entered or left, or `start` fails.
    pub fn start<T>(&self, start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let this = std::process::id().to_string();
        let before = fs::read_to_string("/proc/self/cgroup")?;
        let before = before.lines().find_map(|line| line.strip_prefix("0::"));
        let before = before.unwrap_or_default().trim_start_matches('/');
        fs::write(self.path.join("cgroup.procs"), &this)?;
        let started = start();
        fs::write(self.groups.path.join(before).join("cgroup.procs"), &this)?;
        started
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        // A program may have left children, which keep the group: it has no effect any more.
        let _ = fs::remove_dir(&self.path);
    }
}
