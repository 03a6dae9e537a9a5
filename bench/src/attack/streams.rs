//! Attacks on subresources: proxies to a hostile backend, logs, exec, attach, port-forward; tokens, evictions,
//! bindings and scales.

use object::{Lens as _, StructSchema};
use schema::Subresource;
use serde_json::{Value, json};

use super::{
    damage,
    generate::{Target, encoded},
    request::{Body, Caller, Request, Sequence},
};
use crate::random::Random;

/// Pages that are requested from the hostile backend; see [`super::hostile`].
const PAGES: &[&str] = &[
    "html",
    "html?x=%C2%A0",
    "bomb",
    "deflate",
    "slow",
    "garbage",
    "deep",
    "echo",
    "long",
    "redirect",
    "headers",
    "cut",
    "chunked",
    "status/999",
    "status/101",
    "status/204",
    "status/000",
    "say/e30",
    "../../..",
    "%2e%2e/",
    "//",
    "?a=%zz",
    "é",
    "html/%00",
];

/// Data after an upgrade request: invalid WebSocket and SPDY frames.
const FRAMES: &[&[u8]] = &[
    b"\x81\x85\x01\x02\x03\x04igohn",
    b"\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0",
    b"\x88\x82abcd\x62\x8a\x89\x80abcd",
    b"\x80\x03\x00\x01\x01\xff\xff\xff\0\0\0\x01",
    b"\x80\x03\x00\x06\0\0\0\x04\0\0\0\x01",
    b"\x80\x03\x00\x04\0\0\0\x0c\0\0\0\x01\0\0\0\x07\xff\xff\xff\xff",
    b"\0\0\0\x01\0\0\0\0",
    b"",
];

/// A sequence of requests through the proxies, and of requests that become streams.
pub(crate) fn sequence(random: &mut Random) -> Sequence {
    let users = [Caller::Admin, Caller::Tenant, Caller::Node, Caller::Anonymous];
    let user = users[random.below(4)];
    let page = PAGES[random.below(PAGES.len())];
    let services = [
        "hostile:80",
        "hostile",
        "https:hostile:443",
        "hostile:http",
        "hostile:99999",
        "a%22b:80",
        "::",
        "hostile:%C3%A9",
    ];
    let pods = ["hostile:8080", "hostile", "https:hostile:8443", "http:hostile:0", "a%22b"];
    let nodes = ["n1", "n1:10250", "https:n1:8443", "n2:99999"];
    let at = match random.below(6) {
        0..=2 => format!(
            "/api/v1/namespaces/a/services/{}/proxy/{page}",
            services[random.below(services.len())]
        ),
        3 => format!("/api/v1/namespaces/a/pods/{}/proxy/{page}", pods[random.below(pods.len())]),
        4 => format!("/api/v1/nodes/{}/proxy/{page}", nodes[random.below(nodes.len())]),
        _ => {
            let verbs = [
                "exec?command=a&stdout=1",
                "attach?stdin=1",
                "portforward?ports=80",
                "log",
                "log?follow=1",
                "exec",
                "portforward",
            ];
            format!("/api/v1/namespaces/a/pods/hostile/{}", verbs[random.below(verbs.len())])
        }
    };
    let method = ["GET", "GET", "POST", "PUT", "DELETE", "HEAD"][random.below(6)];
    let mut request = Request::new(user, method, at);
    if random.one_in(3) {
        request = upgrade(request, random);
    } else if method == "POST" || method == "PUT" {
        request = request.json("{\"a\":\"⟦long 100000 b⟧\"}");
    }
    if random.one_in(4) {
        request = request.header(
            "accept-encoding",
            ["gzip", "deflate", "br", "gzip, deflate;q=0.5"][random.below(4)],
        );
    }
    Sequence { requests: vec![request], at_once: false }
}

fn upgrade(request: Request, random: &mut Random) -> Request {
    let frames: Vec<u8> = (0..random.below(4)).flat_map(|_| random.of(FRAMES).to_vec()).collect();
    let request = request.header("connection", "upgrade").body(Body::bytes(&frames));
    if random.one_in(2) {
        let protocols = [
            "v5.channel.k8s.io",
            "v4.channel.k8s.io, base64.channel.k8s.io",
            "SPDY/3.1+portforward.k8s.io",
            "x",
            "base64url.bearer.authorization.k8s.io.dG9rZW4, v4.channel.k8s.io",
        ];
        let key = ["dGhlIHNhbXBsZSBub25jZQ==", "x", ""][random.below(3)];
        request
            .header("upgrade", "websocket")
            .header("sec-websocket-version", ["13", "12", "é"][random.below(3)])
            .header("sec-websocket-key", key)
            .header("sec-websocket-protocol", protocols[random.below(protocols.len())])
    } else {
        let versions = ["v4.channel.k8s.io", "portforward.k8s.io", "é"];
        request
            .header("upgrade", "SPDY/3.1")
            .header("x-stream-protocol-version", versions[random.below(3)])
    }
}

/// A request to a subresource of the object.
pub(crate) fn part(
    target: &Target<'_>,
    part: &Subresource,
    text: &str,
    user: Caller,
    random: &mut Random,
) -> Request {
    let at = format!("{}/{}", target.path(), part.name);
    let method = match part.verbs[random.below(part.verbs.len())] {
        "get" => "GET",
        "create" => "POST",
        "patch" => "PATCH",
        "delete" => "DELETE",
        _ => "PUT",
    };
    let request = Request::new(user, method, at);
    let body = match of_part(part.kind) {
        Some((base, shape)) => {
            let mut body = base;
            damage::damage(shape, &mut body, random);
            body.to_string()
        }
        None => text.to_owned(),
    };
    match method {
        "PATCH" => {
            request.header("content-type", "application/merge-patch+json").body(Body::Text(body))
        }
        "GET" | "DELETE" => request,
        _ if part.kind.ends_with("Options") => upgrade(request, random),
        _ if of_part(part.kind).is_some() => request.json(body),
        _ => encoded(request, target.kind, &body, random),
    }
}

/// A valid body of a kind that only subresources accept, and its schema.
fn of_part(kind: &str) -> Option<(Value, &'static StructSchema)> {
    Some(match kind {
        "Scale" => (
            json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "x"}, "spec": {"replicas": 1}}),
            api::Scale::SHAPE,
        ),
        "Eviction" => (
            json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "x"}, "deleteOptions": {"gracePeriodSeconds": 1}}),
            api::policy::Eviction::SHAPE,
        ),
        "TokenRequest" => (
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["a"], "expirationSeconds": 600,
                "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "u"}}}),
            api::TokenRequest::SHAPE,
        ),
        "Binding" => (
            json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "x"}, "target": {"kind": "Node", "name": "n1"}}),
            api::Binding::SHAPE,
        ),
        _ => return None,
    })
}
