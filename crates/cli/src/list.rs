//! `windward list`: the protocol table.

use serde::Serialize;
use windward_core::network::{AqmSpec, RouterSpec};
use windward_core::part::Setting;
use windward_core::protocols::{self, PROTOCOLS, Protocol};
use windward_lab::explain;

use crate::failure::Failure;
use crate::output::{self, Table};

/// The protocols, each a composition of parts on four axes
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// One array of objects
    #[arg(long, conflicts_with = "markdown")]
    json: bool,

    /// The table as the README has it
    #[arg(long)]
    markdown: bool,

    /// The parts that protocols and queues are composed of, axis by axis, with their parameters
    #[arg(long, conflicts_with = "markdown")]
    parts: bool,
}

#[derive(Serialize)]
struct PartRow {
    axis: &'static str,
    name: &'static str,
    what: &'static str,
    source: &'static str,
    parameters: Vec<ParameterRow>,
}

#[derive(Serialize)]
struct ParameterRow {
    key: String,
    default: String,
    unit: &'static str,
    range: String,
    meaning: &'static str,
}

/// Every part of every axis, in the order of the documentation.
fn part_rows() -> Vec<PartRow> {
    let mut rows = Vec::new();
    let aqms = AqmSpec::forms().into_iter();
    let aqms = aqms.map(|(words, aqm)| ("aqm", words, aqm.settings()));
    let routers = RouterSpec::forms().into_iter();
    let routers = routers.map(|(words, router)| ("router", words, router.settings()));
    for (axis, words, settings) in protocols::parts().into_iter().chain(aqms).chain(routers) {
        let parameter = |s: &Setting| ParameterRow {
            key: if s.table.is_empty() {
                s.doc.key.to_owned()
            } else {
                format!("{}.{}", s.table, s.doc.key)
            },
            default: s.default_text(),
            unit: s.doc.unit,
            range: s.doc.kind.to_string(),
            meaning: s.doc.meaning,
        };
        let parameters = settings.iter().filter(|s| s.applies).map(parameter).collect();
        rows.push(PartRow {
            axis,
            name: words.name,
            what: words.what,
            source: words.source,
            parameters,
        });
    }
    rows
}

fn list_parts(json: bool) -> Result<(), Failure> {
    let rows = part_rows();
    if json {
        return output::print_json(&rows);
    }
    let mut table = Table::new(["axis", "part", "parameters", "what it does", "source"]);
    for row in &rows {
        let keys: Vec<&str> = row.parameters.iter().map(|p| p.key.as_str()).collect();
        let keys = keys.join(", ");
        table.row([row.axis, row.name, &keys, row.what, row.source].map(str::to_owned));
    }
    output::print(&format!(
        "{}\nCompose them in a scenario file: protocol = {{ window = \"cubic\", recovery = \
         \"packet-number\" }}; what is left out is that of `base`, or of sack. `aqm` and `router` are \
         keys of links.\n",
        table.text()
    ))
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    summary: &'static str,
    source: &'static str,
    window: &'static str,
    recovery: &'static str,
    discrimination: &'static str,
    feedback: &'static str,
    router: &'static str,
}

impl Row {
    fn new(protocol: &Protocol) -> Self {
        let [window, recovery, discrimination, feedback, router] =
            explain::parts(protocol).map(|(_, part)| part.name);
        Row {
            name: protocol.name,
            summary: protocol.summary,
            source: protocol.source,
            window,
            recovery,
            discrimination,
            feedback,
            router,
        }
    }
}

pub(crate) fn list(args: &Args) -> Result<(), Failure> {
    if args.parts {
        return list_parts(args.json);
    }
    let rows: Vec<Row> = PROTOCOLS.iter().map(Row::new).collect();
    if args.json {
        return output::print_json(&rows);
    }
    let mut table = Table::new([
        "name",
        "window",
        "recovery",
        "discrimination",
        "feedback",
        "router",
        "source",
    ]);
    for row in &rows {
        // In a document names are code.
        let name = if args.markdown { format!("`{}`", row.name) } else { row.name.to_owned() };
        let parts =
            [row.window, row.recovery, row.discrimination, row.feedback, row.router, row.source];
        table.row(std::iter::once(name).chain(parts.map(str::to_owned)));
    }
    if args.markdown {
        return output::print(&table.markdown());
    }
    output::print(&format!(
        "{}\n`windward explain NAME` says what the parts of one do.\n",
        table.text()
    ))
}
