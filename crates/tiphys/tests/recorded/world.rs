//! The objects that the cases start from, created over the API: each is created, then its status is written.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use client::{Client, Kubeconfig};
use http::{HeaderMap, HeaderValue, Method, header};
use regex::{Captures, Regex};
use serde_json::Value;
use tokio::{runtime::Runtime, task::JoinSet};

use super::{cases::folder, normal::regex};

/// Timeout of a wait; reached only by a failing test.
const PATIENCE: Duration = Duration::from_mins(1);

/// Resources that a case may have created in the namespace `work`.
const SCRATCH: [(&str, &str); 9] = [
    (
        "/api/v1",
        "pods services configmaps secrets replicationcontrollers resourcequotas limitranges podtemplates endpoints \
         events persistentvolumeclaims",
    ),
    ("/apis/apps/v1", "deployments replicasets statefulsets daemonsets controllerrevisions"),
    ("/apis/batch/v1", "jobs cronjobs"),
    ("/apis/autoscaling/v2", "horizontalpodautoscalers"),
    ("/apis/policy/v1", "poddisruptionbudgets"),
    ("/apis/networking.k8s.io/v1", "ingresses networkpolicies"),
    ("/apis/rbac.authorization.k8s.io/v1", "roles rolebindings"),
    ("/apis/fleet.example.com/v1", "boats"),
    ("/api/v1", "serviceaccounts?fieldSelector=metadata.name!%3Ddefault"),
];

static TYPE: LazyLock<Regex> = LazyLock::new(|| regex(r"(?m)^(apiVersion|kind): *(\S+)"));
static METADATA: LazyLock<Regex> = LazyLock::new(|| regex(r"(?m)^metadata:(.*(?:\n .*)*)"));
static NAME: LazyLock<Regex> = LazyLock::new(|| regex(r"\bname: *([^\s,}]+)"));
static NAMESPACE: LazyLock<Regex> = LazyLock::new(|| regex(r"\bnamespace: *([^\s,}]+)"));
static UID: LazyLock<Regex> = LazyLock::new(|| regex(r"\$\{uid:([^}]+)\}"));
static SEPARATOR: LazyLock<Regex> = LazyLock::new(|| regex(r"(?m)^---$"));
static STATUS: LazyLock<Regex> = LazyLock::new(|| regex(r"(?m)^status:"));

/// A client of the administrator.
pub(crate) struct World {
    client: Client,
    runtime: Runtime,
}

impl World {
    /// Creates the objects as the user of a kubeconfig.
    pub(crate) fn build(kubeconfig: &Path) -> Self {
        let config = Kubeconfig::read(kubeconfig).and_then(|config| config.config(None));
        let client = Client::new(config.expect("a good kubeconfig").user_agent("world/1"));
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let world = Self { client, runtime: runtime.expect("a runtime") };
        let mut files: Vec<PathBuf> = fs::read_dir(folder().join("world"))
            .expect("the folder")
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "yaml"))
            .collect();
        files.sort();
        let mut uids = HashMap::new();
        for file in files {
            for document in SEPARATOR.split(&fs::read_to_string(&file).expect("a file of text")) {
                world.create(document, &mut uids);
            }
        }
        world
    }

    fn create(&self, document: &str, uids: &mut HashMap<String, String>) {
        let (mut version, mut kind) = ("", "");
        for found in TYPE.captures_iter(document) {
            let value = found.get(2).expect("a group of the pattern").as_str();
            *(if &found[1] == "kind" { &mut kind } else { &mut version }) = value;
        }
        let metadata = &METADATA.captures(document).expect("metadata")[1];
        let name = &NAME.captures(metadata).expect("a name")[1];
        let namespace = NAMESPACE.captures(metadata).map(|found| found[1].to_owned());
        let document = UID.replace_all(document, |found: &Captures<'_>| uids[&found[1]].clone());

        let collection = self.collection(version, kind, namespace.as_deref());
        let path = format!("{collection}/{name}");
        let end = Instant::now() + PATIENCE;
        let created = loop {
            let (mut code, mut answer) = self.send(Method::POST, &collection, &document);
            if code == 409 {
                (code, answer) = self.send(Method::GET, &path, "");
            }
            match code {
                200..300 => break answer,
                404 | 429 | 500 | 503 if Instant::now() < end => {
                    thread::sleep(Duration::from_millis(100));
                }
                _ => panic!("{path}: {answer}"),
            }
        };
        let value =
            |key: &str| created["metadata"][key].as_str().expect("every object has it").to_owned();
        let place = namespace.map_or(String::new(), |namespace| format!("{namespace}/"));
        uids.insert(format!("{kind}/{place}{name}"), value("uid"));
        if STATUS.is_match(&document) {
            let version = value("resourceVersion");
            let document =
                match document.contains("\nmetadata: {") || document.starts_with("metadata: {") {
                    true => document.replacen(
                        "metadata: {",
                        &format!("metadata: {{resourceVersion: \"{version}\", "),
                        1,
                    ),
                    false => document.replacen(
                        "metadata:\n",
                        &format!("metadata:\n  resourceVersion: \"{version}\"\n"),
                        1,
                    ),
                };
            let (code, answer) = self.send(Method::PUT, &format!("{path}/status"), &document);
            assert!(code < 300, "status of {path}: {answer}");
        }
    }

    /// The path of a kind's collection, from discovery. A custom resource is served with a delay.
    fn collection(&self, version: &str, kind: &str, namespace: Option<&str>) -> String {
        let base = if version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{version}") };
        let end = Instant::now() + PATIENCE;
        loop {
            let (_, list) = self.send(Method::GET, &base, "");
            let mut resources = list["resources"].as_array().into_iter().flatten();
            let plural = |resource: &Value| {
                let name = resource["name"].as_str()?;
                (resource["kind"] == kind && !name.contains('/')).then(|| name.to_owned())
            };
            let plural = resources.find_map(plural);
            let namespace =
                namespace.map_or(String::new(), |namespace| format!("/namespaces/{namespace}"));
            if let Some(plural) = plural {
                return format!("{base}{namespace}/{plural}");
            }
            assert!(Instant::now() < end, "the server has no {version} {kind}: {list}");
            thread::sleep(Duration::from_millis(100));
        }
    }

    fn send(&self, method: Method, path: &str, body: &str) -> (u16, Value) {
        let body = Bytes::from(body.to_owned());
        self.runtime.block_on(send(
            self.client.clone(),
            method,
            path.to_owned(),
            "application/yaml",
            body,
        ))
    }

    /// Deletes the objects that a case has left in the namespace `work`.
    pub(crate) fn empty_scratch(&self) {
        const OPTIONS: &str = r#"{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"propagationPolicy":"Background"}"#;
        self.runtime.block_on(async {
            let mut tasks = JoinSet::new();
            for (base, plurals) in SCRATCH {
                for plural in plurals.split_whitespace() {
                    let path = format!("{base}/namespaces/work/{plural}");
                    let body = Bytes::from_static(OPTIONS.as_bytes());
                    tasks.spawn(send(
                        self.client.clone(),
                        Method::DELETE,
                        path,
                        "application/json",
                        body,
                    ));
                }
            }
            tasks.join_all().await;
        });
    }
}

async fn send(
    client: Client,
    method: Method,
    path: String,
    kind: &'static str,
    body: Bytes,
) -> (u16, Value) {
    let mut headers = HeaderMap::new();
    if !body.is_empty() {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    let answer = client.request(method, &path, headers, body).await.expect("the server answers");
    let code = answer.status.as_u16();
    let bytes = answer.bytes().await.expect("a whole answer");
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}
