//! The `windward` command line. It reads arguments, calls the libraries and writes their results.
//!
//! The modules, in the order of reading:
//!
//! - `failure`: errors and exit statuses. `output`: standard output, tables, numbers as text.
//!   `signals`: Ctrl-C. `progress` and `clock`: the progress bar, and the only clock.
//! - `modes`: options that are refused beside others.
//! - `scenario_args`: a scenario file with changes. `drive`: a simulation in slices of time.
//!   `trace`, `qlog` and `pcap`: files that a run writes.
//! - `list`, `explain`, `run`, `script`, `compare_logs` and `bench`: one command each.
//! - `effort`: options and output that `sweep`, `reproduce` and `evaluate` share. `native` and
//!   `python`: controllers in C and in Python. `worker`, `tree` and `jail`: their processes.
//! - `http`: sockets for browsers. `play`: the playground. `web`: live charts of `moment`s.
//! - `emulation` and `live`: common parts of `emulate`, `shell`, `replay` and `compare`.
//! - `perf` and `router`: measurements between hosts, and the queues of a gateway. `services`: TCP
//!   and UDP services over QUIC.
//! - `deploy`, `receive` and `send`: files between hosts. `peers`: the list of those hosts.
//! - `pages`: completions, manual pages and JSON Schemas. `linux_only`: names of commands that need
//!   Linux, on other systems.

use std::ffi::OsString;
use std::path::Path;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use windward_sim::stack::Stacks;
use windward_sim::text;

mod bench;
mod clock;
#[cfg(target_os = "linux")]
mod compare;
mod compare_logs;
#[cfg(all(target_os = "linux", feature = "deploy"))]
mod deploy;
mod drive;
mod effort;
#[cfg(target_os = "linux")]
mod emulate;
#[cfg(target_os = "linux")]
mod emulation;
mod evaluate;
mod explain;
mod failure;
mod http;
mod jail;
#[cfg(all(target_os = "linux", feature = "kernel"))]
mod kernel;
#[cfg(any(test, not(target_os = "linux")))]
mod linux_only;
mod list;
#[cfg(target_os = "linux")]
mod live;
pub mod memory;
mod modes;
#[cfg(target_os = "linux")]
mod moment;
mod native;
mod output;
mod pages;
mod pcap;
#[cfg(all(target_os = "linux", feature = "deploy"))]
mod peers;
#[cfg(target_os = "linux")]
mod perf;
mod play;
mod progress;
mod python;
mod qlog;
#[cfg(all(target_os = "linux", feature = "deploy"))]
mod receive;
#[cfg(target_os = "linux")]
mod replay;
mod reproduce;
#[cfg(target_os = "linux")]
mod router;
mod run;
mod scenario_args;
mod script;
#[cfg(all(target_os = "linux", feature = "deploy"))]
mod send;
#[cfg(all(target_os = "linux", feature = "deploy"))]
mod services;
#[cfg(target_os = "linux")]
mod shell;
mod signals;
mod sweep;
mod threads;
mod trace;
mod tree;
#[cfg(target_os = "linux")]
mod web;
mod worker;

use failure::Failure;
pub use progress::Progress;
use python::Python;
pub use python::{LoadController, PythonController};

/// Loss-resilient, network-assisted congestion control: simulated, emulated, deployed.
///
/// Windward simulates senders, queues and routers packet by packet (`run`, `sweep`, `evaluate`),
/// lets outside programs send over the same links in real time (`shell`, `emulate`, `compare`),
/// measures paths between hosts (`perf`), shapes the traffic of a gateway (`router`), moves files
/// over links that lose packets (`receive`, `send`), and forwards TCP and UDP services over them
/// (`serve`, `forward`). The same file and seed give the same simulation, to the bit, on any
/// machine.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, max_term_width = 100, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,

    /// Print only results and errors: no progress bars and no notes
    #[arg(long, short, global = true)]
    quiet: bool,
}

const EXAMPLES: &str = "\
Examples:
  windward reproduce                     every figure of the papers, with a verdict per claim
  windward evaluate cubic bbr            the criteria of RFC 9743, checked for both
  windward explain lr-lmxcp              the parts of that protocol, with their sources
  windward run experiments/examples/first.toml
  windward run experiments/examples/first.toml --set 'flows.lossy.protocol=lr-lmxtcp'
  windward receive inbox                 prints a ticket; on another host: windward send PATH... TICKET
  windward serve --allow 127.0.0.1:22 --ticket
                                         and there: windward forward -L 2222:127.0.0.1:22 TICKET

Exit status: 0 success, 1 failure, 2 invalid input, 130 interrupted.";

#[derive(Debug, Subcommand)]
enum Command {
    List(list::Args),
    Explain(explain::Args),
    Run(run::Args),
    Sweep(sweep::Args),
    Reproduce(reproduce::Args),
    Evaluate(evaluate::Args),
    CompareLogs(compare_logs::Args),
    Script(script::Args),
    #[cfg(target_os = "linux")]
    Shell(shell::Args),
    #[cfg(target_os = "linux")]
    Emulate(emulate::Args),
    #[cfg(target_os = "linux")]
    Exec(emulate::ExecArgs),
    #[cfg(target_os = "linux")]
    Replay(replay::Args),
    #[cfg(target_os = "linux")]
    Router(router::Args),
    #[cfg(target_os = "linux")]
    Compare(compare::Args),
    Play(play::Args),
    Bench(bench::Args),
    #[cfg(target_os = "linux")]
    Perf(perf::Args),
    #[cfg(all(target_os = "linux", feature = "kernel"))]
    Kernel(kernel::Args),
    #[cfg(all(target_os = "linux", feature = "deploy"))]
    Serve(Box<services::ServeArgs>),
    #[cfg(all(target_os = "linux", feature = "deploy"))]
    Forward(Box<services::ForwardArgs>),
    #[cfg(all(target_os = "linux", feature = "deploy"))]
    Receive(receive::Args),
    #[cfg(all(target_os = "linux", feature = "deploy"))]
    Send(send::Args),
    #[cfg(all(target_os = "linux", feature = "deploy"))]
    Peers(peers::Args),
    Completions(pages::CompletionsArgs),
    Man(pages::ManArgs),
    Schema(pages::SchemaArgs),
    #[cfg(not(target_os = "linux"))]
    #[command(flatten)]
    LinuxOnly(linux_only::Command),
}

/// Time after which Ctrl-C ends work that has not noticed it.
const PROMPTLY: std::time::Duration = std::time::Duration::from_millis(800);

impl Cli {
    /// True if the command changes the machine or talks with other hosts, and ends in good order.
    fn leaves_traces(&self) -> bool {
        #[cfg(all(target_os = "linux", feature = "deploy"))]
        if matches!(self.command, Some(Command::Receive(_) | Command::Send(_))) {
            return true;
        }
        #[cfg(target_os = "linux")]
        if matches!(
            self.command,
            Some(
                Command::Shell(_)
                    | Command::Emulate(_)
                    | Command::Exec(_)
                    | Command::Compare(_)
                    | Command::Perf(_)
            )
        ) {
            return true;
        }
        #[cfg(all(target_os = "linux", feature = "kernel"))]
        if matches!(self.command, Some(Command::Kernel(_))) {
            return true;
        }
        matches!(self.command, Some(Command::Play(_)))
    }

    /// True if the command handles signals itself.
    fn has_signals(&self) -> bool {
        #[cfg(all(target_os = "linux", feature = "deploy"))]
        if matches!(self.command, Some(Command::Serve(_) | Command::Forward(_))) {
            return true;
        }
        #[cfg(target_os = "linux")]
        return matches!(self.command, Some(Command::Router(_)));
        #[cfg(not(target_os = "linux"))]
        false
    }
}

/// The stacks that scenario files may name; empty without the feature `stacks`.
pub fn stacks() -> Stacks {
    #[cfg(feature = "stacks")]
    let stacks = windward_stacks::all();
    #[cfg(not(feature = "stacks"))]
    let stacks = Stacks::none();
    let why =
        "its packets come from programs, on a real clock: use windward shell or windward emulate";
    stacks.refusing([("outside:port".to_owned(), why)])
}

/// Runs the command line, whose first argument is the name of the program, and returns the exit
/// status. `python` is the interpreter for commands that need the Python package, and `load` reads
/// controllers in Python where this process is that interpreter. Invalid arguments, and a second
/// Ctrl-C, end the process.
pub fn main(
    args: impl IntoIterator<Item = OsString>,
    python: &Path,
    load: Option<LoadController<'_>>,
) -> u8 {
    let args: Vec<OsString> = args.into_iter().collect();
    if let Some(status) = jail::keep(&args) {
        return status;
    }
    let matches = modes::strict(Cli::command()).try_get_matches_from(&args);
    let cli = matches.and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = cli.unwrap_or_else(|error| refuse(&error));
    let given = match given(cli.command.as_ref()) {
        Ok(given) => given,
        Err(failure) => return failure.report(),
    };
    if !cli.has_signals() {
        signals::install((!cli.leaves_traces()).then_some(PROMPTLY));
    }
    let arguments: Vec<OsString> = args.into_iter().skip(1).collect();
    // A second call in a process of Python keeps those of the first.
    let _ = effort::ARGUMENTS.set(arguments.clone());
    match dispatch(cli, given, &Python { interpreter: python, load, arguments }) {
        Ok(()) => 0,
        Err(failure) => failure.report(),
    }
}

/// Prints the help or the error of clap, and ends. Control characters of arguments are escaped.
fn refuse(error: &clap::Error) -> ! {
    let plain = error.render().to_string();
    if text::control(&plain).is_none() {
        error.exit();
    }
    eprint!("{}", text::printable(&plain));
    std::process::exit(error.exit_code());
}

/// Sockets and rights of a command, which it needs before there is a second thread.
#[cfg(target_os = "linux")]
struct Given {
    /// The socket of `--web`.
    listener: Option<windward_http::Listener>,
    rights: windward_netns::Rights,
}
#[cfg(not(target_os = "linux"))]
struct Given;

/// Listens for browsers in the network of this machine. Then gets the rights to make namespaces for
/// commands that need them.
#[cfg(target_os = "linux")]
fn given(command: Option<&Command>) -> Result<Given, Failure> {
    let web = match command {
        Some(Command::Shell(args)) => Some(args.web()),
        Some(Command::Emulate(args)) => Some(args.web()),
        Some(Command::Router(args)) => Some(args.web()),
        Some(Command::Perf(args)) => Some(args.web()),
        #[cfg(feature = "kernel")]
        Some(Command::Kernel(args)) => args.web(),
        _ => None,
    };
    let listener = web.map_or(Ok(None), web::WebArgs::listen)?;
    let rights = match command {
        Some(Command::Shell(_) | Command::Emulate(_) | Command::Compare(_)) => {
            windward_netns::become_root()?
        }
        _ => windward_netns::Rights::OfRoot,
    };
    Ok(Given { listener, rights })
}

#[cfg(not(target_os = "linux"))]
fn given(_: Option<&Command>) -> Result<Given, Failure> {
    Ok(Given)
}

#[cfg_attr(
    not(target_os = "linux"),
    expect(unused_variables, clippy::needless_pass_by_value, reason = "for commands of Linux")
)]
fn dispatch(cli: Cli, given: Given, python: &Python<'_>) -> Result<(), Failure> {
    let quiet = cli.quiet;
    match cli.command {
        None => output::print(&Cli::command().render_long_help().to_string()),
        Some(Command::List(args)) => list::list(&args),
        Some(Command::Explain(args)) => explain::explain(&args),
        Some(Command::Run(args)) => run::run(&args, quiet, python),
        Some(Command::Sweep(args)) => sweep::sweep(&args, quiet, python.interpreter),
        Some(Command::Reproduce(args)) => reproduce::reproduce(&args, quiet),
        Some(Command::Evaluate(args)) => evaluate::evaluate(&args, quiet, python),
        Some(Command::CompareLogs(args)) => compare_logs::compare_logs(&args, quiet),
        Some(Command::Script(args)) => script::script(&args),
        #[cfg(target_os = "linux")]
        Some(Command::Shell(args)) => shell::shell(&args, given.rights, given.listener, quiet),
        #[cfg(target_os = "linux")]
        Some(Command::Emulate(args)) => emulate::emulate(&args, given.listener, quiet),
        #[cfg(target_os = "linux")]
        Some(Command::Exec(args)) => emulate::exec(&args),
        #[cfg(target_os = "linux")]
        Some(Command::Replay(args)) => replay::replay(&args),
        #[cfg(target_os = "linux")]
        Some(Command::Router(args)) => router::router(&args, given.listener, quiet),
        #[cfg(target_os = "linux")]
        Some(Command::Compare(args)) => compare::compare(&args, quiet, python),
        Some(Command::Play(args)) => play::play(&args, quiet),
        Some(Command::Bench(args)) => bench::bench(&args, quiet),
        #[cfg(target_os = "linux")]
        Some(Command::Perf(args)) => perf::perf(&args, given.listener, quiet),
        #[cfg(all(target_os = "linux", feature = "kernel"))]
        Some(Command::Kernel(args)) => kernel::kernel(&args, given.listener, quiet),
        #[cfg(all(target_os = "linux", feature = "deploy"))]
        Some(Command::Serve(args)) => services::serve(&args, quiet),
        #[cfg(all(target_os = "linux", feature = "deploy"))]
        Some(Command::Forward(args)) => services::forward(&args, quiet),
        #[cfg(all(target_os = "linux", feature = "deploy"))]
        Some(Command::Receive(args)) => receive::receive(args, quiet),
        #[cfg(all(target_os = "linux", feature = "deploy"))]
        Some(Command::Send(args)) => send::send(&args, quiet),
        #[cfg(all(target_os = "linux", feature = "deploy"))]
        Some(Command::Peers(args)) => peers::peers(&args, quiet),
        Some(Command::Completions(args)) => pages::completions(&args),
        Some(Command::Man(args)) => pages::man(&args),
        Some(Command::Schema(args)) => pages::schema(&args),
        #[cfg(not(target_os = "linux"))]
        Some(Command::LinuxOnly(command)) => Err(command.refusal()),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use clap::error::ErrorKind;

    use super::*;

    /// The commands, and those below them, each with the words that lead to it.
    fn commands(of: &clap::Command, words: &[String], all: &mut Vec<(Vec<String>, clap::Command)>) {
        for command in of.get_subcommands() {
            let words = [words, &[command.get_name().to_owned()]].concat();
            commands(command, &words, all);
            all.push((words, command.clone()));
        }
    }

    #[test]
    fn paths_of_options_need_not_be_utf_8() {
        let mut all = Vec::new();
        commands(&Cli::command(), &["windward".to_owned()], &mut all);
        let mut seen = 0;
        for (words, command) in all {
            for arg in command.get_arguments() {
                let name = arg.get_value_names().unwrap_or_default().join(" ");
                if !["FILE", "DIR", "PATH", "A", "B"].iter().any(|path| {
                    name == *path || name.starts_with(&format!("{path}.")) || name.contains("FILE")
                }) {
                    continue;
                }
                seen += 1;
                let extension = name.split_once("FILE").map_or("", |(_, extension)| extension);
                let path = OsString::from_vec([b"\xff", extension.as_bytes()].concat());
                let mut line: Vec<OsString> = words.iter().map(OsString::from).collect();
                line.extend(arg.get_long().map(|long| format!("--{long}").into()));
                line.push(path);
                let kind =
                    Cli::command().try_get_matches_from(&line).err().map(|error| error.kind());
                assert!(
                    !matches!(kind, Some(ErrorKind::InvalidUtf8 | ErrorKind::ValueValidation)),
                    "{line:?}: {kind:?}"
                );
            }
        }
        assert!(seen > 40, "{seen}");
    }
}
