//! Metadata that the server sets: name, uid, timestamps, generation.

use std::{cell::RefCell, collections::HashSet};

use object::{Clock, Lens, Object, Status, Text, Time, Value, View, uuid_from_random};
use ref_cast::RefCast;
use ring::rand::{SecureRandom, SystemRandom};

use super::RequestContext;
use crate::{Operation, ServedResource};

/// Upstream's alphabet for generated names: no vowels, and no characters that look alike.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Random bytes are requested from the kernel in chunks of this size.
const DRAW: usize = 512;
/// Maximum length of a generated name.
const NAME: usize = 63;

/// Suffix of the warning about duplicate owner references that admission plugins added.
pub(super) const AFTER_PLUGINS: &str = " after mutating admission happens";

/// Sets the namespace of the request.
pub(super) fn set_namespace(served: &ServedResource, namespace: &str, object: &mut Value) {
    let meta = Object::ref_cast_mut(object).metadata_mut();
    meta.set_namespace(if served.definition.is_namespaced() { namespace } else { "" });
}

/// Sets name, uid, creationTimestamp and generation of a new object.
pub(super) fn fill_system_fields(served: &ServedResource, object: &mut Value, clock: &dyn Clock) {
    let meta = Object::ref_cast_mut(object).metadata_mut();
    if meta.name().is_empty() && !meta.generate_name().is_empty() {
        let exact = served.definition.generate_exact_name;
        let prefix = meta.generate_name();
        let name = if exact { prefix.into() } else { generate_name(prefix) };
        meta.set_name(name);
    }
    meta.set_uid(uid());
    meta.set_creation_timestamp(Time::format(clock.now()));
    meta.set_self_link("");
    if counts(served) {
        meta.set_generation(1);
    }
    clear_deletion_fields(object);
}

/// Clears the deletion fields, which a new object cannot have.
pub(super) fn clear_deletion_fields(object: &mut Value) {
    let meta = Object::ref_cast_mut(object).metadata_mut();
    meta.clear_deletion_timestamp();
    meta.clear_deletion_grace_period_seconds();
}

/// Removes duplicate owner references, with a warning; `when` is part of its text.
pub(super) fn dedup_owner_references(object: &mut Value, call: &mut RequestContext, when: &str) {
    let meta = Object::view(object).metadata();
    let (mut owners, mut twice) = (Vec::new(), Vec::new());
    let mut seen = HashSet::new(); // a request may name thousands
    for owner in meta.owner_references().iter() {
        if seen.insert(owner.tree()) {
            owners.push(owner.clone());
        } else {
            twice.push(owner.uid().to_owned());
        }
    }
    if twice.is_empty() {
        return;
    }
    twice.sort_unstable();
    twice.dedup();
    call.warnings.push(format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references \
         in 1.20+, and may reject such requests as early as 1.24; please fix your requests; \
         duplicate UID(s) observed: {}",
        twice.join(", ")
    ));
    let owners = owners.into_iter().collect::<object::List<_>>();
    Object::ref_cast_mut(object).metadata_mut().set_owner_references(owners);
}

/// Copies the metadata that clients cannot set from the stored object. Changes of immutable
/// metadata are left in place for validation to report.
pub(super) fn preserve_system_fields(object: &mut Value, old: &Value) {
    let old = Object::view(old).metadata();
    let meta = Object::ref_cast_mut(object).metadata_mut();
    meta.set_name(old.name());
    meta.set_namespace(old.namespace());
    if meta.uid().is_empty() {
        meta.set_uid(old.uid());
    }
    meta.set_creation_timestamp(old.creation_timestamp());
    meta.set_generation(old.generation());
    meta.set_resource_version("");
    if let Some(moment) = old.deletion_timestamp() {
        meta.set_deletion_timestamp(moment);
    }
    if let (None, Some(grace)) =
        (meta.deletion_grace_period_seconds(), old.deletion_grace_period_seconds())
    {
        meta.set_deletion_grace_period_seconds(grace);
    }
}

/// Checks that mutating admission changed neither kind, namespace nor uid. It may change the name
/// of an object to be created, unless the request path contains it (`named`).
pub(super) fn keep_given_identity(
    operation: Operation,
    named: bool,
    given: &Value,
    object: &mut Value,
) -> Result<(), Status> {
    let (was, is) = (Object::view(given), Object::view(object));
    let (was_meta, is_meta) = (was.metadata(), is.metadata());
    if was_meta.namespace() != is_meta.namespace() {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let updates = operation == Operation::Update;
    for (what, was, is, counts) in [
        ("apiVersion", was.api_version(), is.api_version(), true),
        ("kind", was.kind(), is.kind(), true),
        ("name", was_meta.name(), is_meta.name(), updates || named),
        ("uid", was_meta.uid(), is_meta.uid(), updates),
    ] {
        if counts && was != is {
            let why =
                format!("admission may not change the {what} of an object: {was:?} to {is:?}");
            return Err(Status::bad_request(why));
        }
    }
    if updates {
        for field in ["creationTimestamp", "deletionTimestamp", "generation"] {
            match given.get("metadata").get(field) {
                Value::Null => object["metadata"].remove(field),
                kept => object["metadata"][field] = kept.clone(),
            }
        }
    }
    Ok(())
}

/// Increments the generation if the desired state has changed; `sure` means that it has.
pub(super) fn bump_generation(
    served: &ServedResource,
    subresource: &str,
    object: &mut Value,
    old: &Value,
    sure: bool,
) {
    if sure || counts(served) && served.internal.changes_generation(subresource, object, old) {
        let generation = Object::view(old).metadata().generation() + 1;
        Object::ref_cast_mut(object).metadata_mut().set_generation(generation);
    }
}

/// Whether objects of the kind have a generation: those whose status is separate from their desired
/// state.
fn counts(served: &ServedResource) -> bool {
    served.internal.tracks_generation
}

/// Appends a random suffix to a `generateName`, as upstream does.
pub(super) fn generate_name(prefix: &str) -> Text {
    let (kept, _) = prefix.split_at(prefix.floor_char_boundary(NAME - 5));
    let letter = |n: u8| ALPHABET.get(usize::from(n) % ALPHABET.len()).copied().map(char::from);
    format!("{kept}{}", random::<5>().into_iter().filter_map(letter).collect::<String>()).into()
}

/// A random UUID.
pub fn uid() -> Text {
    uuid_from_random(random())
}

/// A random number from 0 up to, but not including, 1.
pub(crate) fn random_fraction() -> f64 {
    f64::from(u32::from_le_bytes(random())) / (f64::from(u32::MAX) + 1.0)
}

/// Cryptographically random bytes. They are requested from the kernel in larger chunks, because
/// every request needs a few and each call is a system call.
#[expect(clippy::expect_used, reason = "a server without randomness must not go on")]
pub(crate) fn random<const N: usize>() -> [u8; N] {
    thread_local! {
        static DRAWN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    DRAWN.with_borrow_mut(|drawn| {
        if drawn.len() < N {
            drawn.resize(N.max(DRAW), 0);
            SystemRandom::new().fill(drawn).expect("the system has randomness");
        }
        let (left, taken) = drawn.split_last_chunk().expect("as many were drawn");
        let (left, taken) = (left.len(), *taken);
        drawn.truncate(left);
        taken
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_uids_are_new_each_time() {
        assert_ne!(generate_name("web-"), generate_name("web-"));
        assert_eq!(generate_name(&"x".repeat(80)).len(), NAME);
        let uid = uid();
        assert_eq!((uid.len(), uid.as_bytes()[14]), (36, b'4'));
    }
}
