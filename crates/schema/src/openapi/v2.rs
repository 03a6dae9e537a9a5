//! OpenAPI v2 (Swagger): one document for the whole API, converted from the v3 documents.

use std::collections::BTreeSet;

use object::{Value, to_json};

use super::{
    non_resource_paths,
    operation::PATCHES,
    v3::{document, finish_document, plain_names},
};
use crate::{ResourceDefinition, custom::publish};

/// Versions of upstream's types, current and removed, that DeleteOptions and WatchEvent list.
const KNOWN: &str = "admission.k8s.io/v1 admission.k8s.io/v1beta1 admissionregistration.k8s.io/v1 \
    admissionregistration.k8s.io/v1alpha1 admissionregistration.k8s.io/v1beta1 \
    apiextensions.k8s.io/v1 apiextensions.k8s.io/v1beta1 apiregistration.k8s.io/v1 \
    apiregistration.k8s.io/v1beta1 apps/v1 apps/v1beta1 apps/v1beta2 authentication.k8s.io/v1 \
    authentication.k8s.io/v1alpha1 authentication.k8s.io/v1beta1 authorization.k8s.io/v1 \
    authorization.k8s.io/v1beta1 autoscaling/v1 autoscaling/v2 batch/v1 batch/v1beta1 \
    certificates.k8s.io/v1 certificates.k8s.io/v1alpha1 certificates.k8s.io/v1beta1 \
    coordination.k8s.io/v1 coordination.k8s.io/v1alpha2 coordination.k8s.io/v1beta1 \
    discovery.k8s.io/v1 discovery.k8s.io/v1beta1 events.k8s.io/v1 events.k8s.io/v1beta1 \
    extensions/v1beta1 flowcontrol.apiserver.k8s.io/v1 flowcontrol.apiserver.k8s.io/v1beta1 \
    flowcontrol.apiserver.k8s.io/v1beta2 flowcontrol.apiserver.k8s.io/v1beta3 \
    imagepolicy.k8s.io/v1alpha1 internal.apiserver.k8s.io/v1alpha1 lifecycle.k8s.io/v1alpha1 \
    networking.k8s.io/v1 networking.k8s.io/v1beta1 node.k8s.io/v1 node.k8s.io/v1alpha1 \
    node.k8s.io/v1beta1 policy/v1 policy/v1beta1 rbac.authorization.k8s.io/v1 \
    rbac.authorization.k8s.io/v1alpha1 rbac.authorization.k8s.io/v1beta1 resource.k8s.io/v1 \
    resource.k8s.io/v1alpha3 resource.k8s.io/v1beta1 resource.k8s.io/v1beta2 \
    scheduling.k8s.io/v1 scheduling.k8s.io/v1alpha3 scheduling.k8s.io/v1beta1 storage.k8s.io/v1 \
    storage.k8s.io/v1alpha1 storage.k8s.io/v1beta1 storagemigration.k8s.io/v1 \
    storagemigration.k8s.io/v1beta1";

/// The document of all definitions.
pub fn v2(all: &[ResourceDefinition]) -> Value {
    let mine: Vec<_> =
        all.iter().filter(|definition| !definition.names.plural.is_empty()).collect();
    let known: Vec<(&str, &str)> =
        KNOWN.split_whitespace().filter_map(|known| known.split_once('/')).collect();
    let (mut paths, mut schemas) = document(all, &mine, &known);
    let served: BTreeSet<_> =
        mine.iter().map(|definition| (definition.names.group, definition.names.version)).collect();
    for (group, version) in served {
        paths.version(group, version);
    }
    for name in plain_names(all) {
        for name in paths.non_resource(&name).unwrap_or_default() {
            for (name, schema) in non_resource_paths::schemas(name) {
                schemas[name] = schema;
            }
        }
    }
    let from = finish_document(paths, schemas);
    let mut swagger = Value::object();
    swagger["swagger"] = "2.0".into();
    swagger["info"] = from.get("info").clone();
    swagger["securityDefinitions"] = from.get("components").get("securitySchemes").clone();
    let mut token = Value::object();
    token["BearerToken"] = Value::List([].into());
    swagger["security"] = [token].into_iter().collect();
    let mut definitions = from.get("components").get("schemas").clone();
    definitions.retain(|_, definition| {
        schema(definition, false);
        true
    });
    for definition in all {
        if let Some(custom) = definition.custom() {
            let mut own = publish::to_openapi_v2(custom.published());
            schema(&mut own, true);
            definitions[&*publish::name(&definition.names)] = own;
        }
    }
    swagger["definitions"] = definitions;
    let mut paths = from.get("paths").clone();
    paths.retain(|_, path| {
        path.retain(|method, operation| {
            if method == "parameters" {
                *operation = operation.items().iter().map(parameter).collect();
            } else {
                translate(operation);
            }
            true
        });
        true
    });
    swagger["parameters"] = share(&mut paths);
    swagger["paths"] = paths;
    swagger
}

/// Moves parameters that several operations share to the document's `parameters`, each under a
/// unique name.
fn share(paths: &mut Value) -> Value {
    let mut shared = Value::object();
    let mut take = |parameters: &Value| -> Value {
        let one = |parameter: &Value| {
            if !is_shared(parameter) {
                return parameter.clone();
            }
            let name = format!(
                "{}-{:08x}",
                parameter.get("name").as_str().unwrap_or_default(),
                fnv(&to_json(parameter))
            );
            shared[&*name] = parameter.clone();
            let mut reference = Value::object();
            reference["$ref"] = format!("#/parameters/{name}").into();
            reference
        };
        parameters.items().iter().map(one).collect()
    };
    paths.retain(|_, path| {
        path.retain(|method, operation| {
            if method == "parameters" {
                *operation = take(operation);
            } else if !operation.get("parameters").is_null() {
                operation["parameters"] = take(operation.get("parameters"));
            }
            true
        });
        true
    });
    shared
}

/// Whether a parameter is shared. Parameters about one kind, and those that clients search for in
/// each operation, are not.
fn is_shared(parameter: &Value) -> bool {
    let text = |name: &str| parameter.get(name).as_str().unwrap_or_default();
    match (text("in"), text("name")) {
        (_, "name") | ("query", "fieldValidation" | "dryRun") => false,
        ("body", _) => {
            let of = parameter.get("schema").get("$ref").as_str().unwrap_or_default();
            of.starts_with("#/definitions/io.k8s.apimachinery")
        }
        _ => true,
    }
}

/// The 32-bit FNV-1a hash, which is the same on every run.
fn fnv(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Converts a schema to v2: no `allOf` around references, no `oneOf`.
fn schema(value: &mut Value, custom: bool) {
    if let Some(inner) = value.get("allOf").items().first().cloned() {
        value.retain(|name, _| name != "allOf" && name != "default");
        value["$ref"] = inner.get("$ref").clone();
    }
    if !value.get("oneOf").is_null() {
        value.remove("oneOf");
        value["type"] = "string".into();
    }
    if let Some(name) = value.get("$ref").as_str() {
        value["$ref"] = name.replace("#/components/schemas/", "#/definitions/").into();
    }
    // In v2, upstream publishes no defaults of built-in kinds.
    if !custom || value.get("default").is_zero() {
        value.remove("default");
    }
    for name in ["items", "additionalProperties"] {
        if !value.get(name).is_null() {
            schema(value.get_mut(name), custom);
        }
    }
    if value.get("properties").is_object() {
        value.get_mut("properties").retain(|_, property| {
            schema(property, custom);
            true
        });
    }
}

/// Converts a parameter: its type is moved out of `schema`.
fn parameter(from: &Value) -> Value {
    let mut parameter = from.clone();
    parameter.remove("schema");
    for (name, value) in from.get("schema").entries() {
        parameter[name] = value.clone();
    }
    parameter
}

fn translate(operation: &mut Value) {
    let mut parameters: Vec<_> =
        operation.get("parameters").items().iter().map(parameter).collect();
    let body = operation.get("requestBody").clone();
    let consumes = media_types(body.get("content"));
    if let Some(mut content) = content_schema(body.get("content")) {
        let mut sent = Value::object();
        sent["in"] = "body".into();
        sent["name"] = "body".into();
        if !body.get("required").is_null() {
            sent["required"] = true.into();
        }
        schema(&mut content, false);
        sent["schema"] = content;
        parameters.insert(0, sent);
    }
    let mut produces = Value::List([].into());
    if operation.get("responses").is_object() {
        operation.get_mut("responses").retain(|_, response| {
            let content = response.get("content").clone();
            response.remove("content");
            if let Some(mut given) = content_schema(&content) {
                schema(&mut given, false);
                response["schema"] = given;
                produces = media_types(&content);
            }
            true
        });
    }
    operation.remove("requestBody");
    operation.remove("parameters");
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into_iter().collect();
    }
    let object = operation.get("responses").get("200").get("schema").get("$ref").as_str().is_some();
    match operation.get("x-kubernetes-action") {
        Value::Null if object => operation["consumes"] = produces.clone(),
        Value::Null => {}
        _ if consumes.items().is_empty() => {
            operation["consumes"] = ["*/*"].into_iter().collect();
        }
        _ => operation["consumes"] = consumes,
    }
    operation["produces"] = produces;
    operation["schemes"] = ["https"].into_iter().collect();
}

/// The media types of a body, in upstream's order.
fn media_types(content: &Value) -> Value {
    const ORDER: &[&str] = &[
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "application/json;stream=watch",
        "application/vnd.kubernetes.protobuf;stream=watch",
    ];
    let mut all: Vec<&str> = content.entries().map(|(media, _)| media).collect();
    let known = || ORDER.iter().chain(PATCHES);
    all.sort_by_key(|media| known().position(|own| own == media).unwrap_or(usize::MAX));
    all.into_iter().collect()
}

/// The schema of a body; it is the same for all media types.
fn content_schema(content: &Value) -> Option<Value> {
    let (_, first) = content.entries().next()?;
    Some(first.get("schema").clone())
}
