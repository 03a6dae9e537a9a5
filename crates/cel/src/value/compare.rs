//! Equality and ordering of values.

use std::cmp::Ordering;

use super::Value;
use crate::{error::Error, library::Opaque};

/// Whether two values are equal. Values of different types are not, except for numbers.
pub(crate) fn equal<'a>(a: &Value<'a>, b: &Value<'a>) -> Result<bool, Error> {
    Ok(match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Text(a), Value::Text(b)) => **a == **b,
        (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Type(a), Value::Type(b)) => a == b,
        (Value::List(a), Value::List(b)) => return a.equal(b),
        (Value::Map(a), Value::Map(b)) => return a.equal(b),
        (Value::Optional(a), Value::Optional(b)) => match (a, b) {
            (Some(a), Some(b)) => return equal(a, b),
            (a, b) => a.is_none() && b.is_none(),
        },
        (Value::Message(a), Value::Message(b)) => {
            if a.name != b.name || a.fields.len() != b.fields.len() {
                return Ok(false);
            }
            for (name, value) in &a.fields {
                let other = b.fields.iter().find(|(other, _)| other == name);
                if !other.map_or(Ok(false), |(_, other)| equal(value, other))? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Opaque(Opaque::Quantity(_)), Value::Opaque(Opaque::Quantity(b))) if b.computed => {
            return Err(Error::new("no such overload"));
        }
        (Value::Opaque(a), Value::Opaque(b)) => a.equal(b),
        (Value::Preserved(a), Value::Preserved(b)) => a == b,
        // A list or map with a schema cannot be compared with another type.
        (a, b) if a.is_described() && !matches!(b, Value::Null) => {
            return Err(Error::new("no such overload"));
        }
        (a, b) => numbers(a, b).is_some_and(|(a, b)| a.compare(b) == Some(Ordering::Equal)),
    })
}

/// The order of two values.
pub(crate) fn compare(a: &Value<'_>, b: &Value<'_>) -> Result<Ordering, Error> {
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => Ok(a.cmp(b)),
        (Value::Text(a), Value::Text(b)) => Ok((**a).cmp(b)),
        (Value::Bytes(a), Value::Bytes(b)) => Ok(a.cmp(b)),
        (Value::Timestamp(a), Value::Timestamp(b)) => Ok(a.cmp(b)),
        (Value::Duration(a), Value::Duration(b)) => Ok(a.cmp(b)),
        (a, b) => {
            let (a, b) = numbers(a, b).ok_or_else(Error::no_overload)?;
            a.compare(b).ok_or_else(|| Error::new("NaN values cannot be ordered"))
        }
    }
}

/// A number of any type.
#[derive(Clone, Copy)]
enum Number {
    Whole(i128),
    Double(f64),
}

fn numbers(a: &Value<'_>, b: &Value<'_>) -> Option<(Number, Number)> {
    let number = |value: &Value<'_>| match value {
        Value::Int(n) => Some(Number::Whole((*n).into())),
        Value::Uint(n) => Some(Number::Whole((*n).into())),
        Value::Double(n) => Some(Number::Double(*n)),
        _ => None,
    };
    number(a).zip(number(b))
}

impl Number {
    /// Compares exactly; `None` if one is NaN.
    fn compare(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Whole(a), Self::Whole(b)) => Some(a.cmp(&b)),
            (Self::Double(a), Self::Double(b)) => a.partial_cmp(&b),
            (Self::Double(a), Self::Whole(b)) => double(a, b),
            (Self::Whole(a), Self::Double(b)) => double(b, a).map(Ordering::reverse),
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "checked to be in range")]
fn double(a: f64, b: i128) -> Option<Ordering> {
    if a.is_nan() {
        None
    } else if a >= 1e20 {
        Some(Ordering::Greater)
    } else if a <= -1e20 {
        Some(Ordering::Less)
    } else {
        let whole = (a.trunc() as i128).cmp(&b);
        Some(whole.then_with(|| a.fract().partial_cmp(&0.0).unwrap_or(Ordering::Equal)))
    }
}
