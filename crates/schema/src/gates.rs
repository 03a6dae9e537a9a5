//! Feature gates, and the fields that depend on them.

use std::{collections::BTreeSet, sync::Arc};

use object::{FieldSchema, StructSchema, Type, Value};

/// The disabled features; all others are enabled.
#[derive(Clone, Debug, Default)]
pub struct FeatureGates(Arc<BTreeSet<&'static str>>);

impl FeatureGates {
    /// Disables these features.
    pub fn with_disabled(off: impl IntoIterator<Item = &'static str>) -> Self {
        Self(Arc::new(off.into_iter().collect()))
    }

    pub fn is_enabled(&self, name: &str) -> bool {
        !self.0.contains(name)
    }

    /// Drops the fields whose feature is disabled, except those that the old object uses.
    pub fn drop_disabled_fields(
        &self,
        shape: &StructSchema,
        object: &mut Value,
        old: Option<&Value>,
    ) {
        if self.0.is_empty() || !self.uses_disabled_field(shape, object) {
            return;
        }
        let mut dormant = Vec::new();
        self.collect(shape, &mut dormant, &mut Vec::new());
        dormant.retain(|field| !old.is_some_and(|old| uses(shape, old, field)));
        if !dormant.is_empty() && dormant.iter().any(|field| uses(shape, object, field)) {
            strip(shape, object, &dormant);
        }
    }

    /// Whether an object sets any field whose feature is off.
    fn uses_disabled_field(&self, shape: &StructSchema, object: &Value) -> bool {
        shape.present_fields(object).any(|(field, value)| {
            self.is_field_disabled(field) || self.touches_within(&field.ty, value)
        })
    }

    fn touches_within(&self, ty: &Type, value: &Value) -> bool {
        match ty {
            Type::Object(shape) => self.uses_disabled_field(shape, value),
            Type::List(item) if struct_of(item).is_some() => {
                value.items().iter().any(|value| self.touches_within(item, value))
            }
            Type::Map(item) if struct_of(item).is_some() => {
                value.entries().any(|(_, value)| self.touches_within(item, value))
            }
            _ => false,
        }
    }

    fn is_field_disabled(&self, field: &FieldSchema) -> bool {
        field
            .attributes
            .feature_gate
            .is_some_and(|gates| !gates.split(',').all(|gate| self.is_enabled(gate)))
    }

    fn collect<'a>(
        &self,
        shape: &'a StructSchema,
        dormant: &mut Vec<&'a FieldSchema>,
        seen: &mut Vec<*const StructSchema>,
    ) {
        if seen.contains(&std::ptr::from_ref(shape)) {
            return;
        }
        seen.push(std::ptr::from_ref(shape));
        for field in shape.json_fields() {
            if self.is_field_disabled(field) {
                dormant.push(field);
            } else if let Some(shape) = struct_of(&field.ty) {
                self.collect(shape, dormant, seen);
            }
        }
    }
}

/// Whether a field of the type, at any depth, depends on the feature gate.
pub fn has_gated_field(shape: &StructSchema, gate: &str) -> bool {
    fn any(shape: &StructSchema, gate: &str, seen: &mut Vec<*const StructSchema>) -> bool {
        if seen.contains(&std::ptr::from_ref(shape)) {
            return false;
        }
        seen.push(std::ptr::from_ref(shape));
        let has = |field: &FieldSchema| {
            field
                .attributes
                .feature_gate
                .is_some_and(|gates| gates.split(',').any(|found| found == gate))
        };
        shape.fields.iter().any(|field| {
            has(field) || struct_of(&field.ty).is_some_and(|shape| any(shape, gate, seen))
        })
    }
    any(shape, gate, &mut Vec::new())
}

/// Whether `field` is set anywhere in an object.
fn uses(shape: &StructSchema, object: &Value, field: &FieldSchema) -> bool {
    shape.present_fields(object).any(|(found, value)| {
        !value.is_null() && (std::ptr::eq(found, field) || within(&found.ty, value, field))
    })
}

fn within(ty: &Type, value: &Value, field: &FieldSchema) -> bool {
    match ty {
        Type::Object(shape) => uses(shape, value, field),
        Type::List(item) => value.items().iter().any(|value| within(item, value, field)),
        Type::Map(item) => value.entries().any(|(_, value)| within(item, value, field)),
        _ => false,
    }
}

fn strip(shape: &StructSchema, object: &mut Value, dormant: &[&FieldSchema]) {
    object.retain(|name, value| {
        let Some(found) = shape.field(name) else { return true };
        let held = !value.is_zero();
        strip_within(&found.ty, value, dormant);
        // `lifecycle` is the only field that upstream drops when this empties it.
        let emptied = name == "lifecycle" && held && value.is_zero();
        !emptied && !dormant.iter().any(|field| std::ptr::eq(*field, found))
    });
}

fn strip_within(ty: &Type, value: &mut Value, dormant: &[&FieldSchema]) {
    match (ty, &mut *value) {
        (Type::Object(shape), _) => strip(shape, value, dormant),
        (Type::List(item), Value::List(items)) if struct_of(item).is_some() => {
            items.make_mut().iter_mut().for_each(|value| strip_within(item, value, dormant));
        }
        (Type::Map(item), _) if struct_of(item).is_some() => value.retain(|_, value| {
            strip_within(item, value, dormant);
            true
        }),
        _ => {}
    }
}

/// The struct that a type contains, directly or as the item of a list or map.
pub(crate) fn struct_of(ty: &Type) -> Option<&StructSchema> {
    match ty {
        Type::Object(shape) => Some(shape),
        Type::List(item) | Type::Map(item) => struct_of(item),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use macros::api;
    use object::{Lens, List, from_json};

    use super::*;

    #[api]
    struct Gated {
        #[api(tag = 1)]
        name: String,
        #[api(tag = 2, feature_gate = "A")]
        mode: Option<String>,
        #[api(tag = 3)]
        items: List<GatedItem>,
        #[api(tag = 4)]
        lifecycle: Option<GatedItem>,
    }

    #[api]
    struct GatedItem {
        #[api(tag = 1, feature_gate = "A,B")]
        count: Option<i64>,
    }

    fn left(off: &[&'static str], new: &str, old: Option<&str>) -> String {
        let tree = |text: &str| from_json(text.as_bytes()).expect("the test writes JSON");
        let mut object = tree(new);
        let gates = FeatureGates::with_disabled(off.iter().copied());
        gates.drop_disabled_fields(Gated::SHAPE, &mut object, old.map(tree).as_ref());
        String::from_utf8(object::to_json(&object)).expect("JSON is text")
    }

    #[test]
    fn fields_go_with_their_feature() {
        let new = r#"{"items":[{"count":1}],"mode":"m","name":"n"}"#;
        assert_eq!(left(&[], new, None), new);
        assert_eq!(left(&["B"], new, None), r#"{"items":[{}],"mode":"m","name":"n"}"#);
        assert_eq!(left(&["A"], new, None), r#"{"items":[{}],"name":"n"}"#);
        assert_eq!(left(&["A"], r#"{"lifecycle":{"count":1}}"#, None), "{}");
    }

    #[test]
    fn what_is_in_use_stays() {
        let new = r#"{"mode":"m","name":"n"}"#;
        assert_eq!(left(&["A"], new, Some(r#"{"mode":"x"}"#)), new);
        assert!(has_gated_field(Gated::SHAPE, "B") && !has_gated_field(Gated::SHAPE, "C"));
    }
}
