//! Verification of tokens of external issuers: JSON Web Signatures with published keys (RFC 7515, 7517, 7518).

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;

use crate::Error;

/// The supported algorithms.
pub const SIGNING_ALGORITHMS: [&str; 9] =
    ["ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512"];
const LARGEST: usize = 64 * 1024;

/// A parsed token in compact form, whose signature has not been verified.
#[derive(Debug)]
pub struct UnverifiedJws<'a> {
    pub algorithm: String,
    /// The id of the signing key (`kid`); empty if not given.
    pub key: String,
    /// JSON, if it is a JWT.
    pub payload: Vec<u8>,
    message: &'a str,
    signature: Vec<u8>,
}

/// A public key that an issuer publishes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonWebKey {
    id: String,
    material: KeyMaterial,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum KeyMaterial {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// Uncompressed points: 4, x, y.
    P256(Vec<u8>),
    P384(Vec<u8>),
    P521(Vec<u8>),
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: String,
}

#[derive(Deserialize)]
struct JsonWebKeySet {
    keys: Vec<serde_json::Value>,
}

impl<'a> UnverifiedJws<'a> {
    /// Parses a token; `None` if it is malformed.
    pub fn parse(token: &'a str) -> Option<Self> {
        if token.len() > LARGEST {
            return None;
        }
        let (message, signature) = token.rsplit_once('.')?;
        let (header, body) = message.split_once('.')?;
        if body.contains('.') {
            return None;
        }
        let bytes = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).ok();
        let Header { alg, kid } = serde_json::from_slice(&bytes(header)?).ok()?;
        Some(Self {
            algorithm: alg,
            key: kid,
            payload: bytes(body)?,
            message,
            signature: bytes(signature)?,
        })
    }
}

impl JsonWebKey {
    /// The supported signing keys of a key set; others are ignored.
    pub fn parse_set(json: &[u8]) -> Result<Vec<Self>, Error> {
        let set: JsonWebKeySet =
            serde_json::from_slice(json).map_err(|error| Error::malformed("key set", error))?;
        Ok(set.keys.iter().filter_map(Self::read).collect())
    }

    /// Whether this key has signed the token.
    pub fn verifies(&self, token: &UnverifiedJws<'_>) -> bool {
        if !token.key.is_empty() && token.key != self.id {
            return false;
        }
        let (message, signature) = (token.message.as_bytes(), &*token.signature);
        match &self.material {
            KeyMaterial::Rsa { n, e } => rsa(&token.algorithm).is_some_and(|how| {
                RsaPublicKeyComponents { n, e }.verify(how, message, signature).is_ok()
            }),
            KeyMaterial::P256(point) if token.algorithm == "ES256" => {
                verified(&ECDSA_P256_SHA256_FIXED, point, message, signature)
            }
            KeyMaterial::P384(point) if token.algorithm == "ES384" => {
                verified(&ECDSA_P384_SHA384_FIXED, point, message, signature)
            }
            KeyMaterial::P521(point) if token.algorithm == "ES512" => {
                p521::verifies(point, message, signature)
            }
            KeyMaterial::P256(_) | KeyMaterial::P384(_) | KeyMaterial::P521(_) => false,
        }
    }

    fn read(key: &serde_json::Value) -> Option<Self> {
        let text = |name: &str| key.get(name).and_then(serde_json::Value::as_str);
        let bytes = |name: &str| BASE64_URL_SAFE_NO_PAD.decode(text(name)?).ok();
        if text("use").is_some_and(|usage| usage != "sig") {
            return None;
        }
        let point = |size: usize| {
            let (x, y) = (bytes("x")?, bytes("y")?);
            (x.len() == size && y.len() == size).then(|| [&[4], &*x, &*y].concat())
        };
        let material = match (text("kty")?, text("crv")) {
            ("RSA", _) => KeyMaterial::Rsa { n: bytes("n")?, e: bytes("e")? },
            ("EC", Some("P-256")) => KeyMaterial::P256(point(32)?),
            ("EC", Some("P-384")) => KeyMaterial::P384(point(48)?),
            ("EC", Some("P-521")) => KeyMaterial::P521(point(66)?),
            _ => return None,
        };
        Some(Self { id: text("kid").unwrap_or_default().to_owned(), material })
    }
}

fn rsa(algorithm: &str) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        "RS256" => &RSA_PKCS1_2048_8192_SHA256,
        "RS384" => &RSA_PKCS1_2048_8192_SHA384,
        "RS512" => &RSA_PKCS1_2048_8192_SHA512,
        "PS256" => &RSA_PSS_2048_8192_SHA256,
        "PS384" => &RSA_PSS_2048_8192_SHA384,
        "PS512" => &RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

/// P-521, which ring does not support.
mod p521 {
    use p521::ecdsa::{Signature, VerifyingKey, signature::hazmat::PrehashVerifier};
    use ring::digest::{SHA512, digest};

    pub(super) fn verifies(point: &[u8], message: &[u8], signature: &[u8]) -> bool {
        let hash = digest(&SHA512, message);
        let key = VerifyingKey::from_sec1_bytes(point);
        let signature = Signature::from_slice(signature);
        matches!((key, signature), (Ok(key), Ok(signature))
            if key.verify_prehash(hash.as_ref(), &signature).is_ok())
    }
}

pub(crate) fn verified(
    how: &'static dyn VerificationAlgorithm,
    key: &[u8],
    message: &[u8],
    signature: &[u8],
) -> bool {
    UnparsedPublicKey::new(how, key).verify(message, signature).is_ok()
}

#[cfg(test)]
mod tests {
    use ring::{
        rand::SystemRandom,
        signature::{
            RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512,
            RsaEncoding, RsaKeyPair,
        },
    };

    use super::*;
    use crate::{
        PrivateKey, key_set,
        tests::{EC_SEC1, P384_PKCS8, RSA_PKCS1},
    };

    const P521_TOKEN: &str = include_str!("../tests/data/p521-token.txt");

    fn part(text: &str) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(text)
    }

    fn message(algorithm: &str, key: &str) -> String {
        let header = format!(r#"{{"alg":"{algorithm}","kid":"{key}"}}"#);
        format!("{}.{}", part(&header), part(r#"{"sub":"a"}"#))
    }

    fn token(message: &str, signature: &[u8]) -> String {
        format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
    }

    #[test]
    fn published_keys_verify_what_they_signed_and_nothing_else() {
        for pem in [EC_SEC1, P384_PKCS8, RSA_PKCS1] {
            let key = PrivateKey::from_pem(pem.as_bytes()).unwrap();
            let public = key.public();
            let set =
                JsonWebKey::parse_set(key_set(std::slice::from_ref(public)).as_bytes()).unwrap();
            let text = message(public.algorithm().name(), public.id());
            let signed = token(&text, &key.sign_jose(text.as_bytes()).unwrap());
            let read = UnverifiedJws::parse(&signed).unwrap();
            assert_eq!(read.payload, br#"{"sub":"a"}"#);
            assert!(set[0].verifies(&read));
            let other = message("none", public.id());
            assert!(!set[0].verifies(&UnverifiedJws::parse(&token(&other, &[])).unwrap()));
            let other = message(public.algorithm().name(), "another");
            let signed = token(&other, &key.sign_jose(other.as_bytes()).unwrap());
            assert!(
                !set[0].verifies(&UnverifiedJws::parse(&signed).unwrap()),
                "it names another key"
            );
        }
    }

    #[test]
    fn all_ways_in_which_rsa_signs_are_known() {
        let public = PrivateKey::from_pem(RSA_PKCS1.as_bytes()).unwrap().public().clone();
        let set = JsonWebKey::parse_set(key_set(&[public]).as_bytes()).unwrap();
        let der = PrivateKey::from_pem(RSA_PKCS1.as_bytes()).unwrap().to_der();
        let pair = RsaKeyPair::from_pkcs8(der.secret_der()).unwrap();
        let ways: [(&str, &dyn RsaEncoding); 5] = [
            ("RS384", &RSA_PKCS1_SHA384),
            ("RS512", &RSA_PKCS1_SHA512),
            ("PS256", &RSA_PSS_SHA256),
            ("PS384", &RSA_PSS_SHA384),
            ("PS512", &RSA_PSS_SHA512),
        ];
        for (name, way) in ways {
            let text = message(name, "");
            let mut signature = vec![0; pair.public().modulus_len()];
            pair.sign(way, &SystemRandom::new(), text.as_bytes(), &mut signature).unwrap();
            assert!(
                set[0].verifies(&UnverifiedJws::parse(&token(&text, &signature)).unwrap()),
                "{name}"
            );
            signature[9] ^= 1;
            assert!(
                !set[0].verifies(&UnverifiedJws::parse(&token(&text, &signature)).unwrap()),
                "{name}"
            );
        }
    }

    /// Created with openssl: a P-521 key and a signature.
    #[test]
    fn the_largest_curve_is_known() {
        let (set, signed) = (include_bytes!("../tests/data/p521-set.json"), P521_TOKEN.trim());
        let set = JsonWebKey::parse_set(set).unwrap();
        assert!(set[0].verifies(&UnverifiedJws::parse(signed).unwrap()));
        let (message, signature) = signed.rsplit_once('.').unwrap();
        let mut other = BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap();
        other[70] ^= 1;
        assert!(!set[0].verifies(&UnverifiedJws::parse(&token(message, &other)).unwrap()));
        assert!(!set[0].verifies(&UnverifiedJws::parse(&token(message, &[0; 132])).unwrap()));
    }

    #[test]
    fn keys_for_other_purposes_are_left_out() {
        let set = br#"{"keys":[{"kty":"oct","k":"AA"},{"kty":"EC","crv":"P-521","x":"AA","y":"AA"},
            {"kty":"EC","crv":"P-256","x":"AA","y":"AA"},{"kty":"RSA","use":"enc","n":"AA","e":"AQAB"}]}"#;
        assert_eq!(JsonWebKey::parse_set(set).unwrap(), []);
        assert!(JsonWebKey::parse_set(b"[]").is_err());
        for bad in ["", "a.b", "a.b.c", "a.b.c.d"] {
            assert!(UnverifiedJws::parse(bad).is_none(), "{bad}");
        }
    }
}
