//! JSON encoder, with Go's escaping.

use std::{io::Write, sync::Arc};

use crate::Value;

/// Encodes a value as compact JSON.
pub fn to_json(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    write_json(value, &mut out);
    out
}

/// Appends a value as compact JSON.
pub fn write_json(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(n) => {
            if *n < 0 {
                out.push(b'-');
            }
            number(n.unsigned_abs(), out);
        }
        Value::UInt(n) => number(*n, out),
        Value::Float(n) => float(*n, out),
        Value::Text(text) => write_json_string(text, out),
        Value::Raw(text) => write_compact(text, out),
        Value::List(items) => {
            out.push(b'[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_json(item, out);
            }
            out.push(b']');
        }
        Value::Object(_) | Value::Map(_) => {
            out.push(b'{');
            for (at, (name, inner)) in value.entries().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                if let Value::Map(_) = value {
                    write_json_string(name, out);
                } else {
                    // No interned name needs escaping.
                    out.push(b'"');
                    out.extend_from_slice(name.as_bytes());
                    out.push(b'"');
                }
                out.push(b':');
                write_json(inner, out);
            }
            out.push(b'}');
        }
    }
}

/// Encodes a value as indented JSON: a line per entry, two spaces per level.
pub fn to_json_pretty(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    pretty(value, 0, &mut out);
    out
}

/// Rewrites well-formed JSON as Go does: without white space, and escaped.
pub(super) fn compact(text: &str) -> Arc<str> {
    if is_compact(text) {
        return text.into();
    }
    let mut out = Vec::with_capacity(text.len());
    write_compact(text, &mut out);
    String::from_utf8_lossy(&out).into()
}

fn is_special(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'<' | b'>' | b'&' | 0xe2)
}

/// Tests many bytes at once, because nearly always none is special.
fn is_compact(text: &str) -> bool {
    let plain = |part: &[u8]| !part.iter().fold(false, |found, byte| found | is_special(*byte));
    text.as_bytes().chunks(64).all(plain)
}

fn write_compact(text: &str, out: &mut Vec<u8>) {
    if is_compact(text) {
        return out.extend_from_slice(text.as_bytes());
    }
    let (mut quoted, mut rest) = (false, text.as_bytes());
    while let [byte, ..] = *rest {
        let mut taken = 1;
        match byte {
            b'\\' if quoted => {
                taken = 2;
                out.extend_from_slice(&rest[..2]);
            }
            b'"' => {
                quoted = !quoted;
                out.push(byte);
            }
            byte if quoted && is_special(byte) && byte != b' ' => taken = escape(rest, out),
            byte if quoted || !is_special(byte) => out.push(byte),
            _ => {}
        }
        rest = &rest[taken..];
    }
}

fn pretty(value: &Value, depth: usize, out: &mut Vec<u8>) {
    let line = |depth: usize, out: &mut Vec<u8>| {
        out.push(b'\n');
        out.resize(out.len() + 2 * depth, b' ');
    };
    match value {
        Value::List(items) if !items.is_empty() => {
            out.push(b'[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                line(depth + 1, out);
                pretty(item, depth + 1, out);
            }
            line(depth, out);
            out.push(b']');
        }
        Value::Object(_) | Value::Map(_) if value.entries().len() > 0 => {
            out.push(b'{');
            for (at, (name, value)) in value.entries().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                line(depth + 1, out);
                write_json_string(name, out);
                out.extend_from_slice(b": ");
                pretty(value, depth + 1, out);
            }
            line(depth, out);
            out.push(b'}');
        }
        Value::Raw(_) => value.expand_raw().iter().for_each(|tree| pretty(tree, depth, out)),
        plain => write_json(plain, out),
    }
}

fn write(out: &mut Vec<u8>, text: std::fmt::Arguments) {
    out.write_fmt(text).expect("memory takes every write");
}

fn number(mut n: u64, out: &mut Vec<u8>) {
    let (mut digits, mut at) = ([b'0'; 20], 20);
    while n > 0 || at == 20 {
        at -= 1;
        digits[at] += (n % 10).to_le_bytes()[0];
        n /= 10;
    }
    out.extend_from_slice(&digits[at..]);
}

/// Formats a float like Go: plain in the middle range, with an exponent outside.
fn float(n: f64, out: &mut Vec<u8>) {
    let size = n.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{n:e}");
        match text.split_once('e') {
            Some((digits, power)) if !power.starts_with('-') => {
                write(out, format_args!("{digits}e+{power:0>2}"));
            }
            _ => out.extend_from_slice(text.as_bytes()),
        }
    } else {
        write(out, format_args!("{n}"));
    }
}

/// Bytes that must or may have to be escaped: U+2028 and U+2029 begin with 0xe2.
const SPECIAL: [bool; 256] = {
    let mut special = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        special[byte] = true;
        byte += 1;
    }
    let mut others: &[u8] = b"\"\\<>&\xe2";
    while let [first, rest @ ..] = others {
        special[*first as usize] = true;
        others = rest;
    }
    special
};

/// Appends a quoted and escaped string.
pub fn write_json_string(text: &str, out: &mut Vec<u8>) {
    let mut rest = text.as_bytes();
    out.reserve(rest.len() + 2);
    out.push(b'"');
    while let Some(at) = rest.iter().position(|byte| SPECIAL[usize::from(*byte)]) {
        out.extend_from_slice(&rest[..at]);
        let taken = escape(&rest[at..], out);
        rest = &rest[at + taken..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// Writes the escape of the first byte, and returns how many bytes it stands for.
fn escape(rest: &[u8], out: &mut Vec<u8>) -> usize {
    let escape: &[u8] = match *rest {
        [b'"', ..] => b"\\\"",
        [b'\\', ..] => b"\\\\",
        [b'\n', ..] => b"\\n",
        [b'\r', ..] => b"\\r",
        [b'\t', ..] => b"\\t",
        [8, ..] => b"\\b",
        [12, ..] => b"\\f",
        [b'<', ..] => b"\\u003c",
        [b'>', ..] => b"\\u003e",
        [b'&', ..] => b"\\u0026",
        // line separators in JavaScript
        [0xe2, 0x80, last @ (0xa8 | 0xa9), ..] => {
            write(out, format_args!("\\u202{:x}", last & 0xf));
            return 3;
        }
        [byte @ 0..0x20, ..] => {
            write(out, format_args!("\\u{byte:04x}"));
            return 1;
        }
        [byte, ..] => {
            out.push(byte);
            return 1;
        }
        [] => return 0,
    };
    out.extend_from_slice(escape);
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_as_go_does() {
        let text = Value::from("<a&b>\u{1}\u{2028}\"");
        assert_eq!(to_json(&text), br#""\u003ca\u0026b\u003e\u0001\u2028\"""#);
        assert_eq!(
            to_json(&Value::from("a\u{20ac}b\u{2029}\t")),
            "\"a\u{20ac}b\\u2029\\t\"".as_bytes()
        );
        assert_eq!(to_json(&Value::Float(1e21)), b"1e+21");
        assert_eq!(to_json(&Value::Float(0.5)), b"0.5");
    }

    #[test]
    fn people_get_a_line_for_every_entry() {
        let mut object = Value::object();
        object["a"] = [Value::from(1), Value::object()].into_iter().collect();
        let text = "{\n  \"a\": [\n    1,\n    {}\n  ]\n}";
        assert_eq!(String::from_utf8(to_json_pretty(&object)).unwrap(), text);
    }
}
