//! A compromised kubelet can do nothing beyond its own node.

use api::{
    coordination::Lease,
    core::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, Secret},
};
use bytes::Bytes;
use client::{Client, DeleteParams, Patch};
use http::{HeaderMap, Method};
use object::NamespacedName;
use testkit::TestCluster;

use crate::{code, default_account, message, of, pod, tree};

async fn get(client: &Client, path: &str) -> u16 {
    let answer = client.request(Method::GET, path, HeaderMap::new(), Bytes::new()).await;
    answer.expect("an answer").status.as_u16()
}

fn kubelet(cluster: &TestCluster, node: &str) -> Client {
    cluster.client_as(&format!("system:node:{node}"), &["system:nodes"])
}

#[tokio::test]
async fn a_node_reads_the_pods_that_run_on_it_and_no_others() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    default_account(&admin).await;
    for (name, node) in [("own", "n1"), ("foreign", "n2"), ("unbound", "")] {
        of::<Pod>(&admin).create(pod(name, node)).await.unwrap();
    }
    let kubelet = kubelet(&cluster, "n1");
    let by_name = "fieldSelector=metadata.name%3D";
    let pods = "/api/v1/namespaces/default/pods";
    for (path, code) in [
        (format!("{pods}/own"), 200),
        (format!("{pods}/foreign"), 403),
        (format!("{pods}/unbound"), 403),
        (format!("{pods}/none"), 403),
        (format!("{pods}?{by_name}own"), 200),
        (format!("{pods}?{by_name}foreign"), 403),
        (format!("{pods}?{by_name}none"), 403),
        (format!("/api/v1/pods?{by_name}foreign"), 403),
        (format!("/api/v1/pods?{by_name}own"), 403),
        (format!("/api/v1/pods?watch=1&timeoutSeconds=1&{by_name}foreign"), 403),
        (format!("/api/v1/watch/pods?{by_name}foreign&timeoutSeconds=1"), 403),
        ("/api/v1/watch/pods?fieldSelector=spec.nodeName%3Dn1&timeoutSeconds=1".into(), 403),
        (
            "/api/v1/watch/namespaces/default/pods/foreign?fieldSelector=spec.nodeName%3Dn1".into(),
            403,
        ),
        (format!("{pods}?{by_name}foreign%2Cspec.nodeName!%3Dn1"), 403),
        ("/api/v1/pods?fieldSelector=spec.nodeName%3Dn1".into(), 200),
        ("/api/v1/pods?fieldSelector=spec.nodeName%3Dn2".into(), 403),
        (
            "/api/v1/pods?fieldSelector=spec.nodeName%3Dn2&fieldSelector=spec.nodeName%3Dn1".into(),
            403,
        ),
        ("/api/v1/pods".into(), 403),
        (format!("{pods}/own/log"), 403),
        (format!("{pods}/own/exec"), 403),
    ] {
        assert_eq!(get(&kubelet, &path).await, code, "{path}");
    }
    // A kubelet whose certificate names no node has no permissions.
    let nobody = cluster.client_as("system:node:", &["system:nodes"]);
    for path in ["/api/v1/nodes", "/api/v1/pods?fieldSelector=spec.nodeName%3D", "/api/v1/services"]
    {
        assert_eq!(get(&nobody, path).await, 403, "{path}");
    }
}

#[tokio::test]
async fn a_node_does_not_shed_what_the_administrator_put_on_it() {
    let cluster = TestCluster::start().await;
    let (admin, kubelet) = (cluster.admin_client(), kubelet(&cluster, "n1"));
    let nodes = of::<Node>(&kubelet);
    nodes.create(tree(r#"{"metadata":{"name":"n1"}}"#)).await.unwrap();
    let key = NamespacedName::new("", "n1");
    let steered = r#"{"metadata":{"labels":{"node-restriction.kubernetes.io/tier":"low"}},
        "spec":{"taints":[{"key":"low","effect":"NoSchedule"}]}}"#;
    of::<Node>(&admin).patch(&key, &Patch::Merge(tree(steered))).await.unwrap();
    assert_eq!(
        code(nodes.delete(&key, &DeleteParams::default()).await),
        403,
        "it would come back bare"
    );
    let all = kubelet.request(Method::DELETE, "/api/v1/nodes", HeaderMap::new(), Bytes::new());
    assert_eq!(all.await.unwrap().status.as_u16(), 403);
    let one = "/api/v1/nodes?fieldSelector=metadata.name%3Dn1";
    let one = kubelet.request(Method::DELETE, one, HeaderMap::new(), Bytes::new());
    assert_eq!(one.await.unwrap().status.as_u16(), 403);
    for patch in [
        r#"{"spec":{"taints":null}}"#,
        r#"{"metadata":{"labels":{"node-restriction.kubernetes.io/tier":null}}}"#,
        r#"{"metadata":{"labels":{"node-restriction.kubernetes.io/tier":"high"}}}"#,
        r#"{"metadata":{"labels":{"a.node-restriction.kubernetes.io/tier":"high"}}}"#,
        r#"{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}"#,
        r#"{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"none","uid":"u"}]}}"#,
    ] {
        let patch = Patch::Merge(tree(patch));
        assert_eq!(code(nodes.patch(&key, &patch).await), 403, "{patch:?}");
        assert_eq!(code(nodes.patch_status(&key, &patch).await), 403, "{patch:?}");
    }
    let other = Patch::Merge(tree(r#"{"metadata":{"labels":{"a":"b"}}}"#));
    of::<Node>(&admin).create(tree(r#"{"metadata":{"name":"n2"}}"#)).await.unwrap();
    let said = message(nodes.patch(&NamespacedName::new("", "n2"), &other).await);
    assert!(said.ends_with(r#"node "n1" is not allowed to modify node "n2""#), "{said}");
    let now = of::<Node>(&admin).get(&key).await.unwrap();
    assert_eq!(now["spec"]["taints"].items().len(), 1);
    assert_eq!(
        now["metadata"]["labels"]["node-restriction.kubernetes.io/tier"].as_str(),
        Some("low")
    );
}

/// A volume belongs to the claim in its `claimRef`, not to every claim that names the volume.
#[tokio::test]
async fn a_claim_brings_a_node_no_volume_that_is_another_ones() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    default_account(&admin).await;
    of::<Namespace>(&admin).create(tree(r#"{"metadata":{"name":"other"}}"#)).await.unwrap();
    for name in ["stage", "attach"] {
        let secret = tree(&format!(r#"{{"metadata":{{"name":"{name}"}}}}"#));
        of::<Secret>(&admin).namespaced("other").create(secret).await.unwrap();
    }
    for (name, claim) in [("theirs", "x"), ("ours", "ours")] {
        let namespace = if name == "ours" { "default" } else { "other" };
        let volume = tree(&format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"capacity":{{"storage":"1"}},
            "accessModes":["ReadWriteOnce"],"claimRef":{{"namespace":"{namespace}","name":"{claim}"}},
            "csi":{{"driver":"d.example.com","volumeHandle":"{name}",
            "nodeStageSecretRef":{{"name":"stage","namespace":"other"}},
            "controllerPublishSecretRef":{{"name":"attach","namespace":"other"}}}}}}}}"#
        ));
        of::<PersistentVolume>(&admin).create(volume).await.unwrap();
    }
    let claim = |name: &str| {
        tree(&format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"accessModes":["ReadWriteOnce"],"volumeName":"{name}",
            "storageClassName":"","resources":{{"requests":{{"storage":"1"}}}}}}}}"#
        ))
    };
    of::<PersistentVolumeClaim>(&admin).create(claim("theirs")).await.unwrap();
    let mut user = pod("p", "n1");
    user["spec"]["volumes"] =
        tree(r#"[{"name":"v","persistentVolumeClaim":{"claimName":"theirs"}}]"#);
    of::<Pod>(&admin).create(user).await.unwrap();
    let kubelet = kubelet(&cluster, "n1");
    let (stage, attach) =
        ("/api/v1/namespaces/other/secrets/stage", "/api/v1/namespaces/other/secrets/attach");
    assert_eq!(get(&kubelet, "/api/v1/persistentvolumes/theirs").await, 403);
    assert_eq!(get(&kubelet, stage).await, 403);
    of::<PersistentVolumeClaim>(&admin).create(claim("ours")).await.unwrap();
    let mut user = pod("q", "n1");
    user["spec"]["volumes"] =
        tree(r#"[{"name":"v","persistentVolumeClaim":{"claimName":"ours"}}]"#);
    of::<Pod>(&admin).create(user).await.unwrap();
    assert_eq!(get(&kubelet, "/api/v1/persistentvolumes/ours").await, 200);
    assert_eq!(get(&kubelet, "/api/v1/persistentvolumes/theirs").await, 403);
    assert_eq!(get(&kubelet, stage).await, 200, "it mounts the volume");
    assert_eq!(get(&kubelet, attach).await, 403, "it does not attach it");
}

/// A mirror pod gives its node no permissions: it may refer to no objects, and references in
/// existing ones do not count.
#[tokio::test]
async fn a_mirror_pod_brings_a_node_nothing() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    default_account(&admin).await;
    let secret = tree(r#"{"metadata":{"name":"s"}}"#);
    of::<Secret>(&admin).create(secret).await.unwrap();
    let kubelet = kubelet(&cluster, "n1");
    let node = of::<Node>(&kubelet).create(tree(r#"{"metadata":{"name":"n1"}}"#)).await.unwrap();
    let mut mirror = tree(
        r#"{"metadata":{"name":"m","annotations":{"kubernetes.io/config.mirror":"x"},"ownerReferences":
        [{"apiVersion":"v1","kind":"Node","name":"n1","controller":true}]},
        "spec":{"nodeName":"n1","containers":[{"name":"c","image":"i"}]}}"#,
    );
    let mut owner = mirror["metadata"]["ownerReferences"].items()[0].clone();
    owner["uid"] = node["metadata"]["uid"].clone();
    mirror["metadata"]["ownerReferences"] = [owner].into_iter().collect();
    for (field, value) in [
        ("resourceClaims", r#"[{"name":"r","resourceClaimName":"c"}]"#),
        ("volumes", r#"[{"name":"v","secret":{"secretName":"s"}}]"#),
        ("imagePullSecrets", r#"[{"name":"s"}]"#),
        ("serviceAccountName", r#""default""#),
        (
            "volumes",
            r#"[{"name":"v","projected":{"sources":[{"serviceAccountToken":{"path":"t"}}]}}]"#,
        ),
        ("volumes", r#"[{"name":"v","persistentVolumeClaim":{"claimName":"c"}}]"#),
        (
            "volumes",
            r#"[{"name":"v","ephemeral":{"volumeClaimTemplate":{"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1"}}}}}}]"#,
        ),
        ("volumes", r#"[{"name":"v","csi":{"driver":"d.example.com"}}]"#),
    ] {
        let mut hostile = mirror.clone();
        hostile["spec"][field] = tree(value);
        assert_eq!(code(of::<Pod>(&kubelet).create(hostile).await), 403, "{field} {value}");
    }
    // An administrator may have created one before that was enforced.
    let mut old = mirror.clone();
    old["spec"]["nodeName"] = "n1".into();
    old["spec"]["imagePullSecrets"] = tree(r#"[{"name":"s"}]"#);
    if of::<Pod>(&admin).create(old).await.is_ok() {
        assert_eq!(get(&kubelet, "/api/v1/namespaces/default/secrets/s").await, 403);
    }
    let lease = tree(r#"{"metadata":{"name":"n2"}}"#);
    let leases = of::<Lease>(&kubelet).namespaced("kube-node-lease");
    assert_eq!(code(leases.create(lease).await), 403, "another's heartbeat");
}
