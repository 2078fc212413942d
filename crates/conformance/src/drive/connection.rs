//! An open connection: the sender, and what the host adds to it.

use std::ops::Range;

use windward_core::endpoint::recovery::{RepairState, Scoreboard};
use windward_core::packet::{Flags, MAX_SACK_BLOCKS, Packet, PacketKind};

use super::stream::Stream;
use super::*;
use crate::host::Sysctls;
use crate::parser::Ecn;

/// Headers of IPv4 and TCP, and the timestamp option with its padding.
const HEADERS: u64 = 40;
const TIMESTAMP: u64 = 12;

/// Result of the handshake.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Agreed {
    pub(super) mss: u64,
    peer_shift: u64,
    scales: bool,
    pub(super) sack: bool,
    timestamps: bool,
    pub(super) ecn: bool,
    /// The next byte expected of the peer.
    pub(super) expects: u64,
    window: u64,
}

impl Agreed {
    /// The wishes of the host.
    pub(super) fn offer(host: &Host) -> Self {
        let Sysctls { sack, timestamps, scaling: scales, .. } = host.sysctls;
        Agreed { sack, timestamps, scales, ..Agreed::default() }
    }

    /// The answer of the host to the peer's SYN.
    pub(super) fn new(host: &Host, syn: &Segment, options: &[TcpOption], ecn: bool) -> Self {
        let mss = options.iter().find_map(|option| match option {
            TcpOption::Mss(mss) => Some(*mss),
            _ => None,
        });
        let shift = options.iter().find_map(|option| match option {
            TcpOption::Scale(shift) => Some(*shift),
            _ => None,
        });
        let shift = shift.filter(|_| host.sysctls.scaling);
        let timestamps = options.iter().any(|option| matches!(option, TcpOption::Timestamp(..)));
        let timestamps = timestamps && host.sysctls.timestamps;
        let overhead = if timestamps { TIMESTAMP } else { 0 };
        // RFC 9293 section 3.7.1: 536 without the option.
        let size = mss.unwrap_or(536).min(advertised(host));
        Agreed {
            mss: size.saturating_sub(overhead).max(1),
            peer_shift: shift.unwrap_or(0),
            scales: shift.is_some(),
            sack: options.contains(&TcpOption::SackOk) && host.sysctls.sack,
            timestamps,
            ecn,
            expects: syn.end + 1,
            window: syn.window.unwrap_or(65_535),
        }
    }

    /// The options of a SYN. Of the window's shift, which is the receiver's, only its presence
    /// counts.
    pub(super) fn options(&self, host: &Host) -> Vec<TcpOption> {
        let all = [
            (true, TcpOption::Mss(advertised(host))),
            (self.sack, TcpOption::SackOk),
            (self.timestamps, TcpOption::Timestamp(0, 0)),
            (self.scales, TcpOption::Scale(0)),
        ];
        all.into_iter().filter(|(is_there, _)| *is_there).map(|(_, option)| option).collect()
    }
}

/// The segment size that the host announces.
fn advertised(host: &Host) -> u64 {
    let size = host.device.mtu - HEADERS;
    match host.socket.max_segment {
        0 => size,
        most => size.min(most),
    }
}

/// The probe of a closed window.
#[derive(Debug, Clone, Copy)]
struct Persist {
    due: Time,
    interval: Duration,
}

/// State of the end of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Open,
    /// Closed, with data before the FIN.
    Closing,
    FinSent,
}

pub(super) struct Connection {
    sender: Sender,
    agreed: Agreed,
    stream: Stream,
    ending: Ending,
    /// The next byte expected of the peer, its SYN and FIN included.
    expects: u64,
    /// True if data of the peer has arrived.
    pub(super) received: bool,
    window: u64,
    persist: Option<Persist>,
}

impl Connection {
    pub(super) fn new(sender: Sender, agreed: Agreed) -> Self {
        let Agreed { expects, window, .. } = agreed;
        let mut connection = Connection {
            sender,
            agreed,
            stream: Stream::default(),
            ending: Ending::Open,
            expects,
            received: false,
            window,
            persist: None,
        };
        connection.set_window(window);
        connection
    }

    /// The segment size.
    pub(super) fn mss(&self) -> u64 {
        self.agreed.mss
    }

    pub(super) fn scoreboard(&self) -> Option<Scoreboard> {
        self.sender.scoreboard()
    }

    pub(super) fn write(&mut self, bytes: u64) {
        self.stream.written += bytes;
    }

    /// Bytes that the application has written.
    pub(super) fn written(&self) -> u64 {
        self.stream.written
    }

    /// Ends the writing.
    pub(super) fn close(&mut self) {
        if self.ending == Ending::Open {
            self.ending = Ending::Closing;
        }
    }

    pub(super) fn is_closing(&self) -> bool {
        self.ending != Ending::Open
    }

    fn fin(&self) -> u64 {
        u64::from(self.ending == Ending::FinSent)
    }

    /// The earliest timer.
    pub(super) fn due(&self) -> Time {
        let sender = self.sender.next_timer();
        self.persist.map_or(sender, |persist| sender.min(persist.due))
    }

    /// Lets the timers expire that are due.
    pub(super) fn expire(&mut self, now: Time, wire: &mut Wire) {
        if let Some(Persist { due, interval }) = self.persist
            && due <= now
        {
            let interval = interval.saturating_mul(2).min(Duration::from_secs(120));
            self.persist = Some(Persist { due: now + interval, interval });
            // One byte below the window.
            let at = self.stream.acked;
            self.leave(now, TcpFlags::ACK, at..at, None, wire);
        }
        if self.sender.next_timer() <= now {
            self.sender.on_timer(now);
        }
    }

    /// A packet leaves.
    pub(super) fn leave(
        &self,
        now: Time,
        flags: TcpFlags,
        bytes: Range<u64>,
        ecn: Option<Ecn>,
        wire: &mut Wire,
    ) {
        let options = match self.agreed.timestamps {
            true => vec![TcpOption::Nop, TcpOption::Nop, TcpOption::Timestamp(0, 0)],
            false => Vec::new(),
        };
        wire.leave(now, flags, bytes, Some(self.expects), ecn, options);
    }

    /// Lets the sender send what it may.
    pub(super) fn send(&mut self, now: Time, host: &Host, wire: &mut Wire) {
        let sent = self.sender.sequences().high;
        self.stream.cut(self.agreed.mss, sent, host.socket.no_delay || self.is_closing());
        self.sender.offer_until(self.stream.len());
        if !host.device.open {
            return;
        }
        let mut packet = Packet::default();
        while self.sender.poll_transmit(now, &mut packet) {
            self.transmit(now, &packet, wire);
        }
        let sequences = self.sender.sequences();
        let all_sent = sequences.high == self.stream.len();
        self.persist = match self.persist {
            _ if self.window >= self.agreed.mss || all_sent => None,
            _ if sequences.outstanding() > 0 => None,
            None => {
                let rtt = self.sender.rtt();
                let interval = rtt.base_rto().max(rtt.srtt() + host.rto_floor);
                Some(Persist { due: now + interval, interval })
            }
            running => running,
        };
        if self.ending == Ending::Closing && all_sent {
            self.ending = Ending::FinSent;
            let at = 1 + self.stream.written;
            self.leave(now, TcpFlags::ACK.with(TcpFlags::FIN), at..at, None, wire);
        }
    }

    fn transmit(&mut self, now: Time, packet: &Packet, wire: &mut Wire) {
        let at = packet.seq;
        self.stream.sent(at, now, packet.packet_seq);
        let mut flags = TcpFlags::ACK;
        if packet.flags.contains(Flags::WINDOW_REDUCED) {
            flags = flags.with(TcpFlags::CWR);
        }
        if self.ending == Ending::Closing && at + 1 == self.stream.len() {
            flags = flags.with(TcpFlags::FIN);
            self.ending = Ending::FinSent;
        }
        let ecn = match packet.flags.contains(Flags::ECN_CAPABLE) {
            true => Ecn::Ect0,
            false => Ecn::NotEct,
        };
        let bytes = 1 + self.stream.end_of(at)..1 + self.stream.end_of(at + 1);
        self.leave(now, flags, bytes, Some(ecn), wire);
    }

    fn set_window(&mut self, window: u64) {
        self.window = window;
        self.sender.set_rwnd(window / self.agreed.mss);
    }

    /// Takes a segment of the peer.
    pub(super) fn acknowledge(
        &mut self,
        now: Time,
        segment: &Segment,
        options: &[TcpOption],
        wire: &mut Wire,
    ) -> Result<(), (Subject, String)> {
        let window = segment.window.unwrap_or(65_535) << self.agreed.peer_shift;
        let changes = window != self.window;
        self.set_window(window);
        if segment.length() > 0 {
            if segment.start > self.expects {
                let what = "received data that is out of order: only the sender is run";
                return Err((Subject::Sockets, what.to_owned()));
            }
            self.received = true;
            self.expects = self.expects.max(segment.end);
        }
        if let Some(ack) = segment.ack {
            let more = changes || segment.length() > 0;
            self.take_ack(now, ack, segment.flags, options, more, wire)?;
        }
        if segment.flags.has(TcpFlags::FIN) {
            self.expects += 1;
            let at = 1 + self.sent() + self.fin();
            self.leave(now, TcpFlags::ACK, at..at, None, wire);
        }
        Ok(())
    }

    /// Bytes sent.
    fn sent(&self) -> u64 {
        self.stream.end_of(self.sender.sequences().high)
    }

    /// Hands an acknowledgment to the sender. `more` is true if its segment has data or changes the
    /// window.
    fn take_ack(
        &mut self,
        now: Time,
        ack: u64,
        flags: TcpFlags,
        options: &[TcpOption],
        more: bool,
        wire: &Wire,
    ) -> Result<(), (Subject, String)> {
        let sent = self.sent();
        let bytes = ack.saturating_sub(1);
        if ack == 0 || bytes > sent + self.fin() {
            let what = format!("an ACK of {ack}, when {sent} bytes were sent");
            return Err((Subject::Sockets, what));
        }
        let sacks = options.iter().filter_map(|option| match option {
            TcpOption::Sack(blocks) => Some(blocks),
            _ => None,
        });
        let sacks: Vec<(u64, u64)> = sacks.flatten().copied().collect();
        let echo = options.iter().find_map(|option| match option {
            TcpOption::Timestamp(_, echo) => wire.time_of(*echo),
            _ => None,
        });
        let before = self.sender.sequences().una;
        let una = self.stream.below(bytes);
        self.stream.acked = self.stream.acked.max(bytes.min(sent));
        let blocks = self.stream.blocks(&sacks);
        if blocks.len() > MAX_SACK_BLOCKS {
            let what = format!("more than {MAX_SACK_BLOCKS} SACK blocks in an ACK");
            return Err((Subject::Unmodelled, what));
        }
        let tells = !sacks.is_empty() || flags.has(TcpFlags::ECE);
        if una <= before && more && !tells {
            return Ok(()); // A change of the window, or data.
        }
        let reported = self.stream.arrive(before, una, &blocks);
        let timed = reported.timed(echo);
        let mut packet = Packet {
            kind: PacketKind::Ack,
            sack_len: blocks.len() as u8,
            seq: una,
            trigger_seq: una,
            packet_seq: reported.number(),
            timestamp: timed.unwrap_or(now),
            ..Packet::default()
        };
        if flags.has(TcpFlags::ECE) {
            packet.flags.insert(Flags::ECN_ECHO);
        }
        for (slot, block) in packet.sack.iter_mut().zip(blocks) {
            *slot = block;
        }
        match timed {
            Some(_) => self.sender.on_ack(now, &packet),
            None => self.sender.on_ambiguous_ack(now, &packet),
        }
        Ok(())
    }

    /// The value of a `tcpi_` name.
    pub(super) fn value(&self, name: &str, board: Option<Scoreboard>, host: &Host) -> Option<f64> {
        let Connection { sender, agreed, stream, .. } = self;
        let us = |time: Duration| (time.as_ps() / 1_000_000) as f64;
        Some(match name {
            "tcpi_snd_cwnd" => match board {
                Some(board) => board.window as f64,
                None => sender.cwnd().trunc(),
            },
            "tcpi_snd_ssthresh" => match sender.ssthresh() {
                ssthresh if ssthresh < f64::from(i32::MAX) => ssthresh.trunc(),
                _ => f64::from(i32::MAX),
            },
            "tcpi_ca_state" => f64::from(match board?.state {
                RepairState::Open => 0,
                RepairState::Disorder => 1,
                RepairState::Reduced => 2,
                RepairState::Recovery => 3,
                RepairState::Loss => 4,
            }),
            "tcpi_unacked" => (sender.sequences().outstanding() + self.fin()) as f64,
            "tcpi_sacked" => board?.arrived as f64,
            "tcpi_lost" => board?.lost as f64,
            "tcpi_retrans" => board?.resent as f64,
            "tcpi_reordering" => board?.reordering as f64,
            "tcpi_reord_seen" => board?.reorderings as f64,
            "tcpi_total_retrans" => stream.transmissions().1 as f64,
            "tcpi_rtt" => us(sender.rtt().srtt()),
            "tcpi_min_rtt" => us(sender.rtt().min_rtt()),
            "tcpi_snd_mss" => agreed.mss as f64,
            "tcpi_advmss" => advertised(host) as f64,
            "tcpi_state" => f64::from(match self.ending {
                Ending::Open | Ending::Closing => 1,
                Ending::FinSent if self.expects > 1 && !self.received => 5,
                Ending::FinSent => 4,
            }),
            "tcpi_options" => {
                let bits = [agreed.timestamps, agreed.sack, agreed.scales, agreed.ecn];
                let set = bits.iter().enumerate().filter(|(_, set)| **set);
                f64::from(set.fold(0_u32, |all, (bit, _)| all | 1 << bit))
            }
            "tcpi_snd_wscale" => agreed.peer_shift as f64,
            "tcpi_bytes_acked" => stream.acked as f64,
            "tcpi_notsent_bytes" => (stream.written - self.sent()) as f64,
            "tcpi_data_segs_out" => stream.transmissions().0 as f64,
            _ => return None,
        })
    }
}

/// Values that do not depend on the sender.
pub(super) fn constant(name: &str) -> Option<f64> {
    Some(f64::from(match name {
        "TCP_CA_Open" => 0,
        "TCP_CA_Disorder" => 1,
        "TCP_CA_CWR" => 2,
        "TCP_CA_Recovery" => 3,
        "TCP_CA_Loss" => 4,
        "TCP_ESTABLISHED" | "TCPI_OPT_TIMESTAMPS" => 1,
        "TCPI_OPT_SACK" => 2,
        "TCP_FIN_WAIT1" | "TCPI_OPT_WSCALE" => 4,
        "TCP_FIN_WAIT2" => 5,
        "TCPI_OPT_ECN" => 8,
        _ => return None,
    }))
}
