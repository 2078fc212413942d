//! A congestion controller of Windward behind the controller interface of a QUIC stack.
//!
//! The stack detects losses, retransmits, acknowledges and paces; the controller sets the window
//! from the events of the stack's interface. An acknowledgment frame is one event. Losses and ECN
//! marks are reported once per round trip (RFC 9002 section 7.3.2), and persistent congestion as a
//! restart. The interface does not report single losses, the number of marked packets, or spurious
//! losses.

use windward_core::endpoint::EndpointConfig;
use windward_core::endpoint::discrimination::DiscriminatorConfig;
use windward_core::endpoint::event::{
    AckEvent, AfterTimeout, CongestionEvent, Path, ResetCause, ResetEvent,
};
use windward_core::endpoint::feedback::FeedbackConfig;
use windward_core::endpoint::window::{Controller, ControllerConfig, ControllerSetup, Window};
use windward_core::network::RouterKind;
use windward_core::part::{AnyPart, Plain};
use windward_core::protocols::{PROTOCOLS, Protocol};
use windward_core::rng::Stream;
use windward_core::units::{Duration, Probability, Time};

/// Packets of the initial window (RFC 9002 section 7.2).
const INITIAL_WINDOW: f64 = 10.0;

/// Smallest window, packets (RFC 9002 section 7.2).
const LEAST_WINDOW: f64 = 2.0;

/// Pacing of a stack, as far as its congestion controller may set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pacer {
    /// The stack paces at a rate of its own.
    Own,
    /// The stack paces at the rate of its controller, if that sets one.
    Obeys,
}

/// Rows of the protocol table whose congestion controller can run in a stack: the first row of each
/// controller.
pub(crate) fn rows(pacer: Pacer) -> impl Iterator<Item = &'static Protocol> {
    let known = |row: &Protocol, before: &[Protocol]| {
        before
            .iter()
            .any(|other| other.window == row.window && obstacle(other, Pacer::Obeys).is_none())
    };
    let rows = PROTOCOLS.iter().enumerate();
    rows.filter(move |(at, row)| obstacle(row, pacer).is_none() && !known(row, &PROTOCOLS[..*at]))
        .map(|(_, row)| row)
}

/// Reason why the congestion controller of a row cannot run in a stack, as the end of a sentence.
pub(crate) fn obstacle(row: &Protocol, pacer: Pacer) -> Option<&'static str> {
    let Protocol { window, discrimination, feedback, router, .. } = row;
    if *router != RouterKind::Any || *feedback != FeedbackConfig::None(Plain) {
        return Some("it needs feedback in packets and acknowledgments, which QUIC does not carry");
    }
    if !matches!(discrimination, DiscriminatorConfig::AlwaysCongestion(_)) {
        return Some("it discriminates losses, which a QUIC stack does not let its controller do");
    }
    obstacle_of_law(window, pacer)
}

/// Reason why a congestion controller cannot run in a stack, as the end of a sentence.
pub(crate) fn obstacle_of_law(window: &ControllerConfig, pacer: Pacer) -> Option<&'static str> {
    if window.samples_rate() {
        return Some(
            "it needs delivery-rate samples, for which a controller has too little information",
        );
    }
    if window.bandwidth().is_some() {
        return Some("it needs a bandwidth estimate of Windward's own senders");
    }
    if !window.needs().is_empty() {
        return Some("it needs information of Windward's own senders");
    }
    if pacer == Pacer::Own && window.paces() {
        return Some("it sets a pacing rate, which the stack ignores");
    }
    None
}

/// A controller, with an interface in the units of QUIC.
#[derive(Debug)]
pub(crate) struct Driven {
    law: Window,
    mtu: f64,
    /// The highest packet number sent, and acknowledged.
    sent: u64,
    acknowledged: u64,
    /// RTT: the latest sample and the smallest; zero before the first.
    latest: Duration,
    least: Duration,
    /// Packets and bytes of the current ACK frame, and the time at which its newest packet was
    /// sent.
    packets: u64,
    bytes: u64,
    newest: Time,
    /// The window was already reduced for losses of packets sent up to this time.
    reduced: Option<Time>,
}

/// An acknowledgment frame, after its packets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) now: Time,
    /// Bytes in flight after it.
    pub(crate) in_flight: u64,
    pub(crate) app_limited: bool,
    pub(crate) largest: Option<u64>,
    pub(crate) srtt: Duration,
}

/// Losses, or a mark.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Congestion {
    pub(crate) now: Time,
    /// Sending time of the latest of the packets.
    pub(crate) sent: Time,
    pub(crate) in_flight: u64,
    pub(crate) persistent: bool,
    pub(crate) marked: bool,
    pub(crate) srtt: Duration,
}

impl Driven {
    pub(crate) fn new(law: &ControllerConfig, mtu: u16, seed: u64) -> Self {
        let endpoint = EndpointConfig {
            packet_size: mtu.into(),
            initial_window: INITIAL_WINDOW,
            // RFC 9002 counts bytes.
            byte_counting: true,
            ecn: Some(true),
            ..EndpointConfig::default()
        };
        let feedback = FeedbackConfig::None(Plain);
        let stream = Stream::new(seed, "stack", "law");
        Driven {
            law: Window::new(
                law,
                ControllerSetup { feedback: &feedback, endpoint: &endpoint, stream },
            ),
            mtu: mtu.into(),
            sent: 0,
            acknowledged: 0,
            latest: Duration::ZERO,
            least: Duration::ZERO,
            packets: 0,
            bytes: 0,
            newest: Time::ZERO,
            reduced: None,
        }
    }

    /// Window, in bytes. One more than the controller's, since stacks stay below the window.
    pub(crate) fn window(&self) -> u64 {
        (self.law.cwnd().max(LEAST_WINDOW) * self.mtu) as u64 + 1
    }

    pub(crate) fn ssthresh(&self) -> Option<u64> {
        let ssthresh = self.law.ssthresh();
        ssthresh.is_finite().then_some((ssthresh * self.mtu) as u64)
    }

    /// Number of invalid windows (zero, negative, not finite) returned by an external controller.
    pub(crate) fn refused_windows(&self) -> u64 {
        self.law.refused_windows()
    }

    /// Bytes per second, where the controller sets a pace.
    pub(crate) fn pacing_rate(&self) -> Option<u64> {
        self.law.pacing_rate().map(|packets| (packets * self.mtu) as u64)
    }

    pub(crate) fn on_sent(&mut self, number: u64) {
        self.sent = self.sent.max(number);
    }

    /// Notes that a packet of this size and sending time is acknowledged.
    pub(crate) fn on_packet_acked(&mut self, sent: Time, bytes: u64) {
        self.packets += 1;
        self.bytes += bytes;
        self.newest = self.newest.max(sent);
    }

    /// Handles an acknowledgment frame, after all of its packets.
    pub(crate) fn on_frame(&mut self, frame: &Frame) {
        let (packets, bytes) = (std::mem::take(&mut self.packets), std::mem::take(&mut self.bytes));
        if packets == 0 {
            return;
        }
        self.latest = frame.now.since(self.newest);
        self.least = if self.least.is_zero() { self.latest } else { self.least.min(self.latest) };
        self.acknowledged = self.acknowledged.max(frame.largest.unwrap_or(0));
        let event = AckEvent {
            path: self.path(frame.now, frame.in_flight + bytes, frame.srtt),
            newly_acked: packets,
            newly_acked_bytes: bytes,
            delivered: packets,
            growth: packets as f64,
            // Packets sent before the reduction do not grow the window (RFC 9002 section 7.3.2).
            in_recovery: self.reduced.is_some_and(|reduced| self.newest <= reduced),
            cwnd_limited: !frame.app_limited,
            una: self.acknowledged + 1,
            high: self.sent + 1,
            sent: self.newest,
            packet_seq: self.acknowledged,
            ..AckEvent::default()
        };
        self.law.on_ack(&event);
    }

    pub(crate) fn on_congestion(&mut self, congestion: &Congestion) {
        let Congestion { now, sent, in_flight, persistent, marked, srtt } = *congestion;
        let path = self.path(now, in_flight, srtt);
        let (una, high, probability) = (self.acknowledged + 1, self.sent + 1, Probability::ONE);
        if self.reduced.is_none_or(|reduced| sent > reduced) {
            self.reduced = Some(now);
            self.law.on_congestion(&CongestionEvent { path, probability, una, high, sent, marked });
        }
        if persistent {
            // RFC 9002 section 7.6.2: and recovery is over.
            self.reduced = None;
            self.law.on_reset(&ResetEvent {
                path,
                cause: ResetCause::PersistentCongestion,
                repeated: true,
                probability,
                leaves: AfterTimeout::Restart,
                una,
                high,
            });
        }
    }

    pub(crate) fn on_spurious(&mut self) {
        self.law.on_spurious_losses();
    }

    fn path(&self, now: Time, in_flight: u64, srtt: Duration) -> Path {
        let cwnd = self.law.cwnd();
        Path {
            now,
            cwnd,
            in_flight: (in_flight as f64 / self.mtu).min(cwnd),
            rtt: self.latest,
            srtt,
            min_rtt: self.least,
            bandwidth: 0.0,
        }
    }
}
