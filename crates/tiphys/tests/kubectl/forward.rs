//! `port-forward`: local connections are forwarded to the pod, including the half-close of each side.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Stdio},
    thread,
};

use crate::{
    cluster::{Cluster, stdout},
    world::output,
};

/// A web server, and a server that responds only after its client has closed its side.
const SERVERS: &str = "mkdir /tmp/site; echo hello > /tmp/site/index.html; httpd -p 8080 -h /tmp/site; \
                       while true; do nc -l -p 8081 -e sh -c 'cat | wc -c'; done";

pub(crate) fn all(cluster: &Cluster) {
    cluster.create(&crate::cluster::pod("servers", SERVERS, ""));
    cluster.until_running("servers");
    // SPDY inside a WebSocket, and SPDY itself
    for websockets in ["true", "false"] {
        forwards(cluster, websockets);
    }
    cluster.world().kubectl(&["delete", "pod", "servers", "--now"]);
}

fn forwards(cluster: &Cluster, websockets: &str) {
    let args = ["port-forward", "servers", ":8080", ":8081", ":9"];
    let forward = Forward::start(cluster, &args, websockets);
    let world = cluster.world();
    let fetch = |port: &str| {
        let url = format!("http://127.0.0.1:{port}/");
        let mut curl = world.inside("curl", &["-s", "-m", "20", &url]);
        stdout(&output(curl.stdin(Stdio::null())))
    };
    world.until("the web server answers", || fetch(&forward.ports[0]) == "hello\n");
    assert_eq!(fetch(&forward.ports[2]), "", "nobody listens there");
    assert_eq!(fetch(&forward.ports[0]), "hello\n", "one that fails disturbs no other");
    let count = format!("head -c 1000000 /dev/zero | busybox nc 127.0.0.1 {}", forward.ports[1]);
    world.until("the whole input arrives, and its end", || {
        stdout(&cluster.bash(&count)).trim() == "1000000"
    });
}

/// A running `port-forward`.
struct Forward {
    child: Child,
    /// Local ports, in the order of the arguments.
    ports: Vec<String>,
}

impl Forward {
    fn start(cluster: &Cluster, args: &[&str], websockets: &str) -> Self {
        let mut command = cluster.command(&[args, &["--address", "127.0.0.1"]].concat());
        command.env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets);
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the executable starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let ports = (3..=args.len()).map(|_| {
            let line = lines.next().expect("a line").expect("text");
            let port = line.strip_prefix("Forwarding from 127.0.0.1:").expect("the address first");
            port.split(' ').next().expect("a number").to_owned()
        });
        let ports = ports.collect();
        thread::spawn(move || lines.for_each(drop));
        Self { child, ports }
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
