//! Owner references of a StatefulSet's PersistentVolumeClaims, set according to
//! `persistentVolumeClaimRetentionPolicy`. The garbage collector then deletes the claim together
//! with the set or the pod, or keeps it.
//!
//! ```text
//!  whenDeleted Delete   the set owns the claims of its pods
//!  whenScaled  Delete   a pod that is scaled down owns its claims
//! ```

use api::{
    apps::{StatefulSet, StatefulSetPersistentVolumeClaimRetentionPolicy as Policy},
    core::{PersistentVolumeClaim, Pod},
};
use object::{List, OwnerReference};
use schema::Kind;

/// The claim with the owner references that it should have; `None` if it has them.
pub(super) fn with_retention_owners(
    claim: &PersistentVolumeClaim,
    set: &StatefulSet,
    pod: &Pod,
    scaled_away: bool,
) -> Option<PersistentVolumeClaim> {
    if is_stale(claim, set) || is_stale(claim, pod) {
        return None; // the garbage collector deletes the claim first
    }
    let (by_set, by_pod) = owners(set, scaled_away);
    let (by_set, by_pod) =
        if is_controlled_elsewhere(claim, set, pod) { (false, false) } else { (by_set, by_pod) };
    let has = |uid: &str, controls: bool| {
        let owner = claim.metadata().owner_references().find(|owner| owner.uid() == uid);
        owner.is_some_and(|owner| !controls || owner.controller() == Some(true))
    };
    let right = |uid: &str, wanted: bool| has(uid, wanted) == wanted;
    if right(set.metadata().uid(), by_set) && right(pod.metadata().uid(), by_pod) {
        return None;
    }
    let others = claim.metadata().owner_references().iter();
    let others = others.filter(|owner| !is(owner, set) && !is(owner, pod)).cloned();
    let own = [by_set.then(|| set.controller_ref()), by_pod.then(|| pod.controller_ref())];
    let all: List<OwnerReference> = others.chain(own.into_iter().flatten()).collect();
    let mut claim = claim.clone();
    claim.metadata_mut().set_owner_references(all);
    Some(claim)
}

/// Whether another object controls a claim to which the retention policy applies.
pub(super) fn is_controlled_elsewhere(
    claim: &PersistentVolumeClaim,
    set: &StatefulSet,
    pod: &Pod,
) -> bool {
    if owners(set, true) == (false, false) && owners(set, false) == (false, false) {
        return false;
    }
    claim.metadata().owner_references().iter().any(|owner| {
        if is(owner, set) {
            owner.uid() != set.metadata().uid()
        } else if is(owner, pod) {
            owner.uid() != pod.metadata().uid()
        } else {
            owner.controller() == Some(true)
        }
    })
}

/// Whether the claim is owned by an earlier object of the same name, and will be deleted with it.
pub(super) fn is_stale<K: Kind>(claim: &PersistentVolumeClaim, owner: &K) -> bool {
    let found = claim.metadata().owner_references().find(|one| is(one, owner));
    found.is_some_and(|one| one.uid() != owner.meta().uid())
}

/// Whether the policy deletes the claims of pods that are scaled down.
pub(super) fn deletes_scaled(set: &StatefulSet) -> bool {
    owners(set, true).1
}

/// Whether the set and whether the pod should own the claim.
fn owners(set: &StatefulSet, scaled_away: bool) -> (bool, bool) {
    let policy = set.spec().persistent_volume_claim_retention_policy();
    let deletes = |when: Option<&str>| when == Some("Delete");
    let deleted = deletes(policy.map(Policy::when_deleted));
    let scaled = deletes(policy.map(Policy::when_scaled));
    match (scaled, deleted) {
        (false, deleted) => (deleted, false),
        (true, false) => (false, scaled_away),
        (true, true) => (!scaled_away, scaled_away),
    }
}

fn is<K: Kind>(reference: &OwnerReference, owner: &K) -> bool {
    reference.kind() == K::NAMES.kind
        && reference.api_version() == K::NAMES.api_version()
        && reference.name() == owner.meta().name()
}

#[cfg(test)]
mod tests {
    use api::apps::StatefulSetSpec;
    use object::ObjectMeta;

    use super::*;

    #[test]
    fn policies_decide_who_owns_a_claim() {
        let pod = Pod::new().with_metadata(ObjectMeta::new().with_name("s-0").with_uid("p"));
        for (deleted, scaled, away, expected) in [
            ("Retain", "Retain", false, ""),
            ("Delete", "Retain", false, "s"),
            ("Delete", "Retain", true, "s"),
            ("Retain", "Delete", false, ""),
            ("Retain", "Delete", true, "p"),
            ("Delete", "Delete", false, "s"),
            ("Delete", "Delete", true, "p"),
        ] {
            let policy = Policy::new().with_when_deleted(deleted).with_when_scaled(scaled);
            let spec = StatefulSetSpec::new();
            let set = StatefulSet::new()
                .with_metadata(ObjectMeta::new().with_name("s").with_uid("s"))
                .with_spec(spec.with_persistent_volume_claim_retention_policy(policy));
            let bare = PersistentVolumeClaim::new();
            let claim = with_retention_owners(&bare, &set, &pod, away).unwrap_or(bare);
            let uids: String =
                claim.metadata().owner_references().iter().map(OwnerReference::uid).collect();
            assert_eq!(uids, expected, "{deleted} {scaled} {away}");
            assert_eq!(with_retention_owners(&claim, &set, &pod, away), None, "it stays so");
        }
    }

    #[test]
    fn others_claims_are_left_alone() {
        let policy = Policy::new().with_when_deleted("Delete");
        let mut set = StatefulSet::new();
        set.spec_mut().set_persistent_volume_claim_retention_policy(policy);
        let mut claim = PersistentVolumeClaim::new();
        let other = OwnerReference::new().with_kind("X").with_uid("x").with_controller(true);
        claim.metadata_mut().set_owner_references([other]);
        assert!(is_controlled_elsewhere(&claim, &set, &Pod::new()));
        assert_eq!(with_retention_owners(&claim, &set, &Pod::new(), false), None);
    }
}
