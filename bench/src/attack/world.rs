//! The cluster under attack: API server, controllers and scheduler in this process, connected by pipes, with storage
//! in memory, in a separate network namespace.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use client::{Client, PipeConnector};
use object::SystemClock;
use runtime::Context;
use rustix::fs::{Mode, OFlags, open};
use serde_json::Value;
use server::UserInfo;
use tempfile::TempDir;
use testkit::TestCluster;

use super::{
    expand::Known,
    growth::Rejected,
    hostile::{self, Hostile},
    node::Node,
    request::{Caller, Request},
    send::{self, Answer},
};

const GROUP: &str = "tiphys-attack-";
/// Timeout of the attack's own requests.
const PATIENCE: Duration = Duration::from_mins(1);

/// The cluster under attack.
pub(crate) struct World {
    pub(crate) cluster: TestCluster,
    admin: PipeConnector,
    tenant: PipeConnector,
    node: PipeConnector,
    anonymous: PipeConnector,
    hostile: Option<Hostile>,
    /// Uid and resourceVersion of objects by path, from responses.
    objects: Mutex<HashMap<String, [String; 2]>>,
    /// Controllers and scheduler.
    pub(crate) contexts: Vec<Context>,
    /// Requests that were rejected.
    pub(crate) rejected: Rejected,
    kubelet: Option<(Node, TempDir)>,
}

/// The parent cgroup of this process's pods.
pub(crate) fn group(process: u32) -> String {
    format!("{GROUP}{process}")
}

/// Removes the cgroups of processes that died without removing them.
pub(crate) fn remove_stale_groups() {
    let Ok(hierarchies) = sys::cgroup::Hierarchies::detect() else { return };
    let entrances = hierarchies.group("/").map(|root| root.procs_files()).unwrap_or_default();
    for folder in entrances.iter().filter_map(|file| std::fs::read_dir(file.parent()?).ok()) {
        for name in folder.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
            let process = name.strip_prefix(GROUP).and_then(|process| process.parse::<u32>().ok());
            if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
                let _ = hierarchies.group(&name).and_then(|group| group.remove());
            }
        }
    }
}

/// Moves this process into new network and mount namespaces, and makes the file systems read-only: a request cannot
/// make the server connect or write to anything outside. Must be called before a second thread starts. Returns
/// `false` where that is not permitted.
pub(crate) fn isolate() -> bool {
    let isolated = || -> Result<()> {
        sys::namespace::unshare(sys::namespace::NETWORK | sys::namespace::MOUNT)?;
        let folder = |path: &str| open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let root = folder("/")?;
        sys::mount::set_propagation(&root, sys::mount::Propagation::Private, true)?;
        sys::mount::set_attributes(&root, sys::mount::READ_ONLY, true)?;
        // The cgroups of pods are real, below a cgroup of this process.
        for processes in sys::cgroup::Hierarchies::detect()?.group("/")?.procs_files() {
            let path = processes.parent().context("no folder")?;
            sys::mount::clear_attributes(
                open(path, OFlags::PATH, Mode::empty())?,
                sys::mount::READ_ONLY,
            )?;
        }
        let own =
            sys::mount::new_filesystem("tmpfs", &[("mode", Some("0700"))], sys::mount::NO_DEV)?;
        sys::mount::attach_tree(&own, folder("/tmp")?)?;
        sys::namespace::loopback_up()?;
        let mut socket = sys::netlink::Socket::open(sys::netlink::NetlinkFamily::Route)?;
        let link = sys::netlink::link(&mut socket, "lo")?;
        let address =
            sys::netlink::Address { index: link.index, ip: hostile::ADDRESS.into(), prefix: 32 };
        Ok(sys::netlink::add_address(&mut socket, address)?)
    };
    isolated().is_ok()
}

impl World {
    /// Starts the cluster. `isolated`: whether `isolate` has succeeded. `everything`: enables all alpha and beta
    /// features.
    pub(crate) async fn start(isolated: bool, everything: bool) -> Result<Self> {
        let cluster = TestCluster::start_with_flags(Arc::new(SystemClock), |flags| {
            flags.runtime_config = vec!["api/all=true".into()];
            if everything {
                flags.feature_gates = vec!["AllAlpha=true".into(), "AllBeta=true".into()];
            }
        })
        .await;
        let running = &cluster.running;
        let user = |name: &str, groups: &[&str]| running.pipe(UserInfo::new(name, groups));
        let hostile = if isolated { Some(Hostile::start().await?) } else { None };
        let contexts = vec![controllers(&cluster)?, scheduler(&cluster)];
        let node = if isolated {
            let client = client(&cluster, "system:node:n1", &["system:nodes"]);
            let trust =
                pki::ClientCaVerifier::new(std::slice::from_ref(running.cluster.ca.certificate()))?;
            let folder = TempDir::new()?;
            let started =
                Node::start(&client, trust, folder.path(), &group(std::process::id())).await;
            Some((started.context("the kubelet")?, folder))
        } else {
            None
        };
        let world = Self {
            admin: user("admin", &["system:masters", "system:authenticated"]),
            tenant: user("tenant", &["system:authenticated"]),
            node: user("system:node:n1", &["system:nodes", "system:authenticated"]),
            anonymous: running.open_pipe(),
            hostile,
            objects: Mutex::default(),
            contexts,
            rejected: Rejected::default(),
            kubelet: node,
            cluster,
        };
        world.furnish().await?;
        Ok(world)
    }

    fn pipe(&self, caller: Caller) -> &PipeConnector {
        match caller {
            Caller::Admin => &self.admin,
            Caller::Tenant => &self.tenant,
            Caller::Node => &self.node,
            Caller::Anonymous => &self.anonymous,
        }
    }

    /// Sends a request, and records the object in the response.
    pub(crate) async fn send(&self, request: &Request, patience: Duration) -> Result<Answer> {
        let bytes = send::bytes(request, self);
        let mut answer =
            send::exchange(self.pipe(request.user), &bytes, request.is_stream(), patience).await?;
        answer.object = self.remember(request, &answer);
        Ok(answer)
    }

    /// Sends one of the attack's own requests.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: Option<&str>) -> Result<Answer> {
        let request = Request::new(Caller::Admin, method, path);
        let request = match (method, body) {
            ("PATCH", Some(body)) => {
                let request = request.header("content-type", "application/merge-patch+json");
                request.body(super::request::Body::Text(body.to_owned()))
            }
            (_, Some(body)) => request.json(body),
            (_, None) => request,
        };
        self.send(&request, PATIENCE).await
    }

    /// Records uid and resourceVersion of the object in a response. Returns its path.
    fn remember(&self, request: &Request, answer: &Answer) -> Option<String> {
        if !(200..300).contains(&answer.code) || answer.body.len() > 1 << 20 {
            return None;
        }
        let at = request.bare_path();
        let path_of = |name: &str| match request.method.as_str() {
            "POST" => format!("{at}/{name}"),
            _ => at.trim_end_matches("/status").to_owned(),
        };
        let Ok(object) = serde_json::from_slice::<Value>(&answer.body) else {
            // It is nested too deep to be parsed here, but its path is known.
            let (_, meta) = str::from_utf8(&answer.body).ok()?.split_once(r#""metadata":{"#)?;
            return Some(path_of(meta.split_once(r#""name":""#)?.1.split('"').next()?));
        };
        let meta = &object["metadata"];
        let [name, uid, version] =
            ["name", "uid", "resourceVersion"].map(|field| meta[field].as_str());
        let (name, uid, version) = (name?, uid?, version?);
        let path = path_of(name);
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        if objects.len() > 20_000 {
            objects.clear();
        }
        objects.insert(path.clone(), [uid.to_owned(), version.to_owned()]);
        Some(path)
    }

    /// Creates what the attack needs and what does not exist yet: namespaces, RBAC, nodes, a Service of the hostile
    /// backend.
    pub(crate) async fn furnish(&self) -> Result<()> {
        for (path, body) in FURNITURE {
            let body = body.replace("ADDRESS", &hostile::ADDRESS.to_string());
            let answer = self.ask("POST", path, Some(&body)).await?;
            ensure!(
                matches!(answer.code, 201 | 409 | 403),
                "{path}: {} {}",
                answer.code,
                String::from_utf8_lossy(&answer.body)
            );
        }
        // The first node has a kubelet that reports its status.
        let nodes: &[&str] = if self.kubelet.is_some() { &["n2"] } else { &["n1", "n2"] };
        for node in nodes {
            let status = NODE.replace("ADDRESS", &hostile::ADDRESS.to_string());
            self.ask("PATCH", &format!("/api/v1/nodes/{node}/status"), Some(&status)).await?;
            self.ask(
                "PATCH",
                &format!("/api/v1/nodes/{node}"),
                Some(r#"{"spec":{"taints":null}}"#),
            )
            .await?;
        }
        let ip = hostile::ADDRESS;
        let status = format!(
            r#"{{"status":{{"phase":"Running","podIP":"{ip}","podIPs":[{{"ip":"{ip}"}}]}}}}"#
        );
        self.ask("PATCH", "/api/v1/namespaces/a/pods/hostile/status", Some(&status)).await?;
        Ok(())
    }
}

impl Known for World {
    fn lookup(&self, word: &str, argument: &str) -> Option<String> {
        let certificate = || self.hostile.as_ref().map_or("", |hostile| &hostile.authority);
        match word {
            "hostile" => Some(hostile::ADDRESS.to_string()),
            "hostile-ca" => Some(STANDARD.encode(certificate())),
            "uid" | "version" => {
                let objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
                objects.get(argument).map(|known| known[usize::from(word == "version")].clone())
            }
            _ => None,
        }
    }
}

/// Starts all controllers, each with its own service account.
fn controllers(cluster: &TestCluster) -> Result<Context> {
    let pki = &cluster.running.cluster;
    let authority = pki::CertificateAuthority::from_pem(
        pki.ca.certificate_pem().as_bytes(),
        pki.ca.key_pem().as_bytes(),
    )?;
    let key = pki::PrivateKey::from_pem(pki.service_accounts.to_pem().as_bytes())?;
    let signing = controllers::SigningConfig {
        authority: Arc::new(authority),
        max_duration: Duration::from_hours(24),
    };
    let config = controllers::Config {
        controllers: vec![
            "*".into(),
            "bootstrap-signer-controller".into(),
            "token-cleaner-controller".into(),
        ],
        signing: Some(signing),
        token_signer: Some(Arc::new(pki::TokenSigner::new(key, String::new()))),
        cluster_cidr: "10.200.0.0/16".into(),
        service_cidr: "10.96.0.0/12".into(),
        root_ca: pki.ca.certificate_pem(),
        node_monitor_grace: Duration::from_hours(10),
        ..controllers::Config::default()
    };
    let cx = Context::new(&client(cluster, "system:kube-controller-manager", &[]));
    let groups = ["system:serviceaccounts", "system:serviceaccounts:kube-system"];
    controllers::start(&cx, &config, &|account| {
        client(cluster, &format!("system:serviceaccount:kube-system:{account}"), &groups)
    });
    Ok(cx)
}

fn scheduler(cluster: &TestCluster) -> Context {
    let cx = Context::new(&client(cluster, "system:kube-scheduler", &[]));
    scheduler::start(&cx, scheduler::Config::default());
    cx
}

fn client(cluster: &TestCluster, name: &str, groups: &[&str]) -> Client {
    cluster.client_as(name, groups)
}

/// CPU time of this process so far.
pub(crate) fn cpu() -> Duration {
    cpu_of("self")
}

/// CPU time of a process so far.
pub(crate) fn cpu_of(process: &str) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let behind = stat.rsplit(')').next().unwrap_or_default();
    let ticks = behind
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|n| n.parse::<u64>().ok())
        .sum::<u64>();
    Duration::from_millis(ticks * 10)
}

const NODE: &str = r#"{"status":{"capacity":{"cpu":"64","memory":"64Gi","pods":"1000"},"allocatable":{"cpu":"64","memory":"64Gi","pods":"1000"},
    "addresses":[{"type":"InternalIP","address":"ADDRESS"}],"daemonEndpoints":{"kubeletEndpoint":{"Port":8443}},
    "conditions":[{"type":"Ready","status":"True","reason":"KubeletReady"}]}}"#;

const FURNITURE: &[(&str, &str)] = &[
    ("/api/v1/namespaces", r#"{"metadata":{"name":"a","labels":{"x":"z"}}}"#),
    ("/api/v1/namespaces", r#"{"metadata":{"name":"b"}}"#),
    ("/api/v1/namespaces", r#"{"metadata":{"name":"ping"}}"#),
    ("/api/v1/namespaces/a/serviceaccounts", r#"{"metadata":{"name":"default"}}"#),
    ("/api/v1/namespaces/b/serviceaccounts", r#"{"metadata":{"name":"default"}}"#),
    (
        "/api/v1/nodes",
        r#"{"metadata":{"name":"n1","labels":{"zone":"z","kubernetes.io/hostname":"n1"}}}"#,
    ),
    (
        "/api/v1/nodes",
        r#"{"metadata":{"name":"n2","labels":{"zone":"y"}},"spec":{"unschedulable":true}}"#,
    ),
    (
        "/api/v1/namespaces/a/services",
        r#"{"metadata":{"name":"hostile"},"spec":{"ports":[{"name":"http","port":80},{"name":"https","port":443}]}}"#,
    ),
    (
        "/api/v1/namespaces/a/endpoints",
        r#"{"metadata":{"name":"hostile"},"subsets":[{"addresses":[{"ip":"ADDRESS"}],"ports":[{"name":"http","port":80},{"name":"https","port":443}]}]}"#,
    ),
    (
        "/api/v1/namespaces/a/pods",
        r#"{"metadata":{"name":"hostile"},"spec":{"nodeName":"n2","containers":[{"name":"c","image":"image","ports":[{"containerPort":8080}]}]}}"#,
    ),
    ("/api/v1/namespaces/a/resourcequotas", QUOTA),
    ("/api/v1/namespaces/b/resourcequotas", QUOTA),
    ("/apis/rbac.authorization.k8s.io/v1/namespaces/a/rolebindings", TENANT),
    ("/apis/rbac.authorization.k8s.io/v1/namespaces/b/rolebindings", TENANT),
    (
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        r#"{"metadata":{"name":"anonymous-view"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"},"subjects":[{"kind":"User","name":"system:anonymous","apiGroup":"rbac.authorization.k8s.io"}]}"#,
    ),
];

/// Limits pods, which controllers create by themselves: a workload with 2^31 replicas would cost the attack's time.
/// Nothing else is limited, because a request that a quota rejects reaches no further code.
const QUOTA: &str = r#"{"metadata":{"name":"few"},"spec":{"hard":{"pods":"40"}}}"#;

const TENANT: &str = r#"{"metadata":{"name":"tenant"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"admin"},"subjects":[{"kind":"User","name":"tenant","apiGroup":"rbac.authorization.k8s.io"}]}"#;

/// Starts the cluster, with an error that explains what failed.
pub(crate) async fn start(isolated: bool, everything: bool) -> Result<World> {
    World::start(isolated, everything).await.context("the cluster did not start")
}

/// All base objects must be accepted: attacks that start from a rejected one would be useless.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_base_is_accepted() {
    let world = start(false, true).await.expect("a cluster");
    let (mut refused, mut number) = (Vec::new(), 0);
    for kind in super::kinds::all().expect("bases") {
        for which in 0..kind.bases.len() {
            number += 1;
            let object = kind.object(which, number).expect("JSON");
            let answer = world
                .ask("POST", &kind.collection("a"), Some(&object.to_string()))
                .await
                .expect("an answer");
            let names = kind.definition.names;
            // a Binding needs a pod
            if answer.code != 201 && names.kind != "Binding" {
                refused.push(format!(
                    "{} {}: {} {}",
                    names.api_version(),
                    names.kind,
                    answer.code,
                    super::judge::message(&answer)
                ));
            }
        }
    }
    assert!(refused.is_empty(), "{refused:#?}");
}
