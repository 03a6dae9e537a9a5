//! OpenAPI v3: one document for each group and version.

use std::collections::BTreeSet;

use object::Value;

use super::{VERSION, non_resource_paths, packages::ModelNames, paths::Paths, schemas::Schemas};
use crate::ResourceDefinition;

/// The document of one group and version. `all` are the definitions of every group, which determine
/// the group of shared types. Definitions without a plural are bodies of subresources.
pub fn v3(all: &[ResourceDefinition], group: &str, version: &str) -> Value {
    let of = |definition: &&ResourceDefinition| {
        definition.names.group == group
            && definition.names.version == version
            && !definition.names.plural.is_empty()
    };
    let mine: Vec<_> = all.iter().filter(of).collect();
    let (mut paths, schemas) = document(all, &mine, &[(group, version)]);
    paths.version(group, version);
    finish_document(paths, schemas)
}

/// The documents of paths that are no resources, by name: the groups, each group, and the server's
/// version.
pub fn non_resource_documents(all: &[ResourceDefinition]) -> Vec<(String, Value)> {
    let documents = plain_names(all).into_iter().filter_map(|name| {
        let (mut paths, mut schemas) = (Paths::default(), Value::Null);
        for schema in paths.non_resource(&name)? {
            for (name, schema) in non_resource_paths::schemas(schema) {
                schemas[name] = schema;
            }
        }
        Some((name, finish_document(paths, schemas)))
    });
    documents.collect()
}

/// The names of these documents. Groups that only CRDs define have none.
pub(super) fn plain_names(all: &[ResourceDefinition]) -> Vec<String> {
    let mut names: Vec<String> =
        non_resource_paths::NON_RESOURCE_PATHS.iter().map(|name| (*name).to_owned()).collect();
    for definition in all.iter().filter(|definition| definition.is_built_in()) {
        let name = format!("apis/{}", definition.names.group);
        let has = !definition.names.group.is_empty() && !definition.names.plural.is_empty();
        if has && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The paths and schemas of these definitions.
pub(super) fn document(
    all: &[ResourceDefinition],
    definitions: &[&ResourceDefinition],
    versions: &[(&str, &str)],
) -> (Paths, Value) {
    let packages = ModelNames::of(all);
    let (mut schemas, mut paths) = (Schemas::new(&packages, all), Paths::default());
    for definition in definitions {
        schemas.kind(definition);
    }
    for definition in definitions {
        paths.kind(definition, &mut schemas);
    }
    schemas.common(versions);
    (paths, schemas.into_value())
}

/// Assembles a document with the schemas that its paths refer to.
pub(super) fn finish_document(paths: Paths, schemas: Value) -> Value {
    let paths = paths.into_value();
    let mut used = BTreeSet::new();
    references(&paths, &mut used);
    let mut left: Vec<String> = used.iter().cloned().collect();
    while let Some(name) = left.pop() {
        let mut further = BTreeSet::new();
        references(schemas.get(&name), &mut further);
        left.extend(further.into_iter().filter(|name| used.insert(name.clone())));
    }
    let mut schemas = schemas;
    schemas.retain(|name, _| used.contains(name));
    let mut document = Value::object();
    document["openapi"] = "3.0.0".into();
    document["info"]["title"] = "Kubernetes".into();
    document["info"]["version"] = VERSION.into();
    document["paths"] = paths;
    if schemas.entries().len() > 0 {
        document["components"]["schemas"] = schemas;
    }
    let token = &mut document["components"]["securitySchemes"]["BearerToken"];
    token["description"] = "A bearer token.".into();
    token["type"] = "apiKey".into();
    token["name"] = "authorization".into();
    token["in"] = "header".into();
    document
}

fn references(value: &Value, found: &mut BTreeSet<String>) {
    if let Some(name) = value.get("$ref").as_str() {
        found.extend(name.strip_prefix("#/components/schemas/").map(str::to_owned));
    }
    value.items().iter().for_each(|item| references(item, found));
    value.entries().for_each(|(_, inner)| references(inner, found));
}
