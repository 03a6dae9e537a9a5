//! The optional types library.

use super::{Outcome, list_of};
use crate::{error::Error, eval::EvalContext, function::Function, value::Value};

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "optional.of",
        overloads: &[("optional_of", "(V) -> optional(V)")],
        body: |_, args| one(args).map(Value::some),
    },
    Function {
        name: "optional.ofNonZeroValue",
        overloads: &[("optional_ofNonZeroValue", "(V) -> optional(V)")],
        body: |_, args| {
            let value = one(args)?;
            Ok(if value.is_zero() { Value::NONE } else { Value::some(value) })
        },
    },
    Function {
        name: "optional.none",
        overloads: &[("optional_none", "() -> optional(V)")],
        body: |_, _| Ok(Value::NONE),
    },
    Function {
        name: "value",
        overloads: &[("optional_value", "optional(V).() -> V")],
        body: |_, args| match one(args)? {
            Value::Optional(Some(held)) => Ok((*held).clone()),
            Value::Optional(None) => Err(Error::new("optional.none() dereference")),
            _ => Err(Error::no_overload()),
        },
    },
    Function {
        name: "hasValue",
        overloads: &[("optional_hasValue", "optional(V).() -> bool")],
        body: |_, args| match one(args)? {
            Value::Optional(held) => Ok(Value::Bool(held.is_some())),
            _ => Err(Error::no_overload()),
        },
    },
    Function {
        name: "or",
        overloads: &[("optional_or_optional", "optional(V).(optional(V)) -> optional(V)")],
        body: |_, _| Err(Error::no_overload()),
    },
    Function {
        name: "orValue",
        overloads: &[("optional_orValue_value", "optional(V).(V) -> V")],
        body: |_, _| Err(Error::no_overload()),
    },
    Function {
        name: "first",
        overloads: &[("list_first", "list(V).() -> optional(V)")],
        body: |_, args| end(args, |_| 0),
    },
    Function {
        name: "last",
        overloads: &[("list_last", "list(V).() -> optional(V)")],
        body: |_, args| end(args, |length| length.wrapping_sub(1)),
    },
    Function {
        name: "optional.unwrap",
        overloads: &[("optional_unwrap", "(list(optional(V))) -> list(V)")],
        body: unwrap,
    },
    Function {
        name: "unwrapOpt",
        overloads: &[("optional_unwrapOpt", "list(optional(V)).() -> list(V)")],
        body: unwrap,
    },
];

fn one<'a>(args: &mut [Value<'a>]) -> Outcome<'a> {
    let [value] = args else { return Err(Error::no_overload()) };
    Ok(std::mem::take(value))
}

fn end<'a>(args: &[Value<'a>], at: fn(usize) -> usize) -> Outcome<'a> {
    let [list] = args else { return Err(Error::no_overload()) };
    let list = list_of(list)?;
    match list.get(at(list.len())) {
        Some(value) => value.map(Value::some),
        None => Ok(Value::NONE),
    }
}

fn unwrap<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let [list] = args else { return Err(Error::no_overload()) };
    let mut held = Vec::new();
    for value in list_of(list)?.values()? {
        match value {
            Value::Optional(Some(value)) => held.push((*value).clone()),
            Value::Optional(None) => {}
            value => {
                let ty = value.type_name();
                return Err(Error::new(format!("value {ty} is not optional")));
            }
        }
    }
    Ok(Value::list(held))
}
