//! Address translation for packets from inside that are forwarded beyond the outside.

use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use netlink_sys::Socket;

use crate::error::{Context, Error, Result};
use crate::forwarding::{alone, forward, restore, to_change};
use crate::guard::{Hold, hold};
use crate::namespace::Namespace;
use crate::nftables::{
    EQUAL, ESTABLISHED, FILTER, FORWARD, INPUT_NAME, NFPROTO_IPV4, NOT_EQUAL, OUTPUT_NAME,
    POSTROUTING, RELATED, SOURCE, SOURCE_NAT, add_table, chain, compare, connection_state, drop_it,
    expression, masked, meta, name_is, netfilter, payload, rule, text,
};
use crate::pair::Pair;
use crate::tun::PREFIX;

/// Address translation for the inside of a [`Pair`], while this lives: its packets leave the
/// outside with the outside's address, and answers return to the inside.
///
/// The rules are in a table of nftables that the kernel removes with the socket held here, even
/// when this process is killed (NFT_TABLE_F_OWNER, Linux 5.12).
#[derive(Debug)]
pub struct Masquerade {
    /// File of the need of forwarding.
    need: PathBuf,
    /// Namespace of the outside; `None` for that of the thread that created this.
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
        // If this fails, the next sweep tries again.
        let _ = match &self.outside {
            Some(namespace) => namespace.run(give_back).and_then(|done| done),
            None => give_back(),
        };
    }
}

impl Pair {
    /// Connects the inside to networks beyond the outside, over IPv4: switches on forwarding of the
    /// interfaces in the namespace of the outside (the one given to [`Pair::new`]), and replaces
    /// the address of the inside in packets that leave. No other program is needed. Firewalls may
    /// still refuse to forward.
    ///
    /// The machine does not become a router for others: an interface that did not forward before
    /// forwards only to the devices of pairs, only answers reach the inside, and only packets with
    /// its address leave it. The switch for all interfaces (net.ipv4.ip_forward), which changes
    /// other settings too, is not touched. The switches of interfaces are restored with the last of
    /// these rules, even when this process is killed.
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
    // The rules come first, so that no interface forwards without them.
    let socket = add(inside, device, changed.keys()).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => Error::new(what, error),
        _ => Error::new(what, error).advise(
            "load the modules nf_tables, nft_chain_nat, nft_masq and nft_ct, on Linux 5.12 or newer",
        ),
    })?;
    let need = forward(&changed)?;
    Ok((socket, need))
}

/// Adds a table. There may be several with the same purpose, under different names.
fn add<'a>(
    inside: Ipv4Addr,
    device: &str,
    changed: impl Iterator<Item = &'a String>,
) -> io::Result<Socket> {
    let mut socket = netfilter()?;
    // A process that is still ending may have a table with the same address.
    let table = text(1, &format!("windward-{}-{inside}", std::process::id()));
    let rule = |chain: &str, expressions: &[Vec<u8>]| rule(&table, chain, &expressions.concat());
    let source = payload(SOURCE, 4);
    let own = compare(EQUAL, &inside.octets());
    let nat = vec![rule("out", &[source.clone(), own, expression("masq", &[])])];

    let is_answer = [connection_state(), masked(ESTABLISHED | RELATED)];
    let [state, mask] = is_answer;
    let mut forwarded = vec![
        // No connection begins from outside.
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
    // Interfaces that did not forward before forward to the devices of pairs only.
    forwarded.extend(changed.filter(|name| !name.starts_with(PREFIX)).map(|interface| {
        let to_pair = compare(NOT_EQUAL, PREFIX.as_bytes());
        rule(
            "forward",
            &[meta(INPUT_NAME), name_is(EQUAL, interface), meta(OUTPUT_NAME), to_pair, drop_it()],
        )
    }));
    let chains = [
        (chain(&table, "forward", FORWARD, FILTER, "filter"), forwarded),
        (chain(&table, "out", POSTROUTING, SOURCE_NAT, "nat"), nat),
    ];
    add_table(&mut socket, NFPROTO_IPV4, &table, &chains)?;
    Ok(socket)
}
