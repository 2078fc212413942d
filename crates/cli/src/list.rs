//! `windward list`: the protocol table.

use windward_report::catalogue::{self, ProtocolRow};

use crate::failure::Failure;
use crate::output::{self, TextTable};

/// List the protocols, each a composition of parts on four axes
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one JSON array of objects
    #[arg(long)]
    json: bool,

    /// Print the table of docs/protocols/README.md in Markdown
    #[arg(long)]
    markdown: bool,

    /// List the QUIC stacks that a flow can name as its protocol
    #[arg(long)]
    stacks: bool,

    /// List the parts of protocols and queues, axis by axis, with their parameters
    #[arg(long)]
    parts: bool,
}

fn list_parts(json: bool) -> Result<(), Failure> {
    let rows = catalogue::parts();
    if json {
        return output::print_json(&rows);
    }
    let width = output::width();
    let mut table = TextTable::new(["axis", "part", "what it does", "source", "parameters"]);
    for row in &rows {
        let keys: Vec<&str> = row.parameters.iter().map(|p| p.key.as_str()).collect();
        let keys = keys.join(", ");
        table.row([row.axis, row.name, row.what, row.source, &keys].map(str::to_owned));
    }
    let how = "Compose them in a scenario file: protocol = { window = \"cubic\", recovery = \
               \"packet-number\" }; omitted parts are those of `base`, or of sack. `aqm` and `router` are \
             keys of links.";
    let how = output::paragraph(how, width);
    output::print(&format!("{}\n{how}\n", table.text_within(width)))
}

/// The stacks as a table; `None` without any.
fn stacks() -> Option<TextTable> {
    let mut table = TextTable::new(["name", "what it is", "code that runs"]);
    let stacks = crate::stacks();
    for stack in stacks.iter() {
        let facts = stack.facts();
        table.row([facts.name, facts.summary, facts.source].map(str::to_owned));
    }
    stacks.iter().next().map(|_| table)
}

fn list_stacks(json: bool) -> Result<(), Failure> {
    if json {
        return output::print_json(&catalogue::stacks(&crate::stacks()));
    }
    match stacks() {
        Some(table) => output::print(&table.text_within(output::width())),
        None => output::print("no stacks: this program was built without its feature `stacks`\n"),
    }
}

pub(crate) fn list(args: &Args) -> Result<(), Failure> {
    if args.stacks {
        return list_stacks(args.json);
    }
    if args.parts {
        return list_parts(args.json);
    }
    let rows = catalogue::protocols();
    if args.json {
        return output::print_json(&rows);
    }
    let mut table = TextTable::new([
        "name",
        "window",
        "recovery",
        "discrimination",
        "feedback",
        "router",
        "QUIC",
        "kernel",
        "source",
    ]);
    for row in &rows {
        // In Markdown, names are code.
        let name = if args.markdown { format!("`{}`", row.name) } else { row.name.to_owned() };
        let &ProtocolRow {
            window,
            recovery,
            discrimination,
            feedback,
            router,
            quic,
            kernel,
            source,
            ..
        } = row;
        let cells = [window, recovery, discrimination, feedback, router, quic, kernel, source];
        table.row(std::iter::once(name).chain(cells.map(str::to_owned)));
    }
    if args.markdown {
        return output::print(&table.markdown());
    }
    let width = output::width();
    let stacks = stacks().map(|stacks| {
        format!(
            "\nQUIC stacks, with their own code in virtual time:\n\n{}",
            stacks.text_within(width)
        )
    });
    output::print(&format!(
        "{}{}\n`windward explain NAME` describes the parts of a protocol.\n",
        table.text_within(width),
        stacks.unwrap_or_default()
    ))
}
