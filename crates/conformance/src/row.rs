//! The flow of a row with settings, as a scenario has it.

use windward_sim::scenario::Traffic;
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::stack::Stacks;
use windward_sim::strict_toml::FileError;

/// A minimal scenario with a single flow. Its reader knows settings and valid combinations.
const SCENARIO: &str = r#"
duration = "1s"
[dumbbell]
bottleneck = { rate = "1Gbit", delay = "1ms", queue = "100p" }
access = { rate = "1Gbit", delay = "1ms", queue = "100p" }
[[flows]]
group = "script"
protocol = "newreno"
"#;

/// The flow of a protocol (a row, one of `stacks`, or a table of parts written as TOML).
///
/// # Errors
/// The setting that is not valid, if it is one alone, and the reason.
pub(super) fn traffic<'a>(
    name: &str,
    stacks: &Stacks,
    protocol: &str,
    settings: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Traffic, (Option<&'a str>, String)> {
    let words = |error: FileError| {
        let help = error.help().map_or_else(String::new, |help| format!("; {help}"));
        format!("{}{help}", error.message())
    };
    let plain = |error| (None, words(error));
    let mut file = ScenarioFile::parse(name, SCENARIO).map_err(plain)?.with_stacks(stacks);
    for (key, value) in settings {
        let set = file.set(&format!("flows.script.{key}"), value);
        set.and_then(|()| file.build().map(drop)).map_err(|error| (Some(key), words(error)))?;
    }
    file.set("flows.script.protocol", protocol).map_err(plain)?;
    let flow = file.build().map_err(plain)?.flows.swap_remove(0);
    Ok(flow.kind.traffic.clone())
}
