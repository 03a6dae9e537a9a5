//! JSON as Go prints it: keys sorted, `<`, `>` and `&` escaped.

use std::fmt::Write as _;

use object::Value;

use super::order::Declared;

/// Prints JSON on one line.
pub(crate) fn compact(value: &Value) -> String {
    Writer::write(value, None, None)
}

/// Prints JSON on one line, with fields in the order of their declaration.
pub(crate) fn compact_declared(value: &Value) -> String {
    Writer::write(value, None, Some(Declared::of(value)))
}

/// Prints JSON indented by four spaces, with fields in the order of their declaration.
pub(crate) fn declared(value: &Value) -> String {
    Writer::write(value, Some(0), Some(Declared::of(value)))
}

/// Prints JSON indented by four spaces.
pub(crate) fn indented(value: &Value) -> String {
    Writer::write(value, Some(0), None)
}

/// Formats a number as Go's `%v` does.
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

/// Writes a value as JSON.
struct Writer<'a> {
    declared: Option<Declared>,
    /// The field names that lead to the current value.
    path: Vec<&'a str>,
    out: String,
}

impl<'a> Writer<'a> {
    fn write(value: &'a Value, indent: Option<usize>, declared: Option<Declared>) -> String {
        let mut writer = Writer { declared, path: Vec::new(), out: String::new() };
        writer.node(value, indent);
        writer.out
    }

    fn node(&mut self, value: &'a Value, indent: Option<usize>) {
        let inner = indent.map(|indent| indent + 4);
        match value {
            Value::Null => self.out.push_str("null"),
            Value::Bool(b) => self.out.push_str(if *b { "true" } else { "false" }),
            Value::Int(n) => write!(self.out, "{n}").expect("a String takes everything"),
            Value::UInt(n) => write!(self.out, "{n}").expect("a String takes everything"),
            Value::Float(n) => self.out.push_str(&float(*n)),
            Value::Text(text) => string(text, &mut self.out),
            Value::Raw(_) => {
                let with_raw_expanded = value.with_raw_expanded();
                self.out += &Writer::write(&with_raw_expanded, indent, None);
            }
            Value::List(items) => {
                self.out.push('[');
                for (at, item) in items.iter().enumerate() {
                    next(at, inner, &mut self.out);
                    self.node(item, inner);
                }
                end(items.len(), indent, &mut self.out);
                self.out.push(']');
            }
            Value::Object(_) | Value::Map(_) => {
                self.out.push('{');
                let mut entries: Vec<(&'a str, &'a Value)> = value.entries().collect();
                if let Some(declared) = &self.declared {
                    declared.sort(&self.path, &mut entries);
                }
                for (at, (name, value)) in entries.into_iter().enumerate() {
                    next(at, inner, &mut self.out);
                    string(name, &mut self.out);
                    self.out.push_str(if inner.is_some() { ": " } else { ":" });
                    self.path.push(name);
                    self.node(value, inner);
                    self.path.pop();
                }
                end(value.entries().len(), indent, &mut self.out);
                self.out.push('}');
            }
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
