//! Attacks that a tenant can make with its own pods and token, one kind at a time.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicBool, Ordering},
    thread::{self, sleep},
    time::Duration,
};

use sys::cgroup::Hierarchies;

use crate::{
    Size,
    flood::{Flood, Kind},
    image::SHELL,
    world::{Running, World, output},
};

/// An attack of one kind, or of several at once.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    /// Names, resources and scripts of the pods.
    pods: Vec<(String, &'static str, String)>,
    /// Number of exec sessions in the first pod.
    sessions: usize,
    floods: Vec<Kind>,
}

/// A running attack, which is stopped on drop.
pub(crate) struct UnderWay<'a> {
    world: &'a World,
    sessions: Vec<Running>,
    floods: Vec<Flood>,
}

/// All attacks, and finally all of them together.
pub(crate) fn attacks(size: &Size) -> Vec<Attack> {
    let mut all = pod_attacks(size);
    let floods = [
        ("LIST", vec![Kind::List]),
        ("tables", vec![Kind::Table]),
        ("YAML", vec![Kind::Yaml]),
        ("GET", vec![Kind::Get]),
        ("create", vec![Kind::Create]),
        ("large create", vec![Kind::LargeCreate]),
        ("apply", vec![Kind::Apply]),
        ("expressions", vec![Kind::Expressions]),
        ("discovery", vec![Kind::Discovery]),
        ("watches", vec![Kind::Watch]),
    ];
    all.extend(floods.map(|(name, floods)| Attack { name, pods: Vec::new(), sessions: 0, floods }));
    let pods = all.iter().flat_map(|one| one.pods.clone()).collect();
    let floods = vec![Kind::List, Kind::Apply, Kind::Watch];
    all.push(Attack { name: "all of them", pods, sessions: size.sessions, floods });
    all
}

fn pod_attacks(size: &Size) -> Vec<Attack> {
    let burn = "for i in 1 2 3 4; do while :; do :; done & done; wait";
    let many = |name: &str, resources: &'static str| {
        let pod = |n: usize| (format!("{name}-{n}"), resources, burn.to_owned());
        (0..size.burners).map(pod).collect::<Vec<_>>()
    };
    let one = |name: &'static str, resources: &'static str, script: &str| Attack {
        name,
        pods: vec![(name.to_owned(), resources, script.to_owned())],
        sessions: if name == "exec" { size.sessions } else { 0 },
        floods: Vec::new(),
    };
    let connections = format!(
        "i=0; while [ $i -lt {} ]; do (sleep 600 | nc $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT) & \
         i=$((i+1)); done; wait",
        size.connections
    );
    let burners = [many("burstable", "requests: {cpu: 10m}"), many("besteffort", "")].concat();
    vec![
        Attack { name: "CPU", pods: burners, sessions: 0, floods: Vec::new() },
        one("memory", "limits: {memory: 256Mi}", "while :; do tail /dev/zero; done"),
        one("pids", "", "bomb() { bomb | bomb & }; while :; do bomb; sleep 1; done"),
        one("descriptors", "", FILES),
        one("disk", "", DISK),
        one("logs", "", LOGS),
        one("exec", "", "sleep 600"),
        one("connections", "", &connections),
    ]
}

const FILES: &str = "i=0; while [ $i -lt 400 ]; do (exec 3</tmp 4</bin 5</proc; sleep 600) & i=$((i+1)); done; wait";
const DISK: &str = "while :; do dd if=/dev/zero of=/tmp/file bs=1M count=512; rm /tmp/file; done";
const LOGS: &str = "for i in 1 2 3 4; do yes 0123456789012345678901234567890123456789 & done; wait";
impl Attack {
    /// Starts the attack with the tenant's token, and waits until all of it runs.
    pub(crate) fn start<'a>(&self, world: &'a World, size: &Size, token: &str) -> UnderWay<'a> {
        let mut under_way = UnderWay { world, sessions: Vec::new(), floods: Vec::new() };
        if !self.pods.is_empty() {
            world.kubectl(&["create", "-f", &world.file("attack.yaml", &self.manifest())]);
        }
        let phases = ["get", "pods", "-n", "bad", "-o", "jsonpath={.items[*].status.phase}"];
        world.until(&format!("{}: all pods run", self.name), || {
            let phases = world.try_kubectl(&phases);
            phases.split(' ').filter(|phase| *phase == "Running").count() >= self.pods.len()
        });
        if let Some((first, ..)) = self.pods.first() {
            let session = ["exec", "-n", "bad", first, "--", "/bin/sleep", "600"];
            let session = |_| Running::start(world.kubectl_command(&session));
            under_way.sessions.extend((0..self.sessions).map(session));
        }
        let flood = |kind: &Kind| Flood::start(world, *kind, token, size.requests);
        under_way.floods.extend(self.floods.iter().map(flood));
        world.until(&format!("{}: requests are answered", self.name), || {
            under_way.floods.iter().all(|flood| flood.answered() > 0)
        });
        sleep(Duration::from_secs(2)); // until it has its full effect
        under_way
    }

    fn manifest(&self) -> String {
        let mut all = String::new();
        for (name, resources, script) in &self.pods {
            let script = script.replace('\'', "''");
            write!(
                all,
                "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: bad}}\nspec: \
                 {{terminationGracePeriodSeconds: 1, containers: [{{name: c, image: '{SHELL}', \
                 imagePullPolicy: Never, command: [/bin/sh, -c, '{script}'], \
                 resources: {{{resources}}}}}]}}\n"
            )
            .expect("in memory");
        }
        all
    }
}

impl UnderWay<'_> {
    /// Monitors the node while `work` runs.
    pub(crate) fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let looking = scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    self.look();
                    sleep(Duration::from_secs(1));
                }
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

    /// Stops the attack and deletes everything it created.
    pub(crate) fn end(mut self) {
        self.sessions.clear();
        self.floods.clear();
        self.kill();
        let all = ["-n", "bad", "--all", "--timeout=120s"];
        self.world
            .kubectl(&[&["delete", "pods", "--grace-period=0", "--force"], &all[..]].concat());
    }

    fn kill(&self) {
        let hierarchies = Hierarchies::detect().expect("cgroups");
        for class in ["kubepods/besteffort", "kubepods/burstable"] {
            if let Ok(group) = hierarchies.group(&self.world.group(class)) {
                let _ = group.kill_all(); // the rest is killed with its pod
            }
        }
    }
}

/// Stops the attack even if the test fails.
impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.kill();
    }
}
