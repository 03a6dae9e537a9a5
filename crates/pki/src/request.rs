//! Certificate signing requests (PKCS#10).

use std::net::IpAddr;

use rustls_pki_types::{CertificateSigningRequestDer, pem::PemObject};
use x509_parser::{
    certification_request::X509CertificationRequest, cri_attributes::ParsedCriAttribute,
    extensions::ParsedExtension, oid_registry, prelude::FromDer,
};

use crate::{
    CertificateIdentity, Error, PrivateKey,
    certificate::{self, SubjectKey},
    der, pem,
};

const EXTENSION_REQUEST: &[u64] = &[1, 2, 840, 113_549, 1, 9, 14];
const VERSION_1: &[u8] = &[0];

/// A CSR with a valid signature: the requester holds the private key.
#[derive(Clone, Debug)]
pub struct CertificateRequest {
    pub(crate) subject: Vec<u8>,
    pub(crate) names: Vec<u8>,
    pub(crate) key: SubjectKey,
    identity: CertificateIdentity,
}

impl CertificateRequest {
    pub fn from_pem(pem: &[u8]) -> Result<Self, Error> {
        let der = CertificateSigningRequestDer::from_pem_slice(pem)
            .map_err(|error| Error::malformed("certificate request", error))?;
        let (_, parsed) = X509CertificationRequest::from_der(&der)
            .map_err(|error| Error::malformed("certificate request", error))?;
        parsed
            .verify_signature()
            .map_err(|_| Error::malformed("certificate request", "its signature is wrong"))?;
        let info = &parsed.certification_request_info;
        let mut request = Self {
            subject: info.subject.as_raw().to_vec(),
            names: Vec::new(),
            key: SubjectKey {
                der: info.subject_pki.raw.to_vec(),
                bits: info.subject_pki.subject_public_key.data.to_vec(),
            },
            identity: CertificateIdentity::default(),
        };
        request.identity.take_subject(&info.subject)?;
        for attribute in info.iter_attributes() {
            let ParsedCriAttribute::ExtensionRequest(asked) = attribute.parsed_attribute() else {
                continue;
            };
            for extension in &asked.extensions {
                if extension.oid == oid_registry::OID_X509_EXT_SUBJECT_ALT_NAME {
                    request.names = extension.value.to_vec();
                }
                if let ParsedExtension::SubjectAlternativeName(names) = extension.parsed_extension()
                {
                    names.general_names.iter().for_each(|name| request.identity.take_name(name));
                }
            }
        }
        Ok(request)
    }

    /// A CSR without subject and names, in DER, which only proves possession of `key`.
    pub fn stub_der(key: &PrivateKey) -> Result<Vec<u8>, Error> {
        Self::signed(key, &[], &certificate::encode_name("", &[]))
    }

    /// Creates a CSR for `key`, in PEM.
    pub fn create(
        key: &PrivateKey,
        common_name: &str,
        organizations: &[String],
        names: (&[String], &[IpAddr]),
    ) -> Result<String, Error> {
        let names = certificate::alternative_names(names.0, names.1);
        let extensions = if names.is_empty() {
            Vec::new()
        } else {
            vec![certificate::extension(certificate::ALTERNATIVE_NAMES, false, &names)]
        };
        let attributes = if extensions.is_empty() {
            Vec::new()
        } else {
            let asked = der::group(der::SET, &[der::sequence(&extensions)]);
            der::sequence(&[der::oid(EXTENSION_REQUEST), asked])
        };
        let subject = certificate::encode_name(common_name, organizations);
        Ok(pem::encode("CERTIFICATE REQUEST", &Self::signed(key, &attributes, &subject)?))
    }

    fn signed(key: &PrivateKey, attributes: &[u8], subject: &[u8]) -> Result<Vec<u8>, Error> {
        let info = der::sequence(&[
            der::integer(VERSION_1),
            subject.to_vec(),
            key.public().to_der(),
            der::tagged(der::context(0), attributes),
        ]);
        let signature = der::bits(&key.sign(&info)?, 0);
        let algorithm = key.public().algorithm().signature_algorithm();
        Ok(der::sequence(&[info, algorithm, signature]))
    }

    /// The requested identity. Validity and serial number are empty.
    pub fn identity(&self) -> &CertificateIdentity {
        &self.identity
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{CertificateAuthority, ClientCaVerifier, Usage, certificates, tests::NOW};

    #[test]
    fn a_request_becomes_a_certificate() {
        let key = PrivateKey::generate().unwrap();
        let groups = ["system:nodes".to_owned(), "other".to_owned()];
        let names = (&["n1".to_owned()][..], &[[10, 0, 0, 1].into()][..]);
        let pem = CertificateRequest::create(&key, "system:node:n1", &groups, names).unwrap();
        let request = CertificateRequest::from_pem(pem.as_bytes()).unwrap();
        assert_eq!(request.identity().organizations, groups);

        let authority = CertificateAuthority::create("kubernetes", NOW).unwrap();
        let year = Duration::from_hours(365 * 24);
        let pem = authority.sign(&request, &[Usage::Client], year, NOW).unwrap();
        let trust = ClientCaVerifier::new(std::slice::from_ref(authority.certificate())).unwrap();
        let chain = certificates(pem.as_bytes()).unwrap();
        let who = trust.identify(&chain, NOW).unwrap();
        assert_eq!((&*who.common_name, &who.dns[..]), ("system:node:n1", &["n1".to_owned()][..]));
        assert_eq!(who.ips, [IpAddr::from([10, 0, 0, 1])]);
    }

    #[test]
    fn openssl_is_understood_with_keys_that_we_do_not_make() {
        let pem = include_str!("../tests/data/ed25519.csr");
        let request = CertificateRequest::from_pem(pem.as_bytes()).unwrap();
        assert_eq!(request.identity().common_name, "jane");
        assert_eq!(request.identity().organizations, ["dev", "ops"]);
        let authority = CertificateAuthority::create("kubernetes", NOW).unwrap();
        let pem = authority.sign(&request, &[Usage::Client], Duration::from_hours(1), NOW).unwrap();
        let trust = ClientCaVerifier::new(std::slice::from_ref(authority.certificate())).unwrap();
        trust.identify(&certificates(pem.as_bytes()).unwrap(), NOW).unwrap();
    }

    #[test]
    fn a_changed_request_is_refused() {
        let key = PrivateKey::generate().unwrap();
        let pem = CertificateRequest::create(&key, "jane", &[], (&[], &[])).unwrap();
        let der = CertificateSigningRequestDer::from_pem_slice(pem.as_bytes()).unwrap();
        let mut der = der.to_vec();
        let at = der.windows(4).position(|w| w == b"jane").unwrap();
        der[at] = b'J';
        let forged = pem::encode("CERTIFICATE REQUEST", &der);
        assert!(CertificateRequest::from_pem(forged.as_bytes()).is_err());
    }
}
