//! JSON decoder.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

mod duplicate_field;
mod scalar;

use std::{borrow::Cow, fmt};

use super::write::compact;
use crate::{
    FieldId, StructSchema, Text, Type, Value, depth::MAX_DOCUMENT, quote::quote,
    value::sort_and_dedup,
};

/// Go's maximum nesting depth. It applies to raw JSON, which is skipped without recursion.
const MAX_NESTING_DEPTH: usize = 10_000;
/// Maximum number of strict decoding errors, as in Go.
const MAX_STRICT_ERRORS: usize = 100;
/// How many duplicate fields of an object are merged; after that only the last one counts.
const REPEATED: usize = 100;

/// The input is not valid JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    #[error("unexpected end of JSON input")]
    End,
    #[error("invalid character {} {context}", quoted(*.found))]
    Character { found: char, context: &'static str },
    #[error("invalid character {} in literal {word} (expecting {})", quoted(*.found), quoted(*.expected))]
    Literal { found: char, word: &'static str, expected: char },
    #[error("invalid character {} exceeded max depth", quoted(*.0))]
    Depth(char),
    #[error("invalid UTF-8 in string literal")]
    Encoding,
    #[error("json: cannot unmarshal number {0} into Go value of type float64")]
    Number(String),
}

/// An unknown or duplicate field, at this path: an error with strict decoding, otherwise ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StrictError {
    UnknownField(String),
    DuplicateField(String),
}

impl StrictError {
    pub fn path(&self) -> &str {
        let (Self::UnknownField(path) | Self::DuplicateField(path)) = self;
        path
    }
}

impl fmt::Display for StrictError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if matches!(self, Self::DuplicateField(_)) { "duplicate" } else { "unknown" };
        write!(f, "{what} field {:?}", self.path())
    }
}

/// Decodes one value. Of duplicate fields the last one counts.
pub fn from_json(text: &[u8]) -> Result<Value, JsonError> {
    whole(text, ExpectedType::Anything, None)
}

/// Decodes one value that is nested `depth` levels deep in a document.
pub fn from_json_within(text: &[u8], depth: usize) -> Result<Value, JsonError> {
    Reader { depth, ..Reader::new(text, None) }.parse_document(ExpectedType::Anything)
}

/// Decodes one value and collects strict decoding errors in the order of the input: duplicate fields and, if the schema
/// is given, unknown fields.
pub fn from_json_strict(
    text: &[u8],
    shape: Option<&StructSchema>,
    odd: &mut Vec<StrictError>,
) -> Result<Value, JsonError> {
    whole(
        text,
        shape.map_or(ExpectedType::Anything, |shape| ExpectedType::Struct(shape, true)),
        Some(odd),
    )
}

/// Keeps an object or a list as raw JSON, and decodes anything else.
pub fn from_json_raw(text: &[u8]) -> Result<Value, JsonError> {
    whole(text, ExpectedType::Raw, None)
}

/// Decodes one value for use in error messages. Object entries keep the order of the input (so they are unsorted and
/// cannot be looked up by name), and non-integer numbers keep their source text.
pub fn from_json_preserving_source(text: &[u8]) -> Result<Value, JsonError> {
    Reader { preserve_source: true, ..Reader::new(text, None) }
        .parse_document(ExpectedType::Unchecked)
}

/// Decodes the value at the beginning of the text and advances past it; `None` at the end.
pub fn from_json_next(text: &mut &str) -> Option<Result<Value, JsonError>> {
    let mut reader = Reader::new(text.as_bytes(), None);
    reader.space();
    reader.peek().ok()?;
    let value = reader.value(&Path::Root, ExpectedType::Anything);
    *text = text.get(reader.at..).unwrap_or_default();
    Some(value)
}

fn whole(
    text: &[u8],
    expect: ExpectedType,
    odd: Option<&mut Vec<StrictError>>,
) -> Result<Value, JsonError> {
    Reader::new(text, odd).parse_document(expect)
}

struct Reader<'a> {
    text: &'a [u8],
    /// The part of the input that is valid UTF-8, usually all of it.
    utf8_prefix: &'a str,
    at: usize,
    depth: usize,
    strict_errors: Option<&'a mut Vec<StrictError>>,
    /// Whether entries and numbers are kept as written.
    preserve_source: bool,
}

/// The entries of an object that have been decoded so far.
struct PartialObject {
    fields: Vec<(FieldId, Value)>,
    /// Entries whose names are not interned.
    entries: Vec<(Text, Value)>,
    /// Number of duplicate fields.
    repeated: usize,
}

/// The expected type of a value.
#[derive(Clone, Copy)]
enum ExpectedType<'a> {
    Anything,
    Type(&'a Type),
    /// A struct, and whether it is the top-level object.
    Struct(&'a StructSchema, bool),
    /// A type that is not checked here: no strict errors are reported in it.
    Unchecked,
    /// Kept as raw JSON.
    Raw,
    /// Kept as raw JSON without white space: managedFields are compared as text.
    RawCompact,
}

impl<'a> ExpectedType<'a> {
    fn of(ty: &'a Type) -> Self {
        match ty {
            Type::Object(shape) => Self::Struct(shape, false),
            Type::Any | Type::StructOr(..) => Self::Unchecked,
            ty => Self::Type(ty),
        }
    }

    fn item(self) -> Self {
        match self {
            Self::Type(Type::List(item) | Type::Map(item)) => Self::of(item),
            Self::Anything => Self::Anything,
            _ => Self::Unchecked,
        }
    }
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

impl<'a> Reader<'a> {
    fn new(text: &'a [u8], odd: Option<&'a mut Vec<StrictError>>) -> Self {
        let valid = match str::from_utf8(text) {
            Ok(all) => all,
            Err(wrong) => {
                let good = text.get(..wrong.valid_up_to()).unwrap_or_default();
                str::from_utf8(good).unwrap_or_default()
            }
        };
        Self {
            text,
            utf8_prefix: valid,
            at: 0,
            depth: 0,
            strict_errors: odd,
            preserve_source: false,
        }
    }

    fn parse_document(mut self, expect: ExpectedType) -> Result<Value, JsonError> {
        let value = self.value(&Path::Root, expect)?;
        self.space();
        match self.text.get(self.at) {
            None => Ok(value),
            Some(_) => Err(self.unexpected("after top-level value")),
        }
    }

    fn value(&mut self, path: &Path, expect: ExpectedType) -> Result<Value, JsonError> {
        self.space();
        match self.peek()? {
            b'{' | b'['
                if matches!(expect, ExpectedType::Raw | ExpectedType::RawCompact)
                    || (self.depth >= MAX_DOCUMENT
                        && !matches!(expect, ExpectedType::Anything)) =>
            {
                let from = self.at;
                self.skip()?;
                let text = self.since(from)?;
                let tight = matches!(expect, ExpectedType::RawCompact);
                Ok(Value::Raw(if tight { compact(text) } else { text.into() }))
            }
            b'{' => self.nested(|this| this.object(path, expect)),
            b'[' => self.nested(|this| this.list(path, expect.item())),
            b'"' => Ok(Value::Text(self.string()?.into())),
            b't' => self.literal("true", Value::Bool(true)),
            b'f' => self.literal("false", Value::Bool(false)),
            b'n' => self.literal("null", Value::Null),
            b'-' | b'0'..=b'9' => {
                let (from, number) = (self.at, self.number());
                match &number {
                    // A quantity keeps the way in which it was written.
                    Ok(_) if matches!(expect, ExpectedType::Type(Type::Quantity)) => {
                        Ok(self.since(from)?.into())
                    }
                    Ok(Value::Float(_)) | Err(JsonError::Number(_)) if self.preserve_source => {
                        Ok(Value::Raw(self.since(from)?.into()))
                    }
                    _ => number,
                }
            }
            _ => Err(self.unexpected("looking for beginning of value")),
        }
    }

    fn nested(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<Value, JsonError>,
    ) -> Result<Value, JsonError> {
        self.depth += 1;
        if self.depth > MAX_DOCUMENT {
            let found = self.text.get(self.at).copied().unwrap_or(b'[');
            return Err(JsonError::Depth(char::from(found)));
        }
        self.at += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    /// Skips a well-formed value of any depth.
    fn skip(&mut self) -> Result<(), JsonError> {
        // The closing brackets of the open objects and lists.
        let mut open = Vec::new();
        loop {
            self.space();
            match self.peek()? {
                start @ (b'{' | b'[') => {
                    if self.depth + open.len() >= MAX_NESTING_DEPTH {
                        return Err(JsonError::Depth(char::from(start)));
                    }
                    self.at += 1;
                    self.space();
                    open.push(start + 2);
                    if self.peek()? != start + 2 {
                        if start == b'{' {
                            self.name()?;
                        }
                        continue;
                    }
                }
                _ => drop(self.value(&Path::Root, ExpectedType::Unchecked)?),
            }
            while let Some(&end) = open.last() {
                self.space();
                match (self.peek()?, end) {
                    (b',', _) => break,
                    (byte, end) if byte == end => drop(open.pop()),
                    (_, b'}') => return Err(self.unexpected("after object key:value pair")),
                    _ => return Err(self.unexpected("after array element")),
                }
                self.at += 1;
            }
            match open.last() {
                None => return Ok(()),
                Some(end) => {
                    self.at += 1;
                    if *end == b'}' {
                        self.name()?;
                    }
                }
            }
        }
    }

    /// The name of an entry and the colon after it.
    fn name(&mut self) -> Result<Cow<'a, str>, JsonError> {
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
        Ok(name)
    }

    fn list(&mut self, path: &Path, expect: ExpectedType) -> Result<Value, JsonError> {
        self.space();
        if self.peek()? == b']' {
            self.at += 1;
            return Ok(Value::List([].into()));
        }
        let mut items = Vec::new();
        loop {
            items.push(self.value(&Path::Index(path, items.len()), expect)?);
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

    fn object(&mut self, path: &Path, expect: ExpectedType) -> Result<Value, JsonError> {
        self.space();
        if self.peek()? == b'}' {
            self.at += 1;
            return Ok(Value::object());
        }
        let mut read =
            PartialObject { fields: Vec::with_capacity(8), entries: Vec::new(), repeated: 0 };
        loop {
            let name = self.name()?;
            self.entry(&name, path, expect, &mut read)?;
            self.space();
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => break,
                _ => return Err(self.unexpected("after object key:value pair")),
            }
        }
        self.at += 1;
        let PartialObject { fields, mut entries, .. } = read;
        if self.preserve_source {
            return Ok(Value::Map(entries.into()));
        }
        if entries.is_empty() {
            return Ok(Value::from_fields(fields));
        }
        entries.extend(fields.into_iter().map(|(word, value)| (word.as_str().into(), value)));
        let mut twice = Vec::new();
        let map = sort_and_dedup(entries, |name| twice.push(name.clone()));
        for name in twice.iter().filter(|_| !matches!(expect, ExpectedType::Unchecked)) {
            self.report(StrictError::DuplicateField, &Path::Name(path, name));
        }
        Ok(Value::Map(map))
    }

    fn entry(
        &mut self,
        name: &str,
        path: &Path,
        expect: ExpectedType,
        read: &mut PartialObject,
    ) -> Result<(), JsonError> {
        let (word, path) = (FieldId::lookup(name), Path::Name(path, name));
        let before = word.and_then(|word| read.fields.iter().position(|field| field.0 == word));
        let mut told = !matches!(expect, ExpectedType::Unchecked);
        let field = match expect {
            ExpectedType::Struct(shape, _) => word.and_then(|word| shape.field_by_id(word)),
            _ => None,
        };
        let expect = match expect {
            ExpectedType::Struct(shape, whole) => match field {
                Some(field) if field.attributes.raw && name == "fieldsV1" => {
                    ExpectedType::RawCompact
                }
                Some(field) if field.attributes.raw => ExpectedType::Raw,
                Some(field) => ExpectedType::of(&field.ty),
                None if matches!(name, "apiVersion" | "kind") && (whole || shape.is_object()) => {
                    ExpectedType::Anything
                }
                None => {
                    self.report(StrictError::UnknownField, &path);
                    told = false;
                    ExpectedType::Unchecked
                }
            },
            map => map.item(),
        };
        if before.is_some() && told {
            self.report(StrictError::DuplicateField, &path);
        }
        let value = self.value(&path, expect)?;
        match (word.filter(|_| !self.preserve_source), before) {
            (Some(_), Some(at)) => {
                read.repeated += 1;
                let merged = field.filter(|_| read.repeated <= REPEATED);
                if let Some((_, known)) = read.fields.get_mut(at) {
                    *known = duplicate_field::merge_duplicate_field(
                        merged,
                        std::mem::take(known),
                        value,
                    );
                }
            }
            (Some(word), None) => read.fields.push((word, value)),
            (None, _) => read.entries.push((name.into(), value)),
        }
        Ok(())
    }

    fn report(&mut self, odd: fn(String) -> StrictError, path: &Path) {
        let Some(all) = self.strict_errors.as_mut().filter(|all| all.len() < MAX_STRICT_ERRORS)
        else {
            return;
        };
        let odd = odd(path.to_string());
        if !all.contains(&odd) {
            all.push(odd);
        }
    }

    #[inline]
    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.text.get(self.at) {
            self.at += 1;
        }
    }

    #[inline]
    fn peek(&self) -> Result<u8, JsonError> {
        self.text.get(self.at).copied().ok_or(JsonError::End)
    }

    /// The current byte; at the end a space, as in Go.
    fn current_byte(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(b' ')
    }

    fn unexpected(&self, context: &'static str) -> JsonError {
        JsonError::Character { found: char::from(self.current_byte()), context }
    }
}

/// A character as Go quotes it in error messages.
fn quoted(c: char) -> String {
    match c {
        '\'' => r"'\''".to_owned(),
        '"' => "'\"'".to_owned(),
        c => {
            let text = quote(c.encode_utf8(&mut [0; 4]));
            format!("'{}'", text.trim_matches('"'))
        }
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
            ("nul", "invalid character ' ' in literal null (expecting 'l')"),
            ("trux", "invalid character 'x' in literal true (expecting 'e')"),
            ("[-", "invalid character ' ' in numeric literal"),
            ("\"\\", "invalid character ' ' in string escape code"),
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
    fn what_is_odd_is_told_in_its_order() {
        let read = |text: &str, shape| {
            let mut odd = Vec::new();
            let value = from_json_strict(text.as_bytes(), shape, &mut odd).unwrap();
            (value, odd.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let text = r#"{"spec":{"replicas":1,"replicas":2},"items":[{"x":1,"x":1}]}"#;
        let (value, odd) = read(text, None);
        assert_eq!(value["spec"]["replicas"], Value::Int(2));
        assert_eq!(odd, [r#"duplicate field "spec.replicas""#, r#"duplicate field "items[0].x""#]);
        let text = r#"{"kind":"A","kind":"B","metadata":{"foo":{"a":1,"a":2},"name":"n",
            "labels":{"b":"1","b":"2"},"finalizer":[]},"foo":1}"#;
        let again = r#"{"metadata":{"name":"n","name":null,"labels":{"a":"1"}},
            "metadata":{"labels":{"b":"2"}}}"#;
        let (laid_over, _) = read(again, Some(<crate::Object as crate::Lens>::SHAPE));
        let both = r#"{"metadata":{"name":"n","labels":{"a":"1","b":"2"}}}"#;
        assert_eq!(laid_over, from_json(both.as_bytes()).unwrap());
        let (_, odd) = read(text, Some(<crate::Object as crate::Lens>::SHAPE));
        assert_eq!(
            odd,
            [
                r#"duplicate field "kind""#,
                r#"unknown field "metadata.foo""#,
                r#"duplicate field "metadata.labels.b""#,
                r#"unknown field "metadata.finalizer""#,
                r#"unknown field "foo""#
            ]
        );
    }

    #[test]
    fn a_field_given_again_and_again_is_read_in_time() {
        let again: Vec<_> = (0..20_000).map(|n| format!(r#""labels":{{"{n:05}":""}}"#)).collect();
        let text = format!(r#"{{"metadata":{{{}}}}}"#, again.join(","));
        let before = std::time::Instant::now();
        let shape = Some(<crate::Object as crate::Lens>::SHAPE);
        let read = from_json_strict(text.as_bytes(), shape, &mut Vec::new()).expect("JSON");
        assert!(read["metadata"]["labels"].entries().len() > 0);
        assert!(before.elapsed().as_secs() < 60, "{:?}", before.elapsed());
    }

    #[test]
    fn what_is_read_nests_no_deeper_than_a_stack_bears() {
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert!(from_json(nested(MAX_DOCUMENT).as_bytes()).is_ok());
        let deeper = nested(MAX_DOCUMENT + 1);
        assert_eq!(from_json(deeper.as_bytes()), Err(JsonError::Depth('[')));
        assert_eq!(
            from_json_within(nested(10).as_bytes(), MAX_DOCUMENT - 9),
            Err(JsonError::Depth('['))
        );
        assert!(crate::depth::exceeds(&from_json_raw(deeper.as_bytes()).unwrap(), MAX_DOCUMENT));
    }

    #[test]
    fn raw_json_is_kept_as_it_is_written() {
        let raw = |text: &str| from_json_raw(text.as_bytes()).map(|raw| to_json(&raw));
        let text = "{\"b\" : [1.0, \"x <\\\"\\u00e9> y\"],\n \"a\":{ },\"b\":null}";
        let kept = "{\"b\":[1.0,\"x \\u003c\\\"\\u00e9\\u003e y\"],\"a\":{},\"b\":null}";
        assert_eq!(raw(text).unwrap(), kept.as_bytes());
        assert!(matches!(from_json_raw(text.as_bytes()), Ok(Value::Raw(whole)) if *whole == *text));
        assert_eq!(from_json_raw(b"null"), Ok(Value::Null));
        for wrong in ["{", "{\"a\"}", "[1,]", "[1 2]", "{\"a\":1,}", "{}x", "[\"\n\"]"] {
            assert_eq!(
                raw(wrong).unwrap_err(),
                from_json(wrong.as_bytes()).unwrap_err(),
                "{wrong}"
            );
        }
        assert_eq!(from_json_raw(text.as_bytes()).unwrap(), from_json(text.as_bytes()).unwrap());
    }

    #[test]
    fn reads_one_after_the_other() {
        let mut text = "{} [1]\n2 x";
        let mut next = || from_json_next(&mut text);
        assert_eq!(next(), Some(Ok(Value::object())));
        assert_eq!(next(), Some(Ok([1].into_iter().collect())));
        assert_eq!(next(), Some(Ok(Value::Int(2))));
        assert!(next().is_some_and(|x| x.is_err()));
    }
}
