//! Attacks on custom resources: CustomResourceDefinitions with hostile schemas, and hostile objects of an existing
//! definition.

use serde_json::{Value, json};

use super::{
    kinds,
    request::{Body, Caller, Request, Sequence},
    values,
};
use crate::random::Random;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A random schema in which any keyword may occur anywhere.
fn schema(random: &mut Random, depth: usize) -> Value {
    if depth == 0 || random.one_in(12) {
        return match random.below(4) {
            0 => values::tree(random),
            _ => json!({"type": "string"}),
        };
    }
    let mut schema = match random.below(7) {
        0 => json!({"type": "object", "properties": {
            "a": schema(random, depth - 1), "é\"": schema(random, depth - 1), "": schema(random, depth - 1)}}),
        1 => json!({"type": "array", "items": schema(random, depth - 1)}),
        2 => json!({"type": "object", "additionalProperties": schema(random, depth - 1)}),
        3 => {
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-embedded-resource": random.one_in(2)})
        }
        4 => json!({"x-kubernetes-int-or-string": true}),
        5 => {
            json!({"type": random.of(&["string", "integer", "number", "boolean", "null", "x", ""])})
        }
        _ => json!({"type": "object", "properties": {"spec": schema(random, depth - 1)}}),
    };
    for _ in 0..random.below(4) {
        let (name, value) = keyword(random, depth);
        if let Some(map) = schema.as_object_mut() {
            map.insert(name.to_owned(), value);
        }
    }
    schema
}

fn keyword(random: &mut Random, depth: usize) -> (&'static str, Value) {
    match random.below(18) {
        0 => ("pattern", values::text("pattern", random)),
        1 => (
            "x-kubernetes-validations",
            json!([{"rule": values::text("rule", random), "message": values::text("", random),
            "messageExpression": values::text("expression", random), "fieldPath": values::text("path", random)}]),
        ),
        2 => (
            "default",
            match random.below(3) {
                0 => values::tree(random),
                1 => values::number(random),
                _ => json!({"a": [null]}),
            },
        ),
        3 => ("enum", json!([1, "a", null, {"a": 1e300}, values::number(random)])),
        4 => ("minimum", values::number(random)),
        5 => ("maxLength", values::number(random)),
        6 => ("maxItems", values::number(random)),
        7 => ("multipleOf", json!([0, -1, 1, i64::MAX][random.below(4)])),
        8 => ("format", values::text("format", random)),
        9 => ("allOf", json!([schema(random, depth - 1)])),
        10 => ("not", schema(random, depth - 1)),
        11 => ("required", json!(["a", "", "spec"])),
        12 => ("x-kubernetes-list-type", json!(["map", "set", "atomic", "x"][random.below(4)])),
        13 => ("x-kubernetes-list-map-keys", json!(["a", "", "a"])),
        14 => ("x-kubernetes-map-type", json!(["granular", "atomic"][random.below(2)])),
        15 => ("nullable", json!(true)),
        16 => ("$ref", json!("#/definitions/a")),
        _ => {
            ("properties", json!(super::expand::many(1500, r#"{"type":"string","pattern":"a#"}"#)))
        }
    }
}

/// A sequence about a CustomResourceDefinition or an object of one.
pub(crate) fn sequence(random: &mut Random) -> Sequence {
    let number = random.below(8);
    let name = kinds::name(number);
    let things = format!("/apis/{name}.example.com/v1/namespaces/a/things");
    let users = [Caller::Admin, Caller::Admin, Caller::Tenant];
    let user = users[random.below(3)];
    let mut requests = Vec::new();
    if random.one_in(3) {
        requests.push(
            Request::new(Caller::Admin, "POST", DEFINITIONS)
                .json(definition(number, random).to_string()),
        );
    }
    let object = thing(&name, random);
    let path = format!("{things}/t");
    match random.below(5) {
        0 => {
            requests.push(Request::new(user, "POST", things.clone()).json(object.to_string()));
            let ty = [
                "application/merge-patch+json",
                "application/json-patch+json",
                "application/apply-patch+yaml",
                "application/strategic-merge-patch+json",
            ];
            let at = format!("{path}?fieldManager=m&force=true");
            let patch = Request::new(user, "PATCH", at).header("content-type", ty[random.below(4)]);
            requests.push(patch.body(Body::Text(thing(&name, random).to_string())));
        }
        1 => {
            let part = ["status", "scale", "", "x"][random.below(4)];
            requests.push(
                Request::new(user, "PUT", format!("{path}/{part}"))
                    .json(thing(&name, random).to_string()),
            );
        }
        2 => {
            let at = format!("/apis/{name}.example.com/v2/things?fieldSelector=spec.text%3Da");
            requests.push(Request::new(user, "GET", at));
            let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
            requests.push(Request::new(user, "GET", things.clone()).header("accept", table));
        }
        _ => requests.push(Request::new(user, "POST", things.clone()).json(object.to_string())),
    }
    if random.one_in(3) {
        requests.push(Request::new(user, "DELETE", path));
    }
    if random.one_in(6) {
        requests.push(Request::new(
            Caller::Admin,
            "GET",
            format!("/openapi/v3/apis/{name}.example.com/v1"),
        ));
    }
    if random.one_in(4) {
        requests.push(Request::new(
            Caller::Admin,
            "DELETE",
            format!("{DEFINITIONS}/things.{name}.example.com"),
        ));
    }
    Sequence { requests, at_once: false }
}

fn definition(number: usize, random: &mut Random) -> Value {
    let name = kinds::name(number);
    let mut spec = json!({"type": "object", "properties": {"spec": schema(random, 4), "status": {"type": "object"}}});
    if random.one_in(5) {
        spec = schema(random, 5);
    }
    let mut version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": spec}});
    if random.one_in(3) {
        version["subresources"] = json!({"status": {}, "scale": {
            "specReplicasPath": values::text("path", random), "statusReplicasPath": ".status.a", "labelSelectorPath": ".status.b"}});
    }
    if random.one_in(3) {
        version["additionalPrinterColumns"] = json!([{"name": values::text("", random), "type": random.of(&["string", "date", "integer", "number", "boolean"]),
            "jsonPath": values::text("path", random)}]);
    }
    if random.one_in(4) {
        version["selectableFields"] = json!([{"jsonPath": values::text("path", random)}]);
    }
    let mut definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{name}.example.com")},
        "spec": {"group": format!("{name}.example.com"), "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [version]},
    });
    if random.one_in(4) {
        let first = definition["spec"]["versions"][0].take();
        definition["spec"]["versions"] = json!([first, {"name": "v2", "served": true, "storage": false,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]);
        let answers = ["say/e30", "bomb", "slow", "garbage", "echo", "deep"];
        definition["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
            "clientConfig": {"url": format!("https://⟦hostile⟧/{}", answers[random.below(6)]), "caBundle": "⟦hostile-ca⟧"}}});
    }
    definition
}

/// An object that matches the definition in `bases.yaml`, or does not.
fn thing(name: &str, random: &mut Random) -> Value {
    let any = |random: &mut Random| match random.below(4) {
        0 => values::tree(random),
        1 => values::number(random),
        2 => values::text("", random),
        _ => json!({"a": [null, {"": 1.5}]}),
    };
    let mut object = json!({
        "apiVersion": format!("{name}.example.com/v1"), "kind": "Thing",
        "metadata": {"name": "t", "namespace": "a"},
        "spec": {"size": 3, "text": "a", "port": "http", "tags": ["a", "b"], "parts": [{"name": "x", "n": 1.5}], "more": {"a": {"b": null}}},
    });
    let fields = ["size", "text", "port", "tags", "parts", "more", "any", "é"];
    for _ in 0..random.below(3) {
        object["spec"][fields[random.below(fields.len())]] = any(random);
    }
    match random.below(8) {
        0 => object["metadata"] = any(random),
        1 => {
            object["metadata"]["managedFields"] = json!([{"manager": "m", "operation": "Update", "fieldsType": "FieldsV1",
            "apiVersion": format!("{name}.example.com/v1"), "fieldsV1": any(random)}]);
        }
        2 => object["spec"] = any(random),
        3 => object["metadata"]["name"] = any(random),
        4 => object["metadata"]["labels"] = json!({"a": any(random)}),
        _ => {}
    }
    object
}
