//! Transfers over loopback: whole trees, resumption, refusals and hostile peers.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use windward_deploy::ticket::Ticket;
use windward_deploy::transfer::figures::Figures;
use windward_deploy::transfer::receive::{self, Event, ReceiveOptions, Received};
use windward_deploy::transfer::send::{self, SendOptions, Target};
use windward_deploy::transfer::walk::{Choice, Links, Walk};
use windward_deploy::transfer::wire::{
    self, Entry, Frame, Kind, Part, Stamp, ToReceiver, ToSender,
};
use windward_deploy::{Endpoint, Error, Identity, Options, Result, Service, Trust};

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Time in which a receiver ends a connection that violates the protocol, on any machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Folders of a test: what is sent, what receives, and the configurations of both sides.
struct Place {
    _home: Option<tempfile::TempDir>,
    from: PathBuf,
    to: PathBuf,
    near: PathBuf,
    far: PathBuf,
}

impl Place {
    fn new() -> Place {
        let home = tempfile::tempdir().expect("a folder");
        let at = |name: &str| home.path().join(name);
        let (from, to, near, far) = (at("from"), at("to"), at("near"), at("far"));
        fs::create_dir(&from).expect("made");
        Place { _home: Some(home), from, to, near, far }
    }

    fn receive_options(&self) -> ReceiveOptions {
        ReceiveOptions {
            folder: self.to.clone(),
            home: self.far.clone(),
            listen: LOOPBACK,
            addresses: vec![],
            expires: Duration::from_secs(3600),
            new_ticket: false,
            keep: false,
            known: false,
            endpoint: Options::default(),
        }
    }

    fn receiver(&self) -> Receiver {
        Receiver::start(self.receive_options())
    }

    fn send_options(&self) -> SendOptions {
        SendOptions {
            dry_run: false,
            checksum: false,
            links: Links::Keep,
            limit: None,
            patience: Duration::from_secs(5),
            home: self.near.clone(),
            endpoint: Options::default(),
        }
    }

    fn send(&self, ticket: &str) -> (Result<()>, Arc<Figures>) {
        self.send_with(ticket, &self.send_options(), Choice::default(), &AtomicBool::new(false))
    }

    fn send_with(
        &self,
        ticket: &str,
        options: &SendOptions,
        choice: Choice,
        stop: &AtomicBool,
    ) -> (Result<()>, Arc<Figures>) {
        let figures = Arc::new(Figures::default());
        let result = (|| {
            let target = Target::parse(ticket, &self.near)?;
            let walk = Walk::new(std::slice::from_ref(&self.from), choice)?;
            send::run(Identity::open(&self.near)?, &target, &walk, options, &figures, stop)
        })();
        (result, figures)
    }

    fn tree(&self) -> BTreeMap<Vec<u8>, String> {
        tree(&self.to.join("from"))
    }
}

/// A receiver on a thread.
struct Receiver {
    ticket: String,
    stop: Arc<AtomicBool>,
    events: mpsc::Receiver<Event>,
    thread: JoinHandle<Result<()>>,
}

impl Receiver {
    fn start(options: ReceiveOptions) -> Receiver {
        let (sender, tickets) = mpsc::channel();
        let (told, events) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let raised = Arc::clone(&stop);
        let identity = Identity::open(&options.home).expect("an identity");
        let thread = std::thread::spawn(move || {
            let opened = |receiver: &receive::Receiver| {
                sender.send(receiver.ticket().to_string()).expect("heard");
                Ok::<_, Error>(())
            };
            receive::run(identity, options, &raised, opened, |event| {
                let _ = told.send(event);
            })
        });
        let ticket = tickets.recv().unwrap_or_default();
        Receiver { ticket, stop, events, thread }
    }

    /// Waits for its end, and returns the outcome of the last transfer.
    fn end(self) -> (Result<()>, Option<Received>) {
        let result = self.thread.join().expect("no panic");
        let last = self.events.try_iter().filter_map(|event| match event {
            Event::Complete(received) => Some(received),
            _ => None,
        });
        let last = last.last();
        (result, last)
    }

    fn stop(self) -> Option<Received> {
        self.stop.store(true, Ordering::Relaxed);
        let (result, last) = self.end();
        assert!(matches!(result, Err(Error::Interrupted)), "{result:?}");
        last
    }
}

/// Everything below a folder: kind, mode, time, and contents or target.
fn tree(folder: &Path) -> BTreeMap<Vec<u8>, String> {
    fn visit(top: &Path, path: &Path, all: &mut BTreeMap<Vec<u8>, String>) {
        let metadata = fs::symlink_metadata(path).expect("there");
        let name = path.strip_prefix(top).expect("below").as_os_str().as_bytes().to_vec();
        let times = format!("{}.{:09}", metadata.mtime(), metadata.mtime_nsec());
        let text = if metadata.is_symlink() {
            format!("-> {}", fs::read_link(path).expect("a link").display())
        } else if metadata.is_dir() {
            for entry in fs::read_dir(path).expect("a folder") {
                visit(top, &entry.expect("an entry").path(), all);
            }
            format!("folder {:o} {times}", metadata.mode())
        } else {
            let hash = blake3::hash(&fs::read(path).expect("a file"));
            format!("file {:o} {times} {} {hash}", metadata.mode(), metadata.len())
        };
        all.insert(name, text);
    }
    let mut all = BTreeMap::new();
    visit(folder, folder, &mut all);
    all
}

/// Bytes that look random, the same for the same seed.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let mut reader = blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof();
    reader.fill(&mut bytes);
    bytes
}

fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("made");
    fs::write(path, bytes).expect("written");
}

#[test]
fn a_tree_arrives_whole() {
    let place = Place::new();
    let at = |name: &str| place.from.join(name);
    write(&at("empty"), b"");
    write(&at("small"), &noise(1, 1000));
    write(&at("block"), &noise(2, 256 << 10));
    write(&at("block and a byte"), &noise(3, (256 << 10) + 1));
    write(&at("large"), &noise(4, 5_000_000));
    write(&at("new\nline"), b"x");
    write(&place.from.join(std::ffi::OsStr::from_bytes(b"not \xff UTF-8")), b"y");
    write(&at(&"n".repeat(255)), b"z");
    write(&at(&format!("{}leaf", "deep/".repeat(100))), b"leaf");
    fs::create_dir(at("bare")).expect("made");
    for index in 0..3000 {
        write(&at(&format!("many/{}/{index}", index % 7)), &noise(index, (index % 2000) as usize));
    }
    // 64 MB of which 4 kB are not a hole.
    let sparse = fs::File::create(at("sparse")).expect("made");
    sparse.set_len(64 << 20).expect("long");
    sparse.write_all_at(&noise(9, 4096), 40 << 20).expect("written");
    symlink("small", at("link")).expect("linked");
    symlink("../small", at("many/up")).expect("linked");
    symlink("/etc/passwd", at("absolute")).expect("linked");
    symlink("../../outside", at("out")).expect("linked");
    fs::set_permissions(at("small"), fs::Permissions::from_mode(0o640)).expect("set");
    fs::set_permissions(at("large"), fs::Permissions::from_mode(0o444)).expect("set");
    fs::set_permissions(at("bare"), fs::Permissions::from_mode(0o555)).expect("set");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        at("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .expect("a FIFO");

    let receiver = place.receiver();
    let (result, figures) = place.send(&receiver.ticket);
    result.expect("sent");
    let remarks = figures.take_remarks();
    assert_eq!((remarks.skipped, remarks.failed), (3, 0), "two links and a FIFO: {remarks:?}");
    let (result, received) = receiver.end();
    result.expect("received");
    let received = received.expect("complete");
    assert_eq!((received.failed, received.same), (0, 0));

    for name in ["fifo", "absolute", "out"] {
        fs::remove_file(at(name)).expect("removed");
    }
    // The time of the folder changed by that.
    let time = fs::metadata(place.to.join("from")).expect("there").modified().expect("a time");
    fs::File::open(&place.from).expect("open").set_modified(time).expect("set");
    assert_eq!(place.tree(), tree(&place.from));
    let blocks = fs::metadata(place.to.join("from/sparse")).expect("there").blocks();
    assert!(blocks * 512 < 8 << 20, "{blocks} blocks of 512 bytes are not sparse");
}

#[test]
fn only_what_differs_is_sent() {
    let place = Place::new();
    let big = place.from.join("big");
    write(&big, &noise(1, 4 << 20));
    write(&place.from.join("small"), b"first");
    let receiver = Receiver::start(ReceiveOptions { keep: true, ..place.receive_options() });
    place.send(&receiver.ticket).0.expect("sent");

    // One byte in one of 16 blocks, and an end that is appended.
    let file = fs::OpenOptions::new().write(true).open(&big).expect("open");
    file.write_all_at(b"!", 3 << 20).expect("written");
    file.write_all_at(&noise(5, 1000), 4 << 20).expect("written");
    let (result, figures) = place.send(&receiver.ticket);
    result.expect("sent");
    // A block of 256 kB, and the appended bytes: 4 MB + 1000 B have 17 blocks.
    assert_eq!(figures.sent.get(), (256 << 10) + 1000);
    assert_eq!(place.tree(), tree(&place.from));

    let (result, figures) = place.send(&receiver.ticket);
    result.expect("sent");
    assert_eq!((figures.sent.get(), figures.stored.get()), (0, 0));

    // A file that only became shorter, in its last block.
    file.set_len((4 << 20) + 10).expect("shorter");
    place.send(&receiver.ticket).0.expect("sent");
    assert_eq!(place.tree(), tree(&place.from));

    // The same size and time, other contents: only a comparison finds it.
    let small = place.from.join("small");
    let time = fs::metadata(&small).expect("there").modified().expect("a time");
    fs::write(&small, b"other").expect("written");
    fs::File::options().write(true).open(&small).expect("open").set_modified(time).expect("set");
    place.send(&receiver.ticket).0.expect("sent");
    assert_eq!(fs::read(place.to.join("from/small")).expect("there"), b"first");
    let careful = SendOptions { checksum: true, ..place.send_options() };
    let (result, figures) =
        place.send_with(&receiver.ticket, &careful, Choice::default(), &AtomicBool::new(false));
    result.expect("sent");
    assert_eq!(figures.sent.get(), 5);
    assert_eq!(fs::read(place.to.join("from/small")).expect("there"), b"other");
    receiver.stop();
}

#[test]
fn an_interrupted_transfer_is_resumed() {
    let place = Place::new();
    write(&place.from.join("big"), &noise(1, 24 << 20));
    let receiver = place.receiver();
    let ticket = receiver.ticket.clone();
    // 8 MB/s leave time to stop in the middle, whatever the machine.
    let slow = SendOptions { limit: Some(8e6), ..place.send_options() };
    let stop = AtomicBool::new(false);
    let first = std::thread::scope(|scope| {
        let work = scope.spawn(|| place.send_with(&ticket, &slow, Choice::default(), &stop));
        let part = || {
            fs::read_dir(place.to.join("from")).is_ok_and(|entries| {
                entries.flatten().any(|entry| {
                    fs::metadata(entry.path())
                        .is_ok_and(|metadata| metadata.blocks() * 512 > 4 << 20)
                })
            })
        };
        while !part() && !work.is_finished() {
            std::thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Ordering::Relaxed);
        work.join().expect("no panic")
    });
    assert!(matches!(first.0, Err(Error::Interrupted)), "{:?}", first.0);
    assert!(!place.to.join("from/big").exists(), "no partial file has its final name");
    // The receiver is stopped too, and gives out the same ticket when it comes back.
    receiver.stop();
    let receiver = place.receiver();
    assert_eq!(receiver.ticket, ticket);
    let (result, figures) = place.send(&ticket);
    result.expect("resumed");
    assert!(figures.sent.get() < 22 << 20, "{} bytes were sent again", figures.sent.get());
    receiver.end().0.expect("received");
    assert_eq!(place.tree(), tree(&place.from));
    assert_eq!(fs::read_dir(place.to.join("from")).expect("there").count(), 1, "no temporary file");
}

#[test]
fn a_dry_run_changes_nothing() {
    let place = Place::new();
    write(&place.from.join("a/b"), &noise(1, 1 << 20));
    write(&place.from.join("c"), b"c");
    let receiver = Receiver::start(ReceiveOptions { keep: true, ..place.receive_options() });
    let dry = SendOptions { dry_run: true, ..place.send_options() };
    let stop = AtomicBool::new(false);
    let (result, figures) = place.send_with(&receiver.ticket, &dry, Choice::default(), &stop);
    result.expect("done");
    assert_eq!(figures.sent.get(), (1 << 20) + 1);
    assert_eq!(fs::read_dir(&place.to).expect("there").count(), 0);
    place.send(&receiver.ticket).0.expect("sent");
    let (result, figures) = place.send_with(&receiver.ticket, &dry, Choice::default(), &stop);
    result.expect("done");
    assert_eq!((figures.sent.get(), figures.same.get()), (0, 4));
    receiver.stop();
}

#[test]
fn excluded_and_followed_entries_are_as_asked() {
    let place = Place::new();
    write(&place.from.join("keep"), b"1");
    write(&place.from.join("x.tmp"), b"2");
    write(&place.from.join("cache/y"), b"3");
    symlink("keep", place.from.join("inside")).expect("linked");
    symlink("../near", place.from.join("outside")).expect("linked");
    let receiver = place.receiver();
    let choice = Choice {
        links: Links::Follow,
        exclude: vec!["*.tmp".to_owned(), "/cache".to_owned()],
        exclude_from: vec![],
    };
    let options = SendOptions { links: Links::Follow, ..place.send_options() };
    let (result, figures) =
        place.send_with(&receiver.ticket, &options, choice, &AtomicBool::new(false));
    result.expect("sent");
    assert_eq!(figures.take_remarks().skipped, 1, "the link that leads out");
    receiver.end().0.expect("received");
    let names: Vec<String> =
        place.tree().keys().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    assert_eq!(names, ["", "inside", "keep"]);
    assert!(fs::symlink_metadata(place.to.join("from/inside")).expect("there").is_file());
}

#[test]
fn a_ticket_admits_one_sender() {
    let place = Place::new();
    write(&place.from.join("a"), b"a");
    let receiver = Receiver::start(ReceiveOptions { keep: true, ..place.receive_options() });
    let ticket: Ticket = receiver.ticket.parse().expect("a ticket");

    let wrong = Ticket { token: [0; 16], ..ticket.clone() };
    let error = place.send(&wrong.to_string()).0.expect_err("a wrong token");
    assert!(matches!(&error, Error::Refused(why) if why.contains("not valid here")), "{error:?}");
    let strange = Ticket { fingerprint: windward_deploy::Fingerprint([7; 32]), ..ticket.clone() };
    let error = place.send(&strange.to_string()).0.expect_err("another machine");
    assert!(matches!(&error, Error::Peer(why) if why.contains("fingerprint")), "{error:?}");
    let late = Ticket { expires: 1, ..ticket };
    let error = place.send(&late.to_string()).0.expect_err("expired");
    assert!(matches!(&error, Error::Input(why) if why.contains("expired")), "{error:?}");

    place.send(&receiver.ticket).0.expect("the first sender");
    let other = Place { near: place.near.with_file_name("other"), ..Place::new() };
    let error = other.send(&receiver.ticket).0.expect_err("a second sender");
    assert!(matches!(&error, Error::Refused(why) if why.contains("another sender")), "{error:?}");
    place.send(&receiver.ticket).0.expect("the first sender again");

    let error = receive::run(
        Identity::open(&place.far).expect("an identity"),
        place.receive_options(),
        &AtomicBool::new(false),
        |_| Ok::<_, Error>(()),
        |_| {},
    )
    .expect_err("two receivers in one folder");
    assert!(error.to_string().contains("another `windward receive`"), "{error}");
    receiver.stop();
}

#[test]
fn entries_that_cannot_be_stored_do_not_stop_the_others() {
    let place = Place::new();
    write(&place.from.join("good"), b"good");
    write(&place.from.join("taken"), b"a file where a folder is");
    write(&place.from.join("sub/x"), b"a folder where a file is");
    write(&place.to.join("from/taken/kept"), b"kept");
    write(&place.to.join("from/sub"), b"kept");
    // A folder of the receiver that leads elsewhere is not followed.
    let outside = place.to.with_file_name("outside");
    fs::create_dir(&outside).expect("made");
    write(&place.from.join("gate/file"), b"must not leave");
    symlink(&outside, place.to.join("from/gate")).expect("linked");
    let receiver = place.receiver();
    let (result, figures) = place.send(&receiver.ticket);
    result.expect("the transfer ends");
    assert_eq!(
        figures.take_remarks().failed,
        5 + 2,
        "three entries, two of their contents, two times of folders"
    );
    assert_eq!(receiver.end().1.expect("complete").stored, 1);
    assert_eq!(fs::read(place.to.join("from/good")).expect("there"), b"good");
    assert_eq!(fs::read(place.to.join("from/taken/kept")).expect("there"), b"kept");
    assert_eq!(fs::read(place.to.join("from/sub")).expect("there"), b"kept");
    assert_eq!(fs::read_dir(outside).expect("there").count(), 0);
}

/// Not a test by itself: the body of a child of the test below, which is killed.
#[test]
fn as_a_child() {
    let Some(home) = std::env::var_os("WINDWARD_TEST_CHILD").map(PathBuf::from) else { return };
    let at = |name: &str| home.join(name);
    let (from, to, near, far) = (at("from"), at("to"), at("near"), at("far"));
    let place = Place { _home: None, from, to, near, far };
    match fs::read_to_string(at("ticket")) {
        Err(_) => {
            let receiver = place.receiver();
            // Whole or not there.
            fs::write(at("ticket.new"), &receiver.ticket).expect("written");
            fs::rename(at("ticket.new"), at("ticket")).expect("renamed");
            receiver.end().0.expect("received");
        }
        Ok(ticket) => {
            let options = SendOptions {
                limit: Some(20e6),
                patience: Duration::from_secs(60),
                ..place.send_options()
            };
            let sent =
                place.send_with(&ticket, &options, Choice::default(), &AtomicBool::new(false));
            sent.0.expect("sent");
        }
    }
}

/// Each child is this program with that one test.
#[test]
fn killed_at_any_moment_nothing_is_wrong() {
    let place = Place::new();
    let home = place.from.parent().expect("a parent").to_owned();
    write(&place.from.join("big"), &noise(1, 12 << 20));
    for index in 0..400 {
        write(&place.from.join(format!("many/{index}")), &noise(index, 3000));
    }
    let expected = tree(&place.from);
    let start = || {
        let mut child = std::process::Command::new(std::env::current_exe().expect("own path"));
        child.args(["--exact", "as_a_child"]).env("WINDWARD_TEST_CHILD", &home);
        child.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        child.spawn().expect("started")
    };
    let ticket = home.join("ticket");
    let receive = || {
        let _ = fs::remove_file(&ticket);
        let child = start();
        while !ticket.exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        child
    };
    let right = || {
        // Contents under a final name are whole at any moment.
        for (name, expected) in &expected {
            let path = place.to.join("from").join(std::ffi::OsStr::from_bytes(name));
            if path.is_file() {
                let hash = blake3::hash(&fs::read(&path).expect("a file")).to_string();
                assert!(expected.ends_with(&hash), "{}", path.display());
            }
        }
    };
    let moments = noise(77, 8);
    let mut receiver = receive();
    let mut sender = start();
    for (round, moment) in moments.iter().enumerate() {
        std::thread::sleep(Duration::from_millis(50 + u64::from(*moment)));
        if receiver.try_wait().expect("a child").is_some() {
            break;
        }
        let victim = if round % 2 == 0 { &mut sender } else { &mut receiver };
        // SIGKILL.
        victim.kill().expect("killed");
        victim.wait().expect("ended");
        right();
        if round % 2 == 0 { sender = start() } else { receiver = receive() }
    }
    let end = |child: &mut std::process::Child, most: Duration| {
        for _ in 0..most.as_millis() / 20 {
            if let Some(status) = child.try_wait().expect("a child") {
                return Some(status.success());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    };
    let limit = Duration::from_secs(300);
    let sent = end(&mut sender, limit);
    let mut received = end(&mut receiver, Duration::from_secs(3));
    if received.is_none() {
        // The one before it was killed after it had told the sender that all is there, so that
        // nobody comes to this one.
        let mut again = start();
        received = end(&mut receiver, limit);
        let _ = again.kill();
        again.wait().expect("ended");
    }
    for child in [&mut sender, &mut receiver] {
        let _ = child.kill();
        child.wait().expect("ended");
    }
    assert_eq!((sent, received), (Some(true), Some(true)));
    assert_eq!(place.tree(), expected);
}

/// A client that says what it likes.
struct Raw {
    runtime: tokio::runtime::Runtime,
    endpoint: Endpoint,
    ticket: Ticket,
}

impl Raw {
    fn new(place: &Place, receiver: &Receiver) -> Raw {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let identity = Arc::new(Identity::open(&place.near).expect("an identity"));
        let endpoint = runtime.block_on(async {
            Endpoint::client(LOOPBACK, identity, Options::default()).expect("a client")
        });
        Raw { runtime, endpoint, ticket: receiver.ticket.parse().expect("a ticket") }
    }

    /// Greets, makes offers, sends bytes on a data stream, and returns the answers until the
    /// receiver closes or is silent for `patience`, with the reason.
    fn say(
        &self,
        patience: Duration,
        messages: &[ToReceiver],
        control: &[u8],
        data: &[u8],
    ) -> (Vec<ToSender>, Option<Error>) {
        self.runtime.block_on(async {
            let trust = Trust::Pinned(self.ticket.fingerprint);
            let connection = self
                .endpoint
                .connect(self.ticket.addresses[0], Service::Transfer, trust)
                .await
                .expect("connected");
            let (mut send, mut receive) = connection.quic.open_bi().await.expect("a stream");
            let hello = ToReceiver::Hello {
                token: Some(self.ticket.token),
                dry_run: false,
                checksum: false,
            };
            if !messages.is_empty() {
                wire::write(&mut send, &hello).await.expect("written");
            }
            for message in messages {
                let _ = wire::write(&mut send, message).await;
            }
            let _ = send.write_all(control).await;
            let mut answers = Vec::new();
            let offers =
                messages.iter().any(|m| matches!(m, ToReceiver::Offer(e) if !e.is_empty()));
            // Frames come after their offer was answered.
            while !data.is_empty() && offers && !matches!(answers.last(), Some(ToSender::Want(_))) {
                answers.push(wire::read(&mut receive).await.expect("an answer").expect("no end"));
            }
            let mut stream = None;
            if !data.is_empty()
                && let Ok(mut opened) = connection.quic.open_uni().await
            {
                let _ = opened.write_all(data).await;
                let _ = opened.finish();
                stream = Some(opened);
            }
            while let Ok(Ok(Some(answer))) =
                tokio::time::timeout(patience, wire::read::<ToSender>(&mut receive)).await
            {
                answers.push(answer);
            }
            let closed = tokio::time::timeout(patience, connection.quic.closed()).await;
            drop(stream);
            connection.quic.close(0u32.into(), b"");
            (answers, closed.ok().map(Error::from))
        })
    }
}

/// A name, messages, bytes after them on the control stream, and bytes on a data stream.
type Violation = (&'static str, Vec<ToReceiver>, Vec<u8>, Vec<u8>);

fn file(id: u64, path: &[u8], size: u64) -> Entry {
    let changed = Stamp { seconds: 0, nanos: 0 };
    Entry { id, path: path.to_vec(), mode: 0o7777, changed, kind: Kind::File { size, space: 0 } }
}

#[test]
fn a_hostile_sender_writes_nothing_outside_and_holds_nothing() {
    let place = Place::new();
    write(&place.from.join("a"), b"a");
    let receiver = Receiver::start(ReceiveOptions { keep: true, ..place.receive_options() });
    let raw = Raw::new(&place, &receiver);
    let outside = place.to.with_file_name("victim");
    fs::write(&outside, b"untouched").expect("written");

    // Names that lead out, and a link through which the next name would.
    let names: [&[u8]; 8] =
        [b"../victim", b"/etc/passwd", b"a/../../victim", b"", b".", b"x\0", b"a//b", &[b'n'; 300]];
    let mut offers: Vec<Entry> =
        names.iter().enumerate().map(|(id, name)| file(id as u64, name, 1)).collect();
    let link = |id, path: &[u8], target: &[u8]| Entry {
        kind: Kind::Link { target: target.to_vec() },
        ..file(id, path, 0)
    };
    offers.push(link(8, b"gate", b"../"));
    offers.push(link(9, b"gate", b"/tmp"));
    // 2^60 bytes are more than any disk has: the sum of claims is bounded by what is free.
    offers
        .push(Entry { kind: Kind::File { size: 1 << 60, space: 1 << 60 }, ..file(10, b"huge", 0) });
    offers.push(file(11, b"longer", u64::MAX));
    let (answers, closed) = raw.say(Duration::from_secs(2), &[ToReceiver::Offer(offers)], b"", b"");
    let failed = answers.iter().filter(|answer| matches!(answer, ToSender::Failed { .. })).count();
    assert_eq!(failed, 12, "{answers:?}");
    assert!(closed.is_none(), "they do not end the transfer: {closed:?}");
    assert_eq!(fs::read_dir(&place.to).expect("there").count(), 0);
    assert_eq!(fs::read(&outside).expect("there"), b"untouched");

    let offer = |entry: Entry| vec![ToReceiver::Offer(vec![entry])];
    let frame = |part: Part, body: &[u8]| {
        let mut bytes = Vec::new();
        Frame { id: 0, part }.put(&mut bytes);
        bytes.extend_from_slice(body);
        bytes
    };
    let huge = 1u64 << 40;
    let violations: Vec<Violation> = vec![
        ("a length of 4 GB", vec![ToReceiver::Offer(vec![])], vec![0xff; 4], vec![]),
        ("garbage", vec![ToReceiver::Offer(vec![])], vec![3, 0, 0, 0, 0xff, 0xff, 0xff], vec![]),
        ("frames of garbage", vec![ToReceiver::Offer(vec![])], vec![], noise(1, 5000)),
        (
            "data of no offer",
            vec![ToReceiver::Offer(vec![])],
            vec![],
            frame(Part::Whole(0), &[0; 32]),
        ),
        ("another size", offer(file(0, b"s", 3)), vec![], frame(Part::Whole(2), &[0; 34])),
        ("a false hash", offer(file(0, b"s", 3)), vec![], frame(Part::Whole(3), &[0; 35])),
        (
            "a part past the end",
            offer(file(0, b"l", 600_000)),
            vec![],
            frame(Part::Data(1 << 50, 1), &[0]),
        ),
        (
            "a part inside a block",
            offer(file(0, b"l", 600_000)),
            vec![],
            frame(Part::Data(5, 1), &[0]),
        ),
        ("the end of nothing", offer(file(0, b"l", huge)), vec![], frame(Part::End(7), &[0; 32])),
        (
            "an end too early",
            vec![ToReceiver::Offer(vec![file(0, b"s", 3)]), ToReceiver::End],
            vec![],
            vec![],
        ),
        (
            "numbers that fall",
            vec![ToReceiver::Offer(vec![file(5, b"s", 3), file(5, b"t", 3)])],
            vec![],
            vec![],
        ),
    ];
    for (what, messages, control, data) in violations {
        let (_, closed) = raw.say(PATIENCE, &messages, &control, &data);
        assert!(matches!(closed, Some(Error::Refused(_))), "{what}: {closed:?}");
    }
    // Many offers without contents: the receiver ends it at its limit, whatever follows.
    let flood: Vec<ToReceiver> = (0..600u64)
        .map(|batch| {
            let entries = (0..100)
                .map(|index| file(batch * 100 + index, format!("f{batch}-{index}").as_bytes(), 9));
            ToReceiver::Offer(entries.collect())
        })
        .collect();
    let (answers, closed) = raw.say(PATIENCE, &flood, b"", b"");
    assert!(matches!(closed, Some(Error::Refused(_))), "{closed:?}");
    assert!(answers.len() < 200, "{}", answers.len());

    // An honest transfer follows. No violation left a file under a final name.
    place.send(&receiver.ticket).0.expect("sent");
    assert_eq!(place.tree(), tree(&place.from));
    let names: Vec<_> =
        fs::read_dir(&place.to).expect("there").flatten().map(|entry| entry.file_name()).collect();
    for name in &names {
        let name = name.to_string_lossy();
        assert!(name == "from" || name.starts_with(".windward-"), "{names:?}");
    }
    receiver.stop();
}

#[test]
fn a_file_that_changes_is_sent_at_rest_or_told() {
    let place = Place::new();
    let restless = place.from.join("restless");
    write(&restless, &noise(1, 8 << 20));
    write(&place.from.join("calm"), b"calm");
    let receiver = Receiver::start(ReceiveOptions { keep: true, ..place.receive_options() });
    let slow = SendOptions { limit: Some(30e6), ..place.send_options() };
    let done = AtomicBool::new(false);
    let (result, figures) = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut length = 8 << 20;
            while !done.load(Ordering::Relaxed) {
                length -= 1;
                let file = fs::OpenOptions::new().write(true).open(&restless).expect("open");
                file.set_len(length).expect("shorter");
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let outcome =
            place.send_with(&receiver.ticket, &slow, Choice::default(), &AtomicBool::new(false));
        done.store(true, Ordering::Relaxed);
        outcome
    });
    result.expect("the transfer ends");
    // Either it was at rest for long enough at last, or it is told. It never mixes two states: each
    // state is a beginning of the first.
    let remarks = figures.take_remarks();
    match fs::read(place.to.join("from/restless")) {
        Ok(stored) => {
            assert_eq!(remarks.failed, 0, "{remarks:?}");
            assert!(noise(1, 8 << 20).starts_with(&stored) && stored.len() < 8 << 20);
        }
        Err(_) => {
            assert_eq!(remarks.failed, 1, "{remarks:?}");
            assert!(remarks.pending[0].0.contains("changes while it is read"), "{remarks:?}");
        }
    }
    assert_eq!(fs::read(place.to.join("from/calm")).expect("there"), b"calm");
    // At rest, the same command completes it.
    place.send(&receiver.ticket).0.expect("sent");
    assert_eq!(place.tree(), tree(&place.from));
    receiver.stop();
}
