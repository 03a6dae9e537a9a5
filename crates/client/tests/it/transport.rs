//! Tests of connectors, TLS, retries, credentials and upgrades.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use client::{Client, Config, Error, Kubeconfig};
use futures_util::{SinkExt, StreamExt};
use http::{HeaderMap, Method};
use pki::{CertificateAuthority, CertificateSpec, ClientCaVerifier};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, UnixListener},
    task::JoinSet,
};
use tokio_tungstenite::tungstenite::{
    Message,
    handshake::server::{Request, Response},
};

use crate::server::{Say, Server};

#[tokio::test]
async fn warnings_reach_whoever_asked_for_them() {
    let server =
        Server::new(|_| Say::With(200, "{}", &[("warning", "299 - \"this is deprecated\"")]));
    let mut tasks = JoinSet::new();
    let client = server.on_pipe(&mut tasks);
    let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
    let ears = heard.clone();
    let tell = move |text: &str| ears.lock().unwrap().push(text.to_owned());
    let client = Client::new(client.config().clone().on_warning(tell));
    get(&client, "/api").await.unwrap();
    assert_eq!(*heard.lock().unwrap(), ["this is deprecated"]);
}

async fn get(client: &Client, path: &str) -> Result<Bytes, Error> {
    let answer = client.request(Method::GET, path, HeaderMap::new(), Bytes::new()).await?;
    answer.error_for_status().await?.bytes().await
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_asked_again_when_it_says() {
    let count = AtomicUsize::new(0);
    let server = Server::new(move |_| match count.fetch_add(1, Ordering::Relaxed) {
        0..3 => Say::With(429, "", &[("retry-after", "2")]),
        _ => Say::Json(200, "{}"),
    });
    let mut tasks = JoinSet::new();
    let client = server.on_pipe(&mut tasks);
    let before = tokio::time::Instant::now();
    get(&client, "/api").await.unwrap();
    assert_eq!(server.asked().len(), 4);
    assert!(before.elapsed() >= Duration::from_secs(6));
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_given_up() {
    let mut tasks = JoinSet::new();
    let client = Server::new(|_| Say::Silence).on_pipe(&mut tasks);
    assert!(matches!(get(&client, "/api").await, Err(Error::Unavailable(_))));
    tasks.shutdown().await;
    assert!(get(&client, "/api").await.unwrap_err().is_transient(), "nobody is there");
}

fn kubeconfig(port: u16, cluster: &str, user: &str) -> Client {
    Client::new(file(port, cluster, user).config(None).unwrap())
}

fn file(port: u16, cluster: &str, user: &str) -> Kubeconfig {
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         contexts: [{{name: c, context: {{cluster: k, user: u, namespace: blue}}}}]\n\
         clusters: [{{name: k, cluster: {{server: 'https://localhost:{port}', {cluster}}}}}]\n\
         users: [{{name: u, user: {{{user}}}}}]\n"
    );
    let mut file = Kubeconfig::default();
    file.add("/nowhere/config".as_ref(), &text).unwrap();
    file
}

#[tokio::test]
async fn a_kubeconfig_leads_through_tls() {
    let now = object::Clock::now(&object::SystemClock);
    let authority = CertificateAuthority::create("kubernetes", now).unwrap();
    let own = authority
        .issue(&CertificateSpec::server("api", vec!["localhost".into()], vec![]), now)
        .unwrap();
    let jane = authority.issue(&CertificateSpec::client("jane", &["dev"]), now).unwrap();
    let trust = ClientCaVerifier::new(std::slice::from_ref(authority.certificate())).unwrap();
    let config = Arc::new(pki::server_config(&own, Some(&trust)).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = Server::new(|_| Say::Json(200, "{}"));
    let mut tasks = JoinSet::new();
    let serving = server.clone();
    let names = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = names.clone();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = tokio_rustls::TlsAcceptor::from(config.clone());
            let (serving, seen, trust) = (serving.clone(), seen.clone(), trust.clone());
            connections.spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let session = stream.get_ref().1;
                assert_eq!(session.alpn_protocol(), Some(&b"h2"[..]));
                let chain = session.peer_certificates().unwrap_or_default();
                let who = trust.identify(chain, now).map(|who| who.common_name);
                seen.lock().unwrap().push(who.unwrap_or_default());
                serving.serve(stream).await;
            });
        }
    });

    let data = |pem: String| BASE64_STANDARD.encode(pem);
    let ca = format!("certificate-authority-data: {}", data(authority.certificate_pem()));
    let cert = format!(
        "client-certificate-data: {}, client-key-data: {}",
        data(jane.certificate_pem()),
        data(jane.key_pem())
    );
    let client = kubeconfig(port, &ca, &cert);
    assert_eq!(client.default_namespace(), "blue");
    get(&client, "/version").await.unwrap();
    let token = kubeconfig(port, &ca, "token: secret, as: joe, as-groups: [a, b]");
    get(&token, "/version").await.unwrap();
    let nobody = file(port, &ca, &cert).anonymous_config(None).unwrap();
    get(&Client::new(nobody), "/version").await.unwrap();
    assert_eq!(*names.lock().unwrap(), ["jane", "", ""], "nobody shows no certificate");
    let asked = server.asked();
    assert!(!asked[0].headers.contains_key("authorization"));
    assert_eq!(asked[1].headers["authorization"], "Bearer secret");
    assert_eq!(asked[1].headers["impersonate-user"], "joe");
    assert_eq!(asked[1].headers.get_all("impersonate-group").iter().count(), 2);

    let other = CertificateAuthority::create("kubernetes", now).unwrap();
    let wrong = format!("certificate-authority-data: {}", data(other.certificate_pem()));
    assert!(get(&kubeconfig(port, &wrong, ""), "/version").await.is_err());
    let elsewhere = format!("{ca}, tls-server-name: elsewhere");
    assert!(get(&kubeconfig(port, &elsewhere, ""), "/version").await.is_err());
    get(&kubeconfig(port, "insecure-skip-tls-verify: true", ""), "/version").await.unwrap();
}

#[tokio::test]
async fn a_request_turns_into_a_web_socket() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("d".repeat(120)); // too long for a socket path
    std::fs::create_dir(&deep).unwrap();
    let short = folder.path().join("api.sock");
    let listener = UnixListener::bind(&short).unwrap();
    let path = deep.join("api.sock");
    std::fs::rename(&short, &path).unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        #[expect(clippy::result_large_err, reason = "the library's type")]
        let choose = |request: &Request, mut response: Response| {
            assert_eq!(request.uri().path(), "/exec");
            let protocol = "v5.channel.k8s.io".parse().unwrap();
            response.headers_mut().insert("sec-websocket-protocol", protocol);
            Ok(response)
        };
        let mut socket = tokio_tungstenite::accept_hdr_async(stream, choose).await.unwrap();
        while let Some(Ok(message)) = socket.next().await {
            socket.send(message).await.unwrap();
        }
    });
    let client = Client::new(Config::unix(&path));
    let mut socket = client.upgrade("/exec", &["v5.channel.k8s.io", "v4"]).await.unwrap();
    assert_eq!(socket.protocol, "v5.channel.k8s.io");
    socket.stream.send(Message::binary(&b"\0hello"[..])).await.unwrap();
    assert_eq!(socket.stream.next().await.unwrap().unwrap().into_data(), &b"\0hello"[..]);
}

#[tokio::test]
async fn a_refused_upgrade_says_why() {
    let server = Server::new(|_| {
        Say::Json(403, r#"{"kind":"Status","apiVersion":"v1","reason":"Forbidden","code":403}"#)
    });
    let mut tasks = JoinSet::new();
    let client = server.on_pipe(&mut tasks);
    assert!(client.upgrade("/exec", &[]).await.unwrap_err().is_forbidden());
    assert_eq!(server.asked()[0].headers["upgrade"], "websocket");
}

/// A server below a base path, behind a proxy, with impersonation.
#[tokio::test]
async fn a_proxy_stands_between() {
    let server = Server::new(|_| Say::Json(200, "{}"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut tasks = JoinSet::new();
    let serving = server.clone();
    tasks.spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        assert!(head.starts_with(b"CONNECT api.test:8080 HTTP/1.1\r\n"));
        stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
        serving.serve(stream).await;
    });
    let text = format!(
        "{{current-context: c, contexts: [{{name: c, context: {{cluster: k, user: u}}}}],
        clusters: [{{name: k, cluster: {{server: \"http://api.test:8080/below/it/\",
            proxy-url: \"http://127.0.0.1:{port}\"}}}}],
        users: [{{name: u, user: {{token: t, as: other, as-user-extra: {{\"a/B\": [x]}}}}}}]}}"
    );
    let mut files = Kubeconfig::default();
    files.add(std::path::Path::new("config"), &text).unwrap();
    let client = Client::new(files.config(None).unwrap());
    get(&client, "/api").await.unwrap();
    let asked = &server.asked()[0];
    assert_eq!(asked.uri, "/below/it/api");
    assert_eq!(asked.headers["impersonate-user"], "other");
    assert_eq!(asked.headers["impersonate-extra-a%2fb"], "x");
}

/// TLS to the proxy, and TLS through it to the server; both are trusted by the same CA bundle.
#[tokio::test]
async fn a_proxy_may_want_tls_itself() {
    let now = object::Clock::now(&object::SystemClock);
    let authority = CertificateAuthority::create("kubernetes", now).unwrap();
    let named = |name: &str| {
        let leaf = CertificateSpec::server(name, vec![name.into()], vec![]);
        let config = pki::server_config(&authority.issue(&leaf, now).unwrap(), None).unwrap();
        tokio_rustls::TlsAcceptor::from(Arc::new(config))
    };
    let (outer, inner) = (named("localhost"), named("api.test"));
    let server = Server::new(|_| Say::Json(200, "{}"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut tasks = JoinSet::new();
    let serving = server.clone();
    tasks.spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = outer.accept(stream).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        assert!(head.starts_with(b"CONNECT api.test:443 HTTP/1.1\r\n"));
        stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
        serving.serve(inner.accept(stream).await.unwrap()).await;
    });
    let trusted = BASE64_STANDARD.encode(authority.certificate_pem());
    let text = format!(
        "{{current-context: c, contexts: [{{name: c, context: {{cluster: k}}}}],
        clusters: [{{name: k, cluster: {{server: \"https://api.test\",
            certificate-authority-data: {trusted}, proxy-url: \"https://localhost:{port}\"}}}}]}}"
    );
    let mut files = Kubeconfig::default();
    files.add(std::path::Path::new("config"), &text).unwrap();
    let client = Client::new(files.config(None).unwrap());
    get(&client, "/api").await.unwrap();
    assert_eq!(server.asked()[0].uri, "/api");
}
