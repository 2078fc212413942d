//! The program in the kernel while a command has it, and what is undone at the end.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::{Deserialize, Serialize};
use windward_kernel::{
    CONTROLLER, Daemon, Existing, Groups, LawController, Object, Row, Selection, Settings,
};

use super::show::{self, Show};
use super::{Which, failed};
use crate::clock::Stopwatch;
use crate::failure::Failure;
use crate::output;

/// Where the program is pinned in the file system of BPF.
pub(super) const PINS: &str = "/sys/fs/bpf/windward";

/// The state of the daemon, as JSON. The daemon holds a lock on it.
pub(super) const STATE: &str = "/run/windward-kernel.json";

/// The controller of new connections of a network namespace.
const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// Time between two writings of the state.
pub(super) const TELLING: Duration = Duration::from_secs(1);

/// A change outside of this program, which is undone at the end.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Undo {
    /// The default controller of a network namespace, that of the program if it has no path.
    Default { namespace: Option<PathBuf>, before: String },
    /// A route, by the arguments of `ip` that give it back.
    Route { arguments: Vec<String> },
    /// The file system of BPF, which was not mounted.
    Mount,
}

impl Undo {
    fn undo(&self) {
        let undone = match self {
            Undo::Default { namespace, before } => in_namespace(namespace.as_deref(), || {
                fs::write(DEFAULT, before).map_err(|why| format!("{DEFAULT}: {why}"))
            }),
            Undo::Route { arguments } => ip(arguments).map(drop),
            // The last step, after the pins are gone.
            Undo::Mount => Ok(()),
        };
        if let Err(why) = undone {
            output::note(&format!("warning: {} is not as before: {why}", self.subject()));
        }
    }

    fn subject(&self) -> String {
        match self {
            Undo::Default { namespace: None, before } => {
                format!("the default controller, `{before}`,")
            }
            Undo::Default { namespace: Some(path), before } => {
                format!("the default controller of {}, `{before}`,", path.display())
            }
            Undo::Route { arguments } => format!("a route (`ip {}`)", arguments.join(" ")),
            Undo::Mount => "/sys/fs/bpf".to_owned(),
        }
    }
}

/// Calls this in a network namespace, or here.
pub(super) fn in_namespace<T: Send>(
    path: Option<&Path>,
    call: impl FnOnce() -> Result<T, String> + Send,
) -> Result<T, String> {
    let Some(path) = path else { return call() };
    let wrong = |why: std::io::Error| format!("network namespace {}: {why}", path.display());
    let namespace = File::open(path).map_err(wrong)?;
    thread::scope(|scope| {
        let inside = scope.spawn(|| {
            use std::os::fd::AsFd;
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|why| wrong(why.into()))?;
            call()
        });
        inside.join().unwrap_or_else(|_| Err("a thread ended".to_owned()))
    })
}

/// Calls `ip` and returns what it says.
fn ip(arguments: &[String]) -> Result<String, String> {
    let output = Command::new("ip").args(arguments).output();
    let output = output.map_err(|why| format!("cannot run ip (package iproute2): {why}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("ip {}: {}", arguments.join(" "), why.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The right to change the controllers of this kernel. Changes are undone when it is dropped. No
/// other process has it while this one holds the lock.
pub(super) struct Held {
    state: File,
    /// The row or law.
    name: String,
    /// Its controller in the kernel.
    controller: &'static str,
    undo: Vec<Undo>,
}

impl Held {
    /// Takes it for this row or law, with this controller in the kernel.
    pub(super) fn take(name: &str, controller: &'static str) -> Result<Self, Failure> {
        windward_kernel::check_rights(true).map_err(failed)?;
        let file = |why: std::io::Error| failed(format!("{STATE}: {why}"));
        let state = File::options().write(true).read(true).create(true).truncate(false).open(STATE);
        let state = state.map_err(file)?;
        if state.try_lock().is_err() {
            return Err(Failure::Failed(
                "another `windward kernel` drives connections; end it first".to_owned(),
            ));
        }
        let undo = remembered(&state);
        let mut held = Held { state, name: name.to_owned(), controller, undo };
        if windward_kernel::mount_bpf().map_err(failed)? {
            held.undo.push(Undo::Mount);
        }
        // A process that was killed may have left the other program, or pins without one.
        let pins = Path::new(PINS);
        let is_law = controller == LawController::NAME;
        let fits = Object::is_loaded(pins) && LawController::is_loaded(pins) == is_law;
        if pins.exists() && !fits {
            Object::unload(pins).map_err(failed)?;
        }
        Ok(held)
    }

    /// Gives the controller to these connections, while the result lives, or with a pin also after
    /// this process was killed.
    pub(super) fn apply(
        &mut self,
        which: &Which,
        pin: Option<&Path>,
        quiet: bool,
    ) -> Result<Option<(Groups, Selection)>, Failure> {
        let namespace = which.namespace();
        if which.is_for_all() {
            self.set_default(namespace.as_deref())?;
        }
        if let Some(prefix) = &which.route {
            self.set_route(prefix)?;
        }
        if which.existing {
            let existing =
                Existing { controller: None, port: which.port, group: which.cgroup.as_deref() };
            let give = || existing.give(self.controller).map_err(|why| why.to_string());
            let changed = in_namespace(namespace.as_deref(), give).map_err(failed)?;
            if !quiet {
                output::note(&format!("{changed} connections and listening sockets changed"));
            }
        }
        if which.cgroup.is_none() && which.port.is_none() {
            return Ok(None);
        }
        let all = Groups::open().map_err(failed)?;
        let group = which.cgroup.as_deref().unwrap_or(all.path());
        let mut selection = Selection::of(self.controller, group, which.port).map_err(failed)?;
        if let Some(pin) = pin {
            selection.pin(pin).map_err(failed)?;
        }
        Ok(Some((all, selection)))
    }

    /// Remembers what is to be undone, also by another process if this one is killed.
    fn remember(&mut self, undo: Undo) -> Result<(), Failure> {
        self.undo.push(undo);
        self.tell(None).map_err(|why| failed(format!("{STATE}: {why}")))
    }

    /// Writes the state for `windward kernel status` and `unload`.
    pub(super) fn tell(&self, daemon: Option<&Daemon<'_>>) -> std::io::Result<()> {
        let state = show::state(&self.name, &self.undo, daemon);
        self.state.set_len(0)?;
        self.state.write_all_at(state.to_string().as_bytes(), 0)
    }

    /// Makes the controller the default of a network namespace.
    fn set_default(&mut self, namespace: Option<&Path>) -> Result<(), Failure> {
        let file = |why: std::io::Error| format!("{DEFAULT}: {why}");
        let before = in_namespace(namespace, || fs::read_to_string(DEFAULT).map_err(file));
        let before = before.map_err(failed)?.trim().to_owned();
        // A daemon that was killed has left it so.
        if before != self.controller {
            self.remember(Undo::Default { namespace: namespace.map(Path::to_owned), before })?;
        }
        in_namespace(namespace, || fs::write(DEFAULT, self.controller).map_err(file))
            .map_err(failed)
    }

    /// Makes the controller that of new connections over the route to this prefix. A prefix without
    /// a route of its own gets one, over the way that its packets take now.
    fn set_route(&mut self, prefix: &str) -> Result<(), Failure> {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let family = if prefix.contains(':') { "-6" } else { "-4" };
        let call = |words: &[&str]| {
            let all = [&[family, "route"], words].concat();
            ip(&all.into_iter().map(str::to_owned).collect::<Vec<_>>()).map_err(failed)
        };
        let found = call(&["show", "exact", prefix])?;
        let (route, undo) = match found.lines().next() {
            Some(line) => {
                let route = lasting(&words(line));
                (route.clone(), [words(&format!("{family} route replace")), route].concat())
            }
            None => {
                let address = prefix.split('/').next().unwrap_or(prefix);
                let by = call(&["get", address])?;
                let by = words(by.lines().next().unwrap_or_default());
                let value = |key: &str| {
                    let at = by.iter().position(|word| word == key)?;
                    Some([key.to_owned(), by.get(at + 1)?.clone()])
                };
                let way = ["via", "dev"].into_iter().filter_map(value).flatten();
                let route = std::iter::once(prefix.to_owned()).chain(way).collect();
                (route, words(&format!("{family} route del {prefix}")))
            }
        };
        let own = route.windows(2).any(|pair| pair == ["congctl", self.controller]);
        if !own {
            self.remember(Undo::Route { arguments: undo })?;
        }
        let new = [words(&format!("{family} route replace")), without(route, "congctl")].concat();
        ip(&[new, words(&format!("congctl {}", self.controller))].concat())
            .map(drop)
            .map_err(failed)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        take_out(&self.undo);
        let _ = fs::remove_file(STATE);
    }
}

/// The program of a daemon in the kernel, which is taken out when this is dropped.
pub(crate) struct Loaded {
    object: Object,
    held: Held,
}

impl Loaded {
    /// Loads the program for the row of that name, or takes over the one that a daemon which was
    /// killed has left, with its connections. `for_everybody` is true if any user and any network
    /// namespace may choose it.
    pub(crate) fn new(name: &str, for_everybody: bool) -> Result<Self, Failure> {
        let held = Held::take(name, CONTROLLER)?;
        let pins = Path::new(PINS);
        let settings = Settings { for_everybody, ..Settings::default() };
        let object = match Object::is_loaded(pins) {
            true => Object::adopt(pins),
            false => Object::load(pins, &settings),
        };
        Ok(Loaded { object: object.map_err(failed)?, held })
    }

    /// The changes that are undone at the end.
    pub(super) fn held(&mut self) -> &mut Held {
        &mut self.held
    }

    /// Drives connections until the flag is set, or the program was taken out.
    pub(super) fn drive(
        &mut self,
        row: Row,
        stop: &AtomicBool,
        mut show: Show,
    ) -> Result<(), Failure> {
        let mut gone = false;
        let mut told = Stopwatch::start();
        let Loaded { object, held } = self;
        Daemon::new(object, row)
            .run(stop, |daemon| {
                show.look(object, daemon);
                if told.elapsed() < TELLING {
                    return;
                }
                told = Stopwatch::start();
                gone = !Object::is_loaded(object.pins());
                if gone {
                    stop.store(true, Ordering::Relaxed);
                }
                // A state that cannot be written is not shown.
                let _ = held.tell(Some(daemon));
            })
            .map_err(failed)?;
        match gone {
            true => Err(taken_out()),
            false => Ok(()),
        }
    }
}

/// Another process took the program out.
pub(super) fn taken_out() -> Failure {
    Failure::Failed("the controller was taken out by another process".to_owned())
}

/// A route as `ip` shows it, as `ip` takes it.
fn lasting(route: &[String]) -> Vec<String> {
    let states = ["linkdown", "dead", "offload", "trap", "rt_offload", "rt_trap"];
    let route = route.iter().filter(|word| !states.contains(&word.as_str()));
    without(route.cloned().collect(), "expires")
}

/// A route without this key and its value.
fn without(mut route: Vec<String>, key: &str) -> Vec<String> {
    if let Some(at) = route.iter().position(|word| word == key) {
        route.drain(at..route.len().min(at + 2));
    }
    route
}

/// Changes that a daemon which was killed has left, by the state.
pub(super) fn remembered(mut state: &File) -> Vec<Undo> {
    let mut text = String::new();
    let read = state.read_to_string(&mut text);
    let state: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let undo = read.ok().and_then(|_| serde_json::from_value(state["undo"].clone()).ok());
    undo.unwrap_or_default()
}

/// Undoes changes, and takes the program out.
pub(super) fn take_out(undo: &[Undo]) {
    undo.iter().rev().for_each(Undo::undo);
    if Object::is_loaded(Path::new(PINS)) {
        unload(undo);
    }
    if undo.iter().any(|undo| matches!(undo, Undo::Mount)) {
        windward_kernel::unmount_bpf();
    }
}

/// Gives connections the default controller, and takes the program out.
fn unload(undo: &[Undo]) {
    let others = undo.iter().filter_map(|undo| match undo {
        Undo::Default { namespace, .. } => namespace.as_deref(),
        Undo::Route { .. } | Undo::Mount => None,
    });
    for namespace in [None].into_iter().chain(others.map(Some)) {
        // Where it cannot be done, connections keep NewReno until they end.
        let _ = in_namespace(namespace, || {
            let default = fs::read_to_string(DEFAULT).map_err(|why| why.to_string())?;
            for ours in [CONTROLLER, LawController::NAME] {
                let ours = Existing { controller: Some(ours), ..Existing::default() };
                ours.give(default.trim()).map_err(|why| why.to_string())?;
            }
            Ok(())
        });
    }
    if let Err(why) = Object::unload(Path::new(PINS)) {
        output::note(&why.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_given_back_as_it_was() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let shown = words("192.0.2.0/24 via 198.51.100.1 dev eth0 expires 590sec linkdown");
        assert_eq!(lasting(&shown), words("192.0.2.0/24 via 198.51.100.1 dev eth0"));
        let set = words("default via 198.51.100.1 dev eth0 congctl bbr metric 100");
        let bare = words("default via 198.51.100.1 dev eth0 metric 100");
        assert_eq!(without(set, "congctl"), bare);
        assert_eq!(
            without(words("default dev eth0 congctl"), "congctl"),
            words("default dev eth0")
        );
    }

    #[test]
    fn what_is_to_be_undone_survives_in_the_state() {
        let undo = [
            Undo::Default { namespace: Some("/run/netns/a".into()), before: "bbr".to_owned() },
            Undo::Route { arguments: vec!["route".to_owned(), "del".to_owned()] },
        ];
        let file = tempfile::tempfile().unwrap();
        let state = serde_json::json!({ "undo": undo }).to_string();
        file.write_all_at(state.as_bytes(), 0).unwrap();
        assert_eq!(format!("{:?}", remembered(&file)), format!("{undo:?}"));
        // Another version's state, or none.
        file.set_len(9).unwrap();
        assert!(remembered(&file).is_empty());
    }
}
