//! Connections (exec, portforward, proxy, log) pass admission, and reach only the kubelet.

use std::sync::{Arc, Mutex};

use api::{
    admissionregistration::{
        MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    },
    core::{Node, Pod},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use client::{Client, Patch};
use http::{HeaderMap, Method};
use object::{NamespacedName, SystemClock, from_json};
use testkit::TestCluster;

use crate::{
    backend::Backend,
    default_account,
    hostile_backend::{Answer, Hostile},
    of, pod, tree,
};

async fn ask(client: &Client, method: Method, path: &str) -> (u16, String) {
    let answer = client.request(method, path, HeaderMap::new(), Bytes::new()).await.unwrap();
    let code = answer.status.as_u16();
    (code, String::from_utf8_lossy(&answer.bytes().await.unwrap()).into_owned())
}

#[tokio::test]
async fn a_policy_refuses_a_shell() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    default_account(&admin).await;
    of::<Pod>(&admin).create(pod("p", "n1")).await.unwrap();
    let policy = r#"{"metadata":{"name":"no-shell"},"spec":{
        "matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],
            "operations":["CONNECT"],"resources":["pods/exec","pods/portforward"]}]},
        "validations":[{"expression":"request.subResource != 'exec' || object.command[0] != 'sh'",
            "messageExpression":"request.kind.kind + ' of ' + request.name + ' wants a shell'"},
            {"expression":"request.subResource != 'portforward' || !(22 in object.ports)"}]}}"#;
    of::<ValidatingAdmissionPolicy>(&admin).create(tree(policy)).await.unwrap();
    let binding = r#"{"metadata":{"name":"b"},"spec":{"policyName":"no-shell","validationActions":["Deny"]}}"#;
    of::<ValidatingAdmissionPolicyBinding>(&admin).create(tree(binding)).await.unwrap();
    let pods = "/api/v1/namespaces/default/pods/p";
    let (code, body) = ask(&admin, Method::POST, &format!("{pods}/exec?command=sh&stdout=1")).await;
    assert_eq!(code, 422, "{body}");
    let status = from_json(body.as_bytes()).unwrap();
    assert_eq!(
        status["message"].as_str(),
        Some(
            "pods \"p\" is forbidden: ValidatingAdmissionPolicy 'no-shell' with binding 'b' denied \
             request: PodExecOptions of p wants a shell"
        )
    );
    // The node does not exist, which is found only after admission.
    let (code, _) = ask(&admin, Method::POST, &format!("{pods}/exec?command=ls&stdout=1")).await;
    assert_eq!(code, 404);
    let (code, _) = ask(&admin, Method::POST, &format!("{pods}/portforward?ports=22")).await;
    assert_eq!(code, 422);
    let (code, _) = ask(&admin, Method::POST, &format!("{pods}/portforward?ports=80")).await;
    assert_eq!(code, 404);
}

/// Registers a backend on the loopback as the kubelet of a node, with a pod on it.
pub(crate) async fn with_kubelet(backend: &Backend, cluster: &TestCluster) {
    with_kubelet_at(backend.port, cluster).await;
}

/// Registers a node whose kubelet listens on this port, with a pod on it.
async fn with_kubelet_at(port: u16, cluster: &TestCluster) {
    let admin = cluster.admin_client();
    default_account(&admin).await;
    of::<Node>(&admin).create(tree(r#"{"metadata":{"name":"n1"}}"#)).await.unwrap();
    let status = format!(
        r#"{{"status":{{"addresses":[{{"type":"InternalIP","address":"127.0.0.1"}}],
        "daemonEndpoints":{{"kubeletEndpoint":{{"Port":{port}}}}}}}}}"#
    );
    let key = NamespacedName::new("", "n1");
    of::<Node>(&admin).patch_status(&key, &Patch::Merge(tree(&status))).await.unwrap();
    of::<Pod>(&admin).create(pod("p", "n1")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_changes_what_is_asked_of_a_kubelet() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = asked.clone();
    let kubelet = Backend::start(move |path, _| {
        seen.lock().unwrap().push(path.to_owned());
        tree("{}")
    })
    .await;
    let hook = Backend::start(|_, review| {
        let uid = review["request"]["uid"].as_str().unwrap_or_default();
        let good = review["request"]["operation"].as_str() == Some("CONNECT")
            && review["request"]["kind"]["kind"].as_str() == Some("PodExecOptions")
            && review["request"]["subResource"].as_str() == Some("exec");
        let patch = STANDARD.encode(r#"[{"op":"replace","path":"/command/0","value":"audited sh"}]"#);
        tree(&format!(
            r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{{"uid":"{uid}",
            "allowed":{good},"patchType":"JSONPatch","patch":"{patch}"}}}}"#
        ))
    })
    .await;
    let cluster = TestCluster::start().await;
    with_kubelet(&kubelet, &cluster).await;
    let admin = cluster.admin_client();
    let (url, bundle) = (hook.url("/"), STANDARD.encode(&hook.authority));
    let configuration = tree(&format!(
        r#"{{"metadata":{{"name":"h"}},"webhooks":[{{"name":"h.example.com","sideEffects":"None",
        "admissionReviewVersions":["v1"],"clientConfig":{{"url":"{url}","caBundle":"{bundle}"}},
        "rules":[{{"operations":["CONNECT"],"apiGroups":[""],"apiVersions":["v1"],
        "resources":["pods/exec"]}}]}}]}}"#
    ));
    of::<MutatingWebhookConfiguration>(&admin).create(configuration).await.unwrap();
    let path = "/api/v1/namespaces/default/pods/p/exec?command=sh&stdout=true";
    ask(&admin, Method::POST, path).await;
    let asked = asked.lock().unwrap().clone();
    assert_eq!(asked, ["/exec/default/p/c?command=audited%20sh&output=true"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubelet_certificate_authority() {
    let kubelet = Backend::start(|_, _| tree(r#"{"fine":true}"#)).await;
    let folder = tempfile::TempDir::new().unwrap();
    let other =
        pki::CertificateAuthority::create("other", object::Clock::now(&SystemClock)).unwrap();
    let (own, foreign) = (folder.path().join("own.pem"), folder.path().join("other.pem"));
    std::fs::write(&own, &kubelet.authority).unwrap();
    std::fs::write(&foreign, other.certificate_pem()).unwrap();
    for (file, expected) in [(None, 200), (Some(own), 200), (Some(foreign), 500)] {
        let cluster = TestCluster::start_with_flags(Arc::new(SystemClock), |flags| {
            flags.kubelet_certificate_authority = file.clone();
        })
        .await;
        with_kubelet(&kubelet, &cluster).await;
        let admin = cluster.admin_client();
        let log = "/api/v1/namespaces/default/pods/p/log";
        let (code, body) = ask(&admin, Method::GET, log).await;
        assert_eq!(code, expected, "{file:?}: {body}");
        let any = format!("{log}?insecureSkipTLSVerifyBackend=true");
        assert_eq!(ask(&admin, Method::GET, &any).await.0, 200, "whoever it is");
        let told = ask(&admin, Method::GET, "/metrics").await.1;
        let name = "kube_apiserver_pod_logs_insecure_backend_total";
        assert!(told.contains(&format!("{name}{{usage=\"skip_tls_allowed\"}} 1\n")), "{told}");
        let failed = told.contains("kube_apiserver_pod_logs_backend_tls_failure_total 1\n");
        assert_eq!(failed, expected == 500);
    }
}

/// A kubelet reports errors as text; clients get a Status.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_a_kubelet_refuses_is_a_status() {
    let waits = r#"container "c" in pod "p" is waiting to start: ContainerCreating"#;
    let cases = [
        ("400 Bad Request", waits, "BadRequest", waits),
        ("500 Internal Server Error", "oops", "InternalError", "Internal error occurred: oops"),
        (
            "404 Not Found",
            r#"pod "p" does not exist"#,
            "NotFound",
            "the server could not find the requested resource ( pods p)",
        ),
        ("403 Forbidden", "not you", "Forbidden", "not you ( pods p)"),
    ];
    let said = Arc::new(Mutex::new(("", "")));
    let answer = said.clone();
    let kubelet = Hostile::start("localhost", move |_, _| {
        let (status, text) = *answer.lock().unwrap();
        let length = text.len();
        let whole = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{text}");
        Answer::Bytes(whole.into())
    })
    .await;
    let cluster = TestCluster::start().await;
    with_kubelet_at(kubelet.port, &cluster).await;
    let admin = cluster.admin_client();
    let log = "/api/v1/namespaces/default/pods/p/log";
    for (status, text, reason, message) in cases {
        *said.lock().unwrap() = (status, text);
        let (code, body) = ask(&admin, Method::GET, log).await;
        assert!(status.starts_with(&code.to_string()), "{status}: {code}");
        let body = tree(&body);
        let fields = ["kind", "reason", "message"].map(|field| body[field].as_str());
        assert_eq!(fields, [Some("Status"), Some(reason), Some(message)], "{status}");
    }
    *said.lock().unwrap() = ("200 OK", "a line\n");
    assert_eq!(ask(&admin, Method::GET, log).await, (200, "a line\n".to_owned()));
}

#[tokio::test]
async fn the_root_behind_a_proxy_has_a_slash() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    default_account(&admin).await;
    of::<Pod>(&admin).create(pod("p", "n1")).await.unwrap();
    let status = r#"{"status":{"podIP":"192.0.2.9","podIPs":[{"ip":"192.0.2.9"}]}}"#;
    let key = NamespacedName::new("default", "p");
    of::<Pod>(&admin).patch_status(&key, &Patch::Merge(tree(status))).await.unwrap();
    let path = "/api/v1/namespaces/default/pods/p/proxy";
    let asked = format!("{path}?a=b");
    let answer = admin.request(Method::GET, &asked, HeaderMap::new(), Bytes::new()).await.unwrap();
    assert_eq!(answer.status.as_u16(), 301);
    let place = answer.headers.get("location").expect("it says where").to_str().unwrap();
    assert_eq!(place, format!("{path}/?a=b"));
}

/// A kubelet accepts other names for options, which admission plugins would not see.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kubelet_is_asked_for_nothing_that_plugins_have_not_seen() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = asked.clone();
    let kubelet = Backend::start(move |path, _| {
        seen.lock().unwrap().push(path.to_owned());
        tree("{}")
    })
    .await;
    let cluster = TestCluster::start().await;
    with_kubelet(&kubelet, &cluster).await;
    let admin = cluster.admin_client();
    let pods = "/api/v1/namespaces/default/pods/p";
    let hidden = "exec?command=ls&input=1&output=1&error=1&%69nput=1&tty=FALSE&stdin=false&x=y";
    for path in [format!("{pods}/{hidden}"), format!("{pods}/portforward?port=22&ports=80")] {
        ask(&admin, Method::POST, &path).await;
    }
    let asked = asked.lock().unwrap().clone();
    assert_eq!(asked, ["/exec/default/p/c?command=ls", "/portforward/default/p?port=80"]);
}
