//! Counts of a transfer, and what a live line shows of its path.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::sync::lock;
use crate::transfer::path::RelPath;

/// Counts of a transfer, updated while it runs.
#[derive(Debug, Default)]
pub struct Figures {
    /// Files found so far.
    pub files: Counter,
    /// Their size, bytes.
    pub size: Counter,
    /// True when all files are found.
    pub is_counted: AtomicBool,
    /// Counts of the present connection.
    pub now: Progress,
    /// Bytes of contents that were written to streams, in all connections: holes are not.
    pub sent: Counter,
    /// Steps of the protocol, in all connections: each moves the transfer on.
    pub(crate) steps: Counter,
    /// Connections that were lost.
    pub reconnects: Counter,
    path: Mutex<PathFigures>,
    remarks: Mutex<Remarks>,
    said: Mutex<Vec<String>>,
}

/// Counts of one connection.
#[derive(Debug, Default)]
pub struct Progress {
    /// Entries with an outcome.
    pub settled: Counter,
    /// Bytes of files that are sent or were there already.
    pub done: Counter,
    /// Entries stored.
    pub stored: Counter,
    /// Entries that were there already.
    pub same: Counter,
    /// Links that were left out.
    pub skipped_links: Counter,
    /// Entries that a dry run would send.
    names: Mutex<Vec<RelPath>>,
}

/// A count that several threads change.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to the count.
    pub fn add(&self, by: u64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    /// The count.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Properties of the path of the present connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct PathFigures {
    /// Smoothed RTT, seconds.
    pub rtt: f64,
    /// Smallest RTT, seconds.
    pub min_rtt: f64,
    /// Congestion window, bytes.
    pub window: u64,
    /// Largest UDP payload, bytes.
    pub mtu: u16,
    /// Packets sent.
    pub packets: u64,
    /// Packets lost.
    pub lost: u64,
}

impl PathFigures {
    /// Proportion of packets lost, 0 to 1.
    pub fn loss(&self) -> f64 {
        if self.packets == 0 { 0.0 } else { self.lost as f64 / self.packets as f64 }
    }

    /// Queueing delay: smoothed RTT above the smallest, seconds.
    pub fn queue(&self) -> f64 {
        (self.rtt - self.min_rtt).max(0.0)
    }

    /// Rate that CUBIC would reach at this loss and the smallest RTT, bit/s, if the link itself is
    /// not the limit; `None` without a loss.
    pub fn cubic(&self) -> Option<f64> {
        let rtt = if self.min_rtt > 0.0 { self.min_rtt } else { self.rtt };
        (self.lost > 0 && rtt > 0.0).then(|| cubic_rate(self.loss(), rtt, f64::from(self.mtu)))
    }
}

/// Average rate of CUBIC, bit/s, at a proportion of lost packets `p`, an RTT in seconds and packets
/// of `mtu` bytes: RFC 9438 section 5.1, with C = 0.4 and beta = 0.7. In the Reno-friendly region,
/// where Reno has the larger window, it is Reno's: sqrt(3 / (2 p)) packets (section 4.3 with
/// Mathis et al. 1997).
pub fn cubic_rate(p: f64, rtt: f64, mtu: f64) -> f64 {
    const C: f64 = 0.4;
    const BETA: f64 = 0.7;
    // Figure 6 of RFC 9438.
    let cubic =
        (C * (3.0 + BETA) / (4.0 * (1.0 - BETA))).powf(0.25) * rtt.powf(0.75) / p.powf(0.75);
    let reno = (1.5 / p).sqrt();
    cubic.max(reno) * mtu * 8.0 / rtt * (1.0 - p)
}

/// Remarks about entries, of which so many are kept.
#[derive(Debug, Default, Clone)]
pub struct Remarks {
    /// Entries that were left out on purpose.
    pub skipped: u64,
    /// Entries that failed.
    pub failed: u64,
    /// The latest remarks that nobody has read: text, and true for a failure.
    pub pending: Vec<(String, bool)>,
}

/// Most remarks that wait to be read.
const MAX_PENDING: usize = 1000;

impl Figures {
    /// Notes the path of the present connection.
    pub fn set_path(&self, path: PathFigures) {
        *lock(&self.path) = path;
    }

    /// Path of the present connection.
    pub fn path(&self) -> PathFigures {
        *lock(&self.path)
    }

    /// Begins the counts of a new connection.
    pub fn begin(&self) {
        let Progress { settled, done, stored, same, skipped_links, names } = &self.now;
        for counter in [settled, done, stored, same, skipped_links] {
            counter.reset();
        }
        lock(names).clear();
        *lock(&self.remarks) = Remarks::default();
    }

    /// Notes an entry that a dry run would send.
    pub(crate) fn would_send(&self, name: RelPath) {
        self.now.stored.add(1);
        lock(&self.now.names).push(name);
    }

    /// Entries that a dry run would send, sorted by name.
    pub fn take_names(&self) -> Vec<RelPath> {
        let mut names = std::mem::take(&mut *lock(&self.now.names));
        names.sort();
        names
    }

    /// Notes an entry that is not sent.
    pub fn remark(&self, text: String, is_failure: bool) {
        let mut remarks = lock(&self.remarks);
        if is_failure {
            remarks.failed += 1;
        } else {
            remarks.skipped += 1;
        }
        if remarks.pending.len() < MAX_PENDING {
            remarks.pending.push((text, is_failure));
        }
    }

    /// Remarks since the last call, with the counts of all.
    pub fn take_remarks(&self) -> Remarks {
        let mut remarks = lock(&self.remarks);
        let pending = std::mem::take(&mut remarks.pending);
        Remarks { pending, ..remarks.clone() }
    }

    /// Tells the user something that concerns no entry.
    pub fn say(&self, text: String) {
        lock(&self.said).push(text);
    }

    /// Texts of [`Figures::say`] since the last call.
    pub fn take_said(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.said))
    }

    /// How far the present connection is: bytes and entries that are done.
    pub(crate) fn extent(&self) -> u64 {
        self.now.done.get().saturating_add(self.now.settled.get())
    }
}

/// Time until a transfer is complete at a rate, if both its size and the rate are known.
pub fn eta(left: u64, rate: f64) -> Option<Duration> {
    let seconds = left as f64 * 8.0 / rate;
    (rate > 0.0 && seconds < 1e7).then(|| Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9438 table 1 (RTT 0.1 s, C = 0.4): windows in packets at p = 10^-2, 10^-4, 10^-6.
    #[test]
    fn cubic_has_the_windows_of_the_rfc() {
        for (p, window) in [(1e-2, 12.0), (1e-4, 187.0), (1e-6, 5926.0)] {
            // 1000 bits per packet and RTT; the factor 1 - p is that of the goodput.
            let mtu = 125.0;
            let packets = cubic_rate(p, 0.1, mtu) * 0.1 / (mtu * 8.0) / (1.0 - p);
            // In the table, Reno has 12 and 120 at the first two.
            let expected = f64::max(window, (1.5 / p).sqrt());
            assert!((packets / expected - 1.0).abs() < 0.03, "{p}: {packets} against {expected}");
        }
    }

    #[test]
    fn figures_without_a_packet_are_defined() {
        let path = PathFigures::default();
        assert_eq!((path.loss(), path.queue(), path.cubic()), (0.0, 0.0, None));
        assert_eq!(eta(1000, 0.0), None);
        assert_eq!(eta(1000, 8000.0), Some(Duration::from_secs(1)));
    }
}
