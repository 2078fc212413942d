//! Records of the packets that came in from outside, and their replay.
//!
//! The engine is deterministic: the same packets at the same instants have the same effect. A
//! record therefore has the incoming packets, with port, end, size, codepoint and the time at which
//! the engine took them. It keeps the bytes that links look at: addresses, ports and the congestion
//! header of Windward's datagrams; and a requested number of first bytes, for other tools. Outgoing
//! packets follow from these.
//!
//! ```text
//! file    = "WDREC" version, then frames
//! frame   = length (4 bytes, little-endian), a record in postcard's format, its CRC-32
//! records = the header, packets in the order in which they were taken, the end
//! ```
//!
//! A file without its end was cut; one with a wrong checksum was altered. Both errors tell the
//! position.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use windward_core::units::{Duration, Time};
use windward_sim::Simulation;
use windward_sim::stack::{Codepoint, End};

use crate::headers;
use crate::port::{OutsidePacket, Port, wake};

const MAGIC: &[u8] = b"WDREC\x01";
/// Maximum length of a frame: a packet of 64 KiB, or a scenario of a megabyte.
const LONGEST: u32 = 1 << 20;

/// The run that a record is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Path of the scenario file; traces that it names are looked for in its folder.
    pub name: String,
    /// Text of the scenario file.
    pub scenario: String,
    /// Changes of it, keys and values in order.
    pub changes: Vec<(String, String)>,
    /// True if the run had no end, in place of the duration in the file.
    pub is_open: bool,
    /// Hash of the trace files.
    pub traces: u64,
    /// Number of first bytes that are kept of each packet, and more where links look at more.
    pub kept: u32,
}

/// One packet that came in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Taken {
    /// Picoseconds since the packet before.
    since: u64,
    /// True for the first of the packets that were taken together.
    is_first: bool,
    port: u32,
    end: u8,
    ecn: u8,
    size: u32,
    bytes: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum RecordedEvent {
    Header(Header),
    Taken(Taken),
    /// Number of packets, and length of the run in picoseconds.
    End {
        packets: u64,
        until: u64,
    },
}

const CRC: crc::Crc<u32> = crc::Crc::<u32>::new(&crc::CRC_32_ISCSI);

/// Reason why a record cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read the record: {0}")]
    Io(#[source] io::Error),
    /// It is not a record of this version.
    #[error("this is not a record, or one of another version")]
    NotOne,
    /// It was cut: its end is missing.
    #[error("the record was cut: it ends after {packets} packets, before its end was written")]
    Cut {
        /// Number of packets that are there.
        packets: u64,
    },
    /// It was altered after this many packets.
    #[error("the record was altered: the checksum after packet {packets} does not match")]
    Altered {
        /// Number of packets before.
        packets: u64,
    },
    /// Bytes follow the end of the record.
    #[error("the record ends at byte {offset}, but the file goes on")]
    Longer {
        /// Offset in the file at which they begin.
        offset: u64,
    },
}

/// Writes a record.
#[derive(Debug)]
pub struct Recorder<W> {
    out: W,
    kept: usize,
    last: Time,
    /// Packets that were read and not taken in yet.
    arrived: Vec<Taken>,
    packets: u64,
    failed: Option<io::Error>,
}

impl<W: Write> Recorder<W> {
    /// Begins a record.
    pub fn begin(mut out: W, header: Header) -> io::Result<Self> {
        let kept = header.kept as usize;
        out.write_all(MAGIC)?;
        write(&mut out, &RecordedEvent::Header(header))?;
        Ok(Recorder { out, kept, last: Time::ZERO, arrived: Vec::new(), packets: 0, failed: None })
    }

    /// Notes a packet that was read; [`Recorder::take_in`] has the instant at which the engine
    /// takes it.
    pub(crate) fn arrive(&mut self, port: usize, end: End, bytes: &[u8], ecn: Codepoint) {
        if self.failed.is_some() {
            return;
        }
        let looked_at = headers::look(bytes, 0).map_or(0, |view| view.looked_at);
        self.arrived.push(Taken {
            since: 0,
            is_first: self.arrived.is_empty(),
            port: port as u32,
            end: end as u8,
            ecn: number(ecn),
            size: bytes.len() as u32,
            bytes: bytes[..bytes.len().min(self.kept.max(looked_at))].to_vec(),
        });
    }

    /// Writes the packets that have arrived, which the engine takes all at once. If they cannot be
    /// written, the record ends and the emulation goes on; [`Recorder::finish`] returns the error.
    pub(crate) fn take_in(&mut self, now: Time) {
        for mut taken in self.arrived.drain(..) {
            taken.since = now.since(self.last).as_ps();
            self.last = now;
            match write(&mut self.out, &RecordedEvent::Taken(taken)) {
                Ok(()) => self.packets += 1,
                Err(error) => {
                    self.failed = Some(error);
                    return;
                }
            }
        }
    }

    /// Ends the record of a run that lasted until `until`. Returns the number of packets.
    ///
    /// # Errors
    /// If writing fails now or failed before. The file then reads as a record that was cut.
    pub fn finish(mut self, until: Time) -> io::Result<u64> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let end = RecordedEvent::End { packets: self.packets, until: until.as_ps() };
        write(&mut self.out, &end)?;
        self.out.flush()?;
        Ok(self.packets)
    }
}

fn write(out: &mut impl Write, record: &RecordedEvent) -> io::Result<()> {
    let bytes = postcard::to_stdvec_crc32(record, CRC.digest()).map_err(io::Error::other)?;
    out.write_all(&(bytes.len() as u32).to_le_bytes())?;
    out.write_all(&bytes)
}

/// Reads a record.
#[derive(Debug)]
pub struct Reader<R> {
    from: Counted<R>,
    header: Header,
    packets: u64,
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    pub fn open(from: R) -> Result<Self, Error> {
        let mut from = Counted { from, bytes: 0 };
        let mut magic = [0; MAGIC.len()];
        from.read_exact(&mut magic).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Error::NotOne,
            _ => Error::Io(error),
        })?;
        if magic != MAGIC {
            return Err(Error::NotOne);
        }
        match read(&mut from, 0)? {
            RecordedEvent::Header(header) => Ok(Reader { from, header, packets: 0 }),
            _ => Err(Error::Altered { packets: 0 }),
        }
    }

    /// Header of the record.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Replays the record in `simulation`, which is made from the scenario of the header, and calls
    /// `out` for each packet that goes out. Each of `ports` has the index of its flow. Returns the
    /// number of packets that came in.
    ///
    /// # Errors
    /// If the record was cut or altered; the simulation has taken the packets before that.
    pub fn replay(
        mut self,
        simulation: &mut Simulation,
        ports: &[(usize, Port)],
        mut out: impl FnMut(usize, &OutsidePacket),
    ) -> Result<u64, Error> {
        let mut drain = |ports: &[(usize, Port)]| {
            for (number, (_, port)) in ports.iter().enumerate() {
                while let Some(packet) = port.pop() {
                    out(number, &packet);
                    port.recycle(packet);
                }
            }
        };
        let mut woken = vec![[false; 2]; ports.len()];
        let inject = |simulation: &mut Simulation, woken: &mut [[bool; 2]]| {
            for ((flow, _), ends) in ports.iter().zip(woken) {
                wake(simulation, *flow, std::mem::take(ends));
            }
        };
        let mut now = Time::ZERO;
        loop {
            match read(&mut self.from, self.packets)? {
                RecordedEvent::Taken(taken) => {
                    let altered = Error::Altered { packets: self.packets };
                    let end = End::BOTH.get(usize::from(taken.end));
                    let port = ports.get(taken.port as usize);
                    let (Some(end), Some((_, port)), Some(ecn)) = (end, port, codepoint(taken.ecn))
                    else {
                        return Err(altered);
                    };
                    if taken.is_first {
                        inject(simulation, &mut woken);
                        drain(ports);
                        now += Duration::from_ps(taken.since);
                        simulation.advance(now);
                    }
                    let mut bytes = taken.bytes;
                    bytes.resize(taken.size.min(u32::from(u16::MAX)) as usize, 0);
                    port.push(*end, &bytes, ecn);
                    woken[taken.port as usize][usize::from(taken.end)] = true;
                    self.packets += 1;
                }
                RecordedEvent::End { packets, until } if packets == self.packets => {
                    inject(simulation, &mut woken);
                    simulation.advance(Time::from_ps(until));
                    drain(ports);
                    let offset = self.from.bytes;
                    return match self.from.read(&mut [0]).map_err(Error::Io)? {
                        0 => Ok(packets),
                        _ => Err(Error::Longer { offset }),
                    };
                }
                RecordedEvent::Header(_) | RecordedEvent::End { .. } => {
                    return Err(Error::Altered { packets: self.packets });
                }
            }
        }
    }
}

/// Reader that counts bytes.
#[derive(Debug)]
struct Counted<R> {
    from: R,
    bytes: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(into)?;
        self.bytes += count as u64;
        Ok(count)
    }
}

fn read(from: &mut impl Read, packets: u64) -> Result<RecordedEvent, Error> {
    let cut = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => Error::Cut { packets },
        _ => Error::Io(error),
    };
    let mut length = [0; 4];
    from.read_exact(&mut length).map_err(cut)?;
    let length = u32::from_le_bytes(length);
    if length > LONGEST {
        return Err(Error::Altered { packets });
    }
    let mut bytes = vec![0; length as usize];
    from.read_exact(&mut bytes).map_err(cut)?;
    postcard::from_bytes_crc32(&bytes, CRC.digest()).map_err(|_| Error::Altered { packets })
}

/// The bits of the IP header (RFC 3168 section 5).
fn number(ecn: Codepoint) -> u8 {
    match ecn {
        Codepoint::NotEct => 0,
        Codepoint::Ect1 => 1,
        Codepoint::Ect0 => 2,
        Codepoint::Ce => 3,
    }
}

fn codepoint(number: u8) -> Option<Codepoint> {
    [Codepoint::NotEct, Codepoint::Ect1, Codepoint::Ect0, Codepoint::Ce]
        .get(usize::from(number))
        .copied()
}
