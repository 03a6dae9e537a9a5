//! Tests of pagination, deletecollection by pages, and the bookmark that ends a watch's initial
//! events.

use std::time::Duration;

use bytes::Bytes;
use client::Client;
use http::{HeaderMap, HeaderValue, Method, header};
use object::{Value, from_json};
use testkit::TestCluster;
use tokio::time::timeout;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PATIENCE: Duration = Duration::from_mins(2);

async fn ask(admin: &Client, method: Method, path: &str, body: &str) -> Value {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let body = Bytes::copy_from_slice(body.as_bytes());
    let answer = admin.request(method, path, headers, body).await.expect("an answer");
    from_json(&answer.bytes().await.expect("whole")).expect("JSON")
}

/// Creates a and c with one label, b and d with another.
async fn make_four(admin: &Client) {
    for (name, sort) in [("a", "x"), ("b", "y"), ("c", "x"), ("d", "y")] {
        let body = format!(r#"{{"metadata":{{"name":"{name}","labels":{{"sort":"{sort}"}}}}}}"#);
        let made = ask(admin, Method::POST, MAPS, &body).await;
        assert_eq!(made.get("metadata").get("name").as_str(), Some(name), "{made:?}");
    }
}

fn names(list: &Value) -> Vec<&str> {
    let items = list.get("items").items().iter();
    items.filter_map(|item| item.get("metadata").get("name").as_str()).collect()
}

fn token(list: &Value) -> &str {
    list.get("metadata").get("continue").as_str().unwrap_or_default()
}

#[tokio::test]
async fn a_page_follows_where_keys_do() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    make_four(&admin).await;
    let all = format!("{MAPS}?labelSelector=sort%3Dx&limit=2");
    let first = ask(&admin, Method::GET, &all, "").await;
    assert_eq!(names(&first), ["a", "c"]);
    assert_ne!(token(&first), "", "d follows, though it is not selected");
    let rest = format!("{all}&continue={}", token(&first));
    let rest = ask(&admin, Method::GET, &rest, "").await;
    assert_eq!((names(&rest).len(), token(&rest)), (0, ""));
    let last =
        ask(&admin, Method::GET, &format!("{MAPS}?labelSelector=sort%3Dy&limit=2"), "").await;
    assert_eq!((names(&last), token(&last)), (vec!["b", "d"], ""), "nothing follows");
}

#[tokio::test]
async fn a_page_is_deleted_and_no_more() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    make_four(&admin).await;
    let gone = ask(&admin, Method::DELETE, &format!("{MAPS}?limit=1"), "").await;
    assert_eq!(names(&gone), ["a"]);
    let more = format!("{MAPS}?limit=2&continue={}", token(&gone));
    assert_eq!(names(&ask(&admin, Method::DELETE, &more, "").await), ["b", "c"]);
    let wrong = ask(&admin, Method::DELETE, &format!("{MAPS}?uid=x"), "").await;
    assert_eq!(wrong.get("code").as_i64(), Some(409), "{wrong:?}");
    let left = ask(&admin, Method::DELETE, &format!("{MAPS}?uid=&resourceVersion="), "").await;
    assert_eq!(names(&left), ["d"], "what is empty asks for nothing");
    assert!(names(&ask(&admin, Method::GET, MAPS, "").await).is_empty());
}

#[tokio::test]
async fn a_watch_says_where_the_beginning_ends() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let pods = "/api/v1/namespaces/default/pods";
    let path = format!("{pods}?watch=true&timeoutSeconds=1&allowWatchBookmarks=true");
    for (accept, kind) in [
        ("application/json", "Pod"),
        ("application/json;as=Table;g=meta.k8s.io;v=v1", "Table"),
        ("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", "PartialObjectMetadata"),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        let answer = admin.request(Method::GET, &path, headers, Bytes::new()).await;
        let told = timeout(PATIENCE, answer.expect("a watch").bytes()).await.expect("an end");
        let told = told.expect("whole");
        let first = told.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let event = from_json(first).expect("an event");
        assert_eq!(event.get("type").as_str(), Some("BOOKMARK"), "{event:?}");
        let object = event.get("object");
        assert_eq!(object.get("kind").as_str(), Some(kind));
        let told_of = match kind {
            "Table" => object.get("rows").items()[0].get("object"),
            _ => object,
        };
        let notes = told_of.get("metadata").get("annotations");
        assert_eq!(notes.get("k8s.io/initial-events-end").as_str(), Some("true"), "{event:?}");
        assert!(object.get("spec").get("dnsPolicy").is_null(), "a bookmark has no defaults");
    }
}
