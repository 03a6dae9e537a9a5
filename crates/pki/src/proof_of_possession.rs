//! Proof of possession: checks that a requester holds a private key, by a signature made with it.

use p521::ecdsa::{Signature, VerifyingKey, signature::hazmat::PrehashVerifier};
use ring::{
    digest::{self, digest},
    signature::{
        ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA384_ASN1, ECDSA_P384_SHA256_ASN1,
        ECDSA_P384_SHA384_ASN1, ED25519, VerificationAlgorithm,
    },
};
use x509_parser::{
    oid_registry, prelude::FromDer, public_key::PublicKey, x509::SubjectPublicKeyInfo,
};

use crate::{jws::verified, pss};

/// The size of a P-521 number in bytes.
const P521: usize = 66;

/// Whether the key, a SubjectPublicKeyInfo, has signed the message. `bits` is the size of the SHA-2 hash; the signature
/// has the encoding of X.509. `None` if the key type is not supported.
pub fn verify_proof_of_possession(
    spki: &[u8],
    bits: u16,
    message: &[u8],
    signature: &[u8],
) -> Option<bool> {
    let (_, info) = SubjectPublicKeyInfo::from_der(spki).ok()?;
    let key = &*info.subject_public_key.data;
    let kind = &info.algorithm.algorithm;
    if *kind == oid_registry::OID_SIG_ED25519 {
        return Some(verified(&ED25519, key, message, signature));
    } else if let Ok(PublicKey::RSA(key)) = info.parsed() {
        return (bits == 256).then(|| pss::verifies(&key, message, signature));
    } else if *kind != oid_registry::OID_KEY_TYPE_EC_PUBLIC_KEY {
        return None;
    }
    let curve = info.algorithm.parameters.as_ref().and_then(|of| of.as_oid().ok())?;
    if curve == oid_registry::OID_NIST_EC_P521 {
        return Some(p521_verified(key, bits, message, signature));
    }
    let of_256 = curve == oid_registry::OID_EC_P256;
    let how: &'static dyn VerificationAlgorithm = match (of_256, bits) {
        (true, 256) => &ECDSA_P256_SHA256_ASN1,
        (true, 384) => &ECDSA_P256_SHA384_ASN1,
        (false, 256) if curve == oid_registry::OID_NIST_EC_P384 => &ECDSA_P384_SHA256_ASN1,
        (false, 384) if curve == oid_registry::OID_NIST_EC_P384 => &ECDSA_P384_SHA384_ASN1,
        _ => return None,
    };
    Some(verified(how, key, message, signature))
}

/// Verifies a P-521 signature, which ring does not support.
fn p521_verified(point: &[u8], bits: u16, message: &[u8], signature: &[u8]) -> bool {
    let how = match bits {
        512 => &digest::SHA512,
        384 => &digest::SHA384,
        _ => &digest::SHA256,
    };
    let hash = digest(how, message);
    // The library rejects short hashes: pads to the full length.
    let hash = hash.as_ref();
    let whole = [&vec![0; P521.saturating_sub(hash.len())][..], hash].concat();
    let (key, by) = (VerifyingKey::from_sec1_bytes(point), Signature::from_der(signature));
    matches!((key, by), (Ok(key), Ok(by)) if key.verify_prehash(&whole, &by).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        PrivateKey,
        tests::{EC_SEC1, P384_PKCS8, RSA_PKCS1},
    };

    #[test]
    fn only_who_has_the_key_can_sign() {
        for (pem, bits) in [(EC_SEC1, 256), (P384_PKCS8, 384)] {
            let key = PrivateKey::from_pem(pem.as_bytes()).expect("a key");
            let (spki, signed) = (key.public().to_der(), key.sign(b"uid").expect("a signature"));
            assert_eq!(verify_proof_of_possession(&spki, bits, b"uid", &signed), Some(true));
            assert_eq!(verify_proof_of_possession(&spki, bits, b"other", &signed), Some(false));
        }
        let rsa = PrivateKey::from_pem(RSA_PKCS1.as_bytes()).expect("a key");
        assert_eq!(
            verify_proof_of_possession(&rsa.public().to_der(), 256, b"uid", b""),
            Some(false)
        );
    }

    /// Created with openssl: a P-521 key and a signature of a SHA-256 hash.
    #[test]
    fn the_largest_curve_is_known() {
        let (spki, signed) = (
            include_bytes!("../tests/data/p521-public.der"),
            include_bytes!("../tests/data/p521-signature.der"),
        );
        assert_eq!(verify_proof_of_possession(spki, 256, b"uid", signed), Some(true));
        assert_eq!(verify_proof_of_possession(spki, 256, b"other", signed), Some(false));
    }
}
