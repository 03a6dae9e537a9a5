//! The generation: counts changes of the desired state.

use object::ObjectMeta;

/// A new object is at its first generation.
pub(crate) fn init(meta: &mut ObjectMeta) {
    meta.set_generation(1);
}

/// The next generation if what is desired has `changed`, else the same.
pub(crate) fn bump_if(meta: &mut ObjectMeta, old: &ObjectMeta, changed: bool) {
    meta.set_generation(old.generation().saturating_add(changed.into()));
}

/// Whether what is desired is not as it was before.
pub(crate) fn changed(meta: &ObjectMeta, old: Option<&ObjectMeta>) -> bool {
    old.is_none_or(|old| old.generation() != meta.generation())
}
