//! The lists library.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

use std::cmp::Ordering;

use super::{Outcome, int, int_of, list_of, operators::plus};
use crate::{
    error::Error,
    eval::EvalContext,
    function::{Function, Library},
    value::{Value, compare, equal},
};

/// Expands to an overload for each ordered type.
macro_rules! for_comparable {
    ($prefix:literal, $infix:literal, bool) => {
        for_comparable!(@ $prefix, $infix, "bool", "bool", "bool", "bool", "bool", "bool", "bool", "bool")
    };
    ($prefix:literal, $infix:literal, item) => {
        for_comparable!(@ $prefix, $infix, "int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
    };
    (@ $prefix:literal, $infix:literal, $i:literal, $u:literal, $d:literal, $b:literal, $du:literal, $t:literal, $s:literal, $by:literal) => {
        &[
            (concat!($prefix, "int", $infix, $i), concat!("list(int).() -> ", $i)),
            (concat!($prefix, "uint", $infix, $u), concat!("list(uint).() -> ", $u)),
            (concat!($prefix, "double", $infix, $d), concat!("list(double).() -> ", $d)),
            (concat!($prefix, "bool", $infix, $b), concat!("list(bool).() -> ", $b)),
            (concat!($prefix, "duration", $infix, $du), concat!("list(duration).() -> ", $du)),
            (concat!($prefix, "timestamp", $infix, $t), concat!("list(timestamp).() -> ", $t)),
            (concat!($prefix, "string", $infix, $s), concat!("list(string).() -> ", $s)),
            (concat!($prefix, "bytes", $infix, $by), concat!("list(bytes).() -> ", $by)),
        ]
    };
}

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "isSorted",
        overloads: for_comparable!("list_", "_is_sorted_", bool),
        body: is_sorted,
    },
    Function {
        name: "sum",
        overloads: &[
            ("list_int_sum_int", "list(int).() -> int"),
            ("list_uint_sum_uint", "list(uint).() -> uint"),
            ("list_double_sum_double", "list(double).() -> double"),
            ("list_duration_sum_duration", "list(duration).() -> duration"),
        ],
        body: sum,
    },
    Function {
        name: "max",
        overloads: for_comparable!("list_", "_max_", item),
        body: |_, args| extreme(args, "max", Ordering::Greater),
    },
    Function {
        name: "min",
        overloads: for_comparable!("list_", "_min_", item),
        body: |_, args| extreme(args, "min", Ordering::Less),
    },
    Function {
        name: "indexOf",
        overloads: &[("list_a_index_of_int", "list(A).(A) -> int")],
        body: |_, args| position(args, false),
    },
    Function {
        name: "lastIndexOf",
        overloads: &[("list_a_last_index_of_int", "list(A).(A) -> int")],
        body: |_, args| position(args, true),
    },
    Function {
        name: "slice",
        overloads: &[("list_slice", "list(T).(int, int) -> list(T)")],
        body: slice,
    },
    Function {
        name: "flatten",
        overloads: &[
            ("list_flatten", "list(list(T)).() -> list(T)"),
            ("list_flatten_int", "list(dyn).(int) -> list(dyn)"),
        ],
        body: flatten,
    },
    Function {
        name: "sort",
        overloads: &[
            ("list_int_sort", "list(int).() -> list(int)"),
            ("list_uint_sort", "list(uint).() -> list(uint)"),
            ("list_double_sort", "list(double).() -> list(double)"),
            ("list_bool_sort", "list(bool).() -> list(bool)"),
            ("list_google.protobuf.Duration_sort", "list(duration).() -> list(duration)"),
            ("list_google.protobuf.Timestamp_sort", "list(timestamp).() -> list(timestamp)"),
            ("list_string_sort", "list(string).() -> list(string)"),
            ("list_bytes_sort", "list(bytes).() -> list(bytes)"),
        ],
        body: |_, args| sort(args, 0),
    },
    Function {
        name: "@sortByAssociatedKeys",
        overloads: &[
            ("list_int_sortByAssociatedKeys", "list(T).(list(int)) -> list(T)"),
            ("list_uint_sortByAssociatedKeys", "list(T).(list(uint)) -> list(T)"),
            ("list_double_sortByAssociatedKeys", "list(T).(list(double)) -> list(T)"),
            ("list_bool_sortByAssociatedKeys", "list(T).(list(bool)) -> list(T)"),
            (
                "list_google.protobuf.Duration_sortByAssociatedKeys",
                "list(T).(list(duration)) -> list(T)",
            ),
            (
                "list_google.protobuf.Timestamp_sortByAssociatedKeys",
                "list(T).(list(timestamp)) -> list(T)",
            ),
            ("list_string_sortByAssociatedKeys", "list(T).(list(string)) -> list(T)"),
            ("list_bytes_sortByAssociatedKeys", "list(T).(list(bytes)) -> list(T)"),
        ],
        body: |_, args| sort(args, 1),
    },
    Function {
        name: "lists.range",
        overloads: &[("lists_range", "(int) -> list(int)")],
        body: range,
    },
    Function {
        name: "reverse",
        overloads: &[("list_reverse", "list(T).() -> list(T)")],
        body: |_, args| {
            let [list] = args else { return Err(Error::no_overload()) };
            let mut values = list_of(list)?.values()?;
            values.reverse();
            Ok(Value::list(values))
        },
    },
    Function {
        name: "distinct",
        overloads: &[("list_distinct", "list(T).() -> list(T)")],
        body: distinct,
    },
];

/// The `includes` function, for values that may be single or a list.
pub(crate) const INCLUDES: Library = &[Function {
    name: "includes",
    overloads: &[("list_includes_dyn_dyn", "dyn.(dyn) -> bool")],
    body: |_, args| {
        let [target, item] = args else { return Err(Error::no_overload()) };
        let values = match &*target {
            Value::List(list) => list.values()?,
            one => vec![one.clone()],
        };
        for value in &values {
            if equal(value, item)? {
                return Ok(Value::Bool(true));
            }
        }
        Ok(Value::Bool(false))
    },
}];

fn is_sorted<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let [list] = args else { return Err(Error::no_overload()) };
    let values = list_of(list)?.values()?;
    for (before, next) in values.iter().zip(values.iter().skip(1)) {
        if compare(before, next)?.is_gt() {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn sum<'a>(context: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let [list] = args else { return Err(Error::no_overload()) };
    let values = list_of(list)?.values()?;
    let zero = match context.overload {
        "list_uint_sum_uint" => Value::Uint(0),
        "list_double_sum_double" => Value::Double(0.0),
        "list_duration_sum_duration" => Value::Duration(0),
        _ => Value::Int(0),
    };
    let mut values = values.into_iter();
    let Some(mut total) = values.next() else { return Ok(zero) };
    for value in values {
        total = plus(total, &value)?;
    }
    Ok(total)
}

fn extreme<'a>(args: &[Value<'a>], name: &str, wanted: Ordering) -> Outcome<'a> {
    let [list] = args else { return Err(Error::no_overload()) };
    let mut values = list_of(list)?.values()?.into_iter();
    let empty = || Error::new(format!("{name} called on empty list"));
    let mut best = values.next().ok_or_else(empty)?;
    for value in values {
        if compare(&value, &best)? == wanted {
            best = value;
        }
    }
    Ok(best)
}

fn position<'a>(args: &[Value<'a>], last: bool) -> Outcome<'a> {
    let [list, item] = args else { return Err(Error::no_overload()) };
    let mut found = Value::Int(-1);
    for (at, value) in list_of(list)?.values()?.iter().enumerate() {
        if equal(value, item)? {
            found = int(at);
            if !last {
                break;
            }
        }
    }
    Ok(found)
}

fn slice<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let [list, start, end] = args else { return Err(Error::no_overload()) };
    let (list, start, end) = (list_of(list)?, int_of(start)?, int_of(end)?);
    let refused = |why: &str| Err(Error::new(format!("cannot slice({start}, {end}), {why}")));
    let (Ok(from), Ok(to)) = (usize::try_from(start), usize::try_from(end)) else {
        return refused("negative indexes not supported");
    };
    if from > to {
        return refused("start index must be less than or equal to end index");
    }
    if list.len() < to {
        return refused(&format!("list is length {}", list.len()));
    }
    Ok(Value::list(list.values()?.drain(from..to).collect()))
}

fn flatten<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let (list, depth) = match &*args {
        [list] => (list, 1),
        [list, depth] => (list, int_of(depth)?),
        _ => return Err(Error::no_overload()),
    };
    if depth < 0 {
        return Err(Error::new("level must be non-negative"));
    }
    let Value::List(items) = list else {
        let ty = list.type_name();
        return Err(Error::new(format!("no such overload: {ty}.flatten()")));
    };
    let mut flat = Vec::new();
    spread(&items.values()?, depth, &mut flat)?;
    Ok(Value::list(flat))
}

fn spread<'a>(values: &[Value<'a>], depth: i64, flat: &mut Vec<Value<'a>>) -> Result<(), Error> {
    for value in values {
        match value {
            Value::List(list) if depth > 0 => spread(&list.values()?, depth - 1, flat)?,
            value => flat.push(value.clone()),
        }
    }
    Ok(())
}

/// Sorts the first argument by the keys in the argument at `keys`.
fn sort<'a>(args: &[Value<'a>], keys: usize) -> Outcome<'a> {
    let list = list_of(args.first().ok_or_else(Error::no_overload)?)?.values()?;
    let keys = list_of(args.get(keys).ok_or_else(Error::no_overload)?)?.values()?;
    if list.len() != keys.len() {
        let (a, b) = (list.len(), keys.len());
        return Err(Error::new(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {a} and {b} elements respectively"
        )));
    }
    let first = keys.first().map(Value::type_name);
    if keys.iter().any(|key| Some(key.type_name()) != first) {
        return Err(Error::new("list elements must have the same type"));
    }
    let mut failed = None;
    let mut pairs: Vec<_> = keys.into_iter().zip(list).collect();
    pairs.sort_by(|(a, _), (b, _)| {
        compare(a, b).unwrap_or_else(|error| {
            failed = Some(error);
            Ordering::Equal
        })
    });
    match failed {
        Some(error) => Err(error),
        None => Ok(Value::list(pairs.into_iter().map(|(_, value)| value).collect())),
    }
}

fn range<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let [size] = args else { return Err(Error::no_overload()) };
    let size = int_of(size)?;
    if size < 0 {
        let message = format!("lists.range: size must be non-negative, got {size}");
        return Err(Error::new(message));
    }
    Ok(Value::list((0..size).map(Value::Int).collect()))
}

fn distinct<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let [list] = args else { return Err(Error::no_overload()) };
    let mut kept: Vec<Value<'a>> = Vec::new();
    'values: for value in list_of(list)?.values()? {
        for other in &kept {
            if equal(&value, other)? {
                continue 'values;
            }
        }
        kept.push(value);
    }
    Ok(Value::list(kept))
}
