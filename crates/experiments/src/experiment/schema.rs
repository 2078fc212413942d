//! JSON Schemas of experiments and readings, for editors, from the declarations of the readers.

use serde_json::Value;
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::strict_toml::{extend_json_schema, json_schema};

use super::Experiment;
use super::reader::{KEYS, READINGS_FILE};

impl Experiment {
    /// A JSON Schema of scenario and experiment files: that of [`ScenarioFile::json_schema`], with
    /// the keys of `[experiment]`.
    pub fn json_schema() -> Value {
        let mut schema = ScenarioFile::json_schema();
        schema["title"] = "A scenario or experiment of Windward".into();
        extend_json_schema(&mut schema, "experiment", KEYS);
        schema["properties"]["experiment"]["description"] =
            "axes, metrics, charts and claims".into();
        schema
    }

    /// A JSON Schema of the files of readings that experiments share.
    pub fn readings_json_schema() -> Value {
        json_schema("Readings of Windward", READINGS_FILE)
    }
}
