//! TUN devices, which exchange packets between the kernel and this process.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use tun_rs::{DeviceBuilder, GROTable, SyncDevice, VIRTIO_NET_HDR_LEN};

use crate::error::{Context, Error, Result};

/// Prefix of the names of the devices.
pub(crate) const PREFIX: &str = "wind";

/// A TUN device, removed when this is dropped. Reads and writes never block; it may be polled.
///
/// Its packets are whole IP packets (see [`packet`](crate::packet)). With offload the kernel hands
/// over and takes up to 64 kB of TCP or UDP at once (IFF_VNET_HDR), which is split on reading and
/// merged on writing; the packets do not change, except for checksums of transport protocols, which
/// are computed here. Offload reduces the number of system calls, not the delay between two
/// programs of this machine: merged packets arrive together, and late.
pub struct Tun {
    device: SyncDevice,
    name: String,
    mtu: u16,
    offload: bool,
}

/// Largest number of packets per read: those of a GSO packet of 64 kB at an MTU of 168 or more.
const SEGMENTS: usize = 512;

impl Tun {
    /// Opens a device in the namespace of the calling thread, with a name chosen by the kernel.
    pub(crate) fn open(mtu: u16, offload: bool) -> Result<Self> {
        let what = || "cannot make a TUN device";
        let device = DeviceBuilder::new()
            .name(format!("{PREFIX}%d"))
            .with(|tun| {
                tun.offload(offload);
            })
            .enable(false)
            .build_sync()
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => {
                    Error::new(what(), error).advise("load the module: modprobe tun")
                }
                // The mode of the file decides, not a capability.
                io::ErrorKind::PermissionDenied if error.raw_os_error() == Some(13) => {
                    Error::new(what(), error).advise("allow it: chmod 666 /dev/net/tun")
                }
                _ => Error::new(what(), error),
            })?;
        device.set_nonblocking(true).context(what)?;
        let name = device.name().context(what)?;
        Ok(Tun { device, name, mtu, offload })
    }

    /// The name of the device.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads the packets that the kernel hands over at once, one or with offload several of a flow,
    /// and replaces the contents of `received`.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if no packet waits, and errors of the kernel (EBADFD after
    /// another process has deleted the device). [`io::ErrorKind::Other`] and
    /// [`io::ErrorKind::InvalidInput`] mean a GSO packet that could not be split, and was lost.
    pub fn recv_many(&self, received: &mut Received) -> io::Result<()> {
        let Received { whole, packets, lengths, count } = received;
        *count = 0;
        *count = self.device.recv_multiple(whole, packets, lengths, 0)?;
        Ok(())
    }

    /// Writes one packet, as [`Tun::send_many`].
    ///
    /// # Errors
    /// As there.
    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        let mut one = ToSend::default();
        one.push(packet);
        self.send_many(&mut one)
    }

    /// Writes all packets in order, and empties `packets`. With offload, packets of one TCP or UDP
    /// flow with the same traffic class are merged if possible. The kernel accepts or drops a
    /// packet and never waits.
    ///
    /// # Errors
    /// The last error of a packet: EINVAL for an unknown IP version, EIO while the device is off.
    /// The other packets were written nevertheless.
    pub fn send_many(&self, packets: &mut ToSend) -> io::Result<()> {
        let ToSend { table, packets, count } = packets;
        let sent = self.device.send_multiple(table, &mut packets[..*count], VIRTIO_NET_HDR_LEN);
        *count = 0;
        sent.map(|_| ())
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

impl std::fmt::Debug for Tun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tun { device: _, name, mtu, offload } = self;
        write!(f, "Tun {{ name: {name}, mtu: {mtu}, offload: {offload} }}")
    }
}

/// Reusable buffer for [`Tun::recv_many`].
#[derive(Debug)]
pub struct Received {
    whole: Vec<u8>,
    packets: Vec<Vec<u8>>,
    lengths: Vec<usize>,
    count: usize,
}

impl Received {
    /// A buffer for packets of this device.
    pub fn new(tun: &Tun) -> Self {
        let segments = if tun.offload { SEGMENTS } else { 1 };
        Received {
            whole: vec![0; VIRTIO_NET_HDR_LEN + 65535],
            packets: vec![vec![0; tun.mtu.into()]; segments],
            lengths: vec![0; segments],
            count: 0,
        }
    }

    /// The packets last read, in order.
    pub fn packets(&self) -> impl Iterator<Item = &[u8]> {
        self.packets[..self.count].iter().zip(&self.lengths).map(|(packet, &end)| &packet[..end])
    }
}

/// Reusable list of packets for [`Tun::send_many`].
#[derive(Default)]
pub struct ToSend {
    table: GROTable,
    /// Each packet, with space in front for its offload header.
    packets: Vec<Vec<u8>>,
    count: usize,
}

impl ToSend {
    /// Adds a packet.
    pub fn push(&mut self, packet: &[u8]) {
        if self.count == self.packets.len() {
            self.packets.push(Vec::new());
        }
        let place = &mut self.packets[self.count];
        place.clear();
        place.resize(VIRTIO_NET_HDR_LEN, 0);
        place.extend_from_slice(packet);
        self.count += 1;
    }

    /// Number of packets.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl std::fmt::Debug for ToSend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ToSend({} packets)", self.count)
    }
}
