//! Conformance scripts of one path, similar to packetdrill: the fate of packets, and the behaviour
//! of the sender that an RFC requires.
//!
//! A [`Script`] is a TOML file (docs/scripts.md) with a path, rules for lost, marked and delayed
//! packets, the data of the application, and expectations, each with the section of its source.
//! [`Script::run`] runs one connection over the path in virtual time, records its state after every
//! event (`path`), and then compares every expectation with that record (`judge`).
//!
//! Nothing here is random, and no link of the simulator is involved: the expected values follow
//! from the text by arithmetic that fits into a comment.
//!
//! The modules, in the order of reading: `reader` reads scripts, `builtin` has those that come with
//! the program, `path` runs one, `judge` compares, and `conformance` writes the results of all.
//! `packetdrill` reads and runs scripts in packetdrill's language.

use std::path::Path;

use windward_core::units::{Duration, Rate, Time};
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::stack::Stacks;
use windward_sim::strict_toml::At;
use windward_sim::strict_toml::{FileError, Location};

mod builtin;
mod conformance;
mod judge;
mod packetdrill;
mod path;
mod reader;

pub use builtin::{all, select};
pub use conformance::conformance;
pub use judge::{Compliance, Finding, ScriptReport};
pub use packetdrill::{
    PacketCounts, PacketReport, PacketScript, PacketVerdict, TOLERANCE, packet_table,
};

/// A script: a path, the events on it, and expectations.
#[derive(Debug, Clone)]
pub struct Script {
    /// The file, as the user named it. For a script that comes with the program, its path below
    /// `experiments/scripts/` without the extension.
    pub name: String,
    /// Title, one line.
    pub title: String,
    /// Its source: `RFC 5681`.
    pub source: String,
    /// Further explanation; may be empty.
    pub about: String,
    /// The protocols that it applies to, as scenario files name them; never empty.
    pub protocols: Vec<String>,
    /// Stacks that it applies to as well, if the program includes them.
    pub foreign: Vec<String>,
    duration: Duration,
    route: Route,
    /// Keys and values of the two endpoints, as scenario files have them.
    endpoint: Vec<(At<String>, String)>,
    offers: Vec<Offer>,
    data: Vec<Rule>,
    acks: Vec<Rule>,
    expectations: Vec<Expectation>,
}

/// The path of packets.
#[derive(Debug, Clone, Copy)]
struct Route {
    /// Round-trip time without queues; half of it each way.
    rtt: Duration,
    /// Rate of data packets; `None` sends any number of them at once.
    rate: Option<Rate>,
    /// Queue limit: packets behind the one in transmission.
    queue: Option<u64>,
}

/// Additional data of the application from an instant on.
#[derive(Debug, Clone, Copy)]
struct Offer {
    at: Time,
    /// `u64::MAX` is data that never runs out.
    packets: u64,
}

/// Fate of some packets.
#[derive(Debug, Clone)]
struct Rule {
    which: Which,
    fate: Fate,
}

/// Packets that a rule applies to: those that meet every condition.
#[derive(Debug, Clone)]
struct Which {
    /// Numbers in the order of sending, from one.
    packet: Option<Numbers>,
    /// The data that they carry, from one, and the number of its transmission, from one.
    data: Option<Numbers>,
    transmission: Option<Numbers>,
    /// Sent from the first instant on and before the second.
    from: Time,
    until: Time,
    /// Every n-th of those, from one, and the maximum number of these.
    every: u64,
    first: u64,
}

/// Numbers from one, as single numbers and inclusive ranges.
#[derive(Debug, Clone, Default)]
struct Numbers(Vec<(u64, u64)>);

impl Numbers {
    fn has(&self, number: u64) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&number))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Lost,
    /// Congestion experienced, if the packet is ECN-capable.
    Marked,
    /// An additional delay, with which later packets may overtake it.
    Delayed(Duration),
}

/// One expectation.
#[derive(Debug, Clone)]
struct Expectation {
    line: usize,
    source: String,
    says: String,
    at: Moment,
    /// Requirements of the text for the state at that moment, by quantity; never empty.
    wants: Vec<(Quantity, Want)>,
    /// Protocols with a known departure from the text, each with the reason.
    departs: Vec<(String, String)>,
}

/// A moment of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Moment {
    text: String,
    /// True for the state just before it, false for the state after all its consequences.
    before: bool,
    anchor: Anchor,
    plus: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Anchor {
    Instant(Time),
    /// The n-th event of its kind, from one.
    Event(Event, u64),
}

/// Event that a moment can refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// A data packet leaves.
    Packet,
    /// A retransmission leaves.
    Retransmission,
    /// An acknowledgment reaches the sender.
    Ack,
    /// An acknowledgment with a congestion mark reaches the sender.
    Echo,
    /// The timer of recovery expires: a retransmission timeout, or a probe timeout.
    Timeout,
    /// A data packet is lost on its way.
    Loss,
    /// cwnd becomes smaller.
    Reduction,
}

impl Event {
    const ALL: [(Event, &'static str); 7] = [
        (Event::Packet, "packet"),
        (Event::Retransmission, "retransmission"),
        (Event::Ack, "ack"),
        (Event::Echo, "echo"),
        (Event::Timeout, "timeout"),
        (Event::Loss, "loss"),
        (Event::Reduction, "reduction"),
    ];

    fn word(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// Quantity that can be expected at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quantity {
    /// Packets.
    Cwnd,
    Ssthresh,
    InFlight,
    /// Packets per second.
    PacingRate,
    /// Seconds.
    Srtt,
    /// Time of the moment, seconds.
    Time,
    /// Number of the data, from one, in the packet of the moment.
    Data,
    /// Counts since the start.
    Packets,
    Reductions,
    Retransmissions,
    Timeouts,
    /// Packets of data that are cumulatively acknowledged.
    Acked,
}

impl Quantity {
    const ALL: [(Quantity, &'static str); 12] = [
        (Quantity::Cwnd, "cwnd"),
        (Quantity::Ssthresh, "ssthresh"),
        (Quantity::InFlight, "in_flight"),
        (Quantity::PacingRate, "pacing_rate"),
        (Quantity::Srtt, "srtt"),
        (Quantity::Time, "time"),
        (Quantity::Data, "data"),
        (Quantity::Packets, "packets"),
        (Quantity::Reductions, "reductions"),
        (Quantity::Retransmissions, "retransmissions"),
        (Quantity::Timeouts, "timeouts"),
        (Quantity::Acked, "acked"),
    ];

    fn word(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    fn is_time(self) -> bool {
        matches!(self, Quantity::Srtt | Quantity::Time)
    }
}

/// Requirement for a quantity: bounds of its value, or of its relation to another moment.
#[derive(Debug, Clone)]
struct Want {
    least: f64,
    most: f64,
    /// Subject of the bounds.
    of: Compared,
}

#[derive(Debug, Clone)]
enum Compared {
    Itself,
    /// Its difference from its value at that moment.
    Beyond(Moment),
    /// Its ratio to its value at that moment.
    Over(Moment),
    /// Its ratio to another quantity at that moment.
    OverOther(Quantity, Moment),
}

impl Script {
    /// A JSON Schema of scripts, for editors.
    pub fn json_schema() -> serde_json::Value {
        reader::schema()
    }

    /// Reads a script; `name` is its name in errors.
    ///
    /// # Errors
    /// If anything is unknown, missing or impossible, with its line.
    pub fn parse(name: &str, text: &str) -> Result<Script, FileError> {
        reader::parse(name, text)
    }

    /// Reads a script from a file; `-` is standard input.
    ///
    /// # Errors
    /// If it cannot be read, and as [`Script::parse`].
    pub fn read(path: &Path) -> Result<Script, FileError> {
        Self::parse(&ScenarioFile::name(path), &ScenarioFile::text(path)?)
    }

    /// Runs it with a protocol, named as `protocol` in scenario files (a row, one of `stacks`, or a
    /// table of parts written as TOML). Reports for each expectation whether it is met.
    ///
    /// # Errors
    /// If there is no such protocol, if it needs routers, if the script has settings that a stack
    /// does not support, or if the run has too many events.
    pub fn run(&self, protocol: &str, stacks: &Stacks) -> Result<ScriptReport, FileError> {
        let ends = path::Ends::new(self, protocol, stacks)?;
        let record = path::walk(self, ends)?;
        Ok(judge::judge(self, protocol, &record))
    }

    fn error(&self, line: usize, message: impl Into<String>) -> FileError {
        let file = self.name.clone();
        let location = match line {
            0 => Location::File { file },
            line => Location::Line { file, line, column: 1 },
        };
        FileError::new(location, message)
    }
}

/// Short name of a protocol: the `name` of a table of parts.
fn label(protocol: &str) -> &str {
    let name = protocol.split_once("name = \"").and_then(|(_, rest)| rest.split_once('"'));
    name.map_or(protocol, |(name, _)| name)
}

#[cfg(test)]
mod tests;
