//! Flags about connections and requests, each with its effect.

use std::{sync::Arc, time::Duration};

use api::{admissionregistration::ValidatingWebhookConfiguration, core::ConfigMap};
use apiserver::{
    Config, Flags, ListenerSource, RunningServer, ServerEnvironment, StorageBackend, start_with,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use client::Client;
use http::{HeaderMap, HeaderValue, Method};
use object::SystemClock;
use rustls::{
    ClientConfig, RootCertStore,
    version::{TLS12, TLS13},
};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};

use crate::{
    backend::Backend,
    code, config_map,
    flags::{get, refused, with},
    of, tree,
};

async fn headers(client: &Client, method: Method, origin: &str) -> (u16, HeaderMap) {
    let mut head = HeaderMap::new();
    head.insert("origin", HeaderValue::from_str(origin).unwrap());
    let answer = client.request(method, "/version", head, Bytes::new()).await.unwrap();
    (answer.status.as_u16(), answer.headers.clone())
}

#[tokio::test]
async fn cors_allowed_origins_and_strict_transport_security_directives() {
    let cluster = with(|flags| {
        flags.connections.cors_allowed_origins = vec![r"//example\.com(:|$)".to_owned()];
        let directives = ["max-age=60", "includeSubDomains"].map(str::to_owned).to_vec();
        flags.connections.strict_transport_security_directives = directives;
    })
    .await;
    let admin = cluster.admin_client();
    let (code, own) = headers(&admin, Method::OPTIONS, "https://example.com").await;
    assert_eq!((code, own.get("access-control-allow-origin").is_some()), (204, true));
    assert_eq!(own["strict-transport-security"], "max-age=60; includeSubDomains");
    let (_, other) = headers(&admin, Method::GET, "https://example.com.evil.test").await;
    assert!(other.get("access-control-allow-origin").is_none());
    let loose = refused(|flags| {
        flags.connections.cors_allowed_origins = vec!["example.com".to_owned()];
    });
    assert!(loose.contains("does not pin to start/end of host"), "{loose}");
    let odd = refused(|flags| {
        flags.connections.strict_transport_security_directives = vec!["sometimes".to_owned()];
    });
    assert!(odd.contains("--strict-transport-security-directives invalid"), "{odd}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_timeout() {
    // A webhook that takes longer than the request timeout.
    let slow = Backend::start(|_, review| {
        tokio::task::block_in_place(|| std::thread::sleep(Duration::from_secs(8)));
        review
    })
    .await;
    let cluster = with(|flags| flags.connections.request_timeout = "1s".to_owned()).await;
    let admin = cluster.admin_client();
    let (url, bundle) = (slow.url("/"), STANDARD.encode(&slow.authority));
    let hook = tree(&format!(
        r#"{{"metadata":{{"name":"h"}},"webhooks":[{{"name":"h.example.com","sideEffects":"None",
        "admissionReviewVersions":["v1"],"timeoutSeconds":30,
        "clientConfig":{{"url":"{url}","caBundle":"{bundle}"}},"rules":[{{"operations":["CREATE"],
        "apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"]}}]}}]}}"#
    ));
    of::<ValidatingWebhookConfiguration>(&admin).create(hook).await.unwrap();
    assert_eq!(code(of::<ConfigMap>(&admin).create(config_map("a")).await), 504);
    let wrong = refused(|flags| flags.connections.request_timeout = "soon".to_owned());
    assert!(wrong.contains("--request-timeout"), "{wrong}");
}

#[tokio::test]
async fn min_request_timeout() {
    let cluster = with(|flags| flags.connections.min_request_timeout = 0).await;
    let (admin, path) = (cluster.admin_client(), "/api/v1/configmaps?watch=true");
    let watch = admin.request(Method::GET, path, HeaderMap::new(), Bytes::new()).await.unwrap();
    // The request has no timeout: with the default of half an hour, the watch would not end.
    let ended = tokio::time::timeout(Duration::from_mins(2), watch.bytes()).await;
    assert!(ended.is_ok_and(|whole| whole.is_ok()));
}

/// A server that listens on a port.
pub(crate) async fn behind_port(
    folder: &TempDir,
    change: impl FnOnce(&mut Flags),
) -> RunningServer {
    let mut flags =
        Flags { advertise_address: Some([192, 0, 2, 10].into()), ..Flags::new(folder.path()) };
    change(&mut flags);
    let entry = ListenerSource::Listener(TcpListener::bind("127.0.0.1:0").await.unwrap());
    let ground =
        ServerEnvironment { storage: StorageBackend::Memory, entry, clock: Arc::new(SystemClock) };
    start_with(Config::new(flags).unwrap(), ground).await.unwrap()
}

/// The cipher suite and the ALPN protocol that are negotiated with a client of this TLS version.
async fn agreed(
    running: &RunningServer,
    version: &'static rustls::SupportedProtocolVersion,
) -> Option<(String, Option<Vec<u8>>)> {
    let mut roots = RootCertStore::empty();
    roots.add(running.cluster.ca.certificate().clone()).unwrap();
    let mut config = ClientConfig::builder_with_provider(pki::provider())
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let stream = TcpStream::connect(("127.0.0.1", running.port)).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let name = "localhost".try_into().unwrap();
    let stream = connector.connect(name, stream).await.ok()?;
    let connection = stream.get_ref().1;
    let suite = connection.negotiated_cipher_suite()?.suite();
    let suite = suite.as_str().unwrap_or_default().to_owned();
    Some((suite, connection.alpn_protocol().map(<[u8]>::to_vec)))
}

#[tokio::test]
async fn tls_versions_suites_and_curves() {
    let folder = TempDir::new().unwrap();
    let suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384";
    let running = behind_port(&folder, |flags| {
        flags.connections.tls_cipher_suites = vec![suite.to_owned()];
        flags.connections.tls_curve_preferences = vec![24];
        flags.connections.disable_http2_serving = true;
    })
    .await;
    let (spoken, protocol) = agreed(&running, &TLS12).await.unwrap();
    assert_eq!((spoken.as_str(), protocol.as_deref()), (suite, Some(&b"http/1.1"[..])));
    assert!(agreed(&running, &TLS13).await.is_some());
    running.stop().await;
    let folder = TempDir::new().unwrap();
    let running = behind_port(&folder, |flags| {
        flags.connections.tls_min_version = "VersionTLS13".to_owned();
    })
    .await;
    assert!(agreed(&running, &TLS12).await.is_none());
    let (_, protocol) = agreed(&running, &TLS13).await.unwrap();
    assert_eq!(protocol.as_deref(), Some(&b"h2"[..]));
    running.stop().await;
    let old = refused(|flags| flags.connections.tls_min_version = "VersionTLS10".to_owned());
    assert!(old.contains("VersionTLS10"), "{old}");
    let weak = refused(|flags| {
        let weak = "TLS_RSA_WITH_AES_128_CBC_SHA".to_owned();
        flags.connections.tls_cipher_suites = vec![weak];
    });
    assert!(weak.contains("CBC"), "{weak}");
}

#[tokio::test]
async fn several_servers_share_a_port() {
    let (one, two) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let start = async |folder: &TempDir, share: bool| {
        let mut flags =
            Flags { advertise_address: Some([192, 0, 2, 10].into()), ..Flags::new(folder.path()) };
        flags.bind_address = [127, 0, 0, 3].into();
        flags.secure_port = 7611;
        flags.connections.permit_port_sharing = share;
        flags.connections.permit_address_sharing = true;
        let clock = Arc::new(SystemClock);
        let ground = ServerEnvironment {
            storage: StorageBackend::Memory,
            entry: ListenerSource::Port,
            clock,
        };
        start_with(Config::new(flags).unwrap(), ground).await
    };
    let first = start(&one, true).await.unwrap();
    assert!(start(&two, false).await.is_err());
    start(&two, true).await.unwrap().stop().await;
    first.stop().await;
}

#[tokio::test]
async fn the_end_is_told_before_it_comes() {
    let cluster = Arc::new(
        with(|flags| {
            flags.connections.shutdown_delay_duration = "3s".to_owned();
            flags.connections.shutdown_send_retry_after = true;
            flags.connections.shutdown_watch_termination_grace_period = "1s".to_owned();
        })
        .await,
    );
    let admin = cluster.admin_client();
    assert_eq!(get(&admin, "/readyz").await.0, 200);
    let mut stopping = tokio::task::JoinSet::new();
    stopping.spawn({
        let cluster = cluster.clone();
        async move { cluster.stop().await }
    });
    let maps = of::<ConfigMap>(&admin);
    let mut unready = false;
    for at in 0.. {
        let Ok(answer) =
            admin.request(Method::GET, "/readyz", HeaderMap::new(), Bytes::new()).await
        else {
            break; // the server has stopped
        };
        if answer.status == 500 {
            unready = true;
            // It still serves, or asks the client to retry.
            let made = maps.create(config_map(&format!("m{at}"))).await;
            let again = |error: client::Error| error.status().is_some_and(|own| own.code() == 429);
            assert!(made.map_or_else(again, |_| true));
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(unready, "nobody is sent here any more");
    stopping.join_all().await;
    let wrong = refused(|flags| flags.connections.shutdown_delay_duration = "-1s".to_owned());
    assert!(wrong.contains("--shutdown-delay-duration"), "{wrong}");
}

#[tokio::test]
async fn streams_are_slowed_down() {
    let usual = with(|_| {}).await;
    assert_eq!(usual.running.server.config.limits.stream_bytes_per_second, None);
    let cluster = with(|flags| flags.connections.max_connection_bytes_per_sec = 1000).await;
    let limit = cluster.running.server.config.limits.stream_bytes_per_second;
    assert_eq!(limit.map(std::num::NonZeroU64::get), Some(1000));
}

#[test]
fn what_is_out_of_bounds_is_refused() {
    let much = refused(|flags| flags.connections.goaway_chance = 0.5);
    assert_eq!(much, "--goaway-chance can not be less than 0 or greater than 0.02");
}

#[tokio::test]
async fn streams_and_goodbyes() {
    let cluster = with(|flags| {
        flags.connections.http2_max_streams_per_connection = 1;
        flags.connections.goaway_chance = 0.02;
    })
    .await;
    let config = &cluster.running.server.config;
    assert_eq!(
        (config.limits.max_http2_streams, config.http_policy.goaway_chance),
        (Some(1), 0.02)
    );
    let quiet = with(|flags| flags.connections.http2_max_streams_per_connection = 1).await;
    let admin = quiet.admin_client();
    let mut both = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let admin = admin.clone();
        both.spawn(async move { get(&admin, "/version").await.0 });
    }
    assert!(both.join_all().await.iter().all(|code| *code == 200));
}
