//! `windward receive`: files and folders from another host. Linux only.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use windward_core::units::Duration;
use windward_deploy::endpoint::DEFAULT_PROTOCOL;
use windward_deploy::transfer::receive::{self, Event, ReceiveOptions, Receiver};
use windward_deploy::{Error, PeerList, address};

use crate::clock;
use crate::deploy::{IdentityArgs, QlogArgs, options, patience};
use crate::failure::Failure;
use crate::{output, signals};

/// Receive files and folders from `windward send`
///
/// Prints one line that ends in a ticket. `windward send PATH... TICKET` on another host sends: the
/// ticket is bound to the first host that uses it. The command ends with status 0 when one transfer
/// is complete and on the disk, and with 1 if something could not be stored. A transfer that was
/// interrupted on either side, or is incomplete, is resumed by the same two commands.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A file appears under its name when it is complete and on the disk. Nothing is written outside DIR.

Examples:
  windward receive inbox
  windward receive inbox --listen 4460 --address ship.example.org
  windward receive inbox --keep --expires 30min")]
pub(crate) struct Args {
    /// Folder that receives; it is made if it does not exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// Address and UDP port to listen at, or a port at all addresses; port 0 takes that of the open
    /// ticket, or a free one
    #[arg(long, value_name = "[ADDRESS:]PORT", default_value = "0", value_parser = parse_listen)]
    listen: SocketAddr,

    /// Address at which others reach this host, for the ticket, such as that of a NAT; may be given
    /// more than once. Those of the interfaces follow
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = parse_address)]
    address: Vec<SocketAddr>,

    /// Time for which a new ticket is valid
    #[arg(long, value_name = "TIME", default_value = "24h")]
    expires: Duration,

    /// Give out a new ticket, and refuse the one that is still open for this folder
    #[arg(long)]
    new_ticket: bool,

    /// Set the permissions of the sender also on existing files and folders, and its sticky and
    /// set-group-ID bits on folders, as `rsync --perms`. Without it, they keep their permissions,
    /// and new ones get those of the sender without the umask, as `rsync -rt`
    #[arg(long)]
    perms: bool,

    /// Stay after a complete transfer, for more from the same sender, or with --known from others,
    /// until Ctrl-C
    #[arg(long)]
    keep: bool,

    /// Admit senders that had a ticket for this folder once without a ticket: those that `windward
    /// peers list` shows with it
    #[arg(long)]
    known: bool,

    /// End the connection of a sender after this time without progress; it may come again
    #[arg(long, value_name = "TIME", default_value = "10min")]
    patience: Duration,

    /// Print the outcome of each transfer as JSON, one line each, after the line with the ticket
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    qlog: QlogArgs,

    #[command(flatten)]
    identity: IdentityArgs,
}

fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse() {
        return Ok(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port));
    }
    address::parse(text)
        .map_err(|error| format!("{error}; expected a port, 192.0.2.1:4460 or [2001:db8::1]:4460"))
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let whole = match text.matches(':').count() {
        0 => format!("{text}:0"),
        2.. if !text.starts_with('[') => format!("[{text}]:0"),
        _ => text.to_owned(),
    };
    address::parse(&whole).map_err(|error| error.to_string())
}

pub(crate) fn receive(args: Args, quiet: bool) -> Result<(), Failure> {
    let json = args.json;
    let lasts = std::time::Duration::from_secs_f64(args.expires.as_secs_f64());
    if lasts.is_zero() {
        return Err(Failure::Input("--expires: a ticket must be valid for some time".to_owned()));
    }
    let choices = ReceiveOptions {
        home: args.identity.config.home()?,
        folder: args.folder,
        listen: args.listen,
        addresses: args.address,
        expires: lasts,
        new_ticket: args.new_ticket,
        perms: args.perms,
        keep: args.keep,
        known: args.known,
        patience: patience(args.patience)?,
        endpoint: options(DEFAULT_PROTOCOL, &args.qlog)?,
    };
    let note = move |text: String| {
        if !quiet {
            output::note(&text);
        }
    };
    if let Some(advice) = PeerList::open(&choices.home).advice().filter(|_| choices.known) {
        note(advice);
    }
    let opened = move |receiver: &Receiver| -> Result<(), Failure> {
        if let Some(hint) = receiver.hint() {
            note(format!("note: {hint}"));
        }
        if receiver.ticket().expires.abs_diff(clock::seconds() + lasts.as_secs()) > 1 {
            note(
                "note: this ticket is still open from an earlier start, and keeps its --expires: \
                 --new-ticket gives out another one"
                    .to_owned(),
            );
        }
        output::print(&format!("windward send PATH... {}", receiver.ticket())).map_err(
            |failure| match failure {
                // Not an end like any other: nobody can send.
                Failure::ReaderLeft => {
                    Failure::Failed("standard output is closed: nobody reads the ticket".to_owned())
                }
                failure => failure,
            },
        )?;
        note(format!("receiving into {}; Ctrl-C ends", receiver.folder().display()));
        Ok(())
    };
    let tell = move |event: Event| match event {
        Event::Began(peer) => note(format!("{peer}: connected")),
        Event::Refused(peer, why) => note(format!("{peer}: refused: {why}")),
        Event::Broken(peer, Error::Refused(why)) => note(format!("{peer}: {why}")),
        Event::Broken(peer, why) => note(format!("{peer}: {why}; waiting for it to resume")),
        Event::Complete(outcome) => {
            note(format!(
                "{}: {}{} stored, {} there already, {} failed; {}B received",
                outcome.sender,
                match outcome.failed {
                    _ if outcome.dry_run => "dry run: ",
                    0 => "complete: ",
                    _ => "incomplete: ",
                },
                outcome.stored,
                outcome.same,
                outcome.failed,
                output::si(outcome.bytes as f64)
            ));
            if json {
                let line =
                    serde_json::to_string(&outcome).expect("names and counts can be written");
                // A reader that left does not end the receiver.
                let _ = output::print(&line);
            }
        }
    };
    receive::run(args.identity.identity()?, choices, signals::flag(), opened, tell)
}
