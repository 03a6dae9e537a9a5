//! Distributed claims (OpenID Connect Core 1.0, 5.6.2): a token without groups may name an endpoint
//! that returns them in another token.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use client::{Proxy, TlsOptions};
use http::{HeaderValue, header::AUTHORIZATION};
use object::{Value, from_json};
use pki::UnverifiedJws;

use super::{TokenRequirements, keys::RemoteKeySet, mapping::ClaimSource};
use crate::remote::at;

const WITHIN: Duration = Duration::from_secs(30);
/// Maximum number of further issuers that the tokens of one issuer may refer to.
const ISSUERS: usize = 16;

/// Fetches the groups claim from the endpoints that tokens name.
#[derive(Debug)]
pub(super) struct DistributedClaims {
    /// The only claim that is resolved.
    claim: String,
    tls: TlsOptions,
    /// The proxy to the endpoints, if one is configured.
    pub(super) proxy: Option<Proxy>,
    issuers: Mutex<HashMap<String, Arc<RemoteKeySet>>>,
}

impl DistributedClaims {
    /// `None` if the groups come from an expression, or from nowhere.
    pub(super) fn new(groups: Option<&ClaimSource>, tls: TlsOptions) -> Option<Self> {
        match groups {
            Some(ClaimSource::Claim { name, .. }) if !name.is_empty() => {
                Some(Self { claim: name.clone(), tls, proxy: None, issuers: Mutex::default() })
            }
            _ => None,
        }
    }

    /// The claims with the distributed one added.
    pub(super) async fn expand(
        &self,
        claims: &Value,
        terms: &TokenRequirements,
        now: i64,
    ) -> Result<Value, String> {
        let mut claims = claims.clone();
        let (names, sources) = (claims.get("_claim_names"), claims.get("_claim_sources"));
        if !claims.get(&self.claim).is_null() || names.is_null() {
            return Ok(claims);
        } else if sources.is_null() {
            return Err("oidc: no claim sources".to_owned());
        }
        let Some(source) = names.get(&self.claim).as_str() else { return Ok(claims) };
        let endpoint = sources.get(source);
        if endpoint.is_null() {
            return Err(format!(
                "id token _claim_names contained a source {source} missing in _claims_sources"
            ));
        }
        let text = |name: &str| endpoint.get(name).as_str().unwrap_or_default();
        let address = text("endpoint").to_owned();
        if !address.is_empty() {
            let value = self.ask(&address, text("access_token"), (terms, now)).await?;
            claims[self.claim.as_str()] = value;
        }
        Ok(claims)
    }

    async fn ask(
        &self,
        address: &str,
        token: &str,
        (terms, now): (&TokenRequirements, i64),
    ) -> Result<Value, String> {
        let claim = &self.claim;
        let failed = |why: String| format!("while getting distributed claim {claim:?}: {why}");
        let mut remote = at(address, self.tls.clone()).map_err(|e| failed(format!("{e:#}")))?;
        if !token.is_empty() {
            let bearer = HeaderValue::from_str(&format!("Bearer {token}"));
            let mut bearer = bearer.map_err(|error| failed(error.to_string()))?;
            bearer.set_sensitive(true);
            remote.headers.insert(AUTHORIZATION, bearer);
        }
        remote.to = remote.to.with_proxy(self.proxy.clone());
        let (code, body) = remote.get(WITHIN).await.map_err(failed)?;
        if !code.is_success() {
            return Err(failed(format!("error while getting distributed claim JWT: {code}")));
        }
        let text = String::from_utf8_lossy(&body);
        let token =
            UnverifiedJws::parse(text.trim()).ok_or_else(|| failed("malformed jwt".to_owned()))?;
        let told = from_json(&token.payload).map_err(|error| failed(error.to_string()))?;
        let issuer = told.get("iss").as_str().unwrap_or_default();
        let keys = self.keys(issuer)?;
        let verified = async {
            terms.check(&token, &told, now)?;
            keys.verify(&token).await
        };
        verified.await.map_err(|why| format!("verify distributed claim token: {why}"))?;
        match told.get(claim) {
            Value::Null => Err(format!(
                "jwt returned by distributed claim endpoint {address:?} did not contain claim: \
                 {claim}"
            )),
            value => Ok(value.clone()),
        }
    }

    /// The keys of the issuer of a distributed claim, fetched by discovery and cached.
    fn keys(&self, issuer: &str) -> Result<Arc<RemoteKeySet>, String> {
        let mut issuers = self.issuers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = issuers.get(issuer) {
            return Ok(known.clone());
        } else if issuers.len() == ISSUERS {
            return Err(format!("verifier not initialized for issuer: {issuer:?}"));
        }
        let mut keys = RemoteKeySet::new(issuer, "", self.tls.clone());
        keys.through.clone_from(&self.proxy);
        let keys = Arc::new(keys);
        issuers.insert(issuer.to_owned(), keys.clone());
        Ok(keys)
    }
}
