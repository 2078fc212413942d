//! Counts of lost packets.

/// Packets after which a count has faded to 1/e.
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
    /// Adds a round trip.
    pub(super) fn add(&mut self, lost: f64, sent: f64) {
        let kept = libm::exp(-sent / MEMORY);
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
