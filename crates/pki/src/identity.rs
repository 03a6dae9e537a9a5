//! The identity in a certificate, and its verification.

use std::{net::IpAddr, sync::Arc, time::Duration};

use rustls::{
    RootCertStore,
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use rustls_pki_types::{CertificateDer, UnixTime};
use x509_parser::{der_parser::oid, extensions::GeneralName, oid_registry::Oid, x509::X509Name};

use crate::{Error, tls::provider};

/// The OID of upstream's subject attribute for a user's UID.
const UID: Oid<'static> = oid!(1.3.6.1.4.1.57683.2);

/// The subject, names and validity of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateIdentity {
    pub common_name: String,
    pub organizations: Vec<String>,
    /// The UIDs from Kubernetes' own subject attribute.
    pub uids: Vec<String>,
    pub dns: Vec<String>,
    pub ips: Vec<IpAddr>,
    /// Other alternative names: e-mail addresses and URIs.
    pub others: Vec<String>,
    pub serial: String,
    pub not_before: i64,
    pub not_after: i64,
}

/// Verifies client certificates against the client CAs.
#[derive(Clone, Debug)]
pub struct ClientCaVerifier {
    verifier: Arc<dyn ClientCertVerifier>,
}

impl ClientCaVerifier {
    pub fn new(authorities: &[CertificateDer<'static>]) -> Result<Self, Error> {
        let roots = Arc::new(roots(authorities)?);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider())
            .allow_unauthenticated()
            .build()
            .map_err(|error| Error::Untrusted(error.to_string()))?;
        Ok(Self { verifier })
    }

    /// The identity of the client with this chain, if it is signed by one of the CAs.
    pub fn identify(
        &self,
        chain: &[CertificateDer<'_>],
        now: i64,
    ) -> Result<CertificateIdentity, Error> {
        let [leaf, rest @ ..] = chain else {
            return Err(Error::Untrusted("there is no certificate".into()));
        };
        let now = Duration::from_secs(now.try_into().unwrap_or_default());
        self.verifier
            .verify_client_cert(leaf, rest, UnixTime::since_unix_epoch(now))
            .map_err(|error| Error::Untrusted(error.to_string()))?;
        CertificateIdentity::of(leaf)
    }

    pub(crate) fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        self.verifier.clone()
    }
}

impl CertificateIdentity {
    /// Parses the identity of a certificate without verifying it.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, Error> {
        let malformed = |error: &dyn ToString| Error::malformed("certificate", error.to_string());
        let (_, parsed) =
            x509_parser::parse_x509_certificate(certificate).map_err(|e| malformed(&e))?;
        let mut identity = Self {
            serial: parsed.raw_serial_as_string(),
            not_before: parsed.validity().not_before.timestamp(),
            not_after: parsed.validity().not_after.timestamp(),
            ..Self::default()
        };
        identity.take_subject(parsed.subject())?;
        if let Some(names) = parsed.subject_alternative_name().map_err(|e| malformed(&e))? {
            names.value.general_names.iter().for_each(|name| identity.take_name(name));
        }
        Ok(identity)
    }

    pub(crate) fn take_subject(&mut self, subject: &X509Name<'_>) -> Result<(), Error> {
        for organization in subject.iter_organization() {
            let text = organization.as_str().map_err(|e| Error::malformed("subject", e))?;
            self.organizations.push(text.to_owned());
        }
        if let Some(name) = subject.iter_common_name().last() {
            name.as_str()
                .map_err(|e| Error::malformed("subject", e))?
                .clone_into(&mut self.common_name);
        }
        let uids = subject.iter_attributes().filter(|own| *own.attr_type() == UID);
        for uid in uids {
            let text = uid.as_str().map_err(|e| Error::malformed("subject", e))?;
            self.uids.push(text.to_owned());
        }
        Ok(())
    }

    pub(crate) fn take_name(&mut self, name: &GeneralName<'_>) {
        match name {
            GeneralName::DNSName(name) => self.dns.push((*name).to_owned()),
            GeneralName::IPAddress(bytes) => {
                if let Ok(four) = <[u8; 4]>::try_from(*bytes) {
                    self.ips.push(four.into());
                } else if let Ok(sixteen) = <[u8; 16]>::try_from(*bytes) {
                    self.ips.push(sixteen.into());
                }
            }
            other => self.others.push(other.to_string()),
        }
    }

    /// The time when less than 30 % of the lifetime is left.
    pub fn renew_at(&self) -> i64 {
        let lifetime = self.not_after - self.not_before;
        self.not_after - lifetime * 3 / 10
    }

    /// Whether the certificate is due for renewal.
    pub fn needs_renewal(&self, now: i64) -> bool {
        now > self.renew_at()
    }
}

pub(crate) fn roots(authorities: &[CertificateDer<'static>]) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    authorities.iter().try_for_each(|authority| roots.add(authority.clone()))?;
    Ok(roots)
}
