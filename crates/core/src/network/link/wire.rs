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
    pub(super) busy_until: Time,
    pub(super) delay: Duration,
    /// Nothing if the byte time and the delay say all.
    special: Option<Box<Special>>,
    /// Picoseconds that a byte takes, if that is a whole number of so many bits, else 0. A packet of
    /// any size does not overflow a product of 64 bits.
    byte_time: u32,
    /// The same where nothing else decides when a packet arrives, else 0.
    pub(super) plain_byte_time: u32,
}

/// What most wires have not.
#[derive(Debug, Default)]
struct Special {
    /// The rate, where there is no byte time.
    rate: Option<Rate>,
    trace: Option<TraceWire>,
    channel: Option<Channel>,
    notifier: Option<Notifier>,
    /// The rate before a change, of a packet that ends at that instant.
    earlier: Option<(Time, Pace)>,
}

/// Picoseconds a byte, or the rate where they are no whole number of so many bits.
#[derive(Debug, Clone, Copy)]
struct Pace {
    byte_time: u32,
    rate: Option<Rate>,
}

impl Pace {
    fn of(rate: Rate) -> Self {
        let byte_time = rate.byte_time().and_then(|time| u32::try_from(time.as_ps()).ok());
        let byte_time = byte_time.unwrap_or(0);
        Pace { byte_time, rate: (byte_time == 0).then_some(rate) }
    }
}

impl Wire {
    pub(super) fn new(
        rate: &LinkRate,
        delay: Duration,
        channel: &ChannelSpec,
        seed: u64,
        name: &str,
    ) -> Self {
        let Pace { byte_time, rate: other_rate } = Pace::of(rate.mean());
        let mut wire =
            Wire { busy_until: Time::ZERO, delay, special: None, byte_time, plain_byte_time: 0 };
        if other_rate.is_some() {
            wire.special().rate = other_rate;
        }
        if let LinkRate::Trace(trace) = rate {
            wire.special().trace = Some(TraceWire::new(trace.clone()));
        }
        if *channel != ChannelSpec::Clean {
            let stream = Stream::new(seed, "channel", name);
            wire.special().channel = Some(Channel::new(channel, stream));
        }
        wire
    }

    fn special(&mut self) -> &mut Special {
        self.special.get_or_insert_default()
    }

    /// Sets the plain byte time; `elsewhere` something decides too.
    pub(super) fn find_plain_byte_time(&mut self, elsewhere: bool) {
        let plain = self.special.is_none() && !elsewhere;
        self.plain_byte_time = if plain { self.byte_time } else { 0 };
    }

    #[inline]
    fn transmission_time(&self, size: u32) -> Duration {
        Duration::from_ps(u64::from(self.byte_time) * u64::from(size))
    }

    /// Sends a packet that came at `arrived` and can start at `start`.
    #[inline(always)]
    pub(super) fn send(
        &mut self,
        start: Time,
        arrived: Time,
        label: Label,
        packet: &mut Packet,
    ) -> Departure {
        if self.special.is_some() {
            return self.send_special(start, arrived, label, packet);
        }
        let end = start + self.transmission_time(packet.size);
        self.busy_until = end;
        Departure { start, end, arrival: end + self.delay, destroyed: false }
    }

    fn send_special(
        &mut self,
        start: Time,
        arrived: Time,
        label: Label,
        packet: &mut Packet,
    ) -> Departure {
        let usual = self.transmission_time(packet.size);
        let Special { rate, trace, channel, notifier, .. } =
            &mut **self.special.get_or_insert_default();
        let end = match (trace, rate) {
            (Some(trace), _) => trace.send(start, arrived, packet.size),
            (None, Some(rate)) => start + rate.transmission_time(packet.size),
            (None, None) => start + usual,
        };
        self.busy_until = end;
        let destroyed =
            channel.as_mut().is_some_and(|channel| channel.destroys(end, label, packet));
        if let Some(notifier) = notifier {
            // The far end's business. Packets get there in this order, so that nothing else can
            // come between.
            notifier.on_packet(packet, destroyed);
        }
        Departure { start, end, arrival: end + self.delay, destroyed }
    }

    /// Of what was handed to it, bytes that are not on the wire yet at `now`; `None` if the rate
    /// varies.
    pub(super) fn unsent_bytes(&self, now: Time) -> Option<u64> {
        let left = self.busy_until.max(now).since(now);
        if self.is_traced() {
            return None;
        }
        let Pace { byte_time, rate } = self.pace_under_way();
        Some(match rate {
            Some(rate) => (left.as_secs_f64() * rate.as_bps() as f64 / 8.0).round() as u64,
            None => left.as_ps().div_ceil(u64::from(byte_time)),
        })
    }

    /// The rate of what was handed to it last.
    fn pace_under_way(&self) -> Pace {
        let Some(special) = &self.special else {
            return Pace { byte_time: self.byte_time, rate: None };
        };
        match special.earlier {
            Some((end, pace)) if end == self.busy_until => pace,
            _ => Pace { byte_time: self.byte_time, rate: special.rate },
        }
    }

    fn is_traced(&self) -> bool {
        self.special.as_ref().is_some_and(|special| special.trace.is_some())
    }

    /// Another rate for what is sent from `now` on. Returns whether that can be: a trace stays.
    pub(super) fn set_rate(&mut self, now: Time, rate: Rate) -> bool {
        if self.is_traced() {
            return false;
        }
        let earlier = (self.busy_until > now).then(|| (self.busy_until, self.pace_under_way()));
        let Pace { byte_time, rate } = Pace::of(rate);
        self.byte_time = byte_time;
        if rate.is_some() || earlier.is_some() || self.special.is_some() {
            let special = self.special();
            (special.rate, special.earlier) = (rate, earlier);
        }
        true
    }

    /// Another channel for what is sent from now on.
    pub(super) fn set_channel(&mut self, spec: &ChannelSpec, seed: u64, name: &str) {
        let has_one = self.special.as_ref().is_some_and(|special| special.channel.is_some());
        if !has_one && *spec == ChannelSpec::Clean {
            return;
        }
        let special = self.special();
        let channel = special.channel.get_or_insert_with(|| {
            Channel::new(&ChannelSpec::Clean, Stream::new(seed, "channel", name))
        });
        channel.become_as(spec);
        if let Some(notifier) = &mut special.notifier {
            notifier.set_channel(spec);
        }
    }

    pub(super) fn set_notifier(&mut self, notifier: Option<Notifier>) {
        if notifier.is_some() || self.special.is_some() {
            self.special().notifier = notifier;
        }
    }

    #[inline]
    pub(super) fn has_notifier(&self) -> bool {
        self.special.as_ref().is_some_and(|special| special.notifier.is_some())
    }

    pub(super) fn notifier(&mut self) -> Option<&mut Notifier> {
        self.special.as_mut()?.notifier.as_mut()
    }

    pub(super) fn count_between(&mut self, from: Time, until: Time) {
        if let Some(Special { trace: Some(trace), .. }) = self.special.as_deref_mut() {
            trace.count_between(from, until);
        }
    }

    pub(super) fn trace_utilization(&self) -> Option<f64> {
        self.special.as_ref()?.trace.as_ref().map(TraceWire::utilization)
    }
}
