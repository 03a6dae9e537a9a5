//! One tenant takes all it can get. A neighbour that stays within its requests hardly notices, the
//! node stays ready, and none of its own processes ends.
//!
//! A command of its own (`cargo test -p tiphys --test neighbours`): it measures latencies, so that nothing else may run
//! on the machine. `TIPHYS_LONG=1` attacks for minutes instead of seconds, with more pods.

#[path = "../security/image.rs"]
#[allow(dead_code, reason = "shared with the attacks, which use more of it")]
mod image;
#[path = "../cluster/world.rs"]
#[allow(dead_code, reason = "shared with the tests of clusters, which use more of it")]
mod world;

use std::{
    fmt::Write as _,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread::{self, sleep},
    time::{Duration, Instant},
};

use sys::{
    cgroup::{Hierarchies, Limits},
    netlink::{NetworkNamespace, run_in_netns},
};

use self::{
    image::SHELL,
    world::{Running, World, output},
};

/// Below this a tail is the scheduler's grain and the noise of the machine, not a neighbour's doing.
const GRAIN: Duration = Duration::from_millis(5);
const PACE: Duration = Duration::from_millis(4);

/// How hard and how long it is tried.
struct Size {
    /// Pods for each way to burn CPUs.
    burners: usize,
    connections: usize,
    sessions: usize,
    requests: usize,
}

fn size() -> Size {
    if std::env::var_os("TIPHYS_LONG").is_some() {
        Size { burners: 15, connections: 2000, sessions: 100, requests: 20_000 }
    } else {
        Size { burners: 4, connections: 300, sessions: 10, requests: 1500 }
    }
}

#[test]
fn a_neighbour_hardly_notices_a_tenant_at_its_worst() {
    let world = World::new("neighbours");
    world.tiphys(&["up", "--node-name", "n1"]);
    image::import(&world);
    for namespace in ["good", "bad"] {
        world.kubectl(&["create", "namespace", namespace]);
    }
    let size = size();
    let address = neighbour(&world);
    let components = ["supervisor", "control", "node"].map(|part| world.pid(part).expect("a pid"));
    node_is_protected(&world, &components);

    let alone = Latencies::measure(&world, address, size.requests);
    let attack = Attack::start(&world, &size);
    let beside = attack.during(|| Latencies::measure(&world, address, size.requests));
    println!("alone:  {alone}\nbeside: {beside}");
    drop(attack);

    assert_eq!(
        ["supervisor", "control", "node"].map(|part| world.pid(part).expect("a pid")),
        components,
        "a component was restarted"
    );
    let restarts = "jsonpath={.items[*].status.containerStatuses[*].restartCount}";
    assert_eq!(world.kubectl(&["get", "pods", "-n", "good", "-o", restarts]), "0");
    assert_eq!(beside.failed, 0, "requests failed");
    assert!(beside.p99() <= 2 * alone.p99().max(GRAIN), "alone: {alone}; beside: {beside}");
    world.kubectl(&["delete", "namespace", "bad", "--timeout=120s"]);
    world.tiphys(&["down"]);
    world.assert_nothing_left();
}

/// A web server within its requests; gives where it answers.
fn neighbour(world: &World) -> SocketAddr {
    let probes = "readinessProbe: {httpGet: {port: 80}, periodSeconds: 1}, \
                  livenessProbe: {httpGet: {port: 80}, periodSeconds: 1, failureThreshold: 5}";
    let pod = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: web, namespace: good}}\nspec: {{containers: \
         [{{name: c, image: 'tiphys.local/hello:1', resources: {{limits: {{cpu: 500m, \
         memory: 256Mi}}}}, {probes}}}]}}\n"
    );
    world.kubectl(&["create", "-f", &world.file("web.yaml", &pod)]);
    let get = |path: &str| {
        world.try_kubectl(&["get", "pod", "web", "-n", "good", "-o", &format!("jsonpath={path}")])
    };
    world.until("the neighbour is ready", || {
        get("{.status.conditions[?(@.type=='Ready')].status}") == "True"
    });
    format!("{}:80", get("{.status.podIP}")).parse().expect("an address")
}

/// What the node's own processes have, whatever pods do.
fn node_is_protected(world: &World, components: &[String]) {
    let hierarchies = Hierarchies::detect().expect("cgroups");
    let group = |path: &str| hierarchies.group(&world.group(path)).expect("a path");
    let own = group("kube-reserved").processes();
    for pid in components {
        assert!(own.contains(&pid.parse().expect("a number")), "{pid} is outside of {own:?}");
        let adjusted = std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj"));
        assert!(adjusted.expect("a score").trim().parse::<i32>().expect("a number") <= 0);
    }
    let memory = group("kubepods").usage().expect("usage").memory_limit.expect("a limit");
    let table = std::fs::read_to_string("/proc/meminfo").expect("memory");
    let total =
        table.split_whitespace().nth(1).expect("MemTotal").parse::<u64>().expect("a number");
    assert!(memory < total * 1024, "{memory} of {total} KiB");
    let capacity =
        "jsonpath={.items[0].status.capacity.memory} {.items[0].status.allocatable.memory}";
    let amounts = world.kubectl(&["get", "nodes", "-o", capacity]);
    let (capacity, allocatable) = amounts.split_once(' ').expect("two amounts");
    assert_ne!(capacity, allocatable);
}

/// All that a tenant can do with pods and a token of its own.
struct Attack<'a> {
    world: &'a World,
    _sessions: Vec<Running>,
}

impl<'a> Attack<'a> {
    fn start(world: &'a World, size: &Size) -> Self {
        let pods = world.file("attack.yaml", &pods(size));
        let admin = ["--clusterrole=admin", "--serviceaccount=bad:default", "-n", "bad"];
        world.kubectl(&[&["create", "rolebinding", "tenant"], &admin[..]].concat());
        world.kubectl(&["create", "-f", &pods]);
        let phases = ["get", "pods", "-n", "bad", "-o", "jsonpath={.items[*].status.phase}"];
        world.until("the attack has begun", || {
            let phases = world.try_kubectl(&phases);
            phases.split(' ').filter(|phase| *phase == "Running").count() >= 2 * size.burners + 5
        });
        let session = ["exec", "-n", "bad", "logs", "--", "/bin/sleep", "600"];
        let sessions = (0..size.sessions).map(|_| Running::start(world.kubectl_command(&session)));
        let sessions = sessions.collect();
        sleep(Duration::from_secs(3)); // all of it is under way
        Self { world, _sessions: sessions }
    }

    /// Looks at the node from the beginning to the end of `work`.
    fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let looking = scope.spawn(|| {
                let mut looks = 0;
                while !done.load(Ordering::Relaxed) {
                    self.look();
                    looks += 1;
                    sleep(Duration::from_secs(1));
                }
                println!("the node was ready each of {looks} times");
            });
            let result = work();
            done.store(true, Ordering::Relaxed);
            looking.join().expect("the node is always ready");
            result
        })
    }

    fn look(&self) {
        let ready = "jsonpath={.items[0].status.conditions[?(@.type=='Ready')].status}";
        let out = output(&mut self.world.kubectl_command(&["get", "nodes", "-o", ready]));
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        assert_eq!(said, "True", "the node is not ready: {}", String::from_utf8_lossy(&out.stderr));
    }
}

/// Whatever becomes of the test, the attack does not outlive it.
impl Drop for Attack<'_> {
    fn drop(&mut self) {
        let hierarchies = Hierarchies::detect().expect("cgroups");
        for class in ["kubepods/besteffort", "kubepods/burstable"] {
            if let Ok(group) = hierarchies.group(&self.world.group(class)) {
                let _ = group.kill_all(); // `down` removes the pods
            }
        }
    }
}

/// The pods of the tenant, each at its worst in one way.
fn pods(size: &Size) -> String {
    let mut all = String::new();
    let mut pod = |name: &str, resources: &str, script: &str| {
        let script = script.replace('\'', "''");
        write!(
            all,
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: bad}}\nspec: \
             {{terminationGracePeriodSeconds: 1, containers: [{{name: c, image: '{SHELL}', \
             imagePullPolicy: Never, command: [/bin/sh, -c, '{script}'], \
             resources: {{{resources}}}}}]}}\n"
        )
        .expect("in memory");
    };
    let burn = "for i in 1 2 3 4; do while :; do :; done & done; wait";
    for n in 0..size.burners {
        pod(&format!("burstable-{n}"), "requests: {cpu: 10m}", burn);
        pod(&format!("besteffort-{n}"), "", burn);
    }
    pod("memory", "limits: {memory: 256Mi}", "while :; do tail /dev/zero; done");
    pod("forks", "", "bomb() { bomb | bomb & }; while :; do bomb; sleep 1; done");
    let disk = "while :; do dd if=/dev/zero of=/tmp/file bs=1M count=512; rm /tmp/file; done";
    pod("disk", "", disk);
    pod(
        "logs",
        "",
        "for i in 1 2 3 4; do yes 0123456789012345678901234567890123456789 & done; wait",
    );
    let api = "$KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT";
    let idle = format!(
        "i=0; while [ $i -lt {} ]; do (sleep 600 | nc {api}) & i=$((i+1)); done; wait",
        size.connections
    );
    pod("connections", "", &idle);
    pod("requests", "", REQUESTS);
    all
}

/// Lists, creations and watches as fast as they go, with the pod's own token.
const REQUESTS: &str = "token=$(cat /var/run/secrets/kubernetes.io/serviceaccount/token); \
    api=https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT/api/v1/namespaces/bad; \
    ask() { wget -q -O /dev/null --no-check-certificate --header \"Authorization: Bearer $token\" \"$@\"; }; \
    for i in $(seq 50); do (while :; do ask \"$api/pods?watch=1\"; done) & done; \
    for i in $(seq 8); do (while :; do ask $api/pods; ask $api/events; \
    ask --header \"Content-Type: application/json\" \
    --post-data \"{\\\"metadata\\\":{\\\"generateName\\\":\\\"x-\\\"}}\" $api/configmaps; done) & done; wait";

/// How long the neighbour took to answer, sorted.
struct Latencies {
    all: Vec<Duration>,
    failed: usize,
}

impl Latencies {
    fn measure(world: &World, address: SocketAddr, requests: usize) -> Self {
        let path = format!("/proc/{}/ns/net", world.pid("node").expect("a pid"));
        let namespace = NetworkNamespace::open(Path::new(&path)).expect("a network");
        let measured = run_in_netns(&namespace, || {
            step_aside(world);
            let (mut all, mut failed) = (Vec::with_capacity(requests), 0);
            for _ in 0..requests {
                let began = Instant::now();
                match ask(address) {
                    Ok(()) => all.push(began.elapsed()),
                    Err(error) => {
                        eprintln!("the neighbour did not answer: {error}");
                        failed += 1;
                    }
                }
                thread::sleep(PACE);
            }
            all.sort();
            Self { all, failed }
        });
        measured.expect("inside the network")
    }

    fn at(&self, hundredths: usize) -> Duration {
        self.all.get(self.all.len() * hundredths / 100).copied().unwrap_or(Duration::MAX)
    }

    fn p99(&self) -> Duration {
        self.at(99)
    }
}

impl std::fmt::Display for Latencies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let worst = self.all.last().copied().unwrap_or_default();
        let (p50, p99, failed) = (self.at(50), self.p99(), self.failed);
        write!(
            f,
            "p50 {p50:?} p99 {p99:?} worst {worst:?}, {} answers, {failed} failures",
            self.all.len()
        )
    }
}

/// Clients are other machines, and a node is there for its pods alone: what else this machine does
/// must not be measured. The cluster gets all of the CPUs that it wants, and this thread a group of
/// its own in it that wants next to nothing.
fn step_aside(world: &World) {
    let hierarchies = Hierarchies::detect().expect("cgroups");
    let heaviest = Limits { cpu_shares: Some(262_144), ..Limits::default() };
    for name in ["", "client"] {
        let group = hierarchies.group(&world.group(name)).expect("a path");
        group.create().expect("a group");
        group.apply_limits(&heaviest).expect("a weight");
    }
    if let Some((_, at)) = hierarchies.controllers().into_iter().find(|(name, _)| name == "cpu") {
        let tasks = at.join(world.group("client").trim_matches('/')).join("tasks");
        std::fs::write(tasks, "0").expect("this thread is moved");
    }
}

fn ask(address: SocketAddr) -> std::io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(10))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if answer.contains("Hello from web") { Ok(()) } else { Err(std::io::Error::other(answer)) }
}
