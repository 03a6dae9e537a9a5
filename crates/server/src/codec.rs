//! Decodes request bodies into values, with upstream's error messages.

use std::{borrow::Cow, sync::Arc};

use http::{HeaderMap, header::CONTENT_TYPE};
use object::{
    JsonError, Lens, Object, Status, StatusDetails, StrictError, Value, View,
    from_json_preserving_source, from_json_strict, yaml::from_yaml_with_duplicates,
};
use schema::{ErrorList, FieldPath, ResourceDefinition, ResourceNames, protobuf};

use crate::{
    Query, ServedResources, audit, cbor, negotiate::accepted, rejection::Rejection,
    respond::shape_of,
};

/// The `fieldValidation` option: what to do about unknown and duplicate fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// A decoded request body, in the version of the request.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    pub object: Value,
    pub warnings: Vec<String>,
}

/// Decodes an object of this kind. Its `apiVersion` and `kind` must match, or be empty.
pub fn decode_body(
    kinds: &ServedResources,
    definition: &ResourceDefinition,
    headers: &HeaderMap,
    query: &Query,
    body: &[u8],
) -> Result<Decoded, Status> {
    let (mut object, twice) = parse(definition, headers, query, body)?;
    check_type(kinds, &object, definition, twice.text.as_deref())?;
    let read = read_as(kinds, &object, definition);
    let warnings = coerce_body(read.as_deref().unwrap_or(definition), query, &mut object, &twice)?;
    audit::log_request_object(|| {
        let mut sent = object.clone();
        definition.apply_defaults(&mut sent);
        definition.normalize(&mut sent);
        sent
    });
    Ok(Decoded { object, warnings })
}

/// Checks that a custom resource has the apiVersion of the request path.
pub(crate) fn same_version(object: &Value, definition: &ResourceDefinition) -> Result<(), Status> {
    let (given, expected) = (Object::view(object).api_version(), definition.names.api_version());
    if definition.is_built_in() || given == expected {
        return Ok(());
    }
    Err(Status::bad_request(format!(
        "the API version in the data ({given}) does not match the expected API version ({expected})"
    )))
}

/// The definition that decodes a custom resource whose `apiVersion` is another version of the same
/// kind. For a version that is not served only the metadata is known.
fn read_as(
    kinds: &ServedResources,
    object: &Value,
    definition: &ResourceDefinition,
) -> Option<Arc<ResourceDefinition>> {
    let (named, names) = (Object::view(object), &definition.names);
    let version = named.api_version().strip_prefix(names.group)?.strip_prefix('/')?;
    if definition.is_built_in() || version == names.version || named.kind() != names.kind {
        return None;
    }
    let known = kinds.by_kind(names.group, version, names.kind).map(|known| known.definition);
    let nothing = || ResourceDefinition::without_resource(*names, Object::SHAPE);
    Some(known.unwrap_or_else(|| Arc::new(nothing())))
}

/// What strict decoding has found in a body: duplicate and unknown fields.
#[derive(Clone, Debug, Default)]
pub(crate) struct StrictFindings<'a> {
    /// Findings of the JSON decoder, which knows the fields of built-in kinds.
    odd: Vec<StrictError>,
    /// Messages of the YAML decoder.
    lines: Vec<String>,
    /// Index within its map of the first unknown field, all that the CBOR decoder reports.
    at: Option<usize>,
    /// The JSON text, because type errors are reported in its order and quote its numbers.
    text: Option<Cow<'a, [u8]>>,
}

impl<'a> StrictFindings<'a> {
    /// The findings of the JSON decoder about this text.
    pub(crate) fn written(text: Option<&'a String>, odd: Vec<StrictError>) -> Self {
        Self { text: text.map(|text| text.as_bytes().into()), odd, ..Self::default() }
    }
}

/// Coerces a value to the schema of the kind, and returns the warnings of strict decoding.
pub(crate) fn coerce_body(
    definition: &ResourceDefinition,
    query: &Query,
    object: &mut Value,
    twice: &StrictFindings<'_>,
) -> Result<Vec<String>, Status> {
    let mut unknown = Vec::new();
    definition.coerce(object, &mut unknown).map_err(|why| {
        decode_error(definition, &as_written(definition, twice.text.as_deref(), why))
    })?;
    // Duplicates inside an unknown field are not reported.
    let is_told = |odd: &&StrictError| match odd {
        StrictError::UnknownField(_) => true,
        StrictError::DuplicateField(path) => !unknown.iter().any(|unknown| {
            path.strip_prefix(&**unknown)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        }),
    };
    let all_told = twice.odd.iter().any(|odd| matches!(odd, StrictError::UnknownField(_)));
    let validation = validation(query);
    let lines = match validation {
        FieldValidation::Strict if !twice.lines.is_empty() => {
            vec![format!("yaml: unmarshal errors:\n  {}", twice.lines.join("\n  "))]
        }
        _ => twice.lines.clone(),
    };
    let untold = unknown.iter().filter(|_| !all_told && twice.at.is_none());
    let at = twice.at.map(|at| format!("cbor: found unknown field at map element index {at}"));
    let odd: Vec<String> = lines
        .into_iter()
        .chain(at)
        .chain(untold.map(|path| format!("unknown field {path:?}")))
        .chain(twice.odd.iter().filter(is_told).map(ToString::to_string))
        .collect();
    match validation {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Strict if !odd.is_empty() => {
            let kind = definition.names.kind;
            let version = definition.names.version;
            let odd = odd.join(", ");
            Err(Status::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: strict decoding \
                 error: {odd}"
            )))
        }
        _ => Ok(odd),
    }
}

/// Decodes a body according to its content type.
fn parse<'a>(
    definition: &ResourceDefinition,
    headers: &HeaderMap,
    query: &Query,
    body: &'a [u8],
) -> Result<(Value, StrictFindings<'a>), Status> {
    let names = &definition.names;
    let unreadable = |error: &dyn std::fmt::Display| {
        unrecognized(
            names.kind,
            &format!("couldn't get version/kind; json parse error: {error}"),
            body,
        )
    };
    let mut twice = StrictFindings::default();
    let object = match &*body_type(headers, query)? {
        "" | "application/json" => {
            let text = twice.text.insert(replace_invalid_utf8(body));
            from_text(definition, text, &mut twice.odd, &unreadable)?
        }
        "application/yaml" => {
            let text = std::str::from_utf8(body)
                .map_err(|_| unrecognized(names.kind, "yaml: invalid leading UTF-8 octet", body))?;
            let (object, lines) = from_yaml_with_duplicates(text)
                .map_err(|error| unrecognized(names.kind, &error.to_string(), body))?;
            twice.lines = lines;
            object
        }
        "application/vnd.kubernetes.protobuf" => from_message(definition, body)?,
        "application/cbor" if query.cbor => {
            let read = cbor::read(shape_of(definition), body).map_err(|error| match error {
                cbor::Error::Misfit(why) => decode_error(definition, &why),
                other => {
                    let why = format!("unable to determine group/version/kind: {other}");
                    unrecognized(names.kind, &why, body)
                }
            })?;
            twice.at = read.unknown;
            read.tree
        }
        _ => return Err(unsupported(query)),
    };
    let mut object = if object.is_null() { Value::object() } else { object };
    typed(&object).map_err(|why| unreadable(&why))?;
    let version = Object::view(&object).api_version();
    if version.matches('/').count() > 1 {
        let why = format!("unexpected GroupVersion string: {version}");
        return Err(unrecognized(names.kind, &why, body));
    }
    if object.is_object() {
        let named = Object::view(&object);
        let (version, kind) = (named.api_version().is_empty(), named.kind().is_empty());
        if definition.is_custom() && (version || kind) {
            unnamed(names, query, (kind, &object), body)?;
            return Ok((object, twice));
        }
        if version {
            object["apiVersion"] = names.api_version().into();
        }
        if kind {
            object["kind"] = names.kind.into();
        }
    }
    Ok((object, twice))
}

/// Checks that `apiVersion` and `kind` are strings, so that the type can be determined.
pub(crate) fn typed(object: &Value) -> Result<(), String> {
    if let Some(what) = other_than_object(object) {
        return Err(format!(
            "json: cannot unmarshal {what} into Go value of type struct {{ APIVersion string \
             \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
        ));
    }
    for name in ["apiVersion", "kind"] {
        let value = object.get(name);
        if !(value.is_null() || value.as_str().is_some()) {
            let what = other_than_object(value).unwrap_or("object");
            return Err(format!(
                "json: cannot unmarshal {what} into Go struct field .{name} of type string"
            ));
        }
    }
    Ok(())
}

/// Decodes JSON. A number that no type can hold is reported as a type error of its field, if the
/// field is known.
fn from_text(
    definition: &ResourceDefinition,
    text: &[u8],
    odd: &mut Vec<StrictError>,
    unreadable: &dyn Fn(&dyn std::fmt::Display) -> Status,
) -> Result<Value, Status> {
    let shape = definition.is_built_in().then_some(&*definition.schema);
    from_json_strict(text, shape, odd).map_err(|error| match error {
        JsonError::Number(_) => match as_written(definition, Some(text), String::new()).as_str() {
            "" => unreadable(&error),
            why => decode_error(definition, why),
        },
        error => unreadable(&error),
    })
}

/// Handles a custom resource that lacks `kind` or `apiVersion`: a missing `kind` is an error, a
/// missing `apiVersion` only under strict validation.
fn unnamed(
    names: &ResourceNames,
    query: &Query,
    (kind, object): (bool, &Value),
    body: &[u8],
) -> Result<(), Status> {
    let validation = validation(query);
    if !kind && validation == FieldValidation::Strict {
        let why = "Object 'apiVersion' is missing in 'object has no apiVersion field'";
        return Err(Status::bad_request(why));
    } else if !kind {
        return Ok(());
    }
    let text = match body.starts_with(cbor::MAGIC) {
        true => String::from_utf8_lossy(&object::to_json(object)).into_owned(),
        false => String::from_utf8_lossy(body).into_owned(),
    };
    let why = format!("Object 'Kind' is missing in '{text}'");
    let (own, version) = (names.kind, names.version);
    Err(match validation {
        FieldValidation::Ignore => Status::bad_request(format!(
            "{own} in version {version:?} cannot be handled as a {own}: {why}"
        )),
        _ => unrecognized(own, &why, body),
    })
}

fn from_message(definition: &ResourceDefinition, body: &[u8]) -> Result<Value, Status> {
    let names = &definition.names;
    if body == protobuf::MAGIC {
        return Err(unrecognized(names.kind, "empty body", body));
    }
    let opened = protobuf::decode_envelope(body)
        .map_err(|_| unrecognized(names.kind, envelope_error(body), body))?;
    let message = protobuf::decode(&definition.schema, opened.message)
        .map_err(|_| decode_error(definition, "unexpected EOF"))?;
    let named = Object::from(message).with_api_version(opened.api_version);
    Ok(named.with_kind(opened.kind).into())
}

/// Why a protobuf envelope cannot be decoded.
pub(crate) fn envelope_error(body: &[u8]) -> &'static str {
    match body {
        [] => "empty data",
        body if body.starts_with(protobuf::MAGIC) => "unexpected EOF",
        _ => {
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        }
    }
}

/// Replaces invalid UTF-8 inside strings by U+FFFD, as Go's JSON decoder does.
pub(crate) fn replace_invalid_utf8(body: &[u8]) -> Cow<'_, [u8]> {
    if std::str::from_utf8(body).is_ok() {
        return Cow::Borrowed(body);
    }
    let (mut out, mut inside, mut escaped) = (Vec::with_capacity(body.len()), false, false);
    for chunk in body.utf8_chunks() {
        for byte in chunk.valid().bytes() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if inside => escaped = true,
                b'"' => inside = !inside,
                _ => {}
            }
        }
        out.extend_from_slice(chunk.valid().as_bytes());
        for byte in chunk.invalid() {
            match inside {
                true => out.extend_from_slice("\u{fffd}".as_bytes()),
                false => out.push(*byte),
            }
        }
    }
    Cow::Owned(out)
}

/// The JSON type of a value that is not an object.
pub(crate) fn other_than_object(tree: &Value) -> Option<&'static str> {
    match tree {
        Value::List(_) => Some("array"),
        tree if tree.is_object() => None,
        tree if tree.as_str().is_some() => Some("string"),
        tree if tree.as_bool().is_some() => Some("bool"),
        _ => Some("number"),
    }
}

/// The type error that Go's decoder reports: the first one in the order of the text, with numbers
/// as written.
fn as_written(definition: &ResourceDefinition, text: Option<&[u8]>, why: String) -> String {
    let text = text.filter(|_| definition.is_built_in());
    let tree = text.and_then(|text| from_json_preserving_source(text).ok());
    tree.and_then(|mut tree| definition.coerce(&mut tree, &mut Vec::new()).err()).unwrap_or(why)
}

fn decode_error(definition: &ResourceDefinition, why: &str) -> Status {
    let (kind, version) = (definition.names.kind, definition.names.version);
    Status::bad_request(format!(
        "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
    ))
}

fn unrecognized(kind: &str, why: &str, body: &[u8]) -> Status {
    let shown = summary(body);
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({shown})"
    ))
}

/// Encodes bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| digits(*byte)).collect()
}

fn digits(byte: u8) -> [char; 2] {
    [byte >> 4, byte & 15].map(|n| char::from_digit(n.into(), 16).unwrap_or_default())
}

/// The beginning of a body for an error message: as text if it looks like JSON, else in
/// hexadecimal.
fn summary(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    let (first, more) = (body.get(..SHOWN).unwrap_or(body), body.len() > SHOWN);
    let text = match first.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(first).into_owned(),
        Some(_) => hex(first),
    };
    if more { text + " ..." } else { text }
}

/// The error for an unsupported content type.
pub(crate) fn unsupported(query: &Query) -> Status {
    let accepted = accepted(query);
    let said = format!(
        "the body of the request was in an unknown format - accepted media types include: {accepted}"
    );
    Status::failure(415, "UnsupportedMediaType", said)
}

/// The error for an unsupported content type of a patch.
pub(crate) fn unsupported_patch(definition: &ResourceDefinition, query: &Query) -> Rejection {
    if definition.is_custom() {
        let cbor = if query.cbor { ", application/apply-patch+cbor" } else { "" };
        let said = format!(
            "the body of the request was in an unknown format - accepted media types include: \
             application/json-patch+json, application/merge-patch+json, \
             application/apply-patch+yaml{cbor}"
        );
        return Status::failure(415, "UnsupportedMediaType", said).into();
    }
    let said = "415: Unsupported Media Type";
    let status = Status::failure(415, "UnsupportedMediaType", said);
    Rejection::Router(status.with_details(StatusDetails::new()))
}

/// The media type of a body, without parameters.
pub(crate) fn media_type(headers: &HeaderMap) -> &str {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().split(';').next().unwrap_or_default().trim()
}

/// The media type of an object's body, in lower case; an error if it is not supported or its
/// parameters are malformed.
pub(crate) fn body_type(headers: &HeaderMap, query: &Query) -> Result<String, Status> {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let said = value.trim_end().trim_end_matches(';').split(';').skip(1);
    let is_read =
        |said: &str| said.split_once('=').is_some_and(|(name, _)| !name.trim().is_empty());
    let known = ["", "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
    let media_type = media_type(headers).to_ascii_lowercase();
    let is_known = known.contains(&&*media_type) || query.cbor && media_type == "application/cbor";
    if is_known && said.into_iter().all(is_read) { Ok(media_type) } else { Err(unsupported(query)) }
}

/// Checks that the object has the kind and version of the resource. An object of another known kind
/// must first be valid for that kind, because upstream decodes it before it rejects it.
fn check_type(
    kinds: &ServedResources,
    object: &Value,
    definition: &ResourceDefinition,
    text: Option<&[u8]>,
) -> Result<(), Status> {
    let (named, names) = (Object::view(object), &definition.names);
    let (expected, given) = (names.api_version(), named.api_version());
    if (given, named.kind()) == (&*expected, names.kind) {
        return Ok(());
    }
    let (kind, wanted) = (named.kind(), names.kind);
    let given = given.strip_prefix('/').unwrap_or(given);
    if definition.is_custom() && given == expected {
        definition.coerce(&mut object.clone(), &mut Vec::new()).map_err(|why| {
            let version = names.version;
            Status::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {wanted}: {why}"
            ))
        })?;
        let mut errs = ErrorList::default();
        errs.invalid(&FieldPath::Root.field("kind"), kind, format!("must be {wanted}"));
        return Err(errs.into_status(names.group, kind, named.metadata().name()));
    } else if read_as(kinds, object, definition).is_some() {
        return Ok(()); // the version is checked after all other errors
    } else if definition.is_custom() {
        return same_version(object, definition);
    }
    let (group, version) = given.rsplit_once('/').unwrap_or(("", given));
    let unfit = |why: String| {
        Status::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {wanted}: {why}"
        ))
    };
    let list = kind.strip_suffix("List").and_then(|item| kinds.by_kind(group, version, item));
    let unknown = || {
        let package = names.group.split('.').next().filter(|group| !group.is_empty());
        let package = package.unwrap_or("core");
        let version = if is_unversioned_kind(kind) { "v1" } else { version };
        unfit(format!("converting ({version}.{kind}) to ({package}.{wanted}): unknown conversion"))
    };
    let other_version = || {
        Status::bad_request(format!(
            "the API version in the data ({given}) does not match the expected API version \
             ({expected})"
        ))
    };
    // The scheme of a separate API server knows no other groups.
    let other = kinds.by_kind(group, version, kind).or(list);
    let Some(other) = other.filter(|_| !definition.separate_server || group == names.group) else {
        if given == "v1" && kind == "List" || is_unversioned_kind(kind) {
            return Err(unknown());
        } else if kind == wanted && definition.former_api_versions.contains(&given) {
            return Err(other_version());
        }
        return Err(unfit(format!(
            "no kind {kind:?} is registered for version {given:?} in scheme \
             \"pkg/runtime/scheme.go:111\""
        )));
    };
    let same = other.definition.names.kind == kind;
    if same {
        let fits = other.definition.coerce(&mut object.clone(), &mut Vec::new());
        fits.map_err(|why| unfit(as_written(&other.definition, text, why)))?;
    }
    if same && other.definition.storage.prefix == definition.storage.prefix {
        return Err(other_version());
    }
    Err(unknown())
}

/// The `fieldValidation` option of a request. Other values have been rejected with the other
/// options.
pub(crate) fn validation(query: &Query) -> FieldValidation {
    match query.get("fieldValidation").unwrap_or_default() {
        "Ignore" => FieldValidation::Ignore,
        "Strict" => FieldValidation::Strict,
        _ => FieldValidation::Warn,
    }
}

/// Whether a kind is unversioned, and so registered in every version.
pub(crate) fn is_unversioned_kind(kind: &str) -> bool {
    let kinds = ["Status", "APIVersions", "APIGroup", "APIGroupList", "APIResourceList"];
    kinds.contains(&kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_texts_are_repaired() {
        assert_eq!(
            &*replace_invalid_utf8(b"{\"a\":\"x\xe2\x82y\"}"),
            "{\"a\":\"x\u{fffd}\u{fffd}y\"}".as_bytes()
        );
        assert_eq!(&*replace_invalid_utf8(b"{\"a\\\"\":\xff}"), b"{\"a\\\"\":\xff}");
    }
}
