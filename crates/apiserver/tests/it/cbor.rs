//! CBOR, with its feature gate enabled: requests and responses, watches, apply, and stored custom
//! resources.

use bytes::Bytes;
use client::Client;
use http::{HeaderMap, Method, header::ACCEPT, header::CONTENT_TYPE};
use object::{Value, from_json};
use testkit::TestCluster;

use crate::{config_map, flags::with, of};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CBOR: &str = "application/cbor";

/// The CBOR of
/// `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":NAME},"data":{"k":VALUE},"binaryData":{"b":h'010203'}}`,
/// with a byte string at the end.
fn map(name: &str, value: &str) -> Bytes {
    let text = |text: &str| {
        let size = u8::try_from(text.len()).expect("written in a test");
        [&[0x58, size][..], text.as_bytes()].concat()
    };
    let pairs = [("apiVersion", "v1"), ("kind", "ConfigMap")];
    let mut out = vec![0xd9, 0xd9, 0xf7, 0xa5];
    for (name, value) in pairs {
        out.extend([text(name), text(value)].concat());
    }
    out.extend([text("metadata"), vec![0xa1], text("name"), text(name)].concat());
    out.extend([text("data"), vec![0xa1], text("k"), text(value)].concat());
    out.extend([text("binaryData"), vec![0xa1], text("b"), vec![0xd6, 0x43, 1, 2, 3]].concat());
    out.into()
}

/// Sends a request; returns the code, the content type and the body of the response.
async fn ask(
    admin: &Client,
    method: Method,
    path: &str,
    (sent, accept): (&str, &str),
    body: Bytes,
) -> (u16, String, Bytes) {
    let mut headers = HeaderMap::new();
    if !sent.is_empty() {
        headers.insert(CONTENT_TYPE, sent.parse().expect("a header"));
    }
    headers.insert(ACCEPT, accept.parse().expect("a header"));
    let answer = admin.request(method, path, headers, body).await.expect("an answer");
    let form = answer.headers.get(CONTENT_TYPE).and_then(|form| form.to_str().ok());
    let (code, form) = (answer.status.as_u16(), form.unwrap_or_default().to_owned());
    (code, form, answer.bytes().await.expect("a body"))
}

async fn json(admin: &Client, path: &str) -> Value {
    let plain = ("", "application/json");
    let (_, _, body) = ask(admin, Method::GET, path, plain, Bytes::new()).await;
    from_json(&body).expect("JSON")
}

#[tokio::test]
async fn objects_are_taken_and_given() {
    let cluster =
        with(|flags| flags.feature_gates = vec!["CBORServingAndStorage=true".into()]).await;
    let admin = cluster.admin_client();
    let (code, form, made) = ask(&admin, Method::POST, MAPS, (CBOR, CBOR), map("a", "x")).await;
    assert_eq!((code, &*form), (201, CBOR));
    assert!(made.starts_with(&[0xd9, 0xd9, 0xf7]));
    let one = format!("{MAPS}/a");
    let read = json(&admin, &one).await;
    assert_eq!(read["data"]["k"].as_str(), Some("x"));
    assert_eq!(read["binaryData"]["b"].as_str(), Some("AQID"));
    let (code, form, list) = ask(&admin, Method::GET, MAPS, ("", CBOR), Bytes::new()).await;
    assert_eq!((code, &*form), (200, CBOR));
    assert!(list.windows(5).any(|part| part == [0xd6, 0x43, 1, 2, 3]), "bytes are bytes");
    let watch = format!("{MAPS}?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Da");
    let (_, form, events) = ask(&admin, Method::GET, &watch, ("", CBOR), Bytes::new()).await;
    assert_eq!(form, "application/cbor-seq");
    assert!(events.starts_with(&[0xd9, 0xd9, 0xf7, 0xa2]));
    let apply = ("application/apply-patch+cbor", CBOR);
    let path = format!("{one}?fieldManager=m&force=true");
    let (code, ..) = ask(&admin, Method::PATCH, &path, apply, map("a", "y")).await;
    assert_eq!(code, 200);
    assert_eq!(json(&admin, &one).await["data"]["k"].as_str(), Some("y"));
}

#[tokio::test]
async fn nobody_speaks_it_unless_asked_to() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    of::<api::core::ConfigMap>(&admin).create(config_map("a")).await.expect("it is new");
    let sent = (CBOR, "application/json");
    assert_eq!(ask(&admin, Method::POST, MAPS, sent, map("b", "x")).await.0, 415);
    assert_eq!(ask(&admin, Method::GET, MAPS, ("", CBOR), Bytes::new()).await.0, 406);
}
