//! noq's cryptography interface, without cryptography.

use noq_proto::crypto::HandshakeTokenKey;
use noq_proto::{PathId, TransportErrorCode};

null_crypto! {
    noq_proto,
    id(ConnectionId),
    start_session(&self),
    path(PathId),
    malformed(malformed),
}

fn malformed(reason: &str) -> TransportError {
    TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, reason.to_owned())
}

impl HandshakeTokenKey for TokenKey {
    fn seal(&self, _token_nonce: u128, _data: &mut Vec<u8>) -> Result<(), CryptoError> {
        Ok(())
    }

    fn open<'a>(&self, _token_nonce: u128, data: &'a mut [u8]) -> Result<&'a [u8], CryptoError> {
        Ok(data)
    }
}
