//! The final steps of every write: admission, validation, storage.

use std::sync::{Arc, Mutex};

use object::{Object, Status, Value, View, depth};
use schema::{ErrorList, SubresourceStrategy, WarningList, WriteContext, validate_object_meta};
use store::{Version, Write};

use super::{
    DeleteRequest, Registry, RequestContext, create::default_and_convert,
    provenance::WriteProvenance, store_status, system_fields::keep_given_identity,
};
use crate::{
    AdmissionAttributes, Allocation, Allocator, Operation, Reinvocation, ServedResource, UserInfo,
    WriteOutcome, convert, expensive, metrics::Phase,
};

/// A write in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteStep<'a> {
    pub(super) served: &'a ServedResource,
    pub(super) operation: Operation,
    pub(super) subresource: &'a str,
    pub(super) old: Option<&'a Version<Value>>,
    /// The object as sent, if it has explicitly empty fields that are treated as absent.
    pub(super) with_empty_fields: Option<&'a Value>,
    pub(super) delete: Option<&'a DeleteRequest>,
}

impl WriteStep<'_> {
    /// How the write changes the object; `None` for a write to the resource itself.
    pub(super) fn strategy(&self) -> Option<SubresourceStrategy> {
        self.served.definition.subresource_strategy(self.subresource)
    }
}

impl Registry {
    pub(super) fn writer<'a>(&self, call: &'a RequestContext) -> WriteContext<'a> {
        let UserInfo { name, uid, groups, extra } = &call.user;
        WriteContext { now: self.clock().now(), user: name, uid, groups, extra }
    }

    /// Runs mutating admission on the object.
    pub(super) async fn mutate(
        &self,
        call: &mut RequestContext,
        step: WriteStep<'_>,
        object: Value,
    ) -> Result<Value, Status> {
        if call.skip_admission {
            return Ok(object);
        }
        let given = object.clone();
        let mut admission = self.admission(call, step, object);
        let decided = self.run_mutating(&mut admission).await;
        let said = admission.take_output();
        let mut object = admission.object;
        call.add_admission_output(said);
        decided?;
        if step.operation != Operation::Delete && object != given {
            keep_given_identity(step.operation, call.is_apply, &given, &mut object)?;
            if Arc::ptr_eq(&step.served.definition, &step.served.internal) {
                step.served.internal.apply_defaults(&mut object);
            } else {
                step.served.internal.normalize_keep_empty(&mut object);
            }
            if let Some(old) = step.old {
                step.served.internal.drop_new_empty(&mut object, &old.object);
            }
        }
        Ok(object)
    }

    /// Runs all mutating plugins in order, and a second time if one of them requires reinvocation.
    pub(super) async fn run_mutating(
        &self,
        admission: &mut AdmissionAttributes<'_>,
    ) -> Result<(), Status> {
        self.mutate_once(admission).await?;
        if admission.reinvocation.wanted {
            admission.reinvocation.round = 1;
            self.mutate_once(admission).await?;
        }
        Ok(())
    }

    async fn mutate_once(&self, admission: &mut AdmissionAttributes<'_>) -> Result<(), Status> {
        let mut timer = self.admissions().map(|own| own.begin(admission.operation, Phase::Admit));
        let mut decided = Ok(());
        for (at, plugin) in self.plugins().iter().enumerate() {
            decided = plugin.mutate(admission).await;
            timer.iter_mut().for_each(|timer| timer.observe_plugin(at, decided.is_err()));
            if decided.is_err() {
                break;
            }
        }
        timer.into_iter().for_each(|timer| timer.end(decided.is_err()));
        decided
    }

    /// Runs all validating plugins in order, until one rejects.
    pub(super) async fn run_validating(
        &self,
        admission: &AdmissionAttributes<'_>,
    ) -> Result<(), Status> {
        let phase = Phase::Validate;
        let mut timer = self.admissions().map(|own| own.begin(admission.operation, phase));
        let mut decided = Ok(());
        for (at, plugin) in self.plugins().iter().enumerate() {
            decided = plugin.validate(admission).await;
            timer.iter_mut().for_each(|timer| timer.observe_plugin(at, decided.is_err()));
            if decided.is_err() {
                break;
            }
        }
        timer.into_iter().for_each(|timer| timer.end(decided.is_err()));
        decided
    }

    /// Allocates the cluster-wide values that the object needs.
    pub(super) async fn claim(
        &self,
        call: &RequestContext,
        step: WriteStep<'_>,
        object: Value,
    ) -> Result<(Value, Option<Box<dyn Allocation>>), Status> {
        let claims = self.claims.get().filter(|claims| claims.applies_to(step.served));
        let Some(claims) = claims else { return Ok((object, None)) };
        if !call.dry_run && step.operation != Operation::Delete {
            self.check_before_claim(&**claims, call, step, object.clone()).await?;
        }
        let mut admission = self.admission(call, step, object);
        let claimed = claims.allocate(&mut admission).await?;
        Ok((admission.object, Some(claimed)))
    }

    /// Validates the object before anything is allocated for it, with the values that a dry run
    /// would allocate. If even that fails, the allocation reports the error.
    async fn check_before_claim(
        &self,
        claims: &dyn Allocator,
        call: &RequestContext,
        step: WriteStep<'_>,
        object: Value,
    ) -> Result<(), Status> {
        let mut admission = self.admission(call, step, object);
        admission.dry_run = true;
        if claims.allocate(&mut admission).await.is_err() {
            return Ok(());
        }
        let (object, errs) = self.errors(call, step, admission.object).await;
        refuse_invalid(step.served, &object, errs)
    }

    /// Commits or releases an allocation, according to the result of the write.
    pub(super) async fn finish_allocation<T>(
        &self,
        claimed: Option<Box<dyn Allocation>>,
        done: Result<(T, WriteOutcome), Status>,
    ) -> Result<T, Status> {
        if let Some(claimed) = claimed {
            let failed = WriteOutcome::failed;
            let outcome = done.as_ref().map_or_else(failed, |(_, outcome)| *outcome);
            claimed.finish(self, outcome).await;
        }
        done.map(|(version, _)| version)
    }

    /// Validates an object from a file instead of a request, after applying defaults.
    pub fn validate_manifest(&self, served: &ServedResource, object: &mut Value) -> ErrorList {
        default_and_convert(served, object);
        let mut errs = ErrorList::default();
        validate_object_meta(object, None, served.internal.scope, &mut errs);
        validate_declarative(served, object, None, &mut errs);
        served.internal.strategy.validate(object, None, &mut errs);
        served.internal.normalize(object);
        errs.dedup();
        errs
    }

    /// Validates the object and runs validating admission.
    pub(super) async fn validate_and_admit(
        &self,
        call: &mut RequestContext,
        step: WriteStep<'_>,
        object: Value,
    ) -> Result<Value, Status> {
        let served = step.served;
        let old = step.old.map(|old| &old.object);
        let (object, errs) = self.errors(call, step, object).await;
        call.warnings.extend(errs.1.iter().map(ToString::to_string));
        refuse_invalid(step.served, &object, errs)?;
        let mut warnings = WarningList(std::mem::take(&mut call.warnings));
        match step.strategy() {
            None => {
                served.internal.strategy.warnings(&object, old, &mut warnings);
                self.unmet(served, &object).into_iter().for_each(|lacking| warnings.push(lacking));
            }
            Some(SubresourceStrategy::Status) => {
                served.internal.strategy.warn_status(&object, &mut warnings);
            }
            Some(_) => {}
        }
        call.warnings = warnings.0;
        if call.skip_admission {
            return Ok(object);
        }
        let mut admission = self.admission(call, step, object);
        let decided = self.run_validating(&admission).await;
        let said = admission.take_output();
        let object = admission.object;
        call.add_admission_output(said);
        decided.map(|()| object)
    }

    /// The validation errors of the object, by its kind and by the plugins.
    async fn errors(
        &self,
        call: &RequestContext,
        step: WriteStep<'_>,
        object: Value,
    ) -> (Value, ErrorList) {
        let mut errs = ErrorList::default();
        let admission = self.admission(call, step, object);
        self.plugins().iter().for_each(|plugin| plugin.field_errors(&admission, &mut errs));
        let object = admission.object;
        expensive::run(step.served.internal.strategy.is_expensive(&object), || {
            self.validate(step, &object, &mut errs);
            if let Some(given) = step.with_empty_fields {
                self.validate_with_empty_fields(step, &object, given, &mut errs);
            }
        })
        .await;
        (object, errs)
    }

    /// Validates the object with its explicitly empty fields: errors quote the values as sent, and
    /// an empty field can be an error even if nothing has changed.
    fn validate_with_empty_fields(
        &self,
        step: WriteStep,
        object: &Value,
        given: &Value,
        errs: &mut ErrorList,
    ) {
        let hub = &step.served.internal;
        let mut object = object.clone();
        hub.restore_empty(&mut object, given);
        hub.feature_gates.drop_disabled_fields(
            &hub.schema,
            &mut object,
            step.old.map(|old| &old.object),
        );
        let unchanged = Version { revision: 0, object };
        let (mut changed, mut always) = (ErrorList::default(), ErrorList::default());
        self.validate(step, &unchanged.object, &mut changed);
        self.validate(WriteStep { old: Some(&unchanged), ..step }, &unchanged.object, &mut always);
        let order = changed.0.clone();
        errs.adopt_formatting(&mut changed);
        changed.0.retain(|error| hub.strategy.distinguishes_empty() || always.0.contains(error));
        if !changed.is_empty() {
            errs.0.extend(changed.0);
            errs.0.sort_by_key(|error| order.iter().position(|other| other == error));
        }
    }

    /// Validates the object.
    fn validate(&self, step: WriteStep, object: &Value, errs: &mut ErrorList) {
        let WriteStep { served, subresource, .. } = step;
        let (old, hooks) = (step.old.map(|old| &old.object), &served.internal.strategy);
        let strategy = step.strategy();
        if strategy == Some(SubresourceStrategy::Built) {
            return; // the handler has validated it
        }
        validate_object_meta(object, old, served.internal.scope, errs);
        if matches!(
            strategy,
            None | Some(SubresourceStrategy::Status | SubresourceStrategy::Field(_))
        ) {
            validate_declarative(served, object, old, errs);
        }
        match (old, strategy) {
            (Some(old), Some(SubresourceStrategy::Status)) => {
                hooks.validate_status_at(object, old, self.clock().now(), errs);
            }
            (Some(old), Some(SubresourceStrategy::Field(_) | SubresourceStrategy::Hooks)) => {
                hooks.validate_subresource(object, subresource, old, errs);
            }
            (old, _) => hooks.validate(object, old, errs),
        }
        if subresource.is_empty() && !Arc::ptr_eq(&served.definition, &served.internal) {
            served.definition.strategy.validate_served_version(object, old, errs);
        }
    }

    pub(super) fn admission<'a>(
        &'a self,
        call: &'a RequestContext,
        step: WriteStep<'a>,
        object: Value,
    ) -> AdmissionAttributes<'a> {
        let named = step.old.map_or(&object, |old| &old.object);
        let meta = Object::view(named).metadata();
        AdmissionAttributes {
            registry: self,
            served: step.served,
            user: &call.user,
            operation: step.operation,
            subresource: step.subresource,
            namespace: meta.namespace().into(),
            name: if step.delete.is_some_and(|delete| delete.is_collection) {
                ""
            } else {
                meta.name()
            }
            .into(),
            old: step.old.map(|old| &old.object),
            revision: step.old.map_or(0, |old| old.revision),
            reinvocation: Reinvocation::default(),
            dry_run: call.dry_run,
            options: &call.options,
            delete: step.delete,
            output: Mutex::default(),
            object,
        }
    }

    /// Stores the object if its key is still at revision `expect`.
    pub(super) async fn put(
        &self,
        call: &RequestContext,
        served: &ServedResource,
        expect: u64,
        object: Value,
    ) -> Result<Version<Value>, Status> {
        check_depth(&object)?;
        let meta = Object::view(&object).metadata();
        let key = served.path(meta.namespace(), meta.name());
        if call.dry_run {
            let have = served.objects()?.get(&key).map_or(0, |version| version.revision);
            let conflict = store::Error::Conflict { want: expect, have };
            let done = Version { revision: expect, object };
            return if have == expect {
                Ok(done)
            } else {
                Err(failed(served, &done.object, &conflict))
            };
        }
        let kept = self.to_storage_version(served, &object).await?;
        kept.as_ref().map_or(Ok(()), check_depth)?;
        let stored = kept.as_ref().unwrap_or(&object);
        let bytes = self.to_bytes(served, &key, stored)?;
        if bytes.len() > LARGEST {
            return Err(Status::too_large("etcdserver: request is too large"));
        }
        let note = WriteProvenance::of(call, meta.uid()).to_bytes();
        let write = Write::put(key, expect, bytes, stored.clone())
            .with_ttl(served.internal.ttl)
            .with_note(Some(note));
        let revision = self.engine.write(write).await.map_err(|e| failed(served, &object, &e))?;
        let Some(kept) = kept else { return Ok(Version { revision, object }) };
        // The response is converted from what was stored, because the storage version may have lost
        // fields.
        let stored = Arc::new(Version { revision, object: kept });
        let told = self.convert_stored(served, stored).await?;
        Ok(Arc::unwrap_or_clone(told))
    }

    /// Converts a custom resource to the storage version, if that is a different one.
    async fn to_storage_version(
        &self,
        served: &ServedResource,
        object: &Value,
    ) -> Result<Option<Value>, Status> {
        let Some(kept) =
            served.storage_version.as_ref().filter(|kept| !Arc::ptr_eq(kept, &served.definition))
        else {
            return Ok(None);
        };
        if !served.needs_conversion_webhook() {
            let mut object = object.clone();
            crate::served_resources::set_api_version(&mut object, kept);
            return Ok(Some(object));
        }
        let version = Arc::new(Version { revision: 0, object: object.clone() });
        let converter = self.converter.get();
        let mut made = convert::converted(converter, kept, vec![version]).await?;
        Ok(made.pop().map(|version| version.object.clone()))
    }

    /// Removes an object from storage. Returns its last state with the revision of the deletion.
    pub(super) async fn remove(
        &self,
        call: &RequestContext,
        served: &ServedResource,
        expect: u64,
        object: Value,
    ) -> Result<Version<Value>, Status> {
        if call.dry_run {
            return Ok(Version { revision: expect, object });
        }
        let meta = Object::view(&object).metadata();
        let key = served.path(meta.namespace(), meta.name());
        let note = WriteProvenance::of(call, meta.uid()).to_bytes();
        let write = Write::delete(key, expect).with_note(Some(note));
        let revision = self.engine.write(write).await.map_err(|e| failed(served, &object, &e))?;
        Ok(Version { revision, object })
    }
}

fn refuse_invalid(
    served: &ServedResource,
    object: &Value,
    mut errs: ErrorList,
) -> Result<(), Status> {
    if errs.is_empty() {
        return Ok(());
    }
    if !served.internal.keeps_duplicate_errors() {
        errs.dedup();
    }
    let names = &served.internal.names;
    Err(errs.into_status(names.group, names.kind, Object::view(object).metadata().name()))
}

/// Maximum size of a stored object in bytes, for every storage engine.
const LARGEST: usize = 8 << 20;

/// Rejects objects that are nested too deeply to be decoded again; defaulting, admission or
/// conversion may have made them deeper.
fn check_depth(object: &Value) -> Result<(), Status> {
    if !depth::exceeds(object, depth::MAX) {
        return Ok(());
    }
    let why = format!("the object cannot be stored: exceeded max depth of {}", depth::MAX);
    Err(Status::bad_request(why))
}

/// Runs declarative validation in the version of the request, because errors name its fields.
fn validate_declarative(
    served: &ServedResource,
    object: &Value,
    old: Option<&Value>,
    errs: &mut ErrorList,
) {
    let definition = &served.definition;
    if !definition.has_validations {
        return;
    }
    if Arc::ptr_eq(definition, &served.internal) {
        return schema::validate_declarative(&definition.schema, object, old, errs);
    }
    let shown = |object: &Value| {
        let mut shown = object.clone();
        served.to_request_version(&mut shown);
        definition.restore_empty(&mut shown, object);
        shown
    };
    schema::validate_declarative(&definition.schema, &shown(object), old.map(shown).as_ref(), errs);
}

fn failed(served: &ServedResource, object: &Value, error: &store::Error) -> Status {
    let subject = served.subject(Object::view(object).metadata().name());
    match error {
        store::Error::Conflict { want: 0, .. } => Status::already_exists(subject),
        store::Error::Conflict { have: 0, .. } => Status::not_found(subject),
        store::Error::Conflict { .. } => Status::optimistic_lock_conflict(subject),
        other => store_status(other),
    }
}
