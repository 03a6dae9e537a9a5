//! Reading a document into a tree.
//!
//! What an alias stands for is shared in the tree, not copied, so that a small file
//! cannot fill the memory; still it counts each time, since a tree is also written.

use std::collections::{HashMap, HashSet};

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};

use super::{YamlError, resolve::resolve, write::float};
use crate::{Text, Value};

/// Values in a document, those that aliases stand for included.
const MOST_NODES: usize = 1 << 22;
const DEEPEST: usize = 200;

/// The document, and what is said of names that are there twice.
pub(super) fn read(text: &str) -> Result<(Value, Vec<String>), YamlError> {
    let options = granit_parser::options! {
        flow_nesting_limit: DEEPEST,
        block_nesting_limit: DEEPEST,
    };
    let events = Parser::new_from_str_with_options(text, options);
    Reader { text, events, anchors: HashMap::new(), doubles: Vec::new(), nodes: 0 }.document()
}

struct Reader<'a> {
    text: &'a str,
    events: Parser<'a, granit_parser::StrInput<'a>>,
    /// What has a name, and how many values are in it.
    anchors: HashMap<usize, (Value, usize)>,
    /// Lines with names that were there before.
    doubles: Vec<String>,
    nodes: usize,
}

impl<'a> Reader<'a> {
    fn document(mut self) -> Result<(Value, Vec<String>), YamlError> {
        loop {
            match self.next()?.0 {
                Event::StreamStart | Event::DocumentStart(..) => {}
                Event::StreamEnd | Event::DocumentEnd => return Ok((Value::Null, Vec::new())),
                event => {
                    let value = self.value(event, 0)?;
                    // What follows must be well formed, though it is not read.
                    while !matches!(self.next()?.0, Event::DocumentEnd | Event::StreamEnd) {}
                    return Ok((value, self.doubles));
                }
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), YamlError> {
        match self.events.next() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(explain(&error, self.text)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn value(&mut self, event: Event<'a>, depth: usize) -> Result<Value, YamlError> {
        if depth > DEEPEST {
            return Err(YamlError("exceeded max depth".to_owned()));
        }
        let before = self.nodes;
        self.count(1)?;
        let (anchor, value) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                (anchor, scalar(&text, style, tag.as_deref())?)
            }
            Event::SequenceStart(_, anchor, _) => (anchor, self.list(depth)?),
            Event::MappingStart(_, anchor, _) => (anchor, self.object(depth)?),
            Event::Alias(anchor) => {
                let Some((value, size)) = self.anchors.get(&anchor).cloned() else {
                    return Err(YamlError("anchor value contains itself".to_owned()));
                };
                self.count(size)?;
                return Ok(value);
            }
            _ => return Err(YamlError("did not find expected node content".to_owned())),
        };
        if anchor > 0 {
            self.anchors.insert(anchor, (value.clone(), self.nodes - before));
        }
        Ok(value)
    }

    fn count(&mut self, nodes: usize) -> Result<(), YamlError> {
        self.nodes += nodes;
        if self.nodes > MOST_NODES {
            return Err(YamlError("document contains excessive aliasing".to_owned()));
        }
        Ok(())
    }

    fn list(&mut self, depth: usize) -> Result<Value, YamlError> {
        let mut items = Vec::new();
        loop {
            match self.next()?.0 {
                Event::SequenceEnd => return Ok(Value::List(items.into())),
                event => items.push(self.value(event, depth + 1)?),
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, YamlError> {
        let mut entries: Vec<(Text, Value)> = Vec::new();
        let mut seen = HashSet::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                return Ok(Value::from_entries(entries));
            }
            let merges = matches!(&event, Event::Scalar(text, ScalarStyle::Plain, _, tag)
                if text == "<<" && tag.as_ref().is_none_or(|tag| tag.core_suffix() == Some("merge")));
            let name = if merges { Text::default() } else { name(&self.value(event, depth + 1)?)? };
            let value = self.next()?.0;
            let value = self.value(value, depth + 1)?;
            if merges {
                merge(&mut entries, &value)?;
                continue;
            }
            if !seen.insert(name.clone()) {
                let name = crate::quote::quote(&name);
                let line = span.start.line();
                self.doubles.push(format!("line {line}: key {name} already set in map"));
            }
            entries.push((name, value));
        }
    }
}

fn merge(entries: &mut Vec<(Text, Value)>, value: &Value) -> Result<(), YamlError> {
    match value {
        Value::Object(_) | Value::Map(_) => {
            entries.extend(value.entries().map(|(name, value)| (name.into(), value.clone())));
            Ok(())
        }
        // The earlier in the list, the more it counts.
        Value::List(items) => items.iter().rev().try_for_each(|item| match item {
            Value::Object(_) | Value::Map(_) => merge(entries, item),
            _ => {
                Err(YamlError("map merge requires map or sequence of maps as the value".to_owned()))
            }
        }),
        _ => Err(YamlError("map merge requires map or sequence of maps as the value".to_owned())),
    }
}

fn name(key: &Value) -> Result<Text, YamlError> {
    Ok(match key {
        Value::Text(text) => text.clone(),
        Value::Int(n) => n.to_string().into(),
        Value::UInt(n) => n.to_string().into(),
        Value::Float(n) => float(*n).into(),
        Value::Bool(b) => b.to_string().into(),
        Value::Null => return Err(YamlError("unsupported map key of type: null".to_owned())),
        _ => return Err(YamlError("invalid map key".to_owned())),
    })
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
        Err(YamlError(format!("cannot decode {was} `{text}` as a !!{tag}")))
    };
    match (tag.core_suffix(), &value) {
        (Some("int"), Value::Int(_) | Value::UInt(_))
        | (Some("float"), Value::Float(_))
        | (Some("bool"), Value::Bool(_))
        | (Some("null"), Value::Null) => Ok(value),
        #[expect(clippy::cast_precision_loss, reason = "the document asks for a float")]
        (Some("float"), Value::Int(n)) => Ok(Value::Float(*n as f64)),
        (Some("binary"), _) => binary(text),
        (Some(tag @ ("int" | "float" | "bool" | "null")), _) => wrong(tag),
        (Some(_), _) => Ok(Value::from(text)),
        (None, _) => Ok(if plain { value } else { Value::from(text) }),
    }
}

fn binary(text: &str) -> Result<Value, YamlError> {
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let bytes = BASE64_STANDARD.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let wrong = || YamlError("!!binary value contains invalid base64 data".to_owned());
    bytes.map(|text| Value::Text(text.into())).ok_or_else(wrong)
}

/// The error as Go's library words it; that counts lines from 0 in what its
/// parser finds, from 1 in what its scanner finds.
fn explain(error: &ScanError, text: &str) -> YamlError {
    let said = error.info();
    if said.starts_with("unclosed bracket") {
        // Go's finds out at the end of the text, not where the bracket is.
        let line = text.matches('\n').count();
        let expected = match text.trim_end().chars().last() {
            Some(',' | '[' | '{') => "node content",
            _ if said.contains('{') => "',' or '}'",
            _ => "',' or ']'",
        };
        return YamlError(format!("line {line}: did not find expected {expected}"));
    }
    let (context, problem) = said.split_once(", ").unwrap_or(("", &said));
    let by_parser =
        context.starts_with("while parsing") && problem.starts_with("did not find expected");
    let at = error.marker().line();
    let line = at.saturating_sub(usize::from(by_parser));
    if at <= 1 {
        return YamlError(problem.to_owned());
    }
    YamlError(format!("line {line}: {problem}"))
}
