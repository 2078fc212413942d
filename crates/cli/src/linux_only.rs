//! Commands that exist only on Linux: on other systems, each name is known and refused.

use std::ffi::OsString;

use clap::{Arg, ArgMatches, Error, FromArgMatches, Subcommand, value_parser};

use crate::failure::Failure;

/// Commands that need network namespaces, TUN devices, or sockets as Linux has them.
const NAMES: [&str; 13] = [
    "shell", "emulate", "exec", "replay", "router", "compare", "perf", "kernel", "serve",
    "forward", "receive", "send", "peers",
];

/// One of these commands; its arguments are ignored.
#[derive(Debug)]
pub(crate) struct Command(String);

impl Command {
    /// The error that says which command needs Linux.
    pub(crate) fn refusal(&self) -> Failure {
        Failure::Input(format!(
            "`windward {}` needs Linux; on {} only the simulator and its experiments are available",
            self.0,
            std::env::consts::OS
        ))
    }
}

impl FromArgMatches for Command {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let name = matches.subcommand_name().unwrap_or_default();
        Ok(Command(name.to_owned()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Command::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for Command {
    fn augment_subcommands(program: clap::Command) -> clap::Command {
        NAMES.into_iter().fold(program, |program, name| {
            let arguments = Arg::new("arguments").value_parser(value_parser!(OsString));
            let arguments =
                arguments.num_args(0..).trailing_var_arg(true).allow_hyphen_values(true);
            let command = clap::Command::new(name).about("Needs Linux").hide(true);
            program.subcommand(command.arg(arguments.hide(true)))
        })
    }

    fn augment_subcommands_for_update(program: clap::Command) -> clap::Command {
        Command::augment_subcommands(program)
    }

    fn has_subcommand(name: &str) -> bool {
        NAMES.contains(&name)
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    struct Elsewhere {
        #[command(subcommand)]
        command: Command,
    }

    #[test]
    fn each_is_told_by_name_whatever_follows_it() {
        for command in Elsewhere::command().get_subcommands() {
            let name = command.get_name();
            let line =
                ["windward", name, "file.toml", "--rate", "10mbit", "-x", "--", "curl", "-o"];
            let parsed = Elsewhere::try_parse_from(line).expect(name);
            let Failure::Input(message) = parsed.command.refusal() else { panic!("{name}") };
            assert!(message.starts_with(&format!("`windward {name}` needs Linux")), "{message}");
            assert!(Elsewhere::try_parse_from(["windward", name]).is_ok(), "{name}");
        }
    }

    /// Each variant of `crate::Command` for Linux alone has its name in the list here, so that
    /// other systems refuse it.
    #[test]
    fn they_are_those_that_are_compiled_on_linux_alone() {
        let source = include_str!("lib.rs");
        let (_, commands) = source.split_once("enum Command {\n").expect("the commands");
        let (commands, _) = commands.split_once("\n}\n").expect("their end");
        let lines: Vec<&str> = commands.lines().map(str::trim).collect();
        let gated = lines.windows(2).filter(|pair| {
            pair[0].starts_with("#[cfg(")
                && pair[0].contains("target_os = \"linux\"")
                && !pair[0].contains("not(")
        });
        let mut gated: Vec<String> = gated
            .map(|pair| pair[1].split('(').next().unwrap_or_default().to_lowercase())
            .collect();
        let mut names = NAMES;
        gated.sort();
        names.sort_unstable();
        assert_eq!(names[..], gated);
    }
}
