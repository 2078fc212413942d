//! Real-time video: a synthetic encoder, the frames at its receiver, and the circuit breaker that
//! would have stopped it.
//!
//! The encoder is the statistical model of RFC 8593 section 5 in its steady state (section 5.3):
//! intervals between frames and sizes of frames differ from those of the target rate by independent
//! zero-mean Laplacian shares of scale `variation` (0.15 in the RFC). A frame leaves as packets
//! back to back. Deviations:
//! - The target counts bits on the wire, headers included; the RFC's are those of the encoder.
//! - A share beyond +-100 % is drawn again, one of 786 at the scale of the RFC, which leaves this
//!   open.
//! - Bursts after a change of the target (section 5.2) and the dependence of the range of rates on
//!   the content (section 5.4) are left out.
//!
//! The circuit breaker is the third of RFC 8083 (section 4.3): transmission should cease when, over
//! the last CB_INTERVAL of more than as many reports, a source sends more than ten times what TCP
//! would at the RTT and the mean fraction lost that the reports show. As the RFC recommends, TCP's
//! throughput is the simplified equation with b = 1; the full one, which it allows and which trips
//! earlier, is not used. A fraction is the eight bits of RFC 3550 section 6.4.1, the RTT is
//! smoothed (section 3), the size of packets is the mean over the last four frames, as G is 1 for
//! an encoder that can change its rate at each frame, and CB_INTERVAL is that of the report before,
//! as it is calculated after the check. Deviations:
//! - Tf is the nominal time between frames, and Td is Tdr, `report_interval`, without
//!   randomization.
//! - Reports are not sent, and so are never lost: an RTT is the mean one-way delay of an
//!   interval plus the propagation delay for the way back, and a report covers the packets sent in
//!   its interval.
//! - It does not stop the source, and restarts after each time that it would have tripped.
//!
//! The other circuit breakers are not computed: the first detects missing reports, the second
//! detects that nothing arrives (sections 4.1 and 4.2), and the fourth has no bound in the text
//! (section 4.4).

use std::collections::BTreeMap;

use windward_core::packet::Packet;
use windward_core::rng::Stream;
use windward_core::units::{Duration, Rate, Time};

use super::hop::Span;
use crate::outcome::FlowMetrics;
use crate::scenario::Media;

/// State of a stream of media, at both ends.
#[derive(Debug)]
pub(super) struct Encoder {
    media: Media,
    frame: Frame,
    /// Bytes and packets of the latest frames.
    latest: [(u64, u64); 4],
    /// Time of the next frame.
    next: Time,
    /// Minimum one-way delay of a packet, and the additional delay of each further packet of a
    /// frame.
    least: Duration,
    further: Duration,
    /// Packets that have arrived of incomplete frames.
    arrived: BTreeMap<u64, u32>,
    frames: u64,
    in_time: u64,
    reports: Vec<ReportInterval>,
}

/// The frame that is being sent.
#[derive(Debug)]
struct Frame {
    made: Time,
    number: u64,
    /// Number of its packets, and of those that have been sent.
    packets: u32,
    sent: u32,
    /// Size of its last packet.
    last: u32,
}

/// Counts of packets that were sent in one interval between reports.
#[derive(Debug, Clone, Copy, Default)]
struct ReportInterval {
    sent: u64,
    bytes: u64,
    lost: u64,
    arrived: u64,
    delays: f64,
    /// Mean size of the packets of the four frames up to its end, bytes.
    size: f64,
}

/// Incomplete frames are forgotten when this many frames have begun after them.
const REMEMBERED: u64 = 1000;

/// Limit on the rate of a source, as a multiple of TCP's (RFC 8083 section 4.3).
const EXCESS: f64 = 10.0;

impl Encoder {
    pub(super) fn new(media: Media, start: Time, least: Duration, further: Duration) -> Self {
        Encoder {
            frame: Frame { made: start, number: 0, packets: 0, sent: 0, last: 0 },
            latest: [(0, 0); 4],
            next: after_pauses(&media.pauses, start),
            media,
            least,
            further,
            arrived: BTreeMap::new(),
            frames: 0,
            in_time: 0,
            reports: Vec::new(),
        }
    }

    /// Sets the target rate of the frames that begin from now on. Returns true if it differs.
    pub(super) fn follow(&mut self, rate: Rate) -> bool {
        let begins = self.frame.sent == self.frame.packets && rate != self.media.rate;
        if begins {
            self.media.rate = rate;
        }
        begins
    }

    /// Time at which the next packet leaves.
    pub(super) fn next(&self) -> Time {
        if self.frame.sent < self.frame.packets { self.frame.made } else { self.next }
    }

    /// Writes the size and the frame of the packet that leaves now.
    pub(super) fn emit(&mut self, stream: &mut Stream, packet_size: u32, packet: &mut Packet) {
        if self.frame.sent == self.frame.packets {
            self.begin_frame(stream, packet_size);
        }
        self.frame.sent += 1;
        packet.size =
            if self.frame.sent == self.frame.packets { self.frame.last } else { packet_size };
        packet.packet_seq = self.frame.number;
        packet.trigger_seq = u64::from(self.frame.packets);
        packet.timestamp = self.frame.made;
        let (bytes, packets) = self.latest.iter().fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        let report = self.report(self.frame.made);
        report.sent += 1;
        report.bytes += u64::from(packet.size);
        report.size = bytes as f64 / packets as f64;
    }

    fn begin_frame(&mut self, stream: &mut Stream, packet_size: u32) {
        let interval = Duration::from_secs_f64(1.0 / self.media.fps);
        let bytes = self.media.rate.bytes_per_s() / self.media.fps;
        let bytes = (bytes * varied(stream, self.media.variation)).max(1.0) as u64;
        self.frame.made = self.next;
        self.frame.number += 1;
        // Bounds on the scenario keep this in 32 bits.
        self.frame.packets = bytes.div_ceil(u64::from(packet_size)) as u32;
        self.frame.sent = 0;
        self.latest.rotate_left(1);
        self.latest[3] = (bytes, u64::from(self.frame.packets));
        let rest = bytes % u64::from(packet_size);
        self.frame.last = if rest == 0 { packet_size } else { rest as u32 };
        let gap = interval.mul_f64(varied(stream, self.media.variation));
        let next = self.frame.made + gap.max(Duration::from_ps(1));
        self.next = after_pauses(&self.media.pauses, next);
    }

    /// Maximum delay of a frame of this many packets that is on time.
    fn allowed(&self, packets: u64) -> Duration {
        self.least + self.further.saturating_mul(packets.saturating_sub(1)) + self.media.deadline
    }

    /// True if a frame of this many packets that was made at `made` counts: made after the warm-up,
    /// with a deadline before the end of the run.
    fn counts(&self, made: Time, packets: u64, window: Span) -> bool {
        window.counts(made) && made + self.allowed(packets) <= window.until
    }

    /// Counts the current frame, with its first packet.
    pub(super) fn count_frame(&mut self, window: Span) {
        if self.frame.sent == 1
            && self.counts(self.frame.made, u64::from(self.frame.packets), window)
        {
            self.frames += 1;
        }
    }

    /// Takes a packet of a frame that was made at `made` at the receiver.
    pub(super) fn on_arrival(&mut self, now: Time, packet: &Packet, made: Time, window: Span) {
        let delay = now.since(made);
        let report = self.report(made);
        report.arrived += 1;
        report.delays += delay.as_secs_f64();
        let (frame, packets) = (packet.packet_seq, packet.trigger_seq);
        let arrived = self.arrived.entry(frame).or_default();
        *arrived += 1;
        if u64::from(*arrived) == packets {
            self.arrived.remove(&frame);
            let in_time = delay <= self.allowed(packets);
            let counts = self.counts(made, packets, window);
            self.in_time += u64::from(in_time && counts);
        }
        while let Some(oldest) = self.arrived.first_entry()
            && oldest.key() + REMEMBERED < frame
        {
            oldest.remove();
        }
    }

    /// Counts a lost packet of a frame that was made at `made`.
    pub(super) fn on_loss(&mut self, made: Time) {
        self.report(made).lost += 1;
    }

    fn report(&mut self, at: Time) -> &mut ReportInterval {
        let interval = (at.as_ps() / self.media.report_interval.as_ps()) as usize;
        if self.reports.len() <= interval {
            self.reports.resize(interval + 1, ReportInterval::default());
        }
        &mut self.reports[interval]
    }

    /// Adds the metrics that only media has to those of its flow.
    pub(super) fn measure(&self, metrics: &mut FlowMetrics) {
        let (trips, first) = self.trips();
        // Without a controller, the target is constant, and nothing waits or reports.
        metrics.target_rate_bps = Some(self.media.rate.as_bps() as f64);
        (metrics.sender_delay_s, metrics.report_rate_bps) = (Some(0.0), Some(0.0));
        metrics.frames = Some(self.frames);
        metrics.late_frames = Some(self.frames - self.in_time);
        metrics.circuit_breaker_trips = Some(trips);
        metrics.circuit_breaker_first = first;
    }

    /// Number of times that the circuit breaker would have tripped, with a restart after each,
    /// and the first of these times.
    fn trips(&self) -> (u64, Option<Time>) {
        let length = self.media.report_interval;
        let (frame, report) = (1.0 / self.media.fps, length.as_secs_f64());
        let (mut trips, mut first) = (0, None);
        let mut from = self.reports.iter().take_while(|report| report.sent == 0).count();
        let (mut rtt, mut intervals) = (None, circuit_breaker_interval(frame, 0.0, report));
        for end in from + 1..=self.reports.len() {
            let latest = &self.reports[end - 1];
            // If nothing arrives, another circuit breaker acts.
            if latest.arrived == 0 {
                continue;
            }
            let sample = latest.delays / latest.arrived as f64 + self.least.as_secs_f64();
            let smoothed = rtt.map_or(sample, |before| 0.8 * before + 0.2 * sample);
            rtt = Some(smoothed);
            // It applies to sources that send a packet every max(Tdr, Tr).
            if end - from > intervals && frame <= report.max(smoothed) {
                let last = &self.reports[end - intervals..end];
                let loss =
                    last.iter().map(ReportInterval::fraction_lost).sum::<f64>() / intervals as f64;
                let bytes = last.iter().map(|report| report.bytes).sum::<u64>();
                let rate = bytes as f64 / (intervals as f64 * report);
                if rate > EXCESS * tcp_throughput(latest.size, smoothed, loss) {
                    trips += 1;
                    first = first.or(Some(Time::ZERO + length.saturating_mul(end as u64)));
                    from = end;
                }
            }
            intervals = circuit_breaker_interval(frame, smoothed, report);
        }
        (trips, first)
    }
}

impl ReportInterval {
    /// Fraction lost of RFC 3550 section 6.4.1: 256ths, rounded down. Packets under way are not
    /// lost.
    fn fraction_lost(&self) -> f64 {
        let fraction = 256 * self.lost / (self.lost + self.arrived).max(1);
        fraction.min(255) as f64 / 256.0
    }
}

/// One plus a Laplacian share of that scale; above 0 and below 2.
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

/// CB_INTERVAL of RFC 8083 section 4.3, in reports, for a source with a frame every `frame`
/// seconds, an RTT, and a report every `report` seconds.
fn circuit_breaker_interval(frame: f64, rtt: f64, report: f64) -> usize {
    let longest = (10.0 * frame).max(10.0 * rtt).max(3.0 * report);
    let bounded = longest.min((3.0 * report).max(15.0));
    ((3.0 * bounded / (3.0 * report) - 1e-9).ceil() as usize).max(1)
}

/// The earliest time from `time` on that is in none of the pauses, which are in order.
fn after_pauses(pauses: &[(Time, Time)], time: Time) -> Time {
    let later = |time, (from, until): &(Time, Time)| match (*from..*until).contains(&time) {
        true => *until,
        false => time,
    };
    pauses.iter().fold(time, later)
}

/// Rate of TCP with packets of `size` bytes, bytes per second: the simplified equation of RFC 8083
/// section 4.3, with b = 1. Infinite without losses.
fn tcp_throughput(size: f64, rtt: f64, loss: f64) -> f64 {
    size / (rtt * (2.0 * loss / 3.0).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn media(variation: f64) -> Media {
        Media {
            rate: Rate::from_bps(1_000_000).unwrap(),
            fps: 25.0,
            variation,
            deadline: Duration::from_millis(100),
            report_interval: Duration::from_secs(1),
            adaptation: None,
            pauses: Vec::new(),
        }
    }

    fn encoder(variation: f64) -> Encoder {
        let (least, further) = (Duration::from_millis(50), Duration::from_millis(1));
        Encoder::new(media(variation), Time::ZERO, least, further)
    }

    #[test]
    fn no_frame_begins_in_a_pause() {
        let ms = |ms| Time::ZERO + Duration::from_millis(ms);
        let pauses = vec![(ms(0), ms(10)), (ms(90), ms(200)), (ms(200), ms(300))];
        let media = Media { pauses, ..media(0.0) };
        let mut encoder = Encoder::new(media, Time::ZERO, Duration::ZERO, Duration::from_millis(1));
        let mut stream = Stream::new(1, "test", "media");
        let mut begun = Vec::new();
        for _ in 0..6 {
            begun.push(encoder.next());
            for _ in 0..5 {
                encoder.emit(&mut stream, 1200, &mut Packet::default());
            }
        }
        // Each 40 ms from the end of the first pause; the frame of 90 ms waits for both others.
        assert_eq!(begun, [ms(10), ms(50), ms(300), ms(340), ms(380), ms(420)]);
    }

    #[test]
    fn without_variation_all_frames_are_equal() {
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
    fn frames_have_a_laplace_distribution_around_the_target() {
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
    fn a_frame_is_on_time_if_its_last_packet_is() {
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
                    encoder.on_loss(packet.timestamp);
                } else {
                    encoder.on_arrival(arrival, &packet, packet.timestamp, window);
                }
            }
            let mut metrics = FlowMetrics::default();
            encoder.measure(&mut metrics);
            (metrics.frames.unwrap(), metrics.late_frames.unwrap())
        };
        assert_eq!(at(154, false), (1, 0));
        assert_eq!(at(155, false), (2, 1));
        assert_eq!(at(60, true), (3, 2), "it is never whole");
    }

    #[test]
    fn the_interval_of_the_circuit_breaker_by_hand() {
        // 25 frames a second, 0.1 s, reports each second: max(0.4, 1, 3) = 3, three reports. With
        // reports each 5 s: max(0.4, 1, 15) = 15. A long path of 0.6 s: 6 s, 6 reports; of 2 s: 20
        // s, of which no more than max(15, 3) count.
        assert_eq!(circuit_breaker_interval(0.04, 0.1, 1.0), 3);
        assert_eq!(circuit_breaker_interval(0.04, 0.1, 5.0), 3);
        assert_eq!(circuit_breaker_interval(0.04, 0.6, 1.0), 6);
        assert_eq!(circuit_breaker_interval(0.04, 2.0, 1.0), 15);
    }

    #[test]
    fn the_throughput_of_tcp_by_hand() {
        // 1200 bytes, 0.1 s, 6 %: sqrt(0.04) = 0.2, 1200 / 0.02.
        assert!((tcp_throughput(1200.0, 0.1, 0.06) - 60_000.0).abs() < 1e-6);
        assert_eq!(tcp_throughput(1200.0, 0.1, 0.0), f64::INFINITY);
    }

    #[test]
    fn a_fraction_lost_has_eight_bits() {
        let report = |lost, arrived| ReportInterval { lost, arrived, ..ReportInterval::default() };
        // 256 / 300 is less than one, 25.6 are 25, and there is no 256.
        assert_eq!(report(1, 299).fraction_lost(), 0.0);
        assert_eq!(report(10, 90).fraction_lost(), 25.0 / 256.0);
        assert_eq!(report(5, 0).fraction_lost(), 255.0 / 256.0);
        assert_eq!(report(0, 0).fraction_lost(), 0.0);
    }

    /// Times the circuit breaker trips in ten seconds of 1 Mbit/s that begin at `start`, and when
    /// first, if this share is lost and the rest arrives after 350 ms; and the latest mean size of
    /// packets.
    fn tripped(start: u64, share: f64) -> (u64, Option<f64>, f64) {
        let (least, further) = (Duration::from_millis(50), Duration::from_millis(1));
        let start = Time::ZERO + Duration::from_secs(start);
        let mut encoder = Encoder::new(media(0.0), start, least, further);
        let mut stream = Stream::new(1, "test", "media");
        let window = Span { from: Time::ZERO, until: Time::NEVER };
        let mut lost = 0.0;
        while encoder.next() < start + Duration::from_secs(10) {
            let mut packet = Packet::default();
            encoder.emit(&mut stream, 1200, &mut packet);
            encoder.count_frame(window);
            lost += share;
            if lost >= 1.0 {
                lost -= 1.0;
                encoder.on_loss(packet.timestamp);
            } else {
                let arrival = packet.timestamp + Duration::from_millis(350);
                encoder.on_arrival(arrival, &packet, packet.timestamp, window);
            }
        }
        let (trips, first) = encoder.trips();
        (trips, first.map(Time::as_secs_f64), encoder.reports.last().unwrap().size)
    }

    #[test]
    fn the_circuit_breaker_by_hand() {
        // Frames of 5000 bytes in five packets: s = 1000. The RTT is 350 + 50 ms, so that
        // CB_INTERVAL is max(0.4, 4, 3) = 4 from the first report on. 1 Mbit/s are 125 000 bytes
        // per second. Of 125 packets a second 12 or 13 are lost, 24 or 26 of 256; the mean of four
        // reports is at least 24/256 = 0.094: X = 1000 / (0.4 sqrt(0.0625)) = 10 000 at most, and
        // ten times that is less. More than four reports are there at 5 s, and again at 10 s.
        assert_eq!(tripped(0, 0.1), (2, Some(5.0), 1000.0));
        // Counted from the first report with any packet.
        assert_eq!(tripped(20, 0.1), (2, Some(25.0), 1000.0));
        // 4 %, 10/256 = 0.039: X = 1000 / (0.4 sqrt(0.026)) = 15 500. The bound lies at 6 %. The
        // full equation would have tripped: 4 x 0.4 x 3 sqrt(0.0146) x 0.039 x 1.05 = 0.0238 more
        // below, 11 300.
        assert_eq!(tripped(0, 0.04), (0, None, 1000.0));
        assert_eq!(tripped(0, 0.0), (0, None, 1000.0));
    }

    #[test]
    fn the_size_of_packets_is_the_mean_over_four_frames() {
        let mut encoder = encoder(0.15);
        let mut stream = Stream::new(1, "test", "media");
        let mut frames: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        while frames.len() < 20 {
            let mut packet = Packet::default();
            encoder.emit(&mut stream, 1200, &mut packet);
            frames.entry(packet.packet_seq).or_default().push(packet.size);
        }
        // Frame 20 has only begun; the encoder knows its remaining packets.
        while encoder.frame.sent < encoder.frame.packets {
            let mut packet = Packet::default();
            encoder.emit(&mut stream, 1200, &mut packet);
            frames.entry(packet.packet_seq).or_default().push(packet.size);
        }
        let sizes: Vec<u32> = frames.values().rev().take(4).flatten().copied().collect();
        let mean = f64::from(sizes.iter().sum::<u32>()) / sizes.len() as f64;
        assert!((encoder.reports.last().unwrap().size - mean).abs() < 1e-9);
    }
}
