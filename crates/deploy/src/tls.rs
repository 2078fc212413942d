//! TLS 1.3 between peers that know each other by fingerprint: both sides show a certificate, and no
//! authority vouches for it.

use std::sync::Arc;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, SignatureScheme};

use crate::error::{Error, Result};
use crate::identity::{Fingerprint, Identity};

/// Peers that a client accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// The peer with this fingerprint alone.
    Pinned(Fingerprint),
    /// Any peer. The caller must compare its fingerprint with the known peers before it sends
    /// anything.
    Unchecked,
}

/// Accepts certificates by fingerprint, and checks that the peer has their key.
#[derive(Debug)]
struct ByFingerprint {
    trust: Trust,
    provider: Arc<CryptoProvider>,
}

impl ByFingerprint {
    fn check(&self, certificate: &CertificateDer<'_>) -> std::result::Result<(), rustls::Error> {
        let shown = Fingerprint::of(certificate);
        match self.trust {
            Trust::Pinned(expected) if expected != shown => Err(rustls::Error::General(format!(
                "the peer has the fingerprint {shown} instead of {expected}: this is not the machine \
                 that was meant"
            ))),
            _ => Ok(()),
        }
    }
}

/// Signatures of either side are checked alike: by its key, in TLS 1.3 only.
macro_rules! check_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
            Err(rustls::Error::General("TLS before version 1.3".to_owned()))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
            let algorithms = &self.provider.signature_verification_algorithms;
            verify_tls13_signature(message, certificate, signature, algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.provider.signature_verification_algorithms.supported_schemes()
        }
    };
}

impl ServerCertVerifier for ByFingerprint {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        self.check(certificate).map(|()| ServerCertVerified::assertion())
    }

    check_signatures!();
}

impl ClientCertVerifier for ByFingerprint {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> std::result::Result<ClientCertVerified, rustls::Error> {
        self.check(certificate).map(|()| ClientCertVerified::assertion())
    }

    check_signatures!();
}

fn verifier(trust: Trust) -> (Arc<CryptoProvider>, Arc<ByFingerprint>) {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    (Arc::clone(&provider), Arc::new(ByFingerprint { trust, provider }))
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Input(format!("the certificate or its key cannot be used: {error}"))
}

/// TLS of a client that asks for one service.
pub(crate) fn client(
    identity: &Identity,
    trust: Trust,
    service: &[u8],
) -> Result<QuicClientConfig> {
    let (provider, verifier) = verifier(trust);
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(failed)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_auth_cert(identity.chain(), identity.key())
        .map_err(failed)?;
    tls.alpn_protocols = vec![service.to_vec()];
    // Each connection proves the identity of both sides anew, and no data go out before.
    tls.resumption = rustls::client::Resumption::disabled();
    QuicClientConfig::try_from(tls).map_err(failed)
}

/// TLS of a server with these services. It requires a certificate of each client.
pub(crate) fn server(identity: &Identity, services: &[&[u8]]) -> Result<QuicServerConfig> {
    let (provider, verifier) = verifier(Trust::Unchecked);
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(failed)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(identity.chain(), identity.key())
        .map_err(failed)?;
    tls.alpn_protocols = services.iter().map(|service| service.to_vec()).collect();
    tls.send_tls13_tickets = 0;
    QuicServerConfig::try_from(tls).map_err(failed)
}
