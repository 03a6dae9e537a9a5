//! Every listening socket of a cluster's processes, compared with a table, and the responses of each to requests
//! without credentials.

use std::{collections::BTreeSet, fs, path::Path};

use crate::world::{World, output, run};

/// Process, address, purpose, and permitted clients.
const TABLE: &[(&str, &str, &str, &str)] = &[
    (
        "control",
        "tcp 0.0.0.0:6443",
        "the API server",
        "certificates and tokens; anonymous: health and version",
    ),
    (
        "control",
        "tcp 127.0.0.1:10259",
        "the scheduler: health and metrics",
        "certificates and tokens with the right; anonymous: health",
    ),
    (
        "control",
        "tcp 127.0.0.1:10257",
        "the controllers: health and metrics",
        "certificates and tokens with the right; anonymous: health",
    ),
    ("node", "tcp 0.0.0.0:KUBELET", "the kubelet", "certificates and tokens"),
    ("node", "tcp 0.0.0.0:10256", "the proxy's health", "everybody: health alone"),
    ("node", "tcp 127.0.0.1:10249", "the proxy's metrics", "whoever is on the machine"),
    ("node", "tcp 127.0.0.1:STREAMS", "streams of the runtime", "a secret in the path, good once"),
    (
        "control",
        "unix node.sock",
        "the API server as this node",
        "root, by the file's mode and the caller's uid",
    ),
    (
        "control",
        "unix proxy.sock",
        "the API server as the proxy",
        "root, by the file's mode and the caller's uid",
    ),
    ("node", "unix cri.sock", "the container runtime", "root, by the file's mode"),
    ("node", "unix image.sock", "image import and export", "root, by the file's mode"),
    ("shim", "unix shim.sock", "a pod's shim", "root, by the folder's mode"),
];

/// Paths that are requested without credentials.
const PATHS: &[&str] = &[
    "/",
    "/api",
    "/apis",
    "/configz",
    "/debug/pprof",
    "/debug/pprof/",
    "/debug/flags/v",
    "/flagz",
    "/logs",
    "/logs/",
    "/metrics",
    "/metrics/cadvisor",
    "/openapi/v2",
    "/pods",
    "/runningpods/",
    "/spec/",
    "/stats/summary",
    "/statusz",
    "/tiphys/why",
    "/exec/a/b/c",
    "/attach/a/b",
    "/cri/exec/x",
    "/healthz",
    "/livez",
    "/readyz",
    "/version",
];
const PROXY_METRICS: &str = "127.0.0.1:10249";
const OPEN: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

#[test]
fn nothing_listens_that_is_not_in_the_table() {
    let world = World::new("listeners");
    world.tiphys(&["up", "--node-name", "n1"]);
    world.kubectl(&["run", "web", "--image", "tiphys.local/hello:1"]);
    world.until("the pod runs", || {
        world.try_kubectl(&["get", "pod", "web", "-o", "jsonpath={.status.phase}"]) == "Running"
    });
    let port = "jsonpath={.status.daemonEndpoints.kubeletEndpoint.Port}";
    let kubelet = world.kubectl(&["get", "node", "n1", "-o", port]);
    let found = listening(&world, &kubelet);
    let table: BTreeSet<(String, String)> =
        TABLE.iter().map(|(who, at, ..)| ((*who).to_owned(), (*at).to_owned())).collect();
    assert_eq!(found, table);

    for (name, mode) in
        [("cri.sock", 0o600), ("image.sock", 0o600), ("node.sock", 0o600), ("proxy.sock", 0o600)]
    {
        use std::os::unix::fs::PermissionsExt;
        let about = fs::metadata(world.path().join("run").join(name)).expect("a socket");
        assert_eq!(about.permissions().mode() & 0o777, mode, "{name}");
    }
    let is_streams = |(at, process): &(String, String)| {
        at.starts_with("127.0.0.1:") && process == "node" && at != PROXY_METRICS
    };
    let streams = tcp(&world).into_iter().find(is_streams);
    let (streams, _) = streams.expect("the runtime's streams");
    let ask = |url: &str| {
        let args = ["-sk", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "10", url];
        String::from_utf8_lossy(&output(&mut world.inside("curl", &args)).stdout).into_owned()
    };
    let head = ["-skI", "--max-time", "10", &format!("https://192.0.2.2:{kubelet}/")];
    let head = output(&mut world.inside("curl", &head)).stdout;
    let head = String::from_utf8_lossy(&head).to_lowercase();
    for line in ["x-content-type-options: nosniff", "strict-transport-security: max-age="] {
        assert!(head.contains(line), "the kubelet's port lacks {line}: {head}");
    }
    for path in PATHS {
        let api = ask(&format!("https://192.0.2.2:6443{path}"));
        let expected: &[&str] = if OPEN.contains(path) { &["200"] } else { &["401", "403"] };
        assert!(expected.contains(&&*api), "API server {path}: {api}");
        assert_eq!(ask(&format!("https://192.0.2.2:{kubelet}{path}")), "401", "kubelet {path}");
        assert_eq!(ask(&format!("http://{streams}{path}")), "404", "streams {path}");
        let health = ask(&format!("http://192.0.2.2:10256{path}"));
        let expected = if ["/healthz", "/livez"].contains(path) { "200" } else { "404" };
        assert_eq!(health, expected, "the proxy's health {path}");
        let metrics = ask(&format!("http://{PROXY_METRICS}{path}"));
        let shown = ["/healthz", "/metrics", "/configz"].contains(path);
        assert_eq!(metrics, if shown { "200" } else { "404" }, "the proxy's metrics {path}");
        for port in [10_257, 10_259] {
            let expected = match *path {
                "/healthz" | "/livez" | "/readyz" => "200",
                "/version" => "404", // always allowed, but it does not exist
                _ => "403",
            };
            assert_eq!(ask(&format!("https://127.0.0.1:{port}{path}")), expected, "{port}{path}");
        }
    }
    world.tiphys(&["down", "--now"]);
    world.assert_nothing_left();
}

/// The listening sockets, in the format of the table.
fn listening(world: &World, kubelet: &str) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for (at, process) in tcp(world) {
        let at = match &*at {
            at if at == format!("0.0.0.0:{kubelet}") => "0.0.0.0:KUBELET".to_owned(),
            at if at == PROXY_METRICS => at.to_owned(),
            "127.0.0.1:10257" | "127.0.0.1:10259" => at.clone(),
            at if at.starts_with("127.0.0.1:") => "127.0.0.1:STREAMS".to_owned(),
            at => at.to_owned(),
        };
        found.insert((process, format!("tcp {at}")));
    }
    let udp = run(&mut world.inside("ss", &["-Hlnup"]));
    assert_eq!(udp, "", "nothing of the host's network listens for UDP");
    let unix = run(&mut world.inside("ss", &["-Hlxp"]));
    for line in unix.lines() {
        let Some(process) = process(world, line) else { continue };
        let path = line.split_whitespace().nth(4).unwrap_or_default();
        let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned();
        found.insert((process, format!("unix {name}")));
    }
    found
}

/// Addresses of TCP listeners in the namespace, and their processes.
fn tcp(world: &World) -> Vec<(String, String)> {
    let all = run(&mut world.inside("ss", &["-Hlntp"]));
    let lines = all.lines().map(|line| {
        let at = line.split_whitespace().nth(3).unwrap_or_default().to_owned();
        (at, process(world, line).unwrap_or_else(|| panic!("not one of ours: {line}")))
    });
    lines.collect()
}

/// The process of the cluster that a line of `ss` names; the supervisor also holds the sockets of `control`.
fn process(world: &World, line: &str) -> Option<String> {
    let pids = line.split("pid=").skip(1).filter_map(|rest| rest.split(',').next());
    let pids: Vec<String> = pids.map(str::to_owned).collect();
    let part = ["control", "node"]
        .into_iter()
        .find(|part| world.pid(part).is_some_and(|pid| pids.contains(&pid)));
    let folder = world.path().to_str().expect("text");
    let shim = |pid: &String| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let about = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        line.contains(folder) || about.starts_with(folder)
    };
    part.map(str::to_owned).or_else(|| pids.iter().any(shim).then(|| "shim".to_owned()))
}
