//! Messages between a forwarder and a server, which docs/deploy/forward.md describes.
//!
//! The first bidirectional stream of the client is the control stream. Every other bidirectional
//! stream is one forwarded connection: a request, one byte of reply, then bytes in both directions.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use quinn::{ReadExactError, RecvStream, VarInt};

use super::target::{Host, Target};
use crate::error::Error;

/// Code of a stream that ended by a reset of TCP, or because a side failed.
pub(super) const ABORTED: VarInt = VarInt::from_u32(1);

/// Length of the token of a ticket.
pub(super) const TOKEN: usize = 16;

/// Content of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The bytes of a TCP connection.
    Tcp,
    /// Nothing. Datagrams of the connection that begin with its number belong to it.
    Udp,
}

/// A request of a client: the first bytes of a stream. The address has the form of SOCKS
/// (RFC 1928 section 5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) kind: Kind,
    pub(super) target: Target,
}

impl Request {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![match self.kind {
            Kind::Tcp => 1,
            Kind::Udp => 2,
        }];
        encode_address(&self.target, &mut bytes);
        bytes
    }

    /// Reads a request.
    ///
    /// # Errors
    ///
    /// If the stream or its connection ends before, or the bytes are not a request.
    pub(super) async fn read(stream: &mut RecvStream) -> Result<Self, Error> {
        let [kind, form, first] = take::<3>(stream).await?;
        let kind = match kind {
            1 => Kind::Tcp,
            2 => Kind::Udp,
            other => {
                return Err(Error::Peer(format!("the peer asks for the unknown kind {other}")));
            }
        };
        // The first byte is the first of an address, or the length of a name.
        let mut rest = vec![0; address_rest(form, first).ok_or_else(unknown_address)?];
        stream.read_exact(&mut rest).await.map_err(lost)?;
        let target = decode_address(form, first, &rest).ok_or_else(unknown_address)?;
        Ok(Request { kind, target })
    }
}

fn unknown_address() -> Error {
    Error::Peer("the peer names an invalid target".to_owned())
}

/// Appends form, address and port.
pub(super) fn encode_address(target: &Target, bytes: &mut Vec<u8>) {
    match &target.host {
        Host::Address(IpAddr::V4(address)) => {
            bytes.push(1);
            bytes.extend(address.octets());
        }
        Host::Name(name) => {
            bytes.push(3);
            // Names have at most 253 bytes.
            bytes.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
            bytes.extend(name.as_bytes());
        }
        Host::Address(IpAddr::V6(address)) => {
            bytes.push(4);
            bytes.extend(address.octets());
        }
    }
    bytes.extend(target.port.to_be_bytes());
}

/// Number of bytes of an address of this form after its first byte, with the port; none for an
/// unknown form.
pub(super) fn address_rest(form: u8, first: u8) -> Option<usize> {
    match form {
        1 => Some(3 + 2),
        3 if first > 0 => Some(usize::from(first) + 2),
        4 => Some(15 + 2),
        _ => None,
    }
}

/// The target of these bytes, whose number is that of [`address_rest`].
pub(super) fn decode_address(form: u8, first: u8, rest: &[u8]) -> Option<Target> {
    let (rest, port) = rest.split_last_chunk::<2>()?;
    let host = match form {
        1 => {
            let rest: [u8; 3] = rest.try_into().ok()?;
            Host::Address(Ipv4Addr::new(first, rest[0], rest[1], rest[2]).into())
        }
        3 => Host::new(std::str::from_utf8(rest).ok()?).ok()?,
        4 => {
            let mut bytes = [first; 16];
            bytes.get_mut(1..)?.copy_from_slice(rest.get(..15)?);
            Host::Address(IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical())
        }
        _ => return None,
    };
    Target::new(host, u16::from_be_bytes(*port)).ok()
}

/// A message of the control stream, after the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Record {
    /// The sender of this record takes bytes of that stream up to that offset.
    Credit { stream: u64, offset: u64 },
    /// The sender of this record takes no new streams.
    Drain,
}

impl Record {
    /// Length of every record.
    pub(super) const LENGTH: usize = 17;

    pub(super) fn encode(self) -> [u8; Self::LENGTH] {
        let (kind, stream, offset) = match self {
            Record::Credit { stream, offset } => (1, stream, offset),
            Record::Drain => (2, 0, 0),
        };
        let mut bytes = [kind; Self::LENGTH];
        bytes[1..9].copy_from_slice(&stream.to_be_bytes());
        bytes[9..].copy_from_slice(&offset.to_be_bytes());
        bytes
    }

    /// The record of these bytes; none if its kind is unknown, which the receiver skips.
    pub(super) fn decode(bytes: [u8; Self::LENGTH]) -> Option<Self> {
        let number = |range: std::ops::Range<usize>| {
            bytes.get(range).and_then(|part| part.try_into().ok()).map(u64::from_be_bytes)
        };
        match bytes[0] {
            1 => Some(Record::Credit { stream: number(1..9)?, offset: number(9..17)? }),
            2 => Some(Record::Drain),
            _ => None,
        }
    }
}

/// Reads a fixed number of bytes.
pub(super) async fn take<const N: usize>(stream: &mut RecvStream) -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await.map_err(lost)?;
    Ok(bytes)
}

fn lost(error: ReadExactError) -> Error {
    match error {
        ReadExactError::ReadError(quinn::ReadError::ConnectionLost(error)) => error.into(),
        other => Error::Unreachable(format!("the peer ended a stream early: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_the_form_of_socks() {
        let cases: [(&str, &[u8]); 3] = [
            ("192.0.2.1:443", &[1, 192, 0, 2, 1, 1, 187]),
            ("abc:22", &[3, 3, b'a', b'b', b'c', 0, 22]),
            (
                "[2001:db8::1]:80",
                &[4, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 80],
            ),
        ];
        for (text, expected) in cases {
            let target: Target = text.parse().expect(text);
            let mut bytes = Vec::new();
            encode_address(&target, &mut bytes);
            assert_eq!(bytes, expected, "{text}");
            let (form, first) = (bytes[0], bytes[1]);
            assert_eq!(address_rest(form, first), Some(bytes.len() - 2), "{text}");
            assert_eq!(decode_address(form, first, &bytes[2..]), Some(target), "{text}");
        }
        assert_eq!((address_rest(2, 1), address_rest(3, 0)), (None, None));
        assert_eq!(decode_address(1, 127, &[0, 0, 1, 0, 0]), None, "port 0");
        assert_eq!(decode_address(3, 1, &[0xff, 0, 22]), None, "not UTF-8");
        assert_eq!(decode_address(3, 1, b"\n\0\x16"), None, "not a name");
    }

    #[test]
    fn records_are_read_as_written() {
        for record in [Record::Credit { stream: 4, offset: u64::MAX }, Record::Drain] {
            assert_eq!(Record::decode(record.encode()), Some(record));
        }
        assert_eq!(Record::decode([9; Record::LENGTH]), None);
    }
}
