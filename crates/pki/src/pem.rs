//! PEM encoding of certificates.

use std::collections::HashSet;

use base64::{Engine, prelude::BASE64_STANDARD};
use rustls_pki_types::{CertificateDer, pem::PemObject};

use crate::{CertificateIdentity, Error};

/// All certificates in `pem`; it is an error if there is none.
pub fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| Error::malformed("certificate", error))?;
    if found.is_empty() {
        return Err(Error::malformed("certificate", "no CERTIFICATE block"));
    }
    Ok(found)
}

/// The certificates in `pem` without other text and without duplicates.
pub fn dedup_certificates(pem: &[u8]) -> Result<String, Error> {
    let mut all = certificates(pem)?;
    let mut seen = HashSet::new();
    all.retain(|one| seen.insert(one.clone()));
    Ok(all.iter().map(|one| encode("CERTIFICATE", one)).collect())
}

/// The certificates in `pem` that have not expired, without other text and without duplicates.
pub fn unexpired_certificates(pem: &[u8], now: i64) -> Result<String, Error> {
    let plain = dedup_certificates(pem)?;
    let mut all = certificates(plain.as_bytes())?;
    all.retain(|one| CertificateIdentity::of(one).is_ok_and(|identity| identity.not_after > now));
    Ok(all.iter().map(|one| encode("CERTIFICATE", one)).collect())
}

pub(crate) fn encode(label: &str, der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let mut out = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(64) {
        out.extend(line.iter().map(|b| char::from(*b)));
        out.push('\n');
    }
    out.push_str("-----END ");
    out.push_str(label);
    out.push_str("-----\n");
    out
}
