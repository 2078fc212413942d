//! Network namespaces that this process has made.

use std::fmt::Write;
use std::fs::{self, File};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;

use nix::sched::{CloneFlags, unshare};
use rustix::fs::{fstat, stat, statfs};
use rustix::mount::{
    MountPropagationFlags, UnmountFlags, mount_bind, mount_bind_recursive, mount_change, unmount,
};
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::{Context, Result};
use crate::guard::{GUARD, Hold, hold};
use crate::nat::{FORWARDING, sweep_forwarding};
use crate::netlink::{Device, Netlink};
use crate::resolver::{self, Files};

/// A network of its own: devices, addresses, routes and ports apart from all others; at first
/// nothing but a loopback device that is up.
///
/// It has no name, unless [published](Namespace::publish), and is gone when this is dropped and
/// nobody is in it any longer. A thread is in one namespace, and what it starts begins there; so all
/// that is to happen in this one goes through [`run`](Namespace::run) and
/// [`spawn`](Namespace::spawn), which make a thread for it.
#[derive(Debug)]
pub struct Namespace {
    /// Before the network: the guard lets go of it first.
    _hold: Option<Hold>,
    network: OwnedFd,
    /// What programs inside read instead of files.
    files: Files,
    name: Option<PathBuf>,
}

impl Namespace {
    /// Makes one.
    ///
    /// # Errors
    /// Without the capability CAP_SYS_ADMIN in the present user namespace (see
    /// [`become_root`](crate::become_root)), and where the limit of namespaces
    /// (/proc/sys/user/max_net_namespaces) is reached.
    pub fn new() -> Result<Self> {
        let network = on_a_thread(|| -> Result<OwnedFd> {
            unshare(CloneFlags::CLONE_NEWNET).context(|| "cannot make a network namespace")?;
            loopback_up()?;
            present()
        })??;
        Ok(Namespace { _hold: hold(&network), network, files: Files::new(), name: None })
    }

    /// Runs `task` on a thread in this namespace and waits for it. Sockets made there stay there,
    /// whoever uses them. Panics of the task go on in the caller.
    ///
    /// # Errors
    /// If a thread cannot be made or may not enter the namespace.
    pub fn run<T: Send>(&self, task: impl FnOnce() -> T + Send) -> Result<T> {
        on_a_thread(|| {
            self.enter()?;
            Ok(task())
        })?
    }

    /// Brings the calling thread here, for good.
    fn enter(&self) -> Result<()> {
        move_into_link_name_space(self.network.as_fd(), Some(LinkNameSpaceType::Network))
            .context(|| "cannot enter a network namespace")
    }

    /// Brings the calling thread here and before its own files, if some are set.
    pub(crate) fn move_in(&self) -> Result<()> {
        self.enter()?;
        resolver::replace(&self.files)
    }

    /// The same namespace, held once more, without the name.
    ///
    /// # Errors
    /// Without descriptors.
    pub fn again(&self) -> io::Result<Self> {
        let network = self.network.try_clone()?;
        Ok(Namespace { _hold: None, network, files: self.files.clone(), name: None })
    }

    /// What programs started from now on read as /etc/resolv.conf. It is bound over that file in
    /// a mount namespace that only they see.
    pub fn set_resolv_conf(&mut self, text: impl Into<String>) {
        self.files.insert(resolver::RESOLV_CONF.into(), text.into());
    }

    /// Lets programs started from now on know these names, in their /etc/hosts before what is in it
    /// outside.
    pub fn set_hosts<'a>(&mut self, hosts: impl IntoIterator<Item = (IpAddr, &'a str)>) {
        let mut text = String::new();
        for (address, name) in hosts {
            let _ = writeln!(text, "{address} {name}");
        }
        text += &fs::read_to_string(resolver::HOSTS).unwrap_or_default();
        self.files.insert(resolver::HOSTS.into(), text);
    }

    /// Makes name resolution work for programs started from now on, if it can be and has to:
    /// nothing happens where /etc/resolv.conf names a server that is not this machine itself, and
    /// the loopback device inside is another than outside. The servers behind a systemd-resolved
    /// take the place of such a resolver; without one, `gateway` does, where somebody must then
    /// answer.
    ///
    /// # Errors
    /// If /etc/resolv.conf is there and cannot be read.
    pub fn use_resolver(&mut self, gateway: IpAddr) -> Result<()> {
        let read = |path: &str| match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            other => other.map(Some).context(|| format!("cannot read {path}")),
        };
        let Some(text) = read(resolver::RESOLV_CONF)? else { return Ok(()) };
        // The servers that systemd-resolved asks are an improvement, and no error if unreadable.
        let behind = read(resolver::BEHIND).unwrap_or_default();
        if let Some(inside) = resolver::inside(&text, behind.as_deref(), gateway) {
            self.set_resolv_conf(inside);
        }
        Ok(())
    }

    /// Device and inode of its file, by which /proc/PID/ns/net is compared.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn id(&self) -> Result<(u64, u64)> {
        let file = fstat(&self.network).context(|| "cannot look at a network namespace")?;
        Ok((file.st_dev, file.st_ino))
    }

    /// Kills every process in it but this one, and says how many there were.
    ///
    /// # Errors
    /// If /proc cannot be read.
    pub fn kill_all(&self) -> Result<usize> {
        kill_inside(self.network.as_fd())
    }

    /// Gives it a name that `ip netns` and [`published`] know, under /run/netns, until it is
    /// dropped: the returned path ends in `windward-`, the process, when that began, and `label`. What
    /// processes that are gone have left is [swept](sweep) first. Files that are set later are not
    /// seen by those who enter by name.
    ///
    /// # Errors
    /// If it has a name, if `label` is not of letters, digits, dashes and underscores, or without the
    /// right to mount.
    pub fn publish(&mut self, label: &str) -> Result<&Path> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if label.is_empty() || !label.chars().all(plain) || self.name.is_some() {
            return Err(io::Error::from(io::ErrorKind::InvalidInput)).context(|| {
                format!("cannot name a network namespace '{label}': letters, digits, dashes and underscores, once")
            });
        }
        sweep()?;
        let path = Path::new(NAMES).join(own_name(label));
        let what = || format!("cannot name a network namespace {}", path.display());
        fs::create_dir_all(NAMES).context(what)?;
        make_shared().context(what)?;
        // First what is beside it: who sees the namespace by its name must see that too.
        if !self.files.is_empty() {
            let text = serde_json::to_string(&self.files).map_err(io::Error::from).context(what)?;
            fs::create_dir_all(BESIDE).context(what)?;
            fs::write(beside(&path), text).context(what)?;
        }
        let source = format!("/proc/self/fd/{}", self.network.as_raw_fd());
        let bound = File::create_new(&path).and_then(|_| Ok(mount_bind(source, &path)?));
        if let Err(error) = bound {
            let _ = fs::remove_file(&path);
            let _ = fs::remove_file(beside(&path));
            return Err(error).context(what);
        }
        Ok(self.name.insert(path))
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.network.as_fd()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Some(path) = &self.name {
            forget(path);
        }
    }
}

/// Where `ip netns` keeps names.
const NAMES: &str = "/run/netns";
/// How ours begin.
const OURS: &str = "windward-";

/// The name that nobody else has.
pub(crate) fn own_name(label: &str) -> String {
    let process = std::process::id();
    let began = started(process).unwrap_or(0);
    format!("{OURS}{process}-{began}-{label}")
}

/// Makes the directory of names a mount of its own that others share, as `ip netns` does: names that
/// are bound before that one does could not be removed any more.
fn make_shared() -> io::Result<()> {
    let shared = MountPropagationFlags::SHARED | MountPropagationFlags::REC;
    if mount_change(NAMES, shared) == Err(rustix::io::Errno::INVAL) {
        mount_bind_recursive(NAMES, NAMES)?;
        mount_change(NAMES, shared)?;
    }
    Ok(())
}

/// Where there is a file for each of these names that has [`Files`] of its own.
pub(crate) const BESIDE: &str = "/run/windward";

fn beside(path: &Path) -> PathBuf {
    Path::new(BESIDE).join(path.file_name().unwrap_or_default())
}

/// A namespace that some process has [published](Namespace::publish).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The process, which may be gone.
    pub process: u32,
    /// When that began, in clock ticks since boot.
    began: u64,
    /// What it was published as.
    pub label: String,
    path: PathBuf,
}

impl Published {
    /// Is the process that has published it still there?
    pub fn is_alive(&self) -> bool {
        // A process number comes back; together with the time of its start it does not.
        started(self.process) == Some(self.began)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Brings the calling thread into it, for good, and before its files.
    ///
    /// # Errors
    /// Without the rights, and if it has gone meanwhile.
    pub fn enter(&self) -> Result<()> {
        let what = || format!("cannot enter the network namespace {}", self.label);
        let network = File::open(&self.path).context(what)?.into();
        let files = match fs::read_to_string(beside(&self.path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Files::new(),
            other => serde_json::from_str(&other.context(what)?)
                .map_err(io::Error::from)
                .context(what)?,
        };
        Namespace { _hold: None, network, files, name: None }.move_in()
    }
}

/// The namespaces that were published, also by processes that are gone.
///
/// # Errors
/// If /run/netns is there and cannot be read.
pub fn published() -> Result<Vec<Published>> {
    let mut all = names()?;
    // One that is being published has its name before it is one (NSFS_MAGIC, linux/magic.h).
    all.retain(|name| statfs(&name.path).is_ok_and(|of| of.f_type as u64 == 0x6e73_6673));
    Ok(all)
}

/// All names that may be of published namespaces.
fn names() -> Result<Vec<Published>> {
    names_in(NAMES)
}

pub(crate) fn names_in(directory: &str) -> Result<Vec<Published>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.context(|| format!("cannot read {directory}"))?,
    };
    let mut all: Vec<Published> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let mut parts = name.to_str()?.strip_prefix(OURS)?.splitn(3, '-');
            Some(Published {
                process: parts.next()?.parse().ok()?,
                began: parts.next()?.parse().ok()?,
                label: parts.next()?.to_owned(),
                path: entry.path(),
            })
        })
        .collect();
    all.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(all)
}

/// Removes the names under /run/netns of processes that ended without doing so themselves, kills
/// what still runs in those namespaces, and switches off the [forwarding](crate::Pair::masquerade) that
/// they needed.
///
/// # Errors
/// If that directory is there and cannot be read.
pub fn sweep() -> Result<()> {
    for stale in names()?.into_iter().filter(|published| !published.is_alive()) {
        // Only a namespace can be opened here whose name is still bound.
        if let Ok(network) = File::open(&stale.path) {
            let _ = kill_inside(network.as_fd());
        }
        forget(&stale.path);
    }
    sweep_forwarding()?;
    // A process may have ended between making this and the name.
    // What another network needs restored, only a process in that can restore.
    let is_stale = |name: &Published| !name.is_alive() && !name.label.starts_with(FORWARDING);
    for stale in names_in(BESIDE)?.into_iter().filter(is_stale) {
        let _ = fs::remove_file(stale.path);
    }
    Ok(())
}

fn forget(path: &Path) {
    // There is nobody to tell if it is gone already.
    let _ = unmount(path, UnmountFlags::DETACH);
    let _ = fs::remove_file(path);
    let _ = fs::remove_file(beside(path));
}

/// True for the guard of a process inside: it ends that process' own programs once that is gone, and
/// then itself.
fn is_guard(process: &Path) -> bool {
    let line = fs::read(process.join("cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).nth(1) == Some(GUARD.as_bytes())
}

/// Every process of which `network` is the namespace, but the calling one and guards; held, so that no
/// other takes its number.
fn processes_in(network: BorrowedFd<'_>) -> Result<impl Iterator<Item = OwnedFd>> {
    let what = || "cannot look for processes in a network namespace";
    let file = fstat(network).context(what)?;
    let ours = move |path: PathBuf| {
        stat(path.join("ns/net"))
            .is_ok_and(|other| (other.st_dev, other.st_ino) == (file.st_dev, file.st_ino))
    };
    let all = fs::read_dir("/proc").context(what)?;
    Ok(all.flatten().filter_map(move |entry| {
        let number = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        let process = number.and_then(Pid::from_raw).filter(|process| *process != getpid())?;
        if !ours(entry.path()) || is_guard(&entry.path()) {
            return None;
        }
        // Looked at once more while it is held: its number may have been another's before.
        pidfd_open(process, PidfdFlags::empty()).ok().filter(|_| ours(entry.path()))
    }))
}

/// Kills every process of which `network` is the namespace, but the calling one.
pub(crate) fn kill_inside(network: BorrowedFd<'_>) -> Result<usize> {
    let mut killed = 0;
    // What is started while we look is found by looking again.
    for _ in 0..16 {
        let mut found = 0;
        for held in processes_in(network)? {
            if pidfd_send_signal(&held, Signal::KILL).is_ok() {
                found += 1;
            }
        }
        killed += found;
        if found == 0 {
            break;
        }
        thread::sleep(std::time::Duration::from_millis(5));
    }
    Ok(killed)
}

/// When a process was started, in clock ticks since boot (proc(5), field 22 of stat); `None` if there is
/// no such process, or if it has ended and its parent has not asked for its status.
fn started(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field, in parentheses, may contain anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    let started = fields.nth(18)?.parse().ok()?;
    (!["Z", "X"].contains(&state)).then_some(started)
}

/// The network namespace of the calling thread.
pub(crate) fn present() -> Result<OwnedFd> {
    let path = "/proc/thread-self/ns/net";
    Ok(File::open(path).context(|| format!("cannot open {path}"))?.into())
}

/// Switches on the loopback device of the calling thread's namespace.
pub(crate) fn loopback_up() -> Result<()> {
    let mut netlink = Netlink::new()?;
    let index = netlink.index("lo")?;
    netlink.switch_on(index, &Device::default())
}

/// Runs `task` on a thread of its own, which may change what it likes about itself.
fn on_a_thread<T: Send>(task: impl FnOnce() -> T + Send) -> Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("namespace".into())
            .spawn_scoped(scope, task)
            .context(|| "cannot make a thread for a network namespace")?;
        Ok(thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}
