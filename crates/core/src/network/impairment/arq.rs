//! Link-layer retransmission of packets that the channel corrupts.
//!
//! The far end requests a frame again, and the sending end retransmits it `delay` after the failed
//! attempt, up to a total number of attempts. With independent losses of probability p and n
//! attempts a share p^n is lost for good. A frame needs k attempts with probability
//! (1 - p) p^(k - 1), and is then late by k - 1 times the delay and its transmission.
//!
//! With air time, a retransmission takes the wire as soon as it is due and interrupts the packet
//! being sent, which continues after it (as in synchronous HARQ, whose retransmissions have their
//! slots). Retransmissions do not interrupt each other.
//!
//! In order, the far end keeps the frames after a missing one until that has arrived or is given
//! up.

use crate::rng::Stream;
use crate::units::Duration;

/// Link-layer retransmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArqConfig {
    /// The maximum number of transmissions of a frame, including the first; at least 1.
    pub attempts: u32,
    /// Time from the end of an attempt that failed until the next is due.
    pub delay: Duration,
    /// True if the far end holds back the frames after a missing one.
    pub in_order: bool,
    /// True if retransmissions take time on the wire.
    pub air_time: bool,
}

impl ArqConfig {
    /// The largest number of attempts, more than in any link layer.
    pub const MOST_ATTEMPTS: u32 = 100;
    /// The longest delay, more than the round trip to any satellite.
    pub const LONGEST_DELAY: Duration = Duration::from_secs(10);

    pub(super) fn validate(&self) -> Result<(), String> {
        if !(1..=Self::MOST_ATTEMPTS).contains(&self.attempts) {
            let most = Self::MOST_ATTEMPTS;
            return Err(format!("{} attempts at sending a frame, not 1 to {most}", self.attempts));
        }
        if self.delay > Self::LONGEST_DELAY {
            let longest = Self::LONGEST_DELAY;
            return Err(format!("a retransmission after {}, more than {longest}", self.delay));
        }
        Ok(())
    }
}

/// The retransmission of a link. It has its own random numbers, so that the same first attempts
/// fail as without it.
#[derive(Debug)]
pub(in crate::network) struct Arq {
    pub(in crate::network) spec: ArqConfig,
    pub(in crate::network) stream: Stream,
}
