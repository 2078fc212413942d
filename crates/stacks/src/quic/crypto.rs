//! The cryptography interface of a stack over a [`Handshake`](crate::handshake::Handshake), with
//! keys that do not change packets.

/// Implements the cryptography of `$proto`: its type of connection IDs in arguments, its receiver
/// of `start_session`, its type of paths where packets are sealed for one, and a function that
/// makes an error of a malformed handshake. The key of tokens seals nothing; its trait is the
/// stack's own.
macro_rules! null_crypto {
    (
        $proto:ident,
        id($id:ty),
        start_session($($this:tt)*),
        path($($path:ty)?),
        malformed($malformed:path),
    ) => {
        use std::any::Any;

        use bytes::BytesMut;
        use $proto::crypto::{
            ClientConfig, CryptoError, ExportKeyingMaterialError, HeaderKey, HmacKey, KeyPair, Keys,
            PacketKey, ServerConfig, Session, UnsupportedVersion,
        };
        use $proto::transport_parameters::TransportParameters;
        use $proto::{ConnectError, ConnectionId, Side, TransportError};

        use crate::handshake::Handshake;
        use crate::random;

        /// Length of the tag behind a packet, bytes, as in AES-GCM.
        const TAG: usize = 16;

        /// Both sides' configuration.
        #[derive(Debug)]
        pub(super) struct Null;

        struct NullSession {
            side: Side,
            handshake: Handshake,
        }

        fn written(params: &TransportParameters) -> Vec<u8> {
            let mut bytes = Vec::new();
            params.write(&mut bytes);
            bytes
        }

        impl ClientConfig for Null {
            fn start_session(
                $($this)*,
                _version: u32,
                _server_name: &str,
                params: &TransportParameters,
            ) -> Result<Box<dyn Session>, ConnectError> {
                let handshake = Handshake::client(written(params));
                Ok(Box::new(NullSession { side: Side::Client, handshake }))
            }
        }

        impl ServerConfig for Null {
            fn initial_keys(
                &self,
                _version: u32,
                _dst_cid: $id,
            ) -> Result<Keys, UnsupportedVersion> {
                Ok(keys())
            }

            fn retry_tag(&self, _version: u32, _orig_dst_cid: $id, _packet: &[u8]) -> [u8; TAG] {
                [0; TAG]
            }

            fn start_session(
                $($this)*,
                _version: u32,
                params: &TransportParameters,
            ) -> Box<dyn Session> {
                let handshake = Handshake::server(written(params));
                Box::new(NullSession { side: Side::Server, handshake })
            }
        }

        impl Session for NullSession {
            fn initial_keys(&self, _dst_cid: $id, _side: Side) -> Keys {
                keys()
            }

            fn handshake_data(&self) -> Option<Box<dyn Any>> {
                None
            }

            fn peer_identity(&self) -> Option<Box<dyn Any>> {
                None
            }

            fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
                None
            }

            fn early_data_accepted(&self) -> Option<bool> {
                None
            }

            fn is_handshaking(&self) -> bool {
                !self.handshake.is_complete()
            }

            fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
                self.handshake.read(buf).map_err(|_| $malformed("a message of the handshake out of order"))
            }

            fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
                let read = |mut bytes: &[u8]| TransportParameters::read(self.side, &mut bytes);
                self.handshake.theirs().map(read).transpose().map_err(|_| $malformed("transport parameters"))
            }

            fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
                self.handshake.write(buf).then(keys)
            }

            fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
                Some(keys().packet)
            }

            fn is_valid_retry(
                &self,
                _orig_dst_cid: $id,
                _header: &[u8],
                _payload: &[u8],
            ) -> bool {
                true
            }

            fn export_keying_material(
                &self,
                _output: &mut [u8],
                _label: &[u8],
                _context: &[u8],
            ) -> Result<(), ExportKeyingMaterialError> {
                Err(ExportKeyingMaterialError)
            }
        }

        /// A key that does not change packets.
        struct NoKey;

        fn keys() -> Keys {
            Keys {
                header: KeyPair { local: Box::new(NoKey), remote: Box::new(NoKey) },
                packet: KeyPair { local: Box::new(NoKey), remote: Box::new(NoKey) },
            }
        }

        impl PacketKey for NoKey {
            fn encrypt(&self, $(_: $path,)? _packet: u64, buf: &mut [u8], _header_len: usize) {
                let tag = buf.len() - TAG;
                buf[tag..].fill(0);
            }

            fn decrypt(
                &self,
                $(_: $path,)?
                _packet: u64,
                _header: &[u8],
                payload: &mut BytesMut,
            ) -> Result<(), CryptoError> {
                let length = payload.len().checked_sub(TAG).ok_or(CryptoError)?;
                payload.truncate(length);
                Ok(())
            }

            fn tag_len(&self) -> usize {
                TAG
            }

            fn confidentiality_limit(&self) -> u64 {
                u64::MAX
            }

            fn integrity_limit(&self) -> u64 {
                u64::MAX
            }
        }

        impl HeaderKey for NoKey {
            fn decrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}

            fn encrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}

            fn sample_size(&self) -> usize {
                TAG
            }
        }

        /// A key for stateless resets and tokens, which are not used.
        #[derive(Debug)]
        pub(super) struct TokenKey(pub(super) u64);

        impl HmacKey for TokenKey {
            fn sign(&self, data: &[u8], signature_out: &mut [u8]) {
                random::signature(self.0, data, signature_out);
            }

            fn signature_len(&self) -> usize {
                32
            }

            fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
                let mut expected = [0; 32];
                self.sign(data, &mut expected);
                if signature == expected { Ok(()) } else { Err(CryptoError) }
            }
        }
    };
}
