//! Datagram sources: constant, exponential on/off, by schedule, media.

use windward_core::packet::Packet;
use windward_core::rng::Stream;
use windward_core::units::{Duration, Rate, Time};

use super::hop::Span;
use super::media::Encoder;
use crate::scenario::Pattern;

/// A stream of datagrams: when the next one is due.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) packet_size: u32,
    pattern: Pattern,
    stream: Stream,
    stop: Time,
    /// When the next datagram leaves.
    next: Time,
    /// End of the on period under way (exponential), or index of the interval (schedule).
    on_until: Time,
    interval: usize,
    pub(super) sent: u64,
    /// Of those sent after the warm-up, what was lost.
    pub(super) lost: u64,
    /// How long those took that arrived after the warm-up, added up, picoseconds.
    pub(super) delays: u128,
    /// Bytes that arrived after the warm-up.
    pub(super) bytes: u64,
    /// If it sends frames.
    pub(super) media: Option<Box<Encoder>>,
}

impl Source {
    pub(super) fn new(
        pattern: &Pattern,
        packet_size: u32,
        start: Time,
        stop: Time,
        stream: Stream,
    ) -> Self {
        let mut source = Source {
            packet_size,
            pattern: pattern.clone(),
            stream,
            stop,
            next: start,
            on_until: Time::NEVER,
            interval: 0,
            sent: 0,
            lost: 0,
            delays: 0,
            bytes: 0,
            media: None,
        };
        match &source.pattern {
            Pattern::Constant { .. } | Pattern::Media(_) => {}
            Pattern::Exponential { mean_on, .. } => {
                source.on_until = start + source.stream.exponential(*mean_on);
            }
            Pattern::Schedule { intervals } => {
                source.next = intervals.first().map_or(Time::NEVER, |i| i.0.max(start));
            }
        }
        source.skip_silence();
        source
    }

    /// When [`Source::emit`] must be called, or never again.
    pub(super) fn next(&self) -> Time {
        if self.next < self.stop { self.next } else { Time::NEVER }
    }

    /// Writes the datagram that leaves now, at the time named by [`Source::next`].
    pub(super) fn emit(&mut self, packet: &mut Packet, window: Span) {
        self.sent += 1;
        (packet.seq, packet.size) = (self.sent, self.packet_size);
        if let Some(media) = &mut self.media {
            media.emit(&mut self.stream, self.packet_size, packet);
            media.count_frame(window);
            self.next = media.next();
            return;
        }
        let rate = match &self.pattern {
            Pattern::Constant { rate } | Pattern::Exponential { rate, .. } => *rate,
            Pattern::Schedule { intervals } => intervals[self.interval].2,
            Pattern::Media(media) => media.rate,
        };
        self.next += self.gap(rate);
        self.skip_silence();
    }

    /// Time between two datagrams; never zero, so that time goes on.
    fn gap(&self, rate: Rate) -> Duration {
        rate.transmission_time(self.packet_size).max(Duration::from_ps(1))
    }

    /// Moves `next` out of the times in which the source is silent.
    fn skip_silence(&mut self) {
        match &self.pattern {
            Pattern::Constant { .. } | Pattern::Media(_) => {}
            Pattern::Exponential { mean_on, mean_off, .. } => {
                while self.next >= self.on_until && self.next < self.stop {
                    let pause = self.stream.exponential(*mean_off);
                    self.next = self.next.max(self.on_until + pause);
                    self.on_until = self.on_until + pause + self.stream.exponential(*mean_on);
                }
            }
            Pattern::Schedule { intervals } => {
                while let Some((_, until, _)) = intervals.get(self.interval) {
                    if self.next < *until {
                        return;
                    }
                    self.interval += 1;
                    self.next = match intervals.get(self.interval) {
                        Some((from, ..)) => self.next.max(*from),
                        None => Time::NEVER,
                    };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }
    /// 1000 bytes at 8 Mbit/s: one datagram a millisecond.
    fn rate() -> Rate {
        Rate::from_bps(8_000_000).unwrap()
    }
    fn times(pattern: &Pattern, start: Time, stop: Time) -> Vec<Time> {
        let mut source = Source::new(pattern, 1000, start, stop, Stream::new(1, "source", "test"));
        let mut times = Vec::new();
        while source.next() != Time::NEVER {
            times.push(source.next());
            let window = Span { from: Time::ZERO, until: Time::NEVER };
            source.emit(&mut Packet::default(), window);
        }
        assert_eq!(source.sent, times.len() as u64);
        times
    }

    #[test]
    fn constant_sends_from_start_to_stop() {
        let sent = times(&Pattern::Constant { rate: rate() }, at(5), at(8));
        assert_eq!(sent, [at(5), at(6), at(7)]);
    }

    #[test]
    fn a_schedule_sends_in_its_intervals() {
        let slow = Rate::from_bps(4_000_000).unwrap();
        let intervals = vec![(at(2), at(4), rate()), (at(10), at(14), slow)];
        let sent = times(&Pattern::Schedule { intervals }, at(0), at(13));
        assert_eq!(sent, [at(2), at(3), at(10), at(12)]);
    }

    #[test]
    fn exponential_on_off_has_its_duty_cycle() {
        let pattern = Pattern::Exponential {
            rate: rate(),
            mean_on: Duration::from_millis(500),
            mean_off: Duration::from_millis(1500),
        };
        // On a quarter of 2000 s at 1000/s: 500 000, over about 1000 cycles. One cycle's on
        // time varies by its mean, so the standard error is about 3 to 4 %.
        let sent = times(&pattern, at(0), at(2_000_000)).len() as f64;
        assert!((sent / 500_000.0 - 1.0).abs() < 0.15, "{sent}");
    }
}
