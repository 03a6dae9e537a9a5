//! `matchConditions` of webhooks: expressions decide whether a hook is asked at all.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use cel::{
    Environment,
    policy::{Conditions, Inputs, Scope},
};
use object::{Value, to_json};
use server::Admission;

use super::{Asked, check};
use crate::admission::Rights;

/// More than all hooks of a cluster have; then all are compiled again.
const MOST: usize = 1024;

/// The conditions of all hooks, each compiled once.
#[derive(Debug)]
pub(crate) struct HookConditions {
    rights: Rights,
    environment: Arc<Environment>,
    compiled: Mutex<HashMap<Vec<u8>, Arc<Conditions>>>,
}

impl HookConditions {
    pub(crate) fn new(rights: Rights) -> Self {
        let scope = Scope { authorizer: true, ..Scope::default() };
        Self { rights, environment: scope.environment(&[]), compiled: Mutex::default() }
    }

    /// Whether all of a hook's hold; `request` is that of the review. `Err`: one failed,
    /// and the hook's policy is that this matters.
    pub(crate) fn hold(
        &self,
        hook: &Value,
        admission: &Admission<'_>,
        request: &Value,
    ) -> Result<bool, String> {
        let asked = Asked { rights: &self.rights, user: admission.user };
        let request = &request.unpacked();
        let inputs = Inputs {
            old: request.get("oldObject"),
            authorizer: Some((&asked, check(admission))),
            ..Inputs::new(request.get("object"), request)
        };
        let fails = hook.get("failurePolicy").as_str() != Some("Ignore");
        self.compiled(hook).matches(&inputs, &[], fails)
    }

    fn compiled(&self, hook: &Value) -> Arc<Conditions> {
        let key = to_json(hook.get("matchConditions"));
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if compiled.len() >= MOST {
            compiled.clear();
        }
        let make = || Arc::new(Conditions::new(hook, &self.environment));
        compiled.entry(key).or_insert_with(make).clone()
    }
}
