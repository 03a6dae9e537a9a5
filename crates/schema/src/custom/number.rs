//! Validates numbers: ranges, multiples and formats.

use object::Value;

use super::{
    check::{SchemaError, ValidationResult},
    format::supported_format,
    schema::JsonSchema,
};
use crate::{ErrorType::Invalid, patch::go_float};

/// The largest integer that floats represent exactly.
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;
/// Tolerance of the test whether a quotient is an integer.
const EPSILON: f64 = 1e-9;

/// Validates a number against minimum, maximum, multipleOf and its format.
pub(super) fn check_number(
    schema: &JsonSchema,
    value: &Value,
    path: &str,
    outcome: &mut ValidationResult,
) {
    let kind = kind(schema);
    validate_number_range(value, kind, "Checked", path, outcome);
    let number = as_float(value);
    if let Some(factor) = schema.number("multipleOf") {
        let fits = validate_number_range(&factor.into(), kind, "MultipleOf", path, outcome);
        multiple(value, factor, fits, path, outcome);
    }
    for (name, what, wrong, plain, strict) in [
        (
            "minimum",
            "Minimum boundary",
            below as fn(f64, f64, bool) -> bool,
            "greater than or equal to",
            "greater than",
        ),
        ("maximum", "Maximum boundary", above, "less than or equal to", "less than"),
    ] {
        let Some(bound) = schema.number(name) else { continue };
        let flag = if name == "minimum" { "exclusiveMinimum" } else { "exclusiveMaximum" };
        let exclusive = schema.flag(flag);
        let fits = validate_number_range(&bound.into(), kind, what, path, outcome);
        // An integer is compared with the integer part of the bound.
        let whole = fits && matches!(value, Value::Int(_));
        let bound = if whole { bound.trunc() } else { bound };
        if wrong(number, bound, exclusive) {
            let words = if exclusive { strict } else { plain };
            let why = format!("should be {words} {}", limit(bound, whole));
            outcome.push_at(Invalid, path, value.clone(), &why);
        }
    }
}

/// Whether a float is an integer, within its precision.
pub(super) fn is_whole(n: f64) -> bool {
    if !n.is_finite() || n.abs() > MAX_SAFE_INTEGER {
        return false;
    }
    let whole = n.trunc();
    let difference = (n - whole).abs();
    difference == 0.0 || n != 0.0 && whole != 0.0 && difference / (n.abs() + whole.abs()) < EPSILON
}

/// Formats a limit; an integer for integers.
fn limit(n: f64, whole: bool) -> String {
    if whole { format!("{n}") } else { go_float(n) }
}

/// Type and format, if there is one type and the format belongs to it.
fn kind(schema: &JsonSchema) -> (&str, &str) {
    let format = supported_format(schema);
    match (&*schema.types(), format) {
        (["integer"], "int32" | "int64") | (["number"], "float" | "double") => {
            (schema.ty(), format)
        }
        (["integer"], _) => ("integer", ""),
        (["number"], _) => ("number", ""),
        _ => ("", ""),
    }
}

fn as_float(value: &Value) -> f64 {
    match value {
        #[expect(clippy::cast_precision_loss, reason = "as JSON's numbers do")]
        Value::UInt(n) => *n as f64,
        value => value.as_f64().unwrap_or_default(),
    }
}

/// Whether the type can represent the number; reports an error if not.
fn validate_number_range(
    value: &Value,
    (ty, format): (&str, &str),
    what: &str,
    path: &str,
    outcome: &mut ValidationResult,
) -> bool {
    let number = as_float(value);
    let fits = match (ty, format) {
        ("integer", format) => {
            let whole = match value {
                Value::Int(n) => Some(*n),
                #[expect(clippy::cast_possible_truncation, reason = "checked just before")]
                Value::Float(n) if n.fract() == 0.0 && n.abs() < 9.2e18 => Some(*n as i64),
                _ => None,
            };
            whole.is_some_and(|n| format != "int32" || i32::try_from(n).is_ok())
        }
        (_, "float") => number.abs() <= f64::from(f32::MAX),
        _ => true,
    };
    if !fits {
        let form = match format {
            "" => "(default format)".to_owned(),
            format => format!("with format {format}"),
        };
        outcome.push_composite(format!("{what} value must be of type {ty} {form} in {path}"));
    }
    fits
}

fn multiple(value: &Value, factor: f64, fits: bool, path: &str, outcome: &mut ValidationResult) {
    let (number, whole) = (as_float(value), fits && matches!(value, Value::Int(_)));
    let factor = if whole { factor.trunc() } else { factor };
    if factor <= 0.0 {
        let message = format!(
            "factor MultipleOf declared for {path} must be positive: {}",
            limit(factor, whole)
        );
        #[expect(clippy::cast_possible_truncation, reason = "as Go converts")]
        let bad = if whole { Value::Int(factor as i64) } else { factor.into() };
        let path = Some(path.into());
        outcome.fail(SchemaError { error: Invalid, path, bad, message, detail: None });
        return;
    }
    #[expect(clippy::cast_possible_truncation, reason = "as Go converts")]
    let right = match value {
        Value::Int(n) if whole => n % factor as i64 == 0,
        _ if factor < 1.0 => is_whole(1.0 / factor * number),
        _ => is_whole(number / factor),
    };
    if !right {
        let why = format!("should be a multiple of {}", limit(factor, whole));
        outcome.push_at(Invalid, path, value.clone(), &why);
    }
}

fn below(n: f64, bound: f64, exclusive: bool) -> bool {
    if exclusive { n <= bound } else { n < bound }
}

fn above(n: f64, bound: f64, exclusive: bool) -> bool {
    if exclusive { n >= bound } else { n > bound }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_whole_as_far_as_they_are_exact() {
        assert!(is_whole(3.0) && is_whole(3.000_000_000_01) && !is_whole(2.5) && !is_whole(1e300));
    }
}
