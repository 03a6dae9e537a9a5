//! Rules that many types share.

use std::collections::BTreeSet;

use object::{
    Condition, IntOrString, LabelSelector, LabelSelectorRequirement, List, Quantity, Value, names,
};
use schema::{ErrorList, FieldPath, validate_labels};

/// The largest user or group id.
const MAX_ID: i64 = i32::MAX as i64;

pub(crate) trait ValidateField {
    /// `text`, the field `name` of what is here, must not be empty.
    fn required_field(&mut self, at: &FieldPath, name: &str, text: &str);
    fn label(&mut self, at: &FieldPath, text: &str);
    fn subdomain(&mut self, at: &FieldPath, text: &str);
    fn qualified(&mut self, at: &FieldPath, text: &str);
    fn positive(&mut self, at: &FieldPath, n: i64);
    fn port(&mut self, at: &FieldPath, n: i32);
    fn port_or_name(&mut self, at: &FieldPath, port: &IntOrString);
    /// A user's or group's number.
    fn user_or_group_id(&mut self, at: &FieldPath, id: Option<i64>);
    /// Permissions of a file.
    fn file_mode(&mut self, at: &FieldPath, mode: Option<i32>);
    /// A path that does not lead upward.
    fn path_without_backsteps(&mut self, at: &FieldPath, path: &str);
    /// A path below the place where it is used.
    fn local_descending_path(&mut self, at: &FieldPath, path: &str);
    /// A relative path whose first part is not one that the kubelet keeps for itself.
    fn local_non_reserved_path(&mut self, at: &FieldPath, path: &str);
    /// A name below a domain: `example.com/name`.
    fn domain_path(&mut self, at: &FieldPath, text: &str);
    fn selector(&mut self, at: &FieldPath, selector: Option<&LabelSelector>);
    /// What objects say about themselves: each condition is whole, and of a type of its own.
    fn conditions(&mut self, at: &FieldPath, conditions: &List<Condition>);
    /// An amount, if there is one, that is not negative.
    fn non_negative_amount(&mut self, at: &FieldPath, amount: &Value);
    /// What never changes, and how it is shown when it does.
    fn immutable_formatted<T: PartialEq>(
        &mut self,
        at: &FieldPath,
        pair: (T, T),
        shown: impl Fn(T) -> String,
    );
}

impl ValidateField for ErrorList {
    fn immutable_formatted<T: PartialEq>(
        &mut self,
        at: &FieldPath,
        (new, old): (T, T),
        shown: impl Fn(T) -> String,
    ) {
        if new != old {
            self.invalid_formatted(at, shown(new), "field is immutable");
        }
    }

    fn required_field(&mut self, at: &FieldPath, name: &str, text: &str) {
        if text.is_empty() {
            self.required(&at.field(name), "");
        }
    }

    fn label(&mut self, at: &FieldPath, text: &str) {
        self.invalid_each(at, text, names::dns1123_label(text));
    }

    fn subdomain(&mut self, at: &FieldPath, text: &str) {
        self.invalid_each(at, text, names::dns1123_subdomain(text));
    }

    fn qualified(&mut self, at: &FieldPath, text: &str) {
        self.invalid_each(at, text, names::qualified_name(text));
    }

    fn positive(&mut self, at: &FieldPath, n: i64) {
        if n <= 0 {
            self.invalid(at, n, "must be greater than zero");
        }
    }

    fn port(&mut self, at: &FieldPath, n: i32) {
        for wrong in names::port_number(n.into()) {
            self.invalid(at, n, wrong);
        }
    }

    fn port_or_name(&mut self, at: &FieldPath, port: &IntOrString) {
        match port {
            IntOrString::Int(n) => self.port(at, *n),
            IntOrString::Text(name) => self.invalid_each(at, name, names::port_name(name)),
        }
    }

    fn user_or_group_id(&mut self, at: &FieldPath, id: Option<i64>) {
        for wrong in id.map(|id| names::in_range(id, 0, MAX_ID)).unwrap_or_default() {
            self.invalid(at, id.unwrap_or_default(), wrong);
        }
    }

    fn file_mode(&mut self, at: &FieldPath, mode: Option<i32>) {
        if let Some(mode) = mode.filter(|mode| !(0..=0o777).contains(mode)) {
            self.invalid(at, mode, "must be a number between 0 and 0777 (octal), both inclusive");
        }
    }

    fn path_without_backsteps(&mut self, at: &FieldPath, path: &str) {
        if path.split('/').any(|part| part == "..") {
            self.invalid(at, path, "must not contain '..'");
        }
    }

    fn local_descending_path(&mut self, at: &FieldPath, path: &str) {
        if path.starts_with('/') {
            self.invalid(at, path, "must be a relative path");
        }
        self.path_without_backsteps(at, path);
    }

    fn local_non_reserved_path(&mut self, at: &FieldPath, path: &str) {
        self.local_descending_path(at, path);
        if path.starts_with("..") && !path.starts_with("../") {
            self.invalid(at, path, "must not start with '..'");
        }
    }

    fn domain_path(&mut self, at: &FieldPath, text: &str) {
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

    fn selector(&mut self, at: &FieldPath, selector: Option<&LabelSelector>) {
        let Some(selector) = selector else { return };
        validate_labels(selector.match_labels(), &at.field("matchLabels"), self);
        for (i, requirement) in selector.match_expressions().iter().enumerate() {
            validate_selector_requirement(
                requirement,
                false,
                &at.field("matchExpressions").index(i),
                self,
            );
        }
    }

    fn conditions(&mut self, at: &FieldPath, conditions: &List<Condition>) {
        let mut types = BTreeSet::new();
        for (i, condition) in conditions.iter().enumerate() {
            if !types.insert(condition.type_()) {
                self.duplicate(&at.index(i), condition.type_());
            }
            check_condition(condition, &at.index(i), self);
        }
    }

    fn non_negative_amount(&mut self, at: &FieldPath, amount: &Value) {
        if is_negative(amount) {
            self.invalid(at, amount.clone(), "must be greater than or equal to 0");
        }
    }
}

/// Whether an amount, if there is one, is negative.
pub(crate) fn is_negative(amount: &Value) -> bool {
    let zero = Quantity::default();
    amount.as_str().and_then(|text| text.parse::<Quantity>().ok()).is_some_and(|it| it < zero)
}

const MAX_REASON: usize = 1024;
const MAX_MESSAGE: usize = 32 * 1024;

fn check_condition(condition: &Condition, at: &FieldPath, errs: &mut ErrorList) {
    match condition.type_() {
        "" => errs.required(&at.field("type"), "is required"),
        ty => errs.qualified(&at.field("type"), ty),
    }
    errs.required_one_of(&at.field("status"), condition.status(), &["False", "True", "Unknown"]);
    if condition.observed_generation() < 0 {
        let why = "must be greater than or equal to zero";
        errs.invalid(&at.field("observedGeneration"), condition.observed_generation(), why);
    }
    errs.required_field(at, "lastTransitionTime", condition.last_transition_time());
    let (reason, here) = (condition.reason(), at.field("reason"));
    if reason.is_empty() {
        errs.required(&here, "");
    } else if !is_reason(reason) {
        errs.invalid(&here, reason, CONDITION_REASON_MESSAGE);
    }
    errs.max_bytes(&here, reason, MAX_REASON);
    errs.max_bytes(&at.field("message"), condition.message(), MAX_MESSAGE);
}

/// What is said of a reason that is none.
pub(crate) const CONDITION_REASON_MESSAGE: &str = "a condition reason must start with alphabetic character, \
    optionally followed by a string of alphanumeric characters or '_,:', and must end with an \
    alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or \
    'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is \
    '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

pub(crate) fn is_reason(text: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ',' | ':');
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(part)
        && !text.ends_with([',', ':'])
}

/// `lenient`: operators of the future are taken.
pub(crate) fn validate_selector_requirement(
    requirement: &LabelSelectorRequirement,
    lenient: bool,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    let (operator, values) = (requirement.operator(), requirement.values());
    validate_selector_operator(operator, values.is_empty(), at, errs);
    if !lenient && !matches!(operator, "In" | "NotIn" | "Exists" | "DoesNotExist") {
        errs.invalid(&at.field("operator"), operator, "not a valid selector operator");
    }
    errs.qualified(&at.field("key"), requirement.key());
    for (i, value) in values.iter().enumerate() {
        errs.invalid_each(&at.field("values").index(i), value, names::label_value(value));
    }
}

/// Whether an operator has the values that it needs.
pub(crate) fn validate_selector_operator(
    operator: &str,
    none: bool,
    at: &FieldPath,
    errs: &mut ErrorList,
) {
    let at = at.field("values");
    match operator {
        "In" | "NotIn" if none => {
            errs.required(&at, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !none => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errs.forbidden(&at, why);
        }
        _ => {}
    }
}

/// A selector as Go prints it: in the order of its fields.
pub(crate) fn format_selector(selector: &LabelSelector) -> String {
    crate::shown::format_go(selector)
}

/// A struct as Go prints those that have no names for JSON.
pub(crate) fn format_go_fields(fields: &[(&str, Value)]) -> String {
    let fields: Vec<_> =
        fields.iter().map(|(name, value)| format!("\"{name}\":{}", json(value))).collect();
    format!("{{{}}}", fields.join(","))
}

pub(crate) fn json(value: &Value) -> String {
    String::from_utf8_lossy(&object::to_json(value)).into_owned()
}

/// What Go prints for a pointer.
pub(crate) fn or_null<T: Into<Value>>(value: Option<T>) -> Value {
    value.map_or(Value::Null, Into::into)
}
