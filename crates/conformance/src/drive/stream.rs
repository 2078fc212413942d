//! The bytes that were written, in segments: each is one packet of the sender.

use windward_core::packet::SackBlock;
use windward_core::units::Time;

/// One segment of data.
#[derive(Debug, Clone)]
pub(super) struct Data {
    /// The byte behind it, from 0.
    end: u64,
    sent: Time,
    number: u64,
    times: u32,
    arrived: bool,
}

/// The segments of a connection.
#[derive(Default)]
pub(super) struct Stream {
    data: Vec<Data>,
    pub(super) written: u64,
    pub(super) acked: u64,
}

/// The newest segments that an acknowledgment reports, cumulatively and selectively.
#[derive(Default)]
pub(super) struct Reported {
    cumulative: Option<Data>,
    selective: Option<Data>,
    /// True if some of the first were sent more than once.
    pub(super) ambiguous: bool,
}

impl Reported {
    /// Number of the newest transmission.
    pub(super) fn number(&self) -> u64 {
        let both = [&self.cumulative, &self.selective].into_iter().flatten();
        both.map(|data| data.number).max().unwrap_or(0)
    }

    /// Time at which the segment that gives an RTT was sent, if it was sent once. `echoed` is the
    /// time that the echo of a timestamp gives, which tells transmissions apart (RFC 7323).
    pub(super) fn timed(&self, echoed: Option<Time>) -> Option<Time> {
        match (&self.cumulative, &self.selective) {
            (Some(data), _) if !self.ambiguous => Some(data.sent),
            (Some(_), _) => echoed,
            (None, Some(data)) if data.times == 1 => Some(data.sent),
            _ => None,
        }
    }
}

impl Stream {
    /// Number of segments.
    pub(super) fn len(&self) -> u64 {
        self.data.len() as u64
    }

    /// The byte behind the first segments, from 0.
    pub(super) fn end_of(&self, segments: u64) -> u64 {
        match segments {
            0 => 0,
            segments => self.data[segments as usize - 1].end,
        }
    }

    /// Divides what was written into segments (RFC 9293). `sent` is the number of those that have
    /// left.
    pub(super) fn cut(&mut self, mss: u64, sent: u64, no_delay: bool) {
        // An unsent segment that is not full takes more.
        if self.len() > sent {
            let (start, end) = (self.end_of(self.len() - 1), self.end_of(self.len()));
            if end - start < mss && end < self.written {
                self.data.pop();
            }
        }
        let mut end = self.end_of(self.len());
        let blank = Data { end: 0, sent: Time::ZERO, number: 0, times: 0, arrived: false };
        while self.written - end >= mss {
            end += mss;
            self.data.push(Data { end, ..blank.clone() });
        }
        // Nagle's rule in Minshall's version: one segment that is not full may be unacknowledged.
        let mut start = self.acked;
        let unacknowledged = self.data.iter().filter(|data| data.end > self.acked);
        let small = unacknowledged.fold(false, |small, data| {
            let is_small = data.end - start < mss && data.times > 0;
            start = data.end;
            small || is_small
        });
        if self.written > end && (no_delay || !small) {
            self.data.push(Data { end: self.written, ..blank });
        }
    }

    /// Notes a transmission of a segment.
    pub(super) fn sent(&mut self, at: u64, now: Time, number: u64) {
        let data = &mut self.data[at as usize];
        (data.sent, data.number) = (now, number);
        data.times += 1;
    }

    /// Number of segments below a byte.
    pub(super) fn below(&self, byte: u64) -> u64 {
        self.data.partition_point(|data| data.end <= byte) as u64
    }

    /// The whole segments within blocks of bytes, as Linux rounds.
    pub(super) fn blocks(&self, sacks: &[(u64, u64)]) -> Vec<SackBlock> {
        let block = |&(start, end): &(u64, u64)| {
            let (start, end) = (start.saturating_sub(1), end.saturating_sub(1));
            let first = self.below(start);
            let first = if self.end_of(first) >= start { first } else { first + 1 };
            let last = self.below(end);
            (first < last).then_some(SackBlock { start: first, end: last })
        };
        sacks.iter().filter_map(block).collect()
    }

    /// Notes the segments that have arrived: those from `before` to `una`, and those in `blocks`.
    pub(super) fn arrive(&mut self, before: u64, una: u64, blocks: &[SackBlock]) -> Reported {
        let mut reported = Reported::default();
        for (at, data) in (0..).zip(&mut self.data).filter(|(_, data)| !data.arrived) {
            if (before..una).contains(&at) {
                reported.ambiguous |= data.times > 1;
                reported.cumulative = Some(data.clone());
                data.arrived = true;
            } else if at >= una.max(before)
                && blocks.iter().any(|block| (block.start..block.end).contains(&at))
            {
                data.arrived = true;
                if reported.selective.as_ref().is_none_or(|known| known.number < data.number) {
                    reported.selective = Some(data.clone());
                }
            }
        }
        reported
    }

    /// Number of transmissions, and of those that were not the first.
    pub(super) fn transmissions(&self) -> (u64, u64) {
        let times = |data: &Data| u64::from(data.times);
        let again = |data: &Data| u64::from(data.times.saturating_sub(1));
        (self.data.iter().map(times).sum(), self.data.iter().map(again).sum())
    }
}
