//! The service account token authenticator. A token is valid as long as the object that it is bound
//! to exists.

use std::{
    fmt::Write as _,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use http::request::Parts;
use object::{Clock, Object, Status, Time, View};
use pki::{BoundObjectRef, PublicKey, ServiceAccountClaims, TokenError, TokenVerifier};
use server::{AuthenticateFuture, Authenticator, MetricsSource, Peer, Registry, UserInfo};

use super::secret_token::LegacyTokenMetrics;
use crate::external_signer::ExternalSigner;

/// How many seconds a token stays valid after the deletionTimestamp of the object that it is bound
/// to, while the object still exists.
const LEEWAY: i64 = 60;

/// Authenticates bearer tokens of service accounts.
#[derive(Debug)]
pub(crate) struct ServiceAccountAuthenticator {
    pub(crate) verifier: TokenVerifier,
    /// The external signer, whose keys are used instead of the verifier's.
    pub(crate) external: Option<Arc<ExternalSigner>>,
    pub(crate) registry: Arc<OnceLock<Arc<Registry>>>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Whether a legacy token is checked against its Secret (`--service-account-lookup`).
    pub(crate) lookup: bool,
    pub(crate) used: TokenMetrics,
}

/// How often tokens were used: in total, and after they should have been refreshed.
#[derive(Debug, Default)]
pub(crate) struct TokenMetrics {
    valid: AtomicU64,
    stale: AtomicU64,
    of_secrets: LegacyTokenMetrics,
}

impl MetricsSource for ServiceAccountAuthenticator {
    fn report(&self, out: &mut String) {
        let of_secrets = &self.used.of_secrets;
        for (name, help, count) in [
            (
                "serviceaccount_valid_tokens_total",
                "Valid service account tokens used.",
                &self.used.valid,
            ),
            (
                "serviceaccount_stale_tokens_total",
                "Service account tokens used after their expiration.",
                &self.used.stale,
            ),
            (
                "serviceaccount_legacy_tokens_total",
                "Legacy service account tokens used.",
                &of_secrets.all,
            ),
            (
                "serviceaccount_legacy_manual_token_uses_total",
                "Manually created legacy service account tokens used.",
                &of_secrets.manual,
            ),
            (
                "serviceaccount_legacy_auto_token_uses_total",
                "Auto-generated legacy service account tokens used.",
                &of_secrets.auto_generated,
            ),
            (
                "serviceaccount_invalid_legacy_auto_token_uses_total",
                "Invalidated legacy service account tokens used.",
                &of_secrets.invalid,
            ),
        ] {
            let count = count.load(Ordering::Relaxed);
            let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {count}\n");
        }
    }
}

impl ServiceAccountAuthenticator {
    /// The public keys for OIDC discovery, and for how many seconds clients may cache them.
    pub(crate) fn published_keys(&self) -> (Vec<PublicKey>, u64) {
        match &self.external {
            Some(external) => external.published_keys(),
            None => (self.verifier.keys.clone(), 3600),
        }
    }

    /// The audiences of this server.
    pub(crate) fn audiences(&self) -> &[String] {
        &self.verifier.audiences
    }

    /// Authenticates a token for one of these audiences (this server's own if empty); returns the
    /// user and the matching audiences.
    pub(crate) async fn identify(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Result<(UserInfo, Vec<String>), TokenError> {
        let wanted = if audiences.is_empty() { &self.verifier.audiences } else { audiences };
        let now = self.clock.now();
        let verified = match &self.external {
            None => self.verifier.verify(token, wanted, now)?,
            Some(external) => {
                let verify = |keys: &[_]| self.verifier.verify_with(keys, token, wanted, now);
                external.with_keys(verify).await?
            }
        };
        let claims = &verified.claims;
        self.check(claims, token).await?;
        let stale = claims.bound.as_ref().and_then(|bound| bound.warn_after);
        let count = match stale.is_some_and(|after| now > after) {
            true => &self.used.stale,
            false => &self.used.valid,
        };
        count.fetch_add(1, Ordering::Relaxed);
        Ok((user(claims), verified.audiences))
    }

    /// Checks that the service account and the object that the token is bound to still exist, with
    /// the same uid.
    async fn check(&self, claims: &ServiceAccountClaims, token: &str) -> Result<(), TokenError> {
        if claims.is_legacy() && !self.lookup {
            return Ok(());
        }
        let registry = self.registry.get().ok_or(TokenError::Invalid("the server is starting"))?;
        let (namespace, name, uid) = claims.service_account();
        let is = |group: &str, plural: &str, namespace: &str, name: &str, uid: &str| {
            let kind = registry.kind(group, plural).ok();
            let found = kind.and_then(|kind| registry.get(&kind, namespace, name).ok());
            found.is_some_and(|found| {
                let meta = Object::view(&found.object).metadata();
                let deleted = meta.deletion_timestamp().and_then(Time::parse_seconds);
                meta.uid() == uid && deleted.is_none_or(|at| at >= self.clock.now() - LEEWAY)
            })
        };
        if !is("", "serviceaccounts", namespace, name, uid) {
            return Err(TokenError::Invalid("the service account is gone"));
        }
        if claims.is_legacy() {
            return self.used.of_secrets.check(registry, claims, token).await;
        }
        let Some(bound) = &claims.bound else { return Ok(()) };
        let there = |reference: &Option<BoundObjectRef>, plural: &str, namespace: &str| {
            let Some(reference) = reference else { return true };
            is("", plural, namespace, &reference.name, &reference.uid)
        };
        if !there(&bound.pod, "pods", namespace) {
            return Err(TokenError::Invalid("the pod that the token is bound to is gone"));
        } else if !there(&bound.secret, "secrets", namespace) {
            return Err(TokenError::Invalid("the secret that the token is bound to is gone"));
        } else if bound.pod.is_none() && !there(&bound.node, "nodes", "") {
            return Err(TokenError::Invalid("the node that the token is bound to is gone"));
        }
        Ok(())
    }
}

/// The user of a service account, with the node and pod of the token as extra.
pub(crate) fn user(claims: &ServiceAccountClaims) -> UserInfo {
    let (namespace, name, uid) = claims.service_account();
    let mut user = UserInfo::new(
        &format!("system:serviceaccount:{namespace}:{name}"),
        &["system:serviceaccounts", &format!("system:serviceaccounts:{namespace}")],
    );
    user.uid = uid.into();
    let mut extra = |key: &str, value: &str| {
        if !value.is_empty() {
            user.extra
                .insert(format!("authentication.kubernetes.io/{key}"), vec![value.to_owned()]);
        }
    };
    if !claims.id.is_empty() {
        extra("credential-id", &format!("JTI={}", claims.id));
    }
    if let Some(bound) = &claims.bound {
        if let Some(pod) = &bound.pod {
            extra("pod-name", &pod.name);
            extra("pod-uid", &pod.uid);
        }
        if let Some(node) = &bound.node {
            extra("node-name", &node.name);
            extra("node-uid", &node.uid);
        }
    }
    user
}

impl Authenticator for ServiceAccountAuthenticator {
    fn authenticate<'a>(&'a self, _: &'a Peer, request: &'a Parts) -> AuthenticateFuture<'a> {
        Box::pin(async move {
            let Some(token) = super::bearer(request) else { return Ok(None) };
            match self.identify(token, &[]).await {
                Ok((user, _)) => Ok(Some(user)),
                Err(TokenError::NotOurToken) => Ok(None),
                Err(_) => Err(Status::unauthorized()),
            }
        })
    }
}
