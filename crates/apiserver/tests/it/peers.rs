//! Several servers on one store: they agree, and the endpoints of `kubernetes` follow them.

use std::{collections::HashSet, path::Path, sync::Arc, thread, time::Duration};

use api::{
    coordination::Lease,
    core::{ConfigMap, Endpoints},
    discovery::EndpointSlice,
};
use apiserver::{
    Config, Flags, ListenerSource, RunningServer, ServerEnvironment, StorageBackend, start_with,
};
use bytes::Bytes;
use client::Client;
use http::{HeaderMap, Method};
use object::{NamespacedName, SystemClock};
use server::UserInfo;
use store::{
    MemoryLog,
    etcd_server::{BoundListener, Compaction, EtcdServerConfig, Limits},
};
use tempfile::TempDir;
use tokio::sync::oneshot;

use crate::{config_map, of};

pub(crate) async fn start(folder: &Path, etcd: &str, address: [u8; 4], port: u16) -> RunningServer {
    let mut flags = Flags::new(folder);
    flags.etcd_servers = vec![etcd.to_owned()];
    flags.advertise_address = Some(address.into());
    flags.secure_port = port;
    let ground = ServerEnvironment {
        storage: StorageBackend::Disk,
        entry: ListenerSource::Pipes,
        clock: Arc::new(SystemClock),
    };
    start_with(Config::new(flags).unwrap(), ground).await.unwrap()
}

pub(crate) fn admin(running: &RunningServer) -> Client {
    let user = UserInfo::new("admin", &["system:masters"]);
    Client::new(client::Config::pipe(running.pipe(user)).user_agent("test"))
}

async fn addresses(client: &Client) -> Vec<String> {
    let key = NamespacedName::new("default", "kubernetes");
    let endpoints = of::<Endpoints>(client).get(&key).await.unwrap();
    let subset = endpoints["subsets"].items().first().cloned().unwrap_or_default();
    let ips = subset.get("addresses").items().iter().filter_map(|own| own.get("ip").as_str());
    let ips: Vec<String> = ips.map(str::to_owned).collect();
    let slice = of::<EndpointSlice>(client).get(&key).await.unwrap();
    let same = slice["endpoints"].items().len() == ips.len();
    if same { ips } else { Vec::new() } // one of the two is not written yet
}

async fn until(holds: impl AsyncFn() -> bool) {
    for _ in 0..600 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("it did not happen within two minutes");
}

/// Our store with its etcd server, running until it is dropped.
pub(crate) struct Etcd {
    pub(crate) url: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Etcd {
    pub(crate) fn start() -> Self {
        Self::start_with(None)
    }

    /// Starts it behind TLS, if a configuration is given.
    pub(crate) fn start_with(tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        listener.set_nonblocking(true).unwrap();
        let (stop, stopped) = oneshot::channel();
        let setup = EtcdServerConfig {
            identity: store::etcd_server::Identity {
                name: "one".into(),
                peer_urls: vec!["http://peer:2380".into()],
                client_urls: vec![url.clone()],
                token: "t".into(),
            },
            limits: Limits { progress: Duration::from_millis(100), ..Limits::default() },
            quota: 0,
            scratch: std::env::temp_dir(),
            compaction: Compaction::Never,
        };
        let thread = thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            runtime.unwrap().block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                let log = Arc::new(MemoryLog::default());
                let etcd = store::etcd_server::EtcdServer::open(log, Arc::new(SystemClock), setup)
                    .unwrap();
                let stop = async { drop(stopped.await) };
                etcd.serve(vec![BoundListener { listener, tls }], stop).await;
            });
        });
        Self { url, stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().map(thread::JoinHandle::join);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_come_and_go() {
    let folder = TempDir::new().unwrap();
    let etcd = Etcd::start();
    let first = start(&folder.path().join("one"), &etcd.url, [192, 0, 2, 10], 7541).await;
    let second = start(&folder.path().join("two"), &etcd.url, [192, 0, 2, 11], 7542).await;
    let (one, two) = (admin(&first), admin(&second));
    until(async || addresses(&one).await == ["192.0.2.10", "192.0.2.11"]).await;
    let leases = of::<Lease>(&two).namespaced("kube-system");
    let names: HashSet<String> = leases
        .list_all(&client::Selectors::default())
        .await
        .unwrap()
        .items
        .iter()
        .map(|lease| crate::name(lease).to_owned())
        .collect();
    assert_eq!(names.len(), 2, "each has a lease of its own: {names:?}");
    for at in 0..20 {
        of::<ConfigMap>(&one).create(config_map(&format!("m{at}"))).await.unwrap();
    }
    // Killed: the server does not remove itself from the endpoints.
    first.server.stop(Duration::ZERO).await;
    for at in 0..20 {
        let key = NamespacedName::new("default", &format!("m{at}"));
        assert!(of::<ConfigMap>(&two).get(&key).await.is_ok(), "m{at} was acknowledged");
    }
    until(async || addresses(&two).await == ["192.0.2.11"]).await;
    second.stop().await;
}

#[tokio::test]
async fn a_server_that_stops_says_so() {
    let folder = TempDir::new().unwrap();
    let etcd = Etcd::start();
    let first = start(&folder.path().join("one"), &etcd.url, [192, 0, 2, 10], 7543).await;
    let second = start(&folder.path().join("two"), &etcd.url, [192, 0, 2, 11], 7544).await;
    let two = admin(&second);
    until(async || addresses(&two).await.len() == 2).await;
    first.stop().await;
    until(async || addresses(&two).await == ["192.0.2.11"]).await;
}

#[tokio::test]
async fn a_server_tells_how_far_it_is() {
    let cluster = testkit::TestCluster::start().await;
    let admin = cluster.admin_client();
    let get = async |path: &str| {
        let answer = admin.request(Method::GET, path, HeaderMap::new(), Bytes::new());
        let answer = answer.await.unwrap();
        (answer.status.as_u16(), String::from_utf8(answer.bytes().await.unwrap().to_vec()).unwrap())
    };
    let (code, text) = get("/readyz?verbose").await;
    assert_eq!(code, 200, "{text}");
    for name in [
        "etcd",
        "etcd-readiness",
        "informer-sync",
        "poststarthook/rbac/bootstrap-roles",
        "poststarthook/start-kube-apiserver-identity-lease-controller",
        "poststarthook/bootstrap-controller",
        "shutdown",
    ] {
        assert!(text.contains(&format!("[+]{name} ok\n")), "{name}: {text}");
    }
    assert_eq!(get("/readyz/poststarthook/rbac/bootstrap-roles").await, (200, "ok".to_owned()));
    assert_eq!(get("/livez/poststarthook/bootstrap-controller").await.0, 200);
    assert_eq!(get("/livez/shutdown").await.0, 404, "that is no reason to restart it");
    let map = "kube-apiserver-legacy-service-account-token-tracking";
    let maps = of::<ConfigMap>(&admin).namespaced("kube-system");
    let tracking = maps.get(&NamespacedName::new("kube-system", map)).await.unwrap();
    assert_eq!(tracking["data"]["since"].as_str().map(str::len), Some(10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_asked_of_etcd_is_counted() {
    let (folder, etcd) = (TempDir::new().unwrap(), Etcd::start());
    let running = start(&folder.path().join("one"), &etcd.url, [192, 0, 2, 10], 7545).await;
    let client = admin(&running);
    of::<ConfigMap>(&client).create(config_map("a")).await.unwrap();
    let ask = client.request(Method::GET, "/metrics", HeaderMap::new(), Bytes::new());
    let text = ask.await.unwrap().bytes().await.unwrap();
    let text = String::from_utf8_lossy(&text).into_owned();
    let name = "etcd_requests_total{group=\"\",operation=\"create\",resource=\"configmaps\"} ";
    assert!(text.lines().any(|line| line.starts_with(name)), "{name}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resource_can_be_kept_apart() {
    let folder = TempDir::new().unwrap();
    let (etcd, apart) = (Etcd::start(), Etcd::start());
    let mut flags = Flags::new(folder.path());
    flags.etcd_servers = vec![etcd.url.clone()];
    flags.etcd_servers_overrides = vec![format!("/configmaps#{}", apart.url)];
    flags.advertise_address = Some([192, 0, 2, 10].into());
    let ground = ServerEnvironment {
        storage: StorageBackend::Disk,
        entry: ListenerSource::Pipes,
        clock: Arc::new(SystemClock),
    };
    let running = start_with(Config::new(flags).unwrap(), ground).await.unwrap();
    let (one, keys) = (admin(&running), [etcd.url.clone(), apart.url.clone()]);
    let made = of::<ConfigMap>(&one).create(config_map("a")).await.unwrap();
    assert!(of::<ConfigMap>(&one).get(&NamespacedName::new("default", "a")).await.is_ok());
    let list = of::<ConfigMap>(&one).list_all(&client::Selectors::default()).await.unwrap();
    assert!(list.items.iter().any(|map| crate::name(map) == "a"));
    let secret = crate::tree(r#"{"metadata":{"name":"s"}}"#);
    of::<api::core::Secret>(&one).create(secret).await.unwrap();
    let held = tokio::task::spawn_blocking(move || {
        keys.map(|url| {
            let remote = store::EtcdConfig { endpoints: vec![url], ..store::EtcdConfig::default() };
            let engine =
                store::EtcdEngine::<Bytes>::connect(&remote, Arc::new(SystemClock)).unwrap();
            ["/registry/configmaps/", "/registry/secrets/"].map(|prefix| {
                let mut count = 0;
                let take = &mut |replay: store::Replay<'_>| {
                    count = replay.state.len();
                    Ok(())
                };
                store::Engine::replay(&engine, prefix, usize::MAX, take).unwrap();
                count > 0
            })
        })
    });
    assert_eq!(held.await.unwrap(), [[false, true], [true, false]]);
    drop(made);
}
