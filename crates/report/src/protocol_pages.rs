//! The pages of `docs/protocols`: one per protocol and an index.
//!
//! A page begins with a frame between two marks, which this module writes from the protocol table,
//! the keys of the scenario format and the experiments that come with the program. The rest is
//! written by hand: the idea, the equations, the deviations.

use std::fmt::Write;

use windward_core::endpoint::driver::support;
use windward_core::network::RouterKind;
use windward_core::part::{AnyPart, Parameters, Setting};
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
/// Headings of the second level below the frame of a page.
pub const HEART: [&str; 3] = ["Idea", "Equations", "Deviations"];

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
            // The matrix has every protocol, so that it is not listed.
            if !MATRIX.holds(&experiment) {
                let protocols = protocols_of(&experiment)?;
                figures.push((experiment, protocols));
            }
        }
        Ok(Pages { keys: ScenarioFile::keys(), figures })
    }

    /// The frame of a protocol's page, its marks included.
    pub fn frame(&self, protocol: &Protocol) -> String {
        let Protocol { name, source, summary, .. } = protocol;
        let mut page = format!("{BEGIN}\n# {name}\n\n{summary}\n\nSource: {source}.");
        for (key, title) in explain::references(protocol) {
            let _ = write!(page, "\n{key} is {title}.");
        }
        page.push_str("\n[All protocols](README.md)\n\n");
        page.push_str("| axis | part | what it does | source |\n| --- | --- | --- | --- |\n");
        for (axis, part) in explain::parts(protocol) {
            let _ = writeln!(page, "| {axis} | {} | {} | {} |", part.name, part.what, part.source);
        }
        self.parameters(&mut page, protocol);
        page.push_str("\n## Run it\n\n```sh\n");
        let _ = writeln!(
            page,
            "windward run experiments/examples/first.toml --set 'flows.*.protocol={name}'"
        );
        let mut figures = self.figures.iter().filter(|(_, all)| all.contains(name)).peekable();
        if let Some((experiment, _)) = figures.peek() {
            let _ = writeln!(page, "windward reproduce {}", experiment.id);
        }
        page.push_str("windward reproduce matrix\n```\n\n## Figures\n\n");
        if figures.peek().is_none() {
            page.push_str("It appears only in the matrix of all protocols.\n");
        }
        for (experiment, _) in figures {
            let figure = experiment.caption.figure.as_ref().map(|f| format!("{f}. "));
            let _ = writeln!(
                page,
                "- `{}`: {}{}",
                experiment.id,
                figure.unwrap_or_default(),
                experiment.caption.title
            );
        }
        page.push_str(END);
        page.push('\n');
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

    fn parameters(&self, page: &mut String, protocol: &Protocol) {
        page.push_str(
            "\n## Parameters\n\nOf `[endpoint]`, or of one `[[flows]]` table:\n\n\
             | key | default | meaning |\n| --- | --- | --- |\n",
        );
        let settings = protocol.settings();
        for (key, doc) in endpoint_keys(&self.keys) {
            if !protocol.applies(key).unwrap_or(true) {
                continue;
            }
            // The value of a part's parameter in this protocol.
            let (table, name) = key.split_once('.').unwrap_or(("", key));
            let own = settings.iter().find(|s| s.table == table && s.doc.key == name);
            let default = match protocol.own_default(key) {
                Some(value) => value.to_string(),
                None => own.map_or_else(|| doc.default.clone(), Setting::default_text),
            };
            let _ = writeln!(page, "| `{key}` | {default} | {} |", cell(&doc.meaning));
        }
        if protocol.feedback.notification().is_some() {
            page.push_str(
                "\nIt needs a notifier at every lossy link on the path of its data, which `notifier = \
                 \"auto\"`, the default, adds.\n",
            );
        }
        let router = protocol.router;
        if router == RouterKind::Any {
            page.push_str("\nIt has no requirement for routers: any queue works.\n");
            return;
        }
        let name = router.name();
        let _ = writeln!(
            page,
            "\nIt needs the router `{name}` at every link on the path of its data, which `router = \
             \"auto\"`, the default, adds."
        );
        let settings = router.spec().settings();
        if settings.is_empty() {
            page.push_str("That router has no parameters.\n");
            return;
        }
        let _ = writeln!(
            page,
            "Parameters of `router = {{ kind = \"{name}\", .. }}` of a link:\n\n\
             | key | default | meaning |\n| --- | --- | --- |"
        );
        for setting in settings.iter().filter(|setting| setting.applies) {
            let (key, default) = (setting.doc.key, setting.default_text());
            let _ = writeln!(page, "| `{key}` | {default} | {} |", cell(&setting.description()));
        }
    }

    /// The index: a row per protocol.
    pub fn index(&self) -> String {
        let mut page = format!(
            "{BEGIN}\n# Protocols\n\nEach protocol is a composition of parts. Its page has the parts, \
             the parameters, the idea, the equations and the deviations from the source. The column \
             QUIC says how much of it runs in a QUIC stack: all of it, all but its recovery, or \
             nothing.\n\n\
             | name | window | recovery | discrimination | feedback | router | QUIC | source |\n\
             | --- | --- | --- | --- | --- | --- | --- | --- |\n"
        );
        for protocol in PROTOCOLS {
            let name = protocol.name;
            let [window, recovery, discrimination, feedback, router] =
                explain::parts(protocol).map(|(_, part)| part.name);
            let _ = writeln!(
                page,
                "| [{name}]({name}.md) | {window} | {recovery} | {discrimination} | {feedback} | \
                 {router} | {} | {} |",
                support(protocol).0.word(),
                protocol.source
            );
        }
        page.push_str(END);
        page.push('\n');
        page
    }
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
    let of_stacks = |key: &&str| key.split('.').next() == Some(StackConfig::TABLES[0].0);
    let own = move |doc: &'_ KeyDoc| {
        doc.key.strip_prefix("endpoint.").filter(|key| !of_stacks(key)).map(str::len)
    };
    keys.iter().filter_map(move |doc| own(doc).map(|n| (&doc.key[doc.key.len() - n..], doc)))
}

#[cfg(test)]
mod tests;
