//! What callers may do.

mod abac;
mod conditions;
mod config;
mod grants;
mod node;
mod rbac;
mod rules;
mod webhook;

pub(crate) use self::{
    abac::Abac,
    config::{MODES, Makings},
    node::{NodeAuthorizer, node_of},
    rbac::Rbac,
    rules::{missing, told},
    webhook::{AccessWebhook, Terms},
};
use server::{Attributes, Authorize, Authorizing, Decision, User};

/// Those who may do everything, whatever the roles say: nobody can lock them out.
#[derive(Debug)]
pub(crate) struct Masters;

impl Authorize for Masters {
    fn authorize<'a>(&'a self, user: &'a User, _: &'a Attributes) -> Authorizing<'a> {
        let decision = if user.is_in("system:masters") {
            Decision::Allow(String::new())
        } else {
            Decision::NoOpinion(String::new())
        };
        Box::pin(async move { decision })
    }
}

/// `--authorization-mode=AlwaysAllow`, and nothing else, says so.
#[derive(Debug)]
pub(crate) struct AlwaysAllow;

impl Authorize for AlwaysAllow {
    fn authorize<'a>(&'a self, _: &'a User, _: &'a Attributes) -> Authorizing<'a> {
        Box::pin(async { Decision::Allow(String::new()) })
    }
}

#[derive(Debug)]
pub(crate) struct AlwaysDeny;

impl Authorize for AlwaysDeny {
    fn authorize<'a>(&'a self, _: &'a User, _: &'a Attributes) -> Authorizing<'a> {
        Box::pin(async { Decision::NoOpinion("Everything is forbidden.".to_owned()) })
    }
}
