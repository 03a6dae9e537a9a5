//! Tests of pods with PersistentVolumeClaims.

use api::{
    core::{PersistentVolume, PersistentVolumeClaim},
    storage::StorageClass,
};

use crate::World;

fn claims(name: &str) -> String {
    format!(r#""volumes":[{{"name":"v","persistentVolumeClaim":{{"claimName":"{name}"}}}}],"#)
}

fn claim(name: &str, class: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}"}},"spec":{{"storageClassName":"{class}",
        "accessModes":["ReadWriteOnce"],"resources":{{"requests":{{"storage":"1Gi"}}}}}}}}"#
    )
}

#[tokio::test]
async fn a_pod_waits_for_its_claims_and_follows_its_volume() {
    let world = World::start().await;
    for name in ["a", "b"] {
        world.create_node(name, &format!(r#""name":"{name}""#), r#""cpu":"8","pods":"10""#).await;
    }
    for (name, provisioner) in
        [("later", "example.com/disks"), ("by-hand", "kubernetes.io/no-provisioner")]
    {
        let class = format!(
            r#"{{"metadata":{{"name":"{name}"}},"provisioner":"{provisioner}",
            "volumeBindingMode":"WaitForFirstConsumer"}}"#
        );
        world.create::<StorageClass>(&class).await;
    }

    let unhelpful =
        "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
    world.pod("absent", "1", &claims("absent")).await;
    let absent = format!(
        r#"0/2 nodes are available: persistentvolumeclaim "absent" not found. {unhelpful}"#
    );
    world.until_unschedulable("absent", &absent).await;
    world.create::<PersistentVolumeClaim>(&claim("absent", "")).await;
    let unbound = format!(
        "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. {unhelpful}"
    );
    world.until_unschedulable("absent", &unbound).await;

    world.create::<PersistentVolumeClaim>(&claim("by-hand", "by-hand")).await;
    world.pod("by-hand", "1", &claims("by-hand")).await;
    let none = format!(
        "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind. {unhelpful}"
    );
    world.until_unschedulable("by-hand", &none).await;

    // The node is selected first, then the volume is provisioned for it, and only then the pod is
    // bound.
    world.create::<PersistentVolumeClaim>(&claim("later", "later")).await;
    world.pod("later", "1", &format!(r#"{}"nodeSelector":{{"name":"b"}},"#, claims("later"))).await;
    let selected = |claim: &PersistentVolumeClaim| {
        claim.metadata().annotations().get("volume.kubernetes.io/selected-node") == Some("b")
    };
    world.until::<PersistentVolumeClaim>("later", "the node", selected).await;
    assert_eq!(world.get::<api::core::Pod>("later").await.spec().node_name(), "");

    for name in ["later", "absent"] {
        let volume = format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"capacity":{{"storage":"1Gi"}},
            "accessModes":["ReadWriteOnce"],"hostPath":{{"path":"/tmp"}},"claimRef":{{"namespace":"default",
            "name":"{name}"}},"nodeAffinity":{{"required":{{"nodeSelectorTerms":[{{"matchExpressions":
            [{{"key":"name","operator":"In","values":["b"]}}]}}]}}}}}}}}"#
        );
        world.create::<PersistentVolume>(&volume).await;
        let bound = format!(
            r#"{{"metadata":{{"annotations":{{"pv.kubernetes.io/bind-completed":"yes"}}}},
            "spec":{{"volumeName":"{name}"}}}}"#
        );
        world.patch::<PersistentVolumeClaim>(name, &bound).await;
        world.until_placed(name, "b").await;
    }
    world.stop().await;
}
