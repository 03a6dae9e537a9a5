//! Public key infrastructure: CAs, certificates, keys and their files, and service account tokens. All cryptography is
//! done by one provider, ring.
//!
//! Certificates are encoded by this crate (`der`, `certificate`), because the available crates support only one
//! organization per subject, and a user's groups are organizations.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

mod authority;
mod cert_key_pair;
mod certificate;
mod claims;
mod cluster;
mod der;
mod dir;
mod identity;
mod jwks;
mod jws;
mod key;
mod pem;
mod proof_of_possession;
mod pss;
mod public_key;
mod public_key_hash;
mod request;
mod tls;
mod tls_settings;
mod token;

pub use self::{
    authority::{CertificateAuthority, CertificateSpec, Usage},
    cert_key_pair::CertKeyPair,
    claims::{BoundObjectRef, BoundObjects, ServiceAccountClaims},
    cluster::{ClusterPki, ServerNames},
    dir::Dir,
    identity::{CertificateIdentity, ClientCaVerifier},
    jwks::{key_set, openid_configuration},
    jws::{JsonWebKey, SIGNING_ALGORITHMS, UnverifiedJws},
    key::PrivateKey,
    pem::{certificates, dedup_certificates, unexpired_certificates},
    proof_of_possession::verify_proof_of_possession,
    public_key::PublicKey,
    public_key_hash::public_key_hash,
    request::CertificateRequest,
    tls::{Reloadable, client_config, provider, server_config, server_config_named},
    tls_settings::TlsSettings,
    token::{TokenError, TokenSigner, TokenVerifier, VerifiedToken},
};

/// Errors of certificates, keys and their files.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{what} is not readable: {why}")]
    Malformed { what: &'static str, why: String },
    #[error("{0} keys are not supported: use RSA (2048 to 8192 bits), ECDSA P-256 or P-384")]
    UnsupportedKey(&'static str),
    #[error("{0}: there is a certificate but no key for it")]
    NoKey(String),
    #[error("{0}: certificate and key do not belong together")]
    Mismatch(String),
    #[error("{name}: {error}")]
    File { name: String, error: std::io::Error },
    #[error("{name}: {error}")]
    In { name: String, error: Box<Error> },
    #[error("the certificate is not trusted: {0}")]
    Untrusted(String),
    #[error("the system's source of randomness failed")]
    Random,
    #[error("signing failed")]
    Sign,
    #[error("{0} is not supported")]
    Unsupported(String),
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

impl Error {
    #[expect(clippy::needless_pass_by_value, reason = "errors come by value")]
    fn malformed(what: &'static str, why: impl ToString) -> Self {
        Self::Malformed { what, why: why.to_string() }
    }
}

#[cfg(test)]
mod tests {
    pub(crate) const EC_SEC1: &str = include_str!("../tests/data/ec-sec1.pem");
    pub(crate) const P384_PKCS8: &str = include_str!("../tests/data/p384-pkcs8.pem");
    pub(crate) const RSA_PKCS1: &str = include_str!("../tests/data/rsa-pkcs1.pem");
    pub(crate) const RSA_PKCS8: &str = include_str!("../tests/data/rsa-pkcs8.pem");
    /// 2026-11-16.
    pub(crate) const NOW: i64 = 1_794_787_200;
}
