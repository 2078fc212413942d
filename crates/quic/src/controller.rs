//! quinn's traits `ControllerFactory` and `Controller`, implemented by a [`Driver`].

use std::any::Any;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use windward_core::endpoint::driver::{Driver, DriverSetup, Figures, Frame, Host, Pacer, obstacle};
use windward_core::protocols::{PROTOCOLS, Protocol};
use windward_core::units::{Duration, Time};

/// Time after which a connection gets a new driver: a [`Time`] counts up to 213 days.
const EPOCH: std::time::Duration = std::time::Duration::from_secs(100 * 86_400);

/// The reason why a protocol cannot be the congestion controller of a QUIC connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsuitable(String);

impl fmt::Display for Unsuitable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unsuitable {}

/// A factory of congestion controllers for quinn's `TransportConfig`, from a row of the protocol
/// table: `"upwind"`, `"cubic"`, `"bbr"`. Connections may share it.
///
/// # Errors
/// If there is no such row, or if it cannot run in a QUIC stack: the reason, and the rows that can.
pub fn controller(protocol: &str) -> Result<Arc<WindwardConfig>, Unsuitable> {
    let row = PROTOCOLS.iter().find(|row| row.name == protocol);
    let why = match row {
        Some(row) => match WindwardConfig::of(row) {
            Ok(config) => return Ok(Arc::new(config)),
            Err(Unsuitable(why)) => format!("`{protocol}` cannot control a QUIC connection: {why}"),
        },
        None => format!("there is no protocol `{}`", protocol.escape_debug()),
    };
    let rows = PROTOCOLS.iter().filter(|row| obstacle(row, Host::Quic).is_none());
    let names: Vec<&str> = rows.map(|row| row.name).collect();
    Err(Unsuitable(format!("{why}; take one of {}", names.join(", "))))
}

/// A factory of congestion controllers for quinn's `TransportConfig`, from a protocol.
#[derive(Debug, Clone)]
pub struct WindwardConfig {
    protocol: Protocol,
    seed: Option<u64>,
}

impl WindwardConfig {
    /// The factory of a row or a composition. Its recovery and its feedback are not used: QUIC has
    /// its own recovery.
    ///
    /// # Errors
    /// If it cannot run in a QUIC stack: the reason, as a sentence without a capital or a full
    /// stop.
    pub fn of(protocol: &Protocol) -> Result<Self, Unsuitable> {
        Driver::check(protocol).map_err(Unsuitable)?;
        Ok(WindwardConfig { protocol: *protocol, seed: None })
    }

    /// The same with this seed for the random numbers of each connection. Without a seed, each
    /// connection draws its own.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        WindwardConfig { seed: Some(seed), ..self }
    }

    /// The protocol.
    pub fn protocol(&self) -> &Protocol {
        &self.protocol
    }

    fn driver(&self, mtu: u16) -> Driver {
        let seed = self.seed.unwrap_or_else(|| RandomState::new().hash_one(mtu));
        Driver::new(&self.protocol, DriverSetup { mtu, pacer: Pacer::Window, seed })
            .unwrap_or_else(|why| unreachable!("`of` has made such a driver: {why}"))
    }
}

impl ControllerFactory for WindwardConfig {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let driver = self.driver(current_mtu);
        let window = driver.window();
        let shared = Shared { driver, zero: now };
        Box::new(Adapter {
            config: self,
            shared: Arc::new(Mutex::new(shared)),
            window,
            initial: window,
            mtu: current_mtu,
            is_copy: false,
        })
    }
}

/// The driver of a connection, and time zero for it.
#[derive(Debug)]
struct Shared {
    driver: Driver,
    zero: Instant,
}

impl Shared {
    fn time(&self, instant: Instant) -> Time {
        let nanoseconds = instant.saturating_duration_since(self.zero).as_nanos();
        // Less than two epochs: a driver does not live longer.
        Time::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX).min(LAST))
    }
}

/// The last nanosecond of a [`Time`].
const LAST: u64 = u64::MAX / 1000 - 1;

/// Locks a driver. If another thread panicked in it, the connection goes on as far as it can.
fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The congestion controller of a connection.
#[derive(Debug)]
struct Adapter {
    config: Arc<WindwardConfig>,
    /// Shared with copies, and with [`Live`].
    shared: Arc<Mutex<Shared>>,
    /// The window after the latest event: quinn asks several times for each packet.
    window: u64,
    initial: u64,
    mtu: u16,
    /// True for a copy without an event: quinn copies a controller for a new path of the same
    /// host, and to show it.
    is_copy: bool,
}

impl Adapter {
    /// Passes an event on to the driver.
    fn tell(&mut self, event: impl FnOnce(&mut Shared)) {
        let mut shared = lock(&self.shared);
        if std::mem::take(&mut self.is_copy) {
            shared.driver.on_new_path();
        }
        event(&mut shared);
        self.window = shared.driver.window();
    }
}

/// Converts a duration.
fn span(span: std::time::Duration) -> Duration {
    Duration::from_nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX).min(LAST))
}

/// Bytes of a packet, as its size in a datagram: quinn counts them in 64 bits.
fn size(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

impl Controller for Adapter {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        let renewed = {
            let shared = lock(&self.shared);
            now.saturating_duration_since(shared.zero) > EPOCH
        };
        if renewed {
            let driver = self.config.driver(self.mtu);
            *lock(&self.shared) = Shared { driver, zero: now };
        }
        self.tell(|shared| {
            let now = shared.time(now);
            shared.driver.on_batch_sent(now, bytes, last_packet_number);
        });
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        _app_limited: bool,
        rtt: &RttEstimator,
    ) {
        let smoothed = span(rtt.get());
        let mut shared = lock(&self.shared);
        let (now, sent) = (shared.time(now), shared.time(sent));
        // The window moves at the end of the frame.
        shared.driver.on_acked(now, sent, None, size(bytes), smoothed);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        self.tell(|shared| {
            let now = shared.time(now);
            let largest = largest_packet_num_acked;
            shared.driver.on_frame(Frame { now, in_flight, app_limited, largest });
        });
    }

    /// quinn reports a mark as an event without lost bytes.
    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        self.tell(|shared| {
            let (now, sent) = (shared.time(now), shared.time(sent));
            if lost_bytes == 0 {
                shared.driver.on_mark(now);
            } else {
                shared.driver.on_bytes_lost(now, sent, lost_bytes);
            }
            if is_persistent_congestion {
                shared.driver.on_persistent_congestion(now);
            }
        });
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu;
        self.tell(|shared| shared.driver.set_mtu(new_mtu));
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn metrics(&self) -> ControllerMetrics {
        let figures = lock(&self.shared).driver.figures();
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = figures.window;
        metrics.ssthresh = figures.ssthresh;
        // In bits, for qlog.
        metrics.pacing_rate = figures.pacing_rate.map(|bytes| bytes.saturating_mul(8));
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Adapter {
            config: Arc::clone(&self.config),
            shared: Arc::clone(&self.shared),
            is_copy: true,
            ..*self
        })
    }

    fn initial_window(&self) -> u64 {
        self.initial
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// A view of the congestion controller of a connection, readable from any thread while the
/// connection runs.
///
/// ```no_run
/// # fn show(connection: &quinn_proto::Connection) -> Option<()> {
/// // quinn: `Live::of(connection.congestion_state())`.
/// let live = windward_quic::Live::of(connection.congestion_state().clone_box())?;
/// let figures = live.figures();
/// println!("{} bytes in flight of {}", figures.in_flight, figures.window);
/// # Some(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Live {
    shared: Arc<Mutex<Shared>>,
}

impl Live {
    /// The view of a connection's `congestion_state`; `None` if its controller is not one of
    /// Windward. After a migration to another address of the peer the connection has another
    /// controller: ask again.
    pub fn of(state: Box<dyn Controller>) -> Option<Live> {
        let adapter = state.into_any().downcast::<Adapter>().ok()?;
        Some(Live { shared: adapter.shared })
    }

    /// The present figures. Packets are counted as quinn reports them: ones that carry only
    /// acknowledgments are among those sent.
    pub fn figures(&self) -> Figures {
        lock(&self.shared).driver.figures()
    }

    /// Asks whether the next datagram of the latest transmit, of so many bytes, may leave the
    /// socket. Full ones leave at the pacing rate, if the controller sets one.
    ///
    /// Returns the instant until which it has to wait, or `None` if it leaves now. All datagrams of
    /// a transmit of full ones have to ask, in their order: RTTs begin when they leave.
    pub fn depart(&self, now: Instant, bytes: usize) -> Option<Instant> {
        let mut shared = lock(&self.shared);
        let time = shared.time(now);
        let until = shared.driver.depart(time, bytes)?;
        Some(now + std::time::Duration::from_nanos(until.since(time).as_nanos()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Arc, Controller, ControllerFactory, Figures, Instant, Live, controller};

    /// An instant to begin with; only distances from it matter.
    #[expect(clippy::disallowed_methods, reason = "the only way to make an Instant")]
    fn start() -> Instant {
        Instant::now()
    }

    fn figures(controller: &dyn Controller) -> Figures {
        Live::of(controller.clone_box()).expect("one of ours").figures()
    }

    #[test]
    fn names_are_rows_that_quic_can_run() {
        let why = |name| controller(name).unwrap_err().to_string();
        assert!(
            why("xcp").contains("`xcp` cannot control a QUIC connection: it needs the feedback")
        );
        assert!(
            why("a\nb").contains(r"no protocol `a\nb`; take one of reno, newreno"),
            "{}",
            why("a\nb")
        );
        assert_eq!(controller("upwind").unwrap().protocol().name, "upwind");
    }

    #[test]
    fn what_is_lost_and_marked_reaches_the_window() {
        let at = start();
        let ms = |ms| at + Duration::from_millis(ms);
        let mut reno = controller("newreno").unwrap().build(at, 1200);
        // Ten packets, and one byte more.
        assert_eq!((reno.window(), reno.initial_window()), (12_001, 12_001));
        reno.on_sent(ms(0), 12_000, 9);
        assert_eq!((figures(&*reno).sent, figures(&*reno).in_flight), (10, 12_000));
        // The first is lost: the window is halved, once.
        reno.on_congestion_event(ms(100), ms(0), false, 1200);
        reno.on_congestion_event(ms(101), ms(0), false, 1200);
        assert_eq!(reno.window(), 6001);
        let lost = figures(&*reno);
        assert_eq!((lost.lost, lost.lost_bytes, lost.in_flight), (2, 2400, 9600));
        // A mark of a packet that was sent before says nothing new.
        reno.on_congestion_event(ms(102), ms(0), false, 0);
        assert_eq!((reno.window(), figures(&*reno).marks), (6001, 1));
        // Persistent congestion leaves two packets.
        reno.on_congestion_event(ms(103), ms(0), true, 1200);
        assert_eq!(reno.window(), 2401);
    }

    #[test]
    fn a_copy_shows_the_state_and_does_not_change_it() {
        let at = start();
        let mut cubic = controller("cubic").unwrap().build(at, 1200);
        cubic.on_sent(at, 3600, 2);
        let copy = cubic.clone_box();
        assert_eq!((copy.window(), figures(&*cubic).in_flight), (cubic.window(), 3600));
        // A copy that quinn goes on with has a path of its own.
        let mut copy = copy;
        copy.on_sent(at, 1200, 3);
        assert_eq!((figures(&*copy).in_flight, figures(&*copy).forgotten), (1200, 3));
    }

    #[test]
    fn a_connection_outlives_the_range_of_its_clock() {
        let at = start();
        let day = Duration::from_secs(86_400);
        let mut cubic = controller("cubic").unwrap().build(at, 1200);
        for (n, days) in [0, 99, 101, 250, 900].into_iter().enumerate() {
            let now = at + day * days;
            cubic.on_sent(now, 1200, n as u64);
            cubic.on_end_acks(now + Duration::from_millis(50), 0, true, Some(n as u64));
            assert!(cubic.window() >= 12_001, "{days} days");
        }
        let other: Box<dyn Controller> =
            Arc::new(quinn_proto::congestion::CubicConfig::default()).build(at, 1200);
        assert!(Live::of(other).is_none());
    }
}
