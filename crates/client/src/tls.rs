//! Whom to believe, and what to show, when a connection begins.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
};

use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject};
use tokio::fs;

use crate::{Auth, Error};

static PROVIDER: LazyLock<Arc<CryptoProvider>> =
    LazyLock::new(|| Arc::new(rustls::crypto::ring::default_provider()));

/// Where the usual systems keep the authorities of the web.
const SYSTEM_ROOTS: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];
const LARGEST_FILE: u64 = 8 << 20;

/// PEM, given or in a file. Files are read for each connection, so that a
/// renewed certificate is used from then on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pem {
    Data(Vec<u8>),
    File(PathBuf),
}

#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// Absent: those of the system.
    pub authorities: Option<Pem>,
    /// Certificate and key.
    pub pair: Option<(Pem, Pem)>,
    /// Another name to expect than the one that was called.
    pub server_name: Option<String>,
    /// Believe anybody.
    pub insecure: bool,
    /// May bring a certificate too.
    pub auth: Auth,
}

impl Tls {
    pub(crate) async fn config(&self) -> Result<ClientConfig, Error> {
        let builder = ClientConfig::builder_with_provider(PROVIDER.clone())
            .with_safe_default_protocol_versions()
            .map_err(wrong)?;
        let builder = if self.insecure {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody))
        } else {
            builder.with_root_certificates(self.roots().await?)
        };
        let pair = match (&self.pair, self.auth.certificate().await?) {
            (_, Some(pair)) => Some(pair),
            (Some((certificate, key)), None) => {
                Some((certificate.read().await?, key.read().await?))
            }
            (None, None) => None,
        };
        match pair {
            Some((certificate, key)) => {
                let key = PrivateKeyDer::from_pem_slice(&key).map_err(wrong)?;
                builder.with_client_auth_cert(certificates(&certificate)?, key).map_err(wrong)
            }
            None => Ok(builder.with_no_client_auth()),
        }
    }

    async fn roots(&self) -> Result<RootCertStore, Error> {
        let mut roots = RootCertStore::empty();
        if let Some(authorities) = &self.authorities {
            for one in certificates(&authorities.read().await?)? {
                roots.add(one).map_err(wrong)?;
            }
        } else {
            for path in SYSTEM_ROOTS {
                if let Ok(pem) = read(Path::new(path)).await {
                    roots.add_parsable_certificates(certificates(&pem)?);
                    break;
                }
            }
        }
        Ok(roots)
    }
}

impl Pem {
    pub(crate) async fn read(&self) -> Result<Vec<u8>, Error> {
        match self {
            Self::Data(data) => Ok(data.clone()),
            Self::File(path) => read(path).await,
        }
    }
}

pub(crate) async fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let failed = |error: std::io::Error| Error::Invalid(format!("{}: {error}", path.display()));
    let about = fs::metadata(path).await.map_err(failed)?;
    if about.len() > LARGEST_FILE {
        return Err(Error::Invalid(format!("{}: larger than 8 MiB", path.display())));
    }
    fs::read(path).await.map_err(failed)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(wrong)
}

fn wrong(error: impl std::fmt::Display) -> Error {
    Error::Invalid(format!("TLS: {error}"))
}

/// Believes any certificate; that its owner has the key is still checked.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &PROVIDER.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &PROVIDER.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        PROVIDER.signature_verification_algorithms.supported_schemes()
    }
}
