//! Reports of the BPF program, as `bpf/windward.bpf.c` lays them out.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Kind of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A connection chose the controller.
    Open,
    /// Acknowledgments arrived.
    Ack,
    /// The retransmission timer expired.
    Timeout,
    /// The connection is closed, or has another controller.
    Close,
}

/// A report of the kernel about a connection. Counters begin with the connection and wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Number of the connection, from 1 since the load.
    pub connection: u64,
    /// Number of the report, from 1; missing ones were dropped.
    pub number: u64,
    /// Time of the kernel's TCP clock, microseconds.
    pub now_us: u64,
    /// When the newest acknowledged packet was sent, on the same clock.
    pub sent_us: u64,
    /// Index of the connection's answer.
    pub slot: u32,
    /// Kind.
    pub kind: Kind,
    /// Packets delivered.
    pub delivered: u32,
    /// Packets delivered with a congestion mark.
    pub delivered_ce: u32,
    /// Packets lost.
    pub lost: u32,
    /// Packets with data sent, retransmissions included.
    pub sent: u32,
    /// Packets in flight, as the kernel counts them (`tcp_packets_in_flight`).
    pub in_flight: u32,
    /// Smoothed RTT, microseconds; zero before the first sample.
    pub srtt_us: u32,
    /// The latest RTT since the report before, microseconds. `None` if the kernel has no valid one.
    pub rtt_us: Option<u32>,
    /// Payload of a full packet, bytes.
    pub mss: u32,
    /// Congestion window, packets.
    pub cwnd: u32,
    /// True if the application limits the sender.
    pub app_limited: bool,
    /// ACKs since the report before.
    pub acks: u32,
    /// Inode of the network namespace.
    pub namespace: u32,
    /// The other end.
    pub remote: SocketAddr,
    /// The port of this end.
    pub local_port: u16,
}

/// Size of a report, bytes.
const SIZE: usize = 124;

const APP_LIMITED: u32 = 1;
const AF_INET: u16 = 2;

impl Event {
    /// Reads a report. `None` if it is too short or of an unknown kind, as from another version.
    pub fn read(data: &[u8]) -> Option<Self> {
        let data: &[u8; SIZE] = data.get(..SIZE)?.try_into().ok()?;
        let word = |at: usize| {
            let bytes: [u8; 4] = data[at..at + 4].try_into().unwrap_or_default();
            u32::from_ne_bytes(bytes)
        };
        let long = |at: usize| {
            let bytes: [u8; 8] = data[at..at + 8].try_into().unwrap_or_default();
            u64::from_ne_bytes(bytes)
        };
        let short = |at: usize| u16::from_ne_bytes([data[at], data[at + 1]]);
        let kind = match word(36) {
            0 => Kind::Open,
            1 => Kind::Ack,
            2 => Kind::Timeout,
            3 => Kind::Close,
            _ => return None,
        };
        let [packets, sacked, lost, repeated] = [56, 60, 64, 68].map(word);
        let out = sacked.saturating_add(lost);
        let flags = word(88);
        let bytes: [u8; 16] = data[108..124].try_into().unwrap_or_default();
        let address = match short(100) {
            AF_INET => IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3])),
            _ => IpAddr::V6(Ipv6Addr::from(bytes)),
        };
        Some(Event {
            connection: long(0),
            number: long(8),
            now_us: long(16),
            sent_us: long(24),
            slot: word(32),
            kind,
            delivered: word(40),
            delivered_ce: word(44),
            lost: word(48),
            sent: word(52),
            in_flight: packets.saturating_sub(out).saturating_add(repeated),
            srtt_us: word(72),
            rtt_us: Some(word(76)).filter(|us| *us > 0),
            mss: word(80),
            cwnd: word(84),
            app_limited: flags & APP_LIMITED != 0,
            acks: word(92),
            namespace: word(96),
            remote: SocketAddr::new(address, short(102)),
            local_port: short(104),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_its_places() {
        let mut data = vec![0; 128];
        for (at, value) in [(0, 7_u64), (8, 3), (16, 5_000_000), (24, 4_920_000)] {
            data[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        }
        let words = [(32, 9), (36, 1), (40, 50), (48, 2), (52, 70), (56, 20), (60, 4), (64, 2)];
        let more = [(68, 1), (72, 80_000), (76, 79_000), (80, 1448), (84, 30), (88, 1), (92, 6)];
        for (at, value) in words.into_iter().chain(more).chain([(96, 4_026_531_840_u32)]) {
            data[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        for (at, value) in [(100, 2_u16), (102, 443), (104, 5000)] {
            data[at..at + 2].copy_from_slice(&value.to_ne_bytes());
        }
        data[108..112].copy_from_slice(&[192, 0, 2, 1]);
        let event = Event::read(&data).unwrap();
        assert_eq!((event.connection, event.number, event.slot), (7, 3, 9));
        // 20 - (4 + 2) + 1 packets.
        assert_eq!((event.in_flight, event.rtt_us, event.app_limited), (15, Some(79_000), true));
        assert_eq!(event.remote, "192.0.2.1:443".parse().unwrap());
        data[76..80].fill(0);
        assert_eq!(Event::read(&data).unwrap().rtt_us, None);
        data[36] = 9;
        assert_eq!(Event::read(&data), None);
        assert_eq!(Event::read(&data[..123]), None);
    }
}
