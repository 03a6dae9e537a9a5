//! Parser for JSONPath templates.

use object::Value;

use super::{Node, Slice};

pub(super) struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The text parsed since `start`, without the last `less` bytes.
    fn since(&self, start: usize, less: usize) -> &str {
        self.text.get(start..self.at.saturating_sub(less)).unwrap_or_default()
    }

    /// Consumes `length` bytes.
    fn take(&mut self, length: usize) -> String {
        let taken = self.rest().get(..length).unwrap_or_default().to_owned();
        self.at += taken.len();
        taken
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest().chars().next()?;
        self.at += c.len_utf8();
        Some(c)
    }

    pub(super) fn template(&mut self) -> Result<Vec<Node>, String> {
        let mut nodes = Vec::new();
        while self.at < self.text.len() {
            let length = self.rest().find('{').unwrap_or(self.rest().len());
            if length > 0 {
                nodes.push(Node::Text(self.take(length)));
            }
            if self.rest().starts_with('{') {
                self.at += 1;
                nodes.push(Node::Action(self.action()?));
            }
        }
        Ok(nodes)
    }

    /// Parses up to and including the closing brace.
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
        match self.since(start, 0) {
            "*" => Node::Wildcard,
            name => Node::Field(name.replace('\\', "")),
        }
    }

    fn identifier(&mut self) -> Node {
        let length = self.rest().find(is_terminator).unwrap_or(self.rest().len());
        let name = self.take(length);
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
        let text = self.since(start, 0);
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
                Some(c) if c == quote && !self.since(0, 1).ends_with('\\') => break,
                Some(_) => {}
            }
        }
        unquote(self.since(start, 1), quote).ok_or_else(|| {
            let whole = self.since(start.saturating_sub(1), 0);
            format!("unquote string {whole} error invalid syntax")
        })
    }

    fn array(&mut self, nodes: &mut Vec<Node>) -> Result<(), String> {
        let length = self.rest().find([']', '\n']).ok_or("unterminated array")?;
        let inside = self.take(length);
        if self.next() != Some(']') {
            return Err("unterminated array".to_owned());
        }
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
                    } else if c == pair && !self.since(0, 1).ends_with('\\') {
                        ended = true;
                    }
                }
                Some(')') if begun == ended => break,
                Some(_) => {}
            }
        }
        let inside = self.since(start, 1).to_owned();
        if self.next() != Some(']') {
            return Err("unclosed array expect ]".to_owned());
        }
        let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
        let split = inside.find(is_operator).filter(|at| *at > 0).and_then(|at| {
            let (left, rest) = inside.split_at_checked(at)?;
            let (operator, right) = rest.split_at_checked(rest.find(|c| !is_operator(c))?)?;
            Some((left, operator, right))
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
