//! `windward completions`, `windward man` and `windward schema`: completions, manual pages and JSON
//! Schemas, generated from the code that reads arguments and files.

use std::io::Write;
use std::path::PathBuf;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;
use windward_evaluation::Suite;
use windward_experiments::Experiment;
use windward_experiments::experiment::ns2::Ns2;
use windward_experiments::worlds::Worlds;
use windward_sim::output::OutputDir;

use crate::Cli;
use crate::failure::Failure;
use crate::output;
use crate::signals;

/// Print the completions of commands and options for a shell
///
/// For bash: windward completions bash > ~/.local/share/bash-completion/completions/windward
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Print the manual page, or write one for each command
///
/// To read it: windward man | man -l -
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// Write windward.1 and a page for each command, such as windward-run.1, into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Print a JSON Schema of files, for editors
///
/// With a schema, an editor completes and explains keys, and marks unknown ones. For an editor that
/// uses Taplo: windward schema > scenario.schema.json, and `#:schema scenario.schema.json` as the
/// first line of a file.
#[derive(Debug, clap::Args)]
pub(crate) struct SchemaArgs {
    /// The kind of file
    #[arg(value_enum, default_value_t = FileKind::Scenario)]
    of: FileKind,

    /// The same as `readings`
    #[arg(long, hide = true)]
    readings: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FileKind {
    /// Scenarios and experiments
    Scenario,
    /// Readings that experiments share
    Readings,
    /// Suites that `windward evaluate` runs
    Suite,
    /// Nearest worlds of claims, as `windward reproduce --worlds` writes them
    Worlds,
    /// Cells of experiments that ns-2 ran
    Ns2,
    /// Settings of `windward router`
    #[cfg(target_os = "linux")]
    Router,
    /// Programs that `windward compare` starts
    #[cfg(target_os = "linux")]
    Programs,
}

pub(crate) fn schema(args: &SchemaArgs) -> Result<(), Failure> {
    output::print_json(&match args.of {
        FileKind::Scenario if !args.readings => Experiment::json_schema(),
        FileKind::Scenario | FileKind::Readings => Experiment::readings_json_schema(),
        FileKind::Suite => Suite::json_schema(),
        FileKind::Worlds => Worlds::json_schema(),
        FileKind::Ns2 => Ns2::json_schema(),
        #[cfg(target_os = "linux")]
        FileKind::Router => windward_net::router::Config::json_schema(),
        #[cfg(target_os = "linux")]
        FileKind::Programs => windward_net::programs::Programs::json_schema(),
    })
}

pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), NAME, &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

pub(crate) fn man(args: &ManArgs) -> Result<(), Failure> {
    let mut command = Cli::command().name(NAME);
    // Passes names, global options and versions on to the subcommands.
    command.build();
    let Some(dir) = &args.out else {
        return output::print(&String::from_utf8_lossy(&page(command)?));
    };
    signals::check()?;
    let mut dir = OutputDir::create(dir)?;
    for below in command.get_subcommands().filter(|c| c.get_name() != "help") {
        let page = page(below.clone())?;
        let name = format!("{NAME}-{}.1", below.get_name());
        dir.write(&name, |out| out.write_all(&page))?;
    }
    let page = page(command)?;
    dir.write(&format!("{NAME}.1"), |out| out.write_all(&page))?;
    Ok(dir.commit()?)
}

const NAME: &str = "windward";

fn page(command: clap::Command) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    Ok(page)
}
