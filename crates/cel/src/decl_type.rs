//! CEL declaration types derived from schemas: fields, their types, and maximum sizes of values.

use std::{collections::BTreeMap, sync::Arc};

use object::StructSchema;

use crate::{
    escape::{escape, is_reserved},
    types::Type,
    value::Text,
};

/// Maximum size of a request, and so of an object, in bytes.
const MAX_REQUEST_SIZE: i64 = 3 * 1024 * 1024;

/// A node of a schema.
#[derive(Debug)]
pub struct DeclType {
    /// `None` if expressions cannot access the value.
    pub(crate) ty: Option<Type>,
    pub(crate) kind: DeclKind,
    pub(crate) nullable: bool,
    /// Maximum number of characters, items or entries.
    pub(crate) max: u64,
    /// The size of the smallest value in JSON, in bytes.
    min_size: i64,
}

/// The kind of a declaration, with those of its parts.
#[derive(Debug)]
pub(crate) enum DeclKind {
    IntOrText,
    Text,
    Bytes,
    Duration,
    Date,
    DateTime,
    Double,
    Int,
    Bool,
    List {
        items: Option<Arc<DeclType>>,
        merge: ListType,
    },
    Map(Arc<DeclType>),
    /// Fields by their escaped names, with the original names.
    Object {
        fields: BTreeMap<Arc<str>, (Arc<str>, Arc<DeclType>)>,
        hidden: Vec<(Arc<str>, Arc<DeclType>)>,
    },
    /// Fields under their original names; other fields have the types of their JSON.
    Raw(BTreeMap<Arc<str>, Arc<DeclType>>),
    /// The type follows from the JSON value.
    Plain,
    /// A preserved unknown field, which can only be compared.
    Preserved,
}

/// The declaration for values without a schema.
static PLAIN: DeclType =
    DeclType { ty: None, kind: DeclKind::Plain, nullable: true, max: 0, min_size: 0 };

/// How two lists are merged, and whether their order matters (`x-kubernetes-list-type`).
#[derive(Debug, PartialEq, Eq)]
pub enum ListType {
    Atomic,
    Set,
    Map(Vec<Arc<str>>),
}

impl DeclType {
    /// The declaration for a JSON schema. `root` is set for a whole resource: expressions can access `apiVersion`,
    /// `kind` and the metadata names even if the schema does not declare them.
    pub fn from_json_schema(schema: &object::Value, root: bool) -> Arc<Self> {
        Arc::new(build(schema, root, "selfType"))
    }

    /// The declaration for a built-in kind: timestamps, bytes and numbers in its fields have their CEL types. `None` if
    /// the kind has no such field.
    pub fn from_struct_schema(shape: &StructSchema) -> Option<Arc<Self>> {
        let mut within = Vec::new();
        of_struct(shape, &mut within)
    }

    /// The declaration for DRA devices, whose attributes are of this type.
    pub(crate) fn device(attribute: Type) -> Arc<Self> {
        let map = |of: DeclType, max| {
            let ty = Type::map(Type::Text, of.ty.clone().unwrap_or(Type::Dyn));
            Self::simple(ty, DeclKind::Map(Arc::new(of)), max, 2)
        };
        let twice = |of: DeclType| map(map(of, 32), 32);
        let quantity = Type::named("kubernetes.Quantity");
        let fields = [
            ("driver", Self::simple(Type::Text, DeclKind::Text, 63, 2)),
            ("allowMultipleAllocations", Self::simple(Type::Bool, DeclKind::Bool, 1, 4)),
            ("attributes", twice(Self::simple(attribute, DeclKind::Plain, 64, 1))),
            ("capacity", twice(Self::simple(quantity, DeclKind::Plain, 0, 8))),
        ];
        let fields = fields.map(|(name, node)| (name.into(), (name.into(), Arc::new(node))));
        let shape = DeclKind::Object { fields: fields.into(), hidden: Vec::new() };
        Arc::new(Self::simple(Type::named("kubernetes.DRADevice"), shape, 0, 2))
    }

    /// The type of values, if expressions can access them.
    pub fn ty(&self) -> Option<&Type> {
        self.ty.as_ref()
    }

    /// The maximum number of such values in one request.
    pub(crate) fn cardinality(&self) -> u64 {
        u64::try_from(MAX_REQUEST_SIZE / (self.min_size + 1)).unwrap_or_default()
    }

    /// The declaration of a field, or of an entry of a map, and its original name if that differs.
    pub(crate) fn entry(&self, name: &str) -> Option<(Option<&str>, &DeclType)> {
        match &self.kind {
            DeclKind::Map(of) => Some((None, of)),
            DeclKind::Object { fields, .. } => {
                let reserved = || fields.get(&*format!("__{name}__"));
                let found = fields.get(name).or_else(|| reserved().filter(|_| is_reserved(name)));
                found.map(|(own, node)| (Some(&**own), &**node))
            }
            DeclKind::Raw(fields) => Some((None, fields.get(name).map_or(&PLAIN, |node| &**node))),
            _ => None,
        }
    }

    /// The declaration of a field by its original name.
    pub(crate) fn described(&self, name: &str) -> Option<&DeclType> {
        match &self.kind {
            DeclKind::Map(of) => Some(of),
            DeclKind::Object { fields, hidden } => {
                let all = fields.values().chain(hidden);
                all.into_iter().find(|(own, _)| &**own == name).map(|(_, node)| &**node)
            }
            DeclKind::Raw(fields) => Some(fields.get(name).map_or(&PLAIN, |node| &**node)),
            _ => None,
        }
    }

    /// Whether it has fields, not keys.
    pub(crate) fn is_object(&self) -> bool {
        matches!(self.kind, DeclKind::Object { .. })
    }

    /// The escaped name of a field.
    pub(crate) fn escaped<'a>(&self, name: &'a str) -> Text<'a> {
        match &self.kind {
            DeclKind::Object { .. } => match escape(name) {
                Some(escaped) if escaped != name => Text::from(escaped),
                _ => Text::Borrowed(name),
            },
            _ => Text::Borrowed(name),
        }
    }

    /// Calls `visit` with the name of every object type.
    pub(crate) fn visit_object_types(
        self: &Arc<Self>,
        visit: &mut impl FnMut(&Arc<str>, &Arc<DeclType>),
    ) {
        if let Some(Type::Struct(name)) = &self.ty {
            visit(name, self);
        }
        match &self.kind {
            DeclKind::List { items: Some(of), .. } | DeclKind::Map(of) => {
                of.visit_object_types(visit);
            }
            DeclKind::Object { fields, .. } => {
                fields.values().for_each(|(_, node)| node.visit_object_types(visit));
            }
            _ => {}
        }
    }

    fn simple(ty: Type, shape: DeclKind, max: i64, min_size: i64) -> Self {
        let max = u64::try_from(max).unwrap_or_default();
        Self { ty: Some(ty), kind: shape, nullable: false, max, min_size }
    }

    fn hidden(shape: DeclKind) -> Self {
        Self { ty: None, kind: shape, nullable: false, max: 0, min_size: 0 }
    }
}

fn of_struct(shape: &StructSchema, within: &mut Vec<object::Text>) -> Option<Arc<DeclType>> {
    // A recursive type has the type of its JSON.
    if within.contains(&shape.name) {
        return None;
    }
    within.push(shape.name.clone());
    let fields = shape
        .json_fields()
        .filter_map(|field| Some((Arc::from(field.name.as_str()), of_type(&field.ty, within)?)));
    let fields: BTreeMap<Arc<str>, Arc<DeclType>> = fields.collect();
    within.pop();
    (!fields.is_empty()).then(|| raw(DeclKind::Raw(fields)))
}

fn of_type(ty: &object::Type, within: &mut Vec<object::Text>) -> Option<Arc<DeclType>> {
    Some(raw(match ty {
        object::Type::Bytes => DeclKind::Bytes,
        object::Type::Time | object::Type::MicroTime => DeclKind::DateTime,
        object::Type::Duration => DeclKind::Duration,
        object::Type::Float => DeclKind::Double,
        object::Type::List(of) => {
            DeclKind::List { items: Some(of_type(of, within)?), merge: ListType::Atomic }
        }
        object::Type::Map(of) => DeclKind::Map(of_type(of, within)?),
        object::Type::Object(of) => return of_struct(of, within),
        _ => return None,
    }))
}

fn raw(shape: DeclKind) -> Arc<DeclType> {
    Arc::new(DeclType { ty: None, kind: shape, nullable: true, max: 0, min_size: 0 })
}

fn build(schema: &object::Value, root: bool, name: &str) -> DeclType {
    let node = shape(schema, root, name);
    DeclType { nullable: schema.get("nullable").as_bool().unwrap_or_default(), ..node }
}

fn shape(schema: &object::Value, root: bool, name: &str) -> DeclType {
    let number = |field: &str| schema.get(field).as_i64().map(|n| n.max(0));
    let flag = |field: &str| schema.get(field).as_bool().unwrap_or_default();
    if flag("x-kubernetes-int-or-string") {
        let max = number("maxLength").map_or(MAX_REQUEST_SIZE - 2, |n| n.saturating_mul(4));
        return DeclType::simple(Type::Dyn, DeclKind::IntOrText, max, 1);
    }
    let ty = schema.get("type").as_str().unwrap_or(if root { "object" } else { "" });
    match ty {
        "array" => list(schema, name),
        "object" => object(schema, root, name),
        "string" => text(schema),
        "boolean" => DeclType::simple(Type::Bool, DeclKind::Bool, 0, 4),
        "number" => DeclType::simple(Type::Double, DeclKind::Double, 0, 1),
        "integer" => DeclType::simple(Type::Int, DeclKind::Int, 0, 1),
        _ => DeclType::hidden(DeclKind::Preserved),
    }
}

fn text(schema: &object::Value) -> DeclType {
    let length = schema.get("maxLength").as_i64().map(|n| n.max(0));
    match schema.get("format").as_str().unwrap_or_default() {
        "byte" => DeclType::simple(
            Type::Bytes,
            DeclKind::Bytes,
            length.unwrap_or(MAX_REQUEST_SIZE - 2),
            2,
        ),
        "duration" => DeclType::simple(Type::Duration, DeclKind::Duration, 32, 3),
        "date" => DeclType::simple(Type::Timestamp, DeclKind::Date, 12, 12),
        "date-time" => DeclType::simple(Type::Timestamp, DeclKind::DateTime, 32, 21),
        _ => {
            let names = schema.get("enum").items().iter().filter_map(object::Value::as_str);
            let longest = names.map(str::len).max().and_then(|n| i64::try_from(n).ok());
            let max = match length {
                Some(length) => length.saturating_mul(4),
                None => longest.unwrap_or(MAX_REQUEST_SIZE - 2),
            };
            DeclType::simple(Type::Text, DeclKind::Text, max, 2)
        }
    }
}

fn list(schema: &object::Value, name: &str) -> DeclType {
    let items = schema.get("items");
    if items.is_null() {
        return DeclType::hidden(DeclKind::List { items: None, merge: ListType::Atomic });
    }
    let merge = match schema.get("x-kubernetes-list-type").as_str() {
        Some("set") => ListType::Set,
        Some("map") => {
            let keys = schema.get("x-kubernetes-list-map-keys").items().iter();
            let keys = keys.filter_map(object::Value::as_str);
            ListType::Map(
                keys.map(|key| escape(key).unwrap_or_else(|| key.to_owned()).into()).collect(),
            )
        }
        _ => ListType::Atomic,
    };
    let embedded = items.get("x-kubernetes-embedded-resource").as_bool().unwrap_or_default();
    let items = Arc::new(build(items, embedded, &format!("{name}.@idx")));
    let max = schema.get("maxItems").as_i64().map(|n| n.max(0));
    let max = max.unwrap_or((MAX_REQUEST_SIZE - 2) / (items.min_size + 1));
    let ty = items.ty.clone().map(Type::list);
    let shape = DeclKind::List { items: Some(items), merge };
    match ty {
        Some(ty) => DeclType::simple(ty, shape, max, 2),
        None => DeclType::hidden(shape),
    }
}

fn object(schema: &object::Value, root: bool, name: &str) -> DeclType {
    let embedded = |schema: &object::Value| {
        schema.get("x-kubernetes-embedded-resource").as_bool().unwrap_or_default()
    };
    let additional = schema.get("additionalProperties");
    if additional.is_object() && !root {
        let of = Arc::new(build(additional, embedded(additional), &format!("{name}.@elem")));
        let max = schema.get("maxProperties").as_i64().map(|n| n.max(0));
        let max = max.unwrap_or((MAX_REQUEST_SIZE - 2) / (of.min_size + 6));
        let ty = of.ty.clone().map(|of| Type::map(Type::Text, of));
        return match ty {
            Some(ty) => DeclType::simple(ty, DeclKind::Map(of), max, 2),
            None => DeclType::hidden(DeclKind::Map(of)),
        };
    }
    let required: Vec<&str> =
        schema.get("required").items().iter().filter_map(object::Value::as_str).collect();
    let mut fields = BTreeMap::new();
    let mut hidden = Vec::new();
    let mut min_size = 2;
    let mut add = |name: &str, schema: &object::Value, node: DeclType| {
        let own: Arc<str> = name.into();
        if node.ty.is_some() && required.contains(&name) && schema.get("default").is_null() {
            min_size += i64::try_from(name.len()).unwrap_or_default() + node.min_size + 4;
        }
        match escape(name).filter(|_| node.ty.is_some()) {
            Some(escaped) => {
                fields.insert(escaped.into(), (own, Arc::new(node)));
            }
            None => hidden.push((own, Arc::new(node))),
        }
    };
    let always: &[&str] = if root { &["apiVersion", "kind", "metadata"] } else { &[] };
    for (field, schema) in schema.get("properties").entries() {
        if always.contains(&field) {
            continue;
        }
        let path = format!("{name}.{}", escape(field).unwrap_or_default());
        add(field, schema, build(schema, embedded(schema), &path));
    }
    for field in always {
        let node = match *field {
            "metadata" => metadata(schema.get("properties").get("metadata"), name),
            _ => text(&object::NULL),
        };
        add(field, &object::NULL, node);
    }
    let ty = Type::named(name);
    DeclType::simple(ty, DeclKind::Object { fields, hidden }, 0, min_size)
}

/// Of the metadata of a resource, expressions can access the names, with the limits of its schema.
fn metadata(schema: &object::Value, name: &str) -> DeclType {
    let mut fields = BTreeMap::new();
    for (field, longest) in [("name", 253), ("generateName", 252)] {
        let length = schema.get("properties").get(field).get("maxLength").as_i64();
        let max = length.map_or(longest, |length| length.clamp(0, longest)) * 4;
        let node = DeclType::simple(Type::Text, DeclKind::Text, max, 2);
        fields.insert(field.into(), (field.into(), Arc::new(node)));
    }
    let ty = Type::named(&format!("{name}.metadata"));
    DeclType::simple(ty, DeclKind::Object { fields, hidden: Vec::new() }, 0, 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::{Lens, ObjectMeta, from_json};

    #[test]
    fn kinds_show_moments_as_moments() {
        let node = DeclType::from_struct_schema(ObjectMeta::SHAPE).expect("has moments");
        let tree = from_json(br#"{"name": "a", "creationTimestamp": "2024-01-01T00:00:00Z"}"#);
        let tree = tree.expect("valid");
        let environment = crate::Environment::new().with_variable("m", Type::Dyn);
        let source = "m.creationTimestamp < timestamp('2025-01-01T00:00:00Z') && m.name == 'a'";
        let program = Arc::new(environment).compile(source).expect("compiles");
        let bindings = crate::Bindings::new().tree("m", &tree, Some(&node)).expect("valid");
        let (outcome, _) = program.evaluate(&bindings, 100);
        assert_eq!(outcome.ok().and_then(|value| value.as_bool()), Some(true));
    }
}
