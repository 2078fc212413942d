//! Logs: writers of simulated runs as qlog and pcapng, and a reader and a comparison for qlog files
//! of any stack.
//!
//! [`qlog`] and [`pcap`] observe a simulation and write the events of its endpoints and links. They
//! are independent of the readers, which follow in the order of reading: [`LogEvent`] is one event
//! (`event`), `scan` finds the values of a JSON text without storing it, `reader` returns events
//! one by one, `quantity` has the compared quantities, `side` collects the state of one log, and
//! `compare` compares two logs.
//!
//! [`LogReader`] reads qlog 0.3, 0.4 and the current drafts, as JSON, as JSON text sequences (RFC
//! 7464) and as lines of JSON, and the rows of draft-00 and draft-01, which picoquic writes. It
//! stores only one event at a time. [`compare()`] puts two logs of the same workload on one clock
//! and reports where they depart.

mod compare;
mod event;
pub mod pcap;
pub mod qlog;
mod quantity;
mod reader;
mod scan;
mod side;

pub use compare::{
    Align, CompareError, CompareOptions, Comparison, Departure, EventPlace, LogSummary, Sample,
    compare,
};
pub use event::{LogEvent, Metrics, What};
pub use quantity::Quantity;
pub use reader::{Layout, LogError, LogInfo, LogReader};
pub use side::{Counts, Notable};

#[cfg(test)]
mod tests;
