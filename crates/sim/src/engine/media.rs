//! Real-time video: a synthetic encoder, what its receiver makes of the frames, and the circuit
//! breaker that would have stopped it.
//!
//! The encoder is the statistical model of RFC 8593 section 5 in its steady state: intervals between
//! frames and sizes of frames differ from those of the target rate by zero-mean Laplacian shares of
//! scale `variation` (0.15 in the RFC). A frame leaves as packets back to back. Deviations:
//! - A share beyond +-100 % is drawn again, one of 800 at the scale of the RFC, which leaves that open.
//! - The burst at the start and after large changes of the target (section 5.2) is left out, as the
//!   target of a source that does not adapt never changes.
//!
//! The circuit breaker is the third of RFC 8083 (section 4.3): transmission must cease when, over
//! CB_INTERVAL reports, a source sends more than ten times what TCP would at the loss and RTT that
//! the reports show. Its CB_INTERVAL is that of the RFC with G Tf the time between frames and a
//! deterministic interval Td equal to Tdr; TCP's throughput is the full equation with b = 1 and a
//! timeout of four RTTs (RFC 5348 section 3.1). The RTT is the mean one-way delay of the interval and
//! the same as propagation for the way back, for nothing comes back. The first two, which see that
//! nothing arrives or nobody reports, are those of RTCP, which is not modelled.

use std::collections::BTreeMap;

use windward_core::packet::Packet;
use windward_core::rng::Stream;
use windward_core::units::{Duration, Time};

use super::hop::Span;
use crate::outcome::MediaOutcome;
use crate::scenario::Media;

/// What one stream of media knows of itself, at both ends.
#[derive(Debug)]
pub(super) struct Encoder {
    media: Media,
    /// When the frame under way was made, its number, its packets and which is next.
    made: Time,
    frame: u64,
    packets: u32,
    sent: u32,
    /// Size of its last packet.
    last: u32,
    /// When the next frame is made.
    next: Time,
    /// The least one-way delay of a packet, and how much each further one adds.
    least: Duration,
    further: Duration,
    /// Packets that have arrived of frames that are not whole.
    arrived: BTreeMap<u64, u32>,
    frames: u64,
    in_time: u64,
    reports: Vec<Report>,
}

/// Sent, lost and arrived in an interval of reports, by the time of sending.
#[derive(Debug, Clone, Copy, Default)]
struct Report {
    sent: u64,
    bytes: u64,
    lost: u64,
    arrived: u64,
    delays: f64,
}

/// Frames that are not whole are forgotten when so many begin after them.
const REMEMBERED: u64 = 1000;

/// The most that a source may send over what TCP would (RFC 8083 section 4.3).
const EXCESS: f64 = 10.0;

impl Encoder {
    pub(super) fn new(media: Media, start: Time, least: Duration, further: Duration) -> Self {
        Encoder {
            media,
            made: start,
            frame: 0,
            packets: 0,
            sent: 0,
            last: 0,
            next: start,
            least,
            further,
            arrived: BTreeMap::new(),
            frames: 0,
            in_time: 0,
            reports: Vec::new(),
        }
    }

    /// When the next packet leaves.
    pub(super) fn next(&self) -> Time {
        if self.sent < self.packets { self.made } else { self.next }
    }

    /// The next packet leaves, now: writes its size and what tells of its frame.
    pub(super) fn emit(&mut self, stream: &mut Stream, packet_size: u32, packet: &mut Packet) {
        if self.sent == self.packets {
            self.begin_frame(stream, packet_size);
        }
        self.sent += 1;
        packet.size = if self.sent == self.packets { self.last } else { packet_size };
        packet.packet_seq = self.frame;
        packet.trigger_seq = u64::from(self.packets);
        packet.timestamp = self.made;
        let report = self.report(self.made);
        report.sent += 1;
        report.bytes += u64::from(packet.size);
    }

    fn begin_frame(&mut self, stream: &mut Stream, packet_size: u32) {
        let interval = Duration::from_secs_f64(1.0 / self.media.fps);
        let bytes = self.media.rate.bytes_per_s() / self.media.fps;
        let bytes = (bytes * varied(stream, self.media.variation)).max(1.0) as u64;
        self.made = self.next;
        self.frame += 1;
        // Bounds on the scenario keep this in 32 bits.
        self.packets = bytes.div_ceil(u64::from(packet_size)) as u32;
        self.sent = 0;
        let rest = bytes % u64::from(packet_size);
        self.last = if rest == 0 { packet_size } else { rest as u32 };
        let gap = interval.mul_f64(varied(stream, self.media.variation));
        self.next = self.made + gap.max(Duration::from_ps(1));
    }

    /// How long a frame of so many packets may take, if it is to be in time.
    fn allowed(&self, packets: u64) -> Duration {
        self.least + self.further.saturating_mul(packets.saturating_sub(1)) + self.media.deadline
    }

    /// Is a frame of so many packets that was made then one that figures count: after the warm-up,
    /// and so early that it can be in time?
    fn counts(&self, made: Time, packets: u64, window: Span) -> bool {
        window.counts(made) && made + self.allowed(packets) <= window.until
    }

    /// The frame under way is counted once, with its first packet.
    pub(super) fn count_frame(&mut self, window: Span) {
        if self.sent == 1 && self.counts(self.made, u64::from(self.packets), window) {
            self.frames += 1;
        }
    }

    pub(super) fn on_arrival(&mut self, now: Time, packet: &Packet, window: Span) {
        let delay = now.since(packet.timestamp);
        let report = self.report(packet.timestamp);
        report.arrived += 1;
        report.delays += delay.as_secs_f64();
        let (frame, packets) = (packet.packet_seq, packet.trigger_seq);
        let arrived = self.arrived.entry(frame).or_default();
        *arrived += 1;
        if u64::from(*arrived) == packets {
            self.arrived.remove(&frame);
            let in_time = delay <= self.allowed(packets);
            let counts = self.counts(packet.timestamp, packets, window);
            self.in_time += u64::from(in_time && counts);
        }
        while let Some(oldest) = self.arrived.first_entry()
            && oldest.key() + REMEMBERED < frame
        {
            oldest.remove();
        }
    }

    pub(super) fn on_loss(&mut self, packet: &Packet) {
        self.report(packet.timestamp).lost += 1;
    }

    fn report(&mut self, at: Time) -> &mut Report {
        let interval = (at.as_ps() / self.media.report_interval.as_ps()) as usize;
        if self.reports.len() <= interval {
            self.reports.resize(interval + 1, Report::default());
        }
        &mut self.reports[interval]
    }

    pub(super) fn outcome(&self, packet_size: u32) -> MediaOutcome {
        let (trips, first) = self.trips(packet_size);
        MediaOutcome { frames: self.frames, late: self.frames - self.in_time, trips, first }
    }

    /// How often the circuit breaker would have tripped, beginning anew after each, and when first.
    fn trips(&self, packet_size: u32) -> (u64, Option<Time>) {
        let length = self.media.report_interval;
        let (mut trips, mut first) = (0, None);
        let mut from = 0;
        for end in 1..=self.reports.len() {
            let latest = &self.reports[end - 1];
            let rtt = latest.delays / latest.arrived.max(1) as f64 + self.least.as_secs_f64();
            let intervals =
                circuit_breaker_interval(1.0 / self.media.fps, rtt, length.as_secs_f64());
            if end < from + intervals {
                continue;
            }
            let all =
                self.reports[end - intervals..end].iter().fold(Report::default(), |a, b| Report {
                    sent: a.sent + b.sent,
                    bytes: a.bytes + b.bytes,
                    lost: a.lost + b.lost,
                    arrived: a.arrived + b.arrived,
                    delays: a.delays + b.delays,
                });
            // What is under way is no loss; where nothing arrives, another circuit breaker acts.
            if all.lost == 0 || all.arrived == 0 {
                continue;
            }
            let loss = all.lost as f64 / (all.lost + all.arrived) as f64;
            let rtt = all.delays / all.arrived as f64 + self.least.as_secs_f64();
            let rate = all.bytes as f64 / (intervals as f64 * length.as_secs_f64());
            if rate > EXCESS * tcp_throughput(f64::from(packet_size), rtt, loss) {
                trips += 1;
                first = first.or(Some(Time::ZERO + length.saturating_mul(end as u64)));
                from = end;
            }
        }
        (trips, first)
    }
}

/// One and a Laplacian share of that scale; above 0 and below 2.
fn varied(stream: &mut Stream, scale: f64) -> f64 {
    if scale == 0.0 {
        return 1.0;
    }
    loop {
        // The inverse of the distribution, from a uniform number in [-1/2, 1/2).
        let u = stream.uniform() - 0.5;
        let share = -scale * libm::copysign(libm::log(1.0 - 2.0 * u.abs()), u);
        if share.abs() < 1.0 {
            return 1.0 - share;
        }
    }
}

/// CB_INTERVAL of RFC 8083 section 4.3, in reports: of a source with a frame each `frame` seconds, an
/// RTT, and a report each `report` seconds.
fn circuit_breaker_interval(frame: f64, rtt: f64, report: f64) -> usize {
    let longest = (10.0 * frame).max(10.0 * rtt).max(3.0 * report);
    let bounded = longest.min((3.0 * report).max(15.0));
    ((3.0 * bounded / (3.0 * report) - 1e-9).ceil() as usize).max(1)
}

/// TCP's throughput for packets of `size` bytes, bytes per second (RFC 5348 section 3.1, b = 1,
/// t_RTO = 4 R).
fn tcp_throughput(size: f64, rtt: f64, loss: f64) -> f64 {
    let timeouts =
        4.0 * rtt * (3.0 * (3.0 * loss / 8.0).sqrt()) * loss * (1.0 + 32.0 * loss * loss);
    size / (rtt * (2.0 * loss / 3.0).sqrt() + timeouts)
}

#[cfg(test)]
mod tests {
    use windward_core::units::Rate;

    use super::*;

    fn media(variation: f64) -> Media {
        Media {
            rate: Rate::from_bps(1_000_000).unwrap(),
            fps: 25.0,
            variation,
            deadline: Duration::from_millis(100),
            report_interval: Duration::from_secs(1),
        }
    }

    fn encoder(variation: f64) -> Encoder {
        let (least, further) = (Duration::from_millis(50), Duration::from_millis(1));
        Encoder::new(media(variation), Time::ZERO, least, further)
    }

    #[test]
    fn without_variation_frames_are_all_alike() {
        // 5000 bytes each 40 ms: four packets of 1200 and one of 200.
        let mut encoder = encoder(0.0);
        let mut stream = Stream::new(1, "test", "media");
        let mut sizes = Vec::new();
        for n in 0..10 {
            assert_eq!(encoder.next(), Time::ZERO + Duration::from_millis(40 * (n / 5)));
            let mut packet = Packet::default();
            encoder.emit(&mut stream, 1200, &mut packet);
            assert_eq!((packet.packet_seq, packet.trigger_seq), (1 + n / 5, 5));
            sizes.push(packet.size);
        }
        assert_eq!(sizes, [1200, 1200, 1200, 1200, 200, 1200, 1200, 1200, 1200, 200]);
    }

    #[test]
    fn frames_vary_as_laplace_says_around_the_target() {
        let mut stream = Stream::new(1, "test", "media");
        let shares: Vec<f64> = (0..100_000).map(|_| varied(&mut stream, 0.15) - 1.0).collect();
        // The mean is zero and the variance 2 scale^2 = 0.045; five standard errors of the mean.
        let mean = shares.iter().sum::<f64>() / 1e5;
        assert!(mean.abs() < 5.0 * (0.045_f64 / 1e5).sqrt(), "{mean}");
        let variance = shares.iter().map(|x| x * x).sum::<f64>() / 1e5;
        assert!((variance / 0.045 - 1.0).abs() < 0.05, "{variance}");
        // Half lie within the scale times ln 2.
        let near = shares.iter().filter(|x| x.abs() < 0.15 * 2.0_f64.ln()).count() as f64;
        assert!((near / 5e4 - 1.0).abs() < 0.02, "{near}");
        assert!(shares.iter().all(|x| x.abs() < 1.0));
    }

    #[test]
    fn a_frame_is_in_time_if_its_last_packet_is() {
        let window = Span { from: Time::ZERO, until: Time::ZERO + Duration::from_secs(10) };
        let mut encoder = encoder(0.0);
        let mut stream = Stream::new(1, "test", "media");
        let mut at = |ms: u64, lost: bool| {
            // A frame of five packets may take 50 + 4 + 100 ms.
            for n in 0..5 {
                let mut packet = Packet::default();
                encoder.emit(&mut stream, 1200, &mut packet);
                encoder.count_frame(window);
                let arrival = packet.timestamp + Duration::from_millis(ms);
                if lost && n == 2 {
                    encoder.on_loss(&packet);
                } else {
                    encoder.on_arrival(arrival, &packet, window);
                }
            }
            let outcome = encoder.outcome(1200);
            (outcome.frames, outcome.late)
        };
        assert_eq!(at(154, false), (1, 0));
        assert_eq!(at(155, false), (2, 1));
        assert_eq!(at(60, true), (3, 2), "it is never whole");
    }

    #[test]
    fn the_circuit_breaker_by_hand() {
        // 25 frames a second, 0.1 s, reports each second: max(0.4, 1, 3) = 3, three reports. With
        // reports each 5 s: max(0.4, 1, 15) = 15. A long path of 0.6 s: 6 s, 6 reports.
        assert_eq!(circuit_breaker_interval(0.04, 0.1, 1.0), 3);
        assert_eq!(circuit_breaker_interval(0.04, 0.1, 5.0), 3);
        assert_eq!(circuit_breaker_interval(0.04, 0.6, 1.0), 6);
        // 1200 bytes, 0.1 s, 10 %: 0.1 sqrt(0.0667) = 0.0258199; 0.4 x 3 sqrt(0.0375) x 0.1 x 1.32 =
        // 0.0306739; 1200 / 0.0564938.
        let tcp = tcp_throughput(1200.0, 0.1, 0.1);
        assert!((tcp - 21_241.3).abs() < 1.0, "{tcp}");

        // 1 Mbit/s are 125 kB/s; a tenth of it TCP has at about 16 % of loss over 0.1 s: 1200 /
        // (0.1 x 0.3266 + 0.4 x 0.7348 x 0.16 x 1.8192) = 10 145 and less than 12 500.
        let lossy = |share: f64| {
            let mut encoder = encoder(0.0);
            let mut stream = Stream::new(1, "test", "media");
            let mut n = 0.0;
            let window = Span { from: Time::ZERO, until: Time::NEVER };
            while encoder.next() < Time::ZERO + Duration::from_secs(10) {
                let mut packet = Packet::default();
                encoder.emit(&mut stream, 1200, &mut packet);
                encoder.count_frame(window);
                n += share;
                if n >= 1.0 {
                    n -= 1.0;
                    encoder.on_loss(&packet);
                } else {
                    encoder.on_arrival(
                        packet.timestamp + Duration::from_millis(50),
                        &packet,
                        window,
                    );
                }
            }
            let MediaOutcome { trips, first, .. } = encoder.outcome(1200);
            (trips, first.map(Time::as_secs_f64))
        };
        // A mean packet has 1000 bytes; the equation's s is the packet size. Every third report.
        assert_eq!(lossy(0.16), (3, Some(3.0)));
        // At 10 % TCP has 21 kB/s: 125 is not ten times as much.
        assert_eq!(lossy(0.1), (0, None));
        assert_eq!(lossy(0.0), (0, None));
    }
}
