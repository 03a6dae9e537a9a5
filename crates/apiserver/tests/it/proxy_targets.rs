//! Targets of proxied requests: the server connects only to permitted addresses, follows no
//! redirects, and opens a tunnel only if the target agreed to the upgrade.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use api::{
    core::{Endpoints, Node, Pod, Service},
    discovery::EndpointSlice,
};
use client::{Client, ConnectionUse, Connector as _, Patch};
use object::{NamespacedName, SystemClock, Value};
use server::UserInfo;
use tempfile::TempDir;
use testkit::TestCluster;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{UnixListener, UnixStream},
    task::JoinSet,
};

use crate::{default_account, flags::get, hostile_names::allow, of, pod, tree};

/// An egress proxy between the server and all pods, Services and nodes, which responds in their
/// place.
struct Between {
    folder: TempDir,
    /// The targets of CONNECT.
    asked: Arc<Mutex<Vec<String>>>,
    /// The requests that were received.
    heard: Arc<Mutex<String>>,
    _tasks: JoinSet<()>,
}

impl Between {
    /// Every connection gets the same response, whatever the request.
    fn start(answer: &'static str) -> Self {
        let folder = TempDir::new().unwrap();
        let listener = UnixListener::bind(folder.path().join("proxy.sock")).unwrap();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let heard = Arc::<Mutex<String>>::default();
        let (seen, said, mut tasks) = (asked.clone(), heard.clone(), JoinSet::new());
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                open.spawn(serve(stream, answer, seen.clone(), said.clone()));
            }
        });
        Self { folder, asked, heard, _tasks: tasks }
    }

    fn file(&self) -> PathBuf {
        let file = self.folder.path().join("egress.yaml");
        let socket = self.folder.path().join("proxy.sock");
        let text = format!(
            "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\n\
             egressSelections:\n- name: cluster\n  connection:\n    proxyProtocol: HTTPConnect\n    \
             transport: {{uds: {{udsName: {}}}}}\n",
            socket.display()
        );
        std::fs::write(&file, text).unwrap();
        file
    }

    async fn cluster(&self) -> TestCluster {
        let file = self.file();
        let clock = Arc::new(SystemClock);
        let cluster = TestCluster::start_with_flags(clock, |flags| {
            flags.egress_selector_config_file = Some(file);
        })
        .await;
        default_account(&cluster.admin_client()).await;
        cluster
    }

    fn take_asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

async fn serve(
    mut stream: UnixStream,
    answer: &'static str,
    asked: Arc<Mutex<Vec<String>>>,
    heard: Arc<Mutex<String>>,
) {
    let head = read_head(&mut stream).await;
    asked.lock().unwrap().push(head.split(' ').nth(1).unwrap_or_default().to_owned());
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    let head = read_head(&mut stream).await;
    heard.lock().unwrap().push_str(&head);
    stream.write_all(answer.as_bytes()).await.unwrap();
    let mut rest = [0; 4096];
    while let Ok(n @ 1..) = stream.read(&mut rest).await {
        heard.lock().unwrap().push_str(&String::from_utf8_lossy(&rest[..n]));
    }
}

async fn read_head(stream: &mut UnixStream) -> String {
    let mut said = Vec::new();
    while !said.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => said.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&said).into_owned()
}

/// Sends this on a connection of the user; returns everything that is received, and whether the
/// server closed the connection.
async fn raw(cluster: &TestCluster, user: &str, said: &str) -> (String, bool) {
    let groups: &[&str] = if user == "admin" { &["system:masters"] } else { &[] };
    let pipe = cluster.running.pipe(UserInfo::new(user, groups));
    let mut io = pipe.connect(ConnectionUse::Upgrade).await.unwrap().io;
    io.write_all(said.as_bytes()).await.unwrap();
    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        match tokio::time::timeout(Duration::from_secs(3), io.read(&mut piece)).await {
            Ok(Ok(n @ 1..)) => all.extend_from_slice(&piece[..n]),
            ended => return (String::from_utf8_lossy(&all).into_owned(), ended.is_ok()),
        }
    }
}

/// Creates a pod with these addresses in its status; returns false if they are rejected.
async fn with_addresses(admin: &Client, name: &str, ips: &[&str]) -> bool {
    of::<Pod>(admin).create(pod(name, "n1")).await.unwrap();
    let list = ips.iter().map(|ip| tree(&format!(r#"{{"ip":"{ip}"}}"#))).collect::<Value>();
    let mut status = tree(r#"{"status":{"phase":"Running"}}"#);
    status["status"]["podIP"] = ips[0].into();
    status["status"]["podIPs"] = list;
    let key = NamespacedName::new("default", name);
    of::<Pod>(admin).patch_status(&key, &Patch::Merge(status)).await.is_ok()
}

/// Creates a Service with one endpoint.
async fn service(admin: &Client, name: &str, ip: &str, target: &str) {
    let made = tree(&format!(
        r#"{{"metadata":{{"name":"{name}"}},"spec":{{"ports":[{{"name":"w","port":80}}]}}}}"#
    ));
    of::<Service>(admin).create(made).await.unwrap();
    let slice = tree(&format!(
        r#"{{"metadata":{{"name":"{name}-1","labels":{{"kubernetes.io/service-name":"{name}"}}}},
        "addressType":"IPv4","ports":[{{"name":"w","port":8080}}],
        "endpoints":[{{"addresses":["{ip}"],"conditions":{{"ready":true}}{target}}}]}}"#
    ));
    of::<EndpointSlice>(admin).create(slice).await.unwrap();
}

const PAGE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_leads_to_pods_of_its_own_namespace_only() {
    let between = Between::start(PAGE);
    let cluster = between.cluster().await;
    let admin = cluster.admin_client();
    let other = r#"{"metadata":{"name":"other"}}"#;
    of::<api::core::Namespace>(&admin).create(tree(other)).await.unwrap();
    assert!(with_addresses(&admin, "p", &["10.1.0.7"]).await);
    let target = |namespace: &str, name: &str| {
        format!(r#","targetRef":{{"kind":"Pod","namespace":"{namespace}","name":"{name}"}}"#)
    };
    service(&admin, "good", "10.1.0.7", &target("default", "p")).await;
    service(&admin, "nobody", "10.1.0.7", "").await;
    service(&admin, "foreign", "10.1.0.7", &target("other", "p")).await;
    service(&admin, "gone", "10.1.0.7", &target("default", "q")).await;
    service(&admin, "lying", "10.96.0.1", &target("default", "p")).await;
    // Manually created Endpoints, which may name any address.
    let made = r#"{"metadata":{"name":"old"},"spec":{"ports":[{"name":"w","port":80}]}}"#;
    of::<Service>(&admin).create(tree(made)).await.unwrap();
    let endpoints = r#"{"metadata":{"name":"old"},"subsets":[{"addresses":[{"ip":"10.96.0.1"}],
        "ports":[{"name":"w","port":443}]}]}"#;
    of::<Endpoints>(&admin).create(tree(endpoints)).await.unwrap();
    let path = |name: &str| format!("/api/v1/namespaces/default/services/{name}/proxy/x/");
    for name in ["nobody", "foreign", "gone", "lying", "old"] {
        for name in [format!("{name}:w"), format!("http:{name}:80")] {
            assert_eq!(get(&admin, &path(&name)).await.0, 503, "{name}");
        }
    }
    assert_eq!(between.take_asked(), Vec::<String>::new());
    for name in ["good:w", "good:80", "http:good:80"] {
        assert_eq!(get(&admin, &path(name)).await.0, 200, "{name}");
        assert_eq!(between.take_asked(), ["10.1.0.7:8080"], "{name}");
    }
    assert!(between.heard.lock().unwrap().starts_with("GET /x/ HTTP/1.1\r\n"));
    for name in ["ftp:good:80", "a:b:c:d", ":80"] {
        assert_eq!(get(&admin, &path(name)).await.0, 400, "{name}");
    }
    assert_eq!(between.take_asked(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_led_to_the_machine_itself_or_its_links() {
    let between = Between::start(PAGE);
    let cluster = between.cluster().await;
    let admin = cluster.admin_client();
    let bad = [
        "127.0.0.1",
        "169.254.169.254",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "fe80::1",
        "::",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
    ];
    for (n, ip) in bad.iter().enumerate() {
        let name = format!("p{n}");
        if !with_addresses(&admin, &name, &[ip]).await {
            assert!(ip.starts_with("::ffff:"), "{ip} is well written");
            continue;
        }
        let (code, said) =
            get(&admin, &format!("/api/v1/namespaces/default/pods/{name}:80/proxy/")).await;
        assert_eq!((code, said["message"].as_str()), (400, Some("address not allowed")), "{ip}");
    }
    let names = ["localhost", "LOCALHOST"];
    for (n, address) in bad.iter().chain(&names).enumerate() {
        let name = format!("n{n}");
        let node = tree(&format!(r#"{{"metadata":{{"name":"{name}"}}}}"#));
        of::<Node>(&admin).create(node).await.unwrap();
        let ty = if names.contains(address) { "Hostname" } else { "InternalIP" };
        let status = tree(&format!(
            r#"{{"status":{{"addresses":[{{"type":"{ty}","address":"{address}"}}]}}}}"#
        ));
        let key = NamespacedName::new("", &name);
        of::<Node>(&admin).patch_status(&key, &Patch::Merge(status)).await.unwrap();
        for name in [name.clone(), format!("{name}:10250"), format!("http:{name}:2379")] {
            let (code, said) = get(&admin, &format!("/api/v1/nodes/{name}/proxy/pods")).await;
            let said = said["message"].as_str();
            assert_eq!((code, said), (400, Some("address not allowed")), "{address}");
        }
    }
    assert_eq!(between.take_asked(), Vec::<String>::new());
}

const UPGRADE: &str = "host: a\r\nconnection: Upgrade\r\nupgrade: websocket\r\n";

async fn pod_behind(answer: &'static str) -> (Between, TestCluster) {
    let between = Between::start(answer);
    let cluster = between.cluster().await;
    assert!(with_addresses(&cluster.admin_client(), "p", &["10.1.0.7"]).await);
    (between, cluster)
}

const PROXIED: &str = "/api/v1/namespaces/default/pods/p:80/proxy";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tunnel_opens_only_to_who_agrees() {
    let refusal = "HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\nno";
    let (between, cluster) = pod_behind(refusal).await;
    let first = format!("GET {PROXIED}/a HTTP/1.1\r\n{UPGRADE}\r\n");
    let second = "GET /secret HTTP/1.1\r\nhost: a\r\n\r\n";
    let (said, closed) = raw(&cluster, "admin", &format!("{first}{second}")).await;
    assert!(said.starts_with("HTTP/1.1 400"), "{said}");
    assert!(closed, "what follows is lost with the connection");
    assert_eq!(said.matches("HTTP/1.1").count(), 1, "{said}");
    assert!(!between.heard.lock().unwrap().contains("secret"));

    let (_between, cluster) = pod_behind(PAGE).await;
    let (said, closed) = raw(&cluster, "admin", &format!("{first}{second}")).await;
    assert!(said.starts_with("HTTP/1.1 5") && closed, "{said}");
    assert!(said.contains("invalid upgrade response: status code 200"), "{said}");

    let agreed = "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\nhello";
    let (between, cluster) = pod_behind(agreed).await;
    let (said, _) = raw(&cluster, "admin", &format!("{first}tunnelled")).await;
    assert!(said.starts_with("HTTP/1.1 101") && said.ends_with("hello"), "{said}");
    assert!(between.heard.lock().unwrap().ends_with("tunnelled"));
    // The request is not an upgrade.
    for head in ["host: a\r\n", "host: a\r\nupgrade: websocket\r\n"] {
        let plain = format!("GET {PROXIED}/a HTTP/1.1\r\n{head}\r\n{second}");
        let (said, _) = raw(&cluster, "admin", &plain).await;
        assert!(said.starts_with("HTTP/1.1 502"), "{said}");
        assert!(!said.contains("hello"), "{said}");
    }
    assert!(!between.heard.lock().unwrap().contains("secret"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_followed_elsewhere_and_no_credentials_leave() {
    let moved =
        "HTTP/1.1 302 Found\r\nlocation: http://10.1.0.8/canary\r\ncontent-length: 0\r\n\r\n";
    let (between, cluster) = pod_behind(moved).await;
    let asked = format!(
        "GET {PROXIED}/a HTTP/1.1\r\nhost: a\r\nauthorization: Bearer t\r\nx-remote-user: root\r\n\
         X-Remote-Extra-A: b\r\nimpersonate-user: ann\r\nproxy-authorization: p\r\n\
         connection: close, x-hop\r\nx-hop: 1\r\nx-kept: 1\r\n\r\n"
    );
    let (said, _) = raw(&cluster, "admin", &asked).await;
    assert!(said.starts_with("HTTP/1.1 403"), "nobody may ann: {said}");
    let asked = asked.replace("impersonate-user: ann\r\n", "");
    let (said, _) = raw(&cluster, "admin", &asked).await;
    assert!(said.starts_with("HTTP/1.1 302"), "{said}");
    assert_eq!(between.take_asked(), ["10.1.0.7:80"]);
    let heard = between.heard.lock().unwrap().to_lowercase();
    assert!(heard.contains("x-kept: 1"), "{heard}");
    for gone in ["authorization", "bearer", "x-remote", "impersonate", "x-hop"] {
        assert!(!heard.contains(gone), "{gone}: {heard}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_into_a_pod_is_made_not_read() {
    let kubelet = crate::backend::Backend::start(|_, _| tree("{}")).await;
    let cluster = TestCluster::start().await;
    crate::connections::with_kubelet(&kubelet, &cluster).await;
    let admin = cluster.admin_client();
    let parts = r#""resources":["pods/exec","pods/attach","pods/portforward"]"#;
    allow(&admin, "reader", &format!(r#"[{{"apiGroups":[""],{parts},"verbs":["get"]}}]"#)).await;
    let both = format!(r#"[{{"apiGroups":[""],{parts},"verbs":["get","create"]}}]"#);
    allow(&admin, "maker", &both).await;
    for part in ["exec?command=id", "attach?stdin=1", "portforward?ports=80"] {
        let path = format!("/api/v1/namespaces/default/pods/p/{part}");
        for head in ["host: a\r\n", UPGRADE] {
            let asked = format!("GET {path} HTTP/1.1\r\n{head}\r\n");
            let (said, _) = raw(&cluster, "reader", &asked).await;
            assert!(said.starts_with("HTTP/1.1 403"), "{part}: {said}");
            assert!(said.contains(r#"pods \"p\" is forbidden"#), "{part}: {said}");
        }
        assert_eq!(kubelet.connections.load(std::sync::atomic::Ordering::Relaxed), 0);
    }
    let path = "/api/v1/namespaces/default/pods/p/exec?command=id";
    let (said, _) = raw(&cluster, "maker", &format!("GET {path} HTTP/1.1\r\n{UPGRADE}\r\n")).await;
    assert!(said.contains("invalid upgrade response"), "the kubelet was asked: {said}");
    assert_eq!(kubelet.connections.load(std::sync::atomic::Ordering::Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_through_a_node_is_made_not_read() {
    let between = Between::start(PAGE);
    let cluster = between.cluster().await;
    let admin = cluster.admin_client();
    of::<Node>(&admin).create(tree(r#"{"metadata":{"name":"n1"}}"#)).await.unwrap();
    let status = r#"{"status":{"addresses":[{"type":"InternalIP","address":"10.1.0.1"}]}}"#;
    let key = NamespacedName::new("", "n1");
    of::<Node>(&admin).patch_status(&key, &Patch::Merge(tree(status))).await.unwrap();
    let role = r#"{"metadata":{"name":"n"},"rules":[{"apiGroups":[""],"resources":["nodes/proxy"],"verbs":["get"]}]}"#;
    of::<api::rbac::ClusterRole>(&admin).create(tree(role)).await.unwrap();
    let binding = r#"{"metadata":{"name":"n"},"roleRef":{"kind":"ClusterRole","name":"n","apiGroup":"rbac.authorization.k8s.io"},
        "subjects":[{"kind":"User","name":"reader","apiGroup":"rbac.authorization.k8s.io"}]}"#;
    of::<api::rbac::ClusterRoleBinding>(&admin).create(tree(binding)).await.unwrap();
    for node in ["n1", "n1:10250", "https:n1:10250"] {
        for path in ["exec/default/p/c?command=id", "//exec/a/b/c", "%65xec/a/b/c", "attach/a/b/c"]
        {
            let path = format!("/api/v1/nodes/{node}/proxy/{path}");
            let asked = format!("GET {path} HTTP/1.1\r\n{UPGRADE}\r\n");
            let (said, _) = raw(&cluster, "reader", &asked).await;
            assert!(said.starts_with("HTTP/1.1 403"), "{path}: {said}");
        }
    }
    assert_eq!(between.take_asked(), Vec::<String>::new());
}

/// A redirect by a webhook is not followed, and its body is not shown to the client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_hook_sends_the_server_elsewhere() {
    let canary = crate::backend::Backend::start(|_, _| tree("{}")).await;
    let place = canary.url("/canary");
    let hook = crate::backend::Backend::start(move |_, _| {
        tree(&format!(r#"{{"location":"{place}","secret":"of the inside"}}"#))
    })
    .await;
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let configuration = crate::webhooks::hook(&hook, "/", "");
    of::<api::admissionregistration::ValidatingWebhookConfiguration>(&admin)
        .create(configuration)
        .await
        .unwrap();
    let made = of::<api::core::ConfigMap>(&admin).create(crate::config_map("a")).await;
    let said = crate::message(made);
    assert!(!said.contains("inside"), "{said}");
    assert_eq!(canary.connections.load(std::sync::atomic::Ordering::Relaxed), 0);
}
