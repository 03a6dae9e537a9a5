//! Fuzz targets for credentials, and for responses of external authenticators.

use std::{hint::black_box, sync::LazyLock};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderName, HeaderValue};
use object::{from_json, yaml};
use pki::{
    CertificateAuthority, CertificateIdentity, CertificateSpec, ClientCaVerifier, JsonWebKey,
    PrivateKey, ServiceAccountClaims, TokenSigner, TokenVerifier, UnverifiedJws,
};
use rustls_pki_types::CertificateDer;

/// The current time of the tests, 2026-11-16.
const NOW: i64 = 1_794_787_200;
const ISSUER: &str = "https://kubernetes.default.svc";

static AUTHORITY: LazyLock<CertificateAuthority> =
    LazyLock::new(|| CertificateAuthority::create("ca", NOW).expect("there is randomness"));
static TRUST: LazyLock<ClientCaVerifier> = LazyLock::new(|| {
    ClientCaVerifier::new(std::slice::from_ref(AUTHORITY.certificate()))
        .expect("it is an authority")
});
static SIGNER: LazyLock<(TokenSigner, TokenVerifier)> = LazyLock::new(|| {
    let key = PrivateKey::generate().expect("there is randomness");
    let keys = vec![key.public().clone()];
    let issuers = vec![ISSUER.to_owned()];
    let verifier = TokenVerifier { keys, issuers, audiences: vec!["a".to_owned()] };
    (TokenSigner::new(key, ISSUER), verifier)
});

/// Parses an input. Returns whether it is valid.
pub(super) fn feed(target: &str, input: &[u8], text: &str) -> bool {
    match target {
        "jwt" => token(input, text),
        "certificate" => certificate(input),
        "front-proxy" => apiserver::fuzz_targets::front_proxy(&headers(text)).is_some(),
        "hook-answer" => {
            from_json(input).is_ok_and(|tree| apiserver::fuzz_targets::hook_answer(&tree))
        }
        _ => yaml::from_yaml(text).is_ok_and(|tree| apiserver::fuzz_targets::audit_policy(&tree)),
    }
}

/// The corpus of a target.
pub(super) fn seeds(target: &str) -> &'static [&'static str] {
    match target {
        "jwt" => &[
            r#"{"alg":"ES256","kid":"K"}.{"iss":"https://kubernetes.default.svc","aud":["a"],"exp":1894787200,
            "iat":1794787100,"nbf":1794787100,"jti":"j","sub":"system:serviceaccount:n:s","kubernetes.io":{"namespace":"n",
            "serviceaccount":{"name":"s","uid":"u"},"pod":{"name":"p","uid":"u"},"warnafter":1794790807}}"#,
            r#"{"alg":"RS256","typ":"JWT","jwk":{},"crit":["x"]}.{"iss":"kubernetes/serviceaccount",
            "sub":"system:serviceaccount:n:s","kubernetes.io/serviceaccount/namespace":"n",
            "kubernetes.io/serviceaccount/secret.name":"t","kubernetes.io/serviceaccount/service-account.name":"s"}"#,
            r#"{"alg":"none"}.{"iss":5,"aud":"a","exp":1e300,"iat":-1,"nbf":null}"#,
            r#"{"keys":[{"kty":"EC","crv":"P-256","kid":"a","use":"sig","alg":"ES256",
            "x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"},
            {"kty":"RSA","n":"u1SU1LfVLPHCozMxH2Mo4lgOEePzNm0tRgeLezV6ffAt0gunVTLw7onLRnrq0_IzW7yWR7Q","e":"AQAB"}]}"#,
        ],
        "front-proxy" => &["x-remote-user: alice\nx-remote-uid: 5\nx-remote-group: a\n\
            x-remote-group: b\nx-remote-extra-example.com%2fscopes: x\nx-remote-extra-%zz: y"],
        "hook-answer" => &[
            r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"u","allowed":true,
            "patchType":"JSONPatch","patch":"W3sib3AiOiJhZGQiLCJwYXRoIjoiL2EiLCJ2YWx1ZSI6MX1d","warnings":["w"],
            "auditAnnotations":{"a":"b"}}}"#,
            r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"","allowed":false,
            "status":{"code":418,"message":"m","reason":"r","details":{"causes":[{"field":"f"}],"retryAfterSeconds":5}}}}"#,
        ],
        "audit-policy" => {
            &["apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\n\
            omitManagedFields: true\nrules:\n- level: None\n  users: [alice]\n  verbs: [get]\n  \
            resources: [{group: '', resources: [pods/log, '*/x'], resourceNames: [a]}]\n  \
            namespaces: [default, '']\n- level: RequestResponse\n  userGroups: [g]\n  \
            nonResourceURLs: ['/healthz*', '*']\n- level: Metadata\n  omitStages: [Panic]\n"]
        }
        _ => &[],
    }
}

/// A client certificate chain, and a certificate signing request.
pub(super) fn certificates() -> Vec<Vec<u8>> {
    let leaf = CertificateSpec::client("alice", &["g", "h"]);
    let pair = AUTHORITY.issue(&leaf, NOW).expect("a plain leaf");
    let names = (&["a.example".to_owned()][..], &[[10, 0, 0, 1].into()][..]);
    let request = pki::CertificateRequest::create(pair.key(), "alice", &["g".to_owned()], names);
    let mut all: Vec<Vec<u8>> = pair.chain().iter().map(|own| own.to_vec()).collect();
    all.extend([AUTHORITY.certificate().to_vec(), pair.certificate_pem().into_bytes()]);
    all.extend([request.expect("a plain request"), pair.key().public().to_pem()].map(String::into));
    all
}

/// Verifies a token with this header and claims, unsigned and signed, so that the code behind the signature check is
/// reached as well.
fn token(input: &[u8], text: &str) -> bool {
    let keys = JsonWebKey::parse_set(input);
    let (head, claims) = text.split_once('.').unwrap_or((text, ""));
    let parts = [head, claims, head].map(|part| URL_SAFE_NO_PAD.encode(part));
    let (signer, verifier) = &*SIGNER;
    let mut understood = keys.is_ok();
    for token in [text.to_owned(), parts.join(".")] {
        let _ = black_box(verifier.verify(&token, &[], NOW));
        let jws = UnverifiedJws::parse(&token);
        understood |= jws.is_some();
        if let (Some(jws), Ok(keys)) = (&jws, &keys) {
            black_box(keys.iter().any(|key| key.verifies(jws)));
        }
    }
    serde_json::from_str::<ServiceAccountClaims>(claims).is_ok_and(|claims| {
        let signed = signer.sign(claims).expect("what was read can be written");
        let _ = black_box(verifier.verify(&signed, &[], NOW));
        true
    }) | understood
}

fn certificate(input: &[u8]) -> bool {
    let der = CertificateDer::from(input);
    let _ = black_box(pki::unexpired_certificates(input, NOW));
    let _ = black_box(pki::CertificateRequest::from_pem(input));
    TRUST.identify(std::slice::from_ref(&der), NOW).is_ok()
        | CertificateIdentity::of(&der).is_ok()
        | pki::certificates(input).is_ok()
        | pki::PublicKey::all_from_pem(input).is_ok()
}

fn headers(text: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in text.lines() {
        let (name, value) = line.split_once(": ").unwrap_or((line, ""));
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), value.parse::<HeaderValue>()) {
            headers.append(name, value);
        }
    }
    headers
}
