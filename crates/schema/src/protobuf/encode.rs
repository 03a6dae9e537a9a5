//! Encodes a value as a protobuf message.

use object::{
    Bytes, Duration, Lens, ListMeta, MicroTime, ObjectMeta, ProtoEncoding, StructAlternative,
    StructSchema, Time, Type, Value, to_json,
};

use super::{
    MAGIC,
    wire::{put_bytes, put_double, put_length, put_message, put_number},
};

/// Encodes an object without its envelope.
pub fn encode(shape: &StructSchema, object: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(4096);
    fields(shape, object, &mut out);
    out
}

/// Encodes a list of encoded objects.
pub fn encode_list(meta: &Value, items: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut out = Vec::with_capacity(4096);
    put_message(1, &mut out, |out| fields(<ListMeta as Lens>::SHAPE, meta, out));
    items.for_each(|item| put_bytes(2, &item, &mut out));
    out
}

/// The start of a list in its envelope; `items` are the sizes of the encoded items. Each item
/// follows after its `encode_item_header`, and `ENVELOPE_TAIL` ends the list.
pub fn encode_list_header(
    (api_version, kind): (&str, &str),
    meta: &Value,
    items: impl Iterator<Item = usize>,
) -> Vec<u8> {
    let mut message = Vec::with_capacity(64);
    put_message(1, &mut message, |out| fields(<ListMeta as Lens>::SHAPE, meta, out));
    let mut head = Vec::with_capacity(16);
    let items: usize = items
        .map(|size| {
            head.clear();
            encode_item_header(size, &mut head);
            head.len() + size
        })
        .sum();
    let mut out = Vec::with_capacity(message.len() + 128);
    envelope(api_version, kind, &mut out);
    put_length(2, message.len() + items, &mut out);
    out.extend_from_slice(&message);
    out
}

/// Writes the header of a list item of this encoded size.
pub fn encode_item_header(size: usize, out: &mut Vec<u8>) {
    put_length(2, size, out);
}

/// The empty remaining fields of an envelope, after its message.
pub const ENVELOPE_TAIL: &[u8] = &[3 << 3 | 2, 0, 4 << 3 | 2, 0];

/// Encodes a PartialObjectMetadata.
pub fn encode_partial_object_metadata(meta: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    put_message(1, &mut out, |out| fields(<ObjectMeta as Lens>::SHAPE, meta, out));
    out
}

/// Encodes a watch event; the object includes its envelope.
pub fn encode_event(event: &str, object: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(object.len() + 32);
    put_bytes(1, event.as_bytes(), &mut out);
    put_message(2, &mut out, |out| put_bytes(1, object, out));
    out
}

/// Wraps an encoded object in its envelope, for storage and responses.
pub fn encode_envelope(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + 64);
    envelope(api_version, kind, &mut out);
    put_bytes(2, message, &mut out);
    out.extend_from_slice(ENVELOPE_TAIL);
    out
}

fn envelope(api_version: &str, kind: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(MAGIC);
    put_message(1, out, |out| {
        put_bytes(1, api_version.as_bytes(), out);
        put_bytes(2, kind.as_bytes(), out);
    });
}

fn fields(shape: &StructSchema, object: &Value, out: &mut Vec<u8>) {
    let Some(index) = shape.index() else { return }; // custom resources have no field numbers
    index.for_each_proto_field(object, |slot, value| match slot.encoding {
        _ if value.is_null() && !slot.always_encoded => {}
        ProtoEncoding::Text => match value {
            Value::Text(text) => put_bytes(slot.tag, text.as_bytes(), out),
            _ => put_length(slot.tag, 0, out),
        },
        ProtoEncoding::Int | ProtoEncoding::Bool => put_number(slot.tag, number(value), out),
        ProtoEncoding::Object(inner) => put_message(slot.tag, out, |out| fields(inner, value, out)),
        ProtoEncoding::List(item) => items(slot.tag, item, value, out),
        ProtoEncoding::Map(item) => entries(slot.tag, item, value, out),
        ProtoEncoding::Raw => put(slot.tag, &Type::Any, value, out),
        ProtoEncoding::ByType(ty) => put(slot.tag, ty, value, out),
    });
}

fn number(value: &Value) -> u64 {
    match value {
        Value::Int(n) => n.cast_unsigned(),
        value => u64::from(value.as_bool() == Some(true)),
    }
}

fn items(tag: u32, item: &Type, list: &Value, out: &mut Vec<u8>) {
    list.items().iter().for_each(|value| put(tag, item, value, out));
}

fn entries(tag: u32, item: &Type, map: &Value, out: &mut Vec<u8>) {
    for (key, value) in map.entries() {
        put_message(tag, out, |out| {
            put_bytes(1, key.as_bytes(), out);
            put(2, item, value, out);
        });
    }
}

fn put(tag: u32, ty: &Type, value: &Value, out: &mut Vec<u8>) {
    match ty {
        Type::Object(shape) => put_message(tag, out, |out| fields(shape, value, out)),
        Type::Text | Type::Enum(_) => {
            put_bytes(tag, value.as_str().unwrap_or_default().as_bytes(), out);
        }
        Type::Bool | Type::Int32 | Type::Int64 => put_number(tag, number(value), out),
        Type::UInt64 => put_number(tag, <u64 as object::View>::view(value), out),
        Type::Float => put_double(tag, value.as_f64().unwrap_or_default(), out),
        Type::Bytes => {
            let bytes = Bytes::decode(value.as_str().unwrap_or_default()).unwrap_or_default();
            put_bytes(tag, &bytes, out);
        }
        Type::Quantity => put_message(tag, out, |out| {
            put_bytes(1, value.as_str().unwrap_or_default().as_bytes(), out);
        }),
        Type::Time => {
            let seconds = value.as_str().and_then(Time::parse_seconds);
            moment(tag, seconds.map(|seconds| (seconds, 0)), out);
        }
        Type::MicroTime => {
            let micros = value.as_str().and_then(MicroTime::parse_micros);
            let parts = |n: i64| (n.div_euclid(1_000_000), n.rem_euclid(1_000_000) * 1000);
            moment(tag, micros.map(parts), out);
        }
        Type::Duration => put_message(tag, out, |out| {
            let nanos =
                Duration::parse_nanos(value.as_str().unwrap_or_default()).unwrap_or_default();
            put_number(1, nanos.cast_unsigned(), out);
        }),
        Type::IntOrString => put_message(tag, out, |out| {
            let text = value.as_str();
            put_number(1, u64::from(text.is_some()), out);
            put_number(2, value.as_i64().unwrap_or_default().cast_unsigned(), out);
            put_bytes(3, text.unwrap_or_default().as_bytes(), out);
        }),
        Type::Any => put_message(tag, out, |out| {
            if !value.is_null() {
                put_bytes(1, &to_json(value), out);
            }
        }),
        Type::StructOr(shape, plain) => {
            put_message(tag, out, |out| either(shape, *plain, value, out));
        }
        // A list inside a map or list is a nested message.
        Type::List(item) => put_message(tag, out, |out| items(1, item, value, out)),
        Type::Map(item) => put_message(tag, out, |out| entries(1, item, value, out)),
    }
}

/// Encodes a struct or its alternative: two fields of one message.
fn either(shape: &StructSchema, plain: StructAlternative, value: &Value, out: &mut Vec<u8>) {
    let at = if plain == StructAlternative::Bool { 2 } else { 1 };
    if plain == StructAlternative::Bool {
        put_number(1, u64::from(value.is_object() || value.as_bool() == Some(true)), out);
    }
    if value.is_object() {
        return put_message(at, out, |out| fields(shape, value, out));
    }
    for item in value.items() {
        match item {
            Value::Text(text) => put_bytes(2, text.as_bytes(), out),
            item => put_message(2, out, |out| fields(shape, item, out)),
        }
    }
}

/// Encodes seconds and nanoseconds; no time is an empty message.
fn moment(tag: u32, moment: Option<(i64, i64)>, out: &mut Vec<u8>) {
    put_message(tag, out, |out| {
        if let Some((seconds, nanos)) = moment {
            put_number(1, seconds.cast_unsigned(), out);
            put_number(2, nanos.cast_unsigned(), out);
        }
    });
}

#[cfg(test)]
mod tests {
    use object::{FieldId, from_json};

    use super::*;

    #[test]
    fn other_fields_hide_none() {
        let written = |meta: &Value| encode(<ObjectMeta as Lens>::SHAPE, meta);
        let meta = from_json(br#"{"labels":{"a":"b"},"name":"n","uid":"u"}"#).unwrap();
        assert!(written(&meta).starts_with(b"\x0a\x01n"));
        let mut named = meta.clone();
        named["no word"] = 1.into();
        assert_eq!(written(&named), written(&meta));
        let mut fields: Vec<_> = (0..300).map(|n| (FieldId::from_index(n), Value::Null)).collect();
        fields.extend_from_slice(meta.interned_fields());
        assert_eq!(written(&Value::from_fields(fields)), written(&meta));
    }
}
