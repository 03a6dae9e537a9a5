//! Stored objects that cannot be decoded: reads report an error and never an older version, and
//! they can be deleted with `ignoreStoreReadErrorWithClusterBreakingPotential`.

use std::sync::Arc;

use api::core::ConfigMap;
use bytes::Bytes;
use client::Client;
use http::{HeaderMap, Method};
use object::{NamespacedName, SystemClock, Value, from_json};
use store::{Engine as _, EtcdConfig, EtcdEngine, Write};
use tempfile::TempDir;

use crate::{
    config_map, of,
    peers::{Etcd, admin, start},
    revision, tree,
};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const UNREAD: &str = "ignoreStoreReadErrorWithClusterBreakingPotential=true";

async fn ask(client: &Client, method: Method, path: &str, body: Option<Value>) -> Value {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", "application/json".parse().unwrap());
    let body = body.map_or_else(Bytes::new, |body| object::to_json(&body).into());
    let answer = client.request(method, path, headers, body).await.unwrap();
    from_json(&answer.bytes().await.unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_told_and_can_be_deleted() {
    let (folder, etcd) = (TempDir::new().unwrap(), Etcd::start());
    let first = start(&folder.path().join("one"), &etcd.url, [192, 0, 2, 10], 7551).await;
    let made = of::<ConfigMap>(&admin(&first)).create(config_map("bad")).await.unwrap();
    of::<ConfigMap>(&admin(&first)).create(config_map("good")).await.unwrap();
    let other = other_writer(&etcd).await;
    let (key, junk) = ("/registry/configmaps/default/bad", Bytes::from_static(b"k8s\0junk"));
    let written = Write::put(key, revision(&made), junk.clone(), junk);
    let revision = other.write(written).await.unwrap();

    let second = start(&folder.path().join("two"), &etcd.url, [192, 0, 2, 11], 7552).await;
    for running in [&first, &second] {
        let admin = admin(running);
        let ask = async |method, path: &str, body| ask(&admin, method, path, body).await;
        let bad = format!("{MAPS}/bad");
        let why = format!("object not decodable revision={revision}: ");
        let corrupt = |key: &str| {
            format!(
                "StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, \
                 AdditionalErrorMsg: {why}"
            )
        };
        let begins = |answer: &Value, code: i64, reason: &str, message: &str| {
            let said = answer.get("message").as_str().unwrap_or_default();
            assert_eq!(answer.get("code").as_i64(), Some(code), "{answer:?}");
            assert_eq!(answer.get("reason").as_str().unwrap_or_default(), reason, "{answer:?}");
            assert!(said.starts_with(message), "{said:?} does not begin with {message:?}");
        };
        let internal = format!("Internal error occurred: {}", corrupt("/configmaps/default/bad"));
        begins(&ask(Method::GET, &bad, None).await, 500, "InternalError", &internal);
        begins(&ask(Method::DELETE, &bad, None).await, 500, "InternalError", &internal);
        let put = Some(tree(r#"{"metadata":{"name":"bad"},"data":{"k":"w"}}"#));
        begins(&ask(Method::PUT, &bad, put.clone()).await, 500, "", &why);
        begins(&ask(Method::POST, MAPS, put).await, 409, "AlreadyExists", "configmaps \"bad\"");
        let list = ask(Method::GET, MAPS, None).await;
        let some = "failed to read one or more configmaps from the storage: ";
        begins(&list, 500, "StorageReadError", &format!("{some}{}", corrupt(key)));
        let cause = &list.get("details").get("causes").items()[0];
        assert_eq!(cause.get("field").as_str(), Some(key));
        let good = of::<ConfigMap>(&admin).get(&NamespacedName::new("default", "good")).await;
        assert!(good.is_ok(), "others can be read");
        let good = ask(Method::DELETE, &format!("{MAPS}/good?{UNREAD}"), None).await;
        let readable = "Operation cannot be fulfilled on configmaps \"good\"";
        begins(&good, 409, "Conflict", readable);
        let dry = ask(Method::DELETE, &format!("{bad}?{UNREAD}&dryRun=All"), None).await;
        assert_eq!(dry.get("status").as_str(), Some("Success"), "{dry:?}");
        let wish = ask(Method::DELETE, &format!("{bad}?{UNREAD}&gracePeriodSeconds=0"), None).await;
        assert_eq!(wish.get("code").as_i64(), Some(422), "{wish:?}");
    }
    let one = admin(&first);
    let gone = ask(&one, Method::DELETE, &format!("{MAPS}/bad?{UNREAD}"), None).await;
    assert_eq!(gone.get("details").get("kind").as_str(), Some("ConfigMap"), "{gone:?}");
    for running in [&first, &second] {
        let admin = admin(running);
        let gone = ask(&admin, Method::GET, &format!("{MAPS}/bad"), None).await;
        assert_eq!(gone.get("code").as_i64(), Some(404), "{gone:?}");
        let list = ask(&admin, Method::GET, MAPS, None).await;
        assert!(list.get("items").items().iter().any(|map| crate::name(map) == "good"), "{list:?}");
    }
}

/// Another writer to the same etcd.
async fn other_writer(etcd: &Etcd) -> EtcdEngine<Bytes> {
    let remote = EtcdConfig { endpoints: vec![etcd.url.clone()], ..EtcdConfig::default() };
    let connect = move || EtcdEngine::<Bytes>::connect(&remote, Arc::new(SystemClock));
    tokio::task::spawn_blocking(connect).await.unwrap().unwrap()
}

/// A stored object with an unknown version or another kind is not decoded as the expected one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_version_is_not_guessed_at() {
    let (folder, etcd) = (TempDir::new().unwrap(), Etcd::start());
    let other = other_writer(&etcd).await;
    let (nine, beta) =
        ("no kind \"ConfigMap\" is registered for version \"v9\" in scheme ", "apps/v1beta9");
    let beta = format!("no kind \"Deployment\" is registered for version \"{beta}\" in scheme ");
    let stored = [
        ("configmaps", "nine", r#""apiVersion":"v9","kind":"ConfigMap","#, nine),
        ("configmaps", "kind", r#""apiVersion":"v1","kind":"Pod","#, "a Pod is stored"),
        ("configmaps", "one", r#""apiVersion":"v1","kind":"ConfigMap","#, ""),
        ("configmaps", "none", r#""apiVersion":"v1","#, ""),
        ("deployments", "beta", r#""apiVersion":"apps/v1beta9","kind":"Deployment","#, &beta),
        ("deployments", "old", r#""apiVersion":"extensions/v1beta1","kind":"Deployment","#, ""),
        ("deployments", "older", r#""apiVersion":"apps/v1beta1","kind":"Deployment","#, ""),
    ];
    for (kind, name, head, _) in stored {
        let text = format!(r#"{{{head}"metadata":{{"name":"{name}","namespace":"default"}}}}"#);
        let (key, bytes) = (format!("/registry/{kind}/default/{name}"), Bytes::from(text));
        other.write(Write::put(key, 0, bytes.clone(), bytes)).await.unwrap();
    }
    let running = start(&folder.path().join("one"), &etcd.url, [192, 0, 2, 10], 7553).await;
    for (kind, name, _, why) in stored {
        let group = if kind == "configmaps" { "/api/v1" } else { "/apis/apps/v1" };
        let path = format!("{group}/namespaces/default/{kind}/{name}");
        let answer = ask(&admin(&running), Method::GET, &path, None).await;
        let said = answer.get("message").as_str().unwrap_or_default();
        let code = answer.get("code").as_i64();
        assert_eq!(code, (!why.is_empty()).then_some(500), "{name}: {answer:?}");
        assert!(said.contains(why), "{name}: {said}");
    }
}
