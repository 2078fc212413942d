//! The wire of a link and its channel.

use std::sync::Arc;

use super::Departure;
use super::clock::Clock;
use crate::network::ChannelConfig;
use crate::network::channel::Losses;
use crate::network::impairment::{During, Impairments, Way};
use crate::network::notifier::Notifier;
use crate::network::rate_trace::{LinkRate, TraceWire};
use crate::packet::{Label, Packet};
use crate::rng::Stream;
use crate::units::{Duration, Rate, Time};

/// The wire and its channel: the arrival of a packet that starts now, and whether it is intact.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) busy_until: Time,
    pub(super) delay: Duration,
    /// `None` if byte time and delay describe the wire.
    special: Option<Box<Special>>,
    /// Picoseconds of a byte, if that is a whole number of 32 bits, else 0: the product with the
    /// size of any packet fits in 64 bits.
    byte_time: u32,
    /// The same if nothing else affects the arrival of a packet, else 0.
    pub(super) plain_byte_time: u32,
}

/// Features that most wires do not have.
#[derive(Debug, Default)]
struct Special {
    /// The rate, if there is no byte time.
    rate: Option<Rate>,
    trace: Option<TraceWire>,
    /// The rate, if it is scheduled or there are outages in which nothing is sent.
    clock: Option<Box<Clock>>,
    channel: Option<Losses>,
    notifier: Option<Notifier>,
    /// The way to the far end, if it is more than a delay.
    way: Option<Box<Way>>,
    /// The rate before a change, of a packet that ends at that instant.
    earlier: Option<(Time, Pace)>,
}

/// Picoseconds of a byte, or the rate if they are not a whole number of 32 bits.
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

    /// Bits per second.
    fn bps(self) -> u64 {
        // A byte time that is not zero is exact.
        let of_byte_time = || 8_000_000_000_000 / u64::from(self.byte_time.max(1));
        self.rate.map_or_else(of_byte_time, Rate::as_bps)
    }
}

impl Wire {
    pub(super) fn new(
        rate: &LinkRate,
        delay: Duration,
        channel: &ChannelConfig,
        seed: u64,
        name: &str,
    ) -> Self {
        let Pace { byte_time, rate: other_rate } = Pace::of(rate.told());
        let mut wire =
            Wire { busy_until: Time::ZERO, delay, special: None, byte_time, plain_byte_time: 0 };
        if other_rate.is_some() {
            wire.special().rate = other_rate;
        }
        match rate {
            LinkRate::Constant(_) => {}
            LinkRate::Trace(trace) => wire.special().trace = Some(TraceWire::new(trace.clone())),
            LinkRate::Schedule(steps) => {
                wire.special().clock = Some(Box::new(Clock::scheduled(steps.clone())));
            }
            LinkRate::Cell(cell) => {
                let steps = cell.draw(&mut Stream::new(seed, "cell", name));
                wire.special().clock = Some(Box::new(Clock::scheduled(Arc::new(steps))));
            }
        }
        if *channel != ChannelConfig::Clean {
            let stream = Stream::new(seed, "channel", name);
            wire.special().channel = Some(Losses::new(channel, stream));
        }
        wire
    }

    fn special(&mut self) -> &mut Special {
        self.special.get_or_insert_default()
    }

    /// Gives it these impairments, before the first packet.
    pub(super) fn impair(&mut self, spec: &Impairments, seed: u64, name: &str) {
        let bps = self.pace_under_way().bps();
        if let Some(outages) = &spec.outages
            && outages.during == During::Hold
            && !self.is_traced()
        {
            self.clock(bps).set_outages(outages.when.clone());
        }
        if spec.arq.is_some_and(|arq| arq.air_time && arq.attempts > 1) && !self.is_traced() {
            self.clock(bps);
        }
        if let (Some(arq), Some(notifier)) = (&spec.arq, self.notifier()) {
            notifier.set_attempts(arq.attempts);
        }
        if let Some(way) = Way::new(spec, seed, name) {
            self.delay = way.least_delay(self.delay);
            self.special().way = Some(Box::new(way));
        }
    }

    fn clock(&mut self, bps: u64) -> &mut Clock {
        self.special().clock.get_or_insert_with(|| Box::new(Clock::constant(bps)))
    }

    /// Notes an outage that keeps the wire from sending at `now`, if it is idle then; returns
    /// whether there is one.
    pub(super) fn look(&mut self, now: Time) -> bool {
        if self.busy_until <= now
            && let Some(Special { clock: Some(clock), .. }) = self.special.as_deref()
        {
            let free = clock.free(now);
            if free > now {
                self.busy_until = free;
                return true;
            }
        }
        false
    }

    /// The rate at that instant, if it changes by a schedule.
    pub(super) fn scheduled_rate(&self, now: Time) -> Option<Rate> {
        self.special.as_ref()?.clock.as_ref()?.scheduled_rate(now)
    }

    /// Sets the plain byte time; with `elsewhere`, something else affects the arrival too.
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
        let Special { rate, trace, clock, channel, notifier, way, .. } =
            &mut **self.special.get_or_insert_default();
        let end = match (trace, &mut *clock, *rate) {
            (Some(trace), ..) => trace.send(start, arrived, packet.size),
            (None, Some(clock), _) => clock.send(start, packet.size),
            (None, None, Some(rate)) => start + rate.transmission_time(packet.size),
            (None, None, None) => start + usual,
        };
        // The channel is asked even in an outage, so that it draws the same numbers.
        let corrupted =
            channel.as_mut().is_some_and(|channel| channel.destroys(end, label, packet));
        let mut destroyed = corrupted || way.as_ref().is_some_and(|way| way.is_deaf(start, end));
        let mut heard = end;
        if destroyed && let Some(way) = way {
            for _ in 1..way.attempts() {
                let due = heard + way.retry_delay();
                heard = match clock {
                    Some(clock) if way.takes_air_time() => clock.send_again(due, packet.size),
                    Some(clock) => clock.send_beside(due, packet.size),
                    None => due + rate.map_or(usual, |rate| rate.transmission_time(packet.size)),
                };
                destroyed = way.destroys(channel.as_mut(), (due, heard), label, packet);
                if !destroyed {
                    break;
                }
            }
        }
        self.busy_until = clock.as_ref().map_or(end, |clock| clock.free(end));
        if let Some(notifier) = notifier {
            // The notifier acts at the far end. Packets arrive there in this order, so that nothing
            // can come between.
            notifier.on_packet(packet, destroyed);
        }
        let arrival = match way {
            Some(way) => way.arrival(start, end, heard, self.delay),
            None => end + self.delay,
        };
        Departure { start, end, arrival, destroyed }
    }

    /// True if the channel destroys a packet whose last bit leaves at `end`.
    pub(super) fn destroys(&mut self, end: Time, label: Label, packet: &Packet) -> bool {
        let channel = self.special.as_mut().and_then(|special| special.channel.as_mut());
        channel.is_some_and(|channel| channel.destroys(end, label, packet))
    }

    /// Bytes of the packets given to it that are not on the wire yet at `now`; `None` if the rate
    /// varies.
    pub(super) fn unsent_bytes(&self, now: Time) -> Option<u64> {
        let left = self.busy_until.max(now).since(now);
        if self.is_traced() || self.has_clock() {
            return None;
        }
        let Pace { byte_time, rate } = self.pace_under_way();
        Some(match rate {
            Some(rate) => (left.as_secs_f64() * rate.as_bps() as f64 / 8.0).round() as u64,
            None => left.as_ps().div_ceil(u64::from(byte_time)),
        })
    }

    /// The rate of the packet given to it last.
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

    /// True if the wire has a scheduled rate, outages or slots for retransmissions.
    #[inline]
    pub(super) fn has_clock(&self) -> bool {
        self.special.as_ref().is_some_and(|special| special.clock.is_some())
    }

    /// True if packets reach the far end in the order in which they leave.
    pub(super) fn keeps_order(&self) -> bool {
        let way = self.special.as_ref().and_then(|special| special.way.as_ref());
        way.is_none_or(|way| way.keeps_order())
    }

    /// Sets another rate for packets sent from `now` on. Returns false for a trace or a schedule,
    /// which stays.
    pub(super) fn set_rate(&mut self, now: Time, rate: Rate) -> bool {
        if self.is_traced() {
            return false;
        }
        if let Some(Special { clock: Some(clock), .. }) = self.special.as_deref_mut()
            && !clock.set_rate(rate.as_bps())
        {
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

    /// Sets another delay for packets that leave from now on.
    pub(super) fn set_delay(&mut self, delay: Duration) {
        self.delay = delay;
        let usual = Impairments::default();
        let way = self.special().way.get_or_insert_with(|| Box::new(Way::of(&usual, 0, "")));
        way.set_delay(delay);
    }

    /// Sets another channel for packets sent from now on.
    pub(super) fn set_channel(&mut self, spec: &ChannelConfig, seed: u64, name: &str) {
        let has_one = self.special.as_ref().is_some_and(|special| special.channel.is_some());
        if !has_one && *spec == ChannelConfig::Clean {
            return;
        }
        let special = self.special();
        let channel = special.channel.get_or_insert_with(|| {
            Losses::new(&ChannelConfig::Clean, Stream::new(seed, "channel", name))
        });
        channel.become_as(spec);
        if let Some(notifier) = &mut special.notifier {
            notifier.set_channel(spec);
        }
    }

    pub(super) fn set_notifier(&mut self, mut notifier: Option<Notifier>) {
        let way = self.special.as_ref().and_then(|special| special.way.as_ref());
        if let (Some(way), Some(notifier)) = (way, &mut notifier) {
            notifier.set_attempts(way.attempts());
        }
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
        let Some(Special { trace, clock, .. }) = self.special.as_deref_mut() else { return };
        if let Some(trace) = trace {
            trace.count_between(from, until);
        }
        if let Some(clock) = clock {
            clock.count_between(from, until);
        }
    }

    pub(super) fn utilization(&self) -> Option<f64> {
        let Special { trace, clock, .. } = self.special.as_deref()?;
        let traced = trace.as_ref().map(TraceWire::utilization);
        traced.or_else(|| clock.as_ref().map(|clock| clock.utilization()))
    }
}
