//! The public keys of an issuer (JWKS): found through its discovery document, cached, and fetched
//! again when no known key verifies a token.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use client::{Proxy, TlsOptions};
use http::StatusCode;
use object::from_json;
use pki::{JsonWebKey, UnverifiedJws};
use server::WebhookClient;

use crate::remote::at;

const WITHIN: Duration = Duration::from_secs(10);
/// Minimum interval between two fetches, so that forged tokens cannot cause a request each.
const PAUSE: Duration = Duration::from_secs(1);
/// Minimum interval after a failed fetch.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(5);

/// The public keys of one issuer.
#[derive(Debug)]
pub(super) struct RemoteKeySet {
    issuer: String,
    discovery: String,
    tls: TlsOptions,
    /// The proxy to the issuer, if one is configured.
    pub(super) through: Option<Proxy>,
    known: Mutex<CachedKeys>,
    /// Held while the keys are fetched. Other requests wait for the same response, except those
    /// whose token a known key verifies.
    asking: tokio::sync::Mutex<()>,
}

/// The cached keys, and the result of the last fetch.
#[derive(Debug, Default)]
struct CachedKeys {
    /// The `jwks_uri`; `None` before the issuer was first reached.
    address: Option<String>,
    keys: Arc<Vec<JsonWebKey>>,
    /// When the last fetch began or ended.
    asked: Option<Instant>,
    /// The error of the last fetch.
    failure: Option<String>,
}

impl RemoteKeySet {
    /// `discovery` is the URL of the discovery document, if it is not the issuer's default.
    pub(super) fn new(issuer: &str, discovery: &str, tls: TlsOptions) -> Self {
        let own = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        Self {
            issuer: issuer.to_owned(),
            discovery: if discovery.is_empty() { own } else { discovery.to_owned() },
            tls,
            through: None,
            known: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        }
    }

    /// Verifies the token's signature with the issuer's keys. A token of a known key never waits
    /// for a fetch.
    pub(super) async fn verify(&self, token: &UnverifiedJws<'_>) -> Result<(), String> {
        if self.has_signed(token) {
            return Ok(());
        }
        let waits_since = Instant::now();
        let _asking = self.asking.lock().await;
        if self.has_signed(token) {
            return Ok(());
        }
        if self.may_ask(waits_since)? {
            self.known().asked = Some(Instant::now());
            let fetched = self.fetch().await;
            let mut known = self.known();
            known.asked = Some(Instant::now());
            known.failure = fetched.as_ref().err().cloned();
            drop(known);
            fetched?;
        }
        match self.has_signed(token) {
            true => Ok(()),
            false => Err("failed to verify id token signature".to_owned()),
        }
    }

    fn known(&self) -> MutexGuard<'_, CachedKeys> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_signed(&self, token: &UnverifiedJws<'_>) -> bool {
        let keys = self.known().keys.clone();
        keys.iter().any(|key| key.verifies(token))
    }

    /// Whether to fetch the keys now. Returns the last error if that is recent, so that requests do
    /// not wait again and again for an issuer that does not respond.
    fn may_ask(&self, waits_since: Instant) -> Result<bool, String> {
        let known = self.known();
        let Some(asked) = known.asked else { return Ok(true) };
        let pause = if known.failure.is_some() { PAUSE_AFTER_FAILURE } else { PAUSE };
        let soon = asked >= waits_since || asked.elapsed() < pause;
        match &known.failure {
            Some(failure) if soon => Err(failure.clone()),
            _ => Ok(!soon),
        }
    }

    async fn fetch(&self) -> Result<(), String> {
        let known = self.known().address.clone();
        let address = match known {
            Some(address) => address,
            None => self.discover().await?,
        };
        let keys = self.get(&address).await?;
        let keys = JsonWebKey::parse_set(&keys).map_err(|error| error.to_string())?;
        let mut known = self.known();
        (known.keys, known.address) = (Arc::new(keys), Some(address));
        Ok(())
    }

    async fn discover(&self) -> Result<String, String> {
        let document = from_json(&self.get(&self.discovery).await?);
        let document = document.map_err(|error| error.to_string())?;
        let text = |name: &str| document.get(name).as_str().unwrap_or_default().to_owned();
        if text("issuer") != self.issuer {
            return Err(format!(
                "issuer did not match the issuer returned by provider, expected {:?} got {:?}",
                self.issuer,
                text("issuer")
            ));
        }
        match text("jwks_uri") {
            none if none.is_empty() => Err("provider did not return JWKS URL".to_owned()),
            address => Ok(address),
        }
    }

    async fn get(&self, address: &str) -> Result<bytes::Bytes, String> {
        let remote = at(address, self.tls.clone()).map_err(|error| format!("{error:#}"))?;
        let remote =
            WebhookClient { to: remote.to.clone().with_proxy(self.through.clone()), ..remote };
        match remote.get(WITHIN).await? {
            (StatusCode::OK, body) => Ok(body),
            (code, _) => Err(format!("{address}: {code}")),
        }
    }
}
