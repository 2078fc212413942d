//! Measurements between two hosts, as iperf3 does them for TCP: the sender and the receiver of
//! [`windward_core`], with any protocol, over UDP.
//!
//! The [server](serve) serves the [client](run) only after the client has returned a cookie, which
//! proves that it receives datagrams at its address; until then every answer is shorter than its
//! request. A connection has one direction of data, so that flows in parallel are connections in
//! parallel. Each end drives its endpoint by the monotonic clock. Packets that the socket does not
//! take go back to the sender, which sends them first.
//!
//! With a [pre-shared key](Psk) every datagram is authentic and counts once. docs/perf-protocol.md
//! has the format.
//!
//! ```
//! use std::net::Ipv4Addr;
//! use std::sync::atomic::{AtomicBool, Ordering};
//! use windward_net::perf::{ClientConfig, Server, ServerConfig, Test, run, serve};
//!
//! static STOP: AtomicBool = AtomicBool::new(false);
//! let server = Server::bind((Ipv4Addr::LOCALHOST, 0).into(), ServerConfig::default())?;
//! let address = server.local_addr()?;
//! let serving = std::thread::spawn(|| serve(server, &STOP, |_| {}));
//!
//! let test = Test { packets: 100, ..Test::of("cubic") };
//! let outcome = run(address, &ClientConfig::new(test), &AtomicBool::new(false), |_| {})?;
//! assert_eq!(outcome.flows[0].receiver.unique, 100);
//!
//! STOP.store(true, Ordering::Relaxed);
//! serving.join().expect("it ends")?;
//! # Ok::<(), windward_net::perf::Error>(())
//! ```

use std::io;
use std::net::SocketAddr;

use windward_core::units::Duration;

#[cfg(test)]
mod amplification;
mod client;
mod connection;
mod frame;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod guard;
mod keys;
mod plan;
mod server;
mod socket;
#[cfg(test)]
mod tests;

pub use client::{ClientConfig, FlowOutcome, Interval, Outcome, Progress, Watch, run};
pub use frame::{Counts, Refusal, Sample};
pub use guard::{Ending, Limits};
pub use keys::{MIN_KEY_LEN, NoRandomness, Psk};
pub use plan::{
    DATAGRAM, GROUPS, MAX_RWND, MAX_SECONDS, MAX_WORDS, MIN_REPORT, Plan, Test, overhead,
};
pub use server::{Event, Served, Server, ServerConfig, Totals, serve};

/// Default port of the server.
pub const PORT: u16 = 9743;
/// Largest number of parallel connections of one client, in each direction.
pub const MAX_FLOWS: usize = 128;
/// Time after which a silent peer is given up: longer than a process is likely to be stopped. A
/// sender regards its peer as silent if nothing new is acknowledged, a receiver if nothing new
/// arrives.
pub const PATIENCE: Duration = Duration::from_secs(15);
/// Time after which a peer that has delivered something is given up: with half of all packets lost,
/// timeouts grow up to the 60 s of RFC 6298, and this is four of them.
pub const MAX_SILENCE: Duration = Duration::from_secs(240);

/// Reason why a measurement failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error("cannot {doing}: {source}")]
    Io {
        /// The attempt, such as `bind to 127.0.0.1:9743`.
        doing: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The system has no random bytes.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    /// No server listens there (ICMP port unreachable).
    #[error("nothing listens at {0}: start `windward perf server` there, or set its --port")]
    NothingListens(SocketAddr),
    /// No answer came.
    #[error("no answer from {0}: check that `windward perf server` runs there and that UDP passes")]
    NoAnswer(SocketAddr),
    /// The server has become silent.
    #[error(
        "nothing new has arrived from {0} for {PATIENCE} or longer: the server or the path is down"
    )]
    Silent(SocketAddr),
    /// The server refused.
    #[error("the server refused: {reason}")]
    Refused {
        /// The reason, for programs.
        refusal: Refusal,
        /// The reason, as text.
        reason: String,
    },
    /// The protocol or a parameter is invalid; the reason as text.
    #[error("{0}")]
    Test(String),
    /// Datagrams of this size exceed the MTU of the interface.
    #[error(
        "datagrams of {datagram} bytes exceed the MTU of the interface: choose a smaller packet_size"
    )]
    TooLarge {
        /// Bytes of UDP payload.
        datagram: usize,
    },
}

impl Error {
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io { doing: doing.into(), source }
    }
}
