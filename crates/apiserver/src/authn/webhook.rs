//! The token webhook authenticator (`--authentication-token-webhook-config-file`): sends each token
//! in a TokenReview.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use http::request::Parts;
use object::{Recent, Text, Value};
use ring::digest::{SHA256, digest};
use server::{AuthenticateFuture, Authenticator, Peer, UserInfo, WebhookClient};
use tracing::warn;

/// Maximum number of cached responses.
const CACHE: usize = 4096;
const WITHIN: Duration = Duration::from_secs(10);

/// Authenticates bearer tokens by TokenReviews, and caches the responses.
pub(crate) struct TokenWebhook {
    remote: WebhookClient,
    /// The version of TokenReview.
    version: String,
    /// How long a response is cached.
    ttl: Duration,
    /// By the digest of the token.
    cache: Mutex<Recent<Vec<u8>, Answer>>,
}

/// When the cached response expires, and the user; `None` if the token was rejected.
type Answer = (Instant, Option<UserInfo>);

impl std::fmt::Debug for TokenWebhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TokenWebhook({})", self.remote.url())
    }
}

impl TokenWebhook {
    pub(crate) fn new(remote: WebhookClient, version: &str, ttl: Duration) -> Self {
        Self { remote, version: version.to_owned(), ttl, cache: Mutex::new(Recent::new(CACHE)) }
    }

    async fn identify(&self, token: &str) -> Result<Option<UserInfo>, String> {
        let key = digest(&SHA256, token.as_bytes()).as_ref().to_vec();
        let now = Instant::now();
        let remembered = {
            let mut known = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
            known.get(&key).filter(|(until, _)| *until > now).map(|(_, user)| user.clone())
        };
        if let Some(user) = remembered {
            return Ok(user);
        }
        let user = self.ask(token).await?;
        let mut known = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(key, (now + self.ttl, user.clone()), 1);
        Ok(user)
    }

    async fn ask(&self, token: &str) -> Result<Option<UserInfo>, String> {
        let mut review = Value::object();
        review["kind"] = "TokenReview".into();
        review["apiVersion"] = format!("authentication.k8s.io/{}", self.version).into();
        review["spec"]["token"] = token.into();
        let answer = self.remote.post_review(&review, WITHIN).await?;
        let status = answer.get("status");
        if status.get("authenticated").as_bool() != Some(true) {
            return Ok(None);
        }
        Ok(Some(user(status.get("user"))))
    }
}

/// The user in the status of a TokenReview.
fn user(info: &Value) -> UserInfo {
    let text = |name: &str| info.get(name).as_str().unwrap_or_default();
    let strings = |tree: &Value| -> Vec<String> {
        tree.items().iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let groups = strings(info.get("groups"));
    let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
    let extra = info.get("extra").entries().map(|(key, values)| (key.to_owned(), strings(values)));
    UserInfo {
        uid: Text::from(text("uid")),
        extra: extra.collect(),
        ..UserInfo::new(text("username"), &groups)
    }
}

impl Authenticator for TokenWebhook {
    fn authenticate<'a>(&'a self, _: &'a Peer, request: &'a Parts) -> AuthenticateFuture<'a> {
        Box::pin(async move {
            let Some(token) = super::bearer(request) else { return Ok(None) };
            match self.identify(token).await {
                Ok(user) => Ok(user),
                Err(error) => {
                    warn!(%error, "the token webhook did not respond");
                    Ok(None)
                }
            }
        })
    }
}
