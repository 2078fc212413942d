//! The XCP router.
use crate::units::Rate;

/// Parameters of an XCP router.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct XcpSpec {
    /// Share of the spare bandwidth given out in one control interval; 0.4 keeps the loop
    /// stable for any delay (Katabi et al. 2002, section 4).
    pub alpha: f64,
    /// Weight of the queue; alpha squared times the square root of two, 0.226.
    pub beta: f64,
    /// Share of the traffic that is shuffled for fairness, 0.1.
    pub shuffle: f64,
    /// A queue kept on purpose, if any.
    pub persistent: Option<PersistentQueue>,
}

/// lr2008 section 7.2: Q becomes (Qbar - gamma), Qbar an exponential average of Q.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PersistentQueue {
    /// gamma: the queue aimed at, packets; 10 in the paper.
    pub target_packets: f64,
    /// Size of a packet when gamma is turned into bytes.
    pub packet_size: u32,
    /// beta: weight of the old average, 0.9 in the paper.
    pub weight: f64,
}

impl Default for XcpSpec {
    fn default() -> Self {
        XcpSpec {
            alpha: 0.4,
            beta: 0.226,
            shuffle: 0.1,
            persistent: None,
        }
    }
}

impl XcpSpec {
    /// The router of `lr-xcpq-pa` with the paper's gamma = 10 packets and beta = 0.9.
    pub fn persistent() -> Self {
        let persistent = Some(PersistentQueue {
            target_packets: 10.0,
            packet_size: 1000,
            weight: 0.9,
        });
        XcpSpec {
            persistent,
            ..XcpSpec::default()
        }
    }
}

/// State of an XCP router.
#[derive(Debug, Clone)]
pub struct XcpRouter {}
impl XcpRouter {
    /// New.
    pub fn new(_spec: XcpSpec, _rate: Rate) -> Self {
        XcpRouter {}
    }
}
