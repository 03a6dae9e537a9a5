//! Update requests: to an object or a subresource.

use std::sync::Arc;

use object::{Object, Status, Value, View};
use schema::{ErrorList, FieldPath, SubresourceStrategy};
use store::Version;

use super::{
    Registry, RequestContext,
    create::default_and_convert,
    subresource_field::with_subresource_field,
    system_fields::{
        AFTER_PLUGINS, bump_generation, dedup_owner_references, preserve_system_fields,
    },
    unreadable,
    write::WriteStep,
};
use crate::{Operation, ServedResource, WriteOutcome};

/// Maximum attempts of an unconditional update that conflicts with other writes.
pub(super) const TRIES: usize = 16;

impl Registry {
    /// Updates an object or a subresource. `object` is decoded, in the version of the request.
    #[expect(clippy::too_many_arguments, reason = "who, what kind, which object, which part, how")]
    pub async fn update(
        &self,
        call: &mut RequestContext,
        served: &ServedResource,
        key: (&str, &str),
        subresource: &str,
        object: Value,
    ) -> Result<Version<Value>, Status> {
        let meta = Object::view(&object).metadata();
        let (wanted, uid) = (meta.resource_version().to_owned(), meta.uid().to_owned());
        let mut object = object;
        dedup_owner_references(&mut object, call, "");
        default_and_convert(served, &mut object);
        let dry_run = call.dry_run;
        self.guaranteed_update(call, served, key, subresource, |old| {
            let have = Object::view(&old.object).metadata().uid();
            if !uid.is_empty() && uid != have {
                return Err(uid_conflict(served, key, &uid, have, dry_run));
            }
            match parse_precondition(&wanted)? {
                0 if !served.internal.strategy.allow_unconditional_update() => {
                    Err(missing_resource_version(served, key.1))
                }
                wanted if wanted != 0 && wanted != old.revision => {
                    Err(Status::optimistic_lock_conflict(served.subject(key.1)))
                }
                _ => Ok(object.clone()),
            }
        })
        .await
    }

    /// Updates an object by `change`, which gets the latest version and returns the new one, both
    /// in the internal version. It is called again after a conflict.
    #[expect(clippy::too_many_arguments, reason = "who, what kind, which object, which part, how")]
    pub async fn guaranteed_update(
        &self,
        call: &mut RequestContext,
        served: &ServedResource,
        key: (&str, &str),
        subresource: &str,
        mut change: impl FnMut(&Version<Value>) -> Result<Value, Status>,
    ) -> Result<Version<Value>, Status> {
        let mut tries = TRIES;
        loop {
            let old = self.get_for_update(served, key).await?;
            let new = change(&old)?;
            match self.replace(call, served, subresource, &old, new).await {
                Err(status) if status.has_reason("Conflict") && tries > 1 => tries -= 1,
                done => return done,
            }
        }
    }

    /// The object to update, in the version of the request.
    pub(super) async fn get_for_update(
        &self,
        served: &ServedResource,
        key: (&str, &str),
    ) -> Result<Arc<Version<Value>>, Status> {
        let there = served.objects()?.try_get(&served.path(key.0, key.1));
        there.map_err(|error| unreadable::change(&error))?;
        self.get_converted(served, key.0, key.1).await
    }

    #[expect(clippy::too_many_arguments, reason = "who, what kind, which object, which part, how")]
    pub(super) async fn replace(
        &self,
        call: &mut RequestContext,
        served: &ServedResource,
        subresource: &str,
        old: &Version<Value>,
        mut new: Value,
    ) -> Result<Version<Value>, Status> {
        preserve_system_fields(&mut new, &old.object);
        served.internal.strategy.default_from_request(&mut new, &self.writer(call));
        // The manager owns what the request contains, even if the strategy resets it afterwards.
        new = self.update_managed_fields(call, served, subresource, Some(&old.object), new).await?;
        let given = served.internal.snapshot_if_has_empty(&new);
        let (hollow, operation) = (given.as_ref(), Operation::Update);
        let counts = served.internal.drop_new_empty(&mut new, &old.object);
        let step = WriteStep {
            served,
            operation,
            subresource,
            old: Some(old),
            with_empty_fields: hollow,
            delete: None,
        };
        new = self.mutate(call, step, new).await?;
        dedup_owner_references(&mut new, call, AFTER_PLUGINS);
        match step.strategy() {
            Some(SubresourceStrategy::Status) => {
                new = with_status(served, &old.object, &new);
                served.internal.strategy.prepare_status(&mut new, &old.object);
            }
            Some(SubresourceStrategy::Built) => {} // the handler built it from the old object
            Some(SubresourceStrategy::Field(field)) => {
                new = with_subresource_field(&old.object, &new, field);
            }
            Some(SubresourceStrategy::Hooks) => {
                served.internal.strategy.prepare_subresource(&mut new, subresource, &old.object);
            }
            None
            | Some(
                SubresourceStrategy::Converted
                | SubresourceStrategy::Handler
                | SubresourceStrategy::Connect
                | SubresourceStrategy::Proxy,
            ) => {
                if served.internal.subresource("status").is_some() {
                    new = keeping_status(new, &old.object);
                }
                if !served.internal.strategy.generation_counts_disabled_fields() {
                    served.internal.feature_gates.drop_disabled_fields(
                        &served.internal.schema,
                        &mut new,
                        Some(&old.object),
                    );
                }
                served.internal.strategy.prepare_for_update(&mut new, &old.object);
            }
        }
        served.internal.strategy.record_request_info(
            &mut new,
            Some(&old.object),
            &self.writer(call),
        );
        served.internal.feature_gates.drop_disabled_fields(
            &served.internal.schema,
            &mut new,
            Some(&old.object),
        );
        let (mut new, claimed) = self.claim(call, step, new).await?;
        if step.strategy() != Some(SubresourceStrategy::Built) {
            bump_generation(served, subresource, &mut new, &old.object, counts);
        }
        let done = self.store_changed(call, step, old, new).await;
        self.finish_allocation(claimed, done).await
    }

    async fn store_changed(
        &self,
        call: &mut RequestContext,
        step: WriteStep<'_>,
        old: &Version<Value>,
        new: Value,
    ) -> Result<(Version<Value>, WriteOutcome), Status> {
        let served = step.served;
        let mut new = self.validate_and_admit(call, step, new).await?;
        served.internal.normalize_for_storage(&mut new);
        if !call.dry_run && !Object::view(&new).metadata().self_link().is_empty() {
            new["metadata"].remove("selfLink"); // is never stored
        }
        new.share_subtrees_with(&old.object); // the event ring then stores a difference, not a copy
        if new == old.object {
            return Ok((old.clone(), WriteOutcome::Stored)); // a no-op is not stored and sends no event
        }
        if Self::is_final(served, &new) {
            let gone = self.remove(call, served, old.revision, new).await?; // the last finalizer was removed
            return Ok((gone, WriteOutcome::Gone));
        }
        Ok((self.put(call, served, old.revision, new).await?, WriteOutcome::Stored))
    }

    /// Whether the object is being deleted and nothing blocks its removal: no finalizer in its
    /// metadata, nor in its spec if the kind has them there too.
    pub(super) fn is_final(served: &ServedResource, object: &Value) -> bool {
        let held = served.internal.finalizers_in_spec
            && !object.get("spec").get("finalizers").items().is_empty();
        Object::view(object).metadata().is_ready_for_removal() && !held
    }
}

/// The old object with the status of the new one, and the metadata that a status update may change.
fn with_status(served: &ServedResource, old: &Value, new: &Value) -> Value {
    let mut object = old.clone();
    match new.get("status") {
        Value::Null => object.remove("status"),
        status => object["status"] = status.clone(),
    }
    object["metadata"] = new.get("metadata").clone();
    let keeps = served.internal.strategy.status_reset_metadata();
    if keeps == ["*"] {
        object["metadata"] = old.get("metadata").clone();
        object["metadata"]["managedFields"] = new.get("metadata").get("managedFields").clone();
        return object;
    }
    for field in keeps {
        match old.get("metadata").get(field) {
            Value::Null => object["metadata"].remove(field),
            kept => object["metadata"][*field] = kept.clone(),
        }
    }
    object
}

/// The error for an update without the required resourceVersion.
pub(super) fn missing_resource_version(served: &ServedResource, name: &str) -> Status {
    let mut errs = ErrorList::default();
    let at = FieldPath::Root.field("metadata");
    errs.invalid(&at.field("resourceVersion"), 0, "must be specified for an update");
    let names = &served.definition.names;
    errs.into_status(names.group, names.plural, name)
}

fn keeping_status(mut new: Value, old: &Value) -> Value {
    match old.get("status") {
        Value::Null => new.remove("status"),
        status => new["status"] = status.clone(),
    }
    new
}

/// The resourceVersion that a write requires; 0 means any.
pub(super) fn parse_precondition(text: &str) -> Result<u64, Status> {
    revision(text).map_err(|_| {
        let why = format!("strconv.ParseUint: parsing {text:?}: {}", unparsed(text));
        Status::failure(500, "", why)
    })
}

/// The conflict error for a uid that differs: the object was deleted and recreated.
pub fn uid_conflict(
    served: &ServedResource,
    key: (&str, &str),
    wanted: &str,
    have: &str,
    dry_run: bool,
) -> Status {
    let path = served.path(key.0, key.1);
    // A dry run does not reach the storage layer, which adds the prefix upstream.
    let path = if dry_run { path.trim_start_matches("/registry") } else { &path };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {path}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object \
         meta: {have}"
    );
    Status::conflict(served.subject(key.1), &why)
}

/// Why a text is not a resourceVersion, with Go's message.
pub(crate) fn unparsed(text: &str) -> &'static str {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { "value out of range" } else { "invalid syntax" }
}

/// Parses a resourceVersion; 0 if it is empty.
pub fn revision(text: &str) -> Result<u64, Status> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| {
        let why = format!("strconv.ParseUint: parsing {text:?}: {}", unparsed(text));
        Status::failure(500, "", format!("resourceVersion: Invalid value: {text:?}: {why}"))
    })
}
