//! Authorization: RBAC, Node, ABAC and webhook authorizers.

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
    config::{AuthorizerBuilder, MODES},
    node::{NodeAuthorizer, node_of},
    rbac::Rbac,
    rules::{go_quoted_list, uncovered_rules},
    webhook::{WebhookAuthorizer, WebhookSettings},
};
use server::{Attributes, AuthorizeFuture, Authorizer, Decision, UserInfo};

/// Allows everything to the group `system:masters`, whatever the roles say, so that administrators
/// cannot be locked out.
#[derive(Debug)]
pub(crate) struct SystemMasters;

impl Authorizer for SystemMasters {
    fn authorize<'a>(&'a self, user: &'a UserInfo, _: &'a Attributes) -> AuthorizeFuture<'a> {
        let decision = if user.in_group("system:masters") {
            Decision::Allow(String::new())
        } else {
            Decision::NoOpinion(String::new())
        };
        Box::pin(async move { decision })
    }
}

/// `--authorization-mode=AlwaysAllow`: allows every request.
#[derive(Debug)]
pub(crate) struct AlwaysAllow;

impl Authorizer for AlwaysAllow {
    fn authorize<'a>(&'a self, _: &'a UserInfo, _: &'a Attributes) -> AuthorizeFuture<'a> {
        Box::pin(async { Decision::Allow(String::new()) })
    }
}

/// `--authorization-mode=AlwaysDeny`: allows no request.
#[derive(Debug)]
pub(crate) struct AlwaysDeny;

impl Authorizer for AlwaysDeny {
    fn authorize<'a>(&'a self, _: &'a UserInfo, _: &'a Attributes) -> AuthorizeFuture<'a> {
        Box::pin(async { Decision::NoOpinion("Everything is forbidden.".to_owned()) })
    }
}
