//! The sender of media: packets that wait, pacing, and the packets that no report covers yet.

use std::collections::VecDeque;

use super::{
    Heard, MediaController, MediaControllerConfig, MediaControllerState, MediaSetup, Report,
    Reported,
};
use crate::units::{Duration, Time};

/// Time without a report after which one packet leaves although the window is full: as long as the
/// initial retransmission timeout of TCP (RFC 6298 section 2.1). Without it, a window whose
/// packets were all lost would stay closed.
const PROBE: Duration = Duration::from_secs(1);

/// The sender of a stream.
#[derive(Debug)]
pub struct MediaSender {
    controller: MediaControllerState,
    /// Sizes of the packets that wait.
    queue: VecDeque<u32>,
    waiting: u64,
    /// Packets that have left and have not been reported: time and size. The first has the number
    /// `oldest`.
    sent: VecDeque<(Time, u32)>,
    oldest: u64,
    in_flight: u64,
    /// Earliest time of the next packet by pacing.
    paced: Time,
    /// Time of the latest report or packet.
    active: Time,
    packets: Vec<Reported>,
}

impl MediaSender {
    /// A sender of packets numbered from `first`.
    pub fn new(config: &MediaControllerConfig, setup: &MediaSetup, first: u64) -> Self {
        MediaSender {
            controller: config.make(setup),
            queue: VecDeque::new(),
            waiting: 0,
            sent: VecDeque::new(),
            oldest: first,
            in_flight: 0,
            paced: Time::ZERO,
            active: Time::ZERO,
            packets: Vec::new(),
        }
    }

    /// Rate that the encoder is to produce from now on, bits per second on the wire.
    pub fn target(&mut self, now: Time) -> f64 {
        self.controller.target(now, self.waiting)
    }

    /// Takes a packet of the encoder.
    pub fn push(&mut self, size: u32) {
        self.queue.push_back(size);
        self.waiting += u64::from(size);
    }

    /// Bytes that wait.
    pub fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Bytes that have left and have not been reported.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Time at which the next packet may leave; [`Time::NEVER`] without one.
    pub fn next(&self) -> Time {
        let Some(size) = self.queue.front() else { return Time::NEVER };
        let is_open = match self.controller.window() {
            Some(window) => self.in_flight + u64::from(*size) <= window,
            None => true,
        };
        if is_open { self.paced } else { self.paced.max(self.active + PROBE) }
    }

    /// Lets the next packet leave if it may, and returns its size.
    pub fn poll_transmit(&mut self, now: Time) -> Option<u32> {
        if self.next() > now {
            return None;
        }
        let size = self.queue.pop_front()?;
        let gap = f64::from(size) * 8.0 / self.controller.pacing(self.waiting);
        self.waiting -= u64::from(size);
        self.paced = now + Duration::from_secs_f64(gap);
        self.active = now;
        self.sent.push_back((now, size));
        self.in_flight += u64::from(size);
        self.controller.on_sent(now, size, self.in_flight);
        Some(size)
    }

    /// Takes a report. Packets before its range, whose reports were lost, are forgotten.
    pub fn on_report(&mut self, now: Time, report: &Report) {
        let mut arrivals = report.arrivals.iter().peekable();
        self.packets.clear();
        while self.oldest < report.end
            && let Some((sent, size)) = self.sent.pop_front()
        {
            let seq = self.oldest;
            self.oldest += 1;
            self.in_flight -= u64::from(size);
            while arrivals.next_if(|(arrived, ..)| *arrived < seq).is_some() {}
            let arrival = arrivals.next_if(|(arrived, ..)| *arrived == seq);
            if seq >= report.first {
                self.packets.push(Reported {
                    sent,
                    arrived: arrival.map(|(_, time, _)| *time),
                    size,
                    marked: arrival.is_some_and(|(.., marked)| *marked),
                });
            }
        }
        if self.packets.is_empty() {
            return; // A report that another one has overtaken.
        }
        self.active = now;
        let last = self.packets.iter().rev().find_map(|p| Some((p.sent, p.arrived?)));
        let rtt = last.map(|(sent, arrived)| now.since(sent) - report.made.since(arrived));
        let Self { in_flight, waiting, .. } = *self;
        let heard = Heard { rtt, packets: &self.packets, in_flight, waiting };
        self.controller.on_report(now, &heard);
    }
}

#[cfg(test)]
mod tests {
    use super::super::NadaConfig;
    use super::*;
    use crate::testing::ms;
    use crate::units::Rate;

    fn sender() -> MediaSender {
        let rate = |bps| Rate::from_bps(bps).unwrap();
        let setup = MediaSetup {
            start: rate(800_000),
            least: rate(150_000),
            most: rate(1_500_000),
            fps: 25.0,
            packet_size: 1000,
        };
        MediaSender::new(&MediaControllerConfig::Nada(NadaConfig::RFC8698), &setup, 1)
    }

    #[test]
    fn packets_leave_at_the_pacing_rate() {
        let mut sender = sender();
        sender.push(1000);
        sender.push(1000);
        assert_eq!((sender.next(), sender.waiting()), (Time::ZERO, 2000));
        assert_eq!(sender.poll_transmit(ms(0)), Some(1000));
        // 2000 bytes wait: equation 12 adds min(5 %, 0.1 x 8 x 2000 x 25 = 40 kbit/s), which is
        // 40 kbit/s in both. 8000 bits at 840 kbit/s take 9.52 ms.
        assert_eq!(sender.poll_transmit(ms(9)), None);
        assert_eq!(sender.poll_transmit(ms(10)), Some(1000));
        assert_eq!((sender.next(), sender.in_flight()), (Time::NEVER, 2000));
    }

    #[test]
    fn packets_without_a_report_are_forgotten() {
        let mut sender = sender();
        for at in [0, 100, 200, 300] {
            sender.push(1000);
            assert_eq!(sender.poll_transmit(ms(at)), Some(1000));
        }
        // The report on packets 1 and 2 was lost; 3 is lost and 4 has arrived.
        let report =
            Report { first: 3, end: 5, arrivals: vec![(4, ms(350), false)], made: ms(360) };
        sender.on_report(ms(410), &report);
        let [lost, arrived] = sender.packets[..] else { panic!("{:?}", sender.packets) };
        assert_eq!((lost.arrived, lost.sent), (None, ms(200)));
        assert_eq!((arrived.arrived, arrived.sent), (Some(ms(350)), ms(300)));
        assert_eq!(sender.in_flight(), 0);
        // An old report changes nothing.
        sender.on_report(ms(420), &Report { first: 1, end: 3, ..report });
        assert_eq!(sender.in_flight(), 0);
    }
}
