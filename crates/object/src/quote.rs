//! Go's `%q` quoting, which API error messages use.

use std::fmt::Write as _;

/// `text` in double quotes, with Go's escapes.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            c if (c as u32) < 0x20 || c == '\u{7f}' => escape(&mut out, 'x', 2, c),
            c if is_printable(c) => out.push(c),
            c if (c as u32) < 0x1_0000 => escape(&mut out, 'u', 4, c),
            c => escape(&mut out, 'U', 8, c),
        }
    }
    out.push('"');
    out
}

fn escape(out: &mut String, letter: char, width: usize, c: char) {
    write!(out, "\\{letter}{:0width$x}", c as u32).expect("a String takes everything");
}

/// Approximates Go's `strconv.IsPrint`: no controls, no separators, no format characters.
pub(crate) fn is_printable(c: char) -> bool {
    let invisible = matches!(c,
        '\u{80}'..='\u{a0}' | '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}' | '\u{e000}'..='\u{f8ff}');
    !invisible && (c == ' ' || !c.is_whitespace())
}

#[test]
fn quotes_as_go_does() {
    assert_eq!(quote("a\"b\\c\n\u{1}é"), "\"a\\\"b\\\\c\\n\\x01é\"");
    assert_eq!(quote("\u{a0}\u{feff}"), "\"\\u00a0\\ufeff\"");
}
