//! Cookies, and authentication by a pre-shared key.
//!
//! No part of a test is secret: its payload is zeros. Datagrams are authenticated but not
//! encrypted, so that routers can read their congestion headers. Fields that a router may change
//! are excluded (as the mutable fields of RFC 4302 section 3.3.3.1). That is AES-256-GCM (RFC 5116
//! section 5.2) without a plaintext; its limit, 2^52 forgeries under one key (RFC 9001 section
//! 6.6), is more than a connection of a day can receive.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use aes_gcm::Aes256Gcm;
use aes_gcm::aead::{AeadInOut, KeyInit, Nonce, Tag};
use hkdf::Hkdf;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use windward_core::units::{Duration, Time};

/// Bytes of a nonce of either side.
pub(super) const NONCE_LEN: usize = 16;
/// Bytes of a MAC, and of the tag of a datagram.
pub(super) const MAC_LEN: usize = 16;
/// Bytes of a cookie: when it was made, and a MAC.
pub(super) const COOKIE_LEN: usize = 8 + MAC_LEN;
/// Time for which a cookie is valid.
pub(super) const COOKIE_LIFE: Duration = Duration::from_secs(10);
/// The shortest pre-shared key, bytes.
pub const MIN_KEY_LEN: usize = 16;

/// The system gave no random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system has no random bytes")]
pub struct NoRandomness;

/// Returns unpredictable bytes.
pub(super) fn random<const N: usize>() -> Result<[u8; N], NoRandomness> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(bytes)
}

/// HMAC-SHA-256 (RFC 2104), of which the first [`MAC_LEN`] bytes are used.
type HmacSha256 = Hmac<Sha256>;

/// A MAC under this key, before the first input.
fn hmac(key: &[u8; 32]) -> HmacSha256 {
    // A key of 32 bytes is one block or less, and `new` takes a block.
    let mut block = [0; 64];
    block[..32].copy_from_slice(key);
    HmacSha256::new(&block.into())
}

fn finish(mac: HmacSha256) -> [u8; MAC_LEN] {
    let bytes = mac.finalize().into_bytes();
    std::array::from_fn(|at| bytes[at])
}

/// Maker and verifier of cookies, without state for each cookie.
pub(super) struct Cookies(HmacSha256);

impl fmt::Debug for Cookies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cookies")
    }
}

impl Cookies {
    /// Maker of cookies that cannot be forged.
    pub(super) fn new() -> Result<Self, NoRandomness> {
        Ok(Cookies(hmac(&random()?)))
    }

    /// Cookie that this address must return to open a connection.
    pub(super) fn make(
        &self,
        now: Time,
        from: SocketAddr,
        client: &[u8; NONCE_LEN],
    ) -> [u8; COOKIE_LEN] {
        let mut cookie = [0; COOKIE_LEN];
        let time = now.as_nanos().to_be_bytes();
        cookie[..8].copy_from_slice(&time);
        cookie[8..].copy_from_slice(&finish(self.mac(time, from, client)));
        cookie
    }

    /// True if it was made for this address and this nonce, and is still valid.
    pub(super) fn knows(
        &self,
        now: Time,
        from: SocketAddr,
        client: &[u8; NONCE_LEN],
        cookie: &[u8; COOKIE_LEN],
    ) -> bool {
        let (time, mac) = cookie.split_first_chunk::<8>().expect("a cookie is longer");
        let made = u64::from_be_bytes(*time);
        let is_fresh = made <= now.as_nanos() && now.as_nanos() - made <= COOKIE_LIFE.as_nanos();
        is_fresh && self.mac(*time, from, client).verify_truncated_left(mac).is_ok()
    }

    fn mac(&self, time: [u8; 8], from: SocketAddr, client: &[u8; NONCE_LEN]) -> HmacSha256 {
        let mut mac = self.0.clone();
        mac.update(&time);
        match from.ip() {
            IpAddr::V4(ip) => mac.update(&ip.to_ipv6_mapped().octets()),
            IpAddr::V6(ip) => mac.update(&ip.octets()),
        }
        mac.update(&from.port().to_be_bytes());
        mac.update(client);
        mac
    }
}

/// A pre-shared key.
pub struct Psk {
    /// Secret from which the keys of connections are derived.
    secret: Hkdf<Sha256>,
    /// Key of the greetings.
    greetings: HmacSha256,
}

impl fmt::Debug for Psk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Psk")
    }
}

fn derive(secret: &Hkdf<Sha256>, label: &[&[u8]]) -> [u8; 32] {
    let mut key = [0; 32];
    let filled = secret.expand_multi_info(label, &mut key);
    // HKDF with SHA-256 gives up to 255 times 32 bytes (RFC 5869 section 2.3).
    debug_assert!(filled.is_ok());
    key
}

impl Psk {
    /// A key from bytes that both sides have; `None` if they are fewer than [`MIN_KEY_LEN`]. They
    /// should be random, since an eavesdropper can test guesses on a greeting.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < MIN_KEY_LEN {
            return None;
        }
        let secret = Hkdf::new(Some(b"windward perf 1"), bytes);
        let greetings = hmac(&derive(&secret, &[b"greetings"]));
        Some(Psk { secret, greetings })
    }

    /// Writes the MAC of a greeting over its last bytes.
    pub(super) fn seal_greeting(&self, bytes: &mut [u8]) {
        if let Some((body, mac)) = bytes.split_last_chunk_mut::<MAC_LEN>() {
            *mac = finish(self.greetings.clone().chain_update(body));
        }
    }

    /// True if the sender of the greeting has the key.
    pub(super) fn knows_greeting(&self, bytes: &[u8]) -> bool {
        bytes.split_last_chunk::<MAC_LEN>().is_some_and(|(body, mac)| {
            self.greetings.clone().chain_update(body).verify_truncated_left(mac).is_ok()
        })
    }

    /// Keys of a connection: for data from the client, and from the server. They depend on both
    /// nonces, so that each connection has its own.
    fn connection(&self, client: &[u8; NONCE_LEN], server: &[u8; NONCE_LEN]) -> [Aes256Gcm; 2] {
        [b"to server" as &[u8], b"to client"]
            .map(|label| Aes256Gcm::new(&derive(&self.secret, &[label, client, server]).into()))
    }
}

/// Nonce of a datagram: its number, which is used once under a key.
fn nonce(number: u64) -> Nonce<Aes256Gcm> {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    nonce.into()
}

/// Keys that authenticate the datagrams of a connection.
pub(super) struct SessionKeys {
    own: Aes256Gcm,
    peer: Aes256Gcm,
}

impl fmt::Debug for SessionKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKeys")
    }
}

impl SessionKeys {
    /// Keys of the client or of the server for the connection with these nonces.
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

    /// Tag of a datagram to be sent. A number must be used only once.
    pub(super) fn tag(&self, number: u64, bytes: &[u8]) -> Option<[u8; MAC_LEN]> {
        let tag = self.own.encrypt_inout_detached(&nonce(number), bytes, (&mut [][..]).into());
        tag.ok().map(Into::into)
    }

    /// True if the peer sent these bytes under this number.
    pub(super) fn knows(&self, number: u64, bytes: &[u8], tag: &[u8; MAC_LEN]) -> bool {
        let (nothing, tag) = ((&mut [][..]).into(), Tag::<Aes256Gcm>::from(*tag));
        self.peer.decrypt_inout_detached(&nonce(number), bytes, nothing, &tag).is_ok()
    }
}

/// Numbers of the datagrams that have been received (RFC 4303 section 3.4.3): the last
/// [`ReplayWindow::WIDTH`], as bits.
#[derive(Debug, Clone)]
pub(super) struct ReplayWindow {
    /// One past the highest number received.
    next: u64,
    seen: [u64; ReplayWindow::WORDS],
}

impl ReplayWindow {
    const WORDS: usize = 128;
    /// Number of numbers below the highest that are distinguished; reordering beyond that is
    /// regarded as a replay.
    pub(super) const WIDTH: u64 = 64 * (ReplayWindow::WORDS as u64 - 1);

    /// An empty window.
    pub(super) fn new() -> Self {
        ReplayWindow { next: 0, seen: [0; ReplayWindow::WORDS] }
    }

    /// Notes the number of an authentic datagram; false if it was received before or is too old to
    /// tell.
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
            let (mut window, mut seen, mut highest) = (ReplayWindow::new(), BTreeSet::new(), 0u64);
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
