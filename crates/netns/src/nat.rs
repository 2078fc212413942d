//! Packets from inside that go on beyond the outside, in its name.

use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER};

use crate::error::{Context, Error, Result};
use crate::namespace::{BESIDE, Namespace, Published, names_in, own_name};
use crate::pair::Pair;

/// While this lives, packets from the inside of a [`Pair`] leave the outside with its address, and
/// answers find back.
///
/// The rule is in a table of nftables that the kernel removes with the socket held here, also when
/// this process is killed (NFT_TABLE_F_OWNER, Linux 5.12).
#[derive(Debug)]
pub struct Masquerade {
    _socket: Socket,
    /// Says that this needs forwarding.
    need: PathBuf,
}

impl Drop for Masquerade {
    fn drop(&mut self) {
        // What cannot be done now the next sweep tries again.
        let _ = alone().and_then(|_alone| {
            let was_off = fs::read_to_string(&self.need).is_ok_and(|was| was == "0");
            let _ = fs::remove_file(&self.need);
            let here = needs()?;
            match was_off && is_here(&self.need) && !here.iter().any(Published::is_alive) {
                true => fs::write(FORWARD, "0").context(|| "cannot switch off forwarding"),
                false => Ok(()),
            }
        });
    }
}

const FORWARD: &str = "/proc/sys/net/ipv4/ip_forward";

/// How the network of the calling thread is called in the names of [`needs`].
fn here() -> String {
    let number = fs::metadata("/proc/thread-self/ns/net").map_or(0, |network| network.ino());
    format!(".forward-{number}-")
}

fn is_here(need: &Path) -> bool {
    need.to_string_lossy().contains(&here())
}

/// What needs forwarding in the network of the calling thread: files that say what it was before any
/// of them.
fn needs() -> Result<Vec<Published>> {
    let mut all = names_in(BESIDE)?;
    let here = here();
    all.retain(|name| name.label.starts_with(&here));
    Ok(all)
}

/// While the returned file is open no other process of ours switches forwarding on or off.
fn alone() -> Result<File> {
    let path = format!("{BESIDE}/lock");
    let what = || format!("cannot lock {path}");
    fs::create_dir_all(BESIDE).context(what)?;
    let file = File::create(&path).context(what)?;
    file.lock().context(what)?;
    Ok(file)
}

/// Switches forwarding off where those that are gone have left it on.
pub(crate) fn sweep_forwarding() -> Result<()> {
    let all = needs()?;
    if all.is_empty() {
        return Ok(());
    }
    let _alone = alone()?;
    let was_off = |name: &Published| fs::read_to_string(name.path()).is_ok_and(|was| was == "0");
    if all.iter().any(was_off) && !all.iter().any(Published::is_alive) {
        fs::write(FORWARD, "0").context(|| format!("cannot switch off forwarding by {FORWARD}"))?;
    }
    Ok(())
}

/// Switches forwarding on. Returns the file that says so.
fn forward() -> Result<PathBuf> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let what = || format!("cannot switch on forwarding by {FORWARD}");
    let _alone = alone()?;
    let is_off = fs::read_to_string(FORWARD).context(what)?.trim() == "0";
    let was_off = |name: &Published| fs::read_to_string(name.path()).is_ok_and(|was| was == "0");
    let was = if is_off || needs()?.iter().any(was_off) { "0" } else { "1" };
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let need = Path::new(BESIDE).join(own_name(&format!("{}{number}", here())));
    fs::write(&need, was).context(what)?;
    if is_off {
        fs::write(FORWARD, "1").context(what)?;
    }
    Ok(need)
}

impl Pair {
    /// Lets what is inside reach beyond the outside, over IPv4: switches on forwarding in the
    /// namespace of the outside (the same that was given to [`Pair::new`]) and replaces the address
    /// of the inside in what leaves it. No program is needed for that. Firewalls may still refuse to
    /// forward.
    ///
    /// Forwarding (/proc/sys/net/ipv4/ip_forward) is switched off again, if it was, with the last of
    /// such rules there, or by the next [`sweep`](crate::sweep).
    ///
    /// # Errors
    /// Without CAP_NET_ADMIN there, and if the kernel has no nftables with NAT.
    pub fn masquerade(&self, outside: Option<&Namespace>) -> Result<Masquerade> {
        let inside = self.inside.ipv4;
        let begin = || begin(inside);
        outside.map_or_else(begin, |namespace| namespace.run(begin)?)
    }
}

fn begin(inside: Ipv4Addr) -> Result<Masquerade> {
    let what = "cannot add a masquerading rule to nftables";
    let socket = add(inside).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => Error::new(what, error),
        _ => Error::new(what, error).advise(
            "load the modules nf_tables, nft_chain_nat and nft_masq, on Linux 5.12 or newer",
        ),
    })?;
    Ok(Masquerade { _socket: socket, need: forward()? })
}

// Numbers of linux/netfilter/nfnetlink.h and nf_tables.h. There is no crate for them without C code
// or with a licence like ours.
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NFTABLES: u16 = 10;
const NEW_TABLE: u16 = NFTABLES << 8;
const NEW_CHAIN: u16 = NFTABLES << 8 | 3;
const NEW_RULE: u16 = NFTABLES << 8 | 6;
const DELETE_RULE: u16 = NFTABLES << 8 | 8;
pub(crate) const REQUEST: u16 = 1;
pub(crate) const ACKNOWLEDGE: u16 = 4;
const CREATE: u16 = 0x400;
const EXCLUSIVE: u16 = 0x200;
const APPEND: u16 = 0x800;
const NFPROTO_UNSPEC: u8 = 0;
const NFPROTO_IPV4: u8 = 2;
const OWNER: u32 = 2;
const POSTROUTING: u32 = 4;
/// NF_IP_PRI_NAT_SRC.
const SOURCE_NAT: u32 = 100;
/// NFT_REG_1.
pub(crate) const REGISTER: u32 = 1;
const NETWORK_HEADER: u32 = 1;
/// Of the source address in an IPv4 header.
const SOURCE: u32 = 12;
pub(crate) const EQUAL: u32 = 0;
const NESTED: u16 = 1 << 15;

/// Adds one table, of which several with the same purpose may be there, under different names.
fn add(inside: Ipv4Addr) -> io::Result<Socket> {
    let mut socket = netfilter()?;
    // The address may be that of a process which is just going, with a table of its own.
    let table = text(1, &format!("windward-{}-{inside}", std::process::id()));
    let hook = [number(1, POSTROUTING), number(2, SOURCE_NAT)].concat();
    let chain = [table.clone(), text(3, "out"), nested(4, &hook), text(7, "nat")].concat();
    let source =
        [number(1, REGISTER), number(2, NETWORK_HEADER), number(3, SOURCE), number(4, 4)].concat();
    let value = attribute(1, &inside.octets());
    let compare = [number(1, REGISTER), number(2, EQUAL), nested(3, &value)].concat();
    let expressions =
        [expression("payload", &source), expression("cmp", &compare), expression("masq", &[])];
    let rule = [table.clone(), text(2, "out"), nested(4, &expressions.concat())].concat();
    add_table(&mut socket, NFPROTO_IPV4, &table, &[(chain, rule)])?;
    Ok(socket)
}

/// Adds a table that is gone when the socket is, also when this process is killed
/// (NFT_TABLE_F_OWNER, Linux 5.12), with chains of one rule each: all of it or nothing.
pub(crate) fn add_table(
    socket: &mut Socket,
    family: u8,
    table: &[u8],
    chains: &[(Vec<u8>, Vec<u8>)],
) -> io::Result<()> {
    let create = REQUEST | CREATE | ACKNOWLEDGE;
    let owned = [table, &number(2, OWNER)].concat();
    let mut messages = vec![message(NEW_TABLE, create | EXCLUSIVE, family, 0, &owned)];
    for (chain, rule) in chains {
        messages.push(message(NEW_CHAIN, create, family, 0, chain));
        messages.push(message(NEW_RULE, create | APPEND, family, 0, rule));
    }
    transact(socket, &messages)
}

/// Takes all rules out of these chains, which stay.
pub(crate) fn empty_chains(
    socket: &mut Socket,
    family: u8,
    table: &[u8],
    chains: &[&str],
) -> io::Result<()> {
    let empty = |chain: &&str| {
        let attributes = [table, &text(2, chain)].concat();
        message(DELETE_RULE, REQUEST | ACKNOWLEDGE, family, 0, &attributes)
    };
    transact(socket, &chains.iter().map(empty).collect::<Vec<_>>())
}

/// Does all of it or nothing.
fn transact(socket: &mut Socket, messages: &[Vec<u8>]) -> io::Result<()> {
    let mut batch = message(BATCH_BEGIN, REQUEST, NFPROTO_UNSPEC, NFTABLES, &[]);
    batch.extend(messages.concat());
    batch.extend(message(BATCH_END, REQUEST, NFPROTO_UNSPEC, NFTABLES, &[]));
    socket.send(&batch, 0)?;
    await_answers(socket, messages.len())
}

/// Waits for as many answers; the first that is an error is returned.
pub(crate) fn await_answers(socket: &mut Socket, count: usize) -> io::Result<()> {
    let mut answers = 0;
    while answers < count {
        let (datagram, _) = socket.recv_from_full()?;
        let mut rest = &datagram[..];
        while let Some(code) = rest.get(16..20) {
            let code = i32::from_ne_bytes([code[0], code[1], code[2], code[3]]);
            if code != 0 {
                return Err(io::Error::from_raw_os_error(-code));
            }
            answers += 1;
            let length = u32::from_ne_bytes([rest[0], rest[1], rest[2], rest[3]]) as usize;
            rest = rest.get(length.next_multiple_of(4).max(4)..).unwrap_or_default();
        }
    }
    Ok(())
}

/// A conversation with netfilter in the namespace of the calling thread.
pub(crate) fn netfilter() -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_NETFILTER)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    Ok(socket)
}

/// A message with the header of netlink (netlink(7)) and that of netfilter.
pub(crate) fn message(
    kind: u16,
    flags: u16,
    family: u8,
    resource: u16,
    attributes: &[u8],
) -> Vec<u8> {
    let length = 20 + attributes.len() as u32;
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]);
    message.extend([family, 0]);
    message.extend(resource.to_be_bytes());
    message.extend(attributes);
    message
}

pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut attribute = (4 + value.len() as u16).to_ne_bytes().to_vec();
    attribute.extend(kind.to_ne_bytes());
    attribute.extend(value);
    attribute.resize(attribute.len().next_multiple_of(4), 0);
    attribute
}

pub(crate) fn nested(kind: u16, attributes: &[u8]) -> Vec<u8> {
    attribute(kind | NESTED, attributes)
}

pub(crate) fn text(kind: u16, text: &str) -> Vec<u8> {
    attribute(kind, &[text.as_bytes(), &[0]].concat())
}

pub(crate) fn number(kind: u16, value: u32) -> Vec<u8> {
    attribute(kind, &value.to_be_bytes())
}

/// One element of the list that a rule is.
pub(crate) fn expression(name: &str, attributes: &[u8]) -> Vec<u8> {
    nested(1, &[text(1, name), nested(2, attributes)].concat())
}
