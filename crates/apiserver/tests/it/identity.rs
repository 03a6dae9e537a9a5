//! Authentication and authorization: tokens, roles, kubelets and impersonation.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use api::{
    authentication::TokenReview,
    core::{Node, Pod, Secret, ServiceAccount},
    rbac::ClusterRoleBinding,
};
use bytes::Bytes;
use client::{Auth, Client, DeleteParams, Patch, Selectors};
use http::{HeaderMap, Method};
use object::{Clock, NamespacedName, SystemClock};
use testkit::TestCluster;

use crate::{code, default_account, of, pod, tree};

async fn get(client: &Client, path: &str) -> u16 {
    let answer = client.request(Method::GET, path, HeaderMap::new(), Bytes::new()).await;
    answer.expect("an answer").status.as_u16()
}

#[tokio::test]
async fn a_component_has_the_rights_of_its_role_and_no_longer() {
    let cluster = TestCluster::start().await;
    let scheduler = cluster.client_as("system:kube-scheduler", &[]);
    let pods = of::<Pod>(&scheduler).namespaced("");
    assert!(pods.list_all(&Selectors::default()).await.is_ok());
    let secrets = of::<Secret>(&scheduler).list_all(&Selectors::default()).await;
    assert_eq!(code(secrets), 403);
    let bindings = of::<ClusterRoleBinding>(&cluster.admin_client());
    bindings
        .delete(&NamespacedName::new("", "system:kube-scheduler"), &DeleteParams::default())
        .await
        .unwrap();
    let refused = pods.list_all(&Selectors::default()).await.unwrap_err();
    assert!(refused.is_forbidden(), "{refused}");
    let said = refused.to_string();
    assert!(said.contains("cannot list resource \"pods\" in API group \"\" at the cluster scope"));
}

#[tokio::test]
async fn nobody_reads_health_and_version_only() {
    let cluster = TestCluster::start().await;
    let nobody = cluster.client_with_auth(Auth::None);
    for path in ["/healthz", "/livez", "/readyz", "/version"] {
        assert_eq!(get(&nobody, path).await, 200, "{path}");
    }
    for path in [
        "/api/v1/pods",
        "/metrics",
        "/metrics/slis",
        "/tiphys/why",
        "/openapi/v2",
        "/apis",
        "/debug/pprof/",
        "/debug/flags/v",
        "/debug/api_priority_and_fairness/dump_queues",
        "/configz",
        "/flagz",
        "/statusz",
        "/logs/",
        "//logs/",
        "/%6cogs/",
    ] {
        assert_eq!(get(&nobody, path).await, 403, "{path}");
    }
}

#[tokio::test]
async fn a_static_token_is_a_user() {
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("tokens");
    std::fs::write(&file, "secret,alice,1,\"system:masters\"\n").unwrap();
    let clock = Arc::new(SystemClock);
    let cluster =
        TestCluster::start_with_flags(clock, |flags| flags.token_auth_file = Some(file)).await;
    let alice = cluster.client_with_auth(Auth::Token("secret".to_owned()));
    assert_eq!(get(&alice, "/api/v1/pods").await, 200);
    let stranger = cluster.client_with_auth(Auth::Token("guess".to_owned()));
    assert_eq!(get(&stranger, "/api/v1/pods").await, 401);
    for (audiences, good) in [("[]", true), (r#"["somebody else"]"#, false)] {
        let review = format!(r#"{{"spec":{{"token":"secret","audiences":{audiences}}}}}"#);
        let made = of::<TokenReview>(&alice).create(tree(&review)).await.unwrap();
        assert_eq!(made["status"]["authenticated"] == true.into(), good, "{audiences}");
        assert_eq!(made["status"]["audiences"].items().is_empty(), !good, "{audiences}");
    }
}

#[tokio::test]
async fn a_token_dies_with_its_pod() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    default_account(&admin).await;
    let pods = of::<Pod>(&admin);
    let made = pods.create(pod("p", "")).await.unwrap();
    let uid = made["metadata"]["uid"].as_str().unwrap();
    let request = tree(&format!(
        r#"{{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{{
        "boundObjectRef":{{"apiVersion":"v1","kind":"Pod","name":"p","uid":"{uid}"}}}}}}"#
    ));
    let accounts = of::<ServiceAccount>(&admin);
    let key = NamespacedName::new("default", "default");
    let given = accounts.create_subresource(&key, "token", &request).await.unwrap();
    let token = given["status"]["token"].as_str().unwrap().to_owned();
    let account = cluster.client_with_auth(Auth::Token(token));
    assert_eq!(get(&account, "/api").await, 200);
    assert_eq!(get(&account, "/api/v1/pods").await, 403, "known, and without rights");
    let now = DeleteParams { grace_seconds: Some(0), ..DeleteParams::default() };
    pods.delete(&NamespacedName::new("default", "p"), &now).await.unwrap();
    assert_eq!(get(&account, "/api").await, 401);
}

/// A finalizer keeps the pod, but its token becomes invalid after the grace period.
#[tokio::test]
async fn a_token_dies_when_its_pod_should_be_gone() {
    let clock = Arc::new(Moving(AtomicI64::new(SystemClock.now())));
    let cluster = TestCluster::start_with_flags(clock.clone(), |_| {}).await;
    let admin = cluster.admin_client();
    default_account(&admin).await;
    let pods = of::<Pod>(&admin);
    let mut kept = pod("p", "");
    kept["metadata"]["finalizers"] = ["example.com/keep"].into_iter().collect();
    let made = pods.create(kept).await.unwrap();
    let uid = made["metadata"]["uid"].as_str().unwrap();
    let request = tree(&format!(
        r#"{{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{{
        "boundObjectRef":{{"apiVersion":"v1","kind":"Pod","name":"p","uid":"{uid}"}}}}}}"#
    ));
    let given = of::<ServiceAccount>(&admin);
    let given = given
        .create_subresource(&NamespacedName::new("default", "default"), "token", &request)
        .await
        .unwrap();
    let token = given["status"]["token"].as_str().unwrap().to_owned();
    let account = cluster.client_with_auth(Auth::Token(token));
    let now = DeleteParams { grace_seconds: Some(0), ..DeleteParams::default() };
    pods.delete(&NamespacedName::new("default", "p"), &now).await.unwrap();
    assert_eq!(get(&account, "/api").await, 200, "it may still say farewell");
    clock.0.fetch_add(120, Ordering::SeqCst);
    assert_eq!(get(&account, "/api").await, 401);
}

/// A clock that a test moves, in seconds.
#[derive(Debug)]
struct Moving(AtomicI64);

impl Clock for Moving {
    fn now(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn a_kubelet_keeps_to_its_node() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    default_account(&admin).await;
    for name in ["mine", "other"] {
        let secret = tree(&format!(r#"{{"metadata":{{"name":"{name}"}}}}"#));
        of::<Secret>(&admin).create(secret).await.unwrap();
    }
    let mut own = pod("own", "n1");
    own["spec"]["volumes"] = tree(r#"[{"name":"v","secret":{"secretName":"mine"}}]"#);
    of::<Pod>(&admin).create(own).await.unwrap();
    of::<Pod>(&admin).create(pod("foreign", "n2")).await.unwrap();
    let kubelet = cluster.client_as("system:node:n1", &["system:nodes"]);
    let (nodes, pods, secrets) =
        (of::<Node>(&kubelet), of::<Pod>(&kubelet), of::<Secret>(&kubelet));
    nodes.create(tree(r#"{"metadata":{"name":"n1"}}"#)).await.unwrap();
    assert_eq!(code(nodes.create(tree(r#"{"metadata":{"name":"n2"}}"#)).await), 403);
    assert!(secrets.get(&NamespacedName::new("default", "mine")).await.is_ok());
    assert_eq!(code(secrets.get(&NamespacedName::new("default", "other")).await), 403);
    assert_eq!(code(secrets.list_all(&Selectors::default()).await), 403);
    assert!(pods.list_all(&Selectors::fields("spec.nodeName=n1")).await.is_ok());
    assert_eq!(code(pods.list_all(&Selectors::default()).await), 403);
    let ready = Patch::Merge(tree(r#"{"status":{"phase":"Running"}}"#));
    assert!(pods.patch_status(&NamespacedName::new("default", "own"), &ready).await.is_ok());
    assert_eq!(
        code(pods.patch_status(&NamespacedName::new("default", "foreign"), &ready).await),
        403
    );
    assert_eq!(code(pods.create(pod("plain", "n1")).await), 403, "no mirror pod");
    let accounts = of::<ServiceAccount>(&kubelet);
    let free = tree(r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}"#);
    let key = NamespacedName::new("default", "default");
    assert_eq!(
        code(accounts.create_subresource(&key, "token", &free).await),
        403,
        "bound to no pod"
    );
    let label = r#"{"metadata":{"labels":{"node-restriction.kubernetes.io/a":"b"}}}"#;
    let label = Patch::Merge(tree(label));
    assert_eq!(code(nodes.patch(&NamespacedName::new("", "n1"), &label).await), 403);
}

#[tokio::test]
async fn nobody_gives_rights_that_he_does_not_have() {
    let cluster = TestCluster::start().await;
    let bindings = of::<ClusterRoleBinding>(&cluster.admin_client());
    let make = |name: &str, role: &str, user: &str| {
        tree(&format!(
            r#"{{"metadata":{{"name":"{name}"}},
            "roleRef":{{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"{role}"}},
            "subjects":[{{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"{user}"}}]}}"#
        ))
    };
    bindings.create(make("bob", "admin", "bob")).await.unwrap();
    let roles = tree(
        r#"{"metadata":{"name":"binder"},"rules":[{"apiGroups":["rbac.authorization.k8s.io"],
        "resources":["clusterrolebindings"],"verbs":["create"]}]}"#,
    );
    of::<api::rbac::ClusterRole>(&cluster.admin_client()).create(roles).await.unwrap();
    bindings.create(make("bob-binds", "binder", "bob")).await.unwrap();
    let bob = cluster.client_as("bob", &[]);
    assert!(of::<ClusterRoleBinding>(&bob).create(make("same", "binder", "eve")).await.is_ok());
    let refused = of::<ClusterRoleBinding>(&bob).create(make("up", "cluster-admin", "bob")).await;
    assert_eq!(code(refused), 403);
}

/// The response to a request with impersonation headers.
async fn acting(client: &Client, headers: &[(&'static str, &str)], path: &str) -> (u16, String) {
    let mut all = HeaderMap::new();
    for (name, value) in headers {
        all.append(*name, value.parse().unwrap());
    }
    let answer = client.request(Method::GET, path, all, Bytes::new()).await.unwrap();
    let code = answer.status.as_u16();
    let said = object::from_json(&answer.bytes().await.unwrap()).unwrap_or_default();
    (code, said.get("message").as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn to_act_as_another_takes_a_right_for_whom_and_for_what() {
    let cluster = TestCluster::start().await;
    let (admin, ann) = (cluster.admin_client(), cluster.client_as("ann", &[]));
    let (pods, bob) = ("/api/v1/namespaces/default/pods", [("impersonate-user", "bob")]);
    let (code, said) = acting(&ann, &bob, pods).await;
    assert_eq!(code, 403);
    assert_eq!(
        said,
        "pods is forbidden: User \"ann\" cannot impersonate-on:user-info:list resource \"pods\" in \
         API group \"\" in the namespace \"default\""
    );
    let grant = async |name: &str, rule: &str| {
        let role = tree(&format!(r#"{{"metadata":{{"name":"{name}"}},"rules":[{rule}]}}"#));
        of::<api::rbac::ClusterRole>(&admin).create(role).await.unwrap();
        let binding = tree(&format!(
            r#"{{"metadata":{{"name":"{name}"}},"subjects":[{{"kind":"User","name":"ann",
            "apiGroup":"rbac.authorization.k8s.io"}}],"roleRef":{{"kind":"ClusterRole",
            "name":"{name}","apiGroup":"rbac.authorization.k8s.io"}}}}"#
        ));
        of::<ClusterRoleBinding>(&admin).create(binding).await.unwrap();
    };
    grant(
        "what",
        r#"{"verbs":["impersonate-on:user-info:list"],"apiGroups":[""],"resources":["pods"]}"#,
    )
    .await;
    let (_, said) = acting(&ann, &bob, pods).await;
    assert!(said.contains("\"ann\" cannot impersonate:user-info resource \"users\""), "{said}");
    let whom = r#"{"verbs":["impersonate:user-info"],"apiGroups":["authentication.k8s.io"],
        "resources":["users","groups"],"resourceNames":["bob","devs","system:masters"]}"#;
    grant("whom", whom).await;
    let (_, said) = acting(&ann, &bob, pods).await;
    assert!(said.contains("User \"bob\" cannot list resource \"pods\""), "she is bob: {said}");
    let (_, said) = acting(&ann, &bob, "/api/v1/namespaces/default/secrets").await;
    assert!(said.contains("cannot impersonate-on:user-info:list resource \"secrets\""), "{said}");
    let masters = [("impersonate-user", "bob"), ("impersonate-group", "system:masters")];
    let (_, said) = acting(&ann, &masters, pods).await;
    assert!(said.ends_with("impersonating the system:masters group is not allowed"), "{said}");
    let node = [("impersonate-user", "system:node:n1")];
    let (_, said) = acting(&ann, &node, pods).await;
    assert!(said.contains("cannot impersonate-on:arbitrary-node:list"), "{said}");
    // The legacy verb `impersonate` still permits everything that the impersonated user may do.
    grant("old", r#"{"verbs":["impersonate"],"apiGroups":[""],"resources":["users","groups"]}"#)
        .await;
    assert_eq!(acting(&ann, &masters, "/api/v1/namespaces/default/secrets").await.0, 200);
}

#[tokio::test]
async fn a_kubelet_reads_only_what_its_pods_use() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    default_account(&admin).await;
    let mut own = pod("p", "n1");
    own["spec"]["volumes"] = tree(r#"[{"name":"v","persistentVolumeClaim":{"claimName":"c"}}]"#);
    of::<Pod>(&admin).create(own).await.unwrap();
    let claim = r#"{"metadata":{"name":"c"},"spec":{"accessModes":["ReadWriteOnce"],"volumeName":"used",
        "storageClassName":"","resources":{"requests":{"storage":"1"}}}}"#;
    of::<api::core::PersistentVolumeClaim>(&admin).create(tree(claim)).await.unwrap();
    for (name, claim) in [("used", "c"), ("other", "d")] {
        let volume = tree(&format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"capacity":{{"storage":"1"}},
            "claimRef":{{"namespace":"default","name":"{claim}"}},
            "accessModes":["ReadWriteOnce"],"hostPath":{{"path":"/x"}}}}}}"#
        ));
        of::<api::core::PersistentVolume>(&admin).create(volume).await.unwrap();
    }
    for node in ["n1", "n2"] {
        let slice = tree(&format!(
            r#"{{"metadata":{{"name":"{node}"}},"spec":{{"driver":"d.example.com","nodeName":"{node}",
            "pool":{{"name":"{node}","generation":1,"resourceSliceCount":1}}}}}}"#
        ));
        of::<api::resource::ResourceSlice>(&admin).create(slice).await.unwrap();
    }
    let kubelet = cluster.client_as("system:node:n1", &["system:nodes"]);
    let slices = "/apis/resource.k8s.io/v1/resourceslices";
    for (path, code) in [
        ("/api/v1/persistentvolumes/used".to_owned(), 200),
        ("/api/v1/persistentvolumes/other".to_owned(), 403),
        ("/api/v1/persistentvolumes".to_owned(), 403),
        ("/api/v1/namespaces/default/persistentvolumeclaims/c".to_owned(), 200),
        ("/api/v1/namespaces/default/persistentvolumeclaims/d".to_owned(), 403),
        (format!("{slices}/n1"), 200),
        (format!("{slices}/n2"), 403),
        (slices.to_owned(), 403),
        (format!("{slices}?fieldSelector=spec.nodeName%3Dn1"), 200),
        (format!("{slices}?fieldSelector=spec.nodeName%3Dn2"), 403),
        ("/api/v1/pods?fieldSelector=spec.nodeName%3Dn1".to_owned(), 200),
        ("/api/v1/pods?fieldSelector=spec.nodeName!%3Dn1".to_owned(), 403),
        ("/api/v1/nodes?fieldSelector=metadata.name%3Dn1".to_owned(), 200),
        ("/api/v1/nodes".to_owned(), 403),
        ("/apis/certificates.k8s.io/v1/podcertificaterequests".to_owned(), 403),
        ("/apis/storage.k8s.io/v1/volumeattachments".to_owned(), 403),
        ("/apis/storage.k8s.io/v1/csidrivers".to_owned(), 200),
    ] {
        assert_eq!(get(&kubelet, &path).await, code, "{path}");
    }
}
