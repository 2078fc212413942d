//! `windward play`: the playground in a browser, served on loopback.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use windward_sim::output::OutputFile;

use crate::failure::Failure;
use crate::{output, signals};

/// The page, which crates/web/build.sh makes: one compressed file.
const PAGE: &[u8] = include_bytes!("../../web/dist/play.html.gz");

/// Largest size of the page, bytes.
const MAX_PAGE: usize = 16 << 20;
/// Maximum size of the head of a request, bytes.
const MAX_REQUEST: usize = 8 << 10;
/// Maximum time that a client may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum number of clients at a time; others are turned away.
const MAX_CLIENTS: usize = 32;
static CLIENTS: AtomicUsize = AtomicUsize::new(0);
/// Interval of checks for Ctrl-C.
const TICK: Duration = Duration::from_millis(50);

/// Open the playground: the simulator in a browser, with sliders
///
/// The page is served on loopback until Ctrl-C. It is one file, which needs no network and sends
/// nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Port on 127.0.0.1; 0 takes a free one
    #[arg(long, default_value_t = 0)]
    port: u16,

    /// Print the address and do not open a browser
    #[arg(long)]
    no_browser: bool,

    /// Write the page to this file instead, which works from a disk without a server
    #[arg(long, value_name = "FILE.html", conflicts_with_all = ["port", "no_browser"])]
    save: Option<PathBuf>,
}

pub(crate) fn play(args: &Args, quiet: bool) -> Result<(), Failure> {
    if let Some(path) = &args.save {
        output::claim("--save", path)?;
        let page = unpacked()?;
        OutputFile::create(path)?.finish(&page)?;
        return Ok(());
    }
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let listener = TcpListener::bind(address).map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => Failure::Input(format!(
            "--port {}: another program uses this port; give another one, or none for a free one",
            args.port
        )),
        _ => Failure::Failed(format!("cannot listen on {address}: {error}")),
    })?;
    let failed = |error: io::Error| Failure::Failed(format!("cannot serve the page: {error}"));
    let port = listener.local_addr().map_err(failed)?.port();
    listener.set_nonblocking(true).map_err(failed)?;
    let url = format!("http://127.0.0.1:{port}/");
    output::print(&format!("{url}\n"))?;
    if !args.no_browser && !open(&url) && !quiet {
        output::note("no browser could be started: open the address above");
    }
    if !quiet {
        output::note("serving the playground; Ctrl-C ends it");
    }
    loop {
        signals::check()?;
        match listener.accept() {
            // A client that leaves or sends nonsense concerns nobody else.
            Ok((client, _)) if CLIENTS.load(Ordering::Relaxed) < MAX_CLIENTS => {
                CLIENTS.fetch_add(1, Ordering::Relaxed);
                std::thread::spawn(move || {
                    drop(answer(client, port));
                    CLIENTS.fetch_sub(1, Ordering::Relaxed);
                });
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(TICK),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // The client left, or there are too many open files for a moment.
            Err(_) => std::thread::sleep(TICK),
        }
    }
}

/// Answers one request.
fn answer(mut client: TcpStream, port: u16) -> io::Result<()> {
    client.set_nonblocking(false)?;
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    let mut request = Vec::new();
    let mut part = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < MAX_REQUEST {
        match client.read(&mut part)? {
            0 => break,
            length => request.extend_from_slice(&part[..length]),
        }
    }
    let (head, body) = response(&String::from_utf8_lossy(&request), port);
    client.write_all(head.as_bytes())?;
    client.write_all(&body)
}

/// Head and body of the answer to a request. The page has its own policy; the headers add what a
/// page cannot say of itself.
fn response(request: &str, port: u16) -> (String, Vec<u8>) {
    let mut words = request.lines().next().unwrap_or_default().split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let header = |name: &str| {
        let mut lines = request.lines().skip(1).filter_map(|line| line.split_once(':'));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    };
    // Names of other hosts that lead here would let their pages read this one.
    let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    let is_ours = header("host").is_some_and(|host| hosts.iter().any(|known| known == host));
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let takes_gzip = header("accept-encoding").is_some_and(|all| all.contains("gzip"));
    let (status, kind, body) = match (method, path) {
        _ if !is_ours => {
            ("403 Forbidden", "text/plain", b"this address is for 127.0.0.1\n".to_vec())
        }
        ("GET" | "HEAD", "/") if takes_gzip => ("200 OK", "text/html", PAGE.to_vec()),
        ("GET" | "HEAD", "/") => ("200 OK", "text/html", unpacked().unwrap_or_default()),
        ("GET" | "HEAD", _) => {
            ("404 Not Found", "text/plain", b"the playground is at /\n".to_vec())
        }
        _ => ("405 Method Not Allowed", "text/plain", b"GET / is the playground\n".to_vec()),
    };
    let packed = if kind == "text/html" && takes_gzip { "Content-Encoding: gzip\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}; charset=utf-8\r\nContent-Length: {}\r\n{packed}\
         Content-Security-Policy: frame-ancestors 'none'\r\nX-Content-Type-Options: nosniff\r\n\
         Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n",
        body.len()
    );
    (head, if method == "HEAD" { Vec::new() } else { body })
}

/// The page as HTML.
fn unpacked() -> Result<Vec<u8>, Failure> {
    // A gzip member without optional fields (RFC 1952 section 2.3): ten bytes, data, eight bytes.
    let data = PAGE.get(10..PAGE.len() - 8).unwrap_or_default();
    miniz_oxide::inflate::decompress_to_vec_with_limit(data, MAX_PAGE)
        .map_err(|error| Failure::Failed(format!("the page in this program is damaged: {error}")))
}

/// Starts a browser. Returns false if this machine has no browser.
fn open(url: &str) -> bool {
    let openers: &[&[&str]] = if cfg!(target_os = "macos") {
        &[&["open"]]
    } else if cfg!(windows) {
        &[&["rundll32", "url.dll,FileProtocolHandler"]]
    } else {
        // Without a screen, xdg-open starts a browser in the terminal.
        if std::env::var_os("DISPLAY").is_none() && std::env::var_os("WAYLAND_DISPLAY").is_none() {
            return false;
        }
        &[&["xdg-open"], &["sensible-browser"], &["x-www-browser"]]
    };
    openers.iter().any(|words| {
        let started = Command::new(words[0])
            .args(&words[1..])
            .arg(url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        // It ends by itself, and is waited for so that it leaves no zombie.
        started.map(|mut child| drop(std::thread::spawn(move || drop(child.wait())))).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(request: &str) -> String {
        let (head, _) = response(request, 8000);
        head.lines().next().unwrap_or_default().to_owned()
    }

    #[test]
    fn only_the_page_is_served_and_only_by_its_own_name() {
        let host = "\r\nHost: 127.0.0.1:8000\r\n\r\n";
        assert_eq!(status(&format!("GET / HTTP/1.1{host}")), "HTTP/1.1 200 OK");
        assert_eq!(status(&format!("GET /?x HTTP/1.1{host}")), "HTTP/1.1 200 OK");
        assert_eq!(status(&format!("GET /etc/passwd HTTP/1.1{host}")), "HTTP/1.1 404 Not Found");
        assert_eq!(status(&format!("POST / HTTP/1.1{host}")), "HTTP/1.1 405 Method Not Allowed");
        let rebound = "GET / HTTP/1.1\r\nHost: evil.example:8000\r\n\r\n";
        assert_eq!(status(rebound), "HTTP/1.1 403 Forbidden");
        for broken in ["", "\r\n\r\n", "GET", "\u{fffd}\u{fffd} \u{fffd}"] {
            assert_eq!(status(broken), "HTTP/1.1 403 Forbidden", "{broken:?}");
        }
    }

    #[test]
    fn a_client_without_gzip_gets_the_same_page() {
        let request = "GET / HTTP/1.0\r\nhost: localhost:8000\r\n";
        let (head, plain) = response(&format!("{request}\r\n"), 8000);
        assert!(!head.contains("gzip"));
        let (head, packed) = response(&format!("{request}accept-encoding: gzip, br\r\n\r\n"), 8000);
        assert!(head.contains("Content-Encoding: gzip"));
        // The last four bytes of gzip are the length of its contents (RFC 1952 section 2.3.1).
        let length = packed.last_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes));
        assert_eq!(length, Some(plain.len() as u32));
        assert!(plain.starts_with(b"<!doctype html>"));
        let (_, nothing) = response("HEAD / HTTP/1.1\r\nHost: localhost:8000\r\n\r\n", 8000);
        assert!(nothing.is_empty());
    }
}
