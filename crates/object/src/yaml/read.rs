//! YAML parser.
//!
//! The target of an alias is shared, not copied, so that a small file cannot fill the memory. Still it counts each
//! time, because the value will also be written.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

use std::collections::{HashMap, HashSet};

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};

use super::{YamlError, resolve::resolve, write::float};
use crate::{Text, Value, depth::MAX_DOCUMENT};

/// Maximum number of values in a document, including those of aliases.
const MAX_NODES: usize = 1 << 22;
/// Documents with fewer values than this may consist almost entirely of aliases.
const FEW_NODES: usize = 400_000;
/// Maximum number of duplicate keys that are reported.
const DOUBLES: usize = 100;

/// Parses a document; returns it with an error message for each duplicate key.
pub(super) fn read(text: &str) -> Result<(Value, Vec<String>), YamlError> {
    let options = granit_parser::options! {
        flow_nesting_limit: MAX_DOCUMENT,
        block_nesting_limit: MAX_DOCUMENT,
    };
    let events = Parser::new_from_str_with_options(text, options);
    Reader {
        text,
        events,
        anchors: HashMap::new(),
        duplicate_keys: Vec::new(),
        nodes: 0,
        aliased: 0,
    }
    .document()
}

struct Reader<'a> {
    text: &'a str,
    events: Parser<'a, granit_parser::StrInput<'a>>,
    anchors: HashMap<usize, Anchored>,
    /// Error messages for duplicate keys.
    duplicate_keys: Vec<String>,
    nodes: usize,
    /// How many of them come from aliases.
    aliased: usize,
}

/// The target of an alias.
#[derive(Clone)]
struct Anchored {
    value: Value,
    /// The number of values in it.
    nodes: usize,
    /// Its nesting depth.
    height: usize,
}

impl<'a> Reader<'a> {
    fn document(mut self) -> Result<(Value, Vec<String>), YamlError> {
        loop {
            match self.next()?.0 {
                Event::StreamStart | Event::DocumentStart(..) => {}
                Event::StreamEnd | Event::DocumentEnd => return Ok((Value::Null, Vec::new())),
                event => {
                    let value = json(self.value(event, 0)?.0)?;
                    // The rest must be well formed, though it is not used.
                    while !matches!(self.next()?.0, Event::DocumentEnd | Event::StreamEnd) {}
                    return Ok((value, self.duplicate_keys));
                }
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), YamlError> {
        match self.events.next() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(go_yaml_error(&error, self.text)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    /// Parses a value at nesting depth `depth`, and returns it with its own nesting depth.
    fn value(&mut self, event: Event<'a>, depth: usize) -> Result<(Value, usize), YamlError> {
        let before = self.nodes;
        self.count(1)?;
        let (anchor, (value, height)) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                (anchor, (scalar(&text, style, tag.as_deref())?, 0))
            }
            Event::SequenceStart(_, anchor, _) => (anchor, self.list(depth + 1)?),
            Event::MappingStart(_, anchor, _) => (anchor, self.object(depth + 1)?),
            Event::Alias(anchor) => {
                let Some(Anchored { value, nodes, height }) = self.anchors.get(&anchor).cloned()
                else {
                    return Err(YamlError::new("anchor value contains itself"));
                };
                self.aliased += nodes;
                self.count(nodes)?;
                limited(depth + height)?;
                return Ok((value, height));
            }
            _ => return Err(YamlError::new("did not find expected node content")),
        };
        if anchor > 0 {
            let nodes = self.nodes - before;
            self.anchors.insert(anchor, Anchored { value: value.clone(), nodes, height });
        }
        Ok((value, height))
    }

    fn count(&mut self, nodes: usize) -> Result<(), YamlError> {
        self.nodes += nodes;
        if self.nodes > MAX_NODES || self.is_bomb() {
            return Err(YamlError::new("document contains excessive aliasing"));
        }
        Ok(())
    }

    /// Whether there are more aliased values than Go's library permits (an alias bomb). The permitted share falls from
    /// 99 % to 10 % as the number of values grows.
    fn is_bomb(&self) -> bool {
        let beyond = self.nodes.saturating_sub(FEW_NODES).saturating_mul(89);
        let percent = 99_usize.saturating_sub(beyond / (4_000_000 - FEW_NODES)).max(10);
        self.aliased > 100 && self.nodes > 1000 && self.aliased * 100 > self.nodes * percent
    }

    fn list(&mut self, depth: usize) -> Result<(Value, usize), YamlError> {
        limited(depth)?;
        let (mut items, mut height) = (Vec::new(), 0);
        loop {
            match self.next()?.0 {
                Event::SequenceEnd => return Ok((Value::List(items.into()), height + 1)),
                event => {
                    let (item, below) = self.value(event, depth)?;
                    items.push(json(item)?);
                    height = height.max(below);
                }
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<(Value, usize), YamlError> {
        limited(depth)?;
        let (mut entries, mut height) = (Vec::<(Text, Value)>::new(), 0);
        let mut seen = HashSet::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                return Ok((Value::from_entries(entries), height + 1));
            }
            let merges = matches!(&event, Event::Scalar(text, ScalarStyle::Plain, _, tag)
                if text == "<<" && tag.as_ref().is_none_or(|tag| core_tag(tag).as_deref() == Some("merge")));
            let key = if merges { Value::Null } else { self.value(event, depth)?.0 };
            let value = self.next()?.0;
            let (value, below) = self.value(value, depth)?;
            let value = json(value)?;
            height = height.max(below);
            if merges {
                merge(&mut entries, &value)?;
                continue;
            }
            let name = name(&key, &value)?;
            if !seen.insert(name.clone()) && self.duplicate_keys.len() < DOUBLES {
                let name = crate::quote::quote(&name);
                let line = span.start.line();
                self.duplicate_keys.push(format!("line {line}: key {name} already set in map"));
            }
            entries.push((name, value));
        }
    }
}

fn limited(depth: usize) -> Result<(), YamlError> {
    if depth > MAX_DOCUMENT {
        return Err(YamlError::new(format!("exceeded max depth of {MAX_DOCUMENT}")));
    }
    Ok(())
}

fn merge(entries: &mut Vec<(Text, Value)>, value: &Value) -> Result<(), YamlError> {
    match value {
        Value::Object(_) | Value::Map(_) => {
            entries.extend(value.entries().map(|(name, value)| (name.into(), value.clone())));
            Ok(())
        }
        // Earlier items take precedence.
        Value::List(items) => items.iter().rev().try_for_each(|item| match item {
            Value::Object(_) | Value::Map(_) => merge(entries, item),
            _ => Err(YamlError::new("map merge requires map or sequence of maps as the value")),
        }),
        _ => Err(YamlError::new("map merge requires map or sequence of maps as the value")),
    }
}

/// Kubernetes converts YAML to JSON, where `1e3` is `1000` and infinity does not exist.
fn json(value: Value) -> Result<Value, YamlError> {
    match value {
        #[expect(clippy::cast_possible_truncation, reason = "it has no fraction and fits")]
        Value::Float(n) if n.fract() == 0.0 && n.abs() < 9.2e18 => Ok(Value::Int(n as i64)),
        Value::Float(n) if n.is_nan() => Err(YamlError("json: unsupported value: NaN".to_owned())),
        Value::Float(n) if n.is_infinite() => {
            let sign = if n > 0.0 { '+' } else { '-' };
            Err(YamlError(format!("json: unsupported value: {sign}Inf")))
        }
        value => Ok(value),
    }
}

fn name(key: &Value, value: &Value) -> Result<Text, YamlError> {
    let (ty, key) = match key {
        Value::Text(text) => return Ok(text.clone()),
        Value::Int(n) => return Ok(n.to_string().into()),
        Value::Float(n) => return Ok(float(*n).into()),
        Value::Bool(b) => return Ok(b.to_string().into()),
        Value::UInt(n) => ("uint64", format!("{n:#x}")),
        Value::Null => ("%!s(<nil>)", "<nil>".to_owned()),
        _ => return Err(YamlError::new(format!("invalid map key: {}", go_syntax(key)))),
    };
    let value = go_syntax(value);
    Err(YamlError(format!("unsupported map key of type: {ty}, key: {key}, value: {value}")))
}

/// Formats a value like Go's `%#v`.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Text(text) => crate::quote::quote(text),
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(_) | Value::Map(_) => {
            let entry =
                |(name, value)| format!("{}:{}", crate::quote::quote(name), go_syntax(value));
            let entries: Vec<String> = value.entries().map(entry).collect();
            format!("map[interface {{}}]interface {{}}{{{}}}", entries.join(", "))
        }
        Value::Null => "interface {}(nil)".to_owned(),
        other => String::from_utf8_lossy(&crate::to_json(other)).into_owned(),
    }
}

fn core_tag(tag: &Tag) -> Option<std::borrow::Cow<'_, str>> {
    tag.suffix_in_namespace("tag:yaml.org,2002:")
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, YamlError> {
    let plain = style == ScalarStyle::Plain;
    let Some(tag) = tag else {
        return Ok(if plain { resolve(text) } else { Value::from(text) });
    };
    let value = resolve(text);
    let wrong = |tag: &str| {
        let was = match &value {
            Value::Null => "!!null",
            Value::Bool(_) => "!!bool",
            Value::Int(_) | Value::UInt(_) => "!!int",
            Value::Float(_) => "!!float",
            _ => "!!str",
        };
        Err(YamlError::new(format!("cannot decode {was} `{text}` as a !!{tag}")))
    };
    match (core_tag(tag).as_deref(), &value) {
        (Some("int"), Value::Int(_) | Value::UInt(_))
        | (Some("float"), Value::Float(_))
        | (Some("bool"), Value::Bool(_))
        | (Some("null"), Value::Null) => Ok(value),
        #[expect(clippy::cast_precision_loss, reason = "the document asks for a float")]
        (Some("float"), Value::Int(n)) => Ok(Value::Float(*n as f64)),
        (Some("binary"), _) => binary(text),
        (Some(tag @ ("int" | "float" | "bool" | "null")), _) => wrong(tag),
        _ => Ok(Value::from(text)),
    }
}

fn binary(text: &str) -> Result<Value, YamlError> {
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let bytes = BASE64_STANDARD.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let wrong = || YamlError::new("!!binary value contains invalid base64 data");
    bytes.map(|text| Value::Text(text.into())).ok_or_else(wrong)
}

/// Converts an error to that of Go's library, which counts lines from 0 in parser errors and from 1 in scanner errors.
fn go_yaml_error(error: &ScanError, text: &str) -> YamlError {
    let said = error.info();
    if said.starts_with("unclosed bracket") {
        // Go's library reports it at the end of the text, not at the bracket.
        let line = text.matches('\n').count() + usize::from(!text.ends_with('\n'));
        let expected = match text.trim_end().chars().last() {
            Some(',' | '[' | '{') => "node content",
            _ if said.contains('{') => "',' or '}'",
            _ => "',' or ']'",
        };
        return YamlError::new(format!("line {line}: did not find expected {expected}"));
    }
    let (context, problem) = said.split_once(", ").unwrap_or(("", &said));
    let problem = match problem {
        _ if problem.starts_with("unexpected character") || problem.starts_with("tabs ") => {
            "found character that cannot start any token"
        }
        _ if problem.contains("unknown anchor") => {
            let line =
                text.lines().nth(error.marker().line().saturating_sub(1)).unwrap_or_default();
            let alias = line.rsplit_once('*').unwrap_or_default().1;
            let ends = |c: char| !c.is_ascii_alphanumeric() && !"_-".contains(c);
            let name = alias.split(ends).next().unwrap_or_default();
            return YamlError::new(format!("unknown anchor '{name}' referenced"));
        }
        _ if problem.contains("surrogate") => "found invalid Unicode character escape code",
        _ => problem,
    };
    let by_parser =
        context.starts_with("while parsing") && problem.starts_with("did not find expected");
    let at = error.marker().line();
    let line = at.saturating_sub(usize::from(by_parser));
    if at <= 1 {
        return YamlError::new(problem);
    }
    YamlError::new(format!("line {line}: {problem}"))
}
