use object::{View, from_json};

use super::*;

fn claim(spec: &str, notes: &str) -> PersistentVolumeClaim {
    let text = format!(
        r#"{{"metadata":{{"name":"c","namespace":"n","uid":"c","annotations":{{{notes}}}}},
        "spec":{{"accessModes":["ReadWriteOnce"],"resources":{{"requests":{{"storage":"5Gi"}}}}{spec}}},
        "status":{{"phase":"Pending"}}}}"#
    );
    PersistentVolumeClaim::view(&from_json(text.as_bytes()).unwrap()).clone()
}

fn volume(name: &str, size: &str, more: &str) -> PersistentVolume {
    let text = format!(
        r#"{{"metadata":{{"name":"{name}"}},"spec":{{"capacity":{{"storage":"{size}"}},
        "accessModes":["ReadWriteOnce","ReadOnlyMany"]{more}}},"status":{{"phase":"Available"}}}}"#
    );
    PersistentVolume::view(&from_json(text.as_bytes()).unwrap()).clone()
}

fn class(name: &str, provisioner: &str, mode: &str, default: bool) -> StorageClass {
    let text = format!(
        r#"{{"metadata":{{"name":"{name}","annotations":
        {{"storageclass.kubernetes.io/is-default-class":"{default}"}}}},
        "provisioner":"{provisioner}","volumeBindingMode":"{mode}"}}"#
    );
    StorageClass::view(&from_json(text.as_bytes()).unwrap()).clone()
}

fn acts(
    claim: &PersistentVolumeClaim,
    volumes: &[PersistentVolume],
    classes: &[StorageClass],
) -> String {
    let waiting = [];
    let acts = plan_claim(PlanInput { claim, volumes, classes, waiting: &waiting });
    let said = acts.into_iter().map(|act| match act {
        Action::Bind(volume) => format!("bind {}", volume.metadata().name()),
        Action::UpdateClaim(claim) => format!("update {}", claim.class()),
        Action::ClaimStatus(status) => status.phase().to_owned(),
        Action::RecordEvent(_, reason, _) => reason.to_owned(),
        Action::Fail(_) => "fail".into(),
    });
    said.collect::<Vec<_>>().join(" ")
}

#[test]
fn the_smallest_volume_that_will_do_is_taken() {
    let plain = claim("", "");
    let volumes = [
        volume("large", "10Gi", ""),
        volume("small", "1Gi", ""),
        volume("fits", "6Gi", ""),
        volume("classy", "5Gi", r#","storageClassName":"gold""#),
        volume("taken", "5Gi", r#","claimRef":{"name":"other","namespace":"n"}"#),
        volume("block", "5Gi", r#","volumeMode":"Block""#),
    ];
    assert_eq!(acts(&plain, &volumes, &[]), "bind fits");
    assert_eq!(acts(&claim(r#","storageClassName":"gold""#, ""), &volumes, &[]), "bind classy");
    let meant = volume("meant", "50Gi", r#","claimRef":{"name":"c","namespace":"n"}"#);
    assert_eq!(acts(&plain, &[volumes[2].clone(), meant], &[]), "bind meant");
    assert_eq!(acts(&plain, &[], &[]), "FailedBinding");
}

#[test]
fn classes_say_who_makes_volumes_and_when() {
    let gold = claim(r#","storageClassName":"gold""#, "");
    let with = |provisioner: &str, mode: &str| [class("gold", provisioner, mode, false)];
    let external = with("x.io/p", "Immediate");
    assert_eq!(acts(&gold, &[], &external), "update gold ExternalProvisioning");
    assert_eq!(acts(&gold, &[], &with("kubernetes.io/x", "Immediate")), "ProvisioningFailed");
    assert_eq!(acts(&gold, &[], &[]), "ProvisioningFailed");
    let later = with("x.io/p", "WaitForFirstConsumer");
    let volumes = [volume("v", "9Gi", r#","storageClassName":"gold""#)];
    assert_eq!(acts(&gold, &volumes, &later), "WaitForFirstConsumer");
    let placed =
        claim(r#","storageClassName":"gold""#, r#""volume.kubernetes.io/selected-node":"a""#);
    assert_eq!(acts(&placed, &volumes, &later), "update gold ExternalProvisioning");
    let default = [class("std", "x.io/p", "Immediate", true)];
    assert_eq!(acts(&claim("", ""), &[], &default), "update std");
    assert_eq!(acts(&claim(r#","storageClassName":"""#, ""), &[], &default), "FailedBinding");
}

#[test]
fn a_volume_that_is_asked_for_by_name_must_fit() {
    let named = claim(r#","volumeName":"v""#, "");
    assert_eq!(acts(&named, &[], &[]), "");
    assert_eq!(acts(&named, &[volume("v", "5Gi", "")], &[]), "bind v");
    assert_eq!(acts(&named, &[volume("v", "1Gi", "")], &[]), "VolumeMismatch");
    let taken = volume("v", "5Gi", r#","claimRef":{"name":"x","namespace":"n","uid":"x"}"#);
    assert_eq!(acts(&named, std::slice::from_ref(&taken), &[]), "FailedBinding");
    let done = claim(r#","volumeName":"v""#, r#""pv.kubernetes.io/bind-completed":"yes""#);
    assert_eq!(acts(&done, &[], &[]), "Lost ClaimLost");
    assert_eq!(acts(&done, &[taken], &[]), "Lost ClaimMisbound");
}

#[test]
fn binding_is_written_on_both_sides_and_undone() {
    let (claim, volume) = (claim("", ""), volume("v", "6Gi", ""));
    let owned = bound_volume(&volume, &claim).unwrap();
    assert_eq!(bound_volume(&owned, &claim), None);
    let bound = bound_claim(&claim, &owned).unwrap();
    assert_eq!((bound.spec().volume_name(), bound_claim(&bound, &owned)), ("v", None));
    let status = bound_status(&bound, &owned).unwrap();
    assert_eq!(status.capacity().get("storage").unwrap().to_string(), "6Gi");
    let bound = bound.with_status(status);
    assert_eq!(bound_status(&bound, &owned), None);
    assert_eq!(volume_action(&owned, Some(&bound)), VolumeAction::Phase("Bound"));
    assert_eq!(volume_action(&owned, None), VolumeAction::Released);
    let mut other = bound.clone();
    other.spec_mut().set_volume_name("w");
    assert_eq!(volume_action(&owned, Some(&other)), VolumeAction::Unbind);
    let free = unbound_volume(&owned);
    assert_eq!(
        (free.spec().claim_ref(), volume_action(&free, None)),
        (None, VolumeAction::Phase("Available"))
    );
}

#[test]
fn who_made_a_volume_deletes_it() {
    for (more, notes, expected) in [
        (r#","persistentVolumeReclaimPolicy":"Retain""#, "", None),
        (r#","persistentVolumeReclaimPolicy":"Delete","csi":{"driver":"x"}"#, "", None),
        (r#","persistentVolumeReclaimPolicy":"Delete""#, "x.io/p", None),
        (r#","persistentVolumeReclaimPolicy":"Delete""#, "", Some("VolumeFailedDelete")),
        (r#","persistentVolumeReclaimPolicy":"Recycle""#, "", Some("VolumeFailedRecycle")),
    ] {
        let mut volume = volume("v", "1Gi", more);
        if !notes.is_empty() {
            volume.metadata_mut().annotations_mut().insert(plan::PROVISIONED_BY, notes);
        }
        assert_eq!(unreclaimable(&volume).map(|(reason, _)| reason), expected, "{more}");
    }
}
