//! OpenAPI 2 (Swagger): one document for everything, made from what version 3 says.

use object::Value;

use super::v3::document;
use crate::{Definition, custom::publish};

/// The document of all definitions.
pub fn v2(all: &[Definition]) -> Value {
    let mut versions: Vec<(&str, &str)> = Vec::new();
    for definition in all.iter().filter(|definition| !definition.names.plural.is_empty()) {
        let version = (definition.names.group, definition.names.version);
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    let mine = all.iter().filter(|definition| !definition.names.plural.is_empty());
    let from = document(all, &mine.collect::<Vec<_>>(), &versions);
    let mut swagger = Value::object();
    swagger["swagger"] = "2.0".into();
    swagger["info"] = from.get("info").clone();
    swagger["securityDefinitions"] = from.get("components").get("securitySchemes").clone();
    let mut token = Value::object();
    token["BearerToken"] = Value::List([].into());
    swagger["security"] = [token].into_iter().collect();
    let mut definitions = from.get("components").get("schemas").clone();
    for definition in all {
        if let Some(custom) = &definition.custom {
            let name = publish::name(&definition.names);
            definitions[&*name] = publish::older(custom.published());
        }
    }
    definitions.retain(|_, definition| {
        schema(definition);
        true
    });
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
    swagger["paths"] = paths;
    swagger
}

/// A schema in the older words: no `allOf` around references, no `oneOf`.
fn schema(value: &mut Value) {
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
    // A default that is only the zero value was never said in this version.
    if value.get("default").is_zero() {
        value.remove("default");
    }
    for name in ["items", "additionalProperties"] {
        if !value.get(name).is_null() {
            schema(value.get_mut(name));
        }
    }
    if value.get("properties").is_object() {
        value.get_mut("properties").retain(|_, property| {
            schema(property);
            true
        });
    }
}

/// A parameter with its type in it, not below `schema`.
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
        schema(&mut content);
        sent["schema"] = content;
        parameters.insert(0, sent);
    }
    let mut produces = Value::List([].into());
    if operation.get("responses").is_object() {
        operation.get_mut("responses").retain(|_, response| {
            let content = response.get("content").clone();
            response.remove("content");
            if let Some(mut given) = content_schema(&content) {
                schema(&mut given);
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
    let anything = || ["*/*"].into_iter().collect();
    operation["consumes"] = if consumes.items().is_empty() { anything() } else { consumes };
    operation["produces"] = produces;
    operation["schemes"] = ["https"].into_iter().collect();
}

/// The forms of a body, in the order in which upstream names them.
fn media_types(content: &Value) -> Value {
    const ORDER: &[&str] = &[
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "application/json;stream=watch",
        "application/vnd.kubernetes.protobuf;stream=watch",
    ];
    let mut all: Vec<&str> = content.entries().map(|(media, _)| media).collect();
    all.sort_by_key(|media| ORDER.iter().position(|own| own == media).unwrap_or(ORDER.len()));
    all.into_iter().collect()
}

/// All types of a body have the same schema.
fn content_schema(content: &Value) -> Option<Value> {
    let (_, first) = content.entries().next()?;
    Some(first.get("schema").clone())
}
