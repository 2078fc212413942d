//! The wire of a link and its channel.

use super::Departure;
use crate::network::ChannelSpec;
use crate::network::channel::Channel;
use crate::network::notifier::Notifier;
use crate::network::rate_trace::{LinkRate, TraceWire};
use crate::packet::{Label, Packet};
use crate::rng::Stream;
use crate::units::{Duration, Rate, Time};

/// The wire and its channel: when a packet that starts now arrives, and whether intact.
#[derive(Debug)]
pub(super) struct Wire {
    /// The rate, or the mean of the trace.
    rate: Rate,
    /// Boxed, so that a wire without one stays small.
    trace: Option<Box<TraceWire>>,
    delay: Duration,
    /// Nothing if it is clean.
    channel: Option<Box<Channel>>,
    notifier: Option<Box<Notifier>>,
    pub(super) busy_until: Time,
    /// Picoseconds that a byte takes, if that is a whole number, else 0.
    byte_time: u64,
    /// Packets marked by RED or by a router, and the longest queue an arrival found or made.
    pub(super) marked: u64,
    pub(super) longest_queue: usize,
}

impl Wire {
    pub(super) fn new(
        rate: &LinkRate,
        delay: Duration,
        channel: &ChannelSpec,
        seed: u64,
        name: &str,
    ) -> Self {
        let trace = match rate {
            LinkRate::Constant(_) => None,
            LinkRate::Trace(trace) => Some(Box::new(TraceWire::new(trace.clone()))),
        };
        Wire {
            rate: rate.mean(),
            trace,
            delay,
            channel: (*channel != ChannelSpec::Clean)
                .then(|| Box::new(Channel::new(channel, Stream::new(seed, "channel", name)))),
            notifier: None,
            busy_until: Time::ZERO,
            byte_time: rate.mean().byte_time().map_or(0, Duration::as_ps),
            marked: 0,
            longest_queue: 0,
        }
    }

    #[inline]
    pub(super) fn transmission_time(&self, size: u32) -> Duration {
        match self.byte_time {
            0 => self.rate.transmission_time(size),
            time => Duration::from_ps(time).saturating_mul(u64::from(size)),
        }
    }

    /// Sends a packet that came at `arrived` and can start at `start`.
    #[inline]
    pub(super) fn send(
        &mut self,
        start: Time,
        arrived: Time,
        label: Label,
        packet: &mut Packet,
    ) -> Departure {
        let end = match &mut self.trace {
            None => start + self.transmission_time(packet.size),
            Some(trace) => trace.send(start, arrived, packet.size),
        };
        self.busy_until = end;
        let channel = self.channel.as_mut();
        let destroyed = channel.is_some_and(|channel| channel.destroys(end, label, packet));
        if let Some(notifier) = &mut self.notifier {
            // The far end's business. Packets get there in this order, so that nothing else can
            // come between.
            notifier.on_packet(packet, destroyed);
        }
        Departure { start, end, arrival: end + self.delay, destroyed }
    }

    pub(super) fn set_notifier(&mut self, notifier: Option<Notifier>) {
        self.notifier = notifier.map(Box::new);
    }

    pub(super) fn notifier(&mut self) -> Option<&mut Notifier> {
        self.notifier.as_deref_mut()
    }

    pub(super) fn count_between(&mut self, from: Time, until: Time) {
        if let Some(trace) = &mut self.trace {
            trace.count_between(from, until);
        }
    }

    pub(super) fn trace_utilization(&self) -> Option<f64> {
        self.trace.as_ref().map(|trace| trace.utilization())
    }
}
