//! Protobuf encoding of the OpenAPI v2 document, with the messages of gnostic's openapi.v2 that
//! Kubernetes clients use.

use object::{Value, yaml::to_yaml};

pub(super) const MEDIA_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// The media type in clients' Accept headers.
pub(super) const ASKED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// The type and tag of a protobuf field.
enum Field {
    Text(u64),
    Texts(u64),
    Bool(u64),
    Number(u64),
    Double(u64),
    /// Any value, encoded as YAML.
    Any(u64),
    Anys(u64),
    Part(u64, Write),
    Parts(u64, Write),
    /// A message with a named entry for each property.
    Named(u64, u64, Write),
}

/// Writes a value as a message.
type Write = fn(&Value, &mut Vec<u8>);
/// The fields of a message, by their JSON names.
type Fields = &'static [(&'static str, Field)];

use Field::{Any, Anys, Bool, Double, Named, Number, Part, Parts, Text, Texts};

const DOCUMENT: Fields = &[
    ("swagger", Text(1)),
    ("info", Part(2, |value, out| write(INFO, 7, value, out))),
    ("schemes", Texts(5)),
    ("consumes", Texts(6)),
    ("produces", Texts(7)),
    ("paths", Named(8, 2, |value, out| write(PATH, 10, value, out))),
    ("definitions", Named(9, 1, schema)),
    ("parameters", Named(10, 1, parameter)),
    ("security", Parts(12, requirement)),
    (
        "securityDefinitions",
        Named(13, 1, |value, out| {
            message(2, out, |out| write(API_KEY, 5, value, out)); // the only type in use
        }),
    ),
];

const INFO: Fields = &[("title", Text(1)), ("version", Text(2)), ("description", Text(3))];

const API_KEY: Fields =
    &[("type", Text(1)), ("name", Text(2)), ("in", Text(3)), ("description", Text(4))];

const PATH: Fields = &[
    ("get", Part(2, operation)),
    ("put", Part(3, operation)),
    ("post", Part(4, operation)),
    ("delete", Part(5, operation)),
    ("options", Part(6, operation)),
    ("head", Part(7, operation)),
    ("patch", Part(8, operation)),
    ("parameters", Parts(9, parameters_item)),
];

const OPERATION: Fields = &[
    ("tags", Texts(1)),
    ("summary", Text(2)),
    ("description", Text(3)),
    ("operationId", Text(5)),
    ("produces", Texts(6)),
    ("consumes", Texts(7)),
    ("parameters", Parts(8, parameters_item)),
    (
        "responses",
        Named(9, 1, |value, out| {
            message(1, out, |out| write(RESPONSE, 5, value, out));
        }),
    ),
    ("schemes", Texts(10)),
    ("deprecated", Bool(11)),
];

const RESPONSE: Fields = &[
    ("description", Text(1)),
    ("schema", Part(2, |value, out| message(1, out, |out| schema(value, out)))),
];

const REFERENCE: Fields = &[("$ref", Text(1)), ("description", Text(2))];

const BODY: Fields = &[
    ("description", Text(1)),
    ("name", Text(2)),
    ("in", Text(3)),
    ("required", Bool(4)),
    ("schema", Part(5, schema)),
];

const QUERY: Fields = &[
    ("required", Bool(1)),
    ("in", Text(2)),
    ("description", Text(3)),
    ("name", Text(4)),
    ("type", Text(6)),
    ("format", Text(7)),
    ("default", Any(10)),
    ("pattern", Text(17)),
    ("uniqueItems", Bool(20)),
    ("enum", Anys(21)),
];

const IN_PATH: Fields = &[
    ("required", Bool(1)),
    ("in", Text(2)),
    ("description", Text(3)),
    ("name", Text(4)),
    ("type", Text(5)),
    ("format", Text(6)),
    ("default", Any(9)),
    ("pattern", Text(16)),
    ("uniqueItems", Bool(19)),
    ("enum", Anys(20)),
];

const SCHEMA: Fields = &[
    ("$ref", Text(1)),
    ("format", Text(2)),
    ("title", Text(3)),
    ("description", Text(4)),
    ("default", Any(5)),
    ("multipleOf", Double(6)),
    ("maximum", Double(7)),
    ("exclusiveMaximum", Bool(8)),
    ("minimum", Double(9)),
    ("exclusiveMinimum", Bool(10)),
    ("maxLength", Number(11)),
    ("minLength", Number(12)),
    ("pattern", Text(13)),
    ("maxItems", Number(14)),
    ("minItems", Number(15)),
    ("uniqueItems", Bool(16)),
    ("maxProperties", Number(17)),
    ("minProperties", Number(18)),
    ("required", Texts(19)),
    ("enum", Anys(20)),
    (
        "additionalProperties",
        Part(21, |value, out| match value.as_bool() {
            Some(any) => number(2, u64::from(any), out),
            None => message(1, out, |out| schema(value, out)),
        }),
    ),
    ("type", Part(22, |value, out| text(1, value.as_str().unwrap_or_default(), out))),
    ("items", Part(23, |value, out| message(1, out, |out| schema(value, out)))),
    ("allOf", Parts(24, schema)),
    ("properties", Named(25, 1, schema)),
    ("readOnly", Bool(27)),
    ("example", Any(30)),
];

/// Encodes the document.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 << 20);
    write(DOCUMENT, 16, document, &mut out);
    out
}

fn schema(value: &Value, out: &mut Vec<u8>) {
    write(SCHEMA, 31, value, out);
}

fn operation(value: &Value, out: &mut Vec<u8>) {
    write(OPERATION, 13, value, out);
}

fn parameters_item(value: &Value, out: &mut Vec<u8>) {
    if value.get("$ref").is_null() {
        message(1, out, |out| parameter(value, out));
    } else {
        message(2, out, |out| write(REFERENCE, 0, value, out));
    }
}

fn parameter(value: &Value, out: &mut Vec<u8>) {
    match value.get("in").as_str() {
        Some("body") => message(1, out, |out| write(BODY, 6, value, out)),
        Some("path") => {
            message(2, out, |out| message(4, out, |out| write(IN_PATH, 22, value, out)));
        }
        _ => message(2, out, |out| message(3, out, |out| write(QUERY, 23, value, out))),
    }
}

fn requirement(value: &Value, out: &mut Vec<u8>) {
    for (name, scopes) in value.entries() {
        message(1, out, |out| {
            text(1, name, out);
            message(2, out, |out| {
                scopes
                    .items()
                    .iter()
                    .filter_map(Value::as_str)
                    .for_each(|scope| text(1, scope, out));
            });
        });
    }
}

/// Writes the fields of a message, and its `x-` extensions under the tag `extensions`.
fn write(fields: Fields, extensions: u64, value: &Value, out: &mut Vec<u8>) {
    for (name, field) in fields {
        let value = value.get(name);
        if !value.is_null() {
            put(field, value, out);
        }
    }
    for (name, value) in value.entries().filter(|(name, _)| name.starts_with("x-")) {
        message(extensions, out, |out| {
            text(1, name, out);
            message(2, out, |out| any(value, out));
        });
    }
}

fn put(field: &Field, value: &Value, out: &mut Vec<u8>) {
    match *field {
        Text(tag) => text(tag, value.as_str().unwrap_or_default(), out),
        Texts(tag) => {
            value
                .items()
                .iter()
                .filter_map(Value::as_str)
                .for_each(|one| bytes(tag, one.as_bytes(), out));
        }
        Bool(tag) => number(tag, u64::from(value.as_bool().unwrap_or_default()), out),
        Number(tag) => number(tag, value.as_i64().unwrap_or_default().cast_unsigned(), out),
        Double(tag) => {
            varint(tag << 3 | 1, out);
            out.extend_from_slice(&value.as_f64().unwrap_or_default().to_le_bytes());
        }
        Any(tag) => message(tag, out, |out| any(value, out)),
        Anys(tag) => {
            value.items().iter().for_each(|one| message(tag, out, |out| any(one, out)));
        }
        Part(tag, write) => message(tag, out, |out| write(value, out)),
        Parts(tag, write) => {
            value.items().iter().for_each(|one| message(tag, out, |out| write(one, out)));
        }
        Named(tag, each, write) => message(tag, out, |out| {
            for (name, value) in value.entries() {
                message(each, out, |out| {
                    text(1, name, out);
                    message(2, out, |out| write(value, out));
                });
            }
        }),
    }
}

fn any(value: &Value, out: &mut Vec<u8>) {
    text(2, &to_yaml(value), out);
}

fn text(tag: u64, text: &str, out: &mut Vec<u8>) {
    if !text.is_empty() {
        bytes(tag, text.as_bytes(), out);
    }
}

fn number(tag: u64, n: u64, out: &mut Vec<u8>) {
    if n != 0 {
        varint(tag << 3, out);
        varint(n, out);
    }
}

fn message(tag: u64, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let mut inner = Vec::new();
    write(&mut inner);
    bytes(tag, &inner, out);
}

fn bytes(tag: u64, bytes: &[u8], out: &mut Vec<u8>) {
    varint(tag << 3 | 2, out);
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn varint(mut n: u64, out: &mut Vec<u8>) {
    while n >= 0x80 {
        out.push(n.to_le_bytes()[0] | 0x80);
        n >>= 7;
    }
    out.push(n.to_le_bytes()[0]);
}

#[cfg(test)]
mod tests {
    use object::from_json;

    use super::*;

    #[test]
    fn a_small_document() {
        let text = br#"{"swagger":"2.0","definitions":{"A":{"type":"object","x-b":true}}}"#;
        let made = encode(&from_json(text).expect("JSON"));
        let expected = b"\x0a\x032.0\x4a\x20\x0a\x1e\x0a\x01A\x12\x19\xb2\x01\x08\x0a\x06object\xfa\x01\x0b\x0a\x03x-b\x12\x04\x12\x05true\n";
        assert_eq!(made.len(), 5 + 2 + 2 + 3 + 2 + 3 + 8 + 3 + 5 + 2 + 2 + 5);
        assert!(made.starts_with(&expected[..6]), "{made:?}");
        assert!(made.ends_with(b"\x12\x07\x12\x05true\n"), "{made:?}");
    }
}
