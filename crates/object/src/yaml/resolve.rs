//! Resolution of plain scalars to typed values.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

use jiff::civil::Date;

use crate::Value;

/// The value of the plain scalar `text`.
pub(super) fn resolve(text: &str) -> Value {
    let Some(first) = text.bytes().next() else { return Value::Null };
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Value::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Value::Bool(false)
        }
        "~" | "null" | "Null" | "NULL" => Value::Null,
        ".nan" | ".NaN" | ".NAN" => Value::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Value::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Value::Float(f64::NEG_INFINITY),
        _ if matches!(first, b'0'..=b'9' | b'+' | b'-' | b'.') => number(text, first),
        _ => Value::from(text),
    }
}

/// Whether `text` must be quoted to be parsed as a string again.
pub(super) fn needs_quotes(text: &str) -> bool {
    !matches!(resolve(text), Value::Text(_)) || is_timestamp(text) || is_base_60(text)
}

fn number(text: &str, first: u8) -> Value {
    if first == b'.' {
        return float(text).unwrap_or_else(|| Value::from(text));
    }
    if is_timestamp(text) {
        return Value::from(text); // a timestamp, which is a string in JSON
    }
    let plain = text.replace('_', "");
    integer(&plain).or_else(|| float(&plain)).unwrap_or_else(|| Value::from(text))
}

fn integer(plain: &str) -> Option<Value> {
    let negative = plain.starts_with('-');
    let digits = plain.strip_prefix(['-', '+']).unwrap_or(plain);
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, digits.get(2..)?),
        [b'0', b'o', ..] => (8, digits.get(2..)?),
        [b'0', b'b', ..] => (2, digits.get(2..)?),
        [b'0', _, ..] => (8, digits.get(1..)?),
        _ => (10, digits),
    };
    if !digits.bytes().all(|b| char::from(b).is_digit(radix)) {
        return None;
    }
    let size = u64::from_str_radix(digits, radix).ok()?;
    if negative {
        return 0i64.checked_sub_unsigned(size).map(Value::Int);
    }
    match i64::try_from(size) {
        Ok(n) => Some(Value::Int(n)),
        Err(_) => (!plain.starts_with('+')).then_some(Value::UInt(size)),
    }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn float(plain: &str) -> Option<Value> {
    let all = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let rest = plain.strip_prefix(['-', '+']).unwrap_or(plain);
    let (number, exponent) = match rest.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, Some(exponent)),
        None => (rest, None),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let exponent = exponent.map(|e| e.strip_prefix(['-', '+']).unwrap_or(e));
    let fits = all(whole)
        && all(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|e| !e.is_empty() && all(e));
    let value: f64 = plain.parse().ok().filter(|_| fits)?;
    value.is_finite().then_some(Value::Float(value))
}

/// `12:30:45`, a base-60 number in YAML 1.0. It is not parsed as a number, but quoted.
fn is_base_60(text: &str) -> bool {
    let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    let mut parts = rest.split(':');
    let first = parts.next().unwrap_or_default();
    let digit_first = first.starts_with(|c: char| c.is_ascii_digit());
    if !digit_first || !first.bytes().all(|b| b.is_ascii_digit() || b == b'_') {
        return false;
    }
    let parts: Vec<&str> = parts.collect();
    let Some((last, parts)) = parts.split_last() else { return false };
    let (last, fraction) = last.split_once('.').unwrap_or((last, ""));
    let minutes =
        |text: &&str| matches!(text.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9']);
    parts.iter().all(minutes)
        && minutes(&last)
        && fraction.bytes().all(|b| b.is_ascii_digit() || b == b'_')
}

/// `2006-1-2`, also with a time: `2006-1-2T15:4:5.999Z`, `2006-1-2 15:4:5`.
fn is_timestamp(text: &str) -> bool {
    let (date, time) = match text.find(['T', 't', ' ']).and_then(|at| text.split_at_checked(at)) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    is_date(date)
        && time.is_none_or(|time| match time.strip_prefix(' ') {
            Some(time) => is_time(time),
            None => time.get(1..).and_then(without_zone).is_some_and(is_time),
        })
}

fn is_date(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let year = parts.next().filter(|year| year.len() == 4);
    let year = year.and_then(|year| small(year, 9999)).and_then(|n| i16::try_from(n).ok());
    let mut part = || parts.next().filter(|t| t.len() <= 2).and_then(|text| small(text, 31));
    let (month, day) = (part(), part());
    year.zip(month).zip(day).is_some_and(|((year, month), day)| {
        let small = |n: u16| i8::try_from(n).unwrap_or_default();
        Date::new(year, small(month), small(day)).is_ok()
    })
}

fn is_time(text: &str) -> bool {
    let (text, fraction) = text.split_once(['.', ',']).unwrap_or((text, "0"));
    let parts: Vec<&str> = text.split(':').collect();
    let [hour, minute, second] = parts[..] else { return false };
    let within = |text: &str, most| text.len() <= 2 && small(text, most).is_some();
    within(hour, 23)
        && within(minute, 59)
        && within(second, 59)
        && !fraction.is_empty()
        && fraction.bytes().all(|b| b.is_ascii_digit())
}

fn without_zone(text: &str) -> Option<&str> {
    if let Some(time) = text.strip_suffix('Z') {
        return Some(time);
    }
    let (time, zone) = text.split_at_checked(text.len().checked_sub(6)?)?;
    let (hours, minutes) = zone.strip_prefix(['+', '-'])?.split_once(':')?;
    let fits = hours.len() == 2 && minutes.len() == 2;
    (fits && small(hours, 24).is_some() && small(minutes, 60).is_some()).then_some(time)
}

fn small(text: &str, most: u16) -> Option<u16> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|n| digits && *n <= most)
}
