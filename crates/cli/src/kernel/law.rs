//! `windward kernel` with a law: the kernel computes the window, and nothing runs beside it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use windward_core::endpoint::window::ControllerConfig;
use windward_core::part::{AnyPart, Custom};
use windward_core::protocols::{Protocol, plain};
use windward_kernel::{Law, LawController, LawCounters};

use super::loaded::{Held, PINS, STATE, TELLING, taken_out};
use super::{RunArgs, Which, failed, in_group};
use crate::clock::Stopwatch;
use crate::explain::composition;
use crate::failure::Failure;
use crate::{output, signals};

/// Time between two looks at the flag of a signal.
const LOOKING: Duration = Duration::from_millis(50);

/// Name of the pin of the program that selects connections, beside those of the controller.
const SELECTION: &str = "selection";

/// True if a text is a law and not the name of a row.
pub(super) fn is_law(text: &str) -> bool {
    text.contains('=')
}

/// The protocol of a law: a composition as elsewhere, or the keys of its `window` alone.
pub(super) fn protocol(text: &str) -> Result<Protocol, Failure> {
    match text.contains('{') {
        true => composition(text),
        // The kernel measures delivery rates.
        false => composition(&format!("{{ window = {{ {text} }}, recovery = \"packet-number\" }}")),
    }
}

/// The law that a text defines.
fn law(text: &str) -> Result<Law, Failure> {
    let protocol = protocol(text)?;
    let wrong = |why: String| Failure::Input(format!("`{text}` is not a law of the kernel: {why}"));
    if protocol.discrimination != plain().discrimination {
        let part = protocol.discrimination.words().name;
        return Err(wrong(format!("there is no discriminator `{part}`; take it with --daemon")));
    }
    if protocol.feedback != plain().feedback {
        let part = protocol.feedback.words().name;
        return Err(wrong(format!("packets carry no feedback `{part}`")));
    }
    let expressions = match protocol.window {
        ControllerConfig::Custom(Custom(maker)) => maker.as_expressions(),
        _ => None,
    };
    let expressions = expressions.ok_or_else(|| {
        let part = protocol.window.words().name;
        wrong(format!("its window is `{part}`, not expressions; take it with --daemon"))
    })?;
    Law::compile(expressions).map_err(|why| Failure::Input(why.to_string()))
}

/// The program of a law in the kernel, which is taken out when this is dropped.
struct Loaded {
    controller: LawController,
    held: Held,
}

impl Loaded {
    /// Loads the program with a law. If one is there that a process which was killed has left, its
    /// connections get the new law.
    fn new(text: &str, law: &Law, for_everybody: bool) -> Result<Self, Failure> {
        let held = Held::take(text, LawController::NAME)?;
        let pins = Path::new(PINS);
        let controller = match LawController::is_loaded(pins) {
            true => LawController::adopt(pins).and_then(|controller| {
                controller.replace(law)?;
                Ok(controller)
            }),
            false => LawController::load(pins, law, for_everybody),
        };
        let controller = controller.map_err(failed)?;
        // Of the connections that the killed process had selected, new ones are not ours.
        let _ = fs::remove_file(pins.join(SELECTION));
        Ok(Loaded { controller, held })
    }

    /// Where the selection of connections is pinned, which goes on after this process was killed.
    fn pin(&self) -> PathBuf {
        self.controller.pins().join(SELECTION)
    }

    fn tell(&self) {
        // A state that cannot be written is not shown.
        let _ = self.held.tell(None);
    }
}

/// Runs a program whose connections have the law.
pub(super) fn run(args: &RunArgs) -> Result<(), Failure> {
    let law = law(&args.row)?;
    let loaded = Loaded::new(&args.row, &law, false)?;
    loaded.tell();
    // Ctrl-C ends the program, and then this command goes on.
    let _ = signals::flag();
    in_group(&args.command, LawController::NAME, Some(&loaded.pin()), |mut child| {
        let status = child.wait().map_err(failed);
        note_invalid(&loaded, &mut [false; 2]);
        status
    })
}

/// Gives a law to connections until a signal.
pub(super) fn load(text: &str, which: &Which, quiet: bool) -> Result<(), Failure> {
    let law = law(text)?;
    let mut loaded = Loaded::new(text, &law, which.is_for_all())?;
    let pin = loaded.pin();
    let _kept = loaded.held.apply(which, Some(&pin), quiet)?;
    loaded.tell();
    if !quiet {
        output::note("new connections have the law; Ctrl-C takes it away");
    }
    let stop = signals::flag();
    let mut told = [false; 2];
    let mut since = Stopwatch::start();
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(LOOKING);
        if since.elapsed() < TELLING {
            continue;
        }
        since = Stopwatch::start();
        if !LawController::is_loaded(loaded.controller.pins()) {
            return Err(taken_out());
        }
        note_invalid(&loaded, &mut told);
    }
    Ok(())
}

/// Says once for each expression that it gave no window.
fn note_invalid(loaded: &Loaded, told: &mut [bool; 2]) {
    let Ok(counters) = loaded.controller.counters() else { return };
    for (which, key) in ["on_ack", "on_loss"].into_iter().enumerate() {
        if counters.invalid[which] > 0 && !std::mem::replace(&mut told[which], true) {
            let window = counters.latest[which];
            output::note(&format!("{key} gave a window of {window} packets; the window was kept"));
        }
    }
}

/// The answer of `windward kernel status` for a law.
pub(super) struct Status {
    counters: LawCounters,
    state: Value,
}

/// The law in the kernel, if there is one.
pub(super) fn status(pins: &Path) -> Result<Option<Status>, Failure> {
    if !LawController::is_loaded(pins) {
        return Ok(None);
    }
    let counters = LawController::adopt(pins).and_then(|law| law.counters()).map_err(failed)?;
    let state = fs::read_to_string(STATE).unwrap_or_default();
    Ok(Some(Status { counters, state: serde_json::from_str(&state).unwrap_or_default() }))
}

impl Status {
    pub(super) fn print(&self, as_json: bool) -> Result<(), Failure> {
        let counters = json!({
            "connections": self.counters.connections,
            "acks": self.counters.acks,
            "losses": self.counters.losses,
            "invalid_on_ack": self.counters.invalid[0],
            "invalid_on_loss": self.counters.invalid[1],
        });
        if as_json {
            return output::print_json(&json!({
                "loaded": true,
                "law": self.state["row"],
                "counters": counters,
                "daemon": null,
            }));
        }
        let mut text =
            format!("{:<15} {}\n", "law", self.state["row"].as_str().unwrap_or("unknown"));
        for (name, value) in counters.as_object().into_iter().flatten() {
            text += &format!("{name:<15} {value}\n");
        }
        output::print(&text)
    }
}
