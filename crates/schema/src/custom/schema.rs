//! A node of a CRD's OpenAPI schema: a lens on the CRD's own value.

use object::{Text, Value};
use ref_cast::RefCast;

/// The value of `additionalProperties`.
#[derive(Clone, Copy, Debug)]
pub enum AdditionalProperties<'a> {
    /// Not specified.
    Unset,
    /// Whether additional properties are allowed.
    Allowed(bool),
    /// The schema of additional properties.
    Schema(&'a JsonSchema),
}

/// A node of an OpenAPI v3 schema.
#[derive(Clone, Debug, Default, PartialEq, RefCast)]
#[repr(transparent)]
pub struct JsonSchema(Value);

impl From<Value> for JsonSchema {
    fn from(tree: Value) -> Self {
        Self(tree)
    }
}

impl JsonSchema {
    pub fn view(tree: &Value) -> &Self {
        Self::ref_cast(tree)
    }

    pub fn tree(&self) -> &Value {
        &self.0
    }

    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).as_str().unwrap_or_default()
    }

    pub fn flag(&self, name: &str) -> bool {
        self.0.get(name).as_bool().unwrap_or_default()
    }

    pub fn number(&self, name: &str) -> Option<f64> {
        self.0.get(name).as_f64()
    }

    pub fn integer(&self, name: &str) -> Option<i64> {
        self.0.get(name).as_i64()
    }

    /// The type; empty if any type is allowed.
    pub fn ty(&self) -> &str {
        self.text("type")
    }

    pub fn is_nullable(&self) -> bool {
        self.flag("nullable")
    }

    pub fn default_value(&self) -> Option<&Value> {
        Some(self.0.get("default")).filter(|default| !default.is_null())
    }

    /// Whether unknown fields are preserved.
    pub fn preserves_unknown_fields(&self) -> bool {
        self.flag("x-kubernetes-preserve-unknown-fields")
    }

    /// Whether this is an embedded resource with its own apiVersion, kind and metadata.
    pub fn is_embedded_resource(&self) -> bool {
        self.flag("x-kubernetes-embedded-resource")
    }

    pub fn is_int_or_string(&self) -> bool {
        self.flag("x-kubernetes-int-or-string")
    }

    pub fn list_type(&self) -> Option<&str> {
        self.0.get("x-kubernetes-list-type").as_str()
    }

    pub fn list_keys(&self) -> impl ExactSizeIterator<Item = &str> {
        let keys = self.0.get("x-kubernetes-list-map-keys").items().iter();
        keys.map(|key| key.as_str().unwrap_or_default())
    }

    pub fn map_type(&self) -> Option<&str> {
        self.0.get("x-kubernetes-map-type").as_str()
    }

    /// The CEL rules of this node.
    pub fn validations(&self) -> &[Value] {
        self.0.get("x-kubernetes-validations").items()
    }

    pub fn required(&self) -> impl Iterator<Item = &str> {
        self.0.get("required").items().iter().filter_map(Value::as_str)
    }

    pub fn property(&self, name: &str) -> Option<&Self> {
        Some(self.0.get("properties").get(name)).filter(|tree| tree.is_object()).map(Self::view)
    }

    pub fn properties(&self) -> impl ExactSizeIterator<Item = (&str, &Self)> {
        self.schema_map("properties")
    }

    /// A map of schemas, such as `properties` or `patternProperties`.
    pub fn schema_map(&self, list: &str) -> impl ExactSizeIterator<Item = (&str, &Self)> {
        self.0.get(list).entries().map(|(name, tree)| (name, Self::view(tree)))
    }

    /// The schema of list items; one schema per item is not supported in CRDs.
    pub fn items(&self) -> Option<&Self> {
        self.subschema("items")
    }

    pub fn not(&self) -> Option<&Self> {
        self.subschema("not")
    }

    /// The schemas in `allOf`, `anyOf` or `oneOf`.
    pub fn schema_list(&self, list: &str) -> impl ExactSizeIterator<Item = &Self> {
        self.0.get(list).items().iter().map(Self::view)
    }

    pub fn additional(&self) -> AdditionalProperties<'_> {
        match self.0.get("additionalProperties") {
            Value::Bool(allowed) => AdditionalProperties::Allowed(*allowed),
            tree if tree.is_object() => AdditionalProperties::Schema(Self::view(tree)),
            _ => AdditionalProperties::Unset,
        }
    }

    /// The schema of an entry: its property, or else additionalProperties.
    pub fn entry(&self, name: &str) -> Option<&Self> {
        self.property(name).or(match self.additional() {
            AdditionalProperties::Schema(schema) => Some(schema),
            _ => None,
        })
    }

    /// The allowed types; empty: any.
    pub fn types(&self) -> Vec<&str> {
        match (self.is_int_or_string(), self.ty()) {
            (true, _) => vec!["integer", "string"],
            (false, "") => Vec::new(),
            (false, ty) => vec![ty],
        }
    }

    /// Whether this node or any node below it satisfies `wanted`.
    pub fn any_node(&self, wanted: &dyn Fn(&Self) -> bool) -> bool {
        let mut found = false;
        self.visit(&mut |schema| found |= wanted(schema));
        found
    }

    /// Calls `see` with this node and all nodes below it.
    pub fn visit(&self, see: &mut dyn FnMut(&Self)) {
        see(self);
        for one in ["items", "not", "additionalProperties", "additionalItems"] {
            if let Some(schema) = self.subschema(one) {
                schema.visit(see);
            }
        }
        for list in ["items", "allOf", "anyOf", "oneOf"] {
            self.schema_list(list).for_each(|schema| schema.visit(see));
        }
        for map in ["properties", "patternProperties", "definitions", "dependencies"] {
            for (_, schema) in self.schema_map(map).filter(|(_, schema)| schema.0.is_object()) {
                schema.visit(see);
            }
        }
    }

    fn subschema(&self, name: &str) -> Option<&Self> {
        Some(self.0.get(name)).filter(|tree| tree.is_object()).map(Self::view)
    }
}

/// Whether the name is apiVersion, kind or metadata.
pub(super) fn is_meta(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

/// The entry `name`, including an explicit `null`.
pub(super) fn get_entry<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object.entries().find(|entry| entry.0 == name).map(|entry| entry.1)
}

/// Appends a name to a path: `spec.list[0].name`.
pub(super) fn join(path: &str, name: &str) -> Text {
    if path.is_empty() { name.into() } else { format!("{path}.{name}").into() }
}
