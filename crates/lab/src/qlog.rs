//! qlog files, of whatever stack: read event by event, and two of them compared.
//!
//! [`LogReader`] takes qlog 0.3, 0.4 and the current drafts, as JSON, as JSON text sequences (RFC 7464)
//! and as lines of JSON; and the rows of draft-00 and draft-01, which picoquic writes. It holds no more
//! than one event at a time. [`compare()`] puts two logs of the same workload on one clock and says where
//! they part.

mod compare;
mod event;
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
