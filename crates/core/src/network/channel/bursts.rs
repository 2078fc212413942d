//! Loss events that destroy several consecutive packets each (lr2008 section 7.4).

use std::collections::HashMap;

use super::Channel;
use crate::packet::{Label, Packet};
use crate::rng::Stream;
use crate::units::{Probability, Time};

/// A channel with such events.
#[derive(Debug)]
pub struct Bursts {
    event: Probability,
    length: u32,
    per_flow: bool,
    /// Packets that the burst of each flow is still to destroy. Only flows within a burst are
    /// stored, since there may be millions of others.
    left: HashMap<u32, u32>,
}

impl Bursts {
    pub(super) fn new(event: Probability, length: u32, per_flow: bool) -> Self {
        Bursts { event, length, per_flow, left: HashMap::new() }
    }
}

impl Channel for Bursts {
    fn destroys(&mut self, _: Time, label: Label, _: &Packet, stream: &mut Stream) -> bool {
        let flow = if self.per_flow { label.flow } else { 0 };
        let mut rest = self.left.get(&flow).copied().unwrap_or(0);
        if rest == 0 && stream.chance(self.event) {
            rest = self.length;
        }
        match rest {
            0 => {}
            1 => drop(self.left.remove(&flow)),
            more => drop(self.left.insert(flow, more - 1)),
        }
        rest > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_outside_of_bursts_are_not_kept() {
        let mut channel = Bursts::new(Probability::new(0.5).unwrap(), 2, true);
        let mut stream = Stream::new(1, "channel", "test");
        let packet = Packet { size: 1000, ..Packet::default() };
        let mut destroys =
            |flow| channel.destroys(Time::ZERO, Label { flow, class: 0 }, &packet, &mut stream);
        // Flows hit at their first packet are hit at the second; then no burst is left.
        let hit: Vec<bool> = (0..1000).map(&mut destroys).collect();
        assert!(hit.contains(&true) && hit.contains(&false));
        for (flow, was_hit) in (0..).zip(&hit) {
            if *was_hit {
                assert!(destroys(flow));
            }
        }
        assert!(channel.left.is_empty(), "{channel:?}");
    }
}
