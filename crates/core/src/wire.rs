//! A packet as bytes: the payload of a datagram between real endpoints, and the fields that a
//! router between them may change.
//!
//! docs/wire.md has the format byte by byte. Numbers are big-endian, real ones IEEE 754 of 64 bits:
//! the bytes hold the values of the simulator bit for bit, so that a run over real sockets can be
//! replayed.
//!
//! ```text
//!  0  'W' 'D'            magic
//!  2  version << 4 | kind                     0 data, 1 acknowledgment
//!  3  tag                                     kind of the congestion header
//!  4  flags              2 bytes              Flags::bits without ECN's, which the IP header has
//!  6  SACK blocks        1 byte               0 to 3
//!  7  zero
//!  8  packet_seq         8 bytes
//! 16  seq                8 bytes
//! 24  timestamp          8 bytes              picoseconds of the sender's clock
//! 32  congestion header  0 to 32 bytes        by the tag
//!  .  acknowledgment: trigger_seq, 8 bytes, and 16 for each SACK block: start, end
//! ```
//!
//! All input is validated: a number out of its range, a tag of another kind of packet, or a block
//! that ends before it begins is an [`Error`]. Every other value is in the range that endpoints and
//! routers can use. Nothing here allocates.

use core::fmt;

use crate::packet::{
    CongestionHeader, Flags, MAX_SACK_BLOCKS, NO_SEQ, Packet, PacketKind, SackBlock,
};
use crate::units::Time;

/// The first bytes of each packet.
pub const MAGIC: [u8; 2] = *b"WD";
/// The version of this format.
pub const VERSION: u8 = 1;
/// Bytes before the congestion header.
pub const FIXED: usize = 32;
/// The longest congestion header, bytes.
pub const MAX_HEADER: usize = 32;
/// The longest packet without its payload, bytes: an acknowledgment with the longest congestion
/// header and three blocks.
pub const MAX: usize = FIXED + MAX_HEADER + 8 + 16 * MAX_SACK_BLOCKS;

/// The largest sequence number: endpoints may add a window to it.
pub const MAX_SEQ: u64 = 1 << 62;
/// The longest time in a header, seconds: three years.
const MAX_SECONDS: f64 = 1e8;
/// The greatest change of throughput, bytes per second, and the largest window, packets.
const MAX_CHANGE: f64 = 1e15;
const MAX_WINDOW: f64 = 1e12;

/// The reason why bytes are not a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The bytes end too early.
    Truncated,
    /// The magic bytes are missing.
    NotOurs,
    /// The version is unknown.
    Version(u8),
    /// The kind is unknown.
    Kind(u8),
    /// The congestion header is unknown, or not allowed on a packet of this kind.
    Tag(u8),
    /// A field is out of its range.
    Value(&'static str),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Truncated => f.write_str("the datagram ends within the packet"),
            Error::NotOurs => f.write_str("the datagram does not begin with WD"),
            Error::Version(version) => {
                write!(
                    f,
                    "the packet has version {version} of the format, this is version {VERSION}"
                )
            }
            Error::Kind(kind) => write!(f, "there is no kind {kind} of packets"),
            Error::Tag(tag) => {
                write!(f, "no congestion header of packets of this kind has tag {tag}")
            }
            Error::Value(field) => write!(f, "{field} has a value that it cannot have"),
        }
    }
}

impl core::error::Error for Error {}

/// Writes the packet without its payload and returns its length; `None` if `bytes` is too short, or
/// if it is a datagram, which has no header. [`MAX`] bytes are always enough.
pub fn encode(packet: &Packet, bytes: &mut [u8]) -> Option<usize> {
    let kind = match packet.kind {
        PacketKind::Data => 0,
        PacketKind::Ack => 1,
        PacketKind::Datagram => return None,
    };
    let mut to = Writer { bytes, at: 0 };
    let blocks = packet.sack_blocks();
    to.put(&MAGIC)?;
    to.put(&[VERSION << 4 | kind, tag(&packet.header)])?;
    to.put(&in_payload(packet.flags).bits().to_be_bytes())?;
    to.put(&[blocks.len() as u8, 0])?;
    to.put_u64(packet.packet_seq)?;
    to.put_u64(packet.seq)?;
    to.put_u64(packet.timestamp.as_ps())?;
    to.put_header(&packet.header)?;
    if packet.kind == PacketKind::Ack {
        to.put_u64(packet.trigger_seq)?;
        for block in blocks {
            to.put_u64(block.start)?;
            to.put_u64(block.end)?;
        }
    }
    Some(to.at)
}

/// Reads a packet, and the offset of its payload. The caller sets its size and the ECN flags of the
/// IP header.
///
/// # Errors
///
/// If the bytes are malformed: see [`Error`].
pub fn decode(bytes: &[u8]) -> Result<(Packet, usize), Error> {
    let (mut packet, mut from) = open(bytes)?;
    if packet.kind == PacketKind::Ack {
        packet.trigger_seq = from.seq("the number of the data that triggered it")?;
        for block in 0..usize::from(packet.sack_len) {
            let (start, end) = (from.seq("a SACK block")?, from.seq("a SACK block")?);
            if start >= end {
                return Err(Error::Value("a SACK block"));
            }
            packet.sack[block] = SackBlock { start, end };
        }
    }
    Ok((packet, from.at))
}

/// Reads the fields that a router needs: the kind, the flags, the sequence numbers and the
/// congestion header.
///
/// # Errors
///
/// As [`decode`].
pub fn peek(bytes: &[u8]) -> Result<Packet, Error> {
    Ok(open(bytes)?.0)
}

/// Writes the flags and the congestion header of `packet` over those in `bytes`, as a router does.
/// Nothing else changes, and the length does not.
///
/// # Errors
///
/// If the bytes are malformed, or have another congestion header.
pub fn rewrite(packet: &Packet, bytes: &mut [u8]) -> Result<(), Error> {
    let there = tag(&peek(bytes)?.header);
    if there != tag(&packet.header) {
        return Err(Error::Tag(there));
    }
    bytes[4..6].copy_from_slice(&in_payload(packet.flags).bits().to_be_bytes());
    let mut to = Writer { bytes, at: FIXED };
    to.put_header(&packet.header).ok_or(Error::Truncated)
}

/// The fields up to the congestion header, with it.
fn open(bytes: &[u8]) -> Result<(Packet, Reader<'_>), Error> {
    let mut from = Reader { bytes, at: 0 };
    if from.take::<2>()? != MAGIC {
        return Err(Error::NotOurs);
    }
    let [kind, tag] = from.take()?;
    if kind >> 4 != VERSION {
        return Err(Error::Version(kind >> 4));
    }
    let kind = match kind & 15 {
        0 => PacketKind::Data,
        1 => PacketKind::Ack,
        kind => return Err(Error::Kind(kind)),
    };
    let flags = Flags::from_bits(u16::from_be_bytes(from.take()?))
        .filter(|flags| in_payload(*flags) == *flags)
        .ok_or(Error::Value("the flags"))?;
    let [sack_len, zero] = from.take()?;
    let most = if kind == PacketKind::Ack { MAX_SACK_BLOCKS } else { 0 };
    if usize::from(sack_len) > most {
        return Err(Error::Value("the number of SACK blocks"));
    }
    if zero != 0 {
        return Err(Error::Value("the byte before the packet's number"));
    }
    let packet = Packet {
        kind,
        flags,
        sack_len,
        packet_seq: from.seq("the packet's number")?,
        seq: from.seq("the sequence number")?,
        timestamp: Time::from_ps(from.u64()?),
        header: from.header(tag, kind)?,
        ..Packet::default()
    };
    Ok((packet, from))
}

/// The flags in the payload; those of ECN are in the IP header, where routers set them.
fn in_payload(mut flags: Flags) -> Flags {
    flags.remove(Flags::ECN_CAPABLE.with(Flags::CONGESTION_EXPERIENCED).with(Flags::L4S));
    flags
}

/// The number of a congestion header.
fn tag(header: &CongestionHeader) -> u8 {
    match header {
        CongestionHeader::None => 0,
        CongestionHeader::Xcp { .. } => 1,
        CongestionHeader::XcpReverse { .. } => 2,
        CongestionHeader::Estcp { .. } => 3,
        CongestionHeader::EstcpBits { .. } => 4,
        CongestionHeader::Timestamps { .. } => 5,
        CongestionHeader::Survival { .. } => 6,
        CongestionHeader::Corrupted { .. } => 7,
        CongestionHeader::XcpWindow { .. } => 8,
    }
}

struct Writer<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.at + bytes.len();
        self.bytes.get_mut(self.at..end)?.copy_from_slice(bytes);
        self.at = end;
        Some(())
    }

    fn put_u64(&mut self, value: u64) -> Option<()> {
        self.put(&value.to_be_bytes())
    }

    fn put_f64(&mut self, value: f64) -> Option<()> {
        self.put_u64(value.to_bits())
    }

    fn put_header(&mut self, header: &CongestionHeader) -> Option<()> {
        match *header {
            CongestionHeader::None => Some(()),
            CongestionHeader::Xcp { rtt, inter_packet, delta, congestion_flag } => {
                self.put_f64(rtt)?;
                self.put_f64(inter_packet)?;
                self.put_f64(delta)?;
                self.put(&congestion_flag.to_be_bytes())
            }
            CongestionHeader::XcpReverse { feedback } => self.put_f64(feedback),
            CongestionHeader::Estcp { phase, g, age, filled } => {
                self.put_u64(phase)?;
                self.put_f64(g)?;
                self.put_f64(age)?;
                self.put(&filled.to_bits().to_be_bytes())
            }
            CongestionHeader::EstcpBits { bits } => self.put(&[bits]),
            CongestionHeader::Timestamps { received } => self.put_u64(received.as_ps()),
            CongestionHeader::Survival { probability } => self.put_f64(probability),
            CongestionHeader::Corrupted { recent } => {
                recent.into_iter().try_for_each(|seq| self.put_u64(seq))
            }
            CongestionHeader::XcpWindow { window, congestion_flag } => {
                self.put_f64(window)?;
                self.put(&congestion_flag.to_be_bytes())
            }
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let rest = self.bytes.get(self.at..).ok_or(Error::Truncated)?;
        let taken = rest.first_chunk().ok_or(Error::Truncated)?;
        self.at += N;
        Ok(*taken)
    }

    fn u64(&mut self) -> Result<u64, Error> {
        Ok(u64::from_be_bytes(self.take()?))
    }

    fn seq(&mut self, field: &'static str) -> Result<u64, Error> {
        let seq = self.u64()?;
        if seq > MAX_SEQ { Err(Error::Value(field)) } else { Ok(seq) }
    }

    /// A real number from `least` to `most`; NaN is in no range.
    fn real(&mut self, least: f64, most: f64, field: &'static str) -> Result<f64, Error> {
        let value = f64::from_bits(self.u64()?);
        if (least..=most).contains(&value) { Ok(value) } else { Err(Error::Value(field)) }
    }

    fn header(&mut self, tag: u8, kind: PacketKind) -> Result<CongestionHeader, Error> {
        let is_data = kind == PacketKind::Data;
        Ok(match tag {
            0 => CongestionHeader::None,
            1 if is_data => CongestionHeader::Xcp {
                rtt: self.real(0.0, MAX_SECONDS, "XCP's RTT")?,
                inter_packet: self.real(0.0, MAX_SECONDS, "XCP's X")?,
                // A sender that knows nothing of the path yet demands the largest value.
                delta: self.real(-MAX_CHANGE, f64::MAX, "XCP's Delta_Throughput")?,
                congestion_flag: u16::from_be_bytes(self.take()?),
            },
            2 if !is_data => CongestionHeader::XcpReverse {
                // The whole demand, if no router is on the path.
                feedback: self.real(-MAX_CHANGE, f64::MAX, "XCP's Reverse_Feedback")?,
            },
            3 => CongestionHeader::Estcp {
                phase: self.seq("ESTCP's phase")?,
                g: self.real(0.0, MAX_SECONDS, "ESTCP's g")?,
                // Infinite before a controller has written.
                age: self.real(0.0, f64::INFINITY, "ESTCP's age")?,
                filled: {
                    let filled = f32::from_be_bytes(self.take()?);
                    if !(0.0..=1.0).contains(&filled) {
                        return Err(Error::Value("ESTCP's length of the queue"));
                    }
                    filled
                },
            },
            4 => {
                let [bits] = self.take()?;
                if bits > 3 {
                    return Err(Error::Value("ESTCP's bits"));
                }
                CongestionHeader::EstcpBits { bits }
            }
            5 if !is_data => CongestionHeader::Timestamps { received: Time::from_ps(self.u64()?) },
            6 => CongestionHeader::Survival {
                probability: self.real(0.0, 1.0, "ETEN's probability")?,
            },
            7 if !is_data => {
                let mut recent = [NO_SEQ; 3];
                for seq in &mut recent {
                    *seq = self.u64()?;
                    if *seq > MAX_SEQ && *seq != NO_SEQ {
                        return Err(Error::Value("the number of corrupted data"));
                    }
                }
                CongestionHeader::Corrupted { recent }
            }
            8 if !is_data => CongestionHeader::XcpWindow {
                window: self.real(0.0, MAX_WINDOW, "XCP-r's window")?,
                congestion_flag: u16::from_be_bytes(self.take()?),
            },
            tag => return Err(Error::Tag(tag)),
        })
    }
}
