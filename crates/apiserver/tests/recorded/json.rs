//! JSON that keeps the order of keys and the text of numbers, because servers quote bodies in their
//! messages.

use std::fmt::Write as _;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Json>),
    Map(Vec<(String, Json)>),
}

/// Stands for a missing value in a difference.
pub(crate) const ABSENT: &str = "<absent>";

impl Json {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parser = Parser { text: text.as_bytes(), at: 0 };
        let value = parser.value()?;
        parser.space();
        (parser.at == text.len()).then_some(value)
    }

    pub(crate) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub(crate) fn number(&self) -> Option<f64> {
        if let Self::Number(text) = self { text.parse().ok() } else { None }
    }

    pub(crate) fn items(&self) -> &[Json] {
        if let Self::List(items) = self { items } else { &[] }
    }

    pub(crate) fn entries(&self) -> &[(String, Json)] {
        if let Self::Map(entries) = self { entries } else { &[] }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Json> {
        self.entries().iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Json> {
        let Self::Map(entries) = self else { return None };
        entries.iter_mut().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The value of this key, which is created if it is missing or null.
    fn make(&mut self, key: &str) -> &mut Json {
        if *self == Self::Null {
            *self = Self::Map(vec![]);
        }
        let Self::Map(entries) = self else { panic!("{key} of {self:?}") };
        let nth = entries.iter().position(|(name, _)| name == key).unwrap_or(entries.len());
        if nth == entries.len() {
            entries.push((key.to_owned(), Self::Null));
        }
        &mut entries[nth].1
    }

    pub(crate) fn set(&mut self, key: &str, value: Json) {
        *self.make(key) = value;
    }

    pub(crate) fn remove(&mut self, key: &str) {
        if let Self::Map(entries) = self {
            entries.retain(|(name, _)| name != key);
        }
    }

    /// The value at a JSON pointer.
    pub(crate) fn at(&self, pointer: &str) -> Option<&Json> {
        parts(pointer).iter().try_fold(self, |value, part| match value {
            Self::List(items) => items.get(part.parse::<usize>().ok()?),
            other => other.get(part),
        })
    }

    /// Applies a small JSON Patch: `add`, `replace` and `remove`; `add` also creates missing
    /// parents.
    pub(crate) fn edit(&mut self, steps: &[Json]) {
        for step in steps {
            let path = parts(step.get("path").and_then(Json::text).expect("an edit has a path"));
            let value = step.get("value").cloned().unwrap_or(Json::Null);
            let Some((last, parents)) = path.split_last() else {
                *self = value;
                continue;
            };
            let mut parent = &mut *self;
            for part in parents {
                parent = match parent {
                    Self::List(items) => &mut items[part.parse::<usize>().expect("an index")],
                    other => other.make(part),
                };
            }
            let operation = step.get("op").and_then(Json::text).expect("an edit has an operation");
            match (operation, parent) {
                ("remove", Self::List(items)) => drop(items.remove(index(last))),
                ("remove", other) => other.remove(last),
                (_, Self::List(items)) if last == "-" => items.push(value),
                ("add", Self::List(items)) => items.insert(index(last), value),
                (_, Self::List(items)) => items[index(last)] = value,
                (_, other) => other.set(last, value),
            }
        }
    }

    /// Formats as clients that send it did: spaces after commas and colons, and only ASCII.
    pub(crate) fn print(&self) -> String {
        let mut out = String::new();
        self.print_to(&mut out, [", ", ": "]);
        out
    }

    /// Formats as in the files of cases, without spaces.
    pub(crate) fn print_compact(&self) -> String {
        let mut out = String::new();
        self.print_to(&mut out, [",", ":"]);
        out
    }

    fn print_to(&self, out: &mut String, [comma, colon]: [&str; 2]) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Number(text) => out.push_str(text),
            Self::Text(text) => print_text(text, out),
            Self::List(items) => {
                out.push('[');
                for (nth, item) in items.iter().enumerate() {
                    out.push_str(if nth == 0 { "" } else { comma });
                    item.print_to(out, [comma, colon]);
                }
                out.push(']');
            }
            Self::Map(entries) => {
                out.push('{');
                for (nth, (key, value)) in entries.iter().enumerate() {
                    out.push_str(if nth == 0 { "" } else { comma });
                    print_text(key, out);
                    out.push_str(colon);
                    value.print_to(out, [comma, colon]);
                }
                out.push('}');
            }
        }
    }
}

fn index(part: &str) -> usize {
    part.parse().expect("an index")
}

fn parts(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~")).collect()
}

fn print_text(text: &str, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(letter),
            _ => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}").expect("a string takes everything");
                }
            }
        }
    }
    out.push('"');
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn space(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    fn take(&mut self, expected: &[u8]) -> Option<()> {
        let found = self.text.get(self.at..)?.starts_with(expected);
        self.at += if found { expected.len() } else { 0 };
        found.then_some(())
    }

    fn value(&mut self) -> Option<Json> {
        self.space();
        Some(match self.text.get(self.at)? {
            b'{' => {
                self.at += 1;
                let mut entries = vec![];
                self.list(b"}", |parser| {
                    parser.space();
                    let key = parser.string()?;
                    parser.space();
                    parser.take(b":")?;
                    entries.push((key, parser.value()?));
                    Some(())
                })?;
                Json::Map(entries)
            }
            b'[' => {
                self.at += 1;
                let mut items = vec![];
                self.list(b"]", |parser| {
                    items.push(parser.value()?);
                    Some(())
                })?;
                Json::List(items)
            }
            b'"' => Json::Text(self.string()?),
            b'n' => self.take(b"null").map(|()| Json::Null)?,
            b't' => self.take(b"true").map(|()| Json::Bool(true))?,
            b'f' => self.take(b"false").map(|()| Json::Bool(false))?,
            _ => {
                let start = self.at;
                let in_number = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
                while self.text.get(self.at).is_some_and(in_number) {
                    self.at += 1;
                }
                let text = std::str::from_utf8(&self.text[start..self.at]).ok()?;
                text.parse::<f64>().ok()?;
                Json::Number(text.to_owned())
            }
        })
    }

    fn list(&mut self, end: &[u8], mut item: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.space();
        if self.take(end).is_some() {
            return Some(());
        }
        loop {
            item(self)?;
            self.space();
            if self.take(end).is_some() {
                return Some(());
            }
            self.take(b",")?;
        }
    }

    fn string(&mut self) -> Option<String> {
        self.take(b"\"")?;
        let mut units: Vec<u16> = vec![];
        let mut out = String::new();
        loop {
            let rest = self.text.get(self.at..)?;
            if let Some(hex) = rest.strip_prefix(b"\\u") {
                let hex = std::str::from_utf8(hex.get(..4)?).ok()?;
                units.push(u16::from_str_radix(hex, 16).ok()?);
                self.at += 6;
                continue;
            }
            out.push_str(&String::from_utf16_lossy(&units));
            units.clear();
            match rest.first()? {
                b'"' => {
                    self.at += 1;
                    return Some(out);
                }
                b'\\' => {
                    out.push(match rest.get(1)? {
                        b'n' => '\n',
                        b'r' => '\r',
                        b't' => '\t',
                        b'b' => '\u{8}',
                        b'f' => '\u{c}',
                        other => char::from(*other),
                    });
                    self.at += 2;
                }
                _ => {
                    let plain = rest.iter().take_while(|byte| !b"\"\\".contains(byte)).count();
                    out.push_str(std::str::from_utf8(&rest[..plain]).ok()?);
                    self.at += plain;
                }
            }
        }
    }
}
