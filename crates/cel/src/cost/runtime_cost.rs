//! Actual cost of a call, by the values of its arguments.

use super::{
    AUTHORIZER_CHECK_COST, CostRange, LIST_CREATE_COST, REGEX_COST, STRING_TRAVERSAL_COST,
    calls::{compares, selector},
    range::scale,
};
use crate::{
    error::Error,
    library::Opaque,
    value::{Map, Value},
};

/// The cost of a call that follows from its arguments.
pub(crate) fn argument_cost(
    function: &str,
    overload: &str,
    args: &[Value<'_>],
) -> Result<u64, Error> {
    if let Some(cost) = lists(overload, args)? {
        return Ok(cost);
    }
    let known = kubernetes(function, overload, args).or_else(|| language(overload, args));
    Ok(known.unwrap_or(1))
}

/// The cost that depends on the result; without a result, its size counts as 1.
pub(crate) fn result_cost(function: &str, overload: &str, result: Option<&Value<'_>>) -> u64 {
    let size = || result.map_or(1, size);
    match (function, overload) {
        ("join", _) => scale(size(), 2.0 * STRING_TRAVERSAL_COST),
        (_, "list_slice" | "list_reverse") => made(1.0, size()),
        (_, "lists_range") if result.is_none() => made(1.0, 1),
        _ => 0,
    }
}

fn size(value: &Value<'_>) -> u64 {
    match value {
        Value::Opaque(opaque) => opaque.size(),
        Value::Optional(Some(held)) => size(held),
        value => value.size().map_or(1, |size| u64::try_from(size).unwrap_or(u64::MAX)),
    }
}

/// The cost of creating a list of this size.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a cost"
)]
fn made(factor: f64, size: u64) -> u64 {
    ((size as f64 * factor) as u64).saturating_add(1 + LIST_CREATE_COST)
}

fn lists(overload: &str, args: &[Value<'_>]) -> Result<Option<u64>, Error> {
    Ok(Some(match (overload, args) {
        // These are charged by their results; but a range may be too large to be created.
        ("list_slice" | "list_reverse", _) => 0,
        ("lists_range", args) => {
            let count = args.first().and_then(Value::as_int).and_then(|n| u64::try_from(n).ok());
            count.map_or(0, |count| made(1.0, count))
        }
        ("list_flatten", [list, ..]) => made(1.0, size(list)),
        ("list_flatten_int", [list, depth]) => {
            let depth = depth.as_int().and_then(|n| u32::try_from(n).ok());
            made(depth.map_or(1.0, f64::from), size(list))
        }
        ("list_distinct", [list, ..]) => compared(list)?,
        (overload, [list, keys @ ..])
            if overload.ends_with("_sort") || overload.ends_with("Keys") =>
        {
            compared(keys.first().unwrap_or(list))?
        }
        (overload, [a, b]) if overload.starts_with("list_sets_") => {
            let factor = if overload == "list_sets_equivalent_list" { 2 } else { 1 };
            size(a).saturating_mul(size(b)).saturating_mul(factor).saturating_add(1)
        }
        _ => return Ok(None),
    }))
}

/// The cost of comparing every item with every other.
fn compared(list: &Value<'_>) -> Result<u64, Error> {
    let Value::List(items) = list else { return Err(Error::no_list()) };
    let text = matches!(items.get(0), Some(Ok(Value::Text(_) | Value::Bytes(_))));
    let size = size(list);
    Ok(made(if text { 2.0 + STRING_TRAVERSAL_COST } else { 2.0 }, size.saturating_mul(size)))
}

fn kubernetes(function: &str, overload: &str, args: &[Value<'_>]) -> Option<u64> {
    let first = args.first();
    let traversed = |factor: f64| first.map(|value| scale(size(value), factor));
    match function {
        "check" => Some(AUTHORIZER_CHECK_COST),
        "fieldSelector" | "labelSelector" => {
            args.get(1).map(|text| selector(CostRange::fixed(size(text))).max)
        }
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes" => {
            first.map(traversal)
        }
        "ip" if overload == "cidr_ip" => Some(1),
        "url"
        | "lowerAscii"
        | "upperAscii"
        | "substring"
        | "trim"
        | "jsonpatch.escapeKey"
        | "cidr"
        | "isIP"
        | "isCIDR"
        | "ip"
        | "quantity"
        | "isQuantity"
        | "semver"
        | "isSemver" => traversed(STRING_TRAVERSAL_COST),
        "replace" | "split" | "ip.isCanonical" => traversed(2.0 * STRING_TRAVERSAL_COST),
        "join" => Some(0),
        "find" | "findAll" => Some(matched(first?, args.get(1)?)),
        "containsIP" | "containsCIDR" => {
            let (prefix, other) = (size(first?), size(args.get(1)?));
            let mut cost = scale(2 * prefix, STRING_TRAVERSAL_COST);
            if function == "containsCIDR" {
                cost += scale(prefix, STRING_TRAVERSAL_COST) + 1;
            }
            if overload.ends_with("_string") {
                cost += scale(other, STRING_TRAVERSAL_COST);
            }
            Some(cost)
        }
        "validate" => match args {
            [Value::Opaque(Opaque::Format(format)), text] => {
                let text = scale(size(text).saturating_add(1), STRING_TRAVERSAL_COST);
                Some(text.saturating_mul(scale(format.pattern, REGEX_COST)))
            }
            _ => None,
        },
        "_==_" if matches!(first, Some(Value::Opaque(_))) => Some(1),
        _ => None,
    }
}

fn matched(text: &Value<'_>, pattern: &Value<'_>) -> u64 {
    let text = scale(size(text).saturating_add(1), STRING_TRAVERSAL_COST);
    text.saturating_mul(scale(size(pattern), REGEX_COST))
}

fn language(overload: &str, args: &[Value<'_>]) -> Option<u64> {
    let [a, rest @ ..] = args else { return None };
    let b = rest.first();
    match overload {
        "starts_with_string" | "ends_with_string" => Some(scale(size(b?), STRING_TRAVERSAL_COST)),
        "string_to_bytes" | "bytes_to_string" | "strings_quote" | "string_format" => {
            Some(scale(size(a), STRING_TRAVERSAL_COST))
        }
        "in_list" => Some(size(b?)),
        "add_string" | "add_bytes" => {
            Some(scale(size(a).saturating_add(size(b?)), STRING_TRAVERSAL_COST))
        }
        "matches" | "matches_string" => Some(matched(a, b?)),
        "contains_string" => Some(
            scale(size(a), STRING_TRAVERSAL_COST)
                .saturating_mul(scale(size(b?), STRING_TRAVERSAL_COST)),
        ),
        overload if compares(overload) => Some(scale(size(a).min(size(b?)), STRING_TRAVERSAL_COST)),
        _ => None,
    }
}

/// The cost of traversing a value.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a cost"
)]
fn traversal(value: &Value<'_>) -> u64 {
    let bytes = |length: usize| (length as f64 * STRING_TRAVERSAL_COST) as u64;
    match value {
        Value::Text(text) => bytes(text.len()),
        Value::Bytes(value) => bytes(value.len()),
        Value::List(list) => list.values().map_or(1, |values| values.iter().map(traversal).sum()),
        Value::Map(map) => entries(map),
        _ => 1,
    }
}

fn entries(map: &Map<'_>) -> u64 {
    let cost = |key| match map.get(key) {
        Some(Ok(value)) => traversal(&key.value()) + traversal(&value),
        _ => 1,
    };
    map.keys().iter().map(cost).sum()
}
