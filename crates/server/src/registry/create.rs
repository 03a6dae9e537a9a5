//! Create requests.

use object::{Object, Status, StatusDetails, Value, View};
use ref_cast::RefCast;
use store::Version;

use super::{
    Registry, RequestContext,
    system_fields::{
        AFTER_PLUGINS, clear_deletion_fields, dedup_owner_references, fill_system_fields,
        set_namespace,
    },
    update::{parse_precondition, revision, uid_conflict},
    write::WriteStep,
};
use crate::{Operation, ServedResource, WriteOutcome};

/// Maximum attempts to generate a unique name.
const TRIES: usize = 8;

impl Registry {
    /// Creates an object from its decoded form, which is in the version of the request.
    pub async fn create(
        &self,
        call: &mut RequestContext,
        served: &ServedResource,
        namespace: &str,
        object: Value,
    ) -> Result<Version<Value>, Status> {
        let meta = Object::view(&object).metadata();
        let generates = meta.name().is_empty();
        for _ in 1..if generates { TRIES } else { 1 } {
            match self.create_once(call, served, namespace, object.clone()).await {
                Err(status) if status.has_reason("AlreadyExists") => {}
                done => return done,
            }
        }
        // The last attempt owns the object, so its changes need no copy.
        self.create_once(call, served, namespace, object).await
    }

    /// Creates the object of an update if it does not exist, for kinds that allow create on update.
    pub async fn create_on_update(
        &self,
        call: &mut RequestContext,
        served: &ServedResource,
        key: (&str, &str),
        object: Value,
    ) -> Result<(u16, Version<Value>), Status> {
        let uid = Object::view(&object).metadata().uid();
        if !uid.is_empty() {
            return Err(uid_conflict(served, key, uid, "", call.dry_run));
        }
        parse_precondition(Object::view(&object).metadata().resource_version())?;
        let mut new = object.clone();
        if !call.dry_run {
            Object::ref_cast_mut(&mut new).metadata_mut().set_resource_version("");
        }
        match self.create(call, served, key.0, new).await {
            Err(status) if status.has_reason("AlreadyExists") => {
                Ok((200, self.update(call, served, key, "", object).await?))
            }
            made => Ok((201, made?)),
        }
    }

    async fn create_once(
        &self,
        call: &mut RequestContext,
        served: &ServedResource,
        namespace: &str,
        mut object: Value,
    ) -> Result<Version<Value>, Status> {
        // A resourceVersion that is not a number is ignored.
        let asked = revision(Object::view(&object).metadata().resource_version()).unwrap_or(0);
        dedup_owner_references(&mut object, call, "");
        default_and_convert(served, &mut object);
        set_namespace(served, namespace, &mut object);
        if !call.is_apply {
            clear_deletion_fields(&mut object);
        }
        served.internal.strategy.default_from_request(&mut object, &self.writer(call));
        let step = WriteStep {
            served,
            operation: Operation::Create,
            subresource: "",
            old: None,
            with_empty_fields: None,
            delete: None,
        };
        // Fields that admission plugins, the server or the strategy set have no manager.
        let object = self.update_managed_fields(call, served, "", None, object).await?;
        let mut object = self.mutate(call, step, object).await?;
        dedup_owner_references(&mut object, call, AFTER_PLUGINS);
        fill_system_fields(served, &mut object, &**self.clock());
        served.internal.feature_gates.drop_disabled_fields(
            &served.internal.schema,
            &mut object,
            None,
        );
        served.internal.strategy.prepare_for_create(&mut object);
        served.internal.strategy.record_request_info(&mut object, None, &self.writer(call));
        let (object, claimed) = self.claim(call, step, object).await?;
        let made = self.store_new(call, step, asked, object).await;
        self.finish_allocation(claimed, made.map(|made| (made, WriteOutcome::Stored))).await
    }

    async fn store_new(
        &self,
        call: &mut RequestContext,
        step: WriteStep<'_>,
        asked: u64,
        object: Value,
    ) -> Result<Version<Value>, Status> {
        let mut object = self.validate_and_admit(call, step, object).await?;
        step.served.internal.normalize_for_storage(&mut object);
        if asked != 0 && !call.dry_run {
            let why = "resourceVersion should not be set on objects to be created";
            return Err(Status::failure(500, "", why));
        }
        self.siblings.share(&mut object);
        let meta = Object::view(&object).metadata();
        let (namespace, generates) =
            (meta.namespace().to_owned(), !meta.generate_name().is_empty());
        let made = self.put(call, step.served, 0, object).await;
        let made = made.map_err(|status| {
            self.already_exists_error(step.served, &namespace, generates, status)
        })?;
        Ok(if call.dry_run { Version { revision: asked, ..made } } else { made })
    }

    /// Completes an AlreadyExists error: no unique name could be generated, or the existing object
    /// is still being deleted.
    fn already_exists_error(
        &self,
        served: &ServedResource,
        namespace: &str,
        generates: bool,
        mut status: Status,
    ) -> Status {
        if !status.has_reason("AlreadyExists") {
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

/// Applies defaults in the version of the request, then converts to the internal version.
pub(super) fn default_and_convert(served: &ServedResource, object: &mut Value) {
    served.definition.apply_defaults(object);
    served.to_internal_version(object);
    if !std::sync::Arc::ptr_eq(&served.definition, &served.internal) {
        served.internal.normalize_keep_empty(object);
    }
}
