//! Rules of nftables, as messages of netlink.

use std::io;

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER};

// Numbers of linux/netfilter/nfnetlink.h and nf_tables.h. No crate provides them without C code and
// under a licence like this project's.
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
pub(crate) const NFPROTO_IPV4: u8 = 2;
const OWNER: u32 = 2;
pub(crate) const FORWARD: u32 = 2;
pub(crate) const POSTROUTING: u32 = 4;
/// NF_IP_PRI_FILTER.
pub(crate) const FILTER: u32 = 0;
/// NF_IP_PRI_NAT_SRC.
pub(crate) const SOURCE_NAT: u32 = 100;
/// NFT_REG_1.
const REGISTER: u32 = 1;
const NETWORK_HEADER: u32 = 1;
/// Offset of the source address in an IPv4 header.
pub(crate) const SOURCE: u32 = 12;
pub(crate) const EQUAL: u32 = 0;
pub(crate) const NOT_EQUAL: u32 = 1;
pub(crate) const INPUT_NAME: u32 = 6;
pub(crate) const OUTPUT_NAME: u32 = 7;
/// IFNAMSIZ.
const NAME_LENGTH: usize = 16;
const CONNECTION_STATE: u32 = 0;
/// NF_CT_STATE_BIT of IP_CT_ESTABLISHED and of IP_CT_RELATED.
pub(crate) const ESTABLISHED: u32 = 1 << 1;
pub(crate) const RELATED: u32 = 1 << 2;
/// NFT_REG_VERDICT.
const VERDICT: u32 = 0;
const NF_DROP: u32 = 0;
const NESTED: u16 = 1 << 15;

/// Loads bytes of the network header.
pub(crate) fn payload(offset: u32, length: u32) -> Vec<u8> {
    let load =
        [number(1, REGISTER), number(2, NETWORK_HEADER), number(3, offset), number(4, length)];
    expression("payload", &load.concat())
}

/// Loads metadata of a packet.
pub(crate) fn meta(key: u32) -> Vec<u8> {
    expression("meta", &[number(1, REGISTER), number(2, key)].concat())
}

/// Loads the state of the connection of a packet.
pub(crate) fn connection_state() -> Vec<u8> {
    expression("ct", &[number(1, REGISTER), number(2, CONNECTION_STATE)].concat())
}

/// Masks a word in the byte order of this machine.
pub(crate) fn masked(bits: u32) -> Vec<u8> {
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

/// Continues the rule if the loaded value compares to these bytes as in `how`.
pub(crate) fn compare(how: u32, bytes: &[u8]) -> Vec<u8> {
    let value = nested(3, &attribute(1, bytes));
    expression("cmp", &[number(1, REGISTER), number(2, how), value].concat())
}

/// Compares with the full name of an interface.
pub(crate) fn name_is(how: u32, name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize(NAME_LENGTH, 0);
    compare(how, &bytes)
}

/// Ends the rule by dropping the packet.
pub(crate) fn drop_it() -> Vec<u8> {
    let verdict = nested(2, &number(1, NF_DROP));
    expression("immediate", &[number(1, VERDICT), nested(2, &verdict)].concat())
}

/// Adds a table with chains of rules as one transaction. The table vanishes with the socket, even
/// when this process is killed (NFT_TABLE_F_OWNER, Linux 5.12).
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

/// A chain at a hook, with this priority.
pub(crate) fn chain(table: &[u8], name: &str, hook: u32, priority: u32, kind: &str) -> Vec<u8> {
    let hook = [number(1, hook), number(2, priority)].concat();
    [table, &text(3, name), &nested(4, &hook), &text(7, kind)].concat()
}

/// A rule of a chain.
pub(crate) fn rule(table: &[u8], chain: &str, expressions: &[u8]) -> Vec<u8> {
    [table, &text(2, chain), &nested(4, expressions)].concat()
}

/// Removes all rules from these chains, which remain.
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

/// Sends messages as a transaction.
fn transact(socket: &mut Socket, messages: &[Vec<u8>]) -> io::Result<()> {
    let mut batch = message(BATCH_BEGIN, REQUEST, NFPROTO_UNSPEC, NFTABLES, &[]);
    batch.extend(messages.concat());
    batch.extend(message(BATCH_END, REQUEST, NFPROTO_UNSPEC, NFTABLES, &[]));
    socket.send(&batch, 0)?;
    await_answers(socket, messages.len())
}

/// Waits for `count` answers. Returns the first that is an error.
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

/// A socket to netfilter in the namespace of the calling thread.
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

fn nested(kind: u16, attributes: &[u8]) -> Vec<u8> {
    attribute(kind | NESTED, attributes)
}

pub(crate) fn text(kind: u16, text: &str) -> Vec<u8> {
    attribute(kind, &[text.as_bytes(), &[0]].concat())
}

pub(crate) fn number(kind: u16, value: u32) -> Vec<u8> {
    attribute(kind, &value.to_be_bytes())
}

/// One expression of a rule, which is a list of them.
pub(crate) fn expression(name: &str, attributes: &[u8]) -> Vec<u8> {
    nested(1, &[text(1, name), nested(2, attributes)].concat())
}
