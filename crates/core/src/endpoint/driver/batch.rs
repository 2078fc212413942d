//! RTTs without the wait of a packet behind its own batch.
//!
//! Stacks send several packets at one instant. At the bottleneck each of them waits for those
//! before it, so that RTTs rise within a batch by the time that the bottleneck takes for a packet,
//! and fall with the next batch. This is noise of 12 ms for ten packets at 10 Mbit/s, and no queue
//! that stands. The time for a packet is measured between the acknowledgments of one batch:
//!
//! ```text
//! spacing = mean of (arrival of ACK j - arrival of ACK i) / (j - i), packets i < j of one batch
//! RTT     = max(sample - place spacing, smallest RTT)      place = packets of the batch before it
//! ```
//!
//! The correction never exceeds what the batch itself can cause, and no RTT becomes smaller than
//! the smallest that was measured.

use crate::units::{Duration, Time};

/// Weight of a new measurement of the spacing.
const GAIN: f64 = 0.125;

/// The batch acknowledged last, and the spacing of packets.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Batches {
    /// When it was sent; when its acknowledgment arrived, and for which place.
    sent: Time,
    acked: Time,
    place: u16,
    /// Time of the bottleneck for a packet; `None` before the first measurement.
    spacing: Option<Duration>,
}

impl Batches {
    /// The RTT of the packet at `place` of the batch sent at `sent`, acknowledged at `now`. `least`
    /// is the smallest RTT so far, zero before the first.
    pub(super) fn rtt(&mut self, sent: Time, now: Time, place: u16, least: Duration) -> Duration {
        if sent == self.sent && place > self.place {
            let spacing = now.since(self.acked).mul_f64(1.0 / f64::from(place - self.place));
            self.spacing = Some(match self.spacing {
                None => spacing,
                Some(mean) => mean.mul_f64(1.0 - GAIN) + spacing.mul_f64(GAIN),
            });
        }
        (self.sent, self.acked, self.place) = (sent, now, place);
        let sample = now.since(sent);
        let wait = self.spacing.unwrap_or(Duration::ZERO).saturating_mul(place.into());
        Duration::from_ps(sample.as_ps().saturating_sub(wait.as_ps())).max(least).min(sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn packets_of_a_batch_have_the_rtt_of_its_first() {
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let mut batches = Batches::default();
        // Five packets at 100 ms over 80 ms and a bottleneck that takes 2 ms for each. Nothing is
        // known before the second.
        let mut rtt =
            |place: u16, least| batches.rtt(at(100), at(180 + 2 * u64::from(place)), place, least);
        assert_eq!(rtt(0, Duration::ZERO), ms(80));
        for place in 1..5 {
            assert_eq!(rtt(place, ms(80)), ms(80));
        }
        // A queue of 10 ms that all of the next batch meets, of which the first two are lost.
        let mut rtt =
            |place: u16| batches.rtt(at(200), at(290 + 2 * u64::from(place)), place, ms(80));
        assert_eq!((rtt(2), rtt(4)), (ms(90), ms(90)));
        // Never less than the smallest, unless the sample is.
        assert_eq!(batches.rtt(at(300), at(383), 4, ms(80)), ms(80));
        assert_eq!(batches.rtt(at(400), at(475), 0, ms(80)), ms(75));
    }
}
