//! Delete requests. An object is removed at once, or marked with a deletionTimestamp while a grace
//! period runs or finalizers remain.

use std::pin::Pin;

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use object::{Object, Status, Text, Time, Value, View};
use ref_cast::RefCast;
use schema::GracefulDeletion;
use store::{Version, Write};

use super::{
    Registry, RequestContext, Selection, list::ListOptions, provenance::WriteProvenance,
    store_status, write::WriteStep,
};
use crate::{Operation, ServedResource, allocator::WriteOutcome as Came};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";
const TRIES: usize = 16;

/// A deletion as requested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteRequest {
    pub grace_seconds: Option<i64>,
    /// Preconditions.
    pub uid: Option<Text>,
    pub revision: Option<Text>,
    /// Orphan, Background, Foreground, or empty if not set.
    pub propagation: Text,
    /// Whether the deprecated `orphanDependents` was set to false.
    pub orphan_dependents_false: bool,
    /// Whether to delete an object that cannot be decoded, and only such an object.
    pub ignore_read_errors: bool,
    /// Whether it is part of a deletecollection request.
    pub is_collection: bool,
}

/// The result of a deletion.
#[derive(Clone, Debug, PartialEq)]
pub enum DeleteOutcome {
    /// The object still exists, with a deletionTimestamp.
    Terminating(Version<Value>),
    Gone(Version<Value>),
    /// The object was removed without having been decoded.
    GoneUnreadable,
}

/// What to do with the stored object.
enum DeleteAction {
    /// Nothing: it is already terminating, and its remaining grace period is not longer than
    /// requested.
    Same,
    Mark(Value),
    Remove,
    /// Like `Remove`, but watches see the object marked first, as always for kinds with graceful
    /// deletion.
    MarkAndRemove(Value),
}

impl Registry {
    /// Deletes an object. Conflicts with concurrent writes are retried, unless a resourceVersion is
    /// required.
    pub async fn delete(
        &self,
        call: &mut RequestContext,
        served: &ServedResource,
        key: (&str, &str),
        delete: &DeleteRequest,
    ) -> Result<DeleteOutcome, Status> {
        if delete.ignore_read_errors {
            return self.delete_unread(call, served, key).await;
        }
        let mut tries = TRIES;
        loop {
            let old = self.get_converted(served, key.0, key.1).await?;
            match self.delete_once(call, served, &old, delete).await {
                Err(status)
                    if status.has_reason("Conflict") && delete.revision.is_none() && tries > 1 =>
                {
                    tries -= 1; // the object has changed: retry with the new version
                }
                done => return done,
            }
        }
    }

    async fn delete_once(
        &self,
        call: &mut RequestContext,
        served: &ServedResource,
        old: &Version<Value>,
        delete: &DeleteRequest,
    ) -> Result<DeleteOutcome, Status> {
        preconditions(served, old, delete)?;
        // Admission plugins get the effective grace period.
        let mut meant = delete.clone();
        if let GracefulDeletion::Seconds(seconds) =
            served.internal.strategy.check_graceful_delete(&old.object, delete.grace_seconds)
        {
            meant.grace_seconds = Some(seconds.max(0));
        }
        let step = WriteStep {
            served,
            operation: Operation::Delete,
            subresource: "",
            old: Some(old),
            with_empty_fields: None,
            delete: Some(&meant),
        };
        let nothing = self.mutate(call, step, Value::Null).await?;
        self.admit_delete(call, step, nothing).await?;
        let (_, claimed) = self.claim(call, step, Value::Null).await?;
        let done = self.delete_stored(call, served, old, delete).await;
        let with = |done: DeleteOutcome| match done {
            DeleteOutcome::Gone(_) | DeleteOutcome::GoneUnreadable => (done, Came::Gone),
            DeleteOutcome::Terminating(_) => (done, Came::Stored),
        };
        self.finish_allocation(claimed, done.map(with)).await
    }

    /// Deletes an object that cannot be decoded. Admission cannot run without it.
    async fn delete_unread(
        &self,
        call: &RequestContext,
        served: &ServedResource,
        (namespace, name): (&str, &str),
    ) -> Result<DeleteOutcome, Status> {
        let path = served.path(namespace, name);
        let revision = match served.objects()?.try_get(&path) {
            Ok(Some(found)) => return Err(readable(served, &found.object)),
            Ok(None) => return Err(Status::not_found(served.subject(name))),
            Err(store::Error::Corrupt { revision, .. }) => revision,
            Err(error) => return Err(store_status(&error)),
        };
        if !call.dry_run {
            let note = WriteProvenance::of(call, "").to_bytes();
            let write = Write::delete(path, revision).with_note(Some(note));
            self.engine.write(write).await.map_err(|error| store_status(&error))?;
        }
        Ok(DeleteOutcome::GoneUnreadable)
    }

    async fn delete_stored(
        &self,
        call: &RequestContext,
        served: &ServedResource,
        old: &Version<Value>,
        delete: &DeleteRequest,
    ) -> Result<DeleteOutcome, Status> {
        match self.outcome(served, &old.object, delete) {
            DeleteAction::Same => Ok(DeleteOutcome::Terminating(old.clone())),
            DeleteAction::Mark(marked) => {
                let marked = self.put(call, served, old.revision, marked).await?;
                Ok(DeleteOutcome::Terminating(marked))
            }
            DeleteAction::Remove => {
                let gone = self.remove(call, served, old.revision, old.object.clone()).await?;
                Ok(DeleteOutcome::Gone(gone))
            }
            DeleteAction::MarkAndRemove(marked) => {
                let marked = self.put(call, served, old.revision, marked).await?;
                let object = marked.object.clone();
                match self.remove(call, served, marked.revision, object).await {
                    // a client that saw the mark may have removed it first
                    Err(status) if status.code() == 404 => Ok(DeleteOutcome::Gone(marked)),
                    done => done.map(DeleteOutcome::Gone),
                }
            }
        }
    }

    async fn admit_delete(
        &self,
        call: &mut RequestContext,
        step: WriteStep<'_>,
        nothing: Value,
    ) -> Result<(), Status> {
        if call.skip_admission {
            return Ok(());
        }
        let mut admission = self.admission(call, step, nothing);
        let decided = self.run_validating(&admission).await;
        let said = admission.take_output();
        call.add_admission_output(said);
        decided
    }

    /// Deletes all selected objects, or a page of them, `at_once` concurrently. An object that has
    /// been deleted meanwhile is no error.
    pub async fn delete_collection(
        &self,
        call: &mut RequestContext,
        served: &ServedResource,
        (selection, page): (&Selection, &ListOptions),
        (delete, at_once): (&DeleteRequest, usize),
    ) -> Result<super::ListResult, Status> {
        let list = self.list_converted(served, selection, page).await?;
        let delete = &DeleteRequest { is_collection: true, ..delete.clone() };
        let mut left = list.items.iter();
        let mut deleting = FuturesUnordered::new();
        loop {
            while deleting.len() < at_once.max(1)
                && let Some(version) = left.next()
            {
                deleting.push(self.delete_listed(call.clone(), served, version, delete));
            }
            let Some(said) = deleting.next().await else { return Ok(list.clone()) };
            for warning in said? {
                if !call.warnings.contains(&warning) {
                    call.warnings.push(warning);
                }
            }
        }
    }

    /// Deletes one object of a collection; returns its warnings.
    fn delete_listed<'a>(
        &'a self,
        mut call: RequestContext,
        served: &'a ServedResource,
        version: &'a Version<Value>,
        delete: &'a DeleteRequest,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<String>, Status>> + Send + 'a>> {
        Box::pin(async move {
            let meta = Object::view(&version.object).metadata();
            let key = (meta.namespace(), meta.name());
            match self.delete(&mut call, served, key, delete).await {
                Err(status) if status.code() == 404 => {}
                done => drop(done?),
            }
            Ok(call.warnings)
        })
    }

    fn outcome(
        &self,
        served: &ServedResource,
        old: &Value,
        delete: &DeleteRequest,
    ) -> DeleteAction {
        let meta = Object::view(old).metadata();
        let (grace, graceful) =
            match served.internal.strategy.check_graceful_delete(old, delete.grace_seconds) {
                GracefulDeletion::None => (0, false),
                GracefulDeletion::Seconds(seconds) => (seconds.max(0), true),
            };
        let mut object = old.clone();
        let marked = Object::ref_cast_mut(&mut object).metadata_mut();
        let orphans = served.definition.orphan_by_default.is_some();
        // The garbage collector ignores resources with a TTL (events).
        let fleeting = served.internal.ttl.is_some();
        let propagation = if fleeting { "Background" } else { &delete.propagation };
        finalizers(marked, propagation, orphans);
        let left =
            meta.deletion_grace_period_seconds().or(Some(0)).filter(|_| meta.is_terminating());
        let faster = left.is_none_or(|left| grace < left);
        if faster {
            let now = self.clock().now();
            marked.set_deletion_timestamp(Time::format(now + nanos(grace) / NANOS));
            marked.set_deletion_grace_period_seconds(grace);
            if marked.generation() > 0 && !meta.is_terminating() {
                marked.set_generation(meta.generation() + 1);
            }
        }
        if faster {
            served.internal.strategy.prepare_delete(&mut object, self.clock().now());
        }
        served.internal.strategy.mark_terminating(&mut object);
        if Self::is_final(served, &object) && graceful && object != *old {
            DeleteAction::MarkAndRemove(object)
        } else if Self::is_final(served, &object) {
            DeleteAction::Remove
        } else if object == *old {
            DeleteAction::Same
        } else {
            DeleteAction::Mark(object)
        }
    }
}

const NANOS: i64 = 1_000_000_000;

/// Converts seconds to nanoseconds with wrapping overflow, as Go's `time.Duration` does.
pub(crate) fn nanos(seconds: i64) -> i64 {
    seconds.wrapping_mul(NANOS)
}

fn readable(served: &ServedResource, object: &Value) -> Status {
    let meta = Object::view(object).metadata();
    let path = served.path(meta.namespace(), meta.name());
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {path}, ResourceVersion: 0, \
         AdditionalErrorMsg: unsafe deletion is not allowed because the object is decodable from \
         storage"
    );
    Status::conflict(served.subject(meta.name()), &why)
}

fn preconditions(
    served: &ServedResource,
    old: &Version<Value>,
    delete: &DeleteRequest,
) -> Result<(), Status> {
    let meta = Object::view(&old.object).metadata();
    // Upstream's message names the kind instead of the resource, except for kinds with finalizers in
    // their spec, whose storage deletes them itself.
    let own = served.internal.finalizers_in_spec;
    let mut subject = served.subject(meta.name());
    if !own {
        subject.resource = served.definition.names.kind;
        subject.group = served.internal.names.group;
    }
    let have = meta.uid();
    if let Some(wanted) = delete.uid.as_ref().filter(|uid| **uid != *have) {
        let why = if own {
            format!(
                "Precondition failed: UID in precondition: {wanted}, UID in object meta: {have}"
            )
        } else {
            format!(
                "the UID in the precondition ({wanted}) does not match the UID in record ({have}). \
                 The object might have been deleted and then recreated"
            )
        };
        return Err(Status::conflict(subject, &why));
    }
    let have = old.revision.to_string();
    if let Some(wanted) = delete.revision.as_ref().filter(|revision| **revision != *have) {
        let why = if own {
            format!(
                "Precondition failed: ResourceVersion in precondition: {wanted}, ResourceVersion \
                 in object meta: {have}"
            )
        } else {
            format!(
                "the ResourceVersion in the precondition ({wanted}) does not match the \
                 ResourceVersion in record ({have}). The object might have been modified"
            )
        };
        return Err(Status::conflict(subject, &why));
    }
    Ok(())
}

/// Sets the finalizer that tells the garbage collector what to do with the dependents.
fn finalizers(meta: &mut object::ObjectMeta, propagation: &str, orphans: bool) {
    let has = |name| meta.finalizers().iter().any(|finalizer| finalizer == name);
    let (orphan, foreground) = (has(ORPHAN), has(FOREGROUND));
    let wanted = match propagation {
        "Foreground" => FOREGROUND,
        "Orphan" => ORPHAN,
        "Background" => "",
        _ if orphans && !orphan && !foreground => ORPHAN,
        _ => return,
    };
    if (orphan, foreground) == (wanted == ORPHAN, wanted == FOREGROUND) {
        return;
    }
    let mut kept: Vec<Text> = meta
        .finalizers()
        .iter()
        .filter(|name| ![FOREGROUND, ORPHAN].contains(name))
        .map(Text::from)
        .collect();
    if !wanted.is_empty() {
        kept.push(wanted.into());
    }
    meta.set_finalizers(kept.into_iter().collect::<object::List<String>>());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_without_end_come_round() {
        assert_eq!(nanos(30), 30 * NANOS);
        assert_eq!((nanos(i64::MAX), nanos(9_223_372_037) < 0), (-NANOS, true));
    }

    #[test]
    fn a_finalizer_says_what_becomes_of_dependents() {
        for (had, propagation, orphans, has) in [
            (&["x"][..], "Foreground", false, &["x", FOREGROUND][..]),
            (&["x", FOREGROUND], "Orphan", false, &["x", ORPHAN]),
            (&[ORPHAN, "x"], "Background", true, &["x"]),
            (&["x"], "", true, &["x", ORPHAN]),
            (&[FOREGROUND], "", true, &[FOREGROUND]),
            (&["x"], "", false, &["x"]),
        ] {
            let had: object::List<String> = had.iter().copied().collect();
            let mut meta = object::ObjectMeta::new().with_finalizers(had);
            finalizers(&mut meta, propagation, orphans);
            let kept: Vec<_> = meta.finalizers().iter().collect();
            assert_eq!(kept, has, "{propagation}");
        }
    }
}
