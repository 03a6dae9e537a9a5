//! The functions `html`, `js`, `urlquery`, `print` and `slice` of Go templates.

use std::fmt::Write as _;

use object::Value;

use super::run::{show, type_name};

/// Escapes a text for HTML.
pub(super) fn html(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\0' => out.push('\u{fffd}'),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c => out.push(c),
        }
    }
    out
}

/// Escapes a text for a string of JavaScript.
pub(super) fn js(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\\' | '\'' | '"' => out.extend(['\\', c]),
            '<' | '>' | '&' | '=' => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

/// Escapes a text for the query of a URL.
pub(super) fn query(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b' ' => out.push('+'),
            b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
            byte => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

/// Go's `Sprint`: a space stands only between two values of which none is a text.
pub(super) fn sprint(args: &[Value]) -> String {
    let mut out = String::new();
    let mut before: Option<&Value> = None;
    for value in args {
        let is_text = |value: &Value| matches!(value, Value::Text(_));
        if before.is_some_and(|before| !is_text(before) && !is_text(value)) {
            out.push(' ');
        }
        out += &show(value);
        before = Some(value);
    }
    out
}

/// `slice x 1 3`: a part of a list or of a text.
pub(super) fn slice(args: &[Value]) -> Result<Value, String> {
    let Some((item, bounds)) = args.split_first() else {
        return Err("wrong number of args for slice: want at least 1 got 0".to_owned());
    };
    let length = match item {
        Value::List(items) => items.len(),
        Value::Text(text) => text.len(),
        Value::Null => return Err("error calling slice: slice of untyped nil".to_owned()),
        other => {
            return Err(format!(
                "error calling slice: can't slice item of type {}",
                type_name(other)
            ));
        }
    };
    if bounds.len() > 3 {
        return Err(format!("error calling slice: too many slice indexes: {}", bounds.len()));
    }
    let mut range = [0, length, length];
    for (place, bound) in range.iter_mut().zip(bounds) {
        let Value::Int(at) = bound else {
            return Err(format!(
                "error calling slice: cannot index slice/array with type {}",
                type_name(bound)
            ));
        };
        *place = usize::try_from(*at)
            .ok()
            .filter(|at| *at <= length)
            .ok_or_else(|| format!("error calling slice: index out of range: {at}"))?;
    }
    let [start, end, _] = range;
    if start > end {
        return Err(format!("error calling slice: invalid slice index: {start} > {end}"));
    }
    Ok(match item {
        Value::List(items) => {
            Value::List(items.iter().skip(start).take(end - start).cloned().collect())
        }
        other => {
            let bytes = other.as_str().unwrap_or_default().as_bytes();
            Value::from(&*String::from_utf8_lossy(bytes.get(start..end).unwrap_or_default()))
        }
    })
}
