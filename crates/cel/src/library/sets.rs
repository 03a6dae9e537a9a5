//! The sets library: lists as sets.

use super::{Outcome, list_of};
use crate::{
    error::Error,
    eval::EvalContext,
    function::Function,
    value::{List, Value, equal},
};

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "sets.contains",
        overloads: &[("list_sets_contains_list", "(list(T), list(T)) -> bool")],
        body: |_, args| both(args, contains),
    },
    Function {
        name: "sets.equivalent",
        overloads: &[("list_sets_equivalent_list", "(list(T), list(T)) -> bool")],
        body: |_, args| both(args, |a, b| Ok(contains(a, b)? && contains(b, a)?)),
    },
    Function {
        name: "sets.intersects",
        overloads: &[("list_sets_intersects_list", "(list(T), list(T)) -> bool")],
        body: intersects,
    },
];

fn both<'a>(
    args: &[Value<'a>],
    holds: fn(&List<'a>, &List<'a>) -> Result<bool, Error>,
) -> Outcome<'a> {
    let [a, b] = args else { return Err(Error::no_overload()) };
    holds(list_of(a)?, list_of(b)?).map(Value::Bool)
}

/// Whether `a` contains every item of `b`.
fn contains<'a>(a: &List<'a>, b: &List<'a>) -> Result<bool, Error> {
    let values = a.values()?;
    for item in b.values()? {
        if !has(&values, &item)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn intersects<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let [a, b] = args else { return Err(Error::no_overload()) };
    let values = list_of(a)?.values()?;
    for item in list_of(b)?.values()? {
        if has(&values, &item)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

fn has<'a>(values: &[Value<'a>], item: &Value<'a>) -> Result<bool, Error> {
    for value in values {
        if equal(value, item)? {
            return Ok(true);
        }
    }
    Ok(false)
}
