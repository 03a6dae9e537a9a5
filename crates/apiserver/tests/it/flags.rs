//! Tests of flags: every flag has an effect; those that no other file tests are here.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use api::{
    apiregistration::APIService,
    core::{ConfigMap, Secret, Service, ServiceAccount},
};
use apiserver::{
    ABSENT_FLAGS, Config, Flags, ListenerSource, ServerEnvironment, StorageBackend, start_with,
};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use bytes::Bytes;
use clap::{Args as _, Command};
use client::{Auth, Client};
use http::{HeaderMap, Method};
use object::{Clock, NamespacedName, SystemClock, Value, from_json};
use pki::{CertificateAuthority, CertificateSpec, ClientCaVerifier};
use tempfile::TempDir;
use testkit::TestCluster;

use crate::{
    backend::Backend, code, config_map, connections::with_kubelet, default_account, of,
    peers::Etcd, tree, ways_in::kubeconfig,
};

/// Checks that each flag is set by a test in this directory.
#[test]
fn every_flag_has_a_test() {
    let mut all = String::new();
    for file in fs::read_dir("tests/it").unwrap() {
        let path = file.unwrap().path();
        if path.is_file() {
            all.push_str(&fs::read_to_string(path).unwrap());
        }
    }
    let command = Flags::augment_args(Command::new("kube-apiserver"));
    let missing: Vec<String> = command
        .get_arguments()
        .map(|flag| flag.get_id().to_string())
        // Every test sets a data directory and an address.
        .filter(|id| !matches!(&**id, "data_dir" | "advertise_address"))
        // Unsupported flags have one common test.
        .filter(|id| !ABSENT_FLAGS.iter().any(|flag| flag.name == *id))
        .filter(|id| !all.contains(&format!(".{id} =")) && !all.contains(&format!(".{id}.push")))
        .collect();
    assert_eq!(missing, Vec::<String>::new());
}

pub(crate) async fn with(change: impl FnOnce(&mut Flags)) -> TestCluster {
    TestCluster::start_with_flags(Arc::new(SystemClock), change).await
}

pub(crate) async fn get(client: &Client, path: &str) -> (u16, Value) {
    let answer = client.request(Method::GET, path, HeaderMap::new(), Bytes::new()).await.unwrap();
    let code = answer.status.as_u16();
    (code, from_json(&answer.bytes().await.unwrap()).unwrap_or_default())
}

pub(crate) fn refused(change: impl FnOnce(&mut Flags)) -> String {
    let folder = TempDir::new().unwrap();
    let mut flags = Flags::new(folder.path());
    change(&mut flags);
    Config::new(flags).map(drop).unwrap_err().to_string()
}

#[tokio::test]
async fn bind_address_and_secure_port() {
    let folder = TempDir::new().unwrap();
    let mut flags = Flags::new(folder.path());
    flags.bind_address = [127, 0, 0, 2].into();
    flags.secure_port = 7551;
    flags.advertise_address = Some([192, 0, 2, 10].into());
    let (storage, clock) = (StorageBackend::Memory, Arc::new(SystemClock));
    let ground = ServerEnvironment { storage, entry: ListenerSource::Port, clock };
    let running = start_with(Config::new(flags).unwrap(), ground).await.unwrap();
    assert!(tokio::net::TcpStream::connect("127.0.0.2:7551").await.is_ok());
    assert!(tokio::net::TcpStream::connect("127.0.0.1:7551").await.is_err(), "another address");
    running.stop().await;
}

#[tokio::test]
async fn service_cluster_ip_range_and_service_node_port_range() {
    let cluster = with(|flags| {
        flags.service_cluster_ip_range = "10.77.0.0/24".to_owned();
        flags.service_node_port_range = "31999-31999".to_owned();
    })
    .await;
    let services = of::<Service>(&cluster.admin_client());
    let service = |name: &str| {
        tree(&format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"type":"NodePort","ports":[{{"port":80}}]}}}}"#
        ))
    };
    let made = services.create(service("a")).await.unwrap();
    assert!(made["spec"]["clusterIP"].as_str().unwrap().starts_with("10.77.0."));
    assert_eq!(made["spec"]["ports"].items()[0]["nodePort"].as_i64(), Some(31_999));
    assert!(services.create(service("b")).await.is_err(), "there is one port only");
    let wrong = refused(|flags| flags.service_node_port_range = "9-1".to_owned());
    assert!(wrong.contains("service-node-port-range"), "{wrong}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn authentication_token_webhook_version_and_cache() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = asked.clone();
    let backend = Backend::start(move |_, mut review| {
        seen.lock().unwrap().push(review["apiVersion"].as_str().unwrap_or_default().to_owned());
        review["status"]["authenticated"] = true.into();
        review["status"]["user"]["username"] = "carol".into();
        review
    })
    .await;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("kubeconfig");
    fs::write(&path, kubeconfig(&backend)).unwrap();
    for (ttl, version, times) in [("1h", "v1", 1), ("0s", "v1beta1", 2)] {
        let cluster = with(|flags| {
            flags.authentication_token_webhook_config_file = Some(path.clone());
            flags.authentication_token_webhook_cache_ttl = ttl.to_owned();
            flags.authentication_token_webhook_version = version.to_owned();
        })
        .await;
        let carol = cluster.client_with_auth(Auth::Token("t".to_owned()));
        for _ in 0..2 {
            assert_eq!(get(&carol, "/api").await.0, 200);
        }
        let asked = std::mem::take(&mut *asked.lock().unwrap());
        assert_eq!(asked, vec![format!("authentication.k8s.io/{version}"); times]);
    }
}

/// A CA, and a client certificate of it in files.
fn client_files(folder: &Path, name: &str) -> (CertificateAuthority, PathBuf, PathBuf) {
    let authority = CertificateAuthority::create("clients", SystemClock.now()).unwrap();
    let pair = authority.issue(&CertificateSpec::client(name, &[]), SystemClock.now()).unwrap();
    let (certificate, key) = (folder.join("client.crt"), folder.join("client.key"));
    fs::write(&certificate, pair.certificate_pem()).unwrap();
    fs::write(&key, pair.key_pem()).unwrap();
    (authority, certificate, key)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubelet_client_certificate_and_key() {
    let folder = TempDir::new().unwrap();
    let (authority, certificate, key) = client_files(folder.path(), "to-kubelets");
    let kubelet = Backend::asking("localhost", Some(&authority), |_, _| tree("{}")).await;
    let cluster = with(|flags| {
        flags.kubelet_client_certificate = Some(certificate);
        flags.kubelet_client_key = Some(key);
    })
    .await;
    with_kubelet(&kubelet, &cluster).await;
    let (code, _) = get(&cluster.admin_client(), "/api/v1/namespaces/default/pods/p/log").await;
    assert_eq!(code, 200);
    assert_eq!(*kubelet.clients.lock().unwrap(), ["to-kubelets"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxy_client_cert_file_and_key() {
    let folder = TempDir::new().unwrap();
    let (authority, certificate, key) = client_files(folder.path(), "aggregator");
    let backend = Backend::asking("extra.default.svc", Some(&authority), |_, _| {
        tree(r#"{"kind":"APIResourceList","groupVersion":"extra.example.com/v1","resources":[]}"#)
    })
    .await;
    let cluster = with(|flags| {
        flags.proxy_client_cert_file = Some(certificate);
        flags.proxy_client_key_file = Some(key);
    })
    .await;
    let admin = cluster.admin_client();
    let service = r#"{"metadata":{"name":"extra"},"spec":{"type":"ExternalName","externalName":"localhost"}}"#;
    of::<Service>(&admin).create(tree(service)).await.unwrap();
    let registration = format!(
        r#"{{"metadata":{{"name":"v1.extra.example.com"}},"spec":{{"group":"extra.example.com",
        "version":"v1","groupPriorityMinimum":1000,"versionPriority":10,"caBundle":"{}",
        "service":{{"namespace":"default","name":"extra","port":{}}}}}}}"#,
        STANDARD.encode(&backend.authority),
        backend.port
    );
    of::<APIService>(&admin).create(tree(&registration)).await.unwrap();
    for _ in 0..600 {
        if !backend.clients.lock().unwrap().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(backend.clients.lock().unwrap().first().map(String::as_str), Some("aggregator"));
}

#[tokio::test]
async fn audit_log_rotation() {
    let folder = TempDir::new().unwrap();
    let (policy, log) = (folder.path().join("policy"), folder.path().join("logs/audit.log"));
    let text = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: RequestResponse}]\n";
    fs::write(&policy, text).unwrap();
    fs::create_dir_all(log.parent().unwrap()).unwrap();
    let old = log.with_file_name("audit-2000-01-01T00-00-00.000000.log");
    let kept = log.with_file_name("audit-9999-01-01T00-00-00.000000.log");
    for file in [&old, &kept] {
        fs::write(file, "").unwrap();
    }
    let long_ago = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    fs::OpenOptions::new().write(true).open(&old).unwrap().set_modified(long_ago).unwrap();
    let cluster = with(|flags| {
        flags.audit_policy_file = Some(policy);
        flags.audit_log_path = Some(log.clone());
        flags.audit_log_maxsize = 1;
        flags.audit_log_maxbackup = 3;
        flags.audit_log_maxage = 30;
    })
    .await;
    let maps = of::<ConfigMap>(&cluster.admin_client());
    for at in 0..8 {
        let mut map = config_map(&format!("m{at}"));
        map["data"]["k"] = "x".repeat(400 << 10).into();
        maps.create(map).await.unwrap();
    }
    assert!(!old.exists(), "too old");
    let backups = fs::read_dir(log.parent().unwrap()).unwrap().count() - 1;
    assert_eq!(backups, 3, "no more than these are kept");
}

#[tokio::test]
async fn service_account_keys_and_issuer() {
    let folder = TempDir::new().unwrap();
    let (signing, other) =
        (pki::PrivateKey::generate().unwrap(), pki::PrivateKey::generate().unwrap());
    let (key, public) = (folder.path().join("sa.key"), folder.path().join("other.pub"));
    fs::write(&key, signing.to_pem()).unwrap();
    let both = format!("{}{}", signing.public().to_pem(), other.public().to_pem());
    fs::write(&public, both).unwrap();
    let issuer = "https://issuer.example.com";
    let cluster = with(|flags| {
        flags.service_account_issuer = vec![issuer.to_owned()];
        flags.service_account_signing_key_file = Some(key);
        flags.service_account_key_file = vec![public];
    })
    .await;
    let admin = cluster.admin_client();
    default_account(&admin).await;
    let request =
        tree(r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}"#);
    let accounts = of::<ServiceAccount>(&admin);
    let own = NamespacedName::new("default", "default");
    let given = accounts.create_subresource(&own, "token", &request).await.unwrap();
    let token = given["status"]["token"].as_str().unwrap().to_owned();
    let part = |at: usize| {
        let part = token.split('.').nth(at).unwrap();
        from_json(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
    };
    assert_eq!(part(0)["kid"].as_str(), Some(signing.public().id()));
    assert_eq!(part(1)["iss"].as_str(), Some(issuer));
    assert_eq!(get(&cluster.client_with_auth(Auth::Token(token.clone())), "/api").await.0, 200);
    let uid = accounts.get(&own).await.unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    let mut bound = pki::BoundObjects::default();
    bound.namespace = "default".into();
    bound.service_account = pki::BoundObjectRef { name: "default".into(), uid };
    let claims =
        pki::ServiceAccountClaims::bound(bound, vec![issuer.into()], 3600, SystemClock.now());
    let by_other = pki::TokenSigner::new(other, issuer).sign(claims.clone()).unwrap();
    assert_eq!(
        get(&cluster.client_with_auth(Auth::Token(by_other)), "/api").await.0,
        200,
        "it is believed"
    );
    let stranger =
        pki::TokenSigner::new(pki::PrivateKey::generate().unwrap(), issuer).sign(claims).unwrap();
    assert_eq!(get(&cluster.client_with_auth(Auth::Token(stranger)), "/api").await.0, 401);
}

#[tokio::test]
async fn runtime_config_and_feature_gates() {
    let path = "/apis/storagemigration.k8s.io";
    let usual = with(|_| {}).await;
    assert_eq!(get(&usual.admin_client(), "/apis/batch/v1").await.0, 200);
    let (before, _) = get(&usual.admin_client(), path).await;
    let cluster = with(|flags| {
        flags.runtime_config = vec!["api/all=true".to_owned(), "batch/v1=false".to_owned()];
    })
    .await;
    assert_eq!(get(&cluster.admin_client(), "/apis/batch/v1").await.0, 404);
    let (after, _) = get(&cluster.admin_client(), path).await;
    assert_ne!((before, after), (404, 404), "what is off by default is served");
    let wrong = refused(|flags| flags.feature_gates = vec!["NoSuchThing=true".to_owned()]);
    assert!(wrong.contains("NoSuchThing"), "{wrong}");
    let whole = |gates: &[&str]| {
        let folder = TempDir::new().unwrap();
        let mut flags = Flags::new(folder.path());
        flags.feature_gates = gates.iter().map(ToString::to_string).collect();
        Config::new(flags).is_ok()
    };
    assert!(whole(&["GenericWorkload=true"]));
}

#[tokio::test]
async fn max_requests_inflight() {
    let cluster = with(|flags| {
        flags.enable_priority_and_fairness = false;
        flags.max_requests_inflight = 0;
    })
    .await;
    let bob = cluster.client_as("bob", &[]);
    let maps = of::<ConfigMap>(&bob);
    assert_eq!(code(maps.get(&NamespacedName::new("default", "a")).await), 429);
}

#[test]
fn what_cannot_be_chosen_is_refused() {
    let said = refused(|flags| flags.allow_privileged = false);
    assert!(said.contains("--allow-privileged=false"), "{said}");
    let said = refused(|flags| flags.etcd_compaction_interval = "soon".to_owned());
    assert!(said.contains("etcd-compaction-interval"), "{said}");
    let parse = |flag: &str| {
        let command = Flags::augment_args(Command::new("kube-apiserver"));
        command.try_get_matches_from(["", "--data-dir", "/d", flag]).map(drop)
    };
    // flags.storage_backend = etcd3 and flags.storage_media_type = protobuf are all there is.
    assert!(parse("--storage-backend=etcd3").is_ok());
    assert!(parse("--storage-backend=etcd2").is_err());
    assert!(parse("--storage-media-type=application/vnd.kubernetes.protobuf").is_ok());
    assert!(parse("--storage-media-type=application/json").is_err());
    assert!(parse("--no-such-flag=1").is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_flags() {
    let folder = TempDir::new().unwrap();
    let (authority, certificate, key) = client_files(folder.path(), "kube-apiserver");
    let now = SystemClock.now();
    let leaf =
        CertificateSpec::server("etcd", vec!["localhost".to_owned()], vec![[127, 0, 0, 1].into()]);
    let own = authority.issue(&leaf, now).unwrap();
    let trust = ClientCaVerifier::new(std::slice::from_ref(authority.certificate())).unwrap();
    let etcd = Etcd::start_with(Some(Arc::new(pki::server_config(&own, Some(&trust)).unwrap())));
    let ca = folder.path().join("ca.pem");
    fs::write(&ca, authority.certificate_pem()).unwrap();
    let start = async |name: &str, prefix: &str| {
        let mut flags = Flags::new(&folder.path().join(name));
        flags.advertise_address = Some([192, 0, 2, 10].into());
        flags.etcd_servers = vec![etcd.url.clone()];
        flags.etcd_prefix = prefix.to_owned();
        flags.etcd_cafile = Some(ca.clone());
        flags.etcd_certfile = Some(certificate.clone());
        flags.etcd_keyfile = Some(key.clone());
        let (storage, clock) = (StorageBackend::Disk, Arc::new(SystemClock));
        let ground = ServerEnvironment { storage, entry: ListenerSource::Pipes, clock };
        start_with(Config::new(flags).unwrap(), ground).await.unwrap()
    };
    let (one, two) = (start("one", "/registry").await, start("two", "/other").await);
    let maps = |running: &apiserver::RunningServer| {
        let user = server::UserInfo::new("admin", &["system:masters"]);
        of::<ConfigMap>(&Client::new(client::Config::pipe(running.pipe(user))))
    };
    maps(&one).create(config_map("a")).await.unwrap();
    let key = NamespacedName::new("default", "a");
    assert!(maps(&one).get(&key).await.is_ok());
    assert_eq!(code(maps(&two).get(&key).await), 404, "another prefix is another cluster");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn how_etcd_is_asked() {
    let etcd = Etcd::start();
    let start = async |url: &str, change: &dyn Fn(&mut Flags)| {
        let folder = TempDir::new().unwrap();
        let mut flags = Flags::new(folder.path());
        flags.advertise_address = Some([192, 0, 2, 10].into());
        flags.etcd_servers = vec![url.to_owned()];
        change(&mut flags);
        let (storage, clock) = (StorageBackend::Disk, Arc::new(SystemClock));
        let ground = ServerEnvironment { storage, entry: ListenerSource::Pipes, clock };
        start_with(Config::new(flags).unwrap(), ground).await.map(|running| (running, folder))
    };
    let patient = |flags: &mut Flags| {
        flags.storage.etcd_db_metric_poll_interval = "1s".to_owned();
        flags.storage.etcd_healthcheck_timeout = "1m".to_owned();
        flags.storage.etcd_readycheck_timeout = "0s".to_owned();
    };
    let (running, _folder) = start(&etcd.url, &patient).await.unwrap();
    let user = server::UserInfo::new("admin", &["system:masters"]);
    let admin = Client::new(client::Config::pipe(running.pipe(user)));
    // No response can arrive within the timeout: the server is healthy, but never ready.
    for _ in 0..600 {
        if get(&admin, "/readyz/etcd-readiness").await.0 == 500 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(get(&admin, "/readyz/etcd-readiness").await.0, 500);
    assert_eq!(get(&admin, "/livez/etcd").await.0, 200);
    let told = async || {
        let answer = admin.request(Method::GET, "/metrics", HeaderMap::new(), Bytes::new()).await;
        let text = String::from_utf8(answer.unwrap().bytes().await.unwrap().to_vec()).unwrap();
        text.contains("apiserver_storage_size_bytes{storage_cluster_id=\"etcd-0\"}")
    };
    for _ in 0..600 {
        if told().await {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(told().await);
    running.stop().await;
    let nobody = |flags: &mut Flags| flags.storage.storage_initialization_timeout = "0s".to_owned();
    assert!(start("http://127.0.0.1:1", &nobody).await.is_err());
}

#[tokio::test]
async fn encryption_provider_config() {
    let secret = r#"{"metadata":{"name":"s"},"stringData":{"k":"plain to see"}}"#;
    let folder = TempDir::new().unwrap();
    let plain = folder.path().join("plain.yaml");
    let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n\
                - resources: [secrets]\n  providers: [{identity: {}}]\n";
    fs::write(&plain, text).unwrap();
    for (file, seen) in [(None, false), (Some(plain), true)] {
        let data = TempDir::new().unwrap();
        let mut flags = Flags::new(data.path());
        flags.advertise_address = Some([192, 0, 2, 10].into());
        flags.encryption_provider_config = file;
        flags.encryption_provider_config_automatic_reload = true;
        let (storage, clock) = (StorageBackend::Disk, Arc::new(SystemClock));
        let ground = ServerEnvironment { storage, entry: ListenerSource::Pipes, clock };
        let running = start_with(Config::new(flags).unwrap(), ground).await.unwrap();
        let user = server::UserInfo::new("admin", &["system:masters"]);
        let admin = Client::new(client::Config::pipe(running.pipe(user)));
        of::<Secret>(&admin).create(tree(secret)).await.unwrap();
        running.stop().await;
        let disk = store::Directory::open(data.path().join("store")).unwrap();
        let saved = data.path().join("saved");
        fs::create_dir(&saved).unwrap();
        let mut file = fs::File::create_new(saved.join("snapshot.db")).unwrap();
        store::archive::save(&disk, SystemClock.now(), &mut file).unwrap();
        assert_eq!(holds(&data.path().join("store"), b"plain to see"), seen);
        assert_eq!(holds(&saved, b"plain to see"), seen, "nor in a snapshot");
        assert_eq!(holds(data.path(), b"plain to see"), seen, "nor anywhere else");
    }
}

/// Whether a file in the directory, or below it, contains the text.
fn holds(folder: &Path, text: &[u8]) -> bool {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).any(|path| {
        if path.is_dir() {
            return holds(&path, text);
        }
        fs::read(path).unwrap().windows(text.len()).any(|window| window == text)
    })
}
