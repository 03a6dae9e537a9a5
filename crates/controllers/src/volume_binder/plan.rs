//! Computes the steps for claims and volumes. Pure, so its tests need no cluster.

use super::matching::{find_matching_volume, is_for, mismatch, same_mode};
use api::{
    core::{ObjectReference, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimStatus},
    storage::StorageClass,
};
use object::{List, Time};
use runtime::EventType;

pub(super) const COMPLETED: &str = "pv.kubernetes.io/bind-completed";
pub(super) const BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const MIGRATED: &str = "pv.kubernetes.io/migrated-to";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
const OLD_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
const DEFAULT_CLASS: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

/// The observed state that the plan of a claim is computed from.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlanInput<'a> {
    pub(super) claim: &'a PersistentVolumeClaim,
    pub(super) volumes: &'a [PersistentVolume],
    pub(super) classes: &'a [StorageClass],
    /// Names of pods that use the claim and are not scheduled.
    pub(super) waiting: &'a [String],
}

/// A step of the plan of a claim.
#[derive(Debug, PartialEq)]
pub(super) enum Action {
    /// Bind the claim to this volume.
    Bind(PersistentVolume),
    UpdateClaim(PersistentVolumeClaim),
    ClaimStatus(PersistentVolumeClaimStatus),
    /// Record an event about the claim.
    RecordEvent(EventType, &'static str, String),
    /// Fail: the claim is bound to a volume that belongs to another claim.
    Fail(String),
}

/// Computes the steps for a claim.
pub(super) fn plan_claim(scene: PlanInput<'_>) -> Vec<Action> {
    let annotations = scene.claim.metadata().annotations();
    if annotations.get(COMPLETED).is_some() { bound(scene) } else { unbound(scene) }
}

fn unbound(scene: PlanInput<'_>) -> Vec<Action> {
    let claim = scene.claim;
    let name = claim.spec().volume_name();
    if name.is_empty() {
        return find_or_provision(scene);
    }
    let Some(volume) = scene.volumes.iter().find(|volume| volume.metadata().name() == name) else {
        return pending(claim, None);
    };
    if is_for(volume, claim) {
        return vec![Action::Bind(volume.clone())];
    }
    if volume.spec().claim_ref().is_some() {
        let why = format!("volume {name:?} already bound to a different claim.");
        let mut acts = pending(claim, Some((EventType::Warning, "FailedBinding", why)));
        if claim.metadata().annotations().get(BY_CONTROLLER).is_some() {
            acts.push(Action::Fail(format!("the claim is bound to {name:?}, which is another's")));
        }
        return acts;
    }
    match mismatch(volume, claim) {
        Some(why) => {
            let why = format!("Cannot bind to requested volume {name:?}: {why}");
            pending(claim, Some((EventType::Warning, "VolumeMismatch", why)))
        }
        None => vec![Action::Bind(volume.clone())],
    }
}

/// Finds or provisions a volume for a claim that names none.
fn find_or_provision(scene: PlanInput<'_>) -> Vec<Action> {
    let claim = scene.claim;
    let class = scene.classes.iter().find(|class| class.metadata().name() == claim.class());
    let delayed = class.is_some_and(|class| class.volume_binding_mode() == "WaitForFirstConsumer");
    if let Some(volume) = find_matching_volume(claim, scene.volumes, delayed) {
        return vec![Action::Bind(volume.clone())];
    }
    let unsaid = claim.class().is_empty() && claim.spec().storage_class_name().is_none();
    if let Some(default) = default_class(scene.classes).filter(|_| unsaid) {
        let mut claim = claim.clone();
        claim.spec_mut().set_storage_class_name(default.metadata().name());
        return vec![Action::UpdateClaim(claim)];
    }
    let placed = claim.metadata().annotations().get(SELECTED_NODE).is_some();
    if delayed && !placed {
        let (reason, why) = match scene.waiting {
            [] => (
                "WaitForFirstConsumer",
                "waiting for first consumer to be created before binding".to_owned(),
            ),
            [one] => ("WaitForPodScheduled", format!("waiting for pod {one} to be scheduled")),
            all => (
                "WaitForPodScheduled",
                format!("waiting for pods {} to be scheduled", all.join(",")),
            ),
        };
        return pending(claim, Some((EventType::Normal, reason, why)));
    }
    if claim.class().is_empty() {
        let why = "no persistent volumes available for this claim and no storage class is set";
        return pending(claim, Some((EventType::Normal, "FailedBinding", why.to_owned())));
    }
    provision(claim, class)
}

/// Requests a volume from the provisioner of the class, by annotations on the claim.
fn provision(claim: &PersistentVolumeClaim, class: Option<&StorageClass>) -> Vec<Action> {
    let failed =
        |why: String| vec![Action::RecordEvent(EventType::Warning, "ProvisioningFailed", why)];
    let Some(class) = class else {
        let name = claim.class();
        return failed(format!("storageclass.storage.k8s.io {name:?} not found"));
    };
    let provisioner = class.provisioner();
    if provisioner.starts_with("kubernetes.io/") {
        return failed(format!("no volume plugin matched name: {provisioner}"));
    }
    let why = format!(
        "Waiting for a volume to be created either by the external provisioner '{provisioner}' or \
         manually by the system administrator. If volume creation is delayed, please verify that \
         the provisioner is running and correctly registered."
    );
    let mut acts = vec![Action::RecordEvent(EventType::Normal, "ExternalProvisioning", why)];
    if claim.metadata().annotations().get(PROVISIONER) != Some(provisioner) {
        let mut claim = claim.clone();
        claim.metadata_mut().annotations_mut().insert(PROVISIONER, provisioner);
        claim.metadata_mut().annotations_mut().insert(OLD_PROVISIONER, provisioner);
        acts.insert(0, Action::UpdateClaim(claim));
    }
    acts
}

fn bound(scene: PlanInput<'_>) -> Vec<Action> {
    let claim = scene.claim;
    let name = claim.spec().volume_name();
    let volume = scene.volumes.iter().find(|volume| volume.metadata().name() == name);
    let (reason, why) = match (volume, volume.and_then(|volume| volume.spec().claim_ref())) {
        (Some(volume), None) => return vec![Action::Bind(volume.clone())],
        (Some(volume), Some(reference)) if reference.uid() == claim.metadata().uid() => {
            return vec![Action::Bind(volume.clone())];
        }
        (Some(_), Some(_)) => (
            "ClaimMisbound",
            "Two claims are bound to the same volume, this one is bound incorrectly",
        ),
        (None, _) if name.is_empty() => (
            "ClaimLost",
            "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
        ),
        (None, _) => {
            ("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
        }
    };
    if claim.status().phase() == "Lost" {
        return Vec::new();
    }
    let status = unbound_status(claim, "Lost");
    vec![
        Action::ClaimStatus(status),
        Action::RecordEvent(EventType::Warning, reason, why.to_owned()),
    ]
}

fn pending(
    claim: &PersistentVolumeClaim,
    told: Option<(EventType, &'static str, String)>,
) -> Vec<Action> {
    let status = unbound_status(claim, "Pending");
    let status = (status != *claim.status()).then_some(Action::ClaimStatus(status));
    let told = told.map(|(severity, reason, why)| Action::RecordEvent(severity, reason, why));
    told.into_iter().chain(status).collect()
}

fn unbound_status(claim: &PersistentVolumeClaim, phase: &str) -> PersistentVolumeClaimStatus {
    let mut status = claim.status().clone().with_phase(phase);
    if !status.access_modes().is_empty() {
        status.set_access_modes(List::<String>::default());
    }
    if !status.capacity().is_empty() {
        let mut tree = object::Value::from(status);
        tree.remove("capacity");
        status = tree.into();
    }
    if status.current_volume_attributes_class_name().is_some() {
        status.clear_current_volume_attributes_class_name();
    }
    status
}

fn default_class(classes: &[StorageClass]) -> Option<&StorageClass> {
    let is_default = |class: &&StorageClass| {
        let notes = class.metadata().annotations();
        DEFAULT_CLASS.iter().any(|name| notes.get(name) == Some("true"))
    };
    let newest = |class: &&StorageClass| {
        let meta = class.metadata();
        (meta.creation_timestamp().to_owned(), std::cmp::Reverse(meta.name().to_owned()))
    };
    classes.iter().filter(is_default).max_by_key(newest)
}

/// The volume bound to the claim; `None` if it is.
pub(super) fn bound_volume(
    volume: &PersistentVolume,
    claim: &PersistentVolumeClaim,
) -> Option<PersistentVolume> {
    let meta = claim.metadata();
    let known = volume.spec().claim_ref();
    let exact = known.is_some_and(|known| {
        (known.name(), known.namespace(), known.uid())
            == (meta.name(), meta.namespace(), meta.uid())
    });
    let ours = !is_for(volume, claim);
    let noted = volume.metadata().annotations().get(BY_CONTROLLER).is_some();
    if exact && (!ours || noted) {
        return None;
    }
    let mut volume = volume.clone();
    if !exact {
        let reference = ObjectReference::new()
            .with_kind("PersistentVolumeClaim")
            .with_api_version("v1")
            .with_namespace(meta.namespace())
            .with_name(meta.name())
            .with_uid(meta.uid())
            .with_resource_version(meta.resource_version());
        volume.spec_mut().set_claim_ref(reference);
    }
    if ours {
        volume.metadata_mut().annotations_mut().insert(BY_CONTROLLER, "yes");
    }
    Some(volume)
}

/// The claim bound to the volume; `None` if it is.
pub(super) fn bound_claim(
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
) -> Option<PersistentVolumeClaim> {
    let mut new = claim.clone();
    let name = volume.metadata().name();
    if claim.spec().volume_name() != name {
        new.spec_mut().set_volume_name(name);
        new.metadata_mut().annotations_mut().insert(BY_CONTROLLER, "yes");
    }
    if claim.metadata().annotations().get(COMPLETED).is_none() {
        new.metadata_mut().annotations_mut().insert(COMPLETED, "yes");
    }
    (new != *claim).then_some(new)
}

/// The claim's status when bound to the volume; `None` if it has it.
pub(super) fn bound_status(
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
) -> Option<PersistentVolumeClaimStatus> {
    let (old, spec) = (claim.status(), volume.spec());
    let mut status = old.clone();
    if old.phase() != "Bound" {
        status.set_phase("Bound");
        if !old.capacity().iter().eq(spec.capacity().iter()) {
            status.set_capacity(spec.capacity().clone());
        }
        if let Some(class) = spec.volume_attributes_class_name() {
            status.set_current_volume_attributes_class_name(class);
        }
    }
    if !old.access_modes().iter().eq(spec.access_modes().iter()) {
        status.set_access_modes(spec.access_modes().clone());
    }
    (status != *old).then_some(status)
}

/// What to do with a volume.
#[derive(Debug, PartialEq)]
pub(super) enum VolumeAction {
    /// Only set its phase.
    Phase(&'static str),
    /// Reconcile its claim.
    Claim,
    /// The volumeModes differ: record events about both.
    Mismatch,
    /// Its claim is bound to another volume: make it available again.
    Unbind,
    /// Its claim was deleted.
    Released,
}

/// Decides what to do with a volume. `claim` is the claim that it names, if it exists.
pub(super) fn volume_action(
    volume: &PersistentVolume,
    claim: Option<&PersistentVolumeClaim>,
) -> VolumeAction {
    let Some(reference) = volume.spec().claim_ref().filter(|it| !it.uid().is_empty()) else {
        return VolumeAction::Phase("Available");
    };
    let claim = claim.filter(|claim| claim.metadata().uid() == reference.uid());
    let notes = volume.metadata().annotations();
    match claim {
        None => VolumeAction::Released,
        Some(claim) if claim.spec().volume_name().is_empty() => {
            if same_mode(volume, claim) {
                VolumeAction::Claim
            } else {
                VolumeAction::Mismatch
            }
        }
        Some(claim) if claim.spec().volume_name() == volume.metadata().name() => {
            VolumeAction::Phase("Bound")
        }
        Some(_)
            if notes.get(PROVISIONED_BY).is_some()
                && volume.spec().persistent_volume_reclaim_policy() == "Delete" =>
        {
            VolumeAction::Released
        }
        Some(_) => VolumeAction::Unbind,
    }
}

/// Why a released volume cannot be reclaimed: reason and message of the event. `None`: it is kept,
/// or its provisioner deletes it.
pub(super) fn unreclaimable(volume: &PersistentVolume) -> Option<(&'static str, String)> {
    let notes = volume.metadata().annotations();
    if notes.get(MIGRATED).is_some_and(|to| !to.is_empty()) {
        return None;
    }
    let name = volume.metadata().name();
    match volume.spec().persistent_volume_reclaim_policy() {
        "Retain" => None,
        "Recycle" => {
            Some(("VolumeFailedRecycle", "No recycler plugin found for the volume!".to_owned()))
        }
        "Delete" => match notes.get(PROVISIONED_BY).filter(|by| !by.is_empty()) {
            Some(by) if by.starts_with("kubernetes.io/") => {
                Some(("VolumeFailedDelete", format!("no volume plugin matched name: {by}")))
            }
            Some(_) => None,
            None if volume.spec().persistent_volume_source().csi().is_some() => None,
            None => Some((
                "VolumeFailedDelete",
                format!(
                    "error getting deleter volume plugin for volume {name:?}: no deletable volume \
                     plugin matched"
                ),
            )),
        },
        _ => Some((
            "VolumeUnknownReclaimPolicy",
            "Volume has unrecognized PersistentVolumeReclaimPolicy".to_owned(),
        )),
    }
}

/// The volume without its claim, so that it can be bound again.
pub(super) fn unbound_volume(volume: &PersistentVolume) -> PersistentVolume {
    let mut new = volume.clone();
    if volume.metadata().annotations().get(BY_CONTROLLER).is_some() {
        new.spec_mut().clear_claim_ref();
        let mut tree = object::Value::from(new);
        tree["metadata"]["annotations"].remove(BY_CONTROLLER);
        return tree.into();
    }
    new.spec_mut().claim_ref_mut().set_uid("");
    new
}

/// The volume with another phase; `None` if it has it.
pub(super) fn in_phase(
    volume: &PersistentVolume,
    phase: &str,
    why: &str,
    now: i64,
) -> Option<PersistentVolume> {
    if volume.status().phase() == phase {
        return None;
    }
    let mut new = volume.clone();
    new.status_mut().set_phase(phase);
    new.status_mut().set_message(why);
    new.status_mut().set_last_phase_transition_time(Time::format(now));
    Some(new)
}
