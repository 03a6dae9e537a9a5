//! Coerces a decoded value to a type schema: checks every type and collects unknown fields.
//!
//! Every decoded object passes through here before it is used through a lens, because a lens treats
//! a value of the wrong type as absent. Error messages are those of Go's JSON decoder.

use std::fmt;

use object::{
    Bytes, Duration, FieldSchema, MicroTime, Quantity, QuantityError, StructAlternative,
    StructSchema, Time, Type, Value,
};

use crate::{FieldPath, openapi::packages::is_meta, patch::json_type};

/// The paths of fields that the type does not have.
pub type UnknownFields = Vec<String>;

/// Checks all types, and drops `null`s and unknown fields. The error is Go's message.
pub fn coerce_to_schema(
    shape: &StructSchema,
    object: &mut Value,
    unknown: &mut UnknownFields,
) -> Result<(), String> {
    coerce_to_schema_version("v1", shape, object, unknown)
}

/// Like `coerce_to_schema`, for a type of another version: messages contain Go's package name,
/// which is the version.
pub fn coerce_to_schema_version(
    version: &str,
    shape: &StructSchema,
    object: &mut Value,
    unknown: &mut UnknownFields,
) -> Result<(), String> {
    if !object.is_object() {
        let (found, name) = (json_type(object), &shape.name);
        return Err(format!(
            "json: cannot unmarshal {found} into Go value of type {version}.{name}"
        ));
    }
    fields(shape, version, object, &FieldPath::Root, unknown).map_err(|misfit| misfit.to_string())
}

/// Coerces a single value to its type, outside of an object.
pub(crate) fn coerce_value(ty: &Type, value: &mut Value) -> Result<(), String> {
    let go = GoTypeName { name: None, package: "v1" };
    coerce(ty, go, value, &FieldPath::Root, &mut UnknownFields::new())
        .map_err(|misfit| misfit.to_string())
}

/// A value of the wrong type. Boxed, because it is rare and results should be small.
#[derive(Debug)]
struct TypeMismatch(Box<MismatchDetails>);

/// The parts of the error message. The path is completed on the way up.
#[derive(Debug, Default)]
struct MismatchDetails {
    /// The value's type; the whole message if `go` is empty.
    found: String,
    owner: String,
    path: String,
    go: String,
    /// Whether Go's decoder stops here, as it does when a type decodes itself. Other errors are
    /// reported at the end, and only the first.
    is_fatal: bool,
}

impl TypeMismatch {
    fn new(value: &Value, go: String) -> Self {
        let found = match value {
            value if json_type(value) == "number" && is_number(&go) => {
                format!("number {}", String::from_utf8_lossy(&object::to_json(value)))
            }
            value => json_type(value).to_owned(),
        };
        Self(Box::new(MismatchDetails { found, go, ..MismatchDetails::default() }))
    }

    fn text(text: impl Into<String>) -> Self {
        Self(Box::new(MismatchDetails {
            found: text.into(),
            is_fatal: true,
            ..MismatchDetails::default()
        }))
    }

    /// Sets whether decoding stops here.
    fn ending(mut self, ends: bool) -> Self {
        self.0.is_fatal = ends;
        self
    }

    /// Adds the struct and field that contain the value.
    fn in_field(mut self, shape: &StructSchema, name: &str) -> Self {
        let MismatchDetails { owner, path, .. } = &mut *self.0;
        if owner.is_empty() {
            *owner = shape.name.to_string();
        }
        let dot = if path.is_empty() { "" } else { "." };
        let name = embedded(shape, name).unwrap_or_else(|| name.to_owned());
        *path = format!("{name}{dot}{path}");
        self
    }
}

impl fmt::Display for TypeMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MismatchDetails { found, owner, path, go, .. } = &*self.0;
        if go.is_empty() {
            f.write_str(found)
        } else if owner.is_empty() {
            write!(f, "json: cannot unmarshal {found} into Go value of type {go}")
        } else {
            let place = format!("Go struct field {owner}.{path}");
            write!(f, "json: cannot unmarshal {found} into {place} of type {go}")
        }
    }
}

/// The mismatch to report, of several.
#[derive(Default)]
struct FirstMismatch(Option<TypeMismatch>);

impl FirstMismatch {
    #[inline]
    fn is_fatal(&self) -> bool {
        self.0.as_ref().is_some_and(|told| told.0.is_fatal)
    }

    #[inline]
    fn add(&mut self, result: Result<(), TypeMismatch>) {
        if let Err(misfit) = result
            && (self.0.is_none() || misfit.0.is_fatal && !self.is_fatal())
        {
            self.0 = Some(misfit);
        }
    }

    fn done(self) -> Result<(), TypeMismatch> {
        self.0.map_or(Ok(()), Err)
    }
}

/// The name of a field, after the names of the embedded Go structs that contain it.
fn embedded(shape: &StructSchema, name: &str) -> Option<String> {
    shape.fields.iter().find_map(|field| match &*field.ty {
        Type::Object(inner) if field.attributes.inline => {
            let own = field.attributes.go_type.unwrap_or(&inner.name);
            embedded(inner, name).map(|path| format!("{own}.{path}"))
        }
        _ => (field.name == name).then(|| name.to_owned()),
    })
}

fn is_number(go: &str) -> bool {
    matches!(go, "int32" | "int64" | "uint64" | "uint8" | "float64")
}

fn fields(
    shape: &StructSchema,
    package: &str,
    object: &mut Value,
    at: &FieldPath,
    unknown: &mut UnknownFields,
) -> Result<(), TypeMismatch> {
    let package = if is_v1(shape) { "v1" } else { package };
    let mut told = FirstMismatch::default();
    let mut stays = |field: Option<&FieldSchema>, name: &str, value: &mut Value| {
        let Some(field) = field else {
            let typed = matches!(at, FieldPath::Root) || shape.is_object();
            if typed && matches!(name, "apiVersion" | "kind") {
                if !matches!(at, FieldPath::Root) && !matches!(value, Value::Null | Value::Text(_))
                {
                    let misfit = TypeMismatch::new(value, "string".to_owned());
                    told.add(Err(misfit.in_field(shape, &format!("TypeMeta.{name}"))));
                }
                return value.as_str().is_some();
            }
            unknown.push(at.field(name).to_string());
            return false;
        };
        match (&*field.ty, &*value) {
            (_, Value::Null) => return false,
            _ if told.is_fatal() => return false,
            (Type::Text | Type::Enum(_), Value::Text(_)) => return true,
            _ => {}
        }
        if field.attributes.raw && (value.is_object() || matches!(value, Value::List(_))) {
            *value = object::from_json_raw(&object::to_json(value)).unwrap_or_default();
            return true;
        }
        let go = GoTypeName { name: field.attributes.go_type, package };
        let fitted = coerce(&field.ty, go, value, &at.field(name), unknown);
        told.add(fitted.map_err(|misfit| misfit.in_field(shape, name)));
        true
    };
    match object {
        Value::Object(fields) => {
            let index = shape.index();
            let find =
                |word| index.map_or_else(|| shape.field_by_id(word), |index| index.find(word));
            fields.retain(|(word, value)| stays(find(*word), word.as_str(), value));
        }
        object => {
            object.retain(|name, value| stays(shape.field(name), name, value));
            let left = object.entries().map(|(name, value)| (name.into(), value.clone()));
            *object = Value::from_entries(left.collect());
        }
    }
    told.done()
}

/// Prefix of Go's zero time, which counts as absent.
const ZERO_TIME_PREFIX: &str = "0001-01-01T00:00:00";
/// Go's name of the type that maps resource names to quantities.
const RESOURCE_LIST: &str = "v1.ResourceList";

/// Whether the type exists only in v1, whatever the version of the kind that uses it.
fn is_v1(shape: &StructSchema) -> bool {
    is_meta(shape) || shape.rust_module.starts_with("api::core::")
}

/// Go's name for the type of a value.
#[derive(Clone, Copy)]
struct GoTypeName<'a> {
    /// Set where it does not follow from the type itself.
    name: Option<&'a str>,
    package: &'a str,
}

impl<'a> GoTypeName<'a> {
    /// The name for the items of a list.
    fn item(self) -> Self {
        Self { name: self.name.and_then(|name| name.strip_prefix("[]")), ..self }
    }

    /// The name for the values of a map.
    fn entry(self) -> Self {
        if self.name == Some(RESOURCE_LIST) {
            return self;
        }
        let entry = self.name.and_then(|name| name.strip_prefix("map[")?.split_once(']'));
        Self { name: entry.map(|(_, name)| name), ..self }
    }

    /// The package of a struct's fields.
    fn inside(self) -> &'a str {
        let package = self.name.and_then(|name| name.split_once('.')).map(|(package, _)| package);
        package.filter(|package| *package != "$").unwrap_or(self.package)
    }

    fn of(self, ty: &Type) -> String {
        if let Some(name) = self.name {
            return name.replace('$', self.package);
        }
        match ty {
            Type::Any => "interface {}".to_owned(),
            Type::Bool => "bool".to_owned(),
            Type::Int32 | Type::IntOrString => "int32".to_owned(),
            Type::Int64 => "int64".to_owned(),
            Type::UInt64 => "uint64".to_owned(),
            Type::Float => "float64".to_owned(),
            // Go decodes these from a string.
            Type::Text | Type::Enum(_) | Type::Time | Type::MicroTime | Type::Duration => {
                "string".to_owned()
            }
            Type::Bytes => "[]uint8".to_owned(),
            Type::Quantity => "resource.Quantity".to_owned(),
            Type::List(item) => format!("[]{}", self.item().of(item)),
            Type::Map(item) => format!("map[string]{}", self.entry().of(item)),
            Type::Object(shape) if is_v1(shape) => format!("v1.{}", shape.name),
            Type::Object(shape) => format!("{}.{}", self.package, shape.name),
            Type::StructOr(shape, StructAlternative::Bool) => {
                format!("{}.{}OrBool", self.package, shape.name)
            }
            Type::StructOr(shape, StructAlternative::List) => {
                format!("{}.{}OrArray", self.package, shape.name)
            }
            Type::StructOr(shape, StructAlternative::Strings) => {
                format!("{}.{}OrStringArray", self.package, shape.name)
            }
        }
    }
}

fn coerce(
    ty: &Type,
    go: GoTypeName<'_>,
    value: &mut Value,
    at: &FieldPath,
    unknown: &mut UnknownFields,
) -> Result<(), TypeMismatch> {
    match (ty, &mut *value) {
        (Type::Any, _)
        | (Type::Bool, Value::Bool(_))
        | (Type::Int64, Value::Int(_))
        | (Type::UInt64, Value::Int(0..) | Value::UInt(_))
        | (Type::Float, Value::Int(_) | Value::UInt(_) | Value::Float(_))
        | (Type::Text | Type::Enum(_) | Type::IntOrString, Value::Text(_)) => Ok(()),
        (Type::Float, Value::Raw(text)) if text.parse().is_ok_and(f64::is_finite) => Ok(()),
        (Type::Int32 | Type::IntOrString, Value::Int(n)) if i32::try_from(*n).is_ok() => Ok(()),
        // Go does not accept 3.0 as an integer, so it is a mismatch too.
        (Type::Object(shape), Value::Object(_) | Value::Map(_)) => {
            fields(shape, go.inside(), value, at, unknown)
        }
        (Type::List(item), Value::List(items)) => {
            let mut told = FirstMismatch::default();
            for (i, value) in items.make_mut().iter_mut().enumerate() {
                if value.is_null() {
                    *value = zero(item);
                } else if !told.is_fatal() {
                    told.add(coerce(item, go.item(), value, &at.index(i), unknown));
                }
            }
            value.share_item_subtrees();
            told.done()
        }
        (Type::Map(item), Value::Object(_) | Value::Map(_)) => {
            let mut told = FirstMismatch::default();
            value.retain(|name, value| {
                if value.is_null() {
                    *value = zero(item);
                } else if !told.is_fatal() {
                    told.add(coerce(item, go.entry(), value, &at.field(name), unknown));
                }
                true
            });
            told.done()
        }
        (Type::Quantity, value) => quantity(value, go).map_err(TypeMismatch::text),
        (Type::Time | Type::MicroTime | Type::Duration, Value::Text(text)) => {
            let read = match ty {
                Type::Time => Time::canonicalize(text),
                Type::MicroTime => MicroTime::canonicalize(text),
                _ => Duration::parse_nanos(text).map(Duration::format_nanos),
            };
            *text = read.map_err(TypeMismatch::text)?;
            if let Some("Z" | ".000000Z") = text.strip_prefix(ZERO_TIME_PREFIX) {
                *value = Value::Null;
            }
            Ok(())
        }
        (Type::Bytes, Value::Text(text)) => {
            let Some(bytes) = Bytes::decode(text) else {
                let why = format!("illegal base64 data at input byte {}", bad_base64(text));
                return Err(TypeMismatch::text(why).ending(false));
            };
            *text = Bytes::encode(&bytes);
            Ok(())
        }
        (Type::Bytes, Value::List(items)) => {
            let byte = |item: &Value| match item {
                Value::Null => Ok(0),
                item => {
                    let n = item.as_i64().and_then(|n| u8::try_from(n).ok());
                    n.ok_or_else(|| TypeMismatch::new(item, "uint8".to_owned()))
                }
            };
            let bytes: Vec<u8> = items.iter().map(byte).collect::<Result<_, _>>()?;
            *value = Bytes::encode(&bytes).into();
            Ok(())
        }
        (Type::StructOr(shape, plain), _) => {
            either(shape, *plain, go, value, at).map_err(|misfit| misfit.ending(true))
        }
        (ty, value) => {
            use Type::{Duration, IntOrString, MicroTime, Time};
            let ends = matches!(ty, Time | MicroTime | Duration | IntOrString);
            Err(TypeMismatch::new(value, go.of(ty)).ending(ends))
        }
    }
}

/// Coerces a struct or its alternative. Such types have their own decoder in Go, which reports no
/// unknown fields; for most of them a value that is neither is ignored.
fn either(
    shape: &StructSchema,
    plain: StructAlternative,
    go: GoTypeName<'_>,
    value: &mut Value,
    at: &FieldPath,
) -> Result<(), TypeMismatch> {
    let (untold, inside) = (&mut UnknownFields::new(), go.inside());
    match (plain, &mut *value) {
        (_, Value::Object(_) | Value::Map(_)) => fields(shape, inside, value, at, untold),
        (_, Value::Raw(_)) => Err(TypeMismatch::text("exceeded max depth")),
        (StructAlternative::Bool, Value::Bool(_)) => Ok(()),
        (StructAlternative::Bool, _) => Err(TypeMismatch::text("boolean or JSON schema expected")),
        (StructAlternative::List, Value::List(items)) => {
            items.make_mut().iter_mut().enumerate().try_for_each(|(i, item)| match item {
                Value::Null => {
                    *item = Value::object();
                    Ok(())
                }
                Value::Object(_) | Value::Map(_) => {
                    fields(shape, inside, item, &at.index(i), untold)
                }
                item => Err(TypeMismatch::new(item, format!("{inside}.{}", shape.name))),
            })
        }
        (StructAlternative::Strings, Value::List(items)) => {
            items.iter().try_for_each(|item| match item {
                Value::Text(_) => Ok(()),
                item => Err(TypeMismatch::new(item, "string".to_owned())),
            })
        }
        (StructAlternative::List | StructAlternative::Strings, _) => {
            *value = Value::Null;
            Ok(())
        }
    }
}

/// The value that a `null` in a list or map becomes.
fn zero(ty: &Type) -> Value {
    match ty {
        Type::Bool => Value::Bool(false),
        Type::Int32 | Type::Int64 | Type::UInt64 | Type::IntOrString => Value::Int(0),
        Type::Text | Type::Enum(_) | Type::Bytes => "".into(),
        Type::Quantity => "0".into(),
        Type::Object(_) | Type::Map(_) => Value::object(),
        _ => Value::Null,
    }
}

fn quantity(value: &mut Value, go: GoTypeName<'_>) -> Result<(), String> {
    let text = match &*value {
        Value::Text(text) => text.clone(),
        other => String::from_utf8_lossy(&object::to_json(other)).as_ref().into(),
    };
    let parsed = text.trim().parse::<Quantity>();
    let mut parsed = parsed.map_err(|error: QuantityError| error.to_string())?;
    if go.name == Some(RESOURCE_LIST) {
        parsed.round_up(-3); // resource lists are exact to thousandths
    }
    *value = parsed.into();
    Ok(())
}

/// The offset at which Go's base64 decoder fails.
fn bad_base64(text: &str) -> usize {
    let mut bytes = text.bytes().enumerate().filter(|(_, byte)| !matches!(byte, b'\r' | b'\n'));
    let mut start = 0;
    let mut read = 0;
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'=' if read % 4 < 2 => return at,
            b'=' if read % 4 == 2 => match bytes.next() {
                None => return text.len(),
                Some((_, b'=')) => return bytes.next().map_or(text.len(), |(at, _)| at),
                Some((at, _)) => return at,
            },
            b'=' => return bytes.next().map_or(text.len(), |(at, _)| at),
            byte if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/') => {
                read += 1;
                start = if read % 4 == 0 { at + 1 } else { start };
            }
            _ => return at,
        }
    }
    start
}

#[cfg(test)]
mod tests {
    use object::{Lens, Object, from_json};

    use super::*;

    #[test]
    fn a_misfit_is_told_as_go_does() {
        let wrong = |text: &str| {
            let mut object = from_json(text.as_bytes()).expect("is JSON");
            coerce_to_schema(Object::SHAPE, &mut object, &mut Vec::new()).unwrap_err()
        };
        assert_eq!(
            wrong(r#"{"metadata":{"labels":{"a":5}}}"#),
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type \
             string"
        );
        assert_eq!(
            wrong(r#"{"metadata":{"ownerReferences":[{"uid":true}]}}"#),
            "json: cannot unmarshal bool into Go struct field \
             OwnerReference.metadata.ownerReferences.uid of type types.UID"
        );
        assert_eq!(
            wrong(r#"{"metadata":{"generation":1.5}}"#),
            "json: cannot unmarshal number 1.5 into Go struct field ObjectMeta.metadata.generation \
             of type int64"
        );
        assert!(wrong(r#"{"metadata":{"creationTimestamp":5}}"#).ends_with("of type string"));
    }

    #[test]
    fn what_reads_itself_is_told_before_what_came_first() {
        let wrong = |text: &str| {
            let mut object = object::from_json_preserving_source(text.as_bytes()).expect("is JSON");
            coerce_to_schema(Object::SHAPE, &mut object, &mut Vec::new()).unwrap_err()
        };
        let told = wrong(r#"{"metadata":{"name":5,"uid":{},"creationTimestamp":"x"}}"#);
        assert!(told.starts_with("parsing time \"x\""), "{told}");
        let told = wrong(r#"{"metadata":{"uid":{},"name":5}}"#);
        assert!(told.ends_with("ObjectMeta.metadata.uid of type types.UID"), "{told}");
    }

    #[test]
    fn the_time_that_go_takes_for_none_is_none() {
        let none = br#"{"metadata":{"creationTimestamp":"0001-01-01T00:00:00Z"}}"#;
        let mut object = from_json(none).expect("is JSON");
        coerce_to_schema(Object::SHAPE, &mut object, &mut Vec::new()).expect("it is a time");
        assert!(object["metadata"]["creationTimestamp"].is_null());
    }

    #[test]
    fn base64_ends_where_go_says() {
        for (text, at) in [("!", 0), ("YQ", 0), ("YWJjYQ", 4), ("YQ==x", 4), ("Y===", 1)] {
            assert_eq!(bad_base64(text), at, "{text}");
        }
    }
}
