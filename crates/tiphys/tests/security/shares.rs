//! Limits of one tenant's use of the node: disk space, connections to the kubelet, and lengths of names.

use crate::{attack::Attack, image};

/// All that a container can write to counts towards its disk usage, and a pod can be deleted whatever its name is.
#[test]
fn all_that_a_pod_writes_is_its_own() {
    let attack = Attack::new("amounts");
    let long = "a".repeat(253);
    attack.pod(&long, "sleep 3600", "", "");

    let volume = "attack.test/volume:1";
    image::import_as(&attack.world, volume, r#"{"Volumes":{"/data":{}}}"#);
    let path = attack.world.file(
        "volume.yaml",
        &format!(
            "apiVersion: v1
kind: Pod
metadata: {{name: volume}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: c
    image: {volume}
    imagePullPolicy: Never
    command: [/bin/sh, -c, 'dd if=/dev/zero of=/data/x bs=1M count=32; sleep 3600']
    securityContext: {{readOnlyRootFilesystem: true}}
    resources: {{limits: {{ephemeral-storage: 8Mi}}}}"
        ),
    );
    attack.world.kubectl(&["create", "-f", &path]);

    let mounts = "    volumeMounts: [{name: files, mountPath: /files}]";
    let many = "i=0; while [ $i -lt 2000 ]; do : > /files/$i; i=$((i+1)); done; sleep 3600";
    attack.pod("inodes", many, mounts, "  volumes: [{name: files, emptyDir: {}}]");

    let reason = ["get", "pod", "volume", "-o", "jsonpath={.status.reason}"];
    attack.world.until("it is evicted for what it wrote to the image's volume", || {
        attack.world.try_kubectl(&reason) == "Evicted"
    });
    attack.world.until("the files of a volume are counted", || {
        let summary = ["get", "--raw", "/api/v1/nodes/n1/proxy/stats/summary"];
        let summary = attack.world.try_kubectl(&summary);
        let summary: serde_json::Value = serde_json::from_str(&summary).unwrap_or_default();
        let pods = summary["pods"].as_array().cloned().unwrap_or_default();
        let volumes = pods.iter().flat_map(|pod| pod["volume"].as_array().into_iter().flatten());
        volumes.filter_map(|volume| volume["inodesUsed"].as_u64()).any(|used| used >= 2000)
    });
    attack.until("a pod with the longest name runs", &long, ".status.phase", "Running");
    attack.kubectl(&["delete", "pod", &long, "--wait=false"]);
    attack.world.until("it can be deleted", || attack.get(&long, ".metadata.name").is_empty());
    attack.assert_unharmed();
    attack.end();
}

/// A pod opens as many idle connections to the kubelet as it can.
#[test]
fn nobody_is_kept_out_by_silent_connections() {
    let attack = Attack::new("silent");
    let hold = "mkfifo /tmp/silence; sleep 3600 > /tmp/silence &
for i in $(seq 700); do
  (while :; do nc 192.0.2.2 10250 < /tmp/silence > /dev/null 2>&1; sleep 1; done) &
done
wait";
    attack.pod("holder", hold, "", "");
    attack.world.until("it holds many", || {
        let sockets = attack.world.inside("cat", &["/proc/net/tcp", "/proc/net/tcp6"]).output();
        let sockets = String::from_utf8(sockets.expect("cat runs").stdout).expect("text");
        // state ESTABLISHED, at the kubelet's port
        let held = |line: &&str| line.contains(":280A ") && line.contains(" 01 ");
        sockets.lines().filter(held).count() >= 300
    });
    for _ in 0..5 {
        let said = attack.exec("holder", "echo served");
        assert_eq!(said, "served\n", "streams pass by connections that say nothing");
    }
    attack.assert_unharmed();
    attack.end();
}
