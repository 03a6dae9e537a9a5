//! Deeply nested input is rejected wherever it comes in, and every stored object can be read by all
//! clients.

use api::{apiextensions::CustomResourceDefinition, core::ConfigMap};
use bytes::Bytes;
use client::{Client, ListParams, Selectors};
use http::{HeaderMap, HeaderValue, Method, header::CONTENT_TYPE};
use object::{NamespacedName, Value, depth::MAX, from_json};
use testkit::TestCluster;

use crate::{config_map, of, tree};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEEP: [usize; 4] = [MAX + 30, 600, 4_000, 9_900];

fn nested(open: &str, inner: &str, close: &str, depth: usize) -> String {
    format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
}

async fn ask(
    client: &Client,
    method: Method,
    path: &str,
    kind: &str,
    body: String,
) -> (u16, Value) {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_str(kind).expect("a media type"));
    let answer = client.request(method, path, headers, Bytes::from(body)).await.expect("an answer");
    let status = answer.status.as_u16();
    let bytes = answer.bytes().await.expect("all of it");
    if status == 404 {
        return (status, Value::Null); // plain text where nothing is served yet
    }
    (status, from_json(&bytes).expect("what any client can read"))
}

/// Checks that a client with our JSON decoder can list and read everything.
async fn all_can_read(client: &Client) {
    let maps = of::<ConfigMap>(client);
    let list = maps.list(&Selectors::default(), &ListParams::default()).await.expect("a list");
    for map in &list.items {
        maps.get(&NamespacedName::new("default", crate::name(map))).await.expect("each of them");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn managed_fields_do_not_nest_without_end() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    for depth in DEEP {
        let fields = nested(r#"{"f:a":"#, "{}", "}", depth);
        let map = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"m{depth}","managedFields":[{{
            "manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1",
            "fieldsV1":{fields}}}]}}}}"#
        );
        let (code, answer) = ask(&admin, Method::POST, MAPS, "application/json", map.clone()).await;
        assert!(code == 201 || code == 400, "{depth}: {code} {answer:?}");
        let yaml = "application/yaml";
        let path = format!("{MAPS}?fieldManager=x");
        let (code, answer) =
            ask(&admin, Method::POST, &path, yaml, map.replace("\"m", "\"y")).await;
        assert!(code < 500, "{depth}: {code} {answer:?}");
        of::<ConfigMap>(&admin).create(config_map(&format!("n{depth}"))).await.expect("a map");
        let patch = format!(
            r#"{{"metadata":{{"managedFields":[{{"manager":"m","operation":"Apply",
            "apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{fields}}}]}}}}"#
        );
        for kind in ["merge-patch", "strategic-merge-patch"] {
            let kind = format!("application/{kind}+json");
            let path = format!("{MAPS}/n{depth}");
            let (code, answer) = ask(&admin, Method::PATCH, &path, &kind, patch.clone()).await;
            assert!(code < 500, "{depth}: {code} {answer:?}");
        }
        all_can_read(&admin).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patches_do_not_build_what_may_not_be_sent() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    of::<ConfigMap>(&admin).create(config_map("a")).await.expect("a map");
    let path = format!("{MAPS}/a");
    let json = "application/json-patch+json";
    let (mut operations, mut at) =
        (vec![r#"{"op":"add","path":"/x","value":{"a":{}}}"#.to_owned()], 1);
    while at < 400_000 {
        let deeper = format!("/x{}", "/a".repeat(at));
        operations.push(format!(r#"{{"op":"copy","from":"/x/a","path":"{deeper}"}}"#));
        at *= 2;
    }
    let copies = format!("[{}]", operations.join(","));
    let (code, answer) = ask(&admin, Method::PATCH, &path, json, copies).await;
    assert!(matches!(code, 413 | 422), "{code} {answer:?}");
    for depth in DEEP {
        let value = nested("[", "", "]", depth);
        let add = format!(r#"[{{"op":"add","path":"/data","value":{value}}}]"#);
        let merge = format!(r#"{{"data":{value}}}"#);
        let apply = format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","data":{value}}}"#);
        for (kind, body) in [
            (json, add),
            ("application/merge-patch+json", merge.clone()),
            ("application/strategic-merge-patch+json", merge),
            ("application/apply-patch+yaml", apply),
        ] {
            let path = format!("{path}?fieldManager=m");
            let (code, answer) = ask(&admin, Method::PATCH, &path, kind, body).await;
            assert!((400..500).contains(&code), "{kind} {depth}: {code} {answer:?}");
        }
    }
    all_can_read(&admin).await;
}

/// A CRD that preserves all unknown fields.
const OPEN: &str = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
    "metadata":{"name":"things.kit.example.com"},"spec":{"group":"kit.example.com","scope":"Namespaced",
    "names":{"plural":"things","kind":"Thing"},"versions":[{"name":"v1","served":true,"storage":true,
     "schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}"#;
const THINGS: &str = "/apis/kit.example.com/v1/namespaces/default/things";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn custom_objects_are_as_deep_as_all_can_read_them() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    of::<CustomResourceDefinition>(&admin).create(tree(OPEN)).await.expect("a definition");
    let thing = |depth: usize| {
        let spec = nested(r#"{"a":"#, "1", "}", depth);
        format!(
            r#"{{"apiVersion":"kit.example.com/v1","kind":"Thing","metadata":{{"name":"t{depth}"}},"spec":{spec}}}"#
        )
    };
    let mut tries = 0;
    while ask(&admin, Method::POST, THINGS, "application/json", thing(1)).await.0 == 404 {
        tries += 1;
        assert!(tries < 200, "the kind is not served");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    for depth in (MAX - 20..MAX + 30).chain(DEEP) {
        let apply = format!("{THINGS}/t{depth}?fieldManager=m");
        for (method, path, kind) in [
            (Method::POST, THINGS, "application/json"),
            (Method::POST, THINGS, "application/yaml"),
            (Method::PATCH, &apply, "application/apply-patch+yaml"),
        ] {
            let (code, answer) = ask(&admin, method, path, kind, thing(depth)).await;
            let right =
                if depth > MAX { code == 400 } else { matches!(code, 200 | 201 | 400 | 409) };
            assert!(right, "{kind} {depth}: {code} {answer:?}");
        }
        let (code, list) = ask(&admin, Method::GET, THINGS, "", String::new()).await;
        assert_eq!(code, 200, "{depth}: {list:?}");
    }
    let (_, list) = ask(&admin, Method::GET, THINGS, "", String::new()).await;
    assert!(list.get("items").items().len() > 10, "most of those that are not too deep");
}

/// A schema nests twice for each level of an object.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemas_do_not_nest_without_end() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for (open, close, levels) in [
        (r#"{"type":"object","properties":{"a":"#, "}}", 2),
        (r#"{"type":"array","items":"#, "}", 1),
        (r#"{"type":"object","additionalProperties":"#, "}", 1),
        (r#"{"type":"object","not":"#, "}", 1),
        (r#"{"type":"object","allOf":["#, "]}", 2),
    ] {
        for depth in [MAX / levels - 10, MAX / levels + 20, 2_000, 4_000] {
            let schema = nested(open, r#"{"type":"string"}"#, close, depth);
            let schema = format!(r#"{{"type":"object","properties":{{"spec":{schema}}}}}"#);
            let definition = OPEN.replace(
                r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true}"#,
                &schema,
            );
            let (code, answer) =
                ask(&admin, Method::POST, crds, "application/json", definition).await;
            let deep = depth > MAX / levels;
            let right = if deep { (400..500).contains(&code) } else { code < 500 };
            assert!(right, "{open} {depth}: {code} {:.300}", format!("{answer:?}"));
            let (code, _) = ask(&admin, Method::GET, crds, "", String::new()).await;
            assert_eq!(code, 200, "{open} {depth}");
            let gone = format!("{crds}/things.kit.example.com");
            ask(&admin, Method::DELETE, &gone, "", String::new()).await;
            for _ in 0..200 {
                if ask(&admin, Method::GET, &gone, "", String::new()).await.0 == 404 {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        }
    }
}

/// The path to the replicas is created where it does not exist.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paths_of_scales_lead_no_deeper_than_objects_nest() {
    let cluster = TestCluster::start().await;
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let path = format!(".spec{}", ".a".repeat(200_000));
    let scale = format!(
        r#""subresources":{{"scale":{{"specReplicasPath":"{path}","statusReplicasPath":".status.r"}}}},"schema""#
    );
    let definition = OPEN.replace("\"schema\"", &scale);
    let admin = cluster.admin_client();
    let (code, _) = ask(&admin, Method::POST, crds, "application/json", definition).await;
    assert_eq!(code, 422);
}
