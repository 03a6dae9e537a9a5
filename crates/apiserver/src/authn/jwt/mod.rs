//! The JWT authenticator, for tokens of OpenID Connect and other issuers: the issuer's keys verify
//! a token, and the claim mappings of the configuration turn it into a user.

mod check;
mod config;
mod config_fields;
mod distributed_claims;
mod flags;
mod keys;
mod mapping;

use std::sync::Arc;

use http::request::Parts;
use object::{Clock, Value, from_json};
use pki::{Reloadable, UnverifiedJws};
use server::{AuthenticateFuture, Authenticator, Peer, UserInfo};

pub(crate) use self::config::{AnonymousConfig, AuthenticationConfiguration};
pub use self::flags::OidcFlags;
use self::{distributed_claims::DistributedClaims, keys::RemoteKeySet, mapping::ClaimMappings};
use crate::egress::EgressSelector;

/// How far an issuer's clock may be ahead of ours, in seconds.
const LEEWAY: i64 = 5 * 60;

/// All configured issuers, which may be reloaded while the server runs.
#[derive(Debug)]
pub(crate) struct JwtAuthenticator {
    issuers: Reloadable<Vec<JwtIssuer>>,
    clock: Arc<dyn Clock>,
}

/// One issuer: how its tokens are verified, and how its claims are mapped to a user.
#[derive(Debug)]
pub(crate) struct JwtIssuer {
    url: String,
    terms: TokenRequirements,
    keys: RemoteKeySet,
    distributed: Option<DistributedClaims>,
    mappings: ClaimMappings,
    /// `egressSelectorType`: through which proxy the issuer is reached.
    egress: String,
}

impl JwtIssuer {
    /// Connects to the issuer through the proxy that its `egressSelectorType` names.
    pub(crate) fn set_egress(&mut self, egress: &EgressSelector) {
        let through = egress.named(&self.egress);
        if let Some(distributed) = &mut self.distributed {
            distributed.proxy.clone_from(&through);
        }
        self.keys.through = through;
    }
}

/// Audiences and signing algorithms that a token must match.
#[derive(Debug)]
struct TokenRequirements {
    audiences: Vec<String>,
    algorithms: Vec<String>,
}

impl JwtAuthenticator {
    pub(crate) fn new(issuers: Vec<JwtIssuer>, clock: Arc<dyn Clock>) -> Self {
        Self { issuers: Reloadable::new(issuers), clock }
    }

    /// Replaces the issuers.
    pub(crate) fn replace(&self, issuers: Vec<JwtIssuer>) {
        self.issuers.replace(issuers);
    }

    async fn identify(&self, token: &str) -> Option<UserInfo> {
        let token = UnverifiedJws::parse(token)?;
        let claims = from_json(&token.payload).ok().filter(Value::is_object)?;
        let said = match claims.get("iss").as_str()? {
            "accounts.google.com" => "https://accounts.google.com",
            said => said,
        };
        let issuers = self.issuers.current();
        let issuer = issuers.iter().find(|issuer| issuer.url == said)?;
        match issuer.identify(&token, &claims, self.clock.now()).await {
            Ok(user) => Some(user),
            Err(error) => {
                tracing::warn!(error, "Unable to authenticate the request");
                None
            }
        }
    }
}

impl Authenticator for JwtAuthenticator {
    fn authenticate<'a>(&'a self, _: &'a Peer, request: &'a Parts) -> AuthenticateFuture<'a> {
        Box::pin(async move {
            match super::bearer(request) {
                Some(token) => Ok(self.identify(token).await),
                None => Ok(None),
            }
        })
    }
}

impl JwtIssuer {
    async fn identify(
        &self,
        token: &UnverifiedJws<'_>,
        claims: &Value,
        now: i64,
    ) -> Result<UserInfo, String> {
        self.verify(token, claims, now)
            .await
            .map_err(|why| format!("oidc: verify token: {why}"))?;
        match &self.distributed {
            None => self.mappings.user(claims),
            Some(distributed) => {
                let claims = distributed.expand(claims, &self.terms, now).await;
                let failed = |why| format!("oidc: could not expand distributed claims: {why}");
                self.mappings.user(&claims.map_err(failed)?)
            }
        }
    }

    async fn verify(
        &self,
        token: &UnverifiedJws<'_>,
        claims: &Value,
        now: i64,
    ) -> Result<(), String> {
        self.terms.check(token, claims, now)?;
        self.keys.verify(token).await
    }
}

impl TokenRequirements {
    fn check(&self, token: &UnverifiedJws<'_>, claims: &Value, now: i64) -> Result<(), String> {
        let audiences = one_or_many(claims.get("aud"));
        if !audiences.iter().any(|own| self.audiences.contains(own)) {
            return Err(format!("expected audience in {:?} got {audiences:?}", self.audiences));
        }
        #[expect(clippy::cast_possible_truncation, reason = "moments may be written as floats")]
        let moment = |name: &str| claims.get(name).as_f64().map(|seconds| seconds as i64);
        if moment("exp").is_none_or(|end| end < now) {
            return Err("token is expired".to_owned());
        }
        if moment("nbf").is_some_and(|start| now + LEEWAY < start) {
            return Err("current time before the nbf (not before) time".to_owned());
        }
        if !self.algorithms.contains(&token.algorithm) {
            return Err(format!(
                "id token signed with unsupported algorithm, expected {:?} got {:?}",
                self.algorithms, token.algorithm
            ));
        }
        Ok(())
    }
}

/// The strings of a claim that is a string or a list.
fn one_or_many(claim: &Value) -> Vec<String> {
    match claim.as_str() {
        Some(text) => vec![text.to_owned()],
        None => claim.items().iter().filter_map(Value::as_str).map(str::to_owned).collect(),
    }
}
