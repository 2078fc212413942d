//! The simulator as WebAssembly: what the package `windward` for JavaScript and the playground
//! call.
//!
//! It has no logic of its own. `run` is a run in slices, `chart` samples it for charts, `wire`
//! keeps the packets of one link for a picture of it, and `describe` has what is known before a
//! run. Results and descriptions go out as JSON, series as arrays of numbers. Types and promises
//! are in the TypeScript of the package.
//!
//! Errors go out as the JSON of `error::Wrong`: the words of the program with the line and the
//! column, from which the package makes an `Error`.

mod chart;
mod describe;
mod error;
mod run;
mod wire;

pub use run::Run;

use wasm_bindgen::prelude::wasm_bindgen;
use windward_sim::catalogue;
use windward_sim::scenario::file::ScenarioFile;

/// Panics reach JavaScript with their message.
#[wasm_bindgen(start)]
pub fn start() {
    std::panic::set_hook(Box::new(|panic| wasm_bindgen::throw_str(&panic.to_string())));
}

/// The version of the simulator.
#[wasm_bindgen]
pub fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

/// The protocol table as JSON, as `windward list --json` prints it.
#[wasm_bindgen]
pub fn protocols() -> String {
    json(&catalogue::protocols())
}

/// All parts as JSON, as `windward list --parts --json` prints them.
#[wasm_bindgen]
pub fn parts() -> String {
    json(&catalogue::parts())
}

/// JSON Schema of scenario files.
#[wasm_bindgen]
pub fn schema() -> String {
    json(&ScenarioFile::json_schema())
}

/// JSON of a value whose serialization cannot fail.
fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("texts and numbers can be written")
}
