//! Converts type schemas to OpenAPI schemas, with the extensions that tell clients how to merge.

use std::collections::BTreeMap;

use object::{
    DeleteOptions, FieldAttributes, FieldSchema, Lens, ListMeta, ListType, ObjectMeta, SchemaRef,
    Status, StructAlternative, StructSchema, Type, Validation, Value,
};

use super::packages::{ModelNames, ModelPackage, package};
use crate::{ResourceDefinition, custom::publish, patch::is_replaced, published::openapi_default};

pub(super) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
pub(super) const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
pub(super) const WATCH_EVENT: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent";
pub(super) const RESOURCES: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.APIResourceList";
const RESOURCE: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.APIResource";
const RAW: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";
const FIELDS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1";
const JSON: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON";
const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";
const MICRO_TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime";
const DURATION: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Duration";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";

/// The schemas of one document: the requested ones and all that they refer to.
#[derive(Debug)]
pub(super) struct Schemas<'a> {
    packages: &'a ModelNames,
    /// Package of the type that is being added.
    current_package: ModelPackage,
    all: &'a [ResourceDefinition],
    components: BTreeMap<String, Value>,
}

impl<'a> Schemas<'a> {
    pub(super) fn new(packages: &'a ModelNames, all: &'a [ResourceDefinition]) -> Self {
        Self {
            packages,
            current_package: ModelPackage::of("", "v1"),
            all,
            components: BTreeMap::new(),
        }
    }

    pub(super) fn into_value(self) -> Value {
        object(self.components)
    }

    /// Adds a kind; returns its name.
    pub(super) fn kind(&mut self, definition: &ResourceDefinition) -> String {
        self.current_package = ModelPackage::of(definition.names.group, definition.names.version);
        let Some(custom) = definition.custom() else {
            return self.shape(&definition.schema);
        };
        let name = publish::name(&definition.names);
        self.shape(ObjectMeta::SHAPE);
        self.components.insert(name.clone(), custom.published().clone());
        name
    }

    /// Adds the list of a kind; returns its name.
    pub(super) fn list(&mut self, definition: &ResourceDefinition) -> String {
        let item = self.kind(definition);
        let names = &definition.names;
        let name = match definition.custom() {
            Some(custom) => item.replace(names.kind, &custom.list_kind),
            None => format!("{item}List"),
        };
        let mut items = object([("items".to_owned(), reference(&item))]);
        items["type"] = "array".into();
        let mut schema = object([]);
        schema["properties"]["items"] = items;
        schema["properties"]["metadata"] = self.nested(ListMeta::SHAPE);
        schema["required"] = ["items"].into_iter().collect();
        schema["type"] = "object".into();
        let kind = definition.list_kind();
        of_kind(&mut schema, &[(names.group, names.version, &kind)]);
        self.components.insert(name.clone(), schema);
        name
    }

    /// Adds a kind of any group; returns its full name.
    pub(super) fn kind_by_gvk(&mut self, group: &str, version: &str, kind: &str) -> String {
        let is = |names: &crate::ResourceNames| {
            names.group == group && names.version == version && names.kind == kind
        };
        if let Some(definition) = self.all.iter().find(|definition| is(&definition.names)) {
            return self.shape(&definition.schema);
        }
        let name = format!("{}.{kind}", package(group, version));
        if !self.components.contains_key(&name) {
            let mut schema = object([("type".to_owned(), "object".into())]);
            of_kind(&mut schema, &[(group, version, kind)]);
            self.components.insert(name.clone(), schema);
        }
        name
    }

    /// Adds the schemas that every group and version uses.
    pub(super) fn common(&mut self, versions: &[(&str, &str)]) {
        let kinds = |kind: &'static str| {
            let mut all = vec![("", "v1", kind)];
            let others = versions.iter().filter(|version| **version != ("", "v1"));
            all.extend(others.map(|(group, version)| (*group, *version, kind)));
            all
        };
        for (shape, kinds) in [
            (Status::SHAPE, vec![("", "v1", "Status")]),
            (DeleteOptions::SHAPE, kinds("DeleteOptions")),
        ] {
            let name = self.shape(shape);
            of_kind(self.components.get_mut(&name).expect("just added"), &kinds);
        }
        self.components.insert(PATCH.to_owned(), object([("type".to_owned(), "object".into())]));
        let mut event = object([]);
        event["properties"]["object"] = self.wrapped(RAW, raw());
        event["properties"]["type"] = text("");
        event["required"] = ["type", "object"].into_iter().collect();
        event["type"] = "object".into();
        event["x-kubernetes-group-version-kind"] = kind_list(&kinds("WatchEvent"));
        self.components.insert(WATCH_EVENT.to_owned(), event);
        self.discovery();
    }

    fn discovery(&mut self) {
        let list = |item: Value, atomic: bool| {
            let mut list = object([("type".to_owned(), "array".into())]);
            list["items"] = item;
            if atomic {
                list["x-kubernetes-list-type"] = "atomic".into();
            }
            list
        };
        let plain = || object([("type".to_owned(), "string".into())]);
        let mut resource = object([]);
        for name in ["name", "singularName", "kind"] {
            resource["properties"][name] = text("");
        }
        for name in ["group", "version", "storageVersionHash"] {
            resource["properties"][name] = plain();
        }
        for (name, atomic) in [("categories", true), ("shortNames", true), ("verbs", false)] {
            resource["properties"][name] = list(plain(), atomic);
        }
        resource["properties"]["namespaced"]["type"] = "boolean".into();
        resource["properties"]["namespaced"]["default"] = false.into();
        let required = ["name", "singularName", "namespaced", "kind", "verbs"];
        resource["required"] = required.into_iter().collect();
        resource["type"] = "object".into();
        self.components.insert(RESOURCE.to_owned(), resource);
        let mut all = object([("type".to_owned(), "object".into())]);
        all["properties"]["groupVersion"] = text("");
        all["properties"]["resources"] = list(reference(RESOURCE), true);
        all["required"] = ["groupVersion", "resources"].into_iter().collect();
        of_kind(&mut all, &[("", "v1", "APIResourceList")]);
        self.components.insert(RESOURCES.to_owned(), all);
    }

    /// Adds a type and all types that it refers to; returns its name.
    fn shape(&mut self, shape: &StructSchema) -> String {
        let package = self.current_package.leads_to(shape);
        let name = package.name(shape);
        if !self.components.contains_key(&name) {
            self.components.insert(name.clone(), Value::Null); // the type may be recursive
            let from = std::mem::replace(&mut self.current_package, package);
            let mut schema = self.fields(shape);
            if let Some(names) = self.packages.kind(shape, &self.current_package) {
                of_kind(&mut schema, &[(names.group, names.version, names.kind)]);
            }
            self.current_package = from;
            self.components.insert(name.clone(), schema);
        }
        name
    }

    fn fields(&mut self, shape: &StructSchema) -> Value {
        let mut schema = object([]);
        describe(&mut schema, &shape.doc);
        let mut required = Vec::new();
        for field in shape.fields_in_go_order() {
            schema["properties"][&*field.name] = match (&*shape.name, &*field.ty) {
                ("ManagedFieldsEntry", Type::Any) => self.wrapped(FIELDS, raw()),
                ("JSONSchemaProps", Type::Any) => self.known(JSON, Value::object()),
                ("JSONSchemaProps", Type::StructOr(..) | Type::Object(_)) => {
                    self.of_type(&field.ty)
                }
                ("JSONSchemaProps", Type::List(item)) if matches!(**item, Type::Any) => {
                    let mut list = self.property(field);
                    list["items"] = self.known(JSON, Value::object());
                    list
                }
                _ => self.property(field),
            };
            if is_replaced(&shape.name, &field.name) {
                let property = &mut schema["properties"][&*field.name];
                property["x-kubernetes-patch-strategy"] = "replace".into();
            }
            if field.attributes.required {
                required.push(field.name.as_str());
            }
        }
        if !required.is_empty() {
            schema["required"] = required.into_iter().collect();
        }
        schema["type"] = "object".into();
        if shape.atomic {
            schema["x-kubernetes-map-type"] = "atomic".into();
        }
        if let Some(union) = union(shape) {
            schema["x-kubernetes-unions"] = [union].into_iter().collect();
        }
        schema
    }

    fn property(&mut self, field: &FieldSchema) -> Value {
        let mut schema = self.of_type(&field.ty);
        if !schema.get("$ref").is_null() {
            // Siblings of a reference are ignored, so it is wrapped in `allOf`.
            schema = object([("allOf".to_owned(), [schema].into_iter().collect())]);
        }
        describe(&mut schema, &field.doc);
        if let Some(default) = openapi_default(field) {
            schema["default"] = default;
        }
        let values = values(&field.attributes);
        if !values.is_empty() {
            let mut values = values.to_vec();
            values.sort_unstable();
            let of = match *field.ty {
                Type::List(_) => &mut schema["items"],
                Type::Map(_) => &mut schema["additionalProperties"],
                _ => &mut schema,
            };
            of["enum"] = values.into_iter().collect();
        }
        let bytes = matches!(*field.ty, Type::Bytes) && field.attributes.atomic;
        extend(&mut schema, &field.attributes, bytes || matches!(*field.ty, Type::List(_)));
        schema
    }

    fn of_type(&mut self, ty: &Type) -> Value {
        let plain = |ty: &str, format: &str| {
            let mut schema = object([("type".to_owned(), ty.into())]);
            if !format.is_empty() {
                schema["format"] = format.into();
            }
            schema
        };
        match ty {
            Type::Bool => plain("boolean", ""),
            Type::Int32 => plain("integer", "int32"),
            Type::Int64 | Type::UInt64 => plain("integer", "int64"),
            Type::Float => plain("number", "double"),
            Type::Text => plain("string", ""),
            Type::Bytes => plain("string", "byte"),
            Type::Enum(names) => {
                let mut names = names.to_vec();
                names.sort_unstable();
                let mut schema = plain("string", "");
                schema["enum"] = names.into_iter().collect();
                schema
            }
            Type::Any => self.known(RAW, raw()),
            Type::StructOr(shape, plain) => {
                let suffix = match plain {
                    StructAlternative::Bool => "OrBool",
                    StructAlternative::List => "OrArray",
                    StructAlternative::Strings => "OrStringArray",
                };
                let name = format!("{}{suffix}", self.current_package.leads_to(shape).name(shape));
                self.known(&name, Value::object())
            }
            Type::Time => self.known(TIME, plain("string", "date-time")),
            Type::MicroTime => self.known(MICRO_TIME, plain("string", "date-time")),
            Type::Duration => self.known(DURATION, plain("string", "")),
            Type::Quantity => self.known(QUANTITY, either("string", "number")),
            Type::IntOrString => {
                let mut schema = either("integer", "string");
                schema["format"] = "int-or-string".into();
                self.known(INT_OR_STRING, schema)
            }
            Type::List(item) => {
                let mut schema = plain("array", "");
                schema["items"] = self.of_type(item);
                schema
            }
            Type::Map(item) => {
                let mut schema = plain("object", "");
                schema["additionalProperties"] = self.of_type(item);
                schema
            }
            Type::Object(SchemaRef::Shared(shape)) => self.fields(shape),
            Type::Object(shape) => reference(&self.shape(shape)),
        }
    }

    fn known(&mut self, name: &str, schema: Value) -> Value {
        self.components.entry(name.to_owned()).or_insert(schema);
        reference(name)
    }

    fn wrapped(&mut self, name: &str, schema: Value) -> Value {
        object([("allOf".to_owned(), [self.known(name, schema)].into_iter().collect())])
    }

    fn nested(&mut self, shape: &StructSchema) -> Value {
        let name = self.shape(shape);
        let mut schema = object([("allOf".to_owned(), [reference(&name)].into_iter().collect())]);
        schema["default"] = Value::object();
        schema
    }
}

pub(super) fn reference(name: &str) -> Value {
    object([("$ref".to_owned(), format!("#/components/schemas/{name}").into())])
}

/// The GroupVersionKind in operations and schemas.
pub(super) fn kind_value(group: &str, version: &str, kind: &str) -> Value {
    let text = |name: &str, value: &str| (name.to_owned(), value.into());
    object([text("group", group), text("kind", kind), text("version", version)])
}

pub(super) fn object(entries: impl IntoIterator<Item = (String, Value)>) -> Value {
    let mut object = Value::object();
    for (name, value) in entries {
        object[&*name] = value;
    }
    object
}

fn kind_list(kinds: &[(&str, &str, &str)]) -> Value {
    kinds.iter().map(|(group, version, kind)| kind_value(group, version, kind)).collect()
}

/// Adds apiVersion, kind and the GroupVersionKind extension to a schema.
fn of_kind(schema: &mut Value, kinds: &[(&str, &str, &str)]) {
    for (name, doc) in [
        ("apiVersion", "API group and version that the object is written in, such as apps/v1."),
        ("kind", "Kind of the object, such as Deployment."),
    ] {
        let mut text = object([("type".to_owned(), "string".into())]);
        describe(&mut text, doc);
        schema["properties"][name] = text;
    }
    schema["x-kubernetes-group-version-kind"] = kind_list(kinds);
}

fn text(default: &str) -> Value {
    object([("type".to_owned(), "string".into()), ("default".to_owned(), default.into())])
}

fn raw() -> Value {
    object([("type".to_owned(), "object".into())])
}

fn either(one: &str, other: &str) -> Value {
    let types = [one, other].map(|ty| object([("type".to_owned(), ty.into())]));
    object([("oneOf".to_owned(), types.into_iter().collect())])
}

fn describe(schema: &mut Value, doc: &str) {
    if !doc.is_empty() {
        schema["description"] = doc.into();
    }
}

/// The enum values of a field.
fn values(rules: &FieldAttributes) -> &'static [&'static str] {
    let checked = |checks: &'static [Validation]| {
        checks.iter().find_map(|check| match check {
            Validation::OneOfValues(values) => Some(*values),
            _ => None,
        })
    };
    let each = || {
        rules.validations.iter().find_map(|check| match check {
            Validation::Each(checks) => checked(checks),
            _ => None,
        })
    };
    match rules.enum_values {
        [] => checked(rules.validations).or_else(each).unwrap_or_default(),
        values => values,
    }
}

/// The `x-kubernetes-unions` extension of a type.
fn union(shape: &StructSchema) -> Option<Value> {
    let mut union = Value::object();
    for field in shape.json_fields().filter(|field| field.attributes.union) {
        let (first, rest) = field.name.split_at(1);
        let name = format!("{}{rest}", first.to_uppercase());
        union["fields-to-discriminateBy"][&*field.name] = name.into();
    }
    if let Some(field) = shape.json_fields().find(|field| field.attributes.discriminator) {
        union["discriminator"] = field.name.as_str().into();
    }
    Some(union).filter(|union| union.entries().len() > 0)
}

/// Adds the merge extensions of a field.
fn extend(schema: &mut Value, rules: &FieldAttributes, list: bool) {
    if list {
        schema["x-kubernetes-list-type"] = match rules.list_type {
            ListType::Atomic => "atomic".into(),
            ListType::Set => "set".into(),
            ListType::Map(keys) => {
                schema["x-kubernetes-list-map-keys"] = keys.iter().copied().collect();
                "map".into()
            }
        };
    }
    if rules.atomic && !list {
        schema["x-kubernetes-map-type"] = "atomic".into();
    } else if rules.granular {
        schema["x-kubernetes-map-type"] = "granular".into();
    }
    let strategy = match (rules.merge, rules.retain_keys) {
        (true, true) => "merge,retainKeys",
        (true, false) => "merge",
        (false, true) => "retainKeys",
        (false, false) => return,
    };
    schema["x-kubernetes-patch-strategy"] = strategy.into();
    if let Some(key) = rules.merge_key {
        schema["x-kubernetes-patch-merge-key"] = key.into();
    }
}
