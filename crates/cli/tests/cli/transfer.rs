//! `windward receive` and `windward send`: bad input, bad outputs, and a transfer with logs.
#![cfg(all(target_os = "linux", feature = "deploy"))]

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::interrupt::interrupt;
use crate::{Killed, command, names_in, stderr, success, value};

/// Folders of a test, and what is sent.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Place(tempfile::tempdir().expect("a folder"));
        fs::write(place.path("file"), b"contents").expect("written");
        place
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// A receiver, and its ticket.
    fn receiver(&self, more: &[&str]) -> (Killed, String) {
        let (inbox, far) = (self.path("in"), self.path("far"));
        let mut command = command(["receive", &inbox, "--config", &far, "--listen", "127.0.0.1:0"]);
        command.args(more).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("read");
        let ticket = line.split_whitespace().next_back().expect("a ticket").to_owned();
        (Killed(child), ticket)
    }
}

#[test]
fn bad_input_is_told_with_what_to_do() {
    let place = Place::new();
    let near = place.path("near");
    let (file, fifo) = (place.path("file"), place.path("fifo"));
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.is_ok_and(|status| status.success()));
    let (_receiver, ticket) = place.receiver(&["--keep"]);
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("bound");
    let taken = socket.local_addr().expect("an address").to_string();
    let cut = &ticket[..ticket.len() - 1];
    let inbox = place.path("in");
    // Words, a part of the message, and the exit status.
    let cases: &[(&[&str], &str, i32)] = &[
        (&["send", &ticket], "a ticket is missing", 2),
        (&["send", &file, "ticket"], "does not begin with `ww1.`", 2),
        (&["send", &file, "ticket"], "`windward receive` printed", 2),
        (&["send", &file, &ticket, "--ticket-file", &file], "there are two of them", 2),
        (&["send", &file, "--ticket-file", "/nonexistent"], "--ticket-file /nonexistent: ", 1),
        (&["send", &file, cut], "it is damaged or cut", 2),
        (&["send", &file, "192.0.2.1:4460"], "no receiver of this name is known", 2),
        (&["send", "/nonexistent", &ticket], "/nonexistent: cannot send", 1),
        (&["send", "/dev/null", &ticket], "/dev/null: is a device", 2),
        (&["send", &fifo, &ticket], "is a FIFO", 2),
        (&["send", &file, &file, &ticket], "two paths have this last name", 2),
        (&["send", &file, &ticket, "--limit", "0"], "--limit", 2),
        (&["send", &file, &ticket, "--patience", "0s"], "--patience", 2),
        (&["send", &file, &ticket, "--exclude", "[a"], "--exclude", 2),
        (&["send", &file, &ticket, "--protocol", "xcp"], "cannot control a QUIC connection", 2),
        (&["send", &file, &ticket, "--qlog", &file], "cannot make the folder", 1),
        (&["receive", "/dev/null"], "/dev/null: cannot make the folder", 1),
        (&["receive", &file], "cannot make the folder", 1),
        (&["receive", &inbox], "another `windward receive` is at work", 2),
        (&["receive", &place.path("x"), "--listen", &taken], "another program has this port", 1),
        (&["receive", &place.path("x"), "--listen", "192.0.2.1:4460"], "no such address", 1),
        (&["receive", &place.path("x"), "--expires", "0s"], "--expires", 2),
        (&["receive", &place.path("x"), "--patience", "0s"], "--patience", 2),
        (&["receive", &inbox, "--address", "fe80::1%none0"], "no interface `none0`", 2),
        (&["receive", &inbox, "--listen", "[fe80::1%none0]:1"], "no interface `none0`", 2),
        // With an interface that is there, as far as the folder.
        (&["receive", &inbox, "--address", "fe80::1%lo"], "is at work", 2),
        (&["receive", &inbox, "--address", "[fe80::1%lo]:1"], "is at work", 2),
    ];
    for (words, expected, status) in cases {
        let output = command(*words).args(["--config", &near]).output().expect("it starts");
        let text = stderr(&output);
        assert!(text.contains(expected), "{words:?}: {text}");
        assert_eq!(output.status.code(), Some(*status), "{words:?}: {text}");
    }
}

/// Arguments of a process can be read by all users of its machine.
#[test]
fn a_ticket_need_not_be_an_argument() {
    let place = Place::new();
    let (file, near) = (place.path("file"), place.path("near"));
    let (_receiver, ticket) = place.receiver(&["--keep"]);
    // The whole line that `receive` prints.
    let written = place.path("ticket");
    fs::write(&written, format!("windward send PATH... {ticket}\nmore\n")).expect("written");
    let file_with_colon = place.path("a:1");
    fs::write(&file_with_colon, b"x").expect("written");
    for (words, variable) in [
        (vec![&*file, "--ticket-file", &written], None),
        (vec![&file, "--ticket-file", "-"], None),
        (vec![&file, "-"], None),
        (vec![&file], Some(&*ticket)),
        (vec![&file, &file_with_colon], Some(&ticket)),
        // An argument goes before the variable.
        (vec![&file, &ticket], Some("ww1.other")),
    ] {
        let mut command = command(["send"]);
        command.args(&words).args(["--config", &near]);
        command.stdin(fs::File::open(&written).expect("there"));
        command.envs(variable.map(|value| ("WINDWARD_TICKET", value)));
        let output = command.output().expect("it starts");
        assert!(output.status.success(), "{words:?}: {}", stderr(&output));
    }
}

/// All paths here are not UTF-8.
#[test]
fn a_sender_that_is_revoked_loses_its_connection() {
    use std::os::unix::ffi::OsStringExt;
    let place = Place::new();
    let path = |name: &str| {
        let mut bytes = place.path(name).into_bytes();
        bytes.extend(b" \xff");
        std::ffi::OsString::from_vec(bytes)
    };
    let (near, far, inbox, ticket) = (path("near"), path("far"), path("in"), path("ticket"));
    let receive = command(["receive", "--listen", "127.0.0.1:0", "--config"])
        .args([&far, &inbox])
        .stdout(fs::File::create(&ticket).expect("a file"))
        .spawn();
    let _receiver = Killed(receive.expect("it starts"));
    while fs::read(&ticket).expect("there").is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // Five minutes at this rate.
    fs::write(place.path("file"), vec![7; 4_000_000]).expect("written");
    let mut send = command(["send", &place.path("file"), "--limit", "100kbit", "--config"]);
    send.arg(&near).arg("--ticket-file").arg(&ticket).stderr(Stdio::piped());
    let sender = send.spawn().expect("it starts");
    let list = std::path::Path::new(&far).join("peers");
    while !list.exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let text = fs::read_to_string(&list).expect("a list");
    assert!(text.trim_end().ends_with("/in%20%FF"), "{text}");
    let name = text.split(' ').nth(1).expect("a name");
    let revoked = command(["peers", "revoke", name, "--config"]).arg(&far).output();
    assert!(revoked.expect("it starts").status.success());
    let output = sender.wait_with_output().expect("it ends");
    assert!(stderr(&output).contains("has revoked this key"), "{}", stderr(&output));
}

/// A list names the role and the folder: a receiver may not send, and a sender not into another
/// folder.
#[test]
fn a_peer_is_known_in_its_role_alone() {
    let place = Place::new();
    let (near, far, file) = (place.path("near"), place.path("far"), place.path("file"));
    let (receiver, ticket) = place.receiver(&["--known", "--keep"]);
    let send = |config: &str, to: &str| {
        let output = command(["send", &file, to, "--config", config]).output().expect("it starts");
        (output.status.code(), stderr(&output))
    };
    assert_eq!(send(&near, &ticket).0, Some(0));
    let peers = |config: &str, words: &[&str]| success([words, &["--config", config]].concat());
    let port = peers(&near, &["peers", "list", "--role", "receiver"]);
    let port = port.split([':', ' ']).nth(2).expect("a port").to_owned();
    // By a name that the ticket did not have.
    assert_eq!(send(&near, &format!("localhost:{port}")).0, Some(0));
    assert!(peers(&near, &["peers", "list"]).contains(&format!("receiver localhost:{port} ")));

    // The receiver may not send to its sender.
    let home = place.path("near-in");
    let line = ["receive", &home, "--known", "--listen", "127.0.0.1:0", "--config", &near];
    let mut other = command(line).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut text = String::new();
    BufReader::new(other.stdout.as_mut().expect("a pipe")).read_line(&mut text).expect("read");
    let theirs: windward_deploy::ticket::Ticket =
        text.split_whitespace().next_back().expect("a ticket").parse().expect("a ticket");
    let address = theirs.addresses[0].to_string();
    let known = format!("receiver {address} {}\n", theirs.fingerprint);
    let list = fs::read_to_string(place.path("far/peers")).expect("a list");
    fs::write(place.path("far/peers"), list + &known).expect("written");
    let (status, why) = send(&far, &address);
    assert!(status == Some(1) && why.contains("ticket is not valid here"), "{why}");
    other.kill().expect("ended");
    other.wait().expect("ended");

    // Revoked while the receiver runs: neither by the list nor by the ticket.
    let rows = value(&peers(&far, &["peers", "list", "--json"]));
    let folder = fs::canonicalize(place.path("in")).expect("a folder").display().to_string();
    assert_eq!((&rows[0]["role"], &rows[0]["folder"]), (&"sender".into(), &folder.into()));
    peers(&far, &["peers", "revoke", rows[0]["key"].as_str().expect("a key")]);
    for to in [format!("localhost:{port}"), ticket.clone()] {
        assert_eq!(send(&near, &to).0, Some(1), "{to}");
    }
    drop(receiver);
    let (_receiver, anew) = place.receiver(&[]);
    assert_ne!(anew, ticket, "the ticket of a revoked sender is of no use");
}

#[test]
fn an_open_ticket_keeps_its_time_and_this_is_said() {
    let place = Place::new();
    for (expires, is_said) in [("2h", false), ("30min", true)] {
        let (inbox, far) = (place.path("other"), place.path("far"));
        let mut again = command(["receive", &inbox, "--config", &far, "--expires", expires]);
        let mut again =
            again.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let stdout = again.stdout.as_mut().expect("a pipe");
        BufReader::new(stdout).read_line(&mut String::new()).expect("read");
        again.kill().expect("killed");
        let output = again.wait_with_output().expect("ended");
        assert_eq!(stderr(&output).contains("--new-ticket"), is_said, "{}", stderr(&output));
    }
}

/// The signal of such a limit would end the receiver, for all of its senders.
#[test]
fn a_limit_of_the_size_of_files_is_an_error_of_one_file() {
    let place = Place::new();
    let (near, large) = (place.path("near"), place.path("large"));
    fs::write(&large, vec![1; 1 << 20]).expect("written");
    let (receiver, ticket) = place.receiver(&["--keep"]);
    let pid = receiver.id().to_string();
    let limited =
        std::process::Command::new("prlimit").args(["--pid", &pid, "--fsize=100000"]).status();
    assert!(limited.is_ok_and(|status| status.success()));
    for (path, status) in [(large, 1), (place.path("file"), 0)] {
        let output = command(["send", &path, &ticket, "--config", &near, "--patience", "5s"])
            .output()
            .expect("it starts");
        assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
        assert_eq!(status == 1, stderr(&output).contains("File too large"), "{}", stderr(&output));
    }
}

/// Both sides compare a hole of a terabyte.
#[test]
fn a_signal_ends_both_sides_at_work() {
    let place = Place::new();
    let (hole, there, near) = (place.path("hole"), place.path("in/hole"), place.path("near"));
    fs::create_dir(place.path("in")).expect("made");
    for (path, seconds) in [(&hole, 1), (&there, 2)] {
        let file = fs::File::create(path).expect("made");
        file.set_len(1 << 40).expect("a hole");
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        file.set_modified(time).expect("another time");
    }
    let (mut receiver, ticket) = place.receiver(&[]);
    let mut send = command(["send", &hole, &ticket, "--config", &near]);
    let mut sender = send.stderr(Stdio::null()).spawn().expect("it starts");
    assert_eq!(interrupt(&mut receiver).code(), Some(130));
    assert_eq!(interrupt(&mut sender).code(), Some(130));
}

/// The transfer is complete whatever becomes of the output; the status says that it was not
/// written.
#[test]
fn outputs_may_be_devices_and_closed_pipes() {
    let place = Place::new();
    let (file, near) = (place.path("file"), place.path("near"));
    let send = |ticket: &str, stdout: Stdio| {
        let words = ["send", &file, ticket, "--config", &near, "--json"];
        let status = command(words).stdout(stdout).stderr(Stdio::null()).status();
        status.expect("it starts").code()
    };
    let device = |path| Stdio::from(fs::OpenOptions::new().write(true).open(path).expect("open"));
    let (receiver, ticket) = place.receiver(&["--keep"]);
    assert_eq!(send(&ticket, device("/dev/null")), Some(0));
    assert_eq!(send(&ticket, device("/dev/full")), Some(1));
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    assert_eq!(send(&ticket, Stdio::from(writer)), Some(0));
    assert_eq!(fs::read(place.path("in/file")).expect("there"), b"contents");
    drop(receiver);

    let words = ["receive", &place.path("in"), "--config", &place.path("far")];
    let status = command(words).stdout(device("/dev/full")).stderr(Stdio::null()).status();
    assert_eq!(status.expect("it starts").code(), Some(1), "nobody can read the ticket");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = command(words).stdout(writer).output().expect("it starts");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("nobody reads the ticket"), "{}", stderr(&output));
}

/// Logs of both sides can be read by `windward compare-logs`.
#[test]
fn connections_are_logged_on_request() {
    let place = Place::new();
    let (logs, near) = (place.path("logs"), place.path("near"));
    fs::write(place.path("file"), vec![7; 300_000]).expect("written");
    let (mut receiver, ticket) = place.receiver(&["--qlog", &logs]);
    let words = ["send", &place.path("file"), &ticket, "--config", &near, "--qlog", &logs];
    let sent = command(words).output().expect("it starts");
    assert!(sent.status.success(), "{}", stderr(&sent));
    assert!(receiver.wait().expect("ended").success());
    let names = names_in(&logs);
    let [client, server] = &names[..] else { panic!("{names:?}") };
    assert!(client.starts_with("client-") && server.starts_with("server-"), "{names:?}");
    let client = &format!("{logs}/{client}");
    let compared = command(["compare-logs", client, client]).output().expect("it starts");
    assert!(compared.status.success(), "{}", stderr(&compared));
}

/// Paths in options, names of files, and patterns.
#[test]
fn paths_and_patterns_need_not_be_utf_8() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    let at = |name: &[u8]| place.0.path().join(OsStr::from_bytes(name));
    fs::create_dir(at(b"s\xff")).expect("made");
    for name in [&b"s\xff/a\xfe"[..], b"s\xff/b\xfe", b"s\xff/c\xfe"] {
        fs::write(at(name), b"contents").expect("written");
    }
    fs::write(at(b"p\xff"), b"a\xfe\n").expect("written");
    let mut receiver = command(["receive"]);
    receiver.arg(at(b"in\xff")).arg("--config").arg(at(b"far\xff"));
    receiver.arg("--qlog").arg(at(b"r\xff")).args(["--listen", "127.0.0.1:0"]);
    let mut receiver =
        receiver.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(receiver.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("read");
    let ticket = line.split_whitespace().next_back().expect("a ticket");
    for dry_run in [true, false] {
        let mut sender = command(["send"]);
        sender.arg(at(b"s\xff")).arg(ticket).arg("--config").arg(at(b"near\xff"));
        sender.arg("--exclude-from").arg(at(b"p\xff")).arg("--qlog").arg(at(b"q\xff"));
        sender.arg("--exclude").arg(OsStr::from_bytes(b"b\xfe"));
        sender.args(dry_run.then_some("--dry-run"));
        let output = sender.output().expect("it starts");
        assert!(output.status.success(), "{}", stderr(&output));
        let text = String::from_utf8_lossy(&output.stdout);
        let (names, _) =
            text.split_at(text.find(if dry_run { "dry run" } else { "2 stored" }).expect("told"));
        assert_eq!(names, if dry_run { "s\\xff\ns\\xff/c\\xfe\n" } else { "" }, "{text}");
    }
    assert!(receiver.wait().expect("ended").success());
    assert_eq!(fs::read(at(b"in\xff/s\xff/c\xfe")).expect("there"), b"contents");
    assert_eq!(fs::read_dir(at(b"in\xff/s\xff")).expect("there").count(), 1);
    for logs in [&b"q\xff"[..], b"r\xff"] {
        assert!(fs::read_dir(at(logs)).expect("there").count() > 0);
    }
}
