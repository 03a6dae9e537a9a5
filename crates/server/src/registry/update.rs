//! Changes of what is there: the object, or its status.

use std::sync::Arc;

use object::{Object, Status, Value, View};
use schema::{Errors, Path};
use store::Version;

use super::{
    Call, Registry,
    begin::{AFTER_PLUGINS, count_change, distinct_owners, keep_identity},
    corrupt,
    create::default,
    part::with_part,
    write::Step,
};
use crate::{Operation, Outcome, Served};

/// How often a write that names no version is tried again when somebody was faster.
pub(super) const TRIES: usize = 16;

impl Registry {
    /// Replaces an object, or with the subresource `status` that part of it.
    /// `object` comes decoded, in the request's version.
    #[expect(clippy::too_many_arguments, reason = "who, what kind, which object, which part, how")]
    pub async fn update(
        &self,
        call: &mut Call,
        served: &Served,
        key: (&str, &str),
        subresource: &str,
        object: Value,
    ) -> Result<Version<Value>, Status> {
        let meta = Object::view(&object).metadata();
        let (wanted, uid) = (meta.resource_version().to_owned(), meta.uid().to_owned());
        let mut object = object;
        distinct_owners(&mut object, call, "");
        default(served, &mut object);
        let dry_run = call.dry_run;
        self.change(call, served, key, subresource, |old| {
            let have = Object::view(&old.object).metadata().uid();
            if !uid.is_empty() && uid != have {
                return Err(other_uid(served, key, &uid, have, dry_run));
            }
            match based_on(&wanted)? {
                0 if !served.hub.hooks.blind_updates() => Err(blind(served, key.1)),
                wanted if wanted != 0 && wanted != old.revision => {
                    Err(Status::stale(served.subject(key.1)))
                }
                _ => Ok(object.clone()),
            }
        })
        .await
    }

    /// Changes an object by `change`, which sees the newest version and gives the
    /// new one, both in the stored version. It is called again if somebody was faster.
    #[expect(clippy::too_many_arguments, reason = "who, what kind, which object, which part, how")]
    pub async fn change(
        &self,
        call: &mut Call,
        served: &Served,
        key: (&str, &str),
        subresource: &str,
        mut change: impl FnMut(&Version<Value>) -> Result<Value, Status>,
    ) -> Result<Version<Value>, Status> {
        let mut tries = TRIES;
        loop {
            let old = self.changeable(served, key).await?;
            let new = change(&old)?;
            match self.replace(call, served, subresource, &old, new).await {
                Err(status) if status.is("Conflict") && tries > 1 => tries -= 1,
                done => return done,
            }
        }
    }

    /// What is there to be changed, in the request's version.
    pub(super) async fn changeable(
        &self,
        served: &Served,
        key: (&str, &str),
    ) -> Result<Arc<Version<Value>>, Status> {
        let there = served.objects()?.look(&served.path(key.0, key.1));
        there.map_err(|error| corrupt::change(&error))?;
        self.read(served, key.0, key.1).await
    }

    #[expect(clippy::too_many_arguments, reason = "who, what kind, which object, which part, how")]
    pub(super) async fn replace(
        &self,
        call: &mut Call,
        served: &Served,
        subresource: &str,
        old: &Version<Value>,
        mut new: Value,
    ) -> Result<Version<Value>, Status> {
        keep_identity(&mut new, &old.object);
        served.hub.hooks.stamp(&mut new, &self.writer(call));
        // Who writes holds what it has sent, even what the kind then puts right.
        new = self.manage(call, served, subresource, Some(&old.object), new).await?;
        let given = served.hub.hollow(&new);
        let (hollow, operation) = (given.as_ref(), Operation::Update);
        let counts = served.hub.drop_hollow(&mut new, &old.object);
        let step = Step { served, operation, subresource, old: Some(old), hollow, delete: None };
        new = self.mutate(call, step, new).await?;
        distinct_owners(&mut new, call, AFTER_PLUGINS);
        match subresource {
            "status" => {
                new = with_status(served, &old.object, &new);
                served.hub.hooks.prepare_status(&mut new, &old.object);
            }
            "binding" => {} // made from the old object by who handles it
            "finalize" => new = with_part(&old.object, &new, "spec", "finalizers"),
            "approval" => new = with_part(&old.object, &new, "status", "conditions"),
            "resize" | "ephemeralcontainers" => {
                served.hub.hooks.prepare_part(&mut new, subresource, &old.object);
            }
            _ => {
                if served.hub.subresource("status").is_some() {
                    new = keeping_status(new, &old.object);
                }
                if !served.hub.hooks.counts_dormant() {
                    served.hub.gates.drop_dormant(&served.hub.shape, &mut new, Some(&old.object));
                }
                served.hub.hooks.prepare_update(&mut new, &old.object);
            }
        }
        served.hub.hooks.sign(&mut new, Some(&old.object), &self.writer(call));
        served.hub.gates.drop_dormant(&served.hub.shape, &mut new, Some(&old.object));
        let (mut new, claimed) = self.claim(call, step, new).await?;
        if subresource != "binding" {
            count_change(served, subresource, &mut new, &old.object, counts);
        }
        let done = self.store_changed(call, step, old, new).await;
        self.settle(claimed, done).await
    }

    async fn store_changed(
        &self,
        call: &mut Call,
        step: Step<'_>,
        old: &Version<Value>,
        new: Value,
    ) -> Result<(Version<Value>, Outcome), Status> {
        let served = step.served;
        let mut new = self.check(call, step, new).await?;
        served.hub.seal(&mut new);
        if !call.dry_run && !Object::view(&new).metadata().self_link().is_empty() {
            new["metadata"].remove("selfLink"); // is never kept
        }
        new.adopt(&old.object); // the ring then holds a difference, not a copy
        if new == old.object {
            return Ok((old.clone(), Outcome::Stored)); // a no-op writes nothing and wakes nobody
        }
        if Self::is_final(served, &new) {
            let gone = self.remove(call, served, old.revision, new).await?; // of its last finalizer
            return Ok((gone, Outcome::Gone));
        }
        Ok((self.put(call, served, old.revision, new).await?, Outcome::Stored))
    }

    /// Whether nothing holds the object back any more. Kinds with a `finalize`
    /// subresource have finalizers in their spec as well.
    pub(super) fn is_final(served: &Served, object: &Value) -> bool {
        let held = served.hub.subresource("finalize").is_some()
            && !object.get("spec").get("finalizers").items().is_empty();
        Object::view(object).metadata().is_final() && !held
    }
}

/// The old object with the new one's status, and what of its metadata may be
/// changed along with a status.
fn with_status(served: &Served, old: &Value, new: &Value) -> Value {
    let mut object = old.clone();
    match new.get("status") {
        Value::Null => object.remove("status"),
        status => object["status"] = status.clone(),
    }
    object["metadata"] = new.get("metadata").clone();
    let keeps = served.hub.hooks.status_keeps();
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

/// An update must say which version it is based on.
pub(super) fn blind(served: &Served, name: &str) -> Status {
    let mut errs = Errors::default();
    let at = Path::Root.field("metadata");
    errs.invalid(&at.field("resourceVersion"), 0, "must be specified for an update");
    let names = &served.definition.names;
    errs.status(names.group, names.plural, name)
}

fn keeping_status(mut new: Value, old: &Value) -> Value {
    match old.get("status") {
        Value::Null => new.remove("status"),
        status => new["status"] = status.clone(),
    }
    new
}

/// The version that a write is based on; 0: any.
pub(super) fn based_on(text: &str) -> Result<u64, Status> {
    revision(text).map_err(|_| {
        let why = format!("strconv.ParseUint: parsing {text:?}: {}", unparsed(text));
        Status::failure(500, "", why)
    })
}

/// The object is not the one that was meant, but another of the same name.
pub fn other_uid(
    served: &Served,
    key: (&str, &str),
    wanted: &str,
    have: &str,
    dry_run: bool,
) -> Status {
    let path = served.path(key.0, key.1);
    // A dry run never gets to the store, which puts its prefix in front.
    let path = if dry_run { path.trim_start_matches("/registry") } else { &path };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {path}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object \
         meta: {have}"
    );
    Status::conflict(served.subject(key.1), &why)
}

/// Why a text is not the number of a version, in Go's words.
pub(crate) fn unparsed(text: &str) -> &'static str {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { "value out of range" } else { "invalid syntax" }
}

/// The number behind a resource version; 0: none.
pub fn revision(text: &str) -> Result<u64, Status> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| {
        let why = format!("strconv.ParseUint: parsing {text:?}: {}", unparsed(text));
        Status::failure(500, "", format!("resourceVersion: Invalid value: {text:?}: {why}"))
    })
}
