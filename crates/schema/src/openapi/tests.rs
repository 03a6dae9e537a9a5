use object::Value;

use super::*;
use crate::{
    ResourceDefinition,
    sample::{Sample, tree},
};

fn definitions() -> Vec<ResourceDefinition> {
    vec![ResourceDefinition::from_kind::<Sample>()]
}

/// The document without its descriptions.
fn bare(mut document: Value) -> Value {
    fn walk(value: &mut Value) {
        match value {
            Value::List(items) => items.make_mut().iter_mut().for_each(walk),
            object => object.retain(|name, value| {
                walk(value);
                name != "description" || value.is_object()
            }),
        }
    }
    walk(&mut document);
    document
}

#[test]
fn a_field_says_how_it_is_merged() {
    let document = bare(v3(&definitions(), "apps", "v1"));
    let schemas = &document["components"]["schemas"];
    let spec = &schemas["io.k8s.api.apps.v1.SampleSpec"]["properties"];
    assert_eq!(
        spec["containers"],
        tree(
            r##"{"type":"array","items":{"$ref":"#/components/schemas/io.k8s.api.apps.v1.SampleContainer"},
            "x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],
            "x-kubernetes-patch-strategy":"merge","x-kubernetes-patch-merge-key":"name"}"##
        )
    );
    assert_eq!(
        spec["strategy"],
        tree(
            r##"{"allOf":[{"$ref":"#/components/schemas/io.k8s.api.apps.v1.SampleStrategy"}],"default":{},
            "x-kubernetes-patch-strategy":"retainKeys"}"##
        )
    );
    assert_eq!(spec["replicas"], tree(r#"{"type":"integer","format":"int32"}"#));
    assert_eq!(
        spec["nodeSelector"],
        tree(
            r#"{"type":"object","additionalProperties":{"type":"string"},"x-kubernetes-map-type":"atomic"}"#
        )
    );
    let kind = &schemas["io.k8s.api.apps.v1.Sample"];
    assert_eq!(
        kind["x-kubernetes-group-version-kind"],
        tree(r#"[{"group":"apps","kind":"Sample","version":"v1"}]"#)
    );
    assert_eq!(kind["properties"]["apiVersion"], tree(r#"{"type":"string"}"#));
}

#[test]
fn a_kind_has_its_paths() {
    let document = v3(&definitions(), "apps", "v1");
    let mut found = Vec::new();
    for (path, methods) in document["paths"].entries() {
        for (method, operation) in methods.entries().filter(|(method, _)| *method != "parameters") {
            let id = operation["operationId"].as_str().unwrap_or_default();
            found.push(format!("{method} {path} {id}"));
        }
    }
    let base = "/apis/apps/v1/namespaces/{namespace}/samples";
    for line in [
        "get /apis/apps/v1/ getAppsV1APIResources".to_owned(),
        "get /apis/apps/v1/samples listAppsV1SampleForAllNamespaces".to_owned(),
        format!("get {base} listAppsV1NamespacedSample"),
        format!("post {base} createAppsV1NamespacedSample"),
        format!("delete {base} deleteAppsV1CollectionNamespacedSample"),
        format!("get {base}/{{name}} readAppsV1NamespacedSample"),
        format!("put {base}/{{name}} replaceAppsV1NamespacedSample"),
        format!("patch {base}/{{name}} patchAppsV1NamespacedSample"),
        format!("delete {base}/{{name}} deleteAppsV1NamespacedSample"),
        format!("put {base}/{{name}}/status replaceAppsV1NamespacedSampleStatus"),
        format!("get {base}/{{name}}/scale readAppsV1NamespacedSampleScale"),
        "get /apis/apps/v1/watch/samples watchAppsV1SampleListForAllNamespaces".to_owned(),
    ] {
        assert!(found.contains(&line), "{line} is not among {found:#?}");
    }
}

#[test]
fn the_older_document_says_the_same_in_its_words() {
    let document = bare(v2(&definitions()));
    let definitions = &document["definitions"];
    assert_eq!(
        definitions["io.k8s.api.apps.v1.Sample"]["properties"]["spec"],
        tree(r##"{"$ref":"#/definitions/io.k8s.api.apps.v1.SampleSpec"}"##)
    );
    assert_eq!(
        definitions["io.k8s.apimachinery.pkg.util.intstr.IntOrString"],
        tree(r#"{"type":"string","format":"int-or-string"}"#)
    );
    let path = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/samples"];
    assert_eq!(
        path["post"]["parameters"].items()[0],
        tree(
            r##"{"in":"body","name":"body","required":true,
            "schema":{"$ref":"#/definitions/io.k8s.api.apps.v1.Sample"}}"##
        )
    );
    assert_eq!(
        path["get"]["responses"]["200"],
        tree(r##"{"schema":{"$ref":"#/definitions/io.k8s.api.apps.v1.SampleList"}}"##)
    );
}
