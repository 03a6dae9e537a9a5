//! Rules that many types share.

use object::{IntOrString, LabelSelector, LabelSelectorRequirement, Lens, Value, names};
use schema::{Errors, Path, check_labels};

/// The largest user or group id.
const MAX_ID: i64 = i32::MAX as i64;

pub(crate) trait Rules {
    /// `text`, the field `name` of what is here, must not be empty.
    fn need(&mut self, at: &Path, name: &str, text: &str);
    fn label(&mut self, at: &Path, text: &str);
    fn subdomain(&mut self, at: &Path, text: &str);
    fn qualified(&mut self, at: &Path, text: &str);
    fn positive(&mut self, at: &Path, n: i64);
    fn port(&mut self, at: &Path, n: i32);
    fn port_or_name(&mut self, at: &Path, port: &IntOrString);
    /// A user's or group's number.
    fn user(&mut self, at: &Path, id: Option<i64>);
    fn group(&mut self, at: &Path, id: Option<i64>);
    /// Permissions of a file.
    fn mode(&mut self, at: &Path, mode: Option<i32>);
    /// A path that does not lead upward.
    fn descending(&mut self, at: &Path, path: &str);
    /// A path below the place where it is used.
    fn relative(&mut self, at: &Path, path: &str);
    /// A relative path whose first part is not one that the kubelet keeps for itself.
    fn unreserved(&mut self, at: &Path, path: &str);
    /// A name below a domain: `example.com/name`.
    fn domain_path(&mut self, at: &Path, text: &str);
    fn selector(&mut self, at: &Path, selector: Option<&LabelSelector>);
}

impl Rules for Errors {
    fn need(&mut self, at: &Path, name: &str, text: &str) {
        if text.is_empty() {
            self.required(&at.field(name), "");
        }
    }

    fn label(&mut self, at: &Path, text: &str) {
        self.complaints(at, text, names::dns1123_label(text));
    }

    fn subdomain(&mut self, at: &Path, text: &str) {
        self.complaints(at, text, names::dns1123_subdomain(text));
    }

    fn qualified(&mut self, at: &Path, text: &str) {
        self.complaints(at, text, names::qualified_name(text));
    }

    fn positive(&mut self, at: &Path, n: i64) {
        if n <= 0 {
            self.invalid(at, n, "must be greater than zero");
        }
    }

    fn port(&mut self, at: &Path, n: i32) {
        for wrong in names::port_number(n.into()) {
            self.invalid(at, n, wrong);
        }
    }

    fn port_or_name(&mut self, at: &Path, port: &IntOrString) {
        match port {
            IntOrString::Int(n) => self.port(at, *n),
            IntOrString::Text(name) => self.complaints(at, name, names::port_name(name)),
        }
    }

    fn user(&mut self, at: &Path, id: Option<i64>) {
        for wrong in id.map(|id| names::in_range(id, 0, MAX_ID)).unwrap_or_default() {
            self.invalid(at, id.unwrap_or_default(), wrong);
        }
    }

    fn group(&mut self, at: &Path, id: Option<i64>) {
        self.user(at, id);
    }

    fn mode(&mut self, at: &Path, mode: Option<i32>) {
        if let Some(mode) = mode.filter(|mode| !(0..=0o777).contains(mode)) {
            self.invalid(at, mode, "must be a number between 0 and 0777 (octal), both inclusive");
        }
    }

    fn descending(&mut self, at: &Path, path: &str) {
        if path.split('/').any(|part| part == "..") {
            self.invalid(at, path, "must not contain '..'");
        }
    }

    fn relative(&mut self, at: &Path, path: &str) {
        if path.starts_with('/') {
            self.invalid(at, path, "must be a relative path");
        }
        self.descending(at, path);
    }

    fn unreserved(&mut self, at: &Path, path: &str) {
        self.relative(at, path);
        if path.starts_with("..") && !path.starts_with("../") {
            self.invalid(at, path, "must not start with '..'");
        }
    }

    fn domain_path(&mut self, at: &Path, text: &str) {
        let fits = |c: char| c.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(c);
        match text.split_once('/').filter(|(host, path)| !host.is_empty() && !path.is_empty()) {
            _ if text.is_empty() => self.required(at, ""),
            None => {
                let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
                self.invalid(at, text, why);
            }
            Some((host, path)) => {
                self.subdomain(at, host);
                if !path.chars().all(fits) {
                    let why = "Invalid path (regex used for validation is \
                               '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
                    self.invalid(at, path, why);
                }
            }
        }
    }

    fn selector(&mut self, at: &Path, selector: Option<&LabelSelector>) {
        let Some(selector) = selector else { return };
        check_labels(selector.match_labels(), &at.field("matchLabels"), self);
        for (i, requirement) in selector.match_expressions().iter().enumerate() {
            check_requirement(requirement, &at.field("matchExpressions").index(i), self);
        }
    }
}

fn check_requirement(requirement: &LabelSelectorRequirement, at: &Path, errs: &mut Errors) {
    let (operator, values) = (requirement.operator(), requirement.values());
    match operator {
        "In" | "NotIn" if values.is_empty() => errs
            .required(&at.field("values"), "must be specified when `operator` is 'In' or 'NotIn'"),
        "Exists" | "DoesNotExist" if !values.is_empty() => errs.forbidden(
            &at.field("values"),
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ),
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => errs.invalid(&at.field("operator"), operator, "not a valid selector operator"),
    }
    errs.qualified(&at.field("key"), requirement.key());
    for (i, value) in values.iter().enumerate() {
        errs.complaints(&at.field("values").index(i), value, names::label_value(value));
    }
}

/// A selector as Go prints it: in the order of its fields.
pub(crate) fn shown_selector(selector: &LabelSelector) -> String {
    let json = |value: &Value| String::from_utf8_lossy(&object::to_json(value)).into_owned();
    let mut parts = Vec::new();
    if !selector.match_labels().is_empty() {
        parts.push(format!("\"matchLabels\":{}", json(selector.tree().get("matchLabels"))));
    }
    if !selector.match_expressions().is_empty() {
        let expressions = json(selector.tree().get("matchExpressions"));
        parts.push(format!("\"matchExpressions\":{expressions}"));
    }
    format!("{{{}}}", parts.join(","))
}

/// A struct as Go prints those that have no names for JSON.
pub(crate) fn go_struct(fields: &[(&str, Value)]) -> String {
    let shown = |value: &Value| String::from_utf8_lossy(&object::to_json(value)).into_owned();
    let fields: Vec<_> =
        fields.iter().map(|(name, value)| format!("\"{name}\":{}", shown(value))).collect();
    format!("{{{}}}", fields.join(","))
}

/// What Go prints for a pointer.
pub(crate) fn or_null<T: Into<Value>>(value: Option<T>) -> Value {
    value.map_or(Value::Null, Into::into)
}
