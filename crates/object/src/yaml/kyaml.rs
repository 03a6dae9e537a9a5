//! KYAML writer: YAML in flow style, where every string is quoted and indentation has no meaning.

use super::resolve::resolve;
use crate::Value;

/// Separates two lines of one string.
const LINE_CONTINUATION: &str = "\\\n";

pub(super) fn write(value: &Value) -> String {
    let mut out = String::from("---\n");
    node(value, 0, &mut out);
    out.push('\n');
    out
}

fn node(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Text(text) => string(text, indent + 1, out),
        Value::List(items) if items.is_empty() => out.push_str("[]"),
        Value::List(items) => list(items, indent, out),
        value if value.is_object() => object(value, indent, out),
        scalar => out.push_str(&String::from_utf8_lossy(&crate::to_json(scalar))),
    }
}

fn object(value: &Value, indent: usize, out: &mut String) {
    let mut entries: Vec<(&str, &Value)> = value.entries().collect();
    if entries.is_empty() {
        return out.push_str("{}");
    }
    entries.sort_unstable_by_key(|entry| entry.0);
    out.push_str("{\n");
    for (name, value) in entries {
        begin(indent + 1, out);
        key(name, out);
        out.push_str(": ");
        node(value, indent + 1, out);
        out.push_str(",\n");
    }
    begin(indent, out);
    out.push('}');
}

/// Objects and lists are on the lines of the brackets, other items on lines of their own.
fn list(items: &[Value], indent: usize, out: &mut String) {
    let nested = |item: &Value| item.is_object() || matches!(item, Value::List(_));
    out.push('[');
    if items.iter().all(nested) {
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                out.push_str(", ");
            }
            node(item, indent, out);
        }
    } else {
        out.push('\n');
        for item in items {
            begin(indent + 1, out);
            node(item, indent + 1, out);
            out.push_str(",\n");
        }
        begin(indent, out);
    }
    out.push(']');
}

fn begin(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n("  ", indent));
}

fn key(name: &str, out: &mut String) {
    if is_plain(name) {
        return out.push_str(name);
    }
    out.push('"');
    name.chars().for_each(|c| escaped(c, out));
    out.push('"');
}

fn string(text: &str, indent: usize, out: &mut String) {
    out.push('"');
    let folded = text.contains('\n');
    if folded {
        out.push_str(LINE_CONTINUATION);
    }
    for c in text.chars() {
        if out.ends_with('\n') {
            begin(indent, out);
            // White space at the beginning of a line would be lost; the additional column keeps the lines aligned.
            out.push(if matches!(c, ' ' | '\t') { '\\' } else { ' ' });
        }
        match c {
            '\t' => out.push(c),
            c => escaped(c, out),
        }
        if c == '\n' {
            out.push_str(LINE_CONTINUATION);
        }
    }
    if folded {
        if !out.ends_with('\n') {
            out.push_str(LINE_CONTINUATION);
        }
        begin(indent, out);
    }
    out.push('"');
}

fn escaped(c: char, out: &mut String) {
    match c {
        '"' | '\\' => out.extend(['\\', c]),
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{b}' => out.push_str("\\v"),
        '\0' => out.push_str("\\0"),
        '\u{1b}' => out.push_str("\\e"),
        '\u{85}' => out.push_str("\\N"),
        '\u{a0}' => out.push_str("\\_"),
        '\u{2028}' => out.push_str("\\L"),
        '\u{2029}' => out.push_str("\\P"),
        c if crate::quote::is_printable(c) && (c as u32) >= 0x20 && c != '\u{7f}' => out.push(c),
        c if (c as u32) < 0x20 || c == '\u{7f}' => out.push_str(&format!("\\x{:02x}", c as u32)),
        c if (c as u32) < 0x1_0000 => out.push_str(&format!("\\u{:04x}", c as u32)),
        c => out.push_str(&format!("\\U{:08x}", c as u32)),
    }
}

/// Whether no parser reads the name as anything but a string.
fn is_plain(name: &str) -> bool {
    let last = name.chars().count().saturating_sub(1);
    let allowed = |(at, c): (usize, char)| {
        c.is_alphanumeric() || c == '_' || at > 0 && at < last && matches!(c, '-' | '.' | '/')
    };
    !name.is_empty() && name.chars().enumerate().all(allowed) && !is_ambiguous(name)
}

fn is_ambiguous(name: &str) -> bool {
    let other = ["t", "f", "y", "n", "inf", "infinity", "nan"];
    let date = || {
        let mut parts = name.split('-');
        let digits = |part: Option<&str>| {
            part.is_some_and(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit()))
        };
        name.find('-') == Some(4)
            && digits(parts.next())
            && digits(parts.next())
            && digits(parts.next())
    };
    !matches!(resolve(&name.replace('_', "")), Value::Text(_))
        || other.contains(&name.to_lowercase().as_str())
        || date()
}

#[cfg(test)]
mod tests {
    use crate::yaml::{from_yaml, to_kyaml};

    #[test]
    fn braces_quotes_and_commas() {
        let tree = from_yaml(
            "b: {x.y/z: 'yes', 'no': 1, 'a b': null, e: {}, '2024-01-02': 1.5}\na: [1, two]\nc: [{d: true}, []]\n",
        );
        let expected = r#"---
{
  a: [
    1,
    "two",
  ],
  b: {
    "2024-01-02": 1.5,
    "a b": null,
    e: {},
    "no": 1,
    x.y/z: "yes",
  },
  c: [{
    d: true,
  }, []],
}
"#;
        assert_eq!(to_kyaml(&tree.expect("YAML")), expected);
    }

    #[test]
    fn lines_stay_below_each_other() {
        let tree = from_yaml("a: \"x\\n  y\\tz\\n\\tw\\n\\r\"\n").expect("YAML");
        let text = to_kyaml(&tree);
        assert!(
            text.contains("     x\\n\\\n    \\  y\tz\\n\\\n    \\\tw\\n\\\n     \\r\\\n"),
            "{text}"
        );
        assert_eq!(from_yaml(&text).expect("it is YAML"), tree);
    }
}
