//! Hostile responses of webhooks, conversion webhooks and aggregated API servers: each sequence registers a hostile
//! backend, sends requests that reach it, and removes it.

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use serde_json::{Value, json};

use super::{
    kinds, patches,
    request::{Caller, Request, Sequence},
    values,
};
use crate::random::Random;

const CONFIGMAPS: &str = "/api/v1/namespaces/a/configmaps";
const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
/// Responses that are not reviews at all; see [`super::hostile`].
const PAGES: &[&str] = &[
    "bomb",
    "deep",
    "garbage",
    "echo",
    "long",
    "cut",
    "chunked",
    "headers",
    "status/999",
    "redirect",
];

/// A sequence against one of the three kinds of backends.
pub(crate) fn sequence(random: &mut Random) -> Sequence {
    let requests = match random.below(4) {
        0 => conversion(random),
        1 => aggregated(random),
        _ => admission(random),
    };
    Sequence { requests, at_once: false }
}

/// The URL at which the backend responds with this value, or with a page.
fn url(said: &Value, random: &mut Random) -> String {
    let path = match random.one_in(5) {
        true => random.of(PAGES).to_owned(),
        false => format!("say/{}", URL_SAFE_NO_PAD.encode(said.to_string())),
    };
    format!("https://⟦hostile⟧/{path}")
}

/// A value for any field of a response.
fn any(random: &mut Random) -> Value {
    match random.below(5) {
        0 => values::number(random),
        1 => json!({"a": [null, {"": -1}]}),
        2 => json!([[]]),
        3 => Value::Null,
        _ => values::text("", random),
    }
}

fn admission(random: &mut Random) -> Vec<Request> {
    let name = kinds::name(random.below(4));
    let mutating = !random.one_in(3);
    let patch = json!([patches::hostile(random), patches::hostile(random)]).to_string();
    let mut response = json!({"uid": "UID", "allowed": !random.one_in(6)});
    if mutating {
        response["patchType"] = json!("JSONPatch");
        response["patch"] = json!(STANDARD.encode(patch));
    }
    for _ in 0..random.below(3) {
        let field =
            ["uid", "allowed", "patchType", "patch", "status", "warnings", "auditAnnotations"]
                [random.below(7)];
        response[field] = match field {
            "status" => {
                json!({"code": values::number(random), "message": values::text("", random), "reason": any(random),
                "details": {"causes": [any(random)], "retryAfterSeconds": values::number(random)}})
            }
            "warnings" => json!([values::text("", random), values::text("", random)]),
            "auditAnnotations" => {
                json!({(values::text("key", random).as_str().unwrap_or("k")): any(random)})
            }
            _ => any(random),
        };
    }
    let version = ["admission.k8s.io/v1", "admission.k8s.io/v1beta1", "v1", ""]
        [random.below(4).min(random.below(4))];
    let review = json!({"apiVersion": version, "kind": "AdmissionReview", "response": response});
    let kind =
        if mutating { "MutatingWebhookConfiguration" } else { "ValidatingWebhookConfiguration" };
    let hook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name},
        "webhooks": [{
            "name": "w.example.com", "clientConfig": {"url": url(&review, random), "caBundle": "⟦hostile-ca⟧"},
            "failurePolicy": random.of(&["Fail", "Ignore"]), "timeoutSeconds": 1, "sideEffects": "None",
            "reinvocationPolicy": "IfNeeded", "admissionReviewVersions": ["v1", "v1beta1"],
            "matchConditions": [{"name": "c", "expression": values::text("expression", random)}],
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}],
        }],
    });
    let mut hook = hook;
    if let Some(map) = hook["webhooks"][0].as_object_mut() {
        if !mutating {
            map.remove("reinvocationPolicy");
        }
        if !random.one_in(3) {
            map.remove("matchConditions");
        }
    }
    let at = format!("{HOOKS}/{}s", kind.to_lowercase());
    let object =
        json!({"metadata": {"name": name, "labels": {"a": "b"}}, "data": {"k": "v"}}).to_string();
    vec![
        Request::new(Caller::Admin, "POST", at.clone()).json(hook.to_string()),
        Request::new(Caller::Tenant, "POST", CONFIGMAPS).json(object.clone()),
        Request::new(Caller::Tenant, "PUT", format!("{CONFIGMAPS}/{name}")).json(object),
        Request::new(Caller::Tenant, "DELETE", format!("{CONFIGMAPS}/{name}")),
        Request::new(Caller::Admin, "DELETE", format!("{at}/{name}")),
    ]
}

fn conversion(random: &mut Random) -> Vec<Request> {
    let name = format!("c{}.example.com", random.below(4));
    let converted = json!({"apiVersion": format!("{name}/v2"), "kind": "Thing", "metadata": {"name": "t", "namespace": "a"}, "spec": any(random)});
    let mut response =
        json!({"uid": "UID", "result": {"status": "Success"}, "convertedObjects": [converted]});
    for _ in 0..random.below(3) {
        match random.below(5) {
            0 => response["convertedObjects"] = json!([any(random), any(random)]),
            1 => response["convertedObjects"][0]["metadata"] = any(random),
            2 => response["convertedObjects"][0]["metadata"]["name"] = any(random),
            3 => response["result"] = json!({"status": any(random), "message": any(random)}),
            _ => response["convertedObjects"][0]["apiVersion"] = any(random),
        }
    }
    let review = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response});
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
    };
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("things.{name}")},
        "spec": {"group": name, "scope": "Namespaced", "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [version("v1", true), version("v2", false)],
            "conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
                "clientConfig": {"url": url(&review, random), "caBundle": "⟦hostile-ca⟧"}}}},
    });
    let object = json!({"apiVersion": format!("{name}/v1"), "kind": "Thing", "metadata": {"name": "t"}, "spec": {}});
    let at = |version: &str| format!("/apis/{name}/{version}/namespaces/a/things");
    vec![
        Request::new(Caller::Admin, "POST", DEFINITIONS).json(definition.to_string()),
        Request::new(Caller::Admin, "POST", at("v1")).json(object.to_string()),
        Request::new(Caller::Admin, "GET", at("v2")),
        Request::new(Caller::Admin, "GET", at("v2") + "?watch=1&resourceVersion=0"),
        Request::new(Caller::Admin, "PATCH", at("v2") + "/t")
            .header("content-type", "application/merge-patch+json")
            .body(super::request::Body::Text(r#"{"spec":{"a":1}}"#.into())),
        Request::new(Caller::Admin, "DELETE", at("v2") + "/t"),
        Request::new(Caller::Admin, "DELETE", format!("{DEFINITIONS}/things.{name}")),
    ]
}

fn aggregated(random: &mut Random) -> Vec<Request> {
    // the number of the group selects the discovery responses: see `hostile`
    let group = format!("g{}.example.com", random.below(12));
    let service = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": format!("v1.{group}")},
        "spec": {"group": group, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10, "insecureSkipTLSVerify": true,
            "service": {"namespace": "a", "name": "hostile", "port": 443}},
    });
    let at = format!("/apis/{group}/v1");
    let mut requests = vec![
        Request::new(Caller::Admin, "POST", SERVICES).json(service.to_string()),
        Request::new(Caller::Admin, "GET", at.clone()),
        Request::new(Caller::Admin, "GET", format!("{at}/namespaces/a/{}", random.of(PAGES))),
        Request::new(Caller::Tenant, "POST", format!("{at}/namespaces/a/echo"))
            .json(any(random).to_string()),
        Request::new(Caller::Admin, "GET", "/apis"),
        Request::new(Caller::Admin, "GET", "/openapi/v2"),
        Request::new(Caller::Admin, "GET", format!("/openapi/v3/apis/{group}/v1")),
    ];
    if random.one_in(3) {
        requests.push(Request::new(Caller::Admin, "DELETE", format!("{SERVICES}/v1.{group}")));
    }
    requests
}
