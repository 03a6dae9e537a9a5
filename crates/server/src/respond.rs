//! Responses: encodes objects, lists and statuses.

use std::sync::Arc;

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WARNING},
};
use object::{Lens, Object, Status, Value, View, to_json, to_json_pretty, yaml::to_yaml};
use ref_cast::RefCast;
use schema::{ResourceDefinition, protobuf};
use store::Version;

use crate::{
    Body, ListResult, Query, Reply, ServedResource, audit,
    body::full,
    cbor,
    document_list::streamed_list,
    encodings::{EncodingCache, write_kind},
    negotiate::{
        Encoding, EndpointRestrictions, MediaTypeOptions, Representation, negotiate,
        negotiate_failure, not_acceptable,
    },
    table,
};

/// Replies with a Status in JSON.
pub fn status_reply(status: &Status) -> Reply {
    status_as(status, MediaTypeOptions::JSON)
}

/// Replies with a Status in a negotiated form.
pub(crate) fn status_as(status: &Status, form: MediaTypeOptions) -> Reply {
    audit::note_status(status);
    let code = match status.code() {
        code if code < 100 => 200,
        // A Status from a webhook may have a code that HTTP does not.
        code => u16::try_from(code).ok().filter(|code| *code < 600).unwrap_or(500),
    };
    let mut object = status.tree().clone();
    if status.code() >= 600 {
        object["code"] = i64::from(code).into();
    }
    object["kind"] = "Status".into();
    object["apiVersion"] = "v1".into();
    if object.get("metadata").is_null() {
        object["metadata"] = Value::object();
    }
    let body = match form.format {
        Encoding::Protobuf => sealed_status(&object),
        _ => text(&object, form),
    };
    let mut reply = raw(code, form.media_type(), body);
    let wait = status.details().map_or(0, object::StatusDetails::retry_after_seconds);
    if wait > 0 {
        reply.headers_mut().insert(RETRY_AFTER, wait.into());
    }
    reply
}

/// Replies with a Status in the form that the request accepts.
pub fn status_reply_as(headers: &HeaderMap, query: &Query, status: &Status) -> Reply {
    status_as(status, negotiate_failure(headers, query))
}

/// Replies with an object of any kind in the form that the request accepts.
pub fn reply_as(
    headers: &HeaderMap,
    query: &Query,
    definition: &ResourceDefinition,
    (code, object): (u16, &Value),
    now: i64,
) -> Result<Reply, Status> {
    // Kinds that can only be created, such as reviews, have no table; subresource kinds have no
    // verbs.
    let verbs = &definition.verbs;
    let has_rows = !definition.columns.is_empty() && (verbs.is_empty() || verbs.contains(&"get"));
    let offer = if has_rows { EndpointRestrictions::Object } else { EndpointRestrictions::Part };
    let form = negotiate(headers, query, offer)?;
    audit::log_response_object(|| object.clone());
    Ok(match form.representation {
        Representation::Object => encoded(definition, code, object, form),
        Representation::Table => {
            let table = table::subresource_table(definition, object, form, now);
            raw(code, form.media_type(), text(&table, form))
        }
        Representation::Metadata => partial_reply(code, object, form),
    })
}

/// Replies with an object in a negotiated text form.
pub(crate) fn text_as(code: u16, object: &Value, form: MediaTypeOptions) -> Reply {
    raw(code, form.media_type(), text(object, form))
}

/// Replies with an object as JSON.
pub fn object_reply(code: u16, object: &Value) -> Reply {
    raw(code, MediaTypeOptions::JSON.media_type(), line(object))
}

/// Replies with plain text.
pub fn plain_reply(text: String) -> Reply {
    raw(200, "text/plain; charset=utf-8", text)
}

pub(crate) fn raw(code: u16, media_type: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(full(body));
    *reply.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    reply
}

/// The response for a path that is not served.
pub(crate) fn page_not_found() -> Reply {
    text_reply(404, "404 page not found")
}

/// Replies with plain text and a status code, from handlers outside of the API.
pub fn text_reply(code: u16, said: &str) -> Reply {
    let mut reply = raw(code, "text/plain; charset=utf-8", format!("{said}\n"));
    let plain = HeaderValue::from_static("nosniff");
    reply.headers_mut().insert("x-content-type-options", plain);
    reply
}

/// The error for a method that the resource does not support.
pub(crate) fn no_method() -> Status {
    Status::method_not_allowed("the server does not allow this method on the requested resource")
        .with_details(object::StatusDetails::new())
}

/// Replies with a streamed body.
pub(crate) fn streaming(media_type: &'static str, body: Body) -> Reply {
    let mut reply = Response::new(body);
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    reply
}

/// Adds Warning headers to a response.
pub fn warn(headers: &mut HeaderMap, warnings: &[String]) {
    for warning in bounded(warnings) {
        if warning.chars().any(char::is_control) {
            continue; // not allowed in a header
        }
        let text = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{text}\"").as_bytes()) {
            headers.append(WARNING, value);
        }
    }
}

/// The warnings that fit into the headers. If their total length is too large, each is truncated,
/// and the last ones are dropped.
fn bounded(warnings: &[String]) -> Vec<&str> {
    const TOTAL: usize = 4_096;
    const EACH: usize = 256;
    let length = |text: &str| text.chars().count();
    if warnings.iter().map(|warning| length(warning)).sum::<usize>() <= TOTAL {
        return warnings.iter().map(String::as_str).collect();
    }
    let cut = |text: &'_ String| text.char_indices().nth(EACH).map_or(text.len(), |(at, _)| at);
    let mut total = 0;
    let short = warnings.iter().map(|warning| warning.get(..cut(warning)).unwrap_or_default());
    short
        .take_while(|text| {
            let fits = total < TOTAL;
            total += length(text);
            fits
        })
        .collect()
}

/// Converts an object to the version of the request and sets its resourceVersion.
pub(crate) fn to_response_object(served: &ServedResource, revision: u64, object: &Value) -> Value {
    let mut object = object.clone();
    served.to_request_version(&mut object);
    with_resource_version(revision, object)
}

/// Sets the resourceVersion. The version of the object does not matter for metadata.
pub(crate) fn with_resource_version(revision: u64, mut object: Value) -> Value {
    if revision > 0 {
        let meta = Object::ref_cast_mut(&mut object).metadata_mut();
        meta.set_resource_version(revision.to_string());
    }
    object
}

/// Replies with a stored object.
pub(crate) fn object_response(
    served: &ServedResource,
    code: u16,
    version: &Version<Value>,
    form: MediaTypeOptions,
    now: i64,
) -> Result<Reply, Status> {
    let object = to_response_object(served, version.revision, &version.object);
    audit::log_response_object(|| object.clone());
    Ok(match form.representation {
        Representation::Object => encoded(&served.definition, code, &object, form),
        Representation::Table => {
            let rows = [(version.revision, &version.object)];
            raw(code, form.media_type(), text(&table::table(served, &rows, form, now), form))
        }
        Representation::Metadata if form.list => {
            return Err(not_acceptable(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list \
                 (*{})",
                go_name(served)
            )));
        }
        Representation::Metadata => partial_reply(
            code,
            &with_resource_version(version.revision, version.object.clone()),
            form,
        ),
    })
}

fn partial_reply(code: u16, object: &Value, form: MediaTypeOptions) -> Reply {
    let object = partial(object, form);
    let body = match form.format {
        Encoding::Protobuf => sealed_partial(&object, form),
        _ => text(&object, form),
    };
    raw(code, form.media_type(), body)
}

/// Replies with a stored object, encoded from the cache if possible.
pub(crate) fn cached_object_response(
    encodings: &EncodingCache,
    served: &ServedResource,
    version: &Arc<Version<Value>>,
    form: MediaTypeOptions,
    now: i64,
) -> Result<Reply, Status> {
    if form.representation != Representation::Object || !form.is_cacheable() {
        return object_response(served, 200, version, form, now);
    }
    audit::log_response_object(|| to_response_object(served, version.revision, &version.object));
    let bytes = encodings.encode(served, form.format, version.revision, version);
    let mut out = Vec::with_capacity(bytes.len() + 64);
    if form.format == Encoding::Protobuf {
        let names = &served.definition.names;
        out = protobuf::encode_envelope(&names.api_version(), names.kind, &bytes);
    } else {
        write_kind(served, &mut out);
        out.extend_from_slice(&bytes);
        out.push(b'\n');
    }
    Ok(raw(200, form.media_type(), out))
}

/// The Go type name of the kind, such as `core.ConfigMap`.
fn go_name(served: &ServedResource) -> String {
    let names = &served.definition.names;
    let package = match names.group.split('.').next() {
        None | Some("") => "core",
        Some(package) => package,
    };
    format!("{package}.{}", names.kind)
}

/// Replies with an object in a negotiated form.
pub(crate) fn encoded(
    definition: &ResourceDefinition,
    code: u16,
    object: &Value,
    form: MediaTypeOptions,
) -> Reply {
    let body = match form.format {
        Encoding::Protobuf => encode_protobuf(definition, object),
        Encoding::Cbor => cbor::encode_document(shape_of(definition), object),
        _ => text(object, form),
    };
    raw(code, form.media_type(), body)
}

/// The schema that marks byte fields; custom resources have none.
pub(crate) fn shape_of(definition: &ResourceDefinition) -> Option<&object::StructSchema> {
    definition.is_built_in().then_some(&*definition.schema)
}

/// Encodes an object as YAML, CBOR, or compact or indented JSON.
fn text(object: &Value, form: MediaTypeOptions) -> Vec<u8> {
    match form.format {
        Encoding::Yaml => to_yaml(object).into_bytes(),
        Encoding::Cbor => cbor::encode_document(None, object),
        _ if form.pretty => to_json_pretty(object),
        _ => line(object),
    }
}

/// Encodes a Status as protobuf, with its envelope.
pub(crate) fn sealed_status(status: &Value) -> Vec<u8> {
    let shape = <Status as Lens>::SHAPE;
    protobuf::encode_envelope("v1", "Status", &protobuf::encode(shape, status))
}

/// Encodes a PartialObjectMetadata as protobuf, with its envelope.
pub(crate) fn sealed_partial(partial: &Value, form: MediaTypeOptions) -> Vec<u8> {
    let message = protobuf::encode_partial_object_metadata(Object::view(partial).metadata().tree());
    protobuf::encode_envelope(form.version, "PartialObjectMetadata", &message)
}

/// Encodes an object as protobuf, with its envelope.
pub(crate) fn encode_protobuf(definition: &ResourceDefinition, object: &Value) -> Vec<u8> {
    let names = &definition.names;
    let message = protobuf::encode(&definition.schema, object);
    protobuf::encode_envelope(&names.api_version(), names.kind, &message)
}

/// Replies with a list or a page of one.
pub(crate) fn list_response(
    encodings: &Arc<EncodingCache>,
    served: &ServedResource,
    list: ListResult,
    form: MediaTypeOptions,
    now: i64,
) -> Result<Reply, Status> {
    let mut head = Value::object();
    head["resourceVersion"] = list.revision.to_string().into();
    if !list.token.is_empty() {
        head["continue"] = list.token.as_str().into();
    }
    if let Some(remaining) = list.remaining {
        head["remainingItemCount"] = i64::try_from(remaining).unwrap_or(i64::MAX).into();
    }
    audit::log_response_object(|| {
        let mut object = named_list(served);
        object["metadata"] = head.clone();
        object["items"] = list.items.iter().map(|version| bare(served, version)).collect();
        object
    });
    let list = match streamed_list(encodings, served, list, (&head, form), now) {
        Ok(reply) => return Ok(reply),
        Err(list) => list,
    };
    let body = match (form.representation, form.format) {
        (Representation::Table, _) => {
            let rows: Vec<_> =
                list.items.iter().map(|version| (version.revision, &version.object)).collect();
            let mut table = table::table(served, &rows, form, now);
            table["metadata"] = head;
            text(&table, form)
        }
        (Representation::Metadata, _) if !form.list => {
            return Err(not_acceptable(format!(
                "you requested PartialObjectMetadata, but the requested object is a list (*{}List)",
                go_name(served)
            )));
        }
        (Representation::Metadata, format) => {
            let items = list.items.iter();
            let shown = items.map(|item| with_resource_version(item.revision, item.object.clone()));
            if format == Encoding::Protobuf {
                let items = shown.map(|object| {
                    protobuf::encode_partial_object_metadata(
                        Object::view(&object).metadata().tree(),
                    )
                });
                let message = protobuf::encode_list(&head, items);
                protobuf::encode_envelope(form.version, "PartialObjectMetadataList", &message)
            } else {
                let mut object = Value::object();
                object["kind"] = "PartialObjectMetadataList".into();
                object["apiVersion"] = form.version.into();
                object["metadata"] = head;
                // Like upstream, an empty list is null.
                object["items"] = match list.items.is_empty() {
                    true => Value::Null,
                    false => shown.map(|object| partial(&object, form)).collect(),
                };
                text(&object, form)
            }
        }
        (Representation::Object, Encoding::Cbor) => {
            let items: Vec<_> = list.items.iter().map(|version| bare(served, version)).collect();
            let (kind, definition) = (served.definition.list_kind(), &served.definition);
            let names = (&*definition.names.api_version(), &*kind);
            cbor::list(shape_of(definition), names, &head, &items)
        }
        (Representation::Object, _) => {
            let mut object = named_list(served);
            object["metadata"] = head;
            let item = |version: &Arc<Version<Value>>| bare(served, version);
            object["items"] = list.items.iter().map(item).collect();
            text(&object, form)
        }
    };
    Ok(raw(200, form.media_type(), body))
}

/// Replies with a list of objects that are not stored, in the form that the request accepts.
pub fn list_as(
    headers: &HeaderMap,
    query: &Query,
    served: &ServedResource,
    items: &[Value],
    now: i64,
) -> Result<Reply, Status> {
    let form = negotiate(headers, query, EndpointRestrictions::List)?;
    let (definition, meta) = (&served.definition, Value::object());
    let (kind, version) = (definition.list_kind(), definition.names.api_version());
    audit::log_response_object(|| listed(served, &meta, items));
    let body = match (form.representation, form.format) {
        (Representation::Table, _) => {
            let rows: Vec<_> = items.iter().map(|item| (0, item)).collect();
            let mut table = table::table(served, &rows, form, now);
            table["metadata"] = meta;
            text(&table, form)
        }
        (Representation::Metadata, format) => {
            if format == Encoding::Protobuf {
                let items = items.iter();
                let items = items.map(|item| {
                    protobuf::encode_partial_object_metadata(Object::view(item).metadata().tree())
                });
                let message = protobuf::encode_list(&meta, items);
                protobuf::encode_envelope(form.version, "PartialObjectMetadataList", &message)
            } else {
                let mut object = Value::object();
                object["kind"] = "PartialObjectMetadataList".into();
                object["apiVersion"] = form.version.into();
                object["metadata"] = meta;
                object["items"] = items.iter().map(|item| partial(item, form)).collect();
                text(&object, form)
            }
        }
        (Representation::Object, Encoding::Protobuf) => {
            let items = items.iter().map(|item| protobuf::encode(&definition.schema, item));
            protobuf::encode_envelope(&version, &kind, &protobuf::encode_list(&meta, items))
        }
        (Representation::Object, _) => text(&listed(served, &meta, items), form),
    };
    Ok(raw(200, form.media_type(), body))
}

fn listed(served: &ServedResource, meta: &Value, items: &[Value]) -> Value {
    let mut object = named_list(served);
    object["metadata"] = meta.clone();
    let bare = items.iter().map(|item| {
        let mut item = item.clone();
        item.remove("apiVersion");
        item.remove("kind");
        item
    });
    object["items"] = bare.collect();
    object
}

pub(crate) fn named_list(served: &ServedResource) -> Value {
    let names = &served.definition.names;
    let mut object = Value::object();
    object["kind"] = served.definition.list_kind().into();
    object["apiVersion"] = names.api_version().into();
    object
}

/// An item of a list: without kind and apiVersion if it is of a built-in kind.
pub(crate) fn bare(served: &ServedResource, version: &Version<Value>) -> Value {
    let mut object = to_response_object(served, version.revision, &version.object);
    if served.definition.is_built_in() {
        object.remove("apiVersion");
        object.remove("kind");
    }
    object
}

/// The PartialObjectMetadata of an object.
pub(crate) fn partial(object: &Value, form: MediaTypeOptions) -> Value {
    let mut partial = Value::object();
    partial["kind"] = "PartialObjectMetadata".into();
    partial["apiVersion"] = form.version.into();
    partial["metadata"] = Object::view(object).metadata().tree().clone();
    partial
}

fn line(object: &Value) -> Vec<u8> {
    let mut out = to_json(object);
    out.push(b'\n');
    out
}
