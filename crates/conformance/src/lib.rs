//! Scripts of one path, in the spirit of packetdrill: what becomes of which packet, and what the
//! sender must do then, by the text of an RFC.
//!
//! A [`Script`] is a TOML file (docs/scripts.md): a path, what is lost, marked or delayed on it,
//! what the application offers, and expectations, each with the section that asks for it.
//! [`Script::run`] lets one connection cross the path in virtual time, writes down its state after
//! everything that happens (`path`), and then holds every expectation against that record
//! (`judge`).
//!
//! Nothing here is random, and no link of the simulator is in between: what is expected follows
//! from the text by arithmetic that fits into a comment.

use std::path::Path;

use windward_core::units::{Duration, Rate, Time};
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::stack::Stacks;
use windward_sim::strict_toml::At;
use windward_sim::strict_toml::{FileError, Location};

mod builtin;
mod conformance;
mod judge;
mod path;
mod reader;

pub use builtin::{all, select};
pub use conformance::conformance;
pub use judge::{Compliance, Finding, ScriptReport};

/// A script: a path, what happens on it, and what is expected.
#[derive(Debug, Clone)]
pub struct Script {
    /// The file, as the user named it; of one that comes with the program its path below
    /// `experiments/scripts/`, without the ending.
    pub name: String,
    /// Title, one line.
    pub title: String,
    /// The text that it holds senders to: `RFC 5681`.
    pub source: String,
    /// Further explanation; may be empty.
    pub about: String,
    /// The protocols of which it is expected, as scenario files name them; never empty.
    pub protocols: Vec<String>,
    /// Stacks of which it is expected too, where the program has them.
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

/// Where packets go along.
#[derive(Debug, Clone, Copy)]
struct Route {
    /// From sender to receiver and back, without queues; half of it each way.
    rtt: Duration,
    /// Rate of data packets; `None` sends any number of them at once.
    rate: Option<Rate>,
    /// How many packets may wait behind the one in transmission.
    queue: Option<u64>,
}

/// The application has so many packets more from an instant on.
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

/// Which packets a rule concerns: all that meet every condition.
#[derive(Debug, Clone)]
struct Which {
    /// The place in the order in which they are sent, from one.
    packet: Option<Numbers>,
    /// The data that they carry, from one, and of which transmission of it, from one.
    data: Option<Numbers>,
    transmission: Option<Numbers>,
    /// Sent from the first instant on and before the second.
    from: Time,
    until: Time,
    /// Of those every so many-th, from one, and of these so many at most.
    every: u64,
    first: u64,
}

/// Numbers from one, as single ones and as ranges with both ends.
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
    /// Congestion experienced, where the packet can say so.
    Marked,
    /// Later than the path alone would have it, so that others may overtake it.
    Delayed(Duration),
}

/// One thing that is expected.
#[derive(Debug, Clone)]
struct Expectation {
    line: usize,
    source: String,
    says: String,
    at: Moment,
    /// Requirements of the text for the state at that moment, by quantity; never empty.
    wants: Vec<(Quantity, Want)>,
    /// Protocols that are known to depart from the text, each with the reason.
    departs: Vec<(String, String)>,
}

/// A moment of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Moment {
    text: String,
    /// Just before it, and not after all that it led to.
    before: bool,
    anchor: Anchor,
    plus: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Anchor {
    Instant(Time),
    /// The n-th of its kind, from one.
    Event(Event, u64),
}

/// Event that a moment can refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// A data packet leaves.
    Packet,
    /// A data packet leaves whose data had left before.
    Retransmission,
    /// An acknowledgment reaches the sender.
    Ack,
    /// One that reports a congestion mark does.
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
    /// When it is, seconds.
    Time,
    /// The data, from one, that the packet of the moment carries.
    Data,
    /// Counts since the start.
    Packets,
    Reductions,
    Retransmissions,
    Timeouts,
    /// Packets of data that are acknowledged, all before them included.
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

/// Requirement for a quantity: bounds of itself, or of how it compares with another moment.
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
    /// Its difference to what it was then.
    Beyond(Moment),
    /// Its ratio to what it was then.
    Over(Moment),
    /// Its ratio to another quantity, then.
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
    /// Anything unknown, missing or impossible, with its line.
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

    /// Runs it with a protocol, as the `protocol` of scenario files names one (a row, one of
    /// `stacks`, or a table of parts written as TOML), and says of each expectation whether it is
    /// met.
    ///
    /// # Errors
    /// If there is no such protocol, if it needs routers, if the script asks for what a stack does
    /// not take, or if the run sends more than a script can be about.
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

/// Short name of a protocol: of a table of parts its `name`.
fn label(protocol: &str) -> &str {
    let name = protocol.split_once("name = \"").and_then(|(_, rest)| rest.split_once('"'));
    name.map_or(protocol, |(name, _)| name)
}

#[cfg(test)]
mod tests;
