//! Guard between a controller and the simulator: faults of the controller are recorded and limited,
//! and never affect the run.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use windward_core::endpoint::estimator::{LostPacket, RateSample};
use windward_core::endpoint::event::{AckEvent, CongestionEvent, Path, ResetEvent};
use windward_core::endpoint::window::{
    Controller as CongestionController, ControllerSetup, Fault, LARGEST_WINDOW, LEAST_WINDOW,
    MakeController, Wrong, is_rate, is_window,
};
use windward_core::packet::{Flags, Packet};
use windward_core::part::{CustomPart, Need, Words};
use windward_core::units::Time;

use crate::controller::{Ack, Cause, Congestion, Controller, Sent};

/// A fault of a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trouble {
    /// It panicked, with this message, in this call.
    Panicked {
        /// The method.
        call: &'static str,
        /// Message of the panic.
        message: String,
    },
    /// It returned an invalid window or rate: less than a packet or more than 2^20 packets, or less
    /// than a packet in ten seconds.
    Refused {
        /// `window` or `pacing_rate`.
        what: &'static str,
        /// The first invalid value.
        value: u64,
        /// Time of it.
        at: Duration,
    },
    /// It kept sending far more than the path can carry, so that its window became one packet.
    Exhausted {
        /// Number of packets that it sent until then.
        sent: u64,
        /// Time of it.
        at: Duration,
    },
    /// Its connection in a QUIC stack ended before the run did, for example by a panic.
    ConnectionLost {
        /// The reason.
        reason: String,
    },
    /// A fault in a QUIC stack or in a run of a whole suite, with its value and time.
    Invalid {
        /// The fault, as a clause.
        fault: String,
    },
    /// Two identical runs differed: it keeps state from one connection to another, or uses a clock
    /// or a random generator of its own.
    NotDeterministic {
        /// The scenario.
        place: String,
    },
}

impl Trouble {
    /// True for troubles of one kind.
    pub(crate) fn is_like(&self, other: &Trouble) -> bool {
        match (self, other) {
            (Trouble::Refused { what, .. }, Trouble::Refused { what: other, .. }) => what == other,
            (trouble, other) => std::mem::discriminant(trouble) == std::mem::discriminant(other),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Panicked { call, message } => write!(f, "panicked in {call}: {message}"),
            Trouble::Refused { what, value, at } => {
                write!(f, "gave a {what} of {value} at {:.3} s", at.as_secs_f64())
            }
            Trouble::Exhausted { sent, at } => write!(
                f,
                "sent far more than the path carries, so that it was stopped after {sent} packets, \
                 at {:.3} s",
                at.as_secs_f64()
            ),
            Trouble::Invalid { fault } => f.write_str(fault),
            Trouble::ConnectionLost { reason } => write!(f, "lost its connection: {reason}"),
            Trouble::NotDeterministic { place } => write!(
                f,
                "two identical runs differed ({place}): it keeps state from one connection \
                 to another, or uses a clock or a random generator of its own"
            ),
        }
    }
}

/// Troubles of all connections of a subject.
#[derive(Debug, Default)]
pub(crate) struct Watch(Mutex<Vec<Trouble>>);

impl Watch {
    fn lock(&self) -> MutexGuard<'_, Vec<Trouble>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the troubles recorded since the last call.
    pub(crate) fn take(&self) -> Vec<Trouble> {
        std::mem::take(&mut self.lock())
    }

    /// Records it, unless one of its kind was recorded before.
    pub(crate) fn note(&self, trouble: Trouble) {
        let mut troubles = self.lock();
        if !troubles.iter().any(|known| known.is_like(&trouble)) {
            troubles.push(trouble);
        }
    }

    /// Records a fault that the simulator found.
    pub(crate) fn note_fault(&self, fault: &Fault) {
        self.note(match fault.wrong {
            Wrong::Flood { sent, .. } => Trouble::Exhausted { sent, at: since_start(fault.at) },
            _ => Trouble::Invalid { fault: fault.clause() },
        });
    }
}

/// Makes the controllers of a subject, one per connection.
pub(crate) struct Maker {
    make: Box<dyn Fn() -> Box<dyn Controller> + Send + Sync>,
    paces: bool,
    watch: Arc<Watch>,
}

impl Maker {
    pub(crate) fn new(
        make: Box<dyn Fn() -> Box<dyn Controller> + Send + Sync>,
        paces: bool,
        watch: Arc<Watch>,
    ) -> Self {
        Maker { make, paces, watch }
    }
}

impl CustomPart for Maker {
    fn words(&self) -> Words {
        Words {
            name: "controller",
            what: "a congestion controller of another project",
            source: "its own",
        }
    }
    fn needs(&self) -> &'static [Need] {
        &[]
    }
}

impl MakeController for Maker {
    fn make(&self, setup: ControllerSetup<'_>) -> Box<dyn CongestionController> {
        let mut guarded = Guarded {
            controller: None,
            watch: Arc::clone(&self.watch),
            paces: self.paces,
            packet: u64::from(setup.endpoint.packet_size),
            cwnd: 1.0,
            rate: None,
            delivery_rate: None,
            delivered: 0,
            now: Duration::ZERO,
        };
        match catch_unwind(AssertUnwindSafe(|| (self.make)())) {
            Ok(controller) => guarded.controller = Some(Mutex::new(controller)),
            Err(panic) => guarded.on_panic("the making of it", &*panic),
        }
        guarded.look(Duration::ZERO);
        Box::new(guarded)
    }
    fn paces(&self) -> bool {
        self.paces
    }
    fn samples_rate(&self) -> bool {
        true
    }
}

/// A controller of a connection. After a panic it is not called again, and the connection continues
/// with a window of one packet.
struct Guarded {
    /// The lock is for controllers that are not `Sync`; it is never contended.
    controller: Option<Mutex<Box<dyn Controller>>>,
    watch: Arc<Watch>,
    paces: bool,
    /// Size of a packet, bytes.
    packet: u64,
    /// Packets.
    cwnd: f64,
    /// Packets per second.
    rate: Option<f64>,
    /// Delivery rate of the current acknowledgment, bytes per second.
    delivery_rate: Option<u64>,
    /// Packets.
    delivered: u64,
    /// Time of the last call.
    now: Duration,
}

impl fmt::Debug for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guarded").field("cwnd", &self.cwnd).finish_non_exhaustive()
    }
}

fn since_start(at: Time) -> Duration {
    length(at.since(Time::ZERO))
}

/// Picoseconds become nanoseconds, rounded down.
fn length(time: windward_core::units::Duration) -> Duration {
    Duration::from_nanos(time.as_ps() / 1000)
}

/// Message of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a message that is not text".to_owned())
}

impl Guarded {
    fn bytes(&self, packets: f64) -> u64 {
        // Saturates; negative values and NaN become zero.
        (packets * self.packet as f64) as u64
    }

    fn on_panic(&mut self, call: &'static str, panic: &(dyn Any + Send)) {
        self.controller = None;
        (self.cwnd, self.rate) = (1.0, None);
        self.watch.note(Trouble::Panicked { call, message: message(panic) });
    }

    /// Calls the controller, unless it is stopped.
    fn call<T>(
        &mut self,
        call: &'static str,
        now: Duration,
        what: impl FnOnce(&mut dyn Controller) -> T,
    ) -> Option<T> {
        self.now = now;
        let controller = self.controller.as_mut()?;
        let controller = controller.get_mut().unwrap_or_else(PoisonError::into_inner);
        match catch_unwind(AssertUnwindSafe(|| what(&mut **controller))) {
            Ok(answer) => Some(answer),
            Err(panic) => {
                self.on_panic(call, &*panic);
                None
            }
        }
    }

    /// Reads window and rate after a call of the controller.
    fn look(&mut self, now: Duration) {
        let Some(window) = self.call("window", now, |controller| controller.window()) else {
            return;
        };
        let refuse = |what, value| Trouble::Refused { what, value, at: now };
        let packets = window as f64 / self.packet as f64;
        if !is_window(packets) {
            self.watch.note(refuse("window", window));
        }
        self.cwnd = packets.clamp(LEAST_WINDOW, LARGEST_WINDOW);
        if !self.paces {
            return;
        }
        let rate = self.call("pacing_rate", now, |controller| controller.pacing_rate());
        let packets = |rate: u64| rate as f64 / self.packet as f64;
        self.rate = rate.flatten().map(packets).filter(|rate| is_rate(*rate));
        if let (Some(rate), None) = (rate.flatten(), self.rate) {
            self.watch.note(refuse("pacing_rate", rate));
        }
    }

    fn congested(&mut self, path: &Path, cause: Cause, sent: Time) {
        let now = since_start(path.now);
        let in_flight = self.bytes(path.in_flight);
        let event = Congestion { now, cause, sent: since_start(sent), in_flight };
        self.call("on_congestion", now, |controller| controller.on_congestion(&event));
        self.look(now);
    }
}

impl CongestionController for Guarded {
    fn cwnd(&self) -> f64 {
        self.cwnd
    }

    fn pacing_rate(&self) -> Option<f64> {
        self.rate
    }

    fn on_rate_sample(&mut self, sample: &RateSample) -> bool {
        let rate = Some(sample.rate).filter(|rate| *rate > 0.0 && !sample.is_app_limited);
        self.delivery_rate = rate.map(|rate| self.bytes(rate));
        false
    }

    fn on_ack(&mut self, ack: &AckEvent) {
        let path = &ack.path;
        let delivery_rate = self.delivery_rate.take();
        if ack.delivered == 0 && ack.lost == 0 && !ack.flags.contains(Flags::ECN_ECHO) {
            return;
        }
        self.delivered += ack.delivered;
        let now = since_start(path.now);
        let event = Ack {
            now,
            sent: since_start(ack.sent),
            bytes: ack.delivered * self.packet,
            lost: ack.lost * self.packet,
            rtt: length(path.rtt),
            min_rtt: length(path.min_rtt),
            srtt: length(path.srtt),
            in_flight: self.bytes(path.in_flight),
            app_limited: !ack.cwnd_limited,
            in_recovery: ack.in_recovery,
            ce: ack.flags.contains(Flags::ECN_ECHO),
            delivery_rate,
            delivered: self.delivered * self.packet,
        };
        self.call("on_ack", now, |controller| controller.on_ack(&event));
        self.look(now);
    }

    fn on_congestion(&mut self, event: &CongestionEvent) {
        let cause = if event.marked { Cause::Mark } else { Cause::Loss };
        self.congested(&event.path, cause, event.sent);
    }

    fn on_reset(&mut self, event: &ResetEvent) {
        self.congested(&event.path, Cause::PersistentCongestion, event.path.now);
    }

    fn on_lost(&mut self, _: &LostPacket, _: Time) {}

    fn on_spurious_losses(&mut self) {
        // The acknowledgment that reports it follows, with its time.
        let now = self.now;
        self.call("on_spurious_congestion", now, |controller| {
            controller.on_spurious_congestion(now);
        });
        self.look(now);
    }

    fn announce(&mut self, packet: &mut Packet, _limited: bool) {
        let now = since_start(packet.timestamp);
        let again = packet.flags.contains(Flags::RETRANSMISSION);
        let sent = Sent { now, bytes: u64::from(packet.size), again };
        self.call("on_sent", now, |controller| controller.on_sent(&sent));
        // The window is not read: a departure only changes the packets in flight, which the sender
        // counts.
    }
}
