//! Validation errors: all errors of an object, in upstream's format.

use std::{
    collections::{BTreeSet, HashSet},
    fmt,
};

use object::{Status, StatusCause, StatusDetails, Value, quote::quote, to_json};

use crate::{FieldPath, patch::go_float};

/// Maximum number of errors that are reported for one object; each takes memory.
pub(crate) const MOST: usize = 1_000;
/// Maximum size of the errors of one object, in bytes: a message can list all items of a long list,
/// for each item.
pub(crate) const MOST_BYTES: usize = 4 << 20;
/// A detail longer than this many bytes counts as a long message.
const LONG: usize = 4 << 10;

/// The type of a validation error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorType {
    NotFound,
    Required,
    Duplicate,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    TypeInvalid,
    Internal,
}

impl ErrorType {
    /// The text in messages.
    pub fn message(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }

    /// The reason in the causes of a Status.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Internal => "InternalError",
        }
    }
}

/// A validation error at one field path.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    pub error_type: ErrorType,
    pub path: String,
    /// The invalid value; `Null` where the message shows none.
    pub bad_value: Value,
    /// How the message shows the value, where that is not JSON.
    pub formatted_value: Option<String>,
    pub detail: String,
}

impl FieldError {
    /// The message without the path.
    pub fn body(&self) -> String {
        let head = self.error_type.message();
        let head = match self.error_type {
            ErrorType::Required
            | ErrorType::Forbidden
            | ErrorType::TooLong
            | ErrorType::Internal => head.to_owned(),
            ErrorType::TooMany if self.bad_value.is_null() => head.to_owned(),
            _ => match (&self.formatted_value, &self.bad_value) {
                (Some(text), _) if text.is_empty() => head.to_owned(),
                (Some(text), _) => format!("{head}: {}", escaped(text)),
                // In Go, a value with an enumerated type is not a plain string.
                (None, Value::Text(text)) if self.error_type != ErrorType::NotSupported => {
                    format!("{head}: {}", quote(text))
                }
                (None, Value::Float(n)) => format!("{head}: {}", go_float(*n)),
                (None, bad) => {
                    format!("{head}: {}", escaped(&String::from_utf8_lossy(&to_json(bad))))
                }
            },
        };
        if self.detail.is_empty() { head } else { format!("{head}: {}", self.detail) }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.body())
    }
}

/// Escapes HTML characters as Go's JSON encoder does, unless the text is Go syntax and not JSON.
fn escaped(shown: &str) -> String {
    let is_json = shown.starts_with(['{', '[', '"']) && !shown.contains("<nil>");
    let each = shown.chars().map(|c| match c {
        '<' | '>' | '&' | '\u{2028}' | '\u{2029}' if is_json => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    });
    each.collect()
}

/// Collects validation errors, which the caller turns into one 422 response. The second list
/// contains errors that the old object had too (ratcheting); the caller only warns about them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ErrorList(pub Vec<FieldError>, pub Vec<FieldError>);

impl ErrorList {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Replaces errors by the equal ones of `others`, whose values are formatted differently, and
    /// removes them there.
    pub fn adopt_formatting(&mut self, others: &mut Self) {
        for error in &mut self.0 {
            let same = |other: &FieldError| {
                (other.error_type, &other.path, &other.detail)
                    == (error.error_type, &error.path, &error.detail)
            };
            if let Some(at) = others.0.iter().position(same) {
                *error = others.0.remove(at);
            }
        }
    }

    /// Adds an error, unless the list is full.
    pub fn push(
        &mut self,
        error: ErrorType,
        at: &FieldPath,
        bad: Value,
        detail: impl Into<String>,
    ) {
        let detail = detail.into();
        if self.0.len() < MOST && !(detail.len() > LONG && self.is_full()) {
            let path = at.to_string();
            self.0.push(FieldError {
                error_type: error,
                path,
                bad_value: bad,
                formatted_value: None,
                detail,
            });
        }
    }

    /// Whether only short errors are still accepted. Check it before formatting a long text for
    /// each item of a list.
    pub fn is_full(&self) -> bool {
        let texts = |error: &FieldError| {
            error.detail.len() + error.formatted_value.as_ref().map_or(0, String::len)
        };
        self.0.len() >= MOST || self.0.iter().map(texts).sum::<usize>() > MOST_BYTES
    }

    /// Like `invalid`, with a value that the message shows as `shown`.
    pub fn invalid_formatted(&mut self, at: &FieldPath, shown: String, detail: impl Into<String>) {
        let before = self.0.len();
        self.push(ErrorType::Invalid, at, Value::Null, detail);
        if self.0.len() > before {
            self.show(shown);
        }
    }

    /// Sets how the message of the last error shows its value.
    fn show(&mut self, shown: String) {
        if let Some(last) = self.0.last_mut() {
            last.formatted_value = Some(shown);
        }
    }

    /// Reports an invalid value.
    pub fn invalid(&mut self, at: &FieldPath, bad: impl Into<Value>, detail: impl Into<String>) {
        self.push(ErrorType::Invalid, at, bad.into(), detail);
    }

    /// Like `invalid`, without a value in the message.
    pub fn invalid_without_value(&mut self, at: &FieldPath, detail: impl Into<String>) {
        self.push(ErrorType::Invalid, at, Value::Null, detail);
        self.show(String::new());
    }

    /// Like `duplicate`, with a value that the message shows as `shown`.
    pub fn duplicate_formatted(
        &mut self,
        at: &FieldPath,
        shown: String,
        detail: impl Into<String>,
    ) {
        self.push(ErrorType::Duplicate, at, Value::Null, detail);
        self.show(shown);
    }

    /// Reports a missing value.
    pub fn required(&mut self, at: &FieldPath, detail: impl Into<String>) {
        self.push(ErrorType::Required, at, Value::Null, detail);
    }

    /// Reports a duplicate value.
    pub fn duplicate(&mut self, at: &FieldPath, bad: impl Into<Value>) {
        self.push(ErrorType::Duplicate, at, bad.into(), "");
    }

    /// Reports a field that may not be set.
    pub fn forbidden(&mut self, at: &FieldPath, detail: impl Into<String>) {
        self.push(ErrorType::Forbidden, at, Value::Null, detail);
    }

    /// Reports a reference to something that does not exist.
    pub fn not_found(&mut self, at: &FieldPath, bad: impl Into<Value>) {
        self.push(ErrorType::NotFound, at, bad.into(), "");
    }

    /// Reports a value that is not in `allowed`; the message lists them in the order given.
    pub fn not_supported(&mut self, at: &FieldPath, bad: impl Into<Value>, allowed: &[&str]) {
        let allowed: Vec<_> = allowed.iter().map(|name| quote(name)).collect();
        let detail = format!("supported values: {}", allowed.join(", "));
        self.push(ErrorType::NotSupported, at, bad.into(), detail);
    }

    /// Like `not_supported`, with a value that the message shows as `shown`.
    pub fn not_supported_formatted(&mut self, at: &FieldPath, shown: String, allowed: &[&str]) {
        self.not_supported(at, Value::Null, allowed);
        self.show(shown);
    }

    /// Reports a value of more than `max` bytes.
    pub fn too_long(&mut self, at: &FieldPath, max: usize) {
        let bytes = if max == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {max} {bytes}");
        self.push(ErrorType::TooLong, at, Value::Null, detail);
    }

    /// Reports a list of more than `max` items.
    pub fn too_many(&mut self, at: &FieldPath, max: usize) {
        let items = if max == 1 { "item" } else { "items" };
        self.push(ErrorType::TooMany, at, Value::Null, format!("must have at most {max} {items}"));
    }

    /// Like `too_many`, with the number of items in the message.
    pub fn too_many_with_count(&mut self, at: &FieldPath, count: usize, max: usize) {
        self.too_many(at, max);
        if let Some(last) = self.0.last_mut() {
            last.bad_value = object::saturating_i32(count).into();
        }
    }

    /// Adds one error for each of the `complaints` about a value.
    pub fn invalid_each(&mut self, at: &FieldPath, bad: &str, complaints: Vec<String>) {
        for complaint in complaints {
            self.invalid(at, bad, complaint);
        }
    }

    /// `value` must be one of `allowed`.
    pub fn one_of(&mut self, at: &FieldPath, value: &str, allowed: &[&str]) {
        if !allowed.contains(&value) {
            self.not_supported(at, value, allowed);
        }
    }

    /// Like `one_of`; an empty value is reported as required.
    pub fn required_one_of(&mut self, at: &FieldPath, value: &str, allowed: &[&str]) {
        match value {
            "" => self.required(at, ""),
            value => self.one_of(at, value, allowed),
        }
    }

    /// `text` is required and must satisfy `rule`.
    pub fn required_format(&mut self, at: &FieldPath, text: &str, rule: fn(&str) -> Vec<String>) {
        match text {
            "" => self.required(at, ""),
            text => self.invalid_each(at, text, rule(text)),
        }
    }

    /// `text` may be empty, and otherwise must satisfy `rule`.
    pub fn optional_format(&mut self, at: &FieldPath, text: &str, rule: fn(&str) -> Vec<String>) {
        if !text.is_empty() {
            self.invalid_each(at, text, rule(text));
        }
    }

    /// `text` must not be in `seen`, and is added to it.
    pub fn unique<'a>(&mut self, seen: &mut BTreeSet<&'a str>, at: &FieldPath, text: &'a str) {
        if !seen.insert(text) {
            self.duplicate(at, text);
        }
    }

    pub fn max_bytes(&mut self, at: &FieldPath, text: &str, max: usize) {
        if text.len() > max {
            self.too_long(at, max);
        }
    }

    pub fn max_items(&mut self, at: &FieldPath, count: usize, max: usize) {
        if count > max {
            self.too_many_with_count(at, count, max);
        }
    }

    pub fn non_negative(&mut self, at: &FieldPath, n: i64) {
        if n < 0 {
            self.invalid(at, n, "must be greater than or equal to 0");
        }
    }

    /// Reports a change of an immutable field.
    pub fn immutable(&mut self, at: &FieldPath, new: &Value, old: &Value) {
        if new != old {
            self.invalid(at, new.clone(), "field is immutable");
        }
    }

    /// Removes duplicate errors.
    pub fn dedup(&mut self) {
        let (mut known, mut bytes) = (HashSet::new(), 0);
        self.0.retain(|error| {
            if bytes > MOST_BYTES {
                return false;
            }
            let text = error.to_string();
            bytes += text.len();
            known.insert((error.error_type.reason(), text))
        });
    }

    /// The 422 Status: every error is a cause, and the message contains each text once.
    pub fn into_status(&self, group: &str, kind: &str, name: &str) -> Status {
        let causes = self.0.iter().map(|error| {
            StatusCause::new()
                .with_reason(error.error_type.reason())
                .with_message(error.body())
                .with_field(error.path.as_str())
        });
        let details = StatusDetails::new()
            .with_group(group)
            .with_kind(kind)
            .with_name(name)
            .with_causes(causes.collect::<object::List<_>>());
        let what = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let mut known = HashSet::new();
        let errors = self.0.iter().map(ToString::to_string);
        let errors: Vec<String> = errors.filter(|error| known.insert(error.clone())).collect();
        let errors = match &*errors {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        Status::failure(422, "Invalid", format!("{what} {} is invalid: {errors}", quote(name)))
            .with_details(details)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_all_that_is_wrong_as_upstream_does() {
        let mut errs = ErrorList::default();
        let spec = FieldPath::Root.field("spec");
        errs.invalid(&spec.field("replicas"), -1, "must be greater than or equal to 0");
        errs.required(&spec.field("selector"), "");
        let status = errs.into_status("apps", "Deployment", "web");
        assert_eq!(
            status.message(),
            "Deployment.apps \"web\" is invalid: [spec.replicas: Invalid value: -1: must be greater \
             than or equal to 0, spec.selector: Required value]"
        );
        let causes = status.details().expect("given").causes().len();
        assert_eq!((status.code(), causes), (422, 2));
    }

    #[test]
    fn values_are_quoted_or_written_as_json() {
        let (mut errs, at) = (ErrorList::default(), FieldPath::Root.field("a"));
        errs.invalid(&at, "<\0>", "");
        errs.not_supported(&at, "<\0>", &[]);
        errs.invalid_formatted(&at, r#"{"b":"&"}"#.to_owned(), "");
        let told: Vec<_> = errs.0.iter().map(FieldError::body).collect();
        assert_eq!(told[0], r#"Invalid value: "<\x00>""#);
        assert!(told[1].starts_with(r#"Unsupported value: "\u003c\u0000\u003e""#), "{}", told[1]);
        assert_eq!(told[2], r#"Invalid value: {"b":"\u0026"}"#);
    }

    #[test]
    fn each_error_is_written_as_its_counterpart() {
        let told = |values: [&str; 3]| {
            let mut errs = ErrorList::default();
            values.iter().for_each(|value| errs.not_supported(&FieldPath::SPEC, *value, &["x"]));
            errs
        };
        let (mut errs, mut others) = (told(["a", "b", "c"]), told(["1", "2", "3"]));
        others.required(&FieldPath::SPEC, "");
        errs.adopt_formatting(&mut others);
        assert_eq!(errs, told(["1", "2", "3"]));
        assert_eq!(others.0.len(), 1, "what only the others find stays with them");
    }

    #[test]
    fn what_was_said_is_said_once() {
        let mut errs = ErrorList::default();
        for name in ["a", "b", "a"] {
            errs.required(&FieldPath::Root.field(name), "");
        }
        assert_eq!(errs.0.len(), 3);
        errs.dedup();
        let paths: Vec<_> = errs.0.iter().map(|error| &*error.path).collect();
        assert_eq!(paths, ["a", "b"]);
    }
}
