//! Whole trees: first, again, in part, and while they change.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use windward_deploy::Error;
use windward_deploy::transfer::receive::{Event, ReceiveOptions};
use windward_deploy::transfer::send::SendOptions;
use windward_deploy::transfer::walk::{Choice, Links};

use crate::place::{Place, Receiver, noise, tree, write};

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
    let figures = place.sent(&receiver.ticket, &place.send_options());
    let remarks = figures.take_remarks();
    assert_eq!((remarks.skipped, remarks.failed), (3, 0), "two links and a FIFO: {remarks:?}");
    assert_eq!(figures.now.skipped_links.get(), 2);
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
    let receiver = place.keeper();
    place.send(&receiver.ticket).0.expect("sent");

    // One byte in one of 16 blocks, and an end that is appended.
    let file = fs::OpenOptions::new().write(true).open(&big).expect("open");
    file.write_all_at(b"!", 3 << 20).expect("written");
    file.write_all_at(&noise(5, 1000), 4 << 20).expect("written");
    let figures = place.sent(&receiver.ticket, &place.send_options());
    // A block of 256 kB, and the appended bytes: 4 MB + 1000 B have 17 blocks.
    assert_eq!(figures.sent.get(), (256 << 10) + 1000);
    assert_eq!(place.tree(), tree(&place.from));

    let figures = place.sent(&receiver.ticket, &place.send_options());
    assert_eq!((figures.sent.get(), figures.now.stored.get()), (0, 0));

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
    let figures = place.sent(&receiver.ticket, &careful);
    assert_eq!(figures.sent.get(), 5);
    assert_eq!(fs::read(place.to.join("from/small")).expect("there"), b"other");
    receiver.stop();
}

/// Without `perms` as `rsync -rt`, with it as `rsync -p`, except for set-user-ID.
#[test]
fn what_is_there_keeps_its_permissions_unless_asked() {
    let place = Place::new();
    let made = place.home().join("made");
    fs::create_dir(&made).expect("made");
    let umask = !fs::metadata(&made).expect("there").mode() & 0o777;
    // Name, permissions at the sender, at the receiver before, and after without and with `perms`.
    let cases = [
        ("team/", 0o755, Some(0o2770), 0o2770, 0o755),
        ("drop/", 0o755, Some(0o1777), 0o1777, 0o755),
        ("sealed/", 0o755, Some(0o555), 0o555, 0o755),
        ("team/new/", 0o1777, None, 0o2000 | (0o777 & !umask), 0o1777),
        ("open/", 0o3777, None, 0o777 & !umask, 0o3777),
        ("shut/", 0o500, None, 0o500, 0o500),
        ("old", 0o644, Some(0o600), 0o600, 0o644),
        ("changed", 0o644, Some(0o600), 0o600, 0o644),
        ("sealed/tool", 0o4755, None, 0o755 & !umask, 0o755),
        ("shared", 0o666, None, 0o666 & !umask, 0o666),
    ];
    let set = |path: &std::path::Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
    };
    for (name, ..) in cases {
        for top in [&place.from, &place.to.join("from")] {
            match name.strip_suffix('/') {
                Some(folder) => fs::create_dir_all(top.join(folder)).expect("made"),
                None => write(&top.join(name), name.as_bytes()),
            }
        }
    }
    fs::write(place.from.join("changed"), b"in its contents").expect("written");
    for (name, sent, before, ..) in cases.into_iter().rev() {
        let there = place.to.join("from").join(name);
        match (before, name.strip_suffix('/')) {
            (Some(mode), _) => set(&there, mode),
            (None, Some(_)) => fs::remove_dir(&there).expect("removed"),
            (None, None) => fs::remove_file(&there).expect("removed"),
        }
        set(&place.from.join(name), sent);
    }
    for perms in [false, true] {
        let receiver = Receiver::start(ReceiveOptions { perms, ..place.receive_options() });
        let figures = place.sent(&receiver.ticket, &place.send_options());
        assert_eq!(figures.take_remarks().failed, 0);
        receiver.end().0.expect("received");
        for (name, .., kept, asked) in cases {
            let mode = fs::metadata(place.to.join("from").join(name)).expect("there").mode();
            let expected = if perms { asked } else { kept };
            assert_eq!(format!("{:o}", mode & 0o7777), format!("{expected:o}"), "{name} {perms}");
        }
    }
}

/// Its owner, and everybody who can write into it, could change what is received.
#[test]
fn a_temporary_file_of_others_is_not_continued() {
    use windward_deploy::transfer::path::temporary_name;
    for case in ["writable", "linked", "another's", "a link", "a FIFO"] {
        let place = Place::new();
        let contents = noise(1, 1 << 20);
        write(&place.from.join("big"), &contents);
        let name = temporary_name(b"big");
        let planted = place.to.join("from").join(std::ffi::OsStr::from_bytes(&name));
        let outside = place.home().join("outside");
        let old = noise(2, 1 << 20);
        write(&outside, &old);
        write(&planted, &old);
        let file = fs::File::open(&planted).expect("open");
        fs::set_permissions(&planted, fs::Permissions::from_mode(0o600)).expect("set");
        match case {
            "writable" => {
                fs::set_permissions(&planted, fs::Permissions::from_mode(0o666)).expect("set");
            }
            "another's" => {
                if std::os::unix::fs::chown(&planted, Some(65534), None).is_err() {
                    continue;
                }
            }
            _ => {
                fs::remove_file(&planted).expect("removed");
                match case {
                    "linked" => fs::hard_link(&outside, &planted).expect("linked"),
                    "a link" => symlink(&outside, &planted).expect("linked"),
                    _ => {
                        let (fifo, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
                        rustix::fs::mknodat(rustix::fs::CWD, &planted, fifo, mode, 0)
                            .expect("made");
                    }
                }
            }
        }
        let receiver = place.receiver();
        place.send(&receiver.ticket).0.expect("sent");
        receiver.end().0.expect("received");
        assert!(fs::read(place.to.join("from/big")).expect("there") == contents, "{case}");
        assert!(fs::read(&outside).expect("there") == old, "{case}");
        let mut planted = vec![0; old.len()];
        file.read_exact_at(&mut planted, 0).expect("read");
        assert!(planted == old, "{case}");
    }
}

/// Holes are counted as covered, and not as sent.
#[test]
fn a_sparse_file_counts_what_it_sends() {
    let place = Place::new();
    let sparse = fs::File::create(place.from.join("sparse")).expect("made");
    sparse.set_len(64 << 20).expect("long");
    sparse.write_all_at(&noise(9, 4096), 40 << 20).expect("written");
    let receiver = place.keeper();
    for dry_run in [true, false] {
        let options = SendOptions { dry_run, ..place.send_options() };
        let figures = place.sent(&receiver.ticket, &options);
        // The part of a block that is not a hole.
        assert_eq!(
            (figures.sent.get(), figures.now.done.get()),
            (256 << 10, 64 << 20),
            "{dry_run}"
        );
    }
    receiver.stop();
}

/// Also by a receiver that had it open.
#[test]
fn a_folder_that_was_removed_is_made_again() {
    let place = Place::new();
    write(&place.from.join("a/b/file"), b"contents");
    let receiver = place.keeper();
    for is_made in [false, true, false] {
        place.send(&receiver.ticket).0.expect("sent");
        assert_eq!(place.tree(), tree(&place.from));
        fs::remove_dir_all(place.to.join("from")).expect("removed");
        if is_made {
            fs::create_dir_all(place.to.join("from/a/b")).expect("made");
        }
    }
    receiver.stop();
}

/// Whether it is compared by size and time or by contents.
#[test]
fn what_is_there_already_is_not_counted_as_stored() {
    let place = Place::new();
    write(&place.from.join("big"), &noise(1, 1 << 20));
    write(&place.from.join("small"), b"small");
    let receiver = place.keeper();
    place.send(&receiver.ticket).0.expect("sent");
    for checksum in [false, true] {
        let options = SendOptions { checksum, ..place.send_options() };
        let figures = place.sent(&receiver.ticket, &options);
        assert_eq!(
            (figures.now.stored.get(), figures.now.same.get(), figures.sent.get()),
            (0, 3, 0)
        );
        assert_eq!(figures.now.done.get(), (1 << 20) + 5, "once");
    }
    let last = receiver.stop().expect("complete");
    assert_eq!((last.stored, last.same), (0, 3));
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
    let figures = place.sent(&ticket, &place.send_options());
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
    let receiver = place.keeper();
    let dry = SendOptions { dry_run: true, ..place.send_options() };
    let figures = place.sent(&receiver.ticket, &dry);
    assert_eq!(figures.sent.get(), (1 << 20) + 1);
    let names = figures.take_names();
    let names: Vec<_> = names.iter().map(windward_deploy::transfer::path::RelPath::bytes).collect();
    assert_eq!(names, [&b"from"[..], b"from/a", b"from/a/b", b"from/c"]);
    assert_eq!(fs::read_dir(&place.to).expect("there").count(), 0);
    let told = receiver.events.iter().find_map(|event| match event {
        Event::Complete(received) => Some((received.stored, received.bytes)),
        _ => None,
    });
    assert_eq!(told, Some((0, 0)), "the receiver stored nothing");
    place.send(&receiver.ticket).0.expect("sent");
    let figures = place.sent(&receiver.ticket, &dry);
    assert_eq!((figures.sent.get(), figures.now.same.get()), (0, 4));
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
        exclude: vec!["*.tmp".into(), "/cache".into()],
        exclude_from: vec![],
    };
    let (result, figures) =
        place.send_with(&receiver.ticket, &place.send_options(), choice, &AtomicBool::new(false));
    result.expect("sent");
    assert_eq!(figures.take_remarks().skipped, 1, "the link that leads out");
    receiver.end().0.expect("received");
    let names: Vec<String> =
        place.tree().keys().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    assert_eq!(names, ["", "inside", "keep"]);
    assert!(fs::symlink_metadata(place.to.join("from/inside")).expect("there").is_file());
}

/// As in gitignore(5): the last pattern that matches decides, and those of files come first.
#[test]
fn exclusions_have_exceptions() {
    let place = Place::new();
    for name in ["a.tmp", "keep.tmp", "c.txt", "sub/d.tmp", "sub/e.txt", "sub/f.log"] {
        write(&place.from.join(name), b"1");
    }
    let patterns = place.near.with_file_name("patterns");
    write(&patterns, b"# comment\n*.log\n!keep.tmp\n/sub/e.txt\n");
    let sent = |exclude: &[&str], exclude_from: &[&std::path::PathBuf]| {
        let choice = Choice {
            exclude: exclude.iter().map(Into::into).collect(),
            exclude_from: exclude_from.iter().map(|&file| file.clone()).collect(),
            ..Choice::default()
        };
        let receiver = place.receiver();
        let stop = AtomicBool::new(false);
        place.send_with(&receiver.ticket, &place.send_options(), choice, &stop).0.expect("sent");
        receiver.end().0.expect("received");
        let tree = place.tree().into_iter().filter(|(_, text)| !text.starts_with("folder"));
        let names = tree.map(|(name, _)| String::from_utf8_lossy(&name).into_owned()).collect();
        fs::remove_dir_all(&place.to).expect("removed");
        names
    };
    let names: Vec<String> = sent(&["*.tmp", "!keep.tmp"], &[]);
    assert_eq!(names, ["c.txt", "keep.tmp", "sub/e.txt", "sub/f.log"]);
    let names: Vec<String> = sent(&["*.tmp"], &[&patterns]);
    assert_eq!(names, ["c.txt"]);
}

/// Also where it would stay in the folder of the receiver.
#[test]
fn a_link_out_of_the_folder_that_is_sent_is_left_out() {
    let place = Place::new();
    fs::create_dir_all(place.from.join("sub")).expect("made");
    for (target, name) in [("../../other", "sub/out"), ("../file", "sub/in"), ("..", "out")] {
        symlink(target, place.from.join(name)).expect("linked");
    }
    let receiver = place.receiver();
    let figures = place.sent(&receiver.ticket, &place.send_options());
    assert_eq!(figures.take_remarks().skipped, 2);
    receiver.end().0.expect("received");
    let tree = place.tree();
    assert!(tree.contains_key(&b"sub/in"[..]) && tree.len() == 3, "{tree:?}");
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
    let figures = place.sent(&receiver.ticket, &place.send_options());
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

#[test]
fn a_file_that_changes_is_sent_at_rest_or_told() {
    let place = Place::new();
    let restless = place.from.join("restless");
    write(&restless, &noise(1, 8 << 20));
    write(&place.from.join("calm"), b"calm");
    let receiver = place.keeper();
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
        let outcome = place.send_by(&receiver.ticket, &slow);
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
