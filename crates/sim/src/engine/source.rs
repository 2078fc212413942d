//! Datagram sources: constant, exponential on/off, by schedule, media.

use windward_core::packet::Packet;
use windward_core::rng::Stream;
use windward_core::units::{Duration, Rate, Time};

use super::hop::Span;
use super::media::Encoder;
use crate::scenario::Pattern;

/// A source of datagrams.
#[derive(Debug)]
pub(super) struct Source {
    packet_size: u32,
    pace: Pace,
    stream: Stream,
    stop: Time,
    /// Time at which the next datagram leaves.
    next: Time,
    pub(super) sent: u64,
}

/// The [`Pattern`] of a source, with its state.
#[derive(Debug)]
enum Pace {
    Constant(Rate),
    Exponential {
        rate: Rate,
        mean_on: Duration,
        mean_off: Duration,
        /// End of the current on period.
        until: Time,
    },
    Schedule {
        intervals: Vec<(Time, Time, Rate)>,
        /// Index of the current interval.
        current: usize,
    },
    Media(Box<Encoder>),
}

impl Source {
    /// A source that sends between two times. `path` is the delay of a packet on the idle path, and
    /// the additional delay of each further packet of a frame.
    pub(super) fn new(
        pattern: &Pattern,
        packet_size: u32,
        [start, stop]: [Time; 2],
        mut stream: Stream,
        (least, further): (Duration, Duration),
    ) -> Self {
        let mut next = start;
        let pace = match pattern {
            Pattern::Constant { rate } => Pace::Constant(*rate),
            Pattern::Media(media) => {
                Pace::Media(Box::new(Encoder::new((**media).clone(), start, least, further)))
            }
            &Pattern::Exponential { rate, mean_on, mean_off } => {
                let until = start + stream.exponential(mean_on);
                Pace::Exponential { rate, mean_on, mean_off, until }
            }
            Pattern::Schedule { intervals } => {
                next = intervals.first().map_or(Time::NEVER, |i| i.0.max(start));
                Pace::Schedule { intervals: intervals.clone(), current: 0 }
            }
        };
        let mut source = Source { packet_size, pace, stream, stop, next, sent: 0 };
        source.skip_silence();
        source
    }

    /// Time at which [`Source::emit`] must be called; [`Time::NEVER`] after the last datagram.
    pub(super) fn next(&self) -> Time {
        if self.next < self.stop { self.next } else { Time::NEVER }
    }

    /// Time from which it sends nothing.
    pub(super) fn stop(&self) -> Time {
        self.stop
    }

    /// Encoder of a source that sends frames.
    pub(super) fn encoder(&self) -> Option<&Encoder> {
        if let Pace::Media(encoder) = &self.pace { Some(encoder) } else { None }
    }

    /// [`Source::encoder`], mutable.
    pub(super) fn encoder_mut(&mut self) -> Option<&mut Encoder> {
        if let Pace::Media(encoder) = &mut self.pace { Some(encoder) } else { None }
    }

    /// Writes the datagram that leaves now, at the time given by [`Source::next`].
    pub(super) fn emit(&mut self, packet: &mut Packet, window: Span) {
        self.sent += 1;
        (packet.seq, packet.size) = (self.sent, self.packet_size);
        let rate = match &mut self.pace {
            Pace::Constant(rate) | Pace::Exponential { rate, .. } => *rate,
            Pace::Schedule { intervals, current } => intervals[*current].2,
            Pace::Media(encoder) => {
                encoder.emit(&mut self.stream, self.packet_size, packet);
                encoder.count_frame(window);
                self.next = encoder.next();
                return;
            }
        };
        self.next += self.gap(rate);
        self.skip_silence();
    }

    /// Time between two datagrams; never zero, so that time advances.
    fn gap(&self, rate: Rate) -> Duration {
        rate.transmission_time(self.packet_size).max(Duration::from_ps(1))
    }

    /// Moves `next` out of the times in which the source is silent.
    fn skip_silence(&mut self) {
        match &mut self.pace {
            Pace::Constant(_) | Pace::Media(_) => {}
            Pace::Exponential { mean_on, mean_off, until, .. } => {
                while self.next >= *until && self.next < self.stop {
                    let pause = self.stream.exponential(*mean_off);
                    self.next = self.next.max(*until + pause);
                    *until = *until + pause + self.stream.exponential(*mean_on);
                }
            }
            Pace::Schedule { intervals, current } => {
                while let Some((_, until, _)) = intervals.get(*current) {
                    if self.next < *until {
                        return;
                    }
                    *current += 1;
                    self.next = match intervals.get(*current) {
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
        let mut source = Source::new(
            pattern,
            1000,
            [start, stop],
            Stream::new(1, "source", "test"),
            (Duration::ZERO, Duration::ZERO),
        );
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
