//! The `authorizer` variable of CEL expressions.
//!
//! CEL evaluation is synchronous. When a check needs an authorizer that does I/O, such as a
//! webhook, the check is recorded, the evaluation fails, and it is repeated once the decision is
//! known.

use std::{
    pin::pin,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use cel::{AccessRequest, Authorizer};
use server::{Attributes, Decision, UserInfo};

use crate::admission::AuthorizerChain;

/// Maximum number of such checks that one evaluation may need.
const MOST: usize = 64;

/// Authorization checks of the user of a request, with the decisions known so far.
pub(super) struct CelAuthorizer<'a> {
    rights: &'a AuthorizerChain,
    user: &'a UserInfo,
    questions: Mutex<Questions>,
}

/// The checks that have been decided, and the one that made the last evaluation fail.
#[derive(Default)]
struct Questions {
    answered: Vec<(Question, cel::Decision)>,
    open: Option<Question>,
}

/// An authorization check: user and attributes.
#[derive(Clone, PartialEq)]
struct Question {
    user: UserInfo,
    attributes: Attributes,
}

impl<'a> CelAuthorizer<'a> {
    pub(super) fn new(rights: &'a AuthorizerChain, user: &'a UserInfo) -> Self {
        Self { rights, user, questions: Mutex::default() }
    }

    /// Decides the check that made the last evaluation fail. Returns whether there was one, so that
    /// the evaluation must be repeated.
    pub(super) async fn answer(&self) -> bool {
        let Some(question) = self.questions().open.take() else { return false };
        let decision = decide(self.rights, &question).await;
        let mut questions = self.questions();
        questions.answered.push((question, decision));
        true
    }

    fn questions(&self) -> MutexGuard<'_, Questions> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The decision, if it is already known or needs no I/O.
    fn at_once(&self, question: &Question) -> Option<cel::Decision> {
        let known = |questions: &Questions| {
            let found = questions.answered.iter().find(|(other, _)| other == question);
            found.map(|(_, decision)| decision.clone())
        };
        if let Some(decision) = known(&self.questions()) {
            return Some(decision);
        }
        // Authorizers before the first one that does I/O may already decide.
        let waits = self.rights.0.iter().position(|way| way.asks_elsewhere());
        let here = AuthorizerChain(self.rights.0[..waits.unwrap_or(self.rights.0.len())].to_vec());
        let deciding = pin!(first_opinion(&here, question));
        match deciding.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready((decision, true)) => Some(decision),
            Poll::Ready((decision, false)) if waits.is_none() => Some(decision),
            _ => None,
        }
    }
}

impl Authorizer for CelAuthorizer<'_> {
    fn check(&self, access: &AccessRequest<'_>) -> cel::Decision {
        let (account, attributes) = match access {
            AccessRequest::Path { user, path, verb } => {
                let attributes = Attributes {
                    verb: (*verb).into(),
                    path: (*path).into(),
                    ..Attributes::default()
                };
                (*user, attributes)
            }
            AccessRequest::Resource { user, check, verb } => {
                let attributes = Attributes {
                    verb: (*verb).into(),
                    group: check.group.as_str().into(),
                    version: "*".into(),
                    resource: check.resource.as_str().into(),
                    subresource: check.subresource.as_str().into(),
                    namespace: check.namespace.as_str().into(),
                    name: check.name.as_str().into(),
                    is_resource: true,
                    field_selector: check.field_selector.as_str().into(),
                    label_selector: check.label_selector.as_str().into(),
                    ..Attributes::default()
                };
                (*user, attributes)
            }
        };
        let account = account.map(|(namespace, name)| {
            let all = format!("system:serviceaccounts:{namespace}");
            let name = format!("system:serviceaccount:{namespace}:{name}");
            UserInfo::new(&name, &["system:serviceaccounts", &all])
        });
        let user = account.unwrap_or_else(|| self.user.clone());
        let question = Question { user, attributes };
        self.at_once(&question).unwrap_or_else(|| {
            let mut questions = self.questions();
            let few = questions.answered.len() < MOST;
            if few {
                questions.open.get_or_insert(question);
            }
            let why = if few { "not yet known" } else { "too many checks of one evaluation" };
            cel::Decision { error: Some(why.to_owned()), ..cel::Decision::default() }
        })
    }
}

async fn decide(rights: &AuthorizerChain, question: &Question) -> cel::Decision {
    first_opinion(rights, question).await.0
}

/// The first decision, and whether any authorizer had an opinion.
async fn first_opinion(rights: &AuthorizerChain, question: &Question) -> (cel::Decision, bool) {
    let mut reasons = Vec::new();
    for way in &rights.0 {
        let decided = match way.authorize(&question.user, &question.attributes).await {
            Decision::Allow(reason) => cel::Decision { allowed: true, reason, error: None },
            Decision::Deny(reason) => cel::Decision { allowed: false, reason, error: None },
            Decision::NoOpinion(reason) => {
                reasons.push(reason);
                continue;
            }
        };
        return (decided, true);
    }
    reasons.retain(|reason| !reason.is_empty());
    (cel::Decision { allowed: false, reason: reasons.join("\n"), error: None }, false)
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use server::AuthorizeFuture;

    use super::*;

    /// An authorizer that responds later, and counts its calls.
    #[derive(Debug, Default)]
    struct Elsewhere(AtomicUsize);

    impl server::Authorizer for Elsewhere {
        fn authorize<'a>(
            &'a self,
            _: &'a UserInfo,
            attributes: &'a Attributes,
        ) -> AuthorizeFuture<'a> {
            Box::pin(async move {
                self.0.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                match &*attributes.path {
                    "/yes" => Decision::Allow("elsewhere".to_owned()),
                    _ => Decision::NoOpinion(String::new()),
                }
            })
        }

        fn asks_elsewhere(&self) -> bool {
            true
        }
    }

    #[tokio::test]
    async fn who_has_to_ask_elsewhere_is_waited_for() {
        let elsewhere = Arc::new(Elsewhere::default());
        let (rights, user) = (AuthorizerChain(vec![elsewhere.clone()]), UserInfo::new("u", &[]));
        let asked = CelAuthorizer::new(&rights, &user);
        let check =
            |path: &str| asked.check(&AccessRequest::Path { user: None, path, verb: "get" });
        assert!(check("/yes").error.is_some(), "nobody has been asked yet");
        assert_eq!(elsewhere.0.load(Ordering::SeqCst), 0);
        assert!(asked.answer().await);
        assert!(check("/yes").allowed);
        assert!(check("/no").error.is_some() && asked.answer().await);
        assert!(!check("/no").allowed && check("/no").error.is_none());
        assert!(!asked.answer().await, "all is known");
        assert_eq!(elsewhere.0.load(Ordering::SeqCst), 2, "each question was asked once");
    }
}
