//! Peers that violate the protocol.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use quinn::{RecvStream, SendStream};
use windward_deploy::endpoint::Windows;
use windward_deploy::ticket::Ticket;
use windward_deploy::transfer::blocks::{ABSENT, Blocks, LEAST_BLOCK};
use windward_deploy::transfer::receive::ReceiveOptions;
use windward_deploy::transfer::send::{self, SendOptions, Target};
use windward_deploy::transfer::walk::{Choice, Walk};
use windward_deploy::transfer::wire::{
    self, Entry, Frame, Kind, Part, Stamp, ToReceiver, ToSender,
};
use windward_deploy::{Connection, Endpoint, Error, Identity, Options, Service, Trust, clock};

use crate::place::{LOOPBACK, Place, Receiver, noise, tree, write};

/// Time in which a receiver ends a connection that violates the protocol, on any machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client that says what it likes.
struct Raw {
    runtime: tokio::runtime::Runtime,
    endpoint: Endpoint,
    ticket: Ticket,
    /// Happens once after an offer is answered, before its data are sent.
    between: Cell<Option<Box<dyn FnOnce()>>>,
}

impl Raw {
    fn new(place: &Place, receiver: &Receiver) -> Raw {
        Self::with(place, receiver, Options::default())
    }

    fn with(place: &Place, receiver: &Receiver, options: Options) -> Raw {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let identity = Arc::new(Identity::open(&place.near).expect("an identity"));
        let endpoint = runtime
            .block_on(async { Endpoint::client(LOOPBACK, identity, options).expect("a client") });
        let ticket = receiver.ticket.parse().expect("a ticket");
        Raw { runtime, endpoint, ticket, between: Cell::new(None) }
    }

    /// A connection that has greeted, with its control stream.
    async fn greet(&self) -> (Connection, SendStream, RecvStream) {
        let trust = Trust::Pinned(self.ticket.fingerprint);
        let connecting = self.endpoint.connect(self.ticket.addresses[0], Service::Transfer, trust);
        let connection = connecting.await.expect("connected");
        let (mut send, receive) = connection.quic.open_bi().await.expect("a stream");
        let token = Some(self.ticket.token);
        let hello = ToReceiver::Hello { token, dry_run: false, checksum: false };
        wire::write(&mut send, &hello).await.expect("written");
        (connection, send, receive)
    }

    /// Makes offers, and reads nothing until the receiver closes; with its reason.
    fn deafly(&self, entries: &[Entry]) -> Option<Error> {
        self.runtime.block_on(async {
            let (connection, mut send, _receive) = self.greet().await;
            let _ = wire::write(&mut send, &ToReceiver::Offer(entries.to_vec())).await;
            let closed = tokio::time::timeout(PATIENCE, connection.quic.closed()).await;
            closed.ok().map(Error::from)
        })
    }

    /// Makes offers, sends bytes on a data stream, and returns the answers until the receiver
    /// closes or is silent for `patience`, with the reason.
    fn say(
        &self,
        patience: Duration,
        messages: &[ToReceiver],
        control: &[u8],
        data: &[u8],
    ) -> (Vec<ToSender>, Option<Error>) {
        self.runtime.block_on(async {
            let (connection, mut send, mut receive) = self.greet().await;
            for message in messages {
                let _ = wire::write(&mut send, message).await;
            }
            let _ = send.write_all(control).await;
            let mut answers = Vec::new();
            let offers =
                messages.iter().any(|m| matches!(m, ToReceiver::Offer(e) if !e.is_empty()));
            // Frames come after their offer was answered.
            let asked =
                |answer: &ToSender| matches!(answer, ToSender::Want(_) | ToSender::Compare { .. });
            while !data.is_empty() && offers && !answers.last().is_some_and(asked) {
                answers.push(wire::read(&mut receive).await.expect("an answer").expect("no end"));
            }
            if let Some(between) = self.between.take() {
                between();
            }
            let mut stream = None;
            if !data.is_empty()
                && let Ok(mut opened) = connection.quic.open_uni().await
            {
                let _ = opened.write_all(data).await;
                let _ = opened.finish();
                stream = Some(opened);
            }
            answers.extend(rest(&mut receive, patience).await);
            let closed = tokio::time::timeout(patience, connection.quic.closed()).await;
            drop(stream);
            connection.quic.close(0u32.into(), b"");
            (answers, closed.ok().map(Error::from))
        })
    }
}

/// The answers that arrive until none has come for `patience`.
async fn rest(receive: &mut RecvStream, patience: Duration) -> Vec<ToSender> {
    let mut answers = Vec::new();
    while let Ok(Ok(Some(answer))) =
        tokio::time::timeout(patience, wire::read::<ToSender>(receive)).await
    {
        answers.push(answer);
    }
    answers
}

fn file(id: u64, path: &[u8], size: u64) -> Entry {
    let changed = Stamp { seconds: 0, nanos: 0 };
    Entry { id, path: path.to_vec(), mode: 0o7777, changed, kind: Kind::File { size, space: 0 } }
}

/// A frame of the offer with this number.
fn frame(id: u64, part: Part, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Frame { id, part }.put(&mut bytes);
    bytes.extend_from_slice(body);
    bytes
}

#[test]
fn a_hostile_sender_writes_nothing_outside() {
    let place = Place::new();
    let receiver = place.keeper();
    let raw = Raw::new(&place, &receiver);
    let outside = place.to.with_file_name("victim");
    fs::write(&outside, b"untouched").expect("written");
    // Names that lead out, and a link through which the next name would.
    let names: [&[u8]; 8] =
        [b"../victim", b"/etc/passwd", b"a/../../victim", b"", b".", b"x\0", b"a//b", &[b'n'; 300]];
    let mut offers: Vec<Entry> =
        names.iter().enumerate().map(|(id, name)| file(id as u64, name, 1)).collect();
    for (id, target) in [(8, "../"), (9, "/tmp")] {
        let kind = Kind::Link { target: target.into() };
        offers.push(Entry { kind, ..file(id, b"gate", 0) });
    }
    // 2^60 bytes are more than any disk has: the sum of claims is bounded by what is free.
    offers
        .push(Entry { kind: Kind::File { size: 1 << 60, space: 1 << 60 }, ..file(10, b"huge", 0) });
    offers.push(file(11, b"longer", u64::MAX));
    offers.extend([file(12, b"twice", 1), file(13, b"twice", 1)]);
    let (answers, closed) = raw.say(Duration::from_secs(2), &[ToReceiver::Offer(offers)], b"", b"");
    let failed = answers.iter().filter(|answer| matches!(answer, ToSender::Failed { .. })).count();
    assert_eq!(failed, 13, "{answers:?}");
    assert!(closed.is_none(), "they do not end the transfer: {closed:?}");
    assert_eq!(fs::read_dir(&place.to).expect("there").count(), 0);
    assert_eq!(fs::read(&outside).expect("there"), b"untouched");
    receiver.stop();
}

#[test]
fn a_violation_ends_the_session_and_leaves_nothing() {
    let place = Place::new();
    write(&place.from.join("a"), b"a");
    let receiver = place.keeper();
    let raw = Raw::new(&place, &receiver);
    let offer = |name: &[u8], size| vec![ToReceiver::Offer(vec![file(0, name, size)])];
    let nothing = || ToReceiver::Offer(vec![]);
    let (small, large) = (|| offer(b"s", 3), || offer(b"l", 600_000));
    let frame = |part, body: &[u8]| frame(0, part, body);
    let data = noise(2, LEAST_BLOCK as usize);
    let mut hasher = Blocks::of(600_000).hasher(0);
    hasher.update(&data);
    let end = frame(Part::End(0), &Blocks::finish(&hasher));
    let block = [frame(Part::Data(0, LEAST_BLOCK), &data), end].concat();
    let begun: Vec<u8> =
        [0, LEAST_BLOCK, 0].iter().flat_map(|offset| frame(Part::Data(*offset, 1), &[0])).collect();
    let finish = ToReceiver::Finish { id: 0, hash: [0; 32], sent: 3 };
    let withdraw = ToReceiver::Withdraw { id: 0 };
    let after = |mut offer: Vec<ToReceiver>, more: &[ToReceiver]| {
        offer.extend_from_slice(more);
        offer
    };
    // Messages, and bytes after them on the control stream.
    let words: [(&str, Vec<ToReceiver>, &[u8]); 9] = [
        ("a length of 4 GB", vec![nothing()], &[0xff; 4]),
        ("garbage", vec![nothing()], &[3, 0, 0, 0, 0xff, 0xff, 0xff]),
        ("an end too early", after(small(), &[ToReceiver::End]), &[]),
        ("an end twice", after(offer(b"n", 600_000), &[finish.clone(), finish]), &[]),
        ("withdrawn for ever", vec![withdraw.clone(); 100], &[]),
        ("offers of nothing for ever", vec![nothing(); 100], &[]),
        ("folders for ever", vec![ToReceiver::Folders(vec![file(0, b"f", 0); 100])], &[]),
        ("compares for ever", vec![ToReceiver::Comparing; 100], &[]),
        (
            "numbers that fall",
            vec![ToReceiver::Offer(vec![file(5, b"s", 3), file(5, b"t", 3)])],
            &[],
        ),
    ];
    for (what, messages, control) in words {
        let (_, closed) = raw.say(PATIENCE, &messages, control, &[]);
        assert!(matches!(closed, Some(Error::Refused(_))), "{what}: {closed:?}");
    }
    // Messages, and bytes on a data stream.
    let frames: [(&str, Vec<ToReceiver>, Vec<u8>); 11] = [
        ("frames of garbage", vec![nothing()], noise(1, 5000)),
        ("data of no offer", vec![nothing()], frame(Part::Whole(0), &[0; 32])),
        ("another size", small(), frame(Part::Whole(2), &[0; 34])),
        ("a false hash", small(), frame(Part::Whole(3), &[0; 35])),
        ("a part past the end", large(), frame(Part::Data(1 << 50, 1), &[0])),
        ("a part inside a block", large(), frame(Part::Data(5, 1), &[0])),
        ("the end of nothing", offer(b"h", 1 << 40), frame(Part::End(7), &[0; 32])),
        ("a block twice", large(), [&block[..], &frame(Part::Data(0, 1), &[0])].concat()),
        ("a block begun twice", large(), begun),
        ("parts without bytes", large(), frame(Part::Data(0, 0), &[])),
        ("more data than asked for", after(offer(b"m", 600_000), &[withdraw]), block.repeat(3)),
    ];
    for (what, messages, data) in frames {
        let (_, closed) = raw.say(PATIENCE, &messages, &[], &data);
        assert!(matches!(closed, Some(Error::Refused(_))), "{what}: {closed:?}");
    }
    // An honest transfer follows. No violation left a file under a final name.
    place.send(&receiver.ticket).0.expect("sent");
    assert_eq!(place.tree(), tree(&place.from));
    for entry in fs::read_dir(&place.to).expect("there").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        assert!(name == "from" || name.starts_with(".windward-"), "{name}");
    }
    receiver.stop();
}

/// Many offers without contents: the receiver ends it at its limit, whatever follows.
#[test]
fn a_flood_of_offers_is_ended() {
    let place = Place::new();
    let receiver = place.keeper();
    let raw = Raw::new(&place, &receiver);
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
    receiver.stop();
}

/// Waits for a thread, and fails if that takes too long.
fn joined<T>(what: &str, thread: &std::thread::JoinHandle<T>, most: Duration) {
    let since = clock::now();
    while !thread.is_finished() {
        assert!(clock::now().duration_since(since) < most, "{what}: still there after {most:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Hashing bytes behind the end of a file, or a large hole, would keep a receiver busy for ever.
#[test]
fn a_sender_that_has_left_holds_no_receiver() {
    let place = Place::new();
    write(&place.from.join("a"), b"a");
    write(&place.to.join("short"), b"1");
    let hole = fs::File::create(place.to.join("hole")).expect("made");
    hole.set_len(1 << 42).expect("a hole");
    let receiver = place.keeper();
    let raw = Raw::new(&place, &receiver);
    let offers = [file(0, b"short", i64::MAX as u64), file(1, b"hole", 1 << 42)];
    let offers = [ToReceiver::Offer(offers.to_vec())];
    let (answers, _) = raw.say(Duration::from_secs(1), &offers, b"", b"");
    let absent = answers.iter().any(|answer| {
        matches!(answer, ToSender::Compare { id: 0, hashes } if hashes.iter().all(|hash| *hash == ABSENT))
    });
    assert!(absent, "{answers:?}");
    place.send(&receiver.ticket).0.expect("sent");
    assert_eq!(place.tree(), tree(&place.from));
    // The same once more, with a signal instead of a sender.
    raw.say(Duration::from_millis(100), &offers, b"", b"");
    receiver.stop.store(true, std::sync::atomic::Ordering::Relaxed);
    // A second, and what a busy machine may add.
    joined("after a signal", &receiver.thread, Duration::from_secs(5));
    receiver.end().0.expect_err("interrupted");
}

/// Keep-alives of QUIC are no progress.
#[test]
fn a_silent_sender_is_left() {
    let place = Place::new();
    let patience = Duration::from_millis(500);
    let receiver =
        Receiver::start(ReceiveOptions { keep: true, patience, ..place.receive_options() });
    let raw = Raw::new(&place, &receiver);
    let offer = ToReceiver::Offer(vec![file(0, b"name", 3)]);
    let (_, closed) = raw.say(PATIENCE, &[offer], b"", b"");
    assert!(matches!(&closed, Some(Error::Busy(why)) if why.contains("no progress")), "{closed:?}");
    receiver.stop();
}

/// A sender that reads no answers: the receiver's own words wait for it, before it is admitted and
/// after.
#[test]
fn a_deaf_sender_is_left() {
    let place = Place::new();
    let patience = Duration::from_millis(500);
    let receiver =
        Receiver::start(ReceiveOptions { keep: true, patience, ..place.receive_options() });
    for window in [1, 40] {
        let windows = Windows { stream: window, ..Windows::default() };
        let options = Options { windows, ..Options::default() };
        let raw = Raw::with(&place, &receiver, options);
        let since = clock::now();
        let closed = raw.deafly(&(0..500).map(|id| file(id, b"../out", 3)).collect::<Vec<_>>());
        assert!(matches!(&closed, Some(Error::Busy(_))), "{window}: {closed:?}");
        assert!(clock::now().duration_since(since) < PATIENCE, "{window}");
    }
    receiver.stop();
}

/// A receiver that leaves its sender waiting, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Silence {
    /// Takes no stream.
    Deaf,
    /// Does not greet.
    Dumb,
    /// Greets, and answers nothing.
    Polite,
    /// Asks for everything, and takes nothing of it.
    Full,
    /// Takes everything, and closes, again and again.
    Forgetful,
}

impl Silence {
    async fn treat(self, connection: Connection) {
        if self == Silence::Deaf {
            connection.quic.closed().await;
            return;
        }
        let (mut send, mut receive) = connection.quic.accept_bi().await.expect("a stream");
        if self != Silence::Dumb {
            wire::write(&mut send, &ToSender::Welcome).await.expect("written");
        }
        if self >= Silence::Full {
            take_offers(&mut receive).await;
            let _ = wire::write(&mut send, &ToSender::Want(vec![1, 2])).await;
        }
        if self == Silence::Forgetful {
            let mut stream = connection.quic.accept_uni().await.expect("a stream");
            let _ = stream.read(&mut vec![0; 1 << 16]).await;
            connection.quic.close(0u32.into(), b"");
        } else {
            connection.quic.closed().await;
        }
    }
}

/// Reads three offers. They come in one message or in several, as the folder is read.
async fn take_offers(receive: &mut RecvStream) {
    let mut offered = 0;
    while offered < 3 {
        if let Some(ToReceiver::Offer(more)) = wire::read(receive).await.expect("read") {
            offered += more.len();
        }
    }
}

/// How a sender ends, with this patience, whose connections are treated so.
fn send_to(place: &Place, patience: Duration, treat: impl AsyncFn(Connection)) -> Error {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let identity = Arc::new(Identity::open(&place.far).expect("an identity"));
        let fingerprint = identity.fingerprint();
        let windows = Windows { receive: 1 << 20, ..Windows::default() };
        let options = Options { uni_streams: 32, windows, ..Options::default() };
        let (endpoint, mut listener) =
            Endpoint::server(LOOPBACK, identity, &[Service::Transfer], options).expect("a server");
        let addresses = vec![endpoint.local_address().expect("an address")];
        let serve = async {
            while let Some(connection) = listener.accept().await {
                treat(connection).await;
            }
        };
        let target = Target { addresses, fingerprint, token: None, name: None };
        let walk = Walk::new(std::slice::from_ref(&place.from), Choice::default()).expect("walk");
        let near = Arc::new(Identity::open(&place.near).expect("an identity"));
        let options = SendOptions { patience, ..place.send_options() };
        let (stop, figures) = (AtomicBool::new(false), Arc::default());
        let sender = send::send(near, &target, &walk, &options, &figures, &stop);
        let sent = tokio::time::timeout(PATIENCE, async {
            tokio::select! { sent = sender => sent, () = serve => unreachable!("it listens") }
        });
        sent.await.expect("in time").expect_err("nothing is complete")
    })
}

#[test]
fn patience_ends_whatever_the_receiver_does_not_say() {
    let place = Place::new();
    write(&place.from.join("a"), &noise(1, 1000));
    write(&place.from.join("b"), &noise(1, 4 << 20));
    for silence in
        [Silence::Deaf, Silence::Dumb, Silence::Polite, Silence::Full, Silence::Forgetful]
    {
        let treat = async |connection| silence.treat(connection).await;
        let error = send_to(&place, Duration::from_secs(1), treat);
        assert!(
            matches!(&error, Error::Unreachable(why) if why.contains("without progress")),
            "{silence:?}: {error:?}"
        );
    }
}

#[test]
fn a_hostile_receiver_is_left() {
    let place = Place::new();
    write(&place.from.join("a"), &noise(1, 1000));
    write(&place.from.join("b"), &noise(1, 600_000));
    let failed = ToSender::Failed { id: 9, reason: String::new() };
    let cases: [(&str, Vec<ToSender>); 12] = [
        // The folder is the offer with number 0.
        ("asks for a file twice", vec![ToSender::Want(vec![1, 1])]),
        ("contents of a folder", vec![ToSender::Want(vec![0])]),
        ("greets twice", vec![ToSender::Welcome]),
        ("ends the transfer early", vec![ToSender::Complete]),
        ("more blocks", vec![ToSender::Compare { id: 1, hashes: vec![[0; 32]; 100] }]),
        ("more blocks", vec![ToSender::Compare { id: 1, hashes: vec![] }]),
        ("not offered", vec![ToSender::Want(vec![3])]),
        ("not offered", vec![ToSender::Same(vec![0]); 20]),
        ("not offered", vec![ToSender::Stored(vec![u64::MAX; 2000])]),
        ("not offered", vec![ToSender::Want(vec![]); 20]),
        ("not offered", vec![failed; 20]),
        ("not offered", vec![ToSender::Compare { id: u64::MAX, hashes: vec![[0; 32]] }]),
    ];
    for (what, answers) in cases {
        let treat = async |connection: Connection| {
            let (mut send, mut receive) = connection.quic.accept_bi().await.expect("a stream");
            let hello = wire::read::<ToReceiver>(&mut receive).await.expect("read");
            assert!(matches!(hello, Some(ToReceiver::Hello { .. })), "{hello:?}");
            wire::write(&mut send, &ToSender::Welcome).await.expect("written");
            take_offers(&mut receive).await;
            for answer in &answers {
                let _ = wire::write(&mut send, answer).await;
            }
            connection.quic.closed().await;
        };
        let error = send_to(&place, Duration::from_secs(5), treat);
        assert!(matches!(&error, Error::Peer(why) if why.contains(what)), "{what}: {error:?}");
    }
}

/// Somebody else makes a file after the receiver has looked and before the contents are complete.
/// On a file system that ignores case, `README` and `readme` meet like this.
#[test]
fn a_file_that_appears_meanwhile_is_kept() {
    let place = Place::new();
    let receiver = place.keeper();
    let raw = Raw::new(&place, &receiver);
    let new = [b"new", &blake3::hash(b"new").as_bytes()[..]].concat();
    let frame = frame(0, Part::Whole(3), &new);
    let there = place.to.join("name");
    raw.between.set(Some(Box::new(move || fs::write(&there, b"there").expect("written"))));
    let offer = ToReceiver::Offer(vec![file(0, b"name", 3)]);
    let (answers, _) = raw.say(Duration::from_secs(2), &[offer], b"", &frame);
    let failed = answers.iter().any(|answer| {
        matches!(answer, ToSender::Failed { id: 0, reason } if reason.contains("appeared"))
    });
    assert!(failed, "{answers:?}");
    assert_eq!(fs::read(place.to.join("name")).expect("there"), b"there");
    assert_eq!(fs::read_dir(&place.to).expect("there").count(), 1, "no temporary file");
    receiver.stop();
}

/// A program at the receiver changes the file from which a transfer begins, after its blocks were
/// hashed: the mixture would have the size and the time of the sender's file, and stay for ever.
#[test]
fn a_file_that_changes_at_the_receiver_meanwhile_is_not_complete() {
    type Change = fn(&std::path::Path);
    let changes: [(Change, &str); 3] = [
        (
            |path| {
                fs::File::options()
                    .write(true)
                    .open(path)
                    .expect("open")
                    .write_all_at(b"x", 300_000)
                    .expect("written");
            },
            "changed",
        ),
        (|path| fs::remove_file(path).expect("removed"), "vanished"),
        (
            |path| {
                fs::remove_file(path).expect("removed");
                write(path, &noise(3, 600_000));
            },
            "changed",
        ),
    ];
    let data = noise(2, LEAST_BLOCK as usize);
    let frame = frame(0, Part::Data(0, LEAST_BLOCK), &data);
    for (change, expected) in changes {
        let place = Place::new();
        let there = place.to.join("name");
        write(&there, &noise(1, 600_000));
        let receiver = place.keeper();
        let raw = Raw::new(&place, &receiver);
        raw.between.set(Some(Box::new(move || change(&there))));
        let offer = ToReceiver::Offer(vec![file(0, b"name", 600_000)]);
        let (answers, _) = raw.say(Duration::from_secs(1), &[offer], b"", &frame);
        let failed = answers.iter().any(|answer| {
            matches!(answer, ToSender::Failed { id: 0, reason } if reason.contains(expected))
        });
        assert!(failed, "{expected}: {answers:?}");
        receiver.stop();
    }
}

/// Frames of a file that has just failed on another stream are late, and no violation.
#[test]
fn files_that_fail_on_two_streams_fail_once_each() {
    const FILES: u64 = 6;
    const BLOCKS: u64 = 64;
    let place = Place::new();
    let paths: Vec<_> = (0..FILES).map(|id| place.to.join(id.to_string())).collect();
    for path in &paths {
        write(path, &vec![1; (BLOCKS * LEAST_BLOCK) as usize]);
    }
    let receiver = place.keeper();
    let raw = Raw::new(&place, &receiver);
    let offers = (0..FILES).map(|id| file(id, id.to_string().as_bytes(), BLOCKS * LEAST_BLOCK));
    let offers: Vec<Entry> = offers.collect();
    let block = vec![1; LEAST_BLOCK as usize];
    let (failed, closed) = raw.runtime.block_on(async {
        let (connection, mut send, mut receive) = raw.greet().await;
        wire::write(&mut send, &ToReceiver::Offer(offers)).await.expect("written");
        let mut compared = 0;
        while compared < FILES * BLOCKS {
            if let Some(ToSender::Compare { hashes, .. }) =
                wire::read(&mut receive).await.expect("an answer")
            {
                compared += hashes.len() as u64;
            }
        }
        // Each is copied, which takes a while, and found to have changed.
        for path in &paths {
            write(path, &vec![2; (BLOCKS * LEAST_BLOCK) as usize]);
        }
        let stream = async |half: u64| {
            let mut stream = connection.quic.open_uni().await.expect("a stream");
            for id in 0..FILES {
                let part = Part::Data(half * LEAST_BLOCK, LEAST_BLOCK);
                let _ = stream.write_all(&frame(id, part, &block)).await;
            }
            stream
        };
        let streams = tokio::join!(stream(0), stream(1));
        let answers = rest(&mut receive, Duration::from_secs(1)).await;
        let failed = answers.iter().filter(|a| matches!(a, ToSender::Failed { .. })).count() as u64;
        drop(streams);
        (failed, connection.quic.close_reason())
    });
    assert_eq!((failed, closed), (FILES, None));
    receiver.stop();
}
