//! Reader of QUIC packets for logs. Under the simulated keys they have a tag and no protection.

use windward_sim::stack::{FrameFacts, PacketFacts, PacketType};

/// Length of the tag behind a packet, bytes, as in AES-GCM.
const TAG: usize = 16;

/// Bytes that are left to read.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    /// A variable-length integer (RFC 9000 section 16).
    fn varint(&mut self) -> Option<u64> {
        let first = self.byte()?;
        let rest = self.take((1 << (first >> 6)) - 1)?;
        Some(number(u64::from(first & 0x3f), rest))
    }

    /// Skips that many variable-length integers.
    fn pass(&mut self, integers: usize) -> Option<()> {
        (0..integers).try_for_each(|_| self.varint().map(drop))
    }

    /// Skips a length and as many bytes.
    fn pass_bytes(&mut self) -> Option<()> {
        let length = self.varint()?;
        self.take(usize::try_from(length).ok()?).map(drop)
    }
}

/// An integer in network byte order behind its first part.
fn number(first: u64, rest: &[u8]) -> u64 {
    rest.iter().fold(first, |value, byte| value << 8 | u64::from(*byte))
}

/// The packets in a datagram whose sender has connection IDs of `cid` bytes at its peer. `largest`
/// holds the largest number in each space that this sender has used, and is kept up to date.
pub(crate) fn packets(
    datagram: &[u8],
    cid: usize,
    largest: &mut [Option<u64>; 3],
) -> Vec<PacketFacts> {
    let mut bytes = Bytes(datagram);
    std::iter::from_fn(|| packet(&mut bytes, cid, largest)).collect()
}

fn packet(
    bytes: &mut Bytes<'_>,
    cid: usize,
    largest: &mut [Option<u64>; 3],
) -> Option<PacketFacts> {
    const LONG: u8 = 0x80;
    let whole = bytes.0.len();
    let first = bytes.byte()?;
    // The next bit, fixed in RFC 9000, is drawn by those that grease it (RFC 9287), as quinn does.
    let kind = if first & LONG == 0 {
        bytes.take(cid)?;
        PacketType::OneRtt
    } else {
        let version = bytes.take(4)?;
        for _ in 0..2 {
            let length = bytes.byte()?;
            bytes.take(length.into())?;
        }
        match first >> 4 & 3 {
            _ if version == [0; 4] => return None,
            0 => {
                bytes.pass_bytes()?;
                PacketType::Initial
            }
            1 => PacketType::ZeroRtt,
            2 => PacketType::Handshake,
            _ => return None,
        }
    };
    let length = match kind {
        PacketType::OneRtt => bytes.0.len(),
        _ => usize::try_from(bytes.varint()?).ok()?,
    };
    let mut body = Bytes(bytes.take(length)?);
    let number_bytes = body.take(usize::from(first & 3) + 1)?;
    let payload = body.0.len().checked_sub(TAG)?;
    let largest = &mut largest[kind.space()];
    let full = expanded(number(0, number_bytes), 8 * number_bytes.len() as u32, *largest);
    *largest = (*largest).max(Some(full));
    let length = (whole - bytes.0.len()) as u32;
    Some(PacketFacts { kind, number: full, length, frames: frames(Bytes(&body.0[..payload])) })
}

/// A packet number in full from its low bits (RFC 9000 appendix A.3), which is always possible for
/// its own sender, from the numbers that it used before.
fn expanded(low: u64, bits: u32, largest: Option<u64>) -> u64 {
    let expected = largest.map_or(0, |largest| largest + 1);
    let window = 1u64 << bits;
    let candidate = expected & !(window - 1) | low;
    if candidate + window / 2 <= expected {
        candidate + window
    } else if candidate > expected + window / 2 && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

fn frames(mut bytes: Bytes<'_>) -> Vec<FrameFacts> {
    let mut frames = Vec::new();
    while let Some(frame) = frame(&mut bytes) {
        // Padding is a frame of a byte; a run of them is one here.
        let padding = FrameFacts::Other("padding");
        if frame != padding || frames.last() != Some(&padding) {
            frames.push(frame);
        }
    }
    frames
}

/// The next frame (RFC 9000 section 19, RFC 9221, draft-ietf-quic-ack-frequency).
fn frame(bytes: &mut Bytes<'_>) -> Option<FrameFacts> {
    let kind = bytes.varint()?;
    let name = match kind {
        0x00 => "padding",
        0x01 => "ping",
        0x02 | 0x03 => return ack(bytes, kind == 0x03),
        0x04 => bytes.pass(3).map(|()| "reset_stream")?,
        0x05 => bytes.pass(2).map(|()| "stop_sending")?,
        0x06 => {
            let offset = bytes.varint()?;
            let length = bytes.varint()?;
            bytes.take(usize::try_from(length).ok()?)?;
            return Some(FrameFacts::Crypto { offset, length });
        }
        0x07 => bytes.pass_bytes().map(|()| "new_token")?,
        0x08..=0x0f => {
            let id = bytes.varint()?;
            let offset = if kind & 4 == 0 { 0 } else { bytes.varint()? };
            let length = if kind & 2 == 0 { bytes.0.len() as u64 } else { bytes.varint()? };
            bytes.take(usize::try_from(length).ok()?)?;
            return Some(FrameFacts::Stream { id, offset, length });
        }
        0x10 => bytes.pass(1).map(|()| "max_data")?,
        0x11 => bytes.pass(2).map(|()| "max_stream_data")?,
        0x12 | 0x13 => bytes.pass(1).map(|()| "max_streams")?,
        0x14 => bytes.pass(1).map(|()| "data_blocked")?,
        0x15 => bytes.pass(2).map(|()| "stream_data_blocked")?,
        0x16 | 0x17 => bytes.pass(1).map(|()| "streams_blocked")?,
        0x18 => {
            bytes.pass(2)?;
            let length = bytes.byte()?;
            // The token of its stateless reset follows the connection ID.
            bytes.take(usize::from(length) + 16)?;
            "new_connection_id"
        }
        0x19 => bytes.pass(1).map(|()| "retire_connection_id")?,
        0x1a => bytes.take(8).map(|_| "path_challenge")?,
        0x1b => bytes.take(8).map(|_| "path_response")?,
        0x1c | 0x1d => {
            bytes.pass(if kind == 0x1c { 2 } else { 1 })?;
            bytes.pass_bytes()?;
            "connection_close"
        }
        0x1e => "handshake_done",
        0x1f => "immediate_ack",
        0x30 => {
            bytes.take(bytes.0.len())?;
            "datagram"
        }
        0x31 => bytes.pass_bytes().map(|()| "datagram")?,
        0xaf => bytes.pass(4).map(|()| "ack_frequency")?,
        _ => return None,
    };
    Some(FrameFacts::Other(name))
}

fn ack(bytes: &mut Bytes<'_>, has_ecn: bool) -> Option<FrameFacts> {
    let mut last = bytes.varint()?;
    bytes.pass(1)?;
    let further = bytes.varint()?;
    let mut first = last.checked_sub(bytes.varint()?)?;
    let mut ranges = vec![(first, last)];
    for _ in 0..further {
        last = first.checked_sub(bytes.varint()?)?.checked_sub(2)?;
        first = last.checked_sub(bytes.varint()?)?;
        ranges.push((first, last));
    }
    let ecn = match has_ecn {
        true => Some([bytes.varint()?, bytes.varint()?, bytes.varint()?]),
        false => None,
    };
    Some(FrameFacts::Ack { ranges, ecn })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_packet_is_read_with_its_number_in_full() {
        // RFC 9000 appendix A.3: after 0xa82f30ea, 0x9b32 in two bytes is 0xa82f9b32.
        assert_eq!(expanded(0x9b32, 16, Some(0xa82f_30ea)), 0xa82f_9b32);
        // A short header with two bytes of number and 8 of connection ID, then an acknowledgment of
        // 20..=24 and 10..=12 (gap 20 - 12 - 2 = 6), a ping, and 3 bytes of stream 4 at 64.
        let mut datagram = vec![0x41, 1, 2, 3, 4, 5, 6, 7, 8, 0x9b, 0x32];
        datagram.extend([0x02, 24, 0, 1, 4, 6, 2, 0x01, 0x0e, 4, 0x40, 0x40, 3, 9, 9, 9]);
        datagram.extend([0; TAG]);
        let mut largest = [None, None, Some(0xa82f_30ea)];
        let read = packets(&datagram, 8, &mut largest);
        let frames = vec![
            FrameFacts::Ack { ranges: vec![(20, 24), (10, 12)], ecn: None },
            FrameFacts::Other("ping"),
            FrameFacts::Stream { id: 4, offset: 64, length: 3 },
        ];
        let length = datagram.len() as u32;
        let number = 0xa82f_9b32;
        assert_eq!(read, [PacketFacts { kind: PacketType::OneRtt, number, length, frames }]);
        assert_eq!(largest[2], Some(number));
        // A truncated packet is not counted.
        assert!(packets(&datagram[..20], 8, &mut largest).is_empty());
    }
}
