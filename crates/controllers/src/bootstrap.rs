//! Bootstrap tokens, with which nodes join the cluster. The signer signs the ConfigMap
//! `cluster-info`, which nodes read before they have a CA to verify the API server with; the
//! cleaner deletes expired tokens.

use std::sync::Arc;

use api::core::{ConfigMap, Secret};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use client::{Error, Selectors};
use object::{Bytes, Clock, Map, NamespacedName, Time, Value, to_json, wait_seconds};
use ring::hmac;
use runtime::{Cache, CachedApi, Context, Controller, Reconcile, Requeue};
use schema::Kind;

use crate::Config;

const TYPE: &str = "bootstrap.kubernetes.io/token";
const NAMESPACE: &str = "kube-system";
const NAME_PREFIX: &str = "bootstrap-token-";
const SIGNATURE: &str = "jws-kubeconfig-";
const PUBLIC: &str = "kube-public";
const INFO: &str = "cluster-info";

pub(crate) fn start_signer(cx: &Context, config: &Config) {
    let tokens = tokens(cx);
    let signer = Signer {
        maps: cx
            .cached_api_in_namespace(PUBLIC, &Selectors::fields(format!("metadata.name={INFO}"))),
        tokens: tokens.clone(),
        clock: config.clock.clone(),
    };
    let maps = signer.maps.cache().clone();
    let controller = Controller::with_cache("bootstrap-signer", cx, &maps, signer)
        .queue_named("bootstrap_signer_queue");
    let queue = controller.queue();
    tokens.on_change(move |_, _| queue.add(NamespacedName::new(PUBLIC, INFO)));
    controller.start();
}

pub(crate) fn start_cleaner(cx: &Context, config: &Config) {
    let selection = Selectors::fields(format!("type={TYPE}"));
    let secrets = cx.cached_api_in_namespace(NAMESPACE, &selection);
    let tokens = secrets.cache().clone();
    let cleaner = Cleaner { secrets, clock: config.clock.clone() };
    Controller::with_cache("token-cleaner", cx, &tokens, cleaner)
        .queue_named("token_cleaner")
        .start();
}

fn tokens(cx: &Context) -> Arc<Cache<Secret>> {
    cx.cache_in_namespace(NAMESPACE, &Selectors::fields(format!("type={TYPE}")))
}

/// Keeps the signatures of the ConfigMap `cluster-info` up to date.
#[derive(Debug)]
struct Signer {
    maps: CachedApi<ConfigMap>,
    tokens: Arc<Cache<Secret>>,
    clock: Arc<dyn Clock>,
}

impl Reconcile for Signer {
    type Kind = ConfigMap;

    async fn reconcile(
        &self,
        _: &NamespacedName,
        map: Option<ConfigMap>,
    ) -> Result<Requeue, Error> {
        let Some(map) = map else { return Ok(Requeue::OnChange) };
        if let Some(signed) = signed(&map, &self.tokens.all(), self.clock.now()) {
            let because = map.write_cause("those who join must be able to trust it");
            self.maps.with_cause(&because).update(signed).await?;
        }
        Ok(Requeue::OnChange)
    }
}

/// Deletes the Secrets of expired bootstrap tokens.
#[derive(Debug)]
struct Cleaner {
    secrets: CachedApi<Secret>,
    clock: Arc<dyn Clock>,
}

impl Reconcile for Cleaner {
    type Kind = Secret;

    async fn reconcile(
        &self,
        _: &NamespacedName,
        secret: Option<Secret>,
    ) -> Result<Requeue, Error> {
        let now = self.clock.now();
        let Some((secret, left)) =
            secret.and_then(|it| seconds_until_expiry(&it, now).map(|left| (it, left)))
        else {
            return Ok(Requeue::OnChange);
        };
        if left > 0 {
            return Ok(Requeue::After(wait_seconds(left)));
        }
        let because = secret.write_cause("the token's time is over");
        self.secrets.with_cause(&because).delete(&secret).await?;
        Ok(Requeue::OnChange)
    }
}

fn text(secret: &Secret, name: &str) -> Option<String> {
    let bytes = Bytes::decode(secret.data().get(name)?)?;
    String::from_utf8(bytes).ok().filter(|text| !text.is_empty())
}

/// The seconds until a token expires; `None`: it never does. An expiration that cannot be parsed
/// counts as past.
fn seconds_until_expiry(secret: &Secret, now: i64) -> Option<i64> {
    let expires = text(secret, "expiration")?;
    Some(Time::parse_seconds(&expires).map_or(0, |at| at - now))
}

/// The id and secret of a token if it may sign.
fn signing(secret: &Secret, now: i64) -> Option<(String, String)> {
    let id = text(secret, "token-id")?;
    let named = secret.metadata().name().strip_prefix(NAME_PREFIX) == Some(&*id);
    let good = seconds_until_expiry(secret, now).is_none_or(|left| left > 0);
    let allowed = text(secret, "usage-bootstrap-signing").as_deref() == Some("true");
    let secret = text(secret, "token-secret")?;
    (named && good && allowed).then_some((id, secret))
}

/// The ConfigMap with a signature for each token; `None` if nothing changes.
fn signed(map: &ConfigMap, tokens: &[Secret], now: i64) -> Option<ConfigMap> {
    let content = map.data().get("kubeconfig")?;
    let mut data = Map::<String>::from([] as [(&str, &str); 0]);
    for (name, value) in map.data().iter().filter(|(name, _)| !name.starts_with(SIGNATURE)) {
        data.insert(name, value);
    }
    for (id, secret) in tokens.iter().filter_map(|token| signing(token, now)) {
        data.insert(&format!("{SIGNATURE}{id}"), sign(content, &id, &secret));
    }
    let same = data.iter().eq(map.data().iter());
    (!same).then(|| map.clone().with_data(data))
}

/// Creates a detached JWS signature: the payload is omitted, because the ConfigMap contains it.
fn sign(content: &str, id: &str, secret: &str) -> String {
    let mut header = Value::object();
    header["alg"] = "HS256".into();
    header["kid"] = id.into();
    let header = BASE64_URL_SAFE_NO_PAD.encode(to_json(&header));
    let message = format!("{header}.{}", BASE64_URL_SAFE_NO_PAD.encode(content));
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, message.as_bytes());
    format!("{header}..{}", BASE64_URL_SAFE_NO_PAD.encode(tag))
}

#[cfg(test)]
mod tests {
    use object::{View, from_json};

    use super::*;

    fn token(id: &str, expiration: &str) -> Secret {
        let b = |text: &str| Bytes::encode(text.as_bytes());
        let text = format!(
            r#"{{"metadata":{{"name":"bootstrap-token-{id}"}},"data":{{"token-id":"{}",
            "token-secret":"{}","usage-bootstrap-signing":"{}","expiration":"{}"}}}}"#,
            b(id),
            b("0123456789abcdef"),
            b("true"),
            b(expiration)
        );
        Secret::view(&from_json(text.as_bytes()).unwrap()).clone()
    }

    #[test]
    fn what_joins_read_is_signed() {
        let map =
            ConfigMap::new().with_data([("kubeconfig", "content"), ("jws-kubeconfig-old", "x")]);
        let tokens =
            [token("abcdef", "1970-01-01T01:00:00Z"), token("uvwxyz", "1970-01-01T00:00:01Z")];
        let signed = signed(&map, &tokens, 60).unwrap();
        let names: Vec<&str> = signed.data().iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["jws-kubeconfig-abcdef", "kubeconfig"]);
        assert_eq!(super::signed(&signed, &tokens, 60), None);
        let signature = signed.data().get("jws-kubeconfig-abcdef").unwrap();
        assert!(signature.starts_with("eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9.."));
        assert_eq!(
            (seconds_until_expiry(&tokens[0], 60), seconds_until_expiry(&token("a", "x"), 60)),
            (Some(3540), Some(0))
        );
        assert_eq!(seconds_until_expiry(&token("a", ""), 60), None);
    }
}
