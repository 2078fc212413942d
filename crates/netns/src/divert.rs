//! Packets that this machine forwards, handed over to a program that decides when and how each
//! leaves.
//!
//! The kernel holds a packet once its outgoing device is known, after the rules of firewalls and
//! before source address translation, and passes it to this process (NFQUEUE,
//! linux/netfilter/nfnetlink_queue.h). A verdict lets it continue, optionally with other bytes, or
//! drops it. Routes, time to live, translation and firewalls work as usual.
//!
//! Nothing has to be cleaned up: the kernel removes the table of nftables with the socket that
//! created it, even when this process is killed, and then forwards as before. The packets that it
//! held at that moment are lost.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_sys::Socket;
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};

use crate::error::{Context, Error, Result};
use crate::nftables::{
    ACKNOWLEDGE, EQUAL, FORWARD, OUTPUT_NAME, REQUEST, add_table, attribute, await_answers, chain,
    empty_chains, expression, message, meta, name_is, netfilter, number, rule, text,
};

// Numbers of linux/netfilter.h, nf_tables.h, xt_NFQUEUE.h and nfnetlink_queue.h. No crate provides
// them without C code, under a licence like this project's, and without 64 kB per waiting packet.
const NFPROTO_INET: u8 = 1;
const LOCAL_OUT: u32 = 3;
/// After rules that filter, whose priority is 0.
const AFTER_FILTERS: u32 = 10;
const QUEUE: u16 = 3 << 8;
const PACKET: u16 = QUEUE;
const VERDICT: u16 = QUEUE | 1;
const CONFIG: u16 = QUEUE | 2;
/// Flag: packets pass if there is no listener.
const BYPASS: u16 = 1;
const BIND: u8 = 1;
const COPY_PACKETS: u8 = 2;
const DROP: u32 = 0;
const ACCEPT: u32 = 1;
const WHOLE: u32 = 0xffff;

/// First queue number to try, and the number of attempts.
const FIRST_QUEUE: u16 = 5700;
const QUEUES: u16 = 256;
/// Maximum number of packets that the kernel holds.
const MOST_HELD: u32 = 1 << 20;
/// Bytes of packets that wait to be read by this process.
const RECEIVE_BUFFER: usize = 64 << 20;
/// Verdicts are sent together up to this many bytes; the kernel accepts some 200 kB.
const SEND_AT: usize = 32 << 10;
/// Size of the buffer for one message: a packet of 64 kB and its attributes.
const ROOM: usize = (64 << 10) + 8192;

/// Diversion of the packets that leave a device, while this lives.
///
/// The kernel holds a packet without a time limit: each packet that is read must be
/// [passed](Diverted::pass) or [discarded](Diverted::discard).
#[derive(Debug)]
pub struct Diverted {
    queue: Socket,
    /// The rules exist while this is open.
    table: Socket,
    device: String,
    own: bool,
    number: u16,
    buffer: Vec<u8>,
    verdicts: Vec<u8>,
}

impl Diverted {
    /// Diverts packets that are forwarded to `device` in the namespace of the calling thread, and
    /// with `own` also those that this machine sends there itself.
    ///
    /// # Errors
    /// Without CAP_NET_ADMIN, if there is no such device, if its packets are diverted already, and
    /// if the kernel has no nftables or no NFQUEUE.
    pub fn begin(device: &str, own: bool) -> Result<Self> {
        crate::netlink::Netlink::new()?.index(device)?;
        let what = || format!("cannot divert packets that leave {device}");
        let refuse = |error: io::Error, is_permitted: bool| {
            let error = Error::new(what(), error);
            match error.kind() {
                // The kernel gives the same error for a table of another socket.
                io::ErrorKind::PermissionDenied | io::ErrorKind::AlreadyExists if is_permitted => {
                    let taken = io::Error::from(io::ErrorKind::AddrInUse);
                    Error::new(what(), taken).advise("another process diverts them already")
                }
                io::ErrorKind::PermissionDenied => {
                    error.advise("run as root, or with the capability CAP_NET_ADMIN")
                }
                _ => error.advise(
                    "load the modules nf_tables, nft_queue and nfnetlink_queue, on Linux 5.12 or newer",
                ),
            }
        };
        let (queue, number) = open_queue().map_err(|error| refuse(error, false))?;
        let native = |number: u16| {
            let attributes = [be16(1, number), be16(2, 1), be16(3, BYPASS)].concat();
            expression("queue", &attributes)
        };
        let table = match divert(device, own, &native(number)) {
            // A kernel without nft_queue may have the same of iptables, revision 3.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let info = [number, 1, BYPASS, 0].map(u16::to_ne_bytes).concat();
                let target = [text(1, "NFQUEUE"), self::number(2, 3), attribute(3, &info)].concat();
                divert(device, own, &expression("target", &target))
            }
            other => other,
        };
        let table = table.map_err(|error| refuse(error, true))?;
        let device = device.to_owned();
        Ok(Diverted {
            queue,
            table,
            device,
            own,
            number,
            buffer: vec![0; ROOM],
            verdicts: Vec::new(),
        })
    }

    /// Calls `each` with the packets that have arrived since the last call, at most `most` of them,
    /// and the kernel's number of each. Returns true if there may be more.
    pub fn read(&mut self, most: usize, mut each: impl FnMut(u32, &[u8])) -> io::Result<bool> {
        for _ in 0..most {
            let length = match recv(&self.queue, &mut self.buffer[..], RecvFlags::DONTWAIT) {
                Ok((length, _)) => length,
                Err(rustix::io::Errno::AGAIN) => return Ok(false),
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let mut rest = &self.buffer[..length];
            while let Some((kind, body)) = take_message(&mut rest) {
                // Errors of verdicts on packets that vanished with their device are ignored.
                if kind == PACKET
                    && let Some((id, packet)) = read_packet(body)
                {
                    each(id, packet);
                }
            }
        }
        Ok(true)
    }

    /// Lets a packet continue, with the bytes of `changed` if they differ from those read. The
    /// verdict is sent at the latest with [`Diverted::flush`].
    pub fn pass(&mut self, id: u32, changed: Option<&[u8]>) -> io::Result<()> {
        self.decide(id, ACCEPT, changed)
    }

    /// Drops a packet. The verdict is sent as with [`Diverted::pass`].
    pub fn discard(&mut self, id: u32) -> io::Result<()> {
        self.decide(id, DROP, None)
    }

    fn decide(&mut self, id: u32, verdict: u32, changed: Option<&[u8]>) -> io::Result<()> {
        let mut attributes = attribute(2, &[verdict.to_be_bytes(), id.to_be_bytes()].concat());
        if let Some(bytes) = changed {
            attributes.extend(attribute(10, bytes));
        }
        let verdict = message(VERDICT, REQUEST, 0, self.number, &attributes);
        if self.verdicts.len() + verdict.len() > SEND_AT {
            self.flush()?;
        }
        self.verdicts.extend(verdict);
        Ok(())
    }

    /// Sends all verdicts to the kernel.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.verdicts.is_empty() {
            return Ok(());
        }
        let sent = send(&self.queue, &self.verdicts, SendFlags::empty());
        self.verdicts.clear();
        sent.map(|_| ()).map_err(io::Error::from)
    }

    /// Ends the diversion of further packets. Packets already diverted are still to be read and
    /// decided.
    ///
    /// This must happen before this, or another `Diverted` in the same namespace, is dropped: when
    /// a chain is removed, the kernel drops all packets of the namespace that it holds for
    /// processes.
    pub fn end(&mut self) -> io::Result<()> {
        let table = table_of(&self.device);
        empty_chains(&mut self.table, NFPROTO_INET, &table, chains(self.own))
    }

    /// Packets that the kernel dropped because this process read too late.
    pub fn overflow(&self) -> Result<u64> {
        let queues = queues().context(|| format!("cannot read {QUEUES_PATH}"))?;
        let own = queues.iter().find(|fields| fields.first() == Some(&self.number.into()));
        // Number, process, waiting, mode, range, dropped for length, dropped for memory.
        let dropped = own.and_then(|fields| Some(fields.get(5)? + fields.get(6)?));
        Ok(dropped.unwrap_or(0))
    }
}

/// Queues in the namespace of the calling thread, which may differ from that of the process.
const QUEUES_PATH: &str = "/proc/thread-self/net/netfilter/nfnetlink_queue";

/// Fields of each queue with a listener.
fn queues() -> io::Result<Vec<Vec<u64>>> {
    let text = fs::read_to_string(QUEUES_PATH)?;
    let fields =
        |line: &str| line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    Ok(text.lines().map(fields).collect())
}

impl AsFd for Diverted {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}

fn be16(kind: u16, value: u16) -> Vec<u8> {
    attribute(kind, &value.to_be_bytes())
}

/// Opens a queue without another listener. Returns it with its number.
fn open_queue() -> io::Result<(Socket, u16)> {
    let mut socket = netfilter()?;
    let mut configure = |number: u16, attributes: &[u8]| {
        let message = message(CONFIG, REQUEST | ACKNOWLEDGE, 0, number, attributes);
        socket.send(&message, 0)?;
        await_answers(&mut socket, 1)
    };
    // The kernel gives the same error for a queue of another process and for missing rights:
    // permission denied. Therefore numbers in use are skipped, as far as this process can see them.
    let mut refused = io::Error::from(io::ErrorKind::ResourceBusy);
    let is_taken = |number: u16| {
        let queues = queues().ok()?;
        Some(queues.iter().any(|fields| fields.first() == Some(&number.into())))
    };
    let number = 'found: {
        for number in FIRST_QUEUE..FIRST_QUEUE + QUEUES {
            if is_taken(number) == Some(true) {
                continue;
            }
            match configure(number, &attribute(1, &[BIND, 0, 0, 0])) {
                Ok(()) => break 'found number,
                Err(error) if is_taken(number) == Some(false) => return Err(error),
                Err(error) => refused = error,
            }
        }
        return Err(refused);
    };
    let copy = [&WHOLE.to_be_bytes()[..], &[COPY_PACKETS]].concat();
    let parameters = [attribute(2, &copy), self::number(3, MOST_HELD)].concat();
    configure(number, &parameters)?;
    // More than ordinary programs may have; without that privilege, the limit applies.
    if sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER).is_err() {
        sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER)?;
    }
    // Packets dropped for lack of memory are counted; they must not make reads fail too.
    socket.set_no_enobufs(true)?;
    Ok((socket, number))
}

/// Chains of the hooks for forwarded packets and for those sent by this machine.
fn chains(own: bool) -> &'static [&'static str] {
    if own { &["forwarded", "own"] } else { &["forwarded"] }
}

fn table_of(device: &str) -> Vec<u8> {
    text(1, &format!("windward-router-{device}"))
}

/// Adds rules that hand over packets leaving through `device`.
fn divert(device: &str, own: bool, hand_over: &[u8]) -> io::Result<Socket> {
    let mut socket = netfilter()?;
    let table = table_of(device);
    let expressions = [&meta(OUTPUT_NAME), &name_is(EQUAL, device), hand_over].concat();
    let hooked = |(name, hook): (&&str, u32)| {
        let chain = chain(&table, name, hook, AFTER_FILTERS, "filter");
        let rule = rule(&table, name, &expressions);
        (chain, vec![rule])
    };
    let chains: Vec<_> = chains(own).iter().zip([FORWARD, LOCAL_OUT]).map(hooked).collect();
    add_table(&mut socket, NFPROTO_INET, &table, &chains)?;
    Ok(socket)
}

/// The next netlink message: its type, and its content after the headers.
fn take_message<'a>(rest: &mut &'a [u8]) -> Option<(u16, &'a [u8])> {
    let length = u32::from_ne_bytes(*rest.first_chunk()?) as usize;
    let kind = u16::from_ne_bytes(rest.get(4..6)?.try_into().ok()?);
    let body = rest.get(20..length)?;
    *rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, body))
}

/// The number and the bytes of a diverted packet.
fn read_packet(mut attributes: &[u8]) -> Option<(u32, &[u8])> {
    let (mut id, mut payload) = (None, &[][..]);
    while let Some(header) = attributes.first_chunk::<4>() {
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let value = attributes.get(4..length)?;
        // The upper bits are flags.
        match u16::from_ne_bytes([header[2], header[3]]) & 0x3fff {
            1 => id = value.first_chunk().map(|id| u32::from_be_bytes(*id)),
            10 => payload = value,
            _ => {}
        }
        attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some((id?, payload))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_packet_is_read_out_of_its_message() {
        let attributes = [
            attribute(1, &[0, 0, 0, 7, 8, 0, 2]),
            attribute(5, &[0, 0, 0, 3]),
            attribute(10, b"bytes"),
        ]
        .concat();
        let mut two = message(PACKET, 0, 2, 5700, &attributes);
        two.extend(message(2, 0, 0, 0, &[0; 16]));
        let mut rest = &two[..];
        let (kind, body) = take_message(&mut rest).unwrap();
        assert_eq!((kind, read_packet(body)), (PACKET, Some((7, &b"bytes"[..]))));
        assert_eq!(take_message(&mut rest).unwrap().0, 2);
        assert!(take_message(&mut rest).is_none());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let mut rest = &bytes[..];
            while let Some((_, body)) = take_message(&mut rest) {
                read_packet(body);
            }
            read_packet(&bytes);
        }
    }
}
