//! Admission for subresources with a kind of their own: connect requests, bindings, evictions,
//! scales, tokens. Their handlers do everything else.

use std::sync::Mutex;

use object::{Status, Text, Value};

use super::{Registry, RequestContext};
use crate::{AdmissionAttributes, Operation, Reinvocation, ServedResource};

/// A request to a subresource, for admission.
#[derive(Debug)]
pub struct SubresourceRequest<'a> {
    pub operation: Operation,
    pub namespace: &'a str,
    pub name: &'a str,
    pub subresource: &'a str,
    /// The existing subresource, if any, and the object's revision.
    pub old: Option<(&'a Value, u64)>,
    pub object: Value,
}

impl Registry {
    /// Runs mutating admission, then `checked`, then validating admission on the result.
    pub async fn admit_subresource(
        &self,
        call: &mut RequestContext,
        served: &ServedResource,
        asking: SubresourceRequest<'_>,
        checked: impl FnOnce(&mut Value) -> Result<(), Status>,
    ) -> Result<Value, Status> {
        let mut admission = AdmissionAttributes {
            registry: self,
            served,
            user: &call.user,
            operation: asking.operation,
            subresource: asking.subresource,
            namespace: asking.namespace.into(),
            name: Text::from(asking.name),
            object: asking.object,
            old: asking.old.map(|(old, _)| old),
            revision: asking.old.map_or(0, |(_, revision)| revision),
            reinvocation: Reinvocation::default(),
            dry_run: call.dry_run,
            options: &call.options,
            delete: None,
            output: Mutex::default(),
        };
        let mut decided = self.run_mutating(&mut admission).await;
        decided = decided.and_then(|()| checked(&mut admission.object));
        if decided.is_ok() {
            decided = self.run_validating(&admission).await;
        }
        let said = admission.take_output();
        let object = admission.object;
        call.add_admission_output(said);
        decided.map(|()| object)
    }
}
