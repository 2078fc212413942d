//! `windward peers`: the list of peers of this machine. Linux only.

use clap::Subcommand;
use serde::Serialize;
use windward_deploy::peers::{Choice, Peer, PeerList, Role};

use crate::deploy::ConfigArgs;
use crate::failure::Failure;
use crate::output;

/// List, rename or revoke the peers of this machine
///
/// Each line of the list is a peer in one role: a receiver or a server to which this machine
/// connects, a sender that may send into one folder (`windward receive --known`), or a client that
/// may reach targets (`windward serve`). Tickets write these lines. Programs that run see a change
/// at once.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The list is the file `peers` in the directory of the configuration, which may be edited:
  receiver HOST:PORT KEY
  server HOST:PORT KEY
  sender NAME KEY FOLDER
  client NAME KEY HOST:PORTS,...

Examples:
  windward peers list
  windward peers rename peer-1f2e3d4c shore
  windward peers revoke shore --role client")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print the list
    List {
        #[command(flatten)]
        common: Common,
    },
    /// Give a peer another name
    Rename {
        /// Name or key of the peer
        peer: String,
        /// New name; HOST:PORT for a receiver or server
        name: String,
        #[command(flatten)]
        common: Common,
    },
    /// Remove a peer: connections that it has to this machine end
    Revoke {
        /// Name or key of the peer
        peer: String,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Debug, clap::Args)]
struct Common {
    /// Lines of one role: receiver, server, sender or client
    #[arg(long, value_name = "ROLE")]
    role: Option<Role>,

    /// Print the lines as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    config: ConfigArgs,
}

/// A line as JSON.
#[derive(Serialize)]
struct Row<'a> {
    role: Role,
    name: &'a str,
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    folder: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    targets: Option<Vec<&'a str>>,
}

impl<'a> From<&'a Peer> for Row<'a> {
    fn from(peer: &'a Peer) -> Self {
        Row {
            role: peer.role,
            name: &peer.name,
            key: peer.key.to_string(),
            folder: (peer.role == Role::Sender).then_some(&*peer.scope),
            targets: (peer.role == Role::Client).then(|| peer.scope.split(',').collect()),
        }
    }
}

pub(crate) fn peers(args: &Args, quiet: bool) -> Result<(), Failure> {
    let (Action::List { common } | Action::Rename { common, .. } | Action::Revoke { common, .. }) =
        &args.action;
    output::claim_json(common.json)?;
    let list = PeerList::open(&common.config.home()?);
    let choose = |peer: &String| Choice { word: peer.clone(), role: common.role };
    let lines = match &args.action {
        Action::List { .. } => {
            let mut peers = list.read()?;
            peers.retain(|peer| common.role.is_none_or(|role| role == peer.role));
            peers
        }
        Action::Rename { peer, name, .. } => list.rename(&choose(peer), name)?,
        Action::Revoke { peer, .. } => list.revoke(&choose(peer))?,
    };
    if let Some(advice) = list.advice().filter(|_| !quiet) {
        output::note(&advice);
    }
    if common.json {
        return output::print_json(&lines.iter().map(Row::from).collect::<Vec<_>>());
    }
    let verb = match &args.action {
        Action::List { .. } => "",
        Action::Rename { .. } => "renamed: ",
        Action::Revoke { .. } => "revoked: ",
    };
    let text: Vec<String> = lines.iter().map(|peer| format!("{verb}{peer}")).collect();
    if text.is_empty() { Ok(()) } else { output::print(&text.join("\n")) }
}
