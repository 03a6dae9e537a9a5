//! Tests of authentication and authorization of the HTTPS server, with a real API server that answers the reviews.

use apiserver::{
    Config, Flags, ListenerSource, RunningServer, ServerEnvironment, StorageBackend, start_with,
};
use clap::Parser;
use client::{Client, Kubeconfig};
use http::{HeaderMap, Method};
use object::from_json;
use pki::{CertificateAuthority, CertificateSpec};
use tempfile::TempDir;

use super::*;

#[derive(Parser)]
#[command(no_binary_name = true)]
struct Only {
    #[command(flatten)]
    serving: ServingFlags,
}

fn flags(words: &[&str]) -> ServingFlags {
    Only::try_parse_from(words).expect("good flags").serving
}

/// An API server, and a directory with the files of the component and its clients.
struct Place {
    running: RunningServer,
    folder: TempDir,
    front: CertificateAuthority,
}

impl Place {
    async fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let tokens = folder.path().join("tokens");
        fs::write(&tokens, "good,bob,1,system:masters\nweak,carol,2\n").unwrap();
        let mut flags =
            Flags { advertise_address: Some([192, 0, 2, 10].into()), ..Flags::new(folder.path()) };
        flags.token_auth_file = Some(tokens);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (entry, clock) = (ListenerSource::Listener(listener), Arc::new(SystemClock));
        let ground = ServerEnvironment { storage: StorageBackend::Memory, entry, clock };
        let running = start_with(Config::new(flags).unwrap(), ground).await.unwrap();
        let now = SystemClock.now();
        let place =
            Self { running, folder, front: CertificateAuthority::create("front", now).unwrap() };
        let server = format!("https://localhost:{}", place.running.port);
        let admin = place.running.kubeconfig("admin", &["system:masters"], &server).unwrap();
        let ca = &place.running.cluster.ca;
        let names = vec!["localhost".to_owned()];
        let pair = ca.issue(&CertificateSpec::server("x", names, vec![[127, 0, 0, 1].into()]), now);
        let pair = pair.unwrap();
        for (name, text) in [
            ("asking", admin),
            ("crt", pair.certificate_pem()),
            ("key", pair.key_pem()),
            ("clients", ca.certificate_pem()),
            ("front", place.front.certificate_pem()),
        ] {
            fs::write(place.folder.path().join(name), text).unwrap();
        }
        place
    }

    fn flag(&self, name: &str, file: &str) -> String {
        format!("{name}={}", self.folder.path().join(file).display())
    }

    /// Serves with these flags and those for delegation to the API server; returns the port.
    async fn serve(&self, cx: &Context, more: &[&str]) -> u16 {
        let mut words = vec![
            self.flag("--tls-cert-file", "crt"),
            self.flag("--tls-private-key-file", "key"),
            self.flag("--authentication-kubeconfig", "asking"),
            self.flag("--authorization-kubeconfig", "asking"),
        ];
        words.extend(more.iter().map(|word| (*word).to_owned()));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut configuration = Value::object();
        configuration["test.config.k8s.io"]["a"] = 1.into();
        let component = ServedComponent {
            name: "test",
            port: 0,
            tolerate_lookup_failure: false,
            configuration,
            flags: BTreeMap::from([("secure-port".to_owned(), "0".to_owned())]),
        };
        let flags = flags(&words);
        let delegated = flags.delegated(component.tolerate_lookup_failure, None).await.unwrap();
        serve_on(listener, cx, &flags, (component, delegated)).unwrap();
        port
    }

    /// A client with a certificate that this CA has issued.
    fn client(&self, port: u16, by: &CertificateAuthority, name: &str, groups: &[&str]) -> Client {
        let pair = by.issue(&CertificateSpec::client(name, groups), SystemClock.now()).unwrap();
        let server = format!("https://localhost:{port}");
        let text = pair.kubeconfig(&server, &self.running.cluster.ca).unwrap();
        let mut config = Kubeconfig::default();
        config.add(self.folder.path(), &text).unwrap();
        Client::new(config.config(None).unwrap())
    }
}

async fn get(
    client: &Client,
    path: &str,
    headers: &[(&'static str, &'static str)],
) -> (u16, String) {
    let mut all = HeaderMap::new();
    for (name, value) in headers {
        all.append(*name, HeaderValue::from_static(value));
    }
    let answer = client.request(Method::GET, path, all, Bytes::new()).await.unwrap();
    let code = answer.status.as_u16();
    (code, String::from_utf8_lossy(&answer.bytes().await.unwrap()).into_owned())
}

/// `/statusz` and `/flagz` are answered as text and as objects.
async fn shows_status_and_flags(root: &Client) {
    let (code, said) = get(root, "/statusz", &[]).await;
    assert!(code == 200 && said.starts_with("\ntest statusz\nWarning: "), "{said}");
    assert!(said.contains("\nBinary version= 1.37.1\nEmulation version= 1.37\nPaths= /configz "));
    let object = ("accept", "application/json;v=v1beta1;g=config.k8s.io;as=Flagz");
    let (_, said) = get(root, "/flagz", &[object]).await;
    let said = from_json(said.as_bytes()).unwrap();
    assert_eq!(said["metadata"]["name"].as_str(), Some("test"));
    assert_eq!(said["flags"]["secure-port"].as_str(), Some("0"));
    assert_eq!(get(root, "/flagz", &[("accept", "image/png")]).await.0, 406);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_server_says_who_may() {
    let place = Place::new().await;
    let cx = Context::new(&place.client(place.running.port, &place.running.cluster.ca, "x", &[]));
    let clients = place.flag("--client-ca-file", "clients");
    let front = place.flag("--requestheader-client-ca-file", "front");
    let port = place
        .serve(
            &cx,
            &[
                &clients,
                &front,
                "--requestheader-username-headers=x-user",
                "--requestheader-group-headers=x-group",
                "--requestheader-uid-headers=x-uid",
                "--requestheader-extra-headers-prefix=x-more-",
                "--requestheader-allowed-names=proxy",
                "--authorization-webhook-cache-unauthorized-ttl=0s",
                "--authorization-webhook-cache-authorized-ttl=5s",
                "--authentication-token-webhook-cache-ttl=5s",
                "--authorization-always-allow-paths=/healthz,/live*",
            ],
        )
        .await;
    let ca = &place.running.cluster.ca;
    let alice = place.client(port, ca, "alice", &[]);
    assert_eq!(get(&alice, "/healthz", &[]).await, (200, "ok".to_owned()));
    assert_eq!(get(&alice, "/livez/ping", &[]).await.0, 200);
    let (code, said) = get(&alice, "/configz", &[]).await;
    assert!(
        code == 403 && said.contains(r#"User \"alice\" cannot get path \"/configz\""#),
        "{said}"
    );
    assert_eq!(get(&alice, "/metrics", &[]).await.0, 403);
    let admin = place.client(place.running.port, ca, "admin", &["system:masters"]);
    for (path, body) in [
        (
            "clusterroles",
            r#"{"metadata":{"name":"m"},"rules":[{"nonResourceURLs":["/metrics"],"verbs":["get"]}]}"#,
        ),
        (
            "clusterrolebindings",
            r#"{"metadata":{"name":"m"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io",
            "kind":"ClusterRole","name":"m"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"alice"}]}"#,
        ),
    ] {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/{path}");
        admin.call(Method::POST, &path, "application/json", body.into()).await.unwrap();
    }
    let (code, said) = get(&alice, "/metrics", &[]).await;
    assert!(code == 200 && said.contains("process_resident_memory_bytes"), "{code} {said}");
    assert!(said.contains("git_version=\"v1.37.1\""), "{said}");
    let root = place.client(port, ca, "root", &["system:masters"]);
    let (code, said) = get(&root, "/configz", &[]).await;
    let said = from_json(said.as_bytes()).unwrap();
    assert_eq!((code, said["test.config.k8s.io"]["a"].as_i64()), (200, Some(1)));
    let (_, verbose) = get(&root, "/readyz?verbose", &[]).await;
    assert_eq!(verbose, "[+]ping ok\nreadyz check passed\n");
    assert_eq!(get(&root, "/nowhere", &[]).await.0, 404);
    shows_status_and_flags(&root).await;
    assert_eq!(get(&alice, "/flagz", &[]).await.0, 403);

    let masters = [("x-user", "p"), ("x-group", "system:masters")];
    let proxy = place.client(port, &place.front, "proxy", &[]);
    assert_eq!(get(&proxy, "/metrics", &masters).await.0, 200);
    assert_eq!(get(&proxy, "/metrics", &[]).await.0, 403, "it is nobody itself");
    let other = place.client(port, &place.front, "other", &[]);
    assert_eq!(get(&other, "/metrics", &masters).await.0, 403, "not believed");
    assert_eq!(get(&alice, "/configz", &masters).await.0, 403, "no proxy");

    for (token, code) in [("good", 200), ("weak", 403), ("wrong", 401)] {
        let authority = place.folder.path().join("clients").display().to_string();
        let text = format!(
            "{{clusters: [{{name: a, cluster: {{server: 'https://localhost:{port}', \
             certificate-authority: {authority}}}}}], users: [{{name: a, user: {{token: {token}}}}}], \
             contexts: [{{name: a, context: {{cluster: a, user: a}}}}], current-context: a}}"
        );
        let mut config = Kubeconfig::default();
        config.add(place.folder.path(), &text).unwrap();
        let shows = Client::new(config.config(None).unwrap());
        assert_eq!(get(&shows, "/configz", &[]).await.0, code, "{token}");
    }
    cx.stop().await;
    place.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_said_is_looked_up() {
    let place = Place::new().await;
    let ca = &place.running.cluster.ca;
    let cx = Context::new(&place.client(place.running.port, ca, "x", &[]));
    let port = place.serve(&cx, &[]).await;
    let root = place.client(port, ca, "root", &["system:masters"]);
    assert_eq!(get(&root, "/configz", &[]).await.0, 200);
    let kubeconfig = place.flag("--authentication-kubeconfig", "asking");
    let known = async |more: &str| {
        let flags = flags(&[&kubeconfig, more]);
        flags.delegated(false, None).await.map(|known| known.client_ca.is_some())
    };
    assert!(known("--authentication-skip-lookup=false").await.unwrap());
    assert!(!known("--authentication-skip-lookup").await.unwrap());
    place.running.stop().await;
    assert!(known("--authentication-tolerate-lookup-failure=false").await.is_err());
    assert!(!known("--authentication-tolerate-lookup-failure").await.unwrap());
    cx.stop().await;
}

#[tokio::test]
async fn how_it_is_served() {
    let spoken = async |words: &[&str]| {
        let flags = flags(words);
        let known = flags.delegated(false, None).await.unwrap();
        flags.certificates("x", &known).and_then(|own| own.config())
    };
    let protocols = async |words: &[&str]| spoken(words).await.unwrap().alpn_protocols.len();
    assert_eq!(protocols(&[]).await, 2);
    assert_eq!(protocols(&["--disable-http2-serving"]).await, 1);
    let suites =
        async |words: &[&str]| spoken(words).await.unwrap().crypto_provider().cipher_suites.len();
    let one = "--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384";
    assert!(suites(&[one]).await < suites(&[]).await);
    assert!(suites(&["--tls-min-version=VersionTLS13"]).await <= suites(&[]).await);
    assert!(Only::try_parse_from(["--tls-min-version=VersionTLS10"]).is_err());
    let nowhere = flags(&["--bind-address=127.0.0.9", "--secure-port=0"]);
    assert_eq!(nowhere.bind_address, std::net::Ipv4Addr::new(127, 0, 0, 9));
    let mut config = Kubeconfig::default();
    let text = "{clusters: [{name: a, cluster: {server: 'https://localhost:1'}}], \
        contexts: [{name: a, context: {cluster: a}}], current-context: a}";
    config.add(std::path::Path::new("x"), text).unwrap();
    let cx = Context::new(&Client::new(config.config(None).unwrap()));
    let configuration = Value::Null;
    let component = ServedComponent {
        name: "x",
        port: 1,
        tolerate_lookup_failure: true,
        configuration,
        flags: BTreeMap::new(),
    };
    serve(&cx, &nowhere, component).await.unwrap();
}
