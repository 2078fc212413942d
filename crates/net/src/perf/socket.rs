//! A UDP socket that sends and receives many datagrams per system call, with the ECN bits of their
//! IP headers.
//!
//! `quinn-udp` provides generic segmentation and receive offload (GSO, GRO), where the kernel has
//! them, and recvmmsg; sendmmsg sends datagrams that cannot be segmented.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroU64;

use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny, sendmmsg, sockopt};
use windward_core::packet::Flags;
use windward_core::units::{Duration, Time};

/// Requested buffer of a socket for each direction, bytes: 6 ms at 10 Gbit/s.
const BUFFER: usize = 8 << 20;
/// Largest number of bytes that the kernel segments by one call: an IP packet without the headers
/// of IPv6 and UDP.
const MAX_RUN: usize = 65_535 - 48;

/// Largest datagram that is sent by GSO: it passes every interface with IPv6 (RFC 8200 section 5:
/// 1280 bytes). With a larger one the kernel may refuse the call (EINVAL), and `quinn-udp` gives up
/// GSO and ECN for the socket.
const MAX_SEGMENT: usize = 1280 - 48;
/// Largest number of bytes of answers that wait for a socket.
const MAX_WAITING: usize = 4 << 20;

/// Datagrams to be sent, in order. Datagrams of the same kind form a run, which is sent by one
/// system call.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    bursts: Vec<Burst>,
    datagrams: usize,
}

#[derive(Debug)]
struct Burst {
    to: SocketAddr,
    ecn: Option<EcnCodepoint>,
    start: usize,
    end: usize,
    segment: usize,
}

impl Outbox {
    /// Adds a datagram of `length` bytes, which `write` fills in: they are zero before.
    pub(super) fn push(
        &mut self,
        to: SocketAddr,
        ecn: Option<EcnCodepoint>,
        length: usize,
        write: impl FnOnce(&mut [u8]),
    ) {
        let start = self.bytes.len();
        self.bytes.resize(start + length, 0);
        write(&mut self.bytes[start..]);
        let end = self.bytes.len();
        self.datagrams += 1;
        match self.bursts.last_mut() {
            Some(burst)
                if burst.to == to
                    && burst.ecn == ecn
                    && burst.segment == length
                    && end - burst.start <= MAX_RUN =>
            {
                burst.end = end;
            }
            _ => self.bursts.push(Burst { to, ecn, start, end, segment: length }),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.datagrams == 0
    }

    pub(super) fn len(&self) -> usize {
        self.datagrams
    }

    /// Discards the contents if too much waits for a socket that takes nothing.
    pub(super) fn bound(&mut self) {
        if self.bytes.len() > MAX_WAITING {
            self.clear();
        }
    }

    #[cfg(test)]
    pub(super) fn datagrams(&self) -> impl Iterator<Item = (SocketAddr, &[u8])> {
        let of = |burst: &Burst| self.bytes[burst.start..burst.end].chunks(burst.segment);
        self.bursts.iter().flat_map(move |burst| of(burst).map(|bytes| (burst.to, bytes)))
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.bursts.clear();
        self.datagrams = 0;
    }
}

/// One end of the path.
#[derive(Debug)]
pub(super) struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
    /// True while its buffer is full (EAGAIN): it will be writable again.
    is_full: bool,
    /// Time until which the queue of the interface counts as full (ENOBUFS): no event tells when it
    /// has room again.
    retry: Time,
}

impl Socket {
    /// Takes over a socket and makes it non-blocking.
    pub(super) fn new(socket: UdpSocket) -> io::Result<Self> {
        let state = UdpSocketState::new((&socket).into())?;
        // Exceeding the system's limit needs a privilege; without it, the limit applies.
        if sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER).is_err() {
            let _ = sockopt::set_socket_recv_buffer_size(&socket, BUFFER);
        }
        if sockopt::set_socket_send_buffer_size_force(&socket, BUFFER).is_err() {
            let _ = sockopt::set_socket_send_buffer_size(&socket, BUFFER);
        }
        Ok(Socket { socket, state, is_full: false, retry: Time::ZERO })
    }

    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// True if it could take no datagram when it was last asked, and there is no reason yet to ask
    /// again.
    pub(super) fn is_obstructed(&self, now: Time) -> bool {
        self.is_full || self.retry > now
    }

    /// Time at which to ask again, if no event tells.
    pub(super) fn wake(&self, now: Time) -> Time {
        if self.retry > now { self.retry } else { Time::NEVER }
    }

    /// Sends the datagrams in order, and removes those that the socket took. Datagrams that it
    /// refuses permanently are removed too, as if the network had lost them; datagrams that it
    /// cannot take now remain.
    ///
    /// # Errors
    ///
    /// The error of the last datagram that was refused permanently.
    pub(super) fn flush(&mut self, now: Time, outbox: &mut Outbox) -> io::Result<()> {
        self.is_full = false;
        let mut refused = Ok(());
        let mut done = 0;
        'bursts: for burst in &mut outbox.bursts {
            while burst.start < burst.end {
                // Checked each time, since the kernel may turn out to have no GSO.
                let segments = match burst.segment <= MAX_SEGMENT {
                    true => self.state.max_gso_segments().max(1),
                    false => 1,
                };
                if segments == 1 && burst.ecn.is_none() && burst.end - burst.start > burst.segment {
                    match self.send_many(
                        burst.to,
                        &outbox.bytes[burst.start..burst.end],
                        burst.segment,
                    ) {
                        Ok(count) if count > 0 => {
                            outbox.datagrams -= count;
                            burst.start += count * burst.segment;
                            continue;
                        }
                        // If the first cannot be sent, the attempt to send it alone returns the
                        // error.
                        _ => {}
                    }
                }
                let end = burst.end.min(burst.start + segments * burst.segment);
                let datagrams = (end - burst.start) / burst.segment;
                let transmit = Transmit {
                    destination: burst.to,
                    ecn: burst.ecn,
                    contents: &outbox.bytes[burst.start..end],
                    segment_size: (datagrams > 1).then_some(burst.segment),
                    src_ip: None,
                };
                match self.state.try_send((&self.socket).into(), &transmit) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        self.is_full = true;
                        break 'bursts;
                    }
                    Err(error) if error.raw_os_error() == Some(Errno::NOBUFS.raw_os_error()) => {
                        self.retry = now + Duration::from_millis(1);
                        break 'bursts;
                    }
                    // Without GSO, they are sent one by one.
                    Err(_) if datagrams > 1 && self.state.max_gso_segments() == 1 => continue,
                    Err(error) => refused = Err(error),
                }
                outbox.datagrams -= datagrams;
                burst.start = end;
            }
            done += 1;
        }
        outbox.bursts.drain(..done);
        if outbox.bursts.is_empty() {
            outbox.clear();
        }
        refused
    }

    /// Sends datagrams of one size without ECN bits. Returns how many the socket took.
    fn send_many(&self, to: SocketAddr, bytes: &[u8], segment: usize) -> io::Result<usize> {
        let to = SocketAddrAny::from(to);
        let parts: Vec<[IoSlice<'_>; 1]> =
            bytes.chunks(segment).map(|datagram| [IoSlice::new(datagram)]).collect();
        let mut controls: Vec<_> = parts.iter().map(|_| SendAncillaryBuffer::default()).collect();
        let each = parts.iter().zip(&mut controls);
        let mut messages: Vec<_> =
            each.map(|(part, control)| MMsgHdr::new_with_addr(&to, part, control)).collect();
        Ok(sendmmsg(&self.socket, &mut messages, SendFlags::empty())?)
    }

    /// Reads the datagrams that have arrived; false if there were none.
    pub(super) fn receive(
        &self,
        inbox: &mut Inbox,
        mut each: impl FnMut(SocketAddr, Option<EcnCodepoint>, &[u8]),
    ) -> io::Result<bool> {
        let Inbox { bytes, metas } = inbox;
        let count = {
            let mut slices = bytes.chunks_exact_mut(Inbox::SLOT).map(IoSliceMut::new);
            let mut slices: [IoSliceMut<'_>; Inbox::SLOTS] =
                std::array::from_fn(|_| slices.next().unwrap_or_else(|| IoSliceMut::new(&mut [])));
            match self.state.recv((&self.socket).into(), &mut slices, metas) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
                Err(error) => return Err(error),
            }
        };
        for (slot, meta) in bytes.chunks_exact(Inbox::SLOT).zip(metas).take(count) {
            let stride = meta.stride.max(1);
            for datagram in slot[..meta.len.min(Inbox::SLOT)].chunks(stride) {
                each(meta.addr, meta.ecn, datagram);
            }
        }
        Ok(true)
    }
}

/// Buffers for the datagrams of one system call.
#[derive(Debug)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    metas: [RecvMeta; Inbox::SLOTS],
}

impl Inbox {
    /// Size of a buffer, bytes; with GRO it may hold many datagrams.
    const SLOT: usize = 1 << 16;
    /// Number of buffers per call.
    const SLOTS: usize = 8;

    pub(super) fn new() -> Self {
        Inbox {
            bytes: vec![0; Inbox::SLOT * Inbox::SLOTS],
            metas: [RecvMeta::default(); Inbox::SLOTS],
        }
    }
}

/// Waits until a socket can be read, a socket that waits for it can be written, or the time has
/// passed.
pub(super) fn wait<'a>(
    sockets: impl IntoIterator<Item = &'a Socket>,
    time: Duration,
) -> io::Result<()> {
    let events = |full| if full { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    let mut fds: Vec<PollFd<'_>> = sockets
        .into_iter()
        .map(|socket| PollFd::new(&socket.socket, events(socket.is_full)))
        .collect();
    let ns = time.as_nanos();
    let timeout = Timespec {
        tv_sec: (ns / 1_000_000_000).try_into().unwrap_or(1),
        tv_nsec: (ns % 1_000_000_000).try_into().unwrap_or(0),
    };
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Makes timers of this thread fire when they are due, not up to 50 microseconds later as by
/// default.
pub(super) fn be_punctual() {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Bits of the IP header for the flags of a packet.
pub(super) fn ecn_of(flags: Flags) -> Option<EcnCodepoint> {
    if flags.contains(Flags::L4S) {
        Some(EcnCodepoint::Ect1)
    } else if flags.contains(Flags::ECN_CAPABLE) {
        Some(EcnCodepoint::Ect0)
    } else {
        None
    }
}

/// Flags for the bits of the IP header.
pub(super) fn flags_of(ecn: Option<EcnCodepoint>) -> Flags {
    match ecn {
        None => Flags::NONE,
        Some(EcnCodepoint::Ect0) => Flags::ECN_CAPABLE,
        Some(EcnCodepoint::Ect1) => Flags::ECN_CAPABLE.with(Flags::L4S),
        Some(EcnCodepoint::Ce) => Flags::ECN_CAPABLE.with(Flags::CONGESTION_EXPERIENCED),
    }
}

/// The time from `now` to `then`, at most `most`.
pub(super) fn until(now: Time, then: Time, most: Duration) -> Duration {
    then.since(now).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    /// Sends datagrams that differ in size and ECN bits by one flush, and compares what arrives.
    fn send(from: SocketAddr, to: SocketAddr, is_mapped: bool) {
        let socket = |at| Socket::new(UdpSocket::bind(at).expect("a port")).expect("a socket");
        let (mut from, to) = (socket(from), socket(to));
        let mut address = to.local_addr().expect("an address");
        if is_mapped {
            address.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        let mut sent = Vec::new();
        let mut outbox = Outbox::default();
        // By GSO, by sendmmsg, one by one.
        for (length, ecn) in [
            (1200, None),
            (1200, Some(EcnCodepoint::Ect0)),
            (2000, None),
            (2000, Some(EcnCodepoint::Ect1)),
            (56, Some(EcnCodepoint::Ce)),
        ] {
            for number in 0..20 {
                outbox.push(address, ecn, length, |bytes| bytes.fill(number));
                sent.push((ecn, vec![number; length]));
            }
        }
        assert_eq!(outbox.len(), 100);
        from.flush(Time::ZERO, &mut outbox).expect("sent");
        assert!(outbox.is_empty());
        let (mut inbox, mut received) = (Inbox::new(), Vec::new());
        let mut each = |_, ecn, bytes: &[u8]| received.push((ecn, bytes.to_vec()));
        while to.receive(&mut inbox, &mut each).expect("datagrams") {}
        assert_eq!(received.len(), sent.len());
        for (number, (received, sent)) in received.iter().zip(&sent).enumerate() {
            let (length, first) = (received.1.len(), received.1[0]);
            assert!(received == sent, "datagram {number}: {:?}, {length}, {first}", received.0);
        }
    }

    #[test]
    fn datagrams_of_all_sizes_and_marks_arrive_whole_and_in_order() {
        let loopback: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
        send(loopback, loopback, false);
        // A host may be without IPv6.
        let (six, any) = ((Ipv6Addr::LOCALHOST, 0).into(), (Ipv6Addr::UNSPECIFIED, 0).into());
        if UdpSocket::bind::<SocketAddr>(six).is_ok() {
            send(six, six, false);
            send(loopback, any, true);
        }
    }
}
