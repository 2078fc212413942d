//! Both sides killed at any moment. `WINDWARD_KILLS` is the number of moments, 8 by default.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use crate::child::Process;
use crate::place::{Place, noise, tree, write};

#[test]
fn killed_at_any_moment_nothing_is_wrong() {
    let kills = std::env::var("WINDWARD_KILLS").ok().and_then(|text| text.parse().ok());
    let mut left: usize = kills.unwrap_or(8);
    let mut number = 0;
    while left > 0 {
        number += 1;
        transfer(number, &mut left);
    }
}

/// Kills one side and then the other while they transfer, until the transfer is complete.
fn transfer(number: u64, left: &mut usize) {
    let place = Place::new();
    write(&place.from.join("big"), &noise(number, 12 << 20));
    for index in 0..400 {
        write(&place.from.join(format!("many/{index}")), &noise(number + index, 3000));
    }
    let expected = tree(&place.from);
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
    let mut receiver = Process::receiver(&place, &[]);
    let mut sender = Process::sender(&place);
    for (round, moment) in noise(77 + number, 100).into_iter().enumerate() {
        if *left == 0 || receiver.end(Duration::from_millis(u64::from(moment))) == Some(true) {
            break;
        }
        *left -= 1;
        let victim = if round % 2 == 0 { &mut sender } else { &mut receiver };
        victim.kill();
        right();
        if round % 2 == 0 {
            sender = Process::sender(&place);
        } else {
            receiver = Process::receiver(&place, &[]);
        }
    }
    let limit = Duration::from_secs(300);
    let sent = sender.end(limit);
    let mut received = receiver.end(Duration::from_secs(3));
    if received.is_none() {
        // The one before it was killed after it had told the sender that all is there, so that
        // nobody comes to this one.
        let _again = Process::sender(&place);
        received = receiver.end(limit);
    }
    assert_eq!((sent, received), (Some(true), Some(true)));
    assert_eq!(place.tree(), expected);
}
