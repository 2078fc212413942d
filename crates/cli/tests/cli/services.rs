//! `windward serve` and `windward forward`: bad input, and connections over a link that loses
//! packets.
#![cfg(all(target_os = "linux", feature = "deploy"))]

use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::emulate::cannot;
use crate::interrupt::interrupt;
use crate::{Killed, command, repository, stderr, success};

/// A key that nobody has.
const KEY: &str = "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU";

/// A folder that is removed in the end.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Home(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }
}

#[test]
fn bad_input_is_told_with_what_to_do() {
    let home = Home::new();
    let near = home.path("near");
    let keys = home.path("keys");
    std::fs::write(&keys, "# peers\nSHA256:abc 127.0.0.1:22\n").expect("written");
    // As a shell of Windows redirects, and nothing.
    let (wide, empty) = (home.path("wide"), home.path("empty"));
    std::fs::write(&wide, b"\xff\xfew\0w\x001\0.\0\r\0\n\0").expect("written");
    std::fs::write(&empty, "\n").expect("written");
    let taken = TcpListener::bind("127.0.0.1:0").expect("bound");
    let port = format!("{}:a:1", taken.local_addr().expect("an address").port());
    let one = format!("{KEY}=127.0.0.1:22");
    let cases: &[(&[&str], &str)] = &[
        (&["serve"], "write --allow"),
        (&["serve", "--allow", "127.0.0.1:22"], "write --ticket"),
        (&["serve", "--allow", "127.0.0.1:ssh", "--ticket"], "`ssh` is not a port"),
        (&["serve", "--allow", "KEY=127.0.0.1:22"], "`KEY` is not a fingerprint"),
        (&["serve", "--allow", "a:1", "--authorized", &keys], "keys:2: "),
        (&["serve", "--allow", "a:1", "--authorized", "/nonexistent"], "cannot read"),
        (&["serve", "--listen", "4460"], "write ADDR:PORT"),
        (&["serve", "--max-connections", "0"], "expected 1 to 65535"),
        (&["forward", "192.0.2.1:4460"], "nothing to forward"),
        (&["forward", "-L", "1:a", "192.0.2.1:4460"], "[udp:][BIND:]PORT:HOST:PORT"),
        (&["forward", "-L", "1:a:1", "ticket"], "`windward serve --ticket` printed"),
        (&["forward", "-L", "1:a:1"], "required"),
        (&["forward", "-L", "1:a:1", "--ticket-file", &keys, "192.0.2.1:4460"], "two of them"),
        (&["forward", "-L", "1:a:1", "--ticket-file", &keys], "does not begin with `ww1.`"),
        (&["forward", "-L", "1:a:1", "--ticket-file", &wide], "wide: it is UTF-16 text: save it"),
        (&["forward", "-L", "1:a:1", "--ticket-file", &empty], "empty: its first line is empty"),
        (&["forward", "-L", &port, "192.0.2.1:4460"], "another program or another option has"),
        (&["serve", "--ticket", "--allow", &one], "the peer of the ticket may reach nothing"),
        (&["serve", "--allow", "a:1", "--ticket", "--half-closed", "1ms"], "at least 1s"),
        (&["serve", "--allow", "a:1", "--ticket", "--expires", "0s"], "valid for some time"),
        (&["serve", "--allow", "a:1", "--ticket", "--advertise", "0.0.0.0:5"], "leads nowhere"),
        (&["serve", "--allow", "a:1", "--ticket", "--advertise", "192.0.2.1:0"], "leads nowhere"),
        (&["serve", "--max-datagrams", "0"], "0 is not in 1.."),
        (&["peers", "revoke", "ship"], "`windward peers list` shows them"),
        (&["peers", "list", "--role", "friend"], "receiver, server, sender or client"),
    ];
    for (args, expected) in cases {
        let output = command(*args).args(["--config", &near]).output().expect("it starts");
        let text = stderr(&output);
        assert!(text.contains(expected), "{args:?}: {text}");
        // A file that cannot be read is a failure, everything else is invalid input.
        let fails = args.contains(&"/nonexistent") || args.contains(&port.as_str());
        let status = if fails { 1 } else { 2 };
        assert_eq!(output.status.code(), Some(status), "{args:?}: {text}");
    }
}

#[test]
fn a_list_of_another_user_admits_nobody() {
    let home = tempfile::tempdir().expect("a folder");
    let (list, near) = (home.path().join("list"), home.path().join("near"));
    std::fs::write(&list, "").expect("written");
    // Only root can give a file away.
    if std::os::unix::fs::chown(&list, Some(65534), None).is_err() {
        return;
    }
    let mut serve = command(["serve", "--allow", "a:1", "--ticket", "--authorized"]);
    let output = serve.arg(&list).arg("--config").arg(&near).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("belongs to another user"), "{}", stderr(&output));
}

/// A target that says one letter to each program.
fn target(letter: u8) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        for program in listener.incoming() {
            let _ = std::io::Write::write_all(&mut program.expect("a program"), &[letter]);
        }
    });
    address
}

/// Starts a program, and returns it with the first line of its standard error that has this part.
fn start(args: &[&str], part: &str) -> (Killed, String) {
    let mut command = command(args);
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it");
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let found = lines.by_ref().map(|line| line.expect("text")).find(|line| line.contains(part));
    std::thread::spawn(move || lines.count());
    let running = Killed(child);
    (running, found.unwrap_or_else(|| panic!("no {part} of {args:?}")))
}

/// A peer of a ticket reaches what was open then, by any name of its server, until it is revoked.
#[test]
fn a_peer_of_a_ticket_reaches_no_service_that_was_opened_later() {
    let home = Home::new();
    let (near, far, ticket) = (home.path("near"), home.path("far"), home.path("ticket"));
    let (first, later) = (target(b'1'), target(b'2'));
    let serve = |allow: &str, more: &[&str]| {
        let args = ["serve", "--config", &far, "--listen", "127.0.0.1:0", "--allow", allow];
        let (mut server, line) = start(&[&args[..], more].concat(), "serving at ");
        let port = line.split(['[', ':', ',']).find_map(|word| word.parse::<u16>().ok());
        if more.contains(&"--ticket") {
            let mut printed = BufReader::new(server.stdout.take().expect("a pipe"));
            let mut line = String::new();
            printed.read_line(&mut line).expect("a ticket");
            std::fs::write(&ticket, line).expect("written");
        }
        (server, format!("localhost:{}", port.expect("a port")))
    };
    // Letters that a program reads through a forwarder.
    let reach = |server: &[&str]| {
        let (to_first, to_later) = (format!("0:{first}"), format!("0:{later}"));
        let args = ["forward", "--config", &near, "-L", &to_first, "-L", &to_later];
        let mut command = command([&args[..], server].concat());
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let _running = Killed(child);
        let ports = lines.by_ref().map_while(Result::ok);
        let ports = ports.filter_map(|line| Some(line.strip_prefix("listening at ")?.to_owned()));
        let ports: Vec<String> = ports.take(2).collect();
        let read = |to: &String| {
            let mut text = String::new();
            let _ = TcpStream::connect(to).expect("connected").read_to_string(&mut text);
            text
        };
        ports.iter().map(read).collect::<String>()
    };
    let (server, name) = serve(&first, &["--ticket"]);
    assert_eq!(reach(&["--ticket-file", &ticket]), "1");
    assert_eq!(reach(&[&name]), "1", "known by another name of the address");
    drop(server);
    let (server, name) = serve(&later, &[]);
    let key = crate::success(["forward", "--config", &far, "--print-key"]);
    assert_eq!(reach(&[&name, "--server-key", key.trim()]), "1", "not what was opened later");
    drop(server);

    let rows = crate::json(["peers", "list", "--config", &far, "--json"]);
    assert_eq!(
        (&rows[0]["role"], &rows[0]["targets"][0]),
        (&"client".into(), &first.as_str().into())
    );
    let name = rows[0]["name"].as_str().expect("a name");
    crate::success(["peers", "rename", name, "ship", "--config", &far]);
    let text = crate::success(["peers", "revoke", "ship", "--role", "client", "--config", &far]);
    assert!(text.starts_with("revoked: client ship SHA256:"), "{text}");
    let (_server, name) = serve(&later, &["--ticket"]);
    assert_eq!(reach(&[&name, "--server-key", key.trim()]), "", "revoked");
}

/// A connection that nobody closes does not delay the end.
#[test]
fn a_signal_ends_both_sides_with_a_connection_open() {
    let home = Home::new();
    let target = TcpListener::bind("127.0.0.1:0").expect("bound");
    let at = target.local_addr().expect("an address").to_string();
    let (far, near) = (home.path("far"), home.path("near"));
    let words = ["serve", "--listen", "127.0.0.1:0", "--allow", &at, "--ticket", "--config", &far];
    let mut serve = command(words);
    let mut serve = serve.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut ticket = String::new();
    BufReader::new(serve.stdout.as_mut().expect("a pipe")).read_line(&mut ticket).expect("read");
    let local = format!("0:{at}");
    let mut forward = command(["forward", "-L", &local, ticket.trim(), "--config", &near]);
    let mut forward = forward.stderr(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(forward.stderr.take().expect("a pipe"));
    let mut line = String::new();
    lines.read_line(&mut line).expect("read");
    let port = line.trim().strip_prefix("listening at ").expect("an address").to_owned();
    let _program = TcpStream::connect(port).expect("connected");
    let _carried = target.accept().expect("carried");
    assert!(interrupt(&mut forward).success());
    let mut rest = String::new();
    lines.read_to_string(&mut rest).expect("read");
    assert_eq!(rest, "ending; a second signal ends at once\n");
    assert!(interrupt(&mut serve).success());
}

#[test]
fn the_unit_starts_what_it_names() {
    let unit = success(["serve", "--systemd-unit"]);
    let line = unit.split("ExecStart=/usr/local/bin/windward ").nth(1).expect("a command");
    let (line, _) = line
        .replace("\\\n", " ")
        .split_once("\nRestart")
        .map_or_else(|| panic!("{unit}"), |(line, rest)| (line.to_owned(), rest.to_owned()));
    // It stops at the file that is not here, behind all options.
    let home = Home::new();
    let words: Vec<String> = line
        .split_whitespace()
        .map(|word| word.replace("/var/lib/windward-serve", &home.path("state")))
        .map(|word| word.replace("/etc/windward/peers", &home.path("peers")))
        .collect();
    let output = command(&words).output().expect("it starts");
    assert!(stderr(&output).contains("peers: cannot read"), "{}", stderr(&output));
}

/// Five connections send 50 kB each over a link that loses a tenth of the packets both ways, and an
/// echo runs beside them.
#[test]
fn connections_arrive_whole_over_a_lossy_link() {
    let python = Command::new("python3").arg("--version").stdout(Stdio::null()).status();
    if cannot() || !python.is_ok_and(|status| status.success()) {
        return;
    }
    let script = repository().join("benches/forward.py");
    let program = Path::new(env!("CARGO_BIN_EXE_windward"));
    let output = Command::new("timeout")
        .args(["-k", "5", "90", "python3"])
        .arg(script)
        .args([
            "transfers",
            "--only",
            "windward",
            "--loss",
            "10",
            "--count",
            "5",
            "--length",
            "50000",
        ])
        .arg("--windward")
        .arg(program)
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("\"done\": 5"), "{text}\n{}", stderr(&output));
}

#[test]
fn a_key_beside_the_ticket_of_another_is_refused() {
    let home = Home::new();
    let (near, far) = (home.path("near"), home.path("far"));
    let args = ["serve", "--listen", "127.0.0.1:0", "--allow", "127.0.0.1:1", "--ticket"];
    let mut server = command(args)
        .args(["--config", &far])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut ticket = String::new();
    BufReader::new(server.stdout.take().expect("it is piped"))
        .read_line(&mut ticket)
        .expect("a ticket");
    server.kill().expect("it runs");
    server.wait().expect("it ends");
    let other = format!("SHA256:{}", "A".repeat(43));
    let output = command(["forward", "-L", "1:a:1", ticket.trim(), "--server-key", &other])
        .args(["--config", &near])
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("--server-key: the ticket"), "{}", stderr(&output));
}
