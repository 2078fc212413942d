//! A UDP socket that spaces the datagrams of each connection at the rate of its controller.
//!
//! quinn's pacer waits until ten packets may leave and sends them at one instant. In a queue that
//! others keep nearly full such a burst loses packets, and the connection its share. quinn offers
//! each transmit to its socket, keeps it where the socket would block, and offers it again when the
//! socket's poller says so. This socket lets datagrams through when their time has come. Small ones,
//! which carry acknowledgments, always pass.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;
use tokio::time::Sleep;
use windward_core::units::Time;
use windward_quic::{Live, Spacing};

use crate::clock;
use crate::sync::lock;

/// Size of datagrams that are spaced: full ones have at least 1200 bytes (RFC 9000 section 14).
const FULL: usize = 1000;
/// Interval at which the address of a peer is looked at.
const LOOK: Duration = Duration::from_secs(1);

thread_local! {
    /// Departure of the transmit that [`PacedSocket`] has just refused. quinn asks the poller of
    /// the same connection next, in the same call.
    static REFUSED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// A socket that spaces datagrams to the peers of [`PacedSocket::follow`].
pub(crate) struct PacedSocket {
    socket: Arc<dyn AsyncUdpSocket>,
    /// Time zero of the spacings.
    zero: Instant,
    peers: Mutex<HashMap<SocketAddr, Arc<Peer>>>,
}

/// A connection whose datagrams are spaced.
struct Peer {
    live: Live,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    spacing: Spacing,
    /// A transmit of several datagrams that has left in part: its place and size in memory, and the
    /// bytes that have left.
    begun: Option<((usize, usize), usize)>,
}

impl fmt::Debug for PacedSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacedSocket").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl PacedSocket {
    pub(crate) fn new(socket: Arc<dyn AsyncUdpSocket>) -> Self {
        PacedSocket { socket, zero: clock::now(), peers: Mutex::default() }
    }

    /// Spaces the datagrams of a connection until it ends, also after a change of the peer's
    /// address.
    pub(crate) async fn follow(self: Arc<Self>, quic: quinn::Connection) {
        loop {
            let address = quic.remote_address();
            let Some(live) = Live::of(quic.congestion_state()) else { return };
            let _spaced = self.space(address, live);
            while quic.remote_address() == address {
                tokio::select! {
                    () = tokio::time::sleep(LOOK) => {}
                    _ = quic.closed() => return,
                }
            }
        }
    }

    /// Spaces datagrams to an address until the result is dropped.
    fn space(self: &Arc<Self>, address: SocketAddr, live: Live) -> Spaced {
        let peer = Arc::new(Peer { live, state: Mutex::default() });
        lock(&self.peers).insert(address, Arc::clone(&peer));
        Spaced { socket: Arc::clone(self), address, peer }
    }

    fn time(&self, instant: Instant) -> Time {
        let nanoseconds = instant.saturating_duration_since(self.zero).as_nanos();
        Time::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX / 1000))
    }
}

/// Keeps an address in the table of a socket.
struct Spaced {
    socket: Arc<PacedSocket>,
    address: SocketAddr,
    peer: Arc<Peer>,
}

impl Drop for Spaced {
    fn drop(&mut self) {
        let mut peers = lock(&self.socket.peers);
        // A newer connection to the same address stays.
        if peers.get(&self.address).is_some_and(|peer| Arc::ptr_eq(peer, &self.peer)) {
            peers.remove(&self.address);
        }
    }
}

impl AsyncUdpSocket for PacedSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        let socket = Arc::clone(&self.socket).create_io_poller();
        Box::pin(PacedPoller { socket, timer: None, waits: false })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let all = transmit.contents;
        let segment = transmit.segment_size.unwrap_or(all.len());
        if segment < FULL {
            return self.socket.try_send(transmit);
        }
        let peer = lock(&self.peers).get(&transmit.destination).cloned();
        let Some((peer, rate)) = peer.and_then(|peer| {
            let rate = peer.live.pacing_rate()?;
            Some((peer, rate))
        }) else {
            return self.socket.try_send(transmit);
        };
        let now = self.time(clock::now());
        let mut state = lock(&peer.state);
        let place = (all.as_ptr().addr(), all.len());
        let begun = state.begun.take().filter(|(begun, _)| *begun == place);
        let start = begun.map_or(0, |(_, start)| start);
        let mut end = start;
        let mut refused = None;
        while end < all.len() && refused.is_none() {
            refused = state.spacing.wait(now);
            if refused.is_none() {
                let next = (end + segment).min(all.len());
                state.spacing.on_sent(now, next - end, rate);
                end = next;
            }
        }
        if end > start {
            let part = Transmit {
                contents: &all[start..end],
                segment_size: (end - start > segment).then_some(segment),
                ..*transmit
            };
            self.socket.try_send(&part).inspect_err(|error| {
                if error.kind() == io::ErrorKind::WouldBlock {
                    state.begun = Some((place, start));
                }
            })?;
        }
        let Some(until) = refused else { return Ok(()) };
        state.begun = Some((place, end));
        let left = Duration::from_nanos(until.since(now).as_nanos());
        REFUSED.set(Some(clock::now() + left));
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.socket.poll_recv(cx, buffers, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.socket.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.socket.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.socket.may_fragment()
    }
}

/// Tells a connection when it may offer a transmit again.
#[derive(Debug)]
struct PacedPoller {
    socket: Pin<Box<dyn UdpPoller>>,
    /// Made when a transmit is refused for the first time.
    timer: Option<Timer>,
    /// True while the timer runs.
    waits: bool,
}

impl UdpPoller for PacedPoller {
    fn poll_writable(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if let Some(at) = REFUSED.take() {
            this.timer.get_or_insert_with(Timer::new).set(at);
            this.waits = true;
        }
        if this.waits {
            if let Some(timer) = &mut this.timer {
                ready!(timer.poll(cx));
            }
            this.waits = false;
        }
        this.socket.as_mut().poll_writable(cx)
    }
}

/// A timer of the kernel, exact to some 50 us. tokio's has steps of 1 ms; it serves where the
/// system has no file descriptor left.
#[derive(Debug)]
enum Timer {
    Kernel(AsyncFd<OwnedFd>),
    Tokio(Pin<Box<Sleep>>),
}

impl Timer {
    fn new() -> Self {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags).map_err(io::Error::from);
        #[expect(deprecated, reason = "an OwnedFd keeps its descriptor; the newer name is unsafe")]
        match fd.and_then(AsyncFd::new) {
            Ok(fd) => Timer::Kernel(fd),
            Err(_) => Timer::Tokio(Box::pin(tokio::time::sleep(Duration::ZERO))),
        }
    }

    fn set(&mut self, at: Instant) {
        match self {
            Timer::Kernel(fd) => {
                // Zero would stop the timer.
                let left = at.saturating_duration_since(clock::now()).max(Duration::from_nanos(1));
                let timer = Itimerspec {
                    it_interval: Timespec::default(),
                    it_value: Timespec {
                        tv_sec: left.as_secs().try_into().unwrap_or_default(),
                        tv_nsec: left.subsec_nanos().into(),
                    },
                };
                if timerfd_settime(fd.get_ref(), TimerfdTimerFlags::empty(), &timer).is_err() {
                    *self = Timer::Tokio(Box::pin(tokio::time::sleep_until(at.into())));
                }
            }
            Timer::Tokio(sleep) => sleep.as_mut().reset(at.into()),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Timer::Kernel(fd) => loop {
                let Ok(mut guard) = ready!(fd.poll_read_ready(cx)) else { return Poll::Ready(()) };
                let read = rustix::io::read(guard.get_inner(), &mut [0_u8; 8]);
                guard.clear_ready();
                if read != Err(Errno::AGAIN) {
                    return Poll::Ready(());
                }
            },
            Timer::Tokio(sleep) => sleep.as_mut().poll(cx),
        }
    }
}
