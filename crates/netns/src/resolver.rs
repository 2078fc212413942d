//! Files that differ inside a namespace: the configuration of name resolution, since the loopback
//! device inside is not that of the resolver.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::net::IpAddr;

use nix::sched::{CloneFlags, unshare};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount,
};

use crate::error::{Context, Result};

/// Texts by the path of the file that they replace.
pub(crate) type Files = BTreeMap<String, String>;

pub(crate) const RESOLV_CONF: &str = "/etc/resolv.conf";
pub(crate) const HOSTS: &str = "/etc/hosts";
/// File with the servers of systemd-resolved.
pub(crate) const BEHIND: &str = "/run/systemd/resolve/resolv.conf";

/// Directory that a temporary mount in the private mount namespace hides for an instant, to hold
/// the texts that are bound elsewhere.
const PLACE: &str = "/sys";

/// The servers of a resolv.conf(5), in order.
fn servers(text: &str) -> impl Iterator<Item = IpAddr> + '_ {
    text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let address = (words.next()? == "nameserver").then(|| words.next())??;
        // An address with a zone belongs to a device outside.
        address.parse().ok()
    })
}

/// Text that replaces `text` inside; `None` if one of its servers is on another machine, so that no
/// replacement is needed. `behind` is the configuration of the local resolver itself.
pub(crate) fn inside(text: &str, behind: Option<&str>, gateway: IpAddr) -> Option<String> {
    let here = |server: &IpAddr| server.is_loopback() || server.is_unspecified();
    if servers(text).any(|server| !here(&server)) {
        return None;
    }
    let mut found: Vec<IpAddr> =
        behind.into_iter().flat_map(servers).filter(|server| !here(server)).collect();
    if found.is_empty() {
        found.push(gateway);
    }
    let mut instead = String::new();
    for server in found {
        let _ = writeln!(instead, "nameserver {server}");
    }
    for line in text.lines().filter(|line| !line.trim_start().starts_with("nameserver")) {
        let _ = writeln!(instead, "{line}");
    }
    Some(instead)
}

/// Binds texts over existing files, for the calling thread and its children.
pub(crate) fn replace(files: &Files) -> Result<()> {
    let there: Vec<_> = files
        .iter()
        .filter_map(|(path, text)| Some((fs::canonicalize(path).ok()?, text)))
        .collect();
    if there.is_empty() {
        return Ok(());
    }
    let what = || "cannot replace files inside".to_owned();
    unshare(CloneFlags::CLONE_NEWNS).context(what)?;
    // Mounts from now on must not propagate to the outside.
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
        .context(what)?;
    mount("windward", PLACE, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, c"mode=0755")
        .context(what)?;
    for (number, (target, text)) in there.into_iter().enumerate() {
        let what = || format!("cannot replace {} inside", target.display());
        let file = format!("{PLACE}/{number}");
        fs::write(&file, text).context(what)?;
        mount_bind(&file, &target).context(what)?;
    }
    unmount(PLACE, UnmountFlags::DETACH).context(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GATEWAY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 18, 0, 1));

    #[test]
    fn resolvers_elsewhere_are_left_alone() {
        assert_eq!(inside("nameserver 192.0.2.1\n", None, GATEWAY), None);
        assert_eq!(inside("nameserver 127.0.0.1\nnameserver ::2\n", None, GATEWAY), None);
    }

    #[test]
    fn a_resolver_on_loopback_is_replaced() {
        let stub = "# stub\nnameserver 127.0.0.53\noptions edns0\nsearch example.org\n";
        let behind = "nameserver 192.0.2.1\nnameserver fe80::1%eth0\n";
        assert_eq!(
            inside(stub, Some(behind), GATEWAY).unwrap(),
            "nameserver 192.0.2.1\n# stub\noptions edns0\nsearch example.org\n"
        );
        let text = inside("nameserver ::1", Some("nameserver 127.0.0.1"), GATEWAY).unwrap();
        assert_eq!(text, "nameserver 198.18.0.1\n");
        // Without any server, the one on this machine is used (resolv.conf(5)).
        assert_eq!(inside("", None, GATEWAY).unwrap(), "nameserver 198.18.0.1\n");
    }
}
