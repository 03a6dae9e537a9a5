//! Private keys. Generated keys are ECDSA P-256; loaded ones may also be P-384 or RSA, in PKCS#8, SEC1 or PKCS#1.

use std::fmt;

use ring::{
    rand::SystemRandom,
    rsa,
    signature::{
        ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P256_SHA256_FIXED_SIGNING,
        ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, KeyPair,
        RSA_PKCS1_SHA256,
    },
};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject};

use crate::{Error, PublicKey, der, pem, public_key::Algorithm};

const VERSION_0: &[u8] = &[0];

/// A private key that can sign.
pub struct PrivateKey {
    /// PKCS#8, whatever the original format.
    der: Vec<u8>,
    public: PublicKey,
    pair: Pair,
}

enum Pair {
    /// The same key twice: X.509 and JOSE encode signatures differently.
    Ecdsa {
        asn1: Box<EcdsaKeyPair>,
        fixed: Box<EcdsaKeyPair>,
    },
    Rsa(Box<rsa::KeyPair>),
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.public.id())
    }
}

impl PrivateKey {
    /// Generates an ECDSA P-256 key.
    pub fn generate() -> Result<Self, Error> {
        Self::generate_ecdsa(Algorithm::Es256)
    }

    /// Generates a key of the type with this name, as in a pod's `podCertificate` projection.
    pub fn generate_named(name: &str) -> Result<Self, Error> {
        match name {
            "ECDSAP256" => Self::generate_ecdsa(Algorithm::Es256),
            "ECDSAP384" => Self::generate_ecdsa(Algorithm::Es384),
            "RSA3072" | "RSA4096" => Err(Error::UnsupportedKey("newly made RSA")),
            "ECDSAP521" => Err(Error::UnsupportedKey("ECDSA P-521")),
            "ED25519" => Err(Error::UnsupportedKey("Ed25519")),
            _ => Err(Error::UnsupportedKey("such")),
        }
    }

    fn generate_ecdsa(algorithm: Algorithm) -> Result<Self, Error> {
        let curve = match algorithm {
            Algorithm::Es384 => &ECDSA_P384_SHA384_ASN1_SIGNING,
            _ => &ECDSA_P256_SHA256_ASN1_SIGNING,
        };
        let made = EcdsaKeyPair::generate_pkcs8(curve, &SystemRandom::new());
        Self::ecdsa(made.map_err(|_| Error::Random)?.as_ref(), algorithm)
    }

    /// Parses the first private key in `pem`: PKCS#8, SEC1 or PKCS#1.
    pub fn from_pem(pem: &[u8]) -> Result<Self, Error> {
        let key = PrivateKeyDer::from_pem_slice(pem)
            .map_err(|error| Error::malformed("private key", error))?;
        match key {
            PrivateKeyDer::Pkcs8(key) => Self::from_pkcs8(key.secret_pkcs8_der()),
            PrivateKeyDer::Pkcs1(key) => {
                Self::rsa(&envelope(&Algorithm::Rs256.key_algorithm(), key.secret_pkcs1_der()))
            }
            PrivateKeyDer::Sec1(key) => [Algorithm::Es256, Algorithm::Es384]
                .into_iter()
                .find_map(|a| {
                    Self::ecdsa(&envelope(&a.key_algorithm(), key.secret_sec1_der()), a).ok()
                })
                .ok_or(Error::UnsupportedKey("these elliptic curve")),
            _ => Err(Error::UnsupportedKey("these")),
        }
    }

    /// Encodes the key as PKCS#8.
    pub fn to_pem(&self) -> String {
        pem::encode("PRIVATE KEY", &self.der)
    }

    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// The key for use in TLS.
    pub fn to_der(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.der.clone()).into()
    }

    /// A signature in the encoding of X.509.
    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        match &self.pair {
            Pair::Ecdsa { asn1, .. } => sign_ecdsa(asn1, message),
            Pair::Rsa(pair) => sign_rsa(pair, message),
        }
    }

    /// A signature in the encoding of JOSE.
    pub fn sign_jose(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        match &self.pair {
            Pair::Ecdsa { fixed, .. } => sign_ecdsa(fixed, message),
            Pair::Rsa(pair) => sign_rsa(pair, message),
        }
    }

    fn from_pkcs8(pkcs8: &[u8]) -> Result<Self, Error> {
        Self::ecdsa(pkcs8, Algorithm::Es256)
            .or_else(|_| Self::ecdsa(pkcs8, Algorithm::Es384))
            .or_else(|_| Self::rsa(pkcs8))
            .map_err(|_| Error::UnsupportedKey("these PKCS#8"))
    }

    fn ecdsa(pkcs8: &[u8], algorithm: Algorithm) -> Result<Self, Error> {
        let (asn1, fixed) = match algorithm {
            Algorithm::Es384 => (&ECDSA_P384_SHA384_ASN1_SIGNING, &ECDSA_P384_SHA384_FIXED_SIGNING),
            _ => (&ECDSA_P256_SHA256_ASN1_SIGNING, &ECDSA_P256_SHA256_FIXED_SIGNING),
        };
        let random = SystemRandom::new();
        let read = |form| {
            EcdsaKeyPair::from_pkcs8(form, pkcs8, &random)
                .map(Box::new)
                .map_err(|error| Error::malformed("private key", error))
        };
        let pair = Pair::Ecdsa { asn1: read(asn1)?, fixed: read(fixed)? };
        Ok(Self::new(pkcs8, algorithm, pair))
    }

    fn rsa(pkcs8: &[u8]) -> Result<Self, Error> {
        let pair = rsa::KeyPair::from_pkcs8(pkcs8)
            .map_err(|error| Error::malformed("private key", error))?;
        Ok(Self::new(pkcs8, Algorithm::Rs256, Pair::Rsa(Box::new(pair))))
    }

    fn new(pkcs8: &[u8], algorithm: Algorithm, pair: Pair) -> Self {
        let public = match &pair {
            Pair::Ecdsa { asn1, .. } => asn1.public_key().as_ref(),
            Pair::Rsa(pair) => pair.public().as_ref(),
        };
        let public = PublicKey::new(algorithm, public);
        Self { der: pkcs8.to_vec(), public, pair }
    }
}

fn sign_ecdsa(pair: &EcdsaKeyPair, message: &[u8]) -> Result<Vec<u8>, Error> {
    let signature = pair.sign(&SystemRandom::new(), message).map_err(|_| Error::Sign)?;
    Ok(signature.as_ref().to_vec())
}

fn sign_rsa(pair: &rsa::KeyPair, message: &[u8]) -> Result<Vec<u8>, Error> {
    let mut signature = vec![0; pair.public().modulus_len()];
    pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature)
        .map_err(|_| Error::Sign)?;
    Ok(signature)
}

/// Wraps an older key format in PKCS#8.
fn envelope(algorithm: &[u8], inner: &[u8]) -> Vec<u8> {
    der::sequence(&[der::integer(VERSION_0), algorithm.to_vec(), der::octets(inner)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{EC_SEC1, P384_PKCS8, RSA_PKCS1, RSA_PKCS8};

    #[test]
    fn reads_all_three_forms_and_writes_one() {
        for (pem, algorithm) in [
            (EC_SEC1, Algorithm::Es256),
            (P384_PKCS8, Algorithm::Es384),
            (RSA_PKCS1, Algorithm::Rs256),
            (RSA_PKCS8, Algorithm::Rs256),
        ] {
            let key = PrivateKey::from_pem(pem.as_bytes()).unwrap();
            assert_eq!(key.public().algorithm(), algorithm);
            let again = PrivateKey::from_pem(key.to_pem().as_bytes()).unwrap();
            assert_eq!(again.public().id(), key.public().id());
        }
        let same =
            |pem: &str| PrivateKey::from_pem(pem.as_bytes()).unwrap().public().id().to_owned();
        assert_eq!(same(RSA_PKCS1), same(RSA_PKCS8));
    }

    #[test]
    fn makes_keys_by_the_names_that_pods_use() {
        for (name, algorithm) in [("ECDSAP256", Algorithm::Es256), ("ECDSAP384", Algorithm::Es384)]
        {
            assert_eq!(PrivateKey::generate_named(name).unwrap().public().algorithm(), algorithm);
        }
        for other in ["RSA3072", "ED25519", "DSA"] {
            assert!(matches!(PrivateKey::generate_named(other), Err(Error::UnsupportedKey(_))));
        }
    }

    #[test]
    fn says_what_it_cannot_read() {
        assert!(matches!(PrivateKey::from_pem(b"nothing"), Err(Error::Malformed { .. })));
        let odd = pem::encode("PRIVATE KEY", b"not a key");
        assert!(matches!(PrivateKey::from_pem(odd.as_bytes()), Err(Error::UnsupportedKey(_))));
    }
}
