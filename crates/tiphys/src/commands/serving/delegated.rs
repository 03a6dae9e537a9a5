//! Delegated authentication and authorization of a component's HTTPS server. Client certificates are verified here;
//! tokens and permissions are checked by the API server, with a TokenReview and a SubjectAccessReview.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use apiserver::ProxyHeaders;
use client::Client;
use http::{HeaderMap, Method, header::AUTHORIZATION};
use object::{Value, to_json};
use pki::ClientCaVerifier;
use rustls::pki_types::CertificateDer;
use server::UserInfo;
use tokio::time::{Instant, timeout};

const JSON: &str = "application/json";
const AUTHENTICATED: &str = "system:authenticated";
/// The group whose members are allowed every request.
const MASTERS: &str = "system:masters";
/// Timeout of a TokenReview or SubjectAccessReview.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of entries of each cache.
const MAX_CACHE_ENTRIES: usize = 10_000;

/// The authenticators and the authorizer of the server.
#[derive(Debug)]
pub(super) struct DelegatedAuth {
    /// Verifies client certificates.
    pub(super) client_ca: Option<ClientCaVerifier>,
    pub(super) request_header: Option<RequestHeaderAuth>,
    /// CA certificates of clients and front proxies, for the TLS handshake.
    pub(super) authorities: Vec<CertificateDer<'static>>,
    /// Client for TokenReviews; `None`: bearer tokens are not accepted.
    pub(super) token_reviewer: Option<Client>,
    /// Client for SubjectAccessReviews; `None`: requests that need one are denied.
    pub(super) access_reviewer: Option<Client>,
    /// Paths that need no authorization; a trailing `*` matches any suffix.
    pub(super) always_allow_paths: Vec<String>,
    pub(super) token_cache: TtlCache<String, Option<UserInfo>>,
    pub(super) access_cache: TtlCache<AccessKey, bool>,
    pub(super) unauthorized_ttl: Duration,
}

/// Request header authentication: front proxies that may pass on the name of a user.
#[derive(Debug)]
pub(super) struct RequestHeaderAuth {
    pub(super) trust: ClientCaVerifier,
    /// Common names that a front proxy's certificate may have; empty: any.
    pub(super) allowed: Vec<String>,
    pub(super) headers: ProxyHeaders,
}

/// Key of the authorization cache: a user's name, uid and groups, and a verb and a path.
type AccessKey = (String, String, Vec<String>, String, String);

/// A cache whose entries expire.
#[derive(Debug)]
pub(super) struct TtlCache<K, V> {
    lasts: Duration,
    answers: Mutex<HashMap<K, (Instant, V)>>,
}

impl<K: Eq + Hash, V: Clone> TtlCache<K, V> {
    pub(super) fn new(lasts: Duration) -> Self {
        Self { lasts, answers: Mutex::default() }
    }

    fn get(&self, key: &K) -> Option<V> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers
            .get(key)
            .filter(|(until, _)| *until > Instant::now())
            .map(|(_, value)| value.clone())
    }

    fn insert(&self, key: K, value: V, lasts: Duration) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if answers.len() >= MAX_CACHE_ENTRIES {
            answers.retain(|_, (until, _)| *until > now);
        }
        if answers.len() < MAX_CACHE_ENTRIES && !lasts.is_zero() {
            answers.insert(key, (now + lasts, value));
        }
    }
}

impl DelegatedAuth {
    /// The user that a request is authenticated as; `None` if its credentials are invalid.
    pub(super) async fn authenticate(
        &self,
        chain: &[CertificateDer<'_>],
        headers: &HeaderMap,
        now: i64,
    ) -> Option<UserInfo> {
        if let Some(proxies) = &self.request_header
            && let Some(user) = proxies.headers.user(headers).transpose()
            && let Ok(proxy) = proxies.trust.identify(chain, now)
            && (proxies.allowed.is_empty() || proxies.allowed.contains(&proxy.common_name))
        {
            return user.ok().map(authenticated); // unreadable headers: the request is not authenticated
        }
        let client = self.client_ca.as_ref().and_then(|trust| trust.identify(chain, now).ok());
        if let Some(client) = client {
            let groups: Vec<&str> = client.organizations.iter().map(String::as_str).collect();
            return Some(authenticated(UserInfo::new(&client.common_name, &groups)));
        }
        let Some(shown) = headers.get(AUTHORIZATION) else { return Some(UserInfo::anonymous()) };
        let token = shown.to_str().ok()?.strip_prefix("Bearer ")?;
        if let Some(known) = self.token_cache.get(&token.to_owned()) {
            return known;
        }
        let user = self.review_token(token).await?;
        self.token_cache.insert(token.to_owned(), user.clone(), self.token_cache.lasts);
        user
    }

    /// Whether the user may request the path.
    pub(super) async fn authorize(&self, user: &UserInfo, method: &Method, path: &str) -> bool {
        let is_open = |own: &String| match own.strip_suffix('*') {
            Some(begin) => path.starts_with(begin),
            None => own == path,
        };
        if self.always_allow_paths.iter().any(is_open) || user.in_group(MASTERS) {
            return true;
        }
        let verb = method.as_str().to_lowercase();
        let groups: Vec<String> = user.groups.iter().map(ToString::to_string).collect();
        let question = (user.name.to_string(), user.uid.to_string(), groups, verb, path.to_owned());
        if let Some(known) = self.access_cache.get(&question) {
            return known;
        }
        let Some(allowed) = self.review_access(user, &question.3, path).await else { return false };
        let lasts = if allowed { self.access_cache.lasts } else { self.unauthorized_ttl };
        self.access_cache.insert(question, allowed, lasts);
        allowed
    }

    /// Sends a TokenReview. `None`: the API server could not be reached.
    async fn review_token(&self, token: &str) -> Option<Option<UserInfo>> {
        let mut spec = Value::object();
        spec["token"] = token.into();
        let status =
            review(self.token_reviewer.as_ref()?, ("authentication.k8s.io", "TokenReview"), spec);
        let status = status.await?;
        if status["authenticated"].as_bool() != Some(true) {
            return Some(None);
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let said = &status["user"];
        let groups: Vec<String> = said["groups"].items().iter().map(text).collect();
        let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
        let mut user = UserInfo::new(&text(&said["username"]), &groups);
        user.uid = text(&said["uid"]).into();
        for (name, values) in said["extra"].entries() {
            user.extra.insert(name.to_owned(), values.items().iter().map(text).collect());
        }
        Some(Some(user))
    }

    async fn review_access(&self, user: &UserInfo, verb: &str, path: &str) -> Option<bool> {
        let mut spec = Value::object();
        spec["user"] = user.name.clone().into();
        spec["uid"] = user.uid.clone().into();
        spec["groups"] = user.groups.iter().map(|group| Value::from(&**group)).collect();
        for (name, values) in &user.extra {
            spec["extra"][&**name] = values.iter().map(|value| Value::from(&**value)).collect();
        }
        let what = &mut spec["nonResourceAttributes"];
        (what["verb"], what["path"]) = (verb.into(), path.into());
        let what = ("authorization.k8s.io", "SubjectAccessReview");
        let status = review(self.access_reviewer.as_ref()?, what, spec).await?;
        Some(status["allowed"].as_bool() == Some(true))
    }
}

fn authenticated(mut user: UserInfo) -> UserInfo {
    if !user.in_group(AUTHENTICATED) {
        user.groups.push(AUTHENTICATED.into());
    }
    user
}

/// Sends a review and returns the status of the response; `None` if the request failed.
async fn review(client: &Client, (group, kind): (&str, &str), spec: Value) -> Option<Value> {
    let mut review = Value::object();
    (review["apiVersion"], review["kind"]) = (format!("{group}/v1").into(), kind.into());
    review["spec"] = spec;
    let path = format!("/apis/{group}/v1/{}s", kind.to_lowercase());
    let asked = client.call(Method::POST, &path, JSON, to_json(&review).into());
    match timeout(REVIEW_TIMEOUT, asked).await {
        Ok(Ok(answer)) => Some(answer["status"].clone()),
        Ok(Err(error)) => {
            tracing::warn!(%error, kind, "the API server rejected a review");
            None
        }
        Err(_) => {
            tracing::warn!(kind, "the API server did not respond");
            None
        }
    }
}
