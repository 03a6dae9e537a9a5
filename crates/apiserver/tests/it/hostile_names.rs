//! Hostile names and selectors, which try to be interpreted as something else.

use std::sync::Arc;

use api::{
    admissionregistration::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    core::{Secret, Service},
    networking::IPAddress,
    rbac::{Role, RoleBinding},
};
use bytes::Bytes;
use client::{Client, Selectors};
use http::{HeaderMap, HeaderValue, Method};
use object::{SystemClock, Value};
use testkit::TestCluster;

use crate::{code, message, of, tree};

/// Gives a user a role in the namespace `default`.
pub(crate) async fn allow(admin: &Client, user: &str, rules: &str) {
    let role = tree(&format!(r#"{{"metadata":{{"name":"{user}"}},"rules":{rules}}}"#));
    of::<Role>(admin).create(role).await.unwrap();
    let binding = tree(&format!(
        r#"{{"metadata":{{"name":"{user}"}},"roleRef":{{"kind":"Role","name":"{user}",
        "apiGroup":"rbac.authorization.k8s.io"}},"subjects":[{{"kind":"User","name":"{user}",
        "apiGroup":"rbac.authorization.k8s.io"}}]}}"#
    ));
    of::<RoleBinding>(admin).create(binding).await.unwrap();
}

async fn ask(client: &Client, method: Method, path: &str, body: &str) -> u16 {
    let mut head = HeaderMap::new();
    let form = match method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    head.insert("content-type", HeaderValue::from_static(form));
    let body = Bytes::from(body.to_owned());
    client.request(method, path, head, body).await.unwrap().status.as_u16()
}

/// How often an address was allocated to a Service.
async fn given(admin: &Client) -> f64 {
    let head = HeaderMap::new();
    let answer = admin.request(Method::GET, "/metrics", head, Bytes::new()).await.unwrap();
    let text = String::from_utf8(answer.bytes().await.unwrap().to_vec()).unwrap();
    let own = text
        .lines()
        .filter(|line| line.starts_with("kube_apiserver_clusterip_allocator_allocation_total{"));
    own.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[tokio::test]
async fn the_name_of_a_service_is_a_name_only() {
    let cluster = TestCluster::start_with_flags(Arc::new(SystemClock), |flags| {
        flags.service_cluster_ip_range = "10.77.0.0/28".to_owned();
    })
    .await;
    let admin = cluster.admin_client();
    allow(
        &admin,
        "bob",
        r#"[{"apiGroups":[""],"resources":["services"],"verbs":["create","update","get"]}]"#,
    )
    .await;
    let services = of::<Service>(&cluster.client_as("bob", &[]));
    let addresses =
        async || of::<IPAddress>(&admin).list_all(&Selectors::default()).await.unwrap().items.len();
    let (before, times) = (addresses().await, given(&admin).await);
    let injected = r#"a"}},"metadata":{"name":"10.77.0.9","finalizers":["b/c"]},"x":{"y":{"z":"#;
    for name in [r#"a"b"#, "a\\b", "a\nb", "a\u{0}b", "ä", injected, "A", &"a".repeat(300), ".."] {
        let mut service = tree(r#"{"spec":{"type":"NodePort","ports":[{"port":80}]}}"#);
        service["metadata"]["name"] = name.into();
        let refused = services.create(service).await.unwrap_err();
        let status = refused.status().expect("the server's own words");
        assert_eq!(status.code(), 422, "{name:?}: {refused}");
        assert!(status.message().contains("metadata.name: Invalid value"), "{refused}");
    }
    let mut generated = tree(r#"{"spec":{"ports":[{"port":80}]}}"#);
    generated["metadata"]["generateName"] = r#"a"b"#.into();
    assert_eq!(code(services.create(generated).await), 422);
    // A Service that is rejected gets no allocation.
    for wrong in [
        r#"{"metadata":{"name":"a"},"spec":{"sessionAffinity":"Sometimes","ports":[{"port":80}]}}"#,
        r#"{"metadata":{"name":"a","labels":{"a":"b c"}},"spec":{"ports":[{"port":80}]}}"#,
        r#"{"metadata":{"name":"a"},"spec":{"ports":[{"port":80},{"port":80}]}}"#,
        r#"{"metadata":{"name":"a"},"spec":{"externalIPs":["127.0.0.1"],"ports":[{"port":80}]}}"#,
    ] {
        assert_eq!(code(services.create(tree(wrong)).await), 422, "{wrong}");
    }
    assert_eq!((addresses().await, given(&admin).await), (before, times));
    let good = tree(r#"{"metadata":{"name":"a"},"spec":{"ports":[{"port":80}]}}"#);
    services.create(good).await.unwrap();
    assert_eq!((addresses().await, given(&admin).await), (before + 1, times + 1.0));
}

#[tokio::test]
async fn what_a_service_was_given_is_taken_back_when_a_policy_refuses_it() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let policy = r#"{"metadata":{"name":"none"},"spec":{"matchConstraints":{"resourceRules":[{
        "apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["services"]}]},
        "validations":[{"expression":"false"}]}}"#;
    of::<ValidatingAdmissionPolicy>(&admin).create(tree(policy)).await.unwrap();
    let binding =
        r#"{"metadata":{"name":"b"},"spec":{"policyName":"none","validationActions":["Deny"]}}"#;
    of::<ValidatingAdmissionPolicyBinding>(&admin).create(tree(binding)).await.unwrap();
    let addresses =
        async || of::<IPAddress>(&admin).list_all(&Selectors::default()).await.unwrap().items.len();
    let before = addresses().await;
    let services = of::<Service>(&admin);
    for n in 0..3 {
        let mut service =
            tree(r#"{"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":30100}]}}"#);
        service["metadata"]["name"] = format!("s{n}").as_str().into();
        let said = message(services.create(service).await);
        assert!(said.contains("denied request"), "{said}");
    }
    assert_eq!(addresses().await, before);
}

#[tokio::test]
async fn a_selector_is_no_name() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    allow(
        &admin,
        "bob",
        r#"[{"apiGroups":[""],"resources":["secrets"],"resourceNames":["x"],
        "verbs":["create","update","patch","delete","deletecollection","list","watch"]}]"#,
    )
    .await;
    for name in ["x", "y"] {
        let secret = tree(&format!(r#"{{"metadata":{{"name":"{name}"}}}}"#));
        of::<Secret>(&admin).create(secret).await.unwrap();
    }
    let bob = cluster.client_as("bob", &[]);
    let secrets = "/api/v1/namespaces/default/secrets";
    let x = "fieldSelector=metadata.name%3Dx";
    let (body, none) = (r#"{"metadata":{"name":"z"}}"#, "");
    for (method, path, body, code) in [
        (Method::POST, format!("{secrets}?{x}"), body, 403),
        (Method::POST, format!("{secrets}?{x}&dryRun=All"), body, 403),
        (Method::POST, format!("{secrets}/?{x}"), body, 403),
        (Method::POST, format!("{secrets}?watch=true&{x}"), body, 403),
        (Method::PUT, format!("{secrets}/y?{x}"), r#"{"metadata":{"name":"y"}}"#, 403),
        (Method::PATCH, format!("{secrets}/y?{x}"), "{}", 403),
        (Method::DELETE, format!("{secrets}/y?{x}"), none, 403),
        (Method::DELETE, format!("{secrets}?{x}"), none, 403),
        (Method::GET, format!("{secrets}/y?{x}"), none, 403),
        (Method::GET, secrets.to_owned(), none, 403),
        (Method::GET, format!("{secrets}?{x}"), none, 200),
        (Method::GET, format!("{secrets}?{x}%2Cmetadata.namespace%3Ddefault"), none, 200),
        (Method::GET, format!("{secrets}?fieldSelector=&{x}"), none, 403),
        (Method::GET, format!("{secrets}?fieldSelector=metadata.name%3Dy&{x}"), none, 403),
        (Method::GET, format!("{secrets}?fieldSelector=metadata.name!%3Dx"), none, 403),
        (Method::GET, format!("/api/v1/watch/namespaces/default/secrets?{x}"), none, 403),
        (Method::GET, format!("/api/v1/watch/namespaces/default/secrets/y?{x}"), none, 403),
        (Method::PATCH, format!("{secrets}/x"), "{}", 200),
    ] {
        assert_eq!(ask(&bob, method.clone(), &path, body).await, code, "{method} {path}");
    }
    let two: Value =
        of::<Secret>(&admin).get(&object::NamespacedName::new("default", "y")).await.unwrap();
    assert_eq!(two["metadata"]["name"].as_str(), Some("y"), "still there");
}

#[tokio::test]
async fn no_endpoint_is_the_machine_itself_or_on_a_link() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let bad = ["127.0.0.1", "127.1.2.3", "169.254.169.254", "224.0.0.1", "0.0.0.0", "010.1.2.3"];
    let six = ["::1", "fe80::1", "ff02::1", "::", "::ffff:127.0.0.1"];
    for (family, list) in [("IPv4", &bad[..]), ("IPv6", &six[..])] {
        for (n, ip) in list.iter().enumerate() {
            let family_name = family.to_lowercase();
            let slice = tree(&format!(
                r#"{{"metadata":{{"name":"{family_name}-{n}"}},"addressType":"{family}",
                "endpoints":[{{"addresses":["{ip}"]}}],"ports":[]}}"#
            ));
            let made = of::<api::discovery::EndpointSlice>(&admin).create(slice).await;
            assert_eq!(code(made), 422, "{ip}");
            let endpoints = tree(&format!(
                r#"{{"metadata":{{"name":"{family_name}-{n}"}},"subsets":[
                {{"addresses":[{{"ip":"{ip}"}}],"ports":[{{"port":80}}]}}]}}"#
            ));
            let made = of::<api::core::Endpoints>(&admin).create(endpoints).await;
            assert_eq!(code(made), 422, "{ip}");
        }
    }
}

/// Clients cannot create new metric series by paths, verbs, user agents or names.
#[tokio::test]
async fn metrics_do_not_grow_with_what_is_asked() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let nobody = cluster.client_with_auth(client::Auth::None);
    let count = async || {
        let answer = admin.request(Method::GET, "/metrics", HeaderMap::new(), Bytes::new());
        answer.await.unwrap().bytes().await.unwrap().split(|byte| *byte == b'\n').count()
    };
    let flood = async |from: usize| {
        for n in from..from + 100 {
            let mut head = HeaderMap::new();
            head.insert("user-agent", HeaderValue::from_str(&format!("agent-{n}/1")).unwrap());
            for path in [
                format!("/p{n}"),
                format!("/api/v1/r{n}"),
                format!("/apis/g{n}.example.com/v{n}/r{n}/x/s{n}"),
                format!("/api/v1/namespaces/n{n}/pods/p{n}/log"),
                format!("/apis/apps/v1/namespaces/n{n}/deployments/d{n}/s{n}"),
                format!("/metrics/{n}"),
            ] {
                for client in [&nobody, &admin] {
                    for method in
                        [Method::GET, Method::from_bytes(format!("M{n}").as_bytes()).unwrap()]
                    {
                        let _ = client.request(method, &path, head.clone(), Bytes::new()).await;
                    }
                }
            }
        }
    };
    flood(0).await;
    let before = count().await;
    flood(1000).await;
    let after = count().await;
    assert!(after < before + 40, "{before} lines became {after}");
}
