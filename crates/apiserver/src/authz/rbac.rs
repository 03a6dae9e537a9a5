//! Rights by role: what the roles bound to a user or to one of its groups allow.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use api::rbac::{PolicyRule, RoleRef};
use object::Value;
use server::{Attributes, AuthorizeFuture, Authorizer, Decision, Registry, UserInfo};
use store::Cursor;

use super::{grants::BindingIndex, rules::allows};

#[derive(Clone, Debug)]
pub(crate) struct Rbac {
    /// Weak: the registry's own plugins ask here.
    registry: Weak<Registry>,
    known: Arc<Mutex<Option<CachedBindings>>>,
}

#[derive(Debug)]
struct CachedBindings {
    grants: Arc<BindingIndex>,
    cursors: Vec<Cursor<Value>>,
}

impl Rbac {
    pub(crate) fn new(registry: &Arc<Registry>) -> Self {
        Self { registry: Arc::downgrade(registry), known: Arc::default() }
    }

    /// All rules that hold for the user in a namespace (empty: in the cluster).
    pub(crate) fn rules(&self, user: &UserInfo, namespace: &str) -> Vec<PolicyRule> {
        let Some(grants) = self.grants() else { return Vec::new() };
        let rules = grants.of(user, namespace).filter_map(|(grant, _)| grant.rules.as_deref());
        rules.flatten().cloned().collect()
    }

    /// What the first rule that allows it says, or what is wrong with the bindings.
    fn decide(&self, user: &UserInfo, wanted: &Attributes) -> Decision {
        let Some(grants) = self.grants() else { return Decision::NoOpinion(String::new()) };
        let mut missing = Vec::new();
        for (grant, to) in grants.of(user, &wanted.namespace) {
            match &grant.rules {
                None => {
                    let role = format!("{} not found", grant.role);
                    if !missing.contains(&role) {
                        missing.push(role);
                    }
                }
                Some(rules) if rules.iter().any(|rule| allows(rule, wanted)) => {
                    return Decision::Allow(format!("RBAC: allowed by {} to {to}", grant.why));
                }
                Some(_) => {}
            }
        }
        Decision::NoOpinion(match &*missing {
            [] => String::new(),
            [one] => format!("rbac: RBAC: {one}"),
            all => format!("rbac: RBAC: [{}]", all.join(", ")),
        })
    }

    /// The rules of the role that a binding names, if it is there.
    pub(crate) fn rules_of(&self, reference: &RoleRef, namespace: &str) -> Option<Vec<PolicyRule>> {
        let role = self.grants().and_then(|grants| grants.role(reference, namespace));
        role.map(|rules| rules.to_vec())
    }

    /// What holds now: read anew if anything has happened since it was read.
    fn grants(&self) -> Option<Arc<BindingIndex>> {
        let registry = self.registry.upgrade()?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(CachedBindings { grants, cursors }) = &mut *known
            && cursors.iter_mut().all(|cursor| cursor.try_next().is_none())
        {
            return Some(grants.clone());
        }
        let (grants, cursors) = BindingIndex::read(&registry).ok()?;
        let grants = Arc::new(grants);
        *known = Some(CachedBindings { grants: grants.clone(), cursors });
        Some(grants)
    }
}

impl Authorizer for Rbac {
    fn authorize<'a>(&'a self, user: &'a UserInfo, wanted: &'a Attributes) -> AuthorizeFuture<'a> {
        let decision = self.decide(user, wanted);
        Box::pin(async move { decision })
    }
}
