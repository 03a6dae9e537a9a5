//! Files in containers: tokens that only their user can read, host names, and volumes that are symlinks.

use std::{fs, os::unix::fs::symlink};

use super::{Cluster, container, pod};

const TOKEN: &str =
    "volumes: [{name: t, projected: {sources: [{serviceAccountToken: {path: token}}]}}]";

pub(super) fn objects(cluster: &Cluster) -> String {
    let token = |name: &str, context: &str| {
        let mount = "volumeMounts: [{name: t, mountPath: /t}]";
        let stat = container("c", "stat -L -c '%a %u %g' /t/token", mount);
        let context = format!("securityContext: {{{context}}}");
        pod(name, &format!("restartPolicy: Never, {context}, {TOKEN}, containers: [{stat}]"))
    };
    let names = container("c", "hostname; hostname -f; cat /etc/resolv.conf", "");
    let dns = "dnsPolicy: None, dnsConfig: {nameservers: [192.0.2.53], searches: [a.test, b.test], \
               options: [{name: ndots, value: '2'}]}";
    let named = format!(
        "hostnameOverride: other, subdomain: s, {dns}, restartPolicy: Never, containers: [{names}]"
    );

    // a local volume that is a symlink to a directory, and a hostPath volume that is one
    let root = cluster.world.path();
    fs::create_dir(root.join("disk")).expect("a folder");
    symlink(root.join("disk"), root.join("link")).expect("a link");
    let link = root.join("link");
    let link = link.display();
    let volume = format!(
        "---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: local}}\nspec: {{capacity: {{storage: 1Mi}}, \
         accessModes: [ReadWriteOnce], storageClassName: manual, local: {{path: {link}}}, nodeAffinity: {{required: \
         {{nodeSelectorTerms: [{{matchExpressions: [{{key: kubernetes.io/hostname, operator: In, values: [n1]}}]}}]}}}}}}\n\
         ---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: local}}\nspec: {{accessModes: \
         [ReadWriteOnce], storageClassName: manual, volumeName: local, resources: {{requests: {{storage: 1Mi}}}}}}\n"
    );
    let mounts = "volumeMounts: [{name: l, mountPath: /l}, {name: h, mountPath: /h}, {name: l, mountPath: /sub, subPath: below}]";
    let write = container(
        "c",
        "echo one > /l/one; echo two > /h/two; echo three > /sub/three; ls /l; stat -c %g /l",
        mounts,
    );
    let linked = pod(
        "linked",
        &format!(
            "restartPolicy: Never, securityContext: {{fsGroup: 77}}, containers: [{write}], volumes: [{{name: l, \
         persistentVolumeClaim: {{claimName: local}}}}, {{name: h, hostPath: {{path: {link}, type: Directory}}}}]"
        ),
    );
    [
        token("token-user", "runAsUser: 1000"),
        token("token-group", "fsGroup: 10000"),
        token("token-both", "runAsUser: 1000, fsGroup: 10000"),
        token("token-plain", ""),
        pod("named", &named),
        volume,
        linked,
    ]
    .concat()
}

pub(super) fn check(cluster: &Cluster) {
    for (name, want) in [
        ("token-user", "600 1000 0\n"),
        ("token-group", "640 0 10000\n"),
        ("token-both", "640 1000 10000\n"),
        ("token-plain", "644 0 0\n"),
    ] {
        cluster.until(name, "{.status.phase}", "Succeeded");
        assert_eq!(cluster.logs(name, "c"), want, "{name}");
    }
    cluster.until("named", "{.status.phase}", "Succeeded");
    let resolver = "search a.test b.test\nnameserver 192.0.2.53\noptions ndots:2\n";
    assert_eq!(cluster.logs("named", "c"), format!("other\nother\n{resolver}"));
    cluster.until("linked", "{.status.phase}", "Succeeded");
    assert_eq!(cluster.logs("linked", "c"), "below\none\ntwo\n77\n");
    let disk = cluster.world.path().join("disk");
    for (file, want) in [("one", "one\n"), ("two", "two\n"), ("below/three", "three\n")] {
        assert_eq!(fs::read_to_string(disk.join(file)).expect("a file"), want);
    }
}
