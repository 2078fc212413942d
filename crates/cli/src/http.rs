//! Sockets of `play`, `--web` and `--metrics`.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use windward_http::Listener;

use crate::failure::Failure;

/// Listens at an address; port 0 takes a free one. `option` is the option that names it.
///
/// # Errors
/// If the port is taken, or the address is not of this machine.
pub(crate) fn listen(option: &str, address: SocketAddr) -> Result<Listener, Failure> {
    let port = address.port();
    Listener::bind(address).map_err(|error: io::Error| match error.kind() {
        ErrorKind::AddrInUse => Failure::Input(format!(
            "{option}: another program uses port {port}; give another port, or 0 for a free one"
        )),
        ErrorKind::AddrNotAvailable => {
            Failure::Input(format!("{option}: {} is not an address of this machine", address.ip()))
        }
        ErrorKind::PermissionDenied => Failure::Input(format!(
            "{option}: port {port} needs root; give a port from 1024 on, or 0 for a free one"
        )),
        _ => Failure::Failed(format!("{option}: cannot listen at {address}: {error}")),
    })
}

#[cfg(any(test, target_os = "linux"))]
/// A port of loopback, an IP address with a free port, or both.
pub(crate) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let local = text.strip_prefix("localhost").map(|rest| format!("127.0.0.1{rest}"));
    let text = local.as_deref().unwrap_or(text);
    let bracketed = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    if text.is_empty() {
        return Ok(loopback(0));
    }
    if let Ok(port) = text.parse::<u16>() {
        return Ok(loopback(port));
    }
    if let Some(ip) = bracketed.and_then(|text| text.parse::<Ipv6Addr>().ok()) {
        return Ok(SocketAddr::from((ip, 0)));
    }
    text.parse::<SocketAddr>()
        .or_else(|_| text.parse::<IpAddr>().map(|ip| SocketAddr::from((ip, 0))))
        .map_err(|_| {
            "expected a port, an IP address or both, such as 8000 or 127.0.0.1:8000".to_owned()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_port_an_ip_address_or_both() {
        for (text, address) in [
            ("", "127.0.0.1:0"),
            ("0", "127.0.0.1:0"),
            ("8000", "127.0.0.1:8000"),
            ("localhost:8000", "127.0.0.1:8000"),
            ("localhost", "127.0.0.1:0"),
            ("0.0.0.0", "0.0.0.0:0"),
            ("192.0.2.1:80", "192.0.2.1:80"),
            ("::1", "[::1]:0"),
            ("[::1]", "[::1]:0"),
            ("[::1]:8000", "[::1]:8000"),
        ] {
            assert_eq!(parse_address(text), Ok(address.parse().unwrap()), "{text}");
        }
        for wrong in ["65536", "scenario.toml", "eth0", "-1", "host:80", "[::1", "localhosts"] {
            assert!(parse_address(wrong).unwrap_err().contains("127.0.0.1:8000"), "{wrong}");
        }
    }
}
