//! Cleans up legacy service account tokens: Secrets of auto-generated tokens that have not been
//! used for a year are labelled as invalid, and deleted a year later.

use std::{sync::Arc, time::Duration};

use api::core::{ConfigMap, Pod, Secret, ServiceAccount};
use client::{Error, Patch};
use object::{Clock, NamespacedName, Time, Value};
use runtime::{CachedApi, Context, Controller, Reconcile, Requeue};
use schema::Kind;

use crate::Config;

const TRACKING: (&str, &str) =
    ("kube-system", "kube-apiserver-legacy-service-account-token-tracking");
const USED: &str = "kubernetes.io/legacy-token-last-used";
const INVALID: &str = "kubernetes.io/legacy-token-invalid-since";
/// How long a token may be unused, in seconds; also how long an invalid one is kept.
const UNUSED: i64 = 365 * 24 * 3600;
const PERIOD: Duration = Duration::from_hours(24);

pub(crate) fn start(cx: &Context, config: &Config) {
    let cleaner = Cleaner {
        secrets: cx.cached_api(),
        accounts: cx.cached_api(),
        pods: cx.cached_api(),
        maps: cx.cached_api(),
        clock: config.clock.clone(),
    };
    Controller::new("legacy-service-account-token-cleaner", cx, cleaner)
        .resync_every(PERIOD)
        .start();
}

/// Reconciler of the Secrets of legacy tokens.
#[derive(Debug)]
struct Cleaner {
    secrets: CachedApi<Secret>,
    accounts: CachedApi<ServiceAccount>,
    pods: CachedApi<Pod>,
    maps: CachedApi<ConfigMap>,
    clock: Arc<dyn Clock>,
}

/// What to do with a token.
#[derive(Debug, PartialEq, Eq)]
enum TokenAction {
    Stays,
    /// Label the token as invalid since this date.
    Marked(String),
    Goes,
}

impl Reconcile for Cleaner {
    type Kind = Secret;

    async fn reconcile(
        &self,
        key: &NamespacedName,
        secret: Option<Secret>,
    ) -> Result<Requeue, Error> {
        let Some(secret) = secret.filter(|secret| !secret.is_terminating()) else {
            return Ok(Requeue::OnChange);
        };
        let since = self.maps.get(&NamespacedName::new(TRACKING.0, TRACKING.1));
        let since = since.and_then(|map| day(map.data().get("since")?));
        let now = self.clock.now();
        if since.is_none_or(|since| now < since + UNUSED) || !self.is_automatic(&secret) {
            return Ok(Requeue::OnChange);
        }
        match token_action(&secret, now) {
            TokenAction::Stays => {}
            TokenAction::Marked(today) => {
                let because = secret.write_cause("a token has not been used for a year");
                let mut mark = Value::object();
                mark["metadata"]["labels"][INVALID] = today.into();
                self.secrets.with_cause(&because).patch(key, &Patch::Merge(mark)).await?;
            }
            TokenAction::Goes => {
                let because = secret.write_cause("a token has been of no use for a year");
                self.secrets.with_cause(&because).delete(&secret).await?;
            }
        }
        Ok(Requeue::OnChange)
    }
}

impl Cleaner {
    /// Whether the Secret is an auto-generated token that its service account lists and no pod
    /// mounts.
    fn is_automatic(&self, secret: &Secret) -> bool {
        let meta = secret.metadata();
        if secret.type_() != "kubernetes.io/service-account-token" {
            return false;
        }
        let account = meta.annotations().get("kubernetes.io/service-account.name");
        let account = account
            .and_then(|name| self.accounts.get(&NamespacedName::new(meta.namespace(), name)));
        let listed = account.is_some_and(|account| {
            account.secrets().iter().any(|reference| reference.name() == meta.name())
        });
        let mounts = |pod: &Pod| {
            pod.spec().volumes().iter().any(|volume| {
                let secret = volume.volume_source().secret();
                secret.is_some_and(|secret| secret.secret_name() == meta.name())
            })
        };
        listed && !self.pods.in_namespace(meta.namespace()).iter().any(mounts)
    }
}

fn token_action(secret: &Secret, now: i64) -> TokenAction {
    let (meta, limit) = (secret.metadata(), now - UNUSED);
    let made = Time::parse_seconds(meta.creation_timestamp()).unwrap_or(now);
    let label = |name: &str| meta.labels().get(name).and_then(day);
    if made >= limit || label(USED).is_some_and(|used| used >= limit) {
        return TokenAction::Stays;
    }
    match label(INVALID) {
        None => TokenAction::Marked(Time::format(now)[..10].to_owned()),
        Some(since) if since >= limit => TokenAction::Stays,
        Some(_) => TokenAction::Goes,
    }
}

/// Parses a date such as `2026-01-02`; returns its start.
fn day(text: &str) -> Option<i64> {
    Time::parse_seconds(&format!("{text}T00:00:00Z"))
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;

    #[test]
    fn a_token_is_marked_before_it_goes() {
        let now = Time::parse_seconds("2026-06-01T00:00:00Z").unwrap();
        let of = |labels: &str| {
            let text = format!(
                r#"{{"metadata":{{"creationTimestamp":"2020-01-01T00:00:00Z","labels":{{{labels}}}}}}}"#
            );
            token_action(&Secret::from(from_json(text.as_bytes()).unwrap()), now)
        };
        assert_eq!(of(""), TokenAction::Marked("2026-06-01".to_owned()));
        assert_eq!(of(&format!(r#""{USED}":"2026-01-01""#)), TokenAction::Stays);
        assert_eq!(of(&format!(r#""{INVALID}":"2026-01-01""#)), TokenAction::Stays);
        assert_eq!(of(&format!(r#""{INVALID}":"2025-01-01""#)), TokenAction::Goes);
        assert_eq!(
            of(&format!(r#""{INVALID}":"x""#)),
            TokenAction::Marked("2026-06-01".to_owned())
        );
    }
}
