//! JSON as Go prints it: names sorted, `<`, `>` and `&` escaped.

use std::fmt::Write as _;

use object::Value;

use super::order;

/// How the fields of an object follow one another.
#[derive(Clone, Copy)]
enum Order<'a> {
    Name,
    /// As they are declared in what this field holds.
    Declared(&'a str),
}

/// On one line.
pub(crate) fn compact(value: &Value) -> String {
    let mut out = String::new();
    write(value, None, Order::Name, &mut out);
    out
}

/// On one line, fields as they are declared.
pub(crate) fn compact_declared(value: &Value) -> String {
    let mut out = String::new();
    write(value, None, Order::Declared(""), &mut out);
    out
}

/// With four spaces a level, fields as they are declared.
pub(crate) fn declared(value: &Value) -> String {
    let mut out = String::new();
    write(value, Some(0), Order::Declared(""), &mut out);
    out
}

/// With four spaces a level.
pub(crate) fn indented(value: &Value) -> String {
    let mut out = String::new();
    write(value, Some(0), Order::Name, &mut out);
    out
}

/// A number as `%v` prints it.
pub(crate) fn float(n: f64) -> String {
    if n.fract() == 0.0 && n.abs() < 1e21 {
        return format!("{n:.0}");
    }
    let scientific = format!("{n:e}");
    let (digits, exponent) = scientific.split_once('e').expect("that is its form");
    let exponent: i32 = exponent.parse().expect("that is its form");
    if !(-7..21).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    format!("{n}")
}

fn write(value: &Value, indent: Option<usize>, order: Order<'_>, out: &mut String) {
    let inner = indent.map(|indent| indent + 4);
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Int(n) => write!(out, "{n}").expect("a String takes everything"),
        Value::UInt(n) => write!(out, "{n}").expect("a String takes everything"),
        Value::Float(n) => out.push_str(&float(*n)),
        Value::Text(text) => string(text, out),
        Value::Raw(_) => write(&value.with_raw_expanded(), indent, order, out),
        Value::List(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                next(at, inner, out);
                write(item, inner, order, out);
            }
            end(items.len(), indent, out);
            out.push(']');
        }
        Value::Object(_) | Value::Map(_) => {
            out.push('{');
            let mut entries: Vec<(&str, &Value)> = value.entries().collect();
            if let Order::Declared(parent) = order {
                entries.sort_by_key(|(name, _)| order::rank(parent, name));
            }
            for (at, (name, value)) in entries.into_iter().enumerate() {
                next(at, inner, out);
                string(name, out);
                out.push_str(if inner.is_some() { ": " } else { ":" });
                let below = match order {
                    Order::Name => Order::Name,
                    Order::Declared(_) => Order::Declared(name),
                };
                write(value, inner, below, out);
            }
            end(value.entries().len(), indent, out);
            out.push('}');
        }
    }
}

fn next(at: usize, indent: Option<usize>, out: &mut String) {
    if at > 0 {
        out.push(',');
    }
    line(indent, out);
}

fn end(length: usize, indent: Option<usize>, out: &mut String) {
    if length > 0 {
        line(indent, out);
    }
}

fn line(indent: Option<usize>, out: &mut String) {
    if let Some(indent) = indent {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', indent));
    }
}

fn string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                write!(out, "\\u{:04x}", c as u32).expect("a String takes everything");
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[test]
fn prints_as_go_does() {
    let value = object::from_json(br#"{"b":[1,2.5,{}],"a":"<x>\n","c":[]}"#).expect("JSON");
    assert_eq!(compact(&value), r#"{"a":"\u003cx\u003e\n","b":[1,2.5,{}],"c":[]}"#);
    assert_eq!(
        indented(&value),
        "{\n    \"a\": \"\\u003cx\\u003e\\n\",\n    \"b\": [\n        1,\n        2.5,\n        {}\n    ],\n    \"c\": []\n}"
    );
}
