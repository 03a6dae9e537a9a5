//! Fills Secrets of type `kubernetes.io/service-account-token` with a token of their
//! account, and deletes them with it.

use std::sync::Arc;

use api::core::{Secret, ServiceAccount};
use client::{Error, Selection};
use object::{Bytes, Key};
use pki::{Claims, Signer};
use runtime::{Context, Controller, Next, Objects, Reconcile};
use schema::Kind;

use crate::Config;

const TYPE: &str = "kubernetes.io/service-account-token";
const NAME: &str = "kubernetes.io/service-account.name";
const UID: &str = "kubernetes.io/service-account.uid";

pub(crate) fn start(cx: &Context, config: &Config) {
    let Some(signer) = config.token_signer.clone() else { return };
    let selection = Selection::fields(format!("type={TYPE}"));
    let tokens = Tokens {
        secrets: cx.objects_of(&selection),
        accounts: cx.objects(),
        signer,
        root_ca: config.root_ca.clone(),
    };
    let known = tokens.secrets.clone();
    Controller::of("serviceaccount-token", cx, &selection, tokens)
        .watches::<ServiceAccount>(move |account| {
            let near = known.in_namespace(account.metadata().namespace()).into_iter();
            let own = near.filter(|secret| {
                secret.metadata().annotations().get(NAME) == Some(account.metadata().name())
            });
            own.map(|secret| Key::of(secret.metadata())).collect()
        })
        .start();
}

#[derive(Debug)]
struct Tokens {
    secrets: Objects<Secret>,
    accounts: Objects<ServiceAccount>,
    signer: Arc<Signer>,
    root_ca: String,
}

impl Reconcile for Tokens {
    type Kind = Secret;

    async fn reconcile(&self, key: &Key, secret: Option<Secret>) -> Result<Next, Error> {
        let Some(secret) = secret.filter(|secret| secret.type_() == TYPE) else {
            return Ok(Next::OnChange);
        };
        let Some(name) = secret.metadata().annotations().get(NAME) else {
            return Ok(Next::OnChange);
        };
        let Some(account) = self.account(&Key::new(&key.namespace, name), &secret).await? else {
            let because = secret.causes("the account of the token is gone");
            self.secrets.because(&because).delete(&secret).await?;
            return Ok(Next::OnChange);
        };
        let filled = filled(&secret, &account, &self.root_ca, || {
            let meta = account.metadata();
            let owner = pki::Reference { name: meta.name().into(), uid: meta.uid().into() };
            let claims = Claims::legacy(&key.namespace, &key.name, owner);
            self.signer.sign(claims).map_err(|error| Error::Invalid(error.to_string()))
        })?;
        if filled != secret {
            let because = secret.causes("the secret has a token");
            self.secrets.because(&because).update(filled).await?;
        }
        Ok(Next::OnChange)
    }
}

impl Tokens {
    /// The account of a secret. That it is gone must be certain.
    async fn account(&self, key: &Key, secret: &Secret) -> Result<Option<ServiceAccount>, Error> {
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

/// The secret with all that it should have.
fn filled(
    secret: &Secret,
    account: &ServiceAccount,
    root_ca: &str,
    token: impl FnOnce() -> Result<String, Error>,
) -> Result<Secret, Error> {
    let mut new = secret.clone();
    let has = |name: &str| secret.data().get(name).is_some_and(|value| !value.is_empty());
    let ca = Bytes::text(root_ca.as_bytes());
    if !root_ca.is_empty() && secret.data().get("ca.crt") != Some(&*ca) {
        new.data_mut().insert("ca.crt", ca);
    }
    if !has("namespace") {
        let namespace = Bytes::text(secret.metadata().namespace().as_bytes());
        new.data_mut().insert("namespace", namespace);
    }
    if !has("token") {
        new.data_mut().insert("token", Bytes::text(token()?.as_bytes()));
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
