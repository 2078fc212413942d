//! `windward explain`: the parts of a protocol, each with its source.

use windward_core::endpoint::driver::{Host, Support, support};
use windward_core::protocols::{self, PROTOCOLS, Protocol};
use windward_report::explain;
use windward_report::protocol_pages::Pages;
use windward_sim::scenario::Traffic;
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::stack::{Facts, Stack};
use windward_sim::suggest::near;

use crate::failure::Failure;
use crate::output::{self, TextTable};

/// Explain the parts of a protocol, each with its source
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A protocol of `windward list`, or a composition as scenario files have it
    #[arg(value_name = "NAME|{ window = .. }")]
    name: String,

    /// Print the parts, the parameters and the experiments of the protocol in Markdown, as on its
    /// page in docs/protocols
    #[arg(long)]
    markdown: bool,
}

/// Describes a stack: the code that runs as deployed, and the parts that are modelled.
fn explain_stack(stack: &dyn Stack) -> Result<(), Failure> {
    let Facts { name, summary, source, notes, packet_sizes, unrepeatable } = stack.facts();
    let mut text = format!("{name} ({source})\n{summary}\n");
    let may_differ = unrepeatable.map(|why| format!("Runs with one seed may differ: {why}"));
    let sizes =
        format!("Packets of {} to {} bytes on the wire.", packet_sizes.start(), packet_sizes.end());
    for note in notes.iter().copied().chain(may_differ.as_deref()).chain([sizes.as_str()]) {
        text += &format!("\n{note}\n");
    }
    output::print(&text)
}

pub(crate) fn explain(args: &Args) -> Result<(), Failure> {
    let stacks = crate::stacks();
    if let Some(stack) = stacks.find(&args.name) {
        return explain_stack(stack.as_ref());
    }
    if args.name.contains(':') && stacks.iter().next().is_none() {
        let name = &args.name;
        let message =
            format!("no stack `{name}`: this program was built without its feature `stacks`");
        return Err(Failure::Input(message));
    }
    if args.name.contains('{') {
        return explain_composition(&args.name);
    }
    let protocol = protocols::find(&args.name).ok_or_else(|| {
        let rows = PROTOCOLS.iter().map(|p| p.name);
        let names = rows.chain(stacks.iter().map(|stack| stack.facts().name));
        let suggestion = near(&args.name, names);
        let suggestion = suggestion.map(|name| format!(" (did you mean `{name}`?)"));
        Failure::Input(format!(
            "there is no protocol `{}`{}; `windward list` shows all",
            args.name,
            suggestion.unwrap_or_default(),
        ))
    })?;
    if args.markdown {
        return output::print(&Pages::new()?.page(protocol));
    }
    output::print(&parts(protocol))
}

/// A scenario without meaning, to read a composition with.
const ANY: &str = r#"
duration = "1s"
[dumbbell]
bottleneck = { rate = "1Mbit", delay = "1ms", queue = "9p" }
access = { rate = "1Mbit", delay = "1ms" }
[[flows]]
group = "flow"
protocol = "cubic"
"#;

/// Explains the parts of a composition.
fn explain_composition(text: &str) -> Result<(), Failure> {
    output::print(&parts(&composition(text)?))
}

/// The protocol of a composition, `{ window = .. }` or `NAME={ window = .. }`.
pub(crate) fn composition(text: &str) -> Result<Protocol, Failure> {
    let (name, composition) = match text.split_once('=') {
        Some((name, rest)) if !name.contains('{') && rest.trim_start().starts_with('{') => {
            (name.trim(), rest.trim())
        }
        _ => ("", text.trim()),
    };
    let mut file = ScenarioFile::parse("composition", ANY)?;
    file.set("flows.flow.protocol", composition)?;
    if !name.is_empty() {
        file.set("flows.flow.protocol.name", name)?;
    }
    let scenario = file.build()?;
    match scenario.flows.first().map(|flow| &flow.kind.traffic) {
        Some(Traffic::Transport { protocol, .. }) => Ok(**protocol),
        _ => Err(Failure::Input(format!("`{text}` is not a composition"))),
    }
}

/// The parts of a protocol as text.
fn parts(protocol: &Protocol) -> String {
    let mut table = TextTable::new(["axis", "part", "what it does", "source"]);
    for (axis, part) in explain::parts(protocol) {
        table.row([axis, part.name, part.what, part.source].map(str::to_owned));
    }
    let without = protocol.without_router().map(|consequence| {
        let (router, name) = (protocol.router.name(), protocol.name);
        format!(
            "\nWithout the router {router} on the path, {name} gets no feedback: {consequence}.\n"
        )
    });
    let without = without.unwrap_or_default();
    let hosts = [(Host::Quic, "QUIC"), (Host::Kernel, "the kernel's TCP")];
    let hosts = hosts.map(|(host, name)| match support(protocol, host) {
        (Support::None, why) => format!("\nNot in {name}: {why}.\n"),
        (how, why) => format!("\nIn {name}: {}: {why}.\n", how.word()),
    });
    let hosts = hosts.concat();
    let references = explain::references(protocol).into_iter();
    let references: String = references.map(|(key, title)| format!("\n{key}: {title}")).collect();
    format!(
        "{} ({})\n{}\n\n{}{without}{hosts}{references}",
        protocol.name,
        protocol.source,
        protocol.summary,
        table.text(),
    )
}
