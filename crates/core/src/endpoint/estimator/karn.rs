//! RTT samples without timestamps: Karn's algorithm (Karn and Partridge, SIGCOMM 1987; RFC 6298
//! sections 3 and 5).
//!
//! One packet at a time is timed, from its transmission to the acknowledgment that covers it. A
//! retransmission makes acknowledgments ambiguous: it ends the present measurement, as in BSD and
//! ns-2, and is not timed itself. So the back-off of the timeout, which a sample ends, lasts until
//! a packet that was sent once is acknowledged.

use crate::units::Time;

/// The packet that is being timed.
#[derive(Debug, Clone, Default)]
pub struct Karn {
    timed: Option<(u64, Time)>,
}

impl Karn {
    /// Handles the transmission of packet `seq`, for the first time or again.
    pub fn on_sent(&mut self, now: Time, seq: u64, again: bool) {
        if again {
            self.timed = None;
        } else if self.timed.is_none() {
            self.timed = Some((seq, now));
        }
    }

    /// Handles the acknowledgment of everything before `una`. Returns the sending time of the timed
    /// packet, if this gives a sample.
    pub fn on_ack(&mut self, una: u64) -> Option<Time> {
        self.timed.take_if(|(seq, _)| *seq < una).map(|(_, sent)| sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_packet_is_timed_and_none_that_a_retransmission_makes_ambiguous() {
        let at = Time::from_ps;
        let mut karn = Karn::default();
        karn.on_sent(at(1), 0, false);
        karn.on_sent(at(2), 1, false);
        assert_eq!(karn.on_ack(0), None);
        assert_eq!(karn.on_ack(2), Some(at(1)), "the first of them");
        assert_eq!(karn.on_ack(3), None, "nothing is timed");
        karn.on_sent(at(3), 2, false);
        karn.on_sent(at(4), 2, true);
        assert_eq!(karn.on_ack(3), None);
        karn.on_sent(at(5), 3, false);
        assert_eq!(karn.on_ack(4), Some(at(5)));
    }
}
