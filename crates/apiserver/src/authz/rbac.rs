//! The RBAC authorizer: allows what the roles bound to a user or to one of its groups allow.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use api::rbac::{PolicyRule, RoleRef};
use object::Value;
use server::{Attributes, AuthorizeFuture, Authorizer, Decision, Registry, UserInfo};
use store::Cursor;

use super::{grants::BindingIndex, rules::allows};

/// Authorizes by roles and bindings; clones share the cached index.
#[derive(Clone, Debug)]
pub(crate) struct Rbac {
    /// Weak, because the registry's admission plugins use this authorizer.
    registry: Weak<Registry>,
    known: Arc<Mutex<Option<CachedBindings>>>,
}

/// The index of the bindings, and cursors that report when it is out of date.
#[derive(Debug)]
struct CachedBindings {
    grants: Arc<BindingIndex>,
    cursors: Vec<Cursor<Value>>,
}

impl Rbac {
    pub(crate) fn new(registry: &Arc<Registry>) -> Self {
        Self { registry: Arc::downgrade(registry), known: Arc::default() }
    }

    /// All rules that apply to the user in a namespace; only the cluster-wide ones if it is empty.
    pub(crate) fn rules(&self, user: &UserInfo, namespace: &str) -> Vec<PolicyRule> {
        let Some(grants) = self.grants() else { return Vec::new() };
        let rules = grants.of(user, namespace).filter_map(|(grant, _)| grant.rules.as_deref());
        rules.flatten().cloned().collect()
    }

    /// Allows the request if a rule does, and names the binding; otherwise reports the roles that
    /// do not exist.
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

    /// The rules of the role that a binding refers to, if the role exists.
    pub(crate) fn rules_of(&self, reference: &RoleRef, namespace: &str) -> Option<Vec<PolicyRule>> {
        let role = self.grants().and_then(|grants| grants.role(reference, namespace));
        role.map(|rules| rules.to_vec())
    }

    /// The current index; rebuilt if a role or binding has changed.
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
