//! quinn's cryptography interface, without cryptography.

use std::sync::Arc;

use quinn_proto::TransportErrorCode;
use quinn_proto::crypto::{AeadKey, HandshakeTokenKey};

null_crypto! {
    quinn_proto,
    id(&ConnectionId),
    start_session(self: Arc<Self>),
    path(),
    malformed(malformed),
}

fn malformed(reason: &str) -> TransportError {
    TransportError {
        code: TransportErrorCode::PROTOCOL_VIOLATION,
        frame: None,
        reason: reason.to_owned(),
    }
}

impl HandshakeTokenKey for TokenKey {
    fn aead_from_hkdf(&self, _random_bytes: &[u8]) -> Box<dyn AeadKey> {
        Box::new(NoSeal)
    }
}

struct NoSeal;

impl AeadKey for NoSeal {
    fn seal(&self, _data: &mut Vec<u8>, _additional_data: &[u8]) -> Result<(), CryptoError> {
        Ok(())
    }

    fn open<'a>(
        &self,
        data: &'a mut [u8],
        _additional_data: &[u8],
    ) -> Result<&'a mut [u8], CryptoError> {
        Ok(data)
    }
}
