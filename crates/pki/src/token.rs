//! Service account tokens: JSON Web Signatures in compact form.

use std::fmt;

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

use crate::{
    BoundObjects, Error, PrivateKey, PublicKey, ServiceAccountClaims, claims::LEGACY_ISSUER,
};

/// Tolerated difference between clocks, in seconds.
const LEEWAY: i64 = 60;
const LARGEST: usize = 16 * 1024;

/// Signs service account tokens.
#[derive(Debug)]
pub struct TokenSigner {
    key: PrivateKey,
    issuer: String,
}

/// Verifies tokens signed by any of the keys and issued by any of the issuers.
#[derive(Clone, Debug)]
pub struct TokenVerifier {
    pub keys: Vec<PublicKey>,
    pub issuers: Vec<String>,
    /// The API server's own audiences, which apply to tokens without an audience.
    pub audiences: Vec<String>,
}

/// A token whose signature and claims are valid.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifiedToken {
    pub claims: ServiceAccountClaims,
    /// The requested audiences that the token is valid for.
    pub audiences: Vec<String>,
}

/// Why a service account token was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// The token was not issued by this cluster; the next authenticator in the chain may accept it.
    NotOurToken,
    Invalid(&'static str),
    /// None of the keys has signed the token.
    UnknownKey,
    /// The audiences of the token, and those that were requested.
    Audience(Vec<String>, Vec<String>),
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOurToken => f.write_str("not a token of this cluster's service accounts"),
            Self::Invalid(why) => f.write_str(why),
            Self::UnknownKey => f.write_str("no key of this cluster has signed the token"),
            Self::Audience(meant, wanted) => write!(
                f,
                "token audiences {meant:?} is invalid for the target audiences {wanted:?}"
            ),
        }
    }
}

impl std::error::Error for TokenError {}

#[derive(Serialize, Deserialize)]
struct Header {
    alg: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    kid: String,
}

impl TokenSigner {
    pub fn new(key: PrivateKey, issuer: impl Into<String>) -> Self {
        Self { key, issuer: issuer.into() }
    }

    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Signs `claims`; sets the issuer and an id if they have none.
    pub fn sign(&self, claims: ServiceAccountClaims) -> Result<String, Error> {
        let public = self.key.public();
        let header = Header { alg: public.algorithm().name().into(), kid: public.id().into() };
        let message = format!("{}.{}", part(&header)?, claims.payload(&self.issuer)?);
        let signature = self.key.sign_jose(message.as_bytes())?;
        Ok(format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
    }
}

impl ServiceAccountClaims {
    /// The payload of a token, for an external signer; sets the issuer and an id if there are none.
    pub fn payload(mut self, issuer: &str) -> Result<String, Error> {
        if self.issuer.is_empty() {
            issuer.clone_into(&mut self.issuer);
        }
        if self.id.is_empty() && !self.is_legacy() {
            self.id = uuid()?;
        }
        part(&self)
    }
}

impl TokenVerifier {
    /// Verifies `token` at the time `now`, for any of the audiences `wanted` (empty: our own).
    pub fn verify(
        &self,
        token: &str,
        wanted: &[String],
        now: i64,
    ) -> Result<VerifiedToken, TokenError> {
        self.verify_with(&self.keys, token, wanted, now)
    }

    /// Like `verify`, with these keys.
    pub fn verify_with(
        &self,
        keys: &[PublicKey],
        token: &str,
        wanted: &[String],
        now: i64,
    ) -> Result<VerifiedToken, TokenError> {
        if token.len() > LARGEST {
            return Err(TokenError::NotOurToken);
        }
        let Some((message, signature)) = token.rsplit_once('.') else {
            return Err(TokenError::NotOurToken);
        };
        let Some((header, body)) = message.split_once('.').filter(|(_, body)| !body.contains('.'))
        else {
            return Err(TokenError::NotOurToken);
        };
        let claims: ServiceAccountClaims = read(body).ok_or(TokenError::NotOurToken)?;
        if claims.issuer != LEGACY_ISSUER && !self.issuers.contains(&claims.issuer) {
            return Err(TokenError::NotOurToken);
        }
        let header: Header =
            read(header).ok_or(TokenError::Invalid("the header is not readable"))?;
        let signature = BASE64_URL_SAFE_NO_PAD
            .decode(signature)
            .map_err(|_| TokenError::Invalid("the signature is not readable"))?;
        let signed = keys
            .iter()
            .filter(|key| header.kid.is_empty() || key.id() == header.kid)
            .filter(|key| key.algorithm().name() == header.alg)
            .any(|key| key.verifies(message.as_bytes(), &signature));
        if !signed {
            return Err(TokenError::UnknownKey);
        }
        validate_claims(&claims, now)?;
        let audiences = self.shared_audiences(&claims, wanted)?;
        Ok(VerifiedToken { claims, audiences })
    }

    fn shared_audiences(
        &self,
        claims: &ServiceAccountClaims,
        wanted: &[String],
    ) -> Result<Vec<String>, TokenError> {
        let wanted = if wanted.is_empty() { &self.audiences } else { wanted };
        let meant = if claims.audiences.is_empty() { &self.audiences } else { &claims.audiences };
        let shared: Vec<_> = wanted.iter().filter(|one| meant.contains(one)).cloned().collect();
        if shared.is_empty() {
            return Err(TokenError::Audience(meant.clone(), wanted.to_vec()));
        }
        Ok(shared)
    }
}

fn validate_claims(claims: &ServiceAccountClaims, now: i64) -> Result<(), TokenError> {
    if claims.bound.is_none() && !claims.is_legacy() {
        return Err(TokenError::Invalid("the token names no service account"));
    }
    if claims.bound.as_ref().is_some_and(BoundObjects::has_unsupported) {
        return Err(TokenError::Invalid("tokens that are bound to webhooks are not supported"));
    }
    if claims.not_before.is_some_and(|start| now + LEEWAY < start) {
        return Err(TokenError::Invalid("service account token is not valid yet"));
    }
    if claims.expires.is_some_and(|end| now - LEEWAY > end) {
        return Err(TokenError::Invalid("service account token has expired"));
    }
    if claims.issued.is_some_and(|start| now + LEEWAY < start) {
        return Err(TokenError::Invalid("service account token is issued in the future"));
    }
    Ok(())
}

fn part(value: &impl Serialize) -> Result<String, Error> {
    let json = serde_json::to_vec(value).map_err(|error| Error::malformed("token", error))?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(json))
}

fn read<T: for<'a> Deserialize<'a>>(part: &str) -> Option<T> {
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

/// A random UUID.
fn uuid() -> Result<String, Error> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| Error::Random)?;
    Ok(object::uuid_from_random(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        BoundObjectRef,
        tests::{EC_SEC1, NOW, P384_PKCS8, RSA_PKCS1},
    };

    const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

    fn bound() -> ServiceAccountClaims {
        let bound = BoundObjects {
            namespace: "kube-system".into(),
            service_account: BoundObjectRef { name: "dns".into(), uid: "1".into() },
            pod: Some(BoundObjectRef { name: "dns-0".into(), uid: "2".into() }),
            ..BoundObjects::default()
        };
        ServiceAccountClaims::bound(bound, vec![ISSUER.into()], 3600, NOW)
    }

    fn pair(pem: &str) -> (TokenSigner, TokenVerifier) {
        let key = PrivateKey::from_pem(pem.as_bytes()).unwrap();
        let keys = vec![PrivateKey::generate().unwrap().public().clone(), key.public().clone()];
        let (issuers, audiences) = (vec![ISSUER.into()], vec![ISSUER.into()]);
        (TokenSigner::new(key, ISSUER), TokenVerifier { keys, issuers, audiences })
    }

    #[test]
    fn what_was_signed_is_read_until_it_ends() {
        for pem in [EC_SEC1, P384_PKCS8, RSA_PKCS1] {
            let (signer, verifier) = pair(pem);
            let token = signer.sign(bound()).unwrap();
            let read = verifier.verify(&token, &[], NOW).unwrap();
            assert_eq!(read.claims.service_account(), ("kube-system", "dns", "1"));
            assert_eq!(read.claims.subject, "system:serviceaccount:kube-system:dns");
            assert_eq!(read.claims.id.len(), 36);
            assert_eq!(read.audiences, [ISSUER]);
            let late = verifier.verify(&token, &[], NOW + 3661);
            assert_eq!(late, Err(TokenError::Invalid("service account token has expired")));
            let early = verifier.verify(&token, &[], NOW - 61);
            assert_eq!(early, Err(TokenError::Invalid("service account token is not valid yet")));
            let other = verifier.verify(&token, &["vault".into()], NOW);
            assert!(matches!(other, Err(TokenError::Audience(..))));
        }
    }

    #[test]
    fn nothing_else_is() {
        let (signer, verifier) = pair(EC_SEC1);
        let token = signer.sign(bound()).unwrap();
        let (message, signature) = token.rsplit_once('.').unwrap();
        let (header, _) = message.split_once('.').unwrap();
        let mut claims = bound();
        claims.issuer = ISSUER.into();
        claims.subject = "system:serviceaccount:kube-system:admin".into();
        let forged = format!("{header}.{}.{signature}", part(&claims).unwrap());
        assert_eq!(verifier.verify(&forged, &[], NOW), Err(TokenError::UnknownKey));
        let none = part(&Header { alg: "none".into(), kid: String::new() }).unwrap();
        let unsigned = format!("{none}.{}.", part(&claims).unwrap());
        assert_eq!(verifier.verify(&unsigned, &[], NOW), Err(TokenError::UnknownKey));
        let stranger = TokenSigner::new(PrivateKey::generate().unwrap(), "https://elsewhere");
        let token = stranger.sign(bound()).unwrap();
        assert_eq!(verifier.verify(&token, &[], NOW), Err(TokenError::NotOurToken));
        assert_eq!(verifier.verify("a.b", &[], NOW), Err(TokenError::NotOurToken));
    }

    #[test]
    fn a_bond_that_cannot_be_checked_is_refused() {
        let (signer, verifier) = pair(EC_SEC1);
        let mut claims = bound();
        if let Some(bound) = &mut claims.bound {
            bound.validating_webhook = Some(BoundObjectRef::default());
        }
        let token = signer.sign(claims).unwrap();
        assert!(matches!(verifier.verify(&token, &[], NOW), Err(TokenError::Invalid(_))));
    }

    #[test]
    fn tokens_of_secrets_have_no_end() {
        let (signer, verifier) = pair(RSA_PKCS1);
        let account = BoundObjectRef { name: "dns".into(), uid: "1".into() };
        let token =
            signer.sign(ServiceAccountClaims::legacy("kube-system", "dns-token", account)).unwrap();
        let read = verifier.verify(&token, &[], NOW + 1_000_000_000).unwrap();
        assert!(read.claims.is_legacy());
        assert_eq!(read.claims.service_account(), ("kube-system", "dns", "1"));
        assert_eq!(read.claims.legacy_secret, "dns-token");
    }
}
