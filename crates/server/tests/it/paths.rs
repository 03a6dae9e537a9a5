//! Tests of non-resource paths: methods and media types.

use testkit::TestCluster;

use crate::raw::send;

const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList;v=";
const NO_PAGE: &str = "404 page not found\n";
const NO_METHOD: &str = "the server does not allow this method on the requested resource";

async fn ask(
    cluster: &TestCluster,
    method: &str,
    path: &str,
    accept: &str,
) -> (u16, String, String) {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\naccept: {accept}\r\n\r\n"
    );
    let answer = send(cluster, request.as_bytes()).await;
    let form = answer.all("content-type").next().unwrap_or_default().to_owned();
    (answer.code, form, answer.message())
}

#[tokio::test]
async fn each_path_has_its_methods() {
    let cluster = TestCluster::start().await;
    for (method, path, code, said) in [
        ("GET", "/api", 200, ""),
        ("POST", "/api", 405, NO_METHOD),
        ("GET", "/apis/apps/v1", 200, ""),
        ("DELETE", "/apis/apps/v1", 405, NO_METHOD),
        ("POST", "/apis", 200, ""),
        ("GET", "/index.html", 200, ""),
        ("GET", "/healthz/", 404, NO_PAGE),
        ("GET", "/statusz/", 404, NO_PAGE),
        ("GET", "/flagz/x", 404, NO_PAGE),
        ("GET", "/.well-known/nosuch", 404, NO_PAGE),
        ("POST", "/openid/v1/jwks", 405, NO_METHOD),
        ("GET", "/openid/v1/jwks/x", 404, "the server could not find the requested resource"),
        ("GET", "/version//", 200, ""),
        ("GET", "/version/x", 404, "the server could not find the requested resource"),
        ("get", "/version", 405, NO_METHOD),
        ("TRACE", "/api/v1/namespaces/default/services/x/proxy", 405, NO_METHOD),
        ("DELETE", "/api/v1/watch/namespaces/default/configmaps", 405, NO_METHOD),
        ("POST", "/api/v1/watch/namespaces/default/configmaps", 405, NO_METHOD),
    ] {
        let (own, _, message) = ask(&cluster, method, path, "*/*").await;
        assert_eq!((own, &*message), (code, said), "{method} {path}");
    }
    let (code, _, said) = ask(&cluster, "GET", "/api/v1/proxy", "*/*").await;
    assert!(code == 500 && said.contains("failed to create RequestInfo"), "{said}");
}

#[tokio::test]
async fn each_path_has_its_forms() {
    let cluster = TestCluster::start().await;
    let (new, old) = (format!("{DISCOVERY}v2"), format!("{DISCOVERY}v2beta1"));
    let either = format!("{old},application/json");
    let json = "application/json";
    for (path, accept, code, form) in [
        ("/api", "application/yaml", 200, "application/yaml"),
        ("/apis/apps", "text/html, application/yaml", 200, "application/yaml"),
        ("/apis", "application/*", 200, json),
        ("/api", "application/*", 406, json),
        ("/apis/apps/v1", "text/html", 406, json),
        ("/apis", &old, 406, json),
        ("/apis", &either, 200, json),
        ("/version", "application/yaml", 406, "application/yaml"),
        ("/openid/v1/jwks", json, 406, json),
        ("/openid/v1/jwks", "*/*", 200, "application/jwk-set+json"),
        ("/.well-known/openid-configuration", "text/html", 406, json),
        ("/openapi/v3", "*/*", 200, "text/plain; charset=utf-8"),
    ] {
        let (own, found, _) = ask(&cluster, "GET", path, accept).await;
        assert_eq!((own, &*found), (code, form), "{path} as {accept}");
    }
    let (_, found, _) = ask(&cluster, "GET", "/apis", &new).await;
    assert_eq!(found, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
}

#[tokio::test]
async fn a_review_is_no_row_of_a_table() {
    let cluster = TestCluster::start().await;
    let body = r#"{"spec":{"nonResourceAttributes":{"path":"/","verb":"get"}}}"#;
    for (accept, code) in [("application/json;as=Table;v=v1;g=meta.k8s.io", 406), ("*/*", 201)] {
        let request = format!(
            "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews HTTP/1.1\r\nhost: localhost\r\n\
             connection: close\r\ncontent-type: application/json\r\naccept: {accept}\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        assert_eq!(send(&cluster, request.as_bytes()).await.code, code, "{accept}");
    }
}
