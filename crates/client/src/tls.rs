//! TLS options of a connection: trusted CAs and client certificate.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
};

use rustls::{ClientConfig, RootCertStore, crypto::CryptoProvider};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tokio::fs;

use crate::{Auth, Error, verify::ServerVerifier};

pub(crate) static PROVIDER: LazyLock<Arc<CryptoProvider>> =
    LazyLock::new(|| Arc::new(rustls::crypto::ring::default_provider()));

/// Where the usual distributions store the system CA bundle.
const SYSTEM_ROOTS: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];
const LARGEST_FILE: u64 = 8 << 20;

/// PEM data, given or in a file. Files are read for each connection, so that renewed certificates are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pem {
    Data(Vec<u8>),
    File(PathBuf),
}

/// TLS options of a connection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TlsOptions {
    /// The CA bundle; `None` for that of the system.
    pub ca: Option<Pem>,
    /// Client certificate and key.
    pub pair: Option<(Pem, Pem)>,
    /// The expected server name, if it differs from the host.
    pub server_name: Option<String>,
    /// Accept any server certificate (`insecure-skip-tls-verify`).
    pub insecure: bool,
    /// Credentials, which may include a client certificate.
    pub auth: Auth,
}

impl TlsOptions {
    pub(crate) async fn config(&self) -> Result<ClientConfig, Error> {
        let builder = ClientConfig::builder_with_provider(PROVIDER.clone())
            .with_safe_default_protocol_versions()
            .map_err(wrong)?;
        let believer =
            if self.insecure { ServerVerifier::default() } else { self.server_verifier().await? };
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(believer));
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

    async fn server_verifier(&self) -> Result<ServerVerifier, Error> {
        let (mut roots, mut named) = (RootCertStore::empty(), Vec::new());
        if let Some(authorities) = &self.ca {
            named = certificates(&authorities.read().await?)?;
            named.iter().try_for_each(|one| roots.add(one.clone())).map_err(wrong)?;
        } else {
            for path in SYSTEM_ROOTS {
                if let Ok(pem) = read(Path::new(path)).await {
                    roots.add_parsable_certificates(certificates(&pem)?);
                    break;
                }
            }
        }
        ServerVerifier::new(roots, named)
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
