use api::{
    core::{PersistentVolume, PersistentVolumeClaim, Pod},
    storage::StorageClass,
};
use object::NamespacedName;

use crate::World;

fn volume(name: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}"}},"spec":{{"capacity":{{"storage":"5Gi"}},
        "accessModes":["ReadWriteOnce"],"persistentVolumeReclaimPolicy":"Retain",
        "hostPath":{{"path":"/tmp/x"}}}}}}"#
    )
}

fn claim(name: &str, class: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}"}},"spec":{{"storageClassName":"{class}",
        "accessModes":["ReadWriteOnce"],"resources":{{"requests":{{"storage":"1Gi"}}}}}}}}"#
    )
}

#[tokio::test]
async fn claims_and_volumes_find_each_other_and_are_kept_while_used() {
    let world = World::start(&["persistentvolume-binder", "pvc-protection", "pv-protection"]).await;
    world.make::<PersistentVolume>(&volume("v")).await;
    world.make::<PersistentVolumeClaim>(&claim("c", "")).await;
    let bound = |claim: &PersistentVolumeClaim| {
        claim.status().phase() == "Bound"
            && claim.spec().volume_name() == "v"
            && !claim.metadata().finalizers().is_empty()
    };
    world.until_one::<PersistentVolumeClaim>("c", "bound", bound).await;
    let taken = |volume: &PersistentVolume| volume.status().phase() == "Bound";
    world.until_one::<PersistentVolume>("v", "bound", taken).await;

    let pod = r#"{"metadata":{"name":"p"},"spec":{"nodeName":"n",
        "containers":[{"name":"c","image":"i"}],
        "volumes":[{"name":"d","persistentVolumeClaim":{"claimName":"c"}}]}}"#;
    world.make::<Pod>(pod).await;
    let delete = client::DeleteParams::default();
    let claims = world.api::<PersistentVolumeClaim>();
    claims.delete(&NamespacedName::new("default", "c"), &delete).await.expect("it is there");
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(world.all::<PersistentVolumeClaim>().await.len(), 1, "a pod uses it");
    world.delete::<Pod>("p").await;
    world.until_all::<PersistentVolumeClaim>("no claim", <[_]>::is_empty).await;
    let free = |volume: &PersistentVolume| volume.status().phase() == "Released";
    world.until_one::<PersistentVolume>("v", "released", free).await;
    let volumes = world.api::<PersistentVolume>();
    volumes.delete(&NamespacedName::new("", "v"), &delete).await.expect("it is there");
    world.until_all::<PersistentVolume>("no volume", <[_]>::is_empty).await;
    world.stop().await;
}

#[tokio::test]
async fn a_provisioner_is_asked_for_volumes() {
    let world = World::start(&["persistentvolume-binder-controller"]).await;
    let class = r#"{"metadata":{"name":"gold"},"provisioner":"example.com/maker"}"#;
    world.make::<StorageClass>(class).await;
    world.make::<PersistentVolumeClaim>(&claim("c", "gold")).await;
    let asked = |claim: &PersistentVolumeClaim| {
        let notes = claim.metadata().annotations();
        notes.get("volume.kubernetes.io/storage-provisioner") == Some("example.com/maker")
    };
    world.until_one::<PersistentVolumeClaim>("c", "asked for", asked).await;
    world.until_event("c", "ExternalProvisioning").await;
    world.stop().await;
}
