//! The datagrams of a session as bytes: docs/perf-protocol.md has them byte by byte.
//!
//! Data and acknowledgments begin with a packet of [`windward_core::wire`], so that routers find the congestion header where they
//! expect it; what belongs to the session follows. All other datagrams are of kinds that routers do not know, and let pass.

use std::fmt;

use windward_core::wire::{MAGIC, VERSION};

use super::keys::{COOKIE_LEN, MAC_LEN, NONCE_LEN};

/// Bytes of a hello and of an open: all that the server answers them with is shorter.
pub(super) const REQUEST_LEN: usize = 1200;
/// Bytes of the connection and of the datagram's number.
pub(super) const SESSION_LEN: usize = 16;
/// The longest name or composition of a protocol, bytes.
pub const MAX_PROTOCOL_LEN: usize = 512;
/// The longest reason of a refusal, bytes.
pub(super) const MAX_REASON_LEN: usize = 400;
/// The smallest and the largest datagram of data, bytes of UDP payload.
pub const DATAGRAM: std::ops::RangeInclusive<u16> = 128..=9000;
/// The longest test, seconds: a day.
pub const MAX_SECONDS: u32 = 86_400;

/// What a datagram is, by the low nibble of its third byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Data of a connection: a packet of the wire.
    Data = 0,
    /// An acknowledgment: a packet of the wire.
    Ack = 1,
    /// The client asks for a cookie.
    Hello = 2,
    /// The server gives it one, and remembers nothing.
    Challenge = 3,
    /// The client returns it, and says what it wants to measure.
    Open = 4,
    /// The server has made a connection.
    Accept = 5,
    /// The server has not, for this reason.
    Refuse = 6,
    /// The client has heard of its connection: data may flow.
    Start = 7,
    /// The client ends the test, with what it has counted.
    End = 8,
    /// What the server has counted.
    Result = 9,
}

impl Kind {
    /// The kind of a datagram of this version.
    pub(super) fn of(bytes: &[u8]) -> Option<Kind> {
        let [m0, m1, kind, ..] = *bytes else { return None };
        if [m0, m1] != MAGIC || kind >> 4 != VERSION {
            return None;
        }
        Some(match kind & 15 {
            0 => Kind::Data,
            1 => Kind::Ack,
            2 => Kind::Hello,
            3 => Kind::Challenge,
            4 => Kind::Open,
            5 => Kind::Accept,
            6 => Kind::Refuse,
            7 => Kind::Start,
            8 => Kind::End,
            9 => Kind::Result,
            _ => return None,
        })
    }

    /// The first four bytes of a datagram of this kind that is no packet.
    pub(super) fn prefix(self) -> [u8; 4] {
        [MAGIC[0], MAGIC[1], VERSION << 4 | self as u8, 0]
    }
}

/// Why the server made no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
    /// It serves as many connections as it may.
    Busy = 1,
    /// The keys differ, or one side has none.
    Key = 2,
    /// It does not know the protocol, or cannot run the test.
    Test = 3,
    /// The cookie is too old, or was never given.
    Cookie = 4,
}

impl Refusal {
    fn from_byte(byte: u8) -> Option<Self> {
        [Refusal::Busy, Refusal::Key, Refusal::Test, Refusal::Cookie]
            .into_iter()
            .find(|refusal| *refusal as u8 == byte)
    }
}

/// What one connection measures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    /// A row of the protocol table, or a composition as scenario files have it.
    pub protocol: String,
    /// The server sends and the client receives.
    pub reverse: bool,
    /// ECN is negotiated (RFC 3168) where the protocol reads marks.
    pub ecn: bool,
    /// Packets are paced also where the protocol sets no rate (RFC 9002 section 7.7).
    pub pacing: bool,
    /// UDP payload of a datagram of data, bytes, within [`DATAGRAM`].
    pub datagram: u16,
    /// How long, whole seconds, 1 to [`MAX_SECONDS`]; the server goes on a little longer.
    pub seconds: u32,
    /// How much, bytes of UDP payload; 0 is without limit.
    pub bytes: u64,
}

/// What either side has counted of a connection; what it does not do, or does not know, is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counts {
    /// Of the sender of data: data packets sent, retransmissions included.
    pub sent: u64,
    /// Data packets sent again.
    pub retransmissions: u64,
    /// Expiries of the recovery timer.
    pub timeouts: u64,
    /// RTT samples.
    pub rtt_samples: u64,
    /// Their sum, seconds.
    pub rtt_sum_s: f64,
    /// Integral of cwnd over time, packets times seconds, at most that of the receiver window.
    pub cwnd_seconds: f64,
    /// Data packets that a full socket gave back and that were sent later, counted each time.
    pub given_back: u64,
    /// Of the receiver of data: packets that arrived for the first time.
    pub unique: u64,
    /// Packets that had arrived before.
    pub duplicates: u64,
    /// Data packets that arrived with CE (RFC 3168).
    pub marked: u64,
    /// Datagrams of the connection that were no such or forged.
    pub invalid: u64,
    /// Datagrams that had been received before, or came too late to tell.
    pub replayed: u64,
    /// How long the connection has lasted, seconds.
    pub seconds: f64,
}

impl Counts {
    /// Bytes of the counts in a datagram.
    pub(super) const LEN: usize = 13 * 8;

    fn words(&self) -> [u64; 13] {
        [
            self.sent,
            self.retransmissions,
            self.timeouts,
            self.rtt_samples,
            self.rtt_sum_s.to_bits(),
            self.cwnd_seconds.to_bits(),
            self.given_back,
            self.unique,
            self.duplicates,
            self.marked,
            self.invalid,
            self.replayed,
            self.seconds.to_bits(),
        ]
    }

    /// The counts as bytes.
    pub(super) fn encode(&self, bytes: &mut Vec<u8>) {
        for word in self.words() {
            bytes.extend_from_slice(&word.to_be_bytes());
        }
    }

    /// Reads counts; real numbers must be finite and not negative.
    pub(super) fn decode(bytes: &[u8]) -> Option<Counts> {
        if bytes.len() != Counts::LEN {
            return None;
        }
        let mut words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_be_bytes(*word));
        let mut word = || words.next();
        let real = |word: u64| {
            Some(f64::from_bits(word)).filter(|value| value.is_finite() && *value >= 0.0)
        };
        Some(Counts {
            sent: word()?,
            retransmissions: word()?,
            timeouts: word()?,
            rtt_samples: word()?,
            rtt_sum_s: real(word()?)?,
            cwnd_seconds: real(word()?)?,
            given_back: word()?,
            unique: word()?,
            duplicates: word()?,
            marked: word()?,
            invalid: word()?,
            replayed: word()?,
            seconds: real(word()?)?,
        })
    }
}

/// A datagram that belongs to no connection yet.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Greeting {
    /// See [`Kind::Hello`].
    Hello {
        /// Chosen at random by the client for this connection.
        client: [u8; NONCE_LEN],
    },
    /// See [`Kind::Challenge`].
    Challenge {
        /// As in the hello: what does not echo it is not for this client.
        client: [u8; NONCE_LEN],
        /// What the client must show.
        cookie: [u8; COOKIE_LEN],
    },
    /// See [`Kind::Open`].
    Open {
        /// As in the hello.
        client: [u8; NONCE_LEN],
        /// As in the challenge.
        cookie: [u8; COOKIE_LEN],
        /// Does the client have a key?
        keyed: bool,
        /// What it wants.
        test: Test,
    },
    /// See [`Kind::Accept`].
    Accept {
        /// As in the hello.
        client: [u8; NONCE_LEN],
        /// Chosen at random by the server for this connection.
        server: [u8; NONCE_LEN],
        /// The number of the connection, at random.
        connection: u64,
    },
    /// See [`Kind::Refuse`].
    Refuse {
        /// As in the hello.
        client: [u8; NONCE_LEN],
        /// Why.
        refusal: Refusal,
        /// The same in words, UTF-8 without control characters.
        reason: String,
    },
}

/// Bytes that are no greeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotAGreeting;

impl fmt::Display for NotAGreeting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the datagram is none that begins a connection")
    }
}

impl std::error::Error for NotAGreeting {}

impl Greeting {
    fn kind(&self) -> Kind {
        match self {
            Greeting::Hello { .. } => Kind::Hello,
            Greeting::Challenge { .. } => Kind::Challenge,
            Greeting::Open { .. } => Kind::Open,
            Greeting::Accept { .. } => Kind::Accept,
            Greeting::Refuse { .. } => Kind::Refuse,
        }
    }

    /// The greeting as bytes, with room for a MAC at the end where there is one: open and accept.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(REQUEST_LEN);
        bytes.extend_from_slice(&self.kind().prefix());
        match self {
            Greeting::Hello { client } => {
                bytes.extend_from_slice(client);
                bytes.resize(REQUEST_LEN, 0);
            }
            Greeting::Challenge { client, cookie } => {
                bytes.extend_from_slice(client);
                bytes.extend_from_slice(cookie);
            }
            Greeting::Open { client, cookie, keyed, test } => {
                bytes.extend_from_slice(client);
                bytes.extend_from_slice(cookie);
                let flags = [(test.reverse, 1), (test.ecn, 2), (test.pacing, 4), (*keyed, 8)];
                let flags: u8 = flags.iter().map(|(set, bit)| u8::from(*set) * bit).sum();
                bytes.extend_from_slice(&[flags, 0]);
                bytes.extend_from_slice(&test.datagram.to_be_bytes());
                bytes.extend_from_slice(&test.seconds.to_be_bytes());
                bytes.extend_from_slice(&test.bytes.to_be_bytes());
                let name = &test.protocol.as_bytes()[..test.protocol.len().min(MAX_PROTOCOL_LEN)];
                bytes.extend_from_slice(&(name.len() as u16).to_be_bytes());
                bytes.extend_from_slice(name);
                bytes.resize(REQUEST_LEN, 0);
            }
            Greeting::Accept { client, server, connection } => {
                bytes.extend_from_slice(client);
                bytes.extend_from_slice(server);
                bytes.extend_from_slice(&connection.to_be_bytes());
                bytes.extend_from_slice(&[0; MAC_LEN]);
            }
            Greeting::Refuse { client, refusal, reason } => {
                bytes.extend_from_slice(client);
                bytes.push(*refusal as u8);
                let is_end = |end: &usize| reason.is_char_boundary(*end);
                let end = (0..=reason.len().min(MAX_REASON_LEN)).rfind(is_end).unwrap_or(0);
                bytes.extend_from_slice(&reason.as_bytes()[..end]);
            }
        }
        bytes
    }

    /// Reads a greeting. Its MAC, if it has one, is the last bytes and left to the caller.
    ///
    /// # Errors
    ///
    /// If the bytes are none, to the byte: each has one way to be written.
    pub(super) fn decode(bytes: &[u8]) -> Result<Greeting, NotAGreeting> {
        Greeting::read(bytes).ok_or(NotAGreeting)
    }

    fn read(bytes: &[u8]) -> Option<Greeting> {
        let kind = Kind::of(bytes)?;
        let (prefix, mut rest) = bytes.split_at_checked(4)?;
        if prefix[3] != 0 {
            return None;
        }
        let from = &mut rest;
        let client = take(from)?;
        let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        let greeting = match kind {
            Kind::Hello if bytes.len() == REQUEST_LEN && is_zero(from) => {
                return Some(Greeting::Hello { client });
            }
            Kind::Challenge => Greeting::Challenge { client, cookie: take(from)? },
            Kind::Open if bytes.len() == REQUEST_LEN => {
                let cookie = take(from)?;
                let [flags, 0] = take(from)? else { return None };
                let test = Test {
                    reverse: flags & 1 != 0,
                    ecn: flags & 2 != 0,
                    pacing: flags & 4 != 0,
                    datagram: u16::from_be_bytes(take(from)?),
                    seconds: u32::from_be_bytes(take(from)?),
                    bytes: u64::from_be_bytes(take(from)?),
                    protocol: {
                        let length = usize::from(u16::from_be_bytes(take(from)?));
                        if length > MAX_PROTOCOL_LEN {
                            return None;
                        }
                        let (name, after) = from.split_at_checked(length)?;
                        *from = after;
                        std::str::from_utf8(name).ok()?.to_owned()
                    },
                };
                let padding = from.len().checked_sub(MAC_LEN)?;
                let fits = DATAGRAM.contains(&test.datagram)
                    && (1..=MAX_SECONDS).contains(&test.seconds)
                    && flags < 16;
                if !fits || !is_zero(&from[..padding]) {
                    return None;
                }
                return Some(Greeting::Open { client, cookie, keyed: flags & 8 != 0, test });
            }
            Kind::Accept => {
                let (server, connection) = (take(from)?, u64::from_be_bytes(take(from)?));
                let _: [u8; MAC_LEN] = take(from)?;
                Greeting::Accept { client, server, connection }
            }
            Kind::Refuse => {
                let [refusal] = take(from)?;
                let reason = std::str::from_utf8(from).ok()?;
                if reason.len() > MAX_REASON_LEN || reason.chars().any(char::is_control) {
                    return None;
                }
                let refusal = Refusal::from_byte(refusal)?;
                return Some(Greeting::Refuse { client, refusal, reason: reason.to_owned() });
            }
            _ => return None,
        };
        from.is_empty().then_some(greeting)
    }
}

fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn test() -> Test {
        Test {
            protocol: "lr-lmxtcp".to_owned(),
            reverse: true,
            ecn: false,
            pacing: true,
            datagram: 1200,
            seconds: 10,
            bytes: 1 << 40,
        }
    }

    #[test]
    fn greetings_are_read_as_they_were_written() {
        let (client, server, cookie) = ([1; NONCE_LEN], [2; NONCE_LEN], [3; COOKIE_LEN]);
        let refusal = Refusal::Key;
        for greeting in [
            Greeting::Hello { client },
            Greeting::Challenge { client, cookie },
            Greeting::Open { client, cookie, keyed: true, test: test() },
            Greeting::Accept { client, server, connection: 7 },
            Greeting::Refuse { client, refusal, reason: "another key".to_owned() },
        ] {
            let bytes = greeting.encode();
            assert!(bytes.len() <= REQUEST_LEN);
            assert_eq!(Greeting::decode(&bytes), Ok(greeting));
            assert!((0..bytes.len()).all(|end| {
                // A reason may end anywhere, and is the only thing that may.
                let end = Greeting::decode(&bytes[..end]);
                end.is_err() || matches!(end, Ok(Greeting::Refuse { .. }))
            }));
        }
    }

    #[test]
    fn counts_are_read_as_they_were_written() {
        let counts = Counts { sent: 7, rtt_sum_s: 0.25, seconds: 1.5, ..Counts::default() };
        let mut bytes = Vec::new();
        counts.encode(&mut bytes);
        assert_eq!(bytes.len(), Counts::LEN);
        assert_eq!(Counts::decode(&bytes), Some(counts));
        Counts { seconds: f64::NAN, ..counts }.encode(&mut bytes);
        assert_eq!(Counts::decode(&bytes[Counts::LEN..]), None);
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_the_same(mut bytes in proptest::collection::vec(any::<u8>(), 0..1300), kind in 0u8..12, plain in any::<bool>()) {
            if plain && bytes.len() > 4 {
                let tail = bytes.len().min(80);
                bytes[..4].copy_from_slice(&[b'W', b'D', VERSION << 4 | kind, 0]);
                bytes[tail..].fill(0);
                if bytes.len() > 1000 { bytes.resize(REQUEST_LEN, 0); }
            }
            if let Ok(greeting) = Greeting::decode(&bytes) {
                let mut again = greeting.encode();
                // The MAC is the caller's.
                if matches!(greeting, Greeting::Open { .. } | Greeting::Accept { .. }) {
                    let at = again.len() - MAC_LEN;
                    again[at..].copy_from_slice(&bytes[at..]);
                }
                prop_assert_eq!(again, bytes);
            }
        }
    }
}
