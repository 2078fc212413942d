//! Channels, which decide which packets a wire destroys.
//!
//! A channel is a state machine that implements [`Channel`] and is made by a [`ChannelConfig`].
//! Other crates provide a [`MakeChannel`].

mod bursts;
mod gilbert_elliott;
mod independent;

use std::fmt::Debug;

use crate::packet::{Label, Packet};
use crate::part::{Custom, CustomPart, behaviour};
use crate::rng::Stream;
use crate::units::{Duration, Probability, Time};

use bursts::Bursts;
use gilbert_elliott::GilbertElliott;
use independent::{BitErrors, Clean, PacketLoss};

behaviour! {
    /// The channel of one wire. A destroyed packet still takes its time on the wire.
    pub trait Channel: Debug {
        /// Returns true if this packet, whose last bit leaves the queue at `now`, is destroyed on
        /// the wire. Called for packets in the order in which they cross. `stream` has the random
        /// numbers of the channel.
        fn destroys(
            &mut self,
            now: Time,
            label: Label,
            packet: &Packet,
            stream: &mut Stream,
        ) -> bool;
        /// Returns true if a packet that a link layer retransmits is destroyed. Its last bit leaves
        /// at `at`, which may be later than the next call. A chain in time uses the state at that
        /// instant. A channel in steps of packets counts this as the next packet, although others
        /// may be sent before. If the state does not decide, the random numbers of `again` do.
        fn destroys_again(
            &mut self,
            at: Time,
            label: Label,
            packet: &Packet,
            stream: &mut Stream,
            again: &mut Stream,
        ) -> bool = self.destroys(at, label, packet, again);
    }
    impl for ChannelState, by each;
}

/// Constructor of a channel that another crate provides: [`ChannelConfig::Custom`].
pub trait MakeChannel: CustomPart {
    /// The channel before its first packet.
    fn make(&self) -> Box<dyn Channel + Send + Sync>;
    /// The long-term fraction of packets of `size` bytes that it destroys, which a configured
    /// notifier reports.
    fn loss_rate(&self, size: u32) -> f64;
}

/// The losses of a wire, with their parameters.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum ChannelConfig {
    /// No losses.
    #[default]
    Clean,
    /// Each packet is lost with this probability, independently.
    PacketLoss(Probability),
    /// Each bit is inverted with this probability, independently: a packet of n bits is lost
    /// with probability 1 - (1 - ber)^n.
    BitErrors(Probability),
    /// Loss events that destroy several consecutive packets each (lr2008 section 7.4).
    Bursts {
        /// Probability that a packet outside a burst begins one. The loss rate the paper plots
        /// is `event` times `length`.
        event: Probability,
        /// Packets destroyed by one event, at least 1.
        length: u32,
        /// True if the consecutive packets are those of one flow, false for any packets of the
        /// link.
        per_flow: bool,
    },
    /// From another crate.
    Custom(Custom<dyn MakeChannel>),
    /// The Gilbert-Elliott chain of a good and a bad state.
    GilbertElliott {
        /// The clock of the chain.
        clock: ChainClock,
        /// Loss probability of a packet in the good state.
        loss_good: Probability,
        /// Loss probability of a packet in the bad state.
        loss_bad: Probability,
    },
}

/// The clock of a two-state chain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ChainClock {
    /// One step a packet, as netem's `gemodel p r`.
    Packets {
        /// Probability of good to bad at each packet.
        to_bad: Probability,
        /// Probability of bad to good at each packet.
        to_good: Probability,
    },
    /// Exponential sojourns in virtual time.
    Time {
        /// Mean time in the good state, positive.
        mean_good: Duration,
        /// Mean time in the bad state, positive.
        mean_bad: Duration,
    },
}

/// The state of a channel.
#[derive(Debug)]
pub enum ChannelState {
    /// See [`ChannelConfig::Clean`].
    Clean(Clean),
    /// See [`ChannelConfig::PacketLoss`].
    PacketLoss(PacketLoss),
    /// See [`ChannelConfig::BitErrors`].
    BitErrors(BitErrors),
    /// See [`ChannelConfig::Bursts`].
    Bursts(Bursts),
    /// See [`ChannelConfig::GilbertElliott`].
    GilbertElliott(GilbertElliott),
    /// From another crate.
    Custom(Box<dyn Channel + Send + Sync>),
}

/// Forwards a call to the channel.
macro_rules! each {
    (&mut $self:ident.$method:ident($($argument:ident),*)) => {
        match $self {
            ChannelState::Clean(channel) => channel.$method($($argument),*),
            ChannelState::PacketLoss(channel) => channel.$method($($argument),*),
            ChannelState::BitErrors(channel) => channel.$method($($argument),*),
            ChannelState::Bursts(channel) => channel.$method($($argument),*),
            ChannelState::GilbertElliott(channel) => channel.$method($($argument),*),
            ChannelState::Custom(channel) => channel.$method($($argument),*),
        }
    };
}
use each;

impl ChannelConfig {
    /// The channel before its first packet; it may draw from `stream` when it begins.
    pub fn make(&self, stream: &mut Stream) -> ChannelState {
        match *self {
            ChannelConfig::Clean => ChannelState::Clean(Clean),
            ChannelConfig::PacketLoss(p) => ChannelState::PacketLoss(PacketLoss(p)),
            ChannelConfig::BitErrors(ber) => ChannelState::BitErrors(BitErrors::new(ber)),
            ChannelConfig::Bursts { event, length, per_flow } => {
                ChannelState::Bursts(Bursts::new(event, length, per_flow))
            }
            ChannelConfig::GilbertElliott { clock, loss_good, loss_bad } => {
                let loss = [loss_good, loss_bad];
                ChannelState::GilbertElliott(GilbertElliott::new(clock, loss, stream))
            }
            ChannelConfig::Custom(custom) => ChannelState::Custom(custom.0.make()),
        }
    }

    /// The long-term fraction of packets of `size` bytes that the channel destroys.
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

/// The losses on a wire: a channel with its random numbers.
#[derive(Debug)]
pub struct Losses {
    channel: ChannelState,
    stream: Stream,
}

impl Losses {
    /// The channel of `config`, which draws from `stream`.
    pub fn new(config: &ChannelConfig, mut stream: Stream) -> Self {
        Losses { channel: config.make(&mut stream), stream }
    }

    /// Replaces the channel by that of `config`, which continues with the next random numbers.
    pub fn become_as(&mut self, config: &ChannelConfig) {
        self.channel = config.make(&mut self.stream);
    }

    /// See [`Channel::destroys`].
    pub fn destroys(&mut self, now: Time, label: Label, packet: &Packet) -> bool {
        self.channel.destroys(now, label, packet, &mut self.stream)
    }

    /// See [`Channel::destroys_again`].
    pub(super) fn destroys_again(
        &mut self,
        at: Time,
        label: Label,
        packet: &Packet,
        again: &mut Stream,
    ) -> bool {
        self.channel.destroys_again(at, label, packet, &mut self.stream, again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p(p: f64) -> Probability {
        Probability::new(p).unwrap()
    }

    /// Whether each of `n` packets, one per millisecond and alternately of two flows, is destroyed.
    fn fates(spec: &ChannelConfig, n: u32) -> Vec<bool> {
        let mut channel = Losses::new(spec, Stream::new(1, "channel", "test"));
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
        // Calls for later instants do not change the chain: the same losses at these instants.
        let clock = ChainClock::Time {
            mean_good: Duration::from_millis(30),
            mean_bad: Duration::from_millis(20),
        };
        let spec = ChannelConfig::GilbertElliott { clock, loss_good: p(0.0), loss_bad: p(1.0) };
        let plain = fates(&spec, 10_000);
        let mut channel = Losses::new(&spec, Stream::new(1, "channel", "test"));
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
