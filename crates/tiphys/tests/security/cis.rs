//! The CIS Kubernetes benchmark 1.12 against `tiphys up --profile cis`: each item is listed by its number and tested
//! by attempting what it forbids. Items that the default profile passes too are also tested there.
//!
//! Items for components that do not exist here (pod specifications of the control plane, a scheduler's kubeconfig, an
//! etcd port) pass if the file or the port does not exist.

use std::{
    fs,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

use crate::{
    image,
    world::{Running, World, output, run, said},
};

/// Numbers of the benchmark, the requirement, and the test. The last field says whether the default profile passes it
/// too.
type Check = (&'static str, &'static str, fn(&Cluster), bool);

const CHECKS: &[Check] = &[
    ("1.1.1-8", "no pod specifications of the control plane", no_pod_specifications, true),
    ("1.1.11-12", "the store's folder is 700 and of its own user", store_is_private, true),
    ("1.1.13-18", "kubeconfigs are 600, and only the administrator's is there", kubeconfigs, true),
    ("1.1.19-21", "keys and certificates are 600 and of the API server's user", keys, true),
    ("1.1, 4.1", "no file of the cluster can be read by others", no_file_for_others, true),
    ("1.2.1", "a request without credentials is 401, health too", anonymous, false),
    ("1.2.2", "there are no static tokens", static_token, true),
    ("1.2.3", "externalIPs are refused", external_ips, false),
    ("1.2.4-5", "kubelets are verified, by the name of their node", impostor_kubelet, false),
    ("1.2.6-8", "who has no role gets 403; a node reads only what is its own", authorizers, true),
    ("1.2.9", "a flood of events is refused", event_flood, false),
    ("1.2.10-11", "the pull policy is forced", pull_policy, false),
    ("1.2.12-13", "accounts and namespaces must exist", accounts_and_namespaces, true),
    ("1.2.14", "a node changes no other node", node_restriction, true),
    ("1.2.15", "no profiles are served", profiles, false),
    ("1.2.16-19, 3.2", "the audit log names who read a secret, and not its value", audit, false),
    ("1.2.21-22", "tokens of deleted accounts and forged tokens are 401", tokens, true),
    ("1.2.23, 26; 2; 1.3.2, 7; 1.4; 4.2.4; 4.3.1", "no further ports", ports, true),
    ("1.2.24-25, 29; 4.2.3, 12", "TLS 1.2 with AEAD or newer, no plain HTTP", ciphers, true),
    ("1.2.27-28", "secrets are encrypted at rest", at_rest, true),
    ("1.2.30", "a pod's token is good for an hour", token_lifetime, false),
    ("1.3.3-5", "controllers act as themselves; pods know the authority", controllers, false),
    ("4.1.5-6, 9-10", "the settings are root's, 600", settings, true),
    ("4.2.1-2", "the kubelet answers 401 without credentials, 403 without a role", kubelet, true),
    (
        "4.2.9-11",
        "the kubelet's certificate is signed by the cluster's authority",
        certificate,
        true,
    ),
    ("4.2.13", "the processes of a pod are limited", pids, true),
    ("4.2.14", "a container without a seccomp profile has the default one", seccomp, false),
];

#[test]
fn the_cis_profile_passes_the_benchmark() {
    let cluster = Cluster::new("cis", &["--profile", "cis"]);
    assert!(
        fs::read_to_string(cluster.path("config.yaml")).expect("kept").contains("profile: cis")
    );
    for (numbers, what, check, _) in CHECKS {
        println!("{numbers}: {what}");
        check(&cluster);
    }
    cluster.end();
}

/// The default profile passes the items that cost nothing. It deviates only where docs/security.md says so, and there
/// each attempt succeeds.
#[test]
fn the_default_deviates_exactly_where_it_says_so() {
    let cluster = Cluster::new("nocis", &[]);
    for (numbers, what, check, by_default) in CHECKS {
        println!("{numbers}: {what}");
        if *by_default {
            check(&cluster);
            continue;
        }
        let attempt = std::panic::AssertUnwindSafe(|| check(&cluster));
        assert!(std::panic::catch_unwind(attempt).is_err(), "{numbers} holds by default too");
    }
    assert_eq!(cluster.status("/healthz"), "200");
    cluster.end();
}

/// A cluster with a pod `shell` that sets no seccomp profile, and its registry.
struct Cluster {
    world: World,
    image: String,
    _registry: Running,
}

impl Cluster {
    fn new(name: &str, flags: &[&str]) -> Self {
        let world = World::new(name);
        let up = ["up", "--node-name", "n1", "--disable", "dns"];
        world.tiphys(&[&up[..], flags].concat());
        let (registry, image) = image::serve(&world);
        let cluster = Self { world, image, _registry: registry };
        let run = ["run", "shell", "--image", &cluster.image, "--command", "--"];
        cluster.world.kubectl(&[&run[..], &["/bin/sleep", "3600"]].concat());
        cluster.world.until("the pod runs", || cluster.phase("shell") == "Running");
        cluster
    }

    fn path(&self, name: &str) -> PathBuf {
        self.world.path().join(name)
    }

    fn phase(&self, pod: &str) -> String {
        self.world.try_kubectl(&["get", "pod", pod, "-o", "jsonpath={.status.phase}"])
    }

    fn exec(&self, script: &str) -> String {
        self.world.kubectl(&["exec", "shell", "--", "/bin/sh", "-c", script])
    }

    fn create(&self, yaml: &str) -> Result<String, String> {
        let file = self.world.file("made.yaml", yaml);
        let out = output(&mut self.world.kubectl_command(&["create", "-f", &file]));
        if out.status.success() { Ok(said(&out)) } else { Err(said(&out)) }
    }

    /// Runs kubectl with the certificate of another user, which may fail; returns its output.
    fn kubectl_as(&self, user: &str, group: &str, args: &[&str]) -> String {
        let config = self.world.tiphys(&["kubeconfig", "--user", user, "--group", group]);
        let config = self.world.file("somebody", &config);
        said(&output(
            &mut self.world.command(&[&["kubectl", "--kubeconfig", &config], args].concat()),
        ))
    }

    /// The status code that curl gets from an address of this host.
    fn curl(&self, args: &[&str]) -> String {
        let usual = ["-s", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "10"];
        let args = [&usual[..], args].concat();
        String::from_utf8_lossy(&output(&mut self.world.inside("curl", &args)).stdout).into_owned()
    }

    /// The API server's status code for a request without credentials.
    fn status(&self, path: &str) -> String {
        self.curl(&["-k", &format!("https://192.0.2.2:6443{path}")])
    }

    fn kubelet_port(&self) -> String {
        let port = "jsonpath={.status.daemonEndpoints.kubeletEndpoint.Port}";
        self.world.kubectl(&["get", "node", "n1", "-o", port])
    }

    /// A token of the service account `default` in the namespace `default`.
    fn token(&self) -> String {
        self.world.kubectl(&["create", "token", "default"]).trim().to_owned()
    }

    fn end(self) {
        self.world.tiphys(&["down", "--now"]);
        self.world.assert_nothing_left();
    }
}

/// Mode, owner and group of a file.
fn about(path: &Path) -> (u32, u32, u32) {
    let about =
        fs::symlink_metadata(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    (about.mode() & 0o7777, about.uid(), about.gid())
}

/// The uid that the API server runs as.
fn control_user(cluster: &Cluster) -> u32 {
    let pid = cluster.world.pid("control").expect("it runs");
    let user = fs::metadata(format!("/proc/{pid}")).expect("it runs").uid();
    assert_ne!(user, 0, "the API server does not run as root");
    user
}

fn no_pod_specifications(cluster: &Cluster) {
    let manifests = cluster.path("manifests");
    assert_eq!(about(&manifests), (0o700, 0, 0));
    assert_eq!(fs::read_dir(manifests).expect("a folder").count(), 0);
}

fn store_is_private(cluster: &Cluster) {
    let user = control_user(cluster);
    assert_eq!(about(&cluster.path("store")), (0o700, user, user));
}

fn kubeconfigs(cluster: &Cluster) {
    let user = control_user(cluster);
    let all = fs::read_dir(cluster.path("kubeconfig")).expect("a folder");
    let names: Vec<_> = all.map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(names, ["admin"]);
    assert_eq!(about(&cluster.path("kubeconfig/admin")), (0o600, user, user));
    assert_eq!(about(&cluster.path("kubeconfig")), (0o700, user, user));
}

fn keys(cluster: &Cluster) {
    let user = control_user(cluster);
    assert_eq!(about(&cluster.path("pki")), (0o700, user, user));
    for entry in fs::read_dir(cluster.path("pki")).expect("a folder") {
        let path = entry.expect("an entry").path();
        assert_eq!(about(&path), (0o600, user, user), "{}", path.display());
    }
}

/// Checks every file below the data directory, except the executable and the files of images and pods, which are in a
/// directory that only root can enter.
fn no_file_for_others(cluster: &Cluster) {
    let made_by_tests = ["layout", "root", "site", "part", "layout.tar", "root.tar"];
    let ours = |name: &str| {
        let is_yaml = Path::new(name).extension().is_some_and(|end| end == "yaml");
        !made_by_tests.contains(&name) && !is_yaml && name != "somebody"
    };
    assert_eq!(about(&cluster.path("node")), (0o700, 0, 0));
    let mut folders: Vec<PathBuf> = fs::read_dir(cluster.world.path())
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.file_name().is_some_and(|name| ours(&name.to_string_lossy())))
        .filter(|path| !path.ends_with("node") && !path.ends_with("bin"))
        .collect();
    let mut seen = 0;
    while let Some(path) = folders.pop() {
        let kind = fs::symlink_metadata(&path).expect("it is there").file_type();
        let most = if kind.is_dir() { 0o700 } else { 0o600 };
        assert!(!kind.is_symlink(), "{}", path.display());
        assert_eq!(about(&path).0 & !most, 0, "{} {}", path.display(), kind.is_socket());
        seen += 1;
        if kind.is_dir() {
            let inside = fs::read_dir(&path).expect("a folder");
            folders.extend(inside.map(|entry| entry.expect("an entry").path()));
        }
    }
    assert!(seen > 25, "{seen}");
}

fn anonymous(cluster: &Cluster) {
    for path in
        ["/", "/api", "/version", "/healthz", "/livez", "/readyz", "/metrics", "/openapi/v3"]
    {
        assert_eq!(cluster.status(path), "401", "{path}");
    }
    // the node, which is authenticated, still works
    let ready = "jsonpath={.status.conditions[?(@.type=='Ready')].status}";
    assert_eq!(cluster.world.kubectl(&["get", "node", "n1", "-o", ready]), "True");
    assert_eq!(cluster.world.kubectl(&["get", "--raw", "/readyz"]), "ok");
}

fn static_token(cluster: &Cluster) {
    let url = "https://192.0.2.2:6443/api";
    assert_eq!(cluster.curl(&["-k", "-H", "Authorization: Bearer admin", url]), "401");
    assert_eq!(cluster.curl(&["-k", "-u", "admin:admin", url]), "401");
}

fn external_ips(cluster: &Cluster) {
    let service = "apiVersion: v1
kind: Service
metadata: {name: stolen}
spec: {ports: [{port: 80}], externalIPs: [192.0.2.77]}";
    let why = cluster.create(service).expect_err("it takes somebody's address");
    assert!(why.contains("Use of external IPs is denied"), "{why}");
}

/// A Node whose address and port lead to a server with a certificate of the right CA, but for another name.
fn impostor_kubelet(cluster: &Cluster) {
    assert_eq!(cluster.world.kubectl(&["get", "--raw", "/api/v1/nodes/n1/proxy/healthz"]), "ok");
    for (name, port) in [("impostor", cluster.kubelet_port()), ("server", "6443".to_owned())] {
        cluster
            .create(&format!("apiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}"))
            .expect("a node");
        let status = format!(
            r#"{{"status":{{"addresses":[{{"type":"InternalIP","address":"192.0.2.2"}}],"daemonEndpoints":{{"kubeletEndpoint":{{"Port":{port}}}}}}}}}"#
        );
        let patch = ["patch", "node", name, "--subresource=status", "--type=merge", "-p", &status];
        cluster.world.kubectl(&patch);
        let path = format!("/api/v1/nodes/{name}/proxy/healthz");
        let why = cluster.world.refused(&["get", "--raw", &path]);
        assert!(why.contains("certificate"), "{why}");
        cluster.world.kubectl(&["delete", "node", name]);
    }
}

fn authorizers(cluster: &Cluster) {
    let why = cluster.kubectl_as("somebody", "nobodies", &["get", "pods"]);
    assert!(why.contains("forbidden"), "{why}");
    cluster
        .create("apiVersion: v1\nkind: Secret\nmetadata: {name: far}\nstringData: {a: farvalue}")
        .expect("a secret");
    let get = ["get", "secret", "far", "-o", "yaml"];
    let why = cluster.kubectl_as("system:node:n1", "system:nodes", &get);
    assert!(why.contains("no relationship found"), "{why}");
    cluster.world.kubectl(&["delete", "secret", "far"]);
}

/// One source sends events about one object faster than the limit (10 per second, burst 50).
fn event_flood(cluster: &Cluster) {
    let event = |number: u32| {
        format!(
            "apiVersion: v1
kind: Event
metadata: {{name: flood-{number}, namespace: default}}
involvedObject: {{kind: Pod, name: shell, namespace: default}}
reason: Flood
source: {{component: flood}}
---
"
        )
    };
    let why = cluster.create(&(0..300).map(event).collect::<String>()).expect_err("a flood");
    assert!(why.contains("limit reached on type SourceAndObject"), "{why}");
}

fn pull_policy(cluster: &Cluster) {
    let policy = "jsonpath={.spec.containers[0].imagePullPolicy}";
    let image = image::SHELL; // imported: on the node, but in no registry
    let run = ["run", "local", "--image", image, "--image-pull-policy", "Never", "--command", "--"];
    cluster.world.kubectl(&[&run[..], &["/bin/sleep", "3600"]].concat());
    assert_eq!(cluster.world.kubectl(&["get", "pod", "local", "-o", policy]), "Always");
    let reason = "jsonpath={.status.containerStatuses[0].state.waiting.reason}";
    cluster.world.until("it cannot be pulled", || {
        let why = cluster.world.try_kubectl(&["get", "pod", "local", "-o", reason]);
        why == "ErrImagePull" || why == "ImagePullBackOff"
    });
    cluster.world.kubectl(&["delete", "pod", "local", "--grace-period=0", "--force"]);
}

fn accounts_and_namespaces(cluster: &Cluster) {
    let pod = |namespace: &str, account: &str| {
        format!(
            "apiVersion: v1
kind: Pod
metadata: {{name: p, namespace: {namespace}}}
spec: {{serviceAccountName: {account}, containers: [{{name: c, image: x}}]}}"
        )
    };
    let why = cluster.create(&pod("default", "nobody")).expect_err("no such account");
    assert!(why.contains("service account"), "{why}");
    let why = cluster.create(&pod("nowhere", "default")).expect_err("no such namespace");
    assert!(why.contains("not found"), "{why}");
    cluster.world.refused(&["delete", "namespace", "kube-system"]);
}

fn node_restriction(cluster: &Cluster) {
    cluster.create("apiVersion: v1\nkind: Node\nmetadata: {name: other}").expect("a node");
    for (node, label) in [("other", "a=b"), ("n1", "node-restriction.kubernetes.io/a=b")] {
        let label = ["label", "node", node, label];
        let why = cluster.kubectl_as("system:node:n1", "system:nodes", &label);
        assert!(why.contains("forbidden") || why.contains("not allowed"), "{node}: {why}");
    }
    cluster.world.kubectl(&["delete", "node", "other"]);
}

fn profiles(cluster: &Cluster) {
    for path in ["/debug/pprof", "/debug/pprof/", "/debug/pprof/profile", "/debug/pprof/heap"] {
        cluster.world.refused(&["get", "--raw", path]);
    }
}

fn audit(cluster: &Cluster) {
    let secret =
        "apiVersion: v1\nkind: Secret\nmetadata: {name: noted}\nstringData: {a: wordthatisnowhere}";
    cluster.create(secret).expect("a secret");
    cluster.world.kubectl(&["get", "secret", "noted"]);
    cluster.exec("true");
    let log = fs::read_to_string(cluster.path("audit/audit.log")).expect("a log");
    let lines: Vec<serde_json::Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).expect("each line is an event"))
        .collect();
    let noted = |verb: &str, resource: &str, name: &str| {
        lines.iter().any(|event| {
            let object = &event["objectRef"];
            event["verb"] == verb
                && event["user"]["username"] == "kubernetes-admin"
                && object["resource"] == resource
                && object["name"] == name
                && event["responseStatus"]["code"].is_number()
        })
    };
    assert!(noted("get", "secrets", "noted") && noted("create", "secrets", "noted"));
    assert!(lines.iter().any(|event| event["objectRef"]["subresource"] == "exec"));
    let encoded = "d29yZHRoYXRpc25vd2hlcmU"; // the value in base64, as Secrets contain it
    assert!(!log.contains("wordthatisnowhere") && !log.contains(encoded));
    cluster.world.kubectl(&["delete", "secret", "noted"]);
}

fn tokens(cluster: &Cluster) {
    let url = "https://192.0.2.2:6443/api";
    let ask =
        |token: &str| cluster.curl(&["-k", "-H", &format!("Authorization: Bearer {token}"), url]);
    cluster.world.kubectl(&["create", "serviceaccount", "short"]);
    let token = cluster.world.kubectl(&["create", "token", "short"]).trim().to_owned();
    assert_eq!(ask(&token), "200");
    let (body, signature) = token.rsplit_once('.').expect("a token has three parts");
    let forged = format!("{body}.{}", signature.chars().rev().collect::<String>());
    assert_eq!(ask(&forged), "401");
    cluster.world.kubectl(&["delete", "serviceaccount", "short"]);
    cluster.world.until("the token has ended", || ask(&token) == "401");
}

fn ports(cluster: &Cluster) {
    // etcd, the controller manager, the scheduler, the kubelet's read-only and healthz ports, kube-proxy
    for port in [2379, 2380, 4194, 8080, 10248, 10249, 10251, 10252, 10255, 10256, 10257, 10259] {
        for address in ["127.0.0.1", "192.0.2.2"] {
            let port = port.to_string();
            let connect = ["nc", "-z", "-w", "1", address, &port];
            let connected = output(&mut cluster.world.inside("busybox", &connect));
            assert!(!connected.status.success(), "{address}:{port} listens");
        }
    }
}

fn ciphers(cluster: &Cluster) {
    for port in ["6443".to_owned(), cluster.kubelet_port()] {
        let url = format!("https://192.0.2.2:{port}/");
        let ask = |args: &[&str]| cluster.curl(&[args, &["-k", &url]].concat());
        for good in [&["--tlsv1.3"][..], &["--tls-max", "1.2"]] {
            assert_ne!(ask(good), "000", "{port} {good:?}");
        }
        let weak = "AES128-SHA:AES256-SHA:AES128-GCM-SHA256:ECDHE-RSA-AES128-SHA:ECDHE-ECDSA-AES128-SHA256@SECLEVEL=0";
        for bad in [
            &["--tls-max", "1.1", "--tlsv1.0", "--ciphers", "ALL@SECLEVEL=0"][..],
            &["--tls-max", "1.2", "--ciphers", weak],
        ] {
            assert_eq!(ask(bad), "000", "{port} {bad:?}");
        }
        let plain = cluster.curl(&[&format!("http://192.0.2.2:{port}/")]);
        assert!(plain == "000" || plain == "400", "{port}: {plain}");
    }
}

fn at_rest(cluster: &Cluster) {
    let secret =
        "apiVersion: v1\nkind: Secret\nmetadata: {name: kept}\nstringData: {a: wordatrest}";
    cluster.create(secret).expect("a secret");
    let dir = cluster.path("store");
    let found = output(std::process::Command::new("grep").args(["-rac", "wordatrest"]).arg(&dir));
    let found = String::from_utf8_lossy(&found.stdout).into_owned();
    assert!(found.lines().all(|line| line.ends_with(":0")), "{found}");
    cluster.world.kubectl(&["delete", "secret", "kept"]);
}

fn token_lifetime(cluster: &Cluster) {
    let body = "cut -d. -f2 /var/run/secrets/kubernetes.io/serviceaccount/token | tr -- '-_' '+/'";
    let body = cluster
        .exec(&format!("{{ {body}; echo ===; }} | tr -d '\\n' | base64 -d 2>/dev/null; true"));
    let number = |name: &str| -> i64 {
        let rest =
            body.split(&format!("\"{name}\":")).nth(1).unwrap_or_else(|| panic!("{name}: {body}"));
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().expect("a number")
    };
    let lasts = number("exp") - number("iat");
    assert!((3000..=3700).contains(&lasts), "{lasts} s");
}

fn controllers(cluster: &Cluster) {
    cluster.world.kubectl(&[
        "create",
        "deployment",
        "d",
        "--image",
        &cluster.image,
        "--replicas=0",
    ]);
    let account = "system:serviceaccount:kube-system:deployment-controller";
    cluster.world.until("the deployment's controller acts as itself", || {
        fs::read_to_string(cluster.path("audit/audit.log")).expect("a log").contains(account)
    });
    cluster.world.kubectl(&["delete", "deployment", "d"]);
    let known = cluster.exec("cat /var/run/secrets/kubernetes.io/serviceaccount/ca.crt");
    assert_eq!(known, fs::read_to_string(cluster.path("pki/ca.crt")).expect("the authority"));
}

fn settings(cluster: &Cluster) {
    assert_eq!(about(&cluster.path("config.yaml")), (0o600, 0, 0));
}

fn kubelet(cluster: &Cluster) {
    let (port, token) =
        (cluster.kubelet_port(), format!("Authorization: Bearer {}", cluster.token()));
    for path in ["/", "/healthz", "/pods", "/configz", "/metrics", "/logs/", "/run/a/b/c"] {
        let url = format!("https://192.0.2.2:{port}{path}");
        assert_eq!(cluster.curl(&["-k", &url]), "401", "{path}");
        assert_eq!(cluster.curl(&["-k", "-H", &token, &url]), "403", "{path}");
    }
}

fn certificate(cluster: &Cluster) {
    let port = cluster.kubelet_port();
    let ca = cluster.path("pki/ca.crt");
    let (url, to) = (format!("https://n1:{port}/"), format!("n1:{port}:192.0.2.2:{port}"));
    let ca = ca.to_str().expect("text");
    assert_eq!(cluster.curl(&["--cacert", ca, "--connect-to", &to, &url]), "401");
    let other = format!("https://n2:{port}/");
    let to = format!("n2:{port}:192.0.2.2:{port}");
    assert_eq!(cluster.curl(&["--cacert", ca, "--connect-to", &to, &other]), "000");
}

fn pids(cluster: &Cluster) {
    let group = cluster.world.group("kubepods");
    let find = format!(
        "find /sys/fs/cgroup/*{group} /sys/fs/cgroup{group} -name pids.max 2>/dev/null | xargs cat"
    );
    let limits = run(std::process::Command::new("sh").args(["-c", &find]));
    let limits: Vec<i64> = limits.lines().filter_map(|line| line.parse().ok()).collect();
    assert!(limits.iter().any(|limit| (1..=4096).contains(limit)), "{limits:?}");
}

fn seccomp(cluster: &Cluster) {
    let status = cluster.exec("grep Seccomp: /proc/self/status");
    assert_eq!(status.split_whitespace().last(), Some("2"), "{status}");
    let refused = cluster.exec("mount -t tmpfs x /tmp 2>&1; unshare -U true 2>&1; true");
    assert!(refused.contains("not permitted"), "{refused}");
}
