//! A UDP socket that spaces the datagrams of each connection at the rate of its controller.
//!
//! quinn's pacer waits until ten packets may leave and sends them at one instant. In a queue that
//! others keep nearly full such a burst loses packets, and the connection its share. quinn offers
//! each transmit to its socket, keeps it where the socket would block, and offers it again when the
//! poller of the socket says so. This socket lets datagrams through when their time has come. Small
//! ones, which carry acknowledgments, always pass.

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
use windward_core::endpoint::driver::Spacing;
use windward_quic::Live;

use crate::clock;
use crate::sync::lock;

/// Interval at which the address of a peer is looked at.
const LOOK: Duration = Duration::from_secs(1);

thread_local! {
    /// Departure of the transmit that [`PacedSocket`] has just refused. quinn asks the poller of
    /// the same connection next, in the same call.
    static REFUSED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// A socket that spaces the datagrams of the connections given to [`PacedSocket::follow`].
///
/// ```no_run
/// use std::sync::Arc;
///
/// use quinn::Runtime;
/// use windward_deploy::PacedSocket;
///
/// # fn open(transport: Arc<quinn::TransportConfig>) -> std::io::Result<()> {
/// let runtime = Arc::new(quinn::TokioRuntime);
/// let socket = runtime.wrap_udp_socket(std::net::UdpSocket::bind("[::]:0")?)?;
/// let socket = Arc::new(PacedSocket::new(socket));
/// let config = quinn::EndpointConfig::default();
/// let endpoint =
///     quinn::Endpoint::new_with_abstract_socket(config, None, Arc::clone(&socket) as _, runtime)?;
/// // For each connection, once it is established:
/// # let connection: quinn::Connection = unreachable!();
/// tokio::spawn(socket.follow(connection.clone()));
/// # Ok(())
/// # }
/// ```
pub struct PacedSocket {
    socket: Arc<dyn AsyncUdpSocket>,
    peers: Mutex<HashMap<SocketAddr, Arc<Peer>>>,
}

/// A connection whose datagrams are spaced.
struct Peer {
    depart: Box<Depart>,
    /// A transmit of several datagrams that has left in part: its place and size in memory, and the
    /// bytes that have left.
    begun: Mutex<Option<((usize, usize), usize)>>,
}

/// Asks until when the next datagram, of so many bytes, has to wait; [`Live::depart`].
type Depart = dyn Fn(Instant, usize) -> Option<Instant> + Send + Sync;

impl fmt::Debug for PacedSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacedSocket").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl PacedSocket {
    /// A socket that spaces nothing yet. Must be used in a tokio runtime.
    pub fn new(socket: Arc<dyn AsyncUdpSocket>) -> Self {
        PacedSocket { socket, peers: Mutex::default() }
    }

    /// Spaces the datagrams of a connection until it ends, also after a change of the peer's
    /// address, at the rate that its controller sets. Returns at once if the controller is not one
    /// of Windward. The future holds the connection open.
    pub async fn follow(self: Arc<Self>, quic: quinn::Connection) {
        loop {
            let address = quic.remote_address();
            let Some(live) = Live::of(quic.congestion_state()) else { return };
            let _spaced = self.space(address, move |now, bytes| live.depart(now, bytes));
            while quic.remote_address() == address {
                tokio::select! {
                    () = tokio::time::sleep(LOOK) => {}
                    _ = quic.closed() => return,
                }
            }
        }
    }

    /// Spaces datagrams to an address until the result is dropped.
    fn space(
        self: &Arc<Self>,
        address: SocketAddr,
        depart: impl Fn(Instant, usize) -> Option<Instant> + Send + Sync + 'static,
    ) -> Spaced {
        let peer = Arc::new(Peer { depart: Box::new(depart), begun: Mutex::default() });
        lock(&self.peers).insert(address, Arc::clone(&peer));
        Spaced { socket: Arc::clone(self), address, peer }
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
        if segment < Spacing::FULL {
            return self.socket.try_send(transmit);
        }
        let peer = lock(&self.peers).get(&transmit.destination).cloned();
        let Some(peer) = peer else { return self.socket.try_send(transmit) };
        let now = clock::now();
        let mut state = lock(&peer.begun);
        let place = (all.as_ptr().addr(), all.len());
        let begun = state.take().filter(|(begun, _)| *begun == place);
        let start = begun.map_or(0, |(_, start)| start);
        let mut end = start;
        let mut refused = None;
        while end < all.len() && refused.is_none() {
            let next = (end + segment).min(all.len());
            refused = (peer.depart)(now, next - end);
            if refused.is_none() {
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
                    *state = Some((place, start));
                }
            })?;
        }
        let Some(until) = refused else { return Ok(()) };
        *state = Some((place, end));
        REFUSED.set(Some(until));
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
        if this.waits
            && let Some(timer) = &mut this.timer
        {
            ready!(timer.poll(cx));
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

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::net::Ipv4Addr;

    use windward_core::units::Time;

    use super::*;

    /// A socket that keeps what is sent, and would block whenever `blocks` says so.
    #[derive(Debug, Default)]
    struct Kept {
        sent: Mutex<Vec<Vec<u8>>>,
        blocks: Mutex<Vec<bool>>,
    }

    #[derive(Debug)]
    struct Always;

    impl UdpPoller for Always {
        fn poll_writable(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncUdpSocket for Kept {
        fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
            Box::pin(Always)
        }

        fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
            if lock(&self.blocks).pop().unwrap_or(false) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let segment = transmit.segment_size.unwrap_or(transmit.contents.len());
            lock(&self.sent).extend(transmit.contents.chunks(segment).map(<[u8]>::to_vec));
            Ok(())
        }

        fn poll_recv(
            &self,
            _: &mut Context<'_>,
            _: &mut [IoSliceMut<'_>],
            _: &mut [RecvMeta],
        ) -> Poll<io::Result<usize>> {
            Poll::Pending
        }

        fn local_addr(&self) -> io::Result<SocketAddr> {
            Ok(ADDRESS)
        }
    }

    /// Spaces full datagrams at a rate, bytes per second.
    fn at_rate(rate: u64) -> impl Fn(Instant, usize) -> Option<Instant> {
        let (zero, spacing) = (clock::now(), Mutex::new(Spacing::default()));
        move |now, bytes| {
            let nanoseconds = u64::try_from((now - zero).as_nanos()).expect("soon");
            let (time, mut spacing) = (Time::from_nanos(nanoseconds), lock(&spacing));
            let until = if bytes >= Spacing::FULL { spacing.wait(time) } else { return None };
            if until.is_none() {
                spacing.on_sent(time, bytes, rate);
            }
            until.map(|until| now + Duration::from_nanos(until.since(time).as_nanos()))
        }
    }

    const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9);

    fn transmit(contents: &[u8], segment_size: Option<usize>) -> Transmit<'_> {
        Transmit { destination: ADDRESS, ecn: None, contents, segment_size, src_ip: None }
    }

    /// Sends as quinn does.
    async fn send(socket: &PacedSocket, poller: &mut Pin<Box<dyn UdpPoller>>, what: &Transmit<'_>) {
        loop {
            poll_fn(|cx| poller.as_mut().poll_writable(cx)).await.expect("a poller");
            match socket.try_send(what) {
                Ok(()) => return,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
    }

    /// Ten datagrams of 1200 bytes, each with its own number, and a part of one.
    fn batch() -> Vec<u8> {
        (0..10 * 1200 + 1100).map(|byte| (byte / 1200) as u8).collect()
    }

    /// A paced socket, and what it sends through.
    fn paced() -> (Arc<PacedSocket>, Arc<Kept>) {
        let kept = Arc::new(Kept::default());
        (Arc::new(PacedSocket::new(Arc::clone(&kept) as _)), kept)
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(test);
    }

    #[test]
    fn a_batch_leaves_at_the_rate_whole_and_in_order() {
        run(async {
            let (socket, kept) = paced();
            let mut poller = Arc::clone(&socket).create_io_poller();
            // 1200 bytes take 2 ms.
            let _spaced = socket.space(ADDRESS, at_rate(600_000));
            let start = clock::now();
            send(&socket, &mut poller, &transmit(&batch(), Some(1200))).await;
            // Ten of eleven steps, less the granularity.
            assert!(clock::now() - start >= Duration::from_micros(19_900));
            assert_eq!(lock(&kept.sent).concat(), batch());
            assert_eq!(lock(&kept.sent).len(), 11);
        });
    }

    #[test]
    fn a_socket_that_blocks_loses_and_repeats_nothing() {
        run(async {
            let (socket, kept) = paced();
            *lock(&kept.blocks) = vec![false, true, true, false, true, false, true];
            let mut poller = Arc::clone(&socket).create_io_poller();
            let _spaced = socket.space(ADDRESS, at_rate(2_000_000));
            for _ in 0..3 {
                send(&socket, &mut poller, &transmit(&batch(), Some(1200))).await;
            }
            assert_eq!(lock(&kept.sent).concat(), batch().repeat(3));
        });
    }

    #[test]
    fn acknowledgments_and_others_do_not_wait() {
        run(async {
            let (socket, _) = paced();
            let spaced = socket.space(ADDRESS, at_rate(1200));
            let full = [1; 1200];
            assert!(socket.try_send(&transmit(&full, None)).is_ok());
            assert!(socket.try_send(&transmit(&full, None)).is_err());
            assert!(socket.try_send(&transmit(&[2; 40], None)).is_ok());
            let elsewhere = SocketAddr::new(ADDRESS.ip(), 10);
            let other = Transmit { destination: elsewhere, ..transmit(&full, None) };
            assert!(socket.try_send(&other).is_ok());
            // A newer connection to the same address keeps its place when the older one ends.
            let newer = socket.space(ADDRESS, at_rate(1200));
            drop(spaced);
            assert!(socket.try_send(&transmit(&full, None)).is_ok());
            assert!(socket.try_send(&transmit(&full, None)).is_err());
            drop(newer);
            assert!(socket.try_send(&transmit(&full, None)).is_ok());
            assert!(lock(&socket.peers).is_empty());
        });
    }

    #[test]
    fn tokio_takes_the_place_of_a_timer_that_there_is_not() {
        run(async {
            let start = clock::now();
            let mut timer = Timer::Tokio(Box::pin(tokio::time::sleep(Duration::ZERO)));
            timer.set(start + Duration::from_millis(3));
            poll_fn(|cx| timer.poll(cx)).await;
            assert!(clock::now() - start >= Duration::from_millis(3));
        });
    }
}
