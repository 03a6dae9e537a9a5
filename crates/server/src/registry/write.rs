//! The last steps of every write: admission, rules, the store.

use std::sync::{Arc, Mutex};

use object::{Object, Status, Value, View, depth};
use schema::{Errors, Warnings, Writer, check_meta};
use store::{Version, Write};

use super::{
    Call, Delete, Registry, begin::keep_given_identity, create::default, note::Note, store_status,
};
use crate::{
    Admission, Claim, Claimed, Operation, Outcome, Reinvocation, Served, User, convert, expensive,
    metrics::Phase,
};

/// A write on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step<'a> {
    pub(super) served: &'a Served,
    pub(super) operation: Operation,
    pub(super) subresource: &'a str,
    pub(super) old: Option<&'a Version<Value>>,
    /// What was sent, if it holds something empty that counts as nothing.
    pub(super) hollow: Option<&'a Value>,
    pub(super) delete: Option<&'a Delete>,
}

impl Registry {
    pub(super) fn writer<'a>(&self, call: &'a Call) -> Writer<'a> {
        let User { name, uid, groups, extra } = &call.user;
        Writer { now: self.clock().now(), user: name, uid, groups, extra }
    }

    /// Lets the mutating plugins see the object.
    pub(super) async fn mutate(
        &self,
        call: &mut Call,
        step: Step<'_>,
        object: Value,
    ) -> Result<Value, Status> {
        if call.admitted {
            return Ok(object);
        }
        let given = object.clone();
        let mut admission = self.admission(call, step, object);
        let decided = self.run_mutating(&mut admission).await;
        let said = admission.take_said();
        let mut object = admission.object;
        call.hear(said);
        decided?;
        if step.operation != Operation::Delete && object != given {
            keep_given_identity(step.operation, call.applies, &given, &mut object)?;
            if Arc::ptr_eq(&step.served.definition, &step.served.hub) {
                step.served.hub.fill(&mut object);
            } else {
                step.served.hub.settle(&mut object);
            }
            if let Some(old) = step.old {
                step.served.hub.drop_hollow(&mut object, &old.object);
            }
        }
        Ok(object)
    }

    /// All in their order; again, if one of them asks for it.
    pub(super) async fn run_mutating(&self, admission: &mut Admission<'_>) -> Result<(), Status> {
        self.mutate_once(admission).await?;
        if admission.reinvocation.wanted {
            admission.reinvocation.round = 1;
            self.mutate_once(admission).await?;
        }
        Ok(())
    }

    async fn mutate_once(&self, admission: &mut Admission<'_>) -> Result<(), Status> {
        let mut timer = self.admissions().map(|own| own.begin(admission.operation, Phase::Admit));
        let mut decided = Ok(());
        for (at, plugin) in self.plugins().iter().enumerate() {
            decided = plugin.mutate(admission).await;
            timer.iter_mut().for_each(|timer| timer.passed(at, decided.is_err()));
            if decided.is_err() {
                break;
            }
        }
        timer.into_iter().for_each(|timer| timer.end(decided.is_err()));
        decided
    }

    /// All in their order, until one refuses.
    pub(super) async fn run_validating(&self, admission: &Admission<'_>) -> Result<(), Status> {
        let phase = Phase::Validate;
        let mut timer = self.admissions().map(|own| own.begin(admission.operation, phase));
        let mut decided = Ok(());
        for (at, plugin) in self.plugins().iter().enumerate() {
            decided = plugin.validate(admission).await;
            timer.iter_mut().for_each(|timer| timer.passed(at, decided.is_err()));
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
        call: &Call,
        step: Step<'_>,
        object: Value,
    ) -> Result<(Value, Option<Box<dyn Claimed>>), Status> {
        let claims = self.claims.get().filter(|claims| claims.concerns(step.served));
        let Some(claims) = claims else { return Ok((object, None)) };
        if !call.dry_run && step.operation != Operation::Delete {
            self.check_before_claim(&**claims, call, step, object.clone()).await?;
        }
        let mut admission = self.admission(call, step, object);
        let claimed = claims.claim(&mut admission).await?;
        Ok((admission.object, Some(claimed)))
    }

    /// Refuses what the rules will refuse, before anything is taken for it: they see the object
    /// as a dry run would make it. Where not even that is possible, the claim itself says why.
    async fn check_before_claim(
        &self,
        claims: &dyn Claim,
        call: &Call,
        step: Step<'_>,
        object: Value,
    ) -> Result<(), Status> {
        let mut admission = self.admission(call, step, object);
        admission.dry_run = true;
        if claims.claim(&mut admission).await.is_err() {
            return Ok(());
        }
        let (object, errs) = self.errors(call, step, admission.object).await;
        refuse_invalid(step.served, &object, errs)
    }

    /// Says what came of the write for which it was taken.
    pub(super) async fn settle<T>(
        &self,
        claimed: Option<Box<dyn Claimed>>,
        done: Result<(T, Outcome), Status>,
    ) -> Result<T, Status> {
        if let Some(claimed) = claimed {
            let failed = Outcome::failed;
            let outcome = done.as_ref().map_or_else(failed, |(_, outcome)| *outcome);
            claimed.settle(self, outcome).await;
        }
        done.map(|(version, _)| version)
    }

    /// What is wrong with an object that is in no request but in a file. It gets its defaults.
    pub fn judge(&self, served: &Served, object: &mut Value) -> Errors {
        default(served, object);
        let mut errs = Errors::default();
        check_meta(object, None, served.hub.scope, &mut errs);
        check_declared(served, object, None, &mut errs);
        served.hub.hooks.validate(object, None, &mut errs);
        served.hub.normalize(object);
        errs.distinct();
        errs
    }

    /// Checks the object, and lets the validating plugins see it.
    pub(super) async fn check(
        &self,
        call: &mut Call,
        step: Step<'_>,
        object: Value,
    ) -> Result<Value, Status> {
        let Step { served, subresource, .. } = step;
        let old = step.old.map(|old| &old.object);
        let (object, errs) = self.errors(call, step, object).await;
        call.warnings.extend(errs.1.iter().map(ToString::to_string));
        refuse_invalid(step.served, &object, errs)?;
        let mut warnings = Warnings(std::mem::take(&mut call.warnings));
        match subresource {
            "" => {
                served.hub.hooks.warn(&object, old, &mut warnings);
                self.unmet(served, &object).into_iter().for_each(|lacking| warnings.say(lacking));
            }
            "status" => served.hub.hooks.warn_status(&object, &mut warnings),
            _ => {}
        }
        call.warnings = warnings.0;
        if call.admitted {
            return Ok(object);
        }
        let mut admission = self.admission(call, step, object);
        let decided = self.run_validating(&admission).await;
        let said = admission.take_said();
        let object = admission.object;
        call.hear(said);
        decided.map(|()| object)
    }

    /// What is wrong with the object by the rules of its kind and of the plugins.
    async fn errors(&self, call: &Call, step: Step<'_>, object: Value) -> (Value, Errors) {
        let mut errs = Errors::default();
        let admission = self.admission(call, step, object);
        self.plugins().iter().for_each(|plugin| plugin.judge(&admission, &mut errs));
        let object = admission.object;
        expensive::run(step.served.hub.hooks.is_expensive(&object), || {
            self.find(step, &object, &mut errs);
            if let Some(given) = step.hollow {
                self.look_closely(step, &object, given, &mut errs);
            }
        })
        .await;
        (object, errs)
    }

    /// Tells values as they were given, and what is wrong because something was given empty:
    /// that is wrong even where nothing has changed.
    fn look_closely(&self, step: Step, object: &Value, given: &Value, errs: &mut Errors) {
        let hub = &step.served.hub;
        let mut object = object.clone();
        hub.show_hollow(&mut object, given);
        hub.gates.drop_dormant(&hub.shape, &mut object, step.old.map(|old| &old.object));
        let unchanged = Version { revision: 0, object };
        let (mut changed, mut always) = (Errors::default(), Errors::default());
        self.find(step, &unchanged.object, &mut changed);
        self.find(Step { old: Some(&unchanged), ..step }, &unchanged.object, &mut always);
        let order = changed.0.clone();
        errs.write_as(&mut changed);
        changed.0.retain(|error| hub.hooks.tells_hollow() || always.0.contains(error));
        if !changed.is_empty() {
            errs.0.extend(changed.0);
            errs.0.sort_by_key(|error| order.iter().position(|other| other == error));
        }
    }

    /// Finds what is wrong with the object.
    fn find(&self, step: Step, object: &Value, errs: &mut Errors) {
        let Step { served, subresource, .. } = step;
        let (old, hooks) = (step.old.map(|old| &old.object), &served.hub.hooks);
        if subresource == "binding" {
            return; // a handler has looked at what it was given
        }
        check_meta(object, old, served.hub.scope, errs);
        if matches!(subresource, "" | "status" | "approval") {
            check_declared(served, object, old, errs);
        }
        match (old, subresource) {
            (Some(old), "status") => {
                hooks.validate_status_at(object, old, self.clock().now(), errs);
            }
            (Some(old), "approval") => hooks.validate_approval(object, old, errs),
            (Some(old), "resize" | "ephemeralcontainers" | "finalize") => {
                hooks.validate_part(object, subresource, old, errs);
            }
            (old, _) => hooks.validate(object, old, errs),
        }
        if subresource.is_empty() && !Arc::ptr_eq(&served.definition, &served.hub) {
            served.definition.hooks.validate_version(object, old, errs);
        }
    }

    pub(super) fn admission<'a>(
        &'a self,
        call: &'a Call,
        step: Step<'a>,
        object: Value,
    ) -> Admission<'a> {
        let named = step.old.map_or(&object, |old| &old.object);
        let meta = Object::view(named).metadata();
        Admission {
            registry: self,
            served: step.served,
            user: &call.user,
            operation: step.operation,
            subresource: step.subresource,
            namespace: meta.namespace().into(),
            name: if step.delete.is_some_and(|delete| delete.many) { "" } else { meta.name() }
                .into(),
            old: step.old.map(|old| &old.object),
            revision: step.old.map_or(0, |old| old.revision),
            reinvocation: Reinvocation::default(),
            dry_run: call.dry_run,
            options: &call.options,
            delete: step.delete,
            said: Mutex::default(),
            object,
        }
    }

    /// Stores the object, if its key is still at revision `expect`.
    pub(super) async fn put(
        &self,
        call: &Call,
        served: &Served,
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
        let kept = self.to_kept(served, &object).await?;
        kept.as_ref().map_or(Ok(()), check_depth)?;
        let stored = kept.as_ref().unwrap_or(&object);
        let bytes = self.to_bytes(served, &key, stored)?;
        if bytes.len() > LARGEST {
            return Err(Status::too_large("etcdserver: request is too large"));
        }
        let note = Note::of(call, meta.uid()).to_bytes();
        let write = Write::put(key, expect, bytes, stored.clone())
            .with_ttl(served.hub.ttl)
            .with_note(Some(note));
        let revision = self.engine.write(write).await.map_err(|e| failed(served, &object, &e))?;
        let Some(kept) = kept else { return Ok(Version { revision, object }) };
        // What is told is what was stored: the other version may have less.
        let stored = Arc::new(Version { revision, object: kept });
        let told = self.told(served, stored).await?;
        Ok(Arc::unwrap_or_clone(told))
    }

    /// A custom object in the version that is stored, where that is another.
    async fn to_kept(&self, served: &Served, object: &Value) -> Result<Option<Value>, Status> {
        let Some(kept) = served.kept.as_ref().filter(|kept| !Arc::ptr_eq(kept, &served.definition))
        else {
            return Ok(None);
        };
        if !served.asks() {
            let mut object = object.clone();
            crate::kinds::rename(&mut object, kept);
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
        call: &Call,
        served: &Served,
        expect: u64,
        object: Value,
    ) -> Result<Version<Value>, Status> {
        if call.dry_run {
            return Ok(Version { revision: expect, object });
        }
        let meta = Object::view(&object).metadata();
        let key = served.path(meta.namespace(), meta.name());
        let note = Note::of(call, meta.uid()).to_bytes();
        let write = Write::delete(key, expect).with_note(Some(note));
        let revision = self.engine.write(write).await.map_err(|e| failed(served, &object, &e))?;
        Ok(Version { revision, object })
    }
}

fn refuse_invalid(served: &Served, object: &Value, mut errs: Errors) -> Result<(), Status> {
    if errs.is_empty() {
        return Ok(());
    }
    if !served.hub.repeats() {
        errs.distinct();
    }
    let names = &served.hub.names;
    Err(errs.status(names.group, names.kind, Object::view(object).metadata().name()))
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
fn check_declared(served: &Served, object: &Value, old: Option<&Value>, errs: &mut Errors) {
    let definition = &served.definition;
    if !definition.checked {
        return;
    }
    if Arc::ptr_eq(definition, &served.hub) {
        return schema::check(&definition.shape, object, old, errs);
    }
    let shown = |object: &Value| {
        let mut shown = object.clone();
        served.shown(&mut shown);
        definition.show_hollow(&mut shown, object);
        shown
    };
    schema::check(&definition.shape, &shown(object), old.map(shown).as_ref(), errs);
}

fn failed(served: &Served, object: &Value, error: &store::Error) -> Status {
    let subject = served.subject(Object::view(object).metadata().name());
    match error {
        store::Error::Conflict { want: 0, .. } => Status::already_exists(subject),
        store::Error::Conflict { have: 0, .. } => Status::not_found(subject),
        store::Error::Conflict { .. } => Status::stale(subject),
        other => store_status(other),
    }
}
