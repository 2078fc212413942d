//! Live video that adapts: the queue of its sender, the reports of its receiver, and what both
//! measure.
//!
//! The encoder makes a frame at the target rate of the controller. It follows a new target at the
//! first frame that is made `latency` after it followed the one before (RFC 8593 section 5.1).
//! Bursts after a change (section 5.2) are left out. The packets of a frame wait in the sender
//! until the controller lets them go. Reports cross the network as packets of their size.

use std::collections::{BTreeMap, VecDeque};

use windward_core::media::{MediaReceiver, MediaSender, MediaSetup, Report};
use windward_core::packet::{Flags, Packet, PacketKind};
use windward_core::units::{Duration, Rate, Time};

use super::hop::Span;
use super::schedule::Alarm;
use super::source::Source;
use crate::outcome::FlowMetrics;
use crate::scenario::{Adaptation, Media};

/// The state of a stream that adapts, at both ends.
#[derive(Debug)]
pub(super) struct Adaptive {
    adaptation: Adaptation,
    sender: MediaSender,
    receiver: MediaReceiver,
    /// Packets that wait in the sender.
    waiting: VecDeque<Packet>,
    frames: Frames,
    reports: Reports,
    /// Packets that have left.
    pub(super) sent: u64,
    pub(super) alarm: Alarm,
    pub(super) report_alarm: Alarm,
    counts: Counts,
}

/// The frames of the encoder.
#[derive(Debug)]
struct Frames {
    /// Time at which each of the latest was made.
    made: BTreeMap<u64, Time>,
    /// Latest target, bits per second.
    target: f64,
    /// Time at which the encoder followed a new target.
    followed: Option<Time>,
}

/// The reports under way, by number.
#[derive(Debug, Default)]
struct Reports {
    under_way: BTreeMap<u64, Report>,
    next: u64,
}

/// Counts after the warm-up.
#[derive(Debug, Default)]
struct Counts {
    /// Sum of the targets at the frames, and their number.
    targets: (f64, u64),
    /// Sum of the times that packets waited in the sender, picoseconds, and their number.
    waits: (u128, u64),
    /// Bytes of reports sent.
    report_bytes: u64,
}

/// Number of the first packet: sources count from 1.
const FIRST: u64 = 1;

/// Times of frames are forgotten when this many frames were made after them.
const REMEMBERED: u64 = 1000;

impl Adaptive {
    /// The adaptation of media in packets of this size.
    pub(super) fn new(media: &Media, adaptation: Adaptation, packet_size: u32) -> Self {
        let Adaptation { controller, least, most, .. } = adaptation;
        let setup = MediaSetup { start: media.rate, least, most, fps: media.fps, packet_size };
        Adaptive {
            adaptation,
            sender: MediaSender::new(&controller, &setup, FIRST),
            receiver: MediaReceiver::new(FIRST),
            waiting: VecDeque::new(),
            frames: Frames {
                made: BTreeMap::new(),
                target: media.rate.as_bps() as f64,
                followed: None,
            },
            reports: Reports::default(),
            sent: 0,
            alarm: Alarm::OFF,
            report_alarm: Alarm::OFF,
            counts: Counts::default(),
        }
    }

    /// Time of the next frame or packet, not before `now`: a larger window lets go at once what was
    /// due before. [`Time::NEVER`] after the end of the source.
    pub(super) fn next(&self, source: &Source, now: Time) -> Time {
        let packet = self.sender.next().max(now);
        source.next().min(if packet < source.stop() { packet } else { Time::NEVER })
    }

    /// Makes the frames that are due, and returns the packet that leaves now, if one may.
    pub(super) fn emit(&mut self, source: &mut Source, now: Time, window: Span) -> Option<Packet> {
        while source.next() <= now {
            self.encode(source, now, window);
        }
        if now >= source.stop() {
            return None;
        }
        self.sender.poll_transmit(now)?;
        let mut packet = self.waiting.pop_front()?;
        self.sent += 1;
        if window.counts(now) {
            self.counts.waits.0 += u128::from(now.since(packet.timestamp).as_ps());
            self.counts.waits.1 += 1;
        }
        packet.timestamp = now;
        Some(packet)
    }

    /// Makes a packet of the current frame, or the first of the next.
    fn encode(&mut self, source: &mut Source, now: Time, window: Span) {
        self.frames.target = self.sender.target(now);
        let latency = self.adaptation.latency;
        if self.frames.followed.is_none_or(|followed| now >= followed + latency)
            && let Some(rate) = Rate::from_bps(self.frames.target as u64)
            && let Some(encoder) = source.encoder_mut()
            && encoder.follow(rate)
        {
            self.frames.followed = Some(now);
        }
        let mut packet = Packet { kind: PacketKind::Datagram, ..Packet::default() };
        source.emit(&mut packet, window);
        if self.adaptation.ecn {
            packet.flags.insert(Flags::ECN_CAPABLE);
            if self.adaptation.controller.is_l4s() {
                packet.flags.insert(Flags::L4S);
            }
        }
        let (frame, made) = (packet.packet_seq, packet.timestamp);
        if self.frames.made.insert(frame, made).is_none() && window.counts(made) {
            self.counts.targets.0 += self.frames.target;
            self.counts.targets.1 += 1;
        }
        while let Some(oldest) = self.frames.made.first_entry()
            && oldest.key() + REMEMBERED < frame
        {
            oldest.remove();
        }
        self.sender.push(packet.size);
        self.waiting.push_back(packet);
    }

    /// Time at which the frame of a packet was made.
    pub(super) fn made(&self, packet: &Packet) -> Time {
        self.frames.made.get(&packet.packet_seq).copied().unwrap_or(packet.timestamp)
    }

    /// Takes a packet at the receiver.
    pub(super) fn receive(&mut self, now: Time, packet: &Packet) {
        let marked = packet.flags.contains(Flags::CONGESTION_EXPERIENCED);
        self.receiver.on_packet(now, packet.seq, packet.size, marked);
    }

    /// Time at which the receiver reports next, not before `now`: the interval may have become
    /// shorter.
    pub(super) fn report_due(&self, now: Time) -> Time {
        let interval = self.adaptation.controller.report_interval(self.receiver.rate());
        self.receiver.next_report(interval).max(now)
    }

    /// Makes the report that is due, if one is.
    pub(super) fn report(&mut self, now: Time, window: Span) -> Option<Packet> {
        if self.report_due(now) > now {
            return None;
        }
        let report = self.receiver.report(now);
        let (size, seq) = (report.size(), self.reports.next);
        self.reports.next += 1;
        self.reports.under_way.insert(seq, report);
        if window.counts(now) {
            self.counts.report_bytes += u64::from(size);
        }
        let kind = PacketKind::Ack;
        Some(Packet { kind, size, seq, packet_seq: seq, timestamp: now, ..Packet::default() })
    }

    /// Takes a report at the sender.
    pub(super) fn on_report(&mut self, now: Time, packet: &Packet) {
        if let Some(report) = self.reports.under_way.remove(&packet.seq) {
            self.sender.on_report(now, &report);
        }
    }

    /// Forgets a report that was lost.
    pub(super) fn lose_report(&mut self, packet: &Packet) {
        self.reports.under_way.remove(&packet.seq);
    }

    /// Writes the metrics that a controller changes into those of the flow.
    pub(super) fn measure(&self, metrics: &mut FlowMetrics, window: Span) {
        let Counts { targets, waits, report_bytes } = &self.counts;
        metrics.target_rate_bps = Some(targets.0 / targets.1.max(1) as f64);
        let wait = Duration::from_ps((waits.0 / u128::from(waits.1.max(1))) as u64);
        metrics.sender_delay_s = Some(wait.as_secs_f64());
        metrics.report_rate_bps = Some(*report_bytes as f64 * 8.0 / window.seconds());
    }
}
