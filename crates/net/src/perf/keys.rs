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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRandomness;

impl fmt::Display for NoRandomness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the system has no random bytes")
    }
}

impl std::error::Error for NoRandomness {}

/// Returns unpredictable bytes.
///
/// # Errors
///
/// If the system has no random bytes.
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
    ///
    /// # Errors
    ///
    /// If the system has no random bytes.
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
        let Some((time, mac)) = cookie.split_first_chunk::<8>() else { return false };
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
///
/// Numbers that are not authenticated may be wrong, and a high one would make all later ones too
/// old. So a number that jumps further than [`ReplayWindow::JUMP`] is accepted only after one
/// shortly before it (RFC 3550 appendix A.1): a long loss costs two more datagrams, and one wrong
/// number costs nothing. Authenticated numbers are always right.
#[derive(Debug, Clone)]
pub(super) struct ReplayWindow {
    /// One past the highest number received.
    next: u64,
    seen: [u64; ReplayWindow::WORDS],
    is_authentic: bool,
    /// The number that jumped last.
    jumped: Option<u64>,
}

impl ReplayWindow {
    const WORDS: usize = 128;
    /// Number of numbers below the highest that are distinguished; reordering beyond that is
    /// regarded as a replay.
    pub(super) const WIDTH: u64 = 64 * (ReplayWindow::WORDS as u64 - 1);

    /// Distance above the highest number within which a number is accepted at once. Half of the
    /// width: two wrong numbers, each with one wrong bit, leave the right ones within the window.
    pub(super) const JUMP: u64 = ReplayWindow::WIDTH / 2;
    /// Distance below a number that jumped within which another confirms it.
    const CONFIRMS: u64 = 64;

    /// An empty window, for authentic numbers or others.
    pub(super) fn new(is_authentic: bool) -> Self {
        ReplayWindow { next: 0, seen: [0; ReplayWindow::WORDS], is_authentic, jumped: None }
    }

    /// Notes a number; false if it was received before or is too old to tell. Only for authentic
    /// datagrams.
    pub(super) fn accept(&mut self, number: u64) -> bool {
        if !self.is_authentic && number >= self.next.saturating_add(ReplayWindow::JUMP) {
            let is_confirmed = self.jumped.is_some_and(|before| {
                (1..=ReplayWindow::CONFIRMS).contains(&number.wrapping_sub(before))
            });
            if !is_confirmed {
                self.jumped = Some(number);
                return false;
            }
        }
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
        self.jumped = None;
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

    #[test]
    fn a_number_that_jumps_does_not_end_a_test_without_a_key() {
        for bit in 0..62 {
            let mut window = ReplayWindow::new(false);
            let mut lost = 0;
            for number in 0..50_000u64 {
                lost += u64::from(!window.accept(number));
                // Each datagram comes again with one bit changed.
                window.accept(number ^ 1 << bit);
            }
            // One changed number in two is a right one that has not come yet: that is received
            // once.
            assert!(lost <= 25_000, "bit {bit}: {lost} of 50,000 are lost");
            assert!(lost == 0 || bit < 13, "bit {bit}: {lost} are lost");
        }
        // A path that is down for long loses two datagrams more.
        let mut window = ReplayWindow::new(false);
        assert!(window.accept(0));
        let accepted: Vec<bool> = (1 << 20..).take(4).map(|number| window.accept(number)).collect();
        assert_eq!(accepted, [false, true, true, true]);
        // Numbers that a key authenticates are believed.
        assert!(ReplayWindow::new(true).accept(1 << 61));
    }

    proptest! {
        #[test]
        fn each_number_is_accepted_once(keyed in any::<bool>(), steps in proptest::collection::vec((0u64..20_000, any::<bool>()), 1..300)) {
            let (mut window, mut seen, mut highest) = (ReplayWindow::new(keyed), BTreeSet::new(), 0u64);
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
