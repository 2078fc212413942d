//! Network namespaces that this process has made.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;

use nix::sched::{CloneFlags, unshare};
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::{Context, Result};
use crate::netlink::{Device, Netlink};
use crate::resolver;

/// A network of its own: devices, addresses, routes and ports apart from all others; at first
/// nothing but a loopback device that is up.
///
/// It has no name, unless [published](Namespace::publish), and is gone when this is dropped and
/// nobody is in it any longer. A thread is in one namespace, and what it starts begins there; so all
/// that is to happen in this one goes through [`run`](Namespace::run) and
/// [`spawn`](Namespace::spawn), which make a thread for it.
#[derive(Debug)]
pub struct Namespace {
    network: OwnedFd,
    /// What programs inside read instead of /etc/resolv.conf.
    resolv_conf: Option<String>,
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
        Ok(Namespace { network, resolv_conf: None, name: None })
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

    /// Brings the calling thread here and before its own /etc/resolv.conf, if one is
    /// [set](Namespace::set_resolv_conf).
    pub(crate) fn move_in(&self) -> Result<()> {
        self.enter()?;
        self.resolv_conf.as_deref().map_or(Ok(()), resolver::replace)
    }

    /// The same namespace, held once more, without the name.
    pub(crate) fn another(&self) -> io::Result<Self> {
        let network = self.network.try_clone()?;
        Ok(Namespace { network, resolv_conf: self.resolv_conf.clone(), name: None })
    }

    /// What programs started from now on read as /etc/resolv.conf. It is bound over that file in
    /// a mount namespace that only they see.
    pub fn set_resolv_conf(&mut self, text: impl Into<String>) {
        self.resolv_conf = Some(text.into());
    }

    /// Makes name resolution work for programs started from now on, if it can be and has to:
    /// nothing happens where /etc/resolv.conf names a server that is not this machine itself, and
    /// the loopback device inside is another than outside. The servers behind a systemd-resolved
    /// take the place of such a resolver; without one, `gateway` does, where somebody must then
    /// answer.
    ///
    /// # Errors
    /// If /etc/resolv.conf is there and cannot be read.
    pub fn use_resolver(&mut self, gateway: std::net::IpAddr) -> Result<()> {
        let read = |path: &str| match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            other => other.map(Some).context(|| format!("cannot read {path}")),
        };
        let Some(text) = read(resolver::RESOLV_CONF)? else { return Ok(()) };
        // The servers that systemd-resolved asks are an improvement, and no error if unreadable.
        let behind = read(resolver::BEHIND).unwrap_or_default();
        self.resolv_conf = resolver::inside(&text, behind.as_deref(), gateway);
        Ok(())
    }

    /// Gives it a name that `ip netns` knows, under /run/netns, until it is dropped: the returned
    /// path ends in `windward-`, the process, and `label`. Names of processes that are gone are
    /// removed first.
    ///
    /// # Errors
    /// If it has a name, if `label` is not of letters, digits and dashes, or without the right
    /// to mount.
    pub fn publish(&mut self, label: &str) -> Result<&Path> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if label.is_empty() || !label.chars().all(plain) || self.name.is_some() {
            return Err(io::Error::from(io::ErrorKind::InvalidInput)).context(|| {
                format!("cannot name a network namespace '{label}': letters, digits, dashes, once")
            });
        }
        sweep()?;
        let process = std::process::id();
        let began = started(process).unwrap_or(0);
        let path = Path::new(NAMES).join(format!("{OURS}{process}-{began}-{label}"));
        let what = || format!("cannot name a network namespace {}", path.display());
        fs::create_dir_all(NAMES).context(what)?;
        File::create_new(&path).context(what)?;
        let source = format!("/proc/self/fd/{}", self.network.as_raw_fd());
        if let Err(error) = mount_bind(source, &path) {
            let _ = fs::remove_file(&path);
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

/// Removes the names under /run/netns of processes that ended without doing so themselves.
///
/// # Errors
/// If that directory is there and cannot be read.
pub fn sweep() -> Result<()> {
    let entries = match fs::read_dir(NAMES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.context(|| format!("cannot read {NAMES}"))?,
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(OURS)).and_then(|name| {
            let mut parts = name.splitn(3, '-');
            Some((parts.next()?.parse().ok()?, parts.next()?.parse::<u64>().ok()?))
        });
        // A process number comes back; together with the time of its start it does not.
        if owner.is_some_and(|(process, began)| started(process) != Some(began)) {
            forget(&entry.path());
        }
    }
    Ok(())
}

fn forget(path: &Path) {
    // There is nobody to tell if it is gone already.
    let _ = unmount(path, UnmountFlags::DETACH);
    let _ = fs::remove_file(path);
}

/// When a process was started, in clock ticks since boot; `None` if there is none (proc(5), field 22
/// of stat).
fn started(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field, in parentheses, may contain anything.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
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
