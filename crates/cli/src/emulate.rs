//! `windward emulate` and `windward exec`: a scenario on a real clock, with a network namespace for
//! each node that has a port.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use windward_core::units::Time;
use windward_http::Listener;
use windward_net::emulation::Until;
use windward_net::source::Source;
use windward_net::testbed;
use windward_netns::{Published, published, sweep};

use crate::emulation::{Emulation, Telling, Views};
use crate::failure::Failure;
use crate::live::Style;
use crate::output;
use crate::scenario_args::Changes;
use crate::{signals, web};

/// Run a scenario on a real clock, with a network namespace for each node that has a port
///
/// A port is a flow with protocol = "outside:port". `windward exec` runs programs at its ends. All
/// other flows are simulated and share the queues. The emulation ends with the scenario, or by
/// Ctrl-C.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Scenario, a TOML file; `-` reads standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    changes: Changes,

    #[command(flatten)]
    telling: Telling,
}

impl Args {
    /// The option `--web`.
    pub(crate) fn web(&self) -> &web::WebArgs {
        &self.telling.web
    }
}

pub(crate) fn emulate(args: &Args, listener: Option<Listener>, quiet: bool) -> Result<(), Failure> {
    output::claim_json(args.telling.json)?;
    let mut source = Source::read(&args.file, false, crate::stacks())?;
    source.changes = args.changes.list();
    let style = match (args.telling.json, quiet) {
        (true, _) => Style::Json,
        (false, true) => Style::Hidden,
        (false, false) => Style::People,
    };
    let views = Views { command: "windward emulate", style, listener, program: None };
    sweep()?;
    let options = testbed::Options::default();
    let mut emulation = Emulation::new(&source, &args.telling, views, &options, quiet)?;
    let testbed = &mut emulation.inner.testbed;
    testbed.stop_on(Some(signals::flag()));
    let nodes: Vec<String> = testbed.nodes().map(str::to_owned).collect();
    for node in &nodes {
        testbed.namespace(node).expect("it is one of its nodes").publish(node)?;
    }
    if !quiet {
        let first = nodes.first().map_or("", String::as_str);
        let nodes = nodes.join(", ");
        output::note(&format!(
            "nodes: {nodes}; windward exec {first} -- COMMAND runs a program there"
        ));
    }
    emulation.begin(quiet);
    let until = emulation.run(Time::NEVER)?;
    emulation.finish(quiet, false)?;
    match until {
        Until::Over => Ok(()),
        Until::Stopped => Err(Failure::Interrupted),
    }
}

/// Run a program at a node of a running emulation
#[derive(Debug, clap::Args)]
pub(crate) struct ExecArgs {
    /// Node at which a port begins or ends
    #[arg(value_name = "NODE")]
    node: String,

    /// Process number of `windward emulate`, if several emulations have such a node
    #[arg(long, value_name = "NUMBER")]
    process: Option<u32>,

    /// Program and its arguments [default: your shell]
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn exec(args: &ExecArgs) -> Result<(), Failure> {
    let node = find(args)?;
    node.enter()?;
    let (program, arguments) = or_shell(&args.command);
    let error = Command::new(&program).args(arguments).exec();
    Err(cannot_start(&program, &error))
}

/// The program of the command and its arguments, or the shell of the user.
pub(crate) fn or_shell(command: &[OsString]) -> (OsString, &[OsString]) {
    match command {
        [] => (std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into()), &[]),
        [program, arguments @ ..] => (program.clone(), arguments),
    }
}

fn cannot_start(program: &OsString, error: &io::Error) -> Failure {
    Failure::Input(format!("cannot start {}: {error}", program.display()))
}

/// The node that the arguments name.
fn find(args: &ExecArgs) -> Result<Published, Failure> {
    let mut all = published()?;
    all.retain(Published::is_alive);
    all.retain(|node| args.process.is_none_or(|process| node.process == process));
    let is_meant = |node: &&Published| node.label == args.node;
    let mut meant = all.iter().filter(is_meant);
    match (meant.next(), meant.next()) {
        (Some(node), None) => Ok(node.clone()),
        (Some(a), Some(b)) => Err(Failure::Input(format!(
            "several emulations have a node {}: choose one with --process {} or --process {}",
            args.node, a.process, b.process
        ))),
        (None, _) if all.is_empty() => Err(Failure::Input(
            "no emulation of this user is running: start one with windward emulate, as the same user"
                .to_owned(),
        )),
        (None, _) => {
            let there: Vec<&str> = all.iter().map(|node| node.label.as_str()).collect();
            Err(Failure::Input(format!(
                "no running emulation has a node {}; the nodes are {}",
                args.node,
                there.join(", ")
            )))
        }
    }
}
