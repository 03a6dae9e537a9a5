//! Declarative validation: the rules that fields declare for presence, length, number of items,
//! format and mutability. On update only changed fields are validated.

use std::collections::{HashMap, HashSet};

use object::{FieldSchema, StructSchema, Type, Validation, Value};

use crate::{ErrorList, ErrorType, FieldPath, formats, gates::struct_of};

/// Validates an object, or its change from `old`.
pub fn validate_declarative(
    shape: &StructSchema,
    object: &Value,
    old: Option<&Value>,
    errs: &mut ErrorList,
) {
    let mut walk = Validator { update: old.is_some(), errs };
    walk.object(shape, object, old, &FieldPath::Root);
}

/// Whether a field of the type, at any depth, declares a validation.
pub(crate) fn has_validations(shape: &StructSchema) -> bool {
    fn any(shape: &StructSchema, seen: &mut Vec<*const StructSchema>) -> bool {
        if seen.contains(&std::ptr::from_ref(shape)) {
            return false;
        }
        seen.push(std::ptr::from_ref(shape));
        let fields = || shape.fields.iter();
        fields().any(|field| !field.attributes.validations.is_empty())
            || fields().any(|field| struct_of(&field.ty).is_some_and(|shape| any(shape, seen)))
    }
    match shape.index() {
        Some(index) => *index.has_validations.get_or_init(|| any(shape, &mut Vec::new())),
        None => any(shape, &mut Vec::new()),
    }
}

/// A type and the validations of its values.
type TypedValidations<'a> = (&'a [Validation], &'a Type);

/// Walks an object and validates its fields.
struct Validator<'a> {
    update: bool,
    errs: &'a mut ErrorList,
}

impl Validator<'_> {
    fn object(&mut self, shape: &StructSchema, new: &Value, old: Option<&Value>, at: &FieldPath) {
        if !has_validations(shape) {
            return;
        }
        self.union(shape, new, old, at);
        for field in shape.json_fields() {
            let value = field.get(new);
            let before = old.map(|old| field.get(old));
            if before == Some(value)
                || field.attributes.validations.is_empty() && struct_of(&field.ty).is_none()
            {
                continue;
            }
            self.field(field, value, before, &at.field(&field.name));
        }
    }

    fn field(&mut self, field: &FieldSchema, value: &Value, old: Option<&Value>, at: &FieldPath) {
        let checks = field.attributes.validations;
        let is_set = |value: &Value| match field.attributes.optional {
            true => !value.is_null(),
            false => !value.is_zero(),
        };
        let (is, was) = (is_set(value), old.is_some_and(is_set));
        let count = self.errs.0.len();
        self.validate_item_changes(checks, value, old, at);
        for check in checks {
            self.validate_presence(*check, (value, is), old.map(|old| (old, was)), at);
        }
        let a_part = matches!(*field.ty, Type::Object(_)) && !field.attributes.optional;
        if self.errs.0.len() > count || !is && !a_part {
            return; // an invalid or absent value is not validated further
        }
        self.values(checks, value, at);
        match &*field.ty {
            Type::List(item) => self.items((checks, item), value, old, at),
            Type::Map(item) => self.entries((checks, item), value, old, at),
            Type::Object(shape) => {
                // A field that was not set before is validated like a new one.
                let old = old.filter(|old| !field.attributes.optional || !old.is_null());
                self.object(shape, value, old, at);
            }
            _ => {}
        }
    }

    /// Validates presence, immutability and size, before the value itself.
    fn validate_presence(
        &mut self,
        check: Validation,
        (value, is): (&Value, bool),
        old: Option<(&Value, bool)>,
        at: &FieldPath,
    ) {
        let (known, was) = (old.is_some(), old.is_some_and(|old| old.1));
        let changed = |errs: &mut ErrorList, why: &str| errs.invalid(at, Value::Null, why);
        match check {
            Validation::Required if !is => self.errs.required(at, ""),
            Validation::Forbidden if is => self.errs.forbidden(at, ""),
            Validation::MaxItems(max) if length(value) > max => {
                self.errs.too_many_with_count(at, length(value), max);
            }
            Validation::Immutable if self.update => changed(self.errs, "field is immutable"),
            Validation::NoSetOnUpdate if known && !was && is => {
                changed(self.errs, "field cannot be set once created");
            }
            Validation::NoUnset if known && was && !is => {
                changed(self.errs, "field cannot be cleared once set");
            }
            Validation::NoModify if known && was && is => {
                changed(self.errs, "field cannot be modified once set");
            }
            Validation::Monotonic => {
                let before = old.and_then(|(old, _)| old.as_i64());
                if let Some((was, _)) = before.zip(value.as_i64()).filter(|(was, is)| is < was) {
                    let why = format!("may not be decreased from {was}");
                    self.errs.invalid(at, value.clone(), why);
                }
            }
            _ => {}
        }
    }

    /// Reports items that may not be added or removed.
    fn validate_item_changes(
        &mut self,
        checks: &[Validation],
        value: &Value,
        old: Option<&Value>,
        at: &FieldPath,
    ) {
        let Some(old) = old.filter(|_| self.update) else { return };
        let keys = keys(checks);
        if checks.contains(&Validation::NoAddItem) {
            let before = Index::new(keys, old.items());
            let items = value.items().iter().enumerate();
            for (i, _) in items.filter(|(_, new)| before.find(new).is_none()) {
                self.errs.forbidden(&at.index(i), "item may not be added");
            }
        }
        if checks.contains(&Validation::NoRemoveItem) {
            let now = Index::new(keys, value.items());
            for _ in old.items().iter().filter(|old| now.find(old).is_none()) {
                self.errs.forbidden(at, "item may not be removed");
            }
        }
    }

    /// Validates a single value.
    fn values(&mut self, checks: &[Validation], value: &Value, at: &FieldPath) {
        let text = value.as_str().unwrap_or_default();
        for check in checks {
            match *check {
                Validation::Min(min) if value.as_i64().is_some_and(|n| n < min) => {
                    let why = format!("must be greater than or equal to {min}");
                    self.errs.invalid(at, value.clone(), why);
                }
                Validation::Max(max) if value.as_i64().is_some_and(|n| n > max) => {
                    let why = format!("must be less than or equal to {max}");
                    self.errs.invalid(at, value.clone(), why);
                }
                Validation::MaxLength(max) if text.chars().count() > max => {
                    let why = format!("may not be more than {max} characters");
                    self.errs.push(ErrorType::TooLong, at, Value::Null, why);
                }
                Validation::MaxBytes(max) if text.len() > max => self.errs.too_long(at, max),
                Validation::Format(name) => formats::validate_format(name, text, at, self.errs),
                Validation::OneOfValues(allowed) => self.errs.one_of(at, text, allowed),
                _ => {}
            }
        }
    }

    fn items(
        &mut self,
        (checks, of): TypedValidations,
        value: &Value,
        old: Option<&Value>,
        at: &FieldPath,
    ) {
        let (items, before) = (value.items(), old.map(Value::items).unwrap_or_default());
        let (keys, each) = (keys(checks), each(checks));
        if keys.is_some() {
            let all = Index::new(keys, items);
            for (i, item) in items.iter().enumerate() {
                if all.find(item).is_some_and(|(first, _)| first < i) {
                    self.errs.duplicate_formatted(&at.index(i), format_go_value(of, item), "");
                }
            }
        }
        let before = Index::new(keys, before);
        for (i, value) in items.iter().enumerate() {
            let old = before.find(value).map(|(_, old)| old);
            if old != Some(value) {
                self.each((each, of), value, old, &at.index(i));
            }
        }
    }

    fn entries(
        &mut self,
        (checks, item): TypedValidations,
        value: &Value,
        old: Option<&Value>,
        at: &FieldPath,
    ) {
        for check in checks {
            let Validation::EachKey(checks) = check else { continue };
            let old: HashSet<_> =
                old.into_iter().flat_map(Value::entries).map(|(name, _)| name).collect();
            for (name, _) in value.entries() {
                if !old.contains(name) {
                    self.values(checks, &name.into(), at);
                }
            }
        }
        let each = each(checks);
        for (name, value) in value.entries() {
            let old = old.map(|old| old.get(name)).filter(|old| !old.is_null());
            if old != Some(value) {
                self.each((each, item), value, old, &at.key(name));
            }
        }
    }

    fn each(
        &mut self,
        (checks, ty): TypedValidations,
        value: &Value,
        old: Option<&Value>,
        at: &FieldPath,
    ) {
        self.values(checks, value, at);
        if let Type::Object(shape) = ty {
            self.object(shape, value, old, at);
        }
    }

    /// Validates a union: exactly one of its fields must be set.
    fn union(&mut self, shape: &StructSchema, new: &Value, old: Option<&Value>, at: &FieldPath) {
        let members = || {
            shape
                .json_fields()
                .filter(|field| field.attributes.validations.contains(&Validation::UnionMember))
        };
        let is_set = |object: &Value, field: &FieldSchema| match field.get(object) {
            Value::List(items) => !items.is_empty(),
            value => !value.is_null(),
        };
        let same = |old| members().all(|field| is_set(new, field) == is_set(old, field));
        if members().next().is_none() || old.is_some_and(same) {
            return;
        }
        let set: Vec<_> =
            members().filter(|field| is_set(new, field)).map(|field| field.name.as_str()).collect();
        let all: Vec<_> = members().map(|field| format!("`{}`", field.name)).collect();
        let all = all.join(", ");
        match set.len() {
            0 => self.errs.invalid(at, "", format!("must specify one of: {all}")),
            1 => {}
            _ => {
                let why = format!("must specify exactly one of: {all}");
                self.errs.invalid(at, format!("{{{}}}", set.join(", ")), why);
            }
        }
    }
}

/// The fields that identify an item of a list; empty: the whole item does.
fn keys(checks: &[Validation]) -> Option<&'static [&'static str]> {
    checks.iter().find_map(|check| match check {
        Validation::Unique => Some::<&[&str]>(&[]),
        Validation::UniqueBy(keys) => Some(*keys),
        _ => None,
    })
}

/// Finds items of a list by their key. Short lists are searched; long ones are hashed once, so that
/// looking up each item of another list does not take quadratic time.
struct Index<'a> {
    keys: Option<&'static [&'static str]>,
    items: &'a [Value],
    places: HashMap<Vec<&'a Value>, usize>,
}

impl<'a> Index<'a> {
    /// Maximum length of a list that is searched.
    const SHORT: usize = 12;

    fn new(keys: Option<&'static [&'static str]>, items: &'a [Value]) -> Self {
        let mut places = HashMap::new();
        if let (Some(keys), true) = (keys, items.len() > Self::SHORT) {
            for (i, item) in items.iter().enumerate() {
                places.entry(identity(keys, item)).or_insert(i);
            }
        }
        Self { keys, items, places }
    }

    /// The first item with the same key as this one, and its index.
    fn find(&self, item: &Value) -> Option<(usize, &'a Value)> {
        let keys = self.keys?;
        if self.items.len() > Self::SHORT {
            let place = *self.places.get(identity(keys, item).as_slice())?;
            return self.items.get(place).map(|found| (place, found));
        }
        let same = |other: &Value| match keys {
            [] => item == other,
            keys => keys.iter().all(|key| item.get(key) == other.get(key)),
        };
        self.items.iter().enumerate().find(|(_, other)| same(other))
    }
}

/// The key of an item: the values of these fields, or the whole item.
fn identity<'a>(keys: &[&str], item: &'a Value) -> Vec<&'a Value> {
    match keys {
        [] => vec![item],
        keys => keys.iter().map(|key| item.get(key)).collect(),
    }
}

fn each(checks: &[Validation]) -> &[Validation] {
    let found = checks.iter().find_map(|check| match check {
        Validation::Each(checks) => Some(*checks),
        _ => None,
    });
    found.unwrap_or_default()
}

/// Formats a value as Go prints it: fields in the order of their declaration.
pub fn format_go_value(ty: &Type, value: &Value) -> String {
    match (ty, value) {
        (Type::Object(shape), _) => {
            let fields = shape.fields_in_go_order().into_iter().filter_map(|field| {
                let value = value.get(&field.name);
                let zero = field.zero_value().filter(|_| value.is_null());
                if field.is_omitted(value) && zero.is_none() {
                    return None;
                }
                let value = zero.as_ref().unwrap_or(value);
                let value = match field.attributes.optional && value.is_null() {
                    true => "null".to_owned(),
                    false => format_go_value(&field.ty, value),
                };
                Some(format!("\"{}\":{value}", field.name))
            });
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        (Type::List(item), Value::List(items)) => {
            let items: Vec<_> = items.iter().map(|value| format_go_value(item, value)).collect();
            format!("[{}]", items.join(","))
        }
        (Type::Map(item), value) if value.is_object() => {
            let entry = |(name, value): (&str, &Value)| {
                format!("{name:?}:{}", format_go_value(item, value))
            };
            format!("{{{}}}", value.entries().map(entry).collect::<Vec<_>>().join(","))
        }
        (_, value) => String::from_utf8_lossy(&object::to_json(value)).into_owned(),
    }
}

fn length(value: &Value) -> usize {
    value.items().len().max(value.entries().len())
}

#[cfg(test)]
mod tests {
    use macros::api;
    use object::{Lens, List, Map, from_json};

    use super::*;

    #[api]
    struct Checked {
        #[api(tag = 1, validations(Required, MaxLength(3), Format("short-name")))]
        name: String,
        #[api(tag = 2, validations(MaxItems(2), UniqueBy("name"), NoRemoveItem))]
        items: List<CheckedItem>,
        #[api(tag = 3, validations(Immutable))]
        kind: String,
        #[api(tag = 4, validations(EachKey(Format("short-name")), Each(MaxBytes(1))))]
        labels: Map<String>,
        #[api(tag = 5)]
        target: Option<CheckedItem>,
    }

    #[api]
    struct CheckedItem {
        #[api(tag = 1, validations(Required))]
        name: String,
        #[api(tag = 2, validations(UnionMember, OneOfValues("A", "B")))]
        mode: Option<String>,
        #[api(tag = 3, validations(UnionMember, Min(1)))]
        count: Option<i64>,
        #[api(tag = 9)]
        values: List<String>,
    }

    fn told(new: &str, old: Option<&str>) -> Vec<String> {
        let tree = |text: &str| from_json(text.as_bytes()).expect("the test writes JSON");
        let mut errs = ErrorList::default();
        validate_declarative(Checked::SHAPE, &tree(new), old.map(tree).as_ref(), &mut errs);
        errs.0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn says_what_a_field_lacks() {
        assert!(has_validations(Checked::SHAPE));
        assert_eq!(told("{}", None), ["name: Required value"]);
        assert_eq!(
            told(r#"{"name":"abcd"}"#, None),
            ["name: Too long: may not be more than 3 characters"]
        );
        assert_eq!(
            told(r#"{"name":"a","labels":{"k":"xy"}}"#, None),
            ["labels[k]: Too long: may not be more than 1 byte"]
        );
    }

    #[test]
    fn items_are_few_and_told_apart() {
        let item = r#"{"name":"x","mode":"A"}"#;
        assert_eq!(
            told(&format!(r#"{{"name":"a","items":[{item},{item}]}}"#), None),
            [format!("items[1]: Duplicate value: {item}")]
        );
        let (empty, plain) =
            (r#"{"name":"x","values":[],"mode":"A"}"#, r#"{"name":"x","mode":"A"}"#);
        assert_eq!(
            told(&format!(r#"{{"name":"a","items":[{empty},{empty}]}}"#), None),
            [format!("items[1]: Duplicate value: {plain}")]
        );
        assert_eq!(
            told(&format!(r#"{{"name":"a","items":[{item},{item},{item}]}}"#), None),
            ["items: Too many: 3: must have at most 2 items"]
        );
    }

    #[test]
    fn one_member_of_a_union_is_set() {
        let of = |target: &str| told(&format!(r#"{{"name":"a","target":{target}}}"#), None);
        assert_eq!(
            of(r#"{"name":"x"}"#),
            [r#"target: Invalid value: "": must specify one of: `mode`, `count`"#]
        );
        assert_eq!(
            of(r#"{"name":"x","mode":"A","count":1}"#),
            [
                r#"target: Invalid value: "{mode, count}": must specify exactly one of: `mode`, `count`"#
            ]
        );
        assert_eq!(
            of(r#"{"name":"x","mode":"C"}"#),
            [r#"target.mode: Unsupported value: "C": supported values: "A", "B""#]
        );
    }

    #[test]
    fn an_update_is_told_only_of_what_it_changes() {
        let old = r#"{"name":"too long","kind":"k","items":[{"name":"x","mode":"A"}]}"#;
        assert!(told(old, Some(old)).is_empty());
        assert_eq!(
            told(r#"{"name":"too long","kind":"l"}"#, Some(old)),
            [
                "items: Forbidden: item may not be removed",
                "kind: Invalid value: null: field is immutable"
            ]
        );
        // A new field is validated completely.
        let new = old.replacen('{', r#"{"target":{},"#, 1);
        assert_eq!(told(&new, Some(old)).len(), 2);
    }
}
