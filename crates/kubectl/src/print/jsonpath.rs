//! kubectl's JSONPath: a template language of its own, text with `{expressions}`,
//! `{range}` and `{end}`.

use object::Value;

use super::json;

/// A template, read.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    nodes: Vec<Node>,
    /// Whether a field that is not there is an error.
    pub(crate) strict: bool,
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

type Found = Vec<Value>;

impl Template {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { text, at: 0 };
        Ok(Self { nodes: parser.template()?, strict: false })
    }

    /// Reads a path that may lack braces and the first dot: `metadata.name`.
    pub(crate) fn relaxed(path: &str) -> Result<Self, String> {
        if path.is_empty() {
            return Ok(Self { nodes: Vec::new(), strict: false });
        }
        let bare = match (path.starts_with('{'), path.ends_with('}')) {
            (true, true) => &path[1..path.len() - 1],
            (false, false) => path,
            _ => {
                return Err("unexpected path string, expected a 'name1.name2' or '.name1.name2' or '{name1.name2}' or '{.name1.name2}'".to_string());
            }
        };
        let bare = bare.strip_prefix('.').unwrap_or(bare);
        Self::parse(&format!("{{.{bare}}}"))
    }

    /// What each part of the template finds.
    pub(crate) fn find(&self, value: &Value) -> Result<Vec<Found>, String> {
        Ok(self.run(&self.nodes, value, 0)?.0)
    }

    /// The text that the template makes of `value`.
    pub(crate) fn render(&self, value: &Value) -> Result<String, String> {
        let mut out = String::new();
        for found in self.find(value)? {
            let texts: Vec<String> = found.iter().map(text).collect();
            out.push_str(&texts.join(" "));
        }
        Ok(out)
    }

    /// The text where each part is a JSON list of what it finds.
    pub(crate) fn render_json(&self, value: &Value) -> Result<String, String> {
        let found = self.find(value)?;
        Ok(found
            .into_iter()
            .map(|found| json::indented(&Value::List(found.into())) + "\n")
            .collect())
    }

    /// Runs `nodes` up to the end, or to the `{end}` of the range it is within;
    /// gives what was found and how many nodes that took.
    fn run(
        &self,
        nodes: &[Node],
        value: &Value,
        depth: usize,
    ) -> Result<(Vec<Found>, usize), String> {
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
            let mut taken = skip(&nodes[at..]);
            for item in found {
                let (inner, length) = self.run(&nodes[at..], &item, depth + 1)?;
                all.extend(inner);
                taken = length;
            }
            at += taken;
        }
        Ok((all, at))
    }

    fn walk(&self, nodes: &[Node], mut values: Found) -> Result<Found, String> {
        for node in nodes {
            values = self.step(node, values)?;
        }
        Ok(values)
    }

    fn step(&self, node: &Node, values: Found) -> Result<Found, String> {
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
                let found: Found = values.iter().filter_map(has).collect();
                if found.is_empty() && self.strict && given > 0 {
                    return Err(format!("{name} is not found"));
                }
                found
            }
            Node::Wildcard => values.iter().flat_map(children).collect(),
            Node::Recursive => {
                let mut found = Vec::new();
                for value in &values {
                    descend(value, &mut found);
                }
                found
            }
            Node::Array(slice) => {
                let mut found = Vec::new();
                for value in values.iter().filter(|value| !value.is_null()) {
                    let Value::List(items) = value else {
                        return Err(format!("{} is not array or slice", go_type(value)));
                    };
                    found.extend(slice.of(items)?);
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
                        let text = text(value);
                        return Err(format!("{text} is not array or slice and cannot be filtered"));
                    };
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
        if lefts.is_empty() {
            return Ok(false);
        }
        let rights = self.walk(right, vec![item.clone()])?;
        if lefts.len() > 1 || rights.len() > 1 {
            return Err("can only compare one element at a time".to_owned());
        }
        match rights.first() {
            Some(right) => compare(&lefts[0], operator, right),
            None => Ok(false),
        }
    }
}

impl Slice {
    fn of(self, items: &[Value]) -> Result<Found, String> {
        let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let mut start = self.start.unwrap_or(0);
        let mut end = if self.single { start + 1 } else { self.end.unwrap_or(length) };
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
            return Err(outside(end - 1));
        }
        if start > end {
            return Err(format!("starting index {start} is greater than ending index {end}"));
        }
        let step = self.step.unwrap_or(1);
        if step <= 0 {
            return Err("step must be > 0".to_owned());
        }
        let index = |n: i64| usize::try_from(n).expect("checked above");
        Ok(items[index(start)..index(end)].iter().step_by(index(step)).cloned().collect())
    }
}

/// How many nodes a range takes whose list is empty.
fn skip(nodes: &[Node]) -> usize {
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

fn children(value: &Value) -> Found {
    match value {
        Value::List(items) => items.to_vec(),
        value => value.entries().map(|(_, value)| value.clone()).collect(),
    }
}

fn descend(value: &Value, found: &mut Found) {
    let inside = children(value);
    if !inside.is_empty() {
        found.push(value.clone());
        for value in &inside {
            descend(value, found);
        }
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

/// A value as text: JSON only where there is structure.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Text(text) => text.to_string(),
        value => json::compact(value),
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

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest().chars().next()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn template(&mut self) -> Result<Vec<Node>, String> {
        let mut nodes = Vec::new();
        while self.at < self.text.len() {
            let length = self.rest().find('{').unwrap_or(self.rest().len());
            if length > 0 {
                nodes.push(Node::Text(self.rest()[..length].to_owned()));
                self.at += length;
            }
            if self.rest().starts_with('{') {
                self.at += 1;
                nodes.push(Node::Action(self.action()?));
            }
        }
        Ok(nodes)
    }

    /// What stands between braces; the closing one is taken.
    fn action(&mut self) -> Result<Vec<Node>, String> {
        let mut nodes = Vec::new();
        loop {
            if self.rest().starts_with('}') {
                self.at += 1;
                return Ok(nodes);
            }
            if self.rest().starts_with("[?(") {
                nodes.push(self.filter()?);
                continue;
            }
            if self.rest().starts_with("..") {
                if nodes.last() == Some(&Node::Recursive) {
                    return Err("invalid multiple recursive descent".to_owned());
                }
                self.at += 2;
                nodes.push(Node::Recursive);
                if self.rest().starts_with(|c: char| c == '_' || c.is_alphanumeric()) {
                    nodes.push(self.field());
                }
                continue;
            }
            match self.next() {
                None | Some('\n' | '\r') => return Err("unclosed action".to_owned()),
                Some(' ' | '@' | '$') => {}
                Some('[') => self.array(&mut nodes)?,
                Some(quote @ ('"' | '\'')) => nodes.push(Node::Text(self.quoted(quote)?)),
                Some('.') => nodes.push(self.field()),
                Some(c) if c == '+' || c == '-' || c.is_numeric() => {
                    self.at -= c.len_utf8();
                    nodes.push(self.number()?);
                }
                Some(c) if c == '_' || c.is_alphanumeric() => {
                    self.at -= c.len_utf8();
                    nodes.push(self.identifier());
                }
                Some(c) => {
                    return Err(format!(
                        "unrecognized character in action: U+{:04X} '{c}'",
                        c as u32
                    ));
                }
            }
        }
    }

    fn field(&mut self) -> Node {
        let start = self.at;
        while let Some(c) = self.rest().chars().next() {
            if c == '\\' {
                self.next();
                self.next();
            } else if is_terminator(c) {
                break;
            } else {
                self.next();
            }
        }
        match &self.text[start..self.at] {
            "*" => Node::Wildcard,
            name => Node::Field(name.replace('\\', "")),
        }
    }

    fn identifier(&mut self) -> Node {
        let length = self.rest().find(is_terminator).unwrap_or(self.rest().len());
        let name = self.rest()[..length].to_owned();
        self.at += length;
        match name.as_str() {
            "true" => Node::Literal(Value::Bool(true)),
            "false" => Node::Literal(Value::Bool(false)),
            "range" => Node::Range,
            "end" => Node::End,
            _ => Node::Unknown(name),
        }
    }

    fn number(&mut self) -> Result<Node, String> {
        let start = self.at;
        self.next();
        let length =
            self.rest().find(|c: char| c != '.' && !c.is_numeric()).unwrap_or(self.rest().len());
        self.at += length;
        let text = &self.text[start..self.at];
        if let Ok(n) = text.parse::<i64>() {
            return Ok(Node::Literal(Value::Int(n)));
        }
        let n = text.parse().map_err(|_| format!("cannot parse number {text}"))?;
        Ok(Node::Literal(Value::Float(n)))
    }

    fn quoted(&mut self, quote: char) -> Result<String, String> {
        let start = self.at;
        loop {
            match self.next() {
                None | Some('\n') => return Err("unterminated quoted string".to_owned()),
                Some(c) if c == quote && !self.text[..self.at - 1].ends_with('\\') => break,
                Some(_) => {}
            }
        }
        let inside = &self.text[start..self.at - 1];
        unquote(inside, quote).ok_or_else(|| {
            let whole = &self.text[start - 1..self.at];
            format!("unquote string {whole} error invalid syntax")
        })
    }

    fn array(&mut self, nodes: &mut Vec<Node>) -> Result<(), String> {
        let length = self.rest().find([']', '\n']).filter(|at| self.rest()[*at..].starts_with(']'));
        let length = length.ok_or("unterminated array")?;
        let inside = self.rest()[..length].to_owned();
        self.at += length + 1;
        let parts: Vec<&str> = inside.split(',').collect();
        if parts.len() > 1 {
            let mut union = Vec::new();
            for part in parts {
                union.push(Parser::inner(&format!("[{}]", part.trim_matches(' ')))?);
            }
            nodes.push(Node::Union(union));
            return Ok(());
        }
        let key = inside.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
        if let Some(key) = key.filter(|key| !key.contains('\'')) {
            nodes.extend(Parser::inner(&format!(".{key}"))?);
            return Ok(());
        }
        nodes.push(Node::Array(slice(if inside == "*" { ":" } else { &inside })?));
        Ok(())
    }

    fn inner(text: &str) -> Result<Vec<Node>, String> {
        let text = format!("{{{text}}}");
        let mut parser = Parser { text: &text, at: 1 };
        parser.action()
    }

    fn filter(&mut self) -> Result<Node, String> {
        self.at += 3;
        let start = self.at;
        let (mut begun, mut ended, mut pair) = (false, false, ' ');
        loop {
            match self.next() {
                None | Some('\n') => return Err("unterminated filter".to_owned()),
                Some(c @ ('"' | '\'')) => {
                    if !begun {
                        (begun, pair) = (true, c);
                    } else if c == pair && !self.text[..self.at - 1].ends_with('\\') {
                        ended = true;
                    }
                }
                Some(')') if begun == ended => break,
                Some(_) => {}
            }
        }
        let inside = self.text[start..self.at - 1].to_owned();
        if self.next() != Some(']') {
            return Err("unclosed array expect ]".to_owned());
        }
        let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
        let split = inside.find(is_operator).filter(|at| *at > 0).and_then(|at| {
            let rest = &inside[at..];
            let length = rest.find(|c| !is_operator(c))?;
            Some((&inside[..at], &rest[..length], &rest[length..]))
        });
        match split {
            None => Ok(Node::Filter {
                left: Self::inner(&inside)?,
                operator: "exists".to_owned(),
                right: Vec::new(),
            }),
            Some((left, operator, right)) => Ok(Node::Filter {
                left: Self::inner(left)?,
                operator: operator.to_owned(),
                right: Self::inner(right)?,
            }),
        }
    }
}

fn slice(text: &str) -> Result<Slice, String> {
    let wrong = || format!("invalid array index {text}");
    let parts: Vec<&str> = text.split(':').collect();
    let fits = |part: &&str| {
        let digits = part.strip_prefix('-').unwrap_or(part);
        digits.bytes().all(|b| b.is_ascii_digit())
    };
    if parts.len() > 3 || !parts.iter().all(fits) {
        return Err(wrong());
    }
    let number = |at: usize| match parts.get(at) {
        None | Some(&"") => Ok(None),
        Some(part) => {
            part.parse().map(Some).map_err(|_| format!("array index {part} is not a number"))
        }
    };
    Ok(Slice { start: number(0)?, end: number(1)?, single: parts.len() == 1, step: number(2)? })
}

fn is_terminator(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

fn unquote(text: &str, quote: char) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let code = |chars: &mut std::str::Chars<'_>, length: usize| {
            let digits: String = chars.take(length).collect();
            u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32)
        };
        out.push(match chars.next()? {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'v' => '\u{b}',
            '\\' => '\\',
            'x' => code(&mut chars, 2)?,
            'u' => code(&mut chars, 4)?,
            'U' => code(&mut chars, 8)?,
            c if c == quote => c,
            _ => return None,
        });
    }
    Some(out)
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
}
