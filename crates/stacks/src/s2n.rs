//! Congestion controllers of s2n-quic, behind the controller of noq.
//!
//! s2n-quic has no core without I/O, but its controllers are public types. They are called as
//! s2n-quic calls them, as far as noq has the information. noq counts packets from zero in each of
//! its packet number spaces; the sending time distinguishes them.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use noq_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use num_rational::Ratio;
use s2n_quic_core::event::builder::{BbrState, SlowStartExitCause};
use s2n_quic_core::packet::number::PacketNumberSpace;
use s2n_quic_core::random::Generator;
use s2n_quic_core::recovery::bandwidth::{Bandwidth, RateSample};
use s2n_quic_core::recovery::bbr::{self, BbrCongestionController};
use s2n_quic_core::recovery::congestion_controller::Publisher;
use s2n_quic_core::recovery::cubic::{self, CubicCongestionController};
use s2n_quic_core::recovery::{CongestionController, RttEstimator};
use s2n_quic_core::time::{Clock, NoopClock, Timestamp};
use windward_core::rng::Stream;
use windward_core::units::Time;

use crate::{clock, random};

/// RFC 9002 section 6.2.2.
const INITIAL_RTT: Duration = Duration::from_millis(333);

/// CUBIC with hybrid slow start.
pub(crate) fn cubic(seed: u64) -> Arc<dyn ControllerFactory + Send + Sync> {
    let make = |mtu| CubicCongestionController::new(mtu, cubic::ApplicationSettings::default());
    factory(make, seed)
}

/// BBR in its second version.
pub(crate) fn bbr(seed: u64) -> Arc<dyn ControllerFactory + Send + Sync> {
    let make = |mtu| BbrCongestionController::new(mtu, bbr::ApplicationSettings::default());
    factory(make, seed)
}

/// A factory of noq for controllers of s2n-quic. `make` gets the largest datagram, bytes.
pub(crate) fn factory<C>(
    make: impl Fn(u16) -> C + Send + Sync + 'static,
    seed: u64,
) -> Arc<dyn ControllerFactory + Send + Sync>
where
    C: CongestionController<PacketInfo: Sync> + Sync,
{
    Arc::new(Factory { make, seed })
}

struct Factory<M> {
    make: M,
    seed: u64,
}

impl<M, C> ControllerFactory for Factory<M>
where
    M: Fn(u16) -> C + Send + Sync + 'static,
    C: CongestionController<PacketInfo: Sync> + Sync,
{
    fn build(self: Arc<Self>, _now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let inner = (self.make)(current_mtu);
        Box::new(Adapter {
            initial: inner.congestion_window(),
            inner,
            rtt: RttEstimator::new(INITIAL_RTT),
            sent: BTreeMap::new(),
            lost: Vec::new(),
            newest: None,
            sampled: None,
            acknowledged: 0,
            app_limited: false,
            dice: Dice(Stream::new(self.seed, "stack", "s2n")),
            pace: Pace(None),
        })
    }
}

/// A packet in flight: its sending time, its bytes, and the controller's record of it.
type Sent<C> = (Instant, u16, <C as CongestionController>::PacketInfo);

#[derive(Debug, Clone)]
struct Adapter<C: CongestionController> {
    inner: C,
    initial: u32,
    rtt: RttEstimator,
    sent: BTreeMap<u64, Vec<Sent<C>>>,
    /// Packets lost, until noq reports whether that was persistent congestion.
    lost: Vec<(u64, Sent<C>)>,
    /// Newest packet and number of bytes of the current ACK frame.
    newest: Option<Sent<C>>,
    acknowledged: usize,
    /// Sending time of the newest packet that gave an RTT sample.
    sampled: Option<Instant>,
    app_limited: bool,
    dice: Dice,
    pace: Pace,
}

/// Randomness of a connection.
#[derive(Debug, Clone)]
struct Dice(Stream);

impl Generator for Dice {
    fn public_random_fill(&mut self, dest: &mut [u8]) {
        random::fill(&mut self.0, dest);
    }
    fn private_random_fill(&mut self, dest: &mut [u8]) {
        random::fill(&mut self.0, dest);
    }
}

/// Latest pacing rate of the controller, bytes per second.
#[derive(Debug, Clone, Copy)]
struct Pace(Option<u64>);

impl Publisher for Pace {
    fn on_slow_start_exited(&mut self, _cause: SlowStartExitCause, _congestion_window: u32) {}
    fn on_delivery_rate_sampled(&mut self, _rate_sample: RateSample) {}
    fn on_pacing_rate_updated(
        &mut self,
        pacing_rate: Bandwidth,
        _burst_size: u32,
        _pacing_gain: Ratio<u64>,
    ) {
        self.0 = Some(pacing_rate.as_bytes_per_second());
    }
    fn on_bbr_state_changed(&mut self, _state: BbrState) {}
}

/// The instant as a timestamp of s2n-quic, which starts at a microsecond: zero is invalid there.
fn timestamp(instant: Instant) -> Timestamp {
    let since = clock::time(instant).since(Time::ZERO);
    NoopClock.get_time() + Duration::from_nanos(since.as_ps() / 1000)
}

impl<C: CongestionController> Adapter<C> {
    /// Removes the packet with this number and sending time, or the oldest with this number.
    fn take(&mut self, number: u64, sent: Option<Instant>) -> Option<Sent<C>> {
        let packets = self.sent.get_mut(&number)?;
        let at = sent.map_or(Some(0), |sent| packets.iter().position(|(at, ..)| *at == sent))?;
        let packet = packets.remove(at);
        if packets.is_empty() {
            self.sent.remove(&number);
        }
        Some(packet)
    }

    /// Reports the lost packets to the controller.
    fn tell_losses(&mut self, now: Instant, persistent: bool) {
        let mut last = None;
        for (number, (_, bytes, info)) in std::mem::take(&mut self.lost) {
            let new_burst = last.is_none_or(|last| number != last + 1);
            last = Some(number);
            self.inner.on_packet_lost(
                bytes.into(),
                info,
                persistent,
                new_burst,
                &mut self.dice,
                timestamp(now),
                &mut self.pace,
            );
        }
        if persistent {
            self.rtt.on_persistent_congestion();
        }
    }
}

impl<C> Controller for Adapter<C>
where
    C: CongestionController<PacketInfo: Sync> + Sync,
{
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        let info = self.inner.on_packet_sent(
            timestamp(now),
            bytes.into(),
            Some(self.app_limited),
            &self.rtt,
            &mut self.pace,
        );
        self.sent.entry(pn).or_default().push((now, bytes, info));
    }

    fn on_ack(
        &mut self,
        _now: Instant,
        sent: Instant,
        _bytes: u64,
        pn: u64,
        app_limited: bool,
        _rtt: &noq_proto::RttEstimator,
    ) {
        self.app_limited = app_limited;
        let Some(packet) = self.take(pn, Some(sent)) else { return };
        self.acknowledged += usize::from(packet.1);
        if self.newest.is_none_or(|(newest, ..)| newest <= packet.0) {
            self.newest = Some(packet);
        }
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        _largest_packet_num_acked: Option<u64>,
    ) {
        self.app_limited = app_limited;
        self.tell_losses(now, false);
        let bytes = std::mem::take(&mut self.acknowledged);
        if let Some((sent, _, info)) = self.newest.take() {
            let (at, now) = (timestamp(sent), timestamp(now));
            // RFC 9002 section 5.1: a packet newer than all before. noq reports no ACK delay.
            if self.sampled < Some(sent) {
                self.sampled = Some(sent);
                let space = PacketNumberSpace::ApplicationData;
                self.rtt.update_rtt(Duration::ZERO, now - at, now, true, space);
                self.inner.on_rtt_update(at, now, &self.rtt, &mut self.pace);
            }
            let dice = &mut self.dice;
            self.inner.on_ack(at, bytes, info, &self.rtt, dice, now, &mut self.pace);
        }
        // Packets of a completed handshake are discarded without an event.
        let more = u64::from(self.inner.bytes_in_flight()).saturating_sub(in_flight);
        if more > 0 {
            self.inner.on_packet_discarded(more as usize, &mut self.pace);
        }
    }

    fn on_packet_lost(&mut self, _lost_bytes: u16, pn: u64, _now: Instant) {
        if let Some(packet) = self.take(pn, None) {
            self.lost.push((pn, packet));
        }
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        _sent: Instant,
        is_persistent_congestion: bool,
        is_ecn: bool,
        _lost_bytes: u64,
        _largest_lost_pn: u64,
    ) {
        if is_ecn {
            // noq does not report the number of marks.
            self.inner.on_explicit_congestion(1, timestamp(now), &mut self.pace);
        } else {
            self.tell_losses(now, is_persistent_congestion);
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu, &mut self.pace);
    }

    fn window(&self) -> u64 {
        self.inner.congestion_window().into()
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        metrics.pacing_rate = self.pace.0.filter(|rate| *rate > 0);
        metrics.send_quantum = self.inner.send_quantum().map(|bytes| bytes as u64);
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.initial.into()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
