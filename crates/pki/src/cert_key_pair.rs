//! A private key with its certificate chain.

use base64::{Engine, prelude::BASE64_STANDARD};
use rustls_pki_types::CertificateDer;

use crate::{
    CertificateAuthority, CertificateIdentity, CertificateSpec, Dir, Error, PrivateKey, PublicKey,
    pem,
};

/// A certificate chain with the private key of its leaf.
#[derive(Debug)]
pub struct CertKeyPair {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKey,
}

impl CertKeyPair {
    pub(crate) fn new(chain: Vec<CertificateDer<'static>>, key: PrivateKey) -> Result<Self, Error> {
        let leaf = chain.first().ok_or_else(|| Error::malformed("certificate", "there is none"))?;
        let certified = PublicKey::of_certificate(leaf)?;
        if certified != *key.public() {
            return Err(Error::Mismatch("pair".into()));
        }
        Ok(Self { chain, key })
    }

    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, Error> {
        Self::new(pem::certificates(certificate)?, PrivateKey::from_pem(key)?)
    }

    /// Loads the pair from `NAME.crt` and `NAME.key`. `authority` issues a new one if it is missing, expires soon, or
    /// lacks a name of `leaf`.
    pub fn load_or_issue(
        dir: &Dir,
        name: &str,
        authority: &CertificateAuthority,
        leaf: &CertificateSpec,
        now: i64,
    ) -> Result<Self, Error> {
        let (crt, key) = (format!("{name}.crt"), format!("{name}.key"));
        if let (Some(certificate), Some(key)) = (dir.read(&crt)?, dir.read(&key)?) {
            // an interrupted renewal leaves a certificate and a key that do not match
            match Self::from_pem(&certificate, &key) {
                Ok(pair) if pair.satisfies(leaf, now)? => return Ok(pair),
                Ok(_) | Err(Error::Mismatch(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let pair = authority.issue(leaf, now)?;
        dir.replace(&key, pair.key_pem().as_bytes(), 0o600)?;
        dir.replace(&crt, pair.certificate_pem().as_bytes(), 0o644)?;
        Ok(pair)
    }

    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    pub fn key(&self) -> &PrivateKey {
        &self.key
    }

    pub fn certificate_pem(&self) -> String {
        self.chain.iter().map(|one| pem::encode("CERTIFICATE", one)).collect()
    }

    pub fn key_pem(&self) -> String {
        self.key.to_pem()
    }

    pub fn identity(&self) -> Result<CertificateIdentity, Error> {
        let leaf = self.chain.first();
        CertificateIdentity::of(
            leaf.ok_or_else(|| Error::malformed("certificate", "there is none"))?,
        )
    }

    /// A kubeconfig for the user that this certificate identifies, in JSON (which is also YAML).
    pub fn kubeconfig(
        &self,
        server: &str,
        authority: &CertificateAuthority,
    ) -> Result<String, Error> {
        let user = self.identity()?.common_name;
        let data = |pem: String| BASE64_STANDARD.encode(pem);
        let config = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "tiphys",
            "clusters": [{ "name": "tiphys", "cluster": {
                "server": server,
                "certificate-authority-data": data(authority.certificate_pem()),
            }}],
            "users": [{ "name": user, "user": {
                "client-certificate-data": data(self.certificate_pem()),
                "client-key-data": data(self.key_pem()),
            }}],
            "contexts": [{ "name": "tiphys", "context": { "cluster": "tiphys", "user": user }}],
        });
        Ok(format!("{config:#}\n"))
    }

    fn satisfies(&self, leaf: &CertificateSpec, now: i64) -> Result<bool, Error> {
        let has = self.identity()?;
        Ok(!has.needs_renewal(now)
            && leaf.dns.iter().all(|name| has.dns.contains(name))
            && leaf.ips.iter().all(|ip| has.ips.contains(ip)))
    }
}
