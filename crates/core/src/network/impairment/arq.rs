//! Link-layer retransmission of packets that the channel corrupts.
//!
//! The far end asks for a frame again, and `delay` after it has left the sending end tries once
//! more, up to so many times in all. With independent losses of probability p and n attempts p^n
//! are lost for good, and a frame needs k attempts with probability (1 - p) p^(k - 1): it comes (k
//! - 1) times the delay and its transmission later.
//!
//! With air time, a retransmission takes its place on the wire as soon as it is due, in the midst
//! of what is being sent (as synchronous HARQ does, whose retransmissions have their slots); what
//! is interrupted goes on after it. Retransmissions do not interrupt each other.
//!
//! In order, the far end keeps what comes after a missing frame until this has arrived or is given
//! up.

use crate::rng::Stream;
use crate::units::Duration;

/// Link-layer retransmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArqConfig {
    /// The most transmissions of a frame, the first one included; at least 1.
    pub attempts: u32,
    /// Time from the end of an attempt that failed until the next is due.
    pub delay: Duration,
    /// True if the far end holds back the frames after a missing one.
    pub in_order: bool,
    /// True if retransmissions take time on the wire.
    pub air_time: bool,
}

impl ArqConfig {
    /// The most attempts, more than any link layer makes.
    pub const MOST_ATTEMPTS: u32 = 100;
    /// The longest delay, more than a signal takes to any satellite and back.
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

/// The retransmission of a link. Its draws are its own, so that the first attempts fare as all
/// would without it.
#[derive(Debug)]
pub(in crate::network) struct Arq {
    pub(in crate::network) spec: ArqConfig,
    pub(in crate::network) stream: Stream,
}
