//! Certificate authorities (CAs).

use std::{net::IpAddr, time::Duration};

use rustls_pki_types::CertificateDer;

use crate::{
    CertKeyPair, CertificateRequest, Dir, Error, PrivateKey,
    certificate::{self, Purpose, TbsCertificate},
    pem,
};

const YEAR: Duration = Duration::from_hours(365 * 24);
const AUTHORITY_LIFETIME: Duration = YEAR.saturating_mul(10);
/// Certificates are backdated, so that they are valid at once on hosts whose clocks are behind.
const BACKDATE: Duration = Duration::from_mins(5);

/// A CA certificate with its private key.
#[derive(Debug)]
pub struct CertificateAuthority {
    certificate: CertificateDer<'static>,
    subject: Vec<u8>,
    not_after: i64,
    key: PrivateKey,
}

/// The content of a certificate to be issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateSpec {
    pub common_name: String,
    pub organizations: Vec<String>,
    pub dns: Vec<String>,
    pub ips: Vec<IpAddr>,
    pub usages: Vec<Usage>,
    pub lifetime: Duration,
}

/// The extended key usage of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    Client,
    Server,
}

impl CertificateSpec {
    /// A client certificate, valid for a year.
    pub fn client(common_name: &str, organizations: &[&str]) -> Self {
        Self {
            common_name: common_name.into(),
            organizations: organizations.iter().map(ToString::to_string).collect(),
            dns: Vec::new(),
            ips: Vec::new(),
            usages: vec![Usage::Client],
            lifetime: YEAR,
        }
    }

    /// A server certificate, valid for a year.
    pub fn server(common_name: &str, dns: Vec<String>, ips: Vec<IpAddr>) -> Self {
        let usages = vec![Usage::Server];
        Self { dns, ips, usages, ..Self::client(common_name, &[]) }
    }
}

impl CertificateAuthority {
    /// Creates a CA that is valid for ten years.
    pub fn create(common_name: &str, now: i64) -> Result<Self, Error> {
        Self::from_key(common_name, PrivateKey::generate()?, now)
    }

    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, Error> {
        let certificate = pem::certificates(certificate)?.swap_remove(0);
        Self::new(certificate, PrivateKey::from_pem(key)?)
    }

    /// Loads the CA from `NAME.crt` and `NAME.key`, or creates it.
    pub fn load_or_create(dir: &Dir, name: &str, now: i64) -> Result<Self, Error> {
        let (crt, key) = (format!("{name}.crt"), format!("{name}.key"));
        match (dir.read(&crt)?, dir.read(&key)?) {
            (Some(certificate), Some(own)) => Self::from_pem(&certificate, &own).map_err(|error| {
                Error::In { name: format!("{crt} and {key}"), error: error.into() }
            }),
            (Some(_), None) => Err(Error::NoKey(name.to_owned())),
            // a key without a certificate is left by an interrupted creation
            (None, given) => {
                let given = given.map(|pem| PrivateKey::from_pem(&pem)).transpose()?;
                let is_new = given.is_none();
                let made = given.map_or_else(PrivateKey::generate, Ok)?;
                if is_new {
                    dir.create(&key, made.to_pem().as_bytes(), 0o600)?;
                }
                let common_name = if name == "ca" { "kubernetes" } else { name };
                let authority = Self::from_key(common_name, made, now)?;
                dir.create(&crt, authority.certificate_pem().as_bytes(), 0o644)?;
                Ok(authority)
            }
        }
    }

    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    pub fn certificate_pem(&self) -> String {
        pem::encode("CERTIFICATE", &self.certificate)
    }

    pub fn key_pem(&self) -> String {
        self.key.to_pem()
    }

    /// Generates a key and issues its certificate.
    pub fn issue(&self, leaf: &CertificateSpec, now: i64) -> Result<CertKeyPair, Error> {
        self.issue_for(leaf, PrivateKey::generate()?, now)
    }

    /// Issues a certificate for an existing key.
    pub fn issue_for(
        &self,
        leaf: &CertificateSpec,
        key: PrivateKey,
        now: i64,
    ) -> Result<CertKeyPair, Error> {
        let content = TbsCertificate {
            subject: certificate::encode_name(&leaf.common_name, &leaf.organizations),
            key: &key.public().into(),
            names: certificate::alternative_names(&leaf.dns, &leaf.ips),
            purpose: Purpose::Leaf(&leaf.usages),
            not_before: now - seconds(BACKDATE),
            not_after: self.not_after(leaf.lifetime, now),
        };
        let certificate = certificate::sign(&content, &self.subject, &self.key)?;
        CertKeyPair::new(vec![certificate], key)
    }

    /// Signs a CSR and returns the certificate in PEM. Subject and names are those of the request; usages and lifetime
    /// are decided by the signer.
    pub fn sign(
        &self,
        request: &CertificateRequest,
        usages: &[Usage],
        lifetime: Duration,
        now: i64,
    ) -> Result<String, Error> {
        let content = TbsCertificate {
            subject: request.subject.clone(),
            key: &request.key,
            names: request.names.clone(),
            purpose: Purpose::Leaf(usages),
            not_before: now - seconds(BACKDATE),
            not_after: self.not_after(lifetime, now),
        };
        let certificate = certificate::sign(&content, &self.subject, &self.key)?;
        Ok(pem::encode("CERTIFICATE", &certificate))
    }

    fn from_key(common_name: &str, key: PrivateKey, now: i64) -> Result<Self, Error> {
        let subject = certificate::encode_name(common_name, &[]);
        let content = TbsCertificate {
            subject: subject.clone(),
            key: &key.public().into(),
            names: certificate::alternative_names(&[common_name.to_owned()], &[]),
            purpose: Purpose::Authority,
            not_before: now - seconds(BACKDATE),
            not_after: now + seconds(AUTHORITY_LIFETIME),
        };
        let certificate = certificate::sign(&content, &subject, &key)?;
        Self::new(certificate, key)
    }

    fn new(certificate: CertificateDer<'static>, key: PrivateKey) -> Result<Self, Error> {
        let (_, parsed) = x509_parser::parse_x509_certificate(&certificate)
            .map_err(|error| Error::malformed("certificate", error))?;
        let subject = parsed.subject().as_raw().to_vec();
        let not_after = parsed.validity().not_after.timestamp();
        if !parsed.is_ca() {
            return Err(Error::malformed("certificate authority", "not allowed to sign"));
        }
        if parsed.public_key().raw != key.public().to_der() {
            return Err(Error::Mismatch(parsed.subject().to_string()));
        }
        Ok(Self { certificate, subject, not_after, key })
    }

    /// A certificate never outlives its CA.
    fn not_after(&self, lifetime: Duration, now: i64) -> i64 {
        (now + seconds(lifetime)).min(self.not_after)
    }
}

fn seconds(time: Duration) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        CertificateIdentity, ClientCaVerifier,
        tests::{NOW, RSA_PKCS1},
    };

    #[test]
    fn a_user_may_be_in_several_groups() {
        let authority = CertificateAuthority::create("kubernetes", NOW).unwrap();
        let pair = authority.issue(&CertificateSpec::client("jane", &["dev", "ops"]), NOW).unwrap();
        let trust = ClientCaVerifier::new(std::slice::from_ref(authority.certificate())).unwrap();
        let who = trust.identify(pair.chain(), NOW).unwrap();
        assert_eq!(
            (&*who.common_name, &*who.organizations),
            ("jane", &["dev".into(), "ops".into()][..])
        );
        assert!(trust.identify(pair.chain(), NOW + 366 * 24 * 3600).is_err(), "it has expired");

        let other = CertificateAuthority::create("kubernetes", NOW).unwrap();
        let trust = ClientCaVerifier::new(std::slice::from_ref(other.certificate())).unwrap();
        assert!(trust.identify(pair.chain(), NOW).is_err(), "another of the same name");
    }

    #[test]
    fn a_server_certificate_is_no_client_certificate() {
        let authority = CertificateAuthority::create("kubernetes", NOW).unwrap();
        let leaf = CertificateSpec::server("x", vec!["x".into()], vec![[127, 0, 0, 1].into()]);
        let pair = authority.issue(&leaf, NOW).unwrap();
        let trust = ClientCaVerifier::new(std::slice::from_ref(authority.certificate())).unwrap();
        assert!(trust.identify(pair.chain(), NOW).is_err());
        let identity = CertificateIdentity::of(&pair.chain()[0]).unwrap();
        assert_eq!(identity.dns, ["x"]);
        assert_eq!(identity.ips, [IpAddr::from([127, 0, 0, 1])]);
    }

    #[test]
    fn a_given_rsa_key_signs_too() {
        let key = PrivateKey::from_pem(RSA_PKCS1.as_bytes()).unwrap();
        let authority = CertificateAuthority::from_key("given", key, NOW).unwrap();
        let again = CertificateAuthority::from_pem(
            authority.certificate_pem().as_bytes(),
            authority.key_pem().as_bytes(),
        );
        let pair = again.unwrap().issue(&CertificateSpec::client("jane", &[]), NOW).unwrap();
        let trust = ClientCaVerifier::new(std::slice::from_ref(authority.certificate())).unwrap();
        trust.identify(pair.chain(), NOW).unwrap();
        let other = PrivateKey::generate().unwrap();
        let wrong = CertificateAuthority::from_pem(
            authority.certificate_pem().as_bytes(),
            other.to_pem().as_bytes(),
        );
        assert!(matches!(wrong, Err(Error::Mismatch(_))));
    }
}
