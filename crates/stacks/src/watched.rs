//! Record of the values that a stack reports only to its congestion controller: RTT samples and
//! bytes in flight.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use windward_core::endpoint::driver::Figures;
use windward_core::endpoint::window::Judge;
use windward_core::units::{Duration, Time};

use crate::clock;

/// The record. One thread at a time uses a connection, but not always the same one: the fields are
/// atomic.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    rtt_sum: AtomicU64,
    rtt_samples: AtomicU64,
    in_flight: AtomicU64,
    /// The sender's controller, if it is one of Windward.
    driver: OnceLock<Box<dyn Driven>>,
    /// The judge of a controller of another crate.
    judge: Option<Mutex<Judge>>,
}

/// A packet of QUIC as the unit of valid windows: the smallest datagram that every path carries
/// (RFC 9000 section 14), bytes.
const PACKET: f64 = 1200.0;

/// A controller of Windward in a stack.
pub(crate) trait Driven: std::fmt::Debug + Send + Sync {
    fn figures(&self) -> Figures;

    /// Asks until when the next datagram, of so many bytes, has to wait.
    fn depart(&self, now: Time, bytes: usize) -> Option<Time>;
}

impl Watched {
    /// Sum and number of the RTT samples.
    pub(crate) fn rtts(&self) -> (Duration, u64) {
        (Duration::from_ps(self.rtt_sum.load(Relaxed)), self.rtt_samples.load(Relaxed))
    }

    /// Bytes in flight, as known between two acknowledgments.
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight.load(Relaxed)
    }

    /// Sets the sender's controller, if it is one of Windward.
    pub(crate) fn show(&self, driver: Option<Box<dyn Driven>>) {
        if let Some(driver) = driver {
            let _ = self.driver.set(driver);
        }
    }

    /// The sender's controller, if it is one of Windward.
    pub(crate) fn driver(&self) -> Option<&dyn Driven> {
        self.driver.get().map(Box::as_ref)
    }

    /// Number of invalid windows (zero, negative, not finite) returned by an external controller.
    pub(crate) fn refused_windows(&self) -> u64 {
        self.driver().map_or(0, |driver| driver.figures().refused_windows)
    }

    /// The record of a controller of another crate, whose answers are judged under this name.
    pub(crate) fn judging(name: &'static str) -> Self {
        Watched { judge: Some(Mutex::new(Judge::new(name))), ..Watched::default() }
    }

    /// Tells the judge of an event, if there is one.
    pub(crate) fn tell(&self, event: impl FnOnce(&mut Judge)) {
        if let Some(judge) = &self.judge {
            event(&mut judge.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// The window to use for this one of the controller, bytes.
    pub(crate) fn window(&self, bytes: u64) -> u64 {
        let mut window = bytes;
        self.tell(|judge| {
            let packets = bytes as f64 / PACKET;
            let used = judge.window(packets);
            if used.to_bits() != packets.to_bits() {
                window = (used * PACKET) as u64;
            }
        });
        window
    }

    pub(crate) fn sent(&self, bytes: u64, now: Instant) {
        self.in_flight.fetch_add(bytes, Relaxed);
        self.tell(|judge| judge.sent(1, clock::time(now)));
    }

    pub(crate) fn lost(&self, bytes: u64) {
        self.in_flight.store(self.in_flight().saturating_sub(bytes), Relaxed);
    }

    fn acknowledged(&self, in_flight: u64, sample: Option<Duration>) {
        self.in_flight.store(in_flight, Relaxed);
        if let Some(sample) = sample {
            self.rtt_sum.fetch_add(sample.as_ps(), Relaxed);
            self.rtt_samples.fetch_add(1, Relaxed);
        }
    }
}

/// Finds acknowledgments that give an RTT sample: those of a packet newer than all before (RFC 9002
/// section 5.1).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Samples {
    /// Time at which the newest packet of the current ACK frame was sent.
    newest: Option<Instant>,
    /// Time at which the packet of the latest sample was sent.
    sampled: Option<Instant>,
}

impl Samples {
    /// Notes that a packet sent at this time is acknowledged.
    pub(crate) fn packet(&mut self, sent: Instant) {
        self.newest = self.newest.max(Some(sent));
    }

    /// Ends an ACK frame, after all of its packets.
    pub(crate) fn frame(&mut self, now: Instant, in_flight: u64, watched: &Watched) {
        let newest = self.newest.take();
        let sent = newest.filter(|_| newest > self.sampled);
        if sent.is_some() {
            self.sampled = newest;
        }
        let sample = |sent| clock::span(now.saturating_duration_since(sent));
        watched.acknowledged(in_flight, sent.map(sample));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_newer_packets_give_samples() {
        let at = |ms| clock::instant(Time::ZERO + Duration::from_millis(ms));
        let (watched, mut samples) = (Watched::default(), Samples::default());
        watched.sent(3000, at(0));
        samples.packet(at(10));
        samples.packet(at(20));
        samples.frame(at(100), 1000, &watched);
        assert_eq!(watched.rtts(), (Duration::from_millis(80), 1));
        assert_eq!(watched.in_flight(), 1000);
        // An older packet, late.
        samples.packet(at(15));
        samples.frame(at(120), 500, &watched);
        assert_eq!(watched.rtts(), (Duration::from_millis(80), 1));
        watched.lost(700);
        assert_eq!(watched.in_flight(), 0);
    }
}
