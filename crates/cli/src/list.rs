//! `windward list`: the protocol table.

use serde::Serialize;
use windward_core::protocols::{PROTOCOLS, Protocol};
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
