//! The pages of `docs/protocols`: one per protocol and an index.
//!
//! A page begins with the name and a sentence, which are those of the protocol table. The parts
//! written by hand follow: the idea, the equations, the deviations. It ends with a frame between
//! two marks: the composition, the parameters and the experiments, which this module writes from
//! the protocol table, the keys of the scenario format and the experiments that come with the
//! program.

use std::fmt::Write;

use windward_core::endpoint::EndpointConfig;
use windward_core::endpoint::driver::{Host, support};
use windward_core::network::RouterKind;
use windward_core::part::{Parameters, Setting, Value};
use windward_core::protocols::{PROTOCOLS, Protocol};
use windward_experiments::ExperimentError;
use windward_experiments::builtin::{self, MATRIX};
use windward_experiments::experiment::{Effort, Experiment};
use windward_sim::scenario::Traffic;
use windward_sim::scenario::file::{KeyDoc, ScenarioFile};
use windward_sim::stack::StackConfig;

use crate::explain;

/// Begin of a frame.
pub const BEGIN: &str = "<!-- generated: do not edit -->";
/// End of a frame.
pub const END: &str = "<!-- end -->";
/// Headings of the second level above the frame of a page.
pub const HEART: [&str; 3] = ["Idea", "Equations", "Deviations"];

/// Axes and parts of plain TCP, which a page names without a row of their own.
const PLAIN: [(&str, &str); 3] =
    [("discrimination", "always"), ("feedback", "none"), ("router", "none")];

/// Source of the frames.
#[derive(Debug)]
pub struct Pages {
    keys: Vec<KeyDoc>,
    /// Each experiment with its protocols.
    figures: Vec<(Experiment, Vec<&'static str>)>,
}

impl Pages {
    /// Reads the experiments that come with the program.
    ///
    /// # Errors
    /// None, as long as the tests pass.
    pub fn new() -> Result<Self, ExperimentError> {
        let mut figures = Vec::new();
        for experiment in builtin::all()? {
            // Those over all protocols, as the matrix, say nothing about one of them.
            if !MATRIX.holds(&experiment) {
                let protocols = protocols_of(&experiment)?;
                if protocols.len() * 2 <= PROTOCOLS.len() {
                    figures.push((experiment, protocols));
                }
            }
        }
        Ok(Pages { keys: ScenarioFile::keys(), figures })
    }

    /// A protocol's page without the parts written by hand.
    pub fn page(&self, protocol: &Protocol) -> String {
        format!("{}\n{}", Self::head(protocol), self.frame(protocol))
    }

    /// The first lines of a protocol's page, above the parts written by hand.
    fn head(protocol: &Protocol) -> String {
        let Protocol { name, source, summary, .. } = protocol;
        format!("# {name}\n\n{summary} Source: {source}. [All protocols and sources](README.md)\n")
    }

    /// The frame at the end of a protocol's page, its marks included.
    fn frame(&self, protocol: &Protocol) -> String {
        let mut page = format!(
            "{BEGIN}\n## Composition\n\n\
             | axis | part | what it does | source |\n| --- | --- | --- | --- |\n"
        );
        let mut plain = Vec::new();
        for (axis, part) in explain::parts(protocol) {
            if PLAIN.contains(&(axis, part.name)) {
                plain.push(format!("{axis} `{}`", part.name));
                continue;
            }
            let _ = writeln!(page, "| {axis} | {} | {} | {} |", part.name, part.what, part.source);
        }
        if !plain.is_empty() {
            let _ = writeln!(page, "\nAs in plain TCP: {}.", plain.join(", "));
        }
        self.parameters(&mut page, protocol);
        let figures = self.figures.iter().filter(|(_, all)| all.contains(&protocol.name));
        let figures: String = figures.map(|(e, _)| format!("`{}`, ", e.id)).collect();
        let _ = write!(
            page,
            "\n## Experiments\n\nFor `windward reproduce`: {figures}and all protocols in `field` and `matrix`.\n{END}\n"
        );
        page
    }

    /// The keys of endpoints and of parts, as the guide to scenario files lists them, its marks
    /// included.
    pub fn endpoint_keys(&self) -> String {
        const HEAD: &str = "| key | default | meaning |\n| --- | --- | --- |\n";
        let mut page = format!("{BEGIN}\n{HEAD}");
        let keys: Vec<(&str, &KeyDoc)> = endpoint_keys(&self.keys).collect();
        let is_table = |key: &str| {
            let prefix = format!("{key}.");
            keys.iter().any(|(other, _)| other.starts_with(&prefix))
        };
        for (key, doc) in keys.iter().filter(|(key, _)| !key.contains('.') && !is_table(key)) {
            let _ = writeln!(page, "| `{key}` | {} | {} |", doc.default, cell(&doc.meaning));
        }
        for (table, doc) in keys.iter().filter(|(key, _)| is_table(key)) {
            let _ = write!(page, "\n`{table}`, a table: {}.\n\n{HEAD}", doc.meaning);
            for (key, doc) in &keys {
                if let Some(name) = key.strip_prefix(table).and_then(|k| k.strip_prefix('.')) {
                    let _ =
                        writeln!(page, "| `{name}` | {} | {} |", doc.default, cell(&doc.meaning));
                }
            }
        }
        page.push_str(END);
        page.push('\n');
        page
    }

    /// The parameters of the protocol's parts, and what it needs of links. Those that other
    /// protocols have too are named only: the guide to scenario files describes them.
    fn parameters(&self, page: &mut String, protocol: &Protocol) {
        let settings = protocol.settings();
        let others = || PROTOCOLS.iter().filter(|other| other.name != protocol.name);
        let is_shared = |key| others().any(|other| other.settings().iter().any(|s| names(s, key)));
        let (mut rows, mut shared, mut without) = (String::new(), Vec::new(), Vec::new());
        for (key, doc) in endpoint_keys(&self.keys) {
            let own = settings.iter().find(|setting| names(setting, key));
            if !protocol.applies(key).unwrap_or(true) {
                if EndpointConfig::DEFAULT.settings().iter().any(|common| names(common, key)) {
                    without.push(format!("`{key}`"));
                }
            } else if protocol.own_default(key) == Some(Value::Bool(true)) {
                shared.push(format!("`{key}` (here true)"));
            } else if let Some(default) = own.map(Setting::default_text) {
                if !is_shared(key) {
                    let _ = writeln!(rows, "| `{key}` | {default} | {} |", cell(&doc.meaning));
                } else if default == doc.default {
                    shared.push(format!("`{key}`"));
                } else {
                    shared.push(format!("`{key}` (here {default})"));
                }
            }
        }
        page.push_str("\n## Parameters\n\n");
        if !rows.is_empty() {
            let _ = write!(
                page,
                "Of `[endpoint]`, or of one `[[flows]]` table:\n\n\
                 | key | default | meaning |\n| --- | --- | --- |\n{rows}\n"
            );
        }
        page.push_str("[Scenario files](../scenarios.md#endpoints) describe ");
        if !shared.is_empty() {
            let _ = write!(page, "{} and ", shared.join(", "));
        }
        page.push_str("the parameters of every endpoint.");
        if !without.is_empty() {
            let _ = write!(page, " Keys without effect: {}.", without.join(", "));
        }
        page.push('\n');
        if protocol.feedback.notification().is_some() {
            page.push_str(
                "\nIt needs a notifier at every lossy link on the path of its data, which `notifier = \
                 \"auto\"`, the default, adds.\n",
            );
        }
        let router = protocol.router;
        if router != RouterKind::Any {
            let _ = writeln!(
                page,
                "\nIt needs the router [`{}`](../scenarios.md#aqms-and-routers) at every link on the \
                 path of its data, which `router = \"auto\"`, the default, adds.",
                router.name()
            );
        }
    }

    /// The index: a row per protocol.
    pub fn index(&self) -> String {
        let mut page = format!(
            "{BEGIN}\n# Protocols\n\nEach protocol is a composition of parts. Its page has the idea, \
             the equations, the deviations from the source, the parts and the parameters. The columns \
             QUIC and kernel say how much of it runs in a QUIC stack and in the TCP of a Linux \
             kernel: all of it, all but its recovery, or nothing.\n\n\
             | name | window | recovery | discrimination | feedback | router | QUIC | kernel | source |\n\
             | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
        );
        for protocol in PROTOCOLS {
            let name = protocol.name;
            let [window, recovery, discrimination, feedback, router] =
                explain::parts(protocol).map(|(_, part)| part.name);
            let _ = writeln!(
                page,
                "| [{name}]({name}.md) | {window} | {recovery} | {discrimination} | {feedback} | \
                 {router} | {} | {} | {} |",
                support(protocol, Host::Quic).0.word(),
                support(protocol, Host::Kernel).0.word(),
                protocol.source
            );
        }
        page.push_str(END);
        page.push('\n');
        page
    }
}

/// The end of the index: the full titles of all sources.
pub fn sources() -> String {
    let titles = explain::all_references().map(|(key, title)| format!("- {key}: {title}.\n"));
    format!("{BEGIN}\n## Sources\n\n{}{END}\n", titles.collect::<String>())
}

/// True if `key` of an endpoint is this parameter of a part.
fn names(setting: &Setting, key: &str) -> bool {
    (setting.table, setting.doc.key) == key.split_once('.').unwrap_or(("", key))
}

/// A text as a cell of a Markdown table, with escaped `|`.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The names of the protocols in any cell of an experiment. A composition based on a row, as
/// `estcp+newreno`, counts as that row.
fn protocols_of(experiment: &Experiment) -> Result<Vec<&'static str>, ExperimentError> {
    let mut names = Vec::new();
    for flow in experiment.plan(&Effort::Quick)?.scenarios.iter().flat_map(|s| &s.flows) {
        if let Traffic::Transport { protocol, .. } = &flow.kind.traffic {
            let name = row_of(protocol.name);
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    Ok(names)
}

/// The base row of a composition, by its name: `westwood+` for `westwood++sack`.
fn row_of(name: &'static str) -> &'static str {
    let changes = |row: &str| name.strip_prefix(row).is_some_and(|rest| rest.starts_with('+'));
    let rows = PROTOCOLS.iter().map(|p| p.name).filter(|row| name == *row || changes(row));
    rows.max_by_key(|row| row.len()).unwrap_or(name)
}

/// The keys of `[endpoint]`, without that prefix and without those of stacks, which are not
/// protocols of the table.
fn endpoint_keys(keys: &[KeyDoc]) -> impl Iterator<Item = (&str, &KeyDoc)> {
    let of_stacks = |key: &&str| key.split('.').next() == Some(StackConfig::tables()[0].0);
    let own = move |doc: &'_ KeyDoc| {
        doc.key.strip_prefix("endpoint.").filter(|key| !of_stacks(key)).map(str::len)
    };
    keys.iter().filter_map(move |doc| own(doc).map(|n| (&doc.key[doc.key.len() - n..], doc)))
}

#[cfg(test)]
mod tests;
