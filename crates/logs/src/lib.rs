//! Logs: simulated runs written as qlog and pcapng, and qlog files of any stack read and compared.
//!
//! [`qlog`] and [`pcap`] observe a simulation and write what its endpoints and links saw. They take
//! nothing from the readers, which follow in the order of reading: [`LogEvent`] is one event
//! (`event`), `scan` finds the values of a JSON text without holding it, `reader` gives events one
//! by one, `side` collects what one log says of its connection, and `compare` puts two logs side by
//! side.
//!
//! [`LogReader`] takes qlog 0.3, 0.4 and the current drafts, as JSON, as JSON text sequences (RFC
//! 7464) and as lines of JSON; and the rows of draft-00 and draft-01, which picoquic writes. It
//! holds no more than one event at a time. [`compare()`] puts two logs of the same workload on one
//! clock and says where they part.

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
