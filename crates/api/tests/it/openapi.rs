//! The OpenAPI documents of all kinds.

use std::collections::HashSet;

use object::Value;
use schema::openapi;

#[test]
fn every_reference_leads_somewhere() {
    let kinds = api::builtin_resources();
    let mut versions: Vec<_> =
        kinds.iter().map(|kind| (kind.names.group, kind.names.version)).collect();
    versions.dedup();
    for (group, version) in versions {
        let document = openapi::v3(&kinds, group, version);
        check(&document, &document["components"]["schemas"], "#/components/schemas/");
    }
    let document = openapi::v2(&kinds);
    check(&document, &document["definitions"], "#/definitions/");
}

#[test]
fn every_operation_has_its_own_name() {
    let document = openapi::v2(&api::builtin_resources());
    let mut seen = HashSet::new();
    for (path, methods) in document["paths"].entries() {
        for (method, operation) in methods.entries().filter(|(method, _)| *method != "parameters") {
            let id = operation["operationId"].as_str().expect("every operation has one");
            assert!(seen.insert(id.to_owned()), "{method} {path}: {id} is there twice");
        }
    }
    assert!(seen.len() > 800, "only {} operations", seen.len());
}

#[test]
fn a_type_belongs_to_its_group() {
    let kinds = api::builtin_resources();
    for (group, version, name) in [
        ("apps", "v1", "io.k8s.api.apps.v1.Deployment"),
        ("apps", "v1", "io.k8s.api.core.v1.PodTemplateSpec"),
        ("apps", "v1", "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"),
        ("storage.k8s.io", "v1", "io.k8s.api.core.v1.TopologySelectorTerm"),
        (
            "apiextensions.k8s.io",
            "v1",
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps",
        ),
    ] {
        let document = openapi::v3(&kinds, group, version);
        let schema = &document["components"]["schemas"][name];
        assert!(schema.is_object(), "{name} is not in {group}/{version}");
    }
}

/// Every `$ref` below `value` names one of `schemas`.
fn check(value: &Value, schemas: &Value, start: &str) {
    if let Some(to) = value.get("$ref").as_str() {
        if let Some(name) = to.strip_prefix(start) {
            assert!(schemas.get(name).is_object(), "{to} leads nowhere");
        } else {
            assert!(to.starts_with("#/parameters/"), "{to} leads out of the document");
        }
    }
    value.items().iter().for_each(|item| check(item, schemas, start));
    value.entries().for_each(|(_, inner)| check(inner, schemas, start));
}
