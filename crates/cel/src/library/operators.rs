//! Operators and built-in functions of the language.

use std::cmp::Ordering;

use super::{Outcome, int};
use crate::{
    error::Error,
    eval::EvalContext,
    function::{Body, Function},
    value::{Key, Map, Text, Value, compare, equal},
};

pub(crate) const FUNCTIONS: &[Function] = &[
    Function { name: "!_", overloads: &[("logical_not", "(bool) -> bool")], body: not },
    Function {
        name: "@not_strictly_false",
        overloads: &[("not_strictly_false", "(bool) -> bool")],
        body: special,
    },
    Function { name: "_&&_", overloads: &[("logical_and", "(bool, bool) -> bool")], body: special },
    Function { name: "_||_", overloads: &[("logical_or", "(bool, bool) -> bool")], body: special },
    Function { name: "_?_:_", overloads: &[("conditional", "(bool, A, A) -> A")], body: special },
    Function { name: "_==_", overloads: &[("equals", "(A, A) -> bool")], body: equals },
    Function { name: "_!=_", overloads: &[("not_equals", "(A, A) -> bool")], body: not_equals },
    Function {
        name: "_+_",
        overloads: &[
            ("add_bytes", "(bytes, bytes) -> bytes"),
            ("add_double", "(double, double) -> double"),
            ("add_duration_duration", "(duration, duration) -> duration"),
            ("add_duration_timestamp", "(duration, timestamp) -> timestamp"),
            ("add_timestamp_duration", "(timestamp, duration) -> timestamp"),
            ("add_int64", "(int, int) -> int"),
            ("add_list", "(list(A), list(A)) -> list(A)"),
            ("add_string", "(string, string) -> string"),
            ("add_uint64", "(uint, uint) -> uint"),
        ],
        body: add,
    },
    Function {
        name: "_-_",
        overloads: &[
            ("subtract_double", "(double, double) -> double"),
            ("subtract_duration_duration", "(duration, duration) -> duration"),
            ("subtract_int64", "(int, int) -> int"),
            ("subtract_timestamp_duration", "(timestamp, duration) -> timestamp"),
            ("subtract_timestamp_timestamp", "(timestamp, timestamp) -> duration"),
            ("subtract_uint64", "(uint, uint) -> uint"),
        ],
        body: subtract,
    },
    Function {
        name: "_*_",
        overloads: &[
            ("multiply_double", "(double, double) -> double"),
            ("multiply_int64", "(int, int) -> int"),
            ("multiply_uint64", "(uint, uint) -> uint"),
        ],
        body: multiply,
    },
    Function {
        name: "_/_",
        overloads: &[
            ("divide_double", "(double, double) -> double"),
            ("divide_int64", "(int, int) -> int"),
            ("divide_uint64", "(uint, uint) -> uint"),
        ],
        body: divide,
    },
    Function {
        name: "_%_",
        overloads: &[
            ("modulo_int64", "(int, int) -> int"),
            ("modulo_uint64", "(uint, uint) -> uint"),
        ],
        body: modulo,
    },
    Function {
        name: "-_",
        overloads: &[("negate_double", "(double) -> double"), ("negate_int64", "(int) -> int")],
        body: negate,
    },
    Function { name: "_<_", overloads: LESS, body: less },
    Function { name: "_<=_", overloads: LESS_EQUALS, body: less_equals },
    Function { name: "_>_", overloads: GREATER, body: greater },
    Function { name: "_>=_", overloads: GREATER_EQUALS, body: greater_equals },
    Function {
        name: "_[_]",
        overloads: &[
            ("index_list", "(list(A), int) -> A"),
            ("index_map", "(map(A, B), A) -> B"),
            ("optional_list_index_int", "(optional(list(V)), int) -> optional(V)"),
            ("optional_map_index_value", "(optional(map(K, V)), K) -> optional(V)"),
        ],
        body: special,
    },
    Function {
        name: "_[?_]",
        overloads: &[
            ("list_optindex_optional_int", "(list(V), int) -> optional(V)"),
            ("optional_list_optindex_optional_int", "(optional(list(V)), int) -> optional(V)"),
            ("map_optindex_optional_value", "(map(K, V), K) -> optional(V)"),
            ("optional_map_optindex_optional_value", "(optional(map(K, V)), K) -> optional(V)"),
        ],
        body: special,
    },
    Function {
        name: "_?._",
        overloads: &[("select_optional_field", "(dyn, string) -> optional(V)")],
        body: special,
    },
    Function {
        name: "@in",
        overloads: &[("in_list", "(A, list(A)) -> bool"), ("in_map", "(A, map(A, B)) -> bool")],
        body: contains,
    },
    Function {
        name: "size",
        overloads: &[
            ("size_bytes", "(bytes) -> int"),
            ("bytes_size", "bytes.() -> int"),
            ("size_list", "(list(A)) -> int"),
            ("list_size", "list(A).() -> int"),
            ("size_map", "(map(A, B)) -> int"),
            ("map_size", "map(A, B).() -> int"),
            ("size_string", "(string) -> int"),
            ("string_size", "string.() -> int"),
        ],
        body: size,
    },
    Function {
        name: "cel.@mapInsert",
        overloads: &[
            ("cel.@mapInsert_map_key_value", "(map(K, V), K, V) -> map(K, V)"),
            ("cel.@mapInsert_map_map", "(map(K, V), map(K, V)) -> map(K, V)"),
        ],
        body: map_insert,
    },
];

macro_rules! relations {
    ($name:ident, $prefix:literal) => {
        const $name: &[(&str, &str)] = &[
            (concat!($prefix, "_bool"), "(bool, bool) -> bool"),
            (concat!($prefix, "_int64"), "(int, int) -> bool"),
            (concat!($prefix, "_int64_double"), "(int, double) -> bool"),
            (concat!($prefix, "_int64_uint64"), "(int, uint) -> bool"),
            (concat!($prefix, "_uint64"), "(uint, uint) -> bool"),
            (concat!($prefix, "_uint64_double"), "(uint, double) -> bool"),
            (concat!($prefix, "_uint64_int64"), "(uint, int) -> bool"),
            (concat!($prefix, "_double"), "(double, double) -> bool"),
            (concat!($prefix, "_double_int64"), "(double, int) -> bool"),
            (concat!($prefix, "_double_uint64"), "(double, uint) -> bool"),
            (concat!($prefix, "_string"), "(string, string) -> bool"),
            (concat!($prefix, "_bytes"), "(bytes, bytes) -> bool"),
            (concat!($prefix, "_timestamp"), "(timestamp, timestamp) -> bool"),
            (concat!($prefix, "_duration"), "(duration, duration) -> bool"),
        ];
    };
}
relations!(LESS, "less");
relations!(LESS_EQUALS, "less_equals");
relations!(GREATER, "greater");
relations!(GREATER_EQUALS, "greater_equals");

/// Placeholder for functions that the evaluator implements itself.
fn special<'a>(_: &mut EvalContext<'a>, _: &mut [Value<'a>]) -> Outcome<'a> {
    Err(Error::no_overload())
}

const _: Body = special;

fn not<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let [Value::Bool(b)] = args else { return Err(Error::no_overload()) };
    Ok(Value::Bool(!*b))
}

fn equals<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let [a, b] = args else { return Err(Error::no_overload()) };
    equal(a, b).map(Value::Bool)
}

fn not_equals<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let [a, b] = args else { return Err(Error::no_overload()) };
    // Values that cannot be compared are not equal.
    Ok(Value::Bool(!equal(a, b).unwrap_or(false)))
}

fn ordered<'a>(args: &[Value<'a>], holds: fn(Ordering) -> bool) -> Outcome<'a> {
    let [a, b] = args else { return Err(Error::no_overload()) };
    compare(a, b).map(|order| Value::Bool(holds(order)))
}

fn less<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    ordered(args, Ordering::is_lt)
}

fn less_equals<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    ordered(args, Ordering::is_le)
}

fn greater<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    ordered(args, Ordering::is_gt)
}

fn greater_equals<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    ordered(args, Ordering::is_ge)
}

fn overflow() -> Error {
    Error::new("integer overflow")
}

fn unsigned_overflow() -> Error {
    Error::new("unsigned integer overflow")
}

fn duration_overflow() -> Error {
    Error::new("duration overflow")
}

pub(super) fn plus<'a>(a: Value<'a>, b: &Value<'a>) -> Outcome<'a> {
    Ok(match (a, b) {
        (Value::Int(a), Value::Int(b)) => Value::Int(a.checked_add(*b).ok_or_else(overflow)?),
        (Value::Uint(a), Value::Uint(b)) => {
            Value::Uint(a.checked_add(*b).ok_or_else(unsigned_overflow)?)
        }
        (Value::Double(a), Value::Double(b)) => Value::Double(a + b),
        (Value::Text(a), Value::Text(b)) => Value::Text(Text::from(format!("{a}{b}"))),
        (Value::Bytes(a), Value::Bytes(b)) => Value::Bytes([&*a, &**b].concat().into()),
        (Value::Duration(a), Value::Duration(b)) => {
            Value::Duration(a.checked_add(*b).ok_or_else(duration_overflow)?)
        }
        (Value::Timestamp(at), Value::Duration(by)) => Value::Timestamp(at.plus(*by)?),
        (Value::Duration(by), Value::Timestamp(at)) => Value::Timestamp(at.plus(by)?),
        (Value::List(a), Value::List(b)) => Value::List(a.concat(b)?),
        _ => return Err(Error::no_overload()),
    })
}

fn add<'a>(context: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let [a, b] = args else { return Err(Error::no_overload()) };
    if let (Value::List(a), Value::List(b)) = (&*a, &*b)
        && a.is_merged()
    {
        // Each item is looked up among the others, which the standard cost does not include.
        let compared = a.len().saturating_mul(b.len()) / 16;
        context.charge(u64::try_from(compared).unwrap_or(u64::MAX))?;
    }
    plus(std::mem::take(a), b)
}

fn subtract<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let [a, b] = args else { return Err(Error::no_overload()) };
    Ok(match (&*a, &*b) {
        (Value::Int(a), Value::Int(b)) => Value::Int(a.checked_sub(*b).ok_or_else(overflow)?),
        (Value::Uint(a), Value::Uint(b)) => {
            Value::Uint(a.checked_sub(*b).ok_or_else(unsigned_overflow)?)
        }
        (Value::Double(a), Value::Double(b)) => Value::Double(a - b),
        (Value::Duration(a), Value::Duration(b)) => {
            Value::Duration(a.checked_sub(*b).ok_or_else(duration_overflow)?)
        }
        (Value::Timestamp(at), Value::Duration(by)) => {
            Value::Timestamp(at.plus(by.checked_neg().ok_or_else(duration_overflow)?)?)
        }
        (Value::Timestamp(a), Value::Timestamp(b)) => Value::Duration(a.since(*b)?),
        _ => return Err(Error::no_overload()),
    })
}

fn multiply<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let [a, b] = args else { return Err(Error::no_overload()) };
    Ok(match (&*a, &*b) {
        (Value::Int(a), Value::Int(b)) => Value::Int(a.checked_mul(*b).ok_or_else(overflow)?),
        (Value::Uint(a), Value::Uint(b)) => {
            Value::Uint(a.checked_mul(*b).ok_or_else(unsigned_overflow)?)
        }
        (Value::Double(a), Value::Double(b)) => Value::Double(a * b),
        _ => return Err(Error::no_overload()),
    })
}

fn divide<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let [a, b] = args else { return Err(Error::no_overload()) };
    Ok(match (&*a, &*b) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => {
            return Err(Error::new("division by zero"));
        }
        (Value::Int(a), Value::Int(b)) => Value::Int(a.checked_div(*b).ok_or_else(overflow)?),
        (Value::Uint(a), Value::Uint(b)) => Value::Uint(a / b),
        (Value::Double(a), Value::Double(b)) => Value::Double(a / b),
        _ => return Err(Error::no_overload()),
    })
}

fn modulo<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let [a, b] = args else { return Err(Error::no_overload()) };
    Ok(match (&*a, &*b) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => {
            return Err(Error::new("modulus by zero"));
        }
        (Value::Int(a), Value::Int(b)) => Value::Int(a.checked_rem(*b).ok_or_else(overflow)?),
        (Value::Uint(a), Value::Uint(b)) => Value::Uint(a % b),
        _ => return Err(Error::no_overload()),
    })
}

fn negate<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Int(n)] => n.checked_neg().map(Value::Int).ok_or_else(overflow),
        [Value::Double(n)] => Ok(Value::Double(-*n)),
        _ => Err(Error::no_overload()),
    }
}

fn contains<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let [item, range] = args else { return Err(Error::no_overload()) };
    match &*range {
        Value::List(list) => {
            for at in 0..list.len() {
                if let Some(other) = list.get(at)
                    && equal(&other?, item)?
                {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }
        Value::Map(map) => {
            Ok(Value::Bool(Key::of(item).is_some_and(|key| map.get(&key).is_some())))
        }
        _ => Err(Error::no_overload()),
    }
}

fn size<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let [value] = args else { return Err(Error::no_overload()) };
    value.size().map(int).ok_or_else(Error::no_overload)
}

fn map_insert<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let (target, rest) = args.split_first_mut().ok_or_else(Error::no_overload)?;
    let Value::Map(mut map) = std::mem::take(target) else { return Err(Error::no_overload()) };
    match rest {
        [key, value] => {
            let key = Key::of(key)
                .ok_or_else(|| Error::new(format!("unsupported key type: {}", key.type_name())))?;
            map.insert(key, std::mem::take(value)).map(Value::Map)
        }
        [Value::Map(update)] => {
            let update: Map<'a> = update.clone();
            for key in update.keys() {
                if let Some(value) = update.get(&key) {
                    map = map.insert(key, value?)?;
                }
            }
            Ok(Value::Map(map))
        }
        _ => Err(Error::no_overload()),
    }
}
