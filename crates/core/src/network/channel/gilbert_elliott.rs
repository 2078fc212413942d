//! The Gilbert-Elliott chain of a good and a bad state, which moves by packets or in time.

use std::collections::VecDeque;

use super::{ChainClock, Channel};
use crate::packet::{Label, Packet};
use crate::rng::Stream;
use crate::units::{Duration, Probability, Time};

/// A channel in one of the two states.
#[derive(Debug)]
pub struct GilbertElliott {
    clock: Clock,
    bad: bool,
    /// Loss probabilities in the good and in the bad state.
    loss: [Probability; 2],
}

#[derive(Debug)]
enum Clock {
    /// Probability of leaving the good and the bad state at each packet.
    Packets([Probability; 2]),
    /// Mean sojourns, the end of the present one, and the known ends of later ones.
    Time { mean: [Duration; 2], until: Time, ahead: VecDeque<Time> },
}

impl GilbertElliott {
    pub(super) fn new(clock: ChainClock, loss: [Probability; 2], stream: &mut Stream) -> Self {
        let clock = match clock {
            ChainClock::Packets { to_bad, to_good } => Clock::Packets([to_bad, to_good]),
            ChainClock::Time { mean_good, mean_bad } => Clock::Time {
                mean: [mean_good, mean_bad],
                until: Time::ZERO + stream.exponential(mean_good),
                ahead: VecDeque::new(),
            },
        };
        GilbertElliott { clock, bad: false, loss }
    }
}

impl Channel for GilbertElliott {
    fn destroys(&mut self, now: Time, _: Label, _: &Packet, stream: &mut Stream) -> bool {
        let GilbertElliott { clock, bad, loss } = self;
        match clock {
            // As in netem, the chain moves first, and the new state applies.
            Clock::Packets(leave) => *bad ^= stream.chance(leave[usize::from(*bad)]),
            Clock::Time { mean, until, ahead } => {
                while *until <= now {
                    *bad = !*bad;
                    let next = ahead.pop_front();
                    let drawn = || *until + stream.exponential(mean[usize::from(*bad)]);
                    *until = next.unwrap_or_else(drawn);
                }
            }
        }
        stream.chance(loss[usize::from(*bad)])
    }

    fn destroys_again(
        &mut self,
        at: Time,
        label: Label,
        packet: &Packet,
        stream: &mut Stream,
        again: &mut Stream,
    ) -> bool {
        let Clock::Time { mean, until, ahead } = &mut self.clock else {
            return self.destroys(at, label, packet, again);
        };
        let (mut then, mut end) = (self.bad, *until);
        for index in 0.. {
            if end > at {
                break;
            }
            then = !then;
            if index == ahead.len() {
                ahead.push_back(end + stream.exponential(mean[usize::from(then)]));
            }
            end = ahead[index];
        }
        again.chance(self.loss[usize::from(then)])
    }
}
