//! Random Early Detection.

/// Parameters of RED; thresholds in packets. The defaults are those of ns-2.
#[derive(Debug, Clone, PartialEq)]
pub struct RedSpec {
    /// Below this average nothing is dropped.
    pub min_threshold: f64,
    /// From this average on `max_probability` is reached.
    pub max_threshold: f64,
    /// Weight of a new sample in the average.
    pub weight: f64,
    /// Probability at `max_threshold`.
    pub max_probability: f64,
    /// Rise gently from `max_probability` to 1 between `max_threshold` and twice that.
    pub gentle: bool,
    /// Mark packets of ECN-capable transports instead of dropping them.
    pub ecn: bool,
    /// Typical packet, bytes: its transmission time ages the average while the queue is idle.
    pub mean_packet_size: u32,
}

impl Default for RedSpec {
    fn default() -> Self {
        RedSpec {
            min_threshold: 5.0,
            max_threshold: 15.0,
            weight: 0.002,
            max_probability: 0.1,
            gentle: true,
            ecn: false,
            mean_packet_size: 1000,
        }
    }
}
/// x
#[derive(Debug)]
pub struct Red;
/// x
#[derive(Debug)]
pub struct RedVerdict;
