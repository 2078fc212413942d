//! The datagrams of a session as bytes: docs/perf-protocol.md has them byte by byte.
//!
//! Data and acknowledgments begin with a packet of [`windward_core::wire`], so that routers find
//! the congestion header where they expect it; what belongs to the session follows. Routers do not
//! know the kinds of all other datagrams, and let them pass.

use windward_core::units::Duration;
use windward_core::wire::{MAGIC, VERSION};

use super::keys::{COOKIE_LEN, MAC_LEN, NONCE_LEN};
use super::plan::{MAX_SECONDS, MAX_WORDS, Test};

/// Bytes of a hello and of an open; all answers of the server to them are shorter.
pub(super) const REQUEST_LEN: usize = 1200;
/// Bytes of the connection and of the datagram's number.
pub(super) const SESSION_LEN: usize = 16;
/// The longest reason of a refusal, bytes.
pub(super) const MAX_REASON_LEN: usize = 400;

/// Kind of a datagram: the low nibble of its third byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameKind {
    /// Data of a connection: a packet of the wire.
    Data = 0,
    /// An acknowledgment: a packet of the wire.
    Ack = 1,
    /// The client asks for a cookie.
    Hello = 2,
    /// The server sends a cookie, and keeps no state.
    Challenge = 3,
    /// The client returns the cookie, with its test.
    Open = 4,
    /// The server has created a connection.
    Accept = 5,
    /// The server has refused, with a reason.
    Refuse = 6,
    /// The client knows its connection: data may flow.
    Start = 7,
    /// The client ends the test, with its counts.
    End = 8,
    /// Counts of the server.
    Result = 9,
    /// State of the server's end.
    Report = 10,
}

impl FrameKind {
    /// The kind of a datagram of this version.
    pub(super) fn of(bytes: &[u8]) -> Option<FrameKind> {
        let [m0, m1, kind, ..] = *bytes else { return None };
        if [m0, m1] != MAGIC || kind >> 4 != VERSION {
            return None;
        }
        Some(match kind & 15 {
            0 => FrameKind::Data,
            1 => FrameKind::Ack,
            2 => FrameKind::Hello,
            3 => FrameKind::Challenge,
            4 => FrameKind::Open,
            5 => FrameKind::Accept,
            6 => FrameKind::Refuse,
            7 => FrameKind::Start,
            8 => FrameKind::End,
            9 => FrameKind::Result,
            10 => FrameKind::Report,
            _ => return None,
        })
    }

    /// First four bytes of a control datagram of this kind.
    pub(super) fn prefix(self) -> [u8; 4] {
        [MAGIC[0], MAGIC[1], VERSION << 4 | self as u8, 0]
    }
}

/// Reason for a refusal by the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
    /// The server has its largest number of connections.
    Busy = 1,
    /// The keys differ, or one side has no key.
    Key = 2,
    /// The server does not know the protocol, or cannot run the test.
    Test = 3,
    /// The cookie is too old or invalid.
    Cookie = 4,
}

impl Refusal {
    fn from_byte(byte: u8) -> Option<Self> {
        [Refusal::Busy, Refusal::Key, Refusal::Test, Refusal::Cookie]
            .into_iter()
            .find(|refusal| *refusal as u8 == byte)
    }
}

/// A struct of numbers, sent as words of eight bytes in the order of its fields. The function after
/// `=` reads a field.
macro_rules! words {
    (
        $(#[$attr:meta])*
        pub struct $name:ident { $($(#[$doc:meta])* $field:ident: $type:ty = $read:ident,)+ }
    ) => {
        $(#[$attr])*
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)+
        }

        impl $name {
            const WORDS: usize = [$(stringify!($field)),+].len();
            /// Its bytes in a datagram.
            pub(super) const LEN: usize = 8 * $name::WORDS;

            /// The numbers as bytes.
            pub(super) fn encode(&self) -> [u8; $name::LEN] {
                write_words::<{ $name::WORDS }, { $name::LEN }>([$(self.$field.to_word()),+])
            }

            /// Reads the numbers; `None` if one is out of range.
            pub(super) fn decode(bytes: &[u8]) -> Option<$name> {
                let [$($field),+] = read_words::<{ $name::WORDS }>(bytes)?;
                Some($name { $($field: $read($field)?),+ })
            }
        }
    };
}

words! {
    /// Counts of a connection at one end; 0 where they do not apply or are not known.
    #[derive(Debug, Clone, Copy, Default, PartialEq)]
    pub struct Counts {
        /// Data packets sent, retransmissions included (sender).
        sent: u64 = whole,
        /// Data packets sent again.
        retransmissions: u64 = whole,
        /// Expiries of the recovery timer.
        timeouts: u64 = whole,
        /// RTT samples.
        rtt_samples: u64 = whole,
        /// Their sum, seconds.
        rtt_sum_s: f64 = real,
        /// Integral of cwnd over time, packets times seconds, at most that of the receiver window.
        cwnd_seconds: f64 = real,
        /// Data packets that a full socket gave back and that were sent later, counted each time.
        given_back: u64 = whole,
        /// Share of the packets sent that was lost, as the sender estimates it.
        loss_estimate: f64 = real,
        /// Packets that arrived for the first time, within the length of the test from the first of
        /// them (receiver).
        unique: u64 = whole,
        /// Packets that arrived, including duplicates and later ones.
        arrived: u64 = whole,
        /// Packets that had arrived before.
        duplicates: u64 = whole,
        /// Data packets that arrived with CE (RFC 3168).
        marked: u64 = whole,
        /// Datagrams with the number of the connection that were malformed or forged.
        invalid: u64 = whole,
        /// Datagrams that had been received before, or were too old to tell.
        replayed: u64 = whole,
        /// Duration of the connection, seconds; at the receiver, since the first data and at most
        /// the length of the test.
        seconds: f64 = real,
    }
}

words! {
    /// State of a connection at an instant. Values of the sender are 0 at the receiver until the
    /// sender has reported them.
    #[derive(Debug, Clone, Copy, Default, PartialEq)]
    pub struct Sample {
        /// Packets delivered so far: at the sender, acknowledged in order; at the receiver, arrived
        /// for the first time.
        delivered: u64 = whole,
        /// Data packets sent so far, retransmissions included.
        sent: u64 = whole,
        /// Data packets sent again so far.
        retransmissions: u64 = whole,
        /// Packets sent and not yet acknowledged or deemed lost.
        in_flight: u64 = whole,
        /// The congestion window, at most the receiver window, packets.
        cwnd: f64 = real,
        /// Slow start threshold, packets; infinite while the controller has none.
        ssthresh: f64 = bound,
        /// Smoothed RTT, seconds; 0 before the first sample. Measured by the sender's clock, which
        /// may tick.
        srtt_s: f64 = real,
        /// RTT samples so far.
        rtt_samples: u64 = whole,
        /// Their sum, seconds, from exact times, not from ticks.
        rtt_sum_s: f64 = real,
    }
}

fn write_words<const N: usize, const LEN: usize>(words: [u64; N]) -> [u8; LEN] {
    debug_assert_eq!(8 * N, LEN);
    let mut bytes = [0; LEN];
    for (room, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *room = word.to_be_bytes();
    }
    bytes
}

fn read_words<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let (words, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return None;
    }
    let words: &[[u8; 8]; N] = words.try_into().ok()?;
    Some(words.map(u64::from_be_bytes))
}

/// A number as a word.
trait Word {
    fn to_word(self) -> u64;
}

impl Word for u64 {
    fn to_word(self) -> u64 {
        self
    }
}

impl Word for f64 {
    fn to_word(self) -> u64 {
        self.to_bits()
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the signature of all readers")]
fn whole(word: u64) -> Option<u64> {
    Some(word)
}

/// Reads a real number that is not negative; it may be infinite.
fn bound(word: u64) -> Option<f64> {
    Some(f64::from_bits(word)).filter(|value| *value >= 0.0)
}

/// Reads a real number that is finite and not negative.
fn real(word: u64) -> Option<f64> {
    Some(f64::from_bits(word)).filter(|value| value.is_finite() && *value >= 0.0)
}

/// A datagram that belongs to no connection yet.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Greeting {
    /// See [`FrameKind::Hello`].
    Hello {
        /// Chosen at random by the client for this connection.
        client: [u8; NONCE_LEN],
    },
    /// See [`FrameKind::Challenge`].
    Challenge {
        /// As in the hello; other datagrams are not for this client.
        client: [u8; NONCE_LEN],
        /// Cookie that the client must return.
        cookie: [u8; COOKIE_LEN],
    },
    /// See [`FrameKind::Open`].
    Open {
        /// As in the hello.
        client: [u8; NONCE_LEN],
        /// As in the challenge.
        cookie: [u8; COOKIE_LEN],
        /// True if the client has a key.
        keyed: bool,
        /// The requested test.
        test: Test,
    },
    /// See [`FrameKind::Accept`].
    Accept {
        /// As in the hello.
        client: [u8; NONCE_LEN],
        /// Chosen at random by the server for this connection.
        server: [u8; NONCE_LEN],
        /// The number of the connection, at random.
        connection: u64,
    },
    /// See [`FrameKind::Refuse`].
    Refuse {
        /// As in the hello.
        client: [u8; NONCE_LEN],
        /// Why.
        refusal: Refusal,
        /// The reason as text, UTF-8 without control characters.
        reason: String,
    },
}

impl Greeting {
    fn kind(&self) -> FrameKind {
        match self {
            Greeting::Hello { .. } => FrameKind::Hello,
            Greeting::Challenge { .. } => FrameKind::Challenge,
            Greeting::Open { .. } => FrameKind::Open,
            Greeting::Accept { .. } => FrameKind::Accept,
            Greeting::Refuse { .. } => FrameKind::Refuse,
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
                let words = test.words();
                let words = &words.as_bytes()[..words.len().min(MAX_WORDS)];
                let flags = u8::from(test.reverse) | u8::from(*keyed) << 3;
                bytes.extend_from_slice(&[flags, 0]);
                bytes.extend_from_slice(&(words.len() as u16).to_be_bytes());
                bytes.extend_from_slice(&test.seconds.to_be_bytes());
                bytes.extend_from_slice(&test.packets.to_be_bytes());
                let report = test.report.as_ps() / Duration::from_millis(1).as_ps();
                let report = u32::try_from(report).unwrap_or(u32::MAX);
                bytes.extend_from_slice(&report.to_be_bytes());
                bytes.extend_from_slice(words);
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

    /// Reads a greeting; `None` if the bytes are not exactly one, since each has one encoding. Its
    /// MAC, if it has one, is in the last bytes; the caller checks it.
    pub(super) fn decode(bytes: &[u8]) -> Option<Greeting> {
        let kind = FrameKind::of(bytes)?;
        let (prefix, mut rest) = bytes.split_at_checked(4)?;
        if prefix[3] != 0 {
            return None;
        }
        let from = &mut rest;
        let client = take(from)?;
        let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        let greeting = match kind {
            FrameKind::Hello if bytes.len() == REQUEST_LEN && is_zero(from) => {
                return Some(Greeting::Hello { client });
            }
            FrameKind::Challenge => Greeting::Challenge { client, cookie: take(from)? },
            FrameKind::Open if bytes.len() == REQUEST_LEN => {
                let cookie = take(from)?;
                let [flags, 0] = take(from)? else { return None };
                let length = usize::from(u16::from_be_bytes(take(from)?));
                let mut test = Test {
                    reverse: flags & 1 != 0,
                    seconds: u32::from_be_bytes(take(from)?),
                    packets: u64::from_be_bytes(take(from)?),
                    report: Duration::from_millis(u32::from_be_bytes(take(from)?).into()),
                    ..Test::of("")
                };
                if length > MAX_WORDS {
                    return None;
                }
                let (words, padding) = from.split_at_checked(length)?;
                test.read_words(std::str::from_utf8(words).ok()?)?;
                let padding = padding.get(..padding.len().checked_sub(MAC_LEN)?)?;
                let fits = (1..=MAX_SECONDS).contains(&test.seconds) && flags & !9 == 0;
                if !fits || !is_zero(padding) {
                    return None;
                }
                return Some(Greeting::Open { client, cookie, keyed: flags & 8 != 0, test });
            }
            FrameKind::Accept => {
                let (server, connection) = (take(from)?, u64::from_be_bytes(take(from)?));
                let _: [u8; MAC_LEN] = take(from)?;
                Greeting::Accept { client, server, connection }
            }
            FrameKind::Refuse => {
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
            parameters: vec![("packet_size".to_owned(), "1228".to_owned())],
            reverse: true,
            packets: 1 << 40,
            report: Duration::from_millis(100),
            ..Test::of("lr-lmxtcp")
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
            assert_eq!(Greeting::decode(&bytes), Some(greeting));
            assert!((0..bytes.len()).all(|end| {
                // Only a reason has a variable length.
                let end = Greeting::decode(&bytes[..end]);
                end.is_none() || matches!(end, Some(Greeting::Refuse { .. }))
            }));
        }
    }

    #[test]
    fn counts_are_read_as_they_were_written() {
        let counts = Counts { sent: 7, rtt_sum_s: 0.25, seconds: 1.5, ..Counts::default() };
        assert_eq!(Counts::decode(&counts.encode()), Some(counts));
        let nan = Counts { seconds: f64::NAN, ..counts };
        assert_eq!(Counts::decode(&nan.encode()), None);
        let sample = Sample { sent: 9, ssthresh: f64::INFINITY, cwnd: 2.5, ..Sample::default() };
        assert_eq!(Sample::decode(&sample.encode()), Some(sample));
        assert_eq!(Sample::decode(&counts.encode()), None);
        let nan = Sample { ssthresh: f64::NAN, ..sample };
        assert_eq!(Sample::decode(&nan.encode()), None);
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
            if let Some(greeting) = Greeting::decode(&bytes) {
                let mut again = greeting.encode();
                // The caller fills in the MAC.
                if matches!(greeting, Greeting::Open { .. } | Greeting::Accept { .. }) {
                    let at = again.len() - MAC_LEN;
                    again[at..].copy_from_slice(&bytes[at..]);
                }
                prop_assert_eq!(again, bytes);
            }
        }
    }
}
