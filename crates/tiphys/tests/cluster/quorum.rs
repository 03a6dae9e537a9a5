//! An external etcd of three members loses two of them: running pods keep running, writes fail in time, and the
//! cluster recovers by itself when the members are back.
//!
//! ```text
//!  member 1 ══ bridge ══ member 2        the bridge is in the network of the cluster
//!                ║
//!             member 3
//! ```

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::{
    programs::program,
    world::{World, output, run},
};

/// Maximum duration of a write: the store's deadline of ten seconds, and the rest for a busy host.
const DEADLINE: Duration = Duration::from_mins(1);

/// How long the cluster must run without a quorum: longer than leases and watches last.
const WITHOUT: Duration = Duration::from_secs(20);

#[test]
fn a_cluster_outlives_the_quorum_of_its_etcd() {
    let Some(etcd) = program("etcd") else { return println!("left out: there is no etcd") };
    let world = World::new("quorum");
    let mut members = Members::start(&world, etcd);
    let servers: Vec<_> = (1..=3).map(|nth| url(nth, 2379)).collect();
    let up = ["up", "--node-name", "n1", "--demo", "--etcd-servers", &servers.join(",")];
    world.tiphys(&up);
    let pod = world.kubectl(&["get", "pods", "-l", "app=hello", "-o", "name"]);
    let pod = pod.lines().next().expect("a pod").to_owned();
    let inside = format!("--target={}", world.process(&pod["pod/".len()..]));
    let service = ["get", "service", "hello", "-o", "jsonpath={.spec.clusterIP}"];
    let service = format!("http://{}/", world.kubectl(&service));
    // This involves only the pods, the kernel and the cluster DNS.
    let fetch = |url: &str| {
        let fetch = [&inside, "--net", "--mount", "/tiphys", "hello", "--fetch", url];
        String::from_utf8_lossy(&output(Command::new("nsenter").args(fetch)).stdout).into_owned()
    };
    let answers = |url: &str| fetch(url).contains("Hello from hello-");
    let name = "http://hello.default.svc.cluster.local/";
    world.until("all answer", || answers(&service) && answers(name));
    let processes = || ["supervisor", "control", "node"].map(|part| world.pid(part));
    let before = processes();

    // While the members elect a leader, a write may fail, or succeed without a response.
    let makes = |name: &str, args: &[&str]| {
        world.until("it is written", || {
            let _ = output(&mut world.kubectl_command(args));
            output(&mut world.kubectl_command(&["get", name])).status.success()
        });
    };
    members.kill(0);
    makes("configmap/with-two", &["create", "configmap", "with-two"]);
    members.kill(1);
    let since = Instant::now();
    let mut refused = 0;
    while since.elapsed() < WITHOUT || refused == 0 {
        let begun = Instant::now();
        let write = ["create", "configmap", "with-one"];
        assert!(!output(&mut world.kubectl_command(&write)).status.success(), "nobody can know");
        assert!(begun.elapsed() < DEADLINE, "refused after {:?}", begun.elapsed());
        refused += 1;
        assert!(answers(&service), "the service goes on");
        assert!(answers(name), "names are found");
        sleep(Duration::from_millis(500));
    }

    members.run(0);
    members.run(1);
    makes("configmap/with-three", &["create", "configmap", "with-three"]);
    world.kubectl(&["get", "configmap", "with-two"]);
    let run = ["run", "after", "--image=tiphys.local/hello:1", "--labels=app=after"];
    makes("pod/after", &run);
    makes("service/after", &["expose", "pod", "after", "--port=80"]);
    world.until("a new pod runs", || {
        let phase = ["get", "pod", "after", "-o", "jsonpath={.status.phase}"];
        world.try_kubectl(&phase) == "Running"
    });
    world.until("and is found by its name", || {
        fetch("http://after.default.svc.cluster.local/").contains("Hello from after")
    });
    assert!(answers(&service) && answers(name));
    assert_eq!(processes(), before, "nothing of ours was started again");
    println!("{refused} writes refused without a quorum");
}

/// Three members of etcd, each in its own network namespace. They are stopped on drop.
struct Members {
    networks: Vec<String>,
    folder: TempDir,
    etcd: PathBuf,
    running: [Option<Child>; 3],
}

impl Members {
    fn start(world: &World, etcd: PathBuf) -> Self {
        let ip = |args: &str| run(&mut world.inside("ip", &args.split(' ').collect::<Vec<_>>()));
        ip("link add switch type bridge");
        ip("address add 198.51.100.10/24 dev switch");
        ip("link set switch up");
        let folder = tempfile::tempdir().expect("a folder");
        let mut this = Self { networks: Vec::new(), folder, etcd, running: [None, None, None] };
        for nth in 1..=3 {
            let own = format!("tiphys-member{nth}-{}", std::process::id());
            this.networks.push(own.clone());
            let here = |args: &str| run(Command::new("ip").args(args.split(' ')));
            here(&format!("netns add {own}"));
            ip(&format!("link add port{nth} type veth peer name eth0 netns {own}"));
            ip(&format!("link set port{nth} master switch up"));
            here(&format!("-n {own} address add 198.51.100.{nth}/24 dev eth0"));
            here(&format!("-n {own} link set lo up"));
            here(&format!("-n {own} link set eth0 up"));
        }
        (0..3).for_each(|nth| this.run(nth));
        this
    }

    fn run(&mut self, nth: usize) {
        let all: Vec<_> = (1..=3).map(|nth| format!("m{nth}={}", url(nth, 2380))).collect();
        let (client, peer) = (url(nth + 1, 2379), url(nth + 1, 2380));
        let process = Command::new("nsenter")
            .arg(format!("--net=/run/netns/{}", self.networks[nth]))
            .arg(&self.etcd)
            .args(["--name", &format!("m{}", nth + 1), "--log-level", "error", "--data-dir"])
            .arg(self.folder.path().join(nth.to_string()))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &all.join(",")])
            .stderr(Stdio::null())
            .spawn();
        self.running[nth] = Some(process.expect("etcd can be started"));
    }

    fn kill(&mut self, nth: usize) {
        if let Some(mut process) = self.running[nth].take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        (0..3).for_each(|nth| self.kill(nth));
        for network in &self.networks {
            let _ = output(Command::new("ip").args(["netns", "delete", network]));
        }
    }
}

fn url(nth: usize, port: u16) -> String {
    format!("http://198.51.100.{nth}:{port}")
}
