//! The server's authorizer, as expressions ask it.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use cel::{Access, Authorizer};
use server::{Attributes, Decision, User};

use crate::admission::Rights;

/// What the user of a request may do.
pub(super) struct Asked<'a> {
    pub(super) rights: &'a Rights,
    pub(super) user: &'a User,
}

impl Authorizer for Asked<'_> {
    fn check(&self, access: &Access<'_>) -> cel::Decision {
        let (account, attributes) = match access {
            Access::Path { user, path, verb } => {
                let attributes = Attributes {
                    verb: (*verb).into(),
                    path: (*path).into(),
                    ..Attributes::default()
                };
                (*user, attributes)
            }
            Access::Resource { user, check, verb } => {
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
            User::new(&name, &["system:serviceaccounts", &all])
        });
        decide(self.rights, account.as_ref().unwrap_or(self.user), &attributes)
    }
}

/// The first opinion. Expressions do not wait: whoever has to ask elsewhere has none.
fn decide(rights: &Rights, user: &User, attributes: &Attributes) -> cel::Decision {
    let mut reasons = Vec::new();
    for way in &rights.0 {
        let asking = pin!(way.authorize(user, attributes));
        let answer = asking.poll(&mut Context::from_waker(Waker::noop()));
        match answer {
            Poll::Ready(Decision::Allow(reason)) => {
                return cel::Decision { allowed: true, reason, error: None };
            }
            Poll::Ready(Decision::Deny(reason)) => {
                return cel::Decision { allowed: false, reason, error: None };
            }
            Poll::Ready(Decision::NoOpinion(reason)) => reasons.push(reason),
            Poll::Pending => {
                let error =
                    "an authorizer that is not part of this server was not asked".to_owned();
                return cel::Decision { allowed: false, reason: String::new(), error: Some(error) };
            }
        }
    }
    reasons.retain(|reason| !reason.is_empty());
    cel::Decision { allowed: false, reason: reasons.join("\n"), error: None }
}
