//! The OpenID Connect discovery documents for service account tokens: `/.well-known/openid-configuration` and
//! `/openid/v1/jwks`.

use std::collections::BTreeSet;

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use x509_parser::{prelude::FromDer, public_key::RSAPublicKey};

use crate::{PublicKey, public_key::Algorithm};

/// The public keys as a JSON Web Key Set.
pub fn key_set(keys: &[PublicKey]) -> String {
    json!({ "keys": keys.iter().map(key).collect::<Vec<_>>() }).to_string()
}

/// The OpenID configuration, as JSON.
pub fn openid_configuration(issuer: &str, keys_at: &str, keys: &[PublicKey]) -> String {
    let algorithms: BTreeSet<_> = keys.iter().map(|key| key.algorithm().name()).collect();
    json!({
        "issuer": issuer,
        "jwks_uri": keys_at,
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": algorithms,
    })
    .to_string()
}

fn key(key: &PublicKey) -> Value {
    let text = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
    let algorithm = key.algorithm();
    let (id, name) = (key.id(), algorithm.name());
    match algorithm {
        Algorithm::Es256 | Algorithm::Es384 => {
            let point = key.raw().get(1..).unwrap_or_default(); // an uncompressed point: 4, x, y
            let (x, y) = point.split_at(point.len() / 2);
            let curve = if algorithm == Algorithm::Es256 { "P-256" } else { "P-384" };
            json!({ "use": "sig", "kid": id, "alg": name, "kty": "EC", "crv": curve, "x": text(x), "y": text(y) })
        }
        Algorithm::Rs256 => {
            let Ok((_, pair)) = RSAPublicKey::from_der(key.raw()) else {
                return json!({ "use": "sig", "kid": id, "alg": name, "kty": "RSA" });
            };
            let number = |bytes: &[u8]| {
                let bytes = bytes.iter().copied().skip_while(|byte| *byte == 0);
                text(&bytes.collect::<Vec<u8>>())
            };
            let (n, e) = (number(pair.modulus), number(pair.exponent));
            json!({ "use": "sig", "kid": id, "alg": name, "kty": "RSA", "n": n, "e": e })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        PrivateKey,
        tests::{EC_SEC1, RSA_PKCS1},
    };

    #[test]
    fn keys_are_shown_with_their_numbers() {
        let public = |pem: &str| PrivateKey::from_pem(pem.as_bytes()).unwrap().public().clone();
        let keys = [public(EC_SEC1), public(RSA_PKCS1)];
        let set: Value = serde_json::from_str(&key_set(&keys)).unwrap();
        assert_eq!(set["keys"][0]["x"].as_str().unwrap().len(), 43);
        assert_eq!(set["keys"][0]["crv"], "P-256");
        assert_eq!(set["keys"][1]["e"], "AQAB");
        assert_eq!(set["keys"][1]["n"].as_str().unwrap().len(), 342);
        let document: Value =
            serde_json::from_str(&openid_configuration("https://i", "https://i/jwks", &keys))
                .unwrap();
        assert_eq!(document["id_token_signing_alg_values_supported"], json!(["ES256", "RS256"]));
    }
}
