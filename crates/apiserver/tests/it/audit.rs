//! Auditing: events have the level that the policy sets.

use std::{fs, sync::Arc};

use api::{
    admissionregistration::{
        MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    },
    core::{ConfigMap, Secret},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use object::{SystemClock, Value, from_json};
use testkit::TestCluster;

use crate::{backend::Backend, config_map, of, tree, ways_in::kubeconfig};

#[tokio::test]
async fn a_policy_says_how_much_is_told() {
    let folder = tempfile::TempDir::new().unwrap();
    let (policy, log) = (folder.path().join("policy"), folder.path().join("audit.log"));
    let text = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n\
                - level: Metadata\n  resources:\n  - group: \"\"\n    resources: [secrets]\n\
                - level: RequestResponse\n  resources:\n  - group: \"\"\n    resources: [configmaps]\n";
    fs::write(&policy, text).unwrap();
    let cluster = TestCluster::start_with_flags(Arc::new(SystemClock), |flags| {
        flags.audit_policy_file = Some(policy);
        flags.audit_log_path = Some(log.clone());
    })
    .await;
    let admin = cluster.admin_client();
    of::<ConfigMap>(&admin).create(config_map("a")).await.unwrap();
    let secret = tree(r#"{"metadata":{"name":"s"},"stringData":{"k":"hidden"}}"#);
    of::<Secret>(&admin).create(secret).await.unwrap();
    let refused = cluster.client_as("bob", &[]);
    assert!(of::<Secret>(&refused).create(tree(r#"{"metadata":{"name":"t"}}"#)).await.is_err());
    let text = fs::read_to_string(&log).unwrap();
    assert!(!text.contains("hidden"), "secrets are not told");
    let events: Vec<Value> = text.lines().map(|line| from_json(line.as_bytes()).unwrap()).collect();
    let of = |resource: &str| -> Vec<&Value> {
        let is = |event: &&Value| event.get("objectRef").get("resource").as_str() == Some(resource);
        events.iter().filter(is).collect()
    };
    let [made] = &*of("configmaps") else { panic!("one write, one event: {text}") };
    assert_eq!(made["user"]["username"].as_str(), Some("admin"));
    assert_eq!(made["requestObject"]["data"]["k"].as_str(), Some("v"));
    assert_eq!(made["responseStatus"]["code"].as_i64(), Some(201));
    assert!(made["responseObject"]["metadata"]["uid"].as_str().is_some());
    let [made, refused] = &*of("secrets") else { panic!("two writes, two events: {text}") };
    assert!(made.get("requestObject").is_null());
    assert_eq!(refused["responseStatus"]["code"].as_i64(), Some(403));
    let decision = refused["annotations"]["authorization.k8s.io/decision"].as_str();
    assert_eq!(decision, Some("forbid"));
}

/// A server that audits everything at a level, and a function that reads its events.
async fn telling(level: &str) -> (TestCluster, impl Fn() -> Vec<Value>) {
    let folder = tempfile::TempDir::new().unwrap();
    let (policy, log) = (folder.path().join("policy"), folder.path().join("audit.log"));
    fs::write(&policy, EVERYTHING.replace("Metadata", level)).unwrap();
    let path = log.clone();
    let cluster = TestCluster::start_with_flags(Arc::new(SystemClock), |flags| {
        flags.audit_policy_file = Some(policy);
        flags.audit_log_path = Some(path);
    })
    .await;
    let told = move || {
        let _kept = &folder;
        let text = fs::read_to_string(&log).unwrap();
        text.lines().map(|line| from_json(line.as_bytes()).unwrap()).collect()
    };
    (cluster, told)
}

#[tokio::test]
async fn who_acts_as_another_is_told() {
    let (cluster, told) = telling("Metadata").await;
    let mut headers = http::HeaderMap::new();
    headers.insert("impersonate-user", "bob".parse().unwrap());
    headers.insert("x-forwarded-for", "192.0.2.7, 192.0.2.8".parse().unwrap());
    let path = "/api/v1/namespaces/default/secrets";
    let admin = cluster.admin_client();
    let asked = admin.request(http::Method::GET, path, headers, bytes::Bytes::new());
    assert_eq!(asked.await.unwrap().status, 403, "bob may not");
    let is = |event: &&Value| event["requestURI"].as_str() == Some(path);
    let events = told();
    let event = events.iter().find(is).expect("it is told");
    assert_eq!(event["user"]["username"].as_str(), Some("admin"));
    assert_eq!(event["impersonatedUser"]["username"].as_str(), Some("bob"));
    assert_eq!(event["sourceIPs"].items()[0].as_str(), Some("192.0.2.7"));
    assert_eq!(event["annotations"]["authorization.k8s.io/decision"].as_str(), Some("forbid"));
    assert_eq!(event["annotations"]["authorization.k8s.io/reason"].as_str(), Some(""));
}

#[tokio::test]
async fn who_does_not_get_in_is_told_too() {
    let (cluster, told) = telling("Metadata").await;
    let stranger = cluster.client_with_auth(client::Auth::Token("wrong".into()));
    assert_eq!(crate::code(of::<ConfigMap>(&stranger).create(config_map("a")).await), 401);
    let events = told();
    let is = |event: &&Value| event["responseStatus"]["code"].as_i64() == Some(401);
    let event = events.iter().find(is).expect("it is told");
    assert_eq!(event["stage"].as_str(), Some("ResponseStarted"));
    assert!(event["user"].entries().len() == 0, "nobody knows him");
    let said = event["responseStatus"]["message"].as_str();
    assert_eq!(said, Some("Authentication failed, attempted: bearer"));
}

/// A slow webhook is explained by its latency annotation; its own annotations are kept if their
/// keys are valid.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_slow_is_explained() {
    let backend = Backend::start(|_, request| {
        std::thread::sleep(std::time::Duration::from_millis(600));
        let notes = r#""allowed":true,"auditAnnotations":{"who":"me","a/b":"no key"}"#;
        crate::webhooks::review(&request, notes)
    })
    .await;
    let (cluster, told) = telling("Metadata").await;
    let admin = cluster.admin_client();
    let hook = crate::webhooks::hook(&backend, "/", "");
    of::<MutatingWebhookConfiguration>(&admin).create(hook).await.unwrap();
    of::<ConfigMap>(&admin).create(config_map("a")).await.unwrap();
    crate::default_account(&admin).await;
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    admin.call(http::Method::POST, path, "application/json", "{}".into()).await.unwrap();
    let events = told();
    let of = |resource: &str| -> &Value {
        let is = |event: &&Value| {
            event["objectRef"]["resource"].as_str() == Some(resource)
                && event["stage"].as_str() == Some("ResponseComplete")
                && event["verb"].as_str() == Some("create")
        };
        &events.iter().rfind(is).expect("it is told")["annotations"]
    };
    let notes = of("configmaps");
    assert_eq!(notes["h.example.com/who"].as_str(), Some("me"));
    assert!(notes.get("h.example.com/a/b").is_null());
    for layer in ["authentication", "authorization", "mutating-webhook", "total"] {
        let took = notes[&*format!("apiserver.latency.k8s.io/{layer}")].as_str();
        assert!(took.is_some(), "{layer}: {notes:?}");
    }
    let issued = of("serviceaccounts")["authentication.kubernetes.io/issued-credential-id"].clone();
    assert!(issued.as_str().is_some_and(|id| id.starts_with("JTI=")), "{issued:?}");
}

#[tokio::test]
async fn objects_are_told_whatever_their_form() {
    let (cluster, told) = telling("RequestResponse").await;
    let admin = cluster.admin_client();
    let mut headers = http::HeaderMap::new();
    headers.insert("content-type", "application/yaml".parse().unwrap());
    headers.insert("accept", "application/vnd.kubernetes.protobuf".parse().unwrap());
    let (path, body) =
        ("/api/v1/namespaces/default/configmaps", "metadata: {name: made}\ndata: {k: v}\n");
    let made = admin.request(http::Method::POST, path, headers.clone(), body.into()).await.unwrap();
    assert_eq!(made.status, 201);
    headers.remove("content-type");
    let list = admin.request(http::Method::GET, path, headers, bytes::Bytes::new()).await.unwrap();
    assert_eq!(list.status, 200);
    let watch = format!("{path}?watch=1&timeoutSeconds=1");
    let watch =
        admin.request(http::Method::GET, &watch, http::HeaderMap::new(), bytes::Bytes::new());
    watch.await.unwrap().bytes().await.unwrap();
    let events = told();
    let find = |verb: &str, stage: &str| {
        let is = |event: &&Value| {
            event["verb"].as_str() == Some(verb)
                && event["objectRef"]["resource"].as_str() == Some("configmaps")
                && event["user"]["username"].as_str() == Some("admin")
                && event["stage"].as_str() == Some(stage)
        };
        events.iter().find(is).unwrap_or_else(|| panic!("{verb} {stage} is told"))
    };
    let made = find("create", "ResponseComplete");
    assert_eq!(made["objectRef"]["name"].as_str(), Some("made"), "the body names it");
    assert_eq!(made["requestObject"]["data"]["k"].as_str(), Some("v"));
    assert_eq!(made["responseObject"]["kind"].as_str(), Some("ConfigMap"));
    let list = find("list", "ResponseComplete");
    assert_eq!(list["responseObject"]["kind"].as_str(), Some("ConfigMapList"));
    find("watch", "ResponseStarted");
    find("watch", "ResponseComplete");
}

const EVERYTHING: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\n\
                          rules: [{level: Metadata}]\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plugins_say_why_to_those_who_audit() {
    let backend = Backend::start(|_, request| {
        let uid = request["request"]["uid"].as_str().unwrap_or_default();
        let patch = STANDARD.encode(r#"[{"op":"add","path":"/data/by","value":"hook"}]"#);
        tree(&format!(
            r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{{"uid":"{uid}",
            "allowed":true,"auditAnnotations":{{"who":"me"}},"patchType":"JSONPatch","patch":"{patch}"}}}}"#
        ))
    })
    .await;
    let folder = tempfile::TempDir::new().unwrap();
    let (policy, log) = (folder.path().join("policy"), folder.path().join("audit.log"));
    fs::write(&policy, EVERYTHING).unwrap();
    let cluster = TestCluster::start_with_flags(Arc::new(SystemClock), |flags| {
        flags.audit_policy_file = Some(policy);
        flags.audit_log_path = Some(log.clone());
    })
    .await;
    let admin = cluster.admin_client();
    let rules = r#"[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"]}]"#;
    let hook = format!(
        r#"{{"metadata":{{"name":"h"}},"webhooks":[{{"name":"h.example.com","sideEffects":"None",
        "admissionReviewVersions":["v1"],"clientConfig":{{"url":"{}","caBundle":"{}"}},"rules":{rules}}}]}}"#,
        backend.url("/"),
        STANDARD.encode(&backend.authority)
    );
    of::<MutatingWebhookConfiguration>(&admin).create(tree(&hook)).await.unwrap();
    let expressions = format!(
        r#"{{"metadata":{{"name":"p"}},"spec":{{"matchConstraints":{{"resourceRules":{rules}}},
        "validations":[{{"expression":"false","message":"never"}}],
        "auditAnnotations":[{{"key":"name","valueExpression":"string(object.metadata.name)"}}]}}}}"#
    );
    of::<ValidatingAdmissionPolicy>(&admin).create(tree(&expressions)).await.unwrap();
    let binding = r#"{"metadata":{"name":"b"},"spec":{"policyName":"p","validationActions":["Audit","Deny"]}}"#;
    of::<ValidatingAdmissionPolicyBinding>(&admin).create(tree(binding)).await.unwrap();
    assert!(of::<ConfigMap>(&admin).create(config_map("a")).await.is_err());
    let text = fs::read_to_string(&log).unwrap();
    let event = text.lines().find(|line| line.contains(r#""resource":"configmaps""#)).unwrap();
    let event = from_json(event.as_bytes()).unwrap();
    let said = |key: &str| event["annotations"].get(key).as_str().unwrap_or_default().to_owned();
    assert_eq!(said("h.example.com/who"), "me");
    assert_eq!(
        from_json(said("mutation.webhook.admission.k8s.io/round_0_index_0").as_bytes()).unwrap(),
        tree(r#"{"configuration":"h","webhook":"h.example.com","mutated":true}"#)
    );
    assert_eq!(said("p/name"), "a", "{event:?}");
    let failures = said("validation.policy.admission.k8s.io/validation_failure");
    assert_eq!(
        from_json(failures.as_bytes()).unwrap(),
        tree(
            r#"[{"message":"never","policy":"p","binding":"b","expressionIndex":0,
            "validationActions":["Audit","Deny"]}]"#
        )
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_sent_to_a_webhook() {
    let (sender, mut batches) = tokio::sync::mpsc::channel(16);
    let backend = Backend::start(move |_, list| {
        let _ = sender.try_send(list);
        tree("{}")
    })
    .await;
    let folder = tempfile::TempDir::new().unwrap();
    let (policy, config) = (folder.path().join("policy"), folder.path().join("kubeconfig"));
    fs::write(&policy, EVERYTHING).unwrap();
    fs::write(&config, kubeconfig(&backend)).unwrap();
    let cluster = TestCluster::start_with_flags(Arc::new(SystemClock), |flags| {
        flags.audit_policy_file = Some(policy);
        flags.audit_webhook_config_file = Some(config);
        flags.audit_webhook_batch_max_size = 3;
        flags.audit_webhook_batch_max_wait = "60s".to_owned();
        flags.audit.audit_webhook_batch_throttle_enable = true;
        flags.audit.audit_webhook_batch_throttle_burst = 5;
        flags.audit.audit_webhook_truncate_enabled = true;
        flags.audit.audit_webhook_truncate_max_batch_size = 1_000_000;
    })
    .await;
    let maps = of::<ConfigMap>(&cluster.admin_client());
    for name in ["a", "b", "c"] {
        maps.create(config_map(name)).await.unwrap();
    }
    let waiting = tokio::time::timeout(std::time::Duration::from_secs(50), batches.recv()).await;
    let batch = waiting.expect("a full batch does not wait").unwrap();
    assert_eq!(batch["kind"].as_str(), Some("EventList"));
    let names: Vec<_> = batch["items"]
        .items()
        .iter()
        .map(|event| event.get("objectRef").get("name").clone())
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
}

#[tokio::test]
async fn how_events_are_written() {
    let folder = tempfile::TempDir::new().unwrap();
    let (policy, log) = (folder.path().join("policy"), folder.path().join("audit.log"));
    fs::write(&policy, EVERYTHING).unwrap();
    let cluster = TestCluster::start_with_flags(Arc::new(SystemClock), |flags| {
        flags.audit_policy_file = Some(policy);
        flags.audit_log_path = Some(log.clone());
        flags.audit.audit_log_format = "legacy".to_owned();
        flags.audit.audit_log_mode = "batch".to_owned();
        flags.audit.audit_log_batch_buffer_size = 100;
        flags.audit.audit_webhook_batch_buffer_size = 100;
        // flags.audit.audit_log_version = audit.k8s.io/v1, flags.audit.audit_webhook_version =
        // the same, and flags.audit.audit_webhook_mode = batch are all there is.
    })
    .await;
    of::<ConfigMap>(&cluster.admin_client()).create(config_map("a")).await.unwrap();
    cluster.stop().await; // queued events are written
    let text = fs::read_to_string(&log).unwrap();
    let line = text.lines().find(|line| line.contains("method=\"create\"")).expect("it is told");
    assert!(line.contains(" AUDIT: id=") && line.contains("user=\"admin\""), "{line}");
    assert!(line.ends_with("response=\"201\""), "{line}");
}

#[tokio::test]
async fn what_is_told_is_counted() {
    let folder = tempfile::TempDir::new().unwrap();
    let policy = folder.path().join("policy");
    fs::write(&policy, EVERYTHING).unwrap();
    let cluster = TestCluster::start_with_flags(Arc::new(SystemClock), |flags| {
        flags.audit_policy_file = Some(policy);
        flags.audit_log_path = Some(folder.path().join("audit.log"));
    })
    .await;
    let admin = cluster.admin_client();
    of::<ConfigMap>(&admin).create(config_map("a")).await.unwrap();
    let ask =
        admin.request(http::Method::GET, "/metrics", http::HeaderMap::new(), bytes::Bytes::new());
    let text = ask.await.unwrap().bytes().await.unwrap();
    let text = String::from_utf8_lossy(&text).into_owned();
    let value = |name: &str| -> u64 {
        let line = text.lines().find(|line| line.starts_with(name)).expect("it is told");
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert!(value("apiserver_audit_event_total ") > 0);
    assert!(value("apiserver_audit_level_total{level=\"Metadata\"} ") > 0);
}

#[tokio::test]
async fn large_events_lose_their_objects() {
    let folder = tempfile::TempDir::new().unwrap();
    let (policy, log) = (folder.path().join("policy"), folder.path().join("audit.log"));
    fs::write(&policy, EVERYTHING.replace("Metadata", "RequestResponse")).unwrap();
    let cluster = TestCluster::start_with_flags(Arc::new(SystemClock), |flags| {
        flags.audit_policy_file = Some(policy.clone());
        flags.audit_log_path = Some(log.clone());
        flags.audit_log_maxsize = 1;
        flags.audit.audit_log_mode = "batch".to_owned();
        flags.audit.audit_log_batch_max_size = 3;
        flags.audit.audit_log_batch_max_wait = "10ms".to_owned();
        flags.audit.audit_log_batch_throttle_enable = true;
        flags.audit.audit_log_batch_throttle_qps = 10_000.0;
        flags.audit.audit_log_batch_throttle_burst = 100;
        flags.audit.audit_log_compress = true;
        flags.audit.audit_log_truncate_enabled = true;
        flags.audit.audit_log_truncate_max_batch_size = 500_000;
        flags.audit.audit_log_truncate_max_event_size = 400_000;
    })
    .await;
    let maps = of::<ConfigMap>(&cluster.admin_client());
    for at in 0..8 {
        let mut map = config_map(&format!("m{at}"));
        map["data"]["k"] = "x".repeat(if at == 0 { 300_000 } else { 150_000 }).into();
        maps.create(map).await.unwrap();
    }
    cluster.stop().await;
    let names: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert!(names.iter().any(|name| name.ends_with(".log.gz")), "{names:?}");
    let refused = |change: &dyn Fn(&mut apiserver::Flags)| {
        let mut flags = apiserver::Flags::new(folder.path());
        change(&mut flags);
        apiserver::Config::new(flags).expect_err("it is wrong").to_string()
    };
    let said = refused(&|flags| flags.audit.audit_webhook_batch_throttle_qps = 0.0);
    assert!(said.contains("--audit-webhook-batch-throttle-qps"), "{said}");
    let said = refused(&|flags| flags.audit.audit_webhook_initial_backoff = "soon".to_owned());
    assert!(said.contains("--audit-webhook-initial-backoff"), "{said}");
    let said = refused(&|flags| flags.audit.audit_webhook_truncate_max_event_size = usize::MAX);
    assert!(said.contains("--audit-webhook-truncate-max-event-size"), "{said}");
}

/// With `blocking-strict`, a request is rejected when its event cannot be written because the disk
/// is full.
#[tokio::test]
async fn what_cannot_be_told_does_not_happen_where_that_is_asked_for() {
    let folder = tempfile::TempDir::new().unwrap();
    let policy = folder.path().join("policy");
    fs::write(&policy, EVERYTHING.replace("omitStages: [RequestReceived]\n", "")).unwrap();
    for (mode, passes) in [("blocking", true), ("blocking-strict", false)] {
        let cluster = TestCluster::start_with_flags(Arc::new(SystemClock), |flags| {
            flags.audit_policy_file = Some(policy.clone());
            flags.audit_log_path = Some("/dev/full".into());
            flags.audit.audit_log_mode = mode.to_owned();
        })
        .await;
        let made = of::<ConfigMap>(&cluster.admin_client()).create(config_map("a")).await;
        assert_eq!(made.is_ok(), passes, "{mode}: {made:?}");
        if !passes {
            let said = crate::message(made);
            assert_eq!(said, "Internal error occurred: failed to store audit event");
        }
    }
}
