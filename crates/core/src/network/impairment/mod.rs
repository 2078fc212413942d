//! Impairments of a link besides losses: delays that change, jitter, reordering, outages,
//! link-layer retransmission.
//!
//! All of them are known when a packet leaves the wire, so that a link stays arithmetic: a packet
//! reaches the far end at
//!
//! ```text
//! u = max(end + delays in order, u of the packet before)
//! arrival = u + delays that may reorder
//! ```
//!
//! after its last bit has left at `end`. The `in_order` of each element selects one of the two. A
//! delay in order holds a packet back until the one before has arrived, as a queue or a link layer
//! with delivery in sequence does. With the others packets may overtake, as on paths of different
//! lengths. A delay that changes is read when the last bit leaves: a packet keeps the route on
//! which it started.

mod arq;
mod delay;
mod jitter;
mod outage;
mod reorder;
mod steps;

use std::sync::Arc;

pub(super) use arq::Arq;
pub use arq::ArqConfig;
pub use delay::{ChangingDelay, DelaySteps};
pub use jitter::{Distribution, JitterConfig};
pub use outage::{During, OutageConfig, Outages};
pub use reorder::{Lateness, ReorderConfig};
pub use steps::Steps;

use super::channel::Losses;
use crate::packet::{Label, Packet};
use crate::rng::Stream;
use crate::units::{Duration, Time};
use jitter::Jitter;
use reorder::Reorder;

/// The impairments of a link besides losses; none by default.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Impairments {
    /// A delay that changes, in place of the delay of the link.
    pub delay: Option<ChangingDelay>,
    /// A random delay of each packet, in addition to the delay of the link.
    pub jitter: Option<JitterConfig>,
    /// Packets that take longer.
    pub reorder: Option<ReorderConfig>,
    /// Times without a signal.
    pub outages: Option<OutageConfig>,
    /// Retransmission of packets that the channel corrupts.
    pub arq: Option<ArqConfig>,
}

impl Impairments {
    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        *self == Impairments::default()
    }

    /// True if packets arrive in the order in which they leave.
    pub fn keep_order(&self) -> bool {
        self.delay.as_ref().is_none_or(ChangingDelay::keeps_order)
            && self.jitter.as_ref().is_none_or(|jitter| jitter.in_order)
            && self.reorder.is_none()
            && self.arq.as_ref().is_none_or(|arq| arq.in_order)
    }

    /// The share of losses that retransmission leaves of `p`, if attempts fail independently.
    pub fn residual_loss(&self, p: f64) -> f64 {
        libm::pow(p, self.arq.map_or(1, |arq| arq.attempts).into())
    }

    /// Checks that all values are in their ranges.
    ///
    /// # Errors
    /// The first error, as a sentence without a capital or a full stop.
    pub fn validate(&self) -> Result<(), String> {
        self.jitter.as_ref().map_or(Ok(()), JitterConfig::validate)?;
        self.arq.as_ref().map_or(Ok(()), ArqConfig::validate)
    }

    /// The maximum number of changes of delays and outages in a run of this length.
    pub fn changes(&self, duration: Duration) -> u64 {
        let delay = self.delay.as_ref().map_or(0, |delay| delay.steps.changes(duration));
        let outages = self.outages.as_ref().map_or(0, |outages| outages.when.changes(duration));
        delay.saturating_add(outages)
    }
}

/// The path from the end of the wire to the far end, if it is not a constant delay.
#[derive(Debug)]
pub(super) struct Way {
    delay: Option<ChangingDelay>,
    jitter: Option<Jitter>,
    reorder: Option<Reorder>,
    pub(super) arq: Option<Arq>,
    /// Outages that destroy the packets on the wire.
    deaf: Option<Arc<Outages>>,
    /// u of the latest packet.
    last: Time,
    /// The delay, if it was set from outside.
    set: Option<Duration>,
}

impl Way {
    /// The path of these impairments, if it is not a constant delay.
    pub(super) fn new(spec: &Impairments, seed: u64, name: &str) -> Option<Self> {
        let way = Way::of(spec, seed, name);
        let Way { delay, jitter, reorder, arq, deaf, .. } = &way;
        let is_plain = delay.is_none() && jitter.is_none() && reorder.is_none();
        (!is_plain || arq.is_some() || deaf.is_some()).then_some(way)
    }

    pub(super) fn of(spec: &Impairments, seed: u64, name: &str) -> Self {
        let Impairments { delay, jitter, reorder, outages, arq } = spec;
        let stream = |kind| Stream::new(seed, kind, name);
        let deaf = outages.as_ref().filter(|outages| outages.during == During::Drop);
        Way {
            delay: delay.clone(),
            jitter: jitter.map(|spec| Jitter::new(spec, stream("jitter"))),
            reorder: reorder.map(|spec| Reorder::new(spec, stream("reorder"))),
            arq: arq.map(|spec| Arq { spec, stream: stream("arq") }),
            deaf: deaf.map(|outages| Arc::clone(&outages.when)),
            last: Time::ZERO,
            set: None,
        }
    }

    /// The lower bound of the delay; `usual` is that of the link.
    pub(super) fn least_delay(&self, usual: Duration) -> Duration {
        self.delay.as_ref().map_or(usual, |delay| delay.steps.least())
    }

    /// True if an outage from `start` to before `end` destroys the packets on the wire.
    pub(super) fn is_deaf(&self, start: Time, end: Time) -> bool {
        self.deaf.as_ref().is_some_and(|outages| outages.overlap(start, end))
    }

    /// The arrival at the far end of a packet that is on the wire from `start` to `end` and whose
    /// last attempt ends at `heard`. Must be called for packets in the order in which they leave.
    /// `usual` is the delay of the link.
    pub(super) fn arrival(&mut self, start: Time, end: Time, heard: Time, usual: Duration) -> Time {
        let (mut in_order, mut free) = (Duration::ZERO, Duration::ZERO);
        let mut add = |extra: Duration, keeps_order: bool| {
            *(if keeps_order { &mut in_order } else { &mut free }) += extra;
        };
        match (self.set, &self.delay) {
            (Some(delay), _) => add(delay, false),
            (None, None) => add(usual, true),
            (None, Some(delay)) => add(delay.steps.at(end), delay.in_order),
        }
        if let Some(arq) = &self.arq {
            add(heard.since(end), arq.spec.in_order);
        }
        if let Some(jitter) = &mut self.jitter {
            add(jitter.next(end), jitter.spec().in_order);
        }
        if let Some(reorder) = &mut self.reorder {
            add(reorder.next(end.since(start)), false);
        }
        self.last = self.last.max(end + in_order);
        self.last + free
    }

    /// True if packets arrive in the order in which they leave.
    pub(super) fn keeps_order(&self) -> bool {
        self.set.is_none()
            && self.delay.as_ref().is_none_or(ChangingDelay::keeps_order)
            && self.jitter.as_ref().is_none_or(|jitter| jitter.spec().in_order)
            && self.reorder.is_none()
            && self.arq.as_ref().is_none_or(|arq| arq.spec.in_order)
    }

    /// Sets the delay of the link from now on, as by a new route.
    pub(super) fn set_delay(&mut self, delay: Duration) {
        self.set = Some(delay);
    }

    /// The maximum number of transmissions of a packet.
    pub(super) fn attempts(&self) -> u32 {
        self.arq.as_ref().map_or(1, |arq| arq.spec.attempts)
    }

    /// Time from the end of an attempt until the next is due.
    pub(super) fn retry_delay(&self) -> Duration {
        self.arq.as_ref().map_or(Duration::ZERO, |arq| arq.spec.delay)
    }

    /// True if attempts after the first take time on the wire.
    pub(super) fn takes_air_time(&self) -> bool {
        self.arq.as_ref().is_some_and(|arq| arq.spec.air_time)
    }

    /// True if a packet that is sent again from `start` to `end` is destroyed.
    pub(super) fn destroys(
        &mut self,
        channel: Option<&mut Losses>,
        (start, end): (Time, Time),
        label: Label,
        packet: &Packet,
    ) -> bool {
        let corrupted = match (channel, &mut self.arq) {
            (Some(channel), Some(arq)) => {
                channel.destroys_again(end, label, packet, &mut arq.stream)
            }
            _ => false,
        };
        corrupted || self.is_deaf(start, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Probability;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }
    fn at(time: u64) -> Time {
        Time::ZERO + ms(time)
    }

    /// 20 ms, and 5 ms from 100 ms on.
    fn shorter(in_order: bool) -> Impairments {
        let steps = Steps::new(vec![(ms(0), ms(20)), (ms(100), ms(5))], None).unwrap();
        let delay = Some(ChangingDelay { steps: steps.into(), in_order });
        Impairments { delay, ..Impairments::default() }
    }

    fn arrivals(spec: &Impairments, ends: &[u64]) -> Vec<u64> {
        let mut way = Way::new(spec, 1, "test").unwrap();
        let arrival = |end: &u64| {
            let end = at(*end);
            way.arrival(end, end, end, ms(1)).as_ps() / 1_000_000_000
        };
        ends.iter().map(arrival).collect()
    }

    #[test]
    fn packets_overtake_where_a_route_gets_shorter() {
        // The last packet on the old route arrives at 118 ms, the first on the new one at 106.
        let ends = [90, 98, 101, 112, 115];
        assert_eq!(arrivals(&shorter(false), &ends), [110, 118, 106, 117, 120]);
        assert!(!shorter(false).keep_order());
        // In order, packets on the new route wait for it.
        assert_eq!(arrivals(&shorter(true), &ends), [110, 118, 118, 118, 120]);
        assert!(shorter(true).keep_order());
        assert_eq!(Way::new(&shorter(true), 1, "test").unwrap().least_delay(ms(9)), ms(5));
    }

    #[test]
    fn a_late_packet_is_overtaken_by_as_many_as_asked_for() {
        // Packets of 1 ms back to back; all are late, or none.
        let arrivals = |share, by| {
            let reorder = Some(ReorderConfig { share: Probability::new(share).unwrap(), by });
            let spec = Impairments { reorder, ..Impairments::default() };
            assert!(!spec.keep_order());
            let mut way = Way::new(&spec, 1, "test").unwrap();
            let arrival = |end| way.arrival(at(end - 1), at(end), at(end), ms(20)).as_ps();
            (1..=3).map(arrival).collect::<Vec<u64>>()
        };
        let us = |times: [u64; 3]| times.map(|us| us * 1_000_000).to_vec();
        assert_eq!(arrivals(0.0, Lateness::Packets(3)), us([21_000, 22_000, 23_000]));
        // Three and a half packets: those that end 1, 2 and 3 ms later arrive before.
        assert_eq!(arrivals(1.0, Lateness::Packets(3)), us([24_500, 25_500, 26_500]));
        assert_eq!(arrivals(1.0, Lateness::Time(ms(10))), us([31_000, 32_000, 33_000]));
    }

    #[test]
    fn a_retransmission_in_order_delays_later_packets() {
        // The first arrives after a retransmission, 8 ms later.
        for (in_order, second) in [(true, 29), (false, 22)] {
            let arq = Some(ArqConfig { attempts: 2, delay: ms(7), in_order, air_time: false });
            let spec = Impairments { arq, ..Impairments::default() };
            assert_eq!(spec.keep_order(), in_order);
            let mut way = Way::new(&spec, 1, "test").unwrap();
            assert_eq!(way.arrival(at(0), at(1), at(9), ms(20)), at(29));
            assert_eq!(way.arrival(at(1), at(2), at(2), ms(20)), at(second));
            assert_eq!(way.arrival(at(30), at(31), at(31), ms(20)), at(51));
        }
    }

    #[test]
    fn nothing_is_no_way() {
        assert!(Way::new(&Impairments::default(), 1, "test").is_none());
        assert!(Impairments::default().is_empty() && Impairments::default().keep_order());
    }

    #[test]
    fn delays_in_order_come_before_those_that_reorder() {
        // Jitter of at most 50 ms in order, and a route that gets shorter by 15 ms and may reorder:
        // a packet on the new route is never more than 15 ms early.
        let spec = JitterConfig::uniform(ms(50));
        let both = Impairments { jitter: Some(spec), ..shorter(false) };
        let ends: Vec<u64> = (0..200).collect();
        let there = arrivals(&both, &ends);
        for pair in there.windows(2) {
            assert!(pair[1] + 15 >= pair[0], "{pair:?}");
        }
        assert!(there.windows(2).filter(|pair| pair[1] < pair[0]).count() <= 1, "once at most");
    }
}
