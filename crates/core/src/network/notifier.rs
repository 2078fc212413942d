//! The notifier: the node at the far end of a link that reports corruption on it (eten2004 sections
//! 3.2.1 and 4.1).
//!
//! There are two kinds. A cumulative notifier knows r, the fraction of packets that the link
//! corrupts, and multiplies the survival probability in the header of each data packet by 1 - r. A
//! per-packet notifier reports each corrupted packet; the engine, which knows the flows, selects
//! receiver and direction of the report.
//!
//! The paper's experiments take r as configured, "the upper bound on the performance improvements
//! that are possible without any estimation error", and leave measurement to later work. The
//! measured kind counts corrupted packets with a weight that decays with their age:
//!
//! ```text
//! L <- (1 - 1/W) L + [corrupted]     N <- (1 - 1/W) N + 1     r = L / (N + w)
//! ```
//!
//! All packets of the link count, data and acknowledgments of all flows: a node cannot tell which
//! flow a corrupted packet belonged to (section 3.3.3). The sum includes w imaginary uncorrupted
//! packets, so that r is 0 at the beginning and CETEN is plain TCP.
//!
//! - Bias: r is too low by the factor W / (W + w) once N has reached W, and by more before. A low r
//!   is on the safe side: corruption is taken for congestion.
//! - Reaction: after a step of the true rate, r has gone 63 % of the way in W packets, 95 % in 3 W.
//! - Noise: for independent losses at rate p the relative standard error is about
//!   sqrt((1 - p) / (2 W p)): 10 % needs W of about 50 / p packets.

use super::ChannelConfig;
use crate::packet::{CongestionHeader, Packet, PacketKind};
use crate::units::Probability;

/// The notifier at the far end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum NotifierConfig {
    /// No notifier.
    #[default]
    Off,
    /// A notifier that knows the rate of the channel for the size of each packet.
    Configured,
    /// A notifier with a given rate, that of a link beyond this one: packets are not lost here.
    Told {
        /// The share of packets that are corrupted.
        rate: Probability,
    },
    /// A notifier that measures.
    Measured {
        /// W, packets, at least 1.
        window: u32,
        /// w, packets, at least 0.
        prior: f64,
    },
}

impl NotifierConfig {
    /// The default of the measured kind: rates from 0.5 % within 10 %, biased by 1 %.
    pub const MEASURED: NotifierConfig = NotifierConfig::Measured { window: 10_000, prior: 100.0 };
}

/// The state of a notifier.
#[derive(Debug, Clone)]
pub struct Notifier {
    rate: Rate,
}

#[derive(Debug, Clone)]
enum Rate {
    /// The channel, and the size asked for last with its survival probability.
    Configured {
        channel: ChannelConfig,
        /// The most transmissions of a packet.
        attempts: u32,
        size: u32,
        survival: f64,
    },
    Measured(ErrorMeter),
    /// The probability of survival.
    Told(f64),
}

/// The share of packets of this size that survive this number of attempts, if attempts fail
/// independently.
fn survival(channel: &ChannelConfig, attempts: u32, size: u32) -> f64 {
    1.0 - libm::pow(channel.loss_rate(size), attempts.into())
}

impl Notifier {
    /// The notifier of a link with this channel, if it has one.
    pub fn new(spec: NotifierConfig, channel: &ChannelConfig) -> Option<Notifier> {
        let rate = match spec {
            NotifierConfig::Off => return None,
            NotifierConfig::Configured => {
                let survival = survival(channel, 1, 0);
                Rate::Configured { channel: channel.clone(), attempts: 1, size: 0, survival }
            }
            NotifierConfig::Told { rate } => Rate::Told(1.0 - rate.get()),
            NotifierConfig::Measured { window, prior } => {
                Rate::Measured(ErrorMeter::new(window, prior))
            }
        };
        Some(Notifier { rate })
    }

    /// Sets the number of times that the link sends a packet before giving up, for a configured
    /// notifier.
    pub(super) fn set_attempts(&mut self, new: u32) {
        if let Rate::Configured { channel, attempts, size, survival } = &mut self.rate {
            *attempts = new;
            *survival = self::survival(channel, new, *size);
        }
    }

    /// Sets a new channel of the link, for a configured notifier; others measure or have a given
    /// rate.
    pub(super) fn set_channel(&mut self, new: &ChannelConfig) {
        if let Rate::Configured { channel, attempts, size, survival } = &mut self.rate {
            *survival = self::survival(new, *attempts, *size);
            *channel = new.clone();
        }
    }

    /// Handles a packet that has crossed the link, intact or not.
    #[inline]
    pub(super) fn on_packet(&mut self, packet: &mut Packet, corrupted: bool) {
        if let Rate::Measured(meter) = &mut self.rate {
            meter.on_packet(corrupted);
        }
        let (kind, size) = (packet.kind, packet.size);
        if let (PacketKind::Data, CongestionHeader::Survival { probability }) =
            (kind, &mut packet.header)
        {
            *probability *= self.survival(size).get();
        }
    }

    /// 1 - r for packets of this size.
    pub fn survival(&mut self, of: u32) -> Probability {
        let survival = match &mut self.rate {
            Rate::Configured { channel, attempts, size, survival } => {
                if *size != of {
                    *size = of;
                    *survival = self::survival(channel, *attempts, of);
                }
                *survival
            }
            Rate::Measured(meter) => 1.0 - meter.rate(),
            Rate::Told(survival) => *survival,
        };
        Probability::new(survival).unwrap_or(Probability::ZERO)
    }
}

/// Estimator of the fraction of corrupted packets; see the module.
#[derive(Debug, Clone)]
pub struct ErrorMeter {
    kept: f64,
    prior: f64,
    corrupted: f64,
    packets: f64,
}

impl ErrorMeter {
    /// A meter without samples, with W and w in packets.
    pub fn new(window: u32, prior: f64) -> Self {
        let kept = 1.0 - 1.0 / f64::from(window.max(1));
        ErrorMeter { kept, prior, corrupted: 0.0, packets: 0.0 }
    }

    /// Counts a packet.
    pub fn on_packet(&mut self, corrupted: bool) {
        self.corrupted = self.corrupted * self.kept + f64::from(u8::from(corrupted));
        self.packets = self.packets * self.kept + 1.0;
    }

    /// r, 0 to 1; 0 before the first packet.
    pub fn rate(&self) -> f64 {
        let known = self.packets + self.prior;
        if known > 0.0 { self.corrupted / known } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    fn p(p: f64) -> Probability {
        Probability::new(p).unwrap()
    }

    fn crossed(notifier: &mut Notifier, kind: PacketKind, size: u32, survival: f64) -> f64 {
        let header = CongestionHeader::Survival { probability: survival };
        let mut packet = Packet { kind, size, header, ..Packet::default() };
        notifier.on_packet(&mut packet, false);
        match packet.header {
            CongestionHeader::Survival { probability } => probability,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_rate_that_is_told_stays_whatever_the_channel_is() {
        let rate = Probability::new(0.1).unwrap();
        let mut told = Notifier::new(NotifierConfig::Told { rate }, &ChannelConfig::Clean).unwrap();
        assert!((crossed(&mut told, PacketKind::Data, 1000, 0.5) - 0.45).abs() < 1e-12);
        told.set_channel(&ChannelConfig::PacketLoss(Probability::ONE));
        told.set_attempts(3);
        assert!((crossed(&mut told, PacketKind::Data, 40, 1.0) - 0.9).abs() < 1e-12);
        assert_eq!(crossed(&mut told, PacketKind::Ack, 40, 0.5), 0.5);
    }

    #[test]
    fn survival_is_multiplied_on_data_and_kept_on_acknowledgments() {
        let channel = ChannelConfig::PacketLoss(p(0.2));
        let mut notifier = Notifier::new(NotifierConfig::Configured, &channel).unwrap();
        assert!((crossed(&mut notifier, PacketKind::Data, 1000, 0.9) - 0.72).abs() < 1e-12);
        assert_eq!(crossed(&mut notifier, PacketKind::Ack, 40, 0.9), 0.9);
        assert!(Notifier::new(NotifierConfig::Off, &channel).is_none());
    }

    #[test]
    fn a_channel_that_changes_is_known_where_it_was_known() {
        let (before, after) =
            (ChannelConfig::PacketLoss(p(0.2)), ChannelConfig::PacketLoss(p(0.5)));
        let mut notifier = Notifier::new(NotifierConfig::Configured, &before).unwrap();
        assert!((crossed(&mut notifier, PacketKind::Data, 1000, 1.0) - 0.8).abs() < 1e-12);
        notifier.set_channel(&after);
        for size in [1000, 40] {
            assert!((crossed(&mut notifier, PacketKind::Data, size, 1.0) - 0.5).abs() < 1e-12);
        }
        let mut measured = Notifier::new(NotifierConfig::MEASURED, &before).unwrap();
        measured.set_channel(&after);
        assert_eq!(crossed(&mut measured, PacketKind::Data, 1000, 1.0), 1.0);
    }

    #[test]
    fn bit_errors_depend_on_the_size() {
        // 1000 bytes at 1e-5: 1 - 0.076884; 40 bytes: (1 - 1e-5)^320 = e^-0.0032 = 0.996805.
        let channel = ChannelConfig::BitErrors(p(1e-5));
        let mut notifier = Notifier::new(NotifierConfig::Configured, &channel).unwrap();
        for _ in 0..2 {
            let large = crossed(&mut notifier, PacketKind::Data, 1000, 1.0);
            assert!((large - 0.923_116).abs() < 1e-6, "{large}");
            let small = crossed(&mut notifier, PacketKind::Data, 40, 1.0);
            assert!((small - 0.996_805).abs() < 1e-6, "{small}");
        }
    }

    /// Mean and standard deviation of r over many meters that saw `packets` packets at `rate`.
    fn spread(window: u32, prior: f64, rate: f64, packets: u32) -> (f64, f64) {
        let meters = 400;
        let readings: Vec<f64> = (0..meters)
            .map(|i| {
                let mut meter = ErrorMeter::new(window, prior);
                let mut stream = Stream::new(i, "test", "meter");
                for _ in 0..packets {
                    meter.on_packet(stream.chance(p(rate)));
                }
                meter.rate()
            })
            .collect();
        let n = readings.len() as f64;
        let mean = readings.iter().sum::<f64>() / n;
        let var = readings.iter().map(|r| (r - mean) * (r - mean)).sum::<f64>() / (n - 1.0);
        (mean, var.sqrt())
    }

    #[test]
    fn bias_and_noise_are_as_documented() {
        // W = 1000, w = 50, p = 2 %, after 10 W: mean 0.02 x 1000 / 1050 = 0.019048. Relative
        // standard error sqrt(0.98 / (2 x 1000 x 0.02)) = 15.7 %; of the mean of 400, 0.78 %.
        let (mean, deviation) = spread(1000, 50.0, 0.02, 10_000);
        assert!((mean / 0.019_048 - 1.0).abs() < 5.0 * 0.0078, "{mean}");
        // The standard deviation of 400 values has a relative standard error of 1/sqrt(800) = 3.5
        // %.
        assert!((deviation / mean / 0.1565 - 1.0).abs() < 5.0 * 0.036, "{deviation}");
    }

    #[test]
    fn without_knowledge_there_is_no_corruption() {
        let mut meter = ErrorMeter::new(1000, 100.0);
        assert_eq!(meter.rate(), 0.0);
        assert_eq!(ErrorMeter::new(1, 0.0).rate(), 0.0);
        // One corrupted packet is not a rate of 1, but 1 / 101.
        meter.on_packet(true);
        assert!((meter.rate() - 1.0 / 101.0).abs() < 1e-12);
    }

    #[test]
    fn a_step_is_followed_within_the_window() {
        // From 0 to 1 after the meter has settled: 1 - (1 - 1/W)^n of W / (W + w). W = 100,
        // w = 0: 1 - 0.99^100 = 0.633968; 1 - 0.99^300 = 0.950959.
        let mut meter = ErrorMeter::new(100, 0.0);
        (0..2000).for_each(|_| meter.on_packet(false));
        (0..100).for_each(|_| meter.on_packet(true));
        assert!((meter.rate() - 0.633_968).abs() < 1e-6, "{}", meter.rate());
        (0..200).for_each(|_| meter.on_packet(true));
        assert!((meter.rate() - 0.950_959).abs() < 1e-6, "{}", meter.rate());
    }
}
