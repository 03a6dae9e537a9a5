//! What an anonymous user can reach: exactly what the role system:public-info-viewer allows.

use std::collections::BTreeSet;

use bytes::Bytes;
use client::{Auth, Client};
use http::{HeaderMap, Method};
use object::{Value, from_json};
use testkit::TestCluster;

/// Paths that are served but not listed by `/` or OpenAPI, here or by upstream's components.
const UNLISTED: [&str; 30] = [
    "/healthz/",
    "/healthz/ping",
    "/livez/etcd",
    "/readyz/poststarthook/rbac/bootstrap-roles",
    "/version/x",
    "/metrics/",
    "/metrics/cadvisor",
    "/metrics/slis",
    "/debug/pprof/",
    "/debug/pprof/heap",
    "/debug/pprof/profile",
    "/debug/flags/v",
    "/debug/api_priority_and_fairness/dump_requests",
    "/configz",
    "/flagz",
    "/statusz",
    "/logs/",
    "/logs/kube-apiserver.log",
    "/swagger.json",
    "/swaggerapi",
    "/ui",
    "/index.html",
    "/api/",
    "/api/v1/proxy/nodes/n",
    "/api/v1/watch/pods",
    "/apis/apps/v1/watch/deployments",
    "/.well-known/openid-configuration",
    "/openid/v1/jwks",
    "/tiphys/why",
    "/etcdserverpb.KV/Range",
];

#[tokio::test]
async fn anonymous_reads_only_what_the_role_names() {
    let cluster = TestCluster::start().await;
    let (admin, nobody) = (cluster.admin_client(), cluster.client_with_auth(Auth::None));
    let public = public_paths(&admin).await;
    assert_eq!(public, ["/healthz", "/livez", "/readyz", "/version", "/version/"]);
    let mut paths = discovered_paths(&admin).await;
    paths.extend(UNLISTED.map(str::to_owned));
    assert!(paths.len() > 500, "only {} paths", paths.len());
    let methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    for path in &paths {
        for method in methods {
            let code = code(&nobody, method, path).await;
            if method == "GET" && public.contains(path) {
                assert_eq!(code, 200, "{method} {path}");
            } else {
                assert!(matches!(code, 401 | 403), "{method} {path}: {code}");
            }
        }
    }
}

async fn public_paths(admin: &Client) -> Vec<String> {
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:public-info-viewer";
    let role = get(admin, role).await;
    let [rule] = role["rules"].items() else { panic!("one rule: {role:?}") };
    assert_eq!(rule["verbs"], ["get"].into_iter().collect::<Value>());
    let urls = rule["nonResourceURLs"].items().iter();
    urls.map(|url| url.as_str().expect("a text").to_owned()).collect()
}

/// The paths that `/` and OpenAPI list, with names in place of parameters.
async fn discovered_paths(admin: &Client) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for path in get(admin, "/").await["paths"].items() {
        paths.insert(path.as_str().expect("a text").to_owned());
    }
    for (_, document) in get(admin, "/openapi/v3").await["paths"].entries() {
        let document = document["serverRelativeURL"].as_str().expect("an address");
        for (path, _) in get(admin, document).await["paths"].entries() {
            let parts = path.split('/').map(|part| if part.starts_with('{') { "x" } else { part });
            paths.insert(parts.collect::<Vec<_>>().join("/"));
        }
    }
    paths
}

async fn get(client: &Client, path: &str) -> Value {
    let answer = client.request(Method::GET, path, HeaderMap::new(), Bytes::new()).await;
    let body = answer.expect("an answer").error_for_status().await.expect("a page").bytes().await;
    from_json(&body.expect("a body")).expect("JSON")
}

async fn code(client: &Client, method: &str, path: &str) -> u16 {
    let method = method.parse().expect("a method");
    let answer = client.request(method, path, HeaderMap::new(), Bytes::new()).await;
    answer.unwrap_or_else(|why| panic!("{path}: {why}")).status.as_u16()
}
