//! Names by which a client may address a server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// True if an authority (`Host: 127.0.0.1:8000`) names this server: by an IP address or
/// `localhost`, and its port. A server on loopback has the names of loopback only.
///
/// A page of another host can have the name of that host resolve to this address (DNS rebinding).
/// The browser then sends that name, so that no other name is accepted: neither an IP address nor
/// `localhost` is a name that others can give an address to.
pub(crate) fn is_of(authority: &str, ours: SocketAddr) -> bool {
    let (name, port) = match authority.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port),
        _ => (authority, "80"),
    };
    let bracketed = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let ip = match bracketed {
        Some(ip) => ip.parse::<Ipv6Addr>().ok().map(IpAddr::from),
        None if name.eq_ignore_ascii_case("localhost") => Some(Ipv4Addr::LOCALHOST.into()),
        None => name.parse::<Ipv4Addr>().ok().map(IpAddr::from),
    };
    // Not by u16::from_str alone, which takes `+80`.
    let is_port =
        port.bytes().all(|digit| digit.is_ascii_digit()) && port.parse() == Ok(ours.port());
    is_port && ip.is_some_and(|ip| ip.is_loopback() || !ours.ip().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_by_an_ip_address_or_localhost_and_its_port() {
        let here = "127.0.0.1:8000";
        let there = "192.0.2.1:80";
        for (authority, ours, named) in [
            ("127.0.0.1:8000", here, true),
            ("127.9.9.9:8000", here, true),
            ("LocalHost:8000", here, true),
            ("[::1]:8000", here, true),
            ("127.0.0.1", "127.0.0.1:80", true),
            ("[::1]", "[::1]:80", true),
            // Others reach it by addresses that it does not know of, such as that of a NAT.
            ("203.0.113.7", there, true),
            ("[2001:db8::1]:80", there, true),
            ("", here, false),
            ("127.0.0.1", here, false),
            ("127.0.0.1:", here, false),
            ("127.0.0.1:8001", here, false),
            ("127.0.0.1:+8000", here, false),
            ("127.0.0.1:73536", here, false),
            ("127.0.0.1.:8000", here, false),
            ("127.1:8000", here, false),
            ("0x7f000001:8000", here, false),
            ("2130706433:8000", here, false),
            ("0.0.0.0:8000", here, false),
            ("192.0.2.1:8000", here, false),
            ("localhost.:8000", here, false),
            ("localhost:8000:8000", here, false),
            ("sub.localhost:8000", here, false),
            ("user@127.0.0.1:8000", here, false),
            ("127.0.0.1:8000@evil.example:8000", here, false),
            ("127.0.0.1:8000, evil.example", here, false),
            ("[::1%25lo]:8000", here, false),
            ("[::1%1]:8000", here, false),
            ("[127.0.0.1]:8000", here, false),
            ("[[::1]]:8000", here, false),
            ("::1:8000", here, false),
            ("evil.example:8000", here, false),
            ("gateway.example:80", there, false),
            ("gateway:80", there, false),
        ] {
            assert_eq!(is_of(authority, ours.parse().unwrap()), named, "{authority} at {ours}");
        }
    }
}
