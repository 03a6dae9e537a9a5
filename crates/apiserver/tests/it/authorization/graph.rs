//! Random pods on nodes with what they use, volumes, attachments and slices, as objects to be created in any cluster.

use object::Value;

use super::{
    random::Random,
    world::{Made, NAMES, NODES, namespaces},
};
use crate::tree;

/// Namespaces, service accounts, and every kind of object that the node authorizer relates to a
/// node.
pub(super) fn nodes_and_pods(random: &mut Random, round: usize) -> Vec<Made> {
    let mut all = Vec::new();
    for namespace in namespaces(round) {
        all.push(Made::new("/api/v1/namespaces", named(&namespace, "{}")));
        for name in NAMES.iter().chain(&["default"]) {
            let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
            all.push(Made::new(&path, named(name, "{}")));
        }
        for name in NAMES {
            let path = format!("/api/v1/namespaces/{namespace}/pods");
            all.push(Made::new(&path, pod(name, random)));
            let path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims");
            all.push(Made::new(&path, claim(name, random, round)));
        }
    }
    for name in NAMES {
        let name = format!("r{round}-{name}");
        all.push(Made::new("/api/v1/persistentvolumes", volume(&name, random, round)));
        let path = "/apis/storage.k8s.io/v1/volumeattachments";
        let node = random.one_of(&NODES);
        let spec = format!(
            r#"{{"attacher":"a.example","nodeName":"{node}","source":{{"persistentVolumeName":"v"}}}}"#
        );
        all.push(Made::new(path, named(&name, &spec)));
        let spec = match random.below(4) {
            0 => r#"{"driver":"d.example","allNodes":true,"pool":{"name":"p","generation":1,
                "resourceSliceCount":1},"devices":[{"name":"d"}]}"#
                .to_owned(),
            _ => format!(
                r#"{{"driver":"d.example","nodeName":"{}","pool":{{"name":"p","generation":1,
                "resourceSliceCount":1}},"devices":[{{"name":"d"}}]}}"#,
                random.one_of(&NODES)
            ),
        };
        all.push(Made::new("/apis/resource.k8s.io/v1/resourceslices", named(&name, &spec)));
    }
    all
}

fn named(name: &str, spec: &str) -> Value {
    tree(&format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{spec}}}"#))
}

fn pod(name: &str, random: &mut Random) -> Value {
    let mut pod = named(name, r#"{"automountServiceAccountToken":false}"#);
    let mirror = random.chance(15);
    if random.chance(85) {
        pod["spec"]["nodeName"] = random.one_of(&NODES).into();
    }
    let mut container = container("c", random, mirror);
    if mirror {
        pod["metadata"]["annotations"] = tree(r#"{"kubernetes.io/config.mirror":"a"}"#);
        pod["spec"]["nodeName"] = random.one_of(&NODES).into();
    } else {
        pod["spec"]["serviceAccountName"] = random.one_of(&NAMES).into();
        pod["spec"]["initContainers"] =
            [self::container("i", random, mirror)].into_iter().collect();
        if random.chance(30) {
            let secret = tree(&format!(r#"[{{"name":"{}"}}]"#, random.one_of(&NAMES)));
            pod["spec"]["imagePullSecrets"] = secret;
        }
        if random.chance(40) {
            let claim = random.one_of(&NAMES);
            let claim = format!(r#"[{{"name":"d","resourceClaimName":"{claim}"}}]"#);
            pod["spec"]["resourceClaims"] = tree(&claim);
            container["resources"] = tree(r#"{"claims":[{"name":"d"}]}"#);
        }
    }
    pod["spec"]["containers"] = [container].into_iter().collect();
    let volumes = 0..random.below(4);
    pod["spec"]["volumes"] = volumes.map(|at| pod_volume(at, random, mirror)).collect();
    pod
}

fn container(name: &str, random: &mut Random, mirror: bool) -> Value {
    let mut container = tree(&format!(r#"{{"name":"{name}","image":"i"}}"#));
    let used = random.one_of(&NAMES);
    let (from, key) = match (mirror, random.below(4)) {
        (_, 0) => ("configMapRef", "configMapKeyRef"),
        (false, 1) => ("secretRef", "secretKeyRef"),
        _ => return container,
    };
    if random.chance(50) {
        container["envFrom"] = tree(&format!(r#"[{{"{from}":{{"name":"{used}"}}}}]"#));
    } else {
        container["env"] = tree(&format!(
            r#"[{{"name":"E","valueFrom":{{"{key}":{{"name":"{used}","key":"k"}}}}}}]"#
        ));
    }
    container
}

fn pod_volume(at: usize, random: &mut Random, mirror: bool) -> Value {
    let used = random.one_of(&NAMES);
    let harmless = [
        format!(r#""configMap":{{"name":"{used}"}}"#),
        format!(r#""persistentVolumeClaim":{{"claimName":"{used}"}}"#),
        format!(r#""projected":{{"sources":[{{"configMap":{{"name":"{used}"}}}}]}}"#),
    ];
    let secret = format!(r#""secretRef":{{"name":"{used}"}}"#);
    let others = [
        format!(r#""secret":{{"secretName":"{used}"}}"#),
        format!(r#""projected":{{"sources":[{{"secret":{{"name":"{used}"}}}}]}}"#),
        format!(r#""csi":{{"driver":"d.example","nodePublishSecretRef":{{"name":"{used}"}}}}"#),
        format!(r#""azureFile":{{"secretName":"{used}","shareName":"s"}}"#),
        format!(r#""cephfs":{{"monitors":["m"],{secret}}}"#),
        format!(r#""cinder":{{"volumeID":"v",{secret}}}"#),
        format!(r#""flexVolume":{{"driver":"a/b",{secret}}}"#),
        format!(r#""rbd":{{"monitors":["m"],"image":"i",{secret}}}"#),
        format!(r#""scaleIO":{{"gateway":"g","system":"s","volumeName":"v",{secret}}}"#),
        format!(r#""iscsi":{{"targetPortal":"p","iqn":"iqn.2020-01.a:b","lun":0,{secret}}}"#),
        format!(r#""storageos":{{"volumeName":"v",{secret}}}"#),
        r#""ephemeral":{"volumeClaimTemplate":{"spec":{"accessModes":["ReadWriteOnce"],
            "resources":{"requests":{"storage":"1Gi"}}}}}"#
            .to_owned(),
    ];
    let source = match mirror || random.chance(30) {
        true => random.one_of(&harmless),
        false => random.one_of(&others),
    };
    tree(&format!(r#"{{"name":"v{at}",{source}}}"#))
}

fn claim(name: &str, random: &mut Random, round: usize) -> Value {
    let volume = random.one_of(&NAMES);
    named(
        name,
        &format!(
            r#"{{"accessModes":["ReadWriteOnce"],"resources":{{"requests":{{"storage":"1Gi"}}}},
            "storageClassName":"","volumeName":"r{round}-{volume}"}}"#
        ),
    )
}

fn volume(name: &str, random: &mut Random, round: usize) -> Value {
    let (used, place) = (random.one_of(&NAMES), random.one_of(&namespaces(round)));
    let both = format!(r#"{{"name":"{used}","namespace":"{place}"}}"#);
    let one = format!(r#"{{"name":"{used}"}}"#);
    let secret = if random.chance(50) { &both } else { &one };
    let csi = |field: &str| {
        format!(r#""csi":{{"driver":"d.example","volumeHandle":"v","{field}":{both}}}"#)
    };
    let source = random.one_of(&[
        csi("controllerPublishSecretRef"),
        csi("controllerExpandSecretRef"),
        csi("nodeStageSecretRef"),
        csi("nodePublishSecretRef"),
        csi("nodeExpandSecretRef"),
        format!(r#""azureFile":{{"secretName":"{used}","shareName":"s"}}"#),
        format!(
            r#""azureFile":{{"secretName":"{used}","secretNamespace":"{place}","shareName":"s"}}"#
        ),
        format!(r#""cephfs":{{"monitors":["m"],"secretRef":{secret}}}"#),
        format!(r#""flexVolume":{{"driver":"a/b","secretRef":{secret}}}"#),
        format!(r#""rbd":{{"monitors":["m"],"image":"i","secretRef":{secret}}}"#),
        format!(
            r#""iscsi":{{"targetPortal":"p","iqn":"iqn.2020-01.a:b","lun":0,"secretRef":{secret}}}"#
        ),
        format!(r#""cinder":{{"volumeID":"v","secretRef":{both}}}"#),
        r#""hostPath":{"path":"/a"}"#.to_owned(),
    ]);
    let mut volume = named(
        name,
        &format!(r#"{{"accessModes":["ReadWriteOnce"],"capacity":{{"storage":"1Gi"}},{source}}}"#),
    );
    if random.chance(80) {
        volume["spec"]["claimRef"]["namespace"] = random.one_of(&namespaces(round)).into();
        let generated = random.chance(30);
        let claim = match (generated, random.one_of(&NAMES)) {
            (true, name) => format!("{name}-v{}", random.below(3)),
            (false, name) => name.to_owned(),
        };
        volume["spec"]["claimRef"]["name"] = claim.into();
    }
    volume
}
