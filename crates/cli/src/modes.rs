//! Options that have no effect beside another are refused, not ignored.
//!
//! A mode is an option that makes a command do something else. Each names the options that it
//! honours; the parser refuses all others beside it, also one that is added later.

use clap::{ArgGroup, Command};

/// A command, one of its modes, and the other arguments that the mode honours.
type Mode = (&'static str, &'static str, &'static [&'static str]);

const MODES: &[Mode] = &[
    ("list", "json", &["stacks", "parts"]),
    ("list", "markdown", &[]),
    ("list", "stacks", &["json"]),
    ("list", "parts", &["json"]),
    ("script", "json", &["scripts", "protocol", "tolerance_usecs"]),
    ("script", "markdown", &["scripts", "protocol", "tolerance_usecs"]),
    ("script", "all", &["scripts", "protocol", "tolerance_usecs"]),
    ("play", "save", &[]),
    (
        "compare-logs",
        "fit",
        &[
            "a",
            "seed",
            "runs",
            "scenario",
            "json",
            "plot",
            "tolerance",
            "hold",
            "rate_window",
            "align",
            "trace",
            "rtt_unit",
            "strict",
        ],
    ),
    ("sweep", "dask", &["file", "out", "repetitions", "quick", "full", "set", "seed", "resume"]),
    ("sweep", "ray", &["file", "out", "repetitions", "quick", "full", "set", "seed", "resume"]),
    // Nothing is written to the folder of --out, so that a whole command can be tried.
    (
        "sweep",
        "dry_run",
        &["file", "out", "repetitions", "quick", "full", "set", "seed", "threads"],
    ),
    ("reproduce", "list", &["ids", "json"]),
    ("reproduce", "dry_run", &["ids", "out", "quick", "full", "set", "seed", "threads"]),
    (
        "reproduce",
        "worlds",
        &["ids", "out", "worlds_budget", "quick", "full", "set", "seed", "resume", "threads"],
    ),
    ("evaluate", "list", &["suite", "only"]),
    ("evaluate", "diff", &["junit"]),
    (
        "evaluate",
        "dry_run",
        &[
            "subjects",
            "against",
            "standards",
            "suite",
            "only",
            "out",
            "sensitivity",
            "quick",
            "full",
            "set",
            "seed",
            "threads",
        ],
    ),
    ("compare", "list", &["table"]),
    ("router", "systemd_unit", &[]),
    ("serve", "systemd_unit", &[]),
    ("forward", "print_key", &["config"]),
    ("schema", "readings", &[]),
];

/// A command, one of its options, and others of which one has to be given with it.
const NEEDS: &[(&str, &str, &[&str])] =
    &[("shell", "every", &["json", "live"]), ("reproduce", "worlds_budget", &["worlds"])];

/// Group of the others.
const NEEDED: &str = "needed";

/// The command line, which refuses options that would have no effect.
pub(crate) fn strict(mut program: Command) -> Command {
    for (name, mode, honoured) in MODES {
        program = change(program, name, |command| {
            let others: Vec<_> = command.get_arguments().map(|arg| arg.get_id().clone()).collect();
            let refused =
                others.into_iter().filter(|id| id != mode && !honoured.contains(&id.as_str()));
            command.mut_arg(mode, |arg| arg.conflicts_with_all(refused))
        });
    }
    for (name, option, needed) in NEEDS {
        program = change(program, name, |command| {
            let any = ArgGroup::new(NEEDED).args(*needed).multiple(true);
            command.group(any).mut_arg(option, |arg| arg.requires(NEEDED))
        });
    }
    program
}

/// Changes a command, if this program has it: some are those of a system or a feature.
fn change(program: Command, name: &str, with: impl FnOnce(Command) -> Command) -> Command {
    if program.find_subcommand(name).is_none() {
        return program;
    }
    program.mut_subcommand(name, with)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::error::ErrorKind;
    use clap::{Arg, ArgAction, CommandFactory};

    use super::*;
    use crate::Cli;

    /// All commands by their words, without those for the names of other systems.
    fn commands(program: &Command) -> Vec<(String, Command)> {
        let mut all = Vec::new();
        for command in program.get_subcommands() {
            let name = command.get_name().to_owned();
            all.extend(
                commands(command).into_iter().map(|(more, c)| (format!("{name} {more}"), c)),
            );
            all.push((name, command.clone()));
        }
        all
    }

    /// An option whose help says so is in [`MODES`], so that a new one is not forgotten.
    #[test]
    fn an_option_that_does_nothing_else_is_a_mode() {
        for (name, command) in commands(&Cli::command()) {
            for option in command.get_opts() {
                let help = option.get_help().map(ToString::to_string).unwrap_or_default();
                let id = option.get_id().as_str();
                let is_mode = MODES.iter().any(|(of, mode, _)| *of == name && *mode == id);
                assert!(is_mode || !help.contains("do nothing else"), "`{id}` of {name}");
            }
        }
    }

    /// Values of options, of which one is valid for each.
    const VALUES: [&str; 13] = [
        "SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "1",
        "100",
        "0.1",
        "1s",
        "a=1",
        "127.0.0.1:1",
        "1Mbit",
        "1MB",
        "none",
        "1:a:1",
        "a.svg",
        "info",
    ];

    /// Kinds of errors of a command line with a mode and another argument; `None` for none.
    fn outcome(program: &Command, name: &str, args: [&Arg; 2]) -> Option<ErrorKind> {
        let mut last = None;
        let values = args[1].get_possible_values();
        let names = values.iter().map(clap::builder::PossibleValue::get_name);
        for value in names.chain(VALUES) {
            let mut line: Vec<OsString> = vec!["windward".into(), name.into()];
            for (arg, value) in args.into_iter().zip(["1", value]) {
                line.extend(words(arg, value));
            }
            last = program.clone().try_get_matches_from(line).err().map(|error| error.kind());
            if !matches!(last, Some(ErrorKind::ValueValidation | ErrorKind::InvalidValue)) {
                break;
            }
        }
        last
    }

    /// An argument on a command line.
    fn words(arg: &Arg, value: &str) -> Vec<OsString> {
        let name = match (arg.get_long(), arg.get_short()) {
            (Some(long), _) => Some(format!("--{long}")),
            (None, short) => short.map(|short| format!("-{short}")),
        };
        let takes = !matches!(arg.get_action(), ArgAction::SetTrue);
        // Before the second positional argument stands the first.
        let least = arg.get_num_args().map_or(1, |count| count.min_values().max(1));
        let least = arg.get_index().unwrap_or(least);
        let values = if takes { vec![value.to_owned(); least] } else { Vec::new() };
        name.into_iter().chain(values).map(OsString::from).collect()
    }

    #[test]
    fn beside_a_mode_every_argument_is_refused_that_it_does_not_honour() {
        let program = strict(Cli::command());
        for (name, mode, honoured) in MODES {
            let Some(command) = program.find_subcommand(name) else { continue };
            let mut command = command.clone();
            command.build();
            let of = |id: &str| command.get_arguments().find(|arg| arg.get_id() == id).unwrap();
            for id in *honoured {
                of(id);
            }
            let others = command
                .get_arguments()
                .filter(|arg| !["help", "version", "quiet", mode].contains(&arg.get_id().as_str()));
            for other in others {
                let id = other.get_id().as_str();
                let outcome = outcome(&program, name, [of(mode), other]);
                let is_refused = outcome == Some(ErrorKind::ArgumentConflict);
                assert_eq!(is_refused, !honoured.contains(&id), "{name} {mode} {id}: {outcome:?}");
                if !is_refused {
                    let is_fine =
                        matches!(outcome, None | Some(ErrorKind::MissingRequiredArgument));
                    assert!(is_fine, "{name} {mode} {id}: {outcome:?}");
                }
            }
        }
    }

    #[test]
    fn an_option_is_refused_without_the_one_that_it_needs() {
        let program = strict(Cli::command());
        for (line, is_refused) in [
            ("reproduce --worlds-budget 1s", true),
            ("reproduce --worlds --worlds-budget 1s", false),
            #[cfg(target_os = "linux")]
            ("shell --every 1s", true),
            #[cfg(target_os = "linux")]
            ("shell --every 1s --live", false),
            #[cfg(target_os = "linux")]
            ("shell --every 1s --json", false),
            #[cfg(target_os = "linux")]
            ("emulate a.toml --every 1s", false),
        ] {
            let words = std::iter::once("windward").chain(line.split(' '));
            let error = program.clone().try_get_matches_from(words).err().map(|error| error.kind());
            assert_eq!(error == Some(ErrorKind::MissingRequiredArgument), is_refused, "{line}");
        }
    }
}
