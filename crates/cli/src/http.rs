//! Pages for a browser over HTTP (RFC 9112), for `play` and `--web`.
//!
//! The server only answers GET and HEAD, one request per connection, by threads whose number is
//! bounded. A request has [`PATIENCE`] to arrive. Names of other hosts are refused: a page that has
//! such a name resolve to this address could otherwise read what is served here.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use windward_report::playground::unpacked;

use crate::clock::Stopwatch;
use crate::failure::Failure;

/// Maximum size of the head of a request, bytes, and its maximum number of fields.
const MAX_REQUEST: usize = 8 << 10;
const MAX_FIELDS: usize = 64;
/// Maximum time in which a request arrives.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum time in which a client takes any of its answer.
const STALL: Duration = Duration::from_secs(10);
/// Maximum number of clients at a time; the connections of others are closed.
const MAX_CLIENTS: usize = 32;
/// Interval of checks for the end.
const TICK: Duration = Duration::from_millis(50);

/// A socket that waits for browsers.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Listens at an address; port 0 takes a free one. `option` is the option that names it.
    ///
    /// # Errors
    /// If the port is taken, or the address is not of this machine.
    pub(crate) fn bind(option: &str, address: SocketAddr) -> Result<Self, Failure> {
        let port = address.port();
        let bind = || {
            let socket = TcpListener::bind(address)?;
            socket.set_nonblocking(true)?;
            let address = socket.local_addr()?;
            Ok(Listener { socket, address })
        };
        bind().map_err(|error: io::Error| match error.kind() {
            ErrorKind::AddrInUse => Failure::Input(format!(
                "{option}: another program uses port {port}; give another port, or 0 for a free one"
            )),
            ErrorKind::AddrNotAvailable => Failure::Input(format!(
                "{option}: {} is not an address of this machine",
                address.ip()
            )),
            ErrorKind::PermissionDenied => Failure::Input(format!(
                "{option}: port {port} needs root; give a port from 1024 on, or 0 for a free one"
            )),
            _ => Failure::Failed(format!("{option}: cannot listen at {address}: {error}")),
        })
    }

    /// True if only this machine reaches it.
    #[cfg(target_os = "linux")]
    pub(crate) fn is_loopback(&self) -> bool {
        self.address.ip().is_loopback()
    }

    /// The address of the page. An unspecified address is replaced by loopback.
    pub(crate) fn url(&self) -> String {
        let mut address = self.address;
        match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        format!("http://{address}/")
    }

    /// Answers clients on threads of their own until `is_over`.
    pub(crate) fn serve(&self, site: &Arc<Site>, is_over: impl Fn() -> bool) {
        // Each thread of a client holds another reference.
        let clients = Arc::new(());
        while !is_over() {
            let stream = match self.socket.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // Nobody, a client that has left again, or too many open files for a moment.
                Err(_) => {
                    std::thread::sleep(TICK);
                    continue;
                }
            };
            if Arc::strong_count(&clients) > MAX_CLIENTS {
                continue;
            }
            let (client, site, ours) = (Arc::clone(&clients), Arc::clone(site), self.address);
            let answer = move || {
                // A client that leaves or sends nonsense concerns nobody else.
                let _ = answer(stream, &site, ours);
                drop(client);
            };
            // If no thread can be made, the connection is closed.
            let _ = std::thread::Builder::new().name("http".into()).spawn(answer);
        }
    }
}

/// Contents of a server.
#[derive(Debug)]
pub(crate) struct Site {
    /// The page at `/`: gzip without optional fields.
    pub(crate) page: &'static [u8],
    /// The events at `/events`.
    pub(crate) events: Option<Box<dyn Events>>,
}

/// Server-sent events.
pub(crate) trait Events: fmt::Debug + Send + Sync {
    /// Writes events to a client until there are no more or it has left. `last` is the number of
    /// the last event that it has from an earlier connection.
    ///
    /// # Errors
    /// If the client has left, or takes nothing for the time-out of its socket.
    fn stream(&self, last: Option<u64>, client: &mut dyn Write) -> io::Result<()>;
}

/// Content of an answer.
#[derive(Debug)]
enum Content {
    Bytes(Vec<u8>),
    /// Events after the one with this number; all that are kept without one.
    Events(Option<u64>),
}

/// Status line, fields and content of an answer.
#[derive(Debug)]
struct Answer {
    head: String,
    content: Content,
}

/// Reads a request and answers it.
fn answer(mut stream: TcpStream, site: &Site, ours: SocketAddr) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(STALL))?;
    let request = read(&mut stream)?;
    let Answer { head, content } = respond(&request, site, ours);
    stream.write_all(head.as_bytes())?;
    match (content, &site.events) {
        (Content::Bytes(bytes), _) => stream.write_all(&bytes),
        (Content::Events(last), Some(events)) => events.stream(last, &mut stream),
        (Content::Events(_), None) => Ok(()),
    }
}

/// The head of a request, up to its limit.
fn read(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let since = Stopwatch::start();
    let mut request = Vec::new();
    let mut part = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < MAX_REQUEST {
        let left = PATIENCE.saturating_sub(since.elapsed());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part)? {
            0 => break,
            length => request.extend_from_slice(&part[..length]),
        }
    }
    Ok(request)
}

/// The answer to a request. The page has its own policy; the fields add what a page cannot say of
/// itself.
fn respond(request: &[u8], site: &Site, ours: SocketAddr) -> Answer {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut parsed = httparse::Request::new(&mut fields);
    let is_whole = parsed.parse(request).is_ok_and(|status| status.is_complete());
    let field = |name: &str| {
        let mut all = parsed.headers.iter();
        let found = all.find(|field| field.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(found.value).ok()
    };
    let path = parsed.path.unwrap_or_default().split(['?', '#']).next().unwrap_or_default();
    let method = parsed.method.unwrap_or_default();
    let takes_gzip = field("accept-encoding").is_some_and(|all| all.contains("gzip"));
    let plain = |text: &str| ("text/plain", Content::Bytes(text.as_bytes().to_vec()));
    let (status, (kind, content)) = match (method, path) {
        _ if !is_whole => ("400 Bad Request", plain("this is not a request of HTTP/1.1\n")),
        _ if !field("host").is_some_and(|host| is_of(host, ours)) => {
            ("403 Forbidden", plain("open this page by its IP address\n"))
        }
        ("GET" | "HEAD", "/") if takes_gzip => {
            ("200 OK", ("text/html", Content::Bytes(site.page.to_vec())))
        }
        ("GET" | "HEAD", "/") => {
            ("200 OK", ("text/html", Content::Bytes(unpacked(site.page).unwrap_or_default())))
        }
        ("GET" | "HEAD", "/events") if site.events.is_some() => {
            let last = field("last-event-id").and_then(|number| number.parse().ok());
            ("200 OK", ("text/event-stream", Content::Events(last)))
        }
        ("GET" | "HEAD", _) => ("404 Not Found", plain("the page is at /\n")),
        _ => ("405 Method Not Allowed", plain("only GET and HEAD are answered\n")),
    };
    let packed = if kind == "text/html" && takes_gzip { "Content-Encoding: gzip\r\n" } else { "" };
    let length = match &content {
        Content::Bytes(bytes) => format!("Content-Length: {}\r\n", bytes.len()),
        Content::Events(_) => String::new(),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}; charset=utf-8\r\n{length}{packed}\
         Content-Security-Policy: frame-ancestors 'none'\r\nX-Content-Type-Options: nosniff\r\n\
         Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n",
    );
    let content = if method == "HEAD" { Content::Bytes(Vec::new()) } else { content };
    Answer { head, content }
}

/// True if a field `Host` names this server: `localhost`, or an IP address, which no other host can
/// claim. With a loopback address, only the names of loopback count.
fn is_of(host: &str, ours: SocketAddr) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port.parse().ok()),
        _ => (host, Some(80)),
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    let is_ours = match name.parse::<IpAddr>() {
        Ok(ip) => ip.is_loopback() || !ours.ip().is_loopback(),
        Err(_) => name.eq_ignore_ascii_case("localhost"),
    };
    is_ours && port == Some(ours.port())
}

#[cfg(test)]
mod tests {
    use windward_report::playground::PAGE;

    use super::*;

    const SITE: Site = Site { page: PAGE, events: None };

    fn at(address: &str, request: &str) -> Answer {
        respond(request.as_bytes(), &SITE, address.parse().unwrap())
    }

    fn status(address: &str, request: &str) -> String {
        at(address, request).head[9..12].to_owned()
    }

    fn bytes(answer: Answer) -> Vec<u8> {
        match answer.content {
            Content::Bytes(bytes) => bytes,
            Content::Events(_) => panic!("events"),
        }
    }

    #[test]
    fn only_the_page_is_served_and_only_by_its_own_name() {
        let ask = |line: &str, host: &str| {
            status("127.0.0.1:8000", &format!("{line} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
        };
        let host = "127.0.0.1:8000";
        assert_eq!(ask("GET /", host), "200");
        assert_eq!(ask("GET /?x", host), "200");
        assert_eq!(ask("GET /etc/passwd", host), "404");
        assert_eq!(ask("GET /events", host), "404");
        assert_eq!(ask("POST /", host), "405");
        assert_eq!(ask("GET /", "LOCALHOST:8000"), "200");
        assert_eq!(ask("GET /", "[::1]:8000"), "200");
        for rebound in ["evil.example:8000", "127.0.0.1:8001", "127.0.0.1", "192.0.2.1:8000", ""] {
            assert_eq!(ask("GET /", rebound), "403", "{rebound}");
        }
        for broken in [
            "",
            "\r\n\r\n",
            "GET",
            "GET / HTTP/1.1\r\nHost: 127.0.0.1:8000\r\n",
            "\u{fffd} \u{fffd}",
        ] {
            assert_eq!(status("127.0.0.1:8000", broken), "400", "{broken:?}");
        }
    }

    #[test]
    fn an_address_that_others_reach_answers_to_addresses_and_not_to_names() {
        let ask =
            |host: &str| status("0.0.0.0:80", &format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(ask("192.0.2.7"), "200");
        assert_eq!(ask("[2001:db8::1]"), "200");
        assert_eq!(ask("gateway.example"), "403");
    }

    #[test]
    fn a_client_without_gzip_gets_the_same_page() {
        let request = "GET / HTTP/1.0\r\nhost: localhost:8000\r\n";
        let plain = at("127.0.0.1:8000", &format!("{request}\r\n"));
        assert!(!plain.head.contains("gzip"));
        let packed = at("127.0.0.1:8000", &format!("{request}accept-encoding: gzip, br\r\n\r\n"));
        assert!(packed.head.contains("Content-Encoding: gzip"));
        let (plain, packed) = (bytes(plain), bytes(packed));
        // The last four bytes of gzip are the length of its contents (RFC 1952 section 2.3.1).
        let length = packed.last_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes));
        assert_eq!(length, Some(plain.len() as u32));
        assert!(plain.starts_with(b"<!doctype html>"));
        let nothing = at("127.0.0.1:8000", "HEAD / HTTP/1.1\r\nHost: localhost:8000\r\n\r\n");
        assert!(bytes(nothing).is_empty());
    }
}
