//! All estimators of one sender: those of every protocol, and those that some protocols require.

use super::{
    ArrivalCounter, Bandwidth, BandwidthKind, BandwidthSample, Counting, DeliveryRate, Karn,
    RttEstimator,
};
use crate::endpoint::EndpointConfig;
use crate::endpoint::event::Path;
use crate::units::Time;

/// A bandwidth estimate and its packet counter.
#[derive(Debug)]
struct BandwidthState {
    estimate: Bandwidth,
    arrivals: ArrivalCounter,
}

/// The estimates that a sender has of its path.
#[derive(Debug)]
pub struct Estimators {
    pub(in crate::endpoint) rtt: RttEstimator,
    /// Only without timestamps, and with recovery that cannot distinguish transmissions.
    karn: Option<Box<Karn>>,
    /// Only for protocols that use a bandwidth estimate.
    bandwidth: Option<Box<BandwidthState>>,
    /// Only for controllers that use samples.
    pub(in crate::endpoint) delivery_rate: Option<Box<DeliveryRate>>,
}

/// The estimates that a protocol requires.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// True if acknowledgments name transmissions, so that no RTT sample is ambiguous (RFC 9002
    /// section 4.2).
    pub numbered: bool,
    /// A bandwidth estimate.
    pub bandwidth: Option<(BandwidthKind, Counting)>,
    /// Delivery-rate samples.
    pub delivery_rate: bool,
}

impl Estimators {
    /// Estimators without samples.
    pub fn new(config: &EndpointConfig, asked: Asked) -> Self {
        Estimators {
            rtt: RttEstimator::new(
                config.clock_granularity,
                config.rto_floor,
                config.rto_ceiling,
                config.rto_initial,
            ),
            karn: (!config.timestamps && !asked.numbered).then(Box::default),
            bandwidth: asked.bandwidth.map(|(kind, counting)| {
                Box::new(BandwidthState {
                    estimate: Bandwidth::new(kind),
                    arrivals: ArrivalCounter::new(counting),
                })
            }),
            delivery_rate: asked.delivery_rate.then(Box::default),
        }
    }

    /// Handles the transmission of a data packet.
    #[inline]
    pub fn on_sent(&mut self, now: Time, seq: u64, again: bool) {
        if let Some(karn) = &mut self.karn {
            karn.on_sent(now, seq, again);
        }
    }

    /// True if each acknowledgment gives an RTT sample by its timestamp.
    #[inline]
    pub fn times_by_timestamp(&self) -> bool {
        self.karn.is_none()
    }

    /// Handles the acknowledgment of everything before `una`, triggered by a packet sent at
    /// `timestamp`. Returns the sending time of the packet that gives an RTT sample.
    #[inline]
    pub fn timed(&mut self, una: u64, timestamp: Time) -> Option<Time> {
        match &mut self.karn {
            None => Some(timestamp),
            Some(karn) => karn.on_ack(una),
        }
    }

    /// Handles an acknowledgment of `newly` packets, zero for a duplicate. Returns the new
    /// bandwidth for a [`Path`].
    #[inline]
    pub fn estimate_bandwidth(&mut self, now: Time, newly: u64, cwnd: f64) -> f64 {
        if self.bandwidth.is_some() { self.estimate(now, newly, cwnd) } else { 0.0 }
    }

    #[inline(never)]
    fn estimate(&mut self, now: Time, newly: u64, cwnd: f64) -> f64 {
        let Some(bandwidth) = &mut self.bandwidth else { return 0.0 };
        bandwidth.estimate.on_ack(&BandwidthSample {
            now,
            arrived: bandwidth.arrivals.on_ack(newly),
            rtt: self.rtt.latest(),
            min_rtt: self.rtt.min_rtt(),
            srtt: self.rtt.srtt(),
            cwnd,
        });
        bandwidth.estimate.rate()
    }

    /// Handles the expiry of a timer without an acknowledgment since the latest.
    pub fn on_silence(&mut self, now: Time) {
        if let Some(bandwidth) = &mut self.bandwidth {
            bandwidth.estimate.on_silence(now);
        }
    }

    /// Handles a reset, after which all outstanding packets are retransmitted from the start.
    pub fn on_reset(&mut self) {
        if let Some(bandwidth) = &mut self.bandwidth {
            bandwidth.arrivals.on_reset();
        }
    }

    /// The bandwidth estimate for a [`Path`].
    pub fn bandwidth(&self) -> f64 {
        self.bandwidth.as_ref().map_or(0.0, |bandwidth| bandwidth.estimate.rate())
    }

    /// The path now, with `outstanding` packets not acknowledged before.
    #[inline]
    pub fn path(&self, now: Time, outstanding: u64, cwnd: f64, bandwidth: f64) -> Path {
        // The conversion of a signed number is a single instruction, and no flight exceeds it.
        let outstanding = outstanding as i64 as f64;
        Path {
            now,
            cwnd,
            in_flight: if outstanding < cwnd { outstanding } else { cwnd },
            rtt: self.rtt.latest(),
            srtt: self.rtt.srtt(),
            min_rtt: self.rtt.min_rtt(),
            bandwidth,
        }
    }
}
