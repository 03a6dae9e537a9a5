//! The last steps of every write: admission, rules, the store.

use std::sync::{Arc, Mutex};

use object::{Object, Status, Value, View, depth};
use schema::{ErrorList, WarningList, WriteContext, validate_object_meta};
use store::{Version, Write};

use super::{
    DeleteRequest, Registry, RequestContext, create::default_and_convert,
    provenance::WriteProvenance, store_status, system_fields::keep_given_identity,
};
use crate::{
    AdmissionAttributes, Allocation, Allocator, Operation, Reinvocation, ServedResource, UserInfo,
    WriteOutcome, convert, expensive, metrics::Phase,
};

/// A write on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteStep<'a> {
    pub(super) served: &'a ServedResource,
    pub(super) operation: Operation,
    pub(super) subresource: &'a str,
    pub(super) old: Option<&'a Version<Value>>,
    /// What was sent, if it holds something empty that counts as nothing.
    pub(super) with_empty_fields: Option<&'a Value>,
    pub(super) delete: Option<&'a DeleteRequest>,
}

impl Registry {
    pub(super) fn writer<'a>(&self, call: &'a RequestContext) -> WriteContext<'a> {
        let UserInfo { name, uid, groups, extra } = &call.user;
        WriteContext { now: self.clock().now(), user: name, uid, groups, extra }
    }

    /// Lets the mutating plugins see the object.
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

    /// All in their order; again, if one of them asks for it.
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

    /// All in their order, until one refuses.
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

    /// Takes for the object what it needs of what all share.
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

    /// Refuses what the rules will refuse, before anything is taken for it: they see the object
    /// as a dry run would make it. Where not even that is possible, the claim itself says why.
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

    /// Says what came of the write for which it was taken.
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

    /// What is wrong with an object that is in no request but in a file. It gets its defaults.
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

    /// Checks the object, and lets the validating plugins see it.
    pub(super) async fn validate_and_admit(
        &self,
        call: &mut RequestContext,
        step: WriteStep<'_>,
        object: Value,
    ) -> Result<Value, Status> {
        let WriteStep { served, subresource, .. } = step;
        let old = step.old.map(|old| &old.object);
        let (object, errs) = self.errors(call, step, object).await;
        call.warnings.extend(errs.1.iter().map(ToString::to_string));
        refuse_invalid(step.served, &object, errs)?;
        let mut warnings = WarningList(std::mem::take(&mut call.warnings));
        match subresource {
            "" => {
                served.internal.strategy.warnings(&object, old, &mut warnings);
                self.unmet(served, &object).into_iter().for_each(|lacking| warnings.push(lacking));
            }
            "status" => served.internal.strategy.warn_status(&object, &mut warnings),
            _ => {}
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

    /// What is wrong with the object by the rules of its kind and of the plugins.
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

    /// Tells values as they were given, and what is wrong because something was given empty:
    /// that is wrong even where nothing has changed.
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

    /// Finds what is wrong with the object.
    fn validate(&self, step: WriteStep, object: &Value, errs: &mut ErrorList) {
        let WriteStep { served, subresource, .. } = step;
        let (old, hooks) = (step.old.map(|old| &old.object), &served.internal.strategy);
        if subresource == "binding" {
            return; // a handler has looked at what it was given
        }
        validate_object_meta(object, old, served.internal.scope, errs);
        if matches!(subresource, "" | "status" | "approval") {
            validate_declarative(served, object, old, errs);
        }
        match (old, subresource) {
            (Some(old), "status") => {
                hooks.validate_status_at(object, old, self.clock().now(), errs);
            }
            (Some(old), "approval") => hooks.validate_approval(object, old, errs),
            (Some(old), "resize" | "ephemeralcontainers" | "finalize") => {
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

    /// Stores the object, if its key is still at revision `expect`.
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
        // What is told is what was stored: the other version may have less.
        let stored = Arc::new(Version { revision, object: kept });
        let told = self.convert_stored(served, stored).await?;
        Ok(Arc::unwrap_or_clone(told))
    }

    /// A custom object in the version that is stored, where that is another.
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

    /// Deletes for good. The answer is the last object with the new revision.
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

/// No larger object is stored, whichever engine stores it.
const LARGEST: usize = 8 << 20;

/// What is stored must be readable for all, wherever it was made deeper than it was sent.
fn check_depth(object: &Value) -> Result<(), Status> {
    if !depth::exceeds(object, depth::MAX) {
        return Ok(());
    }
    let why = format!("the object cannot be stored: exceeded max depth of {}", depth::MAX);
    Err(Status::bad_request(why))
}

/// Checks what the fields declare, in the request's version, whose paths messages name.
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
