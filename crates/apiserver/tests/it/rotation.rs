//! Rotation of certificates and CAs without a restart.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use apiserver::{
    Config, Flags, ListenerSource, RunningServer, ServerEnvironment, StorageBackend, start_with,
};
use bytes::Bytes;
use client::{Client, Pem, TcpConnector, TlsOptions};
use http::{HeaderMap, Method};
use object::{Clock, SystemClock, Value, from_json};
use pki::{CertKeyPair, CertificateAuthority, CertificateSpec};
use rustls::pki_types::{CertificateDer, ServerName};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};

/// A clock that can be moved forward.
#[derive(Debug, Default)]
struct Late(AtomicI64);

impl Clock for Late {
    fn now(&self) -> i64 {
        SystemClock.now() - self.0.load(Ordering::Relaxed)
    }
}

const DAY: i64 = 24 * 3600;

/// A server that listens on a port.
pub(crate) struct Served {
    running: RunningServer,
    folder: TempDir,
}

impl Served {
    pub(crate) async fn start(
        clock: Arc<dyn Clock>,
        change: impl FnOnce(&mut Flags, &Path),
    ) -> Self {
        let folder = TempDir::new().unwrap();
        let mut flags =
            Flags { advertise_address: Some([192, 0, 2, 10].into()), ..Flags::new(folder.path()) };
        change(&mut flags, folder.path());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let entry = ListenerSource::Listener(listener);
        let ground = ServerEnvironment { storage: StorageBackend::Memory, entry, clock };
        let running = start_with(Config::new(flags).unwrap(), ground).await.unwrap();
        Self { running, folder }
    }

    fn authority(&self) -> &CertificateAuthority {
        &self.running.cluster.ca
    }

    fn file(&self, name: &str) -> Vec<u8> {
        fs::read(self.folder.path().join(name)).unwrap()
    }

    /// The serving certificate for this name, as a client that trusts this CA sees it.
    async fn shown(
        &self,
        authority: &CertificateAuthority,
        name: &str,
    ) -> Option<CertificateDer<'static>> {
        self.shown_to(authority.certificate(), name).await
    }

    async fn shown_to(
        &self,
        root: &CertificateDer<'static>,
        name: &str,
    ) -> Option<CertificateDer<'static>> {
        let config = Arc::new(pki::client_config(std::slice::from_ref(root), None).unwrap());
        let stream = TcpStream::connect(("127.0.0.1", self.running.port)).await.unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let stream = tokio_rustls::TlsConnector::from(config).connect(name, stream).await.ok()?;
        stream.get_ref().1.peer_certificates().map(|chain| chain[0].clone().into_owned())
    }

    /// A new client with a client certificate and further headers.
    pub(crate) fn client(&self, pair: &CertKeyPair, headers: &[(&'static str, &str)]) -> Client {
        let pem = |text: String| Pem::Data(text.into_bytes());
        let tls = TlsOptions {
            ca: Some(pem(self.authority().certificate_pem())),
            pair: Some((pem(pair.certificate_pem()), pem(pair.key_pem()))),
            ..TlsOptions::default()
        };
        let to = TcpConnector::new("127.0.0.1", self.running.port, Some(Arc::new(tls)));
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            all.append(*name, value.parse().unwrap());
        }
        Client::new(client::Config::new(Arc::new(to)).headers(all))
    }

    /// The user that the server authenticates; `None` if there is none, or no connection.
    async fn who(&self, pair: &CertKeyPair, headers: &[(&'static str, &str)]) -> Option<Value> {
        let mut head = HeaderMap::new();
        head.insert("content-type", "application/json".parse().unwrap());
        let body = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let client = self.client(pair, headers);
        let answer = client.request(Method::POST, path, head, Bytes::from(body)).await.ok()?;
        let answer = from_json(&answer.bytes().await.ok()?).ok()?;
        Some(answer["status"]["userInfo"].clone()).filter(Value::is_object)
    }

    async fn name(&self, pair: &CertKeyPair, headers: &[(&'static str, &str)]) -> String {
        let user = self.who(pair, headers).await.unwrap_or_default();
        user.get("username").as_str().unwrap_or_default().to_owned()
    }
}

fn authority() -> CertificateAuthority {
    CertificateAuthority::create("other", SystemClock.now()).unwrap()
}

fn server_pair(authority: &CertificateAuthority, name: &str) -> CertKeyPair {
    let leaf = CertificateSpec::server(name, vec![name.to_owned()], vec![[127, 0, 0, 1].into()]);
    authority.issue(&leaf, SystemClock.now()).unwrap()
}

fn client_pair(authority: &CertificateAuthority, name: &str, groups: &[&str]) -> CertKeyPair {
    authority.issue(&CertificateSpec::client(name, groups), SystemClock.now()).unwrap()
}

fn write(folder: &Path, name: &str, pair: &CertKeyPair) {
    fs::write(folder.join(format!("{name}.key")), pair.key_pem()).unwrap();
    fs::write(folder.join(format!("{name}.crt")), pair.certificate_pem()).unwrap();
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_certificates_are_renewed_before_they_end() {
    let clock = Arc::new(Late(AtomicI64::new(300 * DAY)));
    let served = Served::start(clock.clone(), |_, _| {}).await;
    let files = [
        "pki/apiserver.crt",
        "pki/apiserver-kubelet-client.crt",
        "pki/front-proxy-client.crt",
        "kubeconfig/admin",
    ];
    let before = files.map(|name| served.file(name));
    let old = served.shown(served.authority(), "localhost").await.unwrap();
    clock.0.store(0, Ordering::Relaxed);
    until(async || served.shown(served.authority(), "localhost").await.unwrap() != old).await;
    until(async || served.file("kubeconfig/admin") != before[3]).await;
    for (name, before) in files.iter().zip(before) {
        assert_ne!(served.file(name), before, "{name}");
    }
    let shown = served.shown(served.authority(), "localhost").await.unwrap();
    let renewed = pki::CertificateIdentity::of(&shown).unwrap();
    assert!(renewed.not_after > SystemClock.now() + 300 * DAY);
    let path = served.folder.path().join("kubeconfig/admin");
    let mut config = client::Kubeconfig::read(&path).unwrap().config(None).unwrap();
    config = config.user_agent("test");
    let answer = Client::new(config)
        .request(Method::GET, "/api/v1/namespaces", HeaderMap::new(), Bytes::new())
        .await
        .unwrap();
    assert_eq!(answer.status, 200, "and the administrator gets in");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_cert_file_and_tls_private_key_file() {
    let other = authority();
    let pair = server_pair(&other, "first.test");
    let served = Served::start(Arc::new(SystemClock), |flags, folder| {
        write(folder, "serving", &pair);
        flags.tls_cert_file = Some(folder.join("serving.crt"));
        flags.tls_private_key_file = Some(folder.join("serving.key"));
    })
    .await;
    assert_eq!(served.shown(&other, "first.test").await.as_ref(), Some(&pair.chain()[0]));
    let pair = server_pair(&other, "second.test");
    write(served.folder.path(), "serving", &pair);
    until(async || served.shown(&other, "second.test").await.is_some()).await;
    fs::write(served.folder.path().join("serving.crt"), "no certificate").unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(served.shown(&other, "second.test").await.is_some(), "the last one stays");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cert_dir() {
    let served = Served::start(Arc::new(SystemClock), |flags, folder| {
        flags.cert_dir = Some(folder.join("made"));
    })
    .await;
    let chain =
        pki::certificates(&fs::read(served.folder.path().join("made/apiserver.crt")).unwrap());
    let chain = chain.unwrap();
    assert_eq!(chain.len(), 2, "its own, and that of who has signed it");
    let shown = served.shown_to(&chain[1], "kubernetes.default.svc").await;
    assert_eq!(shown.as_ref(), Some(&chain[0]));
    assert!(served.shown(served.authority(), "localhost").await.is_none(), "not the cluster's");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_sni_cert_key() {
    let other = authority();
    let (given, said) = (server_pair(&other, "a.test"), server_pair(&other, "said.test"));
    let served = Served::start(Arc::new(SystemClock), |flags, folder| {
        write(folder, "given", &given);
        write(folder, "said", &said);
        let at = folder.display();
        flags.tls_sni_cert_key = vec![
            format!("{at}/said.crt,{at}/said.key"),
            format!("{at}/given.crt,{at}/given.key:a.test,*.b.test"),
        ];
    })
    .await;
    assert_eq!(served.shown(&other, "a.test").await.as_ref(), Some(&given.chain()[0]));
    assert_eq!(served.shown(&other, "said.test").await.as_ref(), Some(&said.chain()[0]));
    assert!(served.shown(served.authority(), "localhost").await.is_some(), "its own");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_ca_file() {
    let (first, second) = (authority(), authority());
    let (jane, joe) = (client_pair(&first, "jane", &["g"]), client_pair(&second, "joe", &[]));
    let served = Served::start(Arc::new(SystemClock), |flags, folder| {
        fs::write(folder.join("clients.pem"), first.certificate_pem()).unwrap();
        flags.client_ca_file = Some(folder.join("clients.pem"));
    })
    .await;
    let user = served.who(&jane, &[]).await.unwrap();
    assert_eq!(user["username"].as_str(), Some("jane"));
    assert_eq!(user["groups"].items()[0].as_str(), Some("g"));
    assert_eq!(served.who(&joe, &[]).await, None);
    fs::write(served.folder.path().join("clients.pem"), second.certificate_pem()).unwrap();
    until(async || served.name(&joe, &[]).await == "joe").await;
    assert_eq!(served.who(&jane, &[]).await, None, "her authority is no longer believed");
    let own = client_pair(served.authority(), "kubelet", &[]);
    assert_eq!(served.name(&own, &[]).await, "kubelet", "the cluster's own is still");
    // The CAs are also published for extension API servers.
    let admin = client_pair(served.authority(), "admin", &["system:masters"]);
    let client = served.client(&admin, &[]);
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    until(async || {
        let answer = client.request(Method::GET, path, HeaderMap::new(), Bytes::new()).await;
        let map = from_json(&answer.unwrap().bytes().await.unwrap()).unwrap();
        let told = map["data"]["client-ca-file"].as_str().unwrap();
        // Another server may still trust the first one.
        told.contains(&second.certificate_pem()) && told.contains(&first.certificate_pem())
    })
    .await;
}

const SAYS: [(&str, &str); 5] = [
    ("x-remote-user", "jane"),
    ("x-remote-uid", "7"),
    ("x-remote-group", "a"),
    ("x-remote-group", "b"),
    ("x-remote-extra-scopes", "all"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requestheader_client_ca_file() {
    let (first, second) = (authority(), authority());
    let served = Served::start(Arc::new(SystemClock), |flags, folder| {
        fs::write(folder.join("proxies.pem"), first.certificate_pem()).unwrap();
        flags.requestheader_client_ca_file = Some(folder.join("proxies.pem"));
    })
    .await;
    let proxy = client_pair(&first, "anybody", &[]);
    let jane = served.who(&proxy, &SAYS).await.unwrap();
    assert_eq!(jane["username"].as_str(), Some("jane"));
    assert_eq!(jane["uid"].as_str(), Some("7"));
    assert_eq!(jane["groups"].items()[1].as_str(), Some("b"));
    assert_eq!(jane["extra"]["scopes"].items()[0].as_str(), Some("all"));
    let client = client_pair(served.authority(), "joe", &[]);
    assert_eq!(served.name(&client, &SAYS).await, "joe", "no proxy: what he says does not count");
    fs::write(served.folder.path().join("proxies.pem"), second.certificate_pem()).unwrap();
    let other = client_pair(&second, "anybody", &[]);
    until(async || served.name(&other, &SAYS).await == "jane").await;
    assert_eq!(served.who(&proxy, &SAYS).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requestheader_names() {
    let other = authority();
    let served = Served::start(Arc::new(SystemClock), |flags, folder| {
        let names = |name: &str| vec![name.to_owned()];
        fs::write(folder.join("proxies.pem"), other.certificate_pem()).unwrap();
        flags.requestheader_client_ca_file = Some(folder.join("proxies.pem"));
        flags.requestheader_allowed_names = names("proxy");
        flags.requestheader_username_headers = names("X-User");
        flags.requestheader_uid_headers = names("X-Uid");
        flags.requestheader_group_headers = names("X-Group");
        flags.requestheader_extra_headers_prefix = names("X-More-");
    })
    .await;
    let proxy = client_pair(&other, "proxy", &[]);
    let says = [("x-user", "jane"), ("x-uid", "7"), ("x-group", "a"), ("x-more-scopes", "all")];
    let jane = served.who(&proxy, &says).await.unwrap();
    assert_eq!(jane["username"].as_str(), Some("jane"));
    assert_eq!(jane["uid"].as_str(), Some("7"));
    assert_eq!(jane["groups"].items()[0].as_str(), Some("a"));
    assert_eq!(jane["extra"]["scopes"].items()[0].as_str(), Some("all"));
    assert_eq!(served.who(&proxy, &SAYS).await, None, "other headers mean nothing");
    let stranger = client_pair(&other, "stranger", &[]);
    assert_eq!(served.who(&stranger, &says).await, None, "not one of the names");
    let admin = client_pair(served.authority(), "admin", &["system:masters"]);
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let client = served.client(&admin, &[]);
    let answer = client.request(Method::GET, path, HeaderMap::new(), Bytes::new()).await.unwrap();
    let told = from_json(&answer.bytes().await.unwrap()).unwrap();
    let told = &told["data"];
    assert_eq!(told["requestheader-allowed-names"].as_str(), Some(r#"["proxy"]"#));
    assert_eq!(told["requestheader-username-headers"].as_str(), Some(r#"["X-User"]"#));
    assert_eq!(told["requestheader-client-ca-file"].as_str(), Some(&*other.certificate_pem()));
}

#[test]
fn authorities_of_clients_and_proxies_must_not_overlap() {
    let (folder, other) = (TempDir::new().unwrap(), authority());
    let path = folder.path().join("both.pem");
    fs::write(&path, other.certificate_pem()).unwrap();
    let mut flags = Flags::new(folder.path());
    flags.client_ca_file = Some(path.clone());
    flags.requestheader_client_ca_file = Some(path);
    let refused = Config::new(flags.clone()).map(drop).unwrap_err().to_string();
    assert!(refused.contains("contain overlapping certificates"), "{refused}");
    flags.requestheader_allowed_names = vec!["proxy".to_owned()];
    assert!(Config::new(flags).is_ok());
}
