//! Measurements of runs of programs side by side on one emulated link.

use serde::{Deserialize, Serialize};

/// Measurements of one program in one run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Goodput, bits per second of IP packets.
    pub goodput_bps: f64,
    /// Bits per second of IP packets that reached its receiver, duplicates included.
    pub arrived_bps: f64,
    /// Ratio of the packets that arrived at the link to those that it delivered.
    pub sent_per_delivered: f64,
    /// Mean queue length of the link, packets.
    pub mean_queue_packets: f64,
    /// Largest IP packet that reached the receiver, bytes.
    pub packet_size: u32,
    /// True if the program counted the goodput, which is unique data; false if the port counted
    /// what arrived.
    pub counted_by_program: bool,
}

/// Rates of a program and a rival side by side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// Bits per second of IP packets that reached the receiver of the program.
    pub own_bps: f64,
    /// Bits per second of IP packets that reached the receiver of the rival.
    pub rival_bps: f64,
}

/// One run of a program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Name of the program.
    pub program: String,
    /// Loss rate of the link in the direction of data.
    pub loss: f64,
    /// Seed of the random streams of the link.
    pub seed: u64,
    /// The program alone; absent if `unusable` says why.
    pub alone: Option<Measured>,
    /// The same in virtual time.
    pub simulated: Option<Measured>,
    /// The program beside a competing flow.
    pub beside: Option<Beside>,
    /// The same in virtual time.
    pub simulated_beside: Option<Beside>,
    /// Share of packets that the emulator delivered more than a millisecond late, in the worst
    /// emulation that counts here.
    pub late_share: f64,
    /// Share of the time for which the programs of the end with the longest waits waited for a CPU,
    /// in the worst emulation that counts here; absent where the kernel does not count it.
    pub programs_waited_share: Option<f64>,
    /// Reason why measurements are missing.
    pub unusable: Option<String>,
}
