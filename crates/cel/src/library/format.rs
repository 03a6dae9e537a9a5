//! The `format` function: `'%s is %d'.format([...])`, with type checks at compile time.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

use object::quote::quote;

use super::convert::{double_text, to_display_string};
use crate::{
    ast::{Expr, ExprKind, Id},
    check::TypeInfo,
    error::Error,
    eval::LARGEST_VALUE,
    types::Type,
    value::{Value, duration_text},
};

/// Default number of digits after the decimal point.
const PRECISION: usize = 6;
/// Maximum precision of a clause.
const LONGEST: usize = 10_000;
const TOO_LARGE: &str = "the text is too large";

#[derive(Clone, Copy)]
enum Clause {
    Text,
    Decimal,
    Fixed(usize),
    Scientific,
    Binary,
    Hex { upper: bool },
    Octal,
}

/// The string with its clauses replaced.
pub(crate) fn format(text: &str, values: &[Value<'_>]) -> Result<String, Error> {
    let mut arg = |at: usize, clause: Clause| match values.get(at) {
        Some(value) => apply(clause, value).map_err(|error| (None, error)),
        None => Err((None, format!("index {at} out of range"))),
    };
    interpolate(text, values.len(), true, &mut arg).map_err(|(_, message)| Error::new(message))
}

/// The first error in a call whose format and arguments are literals, and its node.
pub(crate) fn check(
    id: Id,
    text: &str,
    args: &[&Expr],
    checked: &TypeInfo,
) -> Option<(Id, String)> {
    let mut seen = 0;
    let mut arg = |at: usize, clause: Clause| {
        seen += 1;
        let Some(arg) = args.get(at) else {
            return Err((None, format!("index {at} out of range")));
        };
        verify(clause, arg, checked)
            .map(|()| String::new())
            .map_err(|(id, message)| (Some(id), message))
    };
    match interpolate(text, args.len(), false, &mut arg) {
        Err((at, message)) => Some((at.unwrap_or(id), message)),
        Ok(_) if args.len() > seen => {
            let count = args.len();
            Some((
                id,
                format!(
                    "too many arguments supplied to string.format (expected {seen}, got {count})"
                ),
            ))
        }
        Ok(_) => None,
    }
}

type Failed = (Option<Id>, String);

fn interpolate(
    text: &str,
    count: usize,
    index_first: bool,
    arg: &mut impl FnMut(usize, Clause) -> Result<String, Failed>,
) -> Result<String, Failed> {
    let mut out = String::new();
    let mut rest = text;
    let mut at = 0;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        rest = after;
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let missing = || Err((None, format!("index {at} out of range")));
        if index_first && at >= count {
            return missing();
        }
        if rest.is_empty() {
            return Err((None, "unexpected end of string".to_owned()));
        }
        if at >= count {
            return missing();
        }
        let (clause, after) = clause(rest)
            .map_err(|error| (None, format!("could not parse formatting clause: {error}")))?;
        let shown = arg(at, clause)
            .map_err(|(id, error)| (id, format!("error during formatting: {error}")))?;
        out.push_str(&shown);
        if out.len() > LARGEST_VALUE {
            return Err((None, TOO_LARGE.to_owned()));
        }
        rest = after;
        at += 1;
    }
    out.push_str(rest);
    Ok(out)
}

fn clause(text: &str) -> Result<(Clause, &str), String> {
    let parsing = |error: &str| format!("error while parsing precision: {error}");
    let (precision, text) = match text.strip_prefix('.') {
        None => (PRECISION, text),
        Some(rest) => {
            let end = rest.find(|c: char| !c.is_ascii_digit());
            let parts = end.and_then(|end| rest.split_at_checked(end));
            let (digits, after) =
                parts.ok_or_else(|| parsing("could not find end of precision specifier"))?;
            let number: usize = digits.parse().map_err(|_| {
                let quoted = quote(digits);
                parsing(&format!("error while converting precision to integer: strconv.Atoi: parsing {quoted}: invalid syntax"))
            })?;
            if number > LONGEST {
                return Err(parsing(&format!(
                    "precision {number} exceeds maximum allowed precision {LONGEST}"
                )));
            }
            (number, after)
        }
    };
    let mut letters = text.chars();
    let letter = letters.next().unwrap_or('%');
    let clause = match letter {
        's' => Clause::Text,
        'd' => Clause::Decimal,
        'f' => Clause::Fixed(precision),
        'e' => Clause::Scientific,
        'b' => Clause::Binary,
        'x' => Clause::Hex { upper: false },
        'X' => Clause::Hex { upper: true },
        'o' => Clause::Octal,
        other => return Err(format!("unrecognized formatting clause \"{other}\"")),
    };
    Ok((clause, letters.as_str()))
}

fn refused(clause: Clause, ty: &str) -> String {
    match clause {
        Clause::Text => format!(
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given {ty}"
        ),
        Clause::Decimal => format!("decimal clause can only be used on integers, was given {ty}"),
        Clause::Fixed(_) => {
            format!("fixed-point clause can only be used on doubles, was given {ty}")
        }
        Clause::Scientific => {
            format!("scientific clause can only be used on doubles, was given {ty}")
        }
        Clause::Binary => {
            format!("only integers and bools can be formatted as binary, was given {ty}")
        }
        Clause::Hex { .. } => format!(
            "only integers, byte buffers, and strings can be formatted as hex, was given {ty}"
        ),
        Clause::Octal => format!("octal clause can only be used on integers, was given {ty}"),
    }
}

fn verify(clause: Clause, arg: &Expr, checked: &TypeInfo) -> Result<(), (Id, String)> {
    let ty = checked.types.get(arg.id).unwrap_or(&Type::Dyn);
    let fits = match clause {
        Clause::Text => matches!(
            ty,
            Type::List(_)
                | Type::Map(_)
                | Type::Int
                | Type::Uint
                | Type::Double
                | Type::Bool
                | Type::Text
                | Type::Timestamp
                | Type::Bytes
                | Type::Duration
                | Type::Type(_)
                | Type::Null
        ),
        Clause::Decimal | Clause::Octal => matches!(ty, Type::Int | Type::Uint),
        Clause::Fixed(_) | Clause::Scientific => matches!(ty, Type::Double | Type::Text),
        Clause::Binary => matches!(ty, Type::Int | Type::Uint | Type::Bool),
        Clause::Hex { .. } => matches!(ty, Type::Int | Type::Uint | Type::Text | Type::Bytes),
    };
    if !fits && !ty.is_dyn() {
        return Err((arg.id, refused(clause, ty.runtime_name())));
    }
    if matches!(clause, Clause::Text) && matches!(arg.kind, ExprKind::List(_) | ExprKind::Map(_)) {
        for part in arg.children() {
            verify(clause, part, checked)?;
        }
    }
    Ok(())
}

fn apply(clause: Clause, value: &Value<'_>) -> Result<String, String> {
    let shown = match (clause, value) {
        (Clause::Text, value) => text(value)?,
        (Clause::Decimal, Value::Int(n)) => Some(n.to_string()),
        (Clause::Decimal, Value::Uint(n)) => Some(n.to_string()),
        (Clause::Fixed(precision), value) => number(value).map(|n| fixed(n, precision)),
        (Clause::Scientific, value) => number(value).map(scientific),
        (Clause::Binary, Value::Int(n)) => Some(signed(*n, |n| format!("{n:b}"))),
        (Clause::Binary, Value::Uint(n)) => Some(format!("{n:b}")),
        (Clause::Binary, Value::Bool(b)) => Some(u8::from(*b).to_string()),
        (Clause::Octal, Value::Int(n)) => Some(signed(*n, |n| format!("{n:o}"))),
        (Clause::Octal, Value::Uint(n)) => Some(format!("{n:o}")),
        (Clause::Hex { upper }, value) => {
            hex(value).map(|text| if upper { text.to_uppercase() } else { text })
        }
        _ => None,
    };
    shown.ok_or_else(|| refused(clause, value.type_name()))
}

fn signed(n: i64, show: fn(u64) -> String) -> String {
    let sign = if n < 0 { "-" } else { "" };
    format!("{sign}{}", show(n.unsigned_abs()))
}

fn hex(value: &Value<'_>) -> Option<String> {
    let bytes = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match value {
        Value::Int(n) => Some(signed(*n, |n| format!("{n:x}"))),
        Value::Uint(n) => Some(format!("{n:x}")),
        Value::Text(text) => Some(bytes(text.as_bytes())),
        Value::Bytes(value) => Some(bytes(value)),
        _ => None,
    }
}

fn number(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(n) => Some(*n),
        Value::Text(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn unusual(n: f64) -> Option<&'static str> {
    if n.is_nan() {
        Some("NaN")
    } else if n.is_infinite() {
        Some(if n > 0.0 { "∞" } else { "-∞" })
    } else {
        None
    }
}

/// Formats with thousands separators, as in English.
fn fixed(n: f64, precision: usize) -> String {
    if let Some(text) = unusual(n) {
        return text.to_owned();
    }
    let text = format!("{:.precision$}", n.abs());
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let mut out = String::from(if n.is_sign_negative() { "-" } else { "" });
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if precision > 0 {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// `1.052033×10⁰³`.
fn scientific(n: f64) -> String {
    if let Some(text) = unusual(n) {
        return text.to_owned();
    }
    let text = format!("{n:.PRECISION$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let raised = |c: char| match c {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        c => char::from_u32(0x2070 + c.to_digit(10).unwrap_or_default()).unwrap_or(c),
    };
    let sign = if exponent < 0 { "-" } else { "" };
    let exponent = format!("{sign}{:02}", exponent.abs());
    format!("{mantissa}×10{}", exponent.chars().map(raised).collect::<String>())
}

fn text(value: &Value<'_>) -> Result<Option<String>, String> {
    Ok(match value {
        Value::List(_) | Value::Map(_) => {
            let mut room = LARGEST_VALUE;
            Some(inner(value, &mut room)?)
        }
        Value::Null => Some("null".to_owned()),
        Value::Optional(_) | Value::Opaque(_) | Value::Message(_) | Value::Preserved(_) => None,
        value => Some(to_display_string(value).map_err(|error| {
            format!("could not convert argument {} to string", quote(&error.to_string()))
        })?),
    })
}

/// Formats a value within a list or a map, and subtracts its length from `room`.
fn inner(value: &Value<'_>, room: &mut usize) -> Result<String, String> {
    let failed = |error: Error| error.to_string();
    let shown = match value {
        Value::List(list) => {
            let values = list.values().map_err(failed)?;
            let shown: Result<Vec<String>, String> =
                values.iter().map(|value| inner(value, room)).collect();
            format!("[{}]", shown?.join(", "))
        }
        Value::Map(map) => {
            let mut shown = Vec::new();
            for key in map.keys() {
                if let Some(value) = map.get(&key) {
                    let key = inner(&key.value(), room)?;
                    shown.push((key, inner(&value.map_err(failed)?, room)?));
                }
            }
            shown.sort();
            let shown: Vec<String> =
                shown.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
            format!("{{{}}}", shown.join(", "))
        }
        Value::Text(text) => quote(text),
        Value::Bytes(bytes) => format!("b{}", quote(&String::from_utf8_lossy(bytes))),
        Value::Timestamp(at) => format!("timestamp({})", quote(&at.to_string())),
        Value::Duration(nanos) => format!("duration({})", quote(&duration_text(*nanos))),
        Value::Double(n) if n.is_nan() || n.is_infinite() => quote(&double_text(*n)),
        Value::Double(n) => format!("{n:.PRECISION$}"),
        Value::Null => "null".to_owned(),
        Value::Optional(_) | Value::Opaque(_) | Value::Message(_) | Value::Preserved(_) => {
            return Err(format!("no formatting function for {}", value.type_name()));
        }
        value => to_display_string(value).map_err(failed)?,
    };
    // The elements of a list or a map are counted already.
    let own = if matches!(value, Value::List(_) | Value::Map(_)) { 0 } else { shown.len() };
    *room = room.checked_sub(own + 2).ok_or_else(|| TOO_LARGE.to_owned())?;
    Ok(shown)
}
