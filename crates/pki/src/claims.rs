//! Claims of service account tokens.

use serde::{Deserialize, Deserializer, Serialize};

/// The issuer of tokens stored in Secrets.
pub(crate) const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";

/// The claims, in the order in which they are serialized.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceAccountClaims {
    #[serde(
        rename = "aud",
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "one_or_many"
    )]
    pub audiences: Vec<String>,
    #[serde(rename = "exp", skip_serializing_if = "Option::is_none", deserialize_with = "moment")]
    pub expires: Option<i64>,
    #[serde(rename = "iat", skip_serializing_if = "Option::is_none", deserialize_with = "moment")]
    pub issued: Option<i64>,
    #[serde(rename = "iss", skip_serializing_if = "String::is_empty")]
    pub issuer: String,
    #[serde(rename = "jti", skip_serializing_if = "String::is_empty")]
    pub id: String,
    #[serde(rename = "kubernetes.io", skip_serializing_if = "Option::is_none")]
    pub bound: Option<BoundObjects>,
    #[serde(
        rename = "kubernetes.io/serviceaccount/namespace",
        skip_serializing_if = "String::is_empty"
    )]
    pub legacy_namespace: String,
    #[serde(
        rename = "kubernetes.io/serviceaccount/secret.name",
        skip_serializing_if = "String::is_empty"
    )]
    pub legacy_secret: String,
    #[serde(
        rename = "kubernetes.io/serviceaccount/service-account.name",
        skip_serializing_if = "String::is_empty"
    )]
    pub legacy_name: String,
    #[serde(
        rename = "kubernetes.io/serviceaccount/service-account.uid",
        skip_serializing_if = "String::is_empty"
    )]
    pub legacy_uid: String,
    #[serde(rename = "nbf", skip_serializing_if = "Option::is_none", deserialize_with = "moment")]
    pub not_before: Option<i64>,
    #[serde(rename = "sub", skip_serializing_if = "String::is_empty")]
    pub subject: String,
}

/// The objects that a token is bound to: it becomes invalid when any of them is deleted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BoundObjects {
    #[serde(rename = "mutatingwebhookconfiguration", skip_serializing_if = "Option::is_none")]
    pub(crate) mutating_webhook: Option<BoundObjectRef>,
    pub namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<BoundObjectRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<BoundObjectRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<BoundObjectRef>,
    #[serde(rename = "serviceaccount")]
    pub service_account: BoundObjectRef,
    #[serde(rename = "validatingwebhookconfiguration", skip_serializing_if = "Option::is_none")]
    pub(crate) validating_webhook: Option<BoundObjectRef>,
    /// The time after which a client should have requested a new token.
    #[serde(
        rename = "warnafter",
        skip_serializing_if = "Option::is_none",
        deserialize_with = "moment"
    )]
    pub warn_after: Option<i64>,
}

/// Name and uid of an object that a token is bound to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BoundObjectRef {
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

impl BoundObjects {
    /// Whether the token is bound to an object that we cannot look up.
    pub(crate) fn has_unsupported(&self) -> bool {
        self.mutating_webhook.is_some() || self.validating_webhook.is_some()
    }
}

impl ServiceAccountClaims {
    /// The claims of a bound token.
    pub fn bound(
        bound: BoundObjects,
        audiences: Vec<String>,
        lifetime_seconds: i64,
        now: i64,
    ) -> Self {
        Self {
            audiences,
            expires: Some(now + lifetime_seconds),
            issued: Some(now),
            not_before: Some(now),
            subject: subject(&bound.namespace, &bound.service_account.name),
            bound: Some(bound),
            ..Self::default()
        }
    }

    /// The claims of a token stored in a Secret, which never expires.
    pub fn legacy(namespace: &str, secret: &str, service_account: BoundObjectRef) -> Self {
        Self {
            issuer: LEGACY_ISSUER.into(),
            subject: subject(namespace, &service_account.name),
            legacy_namespace: namespace.into(),
            legacy_secret: secret.into(),
            legacy_name: service_account.name,
            legacy_uid: service_account.uid,
            ..Self::default()
        }
    }

    pub fn is_legacy(&self) -> bool {
        self.issuer == LEGACY_ISSUER
    }

    /// Namespace, name and uid of the service account.
    pub fn service_account(&self) -> (&str, &str, &str) {
        match &self.bound {
            Some(BoundObjects { namespace, service_account: account, .. }) => {
                (namespace, &account.name, &account.uid)
            }
            None => (&self.legacy_namespace, &self.legacy_name, &self.legacy_uid),
        }
    }
}

fn subject(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

fn one_or_many<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Audience {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Audience::deserialize(from)? {
        Audience::One(one) => vec![one],
        Audience::Many(many) => many,
    })
}

/// Parses seconds since 1970; other issuers may write fractions.
#[expect(clippy::cast_possible_truncation, reason = "a moment out of range is cut to the range")]
fn moment<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    Ok(Option::<f64>::deserialize(from)?.map(|seconds| seconds as i64))
}
