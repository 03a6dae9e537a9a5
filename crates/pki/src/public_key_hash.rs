//! Hashes of public keys, by which a CA is recognized before its certificate is trusted (RFC 7469, kubeadm's
//! `--discovery-token-ca-cert-hash`).

use ring::digest::{SHA256, digest};
use rustls_pki_types::CertificateDer;

use crate::Error;

/// The SHA-256 of the certificate's SubjectPublicKeyInfo, as `sha256:` and hexadecimal digits.
pub fn public_key_hash(certificate: &CertificateDer<'_>) -> Result<String, Error> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate)
        .map_err(|error| Error::malformed("certificate", error))?;
    let hash = digest(&SHA256, parsed.public_key().raw);
    let digits: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("sha256:{digits}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CertificateAuthority, tests::NOW};

    #[test]
    fn the_hash_is_of_the_encoded_public_key_alone() {
        let authority = CertificateAuthority::create("kubernetes", NOW).unwrap();
        let key = crate::PrivateKey::from_pem(authority.key_pem().as_bytes()).unwrap();
        let expected = digest(&SHA256, &key.public().to_der());
        let hash = public_key_hash(authority.certificate()).unwrap();
        let digits: String = expected.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hash, format!("sha256:{digits}"));
        assert!(public_key_hash(&CertificateDer::from(vec![1, 2, 3])).is_err());
    }
}
