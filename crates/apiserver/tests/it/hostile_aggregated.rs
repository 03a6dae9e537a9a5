//! Hostile aggregated servers: their responses reach only the clients that request them, and delay
//! no other group.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use api::{apiregistration::APIService, core::Service};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use client::Client;
use http::{HeaderMap, Method};
use object::{NamespacedName, from_json};
use testkit::TestCluster;

use crate::{
    hostile_backend::{Answer, Hostile, endless_body},
    of, tree,
};

const PATIENCE: Duration = Duration::from_mins(2);

/// Registers a server for a group.
async fn register(admin: &Client, group: &str, hostile: &Hostile) {
    let registration = format!(
        r#"{{"metadata":{{"name":"v1.{group}"}},"spec":{{"group":"{group}","version":"v1",
        "groupPriorityMinimum":1000,"versionPriority":10,"caBundle":"{}",
        "service":{{"namespace":"default","name":"extra","port":{}}}}}}}"#,
        STANDARD.encode(&hostile.authority),
        hostile.port
    );
    of::<APIService>(admin).create(tree(&registration)).await.unwrap();
}

/// The Available condition of a group: status and message.
async fn available(admin: &Client, group: &str) -> (String, String) {
    let service = of::<APIService>(admin)
        .get(&NamespacedName::new("", &format!("v1.{group}")))
        .await
        .unwrap();
    let condition = service["status"]["conditions"].items().first().cloned().unwrap_or_default();
    let text = |name: &str| condition.get(name).as_str().unwrap_or_default().to_owned();
    (text("status"), text("message"))
}

async fn until(admin: &Client, group: &str, wanted: &str) -> String {
    let began = Instant::now();
    loop {
        let (status, why) = available(admin, group).await;
        if status == wanted {
            return why;
        }
        assert!(began.elapsed() < PATIENCE, "{group} is {status:?}, not {wanted:?}: {why}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn get(client: &Client, path: &str) -> (u16, Bytes) {
    let answer = client.request(Method::GET, path, HeaderMap::new(), Bytes::new()).await;
    let Ok(answer) = answer else { return (0, Bytes::new()) }; // the response ended before its body
    let code = answer.status.as_u16();
    (code, answer.bytes().await.unwrap_or_default())
}

fn good(group: &str) -> String {
    format!(
        r#"{{"kind":"APIResourceList","groupVersion":"{group}/v1","resources":[{{"name":"things",
        "singularName":"thing","namespaced":true,"kind":"Thing","verbs":["list"]}}]}}"#
    )
}

async fn with_service(admin: &Client) {
    // Endpoints cannot have loopback addresses; an ExternalName can resolve to one.
    let service = r#"{"metadata":{"name":"extra"},"spec":{"type":"ExternalName","externalName":"localhost"}}"#;
    of::<Service>(admin).create(tree(service)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::too_many_lines, reason = "a table of what it answers")]
async fn groups_that_hang_or_lie_hold_up_no_other() {
    let canary = Hostile::start("localhost", |_, _| Answer::Nothing).await;
    let elsewhere = Arc::new(canary.url("/secret"));
    let hostile = Hostile::start("extra.default.svc", move |path, _| {
        let group = path.split('/').nth(2).unwrap_or_default().to_owned();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
                match group.split('.').next().unwrap_or_default() {
            "hangs" => Answer::Nothing,
            "slow" => Answer::Slowly(head.into()),
            "endless" => endless_body(),
            "headers" => Answer::Endless(head.into(), format!("x: {}\r\n", "y".repeat(9_000)).into()),
            "continues" => Answer::Endless(vec![], b"HTTP/1.1 100 Continue\r\n\r\n".repeat(1_000)),
            "redirects" => Answer::Bytes(
                format!("HTTP/1.1 302 Found\r\nlocation: {elsewhere}\r\ncontent-length: 0\r\n\r\n").into(),
            ),
            "deep" => Answer::whole("200 OK", format!("{}1{}", r#"{"a":"#.repeat(90_000), "}".repeat(90_000))),
            "garbage" => Answer::whole("200 OK", "\u{0}{]"),
            "odd" => Answer::whole("200 OK", r#"{"kind":7,"groupVersion":["x"],"resources":[{"name":{"a":1},"verbs":"get"},7,null,
                {"name":"../../x\u0000","kind":"\u001b[2J","verbs":[[]]},{"name":"a/b/c","namespaced":"yes","kind":"K","verbs":["list"]}]}"#),
            "many" => {
                let one = r#"{"name":"things","singularName":"","namespaced":true,"kind":"Thing","verbs":["list"]}"#;
                let all = vec![one; 60_000].join(",");
                Answer::whole("200 OK", format!(r#"{{"kind":"APIResourceList","groupVersion":"{group}/v1","resources":[{all}]}}"#))
            }
            "good" => Answer::whole("200 OK", good(&group)),
            _ if path.ends_with("/openapi/v3") => Answer::whole(
                "200 OK",
                r#"{"paths":{"apis/good.example.com/v1":{"serverRelativeURL":"/openapi/v3/deep?hash=1"},
                    "apis/odd.example.com/v1":{"serverRelativeURL":"/openapi/v3/odd?hash=1"}}}"#,
            ),
            _ if path.starts_with("/openapi/v3/") => {
                Answer::whole("200 OK", format!(r#"{{"components":{{"schemas":{}1{}}}}}"#, "[".repeat(90_000), "]".repeat(90_000)))
            }
            _ => Answer::whole(
                "200 OK",
                r#"{"swagger":"2.0","paths":{"/api/v1/pods":{"get":{"operationId":"evil"}},"/apis/good.example.com/v1/things":7},
                    "definitions":{"io.k8s.api.core.v1.Pod":{"description":"evil"},"a":[[[]]]}}"#,
            ),
        }
    })
    .await;
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    with_service(&admin).await;
    let bad = [
        "hangs",
        "slow",
        "endless",
        "headers",
        "continues",
        "redirects",
        "deep",
        "garbage",
        "odd",
        "many",
    ];
    for name in bad {
        register(&admin, &format!("{name}.example.com"), &hostile).await;
    }
    register(&admin, "good.example.com", &hostile).await;
    until(&admin, "good.example.com", "True").await;
    for name in ["hangs", "slow", "endless", "headers", "continues", "redirects"] {
        let why = until(&admin, &format!("{name}.example.com"), "False").await;
        println!("{name}: {why}");
        assert!(why.len() < 2_000 && !why.contains("secret"), "{name}: {why}");
    }
    assert_eq!(canary.requests(), 0, "nobody went there");

    // Discovery of all other groups works as before.
    let mut aggregated = HeaderMap::new();
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    aggregated.insert("accept", accept.parse().unwrap());
    for (path, headers) in [
        ("/apis", HeaderMap::new()),
        ("/apis", aggregated),
        ("/api/v1", HeaderMap::new()),
        ("/apis/apps/v1", HeaderMap::new()),
        ("/apis/good.example.com/v1", HeaderMap::new()),
        ("/openapi/v3", HeaderMap::new()),
        ("/openapi/v2", HeaderMap::new()),
    ] {
        let began = Instant::now();
        let answer = admin.request(Method::GET, path, headers, Bytes::new()).await.unwrap();
        assert_eq!(answer.status, 200, "{path}");
        let body = answer.bytes().await.unwrap();
        from_json(&body).unwrap_or_else(|error| panic!("{path}: {error}"));
        println!("{path}: {} bytes in {:?}", body.len(), began.elapsed());
        assert!(began.elapsed() < Duration::from_mins(1), "{path}: {:?}", began.elapsed());
        if path == "/openapi/v2" {
            assert!(!String::from_utf8_lossy(&body).contains("evil"), "it describes others' kinds");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::too_many_lines, reason = "a table of what it answers")]
async fn what_is_passed_on_harms_nobody() {
    let canary = Hostile::start("localhost", |_, _| Answer::Nothing).await;
    let elsewhere = canary.url("/secret");
    let hostile = Hostile::start("extra.default.svc", move |path, _| {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
        let name = path.split('?').next().and_then(|path| path.rsplit('/').next());
        match name.unwrap_or_default() {
            "v1" => Answer::whole("200 OK", good("extra.example.com")),
            "hangs" => Answer::Nothing,
            "slow" => Answer::Slowly(head.into()),
            "headers" => Answer::Endless(head.into(), format!("x: {}\r\n", "y".repeat(9_000)).into()),
            "header" => Answer::Endless(format!("{head}x: ").into(), vec![b'y'; 65_536]),
            "continues" => Answer::Endless(vec![], b"HTTP/1.1 100 Continue\r\n\r\n".repeat(1_000)),
            "switches" => Answer::Bytes(
                b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\nraw".to_vec(),
            ),
            "redirects" => Answer::Bytes(
                format!("HTTP/1.1 307 Go\r\nlocation: {elsewhere}\r\ncontent-length: 0\r\n\r\n").into(),
            ),
            "status" => Answer::Bytes(b"HTTP/1.1 99999 Odd\r\n\r\n".to_vec()),
            "garbage" => Answer::Bytes((0..=255_u8).cycle().take(100_000).collect()),
            "two-lengths" => Answer::Bytes(
                format!("{head}content-length: 5\r\ncontent-length: 500\r\n\r\nhello").into(),
            ),
            "smuggles" => Answer::Bytes(
                format!("{head}content-length: 2\r\n\r\n{{}}HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nother").into(),
            ),
            "chunks" => Answer::Bytes(
                format!("{head}transfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n{{}}").into(),
            ),
            "endless" => endless_body(),
            _ => Answer::whole("200 OK", "{}"),
        }
    })
    .await;
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    with_service(&admin).await;
    register(&admin, "extra.example.com", &hostile).await;
    until(&admin, "extra.example.com", "True").await;
    let base = "/apis/extra.example.com/v1/namespaces/default";
    let read_on = async {
        for name in [
            "fine",
            "hangs",
            "slow",
            "headers",
            "header",
            "continues",
            "switches",
            "redirects",
            "status",
            "garbage",
            "two-lengths",
            "smuggles",
            "chunks",
            "fine",
        ] {
            let began = Instant::now();
            let (code, body) = get(&admin, &format!("{base}/{name}?timeout=2s")).await;
            println!("{name}: {code} {} bytes in {:?}", body.len(), began.elapsed());
            assert!(began.elapsed() < Duration::from_secs(40), "{name}: {:?}", began.elapsed());
            match name {
                "fine" | "smuggles" => assert_eq!((code, &body[..]), (200, &b"{}"[..]), "{name}"),
                "chunks" => assert!(matches!(code, 0 | 200 | 500..), "{name}: {code}"),
                _ => assert!((500..=504).contains(&code), "{name}: {code}"),
            }
        }
    };
    // While one client reads an endless body, other requests are not affected.
    let endless = async {
        let path = format!("{base}/endless?timeout=3s");
        let answer = admin.request(Method::GET, &path, HeaderMap::new(), Bytes::new()).await;
        let mut read = 0;
        if let Ok(mut answer) = answer {
            while let Ok(Some(piece)) = answer.chunk().await {
                read += piece.len();
                if read > 64 << 20 {
                    break;
                }
            }
        }
        println!("endless: {read} bytes were read");
    };
    let neighbour = async {
        for _ in 0..20 {
            let began = Instant::now();
            assert_eq!(get(&admin, "/api/v1/namespaces/default").await.0, 200);
            assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::join!(read_on, endless, neighbour);
    assert_eq!(canary.requests(), 0, "nobody went there");
    let (_, why): (u16, Bytes) = get(&admin, &format!("{base}/redirects?timeout=2s")).await;
    assert!(!String::from_utf8_lossy(&why).contains("secret"));
}
