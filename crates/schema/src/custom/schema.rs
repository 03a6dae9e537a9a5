//! A node of an OpenAPI schema, as a CRD holds it: a lens on that part of the CRD.

use object::{Text, Value};
use ref_cast::RefCast;

/// What is said of properties that have no name of their own.
#[derive(Clone, Copy, Debug)]
pub enum AdditionalProperties<'a> {
    /// Nothing.
    Unset,
    /// Whether there may be any.
    Allowed(bool),
    /// They are like this.
    Schema(&'a JsonSchema),
}

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

    /// Empty where any is right.
    pub fn ty(&self) -> &str {
        self.text("type")
    }

    pub fn is_nullable(&self) -> bool {
        self.flag("nullable")
    }

    pub fn default_value(&self) -> Option<&Value> {
        Some(self.0.get("default")).filter(|default| !default.is_null())
    }

    /// Whether fields that the schema does not name stay.
    pub fn preserves_unknown_fields(&self) -> bool {
        self.flag("x-kubernetes-preserve-unknown-fields")
    }

    /// Whether this is an object with `apiVersion`, `kind` and `metadata` of its own.
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

    /// The rules in CEL that stand at this node.
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

    /// A map of schemas: properties, or what older schemas have besides.
    pub fn schema_map(&self, list: &str) -> impl ExactSizeIterator<Item = (&str, &Self)> {
        self.0.get(list).entries().map(|(name, tree)| (name, Self::view(tree)))
    }

    /// The schema of list items. There may be one for each item, which no CRD may use.
    pub fn items(&self) -> Option<&Self> {
        self.subschema("items")
    }

    pub fn not(&self) -> Option<&Self> {
        self.subschema("not")
    }

    /// `allOf`, `anyOf` or `oneOf`.
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

    /// The schema of an entry, named or not.
    pub fn entry(&self, name: &str) -> Option<&Self> {
        self.property(name).or(match self.additional() {
            AdditionalProperties::Schema(schema) => Some(schema),
            _ => None,
        })
    }

    /// What the value may be; none: anything.
    pub fn types(&self) -> Vec<&str> {
        match (self.is_int_or_string(), self.ty()) {
            (true, _) => vec!["integer", "string"],
            (false, "") => Vec::new(),
            (false, ty) => vec![ty],
        }
    }

    /// Whether this node or any below it is as `wanted`.
    pub fn any_node(&self, wanted: &dyn Fn(&Self) -> bool) -> bool {
        let mut found = false;
        self.visit(&mut |schema| found |= wanted(schema));
        found
    }

    /// Shows this node and all below it.
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

/// Whether a name is one of those that every object has.
pub(super) fn is_meta(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

/// An entry, be it an explicit `null`.
pub(super) fn get_entry<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object.entries().find(|entry| entry.0 == name).map(|entry| entry.1)
}

/// The name of a place in an object: `spec.list[0].name`.
pub(super) fn join(path: &str, name: &str) -> Text {
    if path.is_empty() { name.into() } else { format!("{path}.{name}").into() }
}
