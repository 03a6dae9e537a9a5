//! Creation.

use object::{Object, Status, Value, View};
use store::Version;

use super::{
    Call, Registry,
    begin::{begin, distinct_owners},
    write::Step,
};
use crate::{Operation, Served};

/// How often a generated name that is taken is made anew.
const TRIES: usize = 8;

impl Registry {
    /// Stores a new object. It comes decoded, in the request's version.
    pub async fn create(
        &self,
        call: &mut Call,
        served: &Served,
        namespace: &str,
        object: Value,
    ) -> Result<Version<Value>, Status> {
        let meta = Object::view(&object).metadata();
        let generates = meta.name().is_empty();
        if !call.dry_run && !meta.resource_version().is_empty() {
            return Err(Status::internal(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        let mut tries = TRIES;
        loop {
            match self.create_once(call, served, namespace, object.clone()).await {
                Err(status) if generates && tries > 1 && status.is("AlreadyExists") => tries -= 1,
                done => return done,
            }
        }
    }

    async fn create_once(
        &self,
        call: &mut Call,
        served: &Served,
        namespace: &str,
        mut object: Value,
    ) -> Result<Version<Value>, Status> {
        distinct_owners(&mut object, call);
        default(served, &mut object);
        begin(served, namespace, &mut object, &**self.clock());
        let step = Step { served, operation: Operation::Create, subresource: "", old: None };
        // What the kind itself and plugins set is nobody's.
        let mut object = self.manage(call, served, "", None, object);
        served.hub.gates.drop_dormant(&served.hub.shape, &mut object, None);
        served.hub.hooks.prepare_create(&mut object);
        served.hub.hooks.sign(&mut object, None, &self.writer(call));
        let object = self.mutate(call, step, object).await?;
        let mut object = self.check(call, step, object).await?;
        served.hub.normalize(&mut object);
        self.put(call, served, 0, object).await
    }
}

/// Fills defaults in the request's version, then goes over to the stored one.
pub(super) fn default(served: &Served, object: &mut Value) {
    served.definition.fill(object);
    served.stored(object);
    if !std::sync::Arc::ptr_eq(&served.definition, &served.hub) {
        served.hub.fill(object);
    }
}
