//! Cookies, and what a pre-shared key is for.
//!
//! Nothing of a test is secret: its payload is zeros. Datagrams are authenticated and not encrypted, so that routers can read
//! their congestion headers, and the fields that a router may change are left out (as of the mutable fields of RFC 4302 section
//! 3.3.3.1). ChaCha20-Poly1305 (RFC 8439) has no limit of confidentiality that a connection could reach (RFC 9001 section 6.6).

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{self, HKDF_SHA256, Salt};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use windward_core::units::{Duration, Time};

/// Bytes of a nonce of either side.
pub(super) const NONCE_LEN: usize = 16;
/// Bytes of a MAC, and of the tag of a datagram.
pub(super) const MAC_LEN: usize = 16;
/// Bytes of a cookie: when it was made, and a MAC.
pub(super) const COOKIE_LEN: usize = 8 + MAC_LEN;
/// How long a cookie is good for.
pub(super) const COOKIE_LIFE: Duration = Duration::from_secs(10);
/// The shortest pre-shared key, bytes.
pub const MIN_KEY_LEN: usize = 16;

/// The system gave no random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRandomness;

impl fmt::Display for NoRandomness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the system's random generator does not answer")
    }
}

impl std::error::Error for NoRandomness {}

/// Bytes that nobody can guess.
///
/// # Errors
///
/// If the system has none.
pub(super) fn random<const N: usize>() -> Result<[u8; N], NoRandomness> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(bytes)
}

/// Makes cookies and knows them again, with no memory of whom it gave one to.
#[derive(Debug)]
pub(super) struct Cookies(hmac::Key);

impl Cookies {
    /// Cookies that nobody else can make.
    ///
    /// # Errors
    ///
    /// If the system has no random bytes.
    pub(super) fn new() -> Result<Self, NoRandomness> {
        Ok(Cookies(hmac::Key::new(hmac::HMAC_SHA256, &random::<32>()?)))
    }

    /// What this address must show to have a connection.
    pub(super) fn make(
        &self,
        now: Time,
        from: SocketAddr,
        client: &[u8; NONCE_LEN],
    ) -> [u8; COOKIE_LEN] {
        let mut cookie = [0; COOKIE_LEN];
        let time = now.as_nanos().to_be_bytes();
        cookie[..8].copy_from_slice(&time);
        cookie[8..].copy_from_slice(&self.mac(time, from, client).as_ref()[..MAC_LEN]);
        cookie
    }

    /// Was it made for this address and this nonce, and not long ago?
    pub(super) fn knows(
        &self,
        now: Time,
        from: SocketAddr,
        client: &[u8; NONCE_LEN],
        cookie: &[u8; COOKIE_LEN],
    ) -> bool {
        let Some((time, mac)) = cookie.split_first_chunk::<8>() else { return false };
        let made = u64::from_be_bytes(*time);
        let is_fresh = made <= now.as_nanos() && now.as_nanos() - made <= COOKIE_LIFE.as_nanos();
        let ours = self.mac(*time, from, client);
        is_fresh && is_equal(&ours.as_ref()[..MAC_LEN], mac)
    }

    fn mac(&self, time: [u8; 8], from: SocketAddr, client: &[u8; NONCE_LEN]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(&time);
        match from.ip() {
            IpAddr::V4(ip) => context.update(&ip.to_ipv6_mapped().octets()),
            IpAddr::V6(ip) => context.update(&ip.octets()),
        }
        context.update(&from.port().to_be_bytes());
        context.update(client);
        context.sign()
    }
}

/// Are they equal? In a time that does not tell where they differ.
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

/// A pre-shared key.
pub struct Psk {
    /// From which those of connections are derived.
    secret: hkdf::Prk,
    /// Of the greetings.
    greetings: hmac::Key,
}

impl fmt::Debug for Psk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Psk")
    }
}

/// A length for ring.
struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn derive(secret: &hkdf::Prk, label: &[&[u8]]) -> [u8; 32] {
    let mut key = [0; 32];
    let filled = secret.expand(label, Length(32)).and_then(|derived| derived.fill(&mut key));
    // HKDF with SHA-256 gives up to 255 times 32 bytes (RFC 5869 section 2.3).
    debug_assert!(filled.is_ok());
    key
}

impl Psk {
    /// From bytes that both sides have; `None` if they are fewer than [`MIN_KEY_LEN`]. They should be random: who hears a greeting
    /// can try words.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < MIN_KEY_LEN {
            return None;
        }
        let secret = Salt::new(HKDF_SHA256, b"windward perf 1").extract(bytes);
        let greetings = hmac::Key::new(hmac::HMAC_SHA256, &derive(&secret, &[b"greetings"]));
        Some(Psk { secret, greetings })
    }

    /// Writes the MAC of a greeting over its last bytes.
    pub(super) fn seal_greeting(&self, bytes: &mut [u8]) {
        if let Some((body, mac)) = bytes.split_last_chunk_mut::<MAC_LEN>() {
            mac.copy_from_slice(&hmac::sign(&self.greetings, body).as_ref()[..MAC_LEN]);
        }
    }

    /// Does the greeting come from somebody who has the key?
    pub(super) fn knows_greeting(&self, bytes: &[u8]) -> bool {
        bytes.split_last_chunk::<MAC_LEN>().is_some_and(|(body, mac)| {
            is_equal(&hmac::sign(&self.greetings, body).as_ref()[..MAC_LEN], mac)
        })
    }

    /// The keys of a connection, of what the client sends and of what the server sends. Both nonces are in them, so that no two
    /// connections have the same.
    fn connection(&self, client: &[u8; NONCE_LEN], server: &[u8; NONCE_LEN]) -> [Tagger; 2] {
        [b"to server" as &[u8], b"to client"]
            .map(|label| Tagger::new(&derive(&self.secret, &[label, client, server])))
    }
}

/// Authenticates the datagrams of one direction of a connection.
struct Tagger(Option<LessSafeKey>);

impl Tagger {
    fn new(key: &[u8; 32]) -> Self {
        // The key has the length of the algorithm's; without one nothing would be accepted.
        Tagger(UnboundKey::new(&CHACHA20_POLY1305, key).ok().map(LessSafeKey::new))
    }

    fn tag(&self, number: u64, bytes: &[u8]) -> Option<[u8; MAC_LEN]> {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&number.to_be_bytes());
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self.0.as_ref()?.seal_in_place_separate_tag(nonce, Aad::from(bytes), &mut []);
        tag.ok()?.as_ref().try_into().ok()
    }
}

/// What authenticates the datagrams of a connection.
pub(super) struct SessionKeys {
    own: Tagger,
    peer: Tagger,
}

impl fmt::Debug for SessionKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKeys")
    }
}

impl SessionKeys {
    /// Those of the client, or of the server, of the connection with these nonces.
    pub(super) fn new(
        psk: &Psk,
        client: &[u8; NONCE_LEN],
        server: &[u8; NONCE_LEN],
        is_server: bool,
    ) -> Self {
        let [to_server, to_client] = psk.connection(client, server);
        if is_server {
            SessionKeys { own: to_client, peer: to_server }
        } else {
            SessionKeys { own: to_server, peer: to_client }
        }
    }

    /// The tag of a datagram that is sent. A number must be given once only.
    pub(super) fn tag(&self, number: u64, bytes: &[u8]) -> Option<[u8; MAC_LEN]> {
        self.own.tag(number, bytes)
    }

    /// Did the peer send these bytes under this number?
    pub(super) fn knows(&self, number: u64, bytes: &[u8], tag: &[u8; MAC_LEN]) -> bool {
        self.peer.tag(number, bytes).is_some_and(|ours| is_equal(&ours, tag))
    }
}

/// Which datagrams have been received (RFC 4303 section 3.4.3): the last [`ReplayWindow::WIDTH`] numbers, as bits.
#[derive(Debug, Clone)]
pub(super) struct ReplayWindow {
    /// One past the highest number received.
    next: u64,
    seen: [u64; ReplayWindow::WORDS],
}

impl Default for ReplayWindow {
    fn default() -> Self {
        ReplayWindow { next: 0, seen: [0; ReplayWindow::WORDS] }
    }
}

impl ReplayWindow {
    const WORDS: usize = 128;
    /// How many numbers below the highest are told apart: reordering beyond is taken for a replay.
    pub(super) const WIDTH: u64 = 64 * (ReplayWindow::WORDS as u64 - 1);

    /// Takes a number in; false if it was received before or is too old to tell. Only of datagrams that are authentic.
    pub(super) fn accept(&mut self, number: u64) -> bool {
        let (word, bit) = ((number / 64) as usize % ReplayWindow::WORDS, 1 << (number % 64));
        if number >= self.next {
            let before = self.next.checked_sub(1).map_or(0, |highest| highest / 64 + 1);
            let cleared = (number / 64 + 1).saturating_sub(before);
            for ahead in 0..cleared.min(ReplayWindow::WORDS as u64) {
                self.seen[((number / 64 - ahead) as usize) % ReplayWindow::WORDS] = 0;
            }
            self.next = number + 1;
        } else if self.next - number > ReplayWindow::WIDTH || self.seen[word] & bit != 0 {
            return false;
        }
        self.seen[word] |= bit;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn cookies_are_for_one_address_and_some_time() {
        let cookies = Cookies::new().expect("random bytes");
        let at = |s| Time::ZERO + Duration::from_secs(s);
        let (a, b) = ("192.0.2.1:9".parse().unwrap(), "192.0.2.1:10".parse().unwrap());
        let cookie = cookies.make(at(5), a, &[1; NONCE_LEN]);
        assert!(cookies.knows(at(5), a, &[1; NONCE_LEN], &cookie));
        assert!(cookies.knows(at(15), a, &[1; NONCE_LEN], &cookie));
        assert!(!cookies.knows(at(16), a, &[1; NONCE_LEN], &cookie), "too old");
        assert!(!cookies.knows(at(4), a, &[1; NONCE_LEN], &cookie), "of the future");
        assert!(!cookies.knows(at(5), b, &[1; NONCE_LEN], &cookie));
        assert!(!cookies.knows(at(5), a, &[2; NONCE_LEN], &cookie));
        for byte in 0..COOKIE_LEN {
            let mut forged = cookie;
            forged[byte] ^= 1;
            assert!(!cookies.knows(at(5), a, &[1; NONCE_LEN], &forged));
        }
    }

    #[test]
    fn a_tag_is_for_one_direction_number_and_connection() {
        let psk = Psk::new(b"0123456789abcdef").expect("long enough");
        assert!(Psk::new(b"0123456789abcde").is_none());
        let client = SessionKeys::new(&psk, &[1; 16], &[2; 16], false);
        let server = SessionKeys::new(&psk, &[1; 16], &[2; 16], true);
        let other = SessionKeys::new(&psk, &[1; 16], &[3; 16], true);
        let tag = client.tag(7, b"data").expect("a tag");
        assert!(server.knows(7, b"data", &tag));
        assert!(!server.knows(8, b"data", &tag));
        assert!(!server.knows(7, b"date", &tag));
        assert!(!client.knows(7, b"data", &tag), "of the other direction");
        assert!(!other.knows(7, b"data", &tag), "of another connection");
    }

    proptest! {
        #[test]
        fn each_number_is_accepted_once(steps in proptest::collection::vec((0u64..20_000, any::<bool>()), 1..300)) {
            let (mut window, mut seen, mut highest) = (ReplayWindow::default(), BTreeSet::new(), 0u64);
            for (step, back) in steps {
                let number = if back { highest.saturating_sub(step) } else { highest + step % 900 };
                let is_new = seen.insert(number);
                let told = highest < number + ReplayWindow::WIDTH;
                prop_assert_eq!(window.accept(number), is_new && told);
                highest = highest.max(number);
            }
        }
    }
}
