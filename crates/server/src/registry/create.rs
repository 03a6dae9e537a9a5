//! Creation.

use object::{Object, Status, StatusDetails, Value, View};
use ref_cast::RefCast;
use store::Version;

use super::{
    Call, Registry,
    begin::{AFTER_PLUGINS, alive, begin, distinct_owners, place},
    update::{based_on, other_uid, revision},
    write::Step,
};
use crate::{Operation, Outcome, Served};

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
        for _ in 1..if generates { TRIES } else { 1 } {
            match self.create_once(call, served, namespace, object.clone()).await {
                Err(status) if status.is("AlreadyExists") => {}
                done => return done,
            }
        }
        // The last try has the object to itself: what it changes is not copied before.
        self.create_once(call, served, namespace, object).await
    }

    /// Makes what somebody wants to update and is not there, where the kind allows that.
    pub async fn create_by_update(
        &self,
        call: &mut Call,
        served: &Served,
        key: (&str, &str),
        object: Value,
    ) -> Result<(u16, Version<Value>), Status> {
        let uid = Object::view(&object).metadata().uid();
        if !uid.is_empty() {
            return Err(other_uid(served, key, uid, "", call.dry_run));
        }
        based_on(Object::view(&object).metadata().resource_version())?;
        let mut new = object.clone();
        if !call.dry_run {
            Object::ref_cast_mut(&mut new).metadata_mut().set_resource_version("");
        }
        match self.create(call, served, key.0, new).await {
            Err(status) if status.is("AlreadyExists") => {
                Ok((200, self.update(call, served, key, "", object).await?))
            }
            made => Ok((201, made?)),
        }
    }

    async fn create_once(
        &self,
        call: &mut Call,
        served: &Served,
        namespace: &str,
        mut object: Value,
    ) -> Result<Version<Value>, Status> {
        // What is no number says nothing.
        let asked = revision(Object::view(&object).metadata().resource_version()).unwrap_or(0);
        distinct_owners(&mut object, call, "");
        default(served, &mut object);
        place(served, namespace, &mut object);
        if !call.applies {
            alive(&mut object);
        }
        served.hub.hooks.stamp(&mut object, &self.writer(call));
        let step = Step {
            served,
            operation: Operation::Create,
            subresource: "",
            old: None,
            hollow: None,
            delete: None,
        };
        // What plugins, the server and the kind itself set is nobody's.
        let object = self.manage(call, served, "", None, object).await?;
        let mut object = self.mutate(call, step, object).await?;
        distinct_owners(&mut object, call, AFTER_PLUGINS);
        begin(served, &mut object, &**self.clock());
        served.hub.gates.drop_dormant(&served.hub.shape, &mut object, None);
        served.hub.hooks.prepare_create(&mut object);
        served.hub.hooks.sign(&mut object, None, &self.writer(call));
        let (object, claimed) = self.claim(call, step, object).await?;
        let made = self.store_new(call, step, asked, object).await;
        self.settle(claimed, made.map(|made| (made, Outcome::Stored))).await
    }

    async fn store_new(
        &self,
        call: &mut Call,
        step: Step<'_>,
        asked: u64,
        object: Value,
    ) -> Result<Version<Value>, Status> {
        let mut object = self.check(call, step, object).await?;
        step.served.hub.seal(&mut object);
        if asked != 0 && !call.dry_run {
            let why = "resourceVersion should not be set on objects to be created";
            return Err(Status::failure(500, "", why));
        }
        self.siblings.share(&mut object);
        let meta = Object::view(&object).metadata();
        let (namespace, generates) =
            (meta.namespace().to_owned(), !meta.generate_name().is_empty());
        let made = self.put(call, step.served, 0, object).await;
        let made = made.map_err(|status| self.taken(step.served, &namespace, generates, status))?;
        Ok(if call.dry_run { Version { revision: asked, ..made } } else { made })
    }

    /// Why there cannot be another of a name: nobody found a free one, or the old one is still
    /// about to go.
    fn taken(
        &self,
        served: &Served,
        namespace: &str,
        generates: bool,
        mut status: Status,
    ) -> Status {
        if !status.is("AlreadyExists") {
            return status;
        }
        if generates {
            let none = "the server was not able to generate a unique name for the object";
            status.set_message(format!("{}, {none}", status.message()));
            status.details_mut().set_retry_after_seconds(1);
        }
        let name = status.details().map(StatusDetails::name).unwrap_or_default();
        let old = self.get(served, namespace, name);
        if old.is_ok_and(|old| Object::view(&old.object).metadata().is_terminating()) {
            status.set_message(format!("object is being deleted: {}", status.message()));
        }
        status
    }
}

/// Fills defaults in the request's version, then goes over to the stored one.
pub(super) fn default(served: &Served, object: &mut Value) {
    served.definition.fill(object);
    served.stored(object);
    if !std::sync::Arc::ptr_eq(&served.definition, &served.hub) {
        served.hub.settle(object);
    }
}
