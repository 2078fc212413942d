//! An entry for fuzz targets into the datagrams between hosts.

use super::connection::Envelope;
use super::frame::{Counts, Greeting, Sample};
use super::keys::MAC_LEN;

/// Reads datagrams of `windward perf`, and checks that each has one encoding.
///
/// # Panics
/// If a datagram has two encodings.
pub fn frames(bytes: &[u8]) {
    if let Some(greeting) = Greeting::decode(bytes) {
        let again = greeting.encode();
        assert_eq!(again.len(), bytes.len());
        // Only the owner of the key can make MACs.
        let keyed = matches!(greeting, Greeting::Open { .. } | Greeting::Accept { .. });
        let end = bytes.len() - if keyed { MAC_LEN } else { 0 };
        assert_eq!(&again[..end], &bytes[..end]);
    }
    if let Some(counts) = Counts::decode(bytes) {
        assert_eq!(&counts.encode()[..], &bytes[..Counts::LEN]);
    }
    if let Some(sample) = Sample::decode(bytes) {
        assert_eq!(&sample.encode()[..], &bytes[..Sample::LEN]);
    }
    let _ = Envelope::read(bytes);
}
