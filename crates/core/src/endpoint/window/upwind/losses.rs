//! Counts of lost packets.

use super::queue::CYCLE_ROUNDS;

/// Packets after which a count has faded to 1/e, or those of [`CYCLE_ROUNDS`] round trips if these
/// are more: a burst must not be all that the counts of a large window know.
const MEMORY: f64 = 3000.0;
/// Fewer packets count as this many.
pub(super) const FEW: f64 = 100.0;

/// Lost packets among sent ones. Earlier packets count less.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Losses {
    pub(super) lost: f64,
    pub(super) sent: f64,
}

impl Losses {
    /// Adds the packets of a round trip.
    pub(super) fn add(&mut self, lost: f64, sent: f64) {
        let kept = libm::exp(-sent / MEMORY.max(f64::from(CYCLE_ROUNDS) * sent));
        self.lost = self.lost * kept + lost;
        self.sent = self.sent * kept + sent;
    }

    /// The loss rate. That of few packets is too small rather than too large.
    pub(super) fn rate(self) -> f64 {
        self.lost / self.sent.max(FEW)
    }

    /// The loss rate, and so many of its standard deviations.
    pub(super) fn rate_above(self, deviations: f64) -> f64 {
        self.rate() + deviations * libm::sqrt(self.lost) / self.sent.max(FEW)
    }

    /// Standard deviations by which this loss rate exceeds the `other` one.
    pub(super) fn excess(self, other: Losses) -> f64 {
        let (here, there) = (self.sent.max(1.0), other.sent.max(FEW));
        let pooled = ((self.lost + other.lost) / (here + there)).max(1e-9);
        let deviation = libm::sqrt(pooled * (1.0 / here + 1.0 / there));
        (self.lost / here - other.lost / there) / deviation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The counts after so many round trips of `sent` packets without a loss, and one that loses
    /// a fifth of them.
    fn burst(sent: f64) -> Losses {
        let mut losses = Losses::default();
        (0..200).for_each(|_| losses.add(0.0, sent));
        losses.add(0.2 * sent, sent);
        losses
    }

    #[test]
    fn counts_fade_with_packets_and_those_of_large_windows_with_round_trips() {
        // A sum of exp(-100 n / 3000) is 100 / (1 - exp(-1/30)) = 3050 packets, of which 20 lost.
        let small = burst(100.0);
        assert!((small.sent - 3050.0).abs() < 10.0, "{}", small.sent);
        // One of exp(-n / 20) is 1 / (1 - exp(-1/20)) = 20.5 round trips: a hundredth is lost, and
        // not the seventh that 3000 packets would tell.
        let large = burst(4000.0);
        assert!((large.sent / 4000.0 - 20.5).abs() < 0.1, "{}", large.sent);
        assert!((large.rate() - 0.2 / 20.5).abs() < 1e-3, "{}", large.rate());
    }
}
