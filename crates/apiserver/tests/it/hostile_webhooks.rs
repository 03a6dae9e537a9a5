//! Hostile admission webhooks: they match everything, hang, send garbage, or try to change what
//! they must not. The server keeps running, and its own writes do not depend on them.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use api::{
    admissionregistration::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    core::{ConfigMap, Namespace},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use client::Client;
use http::{HeaderMap, Method};
use object::{NamespacedName, Value, from_json, to_json};
use schema::Kind;
use testkit::TestCluster;

use crate::{
    config_map,
    hostile_backend::{Answer, Hostile, endless_body},
    of, tree,
    webhooks::review,
};

const EVERYTHING: &str =
    r#"{"operations":["*"],"apiGroups":["*"],"apiVersions":["*"],"resources":["*/*"]}"#;
const MAPS: &str = r#"{"operations":["CREATE","UPDATE"],"apiGroups":[""],"apiVersions":["v1"],
    "resources":["configmaps"]}"#;

/// A configuration of one webhook with a rule.
fn hook(hostile: &Hostile, rule: &str, more: &str) -> Value {
    let (url, bundle) = (hostile.url("/"), STANDARD.encode(&hostile.authority));
    tree(&format!(
        r#"{{"metadata":{{"name":"h"}},"webhooks":[{{"name":"h.example.com","sideEffects":"None",
        "admissionReviewVersions":["v1"],"clientConfig":{{"url":"{url}","caBundle":"{bundle}"}},
        "rules":[{rule}]{more}}}]}}"#
    ))
}

async fn configure<K: Kind>(admin: &Client, configuration: Value) {
    of::<K>(admin).create(configuration).await.expect("it is right");
}

/// A response that allows the request with a JSON patch.
fn patched(request: &Value, patch: &str) -> Answer {
    let patch = STANDARD.encode(patch);
    let answer = format!(r#""allowed":true,"patchType":"JSONPatch","patch":"{patch}""#);
    Answer::whole("200 OK", to_json(&review(request, &answer)))
}

/// The code and the message of a request that must be rejected.
async fn refused(admin: &Client, name: &str) -> (i32, String) {
    let made = of::<ConfigMap>(admin).create(config_map(name)).await;
    let error = made.expect_err("must be refused");
    let status = error.status().expect("the server's own words");
    (status.code(), status.message().to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_that_hangs_on_everything_does_not_lock_anybody_out() {
    let hostile = Hostile::start("localhost", |_, _| Answer::Nothing).await;
    let folder = tempfile::TempDir::new().unwrap();
    let cluster = TestCluster::start_on_disk(folder.path()).await;
    let admin = cluster.admin_client();
    let more = r#","failurePolicy":"Fail","timeoutSeconds":30"#;
    configure::<MutatingWebhookConfiguration>(&admin, hook(&hostile, EVERYTHING, more)).await;
    configure::<ValidatingWebhookConfiguration>(&admin, hook(&hostile, EVERYTHING, more)).await;
    cluster.stop().await;
    drop(cluster);
    let before = hostile.requests();

    // The server starts, and makes its own writes without the webhooks.
    let began = Instant::now();
    let cluster = TestCluster::start_on_disk(folder.path()).await;
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
    let admin = cluster.admin_client();
    let leases =
        tree(&read(&admin, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases").await);
    assert!(!leases["items"].items().is_empty(), "the server has its lease");
    for path in [
        "/api/v1/namespaces/default/services/kubernetes",
        "/api/v1/namespaces/kube-system",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin",
        "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/exempt",
    ] {
        read(&admin, path).await;
    }
    assert_eq!(hostile.requests(), before, "the server's own writes do not ask hooks");
    // Webhooks are not called for reads, reviews and the configurations themselves.
    let review = r#"{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1",
        "spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}"#;
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    admin.call(Method::POST, path, "application/json", review.into()).await.expect("answered");
    for path in ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"] {
        let path = format!("/apis/admissionregistration.k8s.io/v1/{path}/h");
        admin.call(Method::DELETE, &path, "application/json", "{}".into()).await.expect("deleted");
    }
    of::<ConfigMap>(&admin).create(config_map("free")).await.expect("nobody is asked any more");
    assert_eq!(hostile.requests(), before);
    cluster.stop().await;
}

/// Gets the text at a path, which must exist.
async fn read(admin: &Client, path: &str) -> String {
    let answer = admin.request(Method::GET, path, HeaderMap::new(), bytes::Bytes::new()).await;
    let answer = answer.unwrap_or_else(|error| panic!("{path}: {error}"));
    assert_eq!(answer.status, 200, "{path}");
    String::from_utf8(answer.bytes().await.unwrap().to_vec()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::too_many_lines, reason = "a table of what it answers")]
async fn answers_are_bounded_in_size_time_and_depth() {
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
    let hostile = Hostile::start("localhost", move |_, request| {
        let name = request["request"]["object"]["metadata"]["name"].as_str().unwrap_or_default();
        match name {
            "endless-body" => endless_body(),
            "endless-headers" => {
                Answer::Endless(head.into(), format!("x: {}\r\n", "y".repeat(8_000)).into())
            }
            "endless-header" => Answer::Endless(format!("{head}x: ").into(), vec![b'y'; 65_536]),
            "continues" => Answer::Endless(vec![], b"HTTP/1.1 100 Continue\r\n\r\n".repeat(1_000)),
            "slow" => Answer::Slowly(format!("{head}content-length: 2\r\n\r\n{{}}").into()),
            "bad-chunks" => {
                let body = "transfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n{}\r\n0\r\n\r\n";
                Answer::Bytes(format!("{head}{body}").into())
            }
            "deep" => Answer::whole("200 OK", &deep),
            "deep-object" => Answer::whole(
                "200 OK",
                format!("{}1{}", r#"{"a":"#.repeat(100_000), "}".repeat(100_000)),
            ),
            "garbage" => Answer::Bytes((0..=255_u8).cycle().take(100_000).collect()),
            "status" => Answer::Bytes(b"HTTP/1.1 99999 Odd\r\n\r\n".to_vec()),
            "switching" => Answer::Bytes(
                b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"
                    .to_vec(),
            ),
            "text" => Answer::whole("200 OK", "\u{feff}\u{0}{"),
            "yaml-bomb" => Answer::whole("200 OK", yaml_bomb()),
            "gzip" => Answer::Bytes(
                format!("{head}content-encoding: gzip\r\ncontent-length: 2\r\n\r\n\u{1f}x").into(),
            ),
            "deep-patch" => patched(
                request,
                &format!(
                    r#"[{{"op":"add","path":"/data","value":{}1{}}}]"#,
                    "[".repeat(50_000),
                    "]".repeat(50_000)
                ),
            ),
            "large-patch" => patched(
                request,
                &format!(r#"[{{"op":"add","path":"/data/x","value":"{}"}}]"#, "x".repeat(6 << 20)),
            ),
            "many-patches" => {
                let one = r#"{"op":"copy","from":"/data","path":"/data/x"}"#;
                patched(request, &format!("[{}]", vec![one; 60].join(",")))
            }
            "no-list" => patched(request, r#"{"op":"add"}"#),
            "odd-path" => {
                patched(request, r#"[{"op":"add","path":"/data/~9/\u0000","value":"x"}]"#)
            }
            "not-a-map" => patched(request, r#"[{"op":"replace","path":"","value":[1,2]}]"#),
            "null" => patched(request, r#"[{"op":"replace","path":"","value":null}]"#),
            _ => Answer::whole("200 OK", "null"),
        }
    })
    .await;
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let more = r#","failurePolicy":"Fail","timeoutSeconds":2"#;
    configure::<MutatingWebhookConfiguration>(&admin, hook(&hostile, MAPS, more)).await;
    for name in [
        "endless-body",
        "endless-headers",
        "endless-header",
        "continues",
        "slow",
        "bad-chunks",
        "deep",
        "deep-object",
        "garbage",
        "status",
        "switching",
        "text",
        "yaml-bomb",
        "gzip",
        "deep-patch",
        "large-patch",
        "many-patches",
        "no-list",
        "odd-path",
        "not-a-map",
        "null",
        "nothing",
    ] {
        let began = Instant::now();
        let (code, message) = refused(&admin, name).await;
        println!(
            "{name}: {code} {} {:?}",
            message.chars().take(300).collect::<String>(),
            began.elapsed()
        );
        assert!((400..=599).contains(&code), "{name}: {code} {message}");
        assert!(message.len() < 20_000, "{name}: a message of {} bytes", message.len());
        assert!(began.elapsed() < Duration::from_secs(40), "{name}: {:?}", began.elapsed());
    }
    // Resources that the webhook does not match are not affected.
    of::<Namespace>(&admin).create(tree(r#"{"metadata":{"name":"other"}}"#)).await.unwrap();
}

fn yaml_bomb() -> String {
    let mut text = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for nth in 1..12 {
        let before = vec![format!("*a{}", nth - 1); 9].join(",");
        text.push_str(&format!("a{nth}: &a{nth} [{before}]\n"));
    }
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_always_a_valid_status() {
    let hostile = Hostile::start("localhost", |_, request| {
        let name = request["request"]["object"]["metadata"]["name"].as_str().unwrap_or_default();
        let status = match name {
            "none" => "null".to_owned(),
            "words" => r#"{"code":"many","message":7,"details":[]}"#.to_owned(),
            "long" => format!(r#"{{"code":403,"message":"{}"}}"#, "no ".repeat(1 << 20)),
            "success" => r#"{"status":"Success","code":403}"#.to_owned(),
            code => format!(
                r#"{{"code":{},"message":"no"}}"#,
                code.trim_start_matches('c').replace('m', "-")
            ),
        };
        let answer = format!(r#""allowed":false,"status":{status}"#);
        Answer::whole("200 OK", to_json(&review(request, &answer)))
    })
    .await;
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    configure::<ValidatingWebhookConfiguration>(&admin, hook(&hostile, MAPS, "")).await;
    for (name, expected) in [
        ("c70000", 500),
        ("c2147483647", 500),
        ("c600", 500),
        ("c599", 599),
        ("c451", 451),
        ("c200", 400),
        ("c0", 400),
        ("cm1", 400),
        ("c302", 400),
        ("c399", 400),
        ("none", 400),
        ("words", 400),
        ("success", 403),
        ("long", 403),
    ] {
        let path = "/api/v1/namespaces/default/configmaps";
        let body = to_json(&config_map(name));
        let mut headers = HeaderMap::new();
        headers.insert("content-type", "application/json".parse().unwrap());
        let answer = admin.request(Method::POST, path, headers, body.into()).await.unwrap();
        let code = answer.status.as_u16();
        let status = from_json(&answer.bytes().await.unwrap()).unwrap();
        println!(
            "{name}: {code} {}",
            String::from_utf8_lossy(&to_json(&status)).chars().take(300).collect::<String>()
        );
        assert_eq!(i64::from(code), status["code"].as_i64().unwrap(), "{name}");
        assert_eq!(
            (status["kind"].as_str(), status["status"].as_str()),
            (Some("Status"), Some("Failure")),
            "{name}"
        );
        assert_eq!(code, expected, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::too_many_lines, reason = "one attack after the other")]
async fn a_hook_changes_no_identity_but_the_name_of_what_is_created() {
    let hostile = Hostile::start("localhost", |_, request| {
        let data = &request["request"]["object"]["data"]["k"];
        let patch = data.as_str().unwrap_or_default();
        if patch.starts_with('[') {
            patched(request, patch)
        } else {
            Answer::whole("200 OK", to_json(&review(request, r#""allowed":true"#)))
        }
    })
    .await;
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    of::<Namespace>(&admin).create(tree(r#"{"metadata":{"name":"other"}}"#)).await.unwrap();
    configure::<MutatingWebhookConfiguration>(&admin, hook(&hostile, MAPS, "")).await;
    let before = names(&admin).await;
    let maps = of::<ConfigMap>(&admin);
    let replace =
        |path: &str, value: &str| format!(r#"[{{"op":"add","path":"{path}","value":"{value}"}}]"#);
    let all = [
        replace("/metadata/namespace", "other"),
        replace("/metadata/namespace", "kube-system"),
        replace("/metadata/name", "m-renamed"),
        replace("/metadata/name", "../../secrets/default/x"),
        replace("/kind", "Secret"),
        replace("/apiVersion", "v2"),
        replace("/metadata/uid", "00000000-0000-0000-0000-000000000000"),
        replace("/metadata/creationTimestamp", "1999-01-01T00:00:00Z"),
        replace("/metadata/deletionTimestamp", "1999-01-01T00:00:00Z"),
        replace("/metadata/resourceVersion", "1"),
        replace("/metadata/generateName", "gen-"),
        replace("/metadata/selfLink", "/x"),
    ];
    for (nth, patch) in all.iter().enumerate() {
        for update in [false, true] {
            let name = format!("m{nth}-{update}");
            let mut object = config_map(&name);
            let made = if update {
                let before = maps.create(object).await.expect("nothing is wrong yet");
                let mut wanted = before.clone();
                wanted["data"]["k"] = patch.as_str().into();
                let made = maps.update(wanted).await;
                let now = maps
                    .get(&NamespacedName::new("default", &name))
                    .await
                    .expect("it is still there");
                for field in ["uid", "name", "namespace", "creationTimestamp", "deletionTimestamp"]
                {
                    assert_eq!(
                        now["metadata"][field], before["metadata"][field],
                        "{patch} {field}"
                    );
                }
                made
            } else {
                object["data"]["k"] = patch.as_str().into();
                maps.create(object).await
            };
            match &made {
                Ok(made) => {
                    println!("{patch} update {update}: taken");
                    assert_eq!(
                        (made["kind"].as_str(), made["apiVersion"].as_str()),
                        (Some("ConfigMap"), Some("v1"))
                    );
                    let expected =
                        if !update && patch.contains("m-renamed") { "m-renamed" } else { &*name };
                    assert_eq!(made["metadata"]["name"].as_str(), Some(expected), "{patch}");
                    assert_eq!(made["metadata"]["namespace"].as_str(), Some("default"), "{patch}");
                    assert_ne!(
                        made["metadata"]["uid"].as_str(),
                        Some("00000000-0000-0000-0000-000000000000")
                    );
                }
                Err(error) => println!("{patch} update {update}: {error}"),
            }
        }
    }
    for name in names(&admin).await.difference(&before) {
        assert!(name.starts_with("default/m"), "{name} was made by a hook");
    }
    let secrets = tree(&read(&admin, "/api/v1/namespaces/default/secrets").await);
    assert_eq!(secrets["items"].items().len(), 0);
}

/// The ConfigMaps of all namespaces.
async fn names(admin: &Client) -> BTreeSet<String> {
    let list = tree(&read(admin, "/api/v1/configmaps").await);
    let name = |map: &Value| {
        let text = |field: &str| map["metadata"][field].as_str().expect("it has one").to_owned();
        format!("{}/{}", text("namespace"), text("name"))
    };
    list["items"].items().iter().map(name).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redirects_are_not_followed_and_warnings_are_bounded() {
    let canary = Hostile::start("localhost", |_, _| Answer::Nothing).await;
    let elsewhere = canary.url("/secret");
    let hostile = Hostile::start("localhost", move |_, request| {
        let name = request["request"]["object"]["metadata"]["name"].as_str().unwrap_or_default();
        match name {
            "warns" => {
                let long = format!("\"{}\"", "warning ".repeat(1_000));
                let odd = r#""a\r\nSet-Cookie: x","\u0000","","h\u00e9""#;
                let warnings = (0..500).map(|nth| long.replacen('w', &format!("{nth}"), 1));
                let warnings = warnings.collect::<Vec<_>>().join(",");
                let answer = format!(r#""allowed":true,"warnings":[{odd},{warnings}]"#);
                Answer::whole("200 OK", to_json(&review(request, &answer)))
            }
            "annotates" => {
                let all: Vec<_> =
                    (0..20_000).map(|nth| format!("\"k{nth}\":\"{}\"", "v".repeat(200))).collect();
                let answer = format!(r#""allowed":true,"auditAnnotations":{{{}}}"#, all.join(","));
                Answer::whole("200 OK", to_json(&review(request, &answer)))
            }
            code => Answer::Bytes(
                format!("HTTP/1.1 {code} Go\r\nlocation: {elsewhere}\r\ncontent-length: 0\r\n\r\n")
                    .into(),
            ),
        }
    })
    .await;
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    configure::<ValidatingWebhookConfiguration>(&admin, hook(&hostile, MAPS, "")).await;
    for code in ["301", "302", "303", "307", "308"] {
        let (code, message) = refused(&admin, code).await;
        assert_eq!(code, 500, "{message}");
        assert!(!message.contains("secret"), "{message}");
    }
    assert_eq!(canary.requests(), 0, "nobody went there");
    let path = "/api/v1/namespaces/default/configmaps";
    for name in ["warns", "annotates"] {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", "application/json".parse().unwrap());
        let body = to_json(&config_map(name));
        let answer = admin.request(Method::POST, path, headers, body.into()).await.unwrap();
        assert_eq!(answer.status, 201, "{name}");
        let size: usize =
            answer.headers.get_all("warning").iter().map(http::HeaderValue::len).sum();
        println!("{name}: {size} bytes of warnings");
        assert!(size < 16 << 10, "{name}: {size} bytes of warnings");
    }
}
