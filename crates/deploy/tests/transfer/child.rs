//! Sides of a transfer as processes of their own, which may be killed and measured.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use windward_deploy::transfer::send::SendOptions;

use crate::place::Place;

/// Not a test by itself: the body of a child, which sends or receives.
#[test]
fn as_a_child() {
    let Some(home) = std::env::var_os("WINDWARD_TEST_CHILD").map(PathBuf::from) else { return };
    let at = |name: &str| home.join(name);
    let (from, to, near, far) = (at("from"), at("to"), at("near"), at("far"));
    let place = Place { _home: None, from, to, near, far };
    if std::env::var_os("WINDWARD_TEST_RECEIVES").is_some() {
        let receiver = place.receiver();
        // Whole or not there.
        fs::write(at("ticket.new"), &receiver.ticket).expect("written");
        fs::rename(at("ticket.new"), at("ticket")).expect("renamed");
        receiver.end().0.expect("received");
        return;
    }
    // The receiver may be starting again.
    let ticket = loop {
        match fs::read_to_string(at("ticket")) {
            Ok(ticket) => break ticket,
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let patience = Duration::from_secs(60);
    let options = SendOptions { limit: Some(20e6), patience, ..place.send_options() };
    place.send_by(&ticket, &options).0.expect("sent");
}

/// A process that is killed in the end.
pub(crate) struct Process(Child);

impl Process {
    /// This program with the test above, behind a command that starts it.
    fn start(place: &Place, before: &[&OsStr], receives: bool) -> Process {
        let own = std::env::current_exe().expect("own path");
        let mut words = before.iter().copied().chain([own.as_os_str()]);
        let mut command = Command::new(words.next().expect("a program"));
        command.args(words).args(["--exact", "child::as_a_child"]);
        command.env("WINDWARD_TEST_CHILD", place.home());
        if receives {
            command.env("WINDWARD_TEST_RECEIVES", "1");
        }
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Process(command.spawn().expect("started"))
    }

    pub(crate) fn sender(place: &Place) -> Process {
        Process::start(place, &[], false)
    }

    /// Starts a receiver, behind a command that starts it.
    pub(crate) fn receiving(place: &Place, before: &[&OsStr]) -> Process {
        Process::start(place, before, true)
    }

    /// Starts a receiver, and waits for its ticket.
    pub(crate) fn receiver(place: &Place, before: &[&OsStr]) -> Process {
        let ticket = place.home().join("ticket");
        let _ = fs::remove_file(&ticket);
        let mut child = Process::receiving(place, before);
        while !ticket.exists() {
            assert!(child.end(Duration::from_millis(5)).is_none(), "it ended without a ticket");
        }
        child
    }

    /// True if it succeeded, false if it failed; `None` if it still runs after so long.
    pub(crate) fn end(&mut self, most: Duration) -> Option<bool> {
        for _ in 0..=most.as_millis() / 20 {
            if let Some(status) = self.0.try_wait().expect("a child") {
                return Some(status.success());
            }
            std::thread::sleep(most.min(Duration::from_millis(20)));
        }
        None
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        let _ = self.0.kill();
        self.0.wait().expect("ended");
    }

    /// Largest resident memory so far, bytes.
    pub(crate) fn peak(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
        let kilobytes = line.trim().trim_end_matches("kB").trim();
        kilobytes.parse::<u64>().expect("a number") << 10
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
