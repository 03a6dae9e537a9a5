//! Impersonation and front-proxy headers: a header that cannot be decoded is rejected, and never
//! counts as absent.

use std::{fs, sync::Arc};

use bytes::Bytes;
use client::Client;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use object::{SystemClock, from_json};
use pki::{CertificateAuthority, CertificateSpec};
use testkit::TestCluster;

use crate::rotation::Served;

type Headers<'a> = &'a [(&'a str, &'a [u8])];

const USER: &str = "impersonate-user";
/// Bytes that are not UTF-8.
const BROKEN: &[u8] = b"r\xff\xfet";

/// The user that the server authenticates, or the code with which it rejects the request.
async fn who(client: &Client, headers: Headers<'_>) -> Result<String, u16> {
    let mut head = HeaderMap::new();
    head.insert("content-type", HeaderValue::from_static("application/json"));
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        head.append(name, HeaderValue::from_bytes(value).unwrap());
    }
    let body = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let answer = client.request(Method::POST, path, head, Bytes::from(body)).await.unwrap();
    let code = answer.status.as_u16();
    if code != 201 {
        return Err(code);
    }
    let review = from_json(&answer.bytes().await.unwrap()).unwrap();
    let user = &review["status"]["userInfo"];
    let text = |name: &str| user.get(name).as_str().unwrap_or_default().to_owned();
    let groups = user.get("groups").items().iter().filter_map(|group| group.as_str());
    let groups: Vec<&str> = groups.filter(|group| !group.starts_with("system:")).collect();
    Ok(format!("{} {}", text("username"), groups.join(",")).trim().to_owned())
}

#[tokio::test]
async fn nobody_stays_himself_since_the_other_cannot_be_read() {
    let cluster = TestCluster::start().await;
    let admin = cluster.admin_client();
    let is = |name: &str| Ok(name.to_owned());
    let cases: &[(Headers, Result<String, u16>)] = &[
        (&[(USER, "Jürgen".as_bytes())], is("Jürgen")),
        (&[(USER, b"ann"), ("impersonate-group", "Köche".as_bytes())], is("ann Köche")),
        (&[(USER, b"ann"), ("impersonate-extra-a%2fb", "ü".as_bytes())], is("ann")),
        (&[(USER, BROKEN)], Err(400)),
        (&[(USER, b"")], Err(400)),
        (&[(USER, b""), (USER, b"ann")], Err(400)),
        (&[(USER, b"ann"), (USER, b"bob")], Err(400)),
        (&[(USER, b"ann"), ("impersonate-group", BROKEN)], Err(400)),
        (&[(USER, b"ann"), ("impersonate-uid", BROKEN)], Err(400)),
        (&[(USER, b"ann"), ("impersonate-uid", b"1"), ("impersonate-uid", b"2")], Err(400)),
        (&[(USER, b"ann"), ("impersonate-extra-a", BROKEN)], Err(400)),
        (&[(USER, b"ann"), ("impersonate-extra-%ff", b"a")], Err(400)),
        (&[("impersonate-group", BROKEN)], Err(400)),
        (&[("impersonate-group", b"g")], Err(400)),
        (&[("impersonate-extra-a", b"g")], Err(400)),
    ];
    for (headers, expected) in cases {
        assert_eq!(who(&admin, headers).await, *expected, "{headers:?}");
    }
}

#[tokio::test]
async fn a_proxy_in_front_is_never_taken_for_its_user() {
    let now = object::Clock::now(&SystemClock);
    let authority = CertificateAuthority::create("both", now).unwrap();
    // The same CA signs clients and proxies, so a proxy is also a user by itself.
    let served = Served::start(Arc::new(SystemClock), |flags, folder| {
        let file = folder.join("both.pem");
        fs::write(&file, authority.certificate_pem()).unwrap();
        flags.client_ca_file = Some(file.clone());
        flags.requestheader_client_ca_file = Some(file);
        flags.requestheader_allowed_names = vec!["proxy".to_owned()];
    })
    .await;
    let proxy =
        authority.issue(&CertificateSpec::client("proxy", &["system:masters"]), now).unwrap();
    let proxy = served.client(&proxy, &[]);
    let is = |name: &str| Ok(name.to_owned());
    let (user, group, extra) = ("x-remote-user", "x-remote-group", "x-remote-extra-a");
    let cases: &[(Headers, Result<String, u16>)] = &[
        (&[], is("proxy")),
        (&[(user, b"ann")], is("ann")),
        (&[(user, "Jürgen".as_bytes()), (group, "Köche".as_bytes())], is("Jürgen Köche")),
        (&[(user, b"ann"), (group, b""), (group, b"g")], is("ann g")),
        (&[(user, BROKEN)], Err(401)),
        (&[(user, b"")], Err(401)),
        (&[(user, b"ann"), (user, b"bob")], Err(401)),
        (&[(user, b"ann"), (group, BROKEN)], Err(401)),
        (&[(user, b"ann"), (extra, BROKEN)], Err(401)),
        (&[(user, b"ann"), ("x-remote-extra-%ff", b"a")], Err(401)),
        (&[(user, b"ann"), ("x-remote-uid", BROKEN)], Err(401)),
        (&[(group, b"g")], Err(401)),
    ];
    for (headers, expected) in cases {
        assert_eq!(who(&proxy, headers).await, *expected, "{headers:?}");
    }
    // The headers of other clients are ignored: they are not proxies.
    let bob =
        served.client(&authority.issue(&CertificateSpec::client("bob", &[]), now).unwrap(), &[]);
    assert_eq!(who(&bob, &[(user, b"ann")]).await, is("bob"));
    assert_eq!(who(&bob, &[(user, BROKEN)]).await, is("bob"));
}
