//! Fills Secrets of type `kubernetes.io/service-account-token` with a token of their service
//! account, and deletes them when the account is deleted.

use std::sync::Arc;

use api::core::{Secret, ServiceAccount};
use client::{Error, Selectors};
use object::{Bytes, NamespacedName};
use pki::{ServiceAccountClaims, TokenSigner};
use runtime::{CachedApi, Context, Controller, Reconcile, Requeue};
use schema::Kind;

use crate::Config;

const TYPE: &str = "kubernetes.io/service-account-token";
const NAME: &str = "kubernetes.io/service-account.name";
const UID: &str = "kubernetes.io/service-account.uid";

pub(crate) fn start(cx: &Context, config: &Config) {
    let Some(signer) = config.token_signer.clone() else { return };
    let selection = Selectors::fields(format!("type={TYPE}"));
    let tokens = Tokens {
        secrets: cx.cached_api_selected(&selection),
        accounts: cx.cached_api(),
        signer,
        root_ca: config.root_ca.clone(),
    };
    let known = tokens.secrets.clone();
    Controller::with_selectors("serviceaccount-token", cx, &selection, tokens)
        .queue_named("serviceaccount_tokens_service")
        .watches::<ServiceAccount>(move |account| {
            let near = known.in_namespace(account.metadata().namespace()).into_iter();
            let own = near.filter(|secret| {
                secret.metadata().annotations().get(NAME) == Some(account.metadata().name())
            });
            own.map(|secret| NamespacedName::from_meta(secret.metadata())).collect()
        })
        .start();
}

/// Reconciler of token Secrets.
#[derive(Debug)]
struct Tokens {
    secrets: CachedApi<Secret>,
    accounts: CachedApi<ServiceAccount>,
    signer: Arc<TokenSigner>,
    root_ca: String,
}

impl Reconcile for Tokens {
    type Kind = Secret;

    async fn reconcile(
        &self,
        key: &NamespacedName,
        secret: Option<Secret>,
    ) -> Result<Requeue, Error> {
        let Some(secret) = secret.filter(|secret| secret.type_() == TYPE) else {
            return Ok(Requeue::OnChange);
        };
        let Some(name) = secret.metadata().annotations().get(NAME) else {
            return Ok(Requeue::OnChange);
        };
        let Some(account) =
            self.account(&NamespacedName::new(&key.namespace, name), &secret).await?
        else {
            let because = secret.write_cause("the account of the token is gone");
            self.secrets.with_cause(&because).delete(&secret).await?;
            return Ok(Requeue::OnChange);
        };
        let filled = filled(&secret, &account, &self.root_ca, || {
            let meta = account.metadata();
            let owner = pki::BoundObjectRef { name: meta.name().into(), uid: meta.uid().into() };
            let claims = ServiceAccountClaims::legacy(&key.namespace, &key.name, owner);
            self.signer.sign(claims).map_err(|error| Error::Invalid(error.to_string()))
        })?;
        if filled != secret {
            let because = secret.write_cause("the secret has a token");
            self.secrets.with_cause(&because).update(filled).await?;
        }
        Ok(Requeue::OnChange)
    }
}

impl Tokens {
    /// The service account of a Secret. Its absence is confirmed by the API server, because the
    /// Secret is then deleted.
    async fn account(
        &self,
        key: &NamespacedName,
        secret: &Secret,
    ) -> Result<Option<ServiceAccount>, Error> {
        let uid = secret.metadata().annotations().get(UID);
        let is = |account: &ServiceAccount| uid.is_none_or(|uid| uid == account.metadata().uid());
        if let Some(known) = self.accounts.get(key).filter(is) {
            return Ok(Some(known));
        }
        match self.accounts.api().get(key).await {
            Ok(account) => Ok(Some(account).filter(is)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The Secret with CA bundle, namespace and token.
fn filled(
    secret: &Secret,
    account: &ServiceAccount,
    root_ca: &str,
    token: impl FnOnce() -> Result<String, Error>,
) -> Result<Secret, Error> {
    let mut new = secret.clone();
    let has = |name: &str| secret.data().get(name).is_some_and(|value| !value.is_empty());
    let ca = Bytes::encode(root_ca.as_bytes());
    if !root_ca.is_empty() && secret.data().get("ca.crt") != Some(&*ca) {
        new.data_mut().insert("ca.crt", ca);
    }
    if !has("namespace") {
        let namespace = Bytes::encode(secret.metadata().namespace().as_bytes());
        new.data_mut().insert("namespace", namespace);
    }
    if !has("token") {
        new.data_mut().insert("token", Bytes::encode(token()?.as_bytes()));
    }
    if new != *secret {
        let notes = new.metadata_mut().annotations_mut();
        notes.insert(NAME, account.metadata().name());
        notes.insert(UID, account.metadata().uid());
    }
    Ok(new)
}

#[cfg(test)]
mod tests {
    use object::ObjectMeta;

    use super::*;

    #[test]
    fn a_secret_is_filled_once() {
        let meta = ObjectMeta::new().with_name("s").with_namespace("n");
        let secret = Secret::new().with_metadata(meta);
        let account =
            ServiceAccount::new().with_metadata(ObjectMeta::new().with_name("a").with_uid("u"));
        let full = filled(&secret, &account, "ca", || Ok("token".into())).unwrap();
        let names: Vec<&str> = full.data().iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["ca.crt", "namespace", "token"]);
        assert_eq!(full.metadata().annotations().get(UID), Some("u"));
        let again = filled(&full, &account, "ca", || panic!("it has one")).unwrap();
        assert_eq!(again, full);
    }
}
