//! Admission webhooks: they change and reject writes; and what happens when they do not respond.

use std::sync::{Arc, Mutex, atomic::Ordering};

use api::{
    admissionregistration::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    apps::Deployment,
    core::{ConfigMap, Pod},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use client::Client;
use http::Method;
use object::Value;
use schema::Kind;
use testkit::TestCluster;

use crate::{backend::Backend, code, config_map, default_account, of, pod, tree};

/// A configuration of one webhook that matches new ConfigMaps.
pub(crate) fn hook(backend: &Backend, path: &str, more: &str) -> Value {
    let (url, bundle) = (backend.url(path), STANDARD.encode(&backend.authority));
    tree(&format!(
        r#"{{"metadata":{{"name":"h"}},"webhooks":[{{"name":"h.example.com","sideEffects":"None",
        "admissionReviewVersions":["v1"],"clientConfig":{{"url":"{url}","caBundle":"{bundle}"}},
        "rules":[{{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],
        "resources":["configmaps"]}}]{more}}}]}}"#
    ))
}

pub(crate) fn review(request: &Value, answer: &str) -> Value {
    let uid = request["request"]["uid"].as_str().unwrap_or_default();
    tree(&format!(
        r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{{"uid":"{uid}",{answer}}}}}"#
    ))
}

async fn configure<K: Kind>(admin: &Client, configuration: Value) {
    of::<K>(admin).create(configuration).await.expect("it is right");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_changes_what_is_made() {
    let backend = Backend::start(|_, request| {
        let patch = STANDARD.encode(r#"[{"op":"add","path":"/data/by","value":"hook"}]"#);
        review(&request, &format!(r#""allowed":true,"patchType":"JSONPatch","patch":"{patch}""#))
    })
    .await;
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    configure::<MutatingWebhookConfiguration>(&admin, hook(&backend, "/mutate", "")).await;
    let made = of::<ConfigMap>(&admin).create(config_map("a")).await.unwrap();
    assert_eq!(made["data"]["by"].as_str(), Some("hook"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_refuses_in_its_own_words() {
    let backend = Backend::start(|_, request| {
        let name = request["request"]["name"].as_str() == Some("bad");
        let answer = if name {
            r#""allowed":false,"status":{"code":403,"message":"not here"}"#
        } else {
            r#""allowed":true"#
        };
        review(&request, answer)
    })
    .await;
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    configure::<ValidatingWebhookConfiguration>(&admin, hook(&backend, "/check", "")).await;
    assert!(of::<ConfigMap>(&admin).create(config_map("good")).await.is_ok());
    let refused = of::<ConfigMap>(&admin).create(config_map("bad")).await.unwrap_err();
    let status = refused.status().unwrap();
    assert_eq!(status.code(), 403);
    assert_eq!(
        status.message(),
        "admission webhook \"h.example.com\" denied the request: not here"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_hook_that_is_away_means_is_its_policy() {
    let mut backend = Backend::start(|_, request| review(&request, r#""allowed":true"#)).await;
    backend.port = 1; // nothing listens there
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let closed = hook(&backend, "/", r#","failurePolicy":"Fail","timeoutSeconds":1"#);
    configure::<ValidatingWebhookConfiguration>(&admin, closed).await;
    assert_eq!(code(of::<ConfigMap>(&admin).create(config_map("a")).await), 500);
    let open = hook(&backend, "/", r#","failurePolicy":"Ignore","timeoutSeconds":1"#);
    let configurations = of::<ValidatingWebhookConfiguration>(&admin);
    let mut now = configurations.get(&object::NamespacedName::new("", "h")).await.unwrap();
    now["webhooks"] = open["webhooks"].clone();
    configurations.update(now).await.unwrap();
    assert!(of::<ConfigMap>(&admin).create(config_map("a")).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_decide_whether_a_hook_is_asked() {
    let no = r#""allowed":false,"status":{"code":403,"message":"asked"}"#;
    let backend = Backend::start(move |_, request| review(&request, no)).await;
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let conditions = r#","matchConditions":[
        {"name":"name","expression":"object.metadata.name.startsWith('asked')"},
        {"name":"who","expression":"authorizer.group('').resource('secrets').check('get').allowed()"},
        {"name":"data","expression":"!has(object.data.broken) || object.data.missing == ''"}]"#;
    configure::<ValidatingWebhookConfiguration>(&admin, hook(&backend, "/", conditions)).await;
    let maps = of::<ConfigMap>(&admin);
    assert!(maps.create(config_map("other")).await.is_ok());
    let asked = maps.create(config_map("asked")).await.unwrap_err();
    assert!(asked.to_string().contains("denied the request: asked"), "{asked}");
    let mut broken = config_map("asked-2");
    broken["data"]["broken"] = "yes".into();
    let failed = maps.create(broken).await.unwrap_err();
    assert!(failed.to_string().contains("no such key: missing"), "{failed}");
}

/// A webhook with this rule and further fields.
fn about(backend: &Backend, name: &str, rule: &str, more: &str) -> Value {
    let (url, bundle) = (backend.url(&format!("/{name}")), STANDARD.encode(&backend.authority));
    tree(&format!(
        r#"{{"metadata":{{"name":"{name}"}},"webhooks":[{{"name":"{name}.example.com","sideEffects":"None",
        "admissionReviewVersions":["v1"],"clientConfig":{{"url":"{url}","caBundle":"{bundle}"}},
        "rules":[{rule}]{more}}}]}}"#
    ))
}

const MAPS: &str =
    r#"{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"]}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_is_asked_again_about_what_others_changed() {
    // The first one counts the data entries that it sees; the second one adds an entry.
    let backend = Backend::start(|path, request| {
        let patch = if path.starts_with("/a") {
            let seen = request["request"]["object"]["data"].entries().len();
            format!(
                r#"[{{"op":"add","path":"/metadata/annotations","value":{{"seen":"{seen}"}}}}]"#
            )
        } else {
            r#"[{"op":"add","path":"/data/by","value":"b"}]"#.to_owned()
        };
        let patch = STANDARD.encode(patch);
        review(&request, &format!(r#""allowed":true,"patchType":"JSONPatch","patch":"{patch}""#))
    })
    .await;
    for (policy, seen) in [("Never", "1"), ("IfNeeded", "2")] {
        let cluster = TestCluster::start().await;
        let admin = cluster.admin_client();
        let more = format!(r#","reinvocationPolicy":"{policy}""#);
        configure::<MutatingWebhookConfiguration>(&admin, about(&backend, "a", MAPS, &more)).await;
        configure::<MutatingWebhookConfiguration>(&admin, about(&backend, "b", MAPS, "")).await;
        let made = of::<ConfigMap>(&admin).create(config_map("m")).await.unwrap();
        assert_eq!(made["metadata"]["annotations"]["seen"].as_str(), Some(seen), "{policy}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_sees_the_version_that_it_names() {
    let no = |request: Value| {
        let version = request["request"]["object"]["apiVersion"].as_str().unwrap_or_default();
        let no = format!(r#""allowed":false,"status":{{"code":403,"message":"{version}"}}"#);
        review(&request, &no)
    };
    let backend = Backend::start(move |_, request| no(request)).await;
    let scaler = r#"{"metadata":{"name":"s"},"spec":{"maxReplicas":3,
        "scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"}}}"#;
    let rule = r#"{"operations":["CREATE"],"apiGroups":["autoscaling"],"apiVersions":["v1"],
        "resources":["horizontalpodautoscalers"]}"#;
    for (policy, asked) in [("Exact", false), ("Equivalent", true)] {
        let cluster = TestCluster::start().await;
        let admin = cluster.admin_client();
        let more = format!(r#","matchPolicy":"{policy}""#);
        configure::<ValidatingWebhookConfiguration>(&admin, about(&backend, "v", rule, &more))
            .await;
        let made =
            of::<api::autoscaling::HorizontalPodAutoscaler>(&admin).create(tree(scaler)).await;
        match asked {
            true => assert!(
                made.unwrap_err().to_string().ends_with("denied the request: autoscaling/v1")
            ),
            false => assert!(made.is_ok(), "it is about another version"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_may_be_a_service() {
    let backend = Backend::named("hooks.default.svc", |path, request| {
        let no = format!(r#""allowed":false,"status":{{"code":403,"message":"{path}"}}"#);
        review(&request, &no)
    })
    .await;
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    // Endpoints cannot have loopback addresses; an ExternalName can resolve to one.
    let service = r#"{"metadata":{"name":"hooks"},"spec":{"type":"ExternalName","externalName":"localhost"}}"#;
    of::<api::core::Service>(&admin).create(tree(service)).await.unwrap();
    let mut hook = about(&backend, "s", MAPS, "");
    let mut tree_of = hook["webhooks"].items()[0].clone();
    tree_of["clientConfig"] = tree(&format!(
        r#"{{"service":{{"namespace":"default","name":"hooks","path":"/check","port":{}}},"caBundle":"{}"}}"#,
        backend.port,
        STANDARD.encode(&backend.authority)
    ));
    hook["webhooks"] = [tree_of].into_iter().collect();
    configure::<ValidatingWebhookConfiguration>(&admin, hook).await;
    let refused = of::<ConfigMap>(&admin).create(config_map("m")).await.unwrap_err().to_string();
    assert!(refused.contains("denied the request: /check?timeout=10s"), "{refused}");
}

/// A webhook that keeps its connections is called over one; one that closes them without notice is
/// called all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_to_hooks_are_used_again() {
    for (closes, connections) in [(false, 1), (true, 10)] {
        let backend = Backend::start(move |_, request| {
            let mut answer = review(&request, r#""allowed":true"#);
            answer["closes"] = closes.into();
            answer
        })
        .await;
        let cluster = TestCluster::start().await;
        let admin = cluster.admin_client();
        configure::<ValidatingWebhookConfiguration>(&admin, hook(&backend, "/", "")).await;
        for nth in 0..10 {
            of::<ConfigMap>(&admin).create(config_map(&format!("m{nth}"))).await.unwrap();
        }
        assert_eq!(backend.connections.load(Ordering::Relaxed), connections);
    }
}

/// Measures calls with a new connection each and with reused ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints figures, decides nothing"]
async fn calls_per_second() {
    const CALLS: u32 = 500;
    let backend = Backend::start(|_, request| review(&request, r#""allowed":true"#)).await;
    let ca = Some(client::Pem::Data(backend.authority.clone().into_bytes()));
    let tls = client::TlsOptions { ca, ..client::TlsOptions::default() };
    let remote = server::WebhookClient {
        to: client::TcpConnector::new("127.0.0.1", backend.port, Some(Arc::new(tls))),
        host: None,
        path: "/".to_owned(),
        headers: http::HeaderMap::new(),
        pool: server::ConnectionPool::default(),
    };
    for keeps in [false, true] {
        let began = std::time::Instant::now();
        for _ in 0..CALLS {
            let pool = if keeps { remote.pool.clone() } else { server::ConnectionPool::default() };
            let remote = server::WebhookClient { pool, ..remote.clone() };
            remote.post(b"{}".to_vec(), std::time::Duration::from_mins(1)).await.unwrap();
        }
        let rate = f64::from(CALLS) / began.elapsed().as_secs_f64();
        println!("connections kept: {keeps}; calls/s: {rate:.0}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_hooks_say_is_counted() {
    let no = r#""allowed":false,"status":{"code":403,"message":"no"}"#;
    let backend = Backend::start(move |_, request| review(&request, no)).await;
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let more = r#","matchConditions":[{"name":"n","expression":"object.metadata.name != 'b'"}]"#;
    configure::<ValidatingWebhookConfiguration>(&admin, hook(&backend, "/", more)).await;
    assert!(of::<ConfigMap>(&admin).create(config_map("a")).await.is_err());
    assert!(of::<ConfigMap>(&admin).create(config_map("b")).await.is_ok());
    let headers = http::HeaderMap::new();
    let ask = admin.request(http::Method::GET, "/metrics", headers, bytes::Bytes::new());
    let text = ask.await.unwrap().bytes().await.unwrap();
    let text = String::from_utf8_lossy(&text).into_owned();
    let counted = text.lines().find(|line| {
        line.starts_with(
            "apiserver_admission_webhook_rejection_count{error_type=\"no_error\",name=",
        )
    });
    let counted = counted.expect("it is told");
    assert!(
        counted.ends_with(",operation=\"CREATE\",rejection_code=\"403\",type=\"validating\"} 1"),
        "{counted}"
    );
    assert!(text.contains("apiserver_admission_webhook_admission_duration_seconds_count"));
    let host = format!("127.0.0.1:{}", backend.port);
    let labels = r#"{kind="webhook",name="h.example.com",operation="CREATE",type="validating"}"#;
    for line in [
        format!("rest_client_requests_total{{code=\"200\",host=\"{host}\",method=\"POST\"}} 1\n"),
        format!("rest_client_response_size_bytes_count{{host=\"{host}\",verb=\"POST\"}} 1\n"),
        "rest_client_transport_cache_entries 1\n".to_owned(),
        format!("apiserver_admission_match_condition_exclusions_total{labels} 1\n"),
        format!("apiserver_admission_match_condition_evaluation_seconds_count{labels} 2\n"),
    ] {
        assert!(text.contains(&line), "{line}");
    }
}

/// A webhook sees subresources with their own kind, and deletions with their options. A mutating
/// webhook sees a new object before the server sets any field.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_sees_what_is_asked_for() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let ears = heard.clone();
    let backend = Backend::start(move |_, request| {
        ears.lock().unwrap().push(request["request"].clone());
        review(&request, r#""allowed":true"#)
    })
    .await;
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    default_account(&admin).await;
    let rule = r#"{"operations":["*"],"apiGroups":["","apps"],"apiVersions":["v1"],
        "resources":["configmaps","deployments/scale","pods/binding","pods/eviction",
        "serviceaccounts/token"]}"#;
    configure::<MutatingWebhookConfiguration>(&admin, about(&backend, "m", rule, "")).await;
    let asked = || heard.lock().unwrap().drain(..).collect::<Vec<Value>>();
    let ask = async |method: Method, path: &str, body: &str| {
        let patches = method == Method::PATCH;
        let kind = if patches { "application/merge-patch+json" } else { "application/json" };
        admin.call(method, path, kind, body.to_owned().into()).await.unwrap();
        let [one] = asked().try_into().expect("one question");
        let (kind, operation) = (one["kind"]["kind"].as_str(), one["operation"].as_str());
        let told = format!("{} {}", operation.unwrap(), kind.unwrap());
        assert_eq!(one["object"]["kind"].as_str().unwrap_or(kind.unwrap()), kind.unwrap());
        (told, one)
    };
    let core = "/api/v1/namespaces/default";
    let maps = format!("{core}/configmaps");
    let (_, made) = ask(
        Method::POST,
        &format!("{maps}?fieldManager=me"),
        r#"{"metadata":{"generateName":"a-"},"data":{}}"#,
    )
    .await;
    let meta = &made["object"]["metadata"];
    assert!(meta["uid"].is_null() && meta["name"].is_null(), "{meta:?}");
    assert!(made["object"]["data"].is_null(), "what is empty is not there");
    assert_eq!(made["options"]["fieldManager"].as_str(), Some("me"));

    of::<ConfigMap>(&admin).create(config_map("a")).await.unwrap();
    asked();
    let options = r#"{"gracePeriodSeconds":5,"propagationPolicy":"Background"}"#;
    let (_, gone) = ask(Method::DELETE, &format!("{maps}/a"), options).await;
    assert_eq!(gone["options"]["gracePeriodSeconds"].as_i64(), Some(5));
    assert_eq!(gone["options"]["propagationPolicy"].as_str(), Some("Background"));

    let web = r#"{"metadata":{"name":"web"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":
        {"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#;
    of::<Deployment>(&admin).create(tree(web)).await.unwrap();
    let path = "/apis/apps/v1/namespaces/default/deployments/web/scale";
    let (told, scale) = ask(Method::PATCH, path, r#"{"spec":{"replicas":3}}"#).await;
    assert_eq!(told, "UPDATE Scale");
    let replicas = |of: &str| scale[of]["spec"]["replicas"].as_i64();
    assert_eq!((replicas("oldObject"), replicas("object")), (Some(1), Some(3)));

    of::<Pod>(&admin).create(pod("p", "")).await.unwrap();
    // A subresource body that is not stored has a namespace and managedFields.
    let held = |one: &Value, field: &str| {
        let meta = &one["object"]["metadata"];
        assert_eq!(meta["namespace"].as_str(), Some("default"));
        let entry = meta["managedFields"].items()[0].clone();
        assert!(entry["fieldsV1"][field].is_object(), "{entry:?}");
        entry["subresource"].as_str().unwrap().to_owned()
    };
    let binding = r#"{"metadata":{"name":"p"},"target":{"name":"n"}}"#;
    let (told, asked) = ask(Method::POST, &format!("{core}/pods/p/binding"), binding).await;
    assert_eq!((told, held(&asked, "f:target")), ("CREATE Binding".into(), "binding".into()));
    let eviction = r#"{"metadata":{"name":"p"},"deleteOptions":{"gracePeriodSeconds":0}}"#;
    let (told, asked) = ask(Method::POST, &format!("{core}/pods/p/eviction"), eviction).await;
    let held_by = held(&asked, "f:deleteOptions");
    assert_eq!((told, held_by), ("CREATE Eviction".into(), "eviction".into()));
    let token = format!("{core}/serviceaccounts/default/token");
    let (told, asked) = ask(Method::POST, &token, "{}").await;
    assert_eq!((told, held(&asked, "f:spec")), ("CREATE TokenRequest".into(), "token".into()));
    assert_eq!(asked["object"]["spec"]["expirationSeconds"].as_i64(), Some(3600));
}

/// A validating webhook sees the Scale that the object will have, whatever was sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_that_decides_sees_the_whole_scale() {
    let seen = Arc::new(Mutex::new(Value::Null));
    let eyes = seen.clone();
    let backend = Backend::start(move |_, request| {
        *eyes.lock().unwrap() = request["request"]["object"].clone();
        review(&request, r#""allowed":true"#)
    })
    .await;
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let rule = r#"{"operations":["*"],"apiGroups":["apps"],"apiVersions":["v1"],
        "resources":["deployments/scale"]}"#;
    configure::<ValidatingWebhookConfiguration>(&admin, about(&backend, "v", rule, "")).await;
    let web = r#"{"metadata":{"name":"web"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":
        {"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#;
    let made = of::<Deployment>(&admin).create(tree(web)).await.unwrap();
    let path = "/apis/apps/v1/namespaces/default/deployments/web/scale";
    let wanted = r#"{"metadata":{"name":"web","namespace":"default"},"spec":{"replicas":3}}"#;
    admin.call(Method::PUT, path, "application/json", wanted.into()).await.unwrap();
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(seen["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    assert_eq!(seen["spec"]["replicas"].as_i64(), Some(3));
    assert_eq!(seen["status"]["selector"].as_str(), Some("a=b"));
}
