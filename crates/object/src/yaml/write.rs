//! YAML writer with the exact layout of Go's library: indented by two spaces, lists not indented below their key, keys
//! in natural order, literal blocks for multi-line strings, long lines folded at a space.

use std::{cmp::Ordering, fmt::Write as _};

use super::resolve::needs_quotes;
use crate::Value;

pub(super) fn write(value: &Value) -> String {
    let mut out = Writer { text: String::new() };
    match value {
        Value::List(items) if !items.is_empty() => out.list(items, 0, false),
        value if value.entries().len() > 0 => out.object(value, 0, false),
        value => {
            out.scalar(value, 2, false);
            if !out.text.ends_with('\n') {
                out.text.push('\n');
            }
        }
    }
    out.text
}

struct Writer {
    text: String,
}

impl Writer {
    /// Writes lines `name: value`. `begun`: the first line is already indented.
    fn object(&mut self, value: &Value, indent: usize, mut begun: bool) {
        let mut entries: Vec<(&str, &Value)> = value.entries().collect();
        entries.sort_by(|a, b| natural(a.0, b.0));
        for (name, value) in entries {
            self.begin(indent, std::mem::take(&mut begun));
            if name.len() > 128 || name.contains(is_break) {
                self.text.push_str("? ");
                self.string(name, indent + 2, false);
                if !self.text.ends_with('\n') {
                    self.text.push('\n');
                }
                self.begin(indent, false);
                self.text.push(':');
                self.item(value, indent);
            } else {
                self.string(name, indent + 2, true);
                self.text.push(':');
                self.value(value, indent);
            }
        }
    }

    /// Writes the value after `name:`.
    fn value(&mut self, value: &Value, indent: usize) {
        match value {
            Value::List(items) if !items.is_empty() => {
                self.text.push('\n');
                self.list(items, indent, false);
            }
            value if value.entries().len() > 0 => {
                self.text.push('\n');
                self.object(value, indent + 2, false);
            }
            value => self.line(value, indent + 2),
        }
    }

    fn list(&mut self, items: &[Value], indent: usize, mut begun: bool) {
        for item in items {
            self.begin(indent, std::mem::take(&mut begun));
            self.text.push('-');
            self.item(item, indent);
        }
    }

    /// Writes the item after `-`.
    fn item(&mut self, item: &Value, indent: usize) {
        match item {
            Value::List(items) if !items.is_empty() => {
                self.text.push(' ');
                self.list(items, indent + 2, true);
            }
            item if item.entries().len() > 0 => {
                self.text.push(' ');
                self.object(item, indent + 2, true);
            }
            item => self.line(item, indent + 2),
        }
    }

    fn line(&mut self, value: &Value, indent: usize) {
        self.text.push(' ');
        self.scalar(value, indent, false);
        if !self.text.ends_with('\n') {
            self.text.push('\n');
        }
    }

    fn begin(&mut self, indent: usize, begun: bool) {
        if !begun {
            self.text.extend(std::iter::repeat_n(' ', indent));
        }
    }

    fn scalar(&mut self, value: &Value, indent: usize, name: bool) {
        match value {
            Value::Null => self.text.push_str("null"),
            Value::Bool(b) => self.text.push_str(if *b { "true" } else { "false" }),
            Value::Int(n) => self.print(n),
            Value::UInt(n) => self.print(n),
            Value::Float(n) => self.text.push_str(&float(*n)),
            Value::Text(text) => self.string(text, indent, name),
            Value::Raw(text) => self.text.push_str(text),
            Value::List(_) => self.text.push_str("[]"),
            Value::Object(_) | Value::Map(_) => self.text.push_str("{}"),
        }
    }

    fn print(&mut self, n: impl std::fmt::Display) {
        write!(self.text, "{n}").expect("a String takes everything");
    }

    fn string(&mut self, text: &str, indent: usize, name: bool) {
        let about = ScalarStyles::analyze(text);
        let fold = (!name).then_some(indent);
        if text.contains('\n') && about.block && !name {
            self.literal(text, indent);
        } else if text.contains('\n') || needs_quotes(text) {
            self.quoted(text, '"', fold);
        } else if about.plain {
            self.folded(text, None, fold);
        } else if about.single {
            self.quoted(text, '\'', fold);
        } else {
            self.quoted(text, '"', fold);
        }
    }

    fn quoted(&mut self, text: &str, quote: char, fold: Option<usize>) {
        self.text.push(quote);
        self.folded(text, Some(quote), fold);
        self.text.push(quote);
    }

    /// Writes the characters of a string. Past `MAX_LINE_WIDTH` a space is replaced by a new line with `fold` spaces.
    fn folded(&mut self, text: &str, quote: Option<char>, fold: Option<usize>) {
        let mut line = self.text.rfind('\n').map_or(0, |at| at + 1);
        let (mut spaces, mut chars) = (false, text.char_indices().peekable());
        while let Some((at, c)) = chars.next() {
            if c != ' ' {
                self.character(c, quote);
            } else if let Some(indent) = fold
                && !spaces
                && self.text[line..].chars().nth(MAX_LINE_WIDTH).is_some()
                && (quote.is_none() || at > 0 && at + 1 < text.len())
                && (quote == Some('"') || chars.peek().is_none_or(|(_, next)| *next != ' '))
            {
                self.text.push('\n');
                line = self.text.len();
                self.begin(indent, false);
                if chars.peek().is_some_and(|(_, next)| *next == ' ') {
                    self.text.push('\\');
                }
            } else {
                self.text.push(' ');
            }
            spaces = c == ' ';
        }
    }

    fn character(&mut self, c: char, quote: Option<char>) {
        match quote {
            Some('"') => self.escaped(c),
            Some(quote) if quote == c => self.text.extend([c, c]),
            _ => self.text.push(c),
        }
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.text.push('|');
        if text.starts_with([' ', '\n']) {
            self.text.push('2');
        }
        match text.strip_suffix('\n') {
            None => self.text.push('-'),
            Some(rest) if rest.is_empty() || rest.ends_with('\n') => self.text.push('+'),
            Some(_) => {}
        }
        self.text.push('\n');
        for line in text.split_inclusive('\n') {
            if line != "\n" {
                self.begin(indent, false);
            }
            self.text.push_str(line);
        }
        if !text.ends_with('\n') {
            self.text.push('\n');
        }
    }

    fn escaped(&mut self, c: char) {
        match (ESCAPED.chars().position(|escaped| escaped == c), c as u32) {
            (Some(at), _) => self.text.extend(['\\', char::from(ESCAPES[at])]),
            (_, _) if is_printable(c) => self.text.push(c),
            (_, n @ 0..=0xff) => self.print(format_args!("\\x{n:02X}")),
            (_, n @ 0..=0xffff) => self.print(format_args!("\\u{n:04X}")),
            (_, n) => self.print(format_args!("\\U{n:08X}")),
        }
    }
}

/// Lines longer than this are folded at the next space.
const MAX_LINE_WIDTH: usize = 80;
/// Characters with a one-letter escape, and their letters.
const ESCAPED: &str = "\0\u{7}\u{8}\t\n\u{b}\u{c}\r\u{1b}\"\\\u{85}\u{2028}\u{2029}";
const ESCAPES: &[u8; 14] = b"0abtnvfre\"\\NLP";

/// The styles in which a string can be written.
struct ScalarStyles {
    plain: bool,
    single: bool,
    block: bool,
}

impl ScalarStyles {
    fn analyze(text: &str) -> Self {
        if text.is_empty() {
            return Self { plain: true, single: true, block: false };
        }
        let special = text.chars().any(|c| !is_printable(c));
        let chars: Vec<char> = text.chars().collect();
        let pair = |is: fn(char, char) -> bool| chars.windows(2).any(|two| is(two[0], two[1]));
        let space_break = pair(|a, b| a == ' ' && is_break(b));
        let break_space = pair(|a, b| is_break(a) && b == ' ');
        let breaks = text.contains(is_break);
        let edges = |c: char| c == ' ' || is_break(c);
        let trimmed = !text.starts_with(edges) && !text.ends_with(edges);
        Self {
            plain: trimmed && !special && !breaks && !has_indicators(text, &chars),
            single: !special && !space_break && !break_space,
            block: !special && !space_break && !text.ends_with(' '),
        }
    }
}

/// Whether a plain scalar with this text would be parsed as something else.
fn has_indicators(text: &str, chars: &[char]) -> bool {
    let blank = |at: usize| chars.get(at).is_none_or(|c| matches!(c, ' ' | '\t'));
    let first = match chars[0] {
        '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%'
        | '@' | '`' => true,
        '?' | ':' | '-' => blank(1),
        _ => false,
    };
    let inside = chars.iter().enumerate().skip(1).any(|(at, c)| match c {
        ':' => blank(at + 1),
        '#' => blank(at - 1),
        _ => false,
    });
    first || inside || text.starts_with("---") || text.starts_with("...")
}

fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}')
        && c != '\u{feff}'
}

/// Formats a float like Go's `%g`; an integral one has no fraction, because it goes through JSON.
pub(crate) fn float(n: f64) -> String {
    if n.is_nan() {
        return ".nan".to_owned();
    }
    if n.is_infinite() {
        return if n > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    if n.fract() == 0.0 && n.abs() < 18_446_744_073_709_551_616.0 {
        return format!("{n:.0}");
    }
    let scientific = format!("{n:e}");
    let (digits, exponent) = scientific.split_once('e').expect("that is its form");
    let exponent: i32 = exponent.parse().expect("that is its form");
    if !(-4..6).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    format!("{n}")
}

/// Natural order: numbers within names compare as numbers, and letters come after everything else.
fn natural(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let Some(at) = a.iter().zip(&b).position(|(a, b)| a != b) else {
        return a.len().cmp(&b.len());
    };
    match (a[at].is_alphabetic(), b[at].is_alphabetic()) {
        (true, true) => return a[at].cmp(&b[at]),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        _ => {}
    }
    let zeros = a[at] == '0' || b[at] == '0';
    let before = a[..at].iter().rev().take_while(|c| c.is_ascii_digit()).any(|c| *c != '0');
    let seed = u128::from(zeros && before);
    let number = |text: &[char]| {
        let digits = text[at..].iter().map_while(|c| c.to_digit(10));
        digits.fold((seed, 0), |(n, length), digit| {
            (n.saturating_mul(10).saturating_add(digit.into()), length + 1)
        })
    };
    number(&a).cmp(&number(&b)).then(a[at].cmp(&b[at]))
}
