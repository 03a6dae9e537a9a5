//! Matches volumes to claims.

use api::core::{PersistentVolume, PersistentVolumeClaim};
use object::{Quantity, selector::Selector};

const CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Whether the volume's claimRef names this claim, possibly without a uid (pre-bound).
pub(super) fn is_for(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let meta = claim.metadata();
    volume.spec().claim_ref().is_some_and(|reference| {
        reference.name() == meta.name()
            && reference.namespace() == meta.namespace()
            && (reference.uid().is_empty() || reference.uid() == meta.uid())
    })
}

/// Why the volume that the claim names cannot be bound to it.
pub(super) fn mismatch(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<String> {
    let text = match () {
        () if volume.metadata().is_terminating() => {
            return Some(format!(
                "the volume is marked for deletion {:?}",
                volume.metadata().name()
            ));
        }
        () if size(volume) < wanted(claim) => "requested PV is too small",
        () if class(volume) != claim.class() => "storageClassName does not match",
        () if attributes(volume) != attributes_wanted(claim) => {
            "volumeAttributesClassName does not match"
        }
        () if !same_mode(volume, claim) => "incompatible volumeMode",
        () if !has_modes(volume, claim) => "incompatible accessMode",
        () => return None,
    };
    Some(text.into())
}

/// Whether volume and claim have the same volumeMode.
pub(super) fn same_mode(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let mode = |mode: Option<&str>| mode.unwrap_or("Filesystem").to_owned();
    mode(volume.spec().volume_mode())
        == mode(Some(claim.spec().volume_mode()).filter(|m| !m.is_empty()))
}

/// The best volume for a claim: one that is pre-bound to it, or else the one with the fewest access
/// modes and then the smallest size. With `delayed` (WaitForFirstConsumer) the scheduler chooses,
/// so only a pre-bound one.
pub(super) fn find_matching_volume<'a>(
    claim: &PersistentVolumeClaim,
    volumes: &'a [PersistentVolume],
    delayed: bool,
) -> Option<&'a PersistentVolume> {
    let selector = claim.spec().selector().map(|selector| crate::claim::selector(Some(selector)));
    let fits = |volume: &&PersistentVolume| {
        !volume.metadata().is_terminating()
            && (volume.spec().claim_ref().is_none() || is_for(volume, claim))
            && size(volume) >= wanted(claim)
            && same_mode(volume, claim)
            && attributes(volume) == attributes_wanted(claim)
            && has_modes(volume, claim)
    };
    let free = |volume: &&PersistentVolume| {
        let selected = |selector: &Selector| selector.matches(volume.metadata().labels());
        !delayed
            && volume.status().phase() == "Available"
            && selector.as_ref().is_none_or(selected)
            && class(volume) == claim.class()
    };
    let all: Vec<&PersistentVolume> = volumes.iter().filter(fits).collect();
    let named = all.iter().copied().find(|volume| is_for(volume, claim));
    named.or_else(|| {
        let free = all.into_iter().filter(free);
        free.min_by_key(|volume| (volume.spec().access_modes().len(), size(volume)))
    })
}

/// The storage class, also from the deprecated annotation.
fn class(volume: &PersistentVolume) -> &str {
    let noted = volume.metadata().annotations().get(CLASS);
    noted.unwrap_or_else(|| volume.spec().storage_class_name())
}

fn size(volume: &PersistentVolume) -> Quantity {
    volume.spec().capacity().get("storage").unwrap_or_default()
}

fn wanted(claim: &PersistentVolumeClaim) -> Quantity {
    claim.spec().resources().requests().get("storage").unwrap_or_default()
}

fn attributes(volume: &PersistentVolume) -> &str {
    volume.spec().volume_attributes_class_name().unwrap_or_default()
}

fn attributes_wanted(claim: &PersistentVolumeClaim) -> &str {
    claim.spec().volume_attributes_class_name().unwrap_or_default()
}

fn has_modes(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let has = |mode: &str| volume.spec().access_modes().iter().any(|own| own == mode);
    claim.spec().access_modes().iter().all(has)
}
