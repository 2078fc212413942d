//! The HTTP servers of all commands, by one table of requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;

use crate::{Killed, command};

/// A command that serves HTTP, and ends when this is dropped.
struct Service {
    _process: Killed,
    address: String,
    path: &'static str,
    /// Beginning of the content at the path.
    content: &'static str,
}

impl Service {
    /// Starts a command, which prints `http://ADDRESS PATH`.
    fn start(args: &[&str], path: &'static str, content: &'static str) -> Self {
        let mut child =
            command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (found, address) = std::sync::mpsc::channel();
        let read = move |stream: Box<dyn Read + Send>| {
            let found = found.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    if let Some((_, url)) = line.split_once("http://") {
                        let address = url.split('/').next().unwrap().to_owned();
                        let _ = found.send(address);
                    }
                }
            });
        };
        read(Box::new(out));
        read(Box::new(err));
        let address = address.recv_timeout(Duration::from_secs(60)).expect("it says where");
        Service { _process: Killed(child), address, path, content }
    }

    fn all(home: &tempfile::TempDir) -> Vec<Service> {
        let config = home.path().display().to_string();
        let mut all =
            vec![Service::start(&["play", "--no-browser", "--port", "0"], "/", "<!doctype html>")];
        if cfg!(target_os = "linux") {
            let args = ["perf", "server", "--bind", "127.0.0.1", "--port", "0", "--web=0"];
            all.push(Service::start(&args, "/", "<!doctype html>"));
        }
        if cfg!(all(target_os = "linux", feature = "deploy")) {
            let args = ["--allow", "127.0.0.1:1", "--ticket", "--config", &config];
            let args =
                [&["serve", "--metrics", "127.0.0.1:0", "--listen", "127.0.0.1:0"], &args[..]];
            all.push(Service::start(&args.concat(), "/metrics", "# HELP windward_forward_"));
        }
        all
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// Everything that answers a request.
    fn ask(&self, request: &str) -> String {
        let mut stream = self.connect();
        let mut text = Vec::new();
        // A connection that is closed early may be reset.
        let _ = stream.write_all(request.as_bytes());
        let _ = stream.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Asks with `@` for the address, `#` for the port and `~` for the path.
    fn status(&self, request: &str) -> String {
        let port = self.address.rsplit(':').next().unwrap();
        let request = request.replace('@', &self.address).replace('#', port);
        let answer = self.ask(&request.replace('~', self.path).replace('%', "@"));
        answer.split(' ').nth(1).unwrap_or("closed").to_owned()
    }
}

#[test]
fn all_servers_answer_one_request_for_their_own_address_and_nothing_else() {
    let home = tempfile::tempdir().unwrap();
    for service in Service::all(&home) {
        for (request, status) in [
            ("GET ~ HTTP/1.1\r\nHost: @\r\n\r\n", "200"),
            ("HEAD ~ HTTP/1.1\r\nHost: @\r\n\r\n", "200"),
            ("GET ~ HTTP/1.0\r\nhost: @\r\n\r\n", "200"),
            ("GET ~?x=1 HTTP/1.1\r\nHost: LOCALHOST:#\r\n\r\n", "200"),
            ("GET ~ HTTP/1.1\r\nHost: [::1]:#\r\n\r\n", "200"),
            ("GET http://@~ HTTP/1.1\r\nHost: @\r\n\r\n", "200"),
            ("GET /etc/passwd HTTP/1.1\r\nHost: @\r\n\r\n", "404"),
            ("GET ~../~ HTTP/1.1\r\nHost: @\r\n\r\n", "404"),
            ("POST ~ HTTP/1.1\r\nHost: @\r\nContent-Length: 0\r\n\r\n", "405"),
            ("OPTIONS * HTTP/1.1\r\nHost: @\r\n\r\n", "405"),
            ("TRACE ~ HTTP/1.1\r\nHost: @\r\n\r\n", "405"),
            // Names that another host can have resolve to this address, and other ports.
            ("GET ~ HTTP/1.1\r\nHost: evil.example:#\r\n\r\n", "403"),
            ("GET ~ HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403"),
            ("GET ~ HTTP/1.1\r\nHost: localhost.:#\r\n\r\n", "403"),
            ("GET ~ HTTP/1.1\r\nHost: 127.0.0.1.:#\r\n\r\n", "403"),
            ("GET ~ HTTP/1.1\r\nHost: user%127.0.0.1:#\r\n\r\n", "403"),
            ("GET ~ HTTP/1.1\r\nHost: @%evil.example\r\n\r\n", "403"),
            ("GET ~ HTTP/1.1\r\nHost: [::1%25lo]:#\r\n\r\n", "403"),
            ("GET ~ HTTP/1.1\r\nHost: 192.0.2.1:#\r\n\r\n", "403"),
            ("GET ~ HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n", "403"),
            ("GET ~ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "403"),
            ("GET ~ HTTP/1.1\r\nHost: @, evil.example\r\n\r\n", "403"),
            ("GET ~ HTTP/1.1\r\nHost: \u{fc}:#\r\n\r\n", "403"),
            ("GET ~ HTTP/1.1\r\nHost:\r\n\r\n", "403"),
            ("GET http://evil.example:#~ HTTP/1.1\r\nHost: @\r\n\r\n", "403"),
            ("GET http://user%127.0.0.1:#~ HTTP/1.1\r\nHost: @\r\n\r\n", "403"),
            ("GET http://@~ HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403"),
            ("POST ~ HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0\r\n\r\n", "403"),
            ("CONNECT evil.example:# HTTP/1.1\r\nHost: @\r\n\r\n", "403"),
            // Not requests.
            ("GET ~ HTTP/1.1\r\n\r\n", "400"),
            ("GET ~ HTTP/1.0\r\n\r\n", "400"),
            ("GET ~ HTTP/1.1\r\nHost: @\r\nHost: @\r\n\r\n", "400"),
            ("GET ~ HTTP/1.1\r\nHost: @\r\nhost: evil.example\r\n\r\n", "400"),
            ("GET ~ HTTP/1.1\r\nHost : @\r\n\r\n", "400"),
            ("GET ~ HTTP/1.1\r\nX: y\r\n Host: @\r\n\r\n", "400"),
            ("GET ~ HTTP/1.1\rHost: @\r\r", "400"),
            ("GET ~ HTTP/9.9\r\nHost: @\r\n\r\n", "400"),
            ("\u{fc} ~\r\n\r\n", "400"),
        ] {
            assert_eq!(service.status(request), status, "{request:?} at {}", service.address);
        }
    }
}

#[test]
fn all_servers_forbid_other_pages_to_use_what_they_serve() {
    let home = tempfile::tempdir().unwrap();
    for service in Service::all(&home) {
        let (path, host) = (service.path, &service.address);
        let plain = service.ask(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let (head, body) = plain.split_once("\r\n\r\n").unwrap();
        assert!(body.starts_with(service.content), "{plain}");
        for field in [
            &format!("Content-Length: {}", body.len()),
            "Cache-Control: no-store",
            "Content-Security-Policy: frame-ancestors 'none'",
            "Cross-Origin-Resource-Policy: same-origin",
            "X-Content-Type-Options: nosniff",
        ] {
            assert!(head.contains(field), "{field}: {head}");
        }
        assert!(!head.contains("Access-Control-Allow"), "{head}");
        let head = service.ask(&format!("HEAD {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert!(head.ends_with("\r\n\r\n"), "{head}");
    }
}

#[test]
fn all_servers_answer_while_connections_are_held_on_which_nothing_is_sent() {
    let home = tempfile::tempdir().unwrap();
    for service in Service::all(&home) {
        let mut silent: Vec<TcpStream> = (0..100).map(|_| service.connect()).collect();
        for stream in silent.iter_mut().step_by(2) {
            let _ = stream.write_all(b"GET / HTTP/1.1\r\n");
        }
        assert_eq!(service.status("GET ~ HTTP/1.1\r\nHost: @\r\n\r\n"), "200");
        // They are closed, without an answer.
        assert!(silent.iter_mut().all(|stream| !matches!(stream.read(&mut [0]), Ok(1..))));
    }
}
