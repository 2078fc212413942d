//! The receiver of media: the arrival of each packet, reported at intervals.
//!
//! Reports are those of RFC 8888 on an RTP stream: contiguous ranges of sequence numbers, with the
//! arrival time and the ECN mark of each packet that came. A range ends with the last packet that
//! arrived, so a packet that is missing from it is lost, or late: it counts as lost, as RFC 8698
//! section 5.1.2 asks. Time is exact, where RFC 8888 counts in 1/1024 s.

use crate::units::{Duration, Time};

/// A report of a receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// First sequence number of its range.
    pub first: u64,
    /// One past the last, which is the highest that had arrived.
    pub end: u64,
    /// The packets of the range that arrived, in order: sequence number, time and mark.
    pub arrivals: Vec<(u64, Time, bool)>,
    /// Time at which it was made.
    pub made: Time,
}

impl Report {
    /// Largest number of packets in the range of a report (RFC 8888 section 3.1).
    const MOST: u64 = 16384;

    /// Size on the wire, bytes: IPv4 and UDP (28), the RTCP header with the sender's SSRC (8), the
    /// block of one stream (8), two bytes for each packet of the range, padded to words, and the
    /// time (4): RFC 8888 section 3.1.
    pub fn size(&self) -> u32 {
        Self::size_for(self.end - self.first)
    }

    /// [`Report::size`] of a report on this many packets.
    pub fn size_for(packets: u64) -> u32 {
        28 + 8 + 8 + (2 * packets.min(Self::MOST) as u32).next_multiple_of(4) + 4
    }
}

/// The receiver of a stream.
#[derive(Debug, Clone)]
pub struct MediaReceiver {
    /// First sequence number that no report covers.
    first: u64,
    arrivals: Vec<(u64, Time, bool)>,
    bytes: u64,
    /// Time of the latest report; of the first arrival before there is one.
    reported: Option<Time>,
    /// Rate at which packets arrived in the interval before, bits per second.
    rate: f64,
}

impl MediaReceiver {
    /// A receiver of packets numbered from `first`.
    pub fn new(first: u64) -> Self {
        MediaReceiver { first, arrivals: Vec::new(), bytes: 0, reported: None, rate: 0.0 }
    }

    /// Takes a packet. One whose range has been reported is ignored.
    pub fn on_packet(&mut self, now: Time, seq: u64, size: u32, marked: bool) {
        self.reported.get_or_insert(now);
        if seq >= self.first {
            self.arrivals.push((seq, now, marked));
            self.bytes += u64::from(size);
        }
    }

    /// Rate at which packets arrived between the latest two reports, bits per second.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Time at which a report is due; [`Time::NEVER`] while there is nothing to report. `interval`
    /// is the time between reports.
    pub fn next_report(&self, interval: Duration) -> Time {
        match self.reported {
            Some(reported) if !self.arrivals.is_empty() => reported + interval,
            _ => Time::NEVER,
        }
    }

    /// Makes the report that is due.
    pub fn report(&mut self, now: Time) -> Report {
        let mut arrivals = std::mem::take(&mut self.arrivals);
        arrivals.sort_unstable_by_key(|(seq, ..)| *seq);
        arrivals.dedup_by_key(|(seq, ..)| *seq);
        let end = arrivals.last().map_or(self.first, |(seq, ..)| seq + 1);
        if let Some(before) = self.reported.replace(now)
            && now > before
        {
            self.rate = super::rate_over(self.bytes, now.since(before));
        }
        self.bytes = 0;
        let first = std::mem::replace(&mut self.first, end);
        Report { first, end, arrivals, made: now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ms;

    #[test]
    fn ranges_are_contiguous_and_end_with_the_last_arrival() {
        let interval = Duration::from_millis(100);
        let mut receiver = MediaReceiver::new(1);
        assert_eq!(receiver.next_report(interval), Time::NEVER);
        receiver.on_packet(ms(10), 1, 1000, false);
        receiver.on_packet(ms(30), 4, 1000, true);
        receiver.on_packet(ms(40), 3, 1000, false);
        assert_eq!(receiver.next_report(interval), ms(110));
        let report = receiver.report(ms(110));
        assert_eq!((report.first, report.end), (1, 5));
        let arrivals = [(1, ms(10), false), (3, ms(40), false), (4, ms(30), true)];
        assert_eq!(report.arrivals, arrivals);
        // 28 + 8 + 8 + 4 x 2 + 4 bytes.
        assert_eq!(report.size(), 56);
        // 24 000 bits in 100 ms.
        assert!((receiver.rate() - 240_000.0).abs() < 1e-6, "{}", receiver.rate());
        // Packet 2 comes too late.
        receiver.on_packet(ms(120), 2, 1000, false);
        assert_eq!(receiver.next_report(interval), Time::NEVER);
        receiver.on_packet(ms(130), 6, 1000, false);
        let report = receiver.report(ms(210));
        assert_eq!((report.first, report.end, report.arrivals.len()), (5, 7, 1));
        // Two packets take one word.
        assert_eq!(report.size(), 52);
    }
}
