//! The node's processes are killed again and again during pod churn. Long-running pods are not affected, and deleted
//! pods leave no mount, address, interface, cgroup or process behind.
//!
//! `TIPHYS_KILLS=100` sets how often each is killed; the default is a few times.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle, sleep},
    time::{Duration, Instant},
};

use crate::world::{World, output, run};

/// Number of long-running pods.
const STABLE: usize = 5;
/// Number of pods that are deleted while they start, and how many rounds of them.
const FORCED: usize = 8;
const ROUNDS_OF_FORCED: usize = 10;
/// Number of concurrent short-lived pods.
const PASSING: usize = 4;

fn kills() -> usize {
    let text = std::env::var_os("TIPHYS_KILLS").and_then(|text| text.into_string().ok());
    text.and_then(|text| text.parse().ok()).unwrap_or(3)
}

#[test]
fn pods_do_not_notice_that_the_node_is_killed() {
    let world = Arc::new(World::new("restarts"));
    world.tiphys(&["up", "--node-name", "n1", "--disable", "dns"]);
    let stable = Stable::start(&world, "n1");
    let before = Inventory::take(&world);
    let churn = Churn::start(&world, "n1");
    let mut slowest = Duration::ZERO;
    for round in 0..kills() {
        churn.pause_in_the_middle(round);
        let began = Instant::now();
        world.kill("node");
        comes_back(&world, "n1");
        slowest = slowest.max(began.elapsed());
    }
    let passed = churn.stop();
    println!("{} kills, {passed} pods came and went, back within {slowest:?}", kills());
    stable.assert_unchanged(&world);
    before.assert_returns(&world);
    world.tiphys(&["down", "--now"]);
    world.assert_nothing_left();
}

#[test]
fn pods_do_not_notice_that_kubelet_or_runtime_is_killed() {
    let world = Arc::new(World::new("parts"));
    world.tiphys(&["up", "--node-name", "n1", "--disable", "kubelet,dns,scheduler"]);
    let mut kubelet = Killable::kubelet(&world);
    comes_back(&world, "n2");
    let stable = Stable::start(&world, "n2");
    let before = Inventory::take(&world);
    let churn = Churn::start(&world, "n2");
    for round in 0..2 * kills() {
        churn.pause_in_the_middle(round);
        if round % 2 == 0 {
            drop(kubelet);
            kubelet = Killable::kubelet(&world);
        } else {
            world.kill("node"); // without a kubelet, this process is the container runtime
        }
        comes_back(&world, "n2");
    }
    let passed = churn.stop();
    println!("{} kills of kubelet and runtime each, {passed} pods came and went", kills());
    stable.assert_unchanged(&world);
    before.assert_returns(&world);
    world.kubectl(&["delete", "pods", "--all", "--timeout=60s"]);
    drop(kubelet);
    world.tiphys(&["down", "--now"]);
    world.assert_nothing_left();
}

/// Pods are deleted without a grace period at every moment of their start.
#[test]
fn pods_deleted_while_they_start_leave_nothing() {
    let world = World::new("forced");
    world.tiphys(&["up", "--node-name", "n1", "--disable", "dns"]);
    comes_back(&world, "n1");
    let _stable = Stable::start(&world, "n1");
    let before = Inventory::take(&world);
    for round in 0..ROUNDS_OF_FORCED {
        let name = |n: usize| format!("forced-{round}-{n}");
        let pods: String = (0..FORCED).map(|n| pod(&name(n), "n1", "")).collect();
        world.kubectl(&["create", "-f", &world.file("forced.yaml", &pods)]);
        sleep(Duration::from_millis(u64::try_from(round * 40).unwrap_or_default()));
        let names: Vec<String> = (0..FORCED).map(name).collect();
        let mut delete = vec!["delete", "pod", "--force", "--grace-period=0", "--wait=false"];
        delete.extend(names.iter().map(String::as_str));
        world.kubectl(&delete);
    }
    before.assert_returns(&world);
    world.tiphys(&["down", "--wipe"]);
    world.assert_nothing_left();
}

/// Waits until the container runtime responds and the node is ready.
fn comes_back(world: &World, node: &str) {
    world.until("the runtime is back", || {
        world.runs("node") && world.try_tiphys(&["image", "list"]).contains("hello")
    });
    let ready = "jsonpath={.status.conditions[?(@.type=='Ready')].status}";
    world.until("the node is ready", || {
        world.try_kubectl(&["get", "node", node, "-o", ready]) == "True"
    });
}

fn pod(name: &str, node: &str, more: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{nodeName: {node}, \
         terminationGracePeriodSeconds: 1, volumes: [{{name: v, emptyDir: {{}}}}, {{name: m, \
         emptyDir: {{medium: Memory}}}}], containers: [{{name: c, image: 'tiphys.local/hello:1', \
         volumeMounts: [{{name: v, mountPath: /v}}, {{name: m, mountPath: /m}}], {more}}}]}}\n"
    )
}

/// The long-running pods, with their state at the beginning.
struct Stable(String);

impl Stable {
    fn start(world: &World, node: &str) -> Self {
        let probes = "readinessProbe: {httpGet: {port: 80}, periodSeconds: 1}, \
                      livenessProbe: {httpGet: {port: 80}, periodSeconds: 1, failureThreshold: 30}";
        let pods: String = (0..STABLE).map(|n| pod(&format!("stable-{n}"), node, probes)).collect();
        world.kubectl(&["create", "-f", &world.file("stable.yaml", &pods)]);
        let ready = "jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}";
        world.until("the pods are ready", || {
            let ready = world.try_kubectl(&["get", "pods", "-o", ready]);
            ready.split(' ').filter(|one| *one == "True").count() == STABLE
        });
        Self(Self::look(world))
    }

    /// IPs, container ids, start times and restart counts of the pods, and since when they are ready.
    fn look(world: &World) -> String {
        let all = "jsonpath={range .items[*]}{.metadata.name} {.status.podIP} \
                   {.status.containerStatuses[0].containerID} \
                   {.status.containerStatuses[0].restartCount} \
                   {.status.containerStatuses[0].state.running.startedAt}{\"\\n\"}{end}";
        let said = world.kubectl(&["get", "pods", "-o", all]);
        said.lines().filter(|line| line.starts_with("stable-")).collect::<Vec<_>>().join("\n")
    }

    fn assert_unchanged(&self, world: &World) {
        assert_eq!(Self::look(world), self.0, "containers were restarted or replaced");
    }
}

/// A thread that creates and deletes pods.
struct Churn {
    world: Arc<World>,
    enough: Arc<AtomicBool>,
    steps: Arc<AtomicUsize>,
    thread: Option<JoinHandle<usize>>,
}

impl Churn {
    fn start(world: &Arc<World>, node: &'static str) -> Self {
        let enough = Arc::new(AtomicBool::new(false));
        let steps = Arc::new(AtomicUsize::new(0));
        let (inside, stop, count) = (world.clone(), enough.clone(), steps.clone());
        let thread = thread::spawn(move || {
            let mut made = 0;
            while !stop.load(Ordering::Relaxed) {
                let file = inside.file("passing.yaml", &pod(&format!("passing-{made}"), node, ""));
                if output(&mut inside.kubectl_command(&["create", "-f", &file])).status.success() {
                    made += 1;
                }
                count.fetch_add(1, Ordering::Relaxed);
                if made > PASSING {
                    let old = format!("passing-{}", made - PASSING - 1);
                    let delete = ["delete", "pod", &old, "--wait=false"];
                    let _ = output(&mut inside.kubectl_command(&delete)); // `stop` deletes the rest
                }
                sleep(Duration::from_millis(100));
            }
            made
        });
        Self { world: world.clone(), enough, steps, thread: Some(thread) }
    }

    /// Waits until another pod was created or deleted, and then for a time that differs in each round.
    fn pause_in_the_middle(&self, round: usize) {
        let before = self.steps.load(Ordering::Relaxed);
        self.world.until("pods come and go", || self.steps.load(Ordering::Relaxed) > before);
        sleep(Duration::from_millis(u64::try_from(round * 137 % 900).unwrap_or_default()));
    }

    /// Stops the churn and deletes all its pods; returns how many there were.
    fn stop(mut self) -> usize {
        self.enough.store(true, Ordering::Relaxed);
        let made = self.thread.take().expect("stopped once").join().expect("it does not panic");
        let names = || {
            let all = self.world.try_kubectl(&["get", "pods", "-o", "name"]);
            let passing = all.lines().filter(|name| name.contains("/passing-"));
            passing.map(str::to_owned).collect::<Vec<_>>()
        };
        for name in names() {
            let _ = output(&mut self.world.kubectl_command(&["delete", &name, "--wait=false"]));
        }
        self.world.until("the pods have gone", || names().is_empty());
        made
    }
}

impl Drop for Churn {
    fn drop(&mut self) {
        self.enough.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the host has of a cluster's pods.
#[derive(Debug, PartialEq, Eq)]
struct Inventory {
    mounts: BTreeSet<String>,
    groups: BTreeSet<String>,
    addresses: BTreeSet<String>,
    links: BTreeSet<String>,
    folders: BTreeSet<String>,
    /// Shims, the processes that hold namespaces, and all processes in the pods' cgroups.
    processes: BTreeSet<String>,
}

impl Inventory {
    fn take(world: &World) -> Self {
        let root = world.path().to_str().expect("text").to_owned();
        let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
        let mounts = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        let links = run(&mut world.inside("ip", &["-o", "link"]));
        let links = links.lines().filter_map(|line| line.split(": ").nth(1));
        let names = |folder: &str| -> BTreeSet<String> {
            let entries = fs::read_dir(world.path().join(folder)).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
        };
        let mut folders = names("node/runtime/sandboxes");
        folders.extend(names("node/runtime/containers"));
        folders.extend(names("node/kubelet/pods"));
        folders.extend(names("other-root/pods"));
        folders.extend(names("node/images/holds"));
        let shims = output(Command::new("pgrep").args(["-f", &format!("shim.*{root}")]));
        let groups = sys::cgroup::Hierarchies::detect().expect("cgroups");
        let pods = ["kubepods", "node/kubepods"].map(|name| world.group(name));
        let inside = pods.iter().flat_map(|path| groups.group(path).expect("a path").processes());
        let mut processes: BTreeSet<String> = inside.map(|pid| pid.to_string()).collect();
        processes.extend(String::from_utf8_lossy(&shims.stdout).lines().map(str::to_owned));
        Self {
            mounts: mounts.filter(|path| path.starts_with(&root)).map(str::to_owned).collect(),
            groups: below(&world.group("")),
            addresses: names("node/network/addresses"),
            links: links.map(str::to_owned).collect(),
            folders,
            processes,
        }
    }

    /// Waits until the inventory is the same again: removal may take a moment.
    fn assert_returns(&self, world: &World) {
        let began = Instant::now();
        loop {
            let now = Self::take(world);
            if now == *self {
                return;
            }
            assert!(began.elapsed() < Duration::from_mins(1), "before: {self:#?}\nnow: {now:#?}");
            sleep(Duration::from_millis(500));
        }
    }
}

/// The cgroups below one, in every hierarchy.
fn below(group: &str) -> BTreeSet<String> {
    let find = |root: &Path| {
        let found = output(Command::new("find").arg(root).args(["-mindepth", "1", "-type", "d"]));
        String::from_utf8_lossy(&found.stdout).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let roots = fs::read_dir("/sys/fs/cgroup").expect("cgroups").flatten();
    let roots = roots.map(|entry| entry.path()).chain([Path::new("/sys/fs/cgroup").to_owned()]);
    roots.flat_map(|root| find(&root.join(group.trim_matches('/')))).collect()
}

/// A process that is killed with SIGKILL.
struct Killable(Child);

impl Killable {
    fn kubelet(world: &World) -> Self {
        let folder = |name: &str| world.path().join(name).to_str().expect("text").to_owned();
        let user = ["kubeconfig", "--user", "system:node:n2", "--group", "system:nodes"];
        let config = world.file("n2", &world.tiphys(&user));
        let socket = format!("unix://{}", folder("run/cri.sock"));
        let mut command = world.command(&["kubelet", "--hostname-override", "n2"]);
        command.args(["--kubeconfig", &config, "--container-runtime-endpoint", &socket]);
        command.args(["--node-ip", "192.0.2.2", "--port", "10252"]);
        command.args([
            "--root-dir",
            &folder("other-root"),
            "--pod-logs-dir",
            &folder("other-logs"),
        ]);
        command.args(["--client-ca-file", &folder("pki/ca.crt")]);
        command.args(["--cgroup-root", &world.group("node")]);
        command.args(["--eviction-hard", "memory.available<1Mi"]);
        let log = fs::OpenOptions::new().create(true).append(true).open(folder("log/kubelet.log"));
        command.stdin(Stdio::null()).stderr(log.expect("a log"));
        Self(command.spawn().expect("the executable starts"))
    }
}

impl Drop for Killable {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
