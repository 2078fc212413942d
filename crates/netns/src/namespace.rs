//! Network namespaces of this process.

use std::fmt::Write;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;

use nix::sched::{CloneFlags, unshare};
use rustix::fs::fstat;

use crate::error::{Context, Result};
use crate::guard::{Hold, hold};
use crate::names;
use crate::netlink::{Device, Netlink};
use crate::process::{enter, kill_inside, present};
use crate::resolver::{self, Files};
use crate::sweep::sweep;

/// A network namespace: devices, addresses, routes and ports separate from all others; at first
/// only a loopback device that is up.
///
/// It has no name, unless [published](Namespace::publish), and ends when this is dropped and no
/// process is in it any longer. A thread is in one namespace, and its children begin there;
/// therefore everything in this one goes through [`run`](Namespace::run) and
/// [`spawn`](Namespace::spawn), which make a thread for it.
#[derive(Debug)]
pub struct Namespace {
    /// Declared before the network, so that the guard releases it first.
    _hold: Option<Hold>,
    network: OwnedFd,
    /// Texts that replace files for programs inside.
    files: Files,
    name: Option<PathBuf>,
}

impl Namespace {
    /// A new namespace.
    ///
    /// # Errors
    /// Without the capability CAP_SYS_ADMIN in the present user namespace (see
    /// [`become_root`](crate::become_root)), and if the limit of namespaces
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
    /// in any thread. A panic of the task continues in the caller.
    ///
    /// # Errors
    /// If a thread cannot be made or may not enter the namespace.
    pub fn run<T: Send>(&self, task: impl FnOnce() -> T + Send) -> Result<T> {
        on_a_thread(|| {
            enter(self.network.as_fd())?;
            Ok(task())
        })?
    }

    /// Moves the calling thread here permanently, with its own files in place, if some are set.
    pub(crate) fn move_in(&self) -> Result<()> {
        enter(self.network.as_fd())?;
        resolver::replace(&self.files)
    }

    /// Another handle of the same namespace, without the name.
    pub fn again(&self) -> io::Result<Self> {
        let network = self.network.try_clone()?;
        Ok(Namespace { _hold: None, network, files: self.files.clone(), name: None })
    }

    /// Sets the /etc/resolv.conf of programs started from now on. It is bound over that file in a
    /// mount namespace that only they see.
    pub fn set_resolv_conf(&mut self, text: impl Into<String>) {
        self.files.insert(resolver::RESOLV_CONF.into(), text.into());
    }

    /// Adds these names for programs started from now on, in their /etc/hosts before its other
    /// lines.
    pub fn set_hosts<'a>(&mut self, hosts: impl IntoIterator<Item = (IpAddr, &'a str)>) {
        let mut text = String::new();
        for (address, name) in hosts {
            let _ = writeln!(text, "{address} {name}");
        }
        text += &fs::read_to_string(resolver::HOSTS).unwrap_or_default();
        self.files.insert(resolver::HOSTS.into(), text);
    }

    /// Makes name resolution work for programs started from now on, although the loopback device
    /// inside differs from that outside. If /etc/resolv.conf names a server on another machine,
    /// nothing changes. Otherwise the servers of systemd-resolved replace the local resolver, or
    /// without systemd-resolved `gateway`, which must then answer.
    pub fn use_resolver(&mut self, gateway: IpAddr) -> Result<()> {
        let read = |path: &str| match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            other => other.map(Some).context(|| format!("cannot read {path}")),
        };
        let Some(text) = read(resolver::RESOLV_CONF)? else { return Ok(()) };
        // The servers of systemd-resolved are an improvement; that they are unreadable is not an
        // error.
        let behind = read(resolver::BEHIND).unwrap_or_default();
        if let Some(inside) = resolver::inside(&text, behind.as_deref(), gateway) {
            self.set_resolv_conf(inside);
        }
        Ok(())
    }

    /// Device and inode of its file, as in /proc/PID/ns/net.
    pub fn id(&self) -> Result<(u64, u64)> {
        let file = fstat(&self.network).context(|| "cannot look at a network namespace")?;
        Ok((file.st_dev, file.st_ino))
    }

    /// Kills every process in it except this one, and returns their number.
    pub fn kill_all(&self) -> Result<usize> {
        kill_inside(self.network.as_fd())
    }

    /// Gives it a name under /run/netns, for `ip netns` and [`published`](crate::published), until
    /// it is dropped: the returned path ends in `windward-`, the process, its start, and `label`.
    /// Names of processes that have ended are [swept](fn@crate::sweep) first. Files that are set
    /// later are not in place for processes that enter by name.
    ///
    /// # Errors
    /// If it has a name, if `label` has other characters than letters, digits, dashes and
    /// underscores, or without the right to mount.
    pub fn publish(&mut self, label: &str) -> Result<&Path> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if label.is_empty() || !label.chars().all(plain) || self.name.is_some() {
            return Err(io::Error::from(io::ErrorKind::InvalidInput)).context(|| {
                format!("cannot name a network namespace '{label}': letters, digits, dashes and underscores, once")
            });
        }
        sweep()?;
        let path = names::bind(label, self.network.as_fd(), &self.files)?;
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
            names::forget(path);
        }
    }
}

/// Switches on the loopback device of the calling thread's namespace.
pub(crate) fn loopback_up() -> Result<()> {
    let mut netlink = Netlink::new()?;
    let index = netlink.index("lo")?;
    netlink.switch_on(index, &Device::default())
}

/// Runs `task` on a new thread, which may change its namespaces.
fn on_a_thread<T: Send>(task: impl FnOnce() -> T + Send) -> Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("namespace".into())
            .spawn_scoped(scope, task)
            .context(|| "cannot make a thread for a network namespace")?;
        Ok(thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}
