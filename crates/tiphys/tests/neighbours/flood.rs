//! Floods of API requests with the token of the tenant's service account, sent from a process outside of the cluster:
//! what a pod with its own CPU could send.

use std::{
    fmt::Write as _,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use bytes::Bytes;
use client::{Auth, Client, Kubeconfig};
use http::{HeaderMap, HeaderValue, Method, header};
use sys::netlink::{NetworkNamespace, run_in_netns};
use tokio::sync::watch;

use crate::{measure, world::World};

const CONFIG_MAPS: &str = "/api/v1/namespaces/bad/configmaps";
const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/bad/resourceclaims?dryRun=All";
const DISCOVERY: [&str; 5] =
    ["/openapi/v2", "/apis", "/openapi/v3/api/v1", "/api/v1", "/openapi/v3/apis/apps/v1"];
const JSON: &str = "application/json";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
/// Number of the tenant's connections; its requests are spread over them.
const CONNECTIONS: usize = 8;

/// The kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    List,
    Table,
    Yaml,
    Get,
    Create,
    LargeCreate,
    Apply,
    Expressions,
    Discovery,
    Watch,
}

/// A running flood, which is stopped on drop.
pub(crate) struct Flood {
    stop: watch::Sender<bool>,
    thread: Option<thread::JoinHandle<()>>,
    answered: Arc<AtomicUsize>,
}

/// The clients of a flood.
struct Tenant {
    kind: Kind,
    clients: Vec<Client>,
    wide: String,
    answered: Arc<AtomicUsize>,
}

/// A client that authenticates with this token.
pub(crate) fn client(world: &World, token: &str) -> Client {
    let admin = world.path().join("kubeconfig/admin");
    let config = Kubeconfig::read(&admin).expect("a configuration");
    let config = config.anonymous_config(None).expect("a context");
    Client::new(config.auth(Auth::Token(token.to_owned())))
}

/// Creates objects for the lists.
pub(crate) fn fill(world: &World, count: usize) {
    let mut all = String::from("apiVersion: v1\nkind: List\nitems:\n");
    let data = "d".repeat(2000);
    for n in 0..count {
        let item = format!("metadata: {{name: c-{n}, namespace: bad}}, data: {{d: {data}}}");
        writeln!(all, "- {{apiVersion: v1, kind: ConfigMap, {item}}}").expect("in memory");
    }
    world.kubectl(&["create", "-f", &world.file("fill.yaml", &all)]);
}

impl Flood {
    /// Starts a flood with this number of concurrent requests.
    pub(crate) fn start(world: &World, kind: Kind, token: &str, at_a_time: usize) -> Self {
        let path = format!("/proc/{}/ns/net", world.pid("node").expect("a pid"));
        let namespace = NetworkNamespace::open(Path::new(&path)).expect("a network");
        let clients = (0..CONNECTIONS).map(|_| client(world, token)).collect();
        let answered = Arc::<AtomicUsize>::default();
        let pairs: Vec<_> = (0..3000).map(|n| format!(r#""key-{n}":"value {n}""#)).collect();
        let wide = pairs.join(",");
        let tenant = Arc::new(Tenant { kind, clients, wide, answered: answered.clone() });
        let (stop, stopped) = watch::channel(false);
        let group = measure::group(world, "attacker", 100);
        let thread = thread::spawn(move || {
            let flood = || {
                group.enter();
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let runtime = runtime.expect("a runtime");
                runtime.block_on(tenant.send(at_a_time, stopped));
                runtime.shutdown_background();
            };
            run_in_netns(&namespace, flood).expect("inside the network");
        });
        Self { stop, thread: Some(thread), answered }
    }

    pub(crate) fn answered(&self) -> usize {
        self.answered.load(Relaxed)
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Tenant {
    async fn send(self: Arc<Self>, at_a_time: usize, mut stopped: watch::Receiver<bool>) {
        for n in 0..at_a_time {
            let own = self.clone();
            #[expect(clippy::disallowed_methods, reason = "ends with the runtime")]
            tokio::spawn(async move {
                for round in 0.. {
                    if own.one(n, round).await {
                        own.answered.fetch_add(1, Relaxed);
                    } else {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
            });
        }
        let _ = stopped.wait_for(|stop| *stop).await;
    }

    /// Sends one request and reads the whole response; returns whether it was a success.
    async fn one(&self, n: usize, round: usize) -> bool {
        let (method, path, kind, body) = self.request(n, round);
        let mut headers = HeaderMap::new();
        let name = if body.is_empty() { header::ACCEPT } else { header::CONTENT_TYPE };
        headers.insert(name, HeaderValue::from_static(kind));
        let client = &self.clients[n % self.clients.len()];
        let Ok(mut answer) = client.request(method, &path, headers, Bytes::from(body)).await else {
            return false;
        };
        while let Ok(Some(_)) = answer.chunk().await {}
        answer.status.is_success()
    }

    /// Method, path, media type to accept or send, and body of a request.
    fn request(&self, n: usize, round: usize) -> (Method, String, &'static str, String) {
        let get = |path: &str, accept| (Method::GET, path.to_owned(), accept, String::new());
        let post = |path: &str, body| (Method::POST, path.to_owned(), JSON, body);
        let object =
            |data: &str| format!(r#"{{"metadata":{{"generateName":"y-"}},"data":{{{data}}}}}"#);
        match self.kind {
            Kind::List => get(CONFIG_MAPS, JSON),
            Kind::Table => get(CONFIG_MAPS, TABLE),
            Kind::Yaml => get(CONFIG_MAPS, "application/yaml"),
            Kind::Get => get(&format!("{CONFIG_MAPS}/c-1"), JSON),
            Kind::Create => post(CONFIG_MAPS, object(r#""a":"b""#)),
            Kind::LargeCreate if n % 2 == 0 => {
                let data = format!(r#""x":"{}""#, "x".repeat(900_000));
                post(&format!("{CONFIG_MAPS}?dryRun=All"), object(&data))
            }
            Kind::LargeCreate => post(&format!("{CONFIG_MAPS}?dryRun=All"), object(&self.wide)),
            Kind::Apply => {
                let path = format!("{CONFIG_MAPS}/applied?force=true&fieldManager=f{}", n % 4);
                let data = &self.wide;
                let body = format!(
                    r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"applied"}},"data":{{{data}}}}}"#
                );
                (Method::PATCH, path, "application/apply-patch+yaml", body)
            }
            Kind::Expressions => post(CLAIMS, claim(n, round)),
            Kind::Discovery => get(DISCOVERY[round % DISCOVERY.len()], JSON),
            // a few requests write the objects that the others watch
            Kind::Watch if n < 3 => {
                let body = format!(r#"{{"data":{{"n":"{round}"}}}}"#);
                let path = format!("{CONFIG_MAPS}/c-{n}");
                (Method::PATCH, path, "application/merge-patch+json", body)
            }
            Kind::Watch => get(&format!("{CONFIG_MAPS}?watch=1"), JSON),
        }
    }
}

/// A ResourceClaim with CEL expressions that have not been compiled before.
fn claim(n: usize, round: usize) -> String {
    let selector = |at: usize| {
        format!(
            r#"{{"cel":{{"expression":"device.driver.matches('(a|b)*c{{1,9}}{n}-{round}-{at}')"}}}}"#
        )
    };
    let request = |at: usize| {
        let selectors: Vec<_> = (0..20).map(|s| selector(20 * at + s)).collect();
        let selectors = selectors.join(",");
        format!(
            r#"{{"name":"r{at}","exactly":{{"deviceClassName":"c","selectors":[{selectors}]}}}}"#
        )
    };
    let requests = (0..8).map(request).collect::<Vec<_>>().join(",");
    format!(
        r#"{{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{{"generateName":"c-"}},"spec":{{"devices":{{"requests":[{requests}]}}}}}}"#
    )
}
