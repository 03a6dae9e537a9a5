//! Kubernetes' JSONPath templates: text with `{expressions}`, `{range}` and `{end}`.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::unwrap_used, clippy::expect_used)]

mod parse;

use std::cell::Cell;

use object::{Value, to_json};

use self::parse::Parser;

/// A parsed template.
#[derive(Clone, Debug)]
pub struct Template {
    nodes: Vec<Node>,
    /// Whether a missing key is an error (the inverse of upstream's `AllowMissingKeys`).
    pub error_on_missing_key: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Text(String),
    Action(Vec<Node>),
    Field(String),
    Wildcard,
    Recursive,
    Array(Slice),
    Filter { left: Vec<Node>, operator: String, right: Vec<Node> },
    Union(Vec<Vec<Node>>),
    Literal(Value),
    Range,
    End,
    Unknown(String),
}

/// `[start:end:step]`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Slice {
    start: Option<i64>,
    end: Option<i64>,
    /// `[n]`: the end follows from the start.
    single: bool,
    step: Option<i64>,
}

/// The values that one part of a template finds.
pub type Matches = Vec<Value>;

impl Template {
    pub fn parse(text: &str) -> Result<Self, String> {
        Ok(Self { nodes: Parser::new(text).template()?, error_on_missing_key: false })
    }

    /// Parses a path that may lack the braces and the first dot: `metadata.name`.
    pub fn parse_relaxed(path: &str) -> Result<Self, String> {
        if path.is_empty() {
            return Ok(Self { nodes: Vec::new(), error_on_missing_key: false });
        }
        let bare = match (path.strip_prefix('{'), path.ends_with('}')) {
            (Some(inner), true) => inner.strip_suffix('}').unwrap_or(inner),
            (None, false) => path,
            _ => {
                return Err("unexpected path string, expected a 'name1.name2' or '.name1.name2' or '{name1.name2}' or '{.name1.name2}'".to_string());
            }
        };
        let bare = bare.strip_prefix('.').unwrap_or(bare);
        Self::parse(&format!("{{.{bare}}}"))
    }

    /// Evaluates the template, without a limit.
    pub fn find_results(&self, value: &Value) -> Result<Vec<Matches>, String> {
        self.find_within(value, usize::MAX)
    }

    /// Like `find_results`, but fails if more than `most` values are visited. Each `..` and `{range}` multiplies the
    /// number of values, so a short template could run almost for ever.
    pub fn find_within(&self, value: &Value, most: usize) -> Result<Vec<Matches>, String> {
        let run = Run { strict: self.error_on_missing_key, left: Cell::new(most) };
        Ok(run.run(&self.nodes, value, 0)?.0)
    }

    /// Evaluates the template and formats the result as text.
    pub fn render(&self, value: &Value) -> Result<String, String> {
        let mut out = String::new();
        for found in self.find_results(value)? {
            let texts: Vec<String> = found.iter().map(format_value).collect();
            out.push_str(&texts.join(" "));
        }
        Ok(out)
    }
}

/// One evaluation of a template.
struct Run {
    strict: bool,
    /// How many more values may be visited.
    left: Cell<usize>,
}

impl Run {
    /// Evaluates `nodes` up to the end, or to the `{end}` of the current range. Returns the matches and the number of
    /// nodes evaluated.
    fn run(
        &self,
        nodes: &[Node],
        value: &Value,
        depth: usize,
    ) -> Result<(Vec<Matches>, usize), String> {
        let mut all = Vec::new();
        let mut at = 0;
        while let Some(node) = nodes.get(at) {
            at += 1;
            let Node::Action(inner) = node else {
                if let Node::Text(text) = node {
                    all.push(vec![Value::from(text.as_str())]);
                }
                continue;
            };
            if inner.contains(&Node::End) {
                if depth == 0 {
                    return Err("not in range, nothing to end".to_owned());
                }
                return Ok((all, at));
            }
            let found = self.walk(inner, vec![value.clone()])?;
            if !inner.contains(&Node::Range) {
                all.push(found);
                continue;
            }
            let rest = nodes.get(at..).unwrap_or_default();
            let mut taken = nodes_until_end(rest);
            for item in found {
                let (inner, length) = self.run(rest, &item, depth + 1)?;
                all.extend(inner);
                taken = length;
            }
            at += taken;
        }
        Ok((all, at))
    }

    fn walk(&self, nodes: &[Node], mut values: Matches) -> Result<Matches, String> {
        for node in nodes {
            values = self.step(node, values)?;
            self.count(values.len() + 1)?;
        }
        Ok(values)
    }

    fn count(&self, found: usize) -> Result<(), String> {
        let left = self.left.get().checked_sub(found).ok_or("too many values are found")?;
        self.left.set(left);
        Ok(())
    }

    fn step(&self, node: &Node, values: Matches) -> Result<Matches, String> {
        Ok(match node {
            Node::Text(text) => vec![Value::from(text.as_str())],
            Node::Action(inner) => self.walk(inner, values)?,
            Node::Literal(literal) => vec![literal.clone(); values.len()],
            Node::Range => values,
            Node::End => return Err("not in range, nothing to end".to_owned()),
            Node::Unknown(name) => return Err(format!("unrecognized identifier {name}")),
            Node::Field(name) => {
                let given = values.len();
                let has = |value: &Value| {
                    value
                        .entries()
                        .find(|entry| entry.0 == name.as_str())
                        .map(|entry| entry.1.clone())
                };
                let found: Matches = values.iter().filter_map(has).collect();
                if found.is_empty() && self.strict && given > 0 {
                    return Err(format!("{name} is not found"));
                }
                found
            }
            Node::Wildcard => {
                let mut found = Vec::new();
                for value in &values {
                    let inside = children(value);
                    self.count(inside.len())?;
                    found.extend(inside);
                }
                found
            }
            Node::Recursive => {
                let mut found = Vec::new();
                for value in &values {
                    self.descend(value, &mut found)?;
                }
                found
            }
            Node::Array(slice) => {
                let mut found = Vec::new();
                for value in values.iter().filter(|value| !value.is_null()) {
                    let Value::List(items) = value else {
                        return Err(format!("{} is not array or slice", go_type(value)));
                    };
                    found.extend(slice.select(items)?);
                    self.count(items.len())?;
                }
                found
            }
            Node::Union(parts) => {
                let mut found = Vec::new();
                for part in parts {
                    found.extend(self.walk(part, values.clone())?);
                }
                found
            }
            Node::Filter { left, operator, right } => {
                let mut found = Vec::new();
                for value in &values {
                    let Value::List(items) = value else {
                        let text = format_value(value);
                        return Err(format!("{text} is not array or slice and cannot be filtered"));
                    };
                    self.count(items.len())?;
                    for item in items {
                        if self.passes(item, left, operator, right)? {
                            found.push(item.clone());
                        }
                    }
                }
                found
            }
        })
    }

    fn descend(&self, value: &Value, found: &mut Matches) -> Result<(), String> {
        let inside = children(value);
        self.count(inside.len() + 1)?;
        if !inside.is_empty() {
            found.push(value.clone());
            inside.iter().try_for_each(|value| self.descend(value, found))?;
        }
        Ok(())
    }

    fn passes(
        &self,
        item: &Value,
        left: &[Node],
        operator: &str,
        right: &[Node],
    ) -> Result<bool, String> {
        let lefts = self.walk(left, vec![item.clone()]);
        if operator == "exists" {
            return Ok(lefts.is_ok_and(|lefts| !lefts.is_empty()));
        }
        let lefts = lefts?;
        let Some(left) = lefts.first() else { return Ok(false) };
        let rights = self.walk(right, vec![item.clone()])?;
        if lefts.len() > 1 || rights.len() > 1 {
            return Err("can only compare one element at a time".to_owned());
        }
        match rights.first() {
            Some(right) => compare(left, operator, right),
            None => Ok(false),
        }
    }
}

impl Slice {
    fn select(self, items: &[Value]) -> Result<Matches, String> {
        let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let mut start = self.start.unwrap_or(0);
        // Overflow wraps as in Go: the largest index is out of bounds, not an empty slice.
        let mut end = if self.single { start.wrapping_add(1) } else { self.end.unwrap_or(length) };
        if start < 0 {
            start += length;
        }
        if end < 0 || end == 0 && self.single {
            end += length;
        }
        if start == end {
            return Ok(Vec::new());
        }
        let outside =
            |index: i64| format!("array index out of bounds: index {index}, length {length}");
        if start >= length || start < 0 {
            return Err(outside(start));
        }
        if end > length || end < 0 {
            return Err(outside(end.saturating_sub(1)));
        }
        if start > end {
            return Err(format!("starting index {start} is greater than ending index {end}"));
        }
        let step = self.step.unwrap_or(1);
        if step <= 0 {
            return Err("step must be > 0".to_owned());
        }
        let index = |n: i64| usize::try_from(n).unwrap_or(usize::MAX);
        let found = items.get(index(start)..index(end)).unwrap_or_default();
        Ok(found.iter().step_by(index(step)).cloned().collect())
    }
}

/// The number of nodes to skip for a range over an empty list.
fn nodes_until_end(nodes: &[Node]) -> usize {
    let mut depth = 0;
    for (at, node) in nodes.iter().enumerate() {
        let Node::Action(inner) = node else { continue };
        if inner.contains(&Node::Range) {
            depth += 1;
        } else if inner.contains(&Node::End) {
            if depth == 0 {
                return at + 1;
            }
            depth -= 1;
        }
    }
    nodes.len()
}

fn children(value: &Value) -> Matches {
    match value {
        Value::List(items) => items.to_vec(),
        value => value.entries().map(|(_, value)| value.clone()).collect(),
    }
}

fn compare(left: &Value, operator: &str, right: &Value) -> Result<bool, String> {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let order = match (left, right) {
        (Value::Text(a), Value::Text(b)) => a.cmp(b),
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b).unwrap_or(Less),
        (Value::Bool(a), Value::Bool(b)) if matches!(operator, "==" | "!=") => a.cmp(b),
        (Value::Bool(_), Value::Bool(_))
        | (Value::List(_) | Value::Object(_) | Value::Map(_) | Value::Null, _) => {
            return Err("invalid type for comparison".to_owned());
        }
        _ => return Err("incompatible types for comparison".to_owned()),
    };
    Ok(match operator {
        "<" => order == Less,
        ">" => order == Greater,
        "==" => order == Equal,
        "!=" => order != Equal,
        "<=" => order != Greater,
        ">=" => order != Less,
        _ => return Err(format!("unrecognized filter operator {operator}")),
    })
}

/// Formats a value as text: strings as they are, anything else as JSON.
pub fn format_value(value: &Value) -> String {
    match value {
        Value::Text(text) => text.to_string(),
        value => String::from_utf8_lossy(&to_json(value)).into_owned(),
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Text(_) => "string",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::UInt(_) => "int64",
        Value::Float(_) => "float64",
        _ => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(template: &str) -> String {
        let value = object::from_json(
            br#"{"kind":"List","items":[{"metadata":{"name":"a","labels":{"x.y/z":"1"}},"n":1,"ok":true},
                {"metadata":{"name":"b"},"n":2,"list":[1,2,3]}]}"#,
        );
        let found = Template::parse(template).and_then(|t| t.render(&value.expect("JSON")));
        found.unwrap_or_else(|error| format!("error: {error}"))
    }

    #[test]
    fn renders_as_upstream_does() {
        for (template, right) in [
            ("{.kind}", "List"),
            ("x {.items[*].metadata.name} y", "x a b y"),
            ("{range .items[*]}{.metadata.name}{\"\\t\"}{.n}{'\\n'}{end}", "a\t1\nb\t2\n"),
            ("{.items[0].metadata.labels.x\\.y/z}", "1"),
            ("{.items[0].metadata.labels}", r#"{"x.y/z":"1"}"#),
            ("{.items[?(@.n==2)].metadata.name}", "b"),
            ("{.items[?(@.n>1)].metadata.name}", "b"),
            ("{.items[?(@.ok)].metadata.name}", "a"),
            ("{.items[?(@.metadata.name==\"a\")].n}", "1"),
            ("{.items[-1].metadata.name}", "b"),
            ("{.items[1].list[0:2]}", "1 2"),
            ("{.items[1].list[::2]}", "1 3"),
            ("{.items[0]['metadata.name','n']}", "a 1"),
            ("{..name}", "a b"),
            ("{.nope}", ""),
            ("{range .nope[*]}x{end}y", "y"),
            ("{$.kind}{@.kind}", "ListList"),
            ("{.items[9].n}", "error: array index out of bounds: index 9, length 2"),
            ("{.kind", "error: unclosed action"),
            ("{end}", "error: not in range, nothing to end"),
            ("{.items[?(@.n=~1)]}", "error: unrecognized character in action: U+007E '~'"),
            ("{.items[*].list[*]}", "1 2 3"),
        ] {
            assert_eq!(render(template), right, "{template}");
        }
    }

    #[test]
    fn a_template_of_somebody_else_ends_in_time() {
        let mut value = Value::Int(1);
        for _ in 0..100 {
            value = [value.clone(), value].into_iter().take(1).collect();
        }
        let find = |template: &str| {
            let template = Template::parse(template).expect("a template");
            template.find_within(&value, 20_000)
        };
        assert!(find("{..[*]}").is_ok());
        let why = find(&format!("{{{}}}", "..[*]".repeat(12))).expect_err("100^12 values");
        assert_eq!(why, "too many values are found");
    }

    #[test]
    fn indices_may_be_as_large_as_numbers_are() {
        for index in ["9223372036854775807", "-9223372036854775808", "0:-9223372036854775808"] {
            let shown = render(&format!("{{.items[{index}]}}"));
            assert!(shown.starts_with("error: array index out of bounds"), "{index}: {shown}");
        }
    }
}
