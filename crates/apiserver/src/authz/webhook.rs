//! The webhook authorizer: posts a SubjectAccessReview, and caches the decision.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use object::{
    Recent, Text, Value,
    selector::{FieldSelector, FieldTerm, Operator, Requirement, Selector},
    to_json,
};
use server::{Attributes, AuthorizeFuture, Authorizer, Decision, UserInfo, WebhookClient};
use tracing::warn;

use super::conditions::AuthorizerMatchConditions;

/// Maximum size of the cache in bytes, with requests and decisions.
const CACHE: usize = 8 << 20;
/// Maximum length of a cached request; users control how long one is.
const LONGEST: usize = 10_000;
/// Estimated size of a decision in the cache.
const ANSWER: usize = 256;

/// Settings of an authorization webhook.
#[derive(Debug)]
pub(crate) struct WebhookSettings {
    /// The version of SubjectAccessReview.
    pub(crate) version: String,
    pub(crate) within: Duration,
    pub(crate) authorized_ttl: Duration,
    pub(crate) unauthorized_ttl: Duration,
    /// Whether a failed call means Deny instead of NoOpinion.
    pub(crate) deny_on_failure: bool,
    /// The conditions under which the webhook is called at all.
    pub(crate) conditions: AuthorizerMatchConditions,
}

/// An authorization webhook, and the cache of its decisions.
pub(crate) struct WebhookAuthorizer {
    remote: WebhookClient,
    terms: WebhookSettings,
    cache: Mutex<Recent<Vec<u8>, (Instant, Decision)>>,
}

impl std::fmt::Debug for WebhookAuthorizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AccessWebhook({})", self.remote.url())
    }
}

impl WebhookAuthorizer {
    pub(crate) fn new(remote: WebhookClient, terms: WebhookSettings) -> Self {
        Self { remote, terms, cache: Mutex::new(Recent::new(CACHE)) }
    }

    async fn decide(&self, review: Value) -> Decision {
        match self.terms.conditions.matches(review.get("spec")) {
            Ok(true) => {}
            Ok(false) => return Decision::NoOpinion(String::new()),
            Err(error) => return self.failed(&error),
        }
        let asked = to_json(&review);
        let now = Instant::now();
        let remembered = {
            let mut known = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
            known.get(&asked).filter(|(until, _)| *until > now).map(|(_, said)| said.clone())
        };
        if let Some(decision) = remembered {
            return decision;
        }
        let decision = match self.ask(&review).await {
            Ok(decision) => decision,
            Err(error) => return self.failed(&error),
        };
        let ttl = match decision {
            Decision::Allow(_) => self.terms.authorized_ttl,
            _ => self.terms.unauthorized_ttl,
        };
        if asked.len() <= LONGEST {
            let weight = asked.len() + ANSWER;
            let mut known = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert(asked, (now + ttl, decision.clone()), weight);
        }
        decision
    }

    fn failed(&self, error: &str) -> Decision {
        warn!(error, "Failed to make webhook authorizer request");
        match self.terms.deny_on_failure {
            true => Decision::Deny(String::new()),
            false => Decision::NoOpinion(String::new()),
        }
    }

    async fn ask(&self, review: &Value) -> Result<Decision, String> {
        let answer = self.remote.post_review(review, self.terms.within).await?;
        let status = answer.get("status");
        let flag = |name: &str| status.get(name).as_bool().unwrap_or_default();
        let why = status.get("reason").as_str().unwrap_or_default().to_owned();
        match (flag("allowed"), flag("denied")) {
            (true, true) => {
                Err("webhook subject access review returned both allow and deny response"
                    .to_owned())
            }
            (true, false) => Ok(Decision::Allow(why)),
            (false, true) => Ok(Decision::Deny(why)),
            (false, false) => Ok(Decision::NoOpinion(why)),
        }
    }
}

impl Authorizer for WebhookAuthorizer {
    fn authorize<'a>(
        &'a self,
        user: &'a UserInfo,
        attributes: &'a Attributes,
    ) -> AuthorizeFuture<'a> {
        Box::pin(self.decide(review(user, attributes, &self.terms.version)))
    }

    fn asks_elsewhere(&self) -> bool {
        true
    }
}

fn review(user: &UserInfo, attributes: &Attributes, version: &str) -> Value {
    let mut review = Value::object();
    review["kind"] = "SubjectAccessReview".into();
    review["apiVersion"] = format!("authorization.k8s.io/{version}").into();
    let mut spec = Value::object();
    spec["user"] = user.name.clone().into();
    spec["uid"] = user.uid.clone().into();
    // v1beta1 names the field `group`.
    let groups = if version == "v1beta1" { "group" } else { "groups" };
    spec[groups] = user.groups.iter().map(Text::as_str).collect();
    for (key, values) in &user.extra {
        spec["extra"][key.as_str()] = values.iter().map(String::as_str).collect();
    }
    let (part, fields): (&str, &[(&str, &Text)]) = if attributes.is_resource {
        (
            "resourceAttributes",
            &[
                ("namespace", &attributes.namespace),
                ("verb", &attributes.verb),
                ("group", &attributes.group),
                ("version", &attributes.version),
                ("resource", &attributes.resource),
                ("subresource", &attributes.subresource),
                ("name", &attributes.name),
            ],
        )
    } else {
        ("nonResourceAttributes", &[("path", &attributes.path), ("verb", &attributes.verb)])
    };
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        spec[part][*name] = (*value).clone().into();
    }
    if attributes.is_resource {
        for (name, requirements) in
            [("fieldSelector", fields_of(attributes)), ("labelSelector", labels_of(attributes))]
        {
            if !requirements.is_empty() {
                spec[part][name]["requirements"] = requirements.into_iter().collect();
            }
        }
    }
    review["spec"] = spec;
    review
}

fn fields_of(attributes: &Attributes) -> Vec<Value> {
    let terms = FieldSelector::parse(&attributes.field_selector).map(|selector| selector.terms);
    let terms = terms.unwrap_or_default();
    let of = |term: &FieldTerm| {
        let operator = if term.equal { "In" } else { "NotIn" };
        requirement(&term.field, operator, std::slice::from_ref(&term.value))
    };
    terms.iter().map(of).collect()
}

fn labels_of(attributes: &Attributes) -> Vec<Value> {
    let Ok(selector) = Selector::parse(&attributes.label_selector) else { return Vec::new() };
    let of = |own: &Requirement| {
        let operator = match own.operator {
            Operator::Equals | Operator::DoubleEquals | Operator::In => "In",
            Operator::NotEquals | Operator::NotIn => "NotIn",
            Operator::Exists => "Exists",
            Operator::DoesNotExist => "DoesNotExist",
            // A review has no such operator. Without the requirement it asks for more, never for
            // less.
            Operator::GreaterThan | Operator::LessThan => return None,
        };
        Some(requirement(&own.key, operator, &own.values))
    };
    selector.requirements().iter().filter_map(of).collect()
}

fn requirement(key: &str, operator: &str, values: &[Text]) -> Value {
    let mut tree = Value::object();
    tree["key"] = key.into();
    tree["operator"] = operator.into();
    if !values.is_empty() {
        tree["values"] = values.iter().map(Text::as_str).collect();
    }
    tree
}
