//! Type conversion functions.

use super::Outcome;
use crate::{
    error::Error,
    eval::EvalContext,
    function::Function,
    value::{Timestamp, Value, duration_text, parse_duration},
};

pub(crate) const FUNCTIONS: &[Function] = &[
    Function { name: "type", overloads: &[("type", "(A) -> type(A)")], body: type_of },
    Function { name: "dyn", overloads: &[("to_dyn", "(A) -> dyn")], body: to_dyn },
    Function {
        name: "bool",
        overloads: &[("bool_to_bool", "(bool) -> bool"), ("string_to_bool", "(string) -> bool")],
        body: to_bool,
    },
    Function {
        name: "bytes",
        overloads: &[
            ("bytes_to_bytes", "(bytes) -> bytes"),
            ("string_to_bytes", "(string) -> bytes"),
        ],
        body: to_bytes,
    },
    Function {
        name: "double",
        overloads: &[
            ("double_to_double", "(double) -> double"),
            ("int64_to_double", "(int) -> double"),
            ("string_to_double", "(string) -> double"),
            ("uint64_to_double", "(uint) -> double"),
        ],
        body: to_double,
    },
    Function {
        name: "duration",
        overloads: &[
            ("duration_to_duration", "(duration) -> duration"),
            ("string_to_duration", "(string) -> duration"),
        ],
        body: to_duration,
    },
    Function {
        name: "int",
        overloads: &[
            ("int64_to_int64", "(int) -> int"),
            ("double_to_int64", "(double) -> int"),
            ("duration_to_int64", "(duration) -> int"),
            ("string_to_int64", "(string) -> int"),
            ("timestamp_to_int64", "(timestamp) -> int"),
            ("uint64_to_int64", "(uint) -> int"),
        ],
        body: to_int,
    },
    Function {
        name: "string",
        overloads: &[
            ("string_to_string", "(string) -> string"),
            ("bool_to_string", "(bool) -> string"),
            ("bytes_to_string", "(bytes) -> string"),
            ("double_to_string", "(double) -> string"),
            ("duration_to_string", "(duration) -> string"),
            ("int64_to_string", "(int) -> string"),
            ("timestamp_to_string", "(timestamp) -> string"),
            ("uint64_to_string", "(uint) -> string"),
        ],
        body: to_text,
    },
    Function {
        name: "timestamp",
        overloads: &[
            ("timestamp_to_timestamp", "(timestamp) -> timestamp"),
            ("int64_to_timestamp", "(int) -> timestamp"),
            ("string_to_timestamp", "(string) -> timestamp"),
        ],
        body: to_timestamp,
    },
    Function {
        name: "uint",
        overloads: &[
            ("uint64_to_uint64", "(uint) -> uint"),
            ("double_to_uint64", "(double) -> uint"),
            ("int64_to_uint64", "(int) -> uint"),
            ("string_to_uint64", "(string) -> uint"),
        ],
        body: to_uint,
    },
];

/// Formats a float like Go's `%g`.
pub(super) fn double_text(n: f64) -> String {
    if n.is_nan() {
        return "NaN".to_owned();
    } else if n.is_infinite() {
        return if n > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    } else if n == 0.0 {
        return if n.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    let scientific = format!("{n:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if !(-4..6).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    format!("{n}")
}

fn wrong(value: &Value<'_>, to: &str) -> Error {
    Error::new(format!("type conversion error from '{}' to '{to}'", value.type_name()))
}

fn type_of<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let [value] = args else { return Err(Error::no_overload()) };
    Ok(Value::Type(value.type_name().into()))
}

fn to_dyn<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let [value] = args else { return Err(Error::no_overload()) };
    Ok(std::mem::take(value))
}

fn to_bool<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Bool(b)] => Ok(Value::Bool(*b)),
        [value @ Value::Text(_)] => match value.as_text().unwrap_or_default() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err(wrong(value, "bool")),
        },
        _ => Err(Error::no_overload()),
    }
}

fn to_bytes<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    match args {
        [bytes @ Value::Bytes(_)] => Ok(std::mem::take(bytes)),
        [Value::Text(text)] => Ok(Value::Bytes(text.as_bytes().into())),
        _ => Err(Error::no_overload()),
    }
}

#[expect(clippy::cast_precision_loss, reason = "that is what was asked for")]
fn to_double<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Double(n)] => Ok(Value::Double(*n)),
        [Value::Int(n)] => Ok(Value::Double(*n as f64)),
        [Value::Uint(n)] => Ok(Value::Double(*n as f64)),
        [value @ Value::Text(_)] => {
            let text = value.as_text().unwrap_or_default();
            let number: Option<f64> = without_underscores(text).and_then(|text| text.parse().ok());
            let overflow = |n: &f64| n.is_infinite() && text.contains(|c: char| c.is_ascii_digit());
            number.filter(|n| !overflow(n)).map(Value::Double).ok_or_else(|| wrong(value, "double"))
        }
        _ => Err(Error::no_overload()),
    }
}

fn to_duration<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Duration(nanos)] => Ok(Value::Duration(*nanos)),
        [value @ Value::Text(_)] => parse_duration(value.as_text().unwrap_or_default())
            .map(Value::Duration)
            .ok_or_else(|| wrong(value, "google.protobuf.Duration")),
        _ => Err(Error::no_overload()),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "checked to be in range")]
fn to_int<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let overflow = || Error::new("integer overflow");
    match args {
        [Value::Int(n) | Value::Duration(n)] => Ok(Value::Int(*n)),
        [Value::Uint(n)] => i64::try_from(*n).map(Value::Int).map_err(|_| overflow()),
        [Value::Double(n)] => {
            let fits = *n > -9_223_372_036_854_775_808.0 && *n < 9_223_372_036_854_775_808.0;
            if fits { Ok(Value::Int(*n as i64)) } else { Err(overflow()) }
        }
        [Value::Timestamp(at)] => Ok(Value::Int(at.seconds)),
        [value @ Value::Text(_)] => {
            let text = value.as_text().unwrap_or_default();
            text.parse().map(Value::Int).map_err(|_| wrong(value, "int"))
        }
        _ => Err(Error::no_overload()),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be in range"
)]
fn to_uint<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let overflow = || Error::new("unsigned integer overflow");
    match args {
        [Value::Uint(n)] => Ok(Value::Uint(*n)),
        [Value::Int(n)] => u64::try_from(*n).map(Value::Uint).map_err(|_| overflow()),
        [Value::Double(n)] => {
            let fits = *n >= 0.0 && *n < 18_446_744_073_709_551_616.0;
            if fits { Ok(Value::Uint(*n as u64)) } else { Err(overflow()) }
        }
        [value @ Value::Text(_)] => {
            let text = value.as_text().unwrap_or_default();
            let number = if text.starts_with('+') { None } else { text.parse().ok() };
            number.map(Value::Uint).ok_or_else(|| wrong(value, "uint"))
        }
        _ => Err(Error::no_overload()),
    }
}

fn to_text<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    let [value] = args else { return Err(Error::no_overload()) };
    match value {
        Value::Text(_) => Ok(std::mem::take(value)),
        value => to_display_string(value).map(Value::text),
    }
}

/// A value as `string()` converts it.
pub(super) fn to_display_string(value: &Value<'_>) -> Result<String, Error> {
    Ok(match value {
        Value::Text(text) => text.to_string(),
        Value::Bool(b) => b.to_string(),
        Value::Int(n) => n.to_string(),
        Value::Uint(n) => n.to_string(),
        Value::Double(n) => double_text(*n),
        Value::Bytes(bytes) => String::from_utf8(bytes.to_vec())
            .map_err(|_| Error::new("invalid UTF-8 in bytes, cannot convert to string"))?,
        Value::Duration(nanos) => duration_text(*nanos),
        Value::Timestamp(at) => at.to_string(),
        Value::Type(name) => name.to_string(),
        _ => return Err(Error::no_overload()),
    })
}

fn to_timestamp<'a>(_: &mut EvalContext<'a>, args: &mut [Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Timestamp(at)] => Ok(Value::Timestamp(*at)),
        [Value::Int(seconds)] => Timestamp::new(*seconds, 0).map(Value::Timestamp),
        [value @ Value::Text(_)] => {
            let moment = Timestamp::parse(value.as_text().unwrap_or_default());
            let moment = moment.ok_or_else(|| wrong(value, "google.protobuf.Timestamp"))?;
            Timestamp::new(moment.seconds, moment.nanos).map(Value::Timestamp)
        }
        _ => Err(Error::no_overload()),
    }
}

/// A number without the underscores between its digits.
fn without_underscores(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let mut underscores = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'_');
    let fit = underscores.all(|(at, _)| digit(at.checked_sub(1)) && digit(Some(at + 1)));
    fit.then(|| text.replace('_', ""))
}
