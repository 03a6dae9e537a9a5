//! Authorization by somebody else: a SubjectAccessReview is posted, the answer is kept
//! for a while.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use object::{Text, Value, from_json, to_json};
use server::{Attributes, Authorize, Authorizing, Decision, Remote, User};
use tracing::warn;

const CACHE: usize = 8192;

/// How to ask, and what no answer means.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(crate) within: Duration,
    pub(crate) authorized_ttl: Duration,
    pub(crate) unauthorized_ttl: Duration,
    /// No answer is no, rather than no opinion.
    pub(crate) deny_on_failure: bool,
}

pub(crate) struct AccessWebhook {
    remote: Remote,
    terms: Terms,
    known: Mutex<HashMap<Vec<u8>, (Instant, Decision)>>,
}

impl std::fmt::Debug for AccessWebhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AccessWebhook({})", self.remote.url())
    }
}

impl AccessWebhook {
    pub(crate) fn new(remote: Remote, terms: Terms) -> Self {
        Self { remote, terms, known: Mutex::default() }
    }

    async fn decide(&self, review: Vec<u8>) -> Decision {
        let now = Instant::now();
        let remembered = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.get(&review).filter(|(until, _)| *until > now).map(|(_, said)| said.clone())
        };
        if let Some(decision) = remembered {
            return decision;
        }
        let decision = match self.ask(&review).await {
            Ok(decision) => decision,
            Err(error) => {
                warn!(%error, "the authorization webhook does not answer");
                return match self.terms.deny_on_failure {
                    true => Decision::Deny(error),
                    false => Decision::NoOpinion(error),
                };
            }
        };
        let ttl = match decision {
            Decision::Allow(_) => self.terms.authorized_ttl,
            _ => self.terms.unauthorized_ttl,
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= CACHE {
            known.retain(|_, (until, _)| *until > now);
        }
        if known.len() < CACHE {
            known.insert(review, (now + ttl, decision.clone()));
        }
        decision
    }

    async fn ask(&self, review: &[u8]) -> Result<Decision, String> {
        let (code, bytes) = self.remote.post(review.to_vec(), self.terms.within).await?;
        if !code.is_success() {
            return Err(format!("the webhook answers {code}"));
        }
        let answer = from_json(&bytes).map_err(|error| error.to_string())?;
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

impl Authorize for AccessWebhook {
    fn authorize<'a>(&'a self, user: &'a User, attributes: &'a Attributes) -> Authorizing<'a> {
        Box::pin(self.decide(to_json(&review(user, attributes))))
    }
}

fn review(user: &User, attributes: &Attributes) -> Value {
    let mut review = Value::object();
    review["kind"] = "SubjectAccessReview".into();
    review["apiVersion"] = "authorization.k8s.io/v1".into();
    let mut spec = Value::object();
    spec["user"] = user.name.clone().into();
    spec["uid"] = user.uid.clone().into();
    spec["groups"] = user.groups.iter().map(Text::as_str).collect();
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
    review["spec"] = spec;
    review
}
