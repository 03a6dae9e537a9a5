//! Validates a value against its JSON schema, with the messages of upstream's validator. Like that
//! validator it explains, of several alternatives that all fail, the one with the most matches.

use std::collections::HashMap;

use object::{Text, Value, to_json};

use super::{
    correlate::OldItems,
    format::{is_known, matches_format, supported_format},
    number::check_number,
    pattern::Pattern,
    schema::{AdditionalProperties, JsonSchema, get_entry},
};
use crate::{
    ErrorList, ErrorType, FieldError,
    errors::{MOST, MOST_BYTES},
    work_budget,
};

/// Validates values against a schema whose patterns are compiled.
#[derive(Debug, Default)]
pub struct SchemaValidator {
    patterns: HashMap<Text, Pattern>,
    /// Whether the schema is used without adjustments: unknown formats are kept, and
    /// `x-kubernetes-int-or-string` sets no type.
    unadjusted: bool,
}

/// A validation error and its path.
#[derive(Clone, Debug, PartialEq)]
pub struct SchemaError {
    pub(super) error: ErrorType,
    /// `None`: the error is about the whole value, not about a field.
    pub(super) path: Option<Text>,
    pub(super) bad: Value,
    /// Identifies the error among others, and is reported unless `detail` is set.
    pub(super) message: String,
    pub(super) detail: Option<String>,
}

/// The result of a validation.
#[derive(Debug, Default)]
pub(super) struct ValidationResult {
    pub(super) failures: Vec<SchemaError>,
    /// Total length of the messages, in bytes.
    bytes: usize,
    /// The number of validations that succeeded.
    match_count: usize,
}

impl ValidationResult {
    fn merge(&mut self, other: Self) {
        self.match_count += other.match_count;
        if self.failures.is_empty() {
            (self.failures, self.bytes) = (other.failures, other.bytes);
        } else {
            other.failures.into_iter().for_each(|failure| self.fail(failure));
        }
    }

    /// Adds an error, unless its message is known. A response contains at most `MOST` errors, so
    /// further ones are dropped; comparing them is counted as work.
    pub(super) fn fail(&mut self, failure: SchemaError) {
        if self.is_full() {
            return;
        }
        let _ = work_budget::spend(1 + self.failures.len() as u64 / 64); // `validate` reports it
        if self.failures.iter().all(|known| known.message != failure.message) {
            self.bytes += failure.message.len() + failure.detail.as_ref().map_or(0, String::len);
            self.failures.push(failure);
        }
    }

    fn is_full(&self) -> bool {
        self.failures.len() >= MOST || self.bytes > MOST_BYTES
    }

    /// Adds an error at a path.
    pub(super) fn push_at(
        &mut self,
        error: ErrorType,
        path: &str,
        bad: impl Into<Value>,
        why: &str,
    ) {
        let message = format!("{path} in body {why}");
        self.fail(SchemaError {
            error,
            path: Some(path.into()),
            bad: bad.into(),
            message,
            detail: None,
        });
    }

    /// Adds an error about the whole value.
    pub(super) fn push_composite(&mut self, message: String) {
        self.fail(SchemaError {
            error: ErrorType::Invalid,
            path: None,
            bad: "".into(),
            message,
            detail: None,
        });
    }

    fn push_type_error(&mut self, path: &str, wanted: &str, found: &str) {
        let why = format!("must be of type {wanted}: {}", object::quote::quote(found));
        self.push_at(ErrorType::TypeInvalid, path, found, &why);
    }
}

impl SchemaValidator {
    /// Compiles the patterns of a schema.
    pub fn new(schema: &JsonSchema) -> Self {
        let mut patterns = HashMap::new();
        schema.visit(&mut |schema| {
            let text = schema.text("pattern");
            if !text.is_empty() && !patterns.contains_key(text) {
                patterns.insert(text.into(), Pattern::new(text));
            }
        });
        Self { patterns, unadjusted: false }
    }

    /// A validator for the defaults of a schema.
    pub(super) fn literal(schema: &JsonSchema) -> Self {
        Self { unadjusted: true, ..Self::new(schema) }
    }

    /// Reports the errors of a value, with paths below `at`. Values that an update does not change
    /// are not reported (ratcheting).
    pub fn validate(
        &self,
        schema: &JsonSchema,
        (value, old): (&Value, Option<&Value>),
        at: &str,
        errs: &mut ErrorList,
    ) {
        let mut outcome = self.value(schema, value, old, "");
        if work_budget::is_exhausted() {
            outcome = ValidationResult::default();
            outcome.push_composite(work_budget::Exhausted.to_string());
        }
        let left = MOST.saturating_sub(errs.0.len());
        errs.0.extend(outcome.failures.into_iter().take(left).map(|it| it.into_error(at)));
    }

    fn types<'s>(&self, schema: &'s JsonSchema) -> Vec<&'s str> {
        if self.unadjusted && schema.ty().is_empty() { Vec::new() } else { schema.types() }
    }

    fn format<'s>(&self, schema: &'s JsonSchema) -> &'s str {
        if self.unadjusted { schema.text("format") } else { supported_format(schema) }
    }

    fn value(
        &self,
        schema: &JsonSchema,
        value: &Value,
        old: Option<&Value>,
        path: &str,
    ) -> ValidationResult {
        let mut outcome = ValidationResult::default();
        let (types, format) = (self.types(schema), self.format(schema));
        let wanted = (&*types, format, schema.is_nullable());
        if value.is_null() {
            outcome.merge(check_type(wanted, value, path));
            outcome.merge(check_enum(schema, value, path));
        } else {
            let mut part = |part: ValidationResult| {
                outcome.merge(part);
                outcome.match_count += 1;
            };
            if !types.is_empty() || !format.is_empty() {
                part(check_type(wanted, value, path));
            }
            part(self.validate_combinators(schema, value, path));
            match value {
                Value::Text(text) => {
                    part(self.text(schema, text, path));
                    if is_known(format) {
                        part(check_format(format, text, path));
                    }
                }
                Value::Int(_) | Value::UInt(_) | Value::Float(_) => {
                    let mut outcome = ValidationResult::default();
                    check_number(schema, value, path, &mut outcome);
                    outcome.match_count += 1;
                    part(outcome);
                }
                Value::List(items) => part(self.list(schema, items, old, path)),
                _ => {}
            }
            part(check_enum(schema, value, path));
            if value.is_object() {
                part(self.object(schema, value, old, path));
            }
            outcome.match_count += 1;
        }
        if old == Some(value) {
            outcome.failures.clear();
        }
        outcome
    }

    fn validate_combinators(
        &self,
        schema: &JsonSchema,
        value: &Value,
        path: &str,
    ) -> ValidationResult {
        let mut outcome = ValidationResult::default();
        let quoted = object::quote::quote(path);
        let each = |list: &str| -> Vec<ValidationResult> {
            let alternatives = schema.schema_list(list);
            alternatives.map(|schema| self.alternative(schema, value, path)).collect()
        };
        let best = |all: Vec<ValidationResult>| {
            all.into_iter()
                .reduce(|best, next| if next.match_count > best.match_count { next } else { best })
        };
        let right =
            |all: &[ValidationResult]| all.iter().filter(|one| one.failures.is_empty()).count();
        let any = each("anyOf");
        if right(&any) > 0 {
            any.into_iter()
                .find(|one| one.failures.is_empty())
                .into_iter()
                .for_each(|one| outcome.merge(one));
        } else if let Some(best) = best(any) {
            outcome.push_composite(format!("{quoted} must validate at least one schema (anyOf)"));
            outcome.merge(best);
        }
        let one = each("oneOf");
        match right(&one) {
            1 => one.into_iter().filter(|one| one.failures.is_empty()).for_each(|one| outcome.merge(one)),
            0 if one.is_empty() => {}
            0 => {
                let why = "must validate one and only one schema (oneOf). Found none valid";
                outcome.push_composite(format!("{quoted} {why}"));
                best(one).into_iter().for_each(|best| outcome.merge(best));
            }
            n => outcome.push_composite(format!(
                "{quoted} must validate one and only one schema (oneOf). Found {n} valid alternatives"
            )),
        }
        let all = each("allOf");
        let (wanted, found) = (all.len(), right(&all));
        all.into_iter().for_each(|one| outcome.merge(one));
        if found < wanted {
            let none = if found == 0 { ". None validated" } else { "" };
            outcome.push_composite(format!("{quoted} must validate all the schemas (allOf){none}"));
        }
        if let Some(not) = schema.not()
            && self.alternative(not, value, path).failures.is_empty()
        {
            outcome.push_composite(format!("{quoted} must not validate the schema (not)"));
        }
        outcome.match_count += 1;
        outcome
    }

    /// Like `value`, for one of several schemas of the same value. Their number does not depend on
    /// the size of the object, so their work is counted; `validate` reports when it is too much.
    fn alternative(&self, schema: &JsonSchema, value: &Value, path: &str) -> ValidationResult {
        if work_budget::spend(1 + count_values(value) / 2).is_err() {
            return ValidationResult::default();
        }
        self.value(schema, value, None, path)
    }

    fn text(&self, schema: &JsonSchema, text: &Text, path: &str) -> ValidationResult {
        let mut outcome = ValidationResult::default();
        let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        if let Some(max) = schema.integer("maxLength").filter(|max| length > *max) {
            let why = format!("should be at most {max} chars long");
            outcome.push_at(ErrorType::TooLong, path, max, &why);
        } else if let Some(min) = schema.integer("minLength").filter(|min| length < *min) {
            let why = format!("should be at least {min} chars long");
            outcome.push_at(ErrorType::Invalid, path, text.clone(), &why);
        } else if let Some(pattern) = self.patterns.get(schema.text("pattern"))
            && let Err(told) = pattern.check(text)
        {
            outcome.push_at(
                ErrorType::Invalid,
                path,
                text.clone(),
                &format!("should match '{told}'"),
            );
        }
        outcome
    }

    fn list(
        &self,
        schema: &JsonSchema,
        items: &[Value],
        old: Option<&Value>,
        path: &str,
    ) -> ValidationResult {
        let mut outcome = ValidationResult::default();
        if let Some(inner) = schema.items() {
            let keys = (schema.list_type() == Some("map")).then(|| schema.list_keys().collect());
            let old_items = OldItems::new(keys, old);
            for (i, item) in items.iter().enumerate() {
                let old = old_items.as_ref().and_then(|old| old.find(item));
                outcome.merge(self.value(inner, item, old, &format!("{path}[{i}]")));
            }
        }
        let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
        if let Some(min) = schema.integer("minItems").filter(|min| count < *min) {
            let why = format!("should have at least {min} items");
            outcome.push_at(ErrorType::Invalid, path, count, &why);
        }
        if let Some(max) = schema.integer("maxItems").filter(|max| count > *max) {
            too_many(&mut outcome, path, count, max, "items");
        }
        outcome.match_count += 1;
        outcome
    }

    fn object(
        &self,
        schema: &JsonSchema,
        value: &Value,
        old: Option<&Value>,
        path: &str,
    ) -> ValidationResult {
        let mut outcome = ValidationResult::default();
        let count = i64::try_from(value.entries().len()).unwrap_or(i64::MAX);
        if let Some(min) = schema.integer("minProperties").filter(|min| count < *min) {
            let why = format!("should have at least {min} properties");
            outcome.push_at(ErrorType::Invalid, path, count, &why);
        }
        if let Some(max) = schema.integer("maxProperties").filter(|max| count > *max) {
            too_many(&mut outcome, path, count, max, "properties");
        }
        let old = old.filter(|_| schema.map_type() != Some("atomic"));
        let before = |name: &str| old.and_then(|old| get_entry(old, name));
        for (name, value) in value.entries() {
            match (schema.property(name), schema.additional()) {
                (Some(inner), _) => {
                    let path = super::schema::join(path, name);
                    outcome.merge(self.value(inner, value, before(name), &path));
                }
                (None, AdditionalProperties::Schema(inner)) => {
                    outcome.merge(self.value(
                        inner,
                        value,
                        before(name),
                        &format!("{path}.{name}"),
                    ));
                }
                (None, AdditionalProperties::Allowed(false)) => {
                    let message = format!("{path}.{name} in body is a forbidden property");
                    let (path, bad) = (Some(path.into()), name.into());
                    outcome.fail(SchemaError {
                        error: ErrorType::Invalid,
                        path,
                        bad,
                        message,
                        detail: None,
                    });
                }
                _ => {}
            }
        }
        for name in schema.required().filter(|name| get_entry(value, name).is_none()) {
            outcome.push_at(
                ErrorType::Required,
                &format!("{path}.{name}"),
                Value::Null,
                "is required",
            );
        }
        outcome
    }
}

impl SchemaError {
    /// Converts to an API error with a path below `at`.
    fn into_error(self, at: &str) -> FieldError {
        let Self { error, path, bad, message, detail } = self;
        let path = path.unwrap_or_default();
        let path = path.strip_prefix('.').unwrap_or(&path);
        let path = match (at, path) {
            ("", "") => "<nil>".to_owned(),
            (at, "") => at.to_owned(),
            ("", path) => path.to_owned(),
            (at, path) => format!("{at}.{path}"),
        };
        let mut told = ErrorList::default();
        let nowhere = &crate::FieldPath::Root;
        match error {
            ErrorType::Required => told.required(nowhere, ""),
            ErrorType::TooLong => {
                let max = bad.as_i64().and_then(|max| usize::try_from(max).ok());
                told.too_long(nowhere, max.unwrap_or_default());
            }
            error => told.push(error, nowhere, bad, detail.unwrap_or(message)),
        }
        let told = told.0.pop().expect("just put there");
        FieldError { path, ..told }
    }
}

fn too_many(outcome: &mut ValidationResult, path: &str, count: i64, max: i64, of: &str) {
    let items = if max == 1 { "item" } else { "items" };
    outcome.fail(SchemaError {
        error: ErrorType::TooMany,
        path: Some(path.into()),
        bad: count.into(),
        message: format!("{path} in body should have at most {max} {of}"),
        detail: Some(format!("must have at most {max} {items}")),
    });
}

/// The types, the format, and whether null is allowed.
type ExpectedType<'a> = (&'a [&'a str], &'a str, bool);

fn check_type(
    (types, format, nullable): ExpectedType,
    value: &Value,
    path: &str,
) -> ValidationResult {
    let wanted = types.join(",");
    let mut outcome = ValidationResult { match_count: 1, ..ValidationResult::default() };
    let (found, found_format) = match value {
        Value::Null => {
            if !types.is_empty() && !nullable {
                outcome.match_count = 0;
                outcome.push_type_error(path, &wanted, "null");
            }
            return outcome;
        }
        Value::Bool(_) => ("boolean", ""),
        Value::Int(_) => ("integer", "int64"),
        // Numbers outside of the int64 range are decoded as floats.
        Value::UInt(_) | Value::Float(_) => ("number", "float64"),
        Value::Text(_) => ("string", ""),
        Value::List(_) => ("array", ""),
        Value::Object(_) | Value::Map(_) | Value::Raw(_) => ("object", ""),
    };
    let has = |ty: &str| types.contains(&ty);
    let whole = matches!(value, Value::Float(n) if super::number::is_whole(*n)) && has("integer");
    let numeric = found == "integer" && has("number") || whole;
    let texts = matches!(value, Value::Text(_) | Value::List(_));
    let formatted = has(found) || found_format == format || numeric;
    if !texts && !format.is_empty() && !formatted {
        outcome.match_count = 0;
        outcome.push_type_error(path, format, found_format);
    } else if texts && !format.is_empty() && !has("number") && !has("integer") {
        // only the format is checked
    } else if !(has(found) || numeric) {
        outcome.match_count = 0;
        outcome.push_type_error(path, &wanted, found);
    }
    outcome
}

fn check_format(format: &str, text: &Text, path: &str) -> ValidationResult {
    let mut outcome = ValidationResult::default();
    if !matches_format(format, text) {
        outcome.push_type_error(path, format, text);
    }
    outcome
}

fn check_enum(schema: &JsonSchema, value: &Value, path: &str) -> ValidationResult {
    let mut outcome = ValidationResult::default();
    let allowed = schema.tree().get("enum").items();
    let count = allowed.len() as u64;
    if allowed.is_empty()
        || work_budget::spend(count / 64).is_err()
        || allowed.iter().any(|allowed| same(value, allowed))
        || work_budget::spend(count / 4).is_err()
    {
        return outcome; // `validate` reports an exhausted work budget
    }
    let texts = allowed.iter().map(|allowed| match allowed {
        Value::Text(text) => format!("{text:?}"),
        other => format!("{:?}", String::from_utf8_lossy(&to_json(other))),
    });
    let texts: Vec<_> = texts.collect();
    outcome.fail(SchemaError {
        error: ErrorType::NotSupported,
        path: Some(path.into()),
        bad: value.clone(),
        message: format!("{path} in body should be one of {texts:?}"),
        detail: Some(format!("supported values: {}", texts.join(", "))),
    });
    outcome
}

/// Compares numbers in the type that the enum has them in.
fn same(value: &Value, allowed: &Value) -> bool {
    match (value, allowed) {
        (Value::Null, _) | (_, Value::Null) => false,
        #[expect(clippy::cast_possible_truncation, reason = "as Go converts")]
        (Value::Float(n), Value::Int(allowed)) => *n as i64 == *allowed,
        (Value::Int(_), Value::Float(allowed)) => value.as_f64() == Some(*allowed),
        (value, allowed) => value == allowed,
    }
}

/// The number of values inside a value.
fn count_values(value: &Value) -> u64 {
    let items = value.items().iter().map(|item| 1 + count_values(item));
    let entries = value.entries().map(|(_, entry)| 1 + count_values(entry));
    items.sum::<u64>() + entries.sum::<u64>()
}

#[cfg(test)]
mod limits;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tree;

    fn complaints(schema: &str, value: &str, old: Option<&str>) -> Vec<String> {
        let schema = JsonSchema::from(tree(schema));
        let mut errs = ErrorList::default();
        let old = old.map(tree);
        let value = tree(value);
        SchemaValidator::new(&schema).validate(&schema, (&value, old.as_ref()), "", &mut errs);
        errs.0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn tells_what_is_wrong_and_where() {
        let schema = r#"{"type":"object","required":["a"],"properties":{"a":{"type":"string"},
            "l":{"type":"array","maxItems":1,"items":{"type":"integer","minimum":3}},
            "e":{"enum":["x","y"]},"s":{"type":"string","maxLength":2,"pattern":"^a"}}}"#;
        assert_eq!(complaints(schema, r#"{"a":"b"}"#, None), [""; 0]);
        assert_eq!(complaints(schema, "{}", None), ["a: Required value"]);
        let found = complaints(schema, r#"{"a":5,"l":[1,3],"e":"z","s":"b"}"#, None);
        assert_eq!(
            found,
            [
                r#"a: Invalid value: "integer": a in body must be of type string: "integer""#,
                r#"e: Unsupported value: "z": supported values: "x", "y""#,
                "l[0]: Invalid value: 1: l[0] in body should be greater than or equal to 3",
                "l: Too many: 2: must have at most 1 item",
                r#"s: Invalid value: "b": s in body should match '^a'"#,
            ]
        );
    }

    #[test]
    fn of_alternatives_the_nearest_is_explained() {
        let schema = r#"{"anyOf":[{"required":["a"]},{"required":["b"],"properties":{"c":{"type":"string"}}}]}"#;
        let found = complaints(schema, r#"{"c":"x"}"#, None);
        assert_eq!(
            found[0],
            r#"<nil>: Invalid value: "": "" must validate at least one schema (anyOf)"#
        );
        assert_eq!(found[1], "b: Required value");
        assert!(complaints(schema, r#"{"b":1}"#, None).is_empty());
    }

    #[test]
    fn what_was_so_before_may_stay() {
        let schema = r#"{"properties":{"a":{"maxLength":1},"b":{"maxLength":1}}}"#;
        let old = Some(r#"{"a":"long","b":"x"}"#);
        assert!(complaints(schema, r#"{"a":"long","b":"y"}"#, old).is_empty());
        assert_eq!(complaints(schema, r#"{"a":"longer","b":"y"}"#, old).len(), 1);
    }
}
