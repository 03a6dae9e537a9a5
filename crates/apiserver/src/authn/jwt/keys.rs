//! The keys of an issuer: found by its discovery document, kept, and fetched again when a
//! token names one that is not among them.

use std::time::{Duration, Instant};

use client::{Proxy, Tls};
use http::StatusCode;
use object::from_json;
use pki::{Jws, WebKey};
use server::Remote;
use tokio::sync::Mutex;

use crate::remote::at;

const WITHIN: Duration = Duration::from_secs(30);
/// The issuer is not asked again before this has passed, whatever tokens claim.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Keys {
    issuer: String,
    discovery: String,
    tls: Tls,
    /// Who stands between.
    pub(super) through: Option<Proxy>,
    known: Mutex<Known>,
}

/// What is known, and since when.
#[derive(Debug, Default)]
struct Known {
    /// Where the keys are; `None` before the issuer was ever reached.
    address: Option<String>,
    keys: Vec<WebKey>,
    asked: Option<Instant>,
}

impl Keys {
    /// `discovery`: where the document is, if that is elsewhere.
    pub(super) fn new(issuer: &str, discovery: &str, tls: Tls) -> Self {
        let own = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        Self {
            issuer: issuer.to_owned(),
            discovery: if discovery.is_empty() { own } else { discovery.to_owned() },
            tls,
            through: None,
            known: Mutex::default(),
        }
    }

    /// Whether one of the issuer's keys has signed the token.
    pub(super) async fn verify(&self, token: &Jws<'_>) -> Result<(), String> {
        // Held while the issuer is asked: all who wait for its keys wait for one answer.
        let mut known = self.known.lock().await;
        let signed = |known: &Known| known.keys.iter().any(|key| key.verifies(token));
        if signed(&known) {
            return Ok(());
        }
        let now = Instant::now();
        if known.asked.is_none_or(|asked| now - asked >= PAUSE) {
            known.asked = Some(now);
            self.fetch(&mut known).await?;
        }
        if signed(&known) { Ok(()) } else { Err("failed to verify id token signature".to_owned()) }
    }

    async fn fetch(&self, known: &mut Known) -> Result<(), String> {
        let address = match &known.address {
            Some(address) => address.clone(),
            None => self.discover().await?,
        };
        let keys = self.get(&address).await?;
        known.keys = WebKey::set(&keys).map_err(|error| error.to_string())?;
        known.address = Some(address);
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
        let remote = Remote { to: remote.to.clone().through(self.through.clone()), ..remote };
        match remote.get(WITHIN).await? {
            (StatusCode::OK, body) => Ok(body),
            (code, _) => Err(format!("{address}: {code}")),
        }
    }
}
