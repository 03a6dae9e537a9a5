//! Executes a template: renders nodes with a value.

use std::cmp::Ordering;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use object::{Value, quote::quote};

use super::{Node, Pipeline, Term, functions};
use crate::print::{columns::format_go_value, json};

pub(super) const FUNCTIONS: &[&str] = &[
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "and",
    "or",
    "not",
    "len",
    "index",
    "print",
    "printf",
    "println",
    "base64decode",
    "exists",
    "html",
    "js",
    "slice",
    "urlquery",
];

pub(super) fn run(nodes: &[Node], value: &Value, strict: bool) -> Result<String, String> {
    let mut state =
        State { out: String::new(), variables: vec![(String::new(), value.clone())], strict };
    state.nodes(nodes, value)?;
    Ok(state.out)
}

/// The state of the execution of a template.
struct State {
    out: String,
    /// Variables; of those with the same name the last is in scope.
    variables: Vec<(String, Value)>,
    strict: bool,
}

impl State {
    fn nodes(&mut self, nodes: &[Node], dot: &Value) -> Result<(), String> {
        for node in nodes {
            match node {
                Node::Text(text) => self.out.push_str(text),
                Node::Print(pipeline) => {
                    let value = self.pipeline(pipeline, dot)?;
                    if pipeline.variables.is_empty() {
                        self.out.push_str(
                            &value.map_or_else(|| "<no value>".to_owned(), |value| show(&value)),
                        );
                    }
                }
                Node::If(condition, then, otherwise) => {
                    let depth = self.variables.len();
                    let met = self.pipeline(condition, dot)?.is_some_and(|value| truth(&value));
                    self.nodes(if met { then } else { otherwise }, dot)?;
                    self.variables.truncate(depth);
                }
                Node::With(condition, then, otherwise) => {
                    let depth = self.variables.len();
                    match self.pipeline(condition, dot)?.filter(truth) {
                        Some(value) => self.nodes(then, &value)?,
                        None => self.nodes(otherwise, dot)?,
                    }
                    self.variables.truncate(depth);
                }
                Node::Range(over, then, otherwise) => self.range(over, then, otherwise, dot)?,
            }
        }
        Ok(())
    }

    fn range(
        &mut self,
        over: &Pipeline,
        then: &[Node],
        otherwise: &[Node],
        dot: &Value,
    ) -> Result<(), String> {
        let bare = Pipeline { commands: over.commands.clone(), ..Pipeline::default() };
        let entries: Vec<(Value, Value)> = match self.pipeline(&bare, dot)? {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::List(items)) => items
                .iter()
                .enumerate()
                .map(|(at, item)| (Value::Int(i64::try_from(at).unwrap_or(0)), item.clone()))
                .collect(),
            Some(map @ (Value::Object(_) | Value::Map(_))) => {
                map.entries().map(|(name, value)| (name.into(), value.clone())).collect()
            }
            Some(other) => return Err(format!("range can't iterate over {}", show(&other))),
        };
        if entries.is_empty() {
            return self.nodes(otherwise, dot);
        }
        let depth = self.variables.len();
        for (key, item) in entries {
            match &over.variables[..] {
                [value] => self.variables.push((value.clone(), item.clone())),
                [name, value] => {
                    self.variables.push((name.clone(), key));
                    self.variables.push((value.clone(), item.clone()));
                }
                _ => {}
            }
            self.nodes(then, &item)?;
            self.variables.truncate(depth);
        }
        Ok(())
    }

    /// Evaluates a pipeline; `None` if its value is a missing field.
    fn pipeline(&mut self, pipeline: &Pipeline, dot: &Value) -> Result<Option<Value>, String> {
        let mut value = None;
        for (at, command) in pipeline.commands.iter().enumerate() {
            let last: Vec<Value> =
                if at > 0 { vec![value.take().unwrap_or_default()] } else { Vec::new() };
            value = self.command(command, last, dot)?;
        }
        if let [name] = &pipeline.variables[..] {
            let stored = value.clone().unwrap_or_default();
            match self.variables.iter_mut().rev().find(|(other, _)| other == name) {
                Some(variable) if !pipeline.declares => variable.1 = stored,
                _ => self.variables.push((name.clone(), stored)),
            }
        }
        Ok(value)
    }

    fn command(
        &mut self,
        terms: &[Term],
        last: Vec<Value>,
        dot: &Value,
    ) -> Result<Option<Value>, String> {
        let Some((first, rest)) = terms.split_first() else { return Ok(None) };
        let Term::Function(name) = first else {
            if !rest.is_empty() || !last.is_empty() {
                return Err("can't give argument to non-function".to_owned());
            }
            return self.term(first, dot);
        };
        let mut args = Vec::new();
        for term in rest {
            args.push(self.term(term, dot)?.unwrap_or_default());
        }
        args.extend(last);
        call(name, &args)
    }

    fn term(&mut self, term: &Term, dot: &Value) -> Result<Option<Value>, String> {
        match term {
            Term::Literal(value) => Ok(Some(value.clone())),
            Term::Field(path) => self.fields(Some(dot.clone()), path),
            Term::Variable(name, path) => {
                let found = self.variables.iter().rev().find(|(other, _)| other == name);
                let value =
                    found.ok_or_else(|| format!("undefined variable \"${name}\""))?.1.clone();
                self.fields(Some(value), path)
            }
            Term::Group(pipeline, path) => {
                let value = self.pipeline(pipeline, dot)?;
                self.fields(value, path)
            }
            Term::Function(name) => call(name, &[]),
        }
    }

    fn fields(&self, value: Option<Value>, path: &[String]) -> Result<Option<Value>, String> {
        let mut value = value;
        for name in path {
            let Some(there) = value else { return Ok(None) };
            value = match &there {
                Value::Object(_) | Value::Map(_) => {
                    there.entries().find(|entry| entry.0 == name).map(|entry| entry.1.clone())
                }
                Value::Null => None,
                other => {
                    return Err(format!(
                        "can't evaluate field {name} in type {}",
                        type_name(other)
                    ));
                }
            };
            if value.is_none() && self.strict {
                return Err(format!("map has no entry for key {}", quote(name)));
            }
        }
        Ok(value)
    }
}

fn call(name: &str, args: &[Value]) -> Result<Option<Value>, String> {
    let arg = |at: usize| args.get(at).ok_or_else(|| format!("wrong number of args for {name}"));
    let order = |a: &Value, b: &Value| match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
        (Value::Text(a), Value::Text(b)) => Some(a.cmp(b)),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        _ => None,
    };
    let compare = |wanted: &[Ordering]| {
        let found = order(arg(0)?, arg(1)?).ok_or("incompatible types for comparison")?;
        Ok::<_, String>(Value::Bool(wanted.contains(&found)))
    };
    let text = |at: usize| arg(at).map(show);
    Ok(Some(match name {
        "eq" => Value::Bool(args[1.min(args.len())..].iter().any(|other| other == &args[0])),
        "ne" => Value::Bool(arg(0)? != arg(1)?),
        "lt" => compare(&[Ordering::Less])?,
        "le" => compare(&[Ordering::Less, Ordering::Equal])?,
        "gt" => compare(&[Ordering::Greater])?,
        "ge" => compare(&[Ordering::Greater, Ordering::Equal])?,
        "and" => {
            args.iter().find(|value| !truth(value)).or(args.last()).cloned().unwrap_or_default()
        }
        "or" => args.iter().find(|value| truth(value)).or(args.last()).cloned().unwrap_or_default(),
        "not" => Value::Bool(!truth(arg(0)?)),
        "len" => {
            let length = match arg(0)? {
                Value::List(items) => items.len(),
                Value::Text(text) => text.len(),
                other => other.entries().len(),
            };
            Value::Int(i64::try_from(length).unwrap_or(i64::MAX))
        }
        "index" => return index(args),
        "exists" => Value::Bool(index(args).is_ok_and(|found| found.is_some())),
        "print" => Value::from(functions::sprint(args).as_str()),
        "html" => Value::from(functions::html(&functions::sprint(args)).as_str()),
        "js" => Value::from(functions::js(&functions::sprint(args)).as_str()),
        "urlquery" => Value::from(functions::query(&functions::sprint(args)).as_str()),
        "slice" => functions::slice(args)?,
        "println" => {
            Value::from((args.iter().map(show).collect::<Vec<_>>().join(" ") + "\n").as_str())
        }
        "printf" => Value::from(printf(&text(0)?, &args[1..]).as_str()),
        "base64decode" => {
            let bytes = BASE64_STANDARD
                .decode(text(0)?)
                .map_err(|error| format!("base64 decode failed: {error}"))?;
            Value::from(&*String::from_utf8_lossy(&bytes))
        }
        _ => return Err(format!("function {} not defined", quote(name))),
    }))
}

fn index(args: &[Value]) -> Result<Option<Value>, String> {
    let Some((first, keys)) = args.split_first() else { return Err("index of nothing".to_owned()) };
    let mut value = first.clone();
    for key in keys {
        value = match (&value, key) {
            (Value::List(items), Value::Int(at)) => {
                let found = usize::try_from(*at).ok().and_then(|at| items.get(at));
                found
                    .cloned()
                    .ok_or_else(|| format!("error calling index: index out of range: {at}"))?
            }
            (Value::Object(_) | Value::Map(_), Value::Text(name)) => {
                match value.entries().find(|entry| entry.0 == name.as_str()) {
                    Some((_, found)) => found.clone(),
                    None => return Ok(None),
                }
            }
            (other, _) => {
                return Err(format!(
                    "error calling index: can't index item of type {}",
                    type_name(other)
                ));
            }
        };
    }
    Ok(Some(value))
}

fn printf(format: &str, args: &[Value]) -> String {
    let (mut out, mut args, mut chars) = (String::new(), args.iter(), format.chars());
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut spec = String::new();
        let verb = loop {
            match chars.next() {
                Some(c) if c == '-' || c == '.' || c == '0' || c.is_ascii_digit() => spec.push(c),
                other => break other,
            }
        };
        if verb == Some('%') {
            out.push('%');
            continue;
        }
        let Some(value) = args.next() else {
            out += &format!("%!{}(MISSING)", verb.unwrap_or('?'));
            continue;
        };
        let text = match verb {
            Some('s')
                if !matches!(value, Value::Text(_) | Value::List(_))
                    && value.entries().len() == 0 =>
            {
                format!("%!s({}={})", go_type(value), show(value))
            }
            Some('d') if matches!(value, Value::Text(_) | Value::Bool(_) | Value::Float(_)) => {
                format!("%!d({}={})", go_type(value), show(value))
            }
            Some('q') => quote(&show(value)),
            Some('T') => type_name(value).to_owned(),
            Some('x') => value.as_i64().map_or_else(|| show(value), |n| format!("{n:x}")),
            _ => show(value),
        };
        let width: usize = spec.trim_start_matches('-').parse().unwrap_or(0);
        let zero = spec.starts_with('0') && verb == Some('d');
        let blank = if zero { "0" } else { " " }.repeat(width.saturating_sub(text.chars().count()));
        out += &if spec.starts_with('-') {
            format!("{text}{blank}")
        } else {
            format!("{blank}{text}")
        };
    }
    out
}

/// The type that Go gives a literal or a decoded value in messages of `printf`.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Int(_) | Value::UInt(_) => "int",
        other => type_name(other),
    }
}

fn truth(value: &Value) -> bool {
    match value {
        Value::Float(n) => *n != 0.0,
        value => !value.is_zero(),
    }
}

pub(super) fn show(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::Float(n) => json::float(*n),
        value => format_go_value(value),
    }
}

pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::UInt(_) => "int64",
        Value::Float(_) => "float64",
        Value::Text(_) => "string",
        Value::List(_) => "[]interface {}",
        Value::Object(_) | Value::Map(_) | Value::Raw(_) => "map[string]interface {}",
    }
}
