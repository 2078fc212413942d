//! Addresses as users write them, and link-local addresses, which need a network interface.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};

use if_addrs::{Interface, get_if_addrs};

/// The addresses of `HOST:PORT`, `192.0.2.1:PORT`, `[2001:db8::1]:PORT` or
/// `[fe80::1%INTERFACE]:PORT`.
///
/// # Errors
///
/// If it has another form, the interface is missing, or the name has no address.
pub fn resolve(text: &str) -> io::Result<Vec<SocketAddr>> {
    match scoped(text) {
        Some(address) => Ok(vec![address?]),
        None => Ok(text.to_socket_addrs()?.collect()),
    }
}

/// Addresses by which other machines may reach a socket that is bound there, loopback last, which
/// leads nowhere from another machine.
pub(crate) fn of_machine(bound: SocketAddr) -> Vec<SocketAddr> {
    if !bound.ip().is_unspecified() {
        return vec![bound];
    }
    let mut interfaces = get_if_addrs().unwrap_or_default();
    interfaces.retain(|own| !own.is_link_local() && (bound.is_ipv6() || own.ip().is_ipv4()));
    interfaces.sort_by_key(|own| (own.is_loopback(), own.ip().is_ipv6()));
    let mut ips: Vec<IpAddr> = interfaces.iter().map(Interface::ip).collect();
    ips.dedup();
    ips.into_iter().map(|ip| SocketAddr::new(ip, bound.port())).collect()
}

/// The address to bind for connections to another one.
pub(crate) fn towards(address: SocketAddr) -> SocketAddr {
    let any: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(any, 0)
}

/// The first address of those of [`resolve`].
pub fn parse(text: &str) -> io::Result<SocketAddr> {
    let none = || io::Error::other("the name has no address");
    resolve(text)?.into_iter().next().ok_or_else(none)
}

/// The addresses of [`resolve`], as they can be connected to: see [`with_links`].
pub(crate) async fn look_up(text: &str) -> io::Result<Vec<SocketAddr>> {
    let found = match scoped(text) {
        Some(address) => vec![address?],
        None => tokio::net::lookup_host(text).await?.collect(),
    };
    Ok(with_links(&found))
}

/// An address with the name or number of an interface (RFC 4007 section 11); none of another form.
fn scoped(text: &str) -> Option<io::Result<SocketAddr>> {
    let (host, port) = text.strip_prefix('[')?.split_once("]:")?;
    let (ip, interface) = host.split_once('%')?;
    let ip = ip.parse::<Ipv6Addr>().ok()?;
    let port = port.parse().ok()?;
    let known =
        || get_if_addrs().unwrap_or_default().into_iter().find(|own| own.name == interface)?.index;
    let missing =
        || io::Error::other(format!("there is no interface `{interface}` with an address"));
    let scope = interface.parse().ok().or_else(known).ok_or_else(missing);
    Some(scope.map(|scope| SocketAddrV6::new(ip, port, 0, scope).into()))
}

/// The addresses, with a link-local one without an interface once for each interface: a peer does
/// not know those of this machine.
pub(crate) fn with_links(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let links = || {
        let mut links: Vec<u32> = get_if_addrs()
            .unwrap_or_default()
            .iter()
            .filter(|own| own.is_link_local() && own.ip().is_ipv6())
            .filter_map(|own: &Interface| own.index)
            .collect();
        links.dedup();
        links
    };
    let of = |address: &SocketAddr| match address {
        SocketAddr::V6(v6) if v6.scope_id() == 0 && v6.ip().is_unicast_link_local() => links()
            .into_iter()
            .map(|link| SocketAddrV6::new(*v6.ip(), v6.port(), 0, link).into())
            .collect(),
        _ => vec![*address],
    };
    addresses.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_may_name_an_interface() {
        let read = |text: &str| resolve(text).map_err(|error| error.to_string());
        let lo = get_if_addrs().expect("interfaces").into_iter().find(Interface::is_loopback);
        let lo = lo.expect("loopback");
        let index = lo.index.expect("a number");
        let link = SocketAddrV6::new("fe80::1".parse().expect("an address"), 4460, 0, index).into();
        assert_eq!(read(&format!("[fe80::1%{}]:4460", lo.name)), Ok(vec![link]));
        assert_eq!(read(&format!("[fe80::1%{index}]:4460")), Ok(vec![link]));
        assert_eq!(read("192.0.2.1:1"), Ok(vec![([192, 0, 2, 1], 1).into()]));
        assert!(read("[fe80::1%none0]:1").is_err_and(|why| why.contains("`none0`")));
        for bad in ["fe80::1%lo", "[fe80::1%lo]", "[fe80::1%lo]:x", "", "::1"] {
            assert!(read(bad).is_err(), "{bad}");
        }
        let loopback = SocketAddr::new(Ipv6Addr::LOCALHOST.into(), 1);
        assert_eq!(with_links(&[loopback, link]), [loopback, link]);
    }
}
