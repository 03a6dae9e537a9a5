//! Clusters that are started and stopped: nothing of them remains on the host, and pods terminate as gracefully as
//! they would when deleted.

use std::{
    fs,
    process::Command,
    time::{Duration, Instant},
};

use crate::world::{World, output, run, said};

/// Duration in seconds of the containers' preStop hook.
const PRE_STOP: u64 = 2;
const APPLICATION: &str = r"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: hello
        image: tiphys.local/hello:1
        lifecycle: {preStop: {sleep: {seconds: 2}}}
";

/// Number of clusters to start and stop; `TIPHYS_CYCLES=100` for the long run.
fn cycles() -> u32 {
    let given = std::env::var_os("TIPHYS_CYCLES").and_then(|text| text.to_str()?.parse().ok());
    given.unwrap_or(3)
}

#[test]
fn clusters_come_and_go() {
    let world = World::new("cycles");
    for cycle in 0..cycles() {
        world.tiphys(&["up", "--node-name", "n1"]);
        world.kubectl(&["run", "web", "--image", "tiphys.local/hello:1"]);
        match cycle % 3 {
            0 => world.kill("node"),
            1 => world.kill("supervisor"),
            _ => world.until("the pod runs", || phase(&world) == "Running"),
        }
        let flags: &[&str] =
            if cycle % 2 == 0 { &["down", "--wipe", "--now"] } else { &["down", "--wipe"] };
        world.tiphys(flags);
        assert!(!world.path().exists(), "cycle {cycle}: {:?}", fs::read_dir(world.path()));
        world.assert_nothing_left();
    }
    let out = output(&mut world.command(&["down", "--data-dir", &world.path().to_string_lossy()]));
    assert_eq!(out.status.code(), Some(1));
    assert!(said(&out).contains("down: there is no cluster in "), "{}", said(&out));
}

fn phase(world: &World) -> String {
    world.try_kubectl(&["get", "pod", "web", "-o", "jsonpath={.status.phase}"])
}

#[test]
fn pods_end_gracefully_and_go_on_where_they_were() {
    let world = World::new("graceful");
    world.tiphys(&["up", "--node-name", "n1"]);
    world.kubectl(&["apply", "-f", &world.file("web.yaml", APPLICATION)]);
    let ready = || {
        let count = ["get", "deploy", "web", "-o", "jsonpath={.status.readyReplicas}"];
        world.try_kubectl(&count) == "2"
    };
    world.until("both pods are ready", ready);
    let uids = || {
        let uids = "jsonpath={.items[*].metadata.uid}";
        world.kubectl(&["get", "pods", "-l", "app=web", "--sort-by", "metadata.name", "-o", uids])
    };
    let before = uids();

    let began = Instant::now();
    let said = world.tiphys(&["down"]);
    assert!(began.elapsed() >= Duration::from_secs(PRE_STOP), "preStop hooks were not waited for");
    assert!(said.contains("ending pods: "), "{said}");
    world.assert_nothing_left();

    world.tiphys(&["up"]);
    let ended = |field: &str| {
        let path = format!("jsonpath={{.items[*].status.containerStatuses[0].{field}}}");
        world.try_kubectl(&["get", "pods", "-l", "app=web", "-o", &path])
    };
    world.until("both pods run again", || ended("restartCount") == "1 1" && ready());
    assert_eq!(uids(), before, "they are the same pods");
    assert_eq!(ended("lastState.terminated.exitCode"), "0 0", "SIGTERM, not SIGKILL");

    // `--now` does not wait for the preStop hooks
    world.tiphys(&["down", "--now"]);
    world.assert_nothing_left();
    world.tiphys(&["up"]);
    world.until("both pods run once more", || ended("restartCount") == "2 2" && ready());
    world.tiphys(&["down", "--now"]);
}

#[test]
fn a_full_disk_does_not_keep_a_cluster_from_going() {
    let world = World::new("full-down");
    run(Command::new("mount").args(["-t", "tmpfs", "-o", "size=2g", "tmpfs"]).arg(world.path()));
    let mounted = Mounted(&world);
    world.tiphys(&["up", "--node-name", "n1"]);
    world.kubectl(&["run", "web", "--image", "tiphys.local/hello:1"]);
    world.until("the pod runs", || phase(&world) == "Running");
    let fill = world.path().join("fill");
    let filled = Command::new("dd")
        .args(["if=/dev/zero", "bs=1M"])
        .arg(format!("of={}", fill.display()))
        .output()
        .expect("dd");
    assert!(!filled.status.success(), "2 GiB were not enough");
    world.tiphys(&["down", "--wipe"]);
    let left: Vec<_> = fs::read_dir(world.path()).expect("a folder").collect();
    assert!(left.is_empty(), "{left:?}");
    drop(mounted);
    world.assert_nothing_left();
}

/// A file system mounted on the data directory, unmounted on drop.
struct Mounted<'a>(&'a World);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).output();
    }
}

#[test]
fn a_part_that_cannot_start_is_reported_at_once() {
    let world = World::new("broken");
    fs::create_dir(world.path().join("pki")).expect("a folder");
    fs::write(world.path().join("pki/ca.crt"), "nonsense").expect("a file");
    fs::write(world.path().join("pki/ca.key"), "nonsense").expect("a file");
    let began = Instant::now();
    let mut command = world.command(&["up", "--node-name", "n1", "--data-dir"]);
    let out = output(command.arg(world.path()));
    let took = began.elapsed();
    let complaint = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(1));
    assert!(complaint.starts_with("up: control cannot start: "), "{complaint}");
    assert!(complaint.contains("ca.") && complaint.trim().lines().count() == 1, "{complaint}");
    assert!(took < Duration::from_secs(55), "not at once: {took:?}");
    assert!(!world.runs("supervisor") && !world.runs("control"), "nothing is left running");
}
