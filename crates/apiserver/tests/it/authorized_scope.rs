//! A request does only what was authorized: in that scope, with that verb.

use api::{
    core::{ConfigMap, Node},
    rbac::Role,
};
use bytes::Bytes;
use client::{Client, Patch};
use http::{HeaderMap, HeaderValue, Method};
use object::NamespacedName;
use testkit::TestCluster;

use crate::{code, hostile_names::allow, message, of, tree};

async fn ask(client: &Client, method: Method, path: &str, form: &str, body: &str) -> u16 {
    let mut head = HeaderMap::new();
    head.insert("content-type", HeaderValue::from_str(form).unwrap());
    let body = Bytes::from(body.to_owned());
    client.request(method, path, head, body).await.unwrap().status.as_u16()
}

/// A user who may do everything in a namespace can do nothing to cluster-scoped objects.
#[tokio::test]
async fn a_namespace_is_no_way_to_what_is_in_none() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    allow(&admin, "bob", r#"[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]"#).await;
    let node = r#"{"metadata":{"name":"n1"}}"#;
    of::<Node>(&admin).create(tree(node)).await.unwrap();
    let status = r#"{"status":{"addresses":[{"type":"InternalIP","address":"192.0.2.1"}]}}"#;
    let key = NamespacedName::new("", "n1");
    of::<Node>(&admin).patch_status(&key, &Patch::Merge(tree(status))).await.unwrap();
    let bob = cluster.client_as("bob", &[]);
    let json = "application/json";
    let core = "/api/v1/namespaces/default";
    for path in [
        format!("{core}/nodes"),
        format!("{core}/nodes/n1"),
        format!("{core}/nodes/n1/status"),
        format!("{core}/nodes/n1/proxy"),
        format!("{core}/nodes/n1/proxy/pods"),
        format!("{core}/nodes/n1:10250/proxy/pods"),
        format!("{core}/persistentvolumes"),
        format!("{core}/componentstatuses"),
        format!("{core}/componentstatuses/scheduler"),
        format!("{core}/namespaces"),
        format!("{core}/namespaces/kube-system"),
    ] {
        let code = ask(&bob, Method::GET, &path, json, "").await;
        assert!(matches!(code, 403 | 404), "{path}: {code}");
    }
    let token =
        r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":"t"}}"#;
    let access = r#"{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview",
        "spec":{"user":"admin","resourceAttributes":{"verb":"get","resource":"secrets"}}}"#;
    let own = access.replace("SubjectAccessReview", "SelfSubjectAccessReview");
    for (group, plural, body) in [
        ("authentication.k8s.io", "tokenreviews", token),
        ("authorization.k8s.io", "subjectaccessreviews", access),
        ("authorization.k8s.io", "selfsubjectaccessreviews", &own),
    ] {
        let path = format!("/apis/{group}/v1/namespaces/default/{plural}");
        assert_eq!(ask(&bob, Method::POST, &path, json, body).await, 404, "{path}");
    }
    let signers = "/apis/certificates.k8s.io/v1/namespaces/default/certificatesigningrequests";
    assert_eq!(ask(&bob, Method::GET, signers, json, "").await, 404);
}

/// Creating an object needs the verb `create`, whatever verb the request has.
#[tokio::test]
async fn a_patch_does_not_create() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let rules = r#"[{"apiGroups":[""],"resources":["configmaps"],"verbs":["patch","update"]}]"#;
    allow(&admin, "bob", rules).await;
    let bob = cluster.client_as("bob", &[]);
    let maps = "/api/v1/namespaces/default/configmaps";
    let object =
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}"#;
    let applied = "application/apply-patch+yaml";
    let path = format!("{maps}/a?fieldManager=bob&force=true");
    assert_eq!(ask(&bob, Method::PATCH, &path, applied, object).await, 403);
    let dry = format!("{path}&dryRun=All");
    assert_eq!(ask(&bob, Method::PATCH, &dry, applied, object).await, 403);
    assert!(of::<ConfigMap>(&admin).get(&NamespacedName::new("default", "a")).await.is_err());
    of::<ConfigMap>(&admin).create(tree(object)).await.unwrap();
    assert_eq!(ask(&bob, Method::PATCH, &path, applied, object).await, 200, "it is there");
    // An update that creates needs it as well.
    let lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
    let rules = r#"{"rules":[{"apiGroups":["","coordination.k8s.io"],
        "resources":["configmaps","leases"],"verbs":["patch","update"]}]}"#;
    let key = NamespacedName::new("default", "bob");
    of::<Role>(&admin).patch(&key, &Patch::Merge(tree(rules))).await.unwrap();
    let body = r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l"}}"#;
    assert_eq!(ask(&bob, Method::PUT, lease, "application/json", body).await, 403);
    let maps = of::<ConfigMap>(&bob);
    assert_eq!(code(maps.create(tree(r#"{"metadata":{"name":"b"}}"#)).await), 403);
}

/// Permission to write a claim's status does not include allocating devices.
#[tokio::test]
async fn a_claims_devices_are_given_by_who_binds_claims() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let group = "resource.k8s.io";
    let rules = |resources: &str| {
        format!(
            r#"[{{"apiGroups":["{group}"],"resources":[{resources}],"verbs":["update","patch"]}}]"#
        )
    };
    allow(&admin, "bob", &rules(r#""resourceclaims","resourceclaims/status""#)).await;
    let claim = r#"{"metadata":{"name":"c"},"spec":{"devices":{"requests":[{"name":"r",
        "exactly":{"deviceClassName":"k"}}]}}}"#;
    of::<api::resource::ResourceClaim>(&admin).create(tree(claim)).await.unwrap();
    let given = r#"{"status":{"allocation":{"nodeSelector":{"nodeSelectorTerms":[{"matchFields":
        [{"key":"metadata.name","operator":"In","values":["n1"]}]}]},"devices":{"results":
        [{"request":"r","driver":"d.example.com","pool":"p","device":"x"}]}}}}"#;
    let given = Patch::Merge(tree(given));
    let state = r#"{"status":{"devices":[{"driver":"d.example.com","pool":"p","device":"x",
        "conditions":[]}]}}"#;
    let state = Patch::Merge(tree(state));
    let key = NamespacedName::new("default", "c");
    let claims = of::<api::resource::ResourceClaim>(&cluster.client_as("bob", &[]));
    let said = message(claims.patch_status(&key, &given).await);
    assert!(said.contains(r#"requires resource="resourceclaims/binding""#), "{said}");
    of::<api::resource::ResourceClaim>(&admin).patch_status(&key, &given).await.unwrap();
    let said = message(claims.patch_status(&key, &state).await);
    assert!(said.contains(r#"requires resource="resourceclaims/driver""#), "{said}");
    let driver = r#"[{"apiGroups":["resource.k8s.io"],"resources":["resourceclaims/driver"],
        "resourceNames":["d.example.com"],"verbs":["arbitrary-node:patch","arbitrary-node:update"]},
        {"apiGroups":["resource.k8s.io"],"resources":["resourceclaims/status"],"verbs":["patch"]}]"#;
    allow(&admin, "driver", driver).await;
    let claims = of::<api::resource::ResourceClaim>(&cluster.client_as("driver", &[]));
    claims.patch_status(&key, &state).await.unwrap();
}
