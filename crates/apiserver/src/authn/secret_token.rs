//! Legacy service account tokens, which are stored in Secrets: a token is valid as long as its
//! Secret exists. The day of its last use is recorded as a label, so that unused tokens can be
//! cleaned up.

use std::sync::atomic::{AtomicU64, Ordering};

use object::{Bytes, Object, Text, Time, Value, View};
use pki::{ServiceAccountClaims, TokenError};
use ref_cast::RefCast;
use server::{Registry, RequestContext, ServedResource, UserInfo};
use store::Version;
use tracing::warn;

const USED: &str = "kubernetes.io/legacy-token-last-used";
const INVALID: &str = "kubernetes.io/legacy-token-invalid-since";

/// How often legacy tokens were used: in total, of manually created and of auto-generated Secrets,
/// and after they were marked invalid.
#[derive(Debug, Default)]
pub(crate) struct LegacyTokenMetrics {
    pub(super) all: AtomicU64,
    pub(super) manual: AtomicU64,
    pub(super) auto_generated: AtomicU64,
    pub(super) invalid: AtomicU64,
}

impl LegacyTokenMetrics {
    /// Checks that the Secret still exists, contains this token, and is not marked invalid.
    pub(super) async fn check(
        &self,
        registry: &Registry,
        claims: &ServiceAccountClaims,
        token: &str,
    ) -> Result<(), TokenError> {
        let (namespace, account, _) = claims.service_account();
        let secrets = registry.kind("", "secrets").map_err(|_| TokenError::NotOurToken)?;
        let found = registry.get(&secrets, namespace, &claims.legacy_secret);
        let found = found.map_err(|_| TokenError::Invalid("Token has been invalidated"))?;
        let meta = Object::view(&found.object).metadata();
        if meta.is_terminating() {
            return Err(TokenError::Invalid("Token has been invalidated"));
        }
        let kept = found.object.get("data").get("token").as_str().and_then(Bytes::decode);
        if kept.is_none_or(|kept| kept != token.as_bytes()) {
            return Err(TokenError::Invalid("Token does not match server's copy"));
        }
        let marked = meta.labels().get(INVALID).is_some_and(|since| !since.is_empty());
        let count = match (marked, is_named(registry, (namespace, account), meta.name())) {
            (true, _) => &self.invalid,
            (false, true) => &self.auto_generated,
            (false, false) => &self.manual,
        };
        count.fetch_add(1, Ordering::Relaxed);
        note_use(registry, &secrets, &found.object).await;
        if marked {
            return Err(TokenError::Invalid("the token has been marked invalid"));
        }
        self.all.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Whether the service account lists the Secret, which means that it was auto-generated.
fn is_named(registry: &Registry, (namespace, name): (&str, &str), secret: &str) -> bool {
    let kind = registry.kind("", "serviceaccounts");
    let account = kind.and_then(|kind| registry.get(&kind, namespace, name));
    let own = |named: &Value| named.get("name").as_str() == Some(secret);
    account.is_ok_and(|account| account.object.get("secrets").items().iter().any(own))
}

/// Records today as the day of the last use, unless it is already recorded. Another server's clock
/// may be a day ahead.
async fn note_use(registry: &Registry, secrets: &ServedResource, secret: &Value) {
    let day = |seconds: i64| Text::from(Time::format(seconds).get(..10).unwrap_or_default());
    let now = registry.clock().now();
    let (today, tomorrow) = (day(now), day(now + 24 * 3600));
    let meta = Object::view(secret).metadata();
    if meta.labels().get(USED).is_some_and(|last| last == today || last == tomorrow) {
        return;
    }
    let (namespace, name) = (meta.namespace(), meta.name());
    let change = |old: &Version<Value>| {
        let mut object = old.object.clone();
        let labels = Object::ref_cast_mut(&mut object).metadata_mut().labels_mut();
        labels.insert(USED, today.clone());
        Ok(object)
    };
    let own = UserInfo::new("system:apiserver", &["system:masters"]);
    let mut call = RequestContext::new(own, "kube-apiserver");
    if let Err(status) =
        registry.guaranteed_update(&mut call, secrets, (namespace, name), "", change).await
    {
        let why = status.message();
        warn!(namespace, name, why, "cannot record the last use of a token");
    }
}
