//! The rights to create namespaces and devices without root.

use std::fs;
use std::io;

use nix::sched::{CloneFlags, unshare};
use rustix::process::{getegid, geteuid};

use crate::error::{Context, Error, Result};
use crate::namespace::loopback_up;

/// Rights of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// The process has the capabilities that it needs, in its original namespaces.
    OfRoot,
    /// The process is now in its own user and network namespaces, and root only there. The network
    /// outside is not reachable: pairs connect namespaces of this process only.
    InUserNamespace,
}

/// Gives this process the rights to create namespaces and devices: by a user namespace
/// (user_namespaces(7)), unless it has them already. There it runs as root, which is its user
/// outside.
///
/// Must be called before the first thread is created: a process with threads cannot change its user
/// namespace.
///
/// # Errors
/// If the kernel does not allow user namespaces, or if there are threads already.
pub fn become_root() -> Result<Rights> {
    if has_capabilities()? {
        return Ok(Rights::OfRoot);
    }
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET)
        .context(|| "cannot make a user namespace")
        .map_err(error_of_unshare)?;
    let write = |file: &str, text: String| {
        let path = format!("/proc/self/{file}");
        fs::write(&path, text)
            .context(|| format!("cannot write {path}"))
            .map_err(|e| e.advise(ALLOW))
    };
    // A process without the right to drop groups may map its own group (user_namespaces(7)).
    write("setgroups", "deny".into())?;
    write("uid_map", format!("0 {user} 1"))?;
    write("gid_map", format!("0 {group} 1"))?;
    loopback_up()?;
    Ok(Rights::InUserNamespace)
}

const ALLOW: &str = "run as root, or allow user namespaces: sysctl user.max_user_namespaces=10000, \
                     on Debian kernel.unprivileged_userns_clone=1, on Ubuntu \
                     kernel.apparmor_restrict_unprivileged_userns=0";

fn error_of_unshare(error: Error) -> Error {
    match error.kind() {
        io::ErrorKind::InvalidInput => {
            error.advise("call become_root before the first thread is made")
        }
        _ => error.advise(ALLOW),
    }
}

/// CAP_NET_ADMIN and CAP_SYS_ADMIN (capabilities(7)), as bits.
const NEEDED: u64 = 1 << 12 | 1 << 21;

fn has_capabilities() -> Result<bool> {
    let path = "/proc/self/status";
    let status = fs::read_to_string(path).context(|| format!("cannot read {path}"))?;
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|text| u64::from_str_radix(text.trim(), 16).ok())
        .unwrap_or(0);
    Ok(effective & NEEDED == NEEDED)
}
