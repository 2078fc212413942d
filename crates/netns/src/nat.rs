//! Packets from inside that go on beyond the outside, in its name.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER};

use crate::error::{Context, Error, Result};
use crate::guard::{Hold, hold};
use crate::namespace::{BESIDE, Namespace, Published, names_in, own_name};
use crate::pair::Pair;
use crate::tun::PREFIX;

/// While this lives, packets from the inside of a [`Pair`] leave the outside with its address, and
/// answers find back.
///
/// The rules are in a table of nftables that the kernel removes with the socket held here, also when
/// this process is killed (NFT_TABLE_F_OWNER, Linux 5.12).
#[derive(Debug)]
pub struct Masquerade {
    /// Says what was changed, and what it was before.
    need: PathBuf,
    /// Where the outside is; `None` is the namespace of whoever made this.
    outside: Option<Namespace>,
    _hold: Option<Hold>,
    _socket: Socket,
}

impl Drop for Masquerade {
    fn drop(&mut self) {
        let give_back = || {
            let _alone = alone()?;
            restore(|other| other.path() == self.need)
        };
        // What cannot be done now the next sweep tries again.
        let _ = match &self.outside {
            Some(namespace) => namespace.run(give_back).and_then(|done| done),
            None => give_back(),
        };
    }
}

/// Settings of IPv4 for each interface in the namespace of the calling thread.
const INTERFACES: &str = "/proc/sys/net/ipv4/conf";

/// What `forwarding` was for each interface that it was switched on for.
type Before = BTreeMap<String, String>;

fn switch(interface: &str) -> PathBuf {
    Path::new(INTERFACES).join(interface).join("forwarding")
}

/// How the names of [`needs`] begin, behind the process.
pub(crate) const FORWARDING: &str = ".forward-";

/// How the network of the calling thread is called in the names of [`needs`].
fn here() -> String {
    let number = fs::metadata("/proc/thread-self/ns/net").map_or(0, |network| network.ino());
    format!("{FORWARDING}{number}-")
}

/// What needs forwarding in the network of the calling thread: files with what was [before](Before) any
/// of them.
fn needs() -> Result<Vec<Published>> {
    let mut all = names_in(BESIDE)?;
    let here = here();
    all.retain(|name| name.label.starts_with(&here));
    Ok(all)
}

fn before(need: &Published) -> Before {
    let text = fs::read_to_string(need.path()).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// While the returned file is open no other process of ours switches forwarding on or off.
fn alone() -> Result<File> {
    let path = format!("{BESIDE}/lock");
    let what = || format!("cannot lock {path}");
    fs::create_dir_all(BESIDE).context(what)?;
    let file = lock_file(Path::new(&path)).context(what)?;
    file.lock().context(what)?;
    Ok(file)
}

/// Opens a file that others cannot open: they could hold its lock for ever.
fn lock_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)
}

/// Ends the needs that are over: forwarding of their interfaces is what it was, unless others need it.
fn restore(is_over: impl Fn(&Published) -> bool) -> Result<()> {
    let (over, others): (Vec<_>, Vec<_>) = needs()?.into_iter().partition(is_over);
    let needed: Before = others.iter().flat_map(before).collect();
    let mut result = Ok(());
    for need in over {
        for (interface, was) in before(&need) {
            let switch = switch(&interface);
            // Devices of pairs have gone with their process.
            if needed.contains_key(&interface) || !switch.exists() {
                continue;
            }
            if let Err(error) = fs::write(&switch, was) {
                result = Err(error).context(|| format!("cannot restore {}", switch.display()));
            }
        }
        let _ = fs::remove_file(need.path());
    }
    result
}

/// Restores the forwarding that processes which are gone have left on.
pub(crate) fn sweep_forwarding() -> Result<()> {
    if needs()?.iter().all(Published::is_alive) {
        return Ok(());
    }
    let _alone = alone()?;
    restore(|need| !need.is_alive())
}

/// Interfaces that do not forward, but for those that others of ours have let do so, with what they had.
fn to_change() -> Result<Before> {
    let what = || format!("cannot read {INTERFACES}");
    let mut changed: Before = needs()?.iter().flat_map(before).collect();
    changed.retain(|interface, _| switch(interface).exists());
    for entry in fs::read_dir(INTERFACES).context(what)? {
        let name = entry.context(what)?.file_name().to_string_lossy().into_owned();
        if ["all", "default", "lo"].contains(&&*name) {
            continue;
        }
        let value = fs::read_to_string(switch(&name)).unwrap_or_default();
        if value.trim() == "0" {
            changed.insert(name, "0".to_owned());
        }
    }
    Ok(changed)
}

/// Switches forwarding on for these interfaces. Returns the file that says so.
fn forward(changed: &Before) -> Result<PathBuf> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let need = Path::new(BESIDE).join(own_name(&format!("{}{number}", here())));
    let what = || "cannot note which interfaces forward";
    let text = serde_json::to_string(changed).map_err(io::Error::from).context(what)?;
    fs::write(&need, text).context(what)?;
    let switch_on = |interface: &String| {
        let switch = switch(interface);
        // An interface may go away meanwhile.
        match switch.exists() {
            true => fs::write(&switch, "1")
                .context(|| format!("cannot switch on forwarding by {}", switch.display())),
            false => Ok(()),
        }
    };
    if let Err(error) = changed.keys().try_for_each(switch_on) {
        let _ = restore(|other| other.path() == need);
        return Err(error);
    }
    Ok(need)
}

impl Pair {
    /// Lets the inside reach beyond the outside, over IPv4: lets the interfaces in the namespace of the
    /// outside (the same that was given to [`Pair::new`]) forward, and replaces the address of the
    /// inside in what leaves it. No program is needed for that. Firewalls may still refuse to forward.
    ///
    /// The machine does not become a router for others: an interface that did not forward before
    /// forwards to the devices of pairs alone, only answers reach the inside, and only packets with its
    /// address leave it. The switch for all interfaces (net.ipv4.ip_forward), which changes other
    /// settings with it, stays as it is. The switches of interfaces are restored with the last of such
    /// rules there, also when this process is killed.
    ///
    /// # Errors
    /// Without CAP_NET_ADMIN there, and if the kernel has no nftables with NAT.
    pub fn masquerade(&self, outside: Option<&Namespace>) -> Result<Masquerade> {
        let what = || "cannot hold a network namespace";
        let held = outside.map(Namespace::again).transpose().context(what)?;
        let begin = || begin(self.inside.ipv4, self.outside.tun.name());
        let (socket, need) = outside.map_or_else(begin, |namespace| namespace.run(begin)?)?;
        let hold = hold(&socket);
        Ok(Masquerade { need, outside: held, _hold: hold, _socket: socket })
    }
}

fn begin(inside: Ipv4Addr, device: &str) -> Result<(Socket, PathBuf)> {
    let what = "cannot add a masquerading rule to nftables";
    let _alone = alone()?;
    let changed = to_change()?;
    // First the rules: no interface forwards without them.
    let socket = add(inside, device, changed.keys()).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => Error::new(what, error),
        _ => Error::new(what, error).advise(
            "load the modules nf_tables, nft_chain_nat, nft_masq and nft_ct, on Linux 5.12 or newer",
        ),
    })?;
    let need = forward(&changed)?;
    Ok((socket, need))
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
pub(crate) const FORWARD: u32 = 2;
const POSTROUTING: u32 = 4;
/// NF_IP_PRI_FILTER.
const FILTER: u32 = 0;
/// NF_IP_PRI_NAT_SRC.
const SOURCE_NAT: u32 = 100;
/// NFT_REG_1.
pub(crate) const REGISTER: u32 = 1;
const NETWORK_HEADER: u32 = 1;
/// Of the source address in an IPv4 header.
const SOURCE: u32 = 12;
pub(crate) const EQUAL: u32 = 0;
const NOT_EQUAL: u32 = 1;
const INPUT_NAME: u32 = 6;
pub(crate) const OUTPUT_NAME: u32 = 7;
/// IFNAMSIZ.
pub(crate) const NAME_LENGTH: usize = 16;
const CONNECTION_STATE: u32 = 0;
/// NF_CT_STATE_BIT of IP_CT_ESTABLISHED and of IP_CT_RELATED.
const ESTABLISHED: u32 = 1 << 1;
const RELATED: u32 = 1 << 2;
/// NFT_REG_VERDICT.
const VERDICT: u32 = 0;
const NF_DROP: u32 = 0;
const NESTED: u16 = 1 << 15;

/// Adds one table, of which several with the same purpose may be there, under different names.
fn add<'a>(
    inside: Ipv4Addr,
    device: &str,
    changed: impl Iterator<Item = &'a String>,
) -> io::Result<Socket> {
    let mut socket = netfilter()?;
    // The address may be that of a process which is just going, with a table of its own.
    let table = text(1, &format!("windward-{}-{inside}", std::process::id()));
    let chain = |name: &str, hook: u32, priority: u32, kind: &str| {
        let hook = [number(1, hook), number(2, priority)].concat();
        [table.clone(), text(3, name), nested(4, &hook), text(7, kind)].concat()
    };
    let rule = |chain: &str, expressions: &[Vec<u8>]| {
        [table.clone(), text(2, chain), nested(4, &expressions.concat())].concat()
    };
    let source = payload(SOURCE, 4);
    let own = compare(EQUAL, &inside.octets());
    let nat = vec![rule("out", &[source.clone(), own, expression("masq", &[])])];

    let is_answer = [connection_state(), masked(ESTABLISHED | RELATED)];
    let [state, mask] = is_answer;
    let mut forwarded = vec![
        // Nobody begins a conversation with the inside.
        rule(
            "forward",
            &[
                meta(OUTPUT_NAME),
                name_is(EQUAL, device),
                state,
                mask,
                compare(EQUAL, &[0; 4]),
                drop_it(),
            ],
        ),
        // Nothing leaves the inside under another address.
        rule(
            "forward",
            &[
                meta(INPUT_NAME),
                name_is(EQUAL, device),
                source,
                compare(NOT_EQUAL, &inside.octets()),
                drop_it(),
            ],
        ),
    ];
    // What did not forward before forwards to the devices of pairs alone.
    forwarded.extend(changed.filter(|name| !name.starts_with(PREFIX)).map(|interface| {
        let to_pair = compare(NOT_EQUAL, PREFIX.as_bytes());
        rule(
            "forward",
            &[meta(INPUT_NAME), name_is(EQUAL, interface), meta(OUTPUT_NAME), to_pair, drop_it()],
        )
    }));
    let chains = [
        (chain("forward", FORWARD, FILTER, "filter"), forwarded),
        (chain("out", POSTROUTING, SOURCE_NAT, "nat"), nat),
    ];
    add_table(&mut socket, NFPROTO_IPV4, &table, &chains)?;
    Ok(socket)
}

/// Loads so many bytes of the network header.
fn payload(offset: u32, length: u32) -> Vec<u8> {
    let load =
        [number(1, REGISTER), number(2, NETWORK_HEADER), number(3, offset), number(4, length)];
    expression("payload", &load.concat())
}

/// Loads something that is known of a packet beside its bytes.
fn meta(key: u32) -> Vec<u8> {
    expression("meta", &[number(1, REGISTER), number(2, key)].concat())
}

/// Loads the state of the connection of a packet.
fn connection_state() -> Vec<u8> {
    expression("ct", &[number(1, REGISTER), number(2, CONNECTION_STATE)].concat())
}

/// Keeps these bits of a word in the order of this machine.
fn masked(bits: u32) -> Vec<u8> {
    let value = |bits: u32| attribute(1, &bits.to_ne_bytes());
    let parts = [
        number(1, REGISTER),
        number(2, REGISTER),
        number(3, 4),
        nested(4, &value(bits)),
        nested(5, &value(0)),
    ];
    expression("bitwise", &parts.concat())
}

/// Goes on with the rule if what was loaded compares so to these bytes.
fn compare(how: u32, bytes: &[u8]) -> Vec<u8> {
    let value = nested(3, &attribute(1, bytes));
    expression("cmp", &[number(1, REGISTER), number(2, how), value].concat())
}

/// The whole name of an interface.
fn name_is(how: u32, name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize(NAME_LENGTH, 0);
    compare(how, &bytes)
}

/// Ends the rule by dropping the packet.
fn drop_it() -> Vec<u8> {
    let verdict = nested(2, &number(1, NF_DROP));
    expression("immediate", &[number(1, VERDICT), nested(2, &verdict)].concat())
}

/// Adds a table that is gone when the socket is, also when this process is killed
/// (NFT_TABLE_F_OWNER, Linux 5.12), with chains of rules: all of it or nothing.
pub(crate) fn add_table(
    socket: &mut Socket,
    family: u8,
    table: &[u8],
    chains: &[(Vec<u8>, Vec<Vec<u8>>)],
) -> io::Result<()> {
    let create = REQUEST | CREATE | ACKNOWLEDGE;
    let owned = [table, &number(2, OWNER)].concat();
    let mut messages = vec![message(NEW_TABLE, create | EXCLUSIVE, family, 0, &owned)];
    for (chain, rules) in chains {
        messages.push(message(NEW_CHAIN, create, family, 0, chain));
        let add = |rule: &Vec<u8>| message(NEW_RULE, create | APPEND, family, 0, rule);
        messages.extend(rules.iter().map(add));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_is_of_its_owner_alone() {
        let path = std::env::temp_dir().join(format!("windward-lock-{}", std::process::id()));
        let file = lock_file(&path).unwrap();
        let mode = file.metadata().unwrap().mode();
        fs::remove_file(&path).unwrap();
        // Whoever can open a file, for reading too, can lock it (flock(2)).
        assert_eq!(mode & 0o077, 0);
    }
}
