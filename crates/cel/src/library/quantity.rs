//! The quantity library.

use std::sync::Arc;

use object::{Quantity, QuantityError, quantity::Format};

use super::{Opaque, Outcome, text_of};
use crate::{error::Error, function::Function, value::Value};

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "quantity",
        overloads: &[("string_to_quantity", "(string) -> Quantity")],
        body: |_, args| {
            let [text] = args else { return Err(Error::no_overload()) };
            let text = text_of(text)?;
            let quantity =
                text.parse().map_err(|error: QuantityError| Error::new(error.to_string()))?;
            Ok(wrap(CelQuantity { quantity, scale: scale(text), computed: false }))
        },
    },
    Function {
        name: "isQuantity",
        overloads: &[("is_quantity_string", "(string) -> bool")],
        body: |_, args| {
            let [text] = args else { return Err(Error::no_overload()) };
            Ok(Value::Bool(text_of(text)?.parse::<Quantity>().is_ok()))
        },
    },
    Function {
        name: "sign",
        overloads: &[("quantity_sign", "(Quantity) -> int")],
        body: |_, args| one(args).map(|amount| Value::Int(amount.quantity.sign().into())),
    },
    Function {
        name: "isGreaterThan",
        overloads: &[("quantity_is_greater_than", "Quantity.(Quantity) -> bool")],
        body: |_, args| two(args).map(|(a, b)| Value::Bool(a.quantity > b.quantity)),
    },
    Function {
        name: "isLessThan",
        overloads: &[("quantity_is_less_than", "Quantity.(Quantity) -> bool")],
        body: |_, args| two(args).map(|(a, b)| Value::Bool(a.quantity < b.quantity)),
    },
    Function {
        name: "compareTo",
        overloads: &[("quantity_compare_to", "Quantity.(Quantity) -> int")],
        body: |_, args| two(args).map(|(a, b)| Value::Int(a.quantity.cmp(&b.quantity) as i64)),
    },
    Function {
        name: "asApproximateFloat",
        overloads: &[("quantity_get_float", "Quantity.() -> double")],
        body: |_, args| one(args).map(|amount| Value::Double(amount.quantity.as_approximate_f64())),
    },
    Function {
        name: "asInteger",
        overloads: &[("quantity_get_int", "Quantity.() -> int")],
        body: |_, args| {
            let whole = whole(one(args)?);
            whole.map(Value::Int).ok_or_else(|| Error::new("cannot convert value to integer"))
        },
    },
    Function {
        name: "isInteger",
        overloads: &[("quantity_is_integer", "Quantity.() -> bool")],
        body: |_, args| one(args).map(|amount| Value::Bool(whole(amount).is_some())),
    },
    Function {
        name: "add",
        overloads: &[
            ("quantity_add", "Quantity.(Quantity) -> Quantity"),
            ("quantity_add_int", "Quantity.(int) -> Quantity"),
        ],
        body: |_, args| arithmetic(args, |a, b| a + b),
    },
    Function {
        name: "sub",
        overloads: &[
            ("quantity_sub", "Quantity.(Quantity) -> Quantity"),
            ("quantity_sub_int", "Quantity.(int) -> Quantity"),
        ],
        body: |_, args| arithmetic(args, |a, b| a - b),
    },
];

/// A quantity, and whether upstream stores it as a 64-bit number of `10^scale`.
#[derive(Clone, Debug)]
pub struct CelQuantity {
    pub(crate) quantity: Quantity,
    scale: Option<i32>,
    /// The result of arithmetic. Upstream never finds it equal to a parsed quantity.
    pub(crate) computed: bool,
}

impl Value<'_> {
    /// A quantity parsed from `text`.
    pub(crate) fn quantity(quantity: Quantity, text: &str) -> Self {
        wrap(CelQuantity { quantity, scale: scale(text), computed: false })
    }
}

fn wrap(amount: CelQuantity) -> Value<'static> {
    Value::Opaque(Opaque::Quantity(Arc::new(amount)))
}

fn of<'v>(value: &'v Value<'_>) -> Result<&'v CelQuantity, Error> {
    match value {
        Value::Opaque(Opaque::Quantity(amount)) => Ok(amount),
        _ => Err(Error::no_overload()),
    }
}

fn one<'v>(args: &'v [Value<'_>]) -> Result<&'v CelQuantity, Error> {
    let [value] = args else { return Err(Error::no_overload()) };
    of(value)
}

fn two<'v>(args: &'v [Value<'_>]) -> Result<(&'v CelQuantity, &'v CelQuantity), Error> {
    let [a, b] = args else { return Err(Error::no_overload()) };
    Ok((of(a)?, of(b)?))
}

/// The scale at which upstream stores `text` as a 64-bit number, if it does.
fn scale(text: &str) -> Option<i32> {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text).trim_start_matches('0');
    let split = |text: &str, dot: bool| {
        text.find(|c: char| !(c.is_ascii_digit() || dot && c == '.')).unwrap_or(text.len())
    };
    let (number, suffix) = text.split_at(split(text, true));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let length = |text: &str| i32::try_from(text.len()).unwrap_or(i32::MAX);
    let decimal = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    let binary = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let place = |names: &[&str]| names.iter().position(|name| *name == suffix);
    if let Some(at) = place(&binary) {
        let exponent = 10 * (i32::try_from(at).unwrap_or_default() + 1);
        let room = 15 - length(whole) - exponent * 3 / 10 - 1;
        return (fraction.is_empty() && room >= 0).then_some(0);
    }
    let exponent = match place(&decimal) {
        Some(at) => 3 * i32::try_from(at).unwrap_or_default() - 9,
        None => suffix.strip_prefix(['e', 'E'])?.parse().ok()?,
    };
    let scale = exponent.saturating_sub(length(fraction));
    (length(whole) + length(fraction) <= 18 && scale >= -9).then_some(scale)
}

/// The value, if it is stored as an integer.
fn whole(amount: &CelQuantity) -> Option<i64> {
    let value = amount.quantity.value();
    let exact = Quantity::new(value, Format::DecimalSi) == amount.quantity;
    (exact && amount.scale? >= 0).then_some(value)
}

fn arithmetic<'a>(args: &[Value<'a>], how: fn(Quantity, &Quantity) -> Quantity) -> Outcome<'a> {
    let [a, b] = args else { return Err(Error::no_overload()) };
    let b = match b {
        Value::Int(n) => {
            let quantity = Quantity::new(*n, Format::DecimalExponent);
            CelQuantity { quantity, scale: Some(0), computed: false }
        }
        b => of(b)?.clone(),
    };
    let a = of(a)?.clone();
    let scale =
        if a.quantity.is_zero() { b.scale } else { a.scale.zip(b.scale).map(|(a, b)| a.min(b)) };
    Ok(wrap(CelQuantity { quantity: how(a.quantity, &b.quantity), scale, computed: true }))
}
