//! TCP and UDP services over one QUIC connection: `windward serve` and `windward forward`.
//!
//! The modules, in the order of reading:
//!
//! - `target`: targets, rules that allow them, and what `-L` and `-D` say. `access`: keys and their
//!   rules.
//! - `wire`: the messages between both sides. `socks`: those of SOCKS5.
//! - `credit`: bounds for buffers, and the order of streams. `session`: a QUIC connection
//!   with its control stream. `pump`: the bytes of one TCP connection. `udp`: the datagrams of one
//!   flow.
//! - `activity`, `limits` and `meter`: what a peer may take and for how long, and what was done.
//! - `server`, `link` and `forwarder`: both sides. `program`: both as programs, with signals.

mod access;
mod activity;
mod credit;
mod forwarder;
mod limits;
mod link;
mod meter;
mod program;
mod pump;
mod reply;
mod server;
mod session;
mod socks;
mod target;
mod udp;
mod wire;

use std::sync::Arc;
use std::time::Duration;

pub use access::Access;
pub use forwarder::{Forwarder, ForwarderSettings, Ports};
pub use limits::Limits;
pub use link::Remote;
pub use meter::Meter;
pub use program::{ForwarderProgram, News, ServerProgram};
pub use reply::Reply;
pub use server::{Invitation, Server, ServerSettings};
pub use target::{Host, Mapping, Rule, Rules, Target, read_bind};

use crate::endpoint::{Options, Windows};
use crate::qlog::Qlog;

/// First byte of the control stream of a server that accepts the peer.
const WELCOME: u8 = 1;

/// Properties of a connection on which the peer may open so many streams, and have so many bytes
/// wait beyond the first credit of each.
fn options(
    protocol: Option<&str>,
    qlog: Option<Arc<Qlog>>,
    streams: usize,
    buffer: u64,
) -> Options {
    let default = Options::default();
    // quinn gives places of streams back in steps of an eighth of their number, and streams that
    // are refused need some. Each stream may fill its first credit, and large datagrams have a
    // little.
    let streams = u32::try_from(streams + streams / 4 + 16).unwrap_or(u32::MAX);
    let first = credit::FIRST_CREDIT.saturating_mul(u64::from(streams.max(1025)));
    let window = first.saturating_add(buffer).saturating_add(2 << 20);
    Options {
        protocol: protocol.map_or(default.protocol.clone(), str::to_owned),
        qlog,
        windows: Windows {
            receive: u32::try_from(window).unwrap_or(u32::MAX),
            // The credit of a stream is the bound that counts.
            stream: u32::try_from(2 * credit::LARGEST_WINDOW).unwrap_or(u32::MAX),
            are_fixed: true,
            ..default.windows
        },
        bidi_streams: streams,
        uni_streams: 32,
        datagrams: 256 << 10,
        // Longer than most outages, so that connections survive them.
        idle_timeout: Duration::from_secs(60),
        ..default
    }
}
