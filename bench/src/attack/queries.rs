//! Reads and deletions: queries, selectors, media types, headers, and paths that do not name an object.

use serde_json::json;

use super::{
    generate::{Target, target},
    kinds::Kind,
    request::{Caller, Request, Sequence},
    values,
};
use crate::random::Random;

const ACCEPT: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/cbor",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
    "text/html, */*;q=0.1",
    "*/*;q=-1",
    "a",
    "",
    "application/json;as=;v=;g=",
    "application/json;as=\"Ta\\\"ble\";v=v1",
    "é/é",
];

const QUERIES: &[&str] = &[
    "labelSelector=a",
    "labelSelector=a%20in%20(b,c),!d,e%3E5",
    "labelSelector=%00",
    "labelSelector=a%3D%C3%A9",
    "labelSelector=a%20in%20(",
    "labelSelector=a%3E99999999999999999999",
    "fieldSelector=metadata.name%3Dfz-0",
    "fieldSelector=metadata.name%3Da%22b",
    "fieldSelector=spec.nodeName%3Dn1,status.phase!%3DRunning",
    "fieldSelector=a%5C,b%3D%5C",
    "fieldSelector=spec.text%3Da",
    "limit=1",
    "limit=-1",
    "limit=9223372036854775807",
    "limit=99999999999999999999",
    "limit=1&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYVx1MDAwMCJ9",
    "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6OTIyMzM3MjAzNjg1NDc3NTgwNywic3RhcnQiOiIuLi8uLiJ9",
    "continue=%FF",
    "resourceVersion=0",
    "resourceVersion=1",
    "resourceVersion=18446744073709551615",
    "resourceVersion=9223372036854775807&resourceVersionMatch=Exact",
    "resourceVersion=1&resourceVersionMatch=NotOlderThan",
    "resourceVersionMatch=x",
    "watch=1",
    "watch=1&resourceVersion=1",
    "watch=1&resourceVersion=18446744073709551615",
    "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
    "watch=1&timeoutSeconds=-9223372036854775808",
    "watch=1&timeoutSeconds=9223372036854775807",
    "watch=1&fieldSelector=metadata.name%3Dfz-1",
    "watch=1&labelSelector=a%20notin%20(b)",
    "timeout=9223372036854775807s",
    "timeout=-1s",
    "timeout=1ns",
    "timeoutSeconds=99999999999999999999",
    "pretty=true",
    "dryRun=All",
    "dryRun=x",
    "fieldValidation=Strict",
    "fieldValidation=Ignore",
    "fieldValidation=x",
    "fieldManager=%22",
    "includeObject=Object",
    "includeObject=None",
    "ignoreStoreReadErrorWithClusterBreakingPotential=true",
    "gracePeriodSeconds=-9223372036854775808",
    "gracePeriodSeconds=9223372036854775807",
    "gracePeriodSeconds=0",
    "propagationPolicy=Orphan",
    "propagationPolicy=Foreground",
    "orphanDependents=true&propagationPolicy=Background",
    "container=c&follow=false&tailLines=9223372036854775807",
    "sinceSeconds=9223372036854775807",
    "sinceSeconds=-1",
    "sinceTime=9999-12-31T23:59:59Z",
    "sinceTime=0001-01-01T00:00:00Z&limitBytes=-1",
    "tailLines=-1&previous=true&timestamps=true&stream=Stderr",
    "limitBytes=9223372036854775807",
    "command=a&command=%00&stdin=1&stdout=1&stderr=1&tty=1",
    "ports=0&ports=65536&ports=-1",
    "path=/../..",
    "%zz",
    "a;b=c&&=&+=+",
    "verbose&exclude=ping",
    "hash=x",
];

/// Paths that are not collections of a kind.
const PLACES: &[&str] = &[
    "/",
    "/api",
    "/api/",
    "/api/v1",
    "/apis",
    "/apis/apps",
    "/apis/apps/v1",
    "/apis/fz-0.example.com/v1",
    "/apis/a%22b/v1",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/apis/apps/v1",
    "/openapi/v3/apis/fz-0.example.com/v1",
    "/openapi/v3/../..",
    "/version",
    "/healthz",
    "/healthz/etcd",
    "/livez?verbose",
    "/readyz?verbose&exclude=x",
    "/metrics",
    "/metrics/slis",
    "/metrics/x",
    "/logs",
    "/logs/../../etc/passwd",
    "/debug/pprof",
    "/debug/pprof/profile?seconds=1",
    "/debug/pprof/profile?seconds=99999999999999999999",
    "/debug/flags/v",
    "/debug/api_priority_and_fairness/dump_requests",
    "/debug/api_priority_and_fairness/dump_queues?includeRequestDetails=1",
    "/debug/api_priority_and_fairness/dump_priority_levels",
    "/flagz",
    "/statusz",
    "/tiphys/why",
    "/tiphys/why?kind=a%22b&name=%00",
    "/.well-known/openid-configuration",
    "/openid/v1/jwks",
    "/api/v1/watch/pods",
    "/api/v1/watch/namespaces/a/pods/x",
    "/api/v1/namespaces/a",
    "/api/v1/namespaces/%2e%2e/pods",
    "/api/v1/namespaces/a%2fb/pods/c",
    "/api/v1/namespaces/a/pods/..",
    "/api/v1/namespaces/a/pods/%C3%A9",
    "/api/v1/namespaces/a/pods/%FF",
    "/api/v1/namespaces//pods",
    "/api/v1/componentstatuses",
    "/api/v1/proxy/namespaces/a/services/x",
    "/apis/metrics.k8s.io/v1beta1/nodes",
    "//api//v1//pods",
    "/api/v1/pods/a/b/c/d/e",
];

const HEADERS: &[(&str, &str)] = &[
    ("impersonate-user", "bob"),
    ("impersonate-user", "é"),
    ("impersonate-user", "system:serviceaccount:a:b:c"),
    ("impersonate-group", "system:masters"),
    ("impersonate-uid", "u"),
    ("impersonate-extra-a%2fb", "c"),
    ("impersonate-extra-%zz", "c"),
    ("impersonate-extra-É", "é"),
    ("authorization", "Bearer eyJhbGciOiJFUzI1NiJ9.e30.AA"),
    ("authorization", "Bearer ⟦"),
    ("authorization", "Basic é"),
    ("x-remote-user", "é"),
    ("accept-encoding", "gzip"),
    ("accept-encoding", "gzip;q=0, identity;q=x"),
    ("content-encoding", "gzip"),
    ("expect", "100-continue"),
    ("if-none-match", "\"x\""),
    ("range", "bytes=0-0,1-99999999999999999999"),
    ("traceparent", "00-ffffffffffffffffffffffffffffffff-ffffffffffffffff-ff"),
    ("audit-id", "a\u{1}b"),
    ("x-forwarded-for", "é, [::1]:99999"),
    ("origin", "https://é"),
    ("user-agent", "é\"'"),
    ("transfer-encoding", "x"),
    ("x-stream-protocol-version", "v99.channel.k8s.io"),
];

/// A sequence of requests that write nothing.
pub(crate) fn sequence(kinds: &[Kind], random: &mut Random) -> Sequence {
    let mut requests = Vec::new();
    for _ in 0..=random.below(4) {
        let mut request = if random.one_in(2) {
            let users = [Caller::Admin, Caller::Tenant, Caller::Anonymous, Caller::Node];
            let methods = [
                "GET", "GET", "GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE",
                "X",
            ];
            let method = methods[random.below(methods.len())];
            Request::new(users[random.below(4)], method, random.of(PLACES))
        } else {
            let target = target(&kinds[random.below(kinds.len())], random);
            if random.one_in(5) { delete(&target, random) } else { read(&target, random) }
        };
        decorate(&mut request, random);
        requests.push(request);
    }
    Sequence { requests, at_once: random.one_in(10) }
}

/// A request that gets, lists or watches the target of a sequence.
pub(crate) fn read(target: &Target<'_>, random: &mut Random) -> Request {
    let path = if random.one_in(2) { target.path() } else { target.collection() };
    let mut request = Request::new(target.caller(random), "GET", path);
    if random.one_in(2) {
        request = request.header("accept", random.of(ACCEPT));
    }
    if random.one_in(2) {
        add_query(&mut request, random.of(QUERIES));
    }
    request
}

/// A request that deletes the target, or a collection with a selector: never a whole collection, which would include
/// the cluster's own objects.
pub(crate) fn delete(target: &Target<'_>, random: &mut Random) -> Request {
    let caller = target.caller(random);
    let mut request = match random.one_in(4) {
        true => Request::new(caller, "DELETE", target.collection() + "?labelSelector=a%3Db"),
        false => Request::new(caller, "DELETE", target.path()),
    };
    if random.one_in(2) {
        let path = target.path();
        let policies = ["Orphan", "Foreground", "Background", "x", ""];
        let options = json!({
            "kind": "DeleteOptions", "apiVersion": "v1",
            "gracePeriodSeconds": values::number(random),
            "propagationPolicy": policies[random.below(policies.len())],
            "preconditions": {"uid": format!("⟦uid {path}⟧"), "resourceVersion": format!("⟦version {path}⟧")},
        });
        let mut options = options;
        for name in ["gracePeriodSeconds", "propagationPolicy", "preconditions"] {
            if let (true, Some(map)) = (random.one_in(2), options.as_object_mut()) {
                map.remove(name);
            }
        }
        request = request.json(options.to_string());
    }
    request
}

/// Adds a query or a header to some requests.
pub(crate) fn decorate(request: &mut Request, random: &mut Random) {
    if random.one_in(12) {
        let query = random.of(QUERIES);
        // a real write is more interesting than a dry run
        if !query.starts_with("dryRun") || random.one_in(4) {
            add_query(request, query);
        }
    }
    if random.one_in(16) {
        let (name, value) = HEADERS[random.below(HEADERS.len())];
        request.headers.push((name.to_owned(), value.to_owned()));
    }
    if random.one_in(16) {
        request.headers.push(("accept".to_owned(), random.of(ACCEPT).to_owned()));
    }
}

fn add_query(request: &mut Request, query: &str) {
    request.path.push(if request.path.contains('?') { '&' } else { '?' });
    request.path.push_str(query);
}
