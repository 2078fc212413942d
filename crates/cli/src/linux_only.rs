//! Commands that exist only on Linux: on other systems, each name is known and refused.

use std::ffi::OsString;

use clap::Subcommand;

use crate::failure::Failure;

/// A command that needs network namespaces, TUN devices, or sockets as Linux has them.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Needs Linux
    #[command(hide = true)]
    Shell(Args),
    /// Needs Linux
    #[command(hide = true)]
    Emulate(Args),
    /// Needs Linux
    #[command(hide = true)]
    Exec(Args),
    /// Needs Linux
    #[command(hide = true)]
    Replay(Args),
    /// Needs Linux
    #[command(hide = true)]
    Router(Args),
    /// Needs Linux
    #[command(hide = true)]
    Compare(Args),
    /// Needs Linux
    #[command(hide = true)]
    Perf(Args),
    /// Needs Linux
    #[command(hide = true)]
    Serve(Args),
    /// Needs Linux
    #[command(hide = true)]
    Forward(Args),
    /// Needs Linux
    #[command(hide = true)]
    Receive(Args),
    /// Needs Linux
    #[command(hide = true)]
    Send(Args),
    /// Needs Linux
    #[command(hide = true)]
    Peers(Args),
}

/// Arguments of the command, which are ignored.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    arguments: Vec<OsString>,
}

impl Command {
    /// The error that says which command needs Linux.
    pub(crate) fn refusal(&self) -> Failure {
        let name = match self {
            Command::Shell(_) => "shell",
            Command::Emulate(_) => "emulate",
            Command::Exec(_) => "exec",
            Command::Replay(_) => "replay",
            Command::Router(_) => "router",
            Command::Compare(_) => "compare",
            Command::Perf(_) => "perf",
            Command::Serve(_) => "serve",
            Command::Forward(_) => "forward",
            Command::Receive(_) => "receive",
            Command::Send(_) => "send",
            Command::Peers(_) => "peers",
        };
        Failure::Input(format!(
            "`windward {name}` needs Linux; on {} only the simulator and its experiments are available",
            std::env::consts::OS
        ))
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
        let command = Elsewhere::command();
        let mut names: Vec<String> =
            command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
        gated.sort();
        names.sort();
        assert_eq!(names, gated);
    }
}
