//! Channels: which packets a wire destroys.

use std::collections::{HashMap, VecDeque};
use std::fmt;

use super::{ChainClock, ChannelConfig};
use crate::packet::{Label, Packet};
use crate::part::CustomPart;
use crate::rng::Stream;
use crate::units::{Duration, Probability, Time};

/// The state of a channel. A destroyed packet still takes its time on the wire.
#[derive(Debug)]
pub struct ChannelState {
    law: Law,
    stream: Stream,
}

/// A channel from another crate.
pub trait Channel: fmt::Debug {
    /// As [`ChannelState::destroys`], with random numbers of the channel's own. Where a link layer sends
    /// packets again, each attempt is asked for at its own instant, which may lie ahead of what is
    /// asked for next.
    fn destroys(&mut self, now: Time, label: Label, packet: &Packet, stream: &mut Stream) -> bool;
}

/// What makes a channel from another crate: [`ChannelConfig::Custom`].
pub trait MakeChannel: CustomPart {
    /// The channel before its first packet.
    fn make(&self) -> Box<dyn Channel + Send + Sync>;
    /// The fraction of packets of `size` bytes that it destroys in the long run, which a configured
    /// notifier tells of.
    fn loss_rate(&self, size: u32) -> f64;
}

#[derive(Debug)]
enum Law {
    Clean,
    PacketLoss(Probability),
    BitErrors { ln_survival_per_bit: f64 },
    Bursts { event: Probability, length: u32, per_flow: bool, left: HashMap<u32, u32> },
    GilbertElliott { clock: Clock, bad: bool, loss: [Probability; 2] },
    Custom(Box<dyn Channel + Send + Sync>),
}

#[derive(Debug, Clone)]
enum Clock {
    /// Probability of leaving the good and the bad state at each packet.
    Packets([Probability; 2]),
    /// Mean sojourns, the end of the present one, and the ends of those after it as far as they are
    /// known.
    Time { mean: [Duration; 2], until: Time, ahead: VecDeque<Time> },
}

impl Law {
    fn new(spec: &ChannelConfig, stream: &mut Stream) -> Self {
        match *spec {
            ChannelConfig::Clean => Law::Clean,
            ChannelConfig::Custom(custom) => Law::Custom(custom.0.make()),
            ChannelConfig::PacketLoss(p) => Law::PacketLoss(p),
            ChannelConfig::BitErrors(ber) => {
                Law::BitErrors { ln_survival_per_bit: libm::log1p(-ber.get()) }
            }
            ChannelConfig::Bursts { event, length, per_flow } => {
                Law::Bursts { event, length, per_flow, left: HashMap::new() }
            }
            ChannelConfig::GilbertElliott { clock, loss_good, loss_bad } => {
                let clock = match clock {
                    ChainClock::Packets { to_bad, to_good } => Clock::Packets([to_bad, to_good]),
                    ChainClock::Time { mean_good, mean_bad } => Clock::Time {
                        mean: [mean_good, mean_bad],
                        until: Time::ZERO + stream.exponential(mean_good),
                        ahead: VecDeque::new(),
                    },
                };
                Law::GilbertElliott { clock, bad: false, loss: [loss_good, loss_bad] }
            }
        }
    }
}

impl ChannelState {
    /// The channel described by `spec`, drawing from `stream`.
    pub fn new(spec: &ChannelConfig, mut stream: Stream) -> Self {
        ChannelState { law: Law::new(spec, &mut stream), stream }
    }

    /// Destroys as `spec` says from now on, with the random numbers that come next.
    pub fn become_as(&mut self, spec: &ChannelConfig) {
        self.law = Law::new(spec, &mut self.stream);
    }

    /// Does this channel never destroy anything?
    pub fn is_clean(&self) -> bool {
        matches!(self.law, Law::Clean)
    }

    /// Is this packet, whose last bit leaves the queue at `now`, destroyed on the wire? Packets
    /// must be asked for in the order in which they cross.
    pub fn destroys(&mut self, now: Time, label: Label, packet: &Packet) -> bool {
        self.law.destroys(now, label, packet, &mut self.stream)
    }

    /// Is a packet destroyed that is sent again and whose last bit leaves at `at`, which lies ahead? A
    /// chain in time is in the state of that instant. What goes by packets counts this as the next,
    /// although others may be sent before. `stream` decides where the state does not.
    pub(super) fn destroys_again(
        &mut self,
        at: Time,
        label: Label,
        packet: &Packet,
        stream: &mut Stream,
    ) -> bool {
        let Law::GilbertElliott { clock: Clock::Time { mean, until, ahead }, bad, loss } =
            &mut self.law
        else {
            return self.law.destroys(at, label, packet, stream);
        };
        let (mut then, mut end) = (*bad, *until);
        for index in 0.. {
            if end > at {
                break;
            }
            then = !then;
            if index == ahead.len() {
                ahead.push_back(end + self.stream.exponential(mean[usize::from(then)]));
            }
            end = ahead[index];
        }
        stream.chance(loss[usize::from(then)])
    }
}

impl Law {
    fn destroys(&mut self, now: Time, label: Label, packet: &Packet, stream: &mut Stream) -> bool {
        match self {
            Law::Clean => false,
            Law::Custom(channel) => channel.destroys(now, label, packet, stream),
            Law::PacketLoss(p) => stream.chance(*p),
            Law::BitErrors { ln_survival_per_bit } => {
                // 1 - (1 - ber)^bits, by logarithms so that a small ber keeps its digits.
                let bits = f64::from(packet.size) * 8.0;
                let loss = -libm::expm1(bits * *ln_survival_per_bit);
                Probability::new(loss).is_some_and(|loss| stream.chance(loss))
            }
            Law::Bursts { event, length, per_flow, left } => {
                let flow = if *per_flow { label.flow } else { 0 };
                let mut rest = left.get(&flow).copied().unwrap_or(0);
                if rest == 0 && stream.chance(*event) {
                    rest = *length;
                }
                // Only flows within a burst are kept: there may be millions of others.
                match rest {
                    0 => {}
                    1 => drop(left.remove(&flow)),
                    more => drop(left.insert(flow, more - 1)),
                }
                rest > 0
            }
            Law::GilbertElliott { clock, bad, loss } => {
                match clock {
                    // netem moves the chain first and then asks the new state.
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
        }
    }
}

impl ChannelConfig {
    /// The fraction of packets of `size` bytes that the channel destroys in the long run.
    pub fn loss_rate(&self, size: u32) -> f64 {
        // The share of time or packets of two alternating states with these mean stays.
        let share = |of: f64, other: f64| if of > 0.0 { of / (of + other) } else { 0.0 };
        match *self {
            ChannelConfig::Clean => 0.0,
            ChannelConfig::Custom(custom) => custom.0.loss_rate(size),
            ChannelConfig::PacketLoss(p) => p.get(),
            ChannelConfig::BitErrors(ber) => {
                -libm::expm1(f64::from(size) * 8.0 * libm::log1p(-ber.get()))
            }
            ChannelConfig::Bursts { event, length, .. } => {
                // A cycle is (1 - event) / event clean packets on average and `length` lost.
                let event = event.get();
                share(event * f64::from(length), 1.0 - event)
            }
            ChannelConfig::GilbertElliott { clock, loss_good, loss_bad } => {
                let bad = match clock {
                    ChainClock::Packets { to_bad, to_good } => share(to_bad.get(), to_good.get()),
                    ChainClock::Time { mean_good, mean_bad } => {
                        share(mean_bad.as_secs_f64(), mean_good.as_secs_f64())
                    }
                };
                (1.0 - bad) * loss_good.get() + bad * loss_bad.get()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p(p: f64) -> Probability {
        Probability::new(p).unwrap()
    }

    /// Which of `n` packets, one per millisecond, taking turns between two flows, are destroyed.
    fn fates(spec: &ChannelConfig, n: u32) -> Vec<bool> {
        let mut channel = ChannelState::new(spec, Stream::new(1, "channel", "test"));
        (0..n)
            .map(|i| {
                let packet = Packet { size: 1000, ..Packet::default() };
                let label = Label { flow: i % 2, class: 0 };
                let now = Time::ZERO + Duration::from_millis(u64::from(i));
                channel.destroys(now, label, &packet)
            })
            .collect()
    }

    fn share(fates: &[bool]) -> f64 {
        fates.iter().filter(|lost| **lost).count() as f64 / fates.len() as f64
    }

    #[test]
    fn flows_outside_of_bursts_are_not_kept() {
        let spec = ChannelConfig::Bursts {
            event: Probability::new(0.5).unwrap(),
            length: 2,
            per_flow: true,
        };
        let mut channel = ChannelState::new(&spec, Stream::new(1, "channel", "test"));
        let packet = Packet { size: 1000, ..Packet::default() };
        let mut destroys = |flow| channel.destroys(Time::ZERO, Label { flow, class: 0 }, &packet);
        // Those that are hit by a first packet are hit by the second; no burst is left then.
        let hit: Vec<bool> = (0..1000).map(&mut destroys).collect();
        assert!(hit.contains(&true) && hit.contains(&false));
        for (flow, was_hit) in (0..).zip(&hit) {
            if *was_hit {
                assert!(destroys(flow));
            }
        }
        let Law::Bursts { left, .. } = &channel.law else { panic!() };
        assert!(left.is_empty(), "{left:?}");
    }

    #[test]
    fn packet_loss_and_bit_errors_have_their_rates() {
        // Five standard errors: 5 sqrt(p (1 - p) / n).
        let n = 200_000;
        let loss = share(&fates(&ChannelConfig::PacketLoss(p(0.05)), n));
        assert!((loss - 0.05).abs() < 5.0 * (0.05 * 0.95 / f64::from(n)).sqrt(), "{loss}");
        // 1000 bytes at 1e-5: 1 - (1 - 1e-5)^8000 = 1 - e^-0.0800004 = 0.076884.
        let loss = share(&fates(&ChannelConfig::BitErrors(p(1e-5)), n));
        assert!((loss - 0.076_884).abs() < 5.0 * (0.0769 * 0.923 / f64::from(n)).sqrt(), "{loss}");
    }

    #[test]
    fn loss_rates_by_hand() {
        let near = |spec: ChannelConfig, rate: f64| {
            assert!((spec.loss_rate(1000) - rate).abs() < 5e-7, "{spec:?}");
        };
        near(ChannelConfig::Clean, 0.0);
        near(ChannelConfig::PacketLoss(p(0.05)), 0.05);
        near(ChannelConfig::BitErrors(p(1e-5)), 0.076_884); // As above.
        near(ChannelConfig::BitErrors(p(1.0)), 1.0);
        // 99 clean packets and 4 lost.
        near(ChannelConfig::Bursts { event: p(0.01), length: 4, per_flow: true }, 0.038_835);
        let clock = ChainClock::Packets { to_bad: p(0.01), to_good: p(0.19) };
        let chain =
            |clock| ChannelConfig::GilbertElliott { clock, loss_good: p(0.001), loss_bad: p(0.5) };
        near(chain(clock), 0.95 * 0.001 + 0.05 * 0.5);
        let clock = ChainClock::Time {
            mean_good: Duration::from_secs(9),
            mean_bad: Duration::from_secs(1),
        };
        near(chain(clock), 0.9 * 0.001 + 0.1 * 0.5);
    }

    #[test]
    fn extremes_are_exact() {
        assert_eq!(share(&fates(&ChannelConfig::PacketLoss(p(1.0)), 100)), 1.0);
        assert_eq!(share(&fates(&ChannelConfig::BitErrors(p(1.0)), 100)), 1.0);
        assert_eq!(share(&fates(&ChannelConfig::BitErrors(p(0.0)), 100)), 0.0);
        assert_eq!(share(&fates(&ChannelConfig::Clean, 100)), 0.0);
    }

    #[test]
    fn bursts_hit_consecutive_packets_of_one_flow() {
        let spec = ChannelConfig::Bursts { event: p(0.01), length: 4, per_flow: true };
        let fates = fates(&spec, 200_000);
        for flow in 0..2 {
            let own: Vec<bool> = fates.iter().skip(flow).step_by(2).copied().collect();
            let runs = own.split(|lost| !lost).filter(|run| !run.is_empty());
            // Two events may touch: every run of losses is a whole number of bursts. The last
            // run may be cut by the end of the test.
            let lengths: Vec<usize> = runs.map(<[bool]>::len).collect();
            assert!(lengths[..lengths.len() - 1].iter().all(|n| n % 4 == 0));
        }
        // A cycle is on average 1/e - 1 clean packets and 4 lost: 4 / (4 + 99) = 3.88 %.
        assert!((share(&fates) - 4.0 / 103.0).abs() < 0.003);
    }

    #[test]
    fn a_retransmission_finds_the_state_of_its_instant() {
        // Whatever is asked ahead, the chain is the same: lost or not at each of these instants.
        let clock = ChainClock::Time {
            mean_good: Duration::from_millis(30),
            mean_bad: Duration::from_millis(20),
        };
        let spec = ChannelConfig::GilbertElliott { clock, loss_good: p(0.0), loss_bad: p(1.0) };
        let plain = fates(&spec, 10_000);
        let mut channel = ChannelState::new(&spec, Stream::new(1, "channel", "test"));
        let mut stream = Stream::new(1, "arq", "test");
        let packet = Packet { size: 1000, ..Packet::default() };
        let at = |ms: usize| Time::ZERO + Duration::from_millis(ms as u64);
        let label = Label::default();
        for now in 0..9_000 {
            let ahead = now + now % 97;
            assert_eq!(
                channel.destroys_again(at(ahead), label, &packet, &mut stream),
                plain[ahead],
                "{ahead} ms"
            );
            assert_eq!(channel.destroys(at(now), label, &packet), plain[now], "{now} ms");
        }
    }

    #[test]
    fn the_two_state_chain_has_its_stationary_loss() {
        // Bad with probability to_bad / (to_bad + to_good) = 0.01 / 0.177 = 0.0565.
        let clock = ChainClock::Packets { to_bad: p(0.01), to_good: p(0.167) };
        let spec = ChannelConfig::GilbertElliott { clock, loss_good: p(0.0), loss_bad: p(1.0) };
        let loss = share(&fates(&spec, 400_000));
        assert!((loss - 0.0565).abs() < 0.004, "{loss}");

        // In time: bad for 1 of 10 s on average, half of those packets lost: 5 %. Over 2000 s
        // there are 200 cycles; the share of bad time has a standard error of about 0.9 %.
        let clock = ChainClock::Time {
            mean_good: Duration::from_secs(9),
            mean_bad: Duration::from_secs(1),
        };
        let spec = ChannelConfig::GilbertElliott { clock, loss_good: p(0.0), loss_bad: p(0.5) };
        let loss = share(&fates(&spec, 2_000_000));
        assert!((loss - 0.05).abs() < 0.02, "{loss}");
    }
}
