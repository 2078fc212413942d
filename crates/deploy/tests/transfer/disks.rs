//! Disks that are full or cannot be written, in a mount namespace of the receiver alone.

use std::ffi::OsStr;
use std::fs;
use std::process::Command;

use windward_deploy::Error;

use crate::child::Process;
use crate::place::{Place, noise, write};

/// A receiver whose folder is a file system in memory with these options; `None` where only root
/// could make it.
fn receiver(place: &Place, options: &str) -> Option<Process> {
    behind(place, options, Process::receiver)
}

/// A process that `start` starts behind such a file system.
fn behind(
    place: &Place,
    options: &str,
    start: impl FnOnce(&Place, &[&OsStr]) -> Process,
) -> Option<Process> {
    let own = ["unshare", "--mount", "--propagation", "private"];
    let mut trial = Command::new(own[0]);
    trial.args(&own[1..]).args(["mount", "-t", "tmpfs", "none", "/mnt"]);
    if !trial.output().is_ok_and(|output| output.status.success()) {
        return None;
    }
    fs::create_dir_all(&place.to).expect("made");
    let script =
        format!("mount -t tmpfs -o {options} none '{}' && exec \"$@\"", place.to.display());
    let shell = ["sh", "-c", &script, "sh"];
    let words: Vec<&OsStr> = own.iter().chain(&shell).map(OsStr::new).collect();
    Some(start(place, &words))
}

/// The reason for which the receiver ends the transfer.
fn refusal(place: &Place) -> String {
    let ticket = fs::read_to_string(place.home().join("ticket")).expect("a ticket");
    let (result, _) = place.send(&ticket);
    match result {
        Err(Error::Refused(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_full_disk_ends_the_transfer_with_the_reason() {
    let place = Place::new();
    // 2 MB for 1 MB; each alone would fit.
    for index in 0..40 {
        write(&place.from.join(format!("{index}")), &noise(index, 50_000));
    }
    let Some(mut receiver) = receiver(&place, "size=1m") else { return };
    let why = refusal(&place);
    assert!(why.contains("at the receiver") && why.contains("No space left"), "{why}");
    // It waits for the sender to come back, when there is space.
    assert_eq!(receiver.end(std::time::Duration::from_millis(200)), None);
}

#[test]
fn a_disk_that_cannot_be_written_has_no_receiver_and_no_ticket() {
    let place = Place::new();
    let Some(mut receiver) = behind(&place, "ro", Process::receiving) else { return };
    assert_eq!(receiver.end(std::time::Duration::from_secs(60)), Some(false));
    assert_eq!(fs::read_to_string(place.home().join("ticket")).unwrap_or_default(), "");
}

#[test]
fn a_file_that_does_not_fit_does_not_stop_the_others() {
    let place = Place::new();
    write(&place.from.join("large"), &noise(1, 3_000_000));
    write(&place.from.join("small"), b"small");
    let Some(mut receiver) = receiver(&place, "size=1m") else { return };
    let ticket = fs::read_to_string(place.home().join("ticket")).expect("a ticket");
    let figures = place.sent(&ticket, &place.send_options());
    let remarks = figures.take_remarks();
    assert_eq!((remarks.failed, figures.now.stored.get()), (1, 2), "{remarks:?}");
    let remark = &remarks.pending[0].0;
    assert!(remark.contains("it needs 3000000 bytes, and the disk has"), "{remark}");
    // Its ticket stays valid.
    assert_eq!(receiver.end(std::time::Duration::from_secs(60)), Some(false));
    let mut again = Process::receiver(&place, &[]);
    assert_eq!(fs::read_to_string(place.home().join("ticket")).expect("a ticket"), ticket);
    place.send(&ticket).0.expect("what was missing");
    assert_eq!(again.end(std::time::Duration::from_secs(60)), Some(true));
}
