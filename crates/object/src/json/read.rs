//! From text to tree.

use std::fmt;

use ecow::EcoVec;

use crate::{Text, Value, Word};

/// Deeper than any object that means something; Go gives up at the same depth.
const DEPTH: usize = 10_000;
/// What a stack can surely bear. Beyond it the text is refused as too deep.
const STACK: usize = 500;

/// The text is not JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    #[error("unexpected end of JSON input")]
    End,
    #[error("invalid character {} {context}", quoted(*.found))]
    Character { found: char, context: &'static str },
    #[error("invalid character {} exceeded max depth", quoted(*.0))]
    Depth(char),
    #[error("invalid UTF-8 in string literal")]
    Encoding,
    #[error("json: cannot unmarshal number {0} into Go value of type float64")]
    Number(String),
}

/// Reads one value. Of a name given twice the last counts.
pub fn from_json(text: &[u8]) -> Result<Value, JsonError> {
    from_json_strict(text, &mut Vec::new())
}

/// The same, and tells the paths of names given twice.
pub fn from_json_strict(text: &[u8], twice: &mut Vec<String>) -> Result<Value, JsonError> {
    let mut reader = Reader { text, at: 0, depth: 0, twice };
    let value = reader.value(&Path::Root)?;
    reader.space();
    match reader.text.get(reader.at) {
        None => Ok(value),
        Some(_) => Err(reader.unexpected("after top-level value")),
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
    twice: &'a mut Vec<String>,
}

enum Path<'a> {
    Root,
    Name(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Name(Self::Root, name) => f.write_str(name),
            Self::Name(parent, name) => write!(f, "{parent}.{name}"),
            Self::Index(parent, at) => write!(f, "{parent}[{at}]"),
        }
    }
}

impl Reader<'_> {
    fn value(&mut self, path: &Path) -> Result<Value, JsonError> {
        self.space();
        match self.peek()? {
            b'{' => self.nested(|this| this.object(path)),
            b'[' => self.nested(|this| this.list(path)),
            b'"' => Ok(Value::Text(self.string()?)),
            b't' => self.literal("true", Value::Bool(true), "in literal true"),
            b'f' => self.literal("false", Value::Bool(false), "in literal false"),
            b'n' => self.literal("null", Value::Null, "in literal null"),
            b'-' | b'0'..=b'9' => self.number(),
            _ => Err(self.unexpected("looking for beginning of value")),
        }
    }

    fn nested(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<Value, JsonError>,
    ) -> Result<Value, JsonError> {
        self.depth += 1;
        if self.depth > DEPTH.min(STACK) {
            let found = self.text.get(self.at).copied().unwrap_or(b'[');
            return Err(JsonError::Depth(char::from(found)));
        }
        self.at += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn list(&mut self, path: &Path) -> Result<Value, JsonError> {
        let mut items = Vec::new();
        self.space();
        if self.peek()? == b']' {
            self.at += 1;
            return Ok(Value::List(EcoVec::new()));
        }
        loop {
            items.push(self.value(&Path::Index(path, items.len()))?);
            self.space();
            match self.peek()? {
                b',' => self.at += 1,
                b']' => break,
                _ => return Err(self.unexpected("after array element")),
            }
        }
        self.at += 1;
        Ok(Value::List(items.into()))
    }

    fn object(&mut self, path: &Path) -> Result<Value, JsonError> {
        let (mut fields, mut entries) = (Vec::new(), Vec::new());
        self.space();
        if self.peek()? == b'}' {
            self.at += 1;
            return Ok(Value::object());
        }
        loop {
            self.space();
            if self.peek()? != b'"' {
                return Err(self.unexpected("looking for beginning of object key string"));
            }
            let name = self.string()?;
            self.space();
            if self.peek()? != b':' {
                return Err(self.unexpected("after object key"));
            }
            self.at += 1;
            let value = self.value(&Path::Name(path, &name))?;
            match Word::find(&name) {
                Some(word) => fields.push((word, value)),
                None => entries.push((name, value)),
            }
            self.space();
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => break,
                _ => return Err(self.unexpected("after object key:value pair")),
            }
        }
        self.at += 1;
        if entries.is_empty() {
            return Ok(Value::Object(self.sorted(fields, path, |word| word.as_str().into())));
        }
        entries.extend(fields.into_iter().map(|(word, value)| (word.as_str().into(), value)));
        Ok(Value::Map(self.sorted(entries, path, Clone::clone)))
    }

    /// Entries by name. Of a name given twice the last counts.
    fn sorted<K: Ord + Clone>(
        &mut self,
        mut entries: Vec<(K, Value)>,
        path: &Path,
        text: impl Fn(&K) -> Text,
    ) -> EcoVec<(K, Value)> {
        entries.reverse();
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        entries.dedup_by(|a, b| {
            let same = a.0 == b.0;
            if same {
                self.twice.push(Path::Name(path, &text(&a.0)).to_string());
            }
            same
        });
        entries.into()
    }

    fn string(&mut self) -> Result<Text, JsonError> {
        self.at += 1;
        let from = self.at;
        loop {
            match self.peek()? {
                b'"' => {
                    let text = utf8(&self.text[from..self.at])?;
                    self.at += 1;
                    return Ok(text);
                }
                b'\\' => return self.escaped(from),
                0..=0x1f => return Err(self.unexpected("in string literal")),
                _ => self.at += 1,
            }
        }
    }

    fn escaped(&mut self, from: usize) -> Result<Text, JsonError> {
        let mut out = self.text[from..self.at].to_vec();
        loop {
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return utf8(&out);
                }
                b'\\' => {
                    self.at += 1;
                    let c = self.escape()?;
                    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                0..=0x1f => return Err(self.unexpected("in string literal")),
                byte => {
                    out.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        let c = match self.peek()? {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            c @ (b'"' | b'\\' | b'/') => char::from(c),
            b'u' => {
                self.at += 1;
                let high = self.hex()?;
                if let (0xd800..=0xdbff, Some(b"\\u")) = (high, self.text.get(self.at..self.at + 2))
                {
                    let before = self.at;
                    self.at += 2;
                    let low = self.hex()?;
                    if let 0xdc00..=0xdfff = low {
                        let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                        return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                    }
                    self.at = before;
                }
                return Ok(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            _ => return Err(self.unexpected("in string escape code")),
        };
        self.at += 1;
        Ok(c)
    }

    fn hex(&mut self) -> Result<u32, JsonError> {
        let mut code = 0;
        for _ in 0..4 {
            let Some(digit) = char::from(self.peek()?).to_digit(16) else {
                return Err(self.unexpected("in \\u hexadecimal character escape"));
            };
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }

    fn number(&mut self) -> Result<Value, JsonError> {
        let from = self.at;
        if self.peek()? == b'-' {
            self.at += 1;
        }
        match self.peek()? {
            b'0' => self.at += 1,
            b'1'..=b'9' => self.digits(),
            _ => return Err(self.unexpected("in numeric literal")),
        }
        let mut whole = true;
        if self.text.get(self.at) == Some(&b'.') {
            whole = false;
            self.at += 1;
            self.digit("after decimal point in numeric literal")?;
        }
        if let Some(b'e' | b'E') = self.text.get(self.at) {
            whole = false;
            self.at += 1;
            if let Some(b'+' | b'-') = self.text.get(self.at) {
                self.at += 1;
            }
            self.digit("in exponent of numeric literal")?;
        }
        let text = std::str::from_utf8(&self.text[from..self.at]).expect("digits are ASCII");
        if whole {
            if let Ok(n) = text.parse::<i64>() {
                return Ok(Value::Int(n));
            } else if let Ok(n) = text.parse::<u64>() {
                return Ok(Value::UInt(n));
            }
        }
        match text.parse::<f64>() {
            Ok(n) if n.is_finite() => Ok(Value::Float(n)),
            _ => Err(JsonError::Number(text.to_owned())),
        }
    }

    fn digit(&mut self, context: &'static str) -> Result<(), JsonError> {
        if !self.peek()?.is_ascii_digit() {
            return Err(self.unexpected(context));
        }
        self.digits();
        Ok(())
    }

    fn digits(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
    }

    fn literal(
        &mut self,
        word: &str,
        value: Value,
        context: &'static str,
    ) -> Result<Value, JsonError> {
        for byte in word.bytes() {
            if self.peek()? != byte {
                return Err(self.unexpected(context));
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.text.get(self.at) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Result<u8, JsonError> {
        self.text.get(self.at).copied().ok_or(JsonError::End)
    }

    fn unexpected(&self, context: &'static str) -> JsonError {
        let found = self.text.get(self.at).copied().unwrap_or_default();
        JsonError::Character { found: char::from(found), context }
    }
}

fn utf8(bytes: &[u8]) -> Result<Text, JsonError> {
    std::str::from_utf8(bytes).map(Text::from).map_err(|_| JsonError::Encoding)
}

/// A character as Go quotes it in such messages.
fn quoted(c: char) -> String {
    match c {
        '\'' => r"'\''".to_owned(),
        '"' => "'\"'".to_owned(),
        c => format!("'{}'", c.escape_debug()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::to_json;

    #[test]
    fn reads_what_it_writes() {
        let text =
            r#"{"a":[1,-2,3.5,18446744073709551615,true,null,"x\né"],"metadata":{"name":"n"}}"#;
        assert_eq!(to_json(&from_json(text.as_bytes()).unwrap()), text.as_bytes());
    }

    #[test]
    fn tells_what_is_wrong_as_go_does() {
        let cases = [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            ("{'a':1}", r"invalid character '\'' looking for beginning of object key string"),
            ("[1 2]", "invalid character '2' after array element"),
            ("nul", "unexpected end of JSON input"),
            ("1x", "invalid character 'x' after top-level value"),
            ("01", "invalid character '1' after top-level value"),
            ("\"a\nb\"", r"invalid character '\n' in string literal"),
        ];
        for (text, message) in cases {
            assert_eq!(from_json(text.as_bytes()).unwrap_err().to_string(), message, "{text}");
        }
        assert_eq!(from_json("[".repeat(100_000).as_bytes()), Err(JsonError::Depth('[')));
    }

    #[test]
    fn names_given_twice_are_told() {
        let mut twice = Vec::new();
        let text = br#"{"spec":{"replicas":1,"replicas":2},"items":[{"x":1,"x":1}]}"#;
        let value = from_json_strict(text, &mut twice).unwrap();
        assert_eq!(value["spec"]["replicas"], Value::Int(2));
        assert_eq!(twice, ["spec.replicas", "items[0].x"]);
    }
}
