//! Public keys of certificates and tokens.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::{
    digest,
    signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, RSA_PKCS1_2048_8192_SHA256,
        UnparsedPublicKey, VerificationAlgorithm,
    },
};
use rustls_pki_types::pem::{PemObject, SectionKind};
use x509_parser::{oid_registry, prelude::FromDer, x509::SubjectPublicKeyInfo};

use crate::{Error, PrivateKey, der, pem};

const EC_PUBLIC_KEY: &[u64] = &[1, 2, 840, 10045, 2, 1];
const P256: &[u64] = &[1, 2, 840, 10045, 3, 1, 7];
const P384: &[u64] = &[1, 3, 132, 0, 34];
const ECDSA_WITH_SHA256: &[u64] = &[1, 2, 840, 10045, 4, 3, 2];
const ECDSA_WITH_SHA384: &[u64] = &[1, 2, 840, 10045, 4, 3, 3];
const RSA_ENCRYPTION: &[u64] = &[1, 2, 840, 113_549, 1, 1, 1];
const SHA256_WITH_RSA: &[u64] = &[1, 2, 840, 113_549, 1, 1, 11];

/// Key type and signature scheme, with JOSE's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    Es256,
    Es384,
    Rs256,
}

/// A public key that can verify signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    algorithm: Algorithm,
    /// An elliptic curve point, or an RSA key in PKCS#1.
    raw: Vec<u8>,
    id: String,
}

impl Algorithm {
    pub fn name(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::Rs256 => "RS256",
        }
    }

    /// The AlgorithmIdentifier of keys.
    pub(crate) fn key_algorithm(self) -> Vec<u8> {
        let (family, of) = match self {
            Self::Es256 => (EC_PUBLIC_KEY, der::oid(P256)),
            Self::Es384 => (EC_PUBLIC_KEY, der::oid(P384)),
            Self::Rs256 => (RSA_ENCRYPTION, der::null()),
        };
        der::sequence(&[der::oid(family), of])
    }

    /// The AlgorithmIdentifier of signatures.
    pub(crate) fn signature_algorithm(self) -> Vec<u8> {
        match self {
            Self::Es256 => der::sequence(&[der::oid(ECDSA_WITH_SHA256)]),
            Self::Es384 => der::sequence(&[der::oid(ECDSA_WITH_SHA384)]),
            Self::Rs256 => der::sequence(&[der::oid(SHA256_WITH_RSA), der::null()]),
        }
    }
}

impl PublicKey {
    pub(crate) fn new(algorithm: Algorithm, raw: &[u8]) -> Self {
        let mut key = Self { algorithm, raw: raw.to_vec(), id: String::new() };
        let hash = digest::digest(&digest::SHA256, &key.to_der());
        key.id = BASE64_URL_SAFE_NO_PAD.encode(hash);
        key
    }

    /// All public keys in `pem`, taken from public keys, private keys and certificates.
    pub fn all_from_pem(pem: &[u8]) -> Result<Vec<Self>, Error> {
        let mut keys = Vec::new();
        for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(pem) {
            let (kind, der) = section.map_err(|error| Error::malformed("public key", error))?;
            match kind {
                SectionKind::PublicKey => keys.push(Self::from_der(&der)?),
                SectionKind::Certificate => keys.push(Self::of_certificate(&der)?),
                SectionKind::PrivateKey => keys.push(of_private("PRIVATE KEY", &der)?),
                SectionKind::RsaPrivateKey => keys.push(of_private("RSA PRIVATE KEY", &der)?),
                SectionKind::EcPrivateKey => keys.push(of_private("EC PRIVATE KEY", &der)?),
                _ => {}
            }
        }
        if keys.is_empty() {
            return Err(Error::malformed("public key", "no key in it"));
        }
        Ok(keys)
    }

    /// Parses a SubjectPublicKeyInfo.
    pub fn from_der(spki: &[u8]) -> Result<Self, Error> {
        let (_, info) = SubjectPublicKeyInfo::from_der(spki)
            .map_err(|error| Error::malformed("public key", error))?;
        Self::from_info(&info)
    }

    pub fn to_pem(&self) -> String {
        pem::encode("PUBLIC KEY", &self.to_der())
    }

    /// Encodes the SubjectPublicKeyInfo.
    pub fn to_der(&self) -> Vec<u8> {
        der::sequence(&[self.algorithm.key_algorithm(), der::bits(&self.raw, 0)])
    }

    /// The key id (`kid`) in tokens: a hash of the key.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The key with another key id.
    pub fn with_key_id(self, id: &str) -> Self {
        Self { id: id.to_owned(), ..self }
    }

    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    pub(crate) fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// Whether `signature`, in the encoding of JOSE, was made with this key.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let how: &dyn VerificationAlgorithm = match self.algorithm {
            Algorithm::Es256 => &ECDSA_P256_SHA256_FIXED,
            Algorithm::Es384 => &ECDSA_P384_SHA384_FIXED,
            Algorithm::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
        };
        UnparsedPublicKey::new(how, &self.raw).verify(message, signature).is_ok()
    }

    pub(crate) fn of_certificate(der: &[u8]) -> Result<Self, Error> {
        let (_, certificate) = x509_parser::parse_x509_certificate(der)
            .map_err(|error| Error::malformed("certificate", error))?;
        Self::from_info(certificate.public_key())
    }

    pub(crate) fn from_info(info: &SubjectPublicKeyInfo<'_>) -> Result<Self, Error> {
        let raw = &*info.subject_public_key.data;
        let kind = &info.algorithm.algorithm;
        if *kind == oid_registry::OID_PKCS1_RSAENCRYPTION {
            return Ok(Self::new(Algorithm::Rs256, raw));
        }
        if *kind != oid_registry::OID_KEY_TYPE_EC_PUBLIC_KEY {
            return Err(Error::UnsupportedKey("these public"));
        }
        let curve = info.algorithm.parameters.as_ref().and_then(|p| p.as_oid().ok());
        match curve {
            Some(curve) if curve == oid_registry::OID_EC_P256 => {
                Ok(Self::new(Algorithm::Es256, raw))
            }
            Some(curve) if curve == oid_registry::OID_NIST_EC_P384 => {
                Ok(Self::new(Algorithm::Es384, raw))
            }
            _ => Err(Error::UnsupportedKey("these elliptic curve")),
        }
    }
}

fn of_private(label: &str, der: &[u8]) -> Result<PublicKey, Error> {
    Ok(PrivateKey::from_pem(pem::encode(label, der).as_bytes())?.public().clone())
}
