//! Attacks of pods under the `restricted` Pod Security Standard on the node, through what they write to their
//! volumes, to their root file system and to the files that the kubelet reads.

use std::{path::PathBuf, time::Duration};

use crate::{attack::Attack, image, world::World};

/// Timeout for the removal of tens of thousands of directories, which takes minutes on slow disks.
const SLOW: Duration = Duration::from_mins(10);

/// The container replaces `..data`, which the kubelet once followed to remove, compare and write files; then the
/// volumes are updated.
#[test]
fn volumes_of_files_lead_the_kubelet_nowhere() {
    let attack = Attack::new("files");
    attack.create("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {a: '1'}");
    attack.create("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: '1'}");
    let mounts = "    volumeMounts:
    - {name: map, mountPath: /map}
    - {name: secret, mountPath: /secret}
    - {name: projected, mountPath: /projected}
    - {name: downward, mountPath: /downward}
    - {name: map, mountPath: /sub, subPath: a}";
    let volumes = "  volumes:
  - {name: map, configMap: {name: m}}
  - {name: secret, secret: {secretName: s}}
  - name: projected
    projected: {sources: [{configMap: {name: m}}]}
  - name: downward
    downwardAPI: {items: [{path: a, fieldRef: {fieldPath: \"metadata.annotations['a']\"}}]}";
    attack.pod("p", "sleep 3600", mounts, volumes);
    attack.until("the pod runs", "p", ".status.phase", "Running");

    let victim = attack.victim.display();
    // prepares the volumes so that the next update would be dangerous
    let script = format!(
        "for v in /map /projected; do rm -f $v/..data; ln -s {victim} $v/..data; done
for v in /secret /downward; do
  rm -f $v/..data; mkdir $v/..1_1 && mkfifo $v/..1_1/a && chmod 644 $v/..1_1/a
  ln -s ..1_1 $v/..data
done
for v in /map /secret /projected /downward; do
  echo x > $v/own && echo wrote $v; ln -s /etc $v/link && echo linked $v
done
echo x >> /sub && echo wrote /sub
true"
    );
    let done = attack.exec("p", &script);
    assert_eq!(done, "", "volumes of files are read-only");

    attack.kubectl(&["patch", "configmap", "m", "--type=merge", "-p", r#"{"data":{"a":"2"}}"#]);
    attack.kubectl(&["patch", "secret", "s", "--type=merge", "-p", r#"{"stringData":{"a":"2"}}"#]);
    // a change of the pod makes the kubelet sync it at once
    attack.kubectl(&["annotate", "pod", "p", "a=2"]);
    for volume in ["map", "secret", "projected", "downward"] {
        attack.world.until(&format!("{volume} changes"), || {
            attack.kubectl(&["annotate", "--overwrite", "pod", "p", &format!("again={volume}")]);
            attack.exec("p", &format!("cat /{volume}/a")) == "2"
        });
    }
    attack.assert_unharmed();
    attack.end();
}

/// The termination message is a sparse file of terabytes, or large enough to fill the disk.
#[test]
fn last_words_of_any_size_are_bounded() {
    let attack = Attack::new("words");
    attack.pod("sparse", "truncate -s 8T /dev/termination-log; exit 3", "", "");
    let ended = ".status.containerStatuses[0].state.terminated.exitCode";
    attack.until("its end is told", "sparse", ended, "3");
    let said = ".status.containerStatuses[0].state.terminated.message";
    assert!(attack.get("sparse", said).len() <= 4096);

    let limit = "    resources: {limits: {ephemeral-storage: 4Mi}}";
    let fill = "dd if=/dev/urandom of=/dev/termination-log bs=1M count=32; sleep 3600";
    attack.pod("filling", fill, limit, "");
    attack.until("it is evicted for what it wrote", "filling", ".status.reason", "Evicted");
    attack.assert_unharmed();
    attack.end();
}

/// Directories nested so deep that a recursive removal would overflow its stack.
#[test]
fn deeply_nested_folders_are_removed() {
    let attack = Attack::new("deep");
    let nest = "p=d; i=1; while [ $i -lt 1900 ]; do p=$p/d; i=$((i+1)); done
for top in /work /tmp; do
  cd -P $top; i=0
  while [ $i -lt 10 ]; do mkdir -p $p && cd -P $p 2>/dev/null; i=$((i+1)); done
done
echo nested > /dev/termination-log";
    let mounts = "    volumeMounts: [{name: work, mountPath: /work}]";
    attack.pod("deep", nest, mounts, "  volumes: [{name: work, emptyDir: {}}]");
    let said = ".status.containerStatuses[0].state.terminated.message";
    attack.world.within(SLOW, "it has nested", || attack.get("deep", said) == "nested\n");
    let uid = attack.get("deep", ".metadata.uid");
    let folder = find_pod_folder(&attack.world, &uid);
    attack.kubectl(&["delete", "pod", "deep", "--wait=false"]);
    attack
        .world
        .within(SLOW, "the pod has gone", || attack.get("deep", ".metadata.name").is_empty());
    attack.world.within(SLOW, "its folder has gone", || !folder.exists());
    attack.assert_unharmed();
    attack.end();
}

fn find_pod_folder(world: &World, uid: &str) -> PathBuf {
    let out = world.inside("find", &[world.path().to_str().expect("text"), "-name", uid]).output();
    let out = String::from_utf8(out.expect("find runs").stdout).expect("text");
    let found = out.lines().find(|line| line.contains("/pods/"));
    PathBuf::from(found.unwrap_or_else(|| panic!("no folder of the pod: {out}")))
}

/// Symlinks out of a volume as its subPath, and names with special meanings in shells.
#[test]
fn sub_paths_lead_nowhere_else() {
    let attack = Attack::new("paths");
    let sub = |name: &str, path: &str| {
        let (image, victim) = (image::SHELL, attack.victim.display());
        let path = serde_json::to_string(path).expect("text");
        let mounts =
            format!("    volumeMounts: [{{name: work, mountPath: /sub, subPath: {path}}}]");
        let spec = format!(
            "  initContainers:
  - name: plant
    image: {image}
    imagePullPolicy: Never
    command: [/bin/sh, -c, 'cd /work; ln -s {victim} link; ln -s ../../.. up; ln -s . here']
    securityContext: {{allowPrivilegeEscalation: false, capabilities: {{drop: [ALL]}}}}
    volumeMounts: [{{name: work, mountPath: /work}}]
  volumes: [{{name: work, emptyDir: {{}}}}]"
        );
        attack.pod(name, "touch /sub/made && ls /sub > /dev/termination-log", &mounts, &spec);
    };
    for (at, path) in ["link", "link/new", "up", "up/new"].iter().enumerate() {
        let name = format!("link-{at}");
        sub(&name, path);
        let why = ".status.containerStatuses[0].state.waiting.message";
        let refused = r#"failed to prepare subPath for volumeMount "work" of container "c""#;
        attack.until("it is refused", &name, why, refused);
    }
    let said = ".status.containerStatuses[0].state.terminated.message";
    for (name, path) in [("inside", "here/new"), ("strange", "a;touch b$(touch c)`touch d`&&|\n")] {
        sub(name, path);
        attack.until("it is only a name", name, said, "made\n");
    }
    attack.assert_unharmed();
    attack.end();
}

/// Features that are not offered: gitRepo volumes, which execute code, the kubelet's read-only port, which needs no
/// authentication, and its checkpoint and pprof endpoints.
#[test]
fn what_is_not_offered_is_not_there() {
    let attack = Attack::new("offers");
    let image = image::SHELL;
    let path = attack.world.file(
        "git.yaml",
        &format!(
            "apiVersion: v1
kind: Pod
metadata: {{name: git}}
spec:
  containers: [{{name: c, image: {image}, imagePullPolicy: Never, command: [sleep, '60']}}]
  volumes: [{{name: work, gitRepo: {{repository: {victim}}}}}]",
            victim = attack.victim.display()
        ),
    );
    attack.world.kubectl(&["create", "-f", &path]);
    attack.world.until("a repository is refused", || {
        attack.world.try_kubectl(&["get", "events"]).contains("volume plugin has been disabled")
    });
    let sockets = ["/proc/net/tcp", "/proc/net/tcp6"];
    let sockets = attack.world.inside("cat", &sockets).output().expect("cat runs").stdout;
    let sockets = String::from_utf8(sockets).expect("text");
    let listens = |port: u16| sockets.contains(&format!(":{port:04X} "));
    assert!(!listens(10255), "the port without authentication\n{sockets}");
    for path in ["checkpoint/attack/p/c", "debug/pprof/"] {
        let path = format!("/api/v1/nodes/n1/proxy/{path}");
        let refused = attack.world.refused(&["get", "--raw", &path]);
        assert!(refused.contains("not find"), "{path}: {refused}");
    }
    attack.assert_unharmed();
    attack.end();
}
