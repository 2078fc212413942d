//! Targets of forwarded connections, and rules that say which targets a peer may reach.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use super::reply::Reply;
use crate::error::Error;

/// Longest name of a host (RFC 1035 section 2.3.4).
const LONGEST_NAME: usize = 253;

/// A host, by name or by address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// A name in lower case, which the server resolves.
    Name(String),
    /// An address.
    Address(IpAddr),
}

impl Host {
    /// A host from a name or an address, without brackets.
    ///
    /// # Errors
    ///
    /// If it is neither an address nor at most 253 letters, digits, `-`, `_` and `.`.
    pub fn new(text: &str) -> Result<Self, Error> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Host::Address(address.to_canonical()));
        }
        let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if text.is_empty() || text.len() > LONGEST_NAME || !text.chars().all(valid) {
            return Err(Error::Input(format!(
                "`{}` is not a host: expected a name or an address",
                text.escape_debug()
            )));
        }
        Ok(Host::Name(text.trim_end_matches('.').to_ascii_lowercase()))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => f.write_str(name),
            Host::Address(IpAddr::V4(address)) => address.fmt(f),
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// The host.
    pub host: Host,
    /// The port; never zero.
    pub port: u16,
}

impl Target {
    /// A target.
    ///
    /// # Errors
    ///
    /// If the port is zero.
    pub fn new(host: Host, port: u16) -> Result<Self, Error> {
        if port == 0 {
            return Err(Error::Input(format!("{host}:0: the port of a target is 1 to 65535")));
        }
        Ok(Target { host, port })
    }
}

impl From<SocketAddr> for Target {
    fn from(address: SocketAddr) -> Self {
        Target { host: Host::Address(address.ip().to_canonical()), port: address.port() }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl FromStr for Target {
    type Err = Error;

    /// Reads `HOST:PORT`; addresses of IPv6 stand in brackets.
    fn from_str(text: &str) -> Result<Self, Error> {
        let (host, port) = split_port(text).ok_or_else(|| {
            Error::Input(format!(
                "`{}` is not a target: write HOST:PORT, as 127.0.0.1:22, db.example:5432 or [::1]:80",
                text.escape_debug()
            ))
        })?;
        let port = port.parse().map_err(|_| not_a_port(port))?;
        Target::new(Host::new(host)?, port)
    }
}

fn not_a_port(text: &str) -> Error {
    Error::Input(format!("`{}` is not a port: expected 1 to 65535", text.escape_debug()))
}

/// The parts before and after the last colon, without brackets around the first.
fn split_port(text: &str) -> Option<(&str, &str)> {
    let (host, port) = text.rsplit_once(':')?;
    match host.strip_prefix('[') {
        Some(inner) => Some((inner.strip_suffix(']')?, port)),
        // An address of IPv6 without brackets is ambiguous.
        None if host.contains(':') => None,
        None => Some((host, port)),
    }
}

/// Hosts of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    /// All but those of this machine and of its link.
    Any,
    /// This name.
    Name(String),
    /// All names that end in this one, with its leading dot.
    Under(String),
    /// Addresses that have these leading bits.
    Network(IpAddr, u8),
}

/// Hosts and ports that may be reached: `HOST:PORTS`.
///
/// HOST is a name, `*.example.com` for all names under one, an address, a network as `10.0.0.0/8`
/// or `[fd00::]/8`, or `*`. PORTS is a port, a range as `8000-8099`, or `*`. The host `*` excludes
/// addresses of this machine and its link (loopback, link-local, multicast, unspecified), which a
/// peer must not reach by accident.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    hosts: Hosts,
    first: u16,
    last: u16,
}

impl FromStr for Rule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let invalid = || {
            Error::Input(format!(
                "`{}` is not a rule: write HOST:PORTS, as 127.0.0.1:22, *.example.com:443, \
                 10.0.0.0/8:8000-8099 or *:*",
                text.escape_debug()
            ))
        };
        let (host, ports) = text.rsplit_once(':').ok_or_else(invalid)?;
        let (first, last) = match ports.split_once('-') {
            _ if ports == "*" => (1, u16::MAX),
            Some((first, last)) => (
                first.parse().map_err(|_| not_a_port(first))?,
                last.parse().map_err(|_| not_a_port(last))?,
            ),
            None => {
                let port = ports.parse().map_err(|_| not_a_port(ports))?;
                (port, port)
            }
        };
        if first == 0 || last < first {
            return Err(not_a_port(ports));
        }
        let (host, bits) = match host.split_once('/') {
            Some((host, bits)) => (host, Some(bits)),
            None => (host, None),
        };
        let bare = match host.strip_prefix('[') {
            Some(inner) => inner.strip_suffix(']').ok_or_else(invalid)?,
            None if host.contains(':') => return Err(invalid()),
            None => host,
        };
        let hosts = match (bare, bits) {
            ("*", None) => Hosts::Any,
            (_, None) if bare.starts_with("*.") => match Host::new(&bare[2..])? {
                Host::Name(name) => Hosts::Under(format!(".{name}")),
                Host::Address(_) => return Err(invalid()),
            },
            _ => match (Host::new(bare)?, bits) {
                (Host::Name(name), None) => Hosts::Name(name),
                (Host::Name(_), Some(_)) => return Err(invalid()),
                (Host::Address(address), bits) => {
                    let most = if address.is_ipv4() { 32 } else { 128 };
                    let bits = bits.map_or(Ok(most), str::parse).map_err(|_| invalid())?;
                    if bits > most {
                        return Err(invalid());
                    }
                    Hosts::Network(address, bits)
                }
            },
        };
        Ok(Rule { hosts, first, last })
    }
}

impl Rule {
    fn has_port(&self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }

    fn has_name(&self, name: &str) -> bool {
        match &self.hosts {
            Hosts::Name(own) => own == name,
            Hosts::Under(end) => name.ends_with(end.as_str()),
            Hosts::Any | Hosts::Network(..) => false,
        }
    }

    fn has_address(&self, address: IpAddr) -> bool {
        match self.hosts {
            Hosts::Any => !is_near(address),
            Hosts::Network(network, bits) => same_network(network, address, bits),
            Hosts::Name(_) | Hosts::Under(_) => false,
        }
    }
}

/// True for addresses of this machine, of its link, and of groups.
fn is_near(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            v4.is_loopback()
                || v4.is_link_local()
                || v4.is_multicast()
                || v4.is_broadcast()
                || v4.octets()[0] == 0
        }
        IpAddr::V6(v6) => {
            v6.is_loopback()
                || v6.is_unicast_link_local()
                || v6.is_multicast()
                || v6.is_unspecified()
        }
    }
}

fn same_network(one: IpAddr, other: IpAddr, bits: u8) -> bool {
    let high = |value: u128, width: u32| value.checked_shr(width - u32::from(bits)).unwrap_or(0);
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            high(u32::from(one).into(), 32) == high(u32::from(other).into(), 32)
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => {
            high(u128::from(one), 128) == high(u128::from(other), 128)
        }
        _ => false,
    }
}

/// The rules of a peer. A target is allowed if one of them has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules(pub Vec<Rule>);

impl Rules {
    /// True if nothing is allowed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if a host of this name may be reached wherever it is.
    pub fn allow_name(&self, name: &str, port: u16) -> bool {
        self.0.iter().any(|rule| rule.has_port(port) && rule.has_name(name))
    }

    /// True if this address may be reached.
    pub fn allow_address(&self, address: IpAddr, port: u16) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|rule| rule.has_port(port) && rule.has_address(address))
    }

    /// True if some address may be reached at this port. If not, a name that is not allowed need
    /// not be resolved.
    fn allow_some_address(&self, port: u16) -> bool {
        self.0.iter().any(|rule| {
            rule.has_port(port) && matches!(rule.hosts, Hosts::Any | Hosts::Network(..))
        })
    }

    /// Addresses at which a target may be reached, in the order of the resolver: all addresses of a
    /// name that is allowed, else those of its addresses that are.
    ///
    /// # Errors
    ///
    /// If no address may be reached: the reply to the peer.
    pub async fn resolve(&self, target: &Target) -> Result<Vec<SocketAddr>, Reply> {
        let port = target.port;
        let name = match &target.host {
            Host::Address(address) if self.allow_address(*address, port) => {
                return Ok(vec![SocketAddr::new(*address, port)]);
            }
            Host::Address(_) => return Err(Reply::NotAllowed),
            Host::Name(name) => name.as_str(),
        };
        let named = self.allow_name(name, port);
        if !named && !self.allow_some_address(port) {
            return Err(Reply::NotAllowed);
        }
        let found = tokio::net::lookup_host((name, port)).await;
        let all: Vec<SocketAddr> = found.map_err(|_| Reply::HostUnreachable)?.collect();
        if all.is_empty() {
            return Err(Reply::HostUnreachable);
        }
        let allowed: Vec<SocketAddr> =
            all.into_iter().filter(|to| named || self.allow_address(to.ip(), port)).collect();
        if allowed.is_empty() { Err(Reply::NotAllowed) } else { Ok(allowed) }
    }
}

impl FromStr for Rules {
    type Err = Error;

    /// Reads rules separated by commas.
    fn from_str(text: &str) -> Result<Self, Error> {
        text.split(',').map(str::parse).collect::<Result<_, _>>().map(Rules)
    }
}

/// Where a forwarder listens and what it connects to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// True for UDP.
    pub udp: bool,
    /// Where the forwarder listens.
    pub bind: SocketAddr,
    /// Target of the server.
    pub target: Target,
}

impl FromStr for Mapping {
    type Err = Error;

    /// Reads `[udp:][BIND:]PORT:HOST:PORT`, as `-L` of ssh. Without BIND it is 127.0.0.1; `*` is
    /// all addresses.
    fn from_str(text: &str) -> Result<Self, Error> {
        let invalid = || {
            Error::Input(format!(
                "`{}`: write [udp:][BIND:]PORT:HOST:PORT, as 2222:127.0.0.1:22 or udp:5353:10.0.0.1:53",
                text.escape_debug()
            ))
        };
        let (udp, rest) = match text.strip_prefix("udp:") {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix("tcp:").unwrap_or(text)),
        };
        let parts = split_outside_brackets(rest);
        let (bind, host, port) = match parts[..] {
            [port, host, to] => (bind(None, port), host, to),
            [at, port, host, to] => (bind(Some(at), port), host, to),
            _ => return Err(invalid()),
        };
        let bind = bind.ok_or_else(invalid)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = port.parse().map_err(|_| not_a_port(port))?;
        Ok(Mapping { udp, bind, target: Target::new(Host::new(bare)?, port)? })
    }
}

impl fmt::Display for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.udp { "udp:" } else { "" };
        write!(f, "{kind}{}:{}", self.bind, self.target)
    }
}

/// Reads `[BIND:]PORT`, as `-D` of ssh.
///
/// # Errors
///
/// If it is not of this form.
pub fn read_bind(text: &str) -> Result<SocketAddr, Error> {
    let bound = match split_outside_brackets(text)[..] {
        [port] => bind(None, port),
        [at, port] => bind(Some(at), port),
        _ => None,
    };
    bound.ok_or_else(|| {
        Error::Input(format!("`{}`: write [BIND:]PORT, as 1080", text.escape_debug()))
    })
}

fn bind(at: Option<&str>, port: &str) -> Option<SocketAddr> {
    let address = match at {
        None | Some("localhost") => IpAddr::V4(Ipv4Addr::LOCALHOST),
        Some("*" | "") => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        Some(text) => {
            let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
            bare.unwrap_or(text).parse().ok()?
        }
    };
    Some(SocketAddr::new(address, port.parse().ok()?))
}

fn split_outside_brackets(text: &str) -> Vec<&str> {
    let mut inside = false;
    text.split(|c| {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            _ => {}
        }
        c == ':' && !inside
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::super::reply::Reply;
    use super::*;

    fn rules(text: &str) -> Rules {
        text.parse().expect(text)
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect(text)
    }

    #[test]
    fn targets_are_read_and_written() {
        for text in ["127.0.0.1:22", "db.example:5432", "[2001:db8::1]:80"] {
            assert_eq!(text.parse::<Target>().expect(text).to_string(), text);
        }
        assert_eq!("DB.Example.:1".parse::<Target>().expect("a name").to_string(), "db.example:1");
        // An IPv4 address as IPv6 writes it is that IPv4 address.
        let mapped = "[::ffff:127.0.0.1]:22".parse::<Target>().expect("an address");
        assert_eq!(mapped.to_string(), "127.0.0.1:22");
        for bad in ["", "22", "a:", "a:0", "a:65536", "a b:1", "::1:80", "[::1:80", "\n:1", ":22"] {
            assert!(bad.parse::<Target>().is_err(), "{bad:?}");
        }
        assert!(format!("{}:1", "a".repeat(254)).parse::<Target>().is_err());
    }

    #[test]
    fn rules_have_hosts_and_ports() {
        let some =
            rules("127.0.0.1:22,*.example.com:443,10.0.0.0/8:8000-8099,[fd00::]/8:*,db:5432");
        for (to, port) in [("127.0.0.1", 22), ("10.9.8.7", 8099), ("fd12::1", 1)] {
            assert!(some.allow_address(address(to), port), "{to} {port}");
        }
        assert!(some.allow_address(address("::ffff:127.0.0.1"), 22));
        for (to, port) in [("127.0.0.1", 23), ("127.0.0.2", 22), ("11.0.0.1", 8000), ("::1", 22)] {
            assert!(!some.allow_address(address(to), port), "{to} {port}");
        }
        assert!(some.allow_name("a.example.com", 443) && some.allow_name("db", 5432));
        assert!(!some.allow_name("example.com", 443) && !some.allow_name("aexample.com", 443));
        for bad in ["", "a", "a:0", "a:5-4", "*.1.2.3.4:1", "a/8:1", "1.2.3.4/33:1", "::1:1", "a:x"]
        {
            assert!(bad.parse::<Rule>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn any_host_is_none_of_this_machine() {
        let any = rules("*:*");
        assert!(any.allow_address(address("192.0.2.1"), 1));
        for near in ["127.0.0.1", "169.254.169.254", "0.0.0.0", "::1", "fe80::1", "::", "224.0.0.1"]
        {
            assert!(!any.allow_address(address(near), 80), "{near}");
        }
        assert!(rules("*:*,127.0.0.1:80").allow_address(address("127.0.0.1"), 80));
        assert!(rules("0.0.0.0/0:1").allow_address(address("127.0.0.1"), 1));
    }

    #[tokio::test]
    async fn names_are_checked_by_name_or_by_their_addresses() {
        let local: Target = "localhost:80".parse().expect("a target");
        let reach = async |text: &str| rules(text).resolve(&local).await;
        assert!(reach("localhost:80").await.is_ok());
        let found = reach("127.0.0.1:80").await;
        // A machine may know localhost by IPv6 alone.
        assert!(found == Ok(vec!["127.0.0.1:80".parse().expect("an address")]) || found.is_err());
        assert_eq!(reach("*:80").await, Err(Reply::NotAllowed));
        assert_eq!(reach("other:80").await, Err(Reply::NotAllowed));
        assert_eq!(reach("localhost:81").await, Err(Reply::NotAllowed));
    }

    #[test]
    fn mappings_are_those_of_ssh() {
        let read = |text: &str| text.parse::<Mapping>().expect(text);
        let plain = read("2222:127.0.0.1:22");
        assert_eq!(plain.to_string(), "127.0.0.1:2222:127.0.0.1:22");
        assert!(!plain.udp && read("udp:53:10.0.0.1:53").udp);
        let all = read("[::1]:80:[2001:db8::1]:8080");
        assert_eq!(all.bind, "[::1]:80".parse().expect("an address"));
        assert_eq!(all.target.to_string(), "[2001:db8::1]:8080");
        assert_eq!(read("*:0:a:1").bind, "[::]:0".parse().expect("an address"));
        for bad in ["", "1", "1:a", "a:b:c:d", "1:a:0", "1:a:b:c:d", "70000:a:1", "1::2"] {
            assert!(bad.parse::<Mapping>().is_err(), "{bad:?}");
        }
        assert_eq!(read_bind("1080").expect("a port"), "127.0.0.1:1080".parse().expect("it"));
        assert!(read_bind("a:b:c").is_err() && read_bind("").is_err());
    }
}
